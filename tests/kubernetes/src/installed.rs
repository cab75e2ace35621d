//! A control plane with what is installed on it.

use anyhow::{Result, bail};
use tokio::sync::OnceCell;

use crate::{ControlPlane, Programs, cluster_api};

impl ControlPlane {
    /// The one that all tests of this process share, with Cluster API and our manifests in it. `None`, after a visible
    /// line, where the programs are missing.
    ///
    /// # Errors
    /// What went wrong at its only start.
    pub async fn shared() -> Result<Option<&'static ControlPlane>> {
        static SHARED: OnceCell<Result<Option<ControlPlane>, String>> = OnceCell::const_new();
        let started = SHARED.get_or_init(|| async {
            let Some(programs) = Programs::found() else { return Ok(None) };
            Self::start(programs, true).await.map(Some).map_err(|error| format!("{error:#}"))
        });
        match started.await {
            Ok(plane) => Ok(plane.as_ref()),
            Err(error) => bail!("the control plane did not start: {error}"),
        }
    }

    /// A new one with our manifests in it, and Cluster API's when asked for: 5 to 15 seconds.
    ///
    /// # Errors
    /// When a program does not start or does not answer; the end of its log is in the error.
    pub async fn start(programs: Programs, with_cluster_api: bool) -> Result<Self> {
        let plane = Self::bare(programs).await?;
        if with_cluster_api {
            cluster_api::CORE.install(&plane).await?;
        }
        plane.install_ours().await?;
        Ok(plane)
    }
}
