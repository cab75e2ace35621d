//! Policies that objects bring: read, loaded, put in place for their namespaces, and told of in their statuses.
//!
//! A round looks at all of them. Where a policy cannot be loaded any more, the last good one stays in place. One that was
//! never loaded fails in each decision: its `onFailure` says what follows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::core::object::HasStatus;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_distribution::{Reference, Signature, SignatureFile};
use windlass_policy::slots::{OnFailure, SlotName};
use windlass_policy::{
    Digest, Host, Link, LoadedPolicy, Mode, PolicyIdentity, PolicyOrigin, ScopedPolicies, ScopedPolicy,
};

use crate::Error;
use crate::arguments::ObjectPolicies as Allowed;
use crate::audits::Audits;
use crate::crash::EndOnPanic;
use crate::events::Events;
use crate::kinds::{
    ClusterPolicy, ConditionStatus, Policy, PolicyInForce, PolicyMode, PolicyOnFailure, PolicyPosition, PolicySlot,
    PolicySpec, PolicyStatus, conditions,
};
use crate::shard::Held;
use crate::status::set_condition;
use crate::writes::write_status;

/// What the controller did when something happened to a policy.
const ACTION: &str = "Load";
/// How often all objects and their ConfigMaps are looked at, beside what the watches tell.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long what a registry refused is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// How often the numbers of a status are written, where nothing else in it changes.
const NUMBERS_AFTER: Duration = Duration::from_secs(30);
/// The most policies of one namespace, and of the operator: each is asked in every decision of its slot.
const MAX_POLICIES_PER_SCOPE: usize = 16;
/// The most policies of all: each holds memory. The operator's are counted first.
const MAX_POLICIES: usize = 512;
/// How many namespaces load at once, and how long one policy and all that changed of one namespace may take: a registry of
/// one team that does not answer holds no other team up for long.
const PARALLEL_SCOPES: usize = 16;
const LOAD_TIMEOUT: Duration = Duration::from_secs(15);
const SCOPE_TIMEOUT: Duration = Duration::from_secs(60);
/// The reason of those beyond the limits.
const TOO_MANY: &str = "TooMany";

/// Why a policy is not in force: a word for programs, and words for people.
type Refusal = (&'static str, String);

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    /// Absent: an operator's.
    namespace: Option<String>,
    name: String,
}

/// An object, in the form of either kind.
struct Wanted {
    key: Key,
    uid: String,
    generation: Option<i64>,
    spec: PolicySpec,
    position: PolicyPosition,
    namespaces: Vec<String>,
    reference: ObjectReference,
}

impl Wanted {
    fn origin(&self) -> PolicyOrigin {
        PolicyOrigin {
            tenant: self.key.namespace.as_deref().map(Into::into),
            name: self.key.name.as_str().into(),
            on_failure: on_failure(&self.spec),
        }
    }
}

/// What is known of an object.
struct Known {
    uid: String,
    /// What it was loaded from: whatever differs is loaded anew.
    from: Option<String>,
    policy: Option<Arc<LoadedPolicy>>,
    /// Why what is there now is not in force.
    refused: Option<Refusal>,
    tried: Instant,
    written_at: Option<Instant>,
    suspended: bool,
}

/// An attempt to load a policy.
struct Attempt {
    from: Option<String>,
    loaded: Result<Arc<LoadedPolicy>, Refusal>,
}

/// What an object's source held.
enum Contents {
    Rules { key: String, text: Vec<u8>, signatures: Vec<Signature> },
    Registry(Reference),
}

/// What the policies of objects are made from.
pub(crate) struct ObjectPolicies {
    pub(crate) client: Client,
    pub(crate) host: Arc<Host>,
    pub(crate) events: Arc<Events>,
    pub(crate) audits: Arc<Audits>,
    /// The one namespace that is watched, where it is one.
    pub(crate) watched: Option<String>,
    /// The controller's own, with the ConfigMaps of operators' policies.
    pub(crate) namespace: String,
    pub(crate) allowed: Allowed,
    /// The registries from which tenants' policies may come.
    pub(crate) tenant_registries: Vec<String>,
    /// Who holds a namespace's shard tells how its policies do; of the operator's, who holds that of the controller's
    /// own account. All replicas load all policies.
    pub(crate) held: Arc<Held>,
}

