//! What operations do while they do it, on stderr: one moving line on a terminal, plain lines elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use windlass_inspect::output::Output;
use windlass_inspect::text::{dim, green, printable, red, yellow};
use windlass_inspect::words::counted;
use windlass_lifecycle::{Event, EventKind, OperationKind, OperationState};
use windlass_proof::Progress as QuestionProgress;

/// How often a view looks for news of another process.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Draws events until their sender is gone.
pub(crate) struct Progress {
    drawing: JoinHandle<()>,
}

impl Progress {
    /// Begins to draw. `total` is how many operations are expected.
    pub(crate) fn follow(events: UnboundedReceiver<Event>, total: usize, output: Output, steps_too: bool) -> Self {
        Progress { drawing: tokio::spawn(draw(events, total, output, steps_too)) }
    }

    /// Waits until the last event is drawn.
    pub(crate) async fn end(self) {
        // A drawing that failed is no failure of the work.
        let _ = self.drawing.await;
    }
}

async fn draw(mut events: UnboundedReceiver<Event>, total: usize, output: Output, steps_too: bool) {
    let bar = moving_line(total, output);
    let mut doing: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = Lines { steps_too, plans: BTreeSet::new() };
    while let Some(event) = events.recv().await {
        let line = lines.of(&event);
        match &event.what {
            EventKind::StepBegan { step } => {
                doing.insert(event.operation.to_string(), step.clone());
            }
            EventKind::Closed { .. } | EventKind::LeftOpen => {
                doing.remove(event.operation.as_str());
                bar.inc(1);
            }
            _ => {}
        }
        bar.set_message(summary(&doing));
        match line {
            None => {}
            // Above the moving line, where there is one.
            Some(line) if !bar.is_hidden() => bar.suspend(|| output.say(&line)),
            Some(line) => output.say(&line),
        }
    }
    bar.finish_and_clear();
}

/// The moving line for so many operations; for an unknown number where none is given. Hidden without a terminal.
pub(crate) fn moving_line(total: usize, output: Output) -> ProgressBar {
    const REDRAW: Duration = Duration::from_millis(120);
    if output.quiet {
        return ProgressBar::hidden();
    }
    // Hidden by itself where stderr is no terminal.
    let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
    // How many operations a sweep or a resume will find is not known before.
    let template =
        if total > 0 { "{spinner} {pos}/{len} {elapsed} {wide_msg}" } else { "{spinner} {elapsed} {wide_msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(REDRAW);
    bar
}

/// The moving line of many questions: how many of them were asked.
pub(crate) fn questions_line(progress: Arc<QuestionProgress>, output: Output) -> ProgressBar {
    let bar = moving_line(0, output);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {questions}") {
        let questions = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
            let (asked, all) = progress.now();
            // Before it is known how many there are, nothing is said of them.
            if let Some(percent) = asked.saturating_mul(100).checked_div(all) {
                // Without words the line is empty, which is no failure.
                let _ = write!(text, "{asked} of {all} questions ({percent}%)");
            }
        };
        bar.set_style(style.with_key("questions", questions));
    }
    bar
}

/// How many operations are at which step: `3 wait-until-running, 1 create-ip`.
pub(crate) fn summary(doing: &BTreeMap<String, String>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in doing.values() {
        *counts.entry(step).or_default() += 1;
    }
    counts.iter().map(|(step, count)| format!("{count} {step}")).collect::<Vec<_>>().join(", ")
}

/// What is said about one event after the other.
struct Lines {
    steps_too: bool,
    /// The rollbacks that were said: one that cannot go on is planned again and again.
    plans: BTreeSet<String>,
}

impl Lines {
    fn of(&mut self, event: &Event) -> Option<String> {
        let line = line(event, self.steps_too)?;
        let is_plan = matches!(event.what, EventKind::Undoing { .. });
        (!is_plan || self.plans.insert(line.clone())).then_some(line)
    }
}

