//! The guests of `tests/guests`, which the guest SDK made, by name.

use serde_json::{Value, json};
use windlass_policy::slots::{
    Deferred, Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping, placement, provisioning,
    release, retry, rollback,
};
use windlass_policy::{DecidedBy, Decision, FailureKind, Host, Link, LogLevel, Policies};
use windlass_test_guests as guests;

use crate::support::{State, run};

/// A host whose every slot asks the hostile guest first, which behaves in decisions whose random word is even.
fn host_with(state: &State, behaviour: &str, limit: Option<(&str, u64)>) -> Host {
    let mut options = state.options();
    options.suspend_after = 0;
    let host = Host::new(options).unwrap();
    let mut link =
        Link::bytes(guests::HOSTILE.bytes).with_settings(json!({ "behaviour": behaviour, "during": "odd-decisions" }));
    if let Some((limit, value)) = limit {
        link = link.with_limit(limit, value);
    }
    let policies =
        SlotName::ALL.into_iter().fold(Policies::built_in(), |policies, slot| policies.with(slot, link.clone()));
    host.configure(&policies).unwrap();
    host
}

/// Asks and expects the hostile guest to fail so, in every slot, and somebody else to decide.
fn fails_everywhere(behaviour: &str, limit: Option<(&str, u64)>, kind: FailureKind) {
    fn failed<S: Slot>(host: &Host, question: S::Question, kind: FailureKind) {
        let decision: Decision<S> = run(host.pin().decide::<S>(question.clone()));
        let fallback =
            decision.fallbacks.first().unwrap_or_else(|| panic!("{} did not fail: {:?}", S::NAME, decision.answer));
        assert_eq!(fallback.kind, kind, "{}: {fallback}", S::NAME);
        S::check(&question, &decision.answer).unwrap();
        assert_eq!(S::deferred(&decision.answer), Deferred::Nothing);
        if let DecidedBy::Policy(identity) = &decision.decided_by {
            assert_ne!(identity, &fallback.policy);
        }
    }
    let state = State::new();
    let host = host_with(&state, behaviour, limit);
    let random = 1;
    let mut batch = StateMapping::example();
    batch.now += 1;
    failed::<StateMapping>(&host, batch, kind);
    failed::<Retry>(&host, retry::Question { random, ..Retry::example() }, kind);
    failed::<Rollback>(&host, rollback::Question { random, ..Rollback::example() }, kind);
    failed::<Release>(&host, release::Question { random, ..Release::example() }, kind);
    failed::<Provisioning>(&host, provisioning::Question { random, ..Provisioning::example() }, kind);
    failed::<Placement>(&host, placement::Question { random, ..Placement::example() }, kind);
}

#[test]
fn a_loop_in_any_slot_is_stopped() {
    fails_everywhere("loop", Some(("time_ms", 100)), FailureKind::TimeLimit);
}

#[test]
fn a_memory_bomb_in_any_slot_is_stopped() {
    fails_everywhere("memory-bomb", None, FailureKind::MemoryLimit);
}

#[test]
fn a_deep_recursion_in_any_slot_is_stopped() {
    let state = State::new();
    let host = host_with(&state, "deep-recursion", None);
    let decision = run(host.pin().decide::<Retry>(retry::Question { random: 1, ..Retry::example() }));
    // Rust's own stack of 16 KiB lies in the guest's memory and ends first; both ends are traps.
    assert!(matches!(decision.fallbacks[0].kind, FailureKind::Trap | FailureKind::StackLimit), "{decision:?}");
}

#[test]
fn a_trap_and_a_panic_in_any_slot_are_fallbacks() {
    fails_everywhere("trap", None, FailureKind::Trap);
    fails_everywhere("panic", None, FailureKind::Trap);
}

