//! The jobs on instances: each a call of the lifecycle, whose errors become outcomes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use windlass_lifecycle::{
    Asking, CleanupRequest, Control, CreatedServer, Error as LifecycleError, Lifecycle, OperationId, OperationState,
    ReleaseOutcome, RequestedBy, ServerSpecification, Target,
};
use windlass_policy::slots::release::{Activity, Requested, Trigger};
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::catalogue::Catalogue;
use crate::context::Context;
use crate::kinds::{RemediationStatus, annotations};
use crate::limits::{Limits, Wanted};
use crate::outcome::{Outcome, words_of};

/// How soon something that is under way is looked at again.
const AFTER_CONTENTION: Duration = Duration::from_secs(5);

/// How soon a server is looked at again that has lost our tag.
const NOT_OURS: Duration = Duration::from_secs(60);

/// How soon the placement policy is asked again that creates no server now.
const NOT_PLACED: Duration = Duration::from_secs(60);

/// Writes an operation's id into the object; `false` when the object has changed or gone meanwhile.
pub(super) type WriteOperation = Box<dyn FnOnce(OperationId) -> BoxFuture<'static, bool> + Send>;

/// By what it is told whether a server may be made.
pub(super) struct Admission {
    limits: Limits,
    scaleway: windlass_scaleway::Client,
    catalogue: Arc<Catalogue>,
    namespace: String,
}

impl Admission {
    pub(super) fn of(context: &Context, namespace: String) -> Self {
        let (limits, scaleway) = (context.settings.limits.clone(), context.scaleway.clone());
        Self { limits, scaleway, catalogue: Arc::clone(&context.catalogue), namespace }
    }
}

/// Creates a server, or takes up one that an earlier operation of this object has made.
pub(super) async fn create(
    lifecycle: &Lifecycle,
    zone: &Zone,
    specification: ServerSpecification,
    earlier: Option<(OperationId, RequestedBy)>,
    admission: Admission,
    write: WriteOperation,
    control: &Control,
) -> Outcome {
    if let Some((earlier, requested_by)) = earlier {
        match take_up(lifecycle, zone, &earlier, requested_by, control).await {
            Ok(None) => {}
            Ok(Some(server)) => return created(earlier, server),
            Err(outcome) => return outcome,
        }
    }
    let found = lifecycle.account_problems(&specification, 0).await;
    let certain: Vec<String> = found.iter().filter(|it| it.is_certain()).map(ToString::to_string).collect();
    if !certain.is_empty() {
        return Outcome::Failed { reason: "CreationFailed", message: format!("spec: {}", certain.join("; ")) };
    }
    let mut specification = specification;
    let mut placement = lifecycle.place(&specification, 1).await;
    match placement.types.pop() {
        Some(types) => specification.types = types,
        None => {
            let why = placement.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("the placement policy creates no server now{why}");
            return Outcome::Waiting { reason: "NotPlaced", message, after: NOT_PLACED };
        }
    }
    let Admission { limits, scaleway, catalogue, namespace } = &admission;
    let wanted = Wanted { namespace, zone, servers: vec![&specification.types] };
    let admitted = match limits.admit_servers(lifecycle, scaleway, catalogue, &wanted).await {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(message)) => return Outcome::Waiting { reason: "LimitReached", message, after: NOT_PLACED },
        Err(error) => return Outcome::Failed { reason: "LimitUnknown", message: error.to_string() },
    };
    let pending = match lifecycle.begin_create(specification).await {
        Ok(pending) => pending,
        Err(error) => return failed(error, "CreationFailed"),
    };
    // From here on the journal says that it is being made.
    drop(admitted);
    // The object knows the operation before anything is called: whoever comes after finds by it what there is.
    if !write(pending.id().clone()).await {
        control.cancel();
    }
    match pending.run(control).await {
        Ok(done) => Outcome::Created(Box::new(done)),
        Err(LifecycleError::Failed(failure))
            if failure.report.is_clean() && failure.cause.class == FailureClass::Cancelled =>
        {
            Outcome::CalledOff { message: format!("the creation was cancelled; {}", failure.report.words()) }
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
    lifecycle: &Lifecycle,
    zone: &Zone,
    earlier: &OperationId,
    requested_by: RequestedBy,
    control: &Control,
) -> Result<Option<Server>, Outcome> {
    let known = match lifecycle.journal().operation(earlier) {
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
            message: format!("the earlier operation {earlier} is still in progress"),
            after: AFTER_CONTENTION,
        });
    }
    let found = lifecycle.find_created(zone, earlier).await.map_err(|error| failed(error, "ListingFailed"))?;
    match found {
        // Powering on is the last step: whatever runs has everything.
        Some(server) if server.state == ServerState::Running => Ok(Some(server)),
        // Half made, or nothing but an address or a volume.
        found => {
            let target = match known {
                Some(_) => Target::Operation(earlier.clone()),
                None => {
                    if let Some(server) = &found {
                        mark_volumes(lifecycle, zone, server).await?;
                    }
                    Target::Tagged { zone: zone.clone(), operation: earlier.clone() }
                }
            };
            match release(lifecycle, target.requested_by(requested_by), control, "DeletionFailed").await {
                Outcome::Released(_) => Ok(None),
                outcome => Err(outcome),
            }
        }
    }
}

