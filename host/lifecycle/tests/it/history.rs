//! State directories that were copied or restored, and clocks that were ahead.

use std::path::Path;
use std::time::Duration;

use windlass_lifecycle::{
    Clock, Control, Durability, Error, Lifecycle, OperationId, OperationState, Options, StateDirectory, SweepRequest,
    Target,
};
use windlass_scaleway::types::instance::CreateServer;
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{NOW, World, host, owner, run, zone};

/// As `cp -a` does.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A creation that is left open with its server made and not powered on.
async fn half_made(world: &World) -> OperationId {
    let lifecycle = world.start();
    let lost = FaultRule::new("PATCH", "/instance/v1/zones/*/servers/*/user_data/*", FaultKind::DroppedConnection);
    world.simulator.add_fault(lost).unwrap();
    let control = Control::new();
    let leaving = control.clone();
    let leave = async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        leaving.leave();
    };
    let pending = lifecycle.begin_create(world.everything()).await.unwrap();
    let id = pending.id().clone();
    let (result, ()) = tokio::join!(pending.run(&control), leave);
    assert!(matches!(result, Err(Error::LeftOpen { .. })), "{result:?}");
    world.simulator.clear_faults();
    assert_eq!(world.resources().servers.len(), 1);
    id
}

async fn act(world: &World, action: &str) {
    let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
    let path = format!("/instance/v1/zones/fr-par-1/servers/{server}/action");
    let body = format!(r#"{{"action":"{action}"}}"#);
    world.client.send_raw("POST", &path, Some(body.into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
}

#[test]
fn a_server_that_runs_and_was_never_called_off_is_not_undone() {
    run(async {
        let world = World::new(71).await;
        let id = half_made(&world).await;
        act(&world, "poweron").await;
        let before = world.resources();
        let next = world.start();
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations.len(), 1);
        assert_eq!(resumed.operations[0].state, OperationState::Left);
        let report = resumed.operations[0].report.as_ref().unwrap();
        assert!(report.words().contains("not by this journal"), "{}", report.words());
        // Also once its user has stopped it: it is not ours to judge any more.
        act(&world, "poweroff").await;
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations[0].state, OperationState::Left);
        let after = world.resources();
        assert_eq!((after.servers.len(), after.ips.len(), after.volumes.len()), (1, 2, 2));
        assert_eq!(before.count(), after.count());
        // Neither does a sweep take it for what a failed creation left.
        let mut everything = SweepRequest::new(vec![zone()]);
        everything.grace = Duration::ZERO;
        let swept = next.sweep(&everything, &Control::new()).await.unwrap();
        assert!(swept.cleanups.is_empty() && swept.unexplained.iter().all(|it| it.spared.is_some()), "{swept:?}");
        assert_eq!(world.resources().count(), before.count());
        // Whoever wants it gone says so.
        let cleaned = next.cleanup(&Target::Operation(id), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("deleted");
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations[0].state, OperationState::Undone);
        world.assert_closed(&next, "deleted");
    });
}

#[test]
fn a_restored_directory_is_only_read_until_it_is_taken_over() {
    run(async {
        let world = World::new(72).await;
        let id = half_made(&world).await;
        let backup = tempfile::tempdir().unwrap();
        copy(world.folder.path(), backup.path());
        act(&world, "poweron").await;
        std::fs::remove_dir_all(world.folder.path()).unwrap();
        copy(backup.path(), world.folder.path());
        let before = world.resources().count();
        let restored = world.start();
        let refused = |error: Error| {
            let words = error.to_string();
            assert!(matches!(error, Error::HistoryMoved { .. }), "{words}");
            assert!(words.contains("take-over") && words.contains("another owner"), "{words}");
        };
        refused(restored.check_history().unwrap_err());
        refused(restored.resume(&Control::new()).await.unwrap_err());
        refused(restored.create_server(world.everything(), &Control::new()).await.unwrap_err());
        let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        let target = Target::Server { zone: zone(), id: server };
        refused(restored.cleanup(&target, &Control::new()).await.unwrap_err());
        refused(restored.begin_abandon(&id).await.unwrap_err());
        refused(restored.cancel(&id, "somebody").await.unwrap_err());
        let mut sweep = SweepRequest::new(vec![zone()]);
        refused(restored.sweep(&sweep, &Control::new()).await.unwrap_err());
        sweep.dry_run = true;
        restored.sweep(&sweep, &Control::new()).await.unwrap();
        assert_eq!(restored.journal().operations(&Default::default()).unwrap().len(), 1, "it can be read");
        drop(restored);
        StateDirectory::open(world.folder.path()).unwrap().take_history_over(NOW).unwrap();
        let next = world.start();
        next.check_history().unwrap();
        let resumed = next.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations[0].state, OperationState::Left);
        assert_eq!(world.resources().count(), before);
        next.create_server(world.everything(), &Control::new()).await.unwrap();
        assert_eq!(world.resources().servers.len(), 2);
    });
}

