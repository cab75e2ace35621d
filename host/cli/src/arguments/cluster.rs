//! The commands about clusters.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;
use windlass_cluster::{ClusterName, NodeGroupName};

use super::{AbandonOptions, Detach};
use crate::completion;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create a cluster from a specification
    Create(CreateCluster),
    /// Create or change a cluster to match a specification; shows the changes first
    Apply(ApplyCluster),
    /// Show how a cluster differs from a specification
    Diff(DiffCluster),
    /// Print a cluster's current specification
    Export(ExportCluster),
    /// Add and remove nodes, in several groups at once
    Scale(ScaleCluster),
    /// Replace nodes in batches; stops at the first failure
    Replace(ReplaceCluster),
    /// Delete a cluster; cancels a running operation first
    #[command(alias = "delete")]
    Terminate(TerminateCluster),
    /// Cancel the running operation of a cluster, in any process
    Cancel(NameCluster),
    /// Stop managing a cluster; its nodes are left alone until it is terminated
    Abandon(AbandonCluster),
    /// Finish or undo operations that an interrupted process left open
    Resume,
    /// Show a cluster: its nodes, its operation, and the reasons for its state
    #[command(alias = "show")]
    Status(ClusterStatus),
    /// Follow the running operation until it ends; `--output json-lines` prints its events
    Watch(NameCluster),
    /// Follow the output of a detached operation and exit with its code; Ctrl-C leaves it running
    Attach(NameCluster),
    /// Update the recorded state of a cluster's nodes from Scaleway; changes nothing there
    Refresh(NameCluster),
    /// List clusters
    #[command(visible_alias = "ls")]
    List,
    /// Show the history of a cluster, also after its termination
    History(ClusterHistory),
    /// Check a specification, and quota and stock, without creating anything
    Validate(ValidateCluster),
}

/// How an operation runs.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Only print what would change, and the hooks with their input
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Maximum number of servers handled in parallel
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) parallel: Option<u32>,
    #[command(flatten)]
    pub(crate) detach: Detach,
}

/// How an operation runs that may remove nodes.
#[derive(Debug, Args)]
pub(crate) struct RemovalOptions {
    /// Remove nodes without asking; required if there is no terminal
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Args)]
#[command(mut_arg("dry_run", |argument| argument.help(
    "Only say what would be made, and which hooks would be run with what input"
)))]
pub(crate) struct CreateCluster {
    /// The specification: .toml, .yaml or .json
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

#[derive(Debug, Args)]
#[command(override_usage = "windlass cluster scale <NAME> <GROUP=COUNT>... [--remove <NODE>]... [OPTIONS]")]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["counts", "remove"])))]
pub(crate) struct ScaleCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Number of nodes of a group: workers=5 (several groups at once)
    #[arg(value_name = "GROUP=COUNT", value_parser = parse_count, add = ArgValueCandidates::new(completion::counts))]
    pub(crate) counts: Vec<GroupCount>,
    /// A node to remove first (repeatable); without a count its group shrinks by one
    #[arg(long, value_name = "NODE", add = ArgValueCandidates::new(completion::nodes))]
    pub(crate) remove: Vec<String>,
    #[command(flatten)]
    pub(crate) removal: RemovalOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyCluster {
    /// The specification: .toml, .yaml or .json
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Also replace nodes of an older specification, with their decommission hook
    #[arg(long)]
    pub(crate) replace: bool,
    /// Number of nodes replaced at a time
    #[arg(long, requires = "replace", value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) at_a_time: u32,
    #[command(flatten)]
    pub(crate) removal: RemovalOptions,
}

#[derive(Debug, Args)]
pub(crate) struct DiffCluster {
    /// The specification: .toml, .yaml or .json
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExportCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Print complete webhook URLs, which may contain tokens
    #[arg(long)]
    pub(crate) with_secrets: bool,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true).args(["nodes", "groups"])))]
