//! Policies that mean harm, put into force in a living `windlass policy serve` beside good ones.
//!
//! The laws: each of the good peer's questions is decided rightly, by its policy, with no fallback, within its time,
//! whatever the policies of other slots and its shadow do; `policy status` answers; each of its decisions is in the log;
//! the server's memory, that of its children and its log stay within bounds; it ends within five seconds of SIGTERM,
//! also while it compiles; and it starts again.

mod components;
#[path = "../../../host/policy/tests/it/guests.rs"]
#[allow(dead_code, reason = "the tests of the policy host use all of it")]
mod guests;
mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use windlass_policy::built_in_component;
use windlass_policy::slots::SlotName;

use crate::Options;
use crate::good::Good;
use crate::log::Follower;
use crate::messages::{decide, of_other_slots, receive};
use crate::server::Server;

/// The most memory that the server's process may have had, and all children that compile for it together.
pub const MEMORY_BYTES: u64 = 384 << 20;
/// A child may take a gigabyte above its engine, and one for the interpreter of a script six.
pub const CHILDREN_BYTES: u64 = 1536 << 20;
/// The most that its logs of decisions may take of the disk: 64 MiB, 16 MiB of shadows, and what is written at once.
pub const LOG_BYTES: u64 = (64 + 16 + 1) << 20;
/// The most lines that the server may write in a minute: two for each change of a policy, and a hundred for each policy.
pub const LINES: usize = 2_000;
/// How long the good peer waits for an answer.
const CLIENT_TIME: Duration = Duration::from_secs(2);
const ENDING_TIME: Duration = Duration::from_secs(5);
/// The same where no time counts.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a policy that means harm stays before the next one takes its place.
const STAY: std::ops::Range<u64> = 600..2_500;
/// How often the server is ended and started again.
const RESTART: Duration = Duration::from_secs(45);
/// How many policies that mean harm are put into force in each of its lives, at least.
const LEAST_HARMS: u64 = 4;
const LOOK: Duration = Duration::from_millis(100);

/// The slots that are harmed. The good peer asks `retry` and `state-mapping`, and `retry` has a shadow that means harm.
const SLOTS: [SlotName; 4] = [SlotName::Rollback, SlotName::Release, SlotName::Provisioning, SlotName::Placement];

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// The laws that were broken.
    pub broken: Vec<String>,
    /// How long the good peer's questions took, alone and beside the others.
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    decisions: usize,
    /// Answers to questions that were put to the policies that mean harm.
    harmed: u64,
    server_bytes: u64,
    children_bytes: u64,
    log_bytes: u64,
    /// From each SIGTERM on.
    endings: Vec<Duration>,
    lines: usize,
    /// How often each harm was done.
    pub harms: BTreeMap<&'static str, u64>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, times) in [("alone", &self.alone), ("beside", &self.beside)] {
            let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
            let (most, count) = (times.last().copied().unwrap_or_default(), times.len());
            writeln!(f, "the good peer {name}: {count} decisions, p50 {:?}, p99 {:?}, most {most:?}", at(50), at(99))?;
        }
        let mib = |bytes: u64| bytes >> 20;
        let (server, children, log) = (mib(self.server_bytes), mib(self.children_bytes), mib(self.log_bytes));
        writeln!(f, "at most: {server} MiB of memory, {children} MiB in its children, {log} MiB of decisions")?;
        let slowest = self.endings.iter().max().copied().unwrap_or_default();
        let (endings, lines, harmed) = (self.endings.len(), self.lines, self.harmed);
        writeln!(f, "SIGTERM to the end: {slowest:?} at most of {endings}; {lines} lines on stderr")?;
        writeln!(f, "{harmed} answers of slots that were harmed; harms: {:?}", self.harms)
    }
}

