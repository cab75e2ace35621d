//! What docs/kubernetes-migration.md says about a host that another controller handed out.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, User};

/// Renames a host as its owner does in the console.
fn rename(scene: &Scene<'_>, host: &str, name: &str) -> Result<()> {
    let url = format!("{}/apple-silicon/v1alpha1/zones/fr-par-1/servers/{host}", scene.scaleway().url());
    let token = "X-Auth-Token: 11111111-1111-4111-8111-111111111111";
    let body = json!({"name": name}).to_string();
    let kind = "Content-Type: application/json";
    let arguments = ["-sf", "--max-time", "300", "-X", "PATCH", "-H", token, "-H", kind, "-d", &body, &url];
    let answer = std::process::Command::new("curl").args(arguments).output().context("run curl")?;
    ensure!(answer.status.success(), "{answer:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_in_use_is_taken_over_without_being_wiped_and_released_like_any_other() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "migration").await?;
    let hosts = scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;

    let claim = "legacy-mac-of-the-other-controller";
    let machine = MachineOptions::default().annotated("windlass.dev/claim", claim);
    scene.apply(&machine.annotated("cluster.x-k8s.io/paused", "true").machine("mac")).await?;
    rename(&scene, &hosts[0], claim)?;
    scene.approve(&[(claim, "mac")]).await?;
    scene.scaleway().simulator().clear_requests();
    let provider_id = format!("scaleway-apple-silicon://fr-par-1/{}", hosts[0]);
    let patch = json!({
        "metadata": {"annotations": {"cluster.x-k8s.io/paused": null}},
        "spec": {"providerID": provider_id},
    });
    scene.patch(Kind::AppleSiliconMachine, "mac", patch).await?;
    let ready = scene.ready_machines(1).await?.remove(0);
    ensure!(ready.data["spec"]["providerID"] == provider_id, "{:#}", ready.data["spec"]);
    ensure!(ready.data["status"]["credentialsSecretName"].is_string(), "{:#}", ready.data["status"]);
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());
    scene.check_hosts(&[]).await?;

    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    ensure!(scene.scaleway().host(&hosts[0])?.wiped_as.len() == 1);
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_converter_prints_of_tuists_objects_takes_the_host_over_untouched() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "converted").await?;
    let hosts = scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let theirs = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ScalewayAppleSiliconMachine",
        "metadata": {"name": "mac-1", "namespace": scene.namespace()},
        "spec": {
            "providerID": format!("scw-applesilicon://fr-par-1/{}", hosts[0]), "type": MachineOptions::TYPE,
            "zone": "fr-par-1", "adoptPoolPrefix": MachineOptions::POOL, "fleetName": "runners",
        },
        "status": {"serverID": hosts[0]},
    });
    let converted = plane.convert(&theirs.to_string())?;
    plane.kubectl(User::Admin, &["apply", "--server-side", "--filename", "-"], &converted)?;
    let command =
        converted.lines().find(|line| line.contains("scw apple-silicon server update")).context("no rename")?;
    let name = command.split_whitespace().find_map(|word| word.strip_prefix("name=")).context("no name")?;
    scene.scaleway().simulator().clear_requests();
    rename(&scene, &hosts[0], name)?;
    let renamed = scene.scaleway().changes().len();
    let unpause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    scene.patch(Kind::AppleSiliconMachine, "mac-1", unpause).await?;
    let ready = scene.ready_machines(1).await?.remove(0);
    ensure!(ready.data["status"]["serverID"] == hosts[0], "{:#}", ready.data["status"]);
    ensure!(scene.scaleway().changes().len() == renamed, "{:?}", scene.scaleway().changes());
    scene.delete(Kind::AppleSiliconMachine, "mac-1").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac-1").await?;
    scene.all_in_pool(2).await?;
    scene.end().await
}
