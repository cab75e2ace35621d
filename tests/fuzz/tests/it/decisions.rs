//! The log of decisions. An input is a segment of it: a record on each line.

use std::sync::LazyLock;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_policy::{Compiler, DecisionFilter, DecisionReader, Host, HostOptions, ReplayAgainst};

use crate::support::{block_on, folder, is_read_again, is_short};

const MAX_WORDS_LEN: usize = 4 * 1024;
/// Records of one input that are replayed.
const REPLAYED: usize = 2;

/// A host with the built-in policies.
static HOST: LazyLock<(tempfile::TempDir, Host)> = LazyLock::new(|| {
    let folder = folder();
    let state = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let mut options = HostOptions::new(state);
    options.compiler = Some(Compiler::this_process());
    let host = Host::new(options).unwrap();
    (folder, host)
});

#[test]
fn whatever_the_log_holds_it_is_listed_and_a_record_that_can_be_read_can_be_replayed() {
    thread_local!(static LOG: tempfile::TempDir = {
        let folder = folder();
        std::fs::create_dir(folder.path().join("decisions")).unwrap();
        folder
    });
    windlass_test_fuzz::check("decisions", |input| {
        let state = LOG.with(|log| {
            std::fs::write(log.path().join("decisions/000000000001-00000001-00000001.retry.jsonl"), input).unwrap();
            Dir::open_ambient_dir(log.path(), ambient_authority()).unwrap()
        });
        let log = DecisionReader::open(&state).unwrap();
        let list = log.list(&DecisionFilter::default()).unwrap();
        let lines = String::from_utf8_lossy(input).lines().filter(|line| !line.is_empty()).count();
        assert_eq!(list.decisions.len() + list.unreadable, lines, "each line is listed or counted");
        let page = log.page(&DecisionFilter::default(), None).unwrap();
        assert!(page.decisions.len() <= list.decisions.len());
        log.activity(1 << 20).unwrap();
        for summary in list.decisions.iter().take(REPLAYED) {
            match log.show(&summary.id.to_string()) {
                Ok(record) => {
                    is_read_again(&record);
                    let host = &HOST.1;
                    match block_on(host.replay(&record, &ReplayAgainst::Pinned(host.pin()))) {
                        Ok(replay) => assert!(replay.differences.len() <= 20),
                        Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
                    }
                }
                Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
            }
        }
    });
}
