//! What pages are made of, read from the state directory.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use maud::Markup;
use parking_lot::Mutex;
use serde_json::Value;
#[cfg(feature = "clusters")]
use windlass_cluster::StoredCluster;
use windlass_inspect::timeline::{Plan, Step, steps};
use windlass_lifecycle::{
    Entry, Error as LifecycleError, Journal, LastSweep, Operation, OperationFilter, OperationId, OperationKind,
    OperationState, PolicyHost, StateDirectory,
};
use windlass_policy::slots::{SlotName, state_mapping};
use windlass_policy::{
    Activity, DecisionFilter, DecisionId, DecisionPage, DecisionReader, DecisionRecord, DecisionSummary,
    Error as PolicyError, PolicyChange, Replay, policy_changes,
};

use crate::rehearsals::{self, ShowRehearsal};
use crate::{Candidates, Error, Prices};

#[cfg(feature = "clusters")]
mod clusters;
mod day;
mod search;
#[cfg(feature = "clusters")]
pub(crate) use clusters::ClusterView;
pub(crate) use day::{Asked, Day, Deciding, Hour, Incident, Level, SPANS_OF_HOUR, What, failures_of};
pub(crate) use search::Search;

/// Rows of a page.
pub(crate) const PAGE: usize = 100;
/// Servers that are listed on the first page.
const MAX_SERVERS: u32 = 500;
/// Changes of policies that are shown.
const MAX_CHANGES: usize = 200;
/// Groups whose last look is shown.
const MAX_LOOKS: usize = 12;
/// What of the decision log is read for the newest of one kind, and for what policies cost: two files of it or so.
const RECENT_BYTES: usize = 4 << 20;
/// Decisions that are shown on each side of one.
const NEIGHBOURS: usize = 5;
/// How old the answer to whether something has changed may be: all that follow share it.
const MARK_AGE: Duration = Duration::from_millis(500);

/// Where everything is read from.
#[derive(Debug)]
pub(crate) struct Source {
    state: StateDirectory,
    /// Opened when it is there for the first time.
    journal: Mutex<Option<Journal>>,
    prices: Option<Prices>,
    /// Where other state directories are in this one, and what else is not in it.
    elsewhere: Option<(&'static str, &'static str)>,
    candidates: Option<Candidates>,
    /// How rehearsals are shown; none where they are not.
    show_rehearsal: Option<ShowRehearsal>,
    mark: Mutex<Option<(Instant, u64)>>,
}

/// A machine that the journal knows.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) operation: Operation,
    pub(crate) is_mac: bool,
    /// The type that was made, where it is known.
    pub(crate) server_type: Option<String>,
    /// What it costs for an hour, in euro, where the catalogue says so.
    pub(crate) hourly: Option<f64>,
    /// Being made, there, or being removed.
    pub(crate) standing: MachineState,
    pub(crate) removed_by: Option<OperationId>,
}

/// Where a machine stands, as the journal knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineState {
    Creating,
    Running,
    Removing,
}

/// What machines cost for an hour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// In euro.
    pub(crate) hourly: f64,
    /// The machines that this is for.
    pub(crate) priced: usize,
    /// Those without a price.
    pub(crate) unpriced: usize,
}

/// What a group's servers were when they were looked at last.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) decision: DecisionId,
    pub(crate) at_ms: u64,
    pub(crate) zone: String,
    pub(crate) group: Option<String>,
    /// How many servers of each state there were.
    pub(crate) states: BTreeMap<String, usize>,
    /// The oldest of each state, in milliseconds.
    pub(crate) oldest: u64,
    /// How many were reported as what, and how many are to be removed.
    pub(crate) reported: BTreeMap<String, usize>,
}

