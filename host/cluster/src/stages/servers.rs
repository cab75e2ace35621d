//! Servers: made and removed, many at a time, each an operation of the journal of its own.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use futures::stream;
use windlass_lifecycle::{
    Asking, Attempts, CloudInit, Control, Error as LifecycleError, OperationId, ReleaseOutcome, Report, ResourceKind,
    ResourceName, ResumedOperation, Target,
};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::Zone;

use crate::name::NodeGroupName;
use crate::record::{KeptNode, Node, NodeRole, NodeState, OperationKind, Stage};
use crate::run::{MAX_WAITS, Run, Stop};
use crate::specification::NodeGroup;
use crate::stages::see;
use crate::store::StoreError;
use crate::trace::Step;

pub(crate) type CloudInits = BTreeMap<NodeGroupName, CloudInit>;

/// Reads the cloud-init of these groups. Its content lives as long as the operation makes nodes, and is stored nowhere.
pub(crate) async fn cloud_inits(
    run: &Run,
    stage: Stage,
    growing: &BTreeSet<NodeGroupName>,
) -> Result<CloudInits, Stop> {
    let specification = run.book.lock().cluster.specification.clone();
    let mut contents = CloudInits::new();
    for name in growing {
        match run.shared.cloud_inits.read(&specification, name).await {
            Ok(Some(content)) => drop(contents.insert(name.clone(), CloudInit::new(content))),
            Ok(None) => {}
            Err(problem) => {
                let words = format!("groups.{name}.{problem}");
                return Err(Stop::failed(stage, Failure::of_class(FailureClass::InvalidArguments, words)));
            }
        }
    }
    Ok(contents)
}

/// Makes the servers of these nodes, under this control. After the first that fails no other begins, and those under
/// way are called off, which undoes them; so are all when the control is cancelled.
pub(crate) async fn make(
    run: &Run,
    stage: Stage,
    nodes: &[String],
    cloud_inits: &CloudInits,
    control: &Control,
) -> Result<(), Stop> {
    let step = run.begin_step(stage, "create servers", nodes.len()).await?;
    let types = &place(run, stage, nodes).await?;
    // Its own: a failure here is no call-off of what the caller does beside.
    let control = &control.child();
    let mut work = stream::iter(nodes.to_vec())
        .map(|node| async move {
            let types = types.get(&node).cloned().unwrap_or_default();
            make_one(run, step, &node, types, cloud_inits, control).await
        })
        .buffer_unordered(run.shared.limits.parallel_nodes.max(1));
    let mut worst: Option<Stop> = None;
    while let Some(ended) = work.next().await {
        let Err(stopped) = ended else { continue };
        match stopped {
            // A concurrent writer will see these entries.
            Stop::Overtaken => control.leave(),
            _ => control.cancel(),
        }
        worst = Some(match worst {
            None => stopped,
            Some(worst) => worst.or_graver(stopped),
        });
    }
    match worst {
        Some(stopped) => Err(stopped),
        None if control.left().is_cancelled() => Err(Stop::Left),
        None if control.cancelled().is_cancelled() => Err(Stop::called_off(stage)),
        None => Ok(()),
    }
}

/// The types that the server of each of these nodes tries, as the placement slot decides for each group. None is
/// created where one of them is not placed: a cluster has all of its nodes or fails.
async fn place(run: &Run, stage: Stage, nodes: &[String]) -> Result<BTreeMap<String, Vec<String>>, Stop> {
    let mut groups: BTreeMap<NodeGroupName, Vec<String>> = BTreeMap::new();
    for name in nodes {
        let node = run.node(name).into_iter();
        node.for_each(|node| groups.entry(node.group).or_default().push(name.clone()));
    }
    let mut types = BTreeMap::new();
    for (group, names) in groups {
        let Some(first) = names.first() else { continue };
        let mut specification = run.book.lock().cluster.specification.server(&group, first, None);
        specification.requested_by = run.requested_by("");
        let placement = run.shared.lifecycle.place(&specification, names.len()).await;
        if placement.types.len() < names.len() {
            let why = placement.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let words = format!(
                "the placement policy creates {} of {} servers of group {group}{why}",
                placement.types.len(),
                names.len()
            );
            return Err(Stop::failed(stage, Failure::of_class(FailureClass::Other, words)));
        }
        types.extend(names.into_iter().zip(placement.types));
    }
    Ok(types)
}

