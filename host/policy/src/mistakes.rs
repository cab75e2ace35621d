//! Reads TOML and tells every mistake at once. serde ends at the first one: to find the others, a value that can be
//! read takes the place of what is wrong, or what is wrong is taken out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};
use windlass_contract::nearest;

use crate::plain::{plain_serde, plain_toml_at};

/// The maximum number of mistakes that are reported of one text.
const MAX_MISTAKES: usize = 32;
/// The maximum number of lines that are no TOML and are reported. A text with many is no TOML at all.
const MAX_SYNTAX_MISTAKES: usize = 8;
/// What may be readable where something is not, in TOML. The types of a file are not known here. There is none for one of
/// a few names: what other keys may hold often depends on it.
const STAND_INS: [&str; 8] = ["'x'", "1", "false", "[]", "{}", "'10m'", "'20GB'", "'fr-par-1'"];

/// Something that is wrong in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where: `line 4`, the path of a key, as `groups.web.types[0]`, or a variable. Empty where the words name it.
    pub place: String,
    /// What is wrong and what would be right.
    pub words: String,
}

impl Mistake {
    /// What is wrong with the value at this path.
    pub fn new(place: impl Into<String>, words: impl Into<String>) -> Mistake {
        Mistake { place: place.into(), words: words.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => formatter.write_str(&self.words),
            place => write!(formatter, "{place}: {}", self.words),
        }
    }
}

/// Reads a TOML text. `make` makes of what is read what is wanted, or says what is wrong with the values: each mistake
/// with the path of its key.
///
/// # Errors
/// All mistakes, at least one: what cannot be read, in the order of the lines, and then those of `make`, but not of
/// what could not be read.
pub fn read_toml<T: DeserializeOwned, U>(
    text: &str,
    make: impl FnOnce(T) -> Result<U, Vec<Mistake>>,
) -> Result<U, Vec<Mistake>> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let line = |span: Option<Range<usize>>| span.map_or(1, |span| line_of(text, span.start));
    if !errors.is_empty() {
        let mut lines = BTreeMap::new();
        for error in &errors {
            // The next ones of a line follow from its first.
            lines.entry(line(error.span())).or_insert_with(|| plain_toml_at(text, error.span(), error.message()));
        }
        return Err(lines.into_iter().take(MAX_SYNTAX_MISTAKES).map(|(line, words)| on_line(line, words)).collect());
    }
    read_document(document, &|_, span| line(span), make)
}

/// All mistakes in a value of another format, without lines. Empty if there are none, or the value has no form in TOML,
/// as a null.
pub fn mistakes_of<T: DeserializeOwned, U>(
    value: &impl Serialize,
    make: impl FnOnce(T) -> Result<U, Vec<Mistake>>,
) -> Vec<Mistake> {
    let written = toml::to_string(value).ok();
    written.and_then(|text| read_toml(&text, make).err()).unwrap_or_default()
}

/// Reads a document. `line` gives the line of a place, which also has this span in the document, in the text that people
/// know.
///
/// # Errors
/// As those of [`read_toml`].
pub fn read_document<T: DeserializeOwned, U>(
    document: Spanned<DeTable<'_>>,
    line: &dyn Fn(&Place, Option<Range<usize>>) -> usize,
    make: impl FnOnce(T) -> Result<U, Vec<Mistake>>,
) -> Result<U, Vec<Mistake>> {
    let mut reader =
        Reader { document, found: Vec::new(), changed: Vec::new(), taken_out: Vec::new(), renamed: Vec::new() };
    let mut problems = Vec::new();
    // Each round changes the document.
    while reader.found.len() < MAX_MISTAKES {
        match reader.read::<T>() {
            Ok(value) => match make(value) {
                Ok(made) if reader.found.is_empty() => return Ok(made),
                Ok(_) => break,
                Err(mut wrong) => {
                    let is_read =
                        |mistake: &Mistake| !reader.changed.iter().any(|place| place.overlaps(&mistake.place));
                    wrong.retain(is_read);
                    wrong.iter_mut().for_each(|mistake| reader.place_as_written(mistake));
                    problems = wrong;
                    break;
                }
            },
            Err(error) if reader.repair::<T>(&error) => {}
            Err(_) => break,
        }
    }
    let on_its_line = |found: &Found| (line(&reader.as_written(&found.place), found.span.clone()), found.words.clone());
    let mut found: Vec<(usize, String)> = reader.found.iter().map(on_its_line).collect();
    found.sort_by_key(|(line, _)| *line);
    let found = found.into_iter().map(|(line, words)| on_line(line, words));
    Err(found.chain(problems).collect())
}

