//! The journal.

use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use windlass_lifecycle::{
    Entry, Error, Journal, Operation, OperationFilter, OperationId, OperationKind, OperationState, Phase,
    RemovedMachine, Report,
};

use crate::Inspector;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::fields;
use crate::removals::requested_lines;
use crate::text::{age, ago, bold, dim, green, instant, printable, red, yellow};
use crate::timeline::{Attempt, End, Step, attempt_words, is_empty, note_words, steps};
use crate::words::{human_duration, why_words};

/// The document that lists operations.
#[derive(Debug, Serialize)]
pub struct Operations {
    /// The newest first.
    pub operations: Vec<Operation>,
}

/// The document that lists operations with who works on them.
#[derive(Serialize)]
struct Listed<'n> {
    operations: Vec<WithWorker>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: &'n [String],
}

/// The document of one operation.
#[derive(Serialize)]
struct Shown {
    operation: WithWorker,
    entries: Vec<Entry>,
}

/// An operation, and whether somebody works on it.
#[derive(Serialize)]
struct WithWorker {
    #[serde(flatten)]
    operation: Operation,
    /// The process that works on an open operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<Worker>,
    /// The machines that it removed, where these are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<RemovedMachine>,
}

/// Whether the process lives that works on an open operation.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Worker {
    Alive,
    Dead,
}

impl Worker {
    fn as_str(self) -> &'static str {
        match self {
            Worker::Alive => "alive",
            Worker::Dead => "dead",
        }
    }
}

/// A journal that cannot be read.
#[must_use]
pub fn unreadable(error: &Error) -> Failure {
    Failure::usage("the journal cannot be read").because(error.to_string())
}

