//! `windlass policy serve`: decisions over a Unix socket, until it is told to end.

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::print;
use windlass_policy::Host;
use windlass_serve::{ServeOptions, Socket, serve};

use crate::arguments::{ServePolicies, UnixAddress};
use crate::configuration;
use crate::context::Context;

/// The rights on the socket's file: where other users may ask, the kernel says who asks.
const OWN_USER: u32 = 0o600;
const ANY_USER: u32 = 0o666;

pub(super) async fn run(context: &Context, arguments: ServePolicies) -> Result<(), Failure> {
    let ServePolicies { listen: UnixAddress(path), allow_uid, max_connections } = arguments;
    let refused = |error: &(dyn std::error::Error + 'static)| {
        Failure::usage("policies cannot be served").at(path.display().to_string()).caused_by(error)
    };
    let mode = if allow_uid.is_empty() { OWN_USER } else { ANY_USER };
    let socket = Socket::listen(&path, mode).await.map_err(|error| refused(&error))?;
    let signals = Signals::new().map_err(|error| refused(&error))?;

    let state = context.state_directory()?;
    let host = context.policy_host(context.folder_of(&state)?)?;
    context.configure(&host)?;
    let _watch = host.watch().map_err(|error| refused(&error))?;
    let mut options = ServeOptions::default();
    options.users.extend(allow_uid);
    options.limits.connections = max_connections.into();

    // Programs read this line and go on, so it must come first and be alone on its line.
    match context.output.is_document() {
        true => print(&format!("{}\n", json!({ "listen": format!("unix:{}", path.display()) }))),
        false => print(&format!("unix:{}\n", path.display())),
    }
    context.output.say(&format!(
        "deciding; decisions are recorded in {}. SIGHUP reads the configuration again. End: Ctrl-C",
        state.path().display()
    ));
    let end = CancellationToken::new();
    let serving = serve(socket, host.clone(), options, end.clone());
    tokio::join!(serving, signals.follow(context, &host, &end));
    host.flush_decisions();
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Does what they ask for, until one asks for the end.
    async fn follow(mut self, context: &Context, host: &Host, end: &CancellationToken) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => break,
                _ = self.terminate.recv() => break,
                _ = self.hangup.recv() => tokio::task::block_in_place(|| read_again(context, host)),
            }
        }
        end.cancel();
    }
}

/// Puts the configuration as it is now in place, all of it or nothing.
fn read_again(context: &Context, host: &Host) {
    let configured =
        configuration::load(context.global.config.as_deref(), &context.environment).and_then(|configuration| {
            Context::new(context.global.clone(), configuration, context.environment.clone()).configure(host)
        });
    match configured {
        Ok(()) => {
            // What is configured as before stays in its place: its file may have changed.
            for error in host.reload().errors {
                tracing::warn!(%error, "a changed policy is not used");
            }
            context.output.say("the configuration was read again");
        }
        Err(failure) => {
            let why = [std::slice::from_ref(&failure.message), &failure.causes].concat().join(": ");
            context.output.say(&format!("nothing was changed: {why}"));
        }
    }
}
