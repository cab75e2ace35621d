//! What exists of an operation: from the journal, by tag search, and on the servers themselves. Everything is read
//! from Scaleway at the time of asking, and judged by [`Claims`] on our side.

use std::collections::BTreeSet;

use windlass_policy::slots::rollback::Evidence;
use windlass_scaleway::types::block::{BlockVolume, ListBlockVolumes};
use windlass_scaleway::types::instance::{
    Ip, ListIps, ListServers, ListVolumes, PrivateNic, Server, ServerVolume, Volume,
};

use crate::journal::note::Note;
use crate::journal::{ResourceKind, ResourceName};
use crate::ownership::{Candidate, Claims, Provenance, volume_name};
use crate::run::{Asked, Run};
use crate::stop::Stop;
use crate::tags;

/// What to look for.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// What the journal proves, and so names.
    pub(crate) claims: Claims,
    /// Part of what stays: not spoken of.
    pub(crate) spare: BTreeSet<String>,
    /// Kept on purpose by this operation, whether or not it could be marked.
    pub(crate) kept: BTreeSet<String>,
    /// Volumes of unknown types that came with our servers and that neither API shows: nobody knows whether they are
    /// there.
    pub(crate) unplaced: BTreeSet<ResourceName>,
}

impl Scope {
    pub(crate) fn new(claims: Claims) -> Self {
        Self { claims, spare: BTreeSet::new(), kept: BTreeSet::new(), unplaced: BTreeSet::new() }
    }
}

/// What it is, as it was shown, with the evidence that it is ours.
#[derive(Clone, Debug)]
pub(crate) enum Thing {
    Server(Box<Candidate<Server>>),
    Ip(Box<Candidate<Ip>>),
    BlockVolume(Box<Candidate<BlockVolume>>),
    LocalVolume(Box<Candidate<Volume>>),
    PrivateNic(Box<Candidate<PrivateNic>>),
    /// Not proven ours, on a server that is: it may be taken off, and survives.
    Attached(Box<Candidate<Server>>),
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
        !matches!(self.thing, Thing::Attached(_))
    }

    pub(crate) fn provenance(&self) -> Option<Provenance> {
        match &self.thing {
            Thing::Server(owned) => Some(owned.provenance()),
            Thing::Ip(owned) => Some(owned.provenance()),
            Thing::BlockVolume(owned) => Some(owned.provenance()),
            Thing::LocalVolume(owned) => Some(owned.provenance()),
            Thing::PrivateNic(owned) => Some(owned.provenance()),
            Thing::Attached(_) => None,
        }
    }
}

fn evidence(provenance: Provenance) -> Evidence {
    match provenance {
        Provenance::Outcome | Provenance::TagAndId => Evidence::Journal,
        Provenance::LostAnswer => Evidence::TagSearch,
        Provenance::PartOfServer => Evidence::Attachment,
    }
}

/// Looks for everything in the scope. Journals what is ours of it, so that a successor knows volumes that lose their
/// server before they carry a tag.
pub(crate) async fn gather(run: &Run, scope: &mut Scope) -> Result<Vec<Found>, Stop> {
    let mut look =
        Look { run, claims: &mut scope.claims, found: Vec::new(), seen: BTreeSet::new(), unplaced: BTreeSet::new() };
    let tagged = look.search().await?;
    // Servers first: whether an address or a volume is in use depends on whose server it is attached to.
    tagged.servers.into_iter().for_each(|server| look.server(server));
    look.known_servers().await?;
    look.private_nics();
    tagged.ips.into_iter().for_each(|ip| look.ip(ip));
    tagged.block_volumes.into_iter().for_each(|volume| look.block_volume(volume));
    tagged.local_volumes.into_iter().for_each(|volume| look.local_volume(volume));
    look.volumes_of_servers().await?;
    look.known_others().await?;
    let found = look.found;
    scope.unplaced = look.unplaced;
    if !found.is_empty() {
        let (mut made, mut tagged, mut attached) = (Vec::new(), Vec::new(), Vec::new());
        for found in &found {
            match found.provenance() {
                Some(provenance) => {
                    scope.claims.confirm(found.name.clone(), provenance);
                    let list = if provenance == Provenance::Outcome { &mut made } else { &mut tagged };
                    list.push(found.name.clone());
                }
                None => attached.push(found.name.clone()),
            }
        }
        run.note(Note::Looked { made, tagged, attached }, None).await?;
    }
    Ok(found)
}

/// What carries the operation's tag and ours. That something is not among it says nothing.
#[derive(Default)]
struct Tagged {
    servers: Vec<Server>,
    ips: Vec<Ip>,
    local_volumes: Vec<Volume>,
    block_volumes: Vec<BlockVolume>,
}

