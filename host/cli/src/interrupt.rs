//! Ctrl-C and SIGTERM during work that has effects: the first undoes what is being made, and lets what is being removed
//! go on; the second leaves both to the next start; the third does not wait. In each case the journal knows. SIGHUP, the
//! end of the terminal, ends nothing: a laptop that is closed undoes nothing.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::Output;
use windlass_lifecycle::Control;

/// Ctrl-C and SIGTERM. A signal is kept from [`EndSignals::listen`] on, until it is received.
pub(crate) struct EndSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let interrupt = signal(SignalKind::interrupt()).map_err(deaf)?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate()).map_err(deaf)? })
    }

    /// The next one.
    pub(crate) async fn recv(&mut self) -> rustix::process::Signal {
        tokio::select! {
            _ = self.interrupt.recv() => rustix::process::Signal::INT,
            _ = self.terminate.recv() => rustix::process::Signal::TERM,
        }
    }
}

fn deaf(error: std::io::Error) -> Failure {
    Failure::undone("the program cannot listen for Ctrl-C, so it began nothing").because(error.to_string())
}

/// The listening itself.
#[must_use = "listening holds the control, so it must be stopped for the events to end"]
pub(crate) struct Interrupted {
    happened: Arc<AtomicBool>,
    begun: Arc<AtomicBool>,
    listening: JoinHandle<()>,
}

impl Interrupted {
    /// From here on the work has effects.
    pub(crate) fn begins(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// Ends the listening and tells whether the work was interrupted.
    pub(crate) fn stop(self) -> bool {
        self.listening.abort();
        self.happened.load(Ordering::Relaxed)
    }
}

/// What can be called off, or left to the next start.
pub(crate) trait Ends: Clone + Send + Sync + 'static {
    /// Cancels the work. When it returns, that is durable, or the error says why it is not.
    fn cancel(&self, by: &str) -> impl Future<Output = Result<(), String>> + Send;
    fn leave(&self);
}

impl<E: Clone + Send + 'static> Ends for Control<E> {
    async fn cancel(&self, by: &str) -> Result<(), String> {
        self.cancel_durably(by).await.map_err(|error| error.to_string())
    }

    fn leave(&self) {
        Control::leave(self);
    }
}

/// What is said at the first interruption, and at the second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    pub(crate) first: &'static str,
    pub(crate) second: &'static str,
}

/// Printed if the cancellation cannot be journalled.
const NOT_DURABLE: &str = "the journal could not be written: if this process is killed now, the next start may finish \
    the work instead of undoing it";
const AGAIN: &str = "interrupted again: stopping; the next start goes on from the journal";
/// About work that makes something.
pub(crate) const CREATING: Words = Words {
    first: "interrupted: rolling back; press Ctrl-C again to stop now and roll back at the next start",
    second: AGAIN,
};
/// About work that removes something.
pub(crate) const REMOVING: Words = Words {
    first: "interrupted: finishing the deletions that have begun; press Ctrl-C again to stop now and finish them at the \
        next start",
    second: AGAIN,
};
/// About the termination of a cluster.
pub(crate) const TERMINATING: Words = Words {
    first: "interrupted: a decommission hook that runs is stopped, and then nothing is deleted; deletions that have \
        begun are finished; press Ctrl-C again to stop now and finish them at the next start",
    second: AGAIN,
};
/// About the work of others, which may be of both kinds.
pub(crate) const RESUMING: Words = Words {
    first: "interrupted: rolling back creations and finishing deletions; press Ctrl-C again to stop now and go on at \
        the next start",
    second: AGAIN,
};

/// Awaits what changes nothing, unless the work is cancelled meanwhile.
pub(crate) async fn unless_cancelled<T>(control: &Control, look: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = control.cancelled().cancelled() => Err(Failure::new(Exit::Interrupted, "nothing was made")),
        seen = look => Ok(seen),
    }
}

/// Listens from now on and ends the work through its control.
pub(crate) fn listen(control: &impl Ends, output: Output, words: Words) -> Result<Interrupted, Failure> {
    let interrupted = listen_before(control, output, words)?;
    interrupted.begins();
    Ok(interrupted)
}

/// The same for work that begins later ([`Interrupted::begins`]): until then there is nothing to roll back.
pub(crate) fn listen_before(control: &impl Ends, output: Output, words: Words) -> Result<Interrupted, Failure> {
    let mut ends = EndSignals::listen()?;
    let mut hangups = signal(SignalKind::hangup()).map_err(deaf)?;
    let happened = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicBool::new(false));
    let (flag, has_begun, control) = (Arc::clone(&happened), Arc::clone(&begun), control.clone());
    let listening = tokio::spawn(async move {
        let mut count = 0;
        loop {
            let signal = tokio::select! {
                signal = ends.recv() => if signal == rustix::process::Signal::INT { "SIGINT" } else { "SIGTERM" },
                _ = hangups.recv() => {
                    tracing::info!("the terminal is gone; the work goes on");
                    continue;
                }
            };
            count += 1;
            flag.store(true, Ordering::Relaxed);
            match count {
                1 => {
                    // Durable before it is said: the next thing may be a SIGKILL.
                    match control.cancel(signal).await {
                        Ok(()) if !has_begun.load(Ordering::Relaxed) => {}
                        Ok(()) => output.say(words.first),
                        Err(error) => output.say(&format!("{}\n{NOT_DURABLE}: {error}", words.first)),
                    }
                }
                2 => {
                    let begun = has_begun.load(Ordering::Relaxed);
                    output.say(if begun { words.second } else { "interrupted again: nothing was begun" });
                    control.leave();
                }
                _ => process::exit(Exit::Interrupted as i32),
            }
        }
    });
    Ok(Interrupted { happened, begun, listening })
}
