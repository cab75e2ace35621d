//! The jobs on instances: each a call of the lifecycle, whose errors become outcomes.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use windlass_lifecycle::{
    CleanupRequest, Control, CreatedServer, Error as LifecycleError, OperationId, OperationState, RequestedBy,
    ServerSpecification, Target, read_or_absent,
};
use windlass_policy::slots::Release;
use windlass_policy::slots::release::{Machine, MachineKind, Question, Requested, Trigger, Verdict};
use windlass_policy::slots::types::FailureClass;
use windlass_policy::{DecidedBy, DecisionId};
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::context::Context;
use crate::kinds::RemediationStatus;
use crate::outcome::{Outcome, Recovery};

/// How soon something that is under way is looked at again.
const AFTER_CONTENTION: Duration = Duration::from_secs(5);

/// Writes an operation's id into the object; `false` when the object has changed or gone meanwhile.
pub(super) type WriteOperation = Box<dyn FnOnce(OperationId) -> BoxFuture<'static, bool> + Send>;

/// Creates a server, or takes up one that an earlier operation of this object has made.
pub(super) async fn create(
    context: &Context,
    zone: &Zone,
    specification: ServerSpecification,
    earlier: Option<(OperationId, RequestedBy)>,
    write: WriteOperation,
    control: &Control,
) -> Outcome {
    if let Some((earlier, requested_by)) = earlier {
        match take_up(context, zone, &earlier, requested_by, control).await {
            Ok(None) => {}
            Ok(Some(server)) => return created(earlier, server),
            Err(outcome) => return outcome,
        }
    }
    let found = context.lifecycle.account_problems(&specification, 0).await;
    let certain: Vec<String> = found.iter().filter(|it| it.is_certain()).map(ToString::to_string).collect();
    if !certain.is_empty() {
        return Outcome::Failed { reason: "CreationFailed", message: format!("spec: {}", certain.join("; ")) };
    }
    let pending = match context.lifecycle.begin_create(specification).await {
        Ok(pending) => pending,
        Err(error) => return failed(error, "CreationFailed"),
    };
    // The object knows the operation before anything is called: whoever comes after finds by it what there is.
    if !write(pending.id().clone()).await {
        control.cancel();
    }
    match pending.run(control).await {
        Ok(done) => Outcome::Created(Box::new(done)),
        Err(LifecycleError::Failed(failure))
            if failure.report.is_clean() && failure.cause.class == FailureClass::Cancelled =>
        {
            Outcome::CalledOff { message: format!("the creation was called off; {}", failure.report.words()) }
        }
        Err(error) => failed(error, "CreationFailed"),
    }
}

fn created(operation: OperationId, server: Server) -> Outcome {
    Outcome::Created(Box::new(CreatedServer { operation, server }))
}

/// The server of an earlier operation: running, it is the object's; anything else is removed, so that a new one can be
/// made.
async fn take_up(
    context: &Context,
    zone: &Zone,
    earlier: &OperationId,
    requested_by: RequestedBy,
    control: &Control,
) -> Result<Option<Server>, Outcome> {
    let known = match context.lifecycle.journal().operation(earlier) {
        Ok(operation) => Some(operation.state),
        Err(LifecycleError::OperationUnknown { .. }) => None,
        Err(error) => return Err(failed(error, "CreationFailed")),
    };
    // What of an unverified one comes late is removed by its second look.
    // What was abandoned is left alone.
    if matches!(known, Some(OperationState::Undone | OperationState::Unverified | OperationState::Abandoned)) {
        return Ok(None);
    }
    if known == Some(OperationState::Open) {
        return Err(Outcome::Waiting {
            reason: "Creating",
            message: format!("the operation {earlier} is being ended"),
            after: AFTER_CONTENTION,
        });
    }
    let found = context.lifecycle.find_created(zone, earlier).await.map_err(|error| failed(error, "ListingFailed"))?;
    match found {
        // Powering on is the last step: whatever runs has everything.
        Some(server) if server.state == ServerState::Running => Ok(Some(server)),
        // Half made, or nothing but an address or a volume.
        found => {
            let target = match known {
                Some(_) => Target::Operation(earlier.clone()),
                None => {
                    if let Some(server) = &found {
                        mark_volumes(context, zone, server).await?;
                    }
                    Target::Tagged { zone: zone.clone(), operation: earlier.clone() }
                }
            };
            clean(context, target.requested_by(requested_by), control).await.map(|_| None)
        }
    }
}

/// Lets a half-made server's volumes go with it.
async fn mark_volumes(context: &Context, zone: &Zone, server: &Server) -> Result<(), Outcome> {
    context.lifecycle.mark_volumes(zone, server).await.map_err(|error| failed(error, "CreationFailed"))
}

