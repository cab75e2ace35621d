use tokio::sync::{Semaphore, SemaphorePermit};

use crate::settings::Limits;

/// The products whose APIs this client speaks, by the first segment of their paths.
const PRODUCTS: [&str; 6] = ["instance", "block", "ipam", "marketplace", "apple-silicon", "iam"];

/// So many calls under way at a time for each product: one that hangs does not keep the others waiting. All that raw
/// requests may name beside them shares one more account.
pub(crate) struct Concurrency([Semaphore; PRODUCTS.len() + 1]);

impl Concurrency {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self(std::array::from_fn(|_| Semaphore::new(limits.concurrent_calls.get() as usize)))
    }

    /// Waits for a place for a call of this path.
    pub(crate) async fn place(&self, path: &str) -> SemaphorePermit<'_> {
        let product = path.split('/').nth(1).unwrap_or_default();
        let account = PRODUCTS.iter().position(|known| *known == product).unwrap_or(PRODUCTS.len());
        self.0[account].acquire().await.expect("the semaphores are never closed")
    }
}
