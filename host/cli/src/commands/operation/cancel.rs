//! `windlass operation cancel`: operations that are undone, whichever process works on them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use windlass_cluster::LogClusterStore;
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::output::table;
use windlass_inspect::words::counted;
use windlass_lifecycle::{Cancellation, Control, Error, Operation, OperationId, OperationState, Report, ResourceKind};

use crate::arguments::CancelOperations;
use crate::commands::lifecycle::{
    KEPT, MAY_STILL_TAKE_EFFECT, RESUME_AGAIN, kept_of, left_of, lifecycle_failure, made_by, undone_line, unverified,
    user,
};
use crate::commands::server::cluster_nodes;
use crate::context::{Context, Work};
use crate::interrupt::{self, Words};

/// How often the journal is read while the process at work undoes an operation.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What becomes of a Mac whose order was cancelled and that came all the same.
const DELIVERED: &str = "a Mac whose order had been sent was delivered: the runner plugin releases it as its release \
    policy decides, now or at its next start; the Kubernetes controller gives it to the object that ordered it";

const INTERRUPTED: Words = Words {
    first: "no longer waiting; the operations stay cancelled",
    second: "leaving the rest to the next start; the operations stay cancelled",
};

pub(super) async fn cancel(context: &Context, arguments: &CancelOperations) -> Result<(), Failure> {
    let work = context.work(None, None)?;
    let inspector = context.inspector(&work.state);
    let mut ids = Vec::new();
    for text in &arguments.operations {
        let id = inspector.operation_id(text)?;
        inspector.read_operation(work.lifecycle.journal(), &id)?;
        ids.push(id);
    }
    let by = user();
    let mut refused = Vec::new();
    let (mut cancelled, mut ended_before) = (Vec::new(), BTreeSet::new());
    for id in &ids {
        match work.lifecycle.cancel(id, &by).await {
            Ok(Cancellation::Noted) => {
                context.output.say(&format!("{id} is cancelled"));
                cancelled.push(id.clone());
            }
            Ok(Cancellation::Ended(state)) => {
                context.output.say(&format!("{id} had ended: {state}"));
                ended_before.insert(id.clone());
                cancelled.push(id.clone());
            }
            Err(error @ Error::NotCancellable { .. }) => refused.push(error.to_string()),
            Err(error) => return Err(lifecycle_failure("the operation cannot be cancelled", &error)),
        }
    }
    let control = Control::new();
    let interrupted = interrupt::listen(&Waiting(control.clone()), context.output, INTERRUPTED)?;
    let mut operations = Vec::new();
    for id in &cancelled {
        operations.push(if arguments.no_wait { read(&work, id)? } else { undone(&work, id, &control).await? });
    }
    let mut too_late = Vec::new();
    let mut late = None;
    for operation in operations.iter().filter(|operation| ended_before.contains(&operation.id)) {
        let made = made_before(&work, operation)?;
        if !made.is_empty() {
            late.get_or_insert(&operation.id);
        }
        too_late.extend(made);
    }
    let node = match late {
        Some(creation) => {
            let nodes = cluster_nodes(&LogClusterStore::of(work.lifecycle.journal())).await?;
            nodes.into_iter().find(|(_, node)| node.exists() && node.creation.as_ref() == Some(creation))
        }
        None => None,
    };
    work.end();
    let was_interrupted = interrupted.stop();
    let document = json!({ "operations": operations });
    let all_settled = operations.iter().all(|one| is_settled(one, arguments.no_wait));
    let kept = kept_of(operations.iter().filter(|operation| !ended_before.contains(&operation.id)));
    if refused.is_empty() && !was_interrupted && all_settled && too_late.is_empty() && kept.is_empty() {
        context.output.result(&document, || rendered(&operations));
        return Ok(());
    }
    let delivered: Vec<&Operation> =
        operations.iter().filter(|one| one.state == OperationState::Kept && !is_settled(one, false)).collect();
    let mut failure = if was_interrupted {
        Failure::new(Exit::Interrupted, "no longer waiting for the operations, which stay cancelled")
    } else if all_settled && !too_late.is_empty() {
        let server = too_late.iter().find(|left| left.kind == ResourceKind::Server.as_str());
        let remedy = match (node, server, late) {
            // `server delete` refuses a cluster's node.
            (Some((cluster, node)), _, _) => format!("windlass cluster scale {cluster} --remove {}", node.name),
            (None, Some(server), _) => format!("windlass server delete {}", server.id),
            (None, None, Some(operation)) => format!("windlass operation show {operation}"),
            (None, None, None) => "windlass operation list".to_owned(),
        };
        Failure::new(Exit::Left, "an operation had already ended, so it was not cancelled").remedy(remedy)
    } else if all_settled && !kept.is_empty() {
        Failure::new(Exit::Left, KEPT.0).remedy(KEPT.1)
    } else if all_settled {
        let exit = if cancelled.is_empty() { Exit::Usage } else { Exit::Undone };
        let count = counted(refused.len(), "operation");
        Failure::new(exit, format!("{count} cannot be cancelled")).remedy("windlass operation watch")
    } else if operations.iter().all(|one| one.state == OperationState::Unverified || is_settled(one, false)) {
        Failure::new(Exit::Left, MAY_STILL_TAKE_EFFECT.0).remedy(MAY_STILL_TAKE_EFFECT.1)
    } else {
        let unsettled = operations.iter().find(|one| one.state != OperationState::Kept && !is_settled(one, false));
        let remedy = match (unsettled, delivered.first()) {
            (None, Some(order)) => {
                let named = order.specification["claim"].as_str().unwrap_or(order.id.as_str());
                format!("windlass operation show {named}")
            }
            _ => RESUME_AGAIN.to_owned(),
        };
        Failure::new(Exit::Left, "not every cancelled operation could be undone").remedy(remedy)
    };
    failure.causes = refused;
    failure.causes.extend(delivered.first().map(|_| DELIVERED.to_owned()));
    failure.left = too_late;
    failure.left.extend(kept);
    for operation in &operations {
        if let Some(report) = Report::of(operation) {
            failure.left.extend(left_of(&report));
            failure.undone.extend(undone_line(&operation.id, &report));
        }
        if operation.state == OperationState::Unverified {
            failure.left.push(unverified(&operation.id, &operation.zone, operation.look_at.unwrap_or_default()));
        }
    }
    Err(failure.with_partial(document))
}

