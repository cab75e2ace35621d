use super::list::{Paging, list};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::location::Zone;
use crate::types::marketplace::{ImageStorage, LocalImage, MarketplaceImage};

/// How many server types an error about an image names.
const NAMED_TYPES: usize = 12;

/// The Marketplace API v2. A clone is cheap.
#[derive(Debug, Clone)]
pub struct MarketplaceApi {
    client: Client,
}

impl MarketplaceApi {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// All images of the marketplace; all pages. Those whose support has ended are left out, as the SDK does it
    /// (assumption: marketplace-images).
    pub async fn images(&self) -> Result<Vec<MarketplaceImage>, Error> {
        list(&self.client, Paging::Body, Call::get("/marketplace/v2/images"), "images").await
    }

    /// The releases of an image by its label (`ubuntu_noble`), in one zone or all, for one kind of storage or all.
    ///
    /// # Errors
    /// An unknown label is [`is_not_found`](Error::is_not_found), with the label as resource id (recorded).
    pub async fn local_images(
        &self,
        label: &str,
        zone: Option<&Zone>,
        storage: Option<&ImageStorage>,
    ) -> Result<Vec<LocalImage>, Error> {
        let call = Call::get("/marketplace/v2/local-images")
            .query("image_label", label)
            .query_if("zone", zone.map(Zone::as_str))
            .query_if("type", storage.map(ImageStorage::as_str))
            .query("order_by", "type_asc");
        list(&self.client, Paging::Body, call, "local_images").await
    }

    /// The id of the image to create a server of this type with: the first release whose compatible types hold it, as
    /// the SDK chooses. The id changes with every release of the image: resolve it each time.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) for an unknown label; [`Error::IncompatibleImage`] when no release fits.
    pub async fn resolve_image(
        &self,
        label: &str,
        zone: &Zone,
        commercial_type: &str,
        storage: ImageStorage,
    ) -> Result<String, Error> {
        let releases = self.local_images(label, Some(zone), Some(&storage)).await?;
        // Asked for, and looked at again: a wrong image is found out only when the server does not boot.
        let fits = |release: &&LocalImage| {
            release.zone == zone.as_str() && release.storage == storage && release.is_compatible_with(commercial_type)
        };
        match releases.iter().find(fits) {
            Some(release) => Ok(release.id.clone()),
            None => Err(Error::IncompatibleImage {
                label: label.to_owned(),
                storage: storage.to_string(),
                commercial_type: commercial_type.to_owned(),
                zone: zone.to_string(),
                compatible: named_types(&releases),
            }),
        }
    }
}

fn named_types(releases: &[LocalImage]) -> String {
    let mut types: Vec<&str> =
        releases.iter().flat_map(|release| &release.compatible_commercial_types).map(String::as_str).collect();
    types.sort_unstable();
    types.dedup();
    match types.len() {
        0 => "none".to_owned(),
        count if count <= NAMED_TYPES => types.join(", "),
        count => format!("{} and {} more", types[..NAMED_TYPES].join(", "), count - NAMED_TYPES),
    }
}
