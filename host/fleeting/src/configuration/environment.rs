//! What surrounds the configuration: environment variables and the files that they name.

use std::path::Path;

use windlass_process::read_text;

use super::ProcessEnvironment;

/// The largest file that a key or variable may name, in bytes: above what Scaleway takes as cloud-init.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// A variable, or the content of the file that `<name>_FILE` names.
///
/// # Errors
/// Words about the file, when it cannot be read, or about both being set.
pub(super) fn variable_or_file(environment: &ProcessEnvironment, name: &str) -> Result<Option<String>, String> {
    let variable = format!("{name}_FILE");
    match (environment.get(name), environment.get(&variable)) {
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

/// Reads a text file of bounded size.
///
/// # Errors
/// Words that name the file and what is wrong with it.
pub(crate) fn read_file(path: &str) -> Result<String, String> {
    read_text(Path::new(path), MAX_FILE_BYTES).map_err(|error| format!("cannot read {path}: {error}"))
}
