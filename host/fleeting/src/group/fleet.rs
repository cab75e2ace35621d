//! A group after Init: what all calls share, and what is accepted from the runner.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_lifecycle::log::Lease;
use windlass_lifecycle::{Error, Lifecycle, Part, RequestedBy, Requester, SubjectOf, Supervisor, Tasks};
use windlass_policy::Host;
use windlass_policy::slots::retry;
use windlass_policy::slots::types::{Failure as Cause, FailureClass, Subject};
use windlass_scaleway::{Client, Zone};

use super::book::{self, Book};
use super::claim::Lock;
use super::closed::ClosedZones;
use super::entry::{Event, Phase};
use super::ids::Ids;
use super::kind::{Direction, MachineKind};
use super::looks::{HEARTBEAT_PATIENCE, Looks};
use super::pause::{is_hopeless, pause_after};
use super::places::{Creation, Places};
use crate::configuration::Common;
use crate::observe::{Gauges, names};
use crate::protocol::{ConnectInfo, ConnectorConfig, Failure, Partial, ProviderInfo, Update};

/// How long Shutdown waits for removals: as many as a group holds, fifty at a time, some seconds each.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what is being removed.
const SHUTDOWN_INTERVAL: Duration = Duration::from_millis(100);
/// How long the decision log may take to be written out.
const FLUSH_PATIENCE: Duration = Duration::from_millis(200);

/// A group of machines after Init.
pub(crate) struct Fleet<K: MachineKind> {
    pub(crate) kind: K,
    pub(crate) configuration: K::Configuration,
    pub(crate) lifecycle: Lifecycle,
    /// Ends what nobody works on, looks again where a call may have come late, and prunes the journal.
    pub(crate) supervisor: Supervisor,
    pub(crate) policies: Arc<Host>,
    pub(crate) client: Client,
    /// As the operator configured it.
    pub(crate) connector: ConnectorConfig,
    pub(crate) book: Mutex<Book>,
    /// Where machines are made or claimed, and what failed where.
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
    /// Members that are ours, whatever becomes of the journal.
    pub(crate) known: Ids,
    /// Machines with the group's name that somebody else made or claimed, as far as the log has named them.
    pub(crate) strangers: Mutex<HashSet<String>>,
    pub(crate) looks: Looks,
    pub(crate) tasks: Tasks,
    /// Both locks, held as long as the group lives: on the group in the database, and on its folder.
    pub(crate) _lease: Option<Lease>,
    pub(crate) _lock: Lock,
    /// Reloads policies as their files change.
    pub(crate) _watch: Option<windlass_policy::Watch>,
    /// Shown for as long as the group lives.
    pub(crate) _console: Option<windlass_console::Beside>,
}

/// The runner's calls to a group of either kind.
#[async_trait]
pub(crate) trait Calls: Any + Send + Sync {
    /// How the group introduces itself.
    fn info(&self) -> ProviderInfo;
    /// The group's work beside its calls.
    fn tasks(&self) -> &Tasks;
    /// Whether another host took the group over.
    fn is_overtaken(&self) -> bool;
    /// The state of every member, as the policy sees it.
    async fn update(self: Arc<Self>) -> Result<Update, Failure>;
    /// Accepts as many creations as there is room for.
    async fn increase(self: Arc<Self>, count: u32) -> Result<u32, Failure>;
    /// Accepts the removal of members. One that nobody knows is gone. The same member again is the same removal.
    async fn decrease(self: Arc<Self>, instances: Vec<String>) -> Vec<String>;
    /// How to reach a member now.
    async fn connect_info(&self, id: &str) -> Result<ConnectInfo, Failure>;
    /// Ends well when the last look, or a new one where that is old, found the member running.
    async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure>;
    /// Accepts suspensions or resumptions.
    fn turn(self: Arc<Self>, instances: Vec<String>, direction: Direction) -> Partial;
    /// The runner shuts down. Members stay unless the configuration says otherwise.
    async fn shutdown(self: Arc<Self>);
    /// Ends all background work at its next call and waits for it, no longer than `patience`.
    async fn leave(&self, patience: Duration);
}

