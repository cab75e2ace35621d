use std::collections::BTreeMap;
use std::time::Duration;

use super::{BlockStatus, FilesystemState, ReferenceStatus, ServerState, World};
use crate::clock::{Micros, micros};

/// What will happen by itself.
///
/// Nothing runs in the background: the agenda is worked off when the next request comes, which makes every run the
/// same. An entry about a server names the server's *turn*: another action in between begins a new turn, and entries of
/// earlier turns fall away.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    entries: BTreeMap<(Micros, u64), (u64, Event)>,
    sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A server reaches the next phase of what it does.
    Server {
        id: String,
        turn: u64,
        phase: Phase,
    },
    /// A new Block Storage volume can be used.
    BlockVolumeReady {
        id: String,
    },
    /// A Block Storage volume gets the size and the speed that it was given.
    BlockVolumeUpdated {
        id: String,
    },
    /// What was done with a server's file system is over.
    FilesystemSettled {
        server: String,
        filesystem: String,
        state: FilesystemState,
    },
    /// A Block Storage volume that was being detached from `server` is free.
    BlockVolumeDetached {
        id: String,
        server: String,
    },
    /// A new snapshot or image can be used.
    SnapshotReady {
        id: String,
    },
    ImageReady {
        id: String,
    },
    /// A private NIC of API v2alpha1 is attached.
    PrivateNicReady {
        id: String,
    },
    /// An Apple silicon server is ready again, or broken.
    AppleReady {
        id: String,
        turn: u64,
        fails: bool,
    },
    /// An Apple silicon server gets the name that was asked for before.
    AppleRename {
        id: String,
        name: String,
    },
    /// An Apple silicon server begins the reinstall that was asked for before.
    AppleReinstall {
        id: String,
        os: String,
        enable_kext: bool,
    },
    /// An Apple silicon server whose deletion was scheduled goes.
    AppleDeletion {
        id: String,
        turn: u64,
    },
}

/// Where an action takes a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Provisioning,
    Running,
    DynamicIpAttached,
    Stopped,
    StoppedInPlace,
    RestartingAfterReboot,
    Gone,
}

impl Agenda {
    /// `request` is the one because of which it will happen.
    fn add(&mut self, at: Micros, request: u64, event: Event) {
        self.sequence += 1;
        self.entries.insert((at, self.sequence), (request, event));
    }

    /// What is due next: when, because of which request, and what.
    pub(crate) fn next_until(&mut self, now: Micros) -> Option<(Micros, u64, Event)> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= now).then(|| {
            let ((due, _), (request, event)) = entry.remove_entry();
            (due, request, event)
        })
    }
}

