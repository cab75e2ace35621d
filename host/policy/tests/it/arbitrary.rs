//! Whatever bytes a guest calls its answer: there is a decision, it passes the check, and it defers nothing.

use proptest::prelude::*;
use windlass_policy::slots::{
    Deferred, Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping, placement, provisioning,
    release, retry, rollback,
};
use windlass_policy::{Host, Link, Policies};

use crate::guests::{ANSWER, Guest};
use crate::support::{State, run};

/// Fills its memory with noise when it is configured, and answers with whatever lies where the question's random word
/// (offset 8) points. Behaves in the dry run, whose word is 0x5eed0.
fn noisy(slot: SlotName) -> Guest {
    let word = match slot {
        // The batch has no random word: its instant serves.
        SlotName::StateMapping => "(i64.load (local.get $question))",
        _ => "(i64.load (i32.add (local.get $question) (i32.const 8)))",
    };
    let tame = match slot {
        SlotName::StateMapping => format!("(i64.eq {word} (i64.const 1767225600000))"),
        _ => format!("(i64.eq {word} (i64.const 0x5eed0))"),
    };
    let behave = match slot {
        SlotName::StateMapping => format!(
            "(i32.store (i32.const {ANSWER}) (call $room (i32.mul (local.get $count) (i32.const 16)))) \
             (i32.store (i32.const {}) (local.get $count)) (return (i32.const {ANSWER}))",
            ANSWER + 4
        ),
        _ => format!("(return (i32.const {ANSWER}))"),
    };
    let mut guest = Guest::new(
        slot,
        format!(
            "(if {tame} (then {behave})) (i32.add (i32.const 16384) (i32.and (i32.wrap_i64 {word}) (i32.const 0x7ff8)))"
        ),
    );
    // Small numbers are commoner than large ones, so that cases and lengths are often nearly right.
    guest.configure = "(call $fill) (i32.const 64)";
    guest.declarations = "(func $fill (local $at i32) (local $x i32)
        (local.set $at (i32.const 16384)) (local.set $x (i32.const 0x2545f491))
        (loop $next
          (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 13))))
          (local.set $x (i32.xor (local.get $x) (i32.shr_u (local.get $x) (i32.const 17))))
          (local.set $x (i32.xor (local.get $x) (i32.shl (local.get $x) (i32.const 5))))
          (i32.store (local.get $at)
            (i32.shr_u (local.get $x) (i32.or (i32.const 24) (i32.and (i32.shr_u (local.get $x) (i32.const 3)) (i32.const 7)))))
          (local.set $at (i32.add (local.get $at) (i32.const 4)))
          (br_if $next (i32.lt_u (local.get $at) (i32.const 65000)))))"
        .into();
    guest
}

/// Room for the guests' fresh memory is above the noise.
fn noisy_host(state: &State) -> Host {
    let mut options = state.options();
    options.suspend_after = 0;
    let host = Host::new(options).unwrap();
    let link = |slot| Link::bytes(noisy(slot).component());
    let policies =
        SlotName::ALL.into_iter().fold(Policies::built_in(), |policies, slot| policies.with(slot, link(slot)));
    host.configure(&policies).unwrap();
    host
}

fn decides<S: Slot>(host: &Host, question: S::Question) -> bool {
    let decision = run(host.pin().decide::<S>(question.clone()));
    S::check(&question, &decision.answer).unwrap();
    assert_eq!(S::deferred(&decision.answer), Deferred::Nothing);
    assert_eq!(
        serde_json::from_value::<S::Answer>(serde_json::to_value(&decision.answer).unwrap()).unwrap(),
        decision.answer
    );
    decision.fallbacks.is_empty()
}

#[test]
fn arbitrary_answers_never_break_a_decision() {
    let state = State::new();
    let host = noisy_host(&state);
    let (accepted, refused) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let count = |fine: bool| {
        let counter = if fine { &accepted } else { &refused };
        counter.set(counter.get() + 1);
    };
    proptest!(ProptestConfig::with_cases(500), |(random: u64)| {
        prop_assume!(random != 0x5eed0);
        count(decides::<Retry>(&host, retry::Question { random, ..Retry::example() }));
        count(decides::<Rollback>(&host, rollback::Question { random, ..Rollback::example() }));
        count(decides::<Release>(&host, release::Question { random, ..Release::example() }));
        count(decides::<Provisioning>(&host, provisioning::Question { random, ..Provisioning::example() }));
        count(decides::<Placement>(&host, placement::Question { random, ..Placement::example() }));
        let mut question = StateMapping::example();
        question.now = random;
        count(decides::<StateMapping>(&host, question));
    });
    // Both kinds came up, or the test proves nothing.
    assert!(accepted.get() > 50 && refused.get() > 50, "{accepted:?} accepted, {refused:?} refused");
}
