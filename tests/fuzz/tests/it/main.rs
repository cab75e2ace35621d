//! What reads untrusted bytes behind a public surface. Each test tries one corpus; see `windlass_test_fuzz`.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails with the error")]

mod api;
mod cluster_records;
mod cluster_specification;
mod component;
mod decisions;
mod journal_file;
mod names;
mod plugin_configuration;
mod scaleway_configuration;
mod support;
