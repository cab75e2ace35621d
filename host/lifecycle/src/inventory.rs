//! What exists of an operation: from the journal, by tag search, and on the servers themselves. Everything is read
//! from Scaleway at the time of asking, and judged by [`Claims`] on our side.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
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
    /// What the journal names, and the latest look showed to be there and no longer ours. A server that is so once is
    /// not looked at again.
    pub(crate) not_ours: BTreeSet<ResourceName>,
    /// What could not be seen. It is not asked for again: that is for the next try of the operation.
    pub(crate) unseen: Unseen,
    /// The server as it was read by its id to be judged. The look that follows at once takes it in without a read of
    /// its own.
    pub(crate) judged: Option<Box<Server>>,
}

impl Scope {
    pub(crate) fn new(claims: Claims) -> Self {
        Self {
            claims,
            spare: BTreeSet::new(),
            kept: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            not_ours: BTreeSet::new(),
            unseen: Unseen::default(),
            judged: None,
        }
    }
}

/// What could not be seen, and why.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unseen {
    /// Lists of these kinds, in which something may stand that the journal does not name.
    lists: BTreeMap<ResourceKind, String>,
    /// Resources that the journal names.
    resources: BTreeMap<ResourceName, String>,
}

impl Unseen {
    /// Why a list could not be read.
    pub(crate) fn list(&self) -> Option<&String> {
        self.lists.values().next()
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = (&ResourceName, &String)> + Clone {
        self.resources.iter()
    }

    pub(crate) fn holds(&self, id: &str) -> bool {
        self.resources.keys().any(|name| name.id == id)
    }
}

/// What it is, as it was shown, with the evidence that it is ours.
#[derive(Clone, Debug)]
pub(crate) enum OwnedResource {
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
    pub(crate) thing: OwnedResource,
    /// Marked as kept on purpose.
    pub(crate) kept: bool,
}

impl Found {
    pub(crate) fn owned(&self) -> bool {
        !matches!(self.thing, OwnedResource::Attached(_))
    }

    pub(crate) fn provenance(&self) -> Option<Provenance> {
        match &self.thing {
            OwnedResource::Server(owned) => Some(owned.provenance()),
            OwnedResource::Ip(owned) => Some(owned.provenance()),
            OwnedResource::BlockVolume(owned) => Some(owned.provenance()),
            OwnedResource::LocalVolume(owned) => Some(owned.provenance()),
            OwnedResource::PrivateNic(owned) => Some(owned.provenance()),
            OwnedResource::Attached(_) => None,
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
///
/// What the journal names is read by its id. Lists only add what lost answers have made, so they are asked for where
/// an answer may have been lost. What cannot be seen is noted in the scope, and hides nothing else.
pub(crate) async fn gather(run: &Run, scope: &mut Scope) -> Result<Vec<Found>, Stop> {
    scope.not_ours.retain(|name| name.kind == ResourceKind::Server);
    let mut look = Look {
        run,
        claims: &mut scope.claims,
        unseen: &mut scope.unseen,
        not_ours: &mut scope.not_ours,
        found: Vec::new(),
        seen: BTreeSet::new(),
        unplaced: BTreeSet::new(),
    };
    let tagged = look.search().await?;
    // Servers first: whether an address or a volume is in use depends on whose server it is attached to.
    tagged.servers.into_iter().for_each(|server| look.server(server));
    if let Some(server) = scope.judged.take().filter(|server| !look.seen.contains(&server.id)) {
        look.server(*server);
    }
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
    unseen: &'a mut Unseen,
    not_ours: &'a mut BTreeSet<ResourceName>,
    found: Vec<Found>,
    seen: BTreeSet<String>,
    unplaced: BTreeSet<ResourceName>,
}

impl Look<'_> {
    fn name(&self, kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.to_owned(), zone: self.run.zone.to_string(), server: None }
    }

    /// Notes what is there and not ours, where the journal names it.
    fn not_ours(&mut self, kind: ResourceKind, id: &str) {
        if self.claims.knows(id) {
            self.not_ours.insert(self.name(kind, id));
        }
    }

    fn push(&mut self, found: Found) {
        if self.seen.insert(found.name.id.clone()) {
            self.found.push(found);
        }
    }

    async fn search(&mut self) -> Result<Tagged, Stop> {
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
            self.list(ResourceKind::Server, "list-servers", || instance.list_servers(&servers)),
            self.list(ResourceKind::Ip, "list-ips", || instance.list_ips(&ips)),
            self.list(ResourceKind::LocalVolume, "list-local-volumes", || instance.list_volumes(&local_volumes)),
            self.list(ResourceKind::BlockVolume, "list-block-volumes", || block.list_volumes(&block_volumes)),
        );
        let mut tagged = Tagged {
            servers: self.listed(ResourceKind::Server, servers)?,
            ips: self.listed(ResourceKind::Ip, ips)?,
            local_volumes: self.listed(ResourceKind::LocalVolume, local_volumes)?,
            block_volumes: self.listed(ResourceKind::BlockVolume, block_volumes)?,
        };
        tagged.servers.retain(|server| server.has_all_tags(&wanted));
        tagged.ips.retain(|ip| ip.has_all_tags(&wanted));
        tagged.local_volumes.retain(|volume| volume.has_all_tags(&wanted));
        tagged.block_volumes.retain(|volume| volume.has_all_tags(&wanted));
        Ok(tagged)
    }

