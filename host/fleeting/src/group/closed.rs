//! Zones that are closed for good, as far as their answers tell. They are asked rarely, and keep no other zone waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use windlass_lifecycle::Error;
use windlass_scaleway::Zone;

use crate::protocol::Failure;

/// How long a zone must have answered so before it counts as closed: a gateway may answer so for a moment.
const CLOSED_AFTER: Duration = Duration::from_secs(60);
/// How often a closed zone is asked again.
const ASKED_EVERY: Duration = Duration::from_secs(600);

/// Whether a list was refused as by a zone that is closed (assumption: closed-zone-answers).
pub(super) fn says_closed(error: &Error) -> bool {
    matches!(error, Error::Scaleway { source, .. } if matches!(source.status(), Some(404 | 410 | 501)))
}

/// What a zone has answered since it was listed last.
#[derive(Debug)]
struct ZoneAnswers {
    since: Instant,
    asked: Instant,
    is_closed: bool,
    why: Failure,
}

/// The zones that answer as closed ones do.
#[derive(Debug, Default)]
pub(crate) struct ClosedZones(BTreeMap<Zone, ZoneAnswers>);

impl ClosedZones {
    /// What a zone is taken to answer that is not asked now.
    pub(super) fn answer(&self, zone: &Zone, now: Instant) -> Option<Failure> {
        let standing = self.0.get(zone).filter(|standing| standing.is_closed)?;
        (now < standing.asked + ASKED_EVERY).then(|| standing.why.clone())
    }

    /// A zone was listed. Whether it was closed before.
    pub(super) fn listed(&mut self, zone: &Zone) -> bool {
        self.0.remove(zone).is_some_and(|standing| standing.is_closed)
    }

    /// A zone could not be listed; `says_closed`: as a closed one cannot. Whether it counts as closed from now on.
    pub(super) fn refused(&mut self, zone: &Zone, says_closed: bool, why: &Failure, now: Instant) -> bool {
        if !says_closed {
            // Once it is closed, any other failure tells nothing new.
            self.0.retain(|other, standing| other != zone || standing.is_closed);
        }
        let standing = match self.0.get_mut(zone) {
            Some(standing) => standing,
            None if says_closed => {
                let standing = ZoneAnswers { since: now, asked: now, is_closed: false, why: why.clone() };
                self.0.entry(zone.clone()).or_insert(standing)
            }
            None => return false,
        };
        standing.asked = now;
        let is_new = !standing.is_closed && now >= standing.since + CLOSED_AFTER;
        standing.is_closed |= is_new;
        is_new
    }

    pub(crate) fn holds(&self, zone: &Zone) -> bool {
        self.0.get(zone).is_some_and(|standing| standing.is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_zone_is_closed_when_it_says_so_for_a_minute_and_is_asked_again_rarely() {
        let (zone, why, second) = ("fr-par-2".parse().unwrap(), Failure("404".to_owned()), Duration::from_secs(1));
        let (mut zones, began) = (ClosedZones::default(), Instant::now());
        assert!(!zones.refused(&zone, true, &why, began));
        assert!(!zones.refused(&zone, true, &why, began + 59 * second), "that may be a gateway");
        assert_eq!(zones.answer(&zone, began + 59 * second), None);
        assert!(!zones.refused(&zone, false, &why, began + 60 * second) && !zones.holds(&zone));
        let began = began + 61 * second;
        assert!(!zones.refused(&zone, true, &why, began));
        assert!(zones.refused(&zone, true, &why, began + 60 * second), "it is said once");
        assert!(zones.holds(&zone));
        assert_eq!(zones.answer(&zone, began + 659 * second), Some(why.clone()));
        assert_eq!(zones.answer(&zone, began + 660 * second), None);
        assert!(!zones.refused(&zone, false, &why, began + 660 * second), "an outage opens nothing");
        assert_eq!(zones.answer(&zone, began + 1_259 * second), Some(why.clone()));
        assert!(zones.listed(&zone) && !zones.holds(&zone) && !zones.listed(&zone));
    }
}