/// What a signal does while the command waits: the operations are cancelled already.
#[derive(Clone)]
struct Waiting(Control);

impl interrupt::Ends for Waiting {
    async fn cancel(&self, _by: &str) -> Result<(), String> {
        self.0.leave();
        Ok(())
    }

    fn leave(&self) {
        self.0.leave();
    }
}

fn read(work: &Work, id: &OperationId) -> Result<Operation, Failure> {
    let operation = work.lifecycle.journal().operation(id);
    operation.map_err(|error| lifecycle_failure("the journal cannot be read", &error))
}

/// Waits until the process at work has undone the operation; where there is none, undoes it.
async fn undone(work: &Work, id: &OperationId, control: &Control) -> Result<Operation, Failure> {
    loop {
        let operation = read(work, id)?;
        if operation.state != OperationState::Open || control.left().is_cancelled() {
            return Ok(operation);
        }
        if !work.lifecycle.journal().runner_lives(&operation.runner) {
            match work.lifecycle.resume_creations(&BTreeSet::from([id.clone()]), control).await {
                Ok(resumed) if resumed.operations.iter().any(|one| one.operation == *id) => return read(work, id),
                // Another process has taken it up meanwhile.
                Ok(_) | Err(Error::RecoveryRunning { .. }) => {}
                Err(error) => return Err(lifecycle_failure("the operation cannot be undone", &error)),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = control.left().cancelled() => {}
        }
    }
}

/// What an operation has made that had ended before it could be cancelled.
fn made_before(work: &Work, operation: &Operation) -> Result<Vec<Leftover>, Failure> {
    let stays = matches!(operation.state, OperationState::Done | OperationState::Kept | OperationState::Abandoned);
    if !stays || operation.ended_by.is_some() {
        return Ok(Vec::new());
    }
    // What could not be taken back says why itself.
    if Report::of(operation).is_some_and(|report| !report.left.is_empty()) {
        return Ok(Vec::new());
    }
    let reason = format!("operation {} had ended before it was cancelled: {}", operation.id, operation.state);
    made_by(work, &operation.id, &reason)
}

/// Whether nothing is left to do for an operation, or nobody waits for it.
fn is_settled(operation: &Operation, no_wait: bool) -> bool {
    match operation.state {
        OperationState::Open => no_wait,
        OperationState::Left | OperationState::Unverified => false,
        OperationState::Kept => Report::of(operation).is_none_or(|report| report.left.is_empty()),
        _ => true,
    }
}

fn rendered(operations: &[Operation]) -> String {
    table(
        &["operation", "kind", "state", "report"],
        operations.iter().map(|operation| {
            let report = Report::of(operation).map(|report| report.words()).unwrap_or_default();
            vec![operation.id.to_string(), operation.kind.to_string(), operation.state.to_string(), report]
        }),
    )
}
