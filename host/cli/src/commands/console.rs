//! `windlass console`: the state directory as web pages, until it is asked to stop.

use std::net::SocketAddr;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_console::{Candidates, Endpoint, Error, MIN_TOKEN_CHARACTERS, Prices, ServeOptions};
use windlass_inspect::failure::Failure;
use windlass_lifecycle::StateDirectory;
use windlass_policy::Source;
use windlass_scaleway::Client;

use crate::arguments;
use crate::context::{Context, client};
use crate::interrupt::EndSignals;

/// Where it is where nothing else is said.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7474);

pub(crate) async fn run(context: &Context, arguments: arguments::Console) -> Result<(), Failure> {
    let arguments::Console { listen, token_file, allow_host, tls_certificate, tls_key, client_ca, policies } =
        arguments;
    let options = ServeOptions { allow_hosts: allow_host, token_file, ..ServeOptions::new(listen) };
    let options = options.with_tls(tls_certificate, tls_key, client_ca).map_err(refused)?;
    let state = context.state_directory()?;
    let endpoint = Endpoint::bind(options).map_err(refused)?;
    let url = endpoint.url();
    let mut console = endpoint.console(state.clone()).with_rehearsals(windlass_rehearsal::shown);
    // Removed when the console ends.
    let scratch;
    if let Some(folder) = &policies {
        scratch = tempfile::Builder::new().prefix("windlass-console-").tempdir().map_err(|error| {
            Failure::usage("no folder can be made for compiled policies").because(error.to_string())
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
    let mut ends = EndSignals::listen()?;
    context.output.first_line(&json!({ "url": url }), &url);
    context.output.say(&format!("showing {}; it changes nothing. End: Ctrl-C", state.location().display()));
    let end = CancellationToken::new();
    let serving = endpoint.serve(console, end.clone());
    tokio::pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        _ = ends.recv() => { end.cancel(); serving.await }
    };
    if let Some(asking) = asking {
        asking.abort();
    }
    served.map_err(refused)
}

/// Why there is no console, and what helps.
fn refused(error: Error) -> Failure {
    let failure = match std::error::Error::source(&error) {
        Some(cause) => Failure::usage(error.to_string()).because(cause.to_string()),
        None => Failure::usage(error.to_string()),
    };
    match &error {
        Error::Unguarded { .. } | Error::ShortToken { .. } => failure.remedy(format!(
            "--token-file FILE, whose first line has at least {MIN_TOKEN_CHARACTERS} characters: openssl rand -hex \
             32 > FILE; or --client-ca FILE with --tls-certificate and --tls-key"
        )),
        Error::Hosts { .. } => failure.at("--allow-host"),
        Error::Serve { .. } => failure.remedy("choose another address with --listen; port 0 takes a free one"),
        _ => failure,
    }
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
    let scratch = Dir::open_ambient_dir(scratch, ambient_authority()).map_err(refused)?;
    let host = context.offline_policy_host(scratch, None)?;
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

/// Asks the catalogue for what pages want to know, for as long as there is a console for it.
async fn ask_for_prices(client: Client, prices: Prices) {
    let client = &client;
    prices.keep(|zone| async move { client.hourly_prices(&zone).await }).await;
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
    let endpoint = Endpoint::bind(ServeOptions::new(USUAL))
        .or_else(|_| Endpoint::bind(ServeOptions::new(SocketAddr::new(USUAL.ip(), 0))))
        .map_err(refused)?;
    let url = endpoint.url();
    let end = CancellationToken::new();
    let ended = end.clone();
    let prices = Prices::new();
    let console = endpoint.console(state).with_prices(prices.clone());
    let asking = tokio::spawn(ask_for_prices(client, prices));
    let serving = tokio::spawn(async move {
        if let Err(error) = endpoint.serve(console, ended).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "the console is no longer served");
        }
    });
    Ok(Beside { url, end, serving, asking })
}
