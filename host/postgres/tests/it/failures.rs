//! A log whose database loses its server, its disk or its connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use windlass_lifecycle::log::{Change, Query, SharedLog as _, Target};
use windlass_postgres::PostgresState;

use crate::hosts::{note, numbers};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lacks_the_last_commits_is_the_same_place_and_is_written_on() {
    let Some(mut server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    let standby = server.follow(false);
    for number in 0..10 {
        log.append(note("a", number)).await.unwrap();
    }
    server.caught_up(&standby);
    server.cut_off(&standby);
    for number in 10..15 {
        log.append(note("a", number)).await.unwrap();
    }
    let place = server.state("s").place().unwrap();
    server.fail_over(standby);
    assert_eq!(numbers(&*log), (0..10).collect::<Vec<_>>(), "what the standby had, whole");
    assert_eq!(
        server.state("s").place().unwrap(),
        place,
        "so whoever has servers of 10 to 15 asks the journal of this"
    );
    log.append(note("a", 15)).await.unwrap();
    assert_eq!(numbers(&*log).last(), Some(&15));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_synchronous_standby_has_all_that_was_acknowledged_at_any_write() {
    let Some(mut server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    let standby = server.follow(true);
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                match log.append(note("a", number)).await {
                    Ok(_) => acknowledged.push(number as u64),
                    Err(_) => break,
                }
            }
            acknowledged
        })
    };
    while numbers(&*log).len() < 30 {
        tokio::task::yield_now().await;
    }
    server.fail_over(standby);
    is_over.store(true, Ordering::Relaxed);
    let (acknowledged, found) = (writer.await.unwrap(), numbers(&*log));
    assert!(acknowledged.len() >= 29, "{acknowledged:?}");
    assert_eq!(found[..acknowledged.len()], acknowledged);
    assert!(found.len() - acknowledged.len() <= 1, "at most the one without an answer: {found:?}");
}

/// A text that the server cannot compress to nothing.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed | 1;
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + ((state >> 57) as u8 % 90))
    };
    std::iter::repeat_with(next).filter(|it| !matches!(it, '"' | '\\')).take(bytes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_a_write_whole_and_ends_when_there_is_room() {
    let Some(server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    // Above the files of the write-ahead log, which have their size from the start.
    server.limit_files(Some(17 << 20));
    let family = "large";
    let large = |number: u64| {
        let entries = vec![json!({ "number": number, "noise": noise(number, 2 << 20) })];
        vec![Change { entries, ..Change::of(family, "b", Target::Any) }]
    };
    let mut acknowledged = 0;
    let error = loop {
        assert!(acknowledged < 50, "the limit is not reached");
        match log.append(large(acknowledged)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("could not extend file"), "{error}");
    let written = || {
        let query = Query { families: &["large"], ..Query::default() };
        log.entries(&query).unwrap().iter().filter_map(|entry| entry.document["number"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(written(), (0..acknowledged).collect::<Vec<_>>());
    server.limit_files(None);
    log.append(large(acknowledged)).await.unwrap();
    assert_eq!(written(), (0..=acknowledged).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection_is_named_and_used_again_later() {
    let Some(server) = Server::start() else { return };
    server.execute("create role ops login");
    server.execute("grant create on database postgres to ops");
    let url = server.url("o").replace("windlass@", "ops@");
    let state = PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap();
    let log = state.open().unwrap();
    // Its lease has the only connection.
    server.execute("alter role ops connection limit 1");
    let refused = log.append(note("a", 1)).await.unwrap_err().to_string();
    assert!(refused.contains("too many connections"), "{refused}");
    assert!(state.open().unwrap_err().to_string().contains("too many connections"));
    server.execute("alter role ops connection limit -1");
    log.append(note("a", 2)).await.unwrap();
    assert_eq!(numbers(&*log), [2]);
}
