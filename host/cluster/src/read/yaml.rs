//! YAML, and so JSON: all mistakes of a file at once, as TOML has them.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_norway::Value;
use toml::de::{DeTable, DeValue};
use windlass_policy::{plain_serde, read_document};

use super::invalid;
use crate::specification::{ClusterSpecification, InvalidSpecification};

pub(super) fn read(text: &str) -> Result<ClusterSpecification, InvalidSpecification> {
    serde_norway::from_str(text).map_err(|error| all_mistakes(text).unwrap_or_else(|| first_mistake(&error)))
}

/// Whether it is a YAML document of keys and values. Almost any text is YAML, as one long scalar.
pub(super) fn has_keys(text: &str) -> bool {
    serde_norway::from_str::<Value>(text).is_ok_and(|value| value.is_mapping())
}

/// The mistake at which serde ends. Enough where the text is no YAML.
fn first_mistake(error: &serde_norway::Error) -> InvalidSpecification {
    let line = error.location().map_or(1, |location| location.line());
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or(&words);
    // The path of the key comes first, where there is one.
    let (path, words) = match words.split_once(": ") {
        Some((path, rest)) if !path.contains(' ') => (format!("`{path}`: "), rest),
        _ => (String::new(), words),
    };
    InvalidSpecification::new(format!("line {line}"), format!("{path}{}", plain_serde(words)))
}

/// What is wrong with the same as TOML, each mistake with its line in the YAML. `None`: it cannot be written as TOML,
/// or nothing is wrong with that.
fn all_mistakes(text: &str) -> Option<InvalidSpecification> {
    let mut value: Value = serde_norway::from_str(text).ok()?;
    drop_nulls(&mut value);
    let same = toml::to_string(&value).ok()?;
    let document = DeTable::parse(&same).ok()?;
    let original = document.clone();
    let line = |span: Option<Range<usize>>| {
        let place = span.and_then(|span| place_in_table(original.get_ref(), &span));
        place.map_or(1, |place| place.line(text))
    };
    read_document::<ClusterSpecification>(document, &line).err().map(invalid)
}

/// TOML has no null. A key without a value is a missing one.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Mapping(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.iter_mut().for_each(|(_, value)| drop_nulls(value));
        }
        Value::Sequence(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Where something is in a document.
#[derive(Debug, Default)]
struct Place {
    /// From the outermost.
    steps: Vec<Step>,
    /// Whether the last key is meant, and not its value.
    is_key: bool,
}

#[derive(Debug)]
enum Step {
    Key(String),
    Item(usize),
}

fn place_in_table(table: &DeTable<'_>, span: &Range<usize>) -> Option<Place> {
    table.iter().find_map(|(key, value)| {
        // A table begins with its key.
        let is_table = matches!(value.get_ref(), DeValue::Table(_));
        let is_key = key.span() == *span || (is_table && value.span() == *span);
        let place = if is_key { Some(Place { is_key, ..Place::default() }) } else { place_in(value.get_ref(), span) };
        let place = place.or_else(|| (value.span() == *span).then(Place::default));
        place.map(|place| place.within(Step::Key(key.get_ref().to_string())))
    })
}

fn place_in(value: &DeValue<'_>, span: &Range<usize>) -> Option<Place> {
    match value {
        DeValue::Table(inner) => place_in_table(inner, span),
        DeValue::Array(items) => items.iter().enumerate().find_map(|(position, item)| {
            let place = place_in(item.get_ref(), span).or_else(|| (item.span() == *span).then(Place::default));
            place.map(|place| place.within(Step::Item(position)))
        }),
        _ => None,
    }
}

impl Place {
    fn within(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self
    }

    /// Its line in a YAML text that has it. A document that is read knows no lines, but an error does: so one is made
    /// at the place.
    fn line(&self, text: &str) -> usize {
        let seeker = Seeker { steps: &self.steps, is_key: self.is_key };
        let found = seeker.deserialize(serde_norway::Deserializer::from_str(text));
        found.err().and_then(|error| error.location()).map_or(1, |location| location.line())
    }
}

/// Ends with an error at a place.
struct Seeker<'p> {
    steps: &'p [Step],
    is_key: bool,
}

impl<'de> DeserializeSeed<'de> for Seeker<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

// A scalar is no map and no list: that is the error.
impl<'de> Visitor<'de> for Seeker<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("something else")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let [Step::Key(name), rest @ ..] = self.steps else { return Err(A::Error::custom("found")) };
        let is_sought = self.is_key && rest.is_empty();
        while let Some(is_it) = map.next_key_seed(KeySeeker { name, is_sought })? {
            if is_it {
                map.next_value_seed(Seeker { steps: rest, is_key: self.is_key })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let [Step::Item(position), rest @ ..] = self.steps else { return Err(A::Error::custom("found")) };
        for _ in 0..*position {
            items.next_element::<IgnoredAny>()?;
        }
        items.next_element_seed(Seeker { steps: rest, is_key: self.is_key })?;
        Ok(())
    }
}

/// Whether a key has this name; ends with an error there if it is sought.
struct KeySeeker<'p> {
    name: &'p str,
    is_sought: bool,
}

impl<'de> DeserializeSeed<'de> for KeySeeker<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeeker<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        match key == self.name {
            true if self.is_sought => Err(E::custom("found")),
            is_it => Ok(is_it),
        }
    }
}
