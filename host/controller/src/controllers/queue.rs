//! What waits for its reconcile, by the names that controller-runtime gives the metrics of its work queues.
//!
//! kube-rs does not show its scheduler, so what goes into it and what comes out is noted: events that name an object,
//! the times at which reconciles want to look again, and the reconciles. As there, an object that is named again before
//! its turn is one item.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metric_names::{
    QUEUE_ADDS, QUEUE_DEPTH, QUEUE_LONGEST_RUNNING, QUEUE_RETRIES, QUEUE_SECONDS, QUEUE_UNFINISHED, QUEUE_WORK_SECONDS,
};
use crate::shard::Shard;

/// How often it is counted what waits and what runs.
const INTERVAL: Duration = Duration::from_secs(5);

/// The namespace and the name of an object.
type Key = (String, String);

/// The queue of one kind.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// As controller-runtime calls controllers: the kind in lower-case letters.
    name: Arc<str>,
    shard: Shard,
    items: Arc<Mutex<HashMap<Key, Item>>>,
}

/// What is known of one object; one about which nothing is known is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Item {
    /// Since when it waits.
    waits: Option<Instant>,
    /// From when on it waits, if nothing names it before.
    due: Option<Instant>,
    /// Since when its reconcile runs.
    runs: Option<Instant>,
}

impl Item {
    /// Since when it waits, as of now.
    fn waiting(&self, now: Instant) -> Option<Instant> {
        self.waits.or(self.due.filter(|due| *due <= now))
    }
}

/// What is counted of all items.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    depth: usize,
    unfinished: Duration,
    longest: Duration,
}

impl Queue {
    pub(super) fn new(kind: &str, shard: Shard) -> Self {
        let queue = Self { name: kind.to_ascii_lowercase().into(), shard, items: Arc::default() };
        // Shown before the first of them.
        counter!(QUEUE_ADDS, "name" => queue.name()).increment(0);
        counter!(QUEUE_RETRIES, "name" => queue.name()).increment(0);
        queue
    }

    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// An event names this object.
    pub(super) fn add<K: Resource>(&self, object: &K) {
        self.add_item((object.namespace().unwrap_or_default(), object.name_any()), Instant::now());
    }

    /// An event names these objects; what it names is given back.
    pub(super) fn add_all<K: Resource>(&self, objects: impl IntoIterator<Item = ObjectRef<K>>) -> Vec<ObjectRef<K>> {
        let now = Instant::now();
        let add = |object: &ObjectRef<K>| {
            self.add_item((object.namespace.clone().unwrap_or_default(), object.name.clone()), now);
        };
        objects.into_iter().inspect(add).collect()
    }

    fn add_item(&self, key: Key, now: Instant) {
        let mut items = self.items.lock();
        let item = items.entry(key).or_default();
        if item.waiting(now).is_none() {
            item.waits = Some(now);
            counter!(QUEUE_ADDS, "name" => self.name()).increment(1);
        }
    }

    /// The reconcile of this object begins.
    pub(super) fn begin<K: Resource>(&self, object: &K) {
        self.begin_item((object.namespace().unwrap_or_default(), object.name_any()), Instant::now());
    }

    fn begin_item(&self, key: Key, now: Instant) {
        let mut items = self.items.lock();
        let item = items.entry(key).or_default();
        if item.waits.is_none() {
            // Its time has come.
            counter!(QUEUE_ADDS, "name" => self.name()).increment(1);
        }
        let since = item.waiting(now).unwrap_or(now);
        histogram!(QUEUE_SECONDS, "name" => self.name()).record((now - since).as_secs_f64());
        *item = Item { runs: Some(now), ..Item::default() };
    }

    /// The reconcile of this object has ended, and the next one is due after this time.
    pub(super) fn end<K: Resource>(&self, object: &K, again_after: Option<Duration>, failed: bool) {
        let key = (object.namespace().unwrap_or_default(), object.name_any());
        self.end_item(key, Instant::now(), again_after, failed);
    }

