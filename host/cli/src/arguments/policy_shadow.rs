//! The arguments of `windlass policy shadow`.

use std::time::Duration;

use clap::Args;
use windlass_policy::slots::SlotName;

use super::slot_names;
use crate::units::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct ShadowPolicy {
    /// Only decisions of so long ago at most, for example 24h [default: all in the log]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only this slot
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Only shadows of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Exit with 1 where a shadow differed or failed
    #[arg(long)]
    pub(crate) fail_on_difference: bool,
}
