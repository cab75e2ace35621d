//! The group of Macs: hosts of a pool, or ordered ones.
//!
//! What is different from instances: nothing is made and undone here, hosts are claimed and released. A host's name is
//! the only mark of whose it is, so an instance's id *is* its host's name; and a host that is released is not deleted
//! but becomes whatever the release policy says.
//!
//! - `check` asks Scaleway whether what is configured exists, `takeover` sees to it that one host works on a group.
//! - `claim` carries out Increase, `release` Decrease. `mapping` has a host's states in the contract's words.

mod check;
mod claim;
mod release;
mod takeover;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use windlass_lifecycle::{
    ClaimName, Control, Error, JournalledClaim, Lifecycle, Operation, OperationId, OperationState, Options,
    RequestedBy, StateDirectory, SupervisorOptions, host_state,
};
use windlass_policy::Asker;
use windlass_policy::slots::state_mapping::{ServerState, StateDetail};
use windlass_scaleway::types::apple_silicon::Server as Host;
use windlass_scaleway::{Client, Zone};

use super::book::Book;
use super::claim::{alone, owner_of_group};
use super::entry::{Entry, Event, Phase};
use super::error::StartError;
use super::fleet::Fleet;
use super::ids::Ids;
use super::kind::{Begun, Machine, MachineKind, Opened};
use super::places::Place;
use crate::configuration::{AppleSiliconConfiguration, ConfigurationErrors};
use crate::protocol::{ConnectInfo, ConnectorConfig, Failure};
use check::{Learned, check};
use release::Release;

/// One listing of the zone serves all that look within this time. The runner looks every two seconds at most.
const LISTING_SERVES: Duration = Duration::from_secs(2);

/// In Go's words, which are the runner's.
const OPERATING_SYSTEM: &str = "darwin";
const ARCHITECTURE: &str = "arm64";

/// What only a group of Macs has.
pub(crate) struct Macs {
    /// The operating system that hosts are to have, by name or family.
    operating_system: Option<String>,
    /// What the names of the group's hosts begin with: its name and a mark of its owner.
    claims: String,
    /// Claims that were released and that a host may still carry: it was kept, or its deletion is scheduled.
    released: Mutex<BTreeSet<String>>,
    /// Operations of an earlier process that have not ended, by the claim whose end or beginning they are.
    unfinished: Mutex<BTreeMap<String, OperationId>>,
    /// The controls of claims in progress, by claim.
    controls: Mutex<BTreeMap<String, Control>>,
}

impl Machine for Host {
    fn id(&self) -> &str {
        &self.id
    }

    fn server_type(&self) -> &str {
        &self.server_type
    }

    fn state(&self) -> (ServerState, StateDetail) {
        host_state(self)
    }

    fn creation_date(&self) -> &str {
        &self.created_at
    }

    /// A host out of a pool may be years old: that it was delivered means that it ran.
    fn has_run(&self, _: &Entry) -> bool {
        self.delivered
    }
}

impl MachineKind for Macs {
    type Configuration = AppleSiliconConfiguration;
    type Listed = Host;
    type Machine = Host;
    type Learned = Learned;
    type Removal = Release;
    type Leftovers = ();

    const ASKER: Asker = Asker::Macs;

    async fn check(
        client: &Client,
        configuration: &Self::Configuration,
        _: &ConnectorConfig,
    ) -> Result<Learned, ConfigurationErrors> {
        check(client, configuration).await
    }

    async fn open(
        configuration: &Self::Configuration,
        mut options: Options,
        learned: Option<&Learned>,
    ) -> Result<Opened, StartError> {
        let common = &configuration.common;
        let names = match learned {
            Some(learned) => learned.names.clone(),
            None => check(&options.client, configuration).await?.names,
        };
        options.owner = common.owner.as_ref().map(|owner| owner_of_group(owner, &common.group)).transpose()?;
        options.limits.machine_interval = LISTING_SERVES;
        let state = options.state_directory.clone();
        let lifecycle = Lifecycle::open(options)?;
        let lease = alone(&lifecycle, common).await?;
        lifecycle.check_history()?;
        let known = Ids::open(lifecycle.journal(), takeover::LIST)?;
        let taken_over = takeover::settle(common, &lifecycle, &state, &known, &names)?;
        Ok(Opened { lifecycle, known, taken_over, lease })
    }

