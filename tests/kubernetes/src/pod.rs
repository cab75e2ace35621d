use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, PersistentVolumeClaim, PodSpec, Probe, Secret, Volume};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, Client};

use crate::control_plane::free_port;
use crate::controller::{get, has_ended};
use crate::process::Process;
use crate::{ControlPlane, User, compiled, eventually};

/// The one container of a Deployment, run on this machine as a kubelet would run it: with the arguments, the
/// environment, the volumes and the service account that stand in the API server, and nothing else.
///
/// What cannot be the same without a container is replaced, and only that: where a volume is mounted, the ports, and
/// the way to the API server, which is a kubeconfig with a token of the service account instead of the files of a pod.
#[derive(Debug)]
pub struct Pod {
    process: Process,
    arguments: Vec<String>,
    ports: BTreeMap<String, u16>,
    probes: Vec<(String, u16)>,
}

impl Pod {
    /// Starts `program` as the Deployment's container. `node` keeps the volumes: claims outlive the pod, configuration
    /// is written anew for each.
    ///
    /// # Errors
    /// When the API server lacks what the Deployment names (a kubelet would wait for it), or when it asks for something
    /// that this small kubelet does not know.
    pub async fn start(plane: &ControlPlane, program: &Path, namespace: &str, name: &str, node: &Path) -> Result<Self> {
        let client = plane.client(User::Admin).await?;
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let deployment = deployments.get(name).await.with_context(|| format!("Deployment {name}"))?;
        let specification =
            deployment.spec.and_then(|spec| spec.template.spec).context("a Deployment without a pod")?;
        let [container] = specification.containers.as_slice() else { bail!("more than one container") };
        ensure!(container.command.is_none(), "the image's entry point is the program");
        std::fs::create_dir_all(node)?;
        let kubelet = Kubelet { client, namespace, pod: format!("{name}-0"), node };

        let mounts = kubelet.mounts(&specification, container).await?;
        let ports = ports(container)?;
        let host_port = |number: i32| ports.values().find(|(inside, _)| *inside == number).map(|(_, outside)| *outside);
        let arguments = container.args.clone().unwrap_or_default();
        let environment = kubelet.environment(container).await?.into_iter();
        let environment = environment.map(|(name, value)| (name, in_volume(&value, &mounts).unwrap_or(value)));
        let replaced: Vec<String> =
            arguments.iter().map(|argument| on_this_machine(argument, &mounts, host_port)).collect();
        let mut probes = Vec::new();
        for probe in [&container.liveness_probe, &container.readiness_probe] {
            let (path, port) = target(probe.as_ref().context("a container without both probes")?)?;
            let (_, outside) = ports.get(&port).with_context(|| format!("a probe of an unknown port {port}"))?;
            probes.push((path, *outside));
        }

        let account = specification.service_account_name.as_deref().context("no service account")?;
        let token = plane.kubectl(User::Admin, &["create", "token", account, "--namespace", namespace], "")?;
        let kubeconfig = node.join(format!("{namespace}-{account}.kubeconfig"));
        std::fs::write(&kubeconfig, plane.kubeconfig_of(account, token.trim()))?;
        let mut command = Command::new(program);
        command.current_dir(node).env_clear().envs(environment).env("KUBECONFIG", kubeconfig).args(&replaced);
        let process = Process::start(name, &mut command, &node.join(format!("{namespace}-{name}.log")))?;
        let ports = ports.into_iter().map(|(name, (_, outside))| (name, outside)).collect();
        Ok(Self { process, arguments, ports, probes })
    }

    /// The arguments, as they stand in the Deployment.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Waits until its probes, liveness and readiness, answer.
    ///
    /// # Errors
    /// When it ends instead, or never answers; with its last words.
    pub async fn ready(&mut self) -> Result<()> {
        for (path, port) in self.probes.clone() {
            let what = format!("{path} answers");
            let answers = eventually(&what, || async { get(port, &path).await.map(drop) });
            tokio::select! {
                answered = answers => answered.with_context(|| self.process.last_words())?,
                ended = has_ended(&mut self.process) => bail!("it ended with {}; its last \
                    words:\n{}", ended?, self.process.last_words()),
            }
        }
        Ok(())
    }