/// Lets a half-made server's volumes go with it.
async fn mark_volumes(lifecycle: &Lifecycle, zone: &Zone, server: &Server) -> Result<(), Outcome> {
    lifecycle.mark_volumes(zone, server).await.map_err(|error| failed(error, "CreationFailed"))
}

/// A server that its owner releases.
pub(super) struct ServerRelease {
    /// Scaleway's id; absent when the server was never handed over, so that there is nothing to judge.
    pub(super) server: Option<String>,
    pub(super) operation: Option<OperationId>,
    pub(super) asked: Asked,
}

/// What the object asks of a release.
pub(super) struct Asked {
    pub(super) requested: Option<Requested>,
    pub(super) requested_by: RequestedBy,
    /// What the server was doing.
    pub(super) activity: Activity,
}

/// Has the release slot judge a server whose Machine is unhealthy: it was not set up as it should be, each time that
/// was asked.
pub(super) async fn recover(
    lifecycle: &Lifecycle,
    target: Target,
    known: &RemediationStatus,
    asked: Asked,
    attempt: u32,
    control: &Control,
) -> Outcome {
    let RemediationStatus { requests, rebooted, .. } = *known;
    let Asked { requested, requested_by, activity } = asked;
    let asking = Asking {
        trigger: Trigger::BootstrapFailed,
        requested,
        bootstrap_failures: requests,
        rebooted,
        activity,
        attempt,
    };
    release(lifecycle, target.released_by(requested_by, asking), control, "RestartFailed").await
}

