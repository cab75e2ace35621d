//! What all calls share, and what is accepted from the runner.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use windlass_lifecycle::{
    Asking, Cancellation, Control, Error, Lifecycle, OperationId, OperationState, PendingCleanup, RequestedBy,
    Requester, ServerSpecification, Supervisor, Target, Tasks,
};
use windlass_policy::Host;
use windlass_policy::slots::Placement;
use windlass_scaleway::{Client, Zone};

use super::addresses::LastAddresses;
use super::book::{self, Book};
use super::claim::Lock;
use super::closed::ClosedZones;
use super::entry::{Entry, Event, Phase};
use super::ids::Ids;
use super::looks::Looks;
use super::places::{Ask, Creation, Place, Placed, Places};
use crate::configuration::Configuration;
use crate::connect::{Family, KeyPair};
use crate::observe::{Gauges, names};
use crate::protocol::{Capability, ConnectorConfig, Failure, ProviderInfo};

/// Cleanups under way at a time. The client's own limits on calls lie below.
pub(crate) const PARALLEL_CLEANUPS: usize = 50;

/// The group after Init.
pub(crate) struct Fleet {
    pub(crate) configuration: Configuration,
    pub(crate) lifecycle: Lifecycle,
    /// Ends what nobody works on, looks again where a call may have come late, sweeps, and prunes the journal.
    pub(crate) supervisor: Supervisor,
    pub(crate) policies: Arc<Host>,
    pub(crate) client: Client,
    /// As the operator configured it.
    pub(crate) connector: ConnectorConfig,
    /// The key with which instances are reached; absent when the operator configured a password.
    pub(crate) key: Option<KeyPair>,
    pub(crate) family: Family,
    /// In Go's words.
    pub(crate) architecture: &'static str,
    pub(crate) book: Mutex<Book>,
    pub(crate) controls: Mutex<HashMap<OperationId, Control>>,
    /// Where instances are made, and what failed where.
    pub(crate) places: Mutex<Places>,
    /// Every zone in which the group may have something: those that are configured, and after them those in which the
    /// journal knows of something.
    pub(crate) zones: Vec<Zone>,
    /// When each zone was looked at last with success.
    pub(crate) looked: Mutex<BTreeMap<Zone, Instant>>,
    /// Zones that are closed for good.
    pub(crate) closed: Mutex<ClosedZones>,
    /// The zones of what the journal knew of at the start.
    pub(crate) known_zones: BTreeSet<Zone>,
    pub(crate) gauges: Gauges,
    /// Which instances are suspended.
    pub(crate) suspensions: Ids,
    /// Which instances were taken over from a journal that is lost.
    pub(crate) adopted: Ids,
    /// Servers of the group that somebody else made, as far as the log has named them.
    pub(crate) strangers: Mutex<HashSet<String>>,
    pub(crate) looks: Looks,
    pub(crate) last_addresses: LastAddresses,
    pub(crate) creating: Semaphore,
    pub(crate) cleaning: Semaphore,
    pub(crate) tasks: Tasks,
    /// Held as long as the group lives.
    pub(crate) _lock: Lock,
    /// Reloads policies as their files change.
    pub(crate) _watch: Option<windlass_policy::Watch>,
    /// Shown for as long as the group lives.
    pub(crate) _console: Option<windlass_console::Beside>,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Fleet {
    /// How the group introduces itself.
    pub(crate) fn info(&self) -> ProviderInfo {
        let mut capabilities = Vec::new();
        if self.configuration.suspend {
            capabilities.push(Capability::SuspendResume);
        }
        ProviderInfo {
            // By the first zone: a further one makes it no other group.
            id: format!("scaleway/{}/{}", self.configuration.server.zone, self.configuration.written_name),
            max_size: self.configuration.max_size,
            version: crate::version::VERSION.to_owned(),
            build_info: crate::version::build_info(),
            capabilities,
        }
    }

    /// Takes in what happened to an instance. Answers the phase before it, where it changed anything.
    pub(crate) fn apply(&self, id: &str, event: &Event) -> Option<Phase> {
        book::apply(&self.book, id, event)
    }

    /// What each of these servers is to be, with the tag that opens it to the group's key.
    fn specification(&self, placed: &Placed) -> ServerSpecification {
        let mut specification = self.configuration.server_in(&placed.zone);
        specification.types.clone_from(&placed.types);
        specification.tags.extend(self.key.as_ref().and_then(KeyPair::tag));
        specification
    }

    /// Accepts as many creations as there is room for, each in the journal under its id before this answers. The
    /// machines are made in the background.
    pub(crate) async fn increase(self: &Arc<Self>, count: u32) -> Result<u32, Failure> {
        // Nothing is made in a closed zone, so what is left there lets nothing grow.
        let leftovers = self.book.lock().leftovers(self.lifecycle.now(), |zone| !self.closed.lock().holds(zone));
        if book::is_paused(leftovers, count, self.configuration.max_leftovers) {
            return Ok(0);
        }
        let occupied = u32::try_from(self.book.lock().occupied()).unwrap_or(u32::MAX);
        let room = count.min(self.configuration.max_size.saturating_sub(occupied));
        if room < count {
            tracing::warn!(
                demanded = count,
                accepted = room,
                occupied,
                max_size = self.configuration.max_size,
                "the group is full; max_size in plugin_config bounds it"
            );
        }
        if room == 0 {
            return Ok(0);
        }
        let placed = self.place(room).await;
        let accepted = Instant::now();
        let creations = placed.into_iter().flat_map(|placed| {
            let specification = self.specification(&placed);
            let creation = Creation { zone: placed.zone, types: placed.types, accepted };
            std::iter::repeat_n((specification, creation), placed.count as usize)
        });
        let begun = join_all(creations.map(|(specification, creation)| async move {
            (creation, self.lifecycle.begin_create(specification).await)
        }))
        .await;
        let mut succeeded = 0;
        let mut first_failure = None;
        for (creation, pending) in begun {
            match pending {
                Ok(pending) => {
                    succeeded += 1;
                    let server_type = creation.types.first().cloned().unwrap_or_default();
                    let place = Place { zone: creation.zone.clone(), server_type };
                    self.book.lock().insert(Entry::demanded(pending.id().clone(), place));
                    self.spawn_create(pending, creation);
                }
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a creation could not be journalled");
                    first_failure.get_or_insert(Failure::from_error(&error));
                }
            }
        }
        match first_failure {
            // An error would lose the count, and the host would believe that nothing was accepted.
            Some(failure) if succeeded == 0 => Err(failure),
            _ => Ok(succeeded),
        }
    }

