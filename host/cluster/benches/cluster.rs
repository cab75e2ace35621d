//! Prints what the life of a cluster in up to 20 groups costs: it is created, grows by a tenth, is repaired after a
//! tenth of its servers was deleted behind its back, and is terminated. Numbers of nodes are arguments, 200 and 2,000
//! without: `just bench-clusters 200 2000`. What each node costs is also told as a ratio to the first number's.
//!
//! Everything runs against the simulator in process at 50 ms for each call and the recorded durations. Time is
//! simulated, so the first figure shows how the work overlaps under the default limits; what stands beside it is what
//! it costs, simulator included.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_cluster::{
    ClusterControl, ClusterName, ClusterOptions, ClusterSpecification, Clusters, Error, Hook, HookAction, HookFailure,
    HookInput, HookOutput, HookSet, LogClusterStore, NodeGroup, NodeGroupName, ProgramHook, RunHooks, ScaleRequest,
};
use windlass_lifecycle::{Durability, Journal, Lifecycle, Options, StateDirectory};
use windlass_policy::{Host, HostOptions};
use windlass_scaleway::{Client, Settings};
use windlass_simulator::{ForcedState, Latency, Simulator};

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

/// The memory that this process has, in MiB.
fn resident_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
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

/// What a phase cost.
struct Figures {
    phase: &'static str,
    /// Nodes that were made, replaced or removed.
    nodes: u32,
    simulated: Duration,
    wall: Duration,
    processor: Duration,
    resident: f64,
    calls: u64,
}

impl Figures {
    /// The processor's time in milliseconds and the calls, for each of its nodes.
    fn of_each(&self) -> (f64, f64) {
        let nodes = f64::from(self.nodes);
        (self.processor.as_secs_f64() * 1e3 / nodes, self.calls as f64 / nodes)
    }
}

async fn measure<T>(
    simulator: &Simulator,
    phase: &'static str,
    nodes: u32,
    work: impl Future<Output = Result<T, Error>>,
) -> Figures {
    let before = simulator.last_sequence();
    let (simulated, wall, processor) = (tokio::time::Instant::now(), std::time::Instant::now(), processor_time());
    work.await.unwrap();
    Figures {
        phase,
        nodes,
        simulated: simulated.elapsed(),
        wall: wall.elapsed(),
        processor: processor_time().saturating_sub(processor),
        resident: resident_memory(),
        calls: simulator.last_sequence() - before,
    }
}

/// The life of a cluster of so many nodes.
async fn live(nodes: u32, host: &Arc<Host>, folder: &Path) -> Vec<Figures> {
    let simulator = Simulator::new(windlass_simulator::Options {
        latency: Latency { base_ms: LATENCY_MS, jitter_ms: 0 },
        // Its memory would count as ours.
        logged_requests: 0,
        ..windlass_simulator::Options::default()
    });
    let clusters = clusters(&simulator, host, folder);
    let (name, quiet) = ("bench".parse::<ClusterName>().unwrap(), ClusterControl::new());
    let specification = specification(nodes);
    let more = |(group, data): (&NodeGroupName, &NodeGroup)| (group.clone(), data.count + data.count.div_ceil(10));
    let counts: BTreeMap<NodeGroupName, u32> = specification.groups.iter().map(more).collect();
    let made = specification.groups.values().map(|group| group.count).sum::<u32>();
    let grown = counts.values().sum::<u32>();
    let request = ScaleRequest { counts, ..ScaleRequest::default() };
    let servers = |simulator: &Simulator| simulator.resources().servers.len();

    let mut figures = vec![measure(&simulator, "create", made, clusters.create(specification, &quiet)).await];
    assert_eq!(servers(&simulator), made as usize);
    figures.push(measure(&simulator, "grow", grown - made, clusters.scale(&name, &request, &quiet)).await);
    assert_eq!(servers(&simulator), grown as usize);
    let lost: Vec<String> = simulator
        .resources()
        .servers
        .iter()
        .step_by(10)
        .filter_map(|server| Some(server["id"].as_str()?.to_owned()))
        .collect();
    lost.iter().for_each(|id| simulator.set_server_state(id, ForcedState::Deleted).unwrap());
    let lost = u32::try_from(lost.len()).unwrap();
    assert_eq!(servers(&simulator), (grown - lost) as usize);
    figures.push(measure(&simulator, "repair", lost, clusters.scale(&name, &request, &quiet)).await);
    assert_eq!(servers(&simulator), grown as usize);
    figures.push(measure(&simulator, "terminate", grown, clusters.terminate(&name, false, &quiet)).await);
    assert!(simulator.resources().is_empty());
    figures
}

fn main() {
    let mut sizes: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![200, 2_000];
    }
    let folder = tempfile::tempdir().unwrap();
    let host = host(&folder.path().join("policies"));
    println!("nodes  phase      concerned  simulated     wall  resident  processor, each  ratio  calls, each  ratio");
    let mut first: Option<Vec<(f64, f64)>> = None;
    for nodes in sizes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let figures = runtime.block_on(live(nodes, &host, &folder.path().join(nodes.to_string())));
        let each: Vec<(f64, f64)> = figures.iter().map(Figures::of_each).collect();
        let reference = first.get_or_insert_with(|| each.clone());
        for ((figures, each), reference) in figures.iter().zip(&each).zip(reference.iter()) {
            println!(
                "{nodes:5}  {:9} {:10} {:8.1} s {:6.1} s {:5.0} MiB {:13.2} ms {:6.2} {:12.1} {:6.2}",
                figures.phase,
                figures.nodes,
                figures.simulated.as_secs_f64(),
                figures.wall.as_secs_f64(),
                figures.resident,
                each.0,
                each.0 / reference.0,
                each.1,
                each.1 / reference.1,
            );
        }
    }
}
