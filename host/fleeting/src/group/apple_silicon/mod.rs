//! The group of Macs: hosts of a pool, or ordered ones, over `windlass-lifecycle`, as fleeting wants to see them.
//!
//! It is laid out as the group of instances and shares its book. What is different: nothing is made and undone here,
//! hosts are claimed and released. A host's name is the only mark of whose it is, so an instance's id *is* its host's
//! name; and a host that is released is not deleted but becomes whatever the release policy says.
//!
//! - `start` is Init. `claim` carries out Increase, `release` Decrease.
//! - `update` lists, asks the state-mapping policy (in the words of `mapping`), and reports. `connect` says how a host
//!   is reached.

mod claim;
mod connect;
mod mapping;
mod release;
mod start;
mod update;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_lifecycle::{
    ClaimName, Lifecycle, OperationId, RequestedBy, Requester, Supervisor, SupervisorOptions, Tasks,
};
use windlass_policy::Host;
use windlass_scaleway::Client;

use super::book::{self, Book};
use super::claim::Lock;
use super::entry::{Event, Phase};
#[cfg(test)]
use super::error::StartError;
use super::fleet::{SHUTDOWN_INTERVAL, SHUTDOWN_PATIENCE, flush_decisions};
use super::ids::Ids;
use super::looks::Looks;
use super::pause::Pause;
use super::places::Place;
use crate::configuration::AppleSiliconConfiguration;
use crate::observe::Gauges;
use crate::protocol::{ConnectorConfig, ProviderInfo};

pub(super) use start::{adopt, start};

/// The group after Init.
pub(crate) struct Hosts {
    configuration: AppleSiliconConfiguration,
    /// The operating system that hosts are to have, by name or family.
    operating_system: Option<String>,
    lifecycle: Lifecycle,
    policies: Arc<Host>,
    client: Client,
    /// As the operator configured it.
    connector: ConnectorConfig,
    /// What the names of the group's hosts begin with: its name and a mark of its owner.
    claims: String,
    book: Mutex<Book>,
    /// Claims that were released and that a host may still carry: it was kept, or its deletion is scheduled.
    released: Mutex<BTreeSet<String>>,
    /// Claims of this state directory: longer known than the journal remembers how they were made.
    known: Ids,
    /// Claims of the group that somebody else made, as far as the log has named them.
    strangers: Mutex<BTreeSet<String>>,
    /// Since when this process knows of each, in milliseconds since 1970.
    known_since: Mutex<BTreeMap<String, u64>>,
    pause: Mutex<Pause>,
    gauges: Gauges,
    looks: Looks,
    tasks: Tasks,
    /// Held as long as the group lives.
    _lock: Lock,
    /// Reloads policies as their files change.
    _watch: Option<windlass_policy::Watch>,
    /// Shown for as long as the group lives.
    _console: Option<windlass_console::Beside>,
}

impl Hosts {
    /// How the group introduces itself.
    pub(crate) fn info(&self) -> ProviderInfo {
        ProviderInfo {
            id: format!("scaleway/{}/{}", self.configuration.zone, self.configuration.written_name),
            max_size: self.configuration.max_size,
            version: crate::version::VERSION.to_owned(),
            build_info: crate::version::build_info(),
            // A Mac cannot be stopped.
            capabilities: Vec::new(),
        }
    }

    /// The group's work beside its calls.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Where its hosts are.
    fn place(&self) -> Place {
        Place { zone: self.configuration.zone.clone(), server_type: self.configuration.server_type.clone() }
    }

    /// Takes in what happened to a host. Answers the phase before it, where it changed anything.
    fn apply(&self, id: &str, event: &Event) -> Option<Phase> {
        book::apply(&self.book, id, event)
    }

    /// The claim that a host's name is, where it is one of this group.
    fn claim_of(&self, name: &str) -> Option<(ClaimName, OperationId)> {
        let unique = name.strip_prefix(&self.claims)?;
        // One part more: the group `ci` must not take the hosts of a group `ci-macs` for its own.
        if unique.contains('-') {
            return None;
        }
        Some((name.parse().ok()?, OperationId::parse(name).ok()?))
    }

    /// The runner shuts down. Hosts stay claimed unless the configuration says otherwise, or the runner has asked for
    /// their release a moment ago: that is waited for.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        let everything = self.configuration.delete_on_shutdown;
        if everything {
            let all: Vec<String> = self.book.lock().iter().map(|(id, _)| id.clone()).collect();
            tracing::info!(hosts = all.len(), "releasing all hosts, as delete_on_shutdown says");
            self.remove(&all, &RequestedBy::new(Requester::Shutdown, "delete_on_shutdown is set"));
        }
        let ended = async {
            let goes_on = || {
                let book = self.book.lock();
                book.is_removing() || everything && book.iter().any(|(_, entry)| entry.phase().is_judged())
            };
            while goes_on() {
                tokio::time::sleep(SHUTDOWN_INTERVAL).await;
            }
        };
        // What takes longer keeps its claim, and the next start shows it.
        if tokio::time::timeout(SHUTDOWN_PATIENCE, ended).await.is_err() {
            tracing::warn!("not every host is released yet; the next start of the plugin shows those that are left");
        }
    }

    /// Ends all background work at its next call and waits for it, no longer than `patience`.
    pub(crate) async fn leave(&self, patience: Duration) {
        self.tasks.leave(patience).await;
        flush_decisions(&self.policies).await;
    }

    /// Ends what nobody works on, looks again for hosts whose order was not answered, and forgets old operations.
    fn spawn_supervision(self: &Arc<Self>) {
        let hosts = Arc::clone(self);
        self.tasks.spawn(async move {
            let supervisor = Supervisor::new(hosts.lifecycle.clone(), SupervisorOptions::default());
            supervisor.run(hosts.tasks.control(), |_| {}).await;
        });
    }
}
