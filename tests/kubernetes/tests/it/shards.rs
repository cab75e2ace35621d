//! Replicas that divide the shards.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use ring::digest::{SHA256, digest};
use serde_json::json;
use windlass_test_kubernetes::{ControlPlane, Controller, ControllerOptions, Kind, Scene, eventually};
use windlass_test_postgres::Server;

use crate::tenants::{TEAM_A, credentials, instance, ready};

const SHARDS: u64 = 4;
const SCHEMA: &str = "shards";

fn replica(server: &Server, scene: &Scene<'_>, name: &str) -> ControllerOptions {
    let lease = Some(scene.namespace().to_owned());
    ControllerOptions { state: name.to_owned(), lease, all_namespaces: true, ..ControllerOptions::default() }
        .variable("WINDLASS_STATE", &server.url(SCHEMA))
        .argument(&format!("--shards={SHARDS}"))
        .argument(&format!("--identity={name}"))
}

/// A team with a key of its own in each shard, in their order.
async fn teams<'plane>(scene: &Scene<'plane>) -> Result<Vec<Scene<'plane>>> {
    let mut teams = BTreeMap::new();
    while (teams.len() as u64) < SHARDS {
        let team = scene.neighbour("team").await?;
        team.apply(&credentials("team", TEAM_A)).await?;
        let hash = digest(&SHA256, team.namespace().as_bytes());
        let first = u64::from_be_bytes(hash.as_ref()[..8].try_into()?);
        teams.insert(first % SHARDS, team);
    }
    Ok(teams.into_values().collect())
}

/// Has each team make a server of this name.
async fn make(teams: &[Scene<'_>], name: &str) -> Result<()> {
    for team in teams {
        team.apply(&instance(name, json!({"credentialsRef": {"name": "team"}}))).await?;
    }
    for team in teams {
        ready(team, Kind::InstanceMachine, name).await?;
    }
    Ok(())
}

async fn remove(teams: &[Scene<'_>], name: &str) -> Result<()> {
    for team in teams {
        team.delete(Kind::InstanceMachine, name).await?;
    }
    for team in teams {
        team.gone(Kind::InstanceMachine, name).await?;
    }
    Ok(())
}

/// The shards that a replica works on, once there are so many.
async fn works_on(replica: &Controller, count: usize) -> Result<BTreeSet<u64>> {
    eventually(&format!("it works on {count} shards"), || async {
        let metrics = replica.metrics().await?;
        let is_held = |shard: &u64| metrics.contains(&format!("windlass_leader{{shard=\"{shard}\"}} 1\n"));
        let shards: BTreeSet<u64> = (0..SHARDS).filter(is_held).collect();
        ensure!(shards.len() == count, "{shards:?}: {}", replica.last_words());
        Ok(shards)
    })
    .await
}

/// How many creations there are of all teams.
fn creations(server: &Server) -> Result<usize> {
    let counted = server.execute(&format!(
        "select count(*) from {SCHEMA}.streams \
         where family like 'accounts/%:operation' and document->>'kind' = 'create-server'"
    ));
    Ok(counted.parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_divide_the_shards_and_one_takes_over_those_of_another_that_is_killed() -> Result<()> {
    let Some(server) = Server::start() else { return Ok(()) };
    ControlPlane::lend(async |plane| {
        let scene = Scene::new(plane, "shards").await?;
        let teams = teams(&scene).await?;
        let mut first = scene.start(&replica(&server, &scene, "first")).await?;
        works_on(&first, 4).await?;
        let second = scene.start(&replica(&server, &scene, "second")).await?;
        let of_second = works_on(&second, 2).await?;
        let of_first = works_on(&first, 2).await?;
        ensure!(of_first.is_disjoint(&of_second), "{of_first:?} {of_second:?}");
        make(&teams, "before").await?;
        eventually("each replica publishes its policies once", || async {
            let published = server.execute(&format!("select count(*) from {SCHEMA}.streams where family like '%host'"));
            ensure!(published == "2", "{published}");
            Ok(())
        })
        .await?;
        for (name, replica) in [("first", &first), ("second", &second)] {
            ensure!(replica.reconciles(Kind::InstanceMachine).await? > 0, "the {name} did nothing");
        }
        ensure!(creations(&server)? == teams.len(), "some object was worked on by two: {}", creations(&server)?);

        first.kill();
        make(&teams, "after").await?;
        works_on(&second, 4).await?;
        ensure!(creations(&server)? == 2 * teams.len(), "{}", creations(&server)?);
        ensure!(scene.scaleway().instances().len() == 2 * teams.len());

        // A new one gets its share again, and a replica that gives up a shard does nothing more in it.
        let mut third = scene.start(&replica(&server, &scene, "third")).await?;
        let of_third = works_on(&third, 2).await?;
        ensure!(works_on(&second, 2).await?.is_disjoint(&of_third));
        remove(&teams, "before").await?;
        ensure!(third.stop()?.success(), "{}", third.last_words());
        remove(&teams, "after").await?;
        works_on(&second, 4).await?;
        let resources = scene.scaleway().simulator().resources();
        ensure!(resources.is_empty(), "{resources:#?}");
        scene.end().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_fails_stops_no_other_and_is_taken_up_again() -> Result<()> {
    let Some(server) = Server::start() else { return Ok(()) };
    ControlPlane::lend(async |plane| {
        let scene = Scene::new(plane, "failing").await?;
        let teams = teams(&scene).await?;
        let options = replica(&server, &scene, "only").variable("WINDLASS_TEST_PANIC", "reconcile:boom");
        let mut controller = scene.start(&options).await?;
        works_on(&controller, 4).await?;
        let failing = teams.get(1).context("a team in the second shard")?;
        let is_failed = || controller.log().contains("the work on a shard ended; the other shards go on");
        ensure!(!is_failed(), "{}", controller.last_words());
        failing.apply(&instance("boom", json!({"credentialsRef": {"name": "team"}}))).await?;
        eventually("the shard of what panics ends", || async {
            ensure!(is_failed(), "{}", controller.last_words());
            Ok(())
        })
        .await?;
        let others: Vec<&Scene<'_>> = teams.iter().filter(|team| team.namespace() != failing.namespace()).collect();
        for team in &others {
            team.apply(&instance("box", json!({"credentialsRef": {"name": "team"}}))).await?;
            ready(team, Kind::InstanceMachine, "box").await?;
        }
        let held = works_on(&controller, 3).await?;
        ensure!(!held.contains(&1), "{held:?}");

        failing.delete(Kind::InstanceMachine, "boom").await?;
        works_on(&controller, 4).await?;
        failing.apply(&instance("box", json!({"credentialsRef": {"name": "team"}}))).await?;
        ready(failing, Kind::InstanceMachine, "box").await?;
        ensure!(controller.ended()?.is_none(), "the process ended");
        remove(&teams, "box").await?;
        scene.end().await
    })
    .await
}
