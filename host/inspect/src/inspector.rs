//! What shows a state directory at a terminal.

use windlass_lifecycle::StateDirectory;

use crate::output::Output;

/// Shows what is in a state directory: [`operations`](crate::operations), [`decisions`](crate::decisions)
/// and [`policies`](crate::policies) have its methods.
#[derive(Debug, Clone, Copy)]
pub struct Inspector<'a> {
    pub state: &'a StateDirectory,
    /// How it is written.
    pub output: Output,
    /// What the commands are called that messages point to.
    pub commands: Commands,
}

/// What a program calls its commands.
#[derive(Debug, Clone, Copy)]
pub struct Commands {
    /// The one that lists operations.
    pub operations: &'static str,
    /// The one that lists decisions.
    pub decisions: &'static str,
}
