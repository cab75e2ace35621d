//! What a run would do, before it does anything.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_lifecycle::{Control, OwnerName};
use windlass_scaleway::types::instance::{ServerType, Stock};
use windlass_scaleway::types::marketplace::{ImageStorage, LocalImage};
use windlass_scaleway::{Client, Zone};

use crate::api::{Api, Stop};
use crate::probe::{Fixture, Probe};

/// Any current image does: nobody logs in.
const IMAGE: &str = "ubuntu_noble";
/// How long the catalogue is read at most.
const READING: Duration = Duration::from_secs(120);

/// Why there is no plan. Nothing was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The catalogue of the zone cannot be read.
    #[error("{what} cannot be read: {why}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// What happened.
        why: String,
    },
    /// It was called off.
    #[error("it was called off before anything was made")]
    CalledOff,
}

/// A server type that the run may use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerChoice {
    /// The type: `STARDUST1-S`.
    pub server_type: String,
    /// Scaleway's price in euro for an hour.
    pub hourly_price: f64,
    /// The image that fits it.
    #[serde(skip)]
    pub(crate) image: String,
}

/// What bounds a run.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The questions together.
    pub asking: Duration,
    /// The removal of everything.
    pub removing: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { asking: Duration::from_secs(20 * 60), removing: Duration::from_secs(10 * 60) }
    }
}

/// What a run makes, and what that costs at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Servers; one of them is started, for some minutes.
    pub servers: usize,
    /// Flexible IPv4 addresses, for some minutes.
    pub addresses: usize,
    /// Local volumes of 1 GB, for some minutes.
    pub local_volumes: usize,
    /// Block volumes of 10 GB each, root volumes included, for some minutes.
    pub block_volumes: usize,
    /// The price of all servers for one hour, in euro, by Scaleway's catalogue. What addresses and volumes cost does
    /// not stand there.
    pub servers_for_an_hour: f64,
}

/// A run that can begin.
#[derive(Debug)]
pub struct Plan {
    pub(crate) client: Client,
    pub(crate) bounds: Bounds,
    pub(crate) servers: Vec<ServerChoice>,
    pub(crate) probes: Vec<Probe>,
    pub(crate) owner: OwnerName,
    pub(crate) zone: Zone,
}

