//! The questions that policies would be asked about the machines that exist now: for who wants to see what a policy
//! would decide before it is in force. Nothing is written, and nothing follows from an answer.

use std::collections::BTreeMap;

use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::slots::types::Subject;
use windlass_policy::slots::{Release, SlotName, release, state_mapping};
use windlass_policy::{Decision, Host, PolicyIdentity};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::Server as AppleSiliconServer;
use windlass_scaleway::types::instance::Server;

use crate::account::Catalogue;
use crate::cleanup::creation_of;
use crate::lifecycle::Lifecycle;
use crate::release::{Asking, ReleaseRequest, machine_of, question, question_of_host, question_of_server};
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
    /// Whether the question told the machine's price.
    pub has_price: bool,
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
                let question = question_of_host(shared, request, host, request.attempt, None);
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
    /// What the slot `release` would be asked if the owner of each of these servers released it at `now` (milliseconds
    /// since 1970). Nobody asks, and what a server was doing is known to its host alone, so both are absent. Prices are
    /// absent where the catalogue of a zone cannot be read.
    pub async fn release_questions(&self, policies: &Host, machines: &[Machine], now: u64) -> Vec<release::Question> {
        let mut catalogues: BTreeMap<&str, Option<Catalogue>> = BTreeMap::new();
        for machine in machines {
            if !catalogues.contains_key(machine.zone.as_str()) {
                let catalogue = match machine.zone.parse::<Zone>() {
                    Ok(zone) => Catalogue::of(self.client, &zone).await.ok(),
                    Err(_) => None,
                };
                catalogues.insert(&machine.zone, catalogue);
            }
        }
        let of_machine = |machine: &Machine| {
            let catalogue = catalogues.get(machine.zone.as_str()).and_then(Option::as_ref);
            let price = catalogue.and_then(|catalogue| catalogue.price(&machine.server_type));
            let asking = Asking::default();
            let subject = self.subject_of(policies, machine);
            question(now, 0, subject, &asking, machine_of(&machine.zone, &machine.server, &asking, price), None)
        };
        machines.iter().map(of_machine).collect()
    }

    /// What the slot `state-mapping` would be asked about these servers at `now`: a question for each zone and group,
    /// with the positions of its servers among them. All tags of a group are watched, as many as can be.
    #[must_use]
    pub fn listing_questions(
        &self,
        policies: &Host,
        machines: &[Machine],
        now: u64,
    ) -> Vec<(Vec<usize>, state_mapping::Question)> {
        let mut listings: BTreeMap<(&str, Option<&str>), Vec<usize>> = BTreeMap::new();
        for (position, machine) in machines.iter().enumerate() {
            listings.entry((machine.zone.as_str(), machine.group.as_deref())).or_default().push(position);
        }
        let question = |((zone, _), positions): ((&str, Option<&str>), Vec<usize>)| {
            let members = || positions.iter().map(|position| &machines[*position]);
            let mut watched: Vec<String> = members().flat_map(|member| &member.server.tags).cloned().collect();
            watched.retain(|tag| !tags::is_ours(tag));
            watched.sort();
            watched.dedup();
            watched.truncate(MAX_WATCHED_TAGS);
            let subject = members().next().map(|member| self.group_subject(policies, member));
            let subject = subject.unwrap_or_else(|| policies.subject(self.owner.as_str(), []));
            let mut question = state_mapping::Question::of_listing(now, zone, subject, watched);
            members().for_each(|it| question.push(it.for_policy(now), &it.server_type, &it.server.tags));
            (positions, question)
        };
        listings.into_iter().map(question).collect()
    }

    fn subject_of(&self, policies: &Host, machine: &Machine) -> Subject {
        let creation = machine.operation.as_ref().and_then(|id| self.journal?.operation(id).ok());
        let group = machine.group.as_ref().and_then(|group| group.parse().ok());
        let of = SubjectOf {
            group: group.as_ref(),
            project: Some(&machine.server.project),
            creation: creation.as_ref(),
            tags: Some(&machine.server.tags),
            ..SubjectOf::default()
        };
        subject(policies, self.owner, of)
    }

    fn group_subject(&self, policies: &Host, member: &Machine) -> Subject {
        let group = member.group.as_ref().and_then(|group| group.parse().ok());
        let of = SubjectOf { group: group.as_ref(), project: Some(&member.server.project), ..SubjectOf::default() };
        subject(policies, self.owner, of)
    }
}
