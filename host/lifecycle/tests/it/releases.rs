//! Servers that are released: whether the release policy lets them go, and for how long what it says counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_lifecycle::{
    Asking, CleanupRequest, Control, CreatedServer, Lifecycle, OperationFilter, OperationKind, OperationState,
    ReleaseOutcome, Released, Removal, Report, RequestedBy, SweepRequest, Target,
};
use windlass_policy::slots::release::Trigger;
use windlass_policy::slots::{OnFailure, SlotName};
use windlass_policy::{DecisionFilter, Host, Link, Policies};
use windlass_simulator::{FaultKind, FaultRule, ForcedState};

use crate::support::{World, host_in, run, zone};

const KEEP: &str = "when = \"true\"\nanswer = \"keep\"\nreason = \"the audit is not over\"";

/// A host whose release policy consists of these rules.
fn host_with(world: &World, rules: &str, on_failure: Option<OnFailure>) -> Arc<Host> {
    let folder = world.folder.path().join("policies");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("team.rules.toml");
    std::fs::write(&file, format!("slot = \"release\"\n[[rules]]\n{rules}\n")).unwrap();
    let host = host_in(&folder);
    let mut link = Link::file(file);
    link.on_failure = on_failure;
    host.configure(&Policies::built_in().with(SlotName::Release, link)).unwrap();
    host
}

fn release_of(created: &CreatedServer) -> CleanupRequest {
    let target = Target::Operation(created.operation.clone());
    target.released_by(RequestedBy::user("server delete"), Asking::default())
}

async fn release(lifecycle: &Lifecycle, created: &CreatedServer) -> Released {
    lifecycle.release(release_of(created), &Control::new()).await.unwrap()
}

async fn create(world: &World, lifecycle: &Lifecycle) -> CreatedServer {
    lifecycle.create_server(world.everything(), &Control::new()).await.unwrap()
}

fn decisions(host: &Host) -> usize {
    let mut filter = DecisionFilter::default();
    filter.slot = Some(SlotName::Release);
    host.decisions().unwrap().list(&filter).unwrap().decisions.len()
}

fn servers(world: &World) -> usize {
    world.simulator.resources().servers.len()
}

#[test]
fn a_kept_server_stays_over_sweeps_rounds_and_restarts_until_forced() {
    run(async {
        let world = World::new(71).await;
        let host = host_with(&world, KEEP, None);
        let lifecycle = world.start_under(Arc::clone(&host));
        let created = create(&world, &lifecycle).await;
        let released = release(&lifecycle, &created).await;
        assert_eq!(released.outcome, ReleaseOutcome::Kept, "{released:?}");
        let words = released.words();
        assert!(words.contains("kept") && words.contains("the audit is not over"), "{words}");
        let row = lifecycle.journal().operation(&released.operation.unwrap()).unwrap();
        assert_eq!(row.state, OperationState::Kept);
        assert_eq!(decisions(&host), 1);
        drop(lifecycle);

        // Later the policy is another one, and the mark on the server is gone.
        let next = world.start();
        next.resume(&Control::new()).await.unwrap();
        let sweep = next.sweep(&SweepRequest::new(vec![zone()]), &Control::new()).await.unwrap();
        assert!(sweep.unexplained.is_empty() && sweep.cleanups.is_empty(), "{sweep:?}");
        assert!(next.machines(&[zone()], None).await.unwrap().iter().all(|machine| machine.kept));
        let again = release(&next, &created).await;
        assert_eq!(again.outcome, ReleaseOutcome::Kept, "{again:?}");
        assert_eq!(servers(&world), 1);
        let mut forced = release_of(&created);
        forced.removal = Removal::Force;
        let forced = next.release(forced, &Control::new()).await.unwrap();
        assert!(forced.report.unwrap().is_clean());
        world.assert_closed(&next, "forced");
        assert_eq!(servers(&world), 0);
        let row = next.journal().operation(&forced.operation.unwrap()).unwrap();
        assert_eq!(row.specification["removal"]["decided_by"], "force", "{}", row.specification);
    });
}

