//! A log of decisions, replayed at once.

use std::num::NonZeroUsize;

use futures::FutureExt;
use serde_json::json;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Release, Retry, Slot, SlotName, retry};
use windlass_policy::{Link, ReplayAgainst};
use windlass_proof::diff::{Compared, diff};
use windlass_proof::replay::replay;
use windlass_test_guests::FAULTY_RETRY;

use crate::support::{Scene, a_part};

fn decide<S: Slot>(scene: &Scene, question: S::Question) {
    scene.host.pin().decide::<S>(question).now_or_never().unwrap();
}

/// A host that has decided: ten retries of what is out of stock, ten of a server error, and a release.
fn a_day() -> Scene {
    let scene = Scene::new();
    for attempt in 1..=10 {
        for class in [FailureClass::OutOfStock, FailureClass::ServerError] {
            let failure = Failure { class, ..Failure::example() };
            decide::<Retry>(&scene, retry::Question { attempt, failure, ..Retry::example() });
        }
    }
    decide::<Release>(&scene, Release::example());
    scene
}

#[test]
fn the_policies_that_decided_decide_the_same_again() {
    let scene = a_day();
    let records = scene.host.decisions().unwrap().since(0).unwrap();
    assert_eq!((records.records.len(), records.unreadable), (21, 0));
    let again = replay(&scene.host, &records.records, &|_| Some(ReplayAgainst::TheSame), NonZeroUsize::MIN);
    assert_eq!((again.replayed, again.same), (21, 21), "{again:?}");
    assert!(again.groups.is_empty() && again.failed.is_empty());
}

#[test]
fn a_candidates_changes_are_grouped_with_the_oldest_decision_of_each() {
    let scene = a_day();
    let records = scene.host.decisions().unwrap().since(0).unwrap().records;
    let link = Link::bytes(FAULTY_RETRY.bytes).with_settings(json!({ "fault": "stock-retried" }));
    let candidate = scene.load(SlotName::Retry, &link);
    let against = |slot| (slot == SlotName::Retry).then(|| ReplayAgainst::Policy(candidate.clone()));
    for threads in [1, 4] {
        let now = replay(&scene.host, &records, &against, threads.try_into().unwrap());
        assert_eq!(now.replayed, 20, "{now:?}");
        assert_eq!(now.groups.len(), 1, "{now:?}");
        let group = &now.groups[0];
        // It waits until the attempts are used up.
        assert_eq!((group.recorded.as_str(), group.now.as_str(), group.count), ("give-up", "wait", 7));
        assert_eq!(group.decision, records[0].id());
        assert_eq!(now.only_reasons, 3, "the last attempts are given up for another reason");
        assert_eq!(now.same, 10);
    }
}

#[test]
fn only_decisions_since_an_instant_are_read() {
    let scene = a_day();
    let log = scene.host.decisions().unwrap();
    let all = log.since(0).unwrap().records;
    let last = all.last().unwrap().id();
    let latest = log.since(last.at_ms()).unwrap().records;
    assert!(!latest.is_empty() && latest.iter().all(|record| record.id().at_ms() >= last.at_ms()));
    assert!(log.since(last.at_ms() + 1).unwrap().records.is_empty());
    assert_eq!(all[0].read().unwrap().id, all[0].id());
}

#[test]
fn a_diff_asks_what_was_recorded_as_well() {
    let scene = a_day();
    let records = scene.host.decisions().unwrap().since(0).unwrap().records;
    let link = Link::bytes(FAULTY_RETRY.bytes).with_settings(json!({ "fault": "stock-retried" }));
    let after = scene.load(SlotName::Retry, &link);
    let default = scene.default_of(SlotName::Retry);
    let compared = Compared { before: &default, after: &after, default: &default };
    let found = diff(compared, &records, &a_part(1, 0)).unwrap();
    assert_eq!(found.recorded, 20);
    let group = &found.groups[0];
    assert_eq!((group.count, group.decision), (7, Some(records[0].id())));
}
