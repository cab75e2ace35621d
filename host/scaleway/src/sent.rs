use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

tokio::task_local! {
    static OBSERVED: Arc<AtomicBool>;
}

/// Tells whether a call has left this process. As long as it has not – it waits for the client's own limits – nothing
/// can have happened, and its future may be dropped without leaving a doubt.
#[derive(Debug, Clone, Default)]
pub struct Sent(Arc<AtomicBool>);

impl Sent {
    /// Whether any of the observed calls has left, or may have.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Observes the calls that this future makes, whatever client makes them.
    pub async fn observe<F: Future>(&self, calls: F) -> F::Output {
        OBSERVED.scope(Arc::clone(&self.0), calls).await
    }
}

/// A call leaves now.
pub(crate) fn mark() {
    // Nobody may be observing.
    let _ = OBSERVED.try_with(|sent| sent.store(true, Ordering::Relaxed));
}
