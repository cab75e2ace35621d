//! The shapes of documents, which scripts hold on to: the fields of each and the kinds of their values. Fields are only
//! ever added. `INSTA_UPDATE=always` writes them anew, and `git diff` shows what that changes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::support::{IMPATIENT, World};

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

/// What is asked of a world that has a server, a cluster of two nodes, and a creation that was undone, in this order.
/// ID stands for the server's name, LAST for the newest operation, DECISION for the newest decision.
const ASKED: &[(&str, &[&str])] = &[
    ("server list", &["server", "list"]),
    ("server show", &["server", "show", "ID"]),
    ("cluster list", &["cluster", "list"]),
    ("cluster status", &["cluster", "status", "farm"]),
    ("cluster refresh", &["cluster", "refresh", "farm"]),
    ("cluster history", &["cluster", "history", "farm"]),
    ("cluster diff", &["cluster", "diff", "other.toml"]),
    ("cluster export", &["cluster", "export", "farm"]),
    ("cluster validate", &["cluster", "validate", "farm.toml"]),
    ("cluster scale --dry-run", &["cluster", "scale", "farm", "web=1", "--dry-run"]),
    ("cluster cancel", &["cluster", "cancel", "farm"]),
    ("cluster resume", &["cluster", "resume"]),
    ("operation list", &["operation", "list"]),
    ("operation show", &["operation", "show", "LAST"]),
    ("operation watch", &["operation", "watch"]),
    ("operation resume", &["operation", "resume"]),
    ("state show", &["state", "show"]),
    ("sweep --dry-run", &["sweep", "--dry-run"]),
    ("config show", &["config", "show"]),
    ("doctor", &["doctor"]),
    ("policy list", &["policy", "list"]),
    ("policy status", &["policy", "status"]),
    ("policy shadow", &["policy", "shadow"]),
    ("policy audit", &["policy", "audit", "POLICY"]),
    ("decision list", &["decision", "list", "--slot", "retry"]),
    ("decision show", &["decision", "show", "DECISION"]),
    ("decision replay", &["decision", "replay", "DECISION"]),
    ("decision replay --since", &["decision", "replay", "--since", "1h"]),
    ("conformance --list", &["conformance", "--list"]),
    ("server delete --dry-run", &["server", "delete", "ID", "--dry-run"]),
    ("server delete", &["server", "delete", "ID", "--yes"]),
    ("cluster scale", &["cluster", "scale", "farm", "web=1", "--yes"]),
    ("cluster terminate", &["cluster", "terminate", "farm", "--yes"]),
    ("state take-over", &["state", "take-over", "--yes"]),
];

/// The document with the kinds of its values in their places; what stands in a list has one shape.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("string"),
        Value::Array(items) => Value::Array(items.iter().map(shape).reduce(merged).into_iter().collect()),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, it)| (name.clone(), shape(it))).collect()),
    }
}

fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut fields), Value::Object(more)) => {
            for (name, it) in more {
                let known = fields.remove(&name);
                fields.insert(name, known.map_or(it.clone(), |known| merged(known, it)));
            }
            Value::Object(fields)
        }
        (Value::Array(one), Value::Array(other)) => {
            Value::Array(one.into_iter().chain(other).reduce(merged).into_iter().collect())
        }
        (Value::String(one), Value::String(other)) => {
            let kinds: BTreeSet<&str> = one.split(" or ").chain(other.split(" or ")).collect();
            json!(kinds.into_iter().collect::<Vec<_>>().join(" or "))
        }
        // Absent or nothing in one, and there in the other.
        (Value::String(null), it) | (it, Value::String(null)) if null == "null" => it,
        (one, _) => one,
    }
}

#[test]
fn every_document_has_the_fields_that_it_had() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    let file = |name: &str, text: &str| world.write(name, text.as_bytes()).to_str().unwrap().to_owned();
    let (farm, other) = (file("farm.toml", FARM), file("other.toml", &FARM.replace("count = 2", "count = 3")));
    let keep = file("keep.rules.toml", "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n");
    let mut shapes = Map::new();
    let mut note = |name: &str, document: &Value| {
        shapes.insert(name.to_owned(), shape(document));
    };
    note("cluster create --dry-run", &world.json(&["cluster", "create", &farm, "--dry-run"]));
    note("cluster create", &world.json(&["cluster", "create", &farm]));
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    note("server create, failed", &world.create("1").expect(1).json());
    world.control("DELETE", "faults", "");
    let created = world.create("1").expect(0).json();
    note("server create", &created);
    let name = created["servers"][0]["name"].as_str().unwrap();
    let decisions = world.json(&["decision", "list", "--slot", "retry"]);
    let decision = decisions["decisions"][0]["id"].as_str().unwrap();
    for (command, arguments) in ASKED {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|argument| match *argument {
                "ID" => name,
                "LAST" => created["servers"][0]["operation"].as_str().unwrap(),
                "DECISION" => decision,
                "POLICY" => &keep,
                "farm.toml" => &farm,
                "other.toml" => &other,
                other => other,
            })
            .collect();
        note(command, &world.json(&arguments));
    }
    note("a failure", &world.run(&["server", "show", "nobody", "-o", "json"]).expect(2).json());
    insta::assert_json_snapshot!(Value::Object(shapes));
}

#[test]
fn shapes_of_a_list_are_one() {
    let document = json!({ "list": [{ "a": null, "b": [1] }, { "a": { "x": true }, "b": [] }, { "c": "text" }] });
    let expected = json!({ "list": [{ "a": { "x": "boolean" }, "b": ["number"], "c": "string" }] });
    assert_eq!(shape(&document), expected);
    assert_eq!(merged(json!("null"), json!("string")), json!("null or string"));
}
