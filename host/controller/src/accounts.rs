//! The accounts of the Secrets in objects' namespaces.
//!
//! Each Secret is an account: a client, a lifecycle with a journal of its own, and an owner of its own, made from its
//! place and its project, so that neither sweeps nor claims of one account ever mean what is another's. The journal is
//! in a folder of its own, or a part of its own of the database that all accounts share, with its connections.
//!
//! A finalizer keeps a Secret while an object with our finalizer uses it: removing the object's machine needs the key,
//! also when the whole namespace is deleted. An account that nobody has used for a while is closed.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{
    Control, Lifecycle, Limits, OperationFilter, OperationState, Options, OwnerName, StateDirectory, Supervisor,
    SupervisorOptions, scaleway_capabilities,
};
use windlass_policy::Host;
use windlass_scaleway::{Environment, ExplicitSettings};

use crate::account_of::OfAccount;
use crate::jobs::Jobs;
use crate::kinds::{AppleSiliconMachine, FINALIZER as MACHINE_FINALIZER, InstanceMachine, ServerCluster, labels};
use crate::kubernetes::for_each;
use crate::names::{cut, mark};
use crate::server_cluster::clusters::ServerClusters;
use crate::server_cluster::store::Liveness;
use crate::settings::Settings;
use crate::writes::is_conflict;
use crate::{Error, metric_names};

/// The keys of a Secret, named as Scaleway's tools name them.
const ACCESS_KEY: &str = "SCW_ACCESS_KEY";
const SECRET_KEY: &str = "SCW_SECRET_KEY";
const PROJECT: &str = "SCW_DEFAULT_PROJECT_ID";
/// Accounts of one namespace, and of all: each costs a journal and connections, and whoever may edit a namespace makes
/// Secrets.
const MAX_OF_NAMESPACE: usize = 8;
const MAX_ACCOUNTS: usize = 1024;
/// How many accounts beyond the first of each namespace there may be, so that each namespace can have one.
const MAX_FURTHER: usize = MAX_ACCOUNTS / 2;
/// After so many listing intervals an account counts as unused, since objects are looked at in each.
const UNUSED: u32 = 3;
/// What the finalizers begin with that hold a Secret while an object needs its key.
pub(crate) const FINALIZER: &str = "infrastructure.windlass.dev/credentials";
/// The folder in the state directory with a folder for each namespace, in which each Secret has one. Parts of a
/// database are called the same.
pub(crate) const FOLDER: &str = "accounts";
/// An owner's name is cut to this, before the project's mark.
const MAX_OWNER_LEN: usize = 38;

/// Why there are no credentials for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unusable {
    /// A word for programs.
    pub(crate) reason: &'static str,
    /// Words for people.
    pub(crate) message: String,
}

/// What is made of one Secret.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) scaleway: windlass_scaleway::Client,
    pub(crate) policies: Arc<Host>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) server_clusters: Arc<ServerClusters>,
    pub(crate) owner: OwnerName,
}

/// A Secret as it was read last.
struct Known {
    read_at: Instant,
    used_at: Instant,
    /// Whether the Secret has our finalizer.
    held: bool,
    /// Ends the account's supervisor.
    supervision: Control,
    /// Access key, secret key and project.
    keys: Keys,
    account: Account,
}

#[derive(Clone, PartialEq, Eq)]
struct Keys {
    access_key: Option<String>,
    secret_key: String,
    project: String,
}

/// What accounts are made from.
pub(crate) struct AccountOptions {
    pub(crate) client: Client,
    /// The controller's own: where Scaleway is, and the bounds of each account's calls.
    pub(crate) scaleway: windlass_scaleway::Client,
    pub(crate) policies: Arc<Host>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) settings: Settings,
    pub(crate) state: StateDirectory,
    pub(crate) liveness: Liveness,
    pub(crate) leaving: CancellationToken,
    /// They bound the work of each account.
    pub(crate) limits: Limits,
    /// What the supervisor of each account does.
    pub(crate) supervision: SupervisorOptions,
    /// An account that nobody has used for so long is closed.
    pub(crate) idle: Duration,
}