/// What is there now, as the journal says.
#[derive(Debug)]
pub(crate) struct Now {
    /// Creations, adoptions and orders that are done, and whose machines nothing has removed; and those under way.
    pub(crate) machines: Vec<Machine>,
    /// Whether there are more than are listed.
    pub(crate) more_machines: bool,
    /// What those listed cost; none where there is no catalogue.
    pub(crate) cost: Option<Cost>,
    /// The last look at each group.
    pub(crate) looks: Vec<Look>,
    /// What the last sweep of each zone has found.
    pub(crate) sweeps: Vec<LastSweep>,
    /// What is open.
    pub(crate) under_way: Vec<UnderWay>,
    /// Operations that need attention.
    pub(crate) unsettled: Vec<Operation>,
    pub(crate) counts: BTreeMap<OperationState, u64>,
    #[cfg(feature = "clusters")]
    pub(crate) clusters: Vec<StoredCluster>,
    pub(crate) hosts: Vec<PolicyHost>,
    /// What the page does not show, and where it is; none where it shows everything.
    pub(crate) elsewhere: Option<NotShown>,
    /// What shows that the history of this directory took place elsewhere.
    pub(crate) moved: Option<String>,
    pub(crate) day: Day,
    pub(crate) deciding: Deciding,
}

/// An operation that is open.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) operation: Operation,
    /// The last word on it.
    pub(crate) last: Option<Entry>,
    /// Whether the process that works on it lives.
    pub(crate) is_worked_on: bool,
}

/// What the pages of a host leave out.
#[derive(Debug)]
pub(crate) struct NotShown {
    pub(crate) words: &'static str,
    /// Each shows another state directory below this one.
    pub(crate) commands: Vec<String>,
}

/// An operation with its steps.
#[derive(Debug)]
pub(crate) struct OperationView {
    pub(crate) operation: Operation,
    pub(crate) steps: Vec<Step>,
    /// Each plan, and what its steps are about.
    pub(crate) plans: Vec<(Plan, Vec<PlannedResource>)>,
}

/// A resource of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlannedResource {
    pub(crate) kind: String,
    pub(crate) id: String,
}

/// A decision with those beside it.
#[derive(Debug)]
pub(crate) struct DecisionView {
    pub(crate) record: DecisionRecord,
    /// Those around it, newest first, without itself.
    pub(crate) around: Vec<DecisionSummary>,
    /// The same of its slot.
    pub(crate) of_slot: Vec<DecisionSummary>,
    /// The policies that it can be put to; none where no folder of them was named.
    pub(crate) candidates: Option<Vec<String>>,
    /// The one that it was put to, and what came of it.
    pub(crate) tried: Option<(String, Result<Replay, String>)>,
}

/// Policies: in force, over time, and what they did.
#[derive(Debug)]
pub(crate) struct PoliciesView {
    pub(crate) hosts: Vec<PolicyHost>,
    /// The machines of all hosts, where several share the state.
    pub(crate) machines: Vec<String>,
    /// The one whose hosts are shown; none where all are.
    pub(crate) machine: Option<String>,
    /// The newest first.
    pub(crate) changes: Vec<PolicyChange>,
    pub(crate) activity: Activity,
}

impl Source {
    pub(crate) fn new(state: StateDirectory) -> Self {
        Self {
            state,
            journal: Mutex::new(None),
            prices: None,
            candidates: None,
            elsewhere: None,
            show_rehearsal: None,
            mark: Mutex::new(None),
        }
    }

    pub(crate) fn with_prices(self, prices: Prices) -> Self {
        Self { prices: Some(prices), ..self }
    }

    pub(crate) fn with_candidates(self, candidates: Candidates) -> Self {
        Self { candidates: Some(candidates), ..self }
    }

    pub(crate) fn with_elsewhere(self, folder: &'static str, words: &'static str) -> Self {
        Self { elsewhere: Some((folder, words)), ..self }
    }

    pub(crate) fn with_rehearsals(self, show: ShowRehearsal) -> Self {
        Self { show_rehearsal: Some(show), ..self }
    }

    pub(crate) fn shows_rehearsals(&self) -> bool {
        self.show_rehearsal.is_some()
    }

    /// The names of saved rehearsals.
    pub(crate) fn rehearsals(&self) -> Result<Vec<String>, Error> {
        rehearsals::names(self.state.handle())
    }

    /// What is shown of a saved rehearsal.
    pub(crate) fn rehearsal(&self, name: &str) -> Result<Markup, Error> {
        let unknown = || Error::Unknown { what: "rehearsal", name: name.to_owned() };
        let show = self.show_rehearsal.ok_or_else(unknown)?;
        let saved = rehearsals::read(self.state.handle(), name)?;
        show(&saved).map_err(|why| Error::Rehearsal { name: name.to_owned(), why })
    }

