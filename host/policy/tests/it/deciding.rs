//! Chains of the built-in defaults.

use windlass_policy::slots::{Placement, Retry, Rollback, Slot, SlotName, StateMapping, placement, retry, rollback};
use windlass_policy::{DecidedBy, Outcome};

use crate::support::{State, run};

#[test]
fn the_built_in_defaults_decide_and_every_decision_is_on_record() {
    let state = State::new();
    let host = state.host();
    let pin = host.pin();
    let decision = run(pin.decide::<Retry>(Retry::example()));
    assert!(matches!(decision.answer.verdict, retry::Verdict::Wait(_)), "{decision:?}");
    assert!(decision.fallbacks.is_empty());
    let DecidedBy::Policy(identity) = &decision.decided_by else { panic!("{decision:?}") };
    assert_eq!(identity.slot, SlotName::Retry);

    let rollback = run(pin.decide::<Rollback>(Rollback::example()));
    assert!(matches!(rollback.answer.verdict, rollback::Verdict::Plan(_)), "{rollback:?}");

    let log = host.decisions().unwrap();
    let list = log.list(&Default::default()).unwrap();
    assert_eq!(list.decisions.len(), 2);
    assert_eq!(list.decisions[0].id, rollback.id, "newest first");
    let record = log.show(&decision.id.to_string()).unwrap();
    assert_eq!(record.question, serde_json::to_value(Retry::example()).unwrap());
    assert_eq!(record.answer, serde_json::to_value(&decision.answer).unwrap());
    assert_eq!(record.asked.len(), 1);
    assert_eq!(record.asked[0].outcome, Outcome::Decided);
}

#[test]
fn a_batch_of_ten_thousand_servers_is_within_the_default_limits() {
    let state = State::new();
    let host = state.host();
    let mut question = StateMapping::example();
    question.servers = question.servers.iter().copied().cycle().take(10_000).collect();
    let decision = run(host.pin().decide::<StateMapping>(question));
    assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
    assert_eq!(decision.answer.len(), 10_000);
}

#[test]
fn servers_are_placed_where_retry_lets_them_be_tried() {
    let state = State::new();
    let host = state.host();
    let decision = run(host.pin().decide::<Placement>(Placement::example()));
    let expected = vec![placement::Assignment { count: 3, places: vec![1] }];
    assert_eq!(decision.answer.verdict, placement::Verdict::Place(expected));
    assert_eq!(decision.reason.as_deref(), Some("1 of 4 places back off"));
}
