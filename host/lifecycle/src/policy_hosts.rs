//! Which policies are in force in the hosts that share a log: each publishes there how its policies are doing.
//!
//! A host has one stream, under the name by which it is registered. What it says replaces what it said before, and
//! counts for as long as the registration does. The host that begins to publish next removes what hosts left
//! that are not registered any more.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_policy::{Host, RunningHost, running_hosts};

use crate::Error;
use crate::clock::{Clock, Randomness};
use crate::journal::{Journal, Runner};
use crate::log::{Change, Durability, Query, Target, Write};
use crate::state_directory::StateDirectory;

const HOSTS: &[&str] = &[HOST];
const HOST: &str = "host";
/// How often a host says the same again: what could not be written, or was removed while it was silent, is there again
/// after this time.
const REPEATED: Duration = Duration::from_secs(60);
/// Hosts that are read at most.
const MAX_HOSTS: u32 = 1_000;

/// A host with its policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyHost {
    /// The name of its machine. Absent: this one.
    pub machine: Option<String>,
    /// When it said so, by its clock, in milliseconds since 1970. Absent: it says so now.
    pub said_at: Option<u64>,
    /// What it said.
    pub running: RunningHost,
}

/// One of this machine.
impl From<RunningHost> for PolicyHost {
    fn from(running: RunningHost) -> Self {
        Self { machine: None, said_at: None, running }
    }
}

impl StateDirectory {
    /// The hosts and their policies: where hosts share the state, those of all machines, by the names of the machines;
    /// else those that run on this directory. The oldest of a machine first.
    ///
    /// # Errors
    /// [`Error::Policy`] when the directory cannot be read; the log's.
    pub fn policy_hosts(&self) -> Result<Vec<PolicyHost>, Error> {
        let Some(shared) = self.shared_log() else {
            let hosts = running_hosts(self.handle()).map_err(Box::new)?;
            return Ok(hosts.into_iter().map(PolicyHost::from).collect());
        };
        let log = match shared.read_only() {
            Err(Error::JournalAbsent { .. }) => return Ok(Vec::new()),
            log => log?,
        };
        let query = Query { families: HOSTS, newest_first: true, limit: Some(MAX_HOSTS), ..Query::default() };
        let mut hosts = Vec::new();
        for stream in log.streams(&query)?.into_iter().filter(|stream| log.lives(&stream.id)) {
            match PolicyHost::deserialize(&stream.document) {
                Ok(host) => hosts.push(host),
                Err(error) => {
                    tracing::warn!(host = stream.id, %error, "what a host says of its policies can't be read")
                }
            }
        }
        hosts.sort_by(|one, other| key(one).cmp(&key(other)));
        Ok(hosts)
    }
}

fn key(host: &PolicyHost) -> (Option<&str>, u64, u32) {
    (host.machine.as_deref(), host.running.started_at_ms, host.running.process)
}

/// Publishes how the policies of a host are doing in the log that hosts share, until it is dropped.
#[derive(Debug)]
pub struct StatusPublisher {
    words: Sender<Word>,
    thread: Option<JoinHandle<()>>,
}

enum Word {
    Said(RunningHost),
    End,
}

impl StatusPublisher {
    /// Publishes for a host that has no [`Lifecycle`](crate::Lifecycle), which does so itself. The log is opened in the
    /// background, again and again until that works: who only decides needs no database, and makes no journal. `None`
    /// where the state is not shared.
    #[must_use]
    pub fn start(state: &StateDirectory, policies: &Host) -> Option<Self> {
        state.shared_log()?;
        let state = state.clone();
        Self::with(policies, move || {
            if let Some(evidence) = state.moved()? {
                return Err(Error::HistoryMoved { path: state.location(), evidence });
            }
            // The process that makes the journal gives it the owner's name.
            drop(Journal::read_only(&state)?);
            let journal = Journal::open(&state, Durability::default())?;
            let runner = journal.register(&Randomness::new(None))?;
            let name = runner.name().to_owned();
            Ok(Place { _runner: Some(runner), state: state.clone(), journal, name })
        })
    }

