//! The runner's `config.toml`, as far as this plugin's groups stand in it: for commands, which no runner starts.

use serde_json::{Value, json};
use windlass_policy::{nearest, plain_toml_at};

use super::rehearsal::{KEYS, POLICY_KEYS};
use crate::configuration::read_file;
use crate::protocol::ConnectorConfig;

/// Why a runner's configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum RunnerFileError {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// It is not valid TOML, or its runners are not in an array.
    #[error("the runner's configuration is invalid: {0}")]
    Invalid(String),
    /// None of its groups is meant, or it is not clear which.
    #[error("{wanted}; the groups of this plugin in the runner's configuration are: {found}")]
    Group {
        /// What was looked for.
        wanted: String,
        /// The groups' names.
        found: String,
    },
}

/// A runner's configuration.
#[derive(Clone, PartialEq)]
pub(super) struct RunnerFile(Value);

/// A group of this plugin: an entry of `[[runners]]`.
#[derive(Clone, Copy)]
pub(super) struct Autoscaler<'f>(&'f Value);

/// The other keys of `[runners.autoscaler]`, as GitLab Runner's documentation has them.
pub(super) const OTHER_KEYS: [&str; 12] = [
    "plugin",
    "plugin_config",
    "connector_config",
    "policy",
    "instance_ready_command",
    "instance_operation_time_buckets",
    "state_storage",
    "vm_isolation",
    "delete_instances_on_shutdown",
    "log_internal_ip",
    "log_external_ip",
    "scale_throttle",
];

/// The keys of `connector_config`.
pub(super) const CONNECTOR_KEYS: [&str; 11] = [
    "os",
    "arch",
    "protocol",
    "protocol_port",
    "username",
    "password",
    "key_path",
    "use_static_credentials",
    "keepalive",
    "timeout",
    "use_external_addr",
];

/// The executors that start a plugin.
const EXECUTORS: [&str; 2] = ["docker-autoscaler", "instance"];

impl RunnerFile {
    pub(super) fn read(path: &str) -> Result<Self, RunnerFileError> {
        Self::parse(&read_file(path).map_err(RunnerFileError::Unreadable)?)
    }

    /// Reads the runner's file, or the plugin's configuration alone, as TOML or JSON. In the latter case the runner
    /// lets the group grow to its `max_size`, and keeps nothing idle.
    pub(super) fn parse_or_plugin_config(text: &str) -> Result<Self, RunnerFileError> {
        let read = Self::parse_either(text)?.0;
        Ok(Self(match read.get("runners") {
            Some(_) => read,
            None => json!({
                "concurrent": u32::MAX,
                "runners": [{ "autoscaler": { "plugin": "scaleway", "plugin_config": read } }],
            }),
        }))
    }

    fn parse_either(text: &str) -> Result<Self, RunnerFileError> {
        if !Self::is_json(text) {
            return Self::parse(text);
        }
        Self::checked(serde_json::from_str(text).map_err(|error| RunnerFileError::Invalid(error.to_string()))?)
    }

    pub(super) fn value(&self) -> &Value {
        &self.0
    }

    pub(super) fn is_json(text: &str) -> bool {
        text.trim_start().starts_with('{')
    }

    /// Whether it is the runner's file, and not the plugin's configuration alone.
    pub(super) fn has_runners(text: &str) -> Result<bool, RunnerFileError> {
        Ok(Self::parse_either(text)?.0.get("runners").is_some())
    }

    pub(super) fn parse(text: &str) -> Result<Self, RunnerFileError> {
        let read: Value = toml::from_str(text).map_err(|error| {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
            let line = before.matches('\n').count() + 1;
            let words = plain_toml_at(text, error.span(), error.message());
            RunnerFileError::Invalid(format!("line {line}: {words}"))
        })?;
        Self::checked(read)
    }

    fn checked(read: Value) -> Result<Self, RunnerFileError> {
        tables(&read["runners"], "[[runners]]").map_err(RunnerFileError::Invalid)?;
        Ok(Self(read))
    }

