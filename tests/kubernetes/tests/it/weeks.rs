//! Two tenants with two keys on one controller, over weeks of simulated time: random work of a seed, faults of
//! Scaleway's, colleagues in the console who also take machines over, attempts of one tenant at what the other has,
//! changed keys, edited annotations, pauses, deleted namespaces, and kills of both leaders. `just weeks 50` searches for
//! a violation of what is checked after each round; `just weeks 1 17` is one week again, as far as two processes and an
//! API server do the same twice. With `WINDLASS_WEEKS_FIRST` the search ends at the first violation, and with `WINDLASS_WEEKS_LIVE` each week prints what happens as it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use kube::core::DynamicObject;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use windlass_simulator::{AppleSiliconPool, Effect, FaultKind, Options, Resources, key_mark};
use windlass_test_kubernetes::{
    ControlPlane, Controller, ControllerOptions, Kind, MachineOptions, Scaleway, Scene, User, check_past, eventually,
};

const OWN: &str = "7d0e3a4c-0000-4000-8000-000000000001";
const OWN_KEY: &str = "11111111-1111-4111-8111-111111111111";
/// Projects and keys of the tenants; the second key is for a rotation.
const TENANTS: [(&str, [&str; 2]); 2] = [
    (
        "aaaaaaaa-0000-4000-8000-000000000001",
        ["aaaaaaaa-1111-4111-8111-111111111111", "aaaaaaaa-2222-4222-8222-222222222222"],
    ),
    (
        "bbbbbbbb-0000-4000-8000-000000000001",
        ["bbbbbbbb-1111-4111-8111-111111111111", "bbbbbbbb-2222-4222-8222-222222222222"],
    ),
];
/// Of colleagues who work with the same projects in the console.
const COLLEAGUE: &str = "cccccccc-1111-4111-8111-111111111111";
/// A key that Scaleway lets in no more.
const REVOKED: &str = "dddddddd-1111-4111-8111-111111111111";
/// Rounds of a week, each of half a day.
const ROUNDS: usize = 14;
/// Between 2,160 and 3,600 times as fast as ours, with what is advanced by: some ten seconds are half a day.
const TIME_SCALE: f64 = 60.0;
/// Hosts of each tenant, which is also how many Macs it has at most.
const HOSTS: usize = 3;
/// Instances and clusters that a tenant has at most.
const INSTANCES: usize = 3;
/// How names of hosts begin that are no claims.
const NO_CLAIMS: [&str; 4] = [MachineOptions::POOL, "somebody-s-", "windlass-claim-pending-", "windlass-returning-"];
const PAUSED: &str = "cluster.x-k8s.io/paused";
const CLAIM: &str = "windlass.dev/claim";
const OPERATION: &str = "windlass.dev/operation";
/// The Secret that is a namespace's default.
const DEFAULT_SECRET: &str = "scaleway";

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weeks_of_two_tenants_break_no_law() -> Result<()> {
    ControlPlane::lend(async |plane| {
        let from = number("WINDLASS_WEEKS_FROM", 1);
        let mut failed = Vec::new();
        for seed in from..from + number("WINDLASS_WEEKS", 1) {
            let mut week = Week::begin(plane, seed).await?;
            match week.live().await {
                Ok(()) => println!("week {seed}: {}", week.summary()),
                Err(error) => {
                    println!("week {seed}: {error:?}\n{}\n{}", week.story.join("\n"), week.last_words());
                    failed.push(seed);
                    if std::env::var_os("WINDLASS_WEEKS_FIRST").is_some() {
                        bail!("the week of the seed {seed} broke a law");
                    }
                    // What it has begun must not go on in the next.
                    week.leave();
                }
            }
        }
        ensure!(failed.is_empty(), "the weeks of these seeds broke a law: {failed:?}");
        Ok(())
    })
    .await
}

/// One of the two teams.
struct Tenant<'plane> {
    scene: Scene<'plane>,
    project: &'static str,
    keys: [&'static str; 2],
    /// The name of its Secret: the namespace's default, or one that each object names.
    secret: &'static str,
    made: usize,
}

impl Tenant<'_> {
    /// The Secret with one of its keys, for a project.
    async fn credentials(&self, key: &str, project: &str) -> Result<()> {
        let mut secret = Kind::Secret.object(self.secret);
        secret["stringData"] = json!({
            "SCW_ACCESS_KEY": "SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY": key, "SCW_DEFAULT_PROJECT_ID": project,
        });
        self.scene.apply(&secret).await?;
        Ok(())
    }

    fn reference(&self) -> Option<Value> {
        (self.secret != DEFAULT_SECRET).then(|| json!({"name": self.secret}))
    }

    fn mac(&self, name: &str, annotations: &[(&str, &str)]) -> Value {
        let mut options = MachineOptions::default();
        for (key, value) in annotations {
            options = options.annotated(key, value);
        }
        if let Some(reference) = self.reference() {
            options = options.with("credentialsRef", reference);
        }
        options.machine(name)
    }

    fn object(&self, kind: Kind, name: &str, mut specification: Value) -> Value {
        if let Some(reference) = self.reference() {
            specification["credentialsRef"] = reference;
        }
        let mut object = kind.object(name);
        object["spec"] = specification;
        object
    }
}

