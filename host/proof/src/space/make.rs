//! Makes the places of a question after the contract, the slot's example, the tables and the caller's own bounds.

use serde_json::Value as Json;
use windlass_contract::{Shape, meant};
use windlass_policy::slots::SlotName;

use super::bounds::{self, EACH_ITS_OWN, Row, Values};
use super::node::{Kind, Node};
use super::{Bound, BoundsError, Space, count};
use crate::slot::shapes;

/// How many items a list has at most in questions drawn at random.
const MAX_ITEMS: usize = 4;
/// The most items of a list that somebody may ask about: the contract allows no more of most lists, and each item
/// multiplies the questions.
const MAX_BOUND_ITEMS: usize = 64;

/// The space of a slot's questions.
pub(super) fn make(slot: SlotName, own: &[(String, Values)], wide: bool) -> Result<Space, BoundsError> {
    for (position, (path, _)) in own.iter().enumerate() {
        if own[..position].iter().any(|(known, _)| known == path) {
            return Err(BoundsError::Values { path: path.clone(), problem: "it is bounded twice".into() });
        }
    }
    let example = slot.example_question();
    let mut make = Make {
        slot,
        own,
        wide,
        needs: Vec::new(),
        choices: Vec::new(),
        bounds: Vec::new(),
        paths: Vec::new(),
        empty: Vec::new(),
        lists: Vec::new(),
    };
    let root =
        make.node(&shapes(slot).question, &Place { path: "", examples: &[&example], need: None, position: 0 })?;
    if let Some((path, _)) = own.iter().find(|(path, _)| !make.paths.contains(path)) {
        return Err(make.unknown(path));
    }
    Ok(Space { slot, root, needs: make.needs, choices: make.choices, bounds: make.bounds })
}

/// A place of the question.
#[derive(Clone, Copy)]
struct Place<'p> {
    path: &'p str,
    /// What the slot's example has there: in a list, what each of its items has. None, where it has no such place.
    examples: &'p [&'p Json],
    /// The choice of another place without which this one isn't there.
    need: Option<(usize, u32)>,
    /// In a list, of which item.
    position: usize,
}

impl Place<'_> {
    /// Each different value of the example.
    fn different<T: PartialEq>(&self, read: impl Fn(&Json) -> Option<T>) -> Vec<T> {
        let mut different = Vec::new();
        for value in self.examples.iter().filter_map(|example| read(example)) {
            if !different.contains(&value) {
                different.push(value);
            }
        }
        different
    }
}

/// What is asked about at a place.
struct Chosen {
    /// None: each value of its type.
    values: Option<Values>,
    /// Whether other values are asked about nowhere.
    exact: bool,
    /// Where somebody has said whether what is optional is there.
    presence: Option<Presence>,
    /// Whether each item of a list has another text.
    each_its_own: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Absent,
    Present,
    Both,
}

struct Make<'a> {
    slot: SlotName,
    own: &'a [(String, Values)],
    wide: bool,
    needs: Vec<Option<(usize, u32)>>,
    choices: Vec<u32>,
    bounds: Vec<Bound>,
    /// Every place that can be bounded.
    paths: Vec<String>,
    /// What the paths of places begin with that are never there, or never vary, and what has to be bounded first.
    empty: Vec<(String, String)>,
    /// The lists, and how many items each has at most.
    lists: Vec<(String, usize)>,
}

