//! What the commands that list print in each format, and what becomes of it where it cannot be written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{IMPATIENT, Ran, Running, World};

/// Every command that lists, the list in its document, and where a row's name stands there.
const LISTINGS: &[(&[&str], &str, &str)] = &[
    (&["server", "list"], "servers", "/id"),
    (&["cluster", "list"], "clusters", "/cluster/name"),
    (&["cluster", "status", "farm"], "nodes", "/name"),
    (&["cluster", "history", "farm"], "history", "/operation/number"),
    (&["operation", "list"], "operations", "/id"),
    (&["decision", "list"], "decisions", "/id"),
    (&["policy", "list"], "policies", "/policy/name"),
    (&["conformance", "--list"], "probes", "/id"),
    (&["config", "show"], "values", "/key"),
];

/// Further commands with a result on stdout.
const OTHERS: &[&[&str]] = &[
    &["policy", "status"],
    &["policy", "shadow"],
    &["policy", "schema", "--slot", "retry"],
    &["sweep", "--dry-run"],
    &["doctor"],
    &["cluster", "export", "farm"],
    &["operation", "resume"],
    &["completions", "bash"],
];

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

/// A world in which every listing has a row: a server, a cluster, and a decision about a failure.
fn world() -> World {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.write("farm.toml", FARM.as_bytes());
    let file = world.home.path().join("farm.toml");
    world.run(&["cluster", "create", file.to_str().unwrap()]).expect(0);
    world.create("1").expect(0);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.create("1").expect(1);
    world.control("DELETE", "faults", "");
    world
}

