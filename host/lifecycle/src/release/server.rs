//! Releasing a server: what the slot says of the server of a cleanup, and of one whose owner cannot use it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_policy::slots::release::{Action, Machine, MachineKind, Question, Refusal, Verdict};
use windlass_policy::slots::types::{Failure, Money, Subject};
use windlass_policy::slots::{Release, SlotName};
use windlass_policy::{DecidedBy, Decision, PinnedPolicies};
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Server;

use super::request::{Asking, ReleaseOutcome, Released, instant};
use super::stage::{ASK_AGAIN, waits};
use super::{ReleaseReport, question};
use crate::absence::read_or_absent;
use crate::cleanup::creation_of;
use crate::control::{Control, EventKind};
use crate::inventory::Scope;
use crate::journal::note::{Note, Record};
use crate::journal::{Entry, Operation, OperationKind, OperationState, ResourceKind, ResourceName};
use crate::lifecycle::{Lifecycle, left_open};
use crate::machines;
use crate::machines::actions::REBOOT_STEP;
use crate::report::{LeftResource, instant_words};
use crate::run::{Run, milliseconds, reasons_of};
use crate::shared::{Active, Shared};
use crate::stop::Stop;
use crate::subject::SubjectOf;
use crate::{Error, RequestedBy, tags};

/// What is to become of the server of a cleanup.
#[derive(Debug)]
pub(crate) enum Course {
    /// It goes: the slot says so, or there is no server to ask about.
    Goes(Option<Decided>),
    /// It stays for good, with everything that belongs to it.
    Stays(Decided),
    /// It stays until the slot is asked again.
    Waits(Option<Decided>, LeftResource),
}

/// What the slot said of a server, and who said it.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What becomes of the server.
    pub outcome: ReleaseOutcome,
    /// What the policy said to people.
    pub reason: Option<String>,
    pub decided_by: String,
    /// Policies that failed, and how.
    pub policy_failures: Vec<String>,
}

impl Decided {
    /// The release slot let the server go, or was not asked, and the plan of its removal keeps it.
    pub(super) fn of_plan() -> Self {
        Self {
            outcome: ReleaseOutcome::Kept,
            reason: None,
            decided_by: "the rollback policy".to_owned(),
            policy_failures: Vec::new(),
        }
    }

    /// Whether the server stays for good.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.outcome == ReleaseOutcome::Kept
    }

    /// Who decided and why, for people.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.decided_by),
            None => self.decided_by.clone(),
        }
    }
}

/// Asks what becomes of the server that a cleanup is to remove. `refused`: Scaleway's refusal to remove it.
///
/// An answer is journalled before anything follows from it, and counts until it is refused or its patience has ended:
/// whoever goes on with the cleanup does what was decided. Where the answer was to wait, the server is read first: it
/// may be gone. Where the wait follows from a refusal of Scaleway's, whoever asks for another try has the slot asked
/// again: what Scaleway refused, it may do now.
///
/// What it has read is in the scope afterwards, for the look that follows.
pub(crate) async fn judge(
    run: &Run,
    asking: &Asking,
    scope: &mut Scope,
    refused: Option<Failure>,
) -> Result<Course, Stop> {
    let answers = answers(&run.shared.journal.entries(&run.id)?)?;
    let answered = answers.last().filter(|(_, answer)| {
        refused.is_none()
            && answer.until.is_none_or(|until| until > run.now())
            && !(answer.waits() && answer.refused_with.is_some() && run.on_request)
    });
    if let Some((server, answer)) = answered
        && !answer.waits()
    {
        return Ok(answer.course(server, run.now()));
    }
    run.check("release")?;
    let (name, server) = match server_there(run, scope).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Course::Goes(None)),
        Err((resource, Stop::Failed(failed))) => {
            let why = format!("cannot check whether it still exists: {}", failed.failure.words());
            return Ok(Course::Waits(None, LeftResource { resource, why }));
        }
        Err((_, stop)) => return Err(stop),
    };
    if let Some((_, answer)) = answered {
        return Ok(answer.course(&name, run.now()));
    }
    if let Some(kept) = kept_before(run, &name.id)? {
        return Ok(kept.course(&name, run.now()));
    }
    let earlier = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    let asking = Asking { attempt: asking.attempt.max(1).saturating_add(earlier), ..asking.clone() };
    let refused_with = refused.as_ref().map(Failure::words);
    let refusal = refused.map(|failure| Refusal { action: Action::Terminate, failure, not_before: None });
    let subject = run.subject(Some(&server.tags));
    let question = question_of(&run.shared, &run.policies, (&run.zone, &server), subject, &asking, refusal).await;
    let decision = run.policies.decide::<Release>(question).await;
    run.warn_of_fallbacks("release", &decision.fallbacks);
    let until = match &decision.answer.verdict {
        Verdict::Terminate | Verdict::Keep => None,
        Verdict::RetryAfter(after) => Some(run.now().saturating_add(waits(*after))),
        _ => Some(run.now().saturating_add(milliseconds(ASK_AGAIN))),
    };
    let answer = Answer::of(&decision, until, refused_with);
    run.note(Note::ReleaseDecided(answer.clone()), Some(name.clone())).await?;
    scope.judged = Some(server);
    Ok(answer.course(&name, run.now()))
}

