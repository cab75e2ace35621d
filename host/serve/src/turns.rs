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
            tracing::error!("a large question ended by a defect");
        }
    }
}
