//! What exists of an operation: from the journal, from the server itself, and by tag search. Everything is read from
//! Scaleway at the time of asking, and the owner tag is checked on our side.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_policy::slots::rollback::Evidence;
use windlass_scaleway::types::block::{BlockVolume, ListBlockVolumes};
use windlass_scaleway::types::instance::{
    Ip, ListIps, ListServers, ListVolumes, PrivateNic, Server, Volume, VolumeType,
};

use crate::identifier::OperationId;
use crate::journal::{Entry, Phase, ResourceKind, ResourceName};
use crate::run::{Run, Stop};
use crate::tags::{self, Owned};

/// The step under which a look at what exists is journalled.
pub(crate) const LOOK: &str = "look";

/// What the journal proves: the resources that our own answered calls made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    volumes: BTreeSet<String>,
    known: BTreeMap<String, ResourceName>,
}

impl Made {
    #[cfg(test)]
    pub(crate) fn of_volumes<const N: usize>(ids: [&str; N]) -> Self {
        Self { volumes: ids.iter().map(|&id| id.to_owned()).collect(), known: BTreeMap::new() }
    }

    /// Reads an operation's entries. `existing` are volumes that were there before: never ours, whatever an entry says.
    pub(crate) fn from_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>, existing: &BTreeSet<String>) -> Self {
        let mut made = Self::default();
        for entry in entries {
            let creation = entry.phase == Phase::Outcome && entry.step.starts_with("create-");
            if creation && let Some(resource) = &entry.resource {
                made.add(resource.clone());
            }
            let listed = match (entry.phase, entry.step.as_str()) {
                (Phase::Outcome, "create-server") => &entry.data["volumes"],
                (Phase::Note, LOOK) => &entry.data["resources"],
                _ => continue,
            };
            for resource in listed.as_array().into_iter().flatten() {
                if let Ok(resource) = serde_json::from_value::<ResourceName>(resource.clone()) {
                    made.add(resource);
                }
            }
        }
        for id in existing {
            made.volumes.remove(id);
            made.known.remove(id);
        }
        made
    }

    fn add(&mut self, resource: ResourceName) {
        if matches!(resource.kind, ResourceKind::BlockVolume | ResourceKind::LocalVolume) {
            self.volumes.insert(resource.id.clone());
        }
        self.known.insert(resource.id.clone(), resource);
    }

    pub(crate) fn prove_volume(&mut self, name: &ResourceName) {
        self.volumes.insert(name.id.clone());
    }

    pub(crate) fn absorb(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.known.extend(other.known);
    }

    pub(crate) fn volume(&self, id: &str) -> bool {
        self.volumes.contains(id)
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &ResourceName> {
        self.known.values()
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// The servers among what was made.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.known
            .values()
            .filter(|resource| resource.kind == ResourceKind::Server)
            .map(|resource| resource.id.as_str())
    }
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// By this operation's tag.
    pub(crate) operation: Option<OperationId>,
    /// By these ids beside those that `made` knows.
    pub(crate) names: Vec<ResourceName>,
    /// What the journal proves.
    pub(crate) made: Made,
    /// Whether the journal knows the server's creation, and so which of its volumes were there before.
    pub(crate) journalled: bool,
    /// Volumes that were there before.
    pub(crate) existing: BTreeSet<String>,
    /// Not to be touched: kept, or part of what stays.
    pub(crate) spare: BTreeSet<String>,
}

/// A resource as it was just read, with the proof of ownership where there is one.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    Server(Box<Owned<Server>>),
    Ip(Box<Owned<Ip>>),
    BlockVolume(Box<Owned<BlockVolume>>),
    LocalVolume(Box<Owned<Volume>>),
    PrivateNic(Box<Owned<PrivateNic>>),
    /// Not ours: it may be detached, never deleted.
    Foreign,
}

