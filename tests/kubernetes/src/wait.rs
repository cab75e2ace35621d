use std::future::Future;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Long enough for a slow, busy machine; nothing is asserted about how much less it takes.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// Asks until the answer is `Ok`, and gives its value.
///
/// An error means "not yet", whatever its cause: an API server may be restarting. The last one stands in the error.
///
/// # Errors
/// When it has not come to that within two minutes.
pub async fn eventually<T, F>(what: &str, ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    eventually_within(LIMIT, what, ask).await
}

/// [`eventually`] with a limit of one's own.
///
/// # Errors
/// When it has not come to that within `limit`.
pub async fn eventually_within<T, F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + limit;
    loop {
        match ask().await {
            Ok(value) => return Ok(value),
            Err(error) if Instant::now() >= deadline => bail!("not within {limit:?}: {what}; in the end: {error:#}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
