//! The built-in defaults keep what their laws promise, within bounds that fit a test run.

use windlass_policy::slots::SlotName;
use windlass_proof::space::Values;
use windlass_proof::{ProofOptions, prove};

use crate::support::{Scene, a_part, laws_of};

/// How many questions of each space a test run asks; `windlass policy prove` asks all.
const QUESTIONS: u64 = 2_000;

fn keeps_its_laws(slot: SlotName) {
    keeps_its_laws_within(slot, Vec::new());
}

fn keeps_its_laws_within(slot: SlotName, bounds: Vec<(String, Values)>) {
    let scene = Scene::new();
    let options = ProofOptions { bounds, ..a_part(QUESTIONS, 1_000) };
    let proof = prove(&scene.default_of(slot), &laws_of(slot), &options).unwrap();
    for law in &proof.laws {
        assert_eq!(law.violations, 0, "{}: {:#?}", law.law, law.counterexample);
    }
    assert!(proof.holds() && proof.pairwise > 1_000 && proof.enumerated == QUESTIONS);
}

#[test]
fn the_default_of_state_mapping_keeps_its_laws() {
    keeps_its_laws(SlotName::StateMapping);
}

#[test]
fn the_default_of_retry_keeps_its_laws() {
    keeps_its_laws(SlotName::Retry);
}

#[test]
fn the_default_of_rollback_keeps_its_laws() {
    keeps_its_laws(SlotName::Rollback);
}

#[test]
fn the_default_of_release_keeps_its_laws() {
    keeps_its_laws(SlotName::Release);
}

#[test]
fn the_default_of_provisioning_keeps_its_laws() {
    keeps_its_laws(SlotName::Provisioning);
}

#[test]
fn the_default_of_placement_keeps_its_laws() {
    // A place has so many values that the pairs of four of them would take a minute.
    keeps_its_laws_within(SlotName::Placement, vec![("places".into(), Values::Items(2))]);
}
