//! What all operations of a process share, what it is made from, and which clusters are worked on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_concurrency::ActiveKeys;
use windlass_lifecycle::{Lifecycle, RequestedBy, Requester};
use windlass_policy::Host;
use windlass_policy::slots::types::{Label, Object};
use windlass_scaleway::Client;

use crate::cloud_init::{CloudInitFiles, ReadCloudInit};
use crate::hooks::{HookRunner, RunHooks};
use crate::name::ClusterName;
use crate::store::ClusterStore;

/// What bounds the work.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClusterLimits {
    /// Servers of one step that are made or removed at a time. The lifecycle's and the client's own limits lie below.
    pub parallel_nodes: usize,
    /// How often a running operation looks whether another process requests its end.
    pub watch_interval: Duration,
    /// How often servers and addresses are looked at that are not ready yet.
    pub poll_interval: Duration,
}

impl Default for ClusterLimits {
    fn default() -> Self {
        Self { parallel_nodes: 128, watch_interval: Duration::from_secs(2), poll_interval: Duration::from_secs(2) }
    }
}

/// The Kubernetes objects that clusters are: each has the name of its cluster.
#[derive(Clone, Debug)]
pub struct ClusterObjects {
    pub kind: String,
    pub namespace: String,
}

/// What [`Clusters`](crate::Clusters) are made from.
#[non_exhaustive]
pub struct ClusterOptions {
    /// Makes and removes servers. Time and randomness are its own, too.
    pub lifecycle: Lifecycle,
    pub client: Client,
    pub policies: Arc<Host>,
    /// Keeps clusters.
    pub store: Arc<dyn ClusterStore>,
    pub hooks: Arc<dyn RunHooks>,
    pub cloud_inits: Arc<dyn ReadCloudInit>,
    /// The Kubernetes objects that these clusters are. Absent: they are none.
    pub objects: Option<ClusterObjects>,
    pub limits: ClusterLimits,
}

impl ClusterOptions {
    /// The ordinary ones: hooks and cloud-init from this machine.
    #[must_use]
    pub fn new(lifecycle: Lifecycle, client: Client, policies: Arc<Host>, store: Arc<dyn ClusterStore>) -> Self {
        Self {
            lifecycle,
            client,
            policies,
            store,
            hooks: Arc::new(HookRunner),
            cloud_inits: Arc::new(CloudInitFiles),
            objects: None,
            limits: ClusterLimits::default(),
        }
    }
}

/// What all operations of a process share.
pub(crate) struct Shared {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) client: Client,
    pub(crate) policies: Arc<Host>,
    pub(crate) store: Arc<dyn ClusterStore>,
    pub(crate) hooks: Arc<dyn RunHooks>,
    pub(crate) cloud_inits: Arc<dyn ReadCloudInit>,
    pub(crate) objects: Option<ClusterObjects>,
    /// What policies may see of the labels of each cluster's object.
    pub(crate) labels: Mutex<HashMap<ClusterName, Vec<Label>>>,
    /// What the store calls this process.
    pub(crate) runner: String,
    pub(crate) limits: ClusterLimits,
    /// Clusters with an operation under way in this process.
    pub(crate) active: ActiveKeys<ClusterName>,
}

impl Shared {
    /// Says that an operation of a cluster asks.
    pub(crate) fn requested_by(&self, name: &ClusterName, operation: u64, why: impl Into<String>) -> RequestedBy {
        let cluster = name.to_string();
        let object = self.objects.clone().map(|ClusterObjects { kind, namespace }| {
            let name = cluster.clone();
            Object { kind, namespace, name }
        });
        let labels = self.labels.lock().get(name).cloned().unwrap_or_default();
        RequestedBy { object, labels, ..RequestedBy::new(Requester::Cluster { cluster, operation }, why) }
    }

    pub(crate) fn new(options: ClusterOptions) -> Self {
        Self {
            runner: options.store.runner(options.lifecycle.runner()),
            lifecycle: options.lifecycle,
            client: options.client,
            policies: options.policies,
            store: options.store,
            hooks: options.hooks,
            cloud_inits: options.cloud_inits,
            objects: options.objects,
            labels: Mutex::default(),
            limits: options.limits,
            active: ActiveKeys::default(),
        }
    }
}
