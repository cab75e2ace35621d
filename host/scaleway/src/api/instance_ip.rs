use super::InstanceApi;
use super::list::{Paging, list, owned_by_default};
use crate::call::Call;
use crate::error::{Error, ErrorClass};
use crate::types::instance::{CreateIp, Ip, IpType, ListIps, UpdateIp};

const IPS: &str = "/instance/v1/zones/{zone}/ips";
const IP: &str = "/instance/v1/zones/{zone}/ips/{ip}";

/// Flexible addresses. Where a method takes an id, Scaleway takes the address as well (SDK).
impl InstanceApi {
    fn ip(&self, call: Call, ip: &str) -> Call {
        self.here(call).with("ip", ip)
    }

    /// Reserves an address.
    ///
    /// # Caveats
    /// When the answer is lost the address may exist ([`Error::is_ambiguous`]): give it a unique tag, and look for the
    /// tag before you call again.
    pub async fn create_ip(&self, request: &CreateIp) -> Result<Ip, Error> {
        let mut request = request.clone();
        owned_by_default(&mut request.project, request.organization.as_ref(), &self.client);
        let call = self.here(Call::post(IPS)).json(&request)?;
        self.client.call_and(call, |answer| answer.object(Some("ip"))).await
    }

    /// One address.
    ///
    /// # Errors
    /// An address that is gone, or another's, is [`is_not_found`](Error::is_not_found): 404 today; in older recordings
    /// 403, which is what a key without the right is reported as well. So a 403 counts as *not found* only when the
    /// addresses can be listed and this one is not among them. The same holds for [`update_ip`](Self::update_ip) and
    /// [`delete_ip`](Self::delete_ip). (assumption: gone-address-answers)
    pub async fn get_ip(&self, ip: &str) -> Result<Ip, Error> {
        let got = self.client.call_and(self.ip(Call::get(IP), ip), |answer| answer.object(Some("ip"))).await;
        self.gone_or_denied(ip, got).await
    }

    /// Tells, where a call on one address was denied, whether that is because there is none.
    async fn gone_or_denied<T>(&self, ip: &str, answer: Result<T, Error>) -> Result<T, Error> {
        let mut denied = match answer {
            Err(Error::Api(error)) if error.class == ErrorClass::PermissionDenied => error,
            other => return other,
        };
        if let Ok(known) = self.list_ips(&ListIps::default()).await
            && !known.iter().any(|known| known.id == ip || known.address.as_deref() == Some(ip))
        {
            denied.class = ErrorClass::NotFound;
        }
        Err(Error::Api(denied))
    }

    /// All addresses that match; all pages.
    pub async fn list_ips(&self, request: &ListIps) -> Result<Vec<Ip>, Error> {
        let call = self
            .here(Call::get(IPS))
            .query_if("organization", request.organization.as_ref())
            .query_if("project", request.project.as_ref())
            .query_joined("tags", &request.tags)
            .query_if("name", request.name.as_ref())
            .query_if("type", request.ip_type.as_ref().map(IpType::as_str));
        list(&self.client, Paging::Header, call, "ips").await
    }

    /// Changes what is set in the request; attaches and detaches.
    pub async fn update_ip(&self, ip: &str, request: &UpdateIp) -> Result<Ip, Error> {
        let call = self.ip(Call::patch(IP), ip).json(request)?;
        let updated = self.client.call_and(call, |answer| answer.object(Some("ip"))).await;
        self.gone_or_denied(ip, updated).await
    }

    /// Gives an address back. That Scaleway accepts it while a server uses the address was not recorded
    /// (assumption: attached-address-deletable).
    pub async fn delete_ip(&self, ip: &str) -> Result<(), Error> {
        let deleted = self.client.call_and(self.ip(Call::delete(IP), ip), |answer| answer.nothing()).await;
        self.gone_or_denied(ip, deleted).await
    }
}
