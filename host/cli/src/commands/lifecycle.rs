//! What the commands on servers and operations share: ending first what was left open, and telling failures and
//! leftovers.

use std::fmt::Display;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_inspect::failure::{Exit, Failure, Leftover};
use windlass_inspect::output::Output;
use windlass_inspect::text::instant;
use windlass_inspect::words::counted;
use windlass_lifecycle::{
    Aftermath, Control, Error, LeftResource, Operation, OperationFilter, OperationId, OperationState, Report,
    ResourceName, Resumed, ResumedOperation,
};
use windlass_scaleway::ErrorClass;

use crate::context::{Context, Work};

/// How long a command waits at most for operations that were interrupted, before its own work.
const INTERRUPTED_FIRST: Duration = Duration::from_secs(30);
/// How long a command that has ended waits for a left-over's call that is under way. The journal knows how far it is.
const LEFT_OVERS_END: Duration = Duration::from_secs(5);

/// What is said where only second looks are due later, and the remedy.
pub(super) const MAY_STILL_TAKE_EFFECT: (&str, &str) =
    ("calls whose answers were lost may still take effect", "later, and again: windlass operation resume");

/// What earlier processes left, which is ended beside a command's own work.
pub(super) struct Beside {
    leave: Box<dyn FnOnce() + Send>,
    work: JoinHandle<Vec<Aftermath>>,
}

impl Beside {
    /// Begins this work, which `leave` tells to end. It returns what it could not end.
    pub(super) fn begin(
        leave: impl FnOnce() + Send + 'static,
        work: impl Future<Output = Vec<Aftermath>> + Send + 'static,
    ) -> Self {
        Self { leave: Box::new(leave), work: tokio::spawn(work) }
    }

    /// Ends it: what is not at its end by then is left to the next start. Returns what could not be ended, for a
    /// command that fails: see [`Failure::with_left_beside`].
    pub(super) async fn end(mut self) -> Vec<Aftermath> {
        (self.leave)();
        match tokio::time::timeout(LEFT_OVERS_END, &mut self.work).await {
            Ok(ended) => ended.unwrap_or_default(),
            Err(_) => {
                self.work.abort();
                vec![Aftermath::Open]
            }
        }
    }
}

/// Ends what earlier processes left open. Operations that were interrupted are ended before the command begins, as far
/// as that can be done soon; what was tried before is tried `beside` it when it is due, and never waited for.
///
/// # Errors
/// Where the state directory is a copy or was set back: nothing can be done with it.
pub(super) async fn take_up(
    context: &Context,
    work: &Work,
    control: &Control,
    beside: bool,
) -> Result<Beside, Failure> {
    let elsewhere = |error| lifecycle_failure("nothing was done", &error);
    work.lifecycle.check_history_in(std::slice::from_ref(&work.zone)).await.map_err(elsewhere)?;
    let (first, interrupted_ended) = oneshot::channel();
    let (leave, output) = (Control::new(), context.output);
    let (lifecycle, own) = (work.lifecycle.clone(), leave.clone());
    let end = leave.clone();
    let taking_up = Beside::begin(move || end.leave(), async move {
        let mut not_ended = report_resumed(output, lifecycle.resume_interrupted(&own).await);
        let _ = first.send(());
        if beside && !own.left().is_cancelled() {
            not_ended.extend(report_resumed(output, lifecycle.resume_due(&own).await));
        }
        not_ended
    });
    tokio::select! {
        biased;
        _ = interrupted_ended => {}
        () = control.cancelled().cancelled() => leave.leave(),
        () = control.left().cancelled() => leave.leave(),
        () = tokio::time::sleep(INTERRUPTED_FIRST) => {
            output.say("note: operations of earlier processes are still being finished or undone; this command does not wait for them");
        }
    }
    match work.lifecycle.check_history() {
        Ok(()) => Ok(taking_up),
        Err(error) => {
            taking_up.end().await;
            Err(elsewhere(error))
        }
    }
}

