//! Policies as objects: two tenants and an operator whose policies disagree, on a real API server.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

fn rules(slot: &str, when: &str, answer: &str) -> String {
    format!("slot = \"{slot}\"\n[[rules]]\nwhen = \"{when}\"\nanswer = \"{answer}\"\nreason = \"as told\"\n")
}

fn config_map(name: &str, text: &str) -> Value {
    let mut map = Kind::ConfigMap.object(name);
    map["data"] = json!({"it.rules.toml": text});
    map
}

fn policy(kind: Kind, name: &str, extra: &Value) -> Value {
    let mut object = kind.object(name);
    object["spec"] = json!({"slot": "release", "source": {"configMap": {"name": name, "key": "it.rules.toml"}}});
    let fields = extra.as_object().cloned().unwrap_or_default();
    object["spec"].as_object_mut().into_iter().for_each(|spec| spec.extend(fields.clone()));
    object
}

fn instance(name: &str) -> Value {
    let mut object = Kind::InstanceMachine.object(name);
    object["spec"] = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
    object
}

/// Waits until the condition `Loaded` of a policy is so, for this reason.
async fn loaded(scene: &Scene<'_>, kind: Kind, name: &str, status: &str, reason: &str) -> Result<Value> {
    eventually(&format!("{name}: Loaded={status}, {reason}"), || async {
        let object = scene.api(kind).get(name).await?;
        let conditions = object.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is =
            conditions.iter().any(|one| one["type"] == "Loaded" && one["status"] == status && one["reason"] == reason);
        ensure!(is, "{:#}", object.data["status"]);
        Ok(object.data["status"].clone())
    })
    .await
}

