//! Image labels, resolved once for everybody who asks at about the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_concurrency::Flight;
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Error, Zone};

/// How long an answer serves. The id changes with each release of an image, every few weeks; the old one keeps working.
const FRESH: Duration = Duration::from_secs(300);

type Key = (String, String, String, String);

/// What is known of one label, zone, type and storage.
#[derive(Debug, Default)]
struct Entry {
    latest: Mutex<Option<(Instant, String)>>,
    flight: Flight<Result<String, Arc<Error>>>,
}

impl Entry {
    fn fresh(&self) -> Option<String> {
        self.latest.lock().as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, id)| id.clone())
    }
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<Key, Arc<Entry>>>);

impl Images {
    /// The id of an image. One caller asks, those who come meanwhile share the answer; a failure is not kept.
    pub(crate) async fn resolve(
        &self,
        client: &Client,
        label: &str,
        zone: &Zone,
        server_type: &str,
        storage: ImageStorage,
    ) -> Result<String, Arc<Error>> {
        let key = (label.to_owned(), zone.to_string(), server_type.to_owned(), storage.to_string());
        let entry = Arc::clone(self.0.lock().entry(key).or_default());
        if let Some(id) = entry.fresh() {
            return Ok(id);
        }
        let ask = || {
            let (entry, client) = (Arc::clone(&entry), client.clone());
            let (label, zone, server_type) = (label.to_owned(), zone.clone(), server_type.to_owned());
            let storage = storage.clone();
            async move {
                let id = client.marketplace().resolve_image(&label, &zone, &server_type, storage).await?;
                *entry.latest.lock() = Some((Instant::now(), id.clone()));
                Ok(id)
            }
        };
        entry.flight.join(ask).await
    }
}
