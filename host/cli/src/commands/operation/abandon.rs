//! `windlass operation abandon`: operations that are neither finished nor undone; what they made is left alone.

use serde_json::json;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{Stream, table};
use windlass_inspect::words::counted;
use windlass_lifecycle::{Abandonment, Error, Operation, OperationState, PendingAbandonment, Report};

use crate::arguments::AbandonOperations;
use crate::commands::lifecycle::{lifecycle_failure, user};
use crate::confirmation::{Confirmation, DRY_RUN, Planned, rows};
use crate::context::{Context, Work};

pub(super) async fn abandon(context: &Context, arguments: AbandonOperations) -> Result<(), Failure> {
    let options = arguments.options;
    let confirmation =
        (!options.dry_run).then(|| Confirmation::source(options.yes, "operation abandon", DRY_RUN)).transpose()?;
    let work = context.work(None, None)?;
    let (ended, pending) = look(context, &work, &arguments.operations).await?;
    let planned: Vec<Planned> = pending.iter().flat_map(planned).collect();
    let Some(confirmation) = confirmation else {
        context.output.result(&json!({ "planned": planned }), || match planned.as_slice() {
            [] => "these operations name no resource that would be left alone\n".to_owned(),
            planned => rows(planned, Stream::Stdout),
        });
        return Ok(());
    };
    if !pending.is_empty() {
        let question = format!(
            "Abandon {}? Nothing is deleted. Windlass leaves these resources alone, and they go on costing money.",
            counted(pending.len(), "operation")
        );
        confirmation.ask(&planned, &question).await?;
    }
    let abandonment = Abandonment { by: user(), reason: options.reason };
    let mut abandoned = ended;
    let mut failed = Vec::new();
    for one in pending {
        let id = one.operation().id.clone();
        match one.run(&abandonment).await {
            Ok(operation) => abandoned.push(operation),
            Err(error) => failed.push(format!("{id}: {error}")),
        }
    }
    work.end();
    let document = json!({ "operations": abandoned });
    if !failed.is_empty() {
        let mut failure =
            Failure::new(Exit::Left, format!("{} could not be abandoned", counted(failed.len(), "operation")))
                .remedy("windlass operation list")
                .with_partial(document);
        failure.causes = failed;
        return Err(failure);
    }
    context.output.result(&document, || {
        table(
            &["operation", "kind", "zone", "left alone"],
            abandoned.iter().map(|operation| {
                vec![
                    operation.id.to_string(),
                    operation.kind.to_string(),
                    operation.zone.clone(),
                    left_alone(operation),
                ]
            }),
        )
    });
    Ok(())
}

/// The operations that somebody has abandoned already, and those that can be.
async fn look(
    context: &Context,
    work: &Work,
    operations: &[String],
) -> Result<(Vec<Operation>, Vec<PendingAbandonment>), Failure> {
    let inspector = context.inspector(&work.state);
    let journal = work.lifecycle.journal();
    let (mut ended, mut pending) = (Vec::new(), Vec::new());
    for text in operations {
        let id = inspector.operation_id(text)?;
        let operation = inspector.read_operation(journal, &id)?;
        if operation.state == OperationState::Abandoned {
            ended.push(operation);
            continue;
        }
        match work.lifecycle.begin_abandon(&id).await {
            Ok(one) => pending.push(one),
            Err(error @ Error::OperationRunning { .. }) => {
                return Err(Failure::usage(format!("{error}; nothing was changed"))
                    .because(format!("process {} works on it", operation.runner))
                    .remedy(match operation.kind.acquires() {
                        true => format!("windlass operation cancel {id}"),
                        false => format!("windlass operation watch {id}"),
                    }));
            }
            Err(error @ Error::OperationEnded { .. }) => {
                return Err(Failure::usage(format!("{error}, so there is nothing to abandon; nothing was changed"))
                    .remedy(format!("windlass operation show {id}")));
            }
            Err(error) => return Err(lifecycle_failure("the operation cannot be abandoned", &error)),
        }
    }
    Ok((ended, pending))
}

fn planned(pending: &PendingAbandonment) -> impl Iterator<Item = Planned> + '_ {
    pending.resources().iter().map(|one| Planned {
        kind: one.resource.kind.to_string(),
        id: one.resource.id.clone(),
        name: one.label.clone(),
        state: match (&one.state, &one.problem) {
            (Some(state), _) => state.clone(),
            (None, Some(problem)) => format!("unknown: {problem}"),
            (None, None) => "unknown".to_owned(),
        },
        why: format!("named by {}", pending.operation().id),
    })
}

pub(in crate::commands) fn left_alone(operation: &Operation) -> String {
    let report = Report::of(operation);
    let names: Vec<String> =
        report.into_iter().flat_map(|report| report.abandoned).map(|name| name.to_string()).collect();
    if names.is_empty() { "nothing that the journal names".to_owned() } else { names.join("; ") }
}
