//! The targets of deciding, measured and held against each other in one run:
//! `cargo bench -p windlass-policy --bench summary`. Prints a table; exits with 1 when a target is missed and
//! `WINDLASS_BENCH_STRICT` is set.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_policy::slots::{Release, Retry, Rollback, Slot, SlotName, StateMapping};
use windlass_policy::{Link, Policies};

mod common;

/// The share of this many of a hundred, in nanoseconds.
fn percentile(times: &mut [u64], of_hundred: usize) -> u64 {
    times.sort_unstable();
    times[(times.len() - 1) * of_hundred / 100]
}

/// Runs it so often, after a tenth as often for nothing.
fn measure(rounds: usize, mut run: impl FnMut()) -> Vec<u64> {
    for _ in 0..rounds / 10 + 1 {
        run();
    }
    let mut time = || {
        let started = Instant::now();
        run();
        u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    (0..rounds).map(|_| time()).collect()
}

struct Table {
    missed: usize,
}

impl Table {
    fn line(&mut self, what: &str, value: f64, unit: &str, target: Option<f64>) {
        let target = match target {
            Some(target) => {
                let met = value <= target;
                self.missed += usize::from(!met);
                format!("target <= {target} {unit}: {}", if met { "met" } else { "MISSED" })
            }
            None => String::new(),
        };
        println!("{what:<58} {value:>10.2} {unit:<3} {target}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn main() {
    // `cargo test --benches` only wants to know whether it starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    if let Some(state) = std::env::var_os(CHILD) {
        be_a_host(std::path::Path::new(&state));
        return;
    }
    let mut table = Table { missed: 0 };
    let started = Instant::now();
    let set = common::Set::new();
    table.line("a start that compiles all defaults", us(nanos(started)) / 1e3, "ms", None);
    let mut starts = measure(10, || drop(black_box(common::open(set.state.path()))));
    table.line("a start with all defaults in the cache, p50", us(percentile(&mut starts, 50)) / 1e3, "ms", Some(20.0));

    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers always starts");
    let pin = set.host.pin();

    // Alternating, so that both see the same machine.
    let mut bare = set.bare();
    let (mut fresh, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        fresh.extend(measure(2_000, || drop(black_box(bare.decide_fresh()))));
        set.host.flush_decisions();
        // In one task, as hosts decide: entering the runtime is no part of a decision. The bare loop has its question,
        // too, before it is measured.
        recorded.extend(runtime.block_on(async {
            let mut times = Vec::with_capacity(2_200);
            for question in vec![Retry::example(); 2_200] {
                let started = Instant::now();
                drop(black_box(pin.decide::<Retry>(question).await));
                times.push(nanos(started));
            }
            times.split_off(200)
        }));
    }
    let (bare_p50, recorded_p50) = (percentile(&mut fresh, 50), percentile(&mut recorded, 50));
    table.line("bare wasmtime loop (store, instantiate, call, drop), p50", us(bare_p50), "us", None);
    table.line("retry, fresh isolated instance, recorded, p50", us(recorded_p50), "us", Some(6.0));
    table.line("  the same, p99", us(percentile(&mut recorded, 99)), "us", None);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    table.line("  ratio to the bare loop", recorded_p50 as f64 / bare_p50 as f64, "x", Some(1.2));
    let mut again = bare.reused();
    let mut reused = measure(20_000, || drop(black_box(again())));
    table.line("bare call of one instance, reused, p50 (not isolated)", us(percentile(&mut reused, 50)), "us", None);
    set.host.flush_decisions();
    let mut rollback = measure(5_000, || {
        let decision = runtime.block_on(pin.decide::<Rollback>(Rollback::example()));
        drop(black_box(decision));
    });
    table.line("rollback of five resources, recorded, p50", us(percentile(&mut rollback, 50)), "us", None);

    let started = Instant::now();
    let rules = set.host.pin_only(common::ten_rules(&set.host, SlotName::Retry));
    table.line("loading a file of rules that is not in the cache", us(nanos(started)) / 1e3, "ms", None);
    let mut by_rules = measure(5_000, || {
        let decision = runtime.block_on(rules.decide::<Retry>(Retry::example()));
        assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
        drop(black_box(decision));
    });
    table.line("retry by ten rules, recorded, p50", us(percentile(&mut by_rules, 50)), "us", Some(30.0));
    table.line("  the same, p99", us(percentile(&mut by_rules, 99)), "us", None);
    set.host.flush_decisions();
    let rules = set.host.pin_only(common::ten_rules(&set.host, SlotName::StateMapping));
    for servers in [1_000, 10_000] {
        let question = common::batch(servers);
        let mut times = Vec::new();
        for _ in 0..20 {
            let question = question.clone();
            let started = Instant::now();
            let decision = runtime.block_on(rules.decide::<StateMapping>(question));
            times.push(nanos(started));
            assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
            set.host.flush_decisions();
        }
        let what = format!("state-mapping of {servers} servers by ten rules, p50");
        table.line(&what, us(percentile(&mut times, 50)) / 1e3, "ms", None);
    }

    for (servers, target) in [(1_000, 0.4), (10_000, 4.0)] {
        let question = common::batch(servers);
        let mut times = Vec::new();
        for _ in 0..50 {
            let question = question.clone();
            let started = Instant::now();
            let decision = runtime.block_on(pin.decide::<StateMapping>(question));
            times.push(nanos(started));
            assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
            set.host.flush_decisions();
        }
        table.line(
            &format!("state-mapping of {servers} servers, recorded, p50"),
            us(percentile(&mut times, 50)) / 1e3,
            "ms",
            Some(target),
        );
    }

    // Without swaps first: what a busy machine delays by itself.
    for swapping in [false, true] {
        let (mut times, swaps) = under_load(&set, swapping);
        let late = times.iter().filter(|ns| **ns > 1_000_000).count();
        println!("{} decisions during {swaps} swaps: none lost, {late} slower than 1 ms", times.len());
        let what = format!("p99 of them {} swaps", if swapping { "with" } else { "without" });
        table.line(&what, us(percentile(&mut times, 99)) / 1e3, "ms", swapping.then_some(1.0));
        table.line("  the slowest", us(percentile(&mut times, 100)) / 1e3, "ms", None);
    }
    if let Some(kilobytes) = resident_kilobytes() {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        table.line("resident memory now (with the benchmark's own samples)", kilobytes as f64 / 1024.0, "MB", None);
    }
    // A process of its own, which has loaded from the cache and decided in every slot: what a host costs.
    if let Some(kilobytes) = resident_of_a_host(set.state.path()) {
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        table.line("resident memory of a host with all policies loaded", kilobytes as f64 / 1024.0, "MB", Some(40.0));
    }
    if table.missed > 0 && std::env::var_os("WINDLASS_BENCH_STRICT").is_some() {
        std::process::exit(1);
    }
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Decides in one thread and, if asked to, replaces the retry policy again and again in another. Returns how long each
/// decision took, and how many swaps there were.
fn under_load(set: &common::Set, swapping: bool) -> (Vec<u64>, u32) {
    let stop = Arc::new(AtomicBool::new(false));
    let (host, stopped) = (set.host.clone(), stop.clone());
    let decider = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers always starts");
        let mut times = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let started = Instant::now();
            let decision = runtime.block_on(host.pin().decide::<Retry>(Retry::example()));
            times.push(nanos(started));
            assert!(decision.fallbacks.is_empty(), "{:?}", decision.fallbacks);
            // A host decides some thousand times in a second, not as fast as it can.
            std::thread::sleep(Duration::from_micros(100));
        }
        times
    });
    let mut swaps = 0;
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        if !swapping {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        let attempts = 3 + swaps % 5;
        let link = Link::default().with_limit("time_ms", u64::from(400 + attempts));
        let swapped = set.host.configure(&Policies::built_in().with(SlotName::Retry, link));
        swapped.expect("the default with another limit is as good");
        swaps += 1;
    }
    stop.store(true, Ordering::Relaxed);
    (decider.join().expect("the deciding thread asserts only what must hold"), swaps)
}

/// Resident memory of this process, where the system tells.
fn resident_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB").parse().ok()
}

/// Set for the process that is a host and nothing else.
const CHILD: &str = "WINDLASS_BENCH_HOST";

/// Starts this program again as a host, and takes its word.
fn resident_of_a_host(state: &std::path::Path) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = std::process::Command::new(program).env(CHILD, state).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// Loads everything from the cache, decides in every slot, and prints how much memory that took.
fn be_a_host(state: &std::path::Path) {
    let host = common::open(state);
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers always starts");
    let pin = host.pin();
    for _ in 0..100 {
        runtime.block_on(pin.decide::<Retry>(Retry::example()));
        runtime.block_on(pin.decide::<Rollback>(Rollback::example()));
        runtime.block_on(pin.decide::<Release>(Release::example()));
        runtime.block_on(pin.decide::<StateMapping>(common::batch(100)));
    }
    host.flush_decisions();
    println!("{}", resident_kilobytes().unwrap_or_default());
}
