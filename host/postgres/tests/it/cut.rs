//! A connection that is cut, or a server that is killed, at a moment of a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_lifecycle::log::SharedLog as _;

use crate::hosts::{note, numbers, pair, pairs};
use crate::proxy::{Fate, Proxy};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_off_is_told_as_what_it_became() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    for number in 1..10 {
        for (fate, number) in [(Fate::Lose, 10 * number), (Fate::LoseAnswer, 10 * number + 1)] {
            proxy.next_commit(fate);
            let appended = log.append(note("a", number)).await;
            let is_there = numbers(&*log).contains(&(number as u64));
            match fate {
                Fate::LoseAnswer => assert!(appended.is_ok() && is_there, "{number} was committed: {appended:?}"),
                _ => assert!(appended.is_err() && !is_there, "{number} was not committed: {appended:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_at_each_request_of_a_write_keeps_it_whole() {
    let Some(mut server) = Server::start() else { return };
    let proxy = Proxy::start(&server);
    let log = proxy.state().open().unwrap();
    log.append(pair(0)).await.unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    proxy.decide(move |request| {
        counted.fetch_add(usize::from(request.is_writer), Ordering::SeqCst);
        Fate::Pass
    });
    log.append(pair(1)).await.unwrap();
    let requests = count.load(Ordering::SeqCst);
    let mut there = vec![0, 1];
    for (at, fate) in (1..=requests).flat_map(|at| [(at, Fate::Hold), (at, Fate::HoldAnswer)]) {
        let next = there.last().unwrap() + 2;
        // Tells the proxy which connection writes now.
        log.append(pair(next)).await.unwrap();
        there.push(next);
        let mut seen = 0;
        proxy.decide(move |request| {
            seen += usize::from(request.is_writer);
            if request.is_writer && seen == at { fate } else { Fate::Pass }
        });
        let writer = Arc::clone(&log);
        let write = tokio::spawn(async move { writer.append(pair(next + 1)).await });
        proxy.until_held();
        server.kill();
        server.run();
        proxy.cut();
        let written = write.await.unwrap();
        let found = pairs(&*log);
        match &written {
            Ok(_) => there.push(next + 1),
            Err(error) if error.to_string().contains("not known") && found.contains(&(next + 1)) => {
                there.push(next + 1);
            }
            Err(_) => {}
        }
        assert_eq!(found, there, "{fate:?} at request {at}: {written:?}");
    }
    eprintln!("a write has {requests} requests, and the server was killed before and after each");
}
