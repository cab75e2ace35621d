//! A running operation on a cluster: what it knows, how it is stored, and how it stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_policy::PinnedPolicies;
use windlass_policy::slots::retry::{self, Verdict};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Retry, Slot};

use crate::control::ClusterControl;
use crate::failure;
use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEvent, ClusterHappening, ClusterOperation, Node, NodeRole, OperationKind, Stage};
use crate::shared::Shared;
use crate::store::{Change, Fence, StoreError};
use crate::trace::{Step, Trace};

/// The longest single wait between two attempts, whatever a policy says.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// The longest sum of the waits of one step, whatever a policy says.
const MAX_WAITS: Duration = Duration::from_secs(3_600);
/// Attempts of one step at most, whatever a policy says.
const MAX_ATTEMPTS: u32 = 500;
/// Reasons of one operation at most: a thousand nodes can fail with a thousand different words.
const MAX_REASONS: usize = 50;

/// Why an operation does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A stage failed, or the operation was called off.
    Failed(Box<StageFailure>),
    /// It is left to the next start.
    Left,
    /// The cluster is not stored any more.
    Gone,
    /// Another process goes on with it.
    Overtaken,
    /// The store cannot be used, so nothing more may be done.
    Store(StoreError),
}

/// A stage that failed.
#[derive(Clone, Debug)]
pub(crate) struct StageFailure {
    pub(crate) stage: Stage,
    pub(crate) failure: Failure,
}

impl Stop {
    pub(crate) fn failed(stage: Stage, failure: Failure) -> Self {
        Self::Failed(Box::new(StageFailure { stage, failure }))
    }

    pub(crate) fn called_off(stage: Stage) -> Self {
        Self::failed(stage, failure::of_class(FailureClass::Cancelled, "the operation was cancelled"))
    }

    /// Of several, the one that says most: what ends everything first, then a failure, then one that only follows from
    /// another.
    pub(crate) fn or_graver(self, other: Self) -> Self {
        let gravity = |stop: &Self| match stop {
            Self::Store(_) => 5,
            Self::Overtaken => 4,
            Self::Gone => 3,
            Self::Left => 2,
            Self::Failed(failed) if failed.failure.class != FailureClass::Cancelled => 1,
            Self::Failed(_) => 0,
        };
        if gravity(&other) > gravity(&self) { other } else { self }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Gone => Self::Gone,
            StoreError::Overtaken => Self::Overtaken,
            other => Self::Store(other),
        }
    }
}

/// What is known of the cluster: what was stored last.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) cluster: Cluster,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) operation: ClusterOperation,
}

/// A running operation.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: ClusterName,
    pub(crate) fence: Fence,
    pub(crate) policies: PinnedPolicies,
    pub(crate) control: ClusterControl,
    /// Calls the stages off: by the caller, or because another process requests it.
    pub(crate) cancel: CancellationToken,
    pub(crate) book: Mutex<Book>,
    pub(crate) trace: Trace,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.control.exit(&self.name, self.book.lock().operation.number);
    }
}

