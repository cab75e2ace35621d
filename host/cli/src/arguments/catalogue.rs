//! What `windlass type`, `image` and `zone` take.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum TypeCommand {
    /// List the server types of a zone with price and stock
    #[command(visible_alias = "ls")]
    List(ListTypes),
}

#[derive(Debug, Args)]
pub(crate) struct ListTypes {
    /// Only types of this architecture
    #[arg(long, value_name = "ARCHITECTURE", value_parser = ["x86_64", "arm64"])]
    pub(crate) arch: Option<String>,
    /// Only types that are in stock
    #[arg(long)]
    pub(crate) in_stock: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// List the images that servers can be created from
    #[command(visible_alias = "ls")]
    List(ListImages),
}

#[derive(Debug, Args)]
pub(crate) struct ListImages {
    /// Only images of your own projects, by their ids
    #[arg(long)]
    pub(crate) own: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ZoneCommand {
    /// List the zones that are known to offer servers; makes no call
    #[command(visible_alias = "ls")]
    List,
}
