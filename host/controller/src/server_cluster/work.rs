//! The jobs on clusters: each a call of the floor below, whose events become Kubernetes' and whose end becomes an
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::mpsc;
use windlass_cluster::{
    ClusterControl, ClusterEvent, ClusterEventKind, ClusterName, ClusterOutcome, ClusterSpecification, Error,
    OperationKind, OperationState, ScaleRequest, Stage,
};
use windlass_lifecycle::Control;

use super::clusters::Part;
use crate::context::Context;
use crate::limits::{Admitted, Wanted};
use crate::outcome::Outcome;

/// How soon something that another works on is looked at again.
const AFTER_CONTENTION: Duration = Duration::from_secs(2);
/// Failures of single nodes that are reported as events, for each step.
const TOLD_NODES: u32 = 5;
/// How long the last events get to be published.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// What a job is to do.
pub(super) enum Task {
    Create { specification: Box<ClusterSpecification>, anew: bool },
    Scale { request: ScaleRequest },
    Resume,
    Terminate { force: bool },
}

/// Admits the servers that an operation makes, each with its types. They count from now on, and from their creation on
/// by the journal.
pub(super) async fn admit(
    context: &Context,
    namespace: &str,
    zone: &str,
    servers: &[Vec<String>],
) -> Result<Admitted, Outcome> {
    let Ok(zone) = zone.parse() else { return Ok(Admitted::default()) };
    if servers.is_empty() {
        return Ok(Admitted::default());
    }
    let wanted = Wanted { namespace, zone: &zone, servers: servers.iter().map(Vec::as_slice).collect() };
    let limits = &context.settings.limits;
    match limits.admit_servers(&context.lifecycle, &context.scaleway, &context.catalogue, &wanted).await {
        Ok(Ok(admitted)) => Ok(admitted.reserve()),
        Ok(Err(message)) => Err(Outcome::Refused { reason: "LimitReached", message }),
        Err(error) => Err(Outcome::Failed { reason: "LimitUnknown", message: error.to_string() }),
    }
}

/// Does it.
pub(super) async fn perform(
    context: Arc<Context>,
    part: Part,
    name: ClusterName,
    about: ObjectReference,
    task: Task,
    control: Control,
) -> Outcome {
    let (sender, events) = mpsc::unbounded_channel();
    let of_cluster = control.child_for(Some(sender));
    let publishing = tokio::spawn(publish(context, about, events));
    let outcome = run(&part, &name, task, &of_cluster).await;
    drop(of_cluster);
    if tokio::time::timeout(LAST_EVENTS, publishing).await.is_err() {
        tracing::warn!(cluster = %name, "the last events of the cluster were not published in time");
    }
    outcome
}

async fn run(part: &Part, name: &ClusterName, task: Task, control: &ClusterControl) -> Outcome {
    let clusters = &part.clusters;
    match task {
        Task::Create { specification, anew } => {
            if anew {
                match clusters.terminate(name, false, control).await {
                    Ok(_) | Err(Error::Unknown { .. }) => {}
                    Err(error) => return failed(error),
                }
            }
            ended(clusters.create(*specification, control).await)
        }
        Task::Scale { request } => ended(clusters.scale(name, &request, control).await),
        Task::Terminate { force } => match clusters.terminate(name, force, control).await {
            Err(Error::Unknown { .. }) => Outcome::Operated { message: "there was nothing to remove".to_owned() },
            result => ended(result),
        },
        Task::Resume => match clusters.resume_cluster(name, control).await {
            Ok(Some(resumed)) => ended(resumed.outcome),
            Ok(None) => contended("another process works on the operation or has ended it".to_owned()),
            Err(error) => failed(error),
        },
    }
}

fn contended(message: String) -> Outcome {
    Outcome::Waiting { reason: "Contended", message, after: AFTER_CONTENTION }
}

fn ended(result: Result<ClusterOutcome, Error>) -> Outcome {
    match result {
        Ok(ClusterOutcome { number, state: OperationState::Cancelled, kept, .. }) if kept.is_empty() => {
            Outcome::Operated {
                message: format!("operation {number} was cancelled and everything it created was removed"),
            }
        }
        Ok(ClusterOutcome { number, cluster, nodes, kept, .. }) => {
            let mut what = match cluster {
                Some(cluster) => format!("the cluster is {} with {} nodes", cluster.state, nodes.len()),
                None => "the cluster is gone, with everything that belonged to it".to_owned(),
            };
            for kept in kept {
                what.push_str(&format!("; {kept}"));
            }
            Outcome::Operated { message: format!("operation {number} is done: {what}") }
        }
        Err(error) => failed(error),
    }
}

