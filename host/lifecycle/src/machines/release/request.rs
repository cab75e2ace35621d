//! What is asked of a release, and how it ends.

use serde::{Deserialize, Serialize};
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;

use crate::OperationId;
use crate::RequestedBy;
use crate::machines::names::{ClaimName, PoolPrefix, is_returning};

/// How often the slot is asked in one release: an action that is refused and asked for again and again ends here.
pub(super) const ASKINGS: u32 = 6;

/// A host that its claimant releases, or cannot set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRequest {
    /// The zone.
    pub zone: Zone,
    /// Scaleway's id of the host.
    pub host: String,
    /// The name that it must carry: one that carries another is somebody else's and is left alone.
    pub claim: ClaimName,
    /// The pool that it returns to. Absent: it belongs to none, and cannot.
    pub pool_prefix: Option<PoolPrefix>,
    /// What the owner asked for.
    pub requested: Option<Requested>,
    /// Why.
    pub trigger: Trigger,
    /// Whether it was taken from the pool, and not ordered for this claimant.
    pub adopted: bool,
    /// Failed set-ups since it was claimed.
    pub bootstrap_failures: u32,
    /// Whether it was rebooted for recovery since it was claimed.
    pub rebooted: bool,
    /// Whether the claimant is replaced together with its host: then a verdict that ends the claim is told
    /// ([`ReleaseOutcome::GivenUp`]) and not carried out. The release of the claimant asks again.
    #[serde(default)]
    pub replaced_with_claimant: bool,
    /// Which asking this is, from 1: how often this release was asked for before, plus one. The default policy waits
    /// longer each time.
    pub attempt: u32,
    /// Who asks, and why.
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub requested_by: RequestedBy,
}

impl ReleaseRequest {
    /// The owner released it, it came from this pool, and nothing special is known.
    #[must_use]
    pub fn new(zone: Zone, host: impl Into<String>, claim: ClaimName, pool_prefix: Option<PoolPrefix>) -> Self {
        Self {
            zone,
            host: host.into(),
            claim,
            adopted: pool_prefix.is_some(),
            pool_prefix,
            requested: None,
            trigger: Trigger::Released,
            bootstrap_failures: 0,
            rebooted: false,
            replaced_with_claimant: false,
            attempt: 1,
            requested_by: RequestedBy::default(),
        }
    }
}

/// What became of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum ReleaseOutcome {
    /// It is being wiped, and carries this name in its pool. Eligible when it is ready again.
    ReturnedToPool {
        /// The name.
        name: String,
    },
    /// It was deleted.
    Terminated,
    /// Scaleway deletes it as soon as it can be deleted. It costs until then, and carries the claim.
    DeletionScheduled {
        /// When that is, in milliseconds since 1970, where Scaleway says.
        deletable_at: Option<u64>,
    },
    /// It stays as it is, with the name that it has. The release has ended.
    Kept,
    /// Nothing that can be relied on has happened: ask again.
    AskAgain {
        /// After so long, in milliseconds.
        after: u64,
    },
    /// It restarts, and is set up again. It is still claimed.
    Rebooted,
    /// The policy gives it up, and nothing was done to it: its claimant is to be replaced, whose release asks again.
    GivenUp,
    /// There is no such host.
    AlreadyGone,
    /// It carries another name and was left alone: somebody else's, or given back by hand.
    NotOurs {
        /// The name that it carries.
        name: String,
    },
}

impl ReleaseOutcome {
    /// Whether the claimant may forget the host: everything but "ask again", "rebooted" and "given up".
    #[must_use]
    pub fn is_released(&self) -> bool {
        !matches!(self, Self::AskAgain { .. } | Self::Rebooted | Self::GivenUp)
    }

    /// Whether nothing has to be remembered of how the host was claimed. A kept host keeps its claim, and one that
    /// still lacks its name in the pool is not there yet.
    pub(crate) fn ends_claim(&self) -> bool {
        match self {
            Self::ReturnedToPool { name } => !is_returning(name),
            Self::Kept => false,
            other => other.is_released(),
        }
    }
}

/// How a release ended.
#[derive(Clone, Debug, Serialize)]
pub struct Released {
    /// What became of the host.
    pub outcome: ReleaseOutcome,
    /// Why, for people: what the policy said, or what stood in the way.
    pub reason: Option<String>,
    /// Who decided; absent where nothing was to be decided (it is gone, or not ours).
    pub decided_by: Option<String>,
    /// Policies that failed, and how. Worth a warning to whoever runs them: the host was kept for it.
    pub policy_failures: Vec<String>,
    /// What Scaleway refused last, where it did.
    pub refused: Option<String>,
    /// Of which class that refusal was.
    pub refused_class: Option<FailureClass>,
    /// The operation; absent where nothing was to be done, so that nothing is in the journal.
    pub operation: Option<OperationId>,
}

/// What a release's row in the journal says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReleaseSpecification {
    #[serde(flatten)]
    pub(crate) request: ReleaseRequest,
}

/// Milliseconds since 1970.
pub(crate) fn instant(at: Option<jiff::Timestamp>) -> Option<u64> {
    at.and_then(|at| u64::try_from(at.as_millisecond()).ok())
}
