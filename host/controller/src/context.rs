//! What all reconciles share, and the few writes that they make.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_lifecycle::{Lifecycle, OwnerName};
use windlass_policy::Host;
use windlass_policy::slots::SlotName;
use windlass_scaleway::Zone;

use crate::Error;
use crate::above::Above;
use crate::accounts::Accounts;
use crate::cluster_api::ClusterApi;
use crate::jobs::Jobs;
use crate::kinds::{ConditionStatus, FINALIZER, MachineStatus, PolicyInUse, conditions};
use crate::pools::Pools;
use crate::server_cluster::ServerClusters;
use crate::status::{bounded, difference, remove_condition, set_condition};

/// How long after a write that somebody else's write has overtaken.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);
/// How long the cache gets to catch up.
const BEHIND: Duration = Duration::from_millis(500);
/// The longest note of an event, in bytes (a rule of Kubernetes).
const LONGEST_NOTE: usize = 1000;

/// Who applies conditions and Secrets.
pub(crate) const FIELD_MANAGER: &str = "windlass-controller";
/// The array of conditions in every status.
const CONDITIONS: &str = "conditions";

/// What the operator configured.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) owner: OwnerName,
    /// The namespace that is watched; absent: all.
    pub(crate) watched: Option<String>,
    /// The controller's own namespace.
    pub(crate) namespace: String,
    pub(crate) zone: Option<Zone>,
    /// The project of the credentials.
    pub(crate) project: Option<String>,
    /// The name of the Secret that is a namespace's default, where the operator lets there be one.
    pub(crate) namespace_credentials: Option<String>,
    pub(crate) pools: Pools,
    pub(crate) allow_orders: bool,
    pub(crate) listing_interval: Duration,
    pub(crate) retry_interval: Duration,
}

/// What all reconciles share; client, lifecycle, clusters and settings are those of one account.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) cluster_api: Option<ClusterApi>,
    pub(crate) scaleway: windlass_scaleway::Client,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) policies: Arc<Host>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) recorder: Recorder,
    pub(crate) settings: Settings,
    pub(crate) settled: Arc<Settled>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) server_clusters: Arc<ServerClusters>,
}

/// Objects about which there is nothing to do, and by what that was told. A reconcile of one that still looks the same
/// ends without a call, so hundreds of machines cost a listing and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<HashMap<String, String>>);

impl Settled {
    pub(crate) fn is(&self, uid: &str, mark: &str) -> bool {
        self.0.lock().get(uid).is_some_and(|known| known == mark)
    }

    pub(crate) fn set(&self, uid: &str, mark: String) {
        self.0.lock().insert(uid.to_owned(), mark);
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

impl Context {
    /// The policies that decide now.
    pub(crate) fn policies_in_use(&self, slots: &[SlotName]) -> Vec<PolicyInUse> {
        let pin = self.policies.pin();
        slots
            .iter()
            .flat_map(|slot| pin.chain(*slot))
            .map(|policy| PolicyInUse {
                slot: policy.slot.to_string(),
                name: policy.name.to_string(),
                version: policy.version.to_string(),
                digest: policy.component.to_string(),
                settings_digest: policy.settings.to_string(),
            })
            .collect()
    }

    /// Tells what happened, as an event of the object. One that cannot be published is logged.
    pub(crate) async fn event(&self, about: &ObjectReference, warning: bool, reason: &str, action: &str, note: &str) {
        let mut note = bounded(note.to_owned());
        if note.len() > LONGEST_NOTE {
            let end = (0..=LONGEST_NOTE).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
            note.truncate(end);
        }
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        let name = about.name.as_deref().unwrap_or_default();
        if warning {
            tracing::warn!(name, reason, "{}", event.note.as_deref().unwrap_or_default());
        } else {
            tracing::info!(name, reason, "{}", event.note.as_deref().unwrap_or_default());
        }
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::warn!(error = &error as &dyn std::error::Error, name, reason, "the event was not published");
        }
    }
}

/// Whether a write was overtaken by another's.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Writes what differs between two statuses. The mirror of the operation is its job's to write.
///
/// Conditions are applied under a field manager of our own, and only ours: the array is merged by type at the server, so
/// one that somebody else has set meanwhile stays, however old the object is that we have seen.
pub(crate) async fn write_status<K, S>(api: &Api<K>, object: &K, old: &S, new: &S) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    S: Serialize,
{
    let Some(Value::Object(mut patch)) = difference(old, new) else { return Ok(()) };
    patch.remove("operation");
    let conditions = patch.remove(CONDITIONS).map(|all| our_conditions(&all, sets_up(new)));
    let name = object.name_any();
    if !patch.is_empty() {
        let patch = json!({"metadata": {"uid": object.uid()}, "status": patch});
        written(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await)?;
    }
    if let Some(conditions) = conditions {
        let patch = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name, "uid": object.uid()},
            "status": {CONDITIONS: conditions},
        });
        written(api.patch_status(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&patch)).await)?;
    }
    Ok(())
}

/// Takes away a condition that somebody else has set, under the version that is read here. `false` when another write
/// came first.
pub(crate) async fn remove_foreign_condition<K>(api: &Api<K>, object: &K, kind: &str) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let reading = "reading the object whose condition is taken away";
    let Some(now) = api.get_opt(&object.name_any()).await.map_err(Error::kubernetes(reading))? else { return Ok(true) };
    let status = serde_json::to_value(&now).unwrap_or_default()["status"].take();
    let all = status[CONDITIONS].as_array().cloned().unwrap_or_default();
    let kept: Vec<&Value> = all.iter().filter(|condition| condition["type"] != kind).collect();
    if kept.len() == all.len() {
        return Ok(true);
    }
    let patch = json!({
        "metadata": {"uid": object.uid(), "resourceVersion": now.resource_version()}, "status": {CONDITIONS: kept},
    });
    match api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) => Ok(false),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(Error::kubernetes("taking a condition away")(error)),
    }
}

