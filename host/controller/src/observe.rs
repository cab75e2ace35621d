//! What the process lets be seen: log lines, metrics, health.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use windlass_telemetry::{Metrics, Telemetry, log_filter_or_info};

use crate::arguments::LogFormat;
use crate::{Error, metric_names};

/// Sends everything that is traced to standard error, from `info` on or as `WINDLASS_LOG` says, and to the collector
/// where there is one. Does nothing where logging was started before.
pub fn start_logging(format: LogFormat, telemetry: &Telemetry) {
    let (filter, refused) = log_filter_or_info();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => lines.with_filter(filter).boxed(),
    };
    // Each has a filter of its own: what is exported is not decided by what is logged.
    let _ = tracing_subscriber::registry().with(telemetry.layer()).with(lines).try_init();
    if let Some(error) = refused {
        tracing::warn!(%error, "the log's filter cannot be read and is ignored");
    }
}

/// What the probes answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    ready: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
}

impl Health {
    /// The process works, or waits for the Lease as it should: traffic is not what readiness is about here, but a
    /// roll-out waits for it.
    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// The process can only be restarted.
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }
}

fn answer(good: bool) -> (StatusCode, &'static str) {
    if good { (StatusCode::OK, "ok\n") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ok\n") }
}

/// Serves `/healthz` and `/readyz`.
pub(crate) async fn serve_health(
    address: SocketAddr,
    health: Health,
    end: CancellationToken,
) -> Result<SocketAddr, Error> {
    let (live, ready) = (health.clone(), health);
    let application = Router::new()
        .route("/healthz", get(move || async move { answer(!live.broken.load(Ordering::Relaxed)) }))
        .route("/readyz", get(move || async move { answer(ready.ready.load(Ordering::Relaxed)) }));
    serve("health", address, application, end).await
}

/// Begins to count and to serve `/metrics`.
pub(crate) async fn serve_metrics(address: SocketAddr, end: CancellationToken) -> Result<SocketAddr, Error> {
    let metrics = Metrics::of_process().ok_or(Error::Metrics)?;
    metric_names::describe();
    let render = move || async move { ([("content-type", Metrics::CONTENT_TYPE)], metrics.render()) };
    serve("metrics", address, Router::new().route("/metrics", get(render)), end).await
}

async fn serve(
    what: &'static str,
    address: SocketAddr,
    application: Router,
    end: CancellationToken,
) -> Result<SocketAddr, Error> {
    let failed = |source| Error::Listen { what, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    tokio::spawn(async move {
        let ended = async move { end.cancelled().await };
        if let Err(error) = axum::serve(listener, application).with_graceful_shutdown(ended).await {
            tracing::warn!(error = &error as &dyn std::error::Error, what, "no longer served");
        }
    });
    tracing::info!(address = %bound, "{what} is served");
    Ok(bound)
}
