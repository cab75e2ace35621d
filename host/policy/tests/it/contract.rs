//! The Rust types against the WIT: their words in JSON.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use windlass_policy::slots::{self, Slot, SlotName};
use wit_parser::{Function, Resolve, Type, TypeDefKind};

/// The contract as it stands in the repository.
fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy")
}

fn parse(folder: &Path) -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_dir(folder).unwrap();
    resolve
}

/// The function that a slot exports.
fn decide(resolve: &Resolve, slot: SlotName) -> &Function {
    let mut interfaces = resolve.interfaces.iter().map(|(_, interface)| interface);
    let interface = interfaces.find(|interface| interface.name.as_deref() == Some(slot.as_str())).unwrap();
    &interface.functions["decide"]
}

/// Every slot interface of the contract has a slot, and the other way round.
#[test]
fn the_slots_are_those_of_the_contract() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder()).unwrap();
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

/// Values of a type of the contract in which each of its cases and each of its options comes up, in JSON as the
/// contract's words say it.
fn samples(resolve: &Resolve, of: &Type) -> Vec<Value> {
    let id = match of {
        Type::Bool => return vec![json!(true)],
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => return vec![json!(1)],
        Type::String => return vec![json!("text")],
        Type::Id(id) => *id,
        other => panic!("no slot has a {other:?}"),
    };
    match &resolve.types[id].kind {
        TypeDefKind::Type(other) => samples(resolve, other),
        TypeDefKind::List(item) => vec![json!([]), Value::Array(samples(resolve, item))],
        TypeDefKind::Option(inner) => [vec![Value::Null], samples(resolve, inner)].concat(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| json!(case.name)).collect(),
        TypeDefKind::Variant(variant) => {
            let values = variant.cases.iter().map(|case| match &case.ty {
                None => vec![json!(case.name)],
                Some(payload) => {
                    samples(resolve, payload).into_iter().map(|value| json!({ &case.name: value })).collect()
                }
            });
            values.flatten().collect()
        }
        TypeDefKind::Record(record) => {
            let fields: Vec<(&String, Vec<Value>)> =
                record.fields.iter().map(|field| (&field.name, samples(resolve, &field.ty))).collect();
            let count = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
            let value = |number: usize| {
                let field =
                    |(name, values): &(&String, Vec<Value>)| ((*name).clone(), values[number % values.len()].clone());
                Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
            };
            (0..count).map(value).collect()
        }
        other => panic!("no slot has a {}", other.as_str()),
    }
}

/// Reads a sample as this type, and writes it again as it was.
fn reads_and_writes<T: Serialize + DeserializeOwned>(slot: SlotName, sample: &Value) {
    let value: T = serde_json::from_value(sample.clone()).unwrap_or_else(|error| panic!("{slot}: {error}: {sample}"));
    assert_eq!(serde_json::to_value(&value).unwrap(), *sample, "{slot}");
}

/// The host's types of a slot, and those that a policy is written with, read and write all that can be said.
fn speaks_the_contracts_words<S: Slot, Q, A>()
where
    Q: Serialize + DeserializeOwned,
    A: Serialize + DeserializeOwned,
{
    let resolve = parse(&folder());
    let decide = decide(&resolve, S::NAME);
    for sample in samples(&resolve, &decide.params[0].ty) {
        reads_and_writes::<S::Question>(S::NAME, &sample);
        reads_and_writes::<Q>(S::NAME, &sample);
    }
    for sample in samples(&resolve, &decide.result.unwrap()) {
        reads_and_writes::<S::Answer>(S::NAME, &sample);
        reads_and_writes::<A>(S::NAME, &sample);
    }
    let mut example = serde_json::to_value(S::example()).unwrap();
    reads_and_writes::<Q>(S::NAME, &example);
    example["colour"] = json!("red");
    assert!(serde_json::from_value::<S::Question>(example.clone()).is_err(), "{}", S::NAME);
    assert!(serde_json::from_value::<Q>(example).is_err(), "{}", S::NAME);
}

#[test]
fn questions_and_answers_are_json_in_the_words_of_the_contract_for_the_host_and_for_a_policy() {
    use windlass_guest_sdk as sdk;
    speaks_the_contracts_words::<slots::StateMapping, sdk::state_mapping::Question, Vec<sdk::state_mapping::Answer>>();
    speaks_the_contracts_words::<slots::Retry, sdk::retry::Question, sdk::retry::Answer>();
    speaks_the_contracts_words::<slots::Rollback, sdk::rollback::Question, sdk::rollback::Answer>();
    speaks_the_contracts_words::<slots::Release, sdk::release::Question, sdk::release::Answer>();
    speaks_the_contracts_words::<slots::Provisioning, sdk::provisioning::Question, sdk::provisioning::Answer>();
    speaks_the_contracts_words::<slots::Placement, sdk::placement::Question, sdk::placement::Answer>();
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
    check_slot::<slots::Placement>();
}
