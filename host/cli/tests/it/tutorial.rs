//! The pages of the documentation, run as they stand: files are written, commands run, and their output is looked for.
//!
//! What a page has to say to this test stands in comments before its blocks, which no reader sees:
//! `<!-- file: NAME -->` makes the block a file; `<!-- typed: TEXT -->` has the last command run at a terminal, and
//! TEXT typed there; `<!-- stands for: WORD = COMMAND -->` has WORD mean the first line that COMMAND prints, from there
//! on; `<!-- not run: WHY -->` leaves the block out. Nothing is run that a reader does not see.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_test_guests::{
    GRACE_FOR_STOPPED, KEEP_UNTIL, KEEP_VOLUMES_FOR_INSPECTION, MAXIMUM_AGE, NAMESPACE_BUDGET, STOCK_AWARE_RETRY,
};

use crate::distribution::{OTHERS, Registry};
use crate::support::{BINARY, IMPATIENT, Ran, Running, World, cargo_environment, skipped, write_runnable};

/// What a page does, in order.
#[derive(Debug, PartialEq)]
enum Step {
    File {
        name: String,
        content: String,
    },
    /// `typed`: at a terminal, where this answers whatever is asked.
    Command {
        line: String,
        output: Vec<String>,
        typed: Option<String>,
    },
    StandsFor {
        word: String,
        command: String,
    },
}

/// In a console block, lines that begin with `$ ` are commands and the others output, but for what a backslash
/// continues.
fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    let (mut file, mut typed, mut is_run) = (None, None, true);
    while let Some(line) = lines.next() {
        let comment = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        match comment.and_then(|comment| comment.split_once(": ")) {
            Some(("file", name)) => file = Some(name.to_owned()),
            Some(("typed", text)) => typed = Some(text.to_owned()),
            Some(("stands for", text)) => {
                let (word, command) = text.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
                steps.push(Step::StandsFor { word: word.to_owned(), command: command.to_owned() });
            }
            Some(("not run", _)) => is_run = false,
            _ => {}
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let is_run = std::mem::replace(&mut is_run, true);
        if let Some(name) = file.take() {
            steps.push(Step::File { name, content: block.join("\n") + "\n" });
        } else if language == "console" && is_run {
            for line in block {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    // A command goes on after a backslash, as in a shell.
                    (None, Some(Step::Command { line: command, .. })) if command.ends_with('\\') => {
                        command.push('\n');
                        command.push_str(line);
                    }
                    (Some(command), _) => {
                        steps.push(Step::Command { line: command.to_owned(), output: Vec::new(), typed: None });
                    }
                    (None, Some(Step::Command { output, .. })) => output.push(line.to_owned()),
                    (None, _) => panic!("output without a command: {line}"),
                }
            }
            if let Some(Step::Command { typed: answer, .. }) = steps.last_mut() {
                *answer = typed.take();
            }
        }
    }
    steps
}

