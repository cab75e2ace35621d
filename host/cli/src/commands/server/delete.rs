//! `windlass server delete`. What is to be deleted is shown and confirmed first; a cluster's servers are left to the
//! cluster's own commands.

use futures::StreamExt;
use serde_json::json;
use windlass_cluster::{ClusterState, ClusterStore, LogClusterStore, Node, StoreError};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::listing::with_notes;
use windlass_inspect::output::Stream;
use windlass_inspect::words::counted;
use windlass_lifecycle::{
    Aftermath, Asking, Control, Error, LeftResource, ReleaseOutcome, Released, Removal, RequestedBy,
};
use windlass_policy::Mode;
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::Requested;

use super::find::{group_name, machines, other_group};
use super::subject::{Deletion, Subject, Subjects, named, of_group};
use crate::arguments::DeleteServers;
use crate::commands::lifecycle::{left_open_words, noted, take_up, undone_line, unverified};
use crate::confirmation::{Confirmation, DRY_RUN, Planned, rows};
use crate::context::{Context, Work};
use crate::interrupt;
use crate::progress::Progress;

/// Deletions at the same time where nothing else is said.
const PARALLEL_DELETIONS: usize = 16;

pub(super) async fn delete(context: &Context, arguments: &DeleteServers) -> Result<(), Failure> {
    let confirmation =
        (!arguments.dry_run).then(|| Confirmation::source(arguments.yes, "server delete", DRY_RUN)).transpose()?;
    let group = group_name(arguments.group.as_ref())?;
    let work = context.work(None, arguments.parallel)?;
    let machines = machines(work.lifecycle.machine_reader(), &work.zone, group.as_ref()).await;
    let Subjects { subjects, stays, unseen } = match &group {
        Some(group) => of_group(&work, machines, group).await?,
        None => Subjects { subjects: named(&work, &machines, &arguments.servers).await?, ..Subjects::default() },
    };
    let nodes = cluster_nodes(&LogClusterStore::of(work.lifecycle.journal())).await?;
    refuse_cluster_nodes(&subjects, &nodes)?;
    refuse_protected(&subjects)?;
    let planned: Vec<Planned> = subjects.iter().flat_map(|subject| subject.planned.iter().cloned()).collect();
    if let Some(first) = unseen.first().filter(|_| subjects.is_empty() || confirmation.is_none()) {
        return Err(first.clone().with_partial(json!({ "planned": planned })));
    }
    for list in &unseen {
        context.output.say(&format!("note: there may be more of the group: {}", list.message));
    }
    let mut notes = stays;
    let release = context.configuration.policies.chain(SlotName::Release);
    if !subjects.is_empty() && !arguments.force && release.iter().any(|link| link.mode == Mode::Decide) {
        notes.push("the release policy is asked about each server, and may keep it".to_owned());
    }
    if subjects.is_empty() {
        notes.extend(other_group(Some(work.lifecycle.journal()), group.as_ref()));
        notes.extend(context.other_owners(&work.state, true).await);
    } else {
        notes.iter().for_each(|note| context.output.say(&format!("note: {note}")));
    }
    let Some(confirmation) = confirmation else {
        context.output.result(&noted(json!({ "planned": planned }), &notes), || match planned.as_slice() {
            [] => with_notes("no servers to delete\n", &notes),
            planned => rows(planned, Stream::Stdout),
        });
        return Ok(());
    };
    let cleanups = subjects.iter().filter(|subject| matches!(subject.what, Deletion::Cleanup(_))).count();
    if cleanups > 0 {
        let open = left_open_words(&work)?;
        let question = format!(
            "{open}What was made with a server goes with it; what was attached later is detached and stays. Delete {}?",
            counted(cleanups, "server")
        );
        confirmation.ask(&planned, &question).await?;
    }
    let (control, events) = Control::with_events();
    let interrupted = interrupt::listen(&control, context.output, interrupt::REMOVING)?;
    let progress = Progress::follow(events, 0, context.output, context.verbose());
    // What is left of these very servers is removed with them: a second removal beside it would be refused.
    let interrupted_ones = take_up(context, &work, &control, false).await?;
    let parallel = context.parallel(arguments.parallel).unwrap_or(PARALLEL_DELETIONS);
    let results: Vec<(&Subject, Option<Result<Released, Error>>)> = futures::stream::iter(&subjects)
        .map(|subject| {
            let (lifecycle, control) = (&work.lifecycle, &control);
            async move {
                let called_off = control.cancelled().is_cancelled() || control.left().is_cancelled();
                match &subject.what {
                    Deletion::Cleanup(_) if called_off => (subject, Some(Err(Error::NotBegun))),
                    Deletion::Cleanup(target) => {
                        let asking = Asking { requested: Some(Requested::Terminate), ..Asking::default() };
                        let mut request = target.clone().released_by(RequestedBy::user("server delete"), asking);
                        if arguments.force {
                            request.removal = Removal::Force;
                        }
                        (subject, Some(lifecycle.release(request, control).await))
                    }
                    Deletion::Gone { .. } => (subject, None),
                }
            }
        })
        .buffer_unordered(parallel)
        .collect()
        .await;
    let left_beside = interrupted_ones.end().await;
    drop(control);
    work.end();
    let was_interrupted = interrupted.stop();
    progress.end().await;
    deleted(context, &work, &results, &unseen, &notes, was_interrupted)
        .map_err(|failure| failure.with_left_beside(left_beside))
}

