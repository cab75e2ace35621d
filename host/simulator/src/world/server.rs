use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use bytes::Bytes;

use super::{Event, ReferenceStatus, World};
use crate::clock::Micros;

/// An Instance.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) zone: String,
    pub(crate) name: String,
    pub(crate) commercial_type: String,
    pub(crate) arch: &'static str,
    pub(crate) boot_type: String,
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) image: Option<String>,
    /// By the number under which the API lists them.
    pub(crate) volumes: BTreeMap<u32, AttachedVolume>,
    /// File systems in the order of their attachment.
    pub(crate) filesystems: Vec<(String, FilesystemState)>,
    pub(crate) tags: Vec<String>,
    pub(crate) state: ServerState,
    pub(crate) detail: String,
    pub(crate) protected: bool,
    pub(crate) dynamic_ip_required: bool,
    pub(crate) dynamic_ip: Option<DynamicIp>,
    /// Flexible IPs as the server shows them, in the order of their attachment. While it terminates the server shows
    /// none (recorded), although the IPs themselves say attached until it is gone (recorded once).
    pub(crate) public_ips: Vec<String>,
    pub(crate) mac: String,
    pub(crate) created: Micros,
    pub(crate) modified: Micros,
    pub(crate) security_group: String,
    pub(crate) placement_group: Option<String>,
    pub(crate) location: Option<Location>,
    pub(crate) admin_password_encryption_ssh_key_id: Option<String>,
    pub(crate) user_data: BTreeMap<String, Bytes>,
    /// Counts the actions; see [`Agenda`](super::Agenda).
    pub(crate) turn: u64,
}

/// The states of an Instance. There is no error state and none for creation or deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum ServerState {
    Stopped,
    Starting,
    Running,
    Stopping,
    #[strum(serialize = "stopped in place")]
    StoppedInPlace,
    Locked,
}

impl ServerState {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a file system is to a server (recorded).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum FilesystemState {
    Attaching,
    Available,
    Detaching,
}

impl FilesystemState {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachedVolume {
    pub(crate) id: String,
    pub(crate) kind: VolumeKind,
    pub(crate) boot: bool,
}

/// Where a server's volume lives: in the Instance API or in Block Storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeKind {
    Local,
    Block,
}

/// The address a server with `dynamic_ip_required` has from power-on to stop, when no flexible IP is attached.
#[derive(Debug, Clone)]
pub(crate) struct DynamicIp {
    pub(crate) id: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) attached: bool,
}

/// Where a server runs; `null` while it is stopped.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) platform: u32,
    pub(crate) cluster: u32,
    pub(crate) hypervisor: u32,
    pub(crate) node: u32,
}

impl Server {
    pub(crate) fn has_local_volumes(&self) -> bool {
        self.volumes.values().any(|volume| volume.kind == VolumeKind::Local)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.state == ServerState::Stopping && self.detail == "terminating"
    }

    /// The actions the API offers, as counted over 2,245 recorded servers.
    pub(crate) fn allowed_actions(&self) -> &'static [&'static str] {
        match self.state {
            ServerState::Stopped => &["poweron", "backup"],
            // Recorded without exception: [] while a server with local volumes terminates.
            ServerState::Stopping if self.is_terminating() && self.has_local_volumes() => &[],
            ServerState::Starting | ServerState::Stopping => &["stop_in_place", "backup"],
            ServerState::Running => &["poweroff", "terminate", "reboot", "stop_in_place", "backup"],
            ServerState::StoppedInPlace => &["poweron", "poweroff", "terminate", "reboot", "backup"],
            // Assumption: no locked server was ever recorded.
            ServerState::Locked => &[],
        }
    }
}

impl World {
    pub(super) fn set_state(&mut self, id: &str, state: ServerState, detail: &str) {
        let stamp = self.stamp();
        if let Some(server) = self.servers.get_mut(id) {
            server.state = state;
            server.detail = detail.to_owned();
            server.modified = stamp;
        }
    }

    /// Sets what a file system is to a server; `None`: nothing any more.
    pub(crate) fn set_filesystem(&mut self, server: &str, id: &str, state: Option<FilesystemState>) {
        let Some(server) = self.servers.get_mut(server) else { return };
        let place = server.filesystems.iter().position(|(attached, _)| attached == id);
        match (place, state) {
            (Some(place), Some(state)) => server.filesystems[place].1 = state,
            (Some(place), None) => {
                server.filesystems.remove(place);
            }
            (None, Some(state)) => server.filesystems.push((id.to_owned(), state)),
            (None, None) => {}
        }
    }