/// Says what became of operations that were taken up, and returns what is left of them.
fn report_resumed(output: Output, resumed: Result<Resumed, Error>) -> Vec<Aftermath> {
    let resumed = match resumed {
        Ok(resumed) => resumed,
        // Somebody else is doing it.
        Err(Error::RecoveryRunning { .. }) => return Vec::new(),
        Err(error) => {
            output.say(&format!("note: operations of earlier processes cannot be finished now: {error}"));
            return vec![error.aftermath()];
        }
    };
    for operation in &resumed.operations {
        let report = operation.report.as_ref().map(|report| format!(": {}", report.words())).unwrap_or_default();
        let problem = operation.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
        output.say(&format!(
            "note: {} was left open by an earlier process; it is {} now{report}{problem}",
            operation.operation, operation.state
        ));
    }
    if let Some(next) = resumed.waiting.iter().map(|waiting| waiting.next_try).min() {
        let operations = counted(resumed.waiting.len(), "operation");
        output.say(&format!(
            "note: {operations} left something behind; the next try is at {}, or now: windlass operation resume",
            instant(next)
        ));
    }
    let aftermath = |operation: &ResumedOperation| match (&operation.report, &operation.problem) {
        (Some(report), _) => report.aftermath(),
        (None, Some(_)) => Aftermath::Open,
        (None, None) => Aftermath::Clean,
    };
    resumed.operations.iter().map(aftermath).collect()
}

/// What will be ended before the command's own work, in words to be followed by its question: operations that this
/// state directory has open and whose process has died. Empty where there are none.
pub(super) fn left_open_words(work: &Work) -> Result<String, Failure> {
    let mut filter = OperationFilter::default();
    filter.states = vec![OperationState::Open];
    let open = work.lifecycle.journal().operations(&filter);
    let open = open.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    Ok(match open.iter().filter(|operation| !work.lifecycle.journal().runner_lives(&operation.runner)).count() {
        0 => String::new(),
        1 => "An operation that an earlier process left open is finished or undone first. ".to_owned(),
        count => format!("{count} operations that an earlier process left open are finished or undone first. "),
    })
}

/// That a policy keeps what an operation had made, and what is done about it.
pub(super) const KEPT: (&str, &str) =
    ("a policy keeps what was made", "to delete a server that is kept: windlass server delete --force ID");

/// What policies keep of these operations.
pub(super) fn kept_of<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Vec<Leftover> {
    operations.into_iter().filter_map(Report::of).flat_map(|report| left_by_policy(&report)).collect()
}

/// What a policy keeps.
pub(super) fn left_by_policy(report: &Report) -> Vec<Leftover> {
    let left =
        |resource: &ResourceName| LeftResource { resource: resource.clone(), why: "a policy keeps it".to_owned() };
    report.kept.iter().map(|resource| left(resource).into()).collect()
}

/// What is done about an operation that could not be ended.
pub(super) const RESUME_AGAIN: &str =
    "remove the causes, or wait until a policy is to be asked again, then: windlass operation resume";

/// A document with what is said beside "nothing".
pub(super) fn noted(mut document: Value, notes: &[String]) -> Value {
    if !notes.is_empty() {
        document["notes"] = notes.into();
    }
    document
}

/// A zone of which Scaleway knows nothing.
pub(super) fn no_servers_in(zone: &windlass_scaleway::Zone) -> Failure {
    let failure = Failure::usage(format!("zone: {}", windlass_lifecycle::no_servers_in(zone)));
    if windlass_scaleway::Zone::KNOWN.contains(&zone.as_str()) {
        return failure.remedy("check the API's URL: SCW_API_URL, --api-url, or `windlass config show`");
    }
    failure.remedy("list the zones with `windlass zone list`")
}

