//! A running operation on a cluster: what it knows, how it is stored, and how it stops.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tracing::Instrument as _;
use windlass_lifecycle::{Attempts, Cancellable, NotNoted, RequestedBy, SubjectOf};
use windlass_policy::PinnedPolicies;
use windlass_policy::slots::types::{Failure, FailureClass, Subject};
use windlass_policy::slots::{Slot, retry};

use crate::ClusterControl;
use crate::name::ClusterName;
use crate::record::{Cluster, ClusterEvent, ClusterEventKind, ClusterOperation, Node, NodeRole, OperationKind, Stage};
use crate::shared::Shared;
use crate::store::{Change, Fence, Requests, StoreError};
use crate::trace::{Step, Trace};

/// No attempt at a step begins later than this after the first one, whatever a policy says.
pub(crate) const MAX_WAITS: Duration = Duration::from_secs(3_600);
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
        Self::failed(stage, Failure::of_class(FailureClass::Cancelled, "the operation was cancelled"))
    }

    /// The more serious of two: what ends everything first, then a failure, then one that only follows from
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
    /// Its own: cancelled also where another process requests it of this operation.
    pub(crate) control: ClusterControl,
    /// As long as it lives, the control cancels this operation durably.
    _cancellable: Arc<Stored>,
    pub(crate) book: Mutex<Book>,
    pub(crate) trace: Trace,
}

/// An operation of the store, as its control cancels it.
struct Stored {
    shared: Arc<Shared>,
    name: ClusterName,
    number: u64,
}

#[async_trait]
impl Cancellable for Stored {
    /// As a request of another process would be.
    async fn note_cancelled(&self, _by: &str) -> Result<(), NotNoted> {
        let request = Requests { cancel: true, delete: false };
        Ok(self.shared.store.request(&self.name, self.number, request).await.map(drop)?)
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
        let (name, number) = (book.cluster.name.clone(), book.operation.number);
        let control = control.child();
        let cancellable = Arc::new(Stored { shared: Arc::clone(&shared), name: name.clone(), number });
        control.enter(&cancellable);
        Self { trace, shared, name, fence, policies, control, _cancellable: cancellable, book: Mutex::new(book) }
    }

    pub(crate) fn now(&self) -> u64 {
        self.shared.lifecycle.now()
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

    pub(crate) fn tell(&self, operation: u64, at: u64, what: ClusterEventKind) {
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
            change.events.push((at, ClusterEventKind::StepBegan { stage, step: words.to_owned(), total }));
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
        event: Option<ClusterEventKind>,
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

    pub(crate) fn done(step: Step, node: &str) -> ClusterEventKind {
        ClusterEventKind::NodeDone { stage: step.stage, step: step.words.to_owned(), node: node.to_owned() }
    }

    pub(crate) fn failed(step: Step, node: &str, reason: &str) -> ClusterEventKind {
        ClusterEventKind::NodeFailed {
            stage: step.stage,
            step: step.words.to_owned(),
            node: node.to_owned(),
            reason: Failure::bounded(reason),
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
            () = self.control.cancelled().cancelled() => Err(Stop::called_off(stage)),
            () = tokio::time::sleep(duration) => Ok(()),
        }
    }

    /// Tries until it works or the retry slot gives up. Called off, it ends what it tries.
    pub(crate) async fn attempt<T, F, Fut>(&self, step: Step, mut call: F) -> Result<T, Stop>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let mut attempts = Attempts::within(MAX_WAITS);
        loop {
            let tried = tokio::select! {
                biased;
                () = self.control.left().cancelled() => return Err(Stop::Left),
                () = self.control.cancelled().cancelled() => return Err(Stop::called_off(step.stage)),
                tried = call() => tried,
            };
            match tried {
                Ok(value) => return Ok(value),
                Err(failed) => self.after_failure(step, &mut attempts, failed).await?,
            }
        }
    }

    /// Says that this operation asks.
    pub(crate) fn requested_by(&self, why: impl Into<String>) -> RequestedBy {
        let operation = self.book.lock().operation.number;
        self.shared.requested_by(&self.name, operation, why)
    }

    /// Whose cluster a question is about. A stage works on the servers of several groups.
    pub(crate) fn subject(&self) -> Subject {
        let project = self.book.lock().cluster.specification.project.clone();
        let requested_by = self.requested_by("");
        let of = SubjectOf { project: project.as_deref(), requested_by: Some(&requested_by), ..SubjectOf::default() };
        self.shared.lifecycle.subject(of)
    }

    /// Asks the retry slot and waits as it says. An error means: the step has failed.
    pub(crate) async fn after_failure(&self, step: Step, attempts: &mut Attempts, failed: Failure) -> Result<(), Stop> {
        let attempt = attempts.number();
        let (kind, zone) = {
            let book = self.book.lock();
            (book.operation.kind, book.cluster.specification.zone.to_string())
        };
        let question = retry::Question {
            now: self.now(),
            random: self.shared.lifecycle.random_word(),
            operation: format!("{kind}-cluster"),
            step: step.words.replace(' ', "-"),
            undoing: kind == OperationKind::Terminate || step.stage == Stage::Decommission,
            attempt,
            elapsed: 0,
            // An operation on a cluster has no deadline of its own; its stages have.
            time_left: None,
            failure: failed.clone(),
            zone,
            subject: self.subject(),
            server_type: None,
        };
        let decided = attempts.decide(&self.policies, question, None, None);
        let (decision, wait) = decided.instrument(self.trace.step(step)).await;
        let Some(wait) = wait else {
            self.quote(step.words, &decision);
            return Err(Stop::failed(step.stage, failed));
        };
        let at = self.now();
        self.change(|_, change| {
            change.events.push((
                at,
                ClusterEventKind::Waiting {
                    stage: step.stage,
                    step: step.words.to_owned(),
                    attempt,
                    milliseconds: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                    failure: failed.words(),
                    reason: decision.reason.clone(),
                },
            ));
        })
        .await?;
        self.sleep(step.stage, wait).await?;
        attempts.next(wait);
        Ok(())
    }
}
