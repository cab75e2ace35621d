//! The pages of the documentation that are made of the program's options and of its chart.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::CommandFactory as _;
use serde_json::Value;
use windlass_controller::Arguments;
use windlass_policy::slots::SlotName;
use windlass_test_reference::{cell, commands, hold, repository, wrapped};

#[test]
fn the_page_of_the_commands_is_made_of_the_command_line() {
    let introduction = "Every command and option, as `windlass-controller help` has them. [What the controller \
        does](kubernetes.md), [the values of its chart](kubernetes-chart.md), [exit codes](exit-codes.md).";
    let page = format!(
        "# Commands of `windlass-controller`\n\n<!-- Generated from the command line: just reference -->\n\n{}\n{}",
        wrapped(introduction),
        commands(Arguments::command())
    );
    hold("docs/controller-commands.md", &page);
}

const CHART: &str = "host/controller/deploy/helm/windlass-controller";

/// One value of the chart.
#[derive(Debug)]
struct Entry {
    path: Vec<String>,
    default: String,
    comment: String,
}

/// The values in the order of their file, each with the comment above it.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut comment = String::new();
    for line in text.lines() {
        let key = line.trim_start();
        let depth = (line.len() - key.len()) / 2;
        if let Some(words) = key.strip_prefix('#') {
            comment = format!("{comment} {}", words.trim());
        } else if let Some((key, default)) = key.split_once(':') {
            let mut path = entries.last().map(|entry| entry.path.clone()).unwrap_or_default();
            path.truncate(depth);
            path.push(key.to_owned());
            let default = default.trim().to_owned();
            entries.push(Entry { path, default, comment: std::mem::take(&mut comment).trim().to_owned() });
        } else {
            comment.clear();
        }
    }
    entries
}

/// What the schema says of a value; nothing where it leaves it to Kubernetes.
fn schema<'s>(whole: &'s Value, path: &[String]) -> Option<&'s Value> {
    path.iter().try_fold(whole, |schema, key| schema["properties"].get(key))
}

/// In words, what a value may hold.
fn holds(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        let choices: Vec<_> = choices.iter().map(|choice| format!("`{choice}`")).collect();
        return choices.join(", ");
    }
    let mut words = schema["type"].as_str().unwrap_or("anything").to_owned();
    if let Some(items) = schema["items"]["type"].as_str() {
        words = format!("{words} of {items}");
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let _ = write!(words, ", `{pattern}`");
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        let _ = write!(words, ", at most {most} characters");
    }
    words
}

/// Every path in the schema that holds a value itself.
fn leaves(schema: &Value, above: &[String], found: &mut Vec<Vec<String>>) {
    match schema["properties"].as_object() {
        Some(properties) => {
            for (key, below) in properties {
                leaves(below, &[above, std::slice::from_ref(key)].concat(), found);
            }
        }
        None => found.push(above.to_vec()),
    }
}

#[test]
fn the_page_of_the_chart_is_made_of_its_values_and_their_schema() {
    let read = |name: &str| std::fs::read_to_string(repository().join(CHART).join(name)).unwrap();
    let whole: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let entries = entries(&read("values.yaml"));
    let mut all = Vec::new();
    leaves(&whole, &[], &mut all);
    for path in all {
        // What stands below `policies` is the controller's configuration; `global` is Helm's.
        let elsewhere = ["policies", "global"].contains(&path[0].as_str());
        let is_there = entries.iter().any(|entry| entry.path == path);
        assert!(elsewhere || is_there, "values.yaml lacks {}", path.join("."));
    }

    let slots = SlotName::ALL.map(SlotName::as_str);
    let known: BTreeSet<&str> = slots.into_iter().chain(["trust", "registries", "labels"]).collect();
    let taken = whole["properties"]["policies"]["properties"].as_object().unwrap();
    assert!(taken.keys().map(String::as_str).eq(known), "the chart takes the keys of the configuration");

    let introduction = "What `--set` and a file of values may hold: `helm install windlass \
        host/controller/deploy/helm/windlass-controller --namespace windlass-system --values FILE`. A value \
        that does not exist is refused. [How the chart is used](kubernetes-install.md), [the program's own \
        options](controller-commands.md).";
    let mut page = format!(
        "# Values of the Helm chart\n\n<!-- Generated from values.yaml and its schema: just reference -->\n\n{}\n\n\
        | value | holds | default | meaning |\n|---|---|---|---|\n",
        wrapped(introduction)
    );
    for entry in &entries {
        let Some(schema) = schema(&whole, &entry.path) else { continue };
        if entry.default.is_empty() && entry.comment.is_empty() && schema["properties"].is_object() {
            continue;
        }
        let default = if entry.default.is_empty() { String::new() } else { format!("`{}`", entry.default) };
        let (name, holds) = (entry.path.join("."), cell(&holds(schema)));
        let _ = writeln!(page, "| `{name}` | {holds} | {default} | {} |", cell(&entry.comment));
    }
    hold("docs/kubernetes-chart.md", &page);
}
