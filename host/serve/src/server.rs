//! Connections: who may ask, how many, for how long.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_policy::Host;

use crate::answer::{Answers, Counters, count, error};
use crate::frame::{Ended, Frames, Room, send};
use crate::pins::Pins;
use crate::proto::{self, error::Code, response};
use crate::socket::Socket;

/// After a connection could not be taken, as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// At the end: a request that has come may not have been noticed yet.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// How decisions are served.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The users (uid) that may ask, as the kernel tells them. Default: the one that this process runs as.
    pub users: BTreeSet<u32>,
    /// The bounds.
    pub limits: ServeLimits,
    /// The version of the program, for the status.
    pub version: String,
}

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        let users = BTreeSet::from([rustix::process::geteuid().as_raw()]);
        ServeOptions { users, limits: ServeLimits::default(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// The bounds of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServeLimits {
    /// Connections at the same time; one more is told so and closed. Default 256.
    pub connections: usize,
    /// The size of a request, in bytes. Default 1 MiB: some 25,000 servers of the slot `state-mapping`.
    pub request_bytes: usize,
    /// What the requests of more than 64 KiB may have together, in bytes. Default 8 MiB.
    pub large_requests_bytes: usize,
    /// Pins that are kept ready to decide. Others are made ready again when they are asked. Default 64.
    pub ready_pins: usize,
    /// How long a request may take to come, to be answered, and its response to be taken; each. Default 10 s.
    pub request_time: Duration,
    /// After so long without a request a connection is closed. Default 5 min.
    pub idle_time: Duration,
    /// How long requests may still take when the server ends. Default 5 s.
    pub drain_time: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections: 256,
            request_bytes: 1 << 20,
            large_requests_bytes: 8 << 20,
            ready_pins: 64,
            request_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(5),
        }
    }
}

/// What all connections share.
struct Server {
    answers: Answers,
    options: ServeOptions,
    room: Room,
    end: CancellationToken,
}

/// Answers decisions until `end`. Then no new connection is taken, requests that have begun are answered, and the file
/// of the socket is removed.
///
/// *Guarantees*: a peer, whatever it sends, costs no more than [`ServeLimits`] say, and disturbs no other's answer.
pub async fn serve(socket: Socket, host: Host, options: ServeOptions, end: CancellationToken) {
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let server = Arc::new(Server {
        answers: Answers {
            pins: Pins::new(host, options.limits.ready_pins),
            counters: Counters::default(),
            version: options.version.clone(),
            started_at: u64::try_from(started_at).unwrap_or(u64::MAX),
            time: options.limits.request_time,
        },
        room: Room::of(options.limits.large_requests_bytes.max(options.limits.request_bytes)),
        options,
        end: end.clone(),
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = end.cancelled() => break,
            Some(ended) = connections.join_next() => noted(ended),
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => server.take(stream, &mut connections),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(socket);
    let drained = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(server.options.limits.drain_time, drained).await;
}

fn noted(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection ended by a defect");
    }
}

impl Server {
    /// Serves a connection, or tells why not.
    fn take(self: &Arc<Self>, stream: UnixStream, connections: &mut JoinSet<()>) {
        count(&self.answers.counters.connections);
        let refusal = match stream.peer_cred() {
            Ok(peer) if self.options.users.contains(&peer.uid()) => match connections.len() {
                open if open < self.options.limits.connections => None,
                open => {
                    count(&self.answers.counters.busy_connections);
                    Some(error(Code::Busy, format!("the server has its {open} connections already")))
                }
            },
            peer => {
                count(&self.answers.counters.denied_connections);
                let who = peer.map_or_else(|error| error.to_string(), |peer| format!("user {}", peer.uid()));
                tracing::warn!(peer = who, "a peer that may not ask was refused");
                Some(error(Code::Denied, format!("{who} may not ask this server")))
            }
        };
        match refusal {
            None => {
                let server = Arc::clone(self);
                connections.spawn(async move { server.connection(stream).await });
            }
            Some(error) => refuse(&stream, error),
        }
    }

    async fn connection(&self, mut stream: UnixStream) {
        let _open = Open::new(&self.answers.counters);
        let limits = &self.options.limits;
        let mut frames = Frames::new(limits.request_bytes, limits.idle_time, limits.request_time);
        loop {
            let frame = {
                let next = frames.next(&mut stream, &self.room);
                tokio::pin!(next);
                tokio::select! {
                    biased;
                    frame = &mut next => frame,
                    () = self.end.cancelled() => match tokio::time::timeout(LAST_LOOK, next).await {
                        Ok(frame) => frame,
                        Err(_) => return,
                    },
                }
            };
            let (response, last) = match frame {
                Ok(frame) => (self.answers.answer(frame.bytes.clone()).await, false),
                Err(ended) => match why(&ended, limits.request_bytes) {
                    None => return,
                    Some(error) => {
                        count(&self.answers.counters.errors);
                        (proto::Response { id: 0, result: Some(response::Result::Error(error)) }, true)
                    }
                },
            };
            // A peer that doesn't take its answer has gone, or is as good as gone.
            if send(&mut stream, &response, limits.request_time).await.is_err() || last {
                return;
            }
        }
    }
}

/// What a peer is told whose connection is closed.
fn why(ended: &Ended, most: usize) -> Option<proto::Error> {
    match ended {
        Ended::Quietly => None,
        Ended::TooLarge(bytes) => {
            let why = format!("the request has {bytes} bytes, and at most {most} are allowed");
            Some(error(Code::TooLarge, why))
        }
        Ended::TooSlow => Some(error(Code::Timeout, "the request did not come in time")),
        Ended::NoRoom => Some(error(Code::Busy, "there is no room for a large request now")),
    }
}

/// Tells a peer why it is not served, if it can be told at once.
fn refuse(stream: &UnixStream, error: proto::Error) {
    let response = proto::Response { id: 0, result: Some(response::Result::Error(error)) };
    let bytes = crate::frame::framed(&response);
    // A fresh socket has room for these few bytes; a peer that is gone needs none.
    let _: Result<usize, io::Error> = stream.try_write(&bytes);
}

/// Counts a connection for as long as it is open.
struct Open<'c>(&'c Counters);

impl Open<'_> {
    fn new(counters: &Counters) -> Open<'_> {
        count(&counters.open_connections);
        Open(counters)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}
