//! Which machines operations removed, and who decided it: as their entries say.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_policy::slots::rollback::Action;

use super::note::{Note, PLAN, RELEASE_DECIDED, Record};
use super::record::{
    Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName,
};
use super::step::Step;
use super::{Condition, ENTRIES, Journal, LogEntry, OPERATIONS, Query, operations_where, read_entries};
use crate::Error;
use crate::cleanup::CleanupSpecification;
use crate::machines::actions::{REINSTALL_STEP, SCHEDULE_STEP, TERMINATE_STEP};
use crate::release::Removal;

/// Operations whose entries are read together.
const PAGE: u32 = 200;

/// A machine that an operation removed, or wiped for its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovedMachine {
    pub machine: ResourceName,
    /// Its name, where the journal knows it; of a Mac, its claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was done: `delete-server`; to a Mac `terminate`, `schedule-deletion` or `reinstall`.
    pub step: String,
    /// When that was known to be done, in milliseconds since 1970.
    pub at: u64,
    /// The policy that decided it: of the slot `release`, or where that was not asked, of the slot `rollback`. Absent:
    /// none was asked, or by a version that does not record it.
    pub decided_by: Option<String>,
    /// What that policy said to people.
    pub reason: Option<String>,
    /// The id of its decision, which is in the decision log of the operation's host.
    pub decision: Option<String>,
}

/// Who decided something, and why.
#[derive(Clone, Default)]
struct Decider {
    decided_by: Option<String>,
    reason: Option<String>,
    decision: Option<String>,
}

impl Decider {
    fn new(decided_by: String, reason: Option<String>, decision: &Value) -> Self {
        Self { decided_by: Some(decided_by), reason, decision: decision.as_str().map(str::to_owned) }
    }
}

impl Journal {
    /// The operations that removed machines since the filter's time, the newest first, each with these machines.
    ///
    /// # Errors
    /// [`Error::JournalRow`] names the row that cannot be understood.
    pub fn removing(&self, filter: &OperationFilter) -> Result<Vec<(Operation, Vec<RemovedMachine>)>, Error> {
        let most = filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut found = Vec::new();
        let mut before = filter.before.clone();
        loop {
            let page = OperationFilter { before, limit: Some(PAGE), ..filter.clone() };
            let mut query = page.query();
            query.all.push(may_remove());
            let operations = self.matching(&query)?;
            before = operations.last().filter(|_| operations.len() == PAGE as usize).map(|last| last.id.clone());
            found.extend(self.with_removed(operations, filter.since.unwrap_or_default())?);
            if before.is_none() || found.len() >= most {
                found.truncate(most);
                return Ok(found);
            }
        }
    }

    /// Those of these operations that removed machines since then, with the machines.
    fn with_removed(
        &self,
        operations: Vec<Operation>,
        since: u64,
    ) -> Result<Vec<(Operation, Vec<RemovedMachine>)>, Error> {
        let ids: Vec<&str> = operations.iter().map(|operation| operation.id.as_str()).collect();
        let notes = [PLAN, RELEASE_DECIDED].map(str::to_owned);
        let steps = removals().into_iter().map(|(step, _)| step).chain(notes).collect();
        let all = vec![Condition::one_of("id", &ids), Condition::In("step", steps)];
        let query = Query { families: OPERATIONS, all, limit: Some(ENTRIES), ..Query::default() };
        let mut entries: HashMap<String, Vec<LogEntry>> = HashMap::new();
        for entry in self.log.entries(&query)? {
            entries.entry(entry.id.clone()).or_default().push(entry);
        }
        let names = self.names_of_creations(&operations)?;
        let mut found = Vec::new();
        for operation in operations {
            let entries = read_entries(entries.remove(operation.id.as_str()).unwrap_or_default())?;
            let mut removed = removed_by(&operation, &entries);
            removed.retain(|machine| machine.at >= since);
            if let Some(name) = name_in(&operation, &names) {
                removed.iter_mut().for_each(|machine| machine.name = Some(name.clone()));
            }
            if !removed.is_empty() {
                found.push((operation, removed));
            }
        }
        Ok(found)
    }