fn on_line(line: usize, words: String) -> Mistake {
    Mistake { place: format!("line {line}"), words }
}

/// Where something is in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// From the outermost. Empty: the whole document.
    pub steps: Vec<Step>,
    /// Whether the last key is meant, and not its value.
    pub is_key: bool,
}

/// One step towards a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into a table, to the value of this key.
    Key(String),
    /// Into a list, to the item at this position.
    Item(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(key) if number == 0 => formatter.write_str(key)?,
                Step::Key(key) => write!(formatter, ".{key}")?,
                Step::Item(position) => write!(formatter, "[{position}]")?,
            }
        }
        Ok(())
    }
}

impl Place {
    fn find(document: &Spanned<DeTable<'_>>, span: Option<Range<usize>>) -> Option<Place> {
        match span {
            Some(span) if span != document.span() => find_in_table(document.get_ref(), &span),
            _ => Some(Place::default()),
        }
    }

    fn key(&self, key: &str) -> Place {
        let steps = self.steps.iter().cloned().chain([Step::Key(key.to_owned())]).collect();
        Place { steps, is_key: false }
    }

    fn within(mut self, step: Step) -> Place {
        self.steps.insert(0, step);
        self
    }

    /// Whether one of the two holds the other.
    fn overlaps(&self, path: &str) -> bool {
        let own = self.to_string();
        below(&own, path).is_some() || below(path, &own).is_some()
    }

    /// The last key.
    fn last_key(&self) -> Option<&str> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item(_) => None,
        })
    }
}

/// What is left of a path below another one; empty if they are the same. `None`: it is elsewhere.
fn below<'p>(outer: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(outer).filter(|rest| rest.is_empty() || outer.is_empty() || rest.starts_with(['.', '[']))
}

fn find_in_table(table: &DeTable<'_>, span: &Range<usize>) -> Option<Place> {
    table.iter().find_map(|(key, value)| {
        let place =
            if key.span() == *span { Some(Place { is_key: true, ..Place::default() }) } else { find_in(value, span) };
        place.map(|place| place.within(Step::Key(key.get_ref().to_string())))
    })
}

fn find_in(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<Place> {
    let inner = match value.get_ref() {
        DeValue::Table(inner) => find_in_table(inner, span),
        DeValue::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(position, item)| find_in(item, span).map(|place| place.within(Step::Item(position)))),
        _ => None,
    };
    inner.or_else(|| (value.span() == *span).then(Place::default))
}

/// A mistake that serde found.
struct Found {
    place: Place,
    span: Option<Range<usize>>,
    words: String,
}

/// A document that is repaired mistake by mistake.
struct Reader<'t> {
    document: Spanned<DeTable<'t>>,
    /// The mistakes to report.
    found: Vec<Found>,
    /// Where there is no longer what the text says.
    changed: Vec<Place>,
    /// What could not be read and is no longer there.
    taken_out: Vec<Place>,
    /// Where something is that has another key now, and where the text has it.
    renamed: Vec<(Place, Place)>,
}

