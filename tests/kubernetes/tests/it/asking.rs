//! What the controller has policies decide: every slot that it asks, and that no object does what a policy forbids.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use windlass_policy::Asker;
use windlass_simulator::{Effect, FaultKind};
use windlass_test_kubernetes::{
    ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually, eventually_within,
};

const SERVERS: &str = "/instance/v1/zones/*/servers";

/// With rules for each of these slots that answer so whatever is asked.
fn rules(scene: &Scene<'_>, answers: &[(&str, &str)]) -> Result<ControllerOptions> {
    let mut policies = json!({});
    for (slot, answer) in answers {
        let (when, file) = ("when = \"true\"", format!("{slot}.rules.toml"));
        let text = format!("slot = \"{slot}\"\n[[rules]]\n{when}\nanswer = \"{answer}\"\nreason = \"as told\"\n");
        std::fs::write(scene.folder().join(&file), text)?;
        policies[*slot] = json!({"path": file});
    }
    Ok(ControllerOptions::configured(json!({"policies": policies})))
}

fn instance(name: &str, types: &[&str]) -> Value {
    let mut instance = Kind::InstanceMachine.object(name);
    instance["spec"] = json!({"types": types, "image": "ubuntu_noble", "zone": "fr-par-1"});
    instance
}

/// The cluster `farm` with so many nodes, and no hooks.
fn farm(count: u32) -> Value {
    let mut cluster = Kind::ServerCluster.object("farm");
    let group = json!({"name": "web", "count": count, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "groups": [group]});
    cluster
}

