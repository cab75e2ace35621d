//! What every kind that makes servers says in the same fields, in the lifecycle's words.

use windlass_lifecycle::{AddressKind, VolumeKind};
use windlass_scaleway::types::instance::Server;

use crate::kinds::{PublicIp, Volume, VolumeType};

/// The key of a Secret that holds cloud-init, as Cluster API's bootstrap providers have it.
pub(crate) const CLOUD_INIT_KEY: &str = "value";
pub(crate) const GIGABYTE: u64 = 1_000_000_000;

/// The operation that made a server, by its tag.
pub(crate) fn operation_of(server: &Server) -> Option<&str> {
    server.tags.iter().find_map(|tag| tag.strip_prefix("windlass-operation="))
}

pub(crate) fn volume_kind(volume: &Volume) -> VolumeKind {
    match volume.kind.unwrap_or_default() {
        VolumeType::BlockStorage => VolumeKind::Block,
        VolumeType::LocalSsd => VolumeKind::Local,
        VolumeType::Scratch => VolumeKind::Scratch,
    }
}

/// In bytes; `None` where the object leaves it open.
pub(crate) fn volume_size(volume: &Volume) -> Option<u64> {
    volume.size_gb.map(|size| u64::from(size) * GIGABYTE)
}

/// One IPv4 address where the object names none, unless its server gets a dynamic one.
pub(crate) fn addresses(public_ips: Option<&[PublicIp]>, dynamic_address: bool) -> Vec<AddressKind> {
    let kind = |ip: &PublicIp| match ip {
        PublicIp::Ipv4 => AddressKind::Ipv4,
        PublicIp::Ipv6 => AddressKind::Ipv6,
    };
    match public_ips {
        Some(ips) => ips.iter().map(kind).collect(),
        None if dynamic_address => Vec::new(),
        None => vec![AddressKind::Ipv4],
    }
}
