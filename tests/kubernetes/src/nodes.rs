use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::Kind;
use crate::changes::Changes;

const LABEL: &str = "windlass.test/namespace";
const PAUSE: Duration = Duration::from_millis(200);

/// Stands in for whoever boots the machines: each machine of a namespace that got a provider id gets a Node with the
/// same, which becomes ready. Cluster API removes Nodes with their Machines.
#[derive(Debug)]
pub struct Nodes {
    tasks: [JoinHandle<()>; 2],
}

impl Nodes {
    /// Lets nodes join until this is dropped.
    #[must_use]
    pub fn join(client: Client, namespace: &str) -> Self {
        let tasks = [Kind::AppleSiliconMachine, Kind::InstanceMachine].map(|kind| {
            let (client, namespace) = (client.clone(), namespace.to_owned());
            let machines: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind.resource());
            tokio::spawn(async move {
                let mut changes = Changes::of(&machines);
                loop {
                    changes.next(PAUSE).await;
                    // What fails is tried again: the API server may be restarting.
                    while !matches!(join_all(&client, &namespace, &machines).await, Ok(true)) {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            })
        });
        Self { tasks }
    }

    /// Adds the Node of a machine of any provider, ready and with these further labels.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn add(
        client: &Client,
        namespace: &str,
        machine: &str,
        provider_id: &str,
        labels: &[&str],
    ) -> Result<()> {
        let nodes: Api<Node> = Api::all(client.clone());
        let name = node_of(namespace, machine);
        let further = labels.iter().map(|label| ((*label).to_owned(), String::new()));
        let node = Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(further.chain([(LABEL.to_owned(), namespace.to_owned())]).collect()),
                ..ObjectMeta::default()
            },
            spec: Some(k8s_openapi::api::core::v1::NodeSpec {
                provider_id: Some(provider_id.to_owned()),
                ..Default::default()
            }),
            status: None,
        };
        // A name that is taken belongs to the machine's former host: its Node goes first, and who asks again is heard.
        if nodes.create(&PostParams::default(), &node).await.is_err() {
            nodes.delete(&name, &DeleteParams::default()).await?;
            return Ok(());
        }
        let now = jiff::Timestamp::now().to_string();
        // What every kubelet reports, and Cluster API waits for.
        let conditions =
            [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")].map(
                |(kind, status)| {
                    json!({"type": kind, "status": status, "reason": "Test", "message": "a test says so",
                    "lastHeartbeatTime": now, "lastTransitionTime": now})
                },
            );
        let ready = json!({"status": {"conditions": conditions}});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(ready)).await?;
        Ok(())
    }

    /// The Nodes of a namespace's machines.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn of(client: &Client, namespace: &str) -> Result<Vec<Node>> {
        let nodes: Api<Node> = Api::all(client.clone());
        Ok(nodes.list(&ListParams::default().labels(&format!("{LABEL}={namespace}"))).await?.items)
    }

    /// Lets the Node of a namespace's machine become ready, or cease to be.
    ///
    /// # Errors
    /// When there is no such Node.
    pub async fn set_ready(client: &Client, namespace: &str, machine: &str, ready: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(client.clone());
        let now = jiff::Timestamp::now().to_string();
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": "a test says so",
            "lastHeartbeatTime": now, "lastTransitionTime": now});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        nodes.patch_status(&node_of(namespace, machine), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub(crate) async fn remove_all(client: &Client, namespace: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(client.clone());
        nodes
            .delete_collection(&DeleteParams::default(), &ListParams::default().labels(&format!("{LABEL}={namespace}")))
            .await?;
        Ok(())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn node_of(namespace: &str, machine: &str) -> String {
    format!("{namespace}-{machine}")
}

/// Adds the Nodes that are missing. `true` when there was none.
async fn join_all(client: &Client, namespace: &str, machines: &Api<DynamicObject>) -> Result<bool> {
    let mut machines = machines.list(&ListParams::default()).await?.items;
    machines.retain(|machine| machine.metadata.deletion_timestamp.is_none());
    if machines.iter().all(|machine| machine.data["spec"]["providerID"].is_null()) {
        return Ok(true);
    }
    let (known, mut is_complete) = (Nodes::of(client, namespace).await?, true);
    for machine in machines {
        let Some(provider_id) = machine.data["spec"]["providerID"].as_str() else { continue };
        let there =
            |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.provider_id.as_deref() == Some(provider_id));
        if !known.iter().any(there) {
            is_complete = false;
            Nodes::add(client, namespace, &machine.name_any(), provider_id, &[]).await?;
        }
    }
    Ok(is_complete)
}
