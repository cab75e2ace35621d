use super::list::{Paging, list};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::location::Region;
use crate::types::ipam::{IpamIp, ListIpamIps};

/// The IPAM API v1 of one region, read only. A clone is cheap.
#[derive(Debug, Clone)]
pub struct IpamApi {
    client: Client,
    region: Region,
}

impl IpamApi {
    pub(crate) fn new(client: Client, region: Region) -> Self {
        Self { client, region }
    }

    /// One address.
    pub async fn get_ip(&self, ip_id: &str) -> Result<IpamIp, Error> {
        let call = Call::get("/ipam/v1/regions/{region}/ips/{ip_id}")
            .with("region", self.region.as_str())
            .with("ip_id", ip_id);
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// All addresses that match; all pages. The addresses of a server's interface: `resource_type`
    /// `instance_private_nic` and the interface's id.
    pub async fn list_ips(&self, request: &ListIpamIps) -> Result<Vec<IpamIp>, Error> {
        let call = Call::get("/ipam/v1/regions/{region}/ips")
            .with("region", self.region.as_str())
            .query_if("project_id", request.project_id.as_ref())
            .query_if("private_network_id", request.private_network_id.as_ref())
            .query_if("resource_type", request.resource_type.as_ref())
            .query_if("resource_id", request.resource_id.as_ref())
            .query_if("mac_address", request.mac_address.as_ref())
            .query_repeated("ip_ids", &request.ip_ids)
            .query_repeated("tags", &request.tags);
        list(&self.client, Paging::Body, call, "ips").await
    }
}
