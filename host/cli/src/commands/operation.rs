//! `windlass operation`: the journal, for people and programs.

pub(super) mod abandon;
mod cancel;
mod watch;

use serde::Serialize;
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::with_notes;
use windlass_inspect::output::table;
use windlass_inspect::text::before_now;
use windlass_inspect::words::counted;
use windlass_lifecycle::{
    Control, GroupName, OperationFilter, OperationState, Part, Problem, Resumed, Supervisor, SupervisorOptions,
    SweepRequest, Unexplained,
};

use super::lifecycle::{
    KEPT, MAY_STILL_TAKE_EFFECT, RESUME_AGAIN, left_by_policy, left_of, lifecycle_failure, made_by, undone_line,
    unverified,
};
use crate::arguments::{ListOperations, OperationCommand, ShowOperation};
use crate::context::Context;
use crate::interrupt;
use crate::progress::Progress;

pub(crate) async fn run(context: &Context, command: OperationCommand) -> Result<(), Failure> {
    match command {
        OperationCommand::List(arguments) => list(context, &arguments).await,
        OperationCommand::Show(arguments) => show(context, &arguments),
        OperationCommand::Watch(arguments) => watch::watch(context, &arguments).await,
        OperationCommand::Attach(arguments) => watch::attach(context, &arguments).await,
        OperationCommand::Resume(_) => resume(context).await,
        OperationCommand::Abandon(arguments) => abandon::abandon(context, arguments).await,
        OperationCommand::Cancel(arguments) => cancel::cancel(context, &arguments).await,
    }
}

async fn list(context: &Context, arguments: &ListOperations) -> Result<(), Failure> {
    let group = arguments.group.as_ref().map(|group| group.parse::<GroupName>()).transpose();
    let group = group.map_err(|error| Failure::usage(error.to_string()))?;
    let mut filter = OperationFilter::default();
    filter.states = if arguments.open { OperationState::UNFINISHED.to_vec() } else { arguments.state.clone() };
    filter.group = group.map(String::from);
    let of_group = filter.group.clone();
    filter.since = arguments.since.map(before_now);
    filter.limit = Some(arguments.limit);
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let removals = arguments.removals.then(|| inspector.find_removals(&filter)).transpose()?;
    let operations = if removals.is_some() { Vec::new() } else { inspector.find_operations(&filter)? };
    let found = removals.as_ref().map_or(operations.len(), Vec::len);
    let mut notes = if found == 0 { context.other_owners(&state, false).await } else { Vec::new() };
    if arguments.open && arguments.group.is_none() {
        notes.extend(context.open_cluster_operations().await?.into_iter().map(|operation| operation.words));
    }
    if let Some(group) = of_group.filter(|_| found == 0) {
        notes.insert(0, format!("the journal has no such operations of the group {group}"));
    }
    match removals {
        None => inspector.operations(operations, &notes),
        Some(removals) => {
            if found == arguments.limit as usize {
                context.output.say(&format!("note: there may be more than these {found}; --limit lists others"));
            }
            inspector.removals(removals, &notes);
        }
    }
    Ok(())
}

fn show(context: &Context, arguments: &ShowOperation) -> Result<(), Failure> {
    context.inspector(&context.state_directory()?).operation(&arguments.operation)
}