    /// Jobs at once, of all groups.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn concurrent(&self) -> Result<u64, String> {
        match &self.0["concurrent"] {
            Value::Null => Ok(1),
            set => set.as_u64().ok_or_else(|| format!("{set} at the top of the file {NO_NUMBER}")),
        }
    }

    /// The groups of this plugin, or the one with this name.
    pub(super) fn groups(&self, name: Option<&str>) -> Result<Vec<Autoscaler<'_>>, RunnerFileError> {
        let all = self.0["runners"].as_array().into_iter().flatten().map(Autoscaler);
        let is_ours = |it: &Autoscaler<'_>| it.table()["plugin"].as_str().is_some_and(|it| it.contains("scaleway"));
        let all: Vec<Autoscaler<'_>> = all.filter(is_ours).collect();
        let meant: Vec<_> = all.iter().filter(|it| name.is_none_or(|name| it.name() == name)).copied().collect();
        let wanted = match (meant.len(), name) {
            (1, Some(_)) | (1.., None) => return Ok(meant),
            (_, Some(name)) => format!("there is not one group with `name = {name:?}` in plugin_config"),
            (_, None) => {
                return Err(RunnerFileError::Invalid(
                    "no [runners.autoscaler] of it has plugin = \"fleeting-plugin-scaleway\"".to_owned(),
                ));
            }
        };
        Err(RunnerFileError::unclear(wanted, &all))
    }

    /// Which of `[[runners]]` the group with this name is, or the only one.
    pub(super) fn position(&self, name: Option<&str>) -> Result<usize, RunnerFileError> {
        let group = self.group(name)?.0;
        let position = self.0["runners"].as_array().into_iter().flatten().position(|entry| std::ptr::eq(entry, group));
        Ok(position.unwrap_or_default())
    }

    /// `[runners.autoscaler]` of the group with this name, or of the only one.
    pub(super) fn autoscaler_mut(&mut self, name: Option<&str>) -> Result<&mut Value, RunnerFileError> {
        let position = self.position(name)?;
        Ok(&mut self.0["runners"][position]["autoscaler"])
    }

    /// The group with this name, or the only one.
    pub(super) fn group(&self, name: Option<&str>) -> Result<Autoscaler<'_>, RunnerFileError> {
        let groups = self.groups(name)?;
        match groups.as_slice() {
            [one] => Ok(*one),
            several => Err(RunnerFileError::unclear("say which group is meant, by its `name`".to_owned(), several)),
        }
    }
}

impl RunnerFileError {
    fn unclear(wanted: String, groups: &[Autoscaler<'_>]) -> Self {
        let found: Vec<&str> = groups.iter().map(Autoscaler::name).collect();
        Self::Group { wanted, found: if found.is_empty() { "none".to_owned() } else { found.join(", ") } }
    }
}

/// The tables of an array. GitLab Runner refuses a single table.
fn tables<'v>(value: &'v Value, written: &str) -> Result<&'v [Value], String> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(tables) if tables.iter().all(Value::is_object) => Ok(tables),
        _ => Err(format!("each entry needs double brackets: {written}")),
    }
}

/// What is wrong with a value that should be a number.
const NO_NUMBER: &str = "must be a whole number, 0 or more, without quotes";

