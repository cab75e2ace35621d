//! What violates a law is found, and shown by a question that is as like the example as can be.

use serde_json::json;
use windlass_policy::Link;
use windlass_policy::slots::SlotName;
use windlass_proof::space::Values;
use windlass_proof::{Expression, Law, ProofError, ProofOptions, Statement, prove};
use windlass_test_guests::{FAULTY_RELEASE, FAULTY_RETRY, HOSTILE};

use crate::support::{Scene, a_part, finding};

fn hostile(behaviour: &str) -> Link {
    Link::bytes(HOSTILE.bytes).with_settings(json!({ "behaviour": behaviour, "during": "odd-decisions" }))
}

fn always(text: &str, slot: SlotName) -> Law {
    Law::of_condition("always", Expression::parse(text, slot).unwrap(), Statement::Always)
}

#[test]
fn a_trap_is_found_and_shown_by_the_only_difference_that_matters() {
    let scene = Scene::new();
    let policy = scene.load(SlotName::Retry, &hostile("trap"));
    let options = ProofOptions { bounds: vec![("random".into(), Values::Numbers(vec![0, 7]))], ..a_part(2_000, 0) };
    let proof = prove(&policy, &Law::of_every_policy(), &options).unwrap();
    assert!(!proof.holds());
    let fails = finding(&proof, "never-fails");
    let counterexample = fails.counterexample.as_ref().unwrap();
    assert_eq!(counterexample.changes, json!({ "random": 7 }));
    assert!(counterexample.problem.contains("unreachable"), "{}", counterexample.problem);
    assert!(counterexample.answer.is_null());
    // About half of the questions are odd.
    assert!((800..1_200).contains(&fails.violations), "{}", fails.violations);
    // That it doesn't answer is no other law's affair.
    assert_eq!(finding(&proof, "passes-check").violations, 0);
    assert_eq!(finding(&proof, "pure").violations, 0);
}

#[test]
fn an_answer_that_the_host_would_refuse_is_found() {
    let scene = Scene::new();
    let policy = scene.load(SlotName::Provisioning, &hostile("invalid-answer"));
    let options = ProofOptions { bounds: vec![("random".into(), Values::Numbers(vec![0, 7]))], ..a_part(500, 0) };
    let proof = prove(&policy, &Law::of_every_policy(), &options).unwrap();
    let counterexample = finding(&proof, "passes-check").counterexample.as_ref().unwrap();
    assert!(counterexample.problem.contains("deletes node"), "{}", counterexample.problem);
    assert_eq!(counterexample.changes["random"], 7);
}

#[test]
fn a_counterexample_has_nothing_but_what_it_needs_and_is_a_fixture() {
    let scene = Scene::new();
    let link = Link::bytes(FAULTY_RELEASE.bytes).with_settings(json!({ "fault": "gone-retried" }));
    let policy = scene.load(SlotName::Release, &link);
    let text = "verdict == 'keep' || question.refusal.failure.class != 'not-found'";
    let proof = prove(&policy, &[always(text, SlotName::Release)], &a_part(20_000, 0)).unwrap();
    let counterexample = proof.laws[0].counterexample.as_ref().unwrap();
    let changes = counterexample.changes.as_object().unwrap();
    assert_eq!(changes.keys().collect::<Vec<_>>(), ["refusal"], "{changes:?}");
    assert_eq!(counterexample.question["refusal"]["failure"]["class"], "not-found");
    assert_eq!(counterexample.fixture["expect"], json!({ "holds": text }));
    assert_eq!(counterexample.fixture["settings"], json!({ "fault": "gone-retried" }));
}

#[test]
fn policies_that_judge_otherwise_are_told_apart_and_those_that_do_not_are_equivalent() {
    let scene = Scene::new();
    let default = scene.default_of(SlotName::Retry);
    let law = |name: &str| Law { name: name.into(), statement: Statement::Equivalent(default.clone()) };
    let same = scene.load(SlotName::Retry, &Link::bytes(FAULTY_RETRY.bytes));
    assert!(prove(&same, &[law("same")], &a_part(2_000, 500)).unwrap().holds());
    let other = Link::bytes(FAULTY_RETRY.bytes).with_settings(json!({ "fault": "stock-retried" }));
    let other = scene.load(SlotName::Retry, &other);
    let proof = prove(&other, &[law("other")], &a_part(2_000, 0)).unwrap();
    let counterexample = proof.laws[0].counterexample.as_ref().unwrap();
    assert_eq!(counterexample.changes, json!({ "failure": { "class": "out-of-stock" } }));
    assert_eq!(counterexample.fixture["expect"], json!({ "verdict": "give-up" }));
}

#[test]
fn what_only_defers_or_does_one_thing_is_held_to_it() {
    let scene = Scene::new();
    let only = |text: &str| {
        Law::of_condition("only-defers-or", Expression::parse(text, SlotName::Retry).unwrap(), Statement::OnlyDefersOr)
    };
    let defers = scene.load(SlotName::Retry, &hostile("defer"));
    assert!(prove(&defers, &[only("verdict == 'wait'")], &a_part(500, 0)).unwrap().holds());
    let default = scene.default_of(SlotName::Retry);
    let proof = prove(&default, &[only("verdict == 'wait'")], &a_part(500, 0)).unwrap();
    assert!(proof.laws[0].violations > 0);
}

#[test]
fn two_zones_of_one_type_are_asked_about_and_an_ordinary_deletion_is() {
    let scene = Scene::new();
    let never = |text: &str, slot| Law::of_condition("never", Expression::parse(text, slot).unwrap(), Statement::Never);
    for (slot, question) in [
        (
            SlotName::Placement,
            "question.places.size() == 2 && question.places[0].server_type == question.places[1].server_type \
             && question.places[0].zone != question.places[1].zone",
        ),
        (SlotName::Rollback, "question.cause == null && question.failed_step == null"),
    ] {
        let proof = prove(&scene.default_of(slot), &[never(question, slot)], &a_part(2_000, 0)).unwrap();
        assert!(proof.laws[0].violations > 0, "{slot}: {:#?}", proof.bounds);
    }
}

#[test]
fn a_proof_that_asks_nothing_proves_nothing() {
    let scene = Scene::new();
    let error = prove(&scene.default_of(SlotName::Retry), &Law::of_every_policy(), &a_part(0, 0)).unwrap_err();
    assert!(matches!(error, ProofError::NothingAsked), "{error}");
}

#[test]
fn a_condition_that_cannot_be_decided_ends_the_proof_with_the_question() {
    let scene = Scene::new();
    let law = always("answer.wait <= 30000", SlotName::Retry);
    let error = prove(&scene.default_of(SlotName::Retry), &[law], &a_part(500, 0)).unwrap_err();
    assert!(matches!(error, ProofError::Undecided { .. }) && error.to_string().contains("has("), "{error}");
}

#[test]
fn the_same_seed_asks_the_same_on_any_number_of_threads() {
    let scene = Scene::new();
    let default = scene.default_of(SlotName::Retry);
    let law = || always("verdict == 'wait'", SlotName::Retry);
    let counts: Vec<_> = [1, 3]
        .into_iter()
        .map(|threads| {
            let options = ProofOptions { threads: threads.try_into().unwrap(), ..a_part(1_000, 1_000) };
            let proof = prove(&default, &[law()], &options).unwrap();
            (proof.laws[0].violations, proof.laws[0].first)
        })
        .collect();
    assert_eq!(counts[0], counts[1]);
}
