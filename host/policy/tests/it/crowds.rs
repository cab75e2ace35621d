//! Many decisions at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_policy::slots::{Retry, Rollback, Slot, SlotName, retry};
use windlass_policy::{CapabilityError, FailureKind, Host, Link, Policies};

use crate::capabilities::{answering, doubling};
use crate::guests::{ATTEMPT, Guest};
use crate::support::{State, run};

#[test]
fn threads_that_decide_while_policies_are_swapped_each_see_one_policy_to_the_end() {
    let state = State::new();
    let host = state.host();
    let policies: Vec<Policies> = [1, 2]
        .map(|wait| Policies::built_in().with(SlotName::Retry, Link::bytes(Guest::waiting(wait).component())))
        .into();
    host.configure(&policies[0]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let pin = host.pin();
                    let answers: Vec<_> = (0..4).map(|_| run(pin.decide::<Retry>(Retry::example()))).collect();
                    assert!(answers.iter().all(|decision| decision.fallbacks.is_empty()), "{answers:?}");
                    assert!(answers.iter().all(|decision| decision.answer == answers[0].answer), "{answers:?}");
                    assert!(matches!(answers[0].answer.verdict, retry::Verdict::Wait(1 | 2)));
                }
            });
        }
        for round in 0..40 {
            host.configure(&policies[round % 2]).unwrap();
        }
    });
    assert_eq!(host.status().lost_records, 0);
    assert_eq!(host.decisions().unwrap().list(&Default::default()).unwrap().decisions.len(), 8 * 100 * 4);
}

/// A guest that computes for tens of milliseconds at every other attempt.
fn slow_guest() -> Guest {
    Guest::new(
        SlotName::Retry,
        format!(
            "(if (i32.and (i32.load (i32.add (local.get $question) (i32.const {ATTEMPT}))) (i32.const 1)) (then \
               (local.set $i (i32.const 60000000)) \
               (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1))))))) (i32.const 96)"
        ),
    )
}

#[test]
fn a_slow_policy_with_many_callers_leaves_the_threads_to_other_slots() {
    const ASKED: u32 = 200;
    let state = State::new();
    let host = state.host();
    let link = Link::bytes(slow_guest().component());
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let slow = Arc::new(AtomicU32::new(0));
    let others = runtime.block_on(async {
        for _ in 0..8 {
            let (pin, slow) = (host.pin(), slow.clone());
            tokio::spawn(async move {
                for attempt in 1.. {
                    let decision = pin.decide::<Retry>(retry::Question { attempt, ..Retry::example() }).await;
                    assert!(decision.fallbacks.is_empty(), "{decision:?}");
                    slow.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
        let pin = host.pin();
        let asking = tokio::spawn(async move {
            for _ in 0..ASKED {
                // As behind a request on a socket: somebody else may have the thread in between.
                tokio::task::yield_now().await;
                assert!(pin.decide::<Rollback>(Rollback::example()).await.fallbacks.is_empty());
            }
        });
        asking.await
    });
    others.unwrap();
    let slow = slow.load(Ordering::Relaxed);
    assert!(slow < ASKED, "{slow} slow decisions came before {ASKED} quick ones");
    runtime.shutdown_background();
}

#[test]
fn a_slow_policy_with_a_capability_lets_the_other_tasks_of_its_thread_run() {
    let state = State::new();
    let at_once =
        |arguments: Vec<Value>| async move { Ok(json!({ "ok": arguments[0].as_u64().unwrap_or_default() * 2 })) };
    let host = Host::new(state.options().with_capability(answering(at_once))).unwrap();
    let mut guest = doubling(1);
    let long = "(local.set $i (i32.const 400000000)) \
        (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    guest.decide = format!("{long} {}", guest.decide.replace("$more", "$next"));
    let link = Link::bytes(guest.versioned()).with_grant("test:guest/numbers").with_limit("time_ms", 60_000);
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let counted = turns.clone();
    let (decision, turns) = runtime.block_on(async {
        tokio::spawn(std::future::poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        let pin = host.pin();
        let asked = tokio::spawn(async move {
            let before = turns.load(Ordering::Relaxed);
            let decision = pin.decide::<Retry>(Retry::example()).await;
            (decision, turns.load(Ordering::Relaxed) - before)
        });
        asked.await.unwrap()
    });
    assert!(decision.fallbacks.is_empty(), "{decision:?}");
    assert!(turns >= 3, "others had {turns} turns");
}

/// Answers after a second.
async fn slow(arguments: Vec<Value>) -> Result<Value, CapabilityError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(json!({ "ok": arguments[0].as_u64().unwrap_or_default() * 2 }))
}

#[test]
fn more_decisions_can_wait_at_once_than_there_is_room_for_instances() {
    let state = State::new();
    let host = Host::new(state.options().with_capability(answering(slow))).unwrap();
    let link = Link::bytes(doubling(1).versioned()).with_grant("test:guest/numbers");
    host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let decisions = runtime.block_on(async {
        let ask = |attempt| {
            let pin = host.pin();
            let question = retry::Question { attempt, ..Retry::example() };
            tokio::spawn(async move { pin.decide::<Retry>(question).await })
        };
        let asked: Vec<_> = (1..=600).map(ask).collect();
        let mut decisions = Vec::new();
        for decision in asked {
            decisions.push(decision.await.unwrap());
        }
        decisions
    });
    for (attempt, decision) in (1u64..).zip(&decisions) {
        assert!(decision.fallbacks.is_empty(), "{decision:?}");
        assert_eq!(decision.answer.verdict, retry::Verdict::Wait(attempt * 2));
    }
}

#[test]
fn a_decision_that_finds_no_room_within_its_time_is_left_to_the_next_policy() {
    let state = State::new();
    let host = Host::new(state.options().with_capability(answering(slow))).unwrap();
    let load = |milliseconds| {
        let link = Link::bytes(doubling(1).versioned()).with_grant("test:guest/numbers");
        host.load(SlotName::Retry, &link.with_limit("host_call_time_ms", milliseconds)).unwrap()
    };
    let (patient, hurried) = (host.pin_only(load(60_000)), host.pin_only(load(500)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let decision = runtime.block_on(async {
        // They take all the room there is, for a second.
        for _ in 0..192 {
            let pin = patient.clone();
            tokio::spawn(async move { pin.decide::<Retry>(Retry::example()).await });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        hurried.decide::<Retry>(Retry::example()).await
    });
    let fallback = &decision.fallbacks[0];
    assert_eq!(fallback.kind, FailureKind::HostBusy, "{fallback}");
    assert!(fallback.reason.contains("no room within 500 ms (`host_call_time_ms`)"), "{fallback}");
    assert!(matches!(decision.answer.verdict, retry::Verdict::Wait(_)), "the default decides: {decision:?}");
}
