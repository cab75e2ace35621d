//! The laws of every log, kept by the one in PostgreSQL.

use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_lifecycle::log::SharedLog as _;
use windlass_test_stores::log as laws;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn the_log_in_postgresql_keeps_what_every_log_must() {
    let Some(server) = Server::start() else { return };
    let count = AtomicUsize::new(0);
    let new = || {
        let state = server.state(&format!("law_{}", count.fetch_add(1, Ordering::Relaxed)));
        [state.open().unwrap(), state.open().unwrap()]
    };
    laws::all(new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_part_of_a_schema_keeps_what_every_log_must() {
    let Some(server) = Server::start() else { return };
    let count = AtomicUsize::new(0);
    let new = || {
        let name = format!("law-{}", count.fetch_add(1, Ordering::Relaxed));
        let log = || server.state("s").part(&name).open().unwrap();
        [log(), log()]
    };
    laws::all(new).await;
}
