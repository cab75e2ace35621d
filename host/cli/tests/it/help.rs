//! Every example at the end of a command's help is run.

use std::collections::BTreeMap;

use windlass_test_guests::KEEP_NEW_NODES_FOR_INSPECTION;
use windlass_test_reference::repository;

use crate::support::{IMPATIENT, Ran, World, bare, new_home};

/// Examples that others run: the demo, the simulator, the console and the policy server have tests of their own, a
/// build needs a compiler (the tutorial's test has one), proving, measuring and comparing take minutes (the tutorial of
/// proving policies does all three), what goes to a registry and comes from it needs one (distribution.rs), and a
/// rehearsal needs two configurations (rehearsing.rs).
const ELSEWHERE: [&str; 12] = [
    "windlass console",
    "windlass demo",
    "windlass simulator",
    "windlass operation cancel",
    "windlass policy build",
    "windlass policy prove",
    "windlass policy bench",
    "windlass policy diff",
    "windlass policy serve",
    "windlass policy push",
    "windlass policy pull",
    "windlass rehearse",
];

/// What prepares the ground comes first, what takes it away last; the rest between, as the help has it.
const FIRST: [&str; 6] = [
    "windlass init --yes",
    "windlass cluster create farm.toml --dry-run",
    "windlass cluster create farm.toml",
    "windlass server create --group ci",
    "windlass server create --group db",
    "windlass policy new",
];
const LAST: [&str; 6] = [
    "windlass cluster scale farm --remove",
    "windlass cluster replace",
    "windlass cluster terminate farm --force",
    "windlass server delete --group",
    "windlass sweep --yes",
    "windlass init",
];

/// Each command's help is asked for, and its examples are collected.
fn examples(path: &[String], found: &mut Vec<String>) {
    let home = new_home();
    let help = Ran::of(bare(home.path()).args(path).arg("--help")).expect(0).stdout;
    if let Some((_, examples)) = help.split_once("\nExamples:\n") {
        found.extend(examples.lines().filter(|line| line.starts_with("  windlass")).map(|line| line.trim().to_owned()));
    }
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in below.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap();
        if name != "help" {
            examples(&[path, &[name.to_owned()]].concat(), found);
        }
    }
}

fn place(example: &str) -> usize {
    let in_list = |list: &[&str]| list.iter().position(|beginning| example.starts_with(beginning));
    match (in_list(&FIRST), in_list(&LAST)) {
        (Some(first), _) => first,
        (None, None) => FIRST.len(),
        (None, Some(last)) => FIRST.len() + 1 + last,
    }
}

#[test]
fn each_example_of_each_help_does_what_it_shows() {
    let mut all = Vec::new();
    examples(&[], &mut all);
    assert!(all.len() > 50, "{all:?}");
    for elsewhere in ELSEWHERE {
        assert!(all.iter().any(|example| example.starts_with(elsewhere)), "{elsewhere} is no example any more");
    }
    all.retain(|example| !ELSEWHERE.iter().any(|elsewhere| example.starts_with(elsewhere)));
    all.sort_by_key(|example| place(example));

    let world = World::new("100");
    let folder = world.home.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(repository().join("docs/examples/farm.toml"), folder.join("farm.toml")).unwrap();
    KEEP_NEW_NODES_FOR_INSPECTION.write_to(&folder).unwrap();
    let keep = "slot = \"release\"\n[[rules]]\nwhen = \"true\"\nanswer = \"keep\"\n";
    std::fs::write(folder.join("keep-all.rules.toml"), keep).unwrap();
    let components = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../policy/components");
    for name in ["gentle-retry.wasm", "old.wasm", "new.wasm"] {
        std::fs::copy(components.join("retry.wasm"), folder.join(name)).unwrap();
    }
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    std::fs::write(folder.join("release.key"), pair.sk.to_box(None).unwrap().to_string()).unwrap();
    std::fs::write(folder.join("release.pub"), pair.pk.to_box().unwrap().to_string()).unwrap();
    let first_of = |listing: &[&str]| {
        let listed = world.run(&[listing, &["-o", "name"]].concat()).expect(0).stdout;
        listed.lines().next().unwrap().to_owned()
    };
    // State that may move to another place: it is used there alone.
    let with_state = || {
        let path = folder.join("old").display().to_string();
        let create =
            ["server", "create", "--group", "old", "--type", "DEV1-S", "--image", "ubuntu_noble", "--state-dir"];
        world.run(&[&create[..], &[&path]].concat()).expect(0);
        path
    };
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    for example in all {
        // Names and ids that the examples made up.
        let words: Vec<String> = example.split_whitespace().skip(1).map(str::to_owned).collect();
        let words: Vec<String> = words
            .into_iter()
            .map(|word| match word.as_str() {
                "web-1" => first_of(&["server", "list", "--group", "db"]),
                "ci-0nqrsxtrgyns" => first_of(&["operation", "list", "--group", "ci"]),
                "01JD0000000000000000000000" => first_of(&["decision", "list"]),
                "~/.local/state/windlass" => with_state(),
                "postgres://ops@db.example.com/windlass" => folder.join("new").display().to_string(),
                _ => word,
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = world.command(&words);
        command.current_dir(&folder);
        // What asks has nobody to ask here, and says so; what differs or is gone is an answer, too.
        let ran = Ran::of(&mut command);
        let asks = ran.stderr.contains("no terminal to ask on");
        assert!(ran.code == 0 || (asks && ran.code == 2), "{example}: {}\n{}{}", ran.code, ran.stdout, ran.stderr);
        if example.starts_with("windlass init --yes") {
            // A decision to look at, which takes a failure.
            world.configure(IMPATIENT);
            world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
            world.create("1").expect(1);
            world.control("DELETE", "faults", "");
        }
        known.insert(if asks { "asks" } else { "done" }, example);
    }
    assert_eq!(known.len(), 2);
}