#[test]
fn what_a_panic_says_is_the_reason_of_the_failure_and_a_line_of_the_record() {
    let state = State::new();
    let host = host_with(&state, "panic", None);
    let decision = run(host.pin().decide::<Retry>(retry::Question { random: 1, ..Retry::example() }));
    let reason = &decision.fallbacks[0].reason;
    assert!(reason.contains("unreachable") && reason.contains("panicked at") && reason.contains("hostile"), "{reason}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let line = &record.asked[0].log[0];
    assert!(line.level == LogLevel::Error && line.message.contains("hostile"), "{line:?}");

    // Also before it decides anything.
    for (during, function) in [("configure", "it failed in `configure`"), ("decide", "it failed the dry run")] {
        let settings = json!({ "behaviour": "panic", "during": during });
        let link = Link::bytes(guests::HOSTILE.bytes).with_settings(settings);
        let error = host.load(SlotName::Retry, &link).unwrap_err().to_string();
        assert!(error.contains(function) && error.contains("panicked at"), "{error}");
    }
}

#[test]
fn a_plan_that_repeats_itself_for_megabytes_is_refused() {
    let state = State::new();
    let host = state.host();
    let settings = json!({ "behaviour": "wait-again-and-again", "during": "odd-decisions", "count": 200_000 });
    let link = Link::bytes(guests::HOSTILE.bytes).with_settings(settings).with_limit("time_ms", 30_000);
    host.configure(&Policies::built_in().with(SlotName::Rollback, link)).unwrap();
    let question = rollback::Question { random: 1, ..Rollback::example() };
    let decision = run(host.pin().decide::<Rollback>(question));
    let fallback = &decision.fallbacks[0];
    assert_eq!(fallback.kind, FailureKind::RejectedAnswer, "{fallback}");
    assert!(fallback.reason.contains("twice"), "{fallback}");
}

#[test]
fn a_huge_answer_in_any_slot_is_stopped() {
    fails_everywhere("huge-answer", None, FailureKind::AnswerLimit);
}

#[test]
fn every_bad_plan_is_refused_and_the_default_undoes_everything_that_is_ours() {
    for behaviour in [
        "invalid-answer",
        "invalid-answer-too",
        "delete-foreign",
        "cycle",
        "self-cycle",
        "forget",
        "forget-all",
        "contradict",
    ] {
        let state = State::new();
        let host = host_with(&state, behaviour, None);
        let mut question = rollback::Question { random: 1, ..Rollback::example() };
        // The volume isn't ours. (The last resource is a private NIC, which goes with its server: one more of ours
        // follows, so that there is something to forget.)
        question.resources[2].owned = false;
        let another = rollback::Resource { id: "another".into(), attached_to: None, ..question.resources[1].clone() };
        question.resources.push(another);
        let decision = run(host.pin().decide::<Rollback>(question.clone()));
        assert_eq!(
            decision.fallbacks.first().map(|fallback| fallback.kind),
            Some(FailureKind::RejectedAnswer),
            "{behaviour}"
        );
        Rollback::check(&question, &decision.answer).unwrap();
        assert!(matches!(decision.decided_by, DecidedBy::Policy(_)), "{behaviour}");
    }
}

#[test]
fn a_placement_that_is_nowhere_or_more_than_is_wanted_is_refused_and_the_default_places() {
    for (behaviour, words) in [
        ("invalid-answer", "names place 4, and there are only 4"),
        ("invalid-answer-too", "create 4 servers, and only 3 are wanted"),
    ] {
        let state = State::new();
        let host = host_with(&state, behaviour, None);
        let question = placement::Question { random: 1, ..Placement::example() };
        let decision = run(host.pin().decide::<Placement>(question));
        assert_eq!(decision.fallbacks[0].kind, FailureKind::RejectedAnswer, "{behaviour}");
        assert!(decision.fallbacks[0].reason.contains(words), "{}", decision.fallbacks[0]);
        assert_eq!(decision.answer.verdict, Placement::keep(&Placement::example()).verdict);
        assert!(matches!(decision.decided_by, DecidedBy::Policy(_)), "{behaviour}");
    }
}

#[test]
fn a_log_flood_in_any_slot_is_cut() {
    let state = State::new();
    let host = Host::new(state.options()).unwrap();
    let settings = json!({ "behaviour": "log-flood", "during": "odd-decisions", "count": 10_000, "bytes": 100 });
    let link = Link::bytes(guests::HOSTILE.bytes).with_settings(settings).with_limit("time_ms", 30_000);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let decision = run(host.pin().decide::<Retry>(retry::Question { random: 1, ..Retry::example() }));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let lines = &record.asked[0].log;
    assert!(lines.len() <= 32 && lines.iter().map(|line| line.message.len()).sum::<usize>() <= 4096);
    assert_eq!(lines.len() as u64 + record.asked[0].log_dropped, 10_000);
}

#[test]
fn a_hostile_configure_is_refused_in_words_that_can_not_drive_a_terminal() {
    let state = State::new();
    let host = state.host();
    for (behaviour, words) in [
        ("loop", "it failed in `configure`: it ran longer"),
        ("trap", "it failed in `configure`"),
        ("memory-bomb", "memory_bytes"),
        ("error", "it refuses its settings"),
    ] {
        let settings = json!({ "behaviour": behaviour, "during": "configure" });
        let link = Link::bytes(guests::HOSTILE.bytes).with_settings(settings).with_limit("configure_time_ms", 200);
        let error = host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err().to_string();
        assert!(error.contains(words), "{behaviour}: {error}");
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
}

#[test]
fn every_hand_made_guest_is_refused_when_it_is_loaded_but_the_minimal_one() {
    let state = State::new();
    let host = state.host();
    // What these are told; of the others it is enough that they are refused.
    let reported = [
        ("core-module", "a core WebAssembly module"),
        ("no-slot", "does not export `windlass:policy/retry@0.1.0`"),
        ("no-policy", "does not export `windlass:policy/policy@0.1.0`"),
        ("imports-wasi", "it imports `wasi:cli/environment@0.2.0`, which this host does not offer"),
        ("other-look-ups", "it imports `windlass:scaleway/look-ups@0.1.0`, which this host does not offer"),
        ("imports-stranger", "it imports `acme:secrets/vault@1.0.0`, which this host does not offer"),
        ("other-types", "does not have the type that the contract"),
        ("bad-name", "`name` must be"),
        ("reversed-summary", "`summary` must be one line"),
        ("bad-version", "`version` must be"),
        ("bad-schema", "`settings-schema` is not JSON"),
        ("wrong-schema", "`settings-schema` at `/type`: expected a type"),
        ("hungry-schema", "the keyword `$ref` is not supported"),
        ("configure-loops", "it failed in `configure`"),
        ("describe-traps", "it failed in `describe`"),
        ("handle-leak", "64 handles"),
        ("memory-hoard", "memor"),
        ("table-hoard", "table"),
    ];
    let compiled = ["minimal", "state-mapping", "retry", "rollback", "release", "rules", "hostile", "spender"];
    let examples =
        ["grace-for-stopped", "stock-aware-retry", "keep-volumes-for-inspection", "keep-new-nodes-for-inspection"];
    let mut refused = 0;
    for guest in guests::ALL {
        let is_policy = compiled.contains(&guest.name) || examples.contains(&guest.name);
        if is_policy || guest.name.starts_with("faulty-") {
            continue;
        }
        let link = Link::bytes(guest.bytes).with_limit("configure_time_ms", 200);
        match host.configure(&Policies::built_in().with(SlotName::Retry, link)) {
            Ok(()) => panic!("{} was accepted", guest.name),
            Err(error) => {
                let error = error.to_string();
                refused += 1;
                if let Some((_, words)) = reported.iter().find(|(name, _)| *name == guest.name) {
                    assert!(error.contains(words), "{}: {error}", guest.name);
                }
                assert!(!error.contains('\u{1b}'), "{}: {error:?}", guest.name);
            }
        }
    }
    assert!(refused >= reported.len());
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guests::MINIMAL.bytes))).unwrap();
    assert!(run(host.pin().decide::<Retry>(Retry::example())).fallbacks.is_empty());
}