    fn begin(
        configuration: &Self::Configuration,
        _: &ConnectorConfig,
        _: &StateDirectory,
        lifecycle: &Lifecycle,
        learned: Learned,
    ) -> Result<Begun<Self>, StartError> {
        let kind = Self {
            operating_system: learned.operating_system,
            claims: takeover::claims_of(&configuration.common, lifecycle),
            released: Mutex::default(),
            unfinished: Mutex::default(),
            controls: Mutex::default(),
        };
        let places = vec![(configuration.place(), None)];
        Ok(Begun { kind, book: Book::default(), left: (), known_zones: BTreeSet::new(), places })
    }

    fn supervision(_: &[Zone]) -> SupervisorOptions {
        SupervisorOptions::default()
    }

    async fn work(fleet: Arc<Fleet<Self>>, (): ()) {
        fleet.supervisor.run(fleet.tasks.control(), |_| {}).await;
    }

    async fn list(fleet: &Fleet<Self>, zone: &Zone) -> Result<Vec<Host>, Error> {
        let hosts = fleet.lifecycle.hosts(zone).await?.machines.clone();
        // What no host carries any more need not be remembered.
        let mut gone = Vec::new();
        fleet.kind.released.lock().retain(|claim| {
            let is_carried = hosts.iter().any(|host| host.name == *claim);
            if !is_carried {
                gone.push(claim.clone());
            }
            is_carried
        });
        gone.iter().for_each(|claim| fleet.known.forget(claim));
        Ok(hosts)
    }

    /// What an earlier process, or another one, left open has ended.
    fn catch_up(fleet: &Arc<Fleet<Self>>) {
        fleet.catch_up();
    }

    /// A host that was released belongs to the release policy's verdict, and one that Scaleway will delete to nobody.
    fn take_up(fleet: &Arc<Fleet<Self>>, _: &Zone, host: Host) -> Option<(String, Host)> {
        let (claim, operation) = fleet.claim_of(&host.name)?;
        let id = host.name.clone();
        if host.deletion_scheduled || fleet.kind.released.lock().contains(&id) {
            return None;
        }
        let now = fleet.lifecycle.now();
        if fleet.book.lock().get(&id).is_none() {
            let standing = fleet.is_ours(&host).then(|| fleet.standing(&claim)).flatten()?;
            let phase = fleet.phase_of(&id, &standing)?;
            tracing::info!(instance = id, host = host.id, status = %host.status, "found a host of this group");
            let mut entry = Entry::found(operation, fleet.place(), phase);
            entry.known_since = Some(now);
            fleet.book.lock().insert(entry);
            if let JournalledClaim::CalledOff(by) = standing {
                fleet.release_called_off(claim, host.id.clone(), &by);
            }
        }
        fleet.book.lock().saw(&id, &host.id, host_state(&host).0, now);
        Some((id, host))
    }

    async fn read(
        fleet: &Fleet<Self>,
        id: &str,
        zone: &Zone,
        host: &str,
    ) -> Result<Result<Host, String>, windlass_scaleway::Error> {
        Ok(match fleet.client.apple_silicon(zone).get_server(host).await {
            Ok(host) if host.name == id && !host.deletion_scheduled => Ok(host),
            Ok(host) if host.name == id => Err("somebody scheduled its deletion".to_owned()),
            Ok(host) => Err(format!("somebody named it {:?}", host.name)),
            // The list was permitted and does not hold it: together that is a proof.
            Err(error) if error.is_gone_or_not_ours() => Err("it does not exist any more".to_owned()),
            Err(error) => return Err(error),
        })
    }

    async fn lost(fleet: &Arc<Fleet<Self>>, id: &str, why: &str) {
        tracing::warn!(instance = id, "its host is lost to the group: {why}");
        fleet.apply(id, &Event::Ended);
    }

    async fn create(fleet: &Arc<Fleet<Self>>, count: u32) -> Result<u32, Failure> {
        fleet.claim_hosts(count)
    }

