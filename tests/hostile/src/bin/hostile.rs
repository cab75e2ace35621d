//! Runs a generator of harm against a living host for a while, and tells which laws were broken.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand};
use windlass_test_hostile::{Options, peers, policies};

#[derive(Parser)]
#[command(about = "Searches for harm that somebody can do to a host of policies")]
struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Peers of `windlass policy serve`.
    Peers(Search),
    /// Policies that are put into force in `windlass policy serve`.
    Policies(Search),
}

#[derive(Args)]
struct Search {
    /// The program `windlass`. Absent: the one beside this program.
    #[arg(long)]
    program: Option<PathBuf>,
    /// How long.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// What is drawn. Absent: by the time, so that each search is a fresh one.
    #[arg(long)]
    seed: Option<u64>,
}

impl Search {
    fn options(self) -> Options {
        let beside = || std::env::current_exe().unwrap_or_default().with_file_name("windlass");
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let options = Options {
            program: self.program.unwrap_or_else(beside),
            seed: self.seed.unwrap_or_else(now),
            time: Duration::from_secs(self.seconds),
            is_timed: true,
        };
        println!("seed {}, for {} s", options.seed, self.seconds);
        options
    }
}

fn main() -> ExitCode {
    match peers::Orders::of_this_process() {
        Ok(None) => search(),
        Ok(Some(orders)) => peers::attack(&orders).map_or_else(failed, |()| ExitCode::SUCCESS),
        Err(error) => failed(error),
    }
}

fn search() -> ExitCode {
    let this = || Command::new(std::env::current_exe().unwrap_or_default());
    let searched = match Arguments::parse().kind {
        Kind::Peers(search) => peers::run(&search.options(), this).map(|report| (report.to_string(), report.broken)),
        Kind::Policies(search) => policies::run(&search.options()).map(|report| (report.to_string(), report.broken)),
    };
    match searched {
        Ok((report, broken)) => {
            print!("{report}");
            broken.iter().for_each(|broken| println!("BROKEN: {broken}"));
            if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(error),
    }
}

fn failed(error: anyhow::Error) -> ExitCode {
    eprintln!("{error:#}");
    ExitCode::from(2)
}
