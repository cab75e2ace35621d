//! What is going on when the controller dies, and what must have come of it in the end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

use super::Volume;

/// Longer than a reinstallation takes, or a reboot.
const HOUR: Duration = Duration::from_secs(3600);
/// The object of the story.
const MAC: &str = "mac";
const BOX: &str = "box";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Story {
    /// A machine claims one of two hosts.
    Adoption,
    /// A machine orders one, since its pool is empty.
    Order,
    /// A machine is deleted, and its host goes back.
    Release,
    /// The third set-up failed: the default policy reboots the host, once.
    Recovery,
    /// The eighth failed: the host goes back, and another takes its place.
    Replacement,
    /// A host whose claim no object explains goes back.
    Reclaim,
    /// An instance is made.
    Creation,
    /// An instance is removed.
    Deletion,
}

impl Story {
    /// Where it takes place. Who reclaims watches all namespaces, so nobody else may have objects there.
    pub(super) async fn plane(self) -> Result<Option<&'static ControlPlane>> {
        match self {
            Self::Reclaim => crate::orphans::plane().await,
            _ => ControlPlane::shared().await,
        }
    }

    /// Whether dying in a look-up is tried, too. Where it is not, those of the other stories are the same, or their
    /// number differs from run to run since a server's state is asked for until it is what it should be.
    pub(super) fn dies_in_look_ups(self) -> bool {
        !matches!(self, Self::Replacement | Self::Creation | Self::Deletion)
    }

    /// Simulated seconds in a second. Where a host is wiped or rebooted time is moved by hand, so that its state is the
    /// same however long a successor takes to start.
    pub(super) fn time_scale(self) -> f64 {
        if matches!(self, Self::Order | Self::Creation | Self::Deletion) { 60.0 } else { 1.0 }
    }

    pub(super) fn configure(self, scene: &Scene<'_>, options: &mut ControllerOptions) {
        match self {
            // A delivery is seen in a listing.
            Self::Order => options.arguments.extend(["--allow-orders".into(), "--listing-interval=1s".into()]),
            Self::Reclaim => crate::orphans::look(scene, options, "return"),
            _ => {}
        }
    }

    /// Brings about what has to be there before.
    pub(super) async fn prepare(self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Adoption | Self::Reclaim => scene.scaleway().add_hosts(2, []).map(drop),
            Self::Order | Self::Creation => Ok(()),
            Self::Release | Self::Recovery | Self::Replacement => {
                scene.scaleway().add_hosts(2, [])?;
                scene.apply(&MachineOptions::default().machine(MAC)).await?;
                scene.ready_machines(1).await?;
                if self != Self::Recovery {
                    return Ok(());
                }
                // Two failures are nothing yet.
                fail(scene, 2).await?;
                eventually("two failures are judged", || async {
                    let bootstrap = bootstrap(scene).await?;
                    ensure!(bootstrap["judgedFailures"] == 2, "{bootstrap}");
                    Ok(())
                })
                .await
            }
            Self::Deletion => {
                create(scene).await?;
                created(scene).await
            }
        }
    }

    /// Begins it.
    pub(super) async fn begin(self, scene: &Scene<'_>) -> Result<()> {
        match self {
            Self::Adoption => scene.apply(&MachineOptions::default().machine(MAC)).await.map(drop),
            Self::Order => {
                let options = MachineOptions::default().with("order", json!({"allowed": true, "limit": 3}));
                scene.apply(&options.machine(MAC)).await.map(drop)
            }
            Self::Release => scene.delete(Kind::AppleSiliconMachine, MAC).await,
            Self::Recovery => fail(scene, 3).await,
            Self::Replacement => fail(scene, 8).await,
            Self::Reclaim => crate::orphans::strand(scene).map(drop),
            Self::Creation => create(scene).await,
            Self::Deletion => scene.delete(Kind::InstanceMachine, BOX).await,
        }
    }

    /// The hosts that no machine explains, for as long as they are orphans.
    pub(super) fn unexplained(self, scene: &Scene<'_>) -> Vec<String> {
        let orphaned = |name: &str| self == Self::Reclaim && name.starts_with(scene.namespace());
        scene.scaleway().hosts().into_iter().filter(|host| orphaned(&host.name)).map(|host| host.id).collect()
    }

    /// What happens at Scaleway between death and successor.
    pub(super) fn meanwhile(self, scene: &Scene<'_>) {
        if self == Self::Recovery {
            // A reboot that was begun is over: the host's state does not tell of it any more.
            scene.scaleway().advance(HOUR);
        }
    }

    /// Waits for the end, and checks it.
    pub(super) async fn end(self, scene: &Scene<'_>, volume: Volume) -> Result<()> {
        let hosts = || scene.scaleway().hosts();
        let unwiped = || {
            ensure!(hosts().iter().all(|host| host.wiped_as.is_empty()), "{:#?}", hosts());
            Ok(())
        };
        match self {
            Self::Adoption => {
                scene.ready_machines(1).await?;
                ensure!(hosts().iter().filter(|host| host.in_pool()).count() == 1, "one is used: {:#?}", hosts());
                unwiped()?;
            }
            Self::Order => {
                scene.ready_machines(1).await?;
                ensure!(hosts().len() == 1 && scene.scaleway().gone_hosts().is_empty(), "one: {:#?}", hosts());
                unwiped()?;
            }
            Self::Release => {
                scene.gone(Kind::AppleSiliconMachine, MAC).await?;
                scene.scaleway().advance(HOUR);
                scene.all_in_pool(2).await?;
                one_wiped_once(scene)?;
            }
            Self::Recovery => {
                eventually("the reboot is known", || async {
                    let bootstrap = bootstrap(scene).await?;
                    ensure!(bootstrap["rebooted"] == true && bootstrap["judgedFailures"] == 3, "{bootstrap}");
                    Ok(())
                })
                .await?;
                let reboots: u64 = hosts().iter().map(|host| host.reboots).sum();
                // That one took effect and is over only the journal knows.
                let most = if volume == Volume::Lost { 2 } else { 1 };
                ensure!((1..=most).contains(&reboots), "{reboots} reboots: {:#?}", hosts());
                unwiped()?;
            }
            Self::Replacement => {
                eventually("the host is back in the pool", || async {
                    ensure!(hosts().iter().any(|host| host.in_pool() && !host.wiped_as.is_empty()), "{:#?}", hosts());
                    Ok(())
                })
                .await?;
                eventually("the machine is ready on the other host", || async {
                    let machine = scene.ready_machines(1).await?.remove(0);
                    let id = machine.data["status"]["serverID"].as_str().context("no host")?.to_owned();
                    let host = scene.scaleway().host(&id)?;
                    ensure!(!host.in_pool() && host.wiped_as.is_empty(), "{host:#?}");
                    Ok(())
                })
                .await?;
                one_wiped_once(scene)?;
            }
            Self::Reclaim => {
                eventually("the orphan is back in the pool", || async {
                    ensure!(hosts().iter().filter(|host| host.in_pool()).count() == 3, "{:#?}", hosts());
                    Ok(())
                })
                .await?;
                scene.scaleway().advance(HOUR);
                scene.all_in_pool(3).await?;
                one_wiped_once(scene)?;
            }
            Self::Creation => {
                created(scene).await?;
                let resources = scene.scaleway().simulator().resources();
                let counts = (resources.servers.len(), resources.ips.len(), resources.volumes.len());
                ensure!(counts == (1, 1, 1), "one server, its address and its volume: {resources:#?}");
            }
            Self::Deletion => {
                scene.gone(Kind::InstanceMachine, BOX).await?;
                let resources = scene.scaleway().simulator().resources();
                ensure!(resources.is_empty(), "{resources:#?}");
            }
        }
        scene.check_hosts(&[]).await
    }
}

/// Tells that so many set-ups have failed, as whoever bootstraps does.
async fn fail(scene: &Scene<'_>, times: u32) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": times.to_string()}}});
    scene.patch(Kind::AppleSiliconMachine, MAC, patch).await.map(drop)
}

/// What the machine's status says of set-ups.
async fn bootstrap(scene: &Scene<'_>) -> Result<Value> {
    Ok(scene.api(Kind::AppleSiliconMachine).get(MAC).await?.data["status"]["bootstrap"].clone())
}

/// The one that was used, and it alone.
fn one_wiped_once(scene: &Scene<'_>) -> Result<()> {
    let wiped: usize = scene.scaleway().hosts().iter().map(|host| host.wiped_as.len()).sum();
    ensure!(wiped == 1, "{:#?}", scene.scaleway().hosts());
    Ok(())
}

async fn create(scene: &Scene<'_>) -> Result<()> {
    let machine = json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
        "metadata": {"name": BOX}, "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"}});
    scene.apply(&machine).await.map(drop)
}

async fn created(scene: &Scene<'_>) -> Result<()> {
    eventually("the instance is ready", || async {
        let machine = scene.api(Kind::InstanceMachine).get(BOX).await?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await
}
