//! A single flight: one call for everybody who asks the same thing at the same time.

use std::future::Future;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::time::Instant;

use crate::sync::Mutex;

type Call<T> = BoxFuture<'static, T>;

/// Shares one call, and its outcome, among those who ask for the same thing while it is under way.
///
/// # Guarantees
/// - At most one call is under way at a time.
/// - All who wait for it get the same outcome, failures included: nobody waits for one call after the other. An outcome
///   is not kept; who comes after it calls anew.
/// - A waiter that is dropped ends its own wait at once and nobody else's, also when it was the one that began the
///   call. When nobody waits any more, the call is abandoned. So it must be one that changes nothing.
pub struct Flight<T>(Mutex<Option<UnderWay<T>>>);

struct UnderWay<T> {
    began: Instant,
    /// Held by those who wait, and by them alone.
    call: WeakShared<Call<T>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> std::fmt::Debug for Flight<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let began = self.0.lock().as_ref().map(|under_way| under_way.began);
        formatter.debug_struct("Flight").field("began", &began).finish_non_exhaustive()
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// The outcome of the call that is under way, or of a new one.
    pub async fn join<Fut>(&self, start: impl Fn() -> Fut) -> T
    where
        Fut: Future<Output = T> + Send + 'static,
    {
        self.join_since(None, start).await
    }

    /// The same, of a call that began at `since` or later. One that began before is waited for, so that there are never
    /// two; all who wait for its end share the next one, so nobody waits for more than two.
    pub async fn join_since<Fut>(&self, since: Option<Instant>, start: impl Fn() -> Fut) -> T
    where
        Fut: Future<Output = T> + Send + 'static,
    {
        loop {
            let (began, call) = self.current(&start);
            let outcome = call.await;
            if since.is_none_or(|since| began >= since) {
                return outcome;
            }
        }
    }

    fn current<Fut>(&self, start: impl Fn() -> Fut) -> (Instant, Shared<Call<T>>)
    where
        Fut: Future<Output = T> + Send + 'static,
    {
        let mut under_way = self.0.lock();
        let joined = under_way.as_ref().and_then(|known| Some((known.began, known.call.upgrade()?)));
        // One that has ended may still be held by a waiter that has not looked yet.
        if let Some((began, call)) = joined.filter(|(_, call)| call.peek().is_none()) {
            return (began, call);
        }
        let (began, call) = (Instant::now(), start().boxed().shared());
        *under_way = call.downgrade().map(|call| UnderWay { began, call });
        (began, call)
    }
}

#[cfg(all(test, not(windlass_interleavings)))]
mod tests;
