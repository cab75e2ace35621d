//! What is wrong with a configuration.

use std::fmt;

/// One thing that is wrong: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, or the variable. Empty where the words name it.
    pub place: String,
    /// What is wrong with it and what would be right.
    pub words: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => formatter.write_str(&self.words),
            place => write!(formatter, "{place}: {}", self.words),
        }
    }
}

/// Everything that is wrong. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationErrors(pub(super) Vec<Problem>);

impl ConfigurationErrors {
    /// These, of which there is at least one.
    pub(crate) fn of(problems: Vec<Problem>) -> Self {
        Self(problems)
    }

    /// One by one.
    pub fn problems(&self) -> &[Problem] {
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
