//! The incident that this controller exists for: hosts that Scaleway refuses to delete for a day, under a rollout.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use windlass_simulator::{AppleSilicon, Effect, FaultKind, FloorRefusal, Options};
use windlass_test_guests::HOSTILE;
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Nodes, Scene, eventually};

const HOUR: Duration = Duration::from_secs(3600);
const FLOOR: Duration = Duration::from_secs(24 * 3600);

/// Gives the deployment another template, which makes Cluster API replace every machine.
async fn roll(scene: &Scene<'_>, name: &str, options: &MachineOptions) -> Result<Vec<String>> {
    let old = scene.machines().await?.iter().map(ResourceExt::name_any).collect();
    scene.apply(&options.template(&format!("{name}-next"))).await?;
    let patch = json!({"spec": {"template": {"spec": {"infrastructureRef": {
        "apiGroup": "infrastructure.windlass.dev", "kind": "AppleSiliconMachineTemplate",
        "name": format!("{name}-next"),
    }}}}});
    scene.patch(Kind::MachineDeployment, name, patch).await?;
    Ok(old)
}

/// Waits until no machine of before is there, and as many of the new ones are ready.
async fn rolled(scene: &Scene<'_>, old: &[String]) -> Result<()> {
    eventually("every machine of before is replaced", || async {
        let machines = scene.machines().await?;
        let left: Vec<_> = machines.iter().map(ResourceExt::name_any).filter(|name| old.contains(name)).collect();
        ensure!(left.is_empty(), "still there: {left:?}");
        Ok(())
    })
    .await?;
    scene.ready_machines(old.len()).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_roll_of_three_machines_inside_the_billing_floor_converges() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "roll").await?;
    // Three hosts for three machines, ordered just now: none can be deleted for a day, and there is no other.
    scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 3, &MachineOptions::default()).await?;
    scene.ready_machines(3).await?;

    let old = roll(&scene, "workers", &MachineOptions::default().annotated("generation", "2")).await?;
    ensure!(old.len() == 3);
    rolled(&scene, &old).await?;
    scene.check_hosts(&[]).await?;
    ensure!(scene.scaleway().simulator().now() < FLOOR, "the claim is about what happens inside the floor");
    let hosts = scene.scaleway().hosts();
    ensure!(
        hosts.len() == 3 && hosts.iter().all(|host| !host.deletion_scheduled && host.wiped_as.len() == 1),
        "{hosts:#?}"
    );
    println!("converged after {:?} of simulated time", scene.scaleway().simulator().now());
    scene.end().await
}

