//! The questions of a slot that there are within stated bounds: counted, enumerated one by one, drawn at random, and
//! such that every two values of any two places come together.
//!
//! A question is a list of choices, one for each place in which it could have been another. Its Rust type is made of
//! them straight away; JSON would take ten times as long.

mod bounds;
mod build;
mod node;

use rand::{Rng, RngExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use windlass_contract::Shape;
use windlass_policy::slots::{Slot, SlotName};
use windlass_policy::with_slot;

use crate::slot::shapes;

use node::{Kind, Node};

pub use bounds::Values;

/// How many items a list has at most in questions drawn at random.
const MAX_ITEMS: usize = 4;
/// The most items of a list that somebody may ask about: the contract allows no more of most lists, and each item
/// multiplies the questions.
const MAX_BOUND_ITEMS: usize = 64;

/// Why bounds can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// There is no such place.
    #[error("a question of the slot {slot} has no `{path}` that can be bounded; there are {known}")]
    UnknownPath {
        slot: SlotName,
        /// As it was written.
        path: String,
        /// Those that there are.
        known: String,
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

/// One place whose values are bounded by a table or by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The path from the question, in the contract's names; `[]` is an item of a list.
    pub path: String,
    /// The values in words: `0, 3, 8`, or `as in the example`.
    pub values: String,
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
        Space::make(slot, own, false)
    }

    /// The questions that random ones are drawn from: the same places, and where the tables stand still, more values;
    /// more items in lists; numbers up to the largest.
    ///
    /// # Errors
    /// As [`Space::within`].
    pub fn beyond(slot: SlotName, own: &[(String, Values)]) -> Result<Space, BoundsError> {
        Space::make(slot, own, true)
    }

    fn make(slot: SlotName, own: &[(String, Values)], wide: bool) -> Result<Space, BoundsError> {
        for (position, (path, _)) in own.iter().enumerate() {
            if own[..position].iter().any(|(known, _)| known == path) {
                return Err(BoundsError::Values { path: path.clone(), problem: "it is bounded twice".into() });
            }
        }
        let mut make =
            Make { slot, own, wide, needs: Vec::new(), choices: Vec::new(), bounds: Vec::new(), used: Vec::new() };
        let example = slot.example_question();
        let root = make.node(&shapes(slot).question, &example, "", None)?;
        let known = || make.bounds.iter().map(|bound| bound.path.as_str()).collect::<Vec<_>>().join(", ");
        if let Some((path, _)) = own.iter().find(|(path, _)| !make.used.contains(path)) {
            return Err(BoundsError::UnknownPath { slot, path: path.clone(), known: known() });
        }
        Ok(Space { slot, root, needs: make.needs, choices: make.choices, bounds: make.bounds })
    }

    /// Whose questions they are.
    pub fn slot(&self) -> SlotName {
        self.slot
    }

    /// How many there are; `u64::MAX` where there are more.
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

    /// The choices of a question that has these choices, and others at random.
    pub(crate) fn draw(&self, random: &mut impl Rng, forced: &[(usize, u32)], choices: &mut Vec<u32>) {
        choices.clear();
        self.root.draw(random, forced, choices);
    }

    /// Every two choices of any two places that can be in one question, with those that they need.
    pub(crate) fn pairs(&self) -> Vec<Vec<(usize, u32)>> {
        let mut pairs = Vec::new();
        for one in 0..self.choices.len() {
            for other in 0..one {
                for first in 0..self.choices[one] {
                    for second in 0..self.choices[other] {
                        let mut forced = Vec::new();
                        if self.force(one, first, &mut forced) && self.force(other, second, &mut forced) {
                            pairs.push(forced);
                        }
                    }
                }
            }
        }
        pairs
    }

    /// Adds a choice and what it needs. False: it contradicts what is there.
    fn force(&self, id: usize, choice: u32, forced: &mut Vec<(usize, u32)>) -> bool {
        let mut next = Some((id, choice));
        let mut is_need = false;
        while let Some((id, choice)) = next {
            match forced.iter_mut().find(|(known, _)| *known == id) {
                // A list needs so many items at least.
                Some((_, known)) if is_need && *known >= choice => {}
                Some((_, known)) if is_need => *known = choice,
                Some((_, known)) if *known != choice => return false,
                Some(_) => {}
                None => forced.push((id, choice)),
            }
            next = self.needs[id];
            is_need = true;
        }
        // What was asked for may have been raised by a need.
        forced.iter().any(|(known, now)| *known == id && *now == choice)
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

    fn draw(&self, random: &mut impl Rng, forced: &[(usize, u32)], choices: &mut Vec<u32>) {
        let mut choose = |count: u32, choices: &mut Vec<u32>| {
            let choice = match forced.iter().find(|(id, _)| *id == self.id) {
                Some((_, choice)) => *choice,
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
                    inner.draw(random, forced, choices);
                }
            }
            Kind::Present(inner) => inner.draw(random, forced, choices),
            Kind::List(items) => {
                let length = choose(count(items.len()) + 1, choices) as usize;
                for item in &items[..length] {
                    item.draw(random, forced, choices);
                }
            }
            Kind::Record(nodes) | Kind::FixedList(nodes) => {
                for node in nodes {
                    node.draw(random, forced, choices);
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

/// Makes the tree.
struct Make<'a> {
    slot: SlotName,
    own: &'a [(String, Values)],
    wide: bool,
    needs: Vec<Option<(usize, u32)>>,
    choices: Vec<u32>,
    bounds: Vec<Bound>,
    /// The paths of `own` that there are.
    used: Vec<String>,
}

impl Make<'_> {
    /// The values that somebody has chosen for a place.
    fn values(&mut self, path: &str) -> Option<(Values, bool)> {
        if let Some((_, own)) = self.own.iter().find(|(known, _)| known == path) {
            self.used.push(path.to_owned());
            return Some((own.clone(), true));
        }
        bounds::of(self.slot, path).map(|values| (values, false))
    }

    /// A node that chooses between so many.
    fn id(&mut self, choices: u32, need: Option<(usize, u32)>) -> usize {
        self.needs.push(need);
        self.choices.push(choices);
        self.needs.len() - 1
    }

    fn bound(&mut self, path: &str, values: String) {
        if !self.bounds.iter().any(|known| known.path == path) {
            self.bounds.push(Bound { path: path.to_owned(), values });
        }
    }

    /// `example` is null where the slot's example has nothing there.
    fn node(
        &mut self,
        shape: &Shape,
        example: &Json,
        path: &str,
        need: Option<(usize, u32)>,
    ) -> Result<Node, BoundsError> {
        let values = self.values(path);
        match shape {
            Shape::Record(fields) => {
                self.only_there(path, &values, "the places in it are bounded one by one")?;
                let mut nodes = Vec::with_capacity(fields.len());
                for (name, shape) in *fields {
                    let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
                    nodes.push(self.node(shape, &example[*name], &path, need)?);
                }
                let size = nodes.iter().fold(1, |size: u64, node| size.saturating_mul(node.size));
                Ok(Node { id: usize::MAX, size, kind: Kind::Record(nodes) })
            }
            Shape::Option(inner) => self.option(inner, example, path, need, values),
            Shape::List(item) => self.list(item, example, path, need, values),
            Shape::Bool => Ok(match values {
                Some((Values::Example, own)) if own || !self.wide => {
                    self.bound(path, example.as_bool().unwrap_or_default().to_string());
                    fixed(Kind::FixedBool(example.as_bool().unwrap_or_default()))
                }
                values => {
                    self.only_there(path, &values, "both of its values are asked about")?;
                    Node { id: self.id(2, need), size: 2, kind: Kind::Bool }
                }
            }),
            Shape::Enum(cases) => Ok(match values {
                Some((Values::Example, own)) if own || !self.wide => {
                    let case = example.as_str().unwrap_or_default();
                    let position = cases.iter().position(|known| *known == case).unwrap_or_default();
                    self.bound(path, cases[position].into());
                    fixed(Kind::FixedCase(count(position)))
                }
                values => {
                    let chosen = self.cases(cases, path, &values)?;
                    let size = chosen.len() as u64;
                    Node { id: self.id(count(chosen.len()), need), size, kind: Kind::Case(chosen) }
                }
            }),
            Shape::Number { bits } => {
                let numbers = self.numbers(*bits, example, path, values)?;
                let size = numbers.len() as u64;
                Ok(Node { id: self.id(count(numbers.len()), need), size, kind: Kind::Number(numbers) })
            }
            Shape::Text => {
                let texts = self.texts(example, path, values)?;
                let size = texts.len() as u64;
                Ok(Node { id: self.id(count(texts.len()), need), size, kind: Kind::Text(texts) })
            }
            Shape::Variant(_) => unreachable!("no question has a variant"),
        }
    }

    fn option(
        &mut self,
        inner: &Shape,
        example: &Json,
        path: &str,
        need: Option<(usize, u32)>,
        values: Option<(Values, bool)>,
    ) -> Result<Node, BoundsError> {
        if let Some((Values::Example, own)) = values
            && (own || !self.wide)
        {
            if example.is_null() {
                self.bound(path, "absent".into());
                return Ok(fixed(Kind::Absent));
            }
            let inner = self.node(inner, example, path, need)?;
            return Ok(Node { id: usize::MAX, size: inner.size, kind: Kind::Present(Box::new(inner)) });
        }
        let id = self.id(2, need);
        let inner = self.node(inner, example, path, Some((id, 1)))?;
        Ok(Node { id, size: inner.size.saturating_add(1), kind: Kind::Option(Box::new(inner)) })
    }

    fn list(
        &mut self,
        item: &Shape,
        example: &Json,
        path: &str,
        need: Option<(usize, u32)>,
        values: Option<(Values, bool)>,
    ) -> Result<Node, BoundsError> {
        let of_example = example.as_array().map_or(&[][..], Vec::as_slice);
        let items_path = format!("{path}[]");
        let (most, own) = match values {
            // Positions in a list of texts stand elsewhere in the question.
            Some((Values::Example, own)) if own || !self.wide || matches!(item, Shape::Text) => {
                self.bound(path, format!("{} as in the example", of_example.len()));
                let mut nodes = Vec::new();
                for example in of_example {
                    nodes.push(self.fixed(item, example));
                }
                return Ok(fixed(Kind::FixedList(nodes)));
            }
            Some((Values::Items(most), own)) => (most, own),
            // As a command line says it, which can't tell the most items of a list from a number.
            Some((Values::Numbers(numbers), own)) if numbers.len() == 1 => {
                (usize::try_from(numbers[0]).unwrap_or(usize::MAX), own)
            }
            Some((Values::Example, own)) => (of_example.len().max(1), own),
            Some(_) => {
                let problem = "a list is bounded by the number of its items".into();
                return Err(BoundsError::Values { path: path.into(), problem });
            }
            None => (1, false),
        };
        if most > MAX_BOUND_ITEMS {
            let problem = format!("{most} items are more than {MAX_BOUND_ITEMS}, the most that can be asked about");
            return Err(BoundsError::Values { path: path.into(), problem });
        }
        let most = if self.wide && !own { most.max(MAX_ITEMS) } else { most };
        self.bound(path, format!("up to {most} items"));
        let id = self.id(count(most) + 1, need);
        let mut nodes = Vec::with_capacity(most);
        let (mut size, mut of_length): (u64, u64) = (1, 1);
        for position in 0..most {
            let example = of_example.get(position).or(of_example.last()).unwrap_or(&Json::Null);
            let node = self.node(item, example, &items_path, Some((id, count(position) + 1)))?;
            of_length = of_length.saturating_mul(node.size);
            size = size.saturating_add(of_length);
            nodes.push(node);
        }
        Ok(Node { id, size, kind: Kind::List(nodes) })
    }

    /// Exactly the example, chosen by nobody.
    fn fixed(&mut self, shape: &Shape, example: &Json) -> Node {
        let kind = match shape {
            Shape::Bool => Kind::FixedBool(example.as_bool().unwrap_or_default()),
            Shape::Enum(cases) => {
                Kind::FixedCase(count(cases.iter().position(|case| *example == **case).unwrap_or_default()))
            }
            Shape::Number { .. } => {
                let id = self.id(1, None);
                return Node { id, size: 1, kind: Kind::Number(vec![example.as_u64().unwrap_or_default()]) };
            }
            Shape::Text => {
                let id = self.id(1, None);
                return Node { id, size: 1, kind: Kind::Text(vec![example.as_str().unwrap_or_default().into()]) };
            }
            Shape::Option(_) if example.is_null() => Kind::Absent,
            Shape::Option(inner) => Kind::Present(Box::new(self.fixed(inner, example))),
            Shape::List(item) => Kind::FixedList(
                example.as_array().into_iter().flatten().map(|example| self.fixed(item, example)).collect(),
            ),
            Shape::Record(fields) => {
                Kind::Record(fields.iter().map(|(name, shape)| self.fixed(shape, &example[*name])).collect())
            }
            Shape::Variant(_) => unreachable!("no question has a variant"),
        };
        fixed(kind)
    }

    /// Refuses values of one's own for what has none to choose from; `1` means an optional place, absent and there.
    fn only_there(&self, path: &str, values: &Option<(Values, bool)>, why: &str) -> Result<(), BoundsError> {
        match values {
            Some((Values::Example, _)) | None => Ok(()),
            Some((Values::Numbers(numbers), _)) if numbers == &[1] => Ok(()),
            Some(_) => {
                let problem = format!("{why}; `example` takes those of the example, and `1` has an optional one, too");
                Err(BoundsError::Values { path: path.into(), problem })
            }
        }
    }

    /// The positions of the chosen cases of an enum.
    fn cases(
        &mut self,
        cases: &[&'static str],
        path: &str,
        values: &Option<(Values, bool)>,
    ) -> Result<Vec<u32>, BoundsError> {
        let Some((Values::Texts(texts), _)) = values else {
            self.only_there(path, values, "each of its values is asked about")?;
            return Ok((0..count(cases.len())).collect());
        };
        let mut chosen = Vec::new();
        for text in texts {
            let Some(position) = cases.iter().position(|case| case == text) else {
                let problem = format!("{text} is none of its values: {}", cases.join(", "));
                return Err(BoundsError::Values { path: path.into(), problem });
            };
            if !chosen.contains(&count(position)) {
                chosen.push(count(position));
            }
        }
        self.bound(path, texts.join(", "));
        Ok(chosen)
    }

    fn numbers(
        &mut self,
        bits: u8,
        example: &Json,
        path: &str,
        values: Option<(Values, bool)>,
    ) -> Result<Vec<u64>, BoundsError> {
        let most = u64::MAX >> (64 - u32::from(bits));
        let example = example.as_u64();
        let (mut numbers, own) = match values {
            Some((Values::Numbers(numbers), own)) => (numbers, own),
            Some((Values::Example, own)) => (example.into_iter().collect(), own),
            Some(_) => return Err(BoundsError::Values { path: path.into(), problem: "it is a number".into() }),
            None => unreachable!("no table has each value of {path}: it has too many"),
        };
        if let Some(number) = numbers.iter().find(|number| **number > most) {
            let problem = format!("{number} is more than {most}, the largest that it can be");
            return Err(BoundsError::Values { path: path.into(), problem });
        }
        if self.wide && !own && path != "now" {
            numbers.extend(example);
            numbers.extend([0, 1, 2, most]);
        }
        if numbers.is_empty() {
            numbers.push(0);
        }
        let mut seen = std::collections::HashSet::new();
        numbers.retain(|number| seen.insert(*number));
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        self.bound(path, words.join(", "));
        Ok(numbers)
    }

    fn texts(
        &mut self,
        example: &Json,
        path: &str,
        values: Option<(Values, bool)>,
    ) -> Result<Vec<String>, BoundsError> {
        let example = example.as_str().map(str::to_owned);
        let (mut texts, own) = match values {
            Some((Values::Texts(texts), own)) => (texts, own),
            Some((Values::Example, own)) => (example.clone().into_iter().collect(), own),
            Some(_) => return Err(BoundsError::Values { path: path.into(), problem: "it is a text".into() }),
            None => unreachable!("no table has each value of {path}: it has too many"),
        };
        if self.wide && !own {
            texts.extend(example);
            texts.extend([String::new(), "\u{fc}\u{1f600} other".into()]);
        }
        if texts.is_empty() {
            texts.push(String::new());
        }
        let mut seen = std::collections::HashSet::new();
        texts.retain(|text| seen.insert(text.clone()));
        let words: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
        self.bound(path, words.join(", "));
        Ok(texts)
    }
}

fn fixed(kind: Kind) -> Node {
    let size = 1;
    Node { id: usize::MAX, size, kind }
}

#[cfg(test)]
mod tests;
