//! Two policies, question by question; and what a decision costs.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, LoadedPolicy};
use windlass_proof::ProofOptions;
use windlass_proof::bench::{Measured, bench};
use windlass_proof::diff::{Compared, Difference, diff};
use windlass_proof::space::Values;
use windlass_test_guests::{FAULTY_RETRY, FAULTY_STATE_MAPPING, HOSTILE};

use crate::support::{Scene, a_part};

fn changes(scene: &Scene, before: &LoadedPolicy, after: &LoadedPolicy, options: &ProofOptions) -> Difference {
    let default = scene.default_of(before.identity().slot);
    diff(Compared { before, after, default: &default }, &[], options).unwrap()
}

fn words(found: &Difference) -> Vec<(&str, &str)> {
    found.groups.iter().map(|group| (group.before.as_str(), group.after.as_str())).collect()
}

#[test]
fn what_changes_is_grouped_with_an_example_each() {
    let scene = Scene::new();
    let before = scene.default_of(SlotName::Retry);
    let link = Link::bytes(FAULTY_RETRY.bytes).with_settings(json!({ "fault": "stock-retried" }));
    let after = scene.load(SlotName::Retry, &link);
    let found = changes(&scene, &before, &after, &a_part(5_000, 0));
    assert_eq!(found.groups.len(), 1, "{:#?}", found.groups);
    let group = &found.groups[0];
    assert_eq!((group.before.as_str(), group.after.as_str()), ("give-up", "wait"));
    assert_eq!(group.question["failure"]["class"], "out-of-stock");
    assert_eq!(group.answer_before["verdict"], "give-up");
    assert!(group.answer_after["verdict"]["wait"].is_u64());
    assert!(!found.exhaustive && found.asked == 5_000);
    assert!(changes(&scene, &before, &before, &a_part(1_000, 100)).groups.is_empty());
}

fn rules(scene: &Scene, text: &str, slot: SlotName) -> Arc<LoadedPolicy> {
    scene.load(slot, &Link::contents(Path::new("some.rules.toml"), text.as_bytes().to_vec()))
}

#[test]
fn a_deferral_that_leads_to_the_same_decision_is_no_change() {
    let scene = Scene::new();
    let default = scene.default_of(SlotName::Retry);
    let gives_up = |when: &str| {
        let text = format!("slot = \"retry\"\n[[rules]]\nwhen = \"{when}\"\nanswer = \"give-up\"\n");
        rules(&scene, &text, SlotName::Retry)
    };
    // The default gives up what is out of stock, too.
    let same = gives_up("failure.class == 'out-of-stock'");
    for (before, after) in [(&default, &same), (&same, &default)] {
        let found = changes(&scene, before, after, &a_part(2_000, 0));
        assert_eq!(words(&found), [], "{:#?}", found.groups);
        assert!(found.deferred_before + found.deferred_after > 1_500, "{found:#?}");
        assert!(found.deferred_before == 0 || found.deferred_after == 0, "{found:#?}");
        assert_eq!(found.deferred_by_one, found.deferred_before + found.deferred_after);
    }
    let other = gives_up("failure.class == 'server-error'");
    let found = changes(&scene, &same, &other, &a_part(2_000, 0));
    assert_eq!(words(&found), [("wait", "give-up")]);
    assert!((1..1_500).contains(&found.deferred_by_one), "most are deferred by both: {found:#?}");
    let group = &found.groups[0];
    assert!(group.deferred_before && !group.deferred_after, "{group:#?}");
    assert_eq!(group.question["failure"]["class"], serde_json::Value::Null, "the example is a server error");
    assert!(group.answer_before["verdict"]["wait"].is_u64(), "the default's answer: {group:#?}");
}

#[test]
fn in_a_batch_what_is_deferred_for_some_servers_is_decided_by_the_default() {
    let scene = Scene::new();
    let text = "slot = \"state-mapping\"\n[[rules]]\nwhen = \"server.state == 'running'\"\n\
                answer = { mapped = { report = \"running\", action = \"none\" } }\n";
    let partly = rules(&scene, text, SlotName::StateMapping);
    let default = scene.default_of(SlotName::StateMapping);
    let options = ProofOptions { bounds: vec![("servers".into(), Values::Items(3))], ..a_part(3_000, 0) };
    let found = changes(&scene, &default, &partly, &options);
    assert!(found.deferred_after > 1_000 && !found.groups.is_empty(), "{found:#?}");
    for (_, after) in words(&found) {
        assert_eq!(after, "mapped: action none, report running", "{found:#?}");
    }
}

#[test]
fn a_policy_that_fails_is_no_policy_that_changes_nothing() {
    let scene = Scene::new();
    let link = Link::bytes(HOSTILE.bytes).with_settings(json!({ "behaviour": "trap", "during": "odd-decisions" }));
    let fails = scene.load(SlotName::Retry, &link);
    let found = changes(&scene, &fails, &fails, &a_part(2_000, 0));
    assert!(found.groups.is_empty() && found.failed_before > 0, "{found:#?}");
    assert_eq!(found.failed_before, found.failed_after);
}

#[test]
fn in_a_batch_each_server_counts() {
    let scene = Scene::new();
    let link = Link::bytes(FAULTY_STATE_MAPPING.bytes).with_settings(json!({ "fault": "suspended-reaped" }));
    let after = scene.load(SlotName::StateMapping, &link);
    let found = changes(&scene, &scene.default_of(SlotName::StateMapping), &after, &a_part(20_000, 2_000));
    let words = words(&found);
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