#[test]
fn a_release_is_asked_for_again_when_the_policy_said_and_not_before() {
    run(async {
        let world = World::new(72).await;
        let host = host_with(&world, "when = \"attempt < 3\"\nanswer = { retry-after = 600000 }", None);
        let lifecycle = world.start_under(Arc::clone(&host));
        let created = create(&world, &lifecycle).await;
        let released = release(&lifecycle, &created).await;
        assert_eq!(released.outcome, ReleaseOutcome::AskAgain { after: 600_000 }, "{released:?}");
        let id = released.operation.unwrap();
        for (minutes, asked, state) in
            [(5, 1, OperationState::Left), (6, 2, OperationState::Left), (30, 3, OperationState::Done)]
        {
            assert_eq!(lifecycle.journal().operation(&id).unwrap().state, OperationState::Left);
            tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
            lifecycle.resume(&Control::new()).await.unwrap();
            assert_eq!((decisions(&host), lifecycle.journal().operation(&id).unwrap().state), (asked, state));
        }
        assert_eq!(servers(&world), 0);
    });
}

#[test]
fn a_release_whose_policy_is_lost_waits_until_it_is_back() {
    run(async {
        let world = World::new(80).await;
        let folder = world.folder.path().join("policies");
        let lifecycle =
            world.start_under(host_with(&world, "when = \"true\"\nanswer = { retry-after = 600000 }", None));
        let created = create(&world, &lifecycle).await;
        let id = release(&lifecycle, &created).await.operation.unwrap();
        drop(lifecycle);
        let (kept, away) = (folder.join("policies"), folder.join("away"));
        std::fs::rename(&kept, &away).unwrap();
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        // It is not configured any more, and the default would delete the server.
        let next = world.start_under(host_in(&folder));
        let resumed = next.resume(&Control::new()).await.unwrap();
        let problem = resumed.operations[0].problem.clone().unwrap();
        assert!(problem.contains("waits for a policy that it started with"), "{problem}");
        assert!(problem.contains(&format!("windlass operation abandon {id}")), "{problem}");
        assert_eq!(servers(&world), 1);
        drop(next);

        std::fs::remove_dir_all(&kept).unwrap();
        std::fs::rename(&away, &kept).unwrap();
        let host = host_in(&folder);
        let next = world.start_under(Arc::clone(&host));
        let asked = decisions(&host);
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!((&resumed.operations[0].problem, resumed.operations[0].state), (&None, OperationState::Left));
        assert_eq!((decisions(&host), servers(&world)), (asked + 1, 1));
    });
}

#[test]
fn a_removal_that_waits_is_tried_when_somebody_asks_for_it_and_closes_with_a_later_one() {
    for way in ["unlocked", "unlocked, removed by another", "gone", "gone, of a policy that waits"] {
        run(async {
            let world = World::new(79).await;
            let waits = "when = \"true\"\nanswer = { retry-after = 3600000 }";
            let lifecycle = match way.contains("policy") {
                true => world.start_under(host_with(&world, waits, None)),
                false => world.start(),
            };
            let created = create(&world, &lifecycle).await;
            let id = created.server.id.as_str();
            world.simulator.set_server_state(id, ForcedState::Locked).unwrap();
            let waiting = release(&lifecycle, &created).await.operation.unwrap();
            let row = || lifecycle.journal().operation(&waiting).unwrap();
            let left = || -> BTreeSet<String> {
                let report: Report = serde_json::from_value(row().report.unwrap()).unwrap();
                report.left.into_iter().map(|left| left.resource.id).collect()
            };
            let whole = left();
            assert!(whole.len() > 1 && whole.contains(id), "{way}: {whole:?}");
            lifecycle.resume(&Control::new()).await.unwrap();
            assert_eq!((row().state, left()), (OperationState::Left, whole), "{way}");

            let state = if way.starts_with("gone") { ForcedState::Deleted } else { ForcedState::Running };
            world.simulator.set_server_state(id, state).unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            if way.contains("another") {
                let other = release(&lifecycle, &created).await.operation;
                assert_eq!((other.as_ref(), row().ended_by), (Some(&waiting), None), "{way}: it goes on");
            } else {
                lifecycle.resume(&Control::new()).await.unwrap();
            }
            assert_eq!(row().state, OperationState::Done, "{way}");
            world.assert_closed(&lifecycle, way);
            world.assert_empty(way);
        });
    }
}

