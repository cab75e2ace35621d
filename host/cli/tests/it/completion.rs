//! What a shell is offered, and the manual pages.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::{BINARY, IMPATIENT, Ran, World, bare, new_home};

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 2
types = ['DEV1-S']
image = 'ubuntu_noble'
";

/// What bash is offered for the last of these words, as it asks for it.
fn ask(mut command: Command, words: &[&str]) -> Ran {
    command.env("WINDLASS_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    Ran::of(command.arg("--").arg("windlass").args(words))
}

fn offered(command: Command, words: &[&str]) -> BTreeSet<String> {
    let ran = ask(command, words).expect(0);
    assert_eq!(ran.stderr, "", "{words:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn names_of_the_state_directory_are_offered_where_the_command_line_takes_them() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    let file = world.write("farm.toml", FARM.as_bytes());
    world.run(&["cluster", "create", file.to_str().unwrap()]).expect(0);
    let server = world.create("1").expect(0).json()["servers"][0]["operation"].as_str().unwrap().to_owned();
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.create("1").expect(1);
    world.control("DELETE", "requests", "");
    let offered = |words: &[&str]| offered(world.command(&[]), words);
    let ids = |arguments: &[&str]| -> BTreeSet<String> {
        let listed = world.run(&[arguments, &["-o", "name"]].concat()).expect(0).stdout;
        listed.lines().map(str::to_owned).collect()
    };
    assert_eq!(offered(&["cluster", "status", "fa"]), set(&["farm"]));
    assert_eq!(offered(&["cluster", "scale", "farm", "w"]), set(&["web=2"]));
    assert_eq!(offered(&["cluster", "scale", "farm", "--remove", "farm-"]), set(&["farm-web-1", "farm-web-2"]));
    assert_eq!(offered(&["cluster", "replace", "farm", "--group", "w"]), set(&["web"]));
    assert_eq!(offered(&["operation", "show", "ci"]).len(), 2);
    assert!(offered(&["operation", "show", "ci"]).is_subset(&ids(&["operation", "list"])));
    assert!(offered(&["server", "delete", "ci"]).contains(&server));
    assert_eq!(offered(&["server", "list", "--group", "c"]), set(&["ci"]));
    let decisions = offered(&["decision", "show", "0"]);
    assert!(!decisions.is_empty() && decisions == ids(&["decision", "list"]), "{decisions:?}");
    assert_eq!(offered(&["server", "list", "--zone", "nl-ams-"]), set(&["nl-ams-1", "nl-ams-2", "nl-ams-3"]));
    assert_eq!(offered(&["policy", "run", "x.wasm", "--slot", "re"]), set(&["release", "retry"]));
    assert_eq!(world.control("GET", "requests", ""), serde_json::json!([]), "nobody is called");
    let elsewhere = world.home.path().join("elsewhere");
    let named = ["cluster", "status", "--state-dir", elsewhere.to_str().unwrap(), "fa"];
    assert_eq!(offered(&named), BTreeSet::from([String::new()]).into_iter().filter(|it| !it.is_empty()).collect());
}

#[test]
fn asking_for_names_makes_nothing_changes_nothing_and_never_complains() {
    let home = tempfile::tempdir().unwrap();
    for words in [&["cluster", "status", ""][..], &["operation", "show", ""], &["decision", "show", ""]] {
        let found = offered(bare(home.path()), words);
        assert!(found.iter().all(|word| word.starts_with('-') || word.is_empty()), "{words:?}: {found:?}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "a file was made");
    let world = World::new("100");
    world.configure("onwer = 'a configuration that cannot be read'\n");
    offered(world.command(&[]), &["cluster", "status", ""]);
    let state = world.home.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("journal.sqlite"), "no database").unwrap();
    std::fs::write(state.join("decisions"), "no folder").unwrap();
    for words in [&["cluster", "status", ""][..], &["operation", "show", ""], &["decision", "show", ""]] {
        let mut command = bare(home.path());
        command.env("WINDLASS_STATE_DIR", &state);
        offered(command, words);
    }
    assert_eq!(std::fs::read_to_string(state.join("journal.sqlite")).unwrap(), "no database");
}

#[test]
fn bash_completes_a_name_by_the_script_that_completions_writes() {
    let world = World::new("100");
    let file = world.write("farm.toml", FARM.as_bytes());
    world.run(&["cluster", "create", file.to_str().unwrap()]).expect(0);
    let script = world.run(&["completions", "bash", "--names"]).expect(0).stdout;
    let path = world.write("windlass.bash", script.as_bytes());
    let asked = format!(
        "source {}\nCOMP_WORDS=(windlass cluster status fa)\nCOMP_CWORD=3\nCOMP_TYPE=9\n\
         _clap_complete_windlass windlass fa status\necho \"${{COMPREPLY[@]}}\"\n",
        path.display()
    );
    let mut command = Command::new("bash");
    let binaries = Path::new(BINARY).parent().unwrap().display();
    command.args(["--norc", "-c", &asked]).env_clear().env("HOME", world.home.path());
    let ran = Ran::of(command.env("PATH", format!("{binaries}:/usr/bin:/bin"))).expect(0);
    assert_eq!((ran.stdout.trim(), ran.stderr.as_str()), ("farm", ""));
}

#[test]
fn an_unknown_shell_is_refused_with_those_that_there_are() {
    let home = new_home();
    let mut command = bare(home.path());
    let ran = Ran::of(command.env("WINDLASS_COMPLETE", "tcsh").args(["--", "windlass", ""])).expect(2);
    ran.says("unknown shell `tcsh`, expected one of `bash`");
}

#[test]
fn each_command_has_a_manual_page_with_its_options_and_examples() {
    let home = new_home();
    let folder = home.path().join("man1");
    let folder_text = folder.to_str().unwrap();
    let written = Ran::of(bare(home.path()).args(["man", "--out", folder_text, "-o", "json"])).expect(0).json();
    let pages: BTreeSet<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(written["files"].as_array().unwrap().len(), pages.len());
    let mut commands = vec![Vec::new()];
    let mut count = 0;
    while let Some(command) = commands.pop() {
        let name = [&["windlass".to_owned()], command.as_slice()].concat().join("-");
        assert!(pages.contains(&format!("{name}.1")), "{name} has no page");
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        let help = Ran::of(bare(home.path()).args(&command).arg("--help")).expect(0).stdout;
        for option in help.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            let option: String = option.chars().take_while(|it| it.is_ascii_lowercase() || *it == '-').collect();
            assert!(page.replace("\\-", "-").contains(&format!("--{option}")), "{name} lacks --{option}");
        }
        if help.contains("Examples:") {
            assert!(page.contains("Examples:"), "{name} lacks its examples");
        }
        let below = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // A further line of a description is indented by more.
        let below = below.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        for word in below.filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help") {
            commands.push([command.as_slice(), &[word.to_owned()]].concat());
        }
        count += 1;
    }
    assert_eq!(count, pages.len());
    assert!(count > 40, "only {count} pages");
}
