use super::list::{Paging, list, owned_by_default};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::location::Zone;
use crate::types::block::{BlockVolume, CreateBlockVolume, ListBlockVolumes, UpdateBlockVolume};

const VOLUMES: &str = "/block/v1/zones/{zone}/volumes";
const VOLUME: &str = "/block/v1/zones/{zone}/volumes/{volume_id}";

/// The Block Storage API v1 of one zone. A clone is cheap.
#[derive(Debug, Clone)]
pub struct BlockApi {
    client: Client,
    zone: Zone,
}

impl BlockApi {
    pub(crate) fn new(client: Client, zone: Zone) -> Self {
        Self { client, zone }
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    fn here(&self, call: Call) -> Call {
        call.with("zone", self.zone.as_str())
    }

    fn volume(&self, call: Call, volume_id: &str) -> Call {
        self.here(call).with("volume_id", volume_id)
    }

    /// Makes a volume. It is `creating` afterwards and `available` some seconds later.
    ///
    /// # Caveats
    /// When the answer is lost the volume may exist ([`Error::is_ambiguous`]).
    pub async fn create_volume(&self, request: &CreateBlockVolume) -> Result<BlockVolume, Error> {
        let mut request = request.clone();
        owned_by_default(&mut request.project_id, None, &self.client);
        let call = self.here(Call::post(VOLUMES)).json(&request)?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    pub async fn get_volume(&self, volume_id: &str) -> Result<BlockVolume, Error> {
        self.client.call_and(self.volume(Call::get(VOLUME), volume_id), |answer| answer.object(None)).await
    }

    /// All volumes that match; all pages. Scaleway takes volumes with *any* of the tags.
    pub async fn list_volumes(&self, request: &ListBlockVolumes) -> Result<Vec<BlockVolume>, Error> {
        let call = self
            .here(Call::get(VOLUMES))
            .query("order_by", "created_at_asc")
            .query_if("organization_id", request.organization_id.as_ref())
            .query_if("project_id", request.project_id.as_ref())
            .query_if("name", request.name.as_ref())
            .query_if("product_resource_id", request.product_resource_id.as_ref())
            .query_repeated("tags", &request.tags);
        list(&self.client, Paging::Body, call, "volumes").await
    }

    /// Changes what is set in the request: how volumes that came with a server get their tags, attached as they are
    /// (assumption: root-volume-taggable).
    pub async fn update_volume(&self, volume_id: &str, request: &UpdateBlockVolume) -> Result<BlockVolume, Error> {
        let call = self.volume(Call::patch(VOLUME), volume_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// Deletes a volume. What Scaleway answers while it is attached was never recorded; that it refuses is relied on
    /// (assumption: attached-volume-refused).
    pub async fn delete_volume(&self, volume_id: &str) -> Result<(), Error> {
        self.client.call_and(self.volume(Call::delete(VOLUME), volume_id), |answer| answer.nothing()).await
    }
}
