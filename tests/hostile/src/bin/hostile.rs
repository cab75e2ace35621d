//! Runs a generator of harm against a living host for a while, and tells which laws were broken.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use windlass_test_hostile::peers;

#[derive(Parser)]
#[command(about = "Searches for harm that somebody can do to a host of policies")]
struct Arguments {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Peers of `windlass policy serve`.
    Peers {
        /// The program `windlass`. Absent: the one beside this program.
        #[arg(long)]
        program: Option<PathBuf>,
        /// How long.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// What is drawn. Absent: by the time, so that each search is a fresh one.
        #[arg(long)]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    let Kind::Peers { program, seconds, seed } = Arguments::parse().kind;
    let beside = || std::env::current_exe().unwrap_or_default().with_file_name("windlass");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let options = peers::Options {
        program: program.unwrap_or_else(beside),
        seed: seed.unwrap_or_else(now),
        time: Duration::from_secs(seconds),
        is_timed: true,
    };
    println!("seed {}, for {seconds} s", options.seed);
    match peers::run(&options) {
        Ok(report) => {
            print!("{report}");
            for broken in &report.broken {
                println!("BROKEN: {broken}");
            }
            if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("{error:#}");
            ExitCode::from(2)
        }
    }
}
