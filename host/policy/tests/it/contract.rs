//! The Rust types against the WIT: their shapes as a component sees them, and their words in JSON.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};
use windlass_policy::slots::{self, Slot, SlotName};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
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

/// A component that exports a slot of the contract in this folder, and traps when it is asked.
fn exporting(folder: &Path, slot: SlotName) -> Vec<u8> {
    let mut resolve = parse(folder);
    let signature = resolve.wasm_signature(AbiVariant::GuestExport, decide(&resolve, slot));
    let words = |types: &[WasmType]| {
        let word = |it: &WasmType| match it {
            WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
            WasmType::I64 | WasmType::PointerOrI64 => "i64",
            WasmType::F32 => "f32",
            WasmType::F64 => "f64",
        };
        types.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    let export = format!("{}@{}", slot.interface(), slots::CONTRACT_VERSION);
    let (parameters, results) = (words(&signature.params), words(&signature.results));
    let mut module = wat::parse_str(format!(
        r#"(module
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "{export}#decide") (param {parameters}) (result {results}) unreachable))"#
    ))
    .unwrap();
    let world = format!("package test:contract; world contract {{ export {export}; }}");
    let package = resolve.push_str("contract.wit", &world).unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// Compares the slot's types with the contract in this folder as a host does that is to call a policy: fields of
/// records and cases of variants and enums by order, name and type.
fn compare<S: Slot>(folder: &Path) -> Result<(), String> {
    let engine = Engine::default();
    let component = Component::new(&engine, exporting(folder, S::NAME)).unwrap();
    let mut linker = Linker::<()>::new(&engine);
    linker.define_unknown_imports_as_traps(&component).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &component).unwrap();
    let export = format!("{}@{}", S::NAME.interface(), slots::CONTRACT_VERSION);
    let index = component.get_export_index(None, &export).unwrap();
    let index = component.get_export_index(Some(&index), "decide").unwrap();
    let typed = instance.get_typed_func::<(&S::Question,), (S::Answer,)>(&mut store, &index);
    typed.map(drop).map_err(|error| format!("{}: {error:#}", S::NAME))
}

#[test]
fn the_types_of_every_slot_have_the_shapes_of_the_contract() {
    compare::<slots::StateMapping>(&folder()).unwrap();
    compare::<slots::Retry>(&folder()).unwrap();
    compare::<slots::Rollback>(&folder()).unwrap();
    compare::<slots::Release>(&folder()).unwrap();
    compare::<slots::Provisioning>(&folder()).unwrap();
    compare::<slots::Placement>(&folder()).unwrap();
}

/// The error of the comparison with a contract in which one place of one file reads otherwise.
fn changed<S: Slot>(file: &str, from: &str, to: &str) -> String {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let mut text = std::fs::read_to_string(entry.path()).unwrap();
        if entry.file_name() == file {
            assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
            text = text.replace(from, to);
        }
        std::fs::write(copy.path().join(entry.file_name()), text).unwrap();
    }
    compare::<S>(copy.path()).expect_err(&format!("{file}: {from} -> {to}"))
}

#[test]
fn another_type_another_name_and_another_order_are_seen() {
    let error = changed::<slots::Retry>("retry.wit", "attempt: u32", "attempt: u64");
    assert!(error.contains("attempt") && error.contains("u64"), "{error}");
    let error = changed::<slots::Retry>("types.wit", "status: option<u16>", "status: option<u32>");
    assert!(error.contains("status"), "{error}");
    let error = changed::<slots::Retry>("retry.wit", "        undoing: bool", "        undone: bool");
    assert!(error.contains("undone"), "{error}");
    let (watched, suspended) = ("        watched-tags: u64,\n", "        suspended: bool,\n");
    let error =
        changed::<slots::StateMapping>("state-mapping.wit", watched, "        watched-tags: u64,\n        more: u8,\n");
    assert!(error.contains("fields"), "{error}");
    let error = changed::<slots::StateMapping>("state-mapping.wit", suspended, "");
    assert!(error.contains("fields"), "{error}");
    let (before, wanted) = ("        before: u32,\n", "        wanted: u32,\n");
    let swapped =
        changed::<slots::Provisioning>("provisioning.wit", &format!("{before}{wanted}"), &format!("{wanted}{before}"));
    assert!(swapped.contains("before") && swapped.contains("wanted"), "{swapped}");
    let error = changed::<slots::Rollback>("rollback.wit", "        power-off,\n", "        power-down,\n");
    assert!(error.contains("power-down"), "{error}");
    let error = changed::<slots::Release>("release.wit", "        reclaim,\n", "        reclaim,\n        expired,\n");
    assert!(error.contains("enum"), "{error}");
    let error = changed::<slots::Release>("release.wit", "retry-after(milliseconds)", "retry-after(u32)");
    assert!(error.contains("retry-after"), "{error}");
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
