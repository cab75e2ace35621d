//! What becomes of a host that carries a claim, by the journal alone: for a process that did not claim it itself.

use super::names::ClaimName;
use crate::Error;
use crate::journal::{Operation, OperationKind, OperationState};
use crate::lifecycle::Lifecycle;
use crate::release::ReleaseOutcome;

/// How a claim stands, by the newest operation on it.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalledClaim {
    /// It has its host, or the journal knows nothing of it.
    Claimed,
    /// The operation has not ended: whether its host stays with the claim is not known.
    Unfinished(Box<Operation>),
    /// The operation called it off, or was to release its host, which is still to be released.
    CalledOff(Box<Operation>),
    /// The operation has released its host, kept it or was abandoned: the host is no longer the claimant's.
    Released(Box<Operation>),
}

impl Lifecycle {
    /// How a claim of ours stands.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn journalled_claim(&self, claim: &ClaimName) -> Result<JournalledClaim, Error> {
        let journal = &self.shared.journal;
        let operations = journal.operations_of_machine(claim.as_str())?;
        let ours = |operation: &Operation| operation.owner == self.shared.owner.as_str();
        let Some(operation) = operations.into_iter().find(ours) else { return Ok(JournalledClaim::Claimed) };
        let is_kept = journal.entries(&operation.id)?.iter().any(|entry| entry.kept().is_some());
        let is_cancelled = !journal.cancelled(std::slice::from_ref(&operation.id))?.is_empty();
        Ok(standing(operation, is_kept, is_cancelled))
    }
}

fn standing(operation: Operation, is_kept: bool, is_cancelled: bool) -> JournalledClaim {
    let outcome = operation.report.clone().and_then(|report| serde_json::from_value::<ReleaseOutcome>(report).ok());
    let of: fn(Box<Operation>) -> JournalledClaim = match (operation.kind, operation.state) {
        (_, OperationState::Open | OperationState::Left) => JournalledClaim::Unfinished,
        (OperationKind::ReleaseMachine, OperationState::Abandoned) => JournalledClaim::Released,
        (OperationKind::ReleaseMachine, _) if is_kept => JournalledClaim::Released,
        (OperationKind::ReleaseMachine, OperationState::Done) => match outcome {
            // After a refusal the policy gives up for now, and is asked again.
            Some(ReleaseOutcome::Kept) => JournalledClaim::CalledOff,
            Some(outcome) if !outcome.is_released() => JournalledClaim::CalledOff,
            _ => JournalledClaim::Released,
        },
        (OperationKind::ReleaseMachine, _) => JournalledClaim::CalledOff,
        (OperationKind::OrderMachine, OperationState::Kept) => JournalledClaim::CalledOff,
        (OperationKind::OrderMachine, OperationState::Unverified) if is_cancelled => JournalledClaim::CalledOff,
        _ => return JournalledClaim::Claimed,
    };
    of(Box::new(operation))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::OperationId;

    fn standing_of(kind: OperationKind, state: OperationState, report: Value) -> JournalledClaim {
        standing(operation(kind, state, report), false, false)
    }

    fn operation(kind: OperationKind, state: OperationState, report: Value) -> Operation {
        Operation {
            id: OperationId::parse("machines-k3v9q20mfz7a").unwrap(),
            kind,
            group: String::new(),
            zone: String::new(),
            owner: String::new(),
            specification: Value::Null,
            policies: Value::Null,
            runner: String::new(),
            host: None,
            state,
            cause: None,
            reasons: Vec::new(),
            report: Some(report),
            ended_by: None,
            look_at: None,
            created_at: 0,
            updated_at: 0,
            ended_at: None,
        }
    }

    #[test]
    fn what_was_called_off_or_asked_to_go_is_never_claimed_again() {
        use OperationKind::{AdoptMachine, OrderMachine, ReleaseMachine};
        for kind in [AdoptMachine, OrderMachine, ReleaseMachine] {
            for state in [OperationState::Open, OperationState::Left] {
                let unfinished = standing_of(kind, state, Value::Null);
                assert!(matches!(unfinished, JournalledClaim::Unfinished(_)), "{kind} {state}");
            }
        }
        for kind in [AdoptMachine, OrderMachine] {
            assert_eq!(standing_of(kind, OperationState::Done, Value::Null), JournalledClaim::Claimed);
        }
        let cancelled = standing_of(OrderMachine, OperationState::Kept, Value::Null);
        assert!(matches!(cancelled, JournalledClaim::CalledOff(_)), "it was cancelled and delivered");
        let unverified = operation(OrderMachine, OperationState::Unverified, Value::Null);
        assert!(matches!(standing(unverified.clone(), false, true), JournalledClaim::CalledOff(_)));
        assert_eq!(standing(unverified, false, false), JournalledClaim::Claimed);
        for (state, outcome, is_over) in [
            (OperationState::Undone, json!({"outcome": "ask-again", "after": 1}), false),
            (OperationState::Done, json!({"outcome": "rebooted"}), false),
            (OperationState::Done, json!({"outcome": "kept"}), false),
            (OperationState::Done, json!({"outcome": "terminated"}), true),
            (OperationState::Done, json!({"outcome": "deletion-scheduled", "deletable-at": null}), true),
            (OperationState::Abandoned, Value::Null, true),
        ] {
            let released = standing_of(ReleaseMachine, state, outcome.clone());
            assert_eq!(matches!(released, JournalledClaim::Released(_)), is_over, "{state} {outcome}");
            assert_eq!(matches!(released, JournalledClaim::CalledOff(_)), !is_over, "{state} {outcome}");
        }
        let kept = operation(ReleaseMachine, OperationState::Done, json!({"outcome": "kept"}));
        assert!(matches!(standing(kept, true, false), JournalledClaim::Released(_)), "the journal records it as kept");
    }
}