const MADE: [Kind; 3] = [Kind::AppleSiliconMachine, Kind::InstanceMachine, Kind::ServerCluster];

/// What an object has.
struct Had {
    id: String,
    /// Of a Mac.
    claim: Option<String>,
}

/// One seed's world.
struct Week<'plane> {
    plane: &'plane ControlPlane,
    random: ChaCha8Rng,
    own: Scene<'plane>,
    tenants: Vec<Tenant<'plane>>,
    controllers: Mutex<Vec<(ControllerOptions, Option<Controller>)>>,
    kills: usize,
    /// What colleagues have made or taken over, which nobody else may change, with the request since which it is theirs.
    strange: BTreeMap<String, u64>,
    /// Namespaces that come and go, of the first tenant's project.
    visitors: Vec<Tenant<'plane>>,
    /// What each object had when it was seen last: its server or its host, and the host's claim.
    had: BTreeMap<String, Had>,
    /// The project of each resource that was ever seen.
    projects: BTreeMap<String, String>,
    /// Up to which request changes have been looked at.
    looked_at: u64,
    story: Vec<String>,
    counts: BTreeMap<&'static str, usize>,
}

impl<'plane> Week<'plane> {
    async fn begin(plane: &'plane ControlPlane, seed: u64) -> Result<Self> {
        let keys = TENANTS.into_iter().flat_map(|(_, keys)| keys).chain([OWN_KEY, COLLEAGUE]);
        let options = Options {
            time_scale: TIME_SCALE,
            logged_requests: 1_000_000,
            tokens: keys.map(str::to_owned).collect(),
            ..Options::default()
        };
        let own = Scene::with(plane, "week", options).await?;
        let mut tenants = Vec::new();
        for ((project, keys), secret) in TENANTS.into_iter().zip([DEFAULT_SECRET, "team"]) {
            let scene = own.neighbour(&project[..4]).await?;
            let tenant = Tenant { scene, project, keys, secret, made: 0 };
            tenant.credentials(keys[0], project).await?;
            tenants.push(tenant);
        }
        let mut strange = BTreeMap::new();
        for project in [OWN, TENANTS[0].0, TENANTS[1].0] {
            for _ in 0..HOSTS {
                own.scaleway().add_host_of_project(project)?;
            }
            let other = AppleSiliconPool::new("somebody-s-", 1, MachineOptions::TYPE)?.in_project(project);
            strange.extend(own.scaleway().simulator().add_apple_silicon_pool(&other).into_iter().map(|id| (id, 0)));
        }
        let options = |name: &str| {
            ControllerOptions { state: name.to_owned(), all_namespaces: true, ..ControllerOptions::default() }
                .argument("--leader-elect=true")
                .argument("--lease-duration=6s")
                .argument("--second-look=2s")
                .argument("--claim-settle=100ms")
                .argument(&format!("--namespace-credentials={DEFAULT_SECRET}"))
                .argument("--require-namespace-credentials")
                .argument(&format!("--identity={name}-{seed}"))
        };
        let mut controllers = Vec::new();
        for name in ["first", "second"] {
            let controller = own.start(&options(name)).await?;
            controllers.push((options(name), Some(controller)));
        }
        Ok(Self {
            plane,
            random: ChaCha8Rng::seed_from_u64(seed),
            own,
            tenants,
            controllers: Mutex::new(controllers),
            kills: 0,
            strange,
            visitors: Vec::new(),
            had: BTreeMap::new(),
            projects: BTreeMap::new(),
            looked_at: 0,
            story: Vec::new(),
            counts: BTreeMap::new(),
        })
    }

    fn scaleway(&self) -> &Scaleway {
        self.own.scaleway()
    }

    fn note(&mut self, what: &'static str, detail: impl std::fmt::Display) {
        if std::env::var_os("WINDLASS_WEEKS_LIVE").is_some() {
            eprintln!("{what} {detail}");
        }
        *self.counts.entry(what).or_default() += 1;
        self.story
            .push(format!("{:>7.1} h  {what} {detail}", self.scaleway().simulator().now().as_secs_f64() / 3600.0));
    }

    fn summary(&self) -> String {
        let calls = self.scaleway().calls().len();
        let counts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        format!("{calls} calls, {}", counts.join(", "))
    }

    fn last_words(&mut self) -> String {
        let running = self.controllers.get_mut().iter().filter_map(|(_, controller)| controller.as_ref());
        running.map(Controller::last_words).collect::<Vec<_>>().join("\n--\n")
    }

    fn leave(&mut self) {
        for (_, controller) in self.controllers.get_mut() {
            if let Some(mut controller) = controller.take() {
                controller.kill();
            }
        }
        for tenant in self.tenants.iter().chain(&self.visitors) {
            // Finalizers would hold it: nobody looks at these objects any more.
            for kind in MADE {
                let kind = kind.resource().plural;
                let names = ["get", &kind, "-n", tenant.scene.namespace(), "-o", "name"];
                for name in self.plane.kubectl(User::Admin, &names, "").unwrap_or_default().lines() {
                    let patch = r#"--patch={"metadata":{"finalizers":null}}"#;
                    let namespace = tenant.scene.namespace();
                    let _ =
                        self.plane.kubectl(User::Admin, &["patch", name, "-n", namespace, "--type=merge", patch], "");
                    let _ = self.plane.kubectl(User::Admin, &["delete", name, "-n", namespace, "--wait=false"], "");
                }
            }
        }
    }

