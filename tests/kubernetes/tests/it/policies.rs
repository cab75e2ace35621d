//! Policies that fail, and policies that are replaced.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{WatchEvent, WatchParams};
use serde_json::{Value, json};
use windlass_simulator::AppleSiliconPool;
use windlass_test_guests::{HOSTILE, RELEASE};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};

/// Keys and bundles as cosign makes them.
#[path = "../../../../host/distribution/tests/it/cosign.rs"]
#[allow(clippy::unwrap_used, dead_code, unreachable_pub)]
mod cosign;

/// Failing policies fail when their random word is odd: one that always does is refused when it is loaded. So that none
/// of this is attached to luck, there are many machines.
const MACHINES: usize = 16;

fn failing(behaviour: &str) -> Value {
    let settings = json!({"behaviour": behaviour, "during": "odd-decisions"});
    json!({"policies": {"release": {"path": "hostile.wasm", "settings": settings}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_traps_keeps_finalizers_and_hosts_and_raises_warnings() -> Result<()> {
    keeps_what_it_fails_on("trap").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_takes_all_memory_keeps_finalizers_and_hosts_and_raises_warnings() -> Result<()> {
    keeps_what_it_fails_on("memory-bomb").await
}

async fn keeps_what_it_fails_on(behaviour: &str) -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, &format!("fails-{behaviour}")).await?;
    scene.scaleway().add_hosts(MACHINES, [])?;
    HOSTILE.write_to(scene.folder())?;
    let mut controller = scene.start(&ControllerOptions::configured(failing(behaviour))).await?;
    for number in 0..MACHINES {
        scene.apply(&MachineOptions::default().machine(&format!("mac-{number}"))).await?;
    }
    scene.ready_machines(MACHINES).await?;
    for number in 0..MACHINES {
        scene.delete(Kind::AppleSiliconMachine, &format!("mac-{number}")).await?;
    }
    let warned = eventually(&format!("{behaviour}: a Warning reports it"), || async {
        for machine in scene.machines().await? {
            let events = scene.events(&machine.name_any()).await?;
            if events.iter().any(|event| event.starts_with("Warning") && event.contains("hostile")) {
                return Ok(machine);
            }
        }
        anyhow::bail!("none yet; {} machines are left", scene.machines().await?.len())
    })
    .await?;
    // What it failed on stands as it stood: finalizer, name and disk.
    ensure!(!warned.finalizers().is_empty(), "{behaviour}: its finalizer went");
    scene.check_hosts(&[]).await.with_context(|| behaviour.to_owned())?;
    let claim = warned.annotations().get("windlass.dev/claim").context("no claim")?;
    if scene.api(Kind::AppleSiliconMachine).get_opt(&warned.name_any()).await?.is_some() {
        let host = scene.scaleway().hosts().into_iter().find(|host| host.name == *claim);
        ensure!(host.is_none_or(|host| host.wiped_as.is_empty() && !host.deletion_scheduled), "{behaviour}: touched");
    }

    // Nothing was lost: with a policy that works, all go where they belong.
    controller.stop()?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    scene.ready_machines(0).await.with_context(|| behaviour.to_owned())?;
    scene.all_in_pool(MACHINES).await.with_context(|| behaviour.to_owned())?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_always_fails_is_refused_at_the_start_with_its_name_and_the_reason() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "refused").await?;
    HOSTILE.write_to(scene.folder())?;
    let always = json!({"policies": {"release": {"path": "hostile.wasm", "settings": {"behaviour": "trap"}}}});
    let mut controller = scene.start_unchecked(&ControllerOptions::configured(always)).await?;
    let status = eventually("it ends", || {
        let ended = controller.ended();
        async move { ended?.context("it runs") }
    })
    .await?;
    let words = controller.last_words();
    ensure!(
        status.code() == Some(2) && words.contains("policies.release") && words.contains("hostile.wasm"),
        "{words}"
    );
    ensure!(scene.scaleway().calls().is_empty());
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_key_of_the_controller_signed_is_never_loaded_and_what_cosign_signed_with_one_decides() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "signed").await?;
    scene.scaleway().add_hosts(1, [])?;
    let (release, stranger) = (cosign::Cosign::new(), cosign::Cosign::new());
    std::fs::write(scene.folder().join("release.wasm"), RELEASE.bytes)?;
    let bundle = scene.folder().join("release.wasm.sigstore.json");
    let trusting = ControllerOptions::configured(json!({"policies": {
        "release": {"path": "release.wasm"},
        "trust": {"keys": {"release": release.pem()}},
    }}));
    for signed in [None, Some(&stranger)] {
        if let Some(key) = signed {
            std::fs::write(&bundle, key.blob(RELEASE.bytes).to_string())?;
        }
        let mut controller = scene.start_unchecked(&trusting).await?;
        let status = eventually("it ends", || {
            let ended = controller.ended();
            async move { ended?.context("it runs") }
        })
        .await?;
        let words = controller.last_words();
        let names = |what: &str| words.contains(what);
        ensure!(status.code() == Some(2) && names("release.wasm") && names(&release.id()), "{words}");
        ensure!(signed.is_none_or(|key| names(&key.id())), "{words}");
    }
    ensure!(scene.scaleway().calls().is_empty());

    std::fs::write(&bundle, release.blob(RELEASE.bytes).to_string())?;
    let controller = scene.start(&trusting).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    let in_force = eventually("the digest stands in the status", || digest(&scene)).await?;

    // Nor by a swap: the file under the same name is another one, and its bundle is of the old.
    std::fs::write(scene.folder().join("new"), HOSTILE.bytes)?;
    std::fs::rename(scene.folder().join("new"), scene.folder().join("release.wasm"))?;
    eventually("it is refused", || async {
        ensure!(controller.log().contains("a policy can't be replaced"), "{}", controller.last_words());
        Ok(())
    })
    .await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(digest(&scene).await? == in_force);
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}

/// The digest of the release policy in use, as the machine's status tells it.
async fn digest(scene: &Scene<'_>) -> Result<String> {
    let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
    let policies = machine.data["status"]["policies"].as_array().cloned().unwrap_or_default();
    let release =
        policies.iter().find(|policy| policy["slot"] == "release").context("no release policy in the status")?;
    Ok(release["digest"].as_str().context("no digest")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_replaced_while_the_controller_runs_shows_in_the_status_and_decides_from_then_on() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "swap").await?;
    scene.scaleway().add_hosts(1, [])?;
    // Without settings both components load: the hostile one then defers, and the built-in default decides.
    let file = scene.folder().join("release.wasm");
    std::fs::write(&file, RELEASE.bytes)?;
    let configuration = json!({"policies": {"release": {"path": "release.wasm"}}});
    let controller = scene.start(&ControllerOptions::configured(configuration)).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    let before = eventually("the digest stands in the status", || digest(&scene)).await?;

    // A file that is no policy changes nothing.
    std::fs::write(scene.folder().join("new"), b"no component")?;
    std::fs::rename(scene.folder().join("new"), &file)?;
    eventually("it is refused", || async {
        ensure!(controller.log().contains("a policy can't be replaced"), "{}", controller.last_words());
        Ok(())
    })
    .await?;
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(digest(&scene).await? == before);

    std::fs::write(scene.folder().join("new"), HOSTILE.bytes)?;
    std::fs::rename(scene.folder().join("new"), &file)?;
    let after = eventually("the new digest stands in the status", || async {
        let digest = digest(&scene).await?;
        ensure!(digest != before, "still {digest}");
        Ok(digest)
    })
    .await?;
    ensure!(after != before);
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_reach_the_policy_in_both_spellings_and_keep_leaves_the_host_alone() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "requests").await?;
    let hosts = scene.scaleway().add_hosts(3, [Duration::from_secs(30 * 3600)])?;
    let _controller = scene.start(&ControllerOptions::default()).await?;
    for (name, key, requested) in [
        ("kept", "windlass.dev/release-policy", "keep"),
        ("pooled", "windlass.dev/release-policy", "pool"),
        ("destroyed", "tuist.dev/release-policy", "terminate"),
    ] {
        scene.apply(&MachineOptions::default().annotated(key, requested).machine(name)).await?;
    }
    let mut of = std::collections::BTreeMap::new();
    for machine in scene.ready_machines(3).await? {
        let id = machine.data["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
        of.insert(machine.name_any(), id.rsplit('/').next().unwrap_or_default().to_owned());
    }
    ensure!(of.len() == 3 && hosts.len() == 3);
    for name in of.keys() {
        scene.delete(Kind::AppleSiliconMachine, name).await?;
        scene.gone(Kind::AppleSiliconMachine, name).await?;
    }
    let kept = scene.scaleway().host(&of["kept"])?;
    ensure!(!kept.in_pool() && kept.wiped_as.is_empty() && !kept.deletion_scheduled, "{kept:?}");
    eventually("the pooled one is back", || async {
        ensure!(scene.scaleway().host(&of["pooled"])?.in_pool());
        Ok(())
    })
    .await?;
    let gone = scene.scaleway().gone_hosts();
    ensure!(gone.len() == 1 && gone[0].id == of["destroyed"], "{gone:#?}");
    scene.check_hosts(&[of["kept"].clone(), of["destroyed"].clone()]).await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_be_set_up_is_rebooted_once_and_then_given_another_host() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "recover").await?;
    scene.scaleway().add_hosts(2, [])?;
    let _controller = scene.start(&ControllerOptions::default().argument("--listing-interval=100ms")).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    let first = scene.ready_machines(1).await?.remove(0).data["spec"]["providerID"].clone();
    let fail = |times: u32| {
        let patch = json!({"metadata": {"annotations": {"windlass.dev/bootstrap-failures": times.to_string()}}});
        scene.patch(Kind::AppleSiliconMachine, "mac", patch)
    };
    let calls = |end: &'static str| scene.scaleway().changes().iter().filter(|call| call.ends_with(end)).count();

    fail(3).await?;
    eventually("it is rebooted", || async {
        ensure!(calls("/reboot") == 1, "{:?}", scene.scaleway().changes());
        Ok(())
    })
    .await?;
    scene.ready_machines(1).await?;
    let secrets = scene.api(Kind::Secret);
    let only = WatchParams::default().fields("metadata.name=mac-credentials");
    let mut seen = secrets.watch(&only, "0").await?.boxed();
    fail(8).await?;
    eventually("it has another host, and the first is on its way into the pool", || async {
        let machine = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let now = &machine.data["spec"]["providerID"];
        ensure!(now.is_string() && *now != first, "{now}");
        Ok(())
    })
    .await?;
    scene.ready_machines(1).await?;
    ensure!(calls("/reboot") == 1 && calls("/reinstall") == 1, "{:?}", scene.scaleway().changes());
    scene.check_hosts(&[]).await?;

    // Between the two nobody could log in with what the Secret said: first the former host's, then nothing, then this.
    let mut held: Vec<Option<String>> = Vec::new();
    while held.last().is_none_or(|last| last.is_none() || *last == held[0]) {
        if let WatchEvent::Added(secret) | WatchEvent::Modified(secret) = seen.try_next().await?.context("no more")? {
            held.push(secret.data["data"]["server-id"].as_str().map(str::to_owned));
        }
    }
    ensure!(held[0].is_some() && held.contains(&None), "{held:?}");
    // One that somebody deletes is written again.
    scene.delete(Kind::Secret, "mac-credentials").await?;
    eventually("the Secret is there again", || async {
        let again = secrets.get("mac-credentials").await?;
        ensure!(again.data["data"]["server-id"].as_str() == held.last().and_then(Option::as_deref), "another host's");
        Ok(())
    })
    .await?;
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_inside_the_pod_sees_what_was_done_and_decided_and_how_policies_are_doing() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "why").await?;
    scene.scaleway().add_hosts(1, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.ready_machines(0).await?;
    scene.all_in_pool(1).await?;

    let document = |arguments: &[&str]| -> Result<Value> {
        Ok(serde_json::from_str(&controller.look(&[arguments, &["--output=json"]].concat())?)?)
    };
    let decisions = document(&["decisions", "--slot=release"])?;
    let decision = decisions["decisions"][0]["id"].as_str().context("a decision of the release")?.to_owned();
    let words = controller.look(&["decisions", &decision])?;
    for part in ["its owner released it", "return it to its pool", "what the host did"] {
        ensure!(words.contains(part), "no {part:?} in {words}");
    }
    ensure!(controller.look(&["decisions", "--output=name"])?.lines().any(|id| id == decision), "no {decision}");
    let operations = document(&["operations"])?;
    let operation = operations["operations"][0]["id"].as_str().context("an operation")?.to_owned();
    let words = controller.look(&["operations", &operation])?;
    ensure!(words.contains("release") && words.contains("done") && words.contains("steps"), "{words}");
    let policies = document(&["policies"])?;
    let slots = policies["hosts"][0]["policies"].as_array().context("the host that runs")?.len();
    ensure!(slots >= 6, "{policies}");
    ensure!(controller.look(&["policies"])?.contains("deciding"), "in words");
    let unknown = controller.look(&["operations", "ci-000000000000"]).err().context("it is unknown")?.to_string();
    ensure!(
        unknown.contains("there is no operation") && unknown.contains("windlass-controller operations"),
        "{unknown}"
    );
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_get_their_own_system_or_the_default_of_their_type_as_the_setting_says() -> Result<()> {
    const OWN: &str = "macos-tahoe-26.0";
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "pool-system").await?;
    let pool = AppleSiliconPool::new(MachineOptions::POOL, 1, MachineOptions::TYPE)?.with_operating_system(OWN)?;
    scene.scaleway().simulator().add_apple_silicon_pool(&pool);
    let system = || scene.scaleway().simulator().resources().apple_silicon_servers[0]["os"]["name"].clone();
    for (setting, expected) in [("host", OWN), ("type-default", "macos-sequoia-15.6")] {
        let settings = json!({"policies": {"release": {"settings": {"pool-operating-system": setting}}}});
        let mut controller = scene.start(&ControllerOptions::configured(settings)).await?;
        scene.apply(&MachineOptions::default().machine("mac")).await?;
        scene.ready_machines(1).await?;
        ensure!(system() == OWN, "{setting}: an adoption changes nothing: {}", system());
        scene.delete(Kind::AppleSiliconMachine, "mac").await?;
        scene.gone(Kind::AppleSiliconMachine, "mac").await?;
        scene.all_in_pool(1).await?;
        ensure!(system() == expected, "{setting}: {}", system());
        controller.stop()?;
    }
    scene.end().await
}
