//! Ordering: a host costs a day at least, so it takes the object's request, the operator's leave and an empty pool; and
//! one for each machine, whatever is lost on the way.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use kube::ResourceExt;
use serde_json::json;
use windlass_simulator::{Durations, Effect, FaultKind, ForcedState, Options};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

const SERVERS: &str = "/apple-silicon/v1alpha1/zones/*/servers";

/// A machine that may have a host ordered while there are fewer than so many.
fn may_order(limit: u32) -> MachineOptions {
    MachineOptions::default().with("order", json!({"allowed": true, "limit": limit}))
}

fn allowing() -> ControllerOptions {
    ControllerOptions::default().argument("--allow-orders")
}

/// How often a host was asked for.
fn orders(scene: &Scene<'_>) -> usize {
    scene.scaleway().changes().iter().filter(|call| call.ends_with("/servers")).count()
}

/// Waits until the machine is not ready for this reason, and says this.
async fn waits(scene: &Scene<'_>, name: &str, reason: &str, words: &[&str]) -> Result<()> {
    eventually(&format!("{name} waits: {reason}"), || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get(name).await?;
        let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready").cloned().unwrap_or_default();
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(ready["reason"] == reason && words.iter().all(|word| message.contains(word)), "{ready:#}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_pool_has_one_host_ordered_which_is_handed_over_when_it_is_delivered_and_stays_when_it_is_released()
-> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    // The host is delivered when the test says so: a busy machine would miss what the object says until then.
    let apple_silicon_create = Duration::from_secs(30 * 24 * 60 * 60).into();
    let durations = Durations { apple_silicon_create, ..Durations::default() };
    let scene = Scene::with(plane, "order", Options { durations, ..Scene::options() }).await?;
    let _controller = scene.start(&allowing()).await?;
    scene.apply(&may_order(1).machine("first")).await?;
    waits(&scene, "first", "WaitingForDelivery", &["was ordered"]).await?;
    let ordered = scene.scaleway().hosts();
    let first = scene.api(Kind::AppleSiliconMachine).get("first").await?;
    ensure!(
        ordered.len() == 1 && Some(&ordered[0].name) == first.annotations().get("windlass.dev/claim"),
        "{ordered:?}"
    );
    ensure!(first.data["status"]["credentialsSecretName"].is_null(), "handed over before it is there: {first:?}");
    scene.scaleway().simulator().set_server_state(&ordered[0].id, ForcedState::Ready)?;
    scene.ready_machines(1).await?;
    let secret = scene.api(Kind::Secret).get("first-credentials").await?;
    ensure!(secret.data["data"]["sudo-password"].as_str().is_some_and(|password| !password.is_empty()), "no password");

    // As many as may be.
    scene.apply(&may_order(1).machine("second")).await?;
    waits(&scene, "second", "NoHostAvailable", &["0 in the pool", "no more than 1 may be ordered"]).await?;
    ensure!(orders(&scene) == 1, "{:?}", scene.scaleway().changes());

    // What was ordered is not destroyed when it is released: it is in the pool then, and the next one takes it.
    scene.delete(Kind::AppleSiliconMachine, "first").await?;
    scene.gone(Kind::AppleSiliconMachine, "first").await?;
    scene.ready_machines(1).await?;
    let hosts = scene.scaleway().hosts();
    ensure!(hosts.len() == 1 && hosts[0].id == ordered[0].id && hosts[0].wiped_as.len() == 1, "{hosts:#?}");
    ensure!(orders(&scene) == 1 && scene.scaleway().gone_hosts().is_empty());
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_has_ordered_hosts_deleted_with_their_machines_and_those_of_the_pool_return() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "order-deleted").await?;
    let pooled = scene.scaleway().add_hosts(1, [])?.remove(0);
    let _controller = scene.start(&allowing().argument("--ordered-hosts=delete")).await?;
    scene.apply(&may_order(9).machine("adopted")).await?;
    scene.ready_machines(1).await?;
    for name in ["ordered", "kept", "misspelt"] {
        scene.apply(&may_order(9).machine(name)).await?;
    }
    scene.ready_machines(4).await?;
    for (name, request) in [("kept", "keep"), ("misspelt", "kepe")] {
        let annotation = json!({"metadata": {"annotations": {"windlass.dev/release-policy": request}}});
        scene.patch(Kind::AppleSiliconMachine, name, annotation).await?;
    }
    let mut hosts = Vec::new();
    for name in ["adopted", "ordered", "kept", "misspelt"] {
        let machine = scene.api(Kind::AppleSiliconMachine).get(name).await?;
        hosts.push(machine.data["status"]["serverID"].as_str().unwrap_or_default().to_owned());
        scene.delete(Kind::AppleSiliconMachine, name).await?;
        scene.gone(Kind::AppleSiliconMachine, name).await?;
    }
    let [adopted, ordered, kept, misspelt] = &hosts[..] else { bail!("{hosts:?}") };
    let host = |id: &str| scene.scaleway().host(id);
    ensure!(*adopted == pooled && host(adopted)?.in_pool() && host(misspelt)?.in_pool(), "{hosts:?}");
    ensure!(!host(kept)?.in_pool() && !host(kept)?.deletion_scheduled, "{:?}", host(kept)?);
    // It was ordered just now, and Scaleway deletes none for a day.
    ensure!(host(ordered)?.deletion_scheduled && host(ordered)?.wiped_as.is_empty(), "{:?}", host(ordered)?);
    ensure!(!host(adopted)?.deletion_scheduled && !host(misspelt)?.deletion_scheduled);
    scene.check_hosts(&[ordered.clone(), kept.clone()]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_operators_leave_or_the_objects_request_nothing_is_ordered_and_the_machine_says_why() -> Result<()>
{
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "leave").await?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&may_order(3).machine("mac")).await?;
    waits(&scene, "mac", "NoHostAvailable", &["0 in the pool", "--allow-orders"]).await?;
    controller.stop()?;

    let _controller = scene.start(&allowing()).await?;
    scene.apply(&MachineOptions::default().machine("modest")).await?;
    scene
        .apply(&MachineOptions::default().with("order", json!({"allowed": false, "limit": 3})).machine("refusing"))
        .await?;
    for name in ["modest", "refusing"] {
        waits(&scene, name, "NoHostAvailable", &["0 in the pool"]).await?;
    }
    // The one that requests it has it now, and it alone.
    eventually("it is ready", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await?;
    ensure!(orders(&scene) == 1 && scene.scaleway().hosts().len() == 1, "{:?}", scene.scaleway().changes());
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_of_stock_is_reported_and_ordered_again_when_there_is_one() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "stock-out").await?;
    scene.scaleway().simulator().set_apple_silicon_stock(MachineOptions::TYPE, Some(0));
    let _controller = scene.start(&allowing()).await?;
    scene.apply(&may_order(1).machine("mac")).await?;
    waits(&scene, "mac", "OrderFailed", &["out of stock"]).await?;
    eventually("a Warning tells of it", || async {
        let events = scene.events("mac").await?;
        ensure!(events.iter().any(|event| event.starts_with("Warning OrderFailed: ")), "{events:?}");
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().hosts().is_empty());

    scene.scaleway().simulator().set_apple_silicon_stock(MachineOptions::TYPE, Some(1));
    scene.ready_machines(1).await?;
    ensure!(scene.scaleway().hosts().len() == 1, "{:#?}", scene.scaleway().hosts());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_answer_was_lost_is_found_by_its_claim_and_no_second_host_comes() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    for (name, kind) in [("dropped", FaultKind::DroppedConnection), ("gateway", FaultKind::GatewayTimeout)] {
        let scene = Scene::new(plane, &format!("order-{name}")).await?;
        scene.scaleway().fail("POST", SERVERS, Some(1), kind, Effect::After)?;
        let controller = scene.start(&allowing()).await?;
        // Two could be had: only the look-up keeps it at one.
        scene.apply(&may_order(2).machine("mac")).await?;
        scene.ready_machines(1).await?;
        scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
        let hosts = scene.scaleway().hosts();
        ensure!(hosts.len() == 1 && orders(&scene) == 1, "{name}: {hosts:#?}");
        scene.check_hosts(&[]).await?;
        scene.end().await?;
    }
    Ok(())
}
