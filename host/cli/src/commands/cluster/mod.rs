//! `windlass cluster`: groups of servers that belong together, created, scaled and terminated as one thing.

mod abandon;
mod change;
mod failure;
mod live;
mod look;
mod plan;
pub(super) mod specification;
mod status;
mod work;

use windlass_inspect::failure::Failure;

use crate::arguments::ClusterCommand;
use crate::context::Context;

pub(crate) async fn run(context: &Context, command: ClusterCommand) -> Result<(), Failure> {
    match command {
        ClusterCommand::Create(arguments) => work::create(context, &arguments).await,
        ClusterCommand::Apply(arguments) => change::apply(context, &arguments).await,
        ClusterCommand::Diff(arguments) => change::diff(context, &arguments).await,
        ClusterCommand::Export(arguments) => change::export(context, &arguments).await,
        ClusterCommand::Replace(arguments) => change::replace(context, &arguments).await,
        ClusterCommand::Scale(arguments) => work::scale(context, &arguments).await,
        ClusterCommand::Terminate(arguments) => work::terminate(context, &arguments).await,
        ClusterCommand::Resume => work::resume(context).await,
        ClusterCommand::Cancel(arguments) => look::cancel(context, &arguments).await,
        ClusterCommand::Abandon(arguments) => abandon::abandon(context, arguments).await,
        ClusterCommand::Status(arguments) => look::status(context, &arguments).await,
        ClusterCommand::Watch(arguments) => look::watch_one(context, &arguments.name).await,
        ClusterCommand::Attach(arguments) => look::attach(context, &arguments.name).await,
        ClusterCommand::Refresh(arguments) => look::refresh(context, &arguments.name).await,
        ClusterCommand::List => look::list(context).await,
        ClusterCommand::History(arguments) => look::history(context, &arguments).await,
        ClusterCommand::Validate(arguments) => specification::validate(context, &arguments).await,
    }
}
