//! What surrounds the configuration: environment variables and the files that they name.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_process::read_text;
use windlass_scaleway::Environment;

/// The largest file that a key or variable may name, in bytes: above what Scaleway takes as cloud-init.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// The variables of a process, given so that a test decides what they are.
#[derive(Clone, Default)]
pub struct ProcessEnvironment {
    pub(super) variables: BTreeMap<String, String>,
}

/// The names only: values may be secrets.
impl std::fmt::Debug for ProcessEnvironment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.variables.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for ProcessEnvironment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

impl ProcessEnvironment {
    /// Those of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The variable itself, or the content of the file that `<name>_FILE` names.
    ///
    /// # Errors
    /// Words about the file, when it cannot be read, or about both being set.
    pub(super) fn get_with_file(&self, name: &str) -> Result<Option<String>, String> {
        let variable = format!("{name}_FILE");
        match (self.get(name), self.get(&variable)) {
            (Some(_), Some(_)) => Err(format!("{name} and {variable} are both set; set one of them")),
            (Some(value), None) => Ok(Some(value.to_owned())),
            (None, Some(path)) => {
                let text = read_file(path).map_err(|words| format!("{variable}: {words}"))?;
                let text = text.trim();
                if text.is_empty() { Err(format!("{variable}: {path} is empty")) } else { Ok(Some(text.to_owned())) }
            }
            (None, None) => Ok(None),
        }
    }

    /// All of them, for the client's own reading.
    pub(super) fn for_client(&self) -> Environment {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Reads a text file of bounded size.
///
/// # Errors
/// Words that name the file and what is wrong with it.
pub(crate) fn read_file(path: &str) -> Result<String, String> {
    read_text(Path::new(path), MAX_FILE_BYTES).map_err(|error| format!("cannot read {path}: {error}"))
}
