//! What is asked of a release, and how it ends.

use serde::{Deserialize, Serialize};
use windlass_policy::slots::release::{Activity, Requested, Trigger};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;

use crate::cleanup::{CleanedUp, CleanupRequest};
use crate::journal::ResourceKind;
use crate::machines::names::{ClaimName, PoolPrefix, is_returning};
use crate::release::server::Decided;
use crate::report::{Report, instant_words};
use crate::{OperationId, RequestedBy};

/// How often the slot is asked in one release: an action that is refused and asked for again and again ends here.
pub(super) const ASKINGS: u32 = 6;

/// A machine that its owner releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// A server, with everything that belongs to it.
    Server(CleanupRequest),
    /// A Mac.
    Host(ReleaseRequest),
}

impl From<CleanupRequest> for Release {
    fn from(request: CleanupRequest) -> Self {
        Self::Server(request)
    }
}

impl From<ReleaseRequest> for Release {
    fn from(request: ReleaseRequest) -> Self {
        Self::Host(request)
    }
}

impl From<&ReleaseRequest> for Release {
    fn from(request: &ReleaseRequest) -> Self {
        Self::Host(request.clone())
    }
}

/// Who decides whether a server goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decided_by", rename_all = "kebab-case")]
pub enum Removal {
    /// The rollback slot alone: nobody ever had the server, since its creation failed or was called off.
    #[default]
    Rollback,
    /// The release slot: its owner no longer wants it.
    Release(Asking),
    /// An operator, whatever the release slot would say.
    Force,
}

impl Removal {
    pub(crate) fn is_rollback(&self) -> bool {
        *self == Self::Rollback
    }
}

/// Why, and how often before, the release slot is asked about a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// Why.
    pub trigger: Trigger,
    /// What the owner asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Requested>,
    /// Failed set-ups since the owner has it.
    #[serde(default)]
    pub bootstrap_failures: u32,
    /// Whether it was rebooted for recovery since.
    #[serde(default)]
    pub rebooted: bool,
    /// What the server was doing.
    #[serde(default)]
    pub activity: Activity,
    /// Which asking this is, from 1.
    pub attempt: u32,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            trigger: Trigger::Released,
            requested: None,
            bootstrap_failures: 0,
            rebooted: false,
            activity: Activity::default(),
            attempt: 1,
        }
    }
}

/// A host that its claimant releases, or cannot set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRequest {
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
    /// What the host was doing.
    #[serde(default)]
    pub activity: Activity,
    /// Whether the claimant is replaced together with its host: then a verdict that ends the claim is reported
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
            activity: Activity::default(),
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
    ReturnedToPool { name: String },
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
    /// It carries another name and was left alone: somebody else's, or given back by hand. A server: it no longer
    /// carries our tag.
    NotOurs {
        /// The name that it carries; of a server, its id.
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
    pub refused_class: Option<FailureClass>,
    /// What was removed, kept and left of a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// The operation; absent where nothing was to be done, so that nothing is in the journal.
    pub operation: Option<OperationId>,
}

impl Released {
    /// Whether the machine stays until the slot is asked again, because a policy said so.
    #[must_use]
    pub fn waits_for_policy(&self) -> bool {
        matches!(self.outcome, ReleaseOutcome::AskAgain { .. }) && self.decided_by.is_some() && self.refused.is_none()
    }

    /// What became of the machine, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let what = match (&self.outcome, &self.report) {
            (ReleaseOutcome::Kept, _) => match &self.decided_by {
                Some(decided_by) => format!("kept as it is, as {decided_by} decided"),
                None => "kept as it is".to_owned(),
            },
            (ReleaseOutcome::AskAgain { after }, _) if self.refused.is_none() => {
                format!("next attempt in {} s", after.div_ceil(1000))
            }
            (_, Some(report)) => report.words(),
            (ReleaseOutcome::ReturnedToPool { name }, None) => {
                format!("returned to its pool as {name}; it is being reinstalled")
            }
            (ReleaseOutcome::Terminated, None) => "deleted at Scaleway".to_owned(),
            (ReleaseOutcome::DeletionScheduled { deletable_at }, None) => match deletable_at {
                Some(at) => format!("Scaleway deletes it at {}", instant_words(*at)),
                None => "Scaleway deletes it as soon as it can be deleted".to_owned(),
            },
            (ReleaseOutcome::AskAgain { after }, None) => {
                format!("next attempt in {} s", after.div_ceil(1000))
            }
            (ReleaseOutcome::Rebooted, None) => "restarted; it is to be set up again".to_owned(),
            (ReleaseOutcome::GivenUp, None) => "given up".to_owned(),
            (ReleaseOutcome::AlreadyGone, None) => "there is no such machine".to_owned(),
            (ReleaseOutcome::NotOurs { name }, None) => format!("it is called {name}, so it was left alone"),
        };
        let refused = self.refused.as_ref().filter(|_| self.report.is_none()).map(|words| format!("refused: {words}"));
        let failed =
            (!self.policy_failures.is_empty()).then(|| format!("failed policies: {}", self.policy_failures.join(", ")));
        [Some(what), self.reason.clone(), refused, failed].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl From<CleanedUp> for Released {
    fn from(cleaned: CleanedUp) -> Self {
        let CleanedUp { operation, report, decided } = cleaned;
        let is_clean = report.is_clean();
        let is_kept_by_plan = report.kept.iter().any(|name| name.kind == ResourceKind::Server)
            && decided.as_ref().is_none_or(|decided| !decided.is_kept());
        let decided = match is_kept_by_plan {
            true => Some(Decided::of_plan()),
            false => decided,
        };
        let outcome = match &decided {
            Some(decided) if is_clean || decided.outcome != ReleaseOutcome::Terminated => decided.outcome.clone(),
            None if is_clean => match report.server_not_ours() {
                Some(server) => ReleaseOutcome::NotOurs { name: server.id.clone() },
                None => ReleaseOutcome::AlreadyGone,
            },
            // What is left is tried again by whoever resumes the operation.
            _ => ReleaseOutcome::AskAgain { after: 0 },
        };
        let refused = (!is_clean && decided.as_ref().is_none_or(|it| it.outcome == ReleaseOutcome::Terminated))
            .then(|| report.words());
        let (reason, decided_by, policy_failures) = match decided {
            Some(decided) => (decided.reason, Some(decided.decided_by), decided.policy_failures),
            None => (None, None, Vec::new()),
        };
        Self {
            outcome,
            reason,
            decided_by,
            policy_failures,
            refused,
            refused_class: None,
            report: Some(report),
            operation: Some(operation),
        }
    }
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
