use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass_guest_sdk::testing;
use windlass_guest_sdk::types::{FailureClass, ResourceKind};
use wit_parser::{Resolve, Type, TypeDefKind};

use super::*;

fn contract() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy")).expect("the contract is WIT");
    resolve
}

/// The question of a slot, and its answer.
fn decide(resolve: &Resolve, slot: &str) -> (Type, Type) {
    let mut interfaces = resolve.interfaces.iter().map(|(_, interface)| interface);
    let interface = interfaces.find(|interface| interface.name.as_deref() == Some(slot)).expect("a slot");
    let decide = &interface.functions["decide"];
    (decide.params[0].ty, decide.result.expect("it answers"))
}

/// Compares a table with a record of the WIT.
fn compare(resolve: &Resolve, of: &Type, record: &'static Record, differs: &[&str]) {
    let TypeDefKind::Record(wit) = kind(resolve, of) else { panic!("no record") };
    // A listing is compared without its servers.
    let is_compared = |field: &&wit_parser::Field| {
        field.name != "servers" || !matches!(kind_or_primitive(resolve, &field.ty), Ok(TypeDefKind::List(_)))
    };
    let theirs: Vec<&str> = wit.fields.iter().filter(is_compared).map(|field| field.name.as_str()).collect();
    let ours: Vec<&str> = record.fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(ours, theirs);
    for field in wit.fields.iter().filter(|field| !differs.contains(&field.name.as_str())) {
        let Some((_, shape)) = record.fields.iter().find(|(name, _)| *name == field.name) else { continue };
        compare_shape(resolve, &field.ty, shape, &field.name);
    }
}

fn compare_shape(resolve: &Resolve, of: &Type, shape: &'static Shape, name: &str) {
    match (kind_or_primitive(resolve, of), shape) {
        (Ok(TypeDefKind::Enum(wit)), Shape::Cases(cases)) => {
            let theirs: Vec<&str> = wit.cases.iter().map(|case| case.name.as_str()).collect();
            assert_eq!(*cases, theirs, "{name}");
        }
        (Ok(TypeDefKind::Option(inner)), Shape::Optional(shape)) => compare_shape(resolve, inner, shape, name),
        (Ok(TypeDefKind::List(item)), Shape::List(shape)) => compare_shape(resolve, item, shape, name),
        (Ok(TypeDefKind::Record(_)), Shape::Record(record)) => compare(resolve, of, record, &[]),
        (Err(Type::Bool), Shape::Bool) | (Err(Type::String), Shape::Text) => {}
        (Err(Type::U8 | Type::U16 | Type::U32 | Type::U64), Shape::Number) => {}
        (_, shape) => panic!("{name} is not {shape:?}"),
    }
}

fn kind<'r>(resolve: &'r Resolve, of: &Type) -> &'r TypeDefKind {
    kind_or_primitive(resolve, of).unwrap_or_else(|primitive| panic!("{primitive:?}"))
}

fn kind_or_primitive<'r>(resolve: &'r Resolve, of: &Type) -> Result<&'r TypeDefKind, Type> {
    match of {
        Type::Id(id) => match &resolve.types[*id].kind {
            TypeDefKind::Type(alias) => kind_or_primitive(resolve, alias),
            kind => Ok(kind),
        },
        primitive => Err(*primitive),
    }
}

#[test]
fn the_tables_are_those_of_the_contract() {
    let resolve = contract();
    for (slot, scope) in [
        ("state-mapping", &STATE_MAPPING_SCOPE),
        ("retry", &RETRY_SCOPE),
        ("rollback", &ROLLBACK_SCOPE),
        ("release", &RELEASE_SCOPE),
        ("provisioning", &PROVISIONING_SCOPE),
        ("placement", &PLACEMENT_SCOPE),
    ] {
        compare(&resolve, &decide(&resolve, slot).0, scope.question, &[]);
    }
    let (listing, _) = decide(&resolve, "state-mapping");
    let TypeDefKind::Record(listing) = kind(&resolve, &listing) else { panic!("no record") };
    let servers = listing.fields.iter().find(|field| field.name == "servers").expect("a listing has servers");
    let TypeDefKind::List(server) = kind(&resolve, &servers.ty) else { panic!("no list") };
    compare(&resolve, server, &SERVER, &["server-type", "watched-tags"]);
}

