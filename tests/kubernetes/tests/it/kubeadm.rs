//! Cluster API's own kubeadm providers beside ours. What runs on a server is stood in for: it reads the server's user data
//! as cloud-init and kubeadm would, and goes as far as they would go without a kernel.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::{Api, Client, Config, ResourceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Nodes, Scene, User, eventually};

/// Whether the providers are installed. Each test of theirs has them to itself: clusters of this control plane have their
/// ConfigMap `kubeadm-config` in common.
static INSTALLED: Mutex<bool> = Mutex::const_new(false);

pub(crate) async fn providers(plane: &ControlPlane) -> Result<MutexGuard<'static, bool>> {
    let mut installed = INSTALLED.lock().await;
    if !*installed {
        plane.install_kubeadm().await?;
        *installed = true;
    }
    Ok(installed)
}

/// What a server is told at its first boot.
pub(crate) struct UserData {
    files: BTreeMap<String, String>,
    commands: Vec<String>,
}

impl UserData {
    /// Reads it where cloud-init would, with what its template asks of the machine.
    pub(crate) fn of(scene: &Scene<'_>, machine: &DynamicObject) -> Result<Self> {
        let server = machine.data["status"]["serverID"].as_str().context("no server")?;
        let text = scene.scaleway().cloud_init(server)?;
        ensure!(text.starts_with("## template: jinja\n#cloud-config\n"), "{text}");
        let text = text.replace("{{ ds.meta_data.hostname }}", &machine.name_any());
        ensure!(!text.contains("{{"), "{text}");
        let data: Value = serde_norway::from_str(&text)?;
        let texts = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let files = data["write_files"].as_array().context("no files")?;
        let commands = data["runcmd"].as_array().context("no commands")?;
        Ok(Self {
            files: files.iter().map(|file| (texts(&file["path"]), texts(&file["content"]))).collect(),
            commands: commands.iter().map(texts).collect(),
        })
    }

    /// The documents of kubeadm's configuration at `path`, which a command gives to kubeadm, by kind.
    pub(crate) fn kubeadm(&self, subcommand: &str, path: &str) -> Result<BTreeMap<String, Value>> {
        let command = format!("kubeadm {subcommand} --config {path}");
        ensure!(self.commands.iter().any(|line| line.starts_with(&command)), "{:?}", self.commands);
        let text = self.files.get(path).with_context(|| format!("no {path}"))?;
        serde_norway::Deserializer::from_str(text)
            .map(|document| {
                let document = Value::deserialize(document)?;
                Ok((document["kind"].as_str().unwrap_or_default().to_owned(), document))
            })
            .collect()
    }
}

/// The machine of a cluster's control plane, or of its workers, once it has its server.
pub(crate) async fn machine(scene: &Scene<'_>, control_plane: bool) -> Result<DynamicObject> {
    eventually(&format!("the server of the machine (control plane: {control_plane}) runs"), || async {
        let mut machines = scene.list(Kind::InstanceMachine).await?;
        machines.retain(|one| one.labels().contains_key("cluster.x-k8s.io/control-plane") == control_plane);
        let machine = machines.pop().context("no machine")?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(machine)
    })
    .await
}

