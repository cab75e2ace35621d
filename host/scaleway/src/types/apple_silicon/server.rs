use serde::{Deserialize, Serialize};

use super::OperatingSystem;
use crate::types::Secret;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// Where a host is in its life (SDK; `starting`, `ready` and `rebooting` are recorded).
    pub enum ServerStatus {
        /// Being made ready for the first time.
        Starting = "starting",
        /// Ready to be used.
        Ready = "ready",
        /// Broken.
        Error = "error",
        /// Restarting.
        Rebooting = "rebooting",
        /// Being changed.
        Updating = "updating",
        /// Being locked by Scaleway.
        Locking = "locking",
        /// Locked by Scaleway.
        Locked = "locked",
        /// Being unlocked.
        Unlocking = "unlocking",
        /// Its disk is being wiped and installed anew. `delivered` stays true meanwhile (SDK).
        Reinstalling = "reinstalling",
        /// Busy with something that the API does not name.
        Busy = "busy",
        /// Scaleway does not know.
        UnknownStatus = "unknown_status",
    }
}

impl ServerStatus {
    /// Whether it passes by itself, as the SDK's waits see it.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            ServerStatus::Starting
                | ServerStatus::Rebooting
                | ServerStatus::Updating
                | ServerStatus::Locking
                | ServerStatus::Unlocking
                | ServerStatus::Reinstalling
                | ServerStatus::Busy
        )
    }
}

words! {
    /// Whether a host takes part in private networks.
    pub enum VpcStatus {
        /// It does.
        Enabled = "vpc_enabled",
        /// On its way.
        Updating = "vpc_updating",
        /// It does not.
        Disabled = "vpc_disabled",
        /// Scaleway does not know.
        UnknownStatus = "vpc_unknown_status",
    }
}

words! {
    /// How long a host is committed to.
    pub enum CommitmentType {
        /// Twenty-four hours, then by the hour: what Apple's licence demands at least.
        Duration24h = "duration_24h",
        /// By the month, again and again. Changing to it moves `deletable_at` a month ahead (recorded).
        RenewedMonthly = "renewed_monthly",
        /// None: the recorded organization, which is exempt, got this although it asked for 24 hours.
        None = "none",
    }
}

words! {
    /// The order of a list of hosts.
    pub enum ListServersOrder {
        /// Oldest first: Scaleway's default, and pages stay where they are while hosts are created.
        CreatedAtAscending = "created_at_asc",
        /// Youngest first.
        CreatedAtDescending = "created_at_desc",
    }
}

answers! {
    /// A Mac.
    ///
    /// It serialises without its secrets.
    pub struct Server {
        /// UUID.
        pub id: String,
        /// The server type: `M4-S`.
        #[serde(rename = "type")]
        pub server_type: String,
        /// Chosen by the user; not unique, and the last writer wins.
        pub name: String,
        pub project_id: String,
        /// Owning organization.
        pub organization_id: String,
        /// Public IPv4 address.
        pub ip: String,
        /// Address of its screen, with the password in it. Shown by GET of one server only (recorded).
        #[serde(skip_serializing)]
        pub vnc_url: Secret,
        /// User for ssh: `m1` on every recorded host.
        pub ssh_username: String,
        /// The user's password. Shown by GET of one server only (recorded). A reinstall makes a new one.
        #[serde(skip_serializing)]
        pub sudo_password: Secret,
        /// Port of its screen.
        pub vnc_port: u32,
        /// What it is installed with.
        pub os: Option<OperatingSystem>,
        /// Where it is in its life.
        pub status: ServerStatus,
        /// When it was created, RFC 3339.
        pub created_at: String,
        /// When it last changed, RFC 3339.
        pub updated_at: String,
        /// Before this it cannot be deleted, RFC 3339. See [`Server::deletable_at`].
        pub deletable_at: Option<String>,
        /// Whether Scaleway will delete it by itself once it can be deleted.
        pub deletion_scheduled: bool,
        pub zone: String,
        /// Whether it was ever ready. Stays true during a reinstall (SDK).
        pub delivered: bool,
        /// Whether it takes part in private networks.
        pub vpc_status: VpcStatus,
        /// How long it is committed to; older answers don't tell (recorded).
        pub commitment: Option<Commitment>,
        /// Bits per second to the internet.
        pub public_bandwidth_bps: u64,
        /// Tags. Readable and never settable (SDK): no mark of ownership.
        pub tags: Vec<String>,
        /// Whether kernel extensions are allowed.
        pub kext_enabled: bool,
    }

    /// How long a host is committed to.
    pub struct Commitment {
        /// Which kind.
        #[serde(rename = "type")]
        pub commitment_type: CommitmentType,
        /// Whether it ends with its current period.
        pub cancelled: bool,
    }
}