#[test]
fn the_verdicts_are_those_of_the_contract() {
    let resolve = contract();
    for (slot, words) in [
        ("state-mapping", STATE_MAPPING_VERDICTS),
        ("retry", RETRY_VERDICTS),
        ("release", RELEASE_VERDICTS),
        ("provisioning", PROVISIONING_VERDICTS),
    ] {
        let (_, mut answer) = decide(&resolve, slot);
        if let TypeDefKind::List(one) = kind(&resolve, &answer) {
            answer = *one;
        }
        let TypeDefKind::Record(answer) = kind(&resolve, &answer) else { panic!("no record") };
        let TypeDefKind::Variant(verdict) = kind(&resolve, &answer.fields[0].ty) else { panic!("no variant") };
        let theirs: Vec<&str> = verdict.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(words, theirs, "{slot}");
    }
}

fn as_json(item: Item<'_>) -> Value {
    match item {
        Item::Null => Value::Null,
        Item::Bool(value) => json!(value),
        Item::Number(number) => json!(number),
        Item::Text(text) => json!(text),
        Item::List(items) => items.into_iter().map(as_json).collect(),
        Item::Record(record) => {
            let fields = record.record().fields.iter().enumerate();
            fields.map(|(at, (name, _))| ((*name).to_owned(), as_json(record.field(at)))).collect::<Map<_, _>>().into()
        }
    }
}

/// Each accessor gives what the field of its name holds.
fn gives_its_fields(question: &(impl Node + Serialize)) {
    let mut expected = serde_json::to_value(question).expect("questions are JSON");
    expected.as_object_mut().expect("an object").remove("servers");
    assert_eq!(as_json(Item::Record(question)), expected);
}

#[test]
fn every_field_gives_what_the_question_holds() {
    let random = 0x1e37_79b9;
    let failure = || Failure {
        method: Some("POST".into()),
        path: Some("/path".into()),
        status: Some(503),
        error_type: Some("out_of_stock".into()),
        resource: Some("instance_server".into()),
        ..testing::failure(FailureClass::OutOfStock)
    };
    let place = || placement::Place {
        servers: 4,
        creating: 2,
        failures: 1,
        last_failure: Some(failure()),
        failed_at: Some(6),
        backoff_until: Some(7),
        price_per_hour: Some(placement::Money { currency: "EUR".into(), micros: 8_976 }),
        ..testing::place("fr-par-1", "DEV1-S")
    };
    let bare = testing::place("fr-par-2", "DEV1-M");
    gives_its_fields(&placement::Question { random, ..testing::placement_question(3, [place(), bare]) });
    let retry = || testing::retry_question(FailureClass::Gateway);
    gives_its_fields(&retry::Question { random, failure: failure(), ..retry() });
    gives_its_fields(&retry::Question { random, time_left: None, group: None, server_type: None, ..retry() });
    let volume = rollback::Resource {
        attached_to: Some(7),
        state: Some("in_use".into()),
        ..testing::resource(ResourceKind::BlockVolume, "volume")
    };
    gives_its_fields(&rollback::Question { random, ..testing::rollback_question([volume]) });
    for kind in [release::MachineKind::Instance, release::MachineKind::AppleSiliconServer] {
        let refusal = release::Refusal {
            action: release::Action::Terminate,
            failure: failure(),
            not_before: Some(testing::NOW + 1),
        };
        gives_its_fields(&release::Question {
            random,
            requested: Some(release::Requested::Keep),
            refusal: Some(refusal),
            ..testing::release_question(testing::machine(kind))
        });
    }
    let node = provisioning::Node {
        name: "n-1".into(),
        group: "workers".into(),
        role: provisioning::NodeRole::Made,
        exists: true,
        decommissioned: false,
        configured: true,
    };
    gives_its_fields(&provisioning::Question {
        random,
        groups: vec![provisioning::Group { name: "workers".into(), before: 1, wanted: 2 }],
        nodes: vec![node],
        ..testing::provisioning_question(FailureClass::HookFailed)
    });
}

#[test]
fn a_server_has_the_names_of_its_type_and_of_its_tags() {
    let server = state_mapping::Server {
        server_type: 1,
        watched_tags: 0b10,
        ..testing::server(state_mapping::ServerState::StoppedInPlace)
    };
    let listing = state_mapping::Question {
        server_types: vec!["DEV1-S".into(), "GP1-XS".into()],
        watched_tags: vec!["keep".into(), "debug".into()],
        ..testing::state_mapping_question([server])
    };
    let mut expected = serde_json::to_value(server).expect("a server is JSON");
    expected["server-type"] = json!("GP1-XS");
    expected["watched-tags"] = json!(["debug"]);
    assert_eq!(as_json(Item::Record(&ListedServer { server: &server, listing: &listing })), expected);
    gives_its_fields(&listing);
}
