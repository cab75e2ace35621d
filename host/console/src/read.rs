//! What pages are made of, read from the state directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use windlass_cluster::{ClusterEvent, ClusterName, ClusterOperation, ClusterStore, SqliteClusterStore, StoredCluster};
use windlass_lifecycle::{
    Entry, Error as LifecycleError, Journal, Operation, OperationFilter, OperationId, OperationKind, OperationState,
    StateDirectory,
};
use windlass_policy::{
    DecisionFilter, DecisionId, DecisionPage, DecisionReader, DecisionRecord, Error as PolicyError, RunningHost,
    running_hosts,
};

use crate::Error;
use crate::timeline::{Plan, Step, steps};

/// Rows of a page.
pub(crate) const PAGE: usize = 100;
/// Servers that are listed on the first page.
const MOST_SERVERS: u32 = 500;
/// Clusters' operations and events that are shown.
const MOST_OPERATIONS: u32 = 50;
const MOST_EVENTS: u32 = 500;

/// Where everything is read from.
#[derive(Debug)]
pub(crate) struct Source {
    state: StateDirectory,
    /// Opened when it is there for the first time.
    journal: Mutex<Option<Arc<Journal>>>,
}

/// What is there now, as the journal says.
#[derive(Debug)]
pub(crate) struct Now {
    /// Creations, adoptions and orders that are done, and whose machines nothing has removed.
    pub(crate) machines: Vec<Operation>,
    /// Whether there are more than are listed.
    pub(crate) more_machines: bool,
    /// What is being done, and the last word on each.
    pub(crate) under_way: Vec<(Operation, Option<Entry>)>,
    /// What did not end well and wants to be looked at.
    pub(crate) unsettled: Vec<Operation>,
    pub(crate) counts: BTreeMap<OperationState, u64>,
    pub(crate) clusters: Vec<StoredCluster>,
    pub(crate) hosts: Vec<RunningHost>,
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
    /// The next older ones, of all slots.
    pub(crate) before: DecisionPage,
    /// The next older ones of its slot.
    pub(crate) of_slot: DecisionPage,
}

/// A cluster with what was done to it. One that is gone has its history still.
#[derive(Debug)]
pub(crate) struct ClusterView {
    pub(crate) name: ClusterName,
    pub(crate) stored: Option<StoredCluster>,
    pub(crate) operations: Vec<ClusterOperation>,
    pub(crate) events: Vec<ClusterEvent>,
}

impl Source {
    pub(crate) fn new(state: StateDirectory) -> Self {
        Self { state, journal: Mutex::new(None) }
    }

    /// The directory, for people.
    pub(crate) fn path(&self) -> String {
        self.state.path().display().to_string()
    }

    /// The journal; none where nothing was ever done.
    fn journal(&self) -> Result<Option<Arc<Journal>>, Error> {
        let mut known = self.journal.lock();
        if known.is_none() {
            *known = match Journal::read_only(&self.state) {
                Ok(journal) => Some(Arc::new(journal)),
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

    pub(crate) fn hosts(&self) -> Result<Vec<RunningHost>, Error> {
        running_hosts(self.state.handle()).map_err(Error::Policies)
    }

    fn clusters(&self) -> Result<Option<SqliteClusterStore>, Error> {
        SqliteClusterStore::read_only(&self.state).map_err(Error::Clusters)
    }

    pub(crate) async fn now(&self) -> Result<Now, Error> {
        let machines_of = |kind| {
            let mut filter = OperationFilter::default();
            filter.states = vec![OperationState::Done];
            filter.kind = Some(kind);
            filter.not_ended = true;
            filter.limit = Some(MOST_SERVERS + 1);
            self.list(&filter)
        };
        let mut machines = machines_of(OperationKind::CreateServer)?;
        machines.extend(machines_of(OperationKind::AdoptMachine)?);
        machines.extend(machines_of(OperationKind::OrderMachine)?);
        let most = MOST_SERVERS as usize;
        let more_machines = machines.len() > most;
        machines.truncate(most);
        let of_states = |states: &[OperationState]| {
            let mut filter = OperationFilter::default();
            filter.states = states.to_vec();
            filter.limit = Some(PAGE as u32);
            self.list(&filter)
        };
        let mut under_way = Vec::new();
        for operation in of_states(&[OperationState::Open])? {
            let last = match self.journal()? {
                Some(journal) => journal.entries(&operation.id).map_err(Error::Journal)?.pop(),
                None => None,
            };
            under_way.push((operation, last));
        }
        let clusters = match self.clusters()? {
            Some(store) => store.clusters().await.map_err(Error::Clusters)?,
            None => Vec::new(),
        };
        Ok(Now {
            machines,
            more_machines,
            under_way,
            unsettled: of_states(&[OperationState::Left, OperationState::Unverified])?,
            counts: self.counts()?,
            clusters,
            hosts: self.hosts()?,
        })
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

    pub(crate) fn decision(&self, id: &str) -> Result<DecisionView, Error> {
        const NEIGHBOURS: usize = 8;
        let log = self.decision_log()?;
        let record = log.show(id).map_err(|error| match error {
            PolicyError::Record { .. } => Error::Unknown { what: "decision", name: id.to_owned() },
            other => Error::Policies(other),
        })?;
        let page = |slot| {
            let mut filter = DecisionFilter::default();
            filter.slot = slot;
            filter.limit = NEIGHBOURS;
            log.page(&filter, Some(record.id)).map_err(Error::Policies)
        };
        Ok(DecisionView { before: page(None)?, of_slot: page(Some(record.slot))?, record })
    }

    pub(crate) async fn all_clusters(&self) -> Result<Vec<StoredCluster>, Error> {
        match self.clusters()? {
            Some(store) => store.clusters().await.map_err(Error::Clusters),
            None => Ok(Vec::new()),
        }
    }

    pub(crate) async fn cluster(&self, name: &str) -> Result<ClusterView, Error> {
        let unknown = || Error::Unknown { what: "cluster", name: name.to_owned() };
        let name: ClusterName = name.parse().map_err(|_| unknown())?;
        let store = self.clusters()?.ok_or_else(unknown)?;
        let stored = store.cluster(&name).await.map_err(Error::Clusters)?;
        let operations = store.operations(&name, MOST_OPERATIONS).await.map_err(Error::Clusters)?;
        if stored.is_none() && operations.is_empty() {
            return Err(unknown());
        }
        let last = operations.first().map(|operation| operation.number);
        let events = store.events(&name, last, 0, MOST_EVENTS).await.map_err(Error::Clusters)?;
        Ok(ClusterView { name, stored, operations, events })
    }

    /// What changes whenever a page may look different.
    pub(crate) fn mark(&self) -> Result<String, Error> {
        let mut filter = OperationFilter::default();
        filter.limit = Some(1);
        let newest = self.list(&filter)?.pop().map(|operation| (operation.id, operation.updated_at));
        let mut latest = DecisionFilter::default();
        latest.limit = 1;
        let decision = self.decisions(&latest, None)?.decisions.pop().map(|decision| decision.id);
        Ok(format!("{newest:?} {:?} {decision:?}", self.counts()?))
    }
}
