//! Where the nodes' cloud-init comes from.

use std::path::Path;

use async_trait::async_trait;
use windlass_process::read_bounded;

use crate::name::NodeGroupName;
use crate::specification::ClusterSpecification;

/// Scaleway takes user data of at most 128 KiB; the lifecycle checks it exactly.
const MAX_CLOUD_INIT_LEN: u64 = 256 * 1024;

/// Reads the cloud-init of a group's nodes: anew for each operation that makes nodes, since its content may hold
/// secrets and is stored nowhere.
#[async_trait]
pub trait ReadCloudInit: std::fmt::Debug + Send + Sync {
    /// The content; `None` for a group without. The error begins with the key of the group that names what cannot be
    /// read.
    async fn read(
        &self,
        specification: &ClusterSpecification,
        group: &NodeGroupName,
    ) -> Result<Option<Vec<u8>>, String>;
}

/// Reads the files that a specification names.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloudInitFiles;

#[async_trait]
impl ReadCloudInit for CloudInitFiles {
    async fn read(
        &self,
        specification: &ClusterSpecification,
        group: &NodeGroupName,
    ) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = specification.groups.get(group).and_then(|group| group.cloud_init_file.as_ref()) else {
            return Ok(None);
        };
        read_bounded(Path::new(file), MAX_CLOUD_INIT_LEN)
            .map(Some)
            .map_err(|problem| format!("cloud_init_file: {file} cannot be read: {problem}"))
    }
}