impl<'t> Reader<'t> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(Deserializer::from(self.document.clone()))
    }

    /// Reports this mistake, if it follows from no other, and changes the document so that it is gone. False: it cannot.
    fn repair<T: DeserializeOwned>(&mut self, error: &Error) -> bool {
        let (words, span) = (error.message(), error.span());
        let Some(place) = Place::find(&self.document, span.clone()) else {
            self.found.push(Found { place: Place::default(), span, words: plain_serde(words) });
            return false;
        };
        let names: Vec<&str> = words.split('`').skip(1).step_by(2).collect();
        let named = match place.last_key() {
            Some(key) => format!("`{key}`: {}", plain_serde(words)),
            None => plain_serde(words),
        };
        let report = |place: &Place, words| self.found.push(Found { place: place.clone(), span, words });
        match names.split_first() {
            Some((key, valid)) if words.starts_with("unknown field") => {
                report(&place, plain_serde(words));
                self.repair_unknown_key(&place, key, valid)
            }
            Some((key, _)) if words.starts_with("missing field") => {
                let missing = place.key(key);
                if self.taken_out.contains(&missing) {
                    return self.take_out(&place);
                }
                report(&Place { is_key: true, ..place.clone() }, named);
                self.stand_in::<T>(&missing) || self.take_out(&place)
            }
            // An error about a stand-in, or about what contains one, follows from a mistake that is reported already. It
            // is at a key where only an inner table is written, as at `start` in [hooks.start.webhook].
            _ if self.changed.iter().any(|changed| changed.steps.starts_with(&place.steps)) => self.take_out(&place),
            // A key that is itself a value, as a name.
            _ if place.is_key => {
                report(&place, named);
                self.stand_in_key::<T>(&place) || self.take_out(&place)
            }
            _ => {
                report(&place, named);
                self.stand_in::<T>(&place) || self.take_out(&place)
            }
        }
    }

    /// Gives an unknown key the name that was probably meant, or takes it out.
    fn repair_unknown_key(&mut self, place: &Place, key: &str, valid: &[&str]) -> bool {
        let Some((_, parent)) = place.steps.split_last() else { return false };
        nearest(key, valid.iter().copied()).is_some_and(|meant| self.rename(parent, key, meant))
            || table_at(self.document.get_mut(), parent).is_some_and(|table| table.remove(key).is_some())
    }

    /// Gives a key that cannot be read a name that can. False: it cannot be read either.
    fn stand_in_key<T: DeserializeOwned>(&mut self, place: &Place) -> bool {
        let Some((Step::Key(key), parent)) = place.steps.split_last() else { return false };
        let (original, name) = (self.document.clone(), format!("x{}", self.renamed.len()));
        if !self.rename(parent, key, &name) {
            return false;
        }
        let is_still_wrong = self.read::<T>().err().is_some_and(|error| {
            let is_it =
                |wrong: Place| wrong.is_key && self.renamed.last().is_some_and(|(now, _)| wrong.steps == now.steps);
            Place::find(&self.document, error.span()).is_none_or(is_it)
        });
        if is_still_wrong {
            self.document = original;
            self.renamed.pop();
        }
        !is_still_wrong
    }

    /// Gives a key of a table another name. False: the table has no such key, or has the name already.
    fn rename(&mut self, parent: &[Step], key: &str, name: &str) -> bool {
        let Some(table) = table_at(self.document.get_mut(), parent) else { return false };
        if table.contains_key(name) {
            return false;
        }
        let Some((old, value)) = table.remove_entry(key) else { return false };
        table.insert(Spanned::new(old.span(), Cow::Owned(name.to_owned())), value);
        let parent = Place { steps: parent.to_vec(), is_key: false };
        self.renamed.push((parent.key(name), self.as_written(&parent.key(key))));
        true
    }

    /// The place in the text.
    fn as_written(&self, place: &Place) -> Place {
        let mut place = place.clone();
        if let Some((now, written)) = self.renamed.iter().rev().find(|(now, _)| place.steps.starts_with(&now.steps)) {
            place.steps.splice(..now.steps.len(), written.steps.iter().cloned());
        }
        place
    }

    /// Gives a mistake its place in the text.
    fn place_as_written(&self, mistake: &mut Mistake) {
        let moved =
            self.renamed.iter().rev().find_map(|(now, written)| {
                below(&now.to_string(), &mistake.place).map(|rest| format!("{written}{rest}"))
            });
        mistake.place = moved.unwrap_or_else(|| std::mem::take(&mut mistake.place));
    }

    /// Puts what can be read at a place. False: nothing of what is known can.
    fn stand_in<T: DeserializeOwned>(&mut self, place: &Place) -> bool {
        let original = self.document.clone();
        for text in STAND_INS {
            let Ok(value) = DeValue::parse(text) else { continue };
            if !put(self.document.get_mut(), place, value.into_inner(), self.changed.len()) {
                break;
            }
            let is_still_wrong = match self.read::<T>() {
                Ok(_) => false,
                Err(error) => Place::find(&self.document, error.span())
                    .is_none_or(|wrong| wrong.steps.starts_with(&place.steps) || is_above(&wrong, place, &error)),
            };
            if !is_still_wrong {
                self.changed.push(place.clone());
                return true;
            }
        }
        self.document = original;
        false
    }

    fn take_out(&mut self, place: &Place) -> bool {
        let Some((last, parent)) = place.steps.split_last() else { return false };
        let is_out = match last {
            Step::Key(key) => {
                table_at(self.document.get_mut(), parent).is_some_and(|table| table.remove(key.as_str()).is_some())
            }
            Step::Item(position) => match value_at(self.document.get_mut(), parent).map(Spanned::get_mut) {
                Some(DeValue::Array(items)) if *position < items.len() => {
                    let all = std::mem::replace(items, std::iter::empty().collect()).into_iter().enumerate();
                    *items = all.filter(|(at, _)| at != position).map(|(_, item)| item).collect();
                    true
                }
                _ => false,
            },
        };
        let place = Place { is_key: false, ..place.clone() };
        self.changed.push(place.clone());
        self.taken_out.push(place);
        is_out
    }
}

