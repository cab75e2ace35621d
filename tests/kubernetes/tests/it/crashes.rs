//! SIGKILL at every request to Scaleway, before and after its effect: what the next controller makes of it.

use anyhow::{Context, Result, ensure};
use windlass_test_kubernetes::{ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Moment, Scene};

const APPLE: &str = "/apple-silicon/**";

/// The controller whose only requests are those that its work needs.
fn quiet(state: &str) -> ControllerOptions {
    ControllerOptions { state: state.to_owned(), ..ControllerOptions::default() }.argument("--listing-interval=1h")
}

/// How the successor comes: with its predecessor's volume, or without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Volume {
    Kept,
    Lost,
}

impl Volume {
    fn successor(self) -> ControllerOptions {
        quiet(if self == Volume::Kept { "state" } else { "fresh" })
    }
}

/// A scene with two hosts and, where `claimed`, one machine on one of them.
async fn scene<'plane>(plane: &'plane ControlPlane, claimed: bool) -> Result<(Scene<'plane>, Controller)> {
    let scene = Scene::new(plane, "crash").await?;
    scene.scaleway().add_hosts(2, [])?;
    let controller = scene.start(&quiet("state")).await?;
    if claimed {
        scene.apply(&MachineOptions::default().machine("mac")).await?;
        scene.ready_machines(1).await?;
    }
    Ok((scene, controller))
}

async fn begin(scene: &Scene<'_>, releasing: bool) -> Result<()> {
    if releasing {
        scene.delete(Kind::AppleSiliconMachine, "mac").await
    } else {
        scene.apply(&MachineOptions::default().machine("mac")).await.map(drop)
    }
}

async fn end(scene: &Scene<'_>, releasing: bool) -> Result<()> {
    if releasing {
        scene.gone(Kind::AppleSiliconMachine, "mac").await?;
        scene.all_in_pool(2).await?;
        let wiped: Vec<usize> = scene.scaleway().hosts().iter().map(|host| host.wiped_as.len()).collect();
        ensure!(
            wiped.iter().filter(|count| **count > 0).count() == 1,
            "the one that was used, and it alone: {wiped:?}"
        );
    } else {
        scene.ready_machines(1).await?;
        scene.check_hosts(&[]).await?;
        let hosts = scene.scaleway().hosts();
        ensure!(hosts.iter().filter(|host| host.in_pool()).count() == 1, "one is used, one is not: {hosts:#?}");
        ensure!(hosts.iter().all(|host| host.wiped_as.is_empty()), "{hosts:#?}");
    }
    Ok(())
}

/// The requests that an undisturbed adoption or release makes.
async fn calm_run(plane: &ControlPlane, releasing: bool) -> Result<Vec<String>> {
    let (scene, _controller) = scene(plane, releasing).await?;
    scene.scaleway().simulator().clear_requests();
    begin(&scene, releasing).await?;
    end(&scene, releasing).await?;
    let calls = scene.scaleway().calls();
    scene.end().await?;
    Ok(calls)
}

async fn killed_at(plane: &ControlPlane, releasing: bool, nth: u64, moment: Moment, volume: Volume) -> Result<()> {
    let (scene, mut controller) = scene(plane, releasing).await?;
    scene.scaleway().hold("*", APPLE, nth, moment)?;
    begin(&scene, releasing).await?;
    scene.scaleway().held().await?;
    controller.kill();
    scene.scaleway().calm();
    scene.check_hosts(&[]).await.context("at the moment of death")?;
    let _successor = scene.start(&volume.successor()).await?;
    end(&scene, releasing).await?;
    scene.end().await
}

async fn killed_everywhere(releasing: bool, volume: Volume) -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let calls = calm_run(plane, releasing).await?;
    ensure!(calls.iter().any(|call| !call.starts_with("GET ")), "nothing was done: {calls:?}");
    println!("requests: {calls:#?}");
    for (place, call) in calls.iter().enumerate() {
        for moment in [Moment::Before, Moment::After] {
            // A look-up has no effect, so there is one way to die in it.
            if call.starts_with("GET ") && moment == Moment::After {
                continue;
            }
            killed_at(plane, releasing, place as u64 + 1, moment, volume)
                .await
                .with_context(|| format!("killed {moment:?} request {}: {call}", place + 1))?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_an_adoption_has_it_finished_by_the_next() -> Result<()> {
    killed_everywhere(false, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_a_release_has_it_finished_by_the_next() -> Result<()> {
    killed_everywhere(true, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_is_finished_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(false, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_finished_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(true, Volume::Lost).await
}
