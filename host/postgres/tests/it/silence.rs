//! A server that answers late or not at all, and a host that is cut off from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_lifecycle::log::SharedLog as _;

use crate::hosts::{everything, note, numbers};
use crate::proxy::{Fate, Proxy};
use crate::server::Server;

/// Instead of 20 seconds.
const SILENCE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_cut_off_and_overtaken_writes_nothing() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let (mine, other) = (proxy.state().open().unwrap(), server.state_of("s", "there").open().unwrap());
    let lease = mine.register("1-mine").unwrap();
    mine.append(note("a", 1)).await.unwrap();
    proxy.hold();
    let writer = Arc::clone(&mine);
    let late = tokio::spawn(async move { writer.append(note("a", 2)).await });
    proxy.until_held();
    server.expire("s");
    assert!(!other.lives("1-mine"));
    other.append(note("a", 3)).await.unwrap();
    proxy.release();
    for refused in [late.await.unwrap(), mine.append(note("a", 4)).await] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("took this process for dead"), "{error}");
    }
    assert_eq!(numbers(&*other), [1, 3]);
    drop(lease);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_cut_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().open().unwrap();
    for number in 0..20 {
        proxy.hold();
        let writer = Arc::clone(&log);
        let write = tokio::spawn(async move { writer.append(note("a", number)).await });
        proxy.until_held();
        proxy.release();
        assert!(write.await.unwrap().unwrap().is_some());
    }
    assert_eq!(numbers(&*log), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_reader_that_is_cut_off_gets_an_error_in_time() {
    let Some(server) = Server::start() else { return };
    drop(server.state("s").open().unwrap());
    let proxy = Proxy::start(&server);
    let reader = proxy.state().with_silence(SILENCE).read_only().unwrap();
    assert_eq!(reader.count(&everything()).unwrap(), 0);
    proxy.hold();
    let began = Instant::now();
    let error = reader.count(&everything()).unwrap_err().to_string();
    assert!(error.contains("did not answer within"), "{error}");
    assert!(began.elapsed() < 5 * SILENCE, "{:?}", began.elapsed());
    proxy.release();
    assert_eq!(reader.count(&everything()).unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_nobody_answers_is_told_as_not_known() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().with_silence(SILENCE).open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    proxy.next_commit(Fate::HoldAnswer);
    let error = log.append(note("a", 1)).await.unwrap_err().to_string();
    assert!(error.contains("did not answer within 3s; whether it was written is not known"), "{error}");
    proxy.release();
    log.append(note("a", 2)).await.unwrap();
    assert_eq!(numbers(&*log), [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_at_a_frozen_backend_is_found_once_it_goes_on() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().with_silence(SILENCE).open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    proxy.next_commit(Fate::Hold);
    let writer = Arc::clone(&log);
    let write = tokio::spawn(async move { writer.append(note("a", 1)).await });
    proxy.until_held();
    let backend = server.execute("select pid from pg_stat_activity where state = 'idle in transaction'");
    server.signal("-STOP", &backend);
    proxy.release();
    // The host gave up, and asks on another connection whether that became something.
    let asks = "wait_event_type = 'Lock' and query like 'select last from fences%'";
    server.until(&format!("select count(*) from pg_stat_activity where {asks}"), "1");
    server.signal("-CONT", &backend);
    assert!(write.await.unwrap().unwrap().is_some());
    assert_eq!(numbers(&*log), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_while_a_slow_server_has_a_queue() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().open().unwrap();
    proxy.decide(|_| {
        std::thread::sleep(Duration::from_millis(20));
        Fate::Pass
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let writers = (0..8_usize).map(|writer| {
        let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for number in writer * 100_000.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                log.append(note("a", number)).await.unwrap();
                acknowledged.push(number as u64);
            }
            acknowledged
        })
    });
    let writers: Vec<_> = writers.collect();
    server.expire("s");
    server.until("select count(*) from s.holders where expires_at > now()", "1");
    is_over.store(true, Ordering::Relaxed);
    proxy.decide(|_| Fate::Pass);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let mut found = numbers(&*log);
    acknowledged.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, acknowledged);
}