/// Something that exists.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: ResourceName,
    pub(crate) label: String,
    pub(crate) state: String,
    /// The server that it is attached to.
    pub(crate) attached_to: Option<String>,
    pub(crate) evidence: Evidence,
    pub(crate) thing: Thing,
    /// Marked as kept on purpose.
    pub(crate) kept: bool,
}

impl Found {
    pub(crate) fn owned(&self) -> bool {
        !matches!(self.thing, Thing::Foreign)
    }
}

/// The kind of a volume in a server's map.
pub(crate) fn volume_kind(volume_type: &VolumeType) -> ResourceKind {
    match volume_type {
        VolumeType::BlockStorage => ResourceKind::BlockVolume,
        _ => ResourceKind::LocalVolume,
    }
}

/// Looks for everything in the scope. Journals what it found, so that a successor knows volumes that lose their server
/// before they carry a tag.
pub(crate) async fn gather(run: &Run, scope: &mut Scope) -> Result<Vec<Found>, Stop> {
    let mut look = Look::new(run);
    if let Some(operation) = &scope.operation {
        look.by_tag(operation).await?;
    }
    let names: Vec<ResourceName> = scope.made.known().chain(&scope.names).cloned().collect();
    look.servers_by_id(&names).await?;
    look.attached(scope).await?;
    look.rest_by_id(&names, scope).await?;
    let found = look.found;
    if !found.is_empty() {
        // A volume of ours that hangs on a server of ours is proven from here on, also when the server is gone.
        let ours: Vec<&ResourceName> = found.iter().filter(|f| f.owned()).map(|f| &f.name).collect();
        let foreign: Vec<&ResourceName> = found.iter().filter(|f| !f.owned()).map(|f| &f.name).collect();
        for name in &ours {
            scope.made.add((*name).clone());
        }
        run.write(LOOK, Phase::Note, None, json!({ "resources": ours, "foreign": foreign })).await?;
    }
    Ok(found)
}

struct Look<'a> {
    run: &'a Run,
    found: Vec<Found>,
    seen: BTreeSet<String>,
}

impl<'a> Look<'a> {
    fn new(run: &'a Run) -> Self {
        Self { run, found: Vec::new(), seen: BTreeSet::new() }
    }