impl Make<'_> {
    /// The values that somebody has chosen for a place.
    fn chosen(&self, shape: &Shape, place: &Place<'_>) -> Result<Chosen, BoundsError> {
        if let Some((_, own)) = self.own.iter().find(|(path, _)| path == place.path) {
            return own_choice(own, shape, place)
                .map_err(|problem| BoundsError::Values { path: place.path.into(), problem });
        }
        let chosen = |values| Chosen { values, exact: false, presence: None, each_its_own: false };
        Ok(match bounds::of(self.slot, place.path) {
            None | Some(Row::First) => chosen(Some(Values::Example)),
            Some(Row::All) => chosen(None),
            Some(Row::Numbers(numbers)) => chosen(Some(Values::Numbers(numbers.to_vec()))),
            Some(Row::Texts(texts)) => {
                chosen(Some(Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect())))
            }
            Some(Row::Items(most)) => chosen(Some(Values::Items(*most))),
            Some(Row::Positions(list)) => {
                let most = self.lists.iter().find(|(known, _)| known == list).map_or(0, |(_, most)| *most);
                Chosen { exact: true, ..chosen(Some(Values::Numbers((0..most as u64).collect()))) }
            }
            Some(Row::Identity) => {
                Chosen { exact: true, each_its_own: true, ..chosen(Some(Values::Texts(vec![identity(place)]))) }
            }
        })
    }

    /// Whether a place is only asked about as the example has it.
    fn is_as_in_example(&self, chosen: &Chosen) -> bool {
        matches!(chosen.values, Some(Values::Example)) && (chosen.exact || !self.wide)
    }

    fn unknown(&self, path: &str) -> BoundsError {
        match self.empty.iter().find(|(begin, _)| path.starts_with(begin.as_str())) {
            Some((begin, outer)) => BoundsError::Values {
                path: path.into(),
                problem: match begin.ends_with("[]") {
                    true => format!("`{outer}` has no items to vary; add `--bound {outer}=1`"),
                    false => format!("`{outer}` is absent; add `--bound {outer}=all`"),
                },
            },
            None => BoundsError::UnknownPath {
                slot: self.slot,
                path: path.into(),
                meant: meant(path, self.paths.iter().map(String::as_str)),
            },
        }
    }

    /// A node that chooses between so many.
    fn id(&mut self, choices: u32, need: Option<(usize, u32)>) -> usize {
        self.needs.push(need);
        self.choices.push(choices);
        self.needs.len() - 1
    }

    fn is_bounded(&self, path: &str) -> bool {
        self.bounds.iter().any(|known| known.path == path)
    }

    /// Says what the values of a place are. The other items of a list have the same.
    fn bound(&mut self, path: &str, values: String) {
        if !self.is_bounded(path) {
            self.bounds.push(Bound { path: path.to_owned(), values });
        }
    }

    fn node(&mut self, shape: &Shape, place: &Place<'_>) -> Result<Node, BoundsError> {
        let chosen = self.chosen(shape, place)?;
        let is_first = matches!(bounds::of(self.slot, place.path), Some(Row::First));
        let examples = if is_first && !chosen.exact && !self.wide {
            place.examples.get(..1).unwrap_or_default()
        } else {
            place.examples
        };
        let place = &Place { examples, ..*place };
        let is_whole = place.path.is_empty() || place.path.ends_with("[]") && matches!(shape, Shape::Record(_));
        if !is_whole && !self.paths.iter().any(|known| known == place.path) {
            self.paths.push(place.path.to_owned());
        }
        match shape {
            Shape::Option(inner) => self.option(inner, place, chosen),
            _ => self.present(shape, place, chosen),
        }
    }

    /// A place that isn't absent.
    fn present(&mut self, shape: &Shape, place: &Place<'_>, chosen: Chosen) -> Result<Node, BoundsError> {
        match shape {
            Shape::Record(fields) => {
                self.only_there(place, &chosen, "the places in it are bounded one by one")?;
                let mut nodes = Vec::with_capacity(fields.len());
                for (name, shape) in *fields {
                    let path = match place.path {
                        "" => (*name).to_owned(),
                        outer => format!("{outer}.{name}"),
                    };
                    let examples: Vec<&Json> = place.examples.iter().map(|example| &example[*name]).collect();
                    nodes.push(self.node(shape, &Place { path: &path, examples: &examples, ..*place })?);
                }
                let size = nodes.iter().fold(1, |size: u64, node| size.saturating_mul(node.size));
                Ok(Node { id: usize::MAX, size, kind: Kind::Record(nodes) })
            }
            Shape::List(item) => self.list(item, place, chosen),
            Shape::Bool => self.boolean(place, &chosen),
            Shape::Enum(cases) => self.case(cases, place, &chosen),
            Shape::Number { bits } => {
                let numbers = self.numbers(*bits, place, chosen)?;
                let size = numbers.len() as u64;
                Ok(Node { id: self.id(count(numbers.len()), place.need), size, kind: Kind::Number(numbers) })
            }
            Shape::Text => {
                let texts = self.texts(place, chosen)?;
                let size = texts.len() as u64;
                Ok(Node { id: self.id(count(texts.len()), place.need), size, kind: Kind::Text(texts) })
            }
            Shape::Option(_) => unreachable!("no option is in an option"),
            Shape::Variant(_) => unreachable!("no question has a variant"),
        }
    }

    fn option(&mut self, inner: &Shape, place: &Place<'_>, chosen: Chosen) -> Result<Node, BoundsError> {
        let there: Vec<&Json> = place.examples.iter().copied().filter(|example| !example.is_null()).collect();
        let is_always_there = there.len() == place.examples.len();
        let place = Place { examples: &there, ..*place };
        let presence = match chosen.presence {
            Some(presence) => presence,
            None if !self.is_as_in_example(&chosen) => Presence::Both,
            None if there.is_empty() => Presence::Absent,
            None if is_always_there => Presence::Present,
            None => Presence::Both,
        };
        match presence {
            Presence::Absent => {
                self.empty.push((format!("{}.", place.path), place.path.to_owned()));
                self.bound(place.path, "absent".into());
                return Ok(fixed(Kind::Absent));
            }
            Presence::Present => {
                let before = self.bounds.len();
                let is_first = !self.is_bounded(place.path);
                let inner = self.present(inner, &place, chosen)?;
                if is_first && !self.is_bounded(place.path) {
                    self.bounds.insert(before, Bound { path: place.path.to_owned(), values: "present".into() });
                }
                return Ok(Node { id: usize::MAX, size: inner.size, kind: Kind::Present(Box::new(inner)) });
            }
            Presence::Both => {}
        }
        let id = self.id(2, place.need);
        let is_first = !self.is_bounded(place.path);
        let inner = self.present(inner, &Place { need: Some((id, 1)), ..place }, chosen)?;
        if let Some(bound) = self.bounds.iter_mut().find(|bound| is_first && bound.path == place.path) {
            bound.values.insert_str(0, "absent, ");
        }
        Ok(Node { id, size: inner.size.saturating_add(1), kind: Kind::Option(Box::new(inner)) })
    }

    fn list(&mut self, item: &Shape, place: &Place<'_>, chosen: Chosen) -> Result<Node, BoundsError> {
        let items: Vec<&Json> = place.examples.iter().filter_map(|list| list.as_array()).flatten().collect();
        if let Some(Values::List(own)) = &chosen.values {
            let of_item = |(position, one): (usize, &Json)| {
                item.misfits(one).into_iter().map(move |problem| format!("item {position}: {problem}"))
            };
            let misfits: Vec<String> = own.iter().enumerate().flat_map(of_item).collect();
            if !misfits.is_empty() {
                return Err(BoundsError::Values { path: place.path.into(), problem: misfits.join("; ") });
            }
            return Ok(self.fixed_list(item, place, &own.iter().collect::<Vec<_>>()));
        }
        let most = match chosen.values {
            // Positions in a list of texts stand elsewhere in the question.
            Some(Values::Example) if chosen.exact || !self.wide || matches!(item, Shape::Text) => {
                return Ok(self.fixed_list(item, place, &items));
            }
            Some(Values::Items(most)) => most,
            // As a command line says it, which can't tell the most items of a list from a number.
            Some(Values::Numbers(numbers)) if numbers.len() == 1 => usize::try_from(numbers[0]).unwrap_or(usize::MAX),
            Some(Values::Example) => items.len().max(1),
            Some(_) => {
                let problem = "a list is bounded by the number of its items, or is one JSON list".into();
                return Err(BoundsError::Values { path: place.path.into(), problem });
            }
            None => 1,
        };
        if most > MAX_BOUND_ITEMS {
            let problem = format!("{most} items are more than {MAX_BOUND_ITEMS}, the most that can be asked about");
            return Err(BoundsError::Values { path: place.path.into(), problem });
        }
        let most = if self.wide && !chosen.exact { most.max(MAX_ITEMS) } else { most };
        self.lists.push((place.path.to_owned(), most));
        if most == 0 {
            self.empty.push((format!("{}[]", place.path), place.path.to_owned()));
        }
        self.bound(place.path, format!("up to {most} {}", if most == 1 { "item" } else { "items" }));
        let id = self.id(count(most) + 1, place.need);
        let path = format!("{}[]", place.path);
        let mut nodes = Vec::with_capacity(most);
        let (mut size, mut of_length): (u64, u64) = (1, 1);
        for position in 0..most {
            let need = Some((id, count(position) + 1));
            let node = self.node(item, &Place { path: &path, examples: &items, need, position })?;
            of_length = of_length.saturating_mul(node.size);
            size = size.saturating_add(of_length);
            nodes.push(node);
        }
        Ok(Node { id, size, kind: Kind::List(nodes) })
    }

    /// A list of exactly these items.
    fn fixed_list(&mut self, item: &Shape, place: &Place<'_>, items: &[&Json]) -> Node {
        self.lists.push((place.path.to_owned(), items.len()));
        self.empty.push((format!("{}[]", place.path), place.path.to_owned()));
        self.bound(place.path, Json::Array(items.iter().copied().cloned().collect()).to_string());
        fixed(Kind::FixedList(items.iter().map(|example| self.fixed(item, example)).collect()))
    }

    /// Exactly the example, chosen by nobody.
    fn fixed(&mut self, shape: &Shape, example: &Json) -> Node {
        let kind = match shape {
            Shape::Bool => Kind::FixedBool(example.as_bool().unwrap_or_default()),
            Shape::Enum(cases) => Kind::FixedCase(position_of(cases, example).unwrap_or_default()),
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

    /// Refuses values of one's own for what has none to choose from.
    fn only_there(&self, place: &Place<'_>, chosen: &Chosen, why: &str) -> Result<(), BoundsError> {
        match &chosen.values {
            Some(Values::Example) | None => Ok(()),
            Some(_) => {
                let problem = format!(
                    "{why}; `example` takes what the example has, `all` each value, and `absent` or `present` say whether \
                     an optional field is there"
                );
                Err(BoundsError::Values { path: place.path.into(), problem })
            }
        }
    }

    fn boolean(&mut self, place: &Place<'_>, chosen: &Chosen) -> Result<Node, BoundsError> {
        let own = match &chosen.values {
            Some(Values::Texts(texts)) => texts.iter().map(|text| text.parse().ok()).collect(),
            _ => None,
        };
        if own.is_none() {
            self.only_there(place, chosen, "it is `true` or `false`")?;
        }
        let is_own = own.is_some();
        let mut values: Vec<bool> = own.unwrap_or_else(|| place.different(Json::as_bool));
        values.dedup();
        if values.is_empty() {
            values.push(false);
        }
        match values[..] {
            [value] if is_own || self.is_as_in_example(chosen) => {
                self.bound(place.path, value.to_string());
                Ok(fixed(Kind::FixedBool(value)))
            }
            _ => Ok(Node { id: self.id(2, place.need), size: 2, kind: Kind::Bool }),
        }
    }

    fn case(&mut self, cases: &[&'static str], place: &Place<'_>, chosen: &Chosen) -> Result<Node, BoundsError> {
        let mut positions: Vec<u32> = Vec::new();
        match &chosen.values {
            Some(Values::Texts(texts)) => {
                for text in texts {
                    let Some(position) = cases.iter().position(|case| case == text) else {
                        let problem = format!("{text} is none of its values{}", meant(text, cases.iter().copied()));
                        return Err(BoundsError::Values { path: place.path.into(), problem });
                    };
                    if !positions.contains(&count(position)) {
                        positions.push(count(position));
                    }
                }
            }
            _ if self.is_as_in_example(chosen) => {
                positions = place.different(|example| position_of(cases, example));
                if positions.is_empty() {
                    positions.push(0);
                }
            }
            _ => {
                self.only_there(place, chosen, "each of its values is asked about")?;
                positions = (0..count(cases.len())).collect();
            }
        }
        if positions.len() < cases.len() {
            let words: Vec<&str> = positions.iter().map(|position| cases[*position as usize]).collect();
            self.bound(place.path, words.join(", "));
        }
        match positions[..] {
            [position] => Ok(fixed(Kind::FixedCase(position))),
            _ => {
                let size = positions.len() as u64;
                Ok(Node { id: self.id(count(positions.len()), place.need), size, kind: Kind::Case(positions) })
            }
        }
    }

    fn numbers(&mut self, bits: u8, place: &Place<'_>, chosen: Chosen) -> Result<Vec<u64>, BoundsError> {
        let most = u64::MAX >> (64 - u32::from(bits));
        let mut numbers = match chosen.values {
            Some(Values::Numbers(numbers)) => numbers,
            Some(Values::Example) => place.different(Json::as_u64),
            Some(_) => return Err(BoundsError::Values { path: place.path.into(), problem: "it is a number".into() }),
            None => unreachable!("no table has each value of {}: it has too many", place.path),
        };
        if let Some(number) = numbers.iter().find(|number| **number > most) {
            let problem = format!("{number} is more than {most}, the largest that it can be");
            return Err(BoundsError::Values { path: place.path.into(), problem });
        }
        if self.wide && !chosen.exact && place.path != "now" {
            numbers.extend(place.different(Json::as_u64));
            numbers.extend([0, 1, 2, most]);
        }
        if numbers.is_empty() {
            numbers.push(0);
        }
        let mut seen = std::collections::HashSet::new();
        numbers.retain(|number| seen.insert(*number));
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        self.bound(place.path, words.join(", "));
        Ok(numbers)
    }

    fn texts(&mut self, place: &Place<'_>, chosen: Chosen) -> Result<Vec<String>, BoundsError> {
        let of_example = || place.different(|example| example.as_str().map(str::to_owned));
        let mut texts = match chosen.values {
            Some(Values::Texts(texts)) => texts,
            Some(Values::Example) => of_example(),
            Some(_) => return Err(BoundsError::Values { path: place.path.into(), problem: "it is a text".into() }),
            None => unreachable!("no table has each value of {}: it has too many", place.path),
        };
        if self.wide && !chosen.exact {
            texts.extend(of_example());
            texts.extend([String::new(), "\u{fc}\u{1f600} other".into()]);
        }
        if texts.is_empty() {
            texts.push(String::new());
        }
        let mut seen = std::collections::HashSet::new();
        texts.retain(|text| seen.insert(text.clone()));
        let words: Vec<String> = texts.iter().map(|text| Json::from(text.as_str()).to_string()).collect();
        let words = words.join(", ");
        match self.bounds.iter_mut().find(|bound| bound.path == place.path) {
            Some(bound) if chosen.each_its_own && place.position > 0 => bound.values.push_str(&format!(", {words}")),
            Some(_) => {}
            None if chosen.each_its_own => self.bound(place.path, format!("{EACH_ITS_OWN}{words}")),
            None => self.bound(place.path, words),
        }
        Ok(texts)
    }
}

/// What somebody has chosen for a place.
fn own_choice(own: &Values, shape: &Shape, place: &Place<'_>) -> Result<Chosen, String> {
    let is_optional = matches!(shape, Shape::Option(_));
    let (presence, values) = match own {
        Values::Absent => (Some(Presence::Absent), &Values::Example),
        Values::Present => (Some(Presence::Present), own),
        Values::OrAbsent(values) => (Some(Presence::Both), &**values),
        Values::All if is_optional => (Some(Presence::Both), own),
        Values::Example => (None, own),
        values => (is_optional.then_some(Presence::Present), values),
    };
    if presence.is_some() && !is_optional {
        return Err("it is not optional, so it is always present".into());
    }
    let chosen = |values| Chosen { values, exact: true, presence, each_its_own: false };
    let has_few = !matches!(shape.present(), Shape::Number { .. } | Shape::Text | Shape::List(_));
    match values {
        Values::EachItsOwn(texts) => match texts.get(place.position) {
            Some(text) => Ok(Chosen { each_its_own: true, ..chosen(Some(Values::Texts(vec![text.clone()]))) }),
            None => Err(format!("it has {} texts, and the list has more items", texts.len())),
        },
        Values::Absent | Values::OrAbsent(_) => Err("it is said twice that it is absent".into()),
        Values::All | Values::Present if has_few => Ok(chosen(None)),
        Values::Present => Ok(chosen(Some(Values::Example))),
        Values::All => Err("it has too many values to ask about them all: name some".into()),
        values => Ok(chosen(Some(values.clone()))),
    }
}

/// What tells an item from the others: the example's, as long as there is one.
fn identity(place: &Place<'_>) -> String {
    let text = |example: &&Json| example.as_str().unwrap_or_default().to_owned();
    match (place.examples.get(place.position), place.examples.last()) {
        (Some(own), _) => text(own),
        (None, Some(last)) => format!("{}-{}", text(last), place.position + 1),
        (None, None) => (place.position + 1).to_string(),
    }
}

fn position_of(cases: &[&str], case: &Json) -> Option<u32> {
    cases.iter().position(|known| case == known).map(count)
}

fn fixed(kind: Kind) -> Node {
    Node { id: usize::MAX, size: 1, kind }
}
