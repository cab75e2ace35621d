//! The facade as an embedder meets it, and the public crates as packages.

mod examples;
mod packages;
