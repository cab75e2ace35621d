//! Looks at served pages as a stranger does: over HTTP and TLS ([`Viewer`]), along every link ([`Viewer::crawl`]), for
//! secrets in whatever form ([`Secrets`]). Knows nothing of what the pages show.

mod certificates;
mod secrets;
mod viewer;

pub use certificates::{Authority, Identity};
pub use secrets::Secrets;
pub use viewer::{Answer, Opened, Viewer};
