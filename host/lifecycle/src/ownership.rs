//! What is ours, and why.
//!
//! A tag alone, an attachment, an absence from a listing prove nothing: users copy tags, attach volumes of their own
//! to our servers, and put our addresses on theirs. So each proof is a [`Provenance`], found by [`Claims`] in a
//! resource that was just read from Scaleway. What has none is left alone; on a server of ours it is detached, and
//! survives.

use std::collections::{BTreeMap, BTreeSet};

use windlass_scaleway::types::block::BlockVolume;
use windlass_scaleway::types::instance::{Ip, PrivateNic, Server, ServerState, ServerVolume, Volume};

use crate::Error;
use crate::identifier::{OperationId, OwnerName};
use crate::journal::note::{Note, Record};
use crate::journal::progress::{Doubt, Progress};
use crate::journal::step::{Create, Step};
use crate::journal::{Entry, ResourceKind, ResourceName};
use crate::specification::ServerSpecification;
use crate::tags::{self, Tagged};

/// The position of the volume that a server boots from.
const BOOT: &str = "0";

/// Why a resource is ours to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provenance {
    /// The outcome of the step that made it names it. It needs no tag: a volume that Scaleway makes with a server
    /// gets one only afterwards. Once it has got it, the tag must still be there.
    Outcome,
    /// It carries our owner tag, and our journal holds its id.
    TagAndId,
    /// The answer to its creation may have been lost: it carries the operation's unique tag, and nobody uses it.
    LostAnswer,
    /// It has no life of its own: it is part of a server that is ours.
    PartOfServer,
}

/// A resource as Scaleway showed it, with the evidence that it was ours then: enough to plan with. It allows no change:
/// that takes a read of its own (`change.rs`).
#[derive(Clone, Debug)]
pub(crate) struct Candidate<T> {
    resource: T,
    provenance: Provenance,
}

impl<T> Candidate<T> {
    pub(crate) fn get(&self) -> &T {
        &self.resource
    }

    pub(crate) fn into_inner(self) -> T {
        self.resource
    }

    pub(crate) fn provenance(&self) -> Provenance {
        self.provenance
    }
}

impl Candidate<PrivateNic> {
    /// A private NIC exists with its server only.
    pub(crate) fn of_server(nic: PrivateNic, server: &Candidate<Server>) -> Option<Self> {
        (nic.server_id == server.get().id).then_some(Self { resource: nic, provenance: Provenance::PartOfServer })
    }
}

/// How the journal came to know an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// By the outcome of the step that made it.
    Made,
    /// By its tag, at a look or a sweep, or by the request of whoever asked for its removal: the tag must still be
    /// there.
    Named,
}

/// Creations whose answers may have been lost, so that more may exist than the journal names.
#[derive(Clone, Debug)]
enum Lost {
    /// The journal knows nothing of the operation.
    Everything,
    /// Resources of these kinds.
    Kinds(BTreeMap<ResourceKind, Doubt>),
}

/// What the journal proves to be ours of one operation, or of what a sweep removes.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    owner: OwnerName,
    /// The operation whose tag leads to what lost answers have made.
    operation: Option<OperationId>,
    /// What its creation calls the server, where the journal says so.
    server_name: Option<String>,
    known: BTreeMap<String, (ResourceName, Known)>,
    /// Volumes that carried our tags once: without them, somebody took them over.
    tagged: BTreeSet<String>,
    lost: Lost,
    /// Where a server's creation puts volumes that it makes itself.
    positions: BTreeSet<String>,
    /// Servers whose creation was answered: the answer says which volumes came with them, whatever hangs there today.
    answered: BTreeSet<String>,
    /// Volumes and addresses that were there before: never ours, whatever else is said of them.
    existing: BTreeSet<String>,
    /// Servers that are proven gone: what still shows them is in nobody's use.
    gone: BTreeSet<String>,
}

impl Claims {
    /// On nothing, yet.
    pub(crate) fn none(owner: &OwnerName) -> Self {
        Self {
            owner: owner.clone(),
            operation: None,
            server_name: None,
            known: BTreeMap::new(),
            tagged: BTreeSet::new(),
            lost: Lost::Kinds(BTreeMap::new()),
            positions: BTreeSet::from([BOOT.to_owned()]),
            answered: BTreeSet::new(),
            existing: BTreeSet::new(),
            gone: BTreeSet::new(),
        }
    }

    /// On what a creation of our journal has made.
    pub(crate) fn of_creation(
        owner: &OwnerName,
        id: &OperationId,
        specification: &ServerSpecification,
        entries: &[Entry],
    ) -> Result<Self, Error> {
        let mut claims = Self::none(owner);
        claims.operation = Some(id.clone());
        claims.server_name = Some(specification.server_name(id).to_owned());
        claims.lost = Lost::Kinds(Progress::of(entries)?.doubts());
        claims.positions = specification.positions_made().collect();
        claims.existing = specification.existing_volumes().map(str::to_owned).collect();
        claims.learn(entries)?;
        Ok(claims)
    }

