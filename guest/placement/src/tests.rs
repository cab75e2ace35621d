use proptest::prelude::*;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, NOW, place, placement_question};

use placement::{Assignment, Place, Question, Verdict};

use crate::{DefaultPlacement, Order, Spread};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

fn by_default() -> DefaultPlacement {
    DefaultPlacement::default()
}

fn spread() -> DefaultPlacement {
    DefaultPlacement { spread: Spread::Zones, ..by_default() }
}

fn cheapest() -> DefaultPlacement {
    DefaultPlacement { order: Order::Cheapest, ..by_default() }
}

fn assignments(policy: &DefaultPlacement, question: Question) -> Vec<Assignment> {
    match policy.decide(question).verdict {
        Verdict::Place(assignments) => assignments,
        Verdict::Defer => panic!("the default never defers"),
    }
}

/// The counts and positions of what is placed.
fn placed(policy: &DefaultPlacement, question: Question) -> Vec<(u32, Vec<u32>)> {
    assignments(policy, question).into_iter().map(|assignment| (assignment.count, assignment.places)).collect()
}

/// Two types in each of two zones.
fn places() -> [Place; 4] {
    [place("fr-par-1", "DEV1-S"), place("fr-par-1", "DEV1-M"), place("fr-par-2", "DEV1-S"), place("fr-par-2", "DEV1-M")]
}

fn backing_off(place: Place) -> Place {
    Place { failures: 1, backoff_until: Some(NOW + 90_000), ..place }
}

fn with_servers(servers: u32, place: Place) -> Place {
    Place { servers, ..place }
}

fn priced(micros: u64, place: Place) -> Place {
    Place { price_per_hour: Some(Money { currency: "EUR".into(), micros }), ..place }
}

/// One zone with so many servers of one type, for each count.
fn zones(servers: &[u32]) -> Vec<Place> {
    let zone = |(number, servers): (usize, &u32)| with_servers(*servers, place(&format!("zone-{number}"), "DEV1-S"));
    servers.iter().enumerate().map(zone).collect()
}

#[test]
fn everything_goes_to_the_first_zone_and_tries_its_types_in_their_order() {
    assert_eq!(placed(&by_default(), placement_question(5, places())), [(5, vec![0, 1])]);
}

#[test]
fn a_type_that_backs_off_is_not_tried_and_a_zone_only_when_all_its_types_do() {
    let [first, second, third, fourth] = places();
    let places = [backing_off(first), second, third, fourth];
    assert_eq!(placed(&by_default(), placement_question(5, places.clone())), [(5, vec![1])]);
    let [first, second, third, fourth] = places;
    let places = [first, backing_off(second), third, fourth];
    let answer = by_default().decide(placement_question(5, places.clone()));
    assert_eq!(answer.reason.as_deref(), Some("2 of 4 places back off"));
    assert_eq!(placed(&by_default(), placement_question(5, places)), [(5, vec![2, 3])]);
}

#[test]
fn a_backoff_that_is_over_is_none() {
    let over = Place { backoff_until: Some(NOW), ..backing_off(place("fr-par-1", "DEV1-S")) };
    assert_eq!(placed(&by_default(), placement_question(1, [over, place("fr-par-2", "DEV1-S")])), [(1, vec![0])]);
}

#[test]
fn where_every_place_backs_off_nothing_is_created_and_the_reason_says_for_how_long() {
    for policy in [by_default(), spread(), cheapest()] {
        let mut places = places().map(backing_off);
        places[3].backoff_until = Some(NOW + 1);
        let answer = policy.decide(placement_question(5, places));
        assert_eq!(answer.verdict, Verdict::Place(Vec::new()));
        assert_eq!(answer.reason.as_deref(), Some("every place backs off, the first one for 1 s more"));
    }
    assert_eq!(placed(&by_default(), placement_question(5, [])), []);
}

