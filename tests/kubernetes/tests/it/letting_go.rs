//! The section of docs/kubernetes-troubleshooting.md about objects that have to go now: its lines, as they stand there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, User};

/// Scaleway's command line, as far as the page uses it.
const SCW: &str = r#"
scw() {
  [ "$1 $2 $3" = "apple-silicon server update" ] || { echo "scw $*" >&2; return 64; }
  local id=$4 zone=${5#zone=} name=${6#name=}
  curl -sSf --max-time 300 -X PATCH -H "X-Auth-Token: 11111111-1111-4111-8111-111111111111" \
    -H "Content-Type: application/json" -d "{\"name\": \"$name\"}" \
    "$SCALEWAY/apple-silicon/v1alpha1/zones/$zone/servers/$id"
}
"#;

/// The section's inline commands and its blocks, in their order.
fn commands() -> Result<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kubernetes-troubleshooting.md");
    let page = std::fs::read_to_string(page)?;
    let (_, section) = page.split_once("## Remove a stuck object\n").context("the section is gone")?;
    let section = section.split("\n#").next().unwrap_or_default();
    let asked = section.split('`').find(|code| code.starts_with("kubectl -n ci annotate")).context("no annotation")?;
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split_once("```").map(|(block, _)| block));
    Ok(std::iter::once(asked).chain(blocks).map(str::to_owned).collect())
}

/// Runs a command of the page for one machine, with these words in the place of those that stand for something.
fn run(scene: &Scene<'_>, machine: &str, command: &str, stand_for: &[(&str, &str)]) -> Result<String> {
    let mut command = command.replace("-n ci", &format!("-n {}", scene.namespace()));
    command = command.replace(" asm mac ", &format!(" asm {machine} "));
    for (word, value) in stand_for {
        command = command.replace(word, value);
    }
    let programs = scene.plane().programs().path("kubectl");
    let programs = programs.parent().context("a folder")?;
    let path = format!("{}:{}", programs.display(), std::env::var("PATH")?);
    let ran = Command::new("bash")
        .args(["-euc", &format!("{SCW}\n{command}")])
        .env("PATH", path)
        .env("KUBECONFIG", scene.plane().kubeconfig_file(User::Admin))
        .env("SCALEWAY", scene.scaleway().url())
        .output()?;
    if !ran.status.success() {
        bail!("{command}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(String::from_utf8(ran.stdout)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ways_of_the_page_let_an_object_go_and_touch_no_host() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "letting-go").await?;
    scene.scaleway().add_hosts(3, [])?;
    let mut controller = scene.start(&ControllerOptions::default()).await?;
    for name in ["kept", "renamed", "late"] {
        scene.apply(&MachineOptions::default().machine(name)).await?;
    }
    scene.ready_machines(3).await?;
    let commands = commands()?;
    let [keep, rename, patch] = commands.as_slice() else { bail!("{commands:?}") };
    // The lines that look and the lines that change are shown together; what the first print stands in the second.
    let (see_host, rename) = rename.trim().split_once('\n').context("two lines")?;
    let (see_object, patch) = patch.trim().split_once('\n').context("a line, and a patch")?;

    let claims: Vec<String> = scene.scaleway().hosts().iter().map(|host| host.name.clone()).collect();
    run(&scene, "kept", keep, &[])?;
    scene.delete(Kind::AppleSiliconMachine, "kept").await?;
    scene.gone(Kind::AppleSiliconMachine, "kept").await?;
    let names = || scene.scaleway().hosts().iter().map(|host| host.name.clone()).collect::<Vec<_>>();
    ensure!(names() == claims, "{:?}, and before {claims:?}", names());
    let asked = controller.look(&["decisions", "--slot=release", "--output=name"])?.lines().count();

    let rename_host = |machine: &str| -> Result<String> {
        let seen = run(&scene, machine, see_host, &[])?;
        let [zone, id, name] = seen.split_whitespace().collect::<Vec<_>>()[..] else { bail!("{seen}") };
        ensure!(scene.scaleway().host(id)?.name == name, "{seen}");
        run(&scene, machine, rename, &[("SERVER_ID", id), ("ZONE", zone)])?;
        ensure!(scene.scaleway().host(id)?.name == "by-hand");
        Ok(id.to_owned())
    };
    rename_host("renamed")?;
    scene.delete(Kind::AppleSiliconMachine, "renamed").await?;
    scene.gone(Kind::AppleSiliconMachine, "renamed").await?;
    let asked_after = controller.look(&["decisions", "--slot=release", "--output=name"])?.lines().count();
    ensure!(asked == asked_after, "a policy was asked about a host that is nobody's");

    controller.stop()?;
    scene.delete(Kind::AppleSiliconMachine, "late").await?;
    rename_host("late")?;
    let wrong = run(&scene, "late", patch, &[("UID", "00000000-0000-4000-8000-000000000000")]);
    ensure!(wrong.is_err(), "another object's finalizer was taken away: {wrong:?}");
    let api = scene.api(Kind::AppleSiliconMachine);
    ensure!(api.get_opt("late").await?.is_some());
    let seen = run(&scene, "late", see_object, &[])?;
    run(&scene, "late", patch, &[("UID", seen.split_whitespace().next().context("a UID")?)])?;
    scene.gone(Kind::AppleSiliconMachine, "late").await?;
    ensure!(scene.scaleway().hosts().iter().all(|host| host.wiped_as.is_empty() && !host.deletion_scheduled));
    scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_object_goes_at_once_and_its_event_names_the_host() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "abandoned").await?;
    scene.scaleway().add_hosts(1, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().annotated("windlass.dev/abandon", "kept for a look").machine("mac")).await?;
    let machine = scene.ready_machines(1).await?.remove(0);
    let id = machine.data["status"]["serverID"].as_str().context("an id")?.to_owned();
    let before = scene.scaleway().host(&id)?.name;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    let events = scene.events("mac").await?;
    let is_abandonment = |event: &&String| event.starts_with("Warning Abandoned: ") && event.contains(&id);
    ensure!(events.iter().filter(is_abandonment).all(|event| event.contains("kept for a look")), "{events:#?}");
    ensure!(events.iter().filter(is_abandonment).count() == 1, "{events:#?}");
    let asked = controller.look(&["decisions", "--slot=release", "--output=name"])?;
    ensure!(asked.is_empty(), "a policy was asked: {asked}");
    let host = scene.scaleway().host(&id)?;
    ensure!(host.name == before && host.wiped_as.is_empty() && !host.deletion_scheduled, "{host:?}");
    scene.end().await
}
