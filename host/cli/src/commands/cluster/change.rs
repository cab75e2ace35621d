//! From one specification to another: apply, diff, export; and the replacement of nodes.

use std::collections::BTreeSet;

use serde_json::json;
use windlass_cluster::{ClusterControl, ClusterDifference, ClusterName, Clusters, Error, ScaleRequest, Takes};
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::output::{Stream, table_on};
use windlass_inspect::text::{green, red, yellow};

use super::failure::failure_of;
use super::{plan, specification, work};
use crate::arguments::{ApplyCluster, DiffCluster, ExportCluster, ReplaceCluster};
use crate::confirmation::{Confirmation, DRY_RUN};
use crate::context::{ClusterWork, Context};
use crate::interrupt::CREATING;

pub(crate) async fn apply(context: &Context, arguments: &ApplyCluster) -> Result<(), Failure> {
    let specification = specification::read(&arguments.file)?;
    let wrong = |error| specification::failure_in(&arguments.file, &error);
    let name = specification.name.clone();
    if arguments.removal.run.dry_run {
        let look = context.clusters_to_look_at()?;
        let difference = look.clusters.difference(&specification).await.map_err(wrong)?;
        context.output.result(&json!({ "difference": difference }), || {
            format!("{}\n{}", rendered(&difference, Stream::Stdout), plan::rendered(&difference.plan))
        });
        return Ok(());
    }
    let work = context.clusters(arguments.removal.run.parallel)?;
    let clusters = &work.clusters;
    let difference = clusters.difference(&specification).await.map_err(wrong)?;
    if difference.creates || !difference.plan.make.is_empty() {
        specification::refuse_unknown(clusters, &specification, &arguments.file).await?;
    }
    let replaced = if arguments.replace { difference.outdated.clone() } else { Vec::new() };
    let leaves = !difference.plan.remove.is_empty() || !replaced.is_empty();
    let confirmation = match leaves {
        true => Confirmation::source(arguments.removal.yes, "cluster apply", DRY_RUN)?,
        false => Confirmation::Given,
    };
    context.output.say(rendered(&difference, Stream::Stderr).trim_end());
    if !difference.creates {
        let mut all = difference.plan.clone();
        all.remove.extend(replaced.iter().cloned());
        work::confirm_leaving(confirmation, clusters, &all).await?;
        work::withdraw_deletion(context, clusters, &name).await?;
    }
    let nothing_more = async || Ok(());
    let applied = async |control: &ClusterControl| clusters.apply(&specification, control).await;
    let applied = work::perform(context, &work, &name, CREATING, nothing_more, applied).await?;
    if replaced.is_empty() || applied.failure(&name).is_some() {
        return applied.tell(context, &name);
    }
    let replaced = replace_all(context, &work, &name, &replaced, arguments.at_a_time).await;
    replaced.map_err(|failure| if difference.is_empty() { failure } else { failure.after_changes() })
}

pub(crate) async fn diff(context: &Context, arguments: &DiffCluster) -> Result<(), Failure> {
    let specification = specification::read(&arguments.file)?;
    let wrong = |error| specification::failure_in(&arguments.file, &error);
    let look = context.clusters_to_look_at()?;
    let difference = look.clusters.difference(&specification).await.map_err(wrong)?;
    context.output.result(&json!({ "difference": difference }), || rendered(&difference, Stream::Stdout));
    Ok(())
}

/// What would change, for people.
fn rendered(difference: &ClusterDifference, stream: Stream) -> String {
    let name = &difference.cluster;
    if difference.creates {
        return format!("cluster {name} does not exist: it is created\n");
    }
    if difference.is_empty() && difference.outdated.is_empty() {
        return format!("cluster {name} is as the specification says\n");
    }
    let mut text = String::new();
    if !difference.changes.is_empty() {
        text = table_on(
            stream,
            &["key", "is", "becomes", "for"],
            difference.changes.iter().map(|change| {
                let words = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".to_owned());
                let about = match change.takes {
                    Takes::InPlace => "the cluster",
                    Takes::NewNodes => "new nodes only",
                };
                vec![change.place.clone(), words(&change.from), words(&change.to), about.to_owned()]
            }),
        );
    }
    text.extend(difference.plan.make.iter().map(|node| format!("{}\n", green(&format!("+ {node}")))));
    text.extend(difference.plan.remove.iter().map(|node| format!("{}\n", red(&format!("- {node}")))));
    let outdated = difference.outdated.iter();
    text.extend(
        outdated.map(|node| format!("{}\n", yellow(&format!("~ {node} stays as it was made; --replace replaces it")))),
    );
    text
}