/// What the slot answered about the server of a cleanup or a Mac, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Answer {
    pub(crate) decision: Value,
    pub(crate) decided_by: String,
    pub(crate) reason: Option<String>,
    pub(crate) verdict: Verdict,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) policy_failures: Vec<String>,
    /// When the slot is asked again about a server, in milliseconds since 1970.
    pub(crate) until: Option<u64>,
    /// Scaleway's words, where it refused what the slot had answered before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused_with: Option<String>,
}

impl Answer {
    pub(super) fn of(decision: &Decision<Release>, until: Option<u64>, refused_with: Option<String>) -> Self {
        Self {
            decision: json!(decision.id),
            decided_by: decision.decided_by.to_string(),
            reason: decision.reason.clone(),
            verdict: decision.answer.verdict.clone(),
            policy_failures: decision.fallbacks.iter().map(ToString::to_string).collect(),
            until,
            refused_with,
        }
    }

    /// Whether the slot is asked again before anything is done.
    fn waits(&self) -> bool {
        self.verdict != Verdict::Terminate && self.until.is_some()
    }

    /// What policies said, and which of them failed.
    pub(crate) fn reasons(&self) -> Vec<String> {
        reasons_of(SlotName::Release, None, &self.policy_failures, self.reason.as_deref())
    }

    fn course(&self, server: &ResourceName, now: u64) -> Course {
        let decided = |outcome| Decided {
            outcome,
            reason: self.reason.clone(),
            decided_by: self.decided_by.clone(),
            policy_failures: self.policy_failures.clone(),
        };
        match (&self.verdict, self.until) {
            (Verdict::Terminate, _) => Course::Goes(Some(decided(ReleaseOutcome::Terminated))),
            (_, None) => Course::Stays(decided(ReleaseOutcome::Kept)),
            (verdict, Some(until)) => {
                let decided = decided(ReleaseOutcome::AskAgain { after: until.saturating_sub(now) });
                let who = decided.words();
                let why = match verdict {
                    Verdict::RetryAfter(_) => {
                        let refused = self.refused_with.as_ref().map(|words| format!("{words}; ")).unwrap_or_default();
                        format!("{refused}the release policy is asked again at {} ({who})", instant_words(until))
                    }
                    other => format!(
                        "the release policy answered {}, which is not possible for a server ({who})",
                        other.name()
                    ),
                };
                Course::Waits(Some(decided), LeftResource { resource: server.clone(), why })
            }
        }
    }
}

/// The slot's answers that a cleanup's journal holds, each with the server that it is about, the oldest first.
fn answers(entries: &[Entry]) -> Result<Vec<(ResourceName, Answer)>, Error> {
    let mut answers = Vec::new();
    for entry in entries {
        if let Record::Noted(Note::ReleaseDecided(answer)) = entry.record()? {
            answers.extend(entry.resource.clone().map(|server| (server, answer)));
        }
    }
    Ok(answers)
}

