//! A span on its way from `tracing` to OTLP: its identity, and which of its fields become which attributes.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as otlp;
use sha2::{Digest as _, Sha256};
use tracing::field::{Field, Visit};

/// A longer text is cut.
const MAX_TEXT_LEN: usize = 2 * 1024;

/// The kinds of spans, by the names that the other crates give them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Operation,
    Step,
    Call,
    Decision,
    Hook,
    /// A look at all machines, for an autoscaler.
    Update,
}

impl Kind {
    /// The kind of a span of this name; `None`: it is not exported.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "operation" => Self::Operation,
            "step" => Self::Step,
            "scaleway_call" => Self::Call,
            "decision" => Self::Decision,
            "hook" => Self::Hook,
            "update" => Self::Update,
            _ => return None,
        })
    }

    /// Whether a log record is made of its end, too.
    pub(super) fn is_logged(self) -> bool {
        matches!(self, Self::Operation | Self::Decision)
    }

    /// The fields that are exported, and as which attributes. What is not named here never leaves the process.
    fn attributes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Operation => &[
                ("operation", "windlass.operation.id"),
                ("kind", "windlass.operation.kind"),
                ("state", "windlass.operation.state"),
                ("group", "windlass.group"),
                ("cluster", "windlass.cluster"),
                ("zone", "cloud.availability_zone"),
                ("machine", "cloud.resource_id"),
                ("report", "windlass.operation.report"),
                ("removed", "windlass.operation.removed"),
                ("left", "windlass.operation.left"),
                ("requester", "windlass.operation.requested_by"),
                ("why", "windlass.operation.why"),
                ("decisions", "windlass.operation.decisions"),
            ],
            Self::Step => &[
                ("step", "windlass.step"),
                ("stage", "windlass.cluster.stage"),
                ("outcome", "windlass.step.outcome"),
                ("resource", "windlass.resource"),
            ],
            Self::Call => &[
                ("method", "http.request.method"),
                ("path", "url.template"),
                ("status", "http.response.status_code"),
                ("request_id", "scaleway.request_id"),
                ("class", "windlass.call.class"),
            ],
            Self::Decision => &[
                ("slot", "windlass.decision.slot"),
                ("decision", "windlass.decision.id"),
                ("subject", "windlass.decision.subject"),
                ("group", "windlass.group"),
                ("cluster", "windlass.cluster"),
                ("zone", "cloud.availability_zone"),
                ("machine", "cloud.resource_id"),
                ("trigger", "windlass.decision.trigger"),
                ("policy", "windlass.decision.policy"),
                ("verdict", "windlass.decision.verdict"),
                ("removes", "windlass.decision.removes"),
                ("reason", "windlass.decision.reason"),
                ("fallbacks", "windlass.decision.fallbacks"),
                ("failures", "windlass.decision.failures"),
            ],
            Self::Hook => &[
                ("hook", "windlass.hook"),
                ("cluster", "windlass.cluster"),
                ("stage", "windlass.cluster.stage"),
                ("attempt", "windlass.hook.attempt"),
                ("nodes", "windlass.hook.nodes"),
            ],
            Self::Update => &[],
        }
    }
}

/// What identifies a span anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanContext {
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) sampled: bool,
}

impl SpanContext {
    /// The W3C form, which `TRACEPARENT` has.
    pub(super) fn traceparent(self) -> String {
        let trace = u128::from_be_bytes(self.trace_id);
        let span = u64::from_be_bytes(self.span_id);
        format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.sampled))
    }
}

/// The trace of an operation and the span that is its root: the same in every process that works on it.
pub(super) fn of_operation(key: &str) -> ([u8; 16], [u8; 8]) {
    let digest = Sha256::digest(format!("windlass operation {key}").as_bytes());
    let (mut trace, mut span) = ([0; 16], [0; 8]);
    trace.copy_from_slice(&digest[..16]);
    span.copy_from_slice(&digest[16..24]);
    (trace, span)
}

/// An id of zeroes is none, by the specification.
pub(super) fn random_span_id() -> [u8; 8] {
    rand::random::<u64>().max(1).to_be_bytes()
}