/// A protected server is somebody's word that it is to stay.
fn refuse_protected(subjects: &[Subject]) -> Result<(), Failure> {
    let protected: Vec<&Subject> = subjects.iter().filter(|subject| subject.protected).collect();
    let Some(first) = protected.first() else { return Ok(()) };
    let mut failure = Failure::usage(format!(
        "{} of {} {} protected; nothing was touched",
        protected.len(),
        counted(subjects.len(), "server"),
        if protected.len() == 1 { "is" } else { "are" }
    ));
    failure.causes =
        protected.iter().map(|subject| format!("{} ({}) is protected", subject.id, subject.name)).collect();
    Err(failure.remedy(format!(
        "to delete it, remove the protection first: scw instance server update {} zone={} protected=false",
        first.id, first.zone
    )))
}

/// The nodes of all clusters of this state directory, each with its cluster's name.
pub(crate) async fn cluster_nodes(store: &impl ClusterStore) -> Result<Vec<(String, Node)>, Failure> {
    let unreadable = |error: StoreError| {
        Failure::usage("whether a server belongs to a cluster cannot be read; nothing was touched").caused_by(&error)
    };
    let mut nodes = Vec::new();
    for cluster in store.clusters().await.map_err(unreadable)? {
        // The nodes of an abandoned cluster may be deleted one by one.
        if cluster.cluster.state == ClusterState::Abandoned {
            continue;
        }
        let name = &cluster.cluster.name;
        // A cluster that has gone meanwhile has no nodes.
        let stored = store.cluster(name).await.map_err(unreadable)?;
        nodes.extend(stored.into_iter().flat_map(|stored| stored.nodes).map(|node| (name.to_string(), node)));
    }
    Ok(nodes)
}

/// A cluster's nodes leave it by the cluster's own commands: its hooks are run then, and it knows that they are gone.
fn refuse_cluster_nodes(targets: &[Subject], nodes: &[(String, Node)]) -> Result<(), Failure> {
    let is_node = |machine: &Subject, node: &Node| {
        node.exists()
            && (node.server.as_ref() == Some(&machine.id)
                || (node.creation.is_some() && node.creation == machine.operation))
    };
    let members: Vec<(&Subject, &str, &Node)> = targets
        .iter()
        .filter_map(|machine| {
            let (cluster, node) = nodes.iter().find(|(_, node)| is_node(machine, node))?;
            Some((machine, cluster.as_str(), node))
        })
        .collect();
    let Some((_, first, node)) = members.first() else { return Ok(()) };
    let whole = nodes.iter().filter(|(cluster, node)| cluster == first && node.exists()).count();
    let of_first = members.iter().filter(|(_, cluster, _)| cluster == first).count();
    let mut failure = Failure::usage(format!(
        "{} of {} {} to a cluster, whose hooks would not be run; nothing was touched",
        members.len(),
        counted(targets.len(), "server"),
        if members.len() == 1 { "belongs" } else { "belong" }
    ));
    failure.causes = members
        .iter()
        .map(|(machine, cluster, node)| format!("{} is {} of {cluster}", machine.id, node.name))
        .collect();
    Err(failure.remedy(if of_first == whole {
        format!("windlass cluster terminate {first}")
    } else {
        format!("windlass cluster scale {first} --remove {}, or windlass cluster terminate {first}", node.name)
    }))
}

