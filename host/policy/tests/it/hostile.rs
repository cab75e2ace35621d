//! Guests that mean harm. Each is stopped at its limit, the built-in default decides, the reason is on record, and
//! neither the host nor other policies notice.

use std::sync::mpsc;
use std::time::Duration;

use windlass_policy::slots::{Retry, Rollback, Slot, SlotName, StateMapping, retry};
use windlass_policy::{DECISION_STACK_BYTES, DecidedBy, FailureKind, LARGE_QUESTION_BYTES, Link, Outcome, Policies};

use crate::guests::{ANSWER, Guest, IMPORT_LOG};
use crate::support::{State, run};

/// A retry guest that behaves in the example question's step and does harm in the step `harm`, so that it passes the
/// dry run. The step's text lies at the question's offset 24.
fn harmful(harm: &str) -> Guest {
    Guest::new(
        SlotName::Retry,
        format!(
            r"(if (i32.eq (i32.load8_u (i32.load (i32.add (local.get $question) (i32.const 24)))) (i32.const 104)) (then {harm}))
              (i32.const {ANSWER})"
        ),
    )
}

fn harm() -> retry::Question {
    retry::Question { step: "harm".into(), ..Retry::example() }
}

/// Loads the guest for `retry`, asks, and expects it to fail so, with the default deciding.
fn fails(guest: &Guest, limits: &[(&str, u64)], kind: FailureKind, words: &str) {
    let state = State::new();
    let host = state.host();
    let mut link = Link::bytes(guest.component());
    for (limit, value) in limits {
        link = link.with_limit(limit, *value);
    }
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let pin = host.pin();
    let decision = run(pin.decide::<Retry>(harm()));
    let fallback = decision.fallbacks.first().unwrap_or_else(|| panic!("it did not fail: {decision:?}"));
    assert_eq!(fallback.kind, kind, "{fallback}");
    assert!(fallback.reason.contains(words), "{fallback}");
    assert_eq!(&*fallback.policy.name, "test-guest");
    let default = match &decision.decided_by {
        DecidedBy::Policy(identity) => identity.clone(),
        DecidedBy::Keep => panic!("the default did not decide: {decision:?}"),
    };
    assert_ne!(&*default.name, "test-guest");

    // The host goes on: the same policy behaves when it is asked something else, and another slot decides.
    let decision = run(pin.decide::<Retry>(Retry::example()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let other = run(pin.decide::<Rollback>(Rollback::example()));
    assert!(other.fallbacks.is_empty(), "{other:?}");

    let record = host.decisions().unwrap().list(&Default::default()).unwrap().decisions.pop().unwrap();
    assert!(record.is_fallback());
    match &record.asked[0].outcome {
        Outcome::Fallback { kind: recorded, reason } => {
            assert_eq!(*recorded, kind);
            assert!(reason.contains(words), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_endless_loop_is_stopped_at_its_time_limit() {
    fails(&harmful("(loop $for_ever (br $for_ever))"), &[("time_ms", 50)], FailureKind::TimeLimit, "50 ms");
}

#[test]
fn an_endless_loop_is_stopped_when_its_fuel_is_used_up() {
    fails(&harmful("(loop $for_ever (br $for_ever))"), &[("fuel", 100_000)], FailureKind::FuelLimit, "100000");
}

#[test]
fn a_memory_bomb_is_stopped_at_its_memory_limit() {
    let guest = harmful("(loop $more (drop (memory.grow (i32.const 16))) (br $more))");
    fails(&guest, &[], FailureKind::MemoryLimit, "memory_bytes");
}

#[test]
fn a_limit_reached_over_a_large_question_is_its_asker_s_and_suspends_nothing() {
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(harmful("(loop $for_ever (br $for_ever))").component()).with_limit("fuel", 100_000);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let pin = host.pin();
    let reported = || host.status().links.into_iter().find(|link| link.slot == SlotName::Retry).unwrap();
    let large = retry::Question { operation: "x".repeat(LARGE_QUESTION_BYTES), ..harm() };
    for _ in 0..10 {
        let decision = run(pin.decide::<Retry>(large.clone()));
        assert_eq!(decision.fallbacks[0].kind, FailureKind::FuelLimit, "{decision:?}");
        assert!(decision.fallbacks[0].reason.ends_with("does not count against the policy"), "{decision:?}");
    }
    assert!(!reported().suspended && reported().failures_in_a_row == 0, "{:?}", reported());
    assert!(reported().last_failure.unwrap().contains("more than 128 KiB"));
    for _ in 0..5 {
        let decision = run(pin.decide::<Retry>(harm()));
        assert_eq!(decision.fallbacks[0].kind, FailureKind::FuelLimit, "{decision:?}");
    }
    assert!(reported().suspended, "{:?}", reported());
}

/// Loads the guest for `retry` and returns the refusal.
fn refused(guest: &Guest, limits: &[(&str, u64)]) -> String {
    let state = State::new();
    let link =
        limits.iter().fold(Link::bytes(guest.component()), |link, (limit, value)| link.with_limit(limit, *value));
    state.host().configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap_err().to_string()
}

#[test]
fn a_table_bomb_is_refused_when_it_is_loaded() {
    // A table that grows can't be part of a snapshot, so no policy can have one.
    let mut guest = harmful("(loop $more (drop (table.grow $bomb (ref.null func) (i32.const 1000))) (br $more))");
    guest.declarations = "(table $bomb 1 funcref)".into();
    let error = refused(&guest, &[]);
    assert!(error.contains("table.grow"), "{error}");
    let mut guest = harmful("");
    guest.declarations = "(table $bomb 15000 funcref)".into();
    let error = refused(&guest, &[]);
    assert!(error.contains("table_elements"), "{error}");
}

/// Loads a policy with this schema in a thread of its own and returns the refusal. A load that never ends fails.
fn schema_is_refused(schema: String) -> String {
    let (refused, refusal) = mpsc::channel();
    std::thread::spawn(move || {
        let state = State::new();
        let link = Link::bytes(Guest { schema: schema.leak(), ..harmful("") }.component());
        let loaded = state.host().configure(&Policies::built_in().with(SlotName::Retry, link));
        // Nobody waits any more where this took too long.
        let _ = refused.send(loaded.map_err(|error| error.to_string()));
    });
    refusal.recv_timeout(Duration::from_secs(120)).expect("the load ends").expect_err("the policy is refused")
}

#[test]
fn a_schema_whose_references_multiply_is_refused_before_it_is_evaluated() {
    // Each definition asks for the next one twice: 2^40 visits.
    let definition = |index: u32| {
        let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, index + 1);
        format!(r#""d{index}":{{"allOf":[{next},{next}]}}"#)
    };
    let definitions: Vec<String> = (0..40).map(definition).collect();
    let error =
        schema_is_refused(format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d40":{{}}}}}}"##, definitions.join(",")));
    assert!(
        error.contains("its description is unusable: `settings-schema`: the keyword `$defs` is not supported"),
        "{error}"
    );
}

#[test]
fn a_deep_recursion_overflows_its_own_stack_and_not_ours() {
    let mut guest = harmful("(drop (call $deeper (i64.const 1)))");
    guest.declarations =
        "(func $deeper (param i64) (result i64) (i64.add (i64.const 1) (call $deeper (i64.add (local.get 0) (i64.const \
         1)))))".into();
    fails(&guest, &[], FailureKind::StackLimit, "stack");
}

#[test]
fn a_pin_stops_what_loops_also_when_its_host_is_gone() {
    let (asked, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let state = State::new();
        let host = state.host();
        let guest = harmful("(loop $for_ever (br $for_ever))");
        let link = Link::bytes(guest.component()).with_limit("time_ms", 50);
        host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
        let pin = host.pin();
        drop(host);
        // Nobody waits any more where this took too long.
        let _ = asked.send(run(pin.decide::<Retry>(harm())));
    });
    let decision = answered.recv_timeout(Duration::from_secs(120)).expect("the decision ends");
    assert_eq!(decision.fallbacks[0].kind, FailureKind::TimeLimit);
}

#[test]
fn a_decision_needs_no_more_stack_than_is_said_however_deep_its_guest_goes() {
    // Calls the host from everywhere, the last time with next to nothing of its own stack left.
    let mut guest = harmful("(drop (call $deeper (i64.const 1)))");
    guest.imports = IMPORT_LOG;
    guest.declarations = "(func $deeper (param i64) (result i64)
        (call $log (i32.const 0) (i32.const 1024) (i32.const 20))
        (i64.add (i64.const 1) (call $deeper (i64.add (local.get 0) (i64.const 1)))))"
        .into();
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(guest.component()).with_limit("time_ms", 60_000);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let pin = host.pin();
    let decide = move || {
        // A runtime of its own would need stack, too.
        let decision = pin.decide::<Retry>(harm());
        futures::FutureExt::now_or_never(decision).expect("a policy without capabilities never waits")
    };
    let thread = std::thread::Builder::new().stack_size(DECISION_STACK_BYTES).spawn(decide).unwrap();
    assert_eq!(thread.join().unwrap().fallbacks[0].kind, FailureKind::StackLimit);
}

#[test]
fn a_trap_is_a_fallback() {
    fails(&harmful("unreachable"), &[], FailureKind::Trap, "unreachable");
    fails(&harmful("(drop (i32.load (i32.const -4)))"), &[], FailureKind::Trap, "out of bounds");
    fails(&harmful("(drop (i32.div_u (i32.const 1) (i32.const 0)))"), &[], FailureKind::Trap, "divide by zero");
}

#[test]
fn a_huge_answer_is_stopped_before_it_is_copied() {
    // A reason of 8 MiB that really is there.
    let harm = format!(
        "(drop (memory.grow (i32.const 130))) (i32.store8 (i32.const {}) (i32.const 1)) \
         (i32.store (i32.const {}) (i32.const 0)) (i32.store (i32.const {}) (i32.const 8388608))",
        ANSWER + 16,
        ANSWER + 20,
        ANSWER + 24
    );
    fails(&harmful(&harm), &[], FailureKind::AnswerLimit, "answer_bytes");
}

#[test]
fn an_answer_that_breaks_the_rules_of_the_component_model_is_a_fallback() {
    let no_such_case = format!("(i32.store8 (i32.const {ANSWER}) (i32.const 77))");
    fails(&harmful(&no_such_case), &[], FailureKind::MalformedAnswer, "discriminant");
    let no_text = format!(
        "(i32.store8 (i32.const {}) (i32.const 1)) (i32.store (i32.const {}) (i32.const 200)) \
         (i32.store8 (i32.const 200) (i32.const 255)) (i32.store (i32.const {}) (i32.const 1))",
        ANSWER + 16,
        ANSWER + 20,
        ANSWER + 24
    );
    fails(&harmful(&no_text), &[], FailureKind::MalformedAnswer, "utf-8");
    let outside = format!(
        "(i32.store8 (i32.const {}) (i32.const 1)) (i32.store (i32.const {}) (i32.const -100)) \
         (i32.store (i32.const {}) (i32.const 50))",
        ANSWER + 16,
        ANSWER + 20,
        ANSWER + 24
    );
    fails(&harmful(&outside), &[], FailureKind::MalformedAnswer, "");
    fails(&harmful("(return (i32.const 97))"), &[], FailureKind::MalformedAnswer, "align");
}

#[test]
fn leaked_handles_are_stopped_at_their_limit() {
    let mut guest = harmful("(loop $more (drop (call $new (i32.const 1))) (br $more))");
    guest.imports =
        r#"(import "[export]test:guest/things" "[resource-new]thing" (func $new (param i32) (result i32)))"#;
    guest.world = "export things;";
    fails(&guest, &[], FailureKind::HandleLimit, "64 handles");
}

#[test]
fn a_log_flood_is_cut_counted_and_harmless() {
    let mut guest = harmful(
        "(local.set $i (i32.const 5000)) (loop $more (call $log (i32.const 2) (i32.const 1024) (i32.const 20)) \
         (local.set $i (i32.sub (local.get $i) (i32.const 1))) (br_if $more (local.get $i)))",
    );
    guest.imports = IMPORT_LOG;
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()))).unwrap();
    let decision = run(host.pin().decide::<Retry>(harm()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    assert_eq!(record.asked[0].outcome, Outcome::Deferred);
    assert_eq!(record.asked[0].log.len(), 32);
    assert_eq!(record.asked[0].log_dropped, 5000 - 32);
    assert_eq!(record.asked[0].log[0].message, "test-guest1.2.3A gue");
}

#[test]
fn an_allocator_that_never_ends_is_stopped_before_it_has_seen_the_question() {
    // The example's texts are shorter than the harmful question's, so that it passes the dry run.
    let mut guest = harmful("");
    guest.allocate = "(if (i32.eq (local.get 3) (i32.const 777)) (then (loop $for_ever (br $for_ever))))";
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(guest.component()).with_limit("time_ms", 50);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let question = retry::Question { step: "h".repeat(777), ..Retry::example() };
    let decision = run(host.pin().decide::<Retry>(question));
    assert_eq!(decision.fallbacks[0].kind, FailureKind::TimeLimit, "{decision:?}");
}

#[test]
fn what_never_ends_after_its_answer_is_stopped_too() {
    let mut guest = harmful("(global.set $harmful (i32.const 1))");
    guest.declarations = format!(
        r#"(global $harmful (mut i32) (i32.const 0))
           (func (export "cabi_post_{}@0.1.0#decide") (param i32) (loop $for_ever (br_if $for_ever (global.get $harmful))))"#,
        SlotName::Retry.interface()
    );
    fails(&guest, &[("time_ms", 50)], FailureKind::TimeLimit, "50 ms");
}

#[test]
fn what_never_ends_before_it_is_described_is_refused() {
    let mut guest = harmful("");
    guest.declarations = "(func $begin (loop $for_ever (br $for_ever))) (start $begin)".into();
    let error = refused(&guest, &[("configure_time_ms", 50)]);
    assert!(error.contains("instantiation") && error.contains("50 ms"), "{error}");
}

#[test]
fn lists_of_an_answer_that_lie_on_each_other_are_stopped_before_they_are_copied() {
    // 4,000 steps whose `after` are all the same 4,000 numbers: 64 MB from 80 KB.
    let mut guest = planning(&[]);
    guest.declarations = "(data (i32.const 4096) \"\")".into();
    guest.decide = format!(
        "(if (i32.eq (i32.load8_u (i32.load (i32.add (local.get $question) (i32.const 16)))) (i32.const 104)) (then \
         (local.set $at (call $room (i32.const 64000))) \
         (loop $more \
           (i32.store (i32.add (local.get $at) (i32.add (i32.mul (local.get $i) (i32.const 16)) (i32.const 8))) \
           (local.get $at)) (i32.store (i32.add (local.get $at) (i32.add (i32.mul (local.get $i) (i32.const 16)) \
           (i32.const 12))) (i32.const 4000)) (local.set $i (i32.add (local.get $i) (i32.const 1))) \
           (br_if $more (i32.lt_u (local.get $i) (i32.const 4000)))) \
         (i32.store8 (i32.const {ANSWER}) (i32.const 1)) (i32.store (i32.const {}) (local.get $at)) \
         (i32.store (i32.const {}) (i32.const 4000)))) (i32.const {ANSWER})",
        ANSWER + 4,
        ANSWER + 8,
    );
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Rollback, Link::bytes(guest.component()))).unwrap();
    let question = windlass_policy::slots::rollback::Question { operation: "harm".into(), ..Rollback::example() };
    let decision = run(host.pin().decide::<Rollback>(question));
    assert_eq!(decision.fallbacks[0].kind, FailureKind::AnswerLimit, "{decision:?}");
}

#[test]
fn what_would_steer_a_terminal_or_forge_a_line_is_neither_a_reason_nor_logged() {
    // Erases the screen, begins a line of its own and turns the direction round.
    const STEERING: &str = "fine\u{1b}[2J\nERROR all servers deleted \u{202e}dnah yb";
    let escaped: String = STEERING.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let mut guest = harmful(&format!(
        "(call $log (i32.const 2) (i32.const 4096) (i32.const {length})) (i32.store8 (i32.const {ANSWER}) (i32.const \
         2)) (i32.store8 (i32.const {}) (i32.const 1)) (i32.store (i32.const {}) (i32.const 4096)) \
         (i32.store (i32.const {}) (i32.const {length}))",
        ANSWER + 16,
        ANSWER + 20,
        ANSWER + 24,
        length = STEERING.len(),
    ));
    guest.imports = IMPORT_LOG;
    guest.declarations = format!("(data (i32.const 4096) \"{escaped}\")");
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()))).unwrap();
    let decision = run(host.pin().decide::<Retry>(harm()));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    let record = host.decisions().unwrap().show(&decision.id.to_string()).unwrap();
    let reported =
        [decision.reason, record.reason, record.asked.into_iter().next().map(|it| it.log[0].message.clone())];
    for text in reported.map(|text| text.expect("it said something")) {
        assert!(text.contains("ERROR all servers deleted"), "{text:?}");
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
    }
}