/// The accounts of Secrets, as long as the process leads.
pub(crate) struct Accounts {
    options: AccountOptions,
    /// Never held while the API server is asked: what is slow about one Secret keeps no other waiting.
    known: Mutex<HashMap<Place, Known>>,
    turns: parking_lot::Mutex<HashMap<Place, Weak<Mutex<()>>>>,
}

/// The namespace and the name of a Secret.
pub(crate) type Place = (String, String);

impl Drop for Known {
    fn drop(&mut self) {
        // Work that is under way ends with the account that it has.
        self.supervision.leave();
    }
}

impl Accounts {
    pub(crate) fn new(options: AccountOptions) -> Self {
        Self { options, known: Mutex::default(), turns: parking_lot::Mutex::default() }
    }

    /// The account of a Secret. One that was read before stays usable when the Secret is gone, as long as the process
    /// lives: in a namespace that is deleted, Secrets go before the machines that need them.
    pub(crate) async fn of(&self, namespace: &str, name: &str) -> Result<Result<Account, Unusable>, Error> {
        let options = &self.options;
        let place = (namespace.to_owned(), name.to_owned());
        // A Secret counts as it was read for as long as a listing does, unless its key is refused: somebody may have
        // corrected it just now, and asked for a retry.
        let is_fresh = |known: &Known| {
            known.read_at.elapsed() < options.settings.listing_interval && !known.account.scaleway.is_denied()
        };
        let now = Instant::now();
        if let Some(known) = self.known.lock().await.get_mut(&place) {
            known.used_at = now;
            if is_fresh(known) {
                return Ok(Ok(known.account.clone()));
            }
        }
        let secret = read(&options.client, namespace, name).await?;
        let mut known = self.known.lock().await;
        let Some(secret) = secret else {
            return Ok(known.get(&place).map(|known| known.account.clone()).ok_or_else(|| Unusable {
                reason: "CredentialsMissing",
                message: format!("there is no Secret {name} with Scaleway's credentials in the namespace"),
            }));
        };
        let keys = match keys(&secret) {
            Ok(keys) => keys,
            Err(message) => return Ok(Err(Unusable { reason: "CredentialsInvalid", message })),
        };
        // Another task may have read it later.
        if let Some(known) = known.get_mut(&place).filter(|known| known.keys == keys || known.read_at > now) {
            known.read_at = known.read_at.max(now);
            return Ok(Ok(known.account.clone()));
        }
        // One with another key takes the place of the one before: two would work on one journal.
        close(&mut known, &place);
        let is_full = |known: &HashMap<Place, Known>| {
            let of_namespace = known.keys().filter(|(of, _)| of == namespace).count();
            let most = if of_namespace == 0 { MAX_ACCOUNTS } else { MAX_FURTHER };
            of_namespace >= MAX_OF_NAMESPACE || known.len() >= most
        };
        if is_full(&known) {
            drop(known);
            self.close_unused(options.settings.listing_interval * UNUSED).await?;
            known = self.known.lock().await;
            if let Some(known) = known.get(&place) {
                return Ok(Ok(known.account.clone()));
            }
        }
        if is_full(&known) {
            return Ok(Err(Unusable {
                reason: "TooManyCredentials",
                message: format!(
                    "too many Secrets with credentials are in use, so the Secret {name} cannot be used yet: the \
                     limit is {MAX_OF_NAMESPACE} per namespace and {MAX_ACCOUNTS} in total. A Secret that no object \
                     uses stops counting after some minutes"
                ),
            }));
        }
        let (account, supervision) = match self.open(namespace, name, &keys) {
            Ok(opened) => opened,
            Err(error @ (Error::Scaleway(_) | Error::Client(_))) => {
                let message = format!("the Secret {name}: {error}");
                return Ok(Err(Unusable { reason: "CredentialsInvalid", message }));
            }
            Err(error) => return Err(error),
        };
        let opened = Known { read_at: now, used_at: now, held: false, supervision, keys, account: account.clone() };
        known.insert(place, opened);
        self.count(&known);
        Ok(Ok(account))
    }

    /// Whether the Secret of an account is kept.
    pub(crate) async fn holds(&self, place: &Place) -> bool {
        self.known.lock().await.get(place).is_some_and(|known| known.held)
    }

