//! Cleaning one server up, with everything that belongs to it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_policy::PinnedPolicies;
use windlass_policy::slots::release::Trigger;
use windlass_policy::slots::rollback::Action;
use windlass_policy::slots::types::Failure;
use windlass_scaleway::Zone;

use crate::Error;
use crate::control::{Control, EventKind};
use crate::identifier::{GroupName, OperationId};
use crate::inventory::Scope;
use crate::journal::note::Record;
use crate::journal::step::{Create, Step};
use crate::journal::{Entry, Operation, OperationFilter, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::lifecycle::{Lifecycle, creation_scope, left_open, parse_zone, state_after};
use crate::ownership::Claims;
use crate::release::{Asking, Course, Decided, Removal, judge};
use crate::report::{LeftResource, Report};
use crate::requested_by::RequestedBy;
use crate::run::Run;
use crate::run::UNKNOWN_GROUP;
use crate::shared::{Active, Shared};
use crate::specification::ServerSpecification;
use crate::stop::Stop;
use crate::undo::{keep_all, kept_by, undo};

/// What a cleanup did.
#[derive(Clone, Debug, Serialize)]
pub struct CleanedUp {
    /// The operation that did it.
    pub operation: OperationId,
    /// What was removed, kept and left.
    pub report: Report,
    /// What the release slot said of the server, where it was asked.
    #[serde(skip)]
    pub decided: Option<Decided>,
}

/// What to clean up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The server that this operation created, with everything that belongs to it. Where the journal is a backup that
    /// is older than the server, it is the oldest one with the operation's tags, with what else carries them.
    Operation(OperationId),
    /// A server by its id, whether or not the journal knows it. It must carry our owner tag.
    Server {
        zone: Zone,
        /// Scaleway's id.
        id: String,
    },
    /// The server of this operation with what carries its tags, whether or not the journal knows the operation: for
    /// who has lost the journal. Where it does not, the oldest server with the tags is taken for it, and what else
    /// carries them goes when nobody uses it.
    Tagged { zone: Zone, operation: OperationId },
}

/// A target with who wants it removed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupRequest {
    /// What to clean up.
    pub target: Target,
    /// Who asks. The journal has it before anything is removed.
    pub requested_by: RequestedBy,
    /// Who decides whether the server goes.
    pub removal: Removal,
}

impl Target {
    /// Says who wants the target removed, and why. The release slot is not asked.
    #[must_use]
    pub fn requested_by(self, requested_by: RequestedBy) -> CleanupRequest {
        CleanupRequest { target: self, requested_by, removal: Removal::Rollback }
    }

    /// Says who no longer wants the target, and why. The release slot decides what becomes of it.
    #[must_use]
    pub fn released_by(self, requested_by: RequestedBy, asking: Asking) -> CleanupRequest {
        CleanupRequest { target: self, requested_by, removal: Removal::Release(asking) }
    }
}

impl CleanupRequest {
    /// The server that its owner cannot use, where this is not about its end.
    pub(crate) fn unhealthy(&self) -> Option<(&Zone, &str, &Asking)> {
        match (&self.target, &self.removal) {
            (Target::Server { zone, id }, Removal::Release(asking)) if asking.trigger == Trigger::BootstrapFailed => {
                Some((zone, id, asking))
            }
            _ => None,
        }
    }
}

/// Nobody says who asks.
impl From<&Target> for CleanupRequest {
    fn from(target: &Target) -> Self {
        target.clone().requested_by(RequestedBy::default())
    }
}

/// What a cleanup's row in the journal says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CleanupSpecification {
    pub(crate) creation: Option<OperationId>,
    pub(crate) server: Option<String>,
    /// What carries this operation's tag, which the journal does not know, or knows from before it went on elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tagged: Option<OperationId>,
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub(crate) requested_by: RequestedBy,
    #[serde(default, skip_serializing_if = "Removal::is_rollback")]
    pub(crate) removal: Removal,
}