    /// On what carries the tag of an operation that our journal does not know, because somebody who knows it asked.
    pub(crate) fn of_unknown(owner: &OwnerName, operation: OperationId) -> Self {
        Self { operation: Some(operation), lost: Lost::Everything, ..Self::none(owner) }
    }

    /// On one server that somebody named, and on what carries the tag of its operation, which the journal does not
    /// know either. Other servers with that tag were not named.
    pub(crate) fn of_named(owner: &OwnerName, server: ResourceName, operation: Option<OperationId>) -> Self {
        let beside = [ResourceKind::Ip, ResourceKind::BlockVolume, ResourceKind::LocalVolume];
        let mut claims = Self {
            operation,
            lost: Lost::Kinds(beside.map(|kind| (kind, Doubt::Unknown)).into()),
            ..Self::none(owner)
        };
        claims.name(server);
        claims
    }

    /// On what a sweep names. What is attached to these servers, which are gone or go with it, is in nobody's use.
    /// Nothing is taken for made with a server because of its place: the journals of their creations say what was.
    pub(crate) fn of_sweep(owner: &OwnerName, gone: impl IntoIterator<Item = String>) -> Self {
        Self { gone: gone.into_iter().collect(), positions: BTreeSet::new(), ..Self::none(owner) }
    }

