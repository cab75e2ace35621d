//! The entry: what is shared by all operations of a process, and how operations begin and end.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use serde_json::json;
use tracing::Instrument;
use windlass_concurrency::ActiveKeys;
use windlass_policy::{Host, PinnedPolicies};
use windlass_scaleway::types::block::{BlockVolume, UpdateBlockVolume};
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use crate::account::{Catalogues, WithoutPrices};
use crate::cancels::Cancels;
use crate::change::{BlockVolumeChange, change};
use crate::clock::{Clock, Randomness};
use crate::control::{Control, EventKind};
use crate::create::Creation;
use crate::error::OperationFailure;
use crate::identifier::{OperationId, OwnerName};
use crate::inventory::Scope;
use crate::journal::note::{Cause, Note};
use crate::journal::step::{Create, Step};
use crate::journal::{Closing, Entry, Journal, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::log::Durability;
use crate::machines::Machines;
use crate::outstanding::Outstanding;
use crate::ownership::Claims;
use crate::policy_hosts::StatusPublisher;
use crate::poller::Poller;
use crate::report::Report;
use crate::run::{Run, cancelled};
use crate::shared::{Active, Limits, Shared};
use crate::specification::{ServerSpecification, numbered};
use crate::state_directory::StateDirectory;
use crate::stop::{StepFailure, Stop};
use crate::trace::cause_words;
use crate::undo::{kept_by, undo};
use crate::{Error, metric_names, tags};

/// What a [`Lifecycle`] is made from.
#[non_exhaustive]
pub struct Options {
    pub client: Client,
    pub policies: Arc<Host>,
    /// Where the journal is.
    pub state_directory: StateDirectory,
    /// Whose resources these are. Absent: the name stored in the state directory, made once at random. Share a
    /// configured owner only between processes that share the state directory: what the journal does not know, a
    /// sweep takes for lost.
    pub owner: Option<OwnerName>,
    /// The project whose machines are seen: hosts of others are not claimed, although the key may reach them. Absent:
    /// all that the key reaches.
    pub project: Option<String>,
    /// Where this process runs. Each server that it makes says so by a tag, so that who finds the server and not its
    /// journal knows where to look. Letters, digits, dots and dashes; absent: no tag.
    pub host: Option<String>,
    /// What a journal write is proof against.
    pub durability: Durability,
    pub clock: Clock,
    /// Makes ids and jitter reproducible. Absent: the operating system's randomness.
    pub seed: Option<u64>,
    pub limits: Limits,
    /// Whether the hosts that share the journal are told how the policies are doing. Default true. False where the
    /// process tells them itself, once for all its lifecycles, by a [`StatusPublisher`].
    pub publishes_policies: bool,
}

impl Options {
    /// The ordinary ones: system clock, full durability, random seed.
    #[must_use]
    pub fn new(client: Client, policies: Arc<Host>, state_directory: StateDirectory) -> Self {
        Self {
            client,
            policies,
            state_directory,
            owner: None,
            project: None,
            host: None,
            durability: Durability::default(),
            clock: Clock::System,
            seed: None,
            limits: Limits::default(),
            publishes_policies: true,
        }
    }
}

/// Operations on servers: create, clean up, resume, sweep. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    pub(crate) shared: Arc<Shared>,
}

/// A server that was created and runs.
#[derive(Clone, Debug)]
pub struct CreatedServer {
    /// The operation that created it; also the value of its operation tag.
    pub operation: OperationId,
    /// The server, as it was when it was first seen running.
    pub server: Server,
}

/// A create that is in the journal and has not begun to do anything.
///
/// Dropped without [`run`](PendingCreate::run), it stays open and the next start closes it.
#[derive(Debug)]
pub struct PendingCreate {
    shared: Arc<Shared>,
    active: Active,
    id: OperationId,
    specification: ServerSpecification,
    policies: PinnedPolicies,
}

