//! Letting a host go: the release slot decides, the host does it, and every end of it can be repeated.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;
use tracing::Instrument;
use windlass_policy::slots::Release;
use windlass_policy::slots::release::{
    Deed, Machine, MachineKind, Occasion, PoolReturn, Question, Refusal, Verdict, Wish,
};
use windlass_policy::slots::types::FailureClass;
use windlass_policy::{DecidedBy, PinnedPolicies};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::Server;

use super::deeds::{self, End, Given, MARK_STEP, Owner, Progress};
use super::group;
use super::host::{Presence, Refused, presence};
use super::lock::{HELD, lock};
use super::names::{ClaimName, PoolPrefix, is_returning};
use super::restart::Restart;
use crate::control::{Control, Happening};
use crate::journal::{Closing, Operation, OperationKind, OperationState, Phase};
use crate::lifecycle::{Active, Lifecycle, Shared, left_open};
use crate::run::{Run, Stop};
use crate::{Error, OperationId};

/// How often the slot is asked in one release: a deed that is refused and ordered again and again ends here.
const ASKINGS: u32 = 6;
/// When a release is to be asked for again, where no policy says.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// What a policy's `retry-after` is cut to.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(24 * 3600);

/// A host that its claimant lets go, or cannot set up.
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
    pub wish: Option<Wish>,
    /// Why.
    pub occasion: Occasion,
    /// Whether it was taken from the pool, and not ordered for this claimant.
    pub adopted: bool,
    /// Failed set-ups since it was claimed.
    pub bootstrap_failures: u32,
    /// Whether it was rebooted for recovery since it was claimed.
    pub rebooted: bool,
    /// Which asking this is, from 1: how often this release was asked for before, plus one. The default policy waits longer
    /// each time.
    pub attempt: u32,
}