#[test]
fn what_a_guest_remembers_of_a_question_is_gone_at_the_next() {
    // Waits as many milliseconds as it was asked before.
    let mut guest = Guest::new(
        SlotName::Retry,
        format!(
            "(i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (global.get $asked)) \
             (global.set $asked (i64.add (global.get $asked) (i64.const 1))) (i32.const {ANSWER})"
        ),
    );
    guest.declarations = "(global $asked (mut i64) (i64.const 0))".into();
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::Retry, Link::bytes(guest.component()))).unwrap();
    let pin = host.pin();
    for _ in 0..3 {
        let decision = run(pin.decide::<Retry>(harm()));
        assert_eq!(decision.answer.verdict, retry::Verdict::Wait(0));
    }
}

#[test]
fn what_is_not_the_same_on_every_machine_or_shared_between_threads_is_refused() {
    for (declarations, words) in [
        ("(func (atomic.fence))", "threads"),
        ("(memory $other 1)", "multiple memories"),
        ("(func (param v128) (drop (i32x4.relaxed_trunc_f32x4_s (local.get 0))))", "relaxed SIMD"),
        ("(func $end (return_call $end))", "tail calls"),
        ("(func (i64.add128 (i64.const 0) (i64.const 0) (i64.const 0) (i64.const 0)) drop drop)", "wide arithmetic"),
    ] {
        let mut guest = harmful("");
        guest.declarations = declarations.into();
        let error = refused(&guest, &[]);
        assert!(error.contains(words), "{declarations}: {error}");
    }
}

