//! Knows how a log is kept in PostgreSQL, so that several hosts share it. Must not know what its streams mean.
//!
//! - [`PostgresState`] is the place: `postgres://user@host/database`. A schema can have the logs of many parts, such as
//!   accounts, each as if it had a schema of its own: the names of families, locks and processes begin with the part's.
//!   So a part costs no table, and one process needs three connections to write, and a fourth to read, for all of them.
//! - Each process that writes renews a row (see [`LEASE`](windlass_lifecycle::log::LEASE)). A process that another one
//!   took for dead writes no more.
//! - One transaction writes at a time. It commits what the tasks of a process have to write together.
//! - A commit without an answer is looked up, so that a lost connection leaves no doubt about a write.
//! - A connection counts as lost after 20 seconds without an answer, so that nobody waits for a frozen server.
//!
//! It needs PostgreSQL 13 or newer, and sessions: a pooler must not share a session among transactions of several
//! clients.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error"))]

mod client;
mod connection;
mod holder;
mod log;
mod settings;
mod sql;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use windlass_lifecycle::log::{Downgrade, Log, SharedLog, SharingHost};
use windlass_lifecycle::{Error, GroupName};

use client::{Client, Failure};
use connection::Connection;
pub use log::PostgresLog;
use log::Session;
use settings::Settings;
pub use settings::SettingsError;
use tables::Found;

/// State in a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresState {
    settings: Settings,
    /// This machine's name.
    host: String,
    /// Opened for reading, and kept: some read many times a second.
    reader: Arc<OnceLock<Arc<Session>>>,
    /// What is open for writing, where all logs share it.
    shared: Option<Arc<Mutex<Weak<Session>>>>,
}

impl PostgresState {
    /// Reads a URL: `postgres://user@host:5432/database`, with these parameters:
    ///
    /// - `sslmode`: `verify-full` (the default for a host), or `disable` (the default for a socket).
    /// - `sslrootcert`: a file with the certificates of authorities. Default: those that the system trusts.
    /// - `schema`: where the tables are. Default: `windlass`.
    /// - `part`: see [`PostgresState::part`].
    /// - `passfile`: a file as libpq's `.pgpass`.
    /// - `host`: instead of the URL's, such as a socket's folder.
    /// - `connect_timeout`: in seconds. Default: 10.
    ///
    /// It reads `PGUSER`, `PGPASSWORD`, `PGPASSFILE` and `HOME` from the environment. `host` is the name of this
    /// machine, for others to see.
    ///
    /// # Errors
    /// What is wrong with the URL, or with a file that it names.
    pub fn parse(
        url: &str,
        environment: &BTreeMap<String, String>,
        host: impl Into<String>,
    ) -> Result<Self, SettingsError> {
        Self::parsed(url, environment, None, host.into())
    }

    /// The state of a group, which is nobody else's: as [`PostgresState::parse`], in a schema of its own, for example
    /// `windlass_ci`.
    ///
    /// # Errors
    /// As [`PostgresState::parse`], and where the schema's name is too long.
    pub fn of_group(
        url: &str,
        environment: &BTreeMap<String, String>,
        group: &GroupName,
        host: impl Into<String>,
    ) -> Result<Self, SettingsError> {
        Self::parsed(url, environment, Some(group), host.into())
    }

    fn parsed(
        url: &str,
        environment: &BTreeMap<String, String>,
        group: Option<&GroupName>,
        host: String,
    ) -> Result<Self, SettingsError> {
        let settings = Settings::parse(url, environment, group)?;
        Ok(Self { settings, host, reader: Arc::default(), shared: None })
    }

    /// The same, whose logs, and those of its parts, write over the same connections, and are one process to others. By
    /// default, each log that is opened has connections of its own.
    #[must_use]
    pub fn with_shared_connections(self) -> Self {
        Self { shared: Some(Arc::default()), ..self }
    }