    fn end_item(&self, key: Key, now: Instant, again_after: Option<Duration>, failed: bool) {
        let mut items = self.items.lock();
        let item = items.entry(key.clone()).or_default();
        if let Some(since) = item.runs.take() {
            histogram!(QUEUE_WORK_SECONDS, "name" => self.name()).record((now - since).as_secs_f64());
        }
        if failed {
            counter!(QUEUE_RETRIES, "name" => self.name()).increment(1);
        }
        item.due = again_after.and_then(|after| now.checked_add(after));
        if *item == Item::default() {
            items.remove(&key);
        }
    }

    /// There is no such object, or it is another controller's: nothing will begin.
    pub(super) fn forget(&self, namespace: Option<&str>, name: &str) {
        self.items.lock().remove(&(namespace.unwrap_or_default().to_owned(), name.to_owned()));
    }

    fn counts(&self, now: Instant) -> Counts {
        let mut counts = Counts::default();
        for item in self.items.lock().values() {
            counts.depth += usize::from(item.waiting(now).is_some());
            if let Some(since) = item.runs {
                counts.unfinished += now - since;
                counts.longest = counts.longest.max(now - since);
            }
        }
        counts
    }

    /// Counts what waits and what runs, until the end.
    pub(super) async fn count(self, stop: CancellationToken) {
        loop {
            let counts = self.counts(Instant::now());
            let labels = self.shard.labels([("name", self.name.to_string())]);
            gauge!(QUEUE_DEPTH, labels.clone()).set(counts.depth as f64);
            gauge!(QUEUE_UNFINISHED, labels.clone()).set(counts.unfinished.as_secs_f64());
            gauge!(QUEUE_LONGEST_RUNNING, labels).set(counts.longest.as_secs_f64());
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = stop.cancelled() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::with_local_recorder;
    use windlass_telemetry::Metrics;

    use super::*;

    #[test]
    fn an_object_is_one_item_until_its_turn_and_waits_again_when_its_time_has_come() {
        let (start, recorder) = (Instant::now(), Metrics::new());
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = |name: &str| ("ci".to_owned(), name.to_owned());
        let text = with_local_recorder(&recorder, || {
            let queue = Queue::new("AppleSiliconMachine", Shard::WHOLE);
            queue.add_item(key("a"), at(0));
            queue.add_item(key("a"), at(1));
            queue.add_item(key("b"), at(1));
            assert_eq!(queue.counts(at(1)).depth, 2);
            queue.begin_item(key("a"), at(4));
            queue.add_item(key("a"), at(5));
            let counts = Counts { depth: 2, unfinished: Duration::from_secs(3), longest: Duration::from_secs(3) };
            assert_eq!(queue.counts(at(7)), counts, "one of them runs, and waits for its next turn");
            queue.end_item(key("a"), at(9), Some(Duration::from_secs(60)), false);
            queue.begin_item(key("a"), at(9));
            queue.end_item(key("a"), at(10), Some(Duration::from_secs(60)), true);
            queue.forget(Some("ci"), "b");
            assert_eq!((queue.counts(at(69)).depth, queue.counts(at(70)).depth), (0, 1), "its time has come");
            queue.begin_item(key("a"), at(72));
            queue.end_item(key("a"), at(72), None, false);
            assert!(queue.items.lock().is_empty(), "{queue:?}");
            recorder.render()
        });
        for line in [
            "workqueue_adds_total{name=\"applesiliconmachine\"} 4",
            "workqueue_retries_total{name=\"applesiliconmachine\"} 1",
            // 4 s, 4 s and 2 s.
            "workqueue_queue_duration_seconds_sum{name=\"applesiliconmachine\"} 10",
            "workqueue_queue_duration_seconds_count{name=\"applesiliconmachine\"} 3",
            "workqueue_work_duration_seconds_sum{name=\"applesiliconmachine\"} 6",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
