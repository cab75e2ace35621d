//! The removal of what a sweep found: journalled, planned by the rollback slot, and proven by a look at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_scaleway::Zone;

use super::judge::Known;
use super::listing::Listed;
use crate::Error;
use crate::cleanup::CleanedUp;
use crate::control::{Control, EventKind};
use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::inventory::Scope;
use crate::journal::{OperationKind, OperationState, ResourceKind, ResourceName};
use crate::lifecycle::{Lifecycle, left_open, state_after};
use crate::ownership::Claims;
use crate::requested_by::RequestedBy;
use crate::run::Run;
use crate::shared::Active;
use crate::tags;
use crate::undo::undo;

/// Resources in one operation of a sweep at most: the rollback slot plans them together.
const BATCH: usize = 100;

/// What a sweep's row in the journal says: what it removes, and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SweepSpecification {
    pub(super) resources: Vec<ResourceName>,
    /// Volumes that the journals of the removed servers' creations prove, tagged or not. (Older versions wrote
    /// `volumes`: those of every operation that was judged. That is no reason to remove one, so it is not read.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) proven: Vec<ResourceName>,
    /// Servers that were read by their ids and are gone, and that some of it still shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gone: Vec<String>,
    /// Creations whose servers were read by their ids and are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ends: Vec<OperationId>,
    /// Why nothing explains it, by the id of the resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) why: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub(super) requested_by: RequestedBy,
}

impl SweepSpecification {
    pub(crate) fn scope(&self, owner: &OwnerName) -> Scope {
        let mut claims = Claims::of_sweep(owner, self.gone.iter().cloned());
        self.resources.iter().for_each(|name| claims.name(name.clone()));
        self.proven.iter().for_each(|name| claims.made(name.clone()));
        Scope::new(claims)
    }
}

/// What is to be removed, in portions that a policy and a journal's row can hold. A server and what is attached to it
/// go together.
pub(super) fn batches(remove: &[Listed], known: &BTreeMap<OperationId, Option<Known>>) -> Vec<SweepSpecification> {
    let going: BTreeSet<&str> = remove.iter().filter(|it| is_server(it)).map(|it| it.name.id.as_str()).collect();
    let mut groups: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
    for resource in remove {
        let server = resource.attached_to.iter().map(String::as_str).find(|server| going.contains(server));
        groups.entry(server.unwrap_or(&resource.name.id)).or_default().push(resource);
    }
    let mut batches: Vec<Vec<&Listed>> = Vec::new();
    for group in groups.into_values() {
        match batches.last_mut() {
            Some(batch) if batch.len() + group.len() <= BATCH => batch.extend(group),
            _ => batches.push(group),
        }
    }
    batches.into_iter().map(|batch| specification(&batch, &going, known)).collect()
}

fn specification(
    batch: &[&Listed],
    going: &BTreeSet<&str>,
    known: &BTreeMap<OperationId, Option<Known>>,
) -> SweepSpecification {
    let proven: BTreeSet<ResourceName> =
        batch.iter().filter(|resource| is_server(resource)).flat_map(|server| volumes_of(server, known)).collect();
    let gone: BTreeSet<&String> = batch
        .iter()
        .flat_map(|resource| &resource.attached_to)
        .filter(|server| !going.contains(server.as_str()))
        .collect();
    SweepSpecification {
        resources: batch.iter().map(|resource| resource.name.clone()).collect(),
        proven: proven.into_iter().collect(),
        gone: gone.into_iter().cloned().collect(),
        ends: Vec::new(),
        why: BTreeMap::new(),
        requested_by: RequestedBy::default(),
    }
}

