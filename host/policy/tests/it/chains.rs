//! Chains: deferral, failure and suspension.

use windlass_policy::slots::{OnFailure, Release, Retry, Slot, SlotName, StateMapping, release, retry, state_mapping};
use windlass_policy::{DecidedBy, FailureKind, Host, Link, Outcome, Policies};

use crate::guests::{ANSWER, ATTEMPT, Guest};
use crate::support::{State, run};

/// Decides the servers at even places as `running` and leaves the rest.
pub(crate) fn every_other() -> Guest {
    Guest::new(
        SlotName::StateMapping,
        format!(
            "(local.set $at (call $room (i32.mul (local.get $count) (i32.const 16)))) \
             (block $done (loop $next (br_if $done (i32.ge_u (local.get $i) (local.get $count))) \
               (i32.store (i32.add (local.get $at) (i32.mul (local.get $i) (i32.const 16))) (i32.const 0x201)) \
               (local.set $i (i32.add (local.get $i) (i32.const 2))) (br $next))) \
             (i32.store (i32.const {ANSWER}) (local.get $at)) (i32.store (i32.const {}) (local.get $count)) (i32.const \
             {ANSWER})",
            ANSWER + 4
        ),
    )
}

#[test]
fn what_a_policy_defers_is_decided_by_the_next_and_single_items_keep_their_places() {
    let state = State::new();
    let host = state.host();
    let chain = || Link::bytes(every_other().component());
    host.configure(&Policies::built_in().with(SlotName::StateMapping, chain()).with(SlotName::StateMapping, chain()))
        .unwrap();
    let mut question = StateMapping::example();
    // Seven stopped servers, which the default would reap and the guest calls running.
    question.servers = vec![question.servers[2]; 7];
    let decision = run(host.pin().decide::<StateMapping>(question));
    let is_running: Vec<bool> = decision
        .answer
        .iter()
        .map(|answer| match answer.verdict {
            state_mapping::Verdict::Mapped(mapping) => mapping.report == state_mapping::Report::Running,
            state_mapping::Verdict::Defer => panic!("an item was left over"),
        })
        .collect();
    // The first decides 0 2 4 6; of what it left, 1 3 5, the second decides 1 and 5; the default decides 3.
    assert_eq!(is_running, [true, true, true, false, true, true, true]);
    let of_the_last: Vec<usize> = (0..7).filter(|item| decision.decider(*item) == decision.decided_by).collect();
    assert_eq!(of_the_last, [3]);
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let items: Vec<_> = record.asked.iter().map(|asked| asked.items.clone()).collect();
    assert_eq!(items, [None, Some(vec![1, 3, 5]), Some(vec![3])]);
    assert_eq!(record.asked[0].outcome, Outcome::DecidedPart { deferred: 3 });
    assert_eq!(record.asked[2].outcome, Outcome::Decided);
}

#[test]
fn the_first_policy_that_does_not_defer_decides() {
    let state = State::new();
    let host = state.host();
    let policies = Policies::built_in()
        .with(SlotName::Retry, Link::bytes(Guest::deferring(SlotName::Retry).component()))
        .with(SlotName::Retry, Link::bytes(Guest::waiting(1234).component()))
        .with(SlotName::Retry, Link::bytes(Guest::waiting(9999).component()));
    host.configure(&policies).unwrap();
    let decision = run(host.pin().decide::<Retry>(Retry::example()));
    assert_eq!(decision.answer.verdict, retry::Verdict::Wait(1234));
    assert_eq!(host.pin().chain(SlotName::Retry).len(), 4, "three links and the built-in default");
}

#[test]
fn when_even_the_default_fails_the_last_resort_decides() {
    let state = State::new();
    let host = state.host();
    let decision = run(host.pin().decide::<Retry>(too_large()));
    assert_eq!(decision.decided_by, DecidedBy::Keep);
    assert_eq!(decision.answer, Retry::keep(&Retry::example()));
}

/// A question that fits into no policy's memory.
pub(crate) fn too_large() -> retry::Question {
    retry::Question { zone: "x".repeat(20 << 20), ..Retry::example() }
}

/// Traps whenever it isn't asked the example question, whose `attempt` is 1.
pub(crate) fn trapping() -> Guest {
    Guest::new(
        SlotName::Retry,
        format!(
            "(if (i32.ne (i32.load (i32.add (local.get $question) (i32.const {ATTEMPT}))) (i32.const 1)) (then \
             unreachable)) (i32.const {ANSWER})"
        ),
    )
}

pub(crate) fn second_attempt() -> retry::Question {
    retry::Question { attempt: 2, ..Retry::example() }
}

