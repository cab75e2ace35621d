//! How orphans are looked for, and what is known from look to look.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;
use windlass_scaleway::Zone;

use crate::arguments::{Orphans, RunArguments};
use crate::lease::lease_name;
use crate::shard::Shard;

/// How orphans are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(super) mode: Orphans,
    pub(super) interval: Duration,
    pub(super) grace: Duration,
    /// The namespace of the controller's own Lease, of which events are told.
    pub(super) own_namespace: String,
    pub(super) lease: String,
}

impl Watch {
    /// Nothing where not all namespaces are watched.
    pub(crate) fn of(arguments: &RunArguments, shard: Shard) -> Option<Self> {
        arguments.namespace.is_none().then(|| Self {
            mode: arguments.orphans,
            interval: arguments.orphans_interval,
            grace: arguments.orphans_grace,
            own_namespace: arguments.leader_elect_namespace.clone(),
            lease: lease_name(arguments, shard),
        })
    }
}

/// What is remembered of an account from look to look.
#[derive(Default)]
pub(super) struct Account {
    /// The zones that were listed: an orphan is what is left when the last machine of a zone is gone. One that an object
    /// names and that cannot be listed is tried while the object is there, and forgotten with it.
    pub(super) listed: BTreeSet<Zone>,
    /// The orphaned hosts, with their zones, and since when they are known.
    pub(super) hosts: BTreeMap<String, (Zone, Instant)>,
    /// The servers without an object, with their zones, and whether that was told.
    pub(super) servers: BTreeMap<String, (Zone, bool)>,
}

/// How many there are in each zone.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) hosts: BTreeMap<Zone, usize>,
    pub(super) servers: BTreeMap<Zone, usize>,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        for (ours, theirs) in [(&mut self.hosts, other.hosts), (&mut self.servers, other.servers)] {
            for (zone, count) in theirs {
                *ours.entry(zone).or_default() += count;
            }
        }
    }
}

/// Orphans have no object: their events are told of the Lease.
pub(super) fn about(watch: &Watch) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(watch.own_namespace.clone()),
        name: Some(watch.lease.clone()),
        ..ObjectReference::default()
    }
}
