//! What a collector gets of real operations against a simulator, and that no collector harms them.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt as _;
use windlass_telemetry::collector::{Behaviour, Collector, texts};
use windlass_telemetry::{Settings, Telemetry};

use crate::support::{IMPATIENT, Ran, Running, World, eventually, skipped};

const CREATE: [&str; 8] = ["server", "create", "--group", "ci", "--type", "DEV1-S", "--image", "ubuntu_noble"];
/// What no span and no log may hold: the world's key, and a header's value.
const SECRETS: [&str; 2] = ["11111111-1111-1111-1111-111111111111", "s3cret-value"];

/// A command that exports each span at once.
fn exporting(world: &World, collector: &str, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=s3cret-value")
        .env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1");
    command
}

fn of_name<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[track_caller]
fn one<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    match of_name(spans, name)[..] {
        [span] => span,
        _ => panic!("not one {name} in {:#?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>()),
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    texts(&span.attributes)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The gauge with these labels, as it came last. `None`: there is none.
fn gauge(collector: &Collector, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let metric = collector.metrics().into_iter().find(|metric| metric.name == name)?;
    let Some(metric::Data::Gauge(gauge)) = metric.data else { panic!("{name} is no gauge") };
    let has_labels = |point: &NumberDataPoint| {
        let said = texts(&point.attributes);
        labels.iter().all(|(key, value)| said.get(*key).is_some_and(|known| known == value))
    };
    match gauge.data_points.into_iter().find(has_labels)?.value {
        Some(number_data_point::Value::AsDouble(value)) => Some(value),
        other => panic!("{name}: {other:?}"),
    }
}

/// Each span of a trace but its root stands below another of it.
#[track_caller]
fn is_a_tree(spans: &[Span], root: &Span) {
    for span in spans.iter().filter(|span| span.trace_id == root.trace_id && span.span_id != root.span_id) {
        let parent = spans.iter().find(|known| known.span_id == span.parent_span_id);
        assert!(parent.is_some_and(|parent| parent.trace_id == root.trace_id), "{span:#?}");
    }
}

#[track_caller]
fn holds_no_secret(collector: &Collector) {
    for request in collector.requests() {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(SECRETS.iter().all(|secret| !body.contains(secret)), "{body}");
    }
}

#[test]
fn a_creation_is_one_trace_with_its_steps_and_calls_and_their_request_ids() {
    let world = World::new("100");
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let mut command = exporting(&world, &collector.endpoint(), &[&CREATE[..], &["--output", "json"]].concat());
    Ran::of(&mut command).expect(0);
    let spans = collector.spans();
    let root = one(&spans, "create-server");
    assert!(root.parent_span_id.is_empty());
    is_a_tree(&spans, root);
    let root_words = attributes(root);
    assert_eq!(root_words["windlass.operation.state"], "done");
    assert_eq!(root_words["windlass.group"], "ci");
    assert_eq!(root_words["cloud.availability_zone"], "fr-par-1");
    let listed = world.json(&["operation", "list"]);
    assert_eq!(root_words["windlass.operation.id"], listed["operations"][0]["id"].as_str().unwrap());
    let step = one(&spans, "step power-on");
    assert_eq!((&step.trace_id, &step.parent_span_id), (&root.trace_id, &root.span_id));
    let calls: Vec<_> = spans.iter().filter(|span| span.parent_span_id == step.span_id).collect();
    assert!(calls.iter().any(|call| call.name.starts_with("POST ") && call.name.ends_with("/action")), "{calls:#?}");
    for call in spans.iter().filter(|span| attributes(span).contains_key("http.request.method")) {
        assert!(!attributes(call)["scaleway.request_id"].is_empty(), "{call:#?}");
    }
    let metrics = collector.metrics();
    assert!(metrics.iter().any(|metric| metric.name == "windlass_scaleway_calls_total"), "{metrics:#?}");
    holds_no_secret(&collector);
}

#[test]
fn a_failure_shows_the_decisions_about_it_and_why_it_failed() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.fault("POST", "/instance/v1/zones/*/servers", "quota-exceeded");
    let collector = Collector::start(Behaviour::Takes).unwrap();
    Ran::of(&mut exporting(&world, &collector.endpoint(), &CREATE)).expect(1);
    let spans = collector.spans();
    let root = spans.iter().find(|span| attributes(span).contains_key("windlass.operation.state")).unwrap();
    is_a_tree(&spans, root);
    assert_eq!(attributes(root)["windlass.operation.state"], "undone");
    assert!(root.status.as_ref().unwrap().message.starts_with("create-server: "), "{root:#?}");
    let decisions = of_name(&spans, "decide retry");
    assert!(!decisions.is_empty(), "{spans:#?}");
    let last = attributes(decisions.last().unwrap());
    assert_eq!(last["windlass.decision.verdict"], "give-up");
    assert!(last["windlass.decision.policy"].contains("retry"), "{last:?}");
    assert!(!last["windlass.decision.reason"].is_empty() && !last["windlass.decision.id"].is_empty(), "{last:?}");
    let step = spans.iter().find(|span| span.span_id == decisions[0].parent_span_id).unwrap();
    assert_eq!(attributes(step)["windlass.step"], "create-server");
    assert!(!of_name(&spans, "decide rollback").is_empty(), "{spans:#?}");
}

#[test]
fn the_logs_say_which_policy_deleted_what_and_for_whom_whatever_is_sampled_of_traces() {
    let world = World::new("100");
    let rules =
        "slot = 'release'\n[[rules]]\nname = 'old'\nwhen = 'true'\nanswer = 'terminate'\nreason = 'it is old'\n";
    let file = world.write("old.rules.toml", rules.as_bytes());
    world.configure(&format!("[policies.release]\npath = {file:?}\n"));
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let exporting = |arguments: &[&str]| {
        let mut command = exporting(&world, &collector.endpoint(), &[arguments, &["--output", "json"]].concat());
        Ran::of(command.env("OTEL_TRACES_SAMPLER", "always_off")).expect(0).json()
    };
    let server = exporting(&CREATE)["servers"][0].clone();
    exporting(&["server", "delete", server["id"].as_str().unwrap(), "--yes"]);
    let logs = collector.logs();
    let one = |key: &str, value: &str| {
        let has = |record: &&LogRecord| texts(&record.attributes).get(key).is_some_and(|known| known == value);
        let found: Vec<&LogRecord> = logs.iter().filter(has).collect();
        assert_eq!(found.len(), 1, "{key}={value} in {logs:#?}");
        found[0]
    };
    let body = |record: &LogRecord| format!("{:?}", record.body);

    let decision = one("windlass.decision.slot", "release");
    let listed = world.json(&["decision", "list", "--slot", "release"])["decisions"][0].clone();
    let said = texts(&decision.attributes);
    assert_eq!(
        (&*said["windlass.decision.id"], &*said["windlass.decision.subject"]),
        (text(&listed["id"]), text(&listed["subject"]))
    );
    assert_eq!((&*said["windlass.decision.verdict"], &*said["windlass.decision.trigger"]), ("terminate", "released"));
    assert!(said["windlass.decision.policy"].starts_with("old.rules.toml "), "{said:?}");
    assert_eq!((&*said["cloud.resource_id"], &*said["cloud.availability_zone"]), (text(&server["id"]), "fr-par-1"));
    assert_eq!((&*said["windlass.group"], &*said["windlass.decision.reason"]), ("ci", "it is old"));
    assert!(body(decision).contains(&format!("decided terminate about {}: it is old", text(&listed["subject"]))));

    let operation = one("windlass.operation.kind", "cleanup-server");
    let said = texts(&operation.attributes);
    assert_eq!(operation.trace_id, decision.trace_id, "the decision was made within it");
    assert_eq!((&*said["windlass.operation.state"], &*said["windlass.operation.left"]), ("done", "0"));
    assert_ne!(said["windlass.operation.removed"], "0");
    assert_eq!(said["cloud.resource_id"], text(&server["id"]));
    assert_eq!(said["windlass.operation.requested_by"], "`windlass server delete`");
    assert!(body(operation).contains(" ended done, removed "), "{operation:#?}");
    let said = texts(&one("windlass.operation.kind", "create-server").attributes);
    assert_eq!((&*said["windlass.operation.state"], &*said["cloud.resource_id"]), ("done", text(&server["id"])));

    assert!(collector.spans().is_empty());
    holds_no_secret(&collector);
}

#[test]
fn a_policys_status_is_a_metric_and_each_change_of_it_a_log_record() {
    let world = World::new("100");
    let rules = |name: &str| format!("slot = 'retry'\n[[rules]]\nname = '{name}'\nwhen = 'true'\nanswer = 'give-up'\n");
    let file = world.write("ours.rules.toml", rules("first").as_bytes());
    world.configure(&format!("[policies.retry]\npath = {file:?}\n"));
    let collector = Collector::start(Behaviour::Takes).unwrap();
    // A socket's path is short.
    let folder = tempfile::Builder::new().prefix("telemetry").tempdir_in("/tmp").unwrap();
    let listen = format!("unix:{}", folder.path().join("policy.sock").display());
    let mut serve = exporting(&world, &collector.endpoint(), &["policy", "serve", "--listen", &listen]);
    serve.env("OTEL_METRIC_EXPORT_INTERVAL", "200").env("OTEL_BLRP_SCHEDULE_DELAY", "100");
    let serving = Running::start(&mut serve);
    let changes = |event: &str| {
        let is_it = |record: &LogRecord| {
            let said = texts(&record.attributes);
            said.get("windlass.policy.event").is_some_and(|word| word == event)
                && (&*said["windlass.policy.slot"], &*said["windlass.policy.position"]) == ("retry", "0")
        };
        collector.logs().into_iter().filter(is_it).collect::<Vec<_>>()
    };
    let change = |event: &str| eventually(event, || changes(event).pop());
    let in_force = |digest: &str| {
        let labels = [("slot", "retry"), ("policy", "ours.rules.toml"), ("digest", &digest[..12]), ("mode", "decide")];
        gauge(&collector, "windlass_policy_info", &labels)
    };

    let first = texts(&change("in-force").attributes);
    assert!(first["windlass.policy.identity"].starts_with("ours.rules.toml ("), "{first:?}");
    assert!(first["windlass.policy.source"].ends_with("ours.rules.toml"), "{first:?}");
    let digest = &first["windlass.policy.digest"];
    eventually("it is shown", || in_force(digest).filter(|value| *value == 1.0));
    let place = [("slot", "retry"), ("position", "0")];
    assert!(gauge(&collector, "windlass_policy_loaded_timestamp_seconds", &place).is_some_and(|at| at > 1e9));
    assert_eq!(gauge(&collector, "windlass_policy_files_refused", &[]), Some(0.0));

    world.write("ours.rules.toml", rules("second").as_bytes());
    let second = texts(&change("replaced").attributes);
    assert_eq!(second["windlass.policy.before"], first["windlass.policy.identity"]);
    eventually("the new one alone is shown", || {
        (in_force(&second["windlass.policy.digest"]) == Some(1.0) && in_force(digest).is_none()).then_some(())
    });

    world.write("ours.rules.toml", b"slot = 'retry'\nrules = 1\n");
    let refused = change("refused");
    let said = texts(&refused.attributes);
    assert_eq!((&*refused.event_name, &*refused.severity_text), ("windlass.policy", "WARN"));
    assert_eq!(said["windlass.policy.identity"], second["windlass.policy.identity"], "it stays");
    assert!(said["windlass.policy.why"].contains("ours.rules.toml"), "{said:?}");
    eventually("it is counted", || {
        gauge(&collector, "windlass_policy_files_refused", &[]).filter(|count| *count == 1.0)
    });
    serving.signal("TERM");
    serving.end().expect(0);
    for event in ["in-force", "replaced", "refused"] {
        assert_eq!(changes(event).len(), 1, "{event}");
    }
    // A command on the same state has the same policies in force, and one that only tries them puts none in force.
    world.write("ours.rules.toml", rules("second").as_bytes());
    let before = collector.logs().len();
    for command in [&["policy", "list"][..], &["doctor"]] {
        Ran::of(&mut exporting(&world, &collector.endpoint(), command)).expect(0);
    }
    assert_eq!(collector.logs().len(), before, "{:#?}", collector.logs());
    holds_no_secret(&collector);
}

#[test]
fn what_is_unfinished_and_left_is_counted_by_state_kind_and_reason() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.run(&CREATE).expect(0);
    world.fault("DELETE", "/instance/v1/zones/*/ips/*", "internal-server-error");
    world.run(&["server", "delete", "--group", "ci", "--yes"]).expect(3);
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let resume = || Ran::of(&mut exporting(&world, &collector.endpoint(), &["operation", "resume"]));
    let unfinished = || {
        let labels = [("kind", "cleanup-server"), ("state", "left")];
        gauge(&collector, "windlass_unfinished_operations", &labels)
    };
    let left = || {
        let labels = [("zone", "fr-par-1"), ("kind", "ip"), ("reason", "not-removed")];
        gauge(&collector, "windlass_left_resources", &labels)
    };
    resume().expect(3);
    assert_eq!((unfinished(), left()), (Some(1.0), Some(1.0)), "{:#?}", collector.metrics());
    world.control("DELETE", "faults", "");
    resume().expect(0);
    assert_eq!((unfinished(), left()), (None, None), "{:#?}", collector.metrics());
    assert_eq!(gauge(&collector, "windlass_unverified_operations", &[]), Some(0.0));
    assert_eq!(gauge(&collector, "windlass_unexplained_resources", &[]), Some(0.0));
}

