//! Image labels, resolved once for everybody who asks at about the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_scaleway::types::marketplace::ImageStorage;
use windlass_scaleway::{Client, Error, Zone};

/// How long an answer serves. The id changes with each release of an image, every few weeks; the old one keeps working.
const FRESH: Duration = Duration::from_secs(300);

type Key = (String, String, String, String);
type Entry = Arc<tokio::sync::Mutex<Option<(Instant, String)>>>;

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Images(Mutex<BTreeMap<Key, Entry>>);

impl Images {
    /// The id of an image. One caller asks, those who come meanwhile wait for its answer; a failure is nobody's but
    /// the caller's.
    pub(crate) async fn resolve(
        &self,
        client: &Client,
        label: &str,
        zone: &Zone,
        server_type: &str,
        storage: ImageStorage,
    ) -> Result<String, Error> {
        let key = (label.to_owned(), zone.to_string(), server_type.to_owned(), storage.to_string());
        let entry = Arc::clone(self.0.lock().entry(key).or_default());
        let mut entry = entry.lock().await;
        if let Some((at, id)) = &*entry
            && at.elapsed() < FRESH
        {
            return Ok(id.clone());
        }
        let id = client.marketplace().resolve_image(label, zone, server_type, storage).await?;
        *entry = Some((Instant::now(), id.clone()));
        Ok(id)
    }
}
