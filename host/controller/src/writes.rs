//! The writes that reconciles make: each under the version that was read, or of our own fields alone.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;
use crate::action::Action;
use crate::kinds::{Condition, FINALIZER, OperationStatus, conditions};
use crate::requested::asks_the_same;
use crate::status::{difference, mirrored};

/// How long after a write that somebody else's write has overtaken.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);
/// How long the cache gets to catch up.
const BEHIND: Duration = Duration::from_millis(500);
/// Who applies conditions and Secrets.
pub(crate) const FIELD_MANAGER: &str = "windlass-controller";
/// The array of conditions in every status.
const CONDITIONS: &str = "conditions";

/// Whether a write was overtaken by another's.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Writes what differs between two statuses. The mirror of the operation is its job's to write.
pub(crate) async fn write_status<K, S>(api: &Api<K>, object: &K, old: &S, new: &S) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    S: Serialize,
{
    write_with_operation(api, object, old, new, None).await.map(drop)
}

/// Writes what differs between two statuses, and, in the same call, how the operation stands that is about to begin.
///
/// Conditions are applied under a field manager of our own, and only ours: the array is merged by type at the server,
/// so one that somebody else has set meanwhile stays, however old the object is that we have seen. Gives the object as
/// the last write answered it, if one was sent and the object is there.
pub(crate) async fn write_with_operation<K, S>(
    api: &Api<K>,
    object: &K,
    old: &S,
    new: &S,
    operation: Option<&OperationStatus>,
) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    S: Serialize,
{
    let mut patch = difference(old, new);
    patch.remove("operation");
    if let Some(operation) = operation {
        patch.insert("operation".to_owned(), mirrored(operation));
    }
    let conditions = patch.remove(CONDITIONS).map(|all| our_conditions(&all, sets_up(new)));
    let name = object.name_any();
    let mut answered = None;
    if !patch.is_empty() {
        let patch = json!({"metadata": {"uid": object.uid()}, "status": patch});
        answered = written(api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await)?;
    }
    if let Some(conditions) = conditions {
        let patch = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": name, "uid": object.uid()},
            "status": {CONDITIONS: conditions},
        });
        let how = PatchParams::apply(FIELD_MANAGER).force();
        answered = written(api.patch_status(&name, &how, &Patch::Apply(&patch)).await)?;
    }
    Ok(answered)
}

/// Takes away a condition that somebody else has set, under the version that is read here. `false` when another write
/// came first.
pub(crate) async fn remove_foreign_condition<K>(api: &Api<K>, object: &K, kind: &str) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    change_conditions(api, object, |all| all.retain(|condition| condition["type"] != kind)).await
}

/// Sets a condition that somebody else sets from now on, where there is none of its kind. It is not applied with ours: an
/// old sight of the object would overwrite theirs. `false` when another write came first.
pub(crate) async fn add_foreign_condition<K>(api: &Api<K>, object: &K, condition: &Condition) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    change_conditions(api, object, |all| {
        if all.iter().all(|known| known["type"] != condition.kind.as_str()) {
            all.push(json!(condition));
        }
    })
    .await
}

/// Changes all conditions, whoever set them, under the version that is read here.
async fn change_conditions<K>(api: &Api<K>, object: &K, change: impl FnOnce(&mut Vec<Value>)) -> Result<bool, Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let reading = "reading the object whose conditions change";
    let Some(now) = api.get_opt(&object.name_any()).await.map_err(Error::kubernetes(reading))? else { return Ok(true) };
    let status = serde_json::to_value(&now).unwrap_or_default()["status"].take();
    let before = status[CONDITIONS].as_array().cloned().unwrap_or_default();
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return Ok(true);
    }
    let patch = json!({
        "metadata": {"uid": object.uid(), "resourceVersion": now.resource_version()}, "status": {CONDITIONS: after},
    });
    match api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => Ok(true),
        Err(error) if is_conflict(&error) => Ok(false),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(Error::kubernetes("changing conditions")(error)),
    }
}

fn written<K>(answer: kube::Result<K>) -> Result<Option<K>, Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_gone(&error) => Ok(None),
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
    let same = asks_the_same(&fresh, object) && seen(&fresh) == seen(object);
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
