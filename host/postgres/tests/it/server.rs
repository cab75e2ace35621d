//! A server, and the state in it as a host opens it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use windlass_postgres::PostgresState;

pub(crate) struct Server(windlass_test_postgres::Server);

impl Server {
    pub(crate) fn start() -> Option<Self> {
        windlass_test_postgres::Server::start().map(Self)
    }

    /// State in a schema of its own.
    pub(crate) fn state(&self, schema: &str) -> PostgresState {
        self.state_of(schema, "here")
    }

    /// As another machine sees it.
    pub(crate) fn state_of(&self, schema: &str, host: &str) -> PostgresState {
        PostgresState::parse(&self.url(schema), &BTreeMap::new(), host).unwrap()
    }
}

impl Deref for Server {
    type Target = windlass_test_postgres::Server;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
