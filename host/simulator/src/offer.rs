//! What is particular about a server type in a zone, and how that changes over time.

use std::time::Duration;

use crate::catalogue::ServerType;
use crate::options::{Availability, Span};
use crate::world::World;

/// In what some server types of some zones differ from the catalogue. Of several offers about the same server, each
/// field is that of the last one that has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Offer {
    /// Only in this zone; absent: in all.
    pub zone: Option<String>,
    /// Only this type; absent: all.
    pub server_type: Option<String>,
    /// Euros.
    pub hourly_price: Option<f64>,
    /// What is left.
    pub availability: Option<Availability>,
    /// `poweron` until `running`, local volumes included; of Apple silicon, its creation until `ready`. Each server draws
    /// its own from the seed.
    pub boot: Option<Span>,
    /// Of Apple silicon, `reinstall` until `ready`. Each reinstallation draws its own.
    pub reinstall: Option<Span>,
    /// What these times are multiplied by.
    pub slowdown: Option<f64>,
    /// The share of servers, from 0 to 1, that are `stopped` after that time and not `running`. Of Apple silicon: `error`
    /// and not `ready`.
    pub failed_boots: Option<f64>,
}

impl Offer {
    fn is_about(&self, zone: &str, server_type: &str) -> bool {
        self.zone.as_deref().is_none_or(|of| of == zone)
            && self.server_type.as_deref().is_none_or(|of| of == server_type)
    }
}

/// How a server starts.
pub(crate) struct Boot {
    /// `poweron` until `running`. Absent: as the options say.
    pub(crate) duration: Option<Duration>,
    pub(crate) slowdown: f64,
    /// Whether it is stopped after that time.
    pub(crate) fails: bool,
}

impl World {
    fn offered<T>(&self, zone: &str, server_type: &str, field: impl Fn(&Offer) -> Option<T>) -> Option<T> {
        self.offers.iter().rev().filter(|offer| offer.is_about(zone, server_type)).find_map(field)
    }

    /// What is left of a server type in a zone.
    pub(crate) fn availability(&self, zone: &str, server_type: &str) -> Availability {
        self.offered(zone, server_type, |offer| offer.availability)
            .or_else(|| self.stock.get(server_type).copied())
            .unwrap_or(Availability::Available)
    }

    /// What an hour of a server type costs in a zone, in euros; 0 if unknown.
    pub(crate) fn hourly_price(&self, zone: &str, kind: &ServerType) -> f64 {
        match self.behaviours.prices(&kind.name) {
            true => self.offered(zone, &kind.name, |offer| offer.hourly_price).unwrap_or_else(|| kind.hourly_price()),
            false => 0.0,
        }
    }

    /// Draws how a server of this type starts. The nth server of a zone and type draws the same whatever else happened.
    pub(crate) fn draw_boot(&mut self, zone: &str, server_type: &str, span: fn(&Offer) -> Option<Span>) -> Boot {
        let [of_span, of_failure] = self.random.boot(zone, server_type);
        let duration = self
            .offered(zone, server_type, span)
            .map(|span| span.shortest + span.longest.saturating_sub(span.shortest).mul_f64(of_span));
        let slowdown = self.offered(zone, server_type, |offer| offer.slowdown);
        let failed_boots = self.offered(zone, server_type, |offer| offer.failed_boots);
        Boot {
            duration,
            slowdown: slowdown.filter(|by| by.is_finite() && *by > 0.0).unwrap_or(1.0),
            fails: failed_boots.is_some_and(|share| of_failure < share),
        }
    }
}