/// Document of `operation resume`.
#[derive(Serialize)]
struct Ended {
    #[serde(flatten)]
    resumed: Resumed,
    /// What is ours and explained by nothing, in the zone of the configuration. It is left to `sweep`.
    unexplained: Vec<Unexplained>,
    /// Operations that were forgotten because of their age.
    pruned: usize,
    /// Parts of the round that could not be done.
    problems: Vec<Problem>,
    /// What is said where there was nothing to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One round of the supervisor: finishes or undoes what other processes left open, looks again where a call may have
/// come late, reports what nothing explains, and forgets old operations.
async fn resume(context: &Context) -> Result<(), Failure> {
    let work = context.work(None, None)?;
    let refused = |error| lifecycle_failure("operations cannot be resumed", &error);
    work.lifecycle.check_history().map_err(refused)?;
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen(&control, context.output, interrupt::RESUMING)?;
    let progress = Progress::follow(events, 0, context.output, context.verbose());
    // Removing what nothing explains is not what this was asked for.
    let mut sweep = SweepRequest::new(vec![work.zone.clone()]);
    sweep.dry_run = true;
    let mut options = SupervisorOptions::default();
    options.sweep = Some(sweep);
    let supervisor = Supervisor::new(work.lifecycle.clone(), options);
    let mut round = supervisor.round(&Part::ALL, &control).await;
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    progress.end().await;
    let Some(resumed) = round.resumed.take() else {
        let error = round.problems.iter().find(|problem| problem.part == Part::Resume);
        return Err(match error {
            Some(problem) => lifecycle_failure("operations cannot be resumed", &problem.error),
            None => Failure::new(Exit::Interrupted, "nothing was resumed"),
        });
    };
    let nothing = resumed.operations.is_empty() && resumed.busy.is_empty();
    let mut notes = if nothing { context.other_owners(&work.state, true).await } else { Vec::new() };
    notes.extend(context.open_cluster_operations().await?.into_iter().map(|operation| operation.words));
    let ended = Ended {
        notes,
        resumed,
        unexplained: round.sweep.map(|sweep| sweep.unexplained).unwrap_or_default(),
        pruned: round.pruned.unwrap_or_default(),
        problems: round.problems,
    };
    let resumed = &ended.resumed;
    let reports = resumed.operations.iter().filter_map(|operation| operation.report.as_ref());
    let kept: Vec<Leftover> = reports.flat_map(left_by_policy).collect();
    if !resumed.is_clean() || !resumed.unverified.is_empty() || !kept.is_empty() {
        let exit = if was_interrupted { Exit::Interrupted } else { Exit::Left };
        let (message, remedy) = if resumed.is_clean() && resumed.unverified.is_empty() {
            KEPT
        } else if resumed.is_clean() {
            MAY_STILL_TAKE_EFFECT
        } else {
            ("not every operation could be ended", RESUME_AGAIN)
        };
        let mut failure =
            Failure::new(exit, message).remedy(remedy).with_partial(serde_json::to_value(&ended).unwrap_or_default());
        for operation in &resumed.operations {
            let report = operation.report.as_ref();
            failure.left.extend(report.iter().flat_map(|report| left_of(report)));
            if operation.state == OperationState::Open {
                let reason = format!("operation {} is still open", operation.operation);
                failure.left.extend(made_by(&work, &operation.operation, &reason)?);
            }
            if let Some(problem) = &operation.problem {
                failure.causes.push(format!("{}: {problem}", operation.operation));
            }
            if let Some(report) = report {
                failure.undone.extend(undone_line(&operation.operation, report));
            }
        }
        failure.left.extend(kept);
        failure.left.extend(resumed.unverified.iter().map(|it| unverified(&it.operation, &it.zone, it.look_at)));
        return Err(failure);
    }
    context.output.result(&ended, || with_notes(&ended_words(&ended), &ended.notes));
    Ok(())
}

fn ended_words(ended: &Ended) -> String {
    let resumed = &ended.resumed;
    let mut text = if resumed.operations.is_empty() && resumed.busy.is_empty() {
        "nothing was left open\n".to_owned()
    } else {
        table(
            &["operation", "kind", "state", "report"],
            resumed.operations.iter().map(|operation| {
                vec![
                    operation.operation.to_string(),
                    operation.kind.to_string(),
                    operation.state.to_string(),
                    operation.report.as_ref().map(|report| report.words()).unwrap_or_default(),
                ]
            }),
        )
    };
    for busy in &resumed.busy {
        text.push_str(&format!("{busy} is under way in another process\n"));
    }
    match ended.unexplained.len() {
        0 => {}
        number => text.push_str(&format!(
            "no operation explains {}; list what was found: windlass sweep --dry-run\n",
            counted(number, "resource")
        )),
    }
    if ended.pruned > 0 {
        text.push_str(&format!("forgot {}\n", counted(ended.pruned, "old operation")));
    }
    for problem in &ended.problems {
        text.push_str(&format!("note: {} could not be done: {}\n", problem.part, problem.error));
    }
    text
}
