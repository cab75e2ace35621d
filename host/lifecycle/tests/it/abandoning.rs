//! An abandoned operation is neither finished nor undone, and what it named is left alone until somebody removes it.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_lifecycle::{
    AbandonTarget, Abandonment, Control, Error, Event, EventKind, Lifecycle, OperationId, OperationKind,
    OperationState, Report, SweepRequest, Target,
};
use windlass_simulator::ForcedState;

use crate::support::{World, run, zone};

fn by_a_person() -> Abandonment {
    Abandonment { by: "ada".into(), reason: Some("the zone is closed".into()) }
}

/// A sweep that spares nothing because of its age or state.
async fn sweep(lifecycle: &Lifecycle) -> windlass_lifecycle::Sweep {
    let mut request = SweepRequest::new(vec![zone()]);
    request.grace = Duration::ZERO;
    request.running_too = true;
    lifecycle.sweep(&request, &Control::new()).await.unwrap()
}

/// A creation whose process leaves it open when its server is about to be powered on.
async fn left_open(world: &World) -> OperationId {
    let lifecycle = world.start();
    let (control, mut events) = Control::<Event>::with_events();
    let leave = control.clone();
    let leaves = async move {
        while let Some(event) = events.recv().await {
            if matches!(&event.what, EventKind::StepBegan { step } if step == "power-on") {
                leave.leave();
                break;
            }
        }
    };
    let (created, ()) = tokio::join!(lifecycle.create_server(world.everything(), &control), leaves);
    match created {
        Err(Error::LeftOpen { operation }) => operation,
        other => panic!("{other:?}"),
    }
}