    /// The list of a kind, where something may stand in it that the journal does not name.
    async fn list<T, Fut>(&self, kind: ResourceKind, step: &str, list: impl FnMut() -> Fut) -> Result<Vec<T>, Stop>
    where
        Fut: Future<Output = Result<Vec<T>, windlass_scaleway::Error>>,
    {
        if !self.claims.may_have_lost(kind) || self.unseen.lists.contains_key(&kind) {
            return Ok(Vec::new());
        }
        self.run.look(step, list).await
    }

    /// Notes a list that could not be read.
    fn listed<T>(&mut self, kind: ResourceKind, listed: Result<Vec<T>, Stop>) -> Result<Vec<T>, Stop> {
        listed.or_else(|stop| {
            let why = why(stop)?;
            if !self.claims.was_refused(kind) {
                self.unseen.lists.insert(kind, why);
            }
            Ok(Vec::new())
        })
    }

    /// Takes a server in when it is ours, with the volumes that came into being with it. Another one is nobody's
    /// business here, whatever tags it carries.
    fn server(&mut self, server: Server) {
        let (label, state, kept) = (server.name.clone(), server.state.as_str().to_owned(), tags::is_kept(&server.tags));
        let id = server.id.clone();
        let Some(owned) = self.claims.server(server) else {
            self.not_ours(ResourceKind::Server, &id);
            return self.claims.give_up(&id);
        };
        let name = self.name(ResourceKind::Server, &owned.get().id);
        for volume in self.claims.volumes_of(&owned, self.run.zone.as_str()) {
            self.claims.made(volume);
        }
        self.claims.confirm(name.clone(), owned.provenance());
        let evidence = evidence(owned.provenance());
        let thing = OwnedResource::Server(Box::new(owned));
        self.push(Found { name, label, state, attached_to: None, evidence, thing, kept });
    }

    fn ip(&mut self, ip: Ip) {
        let label = ip.address.clone().or_else(|| ip.prefix.clone()).unwrap_or_default();
        let (state, attached_to, kept) =
            (ip.state.as_str().to_owned(), ip.server.as_ref().map(|server| server.id.clone()), tags::is_kept(&ip.tags));
        let id = ip.id.clone();
        let Some(owned) = self.claims.ip(ip) else { return self.not_ours(ResourceKind::Ip, &id) };
        let name = self.name(ResourceKind::Ip, &owned.get().id);
        let evidence = evidence(owned.provenance());
        self.push(Found { name, label, state, attached_to, evidence, thing: OwnedResource::Ip(Box::new(owned)), kept });
    }

