//! The clusters of an account's namespaces: their store, their hooks, their cloud-init.

use std::collections::HashMap;
use std::sync::Arc;

use kube::{Client, Resource as _};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{ClusterObjects, ClusterOptions, Clusters};
use windlass_lifecycle::Lifecycle;
use windlass_policy::Host;

use super::hooks::{HookJobs, HookSettings, KubernetesHooks};
use super::specification::CloudInits;
use super::store::{KubernetesClusterStore, Liveness};
use crate::kinds::ServerCluster;
use crate::outcome::Outcome;

/// The clusters of each namespace, made with the credentials of one account.
pub(crate) struct ServerClusters {
    client: Client,
    scaleway: windlass_scaleway::Client,
    lifecycle: Lifecycle,
    policies: Arc<Host>,
    liveness: Liveness,
    leaving: CancellationToken,
    hooks: HookSettings,
    by_namespace: Mutex<HashMap<String, Part>>,
}

/// Those of one.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) clusters: Clusters,
    pub(super) hooks: KubernetesHooks,
}

impl ServerClusters {
    /// `leaving` is cancelled when the process is to end.
    pub(crate) fn new(
        client: Client,
        scaleway: windlass_scaleway::Client,
        lifecycle: Lifecycle,
        policies: Arc<Host>,
        liveness: Liveness,
        leaving: CancellationToken,
        hooks: HookSettings,
    ) -> Self {
        Self { client, scaleway, lifecycle, policies, liveness, leaving, hooks, by_namespace: Mutex::default() }
    }

    pub(super) fn of(&self, namespace: &str) -> Part {
        self.by_namespace.lock().entry(namespace.to_owned()).or_insert_with(|| self.part(namespace)).clone()
    }

    fn part(&self, namespace: &str) -> Part {
        let (client, namespace) = (self.client.clone(), namespace.to_owned());
        let store = Arc::new(KubernetesClusterStore::new(&client, &namespace, self.liveness.clone()));
        let (lifecycle, scaleway) = (self.lifecycle.clone(), self.scaleway.clone());
        let mut options = ClusterOptions::new(lifecycle, scaleway, Arc::clone(&self.policies), store);
        options.cloud_inits = Arc::new(CloudInits { client: client.clone(), namespace: namespace.clone() });
        options.objects =
            Some(ClusterObjects { kind: ServerCluster::kind(&()).into_owned(), namespace: namespace.clone() });
        let jobs = HookJobs { client, namespace, leaving: self.leaving.clone() };
        let hooks = KubernetesHooks { jobs, allowed: self.hooks.clone() };
        options.hooks = Arc::new(hooks.clone());
        Part { clusters: Clusters::new(options), hooks }
    }
}

impl Part {
    /// Stops the Jobs of an operation whose process died.
    pub(super) async fn stop_hooks(&self, object: &ServerCluster, number: u64) -> Result<(), Outcome> {
        self.hooks.stop(object, number).await.map_err(|error| Outcome::Failed {
            reason: "HooksNotStopped",
            message: format!("the Jobs of operation {number}, whose process died, cannot be stopped: {error}"),
        })
    }
}
