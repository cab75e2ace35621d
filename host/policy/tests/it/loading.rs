//! What is refused when it is loaded, and what it is told: DESIGN section 8, row by row.

use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FileType, Mode};
use serde_json::json;
use windlass_policy::slots::{Retry, Slot, SlotName, retry};
use windlass_policy::{DecidedBy, Link, Policies};

use crate::guests::{Guest, IMPORT_DOUBLE, IMPORT_LOG};
use crate::support::{State, run};

/// Configures this link for `retry`, expects a refusal, and that the version in use stays.
fn refusal(link: Link) -> String {
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(42).component()))).unwrap();
    let before = host.pin().identities();
    let error = host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err();
    assert_eq!(host.pin().identities(), before, "the version in use stays");
    error.to_string()
}

#[track_caller]
fn says(error: &str, words: &[&str]) {
    for words in words {
        assert!(error.contains(words), "`{words}` is missing in: {error}");
    }
}

#[test]
fn a_file_that_is_no_component_is_named_for_what_it_is() {
    says(
        &refusal(Link::bytes(Guest::waiting(1).core())),
        &["policies.retry: cannot use", "a core WebAssembly module", "windlass policy build"],
    );
    says(&refusal(Link::bytes(&b"#!/bin/sh"[..])), &["it is text", "is `path` the right file?"]);
    let folder = tempfile::tempdir().unwrap();
    says(&refusal(Link::file(folder.path().join("none.wasm"))), &["none.wasm", "cannot read it", "No such file"]);
}

#[test]
fn all_policies_that_cannot_be_used_are_named_at_once() {
    let (state, folder) = (State::new(), tempfile::tempdir().unwrap());
    let link = |name: &str| Link::file(folder.path().join(name));
    let policies = Policies::built_in().with(SlotName::Retry, link("none.wasm"));
    let error = state.host().configure(&policies.with(SlotName::Release, link("gone.wasm"))).unwrap_err();
    says(&error.to_string(), &["policies.retry: cannot use", "none.wasm", "policies.release: cannot use", "gone.wasm"]);
}

#[test]
fn a_path_that_leads_to_no_regular_file_is_refused_at_once_for_what_it_is() {
    let (reported, refusal_of) = mpsc::channel();
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Opened for reading, a pipe would wait for somebody who writes.
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe.wasm"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::create_dir(at("folder.wasm")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket.wasm")).unwrap();
        let paths = [at("pipe.wasm"), at("folder.wasm"), at("socket.wasm"), "/dev/zero".into()];
        let refusals = paths.map(|path| refusal(Link::file(path)));
        // Nobody waits any more where this took too long.
        let _ = reported.send(refusals);
    });
    let refusals = refusal_of.recv_timeout(Duration::from_secs(120)).expect("nothing waits for a pipe");
    for (refusal, what) in refusals.iter().zip(["a named pipe", "a directory", "a socket", "a device"]) {
        says(refusal, &["cannot read it", &format!("it is {what}, not a regular file")]);
    }
}

#[test]
fn a_component_without_the_slots_export_is_told_what_it_exports() {
    says(
        &refusal(Link::bytes(Guest::deferring(SlotName::Rollback).component())),
        &[
            "does not export `windlass:policy/retry@0.1.0`",
            "it exports",
            "`windlass:policy/rollback@0.1.0`",
            "`windlass:policy/policy@0.1.0`",
        ],
    );
}

#[test]
fn a_policy_of_another_version_of_the_contract_is_refused_with_both() {
    let mut component = Guest::deferring(SlotName::Retry).component();
    let (ours, theirs) = (b"windlass:policy/retry@0.1.0", b"windlass:policy/retry@0.2.0");
    let places: Vec<usize> =
        component.windows(ours.len()).enumerate().filter(|(_, part)| part == ours).map(|(at, _)| at).collect();
    for at in places {
        component[at..at + ours.len()].copy_from_slice(theirs);
    }
    says(
        &refusal(Link::bytes(component)),
        &["does not export `windlass:policy/retry@0.1.0`", "`windlass:policy/retry@0.2.0`"],
    );
}

#[test]
fn an_import_that_this_host_does_not_offer_is_refused_by_name() {
    let mut guest = Guest::waiting(1);
    guest.imports = IMPORT_DOUBLE;
    guest.world = "import numbers;";
    says(
        &refusal(Link::bytes(guest.component())),
        &["it imports `test:guest/numbers`, which this host does not offer", "It offers `windlass:policy/log@0.1.0`"],
    );
}

#[test]
fn a_component_that_is_too_large_is_refused_before_it_is_read() {
    let component = Guest::waiting(1).component();
    let link = Link::bytes(component).with_limit("component_bytes", 1000);
    says(&refusal(link), &["at most 1000 are allowed", "limits.component_bytes"]);
}