/// A cleanup that is in the journal and has not begun to do anything.
#[derive(Debug)]
pub struct PendingCleanup {
    shared: Arc<Shared>,
    active: Active,
    id: OperationId,
    group: GroupName,
    zone: Zone,
    specification: CleanupSpecification,
    policies: PinnedPolicies,
    /// The row of the same cleanup, where it was asked for before.
    earlier: Option<Operation>,
}

impl Lifecycle {
    /// Opens a cleanup in the journal. It asks Scaleway only for what the journal does not name. Where the same requester
    /// has asked before and something was left, that operation is taken up again; asked for in another way or under
    /// other policies, it is closed, and this one goes on. So who asks often has one operation that waits.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when that cannot be listed;
    /// [`Error::CleanupUnderWay`] when one for the same server is open, [`Error::OperationRunning`] when the server is
    /// still being created, [`Error::OperationUnknown`] for an operation that the journal does not know.
    pub async fn begin_cleanup(&self, request: impl Into<CleanupRequest>) -> Result<PendingCleanup, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let CleanupRequest { target, requested_by, removal } = request.into();
        let mut tagged = None;
        let (creation, mut server, zone) = match &target {
            Target::Tagged { zone, operation } => match shared.journal.operation(operation) {
                Ok(creation) => (Some(creation), None, zone.clone()),
                Err(Error::OperationUnknown { .. }) => {
                    let server = self.find_created(zone, operation).await?.map(|server| server.id);
                    tagged = Some(operation.clone());
                    (None, server, zone.clone())
                }
                Err(error) => return Err(error),
            },
            Target::Operation(id) => {
                let creation = shared.journal.operation(id)?;
                let zone = parse_zone(&creation.zone)?;
                (Some(creation), None, zone)
            }
            Target::Server { zone, id } => (creation_of(shared, id)?, Some(id.clone()), zone.clone()),
        };
        if let Some(creation) = &creation {
            if creation.state == OperationState::Open {
                return Err(Error::OperationRunning { operation: creation.id.clone() });
            }
            // A backup may be older than the server: what was made since carries the tags.
            if server.is_none()
                && shared.began_elsewhere(creation.created_at)
                && shared.journal.servers_made(&creation.id)?.is_empty()
            {
                server = self.find_created(&zone, &creation.id).await?.map(|server| server.id);
                tagged = server.is_some().then(|| creation.id.clone());
            }
        }
        let specification = CleanupSpecification {
            creation: creation.as_ref().map(|creation| creation.id.clone()),
            server,
            tagged,
            requested_by,
            removal,
        };
        let group: GroupName = match &creation {
            Some(creation) => creation.group.parse()?,
            None => UNKNOWN_GROUP.parse()?,
        };
        shared.check_not_set_back(std::iter::once(&zone)).await?;
        let policies = match specification.removal {
            // No policy keeps anything from who forces it.
            Removal::Force => shared.policies.pinned(&[]),
            _ => shared.pin(&specification.requested_by, creation.as_ref()),
        };
        let mut before = shared.unfinished_cleanups(&specification, &zone)?;
        let taken_up = shared.take_up(&mut before, &specification, &policies).await?;
        let (id, active, earlier) = match taken_up {
            Some((earlier, active)) => (earlier.id.clone(), active, Some(earlier)),
            None => {
                let row = json!(specification);
                let begun = shared.begin(OperationKind::CleanupServer, &group, &zone, row, &policies).await?;
                (begun.0, begun.1, None)
            }
        };
        // What was asked for otherwise before, with other labels or under other policies, counts no more.
        for (operation, _) in before {
            shared.journal.settle(&operation.id, &id, operation.report.unwrap_or_default(), shared.clock.now()).await?;
        }
        Ok(PendingCleanup { shared: Arc::clone(shared), active, id, group, zone, specification, policies, earlier })
    }

    /// Removes a server with everything that belongs to it, as the rollback slot plans it. What is gone already
    /// counts as done; unknown ids are gone.
    ///
    /// # Errors
    /// As [`Lifecycle::begin_cleanup`]; [`Error::NotOurs`]; [`Error::LeftOpen`] after [`Control::leave`]. That
    /// something is left is no error: the report says so.
    pub async fn cleanup(&self, request: impl Into<CleanupRequest>, control: &Control) -> Result<CleanedUp, Error> {
        self.begin_cleanup(request).await?.run(control).await
    }
}