    fn block_volume(&mut self, volume: BlockVolume) {
        let (label, state, kept) =
            (volume.name.clone(), volume.status.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.references.first().map(|reference| reference.product_resource_id.clone());
        let id = volume.id.clone();
        let Some(owned) = self.claims.block_volume(volume) else {
            return self.not_ours(ResourceKind::BlockVolume, &id);
        };
        let name = self.name(ResourceKind::BlockVolume, &owned.get().id);
        let evidence = evidence(owned.provenance());
        let thing = OwnedResource::BlockVolume(Box::new(owned));
        self.push(Found { name, label, state, attached_to, evidence, thing, kept });
    }

    fn local_volume(&mut self, volume: Volume) {
        let (label, state, kept) = (volume.name.clone(), volume.state.as_str().to_owned(), tags::is_kept(&volume.tags));
        let attached_to = volume.server.as_ref().map(|server| server.id.clone());
        let id = volume.id.clone();
        let Some(owned) = self.claims.local_volume(volume) else {
            return self.not_ours(ResourceKind::LocalVolume, &id);
        };
        let name = self.name(ResourceKind::LocalVolume, &owned.get().id);
        let evidence = evidence(owned.provenance());
        let thing = OwnedResource::LocalVolume(Box::new(owned));
        self.push(Found { name, label, state, attached_to, evidence, thing, kept });
    }

    /// The servers that the journal knows and the search left out.
    async fn known_servers(&mut self) -> Result<(), Stop> {
        let servers: Vec<ResourceName> = self.claims.servers().map(|id| self.name(ResourceKind::Server, id)).collect();
        self.read_all(servers).await.map(drop)
    }

    /// Reads all of these that were not seen, and takes in what is ours. Those that are proven absent are given back.
    /// Absence takes two answers with a wait in between, which is one for all. What the operation itself has deleted
    /// was answered once already, so it is asked after that wait only.
    async fn read_all(&mut self, names: Vec<ResourceName>) -> Result<Vec<ResourceName>, Stop> {
        let run = self.run;
        let is_known = |name: &ResourceName| self.seen.contains(&name.id) || self.unseen.holds(&name.id);
        let (mut absent, mut names): (Vec<_>, Vec<_>) =
            names.into_iter().filter(|name| !is_known(name)).partition(|name| run.absences.proves_deletion(&name.id));
        while !names.is_empty() {
            let wait = names.iter().map(|name| run.absences.wait(&name.id)).max().unwrap_or_default();
            if !wait.is_zero() {
                run.sleep("look", wait).await?;
            }
            names = self.read_once(names, &mut absent).await?;
        }
        Ok(absent)
    }

    /// Reads these side by side. Returns those that are said to be absent for the first time.
    async fn read_once(
        &mut self,
        names: Vec<ResourceName>,
        absent: &mut Vec<ResourceName>,
    ) -> Result<Vec<ResourceName>, Stop> {
        let run = self.run;
        let reads = names.into_iter().map(|name| async move {
            let read = read(run, name.kind, &name.id).await;
            (name, read)
        });
        let reads: Vec<_> = stream::iter(reads).buffered(run.shared.limits.parallel_steps.max(1)).collect().await;
        let mut again = Vec::new();
        for (name, read) in reads {
            match read {
                Ok(Asked::Here(Some(resource))) => self.take(resource),
                Ok(Asked::Here(None)) => {}
                Ok(Asked::SaidAbsent) => again.push(name),
                Ok(Asked::Absent) => {
                    let is_unknown = name.kind == ResourceKind::Volume && self.claims.knows_as_made(&name.id);
                    // An earlier operation may have seen it in one of the two.
                    if is_unknown && !run.shared.journal.has_placed(&name.id)? {
                        self.unplaced.insert(name.clone());
                    }
                    absent.push(name);
                }
                Err(stop) => {
                    let why = why(stop)?;
                    // What only hangs on our servers is not to go, and what was proven absent stays so.
                    if self.claims.knows(&name.id) && !run.absences.proves(&name.id) {
                        self.unseen.resources.insert(name, why);
                    }
                }
            }
        }
        Ok(again)
    }

    fn take(&mut self, resource: Resource) {
        match resource {
            Resource::Server(server) => self.server(*server),
            Resource::Ip(ip) => self.ip(*ip),
            Resource::BlockVolume(volume) => self.block_volume(*volume),
            Resource::LocalVolume(volume) => self.local_volume(*volume),
        }
    }

    fn servers(&self) -> Vec<Candidate<Server>> {
        self.found
            .iter()
            .filter_map(|found| match &found.thing {
                OwnedResource::Server(server) => Some((**server).clone()),
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
                    thing: OwnedResource::PrivateNic(Box::new(owned)),
                    kept: false,
                });
            }
        }
    }

