//! Slot `placement`: in which zone, and of which server type, servers are created next (`windlass:policy/placement`).

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::{Failure, FailureClass, Money, Subject};
pub use crate::bindings::placement::*;
use crate::slot_name::SlotName;
use crate::text::counted;

/// The most places that a question may have.
pub const MAX_PLACES: usize = 64;

impl Place {
    /// Whether the slot `retry` lets it be tried at that instant.
    #[must_use]
    pub fn may_be_tried(&self, now: u64) -> bool {
        self.backoff_until.is_none_or(|until| until <= now)
    }
}

/// The slot `placement`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement;

impl Slot for Placement {
    const NAME: SlotName = SlotName::Placement;
    type Question = Question;
    type Answer = Answer;

    fn topic(question: &Question) -> Topic<'_> {
        let wanted = usize::try_from(question.wanted).unwrap_or(usize::MAX);
        Topic::of_group(counted(wanted, "server"), &question.subject)
    }

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// Every position exists; an assignment creates at least one server, names no place twice, and stays in one zone;
    /// no two begin with the same place; no more is placed than is wanted.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        match &answer.verdict {
            Verdict::Defer => Ok(()),
            Verdict::Place(assignments) => check_assignments(question, assignments),
        }
    }

    /// Everything is created in the first zone in the operator's order that has a place which may be tried now, and
    /// with the types that may be; nothing where there is none.
    fn keep(question: &Question) -> Answer {
        let may_be_tried = |place: &&Place| place.may_be_tried(question.now);
        let zone = question.places.iter().find(may_be_tried).map(|place| &place.zone);
        let places: Vec<u32> = (0u32..)
            .zip(&question.places)
            .filter(|(_, place)| Some(&place.zone) == zone && may_be_tried(place))
            .map(|(position, _)| position)
            .collect();
        let assignments = match places.is_empty() || question.wanted == 0 {
            true => Vec::new(),
            false => vec![Assignment { count: question.wanted, places }],
        };
        Answer { verdict: Verdict::Place(assignments), reason: None }
    }

    fn example() -> Question {
        let place = |zone: &str, server_type: &str, servers, price| Place {
            zone: zone.into(),
            server_type: server_type.into(),
            servers,
            creating: 0,
            failures: 0,
            last_failure: None,
            failed_at: None,
            backoff_until: None,
            price_per_hour: Some(Money { currency: "EUR".into(), micros: price }),
        };
        let shortage = Failure {
            class: FailureClass::OutOfStock,
            message: "resource is out of stock".into(),
            path: Some("/instance/v1/zones/fr-par-1/servers".into()),
            status: Some(503),
            error_type: Some("out_of_stock".into()),
            ambiguous: false,
            ..Failure::example()
        };
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            operation: "create-server".into(),
            subject: Subject::example(),
            wanted: 3,
            places: vec![
                Place {
                    failures: 1,
                    last_failure: Some(shortage),
                    failed_at: Some(EXAMPLE_NOW_MS - 60_000),
                    backoff_until: Some(EXAMPLE_NOW_MS + 60_000),
                    ..place("fr-par-1", "DEV1-S", 4, 8_976)
                },
                place("fr-par-1", "DEV1-M", 2, 19_800),
                Place { creating: 1, ..place("fr-par-2", "DEV1-S", 1, 8_976) },
                place("fr-par-2", "DEV1-M", 0, 19_800),
            ],
        }
    }
}

/// See [`Placement::check`](Slot::check).
fn check_assignments(question: &Question, assignments: &[Assignment]) -> Result<(), String> {
    let most = question.places.len();
    let mut begun = vec![false; most];
    let mut placed = 0u64;
    for (number, assignment) in assignments.iter().enumerate() {
        if assignment.count == 0 {
            return Err(format!("assignment {number} creates no server"));
        }
        placed += u64::from(assignment.count);
        let mut named = vec![false; most];
        let mut zone = None;
        for position in &assignment.places {
            let index = *position as usize;
            let Some(place) = question.places.get(index) else {
                return Err(format!("assignment {number} names place {position}, and there are only {most}"));
            };
            if std::mem::replace(&mut named[index], true) {
                return Err(format!("assignment {number} names place {position} twice"));
            }
            match zone {
                None if std::mem::replace(&mut begun[index], true) => {
                    return Err(format!("two assignments begin with place {position}"));
                }
                None => zone = Some(&place.zone),
                Some(zone) if *zone != place.zone => {
                    return Err(format!("assignment {number} names places of two zones, {zone} and {}", place.zone));
                }
                Some(_) => {}
            }
        }
        if zone.is_none() {
            return Err(format!("assignment {number} names no place"));
        }
    }
    match placed <= u64::from(question.wanted) {
        true => Ok(()),
        false => Err(format!("the assignments create {placed} servers, and only {} are wanted", question.wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(assignments: &[(u32, &[u32])]) -> Answer {
        let assignment = |(count, places): &(u32, &[u32])| Assignment { count: *count, places: places.to_vec() };
        Answer { verdict: Verdict::Place(assignments.iter().map(assignment).collect()), reason: None }
    }

    fn check(assignments: &[(u32, &[u32])]) -> Result<(), String> {
        Placement::check(&Placement::example(), &assigned(assignments))
    }

    #[test]
    fn what_fits_the_places_and_the_demand_is_accepted() {
        for assignments in [
            &[][..],
            &[(3, &[0][..])],
            &[(1, &[1, 0])],
            &[(2, &[2, 3]), (1, &[1])],
            // Each type first for some, and the other where that one is out of stock.
            &[(1, &[2, 3]), (2, &[3, 2])],
        ] {
            assert_eq!(check(assignments), Ok(()), "{assignments:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_where_and_why() {
        for (assignments, words) in [
            (&[(1, &[4][..])][..], "assignment 0 names place 4, and there are only 4"),
            (&[(1, &[1]), (1, &[u32::MAX])], "assignment 1 names place 4294967295"),
            (&[(1, &[1, 0, 1])], "assignment 0 names place 1 twice"),
            (&[(1, &[1]), (1, &[1, 0])], "two assignments begin with place 1"),
            (&[(1, &[1, 2])], "assignment 0 names places of two zones, fr-par-1 and fr-par-2"),
            (&[(1, &[])], "assignment 0 names no place"),
            (&[(0, &[1])], "assignment 0 creates no server"),
            (&[(2, &[1]), (2, &[2])], "the assignments create 4 servers, and only 3 are wanted"),
            (&[(u32::MAX, &[1]), (u32::MAX, &[2])], "create 8589934590 servers"),
        ] {
            let error = check(assignments).expect_err(words);
            assert!(error.contains(words), "{assignments:?}: {error}");
        }
    }

    #[test]
    fn the_last_resort_is_the_first_zone_in_which_something_may_be_tried() {
        let mut question = Placement::example();
        let later = Some(question.now + 1);
        assert_eq!(Placement::keep(&question), assigned(&[(3, &[1])]));
        question.places[0].backoff_until = Some(question.now);
        assert_eq!(Placement::keep(&question), assigned(&[(3, &[0, 1])]), "the instant itself is not before it");
        question.places[0].backoff_until = later;
        question.places[1].backoff_until = later;
        assert_eq!(Placement::keep(&question), assigned(&[(3, &[2, 3])]));
        question.places[2].backoff_until = later;
        question.places[3].backoff_until = later;
        assert_eq!(Placement::keep(&question), assigned(&[]));
        assert_eq!(Placement::keep(&Question { wanted: 0, ..Placement::example() }), assigned(&[]));
    }
}
