//! Asking the policies of a slot in their order until one decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};
use windlass_distribution::Trust;

use crate::brake::Brake;
use crate::call::{self, Trace};
use crate::capability::Capability;
use crate::checked::{Braking, checked, suspended};
use crate::decision::{DecidedBy, DecidedPart, Decision, DecisionIds, Fallback, PolicyIdentity};
use crate::decision_log::{DecisionLog, DecisionRecord, LinkRecord, Outcome, weight_of_question};
use crate::failure_kind::FailureKind;
use crate::guest::Failure;
use crate::host_calls::{Answers, HostCalls, Playback};
use crate::limits::LARGE_QUESTION_BYTES;
use crate::load::accept_grants;
use crate::policy::LoadedPolicy;
use crate::policy_log::{self, LineRoom};
use crate::shadow::{ShadowPlace, Shadows};
use crate::shares::Shares;
use crate::slots::{Deferred, OnFailure, Reasons, Slot, SlotName};
use crate::status::StatusSignal;
use crate::text::kind_word;

/// How many times as long as a tenant's policy may compute a decision waits for its share.
const SHARE_TIMES: u64 = 2;

/// One link of a chain, as an operation holds it.
#[derive(Clone)]
pub(crate) enum ChainLink {
    /// A policy that can be asked.
    Policy(Arc<LoadedPolicy>),
    /// A policy that can't be asked, and why.
    Unavailable(Arc<PolicyIdentity>, Arc<str>),
    /// A policy with which an operation began, and which isn't there any more as it was.
    Lost(Arc<PolicyIdentity>, Arc<str>),
}

impl ChainLink {
    pub(crate) fn identity(&self) -> &Arc<PolicyIdentity> {
        match self {
            ChainLink::Policy(policy) => &policy.identity,
            ChainLink::Unavailable(identity, _) | ChainLink::Lost(identity, _) => identity,
        }
    }
}

/// A policy that is asked and recorded, and never decides.
#[derive(Clone)]
pub(crate) struct Shadow {
    /// The place in the chain of the link before which it stands.
    pub(crate) before: usize,
    pub(crate) policy: Arc<LoadedPolicy>,
}

/// The chains of all slots at one moment, and the shadows between their links.
#[derive(Clone, Default)]
pub(crate) struct Generation {
    /// Who must have signed what is restored for an operation of an earlier process.
    pub(crate) trust: Option<Arc<Trust>>,
    /// The names of the labels that a question may have.
    pub(crate) labels: Arc<[String]>,
    pub(crate) chains: [Vec<ChainLink>; SlotName::ALL.len()],
    pub(crate) shadows: [Vec<Shadow>; SlotName::ALL.len()],
}

impl Generation {
    pub(crate) fn chain(&self, slot: SlotName) -> &[ChainLink] {
        &self.chains[slot.index()]
    }

    pub(crate) fn shadows(&self, slot: SlotName) -> &[Shadow] {
        &self.shadows[slot.index()]
    }

    /// Those that decide.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &Arc<LoadedPolicy>> {
        self.chains.iter().flatten().filter_map(|link| match link {
            ChainLink::Policy(policy) => Some(policy),
            ChainLink::Unavailable(..) | ChainLink::Lost(..) => None,
        })
    }
}

/// What every decision of a host shares.
pub(crate) struct Deciding {
    /// They hand their records to the log, so they end before it.
    pub(crate) shadows: Shadows,
    pub(crate) log: Arc<DecisionLog>,
    pub(crate) ids: DecisionIds,
    /// Room for decisions that may wait for a capability.
    pub(crate) waiting: Semaphore,
    pub(crate) shares: Shares,
    /// For lines about records that are lost.
    pub(crate) lost_room: LineRoom,
    /// Notified when a policy starts or stops failing.
    pub(crate) status: Arc<StatusSignal>,
    pub(crate) brake: Brake,
}

