//! The spans of an operation and of its steps. They say what the journal says, to whoever listens; where nobody does,
//! they are none.

use std::collections::BTreeSet;
use std::future::Future;

use futures::FutureExt as _;
use parking_lot::Mutex;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};

use crate::aftermath::Effects;
use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::journal::{Operation, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::report::Report;
use crate::stop::{StepFailure, Stop};

/// The spans of a running operation.
pub(crate) struct Trace {
    operation: Span,
    /// The steps under way. The undo works on several of one name at once.
    steps: Mutex<Vec<(String, Span)>>,
}

impl Trace {
    /// `before` is the operation as an earlier process left it: the trace goes on then.
    pub(crate) fn of_operation(
        owner: &OwnerName,
        id: &OperationId,
        kind: OperationKind,
        group: &GroupName,
        zone: &impl std::fmt::Display,
        before: Option<&Operation>,
    ) -> Self {
        let operation = tracing::trace_span!(
            "operation",
            // What the trace's id is made of: the same in each process that works on the operation.
            trace = %format_args!("{owner}/{id}"),
            operation = %id,
            kind = kind.as_str(),
            group = %group,
            zone = %zone,
            began_at = before.map(|before| before.created_at),
            again = before.is_some_and(|before| before.state != OperationState::Open),
            state = Empty,
            machine = Empty,
            report = Empty,
            removed = Empty,
            left = Empty,
            requester = Empty,
            why = Empty,
            decisions = Empty,
            error = Empty,
        );
        Self { operation, steps: Mutex::new(Vec::new()) }
    }

    /// The operation's span.
    pub(crate) fn operation(&self) -> Span {
        self.operation.clone()
    }

    /// The operation is closed in the journal. `row` reads it there, with what this process did.
    pub(crate) fn closed(
        &self,
        state: OperationState,
        why: Option<&str>,
        row: impl FnOnce() -> Option<(Operation, Effects)>,
    ) {
        if self.operation.is_disabled() {
            return;
        }
        if let Some((row, effects)) = row() {
            self.describe(&row, &effects);
        }
        self.operation.record("state", state.as_str());
        match (why, state) {
            (Some(why), _) => self.operation.record("error", why),
            (None, OperationState::Left) => self.operation.record("error", "something is left"),
            (None, _) => &self.operation,
        };
    }

    /// What came of the operation, and who asked for it.
    fn describe(&self, row: &Operation, effects: &Effects) {
        let report = Report::of(row);
        if let Some(report) = &report {
            self.operation.record("report", report.words());
            self.operation.record("removed", report.removed.len());
            self.operation.record("left", report.left.len());
        }
        let reported = report.iter().flat_map(|report| {
            report.removed.iter().chain(&report.kept).chain(report.left.iter().map(|left| &left.resource))
        });
        let is_machine =
            |name: &&ResourceName| matches!(name.kind, ResourceKind::Server | ResourceKind::AppleSiliconServer);
        let machines = reported.chain(effects.removed()).chain(effects.there()).filter(is_machine);
        let mut machines: BTreeSet<&str> = machines.map(|machine| machine.id.as_str()).collect();
        // A sweep may have removed several.
        if let (Some(machine), true) = (machines.pop_first(), machines.is_empty()) {
            self.operation.record("machine", machine);
        }
        let Some(requested) = row.requested_by() else { return };
        self.operation.record("requester", display(&requested.requester));
        if !requested.why.is_empty() {
            self.operation.record("why", requested.why);
        }
        if !requested.decisions.is_empty() {
            let decisions: Vec<String> = requested.decisions.iter().map(ToString::to_string).collect();
            self.operation.record("decisions", decisions.join(", "));
        }
    }

    pub(crate) fn begin(&self, step: &str) -> Span {
        if self.operation.is_disabled() {
            return Span::none();
        }
        let span = tracing::trace_span!(
            parent: &self.operation, "step", step, outcome = Empty, resource = Empty, error = Empty,
        );
        self.steps.lock().push((step.to_owned(), span.clone()));
        span
    }

    /// A step has had its effect.
    pub(crate) fn done(&self, step: &str, resource: Option<&ResourceName>) {
        let Some(span) = self.end(step) else { return };
        span.record("outcome", "done");
        if let Some(resource) = resource {
            span.record("resource", display(resource));
        }
    }

    /// The step of this name within which the caller runs, or the latest of them.
    pub(crate) fn find(&self, step: &str) -> Option<Span> {
        if self.operation.is_disabled() {
            return None;
        }
        let steps = self.steps.lock();
        steps.get(place(&steps, step)?).map(|(_, span)| span.clone())
    }

    fn end(&self, step: &str) -> Option<Span> {
        if self.operation.is_disabled() {
            return None;
        }
        let mut steps = self.steps.lock();
        let place = place(&steps, step)?;
        Some(steps.remove(place).1)
    }

    /// Does work that belongs to a step: what is called and decided in it stands below the step. A step that has not
    /// begun begins, and ends with the work.
    pub(crate) fn in_step<'a, T>(
        &'a self,
        step: &'a str,
        work: impl Future<Output = Result<T, Stop>> + 'a,
    ) -> impl Future<Output = Result<T, Stop>> {
        let begun = self.find(step);
        let begins = begun.is_none();
        let span = begun.unwrap_or_else(|| self.begin(step));
        work.instrument(span).inspect(move |ended| match ended {
            Err(Stop::Failed(failed)) => {
                if let Some(span) = self.end(step) {
                    span.record("outcome", "failed");
                    span.record("error", display(failed.failure.words()));
                }
            }
            Ok(_) if begins => self.done(step, None),
            Err(_) if begins => drop(self.end(step)),
            Ok(_) | Err(_) => {}
        })
    }
}

fn place(steps: &[(String, Span)], step: &str) -> Option<usize> {
    let current = Span::current();
    let of_name = |(name, _): &(String, Span)| name == step;
    steps.iter().position(|known| of_name(known) && known.1 == current).or_else(|| steps.iter().rposition(of_name))
}

/// Why an operation did not do what it was asked for, in words.
pub(crate) fn cause_words(cause: &StepFailure) -> String {
    format!("{}: {}", cause.step, cause.failure.words())
}
