//! What all reconciles share.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use windlass_lifecycle::Lifecycle;
use windlass_policy::Host;
use windlass_policy::slots::SlotName;
use windlass_policy::slots::types::Label;

use crate::accounts::{Accounts, Place};
use crate::audits::Audits;
use crate::catalogue::Catalogue;
use crate::cluster_api::ClusterApi;
use crate::common_failures::CommonFailures;
use crate::events::Events;
use crate::jobs::Jobs;
use crate::kinds::PolicyInUse;
use crate::server_cluster::clusters::ServerClusters;
use crate::settings::Settings;

/// What all reconciles share; client, lifecycle, clusters and settings are those of one account.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) cluster_api: Option<ClusterApi>,
    pub(crate) scaleway: windlass_scaleway::Client,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) policies: Arc<Host>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) events: Arc<Events>,
    pub(crate) settings: Settings,
    pub(crate) settled: Arc<Settled>,
    pub(crate) audits: Arc<Audits>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) accounts: Arc<Accounts>,
    /// The Secret of the account, where it is not the controller's own.
    pub(crate) secret: Option<Place>,
    pub(crate) server_clusters: Arc<ServerClusters>,
    pub(crate) common_failures: Arc<CommonFailures>,
}

/// Objects about which there is nothing to do, and by what that was told. A reconcile of one that still looks the same
/// ends without a call, so hundreds of machines cost a listing and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<HashMap<String, String>>);

impl Settled {
    pub(crate) fn is(&self, uid: &str, mark: &str) -> bool {
        self.0.lock().get(uid).is_some_and(|known| known == mark)
    }

    pub(crate) fn set(&self, uid: &str, mark: String) {
        self.0.lock().insert(uid.to_owned(), mark);
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

impl Context {
    /// What policies may see of an object's labels and annotations.
    pub(crate) fn labels_of(&self, object: &impl ResourceExt) -> Vec<Label> {
        let labels = object.labels().iter().chain(object.annotations());
        self.policies.labels(labels.map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// The policies that decide now about objects of a namespace.
    pub(crate) fn policies_in_use(&self, namespace: Option<&str>, slots: &[SlotName]) -> Vec<PolicyInUse> {
        let pin = self.policies.pin_of(namespace);
        slots
            .iter()
            .flat_map(|slot| pin.chain(*slot))
            .map(|policy| PolicyInUse {
                slot: policy.slot.to_string(),
                name: policy.name.to_string(),
                version: policy.version.to_string(),
                digest: policy.component.to_string(),
                settings_digest: policy.settings.to_string(),
            })
            .collect()
    }

    /// Tells what happened, as an event of the object. One that cannot be published is logged.
    pub(crate) async fn event(&self, about: &ObjectReference, warning: bool, reason: &str, action: &str, note: &str) {
        self.events.publish(about, warning, reason, action, note).await;
    }
}
