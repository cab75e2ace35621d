//! Block Storage API v1: volumes that outlive their servers.

use serde::{Deserialize, Serialize};

use super::tolerant::answers;
use super::word::words;

words! {
    /// Where a volume is in its life.
    pub enum BlockVolumeStatus {
        /// Being made; available a few seconds later (recorded).
        Creating = "creating",
        /// At rest, attached to nothing.
        Available = "available",
        /// Attached, being attached or being detached: see the references.
        InUse = "in_use",
        /// Being deleted.
        Deleting = "deleting",
        /// Gone.
        Deleted = "deleted",
        /// Being made larger.
        Resizing = "resizing",
        /// Broken.
        Error = "error",
        /// Being copied into a snapshot.
        Snapshotting = "snapshotting",
        /// Locked by Scaleway.
        Locked = "locked",
        /// Being changed.
        Updating = "updating",
        /// Scaleway does not know.
        UnknownStatus = "unknown_status",
    }
}

words! {
    /// How far an attachment is.
    pub enum ReferenceStatus {
        /// Coming.
        Attaching = "attaching",
        /// In use.
        Attached = "attached",
        /// Going; takes 0 to 6 s after the server is deleted (recorded).
        Detaching = "detaching",
        /// Gone.
        Detached = "detached",
        /// Being made.
        Creating = "creating",
        /// Broken.
        Error = "error",
        /// Scaleway does not know.
        UnknownStatus = "unknown_status",
    }
}

words! {
    /// How an attachment shares the volume.
    pub enum ReferenceType {
        /// A mere link.
        Link = "link",
        /// Nobody else may use it.
        Exclusive = "exclusive",
        /// Others may read it, too.
        ReadOnly = "read_only",
        /// Scaleway does not know.
        UnknownType = "unknown_type",
    }
}

answers! {
    /// A volume of Block Storage. Not wrapped in its answers, unlike the Instance API's objects.
    pub struct BlockVolume {
        /// UUID.
        pub id: String,
        /// Name. A root volume made by creating a server is named `<image>_sbs_volume_0` (recorded).
        pub name: String,
        /// `sbs_5k` or `sbs_15k`.
        #[serde(rename = "type")]
        pub volume_type: String,
        /// Bytes.
        pub size: u64,
        pub project_id: String,
        /// What it is attached to.
        pub references: Vec<BlockReference>,
        /// Snapshot it was made from.
        pub parent_snapshot_id: Option<String>,
        /// Where it is in its life.
        pub status: BlockVolumeStatus,
        /// Tags. None on a volume that was made by creating a server.
        pub tags: Vec<String>,
        /// Performance.
        pub specs: Option<BlockSpecifications>,
        /// When it was created, RFC 3339.
        pub created_at: String,
        /// When it last changed, RFC 3339.
        pub updated_at: String,
        /// When it was last detached, RFC 3339.
        pub last_detached_at: Option<String>,
        pub zone: String,
    }

    /// One attachment of a volume.
    pub struct BlockReference {
        /// UUID.
        pub id: String,
        /// `instance_server`.
        pub product_resource_type: String,
        /// The server's id.
        pub product_resource_id: String,
        /// When it was made, RFC 3339.
        pub created_at: String,
        /// How it shares the volume.
        #[serde(rename = "type")]
        pub reference_type: ReferenceType,
        /// How far it is.
        pub status: ReferenceStatus,
    }

    /// A volume's performance.
    pub struct BlockSpecifications {
        /// Operations per second.
        pub perf_iops: Option<u32>,
        /// `sbs`.
        pub class: String,
    }
}

impl BlockVolume {
    /// When it was created, when Scaleway's text can be read.
    pub fn created_at(&self) -> Option<jiff::Timestamp> {
        super::instant::instant(&self.created_at)
    }

    /// Whether it carries every one of these tags. See [`has_all_tags`](crate::has_all_tags).
    pub fn has_all_tags<W: AsRef<str>>(&self, wanted: &[W]) -> bool {
        super::tags::has_all_tags(&self.tags, wanted)
    }

    /// Whether it is attached to this server, or on its way to or from it.
    pub fn is_referenced_by(&self, server_id: &str) -> bool {
        self.references.iter().any(|reference| reference.product_resource_id == server_id)
    }
}

/// Body of `POST /volumes`.
///
/// When no project is given, the client fills in the configured default project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateBlockVolume {
    pub name: String,
    /// Operations per second: 5000 or 15000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_iops: Option<u32>,
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Make it empty. Excludes `from_snapshot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_empty: Option<FromEmpty>,
    /// Make it from a snapshot. Excludes `from_empty`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_snapshot: Option<FromSnapshot>,
    pub tags: Vec<String>,
}

/// An empty volume's size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FromEmpty {
    /// Bytes.
    pub size: u64,
}

/// The snapshot a volume is made from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FromSnapshot {
    pub snapshot_id: String,
    /// Bytes; absent: as large as the snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Body of `PATCH /volumes/{id}`: only what is set changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateBlockVolume {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New size in bytes; only larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The whole new set of tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// New operations per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_iops: Option<u32>,
}

/// What to list of a zone's Block Storage volumes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListBlockVolumes {
    /// Only of this organization.
    pub organization_id: Option<String>,
    /// Only of this project.
    pub project_id: Option<String>,
    /// Only with this name.
    pub name: Option<String>,
    /// Only attached to this server.
    pub product_resource_id: Option<String>,
    /// Only with **one or more** of these tags (SDK). Filter again with [`BlockVolume::has_all_tags`].
    /// (assumption: tag-filter-block-volumes)
    pub tags: Vec<String>,
}
