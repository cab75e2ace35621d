//! The operations: create, scale, terminate, resume. Nodes that would be removed are shown and confirmed first.

use serde_json::{Value, json};
use windlass_cluster::{
    ClusterControl, ClusterName, ClusterOutcome, ClusterPlan, ClusterState, ClusterStatus, Clusters, Error, KeptNode,
    OperationKind, OperationState, ResumedCluster, ScaleRequest, Stage,
};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::with_notes;
use windlass_inspect::output::{Output, table};
use windlass_lifecycle::Aftermath;

use super::failure::{failure_of, kept_leftovers, operation_failure, remaining};
use super::{live, plan, specification, status};
use crate::arguments::{CreateCluster, ScaleCluster, TerminateCluster};
use crate::commands::lifecycle::{Beside, noted};
use crate::confirmation::{Confirmation, DRY_RUN, Planned};
use crate::context::{ClusterWork, Context};
use crate::interrupt::{self, CREATING, TERMINATING, Words};
use windlass_inspect::words::counted;

pub(crate) async fn create(context: &Context, arguments: &CreateCluster) -> Result<(), Failure> {
    let specification = specification::read(&arguments.file)?;
    if arguments.run.dry_run {
        let plan = ClusterPlan::of_creation(&specification).map_err(|error| failure_of(&error))?;
        return plan::show(context, &plan);
    }
    let work = context.clusters(arguments.run.parallel)?;
    let name = specification.name.clone();
    // Before a cluster is recorded: a wrong name in the file would leave one in `error`.
    specification::refuse_unknown(&work.clusters, &specification, &arguments.file).await?;
    let nothing_to_confirm = async || Ok(());
    operate(context, &work, &name, CREATING, nothing_to_confirm, async |control| {
        work.clusters.create(specification, control).await
    })
    .await
}

pub(crate) async fn scale(context: &Context, arguments: &ScaleCluster) -> Result<(), Failure> {
    let mut request = ScaleRequest::default();
    for asked in &arguments.counts {
        if request.counts.insert(asked.group.clone(), asked.count).is_some() {
            return Err(Failure::usage(format!("group {} is given two counts", asked.group)));
        }
    }
    request.remove = arguments.remove.iter().cloned().collect();
    let name = &arguments.name;
    if arguments.removal.run.dry_run {
        let work = context.clusters_to_look_at()?;
        let plan = work.clusters.plan_scale(name, &request).await.map_err(|error| failure_of(&error))?;
        return plan::show(context, &plan);
    }
    let work = context.clusters(arguments.removal.run.parallel)?;
    let clusters = &work.clusters;
    let plan = clusters.plan_scale(name, &request).await.map_err(|error| failure_of(&error))?;
    let confirmation = if plan.remove.is_empty() {
        Confirmation::Given
    } else {
        Confirmation::source(arguments.removal.yes, "cluster scale", DRY_RUN)?
    };
    confirm_leaving(confirmation, clusters, &plan).await?;
    withdraw_deletion(context, clusters, name).await?;
    // What an earlier process left open is ended in between, and may change who leaves.
    let still_confirmed = async || {
        let now = clusters.plan_scale(name, &request).await.map_err(|error| failure_of(&error))?;
        let added: Vec<String> = now.remove.into_iter().filter(|node| !plan.remove.contains(node)).collect();
        if arguments.removal.yes || added.is_empty() {
            return Ok(());
        }
        Err(Failure::usage(format!("cluster {name} has changed meanwhile: {} would be removed, too", added.join(", ")))
            .remedy(format!("look at it with `windlass cluster status {name}`, and scale it again")))
    };
    operate(context, &work, name, CREATING, still_confirmed, async |control| {
        clusters.scale(name, &request, control).await
    })
    .await
}

