//! The ready-made policies keep their laws, within bounds that fit a test run: `docs/ready-made-policies.md` has the
//! whole proofs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windlass_policy::Link;
use windlass_proof::space::Values;
use windlass_proof::{Law, Laws, ProofOptions, prove};
use windlass_test_guests::{Guest, KEEP_UNTIL, MAXIMUM_AGE, NAMESPACE_BUDGET};

use crate::support::{Scene, a_part};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/policies").join(name)
}

fn keeps_its_laws(name: &str, link: &Link, bounds: Vec<(String, Values)>) {
    let laws = std::fs::read_to_string(folder(name).join("laws.toml")).unwrap();
    let laws = Laws::parse(&laws).unwrap_or_else(|error| panic!("{name}: {error}"));
    let scene = Scene::new();
    let policy = scene.load(laws.slot, link);
    let all: Vec<Law> = Law::of_every_policy().into_iter().chain(laws.laws).collect();
    let proof = prove(&policy, &all, &ProofOptions { bounds, ..a_part(2_000, 0) }).unwrap();
    for law in &proof.laws {
        assert_eq!(law.violations, 0, "{name}: {}: {:#?}", law.law, law.counterexample);
    }
}

fn rules(name: &str) -> Link {
    let file = folder(name).join(format!("{name}.rules.toml"));
    Link::contents(&file, std::fs::read(&file).unwrap())
}

fn component(guest: Guest, settings: Value) -> Link {
    Link::bytes(guest.bytes).with_settings(settings)
}

#[test]
fn ready_made_rules_keep_their_laws() {
    for name in ["approve-hosts", "business-hours", "keep-failed"] {
        keeps_its_laws(name, &rules(name), Vec::new());
    }
}

#[test]
fn ready_made_components_keep_their_laws() {
    let texts = |texts: &[&str]| Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let marks = vec![
        ("attempt".to_owned(), Values::Numbers(vec![1, 168, 169])),
        ("subject.labels".to_owned(), Values::Items(1)),
        ("subject.labels[].name".to_owned(), texts(&["keep-until", "team"])),
        ("subject.labels[].value".to_owned(), texts(&["2026-01-02", "2025-12-30", "soon"])),
    ];
    keeps_its_laws("keep-until", &component(KEEP_UNTIL, json!({})), marks);
    keeps_its_laws("maximum-age", &component(MAXIMUM_AGE, json!({})), Vec::new());
    keeps_its_laws("namespace-budget", &component(NAMESPACE_BUDGET, json!({"budgets": {"team-a": 0.05}})), Vec::new());
}
