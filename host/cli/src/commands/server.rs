//! `windlass server`: servers created, listed, shown and deleted, each as an operation that is whole or undone.

mod create;
mod delete;
mod find;
mod show;
mod subject;

pub(crate) use delete::cluster_nodes;
use windlass_inspect::failure::Failure;

use crate::arguments::ServerCommand;
use crate::context::Context;

pub(crate) async fn run(context: &Context, command: ServerCommand) -> Result<(), Failure> {
    match command {
        ServerCommand::Create(arguments) => create::create(context, *arguments).await,
        ServerCommand::List(arguments) => show::list(context, &arguments).await,
        ServerCommand::Show(arguments) => show::show(context, &arguments).await,
        ServerCommand::Delete(arguments) => delete::delete(context, &arguments).await,
    }
}