/// Withdraws a deletion whose process died: to scale a cluster is to want it.
pub(super) async fn withdraw_deletion(
    context: &Context,
    clusters: &Clusters,
    name: &ClusterName,
) -> Result<(), Failure> {
    let status = match clusters.status(name).await {
        Err(Error::Unknown { .. }) => return Ok(()),
        status => status.map_err(|error| failure_of(&error))?,
    };
    if status.deletion_requested
        && !status.operation_lives
        && clusters.withdraw(name).await.map_err(|error| failure_of(&error))?
    {
        context.output.say(&format!("note: the deletion of cluster {name} that was requested earlier is withdrawn"));
    }
    Ok(())
}

pub(crate) async fn terminate(context: &Context, arguments: &TerminateCluster) -> Result<(), Failure> {
    let (name, force) = (&arguments.name, arguments.force);
    if arguments.removal.run.dry_run {
        let work = context.clusters_to_look_at()?;
        let plan = work.clusters.plan_terminate(name, force).await.map_err(|error| failure_of(&error))?;
        return plan::show(context, &plan);
    }
    let confirmation = Confirmation::source(arguments.removal.yes, "cluster terminate", DRY_RUN)?;
    let work = context.clusters(arguments.removal.run.parallel)?;
    let clusters = &work.clusters;
    let plan = match clusters.plan_terminate(name, force).await {
        // It is gone, and there was one.
        Err(Error::Unknown { .. }) if clusters.history(name).await.is_ok() => {
            let document = json!({ "operation": null, "state": "done", "cluster": null, "nodes": [] });
            context.output.result(&document, || format!("cluster {name} is gone already; nothing was done\n"));
            return Ok(());
        }
        plan => plan.map_err(|error| failure_of(&error))?,
    };
    confirm_leaving(confirmation, clusters, &plan).await?;
    // Terminate also covers nodes that are still being created.
    let whole = async || Ok(());
    operate(context, &work, name, TERMINATING, whole, async |control| clusters.terminate(name, force, control).await)
        .await
}

/// Shows the nodes that would leave, and asks.
pub(super) async fn confirm_leaving(
    confirmation: Confirmation,
    clusters: &Clusters,
    plan: &ClusterPlan,
) -> Result<(), Failure> {
    let name = &plan.cluster;
    let status = clusters.status(name).await.map_err(|error| failure_of(&error))?;
    let planned = leaving(plan, &status);
    let open = match &status.operation {
        Some(open) if !status.operation_lives => {
            format!("The {} that an earlier process left open is ended first. ", open.kind)
        }
        Some(open) if plan.operation == OperationKind::Terminate => {
            format!("The {} in progress is cancelled first. ", open.kind)
        }
        _ => String::new(),
    };
    let verb = if plan.operation == OperationKind::Terminate { "Terminate" } else { "Scale" };
    let servers = counted(planned.len(), "server");
    confirmation.ask(&planned, &format!("{open}{verb} cluster {name} and remove {servers}?")).await
}

/// The nodes of a plan that exist and would be removed, each with what its hook has to say.
fn leaving(plan: &ClusterPlan, status: &ClusterStatus) -> Vec<Planned> {
    let decommissioned = |node: &str| {
        let mut hooks = plan.hooks.iter().filter(|hook| hook.stage == Stage::Decommission);
        hooks.any(|hook| hook.plan.input.nodes.iter().any(|one| one.name == node))
    };
    let leaves = status.nodes.iter().filter(|node| node.exists() && plan.remove.contains(&node.name));
    leaves
        .map(|node| Planned {
            kind: "server".to_owned(),
            id: node.server.clone().unwrap_or_default(),
            name: node.name.clone(),
            state: node.state.to_string(),
            why: if decommissioned(&node.name) {
                "leaves after the decommission hook".to_owned()
            } else {
                "leaves, and no hook is run for it".to_owned()
            },
        })
        .collect()
}

/// Runs one operation and tells its result.
pub(super) async fn operate(
    context: &Context,
    work: &ClusterWork,
    name: &ClusterName,
    words: Words,
    still_confirmed: impl AsyncFnOnce() -> Result<(), Failure>,
    operation: impl AsyncFnOnce(&ClusterControl) -> Result<ClusterOutcome, Error>,
) -> Result<(), Failure> {
    perform(context, work, name, words, still_confirmed, operation).await?.tell(context, name)
}

