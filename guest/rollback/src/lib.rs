//! The default policy of the slot `rollback`. Knows what depends on what on Scaleway; must not know how anything is
//! deleted. README.md holds the decisions as a table.

use windlass_guest_sdk::prelude::*;

use rollback::{Answer, Evidence, Plan, Question, Resource};

settings! {
    /// Undoes everything.
    pub struct DefaultRollback {}
}

impl Rollback for DefaultRollback {
    fn decide(&self, question: Question) -> Answer {
        let resources = &question.resources;
        let mut plan = Plan::new();

        // Servers first: what is attached to them can be deleted only when it no longer is.
        let gone: Vec<Option<u32>> = resources
            .iter()
            .enumerate()
            .map(|(position, resource)| is_ours_to_end(resource).then(|| plan.delete(position, &[])))
            .collect();
        let all_gone: Vec<u32> = gone.iter().copied().flatten().collect();

        let (mut kept_hosts, mut kept_unknown) = (0, 0);
        for (position, resource) in resources.iter().enumerate() {
            if is_ours_to_end(resource) {
                continue;
            }
            let holder = resource.attached_to.map(|server| server as usize);
            let held_by_unknown = holder.and_then(|holder| resources.get(holder)).is_some_and(is_ours_and_unknown);
            match resource.kind {
                ResourceKind::AppleSiliconServer => {
                    kept_hosts += u32::from(resource.owned);
                    plan.keep(position);
                }
                _ if !resource.owned => {
                    plan.keep(position);
                }
                _ if is_ours_and_unknown(resource) || held_by_unknown => {
                    kept_unknown += 1;
                    plan.keep(position);
                }
                _ => {
                    match holder.and_then(|holder| gone.get(holder).copied()) {
                        // Attached to a server that goes: after it.
                        Some(Some(server_gone)) => plan.delete(position, &[server_gone]),
                        // Attached to a server that stays, which isn't ours to end: it is taken off it first.
                        Some(None) => {
                            let detached = plan.step(position, rollback::Action::Detach, &[]);
                            plan.delete(position, &[detached])
                        }
                        // Found loose, perhaps only because the answer that told of its server was lost: after all
                        // servers.
                        None => plan.delete(position, &all_gone),
                    };
                }
            }
        }
        let answer = Answer::plan(plan);
        match (kept_hosts, kept_unknown) {
            (0, 0) => answer,
            (0, _) => answer.because("what this policy does not know is kept, with what is attached to it"),
            _ => answer.because("physical hosts are released by the release slot, never by a rollback"),
        }
    }
}

/// A server that is deleted.
fn is_ours_to_end(resource: &Resource) -> bool {
    resource.kind == ResourceKind::Server && resource.owned && !is_ours_and_unknown(resource)
}

/// Of a kind, or found in a way, that a later version of the contract has a word for.
fn is_ours_and_unknown(resource: &Resource) -> bool {
    resource.owned && (resource.kind == ResourceKind::Other || resource.evidence == Evidence::Other)
}

export_policy!(DefaultRollback: rollback);

#[cfg(test)]
mod tests;
