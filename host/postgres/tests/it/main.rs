//! State in a real PostgreSQL, which each test starts for itself. Without one (Debian: `postgresql`), the tests say so
//! and pass; with `WINDLASS_POSTGRES_REQUIRED` they fail.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod hosts;
mod laws;
mod server;
