//! Faults at every call. Each case must end with the complete running server or with nothing of ours.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use windlass_lifecycle::{Control, CreatedServer, Error, OperationState, SweepRequest, Target};
use windlass_policy::slots::types::FailureClass;
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{World, faults_at, kinds, number, run, seeds, zone};

/// Every kind, and a delay beyond the client's deadline.
/// What Scaleway refuses to create in its own words, or by its rate limit, is believed: it has not been done.
/// (assumption: refusals-have-no-effect) Every other answer may be wrong about the effect.
fn happens(kind: FaultKind, effect: Effect) -> bool {
    !kind.is_refusal() || effect == Effect::Before
}

fn rule(nth: Option<u64>, kind: FaultKind, effect: Effect) -> FaultRule {
    FaultRule { method: None, path: "/**".into(), nth, kind, effect }
}

/// The class that a cause must have when this kind was injected.
fn class(kind: FaultKind) -> Option<FailureClass> {
    Some(match kind {
        FaultKind::InternalServerError => FailureClass::ServerError,
        FaultKind::GatewayTimeout | FaultKind::GatewayUnavailable => FailureClass::Gateway,
        FaultKind::RateLimited => FailureClass::RateLimited,
        FaultKind::OutOfStock => FailureClass::OutOfStock,
        FaultKind::QuotaExceeded => FailureClass::QuotaExceeded,
        FaultKind::TransientState => FailureClass::TransientState,
        FaultKind::Locked => FailureClass::Locked,
        FaultKind::PreconditionFailed | FaultKind::PreconditionFailedBare => FailureClass::PreconditionFailed,
        FaultKind::PermissionDenied => FailureClass::PermissionDenied,
        FaultKind::NotFound => FailureClass::NotFound,
        FaultKind::DroppedConnection => FailureClass::Connection,
        FaultKind::MalformedBody => FailureClass::MalformedAnswer,
        FaultKind::Delay(delay) if delay > Duration::from_secs(30) => FailureClass::Timeout,
        FaultKind::Delay(_) => return None,
        // Lists that are wrong are no failures, and how a late call fails depends on how long its caller waits.
        FaultKind::Late(_) | FaultKind::Omit(_) | FaultKind::OmitKeepTotal(_) => return None,
    })
}

/// The calls of a create without faults.
async fn calls_of_create() -> Vec<(String, String)> {
    let world = World::new(1).await;
    let lifecycle = world.start();
    lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
    world.assert_complete("a clean run").await;
    world
        .simulator
        .requests()
        .into_iter()
        .filter(|request| !request.path.ends_with("/user_data/cloud-init") || request.method != "GET")
        .map(|request| (request.method, request.path))
        .collect()
}

/// The calls of a cleanup without faults.
async fn calls_of_cleanup() -> usize {
    let world = World::new(1).await;
    let lifecycle = world.start();
    let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
    world.simulator.clear_requests();
    lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
    world.assert_empty("a clean run");
    world.simulator.requests().len()
}

/// Judges the end of a create. `first` is what the cause must be, where that is known.
async fn judge_create(
    world: &World,
    lifecycle: &windlass_lifecycle::Lifecycle,
    result: Result<CreatedServer, Error>,
    first: &[FailureClass],
    case: &str,
) -> bool {
    world.simulator.clear_faults();
    let done = match result {
        Ok(_) => {
            world.assert_complete(case).await;
            true
        }
        Err(Error::Failed(failure)) => {
            let unverified = failure.state == OperationState::Unverified;
            assert!(unverified || failure.state == OperationState::Undone, "{case}: {failure}");
            assert!(failure.report.is_clean(), "{case}: {failure}");
            assert_eq!(failure.report.look_at.is_some(), unverified, "{case}: {failure}");
            if unverified {
                world.assert_empty(case);
                tokio::time::sleep(Duration::from_secs(660)).await;
                let resumed = lifecycle.resume(&Control::new()).await.unwrap();
                assert_eq!(resumed.operations[0].state, OperationState::Undone, "{case}: {resumed:?}");
            }
            assert!(
                first.is_empty() || first.contains(&failure.cause.class),
                "{case}: the error does not name the first cause: {failure}"
            );
            world.assert_empty(case);
            false
        }
        Err(other) => panic!("{case}: {other}"),
    };
    world.assert_closed(lifecycle, case);
    done
}