/// How soon a judgement is asked for again that nobody could give.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// A server that its owner releases.
pub(super) struct ServerRelease {
    /// Scaleway's id; absent when the server was never handed over, so that there is nothing to judge.
    pub(super) server: Option<String>,
    pub(super) operation: Option<OperationId>,
    pub(super) requested: Option<Requested>,
    pub(super) requested_by: RequestedBy,
}

/// Why, and how often before, the release slot is asked about a server.
pub(super) struct Asking {
    trigger: Trigger,
    requested: Option<Requested>,
    failures: u32,
    rebooted: bool,
    attempt: u32,
}

impl Asking {
    fn released(requested: Option<Requested>, attempt: u32) -> Self {
        Self { trigger: Trigger::Released, requested, failures: 0, rebooted: false, attempt }
    }

    /// Its Machine is unhealthy: it was not set up as it should be, each time that was asked.
    pub(super) fn unhealthy(known: &RemediationStatus, requested: Option<Requested>, attempt: u32) -> Self {
        let RemediationStatus { requests, rebooted, .. } = *known;
        Self { trigger: Trigger::BootstrapFailed, requested, failures: requests, rebooted, attempt }
    }
}

/// What the release slot says of a server.
struct Judged {
    verdict: Verdict,
    decided_by: String,
    /// The policy's reason in brackets, or nothing.
    why: String,
    decision: DecisionId,
}

impl Judged {
    /// What cannot be done to an instance. A judgement that cannot be carried out destroys nothing.
    fn impossible(&self) -> Outcome {
        let Self { verdict, decided_by, why, .. } = self;
        Outcome::Waiting {
            reason: "ReleaseWaiting",
            message: format!("{decided_by} answers {verdict:?}, which cannot be done to an instance{why}"),
            after: ASK_AGAIN,
        }
    }
}

/// Asks the release slot what becomes of a server that was handed over. `Ok(None)`: there is no such server.
async fn judge(context: &Context, zone: &Zone, id: &str, asking: Asking) -> Result<Option<Judged>, Outcome> {
    let instance = context.scaleway.instance(zone);
    let server = match read_or_absent(|| instance.get_server(id)).await {
        Ok(Some(server)) => server,
        Ok(None) => return Ok(None),
        Err(error) => return Err(Outcome::Failed { reason: "ServerUnreadable", message: error.to_string() }),
    };
    let milliseconds =
        |at: Option<Timestamp>| at.and_then(|at| u64::try_from(at.as_millisecond()).ok()).unwrap_or_default();
    let question = Question {
        now: milliseconds(Some(Timestamp::now())),
        random: uuid::Uuid::new_v4().as_u64_pair().0,
        trigger: asking.trigger,
        machine: Machine {
            kind: MachineKind::Instance,
            id: server.id.clone(),
            name: server.name.clone(),
            zone: zone.to_string(),
            machine_type: server.commercial_type.clone(),
            status: server.state.as_str().to_owned(),
            operating_system: None,
            pool_prefix: None,
            adopted: false,
            created_at: milliseconds(server.created_at()),
            deletable_at: None,
            deletion_scheduled: false,
            bootstrap_failures: asking.failures,
            rebooted: asking.rebooted,
        },
        requested: asking.requested,
        refusal: None,
        attempt: asking.attempt,
    };
    let decision = context.policies.pin().decide::<Release>(question).await;
    let failures: Vec<String> = decision.fallbacks.iter().map(ToString::to_string).collect();
    let why = decision.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    match decision.answer.verdict {
        _ if matches!(decision.decided_by, DecidedBy::Keep) => Err(Outcome::Failed {
            reason: "PolicyFailed",
            message: format!("the server is kept until a policy can judge: {}", failures.join(", ")),
        }),
        Verdict::RetryAfter(after) => Err(Outcome::Waiting {
            reason: "ReleaseWaiting",
            message: format!("{} asks for patience{why}", decision.decided_by),
            after: Duration::from_millis(after).clamp(Duration::from_secs(1), Duration::from_secs(24 * 3600)),
        }),
        verdict => {
            let decided_by = decision.decided_by.to_string();
            Ok(Some(Judged { verdict, decided_by, why, decision: decision.id }))
        }
    }
}

