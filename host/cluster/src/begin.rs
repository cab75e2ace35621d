//! How operations on clusters begin: what they do is chosen and stored, and they are run to their end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use tracing::Instrument as _;
use windlass_concurrency::ActiveKey;
use windlass_policy::slots::types::Failure;

use crate::clusters::Clusters;
use crate::name::{ClusterName, NodeGroupName};
use crate::operation::{Start, perform};
use crate::record::{
    Cluster, ClusterEventKind, ClusterOperation, ClusterState, Counts, Node, NodeRole, OperationKind, OperationState,
    Stage,
};
use crate::resume::ended_by_another;
use crate::run::{Book, Run};
use crate::selection::{ScaleRequest, select};
use crate::specification::{ClusterSpecification, InvalidSpecification};
use crate::stages::validate;
use crate::status::{CalledOff, ClusterOutcome};
use crate::store::{Begin, Requests, StoreError, StoredCluster};
use crate::{ClusterControl, Error, standing};

/// Whether nothing of a cluster exists and nothing is under way: its record only says why a creation failed.
fn is_empty_error(stored: &StoredCluster) -> bool {
    stored.cluster.state == ClusterState::Error && stored.open.is_none() && stored.nodes.is_empty()
}

impl Clusters {
    /// Asks Scaleway whether it has what a specification wants. Gives what is wrong; nothing is spent and nothing
    /// stored.
    ///
    /// # Errors
    /// [`Error::Specification`] for what can be seen without asking, and the store's.
    pub async fn validate(&self, specification: &ClusterSpecification) -> Result<Vec<Failure>, Error> {
        specification.check()?;
        self.refuse_same_names(specification, None).await?;
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
        self.check_history()?;
        let shared = &self.shared;
        let name = specification.name.clone();
        let exists = |state| Error::Exists { name: name.to_string(), state };
        // What an earlier creation left as an error without a node is no cluster any more: this one takes its place.
        let expected = match shared.store.cluster(&name).await? {
            None => None,
            Some(stored) if is_empty_error(&stored) => Some(stored.fence),
            Some(stored) => return Err(exists(stored.cluster.state)),
        };
        self.refuse_same_names(&specification, None).await?;
        let now = shared.lifecycle.now();
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

    /// Refuses groups whose nodes would be called as another cluster's; those that a cluster of before has stay. Where
    /// the other clusters cannot be read, new groups are refused, too: hooks and people tell nodes by their names.
    ///
    /// Two clusters that begin at the same moment are not compared.
    pub(crate) async fn refuse_same_names(
        &self,
        specification: &ClusterSpecification,
        before: Option<&ClusterSpecification>,
    ) -> Result<(), Error> {
        let mut new = specification.clone();
        new.groups.retain(|name, _| before.is_none_or(|before| !before.groups.contains_key(name)));
        if new.groups.is_empty() {
            return Ok(());
        }
        let others = self.shared.store.clusters().await?;
        let problems = others.iter().flat_map(|other| new.groups_named_as_in(&other.cluster.specification));
        Ok(InvalidSpecification::all_of(problems)?)
    }

    /// Lets nodes come and go, in several groups at once: validate → decommission → resize → configure → start →
    /// active.
    ///
    /// A cluster in `error` can be scaled too: nodes that an earlier failure left unconfigured or unstarted are
    /// configured and started, those that are decommissioned leave. So scaling it to the counts that it has repairs it.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::UnknownGroup`], [`Error::UnknownNode`], [`Error::Node`], [`Error::Busy`],
    /// [`Error::Interrupted`]: nothing was touched. Otherwise as [`Clusters::create`].
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
        if stored.cluster.state == ClusterState::Abandoned {
            return Err(Error::Abandoned { cluster: stored.cluster.name.to_string() });
        }
        if let Some(specification) = specification {
            stored.cluster.specification = specification;
        }
        self.check_history()?;
        // Only whether it can be, and how many: who leaves is chosen when it is known who is still there.
        let selection = select(&stored.cluster, &stored.nodes, request, &BTreeSet::new())?;
        let now = self.shared.lifecycle.now();
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
    /// [`Error::Unknown`]: nothing was touched. [`Error::Failed`] when a hook failed (nothing was removed), or
    /// something is left; terminating again tries again.
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
        self.check_history()?;
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
                    // The caller waited for another process that terminated the cluster: report what that process kept.
                    let last = self.shared.store.operations(name, 1).await.unwrap_or_default().pop();
                    let (number, kept) = last.map(|last| (last.number, last.kept)).unwrap_or_default();
                    let state = OperationState::Done;
                    return Ok(ClusterOutcome { number, state, cluster: None, nodes: Vec::new(), kept });
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
        let now = self.shared.lifecycle.now();
        let mut operation = self.operation(OperationKind::Terminate, Stage::Decommission, counts);
        operation.force = force;
        let cluster = Cluster { state: standing::state(&operation, []), updated_at: now, ..stored.cluster };
        let begin = Begin { expected: Some(stored.fence), cluster, nodes, operation };
        self.begin(begin, Vec::new(), Start::Terminate, control).await
    }