    /// What is not shown: `FOLDER/GROUP/NAME` are state directories of their own.
    fn elsewhere(&self) -> Result<Option<NotShown>, Error> {
        let Some((folder, words)) = self.elsewhere else { return Ok(None) };
        let root = self.state.path().join(folder);
        let failed = |source| Error::Journal(LifecycleError::StateDirectory { path: root.clone(), source });
        let mut commands = Vec::new();
        if let Some(groups) = absent_is_none(self.state.handle().open_dir(folder)).map_err(failed)? {
            for group in names(&groups).map_err(failed)? {
                // What has just gone, and what is no folder, is no state directory.
                let Ok(inside) = groups.open_dir(&group) else { continue };
                let inside = names(&inside).map_err(failed)?;
                commands.extend(inside.iter().map(|name| match self.state.shared_log() {
                    Some(shared) => {
                        let part = shared.part(&format!("{folder}/{group}/{name}"));
                        format!("WINDLASS_STATE='{}' windlass console", part.location())
                    }
                    None => format!("windlass --state-dir {} console", root.join(&group).join(name).display()),
                }));
            }
        }
        commands.sort_unstable();
        Ok(Some(NotShown { words, commands }))
    }

    /// Where the state is, for people: the directory, or the database.
    pub(crate) fn path(&self) -> String {
        self.state.location().display().to_string()
    }

    /// The journal; none where nothing was ever done.
    fn journal(&self) -> Result<Option<Journal>, Error> {
        let mut known = self.journal.lock();
        // On a disk that takes no writes only one may be open at a time: who still reads one shares it.
        if known.as_ref().is_none_or(|journal| journal.log().is_snapshot() && Arc::strong_count(journal.log()) == 1) {
            *known = None;
            *known = match Journal::read_only(&self.state) {
                Ok(journal) => Some(journal),
                Err(LifecycleError::JournalAbsent { .. }) => None,
                Err(error) => return Err(Error::Journal(error)),
            };
        }
        Ok(known.clone())
    }

    fn list(&self, filter: &OperationFilter) -> Result<Vec<Operation>, Error> {
        self.journal()?.map_or(Ok(Vec::new()), |journal| journal.operations(filter).map_err(Error::Journal))
    }

    pub(crate) fn decision_log(&self) -> Result<DecisionReader, Error> {
        DecisionReader::open(self.state.handle()).map_err(Error::Policies)
    }

    /// The hosts that run: of all machines, where they share the state.
    pub(crate) fn hosts(&self) -> Result<Vec<PolicyHost>, Error> {
        self.state.policy_hosts().map_err(Error::Journal)
    }

