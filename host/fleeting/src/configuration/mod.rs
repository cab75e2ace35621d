//! `plugin_config`: what the operator wrote, checked as a whole before anything is touched.
//!
//! Keys are those of the Scaleway plugins that exist, so that their `config.toml` works unchanged, and ours beside them
//! (`docs/gitlab-runner-keys.md` explains each). All that is wrong is reported at once.

mod apple_silicon;
mod common;
mod console;
mod duration;
mod environment;
mod instances;
mod metrics_address;
mod problem;
mod read;
mod read_apple_silicon;
mod reader;
mod state_directory;
mod zones;

#[cfg(test)]
mod documents;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;

pub use apple_silicon::{AppleSiliconConfiguration, OperatingSystem};
pub use common::Common;
pub(crate) use duration::parse as parse_duration;
pub(crate) use environment::read_file;
pub use instances::Configuration;
pub use metrics_address::MetricsAddress;
pub use problem::ConfigurationErrors;
pub use windlass_scaleway::Environment as ProcessEnvironment;
pub use zones::ZonalIds;

/// What a group is configured to be, by its `kind`.
#[derive(Clone, Debug)]
pub enum GroupConfiguration {
    /// `instance`, the default: servers that are made for the group.
    Instances(Box<Configuration>),
    /// `apple-silicon`: Macs that are claimed from a pool, or ordered.
    AppleSilicon(Box<AppleSiliconConfiguration>),
}

impl AsRef<Common> for GroupConfiguration {
    fn as_ref(&self) -> &Common {
        match self {
            Self::Instances(configuration) => &configuration.common,
            Self::AppleSilicon(configuration) => &configuration.common,
        }
    }
}
