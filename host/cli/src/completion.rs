//! What a shell is offered for names. Read from the state directory, which is neither made nor changed for it; what
//! cannot be read is offered by nobody and complained about by nobody.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::CompleteEnv;
use clap_complete::engine::CompletionCandidate;
use windlass_cluster::{ClusterStore, LogClusterStore, StoredCluster};
use windlass_lifecycle::{Journal, Operation, OperationFilter, OperationKind, StateDirectory};
use windlass_policy::{DecisionFilter, DecisionReader};
use windlass_scaleway::Zone;

use crate::commands::example::EXAMPLES;
use crate::configuration::{self, environment_of_process};
use crate::context::STATE;

/// By this variable, which names the shell, a script of `windlass completions --names` asks for candidates.
pub(crate) const VARIABLE: &str = "WINDLASS_COMPLETE";

/// More of one kind help nobody.
const MAX_CANDIDATES: u32 = 200;

/// Answers a shell that asks about these commands. `None`: nobody asks, and the command line is to be run.
pub(crate) fn answer(commands: fn() -> clap::Command) -> Option<ExitCode> {
    let asked = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    if !asked {
        return None;
    }
    let folder = std::env::current_dir().ok();
    let complete = CompleteEnv::with_factory(commands).var(VARIABLE).bin("windlass");
    match complete.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(_) => Some(ExitCode::SUCCESS),
        Err(error) => {
            let _ = error.print();
            Some(windlass_inspect::failure::Exit::Usage.into())
        }
    }
}

/// The names of clusters.
pub(crate) fn clusters() -> Vec<CompletionCandidate> {
    candidates(stored_clusters().iter().map(|stored| stored.cluster.name.to_string()))
}

/// The names of nodes that exist.
pub(crate) fn nodes() -> Vec<CompletionCandidate> {
    let clusters = stored_clusters();
    let nodes = clusters.iter().flat_map(|stored| &stored.nodes).filter(|node| node.exists());
    candidates(nodes.map(|node| node.name.clone()))
}

pub(crate) fn node_groups() -> Vec<CompletionCandidate> {
    let clusters = stored_clusters();
    candidates(clusters.iter().flat_map(|stored| stored.cluster.specification.groups.keys()).map(ToString::to_string))
}

/// Node groups with the counts that they have.
pub(crate) fn counts() -> Vec<CompletionCandidate> {
    let clusters = stored_clusters();
    let groups = clusters.iter().flat_map(|stored| &stored.cluster.specification.groups);
    candidates(groups.map(|(name, group)| format!("{name}={}", group.count)))
}

/// The ids of operations, the newest first.
pub(crate) fn operations() -> Vec<CompletionCandidate> {
    candidates(journalled().iter().map(|operation| operation.id.to_string()))
}

/// Servers, by the operations that made them.
pub(crate) fn servers() -> Vec<CompletionCandidate> {
    let operations = journalled();
    let made = |operation: &&Operation| operation.kind == OperationKind::CreateServer && operation.ended_by.is_none();
    candidates(operations.iter().filter(made).map(|operation| operation.id.to_string()))
}

/// The groups of servers.
pub(crate) fn groups() -> Vec<CompletionCandidate> {
    candidates(journalled().into_iter().map(|operation| operation.group))
}

/// The ids of decisions, the newest first.
pub(crate) fn decisions() -> Vec<CompletionCandidate> {
    let mut filter = DecisionFilter::default();
    filter.limit = MAX_CANDIDATES as usize;
    let log = state().and_then(|state| DecisionReader::open(state.handle()).ok());
    let found = log.and_then(|log| log.list(&filter).ok());
    candidates(found.into_iter().flat_map(|found| found.decisions).map(|decision| decision.id.to_string()))
}

/// The names of example files.
pub(crate) fn examples() -> Vec<CompletionCandidate> {
    candidates(EXAMPLES.iter().map(|example| example.name.to_owned()))
}

/// The zones that are known, and those in use.
pub(crate) fn zones() -> Vec<CompletionCandidate> {
    let used = journalled().into_iter().map(|operation| operation.zone);
    candidates(used.chain(Zone::KNOWN.map(str::to_owned)))
}

/// Each name once, in the order in which it came.
fn candidates(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let mut known = BTreeSet::new();
    let names = names.filter(|name| !name.is_empty() && known.insert(name.clone())).take(MAX_CANDIDATES as usize);
    names.enumerate().map(|(at, name)| CompletionCandidate::new(name).display_order(Some(at))).collect()
}

/// The state directory of the command line that is completed, where it exists.
fn state() -> Option<StateDirectory> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let named = |option: &str| option_of(&words, option);
    let environment = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let state_dir = named("--state-dir").or_else(|| environment("WINDLASS_STATE_DIR"));
    let config = named("--config").or_else(|| environment("WINDLASS_CONFIG"));
    let environment = environment_of_process();
    let configuration = configuration::load(config.as_deref(), &environment).ok()?;
    // A database is not asked while somebody types.
    if configuration.state.is_some() || environment.contains_key(STATE) {
        return None;
    }
    let path = configuration.state_path(state_dir.as_deref(), &environment).ok()?;
    // Opening one that is missing makes it.
    path.is_dir().then(|| StateDirectory::open(&path).ok())?
}

/// What a command line that is not whole yet says of an option.
fn option_of(words: &[OsString], option: &str) -> Option<PathBuf> {
    let joined = words.iter().find_map(|word| word.to_str()?.strip_prefix(option)?.strip_prefix('='));
    let apart = || words.windows(2).find(|pair| pair[0] == option).map(|pair| PathBuf::from(&pair[1]));
    joined.map(PathBuf::from).or_else(apart)
}

fn journalled() -> Vec<Operation> {
    let mut filter = OperationFilter::default();
    filter.limit = Some(MAX_CANDIDATES);
    let journal = state().and_then(|state| Journal::read_only(&state).ok());
    journal.and_then(|journal| journal.operations(&filter).ok()).unwrap_or_default()
}

fn stored_clusters() -> Vec<StoredCluster> {
    let store = state().and_then(|state| Some(LogClusterStore::of(&Journal::read_only(&state).ok()?)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok();
    let (Some(store), Some(runtime)) = (store, runtime) else { return Vec::new() };
    runtime.block_on(async {
        let mut clusters = Vec::new();
        for listed in store.clusters().await.unwrap_or_default().into_iter().take(MAX_CANDIDATES as usize) {
            // A listing holds no nodes.
            clusters.extend(store.cluster(&listed.cluster.name).await.ok().flatten());
        }
        clusters
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_joined_and_apart_in_a_command_line_that_is_not_whole() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in ["windlass --state-dir here cluster status ", "windlass cluster status --state-dir=here "] {
            assert_eq!(option_of(&words(line), "--state-dir"), Some(PathBuf::from("here")), "{line}");
        }
        assert_eq!(option_of(&words("windlass cluster status --state-dir"), "--state-dir"), None);
    }

    #[test]
    fn each_name_is_offered_once_and_no_more_than_a_person_can_read() {
        let names = (0..1_000).map(|number| format!("name-{}", number / 2));
        let offered = candidates(names.chain([String::new()]));
        assert_eq!(offered.len(), MAX_CANDIDATES as usize);
        assert_eq!(offered[1].get_value(), "name-1");
    }
}