/// The policies of objects, as long as the process leads.
pub(crate) struct Rounds {
    options: ObjectPolicies,
    known: HashMap<Key, Known>,
    /// What each object is to do.
    modes: HashMap<Key, PolicyMode>,
    /// What was put in place last.
    in_place: String,
    /// Which of both kinds were listed once: if they cannot be any more, what is in place stays.
    listed: BTreeSet<&'static str>,
    /// Of which it was said that they cannot be read.
    said_unreadable: BTreeSet<&'static str>,
}

impl Rounds {
    pub(crate) fn new(options: ObjectPolicies) -> Self {
        Self {
            options,
            known: HashMap::new(),
            modes: HashMap::new(),
            in_place: String::new(),
            listed: BTreeSet::new(),
            said_unreadable: BTreeSet::new(),
        }
    }

    /// Puts in place what is there, before the first machine is looked at. Tries until it can be read.
    pub(crate) async fn first(&mut self, shutdown: &CancellationToken) {
        while let Err(error) = self.round().await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot read Policy and ClusterPolicy objects yet"
            );
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Follows the objects until the end.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken, guard: EndOnPanic) {
        let _guard = guard;
        if self.options.allowed == Allowed::Off {
            return;
        }
        let config = watcher::Config::default;
        let policies = watcher(self.policies(), config()).default_backoff().map(|event| drop(event.ok())).boxed();
        let operators: Api<ClusterPolicy> = Api::all(self.options.client.clone());
        let operators = watcher(operators, config()).default_backoff().map(|event| drop(event.ok())).boxed();
        let mut changes = futures::stream::select(policies, operators);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
                Some(()) = changes.next() => {
                    // Several changes at once are one round.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    while let Some(Some(())) = changes.next().now_or_never() {}
                }
            }
            if let Err(error) = self.round().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot read Policy and ClusterPolicy objects; the loaded ones stay in force"
                );
            }
        }
    }

    fn policies(&self) -> Api<Policy> {
        match &self.options.watched {
            Some(namespace) => Api::namespaced(self.options.client.clone(), namespace),
            None => Api::all(self.options.client.clone()),
        }
    }

    /// Looks at all objects once.
    async fn round(&mut self) -> Result<(), Error> {
        if self.options.allowed == Allowed::Off {
            return Ok(());
        }
        let tenants = match self.options.allowed {
            Allowed::All => {
                let api = self.policies();
                self.listed("Policies", &api).await?
            }
            Allowed::Cluster | Allowed::Off => Vec::new(),
        };
        let operators: Api<ClusterPolicy> = Api::all(self.options.client.clone());
        let operators = self.listed("ClusterPolicies", &operators).await?;
        let mut wanted: Vec<Wanted> =
            operators.iter().filter(|object| self.concerns(object)).map(of_operator).collect();
        wanted.extend(tenants.iter().map(of_tenant));
        wanted.sort_by(|one, other| {
            (&one.key.namespace, one.spec.order, &one.key.name).cmp(&(
                &other.key.namespace,
                other.spec.order,
                &other.key.name,
            ))
        });
        self.known.retain(|key, known| wanted.iter().any(|object| object.key == *key && object.uid == known.uid));
        self.modes = wanted.iter().map(|object| (object.key.clone(), object.spec.mode)).collect();
        let accepted = self.accepted(&wanted);
        // The operator's are in place before anybody waits for a team's.
        for is_operators in [true, false] {
            let mut scopes: BTreeMap<Option<&String>, Vec<&Wanted>> = BTreeMap::new();
            for object in wanted.iter().filter(|object| object.key.namespace.is_none() == is_operators) {
                scopes.entry(object.key.namespace.as_ref()).or_default().push(object);
            }
            let rounds = &*self;
            let attempts = scopes.into_values().map(|objects| rounds.attempts(objects, &accepted).boxed());
            let attempts = futures::stream::iter(attempts.collect::<Vec<_>>()).buffer_unordered(PARALLEL_SCOPES);
            let attempts: Vec<_> = attempts.collect().await;
            for (object, attempt) in attempts.into_iter().flatten() {
                self.learn(object, attempt).await;
            }
            self.put_in_place(&wanted);
        }
        for object in &operators {
            self.write_status_of(object, &Api::all(self.options.client.clone())).await;
        }
        for object in &tenants {
            let namespace = object.namespace().unwrap_or_default();
            self.write_status_of(object, &Api::namespaced(self.options.client.clone(), &namespace)).await;
        }
        Ok(())
    }

    /// Which objects have room: of each scope the first, and of all those that are in force before others, in turns, so
    /// that no namespace takes the room of another.
    fn accepted(&self, wanted: &[Wanted]) -> HashSet<Key> {
        let mut counts: BTreeMap<Option<&String>, usize> = BTreeMap::new();
        let mut candidates = Vec::new();
        for object in wanted {
            let count = counts.entry(object.key.namespace.as_ref()).or_default();
            if *count < MAX_POLICIES_PER_SCOPE {
                let is_new = self.known.get(&object.key).is_none_or(|known| known.policy.is_none());
                candidates.push((object.key.namespace.is_some(), is_new, *count, &object.key));
                *count += 1;
            }
        }
        candidates.sort_unstable();
        candidates.into_iter().take(MAX_POLICIES).map(|(_, _, _, key)| key.clone()).collect()
    }

    /// Loads what changed of the objects of one scope, one after the other and for so long together.
    async fn attempts<'w>(&self, objects: Vec<&'w Wanted>, accepted: &HashSet<Key>) -> Vec<(&'w Wanted, Attempt)> {
        let until = Instant::now() + SCOPE_TIMEOUT;
        let mut attempts = Vec::new();
        for object in objects {
            let attempt = self.attempt(object, accepted.contains(&object.key), until).await;
            attempts.extend(attempt.map(|attempt| (object, attempt)));
        }
        attempts
    }

    /// All objects of a kind. None where the kind was never there, or was never to be read.
    async fn listed<K>(&mut self, kind: &'static str, api: &Api<K>) -> Result<Vec<K>, Error>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        match api.list(&kube::api::ListParams::default()).await {
            Ok(list) => {
                self.listed.insert(kind);
                Ok(list.items)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) && !self.listed.contains(kind) => {
                if self.said_unreadable.insert(kind) {
                    tracing::warn!(
                        "cannot read {kind} objects, so none is in force: the definition is not installed, or the \
                         controller lacks the rights"
                    );
                }
                Ok(Vec::new())
            }
            Err(error) => Err(Error::kubernetes("listing the policies of objects")(error)),
        }
    }

    /// Whether an operator's policy is about a namespace that this controller watches.
    fn concerns(&self, object: &ClusterPolicy) -> bool {
        let namespaces = &object.spec.namespaces;
        let Some(watched) = &self.options.watched else { return true };
        namespaces.is_empty() || namespaces.contains(watched)
    }

    /// Loads what an object's source holds. `None`: that has not changed.
    async fn attempt(&self, object: &Wanted, is_accepted: bool, until: Instant) -> Option<Attempt> {
        let contents = match is_accepted {
            true => self.contents(object).await,
            false => {
                let words = format!(
                    "too many policies: the limit is {MAX_POLICIES_PER_SCOPE} per namespace and for the operator, \
                     and {MAX_POLICIES} in total"
                );
                Err((TOO_MANY, words))
            }
        };
        let from = contents.as_ref().ok().map(|contents| fingerprint(object, contents));
        let known = self.known.get(&object.key);
        let is_same = from.is_some() && known.is_some_and(|known| known.from == from);
        let is_at_rest = known.is_some_and(|known| known.refused.is_none() || known.tried.elapsed() < REFUSED_FOR);
        if is_same && is_at_rest {
            return None;
        }
        let loaded = match contents {
            Ok(contents) => self.load(object, contents, known.and_then(|known| known.policy.clone()), until).await,
            Err(refusal) => Err(refusal),
        };
        Some(Attempt { from, loaded })
    }

    async fn load(
        &self,
        object: &Wanted,
        contents: Contents,
        before: Option<Arc<LoadedPolicy>>,
        until: Instant,
    ) -> Result<Arc<LoadedPolicy>, Refusal> {
        let (host, slot, origin) = (Arc::clone(&self.options.host), slot(object.spec.slot), object.origin());
        let (link, signatures) = link(object, contents);
        let load =
            tokio::task::spawn_blocking(move || host.load_scoped(slot, &link, signatures, origin, before.as_ref()));
        match tokio::time::timeout_at(until.min(Instant::now() + LOAD_TIMEOUT), load).await {
            Ok(Ok(loaded)) => loaded.map_err(|error| ("Refused", error.to_string())),
            Ok(Err(error)) => Err(("Refused", format!("a defect of the controller: {error}"))),
            Err(_) => Err((
                "TimedOut",
                format!(
                    "it did not load within {} seconds, or all policies of its scope did not load within {} seconds",
                    LOAD_TIMEOUT.as_secs(),
                    SCOPE_TIMEOUT.as_secs()
                ),
            )),
        }
    }

    /// Keeps how an attempt ended, and says it as an Event.
    async fn learn(&mut self, object: &Wanted, attempt: Attempt) {
        let known = self.known.entry(object.key.clone()).or_insert_with(|| Known {
            uid: object.uid.clone(),
            from: None,
            policy: None,
            refused: None,
            tried: Instant::now(),
            written_at: None,
            suspended: false,
        });
        (known.from, known.tried) = (attempt.from, Instant::now());
        match attempt.loaded {
            Ok(policy) => {
                let is_new = known.policy.as_ref().is_none_or(|old| !Arc::ptr_eq(old, &policy));
                let does = match object.spec.mode {
                    PolicyMode::Decide => "decides",
                    PolicyMode::Shadow => "shadows",
                };
                let words = format!("{} {does} the slot {}", policy.identity(), slot(object.spec.slot));
                (known.policy, known.refused) = (Some(policy), None);
                if is_new {
                    self.event(object, false, "PolicyLoaded", &words).await;
                }
            }
            Err((reason, why)) => {
                if reason == TOO_MANY {
                    known.policy = None;
                }
                let is_new = known.refused.as_ref().is_none_or(|(_, known)| *known != why);
                let stays = meanwhile(known.policy.is_some(), object.spec.mode);
                known.refused = Some((reason, why.clone()));
                if is_new {
                    self.event(object, true, "PolicyRefused", &format!("{why}; {stays}")).await;
                }
            }
        }
    }

    async fn contents(&self, object: &Wanted) -> Result<Contents, Refusal> {
        let source = &object.spec.source;
        if let Some(text) = &source.oci {
            let reference: Reference = match text.parse() {
                Ok(reference) => reference,
                Err(error) => return Err(("InvalidReference", format!("{text}: {error}"))),
            };
            let registry = reference.registry();
            let is_allowed = self.options.tenant_registries.iter().any(|allowed| *allowed == registry);
            if object.key.namespace.is_some() && !is_allowed {
                let words = format!("the operator does not let teams use the registry {registry} (--tenant-registry)");
                return Err(("RegistryNotAllowed", words));
            }
            return Ok(Contents::Registry(reference));
        }
        let Some(place) = &source.config_map else {
            return Err(("NoSource", "spec.source names neither a ConfigMap nor a reference".to_owned()));
        };
        let namespace = object.key.namespace.as_ref().unwrap_or(&self.options.namespace);
        let api: Api<ConfigMap> = Api::namespaced(self.options.client.clone(), namespace);
        let found = api.get_opt(&place.name).await;
        let found = found.map_err(|error| {
            (
                "NotReadable",
                format!("the ConfigMap {} in the namespace {namespace} cannot be read: {error}", place.name),
            )
        })?;
        let Some(data) = found.map(|found| found.data.unwrap_or_default()) else {
            let words = format!("there is no ConfigMap {} in the namespace {namespace}", place.name);
            return Err(("NotFound", words));
        };
        let Some(text) = data.get(&place.key) else {
            return Err(("NotFound", format!("the ConfigMap {} has no key {}", place.name, place.key)));
        };
        let signature = |kind: SignatureFile| {
            let signed = data.get(&format!("{}{}", place.key, kind.suffix()))?;
            (signed.len() as u64 <= kind.most_bytes()).then(|| kind.read(signed.as_bytes()))
        };
        let signatures = SignatureFile::ALL.into_iter().filter_map(signature).collect();
        Ok(Contents::Rules { key: place.key.clone(), text: text.clone().into_bytes(), signatures })
    }

    /// Puts in place what is loaded, where that differs from what is in place.
    fn put_in_place(&mut self, wanted: &[Wanted]) {
        let mut scoped = ScopedPolicies::default();
        let mut mark = String::new();
        // Each of those beyond the limits would fail alike: one says it for all.
        let mut too_many = HashSet::new();
        for object in wanted {
            let Some(known) = self.known.get(&object.key) else { continue };
            let mode = match object.spec.mode {
                PolicyMode::Decide => Mode::Decide,
                PolicyMode::Shadow => Mode::Shadow,
            };
            let policy = match (&known.policy, &known.refused) {
                (Some(policy), _) => ScopedPolicy::Loaded(Arc::clone(policy), mode),
                // A shadow that cannot be asked decides as little as one that can.
                (None, _) if mode == Mode::Shadow => continue,
                (None, Some((TOO_MANY, _)))
                    if !too_many.insert((&object.key.namespace, object.spec.slot, object.spec.on_failure)) =>
                {
                    continue;
                }
                (None, Some((_, why))) => {
                    ScopedPolicy::Refused { identity: unknown_identity(object), why: why.as_str().into() }
                }
                (None, None) => continue,
            };
            let state = match (&known.policy, &known.refused) {
                (Some(policy), _) => format!("{policy:p}"),
                (None, refused) => format!("{refused:?}"),
            };
            let Wanted { key, position, namespaces, spec: PolicySpec { slot, order, on_failure, .. }, .. } = object;
            mark.push_str(&format!(
                "{key:?} {position:?} {namespaces:?} {slot:?} {order} {on_failure:?} {mode:?} {state}\n"
            ));
            match (&object.key.namespace, object.position) {
                (Some(namespace), _) => scoped.of_tenants.entry(namespace.clone()).or_default().push(policy),
                (None, PolicyPosition::BeforeTenants) => scoped.before.push((object.namespaces.clone(), policy)),
                (None, PolicyPosition::AfterTenants) => scoped.after.push((object.namespaces.clone(), policy)),
            }
        }
        if self.in_place != mark {
            self.options.host.set_scoped(scoped);
            self.in_place = mark;
        }
    }

    /// Says in an object's status how its policy does. What cannot be written is tried again in the next round.
    async fn write_status_of<K>(&mut self, object: &K, api: &Api<K>)
    where
        K: Resource<DynamicType = ()> + HasStatus<Status = PolicyStatus> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let key = Key { namespace: object.namespace(), name: object.name_any() };
        if !self.options.held.has(key.namespace.as_deref()) {
            return;
        }
        let Some(known) = self.known.get_mut(&key) else { return };
        let old = object.status().cloned().unwrap_or_default();
        let audits = &self.options.audits;
        let mode = self.modes.get(&key).copied().unwrap_or_default();
        let new = status(&old, known, mode, audits, object.meta().generation, Timestamp::now());
        let numbers_only =
            PolicyStatus { decisions: old.decisions, failures: old.failures, audit: old.audit.clone(), ..new.clone() }
                == old;
        let rests = known.written_at.is_some_and(|at| at.elapsed() < NUMBERS_AFTER);
        if new == old || (numbers_only && rests) {
            return;
        }
        known.written_at = Some(Instant::now());
        if let Err(error) = write_status(api, object, &old, &new).await {
            tracing::warn!(?key, error = &error as &dyn std::error::Error, "the status of a policy cannot be written");
            return;
        }
        let was_suspended = std::mem::replace(&mut known.suspended, new.suspended);
        if new.suspended && !was_suspended {
            let why = new.last_failure.clone().unwrap_or_default();
            let words = format!("the policy failed too often in a row and is suspended until it is replaced: {why}");
            let about = object.object_ref(&());
            self.options.events.publish(&about, true, "PolicySuspended", ACTION, words).await;
        }
    }

    async fn event(&self, object: &Wanted, warning: bool, reason: &str, note: &str) {
        if !self.options.held.has(object.key.namespace.as_deref()) {
            return;
        }
        self.options.events.publish(&object.reference, warning, reason, ACTION, note).await;
    }
}

