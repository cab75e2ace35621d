use super::World;
use crate::clock::Micros;

/// An Apple silicon server: a physical host.
#[derive(Debug, Clone)]
pub(crate) struct AppleServer {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) server_type: String,
    pub(crate) os: String,
    pub(crate) project: String,
    pub(crate) organization: String,
    pub(crate) ip: String,
    pub(crate) password: String,
    pub(crate) status: AppleStatus,
    pub(crate) delivered: bool,
    pub(crate) enable_vpc: bool,
    pub(crate) enable_kext: bool,
    pub(crate) commitment: Commitment,
    pub(crate) public_bandwidth_bps: u64,
    pub(crate) created: Micros,
    pub(crate) updated: Micros,
    pub(crate) deletable: Micros,
    pub(crate) deletion_scheduled: bool,
    /// Counts the changes of status, as a server's turn does.
    pub(crate) turn: u64,
    /// Counts the times that a deletion was scheduled or called off.
    pub(crate) deletion_turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AppleStatus {
    Starting,
    Ready,
    Rebooting,
    Reinstalling,
}

impl AppleStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            AppleStatus::Starting => "starting",
            AppleStatus::Ready => "ready",
            AppleStatus::Rebooting => "rebooting",
            AppleStatus::Reinstalling => "reinstalling",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commitment {
    None,
    Duration24h,
    RenewedMonthly,
}

impl Commitment {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Commitment::None),
            "duration_24h" => Some(Commitment::Duration24h),
            "renewed_monthly" => Some(Commitment::RenewedMonthly),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Commitment::None => "none",
            Commitment::Duration24h => "duration_24h",
            Commitment::RenewedMonthly => "renewed_monthly",
        }
    }
}

impl World {
    pub(super) fn apple_ready(&mut self, id: &str, turn: u64) {
        let stamp = self.stamp();
        if let Some(server) = self.apple_servers.get_mut(id)
            && server.turn == turn
        {
            server.status = AppleStatus::Ready;
            server.delivered = true;
            server.updated = stamp;
        }
    }
}
