//! Files of rules: policies that need no compiler.
//!
//! A file of rules is TOML: its slot, and conditions in CEL, each with an answer and a reason. It becomes the settings
//! of one component that is built into the host and evaluates them in the sandbox (guest/rules). So the digest of its
//! settings identifies a file of rules, and everything that holds for policies holds for it. What the rules say is
//! checked there; here, what TOML can get wrong is told with its line.

use std::path::Path;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_contract::nearest;

use crate::slot_name::SlotName;
use crate::source::Source;
use crate::text::{short, unknown_key};

/// How the name of a file of rules ends.
const ENDING: &str = ".rules.toml";
/// The longest name of a file in records, without its ending.
const MAX_STEM: usize = 64;

const FILE_KEYS: [&str; 2] = ["slot", "rules"];
const RULE_KEYS: [&str; 4] = ["name", "when", "answer", "reason"];

/// A file of rules, read.
#[derive(Clone, Debug, PartialEq)]
pub struct RulesFile {
    slot: SlotName,
    /// The line of the slot, from 1.
    slot_line: usize,
    settings: Map<String, Value>,
    rules: Vec<RuleLines>,
}

/// Where a rule stands.
#[derive(Clone, Debug, Default, PartialEq)]
struct RuleLines {
    name: Option<String>,
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
    /// What is wrong, with its line and key, and the nearest valid key.
    pub fn read(contents: &[u8]) -> Result<RulesFile, String> {
        let text = std::str::from_utf8(contents)
            .map_err(|error| format!("line {}: it is not UTF-8 text", line_of(contents, error.valid_up_to())))?;
        let line = |offset: usize| line_of(contents, offset);
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(span.start));
            format!("line {line}: it is not TOML: {}", short(error.message()))
        })?;
        let mut slot = None;
        let mut rules = Vec::new();
        let mut lines = Vec::new();
        for (key, value) in table.get_ref() {
            let at = line(key.span().start);
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("slot", DeValue::String(name)) => slot = Some((slot_named(name, at)?, at)),
                ("rules", DeValue::Array(array)) => {
                    for rule in array.iter() {
                        let (json, rule_lines) = read_rule(rule, lines.len(), &line)?;
                        rules.push(json);
                        lines.push(rule_lines);
                    }
                }
                ("slot", _) => return Err(format!("line {at}: `slot`: expected the name of a slot")),
                ("rules", _) => return Err(format!("line {at}: `rules`: expected tables, each begun by [[rules]]")),
                (unknown, _) => return Err(format!("line {at}: {}", unknown_key(unknown, &FILE_KEYS))),
            }
        }
        let Some((slot, slot_line)) = slot else {
            let slots = SlotName::ALL.map(SlotName::as_str).join(", ");
            return Err(format!("line 1: the key `slot` is missing: which of {slots} are the rules for?"));
        };
        if rules.is_empty() {
            return Err("it has no rule: add one, begun by [[rules]]".into());
        }
        let mut settings = Map::new();
        settings.insert("slot".into(), slot.as_str().into());
        settings.insert("rules".into(), Value::Array(rules));
        Ok(RulesFile { slot, slot_line, settings, rules: lines })
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

    /// The labels by whose names conditions ask, as far as their text says: `l.name == 'team'`.
    pub(crate) fn label_names(&self) -> impl Iterator<Item = &str> {
        let conditions = self.rules().map(|(_, when)| when).filter(|when| when.contains("labels"));
        conditions.flat_map(|when| {
            when.split(".name").skip(1).filter_map(|rest| {
                let quoted = rest.trim_start().strip_prefix("==")?.trim_start();
                let quote = quoted.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
                quoted[1..].split_once(quote).map(|(name, _)| name)
            })
        })
    }

    /// What the component's `configure` gets.
    pub(crate) fn settings(&self) -> &Map<String, Value> {
        &self.settings
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

    /// The component's words about the settings, which begin with a place such as `rules[2].when: `, with the line.
    pub(crate) fn explain(&self, words: &str) -> String {
        let place = || {
            let (place, problem) = words.split_once(": ")?;
            let (position, key) = place.strip_prefix("rules[")?.split_once("].")?;
            let position: usize = position.parse().ok()?;
            let rule = self.rules.get(position)?;
            let (_, line) = rule.keys.iter().find(|(known, _)| known == key)?;
            let name = rule.name.as_ref().map(|name| format!(" (`{}`)", short(name))).unwrap_or_default();
            Some(format!("line {line}, rule {}{name}: `{key}`: {problem}", position + 1))
        };
        place().unwrap_or_else(|| words.to_owned())
    }
}

