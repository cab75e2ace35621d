//! How long it takes to prove the laws of the slot `release` over all its questions, and to replay 100,000 recorded
//! decisions: two lines of figures. `just bench-proof`.

use std::error::Error;
use std::num::NonZeroUsize;
use std::time::Instant;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures::FutureExt;
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_policy::slots::{Release, Retry, Rollback, Slot, SlotName, retry};
use windlass_policy::{Host, HostOptions, Link, ReplayAgainst};
use windlass_proof::replay::replay;
use windlass_proof::{Law, Laws, ProofOptions, prove};

/// So many decisions are recorded and replayed.
const DECISIONS: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test` runs benchmarks, too, to see that they run.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let folder = tempfile::tempdir()?;
    let state = Dir::open_ambient_dir(folder.path(), ambient_authority())?;
    let mut options = HostOptions::new(state);
    options.decision_log.total_bytes = 2 << 30;
    let host = Host::new(options)?;
    proof(&host, is_bench)?;
    replays(&host, if is_bench { DECISIONS } else { 50 })
}

fn proof(host: &Host, whole: bool) -> Result<(), Box<dyn Error>> {
    let policy = host.load(SlotName::Release, &Link::default())?;
    let laws = Laws::parse(include_str!("../../../guest/release/laws.toml"))?;
    let options = if whole {
        ProofOptions { random: 0, ..ProofOptions::default() }
    } else {
        ProofOptions { enumerated: 500, random: 0, ..ProofOptions::default() }
    };
    for (name, laws) in [
        ("the laws of every policy", Law::of_every_policy()),
        ("and its own", Law::of_every_policy().into_iter().chain(laws.laws).collect()),
    ] {
        let began = Instant::now();
        let proof = prove(&policy, &laws, &options)?;
        println!(
            "release, {name} ({}): {} questions in {:.1?} on {} threads, {}",
            laws.len(),
            proof.enumerated,
            began.elapsed(),
            options.threads,
            if proof.holds() { "all hold" } else { "VIOLATED" }
        );
    }
    Ok(())
}

fn replays(host: &Host, decisions: u32) -> Result<(), Box<dyn Error>> {
    let pin = host.pin();
    for number in 0..decisions {
        match number % 10 {
            0 => drop(pin.decide::<Release>(Release::example()).now_or_never()),
            1 => drop(pin.decide::<Rollback>(Rollback::example()).now_or_never()),
            _ => {
                let class = if number % 3 == 0 { FailureClass::OutOfStock } else { FailureClass::ServerError };
                let failure = Failure { class, ..Failure::example() };
                let question =
                    retry::Question { random: number.into(), attempt: number % 9, failure, ..Retry::example() };
                drop(pin.decide::<Retry>(question).now_or_never());
            }
        }
        // The queue of the log is bounded, and none of these is to be lost.
        if number % 1_000 == 999 {
            host.flush_decisions();
        }
    }
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let began = Instant::now();
    let records = host.decisions()?.since(0)?.records;
    let read = began.elapsed();
    let same = replay(host, &records, &|_| Some(ReplayAgainst::TheSame), threads);
    println!(
        "replay: {} decisions in {:.1?} on {threads} threads, {read:.1?} of it to read the log; {} the same",
        same.replayed,
        began.elapsed(),
        same.same
    );
    if same.same != u64::from(decisions) {
        return Err(format!("{decisions} were made: {same:?}").into());
    }
    Ok(())
}
