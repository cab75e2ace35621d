//! What a decision of a policy costs, beside another policy that is asked the same at the same time: a machine that is
//! busy with something else is so for both.

use serde::Serialize;
use windlass_policy::slots::Slot;
use windlass_policy::{LoadedPolicy, PolicyIdentity, with_slot};

use crate::slot::ProvedSlot;
use crate::space::{BoundsError, Space};
use crate::work::{Plan, Progress};

/// What the decisions of one policy cost, the fresh instance of each included.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cost {
    pub policy: PolicyIdentity,
    /// Half of the decisions took less, in nanoseconds.
    pub p50_ns: u64,
    /// All but one of a hundred took less.
    pub p99_ns: u64,
    /// Half of the decisions used less fuel.
    pub fuel_p50: u64,
    /// The most fuel that one used.
    pub fuel_most: u64,
    /// The most linear memory that one had, in bytes.
    pub memory_bytes: u64,
    /// How many of the decisions failed. They count as any other.
    pub failures: u64,
}

/// A policy as it is measured: once as it runs, once counting fuel, which costs time.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'p> {
    /// As it runs.
    pub plain: &'p LoadedPolicy,
    /// The same with a limit of fuel.
    pub with_fuel: &'p LoadedPolicy,
}

/// Asks both policies `decisions` questions in turns, the slot's example first and then others from its bounds, the
/// same for both and in every run.
///
/// # Errors
/// None with the tables' own bounds.
pub fn bench(one: Measured<'_>, other: Measured<'_>, decisions: usize) -> Result<[Cost; 2], BoundsError> {
    with_slot!(one.plain.identity().slot, S => bench_slot::<S>(one, other, decisions))
}

fn bench_slot<S: ProvedSlot>(
    one: Measured<'_>,
    other: Measured<'_>,
    decisions: usize,
) -> Result<[Cost; 2], BoundsError> {
    let space = Space::within(S::NAME, &[])?;
    let plan = Plan::new::<S>(&space, &space, decisions as u64, 0, 0, &Progress::default());
    let mut questions: Vec<S::Question> = vec![S::example()];
    questions.extend((0..plan.size()).filter_map(|number| plan.question::<S>(number, &mut Vec::new())));
    let mut samples = [Samples::default(), Samples::default()];
    // The first decisions warm the instances' slots and the processor's caches.
    for question in questions.iter().cycle().take(100) {
        one.plain.ask::<S>(question);
        other.plain.ask::<S>(question);
    }
    for question in questions.iter().cycle().take(decisions) {
        for (policy, samples) in [one, other].into_iter().zip(&mut samples) {
            samples.take::<S>(policy, question);
        }
    }
    let [first, second] = samples;
    Ok([first.cost(one), second.cost(other)])
}

#[derive(Default)]
struct Samples {
    nanoseconds: Vec<u64>,
    fuel: Vec<u64>,
    memory_bytes: u64,
    failures: u64,
}

impl Samples {
    fn take<S: Slot>(&mut self, policy: Measured<'_>, question: &S::Question) {
        let asked = policy.plain.ask::<S>(question);
        self.nanoseconds.push(u64::try_from(asked.duration.as_nanos()).unwrap_or(u64::MAX));
        self.memory_bytes = self.memory_bytes.max(asked.memory_bytes);
        self.failures += u64::from(asked.answer.is_err());
        self.fuel.extend(policy.with_fuel.ask::<S>(question).fuel);
    }

    fn cost(mut self, policy: Measured<'_>) -> Cost {
        self.nanoseconds.sort_unstable();
        self.fuel.sort_unstable();
        Cost {
            policy: policy.plain.identity().clone(),
            p50_ns: at(&self.nanoseconds, 50),
            p99_ns: at(&self.nanoseconds, 99),
            fuel_p50: at(&self.fuel, 50),
            fuel_most: at(&self.fuel, 100),
            memory_bytes: self.memory_bytes,
            failures: self.failures,
        }
    }
}

/// The value below which so many of a hundred are; 0 where there is none.
fn at(sorted: &[u64], percent: usize) -> u64 {
    let position = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(position).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!((at(&sorted, 50), at(&sorted, 99), at(&sorted, 100)), (51, 100, 100));
        assert_eq!((at(&[7], 50), at(&[], 99)), (7, 0));
    }
}