/// A chart of a fleet: a deployment of two machines, and one without Cluster API above it, whose condition `Ready` Helm
/// waits for. Each `generation` has other machines, of a `type`.
fn fleet_chart(scene: &Scene<'_>) -> Result<String> {
    let mut template = MachineOptions::default().template("workers-GENERATION");
    template["spec"]["template"]["metadata"]["annotations"] = json!({"generation": "GENERATION"});
    let mut deployment = Kind::MachineDeployment.object("workers");
    deployment["spec"] = json!({
        "clusterName": "macs", "replicas": 2,
        "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        "template": {"spec": {
            "clusterName": "macs", "bootstrap": {"dataSecretName": "bootstrap"},
            "infrastructureRef": {
                "apiGroup": "infrastructure.windlass.dev", "kind": "AppleSiliconMachineTemplate",
                "name": "workers-GENERATION",
            },
        }},
    });
    let alone = MachineOptions::default().machine("alone-GENERATION");
    let manifests = [template, deployment, alone].map(|object| format!("---\n{object}\n")).concat();
    let chart = scene.folder().join("fleet");
    std::fs::create_dir_all(chart.join("templates"))?;
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: fleet\nversion: 0.1.0\n")?;
    let manifests =
        manifests.replace("GENERATION", "{{ .Values.generation }}").replace(MachineOptions::TYPE, "{{ .Values.type }}");
    std::fs::write(chart.join("templates/fleet.yaml"), manifests)?;
    std::fs::write(chart.join("values.yaml"), format!("type: {}\n", MachineOptions::TYPE))?;
    Ok(chart.display().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_atomic_helm_upgrade_that_rolls_a_full_pool_inside_the_floor_succeeds() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "helm-roll").await?;
    // Not one to spare: what a new machine gets was another's a moment ago.
    scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    let chart = fleet_chart(&scene)?;
    let helm = |verb: &str, generation: u32| {
        let set = format!("generation=g{generation}");
        let wait = ["--wait=watcher", "--rollback-on-failure", "--timeout=10m", "--set", &set];
        plane.helm(&[&[verb, "fleet", &chart, "--namespace", scene.namespace()], &wait[..]].concat())
    };
    helm("install", 1)?;
    scene.ready_machines(3).await?;
    let old: Vec<_> = scene.machines().await?.iter().map(ResourceExt::name_any).collect();
    helm("upgrade", 2)?;
    rolled(&scene, &old).await?;
    ensure!(scene.scaleway().simulator().now() < FLOOR, "the claim is about what happens inside the floor");
    let status = plane.helm(&["status", "fleet", "--namespace", scene.namespace(), "--output", "json"])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    ensure!(status["version"] == 2 && status["info"]["status"] == "deployed", "{status:#}");
    let hosts = scene.scaleway().hosts();
    let wiped_once = |host: &windlass_test_kubernetes::Host| !host.deletion_scheduled && host.wiped_as.len() == 1;
    ensure!(hosts.len() == 3 && hosts.iter().all(wiped_once), "{hosts:#?}");
    scene.check_hosts(&[]).await?;
    plane.helm(&["uninstall", "fleet", "--namespace", scene.namespace()])?;
    scene.all_in_pool(3).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helm_upgrade_whose_roll_fails_is_rolled_back_and_no_host_is_lost() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "helm-back").await?;
    scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    let chart = fleet_chart(&scene)?;
    let helm = |verb: &str, further: &[&str]| {
        let wait = ["--wait=watcher", "--rollback-on-failure"];
        plane.helm(&[&[verb, "fleet", &chart, "--namespace", scene.namespace()], &wait[..], further].concat())
    };
    helm("install", &["--timeout=10m", "--set=generation=g1"])?;
    scene.ready_machines(3).await?;
    // The pool has no host of this type, so the new machines wait until Helm gives up.
    let failed = helm("upgrade", &["--timeout=60s", "--set=generation=g2,type=M4-M"]);
    ensure!(failed.is_err(), "{failed:?}");
    let machines = scene.ready_machines(3).await?;
    let is_before = |machine: &kube::core::DynamicObject| machine.data["spec"]["type"] == MachineOptions::TYPE;
    ensure!(machines.iter().all(is_before) && machines.iter().any(|it| it.name_any() == "alone-g1"), "{machines:#?}");
    let hosts = scene.scaleway().hosts();
    ensure!(hosts.len() == 3 && hosts.iter().all(|host| !host.deletion_scheduled), "{hosts:#?}");
    scene.check_hosts(&[]).await?;
    plane.helm(&["uninstall", "fleet", "--namespace", scene.namespace()])?;
    scene.all_in_pool(3).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_terminate_the_floor_leads_to_scheduled_deletions_and_the_machines_go_at_once() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "terminate").await?;
    let hosts = scene.scaleway().add_hosts(3, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 3, &MachineOptions::requesting("terminate")).await?;
    scene.ready_machines(3).await?;

    scene.scale("workers", 0).await?;
    scene.ready_machines(0).await?;
    ensure!(scene.scaleway().simulator().now() < FLOOR, "the machines went inside the floor");
    let there = scene.scaleway().hosts();
    ensure!(
        there.len() == 3 && there.iter().all(|host| host.deletion_scheduled && host.wiped_as.is_empty()),
        "{there:#?}"
    );
    // Scaleway does it when the day has come, without anybody's help.
    scene.scaleway().advance(25 * HOUR);
    let gone = scene.scaleway().gone_hosts();
    ensure!(gone.len() == 3 && gone.iter().all(|host| host.deleted_by.as_deref() == Some("schedule")), "{gone:#?}");
    scene.check_hosts(&hosts).await?;
    scene.end().await
}

/// A Scaleway that words its refusal so.
fn refusing(refusal: FloorRefusal) -> Options {
    Options {
        time_scale: 60.0,
        apple_silicon: AppleSilicon { floor_refusal: refusal, ..AppleSilicon::default() },
        ..Options::default()
    }
}

