//! IPAM API v1, read only: which addresses a private network interface has.

use super::tolerant::answers;

answers! {
    /// An address in IPAM.
    pub struct IpamIp {
        /// UUID.
        pub id: String,
        /// Address with prefix length: `172.16.4.2/22`.
        pub address: String,
        pub project_id: String,
        /// Whether it is IPv6.
        pub is_ipv6: bool,
        /// What it is attached to.
        pub resource: Option<IpamResource>,
        pub tags: Vec<String>,
        /// When it was created, RFC 3339.
        pub created_at: String,
        /// When it last changed, RFC 3339.
        pub updated_at: String,
        /// The region's name.
        pub region: String,
        /// The zone's name, for zonal addresses.
        pub zone: Option<String>,
    }

    /// What an address is attached to.
    pub struct IpamResource {
        /// `instance_private_nic`, `instance_server`, ...
        #[serde(rename = "type")]
        pub resource_type: String,
        /// UUID.
        pub id: String,
        pub mac_address: Option<String>,
        pub name: Option<String>,
    }
}

/// What to list of a region's addresses.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListIpamIps {
    /// Only of this project.
    pub project_id: Option<String>,
    /// Only in this private network.
    pub private_network_id: Option<String>,
    /// Only attached to a thing of this kind: `instance_private_nic`.
    pub resource_type: Option<String>,
    /// Only attached to this.
    pub resource_id: Option<String>,
    /// Only with this hardware address.
    pub mac_address: Option<String>,
    /// Only these addresses, by id.
    pub ip_ids: Vec<String>,
    /// Only with these tags, repeated as Block Storage does.
    pub tags: Vec<String>,
}
