use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::changes::Changes;

const PAUSE: Duration = Duration::from_millis(100);
/// Where hooks find what they are told.
const MOUNT: &str = "/windlass/";
const TERMINATION_LOG: &str = "/dev/termination-log";
/// What a kubelet keeps of it.
const MAX_MESSAGE_LEN: usize = 4096;
/// SIGKILL, as a shell tells it.
const KILLED: i32 = 137;

/// Runs the pods of a namespace as processes of this machine: a kubelet without images. Of a container it knows
/// command, arguments, variables (also from Secrets) and files from ConfigMaps, which it finds under another path: in
/// words and variables `/windlass/` and `/dev/termination-log` are replaced by the real ones.
#[derive(Debug)]
pub struct Kubelet {
    task: JoinHandle<()>,
}

impl Kubelet {
    /// Runs pods until this is dropped; their files are in `folder`.
    #[must_use]
    pub fn run(client: Client, namespace: &str, folder: &Path) -> Self {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let (namespace, folder) = (namespace.to_owned(), folder.join("pods"));
        let task = tokio::spawn(async move {
            // Dropped with this task, and so all pods with it.
            let mut pods_run = JoinSet::new();
            let mut running: HashMap<String, AbortHandle> = HashMap::new();
            let (mut changes, mut is_missed) = (Changes::of(&pods), false);
            loop {
                // What fails is tried again: the API server may be restarting.
                if is_missed {
                    tokio::time::sleep(PAUSE).await;
                } else {
                    changes.next(PAUSE).await;
                }
                while pods_run.try_join_next().is_some() {}
                let Ok(all) = pods.list(&ListParams::default()).await else {
                    is_missed = true;
                    continue;
                };
                is_missed = false;
                running.retain(|uid, task| {
                    let wanted = all.items.iter().any(|pod| pod.uid().as_ref() == Some(uid) && !is_going(pod));
                    if !wanted {
                        task.abort();
                    }
                    wanted
                });
                for pod in all.items {
                    let (uid, name) = (pod.uid().unwrap_or_default(), pod.name_any());
                    if is_going(&pod) {
                        if !has_ended(&pod) {
                            is_missed |= set_phase(&pods, &name, "Failed", terminated(KILLED, "")).await.is_err();
                        }
                    } else if !has_ended(&pod) && !running.contains_key(&uid) {
                        let (client, pods) = (client.clone(), pods.clone());
                        let (namespace, folder) = (namespace.clone(), folder.join(&uid));
                        let run = pods_run.spawn(async move {
                            while let Err(error) = start(&client, &namespace, &pods, &pod, &folder).await {
                                eprintln!("kubelet: {name}: {error:#}");
                                tokio::time::sleep(PAUSE).await;
                            }
                        });
                        running.insert(uid, run);
                    }
                }
            }
        });
        Self { task }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn terminated(exit_code: i32, message: &str) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": exit_code, "reason": reason, "message": message}})
}

async fn set_phase(pods: &Api<Pod>, name: &str, phase: &str, state: Value) -> kube::Result<()> {
    let container =
        json!({"name": "hook", "image": "none", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.map(drop)
}

/// Runs a pod to its end. An error means that nothing was run.
async fn start(client: &Client, namespace: &str, pods: &Api<Pod>, pod: &Pod, folder: &Path) -> Result<()> {
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    let container = spec.containers.first().context("a pod without containers")?;
    std::fs::create_dir_all(folder)?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    for volume in spec.volumes.iter().flatten() {
        let Some(map) = &volume.config_map else { continue };
        for (file, content) in maps.get(&map.name).await?.data.unwrap_or_default() {
            std::fs::write(folder.join(file), content)?;
        }
    }
    let log = folder.join("termination-log");
    let here = |text: &str| {
        text.replace(TERMINATION_LOG, &log.display().to_string()).replace(MOUNT, &format!("{}/", folder.display()))
    };
    let mut variables = BTreeMap::new();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for source in container.env_from.iter().flatten() {
        let Some(secret) = &source.secret_ref else { continue };
        for (key, value) in secrets.get(&secret.name).await?.data.unwrap_or_default() {
            variables.insert(key, String::from_utf8(value.0)?);
        }
    }
    for variable in container.env.iter().flatten() {
        variables.insert(variable.name.clone(), here(variable.value.as_deref().unwrap_or_default()));
    }
    let mut words = Vec::new();
    for word in container.command.iter().chain(&container.args).flatten() {
        words.push(here(word));
    }
    let mut command = Command::new(words.first().context("an image's own command is not known here")?);
    command
        .args(&words[1..])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn()?;
    let name = pod.name_any();
    let _ = set_phase(pods, &name, "Running", json!({"running": {}})).await;
    let output = child.wait_with_output().await?;
    let exit_code = output.status.code().unwrap_or(KILLED);
    let mut message = std::fs::read_to_string(&log).unwrap_or_default();
    if message.is_empty() && exit_code != 0 {
        // `terminationMessagePolicy: FallbackToLogsOnError`.
        message = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    }
    message.truncate(MAX_MESSAGE_LEN);
    let phase = if exit_code == 0 { "Succeeded" } else { "Failed" };
    while let Err(error) = set_phase(pods, &name, phase, terminated(exit_code, &message)).await {
        if matches!(&error, kube::Error::Api(status) if status.code == 404) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
