//! What `windlass policy prove`, `diff` and `bench` take.

use std::path::PathBuf;

use clap::Args;
use windlass_policy::slots::SlotName;
use windlass_proof::space::Values;

use super::{LoadOptions, slot_names};

/// How much is asked, and of what.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpaceOptions {
    /// At most so many questions within the bounds; where there are more, so many are drawn from them [default:
    /// 20000000; of a policy in JavaScript or Python, which takes a hundred times as long for each, 50000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) questions: Option<u64>,
    /// So many questions at random beyond the bounds, after those in which every two values of two places come
    /// together; with 0, none of either [default: 100000; of a policy in JavaScript or Python 10000]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) random: Option<u64>,
    /// The seed from which questions are drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Values for a place of the question (repeatable): `attempt=1,2,3`, `nodes=3` for the most items of a list, or
    /// `requested=example` for the example's alone
    #[arg(long = "bound", value_name = "PATH=VALUES", value_parser = parse_bound)]
    pub(crate) bounds: Vec<(String, Values)>,
}

#[derive(Debug, Args)]
pub(crate) struct ProvePolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot whose questions are asked
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: SlotName,
    /// A condition in CEL over `question`, `answer` and `verdict` that is true of no answer (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) never: Vec<String>,
    /// A condition that is true of every answer (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) always: Vec<String>,
    /// A condition that is true of every answer that doesn't defer (repeatable)
    #[arg(long, value_name = "EXPR")]
    pub(crate) only_defers_or: Vec<String>,
    /// Another policy that judges the same, with its own default settings; `default` is the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) equivalent: Option<PathBuf>,
    /// A file of laws (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) laws: Option<PathBuf>,
    /// Where a counterexample is saved as a fixture
    #[arg(long, value_name = "DIRECTORY", default_value = "counterexamples")]
    pub(crate) save: PathBuf,
    #[command(flatten)]
    pub(crate) space: SpaceOptions,
}

#[derive(Debug, Args)]
pub(crate) struct DiffPolicies {
    /// The policy as it was; `default` is the built-in one
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,
    /// The policy as it is to be
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,
    /// The slot whose questions are asked
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: SlotName,
    /// Settings for both: a JSON object, or @FILE [default: the configuration's for each file]
    #[arg(long, value_name = "JSON")]
    pub(crate) settings: Option<String>,
    /// A grant for both (repeatable); what they call is refused here
    #[arg(long = "grant", value_name = "GRANT")]
    pub(crate) grants: Vec<String>,
    /// Also the questions that were recorded since so long ago [default: all that are on record]
    #[arg(long, value_name = "DURATION", value_parser = crate::units::parse_duration)]
    pub(crate) since: Option<std::time::Duration>,
    /// End with exit code 1 when a verdict changes
    #[arg(long)]
    pub(crate) fail_on_change: bool,
    #[command(flatten)]
    pub(crate) space: SpaceOptions,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot whose questions are asked [default: the only one that the policy exports]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// How many decisions of each policy are measured
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 20_000,
        value_parser = clap::value_parser!(u32).range(100..=10_000_000),
    )]
    pub(crate) decisions: u32,
}

/// `path=1,2`, `path=a,b`, `path=example`. Whether the place takes numbers or texts is known later.
fn parse_bound(text: &str) -> Result<(String, Values), String> {
    let (path, values) = text.split_once('=').ok_or("write PATH=VALUES, for example attempt=1,2,3")?;
    let path = path.trim().replace('_', "-");
    if values.trim() == "example" {
        return Ok((path, Values::Example));
    }
    let words: Vec<&str> = values.split(',').map(str::trim).collect();
    let numbers: Result<Vec<u64>, _> = words.iter().map(|word| word.parse::<u64>()).collect();
    Ok((
        path,
        match numbers {
            Ok(numbers) => Values::Numbers(numbers),
            Err(_) => Values::Texts(words.into_iter().map(str::to_owned).collect()),
        },
    ))
}
