//! The arguments of `windlass policy audit`.

use clap::Args;
use windlass_lifecycle::GroupName;
use windlass_policy::slots::SlotName;

use super::{LoadOptions, slot_names};

#[derive(Debug, Args)]
pub(crate) struct AuditPolicy {
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// The slot to audit, `release` or `state-mapping` [default: the one of the two that the policy decides]
    #[arg(long, value_name = "SLOT", value_parser = slot_names())]
    pub(crate) slot: Option<SlotName>,
    /// Only machines of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<GroupName>,
    /// Exit with code 1 if a machine would go that stays today, if the policy fails, or if prices are not known
    #[arg(long)]
    pub(crate) fail_on_destructive: bool,
}
