//! What a program starts, and stops at its end.

use std::time::Duration;

use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// Why the export cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A variable is wrong.
    #[cfg(feature = "otlp")]
    #[error(transparent)]
    Settings(#[from] crate::SettingsError),
    /// The thread that exports cannot be started.
    #[error("OpenTelemetry: its thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

/// The export of a process. Dropped without [`Telemetry::shutdown`], what waits to be exported is lost.
#[derive(Debug, Default)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<crate::otlp::exporter::Exporter>,
}

impl Telemetry {
    /// Starts the export as the process's environment says (`OTEL_*`). Without an endpoint, nothing is started.
    ///
    /// `service` and `version` are what all that is exported carries as `service.name`, unless the environment names
    /// another, and `service.version`.
    ///
    /// # Errors
    /// [`TelemetryError::Settings`] names the variable that is wrong. Its value is not in it where that may be secret.
    pub fn start(service: &str, version: &str) -> Result<Self, TelemetryError> {
        #[cfg(feature = "otlp")]
        if let Some(settings) = crate::Settings::from_environment(service, version)? {
            return Self::with(settings);
        }
        let _ = (service, version);
        Ok(Self::default())
    }

    /// Starts the export with these settings.
    ///
    /// # Errors
    /// [`TelemetryError::Thread`].
    #[cfg(feature = "otlp")]
    pub fn with(settings: crate::Settings) -> Result<Self, TelemetryError> {
        let exporter = crate::otlp::exporter::Exporter::start(settings).map_err(TelemetryError::Thread)?;
        Ok(Self { exporter: Some(exporter) })
    }

    /// Whether anything is exported.
    #[must_use]
    pub fn is_on(&self) -> bool {
        #[cfg(feature = "otlp")]
        {
            self.exporter.is_some()
        }
        #[cfg(not(feature = "otlp"))]
        {
            false
        }
    }

    /// The part of the subscriber that exports spans and log records. `None` where neither is exported.
    #[must_use]
    pub fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        #[cfg(feature = "otlp")]
        {
            self.exporter.as_ref().and_then(crate::otlp::exporter::Exporter::layer)
        }
        #[cfg(not(feature = "otlp"))]
        {
            None
        }
    }

    /// Exports what waits, and ends. Returns within `limit`, whatever the collector does.
    pub fn shutdown(self, limit: Duration) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.shutdown(limit);
        }
        #[cfg(not(feature = "otlp"))]
        let _ = limit;
    }
}
