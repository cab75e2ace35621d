//! The jobs on instances: each a call of the lifecycle, whose errors become outcomes.

use std::time::Duration;

use futures::future::BoxFuture;
use windlass_lifecycle::{
    Asking, CleanupRequest, Control, CreatedServer, Error as LifecycleError, OperationId, OperationState, RequestedBy,
    ServerSpecification, Target, read_or_absent,
};
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::context::Context;
use crate::kinds::RemediationStatus;
use crate::outcome::Outcome;

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
            match release(context, target.requested_by(requested_by), control, "DeletionFailed").await {
                Outcome::Released(_) => Ok(None),
                outcome => Err(outcome),
            }
        }
    }
}

/// Lets a half-made server's volumes go with it.
async fn mark_volumes(context: &Context, zone: &Zone, server: &Server) -> Result<(), Outcome> {
    context.lifecycle.mark_volumes(zone, server).await.map_err(|error| failed(error, "CreationFailed"))
}

/// A server that its owner releases.
pub(super) struct ServerRelease {
    /// Scaleway's id; absent when the server was never handed over, so that there is nothing to judge.
    pub(super) server: Option<String>,
    pub(super) operation: Option<OperationId>,
    pub(super) requested: Option<Requested>,
    pub(super) requested_by: RequestedBy,
}

/// Has the release slot judge a server whose Machine is unhealthy: it was not set up as it should be, each time that
/// was asked.
pub(super) async fn recover(
    context: &Context,
    target: Target,
    known: &RemediationStatus,
    requested: Option<Requested>,
    attempt: u32,
    control: &Control,
) -> Outcome {
    let RemediationStatus { requests, rebooted, .. } = *known;
    let asking =
        Asking { trigger: Trigger::BootstrapFailed, requested, bootstrap_failures: requests, rebooted, attempt };
    release(context, target.released_by(RequestedBy::default(), asking), control, "RestartFailed").await
}

/// Releases what belongs to the object.
pub(super) async fn clean_up(
    context: &Context,
    zone: &Zone,
    ServerRelease { server, operation, requested, requested_by }: ServerRelease,
    attempt: u32,
    control: &Control,
) -> Outcome {
    let known = match &operation {
        Some(operation) => match context.lifecycle.journal().operation(operation) {
            Ok(found) => Some(found.state),
            Err(LifecycleError::OperationUnknown { .. }) => None,
            Err(error) => return failed(error, "DeletionFailed"),
        },
        None => None,
    };
    let is_handed_over = server.is_some();
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
        (_, None, None) => return Outcome::NothingMade,
    };
    let request = match is_handed_over {
        true => target.released_by(requested_by, Asking { requested, attempt, ..Asking::default() }),
        false => target.requested_by(requested_by),
    };
    release(context, request, control, "DeletionFailed").await
}

async fn release(context: &Context, request: CleanupRequest, control: &Control, reason: &'static str) -> Outcome {
    match context.lifecycle.release(request, control).await {
        Ok(released) if released.refused.is_some() => Outcome::Failed { reason, message: released.words() },
        Ok(released) => Outcome::Released(Box::new(released)),
        Err(error) => failed(error, reason),
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
