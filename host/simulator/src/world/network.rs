use super::World;
use crate::clock::Micros;

#[derive(Debug, Clone)]
pub(crate) struct Vpc {
    pub(crate) id: String,
    pub(crate) region: String,
    pub(crate) name: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) tags: Vec<String>,
    pub(crate) is_default: bool,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

#[derive(Debug, Clone)]
pub(crate) struct PrivateNetwork {
    pub(crate) id: String,
    pub(crate) region: String,
    pub(crate) name: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) tags: Vec<String>,
    pub(crate) vpc: String,
    pub(crate) default_route_propagation: bool,
    /// One IPv4 /22 and one IPv6 /64.
    pub(crate) subnets: [Subnet; 2],
    /// The host part of the next IPv4 address.
    pub(crate) next_host: u32,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

#[derive(Debug, Clone)]
pub(crate) struct Subnet {
    pub(crate) id: String,
    /// In CIDR notation.
    pub(crate) range: String,
}

#[derive(Debug, Clone)]
pub(crate) struct PrivateNic {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) server: String,
    pub(crate) private_network: String,
    pub(crate) project: String,
    pub(crate) mac: String,
    pub(crate) tags: Vec<String>,
    pub(crate) ips: Vec<String>,
    /// API v2alpha1 shows this; API v1 says `available` at once (recorded).
    pub(crate) attaching: bool,
    pub(crate) created: Micros,
    pub(crate) modified: Micros,
}

/// An address in IPAM: of a private NIC, or booked ahead.
#[derive(Debug, Clone)]
pub(crate) struct IpamIp {
    pub(crate) id: String,
    pub(crate) region: String,
    /// In CIDR notation.
    pub(crate) address: String,
    pub(crate) is_ipv6: bool,
    pub(crate) project: String,
    pub(crate) subnet: String,
    pub(crate) private_network: String,
    pub(crate) private_nic: Option<String>,
    /// Whether it was booked by hand and so stays when its NIC goes.
    pub(crate) booked: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

/// An IAM ssh key.
#[derive(Debug, Clone)]
pub(crate) struct SshKey {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) public_key: String,
    pub(crate) fingerprint: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) disabled: bool,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
}

impl World {
    pub(crate) fn remove_private_nic(&mut self, id: &str) {
        let Some(nic) = self.private_nics.remove(id) else { return };
        self.server_texts.forget(&nic.server);
        for ip in nic.ips {
            match self.ipam_ips.get_mut(&ip) {
                Some(booked) if booked.booked => booked.private_nic = None,
                Some(_) => {
                    self.ipam_ips.remove(&ip);
                }
                None => {}
            }
        }
    }
}
