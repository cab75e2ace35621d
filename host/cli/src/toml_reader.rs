//! Reads a TOML table key by key, notes every problem with its line, and offers the nearest valid key for unknown ones.
//!
//! The keys that are asked for are the keys that are valid, so the list of valid keys can never drift from the code.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_policy::nearest;

use crate::units::{Size, parse_duration, parse_size};

/// One problem of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// From 1.
    pub(crate) line: usize,
    /// The dotted path of the key, empty for a problem of the text itself.
    pub(crate) key: String,
    /// What is wrong and, where there is one, the remedy.
    pub(crate) message: String,
}

/// Collects the problems of one text.
#[derive(Debug)]
pub(crate) struct Problems {
    /// Where each line but the first begins, in bytes: counting them anew for each problem would take the product.
    line_starts: Vec<usize>,
    found: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(text: &str) -> Self {
        Problems { line_starts: text.match_indices('\n').map(|(end, _)| end + 1).collect(), found: Vec::new() }
    }

    /// The line, from 1, of a byte offset.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) + 1
    }

    pub(crate) fn add(&mut self, offset: usize, key: impl Into<String>, message: impl Into<String>) {
        let line = self.line(offset);
        // Both may quote the file.
        self.found.push(Problem { line, key: short(key.into()), message: short(message.into()) });
    }

    /// How many there are so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// All problems in the order of their lines.
    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by(|left, right| left.line.cmp(&right.line).then_with(|| left.key.cmp(&right.key)));
        self.found
    }
}

/// The words, cut where they quote what nobody would read to its end.
fn short(words: String) -> String {
    windlass_policy::cut(words, 512)
}

/// How a path begins that only a shell understands.
pub(crate) fn only_in_a_shell(path: &Path) -> Option<&'static str> {
    if path.starts_with("~") {
        Some("~, which only a shell reads as the home directory")
    } else if path.as_os_str().as_encoded_bytes().starts_with(b"$") {
        Some("$, which only a shell reads as a variable")
    } else {
        None
    }
}

#[cfg(test)]
thread_local! {
    /// Every key that this thread has asked for, whether it was there or not.
    pub(crate) static ASKED: std::cell::RefCell<std::collections::BTreeSet<String>> = const {
        std::cell::RefCell::new(std::collections::BTreeSet::new())
    };
}

/// One table being read.
pub(crate) struct TableReader<'r, 't> {
    table: &'r DeTable<'t>,
    path: String,
    asked: Vec<&'static str>,
}

impl<'r, 't> TableReader<'r, 't> {
    pub(crate) fn new(table: &'r DeTable<'t>, path: impl Into<String>) -> Self {
        TableReader { table, path: path.into(), asked: Vec::new() }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value as it stands, with its place.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<&'r Spanned<DeValue<'t>>> {
        self.asked.push(key);
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.insert(self.path_of(key)));
        self.table.get(key)
    }

    /// Where the value of this key stands, if it is there.
    pub(crate) fn offset(&self, key: &str) -> Option<usize> {
        self.table.get(key).map(|value| value.span().start)
    }

    /// A value of one type: `convert` says what is expected when it cannot take it.
    fn typed<T>(
        &mut self,
        problems: &mut Problems,
        key: &'static str,
        convert: impl FnOnce(&DeValue<'t>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        match convert(value.get_ref()) {
            Ok(converted) => Some(converted),
            Err(message) => {
                problems.add(value.span().start, self.path_of(key), message);
                None
            }
        }
    }

    pub(crate) fn text(&mut self, problems: &mut Problems, key: &'static str) -> Option<String> {
        self.typed(problems, key, |value| match value.as_str() {
            Some("") => Err("is empty; leave the key out instead".to_owned()),
            Some(text) => Ok(text.to_owned()),
            None => Err(expected("a text in quotes", value)),
        })
    }

