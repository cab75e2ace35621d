//! `adopt`: once, and on purpose, takes over what a state directory knows nothing of, as `adopt = true` has Init do.
//! Nothing else is begun: what was under way is taken up by the plugin when the runner starts it.

use windlass_lifecycle::{Runtime, RuntimeOptions};
use windlass_policy::{Asker, Compiler};
use windlass_scaleway::Client;

use super::apple_silicon::Macs;
use super::claim;
use super::error::StartError;
use super::instances::Instances;
use super::runner_file::{RunnerFile, RunnerFileError};
use super::start;
use crate::configuration::{Common, ConfigurationErrors, GroupConfiguration, ProcessEnvironment};

/// Why nothing was taken over.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The runner's configuration says not which group is meant.
    #[error(transparent)]
    RunnerFile(#[from] RunnerFileError),
    /// Something configured is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationErrors),
    /// As at Init.
    #[error(transparent)]
    Start(Box<StartError>),
}

impl From<StartError> for AdoptError {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

/// Takes over the servers or Macs of one group of the runner's `config.toml` at this path, by the group's name where
/// there are several. Answers their ids.
///
/// # Errors
/// As Init, where a plugin still works on the group among others; and when it is not clear which group is meant.
pub async fn adopt(
    config: &str,
    name: Option<&str>,
    process_environment: &ProcessEnvironment,
    compiler: Option<Compiler>,
) -> Result<Vec<String>, AdoptError> {
    let mut json = RunnerFile::read(config)?.group(name)?.plugin_config();
    json["adopt"] = true.into();
    let configuration = GroupConfiguration::read(json.to_string().as_bytes(), process_environment)?;
    let common: &Common = configuration.as_ref();
    let client = Client::new(common.settings.clone()).map_err(StartError::from)?;
    let state = claim::open(common)?;
    // Nothing is judged; but a lifecycle is not opened without policies.
    let mut options = RuntimeOptions::new(client.clone(), state, Asker::Instances);
    (options.compiler, options.is_trial) = (compiler, true);
    let runtime = tokio::task::spawn_blocking(move || Runtime::build(options)).await.map_err(StartError::from)?;
    let policies = runtime.map_err(StartError::from)?.policies;
    Ok(match configuration {
        GroupConfiguration::Instances(it) => start::adopt::<Instances>(&it, client, policies).await?,
        GroupConfiguration::AppleSilicon(it) => start::adopt::<Macs>(&it, client, policies).await?,
    })
}
