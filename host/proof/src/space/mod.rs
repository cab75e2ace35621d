//! The questions of a slot that there are within stated bounds: counted, enumerated one by one, drawn at random, and
//! such that every two values of any two places come together.
//!
//! A question is a list of choices, one for each place in which it could have been another. Its Rust type is made of
//! them straight away; JSON would take ten times as long.

mod bounds;
mod build;
mod make;
mod node;

use rand::{Rng, RngExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use windlass_policy::slots::{Slot, SlotName};
use windlass_policy::with_slot;

use node::{Kind, Node};

use crate::slot::shapes;

pub use bounds::Values;

/// Why bounds can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// There is no such place.
    #[error("a question of the slot {slot} has no `{path}`{meant}")]
    UnknownPath {
        slot: SlotName,
        /// As it was written.
        path: String,
        /// The nearest one, or those that there are.
        meant: String,
    },
    /// The values are none of the place's type.
    #[error("`{path}`: {problem}")]
    Values {
        /// The place.
        path: String,
        /// What is wrong with its values.
        problem: String,
    },
}

/// A place that doesn't have all values of its type. A place that has no bound has them all: an enum each case, a boolean
/// both values; what is optional is absent and there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The path from the question, in the contract's names; `[]` is an item of a list.
    pub path: String,
    /// Exactly the values that are asked about. Cases of enums are bare words, other values JSON, with commas between
    /// them: `absent, 0, 3`. Of a list `up to 2 items`, or the one list that there is as JSON. `present`: what is
    /// optional is always there. `each its own: "a", "b"`: the first item has the first value, the second the second.
    pub values: String,
}

/// A choice that a drawn question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forced {
    /// Whose.
    id: usize,
    choice: u32,
    /// Or a later one: an item of a list needs so many items at least.
    at_least: bool,
}

/// The most pairs that are kept: 64 items of a list have tens of millions.
const MAX_PAIRS: u64 = 250_000;

/// Every two choices of any two places that can be in one question.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// With what they need; where there are too many, some of them.
    pub(crate) tried: Vec<Vec<Forced>>,
    /// How many have a choice that is in no question that is possible.
    pub(crate) impossible: u64,
    /// How many more there are.
    pub(crate) untried: u64,
}

/// The questions of a slot.
#[derive(Debug)]
pub struct Space {
    slot: SlotName,
    root: Node,
    /// For each node that chooses: the choice of another one without which it isn't there.
    needs: Vec<Option<(usize, u32)>>,
    /// For each node that chooses: how many choices it has.
    choices: Vec<u32>,
    bounds: Vec<Bound>,
}

impl Space {
    /// The questions within the tables' bounds, some of them replaced by `own`.
    ///
    /// # Errors
    /// `own` names a place that there isn't, or values that aren't of its type.
    pub fn within(slot: SlotName, own: &[(String, Values)]) -> Result<Space, BoundsError> {
        make::make(slot, own, false)
    }

    /// The questions that random ones are drawn from: the same places, and where the tables stand still, more values;
    /// more items in lists; numbers up to the largest.
    ///
    /// # Errors
    /// As [`Space::within`].
    pub fn beyond(slot: SlotName, own: &[(String, Values)]) -> Result<Space, BoundsError> {
        make::make(slot, own, true)
    }

    /// How many combinations of values there are; `u64::MAX` where there are more.
    pub fn size(&self) -> u64 {
        self.root.size
    }

    /// The places whose values are bounded, in the order of the contract.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// The choices of a question by its number, from 0 to [`Space::size`].
    pub(crate) fn enumerate(&self, number: u64, choices: &mut Vec<u32>) {
        choices.clear();
        self.root.enumerate(number, choices);
    }

    /// The choices of a question that has these choices, and others at random. `sparse`: what is optional is rather
    /// absent, so that it contradicts less.
    pub(crate) fn draw(&self, random: &mut impl Rng, forced: &[Forced], sparse: bool, choices: &mut Vec<u32>) {
        choices.clear();
        self.root.draw(random, forced, sparse, choices);
    }

