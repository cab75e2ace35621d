//! `windlass rehearse`, as somebody runs it before there is an account: the documented question, pipelines, and mistakes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use windlass_rehearsal::{ArmKind, FIGURES, Figure, Unit, scenario_schema};
use windlass_test_reference::{cell, hold, repository, wrapped};

use crate::support::{Ran, World, bare, new_home};

const PAGE: &str = "docs/rehearse.md";

/// The last heading of a report.
const SIMPLIFIED: &str = "What the simulation simplifies:\n";

/// A folder with a small scenario and two arms.
struct Folder(TempDir);

pub(crate) const SCENARIO: &str = "hours = 1\nstarts_at = '2026-08-03T09:00:00'\n[[demand]]\njobs = [[60, 300], [900, 300]]\n\
                        [[incident]]\nkind = 'zone-out-of-stock'\nzone = 'fr-par-1'\nat = '10m'\nlasts = '10m'\n";

/// What an operator does with the cluster of [`FARM`].
const SCALED: &str = "hours = 1\nstarts_at = '2026-08-03T09:00:00'\n[[scale]]\nat = '20m'\ngroups = { web = 2 }\n\
    [[incident]]\nkind = 'zone-out-of-stock'\ntype = 'DEV1-S'\nat = '10m'\nlasts = '30m'\n";

const FARM: &str = "name: farm\nzone: fr-par-1\ngroups:\n  web: {count: 1, types: [DEV1-S], image: ubuntu_noble}\n";

/// The plugin's configuration alone, in these zones.
fn plugin(zones: &str) -> String {
    format!("{{\"name\": \"ci\", \"zone\": {zones}, \"server_type\": \"DEV1-S\", \"image\": \"ubuntu_noble\"}}")
}

/// Two zones instead of the one of an arm.
const SEARCH: &str = "[[setting]]\nkey = 'plugin_config.zone'\nvalues = [['fr-par-1', 'fr-par-2']]\n";

/// Writes the small scenario, two arms, and settings to search, into a folder.
pub(crate) fn write(folder: &Path) {
    let [one, two] = ["\"fr-par-1\"", "[\"fr-par-1\", \"fr-par-2\"]"].map(plugin);
    let mut files = vec![("small.toml", SCENARIO), ("one.json", &one), ("two.json", &two), ("search.toml", SEARCH)];
    files.extend([("scaled.toml", SCALED), ("farm.yaml", FARM)]);
    for (name, text) in files {
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

/// The scenario of the example without its incident.
fn quiet(example: &str) -> String {
    let (before, _) = example.split_once("[[incident]]").unwrap();
    let title = |line| if str::starts_with(line, "title") { "title = \"An ordinary Monday morning\"" } else { line };
    before.lines().map(title).collect::<Vec<_>>().join("\n")
}

/// The block of a page that follows these words.
fn block<'p>(page: &'p str, after: &str) -> &'p str {
    let (_, rest) = page.split_once(after).unwrap_or_else(|| panic!("{PAGE} has no {after}"));
    rest.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0
}

