//! Runs hooks.

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Hook, HookAction, HookFailure, HookInput, HookOutput, HookPlan, HookProblem, plan, program, ssh, webhook};

/// Runs hooks for real.
#[derive(Clone, Copy, Debug, Default)]
pub struct HookRunner;

/// Something that runs hooks: [`HookRunner`], or a stand-in of a test that knows simulated time.
#[async_trait]
pub trait RunHooks: std::fmt::Debug + Send + Sync {
    /// As [`HookRunner::run`].
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>>;

    /// As [`Hook::preflight`]: what would make every run fail is found before anything is spent.
    fn preflight(&self, hook: &Hook) -> Result<(), HookProblem> {
        let _ = hook;
        Ok(())
    }
}

impl HookRunner {
    /// Runs a hook once, within its time limit. Without nodes nothing is run.
    ///
    /// # Guarantees
    /// - It ends within the time limit and a grace of seconds. What is then still running of a program, with all that it started in its
    ///   process group, is ended (SIGTERM, SIGKILL); a command on a node is sent SIGTERM, and its connection closed.
    /// - Dropping the future ends a program in the same way, without grace: that is how an operation is cancelled.
    /// - Output is kept up to [`CAPTURED_BYTES`](super::CAPTURED_BYTES) per stream, its end.
    /// - No secret is in output of ours, errors or logs. What the user's own program prints is kept as it is.
    ///
    /// # Caveats
    /// A hook may run more than once with the same input (retries, a crash in between): the operation's id is the same then. When
    /// windlass itself is killed, a program that it had started lives on.
    ///
    /// # Errors
    /// [`HookFailure`], with what the hook had said and which nodes are done all the same.
    pub async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        let mut output = HookOutput::default();
        if input.nodes.is_empty() {
            return Ok(output);
        }
        let begun = Instant::now();
        let limit = hook.time_limit;
        tracing::debug!(cluster = input.cluster, stage = ?input.stage, attempt = input.attempt, nodes = input.nodes.len(), "{hook} begins");
        let result = match &hook.action {
            HookAction::Program(action) => program::run(action, input, limit, &mut output).await,
            HookAction::Webhook(action) => webhook::run(action, input, limit, &mut output).await,
            HookAction::Ssh(action) => ssh::run(action, input, limit, &mut output).await,
        };
        output.duration = begun.elapsed();
        match result {
            Ok(()) => {
                tracing::debug!(cluster = input.cluster, stage = ?input.stage, duration = ?output.duration, "{hook} is done");
                Ok(output)
            }
            Err(problem) => {
                tracing::warn!(cluster = input.cluster, stage = ?input.stage, duration = ?output.duration, "{hook} {problem}");
                Err(Box::new(HookFailure { hook: hook.to_string(), problem, output }))
            }
        }
    }

    /// What [`HookRunner::run`] would do, without doing it; with what can be seen to be wrong beforehand.
    #[must_use]
    pub fn plan(&self, hook: &Hook, input: &HookInput) -> HookPlan {
        plan::plan(hook, input)
    }
}

#[async_trait]
impl RunHooks for HookRunner {
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        HookRunner::run(self, hook, input).await
    }

    fn preflight(&self, hook: &Hook) -> Result<(), HookProblem> {
        hook.preflight()
    }
}