/// Whether an error is about something that holds this place, and not about another key in it.
fn is_above(wrong: &Place, place: &Place, error: &Error) -> bool {
    !error.message().starts_with("missing field") && !wrong.is_key && place.steps.starts_with(&wrong.steps)
}

fn value_at<'d, 't>(table: &'d mut DeTable<'t>, steps: &[Step]) -> Option<&'d mut Spanned<DeValue<'t>>> {
    let (Step::Key(key), rest) = steps.split_first()? else { return None };
    rest.iter().try_fold(table.get_mut(key.as_str())?, |value, step| match (step, value.get_mut()) {
        (Step::Key(key), DeValue::Table(table)) => table.get_mut(key.as_str()),
        (Step::Item(position), DeValue::Array(items)) => items.get_mut(*position),
        _ => None,
    })
}

fn table_at<'d, 't>(table: &'d mut DeTable<'t>, steps: &[Step]) -> Option<&'d mut DeTable<'t>> {
    if steps.is_empty() {
        return Some(table);
    }
    match value_at(table, steps)?.get_mut() {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Puts a value at a place, whose last key need not be there. `number` differs for each such key. False: there is no such
/// place.
fn put<'t>(document: &mut DeTable<'t>, place: &Place, value: DeValue<'t>, number: usize) -> bool {
    if let Some(there) = value_at(document, &place.steps) {
        *there.get_mut() = value;
        return true;
    }
    let Some((Step::Key(key), parent)) = place.steps.split_last() else { return false };
    let Some(table) = table_at(document, parent) else { return false };
    // It is nowhere in the text. No other key and no other value has the same span, so that an error in it is known.
    let nowhere = |offset: usize| usize::MAX - 2 * number - offset..usize::MAX;
    table.insert(Spanned::new(nowhere(1), Cow::Owned(key.clone())), Spanned::new(nowhere(2), value));
    true
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
        read_toml(text, Ok::<File, _>).unwrap_err().iter().map(ToString::to_string).collect()
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
        assert_eq!(read_toml("name = 'x'\nrow = [{ count = 1 }]\n", Ok::<File, _>).unwrap().row.len(), 1);
        assert_eq!(
            mistakes("name = \nrow = 'x\n[a\n"),
            [
                "line 1: a text needs quotes",
                "line 2: the text has no closing quote",
                "line 3: the brackets are not closed",
            ]
        );
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Group {
        zone: Zone,
        count: u32,
        #[serde(default)]
        limit: Option<u32>,
    }

    /// A text that is read by rules of its own.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Zone;

    impl TryFrom<String> for Zone {
        type Error = String;

        fn try_from(text: String) -> Result<Zone, String> {
            if text == "fr-par-1" { Ok(Zone) } else { Err(format!("{text} is no zone")) }
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Groups {
        name: String,
        groups: BTreeMap<Name, Group>,
    }

    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    #[serde(try_from = "String")]
    struct Name(String);

    impl TryFrom<String> for Name {
        type Error = String;

        fn try_from(text: String) -> Result<Name, String> {
            match text.starts_with(|first: char| first.is_ascii_uppercase()) {
                true => Err(format!("{text} is no small letter")),
                false => Ok(Name(text)),
            }
        }
    }

    /// Nobody may be called x, counts are below 10, and a limit is below the count.
    fn checked(read: Groups) -> Result<Groups, Vec<Mistake>> {
        let mut wrong = Vec::new();
        if read.name == "x" {
            wrong.push(Mistake::new("name", "nobody is called x"));
        }
        for (Name(name), group) in &read.groups {
            let Group { zone: Zone, count, limit } = group;
            if *count > 9 {
                wrong.push(Mistake::new(format!("groups.{name}.count"), "must be below 10"));
            }
            if limit.is_some_and(|limit| limit > *count) {
                wrong.push(Mistake::new(format!("groups.{name}.limit"), "must not be above the count"));
            }
        }
        if wrong.is_empty() { Ok(read) } else { Err(wrong) }
    }

    #[test]
    fn what_cannot_be_read_hides_no_wrong_value_and_makes_none() {
        let all = |text: &str| -> Vec<String> {
            read_toml(text, checked).unwrap_err().iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            all("nmae = 'x'\n[groups.a]\nzone = 'fr-par-9'\ncount = 12\n[groups.b]\ncount = '3'\nlimit = 1\n\
                 [groups.c]\nzone = 'fr-par-1'\ncount = 3\nlimit = 4\ncolour = 1\n"),
            [
                "line 1: there is no key `nmae` here; did you mean `name`?",
                "line 3: `zone`: fr-par-9 is no zone",
                "line 5: `b`: the key `zone` is missing",
                "line 6: `count`: the text \"3\" must be a whole number, 0 or more, without quotes",
                "line 12: there is no key `colour` here; use one of: zone, count, limit",
                "nmae: nobody is called x",
                "groups.a.count: must be below 10",
                "groups.c.limit: must not be above the count",
            ]
        );
        assert_eq!(all(""), ["line 1: the key `name` is missing", "line 1: the key `groups` is missing"]);
        assert_eq!(all("name = 'y'\ngroups = 3\n"), ["line 2: `groups`: the number 3 must be a table"]);
        // What has a wrong key is read under another, and told under its own.
        assert_eq!(
            all("name = 'y'\ngruops = 1\n"),
            [
                "line 2: there is no key `gruops` here; did you mean `groups`?",
                "line 2: `groups`: the number 1 must be a table"
            ]
        );
        assert_eq!(
            all("name = 'y'\n[groups.A]\nzone = 'fr-par-1'\ncount = 12\nlimit = 'x'\n"),
            [
                "line 2: `A`: A is no small letter",
                "line 5: `limit`: the text \"x\" must be a whole number, 0 or more, without quotes",
                "groups.A.count: must be below 10",
            ]
        );
        let right = "name = 'y'\n[groups.a]\nzone = 'fr-par-1'\ncount = 3\n";
        assert_eq!(read_toml(right, checked).unwrap().groups.len(), 1);
    }
}
