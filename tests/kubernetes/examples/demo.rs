//! The story in readable steps: a real API server, Cluster API's core, a simulated Scaleway and the controller, all on
//! this machine; a deployment of Macs is scaled up, rolled and scaled down, and what happens to the hosts is shown.
//! `just demo-kubernetes` builds what it needs and runs it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use windlass_simulator::Options;
use windlass_test_kubernetes::{
    ControlPlane, ControllerOptions, Kind, MachineOptions, Nodes, Programs, Scene, eventually,
};

/// Simulated seconds in a second: the reinstall of a Mac, 5 to 20 minutes, is over in 3 to 10 seconds.
const TIME_SCALE: f64 = 120.0;

#[tokio::main]
async fn main() -> Result<()> {
    let programs = Programs::found().context("`just demo-kubernetes` builds what is missing")?;
    let began = Instant::now();
    step(began, "starting etcd, kube-apiserver, its garbage collector and Cluster API's core");
    let plane = ControlPlane::start(programs, true).await?;
    let scene = Scene::with(&plane, "demo", Options { time_scale: TIME_SCALE, ..Options::default() }).await?;
    let hosts = scene.scaleway().add_hosts(4, [])?;
    say(&format!("Kubernetes at {}, Scaleway (simulated) at {}", plane.url(), scene.scaleway().url()));
    show(&scene, "four Mac minis were ordered just now: for a day, Scaleway will not delete them");

    step(began, "starting windlass-controller, with no rights but those of its manifests");
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 0, &MachineOptions::default()).await?;

    step(began, "kubectl scale machinedeployment workers --replicas=3");
    scene.scale("workers", 3).await?;
    scene.ready_machines(3).await?;
    available(&scene, 3).await?;
    show(&scene, "three hosts carry the names of their machines, one is still in the pool; nothing was ordered");

    step(began, "the controller is killed with SIGKILL in the middle of a release, and started again");
    scene.scaleway().hold("POST", "/apple-silicon/**/reinstall", 1, windlass_test_kubernetes::Moment::After)?;
    scene.scale("workers", 2).await?;
    scene.scaleway().held().await?;
    controller.kill();
    scene.scaleway().calm();
    show(&scene, "one host is between its machine and the pool; nobody works on it");
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.ready_machines(2).await?;
    show(&scene, "the next controller finished what was begun: the machine is gone, its host is being wiped");

    step(began, "a new template: Cluster API replaces every machine, inside the billing floor");
    let old: Vec<String> = scene.machines().await?.into_iter().filter_map(|machine| machine.metadata.name).collect();
    scene.apply(&MachineOptions::default().template("workers-next")).await?;
    let reference = json!({"apiGroup": "infrastructure.windlass.dev", "kind": "AppleSiliconMachineTemplate",
        "name": "workers-next"});
    let patch = json!({"spec": {"template": {"spec": {"infrastructureRef": reference}}}});
    scene.patch(Kind::MachineDeployment, "workers", patch).await?;
    eventually("every machine is replaced", || async {
        let machines = scene.machines().await?;
        let left =
            machines.iter().filter(|machine| machine.metadata.name.as_ref().is_some_and(|name| old.contains(name)));
        ensure!(left.count() == 0 && machines.len() == 2, "not yet");
        Ok(())
    })
    .await?;
    scene.ready_machines(2).await?;
    show(&scene, "rolled: a controller that deletes would still be waiting for tomorrow");

    step(began, "kubectl scale machinedeployment workers --replicas=0");
    scene.scale("workers", 0).await?;
    scene.ready_machines(0).await?;
    say("the machines are gone; the hosts are being wiped, which nobody waits for");
    scene.all_in_pool(hosts.len()).await?;
    show(&scene, "every host is in the pool again");
    let deleted = scene.scaleway().gone_hosts().len();
    let changes = scene.scaleway().changes();
    let orders = changes.iter().filter(|call| call.starts_with("POST") && call.ends_with("/servers")).count();
    say(&format!(
        "{} hosts deleted, {orders} ordered; {} simulated minutes passed; {} changing calls to Scaleway",
        deleted,
        scene.scaleway().simulator().now().as_secs() / 60,
        changes.len()
    ));
    ensure!(deleted == 0 && orders == 0, "a host was deleted or ordered");
    scene.end().await?;
    step(began, "done; everything that was started is ended and removed");
    Ok(())
}

async fn available(scene: &Scene<'_>, count: usize) -> Result<()> {
    eventually("Cluster API calls the machines available", || async {
        let deployment = scene.api(Kind::MachineDeployment).get("workers").await?;
        ensure!(deployment.data["status"]["availableReplicas"] == count, "{:#}", deployment.data["status"]);
        Ok(())
    })
    .await
}

fn step(began: Instant, text: &str) {
    let elapsed: Duration = began.elapsed();
    println!("\n[{:>5.1} s] {text}", elapsed.as_secs_f64());
}

fn say(text: &str) {
    println!("          {text}");
}

fn show(scene: &Scene<'_>, text: &str) {
    say(text);
    for host in scene.scaleway().hosts() {
        let wiped = match host.wiped_as.len() {
            0 => String::new(),
            times => format!("  wiped {times}x"),
        };
        println!("            {}  {:<52} {}{wiped}", &host.id[..8], host.name, host.status);
    }
}
