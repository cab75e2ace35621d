//! Files of rules: policies that need no compiler.
//!
//! A file of rules is TOML: its slot, and conditions in CEL, each with an answer and a reason. It becomes the settings
//! of one component that is built into the host and evaluates them in the sandbox (guest/rules). So the digest of its
//! settings identifies a file of rules, and everything that holds for policies holds for it. What the rules say is
//! checked there; here, mistakes in TOML are reported with their line.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_contract::nearest;

use crate::plain::{plain_serde, plain_toml_at};
use crate::slot_name::SlotName;
use crate::source::Source;
use crate::text::{is_unprintable, short, unknown_key};

/// How the name of a file of rules ends.
const ENDING: &str = ".rules.toml";
/// The longest name of a file in records, without its ending.
const MAX_STEM: usize = 64;
/// The longest name of a rule, in bytes.
const MAX_RULE_NAME: usize = 64;
/// How many problems of one file are reported.
const MAX_PROBLEMS: usize = 32;

const FILE_KEYS: [&str; 2] = ["slot", "rules"];
const RULE_KEYS: [&str; 4] = ["name", "when", "answer", "reason"];
/// What stands for the keys that a rule must have, where it lacks one.
const PLACEHOLDER: [(&str, &str); 2] = [("when", "true"), ("answer", "defer")];

/// A file of rules, read.
#[derive(Clone, Debug, PartialEq)]
pub struct RulesFile {
    slot: SlotName,
    /// The line of the slot, from 1.
    slot_line: usize,
    settings: Map<String, Value>,
    rules: Vec<RuleLines>,
    /// What is wrong: then the settings have something else in its place, so that the rest can be looked at.
    problems: Vec<Problem>,
}

/// Something wrong: its line, from 1, and words that begin with it.
type Problem = (usize, String);

/// Where a rule stands.
#[derive(Clone, Debug, Default, PartialEq)]
struct RuleLines {
    /// The line at which it begins, from 1.
    line: usize,
    name: Option<(String, usize)>,
    /// The line of each key, from 1.
    keys: Vec<(String, usize)>,
}