    /// The names of the servers whose creations these operations name, by the creation.
    fn names_of_creations(&self, operations: &[Operation]) -> Result<BTreeMap<String, String>, Error> {
        let creations: Vec<&str> = operations.iter().filter_map(creation_of).collect();
        if creations.is_empty() {
            return Ok(BTreeMap::new());
        }
        let creations = self.matching(&operations_where(vec![Condition::one_of("id", &creations)]))?;
        Ok(creations.iter().map(|creation| (creation.id.to_string(), creation.server_name().to_owned())).collect())
    }
}

/// The steps by which a machine is gone, or wiped, with the kind of the machine.
fn removals() -> [(String, ResourceKind); 4] {
    let mac = |step: &str| (step.to_owned(), ResourceKind::AppleSiliconServer);
    let server = ResourceKind::Server;
    let delete = (Step::Plan(Action::Delete, server).word(), server);
    [delete, mac(TERMINATE_STEP), mac(SCHEDULE_STEP), mac(REINSTALL_STEP)]
}

/// Operations that remove machines, and creations that did not end well.
fn may_remove() -> Condition {
    use OperationKind::{CleanupServer, CreateServer, ReleaseMachine, Sweep};
    Condition::Any(vec![
        Condition::one_of("kind", &[CleanupServer, Sweep, ReleaseMachine]),
        Condition::All(vec![
            Condition::is("kind", CreateServer.as_str()),
            Condition::is("state", OperationState::Done.as_str()).not(),
        ]),
    ])
}

fn creation_of(operation: &Operation) -> Option<&str> {
    operation.specification.get("creation").and_then(Value::as_str)
}

/// The name of the one machine that an operation is about.
fn name_in(operation: &Operation, creations: &BTreeMap<String, String>) -> Option<String> {
    match operation.kind {
        OperationKind::CreateServer => Some(operation.server_name().to_owned()),
        OperationKind::CleanupServer => creation_of(operation).and_then(|creation| creations.get(creation)).cloned(),
        _ => operation.specification.get("claim").and_then(Value::as_str).map(str::to_owned),
    }
}

/// The machines that an operation removed, in the order of its entries. A note that cannot be read decides nothing.
fn removed_by(operation: &Operation, entries: &[Entry]) -> Vec<RemovedMachine> {
    let removals = removals();
    let mut planned = Decider::default();
    let mut released: HashMap<&str, Decider> = HashMap::new();
    let mut removed: Vec<RemovedMachine> = Vec::new();
    for entry in entries {
        match (entry.phase, &entry.resource) {
            (Phase::Note, resource) => match (entry.record(), resource) {
                (Ok(Record::Noted(Note::Planned { decision, decided_by, reason, .. })), _) => {
                    planned = Decider::new(decided_by, reason, &decision);
                }
                (Ok(Record::Noted(Note::ReleaseDecided(answer))), Some(machine)) => {
                    let decider = Decider::new(answer.decided_by, answer.reason, &answer.decision);
                    released.insert(&machine.id, decider);
                }
                _ => {}
            },
            (Phase::Outcome, Some(machine)) => {
                let is_removal = removals.iter().any(|(step, kind)| (step, kind) == (&entry.step, &machine.kind));
                let is_known = removed.iter().any(|known| (&known.machine, &known.step) == (machine, &entry.step));
                if is_removal && !is_known {
                    let decider = released.get(machine.id.as_str()).unwrap_or(&planned).clone();
                    let Decider { decided_by, reason, decision } = match is_forced(operation) {
                        true => Decider::default(),
                        false => decider,
                    };
                    let (machine, step, at) = (machine.clone(), entry.step.clone(), entry.at);
                    removed.push(RemovedMachine { machine, name: None, step, at, decided_by, reason, decision });
                }
            }
            _ => {}
        }
    }
    removed
}

