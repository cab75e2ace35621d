//! Which of its types each server of a specification tries, and in which order: the placement slot decides wherever a
//! specification leaves a choice.

use std::collections::BTreeSet;

use windlass_policy::slots::placement::{Assignment, Place, Question, Verdict};
use windlass_policy::slots::types::Money;
use windlass_policy::slots::{Placement as Slot, SlotName};

use crate::journal::OperationKind;
use crate::lifecycle::Lifecycle;
use crate::specification::ServerSpecification;
use crate::subject::SubjectOf;

/// What the placement slot said about servers that are to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The types that each server tries, in order: one entry for each server that is created now.
    pub types: Vec<Vec<String>>,
    /// Why so, for people.
    pub reason: Option<String>,
}

impl Lifecycle {
    /// Asks the placement slot about so many servers of a specification. Where that names one type only, and no policy
    /// is configured, there is nothing to decide, and nobody is asked.
    ///
    /// The question says how many servers of each type the group has in the zone, and what each costs, where Scaleway
    /// says so. Where a policy is configured and the servers cannot be listed, nothing is placed.
    pub async fn place(&self, specification: &ServerSpecification, wanted: usize) -> Placement {
        let mut specification = specification.clone();
        specification.normalize();
        let mut seen = BTreeSet::new();
        specification.types.retain(|server_type| seen.insert(server_type.clone()));
        let types = &specification.types;
        let policies = self.shared.pin(&specification.requested_by, None);
        if wanted == 0 || (types.len() < 2 && !policies.has_configured(SlotName::Placement)) {
            return Placement { types: vec![types.clone(); wanted], reason: None };
        }
        let shared = &self.shared;
        let (zone, group) = (&specification.zone, &specification.group);
        let listed = match self.machine_reader().list(std::slice::from_ref(zone), Some(group)).await {
            Ok(listed) => listed,
            // A policy that counts servers would let more be made than it allows.
            Err(error) if policies.has_configured(SlotName::Placement) => {
                let reason = format!("the placement policy is not asked, since the servers cannot be listed: {error}");
                return Placement { types: Vec::new(), reason: Some(reason) };
            }
            Err(_) => Vec::new(),
        };
        let catalogue = shared.catalogue(zone).await.ok();
        let place = |server_type: &String| {
            let is_of_type = |name: &str| name.eq_ignore_ascii_case(server_type);
            Place {
                zone: zone.to_string(),
                server_type: server_type.clone(),
                servers: count(listed.iter().filter(|machine| is_of_type(&machine.server_type))),
                creating: count(listed.iter().filter(|machine| {
                    is_of_type(&machine.server_type) && machine.in_flight == Some(OperationKind::CreateServer)
                })),
                failures: 0,
                last_failure: None,
                failed_at: None,
                backoff_until: None,
                price_per_hour: catalogue.as_ref().and_then(|catalogue| catalogue.price(server_type)),
            }
        };
        let question = Question {
            now: shared.clock.now(),
            random: shared.randomness.word(),
            operation: OperationKind::CreateServer.as_str().to_owned(),
            subject: shared.subject(SubjectOf {
                group: Some(group),
                project: specification.project.as_deref(),
                requested_by: Some(&specification.requested_by),
                tags: Some(&specification.tags),
                ..SubjectOf::default()
            }),
            wanted: u32::try_from(wanted).unwrap_or(u32::MAX),
            places: types.iter().map(place).collect(),
        };
        let decision = policies.decide::<Slot>(question).await;
        for fallback in &decision.fallbacks {
            tracing::warn!(decision = %decision.id, "{fallback}");
        }
        let Verdict::Place(assignments) = decision.answer.verdict else { return Placement::default() };
        let placed = |assignment: &Assignment| {
            let tried = assignment.places.iter().filter_map(|place| types.get(*place as usize).cloned()).collect();
            std::iter::repeat_n::<Vec<String>>(tried, assignment.count as usize)
        };
        Placement { types: assignments.iter().flat_map(placed).collect(), reason: decision.reason }
    }
}

fn count<T>(all: impl Iterator<Item = T>) -> u32 {
    u32::try_from(all.count()).unwrap_or(u32::MAX)
}

/// What a price of Scaleway's catalogue is to a policy: it is in euros.
#[must_use]
pub fn euros(price: f64) -> Option<Money> {
    let micros = (price * 1e6).round();
    // Beyond this a float holds no whole number exactly, and a server costs more than anybody has.
    (0.0..1e15).contains(&micros).then(|| Money { currency: "EUR".to_owned(), micros: micros as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_in_millionths_of_a_euro() {
        assert_eq!(euros(0.0088), Some(Money { currency: "EUR".to_owned(), micros: 8_800 }));
        for none in [f64::NAN, f64::INFINITY, -1.0, 1e12] {
            assert_eq!(euros(none), None, "{none}");
        }
    }
}