#[test]
fn a_refused_removal_is_put_to_the_policy_which_may_keep_the_server() {
    run(async {
        let world = World::new(73).await;
        let rules = "when = \"refusal.action == 'terminate' && refusal.failure.class == 'permission-denied'\"\n\
                     answer = \"keep\"";
        let host = host_with(&world, rules, None);
        let lifecycle = world.start_under(Arc::clone(&host));
        let created = create(&world, &lifecycle).await;
        let denied = FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", FaultKind::PermissionDenied);
        world.simulator.add_fault(denied).unwrap();
        let released = release(&lifecycle, &created).await;
        assert_eq!(released.outcome, ReleaseOutcome::Kept, "{released:?}");
        assert_eq!((decisions(&host), servers(&world)), (2, 1));
    });
}

#[test]
fn a_failing_policy_is_followed_by_the_default_or_keeps_as_configured() {
    run(async {
        // Divides by zero for this type alone, so that it can be loaded.
        let rules = "when = \"1 / (size(machine.machine_type) - 6) > 0\"\nanswer = \"keep\"";
        for (on_failure, expected, left) in [
            (None, ReleaseOutcome::Terminated, 0),
            (Some(OnFailure::Keep), ReleaseOutcome::AskAgain { after: 60_000 }, 1),
        ] {
            let world = World::new(74).await;
            let host = host_with(&world, rules, on_failure);
            let lifecycle = world.start_under(host);
            let created = create(&world, &lifecycle).await;
            let released = release(&lifecycle, &created).await;
            assert_eq!(released.outcome, expected, "{released:?}");
            assert_eq!(released.policy_failures.len(), 1, "{released:?}");
            assert_eq!(servers(&world), left);
        }
    });
}

#[test]
fn nobody_is_asked_about_a_server_that_is_gone_and_its_rest_is_removed() {
    run(async {
        let world = World::new(75).await;
        let host = host_with(&world, KEEP, None);
        let lifecycle = world.start_under(Arc::clone(&host));
        let created = create(&world, &lifecycle).await;
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let released = release(&lifecycle, &created).await;
        assert_eq!(released.outcome, ReleaseOutcome::AlreadyGone, "{released:?}");
        assert_eq!(decisions(&host), 0);
        world.assert_closed(&lifecycle, "gone");
    });
}

#[test]
fn what_was_answered_counts_after_a_crash_and_is_not_asked_again() {
    run(async {
        let world = World::new(76).await;
        let host = host_with(&world, KEEP, None);
        let dying = world.start_under(Arc::clone(&host));
        let created = create(&world, &dying).await;
        // It dies before it can mark what it keeps.
        let late =
            FaultRule::new("PATCH", "/instance/v1/zones/*/servers/*", FaultKind::Delay(Duration::from_secs(3_600)));
        world.simulator.add_fault(late).unwrap();
        let control = Control::new();
        let pending = dying.begin_cleanup(release_of(&created)).await.unwrap();
        let id = pending.id().clone();
        let died = tokio::time::timeout(Duration::from_secs(60), pending.run(&control)).await;
        assert!(died.is_err(), "{died:?}");
        drop(dying);
        world.simulator.clear_faults();
        let next = world.start_under(Arc::clone(&host));
        next.resume(&Control::new()).await.unwrap();
        assert_eq!(next.journal().operation(&id).unwrap().state, OperationState::Kept);
        assert_eq!((decisions(&host), servers(&world)), (1, 1));
    });
}

#[test]
fn an_unhealthy_server_is_restarted_in_the_journal_or_given_up_untouched() {
    run(async {
        let world = World::new(77).await;
        let lifecycle = world.start();
        let created = create(&world, &lifecycle).await;
        let target = Target::Server { zone: zone(), id: created.server.id.clone() };
        let judge = |bootstrap_failures, rebooted| {
            let asking =
                Asking { trigger: Trigger::BootstrapFailed, bootstrap_failures, rebooted, ..Asking::default() };
            let request = target.clone().released_by(RequestedBy::default(), asking);
            async { lifecycle.release(request, &Control::new()).await.unwrap().outcome }
        };
        assert_eq!(judge(1, false).await, ReleaseOutcome::Kept);
        assert_eq!(judge(3, false).await, ReleaseOutcome::Rebooted);
        assert_eq!(judge(8, true).await, ReleaseOutcome::GivenUp);
        let mut filter = OperationFilter::default();
        filter.kind = Some(OperationKind::ReleaseMachine);
        let restarts = lifecycle.journal().operations(&filter).unwrap();
        assert_eq!(restarts.len(), 1, "{restarts:?}");
        assert_eq!(restarts[0].state, OperationState::Done);
        assert_eq!(servers(&world), 1);
    });
}
