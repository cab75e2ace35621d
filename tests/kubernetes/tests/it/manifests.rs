//! What is handed out for installing: it applies, it renders, and its rights are the least.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, User};

/// Whether `user` may do `verb` on `resource`, in `namespace` or everywhere.
fn may(plane: &ControlPlane, verb: &str, resource: &str, namespace: Option<&str>) -> bool {
    let scope = namespace.map_or_else(|| "--all-namespaces".to_owned(), |name| format!("--namespace={name}"));
    // Behind a slash kubectl would read a name.
    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
    let part = format!("--subresource={part}");
    plane.kubectl(User::Controller, &["auth", "can-i", verb, resource, &part, &scope, "--quiet"], "").is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_are_those_that_are_used_and_no_others() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    for (verb, resource) in [
        ("watch", "applesiliconmachines.infrastructure.windlass.dev"),
        ("patch", "applesiliconmachines.infrastructure.windlass.dev/status"),
        ("get", "machines.cluster.x-k8s.io"),
        ("patch", "machines.cluster.x-k8s.io/status"),
        ("patch", "machineremediations.infrastructure.windlass.dev/status"),
        ("patch", "instancemachinetemplates.infrastructure.windlass.dev/status"),
        ("get", "clusters.cluster.x-k8s.io"),
        ("watch", "policies.infrastructure.windlass.dev"),
        ("list", "clusterpolicies.infrastructure.windlass.dev"),
        ("patch", "clusterpolicies.infrastructure.windlass.dev/status"),
        ("create", "events.events.k8s.io"),
        ("update", "serverclusters.infrastructure.windlass.dev/status"),
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "configmaps"),
        ("get", "configmaps"),
        ("list", "pods"),
    ] {
        ensure!(may(plane, verb, resource, None), "it may not {verb} {resource}");
    }
    for (verb, resource) in [
        ("create", "applesiliconmachines.infrastructure.windlass.dev"),
        ("delete", "applesiliconmachines.infrastructure.windlass.dev"),
        ("delete", "machines.cluster.x-k8s.io"),
        ("update", "machines.cluster.x-k8s.io"),
        ("patch", "machines.cluster.x-k8s.io"),
        ("patch", "policies.infrastructure.windlass.dev"),
        ("create", "clusterpolicies.infrastructure.windlass.dev"),
        ("delete", "machineremediations.infrastructure.windlass.dev"),
        ("patch", "machineremediations.infrastructure.windlass.dev"),
        ("patch", "instancemachinetemplates.infrastructure.windlass.dev"),
        ("delete", "clusters.cluster.x-k8s.io"),
        ("create", "pods"),
        ("get", "pods"),
        ("get", "pods/log"),
        ("delete", "pods"),
        ("patch", "jobs.batch"),
        ("list", "configmaps"),
        ("delete", "configmaps"),
        ("create", "serverclusters.infrastructure.windlass.dev"),
        ("delete", "serverclusters.infrastructure.windlass.dev"),
        ("update", "serverclusters.infrastructure.windlass.dev"),
        ("delete", "nodes"),
        ("watch", "secrets"),
        ("list", "secrets"),
        ("delete", "namespaces"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
        ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
        ("impersonate", "users"),
        ("*", "*"),
    ] {
        ensure!(!may(plane, verb, resource, None), "it may {verb} {resource}");
    }
    ensure!(!may(plane, "update", "leases.coordination.k8s.io", Some("kube-system")), "somebody else's Leases");
    ensure!(may(plane, "patch", "leases.coordination.k8s.io", Some("windlass-system")), "its own Lease");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deployment_s_flags_are_ones_that_the_program_knows() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let folder = plane.programs().deploy("base");
    let rendered = plane.kubectl(User::Admin, &["kustomize", folder.to_str().context("UTF-8")?], "")?;
    let help = std::process::Command::new(plane.programs().controller()).arg("--help").output()?;
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let flags: Vec<&str> = rendered
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- --"))
        .map(|flag| flag.split(['=', ' ']).next().unwrap_or_default())
        .collect();
    ensure!(!flags.is_empty(), "no flags in\n{rendered}");
    for flag in flags {
        ensure!(help.contains(&format!("--{flag}")), "--{flag} is unknown:\n{help}");
    }
    ensure!(rendered.contains("name: manager"), "clusterctl looks for a container of that name");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_is_sound_and_the_api_server_takes_what_it_renders() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let chart = plane.programs().deploy("helm/windlass-controller");
    let chart = chart.to_str().context("UTF-8")?;
    plane.helm(&["lint", "--strict", chart])?;
    let rendered = plane.helm(&["template", "windlass", chart, "--namespace", "windlass-system", "--include-crds"])?;
    // The API server's own judgement of every field, without making anything.
    plane.kubectl(
        User::Admin,
        &["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"],
        &rendered,
    )?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_takes_what_the_chart_renders_of_every_value_and_the_schema_refuses_what_is_none() -> Result<()>
{
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let chart = plane.programs().deploy("helm/windlass-controller");
    let chart = chart.to_str().context("UTF-8")?;
    let render = |values: &[&str]| {
        plane.helm(&[&["template", "windlass", chart, "--namespace=windlass-system"], values].concat())
    };
    let all = [
        "--set=annotations.team=infra",
        "--set=serviceAccount.annotations.role=windlass",
        "--set=priorityClassName=system-cluster-critical",
        "--set=extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128",
        "--set=networkPolicy.enabled=true",
        "--set=persistence.enabled=false",
        "--set=grafanaDashboard.enabled=true",
        "--set=namespaceCredentials=scaleway,requireNamespaceCredentials=true",
        "--set=registryCredentials=registry",
        "--set=serverClusters.webhookNetworks={10.1.0.0/16}",
        "--set=watchFilter=blue,orderedHosts=delete,waitForWipe=false,setUp=false,remediation=false",
        r#"--set-json=limits=[{"costPerHour":1,"prices":{"NOVEL1-S":0.5}}]"#,
        "--set=policies.release.path=oci://registry.example/team/release:1,policies.trust.keys.release=RWQ",
    ];
    let rendered = render(&all)?;
    let apply =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-"];
    plane.kubectl(User::Admin, &apply, &rendered)?;
    let parts = [
        "team: infra",
        "role: windlass",
        "priorityClassName: system-cluster-critical",
        "value: http://proxy:3128",
        "kind: NetworkPolicy",
        "emptyDir: {}",
        "grafana_dashboard: \"1\"",
        "--require-namespace-credentials",
        "--webhook-network=10.1.0.0/16",
        "--watch-filter=blue",
        "--ordered-hosts=delete",
        "--wait-for-wipe=false",
        "--set-up=false",
        "--remediation=false",
        r#""prices":{"NOVEL1-S":0.5}"#,
        "DOCKER_CONFIG",
        "secretName: registry",
        r#""trust":{"keys":{"release":"RWQ"}}"#,
    ];
    for part in parts {
        ensure!(rendered.contains(part), "no {part:?} in {rendered}");
    }
    ensure!(!rendered.contains("PersistentVolumeClaim"), "a volume that nobody wants");
    let rendered = objects(&rendered, &[])?;
    let dashboard = &rendered["ConfigMap windlass-controller-dashboard"]["data"]["windlass-controller.json"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().context("no dashboard")?)?;
    ensure!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 20), "{dashboard}");
    // Their kinds are the Prometheus operator's, which is not here: they are YAML, and hold what they are to hold.
    let monitoring = render(&["--set=prometheusRule.enabled=true", "--set=podMonitor.enabled=true"])?;
    let monitoring = objects(&monitoring, &[])?;
    let rule = &monitoring["PrometheusRule windlass-controller"]["spec"]["groups"][0]["rules"];
    ensure!(rule.as_array().is_some_and(|rules| rules.len() > 10), "{rule}");
    let monitor = &monitoring["PodMonitor windlass-controller"]["spec"];
    ensure!(monitor["selector"]["matchLabels"]["control-plane"] == "windlass-controller", "{monitor}");
    let job = &monitor["podMetricsEndpoints"][0]["relabelings"][0];
    ensure!(*job == json!({"targetLabel": "job", "replacement": "windlass-controller-metrics"}), "{monitor}");
    ensure!(rule.to_string().contains(r#"up{job=\"windlass-controller-metrics\"}"#), "{rule}");
    the_console_is_as_it_is_wanted(&render, &|yaml| plane.kubectl(User::Admin, &apply, yaml).map(drop))?;
    for wrong in ["--set=extraEnv[0].value=x", "--set=networkPolicy.on=true", "--set=priorityClass=high"] {
        ensure!(render(&[wrong]).is_err(), "{wrong} is taken");
    }
    let alone =
        render(&["--set=requireNamespaceCredentials=true"]).err().context("a key that nobody names is required")?;
    ensure!(format!("{alone:#}").contains("requireNamespaceCredentials needs namespaceCredentials"), "{alone:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_chart_switches_off_needs_no_rights() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let chart = plane.programs().deploy("helm/windlass-controller");
    let chart = chart.to_str().context("UTF-8")?;
    // The rights, as `verb resource`, and the arguments.
    let render = |values: &[&str]| -> Result<(Vec<String>, String)> {
        let yaml = plane.helm(&[&["template", "windlass", chart, "--namespace=windlass-system"], values].concat())?;
        let objects = objects(&yaml, &[])?;
        let rules = objects["ClusterRole windlass-controller"]["rules"].as_array().cloned().unwrap_or_default();
        let words = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap_or_default() };
        let mut rights = Vec::new();
        for rule in rules {
            for verb in words(&rule["verbs"]) {
                rights.extend(words(&rule["resources"]).iter().map(|resource| format!("{verb} {resource}")));
            }
        }
        let container = &objects["Deployment windlass-controller"]["spec"]["template"]["spec"]["containers"][0];
        Ok((rights, container["args"].to_string()))
    };
    let has = |rights: &[String], right: &str| rights.iter().any(|one| one == right);
    let (all, _) = render(&[])?;
    for right in ["create jobs", "list pods", "create configmaps", "update serverclusters/status", "get configmaps"] {
        ensure!(has(&all, right), "no {right}: {all:?}");
    }
    let (without_jobs, arguments) = render(&["--set=serverClusters.hookJobs=false,serverClusters.webhooks=false"])?;
    for right in ["create jobs", "delete jobs", "list pods", "create configmaps"] {
        ensure!(!has(&without_jobs, right), "{right}: {without_jobs:?}");
    }
    ensure!(has(&without_jobs, "patch serverclusters") && has(&without_jobs, "get configmaps"), "{without_jobs:?}");
    ensure!(arguments.contains("--hook-jobs=false") && arguments.contains("--webhooks=false"), "{arguments}");
    let (without, arguments) = render(&["--set=serverClusters.enabled=false"])?;
    let of_clusters = |right: &&String| right.contains("serverclusters") || right.ends_with(" jobs");
    ensure!(!without.iter().any(|right| of_clusters(&right)), "{without:?}");
    ensure!(arguments.contains("--server-clusters=false"), "{arguments}");
    Ok(())
}

/// The console: off, in the pod alone, and behind a Service that nothing but a Secret opens.
fn the_console_is_as_it_is_wanted(
    render: &dyn Fn(&[&str]) -> Result<String>,
    is_taken: &dyn Fn(&str) -> Result<()>,
) -> Result<()> {
    let arguments = |objects: &BTreeMap<String, Value>| {
        let container = &objects["Deployment windlass-controller"]["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].as_array().cloned().unwrap_or_default();
        let console =
            |argument: &Value| argument.as_str().filter(|text| text.starts_with("--console")).map(str::to_owned);
        arguments.iter().filter_map(console).collect::<Vec<_>>()
    };
    let off = render(&["--set=networkPolicy.enabled=true", "--set=console.secretName=guards"])?;
    ensure!(!off.contains("windlass-controller-console") && !off.contains("windlass-console"), "{off}");
    ensure!(arguments(&objects(&off, &[])?).is_empty());

    let within = render(&["--set=networkPolicy.enabled=true", "--set=console.enabled=true"])?;
    let objects_within = objects(&within, &[])?;
    ensure!(arguments(&objects_within) == ["--console-bind-address=127.0.0.1:7474"], "{within}");
    ensure!(!within.contains("windlass-controller-console") && !within.contains("port: console"), "{within}");

    let behind = [
        "--set=networkPolicy.enabled=true",
        "--set=console.enabled=true,console.service.enabled=true,console.secretName=guards",
        "--set=console.tls=true,console.clientCertificates=true,console.token=false",
        "--set=console.hosts={console.example.org}",
        "--set=console.from[0].namespaceSelector.matchLabels.team=infra",
    ];
    let behind = render(&behind)?;
    is_taken(&behind)?;
    let found = objects(&behind, &[])?;
    let service = &found["Service windlass-controller-console"]["spec"]["ports"][0];
    ensure!(service["port"] == 7474 && service["targetPort"] == "console", "{service}");
    let pod = &found["Deployment windlass-controller"]["spec"]["template"]["spec"];
    let of_console = |list: &Value| {
        list.as_array().and_then(|list| list.iter().find(|one| one["name"] == "console").cloned()).unwrap_or_default()
    };
    let secret = of_console(&pod["volumes"])["secret"].clone();
    ensure!(secret["secretName"] == "guards" && secret["defaultMode"] == 0o440, "{secret}");
    ensure!(of_console(&pod["containers"][0]["ports"])["containerPort"] == 7474);
    ensure!(of_console(&pod["containers"][0]["volumeMounts"])["mountPath"] == "/etc/windlass-console");
    let given = arguments(&found);
    for wanted in [
        "--console-bind-address=0.0.0.0:7474",
        "--console-allow-host=windlass-controller-console",
        "--console-allow-host=windlass-controller-console.windlass-system.svc",
        "--console-allow-host=console.example.org",
        "--console-tls-certificate=/etc/windlass-console/tls.crt",
        "--console-tls-key=/etc/windlass-console/tls.key",
        "--console-client-ca=/etc/windlass-console/ca.crt",
    ] {
        ensure!(given.iter().any(|argument| argument == wanted), "{wanted}: {given:?}");
    }
    ensure!(!given.iter().any(|argument| argument.contains("token")), "{given:?}");
    let ingress = found["NetworkPolicy windlass-controller"]["spec"]["ingress"].as_array().context("no rules")?;
    let console = ingress.iter().find(|rule| rule["ports"][0]["port"] == "console").context("no rule")?;
    ensure!(
        ingress.len() == 2 && console["from"][0]["namespaceSelector"]["matchLabels"]["team"] == "infra",
        "{ingress:?}"
    );

    for (wrong, words) in [
        ("console.service.enabled=true", "needs console.enabled"),
        ("console.enabled=true,console.service.enabled=true", "needs console.secretName"),
        (
            "console.enabled=true,console.service.enabled=true,console.secretName=guards,console.token=false",
            "needs console.token or console.clientCertificates",
        ),
        ("console.enabled=true,console.clientCertificates=true", "needs console.tls"),
        ("console.listen=7474", "additional"),
        ("persistence.size=1Gb", "/persistence/size"),
        ("serviceMonitor.enabled=true,podMonitor.enabled=true", "read twice"),
    ] {
        let refused = render(&[&format!("--set={wrong}")]).err().with_context(|| format!("{wrong} is taken"))?;
        ensure!(format!("{refused:#}").contains(words), "{wrong}: {refused:#}");
    }
    Ok(())
}

/// Objects of a stream of YAML, by kind and name, without annotations, and with only those labels that contain one of
/// `telling`: each tool has others that it puts everywhere.
pub(crate) fn objects(yaml: &str, telling: &[&str]) -> Result<BTreeMap<String, Value>> {
    let mut objects = BTreeMap::new();
    for document in serde_norway::Deserializer::from_str(yaml) {
        let mut object = Value::deserialize(document)?;
        if object.is_null() {
            continue;
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "");
        strip(&mut object["metadata"], telling);
        if object["kind"] == "Deployment" {
            strip(&mut object["spec"]["template"]["metadata"], telling);
        }
        tidy(&mut object);
        // Nobody installs one, but some tools write an empty one.
        object.as_object_mut().context("an object")?.remove("status");
        ensure!(objects.insert(name.clone(), object).is_none(), "{name} is there twice");
    }
    Ok(objects)
}

fn strip(metadata: &mut Value, telling: &[&str]) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.remove("annotations");
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|label, _| telling.iter().any(|part| label.contains(part)));
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
}

