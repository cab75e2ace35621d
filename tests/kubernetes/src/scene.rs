use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_simulator::Options;

use crate::controller::{LEASE_NAMESPACE, configuration_file};
use crate::objects::{cluster, deployment, plural};
use crate::{
    ControlPlane, Controller, ControllerOptions, Host, Kind, MachineOptions, Nodes, Scaleway, User, eventually,
};
use crate::{cluster_api, compiled};

/// Simulated seconds in a second: a reinstall of some minutes is over in some seconds.
const TIME_SCALE: f64 = 60.0;
/// How the lifecycle names a host whose claim has begun.
const PENDING: &str = "windlass-claim-pending-";
/// And one on its way into its pool.
const RETURNING: &str = "windlass-returning-";

/// Enough for what follows from a look to begin, were there anything.
const LOOKS: u32 = 5;
/// Longer than the controller's first pause before it tries again what failed (5 s), and than several of a running
/// operation's looks whether it is called off (2 s).
const PATIENCE: Duration = Duration::from_secs(7);

/// One test's part of the world: a namespace, a Scaleway, and the files of its controllers.
#[allow(missing_debug_implementations, reason = "kube's client has none")]
pub struct Scene<'plane> {
    plane: &'plane ControlPlane,
    namespace: String,
    client: Client,
    scaleway: Arc<Scaleway>,
    folder: TempDir,
}

impl<'plane> Scene<'plane> {
    /// A new one under a name that begins with `name`.
    ///
    /// # Errors
    /// When the namespace or the Scaleway cannot be made.
    pub async fn new(plane: &'plane ControlPlane, name: &str) -> Result<Self> {
        Self::with(plane, name, Self::options()).await
    }

    /// The options of the Scaleway of [`Self::new`].
    #[must_use]
    pub fn options() -> Options {
        Options { time_scale: TIME_SCALE, ..Options::default() }
    }

    /// One whose Scaleway has these options.
    ///
    /// # Errors
    /// When the namespace or the Scaleway cannot be made.
    pub async fn with(plane: &'plane ControlPlane, name: &str, options: Options) -> Result<Self> {
        // Ids of its own: machines of several scenes become Nodes of one cluster, where ids tell them apart.
        let options = Options { seed: uuid::Uuid::new_v4().as_u64_pair().0, ..options };
        let namespace = format!("{name}-{}", &uuid::Uuid::new_v4().simple().to_string()[..6]);
        let scene = Self {
            plane,
            client: plane.client(User::Admin).await?,
            scaleway: Arc::new(Scaleway::start(options)?),
            folder: TempDir::with_prefix_in(&namespace, plane.folder())?,
            namespace,
        };
        scene.make_namespace(&scene.namespace).await?;
        Ok(scene)
    }