impl Deciding {
    /// Hands a record to the log, and has the shadows asked that it names.
    fn record<S: Slot>(&self, record: Box<DecisionRecord<S::Question, S::Answer>>, shadows: Vec<ShadowPlace>) {
        if !shadows.is_empty() {
            self.shadows.ask::<S>(DecisionRecord::clone(&record), shadows, self.brake);
        }
        if !self.log.record(record) {
            self.status.changed();
            if let Some(left_out) = self.lost_room.take(Instant::now()) {
                tracing::warn!(target: "windlass_policy::decision_log", slot = %S::NAME, left_out, "a decision was not \
                    recorded: the decision log cannot write to its disk fast enough");
            }
        }
    }
}

/// The policies as they were at one moment. Cheap to clone. An operation takes one when it begins and asks it to its
/// end, so that a swap in between changes nothing for it.
#[derive(Clone)]
pub struct PinnedPolicies {
    pub(crate) generation: Arc<Generation>,
    pub(crate) deciding: Arc<Deciding>,
    /// What policies were granted, they are granted of these. Absent: of the host's own.
    pub(crate) capabilities: Option<Arc<[Arc<dyn Capability>]>>,
}

impl std::fmt::Debug for PinnedPolicies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PinnedPolicies").field(&self.identities()).finish()
    }
}

impl PinnedPolicies {
    /// What identifies the pinned policies, slot by slot in the order of their chains. Store them with the operation,
    /// and get the same policies back after a restart with [`Host::pinned`](crate::Host::pinned). Shadows are not among
    /// them: they decide nothing.
    pub fn identities(&self) -> Vec<PolicyIdentity> {
        self.generation.chains.iter().flatten().map(|link| PolicyIdentity::clone(link.identity())).collect()
    }

    /// Whether another policy than the built-in default is asked.
    pub fn has_configured(&self, slot: SlotName) -> bool {
        self.generation.chain(slot).len() > 1 || !self.generation.shadows(slot).is_empty()
    }

    /// Which of the policies of these slots aren't there any more as they were when the operation began, and why. They
    /// count as failed in each decision, so callers wait for them where they can.
    pub fn lost(&self, slots: &[SlotName]) -> Vec<String> {
        let links = slots.iter().flat_map(|slot| self.generation.chain(*slot));
        let lost = links.filter_map(|link| match link {
            ChainLink::Lost(identity, why) => Some(format!("{identity} of the slot {}: {why}", identity.slot)),
            ChainLink::Policy(_) | ChainLink::Unavailable(..) => None,
        });
        lost.collect()
    }

    /// The identities of one slot's chain.
    pub fn chain(&self, slot: SlotName) -> Vec<PolicyIdentity> {
        self.generation.chain(slot).iter().map(|link| PolicyIdentity::clone(link.identity())).collect()
    }

    /// Puts a question to a slot.
    ///
    /// # Expected flow
    /// 1. The policies of the slot's chain are asked in order, each in a fresh instance. What one defers (the whole
    ///    question or items of a batch) goes to the next; the built-in default is the last.
    /// 2. Each answer must pass [`Slot::check`], with the question that this policy was asked: in a batch perhaps a
    ///    part.
    /// 3. A policy that fails, in whatever way, counts as having deferred, unless it is configured with
    ///    `on_failure = "keep"`, or the slot keeps by itself: then [`Slot::keep`] decides at once.
    /// 4. Question, answer and everything between are recorded. Where the chain has [shadows](crate::Mode), a thread of
    ///    the host asks them afterwards.
    ///
    /// # Guarantees
    /// There always is an answer, which defers nothing. It passed the check and the [`Brake`](crate::Brake), or it is
    /// [`Slot::keep`].
    /// Nothing in here waits or changes threads, unless a policy in the chain was granted a capability, or has just
    /// computed for milliseconds: then it is asked on another thread, as its share allows.
    ///
    /// # Assumptions
    /// The calling thread has [`DECISION_STACK_BYTES`](crate::DECISION_STACK_BYTES) of stack left. A policy that was
    /// granted a capability, or is slow, needs time to be enabled in the tokio runtime.
    pub async fn decide<S: Slot>(&self, question: S::Question) -> Decision<S> {
        let span = tracing::trace_span!(
            "decision",
            slot = S::NAME.as_str(),
            decision = Empty,
            subject = Empty,
            group = Empty,
            cluster = Empty,
            zone = Empty,
            machine = Empty,
            trigger = Empty,
            policy = Empty,
            verdict = Empty,
            removes = Empty,
            reason = Empty,
            fallbacks = Empty,
            failures = Empty,
        );
        let circumstances = Circumstances::Live(self);
        let asked = self.ask::<S>(&question, &circumstances).instrument(span.clone()).await;
        metrics::histogram!(crate::metric_names::DECISION_SECONDS, "slot" => S::NAME.as_str())
            .record(asked.duration.as_secs_f64());
        let decision: Decision<S> = Decision {
            id: self.deciding.ids.next(),
            reason: asked.answer.reason().map(str::to_owned),
            answer: asked.answer,
            decided_by: asked.decided_by,
            fallbacks: asked.fallbacks,
            parts: asked.parts,
        };
        if !span.is_disabled() {
            describe(&span, &question, &decision);
        }
        // Boxed here, where the question is, so that it is not copied once more on each step to the log.
        let record = Box::new(DecisionRecord {
            id: decision.id,
            at_ms: decision.id.at_ms(),
            slot: S::NAME,
            question,
            answer: decision.answer.clone(),
            reason: decision.reason.clone(),
            decided_by: decision.decided_by.clone(),
            asked: asked.links,
            shadows: Vec::new(),
            duration_ns: u64::try_from(asked.duration.as_nanos()).unwrap_or(u64::MAX),
            lost_before: 0,
        });
        self.deciding.record::<S>(record, asked.shadows);
        decision
    }