    /// Whether several machines share the state.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.shared_log().is_some()
    }

    pub(crate) async fn now(&self) -> Result<Now, Error> {
        #[cfg(feature = "clusters")]
        let clusters = self.all_clusters().await?;
        let of_states = |states: &[OperationState]| {
            let mut filter = OperationFilter::default();
            filter.states = states.to_vec();
            filter.limit = Some(PAGE as u32);
            self.list(&filter)
        };
        let open = of_states(&[OperationState::Open])?;
        let (machines, more_machines) = self.machines(&open)?;
        let cost = self.prices.as_ref().map(|_| cost_of(&machines));
        let (day, deciding) = self.day()?;
        let mut under_way = Vec::new();
        for operation in open {
            let Some(journal) = self.journal()? else { continue };
            let last = journal.entries(&operation.id).map_err(Error::Journal)?.pop();
            let is_worked_on = journal.runner_lives(&operation.runner);
            under_way.push(UnderWay { operation, last, is_worked_on });
        }
        Ok(Now {
            machines,
            more_machines,
            cost,
            looks: self.looks()?,
            sweeps: LastSweep::read(&self.state).map_err(Error::Journal)?,
            under_way,
            unsettled: of_states(&[OperationState::Left, OperationState::Unverified])?,
            counts: self.counts()?,
            #[cfg(feature = "clusters")]
            clusters,
            hosts: self.hosts()?,
            elsewhere: self.elsewhere()?,
            moved: self.state.moved_with(self.journal()?.as_ref()).map_err(Error::Journal)?,
            day,
            deciding,
        })
    }

    /// The machines that there are, or are to be; and whether there are more.
    fn machines(&self, open: &[Operation]) -> Result<(Vec<Machine>, bool), Error> {
        let there = |kind| {
            let mut filter = OperationFilter::default();
            // An order that was cancelled too late keeps its Mac.
            filter.states = match kind {
                OperationKind::OrderMachine => vec![OperationState::Done, OperationState::Kept],
                _ => vec![OperationState::Done],
            };
            filter.kind = Some(kind);
            filter.not_ended = true;
            filter.limit = Some(MAX_SERVERS + 1);
            self.list(&filter)
        };
        let makes = |operation: &&Operation| {
            use OperationKind::{AdoptMachine, CreateServer, OrderMachine};
            matches!(operation.kind, CreateServer | AdoptMachine | OrderMachine)
        };
        let mut made: Vec<(Operation, MachineState)> =
            open.iter().filter(makes).map(|operation| (operation.clone(), MachineState::Creating)).collect();
        for kind in [OperationKind::CreateServer, OperationKind::AdoptMachine, OperationKind::OrderMachine] {
            made.extend(there(kind)?.into_iter().map(|operation| (operation, MachineState::Running)));
        }
        let most = MAX_SERVERS as usize;
        let more = made.len() > most;
        made.truncate(most);
        let mut machines = Vec::new();
        for (operation, standing) in made {
            let removed_by = open.iter().find(|other| removes(other, &operation)).map(|other| other.id.clone());
            let standing = if removed_by.is_some() { MachineState::Removing } else { standing };
            let server_type = self.type_of(&operation)?;
            let hourly = match (&self.prices, &server_type) {
                (Some(prices), Some(server_type)) => prices.hourly(&operation.zone, server_type),
                _ => None,
            };
            let is_mac = operation.kind != OperationKind::CreateServer;
            machines.push(Machine { operation, is_mac, server_type, hourly, standing, removed_by });
        }
        Ok((machines, more))
    }

    /// The type that was made: of one that was asked for that one, else the one that the journal names last.
    fn type_of(&self, operation: &Operation) -> Result<Option<String>, Error> {
        let types = operation.specification.get("types").and_then(Value::as_array);
        if let Some([only]) = types.map(Vec::as_slice) {
            return Ok(only.as_str().map(str::to_owned));
        }
        let Some(journal) = self.journal()? else { return Ok(None) };
        let entries = journal.entries(&operation.id).map_err(Error::Journal)?;
        let named = entries.iter().rev().find_map(|entry| entry.data.get("type")?.as_str());
        Ok(named.map(str::to_owned))
    }

    /// The last look at each group, by the questions of the slot `state-mapping`.
    fn looks(&self) -> Result<Vec<Look>, Error> {
        let log = self.decision_log()?;
        let mut filter = DecisionFilter::default();
        filter.slot = Some(SlotName::StateMapping);
        filter.limit = MAX_LOOKS;
        filter.most_bytes = Some(RECENT_BYTES);
        let mut looks: Vec<Look> = Vec::new();
        for summary in log.page(&filter, None).map_err(Error::Policies)?.decisions {
            // What a host removes meanwhile is gone.
            let Ok(record) = log.show(&summary.id.to_string()) else { continue };
            let Some(look) = Look::of(&record) else { continue };
            if !looks.iter().any(|known| (&known.zone, &known.group) == (&look.zone, &look.group)) {
                looks.push(look);
            }
        }
        Ok(looks)
    }

    /// How many operations of each state there are.
    pub(crate) fn counts(&self) -> Result<BTreeMap<OperationState, u64>, Error> {
        self.journal()?.map_or(Ok(BTreeMap::new()), |journal| journal.counts().map_err(Error::Journal))
    }

    /// A page of operations, and where the next begins.
    pub(crate) fn operations(
        &self,
        mut filter: OperationFilter,
    ) -> Result<(Vec<Operation>, Option<OperationId>), Error> {
        filter.limit = Some(PAGE as u32 + 1);
        let mut operations = self.list(&filter)?;
        let more = operations.len() > PAGE;
        operations.truncate(PAGE);
        let older = operations.last().filter(|_| more).map(|operation| operation.id.clone());
        Ok((operations, older))
    }

    pub(crate) fn operation(&self, id: &str) -> Result<OperationView, Error> {
        let unknown = || Error::Unknown { what: "operation", name: id.to_owned() };
        let id = OperationId::parse(id).map_err(|_| unknown())?;
        let journal = self.journal()?.ok_or_else(unknown)?;
        let operation = journal.operation(&id).map_err(|error| match error {
            LifecycleError::OperationUnknown { .. } => unknown(),
            other => Error::Journal(other),
        })?;
        let steps = steps(&journal.entries(&id).map_err(Error::Journal)?);
        let plans = steps.iter().filter_map(Plan::of).map(|plan| {
            let resources = self.planned_resources(&plan);
            (plan, resources)
        });
        Ok(OperationView { plans: plans.collect(), operation, steps })
    }

    /// What a plan is about, by the question that was asked; nothing where its record is gone.
    fn planned_resources(&self, plan: &Plan) -> Vec<PlannedResource> {
        let record = plan.decision.as_deref().and_then(|id| self.decision_log().ok()?.show(id).ok());
        let resources = record.as_ref().and_then(|record| record.question.get("resources")?.as_array());
        let word = |resource: &Value, key: &str| resource.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let named = |resource: &Value| PlannedResource { kind: word(resource, "kind"), id: word(resource, "id") };
        resources.map(|resources| resources.iter().map(named).collect()).unwrap_or_default()
    }

    pub(crate) fn decisions(&self, filter: &DecisionFilter, before: Option<DecisionId>) -> Result<DecisionPage, Error> {
        self.decision_log()?.page(filter, before).map_err(Error::Policies)
    }

    /// A decision; put to one of the policies that it can be put to, where one is named.
    pub(crate) fn decision(&self, id: &str, put_to: Option<&str>) -> Result<DecisionView, Error> {
        let log = self.decision_log()?;
        let record = log.show(id).map_err(|error| match error {
            PolicyError::Record { .. } => Error::Unknown { what: "decision", name: id.to_owned() },
            other => Error::Policies(other),
        })?;
        let around = |slot| {
            let mut filter = DecisionFilter::default();
            filter.slot = slot;
            filter.limit = NEIGHBOURS;
            filter.most_bytes = Some(RECENT_BYTES);
            let mut around = log.following(&filter, record.id)?;
            around.reverse();
            around.extend(log.page(&filter, Some(record.id))?.decisions);
            Ok(around)
        };
        let candidates = self.candidates.as_ref().map(Candidates::names).transpose()?;
        let tried = match (&self.candidates, put_to) {
            (Some(candidates), Some(name)) => Some((name.to_owned(), candidates.ask(&record, name)?)),
            (None, Some(name)) => return Err(Error::Unknown { what: "policy file", name: name.to_owned() }),
            (_, None) => None,
        };
        Ok(DecisionView {
            around: around(None).map_err(Error::Policies)?,
            of_slot: around(Some(record.slot)).map_err(Error::Policies)?,
            record,
            candidates,
            tried,
        })
    }

    /// `machine`: only the hosts of this one.
    pub(crate) fn policies(&self, machine: Option<String>) -> Result<PoliciesView, Error> {
        let mut hosts = self.hosts()?;
        let machines: BTreeSet<String> = hosts.iter().filter_map(|host| host.machine.clone()).collect();
        hosts.retain(|host| machine.is_none() || host.machine == machine);
        Ok(PoliciesView {
            hosts,
            machines: machines.into_iter().collect(),
            machine,
            changes: policy_changes(self.state.handle(), MAX_CHANGES).map_err(Error::Policies)?,
            activity: self.decision_log()?.activity(RECENT_BYTES).map_err(Error::Policies)?,
        })
    }

    /// What changes whenever a page may look different: by the files' sizes and times, so that nothing is opened. Of a
    /// journal that machines share it tells when an operation begins or ends.
    pub(crate) fn mark(&self) -> u64 {
        let mut mark = self.mark.lock();
        if let Some((at, mark)) = *mark
            && at.elapsed() < MARK_AGE
        {
            return mark;
        }
        let mut hasher = DefaultHasher::new();
        let state = self.state.handle();
        for file in ["journal.sqlite", "journal.sqlite-wal"] {
            state.metadata(file).ok().map(|metadata| looks(&metadata)).hash(&mut hasher);
        }
        for folder in ["decisions", "hosts", "policy-changes", "sweeps"] {
            state.open_dir(folder).ok().map(|folder| looks_of(&folder)).hash(&mut hasher);
        }
        // Nothing but itself tells of a database that others write.
        let counts = if self.is_shared() { self.counts().ok() } else { None };
        counts.hash(&mut hasher);
        // Prices come in after the page that asked for them.
        self.prices.as_ref().map(Prices::zones).hash(&mut hasher);
        let now = hasher.finish();
        *mark = Some((Instant::now(), now));
        now
    }
}

