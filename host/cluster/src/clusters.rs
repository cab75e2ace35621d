//! The entry: what all operations on clusters share, and how they begin and are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use tracing::Instrument as _;
use windlass_lifecycle::{Clock, Lifecycle};
use windlass_policy::Host;
use windlass_policy::slots::types::Failure;
use windlass_scaleway::Client;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::Error;
use crate::cloud_init::{CloudInitFiles, ReadCloudInit};
use crate::control::ClusterControl;
use crate::hooks::{HookRunner, RunHooks};
use crate::name::{ClusterName, NodeGroupName};
use crate::operation::{Start, perform};
use crate::record::{
    Cluster, ClusterEvent, ClusterHappening, ClusterOperation, ClusterState, Counts, Node, NodeRole, NodeState,
    OperationKind, OperationState, Stage,
};
use crate::resume::ended_by_another;
use crate::run::{Book, Run};
use crate::selection::{ScaleRequest, select};
use crate::specification::ClusterSpecification;
use crate::stages::wait::public_addresses;
use crate::stages::{look, validate};
use crate::standing;
use crate::store::{Begin, ClusterStore, Requests, StoreError, StoredCluster};

/// Operations of a history at most, and events.
const MOST_OPERATIONS: u32 = 1_000;
const MOST_EVENTS: u32 = 1_000_000;

/// What bounds the work.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClusterLimits {
    /// Servers of one step that are made or removed at a time. The lifecycle's and the client's own limits lie below.
    pub parallel_nodes: usize,
    /// How often a running operation looks whether another process requests its end.
    pub watch_interval: Duration,
    /// How often servers and addresses are looked at that are not ready yet.
    pub poll_interval: Duration,
}

impl Default for ClusterLimits {
    fn default() -> Self {
        Self { parallel_nodes: 128, watch_interval: Duration::from_secs(2), poll_interval: Duration::from_secs(2) }
    }
}

/// What [`Clusters`] are made from.
#[non_exhaustive]
pub struct ClusterOptions {
    /// Makes and removes servers.
    pub lifecycle: Lifecycle,
    /// Speaks to Scaleway.
    pub client: Client,
    /// Judges.
    pub policies: Arc<Host>,
    /// Keeps clusters.
    pub store: Arc<dyn ClusterStore>,
    /// Runs hooks.
    pub hooks: Arc<dyn RunHooks>,
    /// Reads cloud-init.
    pub cloud_inits: Arc<dyn ReadCloudInit>,
    /// What time it is.
    pub clock: Clock,
    /// Makes jitter reproducible. Absent: the operating system's randomness.
    pub seed: Option<u64>,
    /// Bounds.
    pub limits: ClusterLimits,
}

impl ClusterOptions {
    /// The ordinary ones: hooks and cloud-init from this machine, system clock, random seed.
    #[must_use]
    pub fn new(lifecycle: Lifecycle, client: Client, policies: Arc<Host>, store: Arc<dyn ClusterStore>) -> Self {
        Self {
            lifecycle,
            client,
            policies,
            store,
            hooks: Arc::new(HookRunner),
            cloud_inits: Arc::new(CloudInitFiles),
            clock: Clock::System,
            seed: None,
            limits: ClusterLimits::default(),
        }
    }
}

/// What all operations of a process share.
pub(crate) struct Shared {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) client: Client,
    pub(crate) policies: Arc<Host>,
    pub(crate) store: Arc<dyn ClusterStore>,
    pub(crate) hooks: Arc<dyn RunHooks>,
    pub(crate) cloud_inits: Arc<dyn ReadCloudInit>,
    /// What the store calls this process.
    pub(crate) runner: String,
    pub(crate) clock: Clock,
    pub(crate) limits: ClusterLimits,
    random: Mutex<rand::rngs::StdRng>,
    /// Clusters with an operation under way in this process.
    active: Mutex<BTreeSet<ClusterName>>,
}

