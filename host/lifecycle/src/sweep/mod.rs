//! The sweep: what Scaleway holds of ours against what the journal explains.
//!
//! List, judge, read again by id whatever is to go, judge once more, journal, remove. Nothing is removed on a
//! listing's word: it proves that something is there, never that something is not.

mod judge;
mod last;
mod listing;
mod machines;
mod remove;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_policy::cut;
use windlass_scaleway::Zone;

use crate::aftermath::Aftermath;
use crate::change::protected_words;
use crate::cleanup::CleanedUp;
use crate::control::Control;
use crate::identifier::OperationId;
use crate::journal::note::{Note, Record};
use crate::journal::{Entry, ResourceKind, ResourceName};
use crate::lifecycle::{Lifecycle, claims_of_creation};
use crate::requested_by::{RequestedBy, Requester};
use crate::shared::Shared;
use crate::specification::ServerSpecification;
use crate::undo::kept_by;
use crate::{Error, metric_names, tags};

use judge::{Case, Judgement, Known};
use listing::{Listed, Presence, Servers};

pub use last::LastSweep;
pub(crate) use listing::read_state;
pub use machines::{GroupMember, Machine, MachineReader, members_of_group};
pub(crate) use remove::{SweepSpecification, remove};

/// The longest reason that the journal keeps for one resource, in bytes: a batch has a hundred in one row.
const MAX_WHY_LEN: usize = 256;

#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SweepRequest {
    /// The zones to look in.
    pub zones: Vec<Zone>,
    /// Look and report only.
    pub dry_run: bool,
    /// What an operation that this journal does not know made within this time is left alone: another process with the
    /// same owner may be at work on it. The time stands in the operation's id.
    pub grace: Duration,
    /// Also remove servers that no journal entry explains, in whatever state, and what is attached to them. Otherwise
    /// they are reported only: after the loss of a journal, or under another state directory, a server is more likely
    /// in use than lost, also one that is stopped.
    pub running_too: bool,
    /// Remove nothing but these: what somebody was shown and confirmed. `None`: all that is found.
    pub only: Option<BTreeSet<ResourceName>>,
    /// Who asks for the sweep.
    pub requested_by: RequestedBy,
}

impl SweepRequest {
    /// These zones, an hour of grace, unexplained servers spared.
    #[must_use]
    pub fn new(zones: Vec<Zone>) -> Self {
        Self {
            zones,
            dry_run: false,
            grace: Duration::from_secs(3_600),
            running_too: false,
            only: None,
            requested_by: RequestedBy::new(Requester::Sweep, ""),
        }
    }
}

/// What a sweep saw and did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sweep {
    /// Ours by their tags, and explained by nothing.
    pub unexplained: Vec<Unexplained>,
    /// Kept on purpose, by their mark or by the journal: left alone.
    pub kept: Vec<ResourceName>,
    /// Left alone since somebody abandoned the operation that names it.
    pub abandoned: Vec<ResourceName>,
    /// Ours and explained.
    pub explained: usize,
    /// Ours and not judged: made within the request's grace by an operation that this journal does not know, or by one
    /// that ended while the lists were read.
    #[serde(skip_serializing_if = "is_zero")]
    pub young: usize,
    /// The operations that removed the unexplained, with their reports. Empty in a dry run.
    pub cleanups: Vec<CleanedUp>,
    /// Zones that could not be swept, and removals that did not come to their end. The others went on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<SweepFailure>,
    /// What shows that the state directory cannot be relied on: only a dry run is made with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
}

/// What failed in a zone.
#[derive(Clone, Debug, Serialize)]
pub struct SweepFailure {
    pub zone: String,
    /// What failed.
    pub problem: String,
    /// What is left after it.
    #[serde(skip)]
    pub aftermath: Aftermath,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Sweep {
    /// Takes in the sweep of other zones.
    pub(crate) fn extend(&mut self, other: Self) {
        let Self { unexplained, kept, abandoned, explained, young, cleanups, failures, moved } = other;
        self.unexplained.extend(unexplained);
        self.kept.extend(kept);
        self.abandoned.extend(abandoned);
        self.explained += explained;
        self.young += young;
        self.cleanups.extend(cleanups);
        self.failures.extend(failures);
        self.moved = self.moved.take().or(moved);
    }

    /// What it has removed, or kept on purpose.
    pub(crate) fn gone(&self) -> BTreeSet<&ResourceName> {
        let reports = self.cleanups.iter().map(|cleanup| &cleanup.report);
        reports.flat_map(|report| report.removed.iter().chain(&report.kept)).collect()
    }

    /// Whether nothing that is to be removed is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let gone = self.gone();
        self.failures.is_empty()
            && self.cleanups.iter().all(|cleanup| cleanup.report.is_clean())
            && self
                .unexplained
                .iter()
                .all(|unexplained| unexplained.spared.is_some() || gone.contains(&unexplained.resource))
    }
}