impl Lifecycle {
    /// Opens the journal and registers this process. Where hosts share the journal, the others see from now on how the
    /// policies of this one are doing ([`StateDirectory::policy_hosts`]).
    ///
    /// What an earlier process left open is not touched yet: see [`Lifecycle::resume`]. Where the state directory is a
    /// copy, it can be read, and refuses all else: see [`Lifecycle::check_history`].
    ///
    /// # Errors
    /// When the state directory or the journal cannot be used.
    pub fn open(options: Options) -> Result<Self, Error> {
        let journal = Journal::open(&options.state_directory, options.durability)?;
        let owner = options.state_directory.owner(options.owner)?;
        let (history, moved) = options.state_directory.begin_history(&journal)?;
        let randomness = Randomness::new(options.seed);
        let runner = journal.register(&randomness)?;
        let publisher = match moved {
            None if options.publishes_policies => {
                StatusPublisher::of(&options.state_directory, &options.policies, &journal, runner.name())
            }
            // Elsewhere the process tells it, or the history does not take place here, and nothing is written.
            _ => None,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                _publisher: publisher,
                poller: Poller::new(options.client.clone(), options.limits.poll_interval),
                client: options.client,
                policies: options.policies,
                state_directory: options.state_directory,
                history,
                moved: Mutex::new(moved),
                not_set_back: tokio::sync::Mutex::default(),
                journal,
                owner,
                project: options.project,
                host: options.host,
                clock: options.clock,
                randomness,
                limits: options.limits,
                images: Arc::default(),
                catalogues: Catalogues::default(),
                without_prices: WithoutPrices::default(),
                pooled_ips: ActiveKeys::default(),
                machines: Machines::default(),
                runner,
                active: ActiveKeys::default(),
                outstanding: Outstanding::default(),
                taking_over: tokio::sync::Mutex::default(),
                cancels: Cancels::default(),
            }),
        })
    }

    /// Whether this state directory's history takes place here. Where it does not, nothing can be begun and nothing is
    /// taken over; reading is possible.
    ///
    /// # Errors
    /// [`Error::HistoryMoved`] says what shows that it does not.
    pub fn check_history(&self) -> Result<(), Error> {
        self.shared.check_history()
    }

    /// The same, after a look in these zones whether the state directory was set back to an earlier state. For who
    /// shows others what the journal knows, keeps a history of its own beside it, or creates something; before anything
    /// is removed or taken over it is looked at anyway. A zone that cannot be listed says nothing.
    ///
    /// # Errors
    /// As there.
    pub async fn check_history_in(&self, zones: &[Zone]) -> Result<(), Error> {
        self.shared.check_not_set_back(zones.iter()).await
    }

    /// Whether what began at this time (milliseconds since 1970) began before the state directory was taken over from a
    /// copy or a restored backup: it may have gone on elsewhere, and what belongs to it may be in use.
    #[must_use]
    pub fn began_elsewhere(&self, began_at: u64) -> bool {
        self.shared.began_elsewhere(began_at)
    }

    /// The journal, to read.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Whose resources these are.
    #[must_use]
    pub fn owner(&self) -> &OwnerName {
        &self.shared.owner
    }

    /// As [`OwnerName::owns`].
    #[must_use]
    pub fn owns(&self, server: &Server) -> bool {
        self.shared.owner.owns(server)
    }

    /// This process's name in the state directory: it lives as long as the process does
    /// ([`Journal::runner_lives`]).
    #[must_use]
    pub fn runner(&self) -> &str {
        self.shared.runner.name()
    }

    /// The time by this lifecycle's clock, in milliseconds since 1970: for who works beside its operations.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.shared.clock.now()
    }

    /// A word for a policy's jitter, from where this lifecycle's own come.
    #[must_use]
    pub fn random_word(&self) -> u64 {
        self.shared.randomness.word()
    }

    /// Takes what is unfinished and left in this journal out of the process's metrics, for good: for who closes one of
    /// several and goes on.
    pub fn leave_metrics(&self) {
        self.shared.outstanding.end();
    }

    /// The operations under way in this process.
    #[must_use]
    pub fn in_flight(&self) -> Vec<OperationId> {
        self.shared.active.all()
    }

    /// Opens a create in the journal, under the policies of this moment, and calls nobody: the id can be answered at
    /// once.
    ///
    /// # Errors
    /// [`Error::Specification`], or the journal's errors.
    pub async fn begin_create(&self, mut specification: ServerSpecification) -> Result<PendingCreate, Error> {
        specification.normalize();
        specification.check()?;
        let policies = self.shared.pin(&specification.requested_by, None);
        let group = specification.group.clone();
        let zone = specification.zone.clone();
        let row = serde_json::to_value(&specification)
            .map_err(|error| Error::Specification { field: "specification", problem: error.to_string() })?;
        let (id, active) = self.shared.begin(OperationKind::CreateServer, &group, &zone, row, &policies).await?;
        Ok(PendingCreate { shared: Arc::clone(&self.shared), active, id, specification, policies })
    }

    /// The server that carries this operation's tag and our owner tag, as Scaleway shows it now: for who has lost the
    /// journal. Of several it is the oldest, since copies of the tags come later; where the journal knows which one
    /// the operation made, it is no other. `None` does not say that nothing else of the operation exists;
    /// [`Target::Tagged`](crate::Target::Tagged) cleans that up.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed, and the journal's errors.
    pub async fn find_created(&self, zone: &Zone, operation: &OperationId) -> Result<Option<Server>, Error> {
        let shared = &self.shared;
        let wanted = vec![tags::owner_tag(&shared.owner), tags::operation_tag(operation)];
        let request = ListServers { tags: wanted.clone(), ..ListServers::default() };
        let servers = shared
            .client
            .instance(zone)
            .list_servers(&request)
            .await
            .map_err(|error| Error::scaleway("looking for an operation's server", error))?;
        let made = shared.journal.servers_made(operation)?;
        Ok(servers
            .into_iter()
            .filter(|server| server.has_all_tags(&wanted) && tags::carries_owner(&server.tags, &shared.owner))
            .filter(|server| made.is_empty() || made.contains(&server.id))
            .min_by_key(Server::created_at))
    }

    /// Gives the volume that Scaleway made with a server the server's own tags, so that it is removed with it: for
    /// who has lost the journal.
    ///
    /// That is the volume that the server boots from. What else hangs there untagged somebody attached, whether or
    /// not the server was handed over: it is left as it is. A server whose creation the journal knows needs no marks,
    /// and gets none.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when a volume cannot be read or marked; one that is gone is none. The journal's errors.
    pub async fn mark_volumes(&self, zone: &Zone, server: &Server) -> Result<(), Error> {
        let shared = &self.shared;
        let Some(operation) = tags::operation_of(&server.tags) else { return Ok(()) };
        match shared.journal.operation(&operation) {
            Ok(_) => return Ok(()),
            Err(Error::OperationUnknown { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut claims = Claims::of_unknown(&shared.owner, operation);
        claims.name(ResourceName {
            kind: ResourceKind::Server,
            id: server.id.clone(),
            zone: zone.to_string(),
            server: None,
        });
        let failed = |error| Error::scaleway("marking the volumes of a half-made server", error);
        // The server as it is now says what is attached.
        let server = match shared.client.instance(zone).get_server(&server.id).await {
            Ok(server) => claims.server(server),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(failed(error)),
        };
        let Some(server) = server else { return Ok(()) };
        let made = claims.volumes_of(&server, zone.as_str());
        made.iter().for_each(|volume| claims.made(volume.clone()));
        let tags: Vec<String> = server.get().tags.iter().filter(|tag| tags::is_ours(tag)).cloned().collect();
        for name in made.iter().filter(|volume| volume.kind == ResourceKind::BlockVolume) {
            let mark = |volume: &BlockVolume| {
                let known = &volume.tags;
                if tags.iter().all(|tag| known.contains(tag)) {
                    return (None, ());
                }
                let all: Vec<String> = known.iter().filter(|tag| !tags.contains(tag)).chain(&tags).cloned().collect();
                let update = UpdateBlockVolume { tags: Some(all), ..UpdateBlockVolume::default() };
                (Some(BlockVolumeChange::Update(update)), ())
            };
            change(&shared.client, zone, &claims, &name.id, mark).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Creates one server, or nothing.
    ///
    /// # Guarantees
    /// It returns a running server with everything that was asked for; or an error after everything that had been made
    /// was removed, kept as the rollback policy said, or listed as left. In between the journal knows how far it is.
    ///
    /// # Errors
    /// [`Error::Failed`] names the first cause and what the undo did; [`Error::LeftOpen`] after [`Control::leave`].
    pub async fn create_server(
        &self,
        specification: ServerSpecification,
        control: &Control,
    ) -> Result<CreatedServer, Error> {
        self.begin_create(specification).await?.run(control).await
    }

    /// Creates `count` servers of one specification, each an operation of its own, with bounded parallelism. Where it
    /// names several types, the placement slot decides ([`Lifecycle::place`]).
    ///
    /// One that fails takes no other with it. With a name in the specification and more than one server, the servers
    /// are called `<name>-1`, `<name>-2`, ...
    pub async fn create_servers(
        &self,
        specification: &ServerSpecification,
        count: usize,
        control: &Control,
    ) -> Vec<Result<CreatedServer, Error>> {
        let placed = &self.place(specification, count).await;
        let create = |number: usize| async move {
            if control.cancelled().is_cancelled() || control.left().is_cancelled() {
                return Err(Error::NotBegun);
            }
            let Some(types) = placed.types.get(number) else {
                return Err(Error::NotPlaced { reason: placed.reason.clone() });
            };
            let mut specification = ServerSpecification { types: types.clone(), ..specification.clone() };
            specification.name = specification.name.map(|name| numbered(&name, number + 1, count));
            self.create_server(specification, control).await
        };
        let mut results: Vec<_> = stream::iter(0..count)
            .map(|number| async move { (number, create(number).await) })
            .buffer_unordered(self.shared.limits.parallel_operations.max(1))
            .collect()
            .await;
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

pub(crate) fn parse_zone(zone: &str) -> Result<Zone, Error> {
    zone.parse().map_err(|error: windlass_scaleway::InvalidLocation| Error::Specification {
        field: "zone",
        problem: error.to_string(),
    })
}

impl Shared {
    /// Closes an operation in the journal, and tells it. False, and the operation stays open, where it was to be done
    /// and somebody has cancelled it.
    pub(crate) async fn close(
        &self,
        run: &Run,
        active: &Active,
        state: OperationState,
        cause: Option<&StepFailure>,
        report: Option<&Report>,
        mut ends: Vec<OperationId>,
    ) -> Result<bool, Error> {
        ends.extend(report.map(|report| self.creations_ended(&run.id, report)).into_iter().flatten());
        let closed = self
            .journal
            .close(Closing {
                operation: run.id.clone(),
                state,
                cause: cause.map(|cause| json!({ "step": cause.step, "failure": cause.failure })),
                reasons: run.reasons(),
                report: report.map(|report| json!(report)),
                ends,
                look_at: report.and_then(|report| report.look_at).filter(|_| state == OperationState::Unverified),
                at: self.clock.now(),
            })
            .await
            .map_err(|error| run.unrecorded(error))?;
        if closed {
            active.ended(state.as_str());
            run.closed(state, cause.map(cause_words).as_deref());
            run.event(EventKind::Closed { state });
        }
        Ok(closed)
    }
}

/// How an undo leaves its operation.
pub(crate) fn state_after(report: &Report, when_clean: OperationState) -> OperationState {
    if !report.is_clean() {
        OperationState::Left
    } else if report.look_at.is_some() {
        OperationState::Unverified
    } else if report.kept.is_empty() {
        when_clean
    } else {
        OperationState::Kept
    }
}

/// Undoes a failed create and closes it. Returns the error that its caller gets.
///
/// That it is to be undone is journalled before the first look: whoever takes the operation over undoes it as well.
/// Where a call was sent that may still take effect, it is looked for when it has had the time to arrive, and where
/// that may not have been enough, the operation closes as unverified.
pub(crate) async fn fail(run: &Run, active: &Active, specification: &ServerSpecification, cause: StepFailure) -> Error {
    metrics::counter!(metric_names::FAILURES, "class" => windlass_policy::kind_word(&cause.failure.class)).increment(1);
    tracing::warn!(operation = %run.id, step = cause.step, failure = %cause.failure.words(), "rolling back");
    run.begin_undo();
    let because = Cause { step: cause.step.clone(), failure: cause.failure.clone() };
    if let Err(stop) = run.note(Note::UndoBegun { because }, None).await {
        return left_open(run, active, stop);
    }
    let lost = match run.lost_call() {
        Ok(lost) => lost,
        Err(error) => return left_open(run, active, Stop::Journal(error)),
    };
    if let Err(stop) = run.settle(lost).await {
        return left_open(run, active, stop);
    }
    let looked = run.now();
    let mut scope = match creation_scope(&run.shared, &run.id, specification) {
        Ok(scope) => scope,
        Err(error) => return left_open(run, active, Stop::Journal(error)),
    };
    let mut report = match undo(run, &mut scope, Some(&cause)).await {
        Ok(report) => report,
        Err(stop) => return left_open(run, active, stop),
    };
    report.look_at = run.shared.limits.next_look(lost, looked);
    let state = state_after(&report, OperationState::Undone);
    if let Err(error) = run.shared.close(run, active, state, Some(&cause), Some(&report), Vec::new()).await {
        return error;
    }
    failed(run, state, cause, report)
}

/// What the caller of an operation hears that failed and was closed so.
pub(crate) fn failed(run: &Run, state: OperationState, cause: StepFailure, report: Report) -> Error {
    let progress = run.progress().ok();
    let nothing_was_made =
        state == OperationState::Undone && progress.as_ref().is_some_and(|progress| progress.effects.made_nothing());
    Error::Failed(Box::new(OperationFailure {
        operation: run.id.clone(),
        kind: run.kind,
        state,
        step: cause.step,
        cause: cause.failure,
        report,
        reasons: progress.map(|progress| progress.reasons).unwrap_or_default(),
        nothing_was_made,
    }))
}

pub(crate) fn left_open(run: &Run, active: &Active, stop: Stop) -> Error {
    active.ended("left-open");
    run.event(EventKind::LeftOpen);
    match stop {
        Stop::Journal(error) => run.unrecorded(error),
        Stop::Left | Stop::Failed(_) => Error::LeftOpen { operation: run.id.clone() },
    }
}

/// What the journal proves of a create.
pub(crate) fn claims_of_creation(
    shared: &Shared,
    creation: &OperationId,
    specification: &ServerSpecification,
    entries: &[Entry],
) -> Result<Claims, Error> {
    Claims::of_creation(&shared.owner, creation, specification, entries)
}

/// The scope of everything that a create has made and did not keep, from the journal as it is now.
pub(crate) fn creation_scope(
    shared: &Shared,
    creation: &OperationId,
    specification: &ServerSpecification,
) -> Result<Scope, Error> {
    let entries = shared.journal.entries(creation)?;
    let mut scope = Scope::new(claims_of_creation(shared, creation, specification, &entries)?);
    scope.kept = kept_by(&entries).map(|name| name.id.clone()).collect();
    Ok(scope)
}

/// Closes a create that ended well; removes doubles that lost answers may have left.
pub(crate) async fn succeed(
    run: &Run,
    active: &Active,
    specification: &ServerSpecification,
    server: Server,
) -> Result<CreatedServer, Error> {
    let unreadable = |error| left_open(run, active, Stop::Journal(error));
    if run.progress().map_err(unreadable)?.may_have_duplicates {
        // The server exists. A cancellation from here on takes effect when the operation is closed.
        run.begin_undo();
        let lost = run.lost_call().map_err(unreadable)?;
        run.settle(lost).await.map_err(|stop| left_open(run, active, stop))?;
        let scope = creation_scope(&run.shared, &run.id, specification);
        let mut scope = scope.map_err(unreadable)?;
        // What the journal knows is what was asked for, with all that is attached to the server.
        scope.spare.extend(scope.claims.known_as_made().map(|name| name.id.clone()));
        scope.spare.extend(server.volumes.values().map(|volume| volume.id.clone()));
        match undo(run, &mut scope, None).await {
            Ok(report) if report.is_clean() => {}
            // The server is good; a double that could not be removed is the sweep's, since the journal doesn't know it.
            Ok(report) => tracing::warn!(operation = %run.id, "a duplicate is left to the sweep: {}", report.words()),
            Err(stop) => return Err(left_open(run, active, stop)),
        }
    }
    if run.shared.close(run, active, OperationState::Done, None, None, Vec::new()).await? {
        return Ok(CreatedServer { operation: run.id.clone(), server });
    }
    let step = Step::Create(Create::WaitUntilRunning).word();
    let cause = StepFailure { step, failure: cancelled() };
    Err(fail(run, active, specification, cause).await)
}

impl PendingCreate {
    /// The operation's id.
    #[must_use]
    pub fn id(&self) -> &OperationId {
        &self.id
    }

    /// Does it. See [`Lifecycle::create_server`].
    ///
    /// # Errors
    /// As there.
    pub async fn run(self, control: &Control) -> Result<CreatedServer, Error> {
        let span = tracing::info_span!("create-server", operation = %self.id, zone = %self.specification.zone);
        let run = Run::new(
            Arc::clone(&self.shared),
            self.id.clone(),
            OperationKind::CreateServer,
            self.specification.group.clone(),
            self.specification.zone.clone(),
            self.policies.clone(),
            control.clone(),
            Some(Duration::from_millis(self.specification.deadline_milliseconds)),
        );
        let traced = run.trace.operation();
        async move {
            run.event(EventKind::Opened);
            let mut creation = Creation { run: &run, specification: &self.specification, pooled_ip: None };
            match creation.perform().await {
                Ok(server) => succeed(&run, &self.active, &self.specification, server).await,
                Err(Stop::Failed(cause)) => Err(fail(&run, &self.active, &self.specification, *cause).await),
                Err(stop) => Err(left_open(&run, &self.active, stop)),
            }
        }
        .instrument(traced)
        .instrument(span)
        .await
    }
}