async fn runs(scene: &Scene<'_>, name: &str) -> Result<()> {
    eventually(&format!("{name} runs"), || async {
        let status = scene.api(Kind::InstanceMachine).get(name).await?.data["status"].clone();
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await
}

async fn deleted(scene: &Scene<'_>, kind: Kind, name: &str) -> Result<()> {
    scene.delete(kind, name).await?;
    scene.gone(kind, name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_team_s_policy_decides_about_its_own_and_none_overrules_the_operator() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let own = Scene::new(plane, "operator").await?;
        let (alice, bob) = (own.neighbour("alice").await?, own.neighbour("bob").await?);
        let scaleway = own.scaleway();
        let host = scaleway.add_hosts(1, [])?.remove(0);
        // Alice keeps everything. Bob deletes what carries a label, which the operator lets through.
        alice.apply(&config_map("keep", &rules("release", "true", "keep"))).await?;
        alice.apply(&policy(Kind::Policy, "keep", &json!({}))).await?;
        let labelled = "subject.labels.exists(l, l.name == 'debug' && l.value == 'yes')";
        bob.apply(&config_map("keep", &rules("release", labelled, "keep"))).await?;
        bob.apply(&policy(Kind::Policy, "keep", &json!({"mode": "decide", "order": 5}))).await?;
        let configuration = json!({"policies": {"labels": ["debug"]}});
        let options = ControllerOptions { all_namespaces: true, ..ControllerOptions::configured(configuration) };
        let options = options.argument(&format!("--controller-namespace={}", own.namespace()));
        let mut controller = own.start(&options).await?;
        for scene in [&alice, &bob] {
            let status = loaded(scene, Kind::Policy, "keep", "True", "Loaded").await?;
            ensure!(status["policy"]["shortDigest"].as_str().is_some_and(|digest| digest.len() == 12), "{status:#}");
        }
        for scene in [&own, &alice, &bob] {
            scene.apply(&instance("server")).await?;
            runs(scene, "server").await?;
        }
        let mut debugged = instance("debugged");
        debugged["metadata"]["labels"] = json!({"debug": "yes"});
        bob.apply(&debugged).await?;
        runs(&bob, "debugged").await?;
        let servers = || scaleway.instances().len();
        ensure!(servers() == 4, "{}", servers());
        // Nobody's policy reaches into another namespace.
        deleted(&own, Kind::InstanceMachine, "server").await?;
        deleted(&bob, Kind::InstanceMachine, "server").await?;
        ensure!(servers() == 2, "{}", servers());
        deleted(&alice, Kind::InstanceMachine, "server").await?;
        deleted(&bob, Kind::InstanceMachine, "debugged").await?;
        ensure!(servers() == 2, "what a team keeps stays: {}", servers());

        // A cluster's labels are those of its object.
        let mut farm = Kind::ServerCluster.object("farm");
        farm["metadata"]["labels"] = json!({"debug": "yes"});
        let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
        farm["spec"] = json!({"zone": "fr-par-1", "groups": [group]});
        bob.apply(&farm).await?;
        eventually("the cluster is active", || async {
            let status = bob.api(Kind::ServerCluster).get("farm").await?.data["status"].clone();
            ensure!(status["state"] == "active", "{status:#}");
            Ok(())
        })
        .await?;
        deleted(&bob, Kind::ServerCluster, "farm").await?;
        ensure!(servers() == 3, "the cluster's server was not kept: {}", servers());

        // A pool's host is not a team's to keep.
        alice.apply(&MachineOptions::default().machine("mac")).await?;
        alice.ready_machines(1).await?;
        deleted(&alice, Kind::AppleSiliconMachine, "mac").await?;
        eventually("the host is back in its pool", || async {
            let now = scaleway.host(&host)?;
            ensure!(now.name.starts_with(MachineOptions::POOL), "{now:?}");
            Ok(())
        })
        .await?;

        // The operator's comes first, and the controller need not restart.
        own.apply(&config_map("all-go", &rules("release", "subject.requester == 'object'", "terminate"))).await?;
        own.apply(&policy(Kind::ClusterPolicy, "all-go", &json!({"namespaces": [alice.namespace()]}))).await?;
        loaded(&own, Kind::ClusterPolicy, "all-go", "True", "Loaded").await?;
        alice.apply(&instance("second")).await?;
        runs(&alice, "second").await?;
        let before = servers();
        deleted(&alice, Kind::InstanceMachine, "second").await?;
        ensure!(servers() == before - 1, "the operator's policy was overruled");

        // A mistake changes nothing, and is told.
        alice
            .apply(&config_map("keep", "slot = \"release\"\n[[rules]]\nwhen = \"nonsense\"\nanswer = \"keep\"\n"))
            .await?;
        loaded(&alice, Kind::Policy, "keep", "False", "Refused").await?;
        let events = alice.events("keep").await?;
        ensure!(
            events.iter().any(|event| event.contains("PolicyRefused")
                && event.contains("the last version that loaded stays in force")),
            "{events:#?}"
        );
        own.delete(Kind::ClusterPolicy, "all-go").await?;
        eventually("the operator's policy is out of force", || async {
            alice.apply(&instance("third")).await?;
            runs(&alice, "third").await?;
            let before = servers();
            deleted(&alice, Kind::InstanceMachine, "third").await?;
            ensure!(servers() == before, "it still decides");
            Ok(())
        })
        .await?;

        // After a restart a policy that cannot be loaded counts as failing: with `keep`, nothing is destroyed.
        alice.apply(&policy(Kind::Policy, "keep", &json!({"onFailure": "keep"}))).await?;
        controller.stop()?;
        let _controller = own.start(&options).await?;
        loaded(&alice, Kind::Policy, "keep", "False", "Refused").await?;
        alice.apply(&instance("fourth")).await?;
        runs(&alice, "fourth").await?;
        let before = servers();
        alice.delete(Kind::InstanceMachine, "fourth").await?;
        eventually("the deletion waits for the policy", || async {
            let status = alice.api(Kind::InstanceMachine).get("fourth").await?.data["status"].clone();
            ensure!(status.to_string().contains("keep"), "{status:#}");
            Ok(())
        })
        .await?;
        ensure!(servers() == before, "a broken policy let a server go");
        own.end().await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_s_policy_is_bounded_and_says_why_it_is_refused() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "bounded").await?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    let digest = format!("oci://registry.example/team/policy@sha256:{}", "a".repeat(64));
    for (name, spec, reason) in
        [("missing", json!({}), "NotFound"), ("foreign", json!({"source": {"oci": digest}}), "RegistryNotAllowed")]
    {
        scene.apply(&policy(Kind::Policy, name, &spec)).await?;
        loaded(&scene, Kind::Policy, name, "False", reason).await?;
        scene.delete(Kind::Policy, name).await?;
    }
    for spec in [
        json!({"source": {}}),
        json!({"source": {"oci": "oci://registry.example/team/policy:latest"}}),
        json!({"source": {"configMap": {"name": "x", "key": "it.wasm"}}}),
        json!({"slot": "state-mapping"}),
        json!({"mode": "dictate"}),
    ] {
        let refused = scene.apply(&policy(Kind::Policy, "wrong", &spec)).await;
        ensure!(refused.is_err(), "the API server took {spec}");
    }
    // Of more than a namespace may have, the first ones count.
    scene.apply(&config_map("many", &rules("retry", "attempt > 7", "give-up"))).await?;
    for number in 0..17 {
        let source = json!({"slot": "retry", "source": {"configMap": {"name": "many", "key": "it.rules.toml"}}});
        scene.apply(&policy(Kind::Policy, &format!("many-{number:02}"), &source)).await?;
    }
    loaded(&scene, Kind::Policy, "many-15", "True", "Loaded").await?;
    loaded(&scene, Kind::Policy, "many-16", "False", "TooMany").await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_shows_what_it_would_decide_about_the_machines_that_exist() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "audited").await?;
    let scaleway = scene.scaleway();
    scaleway.add_hosts(1, [])?;
    let configuration = json!({"policies": {"labels": ["debug"]}});
    let _controller = scene.start(&ControllerOptions::configured(configuration)).await?;
    scene.apply(&config_map("today", &rules("release", "machine.kind == 'instance'", "keep"))).await?;
    scene.apply(&policy(Kind::Policy, "today", &json!({"order": 2}))).await?;
    loaded(&scene, Kind::Policy, "today", "True", "Loaded").await?;
    let mut debugged = instance("debugged");
    debugged["metadata"]["labels"] = json!({"debug": "yes"});
    for server in [&instance("server"), &debugged] {
        scene.apply(server).await?;
    }
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    for server in ["server", "debugged"] {
        runs(&scene, server).await?;
    }
    let audit = |name: &'static str, expected: Value| {
        let scene = &scene;
        async move {
            eventually(&format!("{name}'s audit"), || async {
                let mut audit = scene.api(Kind::Policy).get(name).await?.data["status"]["audit"].clone();
                let failures = audit["failures"].take();
                ensure!(audit == expected, "{audit:#} is not {expected:#}");
                ensure!(failures[0]["machines"][0] == format!("{}/mac", scene.namespace()), "{failures:#}");
                Ok(())
            })
            .await
        }
    };
    let changes = scaleway.changes().len();
    scene.apply(&config_map("next", &rules("release", "subject.labels.size() == 0", "terminate"))).await?;
    scene.apply(&policy(Kind::Policy, "next", &json!({"mode": "shadow"}))).await?;
    let of = |name: &str| format!("{}/{name}", scene.namespace());
    let numbers = |machines: i64, same: i64, destructive: i64| json!({"machines": machines, "same": same, "destructive": destructive, "failed": 0, "withoutPrice": 0});
    let mut expected = numbers(3, 1, 1);
    // Of a host out of a pool, a team's policy may not decide that it goes.
    expected["failed"] = 1.into();
    expected["differences"] = json!([{"today": "keep", "then": "terminate", "destructive": true, "count": 1,
        "reason": "as told", "machines": [of("server")]}]);
    expected["failures"] = Value::Null;
    audit("next", expected).await?;
    // Nothing was done to find that out, and what is decided is what was decided.
    ensure!(scaleway.changes().len() == changes, "{:#?}", scaleway.changes());
    deleted(&scene, Kind::InstanceMachine, "server").await?;
    ensure!(scaleway.instances().len() == 2, "the shadow decided");
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_shows_what_it_would_decide_about_the_servers_of_a_cluster() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "audited-cluster").await?;
    let _controller = scene.start(&ControllerOptions::configured(json!({"policies": {"labels": ["team"]}}))).await?;
    scene.apply(&config_map("today", &rules("release", "true", "keep"))).await?;
    scene.apply(&policy(Kind::Policy, "today", &json!({"order": 2}))).await?;
    loaded(&scene, Kind::Policy, "today", "True", "Loaded").await?;
    let mut cluster = Kind::ServerCluster.object("farm");
    cluster["metadata"]["labels"] = json!({"team": "a"});
    let group = |name: &str| json!({"name": name, "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
    cluster["spec"] = json!({"zone": "fr-par-1", "groups": [group("workers"), group("cache")]});
    scene.apply(&cluster).await?;
    let active = |object: &Value| object["state"] == "active";
    eventually("the cluster is active", || async {
        let status = scene.api(Kind::ServerCluster).get("farm").await?.data["status"].clone();
        ensure!(active(&status), "{status:#}");
        Ok(())
    })
    .await?;
    let when = "subject.cluster == 'farm' && subject.labels.exists(l, l.name == 'team' && l.value == 'a')";
    scene.apply(&config_map("next", &rules("release", when, "terminate"))).await?;
    scene.apply(&policy(Kind::Policy, "next", &json!({"mode": "shadow"}))).await?;
    let machines: Vec<String> =
        ["cache", "workers"].iter().map(|group| format!("{}/farm/farm-{group}-1", scene.namespace())).collect();
    let audit = || async {
        Ok::<Value, anyhow::Error>(scene.api(Kind::Policy).get("next").await?.data["status"]["audit"].clone())
    };
    eventually("the audit of the cluster's servers", || async {
        let audit: Value = audit().await?;
        let difference = &audit["differences"][0];
        let mut told: Vec<&str> =
            difference["machines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        told.sort_unstable();
        ensure!(audit["machines"] == 2 && audit["destructive"] == 2 && told == machines, "{audit:#}");
        Ok(())
    })
    .await?;
    ensure!(scene.scaleway().instances().len() == 2, "the shadow decided");
    scene.delete(Kind::Policy, "today").await?;
    scene.delete(Kind::ServerCluster, "farm").await?;
    eventually("nothing of a cluster that goes is audited", || async {
        let audit: Value = audit().await?;
        ensure!(audit["machines"].as_i64().unwrap_or_default() == 0, "{audit:#}");
        Ok(())
    })
    .await?;
    scene.end().await
}
