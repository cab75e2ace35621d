//! `windlass policy serve`: decisions over a Unix socket, until it is asked to stop.

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass_inspect::failure::Failure;
use windlass_lifecycle::StatusPublisher;
use windlass_policy::Host;
use windlass_serve::{ServeOptions, Socket, serve};

use crate::arguments::{Global, ServePolicies, UnixAddress};
use crate::configuration::{self, Environment};
use crate::context::Context;
use crate::interrupt::EndSignals;

/// The rights on the socket's file: where other users may ask, the kernel says who asks.
const OWN_USER: u32 = 0o600;
const ANY_USER: u32 = 0o666;

pub(super) async fn run(context: &Context, arguments: ServePolicies) -> Result<(), Failure> {
    let ServePolicies { listen: UnixAddress(path), allow_uid, max_connections } = arguments;
    let refused = |error: &(dyn std::error::Error + 'static)| {
        Failure::usage("policies cannot be served").at(path.display().to_string()).caused_by(error)
    };
    let mode = if allow_uid.is_empty() { OWN_USER } else { ANY_USER };
    let socket = Socket::listen(&path, mode).await.map_err(|error| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            refused(&error).remedy(format!("create the folder {}", folder.display()))
        }
        _ => refused(&error),
    })?;
    let mut ends = EndSignals::listen()?;
    let hangups = signal(SignalKind::hangup()).map_err(|error| refused(&error))?;

    let state = context.state_directory()?;
    let folder = context.folder_of(&state)?;
    let begun = context.again();
    // Fetching and compiling the policies may take minutes. A signal ends the server meanwhile.
    let loading = tokio::task::spawn_blocking(move || {
        let host = begun.policy_host(folder)?;
        begun.configure(&host)?;
        Ok::<_, Failure>(host)
    });
    let host = tokio::select! {
        loaded = loading => loaded.map_err(defect)??,
        _ = ends.recv() => return Ok(()),
    };
    let _watch = host.watch().map_err(|error| refused(&error))?;
    let _publisher = StatusPublisher::start(&state, &host);
    let mut options = ServeOptions::default();
    options.users.extend(allow_uid);
    options.limits.connections = max_connections.into();

    let listen = format!("unix:{}", path.display());
    context.output.first_line(&json!({ "listen": listen }), &listen);
    context.output.say(&format!(
        "deciding; decisions are recorded in {}. SIGHUP reads the configuration again. End: Ctrl-C",
        state.path().display()
    ));
    let end = CancellationToken::new();
    // In a task of its own, since to read the configuration again takes as long as its policies take to compile.
    let mut serving = tokio::spawn(serve(socket, host.clone(), options, end.clone()));
    let rereading = Rereading { global: context.global.clone(), environment: context.environment.clone(), host };
    let served = tokio::select! {
        () = follow(ends, hangups, &rereading) => {
            end.cancel();
            serving.await
        }
        served = &mut serving => served,
    };
    // The shadows are not waited for here: the host gives them a bounded time when it is dropped.
    rereading.host.flush_records();
    served.map_err(defect)
}

fn defect(error: tokio::task::JoinError) -> Failure {
    Failure::undone("the server ended because of a bug").because(error.to_string())
}

/// Reads the configuration again at each SIGHUP. Returns at SIGINT or SIGTERM, also during such a reading.
async fn follow(mut ends: EndSignals, mut hangups: Signal, rereading: &Rereading) {
    let reread = async {
        // Signals that arrive during one reading cause one more together.
        while hangups.recv().await.is_some() {
            let rereading = rereading.clone();
            if let Err(error) = tokio::task::spawn_blocking(move || rereading.run()).await {
                tracing::error!(%error, "reading the configuration again ended because of a bug");
            }
        }
    };
    tokio::select! {
        _ = ends.recv() => {}
        () = reread => {}
    }
}

/// Reads the configuration of a host again.
#[derive(Clone)]
struct Rereading {
    global: Global,
    environment: Environment,
    host: Host,
}

impl Rereading {
    /// Puts the configuration as it is now in place, all of it or nothing. Blocks while its policies are compiled.
    fn run(&self) {
        let Rereading { global, environment, host } = self;
        let configured = configuration::load(global.config.as_deref(), environment)
            .and_then(|configuration| Context::new(global.clone(), configuration, environment.clone()).configure(host));
        let output = global.output();
        match configured {
            Ok(()) => {
                // What is configured as before stays in its place: its file may have changed.
                for error in host.reload().errors {
                    tracing::warn!(%error, "a changed policy is not used");
                }
                output.say("the configuration was read again");
            }
            Err(failure) => {
                let why = [std::slice::from_ref(&failure.message), &failure.causes].concat().join(": ");
                output.say(&format!("nothing was changed: {why}"));
            }
        }
    }
}
