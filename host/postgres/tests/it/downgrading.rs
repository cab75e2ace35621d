//! A database whose tables go back to an older version.

use std::collections::BTreeMap;

use windlass_lifecycle::Error;
use windlass_lifecycle::log::SharedLog as _;
use windlass_postgres::PostgresState;

use crate::hosts::{note, numbers};
use crate::proxy::{Fate, Proxy};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn tables_go_back_only_while_no_host_works_with_them() {
    let Some(server) = Server::start() else { return };
    let state = server.state("s");
    assert!(matches!(state.plan_downgrade(0).unwrap_err(), Error::JournalAbsent { .. }));
    let log = state.open().unwrap();
    log.append(note("a", 1)).await.unwrap();
    let newest = state.plan_downgrade(0).unwrap().from;
    assert!(matches!(state.plan_downgrade(newest + 1).unwrap_err(), Error::Downgrade { .. }));
    state.downgrade(&state.plan_downgrade(newest).unwrap()).unwrap();
    assert_eq!(numbers(&*log), [1], "there was nothing to do");
    let planned = server.state_of("s", "there").plan_downgrade(0).unwrap();
    assert!(!planned.loses.is_empty(), "{planned:?}");
    let refused = state.downgrade(&planned).unwrap_err();
    assert!(
        matches!(&refused, Error::Downgrade { problem } if problem.contains("in use by here (process ")),
        "{refused}"
    );
    log.append(note("a", 2)).await.unwrap();
    drop(log);
    // A reader writes nothing, and finds no tables afterwards.
    let reader = state.read_only().unwrap();
    assert_eq!(numbers(&*reader), [1, 2]);
    state.downgrade(&planned).unwrap();
    assert!(matches!(server.state("s").read_only().unwrap_err(), Error::JournalAbsent { .. }));
    let log = server.state("s").open().unwrap();
    log.append(note("a", 3)).await.unwrap();
    assert_eq!(numbers(&*log), [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_that_the_server_refuses_takes_nothing_back() {
    let Some(server) = Server::start() else { return };
    let state = server.state("s");
    let log = state.open().unwrap();
    log.append(note("a", 1)).await.unwrap();
    drop(log);
    let planned = state.plan_downgrade(0).unwrap();
    // The function has been dropped when it comes to the tables.
    server.execute("create view s.mine as select * from s.entries");
    let refused = state.downgrade(&planned).unwrap_err().to_string();
    assert!(refused.contains("other objects depend on"), "{refused}");
    server.execute("create role operators login");
    server.execute("grant usage on schema s to operators");
    server.execute("grant select, insert, update, delete on all tables in schema s to operators");
    let url = server.url("s").replace("windlass@", "operators@");
    let operators = PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap();
    let refused = operators.downgrade(&planned).unwrap_err().to_string();
    assert!(refused.contains("must be owner of"), "{refused}");
    let log = state.open().unwrap();
    log.append(note("a", 2)).await.unwrap();
    assert_eq!(numbers(&*log), [1, 2]);
    assert!(!log.lives("1-nobody"), "which takes the function");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_whose_commit_is_cut_off_is_done_once() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    for fate in [Fate::Lose, Fate::LoseAnswer] {
        let log = server.state("s").open().unwrap();
        log.append(note("a", 1)).await.unwrap();
        drop(log);
        let planned = proxy.state().plan_downgrade(0).unwrap();
        proxy.next_commit(fate);
        proxy.state().downgrade(&planned).unwrap();
        let left = server.execute("select count(*) from pg_class where relnamespace = 's'::regnamespace");
        assert_eq!(left, "0", "{fate:?}");
    }
}
