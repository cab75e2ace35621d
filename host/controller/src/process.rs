//! The process: credentials, policies, Lease, the controllers, and their orderly end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::events::Reporter;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;
use windlass_cluster::Destinations;
use windlass_lifecycle::{
    Lifecycle, OtherOwners, OwnerName, Runtime, RuntimeOptions, StateDirectory, StatusPublisher, Supervisor,
    SupervisorOptions, SweepRequest,
};
use windlass_policy::{Asker, Compiler};
use windlass_scaleway::{Environment, ExplicitSettings, Zone};
use windlass_telemetry::Metrics;

use crate::accounts::{AccountOptions, Accounts};
use crate::arguments::{COMPILE, OrderedHosts, RunArguments, Sweep};
use crate::audits::Audits;
use crate::cluster_api::ClusterApi;
use crate::common_failures::CommonFailures;
use crate::configuration::{Configuration, policy_folder};
use crate::console::serve_console;
use crate::context::Context;
use crate::crash::EndOnPanic;
use crate::events::Events;
use crate::jobs::Jobs;
use crate::kubernetes::{CONTROLLER, connect, user_agent};
use crate::lease::{Leadership, LeaseOptions, lead, lease_name};
use crate::limits::Limits;
use crate::object_policies::{ObjectPolicies, Rounds};
use crate::observe::{Health, serve_health, serve_metrics};
use crate::pools::Pools;
use crate::server_cluster::HookSettings;
use crate::server_cluster::clusters::ServerClusters;
use crate::server_cluster::store::Liveness;
use crate::settings::Settings;
use crate::shard::{Held, Shard};
use crate::shards::Holding;
use crate::{Error, controllers, names, orphans, shards};

/// So long new work waits for the operations that a dead predecessor left open.
const RECOVERY_HEAD_START: Duration = Duration::from_secs(10);

/// How often it is looked whether the journal can still be written.
const LOOK_AT_JOURNAL: Duration = Duration::from_secs(1);

/// Runs the controller until `shutdown` is cancelled.
///
/// # Errors
/// What is wrong with configuration or credentials, before anything is touched; [`Error::LeaseLost`] when another
/// process may lead and [`Error::TakenForDead`] when one may work on what this one had begun: the process is to end.
pub async fn run(arguments: RunArguments, shutdown: CancellationToken) -> Result<(), Error> {
    if arguments.metrics_bind_address.0.is_some() {
        // Counted from before the policies are in place: which are in force is told when it changes.
        drop(Metrics::of_process());
    }
    let process = Arc::new(Process::prepare(&arguments).await?);
    let end = CancellationToken::new();
    let _end = end.clone().drop_guard();
    let health = Health::default();
    if let Some(address) = arguments.metrics_bind_address.0 {
        serve_metrics(address, end.clone()).await?;
    }
    if let Some(address) = arguments.health_probe_bind_address.0 {
        serve_health(address, health.clone(), end.clone()).await?;
    }
    // Also while another leads: it shows what was done here.
    let _console = serve_console(&arguments.console, &process.runtime.state, &process.runtime.client)?;
    // Waiting for the Lease is being ready: otherwise a roll-out of two would wait for ever.
    health.set_ready(true);
    let _watch = process.runtime.watch();
    // Once, and not for each shard and account.
    let _publisher = StatusPublisher::start(&process.runtime.state, &process.runtime.policies);
    if arguments.shards == 1 {
        process.lead(&arguments, &shutdown, &health).await
    } else {
        process.share(Arc::new(arguments), &shutdown, &health).await
    }
}

/// What is made before the Lease is asked for.
struct Process {
    client: Client,
    runtime: Runtime,
    owner: OwnerName,
    identity: String,
    settings: Settings,
}

/// What the work on all shards of a process shares.
struct Common {
    events: Arc<Events>,
    audits: Arc<Audits>,
    following: tokio::task::JoinHandle<()>,
}