    /// A path. What only a shell understands would name a folder here.
    pub(crate) fn path(&mut self, problems: &mut Problems, key: &'static str) -> Option<String> {
        self.typed(problems, key, |value| match value.as_str() {
            Some("") => Err("is empty; leave the key out instead".to_owned()),
            Some(text) => match only_in_a_shell(Path::new(text)) {
                Some(words) => Err(format!("begins with {words}; write the whole path")),
                None => Ok(text.to_owned()),
            },
            None => Err(expected("a text in quotes", value)),
        })
    }

    /// A text that `check` may refuse, in its own words.
    pub(crate) fn checked<T>(
        &mut self,
        problems: &mut Problems,
        key: &'static str,
        check: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.typed(problems, key, |value| match value.as_str() {
            Some(text) => check(text),
            None => Err(expected("a text in quotes", value)),
        })
    }

    pub(crate) fn size(&mut self, problems: &mut Problems, key: &'static str) -> Option<Size> {
        self.with_unit(problems, key, "a size in quotes, for example \"20GB\"", parse_size)
    }

    pub(crate) fn duration(&mut self, problems: &mut Problems, key: &'static str) -> Option<Duration> {
        self.with_unit(problems, key, "a duration in quotes, for example \"10m\"", parse_duration)
    }

    fn with_unit<T>(
        &mut self,
        problems: &mut Problems,
        key: &'static str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.typed(problems, key, |value| value.as_str().map_or_else(|| Err(expected(wanted, value)), parse))
    }

    pub(crate) fn number(
        &mut self,
        problems: &mut Problems,
        key: &'static str,
        range: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        self.typed(problems, key, |value| {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            let DeValue::Integer(integer) = value else { return Err(expected(&wanted, value)) };
            u32::from_str_radix(integer.as_str(), integer.radix())
                .ok()
                .filter(|number| range.contains(number))
                .ok_or_else(|| format!("is {integer}, but must be {wanted}"))
        })
    }

    /// One text, or a list of them.
    pub(crate) fn texts(&mut self, problems: &mut Problems, key: &'static str) -> Option<Vec<String>> {
        self.typed(problems, key, |value| match value {
            DeValue::String(text) => Ok(vec![text.to_string()]),
            DeValue::Array(items) => items
                .iter()
                .map(|item| {
                    item.get_ref()
                        .as_str()
                        .map(str::to_owned)
                        .ok_or_else(|| expected("a list of texts", item.get_ref()))
                })
                .collect(),
            other => Err(expected("a text or a list of texts", other)),
        })
    }

    /// A table within; `read` reads its keys, after which unknown ones are noted.
    pub(crate) fn table<T>(
        &mut self,
        problems: &mut Problems,
        key: &'static str,
        read: impl FnOnce(&mut TableReader<'r, 't>, &mut Problems) -> T,
    ) -> Option<T> {
        let value = self.value(key)?;
        match value.get_ref().as_table() {
            Some(table) => {
                let mut reader = TableReader::new(table, self.path_of(key));
                let result = read(&mut reader, problems);
                reader.finish(problems);
                Some(result)
            }
            None => {
                problems.add(value.span().start, self.path_of(key), expected("a table", value.get_ref()));
                None
            }
        }
    }

    /// Notes every key that nobody asked for.
    pub(crate) fn finish(self, problems: &mut Problems) {
        for key in self.table.keys() {
            if !self.asked.contains(&key.get_ref().as_ref()) {
                problems.add(
                    key.span().start,
                    self.path_of(key.get_ref()),
                    unknown("key", key.get_ref(), self.asked.iter().copied()),
                );
            }
        }
    }
}

pub(crate) fn expected(wanted: &str, value: &DeValue<'_>) -> String {
    let found = match value {
        DeValue::String(text) => format!("the text {:?}", text.as_ref()),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(truth) => truth.to_string(),
        DeValue::Datetime(instant) => format!("the date {instant}"),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    format!("must be {wanted}, not {found}")
}

/// The words for something unknown: the nearest valid name when one is near, otherwise all of them.
pub(crate) fn unknown<'n>(what: &str, name: &str, valid: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(name, valid.clone()) {
        Some(near) => format!("is no known {what}; did you mean '{near}'?"),
        None => {
            let all: Vec<&str> = valid.collect();
            format!("is no known {what}; there are: {}", all.join(", "))
        }
    }
}