async fn make_one(
    run: &Run,
    step: Step,
    name: &str,
    types: Vec<String>,
    cloud_inits: &CloudInits,
    control: &Control,
) -> Result<(), Stop> {
    // Those that have not begun never begin: they are no failures, the one that halted them is.
    if control.cancelled().is_cancelled() || control.left().is_cancelled() {
        return Ok(());
    }
    let Some(node) = run.node(name) else { return Ok(()) };
    let (mut specification, template) = {
        let book = run.book.lock();
        let whole = &book.cluster.specification;
        let template = whole.groups.get(&node.group).map(NodeGroup::digest);
        (whole.server(&node.group, name, cloud_inits.get(&node.group).cloned()), template)
    };
    specification.types = types;
    specification.requested_by = run.requested_by("");
    let unstarted = |error: LifecycleError| {
        Stop::failed(step.stage, Failure::of_class(FailureClass::Other, format!("{name}: {error}")))
    };
    let pending = run.shared.lifecycle.begin_create(specification).await.map_err(unstarted)?;
    let creation = pending.id().clone();
    // Before the first call: after a crash the journal tells by this id what became of it.
    let stored = run
        .change_node(
            name,
            |node| {
                node.state = NodeState::Creating;
                node.creation = Some(creation);
                node.template = template;
            },
            None,
        )
        .await;
    if let Err(stopped) = stored {
        // It has not begun, and never will: closed here, it is nothing that a recovery would have to wait for.
        let called_off = Control::new();
        called_off.cancel();
        if !matches!(stopped, Stop::Overtaken) {
            let _ = pending.run(&called_off).await;
        }
        return Err(stopped);
    }
    match pending.run(control).await {
        Ok(created) => {
            let addresses = see::public_addresses(&created.server);
            run.change_node(
                name,
                |node| {
                    node.state = NodeState::Running;
                    node.server_type = Some(created.server.commercial_type.clone());
                    node.server = Some(created.server.id);
                    node.addresses = addresses;
                },
                Some(Run::done(step, name)),
            )
            .await
        }
        Err(LifecycleError::Failed(failed)) => {
            // It is stored with the next change of the operation.
            run.book.lock().operation.kept.extend(staying(name, None, &failed.report));
            let words = failed.to_string();
            let clean = failed.report.is_clean();
            run.change_node(
                name,
                |node| {
                    node.state = if clean { NodeState::Removed } else { NodeState::Left };
                    node.problem = Some(Failure::bounded(&words));
                },
                Some(Run::failed(step, name, &words)),
            )
            .await?;
            let mut cause = failed.cause;
            cause.message = Failure::bounded(&format!("{name}: {}", cause.words()));
            Err(Stop::failed(step.stage, cause))
        }
        Err(LifecycleError::LeftOpen { .. }) => Err(Stop::Left),
        Err(LifecycleError::Unrecorded { left, source, .. }) => Err(unrecorded(run, name, &left, &source)),
        Err(error) => Err(unstarted(error)),
    }
}

/// A server's operation that stopped because the journal failed is open, and so is the cluster's: the next start ends
/// both. Which server there is the error of the cluster's operation says.
fn unrecorded(run: &Run, node: &str, left: &[ResourceName], source: &LifecycleError) -> Stop {
    let server = left.iter().find(|name| name.kind == ResourceKind::Server);
    if let (Some(node), Some(server)) = (run.book.lock().nodes.get_mut(node), server) {
        node.server.get_or_insert_with(|| server.id.clone());
    }
    Stop::Store(StoreError::Failed { what: "an operation of one of its servers stopped", problem: source.to_string() })
}

/// What stays of a node that is gone: its server, because it is no longer ours, or what the rollback policy keeps.
fn staying(node: &str, known: Option<&String>, report: &Report) -> Option<KeptNode> {
    let server = report.server_not_ours();
    if server.is_none() && report.kept.is_empty() {
        return None;
    }
    Some(KeptNode {
        node: node.to_owned(),
        server: server.map(|server| &server.id).or(known).cloned().unwrap_or_default(),
        why: Failure::bounded(&report.words()),
        not_ours: if server.is_some() { report.not_ours.clone() } else { Vec::new() },
        parts: if server.is_none() { report.kept.clone() } else { Vec::new() },
    })
}

