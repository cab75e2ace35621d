//! What changes while work waits for its turn: nothing begins that is no longer wanted.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_simulator::{Effect, FaultKind};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

/// Takes the lock over hosts' names, as another program does that shares the state directory.
fn lock(scene: &Scene<'_>) -> Result<File> {
    let file = File::options().read(true).write(true).open(scene.folder().join("state/machines.lock"))?;
    file.lock()?;
    Ok(file)
}

/// Waits until the object has work of this kind that was begun, or waits for its turn.
async fn works(scene: &Scene<'_>, kind: Kind, name: &str, work: &str) -> Result<()> {
    eventually(&format!("{name}: {work}"), || async {
        let operation = scene.api(kind).get(name).await?.data["status"]["operation"].clone();
        ensure!(operation["kind"] == work && operation["state"] == "running", "{operation:#}");
        Ok(())
    })
    .await
}

async fn is_paused(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<()> {
    eventually(&format!("{name} says that it is paused, and that nothing is under way"), || async {
        let status = scene.api(kind).get(name).await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().any(|one| one["type"] == "Paused" && one["status"] == "True"), "{status:#}");
        ensure!(status["operation"]["state"] == "waiting", "{status:#}");
        Ok(())
    })
    .await
}

fn annotated(key: &str, value: impl Into<Value>) -> Value {
    json!({"metadata": {"annotations": {key: value.into()}}})
}