fn of_tenant(object: &Policy) -> Wanted {
    Wanted {
        key: Key { namespace: object.namespace(), name: object.name_any() },
        uid: object.uid().unwrap_or_default(),
        generation: object.meta().generation,
        spec: object.spec.clone(),
        position: PolicyPosition::default(),
        namespaces: Vec::new(),
        reference: object.object_ref(&()),
    }
}

fn of_operator(object: &ClusterPolicy) -> Wanted {
    Wanted {
        key: Key { namespace: None, name: object.name_any() },
        uid: object.uid().unwrap_or_default(),
        generation: object.meta().generation,
        spec: object.spec.policy.clone(),
        position: object.spec.position,
        namespaces: object.spec.namespaces.clone(),
        reference: object.object_ref(&()),
    }
}

fn slot(slot: PolicySlot) -> SlotName {
    match slot {
        PolicySlot::Release => SlotName::Release,
        PolicySlot::Rollback => SlotName::Rollback,
        PolicySlot::Retry => SlotName::Retry,
        PolicySlot::Provisioning => SlotName::Provisioning,
        PolicySlot::Placement => SlotName::Placement,
    }
}

fn on_failure(spec: &PolicySpec) -> Option<OnFailure> {
    spec.on_failure.map(|on_failure| match on_failure {
        PolicyOnFailure::Default => OnFailure::Default,
        PolicyOnFailure::Keep => OnFailure::Keep,
    })
}