    /// Takes in what an operation's entries prove.
    pub(crate) fn learn(&mut self, entries: &[Entry]) -> Result<(), Error> {
        for entry in entries {
            match entry.record()? {
                Record::Begun(Step::Create(Create::Server { pooled_ip: Some(ip), .. })) => self.existing(ip),
                Record::Done(Step::Create(create)) => self.learn_of(create, entry.resource.as_ref()),
                Record::Noted(Note::Looked { made, tagged, attached: _ }) => {
                    made.into_iter().for_each(|resource| self.add(resource, Known::Made));
                    tagged.into_iter().for_each(|resource| self.add(resource, Known::Named));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn learn_of(&mut self, create: Create, resource: Option<&ResourceName>) {
        let Some(resource) = resource else { return };
        match create {
            Create::Ip { .. } | Create::PrivateNic { .. } => self.add(resource.clone(), Known::Made),
            Create::Volume { .. } => {
                self.add(resource.clone(), Known::Made);
                self.tagged.insert(resource.id.clone());
            }
            Create::TagVolume => drop(self.tagged.insert(resource.id.clone())),
            Create::Server { volumes, .. } => {
                self.add(resource.clone(), Known::Made);
                self.answered.insert(resource.id.clone());
                volumes.into_iter().for_each(|volume| self.add(volume, Known::Made));
            }
            Create::SetCloudInit | Create::PowerOn | Create::ChangeServerType { .. } | Create::WaitUntilRunning => {}
        }
    }

    fn existing(&mut self, id: String) {
        self.known.remove(&id);
        self.existing.insert(id);
    }

    fn add(&mut self, resource: ResourceName, known: Known) {
        if self.existing.contains(&resource.id) {
            return;
        }
        // What its creation names needs no second witness.
        let kind = resource.kind;
        let entry = self.known.entry(resource.id.clone()).or_insert((resource, known));
        // Which API holds a volume of an unknown type is known as soon as one has shown it.
        if entry.0.kind == ResourceKind::Volume {
            entry.0.kind = kind;
        }
        if known == Known::Made {
            entry.1 = Known::Made;
        }
    }

    /// Names something that somebody asked to remove, or that a sweep found: ours while it carries our tag.
    pub(crate) fn name(&mut self, resource: ResourceName) {
        self.add(resource, Known::Named);
    }

    /// Names a server that somebody asked to remove, with all that carries its operation's tag and that nobody uses:
    /// the journal is from before they were made.
    pub(crate) fn name_with_its_tag(&mut self, server: ResourceName) {
        self.lost = Lost::Everything;
        self.name(server);
    }

    /// Takes up a volume that a server's creation made.
    pub(crate) fn made(&mut self, resource: ResourceName) {
        self.add(resource, Known::Made);
    }

    /// Remembers what a look has proven: also when its tag search misses it later, or its server is gone.
    pub(crate) fn confirm(&mut self, resource: ResourceName, provenance: Provenance) {
        self.add(resource, if provenance == Provenance::Outcome { Known::Made } else { Known::Named });
    }

    /// A server that the journal names and that is no longer ours: what is attached to it goes nowhere.
    pub(crate) fn give_up(&mut self, server: &str) {
        self.known.remove(server);
    }

    /// Looks for what this operation's tag leads to. `None` where there is none to look for.
    pub(crate) fn operation(&self) -> Option<&OperationId> {
        self.operation.as_ref()
    }

    /// What the journal names.
    pub(crate) fn known(&self) -> impl Iterator<Item = &ResourceName> {
        self.known.values().map(|(name, _)| name)
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// Whether the outcome of a step says that this was made.
    pub(crate) fn knows_as_made(&self, id: &str) -> bool {
        self.known.get(id).is_some_and(|(_, known)| *known == Known::Made)
    }

    /// Whether this volume carried our tags once, so that it is ours only while it does.
    pub(crate) fn was_tagged(&self, id: &str) -> bool {
        self.tagged.contains(id)
    }

    /// What the outcome of a step says was made: what was asked for, and no double of it.
    pub(crate) fn known_as_made(&self) -> impl Iterator<Item = &ResourceName> {
        self.known.values().filter(|(_, known)| *known == Known::Made).map(|(name, _)| name)
    }

    /// The servers among what the journal names.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &str> {
        self.known().filter(|resource| resource.kind == ResourceKind::Server).map(|resource| resource.id.as_str())
    }

    /// Whether it was there before.
    pub(crate) fn existed(&self, id: &str) -> bool {
        self.existing.contains(id)
    }

    /// Whether a server of this name can be what the operation made: where its creation is not known, any can.
    pub(crate) fn calls_its_server(&self, name: &str) -> bool {
        self.server_name.as_deref().is_none_or(|called| called == name)
    }

    /// Whether an answer to a creation of this kind may have been lost.
    pub(crate) fn may_have_lost(&self, kind: ResourceKind) -> bool {
        match &self.lost {
            Lost::Everything => true,
            Lost::Kinds(kinds) => kinds.contains_key(&kind),
        }
    }

    /// Whether, for all that is known, none of this kind was lost: where it cannot be looked for, it is believed.
    pub(crate) fn was_refused(&self, kind: ResourceKind) -> bool {
        matches!(&self.lost, Lost::Kinds(kinds) if kinds.get(&kind) == Some(&Doubt::Refused))
    }

    /// The proof for a server. One that only its tag leads to must be as its creation left it.
    pub(crate) fn server(&self, server: Server) -> Option<Candidate<Server>> {
        let unused = server.state == ServerState::Stopped && self.calls_its_server(&server.name);
        let provenance = self.evidence(ResourceKind::Server, &server.id, server.tags(), unused)?;
        Some(Candidate { resource: server, provenance })
    }

    /// The proof for an address. It must not serve a server that is not ours.
    pub(crate) fn ip(&self, ip: Ip) -> Option<Candidate<Ip>> {
        let unused = ip.server.as_ref().is_none_or(|server| self.is_server_of_ours(&server.id));
        let provenance = self.evidence(ResourceKind::Ip, &ip.id, ip.tags(), unused).filter(|_| unused)?;
        Some(Candidate { resource: ip, provenance })
    }

    /// The proof for a volume of Block Storage. It must not be attached to a server that is not ours.
    pub(crate) fn block_volume(&self, volume: BlockVolume) -> Option<Candidate<BlockVolume>> {
        let unused = volume.references.iter().all(|reference| self.is_server_of_ours(&reference.product_resource_id));
        let provenance =
            self.evidence(ResourceKind::BlockVolume, &volume.id, volume.tags(), unused).filter(|_| unused)?;
        Some(Candidate { resource: volume, provenance })
    }

    /// The proof for a local volume. It must not be attached to a server that is not ours.
    pub(crate) fn local_volume(&self, volume: Volume) -> Option<Candidate<Volume>> {
        let unused = volume.server.as_ref().is_none_or(|server| self.is_server_of_ours(&server.id));
        let provenance =
            self.evidence(ResourceKind::LocalVolume, &volume.id, volume.tags(), unused).filter(|_| unused)?;
        Some(Candidate { resource: volume, provenance })
    }

    /// Also one that is gone: what hung on it may still show it for some seconds.
    fn is_server_of_ours(&self, id: &str) -> bool {
        self.gone.contains(id) || self.known.get(id).is_some_and(|(name, _)| name.kind == ResourceKind::Server)
    }

    fn evidence(&self, kind: ResourceKind, id: &str, tags: &[String], unused: bool) -> Option<Provenance> {
        if self.existing.contains(id) || tags::names_another_owner(tags, &self.owner) {
            return None;
        }
        let tagged = tags::carries_owner(tags, &self.owner);
        match self.known.get(id) {
            Some((_, Known::Made)) if kind.is_volume() && !self.was_tagged(id) => Some(Provenance::Outcome),
            Some(_) => tagged.then_some(Provenance::TagAndId),
            None => {
                let of_operation =
                    self.operation.as_ref().is_some_and(|operation| tags.contains(&tags::operation_tag(operation)));
                (tagged && of_operation && unused && self.may_have_lost(kind)).then_some(Provenance::LostAnswer)
            }
        }
    }

    /// The volumes that came into being with a server of ours. Where its creation was answered, the answer has named
    /// them; where the answer was lost, they are those in the places where a creation puts what it makes.
    pub(crate) fn volumes_of(&self, server: &Candidate<Server>, zone: &str) -> Vec<ResourceName> {
        self.volumes_with(&server.get().id, &server.get().volumes, zone)
    }

    /// The same of a server that is proven otherwise, with these volumes.
    pub(crate) fn volumes_with(
        &self,
        server: &str,
        volumes: &BTreeMap<String, ServerVolume>,
        zone: &str,
    ) -> Vec<ResourceName> {
        if self.answered.contains(server) {
            return Vec::new();
        }
        self.volumes_at(volumes, zone)
    }

    /// The volumes in the places where a creation puts those that it makes.
    fn volumes_at(&self, volumes: &BTreeMap<String, ServerVolume>, zone: &str) -> Vec<ResourceName> {
        volumes
            .iter()
            .filter(|(position, volume)| self.positions.contains(*position) && !self.existing.contains(&volume.id))
            .map(|(_, volume)| volume_name(volume, zone))
            .collect()
    }
}

/// Whether a server that carries an operation's tags can be what a lost answer of its creation made: a creation does
/// not boot, and we start and rename only what the journal names. What runs, or has another name, is in somebody's use:
/// a copy that was made with the tags of ours, above all.
pub(crate) fn is_as_created(server: &Server, name: &str) -> bool {
    server.state == ServerState::Stopped && server.name == name
}

/// The volumes that came into being with a server that was just created.
pub(crate) fn volumes_made(
    server: &Server,
    zone: &str,
    owner: &OwnerName,
    specification: &ServerSpecification,
) -> Vec<ResourceName> {
    let claims = Claims {
        positions: specification.positions_made().collect(),
        existing: specification.existing_volumes().map(str::to_owned).collect(),
        ..Claims::none(owner)
    };
    claims.volumes_at(&server.volumes, zone)
}

/// The name of a volume in a server's map.
pub(crate) fn volume_name(volume: &ServerVolume, zone: &str) -> ResourceName {
    ResourceName {
        kind: ResourceKind::of_volume(&volume.volume_type),
        id: volume.id.clone(),
        zone: zone.to_owned(),
        server: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_policy::slots::types::{Failure, FailureClass};
    use windlass_scaleway::types::block::BlockReference;
    use windlass_scaleway::types::instance::{Reference, VolumeType};

    use super::*;
    use crate::journal::Phase;

    const OPERATION: &str = "ci-0nqrsxtrgyns";

    fn owner() -> OwnerName {
        "team".parse().unwrap()
    }

    fn name(kind: ResourceKind, id: &str) -> ResourceName {
        ResourceName { kind, id: id.into(), zone: "fr-par-1".into(), server: None }
    }

    fn entry(step: &str, phase: Phase, resource: Option<ResourceName>, data: serde_json::Value) -> Entry {
        Entry { sequence: 1, step: step.into(), phase, resource, data, at: 0 }
    }

    fn specification() -> ServerSpecification {
        use crate::specification::{ExtraVolume, ImageChoice, VolumeKind};
        ServerSpecification {
            volumes: vec![
                ExtraVolume::New { kind: VolumeKind::Local, size: 512, operations_per_second: None },
                ExtraVolume::Existing { id: "existing".into() },
            ],
            ..ServerSpecification::new(
                "ci".parse().unwrap(),
                "fr-par-1".parse().unwrap(),
                "DEV1-S",
                ImageChoice::parse("ubuntu_noble"),
            )
        }
    }

    fn claims(entries: &[Entry]) -> Claims {
        Claims::of_creation(&owner(), &OperationId::parse(OPERATION).unwrap(), &specification(), entries).unwrap()
    }

    fn tags(owner: &str) -> Vec<String> {
        vec![format!("windlass-owner={owner}"), format!("windlass-operation={OPERATION}")]
    }

    fn server(id: &str, state: ServerState, tags: Vec<String>) -> Server {
        Server { id: id.into(), name: OPERATION.into(), state, tags, ..Server::default() }
    }

    fn created(id: &str) -> [Entry; 2] {
        let volumes = json!({ "type": "DEV1-S", "volumes": [name(ResourceKind::BlockVolume, "boot")] });
        [
            entry("create-server", Phase::Intent, None, json!({ "type": "DEV1-S" })),
            entry("create-server", Phase::Outcome, Some(name(ResourceKind::Server, id)), volumes),
        ]
    }

    #[test]
    fn a_journalled_id_needs_our_tag_and_no_other_owners() {
        let claims = claims(&created("a"));
        let proven = |tags| claims.server(server("a", ServerState::Running, tags)).map(|owned| owned.provenance());
        assert_eq!(proven(tags("team")), Some(Provenance::TagAndId));
        for tags in [
            vec![],
            tags("other"),
            tags("team-b"),
            vec!["windlass-owner=".into()],
            vec!["xwindlass-owner=team".into()],
            [tags("team"), tags("other")].concat(),
            [tags("other"), tags("team")].concat(),
        ] {
            assert_eq!(proven(tags.clone()), None, "{tags:?}");
        }
    }

    #[test]
    fn copied_tags_prove_nothing_where_the_journal_knows_the_id() {
        let claims = claims(&created("a"));
        for state in [ServerState::Running, ServerState::Stopped] {
            assert!(claims.server(server("clone", state, tags("team"))).is_none());
        }
    }

    #[test]
    fn a_server_of_a_lost_answer_is_ours_unless_it_was_ever_started_or_renamed() {
        let lost = [
            vec![entry("create-server", Phase::Intent, None, json!({ "type": "DEV1-S" }))],
            [created("a").to_vec(), vec![entry("create-server", Phase::Note, None, json!({}))]].concat(),
            [created("a").to_vec(), vec![entry("create-server", Phase::Failure, None, json!({}))]].concat(),
        ];
        for entries in lost {
            let claims = claims(&entries);
            let proven = |state, tags| claims.server(server("b", state, tags)).map(|owned| owned.provenance());
            assert_eq!(proven(ServerState::Stopped, tags("team")), Some(Provenance::LostAnswer));
            assert_eq!(proven(ServerState::Running, tags("team")), None);
            assert_eq!(proven(ServerState::StoppedInPlace, tags("team")), None);
            assert_eq!(proven(ServerState::Stopped, vec!["windlass-owner=team".into()]), None);
            let copy = Server { name: "copy".into(), ..server("b", ServerState::Stopped, tags("team")) };
            assert!(claims.server(copy).is_none());
        }
    }

    #[test]
    fn what_is_attached_to_a_server_that_is_not_ours_is_not_ours_to_take() {
        let entries = [
            created("a").to_vec(),
            vec![entry("create-ip", Phase::Outcome, Some(name(ResourceKind::Ip, "ip")), json!({ "kind": "ipv4" }))],
        ]
        .concat();
        let claims = claims(&entries);
        let reference = |id: &str| Some(Reference { id: id.into(), ..Reference::default() });
        let ip = |server| Ip { id: "ip".into(), tags: tags("team"), server, ..Ip::default() };
        assert!(claims.ip(ip(None)).is_some());
        assert!(claims.ip(ip(reference("a"))).is_some());
        assert!(claims.ip(ip(reference("b"))).is_none());
        let volume = |servers: &[&str]| BlockVolume {
            id: "boot".into(),
            references: servers
                .iter()
                .map(|&id| BlockReference { product_resource_id: id.into(), ..BlockReference::default() })
                .collect(),
            ..BlockVolume::default()
        };
        assert!(claims.block_volume(volume(&[])).is_some());
        assert!(claims.block_volume(volume(&["a"])).is_some());
        assert!(claims.block_volume(volume(&["a", "b"])).is_none());
    }

    #[test]
    fn a_volume_that_the_answer_lists_needs_no_tag_and_one_attached_later_is_not_ours() {
        let claims = claims(&created("a"));
        let volume = |id: &str, tags| BlockVolume { id: id.into(), tags, ..BlockVolume::default() };
        assert_eq!(claims.block_volume(volume("boot", vec![])).map(|v| v.provenance()), Some(Provenance::Outcome));
        assert!(claims.block_volume(volume("boot", tags("other"))).is_none());
        assert!(claims.block_volume(volume("later", vec![])).is_none());
        // Copied tags make no difference: no answer to a volume's creation was lost.
        assert!(claims.block_volume(volume("later", tags("team"))).is_none());
        assert!(claims.block_volume(volume("existing", tags("team"))).is_none());
    }

    #[test]
    fn a_volume_that_got_our_tags_is_ours_only_while_it_carries_them() {
        let tagged = entry("tag-volume", Phase::Outcome, Some(name(ResourceKind::BlockVolume, "boot")), json!({}));
        let made = entry(
            "create-volume",
            Phase::Outcome,
            Some(name(ResourceKind::BlockVolume, "more")),
            json!({ "position": 1 }),
        );
        let claims = claims(&[created("a").to_vec(), vec![tagged, made]].concat());
        for id in ["boot", "more"] {
            let volume = |tags| BlockVolume { id: id.into(), tags, ..BlockVolume::default() };
            let proven = |tags| claims.block_volume(volume(tags)).map(|owned| owned.provenance());
            assert_eq!(proven(tags("team")), Some(Provenance::TagAndId), "{id}");
            assert_eq!(proven(vec![]), None, "{id}");
            assert_eq!(proven(vec!["role=web".into()]), None, "{id}");
        }
    }

    #[test]
    fn of_a_lost_server_only_the_places_that_its_creation_fills_are_ours() {
        let lost = claims(&[entry("create-server", Phase::Intent, None, json!({ "type": "DEV1-S" }))]);
        let volume = |id: &str, volume_type| ServerVolume { id: id.into(), volume_type, ..ServerVolume::default() };
        let mut of_lost = server("a", ServerState::Stopped, tags("team"));
        of_lost.volumes = BTreeMap::from([
            ("0".to_owned(), volume("boot", VolumeType::BlockStorage)),
            ("1".to_owned(), volume("local", VolumeType::LocalSsd)),
            ("2".to_owned(), volume("existing", VolumeType::BlockStorage)),
            ("3".to_owned(), volume("stranger", VolumeType::BlockStorage)),
        ]);
        let owned = lost.server(of_lost.clone()).unwrap();
        let ids = |names: Vec<ResourceName>| names.into_iter().map(|name| name.id).collect::<Vec<_>>();
        assert_eq!(ids(lost.volumes_of(&owned, "fr-par-1")), ["boot", "local"]);
        assert_eq!(ids(volumes_made(&of_lost, "fr-par-1", &owner(), &specification())), ["boot", "local"]);
        // Wherever the answer shows it: what was there before was not made.
        let elsewhere = BTreeMap::from([("0".to_owned(), volume("existing", VolumeType::BlockStorage))]);
        let elsewhere = Server { volumes: elsewhere, ..of_lost.clone() };
        assert!(volumes_made(&elsewhere, "fr-par-1", &owner(), &specification()).is_empty());
        // Where it was answered, the answer has the word.
        let answered = claims(&created("a"));
        let owned = answered.server(of_lost).unwrap();
        assert!(answered.volumes_of(&owned, "fr-par-1").is_empty());
        assert!(answered.knows("boot") && !answered.knows("stranger"));
    }

    #[test]
    fn what_was_only_named_is_ours_while_it_carries_the_tag() {
        let mut claims = Claims::none(&owner());
        claims.name(name(ResourceKind::BlockVolume, "a"));
        let volume = |tags| BlockVolume { id: "a".into(), tags, ..BlockVolume::default() };
        assert!(claims.block_volume(volume(tags("team"))).is_some());
        assert!(claims.block_volume(volume(vec![])).is_none());
        assert!(claims.block_volume(volume(vec!["role=web".into()])).is_none());
    }

    #[test]
    fn an_operation_that_the_journal_does_not_know_has_what_its_tag_leads_to_and_nobody_uses() {
        let id = OperationId::parse(OPERATION).unwrap();
        let claims = Claims::of_unknown(&owner(), id.clone());
        assert_eq!(claims.operation(), Some(&id));
        assert!(claims.may_have_lost(ResourceKind::Server) && claims.may_have_lost(ResourceKind::Ip));
        let proven = |state| claims.server(server("a", state, tags("team"))).map(|owned| owned.provenance());
        assert_eq!(proven(ServerState::Stopped), Some(Provenance::LostAnswer));
        assert_eq!(proven(ServerState::Running), None);
        let renamed = Server { name: "web".into(), ..server("a", ServerState::Stopped, tags("team")) };
        assert!(claims.server(renamed).is_some(), "what its creation called it, nobody knows");
        let ip = |server: Option<&str>| Ip {
            id: "ip".into(),
            tags: tags("team"),
            server: server.map(|id| Reference { id: id.into(), ..Reference::default() }),
            ..Ip::default()
        };
        assert!(claims.ip(ip(None)).is_some() && claims.ip(ip(Some("b"))).is_none());
        let other = vec!["windlass-owner=team".into(), "windlass-operation=ci-0nqrsxtrgynt".into()];
        assert!(claims.ip(Ip { tags: other, ..ip(None) }).is_none());
    }

    #[test]
    fn of_a_named_servers_operation_other_servers_were_not_named() {
        let id = OperationId::parse(OPERATION).unwrap();
        let claims = Claims::of_named(&owner(), name(ResourceKind::Server, "a"), Some(id.clone()));
        assert_eq!(claims.operation(), Some(&id));
        assert_eq!(claims.servers().collect::<Vec<_>>(), ["a"]);
        let proven = |id| claims.server(server(id, ServerState::Stopped, tags("team"))).map(|owned| owned.provenance());
        assert_eq!(proven("a"), Some(Provenance::TagAndId));
        assert_eq!(proven("b"), None);
        let volume = |server: Option<&str>| Volume {
            id: "v".into(),
            tags: tags("team"),
            server: server.map(|id| Reference { id: id.into(), ..Reference::default() }),
            ..Volume::default()
        };
        let proven = |server| claims.local_volume(volume(server)).map(|owned| owned.provenance());
        assert_eq!(proven(None), Some(Provenance::LostAnswer));
        assert_eq!(proven(Some("a")), Some(Provenance::LostAnswer));
        assert_eq!(proven(Some("b")), None);
        assert!(Claims::of_named(&owner(), name(ResourceKind::Server, "a"), None).local_volume(volume(None)).is_none());
    }

    #[test]
    fn a_sweep_takes_nothing_for_made_with_a_server_because_of_its_place() {
        let mut claims = Claims::of_sweep(&owner(), ["gone".to_owned()]);
        let volume =
            ServerVolume { id: "boot".into(), volume_type: VolumeType::BlockStorage, ..ServerVolume::default() };
        let volumes = BTreeMap::from([("0".to_owned(), volume)]);
        assert!(claims.volumes_with("a", &volumes, "fr-par-1").is_empty());
        // What is attached to a server that goes with it is in nobody's use.
        claims.name(name(ResourceKind::Ip, "ip"));
        let ip = |server: &str| Ip {
            id: "ip".into(),
            tags: tags("team"),
            server: Some(Reference { id: server.into(), ..Reference::default() }),
            ..Ip::default()
        };
        assert!(claims.ip(ip("gone")).is_some() && claims.ip(ip("here")).is_none());
    }

    #[test]
    fn what_a_look_proved_is_known_until_it_is_given_up() {
        let mut claims = Claims::none(&owner());
        assert_eq!((claims.operation(), claims.servers().count(), claims.known().count()), (None, 0, 0));
        claims.confirm(name(ResourceKind::Server, "a"), Provenance::LostAnswer);
        claims.confirm(name(ResourceKind::BlockVolume, "v"), Provenance::Outcome);
        claims.made(name(ResourceKind::Ip, "ip"));
        assert_eq!(claims.servers().collect::<Vec<_>>(), ["a"]);
        assert_eq!(claims.known().count(), 3);
        let made: BTreeSet<&str> = claims.known_as_made().map(|resource| resource.id.as_str()).collect();
        assert_eq!(made, BTreeSet::from(["ip", "v"]));
        assert!(claims.knows("a") && !claims.knows_as_made("a") && claims.knows_as_made("v") && !claims.knows("b"));
        // A second witness takes nothing back from the first.
        claims.name(name(ResourceKind::Ip, "ip"));
        assert!(claims.knows_as_made("ip"));
        claims.give_up("a");
        assert!(!claims.knows("a"));
    }

    #[test]
    fn what_was_there_before_is_never_learnt_to_be_ours() {
        let mut claims = claims(&created("a"));
        claims.made(name(ResourceKind::BlockVolume, "existing"));
        assert!(claims.existed("existing") && !claims.existed("boot"));
        assert!(!claims.knows("existing"));
    }

    #[test]
    fn a_private_nic_is_its_servers() {
        let claims = claims(&created("a"));
        let owned = claims.server(server("a", ServerState::Running, tags("team"))).unwrap();
        let nic = |server: &str| PrivateNic { server_id: server.into(), ..PrivateNic::default() };
        let proven = Candidate::of_server(nic("a"), &owned).unwrap();
        assert_eq!((proven.provenance(), proven.get().server_id.as_str()), (Provenance::PartOfServer, "a"));
        assert!(Candidate::of_server(nic("b"), &owned).is_none());
    }

    #[test]
    fn as_created_is_what_was_neither_started_nor_renamed() {
        let stopped = server("a", ServerState::Stopped, vec![]);
        assert!(is_as_created(&stopped, OPERATION) && !is_as_created(&stopped, "web"));
        assert!(!is_as_created(&server("a", ServerState::Running, vec![]), OPERATION));
        assert!(!is_as_created(&server("a", ServerState::StoppedInPlace, vec![]), OPERATION));
    }

    #[test]
    fn an_answer_is_lost_that_never_came_or_was_wrong() {
        let begun = entry("create-ip", Phase::Intent, None, json!({ "kind": "ipv4" }));
        let done = entry("create-ip", Phase::Outcome, Some(name(ResourceKind::Ip, "ip")), json!({ "kind": "ipv4" }));
        let failed = entry("create-ip", Phase::Failure, None, json!({}));
        for (entries, lost) in [
            (vec![], false),
            (vec![begun.clone()], true),
            (vec![begun.clone(), done.clone()], false),
            (vec![begun.clone(), done.clone(), begun.clone()], true),
            (vec![begun.clone(), begun.clone(), done.clone()], true),
            (vec![begun.clone(), failed.clone(), begun.clone(), done.clone()], true),
            (vec![begun.clone(), failed], true),
        ] {
            let claims = claims(&entries);
            assert_eq!(claims.may_have_lost(ResourceKind::Ip), lost, "{entries:?}");
            assert!(!claims.may_have_lost(ResourceKind::Server));
        }
    }

    #[test]
    fn a_call_that_never_left_or_was_refused_at_last_has_lost_nothing() {
        let begun = entry("create-ip", Phase::Intent, None, json!({ "kind": "ipv4" }));
        let failed = |failure: &Failure, wait: Option<u64>| {
            entry("create-ip", Phase::Failure, None, json!({ "failure": failure, "wait": wait }))
        };
        let unsent = Failure::of_class(FailureClass::Connection, "connection refused");
        let ambiguous = Failure { ambiguous: true, ..unsent.clone() };
        let answered = |status, word: Option<&str>, class| Failure {
            status: Some(status),
            error_type: word.map(str::to_owned),
            ..Failure::of_class(class, "no")
        };
        let refused = answered(403, Some("permissions_denied"), FailureClass::PermissionDenied);
        let untyped = answered(404, None, FailureClass::Other);
        let gateways = answered(404, Some("about:blank"), FailureClass::Other);
        let broken = answered(500, Some("internal_server_error"), FailureClass::ServerError);
        let limited = answered(429, None, FailureClass::RateLimited);
        for (failures, lost) in [
            (vec![failed(&unsent, None)], false),
            (vec![failed(&unsent, Some(5)), failed(&unsent, None)], false),
            (vec![failed(&unsent, Some(5))], false),
            (vec![failed(&refused, Some(5))], false),
            (vec![failed(&refused, Some(5)), failed(&refused, None)], true),
            (vec![failed(&limited, Some(5)), failed(&refused, None)], true),
            (vec![failed(&ambiguous, Some(5)), failed(&unsent, None)], true),
            (vec![failed(&untyped, None)], true),
            (vec![failed(&gateways, None)], true),
            (vec![failed(&broken, None)], true),
        ] {
            let entries: Vec<Entry> = failures.into_iter().flat_map(|failure| [begun.clone(), failure]).collect();
            let claims = claims(&entries);
            let believed = !claims.may_have_lost(ResourceKind::Ip) || claims.was_refused(ResourceKind::Ip);
            assert_eq!(believed, !lost, "{entries:?}");
        }
        let looked_for = claims(&[begun.clone(), failed(&refused, None)]);
        assert!(looked_for.may_have_lost(ResourceKind::Ip), "a refusal may be wrong");
    }

    #[test]
    fn a_volume_of_an_unknown_type_is_taken_for_no_other_kind() {
        let named = |volume_type: &str| {
            let volume = ServerVolume { id: "v".into(), volume_type: volume_type.into(), ..ServerVolume::default() };
            volume_name(&volume, "z").kind
        };
        assert_eq!(named("sbs_volume"), ResourceKind::BlockVolume);
        for local in ["l_ssd", "b_ssd", "scratch"] {
            assert_eq!(named(local), ResourceKind::LocalVolume);
        }
        for unknown in ["", "unified", "sbs_snapshot", "of_tomorrow"] {
            assert_eq!(named(unknown), ResourceKind::Volume, "{unknown}");
        }
    }

    #[test]
    fn a_volume_of_an_unknown_type_gets_its_kind_when_it_is_seen_and_keeps_it() {
        let mut claims = Claims::none(&owner());
        claims.made(name(ResourceKind::Volume, "v"));
        assert!(claims.knows_as_made("v"));
        claims.confirm(name(ResourceKind::BlockVolume, "v"), Provenance::Outcome);
        claims.made(name(ResourceKind::Volume, "v"));
        assert_eq!(claims.known().next().unwrap().kind, ResourceKind::BlockVolume);
    }

    #[test]
    fn what_a_look_found_is_known_to_whoever_takes_over() {
        let found = json!({
            "made": [name(ResourceKind::BlockVolume, "boot")],
            "tagged": [name(ResourceKind::Server, "a"), name(ResourceKind::BlockVolume, "existing")],
            "attached": [name(ResourceKind::BlockVolume, "stranger")],
        });
        let claims = claims(&[entry("look", Phase::Note, None, found)]);
        assert!(claims.knows_as_made("boot") && claims.knows("a") && !claims.knows_as_made("a"));
        assert!(!claims.knows("existing") && !claims.knows("stranger"));
    }
}
