//! How many objects stand where, as a metric, from what the watch holds anyway.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::Resource;
use kube::runtime::reflector::Store;
use tokio_util::sync::CancellationToken;

use crate::kinds::{AppleSiliconMachine, InstanceMachine, MachineStatus, Phase, ServerCluster};
use crate::metric_names;
use crate::shard::Shard;

/// How often they are counted.
const INTERVAL: Duration = Duration::from_secs(15);
/// The state of an object of which nothing is recorded yet.
const NONE: &str = "none";

fn phase(status: Option<&MachineStatus>) -> &'static str {
    status.and_then(|status| status.phase).map_or(NONE, Phase::as_str)
}

pub(super) fn of_mac(object: &AppleSiliconMachine) -> &str {
    phase(object.status.as_ref())
}

pub(super) fn of_instance(object: &InstanceMachine) -> &str {
    phase(object.status.as_ref())
}

pub(super) fn of_cluster(object: &ServerCluster) -> &str {
    object.status.as_ref().and_then(|status| status.state.as_deref()).unwrap_or(NONE)
}

/// Counts the objects of a kind by state until the end, where they have one that people ask for. A state in which there
/// is none any more counts 0.
pub(super) async fn count<K>(
    kind: &'static str,
    state: Option<fn(&K) -> &str>,
    shard: Shard,
    store: Store<K>,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let Some(state) = state else { return };
    let mut counts = BTreeMap::new();
    tokio::select! {
        // Before that, none would be told where there are many.
        _ = store.wait_until_ready() => {}
        () = stop.cancelled() => return,
    }
    loop {
        renew(&mut counts, store.state().iter().map(|object| state(object)));
        for (state, count) in &counts {
            let labels = shard.labels([("kind", kind.to_owned()), ("state", state.clone())]);
            metrics::gauge!(metric_names::OBJECTS, labels).set(*count);
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn renew<'a>(counts: &mut BTreeMap<String, u32>, states: impl Iterator<Item = &'a str>) {
    counts.values_mut().for_each(|count| *count = 0);
    for state in states {
        *counts.entry(state.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_in_which_there_is_no_object_any_more_counts_none() {
        let mut counts = BTreeMap::new();
        renew(&mut counts, ["Pending", "Provisioned", "Pending"].into_iter());
        assert_eq!(counts, BTreeMap::from([("Pending".to_owned(), 2), ("Provisioned".to_owned(), 1)]));
        renew(&mut counts, ["Provisioned"].into_iter());
        assert_eq!(counts, BTreeMap::from([("Pending".to_owned(), 0), ("Provisioned".to_owned(), 1)]));
    }
}
