//! Threads for large questions, so that small ones wait for none, and so that only a few are in memory at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use windlass_policy::DECISION_STACK_BYTES;

/// The stack of each thread, in bytes: a decision's, and what is around it.
const STACK_BYTES: usize = DECISION_STACK_BYTES + (1 << 20);

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and who has how many of them.
pub(crate) struct Turns {
    /// Each user's share: a user's further questions wait here, and not before another user's.
    users: BTreeMap<u32, Arc<Semaphore>>,
    jobs: Sender<Job>,
}

impl Turns {
    /// So many threads, shared by these users. They end with the turns.
    pub(crate) fn new(threads: usize, users: impl IntoIterator<Item = u32>) -> Turns {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            let thread = std::thread::Builder::new().name("large-questions".to_owned()).stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn(move || work(&waiting)) {
                tracing::error!(%error, "no thread for large questions");
            }
        }
        let users: Vec<u32> = users.into_iter().collect();
        let share = (threads / users.len().max(1)).max(1);
        Turns { users: users.into_iter().map(|user| (user, Arc::new(Semaphore::new(share)))).collect(), jobs }
    }

    /// Does this on one of the threads, when it is this user's turn; to its end, also when nobody waits for it any more.
    /// `None`: there is no such user, or it ended by a defect.
    pub(crate) async fn take<T: Send + 'static>(
        &self,
        user: u32,
        begin: impl FnOnce() + Send,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(self.users.get(&user)?).acquire_owned().await.ok()?;
        begin();
        let (done, result) = oneshot::channel();
        let runtime = Handle::current();
        let job = move || {
            let _turn = turn;
            let _ = done.send(runtime.block_on(question));
        };
        self.jobs.send(Box::new(job)).ok()?;
        result.await.ok()
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    // Small questions come first.
    windlass_process::yield_to_other_threads();
    loop {
        let Ok(job) = waiting.lock().recv() else { return };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a large question ended because of a bug");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const OWNER: u32 = 1;
    const OTHER: u32 = 2;

    /// Turns on one thread for two users, and what was done in which order.
    struct Case {
        turns: Arc<Turns>,
        done: Arc<Mutex<Vec<&'static str>>>,
    }

    impl Case {
        fn new() -> Case {
            Case { turns: Arc::new(Turns::new(1, [OWNER, OTHER])), done: Arc::default() }
        }

        /// Takes a turn that ends when the sender is dropped, once it has begun or waits for others of its user.
        async fn take(&self, user: u32, name: &'static str) -> (Sender<()>, JoinHandle<Option<()>>) {
            let (hold, held) = channel();
            let (turns, done) = (Arc::clone(&self.turns), Arc::clone(&self.done));
            let taking = tokio::spawn(async move {
                let question = async move {
                    let _ = held.recv();
                    done.lock().push(name);
                };
                turns.take(user, || {}, question).await
            });
            // The test's runtime has one thread: it goes on here when the other task waits.
            yield_now().await;
            (hold, taking)
        }
    }

    #[tokio::test]
    async fn a_user_s_further_questions_do_not_wait_before_another_user_s() {
        let case = Case::new();
        let (mut holds, mut taken) = (Vec::new(), Vec::new());
        for (user, name) in [(OTHER, "first"), (OTHER, "second"), (OTHER, "third"), (OWNER, "owner's")] {
            let (hold, taking) = case.take(user, name).await;
            holds.push(hold);
            taken.push(taking);
        }
        drop(holds);
        for taking in taken {
            assert_eq!(taking.await.unwrap(), Some(()));
        }
        assert_eq!(*case.done.lock(), ["first", "owner's", "second", "third"]);
    }

    #[tokio::test]
    async fn after_a_defect_the_thread_and_the_user_s_share_are_free_again() {
        let case = Case::new();
        for _ in 0..3 {
            let defect: Option<()> = case.turns.take(OTHER, || {}, async { panic!("a defect, on purpose") }).await;
            assert_eq!(defect, None);
        }
        assert_eq!(case.turns.take(OTHER, || {}, async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn who_leaves_during_its_turn_frees_it_when_it_ends_and_who_leaves_before_has_none() {
        let case = Case::new();
        let (hold, during) = case.take(OTHER, "during").await;
        let (_, before) = case.take(OTHER, "before").await;
        for left in [during, before] {
            left.abort();
            assert!(left.await.unwrap_err().is_cancelled());
        }
        let (_, after) = case.take(OTHER, "after").await;
        assert!(case.done.lock().is_empty(), "the share is taken still");
        drop(hold);
        assert_eq!(after.await.unwrap(), Some(()));
        assert_eq!(*case.done.lock(), ["during", "after"]);
    }

    #[tokio::test]
    async fn who_is_no_user_has_no_turn() {
        assert_eq!(Case::new().turns.take(3, || {}, async {}).await, None);
    }
}