impl Shared {
    pub(crate) fn random(&self) -> u64 {
        rand::RngExt::random(&mut *self.random.lock())
    }
}

/// Marks a cluster as worked on in this process, as long as it lives.
pub(crate) struct Active {
    shared: Arc<Shared>,
    name: ClusterName,
}

impl Active {
    pub(crate) fn new(shared: &Arc<Shared>, name: &ClusterName) -> Option<Self> {
        shared.active.lock().insert(name.clone()).then(|| Self { shared: Arc::clone(shared), name: name.clone() })
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.shared.active.lock().remove(&self.name);
    }
}

/// Clusters: created, scaled, terminated, resumed, looked at. Cheap to clone.
#[derive(Clone)]
pub struct Clusters {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Clusters").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterOutcome {
    /// The cluster's nth operation.
    pub number: u64,
    /// `done`, or `cancelled`: the user deleted the cluster meanwhile.
    pub state: OperationState,
    /// The cluster; absent when it is gone.
    pub cluster: Option<Cluster>,
    /// Its nodes.
    pub nodes: Vec<Node>,
}

/// A cluster with everything that can be seen of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// The cluster.
    pub cluster: Cluster,
    /// Its nodes, by group and number.
    pub nodes: Vec<Node>,
    /// The operation under way, if one is.
    pub operation: Option<ClusterOperation>,
    /// Whether the process that runs it lives. One that died waits for [`Clusters::resume`].
    pub operation_lives: bool,
    /// Whether its deletion is requested.
    pub deletion_requested: bool,
    /// What Scaleway says of its nodes, where it was asked ([`Clusters::compare`]).
    pub seen: Option<ClusterObservation>,
}

/// What Scaleway says of a cluster's nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterObservation {
    /// When it was asked: milliseconds since 1970.
    pub at: u64,
    /// The nodes that have a server.
    pub nodes: Vec<NodeObservation>,
}

/// What Scaleway says of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeObservation {
    /// Its name.
    pub node: String,
    /// The state of its server; absent when there is none.
    pub state: Option<String>,
    /// The server's public addresses.
    pub addresses: Vec<std::net::IpAddr>,
    /// How that differs from what is known here, in words.
    pub differences: Vec<String>,
}

/// A function on data: what is known of a node beside its server as it is.
pub(crate) fn sight(node: &Node, server: Option<&Server>) -> NodeObservation {
    let mut differences = Vec::new();
    let addresses = server.map(public_addresses).unwrap_or_default();
    match (server, node.state) {
        (None, NodeState::Running) => differences.push("its server is gone: somebody deleted it".to_owned()),
        (Some(server), NodeState::Running) => {
            if server.state != ServerState::Running {
                differences.push(format!("its server is {}", server.state));
            }
            if addresses != node.addresses {
                let list = |list: &[std::net::IpAddr]| match list {
                    [] => "none".to_owned(),
                    list => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                };
                differences.push(format!("its addresses are {}, and were {}", list(&addresses), list(&node.addresses)));
            }
        }
        _ => {}
    }
    let state = server.map(|server| server.state.to_string());
    NodeObservation { node: node.name.clone(), state, addresses, differences }
}

/// What [`Clusters::cancel`] called off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalledOff {
    /// The operation of this number will end.
    Operation(u64),
    /// A requested deletion was withdrawn.
    Deletion,
    /// There was nothing to call off.
    Nothing,
}

/// Whether nothing of a cluster exists and nothing is under way: its record only says why a creation failed.
fn is_empty_error(stored: &StoredCluster) -> bool {
    stored.cluster.state == ClusterState::Error && stored.open.is_none() && stored.nodes.is_empty()
}

/// An operation and what happened in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterHistory {
    /// The operation.
    pub operation: ClusterOperation,
    /// Its events, in order.
    pub events: Vec<ClusterEvent>,
}

