//! `windlass operation watch` and `attach`: operations of another process, printed as its journal grows.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::text::{bold, green, printable, red, yellow};
use windlass_lifecycle::{
    Journal, Operation, OperationFilter, OperationId, OperationState, Phase, Report, StateDirectory,
};

use crate::arguments::{AttachOperation, WatchOperation};
use crate::commands::detach;
use crate::commands::lifecycle::{left_of, undone_line, unverified};
use crate::context::Context;
use crate::interrupt::EndSignals;
use crate::progress::{LOOK_AGAIN, moving_line, summary};
use windlass_inspect::operations::{Operations, entry_words, unreadable};
use windlass_inspect::words::cause_words;

/// Follows one operation, or all that are open, until they have ended.
pub(super) async fn watch(context: &Context, arguments: &WatchOperation) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let id = arguments.operation.as_deref().map(|id| inspector.operation_id(id)).transpose()?;
    let mut watching = Watching { id, ..Watching::default() };
    let journal = match (inspector.journal()?, &watching.id) {
        (None, Some(id)) => return Err(inspector.unknown_operation(id)),
        (None, None) => {
            context.say_notes(&context.other_owners(&state, false).await);
            return watching.ended(context);
        }
        (Some(journal), _) => journal,
    };
    follow(context, &state, &journal, &mut watching).await?;
    watching.ended(context)
}

/// Follows a detached operation: what its process has written so far and writes from now on, or where it has no output
/// of its own, its journal.
pub(super) async fn attach(context: &Context, arguments: &AttachOperation) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let id = inspector.operation_id(&arguments.operation)?;
    let journal = inspector.journal()?.ok_or_else(|| inspector.unknown_operation(&id))?;
    let operation = inspector.read_operation(&journal, &id)?;
    if detach::attach(context, &state, &operation.runner, id.as_str()).await? {
        return Ok(());
    }
    context.output.say(&format!("{id} was not detached, or its output was removed since: this is its journal"));
    watch(context, &WatchOperation { operation: Some(arguments.operation.clone()) }).await
}

async fn follow(
    context: &Context,
    state: &StateDirectory,
    journal: &Journal,
    watching: &mut Watching,
) -> Result<(), Failure> {
    let mut ends = EndSignals::listen()?;
    let bar = moving_line(0, context.output);
    let interrupted = loop {
        let (lines, goes_on) = match watching.look(context, state, journal, bar.is_hidden()) {
            Ok(seen) => seen,
            Err(failure) => {
                bar.finish_and_clear();
                return Err(failure);
            }
        };
        bar.set_message(summary(&watching.doing));
        for line in lines {
            if bar.is_hidden() { context.output.say(&line) } else { bar.suspend(|| context.output.say(&line)) }
        }
        if !goes_on {
            break false;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = ends.recv() => break true,
        }
    };
    bar.finish_and_clear();
    match interrupted {
        false => Ok(()),
        true => Err(Failure::new(Exit::Interrupted, "no longer watched; what was under way goes on")
            .remedy("windlass operation list --open")),
    }
}

/// What is known so far of the operations that are followed.
#[derive(Default)]
struct Watching {
    /// The one; otherwise all that are open.
    id: Option<OperationId>,
    /// The last printed entry of each operation, and its state.
    seen: BTreeMap<OperationId, (u64, Option<Operation>)>,
    /// The steps under way.
    doing: BTreeMap<String, String>,
    /// Those that are open although their process has ended.
    abandoned: Vec<OperationId>,
}

