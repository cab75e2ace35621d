use std::net::{Ipv4Addr, Ipv6Addr};

use super::World;
use crate::clock::Micros;

/// A flexible IP.
#[derive(Debug, Clone)]
pub(crate) struct Ip {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) kind: IpKind,
    pub(crate) reverse: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) tags: Vec<String>,
    pub(crate) created: Micros,
}

impl Ip {
    pub(crate) fn v4(&self) -> Option<Ipv4Addr> {
        match self.kind {
            IpKind::V4 { address } => Some(address),
            IpKind::V6 { .. } => None,
        }
    }
}

/// The two kinds that still exist; `nat` is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpKind {
    V4 {
        address: Ipv4Addr,
    },
    /// A /64; `host` is the address within it that the server shows.
    V6 {
        prefix: Ipv6Addr,
        host: Ipv6Addr,
    },
}

impl IpKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            IpKind::V4 { .. } => "routed_ipv4",
            IpKind::V6 { .. } => "routed_ipv6",
        }
    }
}

impl World {
    pub(crate) fn attach_ip(&mut self, ip: &str, server: &str) {
        self.detach_ip(ip);
        // Recorded: with a flexible IP there is no dynamic one.
        self.release_dynamic_ip(server);
        if let Some(ip) = self.ips.get_mut(ip) {
            ip.server = Some(server.to_owned());
        }
        if let Some(server) = self.servers.get_mut(server) {
            server.public_ips.push(ip.to_owned());
        }
    }

    pub(crate) fn detach_ip(&mut self, ip: &str) {
        let Some(server) = self.ips.get_mut(ip).and_then(|ip| ip.server.take()) else { return };
        if let Some(server) = self.servers.get_mut(&server) {
            server.public_ips.retain(|attached| attached != ip);
        }
    }
}
