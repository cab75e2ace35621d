//! The group's state as web pages, beside the metrics.

use windlass_console::{Beside, Endpoint, Error, Prices, ServeOptions};
use windlass_lifecycle::StateDirectory;
use windlass_scaleway::Client;

/// Begins to show the group's folder, with what machines cost by this client's catalogue, until what is returned is
/// dropped.
///
/// # Errors
/// A file cannot be used, or nobody can listen there.
pub(crate) fn serve_console(options: &ServeOptions, state: &StateDirectory, client: Client) -> Result<Beside, Error> {
    let endpoint = Endpoint::bind(options.clone())?;
    let prices = Prices::new();
    let console = endpoint.console(state.clone()).with_prices(prices.clone());
    let beside = endpoint.serve_beside(console)?;
    tokio::spawn(async move {
        let client = &client;
        prices.keep(|zone| async move { client.hourly_prices(&zone).await }).await;
    });
    Ok(beside)
}
