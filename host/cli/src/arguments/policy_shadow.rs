//! The arguments of `windlass policy shadow`.

use std::time::Duration;

use clap::Args;
use windlass_policy::slots::SlotName;

use super::slot_names;
use crate::units::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct ShadowPolicy {
    /// Only decisions of this last period, for example 24h [default: all]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only this slot
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Only shadow policies of this name
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Exit with code 1 if a shadow differed or failed, or none was asked
    #[arg(long)]
    pub(crate) fail_on_difference: bool,
}
