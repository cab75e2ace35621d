//! Socket, handshake line, services, and the ways in which a plugin ends.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;

use super::companions::{Broker, Controller, Stdio};
use super::handshake::Handshake;
use super::instance_group::InstanceGroup;
use super::service::Service;

/// The health service's name that go-plugin asks for.
const HEALTH_SERVICE: &str = "plugin";
/// How long calls in flight may still take once the plugin is leaving. The host waits 2 s for the whole process.
const DRAIN: Duration = Duration::from_millis(300);
/// How often the plugin looks whether the host is still there.
const PARENT_WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The longest path that a unix socket can have on Linux, with its terminating zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Why the plugin could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No private directory for the socket.
    #[error("cannot make a directory for the socket in {parent}: set TMPDIR to a directory that can be written to")]
    SocketDirectory {
        /// Where it was to be.
        parent: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The path is longer than a socket address can be.
    #[error("the socket's path {path} is longer than {MAX_SOCKET_PATH_BYTES} bytes: set TMPDIR to a shorter path")]
    SocketPath { path: String },
    /// The socket could not be bound.
    #[error("cannot listen on {path}")]
    Bind {
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The host does not read standard output.
    #[error("cannot write the handshake line to standard output")]
    HandshakeLine(#[source] std::io::Error),
    /// The process cannot receive signals.
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    /// The server broke down.
    #[error("the gRPC server failed")]
    Transport(#[source] tonic::transport::Error),
}

/// Why the plugin left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The host asked for it.
    Asked,
    /// The host is gone without a word.
    HostGone,
}

/// Serves a group to the host that started this process, and returns when the plugin is to leave.
///
/// *Guarantees*: the handshake line is the first and only thing on standard output, and comes before the group is
/// touched. Signals that ask a process to end are ignored while the host lives: Ctrl-C, a closed terminal and a service
/// manager that stops the host reach the whole process group, the host may drain its jobs for hours after that, and it
/// needs the group until it asks the plugin to leave. When the host dies without a word (it was killed), the plugin
/// leaves too, so that it never holds its group's lock against a successor.
/// Calls in flight get 300 ms once the plugin is leaving, so that the caller has more than a second left of the two
/// that the host grants.
///
/// # Errors
/// When the plugin cannot begin to serve; see [`ServeError`].
pub async fn serve(handshake: Handshake, group: Arc<dyn InstanceGroup>) -> Result<EndReason, ServeError> {
    // Before the line is printed: from then on the host may signal or vanish at any time.
    let parent = std::os::unix::process::parent_id();
    let mut signals = Requests::listen().map_err(ServeError::Signals)?;

    let parent_directory = handshake.socket_parent.clone().unwrap_or_else(std::env::temp_dir);
    let directory = SocketDirectory::new(&parent_directory)
        .map_err(|source| ServeError::SocketDirectory { parent: parent_directory.display().to_string(), source })?;
    let path = directory.0.join("socket");
    if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
        return Err(ServeError::SocketPath { path: path.display().to_string() });
    }
    let listener =
        UnixListener::bind(&path).map_err(|source| ServeError::Bind { path: path.display().to_string(), source })?;

    let leaving = CancellationToken::new();
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_service_status(HEALTH_SERVICE, tonic_health::ServingStatus::Serving).await;
    let server = tonic::transport::Server::builder()
        .add_service(health_service)
        .add_service(Broker::new(leaving.clone()))
        .add_service(Controller::new(leaving.clone()))
        .add_service(Stdio::new(leaving.clone()))
        .add_service(Service::new(group))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), leaving.clone().cancelled_owned());
    // On its own task, so that the socket is served from the moment its address is known.
    let mut server = tokio::spawn(server);

    {
        let mut output = std::io::stdout().lock();
        writeln!(output, "{}", handshake.line(&path))
            .and_then(|()| output.flush())
            .map_err(ServeError::HandshakeLine)?;
    }
    tracing::debug!(address = %path.display(), "plugin address");

    let mut watch = tokio::time::interval(PARENT_WATCH_INTERVAL);
    let departure = loop {
        tokio::select! {
            () = leaving.cancelled() => break EndReason::Asked,
            name = signals.next() => tracing::debug!("{name} ignored: the host decides when the plugin leaves"),
            _ = watch.tick() => {
                if std::os::unix::process::parent_id() != parent {
                    break EndReason::HostGone;
                }
            }
            ended = &mut server => {
                return match ended {
                    Ok(Ok(())) => Ok(EndReason::Asked),
                    Ok(Err(error)) => Err(ServeError::Transport(error)),
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                };
            }
        }
    };
    leaving.cancel();
    if tokio::time::timeout(DRAIN, &mut server).await.is_err() {
        server.abort();
    }
    Ok(departure)
}

/// The socket's own directory, which only this user may enter. It goes with the plugin.
struct SocketDirectory(PathBuf);

impl SocketDirectory {
    fn new(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("fleeting-plugin-{}", uuid::Uuid::new_v4().simple()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The signals by which a process is asked to end.
struct Requests {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hangup: Signal,
}

impl Requests {
    /// From here on none of them ends the process.
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.quit.recv() => "SIGQUIT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