/// A resource of ours that nothing explains.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unexplained {
    pub resource: ResourceName,
    /// Its name or address.
    pub label: String,
    /// Scaleway's state of it.
    pub state: String,
    /// The operation that its tag names.
    pub operation: Option<OperationId>,
    /// Why nothing explains it.
    pub why: String,
    /// Why it is not removed all the same, where it is not.
    pub spared: Option<String>,
}

/// The sweep of one zone: what was read, and what the journal knows of it.
struct ZoneSweep<'a> {
    shared: &'a Shared,
    request: &'a SweepRequest,
    zone: &'a Zone,
    listed_from: u64,
    servers: Servers,
    tagged: Vec<(OperationId, String)>,
    known: BTreeMap<OperationId, Option<Known>>,
    remove: Vec<Listed>,
    /// Why each is to be removed, by its id.
    why: BTreeMap<String, String>,
    /// The servers among it.
    going: BTreeSet<String>,
    /// What was abandoned, by id.
    abandoned: HashSet<String>,
}

impl<'a> ZoneSweep<'a> {
    fn new(
        shared: &'a Shared,
        request: &'a SweepRequest,
        zone: &'a Zone,
        from: u64,
        listed: &[Listed],
    ) -> Result<Self, Error> {
        let servers = listed.iter().filter(|resource| resource.name.kind == ResourceKind::Server);
        Ok(Self {
            shared,
            request,
            zone,
            listed_from: from,
            servers: Servers::of(listed),
            tagged: servers
                .filter_map(|server| Some((tags::operation_of(&server.tags)?, server.name.id.clone())))
                .collect(),
            known: BTreeMap::new(),
            remove: Vec::new(),
            why: BTreeMap::new(),
            going: BTreeSet::new(),
            abandoned: shared.journal.abandoned()?,
        })
    }

    /// Reads what the journal knows of an operation, once.
    fn learn(&mut self, id: &OperationId) -> Result<(), Error> {
        if self.known.contains_key(id) {
            return Ok(());
        }
        let journal = &self.shared.journal;
        let known = match journal.operation(id) {
            Ok(operation) => {
                let entries = journal.entries(id)?;
                let claims = match serde_json::from_value::<ServerSpecification>(operation.specification.clone()) {
                    Ok(specification) => claims_of_creation(self.shared, id, &specification, &entries)?,
                    // No creation of a server: nothing is its.
                    Err(_) => crate::ownership::Claims::none(&self.shared.owner),
                };
                let mut kept: BTreeSet<String> = kept_by(&entries).map(|name| name.id.clone()).collect();
                let report = operation.report.clone().and_then(|report| serde_json::from_value(report).ok());
                kept.extend(report.into_iter().flat_map(|report: crate::Report| report.kept).map(|name| name.id));
                if let Some(ended_by) = &operation.ended_by {
                    kept.extend(kept_by(&journal.entries(ended_by)?).map(|name| name.id.clone()));
                }
                let is_started = |entry: &Entry| matches!(entry.record(), Ok(Record::Noted(Note::StartedElsewhere)));
                let started_elsewhere = entries.iter().any(is_started);
                Some(Known { operation, claims, kept, started_elsewhere })
            }
            Err(Error::OperationUnknown { .. }) => None,
            Err(error) => return Err(error),
        };
        self.known.insert(id.clone(), known);
        Ok(())
    }

