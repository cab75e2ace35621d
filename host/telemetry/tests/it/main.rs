//! What a collector gets, against one on loopback that decodes OTLP or misbehaves.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::Unit;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::{Span, status::StatusCode};
use tracing::field::Empty;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use windlass_telemetry::collector::{Behaviour, Collector, texts};
use windlass_telemetry::{Metrics, Settings, Telemetry, traceparent};

/// Longer than anything takes that does not hang.
const LONG: Duration = Duration::from_secs(120);
/// Of what hangs.
const SHORT: Duration = Duration::from_millis(100);

fn telemetry(endpoint: &str, more: &[(&str, &str)]) -> Telemetry {
    let metrics = ("OTEL_METRICS_EXPORTER", "none");
    let variables: Vec<_> =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), metrics].into_iter().chain(more.iter().copied()).collect();
    let settings = Settings::read("windlass", "1.2.3", |name| {
        variables.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    });
    Telemetry::with(settings.unwrap().unwrap()).unwrap()
}

/// Does something in a process of its own, as far as traces go.
fn traced<T>(telemetry: &Telemetry, work: impl FnOnce() -> T) -> T {
    tracing::subscriber::with_default(tracing_subscriber::registry().with(telemetry.layer()), work)
}

/// What a process exports.
fn exported(more: &[(&str, &str)], work: impl FnOnce()) -> Vec<Span> {
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let telemetry = telemetry(&collector.endpoint(), more);
    traced(&telemetry, work);
    telemetry.shutdown(LONG);
    collector.spans()
}

macro_rules! span {
    ($($rest:tt)*) => { tracing::trace_span!(target: "windlass_test", $($rest)*) };
}

fn operation(key: &str, began_at: Option<u64>, again: bool) -> tracing::Span {
    span!(
        "operation",
        trace = key,
        operation = "ci-1",
        kind = "create-server",
        began_at,
        again,
        state = Empty,
        error = Empty
    )
}

fn decision(verdict: &str) -> tracing::Span {
    span!(
        "decision",
        slot = "release",
        decision = "d-1",
        subject = "instance ci-1 in fr-par-1",
        group = "ci",
        zone = "fr-par-1",
        machine = "id-1",
        trigger = "released",
        policy = "p 1.0",
        verdict,
        reason = "unused\nsince noon",
        fallbacks = Empty,
        failures = Empty,
    )
}

/// What a process exports of logs, with its spans.
fn logged(more: &[(&str, &str)], work: impl FnOnce()) -> (Vec<LogRecord>, Vec<Span>) {
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let telemetry = telemetry(&collector.endpoint(), more);
    traced(&telemetry, work);
    telemetry.shutdown(LONG);
    (collector.logs(), collector.spans())
}

fn body(record: &LogRecord) -> &str {
    match &record.body.as_ref().unwrap().value {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

#[test]
fn an_operation_is_one_trace_with_its_steps_calls_decisions_and_hooks_below_it() {
    let spans = exported(&[], || {
        let operation = operation("owner/ci-1", None, false);
        operation.in_scope(|| {
            // What only logs stands between without a trace.
            span!("create-server").in_scope(|| {
                let step = span!("step", step = "create-ip", outcome = Empty);
                step.in_scope(|| {
                    let call =
                        span!("scaleway_call", method = "POST", path = "/ips", request_id = Empty, class = Empty);
                    call.record("request_id", "r-1");
                    call.record("class", "out-of-stock");
                    span!("decision", slot = "retry", policy = "p 1.0", verdict = "give-up", reason = "full");
                });
                step.record("outcome", "failed");
            });
            span!("hook", hook = "program x", stage = "configure", attempt = 2_u32);
        });
        operation.record("state", "undone");
        operation.record("error", "create-ip: full");
    });
    assert_eq!(spans.len(), 5, "{spans:#?}");
    let root = named(&spans, "create-server");
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id && span.trace_id.len() == 16));
    assert!(root.parent_span_id.is_empty());
    let step = named(&spans, "step create-ip");
    assert_eq!(step.parent_span_id, root.span_id);
    for (name, parent) in [("POST /ips", step), ("decide retry", step), ("hook configure", root)] {
        assert_eq!(named(&spans, name).parent_span_id, parent.span_id, "{name}");
    }
    let of = |name, key: &str| texts(&named(&spans, name).attributes).remove(key).unwrap();
    assert_eq!(of("create-server", "windlass.operation.id"), "ci-1");
    assert_eq!(of("create-server", "windlass.operation.state"), "undone");
    assert_eq!(of("step create-ip", "windlass.step.outcome"), "failed");
    assert_eq!(of("POST /ips", "scaleway.request_id"), "r-1");
    assert_eq!(of("POST /ips", "error.type"), "out-of-stock");
    assert_eq!(of("decide retry", "windlass.decision.policy"), "p 1.0");
    assert_eq!(of("decide retry", "windlass.decision.verdict"), "give-up");
    assert_eq!(of("decide retry", "windlass.decision.reason"), "full");
    assert_eq!(of("hook configure", "windlass.hook.attempt"), "2");
    let status = root.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.as_str()), (StatusCode::Error as i32, "create-ip: full"));
    assert!(
        spans.iter().all(|span| span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano)
    );
}

