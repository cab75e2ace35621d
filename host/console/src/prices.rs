//! What a server of a type costs for an hour, as Scaleway's catalogue says. The console asks nobody: whoever has the
//! catalogue tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

/// Zones at most: there are ten.
const MAX_ZONES: usize = 64;
/// How often it is looked whether a page wants the prices of a zone, and how long after a failure.
const INTERVAL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(60);

/// The prices of a catalogue, zone by zone. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    known: Arc<RwLock<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// By zone and type, in euro for an hour.
    hourly: BTreeMap<String, BTreeMap<String, f64>>,
    /// Zones that pages have asked for.
    wanted: BTreeSet<String>,
}

impl Prices {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The zones whose prices pages have asked for and do not have.
    #[must_use]
    pub fn wanted(&self) -> Vec<String> {
        let known = self.known.read();
        known.wanted.iter().filter(|zone| !known.hourly.contains_key(*zone)).cloned().collect()
    }

    /// The prices of a zone: server types with what they cost for an hour, in euro.
    pub fn set(&self, zone: &str, hourly: impl IntoIterator<Item = (String, f64)>) {
        let hourly = hourly.into_iter().filter(|(_, price)| price.is_finite() && *price >= 0.0).collect();
        self.known.write().hourly.insert(zone.to_owned(), hourly);
    }

    /// Asks for the prices of each zone that a page wants, once, and after a failure again a minute later; until no
    /// console holds these any more. `ask` is given a zone, and answers with server types and what they cost for an
    /// hour.
    pub async fn keep<F, E>(self, ask: impl Fn(String) -> F)
    where
        F: Future<Output = Result<Vec<(String, f64)>, E>>,
        E: std::error::Error + 'static,
    {
        while Arc::strong_count(&self.known) > 1 {
            let mut pause = INTERVAL;
            for zone in self.wanted() {
                match ask(zone.clone()).await {
                    Ok(hourly) => self.set(&zone, hourly),
                    Err(error) => {
                        tracing::warn!(zone, error = &error as &dyn std::error::Error, "no prices from the catalogue");
                        pause = PAUSE;
                    }
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// How many zones' prices are known.
    pub(crate) fn zones(&self) -> usize {
        self.known.read().hourly.len()
    }

    /// What a server of this type costs for an hour.
    pub(crate) fn hourly(&self, zone: &str, server_type: &str) -> Option<f64> {
        let price = {
            let known = self.known.read();
            match known.hourly.get(zone) {
                Some(types) => return types.get(server_type).copied(),
                None if known.wanted.contains(zone) => return None,
                None => None,
            }
        };
        let mut known = self.known.write();
        if known.wanted.len() < MAX_ZONES {
            known.wanted.insert(zone.to_owned());
        }
        price
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_pages_ask_for_is_wanted_until_its_prices_are_there() {
        let prices = Prices::new();
        assert!(prices.wanted().is_empty());
        assert_eq!(prices.hourly("fr-par-1", "DEV1-S"), None);
        assert_eq!(prices.clone().wanted(), ["fr-par-1"]);
        prices.set("fr-par-1", [("DEV1-S".to_owned(), 0.0088), ("BROKEN".to_owned(), f64::NAN)]);
        assert!(prices.wanted().is_empty());
        assert_eq!(prices.hourly("fr-par-1", "DEV1-S"), Some(0.0088));
        assert_eq!((prices.hourly("fr-par-1", "BROKEN"), prices.hourly("fr-par-1", "MISSING")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_zone_is_asked_for_once_after_a_failure_a_minute_later_and_nothing_when_the_console_is_gone() {
        let prices = Prices::new();
        let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (began, kept) = (tokio::time::Instant::now(), Arc::clone(&asked));
        let keeping = tokio::spawn(prices.clone().keep(move |zone| {
            let mut asked = kept.lock();
            asked.push((zone, began.elapsed().as_secs()));
            let answer = match asked.len() {
                1 => Err(std::io::Error::other("no answer")),
                _ => Ok(vec![("DEV1-S".to_owned(), 0.0088)]),
            };
            std::future::ready(answer)
        }));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(asked.lock().is_empty(), "no page has asked");
        assert_eq!(prices.hourly("fr-par-1", "DEV1-S"), None);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(prices.hourly("fr-par-1", "DEV1-S"), Some(0.0088));
        let times: Vec<u64> = asked.lock().iter().map(|(_, at)| *at).collect();
        assert!(times.len() == 2 && times[1] - times[0] == 60, "{times:?}");
        drop(prices);
        keeping.await.unwrap();
    }
}
