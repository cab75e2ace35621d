//! The machines of a zone, as Scaleway lists them.

use std::sync::Arc;
use std::time::Duration;

use windlass_scaleway::types::apple_silicon::{ListServers as ListHosts, Server as Host};
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use super::listing::Listing;
use crate::lifecycle::Lifecycle;
use crate::shared::Shared;
use crate::{Error, tags};

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
    shared.machines.hosts.at_most(&shared.client, &shared.clock, zone, age, api).await
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
