//! Servers whose journal is lost.

use windlass_lifecycle::{Control, Error, OperationId, OperationState, Target};
use windlass_simulator::{FaultKind, FaultRule};

use crate::support::{World, run, zone};

#[test]
fn a_server_is_found_by_its_operation_when_the_journal_is_lost_and_cleaned_up_with_all_that_is_its() {
    run(async {
        let world = World::new(62).await;
        let lifecycle = world.start();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let operation = pending.id().clone();
        let created = pending.run(&Control::new()).await.unwrap();
        drop(lifecycle);
        std::fs::remove_dir_all(world.folder.path()).unwrap();
        let next = world.start();
        assert!(next.journal().operations(&Default::default()).unwrap().is_empty(), "the journal is lost");
        let found = next.find_created(&zone(), &operation).await.unwrap().unwrap();
        assert_eq!(found.id, created.server.id);
        let other = OperationId::parse("ci-k3v9q20mfz7a").unwrap();
        assert!(next.find_created(&zone(), &other).await.unwrap().is_none());
        let target = Target::Tagged { zone: zone(), operation };
        let cleaned = next.cleanup(&target, &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("cleaned up");
        world.assert_closed(&next, "cleaned up");
        // Once more: there is nothing.
        next.cleanup(&target, &Control::new()).await.unwrap();
    });
}

#[test]
fn what_a_half_creation_left_is_cleaned_up_by_its_tag_without_a_server_and_without_a_journal() {
    run(async {
        let world = World::new(63).await;
        let lifecycle = world.start();
        // Dies while it orders the server: two addresses and a volume are there.
        world
            .simulator
            .add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::DroppedConnection))
            .unwrap();
        let control = Control::new();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let operation = pending.id().clone();
        let leaving = control.clone();
        let leave = async move {
            tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            leaving.leave();
        };
        let (result, ()) = tokio::join!(pending.run(&control), leave);
        assert!(matches!(result, Err(Error::LeftOpen { .. })), "{result:?}");
        world.simulator.clear_faults();
        drop(lifecycle);
        assert!(world.resources().count() >= 2);
        std::fs::remove_dir_all(world.folder.path()).unwrap();
        let next = world.start();
        let target = Target::Tagged { zone: zone(), operation };
        let cleaned = next.cleanup(&target, &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("cleaned up");
        let row = next.journal().operation(&cleaned.operation).unwrap();
        assert_eq!(row.state, OperationState::Done);
    });
}