/// Whether a line is as the documentation has it; `…` stands for anything, and so do spaces of a table for spaces.
fn is_like(line: &str, documented: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = squeezed(line);
    let documented = squeezed(documented);
    let mut parts = documented.split('…').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

/// A world, and a folder in it to run commands in.
struct Reader {
    world: World,
    folder: PathBuf,
    environment: Vec<(String, String)>,
    /// What stands in a page for something that is different each time, and the command that tells what it is now.
    stand_ins: Vec<(String, String)>,
}

impl Reader {
    fn new() -> Reader {
        Reader::of(World::without_state("100"))
    }

    fn of(world: World) -> Reader {
        let folder = world.home.path().join("empty-folder");
        std::fs::create_dir_all(&folder).unwrap();
        Reader { world, folder, environment: Vec::new(), stand_ins: Vec::new() }
    }

    fn export(&mut self, line: &str) {
        let line = line.replace("http://127.0.0.1:8080", &self.world.url);
        let pairs = line.split_whitespace().skip(1).map(|pair| pair.split_once('=').unwrap());
        self.environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    fn command(&self, line: &str) -> Command {
        let binaries = Path::new(BINARY).parent().unwrap().display().to_string();
        let mut command = Command::new("sh");
        // Its progress would stand in the middle of what it prints.
        let line = line.replace("curl ", "curl --silent --show-error ");
        command.args(["-c", &line]).current_dir(&self.folder).env_clear();
        command.env("HOME", self.world.home.path()).env("PATH", format!("{binaries}:/usr/local/bin:/usr/bin:/bin"));
        command.envs(self.environment.iter().cloned()).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str, typed: Option<&str>) -> Ran {
        let mut command = self.command(line);
        let Some(typed) = typed else { return Ran::of(&mut command) };
        let (running, mut keyboard) = Running::at_terminal(command);
        running.until_it_says("[y/N]");
        keyboard.types(&format!("{typed}\n"));
        running.end()
    }

    /// A line of a page with what its stand-ins stand for now.
    fn meant(&self, line: &str) -> String {
        let mut meant = line.replace("127.0.0.1:8080", self.world.url.strip_prefix("http://").unwrap());
        for (word, command) in self.stand_ins.iter().filter(|(word, _)| line.contains(word)) {
            let ran = self.run(command, None);
            let is = ran.stdout.lines().next().unwrap_or_else(|| panic!("{command} says nothing: {}", ran.stderr));
            meant = meant.replace(word, is);
        }
        meant
    }

    /// Does what a text says, and gives the number of its commands.
    fn follow(&mut self, text: &str) -> usize {
        let mut commands = 0;
        let mut last_code = 0;
        for step in steps(text) {
            match step {
                Step::File { name, content } => {
                    write_runnable(&self.folder.join(name), &self.meant(&content));
                }
                Step::StandsFor { word, command } => {
                    self.stand_ins.retain(|(known, _)| *known != word);
                    self.stand_ins.push((word, command));
                }
                // The test has a simulator already, and the policy is built.
                Step::Command { line, .. } if line.ends_with('&') || line.starts_with("cargo ") => {}
                Step::Command { line, .. } if line.starts_with("export ") => self.export(&line),
                Step::Command { line, output, .. } if line == "echo $?" => {
                    assert_eq!(output, [last_code.to_string()]);
                    commands += 1;
                }
                Step::Command { line, output, typed } => {
                    let ran = self.run(&self.meant(&line), typed.as_deref());
                    let said = format!("{}{}", ran.stdout, ran.stderr);
                    // What is answered with a no ends with it.
                    let fails = output.iter().any(|line| line.starts_with("error: ")) && !line.contains("||");
                    assert_eq!(ran.code != 0, fails, "{line}\n{said}");
                    for documented in output {
                        let documented = self.meant(&documented);
                        let is_said = said.lines().any(|line| is_like(line, &documented));
                        assert!(is_said, "{line}\nlacks: {documented}\n{said}");
                    }
                    last_code = ran.code;
                    commands += 1;
                }
            }
        }
        commands
    }
}

/// The parts of pages that tests of this file follow: from the first text up to the second, or to the end.
const FOLLOWED: [(&str, &str, &str); 22] = [
    ("README.md", "## Use it", "### Guides"),
    ("docs/clusters.md", "## Tutorial", "## What happens after a failure"),
    ("docs/decisions.md", "# What is decided", ""),
    ("docs/distributing-policies.md", "# Distributing policies", "## Sign with cosign"),
    ("docs/distributing-policies.md", "## Sign with cosign", ""),
    ("docs/operating.md", "## Create a configuration", "## Check your setup"),
    ("docs/operating.md", "## Check your setup", "## Provide credentials"),
    ("docs/operating.md", "## Create, list and delete servers", "### Confirm a deletion"),
    ("docs/operating.md", "### Confirm a deletion", "## Configuration"),
    ("docs/operating.md", "## Configuration", "## Output"),
    ("docs/operating.md", "## Output", "<!-- end -->"),
    ("docs/operations.md", "# Operations", ""),
    ("docs/policies-to-production.md", "# From a laptop to production", ""),
    ("docs/policy-server.md", "# Policies for programs", "## Control access"),
    ("docs/proving-policies.md", "# Proving policies", "<!-- end -->"),
    ("docs/ready-made-policies.md", "# Ready-made policies", ""),
    ("docs/rules.md", "# Rules", "## Conditions"),
    ("docs/simulator.md", "# The simulator", ""),
    ("docs/console.md", "# The console", ""),
    ("docs/writing-policies.md", "## From nothing", "## Write the same policy in Rust"),
    ("docs/writing-policies.md", "## Write the same policy in Rust", "### A policy in ten lines"),
    ("docs/writing-policies.md", "## Inspect, check and run a policy", ""),
];

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// One of the parts that are followed, by its page and where it begins.
fn part(name: &str, begin: &str) -> String {
    let followed = FOLLOWED.iter().find(|part| part.0 == name && part.1 == begin);
    let (_, _, end) = followed.unwrap_or_else(|| panic!("{name} from {begin} on is not among the followed"));
    let text = page(name);
    let begin = text.find(begin).unwrap_or_else(|| panic!("{name} lacks {begin}"));
    let text = &text[begin..];
    let end = if end.is_empty() { text.len() } else { text.find(end).unwrap_or_else(|| panic!("{name} lacks {end}")) };
    text[..end].to_owned()
}

#[test]
fn every_command_of_every_page_is_run_or_says_why_it_is_not() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = pages.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let commands = |text: &str| steps(text).iter().filter(|step| matches!(step, Step::Command { .. })).count();
    for name in pages.chain(["README.md".to_owned()]) {
        let parts = FOLLOWED.iter().filter(|part| part.0 == name).map(|(name, begin, _)| part(name, begin));
        assert_eq!(parts.map(|part| commands(&part)).sum::<usize>(), commands(&page(&name)), "{name}");
    }
}

#[test]
fn the_tutorial_of_clusters_does_what_it_says() {
    let mut reader = Reader::new();
    let commands = reader.follow(&part("docs/clusters.md", "## Tutorial"));
    assert!(commands >= 13, "only {commands} commands were found");
    assert_eq!(reader.world.resources(), 0);
}

/// The page of `tests/transcripts` that shows a whole life, and no failure of ours.
const WALK: &str = "from-init-to-terminate.md";

#[test]
fn a_cluster_goes_from_init_to_terminate_as_recorded() {
    let mut reader = Reader::new();
    reader.export(CREDENTIALS);
    reader.environment.retain(|(name, _)| name != "SCW_DEFAULT_ZONE");
    let walk = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(WALK);
    assert_eq!(reader.follow(&std::fs::read_to_string(walk).unwrap()), 21);
    assert_eq!(reader.world.resources(), 0);
}

/// `tests/transcripts`: what once failed, as it was, and as it is now. The second part of each is run.
#[test]
fn what_once_failed_is_as_its_transcript_says_now() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| !page.ends_with(WALK));
    pages.sort();
    assert!(pages.len() >= 7, "{pages:?}");
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        let now = text.find("## Now").unwrap_or_else(|| panic!("{} has no part Now", page.display()));
        let world = World::new("100");
        world.configure(IMPATIENT);
        let mut reader = Reader::of(world);
        reader.export(CREDENTIALS);
        println!("{}", page.display());
        assert!(reader.follow(&text[now..]) >= 3, "{}", page.display());
        assert_eq!(reader.world.resources(), 0, "{}", page.display());
    }
}