#[test]
fn what_a_process_left_is_continued_by_the_next_in_the_same_trace() {
    let key = "owner/ci-2";
    let first = exported(&[], || {
        let operation = operation(key, None, false);
        operation.in_scope(|| drop(span!("step", step = "create-ip")));
    });
    let second = exported(&[], || {
        let operation = operation(key, Some(1_000), false);
        operation.in_scope(|| drop(span!("step", step = "delete-ip")));
        operation.record("state", "unverified");
    });
    let third = exported(&[], || {
        let operation = operation(key, Some(1_000), true);
        operation.record("state", "undone");
    });
    assert_eq!(first.len(), 1, "the root is exported by whoever closes the operation: {first:#?}");
    let root = named(&second, "create-server");
    assert_eq!(root.start_time_unix_nano, 1_000_000_000, "it began in the first process");
    assert_eq!(first[0].trace_id, root.trace_id);
    assert_eq!(first[0].parent_span_id, root.span_id);
    let look = named(&third, "create-server");
    assert_eq!((&look.trace_id, &look.parent_span_id), (&root.trace_id, &root.span_id));
    assert_ne!(look.span_id, root.span_id);
    let other = exported(&[], || {
        operation("owner/ci-3", None, false).record("state", "done");
    });
    assert_ne!(other[0].trace_id, root.trace_id);
}

#[test]
fn an_operation_within_another_has_its_own_trace_with_a_link() {
    let spans = exported(&[], || {
        let outer = span!("operation", trace = "farm-1", kind = "create-cluster", state = "done");
        outer.in_scope(|| {
            operation("owner/ci-4", None, false).record("state", "done");
        });
    });
    let (outer, inner) = (named(&spans, "create-cluster"), named(&spans, "create-server"));
    assert_ne!(outer.trace_id, inner.trace_id);
    assert_eq!((&inner.links[0].trace_id, &inner.links[0].span_id), (&outer.trace_id, &outer.span_id));
}

#[test]
fn a_hook_is_told_its_own_span_while_it_runs() {
    let mut reported = None;
    let spans = exported(&[], || {
        let hook = span!("hook", stage = "start");
        reported = traceparent(&hook);
        assert_eq!(traceparent(&span!("step", step = "x")), None);
    });
    let hook = named(&spans, "hook start");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(reported.unwrap(), format!("00-{}-{}-01", hex(&hook.trace_id), hex(&hook.span_id)));
    assert_eq!(traceparent(&span!("hook", stage = "start")), None, "nobody exports");
}

#[test]
fn what_is_not_sampled_is_not_exported_and_says_so_to_hooks() {
    let mut reported = None;
    let spans = exported(&[("OTEL_TRACES_SAMPLER", "always_off")], || {
        reported = traceparent(&span!("hook", stage = "start"));
    });
    assert!(spans.is_empty());
    assert!(reported.unwrap().ends_with("-00"));
}