#[test]
fn settings_are_held_against_the_policys_own_schema() {
    let mut guest = Guest::waiting(1);
    guest.schema = r#"{"type":"object","additionalProperties":false,"required":["base"],"properties":{"base":{"type":"integer","minimum":1},"cap":{"type":"integer"}}}"#;
    let component: std::sync::Arc<[u8]> = guest.component().into();
    let with = |settings| Link::bytes(component.clone()).with_settings(settings);
    says(
        &refusal(with(json!({"bass": 1}))),
        &["its settings are wrong", "settings: unknown key `bass`; did you mean `base`?"],
    );
    says(&refusal(with(json!({"base": 0}))), &["settings.base: 0 is less than the minimum of 1"]);
    says(&refusal(with(json!({"base": "x"}))), &["settings.base: expected an integer, found \"x\""]);
    says(&refusal(with(json!({}))), &["settings: the key `base` is required"]);
    let state = State::new();
    state.host().configure(&Policies::built_in().with(SlotName::Retry, with(json!({"base": 3})))).unwrap();
}

#[test]
fn what_configure_says_is_handed_on_in_its_own_words() {
    let mut guest = Guest::waiting(1);
    guest.declarations =
        r#"(data (i32.const 512) "\01\00\00\00\10\02\00\00\0c\00\00\00") (data (i32.const 528) "not that one")"#.into();
    guest.configure = "(i32.const 512)";
    says(&refusal(Link::bytes(guest.component())), &["it refuses its settings: not that one"]);
}

#[test]
fn a_policy_that_fails_while_it_is_configured_is_refused() {
    let mut guest = Guest::waiting(1);
    guest.configure = "unreachable";
    says(&refusal(Link::bytes(guest.component())), &["it failed in `configure`", "unreachable"]);
    guest.configure = "(loop $for_ever (br $for_ever)) unreachable";
    let link = Link::bytes(guest.component()).with_limit("configure_time_ms", 30);
    says(&refusal(link), &["it failed in `configure`", "longer"]);
    guest.configure = "(call $log (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const 64)";
    guest.imports = IMPORT_LOG;
    says(&refusal(Link::bytes(guest.component())), &["it failed in `configure`", "it calls an import"]);
}

#[test]
fn a_description_that_can_not_be_used_is_refused() {
    for (name, version, schema, words) in [
        ("Not A Name", "1.0.0", "{}", "`name` must be"),
        ("", "1.0.0", "{}", "`name` must be"),
        ("fine", "latest", "{}", "`version` must be"),
        ("fine", "01.2.3", "{}", "`version` must be"),
        ("fine", "1.2.3-", "{}", "`version` must be"),
        ("fine", "1.0.0", "{", "`settings-schema` is not JSON"),
        ("fine", "1.0.0", r#"{"type": 7}"#, "`settings-schema` at `/type`: expected a type"),
    ] {
        let guest = Guest { name, version, schema, ..Guest::waiting(1) };
        says(&refusal(Link::bytes(guest.component())), &["its description is unusable", words]);
    }
    for summary in ["Two\nlines.", "Reversed: \u{202e}.", "Escaped: \u{1b}[2J."] {
        let guest = Guest { summary, ..Guest::waiting(1) };
        says(&refusal(Link::bytes(guest.component())), &["its description is unusable: `summary` must be one line"]);
    }
}

#[test]
fn a_policy_that_does_not_answer_the_example_question_is_refused() {
    let guest = Guest::new(SlotName::Retry, "unreachable");
    says(&refusal(Link::bytes(guest.component())), &["it failed the dry run", "unreachable"]);
    let guest = Guest::new(SlotName::Retry, "(loop $for_ever (br $for_ever)) unreachable");
    let link = Link::bytes(guest.component()).with_limit("time_ms", 30);
    says(&refusal(link), &["it failed the dry run", "30 ms"]);
}

#[test]
fn a_grant_for_something_that_does_not_exist_is_refused() {
    let link = Link::bytes(Guest::waiting(1).component()).with_grant("windlass:scaleway/lookups");
    says(&refusal(link), &["grants: `windlass:scaleway/lookups`: this host offers no such import"]);
    // The log is granted to everyone, so saying so is no mistake.
    let state = State::new();
    let link = Link::bytes(Guest::waiting(1).component()).with_grant("windlass:policy/log");
    state.host().configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
}

#[test]
fn what_configure_left_in_memory_is_there_in_every_decision() {
    let mut guest = Guest::new(
        SlotName::Retry,
        "(i32.store8 (i32.const 96) (i32.const 2)) (i64.store (i32.const 104) (global.get $settings)) (i32.const 96)",
    );
    // Remembers how long its settings are.
    guest.declarations = "(global $settings (mut i64) (i64.const 0))".into();
    guest.configure = "(global.set $settings (i64.extend_i32_u (local.get $length))) (i32.const 64)";
    let component: std::sync::Arc<[u8]> = guest.component().into();
    let state = State::new();
    for round in ["compiled", "from the cache"] {
        let host = state.host();
        for (settings, length) in [(json!({}), 2), (json!({"a": 1}), 7)] {
            let link = Link::bytes(component.clone()).with_settings(settings);
            host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
            let decision = run(host.pin().decide::<Retry>(Retry::example()));
            assert_eq!(decision.answer.verdict, retry::Verdict::Wait(length), "{round}");
            let DecidedBy::Policy(identity) = decision.decided_by else { panic!() };
            assert_eq!((&*identity.name, &*identity.version), ("test-guest", "1.2.3"));
        }
    }
}
