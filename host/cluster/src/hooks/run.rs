//! Runs hooks.

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_policy::Mistake;

use super::destinations::Destinations;
use super::failure::{HookFailure, HookProblem};
use super::hook::{Hook, HookAction, WebhookHook};
use super::input::HookInput;
use super::output::HookOutput;
use super::plan::{self, HookPlan};
use super::secret::WebhookSecret;
use super::{program, ssh, webhook};

/// Runs hooks for real.
#[derive(Clone, Copy, Debug, Default)]
pub struct HookRunner;

/// Something that runs hooks: [`HookRunner`], or a stand-in of a test that knows simulated time.
#[async_trait]
pub trait RunHooks: std::fmt::Debug + Send + Sync {
    /// As [`HookRunner::run`].
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>>;

    /// As [`RunHooks::run`], until `stop` is cancelled: then what runs is ended, and the failure says for which nodes
    /// it was done all the same. Unless said otherwise, that is none.
    async fn run_until(
        &self,
        hook: &Hook,
        input: &HookInput,
        stop: &CancellationToken,
    ) -> Result<HookOutput, Box<HookFailure>> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Err(Box::new(HookFailure {
                hook: hook.to_string(),
                problem: HookProblem::CalledOff,
                output: HookOutput::default(),
            })),
            ended = self.run(hook, input) => ended,
        }
    }

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
    /// - It ends within the time limit and a grace of seconds. What is then still running of a program, with all that
    ///   it started in its process group, is ended (SIGTERM, SIGKILL); a command on a node is sent SIGTERM, and its
    ///   connection closed.
    /// - Dropping the future ends a program in the same way, without grace: that is how an operation is cancelled.
    /// - Output is kept up to [`CAPTURED_BYTES`](super::CAPTURED_BYTES) per stream, its end.
    /// - No secret is in output of ours, errors or logs. What the user's own program prints is kept as it is.
    ///
    /// # Caveats
    /// A hook may run more than once with the same input (retries, a crash in between): the operation's id is the same
    /// then. When windlass itself is killed, a program that it had started lives on.
    ///
    /// # Errors
    /// [`HookFailure`], with what the hook had said and which nodes are done all the same.
    pub async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        self.perform(hook, input, None, &CancellationToken::new()).await
    }

    /// Runs a webhook of somebody who is not trusted with this machine's network, with a secret that the caller has: its
    /// `secret_file` and `secret_env` are not looked at, it reaches these destinations alone, and nothing of its answer
    /// but the status is read. All else as [`HookRunner::run`].
    ///
    /// # Errors
    /// As [`HookRunner::run`].
    pub async fn run_webhook(
        &self,
        webhook: &WebhookHook,
        secret: &WebhookSecret,
        destinations: &Destinations,
        time_limit: std::time::Duration,
        input: &HookInput,
    ) -> Result<HookOutput, Box<HookFailure>> {
        let hook = Hook { action: HookAction::Webhook(webhook.clone()), time_limit };
        self.perform(&hook, input, Some((secret, destinations)), &CancellationToken::new()).await
    }

    async fn perform(
        &self,
        hook: &Hook,
        input: &HookInput,
        foreign: Option<(&WebhookSecret, &Destinations)>,
        stop: &CancellationToken,
    ) -> Result<HookOutput, Box<HookFailure>> {
        let mut output = HookOutput::default();
        if input.nodes.is_empty() {
            return Ok(output);
        }
        let begun = Instant::now();
        let limit = hook.time_limit;
        tracing::debug!(cluster = input.cluster, stage = ?input.stage, attempt = input.attempt,
            nodes = input.nodes.len(), "{hook} begins");
        let result = match &hook.action {
            HookAction::Ssh(action) => ssh::run(action, input, limit, stop, &mut output).await,
            _ => {
                let one = async {
                    match (&hook.action, foreign) {
                        (HookAction::Program(action), _) => program::run(action, input, limit, &mut output).await,
                        (HookAction::Webhook(action), Some((secret, to))) => match action.check_url() {
                            Ok(()) => webhook::run(action, secret, Some(to), input, limit, &mut output).await,
                            Err(words) => Err(HookProblem::NotStarted(format!("webhook.url: {words}"))),
                        },
                        (HookAction::Webhook(action), None) => match WebhookSecret::of(action) {
                            Ok(secret) => webhook::run(action, &secret, None, input, limit, &mut output).await,
                            Err(problem) => Err(problem),
                        },
                        (HookAction::Ssh(_) | HookAction::Foreign(_), _) => Err(not_here()),
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.cancelled() => Err(HookProblem::CalledOff),
                    ended = one => ended,
                }
            }
        };
        output.duration = begun.elapsed();
        match result {
            Ok(()) => {
                tracing::debug!(cluster = input.cluster, stage = ?input.stage, duration = ?output.duration,
                    "{hook} is done");
                Ok(output)
            }
            Err(problem) => {
                tracing::warn!(cluster = input.cluster, stage = ?input.stage, duration = ?output.duration,
                    "{hook} {problem}");
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

    async fn run_until(
        &self,
        hook: &Hook,
        input: &HookInput,
        stop: &CancellationToken,
    ) -> Result<HookOutput, Box<HookFailure>> {
        self.perform(hook, input, None, stop).await
    }

    fn preflight(&self, hook: &Hook) -> Result<(), HookProblem> {
        hook.preflight()
    }
}

impl Hook {
    /// Checks also what is outside the specification: the program is there, secret and key can be read. Runs nothing.
    ///
    /// # Errors
    /// The [`HookProblem`] with which a run would begin and end.
    pub fn preflight(&self) -> Result<(), HookProblem> {
        match &self.action {
            HookAction::Program(program) => program::find(program).and_then(|_| program::check_folder(program)),
            HookAction::Webhook(webhook) => WebhookSecret::of(webhook).map(drop),
            HookAction::Ssh(ssh) => ssh::identity(ssh).map(drop),
            HookAction::Foreign(_) => Err(not_here()),
        }
    }

    /// As [`Hook::preflight`]: all that it finds, each with its place within the hook, and nothing of a key that is
    /// missing or empty, since [`Hook::problems`] tells that.
    pub(crate) fn file_problems(&self) -> Vec<Mistake> {
        let found: Vec<(&str, Result<(), HookProblem>)> = match &self.action {
            HookAction::Program(program) => {
                let is_named = !program.command.trim().is_empty();
                let file = if is_named { program::find(program).map(drop) } else { Ok(()) };
                vec![("program.command", file), ("program.working_directory", program::check_folder(program))]
            }
            HookAction::Webhook(webhook) => match (&webhook.secret_file, &webhook.secret_env) {
                (Some(_), None) => vec![("webhook.secret_file", WebhookSecret::of(webhook).map(drop))],
                (None, Some(_)) => vec![("webhook.secret_env", WebhookSecret::of(webhook).map(drop))],
                _ => Vec::new(),
            },
            HookAction::Ssh(ssh) => vec![("ssh.key_file", ssh::identity(ssh).map(drop))],
            HookAction::Foreign(_) => Vec::new(),
        };
        let wrong = |(place, result): (&str, Result<(), HookProblem>)| {
            result.err().map(|problem| Mistake::new(place, format!("the hook {problem}")))
        };
        found.into_iter().filter_map(wrong).collect()
    }
}

/// What is said of a hook that another program is to run.
fn not_here() -> HookProblem {
    HookProblem::NotStarted("only the program that made this cluster can run it".to_owned())
}
