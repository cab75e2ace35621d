use std::os::unix::fs::FileExt;

use crate::support::{IMPATIENT, Ran, World, bare};

#[test]
fn version_and_help_are_answers() {
    let home = tempfile::tempdir().unwrap();
    let version = Ran::of(bare(home.path()).arg("--version")).expect(0);
    assert_eq!(version.stdout, format!("windlass {}\n", env!("CARGO_PKG_VERSION")));
    let help = Ran::of(bare(home.path()).arg("--help")).expect(0);
    assert!(help.stdout.contains("Exit codes:") && help.stdout.contains("windlass demo"), "{}", help.stdout);
    // Neither leaves anything behind.
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_exit_code_2_with_the_nearest_valid_word() {
    let home = tempfile::tempdir().unwrap();
    let ran = |arguments: &[&str]| Ran::of(bare(home.path()).args(arguments));
    ran(&["server", "lst"]).expect(2).says("`windlass server list`").says("'windlass server --help'");
    ran(&["server", "list", "--outptu", "json"]).expect(2).says("--output");
    let json = ran(&["server", "delete", "--output", "json"]).expect(2).json();
    assert_eq!(json["error"]["exit_code"], 2);
    ran(&["server", "create", "--group", "Not A Group"]).expect(2).says("lower-case");
}

#[test]
fn missing_credentials_are_one_line_with_variable_key_and_place() {
    let home = tempfile::tempdir().unwrap();
    let ran = Ran::of(bare(home.path()).args(["server", "list", "--zone", "fr-par-1"])).expect(2);
    let first = ran.stderr.lines().next().unwrap();
    for words in ["SCW_SECRET_KEY", "secret_key", ".config/scw/config.yaml"] {
        assert!(first.contains(words), "{words}: {first}");
    }
    assert!(ran.stderr.contains("windlass demo"), "{}", ran.stderr);
}

#[test]
fn a_missing_zone_names_variable_and_key() {
    let home = tempfile::tempdir().unwrap();
    let mut command = bare(home.path());
    command.args(["server", "list"]).env("SCW_SECRET_KEY", "11111111-1111-1111-1111-111111111111");
    Ran::of(&mut command).expect(2).says("SCW_DEFAULT_ZONE").says("default_zone");
}

#[test]
fn a_misspelt_key_is_named_with_its_line_and_the_nearest_valid_one_and_nothing_is_done() {
    let world = World::new("50");
    world.configure("\nonwer = 'x'\n[server]\nimgae = 'ubuntu_noble'\n");
    let ran = world.create("1").expect(2);
    let ran = ran.says("config.toml").says("line 2: 'onwer' is no known key; did you mean 'owner'?");
    let ran = ran.says("line 4: 'server.imgae' is no known key; did you mean 'image'?");
    assert_eq!(ran.json()["error"]["causes"].as_array().unwrap().len(), 2);
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_folder_of_something_else_is_no_state_directory_and_stays_as_it_is() {
    let world = World::new("50");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let state = ["--state-dir", folder.path().to_str().unwrap()];
    for command in [["server", "list"], ["operation", "list"], ["state", "show"]] {
        world.run(&[&command[..], &state].concat()).expect(2).says("has files of something else");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let none = folder.path().join("none");
    world.run(&["state", "show", "--state-dir", none.to_str().unwrap()]).expect(1).says("there is no state directory");
    assert!(!none.exists());
}

#[test]
fn misspelt_variables_and_levels_are_told() {
    let world = World::new("50");
    let with = |name: &str, value: &str| Ran::of(world.command(&["operation", "list"]).env(name, value));
    with("WINDLASS_STAT_DIR", "x").expect(0).says("WINDLASS_STAT_DIR is not used; did you mean WINDLASS_STATE_DIR?");
    with("SCW_DEFALT_ZONE", "x").expect(0).says("did you mean SCW_DEFAULT_ZONE?");
    with("WINDLASS_LOG", "verbos").expect(2).says("`verbos` is not a level: error, warn, info, debug, trace or off");
    assert!(!with("WINDLASS_LOG", "warn,hyper=debug").expect(0).stderr.contains("not used"));
}

#[test]
fn options_that_mean_nothing_here_are_refused() {
    let world = World::new("50");
    for (arguments, words) in [
        (&["zone", "list", "--zone", "nowhere"][..], "nowhere"),
        (&["cluster", "apply", "farm.toml", "--at-a-time", "3"], "--replace"),
        (&["cluster", "status", "farm", "--offline", "--watch"], "cannot be used with"),
        (&["server", "list", "--state", "running"], "the options of `windlass server list`"),
    ] {
        world.run(arguments).expect(2).says(words);
    }
    for command in ["show", "cancel"] {
        world.run(&["operation", command, ""]).expect(2).says("the operation's id is empty");
    }
    world.run(&["operation", "cancel", "nothere"]).expect(1).says("there is no operation nothere");
}

#[test]
fn a_result_that_cannot_be_placed_is_told_with_where_it_can() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().to_str().unwrap();
    let ran = |arguments: &[&str]| Ran::of(bare(home.path()).args(arguments)).expect(2);
    ran(&["example", "farm.toml", "--out", folder]).says("it is a directory").says("name a file in it");
    ran(&["example", "farm"]).says("did you mean 'farm.toml'?");
    let world = World::new("50");
    world.create("1").expect(0);
    let ran = world.run(&["report", "--since", "1h", "--out", folder]).expect(2);
    ran.says("it is a directory").says("name a file in it");
    let nowhere = world.run(&["report", "--since", "1h", "--out", "/proc/nowhere/report.html"]).expect(2);
    nowhere.says("name a file in a folder that you may write");
}

#[test]
fn a_configuration_file_that_is_named_and_missing_is_an_error() {
    let world = World::new("50");
    world.run(&["server", "list", "--config", "/nowhere/config.toml"]).expect(2).says("/nowhere/config.toml");
}

#[test]
fn an_unreachable_api_is_told_with_its_call_and_cause() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    let ran = world.run(&["server", "list", "--api-url", "http://127.0.0.1:1"]).expect(1);
    ran.says("error: the servers cannot be listed").says("GET /instance/v1/zones/fr-par-1/servers");
    let ran = world.run(&["server", "list", "--api-url", "not a url"]).expect(2);
    ran.says("--api-url is not an address like https://api.scaleway.com");
}

#[test]
fn a_misspelt_group_or_state_directory_is_told_before_it_is_taken_for_a_new_one() {
    let world = World::new("50");
    world.create("1").expect(0);
    let ran = world.run(&["server", "list", "--group", "cj"]).expect(0);
    assert!(ran.stdout.contains("did you mean ci?"), "{}", ran.stdout);
    let ran = world.run(&["server", "delete", "--yes", "--group", "cj"]).expect(0);
    assert!(ran.stdout.contains("did you mean ci?"), "{}", ran.stdout);
    let beside = world.home.path().join(".local/state/windlas");
    let ran = world.run(&["server", "list", "--state-dir", beside.to_str().unwrap()]).expect(2);
    ran.says("there is no state directory").says("did you mean").says("mkdir");
    assert!(!beside.exists(), "nothing was made");
    // A file where a directory is needed.
    let file = world.home.path().join("file");
    std::fs::write(&file, "").unwrap();
    world.run(&["server", "list", "--state-dir", file.to_str().unwrap()]).expect(2).says("is a file");
}

#[test]
fn a_refused_or_lost_call_is_told_once_with_what_to_do() {
    let world = World::new("50");
    world.configure(IMPATIENT);
    let ran = world.run(&["server", "list", "--api-url", "http://127.0.0.1:1"]).expect(1);
    assert_eq!(ran.stderr.matches("GET /instance").count(), 1, "{}", ran.stderr);
    ran.says("127.0.0.1:1 (check this address").says("windlass doctor");
}

#[test]
fn a_journal_of_a_newer_version_is_refused_untouched() {
    let world = World::new("50");
    world.create("1").expect(0);
    let path = world.home.path().join(".local/state/windlass/journal.sqlite");
    // The header of an SQLite file holds the user version at byte 60.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_at(&99u32.to_be_bytes(), 60).unwrap();
    drop(file);
    let before = std::fs::read(&path).unwrap();
    world.create("1").expect(2).says("version 99").says("untouched");
    world.run(&["operation", "list"]).expect(2).says("version 99");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(world.resources(), 3);
}

#[test]
fn completions_exist_for_each_shell_and_bash_accepts_its_own() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Ran::of(bare(home.path()).args(["completions", shell])).expect(0);
        assert!(ran.stdout.contains("simulator"), "{shell}");
        if shell == "bash" {
            let script = home.path().join("windlass.bash");
            std::fs::write(&script, &ran.stdout).unwrap();
            let checked = std::process::Command::new("bash").arg("-n").arg(&script).output().unwrap();
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}

#[test]
fn an_address_in_use_is_told_with_the_remedy() {
    let world = World::new("50");
    let address = world.url.strip_prefix("http://").unwrap();
    world.run(&["simulator", "--listen", address]).expect(2).says("port 0 takes a free one");
}

#[test]
fn wrong_macs_for_the_simulator_are_refused_with_what_would_be_right() {
    let home = tempfile::tempdir().unwrap();
    let ran = |arguments: &[&str]| Ran::of(bare(home.path()).arg("simulator").args(arguments));
    ran(&["--apple-silicon-pool", "prefix=ci-,count=3,type=M9"]).expect(2).says("M4-S");
    ran(&["--apple-silicon-pool", "prefix=ci-,count=3,type=M4-S,colour=red"]).expect(2).says("`colour`");
    ran(&["--apple-silicon-refusal", "politely"]).expect(2).says("without-details");
    ran(&["--apple-silicon-stock", "M4-S"]).expect(2).says("M4-S=3");
    ran(&["--apple-silicon-floor", "soon"]).expect(2).says("soon");
}
