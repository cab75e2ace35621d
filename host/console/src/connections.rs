//! Connections, each of them bounded: how many there are, how long they last, and how long one may be slow.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::tls::Tls;

/// Connections at a time; further ones wait in the system's queue.
const MAX_CONNECTIONS: usize = 64;
/// How long the end waits for answers under way.
const PATIENCE_AT_END: Duration = Duration::from_millis(300);
/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 32 << 10;

/// How long others may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The handshake of TLS.
    pub(crate) handshake: Duration,
    /// The head of a request, also the next one's of a connection that is kept.
    pub(crate) head: Duration,
    /// Taking anything of what is written.
    pub(crate) write: Duration,
    /// A connection as a whole: a key that was withdrawn is not used for longer.
    pub(crate) connection: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            write: Duration::from_secs(30),
            connection: Duration::from_secs(15 * 60),
        }
    }
}

/// On a request whose connection has brought a client's certificate that was verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certified;

/// Answers connections until `end`, and then for [`PATIENCE_AT_END`] those that are being answered.
pub(crate) async fn answer(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    times: Times,
    end: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let tasks = TaskTracker::new();
    loop {
        let accepted = async {
            // It is never closed, so there is always a place sooner or later.
            let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((place, listener.accept().await?.0))
        };
        let (place, stream) = tokio::select! {
            () = end.cancelled() => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                // This connection failed, or the process has too many files open: the next may succeed.
                Err(error) => {
                    tracing::debug!(%error, "a connection to the console was not accepted");
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (tls, router, end) = (tls.clone(), router.clone(), end.clone());
        tasks.spawn(async move {
            let _place = place;
            let _ = stream.set_nodelay(true);
            let stream = Patient { stream, longest: times.write, waiting: None };
            let Some(tls) = tls else { return converse(stream, false, router, times, end).await };
            let accepting = TlsAcceptor::from(tls.configuration()).accept(stream);
            match timeout(times.handshake, accepting).await {
                Ok(Ok(stream)) => {
                    let certified = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
                    converse(stream, certified, router, times, end).await;
                }
                // Strangers come by at any time: nothing to wake anybody for.
                Ok(Err(error)) => tracing::debug!(%error, "a handshake with the console failed"),
                Err(_) => tracing::debug!("a handshake with the console took too long"),
            }
        });
    }
    tasks.close();
    // Connections that take longer end with the runtime.
    let _ = timeout(PATIENCE_AT_END, tasks.wait()).await;
}

/// Answers the requests of one connection.
async fn converse<S>(stream: S, certified: bool, router: Router, times: Times, end: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        if certified {
            request.extensions_mut().insert(Certified);
        }
        let router = router.clone();
        async move { Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {})) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.head)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = end.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = sleep(times.connection) => {
            connection.as_mut().graceful_shutdown();
            timeout(times.write, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%error, "a connection to the console broke");
    }
}

/// A stream that breaks when the other side takes nothing of what is written for too long.
struct Patient {
    stream: TcpStream,
    longest: Duration,
    /// Since something could not be written.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn bounded<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let longest = self.longest;
        ready!(self.waiting.get_or_insert_with(|| Box::pin(sleep(longest))).as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, shut)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::body::Body;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Notify;

    use super::*;

    /// Longer than what a socket's buffers hold.
    const LONG: usize = 64 << 20;

    fn times() -> Times {
        let long = Duration::from_secs(600);
        Times { handshake: long, head: long, write: long, connection: long }
    }

    async fn served(router: Router, times: Times) -> (SocketAddr, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, end) = (listener.local_addr().unwrap(), CancellationToken::new());
        tokio::spawn(answer(listener, None, router, times, end.clone()));
        (address, end)
    }

    async fn asked(address: SocketAddr, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// What comes until the other side ends it, whether in order or not.
    async fn all(mut stream: TcpStream) -> usize {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes.len()
    }

    #[tokio::test]
    async fn a_request_that_never_comes_to_its_end_is_cut_off() {
        let times = Times { head: Duration::from_millis(20), ..times() };
        let (address, _end) = served(Router::new(), times).await;
        for begun in ["", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nhost: x\r\n"] {
            all(asked(address, begun).await).await;
        }
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_refused_before_it_has_come() {
        let (address, _end) = served(Router::new(), times()).await;
        let stream = asked(address, &format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(2 * MAX_HEAD_BYTES))).await;
        all(stream).await;
    }

    #[tokio::test]
    async fn who_takes_nothing_of_an_answer_is_cut_off() {
        let router = Router::new().route("/", get(|| async { Body::from(vec![b'x'; LONG]) }));
        let (dropped, times) = (Arc::new(Notify::new()), Times { write: Duration::from_millis(50), ..times() });
        struct Tells(Arc<Notify>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        // The router of a connection is gone when the connection is.
        let held = Arc::new(Tells(Arc::clone(&dropped)));
        let (address, end) = served(router.layer(axum::Extension(held)), times).await;
        let stream = asked(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // Nothing is read until the other side has given up, and so not all of it comes.
        tokio::time::sleep(Duration::from_millis(200)).await;
        end.cancel();
        dropped.notified().await;
        assert!(all(stream).await < LONG);
    }

    #[tokio::test]
    async fn a_connection_that_is_kept_ends_after_its_time() {
        let router = Router::new().route("/", get(|| async { "here" }));
        let (address, _end) = served(router, Times { connection: Duration::from_millis(50), ..times() }).await;
        let stream = asked(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(all(stream).await > 0);
    }

    #[tokio::test]
    async fn so_many_connections_are_answered_at_a_time_and_the_others_after_them() {
        let (at_once, most, go) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let handler = {
            let (at_once, most, go) = (Arc::clone(&at_once), Arc::clone(&most), Arc::clone(&go));
            move || async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                go.notified().await;
                at_once.fetch_sub(1, Ordering::SeqCst);
                "here"
            }
        };
        let (address, _end) = served(Router::new().route("/", get(handler)), times()).await;
        let asking = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let viewers: Vec<_> = (0..MAX_CONNECTIONS + 10).map(|_| tokio::spawn(asked(address, asking))).collect();
        while at_once.load(Ordering::SeqCst) < MAX_CONNECTIONS {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answered = viewers.into_iter().map(|viewer| async { all(viewer.await.unwrap()).await });
        let answered = futures::future::join_all(answered);
        tokio::pin!(answered);
        let answered = loop {
            tokio::select! {
                answered = &mut answered => break answered,
                () = tokio::time::sleep(Duration::from_millis(1)) => go.notify_waiters(),
            }
        };
        assert!(answered.iter().all(|bytes| *bytes > 0), "{answered:?}");
        assert_eq!(most.load(Ordering::SeqCst), MAX_CONNECTIONS);
    }

    #[tokio::test]
    async fn the_end_waits_for_nobody() {
        let router = Router::new().route("/", get(|| async { std::future::pending::<&str>().await }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, end) = (listener.local_addr().unwrap(), CancellationToken::new());
        let answering = tokio::spawn(answer(listener, None, router, times(), end.clone()));
        let _silent = asked(address, "").await;
        let _asking = asked(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        end.cancel();
        answering.await.unwrap();
    }
}
