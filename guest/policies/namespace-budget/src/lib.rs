//! A policy for `placement`: a Kubernetes namespace gets only so many servers as its budget for an hour allows.

use std::collections::BTreeMap;

use serde::Deserialize;
use windlass_guest_sdk::prelude::*;

use placement::{Answer, Assignment, Place, Question};

/// Euros for an hour, by namespace.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Budgets(BTreeMap<String, f64>);

impl Setting for Budgets {
    fn schema(out: &mut String) {
        out.push_str(r#""type":"object","additionalProperties":{"type":"number","minimum":0}"#);
    }

    fn json(&self, out: &mut String) {
        out.push('{');
        for (number, (namespace, euros)) in self.0.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            namespace.json(out);
            out.push(':');
            euros.json(out);
        }
        out.push('}');
    }
}

settings! {
    /// What the servers of a namespace may cost.
    pub struct NamespaceBudget {
        /// Euros for an hour, by namespace: `{ team-a = 0.5 }`.
        pub budgets: Budgets = Budgets::default(),
        /// Euros for an hour, for each other namespace. Absent: those have no bound.
        pub default: Option<f64> = None,
    }
    check(self) {
        let is_part = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
        let unknown = self.budgets.0.keys().find(|name| name.is_empty() || !name.chars().all(is_part));
        match (unknown, self.default) {
            (Some(name), _) => Err(format!("`budgets`: {name:?} can be no namespace's name")),
            (None, Some(euros)) if euros < 0.0 => Err("`default` is below 0".into()),
            (None, _) => Ok(()),
        }
    }
}

/// Millionths of a euro for an hour, where they are known.
fn price(place: &Place) -> Option<u64> {
    place.price_per_hour.as_ref().filter(|price| price.currency == "EUR").map(|price| price.micros)
}

/// What the servers of these places cost. None: some of them have no known price.
fn held(places: &[Place]) -> Option<u64> {
    let used = places.iter().filter(|place| place.servers > 0);
    used.map(|place| Some(price(place)?.saturating_mul(place.servers.into())))
        .try_fold(0, |sum: u64, costs| Some(sum.saturating_add(costs?)))
}

