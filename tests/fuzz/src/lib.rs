//! Runs fuzz targets: functions that read untrusted bytes and assert what must hold whatever the bytes are. Must not
//! know what they read; each target is a test, beside the parser where that is private, in this package's own tests
//! where it is public.
//!
//! # Guide
//! - [`check`] is the body of such a test. As an ordinary test it tries the target's corpus (`corpora/<target>/`) and
//!   three hundred changed copies of it, the same ones each time.
//! - `just fuzz` searches for so many seconds: `run` builds the crates that read with counters of their branches
//!   (`rustc`), and what reaches a branch for the first time is changed further.
//! - Not bolero: its derive asks for exactly one version of indexmap, and wasmtime for a newer one. Not libFuzzer: its
//!   package needs a C++ compiler, and an option of `cc` for which SQLite and wasmtime would be built twice.
//! - `docs/testing.md` says what the targets are, and how a finding is kept.

mod coverage;
mod inputs;
mod mutation;
mod search;
mod watchdog;

use std::panic::{catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::inputs::{Named, read};

/// How long to search, in seconds. Absent: an ordinary test.
const SECONDS: &str = "WINDLASS_FUZZ_SECONDS";
/// Where a search keeps what it has learnt, and what breaks a law.
const FOLDER: &str = "WINDLASS_FUZZ_FOLDER";
/// Changed copies that an ordinary test tries.
const INPUTS: u32 = 300;

/// Tries a target, under the name of its corpus.
///
/// # Panics
/// When an input makes `run` panic: the input is named, or shown where it was made here.
pub fn check(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora").join(target);
    let corpus = read(&folder);
    assert!(!corpus.is_empty(), "the corpus {} is empty", folder.display());
    match std::env::var(SECONDS) {
        Err(_) => try_some(&corpus, run),
        Ok(seconds) => {
            let seconds = seconds.parse().unwrap_or_else(|_| panic!("{SECONDS} takes a number of seconds"));
            let folder = std::env::var_os(FOLDER).map_or_else(std::env::temp_dir, PathBuf::from).join(target);
            search::run(target, run, &corpus, &folder, Duration::from_secs(seconds));
        }
    }
}

/// The corpus, and the same changed copies of it each time.
fn try_some(corpus: &[Named], run: fn(&[u8])) {
    for (name, input) in corpus {
        if let Err(panic) = catch_unwind(|| run(input)) {
            eprintln!("the input {name} of the corpus breaks a law");
            resume_unwind(panic);
        }
    }
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let inputs: Vec<&[u8]> = corpus.iter().map(|(_, input)| input.as_slice()).collect();
    for number in 0..INPUTS {
        let input = mutation::of(mutation::one(&inputs, &mut random), &inputs, &mut random);
        if let Err(panic) = catch_unwind(|| run(&input)) {
            eprintln!("changed input {number} breaks a law; for the corpus: b\"{}\"", input.escape_ascii());
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests;
