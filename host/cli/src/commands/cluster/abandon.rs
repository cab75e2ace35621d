//! `windlass cluster abandon`: the record of the cluster stays, and its nodes are left alone.

use serde_json::json;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::{Stream, table};
use windlass_inspect::words::counted;
use windlass_lifecycle::{Abandonment, Error as LifecycleError};

use super::failure::failure_of;
use crate::arguments::AbandonCluster;
use crate::commands::lifecycle::user;
use crate::commands::operation::abandon::left_alone;
use crate::confirmation::{Confirmation, DRY_RUN, Planned, rows};
use crate::context::Context;

pub(super) async fn abandon(context: &Context, arguments: AbandonCluster) -> Result<(), Failure> {
    let AbandonCluster { name, options } = arguments;
    let confirmation =
        (!options.dry_run).then(|| Confirmation::source(options.yes, "cluster abandon", DRY_RUN)).transpose()?;
    let work = context.clusters(None)?;
    let status = work.clusters.status(&name).await.map_err(|error| failure_of(&error))?;
    let there = status.nodes.iter().filter(|node| node.exists());
    let planned: Vec<Planned> = there
        .map(|node| Planned {
            kind: "server".to_owned(),
            id: node.server.clone().unwrap_or_default(),
            name: node.name.clone(),
            state: node.state.to_string(),
            why: format!("of cluster {name}"),
        })
        .collect();
    let Some(confirmation) = confirmation else {
        context.output.result(&json!({ "planned": planned }), || match planned.as_slice() {
            [] => "the cluster has no node that would be left alone\n".to_owned(),
            planned => rows(planned, Stream::Stdout),
        });
        return Ok(());
    };
    let question = format!(
        "Abandon cluster {name}? Nothing is deleted. Windlass leaves {} alone, and they go on costing money.",
        counted(planned.len(), "server")
    );
    confirmation.ask(&planned, &question).await?;
    let abandonment = Abandonment { by: user(), reason: options.reason };
    let abandoned = work.clusters.abandon(&name, &abandonment).await;
    work.end();
    let abandoned = abandoned.map_err(|error| match &error {
        windlass_cluster::Error::Lifecycle(
            LifecycleError::OperationRunning { .. } | LifecycleError::CleanupUnderWay { .. },
        ) => Failure::usage(format!("an operation on a node of cluster {name} is in progress")).caused_by(&error),
        other => failure_of(other),
    })?;
    context.output.result(&abandoned, || {
        let operations = abandoned
            .operations
            .iter()
            .map(|operation| vec![operation.id.to_string(), operation.kind.to_string(), left_alone(operation)]);
        let reported = match abandoned.operations.len() {
            0 => String::new(),
            _ => table(&["operation", "kind", "left alone"], operations),
        };
        format!("{reported}cluster {name} is abandoned; `windlass cluster terminate {name}` removes its nodes\n")
    });
    Ok(())
}