impl Inspector<'_> {
    /// The journal; none where nothing was ever done.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn journal(&self) -> Result<Option<Journal>, Failure> {
        match Journal::read_only(self.state) {
            Ok(journal) => Ok(Some(journal)),
            Err(Error::JournalAbsent { .. }) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// An operation's id as somebody has typed it.
    ///
    /// # Errors
    /// It is none.
    pub fn operation_id(&self, text: &str) -> Result<OperationId, Failure> {
        self.refuse_empty(text)?;
        OperationId::parse(text).map_err(|error| {
            let failure = Failure::unknown(format!("there is no operation {text}"));
            failure.because(error.to_string()).remedy(self.commands.operations)
        })
    }

    fn refuse_empty(&self, text: &str) -> Result<(), Failure> {
        match text.is_empty() {
            true => Err(Failure::usage("the operation's id is empty").remedy(self.commands.operations)),
            false => Ok(()),
        }
    }

    /// Why an operation cannot be shown.
    #[must_use]
    pub fn unknown_operation(&self, id: &OperationId) -> Failure {
        Failure::unknown(format!("there is no operation {id} in this journal")).remedy(self.commands.operations)
    }

    /// One operation.
    ///
    /// # Errors
    /// There is none of this id, or the journal cannot be read.
    pub fn read_operation(&self, journal: &Journal, id: &OperationId) -> Result<Operation, Failure> {
        journal.operation(id).map_err(|error| match error {
            Error::OperationUnknown { .. } => self.unknown_operation(id),
            other => unreadable(&other),
        })
    }

    /// Operations, the newest first.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn find_operations(&self, filter: &OperationFilter) -> Result<Vec<Operation>, Failure> {
        match self.journal()? {
            Some(journal) => journal.operations(filter).map_err(|error| unreadable(&error)),
            None => Ok(Vec::new()),
        }
    }

    /// Lists operations. `notes` are said where there are none.
    pub fn operations(&self, operations: Vec<Operation>, notes: &[String]) {
        let operations = operations.into_iter().map(|row| self.with_worker(row)).collect();
        let listing = Listed { operations, notes };
        let operations =
            Listing::new(&listing.operations, "no operations", |it: &WithWorker| it.operation.id.to_string())
                .column("operation", |it| it.operation.id.to_string())
                .column("kind", |it| it.operation.kind.to_string())
                .column("state", |it| it.operation.state.to_string())
                .column("worker", |it| it.worker.map(Worker::as_str).unwrap_or_default().to_owned())
                .spare(2)
                .wide("group", |it| it.operation.group.clone())
                .column("zone", |it| it.operation.zone.clone())
                .spare(3)
                .wide("owner", |it| it.operation.owner.clone())
                .wide("process", |it| it.operation.runner.clone())
                .wide("began", |it| instant(it.operation.created_at))
                .column("age", |it| age(it.operation.created_at))
                .spare(1)
                .column("cause", |it| why_words(&it.operation))
                .wide("ended by", |it| it.operation.ended_by.as_ref().map(ToString::to_string).unwrap_or_default())
                .notes(notes);
        self.output.listing(&listing, &operations);
    }

    /// Operations that removed machines, the newest first, each with these machines.
    ///
    /// # Errors
    /// A journal that cannot be read.
    pub fn find_removals(&self, filter: &OperationFilter) -> Result<Vec<(Operation, Vec<RemovedMachine>)>, Failure> {
        match self.journal()? {
            Some(journal) => journal.removing(filter).map_err(|error| unreadable(&error)),
            None => Ok(Vec::new()),
        }
    }

    /// Lists the machines that operations removed, the last first: where, who asked, who decided it, and why. `notes`
    /// are said where there are none.
    pub fn removals(&self, found: Vec<(Operation, Vec<RemovedMachine>)>, notes: &[String]) {
        let with_removed = |(operation, removed)| WithWorker { removed, ..self.with_worker(operation) };
        let listing = Listed { operations: found.into_iter().map(with_removed).collect(), notes };
        let rows = listing.operations.iter();
        let rows = rows.flat_map(|it| it.removed.iter().map(move |removed| (&it.operation, removed)));
        let mut rows: Vec<Removal<'_>> = rows.collect();
        rows.sort_by_key(|(_, removed)| Reverse(removed.at));
        let removals =
            Listing::new(&rows, "no machine was removed", |(operation, _): &Removal<'_>| operation.id.to_string())
                .column("at", |(_, removed)| instant(removed.at))
                .wide("operation", |(operation, _)| operation.id.to_string())
                .column("host", |(operation, _)| operation.host.clone().unwrap_or_default())
                .spare(2)
                .column("group", |(operation, _)| operation.subject_group().unwrap_or_else(|| operation.owner.clone()))
                .spare(3)
                .wide("owner", |(operation, _)| operation.owner.clone())
                .shortened(
                    "machine",
                    |(_, removed)| machine_words(removed, false),
                    |(_, removed)| machine_words(removed, true),
                )
                .column("zone", |(_, removed)| removed.machine.zone.clone())
                .spare(4)
                .column("step", |(_, removed)| removed.step.clone())
                .spare(5)
                .column("requested by", |(operation, _)| requested_words(operation))
                .column("decided by", |(_, removed)| {
                    removed.decided_by.clone().unwrap_or_else(|| "no policy".to_owned())
                })
                .column("reason", |(_, removed)| removed.reason.clone().unwrap_or_default())
                .spare(1)
                .wide("decision", |(_, removed)| removed.decision.clone().unwrap_or_default())
                .notes(notes);
        self.output.listing(&listing, &removals);
    }

    fn with_worker(&self, operation: Operation) -> WithWorker {
        let worker = (operation.state == OperationState::Open)
            .then(|| if self.state.runner_lives(&operation.runner) { Worker::Alive } else { Worker::Dead });
        WithWorker { operation, worker, removed: Vec::new() }
    }

    /// Shows one operation: its steps, what failed, what was undone, and why. `text` is its id; or the id, the name or
    /// an address of a server, of which it shows the removal, or the creation where nothing has removed it; or the id
    /// or the claim of a Mac, of which it shows the newest operation.
    ///
    /// # Errors
    /// There is none, or the journal cannot be read.
    pub fn operation(&self, text: &str) -> Result<(), Failure> {
        self.refuse_empty(text)?;
        let id = OperationId::parse(text);
        let unknown = || match &id {
            Ok(id) => self.unknown_operation(id),
            Err(error) => Failure::unknown(format!("the journal has no machine and no operation '{text}'"))
                .because(error.to_string())
                .remedy(self.commands.operations),
        };
        let journal = self.journal()?.ok_or_else(unknown)?;
        let found = id.as_ref().ok().map(|id| journal.operation(id));
        let operation = match found {
            Some(Ok(operation)) => operation,
            Some(Err(Error::OperationUnknown { .. })) | None => {
                let known = journal.known_servers(text).map_err(|error| unreadable(&error))?;
                let operation = known.into_iter().find_map(|server| server.removal().cloned().or(server.created_by));
                let of_machine = journal.operations_of_machine(text).map_err(|error| unreadable(&error))?;
                operation.or_else(|| of_machine.into_iter().next()).ok_or_else(unknown)?
            }
            Some(Err(other)) => return Err(unreadable(&other)),
        };
        let id = operation.id.clone();
        let operation = self.with_worker(operation);
        let entries = journal.entries(&id).map_err(|error| unreadable(&error))?;
        let shown = Shown { operation, entries };
        self.output.result(&shown, || rendered(&shown, self.output.is_wide()));
        Ok(())
    }
}

/// A machine that an operation removed.
type Removal<'o> = (&'o Operation, &'o RemovedMachine);

fn machine_words(removed: &RemovedMachine, with_id: bool) -> String {
    let RemovedMachine { name, machine, .. } = removed;
    match name {
        Some(name) if with_id => format!("{name} ({})", machine.id),
        Some(name) => name.clone(),
        None => machine.id.clone(),
    }
}

/// Who asked for a removal, and why. Nobody asked for the undo of a creation: that has failed or was cancelled.
fn requested_words(operation: &Operation) -> String {
    match (operation.kind, operation.requested_by()) {
        (OperationKind::CreateServer, _) => format!("its creation failed: {}", why_words(operation)),
        (_, Some(requested)) => requested.to_string(),
        (_, None) => "unknown".to_owned(),
    }
}

