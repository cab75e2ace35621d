//! How each command that changes something ends, whatever state it finds: the exit code and what it lists as left have
//! to agree with what is there.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use crate::support::{IMPATIENT, Ran, STATE, World};

const FARM: &str = "
name = 'farm'
zone = 'fr-par-1'

[groups.web]
count = 1
types = ['DEV1-S']
image = 'ubuntu_noble'
";

/// In this order: what a command makes is in the way of those before it only.
const COMMANDS: [&[&str]; 17] = [
    &["server", "delete", "--group", "ci", "--yes"],
    &["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"],
    &["server", "delete", "SERVER", "--yes"],
    &["sweep", "--yes"],
    &["operation", "resume"],
    &["operation", "cancel", "OPERATION"],
    &["cluster", "create", "other.toml"],
    &["cluster", "scale", "farm", "web=2", "--yes"],
    &["cluster", "terminate", "farm", "--yes"],
    &["cluster", "cancel", "farm"],
    &["cluster", "abandon", "farm", "--yes"],
    &["operation", "abandon", "OPERATION", "--yes"],
    &["cluster", "replace", "farm", "farm-web-1", "--yes"],
    &["cluster", "refresh", "farm"],
    &["cluster", "resume"],
    &["cluster", "apply", "farm.toml", "--yes"],
    &["state", "take-over", "--yes"],
];

/// What changes neither the account nor the journal, or, like `demo`, works on an account of its own.
const OTHERS: [&str; 61] = [
    "version",
    "example",
    "type list",
    "image list",
    "zone list",
    "completions",
    "conformance",
    "console",
    "demo",
    "doctor",
    "init",
    "man",
    "rehearse",
    "rehearse import",
    "rehearse record",
    "rehearse schema",
    "rehearse tune",
    "report",
    "simulator",
    "cluster attach",
    "cluster diff",
    "cluster export",
    "cluster history",
    "cluster list",
    "cluster status",
    "cluster validate",
    "cluster watch",
    "config show",
    "decision list",
    "decision replay",
    "decision show",
    "operation attach",
    "operation list",
    "operation show",
    "operation watch",
    "policy audit",
    "policy bench",
    "policy build",
    "policy check",
    "policy diff",
    "policy inspect",
    "policy list",
    "policy lock",
    "policy new",
    "policy prove",
    "policy pull",
    "policy push",
    "policy run",
    "policy schema",
    "policy serve",
    "policy shadow",
    "policy sign",
    "policy status",
    "policy test",
    "policy verify",
    "server list",
    "server show",
    "state downgrade",
    "state hosts",
    "state migrate",
    "state show",
];

/// What is in a command's way.
#[derive(Clone, Copy, Debug)]
enum Circumstance {
    /// What it names does not exist, in a state directory that knows nothing.
    Unknown,
    /// The state directory is a copy.
    Copied,
    /// No credentials are configured.
    WithoutKey,
    /// Each call to Scaleway is forbidden.
    Forbidden,
}

/// A world with a server, a cluster of one node, and an operation that left an address behind.
fn world() -> (World, String, String) {
    let world = World::new("1000");
    world.configure(IMPATIENT);
    world.write("farm.toml", FARM.as_bytes());
    world.write("other.toml", FARM.replace("farm", "other").as_bytes());
    let server = world.create("1").expect(0).json()["servers"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run(&world, &["cluster", "create", "farm.toml"], |_| {}), 0);
    world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    world.fault("DELETE", "/instance/v1/zones/*/ips/*", "internal-server-error");
    let left = world.create("1").expect(3).json()["failures"][0]["operation"].as_str().unwrap().to_owned();
    world.control("DELETE", "faults", "");
    (world, server, left)
}

/// The command for this server and this operation.
fn words<'w>(command: &[&'w str], server: &'w str, operation: &'w str) -> Vec<&'w str> {
    let word = |word: &&'w str| match *word {
        "SERVER" => server,
        "OPERATION" => operation,
        word => word,
    };
    command.iter().map(word).collect()
}

fn run(world: &World, words: &[&str], prepare: impl Fn(&mut Command)) -> i32 {
    let mut command = world.command(words);
    command.current_dir(world.home.path());
    prepare(&mut command);
    let ran = Ran::of(&mut command);
    assert!(!ran.stderr.contains("LEFT") || ran.code == 3, "{words:?}: {} and {}", ran.code, ran.stderr);
    if std::env::var_os("WINDLASS_TELL").is_some() {
        println!("== {words:?}: {}\n{}{}", ran.code, ran.stdout, ran.stderr);
    }
    ran.code
}

