//! The autoscaling group: machines of Scaleway over `windlass-lifecycle`, as fleeting wants to see them.
//!
//! - `entry` is one member: what is being done with it, and what is reported to the runner; `book` holds all of them.
//!   Pure data.
//! - `fleet` holds what the calls share, and accepts: Increase, Decrease, Shutdown. `update` lists, asks the
//!   state-mapping policy, and reports; `looks` is what was seen last, for updates and heartbeats.
//! - `start` is Init: checks, and taking up what an earlier process left. `claim` sees to it that one process works on
//!   a group.
//! - `rehearsal` runs a group over simulated time.
//! - `adopt`, `check` and `simulate` are commands that no runner starts; `runner_file` reads its
//!   configuration for them. `gitlab_keys` explains keys of it in the documentation.
//! - `kind` is what differs between the two kinds of groups: `instances` and `apple_silicon`.
//! - `closed` are the zones that are closed for good.
//! - `places` are the zones with their server types: what failed where, and where the policy has instances made.
//!   `pause` is what follows failures.

mod adopt;
mod apple_silicon;
mod book;
mod check;
mod claim;
mod closed;
mod entry;
mod error;
mod fleet;
#[cfg(test)]
pub(crate) mod gitlab_keys;
mod ids;
mod instances;
mod kind;
mod looks;
mod pause;
mod places;
mod rehearsal;
mod runner_file;
mod simulate;
mod start;
mod update;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_policy::Compiler;

use crate::configuration::{GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectInfo, ConnectorConfig, Failure, InstanceGroup, Partial, ProviderInfo, Update};

pub use adopt::{AdoptError, adopt};
use apple_silicon::Macs;
pub use check::{CheckedGroup, check};
pub use error::StartError;
use fleet::Calls;
use instances::Instances;
use kind::Direction;
pub(crate) use places::Place;
pub use rehearsal::{
    Arm, ClusterConduct, Counted, Course, Demand, Event, HookConduct, Hour, Incident, IncidentKind, Leftover, Limits,
    Offer, Outcome, Pattern, Pool, PricedPlace, Provisioner, RehearsalError, Rehearser, Scale, Scenario, ScenarioError,
    SettingError, SettingKey, Stock, Time, Totals, WaitTimes,
};
pub use runner_file::RunnerFileError;
pub use simulate::{SimulateCommand, SimulateOptions, Simulated, simulate};
pub use start::Dependencies;

/// The group that the plugin serves. Before Init it knows nothing and loads nothing, so the handshake is quick.
#[derive(Default)]
pub struct ScalewayGroup {
    process_environment: ProcessEnvironment,
    compiler: Option<Compiler>,
    fleet: OnceCell<Arc<dyn Calls>>,
}

impl ScalewayGroup {
    /// A group that will look for credentials in this environment, and have components compiled by this compiler. Where
    /// there is none, only rules and built-in policies are loaded.
    pub fn new(process_environment: ProcessEnvironment, compiler: Option<Compiler>) -> Self {
        Self { process_environment, compiler, fleet: OnceCell::new() }
    }

    /// A group that has been initialised with this configuration, with dependencies that are not made from it: for
    /// simulations, which have their own time and their own Scaleway.
    ///
    /// # Errors
    /// As Init.
    pub async fn start_on(
        configuration: GroupConfiguration,
        connector: ConnectorConfig,
        dependencies: Dependencies,
    ) -> Result<Self, StartError> {
        let fleet: Arc<dyn Calls> = match configuration {
            GroupConfiguration::Instances(it) => start::start_on::<Instances>(*it, connector, dependencies).await?,
            GroupConfiguration::AppleSilicon(it) => start::start_on::<Macs>(*it, connector, dependencies).await?,
        };
        Ok(Self { fleet: OnceCell::new_with(Some(fleet)), ..Self::default() })
    }

    /// Ends all work of a group where it stands, as the end of the process does. For simulations, which go on after it;
    /// what was begun is in the journal.
    pub async fn stop(&self) {
        if let Some(fleet) = self.fleet.get() {
            fleet.tasks().stop().await;
        }
    }

    fn fleet(&self) -> Result<&Arc<dyn Calls>, Failure> {
        let fleet = self.fleet.get().ok_or_else(|| Failure("the group has not been initialised".to_owned()))?;
        match fleet.is_overtaken() {
            // The other host's runner has the instances, and may be removing them.
            true => Err(Failure("another host has this group now: stop this runner".to_owned())),
            false => Ok(fleet),
        }
    }

    fn turn(&self, instances: Vec<String>, direction: Direction) -> Partial {
        match self.fleet() {
            Ok(fleet) => Arc::clone(fleet).turn(instances, direction),
            Err(failure) => Partial { succeeded: Vec::new(), failure: Some(failure) },
        }
    }

    /// Stops all background work: what is in flight ends at its next call and stays in the journal for the next start.
    /// Waits for it, but no longer than `patience`.
    pub async fn leave(&self, patience: Duration) {
        if let Some(fleet) = self.fleet.get() {
            fleet.leave(patience).await;
        }
    }
}

#[async_trait]
impl InstanceGroup for ScalewayGroup {
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure> {
        if self.fleet.initialized() {
            return Err(Failure("the group has been initialised already".to_owned()));
        }
        let configuration = GroupConfiguration::read(&configuration, &self.process_environment)
            .map_err(|error| Failure(error.to_string()))?;
        let compiler = self.compiler.clone();
        let start = || async {
            Ok(match configuration {
                GroupConfiguration::Instances(it) => {
                    start::start::<Instances>(*it, connector, compiler).await? as Arc<dyn Calls>
                }
                GroupConfiguration::AppleSilicon(it) => start::start::<Macs>(*it, connector, compiler).await?,
            })
        };
        let fleet = self.fleet.get_or_try_init(start).await.map_err(|error: StartError| Failure::from_error(&error))?;
        Ok(fleet.info())
    }

    async fn update(&self) -> Result<Update, Failure> {
        let fleet = self.fleet()?;
        fleet.tasks().carry(Arc::clone(fleet).update()).await?
    }

    async fn increase(&self, count: u32) -> Result<u32, Failure> {
        let fleet = self.fleet()?;
        fleet.tasks().carry(Arc::clone(fleet).increase(count)).await?
    }

    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure> {
        let fleet = self.fleet()?;
        Ok(fleet.tasks().carry(Arc::clone(fleet).decrease(instances)).await?)
    }

    async fn connect_info(&self, instance: String) -> Result<ConnectInfo, Failure> {
        self.fleet()?.connect_info(&instance).await
    }

    async fn heartbeat(&self, instance: String) -> Result<(), Failure> {
        Arc::clone(self.fleet()?).heartbeat(&instance).await
    }

    async fn suspend(&self, instances: Vec<String>) -> Partial {
        self.turn(instances, Direction::Suspend)
    }

    async fn resume(&self, instances: Vec<String>) -> Partial {
        self.turn(instances, Direction::Resume)
    }

    async fn shutdown(&self) -> Result<(), Failure> {
        if let Some(fleet) = self.fleet.get() {
            fleet.tasks().carry(Arc::clone(fleet).shutdown()).await?;
        }
        Ok(())
    }
}
