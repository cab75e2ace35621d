//! Which objects an event of Cluster API's Machine or Cluster concerns.

use std::collections::HashMap;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;

use crate::cluster_api::{Cluster, Machine, infrastructure_ready};
use crate::context::Context;
use crate::kinds::{GROUP, labels};

/// The machine object that a Machine refers to.
pub(super) fn infrastructure_of<K>(machine: &Machine, kind: &str) -> Option<ObjectRef<K>>
where
    K: Resource<DynamicType = ()>,
{
    let reference = &machine.spec.infrastructure_ref;
    if !reference.is(GROUP, kind) {
        return None;
    }
    Some(ObjectRef::new(&reference.name).within(&machine.namespace()?))
}

/// What of a Cluster its machines depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gates {
    paused: bool,
    ready: bool,
}

/// The Clusters as their machines saw them last, by UID.
pub(super) type Seen = Mutex<HashMap<String, Gates>>;

/// Whether a Cluster is another to its machines than it was when they were looked at last.
fn is_news(seen: &Seen, cluster: &Cluster) -> bool {
    let mut seen = seen.lock();
    let uid = cluster.uid().unwrap_or_default();
    if cluster.meta().deletion_timestamp.is_some() {
        seen.remove(&uid);
        return true;
    }
    let gates = Gates { paused: cluster.spec.paused.unwrap_or(false), ready: infrastructure_ready(cluster) };
    seen.insert(uid, gates) != Some(gates)
}

/// The objects of a Cluster that has changed in what they depend on. What was settled about them is looked at anew: the
/// Cluster may have been paused.
pub(super) fn members<K>(store: &Store<K>, cluster: &Cluster, seen: &Seen, context: &Context) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    if !is_news(seen, cluster) {
        return Vec::new();
    }
    let (name, namespace) = (cluster.name_any(), cluster.namespace());
    store
        .state()
        .into_iter()
        .filter(|object| object.namespace() == namespace && object.labels().get(labels::CLUSTER_NAME) == Some(&name))
        .map(|object| {
            context.settled.forget(&object.uid().unwrap_or_default());
            ObjectRef::from_obj(object.as_ref())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_news_to_its_machines_when_its_gates_change() {
        let cluster = |uid: &str, paused: bool, ready: bool, deleted: bool| -> Cluster {
            let mut object = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "uid": uid},
                "spec": {"paused": paused}, "status": {"initialization": {"infrastructureProvisioned": ready}},
            });
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            serde_json::from_value(object).unwrap()
        };
        let seen = Seen::default();
        for (found, news) in [
            (cluster("a", false, false, false), true),
            (cluster("a", false, false, false), false),
            (cluster("a", false, true, false), true),
            (cluster("a", false, true, false), false),
            (cluster("b", false, true, false), true),
            (cluster("a", true, true, false), true),
            (cluster("a", true, true, false), false),
            (cluster("a", true, true, true), true),
            (cluster("a", true, true, true), true),
        ] {
            assert_eq!(is_news(&seen, &found), news, "{found:?}");
        }
    }
}
