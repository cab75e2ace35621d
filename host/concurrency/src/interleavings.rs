//! What holds under every schedule. Run by `just interleavings`.
//!
//! Each check runs under drawn schedules of two kinds: at each step any thread or task, and those that prefer one to
//! the others and change their mind seldom (PCT), which finds what needs a long delay at one point. A schedule that
//! breaks a promise is printed and can be played again with `shuttle::replay`. Waiting for ever is found, too: nobody
//! can go on.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use shuttle::future::{block_on, spawn, yield_now};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::thread;
use tokio::time::Instant;

use crate::*;

/// Schedules of each kind, unless `WINDLASS_SCHEDULES` says otherwise.
const SCHEDULES: usize = 2_000;
/// They are the same ones each time, unless `SHUTTLE_RANDOM_SEED` says otherwise.
const SEED: u64 = 1;
/// How often a schedule of the second kind changes its mind.
const CHANGES: usize = 3;

fn under_all_schedules(check: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("WINDLASS_SCHEDULES").map_or(SCHEDULES, |text| text.parse().expect("a number"));
    let check = Arc::new(check);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, seldom) = (Arc::clone(&check), check);
    shuttle::Runner::new(RandomScheduler::new_from_seed(SEED, schedules), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new_from_seed(SEED, CHANGES, schedules), config).run(move || seldom());
}

/// Waits for something so many looks long, and leaves.
struct Impatient<F> {
    wait: Pin<Box<F>>,
    looks: usize,
}

impl<F: Future> Impatient<F> {
    fn new(looks: usize, wait: F) -> Self {
        Self { wait: Box::pin(wait), looks }
    }
}

impl<F: Future> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.looks == 0 {
            return Poll::Ready(None);
        }
        self.looks -= 1;
        let outcome = self.wait.as_mut().poll(context).map(Some);
        if outcome.is_pending() && self.looks == 0 { Poll::Ready(None) } else { outcome }
    }
}

/// What was committed, and by whom it may be seen.
#[derive(Default)]
struct Committed {
    /// Whether a commit is under way: in SQLite, a transaction.
    under_way: Mutex<bool>,
    writes: Mutex<Vec<(usize, usize)>>,
    commits: Mutex<Vec<usize>>,
}

impl Committed {
    fn commit(&self, writes: &[(usize, usize)]) -> Vec<usize> {
        assert!(!std::mem::replace(&mut *self.under_way.lock().unwrap(), true), "two commits at once");
        self.commits.lock().unwrap().push(writes.len());
        self.writes.lock().unwrap().extend(writes);
        assert!(std::mem::replace(&mut *self.under_way.lock().unwrap(), false));
        writes.iter().map(|(writer, number)| writer * 10 + number).collect()
    }
}

fn start(committed: &Arc<Committed>, bounds: Bounds) -> GroupCommit<(usize, usize), usize> {
    let committed = Arc::clone(committed);
    GroupCommit::start("commit", bounds, move |writes: Vec<(usize, usize)>| committed.commit(&writes)).unwrap()
}

#[test]
fn each_write_is_committed_once_in_its_order_and_before_its_caller_hears_of_it() {
    under_all_schedules(|| {
        let committed = Arc::new(Committed::default());
        let group = Arc::new(start(&committed, Bounds { queue: 3, batch: 2 }));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (group, committed) = (Arc::clone(&group), Arc::clone(&committed));
                spawn(async move {
                    for number in 0..2 {
                        assert_eq!(group.write((writer, number)).await, Ok(writer * 10 + number));
                        let seen = committed.writes.lock().unwrap();
                        assert_eq!(seen.iter().filter(|write| **write == (writer, number)).count(), 1);
                        assert!(!seen.contains(&(writer, number + 1)));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| block_on(writer).unwrap());
        drop(group);
        assert_eq!(committed.writes.lock().unwrap().len(), 8);
        assert!(committed.commits.lock().unwrap().iter().all(|writes| (1..=2).contains(writes)));
    });
}

#[test]
fn what_was_queued_is_committed_although_its_caller_has_left_and_the_end_has_come() {
    under_all_schedules(|| {
        let committed = Arc::new(Committed::default());
        let group = Arc::new(start(&committed, Bounds { queue: 8, batch: 2 }));
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let group = Arc::clone(&group);
                spawn(async move { Impatient::new(1, group.write((writer, 0))).await })
            })
            .collect();
        // There is room for all, so each is queued at its first look.
        let answers = writers.into_iter().map(|writer| block_on(writer).unwrap());
        assert!(answers.zip(0..).all(|(answer, writer)| answer.is_none_or(|answer| answer == Ok(writer * 10))));
        drop(group);
        let mut writes = committed.writes.lock().unwrap().clone();
        writes.sort_unstable();
        assert_eq!(writes, [(0, 0), (1, 0), (2, 0)]);
    });
}