#[test]
fn a_killed_operation_is_continued_in_its_trace_by_who_resumes_it() {
    let world = World::new("0");
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let create = Running::start(&mut exporting(&world, &collector.endpoint(), &CREATE));
    world.until(|resources| resources["servers"][0]["state"] == "starting");
    eventually("its first steps are exported", || {
        (!of_name(&collector.spans(), "step power-on").is_empty()).then_some(())
    });
    create.signal("KILL");
    create.end();
    let before = collector.spans();
    assert!(before.iter().all(|span| !attributes(span).contains_key("windlass.operation.state")), "{before:#?}");
    let mut resume = Running::start(&mut exporting(&world, &collector.endpoint(), &["operation", "resume"]));
    eventually("it ends", || {
        world.control("POST", "clock", r#"{"advance_ms": 1000}"#);
        resume.has_ended().then_some(())
    });
    resume.end().expect(0);
    let spans = collector.spans();
    let root = one(&spans, "create-server");
    assert!(root.parent_span_id.is_empty());
    assert_eq!(one(&before, "step power-on").trace_id, root.trace_id);
    assert_eq!(one(&before, "step power-on").parent_span_id, root.span_id);
    // The account was asked before the operation began, in no operation's trace.
    let first = before.iter().find(|span| span.trace_id == root.trace_id).unwrap();
    assert!(root.start_time_unix_nano <= first.start_time_unix_nano, "it began with the first process");
}

#[test]
fn a_hook_is_told_its_span_and_what_it_makes_can_join_the_trace() {
    let world = World::new("100");
    world.configure(IMPATIENT);
    world.program("configure.sh", "#!/bin/sh\necho $TRACEPARENT > traceparent\n");
    let specification = "name = 'farm'\nzone = 'fr-par-1'\n[groups.web]\ncount = 1\ntypes = ['DEV1-S']\n\
        image = 'ubuntu_noble'\n[hooks.configure.program]\ncommand = './configure.sh'\n";
    let file = world.write("farm.toml", specification.as_bytes());
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let create = ["cluster", "create", file.to_str().unwrap()];
    Ran::of(&mut exporting(&world, &collector.endpoint(), &create)).expect(0);
    let reported = std::fs::read_to_string(world.home.path().join("traceparent")).unwrap();
    let spans = collector.spans();
    let hook = one(&spans, "hook configure");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(reported.trim(), format!("00-{}-{}-01", hex(&hook.trace_id), hex(&hook.span_id)));
    let root = one(&spans, "create-cluster");
    assert_eq!(root.trace_id, hook.trace_id);
    is_a_tree(&spans, root);
    let server = spans.iter().find(|span| span.name == "create-server" && !span.links.is_empty()).unwrap();
    assert_eq!(server.links[0].trace_id, root.trace_id);
    // Without a collector there is no span to tell of.
    std::fs::remove_file(world.home.path().join("traceparent")).unwrap();
    world.run(&["cluster", "scale", "farm", "web=2"]).expect(0);
    assert_eq!(std::fs::read_to_string(world.home.path().join("traceparent")).unwrap().trim(), "");
}

#[test]
fn no_collector_harms_an_operation() {
    let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let collectors = [Behaviour::Hangs, Behaviour::Answers(500), Behaviour::Babbles].map(Collector::start);
    let endpoints = collectors.iter().map(|collector| collector.as_ref().unwrap().endpoint());
    for endpoint in endpoints.chain([format!("http://{nobody}")]) {
        let world = World::new("100");
        let mut command = exporting(&world, &endpoint, &[&CREATE[..], &["--output", "json"]].concat());
        command.env("WINDLASS_LOG", "trace").env("OTEL_BSP_MAX_QUEUE_SIZE", "1");
        let ran = Ran::of(&mut command).expect(0);
        assert!(!ran.json().is_null(), "{endpoint}");
        assert!(!ran.stderr.contains("s3cret-value"), "{endpoint}: {}", ran.stderr);
    }
}

#[test]
fn opentelemetrys_own_collector_takes_all_with_the_configurations_of_the_documentation() {
    let Some(program) = std::env::var_os("WINDLASS_COLLECTOR") else {
        return skipped("OpenTelemetry's collector takes minutes to build: just test-collector");
    };
    let page = include_str!("../../../../docs/telemetry.md");
    let examples = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut configurations: Vec<String> = examples.map(|text| text.replace("localhost:4318", "127.0.0.1:0")).collect();
    assert_eq!(configurations.len(), 2, "a collector, and a filter of its log records");
    // Its own metrics would have a fixed port.
    configurations.push("service: { telemetry: { metrics: { level: none } } }".to_owned());
    let world = World::new("100");
    let mut command = Command::new(program);
    for (number, text) in configurations.iter().enumerate() {
        let file = world.write(&format!("collector-{number}.yaml"), text.as_bytes());
        command.arg("--config").arg(format!("file:{}", file.display()));
    }
    let collector = Running::start(&mut command);
    let endpoint = eventually("it listens", || {
        Some(collector.said().split_once(r#""endpoint": ""#)?.1.split_once('"')?.0.to_owned())
    });
    let endpoint = format!("http://{endpoint}");
    collector.until_it_says("Everything is ready");

    let create = [&CREATE[..], &["--output", "json"]].concat();
    let server = Ran::of(&mut exporting(&world, &endpoint, &create)).expect(0).json()["servers"][0].clone();
    let delete = ["server", "delete", text(&server["id"]), "--yes"];
    Ran::of(&mut exporting(&world, &endpoint, &delete)).expect(0);
    // What an autoscaler's looks are.
    let settings = Settings::read("test", "0", |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
        "OTEL_METRICS_EXPORTER" => Some("none".to_owned()),
        _ => None,
    });
    let telemetry = Telemetry::with(settings.unwrap().unwrap()).unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(telemetry.layer()), || {
        let decision = |subject: &str, removes: Option<u64>| {
            let slot = "state-mapping";
            drop(tracing::trace_span!(target: "windlass_test", "decision", slot, policy = "p", subject, removes));
        };
        decision("a look that removes nothing", None);
        decision("a look that removes a server", Some(1));
    });
    telemetry.shutdown(Duration::from_secs(120));
    collector.signal("TERM");
    let said = collector.end().expect(0).stderr;

    let records = said.split("LogRecord #").skip(1).map(|rest| rest.split("\n\t{").next().unwrap_or(rest));
    let records: Vec<&str> = records.collect();
    let with = |words: &str| records.iter().filter(|record| record.contains(words)).count();
    assert_eq!(with("windlass.decision.slot: Str(release)"), 1, "{said}");
    assert_eq!(with("windlass.operation.kind: Str(cleanup-server)"), 1, "{said}");
    assert_eq!(with("windlass.operation.kind: Str(create-server)"), 1, "{said}");
    assert!(with(&format!("cloud.resource_id: Str({})", text(&server["id"]))) >= 3, "{said}");
    assert_eq!((with("a look that removes a server"), with("a look that removes nothing")), (1, 0), "{said}");
    // Both are spans: only log records are filtered.
    assert!(said.contains("Name           : cleanup-server"), "{said}");
    assert_eq!(said.matches("windlass.decision.subject: Str(a look that removes nothing)").count(), 1, "{said}");
    assert!(said.contains("Name: windlass_scaleway_calls_total"), "{said}");
    // The built-in default of each slot came into force with the first command.
    assert_eq!(with("windlass.policy.event: Str(in-force)"), 6, "{said}");
    assert!(said.contains("Name: windlass_policy_info"), "{said}");
}

#[test]
fn a_wrong_variable_ends_the_command_before_anything_is_begun() {
    let world = World::new("0");
    let mut command = exporting(&world, "http://127.0.0.1:9", &CREATE);
    Ran::of(command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"))
        .expect(2)
        .says("OTEL_EXPORTER_OTLP_PROTOCOL")
        .says("http/protobuf");
    assert_eq!(world.resources(), 0);
    // Nobody reads the variables of an export that is off.
    Ran::of(world.command(&["operation", "list"]).env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")).expect(0);
}