    /// Puts a question to a slot as [`PinnedPolicies::decide`] does, to see what would be decided: nothing is recorded,
    /// no shadow is asked, and no failure counts towards a suspension. Capabilities are called.
    pub async fn try_decide<S: Slot>(&self, question: S::Question) -> Decision<S> {
        let asked = self.ask::<S>(&question, &Circumstances::Trial(self)).await;
        let Asked { answer, decided_by, fallbacks, parts, .. } = asked;
        let reason = answer.reason().map(str::to_owned);
        Decision { id: self.deciding.ids.next(), answer, reason, decided_by, fallbacks, parts }
    }

    /// The shadows of a slot.
    pub fn shadows(&self, slot: SlotName) -> Vec<PolicyIdentity> {
        self.generation.shadows(slot).iter().map(|shadow| PolicyIdentity::clone(&shadow.policy.identity)).collect()
    }

    /// These policies as they would be if this shadow decided, in its place. `None`: it is not one of the shadows.
    #[must_use]
    pub fn with_shadow(&self, shadow: &PolicyIdentity) -> Option<PinnedPolicies> {
        let place = self.generation.shadows(shadow.slot).iter().find(|known| *known.policy.identity == *shadow)?;
        let mut generation = Generation::clone(&self.generation);
        generation.chains[shadow.slot.index()].insert(place.before, ChainLink::Policy(Arc::clone(&place.policy)));
        generation.shadows[shadow.slot.index()].clear();
        Some(PinnedPolicies { generation: Arc::new(generation), ..self.clone() })
    }

    /// Asks the chain.
    async fn ask<S: Slot>(&self, question: &S::Question, circumstances: &Circumstances<'_>) -> Asked<S> {
        let started = Instant::now();
        let chain = self.generation.chain(S::NAME);
        let mut pending = PendingDecision::<S>::new(chain.len(), self.deciding.brake);
        let mut shadows = Vec::new();
        for (place, link) in chain.iter().enumerate() {
            let before = self.generation.shadows(S::NAME).iter().filter(|shadow| shadow.before == place);
            shadows.extend(before.map(|shadow| pending.place_of(&shadow.policy)));
            if !pending.ask(link, question, circumstances).await {
                break;
            }
        }
        let (answer, decided_by) = pending.close(question);
        let PendingDecision { asked: links, fallbacks, parts, .. } = pending;
        Asked { answer, decided_by, links, fallbacks, parts, shadows, duration: started.elapsed() }
    }
}

/// What came of asking a chain.
struct Asked<S: Slot> {
    answer: S::Answer,
    decided_by: DecidedBy,
    links: Vec<LinkRecord>,
    fallbacks: Vec<Fallback>,
    parts: Vec<DecidedPart>,
    /// Those that it came past, to be asked.
    shadows: Vec<ShadowPlace>,
    duration: Duration,
}