async fn status(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<Value> {
    Ok(scene.api(kind).get(name).await?.data["status"].clone())
}

fn ready_of(status: &Value) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

/// Waits until an Instance's server runs.
async fn runs(scene: &Scene<'_>, name: &str) -> Result<()> {
    eventually(&format!("{name} runs"), || async {
        let status = status(scene, Kind::InstanceMachine, name).await?;
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await
}

/// Waits until `farm` is ready with these nodes.
async fn farm_has(scene: &Scene<'_>, nodes: &[&str]) -> Result<()> {
    eventually(&format!("farm is ready with {nodes:?}"), || async {
        let status = status(scene, Kind::ServerCluster, "farm").await?;
        let there: Vec<&str> =
            status["nodes"].as_array().into_iter().flatten().filter_map(|node| node["name"].as_str()).collect();
        ensure!(ready_of(&status)["status"] == "True" && there == nodes, "{status:#}");
        Ok(())
    })
    .await
}

/// Waits until an event about an object begins and goes on so.
async fn has_event(scene: &Scene<'_>, name: &str, beginning: &str, words: &str) -> Result<()> {
    eventually(&format!("{name}: {beginning} ... {words}"), || async {
        let events = scene.events(name).await?;
        let is_it = |event: &String| event.starts_with(beginning) && event.contains(words);
        ensure!(events.iter().any(is_it), "{events:#?}");
        Ok(())
    })
    .await
}

async fn deleted(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<()> {
    scene.delete(kind, name).await?;
    scene.gone(kind, name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_slot_that_the_controller_asks_is_asked() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "asked").await?;
    scene.scaleway().add_hosts(1, [])?;
    let slots = Asker::Controller.slots();
    let deferring: Vec<(&str, &str)> = slots.iter().map(|slot| (slot.as_str(), "defer")).collect();
    let controller = scene.start(&rules(&scene, &deferring)?).await?;
    let action = format!("{SERVERS}/*/action");
    scene.scaleway().fail("POST", &action, Some(1), FaultKind::InternalServerError, Effect::Before)?;
    scene.apply(&instance("linux", &["DEV1-S", "DEV1-M"])).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    runs(&scene, "linux").await?;
    scene.ready_machines(1).await?;
    deleted(&scene, Kind::InstanceMachine, "linux").await?;
    deleted(&scene, Kind::AppleSiliconMachine, "mac").await?;
    scene.scaleway().fail("POST", SERVERS, None, FaultKind::QuotaExceeded, Effect::Before)?;
    scene.apply(&farm(1)).await?;
    eventually("the creation of the cluster has failed", || async {
        let status = status(&scene, Kind::ServerCluster, "farm").await?;
        ensure!(status["state"] == "error", "{status:#}");
        Ok(())
    })
    .await?;
    scene.scaleway().calm();
    deleted(&scene, Kind::ServerCluster, "farm").await?;
    for slot in slots {
        let of_slot = format!("--slot={slot}");
        let by_rules = format!("--policy={slot}.rules.toml");
        let list = ["decisions", of_slot.as_str(), by_rules.as_str(), "--limit=1", "--output=json"];
        eventually_within(Duration::from_secs(30), &format!("{slot} was asked"), || async {
            let listed: Value = serde_json::from_str(&controller.look(&list)?)?;
            ensure!(listed["decisions"].as_array().is_some_and(|all| !all.is_empty()), "{listed}");
            Ok(())
        })
        .await?;
    }
    scene.end().await
}

/// A remediated Instance is in `remediation.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_keeps_everything_keeps_of_every_object() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "keeps").await?;
    let host = scene.scaleway().add_hosts(1, [])?.remove(0);
    let mut controller = scene.start(&rules(&scene, &[("release", "keep")])?).await?;
    scene.apply(&instance("linux", &["DEV1-S"])).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.apply(&farm(2)).await?;
    runs(&scene, "linux").await?;
    scene.ready_machines(1).await?;
    farm_has(&scene, &["farm-web-1", "farm-web-2"]).await?;
    let servers = || {
        let there = scene.scaleway().simulator().resources();
        let mut ids: Vec<String> = there.servers.iter().map(|server| server["id"].to_string()).collect();
        ids.sort();
        (ids, there.ips.len(), there.volumes.len())
    };
    let before = (servers(), scene.scaleway().host(&host)?.name);
    ensure!(before.0.0.len() == 3, "{before:?}");
    let stay = |when: &str| -> Result<()> {
        let mac = scene.scaleway().host(&host)?;
        ensure!(before == (servers(), mac.name.clone()), "{when}: {before:?}, now {:?}, {mac:?}", servers());
        ensure!(mac.wiped_as.is_empty() && !mac.deletion_scheduled && mac.reboots == 0, "{when}: {mac:?}");
        Ok(())
    };

    // After so many failures, the default has the host replaced.
    let failures = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": "8"}}});
    scene.patch(Kind::AppleSiliconMachine, "mac", failures).await?;
    has_event(&scene, "mac", "Normal BootstrapRetried: ", "as told").await?;
    stay("the set-up failed")?;
    for (kind, name) in [(Kind::AppleSiliconMachine, "mac"), (Kind::InstanceMachine, "linux")] {
        deleted(&scene, kind, name).await?;
        has_event(&scene, name, "Normal Kept: ", "as told").await?;
        stay(name)?;
    }
    scene.apply(&farm(1)).await?;
    farm_has(&scene, &["farm-web-1"]).await?;
    has_event(&scene, "farm", "Warning NodeFailed: ", "farm-web-2 has left the cluster").await?;
    stay("scaled down")?;
    deleted(&scene, Kind::ServerCluster, "farm").await?;
    has_event(&scene, "farm", "Warning NodeFailed: ", "farm-web-1 has left the cluster").await?;
    stay("terminated")?;

    // The next controller has other policies, and sweeps when it starts.
    controller.stop()?;
    let _controller = scene.start(&ControllerOptions::default().argument("--sweep=remove")).await?;
    scene.apply(&instance("later", &["DEV1-S"])).await?;
    runs(&scene, "later").await?;
    deleted(&scene, Kind::InstanceMachine, "later").await?;
    stay("after the next start")?;
    scene.check_hosts(&[host]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_placement_policy_that_skips_all_makes_no_server() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "skips").await?;
    let _controller = scene.start(&rules(&scene, &[("placement", "skip")])?).await?;
    scene.apply(&instance("one", &["DEV1-S"])).await?;
    scene.apply(&instance("two", &["DEV1-S", "DEV1-M"])).await?;
    scene.apply(&farm(2)).await?;
    for name in ["one", "two"] {
        has_event(&scene, name, "Warning NotPlaced: ", "as told").await?;
        let status = status(&scene, Kind::InstanceMachine, name).await?;
        ensure!(ready_of(&status)["status"] == "False", "{status:#}");
    }
    eventually("the creation of the cluster has failed", || async {
        let status = status(&scene, Kind::ServerCluster, "farm").await?;
        let words = "the placement policy creates 0 of 2 servers of group web: as told";
        ensure!(status["state"] == "error" && status["reasons"].to_string().contains(words), "{status:#}");
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());
    // Who wonders why there is no server finds the policy in the status.
    let policies = status(&scene, Kind::InstanceMachine, "one").await?["policies"].clone();
    let named = policies.as_array().into_iter().flatten().any(|policy| policy["slot"] == "placement");
    for (kind, name) in [(Kind::InstanceMachine, "one"), (Kind::InstanceMachine, "two"), (Kind::ServerCluster, "farm")]
    {
        deleted(&scene, kind, name).await?;
    }
    ensure!(scene.scaleway().simulator().resources().is_empty());
    ensure!(named, "{policies}");
    scene.end().await
}
