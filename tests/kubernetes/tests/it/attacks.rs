//! What an editor of one namespace tries, to get at the machines of another: docs/security.md has the list.

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use windlass_test_kubernetes::{ControlPlane, ControllerOptions, Kind, MachineOptions, Scene, User, eventually};

/// The editor of the other namespace.
const MALLORY: &str = "mallory";

/// Two tenants of one controller: whose machines are wanted, and who wants them.
struct Tenants<'plane> {
    alice: Scene<'plane>,
    bob: Scene<'plane>,
    /// A client with the rights of an editor of `bob`.
    editor: kube::Client,
}

impl Tenants<'_> {
    /// Objects of a kind, as the editor reaches them.
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.editor.clone(), self.bob.namespace(), &kind.resource())
    }

    async fn create(&self, kind: Kind, object: Value) -> Result<DynamicObject> {
        Ok(self.api(kind).create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    /// A Mac of the editor's with these annotations and fields is refused, tells why, and goes without a trace.
    async fn is_refused(&self, name: &str, options: MachineOptions, reason: &str) -> Result<()> {
        self.create(Kind::AppleSiliconMachine, options.machine(name)).await?;
        self.says(Kind::AppleSiliconMachine, name, reason).await?;
        self.goes(Kind::AppleSiliconMachine, name).await
    }

    async fn says(&self, kind: Kind, name: &str, reason: &str) -> Result<()> {
        eventually(&format!("{name} says {reason}"), || async {
            let status = self.api(kind).get(name).await?.data["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            ensure!(conditions.iter().any(|one| one["type"] == "Ready" && one["reason"] == reason), "{status:#}");
            let handed_over = ["credentialsSecretName", "serverID", "addresses"].map(|field| status[field].is_null());
            ensure!(handed_over == [true; 3], "{status:#}");
            Ok(())
        })
        .await
    }

    async fn goes(&self, kind: Kind, name: &str) -> Result<()> {
        self.api(kind).delete(name, &DeleteParams::default()).await?;
        self.bob.gone(kind, name).await
    }

    /// What the API server refuses the editor.
    async fn forbidden<T>(&self, what: &str, tried: kube::Result<T>) -> Result<()> {
        match tried {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{what}: refused, but not as forbidden")),
            Ok(_) => anyhow::bail!("{what}: allowed"),
        }
    }
}

/// What an editor of a namespace may do there: our role for it, and Kubernetes' own `edit`.
fn editor_of(namespace: &str) -> String {
    let binding = |role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": format!("mallory-{role}"), "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": MALLORY}],
        })
    };
    let bindings: Vec<Value> = ["edit", "windlass-edit", "windlass-view"].map(binding).to_vec();
    json!({"apiVersion": "v1", "kind": "List", "items": bindings}).to_string()
}

