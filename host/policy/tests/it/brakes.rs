//! The brake: no policy removes most of what runs at one look.

use std::path::Path;

use windlass_policy::slots::state_mapping::{Action, Answer, Operation, Question, Server, ServerState, Verdict};
use windlass_policy::slots::{OnFailure, Slot, SlotName, StateMapping};
use windlass_policy::{
    Agreement, Brake, DecidedBy, Decision, FailureKind, Host, Link, Outcome, Policies, ReplayAgainst,
};

use crate::guests::{ANSWER, Guest};
use crate::support::{State, run};

/// Reaps the first servers of what it is asked, so many at most, and defers the rest.
fn reaping(most: u32) -> Link {
    let decide = format!(
        "(local.set $at (call $room (i32.mul (local.get $count) (i32.const 16)))) \
         (block $done (loop $next (br_if $done (i32.ge_u (local.get $i) (local.get $count))) \
           (br_if $done (i32.ge_u (local.get $i) (i32.const {most}))) \
           (i32.store (i32.add (local.get $at) (i32.mul (local.get $i) (i32.const 16))) (i32.const 0x10001)) \
           (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next))) \
         (i32.store (i32.const {ANSWER}) (local.get $at)) (i32.store (i32.const {}) (local.get $count)) (i32.const \
         {ANSWER})",
        ANSWER + 4
    );
    Link::bytes(Guest::new(SlotName::StateMapping, decide).component())
}

fn servers(count: usize, change: impl Fn(&mut Server)) -> Question {
    let mut question = StateMapping::example();
    let mut server = question.servers[0];
    assert_eq!((server.state, server.in_flight), (ServerState::Running, Operation::None));
    change(&mut server);
    question.servers = vec![server; count];
    question
}

fn running(count: usize) -> Question {
    servers(count, |_| ())
}

fn host_with(state: &State, brake: Brake, links: impl IntoIterator<Item = Link>) -> Host {
    let mut options = state.options();
    options.brake = brake;
    let host = Host::new(options).unwrap();
    let add = |policies: Policies, link| policies.with(SlotName::StateMapping, link);
    host.configure(&links.into_iter().fold(Policies::built_in(), add)).unwrap();
    host
}

fn ask(host: &Host, question: Question) -> Decision<StateMapping> {
    run(host.pin().decide::<StateMapping>(question))
}

fn reaped(decision: &Decision<StateMapping>) -> usize {
    let is_reaped =
        |answer: &&Answer| matches!(answer.verdict, Verdict::Mapped(mapping) if mapping.action == Action::Reap);
    decision.answer.iter().filter(is_reaped).count()
}

