//! Policies kept in the state folder, so that an operation that outlives its process ends under the policies with which
//! it began.
//!
//! `policies/<component>.wasm` holds a component, and `policies/<slot>-<component>-<settings>.json` how it was
//! configured (`<slot>@<origin>-...` where an object brought it), both named by digest. A component is verified against its name when it is read.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_distribution::{ContentDigest, KeyId, Trust, Untrusted};

use crate::configuration::Link;
use crate::decision::PolicyIdentity;
use crate::digest::Digest;
use crate::error::Error;
use crate::limits::MAX_COMPONENT_BYTES;
use crate::slots::OnFailure;
use crate::source::Source;
use windlass_distribution::files::{private_folder, read_bounded, remove, write_atomically};

const FOLDER: &str = "policies";
/// The longest configuration of one policy.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// After so long a policy in use is kept again, so that its age, by which `retain` spares it, stays below a day.
const KEPT_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// How one kept policy was configured.
#[derive(Debug, Serialize, Deserialize)]
struct Configuration {
    identity: PolicyIdentity,
    settings: Map<String, Value>,
    grants: Vec<String>,
    on_failure: Option<OnFailure>,
    limits: Map<String, Value>,
    /// Whether it is a built-in default, which nobody has to sign.
    #[serde(default)]
    built_in: bool,
    /// The key that had signed it when it was loaded.
    #[serde(default)]
    signed_by: Option<KeyId>,
}

pub(crate) struct Kept {
    folder: Dir,
}

impl Kept {
    pub(crate) fn open(state: &Dir) -> Result<Kept, Error> {
        let folder = private_folder(state, FOLDER)
            .map_err(|source| Error::StateFolder { what: "open the folder policies".into(), source })?;
        Ok(Kept { folder })
    }

    /// Keeps a policy. The newest configuration wins where only grants or limits differ.
    pub(crate) fn keep(
        &self,
        identity: &PolicyIdentity,
        link: &Link,
        component: &[u8],
        signed_by: Option<KeyId>,
    ) -> Result<(), Error> {
        let configuration = Configuration {
            identity: identity.clone(),
            settings: link.settings.clone(),
            grants: link.grants.clone(),
            on_failure: link.on_failure,
            limits: link.limits.clone(),
            built_in: link.source == Source::BuiltIn,
            signed_by,
        };
        let name = component_file(&identity.component);
        let kept = serde_json::to_vec(&configuration).map_err(io::Error::other).and_then(|json| {
            if self.is_kept(identity, &json) {
                return Ok(());
            }
            // Content never changes under its name, so one that is there with the right size is the right one; what a
            // crash left short is written again.
            if !self.folder.metadata(&name).is_ok_and(|metadata| metadata.len() == component.len() as u64) {
                write_atomically(&self.folder, &name, component)?;
            }
            write_atomically(&self.folder, &configuration_file(identity), &json)
        });
        kept.map_err(|source| Error::StateFolder { what: format!("keep the policy {identity}"), source })
    }

    /// Whether exactly this was kept a short while ago, as at every start but the first: then nothing needs to be
    /// written, and nothing to be synced, which would take most of the time of a start.
    fn is_kept(&self, identity: &PolicyIdentity, configuration: &[u8]) -> bool {
        let name = configuration_file(identity);
        let is_fresh = self.folder.metadata(&name).and_then(|metadata| metadata.modified()).is_ok_and(|modified| {
            std::time::SystemTime::now().duration_since(modified.into_std()).is_ok_and(|age| age < KEPT_AGAIN_AFTER)
        });
        is_fresh
            && read_bounded(&self.folder, &name, MAX_CONFIGURATION_BYTES).is_ok_and(|bytes| bytes == configuration)
            && self.folder.exists(component_file(&identity.component))
    }

    /// Reads a kept policy, if whoever signed it is still trusted.
    pub(crate) fn read(&self, identity: &PolicyIdentity, trust: Option<&Trust>) -> Result<(Link, Arc<[u8]>), String> {
        let configuration = read_bounded(&self.folder, configuration_file(identity), MAX_CONFIGURATION_BYTES)
            .map_err(|error| format!("its configuration is not in the state folder: {error}"))?;
        let configuration: Configuration = serde_json::from_slice(&configuration)
            .map_err(|error| format!("its configuration in the state folder can't be read: {error}"))?;
        let component: Arc<[u8]> = read_bounded(&self.folder, component_file(&identity.component), MAX_COMPONENT_BYTES)
            .map_err(|error| format!("its component is not in the state folder: {error}"))?
            .into();
        if Digest::of(&component) != identity.component {
            return Err("its component in the state folder has been changed".into());
        }
        if let Some(trust) = trust
            && !configuration.built_in
        {
            let digest = ContentDigest::of(&component);
            let key = configuration.signed_by.ok_or(Untrusted::Unknown);
            let checked = key.and_then(|key| trust.check_key(digest, key));
            checked
                .and_then(|()| trust.check_version(&identity.name, &identity.version))
                .map_err(|untrusted| format!("it is no longer trusted: {untrusted}"))?;
        }
        if Digest::of_json(&Value::Object(configuration.settings.clone())) != identity.settings {
            return Err("its settings in the state folder have been changed".into());
        }
        let link = Link {
            source: Source::Bytes(component.clone()),
            settings: configuration.settings,
            grants: configuration.grants,
            on_failure: configuration.on_failure,
            limits: configuration.limits,
            ..Link::default()
        };
        Ok((link, component))
    }

    /// Removes what isn't in use and older than `grace`. Returns how many policies were removed.
    pub(crate) fn retain(&self, in_use: &HashSet<PolicyIdentity>, grace: Duration) -> io::Result<usize> {
        let names_in_use: HashSet<String> = in_use.iter().map(configuration_file).collect();
        let now = std::time::SystemTime::now();
        let mut removed = 0;
        let mut components_in_use: HashSet<String> =
            in_use.iter().map(|identity| component_file(&identity.component)).collect();
        let mut components = Vec::new();
        for entry in self.folder.entries()? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(metadata) = entry.metadata() else { continue };
            let age = now.duration_since(metadata.modified()?.into_std()).unwrap_or_default();
            if name.ends_with(".json") {
                if names_in_use.contains(&name) || age < grace {
                    // <slot>-<component>-<settings>.json
                    if let Some(component) = name.rsplit('-').nth(1) {
                        components_in_use.insert(format!("{component}.wasm"));
                    }
                } else {
                    remove(&self.folder, &name)?;
                    removed += 1;
                }
            } else if age >= grace {
                components.push(name);
            }
        }
        for name in components.into_iter().filter(|name| !components_in_use.contains(name)) {
            remove(&self.folder, &name)?;
        }
        Ok(removed)
    }
}

fn component_file(component: &Digest) -> String {
    format!("{component}.wasm")
}

fn configuration_file(identity: &PolicyIdentity) -> String {
    // What an object brought is configured by it, with its own `on_failure`.
    let origin =
        identity.origin.as_ref().map(|origin| format!("@{}", Digest::of(origin.to_string().as_bytes()).short()));
    format!("{}{}-{}-{}.json", identity.slot, origin.unwrap_or_default(), identity.component, identity.settings)
}