impl Clusters {
    /// Makes the entry. Opens nothing and asks nobody; what an earlier process left open is not touched yet: see
    /// [`Clusters::resume`].
    #[must_use]
    pub fn new(options: ClusterOptions) -> Self {
        use rand::SeedableRng as _;
        let random = match options.seed {
            Some(seed) => rand::rngs::StdRng::seed_from_u64(seed),
            None => rand::rngs::StdRng::from_rng(&mut rand::rng()),
        };
        Self {
            shared: Arc::new(Shared {
                runner: options.store.runner(options.lifecycle.runner()),
                lifecycle: options.lifecycle,
                client: options.client,
                policies: options.policies,
                store: options.store,
                hooks: options.hooks,
                cloud_inits: options.cloud_inits,
                clock: options.clock,
                limits: options.limits,
                random: Mutex::new(random),
                active: Mutex::new(BTreeSet::new()),
            }),
        }
    }

    /// Asks Scaleway whether it has what a specification wants. Gives what is wrong; nothing is spent and nothing
    /// stored.
    ///
    /// # Errors
    /// [`Error::Specification`] for what can be seen without asking, and the store's.
    pub async fn validate(&self, specification: &ClusterSpecification) -> Result<Vec<Failure>, Error> {
        specification.check()?;
        let mut problems = validate::hook_problems(self.shared.hooks.as_ref(), specification);
        let mut there = BTreeMap::new();
        for node in self.shared.store.cluster(&specification.name).await?.iter().flat_map(|stored| &stored.nodes) {
            *there.entry(node.group.clone()).or_default() += u64::from(node.exists());
        }
        let (client, cloud_inits) = (&self.shared.client, self.shared.cloud_inits.as_ref());
        problems.extend(validate::problems(client, cloud_inits, specification, there).await);
        Ok(problems)
    }

    /// Creates a cluster: validate → servers → wait → prepare → configure → start → active.
    ///
    /// # Guarantees
    /// The cluster is `active` with every node configured and started, or the provisioning policy's answer to the
    /// failure was carried out (by default: every server is removed, and the cluster is left in `error`). What that
    /// needs is stored before the first stage.
    ///
    /// # Errors
    /// [`Error::Specification`], [`Error::Exists`]: nothing was touched. [`Error::Failed`] says what failed and what
    /// became of it; [`Error::LeftOpen`] after [`ClusterControl::leave`].
    pub async fn create(
        &self,
        specification: ClusterSpecification,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        specification.check()?;
        let shared = &self.shared;
        let name = specification.name.clone();
        let exists = |state| Error::Exists { name: name.to_string(), state };
        // What an earlier creation left as an error without a node is no cluster any more: this one takes its place.
        let expected = match shared.store.cluster(&name).await? {
            None => None,
            Some(stored) if is_empty_error(&stored) => Some(stored.fence),
            Some(stored) => return Err(exists(stored.cluster.state)),
        };
        let now = shared.clock.now();
        let (mut nodes, mut counts, mut last_index) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (group, data) in &specification.groups {
            nodes.extend((1..=data.count).map(|index| Node::planned(&name, group, index)));
            counts.insert(group.clone(), Counts { before: 0, wanted: data.count });
            last_index.insert(group.clone(), data.count);
        }
        let operation = self.operation(OperationKind::Create, Stage::Validate, counts);
        let cluster = Cluster {
            name: name.clone(),
            state: standing::state(&operation, &nodes),
            reasons: Vec::new(),
            left: Vec::new(),
            specification,
            last_index,
            created_at: now,
            updated_at: now,
        };
        let begin = Begin { expected, cluster, nodes, operation };
        match self.begin(begin, Vec::new(), Start::Create, control).await {
            Err(Error::Store(StoreError::Overtaken | StoreError::Gone)) => Err(exists(ClusterState::Creating)),
            ended => ended,
        }
    }

