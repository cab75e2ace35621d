//! The Helm chart, installed with Helm into a cluster that has nothing of ours, and the controller run as the chart
//! says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_test_guests::{HOSTILE, RELEASE};
use windlass_test_kubernetes::{ControlPlane, Kind, MachineOptions, Pod, Programs, Scene, User, eventually};
use windlass_test_postgres::Server;

/// Not the namespace of the kustomization: the chart is to work in any.
const SYSTEM: &str = "macs-system";
const RELEASE_NAME: &str = "windlass";

/// What belongs to one installation.
struct Installation<'plane> {
    scene: Scene<'plane>,
    chart: String,
    node: PathBuf,
}

impl<'plane> Installation<'plane> {
    /// The namespace, the credentials and the policies, made before the chart as the documentation says.
    async fn prepare(plane: &'plane ControlPlane) -> Result<Self> {
        let scene = Scene::new(plane, "helm").await?;
        scene.scaleway().add_hosts(2, [])?;
        plane.kubectl(User::Admin, &["create", "namespace", SYSTEM], "")?;
        let credentials = [
            "--from-literal=SCW_ACCESS_KEY=SCWXXXXXXXXXXXXXXXXX",
            "--from-literal=SCW_SECRET_KEY=11111111-1111-4111-8111-111111111111",
            "--from-literal=SCW_DEFAULT_PROJECT_ID=7d0e3a4c-0000-4000-8000-000000000001",
            &format!("--from-literal=SCW_API_URL={}", scene.scaleway().url()),
        ];
        let create = |what: &[&str], from: &[&str]| {
            let arguments = [&["create", "--namespace", SYSTEM], what, from].concat();
            plane.kubectl(User::Admin, &arguments, "")
        };
        create(&["secret", "generic", "windlass-scaleway-credentials"], &credentials)?;
        let policies = [HOSTILE.write_to(scene.folder())?, RELEASE.write_to(scene.folder())?]
            .map(|path| format!("--from-file={}", path.display()));
        create(&["configmap", "team-policies"], &policies.each_ref().map(String::as_str))?;
        // That of a release is pulled from the registry that `tests/release/run` published it in.
        let chart = std::env::var("WINDLASS_CHART")
            .unwrap_or_else(|_| plane.programs().deploy("helm/windlass-controller").display().to_string());
        let node = scene.folder().join("node");
        Ok(Self { scene, chart, node })
    }

    /// `helm install` or `helm upgrade` with these values.
    fn helm(&self, verb: &str, values: Value) -> Result<()> {
        self.run_helm(&[verb], values).map(drop)
    }

    /// Helm with these values beside those that make waiting short.
    fn run_helm(&self, verb: &[&str], values: Value) -> Result<String> {
        let mut all = json!({
            "poolPrefix": MachineOptions::POOL,
            "owner": "helm-team",
            "policyVolume": {"configMap": {"name": "team-policies"}},
            "extraArgs": ["--listing-interval=1s", "--retry-interval=1s"],
        });
        for (key, value) in values.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let file = self.scene.folder().join("values.json");
        std::fs::write(&file, all.to_string())?;
        let file = file.to_str().context("UTF-8")?;
        let further = [RELEASE_NAME, self.chart.as_str(), "--namespace", SYSTEM, "--values", file];
        let plain: &[&str] = if self.chart.starts_with("oci://") { &["--plain-http"] } else { &[] };
        self.scene.plane().helm(&[verb, &further, plain].concat())
    }

    /// What a kubelet would do with the chart's Deployment.
    async fn run(&self) -> Result<Pod> {
        self.run_on(&self.node).await
    }

    async fn run_on(&self, node: &Path) -> Result<Pod> {
        let plane = self.scene.plane();
        let program = plane.programs().controller();
        let mut pod = Pod::start(plane, program, SYSTEM, "windlass-controller", node).await?;
        pod.ready().await?;
        Ok(pod)
    }

