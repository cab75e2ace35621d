//! The pages that are about all crates, and the contents of the site.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use windlass_test_reference::{cell, hold, repository, wrapped};

/// The crates that count, and which programs serve what they count.
const CRATES: [(&str, &str); 7] = [
    ("lifecycle", "Operations: all programs"),
    ("scaleway", "Calls to Scaleway: all programs"),
    ("policy", "Decisions: all programs"),
    ("cluster", "Clusters: `windlass` and `windlass-controller`"),
    ("fleeting", "The runner plugin"),
    ("controller", "The controller"),
    ("telemetry", "OpenTelemetry: all programs"),
];

/// The code of a crate, one file after the other, without its tests.
fn sources(folder: &Path, text: &mut String) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            text.push_str(source.split("\n#[cfg(test)]\nmod tests {").next().unwrap());
        }
    }
}

/// The kind of a metric, what is counted apart, and what it tells: `Counter `kind`: operations that ended.`
fn reported(documentation: &str) -> Option<(&'static str, String, String)> {
    let kind = ["Counter", "Gauge", "Histogram"].into_iter().find(|kind| documentation.starts_with(kind))?;
    let (labels, words) = documentation[kind.len()..].split_once(": ")?;
    Some((kind, labels.trim().to_owned(), words.to_owned()))
}

/// Names and documentation of the constants that hold a metric's name.
fn constants(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut documentation = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            documentation = format!("{documentation} {}", words.trim());
        } else {
            let name = line.split_once(": &str = \"").and_then(|(_, rest)| rest.strip_suffix("\";"));
            // Those of work queues are called as controller-runtime calls them.
            let is_metric = |name: &&str| name.starts_with("windlass_") || name.starts_with("workqueue_");
            if let Some(name) = name.filter(|name| line.contains("const ") && is_metric(name)) {
                // A link of rustdoc's leads nowhere here.
                let words = documentation.trim().replace("[`ErrorClass`](crate::ErrorClass)", "class of the failure");
                found.push((name.to_owned(), words));
            }
            documentation.clear();
        }
    }
    found
}

#[test]
fn the_page_of_the_metrics_is_made_of_the_names_in_the_code() {
    let introduction = "Every metric, with its name in Prometheus and OpenTelemetry. \
        What they are for, and what to do when one stands out: [the runner plugin](gitlab-runner-metrics.md), [the \
        controller](kubernetes-troubleshooting.md#alerts). How they come to a collector: [OpenTelemetry](telemetry.md).";
    let mut page =
        format!("# Metrics\n\n<!-- Generated from the code: just reference -->\n\n{}\n", wrapped(introduction));
    let mut seen = BTreeSet::new();
    for (name, title) in CRATES {
        let mut source = String::new();
        sources(&repository().join("host").join(name).join("src"), &mut source);
        let constants = constants(&source);
        let _ = write!(page, "\n## {title}\n\n| metric | kind | labels | tells |\n|---|---|---|---|\n");
        for (metric, documentation) in &constants {
            let (kind, labels, words) = reported(documentation)
                .unwrap_or_else(|| panic!("{metric}: its comment is not like \"Counter `label`: what.\""));
            let ending = metric.rsplit('_').next().unwrap();
            let is_kind = match kind {
                "Counter" => ending == "total",
                "Histogram" => ending == "seconds",
                _ => ending != "total",
            };
            assert!(is_kind, "{metric} is named like no {kind}");
            let _ = writeln!(
                page,
                "| `{metric}` | {} | {} | {} |",
                kind.to_lowercase(),
                cell(&labels),
                cell(words.trim_end_matches('.'))
            );
            assert!(seen.insert(metric.clone()), "two constants are called {metric}");
        }
        // A metric that is counted under a literal has no comment to stand on the page. The target of a span is none.
        let parts: Vec<&str> = source.split('"').collect();
        for (before, literal) in parts.iter().zip(&parts[1..]) {
            let rest = literal.strip_prefix("windlass_").unwrap_or_default();
            let is_name = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if is_name && !before.ends_with("target: ") && name != "fleeting" {
                let named = constants.iter().any(|(metric, _)| metric == literal);
                assert!(named, "host/{name} counts under {literal:?}: give it a constant with a comment");
            }
        }
    }
    assert!(seen.len() > 40, "{seen:?}");
    hold("docs/metrics.md", &page);
}

#[test]
fn every_page_stands_once_in_the_contents_of_the_site() {
    let contents = std::fs::read_to_string(repository().join("docs/SUMMARY.md")).unwrap();
    let linked: Vec<&str> =
        contents.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect();
    let mut pages = Vec::new();
    for (folder, prefix) in [("docs", ""), ("", "../")] {
        for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") && name != "SUMMARY.md" {
                pages.push(format!("{prefix}{name}"));
            }
        }
    }
    assert!(pages.len() > 40, "{pages:?}");
    for page in &pages {
        let times = linked.iter().filter(|link| *link == page).count();
        assert_eq!(times, 1, "docs/SUMMARY.md names {page} {times} times");
    }
    assert_eq!(linked.len(), pages.len(), "docs/SUMMARY.md names what is no page");
}
