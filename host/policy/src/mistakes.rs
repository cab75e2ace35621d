//! Reads TOML and tells every mistake at once. serde ends at the first one: to find the others, what is wrong is
//! replaced by something that can be read, or taken out.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use crate::plain::{plain_serde, plain_toml};

/// The maximum number of mistakes that are reported of one text.
const MAX_MISTAKES: usize = 32;

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// In words for people.
    pub words: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.words)
    }
}

/// Reads a TOML text.
///
/// # Errors
/// Its mistakes in the order of their lines, at least one.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, Vec<Mistake>> {
    let line = |span: Option<Range<usize>>| span.map_or(1, |span| line_of(text, span.start));
    let document = DeTable::parse(text)
        .map_err(|error| vec![Mistake { line: line(error.span()), words: plain_toml(error.message()) }])?;
    read_document(document, &line)
}

/// All mistakes in a value of another format. Their lines are not those of the file. Empty if there are none, or the
/// value has no form in TOML, as a null.
pub fn mistakes_of<T: DeserializeOwned>(value: &impl Serialize) -> Vec<Mistake> {
    let written = toml::to_string(value).ok();
    written.and_then(|text| read_toml::<T>(&text).err()).unwrap_or_default()
}

/// Reads a document whose places have these lines.
///
/// # Errors
/// As those of [`read_toml`].
pub fn read_document<T: DeserializeOwned>(
    mut document: Spanned<DeTable<'_>>,
    line: &dyn Fn(Option<Range<usize>>) -> usize,
) -> Result<T, Vec<Mistake>> {
    let mut found: Vec<((usize, usize), String)> = Vec::new();
    let mut repaired = Vec::new();
    while found.len() < MAX_MISTAKES {
        let error = match T::deserialize(Deserializer::from(document.clone())) {
            Ok(read) if found.is_empty() => return Ok(read),
            Ok(_) => break,
            Err(error) => error,
        };
        let (words, span) = (error.message(), error.span().unwrap_or_default());
        let is_missing = words.starts_with("missing field");
        let again = repaired.contains(&span);
        // A key may be missing because it was taken out.
        if is_missing && !found.is_empty() {
            break;
        }
        let key = if is_missing { None } else { repair(document.get_mut(), &span, words, again) };
        if !again {
            let key = key.as_ref().filter(|_| !words.starts_with("unknown field"));
            let place = key.map(|key| format!("`{key}`: ")).unwrap_or_default();
            found.push(((line(error.span()), span.start), format!("{place}{}", plain_serde(words))));
        }
        if key.is_none() {
            break;
        }
        repaired.push(span);
    }
    found.sort_by_key(|(place, _)| *place);
    if found.is_empty() {
        found.push(((1, 0), "it cannot be read".to_owned()));
    }
    Err(found.into_iter().map(|((line, _), words)| Mistake { line, words }).collect())
}

/// Takes the key or value at this place out, or puts there what can be read, by serde's words about it. The key.
fn repair(table: &mut DeTable<'_>, span: &Range<usize>, words: &str, take_out: bool) -> Option<String> {
    let key_at =
        |table: &DeTable<'_>| table.keys().find(|key| key.span() == *span).map(|key| key.get_ref().to_string());
    if let Some(key) = key_at(table) {
        table.remove(key.as_str());
        return Some(key);
    }
    let mut out = None;
    for (key, value) in table.iter_mut() {
        if value.span() == *span {
            match readable(words).filter(|_| !take_out) {
                Some(readable) => *value.get_mut() = readable,
                None => out = Some(key.get_ref().to_string()),
            }
            if out.is_none() {
                return Some(key.get_ref().to_string());
            }
            break;
        }
        let within = match value.get_mut() {
            DeValue::Table(inner) => repair(inner, span, words, take_out),
            DeValue::Array(items) => repair_in(items, span, words, take_out, key.get_ref()),
            _ => None,
        };
        if within.is_some() {
            return within;
        }
    }
    out.inspect(|key| drop(table.remove(key.as_str())))
}

/// The same in a list that stands under a key: an item that cannot be read is taken out.
fn repair_in(items: &mut DeArray<'_>, span: &Range<usize>, words: &str, take_out: bool, key: &str) -> Option<String> {
    if let Some(position) = items.iter().position(|item| item.span() == *span) {
        let all = std::mem::replace(items, std::iter::empty().collect()).into_iter().enumerate();
        *items = all.filter(|(at, _)| *at != position).map(|(_, item)| item).collect();
        return Some(key.to_owned());
    }
    items.iter_mut().find_map(|item| match item.get_mut() {
        DeValue::Table(inner) => repair(inner, span, words, take_out),
        _ => None,
    })
}

/// A value of the type that serde expected.
fn readable(words: &str) -> Option<DeValue<'static>> {
    let (_, expected) = words.trim_end().rsplit_once(", expected ")?;
    let text = match expected {
        "a string" => "''",
        "a boolean" => "false",
        "a sequence" => "[]",
        number if number.starts_with(['u', 'i']) && number[1..].parse::<u8>().is_ok() => "1",
        _ => return None,
    };
    DeValue::parse(text).ok().map(Spanned::into_inner)
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        #[expect(dead_code, reason = "only the mistakes count")]
        count: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[expect(dead_code, reason = "only the mistakes count")]
        name: String,
        row: Vec<Row>,
    }

    fn mistakes(text: &str) -> Vec<String> {
        read_toml::<File>(text).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_mistakes_are_told_in_the_order_of_their_lines() {
        assert_eq!(
            mistakes("nmae = 1\nname = 2\n[[row]]\ncount = 'two'\n[[row]]\ncuont = 3\ncount = 1.5\n"),
            [
                "line 1: there is no key `nmae` here; did you mean `name`?",
                "line 2: `name`: the number 2 must be a text in quotes",
                "line 4: `count`: the text \"two\" must be a whole number, 0 or more, without quotes",
                "line 6: there is no key `cuont` here; did you mean `count`?",
                "line 7: `count`: the number 1.5 must be a whole number, 0 or more, without quotes",
            ]
        );
        assert_eq!(mistakes("name = 'x'\n"), ["line 1: the key `row` is missing"]);
        assert_eq!(mistakes("name = 'x\n"), ["line 1: the text has no closing quote"]);
        assert_eq!(read_toml::<File>("name = 'x'\nrow = [{ count = 1 }]\n").unwrap().row.len(), 1);
    }
}
