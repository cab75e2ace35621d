//! A later version of our definitions: what docs/versions.md says about the way there.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_test_kubernetes::{
    ControlPlane, ControllerOptions, Kind, MachineOptions, Programs, Scene, User, eventually,
};

fn get(plane: &ControlPlane, arguments: &[&str]) -> Result<Value> {
    let text = plane.kubectl(User::Admin, &[&["get", "--output=json"], arguments].concat(), "")?;
    Ok(serde_json::from_str(&text)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_stored_in_a_later_version_while_the_controller_works_on() -> Result<()> {
    // Its own control plane: the definitions are everybody's.
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::start(programs, false).await?;
    let scene = Scene::new(&plane, "later").await?;
    let host = scene.scaleway().add_hosts(1, [])?.remove(0);
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    let calls = scene.scaleway().changes().len();

    // The later version is served beside the first one, and objects are written in it from now on.
    for name in plane.programs().definitions()? {
        let mut definition = get(&plane, &["crd", &name])?;
        let versions = definition["spec"]["versions"].as_array_mut().context("no versions")?;
        let mut later = versions[0].clone();
        ensure!(versions.len() == 1 && later["name"] == "v1alpha1", "{name}: {versions:#?}");
        later["name"] = json!("v1beta1");
        versions[0]["storage"] = json!(false);
        versions.push(later);
        let patch = json!({"spec": {"versions": versions}}).to_string();
        plane.kubectl(User::Admin, &["patch", "crd", &name, "--type=merge", "--patch", &patch], "")?;
    }
    let resource = "applesiliconmachines.v1beta1.infrastructure.windlass.dev";
    let later = eventually("the object is served in the later version", || async {
        get(&plane, &[resource, "mac", "--namespace", scene.namespace()])
    })
    .await?;
    ensure!(later["status"]["serverID"] == host, "{later:#}");

    // Each object is written once, then nothing is stored in the first version any more.
    for name in plane.programs().definitions()? {
        let resource = name.replacen('.', ".v1beta1.", 1);
        eventually(&format!("every object of {name} is written anew"), || async {
            let objects = get(&plane, &[&resource, "--all-namespaces"])?;
            if objects["items"].as_array().is_some_and(|items| !items.is_empty()) {
                plane.kubectl(User::Admin, &["replace", "--filename", "-"], &objects.to_string())?;
            }
            Ok(())
        })
        .await?;
        let stored = r#"{"status": {"storedVersions": ["v1beta1"]}}"#;
        let arguments = ["patch", "crd", &name, "--subresource=status", "--type=merge", "--patch", stored];
        plane.kubectl(User::Admin, &arguments, "")?;
    }
    scene.looked_at_again(&controller, Kind::AppleSiliconMachine, "mac").await?;
    ensure!(scene.scaleway().changes().len() == calls, "{:?}", scene.scaleway().changes());
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(1).await?;
    scene.end().await
}