const CREDENTIALS: &str = "export SCW_API_URL=http://127.0.0.1:8080 \
    SCW_SECRET_KEY=11111111-1111-4111-8111-111111111111 \
    SCW_DEFAULT_PROJECT_ID=22222222-2222-4222-8222-222222222222 SCW_DEFAULT_ZONE=fr-par-1";

#[test]
fn the_tutorial_of_policies_does_what_it_says_with_rules() {
    let mut reader = Reader::of(World::new("100"));
    let commands = reader.follow(&part("docs/writing-policies.md", "## From nothing"));
    assert!(commands >= 12, "only {commands} commands were found");
    assert_eq!(reader.world.resources(), 0);
}

#[test]
fn the_tutorial_of_policies_does_what_it_says_in_rust() {
    let mut reader = Reader::of(World::new("100"));
    reader.environment = cargo_environment();
    let commands = reader.follow(&part("docs/writing-policies.md", "## Write the same policy in Rust"));
    assert!(commands >= 5, "only {commands} commands were found");
    // What is tested is what is in the folder now, not what was built last.
    let file = reader.folder.join("patient/src/lib.rs");
    let source = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, source.replace("60_000", "61_000")).unwrap();
    let results = reader.run("windlass policy test --output json patient", None).expect(1).json();
    assert_eq!(results["failed"], 1, "{results}");
    let built = reader.run("windlass policy build --output json patient", None).expect(0).json();
    assert_eq!(built["package"], "patient");
    std::fs::write(&file, source.replace("Answer::defer()", "Answer::deffer()")).unwrap();
    let built =
        Ran::of(reader.command("windlass policy build --output json").current_dir(reader.folder.join("patient")));
    built.expect(1).says("does not compile").says("deffer");
}