    /// The same for a process whose journal is open, under its name there.
    pub(crate) fn of(state: &StateDirectory, policies: &Host, journal: &Journal, name: &str) -> Option<Self> {
        state.shared_log()?;
        let (state, journal, name) = (state.clone(), journal.clone(), name.to_owned());
        Self::with(policies, move || {
            Ok(Place { _runner: None, state: state.clone(), journal: journal.clone(), name: name.clone() })
        })
    }

    fn with(policies: &Host, open: impl Fn() -> Result<Place, Error> + Send + 'static) -> Option<Self> {
        let (words, heard) = channel();
        let publish = move || publish(&heard, open);
        let thread = std::thread::Builder::new().name("policy-publisher".into()).spawn(publish);
        let thread = thread.inspect_err(|error| tracing::warn!(%error, "{UNPUBLISHED}")).ok()?;
        let told = words.clone();
        policies.follow_status(move |host| told.send(Word::Said(host.clone())).is_ok());
        Some(Self { words, thread: Some(thread) })
    }
}

impl Drop for StatusPublisher {
    fn drop(&mut self) {
        // It has ended already where another process took this one for dead.
        let _ = self.words.send(Word::End);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that publishes the status of policies panicked");
        }
    }
}

const UNPUBLISHED: &str = "other hosts cannot see the policies of this one";

/// Where a host publishes.
struct Place {
    /// Its registration, where it is nobody else's. It ends first, while the journal is open.
    _runner: Option<Runner>,
    state: StateDirectory,
    journal: Journal,
    name: String,
}

/// Publishes what is heard, until the end is heard.
fn publish(heard: &Receiver<Word>, open: impl Fn() -> Result<Place, Error>) {
    let (mut place, mut said) = (None, None);
    let mut was_published = true;
    loop {
        let mut next = heard.recv_timeout(REPEATED);
        // Of what waits only the last counts.
        loop {
            match next {
                Ok(Word::Said(host)) => said = Some(host),
                Ok(Word::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => break,
            }
            next = heard.recv_timeout(Duration::ZERO);
        }
        let Some(host) = &said else { continue };
        let published = published(&mut place, &open, host);
        if let Err(error) = &published
            && was_published
        {
            tracing::warn!(error = error as &dyn std::error::Error, "{UNPUBLISHED}");
        }
        was_published = published.is_ok();
        if place.as_ref().is_some_and(|place| place.journal.log().is_overtaken()) {
            return;
        }
    }
}

fn published(
    place: &mut Option<Place>,
    open: &impl Fn() -> Result<Place, Error>,
    host: &RunningHost,
) -> Result<(), Error> {
    match place {
        Some(place) => place.publish(host, Vec::new()),
        None => {
            let opened = open()?;
            let dead = opened.dead()?;
            place.insert(opened).publish(host, dead)
        }
    }
}

impl Place {
    fn publish(&self, host: &RunningHost, mut changes: Vec<Change>) -> Result<(), Error> {
        let said = PolicyHost {
            machine: self.journal.host().map(str::to_owned),
            said_at: Some(Clock::System.now()),
            running: host.clone(),
        };
        changes.push(Change { write: Write::Put(json!(said)), ..Change::of(HOST, &self.name, Target::Any) });
        self.journal.log().append_at_once(&changes).map(drop)
    }

    /// Removes what those have left that are not registered any more. Who reads only takes nobody for dead: a machine
    /// that slept too long goes on, and says again what it said.
    fn dead(&self) -> Result<Vec<Change>, Error> {
        let reader = Journal::read_only(&self.state)?;
        let log = reader.log();
        let published = log.streams(&Query { families: HOSTS, limit: Some(MAX_HOSTS), ..Query::default() })?;
        let dead = published.into_iter().filter(|stream| stream.id != self.name && !log.lives(&stream.id));
        let remove = |id: String| Change { write: Write::Remove, ..Change::of(HOST, id, Target::IfExisting) };
        Ok(dead.map(|stream| remove(stream.id)).collect())
    }
}