/// Writes `1.0` as `1`, and leaves out what is null: some tools do, some do not.
fn tidy(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15) {
                #[allow(clippy::cast_possible_truncation, reason = "it is whole, and small enough")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chart_and_kustomization_install_the_same() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let base = plane.programs().deploy("base");
    // To which roles it is added, by what a pod is found, and what Cluster API's tools look for in definitions.
    let telling = ["aggregate-to", "control-plane", "clusterctl", "cluster.x-k8s.io/v1beta"];
    let kustomization = plane.kubectl(User::Admin, &["kustomize", base.to_str().context("UTF-8")?], "")?;
    let mut ours = objects(&kustomization, &telling)?;
    let chart = plane.programs().deploy("helm/windlass-controller");
    let chart = chart.to_str().context("UTF-8")?;
    // The names and values under which nothing should differ.
    let rendered =
        plane.helm(&["template", "windlass", chart, "--namespace=windlass-system", "--include-crds", "--set=zone="])?;
    let mut charts = objects(&rendered, &telling)?;

    // Helm is told its namespace; and options are values of the chart, one of which it always gives, with the program's
    // default.
    ensure!(ours.remove("Namespace windlass-system").is_some());
    let container = ours.get_mut("Deployment windlass-controller").context("no Deployment in the kustomization")?;
    let sources = &mut container["spec"]["template"]["spec"]["containers"][0]["envFrom"];
    let sources = sources.as_array_mut().context("no environment")?;
    ensure!(sources.len() == 2, "{sources:?}");
    sources.retain(|source| source["configMapRef"]["name"] != "windlass-options");
    let container = charts.get_mut("Deployment windlass-controller").context("no Deployment in the chart")?;
    let container = &mut container["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array_mut().context("no arguments")?;
    let given = arguments.len();
    arguments.retain(|argument| argument != "--orphans=report");
    ensure!(arguments.len() + 1 == given, "the default of --orphans: {arguments:?}");

    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
    ensure!(names(&ours) == names(&charts), "kustomization: {:#?}\nchart: {:#?}", names(&ours), names(&charts));
    ensure!(names(&ours).len() >= 17, "{:#?}", names(&ours));
    for (name, object) in &ours {
        ensure!(charts[name] == *object, "{name}\nkustomization: {object:#}\nchart: {:#}", charts[name]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chart_and_kustomization_put_the_same_console_behind_a_service() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let telling = ["control-plane"];
    let folder = plane.programs().deploy("console");
    let kustomization = plane.kubectl(User::Admin, &["kustomize", folder.to_str().context("UTF-8")?], "")?;
    let apply =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-"];
    let ours = objects(&kustomization, &telling)?;
    let chart = plane.programs().deploy("helm/windlass-controller");
    let console =
        "console.enabled=true,console.service.enabled=true,console.tls=true,console.secretName=windlass-console";
    let rendered = plane.helm(&[
        "template",
        "windlass",
        chart.to_str().context("UTF-8")?,
        "--namespace=windlass-system",
        &format!("--set=zone=,{console}"),
    ])?;
    plane.kubectl(User::Admin, &apply, &rendered)?;
    let charts = objects(&rendered, &telling)?;
    let service = "Service windlass-controller-console";
    ensure!(ours[service] == charts[service], "{:#}\n{:#}", ours[service], charts[service]);
    let pod = |objects: &BTreeMap<String, Value>| {
        let mut pod = objects["Deployment windlass-controller"]["spec"]["template"]["spec"].clone();
        let container = &mut pod["containers"][0];
        // Options are values of the chart, one of which it always gives, and variables in the kustomization.
        container["envFrom"].take();
        let mut arguments = container["args"].as_array().cloned().unwrap_or_default();
        arguments.retain(|argument| argument != "--orphans=report");
        container["args"] = arguments.into();
        pod
    };
    ensure!(pod(&ours) == pod(&charts), "kustomization: {:#}\nchart: {:#}", pod(&ours), pod(&charts));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_objects_that_the_guides_show_are_taken_as_they_stand() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let _ = plane.kubectl(User::Admin, &["create", "namespace", "ci"], "");
    for guide in ["kubernetes.md", "kubernetes-clusters.md", "kubernetes-setup.md", "kubernetes-tenants.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(guide);
        let text = std::fs::read_to_string(path)?;
        let shown = text.split("```yaml\n").skip(1).filter_map(|block| block.split_once("```").map(|(block, _)| block));
        let shown: Vec<&str> = shown.filter(|block| block.starts_with("apiVersion: ")).collect();
        ensure!(!shown.is_empty(), "{guide} shows no object");
        for objects in shown {
            // As it answers in earnest, with every webhook and rule; nothing is kept.
            let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
            plane.kubectl(User::Admin, &arguments, objects).with_context(|| format!("{guide}:\n{objects}"))?;
        }
    }
    Ok(())
}
