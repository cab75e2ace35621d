//! Runs worlds seed after seed, and tells each violation in the shortest story that shows it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use parking_lot::Mutex;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_test_world::{Ending, Story, run};

/// Runs of one story at most while it is cut down.
const SHRINKS: usize = 400;

#[derive(Parser)]
#[command(about = "Searches for a violation of the promise, one simulated world for each seed")]
struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed; absent: one that depends on the time, so that each search is a fresh one.
    #[arg(long)]
    from: Option<u64>,
    /// Stops after this many seconds, whatever `--seeds` says.
    #[arg(long)]
    seconds: Option<u64>,
    /// Goes on after a violation, up to this many.
    #[arg(long, default_value_t = 1)]
    violations: usize,
    /// Tells a violation as it was drawn, instead of looking for the shortest story that shows it.
    #[arg(long)]
    as_drawn: bool,
    /// Threads; absent: one for each core.
    #[arg(long)]
    threads: Option<usize>,
    /// Only seeds whose stories, as they are told, hold this word: `Copy`, `Protect`. Several: all of them.
    #[arg(long)]
    with: Vec<String>,
    /// Tells the story of each seed.
    #[arg(long)]
    tell: bool,
    /// Prints what the software logs, as levels of targets: `info`, `windlass_lifecycle=debug`.
    #[arg(long)]
    log: Option<Targets>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Some(filter) = arguments.log.take() {
        let lines = tracing_subscriber::fmt::layer().without_time().with_ansi(false);
        tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    }
    let from = arguments.from.unwrap_or_else(|| {
        // Below the digits that a person copies wrong.
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() * 1_000_000)
    });
    let began = Instant::now();
    let deadline = arguments.seconds.map(|seconds| began + Duration::from_secs(seconds));
    let threads = arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    println!("seeds from {from}, {threads} threads");
    let next = AtomicU64::new(0);
    let (calls, created) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let broken: Mutex<Vec<(Story, Ending)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && deadline.is_none_or(|deadline| Instant::now() < deadline) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= arguments.seeds {
                        next.fetch_sub(1, Ordering::Relaxed);
                        return;
                    }
                    let story = Story::of_seed(from + number);
                    let reported = if arguments.with.is_empty() { String::new() } else { story.to_string() };
                    if !arguments.with.iter().all(|word| reported.contains(word)) {
                        continue;
                    }
                    let ending = run(&story);
                    calls.fetch_add(ending.calls as u64, Ordering::Relaxed);
                    created.fetch_add(ending.created as u64, Ordering::Relaxed);
                    if arguments.tell {
                        println!("{story}  {} calls, {} servers given", ending.calls, ending.created);
                    }
                    if !ending.violations.is_empty() {
                        // At once: the shortest story takes its time.
                        println!("seed {} breaks a law: {}", story.seed, ending.violations.join("; "));
                        let mut broken = broken.lock();
                        broken.push((story, ending));
                        if broken.len() >= arguments.violations {
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let broken = broken.into_inner();
    for (story, ending) in &broken {
        println!("\nVIOLATION with seed {}: {}", story.seed, ending.violations.join("; "));
        if arguments.as_drawn {
            continue;
        }
        let shortest = story.shrink(SHRINKS, |story| !run(story).violations.is_empty());
        println!("The shortest story that shows one ({} of {} events):", shortest.events.len(), story.events.len());
        print!("{shortest}");
        for violation in run(&shortest).violations {
            println!("  => {violation}");
        }
    }
    let count = next.into_inner();
    println!(
        "{count} seeds from {from} in {:.0} s: {} calls, {} servers given, {} violations",
        began.elapsed().as_secs_f64(),
        calls.into_inner(),
        created.into_inner(),
        broken.len()
    );
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