    /// Draws these items of a list again, with these choices. What is optional in them is rather absent.
    pub(crate) fn redraw(
        &self,
        random: &mut impl Rng,
        forced: &[Forced],
        list: &str,
        items: &[usize],
        choices: &mut Vec<u32>,
    ) {
        let before = std::mem::take(choices);
        let mut before = before.iter();
        let position = shapes(self.slot).question.fields().iter().position(|(name, _)| *name == list);
        let Kind::Record(fields) = &self.root.kind else { unreachable!("a question is a record") };
        for (field, node) in fields.iter().enumerate() {
            match &node.kind {
                Kind::List(nodes) if Some(field) == position => {
                    let length = before.next().copied().unwrap_or_default();
                    choices.push(length);
                    for (item, node) in nodes[..length as usize].iter().enumerate() {
                        let begin = choices.len();
                        node.copy(&mut before, choices);
                        if items.contains(&item) {
                            choices.truncate(begin);
                            node.draw(random, forced, true, choices);
                        }
                    }
                }
                _ => node.copy(&mut before, choices),
            }
        }
    }

    /// Every two choices of any two places. Where there are more than can be kept, those that are tried are drawn.
    pub(crate) fn pairs(&self, random: &mut impl Rng, is_possible: &mut dyn FnMut(&[Forced]) -> bool) -> Pairs {
        let choices = |id: usize| (0..self.choices[id]).map(move |choice| (id, choice));
        let possible: Vec<Vec<bool>> = (0..self.choices.len())
            .map(|id| choices(id).map(|one| self.force(&[one]).is_some_and(|forced| is_possible(&forced))).collect())
            .collect();
        let ids = || (0..self.choices.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let all: u64 = ids().map(|(one, other)| u64::from(self.choices[one]) * u64::from(self.choices[other])).sum();
        let mut pairs = Pairs::default();
        for (one, other) in ids() {
            for first in choices(one) {
                for second in choices(other) {
                    if ![first, second].iter().all(|(id, choice)| possible[*id][*choice as usize]) {
                        pairs.impossible += u64::from(self.force(&[first, second]).is_some());
                    } else if all > MAX_PAIRS && random.random_range(0..all) >= MAX_PAIRS {
                        pairs.untried += 1;
                    } else {
                        pairs.tried.extend(self.force(&[first, second]));
                    }
                }
            }
        }
        pairs
    }

    /// These choices and what they need. None: one contradicts another.
    fn force(&self, chosen: &[(usize, u32)]) -> Option<Vec<Forced>> {
        let mut forced: Vec<Forced> =
            chosen.iter().map(|(id, choice)| Forced { id: *id, choice: *choice, at_least: false }).collect();
        for (id, _) in chosen {
            let mut need = self.needs[*id];
            while let Some((id, choice)) = need {
                match forced.iter_mut().find(|known| known.id == id) {
                    Some(known) if known.at_least => known.choice = known.choice.max(choice),
                    Some(known) if known.choice < choice => return None,
                    Some(_) => {}
                    None => forced.push(Forced { id, choice, at_least: true }),
                }
                need = self.needs[id];
            }
        }
        Some(forced)
    }

    /// The question of these choices.
    pub(crate) fn question<Q: DeserializeOwned>(&self, choices: &[u32]) -> Q {
        let mut choices = choices.iter();
        Q::deserialize(build::Build { node: &self.root, choices: &mut choices })
            .expect("the space is made after the contract, as the question's type is")
    }

    /// A question in which everything is there that can be: what a shrunk one is compared with where the example has
    /// nothing.
    pub(crate) fn full(&self) -> Json {
        let mut choices = Vec::new();
        self.root.full(&mut choices);
        let question = with_slot!(self.slot, S => {
            serde_json::to_value(self.question::<<S as Slot>::Question>(&choices))
        });
        question.expect("every question has a JSON form")
    }
}

impl Node {
    fn enumerate(&self, mut number: u64, choices: &mut Vec<u32>) {
        match &self.kind {
            Kind::Bool | Kind::Number(_) | Kind::Text(_) | Kind::Case(_) => {
                choices.push(u32::try_from(number).unwrap_or_default());
            }
            Kind::Option(_) if number == 0 => choices.push(0),
            Kind::Option(inner) => {
                choices.push(1);
                inner.enumerate(number - 1, choices);
            }
            Kind::Present(inner) => inner.enumerate(number, choices),
            Kind::List(items) => {
                // So many questions have a shorter list.
                let mut length = 0;
                let mut of_length = 1;
                while number >= of_length && length < items.len() {
                    number -= of_length;
                    of_length = of_length.saturating_mul(items[length].size);
                    length += 1;
                }
                choices.push(u32::try_from(length).unwrap_or_default());
                Node::enumerate_all(&items[..length], number, choices);
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => Node::enumerate_all(nodes, number, choices),
            Kind::Absent | Kind::FixedBool(_) | Kind::FixedCase(_) => {}
        }
    }

    fn enumerate_all(nodes: &[Node], mut number: u64, choices: &mut Vec<u32>) {
        for node in nodes {
            node.enumerate(number % node.size, choices);
            number /= node.size;
        }
    }

    /// Takes over its choices from those of another question.
    fn copy(&self, from: &mut std::slice::Iter<'_, u32>, choices: &mut Vec<u32>) {
        let mut choose = || {
            let choice = from.next().copied().unwrap_or_default();
            choices.push(choice);
            choice
        };
        match &self.kind {
            Kind::Bool | Kind::Number(_) | Kind::Text(_) | Kind::Case(_) => {
                choose();
            }
            Kind::Option(inner) => {
                if choose() == 1 {
                    inner.copy(from, choices);
                }
            }
            Kind::Present(inner) => inner.copy(from, choices),
            Kind::List(items) => {
                let length = choose() as usize;
                items[..length].iter().for_each(|item| item.copy(from, choices));
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => nodes.iter().for_each(|node| node.copy(from, choices)),
            Kind::Absent | Kind::FixedBool(_) | Kind::FixedCase(_) => {}
        }
    }

    fn draw(&self, random: &mut impl Rng, forced: &[Forced], sparse: bool, choices: &mut Vec<u32>) {
        let mut choose = |count: u32, choices: &mut Vec<u32>| {
            let choice = match forced.iter().find(|known| known.id == self.id) {
                // As long as can be: a position that is asked for can lead to the last item.
                Some(known) if known.at_least && sparse && random.random_ratio(1, 4) => count - 1,
                Some(known) if known.at_least => random.random_range(known.choice..count),
                Some(known) => known.choice,
                None if sparse && matches!(self.kind, Kind::Option(_)) => u32::from(random.random_ratio(1, 4)),
                None => random.random_range(0..count),
            };
            choices.push(choice);
            choice
        };
        match &self.kind {
            Kind::Bool => {
                choose(2, choices);
            }
            Kind::Number(values) => {
                choose(count(values.len()), choices);
            }
            Kind::Text(values) => {
                choose(count(values.len()), choices);
            }
            Kind::Case(cases) => {
                choose(count(cases.len()), choices);
            }
            Kind::Option(inner) => {
                if choose(2, choices) == 1 {
                    inner.draw(random, forced, sparse, choices);
                }
            }
            Kind::Present(inner) => inner.draw(random, forced, sparse, choices),
            Kind::List(items) => {
                let length = choose(count(items.len()) + 1, choices) as usize;
                for item in &items[..length] {
                    item.draw(random, forced, sparse, choices);
                }
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => {
                for node in nodes {
                    node.draw(random, forced, sparse, choices);
                }
            }
            Kind::Absent | Kind::FixedBool(_) | Kind::FixedCase(_) => {}
        }
    }

    /// The first of all values, with everything there.
    fn full(&self, choices: &mut Vec<u32>) {
        match &self.kind {
            Kind::Bool | Kind::Number(_) | Kind::Text(_) | Kind::Case(_) => choices.push(0),
            Kind::Option(inner) => {
                choices.push(1);
                inner.full(choices);
            }
            Kind::Present(inner) => inner.full(choices),
            Kind::List(items) => {
                let first = items.iter().take(1);
                choices.push(count(first.len()));
                first.for_each(|item| item.full(choices));
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => nodes.iter().for_each(|node| node.full(choices)),
            Kind::Absent | Kind::FixedBool(_) | Kind::FixedCase(_) => {}
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
