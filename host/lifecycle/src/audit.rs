//! The questions that policies would be asked about the machines that exist now: for who wants to see what a policy
//! would decide before it is in force. Nothing is written, and nothing follows from an answer.

use std::collections::{BTreeMap, HashMap};

use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::slots::types::Subject;
use windlass_policy::slots::{Release, SlotName, release, state_mapping};
use windlass_policy::{Decision, Host, PolicyIdentity};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::{ListServers as ListHosts, Server as AppleSiliconServer};
use windlass_scaleway::types::instance::Server;

use crate::account::Catalogue;
use crate::cleanup::creation_of;
use crate::host_state::host_state;
use crate::identifier::GroupName;
use crate::journal::{Operation, OperationFilter, OperationKind, OperationState};
use crate::lifecycle::Lifecycle;
use crate::machines::{AdoptSpecification, OrderRequest};
use crate::release::{
    Asking, ReleaseRequest, instant, machine_of, question, question_of_host, question_of_host_now, question_of_server,
};
use crate::subject::{SubjectOf, subject};
use crate::sweep::{Machine, MachineReader};
use crate::{Error, RequestedBy, tags};

/// A machine that exists, and what its owner would ask of its release.
#[derive(Clone, Copy, Debug)]
pub enum Existing<'a> {
    Server {
        zone: &'a Zone,
        server: &'a Server,
        asking: &'a Asking,
        requested_by: &'a RequestedBy,
    },
    /// A Mac.
    Host {
        host: &'a AppleSiliconServer,
        request: &'a ReleaseRequest,
    },
}

/// What the slot `release` decides about a machine today, and what it would decide if one of its shadows decided.
#[derive(Debug)]
pub struct Tried {
    pub shadow: PolicyIdentity,
    pub today: Decision<Release>,
    pub then: Decision<Release>,
    /// Whether the question had the machine's price.
    pub has_price: bool,
}

/// A machine that exists, as its owner's journal and Scaleway tell.
#[derive(Clone, Debug)]
pub enum ListedMachine {
    Server(Box<Machine>),
    Mac(Box<ClaimedMac>),
}

/// A Mac that carries a claim of this journal's.
#[derive(Clone, Debug)]
pub struct ClaimedMac {
    pub host: AppleSiliconServer,
    /// How its owner would release it. What the owner is configured to ask for is not known.
    pub request: ReleaseRequest,
    /// When it was claimed or ordered, in milliseconds since 1970.
    claimed_at: u64,
}

impl ListedMachine {
    /// Scaleway's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Server(machine) => &machine.id,
            Self::Mac(mac) => &mac.host.id,
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Server(machine) => &machine.name,
            Self::Mac(mac) => &mac.host.name,
        }
    }

    /// Its runner group or group of servers.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Server(machine) => machine.group.as_deref(),
            Self::Mac(mac) => mac.request.requested_by.group.as_ref().map(GroupName::as_str),
        }
    }

    fn zone(&self) -> &str {
        match self {
            Self::Server(machine) => &machine.zone,
            Self::Mac(mac) => mac.request.zone.as_str(),
        }
    }

    fn project(&self) -> &str {
        match self {
            Self::Server(machine) => &machine.server.project,
            Self::Mac(mac) => &mac.host.project_id,
        }
    }

    fn tags(&self) -> &[String] {
        match self {
            Self::Server(machine) => &machine.server.tags,
            Self::Mac(_) => &[],
        }
    }

    fn machine_type(&self) -> &str {
        match self {
            Self::Server(machine) => &machine.server_type,
            Self::Mac(mac) => &mac.host.server_type,
        }
    }

    fn for_listing(&self, now: u64) -> state_mapping::Server {
        match self {
            Self::Server(machine) => machine.for_policy(now),
            Self::Mac(mac) => mac.for_listing(now),
        }
    }
}

impl ClaimedMac {
    fn for_listing(&self, now: u64) -> state_mapping::Server {
        let (state, detail) = host_state(&self.host);
        let age = now.saturating_sub(instant(self.host.created_at()).unwrap_or(now).max(self.claimed_at));
        state_mapping::Server {
            state,
            detail,
            age,
            // Scaleway does not tell since when.
            state_age: age,
            has_run: true,
            unused_for: None,
            in_flight: state_mapping::Operation::None,
            suspended: false,
            server_type: 0,
            watched_tags: 0,
        }
    }
}

