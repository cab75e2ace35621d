//! A status as data: conditions that keep their transition times, and the difference between two statuses as a patch.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::kinds::{Condition, ConditionStatus, Initialization, MachineStatus, OperationStatus, Phase, conditions};
use crate::owners::Owners;

/// The longest message of a condition that we write, in bytes.
const MAX_MESSAGE_LEN: usize = 2048;

/// Sets a condition. Its transition time changes only with its status.
pub(crate) fn set_condition(
    conditions: &mut Vec<Condition>,
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let new = Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: bounded(message.into()),
        last_transition_time: time(now),
        observed_generation: generation,
    };
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
        Some(old) => {
            let since =
                if old.status == status { old.last_transition_time.clone() } else { new.last_transition_time.clone() };
            *old = Condition { last_transition_time: since, ..new };
        }
        None => conditions.push(new),
    }
}

pub(crate) fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Sets the condition `Paused`, which the contract asks for.
pub(crate) fn say_paused(status: &mut MachineStatus, owners: &Owners, generation: Option<i64>, now: Timestamp) {
    match &owners.paused {
        Some(why) => {
            set_condition(
                &mut status.conditions,
                conditions::PAUSED,
                ConditionStatus::True,
                "Paused",
                why,
                generation,
                now,
            );
        }
        None => set_condition(
            &mut status.conditions,
            conditions::PAUSED,
            ConditionStatus::False,
            "NotPaused",
            "",
            generation,
            now,
        ),
    }
}

/// Sets `Provisioned` and `Ready` to the same: not yet.
pub(crate) fn say_waiting(
    status: &mut MachineStatus,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    for kind in [conditions::PROVISIONED, conditions::READY] {
        // A machine that is there stays provisioned while something about it is waited for.
        if kind == conditions::PROVISIONED && status.was_provisioned() && status.server_id.is_some() {
            continue;
        }
        set_condition(&mut status.conditions, kind, ConditionStatus::False, reason, message, generation, now);
    }
}

/// Sets `Provisioned` and `Ready` for a machine that is there.
pub(crate) fn say_provisioned(
    status: &mut MachineStatus,
    trouble: Option<&(&'static str, String)>,
    generation: Option<i64>,
    now: Timestamp,
) {
    status.ready = true;
    status.initialization = Some(Initialization { provisioned: Some(true) });
    status.phase = Some(Phase::Provisioned);
    status.failure_reason = None;
    status.failure_message = None;
    status.observed_generation = generation;
    let set = |status: &mut MachineStatus, kind, holds: bool, reason: &str, message: &str| {
        set_condition(&mut status.conditions, kind, holds.into(), reason, message, generation, now);
    };
    set(status, conditions::PROVISIONED, true, "Provisioned", "");
    match trouble {
        Some((reason, message)) => set(status, conditions::READY, false, reason, message),
        None => set(status, conditions::READY, true, "Provisioned", ""),
    }
    remove_condition(&mut status.conditions, conditions::RELEASED);
}

/// An instant as Kubernetes writes it: to the second.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Cuts a text at a limit, between two characters.
pub(crate) fn bounded(text: String) -> String {
    windlass_policy::cut(text, MAX_MESSAGE_LEN)
}

/// What a merge patch of the status has to say so that `old` becomes `new`; nothing where they are equal. Only keys
/// that differ are in it, so that two writers of different keys never overwrite each other.
pub(crate) fn difference<S: Serialize>(old: &S, new: &S) -> Map<String, Value> {
    let (Ok(Value::Object(old)), Ok(Value::Object(new))) = (serde_json::to_value(old), serde_json::to_value(new))
    else {
        return Map::new();
    };
    let mut patch = Map::new();
    for (key, value) in &new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(Value::Object(before)) if value.is_object() => {
                patch.insert(key.clone(), merge(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

/// An object within the patch: keys that went away are named with `null`.
fn merge(before: &Map<String, Value>, after: &Value) -> Value {
    let mut value = after.clone();
    if let Value::Object(map) = &mut value {
        for key in before.keys() {
            map.entry(key.clone()).or_insert(Value::Null);
        }
    }
    value
}

/// An operation as a patch of the status, whatever stood there before.
pub(crate) fn mirrored(operation: &OperationStatus) -> Value {
    // What went away has to be named.
    let mut value =
        json!({"id": null, "step": null, "reason": null, "message": null, "notBefore": null, "resources": null});
    if let (Some(all), Ok(Value::Object(known))) = (value.as_object_mut(), serde_json::to_value(operation)) {
        all.extend(known);
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::OperationStatus;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut conditions = Vec::new();
        set_condition(&mut conditions, "Ready", ConditionStatus::False, "Waiting", "for a host", Some(1), at(0));
        set_condition(&mut conditions, "Ready", ConditionStatus::False, "Adopting", "one", Some(2), at(10));
        assert_eq!(conditions[0].last_transition_time, "1970-01-01T00:00:00Z");
        assert_eq!((conditions[0].reason.as_str(), conditions[0].observed_generation), ("Adopting", Some(2)));
        set_condition(&mut conditions, "Ready", ConditionStatus::True, "Provisioned", "", Some(2), at(20));
        assert_eq!(conditions[0].last_transition_time, "1970-01-01T00:00:20Z");
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn equal_statuses_need_no_patch_and_others_name_only_what_differs() {
        let old = MachineStatus {
            server_id: Some("a".into()),
            operation: Some(OperationStatus { kind: "adopt".into(), step: Some("claim".into()), ..Default::default() }),
            ..MachineStatus::default()
        };
        assert!(difference(&old, &old.clone()).is_empty());
        let mut new = old.clone();
        new.server_id = None;
        new.ready = true;
        assert_eq!(Value::Object(difference(&old, &new)), json!({"ready": true, "serverID": null}));
        new.operation.as_mut().unwrap().step = None;
        let patch = difference(&old, &new);
        assert_eq!(patch["operation"]["step"], Value::Null);
        assert_eq!(patch["operation"]["kind"], "adopt");
    }
}
