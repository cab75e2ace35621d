use serde::{Deserialize, Serialize};

use super::Reference;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// A kind of volume.
    pub enum VolumeType {
        /// Local disk: goes when its server is terminated, stays when it is deleted (recorded).
        LocalSsd = "l_ssd",
        /// Old block volume, replaced by Block Storage.
        LegacyBlock = "b_ssd",
        /// Either local or old block, in requests.
        Unified = "unified",
        /// Local scratch disk of GPU servers: goes when its server is terminated.
        Scratch = "scratch",
        /// A volume of Block Storage: outlives its server, invisible at `/instance/v1/volumes` (recorded).
        BlockStorage = "sbs_volume",
        /// A snapshot of Block Storage, as an image's root.
        BlockStorageSnapshot = "sbs_snapshot",
    }
}

words! {
    /// Where a local volume is in its life.
    pub enum VolumeState {
        /// At rest.
        Available = "available",
        /// Being copied into a snapshot.
        Snapshotting = "snapshotting",
        /// Being read from storage.
        Fetching = "fetching",
        /// Being attached.
        Attaching = "attaching",
        /// Being written to storage.
        Saving = "saving",
        /// Being copied while in use.
        HotSyncing = "hotsyncing",
        /// Being made larger.
        Resizing = "resizing",
        /// Broken.
        Error = "error",
    }
}

answers! {
    /// A volume as it appears inside a server. A Block Storage volume (`sbs_volume`) shows only id, type, state, zone
    /// and boot here; its name, size and tags are at the Block Storage API (recorded).
    pub struct ServerVolume {
        /// UUID.
        pub id: String,
        /// Name; empty for Block Storage volumes.
        pub name: String,
        /// Kind of volume.
        pub volume_type: VolumeType,
        /// Bytes; 0 for Block Storage volumes.
        pub size: u64,
        /// State; unknown (empty) in older answers for Block Storage volumes.
        pub state: VolumeState,
        /// Whether the server boots from it.
        pub boot: bool,
        /// Tags; Block Storage volumes show none here.
        pub tags: Vec<String>,
        pub zone: String,
    }

    /// A local volume (`l_ssd`, `scratch`) of the Instance API. Block Storage volumes are another API's
    /// [`BlockVolume`](crate::types::block::BlockVolume).
    pub struct Volume {
        /// UUID.
        pub id: String,
        pub name: String,
        /// Its kind.
        pub volume_type: VolumeType,
        /// Bytes.
        pub size: u64,
        /// Where it is in its life.
        pub state: VolumeState,
        /// The server it belongs to.
        pub server: Option<Reference>,
        pub organization: String,
        pub project: String,
        pub tags: Vec<String>,
        /// When it was created, RFC 3339.
        pub creation_date: String,
        /// When it last changed, RFC 3339.
        pub modification_date: String,
        pub zone: String,
    }
}

impl Volume {
    /// When it was created, when Scaleway's text can be read.
    pub fn created_at(&self) -> Option<jiff::Timestamp> {
        crate::types::instant::instant(&self.creation_date)
    }

    /// Whether it carries every one of these tags. See [`has_all_tags`](crate::has_all_tags).
    pub fn has_all_tags<W: AsRef<str>>(&self, wanted: &[W]) -> bool {
        crate::types::tags::has_all_tags(&self.tags, wanted)
    }
}

/// Body of `POST /volumes` (local volumes).
///
/// When neither `project` nor `organization` is given, the client fills in the configured default project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateVolume {
    pub name: String,
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Organization to own it; deprecated at Scaleway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// Its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
    /// Bytes; absent when made from a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Snapshot to make it from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_snapshot: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// Body of `PATCH /volumes/{id}`: only what is set changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateVolume {
    /// New name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The whole new set of tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// New size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// What to list of a zone's local volumes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListVolumes {
    /// Only of this kind.
    pub volume_type: Option<VolumeType>,
    /// Only of this organization.
    pub organization: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only with these tags, joined by commas as the SDK does. Filter again with [`Volume::has_all_tags`].
    /// (assumption: tag-filter-local-volumes)
    pub tags: Vec<String>,
    /// Only with this text in the name.
    pub name: Option<String>,
}
