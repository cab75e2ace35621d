//! One hook as a Job.
//!
//! The Job's name says what it is for – cluster, operation, stage, attempt – so a controller that comes after another
//! finds the Job that is there instead of running the hook twice. Its input is in a ConfigMap of the same name, which
//! the Job owns; the pod waits for it.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerState, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_cluster::{Captured, HookInput, HookOutput, HookProblem};
use windlass_policy::slots::provisioning::{Operation, Stage};

use crate::kinds::{JobHook, ServerCluster};
use crate::names::{cut, mark};

/// Which object a Job belongs to, by the mark of its UID.
const CLUSTER_LABEL: &str = "windlass.dev/cluster";
/// The operation's number.
const OPERATION_LABEL: &str = "windlass.dev/operation";
/// Where the input is mounted.
const FOLDER: &str = "/windlass";
const FILE: &str = "input.json";
/// Of the cluster's name, so that a Job's name stays within 63 bytes.
const MAX_NAME_PART_LEN: usize = 20;
/// A ConfigMap holds 1 MiB, keys and all.
const MAX_INPUT_LEN: usize = 1_000_000;
/// How long a finished Job stays for people to look at: far longer than any controller needs to find it again.
const KEPT_SECONDS: u32 = 24 * 60 * 60;
const FIRST_LOOK: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// So long after the time limit somebody must have said how the Job ended: Kubernetes itself ends it at the limit.
const GRACE: Duration = Duration::from_secs(60);
/// A failed Job's pod may show its end a moment after the Job.
const POD_LOOKS: u32 = 5;

/// Where the Jobs of one namespace's hooks run.
#[derive(Clone)]
pub(in crate::server_cluster) struct HookJobs {
    pub(in crate::server_cluster) client: Client,
    pub(in crate::server_cluster) namespace: String,
    /// Cancelled when the process is to end: what runs then is found again by the next.
    pub(in crate::server_cluster) leaving: CancellationToken,
}

/// One run of a hook.
pub(super) struct Run<'r> {
    pub(super) hooks: &'r HookJobs,
    pub(super) object: &'r ServerCluster,
    pub(super) hook: &'r JobHook,
    pub(super) time_limit: Duration,
    pub(super) input: &'r HookInput,
}

/// How a Job stands.
#[derive(Debug, PartialEq, Eq)]
enum JobState {
    Running,
    Done,
    OutOfTime,
    Failed { message: String },
}

fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Decommission => "decommission",
        Stage::Configure => "configure",
        _ => "start",
    }
}

fn operation_word(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "create",
        Operation::Scale => "scale",
        Operation::Terminate => "terminate",
        Operation::Other => "other",
    }
}

/// `<cluster>-<mark of the object>-<operation>-<stage>-<attempt>`.
fn name(object: &ServerCluster, input: &HookInput) -> String {
    format!(
        "{}-{}-{}-{}-{}",
        cut(&object.name_any(), MAX_NAME_PART_LEN),
        mark(&object.uid().unwrap_or_default()),
        input.operation_number,
        stage_word(input.stage),
        input.attempt
    )
}

fn state_of(job: &Job) -> JobState {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    for condition in conditions.iter().filter(|condition| condition.status == "True") {
        match condition.type_.as_str() {
            "Complete" => return JobState::Done,
            "Failed" if condition.reason.as_deref() == Some("DeadlineExceeded") => return JobState::OutOfTime,
            "Failed" => {
                let words = condition.message.clone().or_else(|| condition.reason.clone()).unwrap_or_default();
                return JobState::Failed { message: words };
            }
            _ => {}
        }
    }
    JobState::Running
}

/// What a pod's container said and how it ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    exit_code: Option<i32>,
    words: String,
}

fn said(pod: &Pod) -> Said {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    for container in containers {
        match &container.state {
            Some(ContainerState { terminated: Some(end), .. }) => {
                let words = end.message.clone().or_else(|| end.reason.clone().filter(|reason| reason != "Completed"));
                return Said { exit_code: Some(end.exit_code), words: words.unwrap_or_default() };
            }
            Some(ContainerState { waiting: Some(waiting), .. }) => {
                let parts = [waiting.reason.as_deref(), waiting.message.as_deref()];
                let words = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
                return Said { exit_code: None, words };
            }
            _ => {}
        }
    }
    let parts = status.map(|status| [status.reason.as_deref(), status.message.as_deref()]).unwrap_or_default();
    Said { exit_code: None, words: parts.into_iter().flatten().collect::<Vec<_>>().join(": ") }
}

