//! `windlass console`: the state directory as web pages, until it is told to end.

use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_console::{Access, Console, LEAST_TOKEN_CHARACTERS, serve};
use windlass_lifecycle::StateDirectory;

use crate::arguments;
use crate::context::Context;
use crate::failure::Failure;
use crate::files::read_text;
use crate::output::print;

/// Where it is where nothing else is said.
const USUAL: (&str, u16) = ("127.0.0.1", 7474);
/// The longest file of a token.
const LARGEST_TOKEN_BYTES: u64 = 4 << 10;

pub(crate) async fn run(context: &Context, arguments: arguments::Console) -> Result<(), Failure> {
    let token = match &arguments.token_file {
        None => None,
        Some(path) => {
            let text = read_text(path, "the token", LARGEST_TOKEN_BYTES)?;
            Some(text.lines().next().unwrap_or_default().trim().to_owned())
        }
    };
    let access = Access::new(arguments.listen, arguments.allow_host, token.as_deref()).map_err(|error| {
        Failure::usage(error.to_string()).remedy(format!(
            "--token-file FILE, whose first line has at least {LEAST_TOKEN_CHARACTERS} characters: openssl rand -hex \
             32 > FILE"
        ))
    })?;
    let refused = |error: std::io::Error| {
        Failure::usage("the console cannot listen")
            .at(arguments.listen.to_string())
            .because(error.to_string())
            .remedy("choose another address with --listen; port 0 takes a free one")
    };
    let state = context.state_directory()?;
    let listener = TcpListener::bind(arguments.listen).await.map_err(refused)?;
    let url = format!("http://{}", listener.local_addr().map_err(refused)?);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(refused)?;
    let mut terminations = signal(SignalKind::terminate()).map_err(refused)?;
    // Programs read this line and go on, so it must come first and be alone on its line.
    match context.output.is_document() {
        true => print(&format!("{}\n", json!({ "url": url }))),
        false => print(&format!("{url}\n")),
    }
    context.output.say(&format!("showing {}; it changes nothing. End: Ctrl-C", state.path().display()));
    let end = CancellationToken::new();
    let serving = serve(listener, Console::new(state, access), end.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = interrupts.recv() => { end.cancel(); serving.await }
        _ = terminations.recv() => { end.cancel(); serving.await }
    };
    served.map_err(|error| Failure::usage(error.to_string()))
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
    let refused = |error: std::io::Error| Failure::usage("the console cannot listen").because(error.to_string());
    let listener = match TcpListener::bind(USUAL).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind((USUAL.0, 0)).await.map_err(refused)?,
    };
    let address = listener.local_addr().map_err(refused)?;
    let access = Access::new(address, [], None).map_err(|error| Failure::usage(error.to_string()))?;
    let end = CancellationToken::new();
    let ended = end.clone();
    let serving = tokio::spawn(async move {
        if let Err(error) = serve(listener, Console::new(state, access), ended).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the console is no longer served");
        }
    });
    Ok(Beside { url: format!("http://{address}"), end, serving })
}
