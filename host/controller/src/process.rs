//! The process: credentials, policies, Lease, the controllers, and their orderly end.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::controller::{self, Action};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_lifecycle::{
    Control, Lifecycle, Options, OwnerName, StateDirectory, Supervisor, SupervisorOptions, SweepRequest,
    scaleway_capabilities,
};
use windlass_policy::{Compiler, Host, HostOptions};
use windlass_scaleway::{Environment, ExplicitSettings, Zone};

use crate::accounts::Accounts;
use crate::arguments::{COMPILE, RunArguments, Sweep};
use crate::cluster_api::{Cluster, ClusterApi, Machine, infrastructure_ready};
use crate::configuration::{Configuration, policy_folder};
use crate::context::{Context, Settings, is_conflict};
use crate::crash::{EndOnPanic, panic_for_tests};
use crate::jobs::Jobs;
use crate::kinds::{AppleSiliconMachine, ExternalCluster, GROUP, InstanceMachine, ServerCluster, labels};
use crate::lease::{LeaseOptions, lead, lease_name};
use crate::observe::{Health, serve_health, serve_metrics};
use crate::pools::Pools;
use crate::server_cluster::{Liveness, ServerClusters};
use crate::{Error, apple_silicon, external_cluster, instance, metric_names, names, orphans, server_cluster};

/// Who we are in events and in the Lease's history.
const CONTROLLER: &str = "windlass-controller";
/// The kind that Cluster API has no part in.
const SERVER_CLUSTER: &str = "ServerCluster";
/// How often it is looked whether Cluster API has been installed meanwhile, or is served in another version.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// How long a first wait is after an error of a reconcile.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// How long after a write was overtaken.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);
/// So long new work waits for the operations that a dead predecessor left open.
const RECOVERY_HEAD_START: Duration = Duration::from_secs(10);

/// What is appended to the client's own user agent.
pub(crate) fn user_agent() -> String {
    format!("{CONTROLLER}/{}", env!("CARGO_PKG_VERSION"))
}

/// Runs the controller until `shutdown` is cancelled.
///
/// # Errors
/// What is wrong with configuration or credentials, before anything is touched; [`Error::LeaseLost`] when another
/// process may lead: all work has stopped then, and the process is to end.
pub async fn run(arguments: RunArguments, shutdown: CancellationToken) -> Result<(), Error> {
    let process = Process::prepare(&arguments).await?;
    let end = CancellationToken::new();
    let _end = end.clone().drop_guard();
    let health = Health::default();
    if let Some(address) = arguments.metrics_bind_address.0 {
        serve_metrics(address, end.clone()).await?;
    }
    if let Some(address) = arguments.health_probe_bind_address.0 {
        serve_health(address, health.clone(), end.clone()).await?;
    }
    metrics::gauge!(metric_names::LEADER).set(0.0);
    // Waiting for the Lease is being ready: otherwise a roll-out of two would wait for ever.
    health.set_ready(true);
    let leadership = if arguments.leader_elect {
        let options = LeaseOptions::of(&arguments, process.identity.clone());
        match lead(process.client.clone(), options, &shutdown).await {
            Some(leadership) => Some(leadership),
            None => return Ok(()),
        }
    } else {
        None
    };
    metrics::gauge!(metric_names::LEADER).set(1.0);
    let lost = leadership.as_ref().map(crate::lease::Leadership::lost).unwrap_or_default();
    let panicked = CancellationToken::new();
    let worked = tokio::select! {
        // Without waiting for anything: another may begin any moment.
        () = lost.cancelled() => Err(Error::LeaseLost),
        () = panicked.cancelled() => Err(Error::Panicked),
        worked = process.work(&arguments, &shutdown, &panicked) => worked,
    };
    metrics::gauge!(metric_names::LEADER).set(0.0);
    if worked.is_err() {
        health.set_broken();
    }
    if let Some(leadership) = leadership
        // What panicked may not be all that was at work: a successor waits until the Lease has run out.
        && !matches!(worked, Err(Error::LeaseLost | Error::Panicked))
    {
        leadership.release().await;
    }
    worked
}

