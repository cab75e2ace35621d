//! What happens when nothing fails.

use windlass_cluster::{ClusterControl, ClusterEventKind, ClusterState, NodeState, OperationState, progress};
use windlass_policy::slots::SlotName;
use windlass_policy::{Link, Policies};
use windlass_scaleway::Client;
use windlass_simulator::{FaultKind, FaultRule};

use crate::support::{World, farm, host_in, quiet, run, scale, settings, specification};

#[test]
fn a_cluster_is_created_scaled_up_and_down_at_once_and_terminated() {
    run(async {
        let world = World::new(1).await;
        let clusters = world.start();
        let mut wanted = specification(&[("db", 1), ("web", 3)]);
        for group in wanted.groups.values_mut() {
            group.private_networks = vec![world.network.clone()];
        }
        let created = clusters.create(wanted, &quiet()).await.unwrap();
        assert_eq!(created.cluster.unwrap().state, ClusterState::Active);
        assert_eq!(world.servers(), ["farm-db-1", "farm-web-1", "farm-web-2", "farm-web-3"]);
        for node in &created.nodes {
            assert!(node.configured && node.started && node.state == NodeState::Running, "{node:?}");
            assert_eq!(node.addresses.len(), 1, "{node:?}");
            assert!(!node.private_addresses.is_empty(), "{node:?}");
        }
        let all = "farm-db-1 farm-web-1 farm-web-2 farm-web-3";
        assert_eq!(world.hooks.log(), [format!("configure {all}"), format!("start {all}")]);

        world.hooks.calls.lock().clear();
        let scaled =
            clusters.scale(&farm(), &scale(&[("db", 3), ("web", 1)], &["farm-web-1"]), &quiet()).await.unwrap();
        assert_eq!(world.servers(), ["farm-db-1", "farm-db-2", "farm-db-3", "farm-web-2"]);
        let cluster = scaled.cluster.unwrap();
        let counts: Vec<u32> = cluster.specification.groups.values().map(|group| group.count).collect();
        assert_eq!((cluster.state, counts), (ClusterState::Active, vec![3, 1]));
        assert_eq!(
            world.hooks.log(),
            ["decommission farm-web-1 farm-web-3", "configure farm-db-2 farm-db-3", "start farm-db-2 farm-db-3"]
        );
        let seen = world.hooks.calls.lock()[1].clone();
        let others: Vec<&str> = seen.others.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(others, ["farm-db-1", "farm-web-2"], "a hook knows the rest of the cluster");
        world.assert_whole("scaled");

        world.hooks.calls.lock().clear();
        let ended = clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        assert_eq!((ended.state, ended.cluster, ended.nodes.len()), (OperationState::Done, None, 0));
        assert_eq!(world.hooks.log(), ["decommission farm-db-1 farm-db-2 farm-db-3 farm-web-2"]);
        world.assert_empty("terminated");
        world.assert_closed("terminated");
        assert!(clusters.list().await.unwrap().is_empty());

        let history = clusters.history(&farm()).await.unwrap();
        let kinds: Vec<&str> = history.iter().map(|entry| entry.operation.kind.as_ref()).collect();
        assert_eq!(kinds, ["terminate", "scale", "create"], "the history survives the cluster");
        assert!(history.iter().all(|entry| entry.operation.state == OperationState::Done));
    });
}

#[test]
fn progress_is_steps_with_a_total_and_one_event_per_server_stored_and_live() {
    run(async {
        let world = World::new(2).await;
        let clusters = world.start();
        let (control, mut live) = ClusterControl::with_events();
        clusters.create(specification(&[("web", 3)]), &control).await.unwrap();
        let history = clusters.history(&farm()).await.unwrap().remove(0);
        let steps: Vec<_> = progress(&history.events)
            .into_iter()
            .map(|step| (<&str>::from(step.stage), step.step, step.total, step.done, step.failed))
            .collect();
        let step = |stage, words: &str, total| (stage, words.to_owned(), total, total, 0);
        assert_eq!(
            steps,
            [
                step("validate", "ask Scaleway", 1),
                step("servers", "create servers", 3),
                step("wait", "wait for servers", 3),
                step("prepare", "look up addresses", 3),
                step("configure", "run the configure hook", 3),
                step("start", "run the start hook", 3),
            ]
        );
        let mut seen = Vec::new();
        while let Ok(event) = live.try_recv() {
            seen.push(event.what);
        }
        let stored: Vec<_> = history.events.into_iter().map(|event| event.what).collect();
        assert_eq!(seen, stored, "the live view sees what is stored");
        assert!(stored.contains(&ClusterEventKind::HookOutput {
            stage: windlass_cluster::Stage::Configure,
            output: "3 nodes".into()
        }));
    });
}