    /// What is attached to the servers and the search left out.
    async fn volumes_of_servers(&mut self) -> Result<(), Stop> {
        for server in self.servers() {
            let volumes = server.get().volumes.values().filter(|volume| !self.seen.contains(&volume.id));
            let names: Vec<_> = volumes.map(|it| (volume_name(it, self.run.zone.as_str()), it)).collect();
            // What was there before is not ours, so it is not read.
            let ours = names.iter().filter(|(name, _)| !self.claims.existed(&name.id));
            let gone = self.read_all(ours.map(|(name, _)| name.clone()).collect()).await?;
            for (name, volume) in names {
                // One of an unknown type hangs there as the server says, whatever the two APIs say.
                let is_there = name.kind == ResourceKind::Volume || !gone.contains(&name);
                // Whether a volume is ours is unknown if its server could not be read.
                if is_there && !self.unseen.holds(&name.id) {
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
            thing: OwnedResource::Attached(Box::new(server.clone())),
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

/// A resource as it was read by its id.
enum Resource {
    Server(Box<Server>),
    Ip(Box<Ip>),
    BlockVolume(Box<BlockVolume>),
    LocalVolume(Box<Volume>),
}

/// Reads a resource by its id. Nothing where it has no life of its own: it shows with its server.
async fn read(run: &Run, kind: ResourceKind, id: &str) -> Result<Asked<Option<Resource>>, Stop> {
    let (instance, block) = (run.shared.client.instance(&run.zone), run.shared.client.block(&run.zone));
    Ok(match kind {
        ResourceKind::Server => {
            let asked = run.ask("get-server", id, || instance.get_server(id)).await?;
            asked.map(|server| Some(Resource::Server(Box::new(server))))
        }
        ResourceKind::Ip => {
            let asked = run.ask("get-ip", id, || instance.get_ip(id)).await?;
            asked.map(|ip| Some(Resource::Ip(Box::new(ip))))
        }
        ResourceKind::BlockVolume => {
            let asked = run.ask("get-block-volume", id, || block.get_volume(id)).await?;
            asked.map(|volume| Some(Resource::BlockVolume(Box::new(volume))))
        }
        ResourceKind::LocalVolume => {
            let asked = run.ask("get-local-volume", id, || instance.get_volume(id)).await?;
            asked.map(|volume| Some(Resource::LocalVolume(Box::new(volume))))
        }
        // Which API would hold it is not known, so both are asked, and what both say proves nothing.
        ResourceKind::Volume => {
            for kind in [ResourceKind::BlockVolume, ResourceKind::LocalVolume] {
                if let here @ Asked::Here(_) = Box::pin(read(run, kind, id)).await? {
                    return Ok(here);
                }
            }
            Asked::Absent
        }
        // A NIC exists with its server only. Hosts are never undone by a plan.
        ResourceKind::PrivateNic | ResourceKind::AppleSiliconServer => Asked::Here(None),
    })
}

/// Why something could not be seen. Any other end is the operation's.
fn why(stop: Stop) -> Result<String, Stop> {
    match stop {
        Stop::Failed(failed) => Ok(format!("{}: {}", failed.step, failed.failure.words())),
        other => Err(other),
    }
}
