//! Machines that are not what they should be: a MachineHealthCheck fires, or a set-up fails, and the release policy
//! says what becomes of host or server. Whatever it says, the provider id of a Machine never changes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_test_kubernetes::{
    ControlPlane, ControllerOptions, Kind, MachineOptions, Moment, Nodes, Scene, eventually,
};

/// How a cluster's deployment is checked: at once, by the release policy again after these seconds.
struct Check<'a> {
    cluster: &'a str,
    deployment: &'a str,
    interval: u32,
}

impl Check<'_> {
    /// Lets the Node of the deployment's machine become ready, or cease to be, and makes a MachineHealthCheck: Cluster
    /// API's core 1.13.3 looks at a new one at once, and afterwards every 15 s at most. (One for each deployment, since
    /// it may leave a check's other Machines waiting while it has one remediated.)
    async fn set_ready(&self, scene: &Scene<'_>, machine: &DynamicObject, ready: bool) -> Result<()> {
        let Self { cluster, deployment, interval } = *self;
        Nodes::set_ready(scene.client(), scene.namespace(), &machine.name_any(), ready).await?;
        let mut template = Kind::MachineRemediationTemplate.object(deployment);
        template["spec"] = json!({"template": {"spec": {"intervalSeconds": interval}}});
        scene.apply(&template).await?;
        let mut check = Kind::MachineHealthCheck.object(&format!("{deployment}-{}", uuid::Uuid::new_v4()));
        check["spec"] = json!({
            "clusterName": cluster, "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": deployment}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 0}]},
            "remediation": {
                "triggerIf": {"unhealthyLessThanOrEqualTo": "100%"},
                "templateRef": {
                    "apiVersion": template["apiVersion"], "kind": template["kind"],
                    "name": template["metadata"]["name"],
                },
            },
        });
        scene.apply(&check).await.map(drop)
    }
}

fn policy(reboot_after: u32, give_up_after: u32) -> ControllerOptions {
    let settings = json!({"reboot-after-failures": reboot_after, "give-up-after-failures": give_up_after});
    ControllerOptions::configured(json!({"policies": {"release": {"settings": settings}}}))
}

/// The machine objects of a deployment.
async fn machines(scene: &Scene<'_>, kind: Kind, deployment: &str) -> Result<Vec<DynamicObject>> {
    let mut machines = scene.list(kind).await?;
    machines.retain(|machine| {
        machine.labels().get("cluster.x-k8s.io/deployment-name").is_some_and(|name| name == deployment)
    });
    Ok(machines)
}

/// The one of a deployment, when its Machine has become a Node.
async fn joined(scene: &Scene<'_>, kind: Kind, deployment: &str) -> Result<DynamicObject> {
    eventually(&format!("the machine of {deployment} is a Node"), || async {
        let status = scene.api(Kind::MachineDeployment).get(deployment).await?.data["status"].clone();
        ensure!(status["availableReplicas"] == 1, "{status:#}");
        machines(scene, kind, deployment).await?.pop().context("no machine")
    })
    .await
}

/// The provider id of each machine object that there ever was.
#[derive(Default)]
struct ProviderIds(Mutex<BTreeMap<String, Value>>);

impl ProviderIds {
    /// Notes those of now.
    fn note(&self, machines: &[DynamicObject]) -> Result<()> {
        let mut known = self.0.lock();
        for machine in machines {
            let now = &machine.data["spec"]["providerID"];
            let before = known.entry(machine.uid().unwrap_or_default()).or_insert_with(|| now.clone());
            ensure!(before.is_null() || before == now, "{} had {before}, and has {now}", machine.name_any());
            *before = now.clone();
        }
        Ok(())
    }
}

/// Waits until another Machine has taken the place of `former`, which it had at `ids`.
async fn replaced(
    scene: &Scene<'_>,
    kind: Kind,
    deployment: &str,
    former: &DynamicObject,
    ids: &ProviderIds,
) -> Result<DynamicObject> {
    let changed = Mutex::new(None);
    let successor = eventually(&format!("{} is replaced", former.name_any()), || async {
        let all = machines(scene, kind, deployment).await?;
        if let Err(error) = ids.note(&all) {
            changed.lock().get_or_insert(error.to_string());
        }
        let described =
            || all.iter().map(|one| format!("{}: {:#}", one.name_any(), one.data["status"])).collect::<String>();
        let [machine] = all.as_slice() else { anyhow::bail!("{}", described()) };
        ensure!(machine.uid() != former.uid() && machine.data["status"]["ready"] == true, "{}", described());
        Ok(machine.clone())
    })
    .await?;
    let changed = changed.into_inner();
    ensure!(changed.is_none(), "{changed:?}");
    // A Mac may be back in the pool, wiped, before the successor looks for one.
    let other = successor.data["spec"]["providerID"] != former.data["spec"]["providerID"];
    ensure!(other || kind == Kind::AppleSiliconMachine, "the same server");
    Ok(successor)
}

