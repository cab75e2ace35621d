//! Policies as files. An input is one: what is a component is loaded as well, for each slot that it exports.

use std::sync::LazyLock;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::{Compiler, Examination, Host, HostOptions, Link};

use crate::support::{folder, is_short};

/// A refusal is a sentence or two.
const MAX_WORDS_LEN: usize = 8 * 1024;

static HOST: LazyLock<(tempfile::TempDir, Host)> = LazyLock::new(|| {
    let folder = folder();
    let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let mut options = HostOptions::new(state);
    for limits in [&mut options.limits.small, &mut options.limits.script] {
        limits.configure_time_ms = 200;
    }
    options.compiler = Some(Compiler::this_process());
    let host = Host::new(options).unwrap();
    (folder, host)
});

#[test]
fn any_file_is_loaded_or_refused_in_few_words() {
    windlass_test_fuzz::check("component", |input| match Examination::of(input) {
        Err(refusal) => is_short(&refusal.to_string(), MAX_WORDS_LEN),
        Ok(examination) => {
            for slot in examination.slots() {
                if let Err(error) = HOST.1.load(slot, &Link::bytes(input)) {
                    is_short(&error.to_string(), MAX_WORDS_LEN);
                }
            }
        }
    });
}
