//! A panic is a defect, and what it leaves behind in memory cannot be trusted: the process ends, so that Kubernetes
//! starts it anew and the journal says where it was. Where a process has several shards, that of the panic ends, with
//! everything that it has in memory. Panics that are caught on purpose, in policies, are none of these.

use tokio_util::sync::CancellationToken;

/// Held by every task: cancels the token when the task panics.
#[derive(Debug)]
pub(crate) struct EndOnPanic(pub(crate) CancellationToken);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.cancel();
        }
    }
}

/// Panics where `WINDLASS_TEST_PANIC` names this place and this object: how it is tried that a panic ends the process.
/// Not in what is handed out.
pub(crate) fn panic_for_tests(place: &str, name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var("WINDLASS_TEST_PANIC").is_ok_and(|wanted| wanted == format!("{place}:{name}")) {
        panic!("a test asked for a panic in {place} of {name}");
    }
    #[cfg(not(debug_assertions))]
    let _ = (place, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_cancels_and_an_ordinary_end_does_not() {
        let token = CancellationToken::new();
        let guard = EndOnPanic(token.clone());
        tokio::spawn(async move { drop(guard) }).await.unwrap();
        assert!(!token.is_cancelled());
        let guard = EndOnPanic(token.clone());
        let task = tokio::spawn(async move {
            let _guard = guard;
            tokio::task::yield_now().await;
            panic!("on purpose");
        });
        assert!(task.await.unwrap_err().is_panic());
        assert!(token.is_cancelled());
    }
}