/// What is made before the Lease is asked for.
struct Process {
    client: Client,
    scaleway: windlass_scaleway::Client,
    policies: Arc<Host>,
    state: StateDirectory,
    owner: OwnerName,
    identity: String,
    settings: Settings,
}

impl Process {
    async fn prepare(arguments: &RunArguments) -> Result<Self, Error> {
        let configuration = arguments.config.as_deref().map(Configuration::read).transpose()?.unwrap_or_default();
        let mut explicit = ExplicitSettings::default();
        explicit.zone = arguments.zone.clone();
        explicit.api_url = arguments.api_url.clone();
        explicit.user_agent = Some(user_agent());
        let scaleway_settings = windlass_scaleway::Settings::load(&explicit, &Environment::of_process())?;
        orphans::check(arguments)?;
        if arguments.namespace_credentials.is_some() {
            // What was begun with which key is told by the project.
            scaleway_settings.require_project_id()?;
        }
        let pools = Pools::of(arguments.pool_prefix.as_deref(), &arguments.pool)?;
        let zone = scaleway_settings.zone().cloned();
        let scaleway =
            windlass_scaleway::Client::new(scaleway_settings).map_err(|error| Error::Client(Box::new(error)))?;
        for notice in scaleway.settings().notices() {
            tracing::warn!("{notice}");
        }
        let state = StateDirectory::open(&arguments.state_dir)?;
        let policies = {
            let (arguments, state, scaleway) = (arguments.clone(), state.clone(), scaleway.clone());
            tokio::task::spawn_blocking(move || policy_host(&arguments, &configuration, &state, &scaleway))
                .await
                .map_err(|error| Error::Defect(error.to_string()))??
        };
        let client = kubernetes(arguments.kubeconfig.as_deref()).await?;
        let owner = match &arguments.owner {
            Some(owner) => owner.clone(),
            None => owner(&client).await?,
        };
        tracing::info!(%owner, "machines belong to this owner");
        let identity = arguments.identity.clone().unwrap_or_else(|| {
            let host = std::env::var("HOSTNAME").unwrap_or_else(|_| CONTROLLER.to_owned());
            format!("{host}-{}", &uuid::Uuid::new_v4().simple().to_string()[..8])
        });
        // Pods of two installations may have one name, and they may want one Lease.
        let identity = match &arguments.leader_elect_name {
            Some(_) => identity,
            None => format!("{identity}_{}", arguments.controller_namespace),
        };
        Ok(Self {
            settings: Settings {
                owner: owner.clone(),
                watched: arguments.namespace.clone(),
                project: scaleway.settings().project_id().map(str::to_owned),
                namespace_credentials: arguments.namespace_credentials.clone(),
                zone,
                namespace: arguments.controller_namespace.clone(),
                pools,
                allow_orders: arguments.allow_orders,
                listing_interval: arguments.listing_interval,
                retry_interval: arguments.retry_interval,
            },
            client,
            scaleway,
            policies: Arc::new(policies),
            state,
            owner,
            identity,
        })
    }

