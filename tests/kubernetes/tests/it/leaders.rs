//! Two controllers at once.

use anyhow::{Result, ensure};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Moment, Scene, eventually};

/// One of two, each with a volume of its own: the worst case, since nothing but the Lease is between them.
fn one_of_two(scene: &Scene<'_>, state: &str) -> ControllerOptions {
    ControllerOptions {
        state: state.to_owned(),
        lease: Some(scene.namespace().to_owned()),
        ..ControllerOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_controllers_one_works_and_the_other_takes_over_when_it_is_killed() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "leaders").await?;
    scene.scaleway().add_hosts(3, [])?;
    let mut first = scene.start(&one_of_two(&scene, "first")).await?;
    scene.apply(&MachineOptions::default().machine("mac-0")).await?;
    scene.ready_machines(1).await?;
    let second = scene.start(&one_of_two(&scene, "second")).await?;
    eventually("the second sees that another leads", || async {
        ensure!(second.log().contains("another process leads; waiting"), "{}", second.last_words());
        Ok(())
    })
    .await?;
    scene.apply(&MachineOptions::default().machine("mac-1")).await?;
    scene.ready_machines(2).await?;
    scene.looked_at_again(&first, Kind::AppleSiliconMachine, "mac-1").await?;
    let looks = second.reconciles(Kind::AppleSiliconMachine).await?;
    ensure!(!second.leads().await? && looks == 0, "both work: the second looked {looks} times");

    first.kill();
    scene.apply(&MachineOptions::default().machine("mac-2")).await?;
    scene.ready_machines(3).await?;
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hangs_in_the_middle_of_a_release_loses_the_lease_and_does_no_harm_when_it_wakes() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    for (step, method, path) in
        [("mark", "PATCH", "/apple-silicon/**"), ("wipe", "POST", "/apple-silicon/**/reinstall")]
    {
        let scene = Scene::new(plane, &format!("hang-{step}")).await?;
        scene.scaleway().add_hosts(1, [])?;
        let mut first = scene.start(&one_of_two(&scene, "first")).await?;
        scene.apply(&MachineOptions::default().machine("mac")).await?;
        scene.ready_machines(1).await?;
        scene.scaleway().hold(method, path, 1, Moment::After)?;
        scene.delete(Kind::AppleSiliconMachine, "mac").await?;
        scene.scaleway().held().await?;
        first.freeze()?;
        scene.scaleway().calm();

        let second = scene.start(&one_of_two(&scene, "second")).await?;
        scene.gone(Kind::AppleSiliconMachine, "mac").await?;
        scene.all_in_pool(1).await?;
        // The host is somebody else's now, which is what a leader that believes to be one would break.
        scene.apply(&MachineOptions::default().machine("heir")).await?;
        scene.ready_machines(1).await?;
        let wiped = scene.scaleway().hosts()[0].wiped_as.len();

        first.thaw()?;
        first.wait()?;
        scene.looked_at_again(&second, Kind::AppleSiliconMachine, "heir").await?;
        scene.check_hosts(&[]).await?;
        let host = scene.scaleway().hosts().remove(0);
        ensure!(host.wiped_as.len() == wiped && !host.in_pool(), "the heir's host was touched: {host:?}");
        scene.end().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_is_asked_to_end_hands_over_at_once() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "handover").await?;
    scene.scaleway().add_hosts(2, [])?;
    // A lease that is far from running out when the first ends. One that waits looks each sixth of it.
    let named =
        |name: &str| one_of_two(&scene, name).argument("--lease-duration=2m").argument(&format!("--identity={name}"));
    let mut first = scene.start(&named("first")).await?;
    eventually("the first works", || async {
        ensure!(first.leads().await?, "it does not lead");
        Ok(())
    })
    .await?;
    ensure!(scene.lease_holder().await?.as_deref() == Some("first"));
    scene.apply(&MachineOptions::default().machine("before")).await?;
    scene.ready_machines(1).await?;
    let second = scene.start(&named("second")).await?;
    let status = first.stop()?;
    ensure!(status.success(), "it ended with {status}: {}", first.last_words());
    // Whether the second has it already or not: it was given back.
    let holder = scene.lease_holder().await?;
    ensure!(holder.as_deref() != Some("first"), "the first keeps the Lease: {}", first.last_words());
    eventually("the second works", || async {
        ensure!(second.leads().await?, "it does not lead");
        Ok(())
    })
    .await?;
    eventually("it counts what it finds", || async {
        let metrics = second.metrics().await?;
        let line = "windlass_objects{kind=\"AppleSiliconMachine\",state=\"Provisioned\"} 1\n";
        ensure!(metrics.contains(line), "{metrics}");
        Ok(())
    })
    .await?;
    scene.apply(&MachineOptions::default().machine("after")).await?;
    scene.ready_machines(2).await?;
    scene.end().await
}