    /// Asks the placement policy where so many are made. What is not placed is not made now: the runner asks again.
    async fn place(&self, wanted: u32) -> Vec<Placed> {
        let backoffs = self.places.lock().backoffs(Instant::now());
        let counts = self.book.lock().counts();
        let ask = Ask {
            now: self.lifecycle.now(),
            random: self.lifecycle.random_word(),
            group: self.configuration.group.to_string(),
            wanted,
        };
        let count = |place: &Place| counts.get(place).copied().unwrap_or_default();
        let question = self.places.lock().question(ask, count, &backoffs);
        let decision = self.policies.pin().decide::<Placement>(question).await;
        for fallback in &decision.fallbacks {
            tracing::warn!(decision = %decision.id, "{fallback}");
        }
        let placed = self.places.lock().placed(&decision.answer);
        let accepted: u32 = placed.iter().map(|placed| placed.count).sum();
        if accepted < wanted {
            // Of several places, the one that can be used first.
            let first = match backoffs.iter().any(Option::is_none) {
                true => None,
                false => backoffs.iter().flatten().min_by_key(|backoff| backoff.rest),
            };
            let reason = decision.answer.reason.as_deref();
            let why = first.map(|backoff| backoff.why.as_str()).or(reason).unwrap_or("the placement policy says so");
            let rest_seconds = first.map(|backoff| backoff.rest.as_secs());
            if accepted == 0 {
                tracing::warn!(
                    demanded = wanted,
                    rest_seconds,
                    "nothing is created for now, since it would fail again: {why}"
                );
                metrics::counter!(names::INCREASES_PAUSED).increment(1);
            } else {
                tracing::warn!(demanded = wanted, accepted, "fewer are created than are demanded: {why}");
            }
        }
        placed
    }

