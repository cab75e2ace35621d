//! `InstanceMachine`: what is seen, what is done.

mod decide;
mod specification;
mod work;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use windlass_lifecycle::{CreatedServer, Listing, OperationId};
use windlass_policy::slots::SlotName;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Server;

use crate::Error;
use crate::above::{self, Above, Standing};
use crate::context::{
    Context, let_go, mark, overtaken, say_paused, say_provisioned, say_waiting, write_object, write_status,
};
use crate::jobs::{JobKind, JobView, mirror_of};
use crate::kinds::{
    ConditionStatus, FINALIZER, InstanceMachine, MachineAddress, MachineStatus, Phase, annotations, conditions,
};
use crate::names::{ProviderId, group};
use crate::next::Next;
use crate::outcome::Outcome;
use crate::status::set_condition;
use crate::wish::wish;
use decide::{Observed, Sight, decide};

/// While a job runs, its end brings the next reconcile; this is for the case that the API server never took that write.
const JOB_CHECK: Duration = Duration::from_secs(30);
/// The slots that decide about instances.
const SLOTS: [SlotName; 3] = [SlotName::Release, SlotName::Rollback, SlotName::Retry];

/// One reconcile of one object.
struct Turn<'a> {
    context: &'a Arc<Context>,
    api: Api<InstanceMachine>,
    object: &'a InstanceMachine,
    uid: String,
    server: Option<(Zone, String)>,
    operation: Option<OperationId>,
    zone: Result<Zone, String>,
    above: Above,
    old: MachineStatus,
    status: MachineStatus,
    now: Timestamp,
}

/// Reconciles an object: looks, decides, does one thing.
pub(crate) async fn reconcile(object: Arc<InstanceMachine>, context: Arc<Context>) -> Result<Action, Error> {
    let uid = object.uid().unwrap_or_default();
    if let Some(mark) = settled_mark(&object, &context, &uid).await
        && context.settled.is(&uid, &mark)
    {
        return Ok(Action::requeue(context.settings.listing_interval));
    }
    context.settled.forget(&uid);
    let above = above::look(&context.client, context.cluster_api.as_ref(), object.as_ref()).await?;
    let old = object.status.clone().unwrap_or_default();
    let zone = zone_of(&object, &old, &above, &context);
    let mut server = server_of(&object);
    if server.is_none()
        && let (Some(id), Ok(zone)) = (&old.server_id, &zone)
    {
        server = Some((zone.clone(), id.clone()));
    }
    let mut turn = Turn {
        api: Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default()),
        operation: object.annotations().get(annotations::OPERATION).and_then(|id| OperationId::parse(id).ok()),
        server,
        zone,
        status: old.clone(),
        old,
        uid,
        above,
        context: &context,
        object: &object,
        now: Timestamp::now(),
    };
    turn.perform().await
}

fn server_of(object: &InstanceMachine) -> Option<(Zone, String)> {
    match object.spec.provider_id.as_deref()?.parse() {
        Ok(ProviderId::Instance { zone, id }) => Some((zone, id)),
        _ => None,
    }
}

fn zone_of(object: &InstanceMachine, status: &MachineStatus, above: &Above, context: &Context) -> Result<Zone, String> {
    if let Some((zone, _)) = server_of(object) {
        return Ok(zone);
    }
    let domain = match &above.standing {
        Standing::Ready { failure_domain, .. } => failure_domain.clone(),
        _ => None,
    };
    match object.spec.zone.clone().or_else(|| status.failure_domain.clone()).or(domain) {
        Some(zone) => zone.parse().map_err(|error| format!("the zone {zone:?}: {error}")),
        None => context.settings.zone.clone().ok_or_else(|| {
            "no zone: set spec.zone, the Machine's failure domain, or the controller's --zone".to_owned()
        }),
    }
}

/// By what a settled object is recognised: its own version, what the listing shows, and who decides.
async fn settled_mark(object: &InstanceMachine, context: &Context, uid: &str) -> Option<String> {
    let (zone, id) = server_of(object)?;
    if object.meta().deletion_timestamp.is_some() || !matches!(context.jobs.view(uid), JobView::None) {
        return None;
    }
    let servers = context.lifecycle.servers(&zone).await.ok()?;
    let server = servers.get(&id)?;
    let policies: Vec<String> =
        context.policies_in_use(&SLOTS).into_iter().map(|policy| policy.digest + &policy.settings_digest).collect();
    let addresses: Vec<String> = addresses(server, "").into_iter().map(|address| address.address).collect();
    Some(format!(
        "{} {} {} {}",
        object.resource_version().unwrap_or_default(),
        server.state.as_str(),
        addresses.join(","),
        policies.concat()
    ))
}

