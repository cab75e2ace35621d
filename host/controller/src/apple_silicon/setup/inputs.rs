//! What a set-up is made of: objects of the machine's own namespace.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use windlass_ssh::{HostKey, Identity, Login, Password};

use super::redact::Secrets;
use crate::kinds::Setup;

/// Where Kubernetes' type `kubernetes.io/ssh-auth` has the key.
const PRIVATE_KEY: &str = "ssh-privatekey";

/// The operator's part of a run.
pub(super) struct Inputs {
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
    identity: Option<Identity>,
    /// Host keys that the operator knows.
    pub(super) host_keys: Vec<HostKey>,
    /// What must not be shown.
    pub(super) redacted: Secrets,
}

impl Inputs {
    /// Reads them.
    ///
    /// # Errors
    /// What is missing or wrong, with its place; nothing of a Secret is quoted.
    pub(super) async fn read(client: &Client, namespace: &str, setup: &Setup, script: &str) -> Result<Self, String> {
        let mut redacted = Secrets::default();
        let name = &setup.config_map_ref.name;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let map = maps.get_opt(name).await.map_err(|error| format!("the ConfigMap {name}: {error}"))?;
        let map = map.ok_or_else(|| format!("spec.setup.configMapRef: there is no ConfigMap {name} in {namespace}"))?;
        let mut files: BTreeMap<String, Vec<u8>> =
            map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes())).collect();
        files.extend(map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)));
        if !files.contains_key(script) {
            return Err(format!("the ConfigMap {name} has no key {script}: that is the script which is to run"));
        }
        let secrets = match &setup.secret_ref {
            Some(secret) => read_secret(client, namespace, &secret.name, "spec.setup.secretRef").await?,
            None => BTreeMap::new(),
        };
        secrets.values().for_each(|value| redacted.add(value));
        let identity = match &setup.ssh_key_secret_ref {
            None => None,
            Some(secret) => {
                let name = &secret.name;
                let key = read_secret(client, namespace, name, "spec.setup.sshKeySecretRef").await?;
                let key = key.get(PRIVATE_KEY).ok_or_else(|| format!("the Secret {name} has no key {PRIVATE_KEY}"))?;
                redacted.add(key);
                let text =
                    std::str::from_utf8(key).map_err(|_| format!("{PRIVATE_KEY} of the Secret {name} is no text"))?;
                let identity = Identity::from_openssh(text);
                Some(identity.map_err(|error| format!("{PRIVATE_KEY} of the Secret {name}: {error}"))?)
            }
        };
        let host_keys = setup
            .host_keys
            .iter()
            .map(|key| key.parse().map_err(|error: String| format!("spec.setup.hostKeys: {error}")))
            .collect::<Result<_, _>>()?;
        Ok(Self { files, secrets, identity, host_keys, redacted })
    }

    /// By what the user is let in: the key that was given, else the password that Scaleway shows (assumption:
    /// mac-ssh-password). Nothing where it shows none.
    pub(super) fn login(&self, password: Option<&str>) -> Option<Login> {
        match &self.identity {
            Some(identity) => Some(Login::Key(identity.clone())),
            None => password.map(|password| Login::Password(Password::new(password))),
        }
    }
}

async fn read_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    field: &str,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get_opt(name).await.map_err(|error| format!("the Secret {name}: {error}"))?;
    let secret = secret.ok_or_else(|| format!("{field}: there is no Secret {name} in {namespace}"))?;
    Ok(secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect())
}