    /// Lets nodes come and go, in several groups at once: validate → decommission → resize → configure → start →
    /// active.
    ///
    /// A cluster in `error` can be scaled too: nodes that an earlier failure left unconfigured or unstarted are
    /// configured and started, those that are decommissioned leave. So scaling it to the counts that it has repairs it.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::UnknownGroup`], [`Error::Node`], [`Error::Busy`], [`Error::Interrupted`]: nothing
    /// was touched. Otherwise as [`Clusters::create`].
    pub async fn scale(
        &self,
        name: &ClusterName,
        request: &ScaleRequest,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        loop {
            let stored = self.stored(name).await?;
            self.refuse_busy(&stored).await?;
            match self.begin_scale(stored, None, request, control).await {
                // Somebody was quicker: look again at what it does.
                Err(Error::Store(StoreError::Overtaken | StoreError::Gone)) => {}
                ended => return ended,
            }
        }
    }

    /// `specification`: what the cluster is to be from now on, with the counts of the request.
    pub(crate) async fn begin_scale(
        &self,
        mut stored: StoredCluster,
        specification: Option<ClusterSpecification>,
        request: &ScaleRequest,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        if let Some(specification) = specification {
            stored.cluster.specification = specification;
        }
        // Only whether it can be, and how many: who leaves is chosen when it is known who is still there.
        let selection = select(&stored.cluster, &stored.nodes, request, &BTreeSet::new())?;
        let now = self.shared.clock.now();
        let operation = self.operation(OperationKind::Scale, Stage::Validate, selection.counts.clone());
        let state = standing::state(&operation, []);
        let mut cluster = Cluster { state, updated_at: now, ..stored.cluster };
        for (group, counts) in &selection.counts {
            if let Some(group) = cluster.specification.groups.get_mut(group) {
                group.count = counts.wanted;
            }
        }
        cluster.specification.check()?;
        let begin = Begin { expected: Some(stored.fence), cluster, nodes: Vec::new(), operation };
        self.begin(begin, stored.nodes, Start::Scale(request.clone()), control).await
    }

    /// Takes all of a cluster away: decommission (unless `force`) → servers → gone.
    ///
    /// An operation under way is called off first: it stops quietly and leaves nothing behind. One that runs in another
    /// process ends with the termination there, and this call waits for that; one whose process died is taken over.
    ///
    /// # Errors
    /// [`Error::Unknown`]: nothing was touched. [`Error::Failed`] when a hook failed (nothing was removed), or something is left;
    /// terminating again tries again.
    pub async fn terminate(
        &self,
        name: &ClusterName,
        force: bool,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        self.terminate_known(name, force, control, false).await
    }

    /// `known`: the cluster has been seen. When it is gone then, another was quicker, and what was asked for is done.
    async fn terminate_known(
        &self,
        name: &ClusterName,
        force: bool,
        control: &ClusterControl,
        mut known: bool,
    ) -> Result<ClusterOutcome, Error> {
        // The operation of which this call has requested the end: a store that fails from then on has not left
        // everything untouched.
        let mut requested: Option<(ClusterOperation, Vec<Node>)> = None;
        let unnoted = |error: Error, requested: &Option<(ClusterOperation, Vec<Node>)>| match (error, requested) {
            (Error::Store(source), Some((open, nodes))) => Error::Unrecorded {
                cluster: name.to_string(),
                number: open.number,
                kind: open.kind,
                stage: open.stage,
                nodes: nodes.iter().filter(|node| node.exists()).cloned().collect(),
                source,
            },
            (error, _) => error,
        };
        loop {
            let stored = match self.stored(name).await {
                Err(Error::Unknown { .. }) if known => {
                    let number = self.next_number(name).await.map_or(0, |next| next.saturating_sub(1));
                    let state = OperationState::Done;
                    return Ok(ClusterOutcome { number, state, cluster: None, nodes: Vec::new() });
                }
                stored => stored.map_err(|error| unnoted(error, &requested))?,
            };
            known = true;
            let Some(open) = &stored.open else {
                return match self.begin_terminate(stored, force, control).await {
                    // Somebody was quicker: look again at what it does.
                    Err(Error::Store(StoreError::Overtaken | StoreError::Gone)) => continue,
                    ended => ended.map_err(|error| unnoted(error, &requested)),
                };
            };
            // A termination under way is what is asked for: it is waited for.
            if open.kind != OperationKind::Terminate {
                let request = Requests { cancel: false, delete: true };
                let open_still = self.shared.store.request(name, open.number, request).await;
                if !open_still.map_err(|error| unnoted(error.into(), &requested))? {
                    continue;
                }
                requested = Some((open.clone(), stored.nodes.clone()));
            }
            let number = open.number;
            if !self.lives(&stored).await {
                match self.resume_one(stored, control).await.outcome {
                    Err(error) if !ended_by_another(&error) && !matches!(error, Error::Failed(_)) => return Err(error),
                    _ => continue,
                }
            }
            tokio::select! {
                biased;
                () = control.left().cancelled() => {
                    return Err(Error::LeftOpen { cluster: name.to_string(), number });
                }
                () = tokio::time::sleep(self.shared.limits.watch_interval) => {}
            }
        }
    }