#[test]
fn what_scaleway_does_not_have_is_found_before_anything_is_spent() {
    run(async {
        let world = World::new(3).await;
        let clusters = world.start();
        let mut wanted = specification(&[("web", 2)]);
        let group = wanted.groups.values_mut().next().unwrap();
        group.types = vec!["DEV1-Z".into()];
        group.private_networks = vec!["7d0e3a4c-0000-4000-8000-00000000dead".into()];
        let problems = clusters.validate(&wanted).await.unwrap();
        assert!(
            problems[0].message.contains("groups.web.types") && problems[0].message.contains("DEV1-Z"),
            "{problems:?}"
        );
        wanted.groups.values_mut().next().unwrap().types = vec!["DEV1-S".into()];
        let problems = clusters.validate(&wanted).await.unwrap();
        assert!(problems[0].message.contains("no private network"), "{problems:?}");
        let group = wanted.groups.values_mut().next().unwrap();
        group.private_networks.clear();
        group.image = "ubuntu_nobel".into();
        assert!(clusters.validate(&wanted).await.unwrap()[0].message.contains("groups.web.image"));
        wanted.groups.values_mut().next().unwrap().image = "ubuntu_noble".into();
        assert_eq!(clusters.validate(&wanted).await.unwrap(), []);
        world.simulator.set_stock("DEV1-S", windlass_simulator::Availability::Shortage);
        let error = clusters.create(wanted, &quiet()).await.unwrap_err().to_string();
        assert!(error.contains("at the stage validate") && error.contains("no DEV1-S left"), "{error}");
        let changes = world.simulator.requests().iter().filter(|request| request.method != "GET").count();
        assert_eq!(changes, 0, "nothing but questions");
        assert_eq!(clusters.status(&farm()).await.unwrap().cluster.state, ClusterState::Error);
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
    });
}

#[test]
fn a_quota_that_would_be_exceeded_is_found_before_anything_is_spent_where_it_can_be_asked() {
    run(async {
        let quotas = windlass_simulator::Quotas { servers: Some(5), ..windlass_simulator::Quotas::default() };
        let options = windlass_simulator::Options { seed: 4, quotas, ..windlass_simulator::Options::default() };
        let organization = options.default_project.clone();
        let mut world = World::with(options).await;
        let in_organization = settings().with_organization_id(&organization);
        world.client = Client::with_transport(in_organization, world.simulator.transport()).unwrap();
        let clusters = world.start();
        let asked = || world.simulator.requests().iter().filter(|request| request.path.ends_with("/quota")).count();

        let problems = clusters.validate(&specification(&[("db", 2), ("web", 4)])).await.unwrap();
        assert!(
            problems[0].message.contains("6 more servers would make 6, and the quota ComputeServers allows 5"),
            "{problems:?}"
        );
        assert_eq!(problems.len(), 1, "{problems:?}");
        clusters.create(specification(&[("db", 1), ("web", 3)]), &quiet()).await.unwrap();
        // What is there already is not counted twice.
        assert_eq!(clusters.validate(&specification(&[("db", 1), ("web", 4)])).await.unwrap(), []);

        world.simulator.clear_requests();
        let error = clusters.scale(&farm(), &scale(&[("web", 5)], &[]), &quiet()).await.unwrap_err().to_string();
        assert!(error.contains("at the stage validate") && error.contains("and the quota "), "{error}");
        assert!(world.simulator.requests().iter().all(|request| request.method == "GET"), "nothing but questions");
        // What leaves makes room, and one call counts a zone, however many servers it has.
        world.simulator.clear_requests();
        clusters.scale(&farm(), &scale(&[("db", 2), ("web", 2)], &[]), &quiet()).await.unwrap();
        assert_eq!((asked(), world.servers().len()), (1, 4));

        // A key that may not read quotas gets along without.
        let refused = FaultRule::new("GET", "/iam/v1alpha1/quota", FaultKind::PermissionDenied);
        world.simulator.add_fault(refused).unwrap();
        clusters.scale(&farm(), &scale(&[("web", 3)], &[]), &quiet()).await.unwrap();
        // And without an organization nothing is asked.
        world.client = Client::with_transport(settings(), world.simulator.transport()).unwrap();
        world.simulator.clear_requests();
        let error = world.start().scale(&farm(), &scale(&[("web", 9)], &[]), &quiet()).await.unwrap_err().to_string();
        assert!(error.contains("at the stage resize") && error.contains("quota"), "{error}");
        assert!(!world.simulator.requests().iter().any(|request| request.path.ends_with("/quota")));
    });
}