#[command(mut_arg("yes", |argument| argument.help(
    "Replace without asking; needed where there is no terminal to ask on"
)))]
pub(crate) struct ReplaceCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Nodes to replace
    #[arg(value_name = "NODE", add = ArgValueCandidates::new(completion::nodes))]
    pub(crate) nodes: Vec<String>,
    /// Replace all nodes of this group (repeatable)
    #[arg(long = "group", value_name = "GROUP", add = ArgValueCandidates::new(completion::node_groups))]
    pub(crate) groups: Vec<NodeGroupName>,
    /// Number of nodes replaced at a time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) at_a_time: u32,
    #[command(flatten)]
    pub(crate) removal: RemovalOptions,
}

/// `workers=5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupCount {
    pub(crate) group: NodeGroupName,
    pub(crate) count: u32,
}

#[derive(Debug, Args)]
#[command(mut_arg("dry_run", |argument| argument.help(
    "Only say what would be removed, and which hook would be run with what input"
)))]
#[command(mut_arg("yes", |argument| argument.help(
    "Terminate without asking; needed where there is no terminal to ask on"
)))]
pub(crate) struct TerminateCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Skip the decommission hook; data on the nodes is lost
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) removal: RemovalOptions,
}

#[derive(Debug, Args)]
pub(crate) struct AbandonCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    #[command(flatten)]
    pub(crate) options: AbandonOptions,
}

#[derive(Debug, Args)]
pub(crate) struct NameCluster {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterStatus {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Follow the running operation until it ends
    #[arg(long, conflicts_with = "offline")]
    pub(crate) watch: bool,
    /// Print the recorded state without asking Scaleway
    #[arg(long)]
    pub(crate) offline: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClusterHistory {
    /// The cluster
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(completion::clusters))]
    pub(crate) name: ClusterName,
    /// Show one operation with all its events
    #[arg(long, value_name = "NUMBER")]
    pub(crate) operation: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateCluster {
    /// The specification: .toml, .yaml or .json
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Check only the file; needs no credentials
    #[arg(long)]
    pub(crate) offline: bool,
}

fn parse_count(text: &str) -> Result<GroupCount, String> {
    let (group, count) = text.split_once('=').ok_or("write GROUP=COUNT, for example workers=5")?;
    if count.starts_with(['+', '-']) {
        // Rust reads `+2` as 2, and who writes it means two more.
        return Err(format!("'{count}' is not a number of nodes: write the total, for example {group}=5"));
    }
    let count = count.parse().map_err(|_| format!("'{count}' is not a number of nodes, as 5 is in {group}=5"))?;
    let group = group.parse().map_err(|error: windlass_cluster::InvalidName| error.to_string())?;
    Ok(GroupCount { group, count })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Arguments, Command};
    use super::*;

    fn parse(line: &str) -> Result<ClusterCommand, clap::Error> {
        match Arguments::try_parse_from(line.split_whitespace())?.command {
            Command::Cluster(command) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn counts_and_removals_are_taken_together_and_one_of_them_is_needed() {
        let ClusterCommand::Scale(scale) =
            parse("windlass cluster scale farm web=3 db=0 --remove farm-web-1 --remove farm-web-2").expect("parses")
        else {
            panic!("a scaling")
        };
        let counts: Vec<_> = scale.counts.iter().map(|asked| (asked.group.as_str(), asked.count)).collect();
        assert_eq!((counts, scale.remove.len()), (vec![("web", 3), ("db", 0)], 2));
        assert!(parse("windlass cluster scale farm --remove farm-web-1").is_ok());
        assert!(parse("windlass cluster scale farm").is_err());
    }

    #[test]
    fn a_count_that_is_none_is_refused_with_the_remedy() {
        for (count, words) in [
            ("web", "write GROUP=COUNT"),
            ("web=many", "not a number of nodes"),
            ("web=+2", "write the total, for example web=5"),
            ("WEB=1", "lower-case"),
        ] {
            let refused = parse(&format!("windlass cluster scale farm {count}")).expect_err("refused").to_string();
            assert!(refused.contains(words), "{refused}");
        }
        assert!(parse("windlass cluster status Not-A-Name!").is_err());
    }
}