impl World {
    pub(crate) fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now().saturating_add(micros(delay)), event);
    }

    pub(super) fn at(&mut self, moment: Micros, event: Event) {
        self.agenda.add(moment, self.request, event);
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Server { id, turn, phase } => {
                if self.servers.get(&id).is_some_and(|server| server.turn == turn) {
                    self.enter(&id, phase);
                }
            }
            Event::BlockVolumeReady { id } => {
                let stamp = self.stamp();
                if let Some(volume) = self.block_volumes.get_mut(&id)
                    && volume.status == BlockStatus::Creating
                {
                    volume.status = BlockStatus::Available;
                    volume.updated = stamp;
                }
            }
            Event::BlockVolumeUpdated { id } => {
                let stamp = self.stamp();
                if let Some(volume) = self.block_volumes.get_mut(&id)
                    && let Some(wanted) = volume.updating.take()
                {
                    volume.size = wanted.size;
                    volume.iops = wanted.iops;
                    volume.updated = stamp;
                }
            }
            Event::FilesystemSettled { server, filesystem, state } => {
                self.settle_filesystem(&server, &filesystem, state);
            }
            Event::BlockVolumeDetached { id, server } => {
                let now = self.now();
                if let Some(volume) = self.block_volumes.get_mut(&id) {
                    let before = volume.references.len();
                    volume.references.retain(|reference| {
                        reference.server != server || reference.status != ReferenceStatus::Detaching
                    });
                    if volume.references.len() < before {
                        volume.last_detached = Some(now);
                    }
                }
            }
            Event::SnapshotReady { id } => {
                if let Some(snapshot) = self.snapshots.get_mut(&id) {
                    snapshot.ready = true;
                }
                if let Some(snapshot) = self.block_snapshots.get_mut(&id) {
                    snapshot.ready = true;
                }
            }
            Event::ImageReady { id } => {
                if let Some(image) = self.images.get_mut(&id) {
                    image.state = "available";
                }
            }
            Event::PrivateNicReady { id } => {
                let stamp = self.stamp();
                if let Some(nic) = self.private_nics.get_mut(&id) {
                    nic.attaching = false;
                    nic.modified = stamp;
                }
            }
            Event::AppleReady { id, turn, fails } => self.apple_ready(&id, turn, fails),
            Event::AppleRename { id, name } => self.rename_apple_server(&id, name),
            Event::AppleReinstall { id, os, enable_kext } => self.reinstall_apple_server(&id, os, enable_kext),
            Event::AppleDeletion { id, turn } => self.apple_deletion_due(&id, turn),
        }
    }

    /// Begins a new turn of a server: it leaves its state now and will pass through `phases`, each after its share of
    /// the whole duration.
    pub(crate) fn begin(&mut self, id: &str, state: ServerState, detail: &str, phases: Vec<(Duration, Phase)>) {
        let stamp = self.stamp();
        let Some(server) = self.servers.get_mut(id) else { return };
        server.turn += 1;
        server.state = state;
        server.detail = detail.to_owned();
        server.modified = stamp;
        let turn = server.turn;
        for (delay, phase) in phases {
            self.after(delay, Event::Server { id: id.to_owned(), turn, phase });
        }
    }

    fn enter(&mut self, id: &str, phase: Phase) {
        match phase {
            Phase::Provisioning => {
                let location = self.place(id);
                self.set_state(id, ServerState::Starting, "provisioning node");
                self.locate(id, location);
            }
            Phase::Running => {
                if self.servers.get(id).is_some_and(|server| server.location.is_none()) {
                    let location = self.place(id);
                    self.locate(id, location);
                }
                self.set_state(id, ServerState::Running, "booting kernel");
            }
            Phase::DynamicIpAttached => {
                if let Some(ip) = self.servers.get_mut(id).and_then(|server| server.dynamic_ip.as_mut()) {
                    ip.attached = true;
                }
            }
            Phase::Stopped => {
                self.release_dynamic_ip(id);
                self.set_state(id, ServerState::Stopped, "");
                self.locate(id, None);
            }
            Phase::StoppedInPlace => self.set_state(id, ServerState::StoppedInPlace, "stopped in place"),
            Phase::RestartingAfterReboot => self.set_state(id, ServerState::Starting, "rebooting"),
            Phase::Gone => self.terminate_now(id),
        }
    }
}

impl World {
    /// Puts a server into a state from outside, with what belongs to that state. Whatever it was about to do is off.
    pub(crate) fn force_state(&mut self, id: &str, state: ServerState, detail: &str) {
        let ips: Vec<String> =
            self.ips.values().filter(|ip| ip.server.as_deref() == Some(id)).map(|ip| ip.id.clone()).collect();
        self.begin(id, state, detail, Vec::new());
        match state {
            ServerState::Running => self.enter(id, Phase::Running),
            ServerState::Stopped => self.enter(id, Phase::Stopped),
            _ => {}
        }
        // A server that was terminating shows its IPs again.
        if let Some(server) = self.servers.get_mut(id) {
            server.public_ips.extend(ips.into_iter().filter(|ip| !server.public_ips.contains(ip)).collect::<Vec<_>>());
        }
    }
}
