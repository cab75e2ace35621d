//! Several hosts on one database, and databases that fail them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use windlass_lifecycle::log::{Change, Log, Query, SharedLog as _, Target};
use windlass_lifecycle::{Durability, Error, Journal, StateDirectory};
use windlass_postgres::{PostgresState, SettingsError};

use crate::server::Server;

const FAMILY: &str = "thing";

pub(crate) fn note(id: &str, number: usize) -> Vec<Change> {
    vec![Change { entries: vec![json!({"number": number})], ..Change::of(FAMILY, id, Target::Any) }]
}

/// A write of two entries, which are there together or not at all.
pub(crate) fn pair(number: usize) -> Vec<Change> {
    let entries = vec![json!({"number": 2 * number}), json!({"number": 2 * number + 1})];
    vec![Change { entries, ..Change::of(FAMILY, "pair", Target::Any) }]
}

/// Which pairs are there. None is half.
pub(crate) fn pairs(log: &dyn Log) -> Vec<usize> {
    let numbers = numbers(log);
    let is_whole = |pair: &[u64]| matches!(pair, [first, second] if first % 2 == 0 && *second == first + 1);
    assert!(numbers.chunks(2).all(is_whole), "{numbers:?}");
    numbers.iter().step_by(2).map(|first| *first as usize / 2).collect()
}

pub(crate) fn everything() -> Query {
    Query { families: &[FAMILY], ..Query::default() }
}

