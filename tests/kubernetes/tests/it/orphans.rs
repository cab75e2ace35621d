//! Hosts with a claim of ours that no object explains.

use anyhow::{Context, Result, ensure};
use kube::Api;
use kube::api::ListParams;
use kube::core::DynamicObject;
use serde_json::json;
use tokio::sync::OnceCell;
use windlass_simulator::AppleSiliconPool;
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Programs, Scene, eventually};

/// A control plane of their own: who looks for orphans watches all namespaces, and would take the machines of other
/// tests for its own. Each test has its own owner.
pub(crate) async fn plane() -> Result<Option<&'static ControlPlane>> {
    static PLANE: OnceCell<Option<ControlPlane>> = OnceCell::const_new();
    let started = PLANE.get_or_try_init(|| async {
        match Programs::found() {
            Some(programs) => ControlPlane::start(programs, false).await.map(Some),
            None => Ok(None),
        }
    });
    Ok(started.await?.as_ref())
}

/// Looks for orphans every second, and does this with them.
pub(crate) fn look(scene: &Scene<'_>, options: &mut ControllerOptions, what: &str) {
    options.all_namespaces = true;
    options.arguments.extend([
        format!("--owner={}", scene.namespace()),
        format!("--pool-prefix={}", MachineOptions::POOL),
        format!("--orphans={what}"),
        "--orphans-interval=1s".to_owned(),
        "--orphans-grace=1s".to_owned(),
    ]);
}

/// Adds a host under a claim of the scene's owner, and gives its id.
pub(crate) fn strand(scene: &Scene<'_>) -> Result<String> {
    let pool = AppleSiliconPool::new(&format!("{}-", scene.namespace()), 1, MachineOptions::TYPE)?;
    scene.scaleway().simulator().add_apple_silicon_pool(&pool).pop().context("one was asked for")
}

/// The notes of the Lease's events that name this host, as `type reason: note`.
async fn events_about(scene: &Scene<'_>, host: &str) -> Result<Vec<String>> {
    let api: Api<DynamicObject> = Api::namespaced_with(scene.client().clone(), "kube-system", &Kind::Event.resource());
    let text = |event: &DynamicObject, key: &str| event.data[key].as_str().unwrap_or_default().to_owned();
    let events = api.list(&ListParams::default()).await?.items;
    Ok(events
        .iter()
        .filter(|event| event.data["regarding"]["kind"] == "Lease" && text(event, "note").contains(host))
        .map(|event| format!("{} {}: {}", text(event, "type"), text(event, "reason"), text(event, "note")))
        .collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_orphans_are_reported_and_left_alone() -> Result<()> {
    let Some(plane) = plane().await? else { return Ok(()) };
    let scene = Scene::new(plane, "told").await?;
    scene.scaleway().add_hosts(1, [])?;
    let orphan = strand(&scene)?;
    let mut options = ControllerOptions::default();
    look(&scene, &mut options, "report");
    // The default is what is tried.
    options.arguments.retain(|argument| argument != "--orphans=report");
    let controller = scene.start(&options).await?;
    eventually("an event of the Lease tells of it", || async {
        let events = events_about(&scene, &orphan).await?;
        ensure!(events.len() == 1 && events[0].starts_with("Warning OrphanedHost: "), "{events:?}");
        ensure!(events[0].contains("give it a name of its pool, or set --orphans=return"), "{events:?}");
        Ok(())
    })
    .await?;
    // Events are told in the middle of a look, the metric is written at its end.
    eventually("the metric counts it", || async {
        let metrics = controller.metrics().await?;
        ensure!(metrics.contains("windlass_orphaned_hosts{zone=\"fr-par-1\"} 1\n"), "{metrics}");
        Ok(())
    })
    .await?;
    // A look each second, with a listing at least: the grace of a second is over, more than once.
    let listings = || scene.scaleway().calls().iter().filter(|call| call.ends_with("/servers")).count();
    let before = listings();
    eventually("it looks some more times", || async {
        ensure!(listings() >= before + 6, "{} more listings", listings() - before);
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().changes().is_empty(), "{:?}", scene.scaleway().changes());

    // One that somebody deletes, or names anew, is none any more.
    scene.scaleway().simulator().rename_server(&orphan, "ci-pool-by-hand")?;
    eventually("the metric says so", || async {
        let metrics = controller.metrics().await?;
        ensure!(metrics.contains("windlass_orphaned_hosts{zone=\"fr-par-1\"} 0\n"), "{metrics}");
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_one_namespace_does_not_look_for_orphans_and_may_not_return_any() -> Result<()> {
    let Some(plane) = plane().await? else { return Ok(()) };
    let scene = Scene::new(plane, "narrow").await?;
    strand(&scene)?;
    let mut options = ControllerOptions::default();
    look(&scene, &mut options, "report");
    options.all_namespaces = false;
    options.arguments.retain(|argument| !argument.starts_with("--orphans-interval="));
    // The sweep is another look, at servers of every kind.
    options = options.argument("--orphans-interval=100ms").argument("--sweep=off");
    let controller = scene.start(&options).await?;
    eventually("it says so", || async {
        ensure!(controller.log().contains("the search for orphans is off"), "{}", controller.last_words());
        Ok(())
    })
    .await?;
    // It works, and on what needs no call.
    scene
        .apply(&json!({
            "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "ExternalCluster",
            "metadata": {"name": "busy"},
            "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
        }))
        .await?;
    scene.looked_at_again(&controller, Kind::ExternalCluster, "busy").await?;
    ensure!(scene.scaleway().calls().is_empty(), "{:?}", scene.scaleway().calls());

    let mut options = ControllerOptions { state: "refused".to_owned(), ..ControllerOptions::default() };
    look(&scene, &mut options, "return");
    options.all_namespaces = false;
    let mut refused = scene.start_unchecked(&options).await?;
    let status = eventually("it ends", || {
        let ended = refused.ended();
        async move { ended?.context("it runs") }
    })
    .await?;
    let words = refused.last_words();
    ensure!(status.code() == Some(2) && words.contains("--orphans") && words.contains("--namespace"), "{words}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_is_looked_at_when_its_last_machine_is_gone_too() -> Result<()> {
    let Some(plane) = plane().await? else { return Ok(()) };
    let scene = Scene::new(plane, "zones").await?;
    let pool = AppleSiliconPool::new(&format!("{}-", scene.namespace()), 1, MachineOptions::TYPE)?;
    let pool = pool.in_zone(&"fr-par-3".parse()?);
    let orphan = scene.scaleway().simulator().add_apple_silicon_pool(&pool).pop().context("one was asked for")?;
    let mut options = ControllerOptions::default();
    look(&scene, &mut options, "report");
    let controller = scene.start(&options).await?;
    let shows = |count: u32| {
        let (controller, line) = (&controller, format!("windlass_orphaned_hosts{{zone=\"fr-par-3\"}} {count}\n"));
        eventually("the metric of the zone", move || {
            let line = line.clone();
            async move {
                let metrics = controller.metrics().await?;
                ensure!(metrics.contains(&line), "no {line} in {metrics}");
                Ok(())
            }
        })
    };
    scene.apply(&MachineOptions::default().with("zone", json!("fr-par-3")).machine("only")).await?;
    shows(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "only").await?;
    scene.gone(Kind::AppleSiliconMachine, "only").await?;
    scene.scaleway().simulator().rename_server(&orphan, "ci-pool-by-hand")?;
    shows(0).await?;
    scene.end().await
}