#[test]
fn an_answer_that_does_not_fit_the_question_is_a_fallback() {
    // One answer too many.
    let guest = Guest::new(
        SlotName::StateMapping,
        format!(
            "(if (i32.ne (local.get $count) (i32.const 6)) (then (local.set $count (i32.add (local.get $count) \
             (i32.const 1))))) (i32.store (i32.const {ANSWER}) (call $room (i32.mul (local.get $count) (i32.const \
             16)))) (i32.store (i32.const {}) (local.get $count)) (i32.const {ANSWER})",
            ANSWER + 4
        ),
    );
    let state = State::new();
    let host = state.host();
    host.configure(&Policies::built_in().with(SlotName::StateMapping, Link::bytes(guest.component()))).unwrap();
    let mut question = StateMapping::example();
    question.servers.truncate(2);
    let decision = run(host.pin().decide::<StateMapping>(question));
    assert_eq!(decision.fallbacks[0].kind, FailureKind::RejectedAnswer);
    assert!(decision.fallbacks[0].reason.contains("3 answers for 2 servers"), "{}", decision.fallbacks[0]);
    assert_eq!(decision.answer.len(), 2);
}

/// A rollback guest whose plan has these steps: resource, action, and the one step it waits for.
fn planning(steps: &[(u32, u32, Option<u32>)]) -> Guest {
    let base = 4096;
    let mut data: Vec<u8> = Vec::new();
    for (index, (resource, action, after)) in steps.iter().enumerate() {
        let list = base + u32::try_from(steps.len() * 16 + index * 4).unwrap();
        for word in [*resource, *action, list, u32::from(after.is_some())] {
            data.extend(word.to_le_bytes());
        }
    }
    for (_, _, after) in steps {
        data.extend(after.unwrap_or_default().to_le_bytes());
    }
    let data: String = data.iter().map(|byte| format!("\\{byte:02x}")).collect();
    // It defers until the operation is called `h...`, so that it passes the dry run. `operation` is at the question's
    // offset 16.
    let mut guest = Guest::new(
        SlotName::Rollback,
        format!(
            "(if (i32.eq (i32.load8_u (i32.load (i32.add (local.get $question) (i32.const 16)))) (i32.const 104)) \
             (then (i32.store8 (i32.const {ANSWER}) (i32.const 1)) (i32.store (i32.const {}) (i32.const {base})) \
             (i32.store (i32.const {}) (i32.const {})))) (i32.const {ANSWER})",
            ANSWER + 4,
            ANSWER + 8,
            steps.len()
        ),
    );
    guest.declarations = format!("(data (i32.const {base}) \"{data}\")");
    guest
}

