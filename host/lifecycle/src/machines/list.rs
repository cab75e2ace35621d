//! The machines of a zone, as Scaleway lists them.

use std::sync::Arc;
use std::time::Duration;

use windlass_scaleway::types::apple_silicon::{ListServers as ListHosts, Server as Host};
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use super::host::resource;
use super::listing::Listing;
use crate::journal::note::Note;
use crate::journal::{Entry, Operation, OperationKind, Phase};
use crate::lifecycle::Lifecycle;
use crate::shared::Shared;
use crate::{Error, tags};

/// How long it is remembered that a host was busy: a day, in milliseconds.
const REMEMBERED: u64 = 24 * 3_600 * 1_000;

/// Every host of a zone, at most `age` old; without an age, as they are after this call.
pub(crate) async fn hosts(shared: &Shared, zone: &Zone, age: Option<Duration>) -> Result<Arc<Listing<Host>>, Error> {
    let api = |client: Client| {
        let (api, project) = (client.apple_silicon(zone), shared.project.clone());
        async move {
            let request = ListHosts { project_id: project.clone(), ..ListHosts::default() };
            let hosts = api.list_servers(&request).await?;
            Ok(hosts
                .into_iter()
                .filter(|host| project.as_ref().is_none_or(|project| host.project_id == *project))
                .collect())
        }
    };
    let listing = shared.machines.hosts.at_most(&shared.client, &shared.clock, zone, age, api).await?;
    for (host, busy_at) in settled(shared, &listing) {
        if let Err(error) = note_settled(shared, zone, host, busy_at, listing.taken_at).await {
            tracing::warn!(host = host.id, %error, "the journal cannot note that a host is no longer busy");
        }
    }
    Ok(listing)
}

/// The hosts that were listed as busy before and are not any more, and when they were the last time.
fn settled<'l>(shared: &Shared, listing: &'l Listing<Host>) -> Vec<(&'l Host, u64)> {
    let mut busy = shared.machines.busy.lock();
    busy.retain(|_, at| listing.taken_at.saturating_sub(*at) < REMEMBERED);
    let mut settled = Vec::new();
    for host in &listing.machines {
        if !host.delivered || host.status.is_transient() {
            let at = busy.entry(host.id.clone()).or_default();
            *at = listing.taken_at.max(*at);
        } else if busy.get(&host.id).is_some_and(|at| *at < listing.taken_at) {
            settled.extend(busy.remove(&host.id).map(|at| (host, at)));
        }
    }
    settled
}

/// Notes it in the operation that wiped or ordered the host, so that the journal tells how long that takes.
async fn note_settled(shared: &Shared, zone: &Zone, host: &Host, busy_at: u64, at: u64) -> Result<(), Error> {
    let newest = shared.journal.operations_of_resource(&host.id)?.into_iter().next();
    let is_ours = |operation: &Operation| {
        matches!(operation.kind, OperationKind::ReleaseMachine | OperationKind::OrderMachine)
            && operation.owner == shared.owner.as_str()
    };
    let Some(operation) = newest.filter(is_ours) else { return Ok(()) };
    let (step, data) = Note::Settled { status: host.status.to_string(), busy_at }.parts();
    let entry = Entry { sequence: 0, step, phase: Phase::Note, resource: Some(resource(zone, &host.id)), data, at };
    shared.journal.append(&operation.id, entry).await
}

impl Lifecycle {
    /// Every Apple silicon host of a zone, whoever's it is; where [`Options::project`](crate::Options::project) names
    /// one, of that project. Calls for one zone within
    /// [`Limits::machine_interval`](crate::Limits::machine_interval) share one answer, also while it is on its way;
    /// what this process itself renamed meanwhile shows.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed. Nothing is kept of that: the next call asks again.
    pub async fn hosts(&self, zone: &Zone) -> Result<Arc<Listing<Host>>, Error> {
        hosts(&self.shared, zone, Some(self.shared.limits.machine_interval)).await
    }

    /// Our Instance servers of a zone (by the owner tag), shared in the same way.
    ///
    /// # Errors
    /// As [`Lifecycle::hosts`].
    pub async fn servers(&self, zone: &Zone) -> Result<Arc<Listing<Server>>, Error> {
        let shared = &self.shared;
        let list = |client: Client| {
            let request = ListServers { tags: vec![tags::owner_tag(&shared.owner)], ..ListServers::default() };
            let (api, owner) = (client.instance(zone), shared.owner.clone());
            async move {
                let servers = api.list_servers(&request).await?;
                Ok(servers.into_iter().filter(|server| tags::carries_owner(&server.tags, &owner)).collect())
            }
        };
        shared
            .machines
            .servers
            .at_most(&shared.client, &shared.clock, zone, Some(shared.limits.machine_interval), list)
            .await
    }
}
