//! SIGKILL at every request to Scaleway, before and after its effect: what the next controller makes of it. A share of
//! the requests, and all of them where `just search` asks for it.

mod story;

use anyhow::{Context, Result, ensure};
use windlass_simulator::Options;
use windlass_test_guests::share;
use windlass_test_kubernetes::{ControlPlane, Controller, ControllerOptions, Moment, Scene};
use windlass_test_postgres::Server;

use story::Story;

/// One request of a calm run, in a way that meets the same one in another run: the `nth` of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    method: String,
    path: String,
    nth: u64,
}

/// Each request, found again by its kind. How many listings there are depends on how old the last one is, so of these
/// the first stands for all; the others are the same in every run.
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

/// How the successor comes: with its predecessor's volume, without it, or on another node with the same database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Volume {
    Kept,
    Lost,
    Shared,
}

impl Volume {
    /// The successor's folder of state.
    fn state(self) -> &'static str {
        if self == Volume::Kept { "state" } else { "fresh" }
    }
}

/// The controller whose only requests are those that its work needs, and which does not look around for other claimers:
/// there are none.
fn options(story: Story, scene: &Scene<'_>, database: Option<&Server>, state: &str) -> ControllerOptions {
    let mut options = ControllerOptions { state: state.to_owned(), ..ControllerOptions::default() }
        .argument("--listing-interval=1h")
        .argument("--claim-settle=100ms")
        .argument("--sweep=off")
        // A host whose order was not answered is waited for so long.
        .argument("--second-look=2s");
    if let Some(server) = database {
        options = options.variable("WINDLASS_STATE", &server.url(&schema(scene)));
    }
    story.configure(scene, &mut options);
    options
}

/// The schema of a scene's journal.
fn schema(scene: &Scene<'_>) -> String {
    scene.namespace().replace('-', "_")
}

/// A scene in which everything is there that the story needs.
async fn scene<'plane>(
    plane: &'plane ControlPlane,
    story: Story,
    database: Option<&Server>,
) -> Result<(Scene<'plane>, Controller)> {
    let scene = Scene::with(plane, "crash", Options { time_scale: story.time_scale(), ..Options::default() }).await?;
    let controller = scene.start(&options(story, &scene, database, "state")).await?;
    story.prepare(&scene).await?;
    Ok((scene, controller))
}

/// The requests that it makes undisturbed.
async fn calm_run(plane: &ControlPlane, story: Story, database: Option<&Server>) -> Result<Vec<String>> {
    let (scene, _controller) = scene(plane, story, database).await?;
    scene.scaleway().simulator().clear_requests();
    story.begin(&scene).await?;
    story.end(&scene, Volume::Kept).await?;
    let calls = scene.scaleway().calls();
    scene.end().await?;
    Ok(calls)
}

async fn killed_at(
    plane: &ControlPlane,
    story: Story,
    request: &Request,
    moment: Moment,
    volume: Volume,
    database: Option<&Server>,
) -> Result<()> {
    let (scene, mut controller) = scene(plane, story, database).await?;
    scene.scaleway().hold(&request.method, &request.path, request.nth, moment)?;
    story.begin(&scene).await?;
    scene.scaleway().held().await?;
    controller.kill();
    if let Some(server) = database {
        // As if it had not renewed its row for half a minute.
        server.expire(&schema(&scene));
    }
    scene.scaleway().calm();
    scene.check_hosts(&story.unexplained(&scene)).await.context("at the moment of death")?;
    story.meanwhile(&scene);
    let _successor = scene.start(&options(story, &scene, database, volume.state())).await?;
    story.end(&scene, volume).await?;
    scene.end().await
}

async fn killed_everywhere(story: Story, volume: Volume) -> Result<()> {
    let server = if volume == Volume::Shared { Server::start() } else { None };
    if volume == Volume::Shared && server.is_none() {
        return Ok(());
    }
    let database = server.as_ref();
    let Some(plane) = story.plane().await? else { return Ok(()) };
    let calls = calm_run(plane, story, database).await.context("undisturbed")?;
    let requests: Vec<Request> =
        requests(&calls).into_iter().filter(|request| request.method != "GET" || story.dies_in_look_ups()).collect();
    ensure!(requests.iter().any(|request| request.method != "GET"), "nothing was done: {calls:?}");
    // A look-up has no effect, so there is one way to die in it.
    let moments = |request: &Request| if request.method == "GET" { 1 } else { 2 };
    let cases: Vec<_> = requests
        .iter()
        .flat_map(|request| {
            [Moment::Before, Moment::After].into_iter().take(moments(request)).map(move |at| (request, at))
        })
        .collect();
    // Without the volume a controller dies elsewhere than with it, where it does not die everywhere.
    let first = if volume == Volume::Kept { 0 } else { cases.len() / 2 };
    let mut deaths = 0;
    for (request, moment) in share(cases.iter().cycle().skip(first).take(cases.len())) {
        killed_at(plane, story, request, *moment, volume, database)
            .await
            .with_context(|| format!("killed {moment:?} {request:?}"))?;
        deaths += 1;
    }
    println!("{story:?}, volume {volume:?}: {deaths} deaths at {} requests", requests.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_an_adoption_has_it_finished_by_the_next() -> Result<()> {
    killed_everywhere(Story::Adoption, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adoption_is_finished_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(Story::Adoption, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_an_order_orders_no_second_host() -> Result<()> {
    killed_everywhere(Story::Order, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_host_is_ordered_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(Story::Order, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_a_release_has_it_finished_by_the_next() -> Result<()> {
    killed_everywhere(Story::Release, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_finished_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(Story::Release, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_a_recovery_has_the_host_rebooted_exactly_once() -> Result<()> {
    killed_everywhere(Story::Recovery, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_rebooted_at_most_twice_by_a_controller_whose_volume_was_lost_at_any_request() -> Result<()> {
    killed_everywhere(Story::Recovery, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_while_a_host_is_replaced_has_it_replaced_by_the_next() -> Result<()> {
    killed_everywhere(Story::Replacement, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_replaced_by_a_controller_whose_volume_was_lost_meanwhile() -> Result<()> {
    killed_everywhere(Story::Replacement, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_request_of_a_reclaim_has_the_orphan_returned_and_wiped_once() -> Result<()> {
    killed_everywhere(Story::Reclaim, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_change_of_a_creation_leaves_exactly_one_server() -> Result<()> {
    killed_everywhere(Story::Creation, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_server_is_left_by_a_controller_whose_volume_was_lost_during_a_creation() -> Result<()> {
    killed_everywhere(Story::Creation, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_at_any_change_of_a_deletion_leaves_nothing() -> Result<()> {
    killed_everywhere(Story::Deletion, Volume::Kept).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_by_a_controller_whose_volume_was_lost_during_a_deletion() -> Result<()> {
    killed_everywhere(Story::Deletion, Volume::Lost).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_server_is_left_by_another_node_with_the_same_database() -> Result<()> {
    killed_everywhere(Story::Creation, Volume::Shared).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_by_another_node_with_the_same_database() -> Result<()> {
    killed_everywhere(Story::Deletion, Volume::Shared).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_rebooted_once_by_another_node_with_the_same_database() -> Result<()> {
    killed_everywhere(Story::Recovery, Volume::Shared).await
}