const DELETE: u32 = 0;
const KEEP: u32 = 3;

fn plan_is_refused(steps: &[(u32, u32, Option<u32>)], foreign: Option<usize>, words: &str) {
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(planning(steps).component());
    host.configure(&Policies::built_in().with(SlotName::Rollback, link)).unwrap();
    let mut question = Rollback::example();
    question.operation = "harm".into();
    if let Some(foreign) = foreign {
        question.resources[foreign].owned = false;
    }
    let decision = run(host.pin().decide::<Rollback>(question.clone()));
    let fallback = decision.fallbacks.first().unwrap_or_else(|| panic!("it was accepted: {decision:?}"));
    assert_eq!(fallback.kind, FailureKind::RejectedAnswer);
    assert!(fallback.reason.contains(words), "{fallback}");
    Rollback::check(&question, &decision.answer).unwrap();
    assert!(matches!(decision.decided_by, DecidedBy::Policy(_)));
}

#[test]
fn a_plan_that_deletes_what_is_not_ours_is_refused() {
    let all = [(0, DELETE, None), (1, DELETE, Some(0)), (2, DELETE, Some(0)), (3, DELETE, None), (4, DELETE, None)];
    plan_is_refused(&all, Some(1), "does not carry the owner tag");
}

#[test]
fn a_plan_with_a_circle_is_refused() {
    let circle = [(0, DELETE, Some(1)), (1, DELETE, Some(0)), (2, KEEP, None), (3, DELETE, None), (4, DELETE, None)];
    plan_is_refused(&circle, None, "wait for each other in a circle: 0, 1");
}

#[test]
fn a_plan_that_forgets_a_resource_is_refused() {
    plan_is_refused(&[(0, DELETE, None), (1, DELETE, Some(0)), (3, DELETE, None)], None, "forgets BlockVolume");
}

#[test]
fn a_plan_about_resources_that_do_not_exist_is_refused() {
    plan_is_refused(&[(9, DELETE, None)], None, "names resource 9");
    plan_is_refused(&[(0, DELETE, Some(7))], None, "waits for step 7");
}

#[test]
fn a_plan_that_keeps_a_volume_is_accepted() {
    let state = State::new();
    let host = state.host();
    let steps = [(0, DELETE, None), (1, DELETE, Some(0)), (2, KEEP, None), (3, DELETE, Some(0))];
    host.configure(&Policies::built_in().with(SlotName::Rollback, Link::bytes(planning(&steps).component()))).unwrap();
    let question = windlass_policy::slots::rollback::Question { operation: "h".into(), ..Rollback::example() };
    let decision = run(host.pin().decide::<Rollback>(question));
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    assert!(matches!(&decision.decided_by, DecidedBy::Policy(identity) if &*identity.name == "test-guest"));
}