impl Run<'_> {
    /// Runs it, or goes on with the one that is there, until it has ended.
    pub(super) async fn to_its_end(&self, output: &mut HookOutput) -> Result<(), HookProblem> {
        let name = name(self.object, self.input);
        let jobs: Api<Job> = Api::namespaced(self.hooks.client.clone(), &self.hooks.namespace);
        let job = self.find_or_make(&jobs, &name).await?;
        // Called off, it is not left running; only a process that ends leaves it to the next one.
        let called_off = StopWhenDropped { hooks: self.hooks, name: &name };
        self.give_input(&name, &job).await?;
        let state = self.wait(&jobs, &name).await?;
        let ended = match state {
            JobState::Done => {
                output.stdout.text = self.pod(&name).await.words;
                Ok(())
            }
            JobState::OutOfTime | JobState::Running => {
                // What the pod waited for is the reason, where it never began.
                output.stderr.text = self.pod(&name).await.words;
                Err(HookProblem::TimedOut(self.time_limit))
            }
            JobState::Failed { message } => {
                let said = self.ended_pod(&name).await;
                output.stderr = Captured { text: said.words, dropped: 0 };
                match said.exit_code {
                    Some(code) => Err(HookProblem::ExitCode(code)),
                    None => Err(HookProblem::Vanished(format!("its Job failed without an exit code: {message}"))),
                }
            }
        };
        if !matches!(ended, Err(HookProblem::TimedOut(_))) {
            // It has ended: it stays for people to look at.
            std::mem::forget(called_off);
        }
        ended
    }

    async fn find_or_make(&self, jobs: &Api<Job>, name: &str) -> Result<Job, HookProblem> {
        let wanted: Job = serde_json::from_value(self.job(name))
            .map_err(|error| HookProblem::NotStarted(format!("its Job cannot be made: {error}")))?;
        match jobs.create(&PostParams::default(), &wanted).await {
            Ok(made) => Ok(made),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = jobs.get(name).await.map_err(lost)?;
                // Nobody else's: whoever may make Jobs here could make one of this name.
                let ours = found.owner_references().iter().any(|owner| Some(&owner.uid) == self.object.uid().as_ref());
                if !ours {
                    let problem = format!("there is a Job {name} that is not this cluster's");
                    return Err(HookProblem::NotStarted(problem));
                }
                tracing::info!(job = name, "the hook's Job already exists; waiting for it to end");
                Ok(found)
            }
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Err(HookProblem::NotStarted(format!("its Job was refused: {}", status.message)))
            }
            Err(error) => Err(lost(error)),
        }
    }

    async fn give_input(&self, name: &str, job: &Job) -> Result<(), HookProblem> {
        let text = String::from_utf8(self.input.json()).unwrap_or_default();
        if text.len() > MAX_INPUT_LEN {
            let problem = format!("its input has {} bytes, more than a ConfigMap holds", text.len());
            return Err(HookProblem::NotStarted(problem));
        }
        let map = json!({
            "metadata": {
                "name": name,
                "labels": self.labels(),
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.uid(), "controller": true,
                }],
            },
            "data": {FILE: text},
            "immutable": true,
        });
        let map: ConfigMap = serde_json::from_value(map)
            .map_err(|error| HookProblem::NotStarted(format!("its input cannot be written: {error}")))?;
        let maps: Api<ConfigMap> = Api::namespaced(self.hooks.client.clone(), &self.hooks.namespace);
        match maps.create(&PostParams::default(), &map).await {
            Ok(_) => Ok(()),
            // The Job's, from before.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429 => {
                Err(HookProblem::NotStarted(format!("its input was refused: {}", status.message)))
            }
            Err(error) => Err(lost(error)),
        }
    }

    async fn wait(&self, jobs: &Api<Job>, name: &str) -> Result<JobState, HookProblem> {
        let until = Instant::now() + self.time_limit + GRACE;
        let mut pause = FIRST_LOOK;
        loop {
            match jobs.get_opt(name).await {
                Ok(Some(job)) => match state_of(&job) {
                    JobState::Running => {}
                    ended => return Ok(ended),
                },
                Ok(None) => {
                    return Err(HookProblem::Vanished(format!("its Job {name} was deleted while it ran")));
                }
                // The Job goes on by itself: an API server that is away for a while ends nothing.
                Err(error) => tracing::warn!(job = name, %error, "the hook's Job cannot be read now"),
            }
            if Instant::now() >= until {
                return Ok(JobState::Running);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn pod(&self, name: &str) -> Said {
        let pods: Api<Pod> = Api::namespaced(self.hooks.client.clone(), &self.hooks.namespace);
        let of_job = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        match pods.list(&of_job).await {
            Ok(found) => {
                let newest = found.items.into_iter().max_by_key(|pod| pod.creation_timestamp());
                newest.as_ref().map(said).unwrap_or_default()
            }
            Err(error) => {
                tracing::warn!(job = name, %error, "the pods of the hook's Job cannot be read");
                Said::default()
            }
        }
    }

    async fn ended_pod(&self, name: &str) -> Said {
        let mut last = Said::default();
        for _ in 0..POD_LOOKS {
            last = self.pod(name).await;
            if last.exit_code.is_some() {
                break;
            }
            tokio::time::sleep(FIRST_LOOK).await;
        }
        last
    }

    fn labels(&self) -> Value {
        json!({
            CLUSTER_LABEL: mark(&self.object.uid().unwrap_or_default()),
            OPERATION_LABEL: self.input.operation_number.to_string(),
            "windlass.dev/stage": stage_word(self.input.stage),
        })
    }

    /// The Job. Its pod keeps the rules of Kubernetes' Pod Security Standard `restricted`: refused, it would be waited for
    /// until its time is over.
    fn job(&self, name: &str) -> Value {
        let hook = self.hook;
        let own = [
            ("WINDLASS_INPUT", format!("{FOLDER}/{FILE}")),
            ("WINDLASS_HOOK_VERSION", self.input.version.to_string()),
            ("WINDLASS_CLUSTER", self.input.cluster.clone()),
            ("WINDLASS_ZONE", self.input.zone.clone()),
            ("WINDLASS_OPERATION", operation_word(self.input.operation).to_owned()),
            ("WINDLASS_OPERATION_ID", self.input.operation_id.clone()),
            ("WINDLASS_STAGE", stage_word(self.input.stage).to_owned()),
            ("WINDLASS_ATTEMPT", self.input.attempt.to_string()),
        ];
        let theirs = hook.env.iter().flatten().filter(|(key, _)| !key.starts_with("WINDLASS_"));
        let traced = windlass_telemetry::traceparent(&tracing::Span::current());
        let env: Vec<Value> = theirs
            .map(|(key, value)| json!({"name": key, "value": value}))
            .chain(traced.map(|context| json!({"name": "TRACEPARENT", "value": context})))
            .chain(own.iter().map(|(key, value)| json!({"name": key, "value": value})))
            .collect();
        let named = |names: &Option<Vec<String>>| -> Vec<Value> {
            names.iter().flatten().map(|name| json!({"name": name})).collect()
        };
        let secrets: Vec<Value> =
            hook.env_from_secrets.iter().flatten().map(|name| json!({"secretRef": {"name": name}})).collect();
        let mut container = json!({
            "name": "hook",
            "image": hook.image,
            "env": env,
            "envFrom": secrets,
            "volumeMounts": [{"name": "input", "mountPath": FOLDER, "readOnly": true}],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        });
        if let Some(command) = &hook.command {
            container["command"] = json!(command);
        }
        if let Some(args) = &hook.args {
            container["args"] = json!(args);
        }
        let mut security = json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true});
        if let Some(user) = hook.run_as_user {
            security["runAsUser"] = json!(user);
        }
        let mut pod = json!({
            "restartPolicy": "Never",
            "automountServiceAccountToken": hook.service_account_name.is_some(),
            "securityContext": security,
            "imagePullSecrets": named(&hook.image_pull_secrets),
            "containers": [container],
            "volumes": [{"name": "input", "configMap": {"name": name}}],
        });
        if let Some(account) = &hook.service_account_name {
            pod["serviceAccountName"] = json!(account);
        }
        json!({
            "metadata": {
                "name": name,
                "labels": self.labels(),
                "ownerReferences": [{
                    "apiVersion": ServerCluster::api_version(&()), "kind": ServerCluster::kind(&()),
                    "name": self.object.name_any(), "uid": self.object.uid(), "controller": true,
                }],
            },
            "spec": {
                // Whether it is run again the retry policy says.
                "backoffLimit": 0,
                // A pod that lost its node has said nothing: another takes its place.
                "podFailurePolicy": {"rules": [{
                    "action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }]},
                "activeDeadlineSeconds": self.time_limit.as_secs().max(1),
                "ttlSecondsAfterFinished": KEPT_SECONDS,
                "template": {"metadata": {"labels": self.labels()}, "spec": pod},
            },
        })
    }
}

fn lost(error: kube::Error) -> HookProblem {
    HookProblem::Connection(format!("the API server: {error}"))
}

async fn delete(hooks: &HookJobs, name: &str) -> kube::Result<()> {
    let jobs: Api<Job> = Api::namespaced(hooks.client.clone(), &hooks.namespace);
    match jobs.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a Job, and with it its pod, when whoever waits for it is called off.
struct StopWhenDropped<'r> {
    hooks: &'r HookJobs,
    name: &'r str,
}

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        if self.hooks.leaving.is_cancelled() {
            return;
        }
        let (hooks, name) = (self.hooks.clone(), self.name.to_owned());
        // Without a runtime the process is about to end: the next one stops the Job.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = delete(&hooks, &name).await {
                tracing::warn!(job = name, %error, "cannot delete the Job of a cancelled hook");
            }
        });
    }
}

