//! The places where instances are made: each zone with each server type that it has. What failed where, until when
//! nothing is tried there, and what the placement policy is asked and answers. Pure data: no calls, no clock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_lifecycle::euros;
use windlass_policy::slots::placement::{self as policy, Answer, Assignment, Question, Verdict};
use windlass_policy::slots::types::{Failure, FailureClass, Subject};
use windlass_scaleway::Zone;

use super::pause::Pause;

/// For how long the question tells policies to try nothing in a zone that could not be listed at the last look.
const UNREACHABLE: Duration = Duration::from_secs(30);

/// Where an instance is, or is to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) zone: Zone,
    pub(crate) server_type: String,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in {}", self.server_type, self.zone)
    }
}

/// What is known of one place.
#[derive(Debug)]
struct PlaceState {
    place: Place,
    /// Euros for an hour.
    price: Option<f64>,
    /// After failures.
    pause: Arc<Mutex<Pause>>,
    /// Failed creations in a row, each burst once.
    failures: u32,
    /// The last of them and when it was, in milliseconds since 1970 and by the process's clock.
    last: Option<(Failure, u64, Instant)>,
}

/// Why nothing is created at a place, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Backoff {
    pub(crate) why: String,
    pub(crate) rest: Duration,
    /// Whether the reason may be gone at any moment: then it counts only while another place can be used.
    pub(crate) passing: bool,
}

/// Creations that a policy placed: how many, in which zone, and the types that each tries in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) count: u32,
    pub(crate) zone: Zone,
    pub(crate) types: Vec<String>,
}

/// All places of a group, in the operator's order: zones, and in each its types.
#[derive(Debug, Default)]
pub(crate) struct Places {
    all: Vec<PlaceState>,
    /// Zones that could not be asked at the last look, and why.
    unreachable: BTreeMap<Zone, Failure>,
}

/// A creation, as far as places are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    pub(crate) zone: Zone,
    /// The types that it tries, in order.
    pub(crate) types: Vec<String>,
    /// When it was accepted.
    pub(crate) accepted: Instant,
}

impl Places {
    pub(crate) fn new(places: impl IntoIterator<Item = (Place, Option<f64>)>) -> Self {
        let standing = |(place, price)| PlaceState { place, price, pause: Arc::default(), failures: 0, last: None };
        Self { all: places.into_iter().map(standing).collect(), unreachable: BTreeMap::new() }
    }

    /// The places that a creation was to try.
    fn tried<'a>(&'a mut self, ended: &'a Creation) -> impl Iterator<Item = &'a mut PlaceState> {
        self.all
            .iter_mut()
            .filter(|standing| standing.place.zone == ended.zone && ended.types.contains(&standing.place.server_type))
    }

    /// A creation failed in all that it was to try: these, with their pauses.
    pub(crate) fn failed(
        &mut self,
        ended: &Creation,
        failure: &Failure,
        now: Instant,
        at: u64,
    ) -> Vec<(Place, Arc<Mutex<Pause>>)> {
        let count = |standing: &mut PlaceState| {
            standing.count(ended.accepted, failure, now, at);
            (standing.place.clone(), Arc::clone(&standing.pause))
        };
        self.tried(ended).map(count).collect()
    }

    /// A creation went well with this type: those that it was to try before were out of stock. Answers the places where
    /// a pause is over.
    pub(crate) fn succeeded(&mut self, ended: &Creation, server_type: &str, now: Instant, at: u64) -> Vec<Place> {
        let made = ended.types.iter().position(|tried| tried.eq_ignore_ascii_case(server_type)).unwrap_or(0);
        let mut over = Vec::new();
        for standing in self.tried(ended) {
            let position = ended.types.iter().position(|tried| *tried == standing.place.server_type);
            if position.is_some_and(|position| position < made) {
                let why = format!("there was no {}, so a {server_type} was made", standing.place.server_type);
                standing.count(ended.accepted, &Failure::of_class(FailureClass::OutOfStock, why), now, at);
            } else if standing.pause.lock().succeeded(ended.accepted) {
                (standing.failures, standing.last) = (0, None);
                over.push(standing.place.clone());
            }
        }
        over
    }

    /// Takes in whether a zone could be asked. Whether that is new.
    pub(crate) fn looked(&mut self, zone: &Zone, failure: Option<Failure>) -> bool {
        match failure {
            Some(failure) => self.unreachable.insert(zone.clone(), failure).is_none(),
            None => self.unreachable.remove(zone).is_some(),
        }
    }

    /// Where nothing is to be tried now, in the order of the places. A reason that may be gone at any moment counts for
    /// nothing where no place is left: then such a place is the best that there is.
    pub(crate) fn backoffs(&self, now: Instant) -> Vec<Option<Backoff>> {
        let mut all: Vec<Option<Backoff>> = self.all.iter().map(|standing| self.backoff(standing, now)).collect();
        if all.iter().all(Option::is_some) {
            for backoff in &mut all {
                backoff.take_if(|backoff| backoff.passing);
            }
        }
        all
    }