    /// The digest of the release policy that decides for the machine.
    async fn digest(&self) -> Result<String> {
        let machine = self.scene.api(Kind::AppleSiliconMachine).get("mac").await?;
        let policies = machine.data["status"]["policies"].as_array().cloned().unwrap_or_default();
        let release = policies.iter().find(|policy| policy["slot"] == "release").context("no release policy")?;
        Ok(format!("{} with {}", release["digest"], release["settingsDigest"]))
    }
}

/// Every object of the cluster but events, as `<kind> <namespace>/<name>`.
fn everything(plane: &ControlPlane) -> Result<BTreeSet<String>> {
    let kinds = plane.kubectl(User::Admin, &["api-resources", "--verbs=list", "--output=name"], "")?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let line = r#"jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\n"}{end}"#;
    let objects = plane.kubectl(User::Admin, &["get", &kinds.join(","), "--all-namespaces", "--output", line], "")?;
    Ok(objects.lines().map(str::to_owned).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_runs_takes_new_values_and_leaves_hosts_alone_when_it_goes() -> Result<()> {
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::bare(programs).await?;
    let installation = Installation::prepare(&plane).await?;
    let scene = &installation.scene;
    let before = everything(&plane)?;

    installation.helm("install", json!({"policies": {"release": {"path": "/policies/hostile.wasm"}}}))?;
    let mut pod = installation.run().await?;
    ensure!(pod.arguments().contains(&"--pool-prefix=ci-pool-".to_owned()), "{:?}", pod.arguments());
    // Zone and pool stand in the chart's values only.
    let mut machine = MachineOptions::default().machine("mac");
    let specification = machine["spec"].as_object_mut().context("a specification")?;
    specification.retain(|field, _| field == "type");
    scene.apply(&machine).await?;
    let ready = scene.ready_machines(1).await?.remove(0);
    let host = ready.data["spec"]["providerID"].clone();
    ensure!(ready.annotations()["windlass.dev/claim"].starts_with("helm-team-mac-"), "{:?}", ready.annotations());
    let first = eventually("the policy's digest stands in the status", || installation.digest()).await?;
    let lease = ["get", "lease", "windlass-controller", "-n", "kube-system", "-o", "jsonpath={.spec}"];
    let lease = plane.kubectl(User::Admin, &lease, "")?;
    ensure!(lease.contains("windlass-controller-0"), "the pod does not lead: {lease}");
    ensure!(pod.get("metrics", "/metrics").await?.contains("windlass_leader 1"), "it does not say that it leads");

    // Other values: the Deployment is another, and the new pod works by them.
    let settings = json!({"release": {"path": "/policies/release.wasm", "settings": {"reboot-after-failures": 2}}});
    installation.helm("upgrade", json!({"policies": settings, "orphans": "return", "allowOrders": true}))?;
    ensure!(pod.stop()?.success(), "{}", pod.log());
    let touched = scene.scaleway().changes();
    let mut pod = installation.run().await?;
    for argument in ["--orphans=return", "--allow-orders"] {
        ensure!(pod.arguments().iter().any(|there| there == argument), "{argument}: {:?}", pod.arguments());
    }
    eventually("the new policy decides", || async {
        let digest = installation.digest().await?;
        ensure!(digest != first, "{digest}");
        Ok(())
    })
    .await?;
    let machine = scene.ready_machines(1).await?.remove(0);
    ensure!(machine.data["spec"]["providerID"] == host && scene.scaleway().changes() == touched, "a host was touched");
    scene.check_hosts(&[]).await?;

    // Without its controller a machine waits: nothing happens to its host, and nothing is forgotten.
    ensure!(pod.stop()?.success());
    let uninstall = || plane.helm(&["uninstall", RELEASE_NAME, "--namespace", SYSTEM]);
    uninstall()?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    let waiting = scene.api(Kind::AppleSiliconMachine).get("mac").await?;
    ensure!(waiting.metadata.deletion_timestamp.is_some() && !waiting.finalizers().is_empty());
    ensure!(scene.scaleway().changes() == touched, "{:?}", scene.scaleway().changes());

    // The next release takes the volume over, ends what waits, and goes without a trace but those that the docs name.
    installation.helm("install", json!({}))?;
    let mut pod = installation.run().await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    ensure!(pod.stop()?.success());
    uninstall()?;
    eventually("what is left is what the docs name", || async {
        let named: BTreeSet<String> = (plane.programs().definitions()?.into_iter())
            .map(|name| format!("CustomResourceDefinition /{name}"))
            .chain([
                "APIService /v1alpha1.infrastructure.windlass.dev".to_owned(),
                format!("PersistentVolumeClaim {SYSTEM}/windlass-state"),
                "Lease kube-system/windlass-controller".to_owned(),
            ])
            .collect();
        let left: BTreeSet<String> = everything(&plane)?.difference(&before).cloned().collect();
        ensure!(left == named, "left: {left:#?}");
        Ok(())
    })
    .await?;
    installation.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_with_a_database_claims_no_volume_and_continues_on_another_node() -> Result<()> {
    let Some(server) = Server::start() else { return Ok(()) };
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::bare(programs).await?;
    let installation = Installation::prepare(&plane).await?;
    let scene = &installation.scene;
    let refused = installation.run_helm(&["template"], json!({"replicas": 2}));
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("state.secretName")));
    let url = format!("--from-literal=url={}", server.url("windlass"));
    let secret = ["create", "--namespace", SYSTEM, "secret", "generic", "windlass-database", &url];
    plane.kubectl(User::Admin, &secret, "")?;
    installation.helm("install", json!({"replicas": 2, "state": {"secretName": "windlass-database"}}))?;
    let claims = plane.kubectl(User::Admin, &["get", "persistentvolumeclaims", "-A", "-o", "name"], "")?;
    ensure!(claims.is_empty(), "{claims}");
    let mut pod = installation.run().await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    ensure!(pod.stop()?.success(), "{}", pod.log());
    let operations = || server.execute("select count(*) from windlass.streams where family = 'operation'");
    let adopted = operations();
    ensure!(adopted != "0", "the journal is not in the database");
    // The rights of the chart are enough for each shard.
    installation.helm("upgrade", json!({"shards": 3, "state": {"secretName": "windlass-database"}}))?;
    let mut pod = installation.run_on(&scene.folder().join("other-node")).await?;
    eventually("it holds all shards", || async {
        let metrics = pod.get("metrics", "/metrics").await?;
        let is_held = |shard: u32| metrics.contains(&format!("windlass_leader{{shard=\"{shard}\"}} 1\n"));
        ensure!((0..3).all(is_held), "{}", pod.log());
        Ok(())
    })
    .await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    ensure!(pod.stop()?.success(), "{}", pod.log());
    ensure!(operations() != adopted, "the journal went on elsewhere");
    installation.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_for_one_namespace_grants_nothing_elsewhere_and_secrets_where_the_values_say_so() -> Result<()> {
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::bare(programs).await?;
    let installation = Installation::prepare(&plane).await?;
    let scene = &installation.scene;
    let elsewhere = scene.neighbour("elsewhere").await?;
    let account = format!("--as=system:serviceaccount:{SYSTEM}:windlass-controller");
    let may = |verb: &str, what: &str, namespace: &str| {
        let scope = format!("--namespace={namespace}");
        plane.kubectl(User::Admin, &["auth", "can-i", verb, what, &scope, &account, "--quiet"], "").is_ok()
    };
    let machines = "applesiliconmachines.infrastructure.windlass.dev";

    installation.helm("install", json!({"watchNamespace": scene.namespace(), "owner": ""}))?;
    for (verb, what) in [("get", "secrets"), ("create", "secrets"), ("watch", machines), ("create", "jobs.batch")] {
        ensure!(may(verb, what, scene.namespace()), "it may not {verb} {what}");
        for namespace in [elsewhere.namespace(), SYSTEM, "kube-system"] {
            ensure!(!may(verb, what, namespace), "it may {verb} {what} in {namespace}");
        }
    }
    let mine = format!("leases.coordination.k8s.io/windlass-controller-{}", scene.namespace());
    ensure!(may("update", &mine, "kube-system") && !may("update", "leases.coordination.k8s.io", "kube-system"));
    ensure!(!may("update", "leases.coordination.k8s.io/windlass-controller", "kube-system"));
    let mut pod = installation.run().await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    ensure!(pod.stop()?.success(), "{}", pod.log());

    // All namespaces, and Secrets in one of them.
    installation.helm("upgrade", json!({"secretNamespaces": [scene.namespace()]}))?;
    for namespace in [scene.namespace(), elsewhere.namespace()] {
        ensure!(may("watch", machines, namespace), "it may not watch machines in {namespace}");
    }
    for verb in ["get", "create", "patch"] {
        ensure!(may(verb, "secrets", scene.namespace()) && !may(verb, "secrets", elsewhere.namespace()), "{verb}");
    }
    let mut pod = installation.run().await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    scene.all_in_pool(2).await?;
    ensure!(pod.stop()?.success(), "{}", pod.log());

    // What has a label, of all namespaces and of one; and no remediation.
    let lease = |filter: &str| format!("leases.coordination.k8s.io/windlass-controller{filter}");
    let remediations = "machineremediations.infrastructure.windlass.dev";
    ensure!(may("watch", remediations, scene.namespace()));
    for watched in ["", scene.namespace()] {
        let values = json!({"watchFilter": "blue", "watchNamespace": watched, "owner": "", "remediation": false});
        installation.helm("upgrade", values)?;
        let name = if watched.is_empty() { ".blue".to_owned() } else { format!("-{watched}.blue") };
        ensure!(may("update", &lease(&name), "kube-system") && !may("update", &lease(""), "kube-system"), "{name}");
        ensure!(!may("watch", remediations, scene.namespace()) && may("watch", machines, scene.namespace()));
        let mut pod = installation.run().await?;
        let mut machine = MachineOptions::default().machine("mac");
        machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/watch-filter": "blue"});
        scene.apply(&machine).await?;
        scene.ready_machines(1).await?;
        scene.delete(Kind::AppleSiliconMachine, "mac").await?;
        scene.gone(Kind::AppleSiliconMachine, "mac").await?;
        scene.all_in_pool(2).await?;
        ensure!(pod.stop()?.success(), "{}", pod.log());
    }
    elsewhere.end().await?;
    installation.scene.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_chart_renders_without_a_cluster_is_applied_and_shows_no_drift_while_the_controller_works()
-> Result<()> {
    let Some(programs) = Programs::found() else { return Ok(()) };
    let plane = ControlPlane::bare(programs).await?;
    let installation = Installation::prepare(&plane).await?;
    let scene = &installation.scene;
    // As Argo CD does it: Helm only renders.
    let render = || {
        let values = json!({"remediation": true, "limits": [{"servers": 1}], "networkPolicy": {"enabled": true}});
        installation.run_helm(&["template", "--include-crds"], values)
    };
    let rendered = render()?;
    ensure!(rendered == render()?, "it renders something else each time");
    for (policies, expected) in [(Value::Null, "{}"), (json!({"labels": ["team"]}), r#"{"labels":["team"]}"#)] {
        let rendered = installation.run_helm(&["template"], json!({"policies": policies}))?;
        ensure!(rendered.contains(&format!("policies: {expected}\n")), "{policies}: {rendered}");
    }
    let compare = |verb: &str| {
        let arguments = [verb, "--server-side", "--force-conflicts", "--namespace", SYSTEM, "--filename=-"];
        plane.kubectl(User::Admin, &arguments, &rendered)
    };
    compare("apply")?;
    let mut pod = installation.run().await?;
    scene.apply(&MachineOptions::default().machine("mac")).await?;
    scene.ready_machines(1).await?;
    compare("diff").context("what is there differs from what is rendered")?;
    scene.delete(Kind::AppleSiliconMachine, "mac").await?;
    scene.gone(Kind::AppleSiliconMachine, "mac").await?;
    ensure!(pod.stop()?.success(), "{}", pod.log());
    installation.scene.end().await
}