#[test]
fn a_removal_by_operation_finds_what_was_made_after_the_backup() {
    run(async {
        let world = World::new(77).await;
        let lifecycle = world.start();
        let pending = lifecycle.begin_create(world.everything()).await.unwrap();
        let id = pending.id().clone();
        let backup = tempfile::tempdir().unwrap();
        copy(world.folder.path(), backup.path());
        pending.run(&Control::new()).await.unwrap();
        drop(lifecycle);
        std::fs::remove_dir_all(world.folder.path()).unwrap();
        copy(backup.path(), world.folder.path());
        StateDirectory::open(world.folder.path()).unwrap().take_history_over(NOW + 7_200_000).unwrap();
        let restored = world.start();
        restored.resume(&Control::new()).await.unwrap();
        assert_eq!(world.resources().servers.len(), 1, "what this journal did not make is only told");
        let cleaned = restored.cleanup(&Target::Operation(id), &Control::new()).await.unwrap();
        assert!(cleaned.report.is_clean(), "{}", cleaned.report.words());
        world.assert_empty("deleted by its operation");
    });
}

/// The file stays the same one, as it does where a whole disk is rolled back.
fn set_back(world: &World, journal: &[u8]) {
    std::fs::write(world.folder.path().join("journal.sqlite"), journal).unwrap();
    for file in ["journal.sqlite-wal", "journal.sqlite-shm"] {
        let _ = std::fs::remove_file(world.folder.path().join(file));
    }
}

#[test]
fn a_directory_that_was_set_back_with_nothing_open_sweeps_nothing() {
    run(async {
        let world = World::new(78).await;
        let journal = world.folder.path().join("journal.sqlite");
        drop(world.start());
        let empty = std::fs::read(&journal).unwrap();
        world.start().create_server(world.everything(), &Control::new()).await.unwrap();
        let earlier = std::fs::read(&journal).unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.start().create_server(world.everything(), &Control::new()).await.unwrap();
        let before = world.resources().count();
        for state in [&earlier, &empty] {
            set_back(&world, state);
            let restored = world.start();
            let mut sweep = SweepRequest::new(vec![zone()]);
            (sweep.grace, sweep.running_too, sweep.dry_run) = (Duration::ZERO, true, true);
            let seen = restored.sweep(&sweep, &Control::new()).await.unwrap();
            assert!(seen.moved.is_some_and(|evidence| evidence.contains("set back")));
            sweep.dry_run = false;
            let error = restored.sweep(&sweep, &Control::new()).await.unwrap_err();
            assert!(matches!(error, Error::HistoryMoved { .. }), "{error}");
            assert_eq!(world.resources().count(), before);
        }
    });
}

/// A server, and the journal before a second one was made.
async fn made_twice(world: &World) -> Vec<u8> {
    world.start().create_server(world.everything(), &Control::new()).await.unwrap();
    let earlier = std::fs::read(world.folder.path().join("journal.sqlite")).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.start().create_server(world.everything(), &Control::new()).await.unwrap();
    earlier
}

#[test]
fn a_directory_that_was_set_back_deletes_nothing() {
    run(async {
        let world = World::new(81).await;
        let earlier = made_twice(&world).await;
        let before = world.resources().count();
        set_back(&world, &earlier);
        let restored = world.start();
        restored.check_history().unwrap();
        let id = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        let error = restored.cleanup(&Target::Server { zone: zone(), id }, &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::HistoryMoved { .. }), "{error}");
        assert_eq!(world.resources().count(), before);
    });
}

#[test]
fn a_creation_after_a_directory_was_set_back_hides_nothing() {
    run(async {
        let world = World::new(79).await;
        let earlier = made_twice(&world).await;
        set_back(&world, &earlier);
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.start().create_server(world.everything(), &Control::new()).await.unwrap();
        let state = StateDirectory::open(world.folder.path()).unwrap();
        assert_eq!(state.moved().unwrap(), None, "nobody has seen it yet");
        let seen = state.set_back_in(&owner(), &world.client, &zone()).await.unwrap().unwrap();
        assert!(seen.contains("set back"), "{seen}");
        let mut sweep = SweepRequest::new(vec![zone()]);
        (sweep.grace, sweep.running_too) = (Duration::ZERO, true);
        let error = world.start().sweep(&sweep, &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::HistoryMoved { .. }), "{error}");
        // The journal tells the next process, and one that only reads, without another look at Scaleway.
        assert_eq!(state.moved().unwrap().as_ref(), Some(&seen));
        assert!(matches!(world.start().check_history(), Err(Error::HistoryMoved { .. })));
        assert_eq!(world.resources().servers.len(), 3);
        state.take_history_over(NOW).unwrap();
        assert_eq!(state.moved().unwrap(), None);
        world.start().check_history_in(&[zone()]).await.unwrap();
    });
}