impl Turn<'_> {
    fn deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    async fn perform(&mut self) -> Result<Action, Error> {
        let generation = self.object.meta().generation;
        if let JobView::Ended(outcome) = self.context.jobs.view(&self.uid) {
            return self.act_upon(&outcome).await;
        }
        let listing = self.listing().await;
        let sight = match (&listing, &self.server) {
            (Some(listing), Some((_, id))) => listing.get(id).map_or(Sight::Absent, Sight::There),
            _ => Sight::Unseen,
        };
        let wanted = match &self.zone {
            Ok(zone) => specification::specification(
                &self.object.spec,
                &self.object.name_any(),
                group(&self.object.namespace().unwrap_or_default(), self.above.cluster.as_deref()),
                zone.clone(),
            ),
            Err(problem) => Err(problem.clone()),
        };
        let last = self.context.jobs.last(&self.uid, self.status.operation.as_ref());
        let next = decide(&Observed {
            deleting: self.deleting(),
            finalizer: self.object.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            begun: self.operation.is_some(),
            above: &self.above,
            misconfigured: wanted.as_ref().err().map(String::as_str),
            server_id: self.server.as_ref().map(|(_, id)| id.as_str()),
            sight,
            busy: match self.context.jobs.view(&self.uid) {
                JobView::Running(kind) => Some(kind),
                JobView::None | JobView::Ended(_) => None,
            },
            last: last.as_ref(),
            failed: self.status.failure_reason.is_some(),
            interval: self.context.settings.listing_interval,
            now: self.now,
        });
        tracing::debug!(name = self.object.name_any(), ?next, "decided");
        say_paused(&mut self.status, &self.above, generation, self.now);
        match next {
            Next::Nothing => {
                self.context.jobs.forget(&self.uid);
                Ok(Action::await_change())
            }
            Next::Pause(_) => {
                self.write().await?;
                Ok(Action::await_change())
            }
            Next::Mark => mark(&self.api, self.object, json!({})).await,
            Next::Wait { phase, reason, message, after } => {
                self.say(phase, reason, &message);
                self.write().await?;
                Ok(Action::requeue(after.unwrap_or(JOB_CHECK)))
            }
            Next::LookAgain { after } => {
                self.write().await?;
                Ok(Action::requeue(after))
            }
            Next::CallOff => {
                self.context.jobs.cancel(&self.uid);
                self.say(Phase::Deleting, "CallingOff", "the creation is being called off and undone");
                self.write().await?;
                Ok(Action::requeue(JOB_CHECK))
            }
            Next::Start(kind) => self.start(kind, wanted).await,
            Next::Provisioned { trouble } => {
                let Sight::There(server) = sight else { return Ok(Action::requeue(JOB_CHECK)) };
                self.publish(server).await?;
                say_provisioned(&mut self.status, trouble.as_ref(), generation, self.now);
                let settled = self.status == self.old && self.object.spec.provider_id.is_some();
                self.write().await?;
                if settled && let Some(mark) = settled_mark(self.object, self.context, &self.uid).await {
                    self.context.settled.set(&self.uid, mark);
                }
                Ok(Action::requeue(self.context.settings.listing_interval))
            }
            Next::LetGo => self.let_go().await,
        }
    }

    async fn listing(&self) -> Option<Arc<Listing<Server>>> {
        if self.deleting() {
            return None;
        }
        let (zone, _) = self.server.as_ref()?;
        match self.context.lifecycle.servers(zone).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %zone, "the zone cannot be listed");
                None
            }
        }
    }

    fn say(&mut self, phase: Phase, reason: &str, message: &str) {
        let generation = self.object.meta().generation;
        self.status.phase = Some(phase);
        self.status.observed_generation = generation;
        if self.deleting() {
            for kind in [conditions::RELEASED, conditions::READY] {
                set_condition(
                    &mut self.status.conditions,
                    kind,
                    ConditionStatus::False,
                    reason,
                    message,
                    generation,
                    self.now,
                );
            }
        } else {
            say_waiting(&mut self.status, reason, message, generation, self.now);
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        write_status(&self.api, self.object, &self.old, &self.status).await?;
        self.old = self.status.clone();
        Ok(())
    }

    async fn start(
        &mut self,
        kind: JobKind,
        wanted: Result<windlass_lifecycle::ServerSpecification, String>,
    ) -> Result<Action, Error> {
        let seen = |machine: &InstanceMachine| machine.spec.clone();
        if let Some(instead) = overtaken(&self.api, self.object, seen).await? {
            return Ok(instead);
        }
        match kind {
            JobKind::Create => self.say(Phase::Creating, "Creating", "the server is being created"),
            JobKind::CleanUp => self.say(Phase::Deleting, "Deleting", "the server is being removed"),
            _ => {}
        }
        if let Ok(zone) = &self.zone {
            self.status.failure_domain = Some(zone.to_string());
        }
        self.status.policies = self.context.policies_in_use(&SLOTS);
        self.write().await?;
        let last = self.context.jobs.last(&self.uid, self.status.operation.as_ref());
        let (name, uid) = (self.object.name_any(), self.uid.clone());
        let mirror = mirror_of(self.api.clone(), name.clone(), uid.clone());
        let (jobs, context) = (&self.context.jobs, Arc::clone(self.context));
        let (Ok(zone), operation) = (self.zone.clone(), self.operation.clone()) else {
            return Ok(Action::requeue(JOB_CHECK));
        };
        match kind {
            JobKind::Create => {
                let Ok(mut wanted) = wanted else { return Ok(Action::requeue(JOB_CHECK)) };
                let secret = match &self.above.standing {
                    Standing::Ready { bootstrap_secret, .. } => Some(bootstrap_secret.clone()),
                    _ => self.object.spec.bootstrap.as_ref().map(|bootstrap| bootstrap.data_secret_name.clone()),
                };
                let namespace = self.object.namespace().unwrap_or_default();
                let write = self.operation_writer();
                jobs.start(&uid, kind, last.as_ref(), mirror, move |control, _| async move {
                    if let Some(secret) = secret {
                        let retry = context.settings.retry_interval;
                        match specification::cloud_init(&context.client, &namespace, &secret, retry).await {
                            Ok(cloud_init) => wanted.cloud_init = Some(cloud_init),
                            Err(outcome) => return outcome,
                        }
                    }
                    work::create(&context, &zone, wanted, operation, write, &control).await
                });
            }
            JobKind::CleanUp => {
                let server = self.server.as_ref().map(|(_, id)| id.clone());
                let (wish, problem) = wish(self.object.annotations());
                if let Some(problem) = problem {
                    let about = self.object.object_ref(&());
                    self.context.event(&about, true, "UnknownReleasePolicy", "Release", &problem).await;
                }
                let what = work::LetGo { server, operation, wish };
                jobs.start(&uid, kind, last.as_ref(), mirror, move |control, attempt| async move {
                    work::clean_up(&context, &zone, what, attempt, &control).await
                });
            }
            JobKind::Inspect => {
                if let Some((zone, id)) = self.server.clone() {
                    jobs.start(&uid, kind, last.as_ref(), mirror, move |_, _| async move {
                        work::inspect(&context, &zone, &id).await
                    });
                }
            }
            _ => {}
        }
        Ok(Action::requeue(JOB_CHECK))
    }

    /// Writes an operation's id into the object. It fails when the object is being deleted or another writer was there: the
    /// creation is called off then, before anything was called.
    fn operation_writer(&self) -> work::WriteOperation {
        let (api, name, uid) = (self.api.clone(), self.object.name_any(), self.uid.clone());
        Box::new(move |operation| {
            Box::pin(async move {
                match api.get_opt(&name).await {
                    Ok(Some(now)) if now.uid().as_deref() == Some(&uid) && now.meta().deletion_timestamp.is_none() => {
                        let patch = json!({"metadata": {
                            "uid": uid, "resourceVersion": now.resource_version(),
                            "annotations": {annotations::OPERATION: operation.as_str()},
                        }});
                        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.is_ok()
                    }
                    _ => false,
                }
            })
        })
    }

    async fn publish(&mut self, server: &Server) -> Result<(), Error> {
        self.status.server_id = Some(server.id.clone());
        self.status.server_name = Some(server.name.clone());
        self.status.addresses = addresses(server, &self.object.name_any());
        self.status.policies = self.context.policies_in_use(&SLOTS);
        if let Some((zone, id)) = &self.server {
            self.status.failure_domain = Some(zone.to_string());
            if self.object.spec.provider_id.is_none() {
                let provider = ProviderId::Instance { zone: zone.clone(), id: id.clone() };
                write_object(&self.api, self.object, json!({"spec": {"providerID": provider.to_string()}})).await?;
            }
        }
        Ok(())
    }

    /// A job has ended: what it means is written; then it is forgotten.
    async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        let about = self.object.object_ref(&());
        let generation = self.object.meta().generation;
        say_paused(&mut self.status, &self.above, generation, self.now);
        match outcome {
            Outcome::Created(created) => self.created(created).await?,
            Outcome::CleanedUp { message } | Outcome::Kept { message } => {
                let reason = if matches!(outcome, Outcome::Kept { .. }) { "Kept" } else { "ServerRemoved" };
                if self.status.condition(conditions::RELEASED).is_none_or(|known| known.status != ConditionStatus::True)
                {
                    self.context.event(&about, false, reason, "Delete", message).await;
                    set_condition(
                        &mut self.status.conditions,
                        conditions::RELEASED,
                        ConditionStatus::True,
                        reason,
                        message,
                        generation,
                        self.now,
                    );
                    self.write().await?;
                }
                return self.let_go().await;
            }
            Outcome::Waiting { reason, message, .. } => {
                let phase = if self.deleting() { Phase::Deleting } else { self.status.phase.unwrap_or_default() };
                self.say(phase, reason, message);
            }
            Outcome::Failed { reason, message } => {
                let phase = if self.deleting() { Phase::Deleting } else { Phase::Pending };
                self.say(phase, reason, message);
                self.context.event(&about, true, reason, "Reconcile", message).await;
            }
            Outcome::Refused { reason, message } => {
                self.status.ready = false;
                self.status.failure_reason = Some((*reason).to_owned());
                self.status.failure_message = Some(message.clone());
                self.say(Phase::Failed, reason, message);
                self.context.event(&about, true, reason, "Reconcile", message).await;
            }
            Outcome::CalledOff { message } => {
                self.say(Phase::Deleting, "CalledOff", message);
                self.context.event(&about, false, "CreationCalledOff", "Delete", message).await;
            }
            Outcome::LeftOpen => {
                self.context.jobs.done(&self.uid);
                return Ok(Action::requeue(JOB_CHECK));
            }
            Outcome::Adopted { .. } | Outcome::Inspected(_) | Outcome::Released(_) | Outcome::Operated { .. } => {}
        }
        self.write().await?;
        self.context.jobs.done(&self.uid);
        Ok(Action::requeue(Duration::from_millis(200)))
    }

    async fn created(&mut self, created: &CreatedServer) -> Result<(), Error> {
        let Ok(zone) = self.zone.clone() else { return Ok(()) };
        let server = &created.server;
        self.status.server_id = Some(server.id.clone());
        self.status.server_name = Some(server.name.clone());
        self.status.failure_domain = Some(zone.to_string());
        self.status.addresses = addresses(server, &self.object.name_any());
        if !self.deleting() {
            let provider = ProviderId::Instance { zone, id: server.id.clone() };
            let patch = json!({"spec": {"providerID": provider.to_string()}});
            if !write_object(&self.api, self.object, patch).await? {
                return Err(Error::Overtaken);
            }
            let about = self.object.object_ref(&());
            let note =
                format!("the server {} ({}) runs, made by {}", server.id, server.commercial_type, created.operation);
            self.context.event(&about, false, "ServerCreated", "Create", &note).await;
        }
        Ok(())
    }

    async fn let_go(&mut self) -> Result<Action, Error> {
        if !let_go(&self.api, self.object).await? {
            return Ok(Action::requeue(Duration::from_millis(500)));
        }
        self.context.jobs.forget(&self.uid);
        self.context.settled.forget(&self.uid);
        Ok(Action::await_change())
    }
}

fn addresses(server: &Server, name: &str) -> Vec<MachineAddress> {
    let of = |kind: &str, address: &str| MachineAddress { kind: kind.to_owned(), address: address.to_owned() };
    let mut addresses = Vec::new();
    if !name.is_empty() {
        addresses.push(of("Hostname", name));
    }
    addresses
        .extend(server.public_ips.iter().filter(|ip| !ip.address.is_empty()).map(|ip| of("ExternalIP", &ip.address)));
    if let Some(private) = server.private_ip.as_deref().filter(|ip| !ip.is_empty()) {
        addresses.push(of("InternalIP", private));
    }
    addresses
}