/// How long a file is, and when it was written.
fn looks(metadata: &cap_std::fs::Metadata) -> (u64, Option<Duration>) {
    let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
    (metadata.len(), modified.and_then(|modified| modified.duration_since(std::time::UNIX_EPOCH).ok()))
}

/// The same of all files of a folder.
fn looks_of(folder: &Dir) -> BTreeSet<(String, u64, Option<Duration>)> {
    let entries = folder.entries().into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let (length, modified) = looks(&entry.metadata().ok()?);
            Some((entry.file_name().to_string_lossy().into_owned(), length, modified))
        })
        .collect()
}

/// Whether this open operation removes what that one has made.
fn removes(open: &Operation, made: &Operation) -> bool {
    let word = |operation: &Operation, key: &str| {
        operation.specification.get(key).and_then(Value::as_str).filter(|word| !word.is_empty()).map(str::to_owned)
    };
    match open.kind {
        OperationKind::CleanupServer => word(open, "creation").is_some_and(|creation| creation == made.id.as_str()),
        OperationKind::ReleaseMachine => word(open, "claim").is_some_and(|claim| word(made, "claim") == Some(claim)),
        _ => false,
    }
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

fn names(folder: &Dir) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

fn cost_of(machines: &[Machine]) -> Cost {
    machines.iter().fold(Cost::default(), |cost, machine| match machine.hourly {
        Some(hourly) => Cost { hourly: cost.hourly + hourly, priced: cost.priced + 1, ..cost },
        None => Cost { unpriced: cost.unpriced + 1, ..cost },
    })
}

impl Look {
    /// By a decision of the slot `state-mapping`; none where its question or answer was not kept.
    fn of(record: &DecisionRecord) -> Option<Self> {
        use state_mapping::{Action, Answer, Question, Verdict};
        let question: Question = serde_json::from_value(record.question.clone()).ok()?;
        let answers: Vec<Answer> = serde_json::from_value(record.answer.clone()).ok()?;
        let word = |value: Value| value.as_str().unwrap_or_default().replace('-', " ");
        let count = |words: Vec<String>| {
            words.into_iter().fold(BTreeMap::new(), |mut counts: BTreeMap<String, usize>, word| {
                *counts.entry(word).or_default() += 1;
                counts
            })
        };
        let states = question.servers.iter().map(|server| word(serde_json::json!(server.state))).collect();
        let reported = answers.iter().map(|answer| match &answer.verdict {
            Verdict::Mapped(mapping) if mapping.action == Action::Reap => "to be removed".to_owned(),
            Verdict::Mapped(mapping) if mapping.report == state_mapping::Report::None => "not reported".to_owned(),
            Verdict::Mapped(mapping) => word(serde_json::json!(mapping.report)),
            Verdict::Defer => "undecided".to_owned(),
        });
        Some(Self {
            decision: record.id,
            at_ms: record.at_ms,
            oldest: question.servers.iter().map(|server| server.age).max().unwrap_or(0),
            states: count(states),
            reported: count(reported.collect()),
            zone: question.zone,
            group: question.subject.group,
        })
    }
}