    /// What a GET of `path` at the port with this name answers.
    ///
    /// # Errors
    /// When there is no such port, or no good answer.
    pub async fn get(&self, port: &str, path: &str) -> Result<String> {
        get(*self.ports.get(port).with_context(|| format!("no port {port}"))?, path).await
    }

    /// SIGTERM, and the end.
    ///
    /// # Errors
    /// When it does not end within its grace.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.process.signal("TERM")?;
        self.process.wait()
    }

    /// What it and those before it on the same node wrote.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.written()
    }
}

/// What is asked of the API server for one pod.
struct Kubelet<'a> {
    client: Client,
    namespace: &'a str,
    pod: String,
    node: &'a Path,
}

impl Kubelet<'_> {
    /// Mount paths with the folders that stand for them here.
    async fn mounts(&self, specification: &PodSpec, container: &Container) -> Result<Vec<(String, PathBuf)>> {
        let volumes = specification.volumes.as_deref().unwrap_or_default();
        let mut mounts = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let volume = volumes.iter().find(|volume| volume.name == mount.name);
            let volume = volume.with_context(|| format!("no volume {}", mount.name))?;
            mounts.push((mount.mount_path.clone(), self.folder_of(volume)));
        }
        for mount in container.volume_mounts.iter().flatten() {
            let volume = volumes.iter().find(|volume| volume.name == mount.name).context("seen above")?;
            self.fill(volume, &mounts).await.with_context(|| format!("volume {}", volume.name))?;
        }
        Ok(mounts)
    }

    fn folder_of(&self, volume: &Volume) -> PathBuf {
        match &volume.persistent_volume_claim {
            Some(claim) => self.node.join("claims").join(self.namespace).join(&claim.claim_name),
            None => self.node.join("volumes").join(self.namespace).join(&volume.name),
        }
    }

    async fn fill(&self, volume: &Volume, mounts: &[(String, PathBuf)]) -> Result<()> {
        let folder = self.folder_of(volume);
        if let Some(claim) = &volume.persistent_volume_claim {
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), self.namespace);
            claims.get(&claim.claim_name).await?;
            std::fs::create_dir_all(&folder)?;
            return compiled::lend(&folder);
        }
        // What is no claim goes with its pod.
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        if volume.empty_dir.is_some() {
            return compiled::lend(&folder);
        }
        if let Some(source) = &volume.secret {
            ensure!(source.items.is_none(), "single keys of a Secret");
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
            let secret = secrets.get(source.secret_name.as_deref().context("a volume of no Secret")?).await?;
            for (name, bytes) in secret.data.unwrap_or_default() {
                std::fs::write(folder.join(name), bytes.0)?;
            }
            return Ok(());
        }
        let Some(source) = &volume.config_map else { bail!("a volume of another kind: {volume:?}") };
        ensure!(source.items.is_none(), "single keys of a ConfigMap");
        let map = self.config_map(&source.name, source.optional).await?;
        for (name, text) in map.data.unwrap_or_default() {
            std::fs::write(folder.join(name), in_text(&text, mounts))?;
        }
        for (name, bytes) in map.binary_data.unwrap_or_default() {
            std::fs::write(folder.join(name), bytes.0)?;
        }
        Ok(())
    }

    /// A ConfigMap; an empty one where it may be missing and is.
    async fn config_map(&self, name: &str, optional: Option<bool>) -> Result<ConfigMap> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.namespace);
        let found = maps.get_opt(name).await?;
        if found.is_none() && optional != Some(true) {
            bail!("no ConfigMap {name}");
        }
        Ok(found.unwrap_or_default())
    }

    async fn environment(&self, container: &Container) -> Result<BTreeMap<String, String>> {
        let mut environment = BTreeMap::new();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), self.namespace);
        for source in container.env_from.iter().flatten() {
            if let Some(reference) = &source.secret_ref {
                for (name, value) in secrets.get(&reference.name).await?.data.unwrap_or_default() {
                    environment.insert(name, String::from_utf8(value.0)?);
                }
            }
            if let Some(reference) = &source.config_map_ref {
                let map = self.config_map(&reference.name, reference.optional).await?;
                environment.extend(map.data.unwrap_or_default());
            }
        }
        for variable in container.env.iter().flatten() {
            environment.insert(variable.name.clone(), self.value(variable)?);
        }
        Ok(environment)
    }

    fn value(&self, variable: &EnvVar) -> Result<String> {
        if let Some(value) = &variable.value {
            return Ok(value.clone());
        }
        let field = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        match field.map(|field| field.field_path.as_str()) {
            Some("metadata.name") => Ok(self.pod.clone()),
            Some("metadata.namespace") => Ok(self.namespace.to_owned()),
            _ => bail!("a variable from somewhere else: {variable:?}"),
        }
    }
}

