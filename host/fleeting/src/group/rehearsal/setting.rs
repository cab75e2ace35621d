//! Settings of an arm, each by its place in the group's configuration, and how they are written into the runner's file.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_policy::nearest;

use super::arm::Arm;
use super::autoscaling::{KEYS, POLICY_KEYS};
use crate::group::runner_file::RunnerFileError;

/// The plugin's own configuration, whose keys the plugin checks.
const PLUGIN: &str = "plugin_config";
/// The array of idle counts and times.
const POLICY: &str = "policy";

/// The place of a setting below `[runners.autoscaler]`: `policy[0].idle_count`, `plugin_config.zone`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingKey {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(String),
    Index(usize),
}

/// Why a setting cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// It is not written like one.
    #[error("{0:?} is not a key like \"policy[0].idle_count\" or \"plugin_config.zone\"")]
    Syntax(String),
    /// Neither the runner's scaling nor the plugin reads it.
    #[error("there is no setting {key}{}", match .nearest {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; write policy[0].KEY, plugin_config.KEY, or one of {}", KEYS.join(", ")),
    })]
    Unknown {
        key: String,
        /// What was probably meant instead of the last name.
        nearest: Option<&'static str>,
    },
    /// What stands in the file has no such place.
    #[error("{0} has no place in the configuration: a value above it is not a table, or its list is shorter")]
    NoPlace(String),
    /// The file has the plugin's configuration alone.
    #[error("{0} is a key of the runner's, and the file has only the plugin's configuration")]
    PluginAlone(String),
    /// The configuration cannot be read.
    #[error(transparent)]
    File(#[from] RunnerFileError),
    /// The changed file would not mean what was rehearsed.
    #[error("the configuration cannot be written: {0}")]
    Unwritable(String),
}

impl FromStr for SettingKey {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let syntax = || SettingError::Syntax(text.to_owned());
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (name, index) = match part.split_once('[') {
                Some((name, rest)) => {
                    let index = rest.strip_suffix(']').and_then(|index| index.parse().ok());
                    (name, Some(index.ok_or_else(syntax)?))
                }
                None => (part, None),
            };
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(syntax());
            }
            steps.push(Step::Key(name.to_owned()));
            steps.extend(index.map(Step::Index));
        }
        let key = Self { text: text.to_owned(), steps };
        key.check()?;
        Ok(key)
    }
}

impl fmt::Display for SettingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl SettingKey {
    /// The runner ignores keys that it does not know, so a misspelt one would change nothing.
    fn check(&self) -> Result<(), SettingError> {
        let (name, known): (&str, &[&'static str]) = match self.steps.as_slice() {
            [Step::Key(first), Step::Key(_), ..] if first == PLUGIN => return Ok(()),
            [Step::Key(first), Step::Index(_), Step::Key(name)] if first == POLICY => (name, &POLICY_KEYS),
            [Step::Key(name)] => (name, &KEYS),
            [Step::Key(name), ..] => (name, &[PLUGIN, POLICY]),
            _ => (&self.text, &[]),
        };
        let is_leaf = known != [PLUGIN, POLICY];
        if is_leaf && known.contains(&name) {
            return Ok(());
        }
        let nearest = nearest(name, known.iter().copied()).filter(|near| *near != name);
        Err(SettingError::Unknown { key: self.text.clone(), nearest })
    }

    fn no_place(&self) -> SettingError {
        SettingError::NoPlace(self.text.clone())
    }

    /// Its value in `[runners.autoscaler]`.
    pub(super) fn value_in<'v>(&self, autoscaler: &'v Value) -> Option<&'v Value> {
        let step = |at: &'v Value, step: &Step| match step {
            Step::Key(key) => at.get(key),
            Step::Index(index) => at.get(index),
        };
        self.steps.iter().try_fold(autoscaler, step)
    }

    /// Sets it in `[runners.autoscaler]`.
    pub(super) fn set_in(&self, autoscaler: &mut Value, value: Value) -> Result<(), SettingError> {
        let mut at = autoscaler;
        for step in &self.steps {
            at = match step {
                Step::Key(key) => {
                    if at.is_null() {
                        *at = Value::Object(Map::new());
                    }
                    at.as_object_mut().ok_or_else(|| self.no_place())?.entry(key.as_str()).or_insert(Value::Null)
                }
                Step::Index(index) => at.get_mut(index).ok_or_else(|| self.no_place())?,
            };
        }
        *at = value;
        Ok(())
    }

    /// Its steps below the top of a file. `position` is that of the group in `[[runners]]`; none where the file has the
    /// plugin's configuration alone.
    fn steps_in(&self, position: Option<usize>) -> Result<Vec<Step>, SettingError> {
        match (position, self.steps.split_first()) {
            (Some(position), _) => {
                let above = [Step::Key("runners".into()), Step::Index(position), Step::Key("autoscaler".into())];
                Ok([&above[..], &self.steps].concat())
            }
            (None, Some((Step::Key(first), rest))) if first == PLUGIN => Ok(rest.to_vec()),
            (None, _) => Err(SettingError::PluginAlone(self.text.clone())),
        }
    }
}

