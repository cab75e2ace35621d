//! Cluster API's own kinds above ours: machines come out of the pool and go back into it.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_simulator::{FaultKind, FaultRule, Options};
use windlass_test_kubernetes::{
    ControlPlane, ControllerOptions, Kind, MachineOptions, Nodes, Programs, Scene, User, eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_deployment_scales_0_3_1_0_and_every_host_ends_in_the_pool() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "scale").await?;
    scene.scaleway().add_hosts(4, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;

    scene.deployment("workers", "macs", 0, &MachineOptions::default()).await?;
    scene.ready_machines(0).await?;
    ensure!(scene.scaleway().hosts().iter().all(|host| host.in_pool() && host.names.len() == 1), "touched for nothing");

    scene.scale("workers", 3).await?;
    for machine in scene.ready_machines(3).await? {
        let status = &machine.data["status"];
        ensure!(machine.labels().get("cluster.x-k8s.io/cluster-name").is_some_and(|name| name == "macs"));
        ensure!(machine.owner_references().iter().any(|owner| owner.kind == "Machine"), "no owner: {machine:?}");
        ensure!(!status["addresses"].as_array().is_none_or(Vec::is_empty), "no address: {status:#}");
    }
    eventually("Cluster API calls three machines available", || async {
        let deployment = scene.api(Kind::MachineDeployment).get("workers").await?;
        ensure!(deployment.data["status"]["availableReplicas"] == 3, "{:#}", deployment.data["status"]);
        Ok(())
    })
    .await?;
    scene.check_hosts(&[]).await?;
    ensure!(scene.scaleway().hosts().iter().filter(|host| host.in_pool()).count() == 1);

    scene.scale("workers", 1).await?;
    scene.ready_machines(1).await?;
    scene.check_hosts(&[]).await?;

    scene.scale("workers", 0).await?;
    scene.ready_machines(0).await?;
    scene.all_in_pool(4).await?;
    let wiped: usize = scene.scaleway().hosts().iter().map(|host| host.wiped_as.len()).sum();
    ensure!(wiped == 3, "each host in use is wiped once, and no other: {:#?}", scene.scaleway().hosts());
    let ordered =
        scene.scaleway().changes().into_iter().find(|call| call.ends_with("/servers") || call.starts_with("DELETE"));
    ensure!(ordered.is_none(), "{ordered:?}");
    eventually("Cluster API removes the nodes", || async {
        let nodes = Nodes::of(scene.client(), scene.namespace()).await?;
        ensure!(nodes.is_empty(), "{nodes:?}");
        Ok(())
    })
    .await?;
    drop(controller);
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_cluster_api_above_it_lives_alone() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "alone").await?;
    let hosts = scene.scaleway().add_hosts(2, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    let machine = scene.ready_machines(1).await?.remove(0);
    let provider_id = machine.data["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    ensure!(hosts.iter().any(|id| provider_id == format!("scaleway-apple-silicon://fr-par-1/{id}")), "{provider_id}");
    let table = plane.kubectl(windlass_test_kubernetes::User::Admin, &["get", "asm", "-n", scene.namespace()], "")?;
    ensure!(table.contains("Provisioned") && table.contains("True") && table.contains("fr-par-1"), "{table}");

    // Whoever bootstraps it finds what is needed: name, password and address, in a Secret that goes with the machine.
    let owned = |secret: &&kube::core::DynamicObject| secret.owner_references().iter().any(|owner| owner.name == "mac");
    let secrets = scene.list(Kind::Secret).await?;
    ensure!(secrets.iter().any(|secret| owned(&secret)), "no Secret belongs to the machine");

    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    eventually("the Secret went with its machine", || async {
        let secrets = scene.list(Kind::Secret).await?;
        ensure!(!secrets.iter().any(|secret| owned(&secret)));
        Ok(())
    })
    .await?;
    let log = controller.log();
    let password = "sudo_password";
    ensure!(!log.contains(password) && !log.contains("11111111-1111-4111-8111-111111111111"), "a secret in the log");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_beyond_the_pool_wait_and_say_so_and_take_what_comes_back() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "crowd").await?;
    scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    for number in 0..3 {
        scene.apply(&MachineOptions::default().machine(&format!("mac-{number}"))).await?;
    }
    let waiting = eventually("two of three machines are ready", || async {
        let (ready, waiting): (Vec<_>, Vec<_>) =
            scene.machines().await?.into_iter().partition(|machine| machine.data["status"]["ready"] == true);
        ensure!(ready.len() == 2 && waiting.len() == 1, "{} ready", ready.len());
        Ok(waiting[0].name_any())
    })
    .await?;
    eventually("the third says why it waits", || async {
        let events = scene.events(&waiting).await?;
        ensure!(events.iter().any(|event| event.starts_with("Warning")), "{events:?}");
        Ok(())
    })
    .await?;
    scene.check_hosts(&[]).await?;

    let served = scene.machines().await?.into_iter().find(|machine| machine.name_any() != waiting);
    let served = served.map(|machine| machine.name_any()).unwrap_or_default();
    scene.delete(Kind::AppleSiliconMachine, &served).await?;
    scene.gone(Kind::AppleSiliconMachine, &served).await?;
    // The host is wiped first; only then is it somebody else's.
    scene.ready_machines(2).await?;
    scene.check_hosts(&[]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_releases_at_once_end_although_every_other_change_is_refused_as_too_fast() -> Result<()> {
    const MACHINES: usize = 40;
    const REFUSED: u64 = 30;
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::with(plane, "strict", Options { time_scale: 60.0, ..Options::default() }).await?;
    // On hosts that bear their claims already, as after a move.
    let claim = |number: usize| format!("k8s-strict-mac-{number}");
    for (number, host) in scene.scaleway().add_hosts(MACHINES, [])?.iter().enumerate() {
        scene.scaleway().simulator().rename_server(host, claim(number))?;
    }
    let handed_over: Vec<(String, String)> =
        (0..MACHINES).map(|number| (claim(number), format!("mac-{number}"))).collect();
    scene.approve(&handed_over.iter().map(|(claim, name)| (claim.as_str(), name.as_str())).collect::<Vec<_>>()).await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    for number in 0..MACHINES {
        let machine = MachineOptions::default().annotated("windlass.dev/claim", &claim(number));
        scene.apply(&machine.machine(&format!("mac-{number}"))).await?;
    }
    scene.ready_machines(MACHINES).await?;

    scene.scaleway().simulator().clear_requests();
    // As a gateway does that counts calls, but the same on a machine of any speed.
    for nth in 0..REFUSED / 2 {
        for method in ["PATCH", "POST"] {
            let rule = FaultRule::new(method, "/apple-silicon/**", FaultKind::RateLimited).nth(2 * nth + 1);
            scene.scaleway().simulator().add_fault(rule)?;
        }
    }
    for number in 0..MACHINES {
        scene.delete(Kind::AppleSiliconMachine, &format!("mac-{number}")).await?;
    }
    scene.ready_machines(0).await?;
    scene.all_in_pool(MACHINES).await?;
    let (refused, served): (Vec<_>, Vec<_>) = scene
        .scaleway()
        .simulator()
        .requests()
        .into_iter()
        .filter(|request| request.method != "GET")
        .partition(|request| request.status == Some(429));
    ensure!(refused.len() as u64 == REFUSED, "{} refused", refused.len());
    // A mark, a wipe and a name for each: what was refused is sent again, and no more than that.
    ensure!(served.len() == 3 * MACHINES, "{} changing calls were served", served.len());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_a_cluster_that_says_nothing_to_its_machines_has_none_of_them_looked_at() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "news").await?;
    scene.scaleway().add_hosts(2, [])?;
    // Nothing but events brings a look.
    let options = ControllerOptions::default().argument("--listing-interval=1h").argument("--retry-interval=1h");
    let controller = scene.start(&options).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 2, &MachineOptions::default()).await?;
    scene.ready_machines(2).await?;
    eventually("Cluster API calls two machines available", || async {
        let deployment = scene.api(Kind::MachineDeployment).get("workers").await?;
        ensure!(deployment.data["status"]["availableReplicas"] == 2, "{:#}", deployment.data["status"]);
        Ok(())
    })
    .await?;
    let looks = || controller.reconciles(Kind::AppleSiliconMachine);
    // Looks that are still to come of what was before end after a while; a change of the Cluster brings no other.
    let annotate = |value: u32| {
        scene.patch(Kind::Cluster, "macs", json!({"metadata": {"annotations": {"test": value.to_string()}}}))
    };
    let mut looked = Vec::new();
    let quiet = loop {
        let before = looks().await?;
        for value in 0..5 {
            annotate(value).await?;
        }
        // The controller of clusters has seen them: it looks at each change of an ExternalCluster's owner.
        scene.looked_at_again(&controller, Kind::ExternalCluster, "macs").await?;
        let after = looks().await?;
        if after == before {
            break after;
        }
        looked.push(after - before);
        ensure!(looked.len() < 10, "looks for nothing: {looked:?}");
    };
    scene.patch(Kind::Cluster, "macs", json!({"spec": {"paused": true}})).await?;
    eventually("a pause is news to both", || async {
        ensure!(looks().await? >= quiet + 2, "{quiet}");
        for machine in scene.machines().await? {
            let all = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            ensure!(all.iter().any(|one| one["type"] == "Paused" && one["status"] == "True"), "{all:?}");
        }
        Ok(())
    })
    .await?;
    scene.patch(Kind::Cluster, "macs", json!({"spec": {"paused": false}})).await?;
    scene.ready_machines(2).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_of_cluster_api_that_is_served_no_longer_is_left_for_one_that_is() -> Result<()> {
    // Its own control plane: the definitions are everybody's.
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::start(programs, true).await?;
    let scene = Scene::new(&plane, "versions").await?;
    scene.scaleway().add_hosts(1, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    let log = |words: &'static str| {
        let controller = &controller;
        eventually(words, move || async move {
            ensure!(controller.log().contains(words), "{}", controller.last_words());
            Ok(())
        })
    };
    log("v1beta2").await?;
    for kind in ["clusters", "machines"] {
        let name = format!("{kind}.cluster.x-k8s.io");
        let definition = plane.kubectl(User::Admin, &["get", "crd", &name, "-o", "json"], "")?;
        let definition: Value = serde_json::from_str(&definition)?;
        let versions = definition["spec"]["versions"].as_array().context("no versions")?;
        let place = versions.iter().position(|version| version["name"] == "v1beta2").context("no v1beta2")?;
        let patch = json!([{"op": "replace", "path": format!("/spec/versions/{place}/served"), "value": false}]);
        plane.kubectl(User::Admin, &["patch", "crd", &name, "--type=json", "--patch", &patch.to_string()], "")?;
    }
    log("v1beta1").await?;
    let mut paused = MachineOptions::default().machine("mac");
    paused["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "missing"});
    scene.apply(&paused).await?;
    eventually("it is looked at by the version that there is", || async {
        let object = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let all = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let waits = all.iter().find(|one| one["reason"] == "WaitingForOwner");
        let told: jiff::Timestamp =
            waits.context("not told")?["lastTransitionTime"].as_str().context("no time")?.parse()?;
        // Cluster API, which makes such objects, changes them after that, and takes a change of ours for a failure.
        let created = object.creation_timestamp().context("not created")?.0;
        ensure!(told.duration_since(created).as_secs() >= 10, "{:#}", object.data["status"]);
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_set_later_counts_when_the_machine_above_is_deleted() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "later").await?;
    scene.scaleway().add_hosts(1, [])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.cluster("macs").await?;
    scene.deployment("workers", "macs", 1, &MachineOptions::default()).await?;
    let mac = scene.ready_machines(1).await?.remove(0).name_any();
    let before = scene.scaleway().hosts().remove(0);
    let keep = json!({"metadata": {"annotations": {"windlass.dev/release-policy": "keep"}}});
    scene.patch(Kind::AppleSiliconMachine, &mac, keep).await?;
    let machine = scene.list(Kind::Machine).await?.remove(0).name_any();
    scene.delete(Kind::Machine, &machine).await?;
    scene.gone(Kind::AppleSiliconMachine, &mac).await?;
    let after = scene.scaleway().host(&before.id)?;
    ensure!(after.name == before.name && after.wiped_as.is_empty(), "{after:?}");
    scene.end().await
}
