//! What Scaleway shows of ours. A listing proves that something is there, never that something is not.

use std::collections::BTreeMap;

use windlass_scaleway::Zone;
use windlass_scaleway::types::block::{BlockVolume, ListBlockVolumes};
use windlass_scaleway::types::instance::{
    Ip, ListIps, ListServers, ListVolumes, Server, ServerState, ServerVolume, Volume,
};

use crate::Error;
use crate::absence::read_or_absent;
use crate::journal::{ResourceKind, ResourceName};
use crate::shared::Shared;
use crate::tags;

/// One resource that carries our owner tag, as it was just read.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: ResourceName,
    pub(super) label: String,
    pub(super) state: String,
    pub(super) tags: Vec<String>,
    /// The servers that it is attached to.
    pub(super) attached_to: Vec<String>,
    /// Servers only: whether it has never been started.
    pub(super) never_started: bool,
    /// Servers only: whether it is protected.
    pub(super) protected: bool,
    /// Servers only: its volumes, by their places.
    pub(super) volumes: BTreeMap<String, ServerVolume>,
}

fn name(zone: &Zone, kind: ResourceKind, id: &str) -> ResourceName {
    ResourceName { kind, id: id.to_owned(), zone: zone.to_string(), server: None }
}

fn server(zone: &Zone, server: Server) -> Listed {
    Listed {
        name: name(zone, ResourceKind::Server, &server.id),
        label: server.name,
        state: server.state.as_str().to_owned(),
        never_started: server.state == ServerState::Stopped,
        protected: server.protected,
        tags: server.tags,
        attached_to: Vec::new(),
        volumes: server.volumes,
    }
}

fn ip(zone: &Zone, ip: Ip) -> Listed {
    Listed {
        name: name(zone, ResourceKind::Ip, &ip.id),
        label: ip.address.or(ip.prefix).unwrap_or_default(),
        state: ip.state.as_str().to_owned(),
        tags: ip.tags,
        attached_to: ip.server.into_iter().map(|server| server.id).collect(),
        never_started: false,
        protected: false,
        volumes: BTreeMap::new(),
    }
}

fn block_volume(zone: &Zone, volume: BlockVolume) -> Listed {
    Listed {
        name: name(zone, ResourceKind::BlockVolume, &volume.id),
        label: volume.name,
        state: volume.status.as_str().to_owned(),
        tags: volume.tags,
        attached_to: volume.references.into_iter().map(|reference| reference.product_resource_id).collect(),
        never_started: false,
        protected: false,
        volumes: BTreeMap::new(),
    }
}

fn local_volume(zone: &Zone, volume: Volume) -> Listed {
    Listed {
        name: name(zone, ResourceKind::LocalVolume, &volume.id),
        label: volume.name,
        state: volume.state.as_str().to_owned(),
        tags: volume.tags,
        attached_to: volume.server.into_iter().map(|server| server.id).collect(),
        never_started: false,
        protected: false,
        volumes: BTreeMap::new(),
    }
}

/// Everything in the zone that carries our owner tag, servers first.
pub(super) async fn list(shared: &Shared, zone: &Zone) -> Result<Vec<Listed>, Error> {
    let wanted = vec![tags::owner_tag(&shared.owner)];
    let instance = shared.client.instance(zone);
    let block = shared.client.block(zone);
    let servers = ListServers { tags: wanted.clone(), ..ListServers::default() };
    let ips = ListIps { tags: wanted.clone(), ..ListIps::default() };
    let local = ListVolumes { tags: wanted.clone(), ..ListVolumes::default() };
    let blocks = ListBlockVolumes { tags: wanted, ..ListBlockVolumes::default() };
    let (servers, ips, local, blocks) = futures::try_join!(
        instance.list_servers(&servers),
        instance.list_ips(&ips),
        instance.list_volumes(&local),
        block.list_volumes(&blocks),
    )
    .map_err(|error| Error::scaleway("listing what is ours", error))?;
    let mut listed: Vec<Listed> = servers.into_iter().map(|it| server(zone, it)).collect();
    listed.extend(ips.into_iter().map(|it| ip(zone, it)));
    listed.extend(blocks.into_iter().map(|it| block_volume(zone, it)));
    listed.extend(local.into_iter().map(|it| local_volume(zone, it)));
    listed.retain(|resource| tags::carries_owner(&resource.tags, &shared.owner));
    Ok(listed)
}

/// The same resource, read by its id. `None`: it is gone.
pub(super) async fn read(shared: &Shared, zone: &Zone, of: &ResourceName) -> Result<Option<Listed>, Error> {
    let (instance, block) = (&shared.client.instance(zone), &shared.client.block(zone));
    let id = of.id.as_str();
    let read = match of.kind {
        ResourceKind::Server => {
            read_or_absent(|| instance.get_server(id)).await.map(|it| it.map(|it| server(zone, it)))
        }
        ResourceKind::Ip => read_or_absent(|| instance.get_ip(id)).await.map(|it| it.map(|it| ip(zone, it))),
        ResourceKind::BlockVolume => {
            read_or_absent(|| block.get_volume(id)).await.map(|it| it.map(|it| block_volume(zone, it)))
        }
        ResourceKind::LocalVolume => {
            read_or_absent(|| instance.get_volume(id)).await.map(|it| it.map(|it| local_volume(zone, it)))
        }
        // None of these is listed here.
        ResourceKind::Volume | ResourceKind::PrivateNic | ResourceKind::AppleSiliconServer => return Ok(None),
    };
    read.map_err(|error| Error::scaleway("reading what is unexplained", error))
}

/// The name or address of a resource and Scaleway's state of it, by its id; `None` where it is not found.
pub(crate) async fn read_state(
    shared: &Shared,
    zone: &Zone,
    of: &ResourceName,
) -> Result<Option<(String, String)>, Error> {
    if of.kind != ResourceKind::AppleSiliconServer {
        return Ok(read(shared, zone, of).await?.map(|listed| (listed.label, listed.state)));
    }
    match shared.client.apple_silicon(zone).get_server(&of.id).await {
        Ok(host) => Ok(Some((host.name, host.status.as_str().to_owned()))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Error::scaleway("reading a host", error)),
    }
}

/// Whether a server is there, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Here,
    Gone,
    /// In words.
    Unseen(String),
}

/// What is known of servers: from the listing those that are there, and what was read by id since.
#[derive(Debug, Default)]
pub(super) struct Servers(BTreeMap<String, Presence>);

impl Servers {
    pub(super) fn of(listed: &[Listed]) -> Self {
        let servers = listed.iter().filter(|resource| resource.name.kind == ResourceKind::Server);
        Self(servers.map(|server| (server.name.id.clone(), Presence::Here)).collect())
    }

    pub(super) fn get(&self, id: &str) -> Option<&Presence> {
        self.0.get(id)
    }

    pub(super) fn set(&mut self, id: &str, presence: Presence) {
        self.0.insert(id.to_owned(), presence);
    }

    /// Reads a server by its id.
    pub(super) async fn ask(&mut self, shared: &Shared, zone: &Zone, id: &str) {
        let instance = shared.client.instance(zone);
        let presence = match read_or_absent(|| instance.get_server(id)).await {
            Ok(Some(_)) => Presence::Here,
            Ok(None) => Presence::Gone,
            Err(error) => Presence::Unseen(error.to_string()),
        };
        self.set(id, presence);
    }
}
