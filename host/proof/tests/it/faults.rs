//! Each fault that is sown into a copy of a default policy is found by a proof of the policy's laws. Printed with
//! `--nocapture`: by which question.

use serde_json::json;
use windlass_policy::Link;
use windlass_policy::slots::SlotName;
use windlass_proof::fixture::Fixture;
use windlass_proof::space::Values;
use windlass_proof::{ProofOptions, prove};
use windlass_test_guests::{
    FAULTS, FAULTY_PLACEMENT, FAULTY_PROVISIONING, FAULTY_RELEASE, FAULTY_RETRY, FAULTY_ROLLBACK, FAULTY_STATE_MAPPING,
};

use crate::support::{Scene, a_part, laws_of};

/// A fault has to be found within so many questions of its slot's space.
const QUESTIONS: u64 = 20_000;

fn faulty(slot: SlotName) -> Link {
    Link::bytes(
        match slot {
            SlotName::StateMapping => FAULTY_STATE_MAPPING,
            SlotName::Retry => FAULTY_RETRY,
            SlotName::Rollback => FAULTY_ROLLBACK,
            SlotName::Release => FAULTY_RELEASE,
            SlotName::Provisioning => FAULTY_PROVISIONING,
            SlotName::Placement => FAULTY_PLACEMENT,
        }
        .bytes,
    )
}

fn every_fault_is_found(slot: SlotName) {
    let scene = Scene::new();
    let laws = laws_of(slot);
    let options = ProofOptions { stop_at_violation: true, ..a_part(QUESTIONS, 0) };
    let mut missed = Vec::new();
    for fault in FAULTS.iter().filter(|fault| fault.slot == slot.as_str()) {
        // Some plan so badly that already the question of the dry run shows it.
        let policy = match scene.host.load(slot, &faulty(slot).with_settings(json!({ "fault": fault.name }))) {
            Ok(policy) => policy,
            Err(error) => {
                assert!(error.to_string().contains("dry run"), "{error}");
                println!("{slot} {}: when it is loaded ({})", fault.name, fault.decision);
                continue;
            }
        };
        let proof = prove(&policy, &laws, &options).unwrap();
        let Some(found) = proof.laws.iter().find(|law| law.violations > 0) else {
            missed.push(fault.name);
            continue;
        };
        let first = found.first.unwrap();
        println!("{slot} {}: by question {first} and `{}` ({})", fault.name, found.law, fault.decision);
        // What was found is kept as a fixture that can be read again.
        let counterexample = found.counterexample.as_ref().unwrap();
        let fixture = Fixture::parse(&counterexample.fixture.to_string()).unwrap();
        assert_eq!(fixture.whole_question().unwrap(), counterexample.question, "{}", fault.name);
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The copies differ from the defaults in nothing but the chosen fault.
fn without_a_fault_it_is_the_default(slot: SlotName) {
    let scene = Scene::new();
    // The pairs of four places would take a minute.
    let bounds = if slot == SlotName::Placement { vec![("places".into(), Values::Items(1))] } else { Vec::new() };
    let options = ProofOptions { bounds, ..a_part(1_000, 0) };
    let proof = prove(&scene.load(slot, &faulty(slot)), &laws_of(slot), &options).unwrap();
    assert!(proof.holds(), "{:#?}", proof.laws);
}

#[test]
fn there_are_faults_in_every_slot_and_at_least_twenty() {
    assert!(FAULTS.len() >= 20, "{}", FAULTS.len());
    for slot in SlotName::ALL {
        assert!(FAULTS.iter().any(|fault| fault.slot == slot.as_str()), "{slot}");
        without_a_fault_it_is_the_default(slot);
    }
}

#[test]
fn every_fault_of_state_mapping_is_found() {
    every_fault_is_found(SlotName::StateMapping);
}

#[test]
fn every_fault_of_retry_is_found() {
    every_fault_is_found(SlotName::Retry);
}

#[test]
fn every_fault_of_rollback_is_found() {
    every_fault_is_found(SlotName::Rollback);
}

#[test]
fn every_fault_of_release_is_found() {
    every_fault_is_found(SlotName::Release);
}

#[test]
fn every_fault_of_provisioning_is_found() {
    every_fault_is_found(SlotName::Provisioning);
}

#[test]
fn every_fault_of_placement_is_found() {
    every_fault_is_found(SlotName::Placement);
}