impl PendingCleanup {
    /// The operation's id.
    #[must_use]
    pub fn id(&self) -> &OperationId {
        &self.id
    }

    /// Does it. See [`Lifecycle::cleanup`].
    ///
    /// # Errors
    /// As there.
    pub async fn run(self, control: &Control) -> Result<CleanedUp, Error> {
        let span = tracing::info_span!("cleanup-server", operation = %self.id, zone = %self.zone);
        let run = Run::new(
            Arc::clone(&self.shared),
            self.id.clone(),
            OperationKind::CleanupServer,
            self.group.clone(),
            self.zone.clone(),
            self.policies.clone(),
            control.clone(),
            None,
        );
        let run = match &self.earlier {
            Some(earlier) => run.going_on(earlier, true),
            None => run,
        };
        let traced = run.trace.operation();
        let cleaned = clean_up(&run, &self.active, &self.specification).instrument(traced).instrument(span).await;
        cleaned.map_err(|error| run.unrecorded(error))
    }
}

/// The operation that created this server. One that only spoke of it, since it took it for a double of its own, did
/// not.
pub(crate) fn creation_of(shared: &Shared, server: &str) -> Result<Option<Operation>, Error> {
    for operation in shared.journal.operations_of_resource(server)? {
        if operation.kind != OperationKind::CreateServer {
            continue;
        }
        for entry in shared.journal.entries(&operation.id)? {
            if entry.resource.as_ref().is_some_and(|resource| resource.id == server)
                && let Record::Done(Step::Create(Create::Server { .. })) = entry.record()?
            {
                return Ok(Some(operation));
            }
        }
    }
    Ok(None)
}