    /// Judges a resource, reading by id the servers that the judgement depends on.
    async fn stand(&mut self, resource: &Listed) -> Result<Judgement, Error> {
        let operation = tags::operation_of(&resource.tags);
        if let Some(id) = &operation {
            self.learn(id)?;
        }
        loop {
            let known = operation.as_ref().and_then(|id| self.known.get(id)).and_then(Option::as_ref);
            let case = Case {
                servers: &self.servers,
                going: &self.going,
                tagged: &self.tagged,
                listed_from: self.listed_from,
                now: self.shared.clock.now(),
                grace: self.request.grace,
                running_too: self.request.running_too,
            };
            match case.judge(resource, known) {
                Judgement::Ask { server } => self.servers.ask(self.shared, self.zone, &server).await,
                standing => return Ok(standing),
            }
        }
    }

    /// Judges a resource of the listing, and once more as its id shows it when it is to go.
    async fn take(&mut self, listed: Listed, sweep: &mut Sweep) -> Result<(), Error> {
        let mut resource = listed;
        let mut standing = self.stand(&resource).await?;
        if let Judgement::Unexplained { why, spared: None } = &standing {
            match listing::read(self.shared, self.zone, &resource.name).await {
                Ok(None) => {
                    if resource.name.kind == ResourceKind::Server {
                        self.servers.set(&resource.name.id, Presence::Gone);
                    }
                    return Ok(());
                }
                Ok(Some(read)) if !tags::carries_owner(&read.tags, &self.shared.owner) => return Ok(()),
                Ok(Some(read)) => {
                    resource = read;
                    standing = self.stand(&resource).await?;
                }
                Err(error) => {
                    let spared = Some(format!("it could not be read by its id: {error}"));
                    standing = Judgement::Unexplained { why: why.clone(), spared };
                }
            }
        }
        // Also what a finished creation explains: its removal may have been abandoned.
        if standing != Judgement::Kept && self.abandoned.contains(&resource.name.id) {
            standing = Judgement::Abandoned;
        }
        if let Judgement::Unexplained { spared: None, why } = &standing {
            if self.shared.journal.is_kept(&resource.name.id)? {
                standing = Judgement::Kept;
            } else if resource.protected {
                let spared = Some(protected_words(&resource.name.id, &resource.name.zone));
                standing = Judgement::Unexplained { why: why.clone(), spared };
            } else if self.request.only.as_ref().is_some_and(|confirmed| !confirmed.contains(&resource.name)) {
                let spared = Some("it was not among those confirmed".to_owned());
                standing = Judgement::Unexplained { why: why.clone(), spared };
            }
        }
        match standing {
            // Asked for no more when it is answered.
            Judgement::Explained | Judgement::Ask { .. } => sweep.explained += 1,
            Judgement::Young => sweep.young += 1,
            Judgement::Kept => sweep.kept.push(resource.name),
            Judgement::Abandoned => sweep.abandoned.push(resource.name),
            Judgement::Unexplained { why, spared } => {
                if spared.is_none() {
                    self.why.insert(resource.name.id.clone(), why.clone());
                }
                sweep.unexplained.push(Unexplained {
                    resource: resource.name.clone(),
                    label: resource.label.clone(),
                    state: resource.state.clone(),
                    operation: tags::operation_of(&resource.tags),
                    why,
                    spared: spared.clone(),
                });
                if spared.is_none() {
                    if resource.name.kind == ResourceKind::Server {
                        self.going.insert(resource.name.id.clone());
                    }
                    self.remove.push(resource);
                }
            }
        }
        Ok(())
    }
}

impl ZoneSweep<'_> {
    /// The creations of these resources whose servers are gone, as their ids say.
    fn ended(&self, resources: &[ResourceName]) -> Vec<OperationId> {
        let of_batch = self.remove.iter().filter(|resource| resources.contains(&resource.name));
        let operations: BTreeSet<OperationId> =
            of_batch.filter_map(|resource| tags::operation_of(&resource.tags)).collect();
        let is_over = |id: &OperationId| {
            let Some(known) = self.known.get(id).and_then(Option::as_ref) else { return false };
            let mut made = known.claims.known_as_made().filter(|name| name.kind == ResourceKind::Server).peekable();
            known.operation.ended_by.is_none()
                && made.peek().is_some()
                && made.all(|server| self.servers.get(&server.id) == Some(&Presence::Gone))
        };
        operations.into_iter().filter(is_over).collect()
    }

    /// What is to be removed, in portions. A volume that any operation kept, or was abandoned with, is not among what
    /// goes with its server.
    fn batches(&self) -> Result<Vec<SweepSpecification>, Error> {
        let mut batches = remove::batches(&self.remove, &self.known);
        for batch in &mut batches {
            batch.requested_by = self.request.requested_by.clone();
            let whys = batch.resources.iter().filter_map(|name| self.why.get_key_value(&name.id));
            batch.why = whys.map(|(id, why)| (id.clone(), cut(why.clone(), MAX_WHY_LEN))).collect();
            batch.ends = self.ended(&batch.resources);
            let mut proven = Vec::new();
            for volume in batch.proven.drain(..) {
                let journal = &self.shared.journal;
                if !journal.is_kept(&volume.id)? && !self.abandoned.contains(&volume.id) {
                    proven.push(volume);
                }
            }
            batch.proven = proven;
        }
        Ok(batches)
    }
}

