use std::path::PathBuf;

use windlass_lifecycle::Uncarried;

use crate::configuration::ConfigurationErrors;
use crate::connect::KeyError;
use crate::observe::MetricsError;
use crate::protocol::Failure;

impl From<Uncarried> for Failure {
    fn from(error: Uncarried) -> Self {
        Self(match error {
            Uncarried::Leaving => "the plugin is shutting down".to_owned(),
            Uncarried::Panicked(panic) => format!("the plugin has a defect: {panic}"),
        })
    }
}

/// Why the group cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something configured is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationErrors),
    /// The runner's connector cannot be used with instances.
    #[error("connector_config.protocol is {0:?}: this plugin connects by ssh only")]
    Protocol(String),
    /// Another plugin process works on the same group.
    #[error(
        "another plugin process has the group {group} (it holds {}): each [[runners]] entry needs a `name` of its own \
         in plugin_config, or a state_dir of its own. If this entry was registered anew (its token has changed), the \
         plugin of its former registration still runs: restart the runner", path.display()
    )]
    Locked { group: String, path: PathBuf },
    /// Another host works on the same group, or an earlier process of this one is not known to be dead yet.
    #[error(
        "another host has the group {group} in {location}: {holder}. Stop its runner first; if it is gone, its group can \
         be taken over half a minute after its last sign of life. Two runners at the same time need a `name` each in \
         plugin_config"
    )]
    Shared {
        group: String,
        /// The database.
        location: String,
        /// The host and its process.
        holder: String,
    },
    /// Servers of this group were made by somebody else, or their state directory was lost.
    #[error(
        "plugin_config: name: the state directory {} does not know these servers of the group {group} in {zones}: \
         {found}. If the host that made them still works, this group needs a `name` of its own, or adopt = false, \
         which leaves them alone. If their state_dir was lost, adopt = true takes them over", state.display()
    )]
    Strangers {
        group: String,
        zones: String,
        /// The state directory of this group.
        state: PathBuf,
        /// Some of them, with hosts and owners.
        found: String,
    },
    /// Macs carry the name of this group that this state directory did not claim.
    #[error(
        "plugin_config: name: the state directory {} did not claim these hosts of the group {group} in {zone}: \
         {found}. {remedy}", state.display()
    )]
    StrangeHosts {
        group: String,
        zone: String,
        /// The state directory of this group.
        state: PathBuf,
        /// What helps.
        remedy: &'static str,
        /// Their names.
        found: String,
    },
    /// The lock could not be tried.
    #[error("the lock {} cannot be used", path.display())]
    Lock {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The state or the journal cannot be used, or a policy was refused.
    #[error(transparent)]
    Lifecycle(#[from] windlass_lifecycle::Error),
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] windlass_scaleway::Error),
    /// There is no key pair.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The console cannot be served.
    #[error("console: {0}")]
    Console(#[source] windlass_console::Error),
    /// A thread of ours broke down.
    #[error("the plugin has a defect: {0}")]
    Defect(#[from] tokio::task::JoinError),
}
