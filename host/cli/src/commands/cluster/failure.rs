//! Failures of clusters, in the words of the command line.

use windlass_cluster::{
    ClusterFailure, ClusterState, ClusterStatus, Clusters, Error, KeptNode, Node, OperationKind, Stage,
};
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_lifecycle::{Aftermath, LeftResource, Report, ResourceKind, ResourceName};

/// An error in words, with the exit code that follows from what is left.
pub(super) fn failure_of(error: &Error) -> Failure {
    let failure = words_of(error);
    match error {
        // The cluster's record says what is left.
        Error::Failed(_) => failure,
        error => failure.ended([error.aftermath()], Vec::new(), false),
    }
}

fn words_of(error: &Error) -> Failure {
    match error {
        Error::Unknown { .. } => Failure::unknown(error.to_string()).remedy("windlass cluster list"),
        Error::Exists { name, .. } => {
            Failure::usage(error.to_string()).remedy(format!("windlass cluster status {name}"))
        }
        Error::UnknownGroup { cluster, .. } | Error::UnknownNode { cluster, .. } => {
            Failure::unknown(error.to_string()).remedy(format!("windlass cluster status {cluster}"))
        }
        Error::Name { .. } | Error::Node { .. } => Failure::usage(error.to_string()),
        Error::Specification(wrong) => {
            let first = Failure::usage("the specification is wrong; nothing was touched")
                .at(wrong.place.clone())
                .because(wrong.problem.clone());
            wrong.also.iter().fold(first, |failure, other| failure.because(other.to_string()))
        }
        Error::SpecificationFile { path, problem } => {
            Failure::usage("the specification cannot be read").at(path.display().to_string()).because(problem.clone())
        }
        Error::Busy { cluster, .. } => {
            Failure::usage(error.to_string()).remedy(format!("windlass cluster status {cluster} --watch"))
        }
        Error::Abandoned { cluster } => {
            Failure::usage(error.to_string()).remedy(format!("windlass cluster terminate {cluster}"))
        }
        Error::NotCancellable { cluster, .. } => {
            Failure::usage(error.to_string()).remedy(format!("windlass cluster watch {cluster}"))
        }
        Error::Interrupted { .. } => Failure::usage(error.to_string()).remedy("windlass cluster resume"),
        Error::LeftOpen { .. } | Error::TakenOver { .. } => {
            Failure::new(Exit::Left, error.to_string()).remedy("windlass cluster resume")
        }
        Error::Failed(failed) => operation_failure(failed, None),
        Error::Unrecorded { nodes, source, cluster, .. } => {
            let mut failure = Failure::new(Exit::Left, error.to_string()).because(source.to_string());
            failure.message = failure.message.replace(&format!(": {source}"), "");
            failure.left = nodes.iter().map(|node| left_open(node, "")).collect();
            failure.remedy(format!(
                "free space or repair the state directory, then: windlass cluster resume, and windlass cluster \
                 status {cluster}"
            ))
        }
        Error::Store(_) => Failure::usage("the clusters' store cannot be used; nothing was touched").caused_by(error),
        other => Failure::new(Exit::Left, "the clusters cannot be worked on").caused_by(other),
    }
}

/// A node of an operation on which nobody works any more.
pub(super) fn left_open(node: &Node, zone: &str) -> Leftover {
    Leftover {
        kind: "node".to_owned(),
        id: format!("{} ({})", node.name, node.server.as_deref().unwrap_or("no id known")),
        zone: zone.to_owned(),
        reason: format!("it was {} when its operation stopped", node.state),
    }
}

/// An operation that failed. What is left is what it changed and did not bring to its end: nodes that should be gone,
/// and nodes that exist and do not serve.
pub(super) fn operation_failure(failed: &ClusterFailure, now: Option<(&Clusters, &ClusterStatus)>) -> Failure {
    let name = &failed.cluster;
    let mut failure =
        Failure::undone(format!("{} of cluster {name} failed at the stage {}", failed.kind, failed.stage));
    failure.causes.push(failed.cause.words());
    // The first reason repeats the cause at its end, and what does not serve is listed as left.
    let is_of_node = |reason: &&String| {
        let mut nodes = now.iter().flat_map(|(_, status)| &status.nodes);
        nodes.any(|node| reason.strip_prefix(&node.name).is_some_and(|rest| rest.starts_with(": ")))
    };
    failure.causes.extend(failed.reasons.iter().skip(1).filter(|reason| !is_of_node(reason)).cloned());
    failure.causes.push(match failed.state {
        Some(state) => format!("the cluster is now {state}"),
        None => "the cluster is gone".to_owned(),
    });
    match now {
        Some((clusters, status)) => failure.left.extend(remaining(clusters, status, failed.kind)),
        None => failure.left.extend(failed.left.iter().map(|words| Leftover {
            kind: "node".to_owned(),
            id: words.split(':').next().unwrap_or_default().to_owned(),
            zone: String::new(),
            reason: words.split_once(": ").map_or(words.as_str(), |(_, why)| why).to_owned(),
        })),
    }
    failure.left.extend(failed.kept.iter().flat_map(kept_leftovers));
    let aftermath = if failure.left.is_empty() { Aftermath::Clean } else { Aftermath::Left(Vec::new()) };
    failure = failure.ended([aftermath], Vec::new(), false);
    failure.remedy = match failed.state {
        Some(ClusterState::Active) | None => Some(format!("windlass cluster history {name}")),
        Some(_)
            if failed.kind == OperationKind::Create
                && now.is_some_and(|(_, status)| !status.nodes.iter().any(Node::exists)) =>
        {
            Some("remove the cause, then run windlass cluster create again: nothing of it is left".to_owned())
        }
        Some(_) => Some(format!("remove the cause, then: {}", repair(failed))),
    };
    failure
}

