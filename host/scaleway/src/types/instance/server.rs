use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Architecture, PrivateNic, Reference, ServerVolume, VolumeType};
use crate::types::Patch;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// Where a server is in its life. There is no "error", "creating" or "deleting" (SDK and 2,245 recorded objects).
    pub enum ServerState {
        /// Powered on. The detail stays `booting kernel` on images without Scaleway's agent: never wait for `booted`.
        Running = "running",
        /// Powered off. Also the state right after creation: creating does not boot.
        Stopped = "stopped",
        /// Powered off but still on its hypervisor, and still billed. With spaces, as Scaleway writes it.
        StoppedInPlace = "stopped in place",
        /// On its way up, also while it reboots.
        Starting = "starting",
        /// On its way down: stopping, terminating (see the detail), or the first half of a reboot.
        Stopping = "stopping",
        /// Locked by Scaleway. Never recorded; the SDK's waits treat it as final (assumption: locked-is-final).
        Locked = "locked",
    }
}

words! {
    /// Actions on a server.
    pub enum ServerAction {
        /// Boots a `stopped` or `stopped in place` server.
        PowerOn = "poweron",
        /// Makes an image of the server and its volumes.
        Backup = "backup",
        /// Stops a running server and keeps its place on the hypervisor.
        StopInPlace = "stop_in_place",
        /// Stops a server and moves it off its hypervisor; ends in `stopped`.
        PowerOff = "poweroff",
        /// Deletes a running (or `stopped in place`) server together with its local volumes (`l_ssd`, `scratch`).
        /// Block volumes are only detached and flexible addresses stay (recorded) (assumption: terminate-leaves-parts).
        Terminate = "terminate",
        /// Stops and starts.
        Reboot = "reboot",
        /// Historical; every server routes its addresses now.
        EnableRoutedIp = "enable_routed_ip",
    }
}

words! {
    /// How a server boots.
    pub enum BootType {
        /// From its own volume.
        Local = "local",
        /// Into Scaleway's rescue system.
        Rescue = "rescue",
        /// Historical.
        Bootscript = "bootscript",
    }
}

words! {
    /// Whether an address serves its server yet.
    pub enum ServerIpState {
        /// Not yet, or no longer.
        Detached = "detached",
        /// In service.
        Attached = "attached",
        /// On its way (recorded for a dynamic address of a server that boots).
        Pending = "pending",
        /// Scaleway failed to attach it.
        Error = "error",
    }
}

words! {
    /// How far a task is. Deprecated at Scaleway: since 2025 every task is a fake one that stays `pending`; read the
    /// server instead.
    pub enum TaskStatus {
        /// Not begun, or a fake task.
        Pending = "pending",
        /// Running.
        Started = "started",
        /// Done.
        Success = "success",
        /// Failed.
        Failure = "failure",
        /// To be tried again.
        Retry = "retry",
    }
}

words! {
    pub enum ListServersOrder {
        /// Oldest first. New servers come at the end, so pages stay where they are while servers are created.
        CreationDateAscending = "creation_date_asc",
        /// Youngest first: Scaleway's default.
        CreationDateDescending = "creation_date_desc",
        /// Longest unchanged first.
        ModificationDateAscending = "modification_date_asc",
        /// Last changed first.
        ModificationDateDescending = "modification_date_desc",
    }
}

answers! {
    /// An Instance server. It has only the fields that Windlass reads: long lists are parsed every few seconds.
    pub struct Server {
        /// UUID.
        pub id: String,
        /// Chosen by the user; not unique.
        pub name: String,
        pub arch: Architecture,
        /// The server type: `DEV1-S`.
        pub commercial_type: String,
        pub project: String,
        /// The image it was made from; `None` when made without one.
        pub image: Option<Reference>,
        /// Its volumes by position: `"0"` is the root volume.
        pub volumes: BTreeMap<String, ServerVolume>,
        /// Tags. They may hold keys (`AUTHORIZED_KEY=...`): not for logs.
        pub tags: Vec<String>,
        /// Where it is in its life.
        pub state: ServerState,
        /// Words of the hypervisor: `allocating node`, `booting kernel`, `terminating`, ... Empty when stopped.
        pub state_detail: String,
        /// Protected against deletion and power actions.
        pub protected: bool,
        /// The first public address.
        pub public_ip: Option<ServerIp>,
        /// Every public address.
        pub public_ips: Vec<ServerIp>,
        /// Whether a dynamic address is wanted at power-on when no flexible one is attached.
        pub dynamic_ip_required: bool,
        /// Historical private address.
        pub private_ip: Option<String>,
        /// When it was created, RFC 3339.
        pub creation_date: String,
        /// When it last changed, RFC 3339.
        pub modification_date: String,
        pub placement_group: Option<Reference>,
        /// Its interfaces in private networks.
        pub private_nics: Vec<PrivateNic>,
        pub zone: String,
        /// Whether Scaleway withdraws the server type.
        pub end_of_service: bool,
    }

    /// A public address as it appears inside a server.
    pub struct ServerIp {
        /// UUID.
        pub id: String,
        /// The address. For IPv6 a full address inside the flexible address's prefix.
        pub address: String,
        /// Appeared at power-on and goes at stop; cannot be deleted.
        pub dynamic: bool,
        /// `inet` or `inet6`.
        pub family: String,
        /// Whether it serves the server yet.
        pub state: ServerIpState,
    }

    /// The answer to an action. A fake one since 2025: its id is all zeros and its status stays `pending` (recorded).
    pub struct Task {
        /// UUID, all zeros.
        pub id: String,
        /// `fake task`.
        pub description: String,
        /// How far it is; not to be relied on.
        pub status: TaskStatus,
        /// Path of the action, without the API's prefix.
        pub href_from: String,
        /// Path of what the action makes or changes: the server, or for a backup the image.
        pub href_result: Option<String>,
        /// When it began, RFC 3339.
        pub started_at: Option<String>,
        /// When it ended; `None` for a fake task.
        pub terminated_at: Option<String>,
        /// Per cent; 0 for a fake task.
        pub progress: i64,
        pub zone: String,
    }
}

