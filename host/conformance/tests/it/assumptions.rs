//! The assumptions, the marks in the code and the probes say the same; `docs/assumptions.md` is made of the assumptions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use windlass_conformance::{Assumption, Check, Probe, Topic};
use windlass_test_reference::{hold, item, repository, wrapped};

const MARK: &str = "(assumption: ";

#[test]
fn the_page_of_the_assumptions_is_made_of_the_list() {
    let introduction = "Windlass is based on recordings of the real API. This page lists what it assumes beyond them, \
        and some recorded behaviours. The code that relies on one names its id, `(assumption: <id>)`.";
    let commands = "<!-- not run: it orders servers; host/cli/tests/it/conformance.rs runs it on the simulator -->\n\
        ```console\n\
        $ windlass conformance --list                      # the questions, and what each needs\n\
        $ windlass conformance --zone fr-par-1             # shows what it makes and costs, asks, does it\n\
        $ windlass conformance --only tag-filter-addresses,gone-address-answers\n\
        $ windlass conformance --yes --output json         # a report to send to us\n\
        ```";
    let run = "The command tests the assumptions on the configured API, with the cheapest available server. If one is \
        broken, it says what relies on it and what happens. At the end it removes everything that it made, also when a \
        question fails, after half an hour, and on Ctrl-C. (A second Ctrl-C ends the removal, and lists what is left.) \
        It touches nothing else and never orders Macs. Without a terminal it needs `--yes`. [The exit \
        code](exit-codes.md) is 1 if an assumption is broken, or could not be tested.";
    let add = "To add an assumption, add it to `host/conformance/src/assumptions.rs`, its mark to the code, and a probe to \
        `host/conformance/src/probes/` or the reason why there is none. `just reference` writes this page.";
    let mut page = format!(
        "# What is assumed about Scaleway's API\n\n<!-- Generated from the code: just reference -->\n\n{}\n\n\
        ## Test the assumptions\n\n{commands}\n\n{}\n\n{}\n",
        wrapped(introduction),
        wrapped(run),
        wrapped(add)
    );
    for topic in Topic::all() {
        let _ = write!(page, "\n## {}\n", topic.name);
        if !topic.introduction.is_empty() {
            let _ = write!(page, "\n{}\n", wrapped(topic.introduction));
        }
        for assumption in topic.assumptions {
            let _ = write!(page, "\n### {}\n", assumption.id);
            for (label, text) in lines(assumption) {
                let _ = writeln!(page, "{}", item(&format!("**{label}:** {text}.")));
            }
        }
    }
    hold("docs/assumptions.md", &page);
}

/// What is said of an assumption, with its labels.
fn lines(assumption: &Assumption) -> [(&'static str, &'static str); 4] {
    let check = match assumption.check {
        Check::Probe(does) => ("Probe", does),
        Check::NoProbe(why) => ("No probe", why),
    };
    [("Assumed", assumption.assumed), ("Relied on", assumption.relied_on), ("If wrong", assumption.if_wrong), check]
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
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
    let mut folders = vec![repository().join("host")];
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

#[test]
fn every_mark_in_the_code_is_of_an_assumption_and_every_assumption_is_marked() {
    let marked = marked();
    let ids: BTreeSet<&str> = Assumption::all().map(|assumption| assumption.id).collect();
    let unknown: Vec<_> = marked.iter().filter(|(id, _)| !ids.contains(id.as_str())).collect();
    assert!(unknown.is_empty(), "not in host/conformance/src/assumptions.rs: {unknown:#?}");
    let unmarked: Vec<_> = ids.iter().filter(|id| !marked.contains_key(**id)).collect();
    assert!(unmarked.is_empty(), "no code says that it relies on them: {unmarked:?}");
}

#[test]
fn every_assumption_says_all_under_an_id_of_its_own() {
    let mut seen = BTreeSet::new();
    for assumption in Assumption::all() {
        let id = assumption.id;
        assert!(is_id(id), "{id:?} is no id");
        assert!(seen.insert(id), "{id} is listed twice");
        for (label, text) in lines(assumption) {
            assert!(!text.trim().is_empty() && !text.ends_with('.'), "{id}: {label}: {text:?}");
            let is_printed = matches!(assumption.check, Check::Probe(_));
            assert!(!is_printed || !text.contains("]("), "{id}: a terminal follows no link: {text}");
        }
    }
}

#[test]
fn every_assumption_without_a_reason_for_none_has_one_probe() {
    let mut probed: Vec<&str> =
        Assumption::all().filter(|it| matches!(it.check, Check::Probe(_))).map(|it| it.id).collect();
    let mut probes: Vec<&str> = Probe::all().iter().map(|probe| probe.id).collect();
    probed.sort_unstable();
    probes.sort_unstable();
    assert_eq!(probes, probed);
    for probe in Probe::all() {
        assert!(!probe.needs.is_empty(), "{}", probe.id);
    }
}

#[test]
fn a_mark_is_found_where_a_comment_breaks_and_prose_is_none() {
    let source = "/// Something (assumption:\n    /// a-b). More\n// (assumption: c9)\n// (assumption: `no id`) \
        (assumption: No)";
    assert_eq!(marks(source), ["a-b", "c9"].map(str::to_owned).into());
}
