//! A rehearsal as a document that a console shows later.

use maud::Markup;
use serde::{Deserialize, Serialize};
use windlass_fleeting::Event;

use crate::run::Rehearsal;

/// A rehearsal with what documents for others leave out.
#[derive(Serialize, Deserialize)]
struct Saved {
    rehearsal: Rehearsal,
    /// What each arm did with each seed.
    events: Vec<Vec<Vec<Event>>>,
}

impl Rehearsal {
    /// The rehearsal as a document that [`shown`] reads.
    ///
    /// # Errors
    /// A value has no form in JSON.
    pub fn to_saved(&self) -> Result<String, serde_json::Error> {
        let events = self.arms.iter().map(|arm| arm.outcomes.iter().map(|it| it.events.clone()).collect());
        serde_json::to_string(&Saved { rehearsal: self.clone(), events: events.collect() })
    }
}

/// What a page shows of a saved rehearsal.
///
/// # Errors
/// It is no such document.
pub fn shown(saved: &str) -> Result<Markup, String> {
    let Saved { mut rehearsal, events } = serde_json::from_str(saved).map_err(|error| error.to_string())?;
    let outcomes = rehearsal.arms.iter_mut().map(|arm| arm.outcomes.iter_mut());
    for (outcomes, events) in outcomes.zip(events) {
        outcomes.zip(events).for_each(|(outcome, events)| outcome.events = events);
    }
    Ok(rehearsal.content())
}