fn written<K>(answer: kube::Result<K>) -> Result<(), Error> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(Error::kubernetes("writing the status")(error)),
    }
}

/// Whether it is this controller that sets the machine up, and not somebody else.
fn sets_up<S: Serialize>(status: &S) -> bool {
    serde_json::to_value(status).is_ok_and(|status| !status["setup"].is_null())
}

/// Those conditions of an array that this controller sets.
fn our_conditions(all: &Value, sets_up: bool) -> Vec<Value> {
    let ours = |condition: &&Value| {
        conditions::OURS.iter().any(|kind| condition["type"] == *kind)
            || sets_up && condition["type"] == conditions::BOOTSTRAPPED
    };
    all.as_array().into_iter().flatten().filter(ours).cloned().collect()
}

/// Writes metadata or spec, under the version that was read: what somebody else changed meanwhile is not overwritten.
/// `false` when that was so.
pub(crate) async fn write_object<K>(api: &Api<K>, object: &K, mut patch: Value) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    patch["metadata"]["resourceVersion"] = json!(object.resource_version());
    patch["metadata"]["uid"] = json!(object.uid());
    match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) || is_gone(&error) => Ok(false),
        Err(error) => Err(Error::kubernetes("writing the object")(error)),
    }
}

/// Adds finalizer and annotations in one write.
pub(crate) async fn mark<K>(api: &Api<K>, object: &K, annotations: Value) -> Result<Action, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut finalizers = object.finalizers().to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {"finalizers": finalizers, "annotations": annotations}});
    write_object(api, object, patch).await?;
    // The write brings the next reconcile; where it was overtaken, the other's write does.
    Ok(Action::requeue(AFTER_CONFLICT))
}

/// Reads the object before work begins on it: what is begun is begun for the object as it is now, and the cache from
/// which it came may be behind. Nothing where deletion, annotations and what `seen` takes from it are the same;
/// otherwise what to do instead.
pub(crate) async fn overtaken<K, S>(api: &Api<K>, object: &K, seen: impl Fn(&K) -> S) -> Result<Option<Action>, Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    S: PartialEq,
{
    let fresh = api
        .get_opt(&object.name_any())
        .await
        .map_err(Error::kubernetes("reading the object before work begins"))?
        .filter(|fresh| fresh.uid() == object.uid());
    let Some(fresh) = fresh else { return Ok(Some(Action::await_change())) };
    let same = fresh.meta().deletion_timestamp.is_some() == object.meta().deletion_timestamp.is_some()
        && fresh.annotations() == object.annotations()
        && seen(&fresh) == seen(object);
    Ok((!same).then(|| Action::requeue(BEHIND)))
}

/// Takes the finalizer away.
pub(crate) async fn remove_finalizer<K>(api: &Api<K>, object: &K) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let kept: Vec<_> = object.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    write_object(api, object, json!({"metadata": {"finalizers": kept}})).await
}

/// Sets the condition `Paused`, which the contract asks for.
pub(crate) fn say_paused(status: &mut MachineStatus, above: &Above, generation: Option<i64>, now: Timestamp) {
    match &above.paused {
        Some(why) => {
            set_condition(
                &mut status.conditions,
                conditions::PAUSED,
                ConditionStatus::True,
                "Paused",
                why,
                generation,
                now,
            );
        }
        None => set_condition(
            &mut status.conditions,
            conditions::PAUSED,
            ConditionStatus::False,
            "NotPaused",
            "",
            generation,
            now,
        ),
    }
}

/// Sets `Provisioned` and `Ready` to the same: not yet.
pub(crate) fn say_waiting(
    status: &mut MachineStatus,
    reason: &str,
    message: &str,
    generation: Option<i64>,
    now: Timestamp,
) {
    for kind in [conditions::PROVISIONED, conditions::READY] {
        // A machine that is there stays provisioned while something about it is waited for.
        if kind == conditions::PROVISIONED && status.was_provisioned() && status.server_id.is_some() {
            continue;
        }
        set_condition(&mut status.conditions, kind, ConditionStatus::False, reason, message, generation, now);
    }
}

/// Sets `Provisioned` and `Ready` for a machine that is there.
pub(crate) fn say_provisioned(
    status: &mut MachineStatus,
    trouble: Option<&(&'static str, String)>,
    generation: Option<i64>,
    now: Timestamp,
) {
    status.ready = true;
    status.initialization = Some(crate::kinds::Initialization { provisioned: Some(true) });
    status.phase = Some(crate::kinds::Phase::Provisioned);
    status.failure_reason = None;
    status.failure_message = None;
    status.observed_generation = generation;
    let set = |status: &mut MachineStatus, kind, holds: bool, reason: &str, message: &str| {
        set_condition(&mut status.conditions, kind, holds.into(), reason, message, generation, now);
    };
    set(status, conditions::PROVISIONED, true, "Provisioned", "");
    match trouble {
        Some((reason, message)) => set(status, conditions::READY, false, reason, message),
        None => set(status, conditions::READY, true, "Provisioned", ""),
    }
    remove_condition(&mut status.conditions, conditions::RELEASED);
}
