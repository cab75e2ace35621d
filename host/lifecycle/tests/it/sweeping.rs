//! What is ours and unexplained.

use windlass_lifecycle::{Control, LastSweep, SweepRequest};
use windlass_scaleway::types::instance::CreateIp;
use windlass_simulator::{Behaviour, Effect, FaultKind, FaultRule, ForcedState};

use crate::support::{HOUR, World, run, zone};

fn here() -> SweepRequest {
    SweepRequest::new(vec![zone()])
}

/// What the last sweep has kept for whoever looks from outside.
fn last(world: &World) -> LastSweep {
    let sweeps = LastSweep::read(&world.state()).unwrap();
    assert_eq!(sweeps.len(), 1, "{sweeps:?}");
    assert_eq!(sweeps[0].zone, zone().to_string());
    sweeps.into_iter().next().unwrap()
}

async fn make_ip(world: &World, tags: &[&str]) -> String {
    world
        .client
        .instance(&zone())
        .create_ip(&CreateIp { tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..CreateIp::default() })
        .await
        .unwrap()
        .id
}

#[test]
fn a_live_machine_is_explained_and_what_a_deleted_one_left_is_swept() {
    run(async {
        let world = World::new(41).await;
        let lifecycle = world.start();
        let control = Control::new();
        let created = lifecycle.create_server(world.everything(), &control).await.unwrap();
        let sweep = lifecycle.sweep(&here(), &control).await.unwrap();
        assert!(sweep.unexplained.is_empty(), "{sweep:?}");
        assert_eq!(sweep.explained, 5, "one server, two addresses, two volumes");
        let machines = lifecycle.machines(&[zone()], None).await.unwrap();
        assert_eq!(machines.len(), 1);
        assert_eq!(machines[0].operation.as_ref(), Some(&created.operation));
        // Somebody deletes the server in the console.
        world.simulator.set_server_state(&created.server.id, ForcedState::Deleted).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let mut dry = here();
        dry.dry_run = true;
        let seen = lifecycle.sweep(&dry, &control).await.unwrap();
        assert_eq!(seen.unexplained.len(), 4, "{seen:?}");
        assert_eq!(world.resources().count(), 4, "a dry run changed something");
        let kept = last(&world);
        assert!(kept.dry_run && kept.at > 0, "{kept:?}");
        assert_eq!((kept.unexplained, kept.removed, kept.examples.len()), (4, 0, 4), "{kept:?}");
        // Called off, it begins nothing.
        let called_off = Control::new();
        called_off.cancel();
        let begun = lifecycle.sweep(&here(), &called_off).await.unwrap();
        assert!(begun.cleanups.is_empty() && !begun.is_clean(), "{begun:?}");
        assert_eq!(world.resources().count(), 4);
        let sweep = lifecycle.sweep(&here(), &control).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_eq!(sweep.cleanups.len(), 1);
        let replaced = last(&world);
        assert!(!replaced.dry_run && replaced.at >= kept.at, "{replaced:?}");
        assert_eq!((replaced.unexplained, replaced.removed), (0, 4), "{replaced:?}");
        assert!(replaced.examples.is_empty(), "{replaced:?}");
        world.assert_empty("swept");
        world.assert_closed(&lifecycle, "swept");
    });
}

#[test]
fn a_server_that_came_up_while_the_sweep_was_listing_keeps_its_addresses() {
    run(async {
        let world = World::new(43).await;
        let lifecycle = world.start();
        let control = Control::new();
        // The list of addresses takes longer than a whole creation, the list of servers no time at all.
        world
            .simulator
            .add_fault(FaultRule {
                method: Some("GET".into()),
                path: "/instance/v1/zones/*/ips".to_owned(),
                nth: Some(1),
                kind: FaultKind::Delay(std::time::Duration::from_secs(25)),
                effect: Effect::Before,
            })
            .unwrap();
        let request = here();
        let (sweep, created) =
            tokio::join!(lifecycle.sweep(&request, &control), lifecycle.create_server(world.everything(), &control));
        let (sweep, created) = (sweep.unwrap(), created.unwrap());
        assert!(sweep.unexplained.is_empty(), "{sweep:?}");
        let server = world.client.instance(&zone()).get_server(&created.server.id).await.unwrap();
        assert_eq!(server.public_ips.len(), 2);
    });
}

