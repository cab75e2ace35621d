//! ConnectInfo: where an instance is and who logs in. Addresses are read each time, never kept: they can change over a
//! suspension.

use bytes::Bytes;
use windlass_scaleway::types::instance::Server;
use windlass_scaleway::types::ipam::ListIpamIps;

use super::fleet::Fleet;
use crate::protocol::{ConnectInfo, Failure};

impl Fleet {
    /// How to reach an instance now.
    pub(crate) async fn connect_info(&self, id: &str) -> Result<ConnectInfo, Failure> {
        let server = self.book.lock().get(id).and_then(|entry| entry.server.clone());
        let Some(server) = server else {
            return Err(Failure(format!("{id} has no server to connect to (yet, or any more)")));
        };
        let server = self
            .client
            .instance(&self.configuration.zone)
            .get_server(&server)
            .await
            .map_err(|error| Failure::from_error(&error))?;
        let external = public_address(&server);
        let internal = self.private_address(&server).await?;
        let mut connector = self.connector.clone();
        if connector.operating_system.is_empty() {
            connector.operating_system = self.family.operating_system.to_owned();
        }
        if connector.architecture.is_empty() {
            connector.architecture = self.architecture.to_owned();
        }
        if connector.protocol.is_empty() {
            connector.protocol = "ssh".to_owned();
        }
        if connector.username.is_empty() {
            connector.username = self.family.user.to_owned();
        }
        connector.key = self.key.as_ref().map_or_else(Bytes::new, |key| key.private());
        if external.is_empty() && internal.is_empty() {
            return Err(Failure(format!("{id} has no address yet")));
        }
        Ok(ConnectInfo {
            connector,
            // Without a private network, a runner that asks for the internal address would be given an empty one, and
            // dial itself.
            internal_address: if internal.is_empty() { external.clone() } else { internal },
            external_address: external,
            expires: None,
        })
    }

    /// The first address in a private network, IPv4 before IPv6; empty where there is none.
    async fn private_address(&self, server: &Server) -> Result<String, Failure> {
        let Some(nic) = server.private_nics.first() else { return Ok(String::new()) };
        let request = ListIpamIps {
            resource_type: Some("instance_private_nic".to_owned()),
            resource_id: Some(nic.id.clone()),
            ..ListIpamIps::default()
        };
        let mut addresses = self
            .client
            .ipam(&self.configuration.zone.region())
            .list_ips(&request)
            .await
            .map_err(|error| Failure::from_error(&error))?;
        addresses.sort_by_key(|address| address.is_ipv6);
        // IPAM writes the prefix length behind the address (recorded).
        Ok(addresses
            .first()
            .map(|address| address.address.split('/').next().unwrap_or_default().to_owned())
            .unwrap_or_default())
    }
}

/// The public address, IPv4 before IPv6; empty where there is none.
fn public_address(server: &Server) -> String {
    let of = |family: &str| server.public_ips.iter().find(|ip| ip.family == family && !ip.address.is_empty());
    of("inet").or_else(|| of("inet6")).map(|ip| ip.address.clone()).unwrap_or_default()
}
