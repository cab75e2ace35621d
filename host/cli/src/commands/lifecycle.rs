//! What the commands on servers and operations share: ending first what was left open, and telling failures and
//! leftovers.

use windlass_inspect::failure::{Failure, Leftover};
use windlass_inspect::output::instant;
use windlass_lifecycle::{Control, Error, OperationFilter, OperationId, OperationState, Report};

use crate::context::{Context, Work};

/// Keeps the promise that the next start ends what an earlier one left open, before new work begins.
pub(super) async fn note_resumed(context: &Context, work: &Work, control: &Control) {
    match work.lifecycle.resume(control).await {
        Ok(resumed) => {
            for operation in &resumed.operations {
                let report =
                    operation.report.as_ref().map(|report| format!(": {}", report.words())).unwrap_or_default();
                let problem = operation.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
                context.output.say(&format!(
                    "note: {} was left open by an earlier process; it is {} now{report}{problem}",
                    operation.operation, operation.state
                ));
            }
        }
        // Somebody else is doing it.
        Err(Error::RecoveryRunning { .. }) => {}
        Err(error) => {
            context.output.say(&format!("note: what earlier processes left open cannot be ended now: {error}"))
        }
    }
}

/// What will be ended before the command's own work, in words to be followed by its question: operations that this
/// state directory has open and whose process has died. Empty where there are none.
pub(super) fn left_open_words(work: &Work) -> Result<String, Failure> {
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open];
    let open = work.lifecycle.journal().operations(&filter);
    let open = open.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    Ok(match open.iter().filter(|operation| !work.state.runner_lives(&operation.runner)).count() {
        0 => String::new(),
        1 => "An operation that an earlier process left open is finished or undone first. ".to_owned(),
        count => format!("{count} operations that an earlier process left open are finished or undone first. "),
    })
}

/// An error of the lifecycle that is not about a single server.
pub(super) fn lifecycle_failure(what: &str, error: &Error) -> Failure {
    match error {
        Error::Scaleway { what: doing, source } => {
            let failure = Failure::undone(format!("{what}: {doing}")).caused_by(source.as_ref());
            match (source.method(), source.path()) {
                (Some(method), Some(path)) => failure.at(format!("{method} {path}")),
                _ => failure,
            }
        }
        Error::Specification { .. } | Error::Name { .. } => Failure::usage(error.to_string()),
        other => Failure::undone(what).caused_by(other),
    }
}

pub(super) fn left_of(report: &Report) -> impl Iterator<Item = Leftover> + '_ {
    report.left.iter().map(|left| Leftover {
        kind: left.resource.kind.to_string(),
        id: left.resource.id.clone(),
        zone: left.resource.zone.clone(),
        reason: left.why.clone(),
    })
}

/// What a lost call of an operation may still leave.
pub(super) fn unverified(operation: &OperationId, zone: &str, look_at: u64) -> Leftover {
    Leftover {
        kind: "unverified".to_owned(),
        id: operation.to_string(),
        zone: zone.to_owned(),
        reason: format!(
            "a call whose answer was lost may still take effect; it is looked again from {} on",
            instant(look_at)
        ),
    }
}