#[test]
fn the_sweep_leaves_strangers_the_kept_and_the_young_alone() {
    run(async {
        let world = World::new(42).await;
        let lifecycle = world.start();
        let control = Control::new();
        // Ids of operations that this journal does not know: one of an hour and more ago, one of now.
        let old = "windlass-operation=ci-000000000000";
        let now = {
            let pending = world.start().begin_create(world.everything()).await.unwrap();
            let id = pending.id().to_string();
            // Another owner's journal would have it; ours forgets it with this digit.
            let last = if id.ends_with('0') { '1' } else { '0' };
            format!("windlass-operation={}{last}", &id[..id.len() - 1])
        };
        let stranger = make_ip(&world, &["windlass-owner=other", old]).await;
        let nobody = make_ip(&world, &["role=web"]).await;
        let young = make_ip(&world, &["windlass-owner=team", &now]).await;
        let kept = make_ip(&world, &["windlass-owner=team", old, "windlass-kept"]).await;
        let nameless = make_ip(&world, &["windlass-owner=team"]).await;
        let lost = make_ip(&world, &["windlass-owner=team", old]).await;
        let sweep = lifecycle.sweep(&here(), &control).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        assert_eq!(sweep.kept.len(), 1);
        let mut rest: Vec<String> =
            world.resources().ips.iter().map(|ip| ip["id"].as_str().unwrap().to_owned()).collect();
        rest.sort();
        let mut expected = vec![stranger, nobody, young, kept, nameless];
        expected.sort();
        assert_eq!(rest, expected, "and {lost} goes");
    });
}

#[test]
fn after_the_loss_of_a_journal_running_servers_are_reported_and_spared() {
    run(async {
        let mut world = World::new(43).await;
        world.start().create_server(world.everything(), &Control::new()).await.unwrap();
        world.folder = tempfile::tempdir().unwrap();
        tokio::time::sleep(HOUR * 3).await;
        let lifecycle = world.start();
        let sweep = lifecycle.sweep(&here(), &Control::new()).await.unwrap();
        assert_eq!(sweep.unexplained.len(), 5, "{sweep:?}");
        assert!(sweep.unexplained.iter().all(|found| found.spared.is_some()), "{sweep:?}");
        world.assert_complete("spared").await;
        let mut all = here();
        all.running_too = true;
        let sweep = lifecycle.sweep(&all, &Control::new()).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        world.assert_empty("running too");
    });
}

#[test]
fn a_server_of_a_lost_answer_that_only_a_sweep_finds_goes_with_the_volume_that_it_boots_from() {
    run(async {
        let world = World::new(44).await;
        let lifecycle = world.start();
        let control = Control::new();
        // Servers are made, nobody hears of them, and no look finds them.
        world.simulator.set_behaviour(Behaviour::TagFilterEmpty).unwrap();
        let servers = "/instance/v1/zones/*/servers";
        let lost = FaultRule::new("POST", servers, FaultKind::DroppedConnection).after_effect();
        world.simulator.add_fault(lost).unwrap();
        lifecycle.create_server(world.everything(), &control).await.unwrap_err();
        tokio::time::sleep(HOUR).await;
        assert!(lifecycle.resume(&control).await.unwrap().is_clean());
        world.assert_closed(&lifecycle, "undone, as far as can be seen");
        world.simulator.clear_behaviours();
        world.simulator.clear_faults();
        let left = world.resources();
        assert!(!left.servers.is_empty() && left.volumes.len() >= left.servers.len(), "the case is not the one meant");
        let sweep = lifecycle.sweep(&here(), &control).await.unwrap();
        assert!(sweep.is_clean(), "{sweep:?}");
        world.assert_empty("swept");
    });
}

#[test]
fn a_zone_that_cannot_be_listed_hides_nothing_of_what_the_others_left() {
    run(async {
        let world = World::new(49).await;
        let lifecycle = world.start();
        lifecycle.create_server(world.everything(), &Control::new()).await.unwrap();
        let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        world.simulator.set_server_state(&server, ForcedState::Deleted).unwrap();
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let denied = FaultRule::new("GET", "/instance/v1/zones/fr-par-2/servers", FaultKind::PermissionDenied);
        world.simulator.add_fault(denied).unwrap();
        let request = SweepRequest::new(vec![zone(), "fr-par-2".parse().unwrap()]);
        let swept = lifecycle.sweep(&request, &Control::new()).await.unwrap();
        assert_eq!((swept.cleanups.len(), swept.failures.len()), (1, 1), "{swept:?}");
        assert!(!swept.is_clean() && swept.failures[0].zone == "fr-par-2", "{swept:?}");
        let alone = SweepRequest::new(vec!["fr-par-2".parse().unwrap()]);
        lifecycle.sweep(&alone, &Control::new()).await.unwrap_err();
    });
}
