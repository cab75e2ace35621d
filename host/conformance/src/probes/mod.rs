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
    Probe {
        id: "listed-within-settle",
        title: "what was just created is in the listings of its kind within two seconds",
        needs: &[Address, LocalVolume, BlockVolume, Server],
        ask: listings::listed_within_settle,
    },
    Probe {
        id: "tag-filter-addresses",
        title: "a listing of addresses by a tag with `=`, without a project, holds exactly those that carry it",
        needs: &[Address],
        ask: listings::tag_filter_addresses,
    },
    Probe {
        id: "tag-filter-local-volumes",
        title: "the same for local volumes",
        needs: &[LocalVolume],
        ask: listings::tag_filter_local_volumes,
    },
    Probe {
        id: "tag-filter-block-volumes",
        title: "the same for Block Storage volumes",
        needs: &[BlockVolume],
        ask: listings::tag_filter_block_volumes,
    },
    Probe {
        id: "tag-filter-servers",
        title: "the same for servers",
        needs: &[Server],
        ask: listings::tag_filter_servers,
    },
    Probe {
        id: "tag-filter-several",
        title: "a listing of the Instance API by two tags holds what carries these and more",
        needs: &[Address, LocalVolume, Server],
        ask: listings::tag_filter_several,
    },
    Probe {
        id: "filtered-totals",
        title: "the total of a listing, filtered or not, is the number of its items",
        needs: &[Address, LocalVolume, BlockVolume, Server],
        ask: listings::filtered_totals,
    },
    Probe {
        id: "gone-address-answers",
        title: "a deleted address is answered 404 `not_found` by its id",
        needs: &[SpareAddress],
        ask: addresses::gone_address_answers,
    },
    Probe {
        id: "attached-address-deletable",
        title: "an address can be deleted while a server uses it",
        needs: &[Server, SpareAddress],
        ask: addresses::attached_address_deletable,
    },
    Probe {
        id: "user-data-answers",
        title: "setting cloud-init is answered 204 without a body, and is read back as it was set",
        needs: &[Server],
        ask: servers::user_data_answers,
    },
    Probe {
        id: "user-data-size",
        title: "cloud-init may have 128 KiB",
        needs: &[Server],
        ask: servers::user_data_size,
    },
    Probe {
        id: "root-volume-taggable",
        title: "the volume that came with a server can be tagged while it is attached",
        needs: &[Server],
        ask: volumes::root_volume_taggable,
    },
    Probe {
        id: "attached-volume-refused",
        title: "a block volume cannot be deleted while it is attached",
        needs: &[Server, BlockVolume],
        ask: volumes::attached_volume_refused,
    },
    Probe {
        id: "detached-from-stopped",
        title: "a block volume that is detached from a stopped server survives, with its tags",
        needs: &[Server, BlockVolume],
        ask: volumes::detached_from_stopped,
    },
    Probe {
        id: "delete-leaves-parts",
        title: "deleting a stopped server leaves its block volumes and addresses",
        needs: &[SpareServer, SpareAddress],
        ask: servers::delete_leaves_parts,
    },
    Probe {
        id: "protected-delete-accepted",
        title: "a protected server says so, and can be deleted when it is stopped",
        needs: &[SpareServer],
        ask: servers::protected_delete_accepted,
    },
    Probe {
        id: "action-takes-effect",
        title: "a power-on is answered 202, and the server is no longer `stopped` two seconds later",
        needs: &[RunningServer],
        ask: servers::action_takes_effect,
    },
    Probe {
        id: "detached-from-running",
        title: "a block volume can be detached from a running server, and survives",
        needs: &[RunningServer, BlockVolume],
        ask: volumes::detached_from_running,
    },
    Probe {
        id: "running-delete-refused",
        title: "a running server cannot be deleted, only terminated",
        needs: &[RunningServer],
        ask: servers::running_delete_refused,
    },
    Probe {
        id: "terminate-leaves-parts",
        title: "terminating a server leaves its block volumes and addresses",
        needs: &[RunningServer, Address],
        ask: servers::terminate_leaves_parts,
    },
];