impl<'f> Autoscaler<'f> {
    /// `[runners.autoscaler]`.
    pub(super) fn table(&self) -> &'f Value {
        &self.0["autoscaler"]
    }

    /// Values of the runner's own keys that are valid, but with which no job would ever run.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(executor) = self.0["executor"].as_str().filter(|executor| !EXECUTORS.contains(executor)) {
            let words = EXECUTORS.join("\" or \"");
            found.push(format!("executor = \"{executor}\" starts no plugin: it must be \"{words}\""));
        }
        if self.number("capacity_per_instance") == Some(0) {
            found.push("capacity_per_instance = 0 leaves no room for a job: it must be at least 1".to_owned());
        }
        let keys: Vec<&str> = KEYS.iter().chain(&OTHER_KEYS).copied().collect();
        found.extend(misspelt_keys("", self.table(), &keys));
        found.extend(misspelt_keys("connector_config.", &self.table()["connector_config"], &CONNECTOR_KEYS));
        for (position, policy) in self.policies().unwrap_or_default().iter().enumerate() {
            found.extend(misspelt_keys(&format!("policy[{position}]."), policy, &POLICY_KEYS));
        }
        found
    }

    /// Values of the runner's own keys that are probably not meant. `jobs` is how many max_instances has room for; 0: it
    /// does not say.
    pub(super) fn doubts(&self, jobs: u64) -> Vec<String> {
        let mut found = Vec::new();
        for (position, policy) in self.policies().unwrap_or_default().iter().enumerate() {
            if let Some(idle) = policy["idle_count"].as_u64().filter(|idle| jobs > 0 && *idle > jobs) {
                found.push(format!(
                    "policy[{position}].idle_count = {idle} is more than the {jobs} jobs that max_instances has room \
                     for, so the group is always full: lower it, or raise max_instances"
                ));
            }
        }
        let key = self.table()["connector_config"]["key_path"].as_str().filter(|path| !path.is_empty());
        if let Some(Err(words)) = key.map(read_file) {
            found.push(format!("connector_config.key_path: {words}. The runner needs it on its own machine"));
        }
        found
    }

    /// Why there is no `plugin_config`, where there is none.
    pub(super) fn without_plugin_config(&self) -> Option<String> {
        const KEY: &str = "plugin_config";
        let own = self.table().as_object()?;
        if own.contains_key(KEY) {
            return None;
        }
        let near = own.keys().find(|key| nearest(key, [KEY]).is_some());
        let near = near.map(|near| format!("; `{near}` is not a key of the runner's")).unwrap_or_default();
        Some(format!("there is no table [runners.autoscaler.{KEY}], which says what to create{near}"))
    }

    /// The most jobs at once of this entry. 0: no limit.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn limit(&self) -> Result<u64, String> {
        match &self.0["limit"] {
            Value::Null => Ok(0),
            set => set.as_u64().ok_or_else(|| format!("{set} {NO_NUMBER}")),
        }
    }

    /// The entries of `[[runners.autoscaler.policy]]`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn policies(&self) -> Result<&'f [Value], String> {
        tables(&self.table()["policy"], "[[runners.autoscaler.policy]]")
    }

    /// Empty where it is not set.
    pub(super) fn name(&self) -> &'f str {
        self.table()["plugin_config"]["name"].as_str().unwrap_or_default()
    }

    /// `plugin_config` as the runner hands it over. Empty where there is none.
    pub(super) fn plugin_config(&self) -> Value {
        match &self.table()["plugin_config"] {
            Value::Null => Value::Object(serde_json::Map::new()),
            configured => configured.clone(),
        }
    }

    /// `connector_config`, as far as this plugin reads it.
    pub(super) fn connector(&self) -> ConnectorConfig {
        let text = |key: &str| self.table()["connector_config"][key].as_str().unwrap_or_default().to_owned();
        ConnectorConfig {
            operating_system: text("os"),
            architecture: text("arch"),
            protocol: text("protocol"),
            username: text("username"),
            ..ConnectorConfig::default()
        }
    }

    /// A number of the autoscaler's own.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.table()[key].as_u64()
    }
}