/// Deletes the unfinished Jobs of an operation.
pub(super) async fn stop_all(hooks: &HookJobs, object: &ServerCluster, number: u64) -> kube::Result<()> {
    let jobs: Api<Job> = Api::namespaced(hooks.client.clone(), &hooks.namespace);
    let uid = mark(&object.uid().unwrap_or_default());
    let of_operation = ListParams::default().labels(&format!("{CLUSTER_LABEL}={uid},{OPERATION_LABEL}={number}"));
    for job in jobs.list(&of_operation).await?.items {
        if state_of(&job) == JobState::Running {
            tracing::info!(job = job.name_any(), "stopping the Job of an operation whose process died");
            delete(hooks, &job.name_any()).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ServerCluster {
        let mut object = ServerCluster::new(name, crate::kinds::ServerClusterSpec::default());
        object.metadata.uid = Some("uid-1".to_owned());
        object.metadata.namespace = Some("ci".to_owned());
        object
    }

    fn input(object: &ServerCluster) -> HookInput {
        HookInput {
            version: 1,
            cluster: object.name_any(),
            zone: "fr-par-1".into(),
            operation: Operation::Scale,
            operation_id: super::super::operation_id(object, 4_294_967_295),
            operation_number: 4_294_967_295,
            stage: Stage::Decommission,
            attempt: 500,
            nodes: Vec::new(),
            others: Vec::new(),
        }
    }

    #[test]
    fn a_jobs_name_is_within_its_bound_and_differs_between_two_lives_of_a_cluster() {
        let long = object(&"c".repeat(32));
        let name_of = |object: &ServerCluster| name(object, &input(object));
        assert!(name_of(&long).len() <= 63, "{}", name_of(&long));
        assert!(name_of(&long).ends_with("-4294967295-decommission-500"), "{}", name_of(&long));
        let again = ServerCluster {
            metadata: kube::api::ObjectMeta { uid: Some("uid-2".into()), ..long.metadata.clone() },
            ..long.clone()
        };
        assert_ne!(name_of(&long), name_of(&again));
        assert_ne!(input(&long).operation_id, input(&again).operation_id);
    }

    #[tokio::test]
    async fn a_job_is_run_once_with_no_more_rights_than_it_needs_and_ours_win() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        let hooks = HookJobs {
            client: kube::Client::new(service, "ci"),
            namespace: "ci".into(),
            leaving: tokio_util::sync::CancellationToken::new(),
        };
        let (object, hook) = (
            object("farm"),
            JobHook {
                image: "example.org/join:1".into(),
                command: Some(vec!["join".into()]),
                env: Some(
                    [("LEVEL", "2"), ("WINDLASS_INPUT", "/etc/passwd")].map(|(k, v)| (k.into(), v.into())).into(),
                ),
                env_from_secrets: Some(vec!["vault".into()]),
                run_as_user: Some(1000),
                ..JobHook::default()
            },
        );
        let input = input(&object);
        let run =
            Run { hooks: &hooks, object: &object, hook: &hook, time_limit: Duration::from_secs(90), input: &input };
        let job = run.job("j");
        let typed: Job = serde_json::from_value(job.clone()).unwrap();
        assert_eq!(typed.metadata.owner_references.unwrap()[0].uid, "uid-1");
        let spec = &job["spec"];
        assert_eq!((spec["backoffLimit"].as_i64(), spec["activeDeadlineSeconds"].as_i64()), (Some(0), Some(90)));
        let pod = &spec["template"]["spec"];
        assert_eq!(
            (pod["restartPolicy"].as_str(), pod["automountServiceAccountToken"].as_bool()),
            (Some("Never"), Some(false))
        );
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
        assert!(container.get("args").is_none(), "the image's own stay");
        let env: Vec<(&str, &str)> = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["name"].as_str().unwrap(), one["value"].as_str().unwrap()))
            .collect();
        assert!(env.contains(&("LEVEL", "2")) && env.contains(&("WINDLASS_STAGE", "decommission")));
        let inputs: Vec<_> = env.iter().filter(|(name, _)| *name == "WINDLASS_INPUT").collect();
        assert_eq!(inputs, [&("WINDLASS_INPUT", "/windlass/input.json")]);
        // Where spans are exported, it gets its own.
        assert!(!env.iter().any(|(name, _)| *name == "TRACEPARENT"), "{env:?}");
        let (job, traceparent) = windlass_telemetry::collector::in_a_hook(async { run.job("j") }).await;
        let env = job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
        let context: Vec<_> = env.iter().filter(|one| one["name"] == "TRACEPARENT").map(|one| &one["value"]).collect();
        assert_eq!(context, [&json!(traceparent)]);
    }

    #[test]
    fn the_end_of_a_job_is_read_from_its_conditions() {
        let job = |kind: &str, status: &str, reason: &str| -> Job {
            let condition = json!({"type": kind, "status": status, "reason": reason, "message": "words"});
            serde_json::from_value(json!({"metadata": {}, "status": {"conditions": [condition]}})).unwrap()
        };
        assert_eq!(state_of(&Job::default()), JobState::Running);
        assert_eq!(state_of(&job("Complete", "True", "")), JobState::Done);
        assert_eq!(state_of(&job("Complete", "False", "")), JobState::Running);
        assert_eq!(state_of(&job("FailureTarget", "True", "")), JobState::Running, "its pods still end");
        assert_eq!(state_of(&job("Failed", "True", "DeadlineExceeded")), JobState::OutOfTime);
        assert_eq!(
            state_of(&job("Failed", "True", "BackoffLimitExceeded")),
            JobState::Failed { message: "words".into() }
        );
    }

    #[test]
    fn what_a_pod_said_is_its_termination_message_or_what_it_waits_for() {
        let pod = |state: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [
                {"name": "hook", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state},
            ]}}))
            .unwrap()
        };
        let ended = said(&pod(json!({"terminated": {"exitCode": 75, "message": "later, please", "reason": "Error"}})));
        assert_eq!(ended, Said { exit_code: Some(75), words: "later, please".into() });
        let killed = said(&pod(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})));
        assert_eq!(killed, Said { exit_code: Some(137), words: "OOMKilled".into() });
        let done = said(&pod(json!({"terminated": {"exitCode": 0, "reason": "Completed"}})));
        assert_eq!(done, Said { exit_code: Some(0), words: String::new() });
        let waiting = said(&pod(json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})));
        assert_eq!(waiting, Said { exit_code: None, words: "ImagePullBackOff: no such image".into() });
    }
}
