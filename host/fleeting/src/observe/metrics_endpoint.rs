//! Metrics in Prometheus' text form, on the address that the configuration names. There is no default address: one
//! process serves each runner entry, so a fixed port would clash.

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::net::{TcpListener, UnixListener};

use crate::configuration::MetricsAddress;

/// Bounds of the histograms, in seconds: from a decision's microseconds to a creation's minutes.
const SECONDS: [f64; 18] = [
    0.000_005, 0.000_02, 0.000_1, 0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0,
    600.0,
];
/// How often the histograms' buffers are emptied when nobody reads the metrics.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

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
    #[error("metrics: {} exists and is no socket; name another path or remove it", .0.display())]
    NoSocket(PathBuf),
    /// The exporter refuses.
    #[error("metrics: the exporter cannot be made")]
    Exporter(#[source] BuildError),
}

/// Begins to count and to serve. In one process only the first call counts anything.
///
/// # Errors
/// See [`MetricsError`].
pub(crate) async fn serve_metrics(address: &MetricsAddress) -> Result<(), MetricsError> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .map_err(MetricsError::Exporter)?
        .build_recorder();
    let handle = recorder.handle();
    if windlass_telemetry::install_recorder(recorder).is_err() {
        tracing::warn!("metrics are counted by somebody else in this process already");
    }
    let upkeep = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_INTERVAL).await;
            upkeep.run_upkeep();
        }
    });
    let application = Router::new().route("/metrics", get(move || render(handle.clone())));
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

async fn render(handle: PrometheusHandle) -> ([(&'static str, &'static str); 1], String) {
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], handle.render())
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
