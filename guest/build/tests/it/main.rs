//! The command as a policy author meets it.

use std::process::{Command, Output};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-guest-build"));
    command.args(arguments);
    command
}

fn run(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("cargo has built the command");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_missing_target_is_named_with_the_command_that_adds_it() {
    let mut without_target = command(&["--out", "unused", "some-policy"]);
    // A compiler that knows no folder for the target.
    without_target.env("RUSTC", "echo");
    let (code, words) = run(without_target);
    assert_eq!(code, Some(1));
    assert!(words.contains("rustup target add wasm32-unknown-unknown"), "{words}");
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let mut without_compiler = command(&["--out", "unused", "some-policy"]);
    without_compiler.env("RUSTC", "/nowhere/rustc");
    let (code, words) = run(without_compiler);
    assert_eq!(code, Some(1));
    assert!(words.contains("cannot run /nowhere/rustc"), "{words}");
}

#[test]
fn wrong_usage_changes_nothing_and_shows_the_right_one() {
    for arguments in [&[][..], &["--out", "x"], &["policy"], &["--optimise", "policy"]] {
        let (code, words) = run(command(arguments));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert!(words.contains("usage: windlass-guest-build --out DIR PACKAGE..."), "{words}");
    }
}
