//! The group of instances: servers that are made for it, and removed with everything that belongs to them.
//!
//! - `start` reads what an earlier process left, `check` asks Scaleway whether what is configured exists, `takeover`
//!   sees to it that one host works on a group.
//! - `create` carries out Increase, `background` what was accepted; `suspend` stops and starts servers.
//! - `connection` says how an instance is reached, by its `addresses`.

mod addresses;
mod background;
mod check;
mod connection;
mod create;
mod start;
mod suspend;
mod takeover;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use windlass_lifecycle::{
    Control, Error, Lifecycle, OperationId, OperationState, Options, PendingCleanup, RequestedBy, Requester,
    StateDirectory, SupervisorOptions, SweepRequest, read_or_absent, server_state,
};
use windlass_policy::Asker;
use windlass_policy::slots::state_mapping::{ServerState, StateDetail};
use windlass_scaleway::types::instance as scaleway;
use windlass_scaleway::{Client, Zone};

use super::claim::alone;
use super::entry::{Entry, Phase};
use super::error::StartError;
use super::fleet::Fleet;
use super::ids::Ids;
use super::kind::{Begun, Direction, Machine, MachineKind, Machines, Opened};
use super::places::Place;
use crate::configuration::{Configuration, ConfigurationErrors};
use crate::connect::{Family, KeyPair};
use crate::protocol::{Capability, ConnectInfo, ConnectorConfig, Failure, Partial};
use addresses::LastAddresses;
use check::{Learned, check};

/// Cleanups under way at a time. The client's own limits on calls lie below.
const PARALLEL_CLEANUPS: usize = 50;

/// What only a group of instances has.
pub(crate) struct Instances {
    /// The key with which instances are reached; absent when the operator configured a password.
    key: Option<KeyPair>,
    family: Family,
    /// In Go's words.
    architecture: &'static str,
    controls: Mutex<HashMap<OperationId, Control>>,
    /// Which instances are suspended.
    suspensions: Ids,
    last_addresses: LastAddresses,
    creating: Semaphore,
    cleaning: Semaphore,
}

impl Machine for scaleway::Server {
    fn id(&self) -> &str {
        &self.id
    }

    fn server_type(&self) -> &str {
        &self.commercial_type
    }

    fn state(&self) -> (ServerState, StateDetail) {
        server_state(self)
    }

    fn creation_date(&self) -> &str {
        &self.creation_date
    }

    fn has_run(&self, entry: &Entry) -> bool {
        entry.has_run
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }
}

impl MachineKind for Instances {
    type Configuration = Configuration;
    type Listed = windlass_lifecycle::Machine;
    type Machine = scaleway::Server;
    type Learned = Learned;
    type Removal = PendingCleanup;
    type Leftovers = Vec<(OperationId, Place)>;

    const ASKER: Asker = Asker::Instances;

    async fn check(
        client: &Client,
        configuration: &Configuration,
        connector: &ConnectorConfig,
    ) -> Result<Learned, ConfigurationErrors> {
        let learned = check(client, configuration).await?;
        start::refuse_windows(connector, learned.family)?;
        Ok(learned)
    }

    async fn open(
        configuration: &Configuration,
        mut options: Options,
        learned: Option<&Learned>,
    ) -> Result<Opened, StartError> {
        let state = options.state_directory.clone();
        let members = start::members(&options.client, configuration, &state).await?;
        options.owner = takeover::owner(configuration, &state, &members)?;
        let lifecycle = Lifecycle::open(options)?;
        let lease = alone(&lifecycle, &configuration.common).await?;
        match learned {
            Some(_) => lifecycle.check_history_in(&configuration.common.zones).await?,
            None => lifecycle.check_history()?,
        }
        let known = Ids::open(lifecycle.journal(), takeover::LIST)?;
        let taken_over = takeover::settle(configuration, &lifecycle, &state, &known, &members)?;
        Ok(Opened { lifecycle, known, taken_over, lease })
    }

    fn begin(
        configuration: &Configuration,
        connector: &ConnectorConfig,
        state: &StateDirectory,
        lifecycle: &Lifecycle,
        learned: Learned,
    ) -> Result<Begun<Self>, StartError> {
        let Learned { family, architecture, places } = learned;
        let (book, left) = start::book_of_journal(lifecycle, configuration)?;
        let kind = Self {
            key: start::key_of(connector, state)?,
            family,
            architecture,
            controls: Mutex::default(),
            suspensions: Ids::open(lifecycle.journal(), suspend::LIST)?,
            last_addresses: LastAddresses::default(),
            creating: Semaphore::new(configuration.max_parallel_creates as usize),
            cleaning: Semaphore::new(PARALLEL_CLEANUPS),
        };
        let in_book = book.iter().map(|(_, entry)| &entry.place.zone);
        let known_zones: BTreeSet<Zone> = in_book.chain(left.iter().map(|(_, place)| &place.zone)).cloned().collect();
        Ok(Begun { kind, book, left, known_zones, places })
    }

    /// The group is the only one that knows its resources, so what nothing explains is removed. What was left is tried
    /// again at its own pace.
    fn supervision(zones: &[Zone]) -> SupervisorOptions {
        let mut options = SupervisorOptions::default();
        options.resume_interval = background::RESUME_INTERVAL;
        options.sweep = Some(SweepRequest::new(zones.to_vec()));
        options
    }