impl Lifecycle {
    /// Puts to each shadow of the slot `release` what would be asked if the owner of this machine released it now, and
    /// to those that decide. Nothing is recorded.
    ///
    /// # Errors
    /// The journal's.
    pub async fn try_release(&self, machine: Existing<'_>) -> Result<Vec<Tried>, Error> {
        let shared = &self.shared;
        let (policies, question) = match machine {
            Existing::Server { zone, server, asking, requested_by } => {
                let creation = creation_of(shared, &server.id)?;
                let policies = shared.pin(requested_by, creation.as_ref());
                let place = (zone, server);
                let question =
                    question_of_server(shared, &policies, place, requested_by, creation.as_ref(), asking).await;
                (policies, question)
            }
            Existing::Host { host, request } => {
                let question = question_of_host_now(shared, request, host, request.attempt, None);
                (shared.pin(&request.requested_by, None), question)
            }
        };
        let (shadows, mut tried) = (policies.shadows(SlotName::Release), Vec::new());
        if shadows.is_empty() {
            return Ok(tried);
        }
        let today = policies.try_decide::<Release>(question.clone()).await;
        for shadow in shadows {
            let Some(then) = policies.with_shadow(&shadow) else { continue };
            tried.push(Tried {
                today: today.clone(),
                then: then.try_decide(question.clone()).await,
                has_price: question.machine.price_per_hour.is_some(),
                shadow,
            });
        }
        Ok(tried)
    }
}

