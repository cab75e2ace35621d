//! Where a policy's component comes from.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_distribution::Reference;

use crate::rules::RulesFile;

/// Where a policy's component comes from.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Source {
    /// The default that is built into this host.
    #[default]
    BuiltIn,
    /// A file: a component, or rules where its name ends in `.rules.toml`. Relative paths start at
    /// [`HostOptions::policy_folder`](crate::HostOptions).
    File(PathBuf),
    /// An artifact of a registry: a component, or rules, as its media type says. Fetched by
    /// [`HostOptions::registries`](crate::HostOptions).
    Registry(Arc<Reference>),
    /// A component in memory. Can't be written in a configuration file.
    Bytes(Arc<[u8]>),
    /// The contents of a file of rules in memory, see [`RulesFile`](crate::RulesFile). Can't be written in a
    /// configuration file.
    Rules {
        /// The file's name, which ends in `.rules.toml`.
        name: Arc<str>,
        contents: Arc<[u8]>,
    },
}

impl Source {
    /// Whether it is known to be rules.
    pub fn is_rules(&self) -> bool {
        RulesFile::is_source(self)
    }

    /// By what rules from there are known: the name of their file.
    pub(crate) fn rules_name(&self) -> Arc<str> {
        let name = match self {
            Source::File(path) => path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default(),
            Source::Rules { name, .. } => (&**name).into(),
            Source::Registry(reference) => reference.repository().rsplit('/').next().unwrap_or_default().into(),
            Source::BuiltIn | Source::Bytes(_) => "memory".into(),
        };
        RulesFile::name_for_people(&name).into()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::BuiltIn => f.write_str("the built-in default"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Registry(reference) => write!(f, "{reference}"),
            Source::Bytes(bytes) => write!(f, "a component of {} bytes", bytes.len()),
            Source::Rules { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({self})")
    }
}