    /// The same namespace on another control plane, over the same Scaleway, with files of its own: where objects are
    /// moved to.
    ///
    /// # Errors
    /// When the other one cannot be asked.
    pub async fn seen_from<'other>(&self, plane: &'other ControlPlane) -> Result<Scene<'other>> {
        Ok(Scene {
            plane,
            namespace: self.namespace.clone(),
            client: plane.client(User::Admin).await?,
            scaleway: Arc::clone(&self.scaleway),
            folder: TempDir::with_prefix_in(&self.namespace, plane.folder())?,
        })
    }

    /// Another namespace on the same control plane, over the same Scaleway.
    ///
    /// # Errors
    /// When the namespace cannot be made.
    pub async fn neighbour(&self, name: &str) -> Result<Self> {
        let namespace = format!("{name}-{}", &uuid::Uuid::new_v4().simple().to_string()[..6]);
        self.make_namespace(&namespace).await?;
        Ok(Self {
            plane: self.plane,
            client: self.client.clone(),
            scaleway: Arc::clone(&self.scaleway),
            folder: TempDir::with_prefix_in(&namespace, self.plane.folder())?,
            namespace,
        })
    }

    async fn make_namespace(&self, name: &str) -> Result<()> {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// Hands over what these keys name (claims, ids of servers) to objects of this namespace, as an administrator does.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn approve(&self, entries: &[(&str, &str)]) -> Result<()> {
        let data: serde_json::Map<String, Value> = entries
            .iter()
            .map(|(key, name)| ((*key).to_owned(), json!(format!("{}/{name}", self.namespace))))
            .collect();
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "windlass-approvals"}, "data": data,
        });
        let resource = Kind::ConfigMap.resource();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), LEASE_NAMESPACE, &resource);
        // A field manager of its own for each key: those of others stay.
        let parameters = PatchParams::apply(&format!("approvals-{}", uuid::Uuid::new_v4())).force();
        api.patch("windlass-approvals", &parameters, &Patch::Apply(map)).await?;
        Ok(())
    }

    /// The control plane.
    #[must_use]
    pub fn plane(&self) -> &'plane ControlPlane {
        self.plane
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A client that may do everything.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The Scaleway.
    #[must_use]
    pub fn scaleway(&self) -> &Scaleway {
        &self.scaleway
    }

    /// Where the scene's files are: policies belong here.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a controller and waits until it runs.
    ///
    /// # Errors
    /// When it does not; with its last words.
    pub async fn start(&self, options: &ControllerOptions) -> Result<Controller> {
        let _turn = compiled::turn().await;
        let mut controller = self.start_unchecked(options).await?;
        controller.healthy().await?;
        compiled::keep(&self.folder().join(&options.state))?;
        Ok(controller)
    }

    /// Starts a controller that may end at once.
    ///
    /// # Errors
    /// When there is no such program.
    pub async fn start_unchecked(&self, options: &ControllerOptions) -> Result<Controller> {
        Controller::start(self.plane, &self.namespace, self.scaleway.url(), self.folder(), options).await
    }

    /// Writes a running controller's configuration anew.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn configure(&self, options: &ControllerOptions) -> Result<()> {
        let configuration = options.configuration.as_ref().context("no configuration")?;
        let file = configuration_file(self.folder(), &options.state);
        // As kubelets do with ConfigMaps: the new file takes the place of the old one at once.
        let new = file.with_extension("new");
        std::fs::write(&new, serde_json::to_string_pretty(configuration)?)?;
        Ok(std::fs::rename(new, file)?)
    }

    /// The objects of a kind in the namespace.
    #[must_use]
    pub fn api(&self, kind: Kind) -> Api<DynamicObject> {
        self.api_of(&kind.resource())
    }

    fn api_of(&self, resource: &ApiResource) -> Api<DynamicObject> {
        match resource.kind.as_str() {
            "ClusterPolicy" => Api::all_with(self.client.clone(), resource),
            _ => Api::namespaced_with(self.client.clone(), &self.namespace, resource),
        }
    }

    /// Makes an object, or makes it so.
    ///
    /// # Errors
    /// What the API server refuses, in its words.
    pub async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        let typed: DynamicObject = serde_json::from_value(object.clone())?;
        let types = typed.types.clone().context("an object without a kind")?;
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: types.api_version.clone(),
            plural: plural(&types.kind),
            kind: types.kind.clone(),
        };
        Ok(self
            .api_of(&resource)
            .patch(&typed.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(object))
            .await?)
    }

    /// Merges into an object.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Result<DynamicObject> {
        Ok(self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    /// Deletes an object; its finalizers have their say afterwards.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn delete(&self, kind: Kind, name: &str) -> Result<()> {
        self.api(kind).delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// All objects of a kind.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn list(&self, kind: Kind) -> Result<Vec<DynamicObject>> {
        Ok(self.api(kind).list(&ListParams::default()).await?.items)
    }

    /// The machines on Apple silicon.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn machines(&self) -> Result<Vec<DynamicObject>> {
        self.list(Kind::AppleSiliconMachine).await
    }

    /// Waits until `count` machines on Apple silicon are ready and no other is there.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn ready_machines(&self, count: usize) -> Result<Vec<DynamicObject>> {
        eventually(&format!("{count} machines are ready"), || async {
            let machines = self.machines().await?;
            let ready = machines.iter().filter(|machine| is_ready(machine)).count();
            ensure!(
                ready == count && machines.len() == count,
                "{ready} of {} are: {}",
                machines.len(),
                describe(&machines)
            );
            Ok(machines)
        })
        .await
        .with_context(|| cluster_api::lines_about(self.plane, &self.namespace))
    }

    /// Waits until an object is no more.
    ///
    /// # Errors
    /// When it stays: as it stands.
    pub async fn gone(&self, kind: Kind, name: &str) -> Result<()> {
        eventually(&format!("{kind:?} {name} is gone"), || async {
            match self.api(kind).get_opt(name).await? {
                None => Ok(()),
                Some(there) => bail!("{}", describe(&[there])),
            }
        })
        .await
    }

    /// Whether the namespace is no more.
    ///
    /// # Errors
    /// While it is there: as it stands.
    pub async fn namespace_gone(&self) -> Result<()> {
        match Api::<Namespace>::all(self.client.clone()).get_opt(&self.namespace).await? {
            None => Ok(()),
            Some(there) => bail!("the namespace is there: {:#}", json!(there.status)),
        }
    }

    /// Makes a Cluster of Cluster API over an `ExternalCluster`, whose control plane is this very API server, and the
    /// Secrets that belong to it; waits until Cluster API calls its infrastructure provisioned.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn cluster(&self, name: &str) -> Result<()> {
        let port = self.plane.url().rsplit(':').next().unwrap_or_default().parse()?;
        let mut secret = Kind::Secret.object(&format!("{name}-kubeconfig"));
        secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": name});
        secret["type"] = json!("cluster.x-k8s.io/secret");
        secret["stringData"] = json!({"value": self.plane.kubeconfig(User::Admin)});
        self.apply(&secret).await?;
        let mut bootstrap = Kind::Secret.object("bootstrap");
        bootstrap["stringData"] =
            json!({"value": "#cloud-config\nhostname: from-the-test\n", "format": "cloud-config"});
        self.apply(&bootstrap).await?;
        for object in cluster(name, port) {
            self.apply(&object).await?;
        }
        eventually("Cluster API calls the cluster provisioned and its control plane initialized", || async {
            let status = &self.api(Kind::Cluster).get(name).await?.data["status"];
            ensure!(status["initialization"]["infrastructureProvisioned"] == true, "{status:#}");
            ensure!(condition(status, "ControlPlaneInitialized") == "True", "{status:#}");
            Ok(())
        })
        .await
    }

    /// Makes the Secret by which Cluster API's kubeadm providers take this API server's authority for a cluster's own,
    /// so that the certificates and tokens that they make let somebody in.
    ///
    /// # Errors
    /// What the API server refuses.
    pub async fn authority(&self, cluster: &str) -> Result<()> {
        let certificates = self.plane.certificates();
        let mut secret = Kind::Secret.object(&format!("{cluster}-ca"));
        secret["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": cluster});
        secret["type"] = json!("cluster.x-k8s.io/secret");
        secret["stringData"] = json!({"tls.crt": certificates.authority, "tls.key": certificates.authority_key});
        self.apply(&secret).await.map(drop)
    }

    /// Makes a MachineDeployment with a template of its own name on Apple silicon.
    ///
    /// # Errors
    /// What the API server or Cluster API's webhooks refuse.
    pub async fn deployment(&self, name: &str, cluster: &str, replicas: u32, options: &MachineOptions) -> Result<()> {
        self.apply(&options.template(name)).await?;
        self.apply(&deployment(name, cluster, Kind::AppleSiliconMachineTemplate, name, replicas)).await?;
        Ok(())
    }

    /// Makes a MachineDeployment of instances with a template of its own name.
    ///
    /// # Errors
    /// What the API server or Cluster API's webhooks refuse.
    pub async fn instances(&self, name: &str, cluster: &str, replicas: u32, specification: Value) -> Result<()> {
        let mut template = Kind::InstanceMachineTemplate.object(name);
        template["spec"] = json!({"template": {"spec": specification}});
        self.apply(&template).await?;
        self.apply(&deployment(name, cluster, Kind::InstanceMachineTemplate, name, replicas)).await?;
        Ok(())
    }

    /// Scales a MachineDeployment.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        self.patch(Kind::MachineDeployment, name, json!({"spec": {"replicas": replicas}})).await.map(drop)
    }

    /// The notes of the events about an object, oldest first, as `type reason: note`.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn events(&self, name: &str) -> Result<Vec<String>> {
        let mut events: Vec<DynamicObject> = self.list(Kind::Event).await?;
        events.retain(|event| event.data["regarding"]["name"] == name);
        events.sort_by_key(|event| event.metadata.creation_timestamp.clone());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(events
            .iter()
            .map(|event| {
                format!("{} {}: {}", text(&event.data["type"]), text(&event.data["reason"]), text(&event.data["note"]))
            })
            .collect())
    }

    /// What must hold at every moment and after everything, whoever was killed meanwhile: each host is in the pool, on
    /// its way into it or out of it, or claimed by exactly one machine; no claim went from one machine to another
    /// without the pool in between; none was wiped under a name that anybody uses; none is gone.
    ///
    /// `given_up` are the hosts that were asked to be destroyed or kept: these may be gone, or bear the name of a
    /// machine that is no more.
    ///
    /// # Errors
    /// What does not hold, with all that is known.
    pub async fn check_hosts(&self, given_up: &[String]) -> Result<()> {
        let hosts = self.scaleway.hosts();
        let machines = self.machines().await?;
        let mut claims = BTreeMap::new();
        for machine in &machines {
            if let Some(claim) = machine.annotations().get("windlass.dev/claim")
                && let Some(other) = claims.insert(claim.clone(), machine.name_any())
            {
                bail!("{other} and {} have the same claim {claim}", machine.name_any());
            }
        }
        let mut owners = BTreeMap::new();
        for machine in machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
            let Some(id) = machine.data["spec"]["providerID"].as_str() else { continue };
            if let Some(other) = owners.insert(id.to_owned(), machine.name_any()) {
                bail!("{other} and {} have the same host {id}", machine.name_any());
            }
            let server = id.rsplit('/').next().unwrap_or_default();
            let host = self.scaleway.host(server).with_context(|| format!("of {}", machine.name_any()))?;
            let claim = machine.annotations().get("windlass.dev/claim");
            // A host that is released since its set-up failed is on its way before its machine forgets it.
            let leaving =
                machine.data["status"]["phase"] == "Recovering" && (host.in_pool() || host.name.starts_with(RETURNING));
            ensure!(
                leaving || claim == Some(&host.name),
                "{} is to have {claim:?}, but its host is {host:?}",
                machine.name_any()
            );
        }
        for host in hosts.iter().filter(|host| !given_up.contains(&host.id)) {
            let between = host.name.starts_with(PENDING) || host.name.starts_with(RETURNING);
            let explained = host.in_pool() || between || claims.contains_key(&host.name);
            ensure!(explained, "no machine explains {host:?}; claims: {claims:?}");
        }
        for host in hosts.iter().chain(&self.scaleway.gone_hosts()) {
            check_past(host)?;
        }
        for host in self.scaleway.gone_hosts() {
            ensure!(given_up.contains(&host.id), "destroyed unasked: {host:?}");
        }
        Ok(())
    }

    /// Waits until every host is in the pool under its name and has been reinstalled, and checks what must hold.
    ///
    /// # Errors
    /// When it does not come to that.
    pub async fn all_in_pool(&self, count: usize) -> Result<()> {
        eventually(&format!("{count} hosts are in the pool and ready"), || async {
            let hosts = self.scaleway.hosts();
            let back = hosts.iter().filter(|host| host.in_pool() && host.status == "ready").count();
            ensure!(back == count && hosts.len() == count, "{back} of {} are: {hosts:#?}", hosts.len());
            Ok(())
        })
        .await?;
        self.check_hosts(&[]).await
    }

    /// Ends the scene: removes what would disturb others. A scene that failed is left as it stands.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn end(self) -> Result<()> {
        Nodes::remove_all(&self.client, &self.namespace).await?;
        Ok(())
    }

    /// Has `controller` look at an object some more times, each because the object has changed a little: where the
    /// claim is that nothing comes of it.
    ///
    /// # Errors
    /// When it does not look.
    pub async fn looked_at_again(&self, controller: &Controller, kind: Kind, name: &str) -> Result<()> {
        for _ in 0..LOOKS {
            self.looked_at(controller, kind, name).await?;
        }
        Ok(())
    }

    /// As [`Scene::looked_at_again`], and these looks come when the controller has had the time after which it tries
    /// again what failed: where the claim is that it does not. A slow machine only makes that longer.
    ///
    /// # Errors
    /// When it does not look.
    pub async fn looked_at_later(&self, controller: &Controller, kind: Kind, name: &str) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            self.looked_at(controller, kind, name).await?;
        }
        self.looked_at_again(controller, kind, name).await
    }

    async fn looked_at(&self, controller: &Controller, kind: Kind, name: &str) -> Result<()> {
        let before = controller.reconciles(kind).await?;
        let mark = uuid::Uuid::new_v4();
        self.patch(kind, name, json!({"metadata": {"annotations": {"windlass.test/look": mark}}})).await?;
        eventually("the controller looks at it again", || async {
            ensure!(controller.reconciles(kind).await? > before, "not more than {before} times");
            Ok(())
        })
        .await
    }

    /// Who holds the Lease of this scene's controllers; nobody when it was given back.
    ///
    /// # Errors
    /// When there is no such Lease.
    pub async fn lease_holder(&self) -> Result<Option<String>> {
        let leases: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), LEASE_NAMESPACE, &Kind::Lease.resource());
        let lease = leases.get(&self.namespace).await?;
        Ok(lease.data["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned))
    }
}

