//! An operation's journal entries as steps: what was called, how often, how long it took, and how it ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use windlass_lifecycle::{Entry, Phase, ResourceName};
use windlass_policy::slots::types::Failure;

use crate::words::{brief, counted, human_duration};

/// One step of an operation: a call with its attempts, or a note.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// As the journal names it: `create-server`.
    pub name: String,
    /// What it made, changed or was about.
    pub resource: Option<ResourceName>,
    /// Milliseconds since 1970.
    pub began: u64,
    /// Milliseconds since 1970. Absent while it is open.
    pub ended: Option<u64>,
    /// How it ended.
    pub end: End,
    /// The attempts that failed.
    pub attempts: Vec<Attempt>,
    /// What else was written down.
    pub data: Value,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not yet, as far as the journal says.
    Open,
    /// Completed.
    Done,
    /// Given up.
    Failed,
    /// Not a call: what was found or decided.
    Note,
}

/// An attempt that failed, and what was decided then.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Attempt {
    /// When it failed, in milliseconds since 1970.
    #[serde(skip)]
    pub at: u64,
    /// Its number, from 1.
    #[serde(default)]
    pub attempt: Option<u32>,
    /// The decision about it, of the slot `retry`.
    #[serde(default)]
    pub decision: Option<String>,
    /// Why it failed.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// Milliseconds until the next attempt. Absent if there was none.
    #[serde(default)]
    pub wait: Option<u64>,
    /// The reason that the policy gave.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A step of the plan by which something is undone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PlanStep {
    /// `delete`, `detach`, `keep` or another action of the contract.
    pub action: String,
    /// The positions of the steps that come before it.
    #[serde(default)]
    pub after: Vec<usize>,
    /// Its resource, as the decision's question counts them.
    pub resource: usize,
}

/// The plan by which something is undone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// The policy.
    #[serde(default)]
    pub decided_by: Option<String>,
    /// The id of the decision.
    #[serde(default)]
    pub decision: Option<String>,
    /// The reason that the policy gave.
    #[serde(default)]
    pub reason: Option<String>,
    /// In the order of the plan.
    pub steps: Vec<PlanStep>,
}

impl Plan {
    /// The plan that a step of the journal notes; `None` for any other step.
    #[must_use]
    pub fn of(step: &Step) -> Option<Self> {
        let is_plan = step.end == End::Note && step.name == "plan";
        is_plan.then(|| serde_json::from_value(step.data.clone()).ok()).flatten()
    }

    /// How many steps come before each at least. What names a step that is none, or itself, counts as a first one.
    #[must_use]
    pub fn depths(&self) -> Vec<usize> {
        let mut depths = vec![0; self.steps.len()];
        // Each round settles one more layer; what is not settled then goes in circles.
        for _ in 0..self.steps.len() {
            for (position, step) in self.steps.iter().enumerate() {
                let before = step.after.iter().filter(|before| **before != position);
                let deepest = before.filter_map(|before| depths.get(*before)).max().map_or(0, |depth| depth + 1);
                depths[position] = deepest.min(self.steps.len());
            }
        }
        depths
    }
}

