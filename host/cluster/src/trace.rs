//! The spans of an operation on a cluster, of its steps and of its hooks. Where nobody listens, they are none.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tracing::Span;
use tracing::field::{Empty, display};

use crate::hooks::{Hook, HookInput};
use crate::record::{Cluster, ClusterOperation, OperationState, Stage};

/// One step of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    pub(crate) words: &'static str,
}

/// The spans of a running operation.
pub(crate) struct Trace {
    operation: Span,
    /// The latest step, and all of a resize, in which nodes go and come at the same time.
    steps: Mutex<BTreeMap<(Stage, &'static str), Span>>,
}

impl Trace {
    pub(crate) fn of_operation(cluster: &Cluster, operation: &ClusterOperation) -> Self {
        let id = operation.id(&cluster.name);
        let span = tracing::trace_span!(
            "operation",
            // What the trace's id is made of: the same in each process that works on the operation.
            trace = %id,
            operation = %id,
            kind = %format_args!("{}-cluster", operation.kind),
            cluster = %cluster.name,
            zone = %cluster.specification.zone,
            began_at = operation.began_at,
            state = Empty,
            error = Empty,
        );
        Self { operation: span, steps: Mutex::new(BTreeMap::new()) }
    }

    /// The operation's span.
    pub(crate) fn operation(&self) -> Span {
        self.operation.clone()
    }

    /// A step begins, and the earlier ones of its stage have ended.
    pub(crate) fn begin_step(&self, stage: Stage, words: &'static str) {
        if self.operation.is_disabled() {
            return;
        }
        let span = tracing::trace_span!(parent: &self.operation, "step", step = words, stage = %stage, error = Empty);
        let mut steps = self.steps.lock();
        if stage != Stage::Resize {
            steps.clear();
        }
        steps.insert((stage, words), span);
    }

    /// The span of a step, while it is the latest; else the operation's.
    pub(crate) fn step(&self, step: Step) -> Span {
        self.steps.lock().get(&(step.stage, step.words)).unwrap_or(&self.operation).clone()
    }

    /// The span of one run of a hook.
    pub(crate) fn hook(&self, step: Step, hook: &Hook, input: &HookInput) -> Span {
        tracing::trace_span!(
            parent: &self.step(step),
            "hook",
            hook = %hook,
            cluster = %input.cluster,
            stage = %step.stage,
            attempt = input.attempt,
            nodes = input.nodes.len(),
            error = Empty,
        )
    }

    /// The operation has ended in the store.
    pub(crate) fn closed(&self, state: OperationState, why: Option<&str>) {
        self.steps.lock().clear();
        self.operation.record("state", display(state));
        if let Some(why) = why {
            self.operation.record("error", why);
        }
    }
}
