//! Everything that exists in the simulated Scaleway, and what is still going to happen to it.

mod address;
mod agenda;
mod apple;
mod block;
mod group;
mod image;
mod network;
mod server;
mod table;
mod text;
mod view;
mod volume;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::behaviour::Behaviours;
use crate::catalogue::PublicImages;
use crate::clock::Micros;
use crate::offer::Offer;
use crate::options::{Options, Stock};
use crate::random::Random;

pub(crate) use address::{Ip, IpKind};
pub(crate) use agenda::{Agenda, Event, Phase};
pub(crate) use apple::{AppleServer, AppleStatus, Commitment, DeletionCause, NewAppleServer};
pub(crate) use block::{BlockSnapshot, BlockStatus, BlockUpdate, BlockVolume, Reference, ReferenceStatus};
pub(crate) use group::{PlacementGroup, Rule, SecurityGroup};
pub(crate) use image::{Image, RootVolume, Snapshot};
pub(crate) use network::{IpamIp, PrivateNetwork, PrivateNic, SshKey, Subnet, Vpc};
pub(crate) use server::{AttachedVolume, FilesystemState, Server, ServerState, VolumeKind};
pub(crate) use table::{ById, Changes};
use text::ServerTexts;
pub(crate) use volume::Volume;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) behaviours: Behaviours,
    pub(crate) stock: Stock,
    pub(crate) offers: Vec<Offer>,
    /// How many Apple silicon hosts of a type are left, where that is counted.
    pub(crate) apple_stock: BTreeMap<String, u32>,
    pub(crate) random: Random,
    pub(crate) agenda: Agenda,
    pub(crate) public_images: PublicImages,
    /// On behalf of which request the world changes now; 0: of none.
    request: u64,
    changes: Changes,
    server_texts: ServerTexts,
    now: Micros,
    last_stamp: Micros,

    pub(crate) servers: ById<Server>,
    pub(crate) ips: ById<Ip>,
    pub(crate) volumes: ById<Volume>,
    pub(crate) snapshots: ById<Snapshot>,
    /// Images made by `backup` or by hand; the catalogue's are not in here.
    pub(crate) images: ById<Image>,
    pub(crate) block_volumes: ById<BlockVolume>,
    pub(crate) block_snapshots: ById<BlockSnapshot>,
    pub(crate) private_nics: ById<PrivateNic>,
    pub(crate) private_networks: ById<PrivateNetwork>,
    pub(crate) vpcs: ById<Vpc>,
    pub(crate) ipam_ips: ById<IpamIp>,
    pub(crate) security_groups: ById<SecurityGroup>,
    pub(crate) placement_groups: ById<PlacementGroup>,
    pub(crate) ssh_keys: ById<SshKey>,
    pub(crate) apple_servers: ById<AppleServer>,
    /// What was last shown of hosts that are gone, oldest departure first.
    pub(crate) gone_apple_servers: Vec<Value>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let public_images = PublicImages::new(options.seed);
        let random = Random::new(options.seed, options.loopback_addresses);
        let stock =
            options.out_of_stock.iter().map(|name| (name.clone(), crate::options::Availability::Shortage)).collect();
        let apple_stock = options.apple_silicon.stock.clone();
        let pools = options.apple_silicon.pools.clone();
        let mut behaviours = Behaviours::default();
        options.behaviours.iter().cloned().for_each(|behaviour| behaviours.set(behaviour));
        let mut world = Self {
            options,
            behaviours,
            apple_stock,
            stock,
            offers: Vec::new(),
            random,
            agenda: Agenda::default(),
            public_images,
            request: 0,
            changes: Changes::default(),
            server_texts: ServerTexts::default(),
            now: 0,
            last_stamp: 0,
            servers: ById::new(),
            ips: ById::new(),
            volumes: ById::new(),
            snapshots: ById::new(),
            images: ById::new(),
            block_volumes: ById::new(),
            block_snapshots: ById::new(),
            private_nics: ById::new(),
            private_networks: ById::new(),
            vpcs: ById::new(),
            ipam_ips: ById::new(),
            security_groups: ById::new(),
            placement_groups: ById::new(),
            ssh_keys: ById::new(),
            apple_servers: ById::new(),
            gone_apple_servers: Vec::new(),
        };
        for pool in &pools {
            world.add_apple_pool(pool);
        }
        world
    }

    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// Brings the world to `now`: everything that was due in between happens, in its order and at its own time.
    pub(crate) fn settle(&mut self, now: Micros) {
        let request = self.request;
        while let Some((due, cause, event)) = self.agenda.next_until(now) {
            self.now = self.now.max(due);
            self.on_behalf_of(cause);
            self.happen(event);
        }
        self.on_behalf_of(request);
        self.now = self.now.max(now);
    }

    /// What changes from now on, changes because of this request; 0: of none.
    pub(crate) fn on_behalf_of(&mut self, request: u64) {
        let (changes, cause, texts) = (&mut self.changes, self.request, &mut self.server_texts);
        self.servers.tell(changes, cause, |id, _| texts.forget(id));
        self.ips.tell(changes, cause, |_, ip| texts.forget_of(ip.and_then(|ip| ip.server.as_ref())));
        self.volumes.tell(changes, cause, |_, volume| texts.forget_of(volume.and_then(|it| it.server.as_ref())));
        self.private_nics.tell(changes, cause, |_, nic| texts.forget_of(nic.map(|nic| &nic.server)));
        self.images.tell(changes, cause, |_, _| texts.forget_all());
        self.security_groups.tell(changes, cause, |_, _| texts.forget_all());
        self.placement_groups.tell(changes, cause, |_, _| texts.forget_all());
        self.snapshots.tell(changes, cause, |_, _| ());
        self.block_volumes.tell(changes, cause, |_, _| ());
        self.block_snapshots.tell(changes, cause, |_, _| ());
        self.private_networks.tell(changes, cause, |_, _| ());
        self.vpcs.tell(changes, cause, |_, _| ());
        self.ipam_ips.tell(changes, cause, |_, _| ());
        self.ssh_keys.tell(changes, cause, |_, _| ());
        self.apple_servers.tell(changes, cause, |_, _| ());
        self.request = request;
    }

    /// By which request each resource was last changed or removed.
    pub(crate) fn changes(&self) -> BTreeMap<String, u64> {
        self.changes.show()
    }

    /// The present, but never the same twice: creation dates order the lists.
    pub(crate) fn stamp(&mut self) -> Micros {
        self.last_stamp = self.now.max(self.last_stamp + 1);
        self.last_stamp
    }

    /// Whether lists show what has this id and was made then.
    pub(crate) fn lists(&self, id: &str, created: Micros) -> bool {
        self.behaviours.lists(self.now, id, created)
    }

    /// The organization of a resource in `project`.
    pub(crate) fn organization_of(&self, project: &str) -> String {
        self.options.organization.clone().unwrap_or_else(|| project.to_owned())
    }
}

/// The views of `items` in the order of their keys.
pub(crate) fn sorted<K: Ord, T>(
    items: impl IntoIterator<Item = T>,
    newest_first: bool,
    key: impl Fn(&T) -> K,
) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort_by_key(|item| key(item));
    if newest_first {
        items.reverse();
    }
    items
}

pub(crate) fn optional_date(at: Option<Micros>) -> Value {
    at.map(crate::clock::zulu_date).into()
}
