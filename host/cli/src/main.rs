//! The binary `windlass`: the outside surface of the project. Knows the command line, the configuration file and the
//! terminal; knows no judgement, no HTTP and no journal of its own.

mod arguments;
mod configuration;
mod failure;
mod files;
mod output;
mod toml_reader;
mod units;

fn main() {}
