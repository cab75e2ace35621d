//! The two programs, run as processes: the second against a simulated Scaleway.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use windlass_simulator::{Options, Simulator};

const ASK: &str = "ask_a_policy";
const CREATE: &str = "create_a_server";
/// What an example is to fit into.
const MAX_LINES: usize = 20;

fn in_the_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn source(example: &str) -> String {
    let path = in_the_crate(&format!("examples/{example}.rs"));
    std::fs::read_to_string(path).expect("the example is there")
}

/// The example in this folder, without anything of this process's environment. `cargo test` builds it beside the tests.
fn command(example: &str, folder: &Path) -> Command {
    let test = std::env::current_exe().expect("a test has a path");
    let built = test.parent().and_then(Path::parent).expect("tests lie in the folder deps").join("examples");
    let mut command = Command::new(built.join(example));
    command.env_clear().current_dir(folder);
    command
}

fn run(mut command: Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().expect("`cargo test` builds the examples");
    (status.success(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

#[test]
fn a_policy_is_asked_by_the_example() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (success, said) = run(command(ASK, folder.path()));
    assert!(success && said.starts_with("Wait(") && said.contains("decided by windlass-guest-retry 0.1.0"), "{said}");
}

#[test]
fn a_file_that_is_no_policy_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("patience.wasm"), "no policy").expect("the folder can be written");
    let mut command = command(ASK, folder.path());
    command.arg("patience.wasm");
    let (success, said) = run(command);
    assert!(!success && said.contains("patience.wasm"), "{said}");
}

#[test]
fn a_server_is_created_by_the_example() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let simulator = Simulator::new(Options { time_scale: 100.0, ..Options::default() });
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let served = simulator.clone();
    runtime.spawn(async move { served.serve(listener).await });

    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = command(CREATE, folder.path());
    command.env("SCW_API_URL", format!("http://{address}"));
    command.env("SCW_SECRET_KEY", "11111111-1111-4111-8111-111111111111");
    command.env("SCW_DEFAULT_PROJECT_ID", "22222222-2222-4222-8222-222222222222");
    command.env("SCW_DEFAULT_ZONE", "fr-par-1");
    let (success, said) = run(command);
    let servers = simulator.resources().servers;
    assert!(success && servers.len() == 1, "{said}");
    let id = servers[0]["id"].as_str().expect("a server has an id");
    assert!(said.starts_with(&format!("{id} runs; its operation is web-")), "{said}");
    assert_eq!(servers[0]["state"], "running", "{said}");
}

#[test]
fn an_example_fits_into_twenty_lines() {
    for example in [ASK, CREATE] {
        let source = source(example);
        let body = source.lines().skip_while(|line| !line.contains("fn main")).skip(1).take_while(|line| *line != "}");
        assert!(body.count() <= MAX_LINES, "{example}");
    }
}

#[test]
fn the_guide_shows_the_examples_as_they_are() {
    let guide = std::fs::read_to_string(in_the_crate("../../docs/embedding.md")).expect("the guide is there");
    for example in [ASK, CREATE] {
        assert!(guide.contains(&format!("```rust\n{}```", source(example))), "{example} differs from the guide");
    }
}