fn deleted(
    context: &Context,
    work: &Work,
    results: &[(&Subject, Option<Result<Released, Error>>)],
    unseen: &[Failure],
    notes: &[String],
    was_interrupted: bool,
) -> Result<(), Failure> {
    let document = json!({ "servers": results.iter().map(|(subject, result)| match result {
        Some(Ok(released)) => json!({ "id": subject.id, "name": subject.name, "operation": released.operation,
            "report": released.report, "outcome": json!(released.outcome)["outcome"] }),
        Some(Err(error)) => json!({ "id": subject.id, "name": subject.name, "problem": error.to_string() }),
        None => json!({ "id": subject.id, "name": subject.name, "gone": gone_words(subject) }),
    }).collect::<Vec<_>>() });
    let mut failure = Failure::new(Exit::Left, String::new());
    let mut aftermaths = Vec::new();
    let (mut not_deleted, mut kept, mut not_begun) = (0, Vec::new(), Vec::new());
    let (mut not_ours, mut looked_again) = (0, 0);
    let mut waiting = Vec::new();
    for (subject, result) in results {
        let still_there = |reason: &str| {
            subject
                .planned
                .iter()
                .map(|one| Leftover {
                    kind: one.kind.clone(),
                    id: one.id.clone(),
                    zone: subject.zone.clone(),
                    reason: reason.to_owned(),
                })
                .collect::<Vec<_>>()
        };
        match result {
            None => {}
            Some(Ok(released)) if released.outcome == ReleaseOutcome::Kept => {
                not_deleted += 1;
                kept.push(subject.id.as_str());
                aftermaths.push(Aftermath::Left(Vec::new()));
                failure.left.push(Leftover {
                    kind: "server".to_owned(),
                    id: subject.id.clone(),
                    zone: subject.zone.clone(),
                    reason: released.words(),
                });
            }
            Some(Ok(released)) => {
                let report = released.report.clone().unwrap_or_default();
                let aftermath = report.aftermath();
                if aftermath != Aftermath::Clean {
                    not_deleted += 1;
                    let operation = released.operation.as_ref().map(ToString::to_string).unwrap_or_default();
                    failure.undone.extend(undone_line(&operation, &report));
                    aftermaths.push(aftermath);
                    if released.waits_for_policy() {
                        waiting.push(subject.id.as_str());
                    }
                    not_ours += usize::from(report.is_clean() && report.server_not_ours().is_some());
                    looked_again += usize::from(report.is_clean() && report.look_at.is_some());
                    let creation = subject.operation.as_ref().zip(report.look_at);
                    failure.left.extend(creation.map(|(id, at)| unverified(id, &subject.zone, at)));
                }
            }
            Some(Err(Error::NotBegun)) => {
                not_deleted += 1;
                not_begun.push(subject.id.as_str());
                aftermaths.push(Aftermath::Clean);
                failure.left.extend(still_there("its deletion was not begun"));
            }
            Some(Err(error)) => {
                not_deleted += 1;
                // It was to go and is there.
                aftermaths.push(match error.aftermath() {
                    Aftermath::Refused | Aftermath::Clean => Aftermath::Left(Vec::new()),
                    open_or_left => open_or_left,
                });
                failure.left.extend(match (still_to_go(work, error), error) {
                    (Some(left), _) => left,
                    // The aftermath names what is left.
                    (None, Error::Unrecorded { begun: true, left, .. }) if !left.is_empty() => Vec::new(),
                    (None, _) => still_there(&error.to_string()),
                });
            }
        }
    }
    for list in unseen {
        aftermaths.push(Aftermath::Left(Vec::new()));
        failure.causes.push(list.message.clone());
        failure.causes.extend(list.causes.iter().cloned());
    }
    if not_deleted > 0 || !unseen.is_empty() {
        let servers = counted(results.len(), "server");
        let are = if not_deleted - looked_again == 1 { "is" } else { "are" };
        failure.message = match (not_deleted, not_deleted - looked_again) {
            (0, _) => "what the journal names was deleted; cannot check whether the group has more servers".to_owned(),
            (_, 0) => format!(
                "nothing is left of {servers} for now; a lost call of {} may still take effect",
                counted(looked_again, "creation")
            ),
            (_, not_deleted) => format!("{not_deleted} of {servers} {are} not deleted completely"),
        };
        let running = results.iter().find_map(|(_, result)| match result {
            Some(Err(Error::OperationRunning { operation })) => {
                Some(format!("windlass operation cancel {operation}, then delete again"))
            }
            Some(Err(Error::CleanupUnderWay { operation })) => Some(format!("windlass operation watch {operation}")),
            _ => None,
        });
        failure.remedy = Some(match running {
            Some(remedy) => remedy,
            None if not_deleted == 0 => "remove the causes, then delete again".to_owned(),
            None => {
                let mut ways = Vec::new();
                if not_deleted > kept.len() + waiting.len() + not_begun.len() + not_ours + looked_again {
                    ways.push("remove the causes, then: windlass operation resume".to_owned());
                } else if looked_again > 0 {
                    ways.push("later, and again: windlass operation resume".to_owned());
                }
                if !waiting.is_empty() {
                    let waiting = waiting.join(" ");
                    ways.push(format!(
                        "when the release policy is to be asked again: windlass operation resume; to delete without it: \
                         windlass server delete --force {waiting}"
                    ));
                }
                if !not_begun.is_empty() {
                    ways.push(format!("to delete the rest: windlass server delete {}", not_begun.join(" ")));
                }
                if !kept.is_empty() {
                    let kept = kept.join(" ");
                    ways.push(format!("to delete what a policy keeps: windlass server delete --force {kept}"));
                }
                if not_ours > 0 {
                    ways.push(format!("to delete it, set its tag windlass-owner={} again", work.lifecycle.owner()));
                }
                ways.join("; ")
            }
        });
        return Err(failure.ended(aftermaths, Vec::new(), was_interrupted).with_partial(document));
    }
    context.output.result(&noted(document, notes), || {
        if results.is_empty() {
            return with_notes("no servers to delete\n", notes);
        }
        results
            .iter()
            .map(|(subject, result)| {
                let words = match result {
                    Some(Ok(released)) => released.words(),
                    _ => gone_words(subject),
                };
                format!("{}  {}: {words}\n", subject.id, subject.name)
            })
            .collect()
    });
    Ok(())
}

/// What an operation that has not ended has still to remove, or has made so far, as the journal says. `None` where the
/// error is about no such operation, or the journal names nothing.
fn still_to_go(work: &Work, error: &Error) -> Option<Vec<Leftover>> {
    let (Error::LeftOpen { operation } | Error::OperationRunning { operation } | Error::CleanupUnderWay { operation }) =
        error
    else {
        return None;
    };
    let names = work.lifecycle.may_exist(operation).ok().filter(|names| !names.is_empty())?;
    Some(names.into_iter().map(|resource| LeftResource { resource, why: error.to_string() }.into()).collect())
}

/// That something was gone before the command, and whose doing that is.
fn gone_words(subject: &Subject) -> String {
    match &subject.what {
        Deletion::Gone { removed_by: Some(operation) } => format!("is gone already: {operation} removed it"),
        _ => "is gone already".to_owned(),
    }
}
