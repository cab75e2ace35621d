//! Instances under Cluster API: made with the Machine's bootstrap data, removed with everything that belongs to them.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use windlass_simulator::{Effect, FaultKind};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, Nodes, Scene, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_boot_with_the_machine_s_bootstrap_data_and_leave_nothing() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "instances").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.cluster("linux").await?;
    let specification = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    scene.instances("workers", "linux", 2, specification).await?;
    let machines = eventually("two instances are ready", || async {
        let machines = scene.list(Kind::InstanceMachine).await?;
        let ready =
            machines.iter().filter(|machine| machine.data["status"]["initialization"]["provisioned"] == true).count();
        ensure!(
            ready == 2,
            "{ready}: {:?}",
            machines.iter().map(|machine| machine.data["status"].to_string()).collect::<Vec<_>>()
        );
        Ok(machines)
    })
    .await?;
    ensure!(scene.scaleway().instances().len() == 2);
    for machine in &machines {
        let provider_id = machine.data["spec"]["providerID"].as_str().context("no provider id")?;
        // As Scaleway's own cloud controller manager writes them, since Nodes are matched by it.
        let server =
            provider_id.strip_prefix("scaleway://instance/fr-par-1/").with_context(|| provider_id.to_owned())?;
        ensure!(scene.scaleway().cloud_init(server)?.contains("hostname: from-the-test"));
    }
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    eventually("Cluster API found their nodes", || async {
        let deployment = scene.api(Kind::MachineDeployment).get("workers").await?;
        ensure!(deployment.data["status"]["availableReplicas"] == 2, "{:#}", deployment.data["status"]);
        Ok(())
    })
    .await?;

    eventually("what they joined with is readable no longer", || async {
        for machine in scene.list(Kind::InstanceMachine).await? {
            let id = machine.data["status"]["serverID"].as_str().context("no server")?.to_owned();
            ensure!(scene.scaleway().cloud_init(&id).is_err(), "{id} shows it");
            ensure!(machine.data["status"]["bootstrapDataRemoved"] == true, "{:#}", machine.data["status"]);
        }
        Ok(())
    })
    .await?;

    scene.scale("workers", 0).await?;
    eventually("no machine and no resource is left", || async {
        let machines = scene.list(Kind::InstanceMachine).await?.len();
        let resources = scene.scaleway().simulator().resources();
        ensure!(machines == 0 && resources.is_empty(), "{machines} machines; {resources:#?}");
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_that_fails_half_way_is_undone_and_the_next_type_is_tried() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "stock").await?;
    scene.scaleway().simulator().set_stock("DEV1-S", windlass_simulator::Availability::Shortage);
    // Once, and after its effect: the server is there, and nobody heard of it.
    scene.scaleway().fail(
        "POST",
        "/instance/v1/zones/*/servers",
        Some(2),
        FaultKind::DroppedConnection,
        Effect::After,
    )?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let mut machine = json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
        "metadata": {"name": "picky"}, "spec": {"types": ["DEV1-S", "DEV1-M"], "image": "ubuntu_noble"}});
    machine["spec"]["zone"] = json!("fr-par-1");
    scene.apply(&machine).await?;
    eventually("the instance is ready", || async {
        let machine = scene.api(Kind::InstanceMachine).get("picky").await?;
        ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
        Ok(())
    })
    .await?;
    let servers = scene.scaleway().instances();
    ensure!(servers.len() == 1 && servers[0]["commercial_type"] == "DEV1-M", "{servers:#?}");
    scene.delete(Kind::InstanceMachine, "picky").await?;
    scene.gone(Kind::InstanceMachine, "picky").await?;
    let resources = scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_found_again_by_a_controller_that_was_killed_and_lost_its_volume() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "volume").await?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    for (name, path) in [("early", "/instance/v1/zones/*/servers"), ("late", "/instance/v1/zones/*/servers/*/action")] {
        scene.scaleway().hold("POST", path, 1, windlass_test_kubernetes::Moment::After)?;
        scene
            .apply(&json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
                "metadata": {"name": name}, "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble",
                "zone": "fr-par-1"}}))
            .await?;
        scene.scaleway().held().await?;
        controller.kill();
        scene.scaleway().calm();
        let fresh = ControllerOptions { state: format!("after-{name}"), ..ControllerOptions::default() };
        controller = scene.start(&fresh).await?;
        eventually(&format!("{name} is ready"), || async {
            let machine = scene.api(Kind::InstanceMachine).get(name).await?;
            ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
            Ok(())
        })
        .await?;
    }
    let servers = scene.scaleway().instances();
    ensure!(servers.len() == 2, "one for each, not more: {servers:#?}");

    // Death between the provider id and the status leaves a status that does not name the server.
    controller.kill();
    let api = scene.api(Kind::InstanceMachine);
    let unnamed = Patch::Merge(json!({"status": {"serverID": null, "ready": false}}));
    let made = api.patch_status("late", &PatchParams::default(), &unnamed).await?;
    let _controller = scene.start(&ControllerOptions { state: "between".to_owned(), ..Default::default() }).await?;
    eventually("the status names it again", || async {
        let status = api.get("late").await?.data["status"].clone();
        let id = status["serverID"].as_str().map(str::to_owned).with_context(|| format!("{status:#}"))?;
        ensure!(made.data["spec"]["providerID"].as_str().is_some_and(|provider| provider.ends_with(&id)), "{id}");
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await?;
    for machine in scene.list(Kind::InstanceMachine).await? {
        scene.delete(Kind::InstanceMachine, &machine.name_any()).await?;
        scene.gone(Kind::InstanceMachine, &machine.name_any()).await?;
    }
    let resources = scene.scaleway().simulator().resources();
    ensure!(resources.is_empty(), "{resources:#?}");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_in_private_networks_alone_has_its_addresses_there() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "private").await?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let network = scene.scaleway().add_network()?;
    let mut machine = Kind::InstanceMachine.object("inside");
    machine["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1", "publicIPs": [],
        "privateNetworks": [network]});
    scene.apply(&machine).await?;
    let addresses = eventually("it has an internal address", || async {
        let status = scene.api(Kind::InstanceMachine).get("inside").await?.data["status"].clone();
        let addresses = status["addresses"].as_array().cloned().unwrap_or_default();
        let internal = addresses.iter().any(|one| one["type"] == "InternalIP" && one["address"].is_string());
        ensure!(internal && status["ready"] == true, "{status:#}");
        Ok(addresses)
    })
    .await?;
    ensure!(!addresses.iter().any(|one| one["type"] == "ExternalIP"), "{addresses:?}");
    // Looked up once.
    let lookups = || scene.scaleway().calls().iter().filter(|call| call.contains("/ipam/")).count();
    let before = lookups();
    scene.looked_at_again(&controller, Kind::InstanceMachine, "inside").await?;
    ensure!(lookups() == before, "{} more", lookups() - before);
    scene.delete(Kind::InstanceMachine, "inside").await?;
    scene.gone(Kind::InstanceMachine, "inside").await?;
    scene.end().await
}
