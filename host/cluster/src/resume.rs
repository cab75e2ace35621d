//! How operations that a dead process left open are taken over and ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_lifecycle::{OperationId, OperationState as JournalState, Phase, ResourceKind};
use windlass_policy::PolicyIdentity;
use windlass_policy::slots::SlotName;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::ServerState;

use crate::clusters::Clusters;
use crate::name::ClusterName;
use crate::operation::Start;
use crate::record::{ClusterEventKind, ClusterState, Node, NodeState, OperationKind, Recovery, Stage};
use crate::run::{Book, Run, Stop};
use crate::status::ClusterOutcome;
use crate::store::{StoreError, StoredCluster};
use crate::{ClusterControl, Error};

/// What a resume did with one cluster.
#[derive(Debug)]
pub struct ResumedCluster {
    pub cluster: ClusterName,
    /// The operation that was taken over.
    pub number: u64,
    /// How it ended: a creation or scaling as a failure with what its recovery did, a termination as done.
    pub outcome: Result<ClusterOutcome, Error>,
}

impl Clusters {
    /// Takes over what processes that died left open, and ends it: first the servers' operations in the journal, then
    /// the clusters'.
    ///
    /// # Expected flow
    /// A *creation* or *scaling* goes to the handler, as failed where it stood with the cause `interrupted`
    /// (`cancelled` where somebody had cancelled it), under the policies with which it began; one whose recovery was
    /// decided already is recovered as decided. A *termination*, and a deletion that was requested, is carried out.
    /// Where the state directory was taken over after a creation or scaling began, no policy is asked and no node
    /// removed: it may have gone on elsewhere, and the cluster be in use.
    ///
    /// # Caveats
    /// Policies that were replaced more than a day ago, and with which no server's operation is open, may be forgotten:
    /// what of them cannot be loaded any more is replaced by the default, and the decision records that.
    ///
    /// # Errors
    /// The journal's and the store's. What becomes of single clusters stands in their outcome.
    pub async fn resume(&self, control: &ClusterControl) -> Result<Vec<ResumedCluster>, Error> {
        self.shared.lifecycle.resume(&control.child_for(None)).await?;
        self.resume_all_but(None, control).await
    }

    /// Beside work on one cluster: as [`Clusters::resume`] for all others, and of the servers' operations those that
    /// are due ([`Lifecycle::resume_due`](windlass_lifecycle::Lifecycle::resume_due)).
    ///
    /// # Errors
    /// As there.
    pub async fn resume_others(
        &self,
        but: &ClusterName,
        control: &ClusterControl,
    ) -> Result<Vec<ResumedCluster>, Error> {
        self.shared.lifecycle.resume_due(&control.child_for(None)).await?;
        self.resume_all_but(Some(but), control).await
    }

    /// Before work on one cluster: ends what a process that died left open of it, a deletion that was requested
    /// included, and lets the journal forget some of its old operations. `None` when there is nothing to end.
    ///
    /// # Errors
    /// As [`Clusters::resume`].
    pub async fn resume_before(
        &self,
        name: &ClusterName,
        control: &ClusterControl,
    ) -> Result<Option<ResumedCluster>, Error> {
        self.shared.lifecycle.forget_some().await;
        match self.shared.store.cluster(name).await? {
            Some(stored) => self.resume_stored(stored, control).await,
            None => Ok(None),
        }
    }

    async fn resume_all_but(
        &self,
        but: Option<&ClusterName>,
        control: &ClusterControl,
    ) -> Result<Vec<ResumedCluster>, Error> {
        let mut resumed = Vec::new();
        for stored in self.shared.store.clusters().await? {
            if but == Some(&stored.cluster.name) {
                continue;
            }
            if control.left().is_cancelled() {
                break;
            }
            let (name, number) = (stored.cluster.name.clone(), stored.open.as_ref().map_or(0, |open| open.number));
            match self.resume_stored(stored, control).await {
                Ok(one) => resumed.extend(one),
                // What was done so far is reported all the same.
                Err(error) => resumed.push(ResumedCluster { cluster: name, number, outcome: Err(error) }),
            }
        }
        Ok(resumed)
    }

