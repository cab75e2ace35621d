//! `windlass state`: where state is kept, and whether it can be relied on.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use windlass_cluster::LogClusterStore;
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_inspect::output::fields;
use windlass_inspect::text::ago;
use windlass_inspect::words::counted;
use windlass_lifecycle::log::SharingHost;
use windlass_lifecycle::{Clock, Error, Journal, OperationState, StateDirectory};

use super::lifecycle::lifecycle_failure;
use crate::arguments::{DowngradeState, MigrateState, StateCommand, TakeOverState};
use crate::confirmation::{Confirmation, DRY_RUN};
use crate::context::Context;

pub(crate) async fn run(context: &Context, command: StateCommand) -> Result<(), Failure> {
    match command {
        StateCommand::Show => show(context).await,
        StateCommand::TakeOver(arguments) => take_over(context, &arguments).await,
        StateCommand::Hosts => hosts(context),
        StateCommand::Migrate(arguments) => migrate(context, &arguments).await,
        StateCommand::Downgrade(arguments) => downgrade(context, &arguments).await,
    }
}

async fn show(context: &Context) -> Result<(), Failure> {
    let path = context.state_path()?;
    if !path.to_string_lossy().contains("://") && !path.is_dir() {
        return Err(Failure::unknown(format!("there is no state directory {}", path.display())));
    }
    let state = context.state_directory()?;
    let owner = match &context.configuration.owner {
        Some(owner) => Some(owner.clone()),
        None => read(state.stored_owner())?,
    };
    let history = read(state.history())?.map(|history| history.id);
    let moved = read(state.moved())?;
    let operations = operations(&state)?;
    let on_clusters: Vec<String> =
        context.open_cluster_operations().await?.into_iter().map(|operation| operation.words).collect();
    let journal = match state.shared_log() {
        Some(shared) => shared.location().to_owned(),
        None => state.path().join("journal.sqlite").display().to_string(),
    };
    let document = json!({
        "state_directory": state.path(),
        "journal": journal,
        "owner": owner,
        "history": history,
        "moved": moved,
        "operations": operations,
        "cluster_operations": on_clusters,
    });
    context.output.result(&document, || {
        let none = || "none yet".to_owned();
        let counts: Vec<String> = operations.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let rows = [
            ("directory", state.path().display().to_string()),
            ("journal", journal.clone()),
            ("owner", owner.as_ref().map_or_else(none, ToString::to_string)),
            ("history", history.clone().unwrap_or_else(none)),
            ("in use here", moved.as_ref().map_or_else(|| "yes".to_owned(), |evidence| format!("no: {evidence}"))),
            ("operations", if counts.is_empty() { none() } else { counts.join(", ") }),
        ];
        let on_clusters = on_clusters.iter().map(|words| ("", words.clone()));
        let rows: Vec<_> = rows.into_iter().chain(on_clusters).collect();
        fields(&rows)
    });
    Ok(())
}

async fn take_over(context: &Context, arguments: &TakeOverState) -> Result<(), Failure> {
    let confirmation = Confirmation::source_of(arguments.yes, "state take-over", "windlass state show")?;
    let path = context.state_path()?;
    if !path.is_dir() {
        return Err(Failure::usage(format!("there is no state directory {}", path.display())));
    }
    let state = context.state_directory()?;
    let before = read(state.history())?.map(|history| history.id);
    if !arguments.force && read(state.moved())?.is_none() {
        return already_here(context, &state, before.as_deref());
    }
    if !arguments.force && read(state.is_migrated())? {
        return Err(Failure::usage(format!("the state in {} was moved to another place", path.display()))
            .because("both places would work with the same machines")
            .remedy("use the other place; if it is lost: windlass state take-over --force"));
    }
    let in_use = match state.living_runners() {
        0 => None,
        1 => Some("another process works".to_owned()),
        count => Some(format!("{count} processes work")),
    };
    if let Some(in_use) = in_use {
        return Err(
            Failure::usage(format!("{in_use} with {}", path.display())).remedy("stop what uses it, then try again")
        );
    }
    let open = open_operations(&state)? + context.open_cluster_operations().await?.len();
    let question = format!(
        "Take over the history in {}? Nothing else may use it any more, neither the original nor a copy; {}.",
        state.path().display(),
        match open {
            0 => "no operation is open".to_owned(),
            open => format!(
                "the next command finishes or undoes {} that are open in its journal",
                counted(open, "operation")
            ),
        }
    );
    confirmation.ask(&[], &question).await?;
    state
        .take_history_over(Clock::System.now())
        .map_err(|error| lifecycle_failure("the state directory could not be taken over", &error))?;
    let history = read(state.history())?.map(|history| history.id);
    context.output.result(&json!({ "history": history, "before": before }), || {
        format!(
            "{} continues the history; list open operations: windlass operation list --open\n",
            state.path().display()
        )
    });
    Ok(())
}

fn hosts(context: &Context) -> Result<(), Failure> {
    let (hosts, none) = match context.shared_state()? {
        Some(shared) => (read(shared.hosts())?, "no process has the state open"),
        None => (Vec::new(), "the state is in a directory of this machine; docs/shared-state.md says how to share it"),
    };
    let listing = Listing::new(&hosts, none, |host: &SharingHost| host.host.clone())
        .column("host", |host| host.host.clone())
        .column("process", |host| host.process.to_string())
        .column("lives", |host| if host.lives { "yes" } else { "no" }.to_owned())
        .column("renewed", |host| ago(host.renewed_at));
    context.output.listing(&json!({ "hosts": hosts }), &listing);
    Ok(())
}