/// Carries a cleanup out, also one that another process began.
pub(crate) async fn clean_up(
    run: &Run,
    active: &Active,
    specification: &CleanupSpecification,
) -> Result<CleanedUp, Error> {
    let shared = &run.shared;
    run.event(EventKind::Opened);
    let mut scope = match &specification.creation {
        Some(creation) => {
            let row = shared.journal.operation(creation)?;
            let created: ServerSpecification = serde_json::from_value(row.specification)
                .map_err(|error| Error::journal_row("operations", creation.as_str(), "specification", error))?;
            let mut scope = creation_scope(shared, creation, &created)?;
            if let (Some(server), Some(_)) = (&specification.server, &specification.tagged) {
                scope.claims.name_with_its_tag(server_name(run, server));
            }
            scope
        }
        None => match scope_of_unknown(run, active, specification).await? {
            Ok(scope) => scope,
            Err(report) => return Ok(CleanedUp { operation: run.id.clone(), report, decided: None }),
        },
    };
    // An earlier process may have looked already, and cut volumes from their server since. What the creation's
    // rollback kept is to go now; what this cleanup itself has kept stays.
    let own = shared.journal.entries(&run.id)?;
    scope.claims.learn(&own)?;
    scope.kept = kept_by(&own).map(|name| name.id.clone()).collect();
    let (mut report, decided) = match remove(run, specification, &mut scope).await {
        Ok(removed) => removed,
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    let state = state_after(&report, OperationState::Done);
    let mut ends = Vec::new();
    if let Some(creation) = &specification.creation {
        let creation = shared.journal.operation(creation)?;
        // Its own second look ends an unverified creation.
        report.look_at = shared.awaits_second_look(&creation).map(|unverified| unverified.look_at);
        if report.is_clean() && report.look_at.is_none() && report.server_not_ours().is_none() {
            ends.push(creation.id);
        }
    }
    shared.close(run, active, state, None, Some(&report), ends).await?;
    shared.close_settled(run, &report).await?;
    Ok(CleanedUp { operation: run.id.clone(), report, decided })
}

impl CleanupSpecification {
    /// Whether the same was asked for in the same way. Which asking it is and what the server was doing does not count.
    fn is_asked_as(&self, other: &Self) -> bool {
        let is_same = match (&self.removal, &other.removal) {
            (Removal::Release(one), Removal::Release(other)) => {
                (one.trigger, one.requested) == (other.trigger, other.requested)
            }
            (one, other) => one == other,
        };
        is_same && self.requested_by == other.requested_by
    }

    /// Whether it is about the same, and for the same requester.
    fn is_for_same(&self, other: &Self) -> bool {
        (&self.creation, &self.server, &self.tagged) == (&other.creation, &other.server, &other.tagged)
            && self.requested_by.requester == other.requested_by.requester
    }
}

impl Shared {
    /// The cleanups of the same for the same requester that have left something, and on which nobody works.
    fn unfinished_cleanups(
        &self,
        specification: &CleanupSpecification,
        zone: &Zone,
    ) -> Result<Vec<(Operation, CleanupSpecification)>, Error> {
        let mut filter = OperationFilter::default();
        (filter.kind, filter.states) = (Some(OperationKind::CleanupServer), vec![OperationState::Left]);
        let mut unfinished = self.journal.operations(&filter)?;
        unfinished.retain(|it| it.zone == zone.as_str() && it.owner == self.owner.as_str());
        let read = unfinished.into_iter().filter_map(|operation| {
            let earlier = CleanupSpecification::deserialize(&operation.specification).ok()?;
            earlier.is_for_same(specification).then_some((operation, earlier))
        });
        Ok(read.collect())
    }

    /// Takes up the one of these cleanups that was asked for in the same way under the same policies.
    async fn take_up(
        self: &Arc<Self>,
        unfinished: &mut Vec<(Operation, CleanupSpecification)>,
        specification: &CleanupSpecification,
        policies: &PinnedPolicies,
    ) -> Result<Option<(Operation, Active)>, Error> {
        let policies = json!(policies.identities());
        let is_same = |(operation, earlier): &(Operation, CleanupSpecification)| {
            operation.policies == policies && earlier.is_asked_as(specification)
        };
        let Some(position) = unfinished.iter().position(is_same) else { return Ok(None) };
        let (operation, _) = unfinished.swap_remove(position);
        let Some(active) = Active::new(self, &operation.id, operation.kind) else { return Ok(None) };
        let is_ours = self.journal.claim(&operation, self.runner.name(), self.clock.now()).await?;
        Ok(is_ours.then_some((operation, active)))
    }

    /// Closes the other cleanups that had left what this one removed, where nothing else of theirs is left.
    async fn close_settled(&self, run: &Run, report: &Report) -> Result<(), Error> {
        let is_removed = |name: &ResourceName| report.removed.iter().any(|removed| removed.id == name.id);
        for server in report.removed.iter().filter(|name| name.kind == ResourceKind::Server) {
            for other in self.journal.operations_of_resource(&server.id)? {
                if other.kind == OperationKind::CleanupServer
                    && other.state == OperationState::Left
                    && Report::of(&other).is_some_and(|it| {
                        it.unverified.is_none() && it.left.iter().all(|left| is_removed(&left.resource))
                    })
                {
                    self.journal.settle(&other.id, &run.id, json!(Report::default()), self.clock.now()).await?;
                }
            }
        }
        Ok(())
    }
}

/// Removes what is in the scope, as far as whoever decides about it lets it go.
async fn remove(
    run: &Run,
    specification: &CleanupSpecification,
    scope: &mut Scope,
) -> Result<(Report, Option<Decided>), Stop> {
    let Removal::Release(asking) = &specification.removal else { return Ok((undo(run, scope, None).await?, None)) };
    match judge(run, asking, scope, None).await? {
        Course::Goes(decided) => {
            let report = undo(run, scope, None).await?;
            let Some(refused) = refusal(run, &report)? else { return Ok((report, decided)) };
            match judge(run, asking, scope, Some(refused)).await? {
                Course::Stays(decided) => Ok((keep_all(run, scope).await?, Some(decided))),
                Course::Goes(decided) | Course::Waits(decided, _) => Ok((report, decided)),
            }
        }
        Course::Stays(decided) => Ok((keep_all(run, scope).await?, Some(decided))),
        Course::Waits(decided, left) => Ok((waiting(run, scope, left)?, decided)),
    }
}

/// What is left while the server of a cleanup stays until the slot is asked again: what the last look of this cleanup
/// left, or where there was none, all that was made with the server.
fn waiting(run: &Run, scope: &Scope, server: LeftResource) -> Result<Report, Error> {
    let row = run.shared.journal.operation(&run.id)?;
    let looked: Option<Report> = row.report.and_then(|report| serde_json::from_value(report).ok());
    let mut report = looked.unwrap_or_else(|| {
        let made = scope.claims.known_as_made().filter(|name| name.kind != ResourceKind::PrivateNic);
        let why = format!("server {} stays until then", server.resource.id);
        let left = made.map(|name| LeftResource { resource: name.clone(), why: why.clone() }).collect();
        Report { left, ..Report::default() }
    });
    report.left.retain(|left| left.resource.id != server.resource.id);
    report.left.insert(0, server);
    Ok(report)
}

/// Scaleway's refusal to remove the server, where it is left for that.
fn refusal(run: &Run, report: &Report) -> Result<Option<Failure>, Error> {
    if !report.left.iter().any(|left| left.resource.kind == ResourceKind::Server) {
        return Ok(None);
    }
    let step = Step::Plan(Action::Delete, ResourceKind::Server).word();
    let entries = run.shared.journal.entries(&run.id)?;
    Ok(entries.iter().rev().filter(|entry| entry.step == step).find_map(Entry::failure))
}

fn server_name(run: &Run, id: &str) -> ResourceName {
    ResourceName { kind: ResourceKind::Server, id: id.to_owned(), zone: run.zone.to_string(), server: None }
}

/// What to look for where the journal knows nothing of the creation. The inner error is how the cleanup ended
/// already, since the server could not be seen.
async fn scope_of_unknown(
    run: &Run,
    active: &Active,
    specification: &CleanupSpecification,
) -> Result<Result<Scope, Report>, Error> {
    let shared = &run.shared;
    let Some(id) = &specification.server else {
        return Ok(Ok(Scope::new(match &specification.tagged {
            Some(operation) => Claims::of_unknown(&shared.owner, operation.clone()),
            None => Claims::none(&shared.owner),
        })));
    };
    let name = server_name(run, id);
    let instance = shared.client.instance(&run.zone);
    let server = match run.look_one("get-server", id, || instance.get_server(id)).await {
        Ok(server) => server,
        Err(Stop::Failed(failed)) => {
            let left = LeftResource { resource: name, why: "cannot check whether it is gone".to_owned() };
            let report = Report {
                left: vec![left],
                unverified: Some(format!("{}: {}", failed.step, failed.failure.words())),
                ..Report::default()
            };
            shared.close(run, active, OperationState::Left, Some(&failed), Some(&report), Vec::new()).await?;
            return Ok(Err(report));
        }
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    if let Some(server) = &server
        && !crate::tags::carries_owner(&server.tags, &shared.owner)
    {
        shared.close(run, active, OperationState::Undone, None, None, Vec::new()).await?;
        return Err(Error::NotOurs { resource: name, owner: shared.owner.to_string() });
    }
    if let Some(operation) = &specification.tagged {
        let mut claims = Claims::of_unknown(&shared.owner, operation.clone());
        claims.name(name);
        return Ok(Ok(Scope { judged: server.map(Box::new), ..Scope::new(claims) }));
    }
    // A server that carries the tags of an operation that did not make it is a copy: the rest is the original's.
    let tagged = server.as_ref().and_then(|server| crate::tags::operation_of(&server.tags));
    let operation = match tagged {
        Some(operation) => match shared.journal.operation(&operation) {
            Ok(known) => shared.began_elsewhere(known.created_at).then_some(operation),
            Err(Error::OperationUnknown { .. }) => Some(operation),
            Err(error) => return Err(error),
        },
        None => None,
    };
    let claims = Claims::of_named(&shared.owner, name, operation);
    Ok(Ok(Scope { judged: server.map(Box::new), ..Scope::new(claims) }))
}
