//! The arguments of `windlass conformance`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use windlass_conformance::Probe;

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// Only these questions, by their ids in --list
    #[arg(
        long,
        value_name = "ID,..",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Probe::all().iter().map(|probe| probe.id))
    )]
    pub(crate) only: Vec<String>,
    /// Only list the questions and what each needs
    #[arg(long)]
    pub(crate) list: bool,
    /// Begin without asking; required if there is no terminal
    #[arg(long)]
    pub(crate) yes: bool,
}
