//! How what is wanted is put into places. Rules (guest/rules) place with this file as well, so that all that they have
//! to say is which places come first, which last and which not at all.

use windlass_guest_sdk::prelude::*;

use placement::{Assignment, Question};

/// The places of one zone that may be used.
#[derive(Debug)]
struct Zone {
    /// The group's servers in it, of whatever type.
    servers: u64,
    /// Positions, the first to be tried first.
    places: Vec<u32>,
}

/// The positions of the places that may be tried now, in the question's order.
pub(crate) fn usable(question: &Question) -> Vec<u32> {
    let usable = (0u32..).zip(&question.places).filter(|(_, place)| place.may_be_tried(question.now));
    usable.map(|(position, _)| position).collect()
}

/// Everything goes to the zone of the first of these places, and tries all of them that are in that zone.
pub(crate) fn in_order(question: &Question, places: &[u32]) -> Vec<Assignment> {
    let first = zones(question, places).into_iter().next();
    first.filter(|_| question.wanted > 0).map(|zone| assignment(question.wanted, zone)).into_iter().collect()
}

/// The zones of these places are filled up to one level, so that those with the fewest servers get the most; what is
/// then left over goes to those that come first, one to each.
#[allow(dead_code, reason = "rules place in order")]
pub(crate) fn evenly(question: &Question, places: &[u32]) -> Vec<Assignment> {
    let mut zones = zones(question, places);
    let (level, mut left_over);
    // A zone that has no less than the fullest would have is not filled, and then the others get more. Each round
    // leaves one out at least, or is the last.
    loop {
        let all = zones.len();
        let total = u64::from(question.wanted) + zones.iter().map(|zone| zone.servers).sum::<u64>();
        let Some(even) = total.checked_div(all as u64) else { return Vec::new() };
        let rest = total % all as u64;
        zones.retain(|zone| zone.servers < even + u64::from(rest > 0));
        if zones.len() == all {
            (level, left_over) = (even, rest);
            break;
        }
    }
    let mut assignments = Vec::with_capacity(zones.len());
    for zone in zones {
        let count = level - zone.servers + u64::from(left_over > 0);
        left_over = left_over.saturating_sub(1);
        if count > 0 {
            // No more than all that is wanted.
            assignments.push(assignment(count as u32, zone));
        }
    }
    assignments
}

fn assignment(count: u32, zone: Zone) -> Assignment {
    Assignment { count, places: zone.places }
}

/// The zones of these places, in the order in which they come up.
fn zones(question: &Question, places: &[u32]) -> Vec<Zone> {
    let mut zones: Vec<(&str, Zone)> = Vec::new();
    for position in places {
        let Some(place) = question.places.get(*position as usize) else { continue };
        match zones.iter_mut().find(|(name, _)| *name == place.zone) {
            Some((_, zone)) => zone.places.push(*position),
            None => {
                let there = question.places.iter().filter(|other| other.zone == place.zone);
                let servers = there.map(|place| u64::from(place.servers)).sum();
                zones.push((&place.zone, Zone { servers, places: vec![*position] }));
            }
        }
    }
    zones.into_iter().map(|(_, zone)| zone).collect()
}
