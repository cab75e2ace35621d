//! The JSON Schema of scenarios is checked in, so that only tests need what makes it. Here it is made again.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::scenario::{Scenario, Time};

/// How a [`Time`] is written.
const TIME: &str = r"^([0-9]+(\.[0-9]*)?(h|m|s|ms|us|µs|ns))+$";

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": TIME })
    }
}

/// TOML has no null: a key that is absent is left out.
fn without_null(schema: &mut Schema) {
    let null = serde_json::Value::from("null");
    schema.remove("default");
    if let Some(serde_json::Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| *name != null);
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(serde_json::Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != null);
        if let [serde_json::Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            schema.remove("anyOf");
            one.into_iter().for_each(|(key, value)| drop(schema.insert(key, value)));
        }
    }
}

#[test]
fn the_schema_of_scenarios_is_that_of_their_type() {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Scenario>();
    RecursiveTransform(without_null).transform(&mut schema);
    let made = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
    windlass_test_reference::hold("host/fleeting/src/group/rehearsal/scenario.schema.json", &made);
}
