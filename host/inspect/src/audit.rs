//! What a policy would decide about the machines that exist, beside what is decided about them today.

use std::collections::HashMap;

use serde::Serialize;
use windlass_policy::slots::Release;
use windlass_policy::slots::release::Verdict;
use windlass_policy::{Decision, PolicyIdentity};

/// How many machines of a group are named.
pub const MAX_NAMED: usize = 10;

/// What is decided about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// In one or two words; equal words are no difference.
    pub words: String,
    /// Whether the machine goes, is wiped or is forgotten.
    pub destroys: bool,
    /// Why, as the policy says.
    pub reason: Option<String>,
    /// How the candidate failed, where it did.
    pub failed: Option<String>,
}

impl Decided {
    /// What is decided about a machine that its owner releases. `candidate`: the policy whose failure is
    /// reported.
    #[must_use]
    pub fn of_release(decision: &Decision<Release>, candidate: &PolicyIdentity) -> Self {
        let verdict = &decision.answer.verdict;
        let failed = decision.fallbacks.iter().find(|fallback| *fallback.policy == *candidate);
        Self {
            words: verdict.name().to_owned(),
            destroys: matches!(verdict, Verdict::Terminate | Verdict::ScheduleDeletion | Verdict::ReturnToPool(_)),
            reason: decision.reason.clone(),
            failed: failed.map(|fallback| fallback.reason.clone()),
        }
    }
}

/// What would change if the candidate decided. `M` names a machine.
#[derive(Debug, Serialize)]
pub struct Comparison<M> {
    /// About how many machines the same is decided, and the candidate does not fail.
    pub same: usize,
    /// What would be decided otherwise: what destroys first.
    pub groups: Vec<Group<M>>,
    /// How the candidate failed.
    pub failed: Vec<Failed<M>>,
}

/// Machines about which the same would change.
#[derive(Debug, Serialize)]
pub struct Group<M> {
    pub before: String,
    pub after: String,
    /// Whether a machine would go, be wiped or be forgotten that stays today.
    pub destructive: bool,
    pub count: usize,
    /// Why, as the candidate says about the first of them.
    pub reason: Option<String>,
    /// The first of them.
    pub machines: Vec<M>,
}

/// Machines about which the candidate fails alike.
#[derive(Debug, Serialize)]
pub struct Failed<M> {
    pub reason: String,
    pub count: usize,
    /// The first of them.
    pub machines: Vec<M>,
}

impl<M> Comparison<M> {
    /// Compares what is decided about each machine today with what would be.
    pub fn of<'d, N: Fn() -> M>(machines: impl IntoIterator<Item = (&'d Decided, &'d Decided, N)>) -> Self {
        let mut comparison = Self { same: 0, groups: Vec::new(), failed: Vec::new() };
        let mut failures = HashMap::new();
        for (before, after, name) in machines {
            comparison.add(before, after, name, &mut failures);
        }
        comparison.groups.sort_by_key(|group| (!group.destructive, std::cmp::Reverse(group.count)));
        comparison
    }

    /// `failures`: the position of each reason among those that are known.
    fn add<'d>(
        &mut self,
        before: &Decided,
        after: &'d Decided,
        name: impl Fn() -> M,
        failures: &mut HashMap<&'d str, usize>,
    ) {
        let is_same = before.words == after.words;
        if is_same && after.failed.is_none() {
            self.same += 1;
            return;
        }
        let name = |machines: &mut Vec<M>| {
            if machines.len() < MAX_NAMED {
                machines.push(name());
            }
        };
        if let Some(reason) = &after.failed {
            let position = *failures.entry(reason).or_insert_with(|| {
                self.failed.push(Failed { reason: reason.clone(), count: 0, machines: Vec::new() });
                self.failed.len() - 1
            });
            self.failed[position].count += 1;
            name(&mut self.failed[position].machines);
        }
        if is_same {
            return;
        }
        let is_of = |group: &Group<M>| group.before == before.words && group.after == after.words;
        let position = self.groups.iter().position(is_of).unwrap_or_else(|| {
            self.groups.push(Group {
                before: before.words.clone(),
                after: after.words.clone(),
                destructive: after.destroys && !before.destroys,
                count: 0,
                reason: after.reason.clone(),
                machines: Vec::new(),
            });
            self.groups.len() - 1
        });
        self.groups[position].count += 1;
        name(&mut self.groups[position].machines);
    }

    /// How many machines would go that stay today.
    #[must_use]
    pub fn destroyed(&self) -> usize {
        self.groups.iter().filter(|group| group.destructive).map(|group| group.count).sum()
    }

    /// About how many machines the candidate fails.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failed.iter().map(|failed| failed.count).sum()
    }
}