    async fn work(fleet: Arc<Fleet<Self>>, left: Self::Leftovers) {
        // In this order: what is open is ended first; only then is it seen what nothing explains.
        fleet.take_up().await;
        fleet.clean_up_vanished(left).await;
        fleet.supervise().await;
    }

    fn capabilities(configuration: &Configuration) -> Vec<Capability> {
        configuration.suspend.then_some(Capability::SuspendResume).into_iter().collect()
    }

    fn watched_tags(configuration: &Configuration) -> &[String] {
        &configuration.watched_tags
    }

    fn catch_up(fleet: &Arc<Fleet<Self>>) {
        fleet.catch_up();
    }

    async fn list(fleet: &Fleet<Self>, zone: &Zone) -> Result<Vec<Self::Listed>, Error> {
        fleet.lifecycle.machines(std::slice::from_ref(zone), Some(&fleet.common().group)).await
    }

    /// Servers that were kept on purpose belong to people, not to the runner; and those that our journal does not know
    /// to whoever made them, unless they were taken over.
    fn take_up(fleet: &Arc<Fleet<Self>>, zone: &Zone, machine: Self::Listed) -> Option<(String, scaleway::Server)> {
        if machine.kept || machine.abandoned {
            return None;
        }
        let operation: OperationId = machine.operation?;
        let id = operation.to_string();
        if machine.operation_state.is_none() && !fleet.known.holds(&id) {
            if fleet.strangers.lock().insert(id.clone()) {
                let host = machine.host.as_deref().unwrap_or("another host");
                tracing::warn!(
                    instance = id,
                    server = machine.id,
                    "{host} uses the same `name` and `owner` and created this server, so it is left alone: give each \
                     host its own `name`"
                );
            }
            return None;
        }
        let mut book = fleet.book.lock();
        if book.get(&id).is_none() {
            tracing::info!(instance = id, server = machine.id, state = machine.state, "found an instance");
            let place = Place { zone: zone.clone(), server_type: machine.server_type.clone() };
            let mut entry =
                Entry::found(operation, place, Phase::Idle { suspended: fleet.kind.suspensions.holds(&id) });
            // Its creation ended well, so it ran once.
            entry.has_run = machine.operation_state == Some(OperationState::Done);
            book.insert(entry);
        }
        book.saw(&id, &machine.id, server_state(&machine.server).0, fleet.lifecycle.now());
        book.has_type(&id, &machine.server_type);
        Some((id, machine.server))
    }

    async fn read(
        fleet: &Fleet<Self>,
        _: &str,
        zone: &Zone,
        server: &str,
    ) -> Result<Result<scaleway::Server, String>, windlass_scaleway::Error> {
        let gone = match fleet.read_server(zone, server).await? {
            Some(server) if fleet.lifecycle.owns(&server) => return Ok(Ok(server)),
            Some(_) => "somebody took its server over: it no longer carries our tags",
            None => "its server was deleted by somebody else",
        };
        Ok(Err(gone.to_owned()))
    }

    /// Its addresses and volumes are still there.
    async fn lost(fleet: &Arc<Fleet<Self>>, id: &str, why: &str) {
        if let Err(error) = fleet.begin_removal(id, &RequestedBy::new(Requester::Plugin, why)).await {
            tracing::error!(
                instance = id,
                error = &error as &dyn std::error::Error,
                "what is left of it could not be removed"
            );
        }
    }

    fn looked(fleet: &Fleet<Self>, servers: &Machines<Self>) {
        let addresses = &fleet.kind.last_addresses;
        addresses.listed(servers.iter().map(|(id, server)| (id.as_str(), &**server)));
        let book = fleet.book.lock();
        addresses.retain(|id| book.get(id).is_some());
    }

    async fn create(fleet: &Arc<Fleet<Self>>, count: u32) -> Result<u32, Failure> {
        fleet.create(count).await
    }

    async fn end_creation(fleet: &Arc<Fleet<Self>>, id: &str, requested_by: &RequestedBy) -> Result<bool, Error> {
        fleet.end_creation(id, requested_by).await
    }

    async fn accept_removal(
        fleet: &Fleet<Self>,
        id: &str,
        requested_by: &RequestedBy,
    ) -> Result<Option<PendingCleanup>, Error> {
        fleet.journal_cleanup(id, requested_by).await
    }

    fn start_removal(fleet: &Arc<Fleet<Self>>, id: &str, pending: PendingCleanup, why: &str) {
        tracing::info!(instance = id, operation = %pending.id(), "removing: {why}");
        fleet.spawn_cleanup(id.to_owned(), pending);
    }

    async fn connect_info(fleet: &Fleet<Self>, id: &str) -> Result<ConnectInfo, Failure> {
        fleet.connect_info(id).await
    }

    fn turn(fleet: &Arc<Fleet<Self>>, instances: Vec<String>, direction: Direction) -> Partial {
        fleet.turn(instances, direction)
    }
}

impl Fleet<Instances> {
    /// A server by its id; nothing where it is proven gone, so that one wrong answer costs no running job.
    pub(super) async fn read_server(
        &self,
        zone: &Zone,
        id: &str,
    ) -> Result<Option<scaleway::Server>, windlass_scaleway::Error> {
        let instance = self.client.instance(zone);
        read_or_absent(|| instance.get_server(id)).await
    }
}
