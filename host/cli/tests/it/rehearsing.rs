//! `windlass rehearse`, as somebody runs it before there is an account: the documented question, pipelines, and mistakes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use windlass_rehearsal::FIGURES;
use windlass_test_reference::{hold, repository};

use crate::support::{Ran, World, bare, new_home};

const PAGE: &str = "docs/rehearse.md";

/// A folder with a small scenario and two arms.
struct Folder(TempDir);

const SCENARIO: &str = "hours = 1\nstarts_at = '2026-08-03T09:00:00'\n[[demand]]\njobs = [[60, 300], [900, 300]]\n\
                        [[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-1'\nat = '10m'\nlasts = '10m'\n";

/// The plugin's configuration alone, in these zones.
fn plugin(zones: &str) -> String {
    format!("{{\"name\": \"ci\", \"zone\": {zones}, \"server_type\": \"DEV1-S\", \"image\": \"ubuntu_noble\"}}")
}

/// Writes the small scenario and two arms into a folder.
pub(crate) fn write(folder: &Path) {
    let [one, two] = ["\"fr-par-1\"", "[\"fr-par-1\", \"fr-par-2\"]"].map(plugin);
    for (name, text) in [("small.toml", SCENARIO), ("one.json", &one), ("two.json", &two)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

impl Folder {
    fn new() -> Self {
        let home = new_home();
        write(home.path());
        Self(home)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// Without credentials and without the simulator's address.
    fn run(&self, arguments: &[&str]) -> Ran {
        let mut command: Command = bare(self.0.path());
        command.current_dir(self.0.path()).env("TMPDIR", self.0.path()).arg("rehearse").args(arguments);
        Ran::of(&mut command)
    }
}

/// The block of a page that follows these words.
fn block<'p>(page: &'p str, after: &str) -> &'p str {
    let (_, rest) = page.split_once(after).unwrap_or_else(|| panic!("{PAGE} has no {after}"));
    rest.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0
}

#[test]
fn the_page_of_rehearsals_shows_what_a_second_zone_does_to_a_monday() {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let folder = Folder(new_home());
    let one = block(&page, "This is `one.toml`:");
    folder.write("one.toml", one);
    folder.write("two.toml", &one.replace("zone = \"fr-par-1\"", "zone = [\"fr-par-1\", \"fr-par-2\"]"));
    let example = std::fs::read_to_string(repository().join("docs/examples/monday.toml")).unwrap();
    assert_eq!(block(&page, "This is `monday.toml`:"), example, "`windlass example monday.toml` prints it, too");
    folder.write("monday.toml", &example);
    let prompt = "$ windlass rehearse ";
    let (before, rest) = page.split_once(prompt).unwrap();
    let (line, rest) = rest.split_once('\n').unwrap();
    let (_, after) = rest.split_once("```").unwrap();
    let arguments = ["monday.toml", "--arm", "one=one.toml", "--arm", "two=two.toml", "--seeds", "3"];
    let law = ["--never", "wait_p95 > 300"];
    assert_eq!(line, format!("{} --never '{}'", arguments.join(" "), law[1]));
    let ran = folder.run(&[&arguments[..], &law].concat()).expect(1);
    hold(PAGE, &format!("{before}{prompt}{line}\n{}{}```{after}", ran.stdout, ran.stderr));
    for figure in FIGURES {
        assert!(page.contains(&format!("| `{}` | {}", figure.name, figure.about)), "{PAGE} lacks {}", figure.name);
    }
}

#[test]
fn the_same_seed_is_the_same_document_byte_for_byte() {
    let folder = Folder::new();
    let run = || {
        let arms = ["--arm", "one=one.json", "--arm", "two=two.json", "--seeds", "2", "--output", "json"];
        folder.run(&[&["small.toml"][..], &arms].concat()).expect(0)
    };
    let first = run();
    assert_eq!(first.stdout, run().stdout);
    let document = first.json();
    assert_eq!((&document["seeds"], &document["hours"]), (&serde_json::json!([1, 2]), &Value::from(1)));
    let jobs = document["arms"].as_array().unwrap().iter().map(|arm| &arm["outcomes"][1]["totals"]["finished"]);
    assert!(jobs.eq([2, 2]), "{document}");
    let mut left: Vec<_> = std::fs::read_dir(folder.0.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.retain(|name| name.to_string_lossy().starts_with("windlass-"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_violated_law_ends_with_1_and_reports_have_it() {
    let folder = Folder::new();
    let laws = ["--never", "wait_worst > 200", "--always", "finished == jobs"];
    let arms = ["--arm", "one=one.json", "--arm", "two=two.json"];
    let reports = ["--junit", "laws.xml", "--html", "page.html", "--output", "json"];
    let ran = folder.run(&[&["small.toml"][..], &arms, &laws, &reports].concat()).expect(1);
    let document = ran.json();
    let law = &document["laws"][0];
    assert_eq!((&law["law"], &law["holds"]), (&"never wait_worst > 200".into(), &false.into()));
    let violators = law["violations"].as_array().unwrap();
    assert_eq!((violators.len(), &violators[0]["arm"]), (1, &"one".into()), "{law}");
    assert_eq!(document["laws"][1]["holds"], true);
    assert_eq!(document["error"]["causes"], serde_json::json!(["never wait_worst > 200"]));
    let junit = folder.read("laws.xml");
    assert!(junit.contains("name=\"small\" tests=\"6\" failures=\"1\""), "{junit}");
    assert!(junit.contains("classname=\"one\" name=\"never wait_worst &gt; 200\""), "{junit}");
    assert!(folder.read("page.html").contains("<svg"));
}

#[test]
fn a_scenario_is_recorded_from_a_journal_and_can_be_rehearsed() {
    let world = World::new("100");
    world.create("2").expect(0);
    world.run(&["rehearse", "record", "--since", "1h", "--group", "other"]).expect(2).says("no server was created");
    let recorded = world.run(&["rehearse", "record", "--since", "1h"]).expect(0).stdout;
    for words in ["type = \"DEV1-S\"", "zone = \"fr-par-1\"", "boot_seconds = ["] {
        assert!(recorded.contains(words), "{words}: {recorded}");
    }
    let folder = Folder::new();
    // They still run; a short job is enough.
    let line = recorded.lines().find(|line| line.starts_with("jobs = ")).unwrap();
    assert_eq!(line.matches("], [").count(), 1, "two servers are two jobs: {line}");
    folder.write("recorded.toml", &recorded.replace(line, "jobs = [[60, 60]]"));
    folder.run(&["recorded.toml", "--arm", "one=one.json"]).expect(0);
}

#[test]
fn what_is_wrong_with_scenario_arms_and_laws_is_said_with_its_place_and_nothing_is_rehearsed() {
    let folder = Folder::new();
    folder.write("bad.toml", "hours = 0\n[[demand]]\npattern = 'steady'\njobs_per_hour = 1\n");
    folder.write("typo.json", &plugin("\"fr-par-1\"").replace("DEV1-S", "DEV1-SS"));
    let arm = ["--arm", "a=one.json"];
    let wrong = folder.run(&[&["bad.toml"][..], &arm].concat()).expect(2);
    wrong.says("the scenario cannot be used").says("hours: must be from 1 to 744").says("demand[0].job_minutes");
    folder.run(&[&["none.toml"][..], &arm].concat()).expect(2).says("cannot read the scenario");
    folder.run(&[&["small.toml"][..], &arm, &arm].concat()).expect(2).says("two arms are called a");
    folder.run(&["small.toml", "--arm", "one.json"]).expect(2).says("an arm is written as NAME=FILE");
    folder.run(&["small.toml", "--arm", "a=none.toml"]).expect(2).says("none.toml");
    folder
        .run(&["small.toml", "--arm", "a=typo.json"])
        .expect(2)
        .says("arm a could not start")
        .says("did you mean DEV1-S?");
    let law = folder.run(&[&["small.toml"][..], &arm, &["--never", "wait_95 > 1"]].concat()).expect(2);
    law.says("did you mean `wait_p95`?").says("docs/rehearse.md");
    folder.run(&["small.toml"]).expect(2).says("--arm");
}