async fn migrate(context: &Context, arguments: &MigrateState) -> Result<(), Failure> {
    if !arguments.from.contains("://") && !Path::new(&arguments.from).is_dir() {
        return Err(Failure::usage(format!("there is no state directory {}", arguments.from)).at("--from"));
    }
    let (from, to) = (place(context, &arguments.from, "--from")?, place(context, &arguments.to, "--to")?);
    if from.location() == to.location() {
        return Err(Failure::usage("--from and --to name the same place"));
    }
    let migrated = from.migrate_to(&to, LogClusterStore::FAMILIES).await;
    let migrated = migrated.map_err(|error| match &error {
        windlass_lifecycle::Error::Migration { problem } => {
            Failure::usage("the state was not moved").because(problem.clone())
        }
        error => lifecycle_failure("the state was not moved", error),
    })?;
    context.output.result(&migrated, || {
        format!(
            "moved {} with {}, and {}; the old place refuses to be used from now on\n",
            counted(migrated.streams, "record"),
            counted(migrated.entries, "event"),
            counted(migrated.tags, "locked tag")
        )
    });
    Ok(())
}

async fn downgrade(context: &Context, arguments: &DowngradeState) -> Result<(), Failure> {
    let confirmation =
        (!arguments.dry_run).then(|| Confirmation::source(arguments.yes, "state downgrade", DRY_RUN)).transpose()?;
    let Some(shared) = context.shared_state()? else {
        return Err(Failure::usage("the state is in a directory, which has no way back to an older version")
            .remedy("docs/state-directory.md says how to go back"));
    };
    let failed = |error: Error| match error {
        Error::Downgrade { problem } => Failure::usage("the database was not downgraded").because(problem),
        error => lifecycle_failure("the database was not downgraded", &error),
    };
    let planned = shared.plan_downgrade(arguments.to).map_err(failed)?;
    let is_there = planned.from == planned.to;
    let versions = format!("{} from version {} to version {}", shared.location(), planned.from, planned.to);
    let lost = match planned.loses.as_slice() {
        [] => "Nothing is lost.".to_owned(),
        loses => format!("Lost for good: {}.", loses.join("; ")),
    };
    if let Some(confirmation) = confirmation
        && !is_there
    {
        confirmation.ask(&[], &format!("Take {versions}? {lost}")).await?;
        shared.downgrade(&planned).map_err(failed)?;
    }
    context.output.result(&planned, || match (is_there, arguments.dry_run) {
        (true, _) => format!("nothing was changed: {} has version {}\n", shared.location(), planned.to),
        (false, true) => format!("would take {versions}. {lost}\n"),
        (false, false) => {
            format!("took {versions}; use it with the older windlass alone, as this one upgrades it again\n")
        }
    });
    Ok(())
}

/// A state directory or a database, as it is written on the command line.
fn place(context: &Context, written: &str, option: &str) -> Result<StateDirectory, Failure> {
    let opened = |path: &Path| {
        StateDirectory::open(path).map_err(|error| lifecycle_failure("the state directory cannot be used", &error))
    };
    if written.contains("://") {
        let database = context.database(written, option)?;
        return Ok(opened(&context.state_path()?)?.with_shared_log(database));
    }
    // As libpq reads it, and as a folder is hardly called.
    if !written.starts_with(['.', '/']) && written.split_whitespace().all(|word| word.contains('=')) {
        return Err(Failure::usage(format!("{written} is not the URL of a database"))
            .at(option)
            .remedy("write it as postgres://USER@HOST/DATABASE; a folder of this name as ./NAME"));
    }
    opened(Path::new(written))
}

/// What is said where the history takes place here as far as can be seen.
fn already_here(context: &Context, state: &StateDirectory, history: Option<&str>) -> Result<(), Failure> {
    context.output.result(&json!({ "history": history, "before": history }), || {
        format!(
            "nothing was changed: nothing shows that {} was copied, restored or set back; to take it over all the same: \
             windlass state take-over --force --state-dir {}\n",
            state.path().display(),
            state.path().display()
        )
    });
    Ok(())
}

/// How many operations of each state the journal has; none where there is no journal yet.
fn operations(state: &StateDirectory) -> Result<BTreeMap<OperationState, u64>, Failure> {
    let counts = match Journal::read_only(state) {
        Err(Error::JournalAbsent { .. }) => return Ok(BTreeMap::new()),
        journal => journal.and_then(|journal| journal.counts()),
    };
    counts.map_err(|error| lifecycle_failure("the journal cannot be read", &error))
}

fn open_operations(state: &StateDirectory) -> Result<usize, Failure> {
    let counts = operations(state)?;
    let open: u64 = OperationState::UNFINISHED.iter().filter_map(|state| counts.get(state)).sum();
    Ok(usize::try_from(open).unwrap_or(usize::MAX))
}

fn read<T>(result: Result<T, Error>) -> Result<T, Failure> {
    result.map_err(|error| lifecycle_failure("the state directory cannot be read", &error))
}
