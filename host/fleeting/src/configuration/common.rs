use std::path::PathBuf;

use windlass_console::ServeOptions;
use windlass_lifecycle::{GroupName, OwnerName};
use windlass_policy::{Brake, Policies};
use windlass_scaleway::{Settings, Zone};

use super::metrics_address::MetricsAddress;

/// What groups of both kinds have, as far as it could be read.
pub(super) struct Common {
    pub(super) group: Option<GroupName>,
    pub(super) written_name: Option<String>,
    pub(super) owner: Option<OwnerName>,
    pub(super) adopt: Option<bool>,
    pub(super) settings: Option<Settings>,
    /// Empty where none could be read.
    pub(super) zones: Vec<Zone>,
    pub(super) max_size: Option<u32>,
    pub(super) max_leftovers: u32,
    pub(super) delete_on_shutdown: bool,
    pub(super) state_directory: Option<PathBuf>,
    pub(super) policies: Policies,
    pub(super) policy_folder: PathBuf,
    pub(super) brake: Brake,
    pub(super) metrics: Option<MetricsAddress>,
    pub(super) console: Option<ServeOptions>,
}
