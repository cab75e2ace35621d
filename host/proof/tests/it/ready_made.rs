//! The ready-made policies keep their laws about the first questions of the bounds that `docs/ready-made-policies.md`
//! names: that page, and the files of laws, have the whole proofs.

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

fn numbers(path: &str, numbers: &[u64]) -> (String, Values) {
    (path.to_owned(), Values::Numbers(numbers.to_vec()))
}

fn read(path: &str, values: &str) -> (String, Values) {
    (path.to_owned(), values.parse().unwrap())
}

fn texts(path: &str, texts: &[&str]) -> (String, Values) {
    (path.to_owned(), Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect()))
}

fn component(guest: Guest, settings: Value) -> Link {
    Link::bytes(guest.bytes).with_settings(settings)
}

#[test]
fn ready_made_rules_keep_their_laws() {
    for name in ["approve-hosts", "keep-failed"] {
        keeps_its_laws(name, &rules(name), Vec::new());
    }
    let monday = [1_767_592_799_999, 1_767_592_800_000, 1_767_635_999_999, 1_767_636_000_000];
    let weekend = [1_768_024_800_000, 1_768_111_200_000];
    let edges = vec![numbers("now", &[monday.as_slice(), &weekend].concat())];
    keeps_its_laws("business-hours", &rules("business-hours"), edges);
}

#[test]
fn ready_made_components_keep_their_laws() {
    let marks = vec![
        numbers("attempt", &[1, 168, 169]),
        numbers("subject.labels", &[1]),
        texts("subject.labels[].name", &["keep-until", "team"]),
        texts("subject.labels[].value", &["2026-01-02", "2025-12-30", "soon"]),
    ];
    let edges = vec![
        numbers("servers[].age", &[0, 86_399_999, 86_400_000]),
        numbers("servers[].state-age", &[0, 7_199_999, 7_200_000]),
        read("servers[].unused-for", "absent, 0, 7199999, 7200000"),
    ];
    let namespaces = vec![read("subject.object", "all"), texts("subject.object.namespace", &["team-a", "team-b"])];
    keeps_its_laws("keep-until", &component(KEEP_UNTIL, json!({})), marks);
    keeps_its_laws("maximum-age", &component(MAXIMUM_AGE, json!({})), edges);
    let budgets = json!({"budgets": {"team-a": 0.05}});
    keeps_its_laws("namespace-budget", &component(NAMESPACE_BUDGET, budgets), namespaces);
}
