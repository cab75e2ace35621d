//! Controllers on several nodes, whose journal is in a database: nothing but that is between them.

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_test_kubernetes::{ControlPlane, Controller, ControllerOptions, Kind, Moment, Scene, eventually};
use windlass_test_postgres::Server;

use crate::tenants::{TEAM_A, credentials, instance, ready};

const SCHEMA: &str = "nodes";

/// The controller on this node, with files of its own.
fn on_node(server: &Server, node: &str) -> ControllerOptions {
    let options = ControllerOptions { state: node.to_owned(), ..ControllerOptions::default() };
    options.variable("WINDLASS_STATE", &server.url(SCHEMA))
}

/// Has a team's server made until Scaleway has it, and the controller waits for the answer.
async fn in_a_creation(scene: &Scene<'_>, options: &ControllerOptions) -> Result<Controller> {
    let controller = scene.start(options).await?;
    scene.apply(&credentials("team", TEAM_A)).await?;
    scene.scaleway().hold("POST", "/instance/v1/zones/*/servers", 1, Moment::After)?;
    scene.apply(&instance("box", json!({"credentialsRef": {"name": "team"}}))).await?;
    scene.scaleway().held().await?;
    Ok(controller)
}

/// Waits until there is the one server, and nothing else.
async fn one_server(scene: &Scene<'_>) -> Result<()> {
    ready(scene, Kind::InstanceMachine, "box").await?;
    let resources = scene.scaleway().simulator().resources();
    let counts = (resources.servers.len(), resources.ips.len(), resources.volumes.len());
    ensure!(counts == (1, 1, 1), "one server, its address and its volume: {resources:#?}");
    Ok(())
}

async fn nothing_is_left(scene: &Scene<'_>) -> Result<()> {
    scene.delete(Kind::InstanceMachine, "box").await?;
    scene.gone(Kind::InstanceMachine, "box").await?;
    let resources = scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_leader_on_another_node_ends_what_a_killed_one_began() -> Result<()> {
    let Some(server) = Server::start() else { return Ok(()) };
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "nodes").await?;
    let led = |node: &str| ControllerOptions { lease: Some(scene.namespace().to_owned()), ..on_node(&server, node) };
    let mut first = in_a_creation(&scene, &led("first")).await?;
    let second = scene.start(&led("second")).await?;
    eventually("the second sees that another leads", || async {
        ensure!(second.log().contains("another process leads; waiting"), "{}", second.last_words());
        Ok(())
    })
    .await?;
    first.kill();
    scene.scaleway().calm();
    one_server(&scene).await?;
    // The team's journal is a part of the one database, without connections of its own.
    let family = format!("accounts/{}/team:operation", scene.namespace());
    let operations = server.execute(&format!("select count(*) from {SCHEMA}.streams where family = '{family}'"));
    ensure!(operations.parse::<u32>()? >= 2, "{operations} operations: the one that was undone, and the next one");
    let connections = server.execute("select count(*) from pg_stat_activity where application_name = 'windlass'");
    ensure!(connections.parse::<u32>()? <= 4, "{connections} connections");
    nothing_is_left(&scene).await?;
    ensure!(!scene.folder().join("second").join("journal.sqlite").exists());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_was_taken_for_dead_writes_nothing_more_and_ends() -> Result<()> {
    let Some(server) = Server::start() else { return Ok(()) };
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "hung-node").await?;
    // Without a Lease, which would end it, too.
    let mut first = in_a_creation(&scene, &on_node(&server, "first")).await?;
    first.freeze()?;
    scene.scaleway().calm();
    server.expire(SCHEMA);
    let second = scene.start(&on_node(&server, "second")).await?;
    one_server(&scene).await?;
    scene.looked_at_again(&second, Kind::InstanceMachine, "box").await?;
    let written = || server.execute(&format!("select count(*), max(number) from {SCHEMA}.entries"));
    let (calls, entries) = (scene.scaleway().changes(), written());

    first.thaw()?;
    first.wait()?;
    ensure!(first.log().contains("took this one for dead"), "{}", first.last_words());
    scene.looked_at_again(&second, Kind::InstanceMachine, "box").await?;
    ensure!(scene.scaleway().changes() == calls, "{:?}", scene.scaleway().changes());
    ensure!(written() == entries, "{} and before {entries}", written());
    ensure!(server.execute(&format!("select count(*) from {SCHEMA}.holders")) == "1");
    nothing_is_left(&scene).await?;
    scene.end().await
}
