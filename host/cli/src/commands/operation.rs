//! `windlass operation`: the journal, told to people and programs.

mod watch;

use serde::Serialize;
use serde_json::Value;
use windlass_lifecycle::{
    Control, Entry, Error, GroupName, Journal, Operation, OperationFilter, OperationId, OperationState, Part, Phase,
    Problem, Resumed, Supervisor, SupervisorOptions, SweepRequest, Unexplained,
};

use windlass_policy::slots::types;

use super::{failure_words, left_of, lifecycle_failure, unverified};
use crate::arguments::{ListOperations, OperationCommand, ShowOperation};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::listing::Listing;
use crate::output::{age, bold, dim, fields, green, instant, printable, red, table, yellow};
use crate::progress::Progress;
use crate::units::human_duration;

pub(crate) async fn run(context: &Context, command: OperationCommand) -> Result<(), Failure> {
    match command {
        OperationCommand::List(arguments) => list(context, &arguments),
        OperationCommand::Show(arguments) => show(context, &arguments),
        OperationCommand::Watch(arguments) => watch::watch(context, &arguments).await,
        OperationCommand::Attach(arguments) => watch::attach(context, &arguments).await,
        OperationCommand::Resume(_) => resume(context).await,
    }
}

/// Document of `operation list`.
#[derive(Serialize)]
struct Operations {
    operations: Vec<Operation>,
}

/// Document of `operation show`.
#[derive(Serialize)]
struct Shown {
    operation: Operation,
    entries: Vec<Entry>,
}