impl RulesFile {
    /// Whether a file of that name holds rules: it ends in `.rules.toml`.
    pub fn is_named(path: &Path) -> bool {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(ENDING))
    }

    /// A name that rules may have in records, from that of their file: what no name of a policy has becomes a dash.
    pub(crate) fn name_for_people(name: &str) -> String {
        let stem = name.strip_suffix(ENDING).unwrap_or(name);
        let plain = |char: char| if char.is_ascii_graphic() { char } else { '-' };
        format!("{}{ENDING}", stem.chars().take(MAX_STEM).map(plain).collect::<String>())
    }

    /// Whether a policy of this name is made of rules.
    pub(crate) fn has_named(policy: &str) -> bool {
        policy.ends_with(ENDING)
    }

    /// Whether a policy from there is made of rules.
    pub(crate) fn is_source(source: &Source) -> bool {
        match source {
            Source::Rules { .. } => true,
            Source::File(path) => RulesFile::is_named(path),
            Source::BuiltIn | Source::Bytes(_) | Source::Registry(_) => false,
        }
    }

    /// Reads a file's contents. Whether conditions and answers fit the slot is found out when it is loaded.
    ///
    /// # Errors
    /// All that is wrong, each with its line and key, and the nearest valid key.
    pub fn read(contents: &[u8]) -> Result<RulesFile, Vec<String>> {
        let file = RulesFile::read_all(contents)?;
        match file.problems.is_empty() {
            true => Ok(file),
            false => Err(reported(file.problems)),
        }
    }

    /// The slot that a file's rules are for, whatever else is wrong with it: loading it tells that.
    ///
    /// # Errors
    /// As [`RulesFile::read`], where there is no slot.
    pub fn slot_in(contents: &[u8]) -> Result<SlotName, Vec<String>> {
        RulesFile::read_all(contents).map(|file| file.slot)
    }

    /// The same, also with problems where there is a slot for which the rest can be looked at.
    pub(crate) fn read_all(contents: &[u8]) -> Result<RulesFile, Vec<String>> {
        let text = std::str::from_utf8(contents)
            .map_err(|error| vec![format!("line {}: it is not UTF-8 text", line_of(contents, error.valid_up_to()))])?;
        let line = |offset: usize| line_of(contents, offset);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(span.start));
            vec![format!("line {line}: it is not TOML: {}", short(&plain_toml_at(text, error.span(), error.message())))]
        })?;
        let mut problems = Vec::new();
        let mut slot = None;
        let mut has_slot = false;
        let mut has_rules = false;
        let mut rules = Vec::new();
        let mut lines = Vec::new();
        for (key, value) in table.get_ref() {
            let at = line(key.span().start);
            let mut wrong = |words: String| problems.push((at, format!("line {at}: {words}")));
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("slot", value) => {
                    has_slot = true;
                    match value.as_str().map(slot_named) {
                        Some(Ok(name)) => slot = Some((name, at)),
                        Some(Err(problem)) => wrong(problem),
                        None => wrong("`slot`: expected the name of a slot".into()),
                    }
                }
                ("rules", DeValue::Array(array)) => {
                    has_rules = !array.is_empty();
                    for rule in array.iter() {
                        let (json, rule_lines) = read_rule(rule, lines.len(), &line, &mut problems);
                        rules.push(json);
                        lines.push(rule_lines);
                    }
                }
                ("rules", _) => {
                    has_rules = true;
                    wrong("`rules`: expected tables, each begun by [[rules]]".into());
                }
                (unknown, _) => wrong(unknown_key(unknown, &FILE_KEYS)),
            }
        }
        if !has_slot {
            let slots = SlotName::ALL.map(SlotName::as_str).join(", ");
            problems.push((1, format!("line 1: the key `slot` is missing: which of {slots} are the rules for?")));
        }
        if !has_rules && problems.is_empty() {
            problems.push((0, "it has no rule: add one, begun by [[rules]]".into()));
        }
        check_names(&lines, &mut problems);
        let Some((slot, slot_line)) = slot else { return Err(reported(problems)) };
        let mut settings = Map::new();
        settings.insert("slot".into(), slot.as_str().into());
        settings.insert("rules".into(), Value::Array(rules));
        Ok(RulesFile { slot, slot_line, settings, rules: lines, problems })
    }

    /// The slot that the rules are for.
    pub fn slot(&self) -> SlotName {
        self.slot
    }

    /// The rules in their order: the name, where one has one, and the condition.
    pub fn rules(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let written = self.settings.get("rules").and_then(Value::as_array).into_iter().flatten();
        written.map(|rule| (rule["name"].as_str(), rule["when"].as_str().unwrap_or_default()))
    }

    /// The labels by whose names conditions ask, as far as their text says:
    /// `subject.labels.exists(l, l.name == 'team')`.
    pub(crate) fn label_names(&self) -> impl Iterator<Item = &str> {
        let macros = self.rules().flat_map(|(_, when)| when.split("labels.").skip(1));
        let bodies = macros.filter_map(|after| after.split_once('(')?.1.split_once(','));
        bodies.flat_map(|(variable, body)| {
            let (variable, mut rest) = (variable.trim(), body);
            let mut names = Vec::new();
            while let Some((before, after)) = rest.split_once(variable).filter(|_| !variable.is_empty()) {
                let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.');
                names.extend(compared_name(after).filter(|_| !before.ends_with(is_word)));
                rest = after;
            }
            names
        })
    }

    /// What the component's `configure` gets.
    pub(crate) fn settings(&self) -> &Map<String, Value> {
        &self.settings
    }

    /// Whether something is wrong with the file itself.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Whether they can be used for a slot.
    pub(crate) fn check_slot(&self, slot: SlotName) -> Result<(), String> {
        match self.slot == slot {
            true => Ok(()),
            false => {
                Err(format!("line {}: they are rules for the slot `{}`, not for `{slot}`", self.slot_line, self.slot))
            }
        }
    }

    /// All that is wrong: with the file itself, and in the component's words, of which each line begins with a place in
    /// the settings such as `rules[2].when: `.
    pub(crate) fn explain<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Vec<String> {
        let explained = words.into_iter().map(|words| self.explained(words));
        reported(self.problems.iter().cloned().chain(explained).collect())
    }

    fn explained(&self, words: &str) -> Problem {
        let place = || {
            let (place, problem) = words.split_once(": ")?;
            let (position, key) = place.strip_prefix("rules[")?.split_once("].")?;
            let position: usize = position.parse().ok()?;
            let rule = self.rules.get(position)?;
            let (_, line) = rule.keys.iter().find(|(known, _)| known == key)?;
            let name = rule.name.as_ref().map(|(name, _)| format!(" (`{}`)", short(name))).unwrap_or_default();
            let when = self.settings["rules"][position]["when"].as_str().unwrap_or_default();
            let problem = plain_cel(&plain_serde(problem)) + &milliseconds_of(problem) + quotes_for(problem, when);
            Some((*line, format!("line {line}, rule {}{name}: `{key}`: {problem}", position + 1)))
        };
        place().unwrap_or_else(|| (usize::MAX, words.to_owned()))
    }
}