#[test]
fn the_page_about_rules_does_what_it_says() {
    let mut reader = Reader::new();
    assert_eq!(reader.follow(&part("docs/rules.md", "# Rules")), 3);
    std::fs::write(reader.folder.join("wrong.rules.toml"), WRONG_RULES).unwrap();
    let line = "line 4, rule 1: `when`: there is no case 'out_of_stock'; did you mean `out-of-stock`?";
    for command in ["check", "inspect"] {
        let ran = reader.run(&format!("windlass policy {command} wrong.rules.toml"), None);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(line), "{command}: {said}");
        assert_eq!(ran.code, if command == "check" { 2 } else { 0 }, "{said}");
    }
}

/// A case with an underscore.
const WRONG_RULES: &str = r#"
slot = "retry"
[[rules]]
when = "failure.class == 'out_of_stock'"
answer = "give-up"
"#;

#[test]
fn operating_does_what_it_says_of_the_doctor_and_of_questions() {
    let mut reader = Reader::new();
    reader.export(CREDENTIALS);
    assert_eq!(reader.follow(&part("docs/operating.md", "## Check your setup")), 1);
    assert_eq!(reader.follow(&part("docs/operating.md", "## Create a configuration")), 2);
    assert_eq!(reader.follow(&part("docs/operating.md", "## Output")), 6);
    let asked = part("docs/operating.md", "### Confirm a deletion");
    assert_eq!(reader.follow(&asked), 5);
    assert_eq!(reader.world.resources(), 0);
}

/// A reader with credentials and policies at hand that give up soon.
fn impatient() -> Reader {
    let world = World::new("100");
    world.configure(IMPATIENT);
    let mut reader = Reader::of(world);
    reader.export(CREDENTIALS);
    let policies = reader.folder.join("target/policies");
    std::fs::create_dir_all(&policies).unwrap();
    for guest in [GRACE_FOR_STOPPED, KEEP_VOLUMES_FOR_INSPECTION, STOCK_AWARE_RETRY] {
        guest.write_to(&policies).unwrap();
    }
    reader
}

#[test]
fn operating_does_what_it_says_of_servers_and_of_what_fails() {
    let mut reader = impatient();
    assert_eq!(reader.follow(&part("docs/operating.md", "## Create, list and delete servers")), 9);
    assert_eq!(reader.world.resources(), 0);
    assert_eq!(reader.follow(&part("docs/operations.md", "# Operations")), 12);
    assert_eq!(reader.follow(&part("docs/operating.md", "## Configuration")), 3);
}

#[test]
fn the_page_about_decisions_does_what_it_says() {
    assert_eq!(impatient().follow(&part("docs/decisions.md", "# What is decided")), 15);
}

#[test]
fn the_page_about_the_simulator_does_what_it_says() {
    assert_eq!(impatient().follow(&part("docs/simulator.md", "# The simulator")), 18);
}

#[test]
fn the_page_about_the_console_does_what_it_says() {
    assert_eq!(impatient().follow(&part("docs/console.md", "# The console")), 3);
}

#[test]
fn the_page_about_the_policy_server_does_what_it_says() {
    let mut reader = impatient();
    let text = part("docs/policy-server.md", "# Policies for programs");
    let (files, serve) = text.split_once("```console\n").unwrap();
    let (serve, rest) = serve.split_once("```").unwrap();
    assert_eq!(reader.follow(files), 0);
    let (line, says) = serve.split_once('\n').unwrap();
    let line = line.strip_prefix("$ ").and_then(|line| line.strip_suffix(" &")).unwrap();
    let serving = Running::start(&mut reader.command(&format!("exec {line}")));
    assert_eq!(serving.first_line(), says.trim());
    assert_eq!(reader.follow(rest), 1);
    serving.signal("TERM");
    serving.end().expect(0);
}

#[test]
fn the_readme_does_what_it_says() {
    assert_eq!(impatient().follow(&part("README.md", "## Use it")), 9);
}

#[test]
fn policies_are_looked_at_and_put_in_place_as_the_page_says() {
    let mut reader = impatient();
    let question = "windlass decision show $(windlass decision list --slot retry -o name | head -n 1) --raw";
    reader.world.fault("POST", "/instance/v1/zones/*/servers/*/action", "internal-server-error");
    reader.run("windlass server create --group ci --type DEV1-S --image ubuntu_noble", None);
    reader.world.control("DELETE", "faults", "");
    let record: serde_json::Value = serde_json::from_str(&reader.run(question, None).expect(0).stdout).unwrap();
    std::fs::write(reader.folder.join("question.json"), record["question"].to_string()).unwrap();
    assert_eq!(reader.follow(&part("docs/writing-policies.md", "## Inspect, check and run a policy")), 8);
}

