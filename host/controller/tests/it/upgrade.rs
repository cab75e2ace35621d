//! Objects of older definitions under the definitions of today. `tests/upgrade/frozen` holds the older ones, by
//! `tests/upgrade/definitions.py`.

use serde_json::Value;
use windlass_controller::definitions;
use windlass_test_reference::repository;

/// A bound of the schema, and whether another value of it still lets in what this one did.
fn is_as_wide(bound: &str, older: &Value, newer: &Value) -> bool {
    match bound {
        "minimum" | "minLength" | "minItems" | "minProperties" => newer.as_f64() <= older.as_f64(),
        "maximum" | "maxLength" | "maxItems" | "maxProperties" => newer.as_f64() >= older.as_f64(),
        _ => newer == older,
    }
}

/// What an object that fits the older schema may break in the newer one, and what of it would not be kept.
fn breaks(older: &Value, newer: &Value, place: &str, found: &mut Vec<String>) {
    if older["type"] != newer["type"] {
        found.push(format!("{place} was {} and is {}", older["type"], newer["type"]));
    }
    for (field, older) in older["properties"].as_object().into_iter().flatten() {
        match newer["properties"].get(field) {
            Some(newer) => breaks(older, newer, &format!("{place}.{field}"), found),
            None => found.push(format!("{place}.{field} is gone")),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if older[inner].is_object() {
            breaks(&older[inner], &newer[inner], &format!("{place}[]"), found);
        }
    }
    let texts = |schema: &Value, key: &str| schema[key].as_array().cloned().unwrap_or_default();
    for field in texts(newer, "required").iter().filter(|field| !texts(older, "required").contains(field)) {
        found.push(format!("{place} requires {field} now"));
    }
    if let Some(choices) = newer["enum"].as_array() {
        match older["enum"].as_array() {
            Some(older) => {
                let gone = older.iter().filter(|choice| !choices.contains(choice));
                found.extend(gone.map(|choice| format!("{place} refuses {choice} now")));
            }
            None => found.push(format!("{place} is an enum now")),
        }
    }
    const BOUNDS: [&str; 10] = [
        "minimum",
        "minLength",
        "minItems",
        "minProperties",
        "maximum",
        "maxLength",
        "maxItems",
        "maxProperties",
        "pattern",
        "format",
    ];
    for bound in BOUNDS.into_iter().filter(|bound| !newer[bound].is_null()) {
        if !is_as_wide(bound, &older[bound], &newer[bound]) {
            found.push(format!("{place}: {bound} was {} and is {}", older[bound], newer[bound]));
        }
    }
    let rules = |schema: &Value| {
        let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
        rules.into_iter().map(|rule| rule["rule"].clone()).collect::<Vec<_>>()
    };
    for rule in rules(newer).iter().filter(|rule| !rules(older).contains(rule)) {
        found.push(format!("{place} has the new rule {rule}"));
    }
    if older["default"] != newer["default"] {
        found.push(format!("{place}: its default was {} and is {}", older["default"], newer["default"]));
    }
}

#[test]
fn what_older_definitions_let_in_is_let_in_and_kept() {
    let current: Vec<Value> = definitions().iter().map(|one| serde_json::to_value(one).unwrap()).collect();
    let mut seen = 0;
    for folder in std::fs::read_dir(repository().join("tests/upgrade/frozen")).unwrap() {
        let file = folder.unwrap().path().join("definitions.json");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let older: Vec<Value> = serde_json::from_str(&text).unwrap();
        for older in older {
            let name = &older["metadata"]["name"];
            let newer = current.iter().find(|newer| newer["metadata"]["name"] == *name);
            let newer = newer.unwrap_or_else(|| panic!("{name} is gone"));
            for key in ["group", "scope"] {
                assert_eq!(older["spec"][key], newer["spec"][key], "{name}");
            }
            for key in ["kind", "plural"] {
                assert_eq!(older["spec"]["names"][key], newer["spec"]["names"][key], "{name}");
            }
            for older in older["spec"]["versions"].as_array().unwrap() {
                let versions = newer["spec"]["versions"].as_array().unwrap();
                let newer = versions.iter().find(|newer| newer["name"] == older["name"]);
                let newer = newer.unwrap_or_else(|| panic!("{name} has no version {} any more", older["name"]));
                let mut found = Vec::new();
                let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
                breaks(&schema(older), &schema(newer), older["name"].as_str().unwrap(), &mut found);
                assert!(found.is_empty(), "{}: {name}: {found:#?}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen >= 9, "only {seen} older definitions were found");
}

#[test]
fn each_kind_of_break_is_seen() {
    let older = serde_json::json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 10},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "zones": {"type": "array", "items": {"type": "string"}},
        },
    });
    for (pointer, changed, words) in [
        ("/properties/name/type", serde_json::json!("integer"), "v1.name was \"string\""),
        ("/properties/name/maxLength", serde_json::json!(9), "maxLength was 10 and is 9"),
        ("/properties/mode/enum", serde_json::json!(["a", "c"]), "v1.mode refuses \"b\""),
        ("/properties/zones/items/type", serde_json::json!("integer"), "v1.zones[] was"),
        ("/properties/zones", Value::Null, "v1.zones was"),
        ("/required", serde_json::json!(["name", "mode"]), "v1 requires \"mode\""),
    ] {
        let mut newer = older.clone();
        *newer.pointer_mut(pointer).unwrap() = changed;
        let mut found = Vec::new();
        breaks(&older, &newer, "v1", &mut found);
        assert!(found.iter().any(|found| found.contains(words)), "{pointer}: {found:?}");
    }
    let mut wider = older.clone();
    wider["properties"]["name"]["maxLength"] = 20.into();
    wider["properties"]["more"] = serde_json::json!({"type": "string"});
    let mut found = Vec::new();
    breaks(&older, &wider, "v1", &mut found);
    assert!(found.is_empty(), "{found:?}");
}