impl Run {
    pub(crate) fn new(
        shared: Arc<Shared>,
        fence: Fence,
        policies: PinnedPolicies,
        control: &ClusterControl,
        book: Book,
    ) -> Self {
        let trace = Trace::of_operation(&book.cluster, &book.operation);
        control.enter(&book.cluster.name, book.operation.number, &shared);
        Self {
            trace,
            shared,
            name: book.cluster.name.clone(),
            fence,
            policies,
            cancel: control.cancelled().child_token(),
            control: control.clone(),
            book: Mutex::new(book),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.clock.now()
    }

    /// Changes what is known, stores the change, and tells who listens. What is known stays changed also when it cannot
    /// be stored: it is what happened.
    pub(crate) async fn change(&self, edit: impl FnOnce(&mut Book, &mut Change)) -> Result<(), Stop> {
        let (change, number) = {
            let mut book = self.book.lock();
            let mut change = Change::default();
            edit(&mut book, &mut change);
            (change, book.operation.number)
        };
        let events = change.events.clone();
        self.shared.store.commit(&self.name, self.fence, change).await?;
        for (at, what) in events {
            self.tell(number, at, what);
        }
        Ok(())
    }

    pub(crate) fn tell(&self, operation: u64, at: u64, what: ClusterHappening) {
        self.control.send(ClusterEvent { sequence: 0, cluster: self.name.clone(), operation, at, what });
    }

    /// Begins a step, and so its stage.
    pub(crate) async fn begin_step(&self, stage: Stage, words: &'static str, total: usize) -> Result<Step, Stop> {
        if self.control.left().is_cancelled() {
            return Err(Stop::Left);
        }
        tracing::info!(cluster = %self.name, %stage, step = words, total, "step");
        let at = self.now();
        self.change(|book, change| {
            book.operation.stage = stage;
            change.operation = Some(book.operation.clone());
            let total = u32::try_from(total).unwrap_or(u32::MAX);
            change.events.push((at, ClusterHappening::StepBegan { stage, step: words.to_owned(), total }));
        })
        .await?;
        self.trace.begin_step(stage, words);
        Ok(Step { stage, words })
    }

    /// Changes one node, with what happened to it.
    pub(crate) async fn change_node(
        &self,
        name: &str,
        edit: impl FnOnce(&mut Node),
        event: Option<ClusterHappening>,
    ) -> Result<(), Stop> {
        let at = self.now();
        self.change(|book, change| {
            if let Some(node) = book.nodes.get_mut(name) {
                edit(node);
                change.nodes.push(node.clone());
            }
            change.events.extend(event.map(|event| (at, event)));
        })
        .await
    }

    pub(crate) fn done(step: Step, node: &str) -> ClusterHappening {
        ClusterHappening::NodeDone { stage: step.stage, step: step.words.to_owned(), node: node.to_owned() }
    }

    pub(crate) fn failed(step: Step, node: &str, reason: &str) -> ClusterHappening {
        ClusterHappening::NodeFailed {
            stage: step.stage,
            step: step.words.to_owned(),
            node: node.to_owned(),
            reason: failure::bounded(reason),
        }
    }

    /// The names of the nodes that `which` picks, in the order of groups and numbers.
    pub(crate) fn names(&self, which: impl Fn(&Node) -> bool) -> Vec<String> {
        let book = self.book.lock();
        let mut nodes: Vec<&Node> = book.nodes.values().filter(|node| which(node)).collect();
        nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
        nodes.into_iter().map(|node| node.name.clone()).collect()
    }

    pub(crate) fn names_of(&self, role: NodeRole) -> Vec<String> {
        self.names(|node| node.role == role)
    }

    pub(crate) fn node(&self, name: &str) -> Option<Node> {
        self.book.lock().nodes.get(name).cloned()
    }

    /// Notes something for people. It is stored with the next change of the operation.
    pub(crate) fn add_reason(&self, reason: impl Into<String>) {
        let reason = reason.into();
        let reasons = &mut self.book.lock().operation.reasons;
        if reasons.len() < MAX_REASONS && !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }

    /// Keeps what policies said about a decision, and which of them failed.
    pub(crate) fn quote<S: Slot>(&self, about: &str, decision: &windlass_policy::Decision<S>) {
        for fallback in &decision.fallbacks {
            tracing::warn!(cluster = %self.name, about, %fallback, "a policy failed");
            self.add_reason(format!("{}: {fallback}", S::NAME));
        }
        if let Some(reason) = &decision.reason {
            self.add_reason(format!("{} of {about}: {reason}", S::NAME));
        }
    }

    /// Waits, unless the operation is to end before.
    pub(crate) async fn sleep(&self, stage: Stage, duration: Duration) -> Result<(), Stop> {
        tokio::select! {
            biased;
            () = self.control.left().cancelled() => Err(Stop::Left),
            () = self.cancel.cancelled() => Err(Stop::called_off(stage)),
            () = tokio::time::sleep(duration) => Ok(()),
        }
    }

    /// Tries until it works or the retry slot gives up. Called off, it ends what it tries.
    pub(crate) async fn attempt<T, F, Fut>(&self, step: Step, mut call: F) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let began = Instant::now();
        let (mut attempt, mut waited) = (1, Duration::ZERO);
        loop {
            let tried = tokio::select! {
                biased;
                () = self.control.left().cancelled() => return Err(Stop::Left),
                () = self.cancel.cancelled() => return Err(Stop::called_off(step.stage)),
                tried = call() => tried,
            };
            match tried {
                Ok(value) => return Ok(value),
                Err(failed) => waited += self.after_failure(step, began.elapsed(), waited, attempt, failed).await?,
            }
            attempt += 1;
        }
    }

    /// Asks the retry slot and waits as it says: gives how long that was. `elapsed` is what the slot is told; `waited`
    /// the sum of the waits so far, which is bounded.
    pub(crate) async fn after_failure(
        &self,
        step: Step,
        elapsed: Duration,
        waited: Duration,
        attempt: u32,
        failed: Failure,
    ) -> Result<Duration, Stop> {
        let (kind, zone) = {
            let book = self.book.lock();
            (book.operation.kind, book.cluster.specification.zone.to_string())
        };
        let question = retry::Question {
            now: self.now(),
            random: self.shared.random(),
            operation: format!("{kind}-cluster"),
            step: step.words.replace(' ', "-"),
            undoing: kind == OperationKind::Terminate || step.stage == Stage::Decommission,
            attempt,
            elapsed: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            // An operation on a cluster has no deadline of its own; its stages have.
            time_left: None,
            failure: failed.clone(),
            zone,
            // A stage works on the servers of several groups.
            group: None,
            server_type: None,
        };
        let decided = self.policies.decide::<Retry>(question);
        let decision = decided.instrument(self.trace.step(step)).await;
        let wait = match decision.answer.verdict {
            Verdict::Wait(wait) if attempt < MAX_ATTEMPTS => Some(Duration::from_millis(wait).min(MAX_WAIT)),
            _ => None,
        }
        .filter(|wait| waited + *wait <= MAX_WAITS);
        let Some(wait) = wait else {
            self.quote::<Retry>(step.words, &decision);
            return Err(Stop::failed(step.stage, failed));
        };
        let at = self.now();
        self.change(|_, change| {
            change.events.push((
                at,
                ClusterHappening::Waiting {
                    stage: step.stage,
                    step: step.words.to_owned(),
                    attempt,
                    milliseconds: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    failure: failure::words(&failed),
                    reason: decision.reason.clone(),
                },
            ));
        })
        .await?;
        self.sleep(step.stage, wait).await?;
        Ok(wait)
    }
}
