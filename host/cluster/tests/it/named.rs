//! Failures by name: the five that Sahara's code had, and those that this design could have.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use windlass_cluster::{
    CalledOff, ClusterControl, ClusterEventKind, ClusterState, Error, NodeState, OperationKind, OperationState, Stage,
};
use windlass_policy::Host;
use windlass_simulator::{Effect, FaultKind, FaultRule};

use crate::support::{Behaviour, World, farm, host, host_in, quiet, run, scale, specification};

/// Everything as it is at a whole farm: `db` 1, `web` 3.
async fn whole(world: &World) -> windlass_cluster::Clusters {
    let clusters = world.start();
    clusters.create(specification(&[("db", 1), ("web", 3)]), &quiet()).await.unwrap();
    world.hooks.calls.lock().clear();
    clusters
}

fn failure(ended: Result<windlass_cluster::ClusterOutcome, Error>) -> windlass_cluster::ClusterFailure {
    match ended {
        Err(Error::Failed(failed)) => *failed,
        other => panic!("{other:?}"),
    }
}

fn under(settings: serde_json::Value, guest: windlass_test_guests::Guest) -> (tempfile::TempDir, Arc<Host>) {
    let folder = tempfile::tempdir().unwrap();
    let policies = host_in(folder.path());
    let module = guest.write_to(folder.path()).unwrap();
    let text = serde_json::json!({ "provisioning": { "path": module, "settings": settings } });
    policies.configure(&serde_json::from_value(text).unwrap()).unwrap();
    (folder, policies)
}

// Sahara, first failure: an extra try/except inside the scale function put the cluster back to Active, past handler and
// rollback.
#[test]
fn sahara_errors_caught_below_the_handler_every_failure_of_a_scaling_is_put_to_the_policy_once() {
    for (hook, stage) in
        [("decommission", Stage::Decommission), ("configure", Stage::Configure), ("start", Stage::Start)]
    {
        run(async {
            let world = World::new(1).await;
            let clusters = whole(&world).await;
            world.hooks.behave(hook, Behaviour::ExitCode(1));
            let failed = failure(clusters.scale(&farm(), &scale(&[("db", 2), ("web", 2)], &[]), &quiet()).await);
            assert_eq!((failed.stage, failed.state), (stage, Some(ClusterState::Error)));
            let history = clusters.history(&farm()).await.unwrap().remove(0);
            let asked: Vec<_> = history
                .events
                .iter()
                .filter_map(|event| match &event.what {
                    ClusterEventKind::Recovering(recovery) => Some(recovery.clone()),
                    _ => None,
                })
                .collect();
            assert_eq!(asked.len(), 1, "{stage}");
            assert_eq!(history.operation.recovery.as_ref(), Some(&asked[0]));
            assert!(asked[0].decided_by.contains("provisioning"), "{}", asked[0].decided_by);
            assert!(matches!(history.events.last().unwrap().what, ClusterEventKind::Closed { .. }));
        });
    }
}

// Second: only some phases of a creation were followed by a rollback.
#[test]
fn sahara_rollback_skipped_for_a_phase_a_creation_that_fails_after_its_servers_run_removes_them_too() {
    for (path, stage) in [
        ("/ipam/v1/regions/*/ips", Stage::Prepare),
        ("/instance/v1/zones/*/products/servers/availability", Stage::Validate),
    ] {
        run(async {
            let world = World::new(2).await;
            let clusters = world.start();
            let mut wanted = specification(&[("web", 3)]);
            for group in wanted.groups.values_mut() {
                group.private_networks = vec![world.network.clone()];
                group.volumes =
                    vec![windlass_cluster::VolumeSpecification { size: Some(10_000_000_000), ..Default::default() }];
            }
            world.simulator.add_fault(FaultRule::new("GET", path, FaultKind::PermissionDenied)).unwrap();
            let failed = failure(clusters.create(wanted, &quiet()).await);
            assert_eq!((failed.stage, failed.state), (stage, Some(ClusterState::Error)));
            world.assert_empty("failed");
            world.assert_closed("failed");
        });
    }
}

