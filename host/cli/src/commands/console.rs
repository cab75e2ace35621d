//! `windlass console`: the state directory as web pages, until it is told to end.

use std::path::Path;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_console::{Access, Candidates, Console, LEAST_TOKEN_CHARACTERS, Prices, serve};
use windlass_lifecycle::StateDirectory;
use windlass_policy::Source;
use windlass_scaleway::{Client, Zone};

use crate::arguments;
use crate::context::{Context, client};
use crate::failure::Failure;
use crate::files::read_text;
use crate::output::print;

/// Where it is where nothing else is said.
const USUAL: (&str, u16) = ("127.0.0.1", 7474);
/// How often it is looked whether a page wants the prices of a zone, and how long after a failure.
const PRICE_INTERVAL: Duration = Duration::from_secs(1);
const PRICE_PAUSE: Duration = Duration::from_secs(60);
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
            "--token-file FILE, whose first line has at least {LEAST_TOKEN_CHARACTERS} characters: openssl rand -hex 32 > FILE"
        ))
    })?;
    let refused = |error: std::io::Error| {
        Failure::usage("the console cannot listen")
            .at(arguments.listen.to_string())
            .because(error.to_string())
            .remedy("choose another address with --listen; port 0 takes a free one")
    };
    let state = context.state_directory()?;
    let mut console = Console::new(state.clone(), access);
    // Removed when the console ends.
    let scratch;
    if let Some(folder) = &arguments.policies {
        scratch = tempfile::Builder::new().prefix("windlass-console-").tempdir().map_err(|error| {
            Failure::usage("there is no place for the policies' compiled forms").because(error.to_string())
        })?;
        console = console.with_candidates(candidates(context, folder, scratch.path())?);
    }
    // Without credentials there are no prices, which the page says.
    let mut asking = None;
    if let Ok(settings) = context.quiet_settings(None) {
        let prices = Prices::new();
        console = console.with_prices(prices.clone());
        asking = Some(tokio::spawn(ask_for_prices(client(settings)?, prices)));
    }
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
    let serving = serve(listener, console, end.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = interrupts.recv() => { end.cancel(); serving.await }
        _ = terminations.recv() => { end.cancel(); serving.await }
    };
    if let Some(asking) = asking {
        asking.abort();
    }
    served.map_err(|error| Failure::usage(error.to_string()))
}

/// The policies of a folder, run by a host with a state folder of its own. One that the configuration names has the
/// settings and grants that stand there.
fn candidates(context: &Context, folder: &Path, scratch: &Path) -> Result<Candidates, Failure> {
    let refused = |error: std::io::Error| {
        Failure::usage("the folder of policies cannot be read")
            .at(folder.display().to_string())
            .because(error.to_string())
            .remedy("name a folder with files that end in .wasm or .rules.toml")
    };
    let opened = Dir::open_ambient_dir(folder, ambient_authority()).map_err(refused)?;
    let canonical = folder.canonicalize().map_err(refused)?;
    let host = context.offline_policy_host(Dir::open_ambient_dir(scratch, ambient_authority()).map_err(refused)?)?;
    let mut candidates = Candidates::new(opened, host);
    for link in context.configuration.policies.links() {
        let Source::File(path) = &link.source else { continue };
        let path = path.canonicalize().ok();
        let name = path.as_deref().filter(|path| path.parent() == Some(&canonical)).and_then(Path::file_name);
        if let Some(name) = name.and_then(|name| name.to_str()) {
            candidates = candidates.with_link(name, link);
        }
    }
    Ok(candidates)
}

/// Asks the catalogue of each zone that a page wants the prices of, once, for as long as the console is there.
async fn ask_for_prices(client: Client, prices: Prices) {
    loop {
        let mut pause = PRICE_INTERVAL;
        for name in prices.wanted() {
            let Ok(zone) = name.parse::<Zone>() else {
                prices.set(&name, []);
                continue;
            };
            match client.instance(&zone).list_server_types().await {
                Ok(types) => prices.set(&name, types.into_iter().map(|(name, of)| (name, of.hourly_price))),
                Err(error) => {
                    tracing::warn!(%zone, error = &error as &dyn std::error::Error, "no prices from the catalogue");
                    pause = PRICE_PAUSE;
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// A console beside other work of this process.
pub(crate) struct Beside {
    /// Where it is.
    pub(crate) url: String,
    end: CancellationToken,
    serving: JoinHandle<()>,
    asking: JoinHandle<()>,
}

impl Beside {
    /// Ends it.
    pub(crate) async fn end(self) {
        self.end.cancel();
        self.asking.abort();
        // One that panicked has ended as well.
        let _ = self.serving.await;
    }
}

/// Serves the pages of this directory on this machine, on the usual port where it is free; with the prices of this
/// client's catalogue.
pub(crate) async fn beside(state: StateDirectory, client: Client) -> Result<Beside, Failure> {
    let refused = |error: std::io::Error| Failure::usage("the console cannot listen").because(error.to_string());
    let listener = match TcpListener::bind(USUAL).await {
        Ok(listener) => listener,
        Err(_) => TcpListener::bind((USUAL.0, 0)).await.map_err(refused)?,
    };
    let address = listener.local_addr().map_err(refused)?;
    let access = Access::new(address, [], None).map_err(|error| Failure::usage(error.to_string()))?;
    let end = CancellationToken::new();
    let ended = end.clone();
    let prices = Prices::new();
    let console = Console::new(state, access).with_prices(prices.clone());
    let asking = tokio::spawn(ask_for_prices(client, prices));
    let serving = tokio::spawn(async move {
        if let Err(error) = serve(listener, console, ended).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the console is no longer served");
        }
    });
    Ok(Beside { url: format!("http://{address}"), end, serving, asking })
}
