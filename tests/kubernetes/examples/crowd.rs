//! Hundreds of Macs and thousands of instances, measured: what they cost that need nothing, what Macs cost that wait for
//! a host, what instances cost that fail for one reason, and what 100 releases at once do to Scaleway.
//! `just bench-kubernetes` builds what it needs, the controller with optimisation, and runs it. Prints; asserts only
//! what must hold at any speed. With an argument (`servers`, `waiting`, `failing`) it runs that part alone, and with a
//! second one with so many objects.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::json;
use windlass_simulator::{Effect, FaultKind, Options, RequestLimit};
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Programs, Scene, User,
};

const MACHINES: usize = 500;
const RELEASED: usize = 100;
const INSTANCES: usize = 2_000;
/// Macs for which there is no host.
const WAITING: usize = 2_000;
/// What the gateway of the second part lets through each second: a third of what the controller allows itself.
const GATEWAY: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
const LISTING: Duration = Duration::from_secs(10);
/// How long the machines that need nothing are watched.
const WATCHED: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(1800);
const LOOK: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<()> {
    let programs = Programs::found().context("`just bench-kubernetes` builds what is missing")?;
    let plane = ControlPlane::start(programs, false).await?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.get(1).map(|count| count.parse()).transpose().context("a number of objects")?;
    match arguments.first().map(String::as_str) {
        Some("servers") => thousands(&plane, count.unwrap_or(INSTANCES)).await,
        Some("waiting") => waiting(&plane, count.unwrap_or(WAITING)).await,
        Some("failing") => failing(&plane, count.unwrap_or(INSTANCES)).await,
        _ => {
            hundreds(&plane).await?;
            thousands(&plane, INSTANCES).await?;
            waiting(&plane, WAITING).await?;
            failing(&plane, INSTANCES).await?;
            behind_a_strict_gateway(&plane).await
        }
    }
}

/// What machines cost that need nothing, and then a fifth of them released at once.
async fn hundreds(plane: &ControlPlane) -> Result<()> {
    let scene = Scene::with(plane, "crowd", simulated(None)).await?;
    let controller = scene.start(&quick()).await?;
    println!("{:<58} {}", "controller that has nothing to do, resident", mebibytes(&controller)?);

    let began = Instant::now();
    take_over(&scene, MACHINES).await?;
    println!("{:<58} {:.1} s", format!("{MACHINES} machines taken over after"), began.elapsed().as_secs_f64());
    println!("{:<58} {}", "  calls to Scaleway for it", sorted(&scene));
    println!("{:<58} {}", "  resident at the end of it", mebibytes(&controller)?);

    steady(plane, &scene, &controller, "1 listing an interval, 5 pages").await?;

    let before = api_calls(plane)?;
    let processor = controller.processor_time()?;
    release(&scene, MACHINES, RELEASED).await?;
    println!("{:<58} {}", "  calls to the API server, ours among them", listed(&since(&before, &api_calls(plane)?)));
    let processor = controller.processor_time()?.saturating_sub(processor);
    println!("{:<58} {:.1} ms", "  processor time for each", processor.as_secs_f64() * 1e3 / RELEASED as f64);
    scene.end().await
}

/// What machines cost for which nothing changes: the calls to the API server.
async fn steady(plane: &ControlPlane, scene: &Scene<'_>, controller: &Controller, target: &str) -> Result<ApiCalls> {
    at_rest(plane).await?;
    scene.scaleway().simulator().clear_requests();
    let (processor, reconciled) = (controller.processor_time()?, reconciles(controller).await);
    let before = api_calls(plane)?;
    tokio::time::sleep(WATCHED).await;
    let listings = scene.scaleway().calls();
    let to_the_api_server = since(&before, &api_calls(plane)?);
    let processor = controller.processor_time()?.saturating_sub(processor);
    println!("all of them, left alone, for {} s, listing every {} s:", WATCHED.as_secs(), LISTING.as_secs());
    println!("{:<58} {}", "  resident", mebibytes(controller)?);
    println!("{:<58} {} ({})", format!("  calls to Scaleway (target: {target})"), listings.len(), sorted(scene));
    println!("{:<58} {}", "  calls to the API server", listed(&to_the_api_server));
    println!("{:<58} {:.1} %", "  of one processor", 100.0 * processor.as_secs_f64() / WATCHED.as_secs_f64());
    if let (Some(before), Some(after)) = (reconciled, reconciles(controller).await) {
        println!("{:<58} {}", "  reconciles", after - before);
    }
    Ok(to_the_api_server)
}