/// Releases what belongs to the object.
pub(super) async fn clean_up(
    lifecycle: &Lifecycle,
    zone: &Zone,
    ServerRelease { server, operation, asked: Asked { requested, requested_by, activity } }: ServerRelease,
    attempt: u32,
    control: &Control,
) -> Outcome {
    if let Some(id) = &server
        && let Some(outcome) = not_ours(lifecycle, zone, id, false).await
    {
        return outcome;
    }
    let known = match &operation {
        Some(operation) => match lifecycle.journal().operation(operation) {
            Ok(found) => Some(found.state),
            Err(LifecycleError::OperationUnknown { .. }) => None,
            Err(error) => return failed(error, "DeletionFailed"),
        },
        None => None,
    };
    let handed_over_id = server.clone();
    let is_handed_over = server.is_some();
    let target = match (known, server, operation) {
        // The journal knows everything that was made.
        (Some(_), _, Some(operation)) => Target::Operation(operation),
        // It does not: everything that carries the operation's tag, on the server or beside it.
        (None, handed_over, Some(operation)) => {
            if handed_over.is_none() {
                match lifecycle.find_created(zone, &operation).await {
                    Ok(Some(server)) => {
                        if let Err(outcome) = mark_volumes(lifecycle, zone, &server).await {
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
        true => target.released_by(requested_by, Asking { requested, activity, attempt, ..Asking::default() }),
        false => target.requested_by(requested_by),
    };
    let outcome = release(lifecycle, request, control, "DeletionFailed").await;
    match (&outcome, handed_over_id) {
        // What is said to be gone is gone, whatever else was found.
        (Outcome::Released(released), Some(id))
            if released.outcome.is_released() && released.outcome != ReleaseOutcome::Kept =>
        {
            not_ours(lifecycle, zone, &id, true).await.unwrap_or(outcome)
        }
        _ => outcome,
    }
}

/// Why the server of an object is not removed, or is not said to be: it is there, and is not ours any more; or, where
/// all that was ours `is_removed`, it is there.
async fn not_ours(lifecycle: &Lifecycle, zone: &Zone, id: &str, is_removed: bool) -> Option<Outcome> {
    let server = match lifecycle.server(zone, id).await {
        Ok(server) => server?,
        Err(error) => return Some(Outcome::Failed { reason: "ServerUnreadable", message: error.to_string() }),
    };
    if lifecycle.owns(&server) && !is_removed {
        return None;
    }
    let state = server.state.as_str();
    let message = if lifecycle.owns(&server) {
        format!("the server {id} in {zone} was deleted but still exists (state {state})")
    } else {
        format!(
            "the server {id} in {zone} is {state} and lacks the tag windlass-owner={}, so Windlass no longer owns it \
             and does not delete it. This object waits: delete the server, add the tag again, or annotate the object \
             with {}",
            lifecycle.owner(),
            annotations::ABANDON
        )
    };
    Some(Outcome::Failed { reason: "NotOurs", message })
}

async fn release(lifecycle: &Lifecycle, request: CleanupRequest, control: &Control, reason: &'static str) -> Outcome {
    match lifecycle.release(request, control).await {
        Ok(released) if released.refused.is_some() => Outcome::Failed { reason, message: released.words() },
        Ok(released) => Outcome::Released(Box::new(released)),
        Err(error) => failed(error, reason),
    }
}

/// Looks at a server that the listing does not show.
pub(super) async fn inspect(context: &Context, zone: &Zone, id: &str) -> Outcome {
    match context.lifecycle.server(zone, id).await {
        Ok(Some(server)) if !context.lifecycle.owns(&server) => {
            let message = format!(
                "the server {id} in {zone} is {} and lacks the tag windlass-owner={}, so Windlass no longer owns it: \
                 add the tag again",
                server.state.as_str(),
                context.settings.owner
            );
            Outcome::Waiting { reason: "NotOurs", message, after: NOT_OURS }
        }
        Ok(Some(server)) => Outcome::Waiting {
            reason: "ServerNotListed",
            message: format!(
                "the server {id} is {}, but Scaleway's list of the servers with Windlass's tags does \
                              not show it",
                server.state.as_str()
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
    let message = words_of(&error);
    match error {
        LifecycleError::NotBegun => Outcome::CalledOff { message },
        LifecycleError::OperationRunning { .. } | LifecycleError::CleanupUnderWay { .. } => {
            Outcome::Waiting { reason: "Contended", message, after: AFTER_CONTENTION }
        }
        _ => Outcome::Failed { reason, message },
    }
}

#[cfg(test)]
mod tests {
    use windlass_lifecycle::{
        Durability, ImageChoice, OperationFilter, OperationKind, Options, Requester, StateDirectory,
    };
    use windlass_policy::{Host, HostOptions};
    use windlass_scaleway::{Client, Settings};
    use windlass_simulator::Simulator;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_journal_says_which_object_had_a_server_removed() {
        let simulator = Simulator::new(windlass_simulator::Options::default());
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let policies = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
        let settings = Settings::new("5ec7e700-0000-4000-8000-5ec7e75ec7e7".parse().unwrap());
        let client = Client::with_transport(settings, simulator.transport()).unwrap();
        let mut options = Options::new(client.clone(), Arc::new(policies), state);
        options.durability = Durability::Process;
        let lifecycle = Lifecycle::open(options).unwrap();
        let (zone, control): (Zone, _) = ("fr-par-1".parse().unwrap(), Control::new());
        let object = |name: &str| {
            let (kind, namespace, uid) = ("Kind".to_owned(), "space".to_owned(), "uid".to_owned());
            let requester = Requester::Object { kind, namespace, name: name.to_owned(), uid };
            RequestedBy::new(requester, "why")
        };
        for name in ["deleted", "taken-up"] {
            let group = "ci".parse().unwrap();
            let image = ImageChoice::parse("ubuntu_noble");
            let wanted = ServerSpecification::new(group, zone.clone(), "DEV1-S", image);
            let made = lifecycle.create_server(wanted.clone(), &control).await.unwrap();
            let (server, operation) = (made.server.id, made.operation);
            let requested = Some(Requested::Terminate);
            let outcome = match name {
                "deleted" => {
                    let (server, operation, requested_by) = (Some(server), Some(operation), object(name));
                    let asked = Asked { requested, requested_by, activity: Activity::default() };
                    let what = ServerRelease { server, operation, asked };
                    clean_up(&lifecycle, &zone, what, 1, &control).await
                }
                _ => {
                    // It was stopped before the object knew of it.
                    simulator.set_server_state(&server, windlass_simulator::ForcedState::Stopped).unwrap();
                    let write: WriteOperation = Box::new(|_| Box::pin(std::future::ready(true)));
                    let earlier = Some((operation, object(name)));
                    let (limits, catalogue) = (Limits::default(), Arc::default());
                    let admission =
                        Admission { limits, scaleway: client.clone(), catalogue, namespace: "space".to_owned() };
                    create(&lifecycle, &zone, wanted, earlier, admission, write, &control).await
                }
            };
            let mut filter = OperationFilter::default();
            (filter.kind, filter.limit) = (Some(OperationKind::CleanupServer), Some(1));
            let removal = lifecycle.journal().operations(&filter).unwrap().pop();
            let requested_by = removal.and_then(|removal| removal.requested_by());
            assert_eq!(requested_by, Some(object(name)), "{name}: {outcome:?}");
        }
    }
}
