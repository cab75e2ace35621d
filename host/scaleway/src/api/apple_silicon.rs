use serde_json::json;

use super::list::{Paging, list, owned_by_default};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::location::Zone;
use crate::types::apple_silicon::{
    CreateServer, ListOperatingSystems, ListServers, ListServersOrder, OperatingSystem, ReinstallServer, Server,
    ServerType, UpdateServer,
};

const SERVERS: &str = "/apple-silicon/v1alpha1/zones/{zone}/servers";
const SERVER: &str = "/apple-silicon/v1alpha1/zones/{zone}/servers/{server_id}";
const REBOOT: &str = "/apple-silicon/v1alpha1/zones/{zone}/servers/{server_id}/reboot";
const REINSTALL: &str = "/apple-silicon/v1alpha1/zones/{zone}/servers/{server_id}/reinstall";
const SYSTEMS: &str = "/apple-silicon/v1alpha1/zones/{zone}/os";
const SYSTEM: &str = "/apple-silicon/v1alpha1/zones/{zone}/os/{os_id}";
const SERVER_TYPES: &str = "/apple-silicon/v1alpha1/zones/{zone}/server-types";
// Singular, unlike its list (SDK).
const SERVER_TYPE: &str = "/apple-silicon/v1alpha1/zones/{zone}/server-type/{server_type}";

/// The Apple silicon API v1alpha1 of one zone: Macs. A clone is cheap.
///
/// # What is different here
/// - A host that is not there is answered 403 `permissions_denied`, never 404 (recorded 30 of 30): ask
///   [`Error::is_gone_or_not_ours`].
/// - A host cannot be deleted before its [`deletable_at`](Server::deletable_at), a day or more after its creation: 412,
///   class [`PreconditionFailed`](crate::ErrorClass::PreconditionFailed), with [`Error::not_before`] where Scaleway
///   says until when.
/// - Hosts have no tags that could be set. Only the name tells whose one is, and the last writer of a name wins.
/// - The passwords come with [`get_server`](Self::get_server) alone; every other recorded answer seals them.
#[derive(Debug, Clone)]
pub struct AppleSiliconApi {
    client: Client,
    zone: Zone,
}

impl AppleSiliconApi {
    pub(crate) fn new(client: Client, zone: Zone) -> Self {
        Self { client, zone }
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    fn here(&self, call: Call) -> Call {
        call.with("zone", self.zone.as_str())
    }

    fn server(&self, call: Call, server_id: &str) -> Call {
        self.here(call).with("server_id", server_id)
    }

    /// Orders a host. It is `starting` afterwards and `ready` half a minute to three minutes later (recorded).
    ///
    /// # Caveats
    /// It costs a day at least. When the answer is lost the host may exist ([`Error::is_ambiguous`]): look for its
    /// unique name in the list before you order again.
    pub async fn create_server(&self, request: &CreateServer) -> Result<Server, Error> {
        let mut request = request.clone();
        owned_by_default(&mut request.project_id, None, &self.client);
        let call = self.here(Call::post(SERVERS)).json(&request)?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// One host, with its passwords.
    pub async fn get_server(&self, server_id: &str) -> Result<Server, Error> {
        self.client.call_and(self.server(Call::get(SERVER), server_id), |answer| answer.object(None)).await
    }

    /// All hosts of the zone that match; all pages. Complete only as far as the key's rights go
    /// (assumption: mac-listing-complete).
    pub async fn list_servers(&self, request: &ListServers) -> Result<Vec<Server>, Error> {
        let order = request.order.as_ref().unwrap_or(&ListServersOrder::CreatedAtAscending);
        let call = self
            .here(Call::get(SERVERS))
            .query("order_by", order.as_str())
            .query_if("project_id", request.project_id.as_ref())
            .query_if("organization_id", request.organization_id.as_ref());
        list(&self.client, Paging::Body, call, "servers").await
    }

    /// Changes what is set in the request: the name, a scheduled deletion, the commitment.
    pub async fn update_server(&self, server_id: &str, request: &UpdateServer) -> Result<Server, Error> {
        let call = self.server(Call::patch(SERVER), server_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// Gives a host back, for good. Refused with 412 before its [`deletable_at`](Server::deletable_at).
    pub async fn delete_server(&self, server_id: &str) -> Result<(), Error> {
        self.client.call(self.server(Call::delete(SERVER), server_id)).await?;
        Ok(())
    }

    /// Restarts a host: about two minutes (recorded).
    pub async fn reboot_server(&self, server_id: &str) -> Result<Server, Error> {
        let call = self.server(Call::post(REBOOT), server_id).json(&json!({}))?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// Wipes a host's disk and installs it anew. Everything on it is lost, and its passwords change. Once it is
    /// answered, the host is `reinstalling` (assumption: mac-reinstall-shows). A host that is busy refuses (assumption:
    /// mac-busy-answer).
    pub async fn reinstall_server(&self, server_id: &str, request: &ReinstallServer) -> Result<Server, Error> {
        let call = self.server(Call::post(REINSTALL), server_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// The operating systems that match; all pages.
    pub async fn list_os(&self, request: &ListOperatingSystems) -> Result<Vec<OperatingSystem>, Error> {
        let call = self
            .here(Call::get(SYSTEMS))
            .query_if("server_type", request.server_type.as_ref())
            .query_if("name", request.name.as_ref());
        list(&self.client, Paging::Body, call, "os").await
    }

    pub async fn get_os(&self, os_id: &str) -> Result<OperatingSystem, Error> {
        let call = self.here(Call::get(SYSTEM)).with("os_id", os_id);
        self.client.call_and(call, |answer| answer.object(None)).await
    }

    /// What types of hosts there are and how many are left of each. Not paged (SDK).
    pub async fn list_server_types(&self) -> Result<Vec<ServerType>, Error> {
        self.client.call_and(self.here(Call::get(SERVER_TYPES)), |answer| answer.unpaged_list("server_types")).await
    }

    /// One type of host, by its name.
    pub async fn get_server_type(&self, server_type: &str) -> Result<ServerType, Error> {
        let call = self.here(Call::get(SERVER_TYPE)).with("server_type", server_type);
        self.client.call_and(call, |answer| answer.object(None)).await
    }
}
