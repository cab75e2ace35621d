//! What all operations of a process share, and how one begins.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use windlass_concurrency::{ActiveKey, ActiveKeys};
use windlass_policy::{Host, PinnedPolicies};
use windlass_scaleway::{Client, Zone};

use crate::account::{Catalogues, WithoutPrices};
use crate::cancels::Cancels;
use crate::clock::{Clock, Randomness};
use crate::history::History;
use crate::identifier::{GroupName, OperationId, OwnerName};
use crate::images::Images;
use crate::journal::{Journal, Operation, OperationKind, OperationState, Runner};
use crate::machines::Machines;
use crate::outstanding::Outstanding;
use crate::policy_hosts::StatusPublisher;
use crate::poller::Poller;
use crate::run::milliseconds;
use crate::state_directory::StateDirectory;
use crate::{Error, metric_names};

/// What bounds the work.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Operations under way at a time. The client's own rate and concurrency limits lie below this one.
    pub parallel_operations: usize,
    /// Steps of one rollback plan under way at a time.
    pub parallel_steps: usize,
    /// How long to wait before looking for the effect of a creation whose answer was lost: what is still on its way
    /// at Scaleway gets the time to arrive. (Assumption: nothing recorded tells how long that can be; what arrives
    /// even later is found by the look at the end, or by the sweep.)
    pub settle: Duration,
    /// How long after a creating call whose answer was lost it is looked for a second and last time, when the
    /// operation failed: until then it is [`unverified`](crate::OperationState::Unverified). (assumption:
    /// late-effect-within-second-look)
    pub second_look: Duration,
    /// The first wait between two looks at a server that changes; later ones grow to five times it. Half of all
    /// servers run within 5 s (recorded).
    pub poll_interval: Duration,
    /// How old a list of a zone's machines may be that many share ([`Lifecycle::hosts`](crate::Lifecycle::hosts),
    /// [`Lifecycle::servers`](crate::Lifecycle::servers)).
    pub machine_interval: Duration,
    /// How long an adoption waits between its two phases. A rename of anybody else that was on its way takes effect
    /// within this time; otherwise two processes that do not share a state directory could claim one host. Zero where
    /// all share one.
    pub claim_settle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel_operations: 128,
            parallel_steps: 4,
            settle: Duration::from_secs(2),
            second_look: Duration::from_secs(600),
            poll_interval: Duration::from_secs(1),
            machine_interval: Duration::from_secs(30),
            claim_settle: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// When an operation whose lost call was sent at `lost` has to be looked at again, after a look at `looked`.
    /// `None`: that look was the last one. A call of a time to come was sent by a clock that was ahead: it counts from
    /// the look.
    ///
    /// Nothing recorded tells how late a call can take effect at Scaleway (assumption: late-effect-within-second-look).
    pub(crate) fn next_look(&self, lost: Option<u64>, looked: u64) -> Option<u64> {
        let last = lost?.min(looked).saturating_add(milliseconds(self.second_look));
        (looked < last).then_some(last)
    }
}

