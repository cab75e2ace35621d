//! Policies kept in the state folder, so that an operation that outlives its process ends under the policies with which
//! it began.
//!
//! `policies/<component>.wasm` holds a component, and `policies/<slot>-<component>-<settings>.json` how it was
//! configured: after `<slot>`, `+<configuration>` where it has grants, limits or `on_failure`, and `@<tenant>.<object>`
//! where an object brought it. Each is named by digest. What is read is what this host wrote: a component is verified
//! against its name, a configuration by its HMAC under the state folder's [key](StateKey), which is its first line.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_distribution::{ContentDigest, KeyId, Trust, Untrusted};

use crate::configuration::Link;
use crate::decision::{PolicyIdentity, PolicyOrigin};
use crate::digest::Digest;
use crate::error::Error;
use crate::limits::MAX_COMPONENT_BYTES;
use crate::slots::OnFailure;
use crate::source::Source;
use crate::state_key::StateKey;
use windlass_distribution::files::{private_folder, read_bounded, remove, write_atomically};

const FOLDER: &str = "policies";
/// The longest configuration of one policy.
const MAX_CONFIGURATION_BYTES: u64 = 1 << 20;

/// After so long a policy in use is kept again, so that its age, by which `retain` spares it, stays below a day.
const KEPT_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// Policies kept of one tenant, so that nobody who may change an object can fill the disk. A tenant that changes its
/// policies more often loses the oldest, and what began with them waits, as with any policy that is lost.
const MAX_OF_TENANT: usize = 128;

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
    /// None: there is none that can be trusted, so kept files cannot be distinguished from what somebody else wrote.
    key: Option<StateKey>,
    /// Held while something is written or removed, so that no component goes between itself and its configuration.
    writing: Mutex<()>,
}

/// A kept policy as it was.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) link: Link,
    pub(crate) component: Arc<[u8]>,
    pub(crate) signed_by: Option<KeyId>,
}

/// Why a kept policy is not restored.
#[derive(Debug)]
pub(crate) enum Unrestored {
    /// Its signer is not trusted any more.
    Untrusted(String),
    /// It is not there any more, or not as it was.
    Lost(String),
}

impl Kept {
    pub(crate) fn open(state: &Dir) -> Result<Kept, Error> {
        let folder = private_folder(state, FOLDER)
            .map_err(|source| Error::StateFolder { what: "open the folder policies".into(), source })?;
        Ok(Kept { folder, key: StateKey::of(state)?, writing: Mutex::new(()) })
    }

