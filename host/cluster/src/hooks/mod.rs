//! The user's part in a cluster's life: a program, a webhook or a command over ssh, run at the stages `decommission`,
//! `configure` and `start`.
//!
//! [`Hook`] is what a specification says, [`HookInput`] what a hook receives, [`HookRunner::run`] runs it,
//! [`HookRunner::plan`] says what would be run. Nothing here retries, stores or decides: the caller asks the `retry`
//! slot with [`HookFailure::for_retry`] and the `provisioning` slot with [`HookFailure::for_provisioning`].

mod destinations;
mod failure;
mod files;
mod hook;
mod input;
mod output;
mod plan;
mod program;
mod run;
mod secret;
#[cfg(feature = "ssh-hooks")]
mod ssh;
#[cfg(not(feature = "ssh-hooks"))]
#[path = "ssh_absent.rs"]
mod ssh;
mod webhook;

#[cfg(test)]
mod tests;

pub use destinations::Destinations;
pub use failure::{HookFailure, HookProblem, NodeFailure};
pub use hook::{DEFAULT_TIME_LIMIT, Hook, HookAction, ProgramHook, SshAddress, SshHook, WebhookHook};
pub use input::{HOOK_INPUT_VERSION, HookInput, HookNode};
pub use output::{CAPTURED_BYTES, Captured, HookOutput, NodeOutput, Tail};
pub use plan::{HookPlan, PlannedRun};
pub use run::{HookRunner, RunHooks};
pub use secret::WebhookSecret;
