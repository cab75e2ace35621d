//! What the journal holds, as data.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_scaleway::types::instance::VolumeType;

use crate::identifier::OperationId;

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$case_doc:meta])* $case:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$case_doc])* #[serde(rename = $word)] $case,)*
        }

        impl $type {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$case,)*];

            /// The word that the journal and every JSON output use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$case => $word,)* }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// What an operation does. The journal refuses a word it does not know, naming the row.
    OperationKind {
        /// Create one server with everything that belongs to it.
        CreateServer = "create-server",
        /// Remove one server with everything that belongs to it.
        CleanupServer = "cleanup-server",
        /// Remove what is ours and explained by nothing.
        Sweep = "sweep",
        /// Claim a host of a pool.
        AdoptMachine = "adopt-machine",
        /// Order a host.
        OrderMachine = "order-machine",
        /// Release a host.
        ReleaseMachine = "release-machine",
    }
}

words! {
    /// Where an operation stands.
    OperationState {
        /// Running, or left by a process that died.
        Open = "open",
        /// Completed.
        Done = "done",
        /// Failed, and everything that it had made is gone.
        Undone = "undone",
        /// Failed, and what is left was kept on purpose.
        Kept = "kept",
        /// Failed, and something that should be gone is left, or nobody could see whether. The next start tries again.
        Left = "left",
        /// Failed, and nothing is left as far as can be seen; but a call whose answer was lost may still take effect.
        /// A process that runs at [`Operation::look_at`] looks once more.
        Unverified = "unverified",
        /// Somebody decided that it is not to be finished or undone
        /// ([`Lifecycle::abandon`](crate::Lifecycle::begin_abandon)). What it may have made is left alone.
        Abandoned = "abandoned",
    }
}

impl OperationState {
    /// The states of operations that somebody still has to end.
    pub const UNFINISHED: [Self; 3] = [Self::Open, Self::Left, Self::Unverified];

    /// Whether nothing happens in such an operation any more.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !Self::UNFINISHED.contains(&self)
    }

    /// Whether something is still to be done or removed: it is `Open` or `Left`, and does not only wait for a second
    /// look.
    #[must_use]
    pub fn has_work_left(self) -> bool {
        matches!(self, Self::Open | Self::Left)
    }
}

words! {
    /// The side of its effect on which an entry was written.
    Phase {
        /// Before the call leaves the process.
        Intent = "intent",
        /// After the call's outcome is known: the effect took place.
        Outcome = "outcome",
        /// The step has failed for good, or an attempt has; the data say which.
        Failure = "failure",
        /// Something worth keeping that is no effect: what was found, what was decided.
        Note = "note",
    }
}

words! {
    /// The kinds of resources that operations make. The words are those of the rollback slot.
    ResourceKind {
        /// An Instance server.
        Server = "server",
        /// A flexible public IP address.
        Ip = "ip",
        /// A volume of Block Storage (`sbs_volume`).
        BlockVolume = "block-volume",
        /// A local volume (`l_ssd`, `scratch`).
        LocalVolume = "local-volume",
        /// A volume whose type this version does not know, so that nobody knows which API holds it.
        Volume = "volume",
        /// A network interface in a private network.
        PrivateNic = "private-nic",
        /// An Apple silicon host: a Mac.
        AppleSiliconServer = "apple-silicon-server",
    }
}

impl ResourceKind {
    /// The kind of a volume of this type, which says which API holds it.
    #[must_use]
    pub fn of_volume(volume_type: &VolumeType) -> Self {
        match volume_type {
            VolumeType::BlockStorage => Self::BlockVolume,
            VolumeType::LocalSsd | VolumeType::LegacyBlock | VolumeType::Scratch => Self::LocalVolume,
            // Words of requests, and those of tomorrow.
            _ => Self::Volume,
        }
    }

    /// Whether it is a volume.
    pub(crate) const fn is_volume(self) -> bool {
        matches!(self, Self::BlockVolume | Self::LocalVolume | Self::Volume)
    }
}

impl OperationKind {
    /// Whether it makes or claims a machine. Such an operation is cancelled by undoing it; the others are finished.
    /// Once done it explains its machine until another operation has removed or released that machine.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Self::CreateServer | Self::AdoptMachine | Self::OrderMachine)
    }
}

