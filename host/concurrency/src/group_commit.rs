//! Group commit: the writes of many callers, made durable together by one thread.

use std::io;

use tokio::sync::oneshot;

use crate::sync::{Receiver, Sender, channel, receive_many, thread};

/// How much waits and how much goes together.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Writes that may wait for the thread; a caller past that waits for its turn.
    pub queue: usize,
    /// Writes in one commit at most.
    pub batch: usize,
}

/// The thread that commits has ended, so nothing is written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread that commits has ended")]
pub struct Closed;

struct Job<W, A> {
    write: W,
    answer: oneshot::Sender<A>,
}

/// A thread that commits what its callers write: all that came while it was busy goes into one commit.
///
/// # Guarantees
/// - Writes are committed in the order in which they were queued, each once, and one commit at a time.
/// - A caller hears of its write when that is committed, and never waits for a thread that is gone.
/// - A write that was queued is committed, also when its caller has left and when this is dropped. One whose caller
///   left before is not.
pub struct GroupCommit<W, A> {
    /// `None` while this is being dropped.
    queue: Option<Sender<Job<W, A>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl<W: Send + 'static, A: Send + 'static> GroupCommit<W, A> {
    /// Starts the thread. `commit` is given the writes of one commit and returns, when they are durable, the answer to
    /// each in their order.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        name: &str,
        bounds: Bounds,
        commit: impl FnMut(Vec<W>) -> Vec<A> + Send + 'static,
    ) -> Result<Self, io::Error> {
        let (queue, jobs) = channel(bounds.queue);
        let work = move || commit_all(jobs, bounds.batch, commit);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Waits until the write is committed.
    ///
    /// # Errors
    /// [`Closed`]: it may be committed or not.
    pub async fn write(&self, write: W) -> Result<A, Closed> {
        let (answer, answered) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(Closed)?;
        queue.send(Job { write, answer }).await.map_err(|_| Closed)?;
        answered.await.map_err(|_| Closed)
    }
}

fn commit_all<W, A>(mut jobs: Receiver<Job<W, A>>, most: usize, mut commit: impl FnMut(Vec<W>) -> Vec<A>) {
    let mut batch = Vec::new();
    while receive_many(&mut jobs, &mut batch, most) > 0 {
        let (writes, callers): (Vec<W>, Vec<oneshot::Sender<A>>) =
            batch.drain(..).map(|job| (job.write, job.answer)).unzip();
        for (caller, answer) in callers.into_iter().zip(commit(writes)) {
            // Who has left hears nothing.
            let _ = caller.send(answer);
        }
    }
}

impl<W, A> Drop for GroupCommit<W, A> {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // What was queued is still committed.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(windlass_interleavings)))]
mod tests {
    use std::sync::Arc;

    use futures::future::join_all;
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn what_comes_while_a_commit_is_under_way_goes_into_the_next_ones_in_its_order() {
        let commits: Arc<Mutex<Vec<Vec<usize>>>> = Arc::default();
        let (begin, may_begin) = std::sync::mpsc::channel::<()>();
        let known = Arc::clone(&commits);
        let commit = move |writes: Vec<usize>| {
            // Until all are queued.
            let _ = may_begin.recv();
            known.lock().push(writes.clone());
            writes.iter().map(|write| write * 2).collect()
        };
        let group = GroupCommit::start("test", Bounds { queue: 100, batch: 4 }, commit).unwrap();
        let mut writes = Box::pin(join_all((0..10).map(|number| group.write(number))));
        assert!(futures::poll!(&mut writes).is_pending());
        drop(begin);
        let answers: Vec<usize> = writes.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers, (0..10).map(|number| number * 2).collect::<Vec<_>>());
        let commits = commits.lock();
        assert_eq!(commits.concat(), (0..10).collect::<Vec<_>>());
        assert!(commits.len() <= 4 && commits.iter().all(|commit| commit.len() <= 4), "{commits:?}");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_thread_that_is_gone() {
        let commit = |_: Vec<()>| -> Vec<()> { panic!("as a defect would") };
        let group = GroupCommit::start("test", Bounds { queue: 1, batch: 1 }, commit).unwrap();
        let all = join_all((0..5).map(|_| group.write(()))).await;
        assert_eq!(all, [Err(Closed); 5]);
        assert_eq!(group.write(()).await, Err(Closed));
    }
}