/// What the parser of CEL says about a condition, without its words for what is missing.
pub fn plain_cel(words: &str) -> String {
    let (what, place) = match words.rsplit_once(" (character ") {
        Some((what, place)) => (what, format!(" (character {place}")),
        None => (words, String::new()),
    };
    match (what.split_once("mismatched input '<EOF>' expecting "), what.split_once(" expecting {")) {
        (Some((before, _)), _) => format!("{before}it ends where more is expected{place}"),
        (None, Some((before, _))) => format!("{before}{place}"),
        (None, None) => words.to_owned(),
    }
}

/// What is said besides about a name that does not exist, and is a part of a word with dashes: `out-of-stock`.
fn quotes_for(problem: &str, when: &str) -> &'static str {
    let name = problem.strip_prefix("there is no `").and_then(|rest| rest.split('`').next());
    let is_part = |name: &str| when.contains(&format!("{name}-")) || when.contains(&format!("-{name}"));
    if name.is_some_and(is_part) { "; a text needs quotes: 'out-of-stock'" } else { "" }
}

/// What to write for a text with a unit where milliseconds are expected.
fn milliseconds_of(problem: &str) -> String {
    let number = || {
        let (_, after) = problem.split_once("string \"")?;
        let (text, expected) = after.split_once('"')?;
        let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
        let factor = match text[digits..].trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        expected.starts_with(", expected u").then_some(text[..digits].parse::<u64>().ok()?.checked_mul(factor)?)
    };
    number().map(|number| format!("; times are in milliseconds: write {number}")).unwrap_or_default()
}

/// The names of the rules in the settings of what evaluates them, as records have them: that of a rule without a name
/// is its number.
pub(crate) fn names_in(settings: &Map<String, Value>) -> Vec<Arc<str>> {
    let rules = settings.get("rules").and_then(Value::as_array).into_iter().flatten();
    let names = (1..).zip(rules).map(|(number, rule)| match rule["name"].as_str() {
        Some(name) => name.into(),
        None => numbered(number).into(),
    });
    names.collect()
}

/// The text with which `.name == 'text'` compares.
fn compared_name(after_variable: &str) -> Option<&str> {
    let compared = after_variable.strip_prefix(".name")?.trim_start().strip_prefix("==")?.trim_start();
    let quote = compared.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    compared[1..].split_once(quote).map(|(name, _)| name)
}

/// The name of a rule that has none.
fn numbered(number: usize) -> String {
    format!("rule {number}")
}

/// The words of problems in the order of their lines, as far as anybody reads.
fn reported(mut problems: Vec<Problem>) -> Vec<String> {
    problems.sort_by_key(|(line, _)| *line);
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    problems.truncate(MAX_PROBLEMS);
    let words = problems.into_iter().map(|(_, words)| words);
    words.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// Names say in records which rule answered: each rule has its own.
fn check_names(rules: &[RuleLines], problems: &mut Vec<Problem>) {
    let mut known: Vec<(String, usize, usize)> = Vec::new();
    for (number, rule) in (1..).zip(rules) {
        let (name, line) = match &rule.name {
            Some((name, line)) => (name.clone(), *line),
            None => (numbered(number), rule.line),
        };
        if rule.name.is_some() {
            let mut wrong =
                |words: String| problems.push((line, format!("line {line}: rule {number}: `name`: {words}")));
            if name.trim().is_empty() {
                wrong("it is empty".into());
            } else if name.len() > MAX_RULE_NAME {
                wrong(format!("it has {} bytes, and at most {MAX_RULE_NAME} are allowed", name.len()));
            } else if name.contains(is_unprintable) {
                wrong("it has characters that a reader does not see, or that move the cursor".into());
            }
        }
        match known.iter().find(|(other, _, _)| *other == name) {
            Some((_, other, at)) => problems.push((
                line,
                format!(
                    "line {line}: rule {number}: rule {other} (line {at}) is called `{}`, too: give each its own name",
                    short(&name)
                ),
            )),
            None => known.push((name, number, line)),
        }
    }
}

fn slot_named(name: &str) -> Result<SlotName, String> {
    let slots = SlotName::ALL.map(SlotName::as_str);
    name.parse().map_err(|_| {
        let meant = match nearest(name, slots) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => format!("; the slots are {}", slots.join(", ")),
        };
        format!("there is no slot `{}`{meant}", short(name))
    })
}