/// Puts policies that mean harm into force, one after the other.
///
/// # Errors
/// The server can't be started, or this machine refuses something to the test itself.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let client_time = if options.is_timed { CLIENT_TIME } else { PATIENCE };
    let mut server = Server::start(&options.program, "")?;
    let mut report = Report::default();
    let mut good = Good::new(&server, client_time);
    for _ in 0..300 {
        good.ask();
    }
    report.alone = good.take_times();
    server.end(PATIENCE)?;
    let mut place = Place::new(server.folder(), options.seed)?;
    let mut follower = Follower::new(server.decisions());
    let mut until = None;
    while until.is_none_or(|until| Instant::now() < until) {
        place.make_harmless()?;
        server.start_again()?;
        // On a busy machine a first start compiles longer than a short search takes.
        let until = *until.get_or_insert_with(|| Instant::now() + options.time);
        round(&server, &mut place, &mut good, &mut follower, until.min(Instant::now() + RESTART), &mut report)?;
        report.server_bytes = report.server_bytes.max(server.peak_bytes()?);
        report.endings.push(server.end(PATIENCE).context("after SIGTERM")?);
        follower.read();
    }
    report.beside = good.take_times();
    report.lines = server.lines()?;
    report.decisions = good.ids().len();
    report.harms = place.done.clone();
    report.broken.extend(good.broken().iter().cloned());
    report.judge(&good, &follower, options);
    Ok(report)
}

impl Report {
    fn judge(&mut self, good: &Good, follower: &Follower, options: &Options) {
        let lost = good.ids().iter().filter(|id| !follower.has(id)).count();
        let minutes = usize::try_from(options.time.as_secs().div_ceil(60)).unwrap_or(usize::MAX).max(1);
        let slowest = self.endings.iter().max().copied().unwrap_or_default();
        let laws = [
            (lost > 0, format!("{lost} of the good peer's {} decisions are not in the log", self.decisions)),
            (self.server_bytes > MEMORY_BYTES, format!("the server had {} MiB of memory", self.server_bytes >> 20)),
            (self.children_bytes > CHILDREN_BYTES, format!("its children had {} MiB", self.children_bytes >> 20)),
            (self.log_bytes > LOG_BYTES, format!("the log of decisions had {} MiB", self.log_bytes >> 20)),
            (self.lines > LINES * minutes, format!("the server wrote {} lines", self.lines)),
            (options.is_timed && slowest > ENDING_TIME, format!("the server ended {slowest:?} after SIGTERM")),
        ];
        self.broken.extend(laws.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, words)| words));
    }
}

/// One life of the server, in which so many harms are done at least.
fn round(
    server: &Server,
    place: &mut Place,
    good: &mut Good,
    follower: &mut Follower,
    until: Instant,
    report: &mut Report,
) -> anyhow::Result<()> {
    let stop = AtomicBool::new(false);
    let (harmed, harms) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = || stop.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let asking = of_other_slots().map(|question| {
            let (socket, harmed, is_over) = (server.socket(), &harmed, &is_over);
            scope.spawn(move || {
                let message = decide(&[], vec![question]);
                while !is_over() {
                    match answer(socket, &message) {
                        true => harmed.fetch_add(1, Ordering::Relaxed),
                        // It may be at its bounds.
                        false => {
                            std::thread::sleep(LOOK);
                            0
                        }
                    };
                }
            })
        });
        let looking = scope.spawn(|| {
            let (mut broken, mut children, mut log, mut turns) = (Vec::new(), 0, 0, 1_u32);
            while !is_over() {
                follower.read();
                children = children.max(bytes_of_children(server.id()));
                log = log.max(bytes_in(&server.decisions()) + bytes_in(&server.decisions().with_file_name("shadows")));
                // Not at once: what a host says of itself follows its start.
                if turns.is_multiple_of(20) {
                    broken.extend(server.status().err().map(|error| format!("policy status: {error:#}")));
                }
                turns += 1;
                std::thread::sleep(LOOK);
            }
            (broken, children, log)
        });
        let harming = scope.spawn(|| -> anyhow::Result<()> {
            while !is_over() {
                place.harm()?;
                harms.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(place.random.random_range(STAY)));
            }
            Ok(())
        });
        let has_done_little = || harms.load(Ordering::Relaxed) < LEAST_HARMS && !harming.is_finished();
        while Instant::now() < until || has_done_little() {
            good.ask();
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
        let (broken, children, log) = looking.join().expect("nobody panics who looks");
        report.broken.extend(broken);
        report.children_bytes = report.children_bytes.max(children);
        report.log_bytes = report.log_bytes.max(log);
        asking.into_iter().for_each(|asking| asking.join().expect("nobody panics who asks"));
        harming.join().expect("nobody panics who harms")
    })?;
    report.harmed += harmed.into_inner();
    Ok(())
}