    /// Accepts the removal of instances: in the journal before this answers, done in the background. One that nobody
    /// knows is gone. The same instance again is the same removal.
    pub(crate) async fn decrease(self: &Arc<Self>, instances: Vec<String>) -> Vec<String> {
        let requested_by = RequestedBy::new(Requester::Runner, "the runner no longer wants it");
        self.remove(instances, &requested_by).await
    }

    async fn remove(self: &Arc<Self>, instances: Vec<String>, requested_by: &RequestedBy) -> Vec<String> {
        let refused = |id: &str, error: &Error| {
            tracing::error!(
                instance = id,
                error = error as &dyn std::error::Error,
                "the removal could not be accepted; the runner asks again"
            );
        };
        let mut accepted = Vec::new();
        let mut to_begin = Vec::new();
        for id in instances {
            let phase = self.book.lock().get(&id).map(|entry| entry.phase().clone());
            match phase {
                None => {
                    tracing::info!(instance = id, "asked to remove an instance that is not there: it counts as gone")
                }
                Some(Phase::Creating { .. }) => {
                    if let Err(error) = self.end_creation(&id, requested_by).await {
                        refused(&id, &error);
                        continue;
                    }
                }
                Some(phase) if phase.stands() => {
                    to_begin.push(id);
                    continue;
                }
                // It is on its way out, or gone.
                Some(_) => {}
            }
            accepted.push(id);
        }
        // All are journalled before any is carried out: the caller waits for the former only.
        let begun = join_all(to_begin.iter().map(|id| self.journal_cleanup(id, requested_by))).await;
        for (id, begun) in to_begin.into_iter().zip(begun) {
            match begun {
                Ok(pending) => {
                    if let Some(pending) = pending {
                        self.start_cleanup(&id, pending, &requested_by.why);
                    }
                    accepted.push(id);
                }
                Err(error) => refused(&id, &error),
            }
        }
        accepted
    }

    /// Has an instance removed that is being created. The journal says so before this answers, whichever process began
    /// the creation: no later one finishes it. False where nothing changes.
    pub(crate) async fn end_creation(self: &Arc<Self>, id: &str, requested_by: &RequestedBy) -> Result<bool, Error> {
        let operation = {
            let mut book = self.book.lock();
            book.unwanted_by(id, requested_by);
            book.get(id).map(|entry| entry.operation.clone())
        };
        let Some(operation) = operation else { return Ok(false) };
        let control = self.controls.lock().get(&operation).cloned();
        // Noted before it is told: whoever ends the creation meanwhile sees that it is not wanted.
        let changed = self.apply(id, &Event::Unwanted { told: control.is_some() }).is_some();
        let is_untold = self.book.lock().get(id).is_some_and(|entry| matches!(entry.phase(), Phase::Creating { .. }));
        if !changed && !is_untold {
            return Ok(false);
        }
        let decisions: String = requested_by.decisions.iter().map(|id| format!(" (decision {id})")).collect();
        let by = format!("{}{decisions}: {}", requested_by.requester, requested_by.why);
        let cancelled = self.lifecycle.cancel(&operation, &by).await;
        if let Some(control) = control {
            control.cancel();
        }
        match cancelled? {
            Cancellation::Noted => drop(self.apply(id, &Event::Unwanted { told: true })),
            Cancellation::Ended(OperationState::Done) => {
                if let Some(requested_by) = self.created_unwanted(id) {
                    self.begin_cleanup(id, &requested_by).await?;
                }
            }
            Cancellation::Ended(_) => {}
        }
        Ok(changed)
    }

    /// Opens a cleanup in the journal and starts it.
    pub(crate) async fn begin_cleanup(self: &Arc<Self>, id: &str, requested_by: &RequestedBy) -> Result<(), Error> {
        if let Some(pending) = self.journal_cleanup(id, requested_by).await? {
            self.start_cleanup(id, pending, &requested_by.why);
        }
        Ok(())
    }

