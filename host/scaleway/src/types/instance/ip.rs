use serde::{Deserialize, Serialize};

use super::Reference;
use crate::types::Patch;
use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// The kind of a flexible address. `nat` addresses are gone.
    pub enum IpType {
        /// One IPv4 address.
        RoutedIpv4 = "routed_ipv4",
        /// An IPv6 prefix of 64 bits.
        RoutedIpv6 = "routed_ipv6",
    }
}

words! {
    /// Whether a flexible address serves a server.
    pub enum IpState {
        /// Free.
        Detached = "detached",
        /// Serves a server. May still say so right after that server was terminated (recorded once).
        Attached = "attached",
        /// On its way.
        Pending = "pending",
        /// Scaleway failed to attach it.
        Error = "error",
    }
}

answers! {
    /// A flexible public address. It outlives its server in every case (recorded). One that was deleted is not there
    /// (assumption: gone-address-answers).
    pub struct Ip {
        /// UUID.
        pub id: String,
        /// The IPv4 address; `None` for an IPv6 prefix.
        pub address: Option<String>,
        /// The IPv6 prefix: `2001:db8:1:2::/64`; `None` for IPv4.
        pub prefix: Option<String>,
        /// Reverse DNS name.
        pub reverse: Option<String>,
        /// The server it serves.
        pub server: Option<Reference>,
        pub organization: String,
        pub project: String,
        /// Its kind.
        #[serde(rename = "type")]
        pub ip_type: IpType,
        /// Whether it serves a server.
        pub state: IpState,
        pub tags: Vec<String>,
        /// Its id at the IPAM API.
        pub ipam_id: String,
        pub zone: String,
    }
}

impl Ip {
    /// Whether it carries every one of these tags. See [`has_all_tags`](crate::has_all_tags).
    pub fn has_all_tags<W: AsRef<str>>(&self, wanted: &[W]) -> bool {
        crate::types::tags::has_all_tags(&self.tags, wanted)
    }
}

/// Body of `POST /ips`.
///
/// When neither `project` nor `organization` is given, the client fills in the configured default project.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreateIp {
    /// Project to own it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Organization to own it; deprecated at Scaleway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its kind; absent is `routed_ipv4` (recorded).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub ip_type: Option<IpType>,
    /// Server to attach it to at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// Body of `PATCH /ips/{id}`: only what is set changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateIp {
    /// Reverse DNS name; must resolve to the address.
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub reverse: Patch<String>,
    /// The whole new set of tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// The server to attach to, or to detach from with [`Patch::Clear`].
    #[serde(skip_serializing_if = "Patch::is_keep")]
    pub server: Patch<String>,
}

/// What to list of a zone's flexible addresses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListIps {
    /// Only of this organization.
    pub organization: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only with these tags, joined by commas as the SDK does. Filter again with [`Ip::has_all_tags`].
    /// (assumption: tag-filter-addresses)
    pub tags: Vec<String>,
    /// Only with this text in the address.
    pub name: Option<String>,
    /// Only of this kind.
    pub ip_type: Option<IpType>,
}
