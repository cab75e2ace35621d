//! The group's state as web pages, beside the metrics.

use windlass_console::{Beside, Endpoint, Error, ServeOptions};
use windlass_lifecycle::StateDirectory;

/// Begins to show the group's folder, until what is returned is dropped.
///
/// # Errors
/// A file cannot be used, or nobody can listen there.
pub(crate) fn serve_console(options: &ServeOptions, state: &StateDirectory) -> Result<Beside, Error> {
    Endpoint::bind(options.clone())?.serve_beside(state.clone())
}
