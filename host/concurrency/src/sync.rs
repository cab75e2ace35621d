//! The primitives that everything here is built of, in two editions under the same names.
//!
//! The second one is for `just interleavings`: each use of it is a point at which another thread or task may go on.

#[cfg(not(windlass_interleavings))]
pub(crate) use real::*;
#[cfg(windlass_interleavings)]
pub(crate) use scheduled::*;

#[cfg(not(windlass_interleavings))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
    pub(crate) use std::thread;

    pub(crate) use arc_swap::ArcSwap;
    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use tokio::sync::mpsc::{Receiver, Sender, channel};

    /// Blocks until something is there or all senders are gone, and takes up to `most`.
    pub(crate) fn receive_many<T>(receiver: &mut Receiver<T>, into: &mut Vec<T>, most: usize) -> usize {
        receiver.blocking_recv_many(into, most)
    }
}

#[cfg(windlass_interleavings)]
mod scheduled {
    use std::sync::Arc;

    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicU32, Ordering};
    pub(crate) use shuttle::thread;
    use tokio::sync::mpsc;

    /// Another thread or task may go on here.
    fn switch() {
        AtomicU32::new(0).load(Ordering::SeqCst);
    }

    /// With the face of parking_lot's.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a holder that panics ends the check")
        }
    }

    /// arc-swap's own, each call of which takes effect at one moment.
    pub(crate) struct ArcSwap<T>(arc_swap::ArcSwap<T>);

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            Self(arc_swap::ArcSwap::from_pointee(value))
        }

        pub(crate) fn load_full(&self) -> Arc<T> {
            switch();
            self.0.load_full()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            switch();
            self.0.store(value);
        }
    }

    /// tokio's own channel, whose waiters are woken by whichever executor they run on.
    pub(crate) fn channel<T>(room: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::channel(room);
        (Sender(sender), Receiver(receiver))
    }

    pub(crate) struct Sender<T>(mpsc::Sender<T>);
    pub(crate) struct Receiver<T>(mpsc::Receiver<T>);

    impl<T> Sender<T> {
        pub(crate) async fn send(&self, value: T) -> Result<(), mpsc::error::SendError<T>> {
            switch();
            self.0.send(value).await
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                switch();
            }
        }
    }

    pub(crate) fn receive_many<T>(receiver: &mut Receiver<T>, into: &mut Vec<T>, most: usize) -> usize {
        switch();
        shuttle::future::block_on(receiver.0.recv_many(into, most))
    }
}