fn journal(context: &Context) -> Result<Option<Journal>, Failure> {
    match Journal::read_only(&context.state_directory()?) {
        Ok(journal) => Ok(Some(journal)),
        Err(Error::JournalAbsent { .. }) => Ok(None),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(error: &Error) -> Failure {
    Failure::usage("the journal cannot be read").because(error.to_string())
}

fn list(context: &Context, arguments: &ListOperations) -> Result<(), Failure> {
    let group = arguments.group.as_ref().map(|group| group.parse::<GroupName>()).transpose();
    let group = group.map_err(|error| Failure::usage(error.to_string()))?;
    let mut filter = OperationFilter::default();
    filter.states = if arguments.open { vec![OperationState::Open, OperationState::Unverified] } else { Vec::new() };
    filter.group = group.map(String::from);
    filter.limit = Some(arguments.limit);
    let operations = match journal(context)? {
        Some(journal) => journal.operations(&filter).map_err(|error| unreadable(&error))?,
        None => Vec::new(),
    };
    let listing = Operations { operations };
    let operations =
        Listing::new(&listing.operations, "no operations", |operation: &Operation| operation.id.to_string())
            .column("operation", |operation| operation.id.to_string())
            .column("kind", |operation| operation.kind.to_string())
            .column("state", |operation| operation.state.to_string())
            .wide("group", |operation| operation.group.clone())
            .column("zone", |operation| operation.zone.clone())
            .wide("owner", |operation| operation.owner.clone())
            .wide("process", |operation| operation.runner.clone())
            .wide("began", |operation| instant(operation.created_at))
            .column("age", |operation| age(operation.created_at))
            .column("cause", |operation| operation.cause.as_ref().map(cause_words).unwrap_or_default())
            .wide("ended by", |operation| operation.ended_by.as_ref().map(ToString::to_string).unwrap_or_default());
    context.output.listing(&listing, &operations);
    Ok(())
}

fn operation_id(text: &str) -> Result<OperationId, Failure> {
    OperationId::parse(text).map_err(|error| Failure::usage(error.to_string()).remedy("windlass operation list"))
}

fn unknown(id: &OperationId) -> Failure {
    Failure::usage(format!("there is no operation {id} in this journal")).remedy("windlass operation list")
}

fn show(context: &Context, arguments: &ShowOperation) -> Result<(), Failure> {
    let id = operation_id(&arguments.operation)?;
    let journal = journal(context)?.ok_or_else(|| unknown(&id))?;
    let operation = journal.operation(&id).map_err(|error| match error {
        Error::OperationUnknown { .. } => unknown(&id),
        other => unreadable(&other),
    })?;
    let entries = journal.entries(&id).map_err(|error| unreadable(&error))?;
    let shown = Shown { operation, entries };
    context.output.result(&shown, || told(&shown));
    Ok(())
}

fn told(shown: &Shown) -> String {
    let operation = &shown.operation;
    let mut lines = vec![
        ("operation", operation.id.to_string()),
        ("kind", operation.kind.to_string()),
        ("state", operation.state.to_string()),
        ("group", operation.group.clone()),
        ("zone", operation.zone.clone()),
        ("owner", operation.owner.clone()),
        ("began", format!("{} ({} ago)", instant(operation.created_at), age(operation.created_at))),
        (
            "took",
            human_duration(std::time::Duration::from_millis(operation.updated_at.saturating_sub(operation.created_at))),
        ),
    ];
    if let Some(cause) = &operation.cause {
        lines.push(("cause", cause_words(cause)));
    }
    for (position, reason) in operation.reasons.iter().enumerate() {
        lines.push((if position == 0 { "reasons" } else { "" }, reason.clone()));
    }
    if let Some(look_at) = operation.look_at.filter(|_| operation.state == OperationState::Unverified) {
        lines.push((
            "look again",
            format!("{}, since a call whose answer was lost may still take effect", instant(look_at)),
        ));
    }
    if let Some(ended_by) = &operation.ended_by {
        lines.push(("ended by", ended_by.to_string()));
    }
    let mut text = fields(&lines);
    text.push_str(&format!("\n{}\n", bold("steps")));
    for entry in &shown.entries {
        text.push_str(&format!("{}\n", entry_words(operation, entry)));
    }
    text
}

/// One entry in one line, with the time since its operation began.
fn entry_words(operation: &Operation, entry: &Entry) -> String {
    let after_ms = entry.at.saturating_sub(operation.created_at);
    let phase = match entry.phase {
        Phase::Intent => dim("intent "),
        Phase::Outcome => green("outcome"),
        Phase::Failure => red("failure"),
        Phase::Note => yellow("note   "),
    };
    let resource =
        entry.resource.as_ref().map(|resource| format!("  {} {}", resource.kind, resource.id)).unwrap_or_default();
    let data =
        if data_is_empty(&entry.data) { String::new() } else { format!("  {}", dim(&printable(&brief(&entry.data)))) };
    format!(
        "  {:>9}  {phase}  {:<20}{}{data}",
        human_duration(std::time::Duration::from_millis(after_ms)),
        printable(&entry.step),
        printable(&resource),
    )
}

/// The first cause as the journal keeps it: the step, and the failure in the contract's shape.
fn cause_words(cause: &Value) -> String {
    let step = cause.get("step").and_then(Value::as_str).map(|step| format!("{step}: ")).unwrap_or_default();
    let failure = cause.get("failure").unwrap_or(cause);
    match serde_json::from_value::<types::Failure>(failure.clone()) {
        Ok(failure) => format!("{step}{}", failure_words(&failure)),
        Err(_) => format!("{step}{}", brief(failure)),
    }
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
}

/// One round of the supervisor: finishes or undoes what other processes left open, looks again where a call may have
/// come late, reports what nothing explains, and forgets old operations.
async fn resume(context: &Context) -> Result<(), Failure> {
    let work = context.work(None, None)?;
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen(&control, context.output)?;
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
    let ended = Ended {
        resumed,
        unexplained: round.sweep.map(|sweep| sweep.unexplained).unwrap_or_default(),
        pruned: round.pruned.unwrap_or_default(),
        problems: round.problems,
    };
    let resumed = &ended.resumed;
    if !resumed.is_clean() || !resumed.unverified.is_empty() {
        let exit = if was_interrupted { Exit::Interrupted } else { Exit::Left };
        let (message, remedy) = if resumed.is_clean() {
            ("calls whose answers were lost may still take effect", "later, and again: windlass operation resume")
        } else {
            ("not every operation could be ended", "remove the causes, then: windlass operation resume")
        };
        let mut failure =
            Failure::new(exit, message).remedy(remedy).with_partial(serde_json::to_value(&ended).unwrap_or_default());
        for operation in &resumed.operations {
            let report = operation.report.as_ref();
            failure.left.extend(report.iter().flat_map(|report| left_of(report)));
            if let Some(problem) = &operation.problem {
                failure.causes.push(format!("{}: {problem}", operation.operation));
            }
            if let Some(report) = report {
                failure.undone.push(format!("{}: {}", operation.operation, report.words()));
            }
        }
        failure.left.extend(resumed.unverified.iter().map(|it| unverified(&it.operation, &it.zone, it.look_at)));
        return Err(failure);
    }
    context.output.result(&ended, || ended_words(&ended));
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
            "{number} resources of ours are explained by no operation; see them with: windlass sweep --dry-run\n"
        )),
    }
    if ended.pruned > 0 {
        text.push_str(&format!("{} old operations were forgotten\n", ended.pruned));
    }
    for problem in &ended.problems {
        text.push_str(&format!("note: {} could not be done: {}\n", problem.part, problem.error));
    }
    text
}

fn data_is_empty(data: &Value) -> bool {
    match data {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A value on one line, cut where it is long; JSON output has it whole.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 160;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        text
    } else {
        format!("{}…", text.chars().take(LONGEST).collect::<String>())
    }
}