fn instance(name: &str) -> Value {
    json!({
        "apiVersion": "infrastructure.windlass.dev/v1alpha1", "kind": "InstanceMachine", "metadata": {"name": name},
        "spec": {"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_of_one_namespace_gets_nothing_of_another_s_machines() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let alice = Scene::new(plane, "alice").await?;
        let bob = alice.neighbour("bob").await?;
        alice.scaleway().add_hosts(3, [])?;
        plane.kubectl(User::Admin, &["create", "-f", "-"], &editor_of(bob.namespace()))?;
        let options = ControllerOptions { all_namespaces: true, ..ControllerOptions::default() }
            .argument("--pool=ci-pool-")
            .argument(&format!("--pool=private-={}", alice.namespace()));
        let _controller = alice.start(&options).await?;
        // What is wanted: a Mac that is in use, and an instance that runs.
        alice.apply(&MachineOptions::default().machine("mac")).await?;
        let mac = alice.ready_machines(1).await?.remove(0);
        alice.apply(&instance("server")).await?;
        let server = eventually("the instance is ready", || async {
            let machine = alice.api(Kind::InstanceMachine).get("server").await?;
            ensure!(machine.data["status"]["ready"] == true, "{:#}", machine.data["status"]);
            Ok(machine)
        })
        .await?;
        let claim = mac.annotations()["windlass.dev/claim"].clone();
        let mac_id = mac.data["spec"]["providerID"].as_str().context("a provider id")?.to_owned();
        let server_id = server.data["spec"]["providerID"].as_str().context("a provider id")?.to_owned();
        let operation = server.annotations()["windlass.dev/operation"].clone();
        let editor = plane.client_of(MALLORY).await?;
        let tenants = Tenants { alice, bob, editor };
        tenants.alice.scaleway().simulator().clear_requests();

        // 1 to 7: a Mac's claim, its provider id, a pool.
        let claimed = || MachineOptions::default().annotated("windlass.dev/claim", &claim);
        let found = || MachineOptions::default().with("providerID", json!(mac_id));
        tenants.is_refused("claims", claimed(), "ClaimNotApproved").await?;
        tenants.is_refused("mac", claimed(), "ClaimNotApproved").await?;
        tenants.is_refused("names", found(), "HostRenamed").await?;
        let both = claimed().with("providerID", json!(mac_id));
        tenants.is_refused("claims-and-names", both, "ClaimNotApproved").await?;
        let foreign_pool = MachineOptions::default().with("poolPrefix", json!("private-"));
        tenants.is_refused("takes-from-a-private-pool", foreign_pool, "InvalidConfiguration").await?;
        let owner = claim.split("-mac-").next().context("the claim begins with the owner")?;
        let everybodys = MachineOptions::default().with("poolPrefix", json!(format!("{owner}-")));
        tenants.is_refused("takes-all-that-is-claimed", everybodys, "InvalidConfiguration").await?;
        let unnamed = MachineOptions::default().with("poolPrefix", json!("m-"));
        tenants.is_refused("takes-from-any-pool", unnamed, "InvalidConfiguration").await?;

        // 8 to 11: requests and counts on top of it.
        let wipes = claimed().with("providerID", json!(mac_id)).annotated("windlass.dev/release-policy", "terminate");
        tenants.is_refused("wipes", wipes, "ClaimNotApproved").await?;
        let fails = claimed().with("providerID", json!(mac_id)).annotated("windlass.dev/bootstrap-failures", "99");
        tenants.is_refused("fails", fails, "ClaimNotApproved").await?;
        let tuist = found().annotated("tuist.dev/release-policy", "terminate");
        tenants.is_refused("wipes-by-another-word", tuist, "HostRenamed").await?;
        let ordered = claimed().annotated("windlass.dev/origin", "ordered");
        tenants.is_refused("says-it-was-ordered", ordered, "ClaimNotApproved").await?;

        // 12 to 15: an instance by its provider id, by its operation, by both, and with a request.
        for (name, provider, annotations) in [
            ("by-id", Some(&server_id), json!({})),
            ("by-operation", None, json!({"windlass.dev/operation": operation})),
            ("by-both", Some(&server_id), json!({"windlass.dev/operation": operation})),
            ("terminates", Some(&server_id), json!({"windlass.dev/release-policy": "terminate"})),
        ] {
            let mut object = instance(name);
            object["metadata"]["annotations"] = annotations;
            if let Some(provider) = provider {
                object["spec"]["providerID"] = json!(provider);
            }
            tenants.create(Kind::InstanceMachine, object).await?;
            tenants.says(Kind::InstanceMachine, name, "ServerNotApproved").await?;
            tenants.goes(Kind::InstanceMachine, name).await?;
        }
        let changes = tenants.alice.scaleway().changes();
        ensure!(changes.is_empty(), "Scaleway was asked to change something: {changes:?}");

        // 16 to 17: first a machine of one's own, then another's claim or id, and then its end.
        tenants.create(Kind::AppleSiliconMachine, MachineOptions::default().machine("own")).await?;
        tenants.bob.ready_machines(1).await?;
        let stolen = json!({"metadata": {"annotations": {"windlass.dev/claim": claim}}});
        let merge = PatchParams::default();
        tenants.api(Kind::AppleSiliconMachine).patch("own", &merge, &Patch::Merge(stolen)).await?;
        tenants.goes(Kind::AppleSiliconMachine, "own").await?;
        tenants.create(Kind::AppleSiliconMachine, MachineOptions::default().machine("unmarked")).await?;
        tenants.bob.ready_machines(1).await?;
        let unmarked = json!({"metadata": {"annotations": {"windlass.dev/claim": null}}});
        tenants.api(Kind::AppleSiliconMachine).patch("unmarked", &merge, &Patch::Merge(unmarked)).await?;
        tenants.goes(Kind::AppleSiliconMachine, "unmarked").await?;
        // Both of the editor's own hosts went back, and nothing else.
        eventually("two hosts are in the pool", || async {
            let hosts = tenants.alice.scaleway().hosts();
            let back = hosts.iter().filter(|host| host.in_pool() && host.status == "ready").count();
            ensure!(back == 2 && hosts.iter().any(|host| host.name == claim && host.wiped_as.is_empty()), "{hosts:#?}");
            Ok(())
        })
        .await?;

        // 18 to 23: the record itself, the approvals, the other namespace, and the controller's.
        tenants.create(Kind::AppleSiliconMachine, claimed().machine("records")).await?;
        let status = json!({"status": {"claim": claim, "serverID": mac_id.rsplit('/').next()}});
        let by_status =
            tenants.api(Kind::AppleSiliconMachine).patch_status("records", &merge, &Patch::Merge(status)).await;
        tenants.forbidden("a status of one's own", by_status).await?;
        let mut with_status = claimed().machine("records-at-once");
        with_status["status"] = json!({"claim": claim});
        let made = tenants.create(Kind::AppleSiliconMachine, with_status).await?;
        ensure!(made.data["status"]["claim"].is_null(), "{:#}", made.data["status"]);
        tenants.says(Kind::AppleSiliconMachine, "records-at-once", "ClaimNotApproved").await?;
        let approval = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "windlass-approvals"},
            "data": {claim.as_str(): format!("{}/records", tenants.bob.namespace())},
        });
        tenants.create(Kind::ConfigMap, approval.clone()).await?;
        let resource = Kind::ConfigMap.resource();
        let system: Api<DynamicObject> = Api::namespaced_with(tenants.editor.clone(), "windlass-system", &resource);
        let approved = system.create(&PostParams::default(), &serde_json::from_value(approval)?).await;
        tenants.forbidden("approvals", approved).await?;
        tenants.says(Kind::AppleSiliconMachine, "records", "ClaimNotApproved").await?;
        for name in ["records", "records-at-once"] {
            tenants.goes(Kind::AppleSiliconMachine, name).await?;
        }
        let theirs = |kind: Kind| -> Api<DynamicObject> {
            Api::namespaced_with(tenants.editor.clone(), tenants.alice.namespace(), &kind.resource())
        };
        tenants
            .forbidden(
                "another's object",
                theirs(Kind::AppleSiliconMachine).delete("mac", &DeleteParams::default()).await,
            )
            .await?;
        tenants.forbidden("another's credentials", theirs(Kind::Secret).get("mac-credentials").await).await?;

        // 24: a Secret of somebody's that only happens to have the name stays what it is.
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db-credentials"},
            "stringData": {"password": "theirs"},
        });
        tenants.create(Kind::Secret, secret).await?;
        tenants.create(Kind::AppleSiliconMachine, MachineOptions::default().machine("db")).await?;
        tenants.says_of_secret("db").await?;
        let kept = tenants.api(Kind::Secret).get("db-credentials").await?;
        ensure!(
            kept.data["data"]["password"] == "dGhlaXJz" && kept.data["data"]["sudo-password"].is_null(),
            "{kept:?}"
        );
        tenants.goes(Kind::AppleSiliconMachine, "db").await?;
        ensure!(tenants.api(Kind::Secret).get("db-credentials").await.is_ok(), "it went with the machine");

        // Whose it was has it still.
        let mac = tenants.alice.api(Kind::AppleSiliconMachine).get("mac").await?;
        ensure!(mac.data["status"]["ready"] == true && mac.data["spec"]["providerID"] == mac_id, "{:#}", mac.data);
        let server = tenants.alice.api(Kind::InstanceMachine).get("server").await?;
        ensure!(server.data["status"]["ready"] == true, "{:#}", server.data);
        ensure!(tenants.alice.scaleway().instances().len() == 1);
        tenants.bob.end().await?;
        tenants.alice.end().await
    })
    .await
}