/// The longest JSON text of one field, in bytes.
pub(super) const MAX_JSON_LEN: usize = 256 * 1024;

/// Names one resource of Scaleway.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceName {
    /// What it is.
    pub kind: ResourceKind,
    /// Scaleway's id of it.
    pub id: String,
    pub zone: String,
    /// The server that it is attached to, where its path needs one (private NICs).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} ({})", self.kind, self.id, self.zone)
    }
}

/// One operation as the journal holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its id, which is also the value of the operation tag.
    pub id: OperationId,
    pub kind: OperationKind,
    /// The group it works for.
    pub group: String,
    /// The zone it works in.
    pub zone: String,
    /// The owner whose resources it touches.
    pub owner: String,
    /// What was asked for, without secrets.
    pub specification: Value,
    /// The policies with which it began.
    pub policies: Value,
    /// The process that runs it, or ran it.
    pub runner: String,
    /// The name of that process's machine, where hosts share the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub state: OperationState,
    /// The first cause of its failure.
    pub cause: Option<Value>,
    /// What policies said to people about their decisions, in order.
    pub reasons: Vec<String>,
    /// What was removed, kept and left, where something was undone.
    pub report: Option<Value>,
    /// The operation that removed the server that this one created.
    pub ended_by: Option<OperationId>,
    /// When an unverified operation is looked at again, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub look_at: Option<u64>,
    /// Milliseconds since 1970.
    pub created_at: u64,
    /// When the row changed last, in milliseconds since 1970: also when another operation removed what this one made.
    pub updated_at: u64,
    /// When it ended, in milliseconds since 1970; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

impl Operation {
    /// The name of the server that it creates: the one that was asked for, else its id.
    pub(crate) fn server_name(&self) -> &str {
        self.specification.get("name").and_then(Value::as_str).unwrap_or(self.id.as_str())
    }

    /// Whether somebody abandoned it, and no other operation has removed what it made.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.state == OperationState::Abandoned && self.ended_by.is_none()
    }

    /// How long it took, in milliseconds; `None` while it is open.
    #[must_use]
    pub fn took(&self) -> Option<u64> {
        self.ended_at.map(|ended_at| ended_at.saturating_sub(self.created_at))
    }
}

/// One entry of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// From 1, in the order of writing, which gives it.
    #[serde(default)]
    pub sequence: u64,
    /// The step: `create-ip`, `power-on`, ...
    pub step: String,
    /// Before or after the effect.
    pub phase: Phase,
    /// The resource, where one is known.
    pub resource: Option<ResourceName>,
    /// What else is worth knowing.
    pub data: Value,
    /// Milliseconds since 1970.
    pub at: u64,
}

/// How an operation ends.
#[derive(Clone, Debug)]
pub(crate) struct Closing {
    pub(crate) operation: OperationId,
    pub(crate) state: OperationState,
    pub(crate) cause: Option<Value>,
    pub(crate) reasons: Vec<String>,
    pub(crate) report: Option<Value>,
    /// Operations whose servers this one removed.
    pub(crate) ends: Vec<OperationId>,
    /// When it is looked at again; only of one that closes as unverified.
    pub(crate) look_at: Option<u64>,
    pub(crate) at: u64,
}

/// Which operations to list.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OperationFilter {
    /// Only these states; empty: all.
    pub states: Vec<OperationState>,
    /// Only this group.
    pub group: Option<String>,
    /// Only those of the machine of this name, where hosts share the journal.
    pub host: Option<String>,
    /// Only those that a Kubernetes object of this namespace asked for, or that were done for one.
    pub tenant: Option<String>,
    /// Only those that changed at this time or later, in milliseconds since 1970, or have not ended.
    pub since: Option<u64>,
    /// Only this kind.
    pub kind: Option<OperationKind>,
    /// Only those that no other operation ended: of creations that are done, those whose servers should be there.
    pub not_ended: bool,
    /// Only those that are older than this one, in the order of the listing: the next page.
    pub before: Option<OperationId>,
    /// At most so many, the newest first. Absent: all.
    pub limit: Option<u32>,
}
