//! Looking at servers: everyone who waits in a zone shares one listing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

use crate::failure::AttemptFailure;

/// Ids in one query at most: fewer than fit a page, so that one call is enough, and less than 4 KiB of URL.
const IDS: usize = 90;

/// The listings of all zones.
#[derive(Debug)]
pub(crate) struct Poller {
    client: Client,
    pub(crate) interval: Duration,
    zones: Mutex<BTreeMap<Zone, Arc<ZonePoller>>>,
}

#[derive(Debug, Default)]
pub(crate) struct ZonePoller {
    /// Who waits, and for whom how many wait.
    waiting: Mutex<BTreeMap<String, usize>>,
    /// Held while somebody asks: the others wait for that answer instead of asking too.
    last: tokio::sync::Mutex<Option<Listing>>,
}

#[derive(Debug)]
struct Listing {
    began: Instant,
    asked: BTreeSet<String>,
    answer: Result<BTreeMap<String, Server>, AttemptFailure>,
}

/// Counts one waiter as long as it lives.
pub(crate) struct Waiting {
    zone: Arc<ZonePoller>,
    id: String,
}

impl Waiting {
    pub(crate) fn new(zone: Arc<ZonePoller>, id: &str) -> Self {
        *zone.waiting.lock().entry(id.to_owned()).or_default() += 1;
        Self { zone, id: id.to_owned() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.zone.waiting.lock();
        if let Some(count) = waiting.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.id);
            }
        }
    }
}

impl Poller {
    pub(crate) fn new(client: Client, interval: Duration) -> Self {
        Self { client, interval, zones: Mutex::new(BTreeMap::new()) }
    }

    pub(crate) fn zone(&self, zone: &Zone) -> Arc<ZonePoller> {
        Arc::clone(self.zones.lock().entry(zone.clone()).or_default())
    }

    /// The server as of a moment ago; `None` when Scaleway says there is none.
    ///
    /// A listing younger than 0.7 of an interval serves others as well: nobody looks sooner than an interval after its
    /// own action, so nobody sees a state from before it.
    pub(crate) async fn look(
        &self,
        zone: &Zone,
        shared: &ZonePoller,
        id: &str,
    ) -> Result<Option<Server>, AttemptFailure> {
        let wanted = Instant::now();
        let fresh_for = self.interval.mul_f32(0.7);
        let mut last = shared.last.lock().await;
        let fresh =
            last.as_ref().is_some_and(|listing| listing.began + fresh_for >= wanted && listing.asked.contains(id));
        if !fresh {
            let mut asked: BTreeSet<String> = shared.waiting.lock().keys().cloned().collect();
            asked.insert(id.to_owned());
            if asked.len() == 1 {
                return self.get(zone, id).await;
            }
            let began = Instant::now();
            let answer = self.list(zone, &asked).await;
            *last = Some(Listing { began, asked, answer });
        }
        match last.as_ref().map(|listing| &listing.answer) {
            Some(Ok(servers)) => match servers.get(id) {
                Some(server) => Ok(Some(server.clone())),
                None => {
                    // A listing that leaves a server out proves nothing; its own address does.
                    drop(last);
                    self.get(zone, id).await
                }
            },
            Some(Err(failed)) => Err(failed.clone()),
            None => self.get(zone, id).await,
        }
    }

    async fn get(&self, zone: &Zone, id: &str) -> Result<Option<Server>, AttemptFailure> {
        match self.client.instance(zone).get_server(id).await {
            Ok(server) => Ok(Some(server)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn list(&self, zone: &Zone, ids: &BTreeSet<String>) -> Result<BTreeMap<String, Server>, AttemptFailure> {
        let ids: Vec<String> = ids.iter().cloned().collect();
        let instance = self.client.instance(zone);
        let requests: Vec<_> =
            ids.chunks(IDS).map(|ids| ListServers { servers: ids.to_vec(), ..ListServers::default() }).collect();
        let answers =
            futures::future::try_join_all(requests.iter().map(|request| instance.list_servers(request))).await?;
        Ok(answers.into_iter().flatten().map(|server| (server.id.clone(), server)).collect())
    }
}