#[test]
fn distributing_policies_does_what_it_says() {
    let Some(registry) = Registry::start(&[]) else { return };
    if Command::new("minisign").arg("-v").output().is_err() {
        skipped("minisign is not installed");
        return;
    }
    let mut reader = Reader::new();
    reader.export(CREDENTIALS);
    std::fs::write(reader.folder.join("registry"), &registry.address).unwrap();
    reader.stand_ins.push(("registry.example".to_owned(), "cat registry".to_owned()));
    assert_eq!(reader.follow(&part("docs/distributing-policies.md", "# Distributing policies")), 8);
}

#[test]
fn signing_with_cosign_is_as_the_page_says() {
    let Some((registry, programs)) = Registry::start(&[]).zip(OTHERS.as_ref()) else { return };
    let mut reader = Reader::new();
    reader.export(CREDENTIALS);
    let usual = format!("{}:{}:/usr/bin:/bin", programs.display(), Path::new(BINARY).parent().unwrap().display());
    // Whatever cosign would ask the world is asked of nobody.
    for (name, value) in [("PATH", &*usual), ("COSIGN_PASSWORD", ""), ("HTTPS_PROXY", "http://127.0.0.1:9")] {
        reader.environment.push((name.to_owned(), value.to_owned()));
    }
    std::fs::write(reader.folder.join("registry"), &registry.address).unwrap();
    std::fs::write(reader.folder.join("patience.rules.toml"), PATIENCE).unwrap();
    reader.stand_ins.push(("registry.example".to_owned(), "cat registry".to_owned()));
    assert_eq!(reader.follow(&part("docs/distributing-policies.md", "## Sign with cosign")), 7);
}

const PATIENCE: &str =
    "slot = \"retry\"\n\n[[rules]]\nname = \"stock\"\nwhen = \"attempt < 20\"\nanswer = { wait = 60000 }\n";

#[test]
fn a_policy_goes_from_a_laptop_to_production_and_back() {
    let Some(registry) = Registry::start(&[]) else { return };
    if Command::new("minisign").arg("-v").output().is_err() {
        skipped("minisign is not installed");
        return;
    }
    let mut reader = Reader::of(World::new("100"));
    reader.export(CREDENTIALS);
    std::fs::write(reader.folder.join("registry"), &registry.address).unwrap();
    reader.stand_ins.push(("registry.example".to_owned(), "cat registry".to_owned()));
    let commands = reader.follow(&part("docs/policies-to-production.md", "# From a laptop to production"));
    assert_eq!(commands, 24);
}

#[test]
fn proving_policies_does_what_it_says() {
    let mut reader = Reader::new();
    let commands = reader.follow(&part("docs/proving-policies.md", "# Proving policies"));
    assert!(commands >= 8, "only {commands} commands were found");
}

#[test]
fn ready_made_policies_do_what_the_page_says() {
    let mut reader = Reader::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::os::unix::fs::symlink(root.join("guest"), reader.folder.join("guest")).unwrap();
    let policies = reader.folder.join("target/policies");
    std::fs::create_dir_all(&policies).unwrap();
    for guest in [KEEP_UNTIL, MAXIMUM_AGE, NAMESPACE_BUDGET] {
        guest.write_to(&policies).unwrap();
    }
    assert_eq!(reader.follow(&part("docs/ready-made-policies.md", "# Ready-made policies")), 16);
}

#[test]
fn a_documented_line_is_compared_whole_but_for_its_ellipses() {
    assert!(is_like("farm-1  web   running", "farm-1 web running"));
    assert!(is_like("a 17 b", "a … b") && is_like("a 17 b", "a…"));
    assert!(!is_like("a 17 b", "a") && !is_like("a 17 c", "a … b") && !is_like("x a", "a…"));
}

#[test]
fn files_commands_and_output_are_told_apart() {
    let text =
        "x\n<!-- file: f -->\n```sh\necho\n```\n```console\n$ one\nsays\n$ two \\\n  more\n```\n```toml\na = 1\n```\n";
    let command = |line: &str, output: &[&str]| Step::Command {
        line: line.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
        typed: None,
    };
    let file = Step::File { name: "f".to_owned(), content: "echo\n".to_owned() };
    assert_eq!(steps(text), [file, command("one", &["says"]), command("two \\\n  more", &[])]);
}