fn ids(world: &World) -> BTreeSet<String> {
    let resources = world.resources();
    let all = resources.servers.iter().chain(&resources.ips).chain(&resources.volumes);
    all.map(|resource| resource["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_abandoned_creation_is_left_alone_until_its_server_is_deleted() {
    run(async {
        let world = World::new(1).await;
        let operation = left_open(&world).await;
        let there = ids(&world);
        let lifecycle = world.start();
        let pending = lifecycle.begin_abandon(&operation).await.unwrap();
        let named: BTreeSet<String> = pending.resources().iter().map(|one| one.resource.id.clone()).collect();
        assert_eq!(named, there);
        assert!(pending.resources().iter().all(|one| one.state.is_some() && one.problem.is_none()));
        let closed = pending.run(&by_a_person()).await.unwrap();
        assert_eq!(closed.state, OperationState::Abandoned);
        assert_eq!(closed.reasons, ["abandoned by ada: the zone is closed"]);
        let report: Report = serde_json::from_value(closed.report.unwrap()).unwrap();
        assert_eq!(report.abandoned.into_iter().map(|name| name.id).collect::<BTreeSet<_>>(), there);

        assert!(lifecycle.resume(&Control::new()).await.unwrap().operations.is_empty());
        let swept = sweep(&lifecycle).await;
        assert!(swept.unexplained.is_empty(), "{:?}", swept.unexplained);
        assert_eq!(swept.abandoned.iter().map(|name| name.id.clone()).collect::<BTreeSet<_>>(), there);
        assert_eq!(ids(&world), there);
        assert!(lifecycle.machines(&[zone()], None).await.unwrap()[0].abandoned);
        let again = lifecycle.begin_abandon(&operation).await.unwrap_err();
        assert!(matches!(again, Error::OperationEnded { state: OperationState::Abandoned, .. }), "{again}");

        let id = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        let target = Target::Server { zone: zone(), id };
        assert!(lifecycle.cleanup(&target, &Control::new()).await.unwrap().report.is_clean());
        world.assert_empty("deleted on purpose");
    });
}

#[test]
fn what_an_abandoned_cleanup_names_is_not_swept() {
    run(async {
        let world = World::new(2).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        world.simulator.set_server_state(&created.server.id, ForcedState::Locked).unwrap();
        let target = Target::Operation(created.operation.clone());
        let cleaned = lifecycle.cleanup(&target, &Control::new()).await.unwrap();
        assert!(!cleaned.report.is_clean());
        lifecycle.begin_abandon(&cleaned.operation).await.unwrap().run(&by_a_person()).await.unwrap();
        assert!(lifecycle.machines(&[zone()], None).await.unwrap()[0].abandoned);
        let swept = sweep(&lifecycle).await;
        assert_eq!((swept.abandoned.len(), swept.explained), (ids(&world).len(), 0), "{swept:?}");
        // Scaleway takes the server away, and not what was attached to it.
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let there = ids(&world);
        assert!(!there.is_empty());
        assert!(lifecycle.resume(&Control::new()).await.unwrap().operations.is_empty());
        let swept = sweep(&lifecycle).await;
        assert!(swept.unexplained.is_empty(), "{:?}", swept.unexplained);
        assert_eq!(ids(&world), there);
        assert!(lifecycle.cleanup(&target, &Control::new()).await.unwrap().report.is_clean());
        world.assert_empty("deleted on purpose");
    });
}

#[test]
fn a_server_whose_creation_ended_well_is_let_go_with_its_parts() {
    run(async {
        let world = World::new(6).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let (server, creation) = (created.server.id.clone(), created.operation.clone());
        let target =
            AbandonTarget::Server { zone: zone(), creation: Some(creation.clone()), server: Some(server.clone()) };
        let abandoned = lifecycle.abandon_machine(&target, &by_a_person()).await.unwrap();
        let states: Vec<_> = abandoned.iter().map(|one| (one.kind, one.state)).collect();
        assert_eq!(states, [(OperationKind::CleanupServer, OperationState::Abandoned)]);
        assert!(lifecycle.abandon_machine(&target, &by_a_person()).await.unwrap().is_empty(), "it is let go already");
        world.simulator.set_server_state(&server, ForcedState::Deleted).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let there = ids(&world);
        let swept = sweep(&lifecycle).await;
        assert!(swept.unexplained.is_empty(), "{:?}", swept.unexplained);
        assert_eq!(swept.abandoned.iter().map(|name| name.id.clone()).collect::<BTreeSet<_>>(), there);
        assert!(lifecycle.resume(&Control::new()).await.unwrap().operations.is_empty());
        lifecycle.cleanup(&Target::Operation(creation), &Control::new()).await.unwrap();
        world.assert_empty("deleted on purpose");
    });
}

#[test]
fn an_operation_that_somebody_works_on_cannot_be_abandoned() {
    run(async {
        let world = World::new(3).await;
        let (working, other) = (world.start(), world.start());
        let pending = working.begin_create(world.everything()).await.unwrap();
        for lifecycle in [&working, &other] {
            let refused = lifecycle.begin_abandon(pending.id()).await.unwrap_err();
            assert!(matches!(refused, Error::OperationRunning { .. }), "{refused}");
        }
        let created = pending.run(&Control::new()).await.unwrap();
        let ended = other.begin_abandon(&created.operation).await.unwrap_err();
        assert!(matches!(ended, Error::OperationEnded { state: OperationState::Done, .. }), "{ended}");
    });
}

#[test]
fn an_operation_that_was_taken_over_meanwhile_is_not_abandoned() {
    run(async {
        let world = World::new(4).await;
        let operation = left_open(&world).await;
        let lifecycle = world.start();
        let pending = lifecycle.begin_abandon(&operation).await.unwrap();
        assert!(world.start().resume(&Control::new()).await.unwrap().is_clean());
        let refused = pending.run(&by_a_person()).await.unwrap_err();
        assert!(matches!(refused, Error::OperationRunning { .. } | Error::OperationEnded { .. }), "{refused}");
        assert_ne!(lifecycle.journal().operation(&operation).unwrap().state, OperationState::Abandoned);
    });
}

#[test]
fn how_long_a_creation_took_stays_when_its_server_is_removed() {
    run(async {
        let world = World::new(5).await;
        let lifecycle = world.start();
        let created = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let took = || lifecycle.journal().operation(&created.operation).unwrap().took().unwrap();
        let before = took();
        assert!((1_000..60_000).contains(&before), "{before}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        lifecycle.cleanup(&Target::Operation(created.operation.clone()), &Control::new()).await.unwrap();
        assert_eq!(took(), before);
        assert!(lifecycle.journal().operation(&created.operation).unwrap().ended_by.is_some());
    });
}
