//! The span that a hook receives.

use std::sync::OnceLock;

use tracing::Span;

/// How the context of a span is found: the export's, once one is started.
static LOOK_UP: OnceLock<fn(&Span) -> Option<String>> = OnceLock::new();

/// The W3C trace context of a hook's span, the value of `TRACEPARENT`. `None` where nothing is exported.
///
/// Only spans named `hook` have one: a lookup by any other span gives `None`.
#[must_use]
pub fn traceparent(span: &Span) -> Option<String> {
    LOOK_UP.get()?(span)
}

/// Makes the contexts of spans known.
#[cfg(feature = "otlp")]
pub(crate) fn publish(look_up: fn(&Span) -> Option<String>) {
    let _ = LOOK_UP.set(look_up);
}
