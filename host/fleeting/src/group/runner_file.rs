//! The runner's `config.toml`, as far as this plugin's groups stand in it: for commands, which no runner starts.

use serde_json::Value;

use crate::configuration::read_file;
use crate::protocol::ConnectorConfig;

/// Why a runner's configuration is not used.
#[derive(Debug, thiserror::Error)]
pub enum RunnerFileError {
    /// It cannot be read.
    #[error("{0}; say where the runner's configuration is with --config")]
    Unreadable(String),
    /// It is no configuration.
    #[error("the runner's configuration is no TOML")]
    Toml(#[from] toml::de::Error),
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
pub(super) struct RunnerFile(Value);

/// A group of this plugin: an entry of `[[runners]]`.
#[derive(Clone, Copy)]
pub(super) struct Autoscaler<'f>(&'f Value);

impl RunnerFile {
    pub(super) fn read(path: &str) -> Result<Self, RunnerFileError> {
        Self::parse(&read_file(path).map_err(RunnerFileError::Unreadable)?)
    }

    pub(super) fn parse(text: &str) -> Result<Self, RunnerFileError> {
        Ok(Self(toml::from_str(text)?))
    }

    /// Jobs at once, of all groups.
    pub(super) fn concurrent(&self) -> u64 {
        self.0["concurrent"].as_u64().unwrap_or(1)
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
            (_, None) => "there is no group of this plugin".to_owned(),
        };
        Err(RunnerFileError::unclear(wanted, &all))
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

impl<'f> Autoscaler<'f> {
    /// `[runners.autoscaler]`.
    pub(super) fn table(&self) -> &'f Value {
        &self.0["autoscaler"]
    }

    /// The most jobs at once of this entry, where it is set.
    pub(super) fn limit(&self) -> Option<u64> {
        self.0["limit"].as_u64()
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

#[cfg(test)]
mod tests {
    use super::*;

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
            (&"concurrent = 1".to_owned(), None, "there is no group of this plugin"),
        ] {
            let file = RunnerFile::parse(text).unwrap();
            let error = file.group(name).err().unwrap().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(file.group(None).err().unwrap().to_string().ends_with("are: ci, macs"));
        assert!(matches!(RunnerFile::parse("[["), Err(RunnerFileError::Toml(_))));
    }
}