/// The container's ports by name: inside, and here.
fn ports(container: &Container) -> Result<BTreeMap<String, (i32, u16)>> {
    let mut ports = BTreeMap::new();
    for port in container.ports.iter().flatten() {
        ports.insert(port.name.clone().context("a port without a name")?, (port.container_port, free_port()?));
    }
    Ok(ports)
}

/// Path and port name of a probe.
fn target(probe: &Probe) -> Result<(String, String)> {
    let action = probe.http_get.as_ref().context("a probe that is not HTTP")?;
    let IntOrString::String(port) = &action.port else { bail!("a probe of a port without a name") };
    Ok((action.path.clone().context("a probe without a path")?, port.clone()))
}

/// `--option=value` whose value is an address of a container's port or a path in a volume, with what stands for it
/// here.
fn on_this_machine(argument: &str, mounts: &[(String, PathBuf)], host_port: impl Fn(i32) -> Option<u16>) -> String {
    let Some((option, value)) = argument.split_once('=') else { return argument.to_owned() };
    if let Some(port) = value.strip_prefix("0.0.0.0:").and_then(|port| port.parse().ok()).and_then(host_port) {
        return format!("{option}=127.0.0.1:{port}");
    }
    in_volume(value, mounts).map_or_else(|| argument.to_owned(), |path| format!("{option}={path}"))
}

/// A path in a volume, as it is here.
fn in_volume(value: &str, mounts: &[(String, PathBuf)]) -> Option<String> {
    mounts.iter().find_map(|(path, folder)| {
        let rest = value.strip_prefix(path.as_str()).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(format!("{}{rest}", folder.display()))
    })
}

/// A configuration in which paths in volumes are those of this machine.
fn in_text(text: &str, mounts: &[(String, PathBuf)]) -> String {
    mounts.iter().fold(text.to_owned(), |text, (path, folder)| {
        text.replace(&format!("{path}/"), &format!("{}/", folder.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_volumes_and_ports_are_replaced() {
        let mounts = [("/etc/windlass".to_owned(), PathBuf::from("/node/configuration"))];
        let replaced = |argument: &str| on_this_machine(argument, &mounts, |port| (port == 8080).then_some(12345));
        assert_eq!(replaced("--config=/etc/windlass/config.yaml"), "--config=/node/configuration/config.yaml");
        assert_eq!(replaced("--config=/etc/windlass-other/config.yaml"), "--config=/etc/windlass-other/config.yaml");
        assert_eq!(replaced("--metrics-bind-address=0.0.0.0:8080"), "--metrics-bind-address=127.0.0.1:12345");
        for kept in ["--metrics-bind-address=0.0.0.0:9090", "--pool-prefix=ci-pool-", "--allow-orders"] {
            assert_eq!(replaced(kept), kept);
        }
        assert_eq!(in_text("path: /etc/windlass/a.wasm", &mounts), "path: /node/configuration/a.wasm");
    }
}
