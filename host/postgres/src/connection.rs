//! Connections that are made again after they were lost, each on a thread of its own.

use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::client::{Client, Failure};
use crate::settings::Settings;

/// A connection that is made when it is first needed.
pub(crate) struct Connection {
    settings: Settings,
    client: Option<Client>,
}

impl Connection {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, client: None }
    }

    /// The connection; a new one where there is none, or where it was lost.
    pub(crate) fn client(&mut self) -> Result<&mut Client, Failure> {
        self.client.take_if(|client| client.is_closed());
        match self.client {
            Some(ref mut client) => Ok(client),
            None => Ok(self.client.insert(self.settings.connect()?)),
        }
    }

    /// Asks something that changes nothing: once more if the connection was lost meanwhile.
    pub(crate) fn ask<T>(&mut self, ask: impl Fn(&mut Client) -> Result<T, Failure>) -> Result<T, Failure> {
        let was_connected = self.client.is_some();
        match ask(self.client()?) {
            Err(error) if was_connected && error.is_lost() => {
                self.client = None;
                ask(self.client()?)
            }
            answer => answer,
        }
    }

    /// Gives the connection up: what it was doing may go on at the server until that notices.
    pub(crate) fn drop_client(&mut self) {
        self.client = None;
    }
}

type Job = Box<dyn FnOnce(&mut Connection) + Send>;
/// What a worker does again and again.
pub(crate) type Chore = Box<dyn FnMut(&mut Connection) + Send>;

/// A thread with a connection, which does one thing after the other.
pub(crate) struct Worker {
    /// `None` while this is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread. It also does `regularly` what is said, at once and then after each such time.
    pub(crate) fn start(
        name: &str,
        mut connection: Connection,
        regularly: Option<(Duration, Chore)>,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let work = move || match regularly {
            None => queue.iter().for_each(|job| job(&mut connection)),
            Some((every, mut regularly)) => {
                let mut due = Instant::now();
                loop {
                    // Before what waits in the queue: it must not be late for it.
                    if Instant::now() >= due {
                        regularly(&mut connection);
                        due = Instant::now() + every;
                    }
                    match queue.recv_timeout(due.saturating_duration_since(Instant::now())) {
                        Ok(job) => job(&mut connection),
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has the thread do something and waits for it, while other tasks of a runtime with several threads go on. `None`:
    /// the thread has ended. It always answers: no connection waits for its server without end.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |connection| drop(answer.send(work(connection))));
        self.jobs.as_ref()?.send(job).ok()?;
        match Handle::try_current() {
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| answered.recv().ok())
            }
            _ => answered.recv().ok(),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
