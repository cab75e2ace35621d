//! The Rust types against the WIT.

use windlass_policy::slots::{self, Slot, SlotName};

/// Every slot interface of the contract has a slot, and the other way round.
#[test]
fn the_slots_are_those_of_the_contract() {
    let mut resolve = wit_parser::Resolve::default();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy");
    let (package, _) = resolve.push_dir(folder).unwrap();
    let package = &resolve.packages[package];
    assert_eq!(package.name.version.as_ref().unwrap().to_string(), slots::CONTRACT_VERSION);
    let mut in_wit: Vec<String> = package
        .interfaces
        .iter()
        .filter(|(_, id)| resolve.interfaces[**id].functions.contains_key("decide"))
        .map(|(name, _)| format!("{}:{}/{name}", package.name.namespace, package.name.name))
        .collect();
    let mut ours: Vec<String> = SlotName::ALL.iter().map(|slot| slot.interface().to_owned()).collect();
    in_wit.sort();
    ours.sort();
    assert_eq!(in_wit, ours);
}

fn check_slot<S: Slot>() {
    let question = S::example();
    let json = serde_json::to_value(&question).unwrap();
    assert_eq!(serde_json::from_value::<S::Question>(json).unwrap(), question);
    let keep = S::keep(&question);
    S::check(&question, &keep).unwrap();
    assert_eq!(S::deferred(&keep), slots::Deferred::Nothing, "{}", S::NAME);
}

#[test]
fn the_last_resort_of_every_slot_passes_its_own_check_and_defers_nothing() {
    check_slot::<slots::StateMapping>();
    check_slot::<slots::Retry>();
    check_slot::<slots::Rollback>();
    check_slot::<slots::Release>();
    check_slot::<slots::Provisioning>();
}