/// The link that the contents are loaded as, with their signatures.
fn link(object: &Wanted, contents: Contents) -> (Link, Vec<Signature>) {
    let (link, signatures) = match contents {
        Contents::Rules { key, text, signatures } => (Link::contents(Path::new(&key), text), signatures),
        Contents::Registry(reference) => (Link::registry(reference), Vec::new()),
    };
    let settings = Value::Object(object.spec.settings.clone().into_iter().collect());
    let mut link = link.with_settings(settings);
    link.on_failure = on_failure(&object.spec);
    (link, signatures)
}

/// What tells whether an object's policy is another one than before.
fn fingerprint(object: &Wanted, contents: &Contents) -> String {
    let spec = &object.spec;
    let contents = match contents {
        Contents::Rules { text, signatures, .. } => format!("{} {signatures:?}", Digest::of(text)),
        Contents::Registry(reference) => reference.to_string(),
    };
    let settings = serde_json::to_string(&spec.settings).unwrap_or_default();
    format!("{:?} {contents} {settings} {:?} {:?}", spec.slot, spec.on_failure, object.generation)
}

/// By what a policy that was never loaded is named in records.
fn unknown_identity(object: &Wanted) -> PolicyIdentity {
    PolicyIdentity {
        slot: slot(object.spec.slot),
        name: "refused".into(),
        version: "0.0.0".into(),
        component: Digest::of(b""),
        settings: Digest::of(b""),
        configuration: None,
        origin: Some(object.origin()),
    }
}

