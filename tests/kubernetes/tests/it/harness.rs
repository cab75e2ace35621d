//! What the other tests stand on.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass_test_kubernetes::{ControlPlane, Kind, MachineOptions, Scene, User};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_control_plane_is_a_real_one_with_cluster_api_s_own_webhooks() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let version = plane.kubectl(User::Admin, &["version", "-o", "json"], "")?;
    ensure!(version.contains("\"v1.36.2\""), "{version}");

    let scene = Scene::new(plane, "harness").await?;
    let deployment = scene
        .apply(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "defaults"},
            "spec": {"clusterName": "none", "template": {"spec": {
                "clusterName": "none", "bootstrap": {"dataSecretName": "none"},
                "infrastructureRef": {"apiGroup": "infrastructure.windlass.dev", "kind": "AppleSiliconMachineTemplate",
                "name": "none"},
            }}},
        }))
        .await?;
    ensure!(deployment.data["spec"]["replicas"] == 1, "a default that only the webhook sets: {:#}", deployment.data);
    let refused = scene
        .apply(&json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "refused"},
            "spec": {"clusterName": "none", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "infrastructure.windlass.dev", "kind": "AppleSiliconMachine",
                "name": "none"}},
        }))
        .await;
    let refused = format!("{:#}", refused.err().context("the webhook let a Machine without bootstrap pass")?);
    ensure!(refused.contains("bootstrap"), "{refused}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_refuses_what_our_rules_forbid_and_says_why() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "rules").await?;
    let fine = MachineOptions::default().machine("fine");
    scene.apply(&fine).await?;

    for (what, object, word) in [
        ("a name that no host can carry", MachineOptions::default().machine("a.dotted.name"), "DNS label"),
        (
            "orders without a limit",
            MachineOptions::default().with("order", json!({"allowed": true})).machine("unlimited"),
            "order.limit",
        ),
        (
            "a template of one host",
            MachineOptions::default().with("providerID", json!("scaleway-apple-silicon://fr-par-1/x")).template("one"),
            "providerID",
        ),
        (
            "a pool without a name: everything would be in it",
            MachineOptions::default().with("poolPrefix", json!("")).machine("everything"),
            "poolPrefix",
        ),
        ("another zone later", MachineOptions::default().with("zone", json!("fr-par-2")).machine("fine"), "zone"),
        ("another type later", MachineOptions::default().with("type", json!("M2-L")).machine("fine"), "type"),
        ("another pool later", MachineOptions::default().with("poolPrefix", json!("other-")).machine("fine"), "pool"),
        (
            "operations per second of a local disk",
            json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
                "metadata": {"name": "iops"},
                "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble", "rootVolume": {"type": "l_ssd", "iops": 5000}}}),
            "iops",
        ),
        (
            "an endpoint without a port",
            json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ExternalCluster",
                "metadata": {"name": "portless"},
                "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1"}}}),
            "port",
        ),
    ] {
        let refused = scene.apply(&object).await.err().with_context(|| format!("{what} was let pass"))?;
        let refused = format!("{refused:#}");
        ensure!(refused.contains(word), "{what}: {refused}");
    }
    ensure!(scene.list(Kind::AppleSiliconMachine).await?.len() == 1);
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_what_people_look_for() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "columns").await?;
    scene.apply(&MachineOptions::default().machine("shown")).await?;
    let table = plane.kubectl(User::Admin, &["get", "asm", "--namespace", scene.namespace()], "")?;
    for column in ["PHASE", "READY", "TYPE", "ZONE", "AGE", "M4-S"] {
        ensure!(table.contains(column), "no {column} in\n{table}");
    }
    let category =
        plane.kubectl(User::Admin, &["get", "cluster-api", "--namespace", scene.namespace(), "-o", "name"], "")?;
    ensure!(category.contains("applesiliconmachine.infrastructure.windlass.dev/shown"), "{category}");
    scene.end().await
}
