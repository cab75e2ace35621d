//! Watches objects for the stand-ins of programs that watch. If they polled instead, polling would be most of the load of
//! an idle API server.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::{FutureExt as _, Stream, StreamExt as _};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// The changes of the objects that an `Api` shows.
pub(crate) struct Changes(Pin<Box<dyn Stream<Item = ()> + Send>>);

impl Changes {
    pub(crate) fn of<K>(api: &Api<K>) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        Self(watcher(api.clone(), watcher::Config::default()).default_backoff().map(|event| drop(event.ok())).boxed())
    }

    /// Waits for a change, and for `pause` longer: several at once are one.
    pub(crate) async fn next(&mut self, pause: Duration) {
        self.0.next().await;
        tokio::time::sleep(pause).await;
        while let Some(Some(())) = self.0.next().now_or_never() {}
    }
}