    /// Keeps a policy.
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
            // Who has signed these bytes once has signed them, whoever loads them later without asking for it.
            signed_by: signed_by.or_else(|| self.configuration(identity).ok()?.signed_by),
        };
        let name = component_file(&identity.component);
        let kept = serde_json::to_vec(&configuration).map_err(io::Error::other).and_then(|json| {
            let json = self.signed(identity, json);
            if self.is_kept(identity, &json) {
                return Ok(());
            }
            let _writing = self.writing.lock();
            // Content never changes under its name, so one that is there with the right size is the right one; what a
            // crash left short is written again.
            if !self.folder.metadata(&name).is_ok_and(|metadata| metadata.len() == component.len() as u64) {
                write_atomically(&self.folder, &name, component)?;
            }
            write_atomically(&self.folder, &configuration_file(identity), &json)?;
            self.bound_tenant_of(identity)
        });
        kept.map_err(|source| Error::StateFolder { what: format!("keep the policy {identity}"), source })
    }

    /// Removes the oldest policies of a tenant that has too many.
    fn bound_tenant_of(&self, identity: &PolicyIdentity) -> io::Result<()> {
        let Some(mark) = identity.origin.as_ref().and_then(tenant_mark) else { return Ok(()) };
        let mut kept = Vec::new();
        let mut names = Vec::new();
        for entry in self.folder.entries()? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.contains(&mark) {
                kept.push((entry.metadata()?.modified()?, name));
            } else {
                names.push(name);
            }
        }
        kept.sort();
        let newest = kept.split_off(kept.len().saturating_sub(MAX_OF_TENANT));
        names.extend(newest.into_iter().map(|(_, name)| name));
        for (_, name) in kept {
            remove(&self.folder, &name)?;
            if let Some(component) = component_of(&name)
                && !names.iter().any(|other| component_of(other).as_ref() == Some(&component))
            {
                remove(&self.folder, component)?;
            }
        }
        Ok(())
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

    /// The contents of a configuration's file.
    fn signed(&self, identity: &PolicyIdentity, json: Vec<u8>) -> Vec<u8> {
        let mac = self.key.as_ref().map(|key| hex::encode(key.sign(&authenticated(identity, &json))));
        [mac.unwrap_or_default().into_bytes(), vec![b'\n'], json].concat()
    }

    fn configuration(&self, identity: &PolicyIdentity) -> Result<Configuration, String> {
        let contents = read_bounded(&self.folder, configuration_file(identity), MAX_CONFIGURATION_BYTES)
            .map_err(|error| format!("its configuration is not in the state folder: {error}"))?;
        let key = self.key.as_ref().ok_or("the state folder's cache.key belongs to another user")?;
        let end = contents.iter().position(|byte| *byte == b'\n').unwrap_or_default();
        let (mac, json) = (&contents[..end], contents.get(end + 1..).unwrap_or_default());
        if !hex::decode(mac).is_ok_and(|mac| key.verifies(&authenticated(identity, json), &mac)) {
            return Err("its configuration in the state folder was not written by a host of it".into());
        }
        serde_json::from_slice(json)
            .map_err(|error| format!("its configuration in the state folder can't be read: {error}"))
    }

    /// Reads a kept policy and the key that had signed it, if that is still trusted.
    pub(crate) fn read(&self, identity: &PolicyIdentity, trust: Option<&Trust>) -> Result<Restored, Unrestored> {
        let configuration = self.configuration(identity).map_err(Unrestored::Lost)?;
        let component: Arc<[u8]> = read_bounded(&self.folder, component_file(&identity.component), MAX_COMPONENT_BYTES)
            .map_err(|error| Unrestored::Lost(format!("its component is not in the state folder: {error}")))?
            .into();
        if Digest::of(&component) != identity.component {
            return Err(Unrestored::Lost("its component in the state folder has been changed".into()));
        }
        if let Some(trust) = trust
            && !configuration.built_in
        {
            let digest = ContentDigest::of(&component);
            let key = configuration.signed_by.ok_or(Untrusted::Unknown);
            let checked = key.and_then(|key| trust.check_key(digest, key));
            checked
                .and_then(|()| trust.check_version(&identity.name, &identity.version))
                .map_err(|untrusted| Unrestored::Untrusted(format!("it is no longer trusted: {untrusted}")))?;
        }
        let link = Link {
            source: Source::Bytes(component.clone()),
            settings: configuration.settings,
            grants: configuration.grants,
            on_failure: configuration.on_failure,
            limits: configuration.limits,
            ..Link::default()
        };
        Ok(Restored { link, component, signed_by: configuration.signed_by })
    }

    /// Removes what isn't in use and older than `grace`. Returns how many policies were removed.
    pub(crate) fn retain(&self, in_use: &HashSet<PolicyIdentity>, grace: Duration) -> io::Result<usize> {
        let _writing = self.writing.lock();
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
                    if let Some(component) = component_of(&name) {
                        components_in_use.insert(component);
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

/// The file of the component that a configuration's file names: `...-<component>-<settings>.json`.
fn component_of(configuration: &str) -> Option<String> {
    let component = configuration.strip_suffix(".json")?.rsplit('-').nth(1)?;
    Some(format!("{component}.wasm"))
}

/// What the files of a tenant's configurations have in their names.
fn tenant_mark(origin: &PolicyOrigin) -> Option<String> {
    Some(format!("@{}.", Digest::of(origin.tenant.as_deref()?.as_bytes()).short()))
}

fn configuration_file(identity: &PolicyIdentity) -> String {
    let configuration = identity.configuration.map(|configuration| format!("+{configuration}")).unwrap_or_default();
    // What an object brought is configured by it, with its own `on_failure`.
    let origin = identity.origin.as_ref().map(|origin| {
        let tenant = tenant_mark(origin).unwrap_or_else(|| "@.".to_owned());
        format!("{tenant}{}", Digest::of(origin.to_string().as_bytes()).short())
    });
    let origin = origin.unwrap_or_default();
    format!("{}{configuration}{origin}-{}-{}.json", identity.slot, identity.component, identity.settings)
}

/// What the HMAC of a configuration is of: its file's name as well, so that none can stand for another's.
fn authenticated(identity: &PolicyIdentity, json: &[u8]) -> Vec<u8> {
    [b"windlass-policy-1", configuration_file(identity).as_bytes(), &[0], json].concat()
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;
    use crate::slot_name::SlotName;

    fn identity(tenant: &str, version: usize) -> PolicyIdentity {
        let (name, component) = (format!("{tenant}-{version}"), format!("component {}", version / 2));
        PolicyIdentity {
            slot: SlotName::Retry,
            version: "1.0.0".into(),
            component: Digest::of(component.as_bytes()),
            settings: Digest::of(name.as_bytes()),
            name: name.into(),
            configuration: None,
            origin: Some(PolicyOrigin { tenant: Some(tenant.into()), name: "the".into(), on_failure: None }),
        }
    }

    #[test]
    fn a_tenant_that_changes_its_policy_for_ever_fills_no_disk() {
        let state = tempfile::tempdir().unwrap();
        let kept = Kept::open(&Dir::open_ambient_dir(state.path(), ambient_authority()).unwrap()).unwrap();
        let keep = |identity: &PolicyIdentity, version: usize| {
            let component = format!("component {}", version / 2);
            kept.keep(identity, &Link::default(), component.as_bytes(), None).unwrap();
        };
        let others = identity("b", 0);
        keep(&others, 0);
        for version in 0..200 {
            keep(&identity("a", version), version);
        }
        let names = kept.folder.entries().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let (configurations, components): (Vec<_>, Vec<_>) = names.partition(|name| name.ends_with(".json"));
        // A file system may give the same time to several.
        assert!(configurations.len() == 128 + 1 && components.len() < 80, "{configurations:?} {components:?}");
        // The other tenant's component is also this one's first.
        for readable in [&identity("a", 199), &identity("a", 100), &others] {
            kept.read(readable, None).unwrap();
        }
        assert!(matches!(kept.read(&identity("a", 0), None), Err(Unrestored::Lost(_))));
    }
}