/// An operation that ended without an error.
pub(super) struct Performed {
    outcome: ClusterOutcome,
    status: Option<ClusterStatus>,
    /// The nodes that do not serve after it.
    unserving: Vec<Leftover>,
    was_interrupted: bool,
}

impl Performed {
    /// Writes the result on stdout, where nothing else follows it.
    pub(super) fn tell(&self, context: &Context, name: &ClusterName) -> Result<(), Failure> {
        let document = document(&self.outcome);
        if let Some(failure) = self.failure(name) {
            return Err(failure.with_partial(document));
        }
        context.output.result(&document, || match &self.status {
            Some(status) => status::rendered(status),
            None => format!("cluster {name} is gone, with everything that belonged to it\n"),
        });
        Ok(())
    }

    /// What it has not brought about: servers that were to go stay, the cluster was deleted meanwhile, or a node of it
    /// does not serve.
    pub(super) fn failure(&self, name: &ClusterName) -> Option<Failure> {
        if !self.outcome.kept.is_empty() {
            return Some(kept(name, &self.outcome));
        }
        if self.outcome.state == OperationState::Cancelled {
            // Not an error of anybody's; but what was asked for is not there.
            let exit = if self.was_interrupted { Exit::Interrupted } else { Exit::Undone };
            return Some(Failure::new(exit, format!("cluster {name} was deleted meanwhile; nothing of it is left")));
        }
        let cluster = self.outcome.cluster.as_ref().filter(|cluster| cluster.state == ClusterState::Error)?;
        let mut failure =
            Failure::new(Exit::Left, format!("cluster {name} is in the state error: not all of its nodes serve"));
        failure.causes.clone_from(&cluster.reasons);
        failure.left.clone_from(&self.unserving);
        Some(failure.remedy(format!("remove the cause, then: windlass cluster refresh {name}; or replace the nodes")))
    }
}

/// Runs one operation with its live view; first what earlier processes left open of this cluster is ended, and then it
/// is looked whether what was confirmed still holds. What they left of others is ended beside it.
pub(super) async fn perform(
    context: &Context,
    work: &ClusterWork,
    name: &ClusterName,
    words: Words,
    still_confirmed: impl AsyncFnOnce() -> Result<(), Failure>,
    operation: impl AsyncFnOnce(&ClusterControl) -> Result<ClusterOutcome, Error>,
) -> Result<Performed, Failure> {
    // Nothing of it could be begun, so it is said once.
    work.clusters.check_history().map_err(|error| failure_of(&error))?;
    let (ended, was_interrupted) = shown(context, work, words, async |control| {
        report_resumed(context.output, work.clusters.resume_before(name, control).await.map(Vec::from_iter));
        let others = ClusterControl::new();
        let beside = {
            let (clusters, but, output, own) = (work.clusters.clone(), name.clone(), context.output, others.clone());
            Beside::begin(move || others.leave(), async move {
                report_resumed(output, clusters.resume_others(&but, &own).await);
                // Another cluster's end is not this one's.
                Vec::new()
            })
        };
        let ended = match still_confirmed().await {
            Ok(()) => Ok(operation(control).await),
            Err(changed) => Err(changed),
        };
        beside.end().await;
        ended
    })
    .await?;
    performed(&work.clusters, name, ended?, was_interrupted).await
}

/// Runs something with its live view, under a control that Ctrl-C cancels. Gives also whether that happened.
async fn shown<T>(
    context: &Context,
    work: &ClusterWork,
    words: Words,
    operation: impl AsyncFnOnce(&ClusterControl) -> T,
) -> Result<(T, bool), Failure> {
    let (control, events) = ClusterControl::with_events();
    let interrupted = interrupt::listen(&control, context.output, words)?;
    let live = live::Live::follow(events, context.output, context.verbose());
    let ended = operation(&control).await;
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    live.end().await;
    Ok((ended, was_interrupted))
}

