//! Prints what the journal and the creations cost, as ratios where a ratio says more:
//! `cargo bench -p windlass-lifecycle`.
//!
//! Creations run against the simulator in process at 50 ms for each call: once in simulated time, which shows how they
//! would overlap, and with the processor's time beside it, which is what we cost.

#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_lifecycle::{
    AddressKind, Clock, Control, CreatedServer, Durability, ImageChoice, Journal, Lifecycle, OperationFilter,
    OperationState, Options, ServerSpecification, StateDirectory, Target,
};
use windlass_policy::{Host, HostOptions};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{Latency, Simulator};

const LATENCY_MS: u64 = 50;

fn host(folder: &Path) -> Arc<Host> {
    let state = StateDirectory::open(folder).unwrap();
    Arc::new(Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap())
}

fn specification() -> ServerSpecification {
    let mut specification = ServerSpecification::new(
        "bench".parse().unwrap(),
        "fr-par-1".parse().unwrap(),
        "DEV1-S",
        ImageChoice::Label("ubuntu_noble".into()),
    );
    specification.addresses = vec![AddressKind::Ipv4, AddressKind::Ipv6];
    specification.cloud_init = Some(windlass_lifecycle::CloudInit::new("#cloud-config\n"));
    specification
}

fn lifecycle(simulator: &Simulator, host: &Arc<Host>, folder: &Path, durability: Durability) -> Lifecycle {
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = windlass_scaleway::Limits::default();
    limits.calls_per_second = many;
    limits.burst = many;
    limits.concurrent_calls = many;
    let settings = Settings::new("5ec7e700-0000-4000-8000-5ec7e75ec7e7".parse().unwrap()).with_limits(limits);
    let client = Client::with_transport(settings, simulator.transport()).unwrap();
    let mut options = Options::new(client, Arc::clone(host), StateDirectory::open(folder).unwrap());
    options.durability = durability;
    options.clock = Clock::System;
    Lifecycle::open(options).unwrap()
}

struct Run {
    simulated: Duration,
    real: Duration,
    calls: usize,
    polls: usize,
}

fn is_poll(method: &str, path: &str) -> bool {
    method == "GET" && (path.ends_with("/servers") || path.contains("/servers/"))
}

/// Creates so many servers at once under paused time, and cleans them up.
fn create(host: &Arc<Host>, count: usize) -> (Run, Run) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let simulator = Simulator::new(windlass_simulator::Options {
            latency: Latency { base_ms: LATENCY_MS, jitter_ms: 0 },
            ..windlass_simulator::Options::default()
        });
        let folder = tempfile::tempdir().unwrap();
        let lifecycle = lifecycle(&simulator, host, folder.path(), Durability::Process);
        let control = Control::new();
        let measure = |simulated: tokio::time::Instant, real: Instant| {
            let requests = simulator.requests();
            let polls = requests.iter().filter(|r| is_poll(&r.method, &r.path)).count();
            simulator.clear_requests();
            Run { simulated: simulated.elapsed(), real: real.elapsed(), calls: requests.len() - polls, polls }
        };
        let (simulated, real) = (tokio::time::Instant::now(), Instant::now());
        let created = lifecycle.create_servers(&specification(), count, &control).await;
        let creating = measure(simulated, real);
        let (simulated, real) = (tokio::time::Instant::now(), Instant::now());
        let cleanups = created.iter().map(|created| {
            let target = Target::Operation(created.as_ref().unwrap().operation.clone());
            let (lifecycle, control) = (&lifecycle, &control);
            async move { lifecycle.cleanup(&target, control).await.unwrap() }
        });
        futures::future::join_all(cleanups).await;
        let cleaning = measure(simulated, real);
        assert!(simulator.resources().is_empty());
        (creating, cleaning)
    })
}

