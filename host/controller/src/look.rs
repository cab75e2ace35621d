//! What the controller has done and decided, for who asks inside its pod (`kubectl exec`): `decisions`, `operations`,
//! `policies`. Nothing is changed, and nobody is called.

use windlass_inspect::failure::Failure;
use windlass_inspect::output::Output;
use windlass_inspect::{Commands, Inspector};
use windlass_lifecycle::{OperationFilter, OperationState, StateDirectory};
use windlass_policy::DecisionFilter;

use crate::arguments::{Command, LookArguments};

const COMMANDS: Commands =
    Commands { operations: "windlass-controller operations", decisions: "windlass-controller decisions" };

/// Answers one of the commands that look; any other is answered by none. Gives the process's exit code, but for a result
/// that could not be written.
#[must_use]
pub fn look(command: &Command) -> Option<u8> {
    let (Command::Decisions { look, .. } | Command::Operations { look, .. } | Command::Policies { look }) = command
    else {
        return None;
    };
    let format = &look.output;
    // As `windlass` calls what it prints of the same.
    let document = match command {
        Command::Decisions { decision: Some(_), .. } => "decision show",
        Command::Decisions { .. } => "decision list",
        Command::Operations { operation: Some(_), .. } => "operation show",
        Command::Operations { .. } => "operation list",
        _ => "policy status",
    };
    let output = Output { document, format: *format, quiet: false };
    let asked = match command {
        Command::Decisions { .. } => "decisions",
        Command::Operations { .. } => "operations",
        _ => "policies",
    };
    let result = open(look, asked).and_then(|state| {
        let inspector = Inspector { state: &state, output, commands: COMMANDS };
        match command {
            Command::Decisions { decision: Some(decision), .. } => inspector.decision(decision, false),
            Command::Decisions { slot, policy, fallbacks, removals, since, limit, .. } => {
                let mut filter = DecisionFilter::default();
                filter.slot = *slot;
                filter.policy = policy.clone();
                filter.only_fallbacks = *fallbacks;
                filter.only_removals = *removals;
                filter.since_ms = since.map(windlass_inspect::text::before_now);
                filter.limit = *limit as usize;
                inspector.decisions(inspector.find_decisions(&filter)?, &[]);
                Ok(())
            }
            Command::Operations { operation: Some(operation), .. } => inspector.operation(operation),
            Command::Operations { open, limit, .. } => {
                let mut filter = OperationFilter::default();
                let open = open.then(|| OperationState::UNFINISHED.to_vec());
                filter.states = open.unwrap_or_default();
                filter.limit = Some(*limit);
                let operations = inspector.find_operations(&filter)?;
                inspector.operations(operations, &[]);
                Ok(())
            }
            _ => inspector.policies(),
        }
    });
    Some(match result {
        Ok(()) => 0,
        Err(failure) => {
            output.failure(&failure);
            failure.exit as u8
        }
    })
}

/// The folder as the controller has it. It is not made where it is missing: then this is another machine or pod.
fn open(
    LookArguments { state_dir: folder, state, .. }: &LookArguments,
    command: &str,
) -> Result<StateDirectory, Failure> {
    let place = || folder.display().to_string();
    if !folder.is_dir() {
        return Err(Failure::usage("there is no such state directory").at(place()).remedy(format!(
            "kubectl -n NAMESPACE exec deploy/windlass-controller -- windlass-controller {command}, or name the state \
             directory with --state-dir or WINDLASS_STATE_DIR"
        )));
    }
    state
        .in_folder(folder)
        .map_err(|error| Failure::usage("the state directory cannot be used").at(place()).caused_by(&error))
}
