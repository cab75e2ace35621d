//! What `windlass policy prove`, `diff` and `bench` take.

use std::path::PathBuf;

use clap::Args;
use windlass_policy::slots::SlotName;
use windlass_proof::space::Values;

use super::{LoadOptions, slot_names};

/// Which questions are asked, and how many.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpaceOptions {
    /// Maximum number of questions within the bounds; if there are more, a random sample of this size is asked [default:
    /// 20000000, to compare two policies 1000000; for a policy in JavaScript or Python, which takes a hundred times as
    /// long, 50000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) questions: Option<u64>,
    /// Number of random questions beyond the bounds, asked after those that cover each pair of values; 0 skips both
    /// [default: 100000; for a policy in JavaScript or Python 10000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) random: Option<u64>,
    /// Seed of random questions
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Values of a field of the question (repeatable), as a proof prints them: `attempt=1,2,3`, `refusal=absent`, or
    /// `subject.labels=up to 2 items`, for short `2`; `example` is what the example has, `all` each value of an enum or
    /// a boolean, or an optional field absent and present
    #[arg(long = "bound", value_name = "PATH=VALUES", value_parser = parse_bound)]
    pub(crate) bounds: Vec<(String, Values)>,
}

#[derive(Debug, Args)]
pub(crate) struct ProvePolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot whose questions are asked [default: the only one that the policy decides]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// A CEL condition over `question`, `answer` and `verdict` that must never hold (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) never: Vec<String>,
    /// A condition that must always hold (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) always: Vec<String>,
    /// A condition that must hold for every answer that does not defer (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) only_defers_or: Vec<String>,
    /// A policy whose answers must be the same, with its default settings; `default` is the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) equivalent: Option<PathBuf>,
    /// A file of laws (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) laws: Option<PathBuf>,
    /// Save a counterexample as a fixture in this file
    #[arg(long, value_name = "DIRECTORY", default_value = "counterexamples")]
    pub(crate) save: PathBuf,
    #[command(flatten)]
    pub(crate) space: SpaceOptions,
}

#[derive(Debug, Args)]
pub(crate) struct DiffPolicies {
    /// The old policy; `default` is the built-in one
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    /// The new policy
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// The slot whose questions are asked [default: the only one that the policy decides]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Settings for both: a JSON object, or @FILE [default: the configuration's for each file]
    #[arg(long, value_name = "JSON")]
    pub(crate) settings: Option<String>,
    /// A grant for both (repeatable); what they call is refused here
    #[arg(long = "grant", value_name = "GRANT")]
    pub(crate) grants: Vec<String>,
    /// Use questions recorded in this last period [default: all recorded questions]
    #[arg(long, value_name = "DURATION", value_parser = crate::units::parse_duration)]
    pub(crate) since: Option<std::time::Duration>,
    /// Exit with code 1 if a verdict changes
    #[arg(long)]
    pub(crate) fail_on_change: bool,
    #[command(flatten)]
    pub(crate) space: SpaceOptions,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot whose questions are asked [default: the only one that the policy decides]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Number of decisions measured per policy
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(100..=10_000_000),
    )]
    pub(crate) decisions: u32,
}

/// `path=1,2`. Whether the place takes such values is known later.
fn parse_bound(text: &str) -> Result<(String, Values), String> {
    let (path, values) = text.split_once('=').ok_or("write PATH=VALUES, for example attempt=1,2,3")?;
    let path = path.trim().replace('_', "-");
    Ok((path, values.parse()?))
}