/// One operation of the journal, as far as claims go.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    runner: &'static str,
    open: bool,
}

#[derive(Clone, Debug)]
enum Change {
    /// `update ... set runner = to where runner = from and open`.
    Claim {
        from: &'static str,
        to: &'static str,
    },
    Close,
}

/// A process of those that share the journal.
struct Process {
    name: &'static str,
    active: ActiveKeys<u32>,
    journal: GroupCommit<Change, bool>,
}

impl Process {
    fn new(name: &'static str, row: &Arc<Mutex<Row>>) -> Arc<Self> {
        let row = Arc::clone(row);
        let commit = move |changes: Vec<Change>| {
            // Between processes, SQLite lets one commit at a time.
            let mut row = row.lock().unwrap();
            let apply = |change: &Change| match change {
                Change::Claim { from, to } if row.open && row.runner == *from => {
                    row.runner = to;
                    true
                }
                Change::Claim { .. } => false,
                Change::Close => std::mem::replace(&mut row.open, false),
            };
            changes.iter().map(apply).collect()
        };
        let bounds = Bounds { queue: 2, batch: 2 };
        Arc::new(Self {
            name,
            active: ActiveKeys::default(),
            journal: GroupCommit::start("journal", bounds, commit).unwrap(),
        })
    }

    /// As `Lifecycle::resume` claims: what a living process works on is left alone; what it holds then it claims from
    /// who had it when it was read. True when this one carried the operation to its end.
    async fn take_over(&self, row: &Mutex<Row>) -> bool {
        let read = row.lock().unwrap().clone();
        let runs = if read.runner == self.name { self.active.contains(&1) } else { read.runner != "dead" };
        if !read.open || runs {
            return false;
        }
        let Some(_active) = self.active.hold(&1) else { return false };
        let claimed = self.journal.write(Change::Claim { from: read.runner, to: self.name }).await.unwrap();
        if claimed {
            assert!(self.journal.write(Change::Close).await.unwrap(), "another one has closed it meanwhile");
        }
        claimed
    }
}

#[test]
fn of_all_who_claim_an_operation_of_a_dead_process_exactly_one_carries_it_on() {
    under_all_schedules(|| {
        let row = Arc::new(Mutex::new(Row { runner: "dead", open: true }));
        let processes = ["one", "two"].map(|name| Process::new(name, &row));
        let claims: Vec<_> = processes
            .iter()
            .flat_map(|process| [process, process])
            .map(|process| {
                let (process, row) = (Arc::clone(process), Arc::clone(&row));
                spawn(async move { process.take_over(&row).await })
            })
            .collect();
        let won = claims.into_iter().map(|claim| block_on(claim).unwrap()).filter(|won| *won).count();
        assert_eq!(won, 1);
        assert!(processes.iter().all(|process| process.active.all().is_empty()));
    });
}

