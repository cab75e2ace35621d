//! A client that blocks its thread, and waits for no answer without end.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Error, Row, Socket};

/// The oldest major version that is used.
const OLDEST: u32 = 13;

/// Why a statement has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server refused it, or the connection was lost.
    #[error("{}", words(.0))]
    Postgres(#[from] Error),
    /// The connection was given up.
    #[error("the database did not answer within {0:?}")]
    Silence(Duration),
    #[error("the server is PostgreSQL {0}, and {oldest} is the oldest that can be used", oldest = OLDEST)]
    TooOld(String),
    #[error("no connection can be made: {0}")]
    Runtime(io::Error),
}

impl Failure {
    /// Whether the server did not answer, or ended the connection, rather than refuse a statement.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            // Class 57 is an operator's intervention, such as a shutdown; 25P03 ends a transaction that was idle.
            Self::Postgres(error) => {
                error.code().is_none_or(|code| code.code().starts_with("57P") || code.code() == "25P03")
            }
            Self::Silence(_) => true,
            Self::TooOld(_) | Self::Runtime(_) => false,
        }
    }
}

fn words(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(refused), _) => refused.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether a server is too old, by the version that it reports, such as `12.22 (Debian 12.22-1)`.
fn is_too_old(version: &str) -> bool {
    let major = version.split(|character: char| !character.is_ascii_digit()).next();
    major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < OLDEST)
}

/// A connected client.
pub(crate) struct Client {
    /// Dropped first, so that the line can say goodbye.
    client: tokio_postgres::Client,
    line: Line,
}

impl Client {
    /// Connects. Each answer must come within `silence`, or the connection is given up.
    pub(crate) fn connect<T>(config: &Config, tls: T, silence: Duration) -> Result<Self, Failure>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        // The time to connect is only that of the socket: the server's first words come after it.
        let limit = config.get_connect_timeout().copied().unwrap_or_default() + silence;
        let Ok(connected) = runtime.block_on(async { tokio::time::timeout(limit, config.connect(tls)).await }) else {
            // A look-up of the server's name may be under way: nobody waits for it.
            runtime.shutdown_background();
            return Err(Failure::Silence(limit));
        };
        let (client, connection) = connected?;
        if let Some(version) = connection.parameter("server_version").filter(|version| is_too_old(version)) {
            return Err(Failure::TooOld(version.to_owned()));
        }
        Ok(Self { client, line: Line { connection: Some(Box::pin(connection)), is_silent: false, runtime, silence } })
    }

    /// Whether the connection was lost or given up.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(crate) fn query(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        self.line.wait(self.client.query(sql, parameters))
    }

    pub(crate) fn query_one(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, Failure> {
        self.line.wait(self.client.query_one(sql, parameters))
    }

    pub(crate) fn query_opt(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Failure> {
        self.line.wait(self.client.query_opt(sql, parameters))
    }

    pub(crate) fn query_typed(
        &mut self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Failure> {
        self.line.wait(self.client.query_typed(sql, parameters))
    }

    /// Gives how many rows were changed.
    pub(crate) fn execute(&mut self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<u64, Failure> {
        self.line.wait(self.client.execute(sql, parameters))
    }

    /// Statements without parameters.
    pub(crate) fn batch_execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.line.wait(self.client.batch_execute(sql))
    }

    pub(crate) fn transaction(&mut self) -> Result<Transaction<'_>, Failure> {
        Transaction::begin(self, "begin", "commit", "rollback")
    }
}

/// What is done whole or not at all: taken back when it is dropped, unless it was committed.
pub(crate) struct Transaction<'a> {
    client: &'a mut Client,
    commit: &'static str,
    /// `None` once it was committed.
    rollback: Option<&'static str>,
}

impl<'a> Transaction<'a> {
    fn begin(
        client: &'a mut Client,
        begin: &str,
        commit: &'static str,
        rollback: &'static str,
    ) -> Result<Self, Failure> {
        client.batch_execute(begin)?;
        Ok(Self { client, commit, rollback: Some(rollback) })
    }

    /// A part of it that can be taken back alone.
    pub(crate) fn savepoint(&mut self) -> Result<Transaction<'_>, Failure> {
        Transaction::begin(self.client, "savepoint part", "release part", "rollback to part; release part")
    }

    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        self.rollback = None;
        self.client.batch_execute(self.commit)
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

impl std::ops::DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        self.client
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let Some(rollback) = self.rollback {
            // A server whose connection is lost takes it back by itself.
            let _ = self.client.batch_execute(rollback);
        }
    }
}

type Moving = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// What carries statements and answers, while somebody waits.
struct Line {
    /// `None` once it was lost or given up.
    connection: Option<Moving>,
    /// Whether it was given up.
    is_silent: bool,
    runtime: Runtime,
    silence: Duration,
}

impl Line {
    fn wait<T>(&mut self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        let Self { connection, is_silent, runtime, silence } = self;
        if *is_silent {
            return Err(Failure::Silence(*silence));
        }
        let mut answer = pin!(answer);
        let answered = runtime.block_on(async {
            let exchange = poll_fn(|context| {
                if let Some(open) = connection.as_mut()
                    && let Poll::Ready(ended) = open.as_mut().poll(context)
                {
                    *connection = None;
                    if let Err(lost) = ended {
                        return Poll::Ready(Err(lost));
                    }
                }
                answer.as_mut().poll(context)
            });
            tokio::time::timeout(*silence, exchange).await
        });
        match answered {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                (*connection, *is_silent) = (None, true);
                Err(Failure::Silence(*silence))
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The client is gone, so the connection tells the server that it ends.
        let _ = self.wait(async { Ok(()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_older_than_13_is_refused_and_a_newer_one_is_not() {
        for old in ["9.6.24", "12.22", "12.22 (Debian 12.22-1.pgdg120+1)"] {
            assert!(is_too_old(old), "{old}");
        }
        for used in ["13.0", "17.6 (Ubuntu 17.6-1)", "18beta1", "a pooler"] {
            assert!(!is_too_old(used), "{used}");
        }
        let refused = Failure::TooOld("12.22".to_owned()).to_string();
        assert_eq!(refused, "the server is PostgreSQL 12.22, and 13 is the oldest that can be used");
    }
}