// Third: the user deletes the cluster while it is provisioned, from another process.
#[test]
fn sahara_cluster_deleted_by_the_user_during_provisioning_both_processes_end_quietly() {
    run(async {
        let world = World::new(3).await;
        let (creating, deleting) = (world.start(), world.start());
        world.hooks.behave("configure", Behaviour::Takes(Duration::from_secs(3_000)));
        let control = quiet();
        let create = creating.create(specification(&[("web", 3)]), &control);
        let delete = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(world.servers().len(), 3, "they run, and are being configured");
            let busy = deleting.scale(&farm(), &scale(&[("web", 9)], &[]), &quiet()).await.unwrap_err();
            assert!(matches!(busy, Error::Busy { stage: Stage::Configure, .. }), "{busy}");
            deleting.terminate(&farm(), false, &quiet()).await
        };
        let began = tokio::time::Instant::now();
        let (created, deleted) = futures::future::join(create, delete).await;
        assert_eq!(created.unwrap().state, OperationState::Cancelled, "no error");
        assert_eq!(deleted.unwrap().state, OperationState::Done);
        assert!(began.elapsed() < Duration::from_secs(300), "the hook was ended: {:?}", began.elapsed());
        world.assert_empty("deleted");
        world.assert_closed("deleted");
        assert!(matches!(creating.status(&farm()).await, Err(Error::Unknown { .. })));
        assert_eq!(world.hooks.stages(), ["configure", "decommission"], "half configured, they may hold data");
    });
}