    fn name(&self, kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.to_owned(), zone: self.run.zone.to_string(), server: None }
    }

    fn push(&mut self, found: Found) {
        if self.seen.insert(found.name.id.clone()) {
            self.found.push(found);
        }
    }

    fn server(&mut self, server: Server, evidence: Evidence) {
        let (label, state, kept) = (server.name.clone(), server.state.as_str().to_owned(), tags::is_kept(&server.tags));
        let name = self.name(ResourceKind::Server, &server.id);
        let thing = Owned::by_tag(server, &self.run.shared.owner)
            .map_or(Thing::Foreign, |owned| Thing::Server(Box::new(owned)));
        self.push(Found { name, label, state, attached_to: None, evidence, thing, kept });
    }

    fn ip(&mut self, ip: Ip, evidence: Evidence) {
        let label = ip.address.clone().or_else(|| ip.prefix.clone()).unwrap_or_default();
        let name = self.name(ResourceKind::Ip, &ip.id);
        let (state, attached_to, kept) =
            (ip.state.as_str().to_owned(), ip.server.as_ref().map(|server| server.id.clone()), tags::is_kept(&ip.tags));
        let thing =
            Owned::by_tag(ip, &self.run.shared.owner).map_or(Thing::Foreign, |owned| Thing::Ip(Box::new(owned)));
        self.push(Found { name, label, state, attached_to, evidence, thing, kept });
    }

    fn block_volume(&mut self, volume: BlockVolume, evidence: Evidence, scope: Option<&Scope>) {
        let name = self.name(ResourceKind::BlockVolume, &volume.id);
        let (label, state, kept) =
            (volume.name.clone(), volume.status.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.references.first().map(|r| r.product_resource_id.clone());
        let proven = if tags::carries_owner(&volume.tags, &self.run.shared.owner) {
            Owned::by_tag(volume, &self.run.shared.owner)
        } else {
            scope.and_then(|scope| Owned::<BlockVolume>::by_journal(volume, &scope.made))
        };
        self.push(Found {
            name,
            label,
            state,
            attached_to,
            evidence,
            thing: proven.map_or(Thing::Foreign, |owned| Thing::BlockVolume(Box::new(owned))),
            kept,
        });
    }

    fn local_volume(&mut self, volume: Volume, evidence: Evidence, scope: Option<&Scope>) {
        let name = self.name(ResourceKind::LocalVolume, &volume.id);
        let (label, state, kept) = (volume.name.clone(), volume.state.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.server.as_ref().map(|server| server.id.clone());
        let proven = if tags::carries_owner(&volume.tags, &self.run.shared.owner) {
            Owned::by_tag(volume, &self.run.shared.owner)
        } else {
            scope.and_then(|scope| Owned::<Volume>::by_journal(volume, &scope.made))
        };
        self.push(Found {
            name,
            label,
            state,
            attached_to,
            evidence,
            thing: proven.map_or(Thing::Foreign, |owned| Thing::LocalVolume(Box::new(owned))),
            kept,
        });
    }

    /// Everything that carries the operation's tag and ours.
    async fn by_tag(&mut self, operation: &OperationId) -> Result<(), Stop> {
        let run = self.run;
        let wanted = vec![tags::owner_tag(&run.shared.owner), tags::operation_tag(operation)];
        let instance = run.shared.client.instance(&run.zone);
        let block = run.shared.client.block(&run.zone);
        let servers = ListServers { tags: wanted.clone(), ..ListServers::default() };
        let ips = ListIps { tags: wanted.clone(), ..ListIps::default() };
        let local_volumes = ListVolumes { tags: wanted.clone(), ..ListVolumes::default() };
        // Block Storage matches any of the tags: the narrower one is asked for.
        let block_volumes = ListBlockVolumes { tags: wanted[1..].to_vec(), ..ListBlockVolumes::default() };
        let (servers, ips, local_volumes, block_volumes) = futures::join!(
            run.look("list-servers", || instance.list_servers(&servers)),
            run.look("list-ips", || instance.list_ips(&ips)),
            run.look("list-local-volumes", || instance.list_volumes(&local_volumes)),
            run.look("list-block-volumes", || block.list_volumes(&block_volumes)),
        );
        for server in servers? {
            if server.has_all_tags(&wanted) {
                self.server(server, Evidence::TagSearch);
            }
        }
        for ip in ips? {
            if ip.has_all_tags(&wanted) {
                self.ip(ip, Evidence::TagSearch);
            }
        }
        for volume in block_volumes? {
            if volume.has_all_tags(&wanted) {
                self.block_volume(volume, Evidence::TagSearch, None);
            }
        }
        for volume in local_volumes? {
            if volume.has_all_tags(&wanted) {
                self.local_volume(volume, Evidence::TagSearch, None);
            }
        }
        Ok(())
    }

    /// The servers that the journal knows and the search left out.
    async fn servers_by_id(&mut self, names: &[ResourceName]) -> Result<(), Stop> {
        let instance = self.run.shared.client.instance(&self.run.zone);
        for name in names {
            if name.kind == ResourceKind::Server && !self.seen.contains(&name.id) {
                let server = self.run.look_one("get-server", || instance.get_server(&name.id)).await?;
                if let Some(server) = server {
                    self.server(server, Evidence::Journal);
                }
            }
        }
        Ok(())
    }

    /// What hangs on the servers.
    async fn attached(&mut self, scope: &mut Scope) -> Result<(), Stop> {
        let servers: Vec<Owned<Server>> = self
            .found
            .iter()
            .filter_map(|found| match &found.thing {
                Thing::Server(server) => Some((**server).clone()),
                _ => None,
            })
            .collect();
        for server in &servers {
            for nic in &server.get().private_nics {
                let mut name = self.name(ResourceKind::PrivateNic, &nic.id);
                name.server = Some(server.get().id.clone());
                let mut nic = nic.clone();
                if nic.server_id.is_empty() {
                    nic.server_id.clone_from(&server.get().id);
                }
                let state = nic.state.as_str().to_owned();
                let thing = Owned::<PrivateNic>::by_server(nic, server)
                    .map_or(Thing::Foreign, |nic| Thing::PrivateNic(Box::new(nic)));
                self.push(Found {
                    name,
                    label: String::new(),
                    state,
                    attached_to: Some(server.get().id.clone()),
                    evidence: Evidence::Attachment,
                    thing,
                    kept: false,
                });
            }
            let ours = scope.journalled
                && scope.operation.is_some()
                && tags::operation_of(&server.get().tags) == scope.operation;
            for volume in server.get().volumes.values() {
                if self.seen.contains(&volume.id) {
                    continue;
                }
                let name = self.name(volume_kind(&volume.volume_type), &volume.id);
                if scope.existing.contains(&volume.id) {
                    self.push(Found {
                        name,
                        label: volume.name.clone(),
                        state: volume.state.as_str().to_owned(),
                        attached_to: Some(server.get().id.clone()),
                        evidence: Evidence::Attachment,
                        thing: Thing::Foreign,
                        kept: false,
                    });
                    continue;
                }
                if ours {
                    // The journal knows which volumes were there before; this one was not.
                    scope.made.add(name.clone());
                }
                self.volume_by_id(&name, Evidence::Attachment, scope).await?;
            }
        }
        Ok(())
    }

    async fn volume_by_id(&mut self, name: &ResourceName, evidence: Evidence, scope: &Scope) -> Result<(), Stop> {
        if name.kind == ResourceKind::BlockVolume {
            let block = self.run.shared.client.block(&self.run.zone);
            let volume = self.run.look_one("get-block-volume", || block.get_volume(&name.id)).await?;
            if let Some(volume) = volume {
                self.block_volume(volume, evidence, Some(scope));
            }
        } else {
            let instance = self.run.shared.client.instance(&self.run.zone);
            let volume = self.run.look_one("get-local-volume", || instance.get_volume(&name.id)).await?;
            if let Some(volume) = volume {
                self.local_volume(volume, evidence, Some(scope));
            }
        }
        Ok(())
    }

    /// What the journal knows and nothing else has shown.
    async fn rest_by_id(&mut self, names: &[ResourceName], scope: &Scope) -> Result<(), Stop> {
        let instance = self.run.shared.client.instance(&self.run.zone);
        for name in names {
            if self.seen.contains(&name.id) {
                continue;
            }
            match name.kind {
                ResourceKind::Ip => {
                    let ip = self.run.look_one("get-ip", || instance.get_ip(&name.id)).await?;
                    if let Some(ip) = ip {
                        self.ip(ip, Evidence::Journal);
                    }
                }
                ResourceKind::BlockVolume | ResourceKind::LocalVolume => {
                    self.volume_by_id(name, Evidence::Journal, scope).await?;
                }
                // Servers were looked at before; a NIC exists with its server only, and shows there.
                // Hosts are never undone by a plan.
                ResourceKind::Server | ResourceKind::PrivateNic | ResourceKind::AppleSiliconServer => {}
            }
        }
        Ok(())
    }
}

/// The volumes of a freshly created server that came into being with it.
pub(crate) fn volumes_made(server: &Server, zone: &str, existing: &BTreeSet<String>) -> Vec<ResourceName> {
    server
        .volumes
        .values()
        .filter(|volume| !existing.contains(&volume.id))
        .map(|volume| ResourceName {
            kind: volume_kind(&volume.volume_type),
            id: volume.id.clone(),
            zone: zone.to_owned(),
            server: None,
        })
        .collect()
}

pub(crate) fn names_json(names: &[ResourceName]) -> Value {
    serde_json::to_value(names).unwrap_or(Value::Null)
}
