//! Metrics in Prometheus' text form, on the address that the configuration names. There is no default address: one
//! process serves each runner entry, so a fixed port would clash.

use std::path::PathBuf;

use axum::Router;
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use windlass_telemetry::Metrics;

use crate::configuration::MetricsAddress;

/// Why metrics are not served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Nobody can listen there.
    #[error("metrics: cannot listen on {address}")]
    Bind {
        /// Where.
        address: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Something is there that is no socket.
    #[error("metrics: {} exists and is not a socket; name another path, or remove it", .0.display())]
    NoSocket(PathBuf),
    /// The process counts already, for somebody else.
    #[error("metrics: another metrics recorder is already installed in this process")]
    Counted,
}

/// Begins to count and to serve.
///
/// # Errors
/// See [`MetricsError`].
pub(crate) async fn serve_metrics(address: &MetricsAddress) -> Result<(), MetricsError> {
    let metrics = Metrics::of_process().ok_or(MetricsError::Counted)?;
    let render = move || async move { ([("content-type", Metrics::CONTENT_TYPE)], metrics.render()) };
    let application = Router::new().route("/metrics", get(render));
    let failed = |source| MetricsError::Bind { address: address.to_string(), source };
    match address {
        MetricsAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            tokio::spawn(async move { axum::serve(listener, application).await });
        }
        MetricsAddress::Unix(path) => {
            remove_old_socket(path)?;
            let listener = UnixListener::bind(path).map_err(failed)?;
            tokio::spawn(async move { axum::serve(listener, application).await });
        }
    }
    tracing::info!(%address, "metrics are served");
    Ok(())
}

/// A socket that a dead process left is in the way of binding. Anything else stays.
fn remove_old_socket(path: &PathBuf) -> Result<(), MetricsError> {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)
            .map_err(|source| MetricsError::Bind { address: path.display().to_string(), source }),
        Ok(_) => Err(MetricsError::NoSocket(path.clone())),
        Err(_) => Ok(()),
    }
}
