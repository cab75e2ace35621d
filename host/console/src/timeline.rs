//! An operation's entries as steps: what was called, how often, how long it took, and what came of it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use windlass_lifecycle::{Entry, Phase, ResourceName};
use windlass_policy::slots::types::Failure;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) resource: Option<ResourceName>,
    /// Milliseconds since 1970.
    pub(crate) began: u64,
    pub(crate) ended: Option<u64>,
    pub(crate) end: End,
    /// The attempts that failed.
    pub(crate) attempts: Vec<Attempt>,
    /// What else was written down.
    pub(crate) data: Value,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing yet, as far as is written.
    Open,
    Done,
    Failed,
    /// It is no effect: what was found or decided.
    Note,
}

/// An attempt that failed, and what was decided then.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Attempt {
    #[serde(skip)]
    pub(crate) at: u64,
    #[serde(default)]
    pub(crate) attempt: Option<u32>,
    /// The decision about it, of the slot `retry`.
    #[serde(default)]
    pub(crate) decision: Option<String>,
    #[serde(default)]
    pub(crate) failure: Option<Failure>,
    /// Milliseconds until the next; absent when there was none.
    #[serde(default)]
    pub(crate) wait: Option<u64>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// A step of the plan by which something is undone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct PlanStep {
    pub(crate) action: String,
    /// The steps that come before it.
    #[serde(default)]
    pub(crate) after: Vec<usize>,
    /// Its resource, as the decision's question counts them.
    pub(crate) resource: usize,
}

/// The plan by which something is undone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Plan {
    #[serde(default)]
    pub(crate) decided_by: Option<String>,
    #[serde(default)]
    pub(crate) decision: Option<String>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    pub(crate) steps: Vec<PlanStep>,
}

impl Plan {
    /// The step of the journal that is a plan.
    pub(crate) fn of(step: &Step) -> Option<Self> {
        let is_plan = step.end == End::Note && step.name == "plan";
        is_plan.then(|| serde_json::from_value(step.data.clone()).ok()).flatten()
    }

    /// How many steps come before each at least. What names a step that is none, or itself, counts as a first one.
    pub(crate) fn depths(&self) -> Vec<usize> {
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
pub(crate) fn steps(entries: &[Entry]) -> Vec<Step> {
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
    fn of(entry: &Entry) -> Self {
        Self { at: entry.at, ..serde_json::from_value(entry.data.clone()).unwrap_or_default() }
    }
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
