//! What users were promised, one by one; the model has them in all mixtures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use windlass_cluster::{
    CalledOff, ClusterControl, ClusterEventKind, ClusterState, Error, NodeState, OperationState, Requests, Stage,
};
use windlass_lifecycle::{Control, Journal, OperationFilter, RequestedBy, Requester, Target};
use windlass_policy::slots::types::FailureClass;
use windlass_simulator::{FaultKind, FaultRule};

use crate::model::{Trouble, Turning};
use crate::support::{Behaviour, World, farm, host, quiet, run, scale, specification, zone};

/// A whole farm of so many nodes in `web`.
async fn farm_of(world: &World, count: u32) -> windlass_cluster::Clusters {
    let clusters = world.start();
    clusters.create(specification(&[("web", count)]), &quiet()).await.unwrap();
    world.hooks.calls.lock().clear();
    clusters
}

fn server_of(world: &World, name: &str) -> String {
    let servers = world.resources().servers;
    let server = servers.iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("no server {name}"));
    server["id"].as_str().unwrap().to_owned()
}

/// As somebody does in Scaleway's console.
async fn delete_at_scaleway(world: &World, id: &str) {
    let path = format!("/instance/v1/zones/{}/servers/{id}/action", zone());
    world.client.send_raw("POST", &path, Some(r#"{"action":"terminate"}"#.into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(!world.resources().servers.iter().any(|server| server["id"] == id));
}

#[test]
fn a_scaling_that_fails_for_another_reason_makes_no_cluster_active_whose_nodes_do_not_serve() {
    run(async {
        let world = World::new(31).await;
        let clusters = farm_of(&world, 2).await;
        world.hooks.behave("configure", Behaviour::ExitCode(1));
        clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap_err();
        world.hooks.behaviours.lock().clear();
        let refused = FaultRule::new("GET", "/instance/v1/zones/*/products/servers", FaultKind::PermissionDenied);
        world.simulator.add_fault(refused).unwrap();
        let Err(Error::Failed(failed)) = clusters.scale(&farm(), &scale(&[("web", 4)], &[]), &quiet()).await else {
            panic!("it cannot be validated")
        };
        assert_eq!((failed.stage, failed.state), (Stage::Validate, Some(ClusterState::Error)));
        let status = clusters.status(&farm()).await.unwrap();
        assert_eq!(status.cluster.state, ClusterState::Error);
        let why = "farm-web-3: it runs and is not configured";
        assert!(status.cluster.reasons.iter().any(|reason| reason == why), "{:?}", status.cluster.reasons);
        world.simulator.clear_faults();
        clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap();
        assert_eq!(clusters.status(&farm()).await.unwrap().cluster.state, ClusterState::Active);
    });
}

#[test]
fn a_node_that_another_operation_removes_is_waited_for() {
    run(async {
        for lives in [true, false] {
            let world = World::new(36).await;
            let lifecycle = world.lifecycle(&host());
            let clusters = world.start_on(lifecycle.clone(), host(), world.store());
            clusters.create(specification(&[("web", 2)]), &quiet()).await.unwrap();
            let creation = clusters.status(&farm()).await.unwrap().nodes[1].creation.clone().unwrap();
            let of = if lives { world.lifecycle(&host()) } else { lifecycle };
            let removal = of.begin_cleanup(&Target::Operation(creation)).await.unwrap();
            // What is dropped is open in the journal of a process that lives.
            let removal = lives.then(|| {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    removal.run(&Control::new()).await
                })
            });
            clusters.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await.unwrap();
            if let Some(removal) = removal {
                removal.await.unwrap().unwrap();
            }
            assert_eq!(clusters.status(&farm()).await.unwrap().cluster.state, ClusterState::Active);
            assert_eq!(world.servers(), ["farm-web-1"]);
            world.assert_closed(&format!("a living process works on the other removal: {lives}"));
        }
    });
}

#[test]
fn a_node_that_is_half_configured_is_decommissioned_before_it_leaves() {
    run(async {
        let world = World::new(32).await;
        let clusters = farm_of(&world, 1).await;
        world.hooks.behave("configure", Behaviour::ExitCode(1));
        clusters.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap_err();
        world.hooks.behaviours.lock().clear();
        world.hooks.calls.lock().clear();
        clusters.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await.unwrap();
        assert_eq!(world.hooks.log(), ["decommission farm-web-2"]);
        let reported = world.hooks.calls.lock()[0].nodes[0].configured;
        assert!(!reported, "the hook is told that it is half configured");
        assert_eq!(world.servers(), ["farm-web-1"]);
    });
}

