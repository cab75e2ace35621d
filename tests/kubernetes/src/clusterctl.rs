use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster_api::CORE;
use crate::control_plane::{free_port, run};
use crate::{ControlPlane, User};

/// The versions of our provider that the repository has; they differ in nothing else.
const VERSIONS: [&str; 2] = ["v0.1.0", "v0.1.1"];

impl ControlPlane {
    /// Installs Cluster API's core with `clusterctl init`, and `providers` beside it, from a repository in this control
    /// plane's folder; then starts the core's manager here.
    ///
    /// # Errors
    /// What clusterctl says; or when the manager does not start.
    pub async fn initialise(&self, providers: &[&str]) -> Result<()> {
        let port = free_port()?;
        self.publish(port)?;
        // There is no cert-manager here, and nothing of ours needs one: clusterctl only asks whether one's objects can
        // be made.
        self.kubectl(User::Admin, &["apply", "--server-side", "-f", "-"], &stand_in_for_cert_manager().to_string())?;
        self.kubectl(
            User::Admin,
            &["wait", "--for=condition=Established", "--timeout=300s", "customresourcedefinitions", "--all"],
            "",
        )?;
        let core = format!("cluster-api:{}", core_version(self)?);
        let mut arguments = vec!["init", "--core", &core, "--bootstrap", "-", "--control-plane", "-"];
        for provider in providers {
            arguments.extend(["--infrastructure", provider]);
        }
        self.clusterctl(&arguments)?;
        CORE.start(self, port).await
    }

    /// Runs Cluster API's own tool as the administrator, with the repository of [`ControlPlane::initialise`].
    ///
    /// # Errors
    /// When it fails: what it said.
    pub fn clusterctl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs().path("clusterctl"));
        command
            // Neither a person's configuration nor a look at the network for a newer version.
            .env_clear()
            .env("HOME", self.folder())
            .env("KUBECONFIG", self.kubeconfig_file(User::Admin))
            .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
            .args(arguments)
            .arg("--config")
            .arg(self.folder().join("clusterctl.yaml"));
        run(command, "")
    }

    /// Lays out what releases publish: `<label>/<version>/<components>.yaml` with `metadata.yaml` beside it.
    fn publish(&self, port: u16) -> Result<()> {
        let repository = self.folder().join("repository");
        let core = repository.join("cluster-api").join(core_version(self)?);
        let mut text = String::new();
        for object in CORE.manifests(self, port)? {
            text += &format!("---\n{}", serde_norway::to_string(&object)?);
        }
        write(&core, "core-components.yaml", &text)?;
        std::fs::copy(CORE.folder(self).join("metadata.yaml"), core.join("metadata.yaml"))?;

        let configuration = json!({"providers": [
            {"name": "cluster-api", "type": "CoreProvider", "url": core.join("core-components.yaml")},
            self.publish_ours()?,
        ]});
        write(self.folder(), "clusterctl.yaml", &configuration.to_string())
    }

    /// Lays out what a release of our provider publishes, and gives clusterctl's configuration of it.
    fn publish_ours(&self) -> Result<Value> {
        let ours = self.folder().join("repository/infrastructure-windlass");
        let (source, components) = match self.programs().release() {
            // Its only version: the second of VERSIONS is what an upgrade goes to, and differs in nothing.
            Some(release) => {
                let source = release.join("clusterctl/infrastructure-windlass").join(VERSIONS[0]);
                let components = std::fs::read_to_string(source.join("infrastructure-components.yaml"))
                    .with_context(|| source.display().to_string())?;
                (source, components)
            }
            None => {
                let source = self.programs().deploy("clusterctl");
                let components = self.kubectl(User::Admin, &["kustomize", source.to_str().context("UTF-8")?], "")?;
                (source, components)
            }
        };
        for version in VERSIONS {
            write(&ours.join(version), "infrastructure-components.yaml", &components)?;
            for file in ["metadata.yaml", "cluster-template.yaml"] {
                std::fs::copy(source.join(file), ours.join(version).join(file))?;
            }
        }
        let components = ours.join("latest/infrastructure-components.yaml");
        Ok(json!({"name": "windlass", "type": "InfrastructureProvider", "url": components}))
    }

    /// Runs `clusterctl generate cluster` on the template of our release, with these values of its variables.
    ///
    /// # Errors
    /// What clusterctl says.
    pub fn generate_cluster(&self, name: &str, namespace: &str, variables: Value) -> Result<String> {
        let mut configuration = variables;
        configuration["providers"] = json!([self.publish_ours()?]);
        write(self.folder(), "clusterctl.yaml", &configuration.to_string())?;
        let target = format!("--target-namespace={namespace}");
        self.clusterctl(&["generate", "cluster", name, "--infrastructure=windlass:v0.1.0", &target])
    }
}

/// The version of the core, which `go/build.sh` noted beside its configuration.
fn core_version(plane: &ControlPlane) -> Result<String> {
    let file = CORE.folder(plane).join("version");
    Ok(std::fs::read_to_string(&file).with_context(|| file.display().to_string())?.trim().to_owned())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(name), text).with_context(|| format!("write {name}"))
}

/// Two kinds that accept anything.
fn stand_in_for_cert_manager() -> Value {
    let definition = |kind: &str| {
        let singular = kind.to_lowercase();
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{singular}s.cert-manager.io")},
            "spec": {
                "group": "cert-manager.io",
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [definition("Issuer"), definition("Certificate")]})
}
