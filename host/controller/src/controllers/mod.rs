//! The controllers of the kinds: what each watches, and what follows an error.

mod cluster_events;
mod queue;
mod states;

use std::sync::Arc;
use std::time::Duration;

use cluster_events::{Seen, infrastructure_of, members};
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt as _};
use kube::runtime::controller;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt};
use queue::Queue;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_policy::slots::SlotName;

use crate::action::Action;
use crate::arguments::RunArguments;
use crate::cluster_api::{Cluster, ClusterApi, Machine};
use crate::context::Context;
use crate::crash::panic_for_tests;
use crate::kinds::{AppleSiliconMachineTemplate, ExternalCluster, InstanceMachineTemplate, labels};
use crate::kubernetes::{api, api_with};
use crate::settings::Settings;
use crate::shard::InShard;
use crate::writes::is_conflict;
use crate::{
    Error, apple_silicon, capacity, external_cluster, instance, metric_names, orphans, remediation, server_cluster,
};

/// How often it is looked whether Cluster API has been installed meanwhile, or is served in another version.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// How often it is looked whether other policies decide.
const POLICIES_INTERVAL: Duration = Duration::from_secs(2);
/// How long a first wait is after an error of a reconcile.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// How long after a write was overtaken.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// Runs the controllers until the end, or until Cluster API is there in another version, or at all (`true`).
pub(crate) async fn run(context: Arc<Context>, arguments: &RunArguments, shutdown: &CancellationToken) -> bool {
    let stop = shutdown.child_token();
    let tasks = TaskTracker::new();
    let spawn = |task: BoxFuture<'static, ()>| drop(tasks.spawn(context.jobs.beside(task)));
    spawn(Box::pin(machines(
        "AppleSiliconMachine",
        WatchScope::Machines,
        Some(states::of_mac),
        apple_silicon::reconcile,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(machines(
        "InstanceMachine",
        WatchScope::Machines,
        Some(states::of_instance),
        instance::reconcile,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    if context.settings.server_clusters {
        spawn(Box::pin(machines(
            "ServerCluster",
            WatchScope::Nothing,
            Some(states::of_cluster),
            server_cluster::reconcile,
            Arc::clone(&context),
            arguments,
            stop.clone(),
        )));
    }
    if arguments.remediation {
        spawn(Box::pin(machines(
            "MachineRemediation",
            WatchScope::Nothing,
            None,
            remediation::reconcile,
            Arc::clone(&context),
            arguments,
            stop.clone(),
        )));
    }
    spawn(Box::pin(machines(
        "AppleSiliconMachineTemplate",
        WatchScope::Nothing,
        None,
        capacity::reconcile::<AppleSiliconMachineTemplate>,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(machines(
        "InstanceMachineTemplate",
        WatchScope::Nothing,
        None,
        capacity::reconcile::<InstanceMachineTemplate>,
        Arc::clone(&context),
        arguments,
        stop.clone(),
    )));
    spawn(Box::pin(clusters(Arc::clone(&context), arguments, stop.clone())));
    match orphans::Watch::of(arguments, context.settings.shard) {
        Some(watch) => spawn(Box::pin(orphans::watch(Arc::clone(&context), watch, stop.clone()))),
        None => tracing::info!(
            "the search for orphans is off, because this controller watches one namespace and \
                                hosts of others would look orphaned"
        ),
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
        tracing::warn!("some reconciles did not finish within the shutdown grace period");
    }
    again
}

/// Whose events bring an object's reconcile about, beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchScope {
    /// Those of the Machine and the Cluster above it.
    Machines,
    /// Nobody's: nothing stands above it, or it looks by itself.
    Nothing,
}

/// A controller as [`Controller::new`] makes it, but for what it keeps of each object: who wrote which field, which
/// nobody here asks for, is half of its memory.
///
/// Objects that other controllers work on are not even read: one that loses the label is gone from the watch. Those of
/// other shards are read and not kept.
fn controller_of<K>(api: Api<K>, settings: &Settings, queue: &Queue) -> Controller<K>
where
    K: Resource<DynamicType = ()> + InShard + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default();
    let config = match &settings.watch_filter {
        Some(value) => config.labels(&format!("{}={value}", labels::WATCH_FILTER)),
        None => config,
    };
    let (queue, settings) = (queue.clone(), settings.clone());
    let is_ours = move |event: &watcher::Event<K>| match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) | watcher::Event::Delete(object) => {
            settings.has_in_shard(object)
        }
        watcher::Event::Init | watcher::Event::InitDone => true,
    };
    let objects = watcher(api, config)
        .try_filter(move |event| futures::future::ready(is_ours(event)))
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects()
        .inspect_ok(move |object| queue.add(object));
    Controller::for_stream(objects, reader)
}

/// The controller of one kind.
fn machines<K, F>(
    name: &'static str,
    scope: WatchScope,
    state: Option<fn(&K) -> &str>,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
    context: Arc<Context>,
    arguments: &RunArguments,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + InShard
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
        let queue = Queue::new(name, context.settings.shard);
        let mut controller = controller_of(api, &context.settings, &queue)
            .with_config(controller::Config::default().concurrency(concurrency));
        if let Some(cluster_api) = context.cluster_api.as_ref().filter(|_| scope == WatchScope::Machines) {
            let of_cluster = Arc::clone(&context);
            let (store, seen) = (controller.store(), Seen::default());
            let (of_machines, of_clusters) = (queue.clone(), queue.clone());
            controller = controller
                .watches_with(
                    api_with::<Machine>(&context.client, namespace.as_deref(), &cluster_api.machine),
                    cluster_api.machine.clone(),
                    watcher::Config::default(),
                    move |machine| of_machines.add_all(infrastructure_of::<K>(&machine, name)),
                )
                .watches_with(
                    api_with::<Cluster>(&context.client, namespace.as_deref(), &cluster_api.cluster),
                    cluster_api.cluster.clone(),
                    watcher::Config::default(),
                    move |cluster| of_clusters.add_all(members(&store, &cluster, &seen, &of_cluster)),
                );
        }
        let shared = Arc::clone(&context);
        let (all, of_policies) = (controller.store(), queue.clone());
        let replaced = replaced_policies(Arc::clone(&context))
            .inspect(move |()| all.state().iter().for_each(|object| of_policies.add(object.as_ref())));
        let controller = controller.reconcile_all_on(replaced);
        let counted = states::count(name, state, context.settings.shard, controller.store(), stop.clone());
        let queued = queue.clone().count(stop.clone());
        let reconciles =
            reconciles(name, reconcile, &queue, controller.graceful_shutdown_on(stop.cancelled_owned()), shared);
        tokio::join!(finish(name, reconciles, &queue), counted, queued);
    }
}

/// An item each time that other policies decide: what waited for the word of the former is looked at again.
fn replaced_policies(context: Arc<Context>) -> impl Stream<Item = ()> + Send + Sync + 'static {
    let look = |context: &Context| (context.policies_in_use(None, &SlotName::ALL), context.policies.scoped_version());
    let before = look(&context);
    futures::stream::unfold((context, before), move |(context, before)| async move {
        loop {
            tokio::time::sleep(POLICIES_INTERVAL).await;
            let now = look(&context);
            if now != before {
                return Some(((), (context, now)));
            }
        }
    })
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
        let queue = Queue::new(name, context.settings.shard);
        let mut controller =
            controller_of(api, &context.settings, &queue).with_config(controller::Config::default().concurrency(4));
        if let Some(cluster_api) = &context.cluster_api {
            let (store, of_clusters) = (controller.store(), queue.clone());
            controller = controller.watches_with(
                api_with::<Cluster>(&context.client, namespace.as_deref(), &cluster_api.cluster),
                cluster_api.cluster.clone(),
                watcher::Config::default(),
                move |cluster| {
                    let (cluster, namespace) = (cluster.name_any(), cluster.namespace());
                    let on_it = store.state().into_iter().filter(|object| {
                        object.namespace() == namespace
                            && crate::cluster_api::owner_cluster(object.as_ref())
                                .is_some_and(|owner| owner.name == cluster)
                    });
                    of_clusters.add_all(on_it.map(|object| ObjectRef::from_obj(object.as_ref())))
                },
            );
        }
        let queued = queue.clone().count(stop.clone());
        let controller = controller.graceful_shutdown_on(stop.cancelled_owned());
        let reconciles = reconciles(name, external_cluster::reconcile, &queue, controller, context);
        tokio::join!(finish(name, reconciles, &queue), queued);
    }
}

