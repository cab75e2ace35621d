//! Where the controller's state is: in a directory, with the journal in a database where one is named.
//!
//! A database has the journals of all accounts and is shared by all replicas, so the next leader continues on any node.
//! Compiled policies, the decision log and what the last sweeps found stay in the directory, which then need not
//! outlive the pod.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use windlass_lifecycle::StateDirectory;
use windlass_postgres::PostgresState;

use crate::Error;

/// The longest file with a URL, in bytes.
const MAX_FILE_LEN: u64 = 64 * 1024;

/// The database with the journal, where there is one.
#[derive(Clone, Debug, Args)]
pub struct StateArguments {
    /// A PostgreSQL database that has the journal instead of the state directory: `postgres://user@host/database`. The
    /// pod then needs no volume, and the next leader continues on any node
    #[arg(long, env = "WINDLASS_STATE", value_name = "URL", hide_env_values = true)]
    state: Option<StateUrl>,
    /// The file with this URL, for example of a mounted Secret
    #[arg(long, env = "WINDLASS_STATE_FILE", value_name = "FILE")]
    state_file: Option<PathBuf>,
}

/// The URL of a database, which may hold a password.
#[derive(Clone)]
struct StateUrl(String);

impl fmt::Debug for StateUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StateUrl(not shown)")
    }
}

impl FromStr for StateUrl {
    /// What is wrong with it is told later: the parser of the command line would repeat it.
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl StateArguments {
    /// Whether a database has the journal.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.as_ref().is_some_and(|url| !url.0.is_empty()) || self.state_file.is_some()
    }

    /// The state directory in this folder, with the journal in the database where one is named. The database is not
    /// asked for anything yet.
    pub(crate) fn in_folder(&self, folder: &Path) -> Result<StateDirectory, Error> {
        let directory = StateDirectory::open(folder)?;
        Ok(match self.database()? {
            Some(database) => directory.with_shared_log(Arc::new(database)),
            None => directory,
        })
    }

    fn database(&self) -> Result<Option<PostgresState>, Error> {
        let (option, url) = match (&self.state, &self.state_file) {
            (Some(StateUrl(url)), _) if !url.is_empty() => ("--state", url.clone()),
            (_, Some(file)) => {
                let text = windlass_process::read_text(file, MAX_FILE_LEN);
                let unreadable = |error| Error::Option {
                    option: "--state-file",
                    problem: format!("cannot read {}: {error}", file.display()),
                };
                ("--state-file", text.map_err(unreadable)?.trim().to_owned())
            }
            _ => return Ok(None),
        };
        let variables = std::env::vars_os();
        let environment: BTreeMap<String, String> =
            variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
        let host = windlass_process::host_name_or_unknown();
        match PostgresState::parse(&url, &environment, host) {
            Ok(database) => Ok(Some(database.with_shared_connections())),
            Err(error) => Err(Error::Option { option, problem: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    fn arguments(of: &[&str]) -> StateArguments {
        Arguments::try_parse_from([&["windlass-controller"], of].concat()).unwrap().run.state
    }

    #[test]
    fn the_database_is_named_by_an_option_or_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "postgres://ops:secret@/state?host=/run\n").unwrap();
        let named = format!("--state-file={}", file.display());
        let location = |of: &[&str]| arguments(of).in_folder(folder.path()).unwrap().location().display().to_string();
        let database = "postgres://ops@/state?host=/run&schema=windlass";
        assert_eq!(location(&["--state=postgres://ops:secret@/state?host=/run"]), database);
        assert_eq!(location(&[&named]), database);
        assert_eq!(
            location(&["--state=postgres://ops@/other?host=/run", &named]),
            database.replace("state?", "other?")
        );
        assert_eq!(location(&["--state="]), folder.path().canonicalize().unwrap().display().to_string());
        let is_shared = |of: &[&str]| arguments(of).is_shared();
        assert!(is_shared(&[&named]) && is_shared(&["--state=x"]) && !is_shared(&["--state="]) && !is_shared(&[]));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_told_without_its_password() {
        let folder = tempfile::tempdir().unwrap();
        for (argument, parts) in [
            ("--state=postgres://ops:hidden@host/state?ssl=1", ["--state", "`ssl`"]),
            ("--state=ops/hidden", ["--state", "does not begin with postgres://"]),
            ("--state-file=/nowhere/url", ["--state-file", "/nowhere/url"]),
        ] {
            let arguments = arguments(&[argument]);
            assert!(!format!("{arguments:?}").contains("hidden"), "{arguments:?}");
            let error = arguments.in_folder(folder.path()).unwrap_err().to_string();
            assert!(!error.contains("hidden") && parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
