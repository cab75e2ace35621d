//! Abandoning an operation: it is neither finished nor undone, and what it may have made is left alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_policy::slots::rollback::Action;
use windlass_scaleway::Zone;

use crate::cleanup::CleanupSpecification;
use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::journal::note::{Note, Record};
use crate::journal::step::Step;
use crate::journal::{
    Closing, Entry, Operation, OperationFilter, OperationKind, OperationState, Phase, ResourceKind, ResourceName,
};
use crate::lifecycle::{Lifecycle, parse_zone};
use crate::machines::ClaimName;
use crate::ownership::Claims;
use crate::release::{ReleaseRequest, ReleaseSpecification, Removal};
use crate::report::Report;
use crate::requested_by::RequestedBy;
use crate::run::UNKNOWN_GROUP;
use crate::shared::{Active, Shared};
use crate::specification::ServerSpecification;
use crate::sweep::{self, SweepSpecification};
use crate::undo::kept_by;
use crate::{Error, machines};

/// How long Scaleway is asked about each resource. Whoever abandons an operation often cannot reach it.
const MAX_LOOK: Duration = Duration::from_secs(10);
const PARALLEL_LOOKS: usize = 8;

/// Who abandons something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandonment {
    /// Who decided it, for people.
    pub by: String,
    /// Why, for people.
    pub reason: Option<String>,
}

impl Abandonment {
    /// In one line.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.reason {
            Some(reason) => format!("abandoned by {}: {reason}", self.by),
            None => format!("abandoned by {}", self.by),
        }
    }
}

/// A resource that an abandoned operation may leave, as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbandonedResource {
    /// The resource, as the journal names it.
    pub resource: ResourceName,
    /// Its name or address, where Scaleway showed it.
    pub label: String,
    /// Scaleway's state of it; `not found` where there is no such resource.
    pub state: Option<String>,
    /// Why it could not be seen, where it could not.
    pub problem: Option<String>,
}

impl AbandonedResource {
    fn is_gone(&self) -> bool {
        self.state.as_deref() == Some(NOT_FOUND)
    }
}

const NOT_FOUND: &str = "not found";

/// An operation that can be abandoned. Nothing has been changed yet.
#[derive(Debug)]
pub struct PendingAbandonment {
    shared: Arc<Shared>,
    operation: Operation,
    /// Whether it is opened and closed in one write.
    is_new: bool,
    resources: Vec<AbandonedResource>,
}

/// Something that was made and runs, and that its owner lets go without having it removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbandonTarget {
    /// A server with everything that belongs to it: by the operation that created it, or by Scaleway's id, or both.
    Server {
        zone: Zone,
        creation: Option<OperationId>,
        /// Scaleway's id of it.
        server: Option<String>,
    },
    Host {
        zone: Zone,
        /// Scaleway's id of it, where it is known.
        host: Option<String>,
        /// The claim that it carries.
        claim: ClaimName,
    },
}

impl Lifecycle {
    /// Leaves a machine alone: each operation on it that has not ended is abandoned; where there is none, a removal
    /// that is abandoned at once says so in the journal. Nothing is changed on Scaleway. Asked for again, it does
    /// nothing more.
    ///
    /// Returns the operations that were abandoned now, with what each leaves alone in its report.
    ///
    /// # Errors
    /// [`Error::OperationRunning`] and [`Error::CleanupUnderWay`] while a living process works on the machine, and the
    /// journal's errors.
    pub async fn abandon_machine(
        &self,
        target: &AbandonTarget,
        abandonment: &Abandonment,
    ) -> Result<Vec<Operation>, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let mut abandoned = Vec::new();
        for id in unfinished(shared, target)? {
            abandoned.push(self.begin_abandon(&id).await?.run(abandonment).await?);
        }
        if abandoned.is_empty()
            && let Some(operation) = removal_of(shared, target)?
        {
            let names = may_exist(shared, &operation)?;
            let resources = look_at_all(shared, names).await;
            let pending = PendingAbandonment { shared: Arc::clone(shared), operation, is_new: true, resources };
            abandoned.push(pending.run(abandonment).await?);
        }
        Ok(abandoned)
    }

    /// Looks at what an operation would leave alone if somebody abandoned it. Changes nothing.
    ///
    /// # Errors
    /// [`Error::OperationRunning`] while a living process works on it, [`Error::OperationEnded`] when there is nothing
    /// to abandon any more, [`Error::OperationUnknown`], and the journal's errors. What cannot be looked at is no
    /// error: its `problem` says why.
    pub async fn begin_abandon(&self, id: &OperationId) -> Result<PendingAbandonment, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let operation = shared.journal.operation(id)?;
        can_be_abandoned(shared, &operation)?;
        let names = may_exist(shared, &operation)?;
        let resources = look_at_all(shared, names).await;
        Ok(PendingAbandonment { shared: Arc::clone(shared), operation, is_new: false, resources })
    }
}

