//! Cluster API's own tool: it installs our provider, and moves a cluster with its machines to another management
//! cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, Kind, MachineOptions, Nodes, Pod, Programs, Scene, User, eventually};

use crate::manifests::objects;

const PROVIDER: &str = "windlass:v0.1.0";
const SYSTEM: &str = "windlass-system";
const DEPLOYMENT: &str = "deployment/windlass-controller";

/// Credentials and options, as the documentation says; and those that make waiting short.
fn set_up(scene: &Scene<'_>, options: &[&str]) -> Result<()> {
    let plane = scene.plane();
    let literals = |values: &[&str]| values.iter().map(|value| format!("--from-literal={value}")).collect::<Vec<_>>();
    let create = |what: &[&str], from: &[&str]| {
        let literals = literals(from);
        let literals: Vec<&str> = literals.iter().map(String::as_str).collect();
        plane.kubectl(User::Admin, &[&["create", "--namespace", SYSTEM], what, &literals].concat(), "")
    };
    let credentials = [
        "SCW_ACCESS_KEY=SCWXXXXXXXXXXXXXXXXX",
        "SCW_SECRET_KEY=11111111-1111-4111-8111-111111111111",
        "SCW_DEFAULT_PROJECT_ID=7d0e3a4c-0000-4000-8000-000000000001",
        "SCW_DEFAULT_ZONE=fr-par-1",
        &format!("SCW_API_URL={}", scene.scaleway().url()),
    ];
    create(&["secret", "generic", "windlass-scaleway-credentials"], &credentials)?;
    create(&["configmap", "windlass-options"], options)?;
    let add =
        |argument: &str| json!({"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": argument});
    let patch = json!([add("--listing-interval=1s"), add("--retry-interval=1s")]).to_string();
    plane
        .kubectl(User::Admin, &["patch", "--namespace", SYSTEM, DEPLOYMENT, "--type=json", "--patch", &patch], "")
        .map(drop)
}

/// Runs the Deployment of the kustomization, however it came there.
async fn run(scene: &Scene<'_>) -> Result<Pod> {
    let plane = scene.plane();
    let node = scene.folder().join("node");
    let mut pod = Pod::start(plane, plane.programs().controller(), SYSTEM, "windlass-controller", &node).await?;
    pod.ready().await?;
    Ok(pod)
}

/// What says of each machine which host or server it has: provider id and claim.
async fn possessions(scene: &Scene<'_>) -> Result<BTreeMap<String, (Value, Option<String>)>> {
    let mut possessions = BTreeMap::new();
    for kind in [Kind::AppleSiliconMachine, Kind::InstanceMachine] {
        for machine in scene.list(kind).await? {
            let claim = machine.annotations().get("windlass.dev/claim").cloned();
            possessions.insert(machine.name_any(), (machine.data["spec"]["providerID"].clone(), claim));
        }
    }
    Ok(possessions)
}

/// Waits until all machines, of both kinds, are provisioned.
async fn provisioned(scene: &Scene<'_>, count: usize) -> Result<()> {
    eventually(&format!("{count} machines are provisioned"), || async {
        let mut machines = scene.list(Kind::AppleSiliconMachine).await?;
        machines.extend(scene.list(Kind::InstanceMachine).await?);
        let done = machines.iter().filter(|machine| machine.data["status"]["initialization"]["provisioned"] == true);
        let done = done.count();
        ensure!(done == count && machines.len() == count, "{done} of {}", machines.len());
        Ok(())
    })
    .await
}

async fn available(scene: &Scene<'_>, deployment: &str, count: u32) -> Result<()> {
    eventually(&format!("Cluster API calls {count} machines of {deployment} available"), || async {
        let status = scene.api(Kind::MachineDeployment).get(deployment).await?.data["status"].clone();
        ensure!(status["availableReplicas"] == count, "{status:#}");
        Ok(())
    })
    .await
}