    /// A file system is attached, or it is not any more, unless something else has begun meanwhile.
    pub(super) fn settle_filesystem(&mut self, server: &str, id: &str, began: FilesystemState) {
        let current = self.servers.get(server).and_then(|server| server.filesystems.iter().find(|(at, _)| at == id));
        if current.is_some_and(|(_, state)| *state == began) {
            let end = (began == FilesystemState::Attaching).then_some(FilesystemState::Available);
            self.set_filesystem(server, id, end);
        }
    }

    pub(super) fn locate(&mut self, id: &str, location: Option<Location>) {
        if let Some(server) = self.servers.get_mut(id) {
            server.location = location;
        }
    }

    /// Finds a place for a server.
    pub(super) fn place(&mut self, id: &str) -> Option<Location> {
        // Recorded platforms: 14 in fr-par-1, 30 in fr-par-2.
        let platform = match self.servers.get(id)?.zone.as_str() {
            "fr-par-1" => 14,
            _ => 30,
        };
        Some(Location {
            platform,
            cluster: 10 + self.random.number(50),
            hypervisor: 100 * (1 + self.random.number(20)) + 1 + self.random.number(4),
            node: 1 + self.random.number(80),
        })
    }

    pub(crate) fn give_dynamic_ip(&mut self, id: &str) {
        let Some(server) = self.servers.get(id) else { return };
        if !server.dynamic_ip_required || !server.public_ips.is_empty() || server.dynamic_ip.is_some() {
            return;
        }
        let ip = DynamicIp { id: self.random.id(), address: self.random.ipv4(), attached: false };
        if let Some(server) = self.servers.get_mut(id) {
            server.dynamic_ip = Some(ip);
        }
    }

    pub(crate) fn release_dynamic_ip(&mut self, id: &str) {
        if let Some(ip) = self.servers.get_mut(id).and_then(|server| server.dynamic_ip.take()) {
            self.random.free_ipv4(ip.address);
        }
    }

    /// The end of `terminate`: local volumes go with the server, Block Storage volumes stay and are free at once
    /// (68 of 69 recordings), flexible IPs stay and are detached, private NICs go.
    pub(crate) fn terminate_now(&mut self, id: &str) {
        let Some(server) = self.take_server(id) else { return };
        for volume in server.volumes.values() {
            match volume.kind {
                VolumeKind::Local => {
                    self.volumes.remove(&volume.id);
                }
                VolumeKind::Block => self.detach_block_volume(&volume.id, id),
            }
        }
    }

    /// DELETE: everything outlives the server; Block Storage volumes are `detaching` for a while (51 of 157
    /// recordings).
    pub(crate) fn delete_server_now(&mut self, id: &str) {
        let Some(server) = self.take_server(id) else { return };
        for volume in server.volumes.values() {
            match volume.kind {
                VolumeKind::Local => {
                    let stamp = self.stamp();
                    if let Some(volume) = self.volumes.get_mut(&volume.id) {
                        volume.server = None;
                        volume.modified = stamp;
                    }
                }
                VolumeKind::Block => self.begin_block_detach(&volume.id, id),
            }
        }
    }

    /// Takes a server out of the world, with what cannot exist without it.
    fn take_server(&mut self, id: &str) -> Option<Server> {
        self.release_dynamic_ip(id);
        let server = self.servers.remove(id)?;
        self.ips.change_where(|ip| ip.server.as_deref() == Some(id), |ip| ip.server = None);
        let nics: Vec<String> =
            self.private_nics.values().filter(|nic| nic.server == id).map(|nic| nic.id.clone()).collect();
        for nic in nics {
            self.remove_private_nic(&nic);
        }
        Some(server)
    }

    pub(crate) fn detach_block_volume(&mut self, volume: &str, server: &str) {
        let now = self.now();
        if let Some(volume) = self.block_volumes.get_mut(volume) {
            volume.references.retain(|reference| reference.server != server);
            volume.last_detached = Some(now);
        }
    }

    pub(crate) fn begin_block_detach(&mut self, volume: &str, server: &str) {
        let Some(entry) = self.block_volumes.get_mut(volume) else { return };
        for reference in entry.references.iter_mut().filter(|reference| reference.server == server) {
            reference.status = ReferenceStatus::Detaching;
        }
        let delay = self.options.durations.block_detach;
        self.after(delay, Event::BlockVolumeDetached { id: volume.to_owned(), server: server.to_owned() });
        if delay.is_zero() {
            self.settle(self.now());
        }
    }
}