    /// Opens a cleanup in the journal, which asks the release policy. Nothing where there is none to be carried out: the
    /// instance is unknown or goes already.
    async fn journal_cleanup(&self, id: &str, requested_by: &RequestedBy) -> Result<Option<PendingCleanup>, Error> {
        let asked = self.book.lock().get(id).and_then(|entry| {
            let goes = !(entry.phase().stands() || *entry.phase() == Phase::Removing { by: None });
            (!goes).then(|| (entry.operation.clone(), entry.place.zone.clone(), entry.server.clone()))
        });
        let Some((operation, zone, server)) = asked else { return Ok(None) };
        let begin =
            |target: Target| self.lifecycle.begin_cleanup(target.released_by(requested_by.clone(), Asking::default()));
        let begun = match begin(Target::Operation(operation)).await {
            // A server of ours whose creation stands in a journal that was lost.
            Err(Error::OperationUnknown { operation }) => match server {
                Some(server) => begin(Target::Server { zone, id: server }).await,
                None => Err(Error::OperationUnknown { operation }),
            },
            other => other,
        };
        match begun {
            Ok(pending) => {
                self.apply(id, &Event::RemovalBegan { by: Some(pending.id().clone()) });
                Ok(Some(pending))
            }
            // Begun by a call that was given up, or by another process: it is seen to its end.
            Err(Error::CleanupUnderWay { operation }) => {
                self.apply(id, &Event::RemovalBegan { by: Some(operation) });
                self.supervisor.wake();
                Ok(None)
            }
            Err(error) => {
                self.apply(id, &Event::RemovalRefused);
                Err(error)
            }
        }
    }

    /// Starts a cleanup that is in the journal.
    fn start_cleanup(self: &Arc<Self>, id: &str, pending: PendingCleanup, why: &str) {
        tracing::info!(instance = id, operation = %pending.id(), "removing: {why}");
        self.spawn_cleanup(id.to_owned(), pending);
    }

    /// The runner shuts down. Instances stay unless the configuration says otherwise.
    ///
    /// Also where it does not, removals are waited for: with its own `delete_instances_on_shutdown`, the runner has
    /// asked for them a moment ago, and ends this process after the answer.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        let everything = self.configuration.delete_on_shutdown;
        if everything {
            let all: Vec<String> = self.book.lock().iter().map(|(id, _)| id.clone()).collect();
            tracing::info!(instances = all.len(), "removing all instances, as delete_on_shutdown says");
            let requested_by = RequestedBy::new(Requester::Shutdown, "delete_on_shutdown is set");
            self.remove(all, &requested_by).await;
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
        // What takes longer is in the journal, and the next start finishes it.
        if tokio::time::timeout(SHUTDOWN_PATIENCE, ended).await.is_err() {
            tracing::warn!("not everything is removed yet; the next start of the plugin finishes it");
        }
    }

    /// Ends all background work where it stands, as the end of the process does.
    pub(crate) async fn stop(&self) {
        self.tasks.stop().await;
    }

    /// Ends all background work at its next call and waits for it, no longer than `patience`.
    pub(crate) async fn leave(&self, patience: Duration) {
        self.tasks.leave(patience).await;
        flush_decisions(&self.policies).await;
    }
}

/// Writes the decision log out: on a thread of its own, and not for long, since a full disk must not keep the process.
pub(crate) async fn flush_decisions(policies: &Arc<Host>) {
    let policies = Arc::clone(policies);
    let flush = tokio::task::spawn_blocking(move || policies.flush_decisions());
    let _ = tokio::time::timeout(FLUSH_PATIENCE, flush).await;
}

/// How long Shutdown waits for removals: as many as a group holds, fifty at a time, some seconds each.
pub(crate) const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what is being removed.
pub(crate) const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(100);
/// How long the decision log may take to be written out.
const FLUSH_PATIENCE: Duration = Duration::from_millis(200);