fn words(micros: u64) -> String {
    format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

impl Placement for NamespaceBudget {
    fn decide(&self, question: Question) -> Answer {
        let Some(namespace) = question.subject.object.as_ref().map(|object| &object.namespace) else {
            return Answer::defer();
        };
        let Some(euros) = self.budgets.0.get(namespace).copied().or(self.default) else { return Answer::defer() };
        let budget = (euros * 1e6).round() as u64;
        let Some(held) = held(&question.places) else {
            return Answer::place(Vec::new())
                .because(format!("namespace {namespace}: the price of a type that it uses is not known"));
        };
        let left = budget.saturating_sub(held);
        let usable = || (0u32..).zip(&question.places).filter(|(_, place)| place.may_be_tried(question.now));
        // Whichever is made of several types, the budget holds.
        let fits = |count: u32, costs: u64| costs.saturating_mul(count.into()) <= left;
        if held <= budget && usable().all(|(_, place)| price(place).is_some_and(|price| fits(question.wanted, price))) {
            return Answer::defer();
        }
        let affordable =
            || usable().filter(|(_, place)| price(place).is_some_and(|price| held <= budget && price <= left));
        let zone = affordable().next().map(|(_, place)| &place.zone);
        let in_zone = || affordable().filter(|(_, place)| Some(&place.zone) == zone);
        let dearest = in_zone().filter_map(|(_, place)| price(place)).max();
        let most = dearest.map_or(0, |dearest| left.checked_div(dearest).unwrap_or(u64::MAX));
        let count = most.min(question.wanted.into()) as u32;
        let places = in_zone().map(|(position, _)| position).collect();
        let assignments = if count > 0 { vec![Assignment { count, places }] } else { Vec::new() };
        Answer::place(assignments).because(format!(
            "namespace {namespace}: {} of {} EUR/h are in use, so {count} of {} servers are created",
            words(held),
            words(budget),
            question.wanted
        ))
    }
}

export_policy!(NamespaceBudget: placement);

#[cfg(test)]
mod tests {
    use placement::Verdict;
    use windlass_guest_sdk::testing::{NOW, configure, place, placement_question, settings_schema};
    use windlass_guest_sdk::types::Object;

    use super::*;

    /// A place with so many servers of this price, in thousandths of a euro.
    fn priced(zone: &str, server_type: &str, servers: u32, price: u64) -> Place {
        let price_per_hour = Some(Money { currency: "EUR".into(), micros: price * 1000 });
        Place { servers, price_per_hour, ..place(zone, server_type) }
    }

    /// What a namespace gets that wants so many, of a budget of a tenth of a euro.
    fn decide(namespace: &str, wanted: u32, places: impl Into<Vec<Place>>) -> Answer {
        let policy: NamespaceBudget =
            configure(r#"{"budgets": {"team-a": 0.1}}"#).unwrap_or_else(|error| panic!("{error}"));
        let mut question = placement_question(wanted, places);
        let object = Object { kind: "InstanceMachine".into(), namespace: namespace.into(), name: "builder".into() };
        question.subject.object = Some(object);
        policy.decide(question)
    }

    fn placed(answer: &Answer) -> Vec<(u32, &[u32])> {
        let Verdict::Place(assignments) = &answer.verdict else { panic!("{answer:?}") };
        assignments.iter().map(|assignment| (assignment.count, &*assignment.places)).collect()
    }

    #[test]
    fn what_the_budget_allows_is_left_to_the_next_policy() {
        assert_eq!(decide("team-a", 5, [priced("fr-par-1", "DEV1-S", 5, 10)]), Answer::defer());
        assert_eq!(decide("team-b", 999, [priced("fr-par-1", "DEV1-S", 5, 10)]), Answer::defer(), "it has no budget");
    }

    #[test]
    fn beyond_the_budget_fewer_or_none_are_created() {
        let answer = decide("team-a", 6, [priced("fr-par-1", "DEV1-S", 5, 10)]);
        assert_eq!(placed(&answer), [(5, &[0][..])]);
        let none = decide("team-a", 1, [priced("fr-par-1", "DEV1-S", 10, 10)]);
        assert!(placed(&none).is_empty());
        let reason = "namespace team-a: 0.1000 of 0.1000 EUR/h are in use, so 0 of 1 servers are created";
        assert_eq!(none.reason.as_deref(), Some(reason));
    }

    #[test]
    fn all_servers_count_whatever_their_type_and_zone() {
        let places = [
            priced("fr-par-1", "DEV1-S", 2, 10),
            priced("fr-par-1", "DEV1-M", 2, 20),
            priced("fr-par-2", "DEV1-S", 2, 10),
        ];
        assert_eq!(placed(&decide("team-a", 3, places)), [(1, &[0, 1][..])], "0.08 are in use");
    }

    #[test]
    fn a_type_that_is_too_dear_is_not_tried() {
        let places = [priced("fr-par-1", "GP1-XS", 0, 200), priced("fr-par-1", "DEV1-S", 0, 10)];
        assert_eq!(placed(&decide("team-a", 20, places)), [(10, &[1][..])]);
    }

    #[test]
    fn a_place_that_backs_off_is_not_used_and_its_servers_count() {
        let off = Place { backoff_until: Some(NOW + 1), ..priced("fr-par-1", "DEV1-S", 8, 10) };
        assert_eq!(placed(&decide("team-a", 3, [off, priced("fr-par-2", "DEV1-S", 0, 10)])), [(2, &[1][..])]);
    }

    #[test]
    fn what_has_no_known_price_is_not_created() {
        let dollars = Money { currency: "USD".into(), micros: 1 };
        for price_per_hour in [None, Some(dollars)] {
            let unknown =
                |servers| Place { servers, price_per_hour: price_per_hour.clone(), ..place("fr-par-1", "NEW") };
            let places = [unknown(0), priced("fr-par-1", "DEV1-S", 0, 10)];
            assert_eq!(placed(&decide("team-a", 1, places)), [(1, &[1][..])]);
            let held = decide("team-a", 1, [unknown(1), priced("fr-par-1", "DEV1-S", 0, 10)]);
            assert!(placed(&held).is_empty(), "what is in use cannot be told");
        }
    }

    #[test]
    fn what_is_for_no_kubernetes_object_is_left_to_the_next_policy() {
        let policy: NamespaceBudget = configure(r#"{"default": 0}"#).unwrap_or_else(|error| panic!("{error}"));
        let question = placement_question(9, [priced("fr-par-1", "DEV1-S", 9, 10)]);
        assert_eq!(policy.decide(question), Answer::defer());
    }

    #[test]
    fn the_schema_names_budgets_and_default_and_is_json() {
        let schema = settings_schema::<NamespaceBudget>();
        assert!(schema.contains(r#""budgets":{"type":"object","additionalProperties":{"type":"number","minimum":0}"#));
        assert!(configure::<NamespaceBudget>(r#"{"default": -1}"#).is_err());
    }
}