    /// Works as the leader.
    async fn work(
        &self,
        arguments: &RunArguments,
        shutdown: &CancellationToken,
        panicked: &CancellationToken,
    ) -> Result<(), Error> {
        let _watch = match self.policies.watch() {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "policies are not reloaded when their files change"
                );
                None
            }
        };
        let mut options = Options::new(self.scaleway.clone(), Arc::clone(&self.policies), self.state.clone());
        options.owner = Some(self.owner.clone());
        options.limits.parallel_operations = usize::from(arguments.operations);
        options.limits.machine_interval = arguments.listing_interval;
        options.limits.claim_settle = arguments.claim_settle;
        options.limits.second_look = arguments.second_look;
        options.project.clone_from(&self.settings.project);
        let limits = options.limits;
        // Only the leader opens the journal, so what stands open in it is a dead process's.
        let lifecycle = Lifecycle::open(options)?;
        let jobs = Jobs::new(usize::from(arguments.operations), panicked.clone());
        let supervisor = Supervisor::new(lifecycle.clone(), supervision(arguments, self.settings.zone.as_ref()));
        supervise(supervisor, &jobs, shutdown).await;
        let reporter = Reporter { controller: CONTROLLER.into(), instance: Some(self.identity.clone()) };
        let liveness = Liveness {
            identity: self.identity.clone(),
            lease: arguments.leader_elect.then(|| {
                let leases = Api::namespaced(self.client.clone(), &arguments.leader_elect_namespace);
                (leases, lease_name(arguments))
            }),
        };
        let accounts = Arc::new(Accounts::new(
            self.state.clone(),
            liveness.clone(),
            shutdown.clone(),
            limits,
            supervision(arguments, self.settings.zone.as_ref()),
        ));
        let server_clusters = Arc::new(ServerClusters::new(liveness, shutdown.clone()));
        let recorder = Recorder::new(self.client.clone(), reporter);
        loop {
            let cluster_api =
                ClusterApi::discover(&self.client).await.map_err(Error::kubernetes("looking for Cluster API"))?;
            match &cluster_api {
                Some(found) => tracing::info!(version = %found.version, "Cluster API is there"),
                None => tracing::info!("Cluster API is not installed: machines work alone until it is"),
            }
            let context = Arc::new(Context {
                client: self.client.clone(),
                cluster_api: cluster_api.clone(),
                scaleway: self.scaleway.clone(),
                lifecycle: lifecycle.clone(),
                policies: Arc::clone(&self.policies),
                jobs: Arc::clone(&jobs),
                recorder: recorder.clone(),
                settings: self.settings.clone(),
                settled: Arc::default(),
                accounts: Arc::clone(&accounts),
                server_clusters: Arc::clone(&server_clusters),
            });
            let again = controllers(context, arguments, shutdown, panicked).await;
            if !again {
                break;
            }
        }
        jobs.leave(arguments.shutdown_grace).await;
        Ok(())
    }
}

/// Lets the supervisor work until the end: it ends or undoes what a dead predecessor left open, and what a failed write
/// of the journal leaves later. Returns when its first round is over, or at the latest after the head start: what takes
/// long (a server that boots, a host that does not answer) goes on in the background and holds no other machine up;
/// whoever meets such an operation waits for its end.
async fn supervise(supervisor: Supervisor, jobs: &Arc<Jobs>, shutdown: &CancellationToken) {
    let control = Control::new();
    let first = CancellationToken::new();
    let begun = first.clone();
    let task = jobs.aside(control.clone(), async move { supervisor.run(&control, |_| begun.cancel()).await });
    // It ends with the jobs, which wait for it.
    drop(task);
    tokio::select! {
        () = first.cancelled() => {}
        () = tokio::time::sleep(RECOVERY_HEAD_START) => {
            tracing::info!("what was left open is still being ended; machines are looked after meanwhile");
        }
        () = shutdown.cancelled() => {}
    }
}

/// What the supervisor does here.
fn supervision(arguments: &RunArguments, zone: Option<&Zone>) -> SupervisorOptions {
    let request = |dry_run| {
        let mut request = SweepRequest::new(zone.into_iter().cloned().collect());
        request.dry_run = dry_run;
        request
    };
    let sweep = match arguments.sweep {
        Sweep::Off => None,
        Sweep::Report => Some(request(true)),
        Sweep::Remove => Some(request(false)),
    };
    let mut options = SupervisorOptions::default();
    options.sweep = sweep;
    options
}

