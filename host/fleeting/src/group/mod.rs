//! The autoscaling group: instances of Scaleway over `windlass-lifecycle`, as fleeting wants to see them.
//!
//! - `entry` is one member: what is being done with it, and what the runner is told of it; `book` holds all of them.
//!   Pure data.
//! - `adopt` is the command that takes servers over, without a runner.
//! - `start` is Init: checks, and taking up what an earlier process left. `claim` sees to it that one process works on
//!   a group, `takeover` that one host does.
//! - `fleet` holds what the calls share, and accepts: Increase, Decrease, Suspend, Resume.
//! - `background` carries out what was accepted, and tries again what was left.
//! - `update` lists, asks the state-mapping policy, and reports. `connection` says how an instance is reached.
//! - `apple_silicon` is the other kind of group, laid out alike: Macs. What both share beside the book: `looks` (what
//!   was seen last, for updates and heartbeats), `judge` (the question about a listing), `pause` (after failures), and
//!   `tasks` (work beside the calls).
//! - `closed` are the zones that are closed for good.
//! - `places` are the zones with their server types: what failed where, and where the policy has instances made.

mod addresses;
mod adopt;
mod apple_silicon;
mod background;
mod book;
mod check;
mod claim;
mod closed;
mod connection;
mod entry;
mod error;
mod fleet;
mod ids;
mod judge;
mod looks;
mod pause;
mod places;
mod start;
mod suspend;
mod takeover;
mod update;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OnceCell;
use windlass_policy::Compiler;

use crate::configuration::{Configuration, GroupConfiguration, ProcessEnvironment};
use crate::protocol::{ConnectInfo, ConnectorConfig, Failure, InstanceGroup, Partial, ProviderInfo, Update};

pub use adopt::{AdoptError, adopt};
use apple_silicon::Hosts;
pub use error::StartError;
use fleet::Fleet;
pub(crate) use places::Place;
pub use start::Dependencies;

/// The group that the plugin serves. Before Init it knows nothing and loads nothing, so the handshake is quick.
#[derive(Default)]
pub struct ScalewayGroup {
    process_environment: ProcessEnvironment,
    compiler: Option<Compiler>,
    fleet: OnceCell<Arc<Fleet>>,
    hosts: OnceCell<Arc<Hosts>>,
}

impl ScalewayGroup {
    /// A group that will look for credentials in these process_environment, and have its policies compiled by this
    /// compiler (by its own process where there is none).
    pub fn new(process_environment: ProcessEnvironment, compiler: Option<Compiler>) -> Self {
        Self { process_environment, compiler, fleet: OnceCell::new(), hosts: OnceCell::new() }
    }

    /// A group that has been initialised with this configuration, with dependencies that are not made from it: for
    /// simulations, which have their own time and their own Scaleway.
    ///
    /// # Errors
    /// As Init.
    pub async fn start_on(
        configuration: Configuration,
        connector: ConnectorConfig,
        dependencies: Dependencies,
    ) -> Result<Self, StartError> {
        let fleet = start::start_on(configuration, connector, dependencies).await?;
        Ok(Self { fleet: OnceCell::new_with(Some(fleet)), ..Self::default() })
    }

    /// Ends all work of a group of instances where it stands, as the end of the process does. For simulations, which
    /// go on after it; what was begun is in the journal.
    pub async fn stop(&self) {
        if let Some(fleet) = self.fleet.get() {
            fleet.stop().await;
        }
    }

    fn fleet(&self) -> Result<&Arc<Fleet>, Failure> {
        self.fleet.get().ok_or_else(|| Failure("the group has not been initialised".to_owned()))
    }

    /// The fleet, and once more for work that goes on when the call is given up.
    fn fleet_and_work(&self) -> Result<(&Arc<Fleet>, Arc<Fleet>), Failure> {
        self.fleet().map(|fleet| (fleet, Arc::clone(fleet)))
    }

