//! A configuration whose outcome is wanted: the runner's file, with one of its groups.

use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::autoscaling::Autoscaling;
use crate::configuration::read_file;
use crate::group::runner_file::{Autoscaler, RunnerFile, RunnerFileError};

/// A runner's configuration, and the group that is meant.
#[derive(Clone)]
pub struct Arm {
    file: RunnerFile,
    group: Option<String>,
    /// The file as it was read.
    text: Arc<str>,
}

impl Arm {
    /// Reads the runner's `config.toml`, or the plugin's configuration alone, as TOML or JSON. `group` is the `name` in
    /// its `plugin_config`; required where the file has several groups.
    ///
    /// # Errors
    /// The file cannot be read, or it is not clear which group is meant.
    pub fn read(path: &str, group: Option<&str>) -> Result<Self, RunnerFileError> {
        Self::parse(&read_file(path).map_err(RunnerFileError::Unreadable)?, group)
    }

    /// The same of a file's text.
    ///
    /// # Errors
    /// As those of [`Self::read`].
    pub fn parse(text: &str, group: Option<&str>) -> Result<Self, RunnerFileError> {
        let file = RunnerFile::parse_or_plugin_config(text)?;
        let arm = Self { file, group: group.map(str::to_owned), text: text.into() };
        arm.group()?;
        Ok(arm)
    }

    /// `[runners.autoscaler]` of the group.
    pub(super) fn autoscaler_mut(&mut self) -> Result<&mut Value, RunnerFileError> {
        self.file.autoscaler_mut(self.group.as_deref())
    }

    /// Which of `[[runners]]` the group is. None: the file has the plugin's configuration alone.
    pub(super) fn position(&self) -> Result<Option<usize>, RunnerFileError> {
        match RunnerFile::has_runners(&self.text)? {
            true => self.file.position(self.group.as_deref()).map(Some),
            false => Ok(None),
        }
    }

    /// The file's text, where it is JSON as TOML.
    pub(super) fn text_as_toml(&self) -> Result<String, String> {
        if !RunnerFile::is_json(&self.text) {
            return Ok(self.text.to_string());
        }
        let read: Value = serde_json::from_str(&self.text).map_err(|error| error.to_string())?;
        toml::to_string(&read).map_err(|error| error.to_string())
    }

    /// Whether a file of this text means the same.
    pub(super) fn is_text(&self, text: &str) -> bool {
        RunnerFile::parse_or_plugin_config(text).is_ok_and(|file| file == self.file)
    }

    /// The file written anew, without comments.
    pub(super) fn anew(&self, is_plugin_alone: bool) -> Result<String, String> {
        let group = self.group().map_err(|error| error.to_string())?;
        match is_plugin_alone {
            true => toml::to_string(&group.plugin_config()).map_err(|error| error.to_string()),
            false => toml::to_string(self.file.value()).map_err(|error| error.to_string()),
        }
    }

    pub(super) fn file(&self) -> &RunnerFile {
        &self.file
    }

    pub(super) fn group(&self) -> Result<Autoscaler<'_>, RunnerFileError> {
        self.file.group(self.group.as_deref())
    }

    /// The name of the time zone in which its days begin: that of the first policy which names one.
    #[must_use]
    pub fn time_zone(&self) -> Option<String> {
        let rules = Autoscaling::read(&self.file, self.group().ok()?, None, &mut Vec::new());
        (*rules.zone() != TimeZone::UTC).then(|| rules.zone().iana_name().map(str::to_owned)).flatten()
    }
}
