//! The program from outside: what it prints, and what it says before it touches anything.

#![allow(clippy::unwrap_used)]

mod pages;

use std::path::Path;
use std::process::{Command, Output, Stdio};

const KEY: &str = "22222222-2222-4222-8222-222222222222";

/// The program with credentials, a state directory and an API server that is not there; nothing of this machine gets
/// in.
fn controller(folder: &Path, arguments: &[&str]) -> Command {
    let kubeconfig = folder.join("kubeconfig");
    std::fs::write(
        &kubeconfig,
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
         clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: u, user: {token: t}}]\n",
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-controller"));
    command
        .env_clear()
        .env("HOME", folder)
        .env("SCW_SECRET_KEY", KEY)
        .env("SCW_DEFAULT_PROJECT_ID", "7d0e3a4c-0000-4000-8000-000000000001")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--state-dir={}", folder.join("state").display()))
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false"])
        .args(arguments);
    command
}

fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!said.contains(KEY), "the key is told: {said}");
    said
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_printed_definitions_are_the_committed_ones() {
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-controller")).env_clear().arg("crds").output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/crds");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name != "kustomization.yaml") {
            assert!(printed.contains(&std::fs::read_to_string(&path).unwrap()), "{}", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 11);
    assert_eq!(printed.matches("\nkind: CustomResourceDefinition\n").count(), count);
}

#[test]
fn missing_credentials_are_named_with_where_they_were_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = controller(folder.path(), &[]);
    command.env_remove("SCW_SECRET_KEY");
    let said = refused(&mut command);
    assert!(said.contains("SCW_SECRET_KEY"), "{said}");
    assert!(!folder.path().join("state").exists(), "something was touched");
}

#[test]
fn mistakes_in_the_configuration_are_told_with_place_and_remedy_before_anything_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(folder.path().join("text.wasm"), "no component").unwrap();
    for (text, parts) in [
        ("policies:\n  realese: {}\n", vec!["config.yaml", "did you mean `release`"]),
        ("polices: {}\n", vec!["config.yaml", "did you mean `policies`"]),
        ("policies: {release: {path: absent.wasm}}\n", vec!["policies.release", "absent.wasm"]),
        ("policies: {release: {path: text.wasm}}\n", vec!["policies.release", "text.wasm"]),
        (
            "policies: {release: {path: absent.wasm}, retry: [{path: gone.wasm}, {path: text.wasm}]}\n",
            vec!["policies.release", "absent.wasm", "policies.retry", "gone.wasm", "text.wasm"],
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = refused(&mut controller(folder.path(), &[&format!("--config={}", file.display())]));
        for part in parts {
            assert!(said.contains(part), "{text}: {said}");
        }
    }
    let said = refused(&mut controller(folder.path(), &["--config=/nowhere/config.yaml"]));
    assert!(said.contains("/nowhere/config.yaml"), "{said}");
}

#[test]
fn options_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (vec!["--pool-prefix=pool"], "dash"),
        (vec!["--kubeconfig=/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        (vec!["--api-url=ftp://example.org"], "api-url"),
        (vec![], "--owner"),
    ] {
        let said = refused(&mut controller(folder.path(), &arguments));
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}

#[test]
fn a_broken_kubeconfig_is_told_in_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "a: [1\nb: 2\n").unwrap();
    let said = refused(&mut controller(folder.path(), &[&format!("--kubeconfig={}", broken.display())]));
    let line = said.lines().find(|line| line.contains("failed to parse kubeconfig YAML")).unwrap();
    assert!(line.contains("broken: ") && line.contains("name a kubeconfig by --kubeconfig"), "{said}");
}

#[test]
fn approvals_name_an_api_server_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    drop(controller(folder.path(), &[]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-controller"));
    let kubeconfig = folder.path().join("kubeconfig");
    let output = command.env_clear().arg("approvals").arg("--kubeconfig").arg(kubeconfig).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["the API server http://127.0.0.1:9/ cannot be reached", "--kubeconfig or KUBECONFIG"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is_told() {
    for arguments in [&["crds"][..], &["--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-controller"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.env_clear().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", said(&output));
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("cannot be written to stdout"), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_command_that_looks_names_itself_where_there_is_no_state_directory() {
    for command in ["decisions", "operations", "policies"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_windlass-controller"));
        let said = refused(program.env_clear().args([command, "--state-dir=/nowhere"]));
        assert!(said.contains(&format!("-- windlass-controller {command}")), "{said}");
    }
}