/// The steps of an operation, in the order in which they began.
#[must_use]
pub fn steps(entries: &[Entry]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    // The open steps of each name, the last one at the end.
    let mut open: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for entry in entries {
        let position = open.get(entry.step.as_str()).and_then(|open| {
            let same = |position: &&usize| {
                let resource = &steps[**position].resource;
                resource.is_none() || entry.resource.is_none() || *resource == entry.resource
            };
            open.iter().rev().find(same).copied()
        });
        match (entry.phase, position) {
            (Phase::Note, _) => steps.push(Step::new(entry, End::Note)),
            (Phase::Intent, _) => {
                open.entry(&entry.step).or_default().push(steps.len());
                steps.push(Step::new(entry, End::Open));
            }
            (Phase::Outcome, Some(position)) => {
                let step = &mut steps[position];
                step.ended = Some(entry.at);
                step.end = End::Done;
                step.resource = entry.resource.clone().or(step.resource.take());
                close(&mut open, &entry.step, position);
            }
            (Phase::Failure, Some(position)) => {
                let attempt = Attempt::of(entry);
                let step = &mut steps[position];
                if attempt.wait.is_none() {
                    step.ended = Some(entry.at);
                    step.end = End::Failed;
                }
                let last = attempt.wait.is_none();
                step.attempts.push(attempt);
                if last {
                    close(&mut open, &entry.step, position);
                }
            }
            // The intent before it is damaged, or was never written.
            (Phase::Outcome, None) => steps.push(Step::new(entry, End::Done)),
            (Phase::Failure, None) => {
                let mut step = Step::new(entry, End::Failed);
                step.attempts.push(Attempt::of(entry));
                steps.push(step);
            }
        }
    }
    steps
}

fn close(open: &mut BTreeMap<&str, Vec<usize>>, name: &str, position: usize) {
    if let Some(open) = open.get_mut(name) {
        open.retain(|other| *other != position);
    }
}

impl Step {
    fn new(entry: &Entry, end: End) -> Self {
        Self {
            name: entry.step.clone(),
            resource: entry.resource.clone(),
            began: entry.at,
            ended: (end != End::Open).then_some(entry.at),
            end,
            attempts: Vec::new(),
            data: entry.data.clone(),
        }
    }
}

impl Attempt {
    /// The failed attempt that an entry notes.
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { at: entry.at, ..serde_json::from_value(entry.data.clone()).unwrap_or_default() }
    }
}

/// A failed attempt in one line: why it failed, and what followed.
#[must_use]
pub fn attempt_words(attempt: &Attempt) -> String {
    let why = attempt.failure.as_ref().map(|failure| format!(": {}", failure.message)).unwrap_or_default();
    let then = match attempt.wait {
        Some(wait) => format!("tried again after {}", human_duration(Duration::from_millis(wait))),
        None => "not tried again".to_owned(),
    };
    let reason = attempt.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let decision = attempt.decision.as_ref().map(|decision| format!(" (decision {decision})")).unwrap_or_default();
    format!("failed{why}; {then}{reason}{decision}")
}

/// A note in one line. A note of a kind that this version does not know is shown as JSON.
#[must_use]
pub fn note_words(name: &str, data: &Value) -> String {
    let count = |key: &str| data.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let text = |key: &str| data.get(key).and_then(Value::as_str);
    let by = |words: &str| text("by").map_or_else(|| words.to_owned(), |by| format!("{words} by {by}"));
    let with_reason = |words: String| match text("reason") {
        Some(reason) => format!("{words}: {reason}"),
        None => words,
    };
    let decided = |words: String| {
        let words = text("decided-by").map_or_else(|| words.clone(), |by| format!("{words} by {by}"));
        let decision = text("decision").map(|decision| format!(" (decision {decision})")).unwrap_or_default();
        format!("{}{decision}", with_reason(words))
    };
    match name {
        "undo-begun" => match data.get("because").and_then(|because| because.get("step")).and_then(Value::as_str) {
            Some(step) => format!("rolled back because {step} failed"),
            None => "rolled back".to_owned(),
        },
        "look" => format!("found {} by the journal and {} by their tags", count("made"), count("tagged")),
        "plan" => decided(counted(count("steps"), "step")),
        "kept" => "kept".to_owned(),
        "left-alone" => "left alone, because it is not ours any more".to_owned(),
        "taken-up" => format!("taken up, attempt {}", data.get("tries").unwrap_or(&Value::Null)),
        "abandoned" => with_reason(by("abandoned")),
        "cancelled" => by("cancelled"),
        "started-elsewhere" => "somebody else started the server".to_owned(),
        "settled" => format!("{} again", text("status").unwrap_or("not busy")),
        "release-decided" => decided(data.get("verdict").map(brief).unwrap_or_default()),
        _ if is_empty(data) => String::new(),
        _ => brief(data),
    }
}