#[test]
fn a_decision_is_a_log_record_within_its_trace() {
    let (logs, spans) = logged(&[], || {
        operation("owner/ci-1", None, false).in_scope(|| {
            drop(decision("terminate"));
            drop(span!("step", step = "delete-server"));
            decision(r#"{"retry-after":60000}"#)
                .record("fallbacks", "q 2.0 failed: it trapped")
                .record("failures", "trap");
        });
    });
    let [first, second] = &logs[..] else { panic!("{logs:#?}") };
    let spans: Vec<_> = spans.iter().filter(|span| span.name == "decide release").collect();
    for (record, span) in logs.iter().zip(spans) {
        assert_eq!((&record.trace_id, &record.span_id), (&span.trace_id, &span.span_id));
        assert_eq!(record.time_unix_nano, span.end_time_unix_nano);
        assert_eq!(texts(&record.attributes), texts(&span.attributes));
        assert_eq!((record.event_name.as_str(), record.flags), ("windlass.decision", 1));
    }
    let attributes = texts(&first.attributes);
    for (key, value) in [
        ("windlass.decision.subject", "instance ci-1 in fr-par-1"),
        ("windlass.decision.policy", "p 1.0"),
        ("windlass.decision.verdict", "terminate"),
        ("windlass.decision.trigger", "released"),
        ("windlass.group", "ci"),
        ("cloud.availability_zone", "fr-par-1"),
        ("cloud.resource_id", "id-1"),
    ] {
        assert_eq!(attributes[key], value, "{key}");
    }
    assert_eq!(body(first), "p 1.0 decided terminate about instance ci-1 in fr-par-1: unused since noon");
    assert_eq!((first.severity_number, first.severity_text.as_str()), (SeverityNumber::Info as i32, "INFO"));
    assert!(body(second).starts_with("p 1.0 decided retry-after about "), "{}", body(second));
    assert!(body(second).ends_with(" (q 2.0 failed: it trapped)"), "{}", body(second));
    assert_eq!((second.severity_number, second.severity_text.as_str()), (SeverityNumber::Warn as i32, "WARN"));
    assert_eq!(texts(&second.attributes)["windlass.decision.failures"], "trap");
}

#[test]
fn an_operation_is_a_log_record_each_time_that_it_is_closed() {
    let run = |again: bool, end: Option<(&str, Option<&str>)>| {
        let began = again.then_some(1_000);
        let (mut logs, _) = logged(&[], || {
            let operation = span!(
                "operation",
                trace = "owner/ci-1",
                operation = "ci-1",
                kind = "cleanup-server",
                began_at = began,
                again,
                state = Empty,
                report = "removed 1 server, nothing is left",
                removed = 1,
                requester = "`windlass server delete`",
                why = "a test",
                error = Empty,
            );
            if let Some((state, error)) = end {
                operation.record("state", state).record("error", error);
            }
        });
        (logs.pop(), logs.len())
    };
    assert_eq!(run(false, None), (None, 0), "it is logged by whoever closes it");
    let (Some(done), 0) = run(false, Some(("done", None))) else { panic!("not one record") };
    assert_eq!(
        body(&done),
        "cleanup-server ci-1 ended done, removed 1 server, nothing is left, requested by `windlass server delete`: a test"
    );
    assert_eq!((done.event_name.as_str(), done.severity_number), ("windlass.operation", SeverityNumber::Info as i32));
    let attributes = texts(&done.attributes);
    assert_eq!(attributes["windlass.operation.removed"], "1");
    assert_eq!(attributes["windlass.operation.requested_by"], "`windlass server delete`");
    assert!(!attributes.contains_key("error.message"));
    for state in ["left", "unverified", "failed"] {
        let (Some(left), 0) = run(true, Some((state, Some("it is gone")))) else { panic!("not one record") };
        assert_eq!(left.severity_number, SeverityNumber::Warn as i32, "{state}");
        assert!(
            body(&left).starts_with(&format!("cleanup-server ci-1 ended {state}: it is gone, ")),
            "{}",
            body(&left)
        );
        assert_eq!(texts(&left.attributes)["error.message"], "it is gone");
        assert_eq!(left.trace_id, done.trace_id);
    }
}

#[test]
fn a_change_of_a_policys_status_is_a_log_record_and_no_span() {
    let work = || {
        tracing::trace!(
            name: "policy",
            target: "windlass_test",
            what = "replaced",
            slot = "retry",
            position = 0_u64,
            mode = "decide",
            policy = "p 2.0 (abc)",
            digest = "abcdef",
            before = "p 1.0 (aaa)",
            source = "new.wasm",
            token = "s3cret-value",
        );
        tracing::trace!(
            name: "policy",
            target: "windlass_test",
            what = "suspended",
            slot = "retry",
            policy = "p 2.0 (abc)",
            why = "it trapped\nagain",
        );
        tracing::trace!(name: "policy", target: "elsewhere", what = "suspended", slot = "retry");
        tracing::error!(target: "windlass_test", slot = "retry", "a policy keeps failing");
    };
    let (logs, spans) = logged(&[("OTEL_TRACES_SAMPLER", "always_off")], work);
    let [replaced, suspended] = &logs[..] else { panic!("{logs:#?}") };
    assert!(spans.is_empty(), "{spans:#?}");
    assert_eq!(body(replaced), "retry: p 2.0 (abc) replaced p 1.0 (aaa), from new.wasm");
    let expected = [
        ("windlass.policy.before", "p 1.0 (aaa)"),
        ("windlass.policy.digest", "abcdef"),
        ("windlass.policy.event", "replaced"),
        ("windlass.policy.identity", "p 2.0 (abc)"),
        ("windlass.policy.mode", "decide"),
        ("windlass.policy.position", "0"),
        ("windlass.policy.slot", "retry"),
        ("windlass.policy.source", "new.wasm"),
    ];
    let said = texts(&replaced.attributes);
    assert_eq!(said.iter().map(|(key, value)| (&**key, &**value)).collect::<Vec<_>>(), expected);
    assert_eq!((&*replaced.event_name, &*replaced.severity_text), ("windlass.policy", "INFO"));
    assert!(replaced.trace_id.is_empty() && replaced.span_id.is_empty() && replaced.time_unix_nano > 0);
    assert_eq!(body(suspended), "retry: p 2.0 (abc) is suspended: it trapped again");
    assert_eq!(suspended.severity_number, SeverityNumber::Warn as i32);
    assert!(logged(&[("OTEL_LOGS_EXPORTER", "none")], work).0.is_empty());
}

#[test]
fn logs_do_not_depend_on_the_sampling_of_traces_nor_on_traces_at_all() {
    let work = || {
        let operation = operation("owner/ci-1", None, false);
        operation.in_scope(|| drop(decision("keep")));
        operation.record("state", "done");
    };
    for off in [("OTEL_TRACES_SAMPLER", "always_off"), ("OTEL_TRACES_EXPORTER", "none")] {
        let (logs, spans) = logged(&[off], work);
        assert!(spans.is_empty(), "{spans:#?}");
        let events: Vec<_> = logs.iter().map(|record| record.event_name.as_str()).collect();
        assert_eq!(events, ["windlass.decision", "windlass.operation"]);
        assert_eq!(logs[0].trace_id, logs[1].trace_id);
    }
    let (logs, spans) = logged(&[("OTEL_LOGS_EXPORTER", "none")], work);
    assert_eq!((logs.len(), spans.len()), (0, 2));
}

#[test]
fn a_field_that_no_table_names_never_leaves_the_process() {
    let spans = exported(&[], || {
        drop(span!("scaleway_call", method = "GET", path = "/", token = "s3cret-value"));
        drop(span!("something_else", token = "s3cret-value"));
    });
    assert_eq!(spans.len(), 1);
    let (logs, _) = logged(&[], || drop(span!("decision", policy = "p", token = "s3cret-value")));
    assert_eq!(logs.len(), 1);
    assert!(!format!("{logs:?}").contains("s3cret"), "{logs:?}");
    assert!(!format!("{spans:?}").contains("s3cret"), "{spans:?}");
}

#[test]
fn the_resource_names_the_program_and_the_headers_are_sent() {
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let more = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc"), ("OTEL_SERVICE_NAME", "ci")];
    let telemetry = telemetry(&collector.endpoint(), &more);
    traced(&telemetry, || drop(span!("step", step = "x")));
    telemetry.shutdown(LONG);
    let request = collector.requests().remove(0);
    assert_eq!(request.path, "/v1/traces");
    assert_eq!(request.headers["authorization"], "Bearer abc");
    assert_eq!(request.headers["content-type"], "application/x-protobuf");
    let resource = collector.resource();
    assert_eq!((resource["service.name"].as_str(), resource["service.version"].as_str()), ("ci", "1.2.3"));
}

/// Log lines of everything, as `WINDLASS_LOG=trace` would show them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// Ends an export of a hundred decisions, each a span and a log record, with room for four, within the limit. Returns
/// what was logged.
fn troubled(endpoint: &str, limit: Duration) -> String {
    let lines = Lines::default();
    let more = [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "4"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret-value"),
    ];
    let telemetry = telemetry(endpoint, &more);
    let writer = lines.clone();
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .with_filter(tracing_subscriber::filter::LevelFilter::TRACE);
    // Counts what this thread drops. What the export's loses is counted elsewhere.
    let dropped = Metrics::new();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer()).with(log);
    let work = || {
        for _ in 0..100 {
            drop(decision("keep"));
        }
        telemetry.shutdown(limit);
    };
    tracing::subscriber::with_default(subscriber, || metrics::with_local_recorder(&dropped, work));
    for signal in ["traces", "logs"] {
        let name = format!("windlass_telemetry_dropped_total{{signal=\"{signal}\"}}");
        assert!(dropped.render().contains(&name), "{}", dropped.render());
    }
    lines.text()
}