#[test]
fn an_answer_that_reaps_too_many_that_run_counts_as_a_failure_and_the_next_decides() {
    let state = State::new();
    let host = host_with(&state, Brake::default(), [reaping(u32::MAX)]);
    let decision = ask(&host, running(12));
    assert_eq!(reaped(&decision), 0);
    assert!(matches!(decision.decided_by, DecidedBy::Policy(_)), "the default decides: {decision:?}");
    let [fallback] = &decision.fallbacks[..] else { panic!("{decision:?}") };
    assert_eq!(fallback.kind, FailureKind::Brake);
    assert!(fallback.reason.contains("12 of 12 running servers"), "{fallback}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert!(matches!(record.asked[0].outcome, Outcome::Fallback { kind: FailureKind::Brake, .. }), "{record:?}");
    // It is what the host refused then: no replay puts it down to the policy, however the brake is set by now.
    let loose = host_with(&state, Brake { servers: 100, ..Brake::default() }, []);
    for host in [host, loose] {
        let replay = run(host.replay(&record, &ReplayAgainst::TheSame)).unwrap();
        assert!(replay.same, "{replay:?}");
    }
}

#[test]
fn what_only_a_tighter_brake_would_refuse_proves_nothing_against_a_policy() {
    let state = State::new();
    let host = host_with(&state, Brake { servers: 12, ..Brake::default() }, [reaping(u32::MAX)]);
    let decision = ask(&host, running(12));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let tight = host_with(&state, Brake::default(), []);
    let replay = run(tight.replay(&record, &ReplayAgainst::TheSame)).unwrap();
    assert!(!replay.same && replay.inconclusive[0].contains("the brake"), "{replay:?}");
}

#[test]
fn few_are_reaped_however_few_run_and_a_third_however_many() {
    let state = State::new();
    for (most, count) in [(5, 5), (5, 6), (6, 18), (100, 300)] {
        let host = host_with(&state, Brake::default(), [reaping(most)]);
        let decision = ask(&host, running(count));
        assert_eq!((reaped(&decision), decision.fallbacks.len()), (most as usize, 0), "{most} of {count}");
    }
    for (most, count) in [(6, 6), (6, 17), (101, 300)] {
        let host = host_with(&state, Brake::default(), [reaping(most)]);
        let decision = ask(&host, running(count));
        assert_eq!((reaped(&decision), decision.fallbacks.len()), (0, 1), "{most} of {count}");
    }
}

#[test]
fn what_does_not_run_or_is_being_removed_already_does_not_count() {
    let state = State::new();
    let host = host_with(&state, Brake::default(), [reaping(u32::MAX)]);
    let stopped = servers(50, |server| server.state = ServerState::Stopped);
    let starting = servers(50, |server| server.state = ServerState::Starting);
    let cleaned = servers(50, |server| server.in_flight = Operation::Cleanup);
    for question in [stopped, starting, cleaned] {
        assert_eq!(reaped(&ask(&host, question.clone())), 50, "{:?}", question.servers[0]);
        // Nor do they make those that run fewer.
        let mut mixed = question;
        mixed.servers.extend(running(6).servers);
        assert_eq!(ask(&host, mixed).fallbacks.len(), 1);
    }
}

#[test]
fn deferring_pieces_of_a_question_leads_around_no_brake() {
    let state = State::new();
    // Each alone would be let through, also by what is left to it.
    let host = host_with(&state, Brake::default(), [reaping(5), reaping(5), reaping(5)]);
    let decision = ask(&host, running(14));
    assert_eq!(reaped(&decision), 5);
    let kinds: Vec<_> = decision.fallbacks.iter().map(|fallback| fallback.kind).collect();
    assert_eq!(kinds, [FailureKind::Brake, FailureKind::Brake]);
    assert!(decision.fallbacks[0].reason.contains("10 of 14 running servers"), "{}", decision.fallbacks[0]);
}

#[test]
fn a_braked_policy_that_keeps_on_failure_reaps_nothing() {
    let state = State::new();
    let host = host_with(&state, Brake::default(), [reaping(5), reaping(9).with_on_failure(OnFailure::Keep)]);
    let mut question = running(14);
    // The default would reap it.
    question.servers[13] = StateMapping::example().servers[2];
    let decision = ask(&host, question.clone());
    assert_eq!((reaped(&decision), decision.decided_by.clone()), (5, DecidedBy::Keep), "{decision:?}");
    assert_eq!(decision.answer[5..], StateMapping::keep(&question)[5..]);
}

#[test]
fn the_brake_is_the_operators_to_set() {
    let state = State::new();
    let loose = host_with(&state, Brake { servers: 12, ..Brake::default() }, [reaping(u32::MAX)]);
    assert_eq!(reaped(&ask(&loose, running(12))), 12);
    let tight = host_with(&state, Brake { servers: 0, share: 0.1 }, [reaping(2)]);
    assert_eq!(ask(&tight, running(19)).fallbacks[0].kind, FailureKind::Brake);
    assert_eq!(reaped(&ask(&tight, running(20))), 2);
}

#[test]
fn a_policy_that_is_braked_again_and_again_is_suspended() {
    let state = State::new();
    let host = host_with(&state, Brake::default(), [reaping(u32::MAX)]);
    for _ in 0..5 {
        assert_eq!(ask(&host, running(12)).fallbacks[0].kind, FailureKind::Brake);
    }
    assert_eq!(ask(&host, running(12)).fallbacks[0].kind, FailureKind::Suspended);
}

#[test]
fn a_shadow_is_braked_in_its_place() {
    let state = State::new();
    let host = host_with(&state, Brake::default(), [reaping(5), reaping(5).as_shadow()]);
    let decision = ask(&host, running(14));
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let shadow = &record.shadows[0];
    assert_eq!(shadow.agreement, Agreement::Failed);
    assert!(matches!(&shadow.asked.outcome, Outcome::Fallback { kind: FailureKind::Brake, .. }), "{shadow:?}");
}

#[test]
fn what_makes_running_servers_vanish_from_their_owner_is_braked_too() {
    for (report, is_braked) in [
        ("none", true),
        ("deleting", true),
        ("deleted", true),
        ("timeout", true),
        ("creating", false),
        ("running", false),
    ] {
        let state = State::new();
        let rules = format!(
            "slot = \"state-mapping\"\n[[rules]]\nwhen = \"true\"\nanswer = {{ mapped = {{ report = \"{report}\", action = \"none\" }} }}\n"
        );
        let link = Link::contents(Path::new("the.rules.toml"), rules.as_bytes());
        let host = host_with(&state, Brake::default(), [link]);
        let decision = ask(&host, running(12));
        let braked = decision.fallbacks.iter().any(|fallback| fallback.kind == FailureKind::Brake);
        assert_eq!(braked, is_braked, "{report}: {decision:?}");
        let few = ask(&host, running(5));
        assert!(few.fallbacks.is_empty(), "{report}: {few:?}");
    }
}
