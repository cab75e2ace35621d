//! What happened, as events of objects.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::status::bounded;

/// The longest note of an event, in bytes (a rule of Kubernetes).
const MAX_NOTE_LEN: usize = 1000;
/// How long kube's recorder counts an event that comes again.
const REMEMBERED: Duration = Duration::from_secs(360);

/// Publishes events. Cheap to share.
///
/// kube's recorder takes all events of one reason about one object for one that comes again, and keeps the first one's
/// note alone. So there is a recorder for each note: only what is said again is counted.
pub(crate) struct Events {
    client: Client,
    reporter: Reporter,
    by_note: Mutex<HashMap<String, (Instant, Recorder)>>,
}

impl Events {
    pub(crate) fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, by_note: Mutex::default() }
    }

    fn recorder(&self, note: &str) -> Recorder {
        let now = Instant::now();
        let mut by_note = self.by_note.lock();
        by_note.retain(|_, (used, _)| now.duration_since(*used) < REMEMBERED);
        let new = || (now, Recorder::new(self.client.clone(), self.reporter.clone()));
        let known = by_note.entry(note.to_owned()).or_insert_with(new);
        known.0 = now;
        known.1.clone()
    }

    /// Tells what happened, as an event of the object. One that cannot be published is logged.
    pub(crate) async fn publish(
        &self,
        about: &ObjectReference,
        warning: bool,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        let mut note = bounded(note.into());
        note.truncate(note.floor_char_boundary(MAX_NOTE_LEN));
        let (name, namespace) = (about.name.as_deref().unwrap_or_default(), about.namespace.as_deref());
        if warning {
            tracing::warn!(name, namespace, reason, "{note}");
        } else {
            tracing::info!(name, namespace, reason, "{note}");
        }
        let recorder = self.recorder(&note);
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, about).await {
            tracing::warn!(error = &error as &dyn std::error::Error, name, reason, "the event was not published");
        }
    }
}
