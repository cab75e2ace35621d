//! What an operation does while it does it, on stderr: one moving line with the steps under way on a terminal, a line
//! for each step that is through elsewhere.

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use windlass_cluster::{ClusterEvent, ClusterEventKind, ClusterState, OperationState, Progress, progress};
use windlass_inspect::output::Output;
use windlass_inspect::text::{bold, dim, green, printable, red, yellow};
use windlass_inspect::words::counted;

use crate::progress::moving_line;

/// Draws events until their sender is gone.
pub(super) struct Live {
    drawing: JoinHandle<()>,
}

impl Live {
    pub(super) fn follow(events: UnboundedReceiver<ClusterEvent>, output: Output, nodes_too: bool) -> Self {
        Live { drawing: tokio::spawn(draw(events, output, nodes_too)) }
    }

    /// Waits until the last event is drawn.
    pub(super) async fn end(self) {
        // A drawing that failed is no failure of the work.
        let _ = self.drawing.await;
    }
}

async fn draw(mut events: UnboundedReceiver<ClusterEvent>, output: Output, nodes_too: bool) {
    let bar = moving_line(0, output);
    let mut view = View::new(nodes_too);
    while let Some(event) = events.recv().await {
        let lines = view.lines(&event);
        if output.is_lines() {
            output.event("cluster event", &event);
        }
        bar.set_message(view.summary());
        for line in lines {
            if bar.is_hidden() { output.say(&line) } else { bar.suspend(|| output.say(&line)) }
        }
    }
    bar.finish_and_clear();
}

/// What is known of the operations so far: from events to words, without a terminal.
pub(super) struct View {
    nodes_too: bool,
    /// The events of the operation under way.
    events: Vec<ClusterEvent>,
    reported: usize,
}

impl View {
    pub(super) fn new(nodes_too: bool) -> Self {
        View { nodes_too, events: Vec::new(), reported: 0 }
    }

    /// Steps that are not through yet, for the moving line.
    fn summary(&self) -> String {
        let open = progress(&self.events).into_iter().filter(|step| !is_through(step));
        open.map(|step| format!("{} – {}", step.stage, step_line(&step))).collect::<Vec<_>>().join(" · ")
    }

    /// What is said about an event, above the moving line.
    pub(super) fn lines(&mut self, event: &ClusterEvent) -> Vec<String> {
        let mut lines = Vec::new();
        self.events.push(event.clone());
        match &event.what {
            ClusterEventKind::Opened { kind, counts } => {
                let changed = counts.iter().filter(|(_, counts)| counts.before != counts.wanted);
                let changed: Vec<String> =
                    changed.map(|(group, counts)| format!("{group} {} → {}", counts.before, counts.wanted)).collect();
                let changed = if changed.is_empty() { String::new() } else { format!(": {}", changed.join(", ")) };
                lines.push(bold(&format!("{kind} {}{changed}", event.cluster)));
            }
            ClusterEventKind::TakenOver { from } => {
                lines.push(yellow(&printable(&format!("going on with what {from} began"))));
            }
            ClusterEventKind::NodeDone { step, node, .. } if self.nodes_too => {
                lines.push(dim(&printable(&format!("  {node}: {step} done"))));
            }
            ClusterEventKind::NodeFailed { step, node, reason, .. } => {
                lines.push(red(&printable(&format!("  {node}: {step} failed: {reason}"))));
            }
            ClusterEventKind::HookOutput { output, .. } => {
                lines.extend(output.lines().map(|line| dim(&format!("  | {}", printable(line)))));
            }
            ClusterEventKind::Waiting { step, attempt, milliseconds, failure, reason, .. } => {
                let because = reason.as_ref().map(|reason| format!(" – {reason}")).unwrap_or_default();
                let wait = *milliseconds as f64 / 1000.0;
                lines.push(yellow(&printable(&format!(
                    "  {step} failed (attempt {attempt}): {failure}; again in {wait:.1} s{because}"
                ))));
            }
            ClusterEventKind::Recovering(recovery) => {
                let because = recovery.reason.as_ref().map(|reason| format!(" – {reason}")).unwrap_or_default();
                lines.push(yellow(&printable(&format!(
                    "failed at the stage {}: deleting {}, the cluster becomes {}, as {} decided{because}",
                    recovery.stage,
                    counted(recovery.delete.len(), "node"),
                    recovery.state,
                    recovery.decided_by,
                ))));
            }
            ClusterEventKind::StoppingQuietly => {
                lines.push(yellow("the cluster is being deleted: stopping quietly"));
            }
            ClusterEventKind::Closed { state, cluster, .. } => {
                let cluster = cluster.map_or("gone".to_owned(), |state: ClusterState| state.to_string());
                let words = format!("{} is {cluster}", event.cluster);
                lines.push(match state {
                    OperationState::Done => green(&words),
                    OperationState::Failed => red(&words),
                    _ => yellow(&words),
                });
            }
            _ => {}
        }
        // Steps are printed when they end, in that order.
        let steps = progress(&self.events);
        let through = steps.iter().filter(|step| is_through(step)).count();
        if through > self.reported {
            // Only what counts a step up names one.
            if let Some(step) = steps.iter().rev().find(|step| is_through(step) && concerns(step, &event.what)) {
                lines.push(format!("  {:<12} {}", step.stage.to_string(), step_line(step)));
            }
            self.reported = through;
        }
        if matches!(event.what, ClusterEventKind::Closed { .. }) {
            self.events.clear();
            self.reported = 0;
        }
        lines
    }
}