impl PendingAbandonment {
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// What the journal names of it and does not know to be removed.
    #[must_use]
    pub fn resources(&self) -> &[AbandonedResource] {
        &self.resources
    }

    /// Closes the operation as abandoned, and returns it.
    ///
    /// # Guarantees
    /// Nothing is changed on Scaleway. The operation is never resumed again. A sweep calls what it named abandoned, and
    /// does not remove it; a cleanup that somebody asks for does.
    ///
    /// # Errors
    /// [`Error::OperationRunning`] when somebody has taken it over meanwhile; the journal's errors.
    pub async fn run(self, abandonment: &Abandonment) -> Result<Operation, Error> {
        let Self { shared, operation, is_new, resources } = self;
        let running = || Error::OperationRunning { operation: operation.id.clone() };
        // Nobody in this process takes it over meanwhile; another process changes the row's runner.
        let _active = Active::new(&shared, &operation.id, operation.kind).ok_or_else(running)?;
        let current = if is_new { operation.clone() } else { shared.journal.operation(&operation.id)? };
        if (current.state, &current.runner) != (operation.state, &operation.runner) {
            return Err(running());
        }
        let note = Note::Abandoned { by: abandonment.by.clone(), reason: abandonment.reason.clone() };
        let at = shared.clock.now();
        let entry = |resource: Option<ResourceName>| {
            let (step, data) = note.parts();
            Entry { sequence: 0, step, phase: Phase::Note, resource, data, at }
        };
        // What was not found is noted, too: it may only be late.
        let mut notes: Vec<Entry> = resources.iter().map(|it| entry(Some(it.resource.clone()))).collect();
        if notes.is_empty() {
            notes.push(entry(None));
        }
        let report = Report {
            abandoned: resources.iter().filter(|it| !it.is_gone()).map(|it| it.resource.clone()).collect(),
            left: Vec::new(),
            unverified: None,
            look_at: None,
            ..Report::of(&current).unwrap_or_default()
        };
        let mut reasons = current.reasons.clone();
        reasons.push(abandonment.words());
        let closing = Closing {
            operation: operation.id.clone(),
            state: OperationState::Abandoned,
            cause: current.cause.clone(),
            reasons,
            report: serde_json::to_value(&report).ok(),
            ends: Vec::new(),
            look_at: None,
            at,
        };
        if !shared.journal.abandon(is_new.then_some(&current), &current.runner, closing, notes).await? {
            return Err(running());
        }
        tracing::info!(operation = %operation.id, "{}: {}", abandonment.words(), report.words());
        shared.journal.operation(&operation.id)
    }
}

fn can_be_abandoned(shared: &Shared, operation: &Operation) -> Result<(), Error> {
    let id = || operation.id.clone();
    match operation.state {
        OperationState::Open if shared.is_worked_on(operation) => Err(Error::OperationRunning { operation: id() }),
        OperationState::Open | OperationState::Left | OperationState::Unverified => Ok(()),
        state => Err(Error::OperationEnded { operation: id(), state }),
    }
}

