//! Keys and their values, taken out of the object one by one.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};
use windlass_lifecycle::parse_size;
use windlass_policy::{Mistake, cut, nearest};
use windlass_scaleway::Zone;

use super::environment::{read_file, variable_or_file};
use super::{ProcessEnvironment, duration};

/// Bytes in one of Scaleway's gigabytes.
const GIGABYTE: u64 = 1_000_000_000;
/// The longest words about one problem, in bytes: they quote what was written.
const MAX_WORDS_LEN: usize = 1024;

/// Every key, for the message about one that does not exist.
pub(super) const KEYS: &[&str] = &[
    "access_key",
    "adopt",
    "calls_per_second",
    "cloud_init",
    "cloud_init_file",
    "console",
    "create_timeout",
    "delete_on_shutdown",
    "endpoint",
    "extra_volumes",
    "image",
    "kind",
    "location",
    "max_leftovers",
    "max_parallel_creates",
    "max_reap_share",
    "max_reaps",
    "max_size",
    "metrics",
    "name",
    "operating_system",
    "order",
    "organization",
    "organization_id",
    "os_id",
    "owner",
    "placement_group",
    "policies",
    "policy_folder",
    "pool_prefix",
    "private_networks",
    "profile",
    "project",
    "project_id",
    "public_ipv4_disabled",
    "public_ipv6_disabled",
    "release_requested",
    "reserved_ip_tag",
    "reserved_ips",
    "secret_key",
    "security_group",
    "server_type",
    "state",
    "state_dir",
    "suspend",
    "tags",
    "user_data",
    "user_data_file",
    "volume_iops",
    "volume_size",
    "volume_type",
    "watched_tags",
    "zone",
];

#[cfg(test)]
thread_local! {
    /// Every key that this thread has asked for, whether it was there or not.
    pub(super) static ASKED: std::cell::RefCell<std::collections::BTreeSet<String>> = const {
        std::cell::RefCell::new(std::collections::BTreeSet::new())
    };
}