#[test]
fn a_server_whose_operation_was_forgotten_shows_no_later_state() {
    run(async {
        let world = World::new(80).await;
        let lifecycle = world.start();
        let made = lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let instance = world.client.instance(&zone());
        let original = instance.get_server(&made.server.id).await.unwrap();
        let target = Target::Server { zone: zone(), id: made.server.id.clone() };
        lifecycle.cleanup(&target, &Control::new()).await.unwrap();
        assert_eq!(lifecycle.journal().prune(u64::MAX).await.unwrap(), 2);
        // Somebody makes a server with all its tags.
        let copy = CreateServer {
            name: "copy".into(),
            commercial_type: original.commercial_type.clone(),
            image: original.image.as_ref().map(|image| image.id.clone()),
            tags: original.tags.clone(),
            ..CreateServer::default()
        };
        instance.create_server(&copy).await.unwrap();
        lifecycle.check_history_in(&[zone()]).await.unwrap();
    });
}

#[test]
fn a_directory_that_was_set_back_in_place_takes_nothing_over() {
    run(async {
        let world = World::new(74).await;
        half_made(&world).await;
        let earlier = std::fs::read(world.folder.path().join("journal.sqlite")).unwrap();
        let later = world.start();
        assert_eq!(later.resume(&Control::new()).await.unwrap().operations[0].state, OperationState::Undone);
        tokio::time::sleep(Duration::from_secs(10)).await;
        later.create_server(world.everything(), &Control::new()).await.unwrap();
        drop(later);
        let before = world.resources().count();
        set_back(&world, &earlier);
        let restored = world.start();
        restored.check_history().unwrap();
        let error = restored.resume(&Control::new()).await.unwrap_err();
        let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        assert!(error.to_string().contains(&server), "{error}");
        let error = restored.create_server(world.everything(), &Control::new()).await.unwrap_err();
        assert!(matches!(error, Error::HistoryMoved { .. }), "{error}");
        drop(restored);
        StateDirectory::open(world.folder.path()).unwrap().take_history_over(NOW).unwrap();
        let next = world.start();
        assert_eq!(next.resume(&Control::new()).await.unwrap().operations[0].state, OperationState::Undone);
        assert_eq!(world.resources().count(), before);
    });
}

fn start_at(world: &World, now: u64) -> Lifecycle {
    let state = StateDirectory::open(world.folder.path()).unwrap();
    let mut options = Options::new(world.client.clone(), host(), state);
    options.owner = Some(owner());
    options.durability = Durability::Process;
    options.clock = Clock::simulated(now);
    options.seed = Some(now);
    Lifecycle::open(options).unwrap()
}

#[test]
fn a_clock_that_was_a_year_behind_does_not_spare_the_second_look() {
    run(async {
        let world = World::new(75).await;
        let behind = start_at(&world, NOW - 365 * 24 * 3_600_000);
        let slow = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::Delay(Duration::from_secs(60)));
        world.simulator.add_fault(slow).unwrap();
        let control = Control::new();
        let creating = behind.create_server(world.everything(), &control);
        tokio::time::timeout(Duration::from_secs(1), creating).await.expect_err("it waits for its first answer");
        drop(behind);
        let right = start_at(&world, NOW);
        let resumed = right.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations[0].state, OperationState::Unverified);
        let look_at = resumed.unverified[0].look_at;
        assert!((NOW + 600_000..NOW + 640_000).contains(&look_at), "{look_at}");
    });
}

#[test]
fn a_clock_that_was_a_year_ahead_does_not_put_the_second_look_off() {
    run(async {
        let world = World::new(73).await;
        let ahead = start_at(&world, NOW + 365 * 24 * 3_600_000);
        // The answer of each try is lost, and none has taken effect yet.
        let lost = FaultRule::new("POST", "/instance/v1/zones/*/ips", FaultKind::DroppedConnection);
        world.simulator.add_fault(FaultRule { effect: Effect::Before, ..lost }).unwrap();
        let failed = ahead.create_server(world.everything(), &Control::new()).await.unwrap_err();
        let Error::Failed(failure) = failed else { panic!("{failed}") };
        assert_eq!(failure.state, OperationState::Unverified);
        world.simulator.clear_faults();
        drop(ahead);
        let right = start_at(&world, NOW);
        let resumed = right.resume(&Control::new()).await.unwrap();
        assert!(resumed.unverified.iter().all(|it| it.look_at <= NOW + 3_600_000), "{:?}", resumed.unverified);
        assert_eq!(resumed.operations.len(), 1, "it is looked at now");
        tokio::time::sleep(Duration::from_secs(700)).await;
        let resumed = right.resume(&Control::new()).await.unwrap();
        assert_eq!(resumed.operations[0].state, OperationState::Undone);
    });
}