/// What a trace and a log say of a decision. Where something of a batch is removed, it is named who decided that, and
/// not who decided about the rest.
fn describe<S: Slot>(span: &Span, question: &S::Question, decision: &Decision<S>) {
    let topic = S::topic(question);
    span.record("decision", display(&decision.id));
    span.record("subject", topic.words);
    let words = [
        ("group", topic.subject.group.as_deref()),
        ("cluster", topic.subject.cluster.as_deref()),
        ("zone", topic.zone),
        ("machine", topic.machine),
        ("reason", decision.reason.as_deref()),
    ];
    for (field, word) in words {
        if let Some(word) = word {
            span.record(field, word);
        }
    }
    if let Some(trigger) = &topic.trigger {
        span.record("trigger", kind_word(trigger));
    }
    let removing = decision.parts.iter().filter(|part| part.removes);
    let removers: Vec<String> = removing.map(|part| part.policy.to_string()).collect();
    if removers.is_empty() {
        span.record("policy", display(&decision.decided_by));
    } else {
        span.record("policy", removers.join(", "));
    }
    span.record("verdict", verdict(&decision.answer));
    let lost = S::lost(question, &decision.answer);
    if lost > 0 {
        span.record("removes", lost);
    }
    if !decision.fallbacks.is_empty() {
        let words: Vec<String> = decision.fallbacks.iter().map(ToString::to_string).collect();
        span.record("fallbacks", words.join("; "));
        let kinds: Vec<String> = decision.fallbacks.iter().map(|fallback| kind_word(&fallback.kind)).collect();
        span.record("failures", kinds.join(", "));
    }
}

/// An answer as JSON, without its reason: the one value that it holds beside, or all of them.
fn verdict(answer: &impl Serialize) -> String {
    match serde_json::to_value(answer) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("reason");
            match (fields.len(), fields.values().next()) {
                (1, Some(Value::String(word))) => word.clone(),
                (1, Some(value)) => value.to_string(),
                _ => Value::Object(fields).to_string(),
            }
        }
        Ok(Value::String(word)) => word,
        Ok(value) => value.to_string(),
        Err(_) => String::new(),
    }
}

