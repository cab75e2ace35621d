//! What is said to be gone is gone, and what one object says harms no other.

use anyhow::{Context, Result, ensure};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

use crate::orphans::{look, plane, strand};

fn instance(name: &str, zone: &str) -> Value {
    let mut object = Kind::InstanceMachine.object(name);
    object["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": zone});
    object
}

async fn ready(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<DynamicObject> {
    eventually(&format!("{name} is ready"), || async {
        let object = scene.api(kind).get(name).await?;
        ensure!(object.data["status"]["ready"] == true, "{:#}", object.data["status"]);
        Ok(object)
    })
    .await
}

/// Waits until a condition of the object has this reason, and gives its message.
async fn says(scene: &Scene<'_>, kind: Kind, name: &str, condition: &str, reason: &str) -> Result<String> {
    eventually(&format!("{name} says {reason}"), || async {
        let status = scene.api(kind).get(name).await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == condition && one["reason"] == reason);
        let message = found.with_context(|| format!("{status:#}"))?["message"].clone();
        Ok(message.as_str().unwrap_or_default().to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_our_tag_is_named_and_its_object_stays_until_somebody_decides() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "untagged").await?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let mut servers = Vec::new();
    for name in ["returned", "deleted", "abandoned"] {
        scene.apply(&instance(name, "fr-par-1")).await?;
        let machine = ready(&scene, Kind::InstanceMachine, name).await?;
        let id = machine.data["status"]["serverID"].as_str().context("no server")?.to_owned();
        let all = scene.scaleway().instances();
        let server = all.iter().find(|server| server["id"] == *id).context("no such server")?;
        let tags: Vec<String> = serde_json::from_value(server["tags"].clone())?;
        scene.scaleway().set_tags(&id, &[])?;
        scene.delete(Kind::InstanceMachine, name).await?;
        let message = says(&scene, Kind::InstanceMachine, name, "Released", "NotOurs").await?;
        ensure!(message.contains(&id) && message.contains("windlass-owner="), "{message}");
        let events = scene.events(name).await?;
        ensure!(events.iter().any(|event| event.starts_with("Warning NotOurs: ") && event.contains(&id)), "{events:?}");
        ensure!(!events.iter().any(|event| event.contains("ServerRemoved")), "{events:?}");
        scene.looked_at_later(&controller, Kind::InstanceMachine, name).await?;
        ensure!(scene.api(Kind::InstanceMachine).get_opt(name).await?.is_some(), "{name} is gone, and its server runs");
        servers.push((name, id, tags));
    }
    for (name, id, tags) in &servers {
        match *name {
            "returned" => scene.scaleway().set_tags(id, tags)?,
            "deleted" => scene.scaleway().simulator().set_server_state(id, windlass_simulator::ForcedState::Deleted)?,
            _ => {
                let abandon =
                    json!({"metadata": {"annotations": {"windlass.dev/abandon": "it is another team's now"}}});
                scene.patch(Kind::InstanceMachine, name, abandon).await?;
            }
        }
        scene.gone(Kind::InstanceMachine, name).await?;
    }
    let left: Vec<_> = scene.scaleway().instances().iter().map(|server| server["id"].clone()).collect();
    ensure!(left == [json!(servers[2].1)], "{left:?}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_in_a_zone_that_cannot_be_listed_goes_and_hides_no_orphan() -> Result<()> {
    let Some(plane) = plane().await? else { return Ok(()) };
    let scene = Scene::new(plane, "nowhere").await?;
    let neighbour = scene.neighbour("neighbour").await?;
    // A zone of a region that exists, which Scaleway does not have.
    neighbour.apply(&MachineOptions::default().with("zone", json!("fr-par-9")).machine("mac")).await?;
    neighbour.apply(&instance("server", "fr-par-9")).await?;
    let mut options = ControllerOptions::default();
    look(&scene, &mut options, "report");
    let controller = scene.start(&options).await?;
    for (kind, name) in [(Kind::AppleSiliconMachine, "mac"), (Kind::InstanceMachine, "server")] {
        eventually(&format!("{name} says what is wrong"), || async {
            let status = neighbour.api(kind).get(name).await?.data["status"].clone();
            ensure!(status["operation"]["state"] == "failed", "{status:#}");
            Ok(())
        })
        .await?;
    }
    strand(&scene)?;
    scene.apply(&instance("left", "fr-par-1")).await?;
    ready(&scene, Kind::InstanceMachine, "left").await?;
    scene.patch(Kind::InstanceMachine, "left", json!({"metadata": {"finalizers": null}})).await?;
    scene.delete(Kind::InstanceMachine, "left").await?;
    eventually("orphans are reported", || async {
        let metrics = controller.metrics().await?;
        for kind in ["hosts", "servers"] {
            let line = format!("windlass_orphaned_{kind}{{zone=\"fr-par-1\"}} 1\n");
            ensure!(metrics.contains(&line), "no {line} in {metrics}");
        }
        Ok(())
    })
    .await?;
    for (kind, name) in [(Kind::AppleSiliconMachine, "mac"), (Kind::InstanceMachine, "server")] {
        neighbour.delete(kind, name).await?;
        neighbour.gone(kind, name).await?;
    }
    neighbour.end().await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_owner_is_refused_and_without_the_journal_disowns_nothing_silently() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "owners").await?;
    scene.scaleway().add_hosts(1, [])?;
    let (first, second) = ("--owner=first", "--owner=second");
    let mut controller = scene.start(&ControllerOptions::default().argument(first)).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.apply(&instance("server", "fr-par-1")).await?;
    let server = ready(&scene, Kind::InstanceMachine, "server").await?;
    let id = server.data["status"]["serverID"].as_str().context("no server")?.to_owned();
    controller.stop()?;

    let mut refused = scene.start_unchecked(&ControllerOptions::default().argument(second)).await?;
    let status = eventually("it ends", || {
        let ended = refused.ended();
        async move { ended?.context("it runs") }
    })
    .await?;
    let words = refused.last_words();
    ensure!(status.code() == Some(2) && words.contains("--owner") && words.contains("owner first"), "{words}");

    // Without the journal nobody knows the former owner but the objects.
    let lost = ControllerOptions { state: "lost".to_owned(), ..ControllerOptions::default() }.argument(second);
    let mut controller = scene.start(&lost).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.delete(Kind::InstanceMachine, "server").await?;
    let message = says(&scene, Kind::InstanceMachine, "server", "Released", "NotOurs").await?;
    ensure!(message.contains(&id) && scene.scaleway().instances().len() == 1, "{message}");
    controller.stop()?;
    let _controller = scene
        .start(&ControllerOptions { state: "again".to_owned(), ..ControllerOptions::default() }.argument(first))
        .await?;
    scene.gone(Kind::InstanceMachine, "server").await?;
    ensure!(scene.scaleway().instances().is_empty());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_of_any_length_is_taken() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "retry").await?;
    scene.scaleway().add_hosts(1, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let mac = MachineOptions::default().annotated("windlass.dev/retry", &"r".repeat(300));
    scene.apply(&mac.with("setup", json!({"configMapRef": {"name": "absent"}})).machine("mac")).await?;
    eventually("it says why the Mac is not set up", || async {
        let status = scene.api(Kind::AppleSiliconMachine).get("mac").await?.data["status"].clone();
        ensure!(status["setup"]["state"] == "Waiting" && status.to_string().contains("absent"), "{status:#}");
        Ok(())
    })
    .await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    cluster["metadata"]["annotations"] = json!({"windlass.dev/retry": "r".repeat(300)});
    let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "groups": [group]});
    scene.apply(&cluster).await?;
    says(&scene, Kind::ServerCluster, "farm", "Ready", "Active").await?;
    scene.delete(Kind::ServerCluster, "farm").await?;
    scene.gone(Kind::ServerCluster, "farm").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_of_no_region_of_scaleway_is_refused_by_the_api_server() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "zones").await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "us-nyc-1", "groups": [group]});
    let mut external = Kind::ExternalCluster.object("external");
    external["spec"] = json!({"zones": ["us-nyc-1"]});
    let mut named = instance("server", "fr-par-1");
    named["spec"]["providerID"] = json!("scaleway://instance/us-nyc-1/x");
    for object in [
        MachineOptions::default().with("zone", json!("us-nyc-1")).machine("mac"),
        MachineOptions::default().with("providerID", json!("scaleway-apple-silicon://us-nyc-1/x")).machine("mac"),
        instance("server", "us-nyc-1"),
        named,
        cluster,
        external,
    ] {
        let refused = scene.apply(&object).await.err().with_context(|| format!("let pass: {object}"))?;
        ensure!(format!("{refused:#}").contains("should match"), "{refused:#}");
    }
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_somebody_else_manages_is_left_to_them() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "managed-by").await?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let mut external = Kind::ExternalCluster.object("theirs");
    external["metadata"]["annotations"] = json!({"cluster.x-k8s.io/managed-by": "another"});
    external["spec"] = json!({"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}});
    scene.apply(&external).await?;
    scene.looked_at_again(&controller, Kind::ExternalCluster, "theirs").await?;
    let status = scene.api(Kind::ExternalCluster).get("theirs").await?.data["status"].clone();
    ensure!(status.is_null(), "{status:#}");
    scene.end().await
}
