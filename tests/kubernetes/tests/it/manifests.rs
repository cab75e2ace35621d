//! What is handed out for installing: it applies, it renders, and its rights are the least.

use anyhow::{Context, Result, ensure};
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
        ("get", "clusters.cluster.x-k8s.io"),
        ("create", "events.events.k8s.io"),
        ("update", "serverclusters.infrastructure.windlass.dev/status"),
        ("create", "jobs.batch"),
        ("delete", "jobs.batch"),
        ("create", "configmaps"),
        ("list", "pods"),
    ] {
        ensure!(may(plane, verb, resource, None), "it may not {verb} {resource}");
    }
    for (verb, resource) in [
        ("create", "applesiliconmachines.infrastructure.windlass.dev"),
        ("delete", "applesiliconmachines.infrastructure.windlass.dev"),
        ("delete", "machines.cluster.x-k8s.io"),
        ("update", "machines.cluster.x-k8s.io"),
        ("delete", "clusters.cluster.x-k8s.io"),
        ("create", "pods"),
        ("get", "pods"),
        ("get", "pods/log"),
        ("delete", "pods"),
        ("patch", "jobs.batch"),
        ("get", "configmaps"),
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
    if !plane.programs().path("helm").exists() {
        eprintln!("SKIPPED: no Helm");
        return Ok(());
    }
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