#[test]
fn a_policy_that_keeps_failing_is_suspended_until_it_is_replaced() {
    let state = State::new();
    let mut options = state.options();
    options.suspend_after = 3;
    let host = Host::new(options).unwrap();
    let policies = Policies::built_in().with(SlotName::Retry, Link::bytes(trapping().component()));
    host.configure(&policies).unwrap();
    let ask = |question| run(host.pin().decide::<Retry>(question));
    // A success in between starts the count anew.
    for _ in 0..2 {
        assert_eq!(ask(second_attempt()).fallbacks[0].kind, FailureKind::Trap);
    }
    assert!(ask(Retry::example()).fallbacks.is_empty());
    for _ in 0..3 {
        assert_eq!(ask(second_attempt()).fallbacks[0].kind, FailureKind::Trap);
    }
    let suspended = ask(Retry::example());
    assert_eq!(suspended.fallbacks[0].kind, FailureKind::Suspended, "also where it would behave");
    assert!(suspended.fallbacks[0].reason.contains("unreachable"), "{}", suspended.fallbacks[0]);
    let status = host.status();
    let link = status.links.iter().find(|link| link.slot == SlotName::Retry).unwrap();
    assert!(link.suspended && link.failures_in_a_row == 3, "{link:?}");

    // The same again is no replacement; another is.
    host.configure(&policies).unwrap();
    assert_eq!(ask(Retry::example()).fallbacks[0].kind, FailureKind::Suspended);
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(5).component()))).unwrap();
    assert_eq!(ask(Retry::example()).answer.verdict, retry::Verdict::Wait(5));
}

#[test]
fn a_built_in_default_is_asked_again_however_often_it_failed() {
    let state = State::new();
    let mut options = state.options();
    options.suspend_after = 3;
    let host = Host::new(options).unwrap();
    // As the end of a chain, and as a link with settings of its own.
    let configured = Link::default().with_settings(serde_json::json!({"attempts": 7}));
    for policies in [Policies::built_in(), Policies::built_in().with(SlotName::Retry, configured)] {
        host.configure(&policies).unwrap();
        for _ in 0..5 {
            let decision = run(host.pin().decide::<Retry>(too_large()));
            let kinds: Vec<FailureKind> = decision.fallbacks.iter().map(|fallback| fallback.kind).collect();
            assert!(kinds.iter().all(|kind| *kind == FailureKind::MemoryLimit), "{kinds:?}");
        }
        let decision = run(host.pin().decide::<Retry>(Retry::example()));
        assert!(decision.fallbacks.is_empty(), "{decision:?}");
        assert!(host.status().links.iter().all(|link| !link.suspended));
    }
}

#[test]
fn on_failure_keep_decides_at_once_without_the_default() {
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(trapping().component()).with_on_failure(OnFailure::Keep);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let decision = run(host.pin().decide::<Retry>(second_attempt()));
    assert_eq!(decision.decided_by, DecidedBy::Keep);
    assert_eq!(decision.answer, Retry::keep(&second_attempt()));
}

#[test]
fn a_failing_release_policy_never_destroys_a_physical_host() {
    let state = State::new();
    let host = state.host();
    // The random word (offset 8) is the example's in the dry run, and another one later.
    let guest = Guest::new(
        SlotName::Release,
        format!(
            "(if (i64.ne (i64.load (i32.add (local.get $question) (i32.const 8))) (i64.const 0x5eed0)) (then \
             unreachable)) (i32.const {ANSWER})"
        ),
    );
    host.configure(&Policies::built_in().with(SlotName::Release, Link::bytes(guest.component()))).unwrap();
    let question = release::Question { random: 1, ..Release::example() };
    let decision = run(host.pin().decide::<Release>(question.clone()));
    assert!(matches!(decision.answer.verdict, release::Verdict::RetryAfter(_)), "{decision:?}");
    assert_eq!(decision.decided_by, DecidedBy::Keep);

    let mut instance = question;
    instance.machine.kind = release::MachineKind::Instance;
    let decision = run(host.pin().decide::<Release>(instance));
    assert!(
        matches!(decision.decided_by, DecidedBy::Policy(_)),
        "an Instance server is left to the default: {decision:?}"
    );
}

#[test]
fn nothing_that_a_decision_leaves_in_memory_is_seen_by_the_next() {
    let mut guest = Guest::new(
        SlotName::Retry,
        format!(
            "(global.set $asked (i64.add (global.get $asked) (i64.const 1))) (i64.store (i32.const 5000) (i64.add \
             (i64.load (i32.const 5000)) (i64.const 1))) (i32.store8 (i32.const {ANSWER}) (i32.const 2)) \
             (i64.store (i32.const 104) (i64.add (global.get $asked) (i64.load (i32.const 5000)))) (i32.const {ANSWER})"
        ),
    );
    guest.declarations = "(global $asked (mut i64) (i64.const 0))".into();
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()))).unwrap();
    for _ in 0..100 {
        let decision = run(host.pin().decide::<Retry>(Retry::example()));
        assert_eq!(decision.answer.verdict, retry::Verdict::Wait(2));
    }
}
