//! The tutorial of docs/clusters.md, run as it stands: its files are written, its commands run, its output looked for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use windlass_test_guests::KEEP_NEW_NODES_FOR_INSPECTION;

use crate::support::{BINARY, Ran, World};

/// What the tutorial does, in order.
#[derive(Debug, PartialEq)]
enum Step {
    File { name: String, content: String },
    Command { line: String, output: Vec<String> },
}

/// `<!-- file: NAME -->` before a block makes it a file; in a console block, lines that begin with `$ ` are commands and the
/// others output.
fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    let mut file = None;
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->")) {
            file = Some(name.to_owned());
        }
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if let Some(name) = file.take() {
            steps.push(Step::File { name, content: block.join("\n") + "\n" });
        } else if language == "console" {
            for line in block {
                match (line.strip_prefix("$ "), steps.last_mut()) {
                    (Some(command), _) => steps.push(Step::Command { line: command.to_owned(), output: Vec::new() }),
                    (None, Some(Step::Command { output, .. })) => output.push(line.to_owned()),
                    (None, _) => panic!("output without a command: {line}"),
                }
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

fn run(folder: &Path, world: &World, environment: &[(String, String)], line: &str) -> Ran {
    let binaries = Path::new(BINARY).parent().unwrap().display().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env_clear();
    command.env("HOME", world.home.path()).env("PATH", format!("{binaries}:/usr/local/bin:/usr/bin:/bin"));
    command.envs(environment.iter().cloned());
    Ran::of(&mut command)
}

#[test]
fn the_tutorial_of_clusters_does_what_it_says() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clusters.md");
    let text = std::fs::read_to_string(document).unwrap();
    let begin = text.find("## Tutorial").expect("a tutorial");
    let end = text.find("## What a failure leads to").expect("the section after it");
    let world = World::new("100");
    // So that a step that fails is given up soon; the tutorial itself does not need it.
    let folder = world.home.path().join("empty-folder");
    std::fs::create_dir_all(folder.join("target/policies")).unwrap();
    KEEP_NEW_NODES_FOR_INSPECTION.write_to(folder.join("target/policies")).unwrap();
    let mut environment = Vec::new();
    let mut commands = 0;
    for step in steps(&text[begin..end]) {
        match step {
            Step::File { name, content } => {
                let file = folder.join(name);
                let mode = std::fs::metadata(&file).map_or(0o644, |known| known.permissions().mode());
                std::fs::write(&file, content).unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            // The test has a simulator already, and the policy is built.
            Step::Command { line, .. } if line.ends_with('&') || line.starts_with("cargo ") => {}
            Step::Command { line, .. } if line.starts_with("export ") => {
                let line = line.replace("http://127.0.0.1:8080", &world.url);
                let pairs = line.split_whitespace().skip(1).map(|pair| pair.split_once('=').unwrap());
                environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            Step::Command { line, output } => {
                let ran = run(&folder, &world, &environment, &line);
                let said = format!("{}{}", ran.stdout, ran.stderr);
                assert_eq!(ran.code, 0, "{line}\n{said}");
                for documented in output {
                    assert!(said.lines().any(|line| is_like(line, &documented)), "{line}\nlacks: {documented}\n{said}");
                }
                commands += 1;
            }
        }
    }
    assert!(commands >= 13, "only {commands} commands were found");
    assert_eq!(world.resources(), 0);
}

#[test]
fn a_documented_line_is_compared_whole_but_for_its_ellipses() {
    assert!(is_like("farm-1  web   running", "farm-1 web running"));
    assert!(is_like("a 17 b", "a … b") && is_like("a 17 b", "a…"));
    assert!(!is_like("a 17 b", "a") && !is_like("a 17 c", "a … b") && !is_like("x a", "a…"));
}

#[test]
fn files_commands_and_output_are_told_apart() {
    let text = "x\n<!-- file: f -->\n```sh\necho\n```\n```console\n$ one\nsays\n$ two\n```\n```toml\na = 1\n```\n";
    let command = |line: &str, output: &[&str]| Step::Command {
        line: line.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    let file = Step::File { name: "f".to_owned(), content: "echo\n".to_owned() };
    assert_eq!(steps(text), [file, command("one", &["says"]), command("two", &[])]);
}