    /// Lives through the week and its end.
    async fn live(&mut self) -> Result<()> {
        // Both leaders die in the course of it, each at a time of its own.
        let first = self.random.random_range(2..ROUNDS / 2);
        let second = self.random.random_range(ROUNDS / 2..ROUNDS - 1);
        for round in 0..ROUNDS {
            self.meddle().await.with_context(|| format!("round {round}"))?;
            for tenant in 0..self.tenants.len() {
                for _ in 0..self.random.random_range(0..3) {
                    self.work(tenant).await.with_context(|| format!("round {round}"))?;
                }
            }
            self.happen().await.with_context(|| format!("round {round}"))?;
            if round == first || round == second {
                self.kill_the_leader().await?;
            }
            self.pass_half_a_day().await?;
            self.restart().await?;
            self.check().await.with_context(|| format!("after round {round}"))?;
        }
        self.calm().await?;
        self.check().await.context("when all was calm")?;
        self.end().await
    }

    /// Something that a tenant does.
    async fn work(&mut self, of: usize) -> Result<()> {
        let kind = *MADE.choose(&mut self.random).unwrap_or(&MADE[0]);
        let there: Vec<_> = self.living(of, kind).await?;
        let most = if kind == Kind::AppleSiliconMachine { HOSTS } else { INSTANCES };
        match self.random.random_range(0..10) {
            0..5 if there.len() < most => self.make(of, kind).await,
            5..7 => {
                let Some(name) = there.choose(&mut self.random).cloned() else { return Ok(()) };
                self.note("deleted", format_args!("{of}/{name}"));
                self.tenants[of].scene.delete(kind, &name).await
            }
            7 => self.scale(of).await,
            8 => self.steal(of).await,
            9 => self.change_key(of).await,
            _ => Ok(()),
        }
    }

    /// What happens to objects that are at rest: before anything else of a round begins, so that no call of the
    /// controller's is under way for what a colleague takes over.
    async fn meddle(&mut self) -> Result<()> {
        let of = self.random.random_range(0..self.tenants.len());
        match self.random.random_range(0..7) {
            0 => self.pause(of).await,
            1 => self.edit_annotations(of).await,
            2 => self.take_over_a_server(of).await,
            3 => self.take_over_a_mac(of).await,
            4 => self.visit().await,
            _ => Ok(()),
        }
    }

    /// Pauses an object, or lets one go on.
    async fn pause(&mut self, of: usize) -> Result<()> {
        let kind = *MADE.choose(&mut self.random).unwrap_or(&MADE[0]);
        let Some(name) = self.living(of, kind).await?.choose(&mut self.random).cloned() else { return Ok(()) };
        let value = if self.random.random_bool(0.7) { json!("true") } else { Value::Null };
        self.note("paused", format_args!("{of}/{name}: {value}"));
        let annotations = json!({"metadata": {"annotations": {PAUSED: value}}});
        self.tenants[of].scene.patch(kind, &name, annotations).await.map(drop)
    }

    /// The annotations that mirror what an object has: nothing, nonsense, or what another object of the tenant's has.
    async fn edit_annotations(&mut self, of: usize) -> Result<()> {
        let (kind, key) = *[(Kind::AppleSiliconMachine, CLAIM), (Kind::InstanceMachine, OPERATION)]
            .choose(&mut self.random)
            .context("no kind")?;
        let objects = self.tenants[of].scene.list(kind).await?;
        let Some(object) =
            objects.iter().filter(|one| is_at_rest(one)).collect::<Vec<_>>().choose(&mut self.random).copied()
        else {
            return Ok(());
        };
        let others = objects.iter().filter_map(|one| one.annotations().get(key)).map(|value| json!(value));
        let values: Vec<Value> = others.chain([Value::Null, json!("nonsense")]).collect();
        let value = values.choose(&mut self.random).cloned().unwrap_or_default();
        self.note("edited", format_args!("{of}/{}: {key} is {value}", object.name_any()));
        let annotations = json!({"metadata": {"annotations": {key: value}}});
        self.tenants[of].scene.patch(kind, &object.name_any(), annotations).await.map(drop)
    }

    /// A colleague gives a tenant's server tags of his own: it is his from then on.
    async fn take_over_a_server(&mut self, of: usize) -> Result<()> {
        let Some(id) = self.at_rest(of, Kind::InstanceMachine).await? else { return Ok(()) };
        self.scaleway().calm();
        let path = format!("/instance/v1/zones/fr-par-1/servers/{id}");
        ask(self.scaleway(), "PATCH", &path, &json!({"tags": ["somebody-s"]}))?;
        self.take_over(of, id);
        Ok(())
    }

    /// A colleague gives a tenant's Mac another name. The project gets another one for it.
    async fn take_over_a_mac(&mut self, of: usize) -> Result<()> {
        let Some(id) = self.at_rest(of, Kind::AppleSiliconMachine).await? else { return Ok(()) };
        self.scaleway().simulator().rename_server(&id, format!("somebody-s-{}", self.strange.len()))?;
        self.scaleway().add_host_of_project(TENANTS[of].0)?;
        self.take_over(of, id);
        Ok(())
    }