impl MachineReader<'_> {
    /// The owner's servers in a zone, without what only carries a copy of our tags, and the Macs there that carry a
    /// claim of this journal's.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed, and the journal's errors.
    pub async fn existing(&self, zone: &Zone, group: Option<&GroupName>) -> Result<Vec<ListedMachine>, Error> {
        let servers = self.list(std::slice::from_ref(zone), group).await?;
        let servers =
            servers.into_iter().filter(|machine| machine.copy_of.is_none()).map(Box::new).map(ListedMachine::Server);
        let macs = self.claimed_macs(zone, group).await?;
        Ok(servers.chain(macs.into_iter().map(Box::new).map(ListedMachine::Mac)).collect())
    }

    /// Without claims there is no call.
    async fn claimed_macs(&self, zone: &Zone, group: Option<&GroupName>) -> Result<Vec<ClaimedMac>, Error> {
        let mut claims = self.claims()?;
        claims.retain(|_, (claim, _)| {
            claim.zone == *zone && group.is_none_or(|group| claim.requested_by.group.as_ref() == Some(group))
        });
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let hosts = self.client.apple_silicon(zone).list_servers(&ListHosts::default()).await;
        let hosts = hosts.map_err(|error| Error::scaleway("listing our Macs", error))?;
        let mac = |host: AppleSiliconServer| {
            let (mut request, claimed_at) = claims.get(&host.name)?.clone();
            request.host.clone_from(&host.id);
            Some(ClaimedMac { host, request, claimed_at })
        };
        Ok(hosts.into_iter().filter_map(mac).collect())
    }

    /// By its name, each claim that no operation has ended: its release, and the time of the claim. The host is not
    /// known yet.
    fn claims(&self) -> Result<HashMap<String, (ReleaseRequest, u64)>, Error> {
        let mut claims = HashMap::new();
        let Some(journal) = self.journal else { return Ok(claims) };
        let mut filter = OperationFilter {
            states: vec![OperationState::Done, OperationState::Kept],
            not_ended: true,
            ..OperationFilter::default()
        };
        for kind in [OperationKind::AdoptMachine, OperationKind::OrderMachine] {
            filter.kind = Some(kind);
            for operation in journal.operations(&filter)? {
                if let Some(release) = release_of(&operation) {
                    claims.insert(release.claim.to_string(), (release, operation.created_at));
                }
            }
        }
        Ok(claims)
    }

    /// What the slot `release` would be asked if the owner of each of these machines released it at `now` (milliseconds
    /// since 1970). Nobody asks, and what a machine was doing is known to its host alone, so both are absent. Prices
    /// are absent of Macs, and where the catalogue of a zone cannot be read.
    pub async fn release_questions(
        &self,
        policies: &Host,
        machines: &[ListedMachine],
        now: u64,
    ) -> Vec<release::Question> {
        let mut catalogues: BTreeMap<&str, Option<Catalogue>> = BTreeMap::new();
        for machine in machines {
            if let ListedMachine::Server(machine) = machine
                && !catalogues.contains_key(machine.zone.as_str())
            {
                let catalogue = match machine.zone.parse::<Zone>() {
                    Ok(zone) => Catalogue::of(self.client, &zone).await.ok(),
                    Err(_) => None,
                };
                catalogues.insert(&machine.zone, catalogue);
            }
        }
        let of_server = |machine: &Machine| {
            let catalogue = catalogues.get(machine.zone.as_str()).and_then(Option::as_ref);
            let price = catalogue.and_then(|catalogue| catalogue.price(&machine.server_type));
            let asking = Asking::default();
            let creation = machine.operation.as_ref().and_then(|id| self.journal?.operation(id).ok());
            let subject = self.subject_of(
                policies,
                machine.group.as_deref(),
                &machine.server.project,
                SubjectOf { creation: creation.as_ref(), tags: Some(&machine.server.tags), ..SubjectOf::default() },
            );
            question(now, 0, subject, &asking, machine_of(&machine.zone, &machine.server, &asking, price), None)
        };
        let of_mac = |mac: &ClaimedMac| {
            let group = mac.request.requested_by.group.as_ref().map(GroupName::as_str);
            let subject = self.subject_of(policies, group, &mac.host.project_id, SubjectOf::default());
            question_of_host((now, 0), subject, &mac.request, &mac.host, mac.request.attempt, None)
        };
        let of_machine = |machine: &ListedMachine| match machine {
            ListedMachine::Server(machine) => of_server(machine),
            ListedMachine::Mac(mac) => of_mac(mac),
        };
        machines.iter().map(of_machine).collect()
    }

    /// What the slot `state-mapping` would be asked about these machines at `now`: a question for each zone and group,
    /// with the positions of its machines among them. All tags of a group are watched, as many as can be.
    #[must_use]
    pub fn listing_questions(
        &self,
        policies: &Host,
        machines: &[ListedMachine],
        now: u64,
    ) -> Vec<(Vec<usize>, state_mapping::Question)> {
        let mut listings: BTreeMap<(&str, Option<&str>), Vec<usize>> = BTreeMap::new();
        for (position, machine) in machines.iter().enumerate() {
            listings.entry((machine.zone(), machine.group())).or_default().push(position);
        }
        let question = |((zone, group), positions): ((&str, Option<&str>), Vec<usize>)| {
            let members = || positions.iter().map(|position| &machines[*position]);
            let mut watched: Vec<String> = members().flat_map(ListedMachine::tags).cloned().collect();
            watched.retain(|tag| !tags::is_ours(tag));
            watched.sort();
            watched.dedup();
            watched.truncate(MAX_WATCHED_TAGS);
            let project = members().next().map(ListedMachine::project).unwrap_or_default();
            let subject = self.subject_of(policies, group, project, SubjectOf::default());
            let mut question = state_mapping::Question::of_listing(now, zone, subject, watched);
            members().for_each(|it| question.push(it.for_listing(now), it.machine_type(), it.tags()));
            (positions, question)
        };
        listings.into_iter().map(question).collect()
    }

    fn subject_of(&self, policies: &Host, group: Option<&str>, project: &str, of: SubjectOf<'_>) -> Subject {
        let group = group.and_then(|group| group.parse().ok());
        let project = Some(project).filter(|project| !project.is_empty());
        subject(policies, self.owner, SubjectOf { group: group.as_ref(), project, ..of })
    }
}

/// How what was claimed or ordered would be released by who has it. `None`: another version wrote it.
fn release_of(operation: &Operation) -> Option<ReleaseRequest> {
    let zone = operation.zone.parse().ok()?;
    let specification = operation.specification.clone();
    let (claim, pool, requested_by) = match operation.kind {
        OperationKind::AdoptMachine => {
            let adopted: AdoptSpecification = serde_json::from_value(specification).ok()?;
            (adopted.claim, Some(adopted.pool.prefix), adopted.requested_by)
        }
        _ => {
            let order: OrderRequest = serde_json::from_value(specification).ok()?;
            (order.claim, None, order.requested_by)
        }
    };
    Some(ReleaseRequest { requested_by, ..ReleaseRequest::new(zone, "", claim, pool) })
}
