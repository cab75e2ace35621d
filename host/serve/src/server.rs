//! Connections: who may ask, how many, for how long.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::net::{RecvFlags, recv};
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_policy::{Host, LineRoom};

use crate::answer::{Answers, Counters, count, error};
use crate::frame::{Ended, Frames, framed, send};
use crate::peers::{Peer, Peers, Phase, Share};
use crate::pins::Pins;
use crate::proto::{self, error::Code, response};
use crate::socket::Socket;
use crate::turns::Turns;

/// After a connection could not be taken, as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// At the end: a request that has come may not have been noticed yet.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The most large questions that are decided at the same time by default: each takes memory.
const MAX_LARGE_QUESTIONS: usize = 8;

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
    /// Connections at the same time, in equal shares for each of the users. For one more than a user's share, one of
    /// the process with the most is closed: the one that has kept the server waiting, or else busy, for longest.
    /// Default 256.
    pub connections: usize,
    /// The size of a request, in bytes. Default 1 MiB: some 25,000 servers of the slot `state-mapping`.
    pub request_bytes: usize,
    /// The size of a response, in bytes, and at least 64 KiB: a client need not read a larger one than the default.
    /// Answers beyond are refused. Default 8 MiB.
    pub response_bytes: usize,
    /// What connections may hold together, in bytes, of requests that come or wait and of answers that were not taken,
    /// not counting those that hold less than 64 KiB; in equal shares for each of the users, but at least one of the
    /// largest requests with the largest answer each. Default 16 MiB.
    pub held_bytes: usize,
    /// Large questions (more than 64 KiB or 1,000 items, or in a batch of more than 16 questions or 64 KiB) that are
    /// decided at the same time, in turn for each of the users; each has a thread. Default: one for every two
    /// processors, at most 8.
    pub large_questions: usize,
    /// Pins that are kept ready to decide. Others are made ready again when they are asked. Default 64.
    pub ready_pins: usize,
    /// How long a request may take to come, to be answered, and its response to be taken; each. Default 10 s.
    pub request_time: Duration,
    /// After so long without a request a connection is closed; after `request_time`, where there was none. Default 5
    /// min.
    pub idle_time: Duration,
    /// How long requests may still take when the server ends. Default 2 s.
    pub drain_time: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections: 256,
            request_bytes: 1 << 20,
            response_bytes: 8 << 20,
            held_bytes: 16 << 20,
            large_questions: std::thread::available_parallelism()
                .map_or(1, |processors| processors.get().div_ceil(2).min(MAX_LARGE_QUESTIONS)),
            ready_pins: 64,
            request_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(300),
            drain_time: Duration::from_secs(2),
        }
    }
}

impl ServeLimits {
    /// The share of each of so many users.
    fn share(&self, users: usize) -> Share {
        let users = users.max(1);
        // Else the answer to a request that is allowed could never be delivered.
        let least_bytes = self.request_bytes + self.response_bytes;
        Share { connections: (self.connections / users).max(1), bytes: (self.held_bytes / users).max(least_bytes) }
    }
}

/// What all connections share.
struct Server {
    answers: Arc<Answers>,
    options: ServeOptions,
    /// For warnings that peers cause.
    warnings: LineRoom,
    end: CancellationToken,
}

/// Answers decisions until `end`. Then no new connection is taken, requests that have begun are answered, and the file
/// of the socket is removed.
///
/// *Guarantees*: a peer, whatever it sends, costs no more than [`ServeLimits`] say, and disturbs no other's answer.
pub async fn serve(socket: Socket, host: Host, options: ServeOptions, end: CancellationToken) {
    let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let limits = &options.limits;
    let share = limits.share(options.users.len());
    let answers = Answers {
        pins: Pins::new(host, limits.ready_pins),
        counters: Counters::default(),
        peers: Peers::new(share),
        turns: Turns::new(limits.large_questions.max(1), options.users.iter().copied()),
        version: options.version.clone(),
        started_at: u64::try_from(started_at).unwrap_or(u64::MAX),
        time: limits.request_time,
        response_bytes: limits.response_bytes,
    };
    let server =
        Arc::new(Server { answers: Arc::new(answers), warnings: LineRoom::default(), options, end: end.clone() });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = end.cancelled() => break,
            Some(ended) = connections.join_next() => noted(ended),
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => server.take(stream, &mut connections),
                Err(error) => {
                    if let Some(left_out) = server.warnings.take(Instant::now()) {
                        tracing::warn!(%error, left_out, "a connection cannot be accepted");
                    }
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
        tracing::error!(%error, "a connection ended because of a bug");
    }
}

impl Server {
    /// Serves a connection, or tells why not.
    fn take(self: &Arc<Self>, stream: UnixStream, connections: &mut JoinSet<()>) {
        let counters = &self.answers.counters;
        count(&counters.connections);
        let stream = Arc::new(stream);
        let refusal = match stream.peer_cred() {
            Ok(peer) if self.options.users.contains(&peer.uid()) => {
                let (peer, another_made_room) = self.admit(peer, &stream);
                if another_made_room {
                    count(&counters.busy_connections);
                }
                let server = Arc::clone(self);
                connections.spawn(async move { server.connection(&stream, peer).await });
                return;
            }
            peer => {
                count(&counters.denied_connections);
                let who = peer.map_or_else(|error| error.to_string(), |peer| format!("user {}", peer.uid()));
                if let Some(left_out) = self.warnings.take(Instant::now()) {
                    tracing::warn!(peer = who, left_out, "a client without permission was refused");
                }
                error(Code::Denied, format!("{who} may not ask this server"))
            }
        };
        refuse(&stream, refusal);
    }

