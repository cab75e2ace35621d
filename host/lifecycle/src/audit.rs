//! The questions that policies would be asked about the servers that exist now: for who wants to see what a policy would
//! decide before it is in force. Nothing is written, and nothing is decided here.

use std::collections::BTreeMap;

use windlass_policy::Host;
use windlass_policy::slots::state_mapping::MAX_WATCHED_TAGS;
use windlass_policy::slots::types::Subject;
use windlass_policy::slots::{release, state_mapping};
use windlass_scaleway::Zone;

use crate::account::Catalogue;
use crate::release::{Asking, machine_of, question};
use crate::subject::{SubjectOf, subject};
use crate::sweep::{Machine, MachineReader};
use crate::tags;

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
