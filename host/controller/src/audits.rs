//! What the shadows of the slot `release` would decide about the machines that exist. Each reconcile tells it of its
//! machine; the status of a policy sums it up.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use windlass_inspect::audit::{Comparison, Decided};
use windlass_lifecycle::Tried;
use windlass_policy::PolicyIdentity;

use crate::kinds::{PolicyAudit, PolicyDifference, PolicyFailures};

/// What is known of all machines, by shadow and by the UID of the machines' object.
#[derive(Debug, Default)]
pub(crate) struct Audits(Mutex<HashMap<PolicyIdentity, BTreeMap<String, Vec<Seen>>>>);

/// What would become of a machine.
#[derive(Debug)]
struct Seen {
    /// The object: its namespace and its name; of a server of a cluster, also the node.
    name: String,
    today: Decided,
    then: Decided,
    lacks_price: bool,
}

impl Audits {
    /// Takes over what was decided about an object's machines, each with its name, in place of what was known of them.
    pub(crate) fn learn(&self, uid: &str, is_server: bool, machines: Vec<(String, Vec<Tried>)>) {
        self.forget(uid);
        let mut known = self.0.lock();
        for (name, tried) in machines {
            for Tried { shadow, today, then, has_price } in tried {
                let seen = Seen {
                    name: name.clone(),
                    today: Decided::of_release(&today, &shadow),
                    then: Decided::of_release(&then, &shadow),
                    lacks_price: is_server && !has_price,
                };
                known.entry(shadow).or_default().entry(uid.to_owned()).or_default().push(seen);
            }
        }
    }

    /// The object is being deleted, or nobody shadows its release any more.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().retain(|_, machines| {
            machines.remove(uid);
            !machines.is_empty()
        });
    }

    /// What a policy would decide. `None`: it is no shadow, or was asked about no machine yet.
    pub(crate) fn of(&self, policy: &PolicyIdentity) -> Option<PolicyAudit> {
        let known = self.0.lock();
        let machines = known.get(policy)?;
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let machines = || machines.values().flatten();
        let named = machines().map(|seen| (&seen.today, &seen.then, || seen.name.clone()));
        let comparison = Comparison::of(named);
        let short = |reason: &str| reason.chars().take(500).collect::<String>();
        Some(PolicyAudit {
            machines: count(machines().count()),
            same: count(comparison.same),
            destructive: count(comparison.destroyed()),
            failed: count(comparison.failures()),
            without_price: count(machines().filter(|seen| seen.lacks_price).count()),
            differences: comparison
                .groups
                .into_iter()
                .map(|group| PolicyDifference {
                    today: group.before,
                    then: group.after,
                    destructive: group.destructive,
                    count: count(group.count),
                    reason: group.reason.as_deref().map(short),
                    machines: group.machines,
                })
                .collect(),
            failures: comparison
                .failed
                .into_iter()
                .take(PolicyAudit::MAX_FAILURES)
                .map(|failed| PolicyFailures {
                    reason: short(&failed.reason),
                    count: count(failed.count),
                    machines: failed.machines,
                })
                .collect(),
        })
    }
}
