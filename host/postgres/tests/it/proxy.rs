//! A proxy between clients and a server, which holds, loses or delays what they say.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use windlass_postgres::PostgresState;

use crate::server::Server;

/// The name of a server's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    /// It does not reach the server, and the connection ends.
    Lose,
    /// It reaches the server, and the connection ends before the answer.
    LoseAnswer,
    /// It waits, and so does everything else.
    Hold,
    /// It reaches the server, and everything else waits, its answer too.
    HoldAnswer,
}

/// Messages of a client that the server answers together.
pub(crate) struct Request<'a> {
    bytes: &'a [u8],
    /// Whether it is of the connection that committed last.
    pub(crate) is_writer: bool,
}

impl Request<'_> {
    pub(crate) fn is_commit(&self) -> bool {
        self.bytes.ends_with(b"commit\0")
    }
}

type Decide = Box<dyn FnMut(&Request<'_>) -> Fate + Send>;

pub(crate) struct Proxy {
    folder: tempfile::TempDir,
    shared: Arc<Shared>,
}

struct Shared {
    decide: Mutex<Decide>,
    /// The number of the connection that committed last.
    writer: AtomicUsize,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    is_held: bool,
    /// How many connections have something that waits.
    waiting: usize,
    /// How often what waited was lost.
    cuts: usize,
}

impl Proxy {
    pub(crate) fn start(server: &Server) -> Self {
        let folder = tempfile::Builder::new().prefix("windlass-proxy").tempdir_in("/tmp").unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let decide: Decide = Box::new(|_| Fate::Pass);
        let shared = Arc::new(Shared {
            decide: Mutex::new(decide),
            writer: AtomicUsize::new(usize::MAX),
            gate: Mutex::default(),
            changed: Condvar::new(),
        });
        let (of_connections, socket) = (Arc::clone(&shared), server.folder().join(SOCKET));
        // It ends with the process.
        std::thread::spawn(move || {
            for (connection, client) in listener.incoming().flatten().enumerate() {
                let Ok(server) = UnixStream::connect(&socket) else { continue };
                let (answers, to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let shared = Arc::clone(&of_connections);
                std::thread::spawn(move || shared.answers(answers, to_client));
                let shared = Arc::clone(&of_connections);
                std::thread::spawn(move || shared.requests(connection, client, server));
            }
        });
        Self { folder, shared }
    }

    /// State that is reached through it, in the schema `s`.
    pub(crate) fn state(&self) -> PostgresState {
        let folder = self.folder.path().display();
        let url = format!("postgres://windlass@/postgres?host={folder}&schema=s&connect_timeout=1");
        PostgresState::parse(&url, &BTreeMap::new(), "here").unwrap()
    }

    /// Decides each request from now on.
    pub(crate) fn decide(&self, decide: impl FnMut(&Request<'_>) -> Fate + Send + 'static) {
        *self.shared.decide.lock() = Box::new(decide);
    }

    /// Decides the next commit. All else passes.
    pub(crate) fn next_commit(&self, fate: Fate) {
        let mut next = Some(fate);
        self.decide(move |request| next.take_if(|_| request.is_commit()).unwrap_or(Fate::Pass));
    }

    /// Holds everything, in both directions.
    pub(crate) fn hold(&self) {
        self.shared.hold();
    }

    /// Waits until something waits.
    pub(crate) fn until_held(&self) {
        let mut gate = self.shared.gate.lock();
        while !gate.is_held || gate.waiting == 0 {
            self.shared.changed.wait(&mut gate);
        }
    }

    /// Lets everything go on.
    pub(crate) fn release(&self) {
        self.shared.gate.lock().is_held = false;
        self.shared.changed.notify_all();
    }

    /// Loses what waits, and its connections.
    pub(crate) fn cut(&self) {
        self.shared.gate.lock().cuts += 1;
        self.release();
    }
}

impl Shared {
    fn hold(&self) {
        self.gate.lock().is_held = true;
        self.changed.notify_all();
    }

    /// Waits while everything is held. False: it is lost.
    fn passes(&self) -> bool {
        let mut gate = self.gate.lock();
        let cuts = gate.cuts;
        gate.waiting += 1;
        self.changed.notify_all();
        while gate.is_held && gate.cuts == cuts {
            self.changed.wait(&mut gate);
        }
        gate.waiting -= 1;
        gate.cuts == cuts
    }

    fn answers(&self, mut server: UnixStream, mut client: UnixStream) {
        let mut buffer = [0; 65_536];
        loop {
            let length = server.read(&mut buffer).unwrap_or_default();
            // That a connection ended is held as well.
            if !self.passes() || length == 0 || client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    fn requests(&self, connection: usize, mut client: UnixStream, mut server: UnixStream) {
        let (mut said, mut is_first, mut buffer) = (Vec::new(), true, [0; 65_536]);
        'open: while let Ok(length @ 1..) = client.read(&mut buffer) {
            said.extend_from_slice(&buffer[..length]);
            while let Some(end) = request_len(&said, is_first) {
                is_first = false;
                let bytes: Vec<u8> = said.drain(..end).collect();
                let passes = match self.fate(connection, &bytes) {
                    Fate::Pass => self.passes(),
                    Fate::Lose => false,
                    Fate::LoseAnswer => client.shutdown(Shutdown::Both).is_ok(),
                    Fate::Hold => {
                        self.hold();
                        self.passes()
                    }
                    Fate::HoldAnswer => {
                        self.hold();
                        true
                    }
                };
                if !passes || server.write_all(&bytes).is_err() {
                    break 'open;
                }
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Write);
    }

    fn fate(&self, connection: usize, bytes: &[u8]) -> Fate {
        let mut request = Request { bytes, is_writer: false };
        if request.is_commit() {
            self.writer.store(connection, Ordering::SeqCst);
        }
        request.is_writer = self.writer.load(Ordering::SeqCst) == connection;
        let mut decide = self.decide.lock();
        (*decide)(&request)
    }
}

/// Where the first request in these bytes ends, once it is whole. Each message says its length behind one byte of its
/// kind, which only the first of a connection lacks.
fn request_len(bytes: &[u8], is_first: bool) -> Option<usize> {
    let mut end = 0;
    loop {
        let kind = if is_first { b'Q' } else { *bytes.get(end)? };
        let start = end + usize::from(!is_first);
        let length = u32::from_be_bytes(bytes.get(start..start + 4)?.try_into().ok()?);
        end = start + length as usize;
        // A query, the end of several messages, or of the connection.
        if matches!(kind, b'Q' | b'S' | b'X') {
            return (end <= bytes.len()).then_some(end);
        }
    }
}
