//! A control plane with what is installed on it.

use anyhow::{Context, Result, bail, ensure};
use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{OnceCell, Semaphore};

use crate::controller::LEASE_NAMESPACE;
use crate::{ControlPlane, Kind, Programs, User, cluster_api, eventually};

/// Control planes without Cluster API that nobody uses.
static FREE: Mutex<Vec<ControlPlane>> = Mutex::new(Vec::new());
/// So many are lent at a time: a start costs more than the wait for one that is there.
static LENT: Semaphore = Semaphore::const_new(2);

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

    /// Runs a test on a control plane without Cluster API that it has for itself as long as it runs: one that an earlier
    /// test had, else a new one. For tests whose controllers watch all namespaces, or that stop the API server. Their
    /// namespaces stay, with nothing in them that a controller would work on. After a test that failed the control
    /// plane ends.
    ///
    /// # Errors
    /// When a new one does not start; that of the test; or when something of it is left.
    pub async fn lend(test: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        let Some(programs) = Programs::found() else { return Ok(()) };
        let _lent = LENT.acquire().await?;
        let free = FREE.lock().pop();
        let plane = match free {
            Some(plane) => plane,
            None => Self::start(programs, false).await?,
        };
        test(&plane).await?;
        plane.clear().await.context("clear the control plane for another test")?;
        FREE.lock().push(plane);
        Ok(())
    }

    /// Removes all objects of our kinds, whatever holds them, and who led.
    async fn clear(&self) -> Result<()> {
        let client = self.client(User::Admin).await?;
        for name in self.programs().definitions()? {
            let (plural, group) = name.split_once('.').context("a definition's name has its group in it")?;
            let resource = ApiResource {
                group: group.to_owned(),
                version: "v1alpha1".to_owned(),
                api_version: format!("{group}/v1alpha1"),
                kind: plural.to_owned(),
                plural: plural.to_owned(),
            };
            let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            eventually(&format!("nothing is left of {name}"), || async {
                let left = all.list(&ListParams::default()).await?.items;
                for object in &left {
                    let of: Api<DynamicObject> = match object.namespace() {
                        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                        None => all.clone(),
                    };
                    let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                    of.patch(&object.name_any(), &PatchParams::default(), &none).await?;
                    of.delete(&object.name_any(), &DeleteParams::default()).await?;
                }
                ensure!(left.is_empty(), "{} are there", left.len());
                Ok(())
            })
            .await?;
        }
        for namespace in ["kube-system", LEASE_NAMESPACE] {
            let leases: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &Kind::Lease.resource());
            for lease in leases.list(&ListParams::default()).await?.items {
                if lease.name_any().starts_with("windlass-") {
                    leases.delete(&lease.name_any(), &DeleteParams::default()).await?;
                }
            }
        }
        Ok(())
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
