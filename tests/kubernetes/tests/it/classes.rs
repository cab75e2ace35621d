//! Clusters that Cluster API's topology controller makes from a ClusterClass.

use anyhow::{Context, Result, ensure};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Scene, User, eventually};

/// The object that the Cluster refers to as its control plane.
async fn control_plane(scene: &Scene<'_>) -> Result<DynamicObject> {
    let cluster = scene.api(Kind::Cluster).get("managed").await?;
    let name = cluster.data["spec"]["controlPlaneRef"]["name"].as_str().context("no control plane yet")?.to_owned();
    Ok(scene.api(Kind::ExternalCluster).get(&name).await?)
}

async fn has_version(scene: &Scene<'_>, version: &str) -> Result<()> {
    eventually(&format!("the topology is reconciled at {version}"), || async {
        let cluster = scene.api(Kind::Cluster).get("managed").await?;
        let conditions = cluster.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let holds = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
        ensure!(holds("TopologyReconciled") && holds("InfrastructureReady"), "{conditions:#?}");
        let plane = control_plane(scene).await?;
        let versions = (&plane.data["spec"]["version"], &plane.data["status"]["version"]);
        ensure!(versions == (&json!(version), &json!(version)), "{versions:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_class_has_a_control_plane_that_is_managed_elsewhere_and_follows_its_version() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "classes").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let template = json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ExternalClusterTemplate", "name": "elsewhere",
    });
    let objects: [Value; 3] = [
        json!({
            "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ExternalClusterTemplate",
            "metadata": {"name": "elsewhere"},
            "spec": {"template": {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}}},
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "elsewhere"},
            "spec": {"infrastructure": {"templateRef": template}, "controlPlane": {"templateRef": template}},
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "managed"},
            "spec": {"topology": {"classRef": {"name": "elsewhere"}, "version": "v1.34.1"}},
        }),
    ];
    for object in objects {
        let arguments = ["apply", "--namespace", scene.namespace(), "--server-side", "-f", "-"];
        // The class is known to the webhook of Clusters a moment later.
        eventually("the object is taken", || async { plane.kubectl(User::Admin, &arguments, &object.to_string()) })
            .await?;
    }
    has_version(&scene, "v1.34.1").await?;
    // A new version of the topology goes through the control plane.
    let newer = json!({"spec": {"topology": {"version": "v1.35.0"}}});
    scene.patch(Kind::Cluster, "managed", newer).await?;
    has_version(&scene, "v1.35.0").await?;
    scene.delete(Kind::Cluster, "managed").await?;
    scene.gone(Kind::Cluster, "managed").await?;
    scene.end().await
}