#[test]
fn the_page_of_rehearsals_shows_what_its_questions_are_answered() {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let folder = Folder(new_home());
    let one = block(&page, "This is `one.toml`:");
    let with = |before: &str, after: &str| {
        assert!(one.contains(before), "{before}");
        one.replace(before, after)
    };
    let policy = block(&page, "`next.toml` is `one.toml` with the policy");
    let image = "      image = \"ubuntu_noble\"\n";
    folder.write("one.toml", one);
    folder.write("two.toml", &with("zone = \"fr-par-1\"", "zone = [\"fr-par-1\", \"fr-par-2\"]"));
    folder.write("lean.toml", &with("idle_count = 1", "idle_count = 0"));
    folder.write("ready.toml", &with("idle_count = 1", "idle_count = 3"));
    folder.write("next.toml", &with(image, &format!("{image}      {policy}")));
    folder.write("age.rules.toml", block(&page, "This is `age.rules.toml`:"));
    let shop = block(&page, "This is `shop.toml`");
    folder.write("shop.toml", shop);
    folder.write("both.toml", &shop.replace("[\"DEV1-S\"]", "[\"DEV1-S\", \"PLAY2-PICO\"]"));
    folder.write("evening.toml", block(&page, "This is `evening.toml`:"));
    folder.write("search.toml", block(&page, "`search.toml`:"));
    let four = block(&page, "This is `four.toml`:");
    folder.write("four.toml", four);
    folder.write("six.toml", &four.replace("max_instances = 4", "max_instances = 6"));
    folder.write("app.toml", block(&page, "This is `app.toml`:"));
    let example = std::fs::read_to_string(repository().join("docs/examples/monday.toml")).unwrap();
    assert_eq!(block(&page, "This is `monday.toml`:"), example, "`windlass example monday.toml` prints it, too");
    folder.write("monday.toml", &example);
    folder.write("quiet.toml", &quiet(&example));
    let prompt = "$ windlass rehearse ";
    let mut parts = page.split(prompt);
    let mut held = parts.next().unwrap().to_owned();
    for (part, code) in parts.zip([1, 0, 1, 1, 1, 0]) {
        let (line, rest) = part.split_once('\n').unwrap();
        let (shown, after) = rest.split_once("```").unwrap();
        let (arguments, law) = line.split_once(" --never ").unwrap_or((line, ""));
        let law = ["--never", law.trim_matches('\'')];
        let law = if law[1].is_empty() { &[][..] } else { &law };
        let ran = folder.run(&[&arguments.split(' ').collect::<Vec<_>>()[..], law].concat()).expect(code);
        // Without an error, stderr has progress alone.
        let error = if code == 0 { "" } else { &ran.stderr };
        // Where the page has `...`, it does not show once more what all rehearsals simplify.
        let (before, simplified) = ran.stdout.split_once(SIMPLIFIED).unwrap();
        let last = if shown.contains("\n...\n") { "...\n" } else { &format!("{SIMPLIFIED}{simplified}") };
        held += &format!("{prompt}{line}\n{before}{last}{error}```{after}");
    }
    assert_eq!(held.matches(prompt).count(), 6);
    hold(PAGE, &held);
}

/// All figures, by the arms that have them.
fn figures() -> String {
    let row = |figure: &Figure| {
        let unit = match figure.unit {
            Unit::Seconds => " Seconds.",
            Unit::Share => " From 0 to 1.",
            Unit::Hours | Unit::Euros | Unit::Count => "",
        };
        format!("| `{}` | {}{unit} |\n", figure.name, figure.about)
    };
    let tables = [("runners alone", Some(ArmKind::Group)), ("clusters alone", Some(ArmKind::Cluster)), ("both", None)]
        .map(|(whose, only)| {
            let rows: String = FIGURES.iter().filter(|figure| figure.only == only).map(row).collect();
            format!("Of {whose}:\n\n| figure | meaning |\n|---|---|\n{rows}")
        });
    tables.join("\n")
}

