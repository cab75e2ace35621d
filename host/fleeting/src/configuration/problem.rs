//! What is wrong with a configuration.

use std::fmt;

use windlass_policy::Mistake;

/// Everything that is wrong. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationErrors(pub(super) Vec<Mistake>);

impl ConfigurationErrors {
    /// These, of which there is at least one.
    pub(crate) fn of(problems: Vec<Mistake>) -> Self {
        Self(problems)
    }

    /// One by one.
    pub fn problems(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for ConfigurationErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(formatter, "plugin_config: {one}"),
            several => {
                write!(formatter, "plugin_config has {} mistakes:", several.len())?;
                several.iter().try_for_each(|problem| write!(formatter, "\n  - {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigurationErrors {}