    /// The claim ends as it may; then the host is released.
    /// Also records the cancellation in the journal, so that after a crash the next process undoes the claim.
    async fn end_creation(fleet: &Arc<Fleet<Self>>, id: &str, requested_by: &RequestedBy) -> Result<bool, Error> {
        fleet.book.lock().unwanted_by(id, requested_by);
        let changed = fleet.apply(id, &Event::Unwanted { informed: false }).is_some();
        let control = fleet.kind.controls.lock().get(id).cloned();
        if let Some(control) = control {
            control.cancel();
        }
        for operation in fleet.lifecycle.journal().operations_of_machine(id)? {
            if operation.kind.acquires() && !operation.state.has_ended() {
                fleet.lifecycle.cancel(&operation.id, &requested_by.canceller()).await?;
            }
        }
        fleet.apply(id, &Event::Unwanted { informed: true });
        Ok(changed)
    }

    /// Nothing is journalled: a host whose release has not begun carries its claim, is shown again by the next process,
    /// and is released when the runner asks it.
    async fn accept_removal(
        fleet: &Fleet<Self>,
        id: &str,
        requested_by: &RequestedBy,
    ) -> Result<Option<Release>, Error> {
        let host = fleet.book.lock().get(id).and_then(|entry| entry.server.clone());
        let (Some(host), Some((claim, _))) = (host, fleet.claim_of(id)) else { return Ok(None) };
        // Of several concurrent releases, one begins.
        let begins = fleet.apply(id, &Event::RemovalBegan { by: None }).is_some();
        Ok(begins.then(|| Release { claim, host, requested_by: requested_by.clone() }))
    }

    fn start_removal(fleet: &Arc<Fleet<Self>>, id: &str, release: Release, why: &str) {
        tracing::info!(instance = id, host = release.host, "releasing it: {why}");
        fleet.spawn_release(release);
    }

    /// Read each time, never kept: the password is shown in no other answer, and a wipe changes it.
    async fn connect_info(fleet: &Fleet<Self>, id: &str) -> Result<ConnectInfo, Failure> {
        let (host, is_leaving) = match fleet.book.lock().get(id) {
            Some(entry) => (entry.server.clone(), entry.phase().is_leaving()),
            None => (None, false),
        };
        let Some(host) = host.filter(|_| !is_leaving) else {
            return Err(Failure(format!("{id} has no host to connect to: it is still being claimed, or was released")));
        };
        let host = fleet
            .client
            .apple_silicon(fleet.common().first_zone())
            .get_server(&host)
            .await
            .map_err(|error| Failure::from_error(&error))?;
        // It may belong to somebody else now: its password is not ours to show.
        if host.name != id {
            return Err(Failure(format!("{id} is gone: its host carries another name now")));
        }
        if host.ip.is_empty() {
            return Err(Failure(format!("{id} has no address yet")));
        }
        let mut connector = fleet.connector.clone();
        for (field, default) in [
            (&mut connector.operating_system, OPERATING_SYSTEM),
            (&mut connector.architecture, ARCHITECTURE),
            (&mut connector.protocol, "ssh"),
            (&mut connector.username, host.ssh_username.as_str()),
        ] {
            if field.is_empty() {
                *field = default.to_owned();
            }
        }
        // The operator's own credentials win; without them the host's password is the only way in.
        if connector.password.is_empty() && connector.key.is_empty() && !connector.use_static_credentials {
            match host.sudo_password.reveal() {
                Some(password) => connector.password = password.to_owned(),
                None => return Err(Failure(format!("Scaleway does not show the password of {id} now"))),
            }
        }
        Ok(ConnectInfo {
            connector,
            // A runner that asks for the internal address would be given an empty one otherwise, and dial itself.
            internal_address: host.ip.clone(),
            external_address: host.ip,
            expires: None,
        })
    }
}

impl Fleet<Macs> {
    /// Where its hosts are.
    fn place(&self) -> Place {
        self.configuration.place()
    }

    /// The claim that a host's name is, where it is one of this group.
    fn claim_of(&self, name: &str) -> Option<(ClaimName, OperationId)> {
        let unique = name.strip_prefix(&self.kind.claims)?;
        // One part more: the group `ci` must not take the hosts of a group `ci-macs` for its own.
        if unique.contains('-') {
            return None;
        }
        Some((name.parse().ok()?, OperationId::parse(name).ok()?))
    }