/// One rule as JSON. What is wrong or missing becomes something that can be read.
fn read_rule(
    rule: &Spanned<DeValue<'_>>,
    position: usize,
    line: &impl Fn(usize) -> usize,
    problems: &mut Vec<Problem>,
) -> (Value, RuleLines) {
    let number = position + 1;
    let mut wrong = |at: usize, words: String| problems.push((at, format!("line {at}: rule {number}: {words}")));
    let mut json = Map::new();
    let mut lines = RuleLines { line: line(rule.span().start), ..RuleLines::default() };
    let Some(table) = rule.get_ref().as_table() else {
        wrong(lines.line, "expected a table, begun by [[rules]]".into());
        return (PLACEHOLDER.map(|(key, value)| (key.to_owned(), Value::from(value))).into_iter().collect(), lines);
    };
    for (key, value) in table {
        let (at, key) = (line(key.span().start), key.get_ref().as_ref());
        if !RULE_KEYS.contains(&key) {
            wrong(at, unknown_key(key, &RULE_KEYS));
            continue;
        }
        lines.keys.push((key.to_owned(), at));
        if key != "answer" && !value.get_ref().is_str() {
            wrong(at, format!("`{key}`: it must be a text in quotes"));
            continue;
        }
        if key == "name" {
            lines.name = value.get_ref().as_str().map(|name| (name.to_owned(), at));
        }
        match to_json(value) {
            Ok(value) => drop(json.insert(key.to_owned(), value)),
            Err(problem) => wrong(at, format!("`{key}`: {problem}")),
        }
    }
    for (key, placeholder) in PLACEHOLDER {
        // A misspelt one is reported as such.
        if !table.keys().any(|written| nearest(written.get_ref(), RULE_KEYS) == Some(key)) {
            wrong(lines.line, format!("the key `{key}` is missing"));
        }
        json.entry(key).or_insert_with(|| placeholder.into());
    }
    (json.into(), lines)
}

fn to_json(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    Ok(match value.get_ref() {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| format!("{number} is too large"))?.into()
        }
        DeValue::Array(items) => items.iter().map(to_json).collect::<Result<Vec<_>, _>>()?.into(),
        DeValue::Table(table) => {
            let member = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                Ok((key.get_ref().clone().into_owned(), to_json(value)?))
            };
            table.iter().map(member).collect::<Result<Map<_, _>, String>>()?.into()
        }
        DeValue::Float(_) => return Err("no slot has fractions".into()),
        DeValue::Datetime(_) => return Err("instants are milliseconds since 1970-01-01T00:00:00Z".into()),
    })
}