pub(crate) fn numbers(log: &dyn Log) -> Vec<u64> {
    let entries = log.entries(&everything()).unwrap();
    entries.iter().map(|entry| entry.document["number"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_taken_for_dead_writes_no_more_and_only_then() {
    let Some(server) = Server::start() else { return };
    let (mine, other) = (server.state("s").open().unwrap(), server.state_of("s", "there").open().unwrap());
    let (alive, lock) = (mine.register("1-mine").unwrap(), mine.lock("machines.lock").unwrap());
    assert!(lock.is_some() && other.lives("1-mine"));
    assert!(mine.lock("machines.lock").unwrap().is_none(), "nor does a second task of this process get it");
    server.execute("update s.holders set expires_at = now() - interval '1 minute'");
    assert!(other.lives("1-mine"), "nobody could renew before the server started");
    server.expire("s");
    // Late, but nobody minded.
    assert!(mine.append(note("a", 1)).await.unwrap().is_some());
    server.expire("s");
    let reader = server.state("s").read_only().unwrap();
    assert!(!reader.lives("1-mine"));
    assert!(mine.append(note("a", 2)).await.unwrap().is_some(), "who only reads judges nobody");
    server.expire("s");
    assert!(other.lock("machines.lock").unwrap().is_some());
    assert!(!other.lives("1-mine"), "who lost one name lost all");
    for refused in [mine.append(note("a", 3)).await, mine.append_at_once(&note("a", 4))] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("took this process for dead"), "{error}");
    }
    assert!(mine.lock("recovery.lock").is_err());
    assert_eq!(numbers(&*other), [1, 2]);
    drop((alive, lock, mine));
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_write_together_lose_nothing_and_see_one_order() {
    let Some(server) = Server::start() else { return };
    server.execute("alter database postgres set default_transaction_isolation = 'serializable'");
    const HOSTS: usize = 16;
    const WRITES: usize = 40;
    let hosts: Vec<Arc<dyn Log>> =
        (0..HOSTS).map(|host| server.state_of("s", &format!("host-{host}")).open().unwrap()).collect();
    let tasks: Vec<_> = hosts
        .iter()
        .enumerate()
        .flat_map(|(host, log)| {
            (0..WRITES).map(move |write| {
                let log = Arc::clone(log);
                tokio::spawn(async move { log.append(note(&format!("host-{host}"), host * WRITES + write)).await })
            })
        })
        .collect();
    for task in tasks {
        assert!(task.await.unwrap().unwrap().is_some());
    }
    let mut seen = numbers(&*hosts[0]);
    assert_eq!(seen, numbers(&*server.state("s").read_only().unwrap()));
    seen.sort_unstable();
    assert_eq!(seen, (0..(HOSTS * WRITES) as u64).collect::<Vec<_>>());
    let names: Vec<String> = server.state("s").hosts().unwrap().into_iter().map(|host| host.host).collect();
    assert_eq!(names.len(), HOSTS);
    drop(hosts);
    assert_eq!(server.state("s").hosts().unwrap(), [], "who ends leaves no row behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_a_server_that_is_killed_at_any_write() {
    let Some(mut server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        let writer = {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for write in round * 100_000.. {
                    match log.append(note("a", write)).await {
                        Ok(_) => acknowledged.push(write as u64),
                        Err(error) => return (acknowledged, write as u64, error.to_string()),
                    }
                }
                unreachable!()
            })
        };
        // At some write: how many were done by then is the scheduler's.
        while numbers(&*log).len() < acknowledged.len() + 20 + round * 7 {
            tokio::task::yield_now().await;
        }
        server.kill();
        let (written, uncertain, error) = writer.await.unwrap();
        acknowledged.extend(&written);
        server.run();
        let found = numbers(&*log);
        let lost: Vec<u64> = acknowledged.iter().copied().filter(|number| !found.contains(number)).collect();
        assert_eq!(lost, [0; 0], "after {error}");
        let invented: Vec<u64> = found.iter().copied().filter(|number| !acknowledged.contains(number)).collect();
        assert!(invented.iter().all(|number| *number == uncertain), "{invented:?} were refused: {error}");
        acknowledged.extend(invented);
        // The same log goes on.
        log.append(note("a", round * 100_000 + 99_999)).await.unwrap();
        acknowledged.push((round * 100_000 + 99_999) as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found_again() {
    let Some(server) = Server::start() else { return };
    let log = server.state("s").open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    // Ends the writer's connection once its transaction is committed, and before the client hears of it.
    for number in 1..20 {
        let append = log.append(note("a", number));
        let ended = async {
            server.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                 where application_name = 'windlass' and pid <> pg_backend_pid()",
            );
        };
        let (appended, ()) = tokio::join!(append, ended);
        let found = numbers(&*log).contains(&(number as u64));
        match appended {
            Ok(_) => assert!(found, "write {number} was acknowledged"),
            Err(Error::JournalWrite { problem }) if problem.contains("not known") => {}
            Err(error) => assert!(!found, "write {number} was refused, and is there: {error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_state_directories_share_owner_journal_and_history() {
    let Some(server) = Server::start() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let state = |place: usize, schema: &str| {
        let directory = StateDirectory::open(folders[place].path()).unwrap();
        directory.with_shared_log(Arc::new(server.state(schema)))
    };
    assert!(state(0, "s").is_fresh());
    assert_eq!(state(0, "s").stored_owner().unwrap(), None);
    let owner = state(0, "s").owner(None).unwrap();
    assert_eq!(state(1, "s").owner(None).unwrap(), owner);
    assert_eq!(state(1, "s").stored_owner().unwrap(), Some(owner));
    assert!(!state(1, "s").is_fresh());
    drop(Journal::open(&state(0, "s"), Durability::Full).unwrap());
    assert!(folders.iter().all(|folder| !folder.path().join("journal.sqlite").exists()));
}

#[test]
fn a_schema_of_a_newer_version_is_left_as_it_is() {
    let Some(server) = Server::start() else { return };
    drop(server.state("s").open().unwrap());
    server.execute("update s.version set number = 99");
    for error in [server.state("s").open().err().unwrap(), server.state("s").read_only().err().unwrap()] {
        assert!(matches!(error, Error::JournalNewer { found: 99, .. }), "{error}");
    }
    assert_eq!(server.execute("select number from s.version"), "99");
}

#[test]
fn a_role_without_rights_and_a_place_without_a_server_are_named() {
    let Some(server) = Server::start() else { return };
    server.execute("create role reader login");
    let url = server.url("s").replace("windlass@", "reader@");
    let reader = PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap();
    let error = reader.open().err().unwrap().to_string();
    assert!(error.contains("permission denied") && error.contains("reader@"), "{error}");
    drop(server.state("s").open().unwrap());
    server.execute("grant usage on schema s to reader; grant select on all tables in schema s to reader");
    assert_eq!(reader.read_only().unwrap().count(&everything()).unwrap(), 0, "who may only read can look");
    let nowhere = PostgresState::parse("postgres://a@/b?host=/nowhere", &BTreeMap::new(), "here").unwrap();
    let error = nowhere.read_only().err().unwrap().to_string();
    assert!(error.contains("postgres://a@/b?host=/nowhere"), "{error}");
    let error = PostgresState::parse("postgres://a@b/c?ssl=1", &BTreeMap::new(), "here").unwrap_err();
    assert!(matches!(error, SettingsError::UnknownParameter(_)));
}

#[test]
fn two_that_open_an_empty_database_together_make_one_set_of_tables() {
    let Some(server) = Server::start() else { return };
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| drop(server.state("s").open().unwrap()));
        }
    });
    assert_eq!(server.execute("select count(*) from s.version"), "1");
}