/// What a removal has left, in words.
fn remains(report: &Report) -> String {
    let left = report.left.iter().map(|left| format!("{} ({})", left.resource, left.why));
    let unseen = report.unverified.iter().map(|why| format!("cannot check whether anything is left: {why}"));
    left.chain(unseen).collect::<Vec<_>>().join("; ")
}

/// Removes these nodes with everything that belongs to them. Every one is tried, whatever becomes of the others; what
/// is gone counts as removed.
pub(crate) async fn remove(run: &Run, stage: Stage, nodes: &[String]) -> Result<(), Stop> {
    let step = run.begin_step(stage, "remove servers", nodes.len()).await?;
    let control = &run.control.child_for(None);
    let mut work = stream::iter(nodes.to_vec())
        .map(|node| async move { remove_one(run, step, &node, control).await })
        .buffer_unordered(run.shared.limits.parallel_nodes.max(1));
    let mut worst: Option<Stop> = None;
    while let Some(ended) = work.next().await {
        if let Err(stopped) = ended {
            worst = Some(match worst {
                None => stopped,
                Some(worst) => worst.or_graver(stopped),
            });
        }
    }
    worst.map_or(Ok(()), Err)
}

async fn remove_one(run: &Run, step: Step, name: &str, control: &Control) -> Result<(), Stop> {
    if run.control.left().is_cancelled() {
        return Err(Stop::Left);
    }
    let Some(node) = run.node(name) else { return Ok(()) };
    if !node.exists() {
        return run.change_node(name, gone, Some(Run::done(step, name))).await;
    }
    run.change_node(name, |node| node.state = NodeState::Removing, None).await?;
    match clean_up(run, &node, Some(step), control).await? {
        Removed::Gone => run.change_node(name, gone, Some(Run::done(step, name))).await,
        Removed::Kept(kept) => {
            let (at, words) = (run.now(), kept.to_string());
            run.change(|book, change| {
                if let Some(node) = book.nodes.get_mut(name) {
                    gone(node);
                    change.nodes.push(node.clone());
                }
                book.operation.reasons.push(words.clone());
                book.operation.kept.push(kept);
                change.operation = Some(book.operation.clone());
                change.events.push((at, Run::failed(step, name, &words)));
            })
            .await
        }
        Removed::Left(why) => {
            run.change_node(
                name,
                |node| {
                    node.state = NodeState::Left;
                    node.problem = Some(Failure::bounded(&why));
                },
                Some(Run::failed(step, name, &why)),
            )
            .await?;
            let words = format!("{name} could not be removed completely: {why}");
            Err(Stop::failed(step.stage, Failure::of_class(FailureClass::Other, words)))
        }
    }
}

/// What became of a node that was to go.
enum Removed {
    /// Nothing of it is left.
    Gone,
    /// The release policy keeps its server, or it is no longer ours.
    Kept(KeptNode),
    /// Something is left, and why.
    Left(String),
}

