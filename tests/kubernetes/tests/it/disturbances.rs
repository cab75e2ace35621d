//! What Kubernetes and its people do meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::json;
use windlass_simulator::{Effect, FaultKind, ForcedState};
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Moment, Nodes, Scene, User, eventually,
};

/// How often a watch of the controller was interrupted.
fn interruptions(controller: &Controller) -> usize {
    controller.log().matches("the watch was interrupted and resumes").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_restarts_during_adoption_and_release_changes_no_ending() -> Result<()> {
    // Not the shared control plane: others must not feel it.
    ControlPlane::lend(restarts).await
}

async fn restarts(plane: &ControlPlane) -> Result<()> {
    let scene = Scene::new(plane, "restart").await?;
    scene.scaleway().add_hosts(3, [])?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    // Slow enough for the API server to be away while the answer comes.
    scene.scaleway().fail(
        "PATCH",
        "/apple-silicon/**",
        None,
        FaultKind::Delay(Duration::from_secs(5)),
        Effect::After,
    )?;
    // Until it has missed the API server, and work at Scaleway has gone on without it.
    let missed = || {
        let (changes, breaks) = (scene.scaleway().changes().len(), interruptions(&controller));
        let (scaleway, controller) = (scene.scaleway(), &controller);
        eventually("the controller works on without the API server", move || async move {
            let more = (scaleway.changes().len() > changes, interruptions(controller) > breaks);
            ensure!(more == (true, true), "another change and an interruption: {more:?}");
            Ok(())
        })
    };
    for number in 0..3 {
        scene.apply(&MachineOptions::default().machine(&format!("mac-{number}"))).await?;
    }
    eventually("an adoption is under way", || async {
        ensure!(!scene.scaleway().changes().is_empty());
        Ok(())
    })
    .await?;
    plane.restart_api_server(missed()).await?;
    scene.ready_machines(3).await?;
    scene.check_hosts(&[]).await?;

    let adopted = scene.scaleway().changes().len();
    for number in 0..3 {
        scene.delete(Kind::AppleSiliconMachine, &format!("mac-{number}")).await?;
    }
    eventually("a release is under way", || async {
        ensure!(scene.scaleway().changes().len() > adopted);
        Ok(())
    })
    .await?;
    plane.restart_api_server(missed()).await?;
    scene.ready_machines(0).await?;
    scene.scaleway().calm();
    scene.all_in_pool(3).await?;
    ensure!(controller.ended()?.is_none(), "it survives: {}", controller.last_words());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_that_always_come_first_neither_stop_nor_fool_it() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "conflicts").await?;
    scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (api, over) = (scene.api(Kind::AppleSiliconMachine), over.clone());
        async move {
            for round in 0_u64.. {
                if over.load(Ordering::Relaxed) {
                    return round;
                }
                for name in ["mac-0", "mac-1"] {
                    let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
                    let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            0
        }
    });
    for name in ["mac-0", "mac-1"] {
        scene.apply(&MachineOptions::default().machine(name)).await?;
    }
    scene.ready_machines(2).await?;
    scene.check_hosts(&[]).await?;
    for name in ["mac-0", "mac-1"] {
        scene.delete(Kind::AppleSiliconMachine, name).await?;
        scene.gone(Kind::AppleSiliconMachine, name).await?;
    }
    over.store(true, Ordering::Relaxed);
    let rounds = writer.await?;
    ensure!(rounds > 20, "the disturbance was none: {rounds} rounds");
    scene.all_in_pool(2).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_deleted_during_its_adoption_gives_its_host_back() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "hasty").await?;
    scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    for (round, effect) in [Effect::Before, Effect::After].into_iter().enumerate() {
        for nth in 1..=2 {
            let name = format!("hasty-{round}-{nth}");
            scene.scaleway().simulator().clear_requests();
            let slow = FaultKind::Delay(Duration::from_secs(2));
            scene.scaleway().fail("PATCH", "/apple-silicon/**", Some(nth), slow, effect)?;
            scene.apply(&MachineOptions::default().machine(&name)).await?;
            eventually("the adoption is in the middle", || async {
                ensure!(scene.scaleway().changes().len() as u64 >= nth, "not yet");
                Ok(())
            })
            .await?;
            scene.delete(Kind::AppleSiliconMachine, &name).await?;
            scene.gone(Kind::AppleSiliconMachine, &name).await.with_context(|| name.clone())?;
            scene.scaleway().calm();
            scene.all_in_pool(2).await.with_context(|| name.clone())?;
        }
    }
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_stops_adoption_and_release_alike_until_it_ends() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "pause").await?;
    scene.scaleway().add_hosts(1, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let paused = |value: serde_json::Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    let shows_pause = || {
        eventually("the pause shows in the conditions", || async {
            let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
            let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            ensure!(conditions.iter().any(|one| one["type"] == "Paused" && one["status"] == "True"), "{conditions:#?}");
            Ok(())
        })
    };

    scene.apply(&MachineOptions::default().annotated("cluster.x-k8s.io/paused", "true").machine("mac")).await?;
    shows_pause().await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());

    scene.patch(Kind::AppleSiliconMachine, "mac", paused(json!(null))).await?;
    scene.ready_machines(1).await?;

    // What `clusterctl move` does to the object that it leaves behind: a release now would wipe the host of the one
    // that moved.
    scene.patch(Kind::AppleSiliconMachine, "mac", paused(json!("true"))).await?;
    shows_pause().await?;
    scene.scaleway().simulator().clear_requests();
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());
    ensure!(!scene.machines().await?.remove(0).finalizers().is_empty());

    scene.patch(Kind::AppleSiliconMachine, "mac", paused(json!(null))).await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_cluster_pauses_its_machines() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "paused-cluster").await?;
    scene.scaleway().add_hosts(2, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 1, &MachineOptions::default()).await?;
    let machine = scene.ready_machines(1).await?.remove(0).name_any();

    scene.patch(Kind::Cluster, "macs", json!({"spec": {"paused": true}})).await?;
    scene.scaleway().simulator().clear_requests();
    scene.delete(Kind::AppleSiliconMachine, &machine).await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, &machine).await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());

    scene.patch(Kind::Cluster, "macs", json!({"spec": {"paused": false}})).await?;
    scene.gone(Kind::AppleSiliconMachine, &machine).await?;
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_is_removed_takes_its_machines_and_gives_every_host_back() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "removed").await?;
    scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 2, &MachineOptions::default()).await?;
    scene.ready_machines(2).await?;
    scene.apply(&MachineOptions::default().machine("alone")).await?;
    scene.ready_machines(3).await?;

    plane.kubectl(User::Admin, &["delete", "namespace", scene.namespace(), "--wait=false"], "")?;
    eventually("the namespace is gone", || scene.namespace_gone()).await?;
    scene.all_in_pool(3).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_host_holds_no_other_machine_up() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "slow").await?;
    scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default().argument("--concurrency=1")).await?;
    scene.apply(&MachineOptions::default().machine("first")).await?;
    scene.ready_machines(1).await?;
    // Its wipe's answer never comes.
    scene.scaleway().hold("POST", "/apple-silicon/**/reinstall", 1, Moment::After)?;
    scene.delete(Kind::AppleSiliconMachine, "first").await?;
    scene.scaleway().held().await?;
    let mut instance = json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
        "metadata": {"name": "quick"}, "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble"}});
    instance["spec"]["zone"] = json!("fr-par-1");
    scene.apply(&instance).await?;
    eventually("an instance comes up meanwhile, though one reconcile at a time is allowed", || async {
        let machine = scene.api(Kind::InstanceMachine).get("quick").await?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await?;
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_in_which_anything_panics_ends_and_the_next_goes_on() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    for place in ["reconcile", "job"] {
        let scene = Scene::new(plane, &format!("panic-{place}")).await?;
        scene.scaleway().add_hosts(1, [])?;
        let options = ControllerOptions::default().variable("WINDLASS_TEST_PANIC", &format!("{place}:mac"));
        let mut controller = scene.start(&options).await?;
        scene.apply(&MachineOptions::default().machine("mac")).await?;
        let status = eventually("the controller ends", || {
            let ended = controller.ended();
            async move { ended?.context("it runs on") }
        })
        .await?;
        ensure!(!status.success(), "{status}");
        ensure!(controller.log().contains("the controller has a defect"), "{}", controller.last_words());
        let _next = scene.start(&ControllerOptions::default()).await?;
        scene.ready_machines(1).await?;
        scene.end().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_gone_together_are_replaced_once_known_or_confirmed_to_be_gone_and_not_before() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "two-gone").await?;
    scene.scaleway().add_hosts(5, [])?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 3, &MachineOptions::default()).await?;
    let mut machines = scene.ready_machines(3).await?;
    let host = |machine: &DynamicObject| machine.data["status"]["serverID"].as_str().map(str::to_owned);
    let staying = machines.remove(0);
    let gone: Vec<String> = machines.iter().map(|machine| host(machine).context("no host")).collect::<Result<_>>()?;
    let lost: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
    let before = scene.scaleway().changes().len();
    for host in &gone {
        scene.scaleway().simulator().set_server_state(host, ForcedState::Deleted)?;
    }
    let says = async |name: &str, condition: &str, reason: &str| {
        eventually(&format!("{name} says {reason}, and what helps"), || async {
            let status = scene.api(Kind::AppleSiliconMachine).get(name).await?.data["status"].clone();
            let found = status["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == condition));
            let found = found.with_context(|| format!("{status:#}"))?;
            let message = found["message"].as_str().unwrap_or_default();
            ensure!(found["reason"] == reason && message.contains("windlass.dev/abandon"), "{found:#}");
            ensure!(status["failureReason"].is_null(), "{status:#}");
            Ok(())
        })
        .await
    };
    // Both vanish at once, as for a key whose rights were narrowed: neither counts as gone.
    for name in &lost {
        says(name, "Ready", "HostUnreadable").await?;
    }
    for machine in scene.list(Kind::Machine).await? {
        if lost.contains(&machine.data["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default().to_owned()) {
            scene.delete(Kind::Machine, &machine.name_any()).await?;
        }
    }
    for name in &lost {
        says(name, "Released", "ReleaseFailed").await?;
    }
    ensure!(scene.scaleway().changes().len() == before, "{:?}", scene.scaleway().changes());
    // Cluster API counts a Machine until it is gone: so long no other takes its place.
    let replaced = async |count: usize| {
        eventually(&format!("{count} machines are ready on hosts that there are"), || async {
            let machines = scene.machines().await?;
            let ready = machines
                .iter()
                .filter(|one| one.data["status"]["ready"] == true && one.metadata.deletion_timestamp.is_none());
            let hosts: Vec<_> = ready.filter_map(host).collect();
            ensure!(hosts.len() == count && hosts.iter().all(|host| !gone.contains(host)), "{hosts:?}");
            Ok(())
        })
        .await
    };
    // Somebody knows of the first, and says so.
    let abandon = json!({"metadata": {"annotations": {"windlass.dev/abandon": "deleted by a colleague"}}});
    scene.patch(Kind::AppleSiliconMachine, &lost[0], abandon).await?;
    scene.gone(Kind::AppleSiliconMachine, &lost[0]).await?;
    replaced(2).await?;
    let waiting = scene.api(Kind::AppleSiliconMachine).get(&lost[1]).await?;
    ensure!(waiting.metadata.deletion_timestamp.is_some() && !waiting.finalizers().is_empty(), "{waiting:?}");
    // A controller that did not see the second vanish takes Scaleway's word for it.
    controller.stop()?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.gone(Kind::AppleSiliconMachine, &lost[1]).await?;
    replaced(3).await?;
    let machines = scene.ready_machines(3).await?;
    let same = |machine: &&DynamicObject| machine.name_any() == staying.name_any();
    let after = machines.iter().find(same).context("the third is gone, too")?;
    ensure!(host(after) == host(&staying), "{after:?}");
    let changes = scene.scaleway().changes().split_off(before);
    let adoption = |call: &String| call.starts_with("PATCH") && !gone.iter().any(|host| call.contains(host));
    ensure!(changes.iter().all(adoption), "{changes:?}");
    scene.check_hosts(&gone).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_that_somebody_else_sets_meanwhile_is_not_lost() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "conditions").await?;
    let host = scene.scaleway().add_hosts(1, [])?.remove(0);
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    let machine = scene.ready_machines(1).await?.remove(0);
    let condition = |machine: &kube::core::DynamicObject, kind: &str| {
        let all = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["type"] == kind)
    };
    // While it looks at Scaleway, and so with an object in hand that is older than what is written now.
    let claim = machine.annotations()["windlass.dev/claim"].clone();
    scene.scaleway().simulator().rename_server(&host, "taken-by-hand")?;
    let slow = FaultKind::Delay(Duration::from_secs(4));
    scene.scaleway().fail("GET", "/apple-silicon/**/servers", Some(1), slow, Effect::Before)?;
    scene.scaleway().held_up().await?;
    let bootstrapped = json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "AppleSiliconMachine",
        "metadata": {"name": "mac"},
        "status": {"conditions": [{"type": "Bootstrapped", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    let apply = PatchParams::apply("bootstrapper").force();
    scene.api(Kind::AppleSiliconMachine).patch_status("mac", &apply, &Patch::Apply(bootstrapped)).await?;
    eventually("the new name shows", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let ready = condition(&machine, "Ready").context("no Ready")?;
        ensure!(ready["reason"] == "HostRenamed", "{ready}");
        Ok(())
    })
    .await?;
    let after = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
    ensure!(condition(&after, "Bootstrapped").is_some_and(|one| one["status"] == "True"), "{:#}", after.data["status"]);
    // And the other way round: who applies its own leaves ours.
    let fields = serde_json::to_string(&after.metadata.managed_fields)?;
    ensure!(fields.contains("windlass-controller") && fields.contains("bootstrapper"), "{fields}");
    scene.scaleway().simulator().rename_server(&host, &claim)?;
    scene.ready_machines(1).await?;
    scene.end().await
}
