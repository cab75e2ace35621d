//! Peers of `windlass policy serve` that mean harm, beside one that does not.
//!
//! The laws: each of the good peer's questions is decided rightly, by its policy, with no fallback, within a client's
//! time-out; `policy status` answers; each of its decisions is in the log; the server's memory stays within
//! [`MEMORY_BYTES`], what it says on stderr within [`LINES`]; it ends within five seconds of SIGTERM, whatever is open.
//!
//! Each peer is a process of its own, as the server gives each process of a user its part.

mod harm;
mod process;

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;

use crate::Options;
use crate::good::Good;
use crate::log::Follower;
use crate::peers::process::Peer;
pub use crate::peers::process::{Orders, attack};
use crate::server::Server;

/// The most memory that the server's process may have had. `docs/policy-server.md` says so.
pub const MEMORY_BYTES: u64 = 256 << 20;
/// The most lines that the server may have written in a minute: a hundred for each of what warns, and some of its own.
pub const LINES: usize = 500;
/// How long the good peer waits for an answer, and for what follows from a signal.
const CLIENT_TIME: Duration = Duration::from_secs(2);
const ENDING_TIME: Duration = Duration::from_secs(5);
/// The same where no time counts.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often `policy status` is asked, and how often the log is read.
const STATUS_PAUSE: Duration = Duration::from_secs(1);
const LOG_PAUSE: Duration = Duration::from_millis(5);
/// Peers that mean harm.
const PEERS: u64 = 6;

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// The laws that were broken.
    pub broken: Vec<String>,
    /// How long the good peer's questions took, alone and beside the others.
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    /// The most memory, in bytes: after the good peer alone, after eight of the largest requests at once, in the end.
    memory: [u64; 3],
    /// From SIGTERM on.
    ending: Duration,
    lines: usize,
    /// Of the records of all decisions, those that were never written.
    lost_records: u64,
    /// How often each harm was done.
    pub harms: BTreeMap<String, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, times) in [("alone", &self.alone), ("beside", &self.beside)] {
            let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
            let (most, count) = (times.last().copied().unwrap_or_default(), times.len());
            writeln!(f, "the good peer {name}: {count} decisions, p50 {:?}, p99 {:?}, most {most:?}", at(50), at(99))?;
        }
        let [alone, eight, end] = self.memory.map(|bytes| bytes >> 20);
        writeln!(f, "memory at most: {alone} MiB alone, {eight} MiB after eight large requests, {end} MiB in the end")?;
        writeln!(
            f,
            "SIGTERM to the end: {:?}; {} lines on stderr; {} records lost",
            self.ending, self.lines, self.lost_records
        )?;
        writeln!(f, "harms: {:?}", self.harms)
    }
}

/// Sets peers upon a server. `peer` is a command that calls [`attack`] with the orders that are in its environment.
///
/// # Errors
/// The server or a peer can't be started, or this machine refuses something to the test itself.
pub fn run(options: &Options, peer: impl Fn() -> Command) -> anyhow::Result<Report> {
    let client_time = if options.is_timed { CLIENT_TIME } else { PATIENCE };
    let mut server = Server::start(&options.program, "")?;
    let mut report = Report::default();
    let mut good = Good::new(&server, client_time);
    let mut follower = Follower::new(server.decisions());

    for _ in 0..300 {
        good.ask();
    }
    report.alone = good.take_times();
    report.memory[0] = server.peak_bytes()?;
    harm::eight_large_requests(server.socket());
    report.memory[1] = server.peak_bytes()?;

    let orders = |number| Orders { socket: server.socket().into(), seed: options.seed, number };
    let mut peers =
        (0..PEERS).map(|number| Peer::start(peer(), &orders(number))).collect::<anyhow::Result<Vec<Peer>>>()?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                follower.read();
                std::thread::sleep(LOG_PAUSE);
            }
        });
        let looking = scope.spawn(|| {
            let mut broken = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                broken.extend(server.status().err().map(|error| format!("policy status: {error:#}")));
                std::thread::sleep(STATUS_PAUSE);
            }
            broken
        });
        let until = std::time::Instant::now() + options.time;
        while std::time::Instant::now() < until {
            good.ask();
            // As often as a program asks that waits for machines.
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        report.broken.extend(looking.join().expect("nobody panics who looks"));
        following.join().expect("nobody panics who follows");
    });
    for peer in &mut peers {
        for (harm, times) in peer.stop()? {
            *report.harms.entry(harm).or_default() += times;
        }
    }
    report.memory[2] = server.peak_bytes()?;
    report.lost_records = good.lost_records();
    report.ending = server.end(PATIENCE).context("after SIGTERM")?;
    // The peers stay connected until the server has ended.
    drop(peers);
    follower.read();

    report.beside = good.take_times();
    report.lines = server.lines()?;
    report.broken.extend(good.broken().iter().cloned());
    let lost = good.ids().iter().filter(|id| !follower.has(id)).count();
    let minutes = options.time.as_secs().div_ceil(60) as usize;
    let laws = [
        (lost > 0, format!("{lost} of the good peer's {} decisions are not in the log", good.ids().len())),
        (report.memory[2] > MEMORY_BYTES, format!("the server had {} MiB of memory", report.memory[2] >> 20)),
        (report.lines > LINES * minutes.max(1), format!("the server wrote {} lines", report.lines)),
        (
            options.is_timed && report.ending > ENDING_TIME,
            format!("the server ended {:?} after SIGTERM", report.ending),
        ),
    ];
    report.broken.extend(laws.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, words)| words));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_say_what_is_held() {
        let bytes = format!("{} MiB of memory", MEMORY_BYTES >> 20);
        assert!(include_str!("../../../docs/policy-server.md").contains(&bytes));
        let testing = include_str!("../../../docs/testing.md");
        assert!(testing.contains(&format!("more than {} MiB", MEMORY_BYTES >> 20)));
        assert!(testing.contains(&format!("at most {LINES} a minute")));
        assert!(testing.contains(&format!("before a client gives up ({} s)", CLIENT_TIME.as_secs())));
        assert!(ENDING_TIME == Duration::from_secs(5) && testing.contains("within five seconds of SIGTERM"));
        let client = include_str!("../../../clients/go/windlass.go");
        assert!(client.contains(&format!("const DefaultTimeout = {} * time.Second", CLIENT_TIME.as_secs())));
    }
}