/// The policy orders a deletion, since the controller's clock is months ahead of the simulated one, which begins on 1
/// August 2026: by it every floor is over. Only the refusal tells that it is not.
async fn refused(name: &str, refusal: FloorRefusal) -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::with(plane, name, refusing(refusal)).await?;
    let hosts = scene.scaleway().add_hosts(1, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::requesting("terminate").machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    let refused = scene.scaleway().simulator().requests();
    let refused = refused.iter().filter(|request| request.method == "DELETE").map(|request| request.status);
    ensure!(refused.clone().eq([Some(412)]), "the refusal was not met once: {:?}", refused.collect::<Vec<_>>());
    ensure!(scene.scaleway().host(&hosts[0])?.deletion_scheduled, "{:#?}", scene.scaleway().hosts());

    scene.scaleway().advance(25 * HOUR);
    let gone = scene.scaleway().gone_hosts();
    ensure!(gone.len() == 1 && gone[0].deleted_by.as_deref() == Some("schedule"), "{gone:#?}");
    scene.check_hosts(&hosts).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_412_with_its_type_and_words_leads_to_a_scheduled_deletion() -> Result<()> {
    refused("floor-words", FloorRefusal::InWords).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_412_with_its_type_and_no_details_leads_to_a_scheduled_deletion() -> Result<()> {
    refused("floor-untold", FloorRefusal::WithoutDetails).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_412_that_only_its_status_shows_leads_to_a_scheduled_deletion() -> Result<()> {
    refused("floor-bare", FloorRefusal::StatusAlone).await
}

/// What the incident was: a policy that knows only "delete", and a floor. Nothing else would show that the fallback of
/// the default policy is what makes the roll converge.
async fn wedges(name: &str, refusal: FloorRefusal) -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::with(plane, name, refusing(refusal)).await?;
    scene.scaleway().add_hosts(1, [])?;
    HOSTILE.write_to(scene.folder())?;
    let stubborn =
        json!({"policies": {"release": {"path": "hostile.wasm", "settings": {"behaviour": "delete-foreign"}}}});
    let mut controller = scene.start(&ControllerOptions::configured(stubborn)).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;

    eventually("the refusal was met, and met again", || async {
        let tries = scene.scaleway().changes().iter().filter(|call| call.starts_with("DELETE")).count();
        ensure!(tries >= 2, "{tries} tries");
        Ok(())
    })
    .await?;
    eventually("a Warning reports it", || async {
        let events = scene.events("mac").await?;
        ensure!(
            events.iter().any(|event| event.starts_with("Warning ReleaseWaiting: ") && event.contains("precondition")),
            "{events:?}"
        );
        Ok(())
    })
    .await?;
    let machine = scene.machines().await?.remove(0);
    ensure!(!machine.finalizers().is_empty(), "it went without its host: {machine:?}");
    scene.check_hosts(&[]).await?;
    // No endless loop against Scaleway: the tries are few, however long it takes.
    let tries = scene.scaleway().changes().len();
    ensure!(tries < 40, "{tries} changing calls");

    // The policy that ships cures it, without a word to Kubernetes.
    controller.stop()?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fallback_a_machine_wedges_at_a_412_in_words_until_the_policy_is_replaced() -> Result<()> {
    wedges("wedge-words", FloorRefusal::InWords).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fallback_a_machine_wedges_at_a_412_without_details_until_the_policy_is_replaced() -> Result<()> {
    wedges("wedge-untold", FloorRefusal::WithoutDetails).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fallback_a_machine_wedges_at_a_412_of_its_status_alone_until_the_policy_is_replaced() -> Result<()>
{
    wedges("wedge-bare", FloorRefusal::StatusAlone).await
}

/// The other kind of waiting: nobody is to be called for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_busy_is_waited_for_without_a_warning() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "busy").await?;
    scene.scaleway().add_hosts(1, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.scaleway().fail("POST", "/apple-silicon/**", None, FaultKind::TransientState, Effect::Before)?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    eventually("it says that it waits", || async {
        let events = scene.events("mac").await?;
        ensure!(events.iter().any(|event| event.starts_with("Normal ReleaseWaiting: ")), "{events:?}");
        ensure!(!events.iter().any(|event| event.starts_with("Warning ReleaseWaiting: ")), "{events:?}");
        Ok(())
    })
    .await?;
    scene.scaleway().calm();
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}
