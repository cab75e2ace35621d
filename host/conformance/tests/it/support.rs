//! A simulated Scaleway under paused time, as it is or behind something that misbehaves.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;

use windlass_conformance::{Bounds, Plan, Probe, Report};
use windlass_lifecycle::Control;
use windlass_scaleway::types::instance::CreateIp;
use windlass_scaleway::{Client, Limits, Settings, Transport, Zone};
use windlass_simulator::{Options, Simulator};

use crate::misbehaviour::{Misbehaving, Misbehaviour};

const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

/// Runs a case on one thread under paused time.
pub fn run<F: Future>(case: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(case)
}

pub fn zone() -> Zone {
    "fr-par-1".parse().unwrap()
}

pub fn simulator() -> Simulator {
    Simulator::new(Options { seed: 11, ..Options::default() })
}

pub fn client_over(transport: Arc<dyn Transport>) -> Client {
    let many = NonZeroU32::new(1_000_000).unwrap();
    let mut limits = Limits::default();
    limits.calls_per_second = many;
    limits.burst = many;
    Client::with_transport(Settings::new(KEY.parse().unwrap()).with_limits(limits), transport).unwrap()
}

pub fn client(simulator: &Simulator) -> Client {
    client_over(simulator.transport())
}

pub fn client_with(simulator: &Simulator, how: Misbehaviour) -> Client {
    client_over(Arc::new(Misbehaving::new(simulator.transport(), how)))
}

/// Something of somebody else's, so that lists hold more than what a run makes.
pub async fn strangers_address(simulator: &Simulator) -> String {
    let request = CreateIp { tags: vec!["windlass-owner=somebody".to_owned()], ..CreateIp::default() };
    client(simulator).instance(&zone()).create_ip(&request).await.unwrap().id
}

pub async fn plan(client: Client, only: &[&str], control: &Control) -> Plan {
    let chosen = Probe::all().iter().filter(|probe| only.is_empty() || only.contains(&probe.id)).copied();
    Plan::make(client, zone(), chosen.collect(), Bounds::default(), control).await.unwrap()
}

pub async fn ask(client: Client, only: &[&str]) -> Report {
    let control = Control::new();
    plan(client, only, &control).await.run(&control, |_| {}).await
}

/// The ids that came out as this word says.
pub fn those(report: &Report, word: &str) -> Vec<&'static str> {
    report.probes.iter().filter(|answered| answered.verdict.word() == word).map(|answered| answered.id).collect()
}

/// What exists, without the stranger's address.
#[track_caller]
pub fn assert_only_the_strangers_is_left(simulator: &Simulator, stranger: &str, report: &Report) {
    assert!(report.left.is_empty(), "{report:#?}");
    let resources = simulator.resources();
    let ips: Vec<&str> = resources.ips.iter().filter_map(|ip| ip["id"].as_str()).collect();
    assert_eq!(ips, [stranger], "{report:#?}");
    assert!(resources.servers.is_empty() && resources.volumes.is_empty(), "{:?} {report:#?}", resources.volumes);
}