const PAUSED: &str = "cluster.x-k8s.io/paused";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn macs_paused_or_kept_while_they_wait_for_the_lock_are_not_wiped() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "queued-macs").await?;
    scene.scaleway().add_hosts(3, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let names = ["kept", "paused", "released"];
    for name in names {
        scene.apply(&MachineOptions::default().machine(name)).await?;
    }
    scene.ready_machines(3).await?;
    let lock = lock(&scene)?;
    let before: Vec<String> = scene.scaleway().hosts().into_iter().map(|host| host.name).collect();
    for name in names {
        scene.delete(Kind::AppleSiliconMachine, name).await?;
        works(&scene, Kind::AppleSiliconMachine, name, "release").await?;
    }
    scene.patch(Kind::AppleSiliconMachine, "kept", annotated("windlass.dev/release-policy", "keep")).await?;
    scene.patch(Kind::AppleSiliconMachine, "paused", annotated(PAUSED, "true")).await?;
    drop(lock);
    for name in ["kept", "released"] {
        scene.gone(Kind::AppleSiliconMachine, name).await?;
    }
    is_paused(&scene, Kind::AppleSiliconMachine, "paused").await?;
    scene.looked_at_later(&controller, Kind::AppleSiliconMachine, "paused").await?;
    let still: Vec<_> = scene.scaleway().hosts().into_iter().filter(|host| before.contains(&host.name)).collect();
    ensure!(still.len() == 2 && still.iter().all(|host| host.wiped_as.is_empty()), "{:#?}", scene.scaleway().hosts());

    scene.patch(Kind::AppleSiliconMachine, "paused", annotated(PAUSED, Value::Null)).await?;
    scene.gone(Kind::AppleSiliconMachine, "paused").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_ends_what_waits_for_a_permit_and_of_a_cluster_too() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "queued").await?;
    scene.scaleway().add_hosts(2, [])?;
    let controller = scene.start(&ControllerOptions::default().argument("--operations=1")).await?;
    scene.cluster("team").await?;
    // The lock's file is there once it was taken.
    scene.apply(&MachineOptions::default().machine("first")).await?;
    scene.ready_machines(1).await?;
    let lock = lock(&scene)?;
    scene.apply(&MachineOptions::default().machine("second")).await?;
    works(&scene, Kind::AppleSiliconMachine, "second", "adopt").await?;
    // The one permit is taken, and its work waits for the lock.
    let specification = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    for name in ["one", "two"] {
        let mut object = Kind::InstanceMachine.object(name);
        object["spec"] = specification.clone();
        scene.apply(&object).await?;
        works(&scene, Kind::InstanceMachine, name, "create").await?;
    }
    scene.instances("workers", "team", 1, specification).await?;
    let worker = eventually("the cluster's machine waits for its turn", || async {
        let all = scene.list(Kind::InstanceMachine).await?;
        let working = |object: &&DynamicObject| object.data["status"]["operation"]["state"] == "running";
        let name = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
        let names: Vec<_> = all.iter().filter(working).map(name).collect();
        names.iter().find(|name| name.starts_with("workers")).cloned().with_context(|| format!("{names:?}"))
    })
    .await?;
    scene.patch(Kind::InstanceMachine, "one", annotated(PAUSED, "true")).await?;
    scene.patch(Kind::Cluster, "team", json!({"spec": {"paused": true}})).await?;
    // Before it is its turn: whoever looks sees that nothing is under way.
    for name in ["one", worker.as_str()] {
        is_paused(&scene, Kind::InstanceMachine, name).await?;
    }
    drop(lock);
    scene.ready_machines(2).await?;
    eventually("what was not paused is ready", || async {
        let status = scene.api(Kind::InstanceMachine).get("two").await?.data["status"].clone();
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await?;
    for name in ["one", worker.as_str()] {
        scene.looked_at_later(&controller, Kind::InstanceMachine, name).await?;
    }
    ensure!(scene.scaleway().instances().len() == 1, "{:#?}", scene.scaleway().instances());
    scene.patch(Kind::Cluster, "team", json!({"spec": {"paused": false}})).await?;
    eventually("the cluster's machine has its server", || async {
        let status = scene.api(Kind::InstanceMachine).get(&worker).await?.data["status"].clone();
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_wait_for_a_host_write_nothing_until_there_is_one() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "idle").await?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    for number in 0..10 {
        scene.apply(&MachineOptions::default().machine(&format!("mac-{number}"))).await?;
    }
    eventually("all wait", || async {
        let machines = scene.machines().await?;
        let wait = |machine: &DynamicObject| machine.data["status"]["operation"]["reason"] == "NoHostAvailable";
        ensure!(machines.len() == 10 && machines.iter().all(wait), "not all wait");
        Ok(())
    })
    .await?;
    let versions = async || -> Result<Vec<Option<String>>> {
        Ok(scene.machines().await?.into_iter().map(|machine| machine.metadata.resource_version).collect())
    };
    // Once each has said why it waits, nothing is written however often it is looked.
    let mut unchanged = false;
    for _ in 0..5 {
        let before = versions().await?;
        let looks = controller.reconciles(Kind::AppleSiliconMachine).await?;
        eventually("it looks at each some times", || async {
            let now = controller.reconciles(Kind::AppleSiliconMachine).await?;
            ensure!(now >= looks + 50, "{now} after {looks}");
            Ok(())
        })
        .await?;
        unchanged = versions().await? == before;
        if unchanged {
            break;
        }
    }
    ensure!(unchanged, "something is written at every look");
    scene.scaleway().add_hosts(10, [])?;
    scene.ready_machines(10).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_instance_tries_for_all_that_fail_for_one_reason() -> Result<()> {
    const MACHINES: usize = 60;
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "common").await?;
    scene.scaleway().fail("POST", "/instance/v1/zones/*/servers", None, FaultKind::QuotaExceeded, Effect::Before)?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    for number in 0..MACHINES {
        let mut object = Kind::InstanceMachine.object(&format!("server-{number}"));
        object["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
        scene.apply(&object).await?;
    }
    let failed = |object: &DynamicObject| {
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Ready" && one["reason"] == "CreationFailed")
    };
    eventually("each says why it fails", || async {
        let machines = scene.list(Kind::InstanceMachine).await?;
        let count = machines.iter().filter(|machine| failed(machine)).count();
        ensure!(count == MACHINES, "{count}: {:#?}", machines.iter().find(|machine| !failed(machine)));
        Ok(())
    })
    .await?;
    let versions = async |kind: Kind| -> Result<BTreeMap<String, Option<String>>> {
        let named = |object: DynamicObject| (object.name_any(), object.metadata.resource_version);
        Ok(scene.list(kind).await?.into_iter().map(named).collect())
    };
    let changed = |before: &BTreeMap<_, _>, after: &BTreeMap<_, _>| {
        after.iter().filter(|(name, version)| before.get(*name) != Some(*version)).count()
    };
    // The last ones tell of their first failure a moment later, as an event.
    eventually("each has told it", || async {
        let events = scene.list(Kind::Event).await?;
        let count = events.iter().filter(|event| event.data["reason"] == "CreationFailed").count();
        ensure!(count == MACHINES, "{count}");
        Ok(())
    })
    .await?;
    let (machines, events) = (versions(Kind::InstanceMachine).await?, versions(Kind::Event).await?);
    scene.scaleway().simulator().clear_requests();
    let creations = || scene.scaleway().changes().into_iter().filter(|call| call.ends_with("/servers")).count();
    eventually("a try fails again", || async {
        ensure!(creations() >= 1, "{}", creations());
        Ok(())
    })
    .await?;
    let (later, later_events) = (versions(Kind::InstanceMachine).await?, versions(Kind::Event).await?);
    let (tries, writers) = (creations(), changed(&machines, &later));
    ensure!(tries <= 3 && writers <= tries + 1, "{tries} tries, and {writers} machines were written");
    ensure!(changed(&events, &later_events) == 0, "what was said already was said again");

    scene.scaleway().calm();
    eventually("more and more have their server", || async {
        let machines = scene.list(Kind::InstanceMachine).await?;
        let ready = machines.iter().filter(|machine| machine.data["status"]["ready"] == true).count();
        ensure!(ready >= 4, "{ready}");
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_queues_are_measured_and_what_goes_into_them_comes_out() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "queues").await?;
    scene.scaleway().add_hosts(1, [])?;
    let controller = scene.start(&ControllerOptions::default().argument("--concurrency=1")).await?;
    scene.apply(&MachineOptions::default().machine("first")).await?;
    scene.ready_machines(1).await?;
    let measured = async |metric: &str| -> Result<f64> {
        let metrics = controller.metrics().await?;
        let series = format!("{metric}{{name=\"applesiliconmachine\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&series));
        Ok(value.with_context(|| format!("no {series} in {metrics}"))?.parse()?)
    };
    // One reconcile at a time, and that one waits for a listing.
    let slow = FaultKind::Delay(Duration::from_secs(12));
    scene.scaleway().fail("GET", "/apple-silicon/**/servers", None, slow, Effect::Before)?;
    scene.scaleway().held_up().await?;
    for name in ["second", "third"] {
        scene.apply(&MachineOptions::default().machine(name)).await?;
    }
    eventually("two wait for their turn while the third has it", || async {
        let running = measured("workqueue_longest_running_processor_seconds").await?;
        let depth = measured("workqueue_depth").await?;
        ensure!(depth >= 2.0 && running > 0.0, "{depth} wait, {running} s");
        ensure!(measured("workqueue_unfinished_work_seconds").await? >= running);
        Ok(())
    })
    .await?;
    scene.scaleway().calm();
    eventually("each time that a machine waited it had its turn", || async {
        let adds = measured("workqueue_adds_total").await?;
        let turns = measured("workqueue_queue_duration_seconds_count").await?;
        let ended = measured("workqueue_work_duration_seconds_count").await?;
        let counted = controller.reconciles(Kind::AppleSiliconMachine).await? as f64;
        ensure!(measured("workqueue_depth").await? == 0.0, "some wait");
        ensure!(adds > 5.0 && adds == turns && turns == ended && ended == counted, "{adds} {turns} {ended} {counted}");
        Ok(())
    })
    .await?;
    ensure!(measured("workqueue_queue_duration_seconds_sum").await? > 1.0);
    ensure!(measured("workqueue_work_duration_seconds_sum").await? > 1.0);
    scene.end().await
}