    /// Waits for the turn at a Secret: one object at a time begins to use it, or is let go, since the last one lets its
    /// Secret go.
    pub(crate) async fn turn(&self, place: &Place) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            turns.get(place).and_then(Weak::upgrade).unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(place.clone(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }

    /// Keeps a Secret until [`Accounts::release`], before anything is begun with its key, and has it move with the
    /// objects that use it. (By a label: an owner reference would have it deleted with one of several owners.)
    pub(crate) async fn hold(&self, place: &Place) -> Result<(), Error> {
        if self.known.lock().await.get(place).is_none_or(|known| known.held) {
            return Ok(());
        }
        let (namespace, name) = place;
        // One that is going takes no finalizer any more; the key is known as long as this process lives.
        if let Some(secret) = read(&self.options.client, namespace, name).await?
            && secret.metadata.deletion_timestamp.is_none()
            && !(self.is_held(&secret) && secret.labels().contains_key(labels::MOVE))
        {
            let ours = self.finalizer();
            let others = secret.finalizers().iter().filter(|held| **held != ours);
            let finalizers: Vec<&String> = others.chain([&ours]).collect();
            let moves = secret.labels().get(labels::MOVE).map_or("", String::as_str);
            let metadata = json!({"finalizers": finalizers, "labels": {labels::MOVE: moves}});
            self.write_metadata(&secret, metadata).await?;
        }
        if let Some(known) = self.known.lock().await.get_mut(place) {
            known.held = true;
        }
        Ok(())
    }

    /// Lets a Secret go that no object needs any more. Its account stays usable, for who comes back.
    pub(crate) async fn release(&self, place: &Place) -> Result<(), Error> {
        let (namespace, name) = place;
        if let Some(secret) = read(&self.options.client, namespace, name).await?.filter(|it| self.is_held(it)) {
            let ours = self.finalizer();
            let finalizers: Vec<&String> = secret.finalizers().iter().filter(|held| **held != ours).collect();
            self.write_metadata(&secret, json!({"finalizers": finalizers})).await?;
        }
        if let Some(known) = self.known.lock().await.get_mut(place) {
            known.held = false;
        }
        Ok(())
    }

    fn is_held(&self, secret: &Secret) -> bool {
        secret.finalizers().contains(&self.finalizer())
    }

    /// What holds a Secret while an object needs its key: controllers that share a cluster by a label each have one of
    /// their own, since neither knows when the other's last object goes.
    fn finalizer(&self) -> String {
        match &self.options.settings.watch_filter {
            None => FINALIZER.to_owned(),
            Some(filter) => format!("{FINALIZER}-{}", mark(filter)),
        }
    }

    async fn write_metadata(&self, secret: &Secret, mut metadata: Value) -> Result<(), Error> {
        let api: Api<Secret> = Api::namespaced(self.options.client.clone(), &secret.namespace().unwrap_or_default());
        metadata["uid"] = json!(secret.uid());
        metadata["resourceVersion"] = json!(secret.resource_version());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match api.patch_metadata(&secret.name_any(), &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(error) if is_conflict(&error) => Err(Error::Overtaken),
            Err(error) => Err(Error::kubernetes("keeping the Secret with Scaleway's credentials")(error)),
        }
    }

    /// Closes accounts that nobody uses, until the end of the process.
    pub(crate) async fn close_idle(&self) {
        loop {
            tokio::time::sleep(self.options.idle / 2).await;
            if let Err(error) = self.close_unused(self.options.idle).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot close unused accounts");
            }
        }
    }