/// Once and once more, with nothing in its way; and then where nobody can be told.
fn thrice(command: &[&str]) -> [i32; 3] {
    let (world, server, operation) = world();
    let words = words(command, &server, &operation);
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let untold = |world: &World| {
        let mut command = world.command(&words);
        command.current_dir(world.home.path()).stdout(full()).stderr(Stdio::null()).status().unwrap().code().unwrap()
    };
    [run(&world, &words, |_| {}), run(&world, &words, |_| {}), untold(&world)]
}

/// All commands, with this in their way: nothing changes, so one world serves all.
fn all_in(circumstance: Circumstance) -> Vec<i32> {
    let (world, server, operation) = world();
    let before = world.resources();
    let elsewhere = world.home.path().join("elsewhere");
    match circumstance {
        Circumstance::Unknown | Circumstance::WithoutKey => {}
        Circumstance::Copied => {
            let state = world.home.path().join(STATE);
            assert!(Command::new("cp").arg("-a").arg(&state).arg(&elsewhere).status().unwrap().success());
        }
        Circumstance::Forbidden => {
            for method in ["GET", "POST", "PATCH", "PUT", "DELETE"] {
                world.fault(method, "/**", "permission-denied");
            }
        }
    }
    let codes = COMMANDS.map(|command| {
        run(&world, &words(command, &server, &operation), |command| match circumstance {
            Circumstance::Unknown | Circumstance::Copied => drop(command.arg("--state-dir").arg(&elsewhere)),
            Circumstance::WithoutKey => drop(command.env_remove("SCW_SECRET_KEY")),
            Circumstance::Forbidden => {}
        })
    });
    let made = if matches!(circumstance, Circumstance::Unknown) { 9 } else { 0 };
    assert_eq!(world.resources(), before + made, "{circumstance:?}");
    codes.to_vec()
}

#[test]
fn every_command_that_changes_something_ends_as_the_table_says() {
    use Circumstance::{Copied, Forbidden, Unknown, WithoutKey};
    // Each world is mostly waited for.
    let (unhindered, hindered) = std::thread::scope(|threads| {
        let unhindered = COMMANDS.map(|command| threads.spawn(|| thrice(command)));
        let hindered = [Unknown, Copied, WithoutKey, Forbidden].map(|way| threads.spawn(move || all_in(way)));
        (unhindered.map(|ended| ended.join().unwrap()), hindered.map(|ended| ended.join().unwrap()))
    });
    let mut table = String::new();
    for (position, command) in COMMANDS.iter().enumerate() {
        let words = match command {
            ["sweep", ..] => 1,
            ["server", "delete", "--group", ..] => 3,
            _ => 2,
        };
        let name = command[..words].join(" ");
        let codes = unhindered[position].into_iter().chain(hindered.iter().map(|codes| codes[position]));
        let codes: String = codes.map(|code| format!("{code:>4}")).collect();
        let _ = writeln!(table, "{name:<21}{codes}");
    }
    assert_eq!(table, TABLE, "{table}");
}

#[test]
fn every_command_stands_in_the_table_or_changes_nothing() {
    let reference = include_str!("../../../../docs/commands.md");
    let commands = reference.lines().filter_map(|line| line.strip_prefix("## `windlass ")?.strip_suffix('`'));
    let commands: Vec<&str> = commands.collect();
    for command in &commands {
        let is_group = commands.iter().any(|other| other.starts_with(&format!("{command} ")));
        let is_known = COMMANDS.iter().any(|known| known[0] == *command || known[..2].join(" ") == *command)
            || OTHERS.contains(command);
        assert!(is_group || is_known, "{command}: add it to COMMANDS, or to OTHERS where it changes nothing");
    }
}

/// The codes of each command: with nothing in its way, once more, once more where stdout is full, where nothing is
/// known, on a copy, without a key, where all calls are forbidden.
const TABLE: &str = "\
server delete --group   0   0   4   0   2   2   3
server create           0   0   4   0   2   2   1
server delete           0   0   4   1   2   2   3
sweep                   0   0   4   0   2   2   1
operation resume        0   0   4   0   2   2   3
operation cancel        3   3   3   1   2   2   3
cluster create          0   2   2   0   2   2   1
cluster scale           0   0   4   1   2   2   1
cluster terminate       0   0   4   1   2   2   3
cluster cancel          0   0   4   1   2   0   0
cluster abandon         0   0   4   1   2   2   0
operation abandon       0   0   4   1   2   2   0
cluster replace         0   1   1   1   2   2   2
cluster refresh         0   0   4   1   0   2   0
cluster resume          0   0   4   0   2   2   0
cluster apply           0   0   4   0   2   2   2
state take-over         0   0   4   0   0   0   0
";