    fn backoff(&self, standing: &PlaceState, now: Instant) -> Option<Backoff> {
        let pause = standing.pause.lock();
        let paused =
            pause.current(now).map(|(why, rest)| Backoff { why: why.to_owned(), rest, passing: pause.is_passing() });
        paused.or_else(|| {
            let failure = self.unreachable.get(&standing.place.zone)?;
            let why = format!("{} cannot be asked: {}", standing.place.zone, failure.message);
            Some(Backoff { why, rest: UNREACHABLE, passing: true })
        })
    }

    /// What the placement policy is asked. `count`: of a place, how many servers the group has there, and how many of
    /// them are being created.
    pub(crate) fn question(
        &self,
        ask: Ask,
        count: impl Fn(&Place) -> (u32, u32),
        backoffs: &[Option<Backoff>],
    ) -> Question {
        let place = |(standing, backoff): (&PlaceState, &Option<Backoff>)| {
            let (servers, creating) = count(&standing.place);
            let last = standing.last.as_ref();
            policy::Place {
                zone: standing.place.zone.to_string(),
                server_type: standing.place.server_type.clone(),
                servers,
                creating,
                failures: standing.failures,
                last_failure: last.map(|(failure, ..)| failure.clone()),
                failed_at: last.map(|(_, at, _)| *at),
                backoff_until: backoff.as_ref().map(|backoff| ask.now.saturating_add(milliseconds(backoff.rest))),
                price_per_hour: standing.price.and_then(euros),
            }
        };
        let places = self.all.iter().zip(backoffs).map(place).collect();
        let Ask { now, random, subject, wanted } = ask;
        Question { now, random, operation: "create-server".to_owned(), subject, wanted, places }
    }

    /// What an answer to such a question means.
    pub(crate) fn placed(&self, answer: &Answer) -> Vec<Placed> {
        let Verdict::Place(assignments) = &answer.verdict else { return Vec::new() };
        let placed = |assignment: &Assignment| {
            let places: Vec<&Place> = assignment
                .places
                .iter()
                .filter_map(|position| Some(&self.all.get(usize::try_from(*position).ok()?)?.place))
                .collect();
            let zone = places.first()?.zone.clone();
            let types = places.into_iter().map(|place| place.server_type.clone()).collect();
            Some(Placed { count: assignment.count, zone, types })
        };
        assignments.iter().filter_map(placed).collect()
    }
}

