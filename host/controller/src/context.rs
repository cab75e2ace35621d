//! What all reconciles share.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder};
use parking_lot::Mutex;
use windlass_lifecycle::Lifecycle;
use windlass_policy::Host;
use windlass_policy::slots::SlotName;

use crate::accounts::Accounts;
use crate::catalogue::Catalogue;
use crate::cluster_api::ClusterApi;
use crate::jobs::Jobs;
use crate::kinds::PolicyInUse;
use crate::server_cluster::clusters::ServerClusters;
use crate::settings::Settings;
use crate::status::bounded;

/// The longest note of an event, in bytes (a rule of Kubernetes).
const MAX_NOTE_LEN: usize = 1000;

/// What all reconciles share; client, lifecycle, clusters and settings are those of one account.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) cluster_api: Option<ClusterApi>,
    pub(crate) scaleway: windlass_scaleway::Client,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) policies: Arc<Host>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) recorder: Recorder,
    pub(crate) settings: Settings,
    pub(crate) settled: Arc<Settled>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) server_clusters: Arc<ServerClusters>,
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
        let mut note = bounded(note.to_owned());
        if note.len() > MAX_NOTE_LEN {
            let end = (0..=MAX_NOTE_LEN).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
            note.truncate(end);
        }
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let name = about.name.as_deref().unwrap_or_default();
        if warning {
            tracing::warn!(name, reason, "{}", event.note.as_deref().unwrap_or_default());
        } else {
            tracing::info!(name, reason, "{}", event.note.as_deref().unwrap_or_default());
        }
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(error = &error as &dyn std::error::Error, name, reason, "the event was not published");
        }
    }
}
