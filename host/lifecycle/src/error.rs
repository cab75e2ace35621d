//! What can go wrong, named by what failed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_policy::slots::types::Failure;

use crate::identifier::OperationId;
use crate::journal::{OperationKind, OperationState, ResourceName};
use crate::machines::{Ineligible, PoolPrefix};
use crate::report::Report;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name breaks the rules of its kind.
    #[error("{name:?} is not a valid name for {what}: {problem} (lower-case letters, digits and dashes, at most \
        48)", what = article(what))]
    Name {
        /// `group`, `owner` or `operation`.
        what: &'static str,
        /// The name, cut to a bounded length.
        name: String,
        problem: String,
    },
    /// A specification asks for something that cannot be.
    #[error("{field}: {problem}")]
    Specification {
        /// The field, as the specification names it.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The state directory or a file in it cannot be used.
    #[error("{} cannot be used: {}", path.display(), file_words(.source))]
    StateDirectory {
        /// The file or folder.
        path: PathBuf,
        source: io::Error,
    },
    /// A URL where a state directory is expected. It may have a password, so only its scheme is kept.
    #[error("a state directory is a folder, and this is a {scheme}:// URL")]
    StateDirectoryIsUrl { scheme: String },
    /// Another process is taking over what a dead one left.
    #[error("another process is recovering operations (it holds {}); try again when it has ended", path.display())]
    RecoveryRunning { path: PathBuf },
    /// The state directory's history took place elsewhere, so what its journal holds open may have ended there, and
    /// what it knows may be in use. Nothing was changed.
    #[error(
        "the state directory {} cannot be relied on: {evidence}. The original or a copy may still be in use with the \
         same servers, so Windlass changes nothing. If nothing else uses this state, run: windlass state take-over \
         --state-dir {}. Otherwise use another state directory and another owner",
        path.display(), path.display()
    )]
    HistoryMoved {
        path: PathBuf,
        /// What shows it.
        evidence: String,
    },
    /// There is no journal to read.
    #[error("there is no journal at {}: nothing was ever created with this state directory", path.display())]
    JournalAbsent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The journal cannot be opened.
    #[error("the journal {} cannot be opened: {problem}", path.display())]
    JournalOpen {
        /// Where it is.
        path: PathBuf,
        problem: String,
    },
    /// The journal was written by a version that this one does not know. It was left untouched.
    #[error("the journal {} has version {found}, this program knows version {known}: use the program that wrote it{} \
        (it was left untouched)", path.display(), way_back(path, *found, *known))]
    JournalNewer { path: PathBuf, found: i64, known: i64 },
    /// A write failed.
    #[error("the journal cannot be written: {problem}")]
    JournalWrite { problem: String },
    /// A journal was not moved to another place.
    #[error("the state was not moved: {problem}")]
    Migration { problem: String },
    /// A shared log's tables were not taken back to an older version.
    #[error("the database was not downgraded: {problem}")]
    Downgrade { problem: String },
    /// Another process has taken the operation over, so this one writes nothing about it any more.
    #[error("operation {operation} was taken over by another process")]
    OperationTaken { operation: OperationId },
    /// The operation removes something, and goes on.
    #[error("operation {operation} cannot be cancelled: a {kind} always runs to its end")]
    NotCancellable { operation: OperationId, kind: OperationKind },
    /// The journal was opened for reading, or is shut.
    #[error("the journal is not open for writing")]
    JournalClosed,
    /// Something is too long for the journal.
    #[error("{what} of {bytes} bytes exceeds the journal's limit of {limit} bytes")]
    JournalTooLong { what: &'static str, bytes: usize, limit: usize },
    /// A read failed.
    #[error("the journal cannot be read: {problem}")]
    JournalRead { problem: String },
    /// A row cannot be understood.
    #[error("the journal's table {table}, row {row}, column {column}: {problem}")]
    JournalRow { table: &'static str, row: String, column: String, problem: String },
    /// No operation has this id.
    #[error("there is no operation {operation} in the journal")]
    OperationUnknown { operation: String },
    /// A step of an operation failed for good, and what had been made was undone (see the report for how completely).
    #[error("{0}")]
    Failed(Box<OperationFailure>),
    /// The operation was left, journalled, to the next start.
    #[error(
        "operation {operation} is left open in the journal; the next start, or `windlass operation resume`, finishes \
         or undoes it"
    )]
    LeftOpen { operation: OperationId },
    /// The journal failed while the operation was under way. The operation stays open; the next start that can write
    /// the journal finishes or undoes it.
    #[error("operation {operation} stopped: {source}")]
    Unrecorded {
        operation: OperationId,
        /// What it has made and not removed, as far as the journal and this process know.
        left: Vec<ResourceName>,
        /// Whether a call was sent that changes something.
        begun: bool,
        /// What the journal said.
        source: Box<Error>,
    },
    /// It was called off before it began; nothing was done.
    #[error("cancelled before it began")]
    NotBegun,
    /// The placement policy creates fewer servers than are wanted.
    #[error("not created, as the placement policy decided{}", .reason.as_ref().map(|it| format!(": {it}")).unwrap_or_default())]
    NotPlaced {
        /// What the policy said.
        reason: Option<String>,
    },
    /// A process that lives works on this operation.
    #[error("operation {operation} is in progress; cancel it, or wait until it has ended")]
    OperationRunning { operation: OperationId },
    /// The operation has ended, so it cannot be ended another way.
    #[error("operation {operation} has ended: it is {state}")]
    OperationEnded { operation: OperationId, state: OperationState },
    /// The server is being cleaned up already.
    #[error("operation {operation} is already removing this server")]
    CleanupUnderWay {
        /// The operation that does it.
        operation: OperationId,
    },
    /// The resource does not carry our owner tag, so it is not touched.
    #[error("{resource} does not carry the tag windlass-owner={owner}, so it is not touched")]
    NotOurs {
        resource: ResourceName,
        /// The owner whose tag was looked for.
        owner: String,
    },
    /// Somebody protected the server, so it is neither deleted nor stopped nor restarted.
    #[error("{}", crate::change::protected_words(.server, .zone))]
    Protected {
        /// Scaleway's id of it.
        server: String,
        zone: String,
    },
    /// Scaleway could not be asked.
    #[error("{what}: {source}")]
    Scaleway {
        /// What was being asked.
        what: &'static str,
        /// What the client says; shared by all who waited for the same answer.
        source: Arc<windlass_scaleway::Error>,
    },
    /// Something about the policies of a stored operation, or the keeping of policies, failed.
    #[error("policies: {0}")]
    Policy(#[from] Box<windlass_policy::Error>),
    /// Registries cannot be used.
    #[error("registries of policies: {0}")]
    Registries(#[from] windlass_distribution::Error),
    /// No host of the pool can be claimed now.
    #[error("no host of the pool {prefix}... in {zone} can be claimed: {counts}")]
    NoEligibleMachine {
        prefix: PoolPrefix,
        zone: windlass_scaleway::Zone,
        /// How many there are, and what stands against each.
        counts: Ineligible,
    },
    /// There are as many hosts as may be.
    #[error("there are {existing} hosts and no more than {limit} may be ordered")]
    MachineLimit {
        /// Counted now.
        existing: usize,
        /// Allowed.
        limit: usize,
    },
    /// A name, or the beginning of one, that no host may have here.
    #[error("{name:?} is not a valid {what}: {problem}")]
    MachineName {
        /// `claim`, `pool prefix` or `prefix of claims`.
        what: &'static str,
        /// The name, cut to a bounded length.
        name: String,
        problem: String,
    },
    /// The host that carries the claim is being claimed or released.
    #[error(
        "host {host} carries the claim, and operation {operation} on it has not ended; wait until it has, or resume it"
    )]
    HostBusy {
        /// Scaleway's id of the host.
        host: String,
        operation: OperationId,
    },
    /// Other processes hold the lock over the names of hosts.
    #[error("other processes are claiming or releasing machines (they hold {}); try again later", path.display())]
    MachinesLocked { path: PathBuf },
    /// Whether a host comes of an order is not known yet: the answer was lost. None is ordered in its place.
    #[error(
        "Scaleway's answer to the order of operation {operation} was lost, so a host may still arrive; Windlass looks \
         for it until {}, and orders no other host before", crate::report::instant_words(*look_at)
    )]
    OrderUnverified {
        /// The operation that ordered it.
        operation: OperationId,
        /// When it is looked for the last time, in milliseconds since 1970.
        look_at: u64,
    },
    /// A policy with which an operation began is not there any more as it was, so that nobody can decide as it would.
    #[error(
        "operation {operation} waits for a policy that it started with and that is missing or changed ({lost}): restore \
         the state directory's folder policies, or run `windlass operation abandon {operation}`"
    )]
    PolicyLost { operation: OperationId, lost: String },
    /// A part of the supervisor's round was dropped in the middle, because it took too long or was asked to stop.
    #[error("the supervisor's task {part} was interrupted; the next round continues it")]
    PartEnded { part: crate::supervisor::Part },
    /// An operation of this id exists.
    #[error("operation {operation} already exists")]
    OperationExists { operation: OperationId },
}