/// One event in one line; `None` for what only matters when steps are wanted, too.
fn line(event: &Event, steps_too: bool) -> Option<String> {
    let because = |reason: &Option<String>| reason.as_ref().map(|reason| format!(" – {reason}")).unwrap_or_default();
    let (text, paint): (String, fn(&str) -> String) = match &event.what {
        EventKind::Opened if steps_too => (format!("{} begins", event.kind), dim),
        EventKind::StepBegan { .. } | EventKind::Opened => return None,
        EventKind::StepDone { step, resource } if steps_too => {
            let resource = resource.as_ref().map(|resource| format!(": {} {}", resource.kind, resource.id));
            (format!("{step} done{}", resource.unwrap_or_default()), dim)
        }
        EventKind::StepDone { .. } => return None,
        EventKind::Waiting { step, attempt, milliseconds, failure, reason } => (
            format!(
                "{step} failed (attempt {attempt}): {failure}; again in {:.1} s{}",
                *milliseconds as f64 / 1000.0,
                because(reason)
            ),
            yellow,
        ),
        EventKind::Undoing { cause: Some(cause), resources, decided_by, reason } => (
            format!(
                "{cause}; rolling back {} as {decided_by} planned{}",
                counted(resources.len(), "resource"),
                because(reason)
            ),
            yellow,
        ),
        EventKind::Undoing { cause: None, .. } if !steps_too => return None,
        EventKind::Undoing { cause: None, resources, decided_by, reason } => (
            format!("removing {} as {decided_by} planned{}", counted(resources.len(), "resource"), because(reason)),
            dim,
        ),
        EventKind::RemovingDoubles { resources, decided_by } => {
            (format!("removing {} resources made twice, as {decided_by} planned", resources.len()), dim)
        }
        EventKind::Closed { state } => match (state, event.kind) {
            (OperationState::Done, OperationKind::CreateServer) => ("the server runs".to_owned(), green),
            (OperationState::Done, _) => ("the removal has ended".to_owned(), green),
            (OperationState::Undone, _) => ("undone".to_owned(), yellow),
            (OperationState::Kept, _) => ("undone, and some of it kept on purpose".to_owned(), yellow),
            (OperationState::Left, _) => ("something is LEFT".to_owned(), red),
            (OperationState::Abandoned, _) => ("abandoned".to_owned(), yellow),
            (OperationState::Unverified, _) => (
                "nothing is left that can be seen; a call whose answer was lost may still take effect".to_owned(),
                yellow,
            ),
            (OperationState::Open, _) => return None,
        },
        EventKind::LeftOpen => ("left open, for the next start".to_owned(), yellow),
        _ => return None,
    };
    Some(format!("{}  {}", event.operation, paint(&printable(&text))))
}

#[cfg(test)]
mod tests {
    use windlass_lifecycle::OperationId;

    use super::*;

    fn reported(what: EventKind, steps_too: bool) -> Option<String> {
        let event = Event {
            operation: OperationId::parse("ci-k3v9q20mfz7a").expect("an id"),
            kind: OperationKind::CreateServer,
            group: "ci".to_owned(),
            what,
            at: 0,
        };
        line(&event, steps_too).map(|line| anstream::adapter::strip_str(&line).to_string())
    }

    #[test]
    fn a_wait_says_what_failed_how_long_and_who_wanted_it() {
        let waiting = EventKind::Waiting {
            step: "power-on".to_owned(),
            attempt: 2,
            milliseconds: 1500,
            failure: "internal error (500)".to_owned(),
            reason: Some("backs off".to_owned()),
        };
        assert_eq!(
            reported(waiting, false).as_deref(),
            Some("ci-k3v9q20mfz7a  power-on failed (attempt 2): internal error (500); again in 1.5 s – backs off")
        );
    }

    #[test]
    fn steps_are_told_only_when_they_are_wanted() {
        let done = EventKind::StepDone { step: "create-ip".to_owned(), resource: None };
        assert_eq!(reported(done.clone(), false), None);
        assert_eq!(reported(done, true).as_deref(), Some("ci-k3v9q20mfz7a  create-ip done"));
    }

    #[test]
    fn a_rollback_that_is_planned_again_is_said_once() {
        let undoing = |cause: &str| Event {
            operation: OperationId::parse("ci-k3v9q20mfz7a").expect("an id"),
            kind: OperationKind::CreateServer,
            group: "ci".to_owned(),
            what: EventKind::Undoing {
                cause: Some(cause.to_owned()),
                resources: Vec::new(),
                decided_by: "the default".to_owned(),
                reason: None,
            },
            at: 0,
        };
        let mut lines = Lines { steps_too: false, plans: BTreeSet::new() };
        let said: Vec<bool> =
            ["power-on", "power-on", "create-ip"].map(|cause| lines.of(&undoing(cause)).is_some()).to_vec();
        assert_eq!(said, [true, false, true]);
    }

    #[test]
    fn the_moving_line_counts_operations_by_step() {
        let doing = [("a", "power-on"), ("b", "create-ip"), ("c", "power-on")];
        let doing = doing.map(|(id, step)| (id.to_owned(), step.to_owned())).into_iter().collect();
        assert_eq!(summary(&doing), "1 create-ip, 2 power-on");
    }
}
