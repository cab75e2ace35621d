//! Looking at clusters: status, list, history. Also `cancel`, which only leaves a request.

use std::time::Duration;

use serde_json::json;
use windlass_cluster::{
    CalledOff, ClusterEvent, ClusterEventKind, ClusterHistory, ClusterName, ClusterOperation, ClusterReader,
    ClusterStatus, Error, Node, NodeState, progress,
};
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::listing::Listing;
use windlass_inspect::output::fields;
use windlass_inspect::text::{age, ago, bold, instant, printable, red};
use windlass_lifecycle::Clock;

use super::failure::{failure_of, left_open};
use super::status::{differences, nodes, rendered_without_nodes};
use super::{live, work};
use crate::arguments::{self, NameCluster};
use crate::commands::detach;
use crate::commands::lifecycle::noted;
use crate::context::Context;
use crate::progress::LOOK_AGAIN;
use crate::units::human_duration;

pub(crate) async fn status(context: &Context, arguments: &arguments::ClusterStatus) -> Result<(), Failure> {
    let (clusters, unreachable) = context.cluster_reader()?;
    let name = &arguments.name;
    let mut status = clusters.status(name).await.map_err(|error| failure_of(&error))?;
    if arguments.watch {
        match watch(context, &clusters, name, status).await? {
            Some(last) => status = last,
            None => {
                let none = Listing::new(&[], format!("cluster {name} is gone"), |node: &Node| node.name.clone());
                context.output.listing(&json!({ "cluster": null, "nodes": [] }), &none);
                return Ok(());
            }
        }
    }
    if arguments.watch
        && let Some(operation) = status.operation.as_ref().filter(|_| !status.operation_lives)
    {
        return Err(dead(&status, operation));
    }
    let mut unseen = arguments.offline.then(|| "--offline".to_owned()).or(unreachable);
    if unseen.is_none() && status.nodes.iter().any(|node| node.server.is_some()) {
        let (compared, asked) =
            clusters.compare(name, Clock::System.now()).await.map_err(|error| failure_of(&error))?;
        status = compared;
        unseen = asked.err().map(|failed| failed.words());
    }
    if let Some(why) = &unseen {
        context.output.say(&format!("note: Scaleway was not asked about the nodes: {why}"));
    }
    context
        .output
        .listing_in(&status, &nodes(&status), |table| format!("{}\n{table}", rendered_without_nodes(&status)));
    Ok(())
}

pub(crate) async fn watch_one(context: &Context, name: &ClusterName) -> Result<(), Failure> {
    status(context, &arguments::ClusterStatus { name: name.clone(), watch: true, offline: false }).await
}

/// Follows a detached operation of a cluster, the last one: what its process has written so far and writes from now on;
/// or where it has no output of its own, the events of the cluster.
pub(crate) async fn attach(context: &Context, name: &ClusterName) -> Result<(), Failure> {
    let (clusters, _) = context.cluster_reader()?;
    let history = clusters.history(name).await.map_err(|error| failure_of(&error))?;
    if let Some(ClusterHistory { operation, .. }) = history.first() {
        let state = context.state_directory()?;
        let what = format!("operation {} of cluster {name}", operation.number);
        if detach::attach(context, &state, &operation.runner, &what).await? {
            return Ok(());
        }
        context
            .output
            .say(&format!("{what} was not detached, or its output was removed since; this is the cluster now"));
    }
    watch_one(context, name).await
}

/// Notes what Scaleway says of the nodes, and tells what has changed by that.
pub(crate) async fn refresh(context: &Context, name: &ClusterName) -> Result<(), Failure> {
    let look = context.clusters_to_look_at()?;
    if let Some(why) = look.unreachable {
        return Err(Failure::usage("Scaleway cannot be asked about the nodes").because(why));
    }
    let before = look.clusters.status(name).await.map_err(|error| failure_of(&error))?;
    let after = look.clusters.refresh(name).await.map_err(|error| failure_of(&error))?;
    context.output.result(&after, || refreshed(&before, &after));
    Ok(())
}

/// What a look at Scaleway has changed, for people.
fn refreshed(before: &ClusterStatus, after: &ClusterStatus) -> String {
    let (name, nodes) = (&after.cluster.name, after.nodes.len());
    let mut lines = differences(after);
    let (was, is) = (before.cluster.state, after.cluster.state);
    if was != is {
        lines.push(format!("cluster {name} is {is}, and was {was}"));
    }
    if lines.is_empty() {
        return format!("cluster {name} is {is}; its {nodes} nodes are as they were known\n");
    }
    if after.nodes.iter().any(|node| node.state == NodeState::Left || node.not_ours) {
        lines.push(format!("to replace what is gone: windlass cluster scale {name} GROUP=COUNT"));
    }
    lines.join("\n") + "\n"
}