/// What decides while a policy cannot be loaded.
fn meanwhile(is_in_force: bool, mode: PolicyMode) -> &'static str {
    match (is_in_force, mode) {
        (true, _) => "the last version that loaded stays in force",
        (false, PolicyMode::Decide) => "until it loads, each decision counts it as failed",
        (false, PolicyMode::Shadow) => "until it loads, it is not asked",
    }
}

fn status(
    old: &PolicyStatus,
    known: &Known,
    mode: PolicyMode,
    audits: &Audits,
    generation: Option<i64>,
    now: Timestamp,
) -> PolicyStatus {
    // What is said of a policy is said of the one in force.
    let mut status = PolicyStatus { conditions: old.conditions.clone(), ..PolicyStatus::default() };
    let (holds, reason, message) = match (&known.refused, &known.policy) {
        (None, Some(policy)) => (true, "Loaded", policy.description().summary.clone()),
        (Some((reason, why)), policy) => (false, *reason, format!("{why}; {}", meanwhile(policy.is_some(), mode))),
        (None, None) => (false, "Loading", String::new()),
    };
    let holds = ConditionStatus::from(holds);
    set_condition(&mut status.conditions, conditions::LOADED, holds, reason, message, generation, now);
    status.observed_generation = generation;
    if let Some(policy) = &known.policy {
        let identity = policy.identity();
        // Of rules the settings tell one from another, of a component itself.
        let own = if policy.source().is_rules() { &identity.settings } else { &identity.component };
        status.policy = Some(PolicyInForce {
            name: identity.name.to_string(),
            version: identity.version.to_string(),
            digest: identity.component.to_string(),
            settings_digest: identity.settings.to_string(),
            short_digest: own.short().to_string(),
        });
        status.audit = audits.of(identity);
        status.decisions = i64::try_from(policy.decisions()).unwrap_or(i64::MAX);
        status.failures = policy.failures_in_a_row().into();
        status.suspended = policy.is_suspended();
        status.last_failure = policy.last_failure().map(|why| why.chars().take(500).collect());
    }
    status
}