/// Where a decision's circumstances come from.
#[derive(Clone, Copy)]
pub(crate) enum Circumstances<'a> {
    /// From the world: capabilities are called, failures count.
    Live(&'a PinnedPolicies),
    /// From the world, to see what would be decided: capabilities are called, nothing counts.
    Trial(&'a PinnedPolicies),
    /// From a record: nothing is called, nothing counts.
    Replay {
        /// What was recorded of this very link. None: it was not asked then.
        own: Option<&'a LinkRecord>,
        /// What was recorded of all links that were asked.
        all: &'a [LinkRecord],
    },
}

/// What of the question nobody has decided yet.
enum Undecided {
    Whole,
    Items(Vec<usize>),
    Nothing,
}

/// A decision on its way along a chain.
pub(crate) struct PendingDecision<S: Slot> {
    answer: Option<S::Answer>,
    undecided: Undecided,
    pub(crate) asked: Vec<LinkRecord>,
    fallbacks: Vec<Fallback>,
    parts: Vec<DecidedPart>,
    brake: Brake,
    /// How many running machines what is decided so far removes.
    removed: usize,
}

impl<S: Slot> PendingDecision<S> {
    /// One for a chain of so many links.
    pub(crate) fn new(links: usize, brake: Brake) -> PendingDecision<S> {
        PendingDecision {
            brake,
            removed: 0,
            answer: None,
            undecided: Undecided::Whole,
            asked: Vec::with_capacity(links),
            fallbacks: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// What a shadow is to be asked that stands here.
    fn place_of(&self, policy: &Arc<LoadedPolicy>) -> ShadowPlace {
        let items = match &self.undecided {
            Undecided::Items(items) => Some(items.clone()),
            Undecided::Whole | Undecided::Nothing => None,
        };
        ShadowPlace { policy: policy.clone(), items, removed: self.removed }
    }

    /// Asks one link. Returns false when no further link is to be asked.
    pub(crate) async fn ask(
        &mut self,
        link: &ChainLink,
        question: &S::Question,
        circumstances: &Circumstances<'_>,
    ) -> bool {
        let whole = question;
        let part;
        let question = match &self.undecided {
            Undecided::Whole => whole,
            Undecided::Items(items) => {
                part = S::part(whole, items);
                &part
            }
            Undecided::Nothing => return false,
        };
        let braking = Braking { brake: self.brake, whole, removed: self.removed };
        let (result, trace) = match link {
            ChainLink::Unavailable(_, why) | ChainLink::Lost(_, why) => {
                (Err(Failure::new(FailureKind::Unavailable, &**why)), Trace::default())
            }
            ChainLink::Policy(policy) => ask_policy::<S>(policy, question, &braking, circumstances).await,
        };
        let items = match &self.undecided {
            Undecided::Items(items) => {
                Some(items.iter().map(|item| u32::try_from(*item).unwrap_or(u32::MAX)).collect())
            }
            Undecided::Whole | Undecided::Nothing => None,
        };
        let outcome = match result {
            Ok(answer) => {
                self.removed += S::removed(question, &answer);
                let removes = S::lost(question, &answer) > 0;
                self.take(answer, removes, link.identity())
            }
            Err(mut failure) => {
                let by_size =
                    failure.kind.may_follow_from_size() && weight_of_question(question) > LARGE_QUESTION_BYTES;
                if by_size {
                    let most = LARGE_QUESTION_BYTES >> 10;
                    let why = format!(
                        "the question has more than {most} KiB, so this failure does not count against the policy"
                    );
                    failure = Failure::new(failure.kind, format!("{}; {why}", failure.reason));
                }
                self.failed(link, &failure, by_size, circumstances);
                let keep = match link {
                    ChainLink::Policy(policy) => policy.configured_on_failure(),
                    ChainLink::Unavailable(identity, _) | ChainLink::Lost(identity, _) => {
                        identity.origin.as_ref().and_then(|origin| origin.on_failure)
                    }
                };
                let keep = keep.unwrap_or_else(|| S::on_failure(question)) == OnFailure::Keep;
                // A tenant does not have what is shared kept by a policy that fails.
                let is_others = link.identity().is_from_tenant() && S::is_shared(question);
                let keep = keep && failure.kind != FailureKind::NotAllowed && !is_others;
                self.asked.push(LinkRecord::new(link.identity(), items, Outcome::from(failure), trace));
                return !keep;
            }
        };
        if let (ChainLink::Policy(policy), Circumstances::Live(_)) = (link, circumstances)
            && outcome.decides()
        {
            policy.decisions.fetch_add(1, Ordering::Relaxed);
        }
        self.asked.push(LinkRecord::new(link.identity(), items, outcome, trace));
        !matches!(self.undecided, Undecided::Nothing)
    }

    /// Takes over what an answer decides. `removes`: it removes machines.
    fn take(&mut self, answer: S::Answer, removes: bool, identity: &Arc<PolicyIdentity>) -> Outcome {
        let deferred = S::deferred(&answer);
        if deferred == Deferred::Whole {
            return Outcome::Deferred;
        }
        match (&self.undecided, self.answer.as_mut()) {
            (Undecided::Items(items), Some(whole)) => S::merge(whole, items, answer),
            _ => self.answer = Some(answer),
        }
        let mut part = DecidedPart { policy: Arc::clone(identity), deferred: Vec::new(), removes };
        let outcome = match deferred {
            Deferred::Items(items) => {
                let left = items.len();
                // Positions in the part become positions in the whole.
                let items: Vec<usize> = match &self.undecided {
                    Undecided::Items(open) => items.into_iter().map(|item| open[item]).collect(),
                    Undecided::Whole | Undecided::Nothing => items,
                };
                part.deferred.clone_from(&items);
                self.undecided = Undecided::Items(items);
                Outcome::DecidedPart { deferred: u32::try_from(left).unwrap_or(u32::MAX) }
            }
            Deferred::Nothing | Deferred::Whole => {
                self.undecided = Undecided::Nothing;
                Outcome::Decided
            }
        };
        self.parts.push(part);
        outcome
    }

    /// `by_size`: the question's size caused the failure, so it does not count against the policy.
    fn failed(&mut self, link: &ChainLink, failure: &Failure, by_size: bool, circumstances: &Circumstances<'_>) {
        let policy = Arc::clone(link.identity());
        self.fallbacks.push(Fallback { policy, kind: failure.kind, reason: failure.reason.clone() });
        let Circumstances::Live(PinnedPolicies { deciding, .. }) = circumstances else { return };
        if failure.kind == FailureKind::NotAllowed {
            return;
        }
        let name = link.identity().name.to_string();
        if failure.kind == FailureKind::Brake {
            let (slot, policy) = (S::NAME.as_str(), name.clone());
            metrics::counter!(crate::metric_names::BRAKES, "slot" => slot, "policy" => policy).increment(1);
        }
        metrics::counter!(crate::metric_names::FAILURES, "slot" => S::NAME.as_str(), "policy" => name).increment(1);
        if let ChainLink::Policy(policy) = link
            && failure.kind != FailureKind::Suspended
        {
            let suspended = match failure.kind {
                _ if by_size || failure.kind == FailureKind::HostBusy => {
                    policy.health.remember(&failure.reason);
                    false
                }
                _ => policy.health.failed(&failure.reason),
            };
            deciding.status.changed();
            // The decision log and the metric have all of them.
            if let Some(left_out) = policy.line_room.take(Instant::now()) {
                let (slot, policy, reason) = (S::NAME, &policy.identity, failure.reason.as_str());
                tracing::warn!(%slot, %policy, reason, left_out, "a policy failed");
            }
            if suspended {
                tracing::error!(slot = %S::NAME, policy = %policy.identity, "a policy keeps failing and is suspended \
                    until it is replaced");
            }
        }
    }

    /// The answer, completed by the last resort where nobody decided.
    pub(crate) fn close(&mut self, question: &S::Question) -> (S::Answer, DecidedBy) {
        match (std::mem::replace(&mut self.undecided, Undecided::Nothing), self.answer.take()) {
            (Undecided::Nothing, Some(answer)) => match self.parts.last() {
                Some(part) => (answer, DecidedBy::Policy(Arc::clone(&part.policy))),
                None => (answer, DecidedBy::Keep),
            },
            (Undecided::Items(items), Some(mut answer)) => {
                S::merge(&mut answer, &items, S::keep(&S::part(question, &items)));
                (answer, DecidedBy::Keep)
            }
            (_, _) => (S::keep(question), DecidedBy::Keep),
        }
    }
}

/// Asks one policy and checks its answer.
pub(crate) async fn ask_policy<S: Slot>(
    policy: &Arc<LoadedPolicy>,
    question: &S::Question,
    braking: &Braking<'_, S>,
    circumstances: &Circumstances<'_>,
) -> (Result<S::Answer, Failure>, Trace) {
    match circumstances {
        Circumstances::Live(_) | Circumstances::Trial(_) if policy.health.is_suspended() => {
            return (Err(suspended(policy)), Trace::unasked(policy));
        }
        // What the moment did to the policy then says nothing about the policy: it is taken from the record.
        Circumstances::Replay { own: Some(LinkRecord { outcome: Outcome::Fallback { kind, reason }, .. }), .. }
            if kind.depends_on_the_moment() =>
        {
            return (Err(Failure::new(*kind, reason)), Trace::unasked(policy));
        }
        Circumstances::Live(_) | Circumstances::Trial(_) | Circumstances::Replay { .. } => {}
    }
    let slowly = match circumstances {
        Circumstances::Live(pinned) | Circumstances::Trial(pinned) if policy.is_slow() && !policy.may_wait => {
            Some(&pinned.deciding.shares)
        }
        Circumstances::Live(_) | Circumstances::Trial(_) | Circumstances::Replay { .. } => None,
    };
    let (answer, trace) = if let Some(shares) = slowly {
        ask_slowly::<S>(policy, question, shares).boxed().await
    } else if policy.may_wait {
        // Boxed, so that a decision that can't wait doesn't carry the room for one that can; without its type, so that
        // whoever holds a decision in futures of their own doesn't have the compiler look through wasmtime's.
        ask_waiting::<S>(policy, question, circumstances).boxed().await
    } else {
        call::ask::<S>(policy, question)
    };
    policy.computed(trace.computed);
    let answer = answer.and_then(|answer| checked::<S>(&policy.identity, question, answer, braking));
    if let Circumstances::Live(PinnedPolicies { deciding, .. }) = circumstances {
        policy_log::tell(&policy.identity, &policy.line_room, &trace.log);
        if answer.is_ok() && policy.health.failures_in_a_row() > 0 {
            policy.health.succeeded();
            deciding.status.changed();
        }
    }
    (answer, trace)
}

/// Asks a policy that computes long, when its share has room, on a thread that nobody else waits for.
async fn ask_slowly<S: Slot>(
    policy: &Arc<LoadedPolicy>,
    question: &S::Question,
    shares: &Shares,
) -> (Result<S::Answer, Failure>, Trace) {
    if tokio::runtime::Handle::try_current().is_err() {
        return call::ask::<S>(policy, question);
    }
    let waiting = shares.take(&policy.identity);
    let share = if policy.identity.is_from_tenant() {
        let longest = Duration::from_millis(policy.limits().time_ms.saturating_mul(SHARE_TIMES));
        let Ok(share) = tokio::time::timeout(longest, waiting).await else {
            let why = format!("too many decisions of a tenant's slow policies wait: no room within {longest:?}");
            return (Err(Failure::new(FailureKind::HostBusy, why)), Trace::default());
        };
        share
    } else {
        // The operator's policy decides, however many wait for it: a default in its place might delete what it keeps.
        waiting.await
    };
    // Those before may have been its last.
    if policy.health.is_suspended() {
        return (Err(suspended(policy)), Trace::default());
    }
    let (asked, question) = (Arc::clone(policy), question.clone());
    let computing = tokio::task::spawn_blocking(move || {
        let _share = share;
        call::ask::<S>(&asked, &question)
    });
    match computing.await {
        Ok(answered) => answered,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => (Err(Failure::new(FailureKind::HostBusy, "the host is shutting down")), Trace::default()),
    }
}

async fn ask_waiting<S: Slot>(
    policy: &LoadedPolicy,
    question: &S::Question,
    circumstances: &Circumstances<'_>,
) -> (Result<S::Answer, Failure>, Trace) {
    let (answers, _room) = match circumstances {
        Circumstances::Live(pinned) | Circumstances::Trial(pinned) => {
            match room(&pinned.deciding, policy.limits().host_call_time_ms).await {
                Ok(room) => {
                    // Without grants for this account no call is made, as it would use another account's credentials.
                    let granted = pinned.capabilities.as_ref();
                    (
                        Answers::Live(granted.map(|it| accept_grants(it, &policy.link.grants).unwrap_or_default())),
                        Some(room),
                    )
                }
                Err(failure) => return (Err(failure), Trace::default()),
            }
        }
        Circumstances::Replay { own: Some(own), .. } => {
            (Answers::Recorded(Playback::of_its_own(&own.host_calls)), None)
        }
        Circumstances::Replay { own: None, all } => {
            let calls = all.iter().flat_map(|link| link.host_calls.iter().cloned());
            (Answers::Recorded(Playback::of_others(calls)), None)
        }
    };
    call::ask_waiting::<S>(policy, question, HostCalls::new(policy.limits(), answers)).await
}

/// Waits until there is room for one more decision that may wait for a capability, as long as its calls may take.
async fn room(deciding: &Deciding, milliseconds: u64) -> Result<SemaphorePermit<'_>, Failure> {
    if let Ok(room) = deciding.waiting.try_acquire() {
        return Ok(room);
    }
    let busy = |why: &str| Failure::new(FailureKind::HostBusy, why);
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(busy("too many decisions wait for capabilities, and without a tokio runtime none can wait"));
    }
    match tokio::time::timeout(Duration::from_millis(milliseconds), deciding.waiting.acquire()).await {
        Ok(Ok(room)) => Ok(room),
        // The semaphore is never closed.
        Ok(Err(_)) => Err(busy("the host is shutting down")),
        Err(_) => Err(busy(&format!(
            "too many decisions wait for capabilities: there was no room within {milliseconds} ms (`host_call_time_ms`)"
        ))),
    }
}