    /// Boxed: the compiler need not look through it for each future that holds it.
    fn resume_stored<'c>(
        &'c self,
        stored: StoredCluster,
        control: &'c ClusterControl,
    ) -> BoxFuture<'c, Result<Option<ResumedCluster>, Error>> {
        Box::pin(async move {
            let name = stored.cluster.name;
            match stored.open {
                Some(_) => self.resume_cluster(&name, control).await,
                None if stored.requests.delete => {
                    let outcome = self.terminate(&name, false, control).await;
                    Ok(Some(ResumedCluster { cluster: name, number: 0, outcome }))
                }
                None => Ok(None),
            }
        })
    }

    /// As [`Clusters::resume`], for one cluster: takes its open operation over when nobody works on it. `None` when
    /// there is nothing to take over.
    ///
    /// # Errors
    /// As there.
    pub async fn resume_cluster(
        &self,
        name: &ClusterName,
        control: &ClusterControl,
    ) -> Result<Option<ResumedCluster>, Error> {
        let Some(stored) = self.shared.store.cluster(name).await? else { return Ok(None) };
        if stored.open.is_none() || self.lives(&stored).await {
            return Ok(None);
        }
        let one = self.resume_one(stored, control).await;
        Ok((!one.outcome.as_ref().is_err_and(ended_by_another)).then_some(one))
    }

    pub(crate) async fn resume_one(&self, stored: StoredCluster, control: &ClusterControl) -> ResumedCluster {
        let cluster = stored.cluster.name.clone();
        let number = stored.open.as_ref().map_or(0, |open| open.number);
        let outcome = self.take_over(stored, control).await;
        ResumedCluster { cluster, number, outcome }
    }

    async fn take_over(&self, stored: StoredCluster, control: &ClusterControl) -> Result<ClusterOutcome, Error> {
        let shared = &self.shared;
        let zone = stored.cluster.specification.zone.clone();
        shared.lifecycle.check_history_in(std::slice::from_ref(&zone)).await?;
        let name = stored.cluster.name.clone();
        let cancelled = stored.requests.cancel;
        let Some(mut operation) = stored.open else { return Err(self.unknown(&name).await?) };
        let busy = Error::Busy {
            cluster: name.to_string(),
            number: operation.number,
            kind: operation.kind,
            stage: operation.stage,
        };
        let Some(active) = shared.active.hold(&name) else { return Err(busy) };
        let identities: Vec<PolicyIdentity> = serde_json::from_value(operation.policies.clone()).unwrap_or_default();
        let policies = shared.policies.pinned(&identities);
        let lost = policies.lost(&SlotName::ALL);
        if !lost.is_empty() {
            let (cluster, number) = (name.to_string(), operation.number);
            return Err(Error::PolicyLost { cluster, number, lost: lost.join("; ") });
        }
        // Its servers' own operations first: only then the journal says of each node what became of it.
        let creations = stored.nodes.iter().filter_map(|node| node.creation.clone()).collect();
        shared.lifecycle.resume_creations(&creations, &control.child_for(None)).await?;
        let runner = shared.runner.clone();
        let fence = match shared.store.take_over(&name, stored.fence, &runner).await {
            Err(StoreError::Overtaken) => return Err(busy),
            fence => fence?,
        };
        let from = std::mem::replace(&mut operation.runner, runner);
        let (kind, stage, began_at) = (operation.kind, operation.stage, operation.began_at);
        let mut nodes: BTreeMap<String, Node> =
            stored.nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
        for node in nodes.values_mut() {
            self.settle(node, &zone).await;
        }
        let book = Book { cluster: stored.cluster, nodes, operation };
        let run = Run::new(Arc::clone(shared), fence, policies, control, book);
        let at = run.now();
        let elsewhere = kind != OperationKind::Terminate && shared.lifecycle.began_elsewhere(began_at);
        let taken = run
            .change(|book, change| {
                if elsewhere && book.operation.recovery.is_none() {
                    book.operation.recovery = Some(leave_as_it_is(stage));
                    change.operation = Some(book.operation.clone());
                }
                change.nodes = book.nodes.values().cloned().collect();
                change.events.push((at, ClusterEventKind::TakenOver { from }));
            })
            .await;
        let start = match (taken, kind) {
            (Err(stop), _) => Start::Handler(stop),
            (Ok(()), OperationKind::Terminate) if run.book.lock().operation.recovery.is_none() => Start::Terminate,
            (Ok(()), _) if cancelled => Start::Handler(Stop::called_off(stage)),
            (Ok(()), _) => {
                let words = "the process that ran the operation ended before it did";
                Start::Handler(Stop::failed(stage, Failure::of_class(FailureClass::Interrupted, words)))
            }
        };
        self.run_to_end(run, start, active, control).await
    }

    /// Where a node stands that a dead process was making or removing: as the journal says.
    async fn settle(&self, node: &mut Node, zone: &Zone) {
        let was_moving = matches!(node.state, NodeState::Creating | NodeState::Removing);
        let Some(creation) = node.creation.as_ref().filter(|_| was_moving) else { return };
        let unsure = |node: &mut Node, problem: String| {
            node.state = NodeState::Left;
            node.problem = Some(problem);
        };
        match self.shared.lifecycle.journal().operation(creation) {
            Ok(row) => match row.state {
                JournalState::Done if row.ended_by.is_some() => node.state = NodeState::Removed,
                JournalState::Done => {
                    node.state = NodeState::Running;
                    if node.server.is_none() {
                        node.server = self.server_of(creation);
                    }
                }
                // What of an unverified one comes late is removed by its second look.
                JournalState::Undone | JournalState::Kept | JournalState::Unverified => {
                    node.state = NodeState::Removed;
                }
                // It is left alone, so it is no node any more.
                JournalState::Abandoned => node.state = NodeState::Removed,
                JournalState::Left | JournalState::Open => {
                    let problem =
                        format!("operation {creation} has not ended well: see `windlass operation show {creation}`");
                    unsure(node, problem);
                }
            },
            // The journal is lost, or another's. Powering on is the last step of a creation: whatever runs has
            // everything.
            Err(error @ windlass_lifecycle::Error::OperationUnknown { .. }) => {
                match self.shared.lifecycle.find_created(zone, creation).await {
                    Ok(Some(server)) if server.state == ServerState::Running => {
                        node.state = NodeState::Running;
                        node.server_type.get_or_insert(server.commercial_type);
                        node.server = Some(server.id);
                    }
                    Ok(_) => unsure(node, error.to_string()),
                    Err(error) => unsure(node, error.to_string()),
                }
            }
            Err(error) => unsure(node, error.to_string()),
        }
    }

    /// The server that a creation of the journal made.
    fn server_of(&self, creation: &OperationId) -> Option<String> {
        let entries = self.shared.lifecycle.journal().entries(creation).ok()?;
        entries.into_iter().filter(|entry| entry.phase == Phase::Outcome).find_map(|entry| {
            entry.resource.filter(|resource| resource.kind == ResourceKind::Server).map(|resource| resource.id)
        })
    }
}

/// What is done about an operation that may have gone on elsewhere: no policy could know.
fn leave_as_it_is(stage: Stage) -> Recovery {
    let words = "the state directory was taken over after the operation began, which may have continued elsewhere";
    Recovery {
        stage,
        cause: Failure::of_class(FailureClass::Interrupted, words),
        state: ClusterState::Error,
        delete: Vec::new(),
        decided_by: "the host".to_owned(),
        reason: Some("no node is removed; scaling the cluster to the counts that it has repairs it".to_owned()),
        decision: String::new(),
    }
}

/// Whether an operation could not be taken over because it is no longer there to be: the process that seemed dead had
/// just ended it, or another took it over first.
pub(crate) fn ended_by_another(error: &Error) -> bool {
    matches!(error, Error::Busy { .. } | Error::TakenOver { .. } | Error::Store(StoreError::Gone))
}