#[test]
fn the_examples_load_with_their_grants_and_decide() {
    let state = State::new();
    let host = state.host();
    let policies = Policies::built_in()
        .with(SlotName::StateMapping, Link::bytes(guests::GRACE_FOR_STOPPED.bytes))
        .with(SlotName::Rollback, Link::bytes(guests::KEEP_VOLUMES_FOR_INSPECTION.bytes));
    host.configure(&policies).unwrap();
    let decision = run(host.pin().decide::<StateMapping>(StateMapping::example()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let decision = run(host.pin().decide::<Rollback>(Rollback::example()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    // This host offers no look-ups at all; host/lifecycle does.
    let link = Link::bytes(guests::STOCK_AWARE_RETRY.bytes);
    let error = host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err().to_string();
    assert!(error.contains("it imports `windlass:scaleway/look-ups@0.1.0`"), "{error}");
}

#[test]
fn every_policy_takes_the_defaults_that_its_schema_shows() {
    let state = State::new();
    let host = state.host();
    for (slot, guest) in [
        (SlotName::StateMapping, guests::STATE_MAPPING),
        (SlotName::Retry, guests::RETRY),
        (SlotName::Rollback, guests::ROLLBACK),
        (SlotName::Release, guests::RELEASE),
        (SlotName::Provisioning, guests::PROVISIONING),
        (SlotName::Placement, guests::PLACEMENT),
        (SlotName::StateMapping, guests::GRACE_FOR_STOPPED),
        (SlotName::Rollback, guests::KEEP_VOLUMES_FOR_INSPECTION),
        (SlotName::Provisioning, guests::KEEP_NEW_NODES_FOR_INSPECTION),
        (SlotName::Retry, guests::HOSTILE),
    ] {
        let link = Link::bytes(guest.bytes);
        let policy = host.load(slot, &link).unwrap();
        let schema: Value = serde_json::from_str(&policy.description().settings_schema).unwrap();
        let default = |(key, property): (&String, &Value)| (key.clone(), property["default"].clone());
        let defaults: Value = schema["properties"].as_object().unwrap().iter().map(default).collect();
        let loaded = host.load(slot, &link.with_settings(defaults.clone()));
        loaded.unwrap_or_else(|error| panic!("{} with {defaults}: {error}", guest.name));
    }
}
