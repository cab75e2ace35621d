use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass_guest_sdk::types::{Failure, FailureClass, Label, Money, Object, Requester, ResourceKind, Subject};
use windlass_guest_sdk::{placement, provisioning, release, retry, rollback, testing};

use super::*;

fn as_json(item: Item<'_>) -> Value {
    match item {
        Item::Null => Value::Null,
        Item::Bool(value) => json!(value),
        Item::Number(number) => json!(number),
        Item::Text(text) => json!(text),
        Item::List(items) => items.into_iter().map(as_json).collect(),
        Item::Record(record) => {
            let fields = record.fields().iter().enumerate();
            fields.map(|(at, (name, _))| ((*name).to_owned(), as_json(record.field(at)))).collect::<Map<_, _>>().into()
        }
    }
}

/// Each accessor gives what the field of its name holds.
fn gives_its_fields(question: &(impl Node + Serialize)) {
    let expected = serde_json::to_value(question).expect("questions are JSON");
    assert_eq!(as_json(Item::Record(question)), expected);
}

fn whole_subject() -> Subject {
    Subject {
        project: Some("project".into()),
        cluster: Some("batch".into()),
        object: Some(Object { kind: "InstanceMachine".into(), namespace: "team-a".into(), name: "builder".into() }),
        labels: vec![Label { name: "team".into(), value: "build".into() }],
        requester: Some(Requester::Object),
        why: Some("the object is being deleted".into()),
        ..testing::subject()
    }
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
        price_per_hour: Some(Money { currency: "EUR".into(), micros: 8_976 }),
        ..testing::place("fr-par-1", "DEV1-S")
    };
    let bare = testing::place("fr-par-2", "DEV1-M");
    gives_its_fields(&placement::Question { random, ..testing::placement_question(3, [place(), bare]) });
    let retry = || testing::retry_question(FailureClass::Gateway);
    gives_its_fields(&retry::Question { random, failure: failure(), ..retry() });
    gives_its_fields(&retry::Question { random, time_left: None, server_type: None, ..retry() });
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
            subject: whole_subject(),
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
