//! One file per API, one method per call, named as in Scaleway's SDK. Every method sends one call (lists: one per page)
//! and fails with [`Error`].

mod apple_silicon;
mod block;
mod iam;
mod instance;
mod instance_ip;
mod instance_server;
mod instance_volume;
mod ipam;
mod list;
mod marketplace;

use crate::client::Client;
use crate::error::Error;
use crate::location::{Region, Zone};

pub use apple_silicon::AppleSiliconApi;
pub use block::BlockApi;
pub use iam::IamApi;
pub use instance::InstanceApi;
pub use ipam::IpamApi;
pub use marketplace::MarketplaceApi;

impl Client {
    /// Servers, addresses, local volumes, private network interfaces, images and groups of a zone.
    pub fn instance(&self, zone: &Zone) -> InstanceApi {
        InstanceApi::new(self.clone(), zone.clone())
    }

    /// What each server type costs for an hour in a zone, in euro, by its catalogue; nothing of a text that is no zone.
    pub async fn hourly_prices(&self, zone: &str) -> Result<Vec<(String, f64)>, Error> {
        let Ok(zone) = zone.parse() else { return Ok(Vec::new()) };
        let types = self.instance(&zone).list_server_types().await?;
        Ok(types.into_iter().map(|(name, server_type)| (name, server_type.hourly_price)).collect())
    }

    /// Block Storage volumes of a zone.
    pub fn block(&self, zone: &Zone) -> BlockApi {
        BlockApi::new(self.clone(), zone.clone())
    }

    /// Macs of a zone.
    pub fn apple_silicon(&self, zone: &Zone) -> AppleSiliconApi {
        AppleSiliconApi::new(self.clone(), zone.clone())
    }

    /// Images by label.
    pub fn marketplace(&self) -> MarketplaceApi {
        MarketplaceApi::new(self.clone())
    }

    /// Quotas of an organization.
    pub fn iam(&self) -> IamApi {
        IamApi::new(self.clone())
    }

    /// Private addresses of a region.
    pub fn ipam(&self, region: &Region) -> IpamApi {
        IpamApi::new(self.clone(), region.clone())
    }
}
