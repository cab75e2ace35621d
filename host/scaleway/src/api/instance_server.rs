use bytes::Bytes;
use serde_json::json;

use super::InstanceApi;
use super::list::{Paging, list, owned_by_default};
use crate::call::Call;
use crate::error::Error;
use crate::types::instance::{
    AttachVolume, CreatePrivateNic, CreateServer, ListPrivateNics, ListServers, ListServersOrder, PrivateNic, Server,
    ServerAction, ServerActionRequest, ServerState, Task, UpdateServer,
};

const SERVERS: &str = "/instance/v1/zones/{zone}/servers";
const SERVER: &str = "/instance/v1/zones/{zone}/servers/{server_id}";
const ACTION: &str = "/instance/v1/zones/{zone}/servers/{server_id}/action";
const ATTACH_VOLUME: &str = "/instance/v1/zones/{zone}/servers/{server_id}/attach-volume";
const DETACH_VOLUME: &str = "/instance/v1/zones/{zone}/servers/{server_id}/detach-volume";
const USER_DATA: &str = "/instance/v1/zones/{zone}/servers/{server_id}/user_data";
const USER_DATA_KEY: &str = "/instance/v1/zones/{zone}/servers/{server_id}/user_data/{key}";
const PRIVATE_NICS: &str = "/instance/v1/zones/{zone}/servers/{server_id}/private_nics";
const PRIVATE_NIC: &str = "/instance/v1/zones/{zone}/servers/{server_id}/private_nics/{private_nic_id}";

/// Servers, their user data, volumes and private network interfaces.
impl InstanceApi {
    fn server(&self, call: Call, server_id: &str) -> Call {
        self.here(call).with("server_id", server_id)
    }

    /// Makes a server. It is `stopped` afterwards: set its user data, then power it on.
    ///
    /// # Caveats
    /// When the answer is lost the server may exist ([`Error::is_ambiguous`]): give it a unique tag, and look for the
    /// tag before you call again (assumption: listed-within-settle).
    pub async fn create_server(&self, request: &CreateServer) -> Result<Server, Error> {
        let mut request = request.clone();
        owned_by_default(&mut request.project, request.organization.as_ref(), &self.client);
        let call = self.here(Call::post(SERVERS)).json(&request)?;
        self.client.call_and(call, |answer| answer.object(Some("server"))).await
    }

    pub async fn get_server(&self, server_id: &str) -> Result<Server, Error> {
        let call = self.server(Call::get(SERVER), server_id);
        self.client.call_and(call, |answer| answer.object(Some("server"))).await
    }

    /// All servers that match; all pages.
    pub async fn list_servers(&self, request: &ListServers) -> Result<Vec<Server>, Error> {
        list(&self.client, Paging::Header, self.servers(request), "servers").await
    }

    /// How many servers match, in one call: what Scaleway counts (`X-Total-Count`), or, where it does not, at least so
    /// many.
    pub async fn count_servers(&self, request: &ListServers) -> Result<u64, Error> {
        let call = self.servers(request).query("per_page", "1").query("page", "1");
        self.client
            .call_and(call, |answer| {
                let first: Vec<Server> = answer.list("servers")?;
                Ok(answer.total_count.unwrap_or(first.len() as u64))
            })
            .await
    }

    fn servers(&self, request: &ListServers) -> Call {
        let order = request.order.as_ref().unwrap_or(&ListServersOrder::CreationDateAscending);
        self.here(Call::get(SERVERS))
            .query_if("organization", request.organization.as_ref())
            .query_if("project", request.project.as_ref())
            .query_if("name", request.name.as_ref())
            .query_if("commercial_type", request.commercial_type.as_ref())
            .query_if("state", request.state.as_ref().map(ServerState::as_str))
            .query_joined("tags", &request.tags)
            .query_if("private_network", request.private_network.as_ref())
            .query_joined("servers", &request.servers)
            .query("order", order.as_str())
    }

    /// Changes what is set in the request.
    pub async fn update_server(&self, server_id: &str, request: &UpdateServer) -> Result<Server, Error> {
        let call = self.server(Call::patch(SERVER), server_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(Some("server"))).await
    }

    /// Deletes a `stopped` server; its volumes and flexible addresses stay (recorded) (assumption:
    /// delete-leaves-parts). A running one is refused (assumption: running-delete-refused): use
    /// [`ServerAction::Terminate`].
    pub async fn delete_server(&self, server_id: &str) -> Result<(), Error> {
        self.client.call_and(self.server(Call::delete(SERVER), server_id), |answer| answer.nothing()).await
    }