    /// Requests that the operation under way is called off, wherever it runs. Where none is, a deletion that was
    /// requested and has not begun is withdrawn. An operation whose process has ended is undone by
    /// [`Clusters::resume_cluster`].
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::NotCancellable`], and the store's.
    pub async fn cancel(&self, name: &ClusterName) -> Result<CalledOff, Error> {
        self.check_history()?;
        let stored = self.stored(name).await?;
        if let Some(open) = &stored.open {
            if open.kind == OperationKind::Terminate {
                return Err(Error::NotCancellable { cluster: name.to_string(), number: open.number });
            }
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
        self.check_history()?;
        Ok(self.shared.store.withdraw(name).await?)
    }

    fn operation(
        &self,
        kind: OperationKind,
        stage: Stage,
        counts: BTreeMap<NodeGroupName, Counts>,
    ) -> ClusterOperation {
        let begun = ClusterOperation::begun(kind, stage, &self.shared.runner, self.shared.lifecycle.now());
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
        shared.lifecycle.check_history_in(std::slice::from_ref(&begin.cluster.specification.zone)).await?;
        let Some(active) = shared.active.hold(&name) else {
            return Err(Error::Busy {
                cluster: name.to_string(),
                number: begin.operation.number,
                kind: begin.operation.kind,
                stage: begin.operation.stage,
            });
        };
        let tenant = shared.objects.as_ref().map(|objects| objects.namespace.as_str());
        let policies = shared.policies.pin_of(tenant);
        begin.operation.policies = serde_json::to_value(policies.identities()).unwrap_or_default();
        let (cluster, mut operation) = (begin.cluster.clone(), begin.operation.clone());
        let nodes = begin.nodes.iter().chain(&unchanged).map(|node| (node.name.clone(), node.clone())).collect();
        let (fence, number) = shared.store.begin(begin).await?;
        operation.number = number;
        let (kind, counts) = (operation.kind, operation.counts.clone());
        let run = Run::new(Arc::clone(shared), fence, policies, control, Book { cluster, nodes, operation });
        let at = run.now();
        let opened = run.change(|_, change| change.events.push((at, ClusterEventKind::Opened { kind, counts }))).await;
        let start = opened.map_or_else(Start::Handler, |()| start);
        self.run_to_end(run, start, active, control).await
    }

    /// Runs an operation, and the termination that a deletion meanwhile makes of it.
    pub(crate) async fn run_to_end(
        &self,
        run: Run,
        start: Start,
        active: ActiveKey<ClusterName>,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        // Boxed: it is large, and who awaits it would have it in its own future, and on its thread's stack.
        let ended = Box::pin(perform(&run, start).instrument(run.trace.operation())).await;
        let (name, number) = (run.name.clone(), run.book.lock().operation.number);
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
                tracing::warn!(cluster = %name, %error, "cannot read whether its deletion is requested");
                return ended;
            }
        }
        match self.terminate_boxed(&name, control).await {
            Ok(ended) => {
                let (state, kept) = (OperationState::Cancelled, ended.kept);
                Ok(ClusterOutcome { number, state, cluster: None, nodes: Vec::new(), kept })
            }
            Err(error) => Err(error),
        }
    }
}