/// An error of the lifecycle that is not about a single server.
pub(super) fn lifecycle_failure(what: &str, error: &Error) -> Failure {
    let failure = match error {
        Error::Scaleway { what: doing, source } => scaleway_failure(what, Some(doing), source),
        Error::Specification { .. } | Error::Name { .. } => Failure::usage(error.to_string()),
        Error::HistoryMoved { path, evidence } => {
            let path = path.display().to_string();
            let (kind, option) = match path.contains("://") {
                true => ("state in", String::new()),
                false => ("state directory", format!(" --state-dir {path}")),
            };
            Failure::undone(format!("{what}: the {kind} {path} cannot be relied on"))
                .because(evidence)
                .because(
                    "what it was copied from may still be in use, or may have gone on after the copy was made, so \
                     nothing is created, undone, taken over or removed with it",
                )
                .remedy(format!(
                    "windlass state take-over{option}, if nothing uses that history any more (after `state migrate`: \
                     use the new place, or add --force if it is lost); or another state directory and another owner"
                ))
        }
        Error::CleanupUnderWay { operation } => {
            Failure::undone(what).caused_by(error).remedy(format!("windlass operation watch {operation}"))
        }
        other => Failure::undone(what).caused_by(other),
    };
    let failure = failure.ended([error.aftermath()], Vec::new(), false);
    match failure.exit {
        Exit::Left if failure.remedy.is_none() => failure.remedy("windlass operation resume"),
        _ => failure,
    }
}

/// A call to Scaleway that failed while something was done: where, why, and what to do about it.
pub(super) fn scaleway_failure(what: &str, doing: Option<&str>, error: &windlass_scaleway::Error) -> Failure {
    let place = error.method().zip(error.path()).map(|(method, path)| format!("{method} {path}"));
    let words = error.to_string();
    let of_place = place.as_ref().and_then(|place| words.strip_prefix(place)?.strip_prefix(": "));
    let why = of_place.unwrap_or(&words);
    let mut failure =
        Failure::undone(what).because(doing.map_or_else(|| why.to_owned(), |doing| format!("{doing}: {why}")));
    failure.place = place;
    failure.remedy = remedy(error.class()).map(str::to_owned);
    failure
}

/// What to do about a refused or lost call, where that is the same whatever was called.
fn remedy(class: ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::AuthenticationDenied => Some(
            "the secret key is wrong, expired or deleted: correct SCW_SECRET_KEY or the profile, then: windlass doctor",
        ),
        ErrorClass::PermissionDenied => Some(
            "give the key's application this right in Scaleway's console, under IAM, policies; `windlass doctor` shows \
             which rights are missing",
        ),
        ErrorClass::RateLimited => {
            Some("try again in a minute, or lower requests_per_second in [limits] of the configuration")
        }
        ErrorClass::ServerError | ErrorClass::Gateway | ErrorClass::Timeout => {
            Some("try again later; https://status.scaleway.com shows whether Scaleway has a problem")
        }
        ErrorClass::Connection | ErrorClass::MalformedAnswer => {
            Some("check --api-url, SCW_API_URL and the proxy; `windlass doctor` shows what answers")
        }
        _ => None,
    }
}

/// Who runs this command, for the journal.
pub(super) fn user() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|name| !name.is_empty()));
    name.unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()))
}

pub(super) fn left_of(report: &Report) -> impl Iterator<Item = Leftover> + '_ {
    report.left.iter().cloned().map(Leftover::from)
}

/// What was undone for an operation, beside what is left, which has lines of its own.
pub(super) fn undone_line(operation: &impl Display, report: &Report) -> Option<String> {
    report.words_beside_left().map(|words| format!("{operation}: {words}"))
}

/// What an operation has made and not removed, as far as the journal says, and why it is there.
pub(super) fn made_by(work: &Work, operation: &OperationId, reason: &str) -> Result<Vec<Leftover>, Failure> {
    let made = work.lifecycle.journal().made_by(operation);
    let made = made.map_err(|error| lifecycle_failure("the journal cannot be read", &error))?;
    Ok(made.into_iter().map(|resource| LeftResource { resource, why: reason.to_owned() }.into()).collect())
}

/// What a lost call of an operation may still leave.
pub(super) fn unverified(operation: &OperationId, zone: &str, look_at: u64) -> Leftover {
    Leftover {
        kind: "unverified".to_owned(),
        id: operation.to_string(),
        zone: zone.to_owned(),
        reason: format!(
            "a call whose answer was lost may still take effect; Windlass looks for its effect again from {} on",
            instant(look_at)
        ),
    }
}
