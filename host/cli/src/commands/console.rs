//! `windlass console`: the state directory as web pages, until it is told to end.

use std::net::SocketAddr;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_console::{Endpoint, Error, LEAST_TOKEN_CHARACTERS, ServeOptions};
use windlass_lifecycle::StateDirectory;

use crate::arguments;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::print;

/// Where it is where nothing else is said.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7474);

pub(crate) async fn run(context: &Context, arguments: arguments::Console) -> Result<(), Failure> {
    let arguments::Console { listen, token_file, allow_host, tls_certificate, tls_key, client_ca } = arguments;
    let options = ServeOptions { allow_hosts: allow_host, token_file, ..ServeOptions::new(listen) };
    let options = options.with_tls(tls_certificate, tls_key, client_ca).map_err(refused)?;
    let state = context.state_directory()?;
    let endpoint = Endpoint::bind(options).map_err(refused)?;
    let url = endpoint.url();
    let deaf = |error: std::io::Error| Failure::usage("signals cannot be listened for").because(error.to_string());
    let mut interrupts = signal(SignalKind::interrupt()).map_err(deaf)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(deaf)?;
    // Programs read this line and go on, so it must come first and be alone on its line.
    match context.output.is_document() {
        true => print(&format!("{}\n", json!({ "url": url }))),
        false => print(&format!("{url}\n")),
    }
    context.output.say(&format!("showing {}; it changes nothing. End: Ctrl-C", state.path().display()));
    let end = CancellationToken::new();
    let serving = endpoint.serve(state, end.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = interrupts.recv() => { end.cancel(); serving.await }
        _ = terminations.recv() => { end.cancel(); serving.await }
    };
    served.map_err(refused)
}

/// Why there is no console, and what helps.
fn refused(error: Error) -> Failure {
    let remedy = match &error {
        Error::Unguarded { .. } | Error::ShortToken { .. } => format!(
            "--token-file FILE, whose first line has at least {LEAST_TOKEN_CHARACTERS} characters: openssl rand -hex 32 > \
             FILE; or --client-ca FILE with --tls-certificate and --tls-key"
        ),
        Error::Serve { .. } => "choose another address with --listen; port 0 takes a free one".to_owned(),
        _ => return Failure::usage(error.to_string()),
    };
    let failure = Failure::usage(error.to_string()).remedy(remedy);
    match std::error::Error::source(&error) {
        Some(cause) => failure.because(cause.to_string()),
        None => failure,
    }
}

/// A console beside other work of this process.
pub(crate) struct Beside {
    /// Where it is.
    pub(crate) url: String,
    end: CancellationToken,
    serving: JoinHandle<()>,
}

impl Beside {
    /// Ends it.
    pub(crate) async fn end(self) {
        self.end.cancel();
        // One that panicked has ended as well.
        let _ = self.serving.await;
    }
}

/// Serves the pages of this directory on this machine, on the usual port where it is free.
pub(crate) async fn beside(state: StateDirectory) -> Result<Beside, Failure> {
    let endpoint = Endpoint::bind(ServeOptions::new(USUAL))
        .or_else(|_| Endpoint::bind(ServeOptions::new(SocketAddr::new(USUAL.ip(), 0))))
        .map_err(refused)?;
    let url = endpoint.url();
    let end = CancellationToken::new();
    let ended = end.clone();
    let serving = tokio::spawn(async move {
        if let Err(error) = endpoint.serve(state, ended).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the console is no longer served");
        }
    });
    Ok(Beside { url, end, serving })
}
