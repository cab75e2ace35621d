use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use super::*;

/// Calls that take their time, and what is known of them.
#[derive(Default)]
struct Calls {
    begun: AtomicUsize,
    under_way: AtomicUsize,
    most_at_once: AtomicUsize,
    ended: AtomicUsize,
}

/// Counts one call as under way for as long as its future lives.
struct Counted(Arc<Calls>);

impl Counted {
    fn new(calls: &Arc<Calls>) -> Self {
        let now = calls.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        calls.most_at_once.fetch_max(now, Ordering::Relaxed);
        Self(Arc::clone(calls))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Calls {
    /// A call of this length; it answers its number, as a failure when that is odd.
    fn call(self: &Arc<Self>, length: Duration) -> impl Future<Output = Result<usize, usize>> + Send + use<> {
        let calls = Arc::clone(self);
        let number = calls.begun.fetch_add(1, Ordering::Relaxed);
        async move {
            let _counted = Counted::new(&calls);
            sleep(length).await;
            calls.ended.fetch_add(1, Ordering::Relaxed);
            if number.is_multiple_of(2) { Ok(number) } else { Err(number) }
        }
    }

    fn count(&self) -> (usize, usize) {
        (self.begun.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn all_who_ask_meanwhile_share_one_call_and_its_failure() {
    let (flight, calls) = (Flight::default(), Arc::new(Calls::default()));
    // The first call, number 0, ends well; the second one fails.
    assert_eq!(flight.join(|| calls.call(SECOND)).await, Ok(0));
    let began = Instant::now();
    let all = join_all((0..50_u32).map(|number| {
        let (flight, calls) = (&flight, &calls);
        async move {
            sleep(SECOND * number / 100).await;
            flight.join(|| calls.call(SECOND)).await
        }
    }))
    .await;
    assert!(all.iter().all(|outcome| *outcome == Err(1)), "{all:?}");
    assert_eq!(began.elapsed(), SECOND, "nobody waits for one call after the other");
    assert_eq!(flight.join(|| calls.call(SECOND)).await, Ok(2), "a failure is not kept");
    assert_eq!(calls.count(), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_others_get_an_answer_when_the_one_that_began_the_call_has_left() {
    let (flight, calls) = (Flight::default(), Arc::new(Calls::default()));
    let leaves = timeout(SECOND / 2, flight.join(|| calls.call(SECOND)));
    let stays = async {
        sleep(SECOND / 4).await;
        flight.join(|| calls.call(SECOND)).await
    };
    let began = Instant::now();
    let (left, stayed) = tokio::join!(leaves, stays);
    assert!(left.is_err());
    assert_eq!(stayed, Ok(0));
    assert_eq!((calls.count(), began.elapsed()), ((1, 1), SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_waits_for_any_more_is_abandoned() {
    let (flight, calls) = (Flight::default(), Arc::new(Calls::default()));
    let waits = || timeout(SECOND / 2, flight.join(|| calls.call(SECOND)));
    let (first, second) = tokio::join!(waits(), waits());
    assert!(first.is_err() && second.is_err());
    assert_eq!(calls.under_way.load(Ordering::Relaxed), 0);
    sleep(SECOND * 2).await;
    assert_eq!(calls.count(), (1, 0));
    assert_eq!(flight.join(|| calls.call(SECOND)).await, Err(1), "who comes later calls anew");
}

#[tokio::test(start_paused = true)]
async fn who_needs_a_younger_call_waits_for_the_older_one_and_shares_the_next() {
    let (flight, calls) = (Flight::default(), Arc::new(Calls::default()));
    let old = flight.join(|| calls.call(SECOND));
    let young = || async {
        sleep(SECOND / 2).await;
        flight.join_since(Some(Instant::now()), || calls.call(SECOND)).await
    };
    let began = Instant::now();
    let (old, first, second) = tokio::join!(old, young(), young());
    assert_eq!((old, first, second), (Ok(0), Err(1), Err(1)));
    assert_eq!(began.elapsed(), SECOND * 2);
    assert_eq!((calls.count(), calls.most_at_once.load(Ordering::Relaxed)), ((2, 2), 1));
}

/// When a caller comes, how long it stays at most, and whether it needs a call that began no earlier than itself.
fn caller() -> impl Strategy<Value = (u64, u64, bool)> {
    (0..3_000_u64, 1..4_000_u64, any::<bool>())
}

proptest! {
    #[test]
    fn whoever_comes_and_leaves_there_is_one_call_at_a_time_and_nobody_waits_for_more_than_two(
        callers in prop::collection::vec(caller(), 1..20),
        length in 1..1_000_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let length = Duration::from_millis(length);
        let (calls, ends) = runtime.block_on(async {
            let (flight, calls) = (Flight::default(), Arc::new(Calls::default()));
            let ends = join_all(callers.iter().map(|&(comes, stays, younger)| {
                let (flight, calls) = (&flight, &calls);
                async move {
                    sleep(Duration::from_millis(comes)).await;
                    let came = Instant::now();
                    let since = younger.then_some(came);
                    let outcome =
                        timeout(Duration::from_millis(stays), flight.join_since(since, || calls.call(length))).await;
                    (outcome.ok(), came.elapsed(), Duration::from_millis(stays))
                }
            }))
            .await;
            (calls, ends)
        });
        prop_assert!(calls.most_at_once.load(Ordering::Relaxed) <= 1);
        prop_assert_eq!(calls.under_way.load(Ordering::Relaxed), 0);
        let mut outcomes: BTreeMap<usize, bool> = BTreeMap::new();
        for (outcome, waited, stays) in ends {
            match outcome {
                Some(outcome) => {
                    prop_assert!(waited <= length * 2, "{waited:?} for calls of {length:?}");
                    let number = outcome.unwrap_or_else(|number| number);
                    prop_assert_eq!(*outcomes.entry(number).or_insert(outcome.is_ok()), outcome.is_ok());
                }
                None => prop_assert_eq!(waited, stays, "it left when it wanted to"),
            }
        }
    }
}