/// What a question says beside its places.
pub(crate) struct Ask {
    /// In milliseconds since 1970.
    pub(crate) now: u64,
    pub(crate) random: u64,
    pub(crate) subject: Subject,
    pub(crate) wanted: u32,
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl PlaceState {
    /// Counts a failure, unless it is of a burst that was counted.
    fn count(&mut self, accepted: Instant, failure: &Failure, now: Instant, at: u64) {
        if self.last.as_ref().is_none_or(|(_, _, last)| accepted > *last) {
            self.failures = self.failures.saturating_add(1);
            self.last = Some((failure.clone(), at, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_policy::slots::placement::Answer;
    use windlass_policy::slots::types::Money;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn zone(name: &str) -> Zone {
        name.parse().unwrap()
    }

    fn place(zone_name: &str, server_type: &str) -> Place {
        Place { zone: zone(zone_name), server_type: server_type.to_owned() }
    }

    /// Two zones with two types.
    fn places() -> Places {
        let all = ["fr-par-1", "fr-par-2"].iter().flat_map(|zone| ["DEV1-S", "DEV1-M"].map(|name| place(zone, name)));
        Places::new(all.map(|place| (place, Some(0.5))))
    }

    fn creation(zone_name: &str, types: &[&str], accepted: Instant) -> Creation {
        Creation { zone: zone(zone_name), types: types.iter().map(|name| (*name).to_owned()).collect(), accepted }
    }

    fn failure(class: FailureClass) -> Failure {
        Failure::of_class(class, "no")
    }

    /// As `pause_after` begins it, without a policy.
    fn pause(places: &mut Places, creation: &Creation, class: FailureClass, now: Instant) {
        let accepted = creation.accepted;
        for (_, pause) in places.failed(creation, &failure(class), now, 1) {
            pause.lock().failed_without_policy(now, accepted, &failure(class));
        }
    }

    fn backing_off(places: &Places, now: Instant) -> Vec<bool> {
        places.backoffs(now).iter().map(Option::is_some).collect()
    }

    fn asked(places: &Places, now: Instant) -> Question {
        let ask = Ask { now: 1_000_000, random: 7, subject: Subject::example(), wanted: 2 };
        places.question(ask, |_| (3, 1), &places.backoffs(now))
    }

    #[tokio::test(start_paused = true)]
    async fn a_creation_that_found_no_stock_keeps_the_next_from_its_places_only() {
        let (mut places, now) = (places(), Instant::now());
        pause(&mut places, &creation("fr-par-2", &["DEV1-M"], now), FailureClass::OutOfStock, now + SECOND);
        assert_eq!(backing_off(&places, now + SECOND), [false, false, false, true]);
        let question = asked(&places, now + SECOND);
        let seen: Vec<_> = question.places.iter().map(|place| (place.failures, place.backoff_until)).collect();
        assert_eq!(seen, [(0, None), (0, None), (0, None), (1, Some(1_010_000))]);
        let first = &question.places[0];
        assert_eq!((first.zone.as_str(), first.server_type.as_str()), ("fr-par-1", "DEV1-S"));
        assert_eq!((first.servers, first.creating, question.wanted), (3, 1, 2));
        assert_eq!(first.price_per_hour, Some(Money { currency: "EUR".to_owned(), micros: 500_000 }));
        assert_eq!(backing_off(&places, now + 12 * SECOND), [false; 4], "it is over by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_ends_the_pause_of_its_type_and_tells_of_those_that_it_passed_over() {
        let (mut places, now) = (places(), Instant::now());
        let both = ["DEV1-S", "DEV1-M"];
        pause(&mut places, &creation("fr-par-1", &both, now), FailureClass::OutOfStock, now + SECOND);
        let later = creation("fr-par-1", &both, now + 2 * SECOND);
        assert_eq!(places.succeeded(&later, "DEV1-M", now + 3 * SECOND, 2), [place("fr-par-1", "DEV1-M")]);
        assert_eq!(backing_off(&places, now + 3 * SECOND), [true, false, false, false]);
        let failures = |places: &Places| asked(places, now).places.iter().map(|it| it.failures).collect::<Vec<_>>();
        assert_eq!(failures(&places), [2, 0, 0, 0]);
        let last = creation("fr-par-1", &both, now + 4 * SECOND);
        places.succeeded(&last, "DEV1-S", now + 5 * SECOND, 3);
        assert_eq!(failures(&places), [0; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn passing_over_a_type_counts_and_makes_no_pause() {
        let (mut places, now) = (places(), Instant::now());
        for late in 1..4 {
            let creation = creation("fr-par-1", &["DEV1-S", "DEV1-M"], now);
            places.succeeded(&creation, "DEV1-M", now + late * SECOND, 1);
        }
        assert_eq!(backing_off(&places, now + 4 * SECOND), [false; 4]);
        assert_eq!(asked(&places, now).places[0].failures, 1, "they were accepted together");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reason_that_may_be_gone_counts_only_while_there_is_another_place() {
        let (mut places, now) = (places(), Instant::now());
        let both = ["DEV1-S", "DEV1-M"];
        pause(&mut places, &creation("fr-par-1", &both, now), FailureClass::ServerError, now);
        assert_eq!(backing_off(&places, now), [true, true, false, false]);
        pause(&mut places, &creation("fr-par-2", &both, now), FailureClass::OutOfStock, now);
        assert_eq!(backing_off(&places, now), [false, false, true, true], "no stock is no stock");
        let (mut places, outage) = (places_of_two_outages(), failure(FailureClass::Connection));
        assert_eq!(backing_off(&places, now), [false; 4]);
        assert!(places.looked(&zone("fr-par-2"), None), "that is new");
        assert!(!places.looked(&zone("fr-par-2"), None));
        assert_eq!(backing_off(&places, now), [true, true, false, false]);
        assert!(!places.looked(&zone("fr-par-1"), Some(outage)));
    }

    fn places_of_two_outages() -> Places {
        let mut places = places();
        for name in ["fr-par-1", "fr-par-2"] {
            assert!(places.looked(&zone(name), Some(failure(FailureClass::Connection))));
        }
        places
    }

    #[test]
    fn an_answer_is_read_by_the_positions_of_its_question() {
        let assignment = |count, places: &[u32]| Assignment { count, places: places.to_vec() };
        let verdict = Verdict::Place(vec![assignment(2, &[3, 2]), assignment(1, &[0])]);
        let placed = places().placed(&Answer { verdict, reason: None });
        let of = |count, zone_name, types: &[&str]| Placed {
            count,
            zone: zone(zone_name),
            types: types.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(placed, [of(2, "fr-par-2", &["DEV1-M", "DEV1-S"]), of(1, "fr-par-1", &["DEV1-S"])]);
        assert_eq!(places().placed(&Answer { verdict: Verdict::Defer, reason: None }), []);
    }
}