impl ReleaseRequest {
    /// The owner let it go, it came from this pool, and nothing special is known.
    #[must_use]
    pub fn new(zone: Zone, host: impl Into<String>, claim: ClaimName, pool_prefix: Option<PoolPrefix>) -> Self {
        Self {
            zone,
            host: host.into(),
            claim,
            adopted: pool_prefix.is_some(),
            pool_prefix,
            wish: None,
            occasion: Occasion::LetGo,
            bootstrap_failures: 0,
            rebooted: false,
            attempt: 1,
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
    /// There is no such host.
    AlreadyGone,
    /// It carries another name and was left alone: somebody else's, or given back by hand.
    NotOurs {
        /// The name that it carries.
        name: String,
    },
}

impl ReleaseOutcome {
    /// Whether the claimant may forget the host: everything but "ask again" and "rebooted".
    #[must_use]
    pub fn has_let_go(&self) -> bool {
        !matches!(self, Self::AskAgain { .. } | Self::Rebooted)
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

/// The newest release of this host that has not ended.
pub(crate) fn unfinished(shared: &Shared, host: &str) -> Result<Option<Operation>, Error> {
    Ok(shared.journal.operations_of_resource(host)?.into_iter().find(|operation| {
        operation.kind == OperationKind::ReleaseMachine
            && matches!(operation.state, OperationState::Open | OperationState::Left)
    }))
}

/// Milliseconds since 1970.
pub(crate) fn instant(at: Option<jiff::Timestamp>) -> Option<u64> {
    at.and_then(|at| u64::try_from(at.as_millisecond()).ok())
}

impl Lifecycle {
    /// Lets a host go as the release slot decides.
    ///
    /// # Expected flow
    /// 1. The host is read. One that is gone, or whose name is neither the claim nor one that an earlier release of ours
    ///    gave it, ends the release at once.
    /// 2. The slot is asked; what it says is done under the lock, to the host as it is read there once more.
    /// 3. A refusal (the billing floor: 412) is put to the slot at once, a bounded number of times. Everything that asks for
    ///    patience is answered as [`ReleaseOutcome::AskAgain`], so this never waits long.
    ///
    /// # Guarantees
    /// Only a host that carries the claim is wiped, deleted or restarted, and only on the slot's verdict. A policy that fails means
    /// "ask again". Asked for again, after any end and after a crash at any point, it ends as it would have: each deed that was done
    /// counts as done. Nothing is written into the journal unless something is done.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the host cannot be read, [`Error::LeftOpen`] after [`Control::leave`], [`Error::MachinesLocked`], and the
    /// journal's errors.
    pub async fn release_machine(&self, request: &ReleaseRequest, control: &Control) -> Result<Released, Error> {
        if let Some(prefix) = &request.pool_prefix {
            request.claim.check_against(prefix)?;
        }
        let shared = &self.shared;
        let specification = ReleaseSpecification { request: request.clone() };
        let span = tracing::info_span!("release-machine", host = request.host, claim = %request.claim);
        async move {
            let mut releasing = Releasing::new(shared, specification, shared.policies.pin(), control.clone())?;
            let ended = releasing.perform().await;
            releasing.close(ended).await
        }
        .instrument(span)
        .await
    }
}

/// A release under way.
pub(crate) struct Releasing<'s> {
    shared: &'s Arc<Shared>,
    specification: ReleaseSpecification,
    policies: PinnedPolicies,
    control: Control,
    given: Given,
    progress: Progress,
    /// The name that it has on its way into the pool, where it is.
    marked: Option<String>,
    /// Earlier releases of the same host that this one carries on.
    earlier: Vec<Operation>,
    /// A restart for recovery since the host was claimed.
    restart: Option<Restart>,
    /// The operation, once there is something to do.
    opened: Option<(Run, Active)>,
    reason: Option<String>,
    reasons: Vec<String>,
    decided_by: Option<String>,
    policy_failures: Vec<String>,
    refused: Option<(String, FailureClass)>,
}

impl<'s> Releasing<'s> {
    pub(crate) fn new(
        shared: &'s Arc<Shared>,
        specification: ReleaseSpecification,
        policies: PinnedPolicies,
        control: Control,
    ) -> Result<Self, Error> {
        let mut releasing = Self {
            shared,
            specification,
            policies,
            control,
            given: Given::default(),
            progress: Progress::default(),
            marked: None,
            earlier: Vec::new(),
            restart: None,
            opened: None,
            reason: None,
            reasons: Vec::new(),
            decided_by: None,
            policy_failures: Vec::new(),
            refused: None,
        };
        releasing.remember()?;
        Ok(releasing)
    }

    /// Goes on with the operation that the journal holds.
    pub(crate) fn of(mut self, run: Run, active: Active) -> Self {
        self.earlier.retain(|earlier| earlier.id != run.id);
        self.opened = Some((run, active));
        self
    }

    /// What the journal knows of this host and this claim.
    fn remember(&mut self) -> Result<(), Error> {
        let request = &self.specification.request;
        // The newest comes first. What was done to the host before it was claimed for the last time is no news of this claim's.
        let mut since_claimed = true;
        for operation in self.shared.journal.operations_of_resource(&request.host)? {
            if operation.specification["claim"].as_str() != Some(request.claim.as_str()) {
                continue;
            }
            let entries = self.shared.journal.entries(&operation.id)?;
            let of_host = |entry: &&crate::Entry| {
                entry.phase == Phase::Intent
                    && entry.resource.as_ref().is_some_and(|resource| resource.id == request.host)
            };
            let names = |step: &'static str, key: &'static str| {
                entries
                    .iter()
                    .filter(of_host)
                    .filter(move |entry| entry.step == step)
                    .filter_map(move |entry| entry.data[key].as_str().map(str::to_owned))
            };
            match operation.kind {
                OperationKind::AdoptMachine => {
                    self.given.pending.extend(names(super::adopt::PENDING_STEP, "name"));
                    since_claimed = false;
                }
                OperationKind::ReleaseMachine => {
                    if since_claimed && self.restart.is_none() {
                        self.restart = Restart::of(&operation, &entries, &request.host);
                    }
                    self.given.pool.extend(names(MARK_STEP, "pool"));
                    if matches!(operation.state, OperationState::Open | OperationState::Left) {
                        // The newest comes first, and what it did counts.
                        if self.earlier.is_empty() {
                            self.progress = Progress::from_entries(&entries);
                        }
                        self.earlier.push(operation);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) async fn perform(&mut self) -> Result<ReleaseOutcome, Trouble> {
        let mut request = self.specification.request.clone();
        let host = match presence(self.shared, &self.control, &request.zone, &request.host).await {
            Ok(Presence::Here(host)) => host,
            Ok(Presence::Gone) => return Ok(ReleaseOutcome::AlreadyGone),
            Err(error) => return Err(Error::scaleway("reading the host that is to be let go", error).into()),
        };
        self.note(&host);
        match deeds::owner(&self.specification, &host, &self.given) {
            Owner::Claim => {
                if let Some(restart) = self.restart.as_ref().filter(|restart| restart.took_effect(&host)) {
                    if restart.answers(&request) {
                        self.reason = Some("it was restarted when this was asked before".to_owned());
                        return Ok(ReleaseOutcome::Rebooted);
                    }
                    request.rebooted = true;
                }
                self.decide(&request, *host, None).await
            }
            Owner::Returned => Ok(ReleaseOutcome::ReturnedToPool { name: host.name }),
            Owner::Other => {
                self.reason = Some(format!("it is called {:?} and not {}", host.name, request.claim));
                Ok(ReleaseOutcome::NotOurs { name: host.name })
            }
            // That it goes back to the pool was decided, and half of it is done.
            Owner::Returning => {
                let Some(prefix) = &request.pool_prefix else {
                    return self.decide(&request, *host, None).await;
                };
                let how = PoolReturn { operating_system: self.progress.system.clone() };
                match self.do_it(&Verdict::ReturnToPool(how), prefix).await? {
                    End::Done(outcome) => Ok(outcome),
                    End::Refused(deed, refused) => self.decide(&request, *host, Some((deed, *refused))).await,
                }
            }
        }
    }

    /// Asks, does it, and asks again with the refusal.
    async fn decide(
        &mut self,
        request: &ReleaseRequest,
        mut host: Server,
        mut refusal: Option<(Deed, Refused)>,
    ) -> Result<ReleaseOutcome, Trouble> {
        for asking in 0..ASKINGS {
            if self.control.left().is_cancelled() {
                return Err(Stop::Left.into());
            }
            let attempt = request.attempt.max(1).saturating_add(asking);
            let question = question(self.shared, request, &host, refusal.take(), attempt);
            let decision = self.policies.decide::<Release>(question, |_, _| Ok(())).await;
            self.quote(&decision);
            let after = match (&decision.answer.verdict, &decision.decided_by) {
                (Verdict::RetryAfter(after), _) => Some(Duration::from_millis(*after).clamp(SOONEST, LATEST)),
                // The last resort, and no answer at all: as it is, and again.
                (_, DecidedBy::Keep) | (Verdict::Defer, _) => Some(ASK_AGAIN),
                _ => None,
            };
            if let Some(after) = after {
                return Ok(ReleaseOutcome::AskAgain { after: crate::run::milliseconds(after) });
            }
            if decision.answer.verdict == Verdict::Keep {
                return self.keep(&host).await;
            }
            let prefix = request.pool_prefix.clone();
            let end = match (&decision.answer.verdict, prefix) {
                (Verdict::ReturnToPool(_), None) => {
                    // `Release::check` refuses that answer; were it to change, the host stays.
                    return Ok(ReleaseOutcome::AskAgain { after: crate::run::milliseconds(ASK_AGAIN) });
                }
                (verdict, Some(prefix)) => self.do_it(verdict, &prefix).await?,
                (verdict, None) => self.do_without_pool(verdict).await?,
            };
            let (deed, refused) = match end {
                End::Done(outcome) => return Ok(outcome),
                End::Refused(deed, refused) => (deed, *refused),
            };
            let words = format!("{}: {}", word(deed), crate::failure::words(&refused.failure));
            self.refused = Some((words, refused.failure.class));
            // What it is like now, for the next asking; as before where it cannot be read.
            match presence(self.shared, &self.control, &request.zone, &request.host).await {
                Ok(Presence::Gone) => return Ok(ReleaseOutcome::AlreadyGone),
                Ok(Presence::Here(seen)) => {
                    self.note(&seen);
                    host = *seen;
                }
                Err(_) => {}
            }
            refusal = Some((deed, refused));
        }
        self.reason = Some(format!("the policy asked {ASKINGS} times for what Scaleway refuses"));
        Ok(ReleaseOutcome::AskAgain { after: crate::run::milliseconds(ASK_AGAIN) })
    }

    /// Leaves it as it is: an earlier asking may have taken the claim's name from it.
    async fn keep(&mut self, host: &Server) -> Result<ReleaseOutcome, Trouble> {
        if self.marked.is_none() || self.progress.is_wiped() {
            return Ok(ReleaseOutcome::Kept);
        }
        let _held = lock(self.shared, &self.control).await?;
        self.open().await?;
        if deeds::unmark(self.run(), &self.specification, host).await? {
            self.marked = None;
            return Ok(ReleaseOutcome::Kept);
        }
        Ok(ReleaseOutcome::AskAgain { after: crate::run::milliseconds(ASK_AGAIN) })
    }

    /// Notes whether the host is on its way into the pool.
    fn note(&mut self, host: &Server) {
        self.marked = is_returning(&host.name).then(|| host.name.clone());
    }

    fn quote(&mut self, decision: &windlass_policy::Decision<Release>) {
        self.decided_by = Some(decision.decided_by.to_string());
        self.reason.clone_from(&decision.reason);
        for fallback in &decision.fallbacks {
            let words = fallback.to_string();
            if !self.policy_failures.contains(&words) {
                self.policy_failures.push(words.clone());
            }
            self.reasons.push(format!("release: {words}"));
        }
        self.reasons.extend(decision.reason.iter().map(|reason| format!("release: {reason}")));
    }

    async fn do_it(&mut self, verdict: &Verdict, prefix: &PoolPrefix) -> Result<End, Trouble> {
        if let Verdict::ReturnToPool(how) = verdict {
            let held = lock(self.shared, &self.control).await?;
            self.open().await?;
            let (run, system) = (self.run(), how.operating_system.as_deref());
            let (specification, progress) = (&self.specification, &self.progress);
            let end = deeds::return_to_pool(run, specification, prefix, system, &self.given, progress).await?;
            drop(held);
            // A wipe that was taken is not asked for again.
            self.progress.absorb(Progress::from_entries(&self.shared.journal.entries(&run.id)?));
            return Ok(end);
        }
        self.do_without_pool(verdict).await
    }

    async fn do_without_pool(&mut self, verdict: &Verdict) -> Result<End, Trouble> {
        let _held = lock(self.shared, &self.control).await?;
        self.open().await?;
        let (run, specification, given) = (self.run(), &self.specification, &self.given);
        Ok(match verdict {
            Verdict::Terminate => deeds::terminate(run, specification, given).await?,
            Verdict::ScheduleDeletion => deeds::schedule_deletion(run, specification, given).await?,
            Verdict::Reboot => deeds::reboot(run, specification, given).await?,
            Verdict::ReturnToPool(_) | Verdict::Defer | Verdict::Keep | Verdict::RetryAfter(_) => {
                End::Done(ReleaseOutcome::Kept)
            }
        })
    }

    /// Puts the release into the journal, when there is something to do for the first time; the time for it begins anew.
    async fn open(&mut self) -> Result<(), Error> {
        if let Some((run, _)) = &mut self.opened {
            run.deadline = Some(Instant::now() + HELD);
            return Ok(());
        }
        let zone = &self.specification.request.zone;
        let row = json!(self.specification);
        let (id, active) =
            self.shared.begin(OperationKind::ReleaseMachine, &group(), zone, row, &self.policies).await?;
        let run = Run::new(
            Arc::clone(self.shared),
            id,
            OperationKind::ReleaseMachine,
            group(),
            zone.clone(),
            self.policies.clone(),
            self.control.clone(),
            Some(HELD),
        );
        run.event(Happening::Opened);
        self.opened = Some((run, active));
        Ok(())
    }

    fn run(&self) -> &Run {
        match &self.opened {
            Some((run, _)) => run,
            None => unreachable!("opened before anything is done"),
        }
    }

    /// Closes the operation, where one was opened, and what it carried on.
    pub(crate) async fn close(mut self, ended: Result<ReleaseOutcome, Trouble>) -> Result<Released, Error> {
        let outcome = match (ended, &self.opened) {
            (Ok(outcome), _) => outcome,
            (Err(Trouble::Stop(stop)), Some((run, active))) => return Err(left_open(run, active, stop)),
            (Err(Trouble::Error(error)), Some((run, active))) => {
                // Not closed: the next start takes it up.
                drop(left_open(run, active, Stop::Left));
                return Err(error);
            }
            (Err(Trouble::Stop(Stop::Journal(error)) | Trouble::Error(error)), None) => return Err(error),
            (Err(Trouble::Stop(_)), None) => return Err(Error::NotBegun),
        };
        let operation = self.opened.as_ref().map(|(run, _)| run.id.clone());
        let state = match &outcome {
            // It still lacks its name in the pool, which the next start gives it.
            ReleaseOutcome::ReturnedToPool { name } if is_returning(name) => OperationState::Left,
            // It is on its way into the pool, and somebody has to go on.
            ReleaseOutcome::AskAgain { .. } if self.marked.is_some() => OperationState::Left,
            ReleaseOutcome::AskAgain { .. } => OperationState::Undone,
            _ => OperationState::Done,
        };
        if let Some((run, active)) = self.opened.take() {
            for reason in self.reasons.drain(..) {
                run.add_reason(reason);
            }
            let closing = Closing {
                operation: run.id.clone(),
                state,
                cause: self.refused.as_ref().filter(|_| state != OperationState::Done).map(|(words, _)| json!(words)),
                reasons: run.reasons(),
                report: Some(json!(outcome)),
                ends: Vec::new(),
                look_at: None,
                at: self.shared.clock.now(),
            };
            self.shared.journal.close(closing).await?;
            active.ended(state.as_str());
            run.event(Happening::Closed { state });
        }
        // What earlier askings left open has ended with this one, unless this one has not: then theirs stay, too.
        let carried_on = matches!(state, OperationState::Done) || operation.is_some();
        for earlier in self.earlier.iter().filter(|_| carried_on) {
            let runs = earlier.state == OperationState::Open
                && (self.shared.active.lock().contains(&earlier.id)
                    || (earlier.runner != self.shared.runner.name()
                        && self.shared.state_directory.runner_lives(&earlier.runner)));
            if runs {
                continue;
            }
            let words = match &operation {
                Some(operation) => format!("carried on by {operation}"),
                None => "found ended by a later asking".to_owned(),
            };
            let closing = Closing {
                operation: earlier.id.clone(),
                state: OperationState::Done,
                cause: None,
                reasons: earlier.reasons.iter().cloned().chain([words]).collect(),
                report: Some(json!(outcome)),
                ends: Vec::new(),
                look_at: None,
                at: self.shared.clock.now(),
            };
            self.shared.journal.close(closing).await?;
        }
        let (refused, refused_class) = self.refused.unzip();
        Ok(Released {
            outcome,
            reason: self.reason,
            decided_by: self.decided_by,
            policy_failures: self.policy_failures,
            refused,
            refused_class,
            operation,
        })
    }
}

/// What keeps a release from an outcome.
pub(crate) enum Trouble {
    Stop(Stop),
    Error(Error),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::ReturnToPool => "return to pool",
        Deed::Terminate => "terminate",
        Deed::ScheduleDeletion => "schedule deletion",
        Deed::Reboot => "reboot",
    }
}

fn question(
    shared: &Shared,
    request: &ReleaseRequest,
    host: &Server,
    refusal: Option<(Deed, Refused)>,
    attempt: u32,
) -> Question {
    Question {
        now: shared.clock.now(),
        random: shared.randomness.word(),
        occasion: request.occasion,
        machine: Machine {
            kind: MachineKind::AppleSiliconServer,
            id: host.id.clone(),
            name: host.name.clone(),
            zone: request.zone.to_string(),
            machine_type: host.server_type.clone(),
            status: host.status.as_str().to_owned(),
            operating_system: host.os.as_ref().map(|os| os.name.clone()).filter(|name| !name.is_empty()),
            pool_prefix: request.pool_prefix.as_ref().map(ToString::to_string),
            adopted: request.adopted,
            created_at: instant(host.created_at()).unwrap_or_default(),
            deletable_at: instant(host.deletable_at()),
            deletion_scheduled: host.deletion_scheduled,
            bootstrap_failures: request.bootstrap_failures,
            rebooted: request.rebooted,
        },
        wish: request.wish,
        refusal: refusal.map(|(deed, refused)| Refusal {
            deed,
            failure: refused.failure,
            not_before: refused.not_before,
        }),
        attempt,
    }
}

/// After a restart: the release goes on where it stood, under the policies with which it began.
pub(crate) async fn resume(
    shared: &Arc<Shared>,
    specification: ReleaseSpecification,
    run: Run,
    active: Active,
) -> Result<(), Error> {
    run.event(Happening::Opened);
    let entries = shared.journal.entries(&run.id)?;
    let (policies, control) = (run.policies.clone(), run.control.clone());
    let mut releasing = Releasing::new(shared, specification, policies, control)?;
    releasing.progress = Progress::from_entries(&entries);
    let mut releasing = releasing.of(run, active);
    let last = entries.iter().rev().find(|entry| entry.phase != Phase::Note && entry.phase != Phase::Failure);
    let ended = match last {
        // Its owner has not heard of it and asks again; then the host shows whether it was restarted.
        Some(entry) if entry.step == deeds::REBOOT_STEP && entry.phase == Phase::Intent => {
            Ok(ReleaseOutcome::AskAgain { after: 0 })
        }
        _ => releasing.perform().await,
    };
    releasing.close(ended).await.map(drop)
}