    /// Whether a host with a claim of the group was claimed by this state directory, or taken over. Others may work
    /// under the same name and owner.
    fn is_ours(&self, host: &Host) -> bool {
        let name = host.name.as_str();
        if self.known.holds(name) {
            return true;
        }
        // No name comes twice, so a stranger's never becomes ours.
        if self.strangers.lock().contains(name) {
            return false;
        }
        match takeover::was_claimed(&self.lifecycle, name) {
            Ok(true) => {
                self.remember(name);
                return true;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(
                    instance = name,
                    error = &error as &dyn std::error::Error,
                    "cannot read from the journal who claimed it"
                );
                return false;
            }
        }
        self.strangers.lock().insert(name.to_owned());
        tracing::warn!(
            instance = name,
            host = host.id,
            "another runner host uses the same `name` and `owner` and claimed this Mac, so it is left alone: give each \
             its own `name`"
        );
        false
    }

    /// How a claim stands by the journal. Nothing where that cannot be read: its host is not taken up yet.
    fn standing(&self, claim: &ClaimName) -> Option<JournalledClaim> {
        let standing = self.lifecycle.journalled_claim(claim);
        let unread = |error: Error| {
            tracing::warn!(instance = %claim, error = &error as &dyn std::error::Error, "its operation cannot be read from the journal");
        };
        standing.map_err(unread).ok()
    }

    /// What is being done with a host that this process did not claim. Nothing where it is not the group's any more.
    fn phase_of(&self, id: &str, standing: &JournalledClaim) -> Option<Phase> {
        Some(match standing {
            JournalledClaim::Claimed => Phase::Idle { suspended: false },
            JournalledClaim::Unfinished(by) => {
                self.kind.unfinished.lock().insert(id.to_owned(), by.id.clone());
                match by.kind.acquires() {
                    true => Phase::Creating { unwanted: false },
                    false => Phase::Removing { by: Some(by.id.clone()) },
                }
            }
            JournalledClaim::CalledOff(_) => Phase::Removing { by: None },
            JournalledClaim::Released(by) => {
                tracing::warn!(
                    instance = id,
                    operation = %by.id,
                    "the release policy released or kept it, and it is billed as long as it exists; it is left alone \
                     until somebody renames it"
                );
                self.kind.released.lock().insert(id.to_owned());
                return None;
            }
        })
    }

    /// Takes in how those operations ended that an earlier process left open.
    fn catch_up(self: &Arc<Self>) {
        let unfinished = self.kind.unfinished.lock().clone();
        for (id, by) in unfinished {
            let row = match self.lifecycle.journal().operation(&by) {
                Ok(row) if row.state.has_work_left() => continue,
                Ok(row) => row,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(instance = id, operation = %by, error, "its operation cannot be read from the journal");
                    continue;
                }
            };
            let Some(standing) = self.claim_of(&id).and_then(|(claim, _)| self.standing(&claim)) else { continue };
            self.kind.unfinished.lock().remove(&id);
            tracing::info!(instance = id, operation = %by, state = %row.state, "an earlier process's operation ended");
            self.settled(&id, &row, standing);
        }
    }

    /// The operation of an earlier process ended, and the claim stands so.
    fn settled(self: &Arc<Self>, id: &str, row: &Operation, standing: JournalledClaim) {
        let host = self.book.lock().get(id).and_then(|entry| entry.server.clone());
        let claim = self.claim_of(id).map(|(claim, _)| claim);
        let came_to_nothing = row.kind.acquires() && matches!(row.state, OperationState::Undone);
        match (standing, claim, host) {
            (JournalledClaim::Claimed, Some(claim), Some(host)) if !came_to_nothing => self.claimed(claim, host),
            (JournalledClaim::CalledOff(by), Some(claim), Some(host)) => self.release_called_off(claim, host, &by),
            (JournalledClaim::Unfinished(by), ..) => {
                self.kind.unfinished.lock().insert(id.to_owned(), by.id);
            }
            (JournalledClaim::Released(_), ..) => self.left_group(id),
            (JournalledClaim::Claimed | JournalledClaim::CalledOff(_), ..) => drop(self.apply(id, &Event::Ended)),
        }
    }

    /// Remembers that a claim is ours, for longer than the journal does.
    fn remember(&self, claim: &str) {
        if let Err(error) = self.known.remember([claim]) {
            tracing::warn!(instance = claim, %error, "that it is ours cannot be written down");
        }
    }
}
