//! Log lines on standard error in the form that go-plugin hosts parse (hclog's JSON): one object per line with the text
//! keys `@level`, `@message`, `@module` and `@timestamp`, and every other key as a field.
//!
//! A host takes a line that does not parse for plain text of level debug, which a runner does not show; and it panics
//! on an `@` key that is no text. Both are what this module keeps from happening.

use std::fmt;
use std::io::Write;
use std::sync::Mutex;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_policy::cut;
use windlass_telemetry::{Telemetry, log_filter_or_info};

/// A longer text is cut: the host splits lines of more than 64 KiB and loses their level.
const MAX_TEXT_BYTES: usize = 8 * 1024;
/// More fields are left out, for the same reason.
const MAX_FIELDS: usize = 6;

/// Sends everything that is traced to standard error, from `info` on, or as `WINDLASS_LOG` says. A filter that cannot
/// be read is reported in the log and replaced by the default. Does nothing where logging was started before. Spans go
/// to the collector as well, where there is one.
pub fn start_logging(telemetry: &Telemetry) {
    let (filter, refused) = log_filter_or_info();
    let lines = HostLog::new(std::io::stderr()).with_filter(filter);
    let _ = tracing_subscriber::registry().with(telemetry.layer()).with(lines).try_init();
    // What the standard library writes is no line of the form above, and the host would show it at its finest level.
    std::panic::set_hook(Box::new(log_panic));
    if let Some(error) = refused {
        tracing::warn!(%error, "the log's filter cannot be read and is ignored");
    }
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let payload = panic.payload();
    let words =
        payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = panic.location().map_or_else(String::new, ToString::to_string);
    tracing::error!(place, "the plugin has a defect: {}", words.unwrap_or("a panic without a message"));
}

/// Writes each event as one line.
struct HostLog<W> {
    output: Mutex<W>,
}

impl<W> HostLog<W> {
    fn new(output: W) -> Self {
        Self { output: Mutex::new(output) }
    }
}

/// A span's fields, kept with the span.
struct SpanFields(Map<String, Value>);

impl<S, W> Layer<S> for HostLog<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Map::new();
        attributes.record(&mut Collector { fields: &mut fields, message: None });
        span.extensions_mut().insert(SpanFields(fields));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(SpanFields(fields)) = span.extensions_mut().get_mut::<SpanFields>() {
            values.record(&mut Collector { fields, message: None });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Map::new();
        // Outermost first, so that what is closer to the event wins.
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(SpanFields(of_span)) = span.extensions().get::<SpanFields>() {
                fields.extend(of_span.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        let mut collector = Collector { fields: &mut fields, message: None };
        event.record(&mut collector);
        let message = collector.message.unwrap_or_default();
        let line = line(*event.metadata().level(), event.metadata().target(), message, fields, jiff::Timestamp::now());
        // A log that cannot be written must not bring the plugin down.
        if let Ok(mut output) = self.output.lock() {
            let _ = output.write_all(line.as_bytes());
        }
    }
}

/// One line with its end.
fn line(level: Level, module: &str, message: String, fields: Map<String, Value>, at: jiff::Timestamp) -> String {
    let level = match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    let mut object = Map::new();
    object.insert("@level".to_owned(), level.into());
    object.insert("@message".to_owned(), bounded(message).into());
    object.insert("@module".to_owned(), module.into());
    // Exactly six digits, or the host takes the whole line for plain text.
    object.insert("@timestamp".to_owned(), at.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into());
    for (key, value) in fields.into_iter().take(MAX_FIELDS) {
        // The host's own keys are the four above.
        if !key.starts_with('@') {
            object.insert(key, value);
        }
    }
    let mut line = Value::Object(object).to_string();
    line.push('\n');
    line
}

/// Cuts a text at its limit, between two characters.
fn bounded(text: String) -> String {
    cut(text, MAX_TEXT_BYTES)
}

/// Takes fields as JSON values and the message as text.
struct Collector<'a> {
    fields: &'a mut Map<String, Value>,
    message: Option<String>,
}

impl Collector<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        } else {
            self.fields.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Collector<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, bounded(format!("{value:?}")).into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, bounded(value.to_owned()).into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, bounded(crate::protocol::Failure::from_error(value).0).into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A place to write to that the test can read.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(work: impl FnOnce()) -> Vec<Map<String, Value>> {
        let written = Written::default();
        let subscriber = tracing_subscriber::registry().with(HostLog::new(written.clone()));
        tracing::subscriber::with_default(subscriber, work);
        let bytes = written.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_carries_the_four_keys_as_text_and_the_rest_as_fields() {
        let lines = logged(|| tracing::warn!(instance = "runners-a", count = 3, "slow {}", "create"));
        let line = &lines[0];
        assert_eq!(line["@level"], "warn");
        assert_eq!(line["@message"], "slow create");
        assert!(line["@module"].is_string());
        assert_eq!(line["instance"], "runners-a");
        assert_eq!(line["count"], 3);
    }

    #[test]
    fn the_timestamp_has_exactly_six_digits() {
        let whole_second = jiff::Timestamp::from_second(1_700_000_000).unwrap();
        let text = line(Level::INFO, "m", String::new(), Map::new(), whole_second);
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["@timestamp"], "2023-11-14T22:13:20.000000Z");
    }

    #[test]
    fn fields_of_spans_are_on_the_line_and_the_innermost_wins() {
        let lines = logged(|| {
            let outer = tracing::info_span!("operation", operation = "a-1", instance = "outer");
            let _outer = outer.enter();
            let inner = tracing::info_span!("call", instance = "inner");
            let _inner = inner.enter();
            tracing::info!("done");
        });
        assert_eq!(lines[0]["operation"], "a-1");
        assert_eq!(lines[0]["instance"], "inner");
    }

    #[test]
    fn a_field_never_takes_the_place_of_a_key_of_the_host() {
        let mut fields = Map::new();
        fields.insert("@level".to_owned(), Value::from(7));
        let text = line(Level::INFO, "m", "x".to_owned(), fields, jiff::Timestamp::UNIX_EPOCH);
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["@level"], "info");
    }

    #[test]
    fn a_line_stays_below_what_the_host_splits() {
        let long = "é".repeat(100_000);
        let lines = logged(
            || tracing::error!(a = %long, b = %long, c = %long, d = %long, e = %long, f = %long, g = %long, "{long}"),
        );
        assert!(Value::Object(lines[0].clone()).to_string().len() < 64 * 1024);
    }
}