/// Removes what the journal knows of a node, as far as the release policy lets it go. The nodes that this operation
/// has made are not asked about: they never served. What another operation is removing is waited for within `step`, as
/// long as the retry slot says; one that nobody works on any more is ended here.
async fn clean_up(run: &Run, node: &Node, step: Option<Step>, control: &Control) -> Result<Removed, Stop> {
    let Some(creation) = &node.creation else { return Ok(Removed::Gone) };
    let target = match run.shared.lifecycle.journal().operation(creation) {
        // The journal is lost, or another's: what carries the creation's tag is the node's.
        Err(LifecycleError::OperationUnknown { .. }) => {
            let zone = run.book.lock().cluster.specification.zone.clone();
            match unknown_volumes(run, &zone, creation).await {
                Ok(()) => Target::Tagged { zone, operation: creation.clone() },
                Err(error) => return Ok(Removed::Left(error.to_string())),
            }
        }
        _ => Target::Operation(creation.clone()),
    };
    let (why, kind) = {
        let operation = &run.book.lock().operation;
        let reason = operation.reasons.first().map(|reason| format!(": {reason}")).unwrap_or_default();
        (format!("the {} of the cluster removes {}{reason}", operation.kind, node.name), operation.kind)
    };
    let requested_by = run.requested_by(why);
    let request = match node.role == NodeRole::Made && kind != OperationKind::Terminate {
        true => target.requested_by(requested_by),
        false => target.released_by(requested_by, Asking::default()),
    };
    let mut attempts = Attempts::within(MAX_WAITS);
    let released = loop {
        let error = match run.shared.lifecycle.release(request.clone(), control).await {
            Ok(released) => break released,
            Err(LifecycleError::LeftOpen { .. }) => return Err(Stop::Left),
            Err(LifecycleError::Unrecorded { left, source, .. }) => {
                return Err(unrecorded(run, &node.name, &left, &source));
            }
            Err(error) => error,
        };
        let (LifecycleError::CleanupUnderWay { .. }, Some(step)) = (&error, step) else {
            return Ok(Removed::Left(error.to_string()));
        };
        let of_node = BTreeSet::from([creation.clone()]);
        match run.shared.lifecycle.resume_creations(&of_node, control).await {
            Ok(resumed) if !resumed.operations.is_empty() => match resumed.operations.iter().find_map(unended) {
                Some(why) => return Ok(Removed::Left(why)),
                None => continue,
            },
            Ok(_) => {}
            Err(error) => tracing::debug!(node = %node.name, %error, "cannot take over what removes the server"),
        }
        let failed = Failure::of_class(FailureClass::TransientState, error.to_string());
        match run.after_failure(step, &mut attempts, failed).await {
            Err(Stop::Failed(_)) => return Ok(Removed::Left(error.to_string())),
            waited => waited?,
        }
    };
    Ok(match (&released.outcome, &released.report) {
        (ReleaseOutcome::Kept, Some(report)) if report.is_clean() => Removed::Kept(KeptNode {
            node: node.name.clone(),
            server: node.server.clone().unwrap_or_default(),
            why: Failure::bounded(&released.words()),
            not_ours: Vec::new(),
            parts: Vec::new(),
        }),
        (_, Some(report)) if report.is_clean() => {
            staying(&node.name, node.server.as_ref(), report).map_or(Removed::Gone, Removed::Kept)
        }
        (_, Some(report)) => Removed::Left(remains(report)),
        (_, None) => Removed::Left(released.words()),
    })
}

/// Why an operation that was taken over has not ended.
fn unended(resumed: &ResumedOperation) -> Option<String> {
    let report = || resumed.report.as_ref().map(remains).filter(|words| !words.is_empty());
    let unknown = || format!("operation {} has not ended", resumed.operation);
    resumed.state.has_work_left().then(|| resumed.problem.clone().or_else(report).unwrap_or_else(unknown))
}

/// Marks the volumes that Scaleway made with a server of which the journal knows nothing, so that they go with it.
async fn unknown_volumes(run: &Run, zone: &Zone, creation: &OperationId) -> Result<(), LifecycleError> {
    match run.shared.lifecycle.find_created(zone, creation).await? {
        Some(server) => run.shared.lifecycle.mark_volumes(zone, &server).await,
        None => Ok(()),
    }
}

fn gone(node: &mut Node) {
    node.state = NodeState::Removed;
    node.problem = None;
}

/// Removes the nodes of a cluster whose record is gone, so that nothing can be stored about it: the journal knows each.
/// Gives what is left.
pub(crate) async fn remove_unrecorded(run: &Run) -> Vec<String> {
    let control = Control::new();
    let nodes: Vec<Node> = run.book.lock().nodes.values().filter(|node| node.exists()).cloned().collect();
    let control = &control;
    stream::iter(nodes)
        .map(|node| async move {
            match clean_up(run, &node, None, control).await {
                Ok(Removed::Gone) => None,
                Ok(Removed::Kept(kept)) => Some(format!("{}: {kept}", node.name)),
                Ok(Removed::Left(why)) => Some(format!("{}: {why}", node.name)),
                Err(_) => Some(format!("{}: its removal was left to the next start", node.name)),
            }
        })
        .buffer_unordered(run.shared.limits.parallel_nodes.max(1))
        .filter_map(|left| async move { left })
        .collect()
        .await
}