/// How an operation failed, and what the undo did.
#[derive(Clone, Debug)]
pub struct OperationFailure {
    pub operation: OperationId,
    pub kind: OperationKind,
    /// How it was closed.
    pub state: OperationState,
    /// The step that failed first.
    pub step: String,
    /// The first cause.
    pub cause: Failure,
    /// What was removed, kept and left.
    pub report: Report,
    /// What policies said, in order.
    pub reasons: Vec<String>,
    /// Whether it had made nothing.
    pub nothing_was_made: bool,
}

impl OperationFailure {
    /// What was done about it, in one line.
    #[must_use]
    pub fn undone(&self) -> String {
        if self.nothing_was_made { "nothing was made".to_owned() } else { self.report.words() }
    }
}

impl std::fmt::Display for OperationFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} failed at {}: {}; rollback: {}",
            self.operation,
            self.step,
            self.cause.words(),
            self.undone()
        )
    }
}

/// How a newer journal can be opened here. A file has no way back.
fn way_back(path: &Path, found: i64, known: i64) -> String {
    match found > known && path.to_string_lossy().contains("://") {
        true => format!(", or run `windlass state downgrade --to {known}` with it"),
        false => String::new(),
    }
}

/// What a file or folder lacks, and what to do about it.
fn file_words(source: &io::Error) -> String {
    let remedy = match source.kind() {
        io::ErrorKind::NotADirectory => "; it, or a folder above it, is a file",
        io::ErrorKind::PermissionDenied => "; give it to the user that runs this program",
        io::ErrorKind::ReadOnlyFilesystem => "; it must be on a disk that can be written",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on its disk",
        _ => "",
    };
    format!("{source}{remedy}")
}

impl Error {
    /// What a row holds may be quoted in the problem, and stays short there.
    pub(crate) fn journal_row(
        table: &'static str,
        row: impl Into<String>,
        column: impl Into<String>,
        problem: impl std::fmt::Display,
    ) -> Self {
        const MAX_BYTES: usize = 1024;
        let problem = windlass_policy::cut(problem.to_string(), MAX_BYTES);
        Self::JournalRow { table, row: row.into(), column: column.into(), problem }
    }

    pub(crate) fn scaleway(what: &'static str, source: impl Into<Arc<windlass_scaleway::Error>>) -> Self {
        Self::Scaleway { what, source: source.into() }
    }
}

fn article(what: &str) -> String {
    if what.starts_with(['a', 'e', 'i', 'o', 'u']) { format!("an {what}") } else { format!("a {what}") }
}
