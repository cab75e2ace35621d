//! A policy asked by itself.

use serde_json::json;
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionFilter, FailureKind, Link, Outcome};
use windlass_test_guests::{HOSTILE, STATE_MAPPING};

use crate::support::{State, run};

#[test]
fn a_policy_by_itself_answers_whole_and_leaves_no_record() {
    let state = State::new();
    let host = state.host();
    let policy = host.load(SlotName::StateMapping, &Link::bytes(STATE_MAPPING.bytes)).unwrap();
    let question = SlotName::StateMapping.example_question();
    let trial = run(policy.try_question(&question, &[])).unwrap();
    assert_eq!(trial.outcome, Outcome::Decided);
    let answers = trial.answer.unwrap();
    assert_eq!(answers.as_array().unwrap().len(), question["servers"].as_array().unwrap().len());
    assert_eq!(SlotName::StateMapping.whole_answer(&answers).unwrap(), answers);
    assert!(host.decisions().unwrap().list(&DecisionFilter::default()).unwrap().decisions.is_empty());
    let error = run(policy.try_question(&json!({"servers": []}), &[])).unwrap_err().to_string();
    assert!(error.contains("does not fit the slot state-mapping"), "{error}");
}

#[test]
fn an_answer_that_defers_is_told_with_its_verdict() {
    let state = State::new();
    let host = state.host();
    let settings = json!({"behaviour": "defer", "during": "decide"});
    let policy = host.load(SlotName::Retry, &Link::bytes(HOSTILE.bytes).with_settings(settings)).unwrap();
    let trial = run(policy.try_question(&SlotName::Retry.example_question(), &[])).unwrap();
    assert_eq!(trial.outcome, Outcome::Deferred);
    assert_eq!(trial.answer.unwrap()["verdict"], "defer");
}

#[test]
fn a_failure_is_an_outcome_and_never_suspends_the_policy() {
    let state = State::new();
    let host = state.host();
    let settings = json!({"behaviour": "trap", "during": "odd-decisions"});
    let policy = host.load(SlotName::Retry, &Link::bytes(HOSTILE.bytes).with_settings(settings)).unwrap();
    let mut question = SlotName::Retry.example_question();
    question["random"] = json!(7);
    for _ in 0..10 {
        let trial = run(policy.try_question(&question, &[])).unwrap();
        assert!(matches!(trial.outcome, Outcome::Fallback { kind: FailureKind::Trap, .. }), "{:?}", trial.outcome);
        assert_eq!(trial.answer, None);
    }
    assert!(!policy.is_suspended());
}
