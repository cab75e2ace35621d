//! What the operator lets namespaces spend with the operator's own key.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_simulator::{Behaviour, ForcedState};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

fn limited(limit: Value) -> ControllerOptions {
    ControllerOptions::configured(json!({"policies": {}, "limits": [limit]}))
}

fn instance(name: &str, server_type: &str) -> Value {
    let mut object = Kind::InstanceMachine.object(name);
    object["spec"] = json!({"types": [server_type], "image": "ubuntu_noble", "zone": "fr-par-1"});
    object
}

async fn ready(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<Value> {
    eventually(&format!("{name} is ready"), || async {
        let object = scene.api(kind).get(name).await?;
        ensure!(object.data["status"]["ready"] == true, "{:#}", object.data["status"]);
        Ok(object.data["status"].clone())
    })
    .await
}

/// Waits until the object is not ready for this reason, and says this.
async fn says(scene: &Scene<'_>, kind: Kind, name: &str, reason: &str, word: &str) -> Result<()> {
    eventually(&format!("{name} says {reason}: {word}"), || async {
        let status = scene.api(kind).get(name).await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == "Ready").with_context(|| format!("{status:#}"))?;
        let message = found["message"].as_str().unwrap_or_default();
        ensure!(found["reason"] == reason && message.contains(word), "{found:#}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_counts_servers_that_were_kept_and_those_of_clusters() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "limits").await?;
    let controller = scene.start(&limited(json!({"servers": 1, "types": ["DEV1-*"], "zones": ["fr-par-1"]}))).await?;
    let mut first = instance("first", "DEV1-S");
    first["metadata"]["annotations"] = json!({"windlass.dev/release-policy": "keep"});
    scene.apply(&first).await?;
    let kept = ready(&scene, Kind::InstanceMachine, "first").await?;
    scene.apply(&instance("second", "DEV1-S")).await?;
    says(&scene, Kind::InstanceMachine, "second", "LimitReached", "the operator allows 1").await?;
    scene.apply(&instance("large", "PRO2-XS")).await?;
    says(&scene, Kind::InstanceMachine, "large", "InvalidConfiguration", "and not PRO2-XS").await?;
    let mut elsewhere = instance("elsewhere", "DEV1-S");
    elsewhere["spec"]["zone"] = json!("nl-ams-1");
    scene.apply(&elsewhere).await?;
    says(&scene, Kind::InstanceMachine, "elsewhere", "InvalidConfiguration", "the zones fr-par-1").await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    let group = json!({"name": "web", "count": 2, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "groups": [group]});
    scene.apply(&cluster).await?;
    says(&scene, Kind::ServerCluster, "farm", "Refused", "the operator allows 1").await?;

    // Its object is gone, and it costs money still.
    scene.delete(Kind::InstanceMachine, "first").await?;
    scene.gone(Kind::InstanceMachine, "first").await?;
    scene.looked_at_later(&controller, Kind::InstanceMachine, "second").await?;
    says(&scene, Kind::InstanceMachine, "second", "LimitReached", "were kept").await?;
    ensure!(scene.scaleway().instances().len() == 1, "{:#?}", scene.scaleway().instances());
    let id = kept["serverID"].as_str().context("no server")?;
    scene.scaleway().simulator().set_server_state(id, ForcedState::Deleted)?;
    scene
        .patch(Kind::InstanceMachine, "second", json!({"metadata": {"annotations": {"windlass.dev/retry": "1"}}}))
        .await?;
    ready(&scene, Kind::InstanceMachine, "second").await?;
    ensure!(scene.scaleway().instances().len() == 1, "{:#?}", scene.scaleway().instances());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_cost_no_more_in_an_hour_than_the_operator_allows() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "cost").await?;
    let _controller = scene.start(&limited(json!({"costPerHour": 0.015}))).await?;
    scene.apply(&instance("first", "DEV1-S")).await?;
    ready(&scene, Kind::InstanceMachine, "first").await?;
    scene.apply(&instance("second", "DEV1-S")).await?;
    says(&scene, Kind::InstanceMachine, "second", "LimitReached", "euros an hour").await?;
    ensure!(scene.scaleway().instances().len() == 1, "{:#?}", scene.scaleway().instances());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_type_without_a_price_passes_no_cost_limit_until_the_operator_names_its_price() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "unpriced").await?;
    let unpriced = "PLAY2-PICO";
    scene.scaleway().simulator().set_behaviour(Behaviour::Unpriced(unpriced.to_owned()))?;
    let mut controller = scene.start(&limited(json!({"costPerHour": 1.0}))).await?;
    let mut object = instance("server", "DEV1-S");
    object["spec"]["types"] = json!(["DEV1-S", unpriced]);
    scene.apply(&object).await?;
    let problem = format!("no price for the type {unpriced}");
    says(&scene, Kind::InstanceMachine, "server", "LimitReached", &problem).await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    let group = json!({"name": "web", "count": 1, "types": [unpriced], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "groups": [group]});
    scene.apply(&cluster).await?;
    says(&scene, Kind::ServerCluster, "farm", "Refused", "`prices`").await?;
    ensure!(scene.scaleway().instances().is_empty(), "{:#?}", scene.scaleway().instances());
    controller.stop()?;
    let _controller = scene.start(&limited(json!({"costPerHour": 1.0, "prices": {unpriced: 0.5}}))).await?;
    ready(&scene, Kind::InstanceMachine, "server").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editors_own_limit_of_orders_counts_within_the_operators() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "orders-of-one").await?;
    let mut controller = scene.start(&limited(json!({"orders": 1})).argument("--allow-orders")).await?;
    let greedy = || MachineOptions::default().with("order", json!({"allowed": true, "limit": 1000}));
    scene.apply(&greedy().machine("first")).await?;
    scene.ready_machines(1).await?;
    scene.apply(&greedy().machine("second")).await?;
    says(&scene, Kind::AppleSiliconMachine, "second", "NoHostAvailable", "the operator allows").await?;
    ensure!(scene.scaleway().hosts().len() == 1, "{:#?}", scene.scaleway().hosts());
    controller.stop()?;
    // Nor does it have more Macs than it may, whoever ordered them.
    scene.scaleway().add_hosts(1, [])?;
    let _controller = scene.start(&limited(json!({"macs": 1}))).await?;
    says(&scene, Kind::AppleSiliconMachine, "second", "LimitReached", "has 1 Macs").await?;
    scene.delete(Kind::AppleSiliconMachine, "first").await?;
    scene.gone(Kind::AppleSiliconMachine, "first").await?;
    scene.ready_machines(1).await?;
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_annotation_deletes_no_host_of_a_pool_and_a_spec_names_no_other_project() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "shared").await?;
    // Old enough to be deleted at once.
    scene.scaleway().add_hosts(1, [std::time::Duration::from_secs(48 * 60 * 60)])?;
    let other = "cccccccc-0000-4000-8000-000000000001";
    let options = ControllerOptions::default().argument("--allow-terminate=false");
    let mut controller = scene.start(&options).await?;
    scene.apply(&MachineOptions::requesting("terminate").machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    let events = scene.events("mac").await?;
    ensure!(events.iter().any(|event| event.starts_with("Warning TerminateNotAllowed: ")), "{events:?}");

    let mut object = instance("server", "DEV1-S");
    object["spec"]["project"] = json!(other);
    scene.apply(&object).await?;
    says(&scene, Kind::InstanceMachine, "server", "InvalidConfiguration", "--allow-project").await?;
    ensure!(scene.scaleway().instances().is_empty());
    controller.stop()?;
    let _controller = scene.start(&options.argument(&format!("--allow-project={other}"))).await?;
    ready(&scene, Kind::InstanceMachine, "server").await?;
    ensure!(scene.scaleway().instances()[0]["project"] == other, "{:#?}", scene.scaleway().instances());
    scene.end().await
}