/// Whether an entry has no data of its own.
pub(crate) fn is_empty(data: &Value) -> bool {
    data.is_null() || data.as_object().is_some_and(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use windlass_lifecycle::ResourceKind;

    use super::*;

    fn entry(sequence: u64, step: &str, phase: Phase, id: Option<&str>, data: Value) -> Entry {
        let resource =
            id.map(|id| ResourceName { kind: ResourceKind::Ip, id: id.into(), zone: "z".into(), server: None });
        Entry { sequence, step: step.into(), phase, resource, data, at: sequence * 10 }
    }

    #[test]
    fn a_step_that_is_tried_again_is_one_step_with_its_failures() {
        let entries = [
            entry(1, "power-on", Phase::Intent, Some("s"), json!({})),
            entry(2, "power-on", Phase::Failure, None, json!({"attempt": 1, "decision": "d-1", "wait": 20})),
            entry(3, "power-on", Phase::Failure, None, json!({"attempt": 2, "decision": "d-2", "wait": null})),
        ];
        let [step] = steps(&entries).try_into().unwrap();
        assert_eq!((step.end, step.began, step.ended), (End::Failed, 10, Some(30)));
        let attempts: Vec<_> = step.attempts.iter().map(|attempt| (attempt.at, attempt.wait)).collect();
        assert_eq!(attempts, [(20, Some(20)), (30, None)]);
    }

    #[test]
    fn steps_side_by_side_end_with_their_own_resources() {
        let entries = [
            entry(1, "delete-ip", Phase::Intent, Some("a"), json!({})),
            entry(2, "delete-ip", Phase::Intent, Some("b"), json!({})),
            entry(3, "delete-ip", Phase::Outcome, Some("a"), json!({})),
        ];
        let ends: Vec<_> = steps(&entries).into_iter().map(|step| (step.resource.unwrap().id, step.end)).collect();
        assert_eq!(ends, [("a".to_owned(), End::Done), ("b".to_owned(), End::Open)]);
    }

    #[test]
    fn a_plan_in_circles_or_beyond_its_steps_still_has_depths() {
        let plan = |steps: Value| serde_json::from_value::<Plan>(json!({ "steps": steps })).unwrap();
        let step = |after: &[usize]| json!({"action": "delete", "resource": 0, "after": after});
        assert_eq!(plan(json!([step(&[]), step(&[0]), step(&[0, 1])])).depths(), [0, 1, 2]);
        assert!(plan(json!([step(&[1]), step(&[0]), step(&[2, 77])])).depths().iter().all(|depth| *depth <= 3));
    }

    proptest! {
        #[test]
        fn whatever_a_journal_holds_each_entry_is_told_once(
            drawn in prop::collection::vec((0_usize..3, 0_usize..4, prop::option::of(0_usize..3), any::<bool>()), 0..40)
        ) {
            let phases = [Phase::Intent, Phase::Outcome, Phase::Failure, Phase::Note];
            let entries: Vec<Entry> = (1..).zip(drawn).map(|(sequence, (step, phase, id, again))| {
                let id = id.map(|id| ["a", "b", "c"][id]);
                let data = if again { json!({"wait": 1}) } else { json!([1]) };
                entry(sequence, ["x", "y", "z"][step], phases[phase], id, data)
            }).collect();
            let steps = steps(&entries);
            let reported: usize = steps.iter().map(|step| {
                let begun = usize::from(!matches!(step.end, End::Failed) || step.began != step.ended.unwrap_or(0));
                let ended = usize::from(step.end == End::Done && step.ended != Some(step.began));
                begun + ended + step.attempts.len()
            }).sum();
            prop_assert_eq!(reported, entries.len());
        }
    }
}
