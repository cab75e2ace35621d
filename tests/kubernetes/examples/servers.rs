//! A large cluster of servers, measured: how long an operation on it takes, how many writes its record costs, and how
//! large its object grows. Numbers of nodes are arguments, 100 and 1000 without; `just bench-kubernetes` builds what it
//! needs and runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_simulator::Options;
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Programs, Scene, eventually_within};

const NAME: &str = "farm";
/// Groups of a cluster.
const GROUPS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(1_800);

#[tokio::main]
async fn main() -> Result<()> {
    let programs = Programs::found().context("`just bench-kubernetes` builds what is missing")?;
    let mut sizes: Vec<usize> = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![100, 1_000];
    }
    let plane = ControlPlane::start(programs, false).await?;
    for nodes in sizes {
        measure(&plane, nodes).await?;
    }
    Ok(())
}

async fn measure(plane: &ControlPlane, nodes: usize) -> Result<()> {
    let scene = Scene::with(plane, "servers", Options { time_scale: 60.0, ..Options::default() }).await?;
    let controller = scene.start(&ControllerOptions::default().argument("--operations=128")).await?;
    println!("{nodes} nodes in {GROUPS} groups:");
    let began = Instant::now();
    scene.apply(&cluster(nodes / GROUPS)).await?;
    let object = active(&scene, nodes).await?;
    print_figures("created after", &object, began, 0)?;
    println!("{:<58} {} MiB", "  controller, resident", controller.resident_bytes()? / (1024 * 1024));

    // A tenth of it leaves while as many come.
    let before = writes(&object);
    let began = Instant::now();
    let (half, tenth) = (GROUPS / 2, nodes / GROUPS / 5);
    let mut wanted = cluster(nodes / GROUPS);
    for (number, group) in wanted["spec"]["groups"].as_array_mut().into_iter().flatten().enumerate() {
        group["count"] = json!(if number < half { nodes / GROUPS - tenth } else { nodes / GROUPS + tenth });
    }
    scene.apply(&wanted).await?;
    eventually_within(PATIENCE, "the scaling has begun", || async {
        let object = scene.api(Kind::ServerCluster).get(NAME).await?;
        ensure!(object.data["status"]["operation"]["number"] == 2);
        Ok(())
    })
    .await?;
    let object = active(&scene, nodes).await?;
    print_figures("a tenth of them replaced after", &object, began, before)?;

    let began = Instant::now();
    scene.delete(Kind::ServerCluster, NAME).await?;
    eventually_within(PATIENCE, "it is gone", || async {
        ensure!(scene.api(Kind::ServerCluster).get_opt(NAME).await?.is_none());
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().simulator().resources().is_empty(), "something is left");
    println!("{:<58} {:.1} s", "  terminated, nothing left, after", began.elapsed().as_secs_f64());
    scene.end().await
}

fn cluster(count: usize) -> Value {
    let group = |number| {
        json!({"name": format!("group-{number:02}"), "count": count, "types": ["DEV1-S"],
        "image": "ubuntu_noble"})
    };
    json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ServerCluster", "metadata": {"name": NAME},
        "spec": {
            "zone": "fr-par-1", "serverDeadlineSeconds": 3600, "waitDeadlineSeconds": 3600,
            "groups": (0..GROUPS).map(group).collect::<Vec<_>>(),
        },
    })
}

async fn active(scene: &Scene<'_>, nodes: usize) -> Result<DynamicObject> {
    eventually_within(PATIENCE, "it is active", || async {
        let object = scene.api(Kind::ServerCluster).get(NAME).await?;
        let status = &object.data["status"];
        ensure!(
            status["state"] == "active" && status["runningNodes"] == nodes,
            "{} {}",
            status["state"],
            status["progress"]
        );
        Ok(object)
    })
    .await
}

fn writes(object: &DynamicObject) -> u64 {
    object.data["status"]["record"]["writes"].as_u64().unwrap_or_default()
}

fn print_figures(what: &str, object: &DynamicObject, began: Instant, before: u64) -> Result<()> {
    println!("{:<58} {:.1} s", format!("  {what}"), began.elapsed().as_secs_f64());
    println!("{:<58} {}", "  writes of its record", writes(object) - before);
    println!("{:<58} {} kB", "  its object, with what the API server adds", serde_json::to_vec(object)?.len() / 1_000);
    Ok(())
}
