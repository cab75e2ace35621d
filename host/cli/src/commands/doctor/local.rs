//! What is on this machine: configuration, policies, the state directory.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use windlass_inspect::failure::Failure;
use windlass_lifecycle::{Error, Journal, OperationFilter, OperationState, StateDirectory};
use windlass_policy::address_space_limit;

use super::check::Check;
use crate::context::{Context, OpenClusterOperation};

pub(super) const CONFIGURATION: &str = "configuration";
const POLICIES: &str = "policies";
const STATE_DIRECTORY: &str = "state-directory";
const FREE_SPACE: &str = "free-space";
const JOURNAL: &str = "journal";

/// What to do about a history that took place elsewhere.
pub(super) const TAKE_OVER: &str = "windlass state take-over, if nothing uses that history any more (after `state \
                                    migrate`: use the new place, or add --force if it is lost); or name another \
                                    --state-dir";

/// The checks of this file, in their order.
pub(super) const CHECKS: [&str; 5] = [CONFIGURATION, POLICIES, STATE_DIRECTORY, FREE_SPACE, JOURNAL];

/// Below this the journal may soon not be written any more: decision log and compiled policies grow to some 100 MB.
const LITTLE_SPACE_BYTES: u64 = 256 << 20;
/// Below this nothing should be begun.
const NO_SPACE_BYTES: u64 = 16 << 20;

pub(super) async fn examine(context: &Context) -> Vec<Check> {
    let mut checks = vec![configuration(context), policies(context)];
    checks.extend(state(context).await);
    checks
}

fn configuration(context: &Context) -> Check {
    match &context.configuration.file {
        Some(file) => Check::ok(CONFIGURATION, format!("{} is valid", file.display())),
        None => Check::ok(CONFIGURATION, "there is no configuration file, and none is needed"),
    }
}

/// Loads every policy as a host would, in a folder that goes afterwards.
fn policies(context: &Context) -> Check {
    let load = || -> Result<usize, Failure> {
        let unmade = |error: std::io::Error| {
            Failure::usage("there is no temporary folder to load policies in").because(error.to_string())
        };
        let temporary = tempfile::tempdir().map_err(unmade)?;
        let folder = Dir::open_ambient_dir(temporary.path(), ambient_authority()).map_err(unmade)?;
        let host = context.offline_policy_host(folder, None)?;
        context.configure(&host)?;
        Ok(host.status().links.len())
    };
    judged_policies(load(), address_space_limit())
}

fn judged_policies(loaded: Result<usize, Failure>, address_space: Option<u64>) -> Check {
    const LIFT: &str = "ulimit -v unlimited (in a systemd unit: LimitAS=infinity)";
    let found = |count| format!("{count} load, the built-in defaults included");
    match (loaded, address_space) {
        (Ok(count), None) => Check::ok(POLICIES, found(count)),
        (Ok(count), Some(bytes)) => {
            let limit = format!("address space is limited to {} MB, which makes decisions slower", bytes / 1_000_000);
            Check::warning(POLICIES, format!("{}; {limit}", found(count))).remedy(LIFT)
        }
        (Err(failure), _) => match Check::of_failure(POLICIES, &failure) {
            check if check.remedy.is_some() => check,
            check if address_space.is_some() => {
                check.remedy(format!("windlass policy check FILE, or, if memory ran out, {LIFT}"))
            }
            check => check.remedy("windlass policy check FILE"),
        },
    }
}

async fn state(context: &Context) -> Vec<Check> {
    let skipped = |why: &str| [FREE_SPACE, JOURNAL].map(|check| Check::skipped(check, why));
    let path = match context.state_path() {
        Ok(path) => path,
        Err(failure) => {
            let mut checks = vec![Check::of_failure(STATE_DIRECTORY, &failure)];
            checks.extend(skipped("there is no state directory"));
            return checks;
        }
    };
    let found = nearest(&path);
    let directory = directory(&path, &found);
    let mut checks = vec![directory];
    match found {
        Nearest::Itself(existing) => {
            checks.push(free_space(&existing));
            checks.push(match context.open_state(&existing) {
                Ok(state) => match context.open_cluster_operations().await {
                    Ok(on_clusters) => journal(&state, &on_clusters),
                    Err(failure) => Check::of_failure(JOURNAL, &failure),
                },
                Err(failure) => Check::of_failure(JOURNAL, &failure),
            });
        }
        Nearest::Above(existing) => {
            checks.push(free_space(&existing));
            checks.push(Check::skipped(JOURNAL, "there is none yet"));
        }
        Nearest::Unusable(_) => checks.extend(skipped("the state directory cannot be used")),
    }
    checks
}

/// What there is of a path.
enum Nearest {
    /// A directory at its place.
    Itself(PathBuf),
    /// Nothing; this directory above it is the nearest that exists.
    Above(PathBuf),
    /// Something in the way.
    Unusable(String),
}

