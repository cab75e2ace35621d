use super::list::{Paging, list};
use crate::call::Call;
use crate::client::Client;
use crate::error::Error;
use crate::types::iam::Quotum;

/// The IAM API v1alpha1, of which only quotas are read. A clone is cheap.
#[derive(Debug, Clone)]
pub struct IamApi {
    client: Client,
}

impl IamApi {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Every quota of an organization; all pages. It needs a right that keys for machines hardly have: 403
    /// `permissions_denied` without.
    pub async fn list_quota(&self, organization_id: &str) -> Result<Vec<Quotum>, Error> {
        let call = Call::get("/iam/v1alpha1/quota").query("organization_id", organization_id);
        list(&self.client, Paging::Body, call, "quota").await
    }
}