/// What clusterctl makes of our components is what the kustomization has, but for what is the user's.
fn check_components(plane: &ControlPlane) -> Result<()> {
    let base = plane.programs().deploy("base");
    let telling = ["aggregate-to", "control-plane"];
    let kustomization = plane.kubectl(User::Admin, &["kustomize", base.to_str().context("UTF-8")?], "")?;
    let mut ours = objects(&kustomization, &telling)?;
    ours.remove("PersistentVolumeClaim windlass-state").context("the volume is the user's")?;
    ours.remove("ConfigMap windlass-policies").context("which policies decide is the user's")?;
    let deployment = ours.get_mut("Deployment windlass-controller").context("no Deployment")?;
    let pod = &mut deployment["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array_mut().context("no arguments")?;
    arguments.retain(|argument| argument != "--config=/etc/windlass/config.yaml");
    pod["volumes"][1]["configMap"]["optional"] = json!(true);
    let components = plane.clusterctl(&["generate", "provider", "--infrastructure", PROVIDER])?;
    let components = objects(&components, &telling)?;
    ensure!(components.keys().eq(ours.keys()), "{:#?}", components.keys());
    for (name, object) in &ours {
        ensure!(components[name] == *object, "{name}: {:#}, but clusterctl makes {:#}", object, components[name]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_move_to_another_cluster_with_their_hosts_and_nothing_is_wiped() -> Result<()> {
    let Some(programs) = Programs::found() else { return Ok(()) };
    // From a cluster where our kustomization was applied beside Cluster API, to one where clusterctl installed both.
    let (old, new) = tokio::try_join!(ControlPlane::bare(programs.clone()), ControlPlane::bare(programs))?;
    old.initialise(&[]).await?;
    old.install_ours().await?;
    new.initialise(&[PROVIDER]).await?;

    check_components(&new)?;
    let there = Scene::new(&old, "move").await?;
    let here = there.seen_from(&new).await?;
    there.scaleway().add_hosts(5, [])?;
    set_up(&there, &["WINDLASS_POOL_PREFIX=ci-pool-"])?;
    let mut old_controller = run(&there).await?;
    let _nodes = Nodes::join(there.client().clone(), there.namespace());
    there.cluster("fleet").await?;
    there.deployment("macs", "fleet", 3, &MachineOptions::default()).await?;
    let linux = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    there.instances("linux", "fleet", 1, linux).await?;
    // One without a Cluster above it, which nobody but its label moves and nobody but its annotation pauses.
    let mut alone = MachineOptions::default().machine("alone");
    alone["metadata"]["labels"] = json!({"clusterctl.cluster.x-k8s.io/move": ""});
    there.apply(&alone).await?;
    // And one with a key of its own, whose Secret nothing but the controller's label moves.
    let mut team = Kind::Secret.object("team");
    team["stringData"] = json!({
        "SCW_ACCESS_KEY": "SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY": "22222222-2222-4222-8222-222222222222",
        "SCW_DEFAULT_PROJECT_ID": "aaaaaaaa-0000-4000-8000-000000000001",
    });
    there.apply(&team).await?;
    let mut keyed = Kind::InstanceMachine.object("keyed");
    keyed["metadata"]["labels"] = json!({"clusterctl.cluster.x-k8s.io/move": ""});
    keyed["spec"] = json!({
        "types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1", "credentialsRef": {"name": "team"},
    });
    there.apply(&keyed).await?;
    provisioned(&there, 6).await?;
    available(&there, "macs", 3).await?;
    available(&there, "linux", 1).await?;
    eventually("what the instance joined with is gone", || async {
        let machines = there.list(Kind::InstanceMachine).await?;
        let removed = |machine: &DynamicObject| {
            machine.name_any() == "keyed" || machine.data["status"]["bootstrapDataRemoved"] == true
        };
        ensure!(machines.iter().all(removed), "{machines:#?}");
        Ok(())
    })
    .await?;
    let bootstrap = json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io/move": ""}}});
    there.patch(Kind::Secret, "bootstrap", bootstrap).await?;
    let had = possessions(&there).await?;
    ensure!(had.len() == 6 && had.values().all(|(id, _)| id.is_string()), "{had:#?}");

    // The owner was made from the old cluster's UID; it is the beginning of every claim.
    let claim = had["alone"].1.clone().context("no claim")?;
    let owner = claim.split("-alone-").next().unwrap_or_default();
    ensure!(owner.starts_with("k8s-"), "{owner}");
    ensure!(old_controller.stop()?.success(), "{}", old_controller.log());
    let volume = new.programs().deploy("base/volume.yaml");
    new.kubectl(User::Admin, &["apply", "--server-side", "-f", volume.to_str().context("UTF-8")?], "")?;
    set_up(&here, &["WINDLASS_POOL_PREFIX=ci-pool-", &format!("WINDLASS_OWNER={owner}")])?;
    // Before anything is moved: what the machines have is handed over to those that take their names elsewhere.
    let controller = old.programs().controller();
    let kubeconfig = format!("--kubeconfig={}", old.kubeconfig_file(User::Admin).display());
    let printed = std::process::Command::new(controller).args(["approvals", &kubeconfig]).output()?;
    ensure!(printed.status.success(), "{printed:?}");
    new.kubectl(User::Admin, &["apply", "-f", "-"], &String::from_utf8(printed.stdout)?)?;
    let mut new_controller = run(&here).await?;
    let touched = there.scaleway().changes();
    let pause = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}});
    there.patch(Kind::AppleSiliconMachine, "alone", pause.clone()).await?;
    there.patch(Kind::InstanceMachine, "keyed", pause).await?;
    let target = new.kubeconfig_file(User::Admin);
    let target = target.to_str().context("UTF-8")?;
    old.clusterctl(&["move", "--namespace", there.namespace(), "--to-kubeconfig", target])?;
    let go_on = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    here.patch(Kind::AppleSiliconMachine, "alone", go_on.clone()).await?;
    here.patch(Kind::InstanceMachine, "keyed", go_on).await?;

    provisioned(&here, 6).await?;
    let moved = here.api(Kind::Secret).get("team").await?;
    ensure!(moved.data["data"]["SCW_SECRET_KEY"].is_string(), "{moved:?}");
    available(&here, "macs", 3).await?;
    available(&here, "linux", 1).await?;
    ensure!(possessions(&here).await? == had, "before {had:#?}, after {:#?}", possessions(&here).await?);
    let changed = there.scaleway().changes();
    ensure!(changed == touched, "Scaleway was asked to change something: {:?}", &changed[touched.len()..]);
    here.check_hosts(&[]).await?;
    for kind in [
        Kind::AppleSiliconMachine,
        Kind::AppleSiliconMachineTemplate,
        Kind::InstanceMachine,
        Kind::InstanceMachineTemplate,
        Kind::ExternalCluster,
        Kind::Cluster,
        Kind::MachineDeployment,
        Kind::MachineSet,
        Kind::Machine,
        Kind::Secret,
    ] {
        let left = there.list(kind).await?;
        ensure!(left.is_empty(), "left in the old cluster: {left:#?}");
    }

    // An upgrade deletes what it installs, and neither options nor the journal with it.
    ensure!(new_controller.stop()?.success(), "{}", new_controller.log());
    let kept = || {
        let line = "jsonpath={range .items[*]}{.metadata.name}={.metadata.uid} {end}";
        let kinds = "persistentvolumeclaims,configmaps,secrets";
        new.kubectl(User::Admin, &["get", kinds, "--namespace", SYSTEM, "--output", line], "")
    };
    let before = kept()?;
    new.clusterctl(&["upgrade", "apply", "--infrastructure", "windlass-system/windlass:v0.1.1"])?;
    ensure!(before == kept()? && before.contains("windlass-state="), "before {before}, after {}", kept()?);
    new_controller = run(&here).await?;
    let options = ["--listing-interval=1s", "--retry-interval=1s"];
    ensure!(!new_controller.arguments().iter().any(|there| options.contains(&there.as_str())), "not a new Deployment");
    provisioned(&here, 6).await?;
    ensure!(possessions(&here).await? == had && there.scaleway().changes() == touched, "the upgrade changed something");

    // What was moved can be released, and what the old volume knew was not needed for it.
    here.scale("macs", 1).await?;
    here.scale("linux", 0).await?;
    here.delete(Kind::AppleSiliconMachine, "alone").await?;
    here.delete(Kind::InstanceMachine, "keyed").await?;
    provisioned(&here, 1).await?;
    here.scale("macs", 0).await?;
    provisioned(&here, 0).await?;
    here.all_in_pool(5).await?;
    ensure!(here.scaleway().instances().is_empty(), "{:#?}", here.scaleway().instances());
    ensure!(new_controller.stop()?.success(), "{}", new_controller.log());
    new.clusterctl(&["delete", "--infrastructure", "windlass"])?;
    ensure!(kept()? == before, "before {before}, after {}", kept()?);
    let kinds = "deployments,serviceaccounts,roles,services,customresourcedefinitions";
    let ours = ["get", kinds, "-A", "-l", "cluster.x-k8s.io/provider=infrastructure-windlass", "-o", "name"];
    let left = new.kubectl(User::Admin, &ours, "")?;
    let left: BTreeSet<&str> = left.lines().collect();
    let definitions = new.programs().definitions()?;
    let definitions = definitions.iter().map(|name| format!("customresourcedefinition.apiextensions.k8s.io/{name}"));
    let definitions: Vec<String> = definitions.collect();
    ensure!(left == definitions.iter().map(String::as_str).collect(), "{left:#?}");
    there.end().await
}