struct Look<'a> {
    run: &'a Run,
    claims: &'a mut Claims,
    found: Vec<Found>,
    seen: BTreeSet<String>,
    unplaced: BTreeSet<ResourceName>,
}

impl Look<'_> {
    fn name(&self, kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.to_owned(), zone: self.run.zone.to_string(), server: None }
    }

    fn push(&mut self, found: Found) {
        if self.seen.insert(found.name.id.clone()) {
            self.found.push(found);
        }
    }

    async fn search(&self) -> Result<Tagged, Stop> {
        let run = self.run;
        let Some(operation) = self.claims.operation() else {
            return Ok(Tagged::default());
        };
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
        let mut tagged =
            Tagged { servers: servers?, ips: ips?, local_volumes: local_volumes?, block_volumes: block_volumes? };
        tagged.servers.retain(|server| server.has_all_tags(&wanted));
        tagged.ips.retain(|ip| ip.has_all_tags(&wanted));
        tagged.local_volumes.retain(|volume| volume.has_all_tags(&wanted));
        tagged.block_volumes.retain(|volume| volume.has_all_tags(&wanted));
        Ok(tagged)
    }

    /// Takes a server in when it is ours, with the volumes that came into being with it. Another one is nobody's
    /// business here, whatever tags it carries.
    fn server(&mut self, server: Server) {
        let (label, state, kept) = (server.name.clone(), server.state.as_str().to_owned(), tags::is_kept(&server.tags));
        let id = server.id.clone();
        let Some(owned) = self.claims.server(server) else {
            return self.claims.give_up(&id);
        };
        let name = self.name(ResourceKind::Server, &owned.get().id);
        for volume in self.claims.volumes_of(&owned, self.run.zone.as_str()) {
            self.claims.made(volume);
        }
        self.claims.confirm(name.clone(), owned.provenance());
        let evidence = evidence(owned.provenance());
        let thing = Thing::Server(Box::new(owned));
        self.push(Found { name, label, state, attached_to: None, evidence, thing, kept });
    }

    fn ip(&mut self, ip: Ip) {
        let label = ip.address.clone().or_else(|| ip.prefix.clone()).unwrap_or_default();
        let (state, attached_to, kept) =
            (ip.state.as_str().to_owned(), ip.server.as_ref().map(|server| server.id.clone()), tags::is_kept(&ip.tags));
        let Some(owned) = self.claims.ip(ip) else { return };
        let name = self.name(ResourceKind::Ip, &owned.get().id);
        let evidence = evidence(owned.provenance());
        self.push(Found { name, label, state, attached_to, evidence, thing: Thing::Ip(Box::new(owned)), kept });
    }

    fn block_volume(&mut self, volume: BlockVolume) {
        let (label, state, kept) =
            (volume.name.clone(), volume.status.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.references.first().map(|reference| reference.product_resource_id.clone());
        let Some(owned) = self.claims.block_volume(volume) else { return };
        let name = self.name(ResourceKind::BlockVolume, &owned.get().id);
        let evidence = evidence(owned.provenance());
        let thing = Thing::BlockVolume(Box::new(owned));
        self.push(Found { name, label, state, attached_to, evidence, thing, kept });
    }

    fn local_volume(&mut self, volume: Volume) {
        let (label, state, kept) = (volume.name.clone(), volume.state.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.server.as_ref().map(|server| server.id.clone());
        let Some(owned) = self.claims.local_volume(volume) else { return };
        let name = self.name(ResourceKind::LocalVolume, &owned.get().id);
        let evidence = evidence(owned.provenance());
        let thing = Thing::LocalVolume(Box::new(owned));
        self.push(Found { name, label, state, attached_to, evidence, thing, kept });
    }

    /// The servers that the journal knows and the search left out.
    async fn known_servers(&mut self) -> Result<(), Stop> {
        let servers: Vec<ResourceName> = self.claims.servers().map(|id| self.name(ResourceKind::Server, id)).collect();
        self.read_all(servers).await.map(drop)
    }

    /// Reads all of these that were not seen, and takes in what is ours. Those that are proven absent are given back.
    /// Absence takes two answers; who was answered so for the first time is asked again after one wait for all.
    async fn read_all(&mut self, names: Vec<ResourceName>) -> Result<Vec<ResourceName>, Stop> {
        let (mut absent, mut again) = (Vec::new(), Vec::new());
        for name in names {
            if self.seen.contains(&name.id) {
                continue;
            }
            match self.read(&name).await? {
                Read::Here => {}
                Read::Absent => absent.push(name),
                Read::SaidAbsent => again.push(name),
            }
        }
        if !again.is_empty() {
            self.run.sleep("look", self.run.shared.limits.poll_interval).await?;
        }
        for name in again {
            if let Read::Absent = self.read(&name).await? {
                absent.push(name);
            }
        }
        Ok(absent)
    }

    async fn read(&mut self, name: &ResourceName) -> Result<Read, Stop> {
        let (run, id) = (self.run, name.id.as_str());
        let instance = run.shared.client.instance(&run.zone);
        match name.kind {
            ResourceKind::Server => {
                let asked = run.ask("get-server", id, || instance.get_server(id)).await?;
                Ok(Read::of(asked, |server| self.server(server)))
            }
            ResourceKind::Ip => {
                let asked = run.ask("get-ip", id, || instance.get_ip(id)).await?;
                Ok(Read::of(asked, |ip| self.ip(ip)))
            }
            ResourceKind::BlockVolume => {
                let block = run.shared.client.block(&run.zone);
                let asked = run.ask("get-block-volume", id, || block.get_volume(id)).await?;
                Ok(Read::of(asked, |volume| self.block_volume(volume)))
            }
            ResourceKind::LocalVolume => {
                let asked = run.ask("get-local-volume", id, || instance.get_volume(id)).await?;
                Ok(Read::of(asked, |volume| self.local_volume(volume)))
            }
            // Which API would hold it is not known, so both are asked, and what both say proves nothing.
            ResourceKind::Volume => {
                for kind in [ResourceKind::BlockVolume, ResourceKind::LocalVolume] {
                    let name = ResourceName { kind, ..name.clone() };
                    if let Read::Here = Box::pin(self.read(&name)).await? {
                        return Ok(Read::Here);
                    }
                }
                if self.claims.knows_as_made(id) {
                    self.unplaced.insert(name.clone());
                }
                Ok(Read::Absent)
            }
            // A NIC exists with its server only, and shows there. Hosts are never undone by a plan.
            ResourceKind::PrivateNic | ResourceKind::AppleSiliconServer => Ok(Read::Here),
        }
    }

    fn servers(&self) -> Vec<Candidate<Server>> {
        self.found
            .iter()
            .filter_map(|found| match &found.thing {
                Thing::Server(server) => Some((**server).clone()),
                _ => None,
            })
            .collect()
    }

    fn private_nics(&mut self) {
        for server in self.servers() {
            let id = &server.get().id;
            for nic in &server.get().private_nics {
                let mut nic = nic.clone();
                if nic.server_id.is_empty() {
                    nic.server_id.clone_from(id);
                }
                let name = ResourceName { server: Some(id.clone()), ..self.name(ResourceKind::PrivateNic, &nic.id) };
                let state = nic.state.as_str().to_owned();
                let Some(owned) = Candidate::of_server(nic, &server) else { continue };
                self.push(Found {
                    name,
                    label: String::new(),
                    state,
                    attached_to: Some(id.clone()),
                    evidence: evidence(owned.provenance()),
                    thing: Thing::PrivateNic(Box::new(owned)),
                    kept: false,
                });
            }
        }
    }

    /// What is attached to the servers and the search left out.
    async fn volumes_of_servers(&mut self) -> Result<(), Stop> {
        for server in self.servers() {
            for volume in server.get().volumes.values() {
                if self.seen.contains(&volume.id) {
                    continue;
                }
                let name = volume_name(volume, self.run.zone.as_str());
                // Of what was there before nothing is asked: it is not ours. One of an unknown type hangs there as the
                // server says, whatever the two APIs say.
                let unknown = name.kind == ResourceKind::Volume;
                let gone = !self.claims.existed(&volume.id) && !self.read_all(vec![name.clone()]).await?.is_empty();
                if unknown || !gone {
                    self.attached(name, volume, &server);
                }
            }
        }
        Ok(())
    }

    /// Something on a server of ours, unless it has proven to be ours itself.
    fn attached(&mut self, name: ResourceName, volume: &ServerVolume, server: &Candidate<Server>) {
        self.push(Found {
            name,
            label: volume.name.clone(),
            state: volume.state.as_str().to_owned(),
            attached_to: Some(server.get().id.clone()),
            evidence: Evidence::Attachment,
            thing: Thing::Attached(Box::new(server.clone())),
            kept: false,
        });
    }

    /// What else the journal knows and nothing has shown.
    async fn known_others(&mut self) -> Result<(), Stop> {
        // Servers were looked at before.
        let is_other = |name: &&ResourceName| name.kind != ResourceKind::Server;
        let names: Vec<ResourceName> = self.claims.known().filter(is_other).cloned().collect();
        self.read_all(names).await.map(drop)
    }
}

/// What a read of something by its id says.
enum Read {
    Here,
    /// It is not there, for the first time.
    SaidAbsent,
    Absent,
}

impl Read {
    fn of<T>(asked: Asked<T>, take: impl FnOnce(T)) -> Self {
        match asked {
            Asked::Here(value) => {
                take(value);
                Self::Here
            }
            Asked::SaidAbsent => Self::SaidAbsent,
            Asked::Absent => Self::Absent,
        }
    }
}
