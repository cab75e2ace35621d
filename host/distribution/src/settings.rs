//! How registries are reached.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::reference::is_registry;

/// The most mirrors of one registry.
const MAX_MIRRORS: usize = 8;

/// How registries are reached. Relative paths start at [`RegistryOptions::folder`](crate::RegistryOptions).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrySettings {
    /// Docker's configuration file with the credentials. Absent: `$DOCKER_CONFIG/config.json`, else
    /// `~/.docker/config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// What differs for single registries, by host and port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostSettings>,
}

/// How one registry is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// Registries with the same repositories, asked before it in this order. Never pushed to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<String>,
    /// A file of PEM certificates that may vouch for it, besides the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether it is spoken to without TLS. Registries on loopback always are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

impl RegistrySettings {
    /// Reads a table of the configuration.
    ///
    /// # Errors
    /// A sentence for each mistake.
    pub fn from_value(value: serde_json::Value) -> Result<RegistrySettings, String> {
        let settings: RegistrySettings = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let mut wrong = Vec::new();
        for (host, its) in &settings.hosts {
            for name in std::iter::once(host).chain(&its.mirrors).filter(|name| !is_registry(name)) {
                wrong.push(format!("`{name}` is not a registry: a host name, with or without a port, and no scheme"));
            }
            if its.mirrors.len() > MAX_MIRRORS {
                wrong.push(format!("{} mirrors of {host}, and at most {MAX_MIRRORS} are allowed", its.mirrors.len()));
            }
        }
        if wrong.is_empty() { Ok(settings) } else { Err(wrong.join("; ")) }
    }
}
