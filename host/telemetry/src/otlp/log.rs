//! The log record of a decision or of an operation that was closed: what their spans say, and a line for people. And
//! that of a change of a policy's status, of which there is no span.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use tracing::Metadata;

use super::span::{Fields, Kind, OpenSpan, Value, attribute};

/// Of operations that have left something, or nobody could see whether.
const TROUBLED: [&str; 3] = ["left", "unverified", "failed"];
/// What is exported of an event about a policy, and as which attributes.
const OF_POLICY: &[(&str, &str)] = &[
    ("what", "windlass.policy.event"),
    ("slot", "windlass.policy.slot"),
    ("position", "windlass.policy.position"),
    ("mode", "windlass.policy.mode"),
    ("policy", "windlass.policy.identity"),
    ("digest", "windlass.policy.digest"),
    ("before", "windlass.policy.before"),
    ("source", "windlass.policy.source"),
    ("why", "windlass.policy.why"),
];

fn record(event: &str, at: u64, troubled: bool, body: &str, attributes: Vec<KeyValue>) -> LogRecord {
    let (number, text) = if troubled { (SeverityNumber::Warn, "WARN") } else { (SeverityNumber::Info, "INFO") };
    LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: number as i32,
        severity_text: text.to_owned(),
        body: Some(AnyValue::from(Value::text(&body.replace(['\n', '\r'], " ")))),
        attributes,
        event_name: event.to_owned(),
        ..LogRecord::default()
    }
}

/// Whether this is an event that says how the status of a policy has changed.
pub(super) fn is_policy(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && metadata.name() == "policy"
}

/// The log record of such an event. `None` where it does not say what has changed.
pub(super) fn policy(fields: &Fields, at: u64) -> Option<LogRecord> {
    let what = fields.words("what")?;
    let word = |name| fields.words(name).unwrap_or("unknown");
    let mut body = format!("{}: ", word("slot"));
    body.push_str(&match what {
        "in-force" => format!("{} is in force", word("policy")),
        "replaced" => format!("{} replaced {}", word("policy"), word("before")),
        "refused" => format!("a new file was refused, {} stays", word("policy")),
        "suspended" => format!("{} is suspended", word("policy")),
        "resumed" => format!("{} is asked again", word("policy")),
        "removed" => format!("{} is not in force any more", word("policy")),
        other => format!("{} is {other}", word("policy")),
    });
    for (before, field) in [(", from ", "source"), (": ", "why")] {
        body.extend(fields.words(field).map(|text| format!("{before}{text}")));
    }
    let troubled = matches!(what, "refused" | "suspended");
    Some(record("windlass.policy", at, troubled, &body, fields.attributes(OF_POLICY)))
}

impl OpenSpan {
    /// The log record of a span that has ended. `None` where none is made of it: it is of another kind, or of an
    /// operation that was not closed, or of a decision that was not made.
    pub(super) fn log(&self, ended: u64) -> Option<LogRecord> {
        let (event, body, troubled) = match self.kind {
            Kind::Decision => ("windlass.decision", self.decision_words()?, self.words("fallbacks").is_some()),
            Kind::Operation => {
                let state = self.words("state")?;
                ("windlass.operation", self.operation_words(state), TROUBLED.contains(&state))
            }
            Kind::Step | Kind::Call | Kind::Hook | Kind::Update => return None,
        };
        let mut attributes = self.attributes();
        attributes.extend(self.failure().map(|failure| attribute("error.message", Value::Text(failure))));
        Some(LogRecord {
            flags: u32::from(self.context.sampled),
            trace_id: self.context.trace_id.to_vec(),
            span_id: self.context.span_id.to_vec(),
            ..record(event, ended, troubled, &body, attributes)
        })
    }

    /// Who decided what about what, and why. `None`: whoever asked went away before.
    fn decision_words(&self) -> Option<String> {
        let mut words = format!("{} decided", self.words("policy")?);
        if let Some(word) = self.words("verdict").and_then(first_word) {
            words.push_str(&format!(" {word}"));
        }
        words.push_str(&format!(" about {}", self.words("subject").unwrap_or_default()));
        if let Some(Value::Number(removes)) = self.field("removes") {
            words.push_str(&format!(", removes {removes}"));
        }
        words.extend(self.words("reason").map(|reason| format!(": {reason}")));
        words.extend(self.words("fallbacks").map(|fallbacks| format!(" ({fallbacks})")));
        Some(words)
    }

    /// Which operation ended how, and who asked for it.
    fn operation_words(&self, state: &str) -> String {
        let word = |name| self.words(name).unwrap_or("unknown");
        let mut words = format!("{} {} ended {state}", word("kind"), word("operation"));
        for (before, field) in [(": ", "error"), (", ", "report"), (", requested by ", "requester"), (": ", "why")] {
            words.extend(self.words(field).map(|text| format!("{before}{text}")));
        }
        words
    }
}

/// The name of a verdict without what it carries: `wait` of `{"wait":250}`. `None` of a batch, which has many.
fn first_word(verdict: &str) -> Option<&str> {
    match verdict.strip_prefix('{') {
        Some(fields) => fields.split('"').nth(1),
        None => Some(verdict).filter(|verdict| !verdict.starts_with('[')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_named_by_its_first_word() {
        for (verdict, word) in [
            ("terminate", Some("terminate")),
            (r#"{"wait":250}"#, Some("wait")),
            (r#"{"plan":[{"resource":0,"action":"delete"}]}"#, Some("plan")),
            (r#"[{"verdict":"defer"}]"#, None),
        ] {
            assert_eq!(first_word(verdict), word, "{verdict}");
        }
    }
}