/// Waits until an event about an object begins so.
async fn event_of(scene: &Scene<'_>, name: &str, beginning: &str) -> Result<String> {
    eventually(&format!("{name}: {beginning}"), || async {
        let events = scene.events(name).await?;
        events.iter().find(|event| event.starts_with(beginning)).cloned().with_context(|| format!("{events:#?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unhealthy_mac_is_left_alone_then_restarted_once_then_replaced_with_its_machine() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "unhealthy-macs").await?;
    scene.scaleway().add_hosts(4, [])?;
    let options = policy(2, 3);
    let mut controller = scene.start(&options).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("macs").await?;
    for deployment in ["checked", "unchecked"] {
        scene.deployment(deployment, "macs", 1, &MachineOptions::default()).await?;
    }
    let (kind, ids) = (Kind::AppleSiliconMachine, ProviderIds::default());
    let (checked, unchecked) = (joined(&scene, kind, "checked").await?, joined(&scene, kind, "unchecked").await?);
    ids.note(&[checked.clone(), unchecked.clone()])?;

    // Killed when the restart was asked for, and nobody has heard the answer.
    scene.scaleway().hold("POST", "/apple-silicon/*/zones/*/servers/*/reboot", 1, Moment::After)?;
    let name = checked.name_any();
    Check { cluster: "macs", deployment: "checked", interval: 1 }.set_ready(&scene, &checked, false).await?;
    let kept = event_of(&scene, &name, "Normal BootstrapRetried").await?;
    ensure!(kept.contains("1 failed set-ups"), "the first request of all: {kept}");
    scene.scaleway().held().await?;
    controller.kill();
    scene.scaleway().calm();
    controller = scene.start(&options).await?;
    event_of(&scene, &name, "Warning HostRebooted").await?;
    let due = event_of(&scene, &name, "Warning ReplacementDue").await?;
    ensure!(due.contains("given up") && due.contains("the Machine"), "{due}");
    replaced(&scene, kind, "checked", &checked, &ids).await?;
    let reboots: u64 = scene.scaleway().hosts().iter().map(|host| host.reboots).sum();
    ensure!(reboots == 1, "{:?}", scene.scaleway().changes());

    // Without a health check: a set-up that was given up replaces the Machine, too.
    let failures = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": "3"}}});
    scene.patch(kind, &unchecked.name_any(), failures).await?;
    replaced(&scene, kind, "unchecked", &unchecked, &ids).await?;
    scene.check_hosts(&[]).await?;
    eventually("the two that were given up are in the pool again", || async {
        let hosts = scene.scaleway().hosts();
        let back = hosts.iter().filter(|host| host.in_pool() && host.status == "ready").count();
        ensure!(back == 2, "{hosts:#?}");
        Ok(())
    })
    .await?;
    drop(controller);
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unhealthy_instance_recovers_by_a_restart_is_kept_or_is_replaced_with_its_machine() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "unhealthy-linux").await?;
    let _controller = scene.start(&policy(1, 2)).await?;
    let _nodes = Nodes::join(scene.client().clone(), scene.namespace());
    scene.cluster("linux").await?;
    let specification = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    for deployment in ["cattle", "pets"] {
        scene.instances(deployment, "linux", 1, specification.clone()).await?;
    }
    let (kind, ids) = (Kind::InstanceMachine, ProviderIds::default());
    let (cattle, pet) = (joined(&scene, kind, "cattle").await?, joined(&scene, kind, "pets").await?);
    let keep = json!({"metadata": {"annotations": {"windlass.dev/release-policy": "keep"}}});
    scene.patch(kind, &pet.name_any(), keep).await?;

    let [of_cattle, of_pet] =
        ["cattle", "pets"].map(|deployment| Check { cluster: "linux", deployment, interval: 600 });
    let actions = || scene.scaleway().changes().iter().filter(|call| call.ends_with("/action")).count();
    let before = actions();
    of_pet.set_ready(&scene, &pet, false).await?;
    of_cattle.set_ready(&scene, &cattle, false).await?;
    let (cattle_name, pet_name) = (cattle.name_any(), pet.name_any());
    event_of(&scene, &cattle_name, "Warning ServerRebooted").await?;
    // Its Machine is healthy again: nothing else becomes of it.
    of_cattle.set_ready(&scene, &cattle, true).await?;
    let remediation = |name: &str| {
        let (api, name) = (scene.api(Kind::MachineRemediation), name.to_owned());
        async move { Ok::<_, anyhow::Error>(api.get_opt(&name).await?) }
    };
    let judged = eventually("the pet is kept", || async {
        let remediation = remediation(&pet_name).await?.context("no remediation")?;
        let conditions = remediation.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let judged = conditions.into_iter().find(|condition| condition["type"] == "Judged").context("not judged")?;
        ensure!(judged["status"] == "True" && judged["reason"] == "Kept", "{judged:#}");
        Ok(judged["message"].as_str().unwrap_or_default().to_owned())
    })
    .await?;
    ensure!(judged.contains("its owner wants it kept") && judged.contains("asked again at"), "{judged}");
    eventually("Cluster API needs no help any more", || async {
        let left = remediation(&cattle_name).await?;
        ensure!(left.is_none(), "{left:#?}");
        Ok(())
    })
    .await?;
    ids.note(&scene.list(kind).await?)?;
    ensure!(actions() == before + 1, "one restart of one server: {:?}", scene.scaleway().changes());

    // The next time does not wait for the interval of the last one.
    of_cattle.set_ready(&scene, &cattle, false).await?;
    event_of(&scene, &cattle_name, "Warning ReplacementDue").await?;
    replaced(&scene, kind, "cattle", &cattle, &ids).await?;
    let servers: Vec<Value> = scene.scaleway().instances().iter().map(|server| server["id"].clone()).collect();
    let id = |machine: &DynamicObject| machine.data["status"]["serverID"].clone();
    ensure!(servers.len() == 2 && servers.contains(&id(&pet)) && !servers.contains(&id(&cattle)), "{servers:?}");
    scene.end().await
}