/// `wide`: each entry of the journal, with its data.
fn rendered(shown: &Shown, wide: bool) -> String {
    let WithWorker { operation, worker, .. } = &shown.operation;
    let mut lines = vec![
        ("operation", operation.id.to_string()),
        ("kind", operation.kind.to_string()),
        ("state", operation.state.to_string()),
        ("group", operation.group.clone()),
        ("zone", operation.zone.clone()),
        ("owner", operation.owner.clone()),
    ];
    lines.extend(operation.host.clone().map(|host| ("on host", host)));
    for key in ["claim", "host"] {
        lines.extend(operation.specification[key].as_str().map(|value| (key, value.to_owned())));
    }
    lines.push(("began", format!("{} ({})", instant(operation.created_at), ago(operation.created_at))));
    if let Some(took) = operation.took() {
        lines.push(("took", milliseconds(took)));
    }
    match worker {
        Some(Worker::Alive) => lines.push(("worker", format!("alive: process {}", operation.runner))),
        Some(Worker::Dead) => {
            lines.push(("worker", "dead: the next start finishes or undoes the operation".to_owned()));
        }
        None => {}
    }
    lines.extend(requested_lines(operation));
    let why = why_words(operation);
    if !why.is_empty() {
        lines.push(("cause", why));
    }
    for (position, reason) in operation.reasons.iter().enumerate() {
        lines.push((if position == 0 { "reasons" } else { "" }, reason.clone()));
    }
    if let Some(look_at) = operation.look_at.filter(|_| operation.state == OperationState::Unverified) {
        lines.push((
            "look again",
            format!("{}, since a call whose answer was lost may still take effect", instant(look_at)),
        ));
    }
    if let Some(ended_by) = &operation.ended_by {
        lines.push(("ended by", ended_by.to_string()));
    }
    let report = Report::of(operation);
    for (position, name) in report.iter().flat_map(|report| &report.abandoned).enumerate() {
        lines.push((if position == 0 { "abandoned" } else { "" }, name.to_string()));
    }
    let mut text = fields(&lines);
    text.push_str(&format!("\n{}\n", bold("steps")));
    if wide {
        text.extend(shown.entries.iter().map(|entry| entry_line(operation, entry, &data_words(&entry.data))));
    } else {
        text.extend(steps(&shown.entries).iter().map(|step| step_lines(operation, step)));
    }
    text
}

/// A step with its failed attempts below it, with the time since its operation began.
fn step_lines(operation: &Operation, step: &Step) -> String {
    let took = step.ended.map(|ended| ended.saturating_sub(step.began)).filter(|took| *took >= MIN_SHOWN_MS);
    let end = match step.end {
        End::Open => format!("  {}", yellow("not ended")),
        End::Done => took.map(|took| dim(&format!("  took {}", milliseconds(took)))).unwrap_or_default(),
        End::Failed if step.attempts.is_empty() => format!("  {}", red("failed")),
        End::Failed => String::new(),
        End::Note => format!("  {}", printable(&note_words(&step.name, &step.data))),
    };
    let id = step.resource.as_ref().map(|resource| format!("  {}", resource.id)).unwrap_or_default();
    let mut lines = line(operation, step.began, &step.name, &id, &end);
    for attempt in &step.attempts {
        lines.push_str(&line(operation, attempt.at, "", "", &format!("  {}", printable(&attempt_words(attempt)))));
    }
    lines
}

/// Shorter durations of steps are not shown.
const MIN_SHOWN_MS: u64 = 500;

/// One entry of the journal in one line, with the time since its operation began.
#[must_use]
pub fn entry_words(operation: &Operation, entry: &Entry) -> String {
    entry_line(
        operation,
        entry,
        &printable(&match entry.phase {
            Phase::Intent | Phase::Outcome => String::new(),
            Phase::Failure => attempt_words(&Attempt::of(entry)),
            Phase::Note => note_words(&entry.step, &entry.data),
        }),
    )
}

fn entry_line(operation: &Operation, entry: &Entry, words: &str) -> String {
    let phase = match entry.phase {
        Phase::Intent => dim("begins"),
        Phase::Outcome => green("done  "),
        Phase::Failure => red("failed"),
        Phase::Note => yellow("note  "),
    };
    let words = if words.is_empty() { String::new() } else { format!("  {words}") };
    let resource = entry.resource.as_ref().map(|name| format!("  {} {}", name.kind, name.id)).unwrap_or_default();
    format!("  {phase}{}", line(operation, entry.at, &entry.step, &resource, &words))
}

fn line(operation: &Operation, at: u64, step: &str, resource: &str, end: &str) -> String {
    let after = milliseconds(at.saturating_sub(operation.created_at));
    let text = format!("  {after:>9}  {:<19}{}{end}", printable(step), printable(resource));
    format!("{}\n", text.trim_end())
}

fn milliseconds(duration: u64) -> String {
    human_duration(Duration::from_millis(duration))
}

fn data_words(data: &Value) -> String {
    if is_empty(data) { String::new() } else { dim(&printable(&data.to_string())) }
}
