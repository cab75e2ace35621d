//! The probes: one question each, in the order in which they are asked. What uses something up comes last.

mod addresses;
mod listings;
mod servers;
mod volumes;

use crate::fixture::Fixture;
use crate::probe::Probe;

use Fixture::{Address, BlockVolume, LocalVolume, RunningServer, Server, SpareAddress, SpareServer};

impl Probe {
    /// Every probe, in the order in which they are asked.
    #[must_use]
    pub fn all() -> &'static [Probe] {
        ALL
    }
}

const ALL: &[Probe] = &[
    Probe::of("listed-within-settle", &[Address, LocalVolume, BlockVolume, Server], listings::listed_within_settle),
    Probe::of("tag-filter-addresses", &[Address], listings::tag_filter_addresses),
    Probe::of("tag-filter-local-volumes", &[LocalVolume], listings::tag_filter_local_volumes),
    Probe::of("tag-filter-block-volumes", &[BlockVolume], listings::tag_filter_block_volumes),
    Probe::of("tag-filter-servers", &[Server], listings::tag_filter_servers),
    Probe::of("tag-filter-several", &[Address, LocalVolume, Server], listings::tag_filter_several),
    Probe::of("filtered-totals", &[Address, LocalVolume, BlockVolume, Server], listings::filtered_totals),
    Probe::of("gone-address-answers", &[SpareAddress], addresses::gone_address_answers),
    Probe::of("attached-address-deletable", &[Server, SpareAddress], addresses::attached_address_deletable),
    Probe::of("user-data-answers", &[Server], servers::user_data_answers),
    Probe::of("user-data-size", &[Server], servers::user_data_size),
    Probe::of("root-volume-taggable", &[Server], volumes::root_volume_taggable),
    Probe::of("attached-volume-refused", &[Server, BlockVolume], volumes::attached_volume_refused),
    Probe::of("detached-from-stopped", &[Server, BlockVolume], volumes::detached_from_stopped),
    Probe::of("delete-leaves-parts", &[SpareServer, SpareAddress], servers::delete_leaves_parts),
    Probe::of("protected-delete-accepted", &[SpareServer], servers::protected_delete_accepted),
    Probe::of("action-takes-effect", &[RunningServer], servers::action_takes_effect),
    Probe::of("detached-from-running", &[RunningServer, BlockVolume], volumes::detached_from_running),
    Probe::of("running-delete-refused", &[RunningServer], servers::running_delete_refused),
    Probe::of("terminate-leaves-parts", &[RunningServer, Address], servers::terminate_leaves_parts),
];