impl Watching {
    /// What is new, and whether there is more to come.
    fn look(
        &mut self,
        context: &Context,
        state: &StateDirectory,
        journal: &Journal,
        intents_too: bool,
    ) -> Result<(Vec<String>, bool), Failure> {
        let mut lines = Vec::new();
        let mut goes_on = false;
        if self.id.is_none() {
            let mut open = OperationFilter::default();
            open.states = vec![OperationState::Open];
            for operation in journal.operations(&open).map_err(|error| unreadable(&error))? {
                self.seen.entry(operation.id).or_default();
            }
        } else if let Some(id) = &self.id {
            self.seen.entry(id.clone()).or_default();
        }
        for (id, (reported, last)) in &mut self.seen {
            if last.as_ref().is_some_and(|last| last.state != OperationState::Open) {
                continue;
            }
            // Asked before the journal: a process that ended in between has written its end by then.
            let runner = last.as_ref().map_or_else(
                || context.inspector(state).read_operation(journal, id).map(|row| row.runner),
                |last| Ok(last.runner.clone()),
            )?;
            let lives = journal.runner_lives(&runner);
            let operation = context.inspector(state).read_operation(journal, id)?;
            let entries = journal.entries(id).map_err(|error| unreadable(&error))?;
            if *reported == 0 {
                lines.push(bold(&printable(&format!("{id}  {} in {}", operation.kind, operation.zone))));
            }
            for entry in entries.iter().filter(|entry| entry.sequence > *reported) {
                match entry.phase {
                    Phase::Intent => self.doing.insert(id.to_string(), entry.step.clone()),
                    _ => self.doing.remove(id.as_str()),
                };
                if context.output.is_lines() {
                    let event = json!({ "operation": id, "kind": operation.kind, "entry": entry });
                    context.output.event("operation entry", &event);
                } else if intents_too || entry.phase != Phase::Intent {
                    lines.push(format!("{id}{}", entry_words(&operation, entry).trim_end()));
                }
            }
            *reported = entries.last().map_or(*reported, |entry| entry.sequence);
            if operation.state != OperationState::Open {
                self.doing.remove(id.as_str());
                lines.push(closed_words(&operation));
            } else if lives || operation.runner != runner {
                goes_on = true;
            } else if !self.abandoned.contains(id) {
                self.abandoned.push(id.clone());
            }
            *last = Some(operation);
        }
        Ok((lines, goes_on))
    }

    /// The result: as the operations', the worst of them first.
    fn ended(self, context: &Context) -> Result<(), Failure> {
        let operations: Vec<Operation> = self.seen.into_values().filter_map(|(_, operation)| operation).collect();
        let Some(exit) = operations.iter().filter_map(exit_of).max_by_key(|exit| *exit as u8) else {
            let count = operations.len();
            context.output.result(&Operations { operations }, || match count {
                0 => "no operation is open\n".to_owned(),
                _ => String::new(),
            });
            return Ok(());
        };
        let failed = operations.iter().filter(|operation| exit_of(operation).is_some()).count();
        let mut failure = Failure::new(exit, format!("{failed} of {} operations did not succeed", operations.len()));
        for operation in operations.iter().filter(|operation| exit_of(operation).is_some()) {
            if let Some(cause) = &operation.cause {
                failure.causes.push(format!("{}: {}", operation.id, cause_words(cause)));
            }
            if self.abandoned.contains(&operation.id) {
                failure.causes.push(format!("{}: its process ended before it did", operation.id));
            }
            if let Some(report) = Report::of(operation) {
                failure.undone.extend(undone_line(&operation.id, &report));
                failure.left.extend(left_of(&report));
            }
            if operation.state == OperationState::Unverified {
                let at = operation.look_at.unwrap_or_default();
                failure.left.push(unverified(&operation.id, &operation.zone, at));
            }
        }
        failure.remedy = Some(match exit {
            Exit::Left => "windlass operation resume".to_owned(),
            _ => "windlass operation show, with its id".to_owned(),
        });
        Err(failure.with_partial(serde_json::to_value(Operations { operations }).unwrap_or_default()))
    }
}

/// The exit code of the command that an operation is of; none where it succeeded.
fn exit_of(operation: &Operation) -> Option<Exit> {
    if Report::of(operation).is_some_and(|report| !report.left.is_empty()) {
        return Some(Exit::Left);
    }
    match (operation.state, &operation.cause) {
        (OperationState::Done, _) | (OperationState::Kept, None) => None,
        // What it made is left alone.
        (OperationState::Abandoned, _) => Some(Exit::Left),
        (OperationState::Undone | OperationState::Kept, _) => Some(Exit::Undone),
        (OperationState::Left | OperationState::Unverified | OperationState::Open, _) => Some(Exit::Left),
    }
}

fn closed_words(operation: &Operation) -> String {
    let paint = match exit_of(operation) {
        None => green,
        Some(Exit::Left) => red,
        Some(_) => yellow,
    };
    paint(&format!("{}  is {}", operation.id, operation.state))
}