/// What repairs a cluster after a failed stage. Its nodes may hold data, so it is never to be created again.
fn repair(failed: &ClusterFailure) -> String {
    let name = &failed.cluster;
    match (failed.kind, failed.stage) {
        (OperationKind::Terminate, Stage::Decommission) => {
            format!("windlass cluster terminate {name}; with --force it runs no decommission hook")
        }
        (OperationKind::Terminate, _) => format!("windlass cluster terminate {name}"),
        (_, Stage::Decommission) => format!(
            "windlass cluster scale {name} GROUP=COUNT ..., which runs the decommission hook for each node that leaves"
        ),
        (_, stage @ (Stage::Configure | Stage::Start)) => {
            format!("windlass cluster scale {name} GROUP=COUNT ..., which runs the {stage} hook again")
        }
        (_, Stage::Validate | Stage::Servers | Stage::Wait | Stage::Prepare | Stage::Resize) => {
            format!("windlass cluster scale {name} GROUP=COUNT ...")
        }
    }
}

/// What an operation of this kind has not brought to its end: the nodes that exist and do not serve; of a termination,
/// all that exist.
pub(super) fn remaining(clusters: &Clusters, status: &ClusterStatus, kind: OperationKind) -> Vec<Leftover> {
    let zone = status.cluster.specification.zone.as_str();
    let terminated = (kind == OperationKind::Terminate).then(|| "the termination did not get to it".to_owned());
    let exist = status.nodes.iter().filter(|node| node.exists());
    exist
        .filter_map(|node| Some((node, node.problem_in_serving().or_else(|| terminated.clone())?)))
        .flat_map(|(node, why)| leftovers(clusters, zone, node, &why))
        .collect()
}

/// What stays of a node that has left its cluster.
pub(super) fn kept_leftovers(kept: &KeptNode) -> Vec<Leftover> {
    let one = |kind: String, id: &str, zone: &str, reason: &str| Leftover {
        kind,
        id: format!("{} ({id})", kept.node),
        zone: zone.to_owned(),
        reason: reason.to_owned(),
    };
    if !kept.parts.is_empty() {
        let part =
            |name: &ResourceName| one(name.kind.to_string(), &name.id, &name.zone, "the rollback policy keeps it");
        return kept.parts.iter().map(part).collect();
    }
    if kept.not_ours.is_empty() {
        return vec![one(ResourceKind::Server.to_string(), &kept.server, "", &kept.why)];
    }
    let not_ours = Report { not_ours: kept.not_ours.clone(), ..Report::default() };
    let Aftermath::Left(left) = not_ours.aftermath() else { return Vec::new() };
    let resource =
        |left: LeftResource| one(left.resource.kind.to_string(), &left.resource.id, &left.resource.zone, &left.why);
    left.into_iter().map(resource).collect()
}

/// What there is of a node: its server, or, where none is known, what its creation has made.
fn leftovers(clusters: &Clusters, zone: &str, node: &Node, why: &str) -> Vec<Leftover> {
    let one = |kind: String, id: &str| Leftover {
        kind,
        id: format!("{} ({id})", node.name),
        zone: zone.to_owned(),
        reason: why.to_owned(),
    };
    let left = clusters.left_of(node);
    if !left.is_empty() {
        let of_node = |left: LeftResource| Leftover {
            reason: left.why,
            ..one(left.resource.kind.to_string(), &left.resource.id)
        };
        return left.into_iter().map(of_node).collect();
    }
    match &node.server {
        Some(server) => vec![one("server".to_owned(), server)],
        None => match clusters.made_by(node).as_slice() {
            [] => vec![one("node".to_owned(), "no id known")],
            made => made.iter().map(|resource| one(resource.kind.to_string(), &resource.id)).collect(),
        },
    }
}