impl Drop for Common {
    fn drop(&mut self) {
        self.following.abort();
    }
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
        shards::check(arguments)?;
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
        let state = arguments.state.in_folder(&arguments.state_dir)?;
        let limits = Limits::new(configuration.limits.clone());
        let mut options = RuntimeOptions::new(scaleway.clone(), state, Asker::Controller);
        options.policies = configuration.policies;
        options.policy_folder = policy_folder(arguments.policy_folder.as_ref(), arguments.config.as_ref());
        // A child compiles, and takes the code generator's memory with it. Where it cannot be started, this process
        // compiles its own policies, and refuses others.
        options.compiler = Compiler::this_program([COMPILE]).ok();
        let runtime = tokio::task::spawn_blocking(move || Runtime::build(options))
            .await
            .map_err(|error| Error::Defect(error.to_string()))??;
        let client = connect(arguments.kubeconfig.as_deref()).await?;
        let owner = match &arguments.owner {
            Some(owner) => owner.clone(),
            None => owner(&client, arguments.watch_filter.as_deref()).await?,
        };
        check_owner(&runtime.state, &owner)?;
        tracing::info!(%owner, "using this owner name for machines");
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
                shard: Shard::WHOLE,
                watched: arguments.namespace.clone(),
                watch_filter: arguments.watch_filter.clone(),
                project: scaleway.settings().project_id().map(str::to_owned),
                namespace_credentials: arguments.namespace_credentials.clone(),
                own_credentials: !arguments.require_namespace_credentials,
                zone,
                namespace: arguments.controller_namespace.clone(),
                pools,
                allow_orders: arguments.allow_orders,
                allow_terminate: arguments.allow_terminate,
                delete_ordered: arguments.ordered_hosts == OrderedHosts::Delete,
                wait_for_wipe: arguments.wait_for_wipe,
                set_up: arguments.set_up,
                limits,
                projects: Some(arguments.allow_project.clone()),
                server_clusters: arguments.server_clusters,
                hooks: HookSettings {
                    jobs: arguments.hook_jobs,
                    webhooks: arguments.webhooks,
                    destinations: Destinations::public_and(arguments.webhook_network.clone()),
                },
                listing_interval: arguments.listing_interval,
                retry_interval: arguments.retry_interval,
            },
            client,
            runtime,
            owner,
            identity,
        })
    }

    /// Works on everything, while it holds the Lease.
    async fn lead(&self, arguments: &RunArguments, shutdown: &CancellationToken, health: &Health) -> Result<(), Error> {
        shards::say_leads(Shard::WHOLE, false);
        let leadership = if arguments.leader_elect {
            let options = LeaseOptions::of(arguments, Shard::WHOLE, self.identity.clone());
            match lead(self.client.clone(), options, shutdown).await {
                Some(leadership) => Some(leadership),
                None => return Ok(()),
            }
        } else {
            None
        };
        shards::say_leads(Shard::WHOLE, true);
        let lost = leadership.as_ref().map(Leadership::lost).unwrap_or_default();
        let held = Arc::<Held>::default();
        held.add(Shard::WHOLE);
        let holding = Holding::new(Shard::WHOLE, arguments, shutdown.clone());
        let work = async {
            let common = self.common(arguments, held, shutdown, &holding.panicked).await;
            self.work(arguments, &common, &holding).await
        };
        let worked = tokio::select! {
            // Without waiting for anything: another may begin any moment.
            () = lost.cancelled() => Err(Error::LeaseLost),
            () = holding.panicked.cancelled() => Err(Error::Panicked),
            worked = work => worked,
        };
        shards::say_leads(Shard::WHOLE, false);
        if worked.is_err() {
            health.set_broken();
        }
        if let Some(leadership) = leadership
            // Not all work may have ended: a successor waits until the Lease has run out.
            && !matches!(worked, Err(Error::LeaseLost | Error::Panicked | Error::TakenForDead))
        {
            leadership.release().await;
        }
        worked
    }

    /// Works on a share of the shards.
    async fn share(
        self: &Arc<Self>,
        arguments: Arc<RunArguments>,
        shutdown: &CancellationToken,
        health: &Health,
    ) -> Result<(), Error> {
        let (held, panicked) = (Arc::<Held>::default(), CancellationToken::new());
        let common = Arc::new(self.common(&arguments, Arc::clone(&held), shutdown, &panicked).await);
        let work = |holding: Arc<Holding>| -> BoxFuture<'static, Result<(), Error>> {
            let (process, arguments, common) = (Arc::clone(self), Arc::clone(&arguments), Arc::clone(&common));
            Box::pin(async move { process.work(&arguments, &common, &holding).await })
        };
        let worked = tokio::select! {
            () = panicked.cancelled() => Err(Error::Panicked),
            worked = shards::hold(self.client.clone(), &arguments, &self.identity, &held, shutdown, work) => worked,
        };
        if worked.is_err() {
            health.set_broken();
        }
        worked
    }

    /// Puts the policies of objects in place, before anything is decided, and follows them.
    async fn common(
        &self,
        arguments: &RunArguments,
        held: Arc<Held>,
        shutdown: &CancellationToken,
        panicked: &CancellationToken,
    ) -> Common {
        let reporter = Reporter { controller: CONTROLLER.into(), instance: Some(self.identity.clone()) };
        let events = Arc::new(Events::new(self.client.clone(), reporter));
        let audits = Arc::<Audits>::default();
        let mut rounds = Rounds::new(ObjectPolicies {
            client: self.client.clone(),
            host: Arc::clone(&self.runtime.policies),
            events: Arc::clone(&events),
            audits: Arc::clone(&audits),
            watched: self.settings.watched.clone(),
            namespace: self.settings.namespace.clone(),
            allowed: arguments.object_policies,
            tenant_registries: arguments.tenant_registry.clone(),
            held,
        });
        rounds.first(shutdown).await;
        let following = tokio::spawn(rounds.follow(shutdown.clone(), EndOnPanic(panicked.clone())));
        Common { events, audits, following }
    }

    /// Works on a shard until it is to be given up.
    async fn work(&self, arguments: &RunArguments, common: &Common, holding: &Holding) -> Result<(), Error> {
        let Holding { shard, shutdown, jobs, .. } = holding;
        if shutdown.is_cancelled() {
            return Ok(());
        }
        let settings = Settings { shard: *shard, ..self.settings.clone() };
        let mut options = self.runtime.lifecycle();
        options.owner = Some(self.owner.clone());
        options.limits.parallel_operations = usize::from(arguments.operations);
        options.limits.machine_interval = arguments.listing_interval;
        options.limits.claim_settle = arguments.claim_settle;
        options.limits.second_look = arguments.second_look;
        options.project.clone_from(&self.settings.project);
        options.publishes_policies = false;
        let limits = options.limits;
        // Only who leads works with the journal, so what stands open in it is a dead process's.
        let lifecycle = Lifecycle::open(options)?;
        lifecycle.check_history()?;
        if shard.has_own() {
            let supervisor = Supervisor::new(lifecycle.clone(), supervision(arguments, self.settings.zone.as_ref()));
            supervise(supervisor, jobs, shutdown).await;
        }
        let liveness = Liveness {
            identity: self.identity.clone(),
            lease: arguments.leader_elect.then(|| {
                let leases = Api::namespaced(self.client.clone(), &arguments.leader_elect_namespace);
                (leases, lease_name(arguments, *shard))
            }),
        };
        let accounts = Arc::new(Accounts::new(AccountOptions {
            client: self.client.clone(),
            scaleway: self.runtime.client.clone(),
            policies: Arc::clone(&self.runtime.policies),
            jobs: Arc::clone(jobs),
            settings: settings.clone(),
            state: self.runtime.state.clone(),
            liveness: liveness.clone(),
            leaving: shutdown.clone(),
            limits,
            supervision: supervision(arguments, self.settings.zone.as_ref()),
            // Longer than what was left behind with it is looked for.
            idle: (arguments.listing_interval * 5).max(arguments.orphans_interval * 4),
        }));
        let idle = Arc::clone(&accounts);
        let closing = tokio::spawn(jobs.beside(async move { idle.close_idle().await }));
        let server_clusters = Arc::new(ServerClusters::new(
            self.client.clone(),
            self.runtime.client.clone(),
            lifecycle.clone(),
            Arc::clone(&self.runtime.policies),
            liveness,
            shutdown.clone(),
            self.settings.hooks.clone(),
        ));
        let common_failures = Arc::<CommonFailures>::default();
        loop {
            let cluster_api =
                ClusterApi::discover(&self.client).await.map_err(Error::kubernetes("looking for Cluster API"))?;
            match &cluster_api {
                Some(found) => tracing::info!(version = %found.version, "Cluster API is installed"),
                None => tracing::info!("Cluster API is not installed; machines are managed without it"),
            }
            let context = Arc::new(Context {
                client: self.client.clone(),
                cluster_api: cluster_api.clone(),
                scaleway: self.runtime.client.clone(),
                lifecycle: lifecycle.clone(),
                policies: Arc::clone(&self.runtime.policies),
                jobs: Arc::clone(jobs),
                events: Arc::clone(&common.events),
                settings: settings.clone(),
                settled: Arc::default(),
                audits: Arc::clone(&common.audits),
                catalogue: Arc::default(),
                accounts: Arc::clone(&accounts),
                secret: None,
                server_clusters: Arc::clone(&server_clusters),
                common_failures: Arc::clone(&common_failures),
            });
            let again = tokio::select! {
                again = controllers::run(context, arguments, shutdown) => again,
                () = taken_for_dead(&lifecycle) => return Err(Error::TakenForDead),
            };
            if !again {
                break;
            }
        }
        closing.abort();
        jobs.leave(arguments.shutdown_grace).await;
        Ok(())
    }
}

