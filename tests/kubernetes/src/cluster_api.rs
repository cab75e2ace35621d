use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control_plane::{base64, free_port};
use crate::{ControlPlane, User, eventually};

/// What needs cert-manager or a kubelet: the program runs here, with a certificate of ours.
const NOT_INSTALLED: [&str; 4] = ["Certificate", "Issuer", "Deployment", "Service"];

/// A manager of Cluster API: its program, which is also how its log and its manifests are named, and as whom it runs.
pub(crate) struct Provider {
    program: &'static str,
    user: User,
    namespace: &'static str,
}

pub(crate) const CORE: Provider = Provider { program: "cluster-api", user: User::ClusterApi, namespace: "capi-system" };
const KUBEADM: [Provider; 2] = [
    Provider { program: "kubeadm-bootstrap", user: User::KubeadmBootstrap, namespace: "capi-kubeadm-bootstrap-system" },
    Provider {
        program: "kubeadm-control-plane",
        user: User::KubeadmControlPlane,
        namespace: "capi-kubeadm-control-plane-system",
    },
];

impl ControlPlane {
    /// Installs Cluster API's kubeadm providers, once, beside its core.
    ///
    /// # Errors
    /// What the API server refuses; or when a manager does not start.
    pub async fn install_kubeadm(&self) -> Result<()> {
        for provider in &KUBEADM {
            provider.install(self).await?;
        }
        Ok(())
    }
}

impl Provider {
    /// Installs it from its own `config/default` and starts its manager under the service account and the rights that
    /// stand there. Only the webhooks' address differs: this machine instead of a Service.
    pub(crate) async fn install(&self, plane: &ControlPlane) -> Result<()> {
        let port = free_port()?;
        let (webhooks, definitions) = self
            .manifests(plane, port)?
            .into_iter()
            .partition(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration")));
        apply(plane, definitions)?;
        plane.kubectl(
            User::Admin,
            &["wait", "--for=condition=Established", "--timeout=300s", "customresourcedefinitions", "--all"],
            "",
        )?;
        self.start(plane, port).await?;
        // Only now: a webhook that nobody answers refuses every object of its kinds.
        apply(plane, webhooks)
    }

    /// Where its manifests are, with `metadata.yaml`.
    pub(crate) fn folder(&self, plane: &ControlPlane) -> PathBuf {
        plane.programs().path(&format!("{}-config", self.program))
    }

    /// Everything in `config/default` that is installed here, with its webhooks at `port`.
    pub(crate) fn manifests(&self, plane: &ControlPlane, port: u16) -> Result<Vec<Value>> {
        let configuration = self.folder(plane).join("default");
        let manifests = plane.kubectl(User::Admin, &["kustomize", configuration.to_str().context("UTF-8")?], "")?;
        let authority = base64(plane.certificates().authority.as_bytes());
        let mut objects = Vec::new();
        for document in serde_norway::Deserializer::from_str(&manifests) {
            let mut object = Value::deserialize(document).context("read Cluster API's manifests")?;
            if object["kind"].as_str().is_some_and(|kind| NOT_INSTALLED.contains(&kind)) {
                continue;
            }
            redirect(&mut object, port, &authority);
            objects.push(object);
        }
        Ok(objects)
    }

    /// Starts the manager and waits until its webhooks answer at `port`.
    pub(crate) async fn start(&self, plane: &ControlPlane, port: u16) -> Result<()> {
        let health = free_port()?;
        let mut command = Command::new(plane.programs().path(self.program));
        command
            .env("POD_NAMESPACE", self.namespace)
            .env("POD_NAME", "test")
            .env("POD_UID", "1")
            .arg(format!("--kubeconfig={}", plane.kubeconfig_file(self.user).display()))
            .arg(format!("--webhook-cert-dir={}", plane.folder().join("certificates").display()))
            .arg(format!("--webhook-port={port}"))
            .arg(format!("--health-addr=127.0.0.1:{health}"))
            // Clusters that are made from a ClusterClass: off where nobody asks for it.
            .arg("--feature-gates=ClusterTopology=true")
            .args(["--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics"]);
        plane.run(self.program, &mut command)?;
        eventually(&format!("the webhooks of {} listen", self.program), || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
            Ok(())
        })
        .await
        .with_context(|| lines_about(plane, ""))
    }
}

fn apply(plane: &ControlPlane, objects: Vec<Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    plane.kubectl(User::Admin, &["apply", "--server-side", "--force-conflicts", "-f", "-"], &list)?;
    Ok(())
}

/// Replaces each reference to the webhook's Service by this machine's address and authority.
fn redirect(value: &mut Value, port: u16, authority: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(client)) = map.get_mut("clientConfig")
                && let Some(service) = client.remove("service")
            {
                let path = service["path"].as_str().unwrap_or("/");
                client.insert("url".to_owned(), json!(format!("https://127.0.0.1:{port}{path}")));
                client.insert("caBundle".to_owned(), authority.clone());
            }
            map.values_mut().for_each(|inner| redirect(inner, port, authority));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redirect(item, port, authority)),
        _ => {}
    }
}

/// The last lines of the managers' logs that name `subject`, for the message of a failed wait.
pub(crate) fn lines_about(plane: &ControlPlane, subject: &str) -> String {
    let mut said = String::from("Cluster API's managers logged:");
    for provider in [&CORE].into_iter().chain(&KUBEADM) {
        let log = std::fs::read_to_string(plane.folder().join(format!("{}.log", provider.program))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(subject)).collect();
        said += &format!("\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
    }
    said
}