fn nearest(path: &Path) -> Nearest {
    let path = match std::path::absolute(path) {
        Ok(path) => path,
        Err(error) => return Nearest::Unusable(error.to_string()),
    };
    for ancestor in path.ancestors() {
        match std::fs::metadata(ancestor) {
            Ok(found) if found.is_dir() && ancestor == path => return Nearest::Itself(path),
            Ok(found) if found.is_dir() => return Nearest::Above(ancestor.to_path_buf()),
            Ok(_) => return Nearest::Unusable(format!("{} is no directory", ancestor.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Nearest::Unusable(format!("{}: {error}", ancestor.display())),
        }
    }
    Nearest::Unusable("no directory above it exists".to_owned())
}

/// Whether it exists or can be made, belongs to its user alone, and can be written.
fn directory(path: &Path, found: &Nearest) -> Check {
    let another = "name another with --state-dir, WINDLASS_STATE_DIR or state_dir in the configuration";
    let shown = path.display();
    let (existing, there) = match found {
        Nearest::Itself(existing) => (existing, true),
        Nearest::Above(existing) => (existing, false),
        Nearest::Unusable(why) => return Check::failed(STATE_DIRECTORY, format!("{shown}: {why}")).remedy(another),
    };
    // The file has no name, or loses it at once, so that nothing stays behind.
    if let Err(error) = tempfile::tempfile_in(existing) {
        let finding = format!("{} cannot be written: {error}", existing.display());
        return Check::failed(STATE_DIRECTORY, finding).remedy(another);
    }
    if !there {
        return Check::ok(STATE_DIRECTORY, format!("{shown} does not exist yet and can be made"));
    }
    match std::fs::metadata(existing).map(|found| found.permissions().mode()) {
        Ok(mode) if mode & 0o077 != 0 => Check::warning(
            STATE_DIRECTORY,
            format!("{shown} can be written, and others on this machine may enter it (mode {:03o})", mode & 0o777),
        )
        .remedy(format!("chmod 700 {shown}")),
        Ok(_) => Check::ok(STATE_DIRECTORY, format!("{shown} can be written, by its user alone")),
        Err(error) => Check::failed(STATE_DIRECTORY, format!("{shown}: {error}")).remedy(another),
    }
}

fn free_space(existing: &Path) -> Check {
    match rustix::fs::statvfs(existing) {
        Ok(system) => judged_space(system.f_bavail.saturating_mul(system.f_frsize)),
        Err(error) => Check::skipped(FREE_SPACE, format!("{}: {error}", existing.display())),
    }
}

fn judged_space(bytes: u64) -> Check {
    let finding = format!("{} MB are free for the state directory", bytes / 1_000_000);
    let remedy = "free some, or name a state directory on another disk";
    match bytes {
        ..NO_SPACE_BYTES => Check::failed(FREE_SPACE, finding).remedy(remedy),
        NO_SPACE_BYTES..LITTLE_SPACE_BYTES => Check::warning(FREE_SPACE, finding).remedy(remedy),
        _ => Check::ok(FREE_SPACE, finding),
    }
}

/// Whether this program can read the journal and may go on with it, who else works with it, and what waits in it.
fn journal(state: &StateDirectory, on_clusters: &[OpenClusterOperation]) -> Check {
    let journal = match Journal::read_only(state) {
        Ok(journal) => journal,
        Err(Error::JournalAbsent { .. }) => return Check::ok(JOURNAL, "there is none yet"),
        Err(error @ Error::JournalNewer { .. }) => {
            return Check::failed(JOURNAL, error.to_string()).remedy("use the newest windlass that works here");
        }
        Err(error) => return Check::failed(JOURNAL, error.to_string()),
    };
    match state.moved() {
        Ok(None) => {}
        Ok(Some(evidence)) => {
            let finding = format!("{evidence}, so nothing is created, undone or removed with it");
            return Check::failed(JOURNAL, finding).remedy(TAKE_OVER);
        }
        Err(error) => return Check::failed(JOURNAL, error.to_string()),
    }
    let mut filter = OperationFilter::default();
    filter.states = OperationState::UNFINISHED.to_vec();
    let unfinished = match journal.operations(&filter) {
        Ok(unfinished) => unfinished,
        Err(error) => return Check::failed(JOURNAL, error.to_string()),
    };
    let (open, other): (Vec<_>, Vec<_>) = unfinished.iter().partition(|one| one.state == OperationState::Open);
    let left = other.iter().filter(|operation| operation.state == OperationState::Left).count();
    let orphaned = open.iter().filter(|operation| !journal.runner_lives(&operation.runner)).count();
    let mut finding = format!(
        "this program can read it; open operations: {}, left by processes that ended: {orphaned}; left something \
         behind: {left}; wait for a second look: {}; other processes at work: {}",
        open.len(),
        other.len() - left,
        state.living_runners(),
    );
    for operation in on_clusters {
        finding.push_str(&format!("; {}", operation.words));
    }
    if orphaned > 0 || left > 0 {
        Check::warning(JOURNAL, finding).remedy("windlass operation resume")
    } else if on_clusters.iter().any(|operation| !operation.lives) {
        Check::warning(JOURNAL, finding).remedy("windlass cluster resume")
    } else {
        Check::ok(JOURNAL, finding)
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Outcome;
    use super::*;

    #[test]
    fn little_space_is_a_warning_and_none_a_failure() {
        assert_eq!(judged_space(NO_SPACE_BYTES - 1).outcome, Outcome::Failed);
        assert_eq!(judged_space(NO_SPACE_BYTES).outcome, Outcome::Warning);
        assert_eq!(judged_space(LITTLE_SPACE_BYTES).outcome, Outcome::Ok);
    }

    #[test]
    fn a_directory_that_is_missing_can_be_made_below_one_that_can_be_written() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a/b");
        let check = directory(&path, &nearest(&path));
        assert_eq!(check.outcome, Outcome::Ok);
        assert!(check.finding.ends_with("does not exist yet and can be made"), "{}", check.finding);
        assert!(!home.path().join("a").exists(), "it was not made");
    }

    #[test]
    fn a_file_in_the_way_is_a_failure_that_names_it() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("a"), b"").expect("written");
        for path in [home.path().join("a"), home.path().join("a/b")] {
            let check = directory(&path, &nearest(&path));
            assert_eq!(check.outcome, Outcome::Failed, "{}", check.finding);
        }
    }
}