impl Server {
    /// When it was created, when Scaleway's text can be read.
    pub fn created_at(&self) -> Option<jiff::Timestamp> {
        crate::types::instant::instant(&self.creation_date)
    }

    /// When it last changed, when Scaleway's text can be read.
    pub fn modified_at(&self) -> Option<jiff::Timestamp> {
        crate::types::instant::instant(&self.modification_date)
    }

    /// Whether it carries every one of these tags. See [`has_all_tags`](crate::has_all_tags).
    pub fn has_all_tags<W: AsRef<str>>(&self, wanted: &[W]) -> bool {
        crate::types::tags::has_all_tags(&self.tags, wanted)
    }
}

/// Body of `POST /servers`. Creating does not boot; user data is set between creation and power-on.
///
/// When neither `project` nor `organization` is given, the client fills in the configured default project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateServer {
    /// Name, also the host name.
    pub name: String,
    /// The server type: `DEV1-S`.
    pub commercial_type: String,
    /// Id of the image (not a label: see [`MarketplaceApi::resolve_image`](crate::MarketplaceApi::resolve_image)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Volumes by position, `"0"` is the root volume. Empty: Scaleway derives the root volume from the image.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, VolumeTemplate>,
    /// Whether a dynamic address is wanted when no flexible one is attached. Scaleway's default is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_ip_required: Option<bool>,
    /// Ids of flexible addresses to attach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub public_ips: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_type: Option<BootType>,
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Organization to own it; deprecated at Scaleway, excludes `project`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Tags. They don't pass on to the volumes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Id of a security group; absent: the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,
    /// Id of a placement group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group: Option<String>,
    /// Protect against deletion and power actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    /// SSH key with which the Windows administrator's password is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_password_encryption_ssh_key_id: Option<String>,
}

/// A volume to make or to attach, in the body of `POST /servers`.
///
/// A new root volume: `size` and `volume_type`. An existing Block Storage volume: `id` and `volume_type`
/// (`sbs_volume`). Block Storage volumes cannot be tagged here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeTemplate {
    /// An existing volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether to boot from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,
    /// Name of a new volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes, a multiple of 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Kind of volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// Snapshot to make it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_snapshot: Option<String>,
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Organization to own it; deprecated at Scaleway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
}

/// Body of `PATCH /servers/{id}`: only what is set changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateServer {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole new set of tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_type: Option<BootType>,
    /// The whole new set of volumes by position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<BTreeMap<String, VolumeTemplate>>,
    /// Whether a dynamic address is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_ip_required: Option<bool>,
    /// The whole new set of flexible addresses, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ips: Option<Vec<String>>,
    /// Protect against deletion and power actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
    /// The security group to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_group: Option<Reference>,
    /// The placement group to join, or to leave with [`Patch::Clear`].
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub placement_group: Patch<String>,
    /// Another server type; only while stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commercial_type: Option<String>,
}

/// Body of `POST /servers/{id}/action`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerActionRequest {
    /// What to do.
    pub action: ServerAction,
    /// Name of the image that a backup makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Volumes of a backup, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub volumes: BTreeMap<String, serde_json::Value>,
}

impl From<ServerAction> for ServerActionRequest {
    fn from(action: ServerAction) -> Self {
        Self { action, ..Self::default() }
    }
}

/// Body of `POST /servers/{id}/attach-volume`; `detach-volume` takes the id alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachVolume {
    /// UUID.
    pub volume_id: String,
    /// Kind of volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// Whether to boot from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<bool>,
}

/// What to list of a zone's servers. Everything absent: all that the credentials may see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListServers {
    /// Only of this organization.
    pub organization: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only with this text in the name.
    pub name: Option<String>,
    /// Only of this server type.
    pub commercial_type: Option<String>,
    /// Only in this state.
    pub state: Option<ServerState>,
    /// Only with these tags, joined by commas as the SDK does. Filter again with [`Server::has_all_tags`]: whether
    /// Scaleway means all or any of them is not proven. Tags with a comma cannot be asked for.
    /// (assumption: tag-filter-servers)
    pub tags: Vec<String>,
    /// Only in this private network.
    pub private_network: Option<String>,
    /// Only these, by id.
    pub servers: Vec<String>,
    /// The order. Absent: oldest first, because pages then stay in place while servers are created.
    pub order: Option<ListServersOrder>,
}
