//! The schemas against the types that the host reads: what one lets through the other does, too.

use serde_json::{Value, json};
use windlass_authoring::{SchemaOf, schema};
use windlass_contract::{Shape, SlotShapes};
use windlass_policy::RulesFile;
use windlass_policy::slots::SlotName;
use windlass_proof::fixture::Fixture;

/// Whether a value fits a schema, for the keywords that these schemas have. An unknown keyword is a failure of the
/// test.
fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
    let all = |schemas: &Value| schemas.as_array().unwrap().iter().filter(|one| fits(root, one, value)).count();
    schema.as_object().unwrap().iter().all(|(keyword, rule)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "default" => true,
        "$ref" => fits(root, root.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap(), value),
        "type" => match rule.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "null" => value.is_null(),
            other => panic!("type {other}"),
        },
        "const" => value == rule,
        "enum" => rule.as_array().unwrap().contains(value),
        "pattern" => {
            assert_eq!(rule, "^=");
            value.as_str().is_none_or(|text| text.starts_with('='))
        }
        "oneOf" => all(rule) == 1,
        "anyOf" => all(rule) > 0,
        "allOf" => all(rule) == rule.as_array().unwrap().len(),
        "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
        "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| fits(root, rule, item))),
        "required" => value.as_object().is_none_or(|fields| {
            rule.as_array().unwrap().iter().all(|name| fields.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|fields| {
            let known = rule.as_object().unwrap();
            fields.iter().all(|(name, value)| known.get(name).is_none_or(|rule| fits(root, rule, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|fields| {
            assert_eq!(rule, false);
            fields.keys().all(|name| schema["properties"].get(name).is_some())
        }),
        other => panic!("the test knows no keyword {other}"),
    })
}

/// Values in which each case and each option of a shape comes up.
fn samples(shape: &Shape) -> Vec<Value> {
    match shape {
        Shape::Bool => vec![json!(true), json!(false)],
        Shape::Number { bits } => vec![json!(0), json!(u64::MAX >> (64 - bits))],
        Shape::Text => vec![json!("text")],
        Shape::Option(inner) => [vec![Value::Null], samples(inner)].concat(),
        Shape::List(item) => vec![json!([]), Value::Array(samples(item))],
        Shape::Enum(cases) => cases.iter().map(|case| json!(case)).collect(),
        Shape::Record(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, shape)| (name, samples(shape))).collect();
            let count = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
            let record = |number: usize| {
                fields.iter().map(|(name, values)| (name.to_string(), values[number % values.len()].clone())).collect()
            };
            (0..count).map(|number| Value::Object(record(number))).collect()
        }
        Shape::Variant(cases) => {
            let of = |(case, payload): &(&str, Option<Shape>)| match payload {
                None => vec![json!(case)],
                Some(payload) => samples(payload).into_iter().map(|value| json!({ *case: value })).collect(),
            };
            cases.iter().flat_map(of).collect()
        }
    }
}

/// The value with something wrong in one place, for each place: another type, an unknown case, a field more, a field
/// less, a number out of its bounds.
fn corrupt(value: &Value) -> Vec<Value> {
    let mut wrong = vec![json!(-1), json!({ "no-such-case": 1 })];
    match value {
        Value::String(_) => wrong.push(json!(7)),
        Value::Number(_) => wrong.push(json!("7")),
        Value::Object(fields) => {
            for name in fields.keys() {
                let mut less = fields.clone();
                less.remove(name);
                wrong.push(Value::Object(less));
                for corrupt in corrupt(&fields[name]) {
                    let mut other = fields.clone();
                    other.insert(name.clone(), corrupt);
                    wrong.push(Value::Object(other));
                }
            }
            let mut more = fields.clone();
            more.insert("no-such-field".into(), json!(1));
            wrong.push(Value::Object(more));
        }
        Value::Array(items) => {
            for (position, item) in items.iter().enumerate().take(2) {
                for corrupt in corrupt(item) {
                    let mut other = items.clone();
                    other[position] = corrupt;
                    wrong.push(Value::Array(other));
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    if value.is_string() {
        wrong.push(json!("no-such-case"));
    }
    wrong
}

#[test]
fn a_schema_lets_through_what_the_host_reads_and_nothing_else() {
    for slot in SlotName::ALL {
        let shapes = SlotShapes::of(slot.as_str()).unwrap();
        let (mut right, mut wrong) = (0, 0);
        for (of, shape) in [(SchemaOf::Question, &shapes.question), (SchemaOf::Answer, &shapes.answer)] {
            let schema = schema(slot, of).unwrap();
            let is_read = |value: &Value| match of {
                SchemaOf::Question => slot.whole_question(value).is_ok(),
                _ => slot.whole_answer(value).is_ok(),
            };
            for sample in samples(shape) {
                assert!(fits(&schema, &schema, &sample), "{slot}: {sample}");
                assert!(is_read(&sample), "{slot}: {sample}");
                assert_eq!(shape.misfits(&sample), Vec::<String>::new(), "{slot}: {sample}");
                right += 1;
                for corrupt in corrupt(&sample) {
                    assert_eq!(fits(&schema, &schema, &corrupt), is_read(&corrupt), "{slot}: {corrupt}");
                    assert_eq!(shape.misfits(&corrupt).is_empty(), is_read(&corrupt), "{slot}: {corrupt}");
                    wrong += u32::from(!is_read(&corrupt));
                }
            }
        }
        assert!(right >= 4 && wrong >= 100, "{slot}: {right} samples, {wrong} of the corrupt ones refused");
    }
}

#[test]
fn the_schema_of_fixtures_knows_the_words_of_fixtures() {
    for slot in SlotName::ALL {
        let schema = schema(slot, SchemaOf::Fixture).unwrap();
        let lets_through = |value: &Value| fits(&schema, &schema, value);
        let whole = json!({
            "$schema": "x", "about": "x", "slot": slot, "settings": {"a": 1}, "question": slot.example_question(),
            "host-calls": [{"interface": "x", "function": "f", "arguments": [1], "answer": {"ok": 1}}],
            "expect": {"verdict": "defer", "holds": "true", "reason": "x"},
        });
        assert!(lets_through(&whole) && serde_json::from_value::<Fixture>(whole.clone()).is_ok(), "{slot}");
        assert!(lets_through(&json!({"slot": slot, "question": {"now": 1}, "expect": {}})), "{slot}");
        for (key, wrong) in [
            ("slot", json!("other")),
            ("question", json!({"no-such-field": 1})),
            ("expect", json!({"verdict": "no-such-case"})),
            ("expect", json!({"says": 1})),
            ("no-such-key", json!(1)),
            ("host-calls", json!([{"function": "f"}])),
        ] {
            let mut corrupt = whole.clone();
            corrupt[key] = wrong;
            assert!(!lets_through(&corrupt), "{slot}: {corrupt}");
        }
    }
    let batch = schema(SlotName::StateMapping, SchemaOf::Fixture).unwrap();
    assert!(fits(&batch, &batch, &json!({"slot": "state-mapping", "expect": {"verdict": ["defer", "defer"]}})));
}

#[test]
fn the_schema_of_rules_lets_through_the_rules_that_there_are() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest/examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if !RulesFile::is_named(&path) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let rules: Value = toml::from_str(&text).unwrap();
        let slot = RulesFile::read(text.as_bytes()).unwrap().slot();
        let schema = schema(slot, SchemaOf::Rules).unwrap();
        assert!(fits(&schema, &schema, &rules), "{}", path.display());
        for (key, wrong) in [("when", json!(1)), ("answer", json!("no-such-case")), ("wen", json!("true"))] {
            let mut corrupt = rules.clone();
            corrupt["rules"][0][key] = wrong;
            assert!(!fits(&schema, &schema, &corrupt), "{slot}: {key}");
        }
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} files of rules were found");
}

#[test]
fn the_words_of_the_contract_are_told_with_the_fields() {
    let schema = schema(SlotName::Retry, SchemaOf::Question).unwrap();
    let attempt = &schema["$defs"]["question"]["properties"]["attempt"];
    assert_eq!(attempt["description"], "Which attempt failed, from 1.");
    assert_eq!(attempt["maximum"], u32::MAX);
}
