//! One list for everybody: hundreds of machines that are looked after cost one call per zone and interval.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_scaleway::types::apple_silicon::{ListServers as ListHosts, Server as Host};
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use crate::lifecycle::{Lifecycle, Shared};
use crate::{Error, tags};

/// What a listing lists.
pub(crate) trait Listed: Clone {
    fn id(&self) -> &str;
}

impl Listed for Host {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Listed for Server {
    fn id(&self) -> &str {
        &self.id
    }
}

/// Everything of one sort in one zone, as it was at one moment. The passwords are not in it.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    /// When it was begun, in milliseconds since 1970. What happened since may be missing, except for our own renames.
    pub taken_at: u64,
    /// In Scaleway's order: the oldest first.
    pub machines: Vec<T>,
}

#[expect(private_bounds, reason = "the two that exist are named by the methods that answer listings")]
impl<T: Listed> Listing<T> {
    /// The one of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&T> {
        self.machines.iter().find(|machine| machine.id() == id)
    }
}

struct Kept<T> {
    began: Instant,
    listing: Arc<Listing<T>>,
}

/// The latest listing of one zone; its lock is held while somebody asks, and the others wait for that answer.
type Slot<T> = Arc<tokio::sync::Mutex<Option<Kept<T>>>>;

/// The latest listings of all zones.
pub(crate) struct Listings<T> {
    zones: Mutex<BTreeMap<Zone, Slot<T>>>,
}

impl<T> Default for Listings<T> {
    fn default() -> Self {
        Self { zones: Mutex::new(BTreeMap::new()) }
    }
}

impl<T: Listed> Listings<T> {
    fn slot(&self, zone: &Zone) -> Slot<T> {
        Arc::clone(self.zones.lock().entry(zone.clone()).or_default())
    }

    /// A listing that was begun at most `age` ago; asks for a new one where there is none, and always without an age.
    async fn at_most<F, Fut>(
        &self,
        shared: &Shared,
        zone: &Zone,
        age: Option<Duration>,
        list: F,
    ) -> Result<Arc<Listing<T>>, Error>
    where
        F: FnOnce(Client) -> Fut,
        Fut: Future<Output = Result<Vec<T>, windlass_scaleway::Error>>,
    {
        let slot = self.slot(zone);
        let wanted = Instant::now();
        let mut kept = slot.lock().await;
        if let (Some(kept), Some(age)) = (kept.as_ref(), age)
            && kept.began + age >= wanted
        {
            return Ok(Arc::clone(&kept.listing));
        }
        let (began, taken_at) = (Instant::now(), shared.clock.now());
        let machines = list(shared.client.clone())
            .await
            .map_err(|error| Error::scaleway("listing the machines of a zone", error))?;
        let listing = Arc::new(Listing { taken_at, machines });
        *kept = Some(Kept { began, listing: Arc::clone(&listing) });
        Ok(listing)
    }

    /// Takes over what a call of ours has just changed, so that the next look at the same listing sees it.
    pub(crate) async fn replace(&self, zone: &Zone, machine: &T) {
        let slot = self.slot(zone);
        if let Some(kept) = slot.lock().await.as_mut() {
            let listing = Arc::make_mut(&mut kept.listing);
            match listing.machines.iter_mut().find(|known| known.id() == machine.id()) {
                Some(known) => *known = machine.clone(),
                None => listing.machines.push(machine.clone()),
            }
        }
    }

    pub(crate) async fn forget(&self, zone: &Zone, id: &str) {
        let slot = self.slot(zone);
        if let Some(kept) = slot.lock().await.as_mut() {
            Arc::make_mut(&mut kept.listing).machines.retain(|machine| machine.id() != id);
        }
    }
}

/// Every host of a zone, at most `age` old; without an age, as they are after this call.
pub(crate) async fn hosts(shared: &Shared, zone: &Zone, age: Option<Duration>) -> Result<Arc<Listing<Host>>, Error> {
    let api = |client: Client| {
        let api = client.apple_silicon(zone);
        async move { api.list_servers(&ListHosts::default()).await }
    };
    shared.machines.hosts.at_most(shared, zone, age, api).await
}

impl Lifecycle {
    /// Every Apple silicon host of a zone, whoever's it is. Calls for one zone within
    /// [`Limits::machine_interval`](crate::Limits::machine_interval) share one answer, also while it is on its way; what
    /// this process itself renamed meanwhile shows.
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
        shared.machines.servers.at_most(shared, zone, Some(shared.limits.machine_interval), list).await
    }
}