/// A value without its places, as serde knows it.
pub(crate) fn without_places(value: &DeValue<'_>) -> Result<serde_json::Value, String> {
    Ok(match value {
        DeValue::String(text) => serde_json::Value::String(text.to_string()),
        DeValue::Boolean(truth) => serde_json::Value::Bool(*truth),
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
            .map(serde_json::Value::from)
            .map_err(|_| format!("the number {integer} is too large"))?,
        DeValue::Float(float) => float
            .as_str()
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(serde_json::Value::Number)
            .ok_or_else(|| format!("the number {float} cannot be passed on"))?,
        DeValue::Datetime(instant) => serde_json::Value::String(instant.to_string()),
        DeValue::Array(items) => {
            serde_json::Value::Array(items.iter().map(|item| without_places(item.get_ref())).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => {
            let fields: Result<BTreeMap<String, serde_json::Value>, String> = table
                .iter()
                .map(|(key, item)| Ok((key.get_ref().to_string(), without_places(item.get_ref())?)))
                .collect();
            serde_json::Value::Object(fields?.into_iter().collect())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(text: &str, read: impl FnOnce(&mut TableReader<'_, '_>, &mut Problems)) -> Vec<Problem> {
        let table = DeTable::parse(text).expect("TOML");
        let mut problems = Problems::new(text);
        let mut reader = TableReader::new(table.get_ref(), "");
        read(&mut reader, &mut problems);
        reader.finish(&mut problems);
        problems.into_sorted()
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_valid_one() {
        let problems = problems_of("\nonwer = 'a'\n[server]\nimgae = 'b'\n", |reader, problems| {
            reader.text(problems, "owner");
            reader.table(problems, "server", |reader, problems| reader.text(problems, "image"));
        });
        assert_eq!(
            problems,
            [
                Problem { line: 2, key: "onwer".into(), message: "is no known key; did you mean 'owner'?".into() },
                Problem {
                    line: 4,
                    key: "server.imgae".into(),
                    message: "is no known key; did you mean 'image'?".into()
                },
            ]
        );
    }

    #[test]
    fn a_key_like_no_other_gets_the_whole_list() {
        let problems = problems_of("zzz = 1", |reader, problems| {
            reader.text(problems, "owner");
            reader.text(problems, "zone");
        });
        assert_eq!(problems[0].message, "is no known key; there are: owner, zone");
    }

    #[test]
    fn wrong_types_and_ranges_say_what_is_expected() {
        let problems =
            problems_of("owner = 1\ncount = 0\nsize = '20'\nlist = [1]\nt = 'x'\nwait = 60", |reader, problems| {
                reader.text(problems, "owner");
                reader.number(problems, "count", 1..=9);
                reader.size(problems, "size");
                reader.texts(problems, "list");
                reader.table(problems, "t", |_, _| ());
                reader.duration(problems, "wait");
            });
        let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "must be a text in quotes, not the number 1",
                "is 0, but must be a whole number from 1 to 9",
                "'20' lacks a unit: write 20GB, 20GiB, 20TB, ...",
                "must be a list of texts, not the number 1",
                "must be a table, not the text \"x\"",
                "must be a duration in quotes, for example \"10m\", not the number 60",
            ]
        );
    }

    #[test]
    fn values_lose_their_places_and_keep_their_types() {
        let table = DeTable::parse("a = 0x10\nb = [1.5, true, 'x']\n[c]\nd = 1979-05-27").expect("TOML");
        let value = without_places(&DeValue::Table(table.into_inner())).expect("converts");
        assert_eq!(value, serde_json::json!({"a": 16, "b": [1.5, true, "x"], "c": {"d": "1979-05-27"}}));
    }
}