/// Asks the release slot what becomes of a server whose Machine is unhealthy, and restarts it where that is the answer.
pub(super) async fn recover(context: &Context, zone: &Zone, id: &str, asking: Asking) -> Outcome {
    let recovered = |verdict, message| Outcome::Recovered { verdict, message };
    let gone = || recovered(Recovery::GivenUp, format!("there is no server {id} any more"));
    let judged = match judge(context, zone, id, asking).await {
        Ok(Some(judged)) => judged,
        Ok(None) => return gone(),
        Err(outcome) => return outcome,
    };
    let Judged { verdict, decided_by, why, .. } = &judged;
    match verdict {
        Verdict::Keep => {
            recovered(Recovery::Kept, format!("the server {id} is left as it is, as {decided_by} wants it{why}"))
        }
        Verdict::Terminate => recovered(Recovery::GivenUp, format!("{decided_by} gives the server {id} up{why}")),
        Verdict::Reboot => match context.lifecycle.restart_server(zone, id).await {
            Ok(true) => {
                recovered(Recovery::Rebooted, format!("the server {id} was restarted, as {decided_by} wants it{why}"))
            }
            Ok(false) => gone(),
            Err(error) => failed(error, "RestartFailed"),
        },
        _ => judged.impossible(),
    }
}

/// Removes what belongs to the object, when the release slot says so.
pub(super) async fn clean_up(
    context: &Context,
    zone: &Zone,
    ServerRelease { server, operation, requested, mut requested_by }: ServerRelease,
    attempt: u32,
    control: &Control,
) -> Outcome {
    if let Some(id) = &server {
        match judge(context, zone, id, Asking::released(requested, attempt)).await {
            // What may be left of one that is gone is removed all the same.
            Ok(None) => {}
            Ok(Some(Judged { verdict: Verdict::Terminate, decision, .. })) => requested_by.decisions.push(decision),
            Ok(Some(Judged { verdict: Verdict::Keep, decided_by, why, .. })) => {
                let message =
                    format!("the server {id} is kept as {decided_by} wants it{why}; nothing looks after it any more");
                return Outcome::Kept { message };
            }
            Ok(Some(judged)) => return judged.impossible(),
            Err(outcome) => return outcome,
        }
    }
    let known = match &operation {
        Some(operation) => match context.lifecycle.journal().operation(operation) {
            Ok(found) => Some(found.state),
            Err(LifecycleError::OperationUnknown { .. }) => None,
            Err(error) => return failed(error, "DeletionFailed"),
        },
        None => None,
    };
    let target = match (known, server, operation) {
        // The journal knows everything that was made.
        (Some(_), _, Some(operation)) => Target::Operation(operation),
        // It does not: everything that carries the operation's tag, on the server or beside it.
        (None, handed_over, Some(operation)) => {
            if handed_over.is_none() {
                match context.lifecycle.find_created(zone, &operation).await {
                    Ok(Some(server)) => {
                        if let Err(outcome) = mark_volumes(context, zone, &server).await {
                            return outcome;
                        }
                    }
                    Ok(None) => {}
                    Err(error) => return failed(error, "ListingFailed"),
                }
            }
            Target::Tagged { zone: zone.clone(), operation }
        }
        (_, Some(id), None) => Target::Server { zone: zone.clone(), id },
        (_, None, None) => return Outcome::CleanedUp { message: "nothing was ever made".to_owned() },
    };
    match clean(context, target.requested_by(requested_by), control).await {
        Ok(message) => Outcome::CleanedUp { message },
        Err(outcome) => outcome,
    }
}

async fn clean(context: &Context, request: CleanupRequest, control: &Control) -> Result<String, Outcome> {
    match context.lifecycle.cleanup(request, control).await {
        Ok(done) if done.report.is_clean() => Ok(done.report.words()),
        Ok(done) => Err(Outcome::Failed { reason: "DeletionFailed", message: done.report.words() }),
        Err(error) => Err(failed(error, "DeletionFailed")),
    }
}

/// Looks at a server that the listing does not show.
pub(super) async fn inspect(context: &Context, zone: &Zone, id: &str) -> Outcome {
    let instance = context.scaleway.instance(zone);
    match read_or_absent(|| instance.get_server(id)).await {
        Ok(Some(server)) => Outcome::Waiting {
            reason: "ServerNotListed",
            message: format!(
                "the server {id} is {} and not in the list of ours: it may have lost its tag windlass-owner={}",
                server.state.as_str(),
                context.settings.owner
            ),
            after: Duration::from_secs(30),
        },
        Ok(None) => Outcome::Refused {
            reason: "ServerGone",
            message: format!(
                "Scaleway has no server {id} in {zone} any more: somebody deleted it. Delete this object, or its \
                 Machine, so that another takes its place"
            ),
        },
        Err(error) => Outcome::Failed { reason: "ServerUnreadable", message: error.to_string() },
    }
}

/// What an error of the lifecycle means for a machine.
fn failed(error: LifecycleError, reason: &'static str) -> Outcome {
    let message = error.to_string();
    match error {
        LifecycleError::NotBegun => Outcome::CalledOff { message },
        LifecycleError::OperationRunning { .. } | LifecycleError::CleanupUnderWay { .. } => {
            Outcome::Waiting { reason: "Contended", message, after: AFTER_CONTENTION }
        }
        _ => Outcome::Failed { reason, message },
    }
}