/// An operation that nobody works on, so that its end cannot be awaited.
fn dead(status: &ClusterStatus, operation: &ClusterOperation) -> Failure {
    let name = &status.cluster.name;
    let message = format!("the process that ran operation {} of cluster {name} has ended before it", operation.number);
    let mut failure = Failure::new(Exit::Left, message).remedy("windlass cluster resume");
    let zone = status.cluster.specification.zone.to_string();
    let exist = status.nodes.iter().filter(|node| node.exists());
    failure.left = exist.map(|node| left_open(node, &zone)).collect();
    failure.with_partial(json!(status))
}

/// Follows the operation under way until there is none, or nobody works on it. `None`: the cluster has gone with it.
async fn watch(
    context: &Context,
    clusters: &ClusterReader,
    name: &ClusterName,
    mut status: ClusterStatus,
) -> Result<Option<ClusterStatus>, Failure> {
    let mut view = live::View::new(true);
    let (mut seen, mut of_operation) = (0, 0);
    loop {
        let Some(operation) = &status.operation else { return Ok(Some(status)) };
        if !status.operation_lives {
            return Ok(Some(status));
        }
        if operation.number != of_operation {
            (of_operation, seen) = (operation.number, 0);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        let events = clusters.events(name, of_operation, seen).await.map_err(|error| failure_of(&error))?;
        for event in &events {
            seen = event.sequence;
            let lines = view.lines(event);
            if context.output.is_lines() {
                context.output.event("cluster event", event);
            } else {
                lines.iter().for_each(|line| context.output.say(line));
            }
        }
        status = match clusters.status(name).await {
            Ok(status) => status,
            Err(Error::Unknown { .. }) => return Ok(None),
            Err(error) => return Err(failure_of(&error)),
        };
    }
}

pub(crate) async fn list(context: &Context) -> Result<(), Failure> {
    let (clusters, _) = context.cluster_reader()?;
    let clusters = clusters.list().await.map_err(|error| failure_of(&error))?;
    let mut notes = Vec::new();
    if clusters.is_empty() {
        notes = context.other_owners(&context.state_directory()?, true).await;
    }
    let listing = Listing::new(&clusters, "no clusters", |status: &ClusterStatus| status.cluster.name.to_string())
        .notes(&notes)
        .column("cluster", |status| status.cluster.name.to_string())
        .column("state", |status| status.cluster.state.to_string())
        .column("zone", |status| status.cluster.specification.zone.to_string())
        .spare(2)
        .column("groups", |status| {
            let groups = status.cluster.specification.groups.iter();
            groups.map(|(name, group)| format!("{name}={}", group.count)).collect::<Vec<_>>().join(" ")
        })
        .list()
        .wide("created", |status| instant(status.cluster.created_at))
        .column("age", |status| age(status.cluster.created_at))
        .spare(1)
        .wide("changed", |status| format!("{} ago", age(status.cluster.updated_at)))
        .column("operation", |status| match &status.operation {
            Some(open) => {
                let ended = if status.operation_lives { "" } else { ", its process has ended" };
                let deletion = if status.deletion_requested { ", deletion requested" } else { "" };
                format!("{} at {}{ended}{deletion}", open.kind, open.stage)
            }
            None if status.deletion_requested => "deletion requested".to_owned(),
            None => String::new(),
        })
        .wide("number", |status| status.operation.as_ref().map(|open| open.number.to_string()).unwrap_or_default())
        .wide("why", |status| status.cluster.reasons.first().cloned().unwrap_or_default());
    context.output.listing(&noted(json!({ "clusters": clusters }), &notes), &listing);
    Ok(())
}

pub(crate) async fn history(context: &Context, arguments: &arguments::ClusterHistory) -> Result<(), Failure> {
    let (clusters, _) = context.cluster_reader()?;
    let name = &arguments.name;
    let mut history = clusters.history(name).await.map_err(|error| failure_of(&error))?;
    if let Some(number) = arguments.operation {
        history.retain(|one| one.operation.number == number);
        let Some(one) = history.first() else {
            return Err(Failure::unknown(format!("cluster {name} has no operation {number}"))
                .remedy(format!("windlass cluster history {name}")));
        };
        let text = rendered_operation(one);
        context.output.listing_in(&json!({ "history": history }), &operations(&history), |_| text);
        return Ok(());
    }
    context.output.listing(&json!({ "history": history }), &operations(&history));
    Ok(())
}

fn operations(history: &[ClusterHistory]) -> Listing<'_, ClusterHistory> {
    let took = |one: &ClusterHistory| {
        let end = one.operation.ended_at?;
        Some(human_duration(Duration::from_millis(end.saturating_sub(one.operation.began_at))))
    };
    Listing::new(history, "no operations", |one: &ClusterHistory| one.operation.number.to_string())
        .column("operation", |one| one.operation.number.to_string())
        .column("kind", |one| one.operation.kind.to_string())
        .column("state", |one| one.operation.state.to_string())
        .column("stage", |one| one.operation.stage.to_string())
        .spare(1)
        .column("began", |one| instant(one.operation.began_at))
        .spare(3)
        .wide("age", |one| age(one.operation.began_at))
        .column("took", move |one| took(one).unwrap_or_default())
        .spare(2)
        .wide("decided by", |one| {
            one.operation.recovery.as_ref().map(|recovery| recovery.decided_by.clone()).unwrap_or_default()
        })
        .wide("decision", |one| {
            one.operation.recovery.as_ref().map(|recovery| recovery.decision.clone()).unwrap_or_default()
        })
        .column("why", |one| one.operation.reasons.first().cloned().unwrap_or_default())
}