/// The line of a byte, from 1.
fn line_of(contents: &[u8], offset: usize) -> usize {
    contents.iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATIENCE: &str = r#"
slot = "retry"

[[rules]]
name = "stock"
when = "failure.class == 'out-of-stock'"
answer = { wait = 60_000 }
reason = "stock may come back"

[[rules]]
when = "attempt > 9"
answer = "give-up"
"#;

    #[test]
    fn a_file_is_its_slot_and_its_rules_in_their_order() {
        let file = RulesFile::read(PATIENCE.as_bytes()).unwrap();
        assert_eq!(file.slot(), SlotName::Retry);
        let expected = [(Some("stock"), "failure.class == 'out-of-stock'"), (None, "attempt > 9")];
        assert_eq!(file.rules().collect::<Vec<_>>(), expected);
        assert_eq!(file.settings()["rules"][0]["answer"], json!({ "wait": 60_000 }));
        assert_eq!(file.settings()["rules"][1]["answer"], "give-up");
    }

    #[test]
    fn the_same_rules_written_otherwise_are_the_same_settings() {
        let other = r#"rules = [
            { reason = "stock may come back", name = "stock", when = "failure.class == 'out-of-stock'",
              answer = { wait = 0xEA60 } },
            { when = "attempt > 9", answer = "give-up" },
        ]
        slot = "retry""#;
        let (one, other) = (RulesFile::read(PATIENCE.as_bytes()).unwrap(), RulesFile::read(other.as_bytes()).unwrap());
        assert_eq!(Value::Object(one.settings), Value::Object(other.settings));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_key() {
        for (text, expected) in [
            ("", "line 1: the key `slot` is missing: which of state-mapping, retry"),
            ("\nslot = \"rety\"", "line 2: there is no slot `rety`; did you mean `retry`?"),
            ("slot = \"retry\"\nrule = 1", "line 2: unknown key `rule`; did you mean `rules`?"),
            ("slot = 1", "line 1: `slot`: expected the name of a slot"),
            ("slot = \"retry\"\nrules = 1", "line 2: `rules`: expected tables"),
            ("slot = \"retry\"\nrules = [1]", "line 2: rule 1: expected a table"),
            ("slot = \"retry\"\n[[rules]]\nwhen = \"true\"\n", "line 2: rule 1: the key `answer` is missing"),
            (
                "slot = \"retry\"\n[[rules]]\nwehn = \"true\"\nanswer = \"defer\"\n",
                "line 3: rule 1: unknown key `wehn`; did you mean `when`?",
            ),
            (
                "slot = \"retry\"\n[[rules]]\nanswer = \"defer\"\nwhen = true\n",
                "line 4: rule 1: `when`: it must be a text in quotes",
            ),
            (
                "slot = \"retry\"\n[[rules]]\nwhen = \"true\"\nanswer = 1.5\n",
                "line 4: rule 1: `answer`: no slot has fractions",
            ),
            ("slot = \"retry\"\n\n[[rules]\n", "line 3: it is not TOML"),
            ("slot = \"retry\"\nslot = \"retry\"\n", "line 2: it is not TOML"),
        ] {
            let errors = RulesFile::read(text.as_bytes()).unwrap_err();
            assert!(errors[0].starts_with(expected), "{text:?}: {errors:?}");
        }
        assert_eq!(RulesFile::read(b"slot\n= \xff").unwrap_err(), ["line 2: it is not UTF-8 text"]);
    }

    #[test]
    fn all_that_is_wrong_with_a_file_is_told_at_once_in_its_order() {
        let text = r#"
rulez = 1
[[rules]]
wehn = "true"
answer = 1.5

[[rules]]
name = 5
when = "true"
answer = "defer"
"#;
        let places: Vec<String> = RulesFile::read(text.as_bytes()).unwrap_err();
        let expected = [
            "line 1: the key `slot` is missing",
            "line 2: unknown key `rulez`; did you mean `rules`?",
            "line 4: rule 1: unknown key `wehn`; did you mean `when`?",
            "line 5: rule 1: `answer`: no slot has fractions",
            "line 8: rule 2: `name`: it must be a text in quotes",
        ];
        assert_eq!(places.len(), expected.len(), "{places:?}");
        for (reported, expected) in places.iter().zip(expected) {
            assert!(reported.starts_with(expected), "{reported}");
        }
        let many = format!("slot = \"retry\"\n{}", "[[rules]]\nwehn = 1\n".repeat(50));
        let reported = RulesFile::read(many.as_bytes()).unwrap_err();
        assert_eq!((reported.len(), reported[MAX_PROBLEMS].as_str()), (MAX_PROBLEMS + 1, "and 68 more"));
    }

    #[test]
    fn each_rule_has_a_name_of_its_own_that_can_be_read() {
        let names = |names: [&str; 3]| {
            let rule = |name: &str| {
                let name = if name.is_empty() { String::new() } else { format!("name = {}\n", json!(name)) };
                format!("[[rules]]\n{name}when = \"true\"\nanswer = \"defer\"\n")
            };
            let text = format!("slot = \"retry\"\n{}", names.map(rule).concat());
            RulesFile::read(text.as_bytes())
                .map(|file| names_in(file.settings()))
                .map_err(|problems| problems.join("; "))
        };
        let are = |known: [&str; 3]| Ok(known.map(Arc::<str>::from).to_vec());
        assert_eq!(names(["a", "", "c"]), are(["a", "rule 2", "c"]));
        for (of, expected) in [
            (["a", "", "a"], "line 10: rule 3: rule 1 (line 3) is called `a`, too: give each its own name"),
            (["a", "", "rule 2"], "line 10: rule 3: rule 2 (line 6) is called `rule 2`, too"),
            (["rule 2", "", "b"], "line 6: rule 2: rule 1 (line 3) is called `rule 2`, too"),
            ([" ", "", "b"], "line 3: rule 1: `name`: it is empty"),
            (["a\u{202e}b", "", "b"], "line 3: rule 1: `name`: it has characters that a reader does not see"),
            ([&"é".repeat(33), "", "b"], "line 3: rule 1: `name`: it has 66 bytes, and at most 64 are allowed"),
        ] {
            let problem = names(of).unwrap_err();
            assert!(problem.starts_with(expected), "{of:?}: {problem}");
        }
    }

    #[test]
    fn the_components_words_get_their_line() {
        let file = RulesFile::read(PATIENCE.as_bytes()).unwrap();
        let words = ["rules[1].answer: x: y", "rules[0].when: there is no `failur`"];
        let expected = ["line 6, rule 1 (`stock`): `when`: there is no `failur`", "line 12, rule 2: `answer`: x: y"];
        assert_eq!(file.explain(words), expected, "in the order of the file");
        assert_eq!(file.explain(["rules[7].when: x"]), ["rules[7].when: x"]);
        assert_eq!(file.explain(["something else"]), ["something else"]);
    }

    #[test]
    fn only_the_name_of_a_file_says_that_it_holds_rules() {
        for (path, holds) in [
            ("patience.rules.toml", true),
            ("/a/b/patience.rules.toml", true),
            ("patience.toml", false),
            ("patience.rules.toml/policy.wasm", false),
        ] {
            assert_eq!(RulesFile::is_named(Path::new(path)), holds, "{path}");
        }
    }

    #[test]
    fn the_components_words_about_a_mistake_become_what_to_write() {
        let text = "slot = 'retry'\n[[rules]]\nwhen = 'failure.class == out-of-stock'\nanswer = { wait = '60s' }\n";
        let reported = RulesFile::read(text.as_bytes()).unwrap().explain([
            "rules[0].when: there is no `out`; there are `now`",
            "rules[0].when: it is not CEL: mismatched input '<EOF>' expecting expression (character 10)",
            "rules[0].answer: invalid type: string \"60s\", expected u64",
        ]);
        for (reported, end) in reported.iter().zip([
            "a text needs quotes: 'out-of-stock'",
            "it ends where more is expected (character 10)",
            "must be a whole number, 0 or more, without quotes; times are in milliseconds: write 60000",
        ]) {
            assert!(reported.ends_with(end), "{reported}");
        }
        assert_eq!(reported.len(), 3, "{reported:?}");
    }

    #[test]
    fn the_labels_that_conditions_name_are_found() {
        let names = |when: &str| {
            let text = format!("slot = \"retry\"\n[[rules]]\nwhen = \"\"\"{when}\"\"\"\nanswer = \"give-up\"\n");
            let file = RulesFile::read(text.as_bytes()).unwrap();
            file.label_names().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names("subject.labels.exists(l, l.name == 'team' && l.value == 'x')"), ["team"]);
        assert_eq!(
            names("subject.labels.exists(l, l.name==\"a/b\") || subject.labels.exists(m, m.name == 'c')"),
            ["a/b", "c"]
        );
        assert_eq!(names("subject.labels.exists(l, l.value == 'x') && nodes.all(n, n.name == 'web')"), [""; 0]);
        assert_eq!(names("subject.labels.exists(l, nodes.all(al, al.name == 'web') && l.name == 'a')"), ["a"]);
        assert_eq!(names("failure.name == 'team' || subject.labels.exists(l, l.name == x)"), [""; 0]);
    }
}