    /// Tells a server to do something: `server_action(id, ServerAction::PowerOn)`.
    ///
    /// The task in the answer is a fake one; read the server to see how far it is: one that was asked to start is seen
    /// to (assumption: action-takes-effect).
    pub async fn server_action(&self, server_id: &str, request: impl Into<ServerActionRequest>) -> Result<Task, Error> {
        let call = self.server(Call::post(ACTION), server_id).json(&request.into())?;
        self.client.call_and(call, |answer| answer.field("task")).await
    }

    /// The actions that the server accepts now.
    pub async fn list_server_actions(&self, server_id: &str) -> Result<Vec<ServerAction>, Error> {
        self.client.call_and(self.server(Call::get(ACTION), server_id), |answer| answer.field("actions")).await
    }

    /// Attaches a volume; the answer is the server.
    pub async fn attach_server_volume(&self, server_id: &str, request: &AttachVolume) -> Result<Server, Error> {
        let call = self.server(Call::post(ATTACH_VOLUME), server_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(Some("server"))).await
    }

    /// Detaches a volume; the answer is the server. The volume survives, whether the server stands still
    /// (assumption: detached-from-stopped) or runs (assumption: detached-from-running).
    pub async fn detach_server_volume(&self, server_id: &str, volume_id: &str) -> Result<Server, Error> {
        let call = self.server(Call::post(DETACH_VOLUME), server_id).json(&json!({ "volume_id": volume_id }))?;
        self.client.call_and(call, |answer| answer.object(Some("server"))).await
    }

    /// The keys of the server's user data.
    pub async fn list_server_user_data(&self, server_id: &str) -> Result<Vec<String>, Error> {
        self.client.call_and(self.server(Call::get(USER_DATA), server_id), |answer| answer.field("user_data")).await
    }

    /// One value of the server's user data, as it was set. It may hold secrets: not for logs.
    ///
    /// # Errors
    /// A key that is not there is [`is_not_found`](Error::is_not_found); Scaleway answers it with an empty 404
    /// (recorded), and a server that is not there with a typed one.
    pub async fn get_server_user_data(&self, server_id: &str, key: &str) -> Result<Bytes, Error> {
        let call = self.server(Call::get(USER_DATA_KEY), server_id).with("key", key);
        Ok(self.client.call(call).await?.body)
    }

    /// Sets one value of the server's user data: `cloud-init` is read at the first boot.
    ///
    /// A server that boots without its cloud-init looks healthy. So any success but the recorded one (204, empty) is
    /// believed only when the value, read back, is the one that was sent. (assumption: user-data-answers)
    pub async fn set_server_user_data(&self, server_id: &str, key: &str, value: impl Into<Bytes>) -> Result<(), Error> {
        let value: Bytes = value.into();
        let call = self.server(Call::patch(USER_DATA_KEY), server_id).with("key", key).text(value.clone());
        let answer = self.client.call(call).await?;
        if answer.status == 204 && answer.body.is_empty() {
            return Ok(());
        }
        let problem = match self.get_server_user_data(server_id, key).await {
            Ok(kept) if kept == value => return Ok(()),
            Ok(_) => "it is not the known one, and read back the value is another".to_owned(),
            Err(error) => format!("it is not the known one, and the value cannot be read back: {error}"),
        };
        Err(self.client.without_secret_in(answer.malformed(problem)))
    }

    /// Removes one value of the server's user data.
    pub async fn delete_server_user_data(&self, server_id: &str, key: &str) -> Result<(), Error> {
        self.client.call(self.server(Call::delete(USER_DATA_KEY), server_id).with("key", key)).await?;
        Ok(())
    }

    /// Connects a server to a private network.
    pub async fn create_private_nic(&self, server_id: &str, request: &CreatePrivateNic) -> Result<PrivateNic, Error> {
        let call = self.server(Call::post(PRIVATE_NICS), server_id).json(request)?;
        self.client.call_and(call, |answer| answer.object(Some("private_nic"))).await
    }

    /// One interface of a server.
    pub async fn get_private_nic(&self, server_id: &str, private_nic_id: &str) -> Result<PrivateNic, Error> {
        let call = self.server(Call::get(PRIVATE_NIC), server_id).with("private_nic_id", private_nic_id);
        self.client.call_and(call, |answer| answer.object(Some("private_nic"))).await
    }

    /// All interfaces of a server that match; all pages.
    pub async fn list_private_nics(
        &self,
        server_id: &str,
        request: &ListPrivateNics,
    ) -> Result<Vec<PrivateNic>, Error> {
        let call = self.server(Call::get(PRIVATE_NICS), server_id).query_joined("tags", &request.tags);
        list(&self.client, Paging::Header, call, "private_nics").await
    }

    /// Disconnects a server from a private network.
    pub async fn delete_private_nic(&self, server_id: &str, private_nic_id: &str) -> Result<(), Error> {
        let call = self.server(Call::delete(PRIVATE_NIC), server_id).with("private_nic_id", private_nic_id);
        self.client.call(call).await?;
        Ok(())
    }
}
