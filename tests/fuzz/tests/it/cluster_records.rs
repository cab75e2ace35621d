//! Clusters as they are stored. An input is the documents of a cluster, a node, an operation and an event, between
//! lines of two dashes.

use std::path::Path;

use rusqlite::Connection;
use windlass_cluster::{ClusterName, ClusterStore as _, LogClusterStore};
use windlass_lifecycle::{Durability, Journal, StateDirectory};

use crate::support::{block_on, folder, is_short, parts};

const MAX_WORDS_LEN: usize = 4 * 1024;

/// A store, and another connection to its file, which writes what the store never would.
struct Fixture {
    store: LogClusterStore,
    beside: Connection,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = folder();
        let state = StateDirectory::open(folder.path()).unwrap();
        let store = LogClusterStore::of(&Journal::open(&state, Durability::Process).unwrap());
        let beside = Connection::open(Path::new(folder.path()).join("journal.sqlite")).unwrap();
        beside.pragma_update(None, "synchronous", "off").unwrap();
        Self { store, beside, _folder: folder }
    }

    fn write(&self, documents: [&str; 4]) {
        let [cluster, node, operation, event] = documents;
        self.beside.execute_batch("begin; delete from streams; delete from entries").unwrap();
        let operation_id = format!("farm/{:020}", 1);
        let stream = "insert into streams (family, id, fence, document) values (?1, ?2, 1, ?3)";
        let cluster = format!("{{\"open\": 1, \"last\": 1, \"cluster\": {cluster}}}");
        // What is no JSON, the tables themselves refuse.
        let _ = self.beside.execute(stream, ["cluster", "farm", &cluster]);
        let _ = self.beside.execute(stream, ["cluster-node", "farm/farm-workers-1", node]);
        let _ = self.beside.execute(stream, ["cluster-operation", &operation_id, operation]);
        let entry = "insert into entries (family, id, document) values ('cluster-operation', ?1, ?2)";
        let _ = self.beside.execute(entry, [&operation_id, &format!("{{\"at\": 1, \"what\": {event}}}")]);
        self.beside.execute_batch("commit").unwrap();
    }
}

#[test]
fn a_record_that_cannot_be_read_is_named_in_few_words() {
    thread_local!(static FIXTURE: Fixture = Fixture::new());
    windlass_test_fuzz::check("cluster-records", |input| {
        let texts: Vec<String> =
            parts(input).into_iter().map(|part| String::from_utf8_lossy(part).into_owned()).collect();
        let text = |index: usize| texts.get(index).map_or("{}", String::as_str);
        let name: ClusterName = "farm".parse().unwrap();
        FIXTURE.with(|fixture| {
            fixture.write([text(0), text(1), text(2), text(3)]);
            let words = [
                block_on(fixture.store.clusters()).map(|found| format!("{found:?}")),
                block_on(fixture.store.cluster(&name)).map(|found| format!("{found:?}")),
                block_on(fixture.store.operations(&name, 10)).map(|found| serde_json::to_string(&found).unwrap()),
                block_on(fixture.store.events(&name, None, 0, 10)).map(|found| serde_json::to_string(&found).unwrap()),
            ];
            for error in words.into_iter().filter_map(Result::err) {
                is_short(&error.to_string(), MAX_WORDS_LEN);
            }
        });
    });
}
