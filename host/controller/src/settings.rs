//! What the operator configured, and reconciles and accounts go by.

use std::time::Duration;

use kube::ResourceExt;
use windlass_lifecycle::OwnerName;
use windlass_scaleway::Zone;

use crate::kinds::labels;
use crate::limits::Limits;
use crate::pools::Pools;
use crate::server_cluster::HookSettings;
use crate::shard::{InShard, Shard};

/// What the operator configured.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) owner: OwnerName,
    /// What of all objects is worked on.
    pub(crate) shard: Shard,
    /// The namespace that is watched; absent: all.
    pub(crate) watched: Option<String>,
    /// The value of the label [`labels::WATCH_FILTER`] of the objects that are worked on; absent: all.
    pub(crate) watch_filter: Option<String>,
    /// The controller's own namespace.
    pub(crate) namespace: String,
    pub(crate) zone: Option<Zone>,
    /// The project of the credentials.
    pub(crate) project: Option<String>,
    /// The name of the Secret that is a namespace's default, where the operator lets there be one.
    pub(crate) namespace_credentials: Option<String>,
    /// Whether something new is made with the controller's own key where a namespace has none.
    pub(crate) own_credentials: bool,
    pub(crate) pools: Pools,
    pub(crate) allow_orders: bool,
    /// Whether objects may have hosts of pools deleted.
    pub(crate) allow_terminate: bool,
    /// Whether hosts that were ordered for a machine are to be deleted with it.
    pub(crate) delete_ordered: bool,
    /// Whether a deleted Mac's object stays until its host shows that it is being wiped.
    pub(crate) wait_for_wipe: bool,
    /// Whether the scripts of `spec.setup` are run.
    pub(crate) set_up: bool,
    /// What each namespace may use.
    pub(crate) limits: Limits,
    /// The projects beside that of the credentials in which machines may be made; absent: every one that the key
    /// reaches.
    pub(crate) projects: Option<Vec<String>>,
    /// Whether clusters of servers are worked on.
    pub(crate) server_clusters: bool,
    pub(crate) hooks: HookSettings,
    pub(crate) listing_interval: Duration,
    pub(crate) retry_interval: Duration,
}

impl Settings {
    /// Whether an object is this controller's to work on, by its label.
    pub(crate) fn passes_filter(&self, object: &impl ResourceExt) -> bool {
        self.watch_filter.as_ref().is_none_or(|value| object.labels().get(labels::WATCH_FILTER) == Some(value))
    }

    /// Whether an object is in the shard: with its namespace, unless it is worked on with the controller's own account.
    pub(crate) fn has_in_shard(&self, object: &impl InShard) -> bool {
        match object.names_credentials() || self.namespace_credentials.is_some() {
            true => self.shard.has(&object.namespace().unwrap_or_default()),
            false => self.shard.has_own(),
        }
    }

    /// Refuses a machine in another project than that of the credentials, where the operator has not named it.
    pub(crate) fn check_project(&self, wanted: Option<&str>) -> Result<(), String> {
        let (Some(wanted), Some(projects)) = (wanted, &self.projects) else { return Ok(()) };
        if self.project.as_deref() == Some(wanted) || projects.iter().any(|project| project == wanted) {
            return Ok(());
        }
        Err(format!(
            "spec.project: the controller's credentials may not be used in the project {wanted}: remove the field, \
             use credentials of that project, or have the operator allow it with --allow-project"
        ))
    }
}
