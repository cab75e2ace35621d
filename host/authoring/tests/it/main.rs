//! What an author gets, held against the host's types and against cargo.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod examples;
mod pages;
mod schemas;
mod template;
