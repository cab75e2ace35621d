//! The server types of a zone that a run may use, by Scaleway's catalogue.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{ServerType, Stock};
use windlass_scaleway::types::marketplace::{ImageStorage, LocalImage};

use crate::api::{Api, Stop};

/// Any current image does: nobody logs in.
const IMAGE: &str = "ubuntu_noble";

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
    #[error("it was cancelled before anything was created")]
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

/// The server types to use, the cheapest first.
pub(crate) async fn catalogue(api: &Api, zone: &Zone) -> Result<Vec<ServerChoice>, Error> {
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
}