fn rendered_operation(history: &ClusterHistory) -> String {
    let operation = &history.operation;
    let mut lines = vec![
        ("operation", operation.number.to_string()),
        ("kind", operation.kind.to_string()),
        ("state", operation.state.to_string()),
        ("stage", operation.stage.to_string()),
        ("began", format!("{} ({})", instant(operation.began_at), ago(operation.began_at))),
    ];
    if let Some(recovery) = &operation.recovery {
        let reason = recovery.reason.as_ref().map(|reason| format!(" – {reason}")).unwrap_or_default();
        lines.push(("decided by", format!("{}{reason}", recovery.decided_by)));
        lines.push(("decision", recovery.decision.clone()));
    }
    for (position, reason) in operation.reasons.iter().enumerate() {
        lines.push((if position == 0 { "why" } else { "" }, reason.clone()));
    }
    let mut text = fields(&lines);
    text.push_str(&format!("\n{}\n", bold("steps")));
    for step in progress(&history.events) {
        let failed = if step.failed == 0 { String::new() } else { red(&format!(", {} failed", step.failed)) };
        text.push_str(&format!(
            "  {:<12} {} {}/{}{failed}\n",
            step.stage.to_string(),
            step.step,
            step.done,
            step.total
        ));
    }
    text.push_str(&format!("\n{}\n", bold("events")));
    for event in &history.events {
        let after = Duration::from_millis(event.at.saturating_sub(operation.began_at));
        for (position, line) in event_words(event).lines().enumerate() {
            let after = if position == 0 { human_duration(after) } else { String::new() };
            text.push_str(&format!("  {after:>9}  {}\n", printable(line)));
        }
    }
    text
}

fn event_words(event: &ClusterEvent) -> String {
    match &event.what {
        ClusterEventKind::Opened { kind, .. } => format!("{kind} begins"),
        ClusterEventKind::TakenOver { from } => format!("taken over from {from}"),
        ClusterEventKind::StepBegan { stage, step, total } => format!("{stage}: {step} begins, {total} nodes"),
        ClusterEventKind::NodeDone { step, node, .. } => format!("{node}: {step} done"),
        ClusterEventKind::NodeFailed { step, node, reason, .. } => format!("{node}: {step} failed: {reason}"),
        ClusterEventKind::HookOutput { output, .. } => format!("the hook said:\n{output}"),
        ClusterEventKind::Waiting { step, attempt, milliseconds, failure, .. } => {
            format!("{step} failed (attempt {attempt}): {failure}; again in {milliseconds} ms")
        }
        ClusterEventKind::Recovering(recovery) => format!(
            "failed at the stage {}; {} decided: {} and delete {}",
            recovery.stage,
            recovery.decided_by,
            recovery.state,
            if recovery.delete.is_empty() { "nothing".to_owned() } else { recovery.delete.join(", ") }
        ),
        ClusterEventKind::StoppingQuietly => "the cluster is being deleted: stopping quietly".to_owned(),
        ClusterEventKind::Closed { state, cluster, .. } => {
            format!("{state}; the cluster is {}", cluster.map_or("gone", Into::into))
        }
    }
}

pub(crate) async fn cancel(context: &Context, arguments: &NameCluster) -> Result<(), Failure> {
    let look = context.clusters_to_look_at()?;
    let name = &arguments.name;
    let called_off = look.clusters.cancel(name).await.map_err(|error| failure_of(&error))?;
    let mut what = "cancelled";
    if let CalledOff::Operation(number) = called_off {
        let status = look.clusters.status(name).await.map_err(|error| failure_of(&error))?;
        if status.operation.is_some() && !status.operation_lives {
            drop(look);
            context.output.say(&format!("the process of operation {number} has ended: undoing it"));
            work::undo(context, name).await?;
            what = "cancelled and undone";
        }
    }
    let requested = called_off != CalledOff::Nothing;
    context.output.result(&json!({ "cluster": name, "requested": requested, "called_off": called_off }), || {
        match called_off {
            CalledOff::Operation(number) => {
                format!("operation {number} of cluster {name} is {what}; windlass cluster status {name} --watch\n")
            }
            CalledOff::Deletion => format!("the requested deletion of cluster {name} is withdrawn\n"),
            CalledOff::Nothing => format!("no operation of cluster {name} is under way\n"),
        }
    });
    Ok(())
}