    /// The termination that follows an operation, which is one itself: boxed, since a future cannot hold itself.
    fn terminate_boxed<'c>(
        &'c self,
        name: &'c ClusterName,
        control: &'c ClusterControl,
    ) -> BoxFuture<'c, Result<ClusterOutcome, Error>> {
        Box::pin(self.terminate_known(name, false, control, true))
    }

    async fn begin_terminate(
        &self,
        stored: StoredCluster,
        force: bool,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        let mut counts = BTreeMap::<NodeGroupName, Counts>::new();
        for node in stored.nodes.iter().filter(|node| node.exists()) {
            counts.entry(node.group.clone()).or_insert(Counts { before: 0, wanted: 0 }).before += 1;
        }
        let leaving = |node: Node| Node { role: NodeRole::Leaving, ..node };
        let nodes: Vec<Node> = stored.nodes.into_iter().map(leaving).collect();
        let now = self.shared.clock.now();
        let mut operation = self.operation(OperationKind::Terminate, Stage::Decommission, counts);
        operation.force = force;
        let cluster = Cluster { state: standing::state(&operation, []), updated_at: now, ..stored.cluster };
        let begin = Begin { expected: Some(stored.fence), cluster, nodes, operation };
        self.begin(begin, Vec::new(), Start::Terminate, control).await
    }

    /// Requests that the operation under way is called off, wherever it runs. Where none is, a deletion that was
    /// requested and has not begun is withdrawn.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn cancel(&self, name: &ClusterName) -> Result<CalledOff, Error> {
        let stored = self.stored(name).await?;
        if let Some(open) = &stored.open {
            let requested = self.shared.store.request(name, open.number, Requests { cancel: true, delete: false });
            return Ok(if requested.await? { CalledOff::Operation(open.number) } else { CalledOff::Nothing });
        }
        Ok(if self.withdraw(name).await? { CalledOff::Deletion } else { CalledOff::Nothing })
    }

    /// Withdraws a deletion that was requested and has not begun. False when there was none.
    ///
    /// # Errors
    /// The store's.
    pub async fn withdraw(&self, name: &ClusterName) -> Result<bool, Error> {
        Ok(self.shared.store.withdraw(name).await?)
    }

    /// Every cluster, by name; without nodes.
    ///
    /// # Errors
    /// The store's.
    pub async fn list(&self) -> Result<Vec<ClusterStatus>, Error> {
        let mut all = Vec::new();
        for stored in self.shared.store.clusters().await? {
            all.push(self.status_of(stored).await);
        }
        Ok(all)
    }

    /// One cluster with its nodes and its operation.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn status(&self, name: &ClusterName) -> Result<ClusterStatus, Error> {
        let stored = self.stored(name).await?;
        Ok(self.status_of(stored).await)
    }

    pub(crate) async fn status_of(&self, stored: StoredCluster) -> ClusterStatus {
        let operation_lives = stored.open.is_some() && self.lives(&stored).await;
        ClusterStatus {
            cluster: stored.cluster,
            nodes: stored.nodes,
            operation: stored.open,
            operation_lives,
            deletion_requested: stored.requests.delete,
            seen: None,
        }
    }

    /// As [`Clusters::status`], compared with what Scaleway says now. Nothing is changed: a difference is taken up by the
    /// next operation, which looks, too.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's. When Scaleway does not answer, the inner error says so; the status is what is
    /// known here.
    pub async fn compare(&self, name: &ClusterName) -> Result<(ClusterStatus, Result<(), Failure>), Error> {
        let mut status = self.status(name).await?;
        let with_server: Vec<&Node> = status.nodes.iter().filter(|node| node.server.is_some()).collect();
        let ids: Vec<String> = with_server.iter().filter_map(|node| node.server.clone()).collect();
        let at = self.shared.clock.now();
        let seen = match look::see(&self.shared.client, &status.cluster.specification.zone, &ids).await {
            Ok(seen) => seen,
            Err(failed) => return Ok((status, Err(failed))),
        };
        let nodes =
            with_server.iter().map(|node| sight(node, node.server.as_ref().and_then(|id| seen.get(id)))).collect();
        status.seen = Some(ClusterObservation { at, nodes });
        Ok((status, Ok(())))
    }

    /// What was done with the clusters of this name, the newest operation first; also after its termination.
    ///
    /// # Errors
    /// [`Error::Unknown`] when there never was one (or its history is forgotten), and the store's.
    pub async fn history(&self, name: &ClusterName) -> Result<Vec<ClusterHistory>, Error> {
        let operations = self.shared.store.operations(name, MOST_OPERATIONS).await?;
        if operations.is_empty() {
            return Err(self.unknown(name).await?);
        }
        let mut events: BTreeMap<u64, Vec<ClusterEvent>> = BTreeMap::new();
        for event in self.shared.store.events(name, None, 0, MOST_EVENTS).await? {
            events.entry(event.operation).or_default().push(event);
        }
        let with_events = |operation: ClusterOperation| {
            let events = events.remove(&operation.number).unwrap_or_default();
            ClusterHistory { operation, events }
        };
        Ok(operations.into_iter().map(with_events).collect())
    }

    /// The events of one operation after the one with this sequence, the oldest first: for a view of what another
    /// process does.
    ///
    /// # Errors
    /// The store's.
    pub async fn events(&self, name: &ClusterName, operation: u64, after: u64) -> Result<Vec<ClusterEvent>, Error> {
        Ok(self.shared.store.events(name, Some(operation), after, MOST_EVENTS).await?)
    }

    fn operation(
        &self,
        kind: OperationKind,
        stage: Stage,
        counts: BTreeMap<NodeGroupName, Counts>,
    ) -> ClusterOperation {
        let begun = ClusterOperation::begun(kind, stage, &self.shared.runner, self.shared.clock.now());
        ClusterOperation { counts, ..begun }
    }

    /// Stores an operation under the policies of this moment, and runs it to its end.
    async fn begin(
        &self,
        mut begin: Begin,
        unchanged: Vec<Node>,
        start: Start,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        let shared = &self.shared;
        let name = begin.cluster.name.clone();
        let Some(active) = Active::new(shared, &name) else {
            return Err(Error::Busy {
                cluster: name.to_string(),
                number: begin.operation.number,
                kind: begin.operation.kind,
                stage: begin.operation.stage,
            });
        };
        let policies = shared.policies.pin();
        begin.operation.policies = serde_json::to_value(policies.identities()).unwrap_or_default();
        let (cluster, mut operation) = (begin.cluster.clone(), begin.operation.clone());
        let nodes = begin.nodes.iter().chain(&unchanged).map(|node| (node.name.clone(), node.clone())).collect();
        let (fence, number) = shared.store.begin(begin).await?;
        operation.number = number;
        let (kind, counts) = (operation.kind, operation.counts.clone());
        let run = Run::new(Arc::clone(shared), fence, policies, control, Book { cluster, nodes, operation });
        let at = run.now();
        let opened = run.change(|_, change| change.events.push((at, ClusterHappening::Opened { kind, counts }))).await;
        let start = opened.map_or_else(Start::Handler, |()| start);
        self.run_to_end(run, start, active).await
    }

    /// Runs an operation, and the termination that a deletion meanwhile makes of it.
    pub(crate) async fn run_to_end(&self, run: Run, start: Start, active: Active) -> Result<ClusterOutcome, Error> {
        let ended = perform(&run, start).instrument(run.trace.operation()).await;
        let (name, control, number) = (run.name.clone(), run.control.clone(), run.book.lock().operation.number);
        let terminates = run.book.lock().operation.kind == OperationKind::Terminate;
        let unfinished =
            matches!(ended, Err(Error::LeftOpen { .. } | Error::TakenOver { .. } | Error::Unrecorded { .. }));
        if !unfinished {
            let state = ended.as_ref().map_or_else(|_| run.book.lock().operation.state, |outcome| outcome.state);
            run.trace.closed(state, ended.as_ref().err().map(ToString::to_string).as_deref());
        }
        drop((run, active));
        if terminates || unfinished {
            return ended;
        }
        // Requested while it ran, however it ended.
        match self.shared.store.cluster(&name).await {
            Ok(Some(stored)) if stored.open.is_none() && stored.requests.delete => {}
            Ok(_) => return ended,
            Err(error) => {
                tracing::warn!(cluster = %name, %error, "whether its deletion is requested cannot be read");
                return ended;
            }
        }
        match self.terminate_boxed(&name, &control).await {
            Ok(_) => Ok(ClusterOutcome { number, state: OperationState::Cancelled, cluster: None, nodes: Vec::new() }),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn stored(&self, name: &ClusterName) -> Result<StoredCluster, Error> {
        match self.shared.store.cluster(name).await? {
            Some(stored) => Ok(stored),
            None => Err(self.unknown(name).await?),
        }
    }

    /// The number that the cluster's next operation gets.
    pub(crate) async fn next_number(&self, name: &ClusterName) -> Result<u64, Error> {
        let last = self.shared.store.operations(name, 1).await?;
        Ok(last.first().map_or(1, |operation| operation.number + 1))
    }

    pub(crate) async fn unknown(&self, name: &ClusterName) -> Result<Error, Error> {
        let all = self.shared.store.clusters().await?;
        let near = all
            .iter()
            .map(|stored| stored.cluster.name.as_str())
            .map(|known| (strsim::jaro_winkler(name.as_str(), known), known))
            .filter(|(likeness, _)| *likeness >= 0.8)
            .max_by(|left, right| left.0.total_cmp(&right.0));
        Ok(Error::Unknown { name: name.to_string(), near: near.map(|(_, near)| near.to_owned()) })
    }

    /// Whether somebody works on the cluster's open operation.
    pub(crate) async fn lives(&self, stored: &StoredCluster) -> bool {
        let Some(open) = &stored.open else { return false };
        if open.runner == self.shared.runner {
            return self.shared.active.lock().contains(&stored.cluster.name);
        }
        self.shared.store.runner_lives(&open.runner).await
    }

    pub(crate) async fn refuse_busy(&self, stored: &StoredCluster) -> Result<(), Error> {
        let Some(open) = &stored.open else { return Ok(()) };
        let (cluster, number, kind) = (stored.cluster.name.to_string(), open.number, open.kind);
        let busy = Error::Busy { cluster, number, kind, stage: open.stage };
        if self.lives(stored).await {
            return Err(busy);
        }
        // Only what is still open now was left by a dead process: the other may have ended between the two looks.
        match self.shared.store.cluster(&stored.cluster.name).await? {
            Some(now) if now.fence == stored.fence && now.open.is_some() => {
                Err(Error::Interrupted { cluster: stored.cluster.name.to_string(), number, kind })
            }
            _ => Err(busy),
        }
    }
}
