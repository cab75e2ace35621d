//! YAML, and so JSON: all mistakes of a file at once, as TOML has them.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_norway::Value;
use toml::de::DeTable;
use windlass_policy::{Mistake, Place, Step, plain_serde, plain_yaml, read_document};

use crate::specification::ClusterSpecification;

pub(super) fn read(
    text: &str,
    checked: impl FnOnce(ClusterSpecification) -> Result<ClusterSpecification, Vec<Mistake>>,
) -> Result<ClusterSpecification, Vec<Mistake>> {
    match serde_norway::from_str(text) {
        Ok(read) => checked(read),
        Err(error) => Err(all_mistakes(text, checked).unwrap_or_else(|| first_mistakes(text, &error))),
    }
}

/// What ends the reading of a text of which not all mistakes can be known: the mistake at which serde ended, and the one
/// for which it is no YAML, or sets a key twice.
fn first_mistakes(text: &str, error: &serde_norway::Error) -> Vec<Mistake> {
    let twice = Duplicates.deserialize(serde_norway::Deserializer::from_str(text)).err();
    let mut mistakes = vec![first_mistake(text, error)];
    // A line that is indented too far continues the value above it, which is then no mistake of its own.
    let continues = twice.as_ref().is_some_and(|twice| twice.to_string().contains("mapping values are not allowed"));
    let is_same = twice.is_some() && error.to_string().contains("duplicate ");
    if is_same || continues {
        mistakes.clear();
    }
    mistakes.extend(twice.iter().map(|twice| first_mistake(text, twice)));
    // The first of them may name the key as well.
    mistakes.dedup_by(|later, first| later.place == first.place && first.words.ends_with(&later.words));
    mistakes
}

/// Whether it is a YAML document of keys and values. Almost any text is YAML, as one long scalar.
pub(super) fn has_keys(text: &str) -> bool {
    serde_norway::from_str::<Value>(text).is_ok_and(|value| value.is_mapping())
}

/// The mistake at which serde ends. Enough where the text is no YAML.
fn first_mistake(text: &str, error: &serde_norway::Error) -> Mistake {
    let line = error.location().map_or(1, |location| location.line());
    let words = plain_yaml(text, line, &error.to_string());
    if words.ends_with("expected struct ClusterSpecification") {
        let words = "a specification is a table: write name: farm, and in JSON {\"name\": \"farm\", ...}";
        return Mistake::new(format!("line {line}"), words);
    }
    // The path of the key comes first, where there is one.
    let (path, words) = match words.split_once(": ") {
        Some((path, rest)) if !path.contains(' ') => (format!("`{path}`: "), rest),
        _ => (String::new(), words.as_str()),
    };
    Mistake::new(format!("line {line}"), format!("{path}{}", plain_serde(words)))
}

/// What is wrong with the same as TOML, each mistake with its line in the YAML. `None`: it cannot be written as TOML,
/// or nothing is wrong with that.
fn all_mistakes(
    text: &str,
    checked: impl FnOnce(ClusterSpecification) -> Result<ClusterSpecification, Vec<Mistake>>,
) -> Option<Vec<Mistake>> {
    let mut value: Value = serde_norway::from_str(text).ok()?;
    drop_nulls(&mut value);
    let same = toml::to_string(&value).ok()?;
    let document = DeTable::parse(&same).ok()?;
    read_document(document, &|place, _| line_of(place, text), checked).err()
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

/// The line of a place in a YAML text that has it. A document that is read knows no lines, but an error does: so one is
/// made at the place.
fn line_of(place: &Place, text: &str) -> usize {
    let seeker = Seeker { steps: &place.steps, is_key: place.is_key };
    let found = seeker.deserialize(serde_norway::Deserializer::from_str(text));
    found.err().and_then(|error| error.location()).map_or(1, |location| location.line())
}

/// Ends with an error at the second of two keys of the same name.
#[derive(Clone, Copy)]
struct Duplicates;

impl<'de> DeserializeSeed<'de> for Duplicates {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Duplicates {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while map.next_key_seed(NewKey(&mut names))?.is_some() {
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key that its table does not have yet.
struct NewKey<'n>(&'n mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        match self.0.insert(key.to_owned()) {
            true => Ok(()),
            false => Err(E::custom(format!("duplicate field `{key}`"))),
        }
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
