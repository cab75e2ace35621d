//! The laws of every log, kept by the one in a file.

use std::sync::Arc;

use windlass_lifecycle::StateDirectory;
use windlass_lifecycle::log::{Durability, Log, SqliteLog};
use windlass_test_stores::log as laws;

#[tokio::test]
async fn the_log_in_a_file_keeps_what_every_log_must() {
    let folders = std::cell::RefCell::new(Vec::new());
    let new = || {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let open = |durability| Arc::new(SqliteLog::open(&state, durability).unwrap()) as Arc<dyn Log>;
        folders.borrow_mut().push(folder);
        [open(Durability::Process), open(Durability::Full)]
    };
    laws::all(new).await;
}
