//! Two policies, question by question; and what a decision costs.

use serde_json::json;
use windlass_policy::Link;
use windlass_policy::slots::SlotName;
use windlass_proof::bench::{Measured, bench};
use windlass_proof::diff::diff;
use windlass_test_guests::{FAULTY_RETRY, FAULTY_STATE_MAPPING};

use crate::support::{Scene, a_part};

#[test]
fn what_changes_is_grouped_with_an_example_each() {
    let scene = Scene::new();
    let before = scene.default_of(SlotName::Retry);
    let link = Link::bytes(FAULTY_RETRY.bytes).with_settings(json!({ "fault": "stock-retried" }));
    let after = scene.load(SlotName::Retry, &link);
    let found = diff(&before, &after, &[], &a_part(5_000, 0)).unwrap();
    assert_eq!(found.groups.len(), 1, "{:#?}", found.groups);
    let group = &found.groups[0];
    assert_eq!((group.before.as_str(), group.after.as_str()), ("give-up", "wait"));
    assert_eq!(group.question["failure"]["class"], "out-of-stock");
    assert_eq!(group.answer_before["verdict"], "give-up");
    assert!(group.answer_after["verdict"]["wait"].is_u64());
    assert!(!found.exhaustive && found.asked == 5_000);
    assert!(diff(&before, &before, &[], &a_part(1_000, 100)).unwrap().groups.is_empty());
}

#[test]
fn in_a_batch_each_server_counts() {
    let scene = Scene::new();
    let link = Link::bytes(FAULTY_STATE_MAPPING.bytes).with_settings(json!({ "fault": "suspended-reaped" }));
    let after = scene.load(SlotName::StateMapping, &link);
    let found = diff(&scene.default_of(SlotName::StateMapping), &after, &[], &a_part(20_000, 2_000)).unwrap();
    let words: Vec<_> = found.groups.iter().map(|group| (group.before.as_str(), group.after.as_str())).collect();
    assert!(
        words.contains(&("mapped: action none, report suspended", "mapped: action reap, report deleting")),
        "{words:?}"
    );
}

#[test]
fn a_decisions_cost_has_a_time_fuel_and_memory() {
    let scene = Scene::new();
    let load = |fuel: bool| {
        let link = Link::default();
        scene.load(SlotName::Release, &if fuel { link.with_limit("fuel", 1 << 40) } else { link })
    };
    let (plain, with_fuel) = (load(false), load(true));
    let measured = Measured { plain: &plain, with_fuel: &with_fuel };
    let [one, other] = bench(measured, measured, 300).unwrap();
    assert_eq!((one.failures, other.failures), (0, 0));
    assert!(one.p50_ns > 0 && one.p50_ns <= one.p99_ns);
    // The same questions, so the same fuel and memory, whatever else the machine does.
    assert_eq!((one.fuel_p50, one.fuel_most, one.memory_bytes), (other.fuel_p50, other.fuel_most, other.memory_bytes));
    assert!(one.fuel_p50 > 0 && one.memory_bytes >= 64 << 10);
}