    /// Closes the accounts that nobody has used for so long and in whose journals nothing is open. The key of one whose
    /// Secret is gone stays: objects that are paused need it later.
    async fn close_unused(&self, since: Duration) -> Result<(), Error> {
        let is_unused = |known: &Known| {
            known.used_at.elapsed() >= since
                && known.account.lifecycle.in_flight().is_empty()
                && known.account.lifecycle.journal().operations(&unfinished()).is_ok_and(|open| open.is_empty())
        };
        let places: Vec<Place> = {
            let known = self.known.lock().await;
            known.iter().filter(|(_, known)| is_unused(known)).map(|(place, _)| place.clone()).collect()
        };
        for place in places {
            let (namespace, name) = &place;
            if read(&self.options.client, namespace, name).await?.is_none()
                && is_used(&self.options.client, &self.options.settings, &place, None).await?
            {
                continue;
            }
            let mut known = self.known.lock().await;
            if known.get(&place).is_some_and(is_unused) {
                tracing::info!(namespace, secret = name, "closed an account that no object has used for a while");
                close(&mut known, &place);
                self.count(&known);
            }
        }
        Ok(())
    }

    fn count(&self, known: &HashMap<Place, Known>) {
        let labels = self.options.settings.shard.labels([]);
        metrics::gauge!(metric_names::ACCOUNTS, labels).set(known.len() as f64);
    }

    /// The accounts that are in use, with the places of their Secrets.
    pub(crate) async fn in_use(&self) -> Vec<(Place, Account)> {
        let known = self.known.lock().await;
        known.iter().map(|(place, known)| (place.clone(), known.account.clone())).collect()
    }

    /// Opens an account, and lets its supervisor work.
    fn open(&self, namespace: &str, name: &str, keys: &Keys) -> Result<(Account, Control), Error> {
        let shared = &self.options;
        let ours = shared.scaleway.settings();
        let mut explicit = ExplicitSettings::default();
        explicit.access_key.clone_from(&keys.access_key);
        explicit.secret_key = Some(keys.secret_key.parse()?);
        explicit.project_id = Some(keys.project.clone());
        // Where Scaleway is, is the operator's to say: a key is sent nowhere else.
        explicit.api_url = Some(ours.api_url().to_string());
        explicit.insecure = Some(ours.insecure());
        explicit.zone.clone_from(&shared.settings.zone);
        explicit.user_agent = Some(crate::kubernetes::user_agent());
        explicit.limits = Some(*ours.limits());
        let settings = windlass_scaleway::Settings::load(&explicit, &Environment::empty())?;
        let scaleway = windlass_scaleway::Client::new(settings).map_err(|error| Error::Client(Box::new(error)))?;
        let owner = owner(&shared.settings.owner, namespace, name, &keys.project);
        let state = shared.state.below(&format!("{FOLDER}/{namespace}/{name}"))?;
        // What policies look up for these machines, they look up with these credentials.
        let policies = Arc::new(shared.policies.with_capabilities(scaleway_capabilities(&scaleway)));
        let mut options = Options::new(scaleway.clone(), Arc::clone(&policies), state);
        options.owner = Some(owner.clone());
        options.project = Some(keys.project.clone());
        options.limits = shared.limits;
        options.publishes_policies = false;
        let lifecycle = Lifecycle::open(options)?;
        lifecycle.check_history()?;
        let supervisor = Supervisor::new(lifecycle.clone(), shared.supervision.clone());
        let supervision = shared.jobs.supervise(supervisor, |_| {});
        tracing::info!(namespace, secret = name, project = keys.project, %owner, "opened an account");
        let server_clusters = Arc::new(ServerClusters::new(
            shared.client.clone(),
            scaleway.clone(),
            lifecycle.clone(),
            Arc::clone(&policies),
            shared.liveness.clone(),
            shared.leaving.clone(),
            shared.settings.hooks.clone(),
        ));
        Ok((Account { scaleway, policies, lifecycle, server_clusters, owner }, supervision))
    }
}

/// The owner of what is made with a Secret's credentials: another for each Secret, since each has a journal of its own,
/// and a sweep takes for lost what its journal does not know. It does not begin with the controller's own, so that no
/// claim of the one looks like one of the other.
fn owner(own: &OwnerName, namespace: &str, secret: &str, project: &str) -> OwnerName {
    let account = mark(&format!("{namespace}/{secret}/{project}"));
    let name = format!("p{account}-{}", cut(own.as_str(), MAX_OWNER_LEN));
    name.parse().unwrap_or_else(|_| own.clone())
}