/// Keys of the runner's that look misspelt: the runner ignores them. Any other unknown key may be one of a newer runner.
fn misspelt_keys(place: &str, table: &Value, known: &[&str]) -> Vec<String> {
    let written = table.as_object().into_iter().flat_map(|table| table.keys());
    let unknown = written.filter(|key| !known.contains(&key.as_str()));
    let words = |key: &String| {
        // The check of `plugin_config` itself tells that one.
        let meant = nearest(key, known.iter().copied()).filter(|meant| *meant != "plugin_config")?;
        Some(format!("{place}{key}: GitLab Runner has no such key; did you mean `{meant}`?"))
    };
    unknown.filter_map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_of_the_runner_are_told_and_those_of_a_newer_one_are_not() {
        let file = "[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\ninstance_redy_command = 'true'\n\
                    brand_new = 1\n[runners.autoscaler.connector_config]\nuse_external_adr = true\n\
                    [[runners.autoscaler.policy]]\nidel_count = 1\n";
        let found = RunnerFile::parse(file).unwrap().group(None).unwrap().contradictions();
        let meant = [
            "instance_redy_command: GitLab Runner has no such key; did you mean `instance_ready_command`?",
            "connector_config.use_external_adr: GitLab Runner has no such key; did you mean `use_external_addr`?",
            "policy[0].idel_count: GitLab Runner has no such key; did you mean `idle_count`?",
        ];
        assert_eq!(found, meant);
    }

    #[test]
    fn mistakes_in_the_runners_own_keys_are_told_where_no_job_would_ever_run() {
        let text = "concurrent = '20'\n[[runners]]\nexecutor = 'docker'\n[runners.autoscaler]\nplugin = 'scaleway'\n\
            capacity_per_instance = 0\nmax_instances = '5'\n[runners.autoscaler.plugin-config]\nname = 'ci'\n\
            [[runners.autoscaler.policy]]\nidle_time = '20 minutes'\n[[runners.autoscaler.policy]]\nidle_time = '1h30m'\n";
        let file = RunnerFile::parse(text).unwrap();
        assert!(file.concurrent().unwrap_err().starts_with("\"20\" at the top of the file must be a whole"));
        let group = file.group(None).unwrap();
        let mistakes = group.contradictions();
        for (mistake, words) in mistakes.iter().zip([
            "executor = \"docker\" starts no plugin: it must be \"docker-autoscaler\" or \"instance\"",
            "capacity_per_instance = 0 leaves no room",
        ]) {
            assert!(mistake.starts_with(words), "{mistake}");
        }
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        let missing = group.without_plugin_config().unwrap();
        assert!(missing.ends_with("`plugin-config` is not a key of the runner's"), "{missing}");
        let error = RunnerFile::parse("a = 1\nb = \"x\n").err().unwrap().to_string();
        assert!(error.ends_with("line 2: the text has no closing quote"), "{error}");
    }

    #[test]
    fn values_of_the_runners_own_keys_that_are_probably_not_meant_are_told() {
        let text = "[[runners]]\n[runners.autoscaler]\nplugin = 'scaleway'\n[runners.autoscaler.connector_config]\n\
            key_path = '/nonexistent/key'\n[[runners.autoscaler.policy]]\nidle_count = 20\n";
        let file = RunnerFile::parse(text).unwrap();
        let doubts = file.group(None).unwrap().doubts(10);
        assert_eq!(doubts.len(), 2, "{doubts:?}");
        assert!(doubts[0].starts_with("policy[0].idle_count = 20 is more than the 10 jobs"), "{doubts:?}");
        assert!(doubts[1].starts_with("connector_config.key_path: cannot read /nonexistent/key"), "{doubts:?}");
        for jobs in [0, 20] {
            assert_eq!(file.group(None).unwrap().doubts(jobs).len(), 1, "{jobs}");
        }
    }

    #[test]
    fn single_brackets_and_a_limit_in_quotes_are_refused_as_gitlab_does() {
        let text = "[[runners]]\nlimit = '5'\n[runners.autoscaler]\nplugin = 'scaleway'\n\
            [runners.autoscaler.plugin_config]\nname = 'ci'\n[runners.autoscaler.policy]\nidle_count = 1\n";
        let file = RunnerFile::parse(text).unwrap();
        let group = file.group(None).unwrap();
        assert_eq!(group.limit().unwrap_err(), "\"5\" must be a whole number, 0 or more, without quotes");
        assert_eq!(group.policies().unwrap_err(), "each entry needs double brackets: [[runners.autoscaler.policy]]");
        let error = RunnerFile::parse("[runners]\nname = 'r'\n").err().unwrap().to_string();
        assert!(error.ends_with("each entry needs double brackets: [[runners]]"), "{error}");
    }

    #[test]
    fn the_group_that_is_meant_is_found_in_a_runners_configuration_or_said_not_to_be_clear() {
        let group = |plugin: &str, name: &str| {
            format!(
                "[[runners]]\nname = \"r\"\n[runners.autoscaler]\nplugin = \"{plugin}\"\n\
                 [runners.autoscaler.plugin_config]\nname = \"{name}\"\nadopt = false\n"
            )
        };
        let one = group("fleeting-plugin-scaleway", "ci");
        let found = RunnerFile::parse(&one).unwrap();
        assert_eq!(found.group(None).unwrap().plugin_config()["name"], "ci");
        let several = [one.clone(), group("aws", "other"), group("example.com/ci/scaleway:0.1", "macs")].concat();
        let file = RunnerFile::parse(&several).unwrap();
        assert_eq!(file.group(Some("macs")).unwrap().name(), "macs");
        assert_eq!(file.groups(None).unwrap().len(), 2);
        for (text, name, words) in [
            (&several, None, "say which group is meant, by its `name`; the groups"),
            (&several, Some("other"), "there is not one group with `name = \"other\"`"),
            (&[one.clone(), one.clone()].concat(), Some("ci"), "there is not one group with `name = \"ci\"`"),
            (&"concurrent = 1".to_owned(), None, "no [runners.autoscaler] of it has plugin = "),
        ] {
            let file = RunnerFile::parse(text).unwrap();
            let error = file.group(name).err().unwrap().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(file.group(None).err().unwrap().to_string().ends_with("are: ci, macs"));
        assert!(matches!(RunnerFile::parse("[["), Err(RunnerFileError::Invalid(_))));
    }
}
