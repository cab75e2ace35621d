//! What the operator switches: what waits for Scaleway's wipe, and what is not done at all.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass_simulator::{Effect, FaultKind};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_goes_before_its_host_is_wiped_where_the_operator_says_so_and_the_release_goes_on() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "unwiped").await?;
    let host = scene.scaleway().add_hosts(1, [])?.remove(0);
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    let (path, kind) = ("/apple-silicon/**/reinstall", FaultKind::InternalServerError);
    scene.scaleway().fail("POST", path, None, kind, Effect::Before)?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    eventually("it waits by default", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let released = conditions.iter().find(|one| one["type"] == "Released").context("no condition")?.clone();
        ensure!(released["reason"] == "ReleaseWaiting", "{released:#}");
        let deleting = conditions.iter().find(|one| one["type"] == "Deleting").context("no condition")?;
        ensure!(deleting["status"] == "True" && deleting["reason"] == "ReleaseWaiting", "{deleting:#}");
        Ok(())
    })
    .await?;
    controller.stop()?;
    let unwaiting = ControllerOptions::default().argument("--wait-for-wipe=false");
    let mut controller = scene.start(&unwaiting).await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    let now = scene.scaleway().host(&host)?;
    ensure!(now.name.starts_with("windlass-returning-") && now.wiped_as.is_empty(), "{now:?}");
    eventually("an event says what becomes of it", || async {
        let events = scene.events("mac").await?;
        ensure!(events.iter().any(|event| event.starts_with("Normal ReleaseGoesOn: ")), "{events:?}");
        Ok(())
    })
    .await?;
    // Neither Scaleway's trouble nor the controller's death loses it, though no object is left that asks.
    controller.kill();
    let _controller = scene.start(&unwaiting).await?;
    scene.scaleway().calm();
    scene.all_in_pool(1).await?;
    ensure!(scene.scaleway().host(&host)?.wiped_as.len() == 1);
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_ups_and_remediations_that_are_switched_off_are_not_begun_and_hold_nothing_up() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "off").await?;
    scene.scaleway().add_hosts(1, [])?;
    let options = ControllerOptions::default().argument("--set-up=false").argument("--remediation=false");
    let mut controller = scene.start(&options).await?;
    let mut remediation = Kind::MachineRemediation.object("unhealthy");
    remediation["spec"] = json!({});
    scene.apply(&remediation).await?;
    let setup = json!({"configMapRef": {"name": "nowhere"}, "teardown": {"script": "teardown.sh"}});
    scene.apply(&MachineOptions::default().with("setup", setup).machine("mac")).await?;
    scene.ready_machines(1).await?;
    let bootstrapped = async |reason: &str| {
        eventually(&format!("it is bootstrapped or not because of {reason}"), || async {
            let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
            let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let condition = conditions.iter().find(|one| one["type"] == "Bootstrapped").context("no condition")?;
            ensure!(condition["reason"] == reason, "{condition:#}");
            Ok(condition["status"].clone())
        })
        .await
    };
    ensure!(bootstrapped("SetUpOff").await? == "False");
    // It is the word of whoever sets the Mac up from then on.
    let theirs = json!({"type": "Bootstrapped", "status": "True", "reason": "ByHand", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "AppleSiliconMachine",
        "metadata": {"name": "mac"}, "status": {"conditions": [theirs]},
    });
    let by_hand = PatchParams::apply("by-hand").force();
    scene.api(Kind::AppleSiliconMachine).patch_status("mac", &by_hand, &Patch::Apply(patch)).await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(bootstrapped("ByHand").await? == "True");
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    let remediation = scene.api(Kind::MachineRemediation).get("unhealthy").await?;
    ensure!(remediation.data["status"].is_null(), "{:#}", remediation.data);
    controller.stop()?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    eventually("a controller with remediations looks at it", || async {
        let remediation = scene.api(Kind::MachineRemediation).get("unhealthy").await?;
        ensure!(remediation.data["status"]["conditions"].is_array(), "{:#}", remediation.data);
        Ok(())
    })
    .await?;
    scene.end().await
}