/// Runs the reconciles of a kind, measured.
fn reconciles<K, F>(
    name: &'static str,
    reconcile: fn(Arc<K>, Arc<Context>) -> F,
    queue: &Queue,
    controller: Controller<K>,
    context: Arc<Context>,
) -> impl Stream<Item = Result<(ObjectRef<K>, controller::Action), controller::Error<Error, watcher::Error>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    F: Future<Output = Result<Action, Error>> + Send + 'static,
{
    let (run, failed) = (queue.clone(), queue.clone());
    controller.run(
        move |object, context| {
            let queue = run.clone();
            async move {
                queue.begin(object.as_ref());
                let result = measured(name, reconcile, Arc::clone(&object), context).await;
                if let Ok(action) = &result {
                    queue.end(object.as_ref(), action.again_after(), false);
                }
                result.map(controller::Action::from)
            }
        },
        move |object, error, _| {
            let action = after_error(name, object.as_ref(), error);
            failed.end(object.as_ref(), action.again_after(), true);
            action.into()
        },
        context,
    )
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
        "the reconcile failed and will be retried"
    );
    Action::requeue(AFTER_ERROR)
}

async fn finish<K, E, W>(
    name: &'static str,
    reconciles: impl Stream<Item = Result<(ObjectRef<K>, controller::Action), controller::Error<E, W>>>,
    queue: &Queue,
) where
    K: Resource<DynamicType = ()>,
    E: std::error::Error + 'static,
    W: std::error::Error + 'static,
{
    let mut reconciles = std::pin::pin!(reconciles);
    while let Some(result) = reconciles.next().await {
        match result {
            // The reconciler's own errors were logged with their object.
            Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
            Err(controller::Error::ObjectNotFound(gone)) => queue.forget(gone.namespace.as_deref(), &gone.name),
            Err(error) => tracing::warn!(kind = name, %error, "the watch was interrupted and resumes"),
        }
    }
    tracing::debug!(kind = name, "the controller has ended");
}