    /// Stops all background work: what is in flight ends at its next call and stays in the journal for the next start.
    /// Waits for it, but no longer than `patience`.
    pub async fn leave(&self, patience: Duration) {
        if let Some(fleet) = self.fleet.get() {
            fleet.leave(patience).await;
        }
        if let Some(hosts) = self.hosts.get() {
            hosts.leave(patience).await;
        }
    }
}

#[async_trait]
impl InstanceGroup for ScalewayGroup {
    async fn init(&self, configuration: Bytes, connector: ConnectorConfig) -> Result<ProviderInfo, Failure> {
        if self.fleet.initialized() || self.hosts.initialized() {
            return Err(Failure("the group has been initialised already".to_owned()));
        }
        let compiler = self.compiler.clone();
        match GroupConfiguration::read(&configuration, &self.process_environment)
            .map_err(|error| Failure(error.to_string()))?
        {
            GroupConfiguration::Instances(configuration) => {
                let start = || start::start(*configuration, connector, compiler);
                let fleet = self.fleet.get_or_try_init(start).await.map_err(|error| Failure::from_error(&error))?;
                Ok(fleet.info())
            }
            GroupConfiguration::AppleSilicon(configuration) => {
                let start = || apple_silicon::start(*configuration, connector, compiler);
                let hosts = self.hosts.get_or_try_init(start).await.map_err(|error| Failure::from_error(&error))?;
                Ok(hosts.info())
            }
        }
    }

    async fn update(&self) -> Result<Update, Failure> {
        if let Some(hosts) = self.hosts.get() {
            let work = Arc::clone(hosts);
            return hosts.tasks().carry(work.update()).await?;
        }
        let (fleet, work) = self.fleet_and_work()?;
        fleet.tasks.carry(work.update()).await?
    }

    async fn increase(&self, count: u32) -> Result<u32, Failure> {
        if let Some(hosts) = self.hosts.get() {
            return hosts.increase(count);
        }
        let (fleet, work) = self.fleet_and_work()?;
        fleet.tasks.carry(async move { work.increase(count).await }).await?
    }

    async fn decrease(&self, instances: Vec<String>) -> Result<Vec<String>, Failure> {
        if let Some(hosts) = self.hosts.get() {
            return Ok(hosts.decrease(instances));
        }
        let (fleet, work) = self.fleet_and_work()?;
        Ok(fleet.tasks.carry(async move { work.decrease(instances).await }).await?)
    }

    async fn connect_info(&self, instance: String) -> Result<ConnectInfo, Failure> {
        if let Some(hosts) = self.hosts.get() {
            return hosts.connect_info(&instance).await;
        }
        self.fleet()?.connect_info(&instance).await
    }

    async fn heartbeat(&self, instance: String) -> Result<(), Failure> {
        if let Some(hosts) = self.hosts.get() {
            return Arc::clone(hosts).heartbeat(&instance).await;
        }
        Arc::clone(self.fleet()?).heartbeat(&instance).await
    }

    async fn suspend(&self, instances: Vec<String>) -> Partial {
        match self.fleet() {
            Ok(fleet) => Arc::clone(fleet).suspend(instances),
            Err(failure) => Partial { succeeded: Vec::new(), failure: Some(failure) },
        }
    }

    async fn resume(&self, instances: Vec<String>) -> Partial {
        match self.fleet() {
            Ok(fleet) => Arc::clone(fleet).resume(instances),
            Err(failure) => Partial { succeeded: Vec::new(), failure: Some(failure) },
        }
    }

    async fn shutdown(&self) -> Result<(), Failure> {
        if let Some(hosts) = self.hosts.get() {
            let work = Arc::clone(hosts);
            return Ok(hosts.tasks().carry(async move { work.shutdown().await }).await?);
        }
        if self.fleet.initialized() {
            let (fleet, work) = self.fleet_and_work()?;
            return Ok(fleet.tasks.carry(async move { work.shutdown().await }).await?);
        }
        Ok(())
    }
}
