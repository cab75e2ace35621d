//! The hooks of a cluster's object: Jobs beside it, and webhooks signed with a Secret.

mod job;

use async_trait::async_trait;
use kube::{Api, ResourceExt};
use windlass_cluster::{
    Destinations, Hook, HookFailure, HookInput, HookOutput, HookProblem, HookRunner, RunHooks, WebhookHook,
    WebhookSecret,
};
use windlass_policy::slots::provisioning::Stage;

use super::specification::{secret_key, time_limit};
use crate::kinds::{ServerCluster, ServerClusterHook, ServerClusterSpec, SignedWebhook};
use crate::names::mark;
pub(super) use job::HookJobs;

/// The key of a Secret that signs.
const SECRET: &str = "secret";

/// Runs the hooks of one namespace's clusters.
#[derive(Clone)]
pub(super) struct KubernetesHooks {
    pub(super) jobs: HookJobs,
    pub(super) allowed: HookSettings,
}

/// Which hooks the operator lets there be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookSettings {
    pub(crate) jobs: bool,
    pub(crate) webhooks: bool,
    /// What webhooks may reach.
    pub(crate) destinations: Destinations,
}

impl std::fmt::Debug for KubernetesHooks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KubernetesHooks").field("namespace", &self.jobs.namespace).finish_non_exhaustive()
    }
}

/// The hook that an object has at a stage now: one that was mended meanwhile counts as it is.
fn hook_at(object: &ServerCluster, stage: Stage) -> Option<&ServerClusterHook> {
    let hooks = object.spec.hooks.as_ref()?;
    match stage {
        Stage::Decommission => hooks.decommission.as_ref(),
        Stage::Configure => hooks.configure.as_ref(),
        _ => hooks.start.as_ref(),
    }
}

/// The operation's id as a hook is told it: `<namespace>-<cluster>-<mark of the object>-<number>`. Unlike a number
/// alone, it is never that of an object of the same name that was there before.
fn operation_id(object: &ServerCluster, number: u64) -> String {
    let uid = object.uid().unwrap_or_default();
    format!("{}-{}-{}-{number}", object.namespace().unwrap_or_default(), object.name_any(), mark(&uid))
}

impl HookSettings {
    /// Why a hook of this kind is not run, where the operator has switched it off.
    fn refusal(&self, hook: &ServerClusterHook) -> Option<String> {
        let (allowed, what, option) = match hook.job {
            Some(_) => (self.jobs, "Jobs", "--hook-jobs"),
            None => (self.webhooks, "webhooks", "--webhooks"),
        };
        (!allowed).then(|| format!("the operator has switched {what} off ({option}=false)"))
    }

    /// Refuses a specification with a hook that would not be run, before anything is made for it.
    pub(crate) fn check(&self, spec: &ServerClusterSpec) -> Result<(), String> {
        let Some(hooks) = &spec.hooks else { return Ok(()) };
        let all = [("decommission", &hooks.decommission), ("configure", &hooks.configure), ("start", &hooks.start)];
        let refused = all.iter().find_map(|(stage, hook)| Some((stage, self.refusal(hook.as_ref()?)?)));
        refused.map_or(Ok(()), |(stage, why)| Err(format!("spec.hooks.{stage}: {why}")))
    }
}

impl KubernetesHooks {
    async fn perform(&self, hook: &Hook, input: &HookInput, output: &mut HookOutput) -> Result<(), HookProblem> {
        let api: Api<ServerCluster> = Api::namespaced(self.jobs.client.clone(), &self.jobs.namespace);
        let object = match api.get_opt(&input.cluster).await {
            Ok(Some(object)) => object,
            Ok(None) => return Err(HookProblem::NotStarted("the ServerCluster object is gone".to_owned())),
            Err(error) => return Err(HookProblem::Connection(format!("the object cannot be read: {error}"))),
        };
        let Some(now) = hook_at(&object, input.stage) else {
            tracing::info!(cluster = input.cluster, "{hook} was removed from the object, so its stage counts as done");
            return Ok(());
        };
        if let Some(why) = self.allowed.refusal(now) {
            return Err(HookProblem::NotStarted(why));
        }
        let mut input = input.clone();
        input.operation_id = operation_id(&object, input.operation_number);
        match (&now.job, &now.webhook) {
            (Some(job), _) => {
                let run = job::Run {
                    hooks: &self.jobs,
                    object: &object,
                    hook: job,
                    time_limit: time_limit(now),
                    input: &input,
                };
                run.to_its_end(output).await
            }
            (None, Some(webhook)) => self.webhook(webhook, now, &input, output).await,
            (None, None) => Err(HookProblem::NotStarted("it has neither a job nor a webhook".to_owned())),
        }
    }

    async fn webhook(
        &self,
        webhook: &SignedWebhook,
        hook: &ServerClusterHook,
        input: &HookInput,
        output: &mut HookOutput,
    ) -> Result<(), HookProblem> {
        // The text may hold a token: it is not quoted.
        let url = url::Url::parse(&webhook.url)
            .map_err(|error| HookProblem::NotStarted(format!("webhook.url is no URL: {error}")))?;
        let secret = secret_key(&self.jobs.client, &self.jobs.namespace, &webhook.secret_name, SECRET)
            .await
            .map_err(HookProblem::Secret)?;
        let secret = WebhookSecret::new(&secret).ok_or_else(|| {
            HookProblem::Secret(format!("the key `{SECRET}` of {} has less than 16 bytes", webhook.secret_name))
        })?;
        let plain_http = webhook.plain_http.unwrap_or(false);
        let request = WebhookHook { url, secret_file: None, secret_env: None, plain_http };
        let destinations = &self.allowed.destinations;
        match HookRunner.run_webhook(&request, &secret, destinations, time_limit(hook), input).await {
            Ok(said) => {
                *output = said;
                Ok(())
            }
            Err(failure) => {
                *output = failure.output;
                Err(failure.problem)
            }
        }
    }

    /// Stops the Jobs of an operation whose process died: what they work on is about to be removed.
    pub(super) async fn stop(&self, object: &ServerCluster, number: u64) -> kube::Result<()> {
        job::stop_all(&self.jobs, object, number).await
    }
}

#[async_trait]
impl RunHooks for KubernetesHooks {
    async fn run(&self, hook: &Hook, input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        let mut output = HookOutput::default();
        if input.nodes.is_empty() {
            return Ok(output);
        }
        let began = tokio::time::Instant::now();
        let ended = self.perform(hook, input, &mut output).await;
        output.duration = began.elapsed();
        match ended {
            Ok(()) => Ok(output),
            Err(problem) => {
                tracing::warn!(cluster = input.cluster, stage = ?input.stage, "{hook} {problem}");
                Err(Box::new(HookFailure { hook: hook.to_string(), problem, output }))
            }
        }
    }
}