    /// A part of this place: its log sees nothing of other parts, and they see nothing of it.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self { settings: self.settings.clone().with_part(name), ..self.clone() }
    }

    /// The same, whose connections count as lost after so long without an answer.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.settings.silence = silence;
        self
    }

    /// What is open for writing, made where it is not. One that another process took for dead is not used again.
    fn session(&self) -> Result<Arc<Session>, Error> {
        let open = || outside_of_tasks(|| Session::open(&self.settings, &self.host).map(Arc::new));
        let Some(shared) = &self.shared else { return open() };
        let mut shared = shared.lock();
        if let Some(session) = shared.upgrade().filter(|session| !session.is_lost()) {
            return Ok(session);
        }
        let session = open()?;
        *shared = Arc::downgrade(&session);
        Ok(session)
    }

    fn log(&self, session: Arc<Session>) -> Arc<dyn Log> {
        Arc::new(PostgresLog::new(self.settings.part.clone(), session))
    }

    fn ask<T>(&self, ask: impl Fn(&mut Client) -> Result<T, Failure>) -> Result<T, Error> {
        let asked = Connection::new(self.settings.clone()).ask(ask);
        asked.map_err(|error| Error::JournalOpen {
            path: PathBuf::from(&self.settings.place),
            problem: error.to_string(),
        })
    }
}

impl SharedLog for PostgresState {
    fn location(&self) -> &str {
        &self.settings.place
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn open(&self) -> Result<Arc<dyn Log>, Error> {
        Ok(self.log(self.session()?))
    }

    fn read_only(&self) -> Result<Arc<dyn Log>, Error> {
        if let Some(reader) = self.reader.get() {
            return Ok(self.log(Arc::clone(reader)));
        }
        let reader = outside_of_tasks(|| Session::read_only(&self.settings))?;
        Ok(self.log(Arc::clone(self.reader.get_or_init(|| Arc::new(reader)))))
    }

    fn part(&self, name: &str) -> Arc<dyn SharedLog> {
        Arc::new(Self::part(self, name))
    }

    fn place(&self) -> Result<String, Error> {
        outside_of_tasks(|| self.ask(log::place))
    }

    fn hosts(&self) -> Result<Vec<SharingHost>, Error> {
        outside_of_tasks(|| self.ask(holder::hosts))
    }

    fn holder(&self, lock: &str) -> Result<Option<SharingHost>, Error> {
        let lock = self.settings.part.stored(lock);
        outside_of_tasks(|| self.ask(|client| holder::holder(&lock, client)))
    }

    fn plan_downgrade(&self, to: u32) -> Result<Downgrade, Error> {
        match outside_of_tasks(|| self.ask(tables::found))? {
            Found::Nothing => Err(Error::JournalAbsent { path: PathBuf::from(&self.settings.place) }),
            Found::Version(found) if found > tables::VERSION => Err(log::newer(&self.settings, found)),
            Found::Version(found) => tables::way_back(found, to)
                .ok_or_else(|| Error::Downgrade { problem: format!("its tables have the older version {found}") }),
        }
    }

    fn downgrade(&self, planned: &Downgrade) -> Result<(), Error> {
        let take_back = || {
            let mut client = self.settings.connect()?;
            tables::take_back(&mut client, &self.settings.schema, planned)
        };
        let taken_back = outside_of_tasks(|| match take_back() {
            // The commit may have reached the server: then there is nothing more to do.
            Err(error) if error.is_lost() => take_back(),
            taken_back => taken_back,
        });
        let refused = |problem| Error::Downgrade { problem };
        taken_back.map_err(|error: Failure| refused(error.to_string()))?.map_err(refused)
    }
}

/// The client blocks, and refuses to do so on a thread that runs tasks.
fn outside_of_tasks<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match tokio::runtime::Handle::try_current() {
        Err(_) => work(),
        Ok(_) => std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }),
    }
}
