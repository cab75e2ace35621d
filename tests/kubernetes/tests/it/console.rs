//! The console of a running controller: it shows what was done, to nobody else than it is to, and no secret.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, eventually};
use windlass_test_pages::{Secrets, Viewer};

const TOKEN: &str = "a token of the administrator's: 0123456789";
const CLOUD_INIT: &str = "#cloud-config\nchpasswd: {list: \"root:pass&word<of>first\\\"boot\"}\n";
/// Of a tenant's own account.
const KEY: &str = "22222222-5ec7-4111-8111-222222222222";
/// What every controller here has (tests/kubernetes/src/controller.rs).
const OPERATORS_KEY: &str = "11111111-1111-4111-8111-111111111111";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_controller_shows_what_it_did_and_no_page_shows_a_secret() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "console").await?;
    scene.scaleway().add_hosts(1, [])?;
    let token = scene.folder().join("token");
    std::fs::write(&token, TOKEN)?;
    let options = ControllerOptions::default()
        .argument("--console-bind-address=0.0.0.0:0")
        .argument(&format!("--console-token-file={}", token.display()))
        .argument("--console-allow-host=windlass-controller-console.windlass-system.svc");
    let controller = scene.start(&options).await?;

    let secret = |name: &str, data: serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
    scene.apply(&secret("boot", json!({"value": CLOUD_INIT}))).await?;
    let project = "aaaaaaaa-0000-4000-8000-000000000001";
    scene.apply(&secret("team", json!({"SCW_SECRET_KEY": KEY, "SCW_DEFAULT_PROJECT_ID": project}))).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    let instance = |name: &str, more: serde_json::Value| {
        let mut object = json!({"apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine",
            "metadata": {"name": name}, "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1",
            "bootstrap": {"dataSecretName": "boot"}}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        object
    };
    scene.apply(&instance("server", json!({}))).await?;
    scene.apply(&instance("of-a-team", json!({"credentialsRef": {"name": "team"}}))).await?;
    scene.ready_machines(1).await?;
    for name in ["server", "of-a-team"] {
        eventually(&format!("{name} is ready"), || async {
            let machine = scene.api(Kind::InstanceMachine).get(name).await?;
            ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
            Ok(())
        })
        .await?;
    }
    let credentials = scene.api(Kind::Secret).get("mac-credentials").await?;
    let password = credentials.data["data"]["sudo-password"].as_str().context("a password")?;
    let password = String::from_utf8(STANDARD.decode(password)?)?;

    let log = controller.log();
    let line = log.lines().find(|line| line.contains("the console is served")).context("not served")?;
    let url = line.split('"').find(|part| part.starts_with("http://")).with_context(|| line.to_owned())?;
    let anybody = Viewer::of(url);
    let (pages, viewer) = tokio::task::spawn_blocking(move || -> Result<_> {
        ensure!(anybody.status("/")? == 401);
        let viewer = anybody.token(TOKEN);
        ensure!(viewer.clone().asking("evil.example").status("/")? == 421);
        ensure!(viewer.clone().with("origin", "http://evil.example").status("/")? == 403);
        ensure!(viewer.clone().asking("windlass-controller-console.windlass-system.svc:7474").status("/")? == 200);
        Ok((viewer.crawl()?, viewer))
    })
    .await??;
    eventually("the page tells what the servers cost", || {
        let viewer = viewer.clone();
        async move {
            let page = tokio::task::spawn_blocking(move || viewer.get("/")).await??.text;
            ensure!(
                page.contains(" €</strong> an hour, by the catalogue") && !page.contains("<strong>0.0000"),
                "{page}"
            );
            Ok(())
        }
    })
    .await?;
    ensure!(pages.keys().filter(|path| path.starts_with("/operations/")).count() >= 2, "{:?}", pages.keys());
    ensure!(pages["/policies"].contains("release"), "{}", pages["/policies"]);
    let secrets = Secrets::new([
        ("the operator's key", OPERATORS_KEY),
        ("the team's key", KEY),
        ("the first boot", CLOUD_INIT),
        ("the Mac's password", &password),
        ("the token", TOKEN),
    ]);
    for (path, page) in &pages {
        ensure!(secrets.shown_by(page).is_empty(), "{:?} on {path}: {page}", secrets.shown_by(page));
    }
    ensure!(secrets.shown_by(&controller.log()).is_empty(), "{:?} in the log", secrets.shown_by(&controller.log()));
    drop(controller);
    scene.end().await
}
