//! The journal's whole file, damaged. An input is such a file.

use windlass_lifecycle::{Durability, Journal, OperationFilter, StateDirectory};

use crate::support::{folder, is_short};

/// A path, the words of SQLite or the name of a row.
const MAX_WORDS_LEN: usize = 4 * 1024;

fn read(journal: &Journal) {
    match journal.operations(&OperationFilter::default()) {
        Ok(operations) => {
            for operation in operations.iter().take(8) {
                let _ = serde_json::to_string(operation).unwrap();
                if let Err(error) = journal.entries(&operation.id) {
                    is_short(&error.to_string(), MAX_WORDS_LEN);
                }
            }
        }
        Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
    }
}

#[test]
fn a_damaged_journal_is_read_as_far_as_it_can_be_and_refused_in_few_words() {
    windlass_test_fuzz::check("journal-file", |input| {
        let folder = folder();
        std::fs::write(folder.path().join("journal.sqlite"), input).unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        match Journal::read_only(&state) {
            Ok(journal) => read(&journal),
            Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
        }
        match Journal::open(&state, Durability::Process) {
            Ok(journal) => read(&journal),
            Err(error) => is_short(&error.to_string(), MAX_WORDS_LEN),
        }
    });
}