/// All that was made is said to be lost.
#[track_caller]
fn all_is_lost(log: &str) {
    for items in ["spans", "log records"] {
        assert!(log.contains(&format!("{items} were not delivered lost=100")), "{log}");
    }
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_collector_that_hangs_costs_the_data_and_the_bound_of_the_end_and_nothing_else() {
    let collector = Collector::start(Behaviour::Hangs).unwrap();
    let log = troubled(&collector.endpoint(), SHORT);
    assert!(log.contains("did not accept everything in time"), "{log}");
    all_is_lost(&log);
}

#[test]
fn a_collector_that_is_gone_costs_the_data_and_nothing_else() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    all_is_lost(&troubled(&format!("http://{port}"), LONG));
}

#[test]
fn a_collector_that_refuses_is_not_asked_again_with_the_same() {
    let collector = Collector::start(Behaviour::Answers(500)).unwrap();
    let telemetry = telemetry(&collector.endpoint(), &[]);
    traced(&telemetry, || drop(span!("step", step = "x")));
    telemetry.shutdown(LONG);
    assert_eq!(collector.requests().len(), 1);
}

#[test]
fn a_collector_that_is_busy_is_asked_again_with_the_same_and_nothing_is_lost_or_counted_twice() {
    let collector = Collector::start(Behaviour::IsBusyFor(1)).unwrap();
    let telemetry = telemetry(&collector.endpoint(), &[("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")]);
    traced(&telemetry, || drop(span!("step", step = "x")));
    collector.wait_for(2);
    telemetry.shutdown(LONG);
    let requests = collector.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
}