#[async_trait]
impl<K: MachineKind> Calls for Fleet<K> {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            id: format!("scaleway/{}/{}", self.common().first_zone(), self.common().written_name),
            max_size: self.common().max_size,
            version: crate::version::VERSION.to_owned(),
            build_info: crate::version::build_info(),
            capabilities: K::capabilities(&self.configuration),
        }
    }

    fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    fn is_overtaken(&self) -> bool {
        self.lifecycle.journal().log().is_overtaken()
    }

    async fn update(self: Arc<Self>) -> Result<Update, Failure> {
        let began = Instant::now();
        let reports = self.looks.now(self.look().instrument(tracing::trace_span!("update"))).await?;
        metrics::histogram!(names::UPDATE_SECONDS).record(began.elapsed().as_secs_f64());
        let reported: Vec<_> = reports.iter().map(|(id, state)| (id.clone(), *state)).collect();
        Ok(Update::of(reported, move || self.book.lock().delivered(&reports)))
    }

    async fn increase(self: Arc<Self>, count: u32) -> Result<u32, Failure> {
        // Nothing is made in a closed zone, so what is left there lets nothing grow.
        let leftovers = self.book.lock().leftovers(self.lifecycle.now(), |zone| !self.closed.lock().holds(zone));
        if book::is_paused(leftovers, count, self.common().max_leftovers) {
            return Ok(0);
        }
        let max_size = self.common().max_size;
        let occupied = u32::try_from(self.book.lock().occupied()).unwrap_or(u32::MAX);
        let room = count.min(max_size.saturating_sub(occupied));
        if room < count {
            tracing::warn!(
                demanded = count,
                accepted = room,
                occupied,
                max_size,
                "the group is full (max_size in plugin_config)"
            );
        }
        if room == 0 { Ok(0) } else { K::create(&self, room).await }
    }

    async fn decrease(self: Arc<Self>, instances: Vec<String>) -> Vec<String> {
        let requested_by = RequestedBy::new(Requester::Runner, "the runner no longer wants it");
        self.remove(instances, &requested_by).await
    }

    async fn connect_info(&self, id: &str) -> Result<ConnectInfo, Failure> {
        let connected = K::connect_info(self, id).await?;
        self.book.lock().used(id, self.lifecycle.now(), true);
        Ok(connected)
    }

    async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure> {
        if !self.looks.is_recent() {
            let fleet = Arc::clone(&self);
            let look = self.tasks.carry(async move {
                fleet.looks.unless_recent(fleet.look().instrument(tracing::trace_span!("update"))).await
            });
            // One that takes longer goes on without this call.
            let _ = tokio::time::timeout(HEARTBEAT_PATIENCE, look).await;
        }
        self.looks.health(id)?;
        self.book.lock().used(id, self.lifecycle.now(), false);
        Ok(())
    }

    fn turn(self: Arc<Self>, instances: Vec<String>, direction: Direction) -> Partial {
        K::turn(&self, instances, direction)
    }

    /// Also where members stay, removals are waited for: with its own `delete_instances_on_shutdown`, the runner has
    /// asked for them a moment ago, and ends this process after the answer.
    async fn shutdown(self: Arc<Self>) {
        if self.is_overtaken() {
            tracing::warn!("another host has this group now, so nothing is removed");
            return;
        }
        let everything = self.common().delete_on_shutdown;
        if everything {
            let all: Vec<String> = self.book.lock().iter().map(|(id, _)| id.clone()).collect();
            tracing::info!(instances = all.len(), "removing all instances, as delete_on_shutdown says");
            let requested_by = RequestedBy::new(Requester::Shutdown, "delete_on_shutdown is set");
            self.remove(all, &requested_by).await;
        }
        let ended = async {
            // What was left before does not wait for its next try: perhaps nobody starts the plugin again.
            if everything && self.book.lock().left() > 0 {
                self.supervisor.round(&[Part::Resume], self.tasks.control()).await;
                K::catch_up(&self);
            }
            let goes_on = || {
                let book = self.book.lock();
                !self.is_overtaken()
                    && (book.is_removing() || everything && book.iter().any(|(_, entry)| entry.phase().is_judged()))
            };
            while goes_on() {
                tokio::time::sleep(SHUTDOWN_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_PATIENCE, ended).await;
        let remaining = self.book.lock().remaining(everything);
        if !remaining.is_empty() {
            tracing::warn!(
                "not removed yet, and still billed: {}. The next start of the plugin continues; `windlass operation \
                 list --open` shows why",
                remaining.join(", ")
            );
        }
    }

    async fn leave(&self, patience: Duration) {
        self.tasks.leave(patience).await;
        // On a thread of its own, and not for long, since a full disk must not keep the process.
        let policies = Arc::clone(&self.policies);
        let flush = tokio::task::spawn_blocking(move || policies.flush_decisions());
        let _ = tokio::time::timeout(FLUSH_PATIENCE, flush).await;
    }
}

impl<K: MachineKind> Fleet<K> {
    pub(crate) fn common(&self) -> &Common {
        self.configuration.as_ref()
    }

    /// Takes in what happened to a member. Answers the phase before it, where it changed anything.
    pub(crate) fn apply(&self, id: &str, event: &Event) -> Option<Phase> {
        book::apply(&self.book, id, event)
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
                    if let Err(error) = K::end_creation(self, &id, requested_by).await {
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
        // All are accepted before any is carried out: the caller waits for the former only.
        let begun = join_all(to_begin.iter().map(|id| K::accept_removal(self, id, requested_by))).await;
        for (id, begun) in to_begin.into_iter().zip(begun) {
            match begun {
                Ok(removal) => {
                    if let Some(removal) = removal {
                        K::start_removal(self, &id, removal, &requested_by.why);
                    }
                    accepted.push(id);
                }
                Err(error) => refused(&id, &error),
            }
        }
        accepted
    }

    /// Accepts a removal and starts it.
    pub(crate) async fn begin_removal(self: &Arc<Self>, id: &str, requested_by: &RequestedBy) -> Result<(), Error> {
        if let Some(removal) = K::accept_removal(self, id, requested_by).await? {
            K::start_removal(self, id, removal, &requested_by.why);
        }
        Ok(())
    }

    /// Notes that a creation ended well, with a machine of this type.
    pub(crate) fn creation_succeeded(&self, creation: &Creation, server_type: &str) {
        let over = self.places.lock().succeeded(creation, server_type, Instant::now(), self.lifecycle.now());
        for place in over {
            self.gauges.unpaused(&place);
        }
    }

    /// Notes that a creation failed. Where the next one would probably fail as well, it is asked how long to wait.
    pub(crate) fn creation_failed(self: &Arc<Self>, creation: &Creation, step: String, cause: Cause) {
        // Where there is another zone to go to, that holds of every failure: this one was tried again for as long as
        // the retry policy wanted.
        let ended_from_outside = matches!(cause.class, FailureClass::Cancelled | FailureClass::Interrupted);
        let has_other_zones = self.common().zones.len() > 1;
        if is_hopeless(cause.class) || (has_other_zones && !ended_from_outside) {
            let (fleet, creation) = (Arc::clone(self), creation.clone());
            self.tasks.spawn(async move { fleet.back_off(&creation, step, cause).await });
        }
    }

    /// Whose machines a question about the group is about.
    pub(crate) fn subject(&self) -> Subject {
        let of = SubjectOf { group: Some(&self.common().group), ..SubjectOf::default() };
        self.lifecycle.subject(of)
    }

    /// Asks the retry policy of each place how long nothing is created there, as the operation `increase-group`.
    async fn back_off(&self, creation: &Creation, step: String, cause: Cause) {
        let class = cause.class;
        let (now, at) = (Instant::now(), self.lifecycle.now());
        let failed = self.places.lock().failed(creation, &cause, now, at);
        for (place, pause) in failed {
            let question = retry::Question {
                now: self.lifecycle.now(),
                random: self.lifecycle.random_word(),
                operation: "increase-group".to_owned(),
                step: step.clone(),
                undoing: false,
                attempt: 1,
                elapsed: 0,
                time_left: None,
                failure: cause.clone(),
                zone: place.zone.to_string(),
                subject: self.subject(),
                server_type: Some(place.server_type.clone()),
            };
            if let Some(rest) = pause_after(&pause, &self.policies, creation.accepted, question).await {
                self.gauges.paused(&place, class, self.lifecycle.now(), rest);
            }
        }
    }
}