    fn admit(&self, peer: UCred, stream: &Arc<UnixStream>) -> (Peer, bool) {
        let stream = Arc::clone(stream);
        let is_unread = move || {
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            recv(&*stream, &mut [0; 1], flags).is_ok_and(|(bytes, _)| bytes > 0)
        };
        self.answers.peers.admit(peer.uid(), peer.pid(), is_unread)
    }

    async fn connection(&self, stream: &UnixStream, peer: Peer) {
        let limits = &self.options.limits;
        let mut frames = Frames::new(limits.request_bytes, limits.request_time);
        let mut idle = limits.request_time;
        loop {
            let frame = {
                let next = frames.next(stream, &peer, idle);
                tokio::pin!(next);
                tokio::select! {
                    biased;
                    () = peer.displaced() => None,
                    frame = &mut next => Some(frame),
                    () = self.end.cancelled() => match tokio::time::timeout(LAST_LOOK, next).await {
                        Ok(frame) => Some(frame),
                        Err(_) => return,
                    },
                }
            };
            // Without a word: a client takes what it reads for the answer to its next request.
            let Some(frame) = frame.filter(|_| !peer.is_displaced()) else { return };
            let (response, last) = match frame {
                Ok(bytes) => {
                    peer.enters(Phase::Answering);
                    let answered = tokio::select! {
                        biased;
                        response = self.answers.answer(bytes, &peer) => response,
                        () = peer.displaced() => return,
                    };
                    (answered, false)
                }
                Err(ended) => match why(&ended, limits.request_bytes) {
                    None => return,
                    Some(error) => {
                        count(&self.answers.counters.errors);
                        (framed(&proto::Response { id: 0, result: Some(response::Result::Error(error)) }), true)
                    }
                },
            };
            if peer.holds(response.len()).is_err() && !last {
                return;
            }
            peer.enters(Phase::Sending);
            let sent = tokio::select! {
                biased;
                sent = tokio::time::timeout(limits.request_time, send(stream, &response)) => sent,
                () = peer.displaced() => return,
            };
            // A peer that doesn't take its answer has gone, or is as good as gone.
            if last || !matches!(sent, Ok(Ok(()))) {
                return;
            }
            drop(response);
            // What is nothing is always held.
            let _ = peer.holds(0);
            peer.enters(Phase::Idle);
            idle = limits.idle_time;
        }
    }
}

/// The message to a peer whose connection is closed.
fn why(ended: &Ended, most: usize) -> Option<proto::Error> {
    match ended {
        Ended::Quietly => None,
        Ended::TooLarge(bytes) => {
            let why = match is_text(*bytes) {
                true => "the request begins with text: this socket takes messages of protobuf, each after its length \
                         in four bytes, as the clients for Go, Python and Node.js send them"
                    .to_owned(),
                false => format!("the request has {bytes} bytes, and at most {most} are allowed"),
            };
            Some(error(Code::TooLarge, why))
        }
        Ended::TooSlow => Some(error(Code::Timeout, "the request did not come in time")),
        Ended::NoRoom => Some(error(Code::Busy, "there is no room for a large request now")),
    }
}

/// Whether a length is made of four letters, as of `GET ` or `{"id`: somebody speaks another protocol.
fn is_text(length: usize) -> bool {
    let bytes = u32::try_from(length).unwrap_or_default().to_be_bytes();
    bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Tells a peer why it is not served, if that can be sent at once.
fn refuse(stream: &UnixStream, error: proto::Error) {
    let response = proto::Response { id: 0, result: Some(response::Result::Error(error)) };
    let bytes = framed(&response);
    // A fresh socket has room for these few bytes; a peer that is gone needs none.
    let _: Result<usize, io::Error> = stream.try_write(&bytes);
}

#[cfg(test)]
mod tests {
    use windlass_policy::Limits;

    use super::*;

    #[test]
    fn the_largest_request_with_the_largest_answer_fits_into_each_share() {
        let limits = ServeLimits::default();
        for users in [0, 1, 2, 17, 1_000] {
            let (peer, _) = Peers::new(limits.share(users)).admit(1, None, || false);
            peer.holds(limits.request_bytes + limits.response_bytes).unwrap_or_else(|_| panic!("{users} users"));
        }
        assert_eq!(limits.share(1).bytes, limits.held_bytes);
    }

    #[test]
    fn a_peer_that_sends_text_is_told_what_this_socket_takes() {
        for (begin, expected) in [
            (*b"GET ", "the request begins with text"),
            (*b"{\"id", "the request begins with text"),
            ([0, 32, 0, 0], "the request has 2097152 bytes"),
        ] {
            let ended = Ended::TooLarge(u32::from_be_bytes(begin) as usize);
            let reported = why(&ended, 1 << 20).unwrap().message;
            assert!(reported.contains(expected), "{reported}");
        }
    }

    #[test]
    fn a_chain_of_policies_within_their_time_decides_before_a_client_gives_up() {
        let client = include_str!("../../../clients/go/windlass.go");
        let seconds = client.split("const DefaultTimeout = ").nth(1).unwrap().split(" * time.Second").next().unwrap();
        let client = Duration::from_secs(seconds.parse().unwrap());
        let policy = Duration::from_millis(Limits::default().time_ms);
        let page = include_str!("../../../docs/policy-server.md").replace('\n', " ");
        let said = format!(
            "a policy may compute for {} s (`time_ms`), a client waits for {} s, and the server gives a request {} s.",
            policy.as_secs_f64(),
            client.as_secs(),
            ServeLimits::default().request_time.as_secs(),
        );
        assert!(page.contains(&said), "{said}");
        assert!(client > 3 * policy && ServeLimits::default().request_time >= 2 * client);
        assert!(ServeLimits::default().drain_time >= client, "who was asked before the end is answered");
    }
}