/// Prints what reading a journal costs that holds so many creations and as many cleanups, all ended.
fn reads(host: &Arc<Host>, count: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let simulator = Simulator::new(windlass_simulator::Options::default());
    let lifecycle = lifecycle(&simulator, host, folder.path(), Durability::Process);
    let created = runtime.block_on(async {
        let control = Control::new();
        let mut operations = Vec::new();
        for created in lifecycle.create_servers(&specification(), count, &control).await {
            let created = created.unwrap();
            lifecycle.cleanup(&Target::Operation(created.operation.clone()), &control).await.unwrap();
            operations.push(created);
        }
        Arc::new(operations)
    });
    let entries = created.iter().map(|created| lifecycle.journal().entries(&created.operation).unwrap().len());
    let entries = entries.sum::<usize>() / count;
    println!("reading a journal of {} operations, some {entries} entries to a creation", count * 2);
    let reads: [(&str, usize, Read); 5] = [
        ("an operation", 5_000, |journal, created| journal.operation(&created.operation).map(drop)),
        ("an operation's entries", 5_000, |journal, created| journal.entries(&created.operation).map(drop)),
        ("a server's operations", 5_000, |journal, created| {
            journal.operations_of_resource(&created.server.id).map(drop)
        }),
        ("what is open", 5_000, |journal, _| {
            let mut filter = OperationFilter::default();
            filter.states = vec![OperationState::Open, OperationState::Left, OperationState::Unverified];
            journal.operations(&filter).map(drop)
        }),
        ("the newest 1,000 operations", 20, |journal, _| journal.operations(&OperationFilter::default()).map(drop)),
    ];
    // As the programs read: on a thread of a runtime's, which gives its other tasks up meanwhile.
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for (name, rounds, read) in reads {
        let measure = move |lifecycle: Lifecycle, created: Arc<Vec<CreatedServer>>| {
            let began = Instant::now();
            created.iter().cycle().take(rounds).for_each(|created| read(lifecycle.journal(), created).unwrap());
            began.elapsed() / u32::try_from(rounds).unwrap()
        };
        let alone = measure(lifecycle.clone(), Arc::clone(&created));
        let work = (lifecycle.clone(), Arc::clone(&created));
        let on_runtime = threads.block_on(threads.spawn(async move { measure(work.0, work.1) })).unwrap();
        println!("  {name:<28} {alone:>9.1?}   on a runtime's thread {on_runtime:>9.1?}");
    }
}

/// One read of a journal that knows this creation.
type Read = fn(&Journal, &CreatedServer) -> Result<(), windlass_lifecycle::Error>;

/// Opens so many creates in the journal, `parallel` at a time.
fn journal(host: &Arc<Host>, durability: Durability, count: usize, parallel: usize) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let simulator = Simulator::new(windlass_simulator::Options::default());
        let lifecycle = lifecycle(&simulator, host, folder.path(), durability);
        let began = Instant::now();
        for _ in 0..count / parallel {
            let begun = (0..parallel).map(|_| lifecycle.begin_create(specification()));
            for pending in futures::future::join_all(begun).await {
                pending.unwrap();
            }
        }
        began.elapsed() / u32::try_from(count).unwrap()
    })
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(folder.path());
    println!("journal, one operation opened (a synced commit unless said otherwise)");
    let alone = journal(&host, Durability::Full, 200, 1);
    let together = journal(&host, Durability::Full, 2_000, 100);
    let process = journal(&host, Durability::Process, 2_000, 1);
    println!("  one after the other   {alone:>10.1?}");
    println!(
        "  100 at a time         {together:>10.1?}   {:.1} times cheaper: they share a commit",
        alone.as_secs_f64() / together.as_secs_f64()
    );
    println!("  without sync          {process:>10.1?}");
    reads(&host, 1_000);
    println!("creations at {LATENCY_MS} ms a call (1 volume, 2 addresses, cloud-init)");
    let mut one = None;
    for count in [1, 10, 100] {
        let (creating, cleaning) = create(&host, count);
        let first = *one.get_or_insert(creating.simulated);
        for (name, run) in [("create", &creating), ("clean up", &cleaning)] {
            println!(
                "  {name:<8} {count:>3}: {:>8.2?} simulated, {:>8.2?} processor, {:>5.2} calls and {:>5.2} reads of \
                 servers for each",
                run.simulated,
                run.real,
                run.calls as f64 / count as f64,
                run.polls as f64 / count as f64,
            );
        }
        println!("                {:.2} times the time of one", creating.simulated.as_secs_f64() / first.as_secs_f64());
    }
}