impl Server {
    /// When it was created, when Scaleway's text can be read.
    pub fn created_at(&self) -> Option<jiff::Timestamp> {
        crate::types::instant::instant(&self.created_at)
    }

    /// The instant from which on it can be deleted, if Scaleway gave one that can be parsed. The billing floor: a
    /// DELETE before it is refused with 412.
    pub fn deletable_at(&self) -> Option<jiff::Timestamp> {
        self.deletable_at.as_deref().and_then(crate::types::instant::instant)
    }
}

/// Body of `POST /servers`.
///
/// When no project is given, the client fills in the configured default project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateServer {
    /// The name, and with it the only mark by which the host is found again: make it unique.
    pub name: String,
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The server type: `M4-S`.
    #[serde(rename = "type")]
    pub server_type: String,
    /// The operating system, by id; absent: the type's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_id: Option<String>,
    /// Whether it takes part in private networks.
    pub enable_vpc: bool,
    /// How long to commit to it; absent: 24 hours (SDK).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commitment_type: Option<CommitmentType>,
    /// Bits per second to the internet; absent: the type's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_bandwidth_bps: Option<u64>,
    /// Whether to allow kernel extensions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_kext: Option<bool>,
}

/// Body of `PATCH /servers/{id}`: only what is set changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateServer {
    /// New name. It takes effect within the lifecycle's `claim_settle` (assumption: mac-rename-within-claim-settle),
    /// also while the host is reinstalled (assumption: mac-rename-while-reinstalling), and moves `updated_at`
    /// (assumption: mac-updated-at-moves).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True: Scaleway deletes it by itself at [`Server::deletable_at`]; false: calls that off (SDK, never recorded)
    /// (assumption: mac-scheduled-deletion).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_deletion: Option<bool>,
    /// Whether it takes part in private networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_vpc: Option<bool>,
    /// Another commitment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commitment_type: Option<ChangeCommitment>,
    /// Bits per second to the internet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_bandwidth_bps: Option<u64>,
}

impl UpdateServer {
    /// Another name and nothing else.
    pub fn rename(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// Deletion at [`Server::deletable_at`], or none, and nothing else.
    pub fn schedule_deletion(wanted: bool) -> Self {
        Self { schedule_deletion: Some(wanted), ..Self::default() }
    }
}

/// A commitment in the body of a PATCH: an object with a field of its own name (recorded).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeCommitment {
    /// Which kind.
    pub commitment_type: CommitmentType,
}

/// Body of `POST /servers/{id}/reinstall`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReinstallServer {
    /// The operating system, by id; absent: the type's default, which may be another one than it has now (SDK).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_id: Option<String>,
    /// Whether to allow kernel extensions.
    pub enable_kext: bool,
}

/// What to list of a zone's hosts. There is no filter by name, tag or status (SDK).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListServers {
    /// Only of this project.
    pub project_id: Option<String>,
    /// Only of this organization.
    pub organization_id: Option<String>,
    /// The order. Absent: oldest first.
    pub order: Option<ListServersOrder>,
}