async fn performed(
    clusters: &Clusters,
    name: &ClusterName,
    ended: Result<ClusterOutcome, Error>,
    was_interrupted: bool,
) -> Result<Performed, Failure> {
    let status = clusters.status(name).await.ok();
    match ended {
        Ok(outcome) => {
            let unserving =
                status.iter().flat_map(|status| remaining(clusters, status, OperationKind::Scale)).collect();
            Ok(Performed { outcome, status, unserving, was_interrupted })
        }
        Err(error) => Err(failed(&error, clusters, status.as_ref(), was_interrupted)),
    }
}

fn document(outcome: &ClusterOutcome) -> Value {
    let mut document = json!({
        "operation": outcome.number,
        "state": outcome.state,
        "cluster": outcome.cluster,
        "nodes": outcome.nodes,
    });
    if !outcome.kept.is_empty() {
        document["kept"] = json!(outcome.kept);
    }
    document
}

/// The operation is done, and servers that were to go stay: the release policy keeps them, or they are no longer ours.
fn kept(name: &ClusterName, outcome: &ClusterOutcome) -> Failure {
    let what = match &outcome.cluster {
        Some(cluster) => format!("cluster {name} is {}", cluster.state),
        None => format!("cluster {name} is gone"),
    };
    let servers: Vec<&KeptNode> = outcome.kept.iter().filter(|kept| kept.parts.is_empty()).collect();
    let mut failure = Failure::new(
        Exit::Left,
        match servers.len() {
            0 => format!("{what}, and something of it stays"),
            1 => format!("{what}, and 1 server of it stays"),
            count => format!("{what}, and {count} servers of it stay"),
        },
    );
    failure.left = outcome.kept.iter().flat_map(kept_leftovers).collect();
    let by_policy = servers.iter().filter(|kept| kept.not_ours.is_empty());
    let by_policy: Vec<&str> = by_policy.map(|kept| kept.server.as_str()).collect();
    failure.remedy(match by_policy.as_slice() {
        [] if servers.is_empty() => {
            "Windlass marks what a policy keeps, and leaves it alone: delete it at Scaleway".to_owned()
        }
        [] => "to delete it, set its tag windlass-owner again, then: windlass server delete".to_owned(),
        servers => {
            format!("to delete what a policy keeps: windlass server delete --force {}", servers.join(" "))
        }
    })
}

fn failed(error: &Error, clusters: &Clusters, status: Option<&ClusterStatus>, was_interrupted: bool) -> Failure {
    let mut failure = match error {
        Error::Failed(failed) => operation_failure(failed, status.map(|status| (clusters, status))),
        other => failure_of(other),
    };
    if was_interrupted && failure.exit != Exit::Usage && failure.left.is_empty() {
        failure.exit = Exit::Interrupted;
    }
    if let (Error::LeftOpen { .. }, Some(status)) = (error, status) {
        let kind = status.operation.as_ref().map_or(OperationKind::Scale, |open| open.kind);
        failure.left = remaining(clusters, status, kind);
    }
    if let Some(status) = status {
        for left in failure.left.iter_mut().filter(|left| left.zone.is_empty()) {
            left.zone = status.cluster.specification.zone.to_string();
        }
    }
    let document = match error {
        Error::Failed(failed) => json!({
            "operation": failed.number,
            "stage": failed.stage,
            "cause": failed.cause,
            "reasons": failed.reasons,
            "cluster": status.map(|status| &status.cluster),
            "nodes": status.map_or_else(Vec::new, |status| status.nodes.clone()),
        }),
        _ => Value::Null,
    };
    failure.with_partial(document)
}

/// Says what became of clusters' operations that were taken up.
fn report_resumed(output: Output, resumed: Result<Vec<ResumedCluster>, Error>) {
    match resumed {
        Ok(resumed) => {
            for one in resumed {
                output.say(&format!("note: {}", resumed_words(&one)));
            }
        }
        // Somebody else is doing it.
        Err(Error::Lifecycle(windlass_lifecycle::Error::RecoveryRunning { .. })) => {}
        Err(error) => output.say(&format!("note: operations of earlier processes cannot be finished now: {error}")),
    }
}