#[test]
fn spread_over_zones_each_gets_as_many_as_it_lacks() {
    for (servers, wanted, counts) in [
        (&[0, 0, 0][..], 3, &[1, 1, 1][..]),
        (&[0, 0, 0], 7, &[3, 2, 2]),
        (&[0, 0, 0], 2, &[1, 1, 0]),
        (&[4, 1, 2], 4, &[0, 3, 1]),
        (&[4, 1, 2], 6, &[1, 3, 2]),
        (&[4, 0, 4], 3, &[0, 3, 0]),
        (&[4, 3, 4], 2, &[1, 1, 0]),
        (&[9, 0, 0], 1, &[0, 1, 0]),
        (&[9], 5, &[5]),
        (&[0, u32::MAX], u32::MAX, &[u32::MAX, 0]),
        (&[u32::MAX, u32::MAX], u32::MAX, &[u32::MAX / 2 + 1, u32::MAX / 2]),
    ] {
        let mut expected: Vec<(u32, Vec<u32>)> = Vec::new();
        for (zone, count) in (0u32..).zip(counts).filter(|(_, count)| **count > 0) {
            expected.push((*count, vec![zone]));
        }
        let found = placed(&spread(), placement_question(wanted, zones(servers)));
        assert_eq!(found, expected, "{wanted} more than {servers:?}");
    }
}

#[test]
fn spread_over_zones_all_types_of_a_zone_count_and_those_that_back_off_are_not_tried() {
    let [first, second, third, fourth] = places();
    let places = [backing_off(with_servers(3, first)), second, with_servers(1, third), fourth];
    assert_eq!(placed(&spread(), placement_question(4, places)), [(1, vec![1]), (3, vec![2, 3])]);
}

#[test]
fn the_cheapest_comes_first_and_what_has_no_known_price_last() {
    let [first, second, third, fourth] = places();
    let dollars = Place { price_per_hour: Some(Money { currency: "USD".into(), micros: 1 }), ..second.clone() };
    let places = [first.clone(), priced(19_800, second), priced(8_976, third.clone()), priced(19_800, fourth.clone())];
    assert_eq!(placed(&cheapest(), placement_question(2, places.clone())), [(2, vec![2, 3])]);
    let both = DefaultPlacement { order: Order::Cheapest, spread: Spread::Zones };
    assert_eq!(placed(&both, placement_question(3, places)), [(2, vec![2, 3]), (1, vec![1, 0])]);
    // Another currency than that of the first price says nothing.
    let places = [priced(9_000, first), dollars, priced(8_976, third), fourth];
    assert_eq!(placed(&both, placement_question(2, places)), [(1, vec![2, 3]), (1, vec![0, 1])]);
}

#[test]
fn what_costs_the_same_stays_in_the_operators_order() {
    let places = places().map(|place| priced(8_976, place));
    assert_eq!(placed(&cheapest(), placement_question(1, places)), [(1, vec![0, 1])]);
}

