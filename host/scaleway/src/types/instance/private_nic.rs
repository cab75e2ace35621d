use serde::{Deserialize, Serialize};

use crate::types::tolerant::answers;
use crate::types::word::words;

words! {
    /// Whether an interface works yet.
    pub enum PrivateNicState {
        /// In service.
        Available = "available",
        /// Being set up.
        Syncing = "syncing",
        /// Scaleway failed to set it up.
        SyncingError = "syncing_error",
    }
}

answers! {
    /// A server's interface in a private network. It goes with its server.
    pub struct PrivateNic {
        /// UUID.
        pub id: String,
        pub private_network_id: String,
        pub server_id: String,
        pub mac_address: String,
        /// Whether it works yet.
        pub state: PrivateNicState,
        pub tags: Vec<String>,
        /// Ids of its addresses at the IPAM API (IPv4 and IPv6).
        pub ipam_ip_ids: Vec<String>,
        /// When it was created, RFC 3339.
        pub creation_date: String,
        /// When it last changed, RFC 3339.
        pub modification_date: String,
        pub zone: String,
    }
}

/// Body of `POST /servers/{id}/private_nics`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CreatePrivateNic {
    /// The private network to join. A server joins one once (assumption: one-nic-per-network).
    pub private_network_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Addresses booked at the IPAM API to use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipam_ip_ids: Vec<String>,
}

/// What to list of a server's interfaces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListPrivateNics {
    /// Only with these tags, joined by commas.
    pub tags: Vec<String>,
}
