use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result};

/// Long enough for a slow, busy machine; nothing is asserted about how much less it takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// Between the first looks, and between later ones: what takes long may end a moment later, and each look costs the API
/// server as much as a write.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A pause is this part of what was waited for already.
const PART: u32 = 8;

/// Asks until the answer is `Ok`, and gives its value.
///
/// An error means "not yet", whatever its cause: an API server may be restarting. The last one stands in the error.
///
/// # Errors
/// When it has not come to that within ten minutes.
pub async fn eventually<T, F>(what: &str, ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    eventually_within(LIMIT, what, ask).await
}

/// [`eventually`] with a limit of one's own: so many pauses as fit into it, whatever the clock says meanwhile, since a
/// machine may stand still for minutes.
///
/// # Errors
/// When it has not come to that within `limit`.
pub async fn eventually_within<T, F>(limit: Duration, what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut waited = Duration::ZERO;
    while waited < limit {
        match ask().await {
            Ok(value) => return Ok(value),
            Err(_) => {
                let pause = (waited / PART).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                tokio::time::sleep(pause).await;
                waited += pause;
            }
        }
    }
    let last = ask().await;
    last.with_context(|| format!("not within {limit:?}: {what}; in the end"))
}