#[test]
fn its_settings_are_words() {
    let read = testing::configure::<DefaultPlacement>;
    let both = DefaultPlacement { order: Order::Cheapest, spread: Spread::Zones };
    assert_eq!(read(r#"{"order": "cheapest", "spread": "zones"}"#), Ok(both));
    let refused = read(r#"{"spread": "zone"}"#);
    assert!(refused.as_ref().is_err_and(|words| words.contains("spread") && words.contains("zones")), "{refused:?}");
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    testing::readme::assert_settings::<DefaultPlacement>(README);
    let [first, second, third, fourth] = places();
    let prices = [priced(19_800, first.clone()), second.clone(), priced(8_976, third.clone()), fourth.clone()];
    let words = |policy: &DefaultPlacement, places: &[Place]| {
        let placed = placed(policy, placement_question(3, places));
        let name = |position: &u32| {
            let place = &places[*position as usize];
            format!("{} {}", place.zone, place.server_type)
        };
        let assignment = |(count, places): &(u32, Vec<u32>)| {
            format!("{count}: {}", places.iter().map(name).collect::<Vec<_>>().join(", then "))
        };
        match placed.is_empty() {
            true => "nothing".to_owned(),
            false => placed.iter().map(assignment).collect::<Vec<_>>().join("; "),
        }
    };
    let busy = [with_servers(2, first.clone()), second.clone(), third.clone(), fourth.clone()];
    let rows: Vec<Vec<String>> = [
        ("nothing has failed", places()),
        (
            "`DEV1-S` backs off in `fr-par-1`",
            [backing_off(first.clone()), second.clone(), third.clone(), fourth.clone()],
        ),
        ("`fr-par-1` backs off", [backing_off(first), backing_off(second), third, fourth]),
        ("everything backs off", places().map(backing_off)),
        ("two servers are in `fr-par-1`", busy),
        ("`DEV1-S` costs less in `fr-par-2`", prices),
    ]
    .iter()
    .map(|(case, places)| {
        let of = |policy| words(&policy, places);
        vec![(*case).to_owned(), of(by_default()), of(spread()), of(cheapest())]
    })
    .collect();
    let header = ["three are wanted, and", "by default", "`spread = \"zones\"`", "`order = \"cheapest\"`"];
    testing::readme::assert_table(README, "decisions", &header, &rows);
}

fn any_question() -> impl Strategy<Value = Question> {
    let place = (0usize..4, 0u32..6, proptest::option::of(0u64..3), proptest::option::of(0u64..3)).prop_map(
        |(zone, servers, backoff, price)| Place {
            backoff_until: backoff.map(|later| NOW - 1 + later),
            price_per_hour: price.map(|micros| Money { currency: "EUR".into(), micros }),
            ..with_servers(servers, place(&format!("zone-{zone}"), "DEV1-S"))
        },
    );
    (0u32..40, proptest::collection::vec(place, 0..12)).prop_map(|(wanted, places)| placement_question(wanted, places))
}

fn any_policy() -> impl Strategy<Value = DefaultPlacement> {
    (proptest::sample::select(Order::ALL), proptest::sample::select(Spread::ALL))
        .prop_map(|(order, spread)| DefaultPlacement { order, spread })
}

proptest! {
    #[test]
    fn all_that_is_wanted_is_placed_where_anything_may_be_tried(question in any_question(), policy in any_policy()) {
        let assignments = assignments(&policy, question.clone());
        let placed: u32 = assignments.iter().map(|assignment| assignment.count).sum();
        let possible = question.places.iter().any(|place| place.may_be_tried(NOW));
        prop_assert_eq!(placed, if possible { question.wanted } else { 0 });
        let mut named: Vec<u32> = assignments.iter().flat_map(|assignment| assignment.places.clone()).collect();
        let count = named.len();
        named.sort_unstable();
        named.dedup();
        prop_assert_eq!(named.len(), count, "a place is named once");
        for Assignment { count, places } in &assignments {
            let zone = &question.places[places[0] as usize].zone;
            prop_assert!(*count > 0);
            for position in places {
                let place = &question.places[*position as usize];
                prop_assert!(place.zone == *zone && place.may_be_tried(NOW));
            }
        }
    }

    /// Placed one at a time, each in the emptiest zone, they end up the same.
    #[test]
    fn a_spread_is_what_one_after_the_other_gives(question in any_question()) {
        let mut zones: Vec<(String, u32, u32)> = Vec::new();
        for place in question.places.iter().filter(|place| place.may_be_tried(NOW)) {
            if zones.iter().all(|(zone, ..)| *zone != place.zone) {
                let there = question.places.iter().filter(|other| other.zone == place.zone);
                zones.push((place.zone.clone(), there.map(|place| place.servers).sum(), 0));
            }
        }
        for _ in 0..question.wanted {
            if let Some((_, servers, count)) = zones.iter_mut().min_by_key(|(_, servers, _)| *servers) {
                *servers += 1;
                *count += 1;
            }
        }
        let expected: Vec<(String, u32)> =
            zones.into_iter().filter(|(.., count)| *count > 0).map(|(zone, _, count)| (zone, count)).collect();
        let found = assignments(&spread(), question.clone());
        let zone = |assignment: &Assignment| question.places[assignment.places[0] as usize].zone.clone();
        let found: Vec<(String, u32)> = found.iter().map(|assignment| (zone(assignment), assignment.count)).collect();
        prop_assert_eq!(found, expected);
    }
}
