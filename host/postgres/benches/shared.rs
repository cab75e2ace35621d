//! Hosts that write to one database at the same time, beside one host with a file: `just bench-shared-state`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and fails by panics")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_lifecycle::StateDirectory;
use windlass_lifecycle::log::{Change, Durability, Log, SharedLog as _, SqliteLog, Target};
use windlass_postgres::PostgresState;

/// As many as an operation on a server writes.
const STEPS: usize = 10;
const OPERATIONS: usize = 640;

#[tokio::main]
async fn main() {
    let Some(server) = windlass_test_postgres::Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(folder.path()).unwrap();
    let file: Arc<dyn Log> = Arc::new(SqliteLog::open(&state, Durability::Full).unwrap());
    let alone = measured("a file, 1 host", &[file], None).await;
    for hosts in [1, 8, 64] {
        let host = |number| {
            let url = server.url(&format!("hosts_{hosts}"));
            PostgresState::parse(&url, &BTreeMap::new(), format!("host-{number}")).unwrap().open().unwrap()
        };
        let logs: Vec<Arc<dyn Log>> = (0..hosts).map(host).collect();
        measured(&format!("PostgreSQL, {hosts} hosts"), &logs, Some(alone)).await;
    }
}

/// Ten operations at a time on each host, up to 640 in all. Gives how many operations there were in a second.
async fn measured(name: &str, hosts: &[Arc<dyn Log>], beside: Option<f64>) -> f64 {
    let at_once = (64 / hosts.len()).max(1);
    let began = Instant::now();
    let tasks: Vec<_> = hosts
        .iter()
        .enumerate()
        .flat_map(|(host, log)| (0..at_once).map(move |task| (host * at_once + task, Arc::clone(log))))
        .map(|(task, log)| tokio::spawn(operations(task, log)))
        .collect();
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await.unwrap());
    }
    let a_second = OPERATIONS as f64 / began.elapsed().as_secs_f64();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    let ratio = beside.map_or_else(String::new, |alone| format!(", {:.2} of a file's", a_second / alone));
    println!("{name}: {a_second:.0} operations a second{ratio}; a write p50 {:.1} ms, p99 {:.1} ms", at(0.5), at(0.99));
    a_second
}

async fn operations(task: usize, log: Arc<dyn Log>) -> Vec<Duration> {
    let mut waits = Vec::new();
    for operation in 0..OPERATIONS / 64 {
        let id = format!("task-{task}-{operation}");
        let mut change = Change { takes: true, ..Change::of("operation", &id, Target::New) };
        for step in 0..STEPS {
            change.entries = vec![json!({"step": step, "phase": "done", "resource": {"id": id}})];
            let began = Instant::now();
            log.append(vec![change]).await.unwrap().unwrap();
            waits.push(began.elapsed());
            change = Change::of("operation", &id, Target::Existing).set([("updated_at", json!(step))]);
        }
    }
    waits
}