pub(super) fn random_trace_id() -> [u8; 16] {
    rand::random::<u128>().max(1).to_be_bytes()
}

/// Nanoseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(i64),
    Flag(bool),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        let end = text.floor_char_boundary(MAX_TEXT_LEN);
        Self::Text(text[..end].to_owned())
    }
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> Self {
        let value = match value {
            Value::Text(text) => any_value::Value::StringValue(text),
            Value::Number(number) => any_value::Value::IntValue(number),
            Value::Flag(flag) => any_value::Value::BoolValue(flag),
        };
        Self { value: Some(value) }
    }
}

pub(super) fn attribute(key: &str, value: impl Into<AnyValue>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value.into()), ..KeyValue::default() }
}

/// What a span or an event has recorded: the later of two of one name counts. There are as many as its call site names.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn keep(&mut self, field: &Field, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == field.name()) {
            Some((_, known)) => *known = value,
            None => self.0.push((field.name(), value)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn words(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Those of the table, under its keys.
    pub(super) fn attributes(&self, exported: &[(&str, &str)]) -> Vec<KeyValue> {
        exported.iter().filter_map(|(field, key)| self.get(field).map(|value| attribute(key, value.clone()))).collect()
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, Value::text(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, Value::Number(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, Value::Number(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, Value::Flag(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.keep(field, Value::text(&format!("{value:?}")));
    }
}

#[derive(Debug)]
pub(super) struct OpenSpan {
    pub(super) kind: Kind,
    pub(super) context: SpanContext,
    pub(super) parent: Option<[u8; 8]>,
    /// In whose work an operation began that has a trace of its own.
    pub(super) link: Option<SpanContext>,
    pub(super) start: u64,
    pub(super) fields: Fields,
}

impl OpenSpan {
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    pub(super) fn words(&self, name: &str) -> Option<&str> {
        self.fields.words(name)
    }

    /// A name of few values, so that traces can be grouped by it.
    fn name(&self) -> String {
        let word = |name| self.words(name).unwrap_or("unknown");
        match self.kind {
            Kind::Operation => word("kind").to_owned(),
            Kind::Step => format!("step {}", word("step")),
            Kind::Call => format!("{} {}", word("method"), word("path")),
            Kind::Decision => format!("decide {}", word("slot")),
            Kind::Hook => format!("hook {}", word("stage")),
            Kind::Update => "update".to_owned(),
        }
    }

    /// What is exported of its fields.
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        self.fields.attributes(self.kind.attributes())
    }

    /// Why it failed, where it did.
    pub(super) fn failure(&self) -> Option<String> {
        match self.kind {
            Kind::Call => self.words("class").filter(|class| *class != "ok").map(str::to_owned),
            _ => self.words("error").map(str::to_owned),
        }
    }

    /// What is exported. `None` where it is not to be: a root whose operation has not been closed belongs to whoever
    /// closes it.
    pub(super) fn close(self, is_root: bool, ended: u64) -> Option<otlp::Span> {
        if is_root && self.field("state").is_none() {
            return None;
        }
        let mut attributes = self.attributes();
        let failure = self.failure();
        if let (Kind::Call, Some(class)) = (self.kind, &failure) {
            attributes.push(attribute("error.type", Value::text(class)));
        }
        let status = failure
            .map(|message| otlp::Status { message, code: otlp::status::StatusCode::Error as i32 })
            .unwrap_or_default();
        let kind = match self.kind {
            Kind::Call => otlp::span::SpanKind::Client,
            _ => otlp::span::SpanKind::Internal,
        };
        let links = self.link.map(|link| otlp::span::Link {
            trace_id: link.trace_id.to_vec(),
            span_id: link.span_id.to_vec(),
            ..otlp::span::Link::default()
        });
        Some(otlp::Span {
            trace_id: self.context.trace_id.to_vec(),
            span_id: self.context.span_id.to_vec(),
            parent_span_id: self.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            name: self.name(),
            kind: kind as i32,
            start_time_unix_nano: self.start,
            end_time_unix_nano: ended,
            attributes,
            links: links.into_iter().collect(),
            status: Some(status),
            flags: u32::from(self.context.sampled),
            ..otlp::Span::default()
        })
    }
}