/// Returns when another process has taken this one for dead: nothing can be written to the database any more. A journal
/// in a folder is never taken so.
async fn taken_for_dead(lifecycle: &Lifecycle) {
    while !lifecycle.journal().log().is_overtaken() {
        tokio::time::sleep(LOOK_AT_JOURNAL).await;
    }
}

/// Lets the supervisor work until the end: it ends or undoes what a dead predecessor left open, and what a failed write
/// of the journal leaves later. Returns when its first round is over, or at the latest after the head start: what takes
/// long (a server that boots, a host that does not answer) goes on in the background and holds no other machine up;
/// whoever meets such an operation waits for its end.
async fn supervise(supervisor: Supervisor, jobs: &Arc<Jobs>, shutdown: &CancellationToken) {
    let first = CancellationToken::new();
    let begun = first.clone();
    jobs.supervise(supervisor, move |_| begun.cancel());
    tokio::select! {
        () = first.cancelled() => {}
        () = tokio::time::sleep(RECOVERY_HEAD_START) => {
            tracing::info!("recovery of open operations is still in progress; reconciling objects meanwhile");
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

/// Refuses another owner than that of the machines in the journal: they would be nobody's from then on.
fn check_owner(state: &StateDirectory, owner: &OwnerName) -> Result<(), Error> {
    let others = OtherOwners::of(state, Some(owner))?;
    let Some((other, count)) = others.machines.iter().next() else { return Ok(()) };
    Err(Error::Option {
        option: "--owner",
        problem: format!(
            "the journal in {} has {count} machines of the owner {other}, but this owner is {owner}, so nobody would \
             release or remove them. Set --owner to {other}, or delete their objects before you change it",
            state.location().display()
        ),
    })
}

/// The owner of this Kubernetes cluster: the UID of the namespace kube-system lives as long as the cluster. Controllers
/// of one cluster that share its objects by their labels have an owner each, since each has a journal of its own, and a
/// sweep takes for lost what its journal does not know.
async fn owner(client: &Client, watch_filter: Option<&str>) -> Result<OwnerName, Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    match api.get("kube-system").await {
        Ok(namespace) => Ok(names::owner_of_cluster(&namespace.uid().unwrap_or_default(), watch_filter)),
        Err(error) => Err(Error::Option {
            option: "--owner",
            problem: format!(
                "it is not set, and the controller cannot read the namespace kube-system, whose UID makes the default \
                 ({}): check the API server, or set --owner to a name that no other cluster uses",
                crate::kubernetes::words(&error)
            ),
        }),
    }
}