impl Plan {
    /// Plans a run of these probes: reads the zone's catalogue, changes nothing.
    ///
    /// # Errors
    /// When the catalogue cannot be read, or the run is called off.
    pub async fn make(
        client: Client,
        zone: Zone,
        probes: Vec<Probe>,
        bounds: Bounds,
        control: &Control,
    ) -> Result<Self, Error> {
        let api = Api::asking(client.clone(), zone.clone(), control.clone(), READING);
        let with_server = [Fixture::Server, Fixture::RunningServer, Fixture::SpareServer];
        let wants_server = probes.iter().any(|probe| probe.needs.iter().any(|need| with_server.contains(need)));
        let servers = if wants_server { catalogue(&api, &zone).await? } else { Vec::new() };
        Ok(Self { client, bounds, servers, probes, owner: run_owner(), zone })
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Who owns what the run makes: its own owner, whose tag everything carries.
    #[must_use]
    pub fn owner(&self) -> &OwnerName {
        &self.owner
    }

    /// The probes that will be asked, in order.
    #[must_use]
    pub fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The cheapest server type that there is, when one is needed and there is one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerChoice> {
        self.servers.first()
    }

    /// What it makes and costs.
    #[must_use]
    pub fn cost(&self) -> Cost {
        cost(&self.probes, self.servers.first().map_or(0.0, |choice| choice.hourly_price))
    }
}

/// A new owner: nobody else's resources carry its tag.
fn run_owner() -> OwnerName {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("conformance-{}", &unique[..20]).parse().expect("lower-case letters, digits and a dash, 32 bytes")
}

fn cost(probes: &[Probe], hourly_price: f64) -> Cost {
    let needs = || probes.iter().flat_map(|probe| probe.needs);
    let shared = |fixtures: &[Fixture]| usize::from(needs().any(|need| fixtures.contains(need)));
    let spare = |fixture: Fixture| needs().filter(|need| **need == fixture).count();
    let servers = shared(&[Fixture::Server, Fixture::RunningServer]) + spare(Fixture::SpareServer);
    Cost {
        servers,
        addresses: shared(&[Fixture::Address]) + spare(Fixture::SpareAddress),
        local_volumes: shared(&[Fixture::LocalVolume]),
        block_volumes: shared(&[Fixture::BlockVolume]) + servers,
        servers_for_an_hour: hourly_price * servers as f64,
    }
}

async fn catalogue(api: &Api, zone: &Zone) -> Result<Vec<ServerChoice>, Error> {
    let products = format!("/instance/v1/zones/{zone}/products/servers");
    let images = format!("image_label={IMAGE}&zone={zone}&type={}", ImageStorage::BlockStorage);
    let types = read(api, "the list of server types", &products, "", "per_page", "servers").await?;
    let availability = format!("{products}/availability");
    let stock = read(api, "the stock of server types", &availability, "", "per_page", "servers").await?;
    let releases = "/marketplace/v2/local-images";
    let images = read(api, "the list of images", releases, &images, "page_size", "local_images").await?;
    Ok(choose(types, &stock, images, zone))
}

async fn read(
    api: &Api,
    what: &'static str,
    path: &str,
    query: &str,
    size: &str,
    key: &str,
) -> Result<Vec<(String, Value)>, Error> {
    api.pages(path, query, size, key).await.map(|entries| entries.values).map_err(|stop| match stop {
        Stop::Ended => Error::CalledOff,
        other => Error::Unreadable { what, why: other.words() },
    })
}

/// The server types to use, the cheapest first; what is scarce comes after all that is not.
fn choose(
    types: Vec<(String, Value)>,
    stock: &[(String, Value)],
    images: Vec<(String, Value)>,
    zone: &Zone,
) -> Vec<ServerChoice> {
    let stock: BTreeMap<&str, Stock> = stock
        .iter()
        .map(|(name, entry)| (name.as_str(), Stock::from(entry["availability"].as_str().unwrap_or_default())))
        .collect();
    let images: Vec<LocalImage> =
        images.into_iter().filter_map(|(_, image)| serde_json::from_value(image).ok()).collect();
    let mut choices: Vec<(bool, ServerChoice)> = Vec::new();
    for (name, value) in types {
        let Ok(server_type) = serde_json::from_value::<ServerType>(value) else { continue };
        let scarce = match stock.get(name.as_str()) {
            Some(Stock::Available) => false,
            Some(Stock::Scarce) => true,
            _ => continue,
        };
        let fits = |image: &&LocalImage| {
            image.zone == zone.as_str()
                && image.storage == ImageStorage::BlockStorage
                && image.is_compatible_with(&name)
        };
        let Some(image) = images.iter().find(fits) else { continue };
        if server_type.hourly_price > 0.0 && server_type.gpu == 0 && !server_type.end_of_service {
            let (hourly_price, image) = (server_type.hourly_price, image.id.clone());
            choices.push((scarce, ServerChoice { server_type: name, hourly_price, image }));
        }
    }
    choices.sort_by(|(scarce, one), (other_scarce, other)| {
        scarce.cmp(other_scarce).then(one.hourly_price.total_cmp(&other.hourly_price))
    });
    choices.into_iter().map(|(_, choice)| choice).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cheapest_type_in_stock_that_an_image_fits_comes_first_and_scarce_ones_last() {
        let priced = |price: f64| json!({ "hourly_price": price });
        let types = vec![
            ("GONE".to_owned(), priced(0.001)),
            ("SCARCE".to_owned(), priced(0.002)),
            ("UNFIT".to_owned(), priced(0.003)),
            ("FREE".to_owned(), priced(0.0)),
            ("WITHDRAWN".to_owned(), json!({ "hourly_price": 0.004, "end_of_service": true })),
            ("DEAR".to_owned(), priced(0.3)),
            ("CHEAP".to_owned(), priced(0.005)),
        ];
        let stock: Vec<(String, Value)> = types
            .iter()
            .map(|(name, _)| {
                let availability = match name.as_str() {
                    "GONE" => "shortage",
                    "SCARCE" => "scarce",
                    _ => "available",
                };
                (name.clone(), json!({ "availability": availability }))
            })
            .collect();
        let fits = ["GONE", "SCARCE", "FREE", "WITHDRAWN", "DEAR", "CHEAP"];
        let image = json!({
            "id": "i", "zone": "fr-par-1", "type": "instance_sbs", "compatible_commercial_types": fits
        });
        let chosen = choose(types, &stock, vec![("i".to_owned(), image)], &"fr-par-1".parse().unwrap());
        let names: Vec<&str> = chosen.iter().map(|choice| choice.server_type.as_str()).collect();
        assert_eq!(names, ["CHEAP", "DEAR", "SCARCE"]);
    }

    #[test]
    fn what_probes_share_is_counted_once_and_a_spare_for_each() {
        let all = cost(Probe::all(), 0.01);
        assert_eq!((all.servers, all.addresses, all.local_volumes, all.block_volumes), (2, 4, 1, 3));
        assert!((all.servers_for_an_hour - 0.02).abs() < 1e-9);
        let none = cost(&[], 0.01);
        assert_eq!((none.servers, none.addresses, none.block_volumes), (0, 0, 0));
    }

    #[test]
    fn each_run_has_an_owner_of_its_own() {
        assert_ne!(run_owner(), run_owner());
    }
}