#[test]
fn an_answer_of_megabytes_is_not_read_and_counts_as_taken() {
    let collector = Collector::start(Behaviour::Babbles).unwrap();
    let telemetry = telemetry(&collector.endpoint(), &[("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")]);
    traced(&telemetry, || {
        drop(span!("step", step = "x"));
        drop(span!("step", step = "y"));
    });
    telemetry.shutdown(LONG);
    assert_eq!(collector.spans().len(), 2);
}

/// The one test that may install the process's recorder.
#[test]
fn metrics_are_counted_once_for_the_export_and_for_prometheus() {
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let none = [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "none")];
    let variables = [("OTEL_METRICS_EXPORTER", "otlp"), none[0], none[1]];
    let telemetry = telemetry(&collector.endpoint(), &variables);
    assert!(telemetry.layer::<tracing_subscriber::Registry>().is_none());
    let prometheus = Metrics::of_process().unwrap();
    metrics::describe_counter!("windlass_calls_total", Unit::Count, "Calls");
    metrics::counter!("windlass_calls_total", "zone" => "fr-par-1").increment(3);
    metrics::gauge!("windlass_in_flight").set(2.0);
    metrics::histogram!("windlass_call_seconds").record(0.3);
    metrics::histogram!("windlass_call_seconds").record(1e9);
    telemetry.shutdown(LONG);
    let metrics = collector.metrics();
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    assert_eq!(named("windlass_calls_total").description, "Calls");
    let Some(metric::Data::Sum(sum)) = &named("windlass_calls_total").data else { panic!("{metrics:?}") };
    assert!(sum.is_monotonic);
    assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(3)));
    assert_eq!(texts(&sum.data_points[0].attributes)["zone"], "fr-par-1");
    let Some(metric::Data::Gauge(gauge)) = &named("windlass_in_flight").data else { panic!("{metrics:?}") };
    assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(2.0)));
    let Some(metric::Data::Histogram(histogram)) = &named("windlass_call_seconds").data else { panic!("{metrics:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.count, point.bucket_counts.len()), (2, point.explicit_bounds.len() + 1));
    assert_eq!(point.bucket_counts.last(), Some(&1), "beyond all bounds");
    let text = prometheus.render();
    assert!(text.contains("windlass_calls_total{zone=\"fr-par-1\"} 3\n"), "{text}");
}