#[test]
fn a_fault_of_any_kind_at_any_call_of_a_create_leaves_the_complete_server_or_nothing() {
    let calls = run(calls_of_create());
    assert!(calls.len() >= 12, "{calls:?}");
    let (mut done, mut undone) = (0, 0);
    for (nth, kind, effect) in faults_at(calls.len() as u64) {
        if !happens(kind, effect) {
            continue;
        }
        let (method, path) = &calls[nth as usize - 1];
        let case = format!("create, call {nth} ({method} {path}), {kind} {effect:?}");
        let ended = run(async {
            let world = World::new(1).await;
            let lifecycle = world.start();
            world.simulator.add_fault(rule(Some(nth), kind, effect)).unwrap();
            let result = lifecycle.create_server(world.everything(), &Control::new()).await;
            let first: Vec<FailureClass> = class(kind).into_iter().collect();
            judge_create(&world, &lifecycle, result, &first, &case).await
        });
        if ended { done += 1 } else { undone += 1 }
    }
    println!("create: {} calls, {done} cases ended complete, {undone} undone", calls.len());
    assert!(done > 14 && undone > 3, "the cases do not reach both ends: {done} {undone}");
}

#[test]
fn a_fault_of_any_kind_at_any_call_of_a_cleanup_leaves_nothing() {
    let calls = run(calls_of_cleanup()) as u64;
    assert!(calls >= 10, "{calls}");
    for (nth, kind, effect) in faults_at(calls) {
        let case = format!("cleanup, call {nth}, {kind} {effect:?}");
        run(async {
            let world = World::new(1).await;
            let lifecycle = world.start();
            let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
            world.simulator.add_fault(rule(Some(nth), kind, effect)).unwrap();
            let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
            world.simulator.clear_faults();
            assert!(cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
            world.assert_empty(&case);
            world.assert_closed(&lifecycle, &case);
        });
    }
}

#[test]
fn pairs_of_faults_at_random_leave_the_complete_server_or_nothing() {
    let seeds = seeds("WINDLASS_CHAOS_SEED", number("WINDLASS_CHAOS_COUNT", 200));
    let calls = run(calls_of_create()).len() as u64;
    let (mut done, mut left) = (0, 0);
    let count = seeds.len();
    for seed in seeds {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut any = || {
            let kind = kinds()[random.random_range(0..kinds().len())];
            let effect = if random.random() { Effect::Before } else { Effect::After };
            let effect = if happens(kind, effect) { effect } else { Effect::Before };
            // The second fault may hit the rollback of the first.
            (random.random_range(1..=calls + 12), kind, effect)
        };
        let (first, second) = (any(), any());
        let case = format!("{first:?} and {second:?} (WINDLASS_CHAOS_SEED={seed} WINDLASS_CHAOS_COUNT=1)");
        run(async {
            let world = World::new(seed).await;
            let lifecycle = world.start();
            for (nth, kind, effect) in [first, second] {
                world.simulator.add_fault(rule(Some(nth), kind, effect)).unwrap();
            }
            let result = lifecycle.create_server(world.everything(), &Control::new()).await;
            let expected: Vec<FailureClass> = [first.1, second.1].into_iter().filter_map(class).collect();
            match result {
                // Two faults in one place can hide the end from us; then it is said, and the next start ends it.
                Err(Error::Failed(failure)) if failure.state == OperationState::Left => {
                    left += 1;
                    world.simulator.clear_faults();
                    assert!(!failure.report.is_clean());
                    let resumed = lifecycle.resume(&Control::new()).await.unwrap();
                    assert!(resumed.is_clean(), "{case}: {resumed:?}");
                    world.assert_empty(&case);
                    world.assert_closed(&lifecycle, &case);
                }
                other => {
                    if judge_create(&world, &lifecycle, other, &expected, &case).await {
                        done += 1;
                    }
                }
            }
        });
    }
    println!("pairs: {count} cases, {done} complete, {left} left and resumed");
}

#[test]
fn faults_that_do_not_end_are_told_truthfully_and_the_next_start_cleans() {
    for (method, path) in [
        ("DELETE", "/instance/v1/zones/*/ips/*"),
        ("DELETE", "/block/v1/zones/*/volumes/*"),
        ("POST", "/instance/v1/zones/*/servers/*/action"),
        ("GET", "/instance/v1/zones/*/ips/*"),
        ("GET", "/instance/v1/zones/*/servers/*"),
    ] {
        for kind in [FaultKind::InternalServerError, FaultKind::PermissionDenied] {
            let case = format!("{method} {path} always {kind}");
            run(async {
                let world = World::new(3).await;
                let lifecycle = world.start();
                let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
                world.simulator.add_fault(FaultRule::new(method, path, kind)).unwrap();
                let cleaned = lifecycle.cleanup(&Target::Operation(created.operation), &Control::new()).await.unwrap();
                world.simulator.clear_faults();
                let there = world.resources().count();
                assert_eq!(cleaned.report.is_clean(), there == 0 && cleaned.report.unverified.is_none(), "{case}");
                assert!(!cleaned.report.is_clean(), "{case}: {}", cleaned.report.words());
                if cleaned.report.unverified.is_none() {
                    assert_eq!(cleaned.report.left.len(), there, "{case}: {}", cleaned.report.words());
                }
                drop(lifecycle);
                let next = world.start();
                let resumed = next.resume(&Control::new()).await.unwrap();
                assert!(resumed.is_clean(), "{case}: {resumed:?}");
                world.assert_empty(&case);
                world.assert_closed(&next, &case);
            });
        }
    }
}

#[test]
fn every_nth_call_failing_never_leaves_anything_unsaid() {
    for every in 2..8_u64 {
        for kind in kinds() {
            let case = format!("every {every}th call {kind}");
            run(async {
                let world = World::new(every).await;
                let lifecycle = world.start();
                let effect = if happens(kind, Effect::After) { Effect::After } else { Effect::Before };
                for nth in (1..200).map(|n| n * every) {
                    world.simulator.add_fault(rule(Some(nth), kind, effect)).unwrap();
                }
                let result = lifecycle.create_server(world.everything(), &Control::new()).await;
                world.simulator.clear_faults();
                match result {
                    Ok(_) => world.assert_complete(&case).await,
                    Err(Error::Failed(failure)) => {
                        if failure.report.is_clean() {
                            world.assert_empty(&case);
                        } else {
                            assert_eq!(failure.state, OperationState::Left, "{case}");
                            lifecycle.resume(&Control::new()).await.unwrap();
                            let sweep =
                                lifecycle.sweep(&SweepRequest::new(vec![zone()]), &Control::new()).await.unwrap();
                            assert!(sweep.is_clean(), "{case}: {sweep:?}");
                            world.assert_empty(&case);
                        }
                    }
                    Err(other) => panic!("{case}: {other}"),
                }
                world.assert_closed(&lifecycle, &case);
            });
        }
    }
}

#[test]
fn a_wrong_not_found_to_a_repeated_change_leaves_no_volume_untagged() {
    run(async {
        let world = World::new(35).await;
        let lifecycle = world.start();
        let tagging = |kind| FaultRule::new("PATCH", "/block/v1/zones/*/volumes/*", kind);
        world.simulator.add_fault(tagging(FaultKind::DroppedConnection).nth(1)).unwrap();
        world.simulator.add_fault(tagging(FaultKind::NotFound).nth(2)).unwrap();
        lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        world.assert_complete("tagged").await;
    });
}