    fn take_over(&mut self, of: usize, id: String) {
        let since = self.scaleway().simulator().last_sequence();
        self.note("taken over", format_args!("{of}'s {id}"));
        self.strange.insert(id, since);
    }

    /// The server or host of an object that is at rest.
    async fn at_rest(&mut self, of: usize, kind: Kind) -> Result<Option<String>> {
        let objects = self.tenants[of].scene.list(kind).await?;
        let ids =
            objects.iter().filter(|one| is_at_rest(one)).filter_map(|one| one.data["status"]["serverID"].as_str());
        // Until a leader looks again, a status may name one that a colleague deleted.
        let resources = self.scaleway().simulator().resources();
        let ids: Vec<&str> = ids.filter(|id| !self.strange.contains_key(*id) && is_there(&resources, id)).collect();
        Ok(ids.choose(&mut self.random).map(|id| (*id).to_owned()))
    }

    /// A namespace comes with a server and a cluster of its own, or goes with all that it has.
    async fn visit(&mut self) -> Result<()> {
        if let Some(visitor) = self.visitors.last()
            && self.random.random_bool(0.6)
        {
            let namespace = visitor.scene.namespace().to_owned();
            self.note("namespace deleted", &namespace);
            self.plane.kubectl(User::Admin, &["delete", "namespace", &namespace, "--wait=false"], "")?;
            return Ok(());
        }
        let (project, keys) = TENANTS[0];
        let scene = self.own.neighbour("visitor").await?;
        let visitor = Tenant { scene, project, keys, secret: DEFAULT_SECRET, made: 0 };
        visitor.credentials(keys[0], project).await?;
        let group = json!({"name": "web", "count": 1, "types": ["DEV1-S"], "image": "ubuntu_noble"});
        let server = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
        visitor.scene.apply(&visitor.object(Kind::InstanceMachine, "server", server)).await?;
        visitor
            .scene
            .apply(&visitor.object(Kind::ServerCluster, "farm", json!({"zone": "fr-par-1", "groups": [group]})))
            .await?;
        self.note("namespace made", visitor.scene.namespace());
        self.visitors.push(visitor);
        Ok(())
    }

    /// The names of a tenant's objects that are not being deleted.
    async fn living(&self, of: usize, kind: Kind) -> Result<Vec<String>> {
        let objects = self.tenants[of].scene.list(kind).await?;
        let living = objects.iter().filter(|object| object.metadata.deletion_timestamp.is_none());
        Ok(living.map(ResourceExt::name_any).collect())
    }

    async fn make(&mut self, of: usize, kind: Kind) -> Result<()> {
        let count = self.random.random_range(1..3);
        let tenant = &mut self.tenants[of];
        tenant.made += 1;
        let name = format!("{}-{}", &format!("{kind:?}").to_lowercase()[..3], tenant.made);
        let object = match kind {
            Kind::AppleSiliconMachine => tenant.mac(&name, &[]),
            Kind::InstanceMachine => {
                let spec = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
                tenant.object(kind, &name, spec)
            }
            _ => {
                let group = json!({"name": "web", "count": count, "types": ["DEV1-S"], "image": "ubuntu_noble"});
                tenant.object(kind, &name, json!({"zone": "fr-par-1", "groups": [group]}))
            }
        };
        tenant.scene.apply(&object).await?;
        self.note("made", format_args!("{of}/{name}"));
        Ok(())
    }

    async fn scale(&mut self, of: usize) -> Result<()> {
        let clusters = self.living(of, Kind::ServerCluster).await?;
        let Some(name) = clusters.choose(&mut self.random).cloned() else { return Ok(()) };
        let count = self.random.random_range(0..4);
        let api = self.tenants[of].scene.api(Kind::ServerCluster);
        let mut groups = api.get(&name).await?.data["spec"]["groups"].clone();
        groups[0]["count"] = json!(count);
        self.tenants[of].scene.patch(Kind::ServerCluster, &name, json!({"spec": {"groups": groups}})).await?;
        self.note("scaled", format_args!("{of}/{name} to {count}"));
        Ok(())
    }

    /// An object that names what the other tenant has.
    async fn steal(&mut self, of: usize) -> Result<()> {
        let other = &self.tenants[1 - of].scene;
        let macs = other.list(Kind::AppleSiliconMachine).await?;
        let servers = other.list(Kind::InstanceMachine).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let claim = macs.iter().find_map(|mac| mac.annotations().get("windlass.dev/claim").cloned());
        let operation = servers.iter().find_map(|one| one.annotations().get("windlass.dev/operation").cloned());
        let id = servers.iter().map(|one| text(&one.data["spec"]["providerID"])).find(|id| !id.is_empty());
        let host = macs.iter().map(|one| text(&one.data["spec"]["providerID"])).find(|id| !id.is_empty());
        let way = self.random.random_range(0..4);
        let tenant = &mut self.tenants[of];
        tenant.made += 1;
        let name = format!("thief-{}", tenant.made);
        let server = json!({"types": ["DEV1-S"], "image": "ubuntu_noble", "zone": "fr-par-1"});
        let object = match (way, claim, operation, id, host) {
            (0, Some(claim), ..) => tenant.mac(&name, &[("windlass.dev/claim", &claim)]),
            (1, _, Some(operation), ..) => {
                let mut object = tenant.object(Kind::InstanceMachine, &name, server);
                object["metadata"]["annotations"] = json!({"windlass.dev/operation": operation});
                object
            }
            (2, _, _, Some(id), _) => {
                let mut object = tenant.object(Kind::InstanceMachine, &name, server);
                object["spec"]["providerID"] = json!(id);
                object
            }
            (3, _, _, _, Some(host)) => {
                let mut object = tenant.mac(&name, &[]);
                object["spec"]["providerID"] = json!(host);
                object
            }
            _ => return Ok(()),
        };
        tenant.scene.apply(&object).await?;
        self.note("tried to steal", format_args!("{of}/{name} by way {way}"));
        Ok(())
    }

