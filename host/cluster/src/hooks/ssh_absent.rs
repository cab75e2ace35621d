//! In place of `ssh` where this crate is built without its feature `ssh-hooks`: a specification with such a hook can be
//! read, and is refused before anything is spent.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::failure::HookProblem;
use super::hook::SshHook;
use super::input::HookInput;
use super::output::HookOutput;

fn absent() -> HookProblem {
    HookProblem::NotStarted("this program was built without ssh hooks: build it with the feature ssh-hooks".to_owned())
}

pub(super) fn identity(_ssh: &SshHook) -> Result<(), HookProblem> {
    Err(absent())
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
