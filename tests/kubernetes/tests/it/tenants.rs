//! Many tenants of one controller, each with a key of its own, and many controllers of one cluster.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_simulator::{AppleSiliconPool, Options};
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Scene, User, eventually,
};

/// The controller's own project, and those of two tenants.
const OWN: &str = "7d0e3a4c-0000-4000-8000-000000000001";
pub(crate) const TEAM_A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
const TEAM_B: &str = "bbbbbbbb-0000-4000-8000-000000000001";
/// The key of every tenant.
const SECRET_KEY: &str = "22222222-2222-4222-8222-222222222222";

/// Credentials of a project. The key tells nothing: the simulator lets every one see every project, as a key of a whole
/// organization does.
pub(crate) fn credentials(name: &str, project: &str) -> Value {
    let mut secret = Kind::Secret.object(name);
    secret["stringData"] = json!({
        "SCW_ACCESS_KEY": "SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY": SECRET_KEY,
        "SCW_DEFAULT_PROJECT_ID": project,
    });
    secret
}

pub(crate) fn instance(name: &str, extra: Value) -> Value {
    let mut object = Kind::InstanceMachine.object(name);
    object["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    object["spec"]
        .as_object_mut()
        .into_iter()
        .for_each(|spec| spec.extend(extra.as_object().cloned().unwrap_or_default()));
    object
}

pub(crate) async fn ready(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<Value> {
    eventually(&format!("{name} is ready"), || async {
        let object = scene.api(kind).get(name).await?;
        let status = object.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"), "{status:#}");
        Ok(status)
    })
    .await
}

async fn says(scene: &Scene<'_>, kind: Kind, name: &str, reason: &str) -> Result<()> {
    eventually(&format!("{name} says {reason}"), || async {
        let status = scene.api(kind).get(name).await?.data["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        ensure!(conditions.iter().any(|one| one["type"] == "Ready" && one["reason"] == reason), "{status:#}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_with_keys_of_their_own_work_in_their_own_projects_through_one_controller() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let own = Scene::new(plane, "own").await?;
        let (alice, bob) = (own.neighbour("alice").await?, own.neighbour("bob").await?);
        let scaleway = own.scaleway();
        let hosts = [OWN, TEAM_A, TEAM_B].map(|project| scaleway.add_host_of_project(project));
        let [of_own, of_a, of_b] =
            hosts.map(|hosts| hosts.ok().and_then(|hosts| hosts.into_iter().next()).unwrap_or_default());
        // Alice's namespace has a default, bob's objects name their Secret.
        alice.apply(&credentials("scaleway", TEAM_A)).await?;
        bob.apply(&credentials("team-b", TEAM_B)).await?;
        let options = ControllerOptions { all_namespaces: true, ..ControllerOptions::default() };
        let options = options.argument("--namespace-credentials=scaleway").argument("--orphans-interval=1s");
        let mut controller = own.start(&options).await?;
        let named = || json!({"credentialsRef": {"name": "team-b"}});
        own.apply(&MachineOptions::default().machine("mac")).await?;
        alice.apply(&MachineOptions::default().machine("mac")).await?;
        bob.apply(&MachineOptions::default().with("credentialsRef", json!({"name": "team-b"})).machine("mac")).await?;
        for (scene, project, host) in [(&own, OWN, &of_own), (&alice, TEAM_A, &of_a), (&bob, TEAM_B, &of_b)] {
            let status = ready(scene, Kind::AppleSiliconMachine, "mac").await?;
            ensure!(status["serverID"] == **host && status["projectID"] == project, "{project}: {status:#}");
        }
        // Pools of others are as good as empty, although the key reaches their hosts.
        let more = scaleway.add_host_of_project(OWN)?.remove(0);
        alice.apply(&MachineOptions::default().machine("second")).await?;
        says(&alice, Kind::AppleSiliconMachine, "second", "NoHostAvailable").await?;

        // Nor is a host handed over whose id somebody names, password and all.
        let named_host = |host: &str| {
            let machine = MachineOptions::default().with("credentialsRef", json!({"name": "team-b"}));
            machine.with("providerID", json!(format!("scaleway-apple-silicon://fr-par-1/{host}"))).machine("thief")
        };
        bob.apply(&named_host(&of_a)).await?;
        says(&bob, Kind::AppleSiliconMachine, "thief", "HostRenamed").await?;
        let thief = bob.api(Kind::AppleSiliconMachine).get("thief").await?;
        ensure!(thief.data["status"]["serverID"].is_null(), "{:#}", thief.data["status"]);
        ensure!(bob.api(Kind::Secret).get_opt("thief-credentials").await?.is_none(), "it was given the password");
        bob.delete(Kind::AppleSiliconMachine, "thief").await?;
        bob.gone(Kind::AppleSiliconMachine, "thief").await?;
        ensure!(scaleway.host(&of_a)?.wiped_as.is_empty());

        // Servers and clusters of servers.
        own.apply(&instance("server", json!({}))).await?;
        alice.apply(&instance("server", json!({}))).await?;
        bob.apply(&instance("server", named())).await?;
        let mut cluster = Kind::ServerCluster.object("farm");
        cluster["spec"] = json!({
            "zone": "fr-par-1", "credentialsRef": {"name": "team-b"},
            "groups": [{"name": "web", "count": 2, "types": ["DEV1-S"], "image": "ubuntu_noble"}],
        });
        bob.apply(&cluster).await?;
        for scene in [&own, &alice, &bob] {
            ready(scene, Kind::InstanceMachine, "server").await?;
        }
        ready(&bob, Kind::ServerCluster, "farm").await?;
        let of_project = |project: &str| {
            let owners = |server: &Value| {
                let tags = server["tags"].as_array().cloned().unwrap_or_default();
                tags.iter()
                    .filter_map(Value::as_str)
                    .find_map(|tag| tag.strip_prefix("windlass-owner=").map(str::to_owned))
            };
            let all = scaleway.instances();
            let of: Vec<_> = all.iter().filter(|server| server["project"] == project).map(owners).collect();
            of
        };
        let (own_owners, a, b) = (of_project(OWN), of_project(TEAM_A), of_project(TEAM_B));
        ensure!((own_owners.len(), a.len(), b.len()) == (1, 1, 3), "{own_owners:?} {a:?} {b:?}");
        ensure!(
            own_owners[0] != a[0] && a[0] != b[0] && b.iter().all(|owner| *owner == b[0]),
            "{own_owners:?} {a:?} {b:?}"
        );

        // What was begun in one project is not gone on with in another: neither by another Secret nor by another key in it.
        let other = json!({"spec": {"credentialsRef": {"name": "other"}}});
        let refused = bob.patch(Kind::AppleSiliconMachine, "mac", other).await;
        ensure!(refused.is_err_and(|error| format!("{error:#}").contains("credentialsRef cannot be changed")));
        // A namespace that gets a default only now keeps what it has.
        own.apply(&credentials("scaleway", TEAM_A)).await?;
        own.delete(Kind::InstanceMachine, "server").await?;
        own.gone(Kind::InstanceMachine, "server").await?;
        ensure!(of_project(OWN).is_empty() && of_project(TEAM_A).len() == 1);
        // The same after a restart, and with the volume lost; and a Secret of another project is refused.
        controller.stop()?;
        bob.apply(&credentials("team-b", TEAM_A)).await?;
        let anew = ControllerOptions { state: "anew".to_owned(), ..options };
        let controller = own.start(&anew).await?;
        says(&bob, Kind::AppleSiliconMachine, "mac", "OtherProject").await?;
        bob.delete(Kind::ServerCluster, "farm").await?;
        says(&bob, Kind::ServerCluster, "farm", "OtherProject").await?;
        ensure!(of_project(TEAM_B).len() == 3);
        bob.apply(&credentials("team-b", TEAM_B)).await?;
        bob.gone(Kind::ServerCluster, "farm").await?;

        // In a namespace that goes, the Secret goes before what needs it.
        ready(&bob, Kind::AppleSiliconMachine, "mac").await?;
        plane.kubectl(User::Admin, &["delete", "namespace", bob.namespace(), "--wait=false"], "")?;
        bob.gone(Kind::AppleSiliconMachine, "mac").await?;
        bob.gone(Kind::InstanceMachine, "server").await?;
        ensure!(of_project(TEAM_B).is_empty());
        let back = |id: &str| Ok::<_, anyhow::Error>(scaleway.host(id)?.in_pool());
        eventually("bob's host is in the pool", || async {
            ensure!(back(&of_b)?, "it is not");
            Ok(())
        })
        .await?;
        ensure!(back(&more)? && !back(&of_own)? && !back(&of_a)?, "{:#?}", scaleway.hosts());
        let mac = own.api(Kind::AppleSiliconMachine).get("mac").await?;
        ensure!(mac.data["status"]["serverID"] == *of_own, "{:#}", mac.data);

        // What a tenant's object leaves behind when its finalizer is taken away is told of, and left alone.
        let none = controller.metrics().await?;
        ensure!(!none.contains("windlass_orphaned_servers{zone=\"fr-par-1\"} 1\n"), "{none}");
        alice.patch(Kind::InstanceMachine, "server", json!({"metadata": {"finalizers": null}})).await?;
        alice.delete(Kind::InstanceMachine, "server").await?;
        eventually("the orphaned server is told of", || async {
            let metrics = controller.metrics().await?;
            ensure!(metrics.contains("windlass_orphaned_servers{zone=\"fr-par-1\"} 1\n"), "{metrics}");
            Ok(())
        })
        .await?;
        ensure!(of_project(TEAM_A).len() == 1, "it was touched");
        alice.end().await?;
        own.end().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_cannot_be_used_are_reported_and_hold_nothing_up() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "credentials").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let mut incomplete = credentials("incomplete", TEAM_A);
    incomplete["stringData"].as_object_mut().context("an object")?.remove("SCW_DEFAULT_PROJECT_ID");
    scene.apply(&incomplete).await?;
    let mut wrong = credentials("wrong", TEAM_A);
    wrong["stringData"]["SCW_SECRET_KEY"] = json!("hunter2");
    scene.apply(&wrong).await?;
    for (name, reason) in
        [("missing", "CredentialsMissing"), ("incomplete", "CredentialsInvalid"), ("wrong", "CredentialsInvalid")]
    {
        let reference = json!({"credentialsRef": {"name": name}});
        scene.apply(&instance(name, reference.clone())).await?;
        says(&scene, Kind::InstanceMachine, name, reason).await?;
        let status = scene.api(Kind::InstanceMachine).get(name).await?.data["status"].to_string();
        ensure!(status.contains(name) && !status.contains("hunter2"), "{status}");
        // Nothing was begun for it, so nothing holds it.
        scene.delete(Kind::InstanceMachine, name).await?;
        scene.gone(Kind::InstanceMachine, name).await?;
    }
    ensure!(scene.scaleway().calls().iter().all(|call| !call.contains("/servers/")), "{:?}", scene.scaleway().calls());
    // One that comes later is found.
    scene.apply(&instance("late", json!({"credentialsRef": {"name": "late"}}))).await?;
    says(&scene, Kind::InstanceMachine, "late", "CredentialsMissing").await?;
    scene.apply(&credentials("late", TEAM_A)).await?;
    ready(&scene, Kind::InstanceMachine, "late").await?;
    scene.delete(Kind::InstanceMachine, "late").await?;
    scene.gone(Kind::InstanceMachine, "late").await?;
    scene.end().await
}

/// A controller as an installation of this namespace starts it, which leads by what it watches.
async fn installation(scene: &Scene<'_>, namespace: &str, all_namespaces: bool) -> Result<Controller> {
    let state = format!("{namespace}-{all_namespaces}");
    // The roles of a controller for one namespace are the chart's, and tried with it.
    let user = if all_namespaces { User::Controller } else { User::Admin };
    let options = ControllerOptions { state, all_namespaces, user, ..ControllerOptions::default() }
        .argument("--leader-elect=true")
        .argument("--identity=windlass-controller-0")
        .argument("--lease-duration=6s")
        .argument(&format!("--controller-namespace={namespace}"));
    scene.start(&options).await
}

async fn leads(controller: &Controller, what: &str) -> Result<()> {
    eventually(&format!("{what} leads"), || async {
        ensure!(controller.leads().await?);
        Ok(())
    })
    .await
}

async fn waits(controller: &Controller, what: &str) -> Result<()> {
    eventually(&format!("{what} waits"), || async {
        ensure!(controller.log().contains("another process leads; waiting"), "{}", controller.last_words());
        ensure!(!controller.leads().await?, "it leads");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_installations_with_objects_in_common_one_leads_whatever_their_namespaces_and_names_are() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let scene = Scene::new(plane, "one").await?;
        let other = scene.neighbour("other").await?;
        let mut first = installation(&scene, "first", true).await?;
        leads(&first, "the first").await?;
        let mut second = installation(&scene, "second", true).await?;
        waits(&second, "the second, for all namespaces").await?;
        let mut of_one = installation(&scene, "third", false).await?;
        waits(&of_one, "the one for one namespace").await?;
        second.stop()?;
        first.stop()?;
        leads(&of_one, "the one for one namespace").await?;
        // Namespaces that have nothing in common are controlled side by side.
        let of_other = installation(&other, "third", false).await?;
        leads(&of_other, "the one for another namespace").await?;
        let fourth = installation(&scene, "fourth", true).await?;
        waits(&fourth, "one for all namespaces").await?;
        of_one.kill();
        drop(of_other);
        leads(&fourth, "the one for all namespaces").await?;
        let leases = plane.kubectl(User::Admin, &["get", "lease", "-n", "kube-system", "-o", "name"], "")?;
        let of_scene = format!("windlass-controller-{}", scene.namespace());
        ensure!(leases.contains("/windlass-controller\n") && leases.contains(&of_scene), "{leases}");
        other.end().await?;
        scene.end().await
    })
    .await
}

fn labelled(mut object: Value, filter: &str) -> Value {
    object["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"] = json!(filter);
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_share_a_cluster_by_a_label_and_take_nothing_of_each_other_for_an_orphan() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let scene = Scene::new(plane, "shared").await?;
        scene.scaleway().add_hosts(3, [])?;
        let of = async |filter: &str| {
            let options = ControllerOptions { state: filter.to_owned(), all_namespaces: true, ..Default::default() };
            // The chart gives each the right to its own Lease.
            let options = ControllerOptions { user: User::Admin, ..options }
                .argument("--leader-elect=true")
                .argument("--lease-duration=6s")
                .argument(&format!("--pool-prefix={}", MachineOptions::POOL))
                .argument("--orphans=return")
                .argument("--orphans-interval=500ms")
                .argument("--orphans-grace=500ms")
                .argument(&format!("--watch-filter={filter}"));
            scene.start(&options).await
        };
        let (blue, mut red) = (of("blue").await?, of("red").await?);
        leads(&blue, "the blue one").await?;
        leads(&red, "the red one").await?;
        let every = installation(&scene, "every", true).await?;
        waits(&every, "the one without a filter").await?;
        drop(every);
        scene.apply(&labelled(MachineOptions::default().machine("blue"), "blue")).await?;
        scene.apply(&labelled(MachineOptions::default().machine("red"), "red")).await?;
        // A Secret that both need.
        scene.apply(&credentials("team", TEAM_A)).await?;
        for filter in ["blue", "red"] {
            let server = instance(&format!("{filter}-server"), json!({"credentialsRef": {"name": "team"}}));
            scene.apply(&labelled(server, filter)).await?;
        }
        scene.apply(&MachineOptions::default().machine("nobodys")).await?;
        for name in ["blue", "red"] {
            ready(&scene, Kind::AppleSiliconMachine, name).await?;
        }
        for name in ["blue-server", "red-server"] {
            ready(&scene, Kind::InstanceMachine, name).await?;
        }
        let host = async |name: &str| {
            let machine = scene.api(Kind::AppleSiliconMachine).get(name).await?;
            let id = machine.data["status"]["serverID"].as_str().context("it has no host")?.to_owned();
            scene.scaleway().host(&id)
        };
        let (of_blue, of_red) = (host("blue").await?, host("red").await?);
        let owner = |name: &str| name.splitn(3, '-').take(2).collect::<Vec<_>>().join("-");
        ensure!(owner(&of_blue.name) != owner(&of_red.name), "{of_blue:?} {of_red:?}");

        // A host that really is an orphan goes back: so they are looked for, and the other controller's is none.
        let stranded = AppleSiliconPool::new(&format!("{}-", owner(&of_blue.name)), 1, MachineOptions::TYPE)?;
        let stranded =
            scene.scaleway().simulator().add_apple_silicon_pool(&stranded).pop().context("one was asked for")?;
        eventually("the orphan is in the pool", || async {
            let host = scene.scaleway().host(&stranded)?;
            ensure!(host.in_pool(), "{host:?}");
            Ok(())
        })
        .await?;
        red.stop()?;
        // The same while the other one is down, and its objects change.
        scene.delete(Kind::AppleSiliconMachine, "red").await?;
        let listings = || scene.scaleway().calls().iter().filter(|call| call.ends_with("/servers")).count();
        let before = listings();
        eventually("orphans are looked for some more times", || async {
            ensure!(listings() >= before + 6, "{} more listings", listings() - before);
            Ok(())
        })
        .await?;
        for host in [&of_blue, &of_red] {
            let now = scene.scaleway().host(&host.id)?;
            ensure!(now.name == host.name && now.wiped_as.is_empty(), "{now:?}");
        }
        let metrics = blue.metrics().await?;
        ensure!(!metrics.contains("windlass_orphaned_servers{zone=\"fr-par-1\"} 1\n"), "{metrics}");
        let _red = of("red").await?;
        scene.gone(Kind::AppleSiliconMachine, "red").await?;
        ensure!(scene.scaleway().host(&of_red.id)?.in_pool());
        for (name, held) in [("red-server", 1), ("blue-server", 0)] {
            scene.delete(Kind::InstanceMachine, name).await?;
            scene.gone(Kind::InstanceMachine, name).await?;
            let secret = scene.api(Kind::Secret).get("team").await?;
            ensure!(secret.finalizers().len() == held, "after {name}: {:?}", secret.finalizers());
        }

        // What has no label is nobody's, until it gets one.
        let object = scene.api(Kind::AppleSiliconMachine).get("nobodys").await?;
        ensure!(object.data["status"].is_null() && object.finalizers().is_empty(), "{object:#?}");
        let labels = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
        scene.patch(Kind::AppleSiliconMachine, "nobodys", labels).await?;
        ready(&scene, Kind::AppleSiliconMachine, "nobodys").await?;
        // And one that loses it is left as it is.
        let unlabelled = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": null}}});
        scene.patch(Kind::AppleSiliconMachine, "blue", unlabelled).await?;
        scene.delete(Kind::AppleSiliconMachine, "blue").await?;
        scene.delete(Kind::AppleSiliconMachine, "nobodys").await?;
        scene.gone(Kind::AppleSiliconMachine, "nobodys").await?;
        ensure!(scene.scaleway().host(&of_blue.id)?.name == of_blue.name);
        let labels = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": "blue"}}});
        scene.patch(Kind::AppleSiliconMachine, "blue", labels).await?;
        scene.gone(Kind::AppleSiliconMachine, "blue").await?;
        scene.end().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_removed_while_nobody_works_is_emptied_by_the_next_controller() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "terminating").await?;
    let host = scene.scaleway().add_host_of_project(TEAM_A)?.remove(0);
    scene.apply(&credentials("team", TEAM_A)).await?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    let named = json!({"credentialsRef": {"name": "team"}});
    scene.apply(&instance("server", named.clone())).await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "credentialsRef": {"name": "team"}, "groups": [group]});
    scene.apply(&cluster).await?;
    scene.apply(&MachineOptions::default().with("credentialsRef", json!({"name": "team"})).machine("mac")).await?;
    for (kind, name) in
        [(Kind::InstanceMachine, "server"), (Kind::ServerCluster, "farm"), (Kind::AppleSiliconMachine, "mac")]
    {
        ready(&scene, kind, name).await?;
    }
    controller.stop()?;
    plane.kubectl(User::Admin, &["delete", "namespace", scene.namespace(), "--wait=false"], "")?;
    eventually("what is in the namespace is being deleted", || async {
        for (kind, name) in [(Kind::InstanceMachine, "server"), (Kind::Secret, "team")] {
            let object = scene.api(kind).get(name).await?;
            ensure!(object.metadata.deletion_timestamp.is_some(), "{name} is not");
        }
        Ok(())
    })
    .await?;
    let _controller = scene.start(&ControllerOptions { state: "lost".to_owned(), ..Default::default() }).await?;
    eventually("the namespace is gone", || scene.namespace_gone()).await?;
    ensure!(scene.scaleway().instances().is_empty(), "{:#?}", scene.scaleway().instances());
    ensure!(scene.scaleway().host(&host)?.in_pool());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_uses_a_key_that_was_corrected_just_before() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let options = Options { tokens: [SECRET_KEY.to_owned()].into(), ..Scene::options() };
    let scene = Scene::with(plane, "corrected", options).await?;
    // A Secret counts for that long as it was read.
    let _controller = scene.start(&ControllerOptions::default().argument("--listing-interval=10m")).await?;
    let mut wrong = credentials("team", TEAM_A);
    wrong["stringData"]["SCW_SECRET_KEY"] = json!("33333333-3333-4333-8333-333333333333");
    scene.apply(&wrong).await?;
    let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    let mut farm = Kind::ServerCluster.object("farm");
    farm["spec"] = json!({"zone": "fr-par-1", "groups": [group], "credentialsRef": {"name": "team"}});
    scene.apply(&farm).await?;
    says(&scene, Kind::ServerCluster, "farm", "ServersUnreadable").await?;
    scene.apply(&credentials("team", TEAM_A)).await?;
    scene.patch(Kind::ServerCluster, "farm", json!({"metadata": {"annotations": {"windlass.dev/retry": "1"}}})).await?;
    ready(&scene, Kind::ServerCluster, "farm").await?;
    scene.delete(Kind::ServerCluster, "farm").await?;
    scene.gone(Kind::ServerCluster, "farm").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_given_up_with_their_last_object_and_a_new_key_leaks_nothing() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "many").await?;
    // What nobody uses is given up after some looks for orphans.
    let controller = scene.start(&ControllerOptions::default().argument("--orphans-interval=1s")).await?;
    // One after the other, more than a namespace may use at a time.
    for number in 0..9 {
        let secret = format!("team-{number}");
        scene.apply(&credentials(&secret, TEAM_A)).await?;
        let name = format!("server-{number}");
        scene.apply(&instance(&name, json!({"credentialsRef": {"name": secret}}))).await?;
        ready(&scene, Kind::InstanceMachine, &name).await?;
        let held = scene.api(Kind::Secret).get(&secret).await?.finalizers().to_vec();
        ensure!(held == ["infrastructure.windlass.dev/credentials"], "{held:?}");
        scene.delete(Kind::InstanceMachine, &name).await?;
        scene.gone(Kind::InstanceMachine, &name).await?;
        ensure!(scene.api(Kind::Secret).get(&secret).await?.finalizers().is_empty(), "{secret} is held");
    }
    let accounts = |count: u32| {
        let (controller, line) = (&controller, format!("windlass_accounts {count}\n"));
        eventually("the metric counts the credentials", move || {
            let line = line.clone();
            async move {
                let metrics = controller.metrics().await?;
                ensure!(metrics.contains(&line), "no {line} in {metrics}");
                Ok(())
            }
        })
    };
    accounts(0).await?;
    // A key that is changed while its machine is there.
    scene.apply(&credentials("rotated", TEAM_A)).await?;
    scene.apply(&instance("server", json!({"credentialsRef": {"name": "rotated"}}))).await?;
    ready(&scene, Kind::InstanceMachine, "server").await?;
    let opened = || controller.log().matches("opened an account").count();
    let before = controller.open_files()?;
    for number in 0..6 {
        let so_far = opened();
        let mut secret = credentials("rotated", TEAM_A);
        secret["stringData"]["SCW_SECRET_KEY"] = json!(format!("3333333{number}-3333-4333-8333-333333333333"));
        scene.apply(&secret).await?;
        eventually("the new key is used", || async {
            ensure!(opened() > so_far, "{} times", opened());
            Ok(())
        })
        .await?;
    }
    eventually("no more files are open than before", || async {
        let now = controller.open_files()?;
        // Connections come and go.
        ensure!(now <= before + 8, "{now}, and before {before}");
        Ok(())
    })
    .await?;
    accounts(1).await?;
    scene.delete(Kind::InstanceMachine, "server").await?;
    scene.gone(Kind::InstanceMachine, "server").await?;
    scene.end().await
}