/// Whether something was answered.
fn answer(socket: &Path, message: &[u8]) -> bool {
    let exchange = || -> std::io::Result<()> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(message)?;
        receive(&mut stream).map(drop)
    };
    exchange().is_ok()
}

/// Where the policies lie.
struct Place {
    folder: PathBuf,
    random: ChaCha8Rng,
    done: BTreeMap<&'static str, u64>,
}

impl Place {
    /// Each slot has a component and a file of rules, and `retry` a shadow.
    fn new(folder: &Path, seed: u64) -> anyhow::Result<Place> {
        let configuration = folder.join("config.toml");
        let mut text = std::fs::read_to_string(&configuration)?;
        for slot in SLOTS {
            text += &format!("[[policies.{slot}]]\npath = \"{slot}.wasm\"\n");
            text += &format!("[[policies.{slot}]]\npath = \"{slot}.rules.toml\"\n");
        }
        text += "[[policies.retry]]\npath = \"retry.wasm\"\nmode = \"shadow\"\n";
        std::fs::write(configuration, text)?;
        Ok(Place { folder: folder.into(), random: ChaCha8Rng::seed_from_u64(seed), done: BTreeMap::new() })
    }

    fn make_harmless(&self) -> anyhow::Result<()> {
        for slot in SLOTS.into_iter().chain([SlotName::Retry]) {
            let component = built_in_component(slot).context("a slot without a default")?;
            self.put(&format!("{slot}.wasm"), component)?;
            if slot != SlotName::Retry {
                self.put(&format!("{slot}.rules.toml"), rules::harmless(slot).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Puts one that means harm into force.
    fn harm(&mut self) -> anyhow::Result<()> {
        let slot = match self.random.random_range(0..SLOTS.len() + 1) {
            0 => SlotName::Retry,
            number => SLOTS[number - 1],
        };
        let (name, kind) = if slot == SlotName::Retry || self.random.random_bool(0.6) {
            let path = format!("{slot}.wasm");
            let (kind, bytes) = components::draw(slot, &mut self.random);
            self.put(&path, &bytes)?;
            (path, kind)
        } else {
            let path = format!("{slot}.rules.toml");
            let (kind, text) = rules::draw(slot, &mut self.random);
            self.put(&path, &text)?;
            (path, kind)
        };
        *self.done.entry(kind).or_default() += 1;
        // What is no file at all.
        if self.random.random_bool(0.05) {
            let path = self.folder.join(name);
            std::fs::remove_file(&path)?;
            let kind = match self.random.random_range(0..4) {
                0 => {
                    std::os::unix::fs::symlink("/dev/zero", &path)?;
                    "a device"
                }
                1 => {
                    std::os::unix::fs::symlink(&path, &path)?;
                    "a link to itself"
                }
                2 => {
                    let status = std::process::Command::new("mkfifo").arg(&path).status()?;
                    anyhow::ensure!(status.success(), "mkfifo: {status}");
                    "a pipe"
                }
                _ => "a file that is gone",
            };
            *self.done.entry(kind).or_default() += 1;
        }
        Ok(())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let (new, path) = (self.folder.join("new"), self.folder.join(name));
        std::fs::write(&new, bytes)?;
        Ok(std::fs::rename(new, path)?)
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The memory of all children now, in bytes.
fn bytes_of_children(process: u32) -> u64 {
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children: Vec<String> = tasks.filter_map(of_task).collect();
    let bytes = |child: &str| {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?.trim();
        Some(line.parse::<u64>().ok()? << 10)
    };
    children.iter().flat_map(|children| children.split_whitespace()).filter_map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_is_held() {
        let page = include_str!("../../../docs/testing.md");
        for bytes in [MEMORY_BYTES, CHILDREN_BYTES, LOG_BYTES] {
            assert!(page.contains(&format!("more than {} MiB", bytes >> 20)), "{bytes}");
        }
        assert!(page.contains(&format!("at most {LINES} a minute")));
    }
}
