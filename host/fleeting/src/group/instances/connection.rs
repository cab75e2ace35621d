//! ConnectInfo: where an instance is and who logs in. Addresses are read each time, since they can change over a
//! suspension. The last reading is reported only while Scaleway cannot be asked and the instance counts as healthy:
//! jobs go on during an outage.

use bytes::Bytes;
use windlass_scaleway::types::instance::{PrivateNic, Server};
use windlass_scaleway::types::ipam::ListIpamIps;
use windlass_scaleway::{Error, Zone};

use super::Instances;
use super::addresses::{Addresses, public_address};
use crate::group::fleet::Fleet;
use crate::group::looks::HEARTBEAT_PATIENCE;
use crate::protocol::{ConnectInfo, Failure};

impl Fleet<Instances> {
    /// How to reach an instance now.
    pub(super) async fn connect_info(&self, id: &str) -> Result<ConnectInfo, Failure> {
        let server = self.book.lock().get(id).and_then(|entry| Some((entry.place.zone.clone(), entry.server.clone()?)));
        let Some((zone, server)) = server else {
            return Err(Failure(format!(
                "{id} has no server to connect to: it is still being created, or was deleted"
            )));
        };
        let Addresses { external, internal } = self.addresses(id, &zone, &server).await?;
        let mut connector = self.connector.clone();
        if connector.operating_system.is_empty() {
            connector.operating_system = self.kind.family.operating_system.to_owned();
        }
        if connector.architecture.is_empty() {
            connector.architecture = self.kind.architecture.to_owned();
        }
        if connector.protocol.is_empty() {
            connector.protocol = "ssh".to_owned();
        }
        if connector.username.is_empty() {
            connector.username = self.kind.family.user.to_owned();
        }
        connector.key = self.kind.key.as_ref().map_or_else(Bytes::new, |key| key.private());
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

    /// Its addresses now; those that were read last where Scaleway cannot be asked.
    async fn addresses(&self, id: &str, zone: &Zone, server: &str) -> Result<Addresses, Failure> {
        let known = self.kind.last_addresses.get(id).filter(|_| self.looks.runs(id));
        let reading = self.read_addresses(id, zone, server);
        let Some(known) = known else { return reading.await.map_err(|unread| unread.failure()) };
        let why = match tokio::time::timeout(HEARTBEAT_PATIENCE, reading).await {
            Ok(Err(Unread::Unasked(failure))) => failure,
            Ok(read) => return read.map_err(|unread| unread.failure()),
            Err(_) => Failure(format!("no answer within {} s", HEARTBEAT_PATIENCE.as_secs())),
        };
        tracing::warn!(
            instance = id,
            "its addresses are reported as they were read last, since Scaleway cannot be asked: {why}"
        );
        Ok(known)
    }

    async fn read_addresses(&self, id: &str, zone: &Zone, server: &str) -> Result<Addresses, Unread> {
        let server = self.client.instance(zone).get_server(server).await.map_err(|error| Unread::of(&error))?;
        let external = public_address(&server).to_owned();
        match self.private_address(zone, &server).await {
            Ok(internal) => {
                let addresses = Addresses { external, internal };
                self.kind.last_addresses.read(id, &addresses);
                Ok(addresses)
            }
            // It is reached from outside all the same, or where it was.
            Err(failure) if !external.is_empty() => {
                let internal = self.kind.last_addresses.get(id).map(|known| known.internal).unwrap_or_default();
                let reported = if internal.is_empty() { "the public one" } else { "the one that was read last" };
                tracing::warn!(
                    instance = id,
                    "its private address cannot be read, so {reported} is reported: {failure}"
                );
                Ok(Addresses { external, internal })
            }
            Err(failure) => Err(Unread::Unasked(failure)),
        }
    }

    /// The address in the first of the configured private networks that it is in, IPv4 before IPv6; empty where there
    /// is none. In which order Scaleway lists the networks of a server says nothing.
    async fn private_address(&self, zone: &Zone, server: &Server) -> Result<String, Failure> {
        let networks = self.configuration.server_in(zone).private_networks;
        let Some(nic) = first_configured(&networks, &server.private_nics) else { return Ok(String::new()) };
        let request = ListIpamIps {
            resource_type: Some("instance_private_nic".to_owned()),
            resource_id: Some(nic.id.clone()),
            ..ListIpamIps::default()
        };
        let mut addresses =
            self.client.ipam(&zone.region()).list_ips(&request).await.map_err(|error| Failure::from_error(&error))?;
        addresses.sort_by_key(|address| address.is_ipv6);
        // IPAM writes the prefix length behind the address (recorded).
        Ok(addresses
            .first()
            .map(|address| address.address.split('/').next().unwrap_or_default().to_owned())
            .unwrap_or_default())
    }
}

/// Why no addresses could be read.
enum Unread {
    /// There is no such server.
    Gone(Failure),
    /// Scaleway could not be asked.
    Unasked(Failure),
}

impl Unread {
    fn of(error: &Error) -> Self {
        let failure = Failure::from_error(error);
        if error.is_not_found() { Self::Gone(failure) } else { Self::Unasked(failure) }
    }

    fn failure(self) -> Failure {
        match self {
            Self::Gone(failure) | Self::Unasked(failure) => failure,
        }
    }
}

/// The one that is in the first of these networks; in none of them only where there is no other.
fn first_configured<'a>(networks: &[String], nics: &'a [PrivateNic]) -> Option<&'a PrivateNic> {
    let place =
        |nic: &PrivateNic| networks.iter().position(|id| *id == nic.private_network_id).unwrap_or(networks.len());
    nics.iter().min_by_key(|nic| place(nic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_internal_address_is_in_the_first_configured_network_in_whichever_order_scaleway_lists_them() {
        let nic = |network: &str| PrivateNic { private_network_id: network.to_owned(), ..PrivateNic::default() };
        let networks = ["first".to_owned(), "second".to_owned()];
        for listed in [["first", "second", "somebody's"], ["somebody's", "second", "first"]] {
            let nics = listed.map(nic);
            let chosen = first_configured(&networks, &nics).map(|nic| nic.private_network_id.as_str());
            assert_eq!(chosen, Some("first"));
        }
        assert!(first_configured(&networks, &[]).is_none());
    }
}