    /// The other key of the tenant's, one that Scaleway has revoked, or none at all.
    async fn change_key(&mut self, of: usize) -> Result<()> {
        let way = self.random.random_range(0..4);
        let tenant = &self.tenants[of];
        match way {
            0 => tenant.scene.delete(Kind::Secret, tenant.secret).await.or_else(|_| Ok::<_, anyhow::Error>(()))?,
            1 => tenant.credentials(REVOKED, tenant.project).await?,
            way => tenant.credentials(tenant.keys[way - 2], tenant.project).await?,
        }
        self.note("changed keys", format_args!("of {of} by way {way}"));
        Ok(())
    }

    /// What happens beside the tenants' work.
    async fn happen(&mut self) -> Result<()> {
        // What a colleague asks for, Scaleway does.
        let what = self.random.random_range(0..10);
        if what == 6 || what == 7 {
            self.scaleway().calm();
        }
        match what {
            0..3 => self.scaleway().calm(),
            3..6 => self.fault()?,
            6 => {
                let project = TENANTS[self.random.random_range(0..2)].0;
                let images = "/marketplace/v2/local-images?image_label=ubuntu_noble&zone=fr-par-1&type=instance_sbs";
                let images = ask(self.scaleway(), "GET", images, &Value::Null)?;
                let image = images["local_images"].as_array().into_iter().flatten();
                let image = image
                    .filter(|image| {
                        let types = image["compatible_commercial_types"].as_array().cloned().unwrap_or_default();
                        types.iter().any(|one| one == "DEV1-S")
                    })
                    .find_map(|image| image["id"].as_str())
                    .context("an image for DEV1-S")?;
                let body = json!({
                    "name": "somebody-s", "commercial_type": "DEV1-S", "image": image, "project": project,
                });
                let server = ask(self.scaleway(), "POST", "/instance/v1/zones/fr-par-1/servers", &body)?;
                let id = server["server"]["id"].as_str().context("a server without an id")?.to_owned();
                self.note("colleague made", &id);
                self.strange.insert(id, 0);
            }
            7 => {
                // A server of a tenant, in the console.
                let of = self.random.random_range(0..2);
                let servers = self.tenants[of].scene.list(Kind::InstanceMachine).await?;
                let mut ids = servers.iter().filter_map(|one| one.data["status"]["serverID"].as_str());
                let id = ids.find(|id| !self.strange.contains_key(*id)).map(str::to_owned);
                if let Some(id) = id.filter(|id| self.projects.get(id).is_some_and(|of_id| of_id == TENANTS[of].0)) {
                    let path = format!("/instance/v1/zones/fr-par-1/servers/{id}/action");
                    let _ = ask(self.scaleway(), "POST", &path, &json!({"action": "terminate"}));
                    self.note("colleague terminated", id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn fault(&mut self) -> Result<()> {
        let kinds = [
            FaultKind::InternalServerError,
            FaultKind::GatewayTimeout,
            FaultKind::GatewayUnavailable,
            FaultKind::RateLimited,
            FaultKind::TransientState,
            FaultKind::OutOfStock,
            FaultKind::DroppedConnection,
            FaultKind::MalformedBody,
            FaultKind::Late(Duration::from_millis(700)),
        ];
        let kind = *kinds.choose(&mut self.random).unwrap_or(&kinds[0]);
        // What says that nothing was done is believed.
        let told = kind.is_refusal() || kind == FaultKind::OutOfStock;
        let after = !told && self.random.random_bool(0.5);
        let paths = ["/instance/**", "/apple-silicon/**", "/block/**", "/instance/**/servers/*/action", "/**"];
        let path = *paths.choose(&mut self.random).unwrap_or(&"/**");
        let nth = self.random.random_range(1..6);
        let method = if self.random.random_bool(0.7) { "POST" } else { "*" };
        self.scaleway().fail(method, path, Some(nth), kind, if after { Effect::After } else { Effect::Before })?;
        self.note("fault", format_args!("{kind} at {method} {path}, the {nth}th"));
        Ok(())
    }

    /// SIGKILL for who leads. It comes back two rounds later at the latest, with its volume or with an empty one.
    async fn kill_the_leader(&mut self) -> Result<()> {
        let leader = eventually("one of the two leads", || async {
            self.start_both().await?;
            for (index, (_, controller)) in self.controllers.lock().await.iter().enumerate() {
                if let Some(controller) = controller
                    && controller.leads().await?
                {
                    return Ok(index);
                }
            }
            bail!("nobody")
        })
        .await?;
        if let Some(mut controller) = self.controllers.get_mut()[leader].1.take() {
            controller.kill();
        }
        self.kills += 1;
        if self.random.random_bool(0.3) {
            let volume = format!("{}-{}", ["first", "second"][leader], self.kills);
            self.controllers.get_mut()[leader].0.state = volume;
            self.note("killed", format_args!("the leader {leader}, its volume is lost"));
        } else {
            self.note("killed", format_args!("the leader {leader}"));
        }
        if self.random.random_bool(0.5) {
            self.start_both().await?;
        }
        Ok(())
    }

    async fn start_both(&self) -> Result<()> {
        self.restart().await?;
        for (options, controller) in self.controllers.lock().await.iter_mut().filter(|(_, one)| one.is_none()) {
            *controller = Some(self.own.start(options).await?);
        }
        Ok(())
    }

    /// Starts again, as a kubelet does, a controller that ended since the Lease was lost: a busy machine is slow to
    /// renew it.
    async fn restart(&self) -> Result<()> {
        for (options, controller) in self.controllers.lock().await.iter_mut() {
            let Some(running) = controller else { continue };
            if running.ended()?.is_some() {
                let words = running.last_words();
                ensure!(words.contains("the Lease is lost"), "a controller ended: {words}");
                *running = self.own.start(options).await?;
            }
        }
        Ok(())
    }

    /// Half a day: some of it while the controller is at work, and the rest at once.
    async fn pass_half_a_day(&mut self) -> Result<()> {
        let began = self.scaleway().simulator().now();
        let pace = Duration::from_millis(self.random.random_range(200..1500));
        tokio::time::sleep(pace).await;
        let passed = self.scaleway().simulator().now().saturating_sub(began);
        self.scaleway().advance(Duration::from_secs(12 * 3600).saturating_sub(passed));
        Ok(())
    }

    /// The laws, which hold at every moment.
    async fn check(&mut self) -> Result<()> {
        let resources = self.scaleway().simulator().resources();
        for one in [&resources.servers, &resources.ips, &resources.volumes, &resources.apple_silicon_servers]
            .into_iter()
            .flatten()
        {
            let (id, project) = (&one["id"], one["project"].as_str().or(one["project_id"].as_str()));
            if let (Some(id), Some(project)) = (id.as_str(), project) {
                self.projects.entry(id.to_owned()).or_insert_with(|| project.to_owned());
            }
        }
        // A key changes what is of its own project, and nobody changes what colleagues have made.
        let project_of = |mark: &str| {
            let of_tenants = TENANTS.iter().flat_map(|(project, keys)| keys.iter().map(move |key| (*project, *key)));
            of_tenants.chain([(OWN, OWN_KEY)]).find(|(_, key)| key_mark(key) == mark).map(|(project, _)| project)
        };
        let requests = self.scaleway().simulator().requests();
        let (first, colleague) = (requests.first().map_or(0, |request| request.sequence), key_mark(COLLEAGUE));
        let mut last = self.looked_at;
        for (id, sequence) in &resources.changes {
            let at = usize::try_from(sequence.saturating_sub(first)).unwrap_or(usize::MAX);
            let Some(request) = requests.get(at).filter(|_| *sequence > self.looked_at) else { continue };
            last = last.max(*sequence);
            let by = project_of(&request.key);
            ensure!(
                self.strange.get(id).is_none_or(|since| sequence <= since) || request.key == colleague,
                "what a colleague has, {id}, was changed: {request:?}"
            );
            ensure!(request.key == colleague || by.is_some(), "a key that nobody has given: {request:?}");
            let of = self.projects.get(id);
            ensure!(
                request.key == colleague || of.is_none_or(|of| Some(of.as_str()) == by),
                "{id} of the project {of:?} was changed with the key of {by:?}: {request:?}"
            );
        }
        self.looked_at = last;
        for id in self.strange.keys() {
            let all = resources.servers.iter().chain(&resources.apple_silicon_servers);
            ensure!(all.into_iter().any(|one| one["id"] == *id), "what a colleague has, {id}, is gone");
        }
        // Each project has an owner of its own.
        let mut owners = BTreeMap::<String, BTreeSet<&str>>::new();
        for server in
            resources.servers.iter().filter(|one| !one["id"].as_str().is_some_and(|id| self.strange.contains_key(id)))
        {
            let tags = server["tags"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let owner = tags.into_iter().find_map(|tag| tag.strip_prefix("windlass-owner="));
            let owner = owner.with_context(|| format!("a server that nobody owns: {server:#}"))?;
            owners.entry(owner.to_owned()).or_default().insert(server["project"].as_str().unwrap_or_default());
        }
        ensure!(owners.values().all(|projects| projects.len() == 1), "one owner in several projects: {owners:?}");
        ensure!(!owners.values().any(|projects| projects.contains(OWN)), "nobody works in the project {OWN}");
        // So do claims: a host bears none that was made for an object of the other tenant's.
        let mut claims = BTreeMap::<String, BTreeSet<String>>::new();
        for host in self.scaleway().hosts() {
            if self.strange.contains_key(&host.id) {
                continue;
            }
            let project = self.projects.get(&host.id).cloned().unwrap_or_default();
            let beginning = |name: &String| name.split('-').next().unwrap_or_default().to_owned();
            let claimed = host.names.iter().filter(|name| !NO_CLAIMS.iter().any(|other| name.starts_with(other)));
            for claim in claimed {
                claims.entry(beginning(claim)).or_default().insert(project.clone());
            }
        }
        ensure!(claims.values().all(|projects| projects.len() == 1), "claims of one tenant in several: {claims:?}");
        // Macs come from the pool and go back to it, and nobody's is wiped or given to another.
        for host in self.scaleway().hosts() {
            if !self.strange.contains_key(&host.id) {
                check_past(&host)?;
            }
            ensure!(!host.deletion_scheduled, "a Mac is to be deleted: {host:?}");
        }
        ensure!(self.scaleway().gone_hosts().is_empty(), "a Mac is gone: {:?}", self.scaleway().gone_hosts());
        self.check_objects().await
    }

    /// What an object has is of its tenant's project, and nobody else's object has it, too. What is said to be gone is
    /// gone: by an object that says so, and by one that is there no more.
    async fn check_objects(&mut self) -> Result<()> {
        let (mut had, mut has) = (BTreeMap::<String, String>::new(), BTreeMap::new());
        let mut said = Vec::new();
        for tenant in self.tenants.iter().chain(&self.visitors) {
            for kind in [Kind::AppleSiliconMachine, Kind::InstanceMachine] {
                for object in tenant.scene.list(kind).await? {
                    let name = format!("{}/{}", tenant.scene.namespace(), object.name_any());
                    let Some(id) = object.data["status"]["serverID"].as_str() else { continue };
                    let of = self.projects.get(id);
                    ensure!(of.is_none_or(|of| of == tenant.project), "{name} has {id} of the project {of:?}");
                    if let Some(other) = had.insert(id.to_owned(), name.clone()) {
                        bail!("{name} and {other} have {id}");
                    }
                    if ["ServerGone", "HostGone"].contains(&ready_reason(&object.data["status"])) {
                        said.push((name.clone(), id.to_owned()));
                    }
                    let claim = object.data["status"]["claim"].as_str().map(str::to_owned);
                    has.insert(name, Had { id: id.to_owned(), claim });
                }
            }
        }
        // Looked at after the objects: what was gone then is gone now.
        let resources = self.scaleway().simulator().resources();
        for (name, id) in said {
            ensure!(!is_there(&resources, &id), "{name} says that {id} is gone");
        }
        for (name, had) in std::mem::replace(&mut self.had, has) {
            if self.had.contains_key(&name) || self.strange.contains_key(&had.id) {
                continue;
            }
            match &had.claim {
                Some(claim) => ensure!(
                    !resources.apple_silicon_servers.iter().any(|host| host["name"] == **claim),
                    "{name} is gone, and its Mac {} has its claim",
                    had.id
                ),
                None => ensure!(!is_there(&resources, &had.id), "{name} is gone, and its server {} is there", had.id),
            }
        }
        Ok(())
    }

    /// Everything that disturbs is taken away, and what is wanted comes.
    async fn calm(&mut self) -> Result<()> {
        self.scaleway().calm();
        self.start_both().await?;
        for visitor in &self.visitors {
            let delete = ["delete", "namespace", visitor.scene.namespace(), "--wait=false", "--ignore-not-found"];
            self.plane.kubectl(User::Admin, &delete, "")?;
        }
        for tenant in &self.tenants {
            let unpaused = json!({"metadata": {"annotations": {PAUSED: null}}});
            for kind in MADE {
                for object in tenant.scene.list(kind).await? {
                    // One that is being deleted may go meanwhile.
                    if_there(tenant.scene.patch(kind, &object.name_any(), unpaused.clone()).await)?;
                }
            }
            tenant.credentials(tenant.keys[0], tenant.project).await?;
            for kind in [Kind::AppleSiliconMachine, Kind::InstanceMachine] {
                for object in tenant.scene.list(kind).await? {
                    if object.name_any().starts_with("thief") && object.metadata.deletion_timestamp.is_none() {
                        tenant.scene.delete(kind, &object.name_any()).await?;
                    }
                }
            }
            for cluster in tenant.scene.list(Kind::ServerCluster).await? {
                let again = json!({"metadata": {"annotations": {"windlass.dev/retry": "at-the-end"}}});
                let _ = tenant.scene.patch(Kind::ServerCluster, &cluster.name_any(), again).await;
            }
        }
        // A person does what such an object says.
        let corrected = json!({"metadata": {"annotations": {CLAIM: null, OPERATION: null}}});
        eventually("what is wanted is there", || async {
            self.start_both().await?;
            for tenant in &self.tenants {
                for kind in MADE {
                    for object in tenant.scene.list(kind).await? {
                        if ["ClaimNotApproved", "ServerNotApproved"].contains(&ready_reason(&object.data["status"])) {
                            tenant.scene.patch(kind, &object.name_any(), corrected.clone()).await?;
                        }
                        ensure!(
                            is_settled(&object.data["status"]),
                            "{}: {:#}",
                            object.name_any(),
                            object.data["status"]
                        );
                        let is_deleted = object.metadata.deletion_timestamp.is_some();
                        if is_deleted && ready_reason(&object.data["status"]) == "NotOurs" {
                            if_there(tenant.scene.patch(kind, &object.name_any(), abandonment()).await)?;
                        }
                        ensure!(!is_deleted, "{} is there still", object.name_any());
                    }
                }
            }
            Ok(())
        })
        .await
    }

    /// All is deleted, and nothing is left but what colleagues have.
    async fn end(&mut self) -> Result<()> {
        for tenant in &self.tenants {
            for kind in MADE {
                for object in tenant.scene.list(kind).await? {
                    if_there(tenant.scene.delete(kind, &object.name_any()).await)?;
                }
            }
        }
        eventually("every object is gone", || async {
            self.start_both().await?;
            for tenant in self.tenants.iter().chain(&self.visitors) {
                for kind in MADE {
                    let left = tenant.scene.list(kind).await?;
                    // Its object waits for the word of a person.
                    for one in left.iter().filter(|one| ready_reason(&one.data["status"]) == "NotOurs") {
                        tenant.scene.patch(kind, &one.name_any(), abandonment()).await?;
                    }
                    let names: Vec<_> =
                        left.iter().map(|one| format!("{}: {:#}", one.name_any(), one.data["status"])).collect();
                    ensure!(left.is_empty(), "{names:#?}");
                }
            }
            Ok(())
        })
        .await?;
        for visitor in &self.visitors {
            eventually("the namespace is gone", || async {
                self.start_both().await?;
                visitor.scene.namespace_gone().await.with_context(|| visitor.scene.namespace().to_owned())
            })
            .await?;
        }
        self.check().await.context("at the end")?;
        let strange = &self.strange;
        eventually("nothing is left, and every Mac is in its pool", || async {
            self.start_both().await?;
            let resources = self.scaleway().simulator().resources();
            let is_strange = |id: &Value| id.as_str().is_some_and(|id| strange.contains_key(id));
            let left: Vec<_> = resources.servers.iter().filter(|server| !is_strange(&server["id"])).collect();
            ensure!(left.is_empty(), "servers: {left:#?}");
            let left: Vec<_> = resources.ips.iter().filter(|ip| !is_strange(&ip["server"]["id"])).collect();
            ensure!(left.is_empty(), "addresses: {left:#?}");
            let of = |volume: &Value| {
                let references = volume["references"].as_array().cloned().unwrap_or_default();
                is_strange(&volume["server"]["id"])
                    || references.iter().any(|one| is_strange(&one["product_resource_id"]))
            };
            let left: Vec<_> = resources.volumes.iter().filter(|volume| !of(volume)).collect();
            ensure!(left.is_empty(), "volumes: {left:#?}");
            for host in self.scaleway().hosts() {
                ensure!(host.in_pool() || strange.contains_key(&host.id), "{host:?}");
            }
            Ok(())
        })
        .await?;
        for (_, controller) in self.controllers.get_mut() {
            if let Some(mut controller) = controller.take() {
                controller.stop()?;
            }
        }
        Ok(())
    }
}

/// The word of a person about an object whose server or host is a colleague's: it may go, and its machine stays.
fn abandonment() -> Value {
    json!({"metadata": {"annotations": {"windlass.dev/abandon": "it is a colleague's now"}}})
}

/// Whether nothing more comes by itself: it is ready, or its server is gone or a colleague's, or people are asked.
fn is_settled(status: &Value) -> bool {
    let waits_for_people = ["ServerGone", "HostGone", "NotOurs", "HostRenamed"].contains(&ready_reason(status));
    is_ready(status) || waits_for_people || status["failureReason"].is_string()
}

fn ready(status: &Value) -> Option<&Value> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == "Ready")
}

fn is_ready(status: &Value) -> bool {
    ready(status).is_some_and(|ready| ready["status"] == "True")
}

fn ready_reason(status: &Value) -> &str {
    ready(status).and_then(|ready| ready["reason"].as_str()).unwrap_or_default()
}

/// Whether the controller has nothing to do for it.
fn is_at_rest(object: &DynamicObject) -> bool {
    is_ready(&object.data["status"]) && object.metadata.deletion_timestamp.is_none()
}

fn is_there(resources: &Resources, id: &str) -> bool {
    resources.servers.iter().chain(&resources.apple_silicon_servers).any(|one| one["id"] == id)
}

/// What was done to an object, unless it is gone.
fn if_there<T>(done: Result<T>) -> Result<Option<T>> {
    let is_gone =
        |error: &anyhow::Error| matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404);
    match done {
        Err(error) if is_gone(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// A colleague's call.
fn ask(scaleway: &Scaleway, method: &str, path: &str, body: &Value) -> Result<Value> {
    let (url, token) = (format!("{}{path}", scaleway.url()), format!("X-Auth-Token: {COLLEAGUE}"));
    let (kind, body) = ("Content-Type: application/json", body.to_string());
    let mut arguments = vec!["-s", "--fail-with-body", "--max-time", "300", "-X", method, "-H", &token];
    if method != "GET" {
        arguments.extend(["-H", kind, "-d", &body]);
    }
    let answer = Command::new("curl").args(arguments).arg(&url).output().context("run curl")?;
    ensure!(answer.status.success(), "{method} {path}: {answer:?}");
    Ok(serde_json::from_slice(&answer.stdout)?)
}
