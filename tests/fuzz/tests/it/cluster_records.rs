//! Clusters as they are stored. An input is the documents of a cluster, a node, an operation and an event, between
//! lines of two dashes.

use std::path::Path;

use rusqlite::Connection;
use windlass_cluster::{ClusterName, ClusterStore as _, SqliteClusterStore};
use windlass_lifecycle::{Durability, Journal, StateDirectory};

use crate::support::{block_on, folder, is_short, parts};

const MAX_WORDS_LEN: usize = 4 * 1024;

/// A store, and another connection to its file, which writes what the store never would.
struct Fixture {
    store: SqliteClusterStore,
    beside: Connection,
    _folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = folder();
        let state = StateDirectory::open(folder.path()).unwrap();
        let store = SqliteClusterStore::open(&state, &Journal::open(&state, Durability::Process).unwrap()).unwrap();
        let beside = Connection::open(Path::new(folder.path()).join("journal.sqlite")).unwrap();
        beside.pragma_update(None, "synchronous", "off").unwrap();
        Self { store, beside, _folder: folder }
    }

    fn write(&self, documents: [&str; 4]) {
        let [cluster, node, operation, event] = documents;
        self.beside
            .execute_batch("begin; delete from clusters; delete from cluster_nodes; delete from cluster_operations; delete from cluster_events")
            .unwrap();
        for (sql, document) in [
            ("insert into clusters (name, fence, open, document) values ('farm', 1, 1, ?1)", cluster),
            ("insert into cluster_nodes values ('farm', 'farm-workers-1', 'workers', 1, ?1)", node),
            ("insert into cluster_operations values ('farm', 1, ?1)", operation),
            ("insert into cluster_events (cluster, operation, at, what) values ('farm', 1, 1, ?1)", event),
        ] {
            self.beside.execute(sql, [document]).unwrap();
        }
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
