//! The samples, applied as they stand, and what they bring about. (Those that set Macs up are in `setup.rs`.)

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Nodes, Scene, User, eventually};

fn apply(scene: &Scene<'_>, manifests: &str) -> Result<()> {
    let arguments = ["apply", "--server-side", "--validate=strict", "--namespace", scene.namespace(), "-f", "-"];
    scene.plane().kubectl(User::Admin, &arguments, manifests).map(drop)
}

fn sample(scene: &Scene<'_>, name: &str) -> Result<()> {
    let file = scene.plane().programs().deploy(&format!("samples/{name}.yaml"));
    apply(scene, &std::fs::read_to_string(file)?).with_context(|| name.to_owned())
}

/// The kubeconfig by which Cluster API finds a cluster's Nodes: this API server's.
async fn kubeconfig(scene: &Scene<'_>, cluster: &str) -> Result<()> {
    let mut secret = Kind::Secret.object(&format!("{cluster}-kubeconfig"));
    secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": cluster});
    secret["type"] = json!("cluster.x-k8s.io/secret");
    secret["stringData"] = json!({"value": scene.plane().kubeconfig(User::Admin)});
    scene.apply(&secret).await.map(drop)
}

async fn available(scene: &Scene<'_>, deployment: &str, count: u32) -> Result<()> {
    eventually(&format!("Cluster API calls {count} machines of {deployment} available"), || async {
        let status = scene.api(Kind::MachineDeployment).get(deployment).await?.data["status"].clone();
        ensure!(status["availableReplicas"] == count, "{status:#}");
        Ok(())
    })
    .await
}

/// What a template says of its machines, once it says anything.
async fn template(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<Value> {
    eventually(&format!("the template {name} says what its machines have"), || async {
        let status = scene.api(kind).get(name).await?.data["status"].clone();
        ensure!(status["capacity"]["cpu"].is_string(), "{status:#}");
        Ok(status)
    })
    .await
}

async fn failure_domains(scene: &Scene<'_>, cluster: &str, zones: &[&str]) -> Result<()> {
    let wanted: Vec<Value> = zones.iter().map(|zone| json!({"name": zone, "controlPlane": false})).collect();
    eventually(&format!("Cluster API knows the failure domains of {cluster}"), || async {
        let status = scene.api(Kind::Cluster).get(cluster).await?.data["status"].clone();
        ensure!(status["failureDomains"] == json!(wanted), "{status:#}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_of_deployments_health_checks_and_scaling_from_zero_work_as_they_stand() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "deployments").await?;
    scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    for cluster in ["macs", "linux"] {
        kubeconfig(&scene, cluster).await?;
    }
    sample(&scene, "mac-deployment")?;
    sample(&scene, "instances")?;
    sample(&scene, "machine-health-check")?;
    failure_domains(&scene, "linux", &["fr-par-1", "fr-par-2"]).await?;

    // What cluster-autoscaler reads where there is no Node yet.
    let macs = template(&scene, Kind::AppleSiliconMachineTemplate, "macs").await?;
    ensure!(macs["nodeInfo"] == json!({"architecture": "arm64", "operatingSystem": "darwin"}), "{macs:#}");
    ensure!(macs["capacity"]["memory"].is_string() && macs["capacity"]["ephemeral-storage"].is_string(), "{macs:#}");
    let linux = template(&scene, Kind::InstanceMachineTemplate, "linux").await?;
    ensure!(linux["nodeInfo"] == json!({"architecture": "amd64"}), "{linux:#}");
    ensure!(linux["capacity"] == json!({"cpu": "4", "memory": "16Gi", "ephemeral-storage": "40G"}), "{linux:#}");
    let deployment = scene.api(Kind::MachineDeployment).get("linux").await?;
    ensure!(deployment.data["spec"]["replicas"] == 0, "from zero: {:#}", deployment.data["spec"]);
    let labels = linux["nodeLabels"].as_object().context("no labels")?;
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    let annotated = &deployment.annotations()["capacity.cluster-autoscaler.kubernetes.io/labels"];
    ensure!(*annotated == labels.join(","), "{annotated} but {labels:?}");

    // What it does then.
    scene.scale("linux", 1).await?;
    available(&scene, "linux", 1).await?;
    available(&scene, "macs", 2).await?;
    let server = scene.scaleway().instances().pop().context("no server")?;
    ensure!(server["zone"] == "fr-par-2" && server["commercial_type"] == "PRO2-XS", "{server:#}");

    // The health check with the sample's template, in less time than five minutes.
    let conditions = json!([{"type": "Ready", "status": "False", "timeoutSeconds": 0}]);
    let soon = json!({"spec": {
        "checks": {"unhealthyNodeConditions": conditions},
        "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "100%"}},
    }});
    let machine = scene.list(Kind::InstanceMachine).await?.pop().context("no machine")?.name_any();
    Nodes::set_ready(scene.client(), scene.namespace(), &machine, false).await?;
    scene.patch(Kind::MachineHealthCheck, "linux", soon).await?;
    eventually("the release policy has judged it", || async {
        let remediation = scene.api(Kind::MachineRemediation).get(&machine).await?;
        ensure!(remediation.data["spec"]["intervalSeconds"] == 120, "{:#}", remediation.data);
        ensure!(remediation.data["status"]["requests"] == 1, "{:#}", remediation.data);
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clusterctl_generates_of_the_cluster_template_becomes_machines_in_its_failure_domain() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "generated").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    kubeconfig(&scene, "team").await?;
    let mut bootstrap = Kind::Secret.object("team-bootstrap");
    bootstrap["stringData"] = json!({"value": "#cloud-config\nhostname: generated\n"});
    scene.apply(&bootstrap).await?;
    let variables = json!({
        "CONTROL_PLANE_ENDPOINT_HOST": "api.example.org", "KUBERNETES_VERSION": "v1.34.1", "WORKER_MACHINE_COUNT": "1",
        "SCW_ZONE": "fr-par-2",
    });
    let generated = plane.generate_cluster("team", scene.namespace(), variables)?;
    apply(&scene, &generated)?;
    failure_domains(&scene, "team", &["fr-par-2"]).await?;
    available(&scene, "team-workers", 1).await?;
    let server = scene.scaleway().instances().pop().context("no server")?;
    // The template names no zone: the Machine's failure domain is it.
    ensure!(server["zone"] == "fr-par-2", "{server:#}");
    ensure!(
        scene.scaleway().cloud_init(server["id"].as_str().unwrap_or_default()).is_err(),
        "join data is still there"
    );
    eventually("the health check looks at it", || async {
        let status = scene.api(Kind::MachineHealthCheck).get("team-workers").await?.data["status"].clone();
        ensure!(status["currentHealthy"] == 1, "{status:#}");
        Ok(())
    })
    .await?;
    scene.end().await
}
