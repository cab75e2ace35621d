//! The page with every field of every kind, from the definitions themselves.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

const INTRODUCTION: &str = "# Reference of the kinds

<!-- Generated from the definitions: WINDLASS_WRITE_DEFINITIONS=1 cargo test -p windlass-controller definitions -->

Group and version are `infrastructure.windlass.dev/v1alpha1`. The same stands in `kubectl explain`; what the kinds are
for is explained in [Machines in Kubernetes](kubernetes.md) and [clusters of servers](kubernetes-clusters.md). Fields in
**bold** are required where what they stand in is given.
";

/// The page, in Markdown.
pub(super) fn reference(definitions: &[CustomResourceDefinition]) -> String {
    let mut page = INTRODUCTION.to_owned();
    for definition in definitions {
        kind(&mut page, &serde_json::to_value(&definition.spec).expect("a definition is plain data"));
    }
    page
}

fn kind(page: &mut String, spec: &Value) {
    let name = text(&spec["names"]["kind"]);
    let version = &spec["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let short = text(&spec["names"]["shortNames"][0]);
    let _ = write!(page, "\n## {name}\n\n{} Short name: `{short}`.\n", sentence(&schema["description"]));
    let of = name.strip_suffix("Template");
    for part in ["spec", "status"] {
        let schema = &schema["properties"][part];
        let mut rows = Vec::new();
        fields(&mut rows, part, schema, of);
        if rows.is_empty() {
            continue;
        }
        let _ = write!(page, "\n| {part} | type | |\n|---|---|---|\n");
        for row in rows {
            let _ = writeln!(page, "{row}");
        }
    }
    let mut rules = Vec::new();
    if of.is_none() {
        collect_rules(&mut rules, "", schema);
    }
    if !rules.is_empty() {
        page.push_str("\nThe API server refuses an object with these words:\n\n");
        for (place, message) in rules {
            let place = if place.is_empty() { String::new() } else { format!("`{place}`: ") };
            let _ = writeln!(page, "- {place}{message}");
        }
    }
}

/// A row for each field below a schema, in the order of its properties. `machine` is the kind that a template is of.
fn fields(rows: &mut Vec<String>, path: &str, schema: &Value, machine: Option<&str>) {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if let Some(machine) = machine.filter(|_| path == "spec.template.spec") {
            let link = format!("the spec of [{machine}](#{})", machine.to_lowercase());
            rows.push(format!("| **`{path}`** | object | {link}, but for the rules against changes |"));
            continue;
        }
        let (shown, inner, kind) = described(&path, field);
        let shown = if required.contains(&name.as_str()) { format!("**`{shown}`**") } else { format!("`{shown}`") };
        rows.push(format!("| {shown} | {kind} | {} |", sentence(&field["description"])));
        fields(rows, inner.0.as_str(), inner.1, machine);
    }
}

/// How a field is shown, where its own fields are, and its type.
fn described<'a>(path: &str, field: &'a Value) -> (String, (String, &'a Value), String) {
    match field["type"].as_str() {
        Some("array") => {
            let items = &field["items"];
            let kind = format!("list{} of {}", limits(field, "minItems", "maxItems"), simple(items));
            (path.to_owned(), (format!("{path}[]"), items), kind)
        }
        Some("object") if field["additionalProperties"].is_object() => {
            let values = &field["additionalProperties"];
            let kind = format!("map{} of {}", limits(field, "minProperties", "maxProperties"), simple(values));
            (path.to_owned(), (format!("{path}.*"), values), kind)
        }
        _ => (path.to_owned(), (path.to_owned(), field), simple(field)),
    }
}

fn simple(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> = values.iter().filter_map(Value::as_str).map(|value| format!("`{value}`")).collect();
        return values.join(", ");
    }
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let kind = field["type"].as_str().unwrap_or("any");
    let (limits, pattern) = match kind {
        "string" => (limits(field, "minLength", "maxLength"), field["pattern"].as_str()),
        _ => (limits(field, "minimum", "maximum"), None),
    };
    let pattern = pattern.map(|pattern| format!(", `{}`", escaped(pattern))).unwrap_or_default();
    let default = match &field["default"] {
        Value::Null => String::new(),
        default => format!(", default `{default}`"),
    };
    format!("{kind}{limits}{pattern}{default}")
}

fn limits(field: &Value, least: &str, most: &str) -> String {
    // Numbers come as floating point from some schemas and as integers from others.
    let number = |key: &str| field[key].as_f64().filter(|number| *number != 0.0 || key == "maximum");
    match (number(least), number(most)) {
        (None, None) => String::new(),
        (Some(least), None) => format!(" (from {least})"),
        (None, Some(most)) => format!(" (to {most})"),
        (Some(least), Some(most)) if least == most => format!(" ({most})"),
        (Some(least), Some(most)) => format!(" ({least} to {most})"),
    }
}

/// The messages of the rules, with the place of each.
fn collect_rules(rules: &mut Vec<(String, String)>, path: &str, schema: &Value) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        rules.push((path.to_owned(), sentence(&rule["message"])));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect_rules(rules, &below, field);
        collect_rules(rules, &format!("{below}[]"), &field["items"]);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A description on one line of a table.
fn sentence(value: &Value) -> String {
    escaped(&text(value).split_whitespace().collect::<Vec<_>>().join(" "))
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
