//! What several targets use.

use std::fmt::Debug;
use std::future::Future;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Own, made-up key. It stands in the corpora as well.
pub(crate) const KEY: &str = "5ec7e700-0000-4000-8000-5ec7e75ec7e7";

/// Runs what waits for nothing but simulated time.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// A folder for each thread that asks, in memory where the system has such a place.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// What is written is read again, equal.
pub(crate) fn is_read_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    is_read_from(&serde_json::to_string(value).unwrap(), value);
}

/// The same of a form of it that was written already.
pub(crate) fn is_read_from<T: DeserializeOwned + PartialEq + Debug>(written: &str, value: &T) {
    let read: T = serde_json::from_str(written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(&read, value, "{written}");
}

/// Words for people stay short, whatever they quote.
pub(crate) fn is_short(words: &str, longest: usize) {
    assert!(words.len() <= longest, "{} bytes, more than {longest}: {}", words.len(), words.escape_debug());
}

/// The parts of an input, between lines of two dashes.
pub(crate) fn parts(input: &[u8]) -> Vec<&[u8]> {
    const LINE: &[u8] = b"\n--\n";
    let mut parts = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(LINE.len()).position(|window| window == LINE) {
        parts.push(&rest[..at]);
        rest = &rest[at + LINE.len()..];
    }
    parts.push(rest);
    parts
}