/// Whom the API server takes a bootstrap token for.
async fn groups(plane: &ControlPlane, token: &str) -> Result<Vec<String>> {
    let config = Kubeconfig::from_yaml(&plane.kubeconfig_of("node", token))?;
    let client = Client::try_from(Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)?;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())?;
    let answer: Value = client.request(request).await?;
    Ok(serde_json::from_value(answer["status"]["userInfo"]["groups"].clone())?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubeadm_cluster_is_made_of_instances_and_goes_without_a_trace() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let _alone = providers(plane).await?;
    let scene = Scene::new(plane, "kubeadm").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.authority("whole").await?;
    let endpoint = plane.url().replace("https://", "");
    let (host, port) = endpoint.split_once(':').context("no port")?;
    let sample = std::fs::read_to_string(plane.programs().deploy("samples/kubeadm-cluster.yaml"))?
        .replace("{host: api.example.org, port: 6443}", &format!("{{host: {host}, port: {port}}}"));
    let arguments = ["apply", "--server-side", "--validate=strict", "--namespace", scene.namespace(), "-f", "-"];
    plane.kubectl(User::Admin, &arguments, &sample)?;

    // The first server: what `kubeadm init` reads there, and what it leaves in the cluster.
    let first = machine(&scene, true).await?;
    let data = UserData::of(&scene, &first)?;
    let (authority, public_key) = plane.authority();
    let certificate = data.files.get("/etc/kubernetes/pki/ca.crt").context("no authority")?;
    ensure!(certificate.trim() == authority.trim(), "{certificate}");
    let configuration = data.kubeadm("init", "/run/kubeadm/kubeadm.yaml")?;
    let init = configuration.get("InitConfiguration").context("no InitConfiguration")?;
    ensure!(init["nodeRegistration"]["name"] == first.name_any(), "{init:#}");
    let cluster = configuration.get("ClusterConfiguration").context("no ClusterConfiguration")?;
    ensure!(cluster["controlPlaneEndpoint"] == endpoint, "{cluster:#}");
    let kubeadm: Api<ConfigMap> = Api::namespaced(scene.client().clone(), "kube-system");
    let map = json!({"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": cluster.to_string()}});
    kubeadm.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    // Kubelets and Scaleway's cloud controller manager.
    let joining = Nodes::join(scene.client().clone(), scene.namespace());
    let nodes: Api<Node> = Api::all(scene.client().clone());
    let name = format!("{}-{}", scene.namespace(), first.name_any());
    eventually("the first node is one of the control plane", || async {
        let label = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}});
        Ok(nodes.patch(&name, &PatchParams::default(), &Patch::Merge(label)).await?)
    })
    .await?;
    drop(joining);
    eventually("the control plane is initialized", || async {
        let status = scene.api(Kind::KubeadmControlPlane).get("whole").await?.data["status"].clone();
        ensure!(status["initialization"]["controlPlaneInitialized"] == true, "{status:#}");
        Ok(())
    })
    .await?;

    // The worker: it finds the cluster's own authority, and its token lets it in.
    let worker = machine(&scene, false).await?;
    let configuration = UserData::of(&scene, &worker)?.kubeadm("join", "/run/kubeadm/kubeadm-join-config.yaml")?;
    let join = configuration.get("JoinConfiguration").context("no JoinConfiguration")?;
    ensure!(join["nodeRegistration"]["name"] == worker.name_any(), "{join:#}");
    let discovery = &join["discovery"]["bootstrapToken"];
    ensure!(discovery["apiServerEndpoint"] == endpoint, "{discovery:#}");
    let key: String = public_key.lines().filter(|line| !line.starts_with("-----")).collect();
    let key = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, key)?;
    let pin = hex::encode(ring::digest::digest(&ring::digest::SHA256, &key));
    ensure!(discovery["caCertHashes"] == json!([format!("sha256:{pin}")]), "{discovery:#}");
    let groups = groups(plane, discovery["token"].as_str().context("no token")?).await?;
    ensure!(groups.iter().any(|group| group == "system:bootstrappers:kubeadm:default-node-token"), "{groups:?}");
    let _joining = Nodes::join(scene.client().clone(), scene.namespace());
    eventually("Cluster API calls the worker available", || async {
        let status = scene.api(Kind::MachineDeployment).get("whole-workers").await?.data["status"].clone();
        ensure!(status["availableReplicas"] == 1, "{status:#}");
        Ok(())
    })
    .await?;
    eventually("the authority's key and the token are readable no longer", || async {
        for machine in [&first, &worker] {
            let server = machine.data["status"]["serverID"].as_str().context("no server")?;
            ensure!(scene.scaleway().cloud_init(server).is_err(), "{server} shows them");
        }
        Ok(())
    })
    .await?;

    scene.delete(Kind::Cluster, "whole").await?;
    scene.gone(Kind::Cluster, "whole").await?;
    let resources = scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    kubeadm.delete("kubeadm-config", &DeleteParams::default()).await?;
    scene.end().await
}