/// Whether an operator removes it, whatever policies would say.
fn is_forced(operation: &Operation) -> bool {
    operation.kind == OperationKind::CleanupServer
        && CleanupSpecification::deserialize(&operation.specification)
            .is_ok_and(|cleanup| cleanup.removal == Removal::Force)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::OperationId;

    fn operation(kind: OperationKind, specification: Value) -> Operation {
        serde_json::from_value(json!({
            "id": OperationId::parse("ci-0nqrsxtrgyn1").unwrap(), "kind": kind, "group": "ci", "zone": "fr-par-1",
            "owner": "team", "specification": specification, "policies": [], "runner": "1", "state": "done",
            "cause": null, "reasons": [], "report": null, "ended_by": null, "created_at": 1, "updated_at": 2,
        }))
        .unwrap()
    }

    fn entry(at: u64, step: &str, phase: Phase, machine: Option<(ResourceKind, &str)>, data: Value) -> Entry {
        let resource = machine.map(|(kind, id)| ResourceName {
            kind,
            id: id.to_owned(),
            zone: "fr-par-1".to_owned(),
            server: None,
        });
        Entry { sequence: at, step: step.to_owned(), phase, resource, data, at }
    }

    fn plan(at: u64, by: &str) -> Entry {
        let data = json!({ "decision": "d-1", "decided-by": by, "reason": null, "steps": [] });
        entry(at, PLAN, Phase::Note, None, data)
    }

    fn released(at: u64, machine: (ResourceKind, &str), by: &str) -> Entry {
        let data = json!({
            "decision": "d-2", "decided-by": by, "reason": "it is old", "verdict": "terminate", "until": null,
        });
        entry(at, RELEASE_DECIDED, Phase::Note, Some(machine), data)
    }

    const SERVER: (ResourceKind, &str) = (ResourceKind::Server, "a");
    const MAC: (ResourceKind, &str) = (ResourceKind::AppleSiliconServer, "m");

    #[test]
    fn the_release_slot_decided_where_it_was_asked_and_else_the_plan() {
        let cleanup = operation(OperationKind::CleanupServer, json!({ "creation": null, "server": "a" }));
        let deleted = entry(5, "delete-server", Phase::Outcome, Some(SERVER), json!({}));
        let of = |entries: &[Entry]| {
            let removed = removed_by(&cleanup, entries);
            removed.into_iter().map(|it| (it.at, it.decided_by, it.reason, it.decision)).collect::<Vec<_>>()
        };
        let text = |text: &str| Some(text.to_owned());
        let (by_release, by_plan) = (released(1, SERVER, "age 1.0"), plan(2, "undo 1.0"));
        let decided = [(5, text("age 1.0"), text("it is old"), text("d-2"))];
        assert_eq!(of(&[by_release, by_plan.clone(), deleted.clone()]), decided);
        assert_eq!(of(&[by_plan.clone(), deleted.clone()]), [(5, text("undo 1.0"), None, text("d-1"))]);
        let other = released(1, (ResourceKind::Server, "b"), "age 1.0");
        assert_eq!(of(&[other, by_plan, deleted.clone()])[0].1, text("undo 1.0"), "it decided about another one");
        assert_eq!(of(&[deleted.clone(), deleted]), [(5, None, None, None)], "written again after a crash");
    }

    #[test]
    fn only_machines_that_went_are_removed_and_not_what_belongs_to_them() {
        let release = operation(OperationKind::ReleaseMachine, json!({ "claim": "ci-1" }));
        let done = |at, step: &str, machine| entry(at, step, Phase::Outcome, Some(machine), json!({}));
        let entries = [
            done(1, "delete-ip", (ResourceKind::Ip, "i")),
            entry(2, "delete-server", Phase::Intent, Some(SERVER), json!({})),
            done(3, "power-off-server", SERVER),
            done(4, "reboot", MAC),
            released(5, MAC, "age 1.0"),
            done(6, "schedule-deletion", MAC),
            done(7, "terminate", SERVER),
        ];
        let removed = removed_by(&release, &entries);
        let [one] = removed.as_slice() else { panic!("{removed:?}") };
        assert_eq!((one.at, one.step.as_str(), one.decided_by.as_deref()), (6, "schedule-deletion", Some("age 1.0")));
        assert_eq!(name_in(&release, &BTreeMap::new()).as_deref(), Some("ci-1"));
    }

    #[test]
    fn no_policy_decided_what_an_operator_forced() {
        let forced = json!({ "creation": null, "server": "a", "removal": { "decided_by": "force" } });
        let entries = [plan(1, "undo 1.0"), entry(5, "delete-server", Phase::Outcome, Some(SERVER), json!({}))];
        assert_eq!(removed_by(&operation(OperationKind::CleanupServer, forced), &entries)[0].decided_by, None);
    }
}
