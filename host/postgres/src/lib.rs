//! Knows how a log is kept in PostgreSQL, so that several hosts share it. Must not know what its streams mean.
//!
//! - [`PostgresState`] is the place: `postgres://user@host/database`.
//! - Each process that writes renews a row (see [`LEASE`](windlass_lifecycle::log::LEASE)). A process that another one took for dead writes no more.
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
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_lifecycle::log::{Log, SharedLog, SharingHost};
use windlass_lifecycle::{Error, GroupName};

use client::{Client, Failure};
use connection::Connection;
pub use log::PostgresLog;
use settings::Settings;
pub use settings::SettingsError;

/// State in a PostgreSQL database.
#[derive(Clone, Debug)]
pub struct PostgresState {
    settings: Settings,
    /// This machine's name.
    host: String,
    /// Opened for reading, and kept: some read many times a second.
    reader: Arc<OnceLock<Arc<PostgresLog>>>,
}

impl PostgresState {
    /// Reads a URL: `postgres://user@host:5432/database`, with these parameters:
    ///
    /// - `sslmode`: `verify-full` (the default for a host), or `disable` (the default for a socket).
    /// - `sslrootcert`: a file with the certificates of authorities. Default: those that the system trusts.
    /// - `schema`: where the tables are. Default: `windlass`.
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
        Ok(Self { settings: Settings::parse(url, environment, group)?, host, reader: Arc::default() })
    }

    /// The same, whose connections count as lost after so long without an answer.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.settings.silence = silence;
        self
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

    fn open(&self) -> Result<Arc<dyn Log>, Error> {
        outside_of_tasks(|| Ok(Arc::new(PostgresLog::open(&self.settings, &self.host)?) as Arc<dyn Log>))
    }

    fn read_only(&self) -> Result<Arc<dyn Log>, Error> {
        if let Some(reader) = self.reader.get() {
            return Ok(Arc::clone(reader) as Arc<dyn Log>);
        }
        let reader = outside_of_tasks(|| PostgresLog::read_only(&self.settings))?;
        Ok(Arc::clone(self.reader.get_or_init(|| Arc::new(reader))) as Arc<dyn Log>)
    }

    fn place(&self) -> Result<String, Error> {
        outside_of_tasks(|| self.ask(log::place))
    }

    fn hosts(&self) -> Result<Vec<SharingHost>, Error> {
        outside_of_tasks(|| self.ask(holder::hosts))
    }

    fn holder(&self, lock: &str) -> Result<Option<SharingHost>, Error> {
        outside_of_tasks(|| self.ask(|client| holder::holder(lock, client)))
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