fn is_through(step: &Progress) -> bool {
    step.done + step.failed >= step.total
}

fn concerns(progress: &Progress, what: &ClusterEventKind) -> bool {
    match what {
        ClusterEventKind::StepBegan { stage, step, .. }
        | ClusterEventKind::NodeDone { stage, step, .. }
        | ClusterEventKind::NodeFailed { stage, step, .. } => progress.stage == *stage && progress.step == *step,
        _ => false,
    }
}

fn step_line(step: &Progress) -> String {
    let failed = if step.failed == 0 { String::new() } else { format!(", {} failed", step.failed) };
    format!("{} {}/{}{failed}", step.step, step.done, step.total)
}

#[cfg(test)]
mod tests {
    use windlass_cluster::{Counts, OperationKind, Stage};

    use super::*;

    fn event(what: ClusterEventKind) -> ClusterEvent {
        ClusterEvent { sequence: 0, cluster: "farm".parse().expect("a name"), operation: 1, at: 0, what }
    }

    fn rendered(view: &mut View, what: ClusterEventKind) -> Vec<String> {
        view.lines(&event(what)).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    fn began(stage: Stage, step: &str, total: u32) -> ClusterEventKind {
        ClusterEventKind::StepBegan { stage, step: step.to_owned(), total }
    }

    fn done(stage: Stage, step: &str, node: &str) -> ClusterEventKind {
        ClusterEventKind::NodeDone { stage, step: step.to_owned(), node: node.to_owned() }
    }

    #[test]
    fn a_step_is_told_once_when_its_last_node_is_through() {
        let mut view = View::new(false);
        assert!(rendered(&mut view, began(Stage::Servers, "create servers", 2)).is_empty());
        assert!(rendered(&mut view, done(Stage::Servers, "create servers", "farm-web-1")).is_empty());
        assert_eq!(view.summary(), "servers – create servers 1/2");
        assert_eq!(
            rendered(&mut view, done(Stage::Servers, "create servers", "farm-web-2")),
            ["  servers      create servers 2/2"]
        );
        assert_eq!(view.summary(), "");
    }

    #[test]
    fn both_sides_of_a_resize_are_told_apart() {
        let mut view = View::new(false);
        rendered(&mut view, began(Stage::Resize, "remove servers", 1));
        rendered(&mut view, began(Stage::Resize, "create servers", 2));
        assert_eq!(view.summary(), "resize – remove servers 0/1 · resize – create servers 0/2");
        assert_eq!(
            rendered(&mut view, done(Stage::Resize, "remove servers", "a")),
            ["  resize       remove servers 1/1"]
        );
        rendered(&mut view, done(Stage::Resize, "create servers", "b"));
        let failed = ClusterEventKind::NodeFailed {
            stage: Stage::Resize,
            step: "create servers".to_owned(),
            node: "farm-web-4".to_owned(),
            reason: "out of stock\u{1b}[2J".to_owned(),
        };
        assert_eq!(
            rendered(&mut view, failed),
            [
                "  farm-web-4: create servers failed: out of stock\u{fffd}[2J",
                "  resize       create servers 1/2, 1 failed"
            ]
        );
    }

    #[test]
    fn what_begins_says_what_changes_and_the_end_where_the_cluster_stands() {
        let mut view = View::new(false);
        let counts = [("db", 1, 1), ("web", 3, 5)]
            .map(|(group, before, wanted)| (group.parse().expect("a name"), Counts { before, wanted }));
        let opened = ClusterEventKind::Opened { kind: OperationKind::Scale, counts: counts.into() };
        assert_eq!(rendered(&mut view, opened), ["scale farm: web 3 → 5"]);
        let closed = |cluster| ClusterEventKind::Closed { state: OperationState::Done, cluster, reasons: Vec::new() };
        assert_eq!(rendered(&mut view, closed(Some(ClusterState::Active))), ["farm is active"]);
        assert_eq!(rendered(&mut view, closed(None)), ["farm is gone"]);
    }

    #[test]
    fn a_hooks_output_cannot_steer_the_terminal() {
        let output =
            ClusterEventKind::HookOutput { stage: Stage::Configure, output: "one\n\u{1b}]0;owned\u{7}".into() };
        assert_eq!(rendered(&mut View::new(false), output), ["  | one", "  | \u{fffd}]0;owned\u{fffd}"]);
    }
}