fn policy_host(
    arguments: &RunArguments,
    configuration: &Configuration,
    state: &StateDirectory,
    client: &windlass_scaleway::Client,
) -> Result<Host, Error> {
    let directory = state
        .handle()
        .try_clone()
        .map_err(|source| windlass_lifecycle::Error::StateDirectory { path: state.path().to_owned(), source })?;
    let mut options = HostOptions::new(directory);
    options.policy_folder = policy_folder(arguments.policy_folder.as_ref(), arguments.config.as_ref());
    options.capabilities = scaleway_capabilities(client);
    // A child compiles, and takes the code generator's memory with it. Where it cannot be started, this process
    // compiles.
    options.compiler = Compiler::this_program([COMPILE]).ok();
    let refused = |error| Error::Policies(Box::new(error));
    let host = Host::new(options).map_err(refused)?;
    host.configure(&configuration.policies).map_err(refused)?;
    Ok(host)
}

pub(crate) async fn kubernetes(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    let config = match kubeconfig {
        Some(path) => {
            let problem =
                |error: kube::config::KubeconfigError| Error::Kubeconfig(format!("{}: {error}", path.display()));
            let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(problem)?;
            Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .map_err(problem)?
        }
        None => Config::infer().await.map_err(|error| Error::Kubeconfig(error.to_string()))?,
    };
    Client::try_from(config).map_err(|error| Error::Kubeconfig(error.to_string()))
}

/// The owner of this Kubernetes cluster: the UID of the namespace kube-system lives as long as the cluster.
async fn owner(client: &Client) -> Result<OwnerName, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    match api.get("kube-system").await {
        Ok(namespace) => Ok(names::owner_of_cluster(&namespace.uid().unwrap_or_default())),
        Err(error) => Err(Error::Option {
            option: "--owner",
            problem: format!(
                "it is not given, and the namespace kube-system, from which it would be made, cannot be read ({error}): set it to a \
                 name that no other cluster uses"
            ),
        }),
    }
}

