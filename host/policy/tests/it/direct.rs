//! A policy asked by itself, and a log read at once.

use std::fs;
use std::io::Write;

use windlass_policy::slots::{Provisioning, Retry, Slot, SlotName};
use windlass_policy::{DecisionFilter, FailureKind, Link};
use windlass_test_guests::{RETRY, STOCK_AWARE_RETRY};

use crate::support::{State, run};

#[test]
fn a_policy_asked_directly_answers_as_in_a_chain_and_leaves_no_record() {
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(RETRY.bytes).with_limit("fuel", 1 << 40);
    let policy = host.load(SlotName::Retry, &link).unwrap();
    let asked = policy.ask::<Retry>(&Retry::example());
    let decided = run(host.pin_only(policy.clone()).decide::<Retry>(Retry::example()));
    assert_eq!(asked.answer.unwrap(), decided.answer);
    assert!(asked.fuel.is_some_and(|fuel| fuel > 0));
    assert!(asked.memory_bytes >= 64 << 10 && asked.memory_bytes <= policy.limits().memory_bytes);
    let recorded = host.decisions().unwrap().list(&DecisionFilter::default()).unwrap().decisions;
    assert_eq!(recorded.len(), 1, "only what the chain decided");
}

#[test]
fn asked_directly_a_policy_of_another_slot_fails_and_one_with_capabilities_is_refused_them() {
    let state = State::new();
    let host = state.host();
    let policy = host.load(SlotName::Retry, &Link::bytes(RETRY.bytes)).unwrap();
    let (kind, _) = policy.ask::<Provisioning>(&Provisioning::example()).answer.unwrap_err();
    assert_eq!(kind, FailureKind::MalformedAnswer);
    // This host offers no look-ups, so nothing that needs them is loaded at all.
    assert!(host.load(SlotName::Retry, &Link::bytes(STOCK_AWARE_RETRY.bytes)).is_err());
}

#[test]
fn the_log_is_read_at_once_oldest_first_and_a_torn_line_is_counted() {
    let state = State::new();
    let host = state.host();
    let ids: Vec<_> = (0..5).map(|_| run(host.pin().decide::<Retry>(Retry::example())).id).collect();
    host.flush_decisions();
    let folder = state.folder.path().join("decisions");
    let segment = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut file = fs::OpenOptions::new().append(true).open(segment).unwrap();
    file.write_all(b"{\"id\":\"no id\",\"at\n\n{\"torn").unwrap();
    let found = host.decisions().unwrap().since(0).unwrap();
    assert_eq!(found.records.iter().map(windlass_policy::UnreadRecord::id).collect::<Vec<_>>(), ids);
    assert_eq!(found.unreadable, 2);
    for record in &found.records {
        assert_eq!(record.read().unwrap().id, record.id());
    }
}