// Fourth: a rollback must not bring decommissioned nodes back.
#[test]
fn sahara_decommissioned_nodes_brought_back_they_go_and_never_serve_again() {
    run(async {
        let world = World::new(4).await;
        let clusters = whole(&world).await;
        // Of db and web, each losing a node, only web's is decommissioned.
        clusters.scale(&farm(), &scale(&[("db", 2)], &[]), &quiet()).await.unwrap();
        world.hooks.behave("decommission", Behaviour::OnlyGroup("web"));
        let failed = failure(clusters.scale(&farm(), &scale(&[("db", 1), ("web", 2)], &[]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Decommission, Some(ClusterState::Error)));
        assert_eq!(world.servers().len(), 5, "nothing is deleted: {:?}", world.servers());
        let status = clusters.status(&farm()).await.unwrap();
        let spent: Vec<_> = status.nodes.iter().filter(|node| node.decommissioned).map(|node| &node.name).collect();
        assert_eq!(spent, ["farm-web-3"]);

        // Back to what there was: another node takes its place.
        world.hooks.behaviours.lock().clear();
        world.hooks.calls.lock().clear();
        let scaled = clusters.scale(&farm(), &scale(&[("db", 2), ("web", 3)], &[]), &quiet()).await.unwrap();
        assert_eq!(scaled.cluster.unwrap().state, ClusterState::Active);
        assert_eq!(world.servers(), ["farm-db-1", "farm-db-2", "farm-web-1", "farm-web-2", "farm-web-4"]);
        assert_eq!(world.hooks.log(), ["configure farm-web-4", "start farm-web-4"], "nobody is asked twice to leave");
        world.assert_whole("scaled");
    });
}

// Fifth: nodes that hold data must survive a configure that failed.
#[test]
fn sahara_data_nodes_deleted_after_a_failed_configure_every_node_and_volume_stays_and_can_be_repaired() {
    run(async {
        let world = World::new(5).await;
        let clusters = world.start();
        let mut wanted = specification(&[("db", 1), ("web", 1)]);
        wanted.groups.get_mut(&"db".parse().unwrap()).unwrap().volumes =
            vec![windlass_cluster::VolumeSpecification { size: Some(10_000_000_000), ..Default::default() }];
        clusters.create(wanted, &quiet()).await.unwrap();
        world.hooks.behave("configure", Behaviour::ExitCode(1));
        let failed = failure(clusters.scale(&farm(), &scale(&[("db", 2)], &[]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Configure, Some(ClusterState::Error)));
        assert_eq!(world.servers(), ["farm-db-1", "farm-db-2", "farm-web-1"]);
        assert_eq!(world.resources().volumes.len(), 5, "three root volumes and two of db's");
        assert!(failed.reasons.iter().any(|reason| reason.contains("could lose data")), "{:?}", failed.reasons);

        world.hooks.behaviours.lock().clear();
        world.hooks.calls.lock().clear();
        let repaired = clusters.scale(&farm(), &scale(&[], &[]), &quiet()).await.unwrap();
        assert_eq!(repaired.cluster.unwrap().state, ClusterState::Active);
        assert_eq!(world.hooks.log(), ["configure farm-db-2", "start farm-db-2"]);
    });
}

#[test]
fn up_and_down_at_once_a_failure_on_the_way_up_finishes_the_way_down() {
    run(async {
        let world = World::new(6).await;
        let clusters = whole(&world).await;
        // The second of three creations is refused for good.
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::QuotaExceeded);
        world.simulator.add_fault(refused.nth(2)).unwrap();
        let failed = failure(clusters.scale(&farm(), &scale(&[("db", 4), ("web", 1)], &[]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Resize, Some(ClusterState::Active)));
        assert_eq!(world.servers(), ["farm-db-1", "farm-web-1"]);
        assert!(failed.reasons[0].contains("quota") && failed.left.is_empty(), "{failed:?}");
        let counts: Vec<u32> =
            clusters.status(&farm()).await.unwrap().cluster.specification.groups.values().map(|g| g.count).collect();
        assert_eq!(counts, [1, 1], "the counts say what there is");
        world.assert_whole("failed");
        world.assert_closed("failed");
        // The cluster is whole: it can be scaled again, and numbers are not given twice.
        clusters.scale(&farm(), &scale(&[("db", 2)], &[]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-db-1", "farm-db-5", "farm-web-1"]);
    });
}

#[test]
fn up_and_down_at_once_a_failure_on_the_way_down_takes_back_the_way_up_and_tries_the_way_down_again() {
    run(async {
        let world = World::new(7).await;
        let clusters = whole(&world).await;
        // Refused as often as one removal tries it; the recovery's removal gets through.
        for nth in 1..=3 {
            let refused = FaultRule::new("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::PermissionDenied);
            world.simulator.add_fault(refused.nth(nth)).unwrap();
        }
        let failed = failure(clusters.scale(&farm(), &scale(&[("db", 2), ("web", 2)], &[]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Resize, Some(ClusterState::Active)), "{failed:?}");
        assert_eq!(world.servers(), ["farm-db-1", "farm-web-1", "farm-web-2"]);
        world.assert_whole("failed");
    });
}

#[test]
fn a_rollback_that_fails_too_leaves_error_with_both_reasons_and_a_list_of_what_is_left() {
    run(async {
        let world = World::new(8).await;
        let clusters = world.start();
        world.hooks.behave("start", Behaviour::ExitCode(9));
        let refused = FaultRule::new("DELETE", "/instance/v1/zones/*/ips/*", FaultKind::PermissionDenied);
        world.simulator.add_fault(refused).unwrap();
        let failed = failure(clusters.create(specification(&[("web", 2)]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Start, Some(ClusterState::Error)));
        assert!(failed.reasons[0].contains("exit code 9"), "{:?}", failed.reasons);
        assert!(failed.reasons[1].starts_with("the rollback failed, too: "), "{:?}", failed.reasons);
        assert_eq!(failed.left.len(), 2, "{:?}", failed.left);
        assert!(failed.left[0].starts_with("farm-web-1: ") && failed.left[0].contains("ip "), "{:?}", failed.left);
        let status = clusters.status(&farm()).await.unwrap();
        assert_eq!((status.cluster.left, status.cluster.reasons), (failed.left, failed.reasons));
        assert!(status.nodes.iter().all(|node| node.state == NodeState::Left));
        assert_eq!(clusters.history(&farm()).await.unwrap()[0].operation.state, OperationState::Failed);
        world.simulator.clear_faults();
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        world.assert_empty("terminated");
    });
}

#[test]
fn what_removes_nodes_is_tried_again_more_often_than_what_makes_them() {
    // Each asks to be tried again until the retry policy gives up.
    let attempts = [("configure", 4), ("decommission", 2)].map(|(stage, count)| {
        run(async {
            let world = World::new(9).await;
            let clusters = whole(&world).await;
            world.hooks.behave(stage, Behaviour::ExitCode(75));
            failure(clusters.scale(&farm(), &scale(&[("web", count)], &[]), &quiet()).await);
            world.hooks.stages().iter().filter(|asked| *asked == stage).count()
        })
    });
    assert!(attempts[0] > 1 && attempts[1] > attempts[0], "{attempts:?}");
}

#[test]
fn a_policy_deletes_nodes_of_its_cluster_and_no_others() {
    let (_folder, policies) =
        under(serde_json::json!({ "behaviour": "delete-foreign" }), windlass_test_guests::HOSTILE);
    run(async {
        let world = World::new(10).await;
        let clusters = world.start_under(policies);
        let mut other = specification(&[("web", 1)]);
        other.name = "other".parse().unwrap();
        clusters.create(other, &quiet()).await.unwrap();
        clusters.create(specification(&[("web", 2)]), &quiet()).await.unwrap();
        world.hooks.behave("configure", Behaviour::ExitCode(1));
        // It names every node that it was shown.
        let failed = failure(clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await);
        assert_eq!(failed.state, Some(ClusterState::Error));
        assert_eq!(world.servers(), ["other-web-1"]);
    });
}

#[test]
fn an_operation_that_is_left_is_recovered_by_the_next_start_under_the_policies_it_began_with() {
    run(async {
        let world = World::new(11).await;
        let clusters = whole(&world).await;
        world.hooks.behave("configure", Behaviour::Takes(Duration::from_secs(3_000)));
        let control = ClusterControl::new();
        let leave = async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            control.leave();
        };
        let asked = scale(&[("db", 2), ("web", 2)], &[]);
        let (ended, ()) = futures::future::join(clusters.scale(&farm(), &asked, &control), leave).await;
        assert!(matches!(ended, Err(Error::LeftOpen { number: 2, .. })), "{ended:?}");
        let status = clusters.status(&farm()).await.unwrap();
        assert!(status.operation.is_some() && !status.operation_lives);
        let next = world.start();
        // Who left it could still go on with it: only its end makes it an interruption.
        let refused = next.scale(&farm(), &asked, &quiet()).await.unwrap_err();
        assert!(matches!(refused, Error::Busy { stage: Stage::Configure, .. }), "{refused}");
        drop(clusters);
        let refused = next.scale(&farm(), &asked, &quiet()).await.unwrap_err();
        assert!(matches!(refused, Error::Interrupted { .. }), "{refused}");
        drop(next);
        let next = world.start();
        let resumed = next.resume(&quiet()).await.unwrap();
        let failed = failure(resumed.into_iter().next().unwrap().outcome);
        assert_eq!((failed.stage, failed.state), (Stage::Configure, Some(ClusterState::Error)));
        assert_eq!(world.servers(), ["farm-db-1", "farm-db-2", "farm-web-1", "farm-web-2"]);
        assert_eq!(next.resume(&quiet()).await.unwrap().len(), 0, "once");
    });
}

#[test]
fn of_two_who_scale_at_the_same_moment_one_is_refused() {
    run(async {
        let world = World::new(12).await;
        let first = whole(&world).await;
        let second = world.start();
        let (up, down) = (scale(&[("web", 4)], &[]), scale(&[("web", 2)], &[]));
        let (control, other) = (quiet(), quiet());
        let (one, two) =
            futures::future::join(first.scale(&farm(), &up, &control), second.scale(&farm(), &down, &other)).await;
        let (refused, nodes) = if one.is_ok() { (two, 4) } else { (one, 2) };
        assert!(matches!(refused, Err(Error::Busy { kind: OperationKind::Scale, .. })), "{refused:?}");
        let web = (1..=nodes).map(|number| format!("farm-web-{number}"));
        assert_eq!(world.servers(), ["farm-db-1".to_owned()].into_iter().chain(web).collect::<Vec<_>>());
        world.assert_whole("scaled once");
    });
}

#[test]
fn bad_requests_are_refused_with_a_remedy_and_touch_nothing() {
    run(async {
        let world = World::new(13).await;
        let clusters = whole(&world).await;
        world.simulator.clear_requests();
        let words = |error: Result<windlass_cluster::ClusterOutcome, Error>| error.unwrap_err().to_string();
        let frm = "frm".parse().unwrap();
        assert!(words(clusters.scale(&frm, &scale(&[], &[]), &quiet()).await).contains("did you mean farm?"));
        assert!(words(clusters.terminate(&frm, true, &quiet()).await).contains("did you mean farm?"));
        assert!(words(clusters.create(specification(&[("x", 1)]), &quiet()).await).contains("already"));
        assert!(words(clusters.scale(&farm(), &scale(&[("wbe", 1)], &[]), &quiet()).await).contains("it has: db, web"));
        let nobody = clusters.scale(&farm(), &scale(&[], &["farm-web-9"]), &quiet()).await;
        assert!(words(nobody).contains("has no node farm-web-9"));
        assert!(clusters.history(&frm).await.is_err());
        assert_eq!(clusters.cancel(&farm()).await.unwrap(), CalledOff::Nothing);
        assert_eq!(world.simulator.requests().len(), 0);
        assert_eq!(clusters.status(&farm()).await.unwrap().cluster.state, ClusterState::Active);
    });
}

#[test]
fn a_cloud_init_reaches_the_servers_and_is_stored_nowhere() {
    run(async {
        let world = World::new(14).await;
        let clusters = world.start();
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("init.yaml");
        std::fs::write(&file, "#cloud-config\npassword: hunter2hunter2\n").unwrap();
        let mut wanted = specification(&[("web", 1)]);
        wanted.groups.values_mut().next().unwrap().cloud_init_file = Some(file.to_str().unwrap().into());
        clusters.create(wanted, &quiet()).await.unwrap();
        let server = world.resources().servers[0]["id"].as_str().unwrap().to_owned();
        let zone = crate::support::zone();
        let data = world.client.instance(&zone).get_server_user_data(&server, "cloud-init").await.unwrap();
        assert!(data.ends_with(b"hunter2hunter2\n"));
        for entry in std::fs::read_dir(world.folder.path()).unwrap().map(Result::unwrap) {
            let Ok(content) = std::fs::read(entry.path()) else { continue };
            let found = content.windows(14).any(|window| window == b"hunter2hunter2");
            assert!(!found, "{:?} holds the secret", entry.path());
        }
        // A scaling that needs it says so before anything is spent.
        std::fs::remove_file(&file).unwrap();
        let failed = failure(clusters.scale(&farm(), &scale(&[("web", 2)], &[]), &quiet()).await);
        assert_eq!((failed.stage, failed.state), (Stage::Validate, Some(ClusterState::Active)));
        assert!(failed.reasons[0].contains("groups.web.cloud_init_file"), "{:?}", failed.reasons);
        assert_eq!(world.servers(), ["farm-web-1"]);
    });
}

#[test]
fn lost_answers_to_creations_make_no_double_nodes() {
    run(async {
        let world = World::new(15).await;
        let clusters = world.start();
        for nth in 1..=4 {
            let mut lost =
                FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::DroppedConnection).nth(nth);
            lost.effect = Effect::After;
            world.simulator.add_fault(lost).unwrap();
        }
        clusters.create(specification(&[("web", 4)]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-2", "farm-web-3", "farm-web-4"]);
        world.assert_whole("created");
    });
}

#[test]
fn what_a_recovery_needs_is_stored_before_the_first_call_that_changes_anything() {
    run(async {
        let world = World::new(16).await;
        whole(&world).await;
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (store, simulator) = (world.store(), world.simulator.clone());
        simulator.clear_requests();
        let clusters = {
            let seen = Arc::clone(&seen);
            world.start_watched(
                host(),
                Box::new(move |event| {
                    let (store, seen, simulator) = (Arc::clone(&store), Arc::clone(&seen), simulator.clone());
                    let opened = matches!(event, ClusterEventKind::Opened { .. });
                    async move {
                        let requests = simulator.requests();
                        let reads_only = requests.iter().all(|request| request.method == "GET");
                        assert!(!opened || reads_only);
                        if reads_only {
                            let stored = store.cluster(&farm()).await.unwrap().unwrap();
                            seen.lock().push(stored);
                        }
                    }
                    .boxed()
                }),
            )
        };
        clusters.scale(&farm(), &scale(&[("db", 2), ("web", 1)], &["farm-web-1"]), &quiet()).await.unwrap();
        let seen = seen.lock();
        let open = seen[0].open.as_ref().unwrap();
        assert_eq!(open.kind, OperationKind::Scale);
        let counts: Vec<_> = open.counts.iter().map(|(name, c)| (name.as_str(), c.before, c.wanted)).collect();
        assert_eq!(counts, [("db", 1, 2), ("web", 3, 1)]);
        assert!(open.policies.as_array().is_some_and(|policies| policies.len() >= 5), "{}", open.policies);
        let stored = seen.last().unwrap();
        let roles: Vec<_> = stored.nodes.iter().map(|node| (node.name.as_str(), node.role.as_ref())).collect();
        assert_eq!(
            roles,
            [
                ("farm-db-1", "staying"),
                ("farm-db-2", "made"),
                ("farm-web-1", "leaving"),
                ("farm-web-2", "staying"),
                ("farm-web-3", "leaving")
            ]
        );
    });
}

#[test]
fn after_the_first_creation_that_fails_no_other_begins() {
    run(async {
        let world = World::new(17).await;
        let clusters = world.start();
        let refused = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::QuotaExceeded);
        world.simulator.add_fault(refused).unwrap();
        let failed = failure(clusters.create(specification(&[("web", 400)]), &quiet()).await);
        assert_eq!(failed.state, Some(ClusterState::Error));
        let requests = world.simulator.requests();
        let asked =
            requests.iter().filter(|request| request.method == "POST" && request.path.ends_with("/ips")).count();
        assert!(asked <= 128, "{asked} addresses were made, for 400 nodes and 128 at a time");
        world.assert_empty("failed");
    });
}

#[test]
fn what_became_of_nodes_while_their_process_died_is_read_from_the_journal() {
    let (_folder, policies) = under(
        serde_json::json!({ "classes": ["interrupted"], "at-most": 10 }),
        windlass_test_guests::KEEP_NEW_NODES_FOR_INSPECTION,
    );
    run(async {
        let world = World::new(18).await;
        let clusters = world.start_under(Arc::clone(&policies));
        clusters.create(specification(&[("db", 1), ("web", 3)]), &quiet()).await.unwrap();
        let control = ClusterControl::new();
        // Left in the middle: leaving nodes are being removed, new ones being made.
        let leave = async {
            tokio::time::sleep(Duration::from_millis(2_500)).await;
            control.leave();
        };
        let asked = scale(&[("db", 3), ("web", 1)], &[]);
        let (ended, ()) = futures::future::join(clusters.scale(&farm(), &asked, &control), leave).await;
        assert!(matches!(ended, Err(Error::LeftOpen { number: 2, .. })), "{ended:?}");
        let moving = clusters.status(&farm()).await.unwrap();
        assert!(moving.nodes.iter().any(|node| node.state == NodeState::Creating), "{:?}", moving.nodes);
        drop(clusters);
        let next = world.start_under(policies);
        next.resume(&quiet()).await.unwrap();
        // The policy keeps the new nodes of a failed resize: those that the journal finished are there, and known as
        // running.
        let status = next.status(&farm()).await.unwrap();
        let known: Vec<_> = status.nodes.iter().map(|node| node.name.clone()).collect();
        assert_eq!(known, world.servers());
        assert!(known.contains(&"farm-db-2".to_owned()) && !known.contains(&"farm-web-3".to_owned()), "{known:?}");
        for node in &status.nodes {
            assert!(node.state == NodeState::Running && node.server.is_some(), "{node:?}");
        }
        world.assert_closed("resumed");
    });
}

/// Two processes on the same clusters: the second looks whether the first lives only after the first has ended its
/// creation. Gives what came of both.
async fn while_another_ends<T>(
    world: &World,
    call: impl AsyncFnOnce(&windlass_cluster::Clusters) -> T,
) -> (Result<windlass_cluster::ClusterOutcome, Error>, T) {
    let (ended, end) = tokio::sync::watch::channel(false);
    let first = world.start();
    world.hooks.behave("configure", Behaviour::Takes(Duration::from_secs(60)));
    let create = async {
        let created = first.create(specification(&[("web", 2)]), &quiet()).await;
        drop(first);
        ended.send_replace(true);
        created
    };
    let second = world.start_looking(Box::new(move || {
        let mut end = end.clone();
        Box::pin(async move {
            end.wait_for(|ended| *ended).await.unwrap();
        })
    }));
    let then = async {
        let hook_runs = async {
            while world.hooks.log().is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3_600), hook_runs).await.expect("the hook runs");
        call(&second).await
    };
    futures::future::join(create, then).await
}

#[test]
fn an_operation_that_ends_while_another_process_looks_at_it_is_never_taken_for_a_dead_one() {
    run(async {
        let world = World::new(19).await;
        let (created, terminated) =
            while_another_ends(&world, async |second| second.terminate(&farm(), false, &quiet()).await).await;
        assert_eq!(created.unwrap().state, OperationState::Cancelled);
        let terminated = terminated.unwrap();
        assert_eq!((terminated.state, terminated.number, terminated.cluster), (OperationState::Done, 2, None));
        world.assert_empty("terminated");
        world.assert_closed("terminated");
    });
    run(async {
        let world = World::new(20).await;
        let (created, resumed) = while_another_ends(&world, async |second| second.resume(&quiet()).await).await;
        assert_eq!(created.unwrap().state, OperationState::Done);
        assert!(resumed.unwrap().is_empty());
    });
    run(async {
        let world = World::new(21).await;
        let asked = scale(&[("web", 3)], &[]);
        let (created, scaled) =
            while_another_ends(&world, async |second| second.scale(&farm(), &asked, &quiet()).await).await;
        assert_eq!(created.unwrap().state, OperationState::Done);
        assert!(matches!(scaled, Err(Error::Busy { .. })), "{scaled:?}");
    });
}