/// A value in the text of a file, or the table in which it is to be and the keys below that.
enum Found<'s> {
    Value(Range<usize>),
    /// After a line of the table, with its indentation.
    Missing {
        after: usize,
        indent: String,
        keys: &'s [Step],
    },
}

fn find<'s>(text: &str, steps: &'s [Step]) -> Option<Found<'s>> {
    let document = DeTable::parse(text).ok()?;
    let (mut table, mut value): (&DeTable<'_>, Option<&Spanned<DeValue<'_>>>) = (document.get_ref(), None);
    for (number, step) in steps.iter().enumerate() {
        let below = match step {
            Step::Key(key) => {
                if let Some(value) = value {
                    table = value.get_ref().as_table()?;
                }
                table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
            }
            Step::Index(index) => value?.get_ref().as_array()?.get(*index),
        };
        let Some(below) = below else { return missing(text, table, &steps[number..]) };
        value = Some(below);
    }
    Some(Found::Value(value?.span()))
}

/// A table's keys can be anywhere, but a line with one of its values is in it.
fn missing<'s>(text: &str, table: &DeTable<'_>, keys: &'s [Step]) -> Option<Found<'s>> {
    let is_value = |(_, value): &(&Spanned<_>, &Spanned<DeValue<'_>>)| !value.get_ref().is_table();
    let (name, value) = table.iter().find(is_value)?;
    let line = text.get(..name.span().start)?.rfind('\n').map_or(0, |end| end + 1);
    let indent = text.get(line..name.span().start)?.to_owned();
    let rest = text.get(value.span().end..)?;
    let after = value.span().end + rest.find('\n').unwrap_or(rest.len());
    Some(Found::Missing { after, indent, keys })
}

/// The text with another value at this place. None: the text has no line for it.
fn with_value(text: &str, steps: &[Step], value: &str) -> Option<String> {
    match find(text, steps)? {
        Found::Value(Range { start, end }) => Some([text.get(..start)?, value, text.get(end..)?].concat()),
        Found::Missing { after, indent, keys } => {
            let names = keys.iter().map(|step| match step {
                Step::Key(name) => Some(name.as_str()),
                Step::Index(_) => None,
            });
            let names = names.collect::<Option<Vec<&str>>>()?.join(".");
            let line = format!("\n{indent}{names} = {value}");
            Some([text.get(..after)?, &line, text.get(after..)?].concat())
        }
    }
}

impl Arm {
    /// The value of a setting. None: it is not set.
    ///
    /// # Errors
    /// It is not clear which group is meant.
    pub fn setting(&self, key: &SettingKey) -> Result<Option<&Value>, SettingError> {
        Ok(key.value_in(self.group()?.table()))
    }

    /// The arm with other settings.
    ///
    /// # Errors
    /// The configuration has no place for one of them.
    pub fn with(&self, settings: &[(&SettingKey, &Value)]) -> Result<Self, SettingError> {
        let mut changed = self.clone();
        let autoscaler = changed.autoscaler_mut()?;
        for (key, value) in settings {
            key.set_in(autoscaler, (*value).clone())?;
        }
        Ok(changed)
    }

    /// The arm's file with other settings, as TOML. Everything else in it stays as it is, with its comments; unless a
    /// setting has no line that it could follow, in which case the file is written anew.
    ///
    /// # Errors
    /// The configuration has no place for one of them.
    pub fn text_with(&self, settings: &[(&SettingKey, &Value)]) -> Result<String, SettingError> {
        let unwritable = |error: &dyn fmt::Display| SettingError::Unwritable(error.to_string());
        let position = self.position()?;
        let mut text = Some(self.text_as_toml().map_err(|error| unwritable(&error))?);
        for (key, value) in settings {
            let steps = key.steps_in(position)?;
            let value = toml::Value::try_from(value).map_err(|error| unwritable(&error))?;
            text = text.and_then(|text| with_value(&text, &steps, &value.to_string()));
        }
        let changed = self.with(settings)?;
        if let Some(text) = text.filter(|text| changed.is_text(text)) {
            return Ok(text);
        }
        let anew = changed.anew(position.is_none()).map_err(|error| unwritable(&error))?;
        match changed.is_text(&anew) {
            true => Ok(anew),
            false => Err(unwritable(&"its text would not mean what was rehearsed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = "# ours\nconcurrent = 5\n\n[[runners]]\n  name = \"other\"\n\n[[runners]]\n  token = \"secret\"\n  \
        [runners.autoscaler]\n    plugin = \"scaleway\"\n    max_instances = 5 # as agreed\n    \
        [runners.autoscaler.plugin_config]\n      name = \"ci\"\n      zone = \"fr-par-1\"\n    \
        [[runners.autoscaler.policy]]\n      idle_count = 1\n";

    fn key(text: &str) -> SettingKey {
        text.parse().unwrap()
    }

    fn problem(text: &str) -> String {
        SettingKey::from_str(text).unwrap_err().to_string()
    }

    #[test]
    fn settings_are_written_into_the_file_and_its_comments_stay() {
        let arm = Arm::parse(FILE, None).unwrap();
        let (idle, zone, most) = (key("policy[0].idle_count"), key("plugin_config.zone"), key("max_instances"));
        let spread = key("plugin_config.policies.placement.settings");
        assert_eq!(arm.setting(&idle).unwrap(), Some(&json!(1)));
        assert_eq!(arm.setting(&spread).unwrap(), None);
        let values = [json!(3), json!(["fr-par-1", "fr-par-2"]), json!(7), json!({"spread": "zones"})];
        let settings: Vec<_> = [&idle, &zone, &most, &spread].into_iter().zip(&values).collect();
        let changed = arm.with(&settings).unwrap();
        assert_eq!(changed.setting(&idle).unwrap(), Some(&json!(3)));
        assert_eq!(arm.setting(&idle).unwrap(), Some(&json!(1)), "the arm itself stays as it is");
        let text = arm.text_with(&settings).unwrap();
        for line in [
            "# ours\n",
            "token = \"secret\"",
            "max_instances = 7 # as agreed",
            "zone = [\"fr-par-1\", \"fr-par-2\"]",
            "idle_count = 3",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let again = Arm::parse(&text, None).unwrap();
        assert_eq!(again.setting(&spread).unwrap(), Some(&json!({"spread": "zones"})), "{text}");
        let inline = FILE.replace(
            "[runners.autoscaler.plugin_config]\n      name = \"ci\"\n      zone = \"fr-par-1\"\n",
            "plugin_config = { name = \"ci\", zone = \"fr-par-1\" }\n",
        );
        let text = Arm::parse(&inline, None).unwrap().text_with(&settings).unwrap();
        assert!(!text.contains("# ours"), "no line is in an inline table, so the file is written anew: {text}");
        assert_eq!(Arm::parse(&text, None).unwrap().setting(&most).unwrap(), Some(&json!(7)), "{text}");
    }

    #[test]
    fn a_file_with_the_plugins_configuration_alone_has_only_its_keys() {
        let arm = Arm::parse("{\"name\": \"ci\", \"zone\": \"fr-par-1\"}", None).unwrap();
        let zone = (&key("plugin_config.zone"), &json!("nl-ams-1"));
        let text = arm.text_with(&[zone]).unwrap();
        assert_eq!(text, "name = \"ci\"\nzone = \"nl-ams-1\"\n");
        let error = arm.text_with(&[(&key("max_instances"), &json!(3))]).unwrap_err().to_string();
        assert!(error.starts_with("max_instances is a key of the runner's"), "{error}");
    }

    #[test]
    fn a_setting_that_nobody_reads_is_refused_with_what_was_probably_meant() {
        for (text, words) in [
            ("policy[0].idle_cout", "there is no setting policy[0].idle_cout; did you mean idle_count?"),
            ("max_instance", "did you mean max_instances?"),
            ("plugin_confg.zone", "did you mean plugin_config?"),
            ("plugin_config", "there is no setting plugin_config; write policy[0].KEY, plugin_config.KEY, or one of "),
            (
                "runners.autoscaler.policy.idle_count",
                "; write policy[0].KEY, plugin_config.KEY, or one of capacity_per_",
            ),
            ("policy.idle_count", "there is no setting policy.idle_count"),
            ("policy[x].idle_count", "is not a key like"),
            ("", "is not a key like"),
        ] {
            let said = problem(text);
            assert!(said.contains(words), "{text}: {said}");
        }
        let arm = Arm::parse(FILE, None).unwrap();
        let error = arm.with(&[(&key("policy[1].idle_count"), &json!(1))]).err().unwrap().to_string();
        assert!(error.starts_with("policy[1].idle_count has no place"), "{error}");
    }
}
