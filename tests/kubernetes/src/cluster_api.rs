use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::control_plane::{base64, free_port};
use crate::{ControlPlane, User, eventually};

/// What needs cert-manager or a kubelet: the program runs here, with a certificate of ours.
const NOT_INSTALLED: [&str; 4] = ["Certificate", "Issuer", "Deployment", "Service"];

/// Installs Cluster API's core from its own `config/default` and starts its manager under the service account and the
/// rights that stand there. Only the webhooks' address differs: this machine instead of a Service.
pub(crate) async fn install(plane: &ControlPlane) -> Result<()> {
    let port = free_port()?;
    let (webhooks, definitions) = manifests(plane, port)?
        .into_iter()
        .partition(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration")));
    apply(plane, definitions)?;
    plane.kubectl(
        User::Admin,
        &["wait", "--for=condition=Established", "--timeout=300s", "customresourcedefinitions", "--all"],
        "",
    )?;
    start(plane, port).await?;
    // Only now: a webhook that nobody answers refuses every object of its kinds.
    apply(plane, webhooks)
}

/// Everything in `config/default` that is installed here, with its webhooks at `port`.
pub(crate) fn manifests(plane: &ControlPlane, port: u16) -> Result<Vec<Value>> {
    let configuration = plane.programs().path("cluster-api-config").join("default");
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
pub(crate) async fn start(plane: &ControlPlane, port: u16) -> Result<()> {
    let health = free_port()?;
    let mut command = Command::new(plane.programs().path("cluster-api"));
    command
        .env("POD_NAMESPACE", "capi-system")
        .env("POD_NAME", "test")
        .env("POD_UID", "1")
        .arg(format!("--kubeconfig={}", plane.kubeconfig_file(User::ClusterApi).display()))
        .arg(format!("--webhook-cert-dir={}", plane.folder().join("certificates").display()))
        .arg(format!("--webhook-port={port}"))
        .arg(format!("--health-addr=127.0.0.1:{health}"))
        // Clusters that are made from a ClusterClass: off where nobody asks for it.
        .arg("--feature-gates=ClusterTopology=true")
        .args(["--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics"]);
    plane.run("cluster-api", &mut command)?;
    eventually("Cluster API's webhooks listen", || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        Ok(())
    })
    .await
    .with_context(|| last_words(plane))
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

fn last_words(plane: &ControlPlane) -> String {
    lines_about(plane, "")
}

/// The last lines of the manager's log that name `subject`, for the message of a failed wait.
pub(crate) fn lines_about(plane: &ControlPlane, subject: &str) -> String {
    let log = std::fs::read_to_string(plane.folder().join("cluster-api.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(subject)).collect();
    format!("Cluster API's manager logged:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
}
