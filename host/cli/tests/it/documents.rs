//! The documents of all commands: the published schema of each and the page about them, made of what is printed and of
//! notes. `just reference` writes both anew, and `git diff` shows what that changes for scripts.

mod notes;

use std::sync::LazyLock;

use serde_json::Value;
use windlass_inspect::document::VERBATIM;
use windlass_test_reference::{Documents, check_document, contradictions, hold, repository, wrapped};

use self::notes::{NOTES, PARTS};
use crate::abandoning::killed;
use crate::policies::forgetful;
use crate::rehearsing;
use crate::support::{IMPATIENT, Ran, Running, World};

const SCHEMA: &str = "docs/json-output.schema.json";
const PAGE: &str = "docs/json-documents.md";

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web-servers]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

/// The retry slot, since a failure has put questions to it.
const RULES: &str = "slot = 'retry'\n[[rules]]\nname = 'stock'\nwhen = \"failure.class == 'out-of-stock'\"\n\
                     answer = { wait = 1000 }\n";

/// What is asked of a world that has a server, a cluster of two nodes, and a creation that was undone, in this order.
/// ID stands for the server's name, LAST for the newest operation, DECISION for the newest decision.
const ASKED: &[&str] = &[
    "version",
    "example",
    "example farm.toml",
    "example laws.toml --out laws.toml",
    "zone list",
    "type list",
    "image list",
    "server list",
    "server show ID",
    "cluster list",
    "cluster status farm",
    "cluster refresh farm",
    "cluster history farm",
    "cluster diff other.toml",
    "cluster apply other.toml --dry-run",
    "cluster validate farm.toml",
    "cluster replace farm --group web-servers --dry-run",
    "cluster scale farm web-servers=1 --dry-run",
    "cluster cancel farm",
    "cluster resume",
    "cluster watch farm",
    "operation list",
    "operation show LAST",
    "operation watch",
    "operation resume",
    "state show",
    "sweep --dry-run",
    "config show",
    "doctor",
    "policy list",
    "policy status",
    "policy shadow",
    "policy audit keep.rules.toml",
    "policy new patient --slot retry --language rules",
    "policy test patient",
    "policy schema --slot retry --folder schemas",
    "policy inspect retry.rules.toml",
    "policy check retry.rules.toml",
    "policy run retry.rules.toml --slot retry --example",
    "policy prove retry.rules.toml --slot retry --questions 100 --random 0 --save laws",
    "policy diff default retry.rules.toml --slot retry --questions 100 --random 0",
    "policy bench retry.rules.toml --decisions 100",
    "decision list --slot retry",
    "decision show DECISION",
    "decision replay DECISION",
    "decision replay --since 1h",
    "conformance --list",
    "rehearse small.toml --arm one=one.json --arm two=two.json --seeds 2 --never cost>100",
    "rehearse scaled.toml --arm farm=farm.yaml --never cost>100",
    "rehearse tune small.toml --arm one=one.json --search search.toml --never cost>100 --seeds 1",
    "man --out man1",
    "server delete ID --dry-run",
    "server delete ID --yes",
    "server show ID",
    "operation list --removals --since 7d",
    "cluster scale farm web-servers=1 --yes",
    "cluster abandon farm --dry-run",
    "cluster terminate farm --yes",
    "state take-over --yes",
];

/// Programs that go on after their first line.
const SERVING: [&[&str]; 3] = [
    &["simulator", "--listen", "127.0.0.1:0"],
    &["console", "--listen", "127.0.0.1:0"],
    &["policy", "serve", "--listen", "unix:policy.sock"],
];

/// Lines before a result.
const LINES: [&str; 2] = ["cluster event", "operation entry"];

/// Commands that print a file's content.
const FILES: [&str; 6] =
    ["cluster export", "completions", "rehearse import", "rehearse record", "rehearse schema", "report"];

static PUBLISHED: LazyLock<Value> = LazyLock::new(|| {
    let text = std::fs::read_to_string(repository().join(SCHEMA)).expect("`just reference` writes it");
    serde_json::from_str(&text).expect("JSON")
});

/// Looks at a document that any test has had printed.
#[track_caller]
pub fn check(document: &Value) {
    check_document(document);
    let name = document["document"].as_str().expect("it was checked");
    let is_being_written = std::env::var_os("WINDLASS_BLESS").is_some();
    // A command line that could not be read is nobody's.
    if name != "error" && !FILES.contains(&name) && !is_being_written {
        let found = contradictions(&PUBLISHED, document);
        assert!(found.is_empty(), "{name}: {found:#?}\n{document}");
    }
}