/// What servers cost that need nothing, and all of them removed.
async fn thousands(plane: &ControlPlane, count: usize) -> Result<()> {
    let scene = Scene::with(plane, "servers", simulated(None)).await?;
    let controller = scene.start(&quick().argument("--operations=128")).await?;
    let began = Instant::now();
    make_instances(&scene, count).await?;
    settled("the servers run", || async {
        let machines = scene.list(Kind::InstanceMachine).await?;
        let ready = machines.iter().filter(|machine| machine.data["status"]["ready"] == true).count();
        ensure!(ready == count, "{ready}");
        Ok(())
    })
    .await?;
    println!("{:<58} {:.1} s", format!("{count} instances made after"), began.elapsed().as_secs_f64());
    steady(plane, &scene, &controller, "1 listing an interval, 20 pages").await?;
    let began = Instant::now();
    plane.kubectl(User::Admin, &["delete", "im", "--all", "--wait=false", "--namespace", scene.namespace()], "")?;
    settled("nothing is left", || async {
        let is_empty = scene.scaleway().simulator().resources().is_empty();
        ensure!(is_empty && scene.list(Kind::InstanceMachine).await?.is_empty());
        Ok(())
    })
    .await?;
    println!("{:<58} {:.1} s", "  removed, nothing left, after", began.elapsed().as_secs_f64());
    scene.end().await
}

/// What Macs cost that wait for a host: all of them together less than one write a second.
async fn waiting(plane: &ControlPlane, count: usize) -> Result<()> {
    let scene = Scene::with(plane, "waiting", simulated(None)).await?;
    let controller = scene.start(&quick()).await?;
    let began = Instant::now();
    for number in 0..count {
        scene.apply(&MachineOptions::default().machine(&format!("mac-{number:04}"))).await?;
    }
    settled("the machines wait for a host", || async {
        let waits = |machine: &&DynamicObject| machine.data["status"]["operation"]["reason"] == "NoHostAvailable";
        let waiting = scene.machines().await?.iter().filter(waits).count();
        ensure!(waiting == count, "{waiting}");
        Ok(())
    })
    .await?;
    println!("{:<58} {:.1} s", format!("{count} Macs wait for a host after"), began.elapsed().as_secs_f64());
    few_writes(&steady(plane, &scene, &controller, "1 listing an interval").await?)?;
    scene.end().await
}

/// What instances cost whose creation fails for a reason that they have in common: one of them tries for all.
async fn failing(plane: &ControlPlane, count: usize) -> Result<()> {
    let scene = Scene::with(plane, "failing", simulated(None)).await?;
    scene.scaleway().fail("POST", "/instance/v1/zones/*/servers", None, FaultKind::QuotaExceeded, Effect::Before)?;
    let controller = scene.start(&quick().argument("--operations=128")).await?;
    let began = Instant::now();
    make_instances(&scene, count).await?;
    settled("the instances say why they fail", || async {
        let fails = |machine: &&DynamicObject| machine.data["status"]["operation"]["reason"] == "CreationFailed";
        let failing = scene.list(Kind::InstanceMachine).await?.iter().filter(fails).count();
        ensure!(failing == count, "{failing}");
        Ok(())
    })
    .await?;
    println!("{:<58} {:.1} s", format!("{count} instances say why they fail after"), began.elapsed().as_secs_f64());
    few_writes(&steady(plane, &scene, &controller, "those of one creation in 5 minutes").await?)?;
    scene.end().await
}

/// Prints how many of the calls write, and expects less than one a second.
fn few_writes(calls: &ApiCalls) -> Result<()> {
    let is_write = |verb: &str| !["GET", "LIST", "WATCH"].contains(&verb);
    let writes: u64 = calls.iter().filter(|((verb, _), _)| is_write(verb)).map(|(_, count)| count).sum();
    println!("{:<58} {writes}", "  writes among them (target: less than one a second)");
    ensure!(writes < WATCHED.as_secs(), "{writes} writes in {} s", WATCHED.as_secs());
    Ok(())
}

