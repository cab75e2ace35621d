//! What a collector gets of a controller's work.

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_simulator::{Effect, FaultKind};
use windlass_telemetry::collector::{Behaviour, Collector, texts};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_operation_of_a_controller_is_one_trace_with_its_calls_and_decisions() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "traces").await?;
    scene.scaleway().add_hosts(1, [])?;
    let collector = Collector::start(Behaviour::Takes)?;
    let options = ControllerOptions::default()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint())
        .variable("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
        .variable("OTEL_METRIC_EXPORT_INTERVAL", "200");
    let controller = scene.start(&options).await?;
    scene.scaleway().fail(
        "POST",
        "/instance/v1/zones/*/servers",
        None,
        FaultKind::InternalServerError,
        Effect::Before,
    )?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene
        .apply(&json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
            "metadata": {"name": "server"},
            "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"}}))
        .await?;
    scene.ready_machines(1).await?;
    let decided = eventually("a decision about the failure is exported", || async {
        let spans = collector.spans();
        let decision = spans.iter().find(|span| span.name == "decide retry").map(|span| texts(&span.attributes));
        decision.ok_or_else(|| anyhow::anyhow!("not among {} spans", spans.len()))
    })
    .await?;
    for what in ["policy", "verdict", "id"] {
        ensure!(decided.get(&format!("windlass.decision.{what}")).is_some_and(|word| !word.is_empty()), "{decided:?}");
    }
    scene.scaleway().calm();
    eventually("the server is ready", || async {
        let machine = scene.api(Kind::InstanceMachine).get("server").await?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await?;
    for (kind, name) in [(Kind::AppleSiliconMachine, "mac"), (Kind::InstanceMachine, "server")] {
        scene.delete(kind, name).await?;
        scene.gone(kind, name).await?;
    }
    let traces = eventually("all of them came", || async {
        let traces = collector.traces();
        let names: Vec<&str> = traces.iter().map(|trace| &*trace[0].name).collect();
        for name in ["create-server", "cleanup-server", "adopt-machine", "release-machine"] {
            ensure!(names.contains(&name), "{name} is not among {names:?}");
        }
        Ok(traces)
    })
    .await?;
    for trace in &traces {
        // One that could not begin, as while a busy machine renews its lease late, made no call.
        if texts(&trace[0].attributes).get("windlass.operation.state").is_none_or(|state| state != "done") {
            continue;
        }
        let calls: Vec<_> = trace.iter().map(|span| texts(&span.attributes)).collect();
        let calls: Vec<_> = calls.iter().filter(|call| call.contains_key("http.request.method")).collect();
        ensure!(!calls.is_empty(), "{trace:#?}");
        ensure!(calls.iter().all(|call| !call["scaleway.request_id"].is_empty()), "{calls:#?}");
    }
    eventually("the metrics come, too", || async {
        let metrics = collector.metrics();
        for name in ["windlass_reconciles_total", "windlass_policy_info", "windlass_unverified_operations"] {
            ensure!(metrics.iter().any(|metric| metric.name == name), "no {name} among {} metrics", metrics.len());
        }
        let logs = collector.logs();
        ensure!(logs.iter().any(|record| record.event_name == "windlass.policy"), "{} log records", logs.len());
        Ok(())
    })
    .await?;
    ensure!(collector.resource()["service.name"] == "windlass-controller", "{:?}", collector.resource());
    drop(controller);
    scene.end().await
}