/// Takes keys out of the object one by one; what is left at the end is unknown.
pub(super) struct Reader<'a> {
    pub(super) object: Map<String, Value>,
    pub(super) problems: Vec<Mistake>,
    pub(super) process_environment: &'a ProcessEnvironment,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, place: impl Into<String>, words: impl Into<String>) {
        self.problems.push(Mistake { place: place.into(), words: cut(words.into(), MAX_WORDS_LEN) });
    }

    /// A value that is there. Null and the empty text count as absent, as they do in the other plugins.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.insert(key.to_owned()));
        self.object.remove(key).filter(|value| !value.is_null() && value.as_str() != Some(""))
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => {
                self.wrong(key, format!("expected a text, found {}", kind(&other)));
                None
            }
        }
    }

    /// One text under any of several names, of which one may be given.
    pub(super) fn text_of(&mut self, keys: &[&str]) -> Option<String> {
        let mut found: Option<(&str, String)> = None;
        for key in keys {
            let Some(text) = self.text(key) else { continue };
            match &found {
                Some((first, value)) if *value != text => {
                    self.wrong(*key, format!("differs from {first}, which means the same; keep one of them"));
                }
                Some(_) => {}
                None => found = Some((key, text)),
            }
        }
        found.map(|(_, text)| text)
    }

    /// The variable (or its file) before the key: so it is in the other plugins.
    pub(super) fn text_or_variable(&mut self, keys: &[&str], variable: &str) -> Option<String> {
        let configured = self.text_of(keys);
        match variable_or_file(self.process_environment, variable) {
            Ok(value) => value.or(configured),
            Err(words) => {
                self.wrong(keys[0], words);
                configured
            }
        }
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        match self.take(key) {
            None => false,
            Some(Value::Bool(flag)) => flag,
            Some(other) => {
                self.wrong(key, format!("expected true or false, found {}", kind(&other)));
                false
            }
        }
    }

    /// Bytes: written as a number of gigabytes, or as a text with its unit.
    pub(super) fn size(&mut self, key: &str, from: u64, to: u64) -> Option<u64> {
        let value = self.take(key)?;
        let bytes = match &value {
            Value::String(text) => match parse_size(text) {
                Ok(bytes) => Some(bytes),
                Err(words) => {
                    self.wrong(key, words);
                    return None;
                }
            },
            other => other.as_u64().and_then(|gigabytes| gigabytes.checked_mul(GIGABYTE)),
        };
        let size = bytes.filter(|bytes| bytes.is_multiple_of(GIGABYTE) && (from..=to).contains(&(bytes / GIGABYTE)));
        if size.is_none() {
            let expected =
                format!("gigabytes, as a whole number from {from} to {to}, or with its unit, as in \"20GB\"");
            self.wrong(key, format!("expected {expected}, found {}", shown(&value)));
        }
        size
    }

    pub(super) fn number(&mut self, key: &str, from: u64, to: u64) -> Option<u64> {
        match self.take(key)? {
            Value::Number(number) if number.as_u64().is_some_and(|number| (from..=to).contains(&number)) => {
                number.as_u64()
            }
            other => {
                let quotes = if other.is_string() { " without quotes" } else { "" };
                let expected = format!("a whole number from {from} to {to}{quotes}");
                self.wrong(key, format!("expected {expected}, found {}", shown(&other)));
                None
            }
        }
    }

    /// A part of the whole.
    pub(super) fn share(&mut self, key: &str) -> Option<f64> {
        let value = self.take(key)?;
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        if share.is_none() {
            self.wrong(key, format!("expected a number from 0 to 1, found {}", shown(&value)));
        }
        share
    }

    /// A text or a list of texts.
    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => {
                let mut texts = Vec::new();
                for (index, item) in items.into_iter().enumerate() {
                    match item {
                        Value::String(text) if !text.is_empty() => texts.push(text),
                        other => {
                            self.wrong(format!("{key}[{index}]"), format!("expected a text, found {}", kind(&other)))
                        }
                    }
                }
                texts
            }
            Some(other) => {
                self.wrong(key, format!("expected a text or a list of texts, found {}", kind(&other)));
                Vec::new()
            }
        }
    }

    pub(super) fn duration(&mut self, key: &str) -> Option<Duration> {
        let value = self.take(key)?;
        let read = duration(&value);
        if read.is_none() {
            self.wrong(key, format!("expected a duration like \"10m\" or \"90s\", found {}", shown(&value)));
        }
        read
    }

    pub(super) fn parsed<T: FromStr<Err: std::fmt::Display>>(&mut self, key: &str, text: &str) -> Option<T> {
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong(key, format!("{error}"));
                None
            }
        }
    }

    pub(super) fn uuid(&mut self, key: &str, text: &str) {
        if uuid::Uuid::parse_str(text).is_err() {
            self.wrong(key, format!("{text:?} is not a Scaleway id (a UUID)"));
        }
    }

    /// An id that is used in these zones. The zone or region that Terraform prints before it is taken off.
    pub(super) fn local_id<'z>(&mut self, key: &str, text: &str, zones: impl IntoIterator<Item = &'z Zone>) -> String {
        match zones.into_iter().map(|zone| zone.local_id(text)).collect::<Result<Vec<_>, _>>() {
            Ok(ids) => {
                let id = ids.first().copied().unwrap_or(text);
                self.uuid(key, id);
                id.to_owned()
            }
            Err(elsewhere) => {
                self.wrong(key, elsewhere.to_string());
                text.to_owned()
            }
        }
    }

    /// A text, or the content of a file: one of the two.
    pub(super) fn text_or_file(&mut self, names: [(&str, &str); 2]) -> Option<String> {
        let given: Vec<&str> = names
            .iter()
            .flat_map(|(key, file)| [*key, *file])
            .filter(|key| self.object.get(*key).is_some_and(|value| !value.is_null() && value != ""))
            .collect();
        if given.len() > 1 {
            self.wrong(given[1], format!("cannot be combined with {}; keep one of them", given[0]));
        }
        let mut content = None;
        for (key, file) in names {
            content = content.or(self.text(key));
            if let Some(path) = self.text(file) {
                match read_file(&path) {
                    Ok(text) => content = content.or(Some(text)),
                    Err(words) => self.wrong(file, words),
                }
            }
        }
        content
    }

    /// Reads a table that stands at this place and has these keys.
    pub(super) fn table<T>(
        &mut self,
        place: &str,
        object: Map<String, Value>,
        keys: &[&str],
        read: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let mut inner = Reader { object, problems: Vec::new(), process_environment: self.process_environment };
        let value = read(&mut inner);
        inner.refuse_all_but(keys);
        let placed = |problem: Mistake| Mistake { place: format!("{place}.{}", problem.place), ..problem };
        self.problems.extend(inner.problems.into_iter().map(placed));
        value
    }

    /// Every key that nobody took.
    pub(super) fn refuse_the_rest(&mut self) {
        self.refuse_all_but(KEYS);
    }

    fn refuse_all_but(&mut self, keys: &[&str]) {
        let mut are_listed = false;
        for key in std::mem::take(&mut self.object).into_iter().map(|(key, _)| key) {
            let within = || keys.iter().copied().find(|known| key.len() > 3 && known.contains(&key));
            let words = match nearest(&key, keys.iter().copied()).or_else(within) {
                Some(candidate) => format!("there is no such key; did you mean `{candidate}`?"),
                None if are_listed => "there is no such key".to_owned(),
                None => {
                    are_listed = true;
                    format!("there is no such key; the keys are {}", keys.join(", "))
                }
            };
            self.wrong(key.chars().take(64).collect::<String>(), words);
        }
    }
}

/// A duration as a key may hold it.
pub(super) fn duration(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => duration::parse(text),
        Value::Number(seconds) => seconds.as_u64().map(Duration::from_secs),
        _ => None,
    }
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

/// A value in a message: numbers and truth values as they are, texts short, and never a whole table.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        other => kind(other).to_owned(),
    }
}
