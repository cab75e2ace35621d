//! Objects that are moved: deleted while they are paused, and made again without their status, as `clusterctl move`
//! does.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

const PAUSED: &str = "cluster.x-k8s.io/paused";

/// One of two controllers with the same owner, each with a volume of its own.
fn controller(scene: &Scene<'_>, state: &str) -> ControllerOptions {
    ControllerOptions { state: state.to_owned(), ..ControllerOptions::default() }
        .argument(&format!("--owner={}", scene.namespace()))
}

/// What of an object is moved: neither the server's own metadata nor the status.
fn moved(object: &DynamicObject) -> Result<Value> {
    let mut value = serde_json::to_value(object)?;
    value.as_object_mut().context("an object")?.remove("status");
    let metadata = value["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|key, _| ["name", "annotations", "labels", "finalizers"].contains(&key.as_str()));
    Ok(value)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_moved_keeps_its_host_untouched_and_lets_it_go_like_any_other() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "moved").await?;
    scene.scaleway().add_hosts(2, [])?;
    let mut old = scene.start(&controller(&scene, "old")).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    // Its set-up failed often before it worked; a status that is lost must not let that be judged anew.
    let failures = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": "7"}}});
    scene.patch(Kind::AppleSiliconMachine, "mac", failures).await?;
    eventually("it was rebooted for that", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        ensure!(machine.data["status"]["bootstrap"]["rebooted"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await?;
    scene.ready_machines(1).await?;

    let paused = |value: Value| json!({"metadata": {"annotations": {PAUSED: value}}});
    scene.patch(Kind::AppleSiliconMachine, "mac", paused(json!("true"))).await?;
    let before = eventually("the pause shows", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().any(|one| one["type"] == "Paused" && one["status"] == "True"), "{conditions:#?}");
        Ok(machine)
    })
    .await?;
    scene.scaleway().simulator().clear_requests();
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    // The mover takes the finalizer away, so that the object goes without its controller.
    scene.patch(Kind::AppleSiliconMachine, "mac", json!({"metadata": {"finalizers": null}})).await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    old.stop()?;

    let made = scene.apply(&moved(&before)?).await?;
    ensure!(made.uid() != before.uid() && made.data["status"].is_null(), "another object, without a status: {made:?}");
    let _new = scene.start(&controller(&scene, "new")).await?;
    let claim = before.annotations().get("windlass.dev/claim").context("no claim")?;
    scene.approve(&[(claim, "mac")]).await?;
    scene.patch(Kind::AppleSiliconMachine, "mac", paused(Value::Null)).await?;
    let after = scene.ready_machines(1).await?.remove(0);
    ensure!(after.data["spec"]["providerID"] == before.data["spec"]["providerID"], "{after:?}");
    ensure!(after.annotations().get("windlass.dev/claim") == before.annotations().get("windlass.dev/claim"));
    let host = |machine: &DynamicObject| machine.data["status"]["serverID"].as_str().unwrap_or_default().to_owned();
    ensure!(host(&after) == host(&before) && !host(&after).is_empty(), "{after:?}");
    // Whoever bootstraps finds the Secret under the new object.
    let secret = scene.api(Kind::Secret).get("mac-credentials").await?;
    ensure!(secret.owner_references().iter().any(|owner| Some(&owner.uid) == after.uid().as_ref()), "{secret:?}");
    // Claimed, renamed, rebooted, wiped: nothing of that.
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());
    scene.check_hosts(&[]).await?;

    // The next failure is the first that is judged here.
    let failures = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": "8"}}});
    scene.patch(Kind::AppleSiliconMachine, "mac", failures).await?;
    eventually("it is judged", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let bootstrap = &machine.data["status"]["bootstrap"];
        ensure!(bootstrap["judgedFailures"] == 8 && bootstrap["failuresBefore"] == 7, "{bootstrap}");
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());

    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    scene.end().await
}