#[test]
fn the_published_schemas_are_those_of_what_is_printed() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.write("farm.toml", FARM.as_bytes());
    world.write("other.toml", FARM.replace("count = 2", "count = 3").as_bytes());
    world.write("retry.rules.toml", RULES.as_bytes());
    rehearsing::write(world.home.path());
    world.write("keep.rules.toml", b"slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n");
    let mut documents = Documents::default();
    let mut ask = |line: &[&str], code: i32| {
        let mut command = world.command(&[line, &["--output", "json-lines"]].concat());
        let ran = Ran::of(command.current_dir(world.home.path())).expect(code);
        let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let printed: Vec<Value> = lines.inspect(|document| documents.add(document)).collect();
        printed.last().expect("a document").clone()
    };
    let create = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
    ask(&["cluster", "create", "farm.toml", "--dry-run"], 0);
    ask(&["cluster", "create", "farm.toml"], 0);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    ask(&create, 1);
    world.control("DELETE", "faults", "");
    let created = ask(&create, 0);
    let decision = ask(&["decision", "list", "--slot", "retry"], 0)["decisions"][0]["id"].clone();
    for line in ASKED {
        let words = line.split(' ').map(|word| match word {
            "ID" => created["servers"][0]["name"].as_str().expect("a name"),
            "LAST" => created["servers"][0]["operation"].as_str().expect("an operation"),
            "DECISION" => decision.as_str().expect("a decision"),
            word => word,
        });
        ask(&words.collect::<Vec<_>>(), 0);
    }
    ask(&["server", "show", "nobody"], 1);
    for line in SERVING {
        let mut command = world.command(&[line, &["--output", "json"]].concat());
        let serving = Running::start(command.current_dir(world.home.path()));
        documents.add(&serde_json::from_str(&serving.first_line()).expect("JSON"));
        serving.signal("TERM");
        serving.end().expect(0);
    }
    let failing = World::new("50");
    failing.configure(&forgetful(&failing));
    failing.create("1").expect(0);
    failing.run(&["server", "delete", "--yes", "--group", "ci"]).expect(0);
    let decisions = failing.json(&["decision", "list", "--fallbacks"]);
    let decision = decisions["decisions"][0]["id"].as_str().expect("a decision");
    for line in [&["decision", "show", decision][..], &["policy", "status"]] {
        documents.add(&failing.json(line));
    }
    documents.add(&decisions);
    let halted = World::new("0");
    let killed = killed(&halted);
    for decided in ["--dry-run", "--yes"] {
        documents.add(&halted.json(&["operation", "abandon", killed["id"].as_str().expect("an id"), decided]));
    }
    let mut wrong = documents.describe(PARTS, NOTES);
    let reference = include_str!("../../../../docs/commands.md");
    let commands: Vec<&str> =
        reference.lines().filter_map(|line| line.strip_prefix("## `windlass ")?.strip_suffix('`')).collect();
    let is_printed = |name: &&str| commands.contains(name) || LINES.contains(name);
    wrong.extend(
        documents.names().filter(|name| !is_printed(name)).map(|name| format!("{name}: there is no such command")),
    );
    for command in &commands {
        let is_group = commands.iter().any(|other| other.starts_with(&format!("{command} ")));
        let is_known = documents.names().any(|name| name == *command) || FILES.contains(command);
        if !is_group && !is_known {
            wrong.push(format!("{command}: add it to ASKED, to NOTES, or to FILES where it prints no document"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    documents.hold(SCHEMA, "Documents that windlass prints");
    let introduction = "The fields of each document that [`--output json`](json-output.md) writes, besides `document` \
        and `format_version`. They are the same as in the [JSON Schema](json-output.schema.json). Any field can be \
        absent or null. `servers[].name` is the field `name` of each item in the list `servers`. `counts.*.before` is \
        the field `before` of each value in the map `counts`, whose keys are names.";
    let page = format!(
        "# JSON documents\n\n<!-- Generated from the code: just reference -->\n\n{}\n{}",
        wrapped(introduction),
        documents.sections()
    );
    hold(PAGE, &page);
}

#[test]
fn the_page_names_every_value_that_keeps_its_own_spelling() {
    let page = std::fs::read_to_string(repository().join("docs/json-output.md")).expect("a page");
    let (_, page) = page.split_once("| value of | is spelt as |").expect("a table");
    let (table, _) = page.split_once("\n\n").expect("its end");
    for key in VERBATIM {
        assert!(table.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn yaml_is_the_same_document_and_a_files_content_has_no_envelope() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.create("1").expect(1);
    let yaml = world.run(&["decision", "list", "--output", "yaml"]).expect(0).stdout;
    let same: Value = serde_norway::from_str(&yaml).expect("YAML");
    assert_eq!(same, world.json(&["decision", "list"]));
    assert!(yaml.starts_with("---\ndocument: decision list\nformat_version: 1\n"), "{yaml}");
    let schema = world.run(&["policy", "schema", "--slot", "retry", "--of", "answer", "-o", "json"]).expect(0).file();
    assert!(schema["$schema"].is_string() && schema["document"].is_null(), "{schema}");
}
