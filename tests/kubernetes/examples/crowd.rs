//! Hundreds of machines, measured: what 500 cost that need nothing, and what 100 releases at once do to Scaleway.
//! `just bench-kubernetes` builds what it needs, the controller with optimisation, and runs it. Prints; asserts only what
//! must hold at any speed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use windlass_simulator::Options;
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Programs, Scene, eventually_within,
};

const MACHINES: usize = 500;
const RELEASED: usize = 100;
const LISTING: Duration = Duration::from_secs(10);
/// How long the machines that need nothing are watched.
const WATCHED: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(900);

#[tokio::main]
async fn main() -> Result<()> {
    let programs = Programs::found().context("`just bench-kubernetes` builds what is missing")?;
    let plane = ControlPlane::start(programs, false).await?;
    let scene = Scene::with(&plane, "crowd", Options { time_scale: 60.0, ..Options::default() }).await?;
    let hosts = scene.scaleway().add_hosts(MACHINES, [])?;
    // They bear their claims already, as after a move: an adoption pauses for two seconds to see whether somebody else wants
    // the same host, one after the other, and half an hour of that shows nothing new.
    for (number, host) in hosts.iter().enumerate() {
        scene.scaleway().simulator().rename_server(host, claim(number))?;
    }
    let options = ControllerOptions::default().argument("--listing-interval=10s").argument("--retry-interval=30s");
    let controller = scene.start(&options).await?;
    println!("{:<58} {}", "controller that has nothing to do, resident", mebibytes(&controller)?);

    let began = Instant::now();
    for number in 0..MACHINES {
        let machine = MachineOptions::default().annotated("windlass.dev/claim", &claim(number));
        scene.apply(&machine.machine(&format!("mac-{number:03}"))).await?;
    }
    ready(&scene, MACHINES).await?;
    scene.check_hosts(&[]).await?;
    println!("{:<58} {:.1} s", format!("{MACHINES} machines taken over after"), began.elapsed().as_secs_f64());
    println!("{:<58} {}", "  calls to Scaleway for it", sorted(&scene));
    println!("{:<58} {}", "  resident at the end of it", mebibytes(&controller)?);

    // Let what follows the adoptions (status, secrets, events) come to rest.
    tokio::time::sleep(2 * LISTING).await;
    scene.scaleway().simulator().clear_requests();
    let (processor, before) = (controller.processor_time()?, reconciles(&controller).await);
    tokio::time::sleep(WATCHED).await;
    let listings = scene.scaleway().calls();
    let processor = controller.processor_time()?.saturating_sub(processor);
    println!(
        "{MACHINES} machines that need nothing, for {} s, listing every {} s:",
        WATCHED.as_secs(),
        LISTING.as_secs()
    );
    println!("{:<58} {}", "  resident (target: at most 60 MiB)", mebibytes(&controller)?);
    println!(
        "{:<58} {} ({})",
        "  calls to Scaleway (target: 1 listing an interval, 5 pages)",
        listings.len(),
        sorted(&scene)
    );
    println!("{:<58} {:.1} %", "  of one processor", 100.0 * processor.as_secs_f64() / WATCHED.as_secs_f64());
    if let (Some(before), Some(after)) = (before, reconciles(&controller).await) {
        println!("{:<58} {}", "  reconciles", after - before);
    }

    scene.scaleway().simulator().clear_requests();
    let began = Instant::now();
    for number in 0..RELEASED {
        scene.delete(Kind::AppleSiliconMachine, &format!("mac-{number:03}")).await?;
    }
    eventually_within(PATIENCE, "they are released", || async {
        let left = scene.machines().await?.len();
        ensure!(left == MACHINES - RELEASED, "{left} are left");
        Ok(())
    })
    .await?;
    let elapsed = began.elapsed();
    println!("{:<58} {:.1} s", format!("{RELEASED} machines released at once after"), elapsed.as_secs_f64());
    println!("{:<58} {}", "  calls to Scaleway for it", sorted(&scene));
    println!("{:<58} {}", "  most calls in one second", busiest(&scene));
    let refused = scene.scaleway().simulator().requests().iter().filter(|request| request.status == Some(429)).count();
    println!("{:<58} {refused}", "  refused for the rate");
    scene.check_hosts(&[]).await?;
    scene.end().await
}

fn claim(number: usize) -> String {
    format!("k8s-crowd-mac-{number:03}")
}

async fn ready(scene: &Scene<'_>, count: usize) -> Result<()> {
    eventually_within(PATIENCE, "the machines are ready", || async {
        let machines = scene.machines().await?;
        let waiting = machines.iter().find(|machine| machine.data["status"]["ready"] != true);
        ensure!(waiting.is_none() && machines.len() == count, "{:?} is not", waiting.map(ResourceExt::name_any));
        Ok(())
    })
    .await
}

fn mebibytes(controller: &Controller) -> Result<String> {
    Ok(format!("{:.1} MiB", controller.resident_bytes()? as f64 / f64::from(1 << 20)))
}

/// The controller's own count of its reconciles.
async fn reconciles(controller: &Controller) -> Option<u64> {
    let metrics = controller.metrics().await.ok()?;
    let counts = metrics.lines().filter(|line| line.starts_with("windlass_reconciles_total"));
    let total: f64 = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    Some(total as u64)
}

/// How many calls of which kind: ids are left out.
fn sorted(scene: &Scene<'_>) -> String {
    let mut kinds = BTreeMap::new();
    for call in scene.scaleway().calls() {
        let (method, path) = call.split_once(' ').unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        let kind = if last.len() == 36 { format!("{method} one") } else { format!("{method} {last}") };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    kinds.iter().map(|(kind, count)| format!("{count} x {kind}")).collect::<Vec<_>>().join(", ")
}

/// The most calls that came within one second of this machine's time.
fn busiest(scene: &Scene<'_>) -> usize {
    // Simulated milliseconds, sixty for each real one.
    let times: Vec<u64> = scene.scaleway().simulator().requests().iter().map(|request| request.at_ms / 60).collect();
    times
        .iter()
        .enumerate()
        .map(|(first, start)| times[first..].iter().take_while(|at| **at < start + 1_000).count())
        .max()
        .unwrap_or(0)
}
