//! In place of `ssh` where this crate is built without its feature `ssh-hooks`: a specification with such a hook can be
//! read, and is refused before anything is spent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{HookInput, HookOutput, HookProblem, SshHook};

fn absent() -> HookProblem {
    HookProblem::NotStarted("this program was built without ssh hooks: build it with the feature ssh-hooks".to_owned())
}

pub(super) fn identity(_ssh: &SshHook) -> Result<(), HookProblem> {
    Err(absent())
}

/// Not looked at: the hook is refused as a whole.
pub(super) fn check_public_key(_text: &str) -> Result<(), String> {
    Ok(())
}

pub(super) async fn run(
    _ssh: &SshHook,
    _input: &HookInput,
    _limit: Duration,
    _stop: &CancellationToken,
    _output: &mut HookOutput,
) -> Result<(), HookProblem> {
    Err(absent())
}
