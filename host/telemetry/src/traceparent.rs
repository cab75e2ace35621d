//! What a hook is told of its span.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tracing::Span;

/// The W3C trace contexts of the hooks that run now, by the subscriber's id of their spans.
static HOOKS: Mutex<BTreeMap<u64, String>> = Mutex::new(BTreeMap::new());

/// The W3C trace context of a hook's span, the value of `TRACEPARENT`. `None` where nothing is exported.
///
/// Only spans named `hook` have one: a lookup by any other span gives `None`.
#[must_use]
pub fn traceparent(span: &Span) -> Option<String> {
    HOOKS.lock().get(&span.id()?.into_u64()).cloned()
}

/// Makes the context of a hook's span known, for as long as the span lives.
#[cfg(feature = "otlp")]
pub(crate) fn publish(span: &tracing::span::Id, context: String) {
    HOOKS.lock().insert(span.into_u64(), context);
}

/// The span has ended.
#[cfg(feature = "otlp")]
pub(crate) fn withdraw(span: &tracing::span::Id) {
    HOOKS.lock().remove(&span.into_u64());
}
