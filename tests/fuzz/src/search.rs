//! The search: what reaches something new is kept and changed further.

use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::coverage::Coverage;
use crate::inputs::{Named, keep, name_of, read};
use crate::mutation;
use crate::watchdog::Watchdog;

/// The newest inputs, from which every other copy is made: they are at the border of what is known.
const NEWEST: usize = 32;
/// Attempts at making a finding shorter.
const SHORTENINGS: usize = 20_000;

/// Searches for so long, in a folder of its own: `learnt` has what a later search begins with, `findings` what breaks a
/// law.
///
/// # Panics
/// With the first finding.
pub(crate) fn run(target: &str, run: fn(&[u8]), corpus: &[Named], folder: &Path, time: Duration) {
    let learnt = folder.join("learnt");
    fs::create_dir_all(&learnt).unwrap_or_else(|error| panic!("{}: {error}", learnt.display()));
    let earlier = read(&learnt);
    // What all inputs share is made by the first, and may take its time.
    let _ = catch_unwind(|| run(&corpus[0].1));
    let watchdog = Watchdog::start(&folder.join("findings"));
    let mut search = Search {
        run,
        findings: folder.join("findings"),
        watchdog,
        coverage: Coverage::of_process(),
        corpus: Vec::new(),
        tried: 0,
    };
    let began = Instant::now();
    for (_, input) in corpus.iter().chain(&earlier) {
        search.try_one(input.clone());
    }
    let known = search.corpus.len();
    let given: Vec<&[u8]> = corpus.iter().map(|(_, input)| input.as_slice()).collect();
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| u64::from(since.subsec_nanos()));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while began.elapsed() < time {
        let newest = &search.corpus[search.corpus.len().saturating_sub(NEWEST)..];
        let input: &[u8] = match random.random_range(0..4) {
            // Without counters nothing is ever new.
            _ if newest.is_empty() => mutation::one(&given, &mut random),
            0 => mutation::one(&given, &mut random),
            1 => mutation::one(&search.corpus, &mut random),
            _ => mutation::one(newest, &mut random),
        };
        let input = mutation::of(input, &given, &mut random);
        if let Some(input) = search.try_one(input) {
            // Lost, it is found again.
            let _ = fs::write(learnt.join(name_of(input)), input);
        }
    }
    let seconds = began.elapsed().as_secs_f64().max(0.001);
    println!(
        "FUZZED {target}: {} inputs, {:.0} a second, {} branches, {} learnt",
        search.tried,
        search.tried as f64 / seconds,
        search.coverage.reached(),
        search.corpus.len() - known,
    );
}

struct Search {
    run: fn(&[u8]),
    findings: PathBuf,
    watchdog: Watchdog,
    coverage: Coverage,
    corpus: Vec<Vec<u8>>,
    tried: u64,
}

impl Search {
    /// Tries an input, and returns it when it reached something new.
    fn try_one(&mut self, input: Vec<u8>) -> Option<&[u8]> {
        self.tried += 1;
        self.watchdog.begins(&input);
        self.coverage.reset();
        let run = self.run;
        let ended = catch_unwind(|| run(&input));
        let is_new = self.coverage.take_new();
        self.watchdog.ended();
        if let Err(panic) = ended {
            let input = self.shortened(input);
            keep(&self.findings, &input);
            resume_unwind(panic);
        }
        if !is_new {
            return None;
        }
        self.corpus.push(input);
        self.corpus.last().map(Vec::as_slice)
    }

    /// The shortest part of an input that still breaks something.
    fn shortened(&self, mut input: Vec<u8>) -> Vec<u8> {
        let run = self.run;
        // Each attempt would be told.
        let reported = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let (mut piece, mut attempts) = (input.len().div_ceil(2), 0);
        while piece > 0 && attempts < SHORTENINGS {
            let before = input.len();
            let mut at = 0;
            while at < input.len() && attempts < SHORTENINGS {
                attempts += 1;
                let rest = [&input[..at], &input[(at + piece).min(input.len())..]].concat();
                if catch_unwind(|| run(&rest)).is_err() {
                    input = rest;
                } else {
                    at += piece;
                }
            }
            if input.len() == before || piece > 1 {
                piece /= 2;
            }
        }
        std::panic::set_hook(reported);
        input
    }
}