#[test]
fn a_key_is_held_by_one_at_a_time_and_free_after_it() {
    under_all_schedules(|| {
        let keys = ActiveKeys::<u32>::default();
        let holders = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (keys, holders) = (keys.clone(), Arc::clone(&holders));
                thread::spawn(move || {
                    let Some(held) = keys.hold(&7) else { return };
                    *holders.lock().unwrap() += 1;
                    assert!(*holders.lock().unwrap() == 1 && keys.contains(held.key()));
                    *holders.lock().unwrap() -= 1;
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(keys.all().is_empty() && keys.hold(&7).is_some());
    });
}

/// Calls that are shared, and what is known of them.
#[derive(Default)]
struct Calls {
    begun: std::sync::Mutex<Vec<Instant>>,
    under_way: AtomicUsize,
    outcomes: std::sync::Mutex<BTreeMap<usize, Result<usize, usize>>>,
}

impl Calls {
    /// A call that takes two steps and answers its number, as a failure when that is odd.
    fn call(self: &Arc<Self>) -> impl Future<Output = Result<usize, usize>> + Send + use<> {
        /// Counts the call for as long as its future lives.
        struct Counted(Arc<Calls>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.under_way.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let number = self.begun.lock().unwrap().len();
        self.begun.lock().unwrap().push(Instant::now());
        assert_eq!(self.under_way.fetch_add(1, Ordering::Relaxed), 0, "two calls at once");
        let counted = Counted(Arc::clone(self));
        async move {
            yield_now().await;
            yield_now().await;
            drop(counted);
            if number.is_multiple_of(2) { Ok(number) } else { Err(number) }
        }
    }
}

#[test]
fn there_is_one_call_at_a_time_and_all_who_stay_share_its_outcome_and_never_wait_for_who_has_left() {
    under_all_schedules(|| {
        let (flight, calls) = (Arc::new(Flight::default()), Arc::new(Calls::default()));
        // How long each stays at most, and whether it needs a call that began no earlier than itself.
        let callers = [(1, false), (2, false), (usize::MAX, false), (usize::MAX, true), (3, true)];
        let tasks = callers.map(|(looks, younger)| {
            let (flight, calls) = (Arc::clone(&flight), Arc::clone(&calls));
            spawn(async move {
                let came = Instant::now();
                let since = younger.then_some(came);
                let outcome = Impatient::new(looks, flight.join_since(since, || calls.call())).await;
                let Some(outcome) = outcome else {
                    assert!(looks < usize::MAX);
                    return;
                };
                let number = outcome.unwrap_or_else(|number| number);
                assert_eq!(outcome.is_ok(), number.is_multiple_of(2));
                assert!(!younger || calls.begun.lock().unwrap()[number] >= came, "it began before its caller came");
                let known = *calls.outcomes.lock().unwrap().entry(number).or_insert(outcome);
                assert_eq!(known, outcome);
            })
        });
        tasks.into_iter().for_each(|task| block_on(task).unwrap());
        assert_eq!(calls.under_way.load(Ordering::Relaxed), 0);
        let begun = calls.begun.lock().unwrap().len();
        let next = block_on(flight.join(|| calls.call()));
        assert_eq!(next.unwrap_or_else(|number| number), begun, "an outcome was kept");
    });
}

/// A generation in two halves, which a reader takes at two moments.
struct Halves(u32, u32);

#[test]
fn who_pins_sees_one_generation_and_no_swap_is_lost() {
    under_all_schedules(|| {
        let generations = Arc::new(Generations::new(0_u32, Halves(0, 0)));
        let changes: Vec<_> = (0..3)
            .map(|_| {
                let generations = Arc::clone(&generations);
                thread::spawn(move || {
                    let mut configuration = generations.lock();
                    let next = *configuration + 1;
                    // Policies are loaded here.
                    thread::yield_now();
                    configuration.swap(Halves(next, next));
                    *configuration = next;
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let generations = Arc::clone(&generations);
                thread::spawn(move || {
                    let first = generations.current();
                    thread::yield_now();
                    assert_eq!(first.0, first.1);
                    let second = generations.current();
                    assert!(second.0 >= first.0, "an older one came back");
                    let configuration = generations.lock();
                    assert_eq!(generations.current().0, *configuration, "what is in use is not what is configured");
                })
            })
            .collect();
        changes.into_iter().chain(readers).for_each(|thread| thread.join().unwrap());
        assert_eq!((*generations.lock(), generations.current().0), (3, 3));
    });
}

#[test]
fn a_generation_is_dropped_with_the_last_who_has_it() {
    under_all_schedules(|| {
        let generations = Arc::new(Generations::new((), Halves(0, 0)));
        let first = Arc::downgrade(&generations.current());
        let pins: Vec<_> = (0..2)
            .map(|_| {
                let (generations, first) = (Arc::clone(&generations), first.clone());
                thread::spawn(move || {
                    let pin = generations.current();
                    thread::yield_now();
                    assert!(pin.0 == 1 || first.upgrade().is_some(), "gone although it is pinned");
                })
            })
            .collect();
        let swap = {
            let generations = Arc::clone(&generations);
            thread::spawn(move || generations.lock().swap(Halves(1, 1)))
        };
        pins.into_iter().chain([swap]).for_each(|thread| thread.join().unwrap());
        assert!(first.upgrade().is_none(), "kept although nobody has it");
    });
}

#[test]
fn a_suspension_is_for_good_and_told_to_one() {
    under_all_schedules(|| {
        let health = Arc::new(Health::new(2));
        let reported = Arc::new(AtomicUsize::new(0));
        let failing = (0..3).map(|_| {
            let (health, reported) = (Arc::clone(&health), Arc::clone(&reported));
            thread::spawn(move || {
                if health.failed("broken") {
                    reported.fetch_add(1, Ordering::Relaxed);
                    assert!(health.is_suspended());
                }
                assert!(reported.load(Ordering::Relaxed) == 0 || health.is_suspended(), "it was taken back");
            })
        });
        let working = (0..2).map(|_| {
            let health = Arc::clone(&health);
            thread::spawn(move || health.succeeded())
        });
        let threads: Vec<_> = failing.chain(working).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let reported = reported.load(Ordering::Relaxed);
        assert_eq!((reported, health.is_suspended()), (usize::from(health.is_suspended()), reported == 1));
        assert_eq!(health.last_failure().as_deref(), Some("broken"));
    });
}
