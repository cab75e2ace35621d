//! Machines of ours in a cluster whose infrastructure and control plane another provider makes. That provider's kinds are
//! as small as the test needs them, and the test does what its controller would do.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Nodes, Scene, User, eventually};

use crate::kubeadm::{UserData, machine, providers};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A kind of the other provider.
struct ForeignKind {
    kind: &'static str,
    version: &'static str,
    /// The contract of Cluster API that it fulfils.
    contract: &'static str,
}

impl ForeignKind {
    fn resource(&self) -> String {
        format!("{}s.{GROUP}", self.kind.to_lowercase())
    }

    /// Defines it, with this schema of `spec`.
    fn define(&self, plane: &ControlPlane, spec: &Value) -> Result<()> {
        let singular = self.kind.to_lowercase();
        let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}, "required": ["spec"]});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.resource(), "labels": {format!("cluster.x-k8s.io/{}", self.contract): self.version},
            },
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": {"kind": self.kind, "plural": format!("{singular}s"), "singular": singular},
                "versions": [{
                    "name": self.version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        plane.kubectl(User::Admin, &["apply", "--server-side", "-f", "-"], &definition.to_string())?;
        let established = format!("crd/{}", self.resource());
        let wait = ["wait", "--for=condition=Established", "--timeout=300s", &established];
        plane.kubectl(User::Admin, &wait, "").map(drop)
    }

    /// What the other provider's controller writes.
    fn patch(&self, scene: &Scene<'_>, name: &str, patch: &Value) -> Result<()> {
        let (resource, patch) = (self.resource(), patch.to_string());
        let arguments = ["patch", &resource, name, "-n", scene.namespace(), "--type=merge", "--patch", &patch];
        let subresource = if patch.starts_with("{\"status\"") { &["--subresource=status"][..] } else { &[] };
        scene.plane().kubectl(User::Admin, &[&arguments, subresource].concat(), "").map(drop)
    }
}

fn apply(scene: &Scene<'_>, manifests: &str) -> Result<()> {
    let arguments = ["apply", "--server-side", "--validate=strict", "--namespace", scene.namespace(), "-f", "-"];
    scene.plane().kubectl(User::Admin, &arguments, manifests).map(drop)
}

