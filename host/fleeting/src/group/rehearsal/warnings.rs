//! What the plugin warns of during a rehearsal. There is no log to read, so the result says it.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Warnings and errors by their place in the code: how often each came, and its first text.
#[derive(Clone, Default)]
pub(super) struct Warnings(Arc<Mutex<BTreeMap<Place, (usize, String)>>>);

/// A file and a line of the code.
type Place = (&'static str, u32);

impl Warnings {
    /// A subscriber that counts warnings here, and does nothing else.
    pub(super) fn subscriber(&self) -> Dispatch {
        // The decision log of a rehearsal is off, so its lost records mean nothing.
        let filter = Targets::new()
            .with_default(LevelFilter::WARN)
            .with_target("windlass_policy::decision_log", LevelFilter::OFF);
        Dispatch::new(tracing_subscriber::registry().with(self.clone().with_filter(filter)))
    }

    /// A note for each kind of warning.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |(count, text): &(usize, String)| match count {
            1 => format!("warning: {text}"),
            _ => format!("warning ({count} times): {text}"),
        };
        self.0.lock().values().map(note).collect()
    }
}

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let place = (event.metadata().file().unwrap_or_default(), event.metadata().line().unwrap_or_default());
        let mut kinds = self.0.lock();
        let (count, text) = kinds.entry(place).or_default();
        *count += 1;
        if *count == 1 {
            let mut read = Text::default();
            event.record(&mut read);
            *text = read.message + &read.fields;
        }
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{}", crate::protocol::Failure::from_error(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_by_their_place_and_the_first_is_quoted() {
        let warnings = Warnings::default();
        tracing::dispatcher::with_default(&warnings.subscriber(), || {
            for zone in ["fr-par-1", "nl-ams-1"] {
                tracing::warn!(zone, "a zone does not answer");
                tracing::info!("a server was created");
            }
            tracing::error!(error = &std::io::Error::other("no room") as &dyn std::error::Error, "it failed");
        });
        assert_eq!(
            warnings.notes(),
            ["warning (2 times): a zone does not answer, zone: fr-par-1", "warning: it failed, error: no room"]
        );
    }
}
