//! What the controller has done and decided, for who asks inside its pod (`kubectl exec`): `decisions`, `operations`,
//! `policies`. Nothing is changed, and nobody is called.

use std::path::Path;

use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{self, Output};
use windlass_inspect::{Commands, Inspector};
use windlass_lifecycle::{OperationFilter, OperationState, StateDirectory};
use windlass_policy::DecisionFilter;

use crate::arguments::{Command, LookArguments};

const COMMANDS: Commands =
    Commands { operations: "windlass-controller operations", decisions: "windlass-controller decisions" };

/// Answers one of the commands that look; any other is answered by none. Gives the process's exit code.
#[must_use]
pub fn look(command: &Command) -> Option<u8> {
    let (Command::Decisions { look, .. } | Command::Operations { look, .. } | Command::Policies { look }) = command
    else {
        return None;
    };
    let LookArguments { output: format, state_dir } = look;
    // As `windlass` calls what it prints of the same.
    let document = match command {
        Command::Decisions { decision: Some(_), .. } => "decision show",
        Command::Decisions { .. } => "decision list",
        Command::Operations { operation: Some(_), .. } => "operation show",
        Command::Operations { .. } => "operation list",
        _ => "policy status",
    };
    let output = Output { document, format: *format, quiet: false };
    let result = open(state_dir).and_then(|state| {
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
    let exit = match result {
        Ok(()) => output::unwritten().map(|_| Exit::Unwritten),
        Err(failure) => {
            output.failure(&failure);
            Some(failure.exit)
        }
    };
    Some(exit.map_or(0, |exit| exit as u8))
}

/// The folder as the controller has it. It is not made where it is missing: then this is another machine or pod.
fn open(folder: &Path) -> Result<StateDirectory, Failure> {
    let place = || folder.display().to_string();
    if !folder.is_dir() {
        return Err(Failure::usage("there is no such state directory")
            .at(place())
            .remedy("kubectl -n NAMESPACE exec deploy/windlass-controller -- windlass-controller operations"));
    }
    StateDirectory::open(folder)
        .map_err(|error| Failure::usage("the state directory cannot be used").at(place()).caused_by(&error))
}
