//! The world of a runner whose loop is GitLab's own, as a process: `tests/fleeting-go` speaks to it by lines of JSON,
//! one answer to each request. A line `{"day": SEED}` begins a day and is answered with its events; a request that
//! `ends` closes it.

use std::io::{BufRead, Write};

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_test_world::{Ask, Day, DayWorld, Request, keep_compiled_policies};

/// Simulates days of a runner's plugin. Reads requests from the standard input.
#[derive(Parser)]
struct Arguments {
    /// Prints the day of this seed in words, and ends.
    #[arg(long)]
    tell: Option<u64>,
    /// Keeps compiled policies in this folder, from one process to the next.
    #[arg(long)]
    cache: Option<std::path::PathBuf>,
    /// Prints what the software logs, as levels of targets: `info`, `windlass_lifecycle=debug`.
    #[arg(long)]
    log: Option<Targets>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(filter) = arguments.log {
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).without_time().with_ansi(false);
        tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    }
    if let Some(folder) = &arguments.cache {
        keep_compiled_policies(folder)?;
    }
    let (mut lines, mut out) = (std::io::stdin().lock().lines(), std::io::stdout().lock());
    if let Some(seed) = arguments.tell {
        let day = Day::of_seed(seed);
        writeln!(out, "seed {seed}: {:?}", day.setting)?;
        day.events.iter().try_for_each(|event| writeln!(out, "{event}"))?;
        return Ok(());
    }
    while let Some(line) = lines.next() {
        let line: Value = serde_json::from_str(&line?).context("a request is no JSON")?;
        let seed = line["day"].as_u64().context("a day begins with its seed")?;
        // Each day has a clock of its own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        runtime.block_on(async {
            let day = Day::of_seed(seed);
            let reported = day.to_value();
            let mut world = DayWorld::new(day).await;
            writeln!(out, "{reported}")?;
            out.flush()?;
            for line in lines.by_ref() {
                let request: Request = serde_json::from_str(&line?).context("a request is not understood")?;
                let over = matches!(request.ask, Ask::Over);
                let answer = world.answer(request).await;
                writeln!(out, "{}", json!(answer))?;
                out.flush()?;
                if over {
                    break;
                }
            }
            anyhow::Ok(())
        })?;
    }
    Ok(())
}