#[test]
fn nodes_for_which_a_hook_was_done_when_it_was_called_off_stay_done() {
    for leaves in [false, true] {
        run(async {
            let world = World::new(33).await;
            let clusters = farm_of(&world, 1).await;
            world.hooks.behave("configure", Behaviour::OneByOne(Duration::from_secs(100)));
            let control = ClusterControl::new();
            let end = async {
                while world.hooks.log().is_empty() {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                tokio::time::sleep(Duration::from_secs(150)).await;
                if leaves { control.leave() } else { control.cancel() }
            };
            let asked = scale(&[("web", 4)], &[]);
            let name = farm();
            let (ended, ()) = futures::future::join(clusters.scale(&name, &asked, &control), end).await;
            assert!(ended.is_err(), "{ended:?}");
            let status = clusters.status(&farm()).await.unwrap();
            let done = status.nodes.iter().filter(|node| node.configured).count();
            assert_eq!(done, 2, "the one that there was, and the one that was done: {:?}", status.nodes);
        });
    }
}

#[test]
fn a_hook_that_took_long_before_it_asked_to_be_tried_again_is_tried_again() {
    run(async {
        let world = World::new(34).await;
        let clusters = farm_of(&world, 1).await;
        world.hooks.behave("configure", Behaviour::TakesThenExitCode(Duration::from_secs(5_000), 75));
        let is_tried_again = async {
            while world.hooks.stages().iter().filter(|stage| *stage == "configure").count() < 2 {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
        };
        let (cluster, nodes, options) = (farm(), scale(&[("web", 2)], &[]), quiet());
        tokio::select! {
            ended = clusters.scale(&cluster, &nodes, &options) => panic!("a hook's own time is no waiting: {ended:?}"),
            () = is_tried_again => {}
        }
    });
}

#[test]
fn a_node_whose_server_somebody_deleted_is_replaced_and_told_to_no_hook() {
    run(async {
        let world = World::new(35).await;
        let clusters = farm_of(&world, 3).await;
        delete_at_scaleway(&world, &server_of(&world, "farm-web-2")).await;
        clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-3", "farm-web-4"]);
        assert_eq!(world.hooks.log(), ["configure farm-web-4", "start farm-web-4"]);
        for call in world.hooks.calls.lock().iter() {
            assert!(call.others.iter().all(|node| node.name != "farm-web-2"), "{call:?}");
        }
        world.assert_whole("replaced");
        let status = clusters.status(&farm()).await.unwrap();
        assert_eq!((status.cluster.state, status.nodes.len()), (ClusterState::Active, 3));
    });
}

#[test]
fn a_node_whose_server_somebody_deleted_is_the_one_that_leaves_when_the_cluster_shrinks() {
    run(async {
        let world = World::new(35).await;
        let clusters = farm_of(&world, 2).await;
        delete_at_scaleway(&world, &server_of(&world, "farm-web-1")).await;
        let scaled = clusters.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-web-2"]);
        assert_eq!(world.hooks.log(), Vec::<String>::new(), "it serves already, and what is gone holds nothing");
        assert_eq!(scaled.nodes.len(), 1);
        world.assert_whole("scaled");
    });
}

#[test]
fn a_named_node_leaves_and_a_new_one_takes_the_place_of_one_that_somebody_deleted() {
    run(async {
        let world = World::new(35).await;
        let clusters = farm_of(&world, 2).await;
        delete_at_scaleway(&world, &server_of(&world, "farm-web-1")).await;
        clusters.scale(&farm(), &scale(&[], &["farm-web-2"]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-web-3"], "one of two was to stay");
        assert_eq!(world.hooks.log()[0], "decommission farm-web-2");
        let again = clusters.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
        assert_eq!(again.nodes.last().unwrap().name, "farm-web-4", "no number is given twice");
    });
}

#[test]
fn a_node_that_was_on_its_way_out_and_that_somebody_deleted_is_not_replaced() {
    run(async {
        let world = World::new(35).await;
        let clusters = world.start();
        clusters.create(specification(&[("db", 2), ("web", 2)]), &quiet()).await.unwrap();
        world.hooks.behave("decommission", Behaviour::OnlyGroup("db"));
        clusters.scale(&farm(), &scale(&[("db", 1), ("web", 1)], &[]), &quiet()).await.unwrap_err();
        world.hooks.behaviours.lock().clear();
        let status = clusters.status(&farm()).await.unwrap();
        let leaving = &status.nodes[1];
        assert!(leaving.decommissioned && leaving.state == NodeState::Running, "{leaving:?}");
        delete_at_scaleway(&world, &server_of(&world, "farm-db-2")).await;
        // In a group without a count: it keeps those that serve.
        clusters.scale(&farm(), &scale(&[], &["farm-web-2"]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-db-1", "farm-web-1"]);
    });
}

#[test]
fn status_says_how_scaleway_differs_from_what_is_known_and_changes_nothing() {
    run(async {
        let world = World::new(36).await;
        let clusters = farm_of(&world, 2).await;
        let (same, asked) = clusters.reader().compare(&farm(), 0).await.unwrap();
        asked.unwrap();
        assert!(same.seen.unwrap().nodes.iter().all(|node| node.differences.is_empty()));
        delete_at_scaleway(&world, &server_of(&world, "farm-web-1")).await;
        let known = clusters.status(&farm()).await.unwrap();
        let (status, asked) = clusters.reader().compare(&farm(), 0).await.unwrap();
        asked.unwrap();
        assert_eq!((&status.cluster, &status.nodes), (&known.cluster, &known.nodes));
        let seen = status.seen.unwrap();
        assert_eq!((seen.nodes[0].node.as_str(), seen.nodes[0].state.as_deref()), ("farm-web-1", None));
        assert!(seen.nodes[0].differences[0].contains("gone"), "{seen:?}");
        assert_eq!(seen.nodes[1].differences, Vec::<String>::new());
        // A list that lacks a server proves nothing.
        let short = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::Omit(1));
        world.simulator.add_fault(short).unwrap();
        let (status, asked) = clusters.reader().compare(&farm(), 0).await.unwrap();
        asked.unwrap();
        assert_eq!(status.seen.unwrap().nodes[1].state.as_deref(), Some("running"));
        world.simulator.clear_faults();
        // Who does not answer is no reason to say nothing.
        let away = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::PermissionDenied);
        world.simulator.add_fault(away).unwrap();
        let (status, asked) = clusters.reader().compare(&farm(), 0).await.unwrap();
        assert!(asked.is_err() && status.seen.is_none() && status.nodes.len() == 2);
    });
}

async fn act_at_scaleway(world: &World, id: &str, action: &str) {
    let path = format!("/instance/v1/zones/{}/servers/{id}/action", zone());
    let body = serde_json::json!({ "action": action }).to_string();
    world.client.send_raw("POST", &path, Some(body.into())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[test]
fn a_cluster_is_active_no_more_once_a_look_has_seen_that_a_server_is_gone_or_off() {
    run(async {
        let world = World::new(42).await;
        let clusters = farm_of(&world, 3).await;
        let same = clusters.refresh(&farm()).await.unwrap();
        assert_eq!(same.cluster.state, ClusterState::Active);
        assert!(same.seen.unwrap().nodes.iter().all(|node| node.differences.is_empty()));
        let (first, second) = (server_of(&world, "farm-web-1"), server_of(&world, "farm-web-2"));
        delete_at_scaleway(&world, &first).await;
        act_at_scaleway(&world, &second, "poweroff").await;
        let clusters = world.start();
        let seen = clusters.refresh(&farm()).await.unwrap();
        let sights = seen.seen.as_ref().unwrap().nodes.iter().map(|node| node.differences.join(" "));
        let sights: Vec<String> = sights.collect();
        assert_eq!(sights, ["its server is gone: somebody deleted it", "its server is stopped", ""]);
        let noted = clusters.status(&farm()).await.unwrap();
        assert_eq!((&noted.cluster, &noted.nodes), (&seen.cluster, &seen.nodes));
        assert_eq!((noted.cluster.state, noted.nodes[0].state), (ClusterState::Error, NodeState::Left));
        let words = [
            format!("farm-web-1: server {first} is gone: somebody deleted it"),
            format!("farm-web-2: server {second} is stopped"),
        ];
        assert_eq!(noted.cluster.reasons, words);
        assert_eq!(world.hooks.log(), Vec::<String>::new(), "it only looks");
        // Powered on again it serves again; what is gone is replaced by a scaling.
        act_at_scaleway(&world, &second, "poweron").await;
        let clusters = world.start();
        let seen = clusters.refresh(&farm()).await.unwrap();
        assert_eq!((seen.cluster.state, seen.cluster.reasons.len()), (ClusterState::Error, 1));
        let scaled = clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap();
        assert_eq!(scaled.cluster.unwrap().state, ClusterState::Active);
        assert_eq!(world.servers(), ["farm-web-2", "farm-web-3", "farm-web-4"]);
    });
}

#[test]
fn a_look_notes_addresses_reads_by_id_what_a_listing_lacks_and_writes_only_news() {
    run(async {
        let world = World::new(43).await;
        let before = farm_of(&world, 2).await.status(&farm()).await.unwrap();
        // A list that lacks a server proves nothing.
        let short = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::Omit(2));
        world.simulator.add_fault(short).unwrap();
        let clusters = world.start();
        let same = clusters.refresh(&farm()).await.unwrap();
        world.simulator.clear_faults();
        assert_eq!((&same.cluster, &same.nodes), (&before.cluster, &before.nodes), "nothing is written without news");
        let ip =
            world.resources().ips.iter().find(|ip| ip["address"] == before.nodes[0].addresses[0].to_string()).cloned();
        let path = format!("/instance/v1/zones/{}/ips/{}", zone(), ip.unwrap()["id"].as_str().unwrap());
        world.client.send_raw("PATCH", &path, Some(r#"{"server":null}"#.into())).await.unwrap();
        let clusters = world.start();
        let seen = clusters.refresh(&farm()).await.unwrap();
        assert!(seen.nodes[0].addresses.is_empty(), "{seen:?}");
        assert_eq!(clusters.status(&farm()).await.unwrap().nodes, seen.nodes);
        assert_eq!(seen.cluster.state, ClusterState::Active, "a server without an address may serve");
        assert!(seen.cluster.updated_at > before.cluster.updated_at);
        // Who does not answer proves nothing either.
        let away = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::PermissionDenied);
        world.simulator.add_fault(away).unwrap();
        let clusters = world.start();
        assert!(matches!(clusters.refresh(&farm()).await, Err(Error::Lifecycle(_))));
        assert_eq!(clusters.status(&farm()).await.unwrap().nodes, seen.nodes);
    });
}

#[test]
fn what_a_full_disk_stopped_is_told_with_what_exists_and_ended_by_the_next_start() {
    run(async {
        let world = World::new(37).await;
        let turning = Arc::new(Turning::default());
        *turning.trouble.lock() = Some(Trouble::DiskFull { at: 12 });
        let clusters = crate::model::process(&world, &turning);
        let ended = clusters.create(specification(&[("web", 3)]), &quiet()).await;
        let Err(Error::Unrecorded { nodes, number: 1, .. }) = &ended else { panic!("{ended:?}") };
        assert!(!nodes.is_empty() && !world.servers().is_empty(), "{ended:?}");
        drop(clusters);
        let next = world.start();
        next.resume(&quiet()).await.unwrap();
        world.assert_empty("undone");
        // Where not even its beginning could be written, nothing was touched.
        *turning.trouble.lock() = Some(Trouble::DiskFull { at: 0 });
        let full = crate::model::process(&world, &turning);
        let ended = full.create(specification(&[("web", 3)]), &quiet()).await;
        assert!(matches!(ended, Err(Error::Store(_))), "{ended:?}");
        world.assert_empty("not begun");
    });
}

#[test]
fn what_the_journal_of_its_servers_stopped_is_told_with_their_ids_and_ended_by_the_next_start() {
    run(async {
        let world = World::new(47).await;
        let clusters = world.start();
        let journal = rusqlite::Connection::open(world.state().path().join("journal.sqlite")).unwrap();
        let full = "create trigger full before insert on entries when (select count(*) from entries) >= 12
                    begin select raise(abort, 'database or disk is full'); end";
        journal.execute_batch(full).unwrap();
        let ended = clusters.create(specification(&[("web", 3)]), &quiet()).await;
        journal.execute_batch("drop trigger full").unwrap();
        let Err(Error::Unrecorded { nodes, .. }) = &ended else { panic!("{ended:?}") };
        let named: Vec<&String> = nodes.iter().filter_map(|node| node.server.as_ref()).collect();
        for server in world.resources().servers {
            let id = server["id"].as_str().unwrap();
            assert!(named.iter().any(|named| *named == id), "{id} is there and not named by {ended:?}");
        }
        assert!(!named.is_empty(), "{ended:?}");
        drop(clusters);
        world.start().resume(&quiet()).await.unwrap();
        world.assert_empty("undone");
    });
}

#[test]
fn work_on_a_cluster_lets_the_journal_forget_what_ended_long_ago() {
    run(async {
        let world = World::new(48).await;
        let clusters = farm_of(&world, 1).await;
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        let operations = || {
            let journal = windlass_lifecycle::Journal::read_only(&world.state()).unwrap();
            journal.operations(&Default::default()).unwrap().len()
        };
        assert_eq!(operations(), 2);
        tokio::time::sleep(Duration::from_secs(31 * 24 * 3_600)).await;
        clusters.resume_before(&farm(), &quiet()).await.unwrap();
        assert_eq!(operations(), 0);
    });
}

#[test]
fn a_creation_that_left_nothing_does_not_block_its_name() {
    run(async {
        let world = World::new(38).await;
        let clusters = world.start();
        world.hooks.behave("configure", Behaviour::ExitCode(1));
        clusters.create(specification(&[("web", 2)]), &quiet()).await.unwrap_err();
        let status = clusters.status(&farm()).await.unwrap();
        assert_eq!((status.cluster.state, status.nodes.len()), (ClusterState::Error, 0));
        world.hooks.behaviours.lock().clear();
        let created = clusters.create(specification(&[("db", 1)]), &quiet()).await.unwrap();
        assert_eq!((created.number, created.nodes.len()), (2, 1));
        let again = clusters.create(specification(&[("web", 1)]), &quiet()).await.unwrap_err();
        assert!(matches!(again, Error::Exists { .. }), "what has nodes does: {again}");
        assert_eq!(world.servers(), ["farm-db-1"]);
    });
}

#[test]
fn an_operations_id_is_never_that_of_one_before_the_state_was_lost() {
    run(async {
        let world = World::new(39).await;
        farm_of(&world, 1).await.terminate(&farm(), false, &quiet()).await.unwrap();
        let before = world.hooks.calls.lock()[0].operation_id.clone();
        for entry in std::fs::read_dir(world.folder.path()).unwrap().map(Result::unwrap) {
            if ["journal.sqlite", "history"].iter().any(|name| entry.file_name().to_string_lossy().starts_with(name)) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let clusters = world.start();
        clusters.create(specification(&[("web", 1)]), &quiet()).await.unwrap();
        world.hooks.calls.lock().clear();
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        let after = world.hooks.calls.lock()[0].operation_id.clone();
        assert!(before.starts_with("farm-") && before.ends_with("-2") && after.ends_with("-2"), "{before} {after}");
        assert_ne!(before, after);
    });
}

#[test]
fn a_requested_deletion_whose_process_died_is_seen_and_can_be_withdrawn() {
    run(async {
        let world = World::new(40).await;
        let turning = Arc::new(Turning::default());
        farm_of(&world, 2).await;
        *turning.trouble.lock() = Some(Trouble::DeleteThenCrash { at: 4 });
        let clusters = crate::model::process(&world, &turning);
        tokio::select! {
            biased;
            () = turning.dead.cancelled() => {}
            ended = async { clusters.scale(&farm(), &scale(&[("web", 3)], &[]),
                &quiet()).await } => panic!("{ended:?}"),
        }
        drop(clusters);
        let next = world.start();
        assert!(next.status(&farm()).await.unwrap().deletion_requested);
        assert!(next.withdraw(&farm()).await.unwrap());
        next.resume(&quiet()).await.unwrap();
        let status = next.status(&farm()).await.unwrap();
        assert!(!status.deletion_requested && status.operation.is_none());
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-2"]);
        assert!(status.nodes.iter().all(|node| node.state == NodeState::Running), "{status:?}");
        assert_eq!(next.history(&farm()).await.unwrap()[0].operation.state, OperationState::Recovered);
    });
}

#[test]
fn a_node_whose_decommission_ended_well_and_could_not_be_noted_never_serves_again() {
    for at in 1..12 {
        run(async {
            let world = World::new(41).await;
            farm_of(&world, 2).await;
            let turning = Arc::new(Turning::default());
            *turning.trouble.lock() = Some(Trouble::DiskFull { at });
            let full = crate::model::process(&world, &turning);
            let _ = full.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await;
            drop(full);
            let next = world.start();
            next.resume(&quiet()).await.unwrap();
            next.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
            let done = world.hooks.done.lock().clone();
            for node in next.status(&farm()).await.unwrap().nodes {
                let server = node.server.clone().unwrap();
                let spent = done.contains(&("decommission".to_owned(), server));
                assert!(!spent, "full from write {at} on: {} serves, and was decommissioned", node.name);
            }
            assert_eq!(world.servers().len(), 2, "full from write {at} on");
        });
    }
}

#[test]
fn a_decommission_that_fails_the_second_time_does_not_prove_that_the_first_had_no_effect() {
    for at in 1..12 {
        run(async {
            let world = World::new(42).await;
            farm_of(&world, 2).await;
            let turning = Arc::new(Turning::default());
            *turning.trouble.lock() = Some(Trouble::DiskFull { at });
            let full = crate::model::process(&world, &turning);
            let _ = full.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await;
            drop(full);
            let next = world.start();
            world.hooks.behave("decommission", Behaviour::ExitCode(75));
            let _ = next.resume(&quiet()).await;
            let _ = next.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await;
            world.hooks.behaviours.lock().clear();
            next.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
            let done = world.hooks.done.lock().clone();
            for node in next.status(&farm()).await.unwrap().nodes {
                let server = node.server.clone().unwrap();
                let spent = done.contains(&("decommission".to_owned(), server));
                assert!(!spent, "full from write {at} on: {} serves, and was decommissioned", node.name);
            }
        });
    }
}

#[test]
fn terminating_a_cluster_with_a_locked_node_ends_soon_and_names_it() {
    for force in [false, true] {
        run(async {
            let world = World::new(41).await;
            let clusters = farm_of(&world, 2).await;
            let locked = server_of(&world, "farm-web-1");
            world.simulator.set_server_state(&locked, "locked".parse().unwrap()).unwrap();
            world.simulator.clear_requests();
            let began = tokio::time::Instant::now();
            let Err(Error::Failed(failed)) = clusters.terminate(&farm(), force, &quiet()).await else {
                panic!("a locked server cannot be removed")
            };
            let (took, calls) = (began.elapsed(), world.simulator.requests().len());
            assert!(took < Duration::from_secs(180) && calls < 300, "{force}: {took:?}, {calls} calls");
            assert!(failed.left.iter().any(|left| left.contains("farm-web-1")), "{force}: {:?}", failed.left);
            let status = clusters.status(&farm()).await.unwrap();
            let node = status.nodes.iter().find(|node| node.name == "farm-web-1").unwrap();
            let problem = node.problem.as_deref().unwrap_or_default();
            assert!(problem.contains("locked by Scaleway"), "{force}: {problem}");
            assert_eq!(world.servers(), ["farm-web-1"], "{force}");
        });
    }
}

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

#[test]
fn a_cancellation_after_the_last_look_at_requests_is_heeded() {
    run(async {
        let world = World::new(48).await;
        let store = world.store();
        // The hook of this stage ends before the requests are looked at once more.
        let cancel = Box::new(move |event: &ClusterEventKind| {
            let starts = matches!(event, ClusterEventKind::StepBegan { stage: Stage::Start, .. });
            let store = Arc::clone(&store);
            async move {
                if starts {
                    let open = store.cluster(&farm()).await.unwrap().unwrap().open.unwrap().number;
                    let request = Requests { cancel: true, delete: false };
                    assert!(store.request(&farm(), open, request).await.unwrap());
                }
            }
            .boxed()
        });
        let clusters = world.start_watched(host(), cancel);
        let ended = clusters.create(specification(&[("web", 2)]), &quiet()).await;
        let Err(Error::Failed(failed)) = &ended else { panic!("{ended:?}") };
        assert_eq!((failed.stage, failed.cause.class), (Stage::Start, FailureClass::Cancelled));
        let operation = clusters.history(&farm()).await.unwrap().remove(0).operation;
        assert_eq!(operation.state, OperationState::Recovered, "{operation:?}");
        let status = clusters.status(&farm()).await.unwrap();
        assert_eq!(status.nodes.len(), world.servers().len(), "{status:?}");
    });
}

#[test]
fn the_journal_says_which_operation_of_a_cluster_removed_a_server() {
    run(async {
        let world = World::new(49).await;
        let clusters = farm_of(&world, 2).await;
        clusters.scale(&farm(), &scale(&[("web", 1)], &[]), &quiet()).await.unwrap();
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        let journal = Journal::read_only(&world.state()).unwrap();
        let mut filter = OperationFilter::default();
        filter.kind = Some(windlass_lifecycle::OperationKind::CleanupServer);
        let mut asked: Vec<RequestedBy> =
            journal.operations(&filter).unwrap().iter().map(|one| one.requested_by().unwrap()).collect();
        asked.reverse();
        let by = |operation| Requester::Cluster { cluster: farm().to_string(), operation };
        let requesters: Vec<&Requester> = asked.iter().map(|asked| &asked.requester).collect();
        assert_eq!(requesters, [&by(2), &by(3)], "{asked:?}");
        assert!(asked[0].why.contains("scale") && asked[1].why.contains("terminate"), "{asked:?}");
    });
}

#[test]
fn no_group_is_made_while_the_names_of_other_clusters_nodes_cannot_be_read() {
    run(async {
        let world = World::new(50).await;
        let clusters = farm_of(&world, 1).await;
        let connection = rusqlite::Connection::open(world.state().path().join("journal.sqlite")).unwrap();
        let other = "insert into streams (family, id, fence, document)
                     select family, 'other', 99, json('{\"cluster\": {}}') from streams where family = 'cluster'";
        connection.execute(other, []).unwrap();
        let mut another = specification(&[("web", 1)]);
        another.name = "another".parse().unwrap();
        let refused = clusters.create(another.clone(), &quiet()).await.unwrap_err();
        assert!(matches!(&refused, Error::Store(_)) && refused.to_string().contains("other"), "{refused}");
        assert_eq!(world.servers(), ["farm-web-1"], "nothing was made");
        // What has its names already goes on.
        clusters.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
        let read_again = "update streams set document = (select document from streams where id = 'farm')
                          where id = 'other'";
        connection.execute(read_again, []).unwrap();
        clusters.create(another, &quiet()).await.unwrap();
    });
}

/// A world with a cluster of two nodes, and a copy of its state directory from the middle of their creation.
async fn backed_up_during_a_creation() -> (World, tempfile::TempDir) {
    let world = World::new(36).await;
    let backup = tempfile::tempdir().unwrap();
    let clusters = world.start();
    world.hooks.behave("configure", Behaviour::OneByOne(Duration::from_secs(100)));
    let back_up = async {
        while world.hooks.log().is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        copy(world.folder.path(), backup.path());
    };
    let control = quiet();
    let (created, ()) = futures::future::join(clusters.create(specification(&[("web", 2)]), &control), back_up).await;
    created.unwrap();
    (world, backup)
}

#[test]
fn one_database_of_a_backup_is_not_trusted_with_the_rest_of_a_later_state() {
    run(async {
        let (world, backup) = backed_up_during_a_creation().await;
        let servers = world.servers();
        let later = tempfile::tempdir().unwrap();
        copy(world.folder.path(), later.path());
        let files = |folder: &std::path::Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
        };
        let databases: Vec<String> =
            files(backup.path()).into_iter().filter(|name| name.ends_with(".sqlite")).collect();
        assert!(!databases.is_empty());
        for database in databases {
            for name in files(world.folder.path()).iter().filter(|name| name.contains(".sqlite")) {
                std::fs::remove_file(world.folder.path().join(name)).unwrap();
            }
            for (from, of_backup) in [(&later, false), (&backup, true)] {
                for name in files(from.path()).iter().filter(|name| name.contains(".sqlite")) {
                    if name.starts_with(&database) == of_backup {
                        std::fs::copy(from.path().join(name), world.folder.path().join(name)).unwrap();
                    }
                }
            }
            let restored = world.start();
            restored.resume(&quiet()).await.unwrap_err();
            let refused = restored.create(specification(&[("db", 1)]), &quiet()).await.unwrap_err();
            assert!(refused.to_string().contains("windlass state take-over"), "{database}: {refused}");
            restored.terminate(&farm(), false, &quiet()).await.unwrap_err();
            assert_eq!(world.servers(), servers, "{database}");
        }
    });
}

#[test]
fn a_cluster_that_was_backed_up_while_it_was_created_keeps_its_nodes_after_the_restore() {
    run(async {
        let (world, backup) = backed_up_during_a_creation().await;
        let servers = world.servers();
        std::fs::remove_dir_all(world.folder.path()).unwrap();
        copy(backup.path(), world.folder.path());
        let restored = world.start();
        let refused = restored.create(specification(&[("db", 1)]), &quiet()).await.unwrap_err();
        assert!(refused.to_string().contains("windlass state take-over"), "{refused}");
        restored.resume(&quiet()).await.unwrap_err();
        drop(restored);
        assert_eq!(world.servers(), servers);
        world.state().take_history_over(u64::MAX).unwrap();
        let next = world.start();
        next.resume(&quiet()).await.unwrap();
        assert_eq!(world.servers(), servers);
        let status = next.status(&farm()).await.unwrap();
        assert_eq!((status.cluster.state, status.operation.is_none()), (ClusterState::Error, true));
        assert!(status.cluster.reasons[0].contains("taken over"), "{:?}", status.cluster.reasons);
        world.hooks.behaviours.lock().clear();
        next.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), servers);
    });
}

async fn retag(world: &World, id: &str) {
    let path = format!("/instance/v1/zones/{}/servers/{id}", zone());
    world.client.send_raw("PATCH", &path, Some(r#"{"tags":["mine"]}"#.into())).await.unwrap();
}

#[test]
fn a_node_that_a_user_took_over_leaves_the_cluster_untouched_and_is_named() {
    run(async {
        let world = World::new(61).await;
        let clusters = farm_of(&world, 3).await;
        let (first, second) = (server_of(&world, "farm-web-1"), server_of(&world, "farm-web-2"));
        retag(&world, &first).await;
        let (status, asked) = clusters.reader().compare(&farm(), 0).await.unwrap();
        asked.unwrap();
        let seen = status.seen.unwrap();
        assert!(seen.nodes[0].differences[0].contains("no longer ours"), "{seen:?}");
        let scaled = clusters.scale(&farm(), &scale(&[], &["farm-web-1"]), &quiet()).await.unwrap();
        let kept: Vec<_> = scaled.kept.iter().map(|kept| (&kept.server, kept.not_ours.len())).collect();
        assert_eq!(kept, [(&first, 3)], "its server, its address and its volume");
        assert_eq!(world.hooks.log(), Vec::<String>::new(), "no hook runs on somebody else's server");
        assert_eq!(scaled.cluster.unwrap().state, ClusterState::Active);
        retag(&world, &second).await;
        assert_eq!(clusters.refresh(&farm()).await.unwrap().cluster.state, ClusterState::Error);
        let ended = clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        assert_eq!(ended.kept.iter().map(|kept| &kept.server).collect::<Vec<_>>(), [&second]);
        assert_eq!(world.hooks.log(), ["decommission farm-web-3"]);
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-2"]);
    });
}

#[test]
fn a_node_whose_decommission_was_stopped_in_the_middle_never_serves_again() {
    for (behaviour, cancelled) in [(Behaviour::Stuck, true), (Behaviour::Hangs, false)] {
        run(async {
            let world = World::new(62).await;
            let clusters = farm_of(&world, 2).await;
            world.hooks.behave("decommission", behaviour.clone());
            let control = ClusterControl::new();
            let cancel = async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if cancelled {
                    control.cancel();
                }
            };
            let request = scale(&[("web", 1)], &[]);
            let (ended, ()) = futures::future::join(clusters.scale(&farm(), &request, &control), cancel).await;
            ended.unwrap_err();
            let status = clusters.status(&farm()).await.unwrap();
            assert_eq!(status.cluster.state, ClusterState::Error, "{behaviour:?}");
            assert_eq!(status.nodes.iter().map(|node| node.is_spent()).collect::<Vec<_>>(), [false, true]);
            world.hooks.behaviours.lock().clear();
            world.hooks.calls.lock().clear();
            clusters.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await.unwrap();
            assert_eq!(world.hooks.log()[0], "decommission farm-web-2", "{behaviour:?}");
            assert_eq!(world.servers(), ["farm-web-1", "farm-web-3"]);
        });
    }
}

#[test]
fn what_was_cancelled_before_its_process_ended_fails_as_cancelled_and_a_termination_refuses() {
    run(async {
        let world = World::new(63).await;
        let clusters = farm_of(&world, 2).await;
        let leave_after = async |control: &ClusterControl| {
            tokio::time::sleep(Duration::from_secs(90)).await;
            control.leave();
        };
        world.hooks.behave("configure", Behaviour::Stuck);
        let (control, request) = (ClusterControl::new(), scale(&[("web", 3)], &[]));
        let (ended, ()) =
            futures::future::join(clusters.scale(&farm(), &request, &control), leave_after(&control)).await;
        assert!(matches!(ended, Err(Error::LeftOpen { .. })), "{ended:?}");
        drop(clusters);
        let clusters = world.start();
        assert_eq!(clusters.cancel(&farm()).await.unwrap(), CalledOff::Operation(2));
        let resumed = clusters.resume_cluster(&farm(), &quiet()).await.unwrap().unwrap();
        let Err(Error::Failed(failed)) = resumed.outcome else { panic!("{:?}", resumed.outcome) };
        assert_eq!((failed.cause.class, failed.stage), (FailureClass::Cancelled, Stage::Configure));

        world.hooks.behave("decommission", Behaviour::Stuck);
        let control = ClusterControl::new();
        let (ended, ()) =
            futures::future::join(clusters.terminate(&farm(), false, &control), leave_after(&control)).await;
        assert!(matches!(ended, Err(Error::LeftOpen { .. })), "{ended:?}");
        let refused = clusters.cancel(&farm()).await;
        assert!(matches!(refused, Err(Error::NotCancellable { number: 3, .. })), "{refused:?}");
    });
}

#[test]
fn a_list_that_cannot_be_read_holds_no_termination_up() {
    run(async {
        let world = World::new(64).await;
        let clusters = farm_of(&world, 2).await;
        let unread = FaultRule::new("GET", "/instance/v1/zones/*/servers", FaultKind::InternalServerError);
        world.simulator.add_fault(unread).unwrap();
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        assert_eq!(world.hooks.log(), ["decommission farm-web-1 farm-web-2"]);
        world.assert_empty("terminated");
    });
}