/// A free object.
fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_come_up_in_a_cluster_on_another_providers_infrastructure() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "hetzner").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    // A provider that knows Cluster API's older contract only.
    let kind = ForeignKind { kind: "HetznerCluster", version: "v1beta1", contract: "v1beta1" };
    kind.define(plane, &anything())?;
    let theirs = json!({
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": kind.kind, "metadata": {"name": "mixed"},
        "spec": {"controlPlaneRegions": ["fsn1"], "controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
    });
    eventually("the other provider's object can be made", || async { apply(&scene, &theirs.to_string()) }).await?;
    let mut bootstrap = Kind::Secret.object("bootstrap");
    bootstrap["stringData"] = json!({"value": "#cloud-config\nhostname: from-the-test\n"});
    scene.apply(&bootstrap).await?;
    let mut cluster = Kind::Cluster.object("mixed");
    cluster["spec"] = json!({"infrastructureRef": {"apiGroup": GROUP, "kind": kind.kind, "name": "mixed"}});
    scene.apply(&cluster).await?;
    let specification = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    scene.instances("workers", "mixed", 1, specification).await?;
    eventually("the machine waits for the cluster's infrastructure", || async {
        let machines = scene.list(Kind::InstanceMachine).await?;
        let status = machines.first().context("none yet")?.data["status"].to_string();
        ensure!(status.contains("WaitingForClusterInfrastructure"), "{status}");
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().instances().is_empty());
    kind.patch(&scene, "mixed", &json!({"status": {"ready": true}}))?;
    machine(&scene, false).await?;
    scene.delete(Kind::MachineDeployment, "workers").await?;
    eventually("no resource is left", || async {
        let resources = scene.scaleway().simulator().resources();
        ensure!(resources.is_empty(), "{resources:#?}");
        Ok(())
    })
    .await?;
    scene.delete(Kind::Cluster, "mixed").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sample_of_a_mixed_cluster_gets_instances_and_macs_once_the_other_providers_part_is_there() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let _alone = providers(plane).await?;
    let scene = Scene::new(plane, "mixed").await?;
    scene.scaleway().add_hosts(1, [])?;
    let network = scene.scaleway().add_network()?;
    let before = scene.scaleway().changes().len();
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let [clusters, machines, templates] = ["ScalewayCluster", "ScalewayMachine", "ScalewayMachineTemplate"]
        .map(|kind| ForeignKind { kind, version: "v1alpha2", contract: "v1beta2" });
    // What cluster-api-provider-scaleway 0.2 requires of these.
    let string = json!({"type": "string"});
    clusters.define(
        plane,
        &json!({"type": "object", "required": ["projectID", "region", "scalewaySecretName"], "properties": {
            "projectID": string, "region": string, "scalewaySecretName": string,
            "controlPlaneEndpoint": anything(),
            "network": {"type": "object", "properties": {
                "privateNetwork": {"type": "object", "required": ["enabled"],
                    "properties": {"enabled": {"type": "boolean"}, "id": string}},
            }},
        }}),
    )?;
    machines.define(plane, &anything())?;
    templates.define(plane, &anything())?;
    scene.authority("mixed").await?;
    let sample = std::fs::read_to_string(plane.programs().deploy("samples/mixed-cluster.yaml"))?
        .replace("5d1a4e2b-0000-4000-8000-0000000000aa", &network);
    eventually("the sample is taken", || async { apply(&scene, &sample) }).await?;

    // The other provider's load balancer, then its machine, on which kubeadm makes a control plane.
    let endpoint = plane.url().replace("https://", "");
    let (host, port) = endpoint.split_once(':').context("no port")?;
    let port: u16 = port.parse()?;
    clusters.patch(&scene, "mixed", &json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": port}}}))?;
    clusters.patch(&scene, "mixed", &json!({"status": {"initialization": {"provisioned": true}}}))?;
    let get = ["get", &machines.resource(), "-n", scene.namespace(), "-o", "jsonpath={.items[*].metadata.name}"];
    let first = eventually("the control plane has a machine", || async {
        let name = plane.kubectl(User::Admin, &get, "")?;
        ensure!(!name.is_empty(), "none yet");
        Ok(name)
    })
    .await?;
    // Cluster API makes workers only for a control plane that is there.
    ensure!(scene.scaleway().changes().len() == before, "{:?}", scene.scaleway().changes());
    let provider_id = format!("scaleway://instance/fr-par-1/{}", uuid::Uuid::new_v4());
    machines.patch(&scene, &first, &json!({"spec": {"providerID": provider_id}}))?;
    machines.patch(&scene, &first, &json!({"status": {"initialization": {"provisioned": true}}}))?;
    let configuration = json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration"}).to_string();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
        "data": {"ClusterConfiguration": configuration},
    });
    plane.kubectl(User::Admin, &["create", "-f", "-"], &map.to_string())?;
    Nodes::add(scene.client(), scene.namespace(), &first, &provider_id, &["node-role.kubernetes.io/control-plane"])
        .await?;
    eventually("the control plane is initialized", || async {
        let status = scene.api(Kind::KubeadmControlPlane).get("mixed").await?.data["status"].clone();
        ensure!(status["initialization"]["controlPlaneInitialized"] == true, "{status:#}");
        Ok(())
    })
    .await?;

    // Ours.
    let worker = machine(&scene, false).await?;
    let configuration = UserData::of(&scene, &worker)?.kubeadm("join", "/run/kubeadm/kubeadm-join-config.yaml")?;
    let join = configuration.get("JoinConfiguration").context("no JoinConfiguration")?;
    ensure!(join["discovery"]["bootstrapToken"]["apiServerEndpoint"] == endpoint, "{join:#}");
    let addresses = worker.data["status"]["addresses"].as_array().cloned().unwrap_or_default();
    ensure!(addresses.iter().any(|one| one["type"] == "InternalIP"), "it is in no network: {addresses:?}");
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    for deployment in ["mixed-workers", "mixed-macs"] {
        eventually(&format!("Cluster API calls the machine of {deployment} available"), || async {
            let status = scene.api(Kind::MachineDeployment).get(deployment).await?.data["status"].clone();
            ensure!(status["availableReplicas"] == 1, "{status:#}");
            Ok(())
        })
        .await?;
    }
    scene.delete(Kind::Cluster, "mixed").await?;
    scene.gone(Kind::Cluster, "mixed").await?;
    ensure!(scene.scaleway().instances().is_empty(), "{:#?}", scene.scaleway().instances());
    scene.all_in_pool(1).await?;
    plane.kubectl(User::Admin, &["delete", "configmap", "kubeadm-config", "-n", "kube-system"], "")?;
    scene.end().await
}
