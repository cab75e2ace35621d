//! Pins that clients hold: a token names the policies, so that it outlives connections, clients and servers.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::Semaphore;
use windlass_policy::slots::SlotName;
use windlass_policy::{Digest, Host, PinnedPolicies, PolicyIdentity};

use crate::proto;

/// The longest token, in bytes. One of six chains of nine policies has less.
const MAX_TOKEN_BYTES: usize = 32 << 10;
/// The most policies of a token.
const MAX_POLICIES: usize = 64;
/// The longest name or version of a policy, in bytes.
const MAX_WORD_BYTES: usize = 128;

/// The pins of a host.
pub(crate) struct Pins {
    host: Host,
    /// The digests of the built-in defaults' components.
    built_in: Vec<Digest>,
    /// How many are kept ready to decide.
    most_ready: usize,
    /// The last used first.
    ready: Mutex<VecDeque<(Bytes, PinnedPolicies)>>,
    /// Policies of a former moment are loaded one pin after the other.
    restoring: Arc<Semaphore>,
}

impl Pins {
    pub(crate) fn new(host: Host, most_ready: usize) -> Pins {
        let built_in = SlotName::ALL.into_iter().filter_map(windlass_policy::built_in_component);
        Pins {
            host,
            built_in: built_in.map(Digest::of).collect(),
            most_ready,
            ready: Mutex::default(),
            restoring: Arc::new(Semaphore::new(1)),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The policies that are in force now, named.
    pub(crate) fn take(&self) -> proto::Pin {
        let pin = self.host.pin();
        let policies: Vec<_> = pin.identities().iter().map(|identity| self.policy(identity)).collect();
        let token = Bytes::from(proto::PinToken { policies: policies.clone() }.encode_to_vec());
        self.remember(&token, &pin);
        proto::Pin { token, policies }
    }

    /// The policies that a token names; those in force, where it is empty.
    ///
    /// # Errors
    /// It is no token, in words for its holder.
    pub(crate) async fn find(&self, token: &Bytes) -> Result<PinnedPolicies, String> {
        if token.is_empty() {
            return Ok(self.host.pin());
        }
        if let Some(pin) = self.known(token) {
            return Ok(pin);
        }
        let identities = read(token).map_err(|why| format!("this server did not create the pin: {why}"))?;
        let turn = Arc::clone(&self.restoring).acquire_owned().await;
        // Who waited for the same one finds it here.
        if let Some(pin) = self.known(token) {
            return Ok(pin);
        }
        let host = self.host.clone();
        let restore = move || {
            // Not this future's, which may be dropped before that has ended.
            let _turn = turn;
            host.pinned(&identities)
        };
        let pin = tokio::task::spawn_blocking(restore).await;
        let pin = pin.map_err(|_| "the pin cannot be restored".to_owned())?;
        let lost = pin.lost(&SlotName::ALL);
        if !lost.is_empty() {
            return Err(format!("what the pin names is not there any more: {}", lost.join("; ")));
        }
        self.remember(token, &pin);
        Ok(pin)
    }

    pub(crate) fn policy(&self, identity: &PolicyIdentity) -> proto::Policy {
        proto::Policy {
            slot: identity.slot.to_string(),
            name: identity.name.to_string(),
            version: identity.version.to_string(),
            component: identity.component.to_string(),
            settings: identity.settings.to_string(),
            configuration: identity.configuration.map(|digest| digest.to_string()).unwrap_or_default(),
            built_in: self.built_in.contains(&identity.component),
        }
    }

    fn known(&self, token: &Bytes) -> Option<PinnedPolicies> {
        let mut ready = self.ready.lock();
        let place = ready.iter().position(|(known, _)| known == token)?;
        if place > 0 {
            let entry = ready.remove(place)?;
            ready.push_front(entry);
        }
        ready.front().map(|(_, pin)| pin.clone())
    }

    fn remember(&self, token: &Bytes, pin: &PinnedPolicies) {
        let mut ready = self.ready.lock();
        ready.retain(|(known, _)| known != token);
        // A copy: the token's bytes may be a part of a message, which would be held whole.
        ready.push_front((Bytes::copy_from_slice(token), pin.clone()));
        ready.truncate(self.most_ready);
    }
}

fn read(token: &Bytes) -> Result<Vec<PolicyIdentity>, String> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(format!("it has {} bytes, and at most {MAX_TOKEN_BYTES} are allowed", token.len()));
    }
    let token = proto::PinToken::decode(&token[..]).map_err(|error| error.to_string())?;
    if token.policies.is_empty() || token.policies.len() > MAX_POLICIES {
        return Err(format!("it names {} policies", token.policies.len()));
    }
    let identity = |policy: proto::Policy| {
        // They get into logs and records.
        if [&policy.name, &policy.version].iter().any(|text| !is_word(text)) {
            return Err("it has a name or a version that no policy has".to_owned());
        }
        Ok(PolicyIdentity {
            slot: policy.slot.parse()?,
            name: policy.name.into(),
            version: policy.version.into(),
            component: policy.component.parse()?,
            settings: policy.settings.parse()?,
            configuration: match policy.configuration.as_str() {
                "" => None,
                digest => Some(digest.parse()?),
            },
            origin: None,
        })
    };
    token.policies.into_iter().map(identity).collect()
}

/// Whether this can be a policy's name or version.
fn is_word(text: &str) -> bool {
    (1..=MAX_WORD_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
