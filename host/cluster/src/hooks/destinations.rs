//! Where webhooks of people who are not trusted with this machine's network may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use url::{Host, Url};

use super::failure::HookProblem;

/// The addresses that webhooks may reach: public ones, and networks that the operator names. This machine, its links
/// and private networks, where a cluster's own services are, are refused otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    allowed: Vec<IpNet>,
}

impl Destinations {
    /// Public addresses, and those of these networks.
    #[must_use]
    pub const fn public_and(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.allowed.iter().any(|network| network.contains(&address))
    }

    /// The addresses of a URL's host, each of which may be reached: the connection is made to one of them, whatever the
    /// name means a moment later.
    ///
    /// # Errors
    /// [`HookProblem::NotStarted`] where one of them may not be, in words that do not tell which it is.
    pub(super) async fn of(&self, url: &Url) -> Result<Vec<SocketAddr>, HookProblem> {
        let port = url.port_or_known_default().unwrap_or(443);
        let found: Vec<SocketAddr> = match url.host() {
            Some(Host::Ipv4(address)) => vec![(address, port).into()],
            Some(Host::Ipv6(address)) => vec![(address, port).into()],
            Some(Host::Domain(name)) => tokio::net::lookup_host((name, port))
                .await
                .map_err(|error| {
                    HookProblem::Connection(format!("the address of {name} cannot be looked up: {error}"))
                })?
                .collect(),
            None => Vec::new(),
        };
        if found.is_empty() || !found.iter().all(|address| self.allows(address.ip())) {
            let host = url.host_str().unwrap_or_default();
            return Err(HookProblem::NotStarted(format!(
                "{host} is in a network that webhooks may not reach: it is neither public nor allowed by the operator"
            )));
        }
        Ok(found)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    !(first == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        // Shared by a provider's customers (RFC 6598), protocol assignments, benchmarks; multicast and reserved.
        || (first == 100 && second & 0xC0 == 64)
        || (first, second, third) == (192, 0, 0)
        || (first == 198 && second & 0xFE == 18)
        || first >= 224)
}

/// Global unicast but for documentation, and for what leads to an address of IPv4 (6to4, Teredo).
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first & 0xE000 == 0x2000 && first != 0x2002 && !(first == 0x2001 && matches!(second, 0 | 0x0DB8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn webhooks_reach_public_addresses_and_networks_that_are_allowed_alone() {
        let none = Destinations::default();
        let some = Destinations::public_and(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()]);
        for (host, public, allowed) in [
            ("203.0.114.1", true, true),
            ("[2a01:4f8::1]", true, true),
            ("127.0.0.1", false, false),
            ("[::1]", false, false),
            ("localhost", false, false),
            ("[::ffff:127.0.0.1]", false, false),
            ("0.0.0.0", false, false),
            ("169.254.169.254", false, false),
            ("[fe80::1]", false, false),
            ("10.1.2.3", false, true),
            ("10.2.2.3", false, false),
            ("192.168.1.1", false, false),
            ("172.16.0.1", false, false),
            ("100.64.0.1", false, false),
            ("[fd12::1]", false, true),
            ("[64:ff9b::7f00:1]", false, false),
            ("[2002:7f00:1::]", false, false),
            ("224.0.0.1", false, false),
        ] {
            let url: Url = format!("https://{host}/hook").parse().unwrap();
            assert_eq!(none.of(&url).await.is_ok(), public, "{host}");
            assert_eq!(some.of(&url).await.is_ok(), allowed, "{host}");
        }
    }
}