impl Lifecycle {
    /// Looks for what carries our owner tag and is explained by no live operation and no live machine, and removes it,
    /// each batch as an operation of its own.
    ///
    /// # What explains a resource
    /// An open operation of this journal; a finished create whose server exists, for what that create made and what is
    /// attached to its server; the mark `windlass-kept`, or that an operation of this journal kept it; that somebody
    /// abandoned the operation; or an operation that this journal does not know and that is younger than the request's
    /// grace.
    ///
    /// # What is reported and stays all the same
    /// Servers of operations that this journal does not know, and what is attached to them, unless
    /// [`running_too`](SweepRequest::running_too) is set; protected servers; what is attached to anything that is there;
    /// what an interrupted creation made whose server somebody else started; what carries the tags of an operation that
    /// did not make it.
    ///
    /// # Errors
    /// [`Error::HistoryMoved`] where the state directory is a copy or was set back and the sweep is no dry run; the
    /// error where there is one alone and nothing was swept. That something could not be removed is no error: the
    /// reports and [`Sweep::failures`] say so.
    pub async fn sweep(&self, request: &SweepRequest, control: &Control) -> Result<Sweep, Error> {
        let mut whole = Sweep::default();
        match self.shared.check_not_set_back(request.zones.iter()).await {
            Err(Error::HistoryMoved { evidence, .. }) if request.dry_run => whole.moved = Some(evidence),
            checked => checked?,
        }
        let (mut swept, mut first) = (false, None);
        for zone in &request.zones {
            let mut sweep = Sweep::default();
            let errors = match self.sweep_zone(zone, request, control, &mut sweep).await {
                Ok(errors) => errors,
                Err(error) => vec![error],
            };
            swept |= errors.is_empty() || !sweep.cleanups.is_empty();
            let shared = &self.shared;
            if errors.is_empty() {
                shared.outstanding.swept(zone, &sweep);
                let last = LastSweep::of(zone, shared.clock.now(), request.dry_run, &sweep);
                if let Err(error) = last.write(&shared.state_directory) {
                    tracing::warn!(%zone, %error, "cannot store the result of a sweep");
                }
            }
            sweep.failures.extend(errors.iter().map(|error| SweepFailure {
                zone: zone.to_string(),
                problem: error.to_string(),
                aftermath: error.aftermath(),
            }));
            whole.extend(sweep);
            first = first.or(errors.into_iter().next());
        }
        match first {
            Some(error) if !swept && whole.failures.len() == 1 => Err(error),
            _ => Ok(whole),
        }
    }

    /// Gives what failed of the removals. One that fails holds up no other.
    async fn sweep_zone(
        &self,
        zone: &Zone,
        request: &SweepRequest,
        control: &Control,
        sweep: &mut Sweep,
    ) -> Result<Vec<Error>, Error> {
        let from = self.shared.clock.now();
        let listed = listing::list(&self.shared, zone).await?;
        let mut of_zone = ZoneSweep::new(&self.shared, request, zone, from, &listed)?;
        for resource in listed {
            of_zone.take(resource, sweep).await?;
        }
        metrics::counter!(metric_names::LEAKS_FOUND).increment(of_zone.remove.len() as u64);
        let mut errors = Vec::new();
        if !request.dry_run {
            for specification in of_zone.batches()? {
                if control.cancelled().is_cancelled() || control.left().is_cancelled() {
                    break;
                }
                match self.sweep_batch(zone, &specification, control).await {
                    Ok(cleanup) => sweep.cleanups.push(cleanup),
                    Err(error) => errors.push(error),
                }
            }
        }
        Ok(errors)
    }
}