/// What an error of the floor below means for the object.
fn failed(error: Error) -> Outcome {
    let message = error.to_string();
    match error {
        Error::Failed(failure) => {
            let reason = match failure.kind {
                OperationKind::Create => "CreateFailed",
                OperationKind::Scale => "ScaleFailed",
                OperationKind::Terminate => "TerminateFailed",
            };
            Outcome::Failed { reason, message }
        }
        Error::Name { .. }
        | Error::Specification { .. }
        | Error::UnknownGroup { .. }
        | Error::UnknownNode { .. }
        | Error::Node { .. } => Outcome::Refused { reason: "Refused", message },
        Error::LeftOpen { .. } => Outcome::LeftOpen,
        Error::Exists { .. }
        | Error::Unknown { .. }
        | Error::Busy { .. }
        | Error::Interrupted { .. }
        | Error::TakenOver { .. } => contended(message),
        _ => Outcome::Failed { reason: "RecordFailed", message },
    }
}

/// Tells what happens as Kubernetes' events, as far as it is not one of many.
async fn publish(context: Arc<Context>, about: ObjectReference, mut events: mpsc::UnboundedReceiver<ClusterEvent>) {
    let mut nodes_told = 0;
    while let Some(event) = events.recv().await {
        if matches!(event.what, ClusterEventKind::StepBegan { .. }) {
            nodes_told = 0;
        }
        if matches!(event.what, ClusterEventKind::NodeFailed { .. }) {
            nodes_told += 1;
            if nodes_told > TOLD_NODES {
                continue;
            }
        }
        if let Some((warning, reason, note)) = kubernetes_event(&event.what) {
            context.event(&about, warning, reason, "Operate", &format!("operation {}: {note}", event.operation)).await;
        }
    }
}

/// Whether it is a warning, its word for programs, and its words for people.
fn kubernetes_event(what: &ClusterEventKind) -> Option<(bool, &'static str, String)> {
    let normal = |reason, note| Some((false, reason, note));
    let warning = |reason, note| Some((true, reason, note));
    match what {
        ClusterEventKind::Opened { kind, counts } => {
            let groups: Vec<String> = counts
                .iter()
                .filter(|(_, counts)| counts.before != counts.wanted)
                .map(|(group, counts)| format!("{group} {} → {}", counts.before, counts.wanted))
                .collect();
            normal("OperationBegan", format!("{kind} {}", groups.join(", ")))
        }
        ClusterEventKind::TakenOver { from } => warning("TakenOver", format!("{from} left it open")),
        ClusterEventKind::StepBegan { stage, step, total } => {
            // A stage without nodes or hook says nothing.
            if *total == 0 { None } else { normal(stage_word(*stage), format!("{step}, {total}")) }
        }
        ClusterEventKind::NodeDone { .. } => None,
        ClusterEventKind::NodeFailed { stage, step, node, reason } => {
            warning("NodeFailed", format!("{stage}: {step}: {node}: {reason}"))
        }
        ClusterEventKind::HookOutput { stage, output } => normal("HookOutput", format!("{stage}: {output}")),
        ClusterEventKind::Waiting { stage, step, attempt, milliseconds, failure, reason } => {
            let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let seconds = milliseconds.div_ceil(1000);
            warning(
                "Retrying",
                format!("{stage}: {step}: attempt {attempt} failed: {failure}; again in {seconds} s{why}"),
            )
        }
        ClusterEventKind::Recovering(recovery) => {
            let why = recovery.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let (stage, cause) = (recovery.stage, &recovery.cause.message);
            let (delete, state, by) = (recovery.delete.len(), recovery.state, &recovery.decided_by);
            warning(
                "Recovering",
                format!(
                    "failed at the stage {stage}: {cause}; {by} decided to delete {delete} nodes and to leave the \
                     cluster in the state {state}{why}"
                ),
            )
        }
        ClusterEventKind::StoppingQuietly => {
            normal("StoppingQuietly", "the cluster was deleted meanwhile, so the operation stops".to_owned())
        }
        // The job's own end tells it.
        ClusterEventKind::Closed { .. } => None,
    }
}

fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Validate => "Validate",
        Stage::Servers => "Servers",
        Stage::Wait => "Wait",
        Stage::Prepare => "Prepare",
        Stage::Decommission => "Decommission",
        Stage::Resize => "Resize",
        Stage::Configure => "Configure",
        Stage::Start => "Start",
    }
}