fn slot_named(name: &str, line: usize) -> Result<SlotName, String> {
    let slots = SlotName::ALL.map(SlotName::as_str);
    name.parse().map_err(|_| {
        let meant = match nearest(name, slots) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => format!("; the slots are {}", slots.join(", ")),
        };
        format!("line {line}: there is no slot `{}`{meant}", short(name))
    })
}

/// One rule as JSON.
fn read_rule(
    rule: &Spanned<DeValue<'_>>,
    position: usize,
    line: &impl Fn(usize) -> usize,
) -> Result<(Value, RuleLines), String> {
    let at = line(rule.span().start);
    let number = position + 1;
    let Some(table) = rule.get_ref().as_table() else {
        return Err(format!("line {at}: rule {number}: expected a table, begun by [[rules]]"));
    };
    let mut json = Map::new();
    let mut lines = RuleLines::default();
    for (key, value) in table {
        let (at, key) = (line(key.span().start), key.get_ref().as_ref());
        if !RULE_KEYS.contains(&key) {
            return Err(format!("line {at}: rule {number}: {}", unknown_key(key, &RULE_KEYS)));
        }
        if key != "answer" && !value.get_ref().is_str() {
            return Err(format!("line {at}: rule {number}: `{key}`: expected a text"));
        }
        if key == "name" {
            lines.name = value.get_ref().as_str().map(str::to_owned);
        }
        lines.keys.push((key.to_owned(), at));
        let value = to_json(value).map_err(|problem| format!("line {at}: rule {number}: `{key}`: {problem}"))?;
        json.insert(key.to_owned(), value);
    }
    match ["when", "answer"].into_iter().find(|key| !json.contains_key(*key)) {
        Some(missing) => Err(format!("line {at}: rule {number}: the key `{missing}` is missing")),
        None => Ok((json.into(), lines)),
    }
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
                "slot = \"retry\"\n[[rules]]\nwehn = \"true\"\n",
                "line 3: rule 1: unknown key `wehn`; did you mean `when`?",
            ),
            ("slot = \"retry\"\n[[rules]]\nwhen = true\n", "line 3: rule 1: `when`: expected a text"),
            ("slot = \"retry\"\n[[rules]]\nanswer = 1.5\n", "line 3: rule 1: `answer`: no slot has fractions"),
            ("slot = \"retry\"\n\n[[rules]\n", "line 3: it is not TOML"),
            ("slot = \"retry\"\nslot = \"retry\"\n", "line 2: it is not TOML"),
        ] {
            let error = RulesFile::read(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        assert_eq!(RulesFile::read(b"slot\n= \xff").unwrap_err(), "line 2: it is not UTF-8 text");
    }

    #[test]
    fn the_components_words_get_their_line() {
        let file = RulesFile::read(PATIENCE.as_bytes()).unwrap();
        assert_eq!(
            file.explain("rules[0].when: there is no `failur`"),
            "line 6, rule 1 (`stock`): `when`: there is no `failur`"
        );
        assert_eq!(file.explain("rules[1].answer: x: y"), "line 12, rule 2: `answer`: x: y");
        assert_eq!(file.explain("rules[7].when: x"), "rules[7].when: x");
        assert_eq!(file.explain("something else"), "something else");
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
        assert!(
            names("failure.name == 'team'").is_empty() && names("subject.labels.exists(l, l.name == x)").is_empty()
        );
    }
}