pub(crate) async fn export(context: &Context, arguments: &ExportCluster) -> Result<(), Failure> {
    let look = context.clusters_to_look_at()?;
    let failed = |error| failure_of(&error);
    let specification = if arguments.with_secrets {
        look.clusters.export(&arguments.name).await.map_err(failed)?
    } else {
        let status = look.clusters.status(&arguments.name).await.map_err(failed)?;
        serde_json::to_value(&status.cluster.specification).unwrap_or_default()
    };
    let text = toml::to_string(&specification)
        .map_err(|error| Failure::undone("the specification cannot be written as TOML").because(error.to_string()))?;
    context.output.file(&specification, || text);
    Ok(())
}

pub(crate) async fn replace(context: &Context, arguments: &ReplaceCluster) -> Result<(), Failure> {
    let confirmation = (!arguments.removal.run.dry_run)
        .then(|| Confirmation::source(arguments.removal.yes, "cluster replace", DRY_RUN))
        .transpose()?;
    let work = context.clusters(arguments.removal.run.parallel)?;
    let name = &arguments.name;
    let status = work.clusters.status(name).await.map_err(|error| failure_of(&error))?;
    let groups = &status.cluster.specification.groups;
    let unknown: Vec<String> =
        arguments.groups.iter().filter(|group| !groups.contains_key(*group)).map(ToString::to_string).collect();
    if !unknown.is_empty() {
        return Err(failure_of(&Error::UnknownGroup {
            cluster: name.to_string(),
            group: unknown.join(", "),
            groups: groups.keys().map(ToString::to_string).collect(),
        }));
    }
    let wanted = |node: &&windlass_cluster::Node| {
        arguments.nodes.contains(&node.name) || arguments.groups.contains(&node.group) && !node.is_spent()
    };
    let mut nodes: Vec<String> = status.nodes.iter().filter(wanted).map(|node| node.name.clone()).collect();
    // What is not there is refused by the library, with its words.
    nodes.extend(arguments.nodes.iter().filter(|node| !nodes.contains(node)).cloned().collect::<Vec<_>>());
    let request = ScaleRequest { replace: nodes.iter().cloned().collect(), ..ScaleRequest::default() };
    let all = work.clusters.plan_scale(name, &request).await.map_err(|error| failure_of(&error))?;
    let Some(confirmation) = confirmation else { return plan::show(context, &all) };
    work::confirm_leaving(confirmation, &work.clusters, &all).await?;
    work::withdraw_deletion(context, &work.clusters, name).await?;
    replace_all(context, &work, name, &nodes, arguments.at_a_time).await
}

/// Replaces nodes, some at a time. The first failure ends it: what is not replaced by then serves on.
async fn replace_all(
    context: &Context,
    work: &ClusterWork,
    name: &ClusterName,
    nodes: &[String],
    at_a_time: u32,
) -> Result<(), Failure> {
    let clusters: &Clusters = &work.clusters;
    let batches: Vec<&[String]> = nodes.chunks(at_a_time.max(1) as usize).collect();
    for (number, batch) in batches.iter().enumerate() {
        if batches.len() > 1 {
            context.output.say(&format!("{} of {}: {}", number + 1, batches.len(), batch.join(", ")));
        }
        let replace: BTreeSet<String> = batch.iter().cloned().collect();
        let request = ScaleRequest { replace, ..ScaleRequest::default() };
        let nothing_more = async || Ok(());
        let scaled = async |control: &ClusterControl| clusters.scale(name, &request, control).await;
        let done = match work::perform(context, work, name, CREATING, nothing_more, scaled).await {
            // One document on stdout: that of the last.
            Ok(performed) if number + 1 == batches.len() || performed.failure(name).is_some() => {
                performed.tell(context, name)
            }
            performed => performed.map(drop),
        };
        if let Err(mut failure) = done {
            let was_refused = failure.exit == Exit::Usage;
            if was_refused && number == 0 {
                return Err(failure);
            }
            let rest = if was_refused { &batches[number..] } else { &batches[number + 1..] };
            let rest: Vec<&String> = rest.iter().flat_map(|batch| batch.iter()).collect();
            failure = failure.after_changes();
            if !rest.is_empty() {
                let rest = rest.into_iter().cloned().collect::<Vec<_>>().join(", ");
                failure.undone.push(format!("not replaced, and serving as before: {rest}"));
            }
            return Err(failure);
        }
    }
    Ok(())
}