/// The answer of another cleanup by which this server was kept: it stays kept, whoever asks for its removal again.
fn kept_before(run: &Run, server: &str) -> Result<Option<Answer>, Error> {
    let journal = &run.shared.journal;
    for operation in journal.operations_of_resource(server)? {
        if operation.kind != OperationKind::CleanupServer || operation.id == run.id {
            continue;
        }
        if let Some((_, answer)) = answers(&journal.entries(&operation.id)?)?.pop()
            && answer.verdict == Verdict::Keep
        {
            let why = answer.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            return Ok(Some(Answer { reason: Some(format!("operation {} kept it{why}", operation.id)), ..answer }));
        }
    }
    Ok(None)
}

/// The server of a cleanup, read by its id, where there is one that is ours. The error names what could not be read.
async fn server_there(
    run: &Run,
    scope: &mut Scope,
) -> Result<Option<(ResourceName, Box<Server>)>, (ResourceName, Stop)> {
    let instance = run.shared.client.instance(&run.zone);
    for name in scope.claims.known().filter(|name| name.kind == ResourceKind::Server) {
        let server = match scope.judged.take().filter(|server| server.id == name.id) {
            Some(server) => Some(server),
            None => {
                let seen = run.look_one("get-server", &name.id, || instance.get_server(&name.id)).await;
                seen.map_err(|stop| (name.clone(), stop))?.map(Box::new)
            }
        };
        match server {
            Some(server) if tags::carries_owner(&server.tags, &run.shared.owner) => {
                return Ok(Some((name.clone(), server)));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// What an hour of a server costs, where a policy is asked that may want to know it.
async fn price(shared: &Shared, policies: &PinnedPolicies, zone: &Zone, server: &Server) -> Option<Money> {
    if !policies.has_configured(SlotName::Release) {
        return None;
    }
    let price = shared.price(zone, &server.commercial_type).await;
    if price.is_none() {
        tracing::warn!(
            server = server.id,
            "Scaleway shows no price of a {} in {zone}: the release policy is asked without a price",
            server.commercial_type
        );
    }
    price
}

/// A server as the slot is asked about it.
pub(crate) fn machine_of(zone: &str, server: &Server, asking: &Asking, price_per_hour: Option<Money>) -> Machine {
    Machine {
        kind: MachineKind::Instance,
        id: server.id.clone(),
        name: server.name.clone(),
        zone: zone.to_string(),
        machine_type: server.commercial_type.clone(),
        status: server.state.as_str().to_owned(),
        operating_system: None,
        pool_prefix: None,
        adopted: false,
        created_at: instant(server.created_at()).unwrap_or_default(),
        deletable_at: None,
        deletion_scheduled: false,
        bootstrap_failures: asking.bootstrap_failures,
        rebooted: asking.rebooted,
        price_per_hour,
        activity: asking.activity,
    }
}

/// What is asked about a server, which tells its project itself.
async fn question_of(
    shared: &Shared,
    policies: &PinnedPolicies,
    (zone, server): (&Zone, &Server),
    subject: Subject,
    asking: &Asking,
    refusal: Option<Refusal>,
) -> Question {
    let project = Some(server.project.clone()).filter(|project| !project.is_empty());
    let machine = machine_of(zone.as_str(), server, asking, price(shared, policies, zone, server).await);
    let subject = Subject { project, ..subject };
    question(shared.clock.now(), shared.randomness.word(), subject, asking, machine, refusal)
}

/// What is asked about a server that no cleanup has begun to remove.
pub(crate) async fn question_of_owner(
    shared: &Shared,
    policies: &PinnedPolicies,
    place: (&Zone, &Server),
    requested_by: &RequestedBy,
    creation: Option<&Operation>,
    asking: &Asking,
) -> Question {
    let of_group = creation.and_then(|creation| creation.group.parse().ok());
    let subject = shared.subject(SubjectOf {
        group: of_group.as_ref(),
        requested_by: Some(requested_by),
        creation,
        tags: Some(&place.1.tags),
        ..SubjectOf::default()
    });
    question_of(shared, policies, place, subject, asking, None).await
}

impl Lifecycle {
    /// Asks what becomes of a server whose owner cannot use it, and restarts it where that is the answer. That it is
    /// given up is reported and not carried out: its owner is replaced, whose release asks again.
    pub(super) async fn recover_server(
        &self,
        zone: &Zone,
        id: &str,
        requested_by: &RequestedBy,
        asking: &Asking,
        control: &Control,
    ) -> Result<Released, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let instance = shared.client.instance(zone);
        let seen = read_or_absent(|| instance.get_server(id)).await;
        let seen = seen.map_err(|error| Error::scaleway("reading the server whose owner cannot use it", error))?;
        let mut report = ReleaseReport::default();
        let Some(server) = seen else { return Ok(report.released(ReleaseOutcome::AlreadyGone, None)) };
        let creation = creation_of(shared, id)?;
        let policies = shared.pin(requested_by, creation.as_ref());
        let question =
            question_of_owner(shared, &policies, (zone, &server), requested_by, creation.as_ref(), asking).await;
        let decision = policies.decide::<Release>(question).await;
        report.decision(&decision);
        let outcome = match decision.answer.verdict {
            _ if decision.decided_by == DecidedBy::Keep => ReleaseOutcome::AskAgain { after: milliseconds(ASK_AGAIN) },
            Verdict::RetryAfter(after) => ReleaseOutcome::AskAgain { after: waits(after) },
            Verdict::Keep => ReleaseOutcome::Kept,
            Verdict::Terminate => ReleaseOutcome::GivenUp,
            Verdict::Reboot => {
                let row = json!({ "server": id, "asking": asking, "requested_by": requested_by });
                let kind = OperationKind::ReleaseMachine;
                let (operation, active) = shared.begin(kind, &machines::group(), zone, row, &policies).await?;
                let (shared, control) = (Arc::clone(shared), control.clone());
                let run = Run::new(shared, operation, kind, machines::group(), zone.clone(), policies, control, None);
                run.event(EventKind::Opened);
                let outcome = self.restart(&run, &active, id).await?;
                return Ok(report.released(outcome, Some(run.id.clone())));
            }
            verdict => {
                report.reason =
                    Some(format!("the release policy answered {}, which is not possible for a server", verdict.name()));
                ReleaseOutcome::AskAgain { after: milliseconds(ASK_AGAIN) }
            }
        };
        Ok(report.released(outcome, None))
    }

    async fn restart(&self, run: &Run, active: &Active, id: &str) -> Result<ReleaseOutcome, Error> {
        let name = Some(ResourceName {
            kind: ResourceKind::Server,
            id: id.to_owned(),
            zone: run.zone.to_string(),
            server: None,
        });
        let open = |stop| left_open(run, active, stop);
        run.begin((REBOOT_STEP, json!({})), name.clone()).await.map_err(open)?;
        let (outcome, state) = match self.restart_server(&run.zone, id).await {
            Ok(true) => (Ok(ReleaseOutcome::Rebooted), OperationState::Done),
            Ok(false) => (Ok(ReleaseOutcome::AlreadyGone), OperationState::Undone),
            Err(error) => (Err(error), OperationState::Undone),
        };
        if state == OperationState::Done {
            run.done((REBOOT_STEP, json!({})), name).await.map_err(open)?;
        }
        run.shared.close(run, active, state, None, None, Vec::new()).await?;
        outcome
    }
}

/// Whether an operation restarts a server for recovery.
pub(super) fn is_restart(operation: &Operation) -> bool {
    operation.specification.get("server").is_some()
}

/// After a restart of this process: the server's owner asks again.
pub(super) async fn resume_restart(run: &Run, active: &Active) -> Result<(), Error> {
    run.shared.close(run, active, OperationState::Undone, None, None, Vec::new()).await.map(drop)
}
