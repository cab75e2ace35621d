//! A connection that is cut at a commit: before the server has it, or before the client has the answer.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use windlass_lifecycle::log::SharedLog as _;
use windlass_postgres::PostgresState;

use crate::hosts::{note, numbers};
use crate::server::Server;

const PASS: u8 = 0;
/// The next commit does not reach the server.
const BEFORE: u8 = 1;
/// The next commit reaches it, and its answer does not come back.
const AFTER: u8 = 2;
/// The name of a server's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// Stands between clients and a server.
struct Proxy {
    folder: tempfile::TempDir,
    cut: Arc<AtomicU8>,
}

impl Proxy {
    fn start(server: PathBuf) -> Self {
        let folder = tempfile::Builder::new().prefix("windlass-cut").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let cut = Arc::new(AtomicU8::new(PASS));
        let of_connections = Arc::clone(&cut);
        // It ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = UnixStream::connect(server.join(SOCKET)) else { continue };
                let cut = Arc::clone(&of_connections);
                let (answers, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || copy(answers, &to_client, |_| true));
                std::thread::spawn(move || forward(client, &server, &cut));
            }
        });
        Self { folder, cut }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// What a client says, until a commit that is to be cut.
fn forward(client: UnixStream, server: &UnixStream, cut: &AtomicU8) {
    let end = client.try_clone().unwrap();
    copy(client, server, |said| {
        let is_commit = said.windows(6).any(|word| word == b"COMMIT");
        match is_commit.then(|| cut.swap(PASS, Ordering::SeqCst)) {
            Some(BEFORE) => {
                let _ = end.shutdown(Shutdown::Both);
                false
            }
            Some(AFTER) => {
                // Nothing comes back from here on, and the server gets the commit all the same.
                let _ = end.shutdown(Shutdown::Both);
                true
            }
            _ => true,
        }
    });
    let _ = server.shutdown(Shutdown::Write);
}

fn copy(mut from: UnixStream, mut to: &UnixStream, mut passes: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if !passes(&buffer[..length]) || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_cut_off_is_told_as_what_it_became() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::start(server.folder().to_owned());
    let url = format!("postgres://windlass@/postgres?host={}&schema=s", proxy.path().display());
    let log = PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap().open().unwrap();
    log.append(note("a", 0)).await.unwrap();
    for number in 1..10 {
        for (cut, number) in [(BEFORE, 10 * number), (AFTER, 10 * number + 1)] {
            proxy.cut.store(cut, Ordering::SeqCst);
            let appended = log.append(note("a", number)).await;
            let is_there = numbers(&*log).contains(&(number as u64));
            match cut {
                AFTER => assert!(appended.is_ok() && is_there, "{number} was committed: {appended:?}"),
                _ => assert!(appended.is_err() && !is_there, "{number} was not committed: {appended:?}"),
            }
        }
    }
}
