use super::InstanceApi;
use super::list::{Paging, list, owned_by_default};
use crate::call::Call;
use crate::error::Error;
use crate::types::instance::{CreateVolume, ListVolumes, UpdateVolume, Volume, VolumeType};

const VOLUMES: &str = "/instance/v1/zones/{zone}/volumes";
const VOLUME: &str = "/instance/v1/zones/{zone}/volumes/{volume_id}";

/// Local volumes (`l_ssd`, `scratch`). A Block Storage volume is not found here (recorded): see
/// [`BlockApi`](crate::BlockApi).
impl InstanceApi {
    fn volume(&self, call: Call, volume_id: &str) -> Call {
        self.here(call).with("volume_id", volume_id)
    }

    /// Makes a volume.
    ///
    /// # Caveats
    /// When the answer is lost the volume may exist ([`Error::is_ambiguous`]).
    pub async fn create_volume(&self, request: &CreateVolume) -> Result<Volume, Error> {
        let mut request = request.clone();
        owned_by_default(&mut request.project, request.organization.as_ref(), &self.client);
        let call = self.here(Call::post(VOLUMES)).json(&request)?;
        self.client.call_and(call, |answer| answer.object(Some("volume"))).await
    }

    pub async fn get_volume(&self, volume_id: &str) -> Result<Volume, Error> {
        self.client.call_and(self.volume(Call::get(VOLUME), volume_id), |answer| answer.object(Some("volume"))).await
    }

    /// All volumes that match; all pages.
    pub async fn list_volumes(&self, request: &ListVolumes) -> Result<Vec<Volume>, Error> {
        let call = self
            .here(Call::get(VOLUMES))
            .query_if("volume_type", request.volume_type.as_ref().map(VolumeType::as_str))
            .query_if("organization", request.organization.as_ref())
            .query_if("project", request.project.as_ref())
            .query_joined("tags", &request.tags)
            .query_if("name", request.name.as_ref());
        list(&self.client, Paging::Header, call, "volumes").await
    }

    /// Changes what is set in the request.
    pub async fn update_volume(&self, volume_id: &str, request: &UpdateVolume) -> Result<Volume, Error> {
        let call = self.volume(Call::patch(VOLUME), volume_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(Some("volume"))).await
    }

    pub async fn delete_volume(&self, volume_id: &str) -> Result<(), Error> {
        self.client.call_and(self.volume(Call::delete(VOLUME), volume_id), |answer| answer.nothing()).await
    }
}
