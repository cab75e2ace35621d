//! Where the state is kept when the configuration does not say.

use std::path::PathBuf;

use super::ProcessEnvironment;

/// `$XDG_STATE_HOME/windlass`, else `$HOME/.local/state/windlass`, as the command line tool has it.
pub(super) fn default_state_directory(process_environment: &ProcessEnvironment) -> Option<PathBuf> {
    let absolute = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
    process_environment
        .get("XDG_STATE_HOME")
        .and_then(absolute)
        .or_else(|| process_environment.get("HOME").and_then(absolute).map(|home| home.join(".local/state")))
        .map(|state| state.join("windlass"))
}