/// Closes an account while the process goes on: the metrics tell no more what its journal holds.
fn close(known: &mut HashMap<Place, Known>, place: &Place) {
    if let Some(closed) = known.remove(place) {
        closed.account.lifecycle.leave_metrics();
    }
}

/// What of a journal has to be ended by somebody.
fn unfinished() -> OperationFilter {
    let mut filter = OperationFilter::default();
    filter.states = OperationState::UNFINISHED.to_vec();
    filter.limit = Some(1);
    filter
}

/// Whether an object that has our finalizer needs a Secret, but for the one with this UID.
pub(crate) async fn is_used(
    client: &Client,
    settings: &Settings,
    place: &Place,
    but: Option<&str>,
) -> Result<bool, Error> {
    let mut used = uses::<AppleSiliconMachine>(client, settings, place, but).await?;
    used |= uses::<InstanceMachine>(client, settings, place, but).await?;
    if settings.server_clusters {
        used |= uses::<ServerCluster>(client, settings, place, but).await?;
    }
    Ok(used)
}

async fn uses<K>(
    client: &Client,
    settings: &Settings,
    (namespace, name): &Place,
    but: Option<&str>,
) -> Result<bool, Error>
where
    K: OfAccount + Clone + DeserializeOwned + fmt::Debug,
{
    let mut used = false;
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    for_each(&api, "listing the objects that need a Secret", |object| {
        let named = object.credentials().map(|reference| &reference.name).or(settings.namespace_credentials.as_ref());
        used |= named == Some(name)
            && object.uid().as_deref() != but
            && settings.passes_filter(&object)
            && object.finalizers().iter().any(|held| held == MACHINE_FINALIZER);
        Ok(())
    })
    .await?;
    Ok(used)
}

async fn read(client: &Client, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    api.get_opt(name).await.map_err(Error::kubernetes("reading the Secret with Scaleway's credentials"))
}

fn keys(secret: &Secret) -> Result<Keys, String> {
    let text = |key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key))?;
        let text = std::str::from_utf8(&value.0).ok()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let needed = |key: &str| text(key).ok_or_else(|| format!("the Secret {} has no {key}", secret.name_any()));
    Ok(Keys { access_key: text(ACCESS_KEY), secret_key: needed(SECRET_KEY)?, project: needed(PROJECT)? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(entries: &[(&str, &str)]) -> Secret {
        let data = entries.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let mut secret = Secret { data: Some(data.collect::<BTreeMap<_, _>>()), ..Secret::default() };
        secret.metadata.name = Some("team".to_owned());
        secret
    }

    #[test]
    fn a_secret_needs_a_key_and_a_project() {
        let all = [(ACCESS_KEY, "SCWXXXXXXXXXXXXXXXXX"), (SECRET_KEY, "key\n"), (PROJECT, "p")];
        let found = keys(&secret(&all)).map(|keys| (keys.secret_key, keys.project));
        assert_eq!(found, Ok(("key".to_owned(), "p".to_owned())));
        assert!(keys(&secret(&all[1..])).is_ok(), "the access key says nothing to the APIs");
        for missing in [SECRET_KEY, PROJECT] {
            let rest: Vec<_> = all.iter().copied().filter(|(key, _)| *key != missing).collect();
            let problem = keys(&secret(&rest)).err().unwrap_or_default();
            assert!(problem.contains(missing) && problem.contains("team"), "{problem}");
        }
    }

    #[test]
    fn claims_of_an_account_never_look_like_the_controllers_own() {
        let own: OwnerName = "team".parse().unwrap();
        let account = owner(&own, "ci", "scaleway", "p");
        let (ours, theirs) = (crate::names::claim_prefix(&own), crate::names::claim_prefix(&account));
        assert!(!ours.starts_with(&theirs) && !theirs.starts_with(&ours), "{ours} {theirs}");
        for (namespace, secret, project) in [("other", "scaleway", "p"), ("ci", "other", "p"), ("ci", "scaleway", "q")]
        {
            assert_ne!(account, owner(&own, namespace, secret, project), "another journal");
        }
        let longest: OwnerName = "o".repeat(48).parse().unwrap();
        assert_ne!(owner(&longest, "ci", "scaleway", "p"), longest);
    }
}