/// Runs the controllers until the end, or until Cluster API is there in another version, or at all (`true`).
async fn controllers(
    context: Arc<Context>,
    arguments: &RunArguments,
    shutdown: &CancellationToken,
    panicked: &CancellationToken,
) -> bool {
    let stop = shutdown.child_token();
    let tasks = TaskTracker::new();
    let spawn = |task: BoxFuture<'static, ()>| {
        let guard = EndOnPanic(panicked.clone());
        tasks.spawn(async move {
            let _guard = guard;
            task.await;
        });
    };
    spawn(Box::pin(machines(
        AppleSiliconMachine::default(),
        "AppleSiliconMachine",
        apple_silicon::reconcile,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(machines(
        InstanceMachine::default(),
        "InstanceMachine",
        instance::reconcile,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(machines(
        ServerCluster::default(),
        SERVER_CLUSTER,
        server_cluster::reconcile,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(clusters(Arc::clone(&context), arguments, stop.clone())));
    match orphans::Watch::of(arguments) {
        Some(watch) => spawn(Box::pin(orphans::watch(Arc::clone(&context), watch, stop.clone()))),
        None => tracing::info!("orphans are not looked for: one namespace cannot explain the claims of another"),
    }
    tasks.close();
    let appeared = async {
        loop {
            tokio::time::sleep(DISCOVERY_INTERVAL).await;
            // One that is gone is waited for: without it a pause of its Clusters could not be seen.
            if let Ok(found @ Some(_)) = ClusterApi::discover(&context.client).await
                && found != context.cluster_api
            {
                return;
            }
        }
    };
    let again = tokio::select! {
        () = shutdown.cancelled() => false,
        () = appeared => true,
        () = tasks.wait() => false,
    };
    stop.cancel();
    // Reconciles are short: they wait for nobody but the API server, which may not answer any more at the end.
    if again {
        tasks.wait().await;
    } else if tokio::time::timeout(arguments.shutdown_grace, tasks.wait()).await.is_err() {
        tracing::warn!("looks at objects did not end in time, and are given up");
    }
    again
}

/// The objects of a kind in one namespace, or in all.
pub(crate) fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn api_with<K>(client: &Client, namespace: Option<&str>, resource: &kube::api::ApiResource) -> Api<K>
where
    K: Resource<DynamicType = kube::api::ApiResource, Scope = kube::core::DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

/// The controller of one kind of machine.
fn machines<K, F>(
    _kind: K,
    name: &'static str,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
    context: Arc<Context>,
    arguments: &RunArguments,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    F: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let namespace = arguments.namespace.clone();
    let concurrency = arguments.concurrency;
    async move {
        let api: Api<K> = api(&context.client, namespace.as_deref());
        let mut controller = Controller::new(api, watcher::Config::default())
            .with_config(controller::Config::default().concurrency(concurrency));
        // A cluster of servers has nothing above it.
        if let Some(cluster_api) = context.cluster_api.as_ref().filter(|_| name != SERVER_CLUSTER) {
            let of_cluster = Arc::clone(&context);
            let (store, seen) = (controller.store(), Seen::default());
            controller = controller
                .watches_with(
                    api_with::<Machine>(&context.client, namespace.as_deref(), &cluster_api.machine),
                    cluster_api.machine.clone(),
                    watcher::Config::default(),
                    move |machine| infrastructure_of::<K>(&machine, name),
                )
                .watches_with(
                    api_with::<Cluster>(&context.client, namespace.as_deref(), &cluster_api.cluster),
                    cluster_api.cluster.clone(),
                    watcher::Config::default(),
                    move |cluster| members(&store, &cluster, &seen, &of_cluster),
                );
        }
        let shared = Arc::clone(&context);
        let reconciles = controller.graceful_shutdown_on(stop.cancelled_owned()).run(
            move |object, context| measured(name, reconcile, object, context),
            move |object, error, _| after_error(name, object.as_ref(), error),
            shared,
        );
        finish(name, reconciles).await;
    }
}

/// The controller of clusters.
fn clusters(
    context: Arc<Context>,
    arguments: &RunArguments,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let namespace = arguments.namespace.clone();
    async move {
        let name = "ExternalCluster";
        let api: Api<ExternalCluster> = api(&context.client, namespace.as_deref());
        let mut controller =
            Controller::new(api, watcher::Config::default()).with_config(controller::Config::default().concurrency(4));
        if let Some(cluster_api) = &context.cluster_api {
            let store = controller.store();
            controller = controller.watches_with(
                api_with::<Cluster>(&context.client, namespace.as_deref(), &cluster_api.cluster),
                cluster_api.cluster.clone(),
                watcher::Config::default(),
                move |cluster| {
                    let (cluster, namespace) = (cluster.name_any(), cluster.namespace());
                    store
                        .state()
                        .into_iter()
                        .filter(|object| {
                            object.namespace() == namespace
                                && crate::cluster_api::owner_cluster(object.as_ref()).as_ref() == Some(&cluster)
                        })
                        .map(|object| ObjectRef::from_obj(object.as_ref()))
                        .collect::<Vec<_>>()
                },
            );
        }
        let reconciles = controller.graceful_shutdown_on(stop.cancelled_owned()).run(
            move |object, context| measured(name, external_cluster::reconcile, object, context),
            move |object, error, _| after_error(name, object.as_ref(), error),
            context,
        );
        finish(name, reconciles).await;
    }
}

/// The machine object that a Machine refers to.
fn infrastructure_of<K>(machine: &Machine, kind: &str) -> Option<ObjectRef<K>>
where
    K: Resource<DynamicType = ()>,
{
    let reference = &machine.spec.infrastructure_ref;
    if !reference.is(GROUP, kind) {
        return None;
    }
    Some(ObjectRef::new(&reference.name).within(&machine.namespace()?))
}

/// What of a Cluster its machines depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gates {
    paused: bool,
    ready: bool,
}

/// The Clusters as their machines saw them last, by UID.
type Seen = Mutex<HashMap<String, Gates>>;

/// Whether a Cluster is another to its machines than it was when they were looked at last.
fn is_news(seen: &Seen, cluster: &Cluster) -> bool {
    let mut seen = seen.lock();
    let uid = cluster.uid().unwrap_or_default();
    if cluster.meta().deletion_timestamp.is_some() {
        seen.remove(&uid);
        return true;
    }
    let gates = Gates { paused: cluster.spec.paused.unwrap_or(false), ready: infrastructure_ready(cluster) };
    seen.insert(uid, gates) != Some(gates)
}

/// The objects of a Cluster that has changed in what they depend on. What was settled about them is looked at anew: the
/// Cluster may have been paused.
fn members<K>(store: &Store<K>, cluster: &Cluster, seen: &Seen, context: &Context) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    if !is_news(seen, cluster) {
        return Vec::new();
    }
    let (name, namespace) = (cluster.name_any(), cluster.namespace());
    store
        .state()
        .into_iter()
        .filter(|object| object.namespace() == namespace && object.labels().get(labels::CLUSTER_NAME) == Some(&name))
        .map(|object| {
            context.settled.forget(&object.uid().unwrap_or_default());
            ObjectRef::from_obj(object.as_ref())
        })
        .collect()
}

async fn measured<K, F>(
    name: &'static str,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
    object: Arc<K>,
    context: Arc<Context>,
) -> Result<Action, Error>
where
    K: Resource<DynamicType = ()>,
    F: Future<Output = Result<Action, Error>>,
{
    let began = Instant::now();
    panic_for_tests("reconcile", &object.name_any());
    let result = reconcile(object, context).await;
    let outcome = if result.is_ok() { "done" } else { "failed" };
    metrics::counter!(metric_names::RECONCILES, "kind" => name, "outcome" => outcome).increment(1);
    metrics::histogram!(metric_names::RECONCILE_SECONDS, "kind" => name).record(began.elapsed().as_secs_f64());
    result
}

fn after_error<K: Resource<DynamicType = ()>>(kind: &str, object: &K, error: &Error) -> Action {
    let overtaken = match error {
        Error::Overtaken => true,
        Error::Kubernetes { source, .. } => is_conflict(source),
        _ => false,
    };
    if overtaken {
        return Action::requeue(AFTER_CONFLICT);
    }
    tracing::warn!(
        kind,
        namespace = object.namespace(),
        name = object.name_any(),
        error = error as &dyn std::error::Error,
        "the reconcile failed and is tried again"
    );
    Action::requeue(AFTER_ERROR)
}

async fn finish<K, E, W>(
    name: &'static str,
    reconciles: impl futures::Stream<Item = Result<(ObjectRef<K>, Action), controller::Error<E, W>>>,
) where
    K: Resource<DynamicType = ()>,
    E: std::error::Error + 'static,
    W: std::error::Error + 'static,
{
    let mut reconciles = std::pin::pin!(reconciles);
    while let Some(result) = reconciles.next().await {
        match result {
            // The reconciler's own errors were logged with their object.
            Ok(_) | Err(controller::Error::ReconcilerFailed(..) | controller::Error::ObjectNotFound(_)) => {}
            Err(error) => tracing::warn!(kind = name, %error, "the watch was interrupted and goes on"),
        }
    }
    tracing::debug!(kind = name, "the controller has ended");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_news_to_its_machines_when_its_gates_change() {
        let cluster = |uid: &str, paused: bool, ready: bool, deleted: bool| -> Cluster {
            let mut object = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "uid": uid},
                "spec": {"paused": paused}, "status": {"initialization": {"infrastructureProvisioned": ready}},
            });
            if deleted {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            serde_json::from_value(object).unwrap()
        };
        let seen = Seen::default();
        for (found, news) in [
            (cluster("a", false, false, false), true),
            (cluster("a", false, false, false), false),
            (cluster("a", false, true, false), true),
            (cluster("a", false, true, false), false),
            (cluster("b", false, true, false), true),
            (cluster("a", true, true, false), true),
            (cluster("a", true, true, false), false),
            (cluster("a", true, true, true), true),
            (cluster("a", true, true, true), true),
        ] {
            assert_eq!(is_news(&seen, &found), news, "{found:?}");
        }
    }
}
