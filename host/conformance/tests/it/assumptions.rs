//! `docs/assumptions.md`, the marks in the code and the probes say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use windlass_conformance::Probe;

const MARK: &str = "(assumption: ";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The sections of the list by id, each with the labels of its lines.
fn listed(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut sections = BTreeMap::new();
    for section in text.split("\n### ").skip(1) {
        let (id, body) = section.split_once('\n').unwrap();
        assert!(is_id(id), "{id:?} is no id");
        let labels = body.lines().filter_map(|line| line.strip_prefix("- **")?.split_once(":** "));
        let labels = labels.map(|(label, rest)| {
            assert!(!rest.trim().is_empty(), "{id}: nothing after {label}");
            label.to_owned()
        });
        assert!(sections.insert(id.to_owned(), labels.collect()).is_none(), "{id} is listed twice");
    }
    sections
}

/// The ids that a source file names. A comment may break anywhere.
fn marks(source: &str) -> BTreeSet<String> {
    let words: Vec<&str> = source.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim_start()).collect();
    let text = words.join(" ");
    text.split(MARK)
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|id| is_id(id))
        .map(str::to_owned)
        .collect()
}

/// The marks of all sources below `host`, but for this crate, which asks and does not rely on anything.
fn marked() -> BTreeMap<String, Vec<PathBuf>> {
    let mut found: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut folders = vec![workspace().join("host")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("host/conformance") && !path.ends_with("tests") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for id in marks(&std::fs::read_to_string(&path).unwrap()) {
                    found.entry(id).or_default().push(path.clone());
                }
            }
        }
    }
    found
}

fn list() -> BTreeMap<String, Vec<String>> {
    listed(&std::fs::read_to_string(workspace().join("docs/assumptions.md")).unwrap())
}

#[test]
fn every_mark_in_the_code_is_listed_and_every_listed_one_is_marked() {
    let (listed, marked) = (list(), marked());
    let unlisted: Vec<_> = marked.iter().filter(|(id, _)| !listed.contains_key(*id)).collect();
    assert!(unlisted.is_empty(), "not in docs/assumptions.md: {unlisted:#?}");
    let unmarked: Vec<_> = listed.keys().filter(|id| !marked.contains_key(*id)).collect();
    assert!(unmarked.is_empty(), "no code says that it relies on them: {unmarked:?}");
}

#[test]
fn every_listed_assumption_says_all_and_has_a_probe_or_a_reason_for_none() {
    let probes: BTreeSet<&str> = Probe::all().iter().map(|probe| probe.id).collect();
    for (id, labels) in list() {
        let last = if probes.contains(id.as_str()) { "Probe" } else { "No probe" };
        assert_eq!(labels, ["Assumed", "Relied on", "If wrong", last], "{id}");
    }
}

#[test]
fn every_probe_asks_about_something_listed_under_an_id_of_its_own() {
    let listed = list();
    let mut seen = BTreeSet::new();
    for probe in Probe::all() {
        assert!(listed.contains_key(probe.id), "{} is not in docs/assumptions.md", probe.id);
        assert!(seen.insert(probe.id), "{} twice", probe.id);
        assert!(!probe.needs.is_empty(), "{}", probe.id);
    }
}

#[test]
fn a_mark_is_found_where_a_comment_breaks_and_prose_is_none() {
    let source = "/// Something (assumption:\n    /// a-b). More\n// (assumption: c9)\n// (assumption: `no id`) \
        (assumption: No)";
    assert_eq!(marks(source), ["a-b", "c9"].map(str::to_owned).into());
}