/// The operations on a machine that have not ended.
fn unfinished(shared: &Shared, target: &AbandonTarget) -> Result<Vec<OperationId>, Error> {
    let open = shared.journal.operations(&OperationFilter {
        states: vec![OperationState::Open, OperationState::Left, OperationState::Unverified],
        ..OperationFilter::default()
    })?;
    let is_of_it = |operation: &Operation| match target {
        AbandonTarget::Server { creation, server, .. } => match operation.kind {
            OperationKind::CreateServer => Some(&operation.id) == creation.as_ref(),
            OperationKind::CleanupServer => {
                CleanupSpecification::deserialize(&operation.specification).is_ok_and(|cleanup| {
                    cleanup.creation.is_some() && cleanup.creation == *creation
                        || cleanup.server.is_some() && cleanup.server == *server
                })
            }
            _ => false,
        },
        AbandonTarget::Host { claim, .. } => {
            let of_machines = matches!(
                operation.kind,
                OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine
            );
            of_machines && operation.specification["claim"].as_str() == Some(claim.as_str())
        }
    };
    Ok(open.into_iter().filter(is_of_it).map(|operation| operation.id).collect())
}

/// The removal that is not carried out, as it is to stand in the journal. `None` where the journal says already that
/// the machine is gone or left alone, or knows nothing of it.
fn removal_of(shared: &Shared, target: &AbandonTarget) -> Result<Option<Operation>, Error> {
    let (kind, group, zone, specification) = match target {
        AbandonTarget::Server { zone, creation, server } => {
            let row = match creation.as_ref().map(|id| shared.journal.operation(id)) {
                Some(Ok(row)) => Some(row),
                None | Some(Err(Error::OperationUnknown { .. })) => None,
                Some(Err(error)) => return Err(error),
            };
            let is_over = |row: &Operation| {
                row.ended_by.is_some() || matches!(row.state, OperationState::Undone | OperationState::Abandoned)
            };
            if row.as_ref().is_some_and(is_over) || row.is_none() && server.is_none() {
                return Ok(None);
            }
            let mut servers = match &row {
                Some(row) => shared.journal.servers_made(&row.id)?,
                None => Vec::new(),
            };
            servers.extend(server.clone());
            for server in &servers {
                if shared.journal.abandoned_by(server)?.is_some() {
                    return Ok(None);
                }
            }
            let group: GroupName = row.as_ref().map_or(UNKNOWN_GROUP, |row| row.group.as_str()).parse()?;
            let cleanup = CleanupSpecification {
                creation: row.map(|row| row.id),
                server: server.clone(),
                tagged: None,
                requested_by: RequestedBy::default(),
                removal: Removal::default(),
            };
            (OperationKind::CleanupServer, group, zone, json!(cleanup))
        }
        AbandonTarget::Host { zone, host, claim } => {
            let Some(host) = host else { return Ok(None) };
            if shared.journal.abandoned_by(host)?.is_some() {
                return Ok(None);
            }
            let request = ReleaseRequest::new(zone.clone(), host, claim.clone(), None);
            (OperationKind::ReleaseMachine, machines::group(), zone, json!(ReleaseSpecification { request }))
        }
    };
    let now = shared.clock.now();
    Ok(Some(Operation {
        id: shared.randomness.with(|random| OperationId::new(&group, now, random)),
        kind,
        group: group.to_string(),
        zone: zone.to_string(),
        owner: shared.owner.to_string(),
        specification,
        policies: json!([]),
        runner: shared.runner.name().to_owned(),
        host: None,
        state: OperationState::Open,
        cause: None,
        reasons: Vec::new(),
        report: None,
        ended_by: None,
        look_at: None,
        created_at: now,
        updated_at: now,
        ended_at: None,
    }))
}

impl Lifecycle {
    /// What the journal names of an operation and does not know to be removed or kept: for a removal, what it has still
    /// to remove.
    ///
    /// # Errors
    /// The journal's.
    pub fn may_exist(&self, id: &OperationId) -> Result<Vec<ResourceName>, Error> {
        self.shared.may_exist(id)
    }
}

impl Shared {
    /// As [`Lifecycle::may_exist`].
    pub(crate) fn may_exist(&self, id: &OperationId) -> Result<Vec<ResourceName>, Error> {
        may_exist(self, &self.journal.operation(id)?)
    }
}