fn resumed_words(resumed: &ResumedCluster) -> String {
    let what = format!("cluster {}: operation {} was left open by an earlier process", resumed.cluster, resumed.number);
    match &resumed.outcome {
        Ok(outcome) => format!("{what}; it is {} now", outcome.state),
        Err(Error::Failed(failed)) => {
            let state = failed.state.map_or("gone".to_owned(), |state| state.to_string());
            format!("{what}; the cluster is {state} now: {}", failed.reasons.join("; "))
        }
        Err(error) => format!("{what}, and could not be ended: {error}"),
    }
}

pub(crate) async fn resume(context: &Context) -> Result<(), Failure> {
    let work = context.clusters(None)?;
    let (resumed, was_interrupted) =
        shown(context, &work, interrupt::RESUMING, async |control| work.clusters.resume(control).await).await?;
    let resumed = resumed.map_err(|error| failure_of(&error))?;
    let mut failure = Failure::undone("the open operations have ended, but not every node serves or is gone");
    let (mut aftermaths, mut clusters) = (Vec::new(), Vec::new());
    for one in resumed {
        let words = resumed_words(&one);
        let ResumedCluster { cluster, number, outcome } = one;
        let state = match &outcome {
            Ok(outcome) => outcome.state,
            Err(Error::Failed(failed)) if failed.left.is_empty() => OperationState::Recovered,
            Err(Error::Failed(_)) => OperationState::Failed,
            Err(_) => OperationState::Open,
        };
        let ended = performed(&work.clusters, &cluster, outcome, false).await;
        let found = ended.map_or_else(Some, |performed| performed.failure(&cluster));
        let mut left = found.map(|failure| failure.left.clone()).unwrap_or_default();
        if state == OperationState::Open {
            failure.message = "not every operation could be ended".to_owned();
            left.insert(
                0,
                Leftover {
                    kind: "cluster".to_owned(),
                    id: cluster.to_string(),
                    zone: String::new(),
                    reason: format!("operation {number} is open"),
                },
            );
        }
        if !left.is_empty() {
            failure.causes.push(words.clone());
            aftermaths.push(match state {
                OperationState::Open => Aftermath::Open,
                _ => Aftermath::Left(Vec::new()),
            });
        }
        let names: Vec<String> = left.iter().map(|left| format!("{}: {}", left.id, left.reason)).collect();
        clusters.push(json!({
            "cluster": cluster,
            "operation": number,
            "state": state,
            "words": words,
            "left": names,
        }));
        failure.left.extend(left);
    }
    let document = json!({ "clusters": clusters });
    if !aftermaths.is_empty() {
        let failure = failure.remedy("windlass cluster list").ended(aftermaths, Vec::new(), was_interrupted);
        return Err(failure.with_partial(document));
    }
    let mut notes = Vec::new();
    if clusters.is_empty() {
        notes = context.other_owners(&context.state_directory()?, true).await;
    }
    context.output.result(&noted(document, &notes), || {
        if clusters.is_empty() {
            return with_notes("nothing was left open\n", &notes);
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        table(
            &["cluster", "operation", "state", "words"],
            clusters.iter().map(|one| ["cluster", "operation", "state", "words"].map(|key| text(&one[key])).to_vec()),
        )
    });
    Ok(())
}

/// Undoes the cancelled operation of a process that has ended.
pub(super) async fn undo(context: &Context, name: &ClusterName) -> Result<(), Failure> {
    let work = context.clusters(None)?;
    let (resumed, was_interrupted) =
        shown(context, &work, CREATING, async |control| work.clusters.resume_cluster(name, control).await).await?;
    match resumed.map_err(|error| failure_of(&error))? {
        // Another process has taken it up meanwhile, or it had just ended.
        None => Ok(()),
        Some(one) => match performed(&work.clusters, name, one.outcome, was_interrupted).await {
            // Undone, as was asked for.
            Err(failure) if failure.exit == Exit::Undone && !failure.is_unknown => Ok(()),
            Err(failure) => Err(failure),
            Ok(performed) => performed.failure(name).map_or(Ok(()), Err),
        },
    }
}
