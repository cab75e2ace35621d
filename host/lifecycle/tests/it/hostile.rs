//! Policies that mean harm, or are broken: the operation ends well all the same, and says what happened.

use std::time::Duration;

use serde_json::json;
use windlass_lifecycle::{Control, Error, ExtraVolume, OperationState, Target};
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, Policies};
use windlass_simulator::{FaultKind, FaultRule};
use windlass_test_guests::{HOSTILE, KEEP_VOLUMES_FOR_INSPECTION};

use crate::support::{World, brief, host_in, run};

#[test]
fn a_rollback_policy_that_fails_or_plans_harm_is_replaced_by_the_default_and_the_operation_says_so() {
    // Compiled once.
    let policies = tempfile::tempdir().unwrap();
    for behaviour in [
        "delete-foreign",
        "cycle",
        "forget-all",
        "trap",
        "huge-answer",
        "invalid-answer",
        "memory-bomb",
        "deep-recursion",
    ] {
        // It misbehaves when its random word is odd, since the host's dry run would refuse it otherwise: some seeds.
        let failed = (51..57).filter(|&seed| run(undone_under(behaviour, seed, policies.path()))).count();
        assert!(failed >= 1, "{behaviour}: it failed only {failed} times");
    }
}

/// A create that fails, undone under a hostile policy. Whether that policy failed.
async fn undone_under(behaviour: &str, seed: u64, policies: &std::path::Path) -> bool {
    let world = World::new(seed).await;
    let host = host_in(policies);
    let link = Link::bytes(HOSTILE.bytes).with_settings(json!({ "behaviour": behaviour, "during": "odd-decisions" }));
    host.configure(&Policies::built_in().with(SlotName::Rollback, link))
        .unwrap_or_else(|error| panic!("{behaviour}: {error}"));
    let lifecycle = world.start_under(host);
    let theirs = world.block_volume_of_a_user().await;
    let mut specification = world.everything();
    specification.volumes.push(ExtraVolume::Existing { id: theirs.clone() });
    let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
    world.simulator.add_fault(refused.nth(1)).unwrap();
    let error = lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
    let Error::Failed(failure) = error else { panic!("{behaviour}: {error}") };
    assert_eq!(failure.state, OperationState::Undone, "{behaviour}: {failure}");
    let resources = world.resources();
    assert_eq!(resources.count(), 1, "{behaviour}: {}", brief(&resources));
    assert_eq!(resources.volumes[0]["id"], theirs.as_str(), "{behaviour}");
    world.assert_closed(&lifecycle, behaviour);
    // The operation says so when the policy failed.
    failure.reasons.iter().any(|reason| reason.contains("hostile") && reason.contains("failed"))
}

#[test]
fn a_retry_policy_that_waits_for_ever_is_bounded_by_the_deadline() {
    run(async {
        let world = World::new(52).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let link = Link::bytes(HOSTILE.bytes)
            .with_settings(json!({ "behaviour": "invalid-answer", "during": "odd-decisions" }));
        host.configure(&Policies::built_in().with(SlotName::Retry, link)).unwrap();
        let lifecycle = world.start_under(host);
        world
            .simulator
            .add_fault(FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::InternalServerError))
            .unwrap();
        let specification = world.everything();
        let deadline = Duration::from_millis(specification.deadline_milliseconds);
        let began = tokio::time::Instant::now();
        let error = lifecycle.create_server(specification, &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.step, "create-ip");
        assert!(began.elapsed() < deadline + Duration::from_secs(60), "{:?}", began.elapsed());
        world.assert_empty("bounded");
    });
}

#[test]
fn volumes_that_a_policy_keeps_are_marked_spared_by_the_sweep_and_go_with_a_cleanup() {
    run(async {
        let world = World::new(53).await;
        let folder = tempfile::tempdir().unwrap();
        let host = host_in(folder.path());
        let link =
            Link::bytes(KEEP_VOLUMES_FOR_INSPECTION.bytes).with_settings(json!({ "classes": ["permission-denied"] }));
        host.configure(&Policies::built_in().with(SlotName::Rollback, link)).unwrap();
        let lifecycle = world.start_under(host.clone());
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
        world.simulator.add_fault(refused.nth(1)).unwrap();
        let error = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.state, OperationState::Kept, "{failure}");
        assert!(failure.to_string().contains("kept block-volume"), "{failure}");
        let resources = world.resources();
        assert_eq!((resources.count(), resources.volumes.len()), (2, 2), "{}", brief(&resources));
        assert_eq!(resources.tagged("windlass-kept").count(), 2);
        let request = windlass_lifecycle::SweepRequest::new(vec![crate::support::zone()]);
        let sweep = lifecycle.sweep(&request, &Control::new()).await.unwrap();
        assert!(sweep.cleanups.is_empty() && sweep.kept.len() == 2, "{sweep:?}");
        host.configure(&Policies::built_in()).unwrap();
        lifecycle.cleanup(&Target::Operation(failure.operation), &Control::new()).await.unwrap();
        world.assert_empty("inspected");
    });
}
