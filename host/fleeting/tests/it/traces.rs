//! What a collector gets of a group's work, from the real program.

use serde_json::json;
use windlass_simulator::{FaultKind, FaultRule, Options};
use windlass_telemetry::collector::{Behaviour, Collector, texts};

use crate::plugin::{KEY, Plugin, eventually, wire};

const CLOUD_INIT: &str = "#cloud-config\nchpasswd: {list: \"root:pass&word\"}\n";

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_of_a_group_is_one_trace_with_its_calls_and_decisions_and_without_a_secret() {
    let collector = Collector::start(Behaviour::Takes).unwrap();
    let endpoint = collector.endpoint();
    let exporting = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
    ];
    let plugin = Plugin::start_with(Options { time_scale: 60.0, ..Options::default() }, &exporting).await;
    let configuration = json!({
        "name": "ci", "zone": "fr-par-1", "server_type": ["DEV1-S"], "image": "ubuntu_noble", "cloud_init": CLOUD_INIT,
    });
    plugin.init(configuration).await.unwrap();
    let mut fault = FaultRule::new("POST", "/instance/v1/zones/*/servers", FaultKind::InternalServerError);
    fault.nth = Some(1);
    plugin.simulator.add_fault(fault).unwrap();
    plugin.calls().increase(wire::IncreaseRequest { n: 2 }).await.unwrap();
    let running = plugin.running(2).await;
    plugin.calls().decrease(wire::DecreaseRequest { instances: vec![running[0].clone()] }).await.unwrap();
    plugin.running(1).await;

    let traces = eventually("two creations and a removal came", async || {
        let traces = collector.traces();
        let ended = |name: &str| {
            let of_name = traces.iter().filter(|trace| trace[0].name == name);
            of_name.filter(|trace| texts(&trace[0].attributes)["windlass.operation.state"] == "done").count()
        };
        (ended("create-server") == 2 && ended("cleanup-server") == 1).then_some(traces)
    })
    .await;
    let of_operations = traces.iter().filter(|trace| trace[0].name.ends_with("-server"));
    for trace in of_operations.clone() {
        let root = texts(&trace[0].attributes);
        assert_eq!((&*root["windlass.group"], &*root["cloud.availability_zone"]), ("ci", "fr-par-1"));
        let calls: Vec<_> = trace.iter().map(|span| texts(&span.attributes)).collect();
        let calls: Vec<_> = calls.iter().filter(|call| call.contains_key("http.request.method")).collect();
        assert!(!calls.is_empty() && calls.iter().all(|call| !call["scaleway.request_id"].is_empty()), "{calls:#?}");
        assert!(trace.iter().any(|span| span.name.starts_with("step ")), "{trace:#?}");
    }
    let retried: Vec<_> = of_operations.flatten().filter(|span| span.name == "decide retry").collect();
    assert!(!retried.is_empty(), "{traces:#?}");
    for decision in retried {
        let decision = texts(&decision.attributes);
        assert!(decision["windlass.decision.policy"].contains("retry"), "{decision:?}");
        assert!(!decision["windlass.decision.verdict"].is_empty(), "{decision:?}");
    }
    eventually("the metrics come, too", async || {
        let metrics = collector.metrics();
        let names = ["windlass_scaleway_calls_total", "windlass_policy_info", "windlass_unverified_operations"];
        names.iter().all(|name| metrics.iter().any(|metric| metric.name == *name)).then_some(())
    })
    .await;
    eventually("so does which policies are in force", async || {
        collector.logs().iter().any(|record| record.event_name == "windlass.policy").then_some(())
    })
    .await;
    assert_eq!(collector.resource()["service.name"], "fleeting-plugin-scaleway");
    for request in collector.requests() {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!body.contains(KEY) && !body.contains("pass&word"), "{}: {body}", request.path);
    }
    plugin.leave().await;
}