/// A policy host whose policy for this slot has one rule.
fn with_rule(
    folder: &std::path::Path,
    slot: SlotName,
    when: &str,
    answer: &str,
) -> std::sync::Arc<windlass_policy::Host> {
    let rules = folder.join("one.rules.toml");
    std::fs::write(&rules, format!("slot = \"{slot}\"\n[[rules]]\nwhen = \"{when}\"\nanswer = \"{answer}\"\n"))
        .unwrap();
    let host = host_in(folder);
    host.configure(&Policies::built_in().with(slot, Link::file(rules))).unwrap();
    host
}

/// A policy host that keeps the machines of which this is true.
fn keeping(folder: &std::path::Path, when: &str) -> std::sync::Arc<windlass_policy::Host> {
    with_rule(folder, SlotName::Release, when, "keep")
}

#[test]
fn a_placement_policy_decides_which_types_the_nodes_of_a_cluster_get() {
    run(async {
        let (world, folder) = (World::new(13).await, tempfile::tempdir().unwrap());
        let mut wanted = specification(&[("web", 2)]);
        wanted.groups.values_mut().next().unwrap().types = vec!["DEV1-S".into(), "DEV1-M".into()];
        let small = "place.server_type == 'DEV1-S'";
        let clusters = world.start_under(with_rule(folder.path(), SlotName::Placement, small, "last"));
        let created = clusters.create(wanted.clone(), &quiet()).await.unwrap();
        let types: Vec<_> = created.nodes.iter().filter_map(|node| node.server_type.as_deref()).collect();
        assert_eq!(types, ["DEV1-M", "DEV1-M"]);
        clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        drop(clusters);
        let clusters = world.start_under(with_rule(folder.path(), SlotName::Placement, "true", "skip"));
        let error = clusters.create(wanted, &quiet()).await.unwrap_err().to_string();
        assert!(error.contains("the placement policy creates 0 of 2 servers of group web"), "{error}");
        world.assert_empty("not placed");
    });
}

#[test]
fn a_node_that_the_release_policy_keeps_leaves_the_cluster_and_is_named() {
    run(async {
        let (world, folder) = (World::new(11).await, tempfile::tempdir().unwrap());
        let clusters = world.start_under(keeping(folder.path(), "machine.name != 'farm-web-3'"));
        clusters.create(specification(&[("web", 3)]), &quiet()).await.unwrap();
        let request = scale(&[("web", 1)], &["farm-web-2", "farm-web-3"]);
        let scaled = clusters.scale(&farm(), &request, &quiet()).await.unwrap();
        assert_eq!(scaled.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["farm-web-1"]);
        assert_eq!(scaled.kept.iter().map(|kept| kept.node.as_str()).collect::<Vec<_>>(), ["farm-web-2"]);
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-2"]);
        let ended = clusters.terminate(&farm(), false, &quiet()).await.unwrap();
        assert_eq!((ended.cluster, ended.kept.len()), (None, 1), "what left before is not named again");
        assert_eq!(world.servers(), ["farm-web-1", "farm-web-2"]);
        let history = clusters.history(&farm()).await.unwrap();
        assert!(history[0].operation.reasons.iter().any(|reason| reason.contains("farm-web-1 has left the cluster")));
    });
}

#[test]
fn the_release_policy_is_not_asked_about_nodes_of_a_failed_creation() {
    run(async {
        let (world, folder) = (World::new(12).await, tempfile::tempdir().unwrap());
        let clusters = world.start_under(keeping(folder.path(), "true"));
        let denied = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::PermissionDenied);
        world.simulator.add_fault(denied.nth(2)).unwrap();
        clusters.create(specification(&[("web", 2)]), &quiet()).await.unwrap_err();
        world.assert_empty("failed");
    });
}