/// The keys of a table of scenarios, those that it must have first.
fn keys(schema: &Value, table: &Value) -> String {
    let text = |it: &Value| it["description"].as_str().unwrap_or_default().to_owned();
    let is_required = |key: &str| table["required"].as_array().is_some_and(|keys| keys.contains(&key.into()));
    let is_table = |it: &Value| it["items"]["$ref"].is_string() || it["additionalProperties"]["type"] == "number";
    let properties = table["properties"].as_object().unwrap();
    let mut properties: Vec<_> = properties.iter().filter(|(_, it)| !is_table(it)).collect();
    properties.sort_by_key(|(key, _)| !is_required(key));
    let rows = properties.into_iter().map(|(key, property)| {
        let mut meaning = vec![text(property)];
        meaning.extend(
            property["maximum"]
                .as_u64()
                .filter(|_| property["type"] == "integer")
                .map(|most| format!("At most {most}.")),
        );
        let of = property["$ref"].as_str().map(|of| &schema["$defs"][of.trim_start_matches("#/$defs/")]);
        let choices = of.and_then(|of| of["oneOf"].as_array()).into_iter().flatten();
        meaning.extend(choices.map(|choice| format!("`{}`: {}", choice["const"].as_str().unwrap(), text(choice))));
        let required = if is_required(key) { " (required)" } else { "" };
        format!("| `{key}`{required} | {} |\n", cell(&meaning.join(" ")))
    });
    format!("| key | meaning |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn the_page_of_scenarios_is_made_of_the_schema_and_the_figures() {
    let schema = scenario_schema();
    let mut page = "# Scenarios and figures\n\n<!-- Generated from the code: just reference -->\n\n\
        The keys of a [scenario](rehearse.md#write-a-scenario), and the figures of which [laws](rehearse.md#state-laws) speak.\n\n\
        ## Scenario\n\n"
        .to_owned();
    page += &keys(&schema, &schema);
    for (key, property) in schema["properties"].as_object().unwrap() {
        let of = property["items"]["$ref"]
            .as_str()
            .or(property["$ref"].as_str())
            .map(|of| of.trim_start_matches("#/$defs/"));
        let heading = match (of, property["type"] == "array") {
            (Some(_), true) => format!("`[[{key}]]`"),
            (Some(_), false) => format!("`[{key}]`"),
            (None, _) if property["type"] == "object" => format!("`[{key}]`"),
            (None, _) => continue,
        };
        page += &format!("\n## {heading}\n\n{}\n", wrapped(&cell(property["description"].as_str().unwrap())));
        page += &of.map(|of| format!("\n{}", keys(&schema, &schema["$defs"][of]))).unwrap_or_default();
    }
    hold("docs/rehearse-reference.md", &format!("{page}\n## Figures\n\n{}", figures()));
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
    let wrong = ["--always", "cost < 5 EUR", "--never", "lst > 0"];
    let refused = folder.run(&[&["small.toml"][..], &arms, &wrong].concat()).expect(2);
    refused.says("--never: the condition `lst > 0` names `lst`").says("--always: the condition `cost < 5 EUR`");
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
fn clusters_are_rehearsed_under_their_policies_and_reports_have_their_laws() {
    let folder = Folder::new();
    let patient = "slot = 'retry'\n[[rules]]\nwhen = \"failure.class == 'out-of-stock'\"\nanswer = { wait = 60000 }\n";
    folder.write("patient.rules.toml", patient);
    folder.write("patient.toml", "[[policies.retry]]\npath = 'patient.rules.toml'\n");
    let arms = ["--arm", "usual=farm.yaml", "--arm", "patient=farm.yaml", "--policies", "patient=patient.toml"];
    let more = ["--seeds", "2", "--never", "not_ready > 0", "--output", "json"];
    let run = |more: &[&str]| folder.run(&[&["scaled.toml"][..], &arms, more].concat());
    let ran = run(&[&more[..], &["--junit", "laws.xml", "--html", "page.html", "--save"]].concat()).expect(1);
    let document = ran.json();
    let violators = document["laws"][0]["violations"].as_array().unwrap().iter().map(|it| &it["arm"]);
    assert!(violators.eq(["usual", "usual"]), "{document}");
    assert_eq!(document["scales"][0]["groups"]["web"], 2);
    let outcome = &document["arms"][1]["outcomes"][0];
    assert_eq!((&outcome["cluster"]["operations"], &outcome["totals"]["jobs"]), (&3.into(), &Value::Null), "{outcome}");
    assert!(folder.read("laws.xml").contains("failures=\"1\"") && folder.read("laws.xml").contains("nothing is left"));
    assert_eq!(folder.read("page.html").matches("<svg").count(), 4, "servers and costs of two arms");
    assert_eq!(run(&more).expect(1).stdout, ran.stdout, "the same seed");
    let table = run(&[]).expect(0).stdout;
    assert!(table.contains("scale to web = 2 at Mon 09:20") && table.contains("never ready"), "{table}");
    assert!(table.contains("hooks are not run") && !table.contains("taskscaler"), "{table}");
}

#[test]
fn no_result_is_written_over_a_file_that_is_read_or_over_another() {
    let folder = Folder::new();
    let before = ["small.toml", "one.json", "search.toml"].map(|name| folder.read(name));
    let arm = ["small.toml", "--arm", "one=one.json"];
    for (results, told) in [
        (&["--html", "small.toml", "--junit", "./one.json"][..], &["--html small.toml", "--junit ./one.json"][..]),
        (&["--html", "new.xml", "--junit", "new.xml"], &["--junit new.xml"]),
        // Such as a policy that the arm names.
        (&["--html", "search.toml", "--junit", "search.toml"], &["--html search.toml: this file is there"]),
    ] {
        let ran = folder.run(&[&arm[..], results].concat()).expect(2);
        for words in told {
            assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
        }
    }
    let tune = ["tune", "small.toml", "--arm", "one=one.json", "--search", "search.toml", "--never", "left > 0"];
    for (option, file) in [("--html", "one.json"), ("--html", "search.toml"), ("--write", "search.toml")] {
        let more: &[&str] = if option == "--write" { &["--overwrite"] } else { &[] };
        folder
            .run(&[&tune[..], &[option, file], more].concat())
            .expect(2)
            .says(&format!("{option} {file}: the command"));
    }
    assert_eq!(["small.toml", "one.json", "search.toml"].map(|name| folder.read(name)), before);
    assert!(!folder.0.path().join("new.xml").exists());
}

#[test]
fn what_does_not_fit_together_of_clusters_and_runners_is_told_with_its_place() {
    let folder = Folder::new();
    let cluster = ["--arm", "farm=farm.yaml"];
    let run = |scenario: &'static str, arms: &[&str]| folder.run(&[&[scenario][..], arms].concat()).expect(2);
    let mixed = run("scaled.toml", &["--arm", "ci=one.json", "--arm", "farm=farm.yaml"]);
    mixed.says("are of one kind").says("arm ci is the configuration of a runner: one.json").says("farm.yaml");
    run("small.toml", &cluster).says("demand: remove it: the arms are clusters, which have no jobs");
    run("scaled.toml", &["--arm", "ci=one.json"]).says("demand: there are no jobs").says("scale: remove it");
    folder.write("typo.toml", &SCALED.replace("web", "wbe"));
    run("typo.toml", &cluster).says("arm farm could not start").says("scale[0].groups.wbe").says("did you mean `web`?");
    run("scaled.toml", &[&cluster[..], &["--policies", "frm=none.toml"]].concat()).says("--policies frm");
    run("scaled.toml", &[&cluster[..], &["--never", "wait_p95 > 1"]].concat())
        .says("`wait_p95`, which a cluster does not");
    folder.write("wrong.toml", "name = 'farm'\nzone = 'fr-par-1'\n[groups.web]\ncount = 'one'\n");
    run("scaled.toml", &["--arm", "farm=wrong.toml"]).says("wrong.toml").says("`count`");
    folder.write("search.toml", "[[setting]]\nkey = 'max_instances'\nvalues = [1, 2]\n");
    let tuned = ["tune", "small.toml", "--arm", "farm=farm.yaml", "--search", "search.toml", "--never", "left > 0"];
    folder.run(&tuned).expect(2).says("only the settings of a runner can be tuned").says("farm.yaml");
}

#[test]
fn a_scenario_is_recorded_from_a_journal_and_can_be_rehearsed() {
    let world = World::new("100");
    world.create("2").expect(0);
    world.run(&["rehearse", "record", "--since", "1h", "--group", "other"]).expect(1).says("no machine was created");
    let recorded = world.run(&["rehearse", "record", "--since", "1h"]).expect(0).stdout;
    for words in ["type = \"DEV1-S\"", "zone = \"fr-par-1\"", "boot_seconds = ["] {
        assert!(recorded.contains(words), "{words}: {recorded}");
    }
    let started = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(60);
    let jobs = serde_json::json!([{"started_at": started.to_string(), "duration": 30, "queued_duration": 2.5}]);
    let file = world.write("jobs.json", jobs.to_string().as_bytes()).display().to_string();
    let with_jobs = world.run(&["rehearse", "record", "--since", "1h", "--jobs", &file]).expect(0).stdout;
    let line = with_jobs.lines().find(|line| line.starts_with("jobs = ")).unwrap();
    assert!(line.ends_with(", 30]]") && !line.contains("], ["), "the job of GitLab instead of two servers: {line}");
    assert!(with_jobs.contains("wait_p95 = 2.5") && with_jobs.contains("creations = 2.0"), "{with_jobs}");
    let folder = Folder::new();
    // They still run; a short job is enough.
    let line = recorded.lines().find(|line| line.starts_with("jobs = ")).unwrap();
    assert_eq!(line.matches("], [").count(), 1, "two servers are two jobs: {line}");
    folder.write("recorded.toml", &recorded.replace(line, "jobs = [[60, 60]]"));
    folder.run(&["recorded.toml", "--arm", "one=one.json"]).expect(0);
}

#[test]
fn a_scenario_is_recorded_from_a_cluster_and_can_be_rehearsed() {
    let world = World::new("100");
    let create = |name: &str| {
        let file = world.write("cluster.yaml", FARM.replace("name: farm", &format!("name: {name}")).as_bytes());
        world.run(&["cluster", "create", file.to_str().unwrap()]).expect(0);
    };
    create("secret");
    world.run(&["cluster", "scale", "secret", "web=3"]).expect(0);
    let record = |more: &[&str]| world.run(&[&["rehearse", "record", "--since", "1h"], more].concat());
    let recorded = record(&[]).expect(0).stdout;
    for words in ["[[scale]]\nat = \"0s\"", "[scale.groups]\nweb = 3", "boot_seconds = [", "server_hours = "] {
        assert!(recorded.contains(words), "{words}: {recorded}");
    }
    assert!(!recorded.contains("secret"), "{recorded}");
    let folder = Folder::new();
    folder.write("recorded.toml", &recorded);
    let rehearsed = folder.run(&["recorded.toml", "--arm", "farm=farm.yaml"]).expect(0).stdout;
    assert!(rehearsed.contains("arm farm beside what was observed\n  ready p50: "), "{rehearsed}");
    record(&["--cluster", "other"]).expect(1).says("there was no cluster other in that time");
    create("another");
    record(&[]).expect(2).says("another, secret").says("--cluster");
    record(&["--cluster", "another"]).expect(0);
}

#[test]
fn jobs_of_gitlab_are_imported_and_can_be_rehearsed() {
    let folder = Folder::new();
    let jobs = r#"[{"started_at": "2026-08-03T09:10:30Z", "duration": 60.0, "queued_duration": 30.0, "name": "secret"},
        {"started_at": null, "duration": null, "queued_duration": null}]"#;
    folder.write("jobs.json", jobs);
    let imported = folder.run(&["import", "jobs.json"]).expect(0);
    let imported = imported.says("had not ended: 1").stdout;
    assert!(imported.contains("jobs = [[600, 60]]") && !imported.contains("secret"), "{imported}");
    folder.write("imported.toml", &imported);
    let rehearsed = folder.run(&["imported.toml", "--arm", "one=one.json"]).expect(0).stdout;
    assert!(rehearsed.contains("arm one beside what was observed\n  waiting p50: 30.0 s observed, "), "{rehearsed}");
    folder.write("typo.toml", &imported.replace("wait_p95", "wait_95"));
    let typo = folder.run(&["typo.toml", "--arm", "one=one.json"]).expect(2);
    typo.says("observed.wait_95 is no figure; did you mean wait_p95?");
    let answer = r#"{"data": {"result": [{"values": [[1785747600, "10"], [1785747660, "12"]]}]}}"#;
    folder.write("answer.json", answer);
    folder.run(&["import", "answer.json"]).expect(2).says("give it with --job-minutes");
    let counted = folder.run(&["import", "answer.json", "--job-minutes", "2"]).expect(0).stdout;
    assert!(counted.contains("jobs = [[15, 120], [45, 120]]"), "{counted}");
    folder.write("wrong.json", "[{\"started_at\": \"Monday\"}]");
    folder.run(&["import", "wrong.json"]).expect(2).says("job 1: started_at is \"Monday\"");
    folder.run(&["import", "one.json"]).expect(2).says("unknown format: use jobs of GitLab");
}

#[test]
fn the_tuned_configuration_is_written_with_its_evidence_and_over_nothing() {
    let folder = Folder::new();
    let tune = |law: &str, more: &[&str]| {
        let searched = ["tune", "small.toml", "--arm", "one=one.json", "--search", "search.toml", "--seeds", "1"];
        folder.run(&[&searched, &["--never", law][..], more].concat())
    };
    let found = tune("wait_worst > 200", &["--write", "tuned.toml", "--html", "front.html", "--output", "json"]);
    let document = found.expect(0).json();
    let chosen = &document["candidates"][0];
    assert_eq!((&chosen["is_chosen"], &chosen["is_unchanged"]), (&true.into(), &false.into()), "{document}");
    assert_eq!(chosen["settings"][0]["value"], "[\"fr-par-1\",\"fr-par-2\"]");
    assert!(folder.read("front.html").contains("class=\"scatter\""));
    let tuned = folder.read("tuned.toml");
    assert!(tuned.starts_with("# Tuned by") && tuned.contains("#   never wait_worst > 200\n"), "{tuned}");
    assert!(tuned.contains("\nzone = [\"fr-par-1\", \"fr-par-2\"]\n"), "{tuned}");
    folder.run(&["small.toml", "--arm", "tuned=tuned.toml", "--never", "wait_worst > 200"]).expect(0);
    tune("wait_worst > 200", &["--write", "tuned.toml"]).expect(2).says("the file exists").says("--overwrite");
    let kept = tune("wait_worst >= 0", &["--write", "tuned.toml", "--overwrite"]).expect(1);
    kept.says("no settings were found that keep the laws");
    assert_eq!(folder.read("tuned.toml"), tuned);
    folder.write("typo.toml", &SEARCH.replace("zone", "zones"));
    let typo =
        folder.run(&["tune", "small.toml", "--arm", "a=one.json", "--search", "typo.toml", "--never", "left > 0"]);
    typo.expect(2).says("zones").says("with plugin_config.zones");
    let unbound = folder.run(&["tune", "small.toml", "--arm", "a=one.json", "--search", "search.toml"]);
    unbound.expect(2).says("--never");
}

#[test]
fn the_templates_for_pipelines_rehearse_and_write_their_reports() {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let (_, section) = page.split_once("## Use it in a pipeline").unwrap();
    let templates: Vec<Value> = section
        .split("```yaml\n")
        .skip(1)
        .map(|rest| serde_norway::from_str(rest.split_once("```").unwrap().0).unwrap())
        .collect();
    let [gitlab, github] = templates.as_slice() else { panic!("{} templates", templates.len()) };
    let artifacts = &gitlab["rehearse"]["artifacts"];
    assert_eq!(
        (&artifacts["paths"][0], &artifacts["reports"]["junit"]),
        (&"rehearsal.html".into(), &"rehearsal.xml".into())
    );
    let of_gitlab = gitlab["rehearse"]["script"].as_array().unwrap().iter();
    let of_github = github["jobs"]["rehearse"]["steps"].as_array().unwrap().iter().map(|step| &step["run"]);
    let lines = of_gitlab.chain(of_github).filter_map(Value::as_str).filter(|line| line.starts_with("windlass "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let programs = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    for line in lines {
        let folder = Folder::new();
        for (name, like) in [("monday.toml", "small.toml"), ("today.toml", "one.json"), ("config.toml", "two.json")] {
            folder.write(name, &folder.read(like));
        }
        let mut command = Command::new("/bin/sh");
        // One seed says as much of the words.
        command.args(["-c", &line.replace("--seeds 5", "--seeds 1")]).env_clear().env("PATH", programs);
        command.current_dir(folder.0.path()).env("HOME", folder.0.path()).env("TMPDIR", folder.0.path());
        // The small scenario has the first arm wait for longer.
        Ran::of(&mut command).expect(1).says("never wait_p95 > 300");
        assert!(
            folder.read("rehearsal.xml").contains("failures=\"1\"") && folder.read("rehearsal.html").contains("<svg")
        );
    }
}

#[test]
fn the_schema_of_scenarios_is_published_and_takes_what_is_shipped() {
    let printed = Folder::new().run(&["schema"]).expect(0).stdout;
    hold("docs/rehearse.schema.json", &printed);
    let schema: Value = serde_json::from_str(&printed).unwrap();
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let example = std::fs::read_to_string(repository().join("docs/examples/monday.toml")).unwrap();
    let mistakes = |text: &str| {
        let scenario: Value = toml::from_str(text).unwrap();
        let mut found = Vec::new();
        validate(&schema, &schema, &scenario, "", &mut found);
        found
    };
    let quiet = quiet(&example);
    let [evening, app] = ["`evening.toml`:", "`app.toml`:"].map(|name| block(&page, &format!("This is {name}")));
    for shipped in [&example, &quiet, evening, app, SCENARIO, SCALED] {
        assert_eq!(mistakes(shipped), [""; 0], "{shipped}");
    }
    let everything = "title = 'all'\nready_seconds = 5\nhours = 1\ntime_zone = 'UTC'\n[[demand]]\njobs = [[0, 60]]\n\
        [[scale]]\nat = '1m'\ngroups = { web = 5 }\n[cluster]\nhook_seconds = [5, 9]\n\
        [[offer]]\nzone = 'fr-par-1'\ntype = 'DEV1-S'\nhourly_price = 0.01\nstock = 'scarce'\n\
        boot_seconds = [20, 60]\nfailed_boots = 0.5\nreinstall_seconds = [300, 900]\n\
        [[pool]]\nzone = 'fr-par-1'\ntype = 'M4-S'\nhosts = 4\nage = '48h'\n[[incident]]\nkind = 'spot-reclaim'\nat = '1h30m'\n\
        lasts = '1.5h'\nshare = 0.1\n[observed]\nwait_p95 = 3.5\n";
    assert_eq!(mistakes(everything), [""; 0]);
    for (right, wrong) in [
        ("ready_seconds", "ready_second"),
        ("jobs =", "job ="),
        ("boot_seconds", "boots_seconds"),
        ("hook_seconds", "hooks_seconds"),
        ("share", "shares"),
        ("wait_p95", "wait_95"),
        ("spot-reclaim", "strike"),
        ("'scarce'", "'little'"),
        ("'1h30m'", "'9:30'"),
        ("hours = 1", "hours = 0"),
        ("failed_boots = 0.5", "failed_boots = 1.5"),
        ("[20, 60]", "[20]"),
        ("hosts = 4", "hosts = 0"),
        ("age =", "ages ="),
        ("hosts = 4\n", ""),
        ("hours = 1\n", ""),
    ] {
        assert!(everything.contains(right), "{right}");
        assert_eq!(mistakes(&everything.replacen(right, wrong, 1)).len(), 1, "{wrong}");
    }
}

/// What a value has against those keywords of JSON Schema that the schema of scenarios has.
fn validate(whole: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let empty = serde_json::Map::new();
    for (keyword, of) in schema.as_object().unwrap_or(&empty) {
        let mut wrong = |is_wrong: bool| {
            if is_wrong {
                found.push(format!("{place}: {keyword} {of}"));
            }
        };
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" => {}
            "$ref" => {
                let definition = whole.pointer(of.as_str().unwrap().trim_start_matches('#')).unwrap();
                validate(whole, definition, value, place, found);
            }
            "type" => {
                let is_it = match of.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    other => panic!("{other}"),
                };
                wrong(!is_it);
            }
            "properties" => {
                for (key, below) in of.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        validate(whole, below, value, &format!("{place}/{key}"), found);
                    }
                }
            }
            "additionalProperties" => {
                for (key, below) in value.as_object().unwrap() {
                    let is_known = schema["properties"].get(key).is_some();
                    match of {
                        Value::Bool(false) if !is_known => found.push(format!("{place}: {key}")),
                        Value::Object(_) if !is_known => validate(whole, of, below, place, found),
                        _ => {}
                    }
                }
            }
            "propertyNames" => {
                for key in value.as_object().unwrap().keys() {
                    validate(whole, of, &Value::from(key.as_str()), place, found);
                }
            }
            "required" => {
                for key in of.as_array().unwrap() {
                    wrong(value.get(key.as_str().unwrap()).is_none());
                }
            }
            "items" => {
                let before = schema["prefixItems"].as_array().map_or(0, Vec::len);
                let items = value.as_array().unwrap().iter().skip(before);
                items.for_each(|item| validate(whole, of, item, place, found));
            }
            "prefixItems" => {
                for (of, item) in of.as_array().unwrap().iter().zip(value.as_array().unwrap()) {
                    validate(whole, of, item, place, found);
                }
            }
            "oneOf" | "anyOf" => {
                let fits = |of: &Value| {
                    let mut found = Vec::new();
                    validate(whole, of, value, place, &mut found);
                    found.is_empty()
                };
                wrong(!of.as_array().unwrap().iter().any(fits));
            }
            "enum" => wrong(!of.as_array().unwrap().contains(value)),
            "const" => wrong(of != value),
            "minimum" => wrong(value.as_f64() < of.as_f64()),
            "maximum" => wrong(value.as_f64() > of.as_f64()),
            "minItems" => wrong(value.as_array().map_or(0, Vec::len) < of.as_u64().unwrap() as usize),
            "maxItems" => wrong(value.as_array().map_or(0, Vec::len) > of.as_u64().unwrap() as usize),
            "pattern" => {
                // The only pattern is that of durations.
                assert!(of.as_str().unwrap().contains("(h|m|s|"), "{of}");
                let text = value.as_str().unwrap_or_default();
                wrong(text.is_empty() || !text.chars().all(|it| it.is_ascii_digit() || "hmsuµn.".contains(it)));
            }
            other => panic!("the schema has the keyword {other}, which is not read here"),
        }
    }
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
    law.says("did you mean `wait_p95`?").says("docs/rehearse-reference.md");
    folder.run(&["small.toml"]).expect(2).says("--arm");
}
