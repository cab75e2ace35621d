//! An answer of Scaleway's that serves many for a while, and is asked for once for all who want it meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_concurrency::Flight;

/// The last answer to one question, and the call for the next one.
#[derive(Debug)]
pub(crate) struct Answer<T, E> {
    latest: Mutex<Option<(Instant, T)>>,
    flight: Flight<Result<T, E>>,
}

impl<T, E> Default for Answer<T, E> {
    fn default() -> Self {
        Self { latest: Mutex::default(), flight: Flight::default() }
    }
}

impl<T, E> Answer<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// An answer that is younger than `fresh`. One caller asks for it, those who come meanwhile share what it gets; a
    /// failure is not kept.
    pub(crate) async fn get<Fut>(self: &Arc<Self>, fresh: Duration, ask: impl Fn() -> Fut) -> Result<T, E>
    where
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let latest = self.latest.lock().as_ref().filter(|(at, _)| at.elapsed() < fresh).map(|(_, known)| known.clone());
        if let Some(known) = latest {
            return Ok(known);
        }
        let start = || {
            let (answer, asked) = (Arc::clone(self), ask());
            async move {
                let found = asked.await?;
                *answer.latest.lock() = Some((Instant::now(), found.clone()));
                Ok(found)
            }
        };
        self.flight.join(start).await
    }
}