/// What the journal names of an operation and does not know to be removed or kept.
fn may_exist(shared: &Shared, operation: &Operation) -> Result<Vec<ResourceName>, Error> {
    let corrupt =
        |error: serde_json::Error| Error::journal_row("operations", operation.id.as_str(), "specification", error);
    let owner: OwnerName = operation.owner.parse()?;
    let entries = shared.journal.entries(&operation.id)?;
    let mut over = removed(operation, &entries)?;
    let claims = match operation.kind {
        OperationKind::CreateServer => {
            let specification: ServerSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            Claims::of_creation(&owner, &operation.id, &specification, &entries)?
        }
        OperationKind::CleanupServer => {
            let cleanup: CleanupSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            let mut claims = match &cleanup.creation {
                Some(creation) => {
                    let row = shared.journal.operation(creation)?;
                    let made = shared.journal.entries(creation)?;
                    over.extend(removed(&row, &made)?);
                    let specification: ServerSpecification =
                        serde_json::from_value(row.specification).map_err(corrupt)?;
                    Claims::of_creation(&owner, creation, &specification, &made)?
                }
                None => Claims::none(&owner),
            };
            if let Some(id) = cleanup.server {
                let zone = operation.zone.clone();
                claims.name(ResourceName { kind: ResourceKind::Server, id, zone, server: None });
            }
            claims.learn(&entries)?;
            claims
        }
        OperationKind::Sweep => {
            let specification: SweepSpecification =
                serde_json::from_value(operation.specification.clone()).map_err(corrupt)?;
            let mut claims = specification.scope(&owner).claims;
            claims.learn(&entries)?;
            claims
        }
        OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine => {
            let mut claims = Claims::none(&owner);
            entries.iter().filter_map(|entry| entry.resource.clone()).for_each(|name| claims.name(name));
            if let Some(host) = operation.specification["host"].as_str() {
                let (id, zone) = (host.to_owned(), operation.zone.clone());
                claims.name(ResourceName { kind: ResourceKind::AppleSiliconServer, id, zone, server: None });
            }
            claims
        }
    };
    over.extend(kept_by(&entries).map(|name| name.id.clone()));
    let known: BTreeSet<&ResourceName> = claims.known().collect();
    // A private NIC is gone with its server.
    Ok(known
        .into_iter()
        .filter(|name| name.kind != ResourceKind::PrivateNic && !over.contains(&name.id))
        .cloned()
        .collect())
}

fn removed(operation: &Operation, entries: &[Entry]) -> Result<BTreeSet<String>, Error> {
    let mut removed = BTreeSet::new();
    for entry in entries {
        if let (Some(name), Record::Done(Step::Plan(Action::Delete, _))) = (&entry.resource, entry.record()?) {
            removed.insert(name.id.clone());
        }
    }
    let report = Report::of(operation);
    removed.extend(report.into_iter().flat_map(|report| report.removed).map(|name| name.id));
    Ok(removed)
}

async fn look_at_all(shared: &Shared, names: Vec<ResourceName>) -> Vec<AbandonedResource> {
    stream::iter(names).map(|name| look(shared, name)).buffered(PARALLEL_LOOKS).collect().await
}

async fn look(shared: &Shared, resource: ResourceName) -> AbandonedResource {
    let seen = match parse_zone(&resource.zone) {
        Ok(zone) => tokio::time::timeout(MAX_LOOK, sweep::read_state(shared, &zone, &resource)).await,
        Err(error) => Ok(Err(error)),
    };
    let (label, state, problem) = match seen {
        Ok(Ok(Some((label, state)))) => (label, Some(state), None),
        Ok(Ok(None)) => (String::new(), Some(NOT_FOUND.to_owned()), None),
        Ok(Err(error)) => (String::new(), None, Some(error.to_string())),
        Err(_) => (String::new(), None, Some(format!("no answer within {} s", MAX_LOOK.as_secs()))),
    };
    AbandonedResource { resource, label, state, problem }
}
