//! Recorded calls, answered once more.

use std::collections::VecDeque;

use serde_json::Value;

use super::HostCall;
use super::excerpt::shortened;
use crate::decision_log::REDACTED;

/// Strings within strings are followed so deep.
const MAX_DEPTH: usize = 32;

/// The calls that can be played back to one policy.
pub(crate) struct Playback {
    calls: VecDeque<HostCall>,
    in_order: bool,
}

impl Playback {
    /// The calls that this very policy made. A pure policy makes the same ones in the same order.
    pub(crate) fn of_its_own(calls: &[HostCall]) -> Playback {
        Playback { calls: calls.iter().cloned().collect(), in_order: true }
    }

    /// What others were answered, for a policy that was not asked then: each answer once, in any order.
    pub(crate) fn of_others(calls: impl Iterator<Item = HostCall>) -> Playback {
        Playback { calls: calls.collect(), in_order: false }
    }

    /// Takes the call that was made with these arguments, if there is one.
    pub(super) fn take(&mut self, interface: &str, function: &str, arguments: &[Value]) -> Option<HostCall> {
        let considered = if self.in_order { 1 } else { self.calls.len() };
        let position = self.calls.iter().take(considered).position(|call| {
            call.interface == interface && call.function == function && has_arguments(call, arguments)
        });
        position.and_then(|position| self.calls.remove(position))
    }
}

fn has_arguments(call: &HostCall, arguments: &[Value]) -> bool {
    match call.arguments.value() {
        Value::Array(recorded) if call.shortened => is_record_of(&recorded, &shortened(arguments), 0),
        Value::Array(recorded) => is_record_of(&recorded, arguments, 0),
        _ => false,
    }
}

fn is_record_of(recorded: &[Value], given: &[Value], depth: usize) -> bool {
    recorded.len() == given.len() && recorded.iter().zip(given).all(|(recorded, given)| fits(recorded, given, depth))
}

/// Whether one can be the record of the other: what was redacted may be anything, and JSON within a string is compared
/// as JSON, since redaction may have written it anew.
fn fits(recorded: &Value, given: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match (recorded, given) {
        (Value::String(recorded), _) if recorded == REDACTED => true,
        (Value::String(recorded), Value::String(given)) => {
            recorded == given
                || matches!((json_within(recorded), json_within(given)),
                    (Some(recorded), Some(given)) if fits(&recorded, &given, depth + 1))
        }
        (Value::Array(recorded), Value::Array(given)) => is_record_of(recorded, given, depth + 1),
        (Value::Object(recorded), Value::Object(given)) => {
            recorded.len() == given.len()
                && recorded
                    .iter()
                    .all(|(name, recorded)| given.get(name).is_some_and(|given| fits(recorded, given, depth + 1)))
        }
        _ => recorded == given,
    }
}

fn json_within(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Redaction;
    use crate::json_text::JsonText;

    fn call(arguments: &[Value]) -> HostCall {
        HostCall {
            interface: "test:guest/numbers".into(),
            function: "double".into(),
            arguments: JsonText::of(arguments),
            answer: JsonText::of(&json!(arguments.len())),
            duration_us: 1,
            refused: false,
            shortened: false,
            redacted: false,
        }
    }

    fn is_found(mut playback: Playback, arguments: &[Value]) -> bool {
        playback.take("test:guest/numbers", "double", arguments).is_some()
    }

    #[test]
    fn a_body_is_compared_as_json_however_it_is_spaced() {
        let given = [json!({ "method": "POST", "body": "{ \"name\" : \"a\",\n \"token\": \"hunter2\" }" })];
        let mut recorded = given.clone();
        Redaction::default().apply(&mut recorded[0]);
        assert!(!recorded[0].to_string().contains("hunter2"));
        assert!(is_found(Playback::of_its_own(&[call(&recorded)]), &given));
        let other = [json!({ "method": "POST", "body": "{\"name\": \"b\", \"token\": \"hunter2\"}" })];
        assert!(!is_found(Playback::of_its_own(&[call(&recorded)]), &other));
        let not_json = [json!({ "method": "POST", "body": "{ \"name\"" })];
        assert!(!is_found(Playback::of_its_own(&[call(&recorded)]), &not_json));
    }

    #[test]
    fn a_policys_own_calls_are_played_back_in_their_order_and_those_of_others_in_any() {
        let calls = [call(&[json!(1)]), call(&[json!(2)])];
        assert!(!is_found(Playback::of_its_own(&calls), &[json!(2)]));
        assert!(is_found(Playback::of_others(calls.iter().cloned()), &[json!(2)]));
        let mut own = Playback::of_its_own(&calls);
        for number in [1, 2] {
            assert!(own.take("test:guest/numbers", "double", &[json!(number)]).is_some());
        }
        assert!(own.take("test:guest/numbers", "double", &[json!(2)]).is_none(), "each once");
    }

    #[test]
    fn a_refused_call_that_was_shortened_is_found_by_the_beginnings_of_its_arguments() {
        let given = [json!("x".repeat(100_000))];
        let recorded = HostCall { shortened: true, ..call(&shortened(&given)) };
        assert!(is_found(Playback::of_its_own(std::slice::from_ref(&recorded)), &given));
        assert!(!is_found(Playback::of_its_own(&[recorded]), &[json!("x".repeat(100_001))]));
    }
}