/// The volumes that the journal of its creation proves to be a server's: those that it names; and where the answer to
/// the creation was lost, so that nobody could tag them, those in the places where it puts what it makes.
fn volumes_of(server: &Listed, known: &BTreeMap<OperationId, Option<Known>>) -> Vec<ResourceName> {
    let operation = tags::operation_of(&server.tags);
    let Some(known) = operation.and_then(|id| known.get(&id)).and_then(Option::as_ref) else { return Vec::new() };
    let named = known.claims.known().cloned();
    let as_created = server.never_started && known.claims.calls_its_server(&server.label);
    let lost = as_created && known.claims.may_have_lost(ResourceKind::Server);
    let with_it = lost.then(|| known.claims.volumes_with(&server.name.id, &server.volumes, &server.name.zone));
    named
        .chain(with_it.into_iter().flatten())
        .filter(|name| name.kind.is_volume())
        // One that was tagged is judged for itself: without its tags somebody took it over.
        .filter(|name| !known.kept.contains(&name.id) && !known.claims.was_tagged(&name.id))
        .collect()
}

fn is_server(resource: &Listed) -> bool {
    resource.name.kind == ResourceKind::Server
}

/// Removes what the specification names, also when another process began it.
pub(crate) async fn remove(
    run: &Run,
    active: &Active,
    specification: &SweepSpecification,
    mut scope: Scope,
) -> Result<CleanedUp, Error> {
    run.event(EventKind::Opened);
    let report = match undo(run, &mut scope, None).await {
        Ok(report) => report,
        Err(stop) => return Err(left_open(run, active, stop)),
    };
    let state = state_after(&report, OperationState::Done);
    run.shared.close(run, active, state, None, Some(&report), specification.ends.clone()).await?;
    Ok(CleanedUp { operation: run.id.clone(), report, decided: None })
}

impl Lifecycle {
    pub(super) async fn sweep_batch(
        &self,
        zone: &Zone,
        specification: &SweepSpecification,
        control: &Control,
    ) -> Result<CleanedUp, Error> {
        let shared = &self.shared;
        let group: GroupName = "sweep".parse()?;
        let policies = shared.policies.pin();
        let (id, active) = shared.begin(OperationKind::Sweep, &group, zone, json!(specification), &policies).await?;
        let span = tracing::info_span!("sweep", operation = %id, zone = %zone);
        let run = Run::new(
            Arc::clone(shared),
            id,
            OperationKind::Sweep,
            group,
            zone.clone(),
            policies,
            control.clone(),
            None,
        );
        let traced = run.trace.operation();
        let scope = specification.scope(&shared.owner);
        remove(&run, &active, specification, scope).instrument(traced).instrument(span).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(kind: ResourceKind, id: String, attached_to: Option<String>) -> Listed {
        Listed {
            name: ResourceName { kind, id, zone: "fr-par-1".into(), server: None },
            label: String::new(),
            state: String::new(),
            tags: vec![],
            attached_to: attached_to.into_iter().collect(),
            never_started: false,
            protected: false,
            volumes: BTreeMap::new(),
        }
    }

    #[test]
    fn a_portion_is_bounded_and_holds_a_server_with_all_that_is_attached_to_it() {
        let server = |n: usize| listed(ResourceKind::Server, format!("server-{n}"), None);
        let ip = |n: usize| listed(ResourceKind::Ip, format!("ip-{n}"), Some(format!("server-{}", n / 3)));
        let loose = |n: usize| listed(ResourceKind::BlockVolume, format!("volume-{n}"), Some("gone".into()));
        let remove: Vec<Listed> = (0..200).map(server).chain((0..600).map(ip)).chain((0..2_500).map(loose)).collect();
        let batches = batches(&remove, &BTreeMap::new());
        assert_eq!(batches.iter().map(|batch| batch.resources.len()).sum::<usize>(), remove.len());
        for batch in &batches {
            assert!(batch.resources.len() <= BATCH && batch.proven.is_empty());
            // Only what was read and is gone is taken for gone, not what this sweep is still to remove.
            assert!(batch.gone.iter().all(|server| server == "gone"), "{:?}", batch.gone);
            let ids: BTreeSet<&str> = batch.resources.iter().map(|name| name.id.as_str()).collect();
            for ip in ids.iter().filter_map(|id| id.strip_prefix("ip-")) {
                let server = format!("server-{}", ip.parse::<usize>().unwrap() / 3);
                assert!(ids.contains(server.as_str()), "ip-{ip} goes without {server}");
            }
            // The journal's longest row is 256 KiB.
            assert!(json!(batch).to_string().len() < 64 * 1024);
        }
    }
}
