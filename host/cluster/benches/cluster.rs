//! Prints what a cluster of 10, 100 and 1,000 nodes in up to 20 groups costs: `cargo bench -p windlass-cluster`.
//!
//! Everything runs against the simulator in process at 50 ms for each call and the recorded durations. Time is
//! simulated, so the first figure shows how the work overlaps under the default limits; the processor's time beside it,
//! simulator included, is what it costs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_cluster::{
    ClusterControl, ClusterName, ClusterOptions, ClusterSpecification, Clusters, Hook, HookAction, HookFailure,
    HookInput, HookOutput, HookSet, LogClusterStore, NodeGroup, NodeGroupName, ProgramHook, RunHooks, ScaleRequest,
};
use windlass_lifecycle::{Durability, Journal, Lifecycle, Options, StateDirectory};
use windlass_policy::{Host, HostOptions};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{Latency, Simulator};

const LATENCY_MS: u64 = 50;
const GROUPS: u32 = 20;

/// Hooks that take a second, however many nodes there are.
#[derive(Debug)]
struct OneSecond;

#[async_trait]
impl RunHooks for OneSecond {
    async fn run(&self, _hook: &Hook, _input: &HookInput) -> Result<HookOutput, Box<HookFailure>> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(HookOutput::default())
    }
}

fn host(folder: &Path) -> Arc<Host> {
    let state = StateDirectory::open(folder).unwrap();
    Arc::new(Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap())
}

fn specification(nodes: u32) -> ClusterSpecification {
    let name: ClusterName = "bench".parse().unwrap();
    let mut specification = ClusterSpecification::new(name, "fr-par-1".parse().unwrap());
    for number in 0..GROUPS.min(nodes) {
        let group: NodeGroupName = format!("g{number:02}").parse().unwrap();
        specification.groups.insert(group, NodeGroup::new(nodes / GROUPS.min(nodes), "DEV1-S", "ubuntu_noble"));
    }
    let hook = || Some(Hook::new(HookAction::Program(ProgramHook::new("true"))));
    specification.hooks = HookSet { decommission: hook(), configure: hook(), start: hook() };
    specification
}

fn clusters(simulator: &Simulator, host: &Arc<Host>, folder: &Path) -> Clusters {
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = windlass_scaleway::Limits::default();
    limits.calls_per_second = many;
    limits.burst = many;
    limits.concurrent_calls = many;
    let settings = Settings::new("5ec7e700-0000-4000-8000-5ec7e75ec7e7".parse().unwrap()).with_limits(limits);
    let client = Client::with_transport(settings, simulator.transport()).unwrap();
    let state = StateDirectory::open(folder).unwrap();
    let store = LogClusterStore::of(&Journal::open(&state, Durability::Process).unwrap());
    let mut options = Options::new(client.clone(), Arc::clone(host), state);
    options.durability = Durability::Process;
    options.seed = Some(1);
    let lifecycle = Lifecycle::open(options).unwrap();
    let mut options = ClusterOptions::new(lifecycle, client, Arc::clone(host), Arc::new(store));
    options.hooks = Arc::new(OneSecond);
    Clusters::new(options)
}

/// The most memory that this process ever had, in MiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|number| number.parse::<f64>().ok());
    kibibytes.unwrap_or(f64::NAN) / 1024.0
}

/// The processor's time that this process has used, in steps of 10 ms: what others do on the machine is not in it.
fn processor_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets, which may hold anything, user and system time are the 12th and 13th field.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    TICK * fields.skip(11).take(2).filter_map(|field| field.parse::<u32>().ok()).sum()
}

struct Figures {
    simulated: Duration,
    processor: Duration,
    calls: usize,
}

async fn measure<T>(simulator: &Simulator, work: impl Future<Output = T>) -> Figures {
    simulator.clear_requests();
    let (simulated, processor) = (tokio::time::Instant::now(), processor_time());
    work.await;
    Figures {
        simulated: simulated.elapsed(),
        processor: processor_time().saturating_sub(processor),
        calls: simulator.requests().len(),
    }
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder.path().join("policies"));
    println!("nodes  operation   simulated  processor   per node      calls  per node  peak memory");
    for nodes in [10_u32, 100, 1_000] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let simulator = Simulator::new(windlass_simulator::Options {
                latency: Latency { base_ms: LATENCY_MS, jitter_ms: 0 },
                logged_requests: 1_000_000,
                ..windlass_simulator::Options::default()
            });
            let clusters = clusters(&simulator, &host, &folder.path().join(nodes.to_string()));
            let (name, quiet) = ("bench".parse::<ClusterName>().unwrap(), ClusterControl::new());
            let specification = specification(nodes);
            // Every second group loses half, every other one gains as much.
            let mut counts = BTreeMap::new();
            for (number, (group, data)) in specification.groups.iter().enumerate() {
                let half = data.count.div_ceil(2);
                counts.insert(group.clone(), if number % 2 == 0 { data.count - half } else { data.count + half });
            }
            let request = ScaleRequest { counts, ..ScaleRequest::default() };
            let created = measure(&simulator, async { clusters.create(specification, &quiet).await.unwrap() }).await;
            assert_eq!(simulator.resources().servers.len(), nodes as usize);
            let scaled = measure(&simulator, async { clusters.scale(&name, &request, &quiet).await.unwrap() }).await;
            assert_eq!(simulator.resources().servers.len(), nodes as usize);
            let ended = measure(&simulator, async { clusters.terminate(&name, false, &quiet).await.unwrap() }).await;
            assert!(simulator.resources().is_empty());
            for (operation, figures) in [("create", created), ("scale", scaled), ("terminate", ended)] {
                println!(
                    "{nodes:5}  {operation:10} {:8.1} s {:8.0} ms {:7.2} ms {:10} {:9.1} {:8.0} MiB",
                    figures.simulated.as_secs_f64(),
                    figures.processor.as_secs_f64() * 1e3,
                    figures.processor.as_secs_f64() * 1e3 / f64::from(nodes),
                    figures.calls,
                    figures.calls as f64 / f64::from(nodes),
                    peak_memory(),
                );
            }
        });
    }
}
