use std::collections::BTreeMap;

use serde::Deserialize;

use super::list::{Paging, list, map};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::location::Zone;
use crate::types::instance::{Architecture, Image, ListImages, PlacementGroup, SecurityGroup, ServerType, Stock};

/// The Instance API v1 of one zone. A clone is cheap.
#[derive(Debug, Clone)]
pub struct InstanceApi {
    pub(super) client: Client,
    zone: Zone,
}

impl InstanceApi {
    pub(crate) fn new(client: Client, zone: Zone) -> Self {
        Self { client, zone }
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Every path of this API begins with the zone.
    pub(super) fn here(&self, call: Call) -> Call {
        call.with("zone", self.zone.as_str())
    }

    /// What server types there are, by name; all pages.
    pub async fn list_server_types(&self) -> Result<BTreeMap<String, ServerType>, Error> {
        let call = self.here(Call::get("/instance/v1/zones/{zone}/products/servers"));
        map(&self.client, Paging::Header, call, "servers").await
    }

    /// Current stock per server type, by name; all pages.
    pub async fn server_type_availability(&self) -> Result<BTreeMap<String, Stock>, Error> {
        #[derive(Deserialize)]
        struct Availability {
            #[serde(default)]
            availability: Stock,
        }
        let call = self.here(Call::get("/instance/v1/zones/{zone}/products/servers/availability"));
        let all: BTreeMap<String, Availability> = map(&self.client, Paging::Header, call, "servers").await?;
        Ok(all.into_iter().map(|(name, entry)| (name, entry.availability)).collect())
    }

    pub async fn get_image(&self, image_id: &str) -> Result<Image, Error> {
        let call = self.here(Call::get("/instance/v1/zones/{zone}/images/{image_id}")).with("image_id", image_id);
        self.client.call_and(call, |answer| answer.object(Some("image"))).await
    }

    /// All images that match; all pages. Filter again: the list was never recorded (assumption: own-image-listing).
    pub async fn list_images(&self, request: &ListImages) -> Result<Vec<Image>, Error> {
        let call = self
            .here(Call::get("/instance/v1/zones/{zone}/images"))
            .query_if("project", request.project.as_ref())
            .query_if("public", request.public.map(|public| if public { "true" } else { "false" }))
            .query_if("arch", request.arch.as_ref().map(Architecture::as_str));
        list(&self.client, Paging::Header, call, "images").await
    }

    pub async fn get_security_group(&self, security_group_id: &str) -> Result<SecurityGroup, Error> {
        let call = self
            .here(Call::get("/instance/v1/zones/{zone}/security_groups/{security_group_id}"))
            .with("security_group_id", security_group_id);
        self.client.call_and(call, |answer| answer.object(Some("security_group"))).await
    }

    pub async fn get_placement_group(&self, placement_group_id: &str) -> Result<PlacementGroup, Error> {
        let call = self
            .here(Call::get("/instance/v1/zones/{zone}/placement_groups/{placement_group_id}"))
            .with("placement_group_id", placement_group_id);
        self.client.call_and(call, |answer| answer.object(Some("placement_group"))).await
    }
}
