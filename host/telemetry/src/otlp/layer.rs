//! Turns the spans of `tracing` into OTLP's, and those of decisions and operations into log records as well; the events
//! of policies into log records alone.

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Metadata, Span, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::log::{is_policy, policy};
use super::queue::Queue;
use super::settings::Sampler;
use super::span::{Fields, Kind, OpenSpan, SpanContext, Value, now, of_operation, random_span_id, random_trace_id};

/// The layer, with its filter: whatever else logs has one of its own, and sees no more spans than before.
pub(super) fn layer<S>(
    spans: Option<Queue<otlp::Span>>,
    logs: Option<Queue<LogRecord>>,
    sampler: Sampler,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (traces, records) = (spans.is_some(), logs.is_some());
    if traces {
        crate::traceparent::publish(context_of_hook);
    }
    let filter = filter_fn(move |metadata| is_exported(metadata, traces, records));
    Box::new(Export { spans, logs, sampler }.with_filter(filter))
}

/// The context of a hook's span, in the subscriber that the span is of.
fn context_of_hook(span: &Span) -> Option<String> {
    let look_up = |(id, dispatch): (&Id, &Dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let context = span.extensions().get::<OpenSpan>().filter(|open| open.kind == Kind::Hook)?.context;
        Some(context.traceparent())
    };
    span.with_subscriber(look_up).flatten()
}

fn is_exported(metadata: &Metadata<'_>, traces: bool, records: bool) -> bool {
    let is_exported = if metadata.is_span() {
        Kind::of(metadata.name()).is_some_and(|kind| traces || kind.is_logged())
    } else {
        records && is_policy(metadata)
    };
    is_exported && metadata.target().starts_with("windlass_")
}

struct Export {
    spans: Option<Queue<otlp::Span>>,
    logs: Option<Queue<LogRecord>>,
    sampler: Sampler,
}

/// Whether the span is the root of an operation's trace.
struct IsRoot(bool);

impl<S> Layer<S> for Export
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(kind) = Kind::of(attributes.metadata().name()) else { return };
        let above =
            span.scope().skip(1).find_map(|above| above.extensions().get::<OpenSpan>().map(|open| open.context));
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut open = OpenSpan {
            kind,
            context: SpanContext { trace_id: [0; 16], span_id: random_span_id(), sampled: false },
            parent: above.map(|above| above.span_id),
            link: None,
            start: now(),
            fields,
        };
        let mut is_root = false;
        match above {
            // It has a trace of its own, wherever it began.
            _ if kind == Kind::Operation => {
                let key = match open.field("trace") {
                    Some(Value::Text(key)) => key.clone(),
                    _ => String::new(),
                };
                let (trace_id, root) = of_operation(&key);
                open.context.trace_id = trace_id;
                open.link = above;
                // One that was closed before has its root already: this is another look at what it left.
                is_root = open.field("again") != Some(&Value::Flag(true));
                open.parent = (!is_root).then_some(root);
                if is_root {
                    open.context.span_id = root;
                }
                if let Some(Value::Number(began)) = open.field("began_at") {
                    open.start = u64::try_from(*began).unwrap_or_default().saturating_mul(1_000_000).min(open.start);
                }
                open.context.sampled = self.sampler.samples(trace_id);
            }
            Some(above) => {
                open.context.trace_id = above.trace_id;
                open.context.sampled = above.sampled;
            }
            None => {
                open.context.trace_id = random_trace_id();
                open.context.sampled = self.sampler.samples(open.context.trace_id);
            }
        }
        let mut extensions = span.extensions_mut();
        extensions.insert(open);
        extensions.insert(IsRoot(is_root));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(logs) = &self.logs else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(record) = policy(&fields, now()) {
            logs.push(record);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.remove::<OpenSpan>() else { return };
        let is_root = extensions.remove::<IsRoot>().is_some_and(|root| root.0);
        let ended = now().max(open.start);
        // Whatever the sampler says: it is for traces.
        if let Some(logs) = &self.logs
            && let Some(record) = open.log(ended)
        {
            logs.push(record);
        }
        if let Some(spans) = &self.spans
            && open.context.sampled
            && let Some(span) = open.close(is_root, ended)
        {
            spans.push(span);
        }
    }
}