/// Whether a machine is ready in the words of both contracts.
fn is_ready(machine: &DynamicObject) -> bool {
    let status = &machine.data["status"];
    status["ready"] == true && status["initialization"]["provisioned"] == true && condition(status, "Ready") == "True"
}

/// The status of a condition: `True`, `False`, `Unknown`, or nothing.
fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .and_then(|found| found["status"].as_str())
        .unwrap_or("")
}

/// Objects in short, for messages.
fn describe(objects: &[DynamicObject]) -> String {
    objects
        .iter()
        .map(|object| {
            let deleted = if object.metadata.deletion_timestamp.is_some() { " (being deleted)" } else { "" };
            format!("\n{}{deleted}: {:#}", object.name_any(), object.data["status"])
        })
        .collect()
}

/// the pool in between, and none was wiped under a name that anybody could be using.
///
/// # Errors
/// What was not.
pub fn check_past(host: &Host) -> Result<()> {
    let returning = |name: &str| name.starts_with(RETURNING);
    let in_use = |name: &str| !name.starts_with(MachineOptions::POOL) && !name.starts_with(PENDING) && !returning(name);
    for pair in host.names.windows(2) {
        let released = returning(&pair[1]) || pair[1].starts_with(MachineOptions::POOL);
        ensure!(!in_use(&pair[0]) || released, "a claim was taken away without the pool in between: {host:?}");
    }
    // Under a name of the pool anybody could have taken it meanwhile.
    let early = host.wiped_as.iter().find(|name| !returning(name));
    ensure!(early.is_none(), "wiped while it was, or could have been, in use: {host:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(names: &[&str], wiped_as: &[&str]) -> Host {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Host {
            id: "h".to_owned(),
            name: names.last().copied().unwrap_or_default().to_owned(),
            status: "ready".to_owned(),
            names: texts(names),
            wiped_as: texts(wiped_as),
            reboots: 0,
            deletion_scheduled: false,
            deleted_by: None,
        }
    }

    #[test]
    fn a_past_in_order_passes_and_theft_and_early_wipes_do_not() {
        let (pending, returning) = (format!("{PENDING}1"), format!("{RETURNING}1"));
        let life = ["ci-pool-1", &pending, "claim-a", &returning, "ci-pool-2", &pending, "claim-b"];
        assert!(check_past(&host(&life, &[&returning])).is_ok());
        assert!(
            check_past(&host(&["ci-pool-1", &pending, "claim-a", "claim-b"], &[])).is_err(),
            "taken from its owner"
        );
        assert!(check_past(&host(&["ci-pool-1", &pending, "claim-a", &pending], &[])).is_err(), "about to be taken");
        assert!(check_past(&host(&life, &["claim-a"])).is_err(), "wiped under its owner");
        assert!(check_past(&host(&life, &["ci-pool-2"])).is_err(), "wiped where anybody could have claimed it");
    }
}
