//! A configuration whose outcome is wanted: the runner's file, with one of its groups.

use jiff::tz::TimeZone;

use super::autoscaling::Autoscaling;
use crate::group::runner_file::{Autoscaler, RunnerFile, RunnerFileError};

/// A runner's configuration, and the group that is meant.
#[derive(Clone)]
pub struct Arm {
    file: RunnerFile,
    group: Option<String>,
}

impl Arm {
    /// Reads the runner's `config.toml`, or the plugin's configuration alone, as TOML or JSON. `group` is the `name` in
    /// its `plugin_config`; required where the file has several groups.
    ///
    /// # Errors
    /// The file cannot be read, or it is not clear which group is meant.
    pub fn read(path: &str, group: Option<&str>) -> Result<Self, RunnerFileError> {
        let file = RunnerFile::read_or_plugin_config(path)?;
        let arm = Self { file, group: group.map(str::to_owned) };
        arm.group()?;
        Ok(arm)
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