/// What all operations of a process share.
pub(crate) struct Shared {
    /// Ends first: it writes under the name of the runner.
    pub(crate) _publisher: Option<StatusPublisher>,
    pub(crate) client: Client,
    pub(crate) policies: Arc<Host>,
    pub(crate) state_directory: StateDirectory,
    /// The state directory's history.
    pub(crate) history: History,
    /// What shows that the state directory's history took place elsewhere, or went on after what it knows.
    pub(crate) moved: Mutex<Option<String>>,
    /// Zones that were looked at and showed nothing which the journal does not know; those that could not be listed,
    /// with the time of the attempt. Held during a look, so that one zone is looked at once.
    pub(crate) not_set_back: tokio::sync::Mutex<BTreeMap<Zone, Option<Instant>>>,
    pub(crate) journal: Journal,
    pub(crate) owner: OwnerName,
    pub(crate) project: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) clock: Clock,
    pub(crate) randomness: Randomness,
    pub(crate) limits: Limits,
    pub(crate) poller: Poller,
    pub(crate) images: Arc<Images>,
    pub(crate) catalogues: Catalogues,
    pub(crate) without_prices: WithoutPrices,
    /// Addresses of pools that creations of this process have taken.
    pub(crate) pooled_ips: ActiveKeys<String>,
    pub(crate) machines: Machines,
    pub(crate) runner: Runner,
    /// Operations under way in this process.
    pub(crate) active: ActiveKeys<OperationId>,
    /// What the metrics say of what is unfinished and left.
    pub(crate) outstanding: Outstanding,
    /// Held while operations are taken over: tasks of one process wait for each other, processes do not.
    pub(crate) taking_over: tokio::sync::Mutex<()>,
    /// Those of them that can be cancelled.
    pub(crate) cancels: Cancels,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("owner", &self.owner)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Whether this process or another one that lives works on an operation that is open.
    pub(crate) fn is_worked_on(&self, operation: &Operation) -> bool {
        if operation.runner == self.runner.name() {
            self.active.contains(&operation.id)
        } else {
            self.journal.runner_lives(&operation.runner)
        }
    }

    pub(crate) fn check_history(&self) -> Result<(), Error> {
        match &*self.moved.lock() {
            None => Ok(()),
            Some(evidence) => {
                Err(Error::HistoryMoved { path: self.state_directory.location(), evidence: evidence.clone() })
            }
        }
    }

    /// Puts an operation into the journal under a new id.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        kind: OperationKind,
        group: &GroupName,
        zone: &Zone,
        specification: Value,
        policies: &PinnedPolicies,
    ) -> Result<(OperationId, Active), Error> {
        let mut tries = 0;
        loop {
            let now = self.clock.now();
            let id = self.randomness.with(|random| OperationId::new(group, now, random));
            match self.begin_as(&id, kind, group, zone, specification.clone(), policies).await {
                Ok(active) => return Ok((id, active)),
                Err(Error::OperationExists { .. }) if tries < 8 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts an operation into the journal under this id.
    pub(crate) async fn begin_as(
        self: &Arc<Self>,
        id: &OperationId,
        kind: OperationKind,
        group: &GroupName,
        zone: &Zone,
        specification: Value,
        policies: &PinnedPolicies,
    ) -> Result<Active, Error> {
        self.check_history()?;
        // Before it is in the journal, where a resume of this process would take it for one that nobody works on.
        let active = Active::new(self, id, kind).ok_or_else(|| Error::OperationExists { operation: id.clone() })?;
        let now = self.clock.now();
        self.journal
            .begin(Operation {
                id: id.clone(),
                kind,
                group: group.to_string(),
                zone: zone.to_string(),
                owner: self.owner.to_string(),
                specification,
                policies: serde_json::to_value(policies.identities()).unwrap_or(Value::Null),
                runner: self.runner.name().to_owned(),
                // The journal sets it.
                host: None,
                state: OperationState::Open,
                cause: None,
                reasons: Vec::new(),
                report: None,
                ended_by: None,
                look_at: None,
                created_at: now,
                updated_at: now,
                ended_at: None,
            })
            .await?;
        Ok(active)
    }
}

/// Marks an operation as under way in this process.
#[derive(Debug)]
pub(crate) struct Active {
    _held: ActiveKey<OperationId>,
    kind: OperationKind,
    began: Instant,
}

impl Active {
    /// `None` when it is under way already.
    pub(crate) fn new(shared: &Shared, id: &OperationId, kind: OperationKind) -> Option<Self> {
        let held = shared.active.hold(id)?;
        metrics::gauge!(metric_names::OPERATIONS_IN_FLIGHT, "kind" => kind.as_str()).increment(1.0);
        Some(Self { _held: held, kind, began: Instant::now() })
    }

    pub(crate) fn ended(&self, outcome: &'static str) {
        let kind = self.kind.as_str();
        metrics::counter!(metric_names::OPERATIONS, "kind" => kind, "outcome" => outcome).increment(1);
        metrics::histogram!(metric_names::OPERATION_SECONDS, "kind" => kind, "outcome" => outcome)
            .record(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        metrics::gauge!(metric_names::OPERATIONS_IN_FLIGHT, "kind" => self.kind.as_str()).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_is_one_after_the_second_looks_time() {
        let limits = Limits { second_look: Duration::from_millis(100), ..Limits::default() };
        assert_eq!(limits.next_look(None, 0), None);
        assert_eq!(limits.next_look(Some(50), 60), Some(150));
        assert_eq!(limits.next_look(Some(50), 149), Some(150));
        assert_eq!(limits.next_look(Some(50), 150), None);
        // A clock that was ahead by years does not put the look off by years.
        assert_eq!(limits.next_look(Some(u64::MAX), 7), Some(107));
    }
}