impl Tenants<'_> {
    /// The machine has its host, and no Secret to write its passwords into.
    async fn says_of_secret(&self, name: &str) -> Result<()> {
        eventually(&format!("{name} says that the Secret is taken"), || async {
            let status = self.api(Kind::AppleSiliconMachine).get(name).await?.data["status"].clone();
            ensure!(
                status["operation"]["reason"] == "SecretTaken" && status["credentialsSecretName"].is_null(),
                "{status:#}"
            );
            Ok(())
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_that_only_an_object_itself_names_are_not_believed() -> Result<()> {
    let Some(plane) = ControlPlane::shared().await? else { return Ok(()) };
    let scene = Scene::new(plane, "owned").await?;
    scene.scaleway().add_hosts(2, [])?;
    let controller = scene.start(&ControllerOptions::default()).await?;
    scene.cluster("team").await?;
    scene.deployment("workers", "team", 1, &MachineOptions::default()).await?;
    scene.ready_machines(1).await?;
    let machine = scene.list(Kind::Machine).await?.remove(0);
    let owned_by = |owner: &DynamicObject, kind: Kind| {
        json!([{
            "apiVersion": kind.resource().api_version, "kind": kind.resource().kind,
            "name": owner.name_any(), "uid": owner.uid(),
        }])
    };
    // A Mac and an instance below the Machine of others, whose bootstrap Secret they would boot with.
    for (kind, mut object) in [
        (Kind::AppleSiliconMachine, MachineOptions::default().machine("thief")),
        (Kind::InstanceMachine, instance("thief")),
    ] {
        object["metadata"]["ownerReferences"] = owned_by(&machine, Kind::Machine);
        scene.apply(&object).await?;
        eventually("it says that the Machine is not its owner", || async {
            let status = scene.api(kind).get("thief").await?.data["status"].clone();
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let says = |one: &Value| one["type"] == "Ready" && one["reason"] == "OwnerNotConfirmed";
            ensure!(conditions.iter().any(says), "{status:#}");
            Ok(())
        })
        .await?;
        scene.looked_at_again(&controller, kind, "thief").await?;
        let status = scene.api(kind).get("thief").await?.data["status"].clone();
        ensure!(status["serverID"].is_null() && status["creation"].is_null(), "{status:#}");
        scene.delete(kind, "thief").await?;
        scene.gone(kind, "thief").await?;
    }
    ensure!(scene.scaleway().instances().is_empty());

    // The control plane of a Cluster that is on something else.
    let mut victim = Kind::Cluster.object("victim");
    let reference = json!({"apiGroup": "infrastructure.windlass.dev", "kind": "ExternalCluster", "name": "absent"});
    victim["spec"] = json!({"infrastructureRef": reference});
    let victim = scene.apply(&victim).await?;
    let mut external = Kind::ExternalCluster.object("thief");
    external["metadata"]["ownerReferences"] = owned_by(&victim, Kind::Cluster);
    external["spec"] = json!({"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}});
    scene.apply(&external).await?;
    eventually("the external cluster is ready", || async {
        let status = scene.api(Kind::ExternalCluster).get("thief").await?.data["status"].clone();
        ensure!(status["ready"] == true, "{status:#}");
        Ok(())
    })
    .await?;
    scene.looked_at_again(&controller, Kind::ExternalCluster, "thief").await?;
    let status = scene.api(Kind::Cluster).get("victim").await?.data["status"].clone();
    ensure!(status["initialization"]["controlPlaneInitialized"] != true, "{status:#}");
    scene.delete(Kind::Cluster, "victim").await?;
    scene.end().await
}