fn run(world: &World, arguments: &[&str], format: &str) -> String {
    world.run(&[arguments, &["--quiet", "-o", format]].concat()).expect(0).stdout
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn header(table: &str) -> BTreeSet<String> {
    let line = table.lines().find(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    line.expect("a header").split("  ").filter(|title| !title.is_empty()).map(|title| title.trim().to_owned()).collect()
}

#[test]
fn every_listing_has_names_of_their_own_and_wide_tables_with_all_columns_of_the_narrow_ones() {
    let world = world();
    for (arguments, list, pointer) in LISTINGS {
        let document: Value = serde_json::from_str(&run(&world, arguments, "json")).unwrap();
        let rows = document[list].as_array().unwrap();
        assert!(!rows.is_empty(), "{arguments:?} lists nothing: {document}");
        let expected: Vec<String> = rows.iter().map(|row| text_of(row.pointer(pointer).unwrap())).collect();
        let names: Vec<String> = run(&world, arguments, "name").lines().map(str::to_owned).collect();
        assert_eq!(names, expected, "{arguments:?}");
        let (narrow, wide) = (run(&world, arguments, "table"), run(&world, arguments, "wide"));
        assert!(header(&narrow).is_subset(&header(&wide)), "{arguments:?}\n{narrow}\n{wide}");
        let same = arguments == &["conformance", "--list"] || arguments == &["policy", "list"];
        assert!(same || header(&narrow).len() < header(&wide).len(), "{arguments:?}\n{wide}");
    }
}

/// Further tables.
const TABLES: &[&[&str]] =
    &[&["type", "list"], &["image", "list"], &["zone", "list"], &["sweep", "--dry-run", "--older-than", "0s"]];

/// The cells of each row of the table of a text, by their titles; and the lines of that table.
fn cells(text: &str) -> (Vec<BTreeMap<String, String>>, Vec<String>) {
    let is_header = |line: &str| {
        let letters = || line.chars().filter(|letter| letter.is_alphabetic());
        line.contains("  ") && letters().count() > 3 && letters().all(char::is_uppercase)
    };
    // A sweep says below its table what it has not judged.
    let lines: Vec<&str> = text.lines().take_while(|line| !line.contains(" explained, ")).collect();
    let begin = lines.iter().position(|line| is_header(line)).unwrap_or_else(|| panic!("no header: {text}"));
    let header: Vec<char> = lines[begin].chars().collect();
    let begins =
        |at: &usize| header[*at] != ' ' && (*at == 0 || header[at - 1] == ' ' && header[at.saturating_sub(2)] == ' ');
    let starts: Vec<usize> = (0..header.len()).filter(begins).collect();
    let cell = |line: &[char], place: usize| {
        let end = starts.get(place + 1).copied().unwrap_or(line.len()).min(line.len());
        line.get(starts[place]..end).unwrap_or_default().iter().collect::<String>().trim_end().to_owned()
    };
    let rows = lines[begin + 1..].iter().map(|line| {
        let line: Vec<char> = line.chars().collect();
        (0..starts.len()).map(|place| (cell(&header, place), cell(&line, place))).collect()
    });
    (rows.collect(), lines[begin..].iter().map(|line| (*line).to_owned()).collect())
}

#[test]
fn no_table_breaks_a_cell_at_any_width_and_cuts_nothing_but_sentences() {
    let world = world();
    // What is unexplained: of a server that somebody deletes by hand.
    let server = world.json(&["server", "list", "--group", "ci"])["servers"][0]["id"].as_str().unwrap().to_owned();
    world.control("POST", &format!("servers/{server}/state"), r#"{"state": "deleted"}"#);
    // Ages differ from one run to the next.
    let clocks = ["AGE", "IN PLACE", "LOADED"];
    // Its values are a user's, of any length, and nothing of them is left out.
    let listings = LISTINGS.iter().map(|(arguments, ..)| *arguments).filter(|line| *line != ["config", "show"]);
    for arguments in listings.chain(TABLES.iter().copied()) {
        let (whole, _) = cells(&run(&world, arguments, "table"));
        for width in [60, 80, 100, 200] {
            let command = world.command(&[arguments, &["--quiet"]].concat());
            let shown = Running::on_screen(command, width).end().expect(0).stdout;
            let (rows, lines) = cells(&shown);
            assert_eq!(rows.len(), whole.len(), "{arguments:?} at {width}: a line for each row\n{shown}");
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{arguments:?} at {width}\n{shown}");
            assert!(rows.first().is_none_or(|row| row.len() >= 2), "{arguments:?} at {width}\n{shown}");
            for (row, whole) in rows.iter().zip(&whole) {
                for (title, cell) in row.iter().filter(|(title, _)| !clocks.contains(&title.as_str())) {
                    let of = whole.get(title).unwrap_or_else(|| panic!("{title}: {shown}"));
                    match cell.strip_suffix('…') {
                        Some(cut) => assert!(of.starts_with(cut) && of.contains(' '), "{title} {cell}: {of}"),
                        None => assert_eq!(cell, of, "{title} at {width}\n{shown}"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_list_longer_than_the_screen_goes_through_the_readers_pager() {
    let world = World::new("100");
    let shown = |arguments: &[&str], pager: &str| {
        let mut command = world.command(arguments);
        command.env("WINDLASS_PAGER", pager);
        Running::with_reader(command, 100).end().expect(0).stdout
    };
    let paged = shown(&["type", "list"], "tr a-z A-Z; echo key:$SCW_SECRET_KEY.");
    assert!(paged.contains("X86_64") && !paged.contains("x86_64"), "{paged}");
    assert!(paged.contains("key:."), "the pager has no credentials: {paged}");
    for (arguments, pager) in
        [(&["zone", "list"], "tr a-z A-Z"), (&["type", "list"], ""), (&["type", "list"], "there-is-no-such-pager")]
    {
        let plain = shown(arguments, pager);
        assert!(plain.contains("fr-par-1") || plain.contains("x86_64"), "{arguments:?} {pager}: {plain}");
    }
}

#[test]
fn a_wide_table_holds_whole_digests() {
    let world = World::new("100");
    let digest = world.json(&["policy", "list"])["policies"][0]["policy"]["component"].as_str().unwrap().to_owned();
    assert!(run(&world, &["policy", "list"], "wide").contains(&digest));
    assert!(!run(&world, &["policy", "list"], "table").contains(&digest));
}

#[test]
fn a_command_that_lists_nothing_refuses_names_before_it_calls_anybody() {
    let world = World::new("100");
    world.control("DELETE", "requests", "");
    for arguments in [
        &["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble", "--detach"][..],
        &["server", "delete", "--group", "ci", "--yes"],
        &["sweep", "--dry-run"],
        &["doctor"],
    ] {
        let ran = world.run(&[arguments, &["-o", "name"]].concat()).expect(2);
        let ran = ran.says("--output name is for commands that list").says("try     --output table, json or yaml");
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
    assert_eq!(world.control("GET", "requests", ""), Value::Array(Vec::new()));
}

#[test]
fn created_servers_are_named_for_a_script() {
    let world = World::new("100");
    let server = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble", "--count", "2"];
    let mut created: Vec<String> = run(&world, &server, "name").lines().map(str::to_owned).collect();
    let mut listed: Vec<String> = run(&world, &["server", "list"], "name").lines().map(str::to_owned).collect();
    created.sort();
    listed.sort();
    assert_eq!((created.len(), &created), (2, &listed));
}

#[test]
fn a_terminal_gets_colours_unless_it_is_said_that_there_are_to_be_none() {
    let world = World::new("100");
    let colours = |option: &[&str], variable: Option<&str>, at_terminal: bool| {
        let mut command = world.command(&[&["server", "show", "nobody"], option].concat());
        command.env("TERM", "xterm-256color").envs(variable.map(|value| ("NO_COLOR", value)));
        let ran = if at_terminal { Running::at_terminal(command).0.end() } else { Ran::of(&mut command) };
        let said = ran.expect(1).stderr;
        assert!(said.contains("error"), "{said}");
        said.contains('\u{1b}')
    };
    assert!(colours(&[], None, true), "a terminal");
    assert!(!colours(&[], Some("1"), true), "NO_COLOR");
    assert!(colours(&[], Some(""), true), "an empty NO_COLOR says nothing");
    assert!(!colours(&["--color", "never"], None, true));
    assert!(!colours(&[], None, false), "no terminal");
    assert!(colours(&["--color", "always"], Some("1"), false), "what is said to this command counts");
}

#[test]
fn no_command_succeeds_whose_result_cannot_be_written() {
    let world = world();
    let formats = ["table", "wide", "json", "yaml", "json-lines"];
    let listings =
        LISTINGS.iter().flat_map(|(arguments, ..)| ["name"].iter().chain(&formats).map(|it| (*arguments, *it)));
    let others = OTHERS.iter().flat_map(|arguments| formats.map(|format| (*arguments, format)));
    for (arguments, format) in listings.chain(others) {
        let mut command = world.command(&[arguments, &["-o", format]].concat());
        command.stdout(Stdio::from(File::options().write(true).open("/dev/full").unwrap()));
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(4), "{arguments:?} -o {format}\n{said}");
        assert!(said.contains("could not be written on stdout"), "{arguments:?} -o {format}\n{said}");
    }
    for asked in ["--help", "--version"] {
        let mut command = world.command(&[asked]);
        command.stdout(Stdio::from(File::options().write(true).open("/dev/full").unwrap()));
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(4), "{asked}\n{said}");
        assert!(said.contains("could not be written on stdout"), "{asked}\n{said}");
    }
}
