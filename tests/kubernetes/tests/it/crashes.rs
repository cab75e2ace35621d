//! SIGKILL at every request to Scaleway, before and after its effect: what the next controller makes of it.

use anyhow::{Context, Result, ensure};
use windlass_test_kubernetes::{ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Moment, Scene};

/// One request of a calm run, in a way that meets the same one in another run: the `nth` of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    nth: u64,
}

/// Each request, found again by its kind. How many listings there are depends on how old the last one is, so of these the first
/// stands for all; the others are the same in every run.
fn requests(calls: &[String]) -> Vec<Request> {
    let mut found: Vec<Request> = Vec::new();
    for call in calls {
        let (method, path) = call.split_once(' ').unwrap_or_default();
        let kind: Vec<&str> = path.split('/').map(|part| if part.len() == 36 { "*" } else { part }).collect();
        let kind = kind.join("/");
        let nth = 1 + found.iter().filter(|other| other.method == method && other.path == kind).count() as u64;
        if nth == 1 || !kind.ends_with("/servers") {
            found.push(Request { method: method.to_owned(), path: kind, nth });
        }
    }
    found
}

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

async fn killed_at(
    plane: &ControlPlane,
    releasing: bool,
    request: &Request,
    moment: Moment,
    volume: Volume,
) -> Result<()> {
    let (scene, mut controller) = scene(plane, releasing).await?;
    scene.scaleway().hold(&request.method, &request.path, request.nth, moment)?;
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
    let requests = requests(&calls);
    ensure!(requests.iter().filter(|request| request.method != "GET").count() >= 2, "too little was done: {calls:?}");
    println!("requests: {requests:#?}");
    for request in &requests {
        // A look-up has no effect, so there is one way to die in it.
        let moments = if request.method == "GET" { &[Moment::Before][..] } else { &[Moment::Before, Moment::After] };
        for moment in moments {
            killed_at(plane, releasing, request, *moment, volume)
                .await
                .with_context(|| format!("killed {moment:?} {request:?}"))?;
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
