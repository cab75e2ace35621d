//! What scripts cost, and what they don't cost others: `just bench-scripts`. `WINDLASS_BENCH_SCRIPTS` names components
//! for the slot `retry`, each as `WORD=FILE`, with spaces between them.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use windlass_policy::slots::{Retry, Slot, SlotName};
use windlass_policy::{Class, Host, Link, LoadedPolicy};

mod common;

const DECISIONS: usize = 2_000;

fn main() {
    let named = std::env::var("WINDLASS_BENCH_SCRIPTS").unwrap_or_default();
    // `cargo test --benches` only wants to know whether it starts.
    if named.is_empty() || std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let set = common::Set::new();
    let alone = decided(&set.host.pin(), 20_000);
    line("retry by the default in Rust, no script loaded", &alone);
    for named in named.split_whitespace() {
        let (word, file) = named.split_once('=').expect("WORD=FILE");
        let component: Arc<[u8]> = std::fs::read(file).expect("the component's file is there").into();
        assert_eq!(Class::of(&component), Class::Script, "{file}");
        let load = |host: &Host| host.load(SlotName::Retry, &Link::bytes(component.clone())).expect("it is a policy");
        let started = Instant::now();
        drop(load(&set.host));
        println!("{word}: loaded, and compiled, in {:.1} s", started.elapsed().as_secs_f64());
        let mut loads: Vec<u64> = (0..20).map(|_| timed(|| drop(black_box(load(&set.host))))).collect();
        println!("{word}: loaded from the cache, p50 {:.1} ms", ms(percentile(&mut loads, 50)));
        let policy = load(&set.host);
        line(&format!("{word}: fresh, isolated, recorded"), &decided(&set.host.pin_only(policy.clone()), DECISIONS));
        let beside = beside(&set.host, policy);
        line(&format!("retry by the default in Rust, {word} deciding in another thread"), &beside);
    }
    line("retry by the default in Rust, at the end", &decided(&set.host.pin(), 20_000));
}

fn decided(pin: &windlass_policy::PinnedPolicies, decisions: usize) -> Vec<u64> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers always starts");
    let decide = || timed(|| drop(black_box(runtime.block_on(pin.decide::<Retry>(Retry::example())))));
    for _ in 0..decisions / 10 {
        decide();
    }
    (0..decisions).map(|_| decide()).collect()
}

/// How long the default takes while the script decides as fast as it can.
fn beside(host: &Host, script: Arc<LoadedPolicy>) -> Vec<u64> {
    let stop = Arc::new(AtomicBool::new(false));
    let (other, stopped) = (host.pin_only(script), stop.clone());
    let thread = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            decided(&other, 100);
        }
    });
    let times = decided(&host.pin(), 20_000);
    stop.store(true, Ordering::Relaxed);
    thread.join().expect("the other thread only decides");
    times
}

fn timed(run: impl FnOnce()) -> u64 {
    let started = Instant::now();
    run();
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn percentile(times: &mut [u64], of_hundred: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * of_hundred / 100]
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn line(what: &str, times: &[u64]) {
    let mut times = times.to_vec();
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    println!("{what}: p50 {:.4} ms, p99 {:.4} ms", ms(p50), ms(p99));
}