async fn make_instances(scene: &Scene<'_>, count: usize) -> Result<()> {
    for number in 0..count {
        let mut machine = Kind::InstanceMachine.object(&format!("server-{number:04}"));
        machine["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
        scene.apply(&machine).await?;
    }
    Ok(())
}

/// The same release where Scaleway lets through less than the controller would send.
async fn behind_a_strict_gateway(plane: &ControlPlane) -> Result<()> {
    println!("behind a gateway that lets {GATEWAY} calls a second through:");
    let scene = Scene::with(plane, "strict", simulated(Some(GATEWAY))).await?;
    let _controller = scene.start(&quick()).await?;
    take_over(&scene, RELEASED).await?;
    release(&scene, RELEASED, RELEASED).await?;
    scene.end().await
}

fn simulated(gateway: Option<NonZeroU32>) -> Options {
    let request_limit = gateway.map(|per_second| RequestLimit { per_second, burst: per_second });
    Options { time_scale: 60.0, request_limit, ..Options::default() }
}

fn quick() -> ControllerOptions {
    ControllerOptions::default().argument("--listing-interval=10s").argument("--retry-interval=30s")
}

/// Machines on hosts that bear their claims already, as after a move: an adoption pauses for two seconds to see whether
/// somebody else wants the same host, one after the other, and half an hour of that shows nothing new.
async fn take_over(scene: &Scene<'_>, count: usize) -> Result<()> {
    for (number, host) in scene.scaleway().add_hosts(count, [])?.iter().enumerate() {
        scene.scaleway().simulator().rename_server(host, claim(number))?;
    }
    let names: Vec<_> = (0..count).map(|number| (claim(number), format!("mac-{number:03}"))).collect();
    // The claims are of another cluster's making: an administrator hands them over.
    let approvals: Vec<_> = names.iter().map(|(claim, name)| (claim.as_str(), name.as_str())).collect();
    scene.approve(&approvals).await?;
    for number in 0..count {
        let machine = MachineOptions::default().annotated("windlass.dev/claim", &claim(number));
        scene.apply(&machine.machine(&format!("mac-{number:03}"))).await?;
    }
    ready(scene, count).await?;
    scene.check_hosts(&[]).await
}

/// Waits as `eventually` does, but with seconds between two looks: each look lists thousands of objects, which would be
/// most of what is measured.
async fn settled<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 0..PATIENCE.as_secs() / LOOK.as_secs() {
        match ask().await {
            Ok(value) => return Ok(value),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
    ask().await.with_context(|| format!("not within {PATIENCE:?}: {what}; in the end"))
}

/// Waits until what follows the adoptions is over: statuses and events of ours, and Kubernetes' own garbage collector,
/// which looks at the owner of each new Secret, a few in a second. Only the hourly look at each Secret goes on (every
/// 60 listings: here every ten minutes), and that at the policies of objects every ten seconds.
async fn at_rest(plane: &ControlPlane) -> Result<()> {
    settled("nobody calls the API server", || async {
        let before = api_calls(plane)?;
        tokio::time::sleep(LISTING).await;
        let mut after = api_calls(plane)?;
        after.retain(|(verb, resource), _| {
            (verb.as_str(), resource.as_str()) != ("GET", "secrets") && !resource.ends_with("policies")
        });
        let meanwhile = since(&before, &after);
        ensure!(meanwhile.is_empty(), "{}", listed(&meanwhile));
        Ok(())
    })
    .await
}

/// Deletes `count` of `all` machines at once, and tells what that did to Scaleway.
async fn release(scene: &Scene<'_>, all: usize, count: usize) -> Result<()> {
    scene.scaleway().simulator().clear_requests();
    let began = Instant::now();
    for number in 0..count {
        scene.delete(Kind::AppleSiliconMachine, &format!("mac-{number:03}")).await?;
    }
    settled("they are released", || async {
        let left = scene.machines().await?.len();
        ensure!(left == all - count, "{left} are left");
        Ok(())
    })
    .await?;
    println!("{:<58} {:.1} s", format!("{count} machines released at once after"), began.elapsed().as_secs_f64());
    println!("{:<58} {}", "  calls to Scaleway for it", sorted(scene));
    println!("{:<58} {}", "  most calls in one second", busiest(scene));
    let refused = scene.scaleway().simulator().requests().iter().filter(|request| request.status == Some(429)).count();
    println!("{:<58} {refused}", "  refused for the rate");
    scene.check_hosts(&[]).await
}

fn claim(number: usize) -> String {
    format!("k8s-crowd-mac-{number:03}")
}

async fn ready(scene: &Scene<'_>, count: usize) -> Result<()> {
    settled("the machines are ready", || async {
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

/// How often the API server was called, by whomever: by verb and resource.
type ApiCalls = BTreeMap<(String, String), u64>;

fn api_calls(plane: &ControlPlane) -> Result<ApiCalls> {
    let mut calls = ApiCalls::new();
    for line in plane.kubectl(User::Admin, &["get", "--raw", "/metrics"], "")?.lines() {
        let Some(series) = line.strip_prefix("apiserver_request_total{") else { continue };
        let label = |name: &str| series.split_once(&format!("{name}=\""))?.1.split('"').next();
        let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or_default();
        // Kubernetes' own housekeeping (leases of the API server, priorities, namespaces) is in other groups.
        let ours = match (label("group"), label("resource")) {
            (Some("infrastructure.windlass.dev" | "events.k8s.io"), Some(resource)) => resource,
            (Some(""), Some("secrets")) => "secrets",
            _ => continue,
        };
        *calls.entry((label("verb").unwrap_or_default().to_owned(), ours.to_owned())).or_default() += count as u64;
    }
    Ok(calls)
}

/// The calls between two looks.
fn since(before: &ApiCalls, after: &ApiCalls) -> ApiCalls {
    let mut grown = after.clone();
    for (what, count) in before {
        grown.entry(what.clone()).and_modify(|calls| *calls -= count);
    }
    grown.retain(|_, count| *count > 0);
    grown
}

fn listed(calls: &ApiCalls) -> String {
    let calls: Vec<_> = calls.iter().map(|((verb, resource), count)| format!("{count} x {verb} {resource}")).collect();
    if calls.is_empty() { "none".to_owned() } else { calls.join(", ") }
}
