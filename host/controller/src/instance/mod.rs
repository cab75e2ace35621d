//! `InstanceMachine`: what is seen, what is done.

mod decide;
mod ended;
mod specification;
mod work;

use std::ops::ControlFlow;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;
use windlass_lifecycle::{AbandonTarget, Asking, Existing, Listing, OperationId, ServerSpecification, Target};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::Requested;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Server;
use windlass_scaleway::types::ipam::{IpamIp, ListIpamIps};

use crate::Error;
use crate::account_of::context_of;
use crate::action::Action;
use crate::approvals::{self, approved};
use crate::common_failures::Turn;
use crate::context::Context;
use crate::job_kind::JobKind;
use crate::kinds::{InstanceMachine, InstanceMachineSpec, MachineAddress, MachineStatus, Phase, annotations};
use crate::names::{ProviderId, group};
use crate::owners::{Owners, ProvisioningGate};
use crate::requested::requested;
use crate::server_fields::operation_of;
use crate::turn::{JOB_CHECK, KindStep, Machine, Reconcile, current, is_quiet, mark_of};
use crate::writes::{mark, write_object};
use decide::{Observed, Presence, RECOVERING, decide};

/// The key of the user data that cloud-init reads.
const CLOUD_INIT: &str = "cloud-init";
/// Why the release of an object's server is asked for.
const DELETED: &str = "the object is being deleted";
/// An address in a private network.
const INTERNAL: &str = "InternalIP";

impl Machine for InstanceMachine {
    const LEAVING: Phase = Phase::Deleting;
    const CALLING_OFF: &'static str = "the creation is being cancelled and rolled back";
    const SLOTS: &'static [SlotName] = &[SlotName::Placement, SlotName::Release, SlotName::Rollback, SlotName::Retry];
}

/// One reconcile of one instance.
struct Instance<'a> {
    turn: Reconcile<'a, InstanceMachine>,
    server: Option<(Zone, String)>,
    operation: Option<OperationId>,
    /// Another server or operation that the object names, and that nobody has approved.
    refused: Option<String>,
    zone: Result<Zone, String>,
}

/// Reconciles an object: looks, decides, does one thing.
pub(crate) async fn reconcile(object: Arc<InstanceMachine>, context: Arc<Context>) -> Result<Action, Error> {
    let (object, job) = current(object, &context).await?;
    let context = match context_of(&context, object.as_ref()).await? {
        Ok(context) => context,
        Err(unusable) => {
            return Reconcile::new(object.as_ref(), job, &context).await?.without_credentials(&unusable).await;
        }
    };
    let uid = object.uid().unwrap_or_default();
    if let Some(mark) = settled_mark(&object, &context).await
        && context.settled.is(&uid, &mark)
    {
        return Ok(Action::requeue(context.settings.listing_interval));
    }
    context.settled.forget(&uid);
    let turn = Reconcile::new(object.as_ref(), job, &context).await?;
    let zone = zone_of(&object, &turn.status, &turn.owners, &context);
    let Owned { server, operation, refused } = owned(&object, &turn.status, zone.as_ref().ok(), &context).await?;
    let mut instance = Instance { server, operation, refused, zone, turn };
    match instance.turn.ended() {
        Some(outcome) => instance.act_upon(&outcome).await,
        None => instance.perform().await,
    }
}

/// What belongs to an object.
struct Owned {
    server: Option<(Zone, String)>,
    operation: Option<OperationId>,
    /// What the object names and may not use.
    refused: Option<String>,
}

/// What belongs to an object: what its status, which the controller alone writes, says was made for it. What
/// `spec.providerID` and the annotation name beside that, or without a status, counts when an administrator has
/// approved it.
async fn owned(
    object: &InstanceMachine,
    status: &MachineStatus,
    zone: Option<&Zone>,
    context: &Context,
) -> Result<Owned, Error> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let (named, recorded) =
        (server_of(object), status.server_id.clone().zip(zone.cloned()).map(|(id, zone)| (zone, id)));
    let mut owned = Owned { server: recorded, operation: None, refused: None };
    if owned.server.is_none()
        && let Some((zone, id)) = named
    {
        if was_made_by(context, status.creation.as_deref(), &zone, &id).await
            || approved(context, &id, &namespace, &name).await?
        {
            owned.server = Some((zone, id));
        } else {
            owned.refused = Some(id);
        }
    }
    let annotated = object.annotations().get(annotations::OPERATION).cloned();
    let operation = match (&status.creation, annotated) {
        (Some(recorded), _) => Some(recorded.clone()),
        // Of an approved server everything goes with it that its operation has made.
        (None, Some(annotated)) if approved(context, &annotated, &namespace, &name).await? => Some(annotated),
        (None, Some(annotated)) => {
            owned.refused.get_or_insert(annotated);
            None
        }
        (None, None) => None,
    };
    owned.operation = operation.and_then(|id| OperationId::parse(&id).ok());
    Ok(owned)
}

/// Whether a server was made by this operation, by its own tag: who died after the provider id was written, and before
/// the status was, has left nothing else that says so.
async fn was_made_by(context: &Context, operation: Option<&str>, zone: &Zone, id: &str) -> bool {
    let Some(operation) = operation else { return false };
    let servers = context.lifecycle.servers(zone).await.ok();
    let server = servers.as_ref().and_then(|servers| servers.get(id));
    server.and_then(operation_of) == Some(operation)
}

fn server_of(object: &InstanceMachine) -> Option<(Zone, String)> {
    match object.spec.provider_id.as_deref()?.parse() {
        Ok(ProviderId::Instance { zone, id }) => Some((zone, id)),
        _ => None,
    }
}

fn zone_of(
    object: &InstanceMachine,
    status: &MachineStatus,
    owners: &Owners,
    context: &Context,
) -> Result<Zone, String> {
    if let Some((zone, _)) = server_of(object) {
        return Ok(zone);
    }
    let domain = match &owners.provisioning {
        ProvisioningGate::Ready { failure_domain, .. } => failure_domain.clone(),
        _ => None,
    };
    match object.spec.zone.clone().or_else(|| status.failure_domain.clone()).or(domain) {
        Some(zone) => zone.parse().map_err(|error| format!("the zone {zone:?}: {error}")),
        None => context.settings.zone.clone().ok_or_else(|| {
            "no zone: set spec.zone, the Machine's failure domain, or the controller's --zone".to_owned()
        }),
    }
}

/// By what a settled object is recognised.
async fn settled_mark(object: &InstanceMachine, context: &Context) -> Option<String> {
    let (zone, id) = server_of(object).filter(|_| is_quiet(object, context))?;
    let servers = context.lifecycle.servers(&zone).await.ok()?;
    let server = servers.get(&id)?;
    let addresses: Vec<String> = addresses(server, "").into_iter().map(|address| address.address).collect();
    Some(mark_of(object, context, format_args!("{} {}", server.state.as_str(), addresses.join(","))))
}

impl Instance<'_> {
    async fn perform(&mut self) -> Result<Action, Error> {
        self.turn.have_replaced().await?;
        let listing = self.listing().await;
        let sight = match (&listing, &self.server) {
            (Some(listing), Some((_, id))) => listing.get(id).map_or(Presence::Absent, Presence::There),
            _ => Presence::Unseen,
        };
        let (turn, last) = (&self.turn, self.turn.last());
        let wanted = self.wanted();
        let refused = self.refused.as_deref().map(|named| {
            let (namespace, name) = (turn.object.namespace().unwrap_or_default(), turn.object.name_any());
            format!(
                "the object names {named}, which was not created for it: remove {} and spec.providerID, or {}",
                annotations::OPERATION,
                approvals::remedy(turn.context, named, &namespace, &name)
            )
        });
        let next = decide(&Observed {
            deleting: turn.deleting(),
            finalizer: turn.marked(),
            abandoned: turn.is_abandoned(),
            begun: self.operation.is_some(),
            refused: refused.as_deref(),
            owners: &turn.owners,
            misconfigured: wanted.as_ref().err().map(String::as_str),
            server_id: self.server.as_ref().map(|(_, id)| id.as_str()),
            sight,
            busy: turn.busy(),
            last: last.as_ref(),
            failed: turn.status.failure_reason.is_some(),
            remediation: turn.status.remediation_is_due(),
            given_up: turn.given_up(),
            interval: turn.context.settings.listing_interval,
            now: turn.now,
        });
        let own = match self.turn.make(next).await? {
            ControlFlow::Break(action) => return Ok(action),
            ControlFlow::Continue(own) => own,
        };
        let (context, object) = (self.turn.context, self.turn.object);
        match own {
            KindStep::Mark => mark(&self.turn.api, object, json!({})).await,
            KindStep::Start(kind) => self.start(kind, wanted).await,
            KindStep::Abandon => self.abandon().await,
            KindStep::Provisioned { trouble } => {
                let Presence::There(server) = sight else { return Ok(Action::requeue(JOB_CHECK)) };
                self.publish(server).await?;
                self.audit(server).await;
                self.remove_bootstrap_data().await;
                let complete = self.is_complete(server);
                if self.turn.provisioned(trouble.as_ref()).await?
                    && complete
                    && let Some(mark) = settled_mark(object, context).await
                {
                    context.settled.set(&self.turn.uid, mark);
                }
                Ok(Action::requeue(context.settings.listing_interval))
            }
        }
    }

    /// The server that the object asks for, where it may be.
    fn wanted(&self) -> Result<ServerSpecification, String> {
        let (turn, zone, settings) = (&self.turn, self.zone.clone()?, &self.turn.context.settings);
        let (spec, namespace) = (&turn.object.spec, turn.object.namespace().unwrap_or_default());
        settings.check_project(spec.project.as_deref())?;
        settings.limits.check(&namespace, zone.as_str(), &spec.types)?;
        let group = group(&namespace, turn.owners.cluster.as_deref());
        specification::specification(spec, &turn.object.name_any(), group, zone)
    }

    /// Leaves the server alone.
    async fn abandon(&mut self) -> Result<Action, Error> {
        let Ok(zone) = self.zone.clone() else { return self.turn.remove_finalizer().await };
        let (creation, server) = (self.operation.clone(), self.server.as_ref().map(|(_, id)| id.clone()));
        let what = match (&server, &creation) {
            (Some(server), Some(creation)) => {
                format!("the server {server} in {zone}, created by operation {creation},")
            }
            (Some(server), None) => format!("the server {server} in {zone}"),
            (None, Some(creation)) => format!("what operation {creation} created in {zone}"),
            (None, None) => return self.turn.remove_finalizer().await,
        };
        self.turn.abandon(&AbandonTarget::Server { zone, creation, server }, &what).await
    }

    /// The listing of the server's zone; absent if it is not needed or not available.
    async fn listing(&self) -> Option<Arc<Listing<Server>>> {
        if self.turn.deleting() {
            return None;
        }
        let (zone, _) = self.server.as_ref()?;
        match self.turn.context.lifecycle.servers(zone).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %zone, "cannot list the zone");
                None
            }
        }
    }

    /// Starts a job; what it is for is written first.
    async fn start(&mut self, kind: JobKind, wanted: Result<ServerSpecification, String>) -> Result<Action, Error> {
        let common = match kind {
            JobKind::Create => match self.common_failures() {
                Turn::Wait(wait) => return Ok(self.turn.wait_for_others(wait)),
                Turn::Try(common) => Some(common),
            },
            _ => None,
        };
        // What was judged already counts too: a server is restarted once.
        let seen = |machine: &InstanceMachine| {
            (machine.spec.clone(), machine.status.as_ref().and_then(|status| status.remediation.clone()))
        };
        if let Some(instead) = self.turn.overtaken(seen).await? {
            return Ok(instead);
        }
        let turn = &mut self.turn;
        match kind {
            kind if turn.is_retried(kind) => {}
            JobKind::Create => turn.say(Phase::Creating, "Creating", "the server is being created"),
            JobKind::CleanUp => turn.say(Phase::Deleting, "Deleting", "the server is being deleted"),
            JobKind::Recover => turn.say(Phase::Recovering, "Recovering", RECOVERING),
            _ => {}
        }
        if let Ok(zone) = &self.zone {
            turn.status.failure_domain = Some(zone.to_string());
        }
        turn.status.policies = turn.policies_in_use();
        turn.begin_in_project();
        turn.write_beginning(kind).await?;
        let (context, object) = (Arc::clone(turn.context), turn.object);
        let (Ok(zone), operation) = (self.zone.clone(), self.operation.clone()) else {
            return Ok(Action::requeue(JOB_CHECK));
        };
        match kind {
            JobKind::Create => {
                let Ok(mut wanted) = wanted else { return Ok(Action::requeue(JOB_CHECK)) };
                let secret = match &self.turn.owners.provisioning {
                    ProvisioningGate::Ready { bootstrap_secret, .. } => Some(bootstrap_secret.clone()),
                    _ => object.spec.bootstrap.as_ref().map(|bootstrap| bootstrap.data_secret_name.clone()),
                };
                let namespace = object.namespace().unwrap_or_default();
                let write = self.operation_writer();
                wanted.requested_by = self.turn.requested_by("");
                let requested_by = self.turn.requested_by("an earlier creation for this object did not finish");
                self.turn.launch(kind, move |control, _| async move {
                    if let Some(secret) = secret {
                        let retry = context.settings.retry_interval;
                        match specification::cloud_init(&context.client, &namespace, &secret, retry).await {
                            Ok(cloud_init) => wanted.cloud_init = Some(cloud_init),
                            Err(outcome) => return outcome,
                        }
                    }
                    let earlier = operation.map(|operation| (operation, requested_by));
                    let admission = work::Admission::of(&context, namespace);
                    let outcome =
                        work::create(&context.lifecycle, &zone, wanted, earlier, admission, write, &control).await;
                    if let Some(common) = common {
                        common.end(&outcome, Instant::now(), rand::random());
                    }
                    outcome
                });
            }
            JobKind::CleanUp => {
                let server = self.server.as_ref().map(|(_, id)| id.clone());
                let what = work::ServerRelease { server, operation, asked: self.asked(DELETED).await };
                self.turn.launch(kind, move |control, attempt| async move {
                    work::clean_up(&context.lifecycle, &zone, what, attempt, &control).await
                });
            }
            JobKind::Recover => {
                let asked = self.asked("its server could not be set up").await;
                let known = self.turn.status.remediation.clone().unwrap_or_default();
                if let Some((zone, id)) = self.server.clone() {
                    self.turn.launch(kind, move |control, attempt| async move {
                        let target = Target::Server { zone, id };
                        work::recover(&context.lifecycle, target, &known, asked, attempt, &control).await
                    });
                }
            }
            JobKind::Inspect => {
                if let Some((zone, id)) = self.server.clone() {
                    self.turn.launch(kind, move |_, _| async move { work::inspect(&context, &zone, &id).await });
                }
            }
            _ => {}
        }
        Ok(Action::requeue(self.turn.job_check()))
    }

    /// Whether it tries to make its server, where others that ask for the same failed with the same words.
    fn common_failures(&self) -> Turn {
        let zone = self.zone.as_ref().map(Zone::as_str).unwrap_or_default();
        // What is an object's own is no cause that others share.
        let spec = InstanceMachineSpec { provider_id: None, bootstrap: None, ..self.turn.object.spec.clone() };
        self.turn.turn_of(JobKind::Create, format_args!("{zone} {spec:?}"))
    }

    /// Asks shadows what would become of the server if the object were deleted.
    async fn audit(&self, server: &Server) {
        let Some((zone, _)) = self.server.as_ref().filter(|_| self.turn.has_shadows()) else { return };
        let (requested, _) = requested(self.turn.object.annotations());
        let asking = Asking { requested, activity: self.turn.activity(), ..Asking::default() };
        let requested_by = self.turn.requested_by(DELETED);
        self.turn.audit(Existing::Server { zone, server, asking: &asking, requested_by: &requested_by }).await;
    }

    async fn asked(&self, why: &str) -> work::Asked {
        let (requested, requested_by) = (self.requested().await, self.turn.requested_by(why));
        work::Asked { requested, requested_by, activity: self.turn.activity() }
    }

    /// What the owner asks for by an annotation.
    async fn requested(&self) -> Option<Requested> {
        let (requested, problem) = requested(self.turn.object.annotations());
        if let Some(problem) = problem {
            self.turn.event(true, "UnknownReleasePolicy", "Release", &problem).await;
        }
        requested
    }

    /// Writes an operation's id into the object. It fails when the object is being deleted or another writer was there:
    /// the creation is called off then, before anything was called.
    fn operation_writer(&self) -> work::WriteOperation {
        let (api, name, uid) = (self.turn.api.clone(), self.turn.object.name_any(), self.turn.uid.clone());
        Box::new(move |operation| {
            Box::pin(async move {
                match api.get_opt(&name).await {
                    Ok(Some(now)) if now.uid().as_deref() == Some(&uid) && now.meta().deletion_timestamp.is_none() => {
                        // Whoever comes after goes by the status; the annotation is for people, and survives a move.
                        let patch = json!({
                            "metadata": {"uid": uid, "resourceVersion": now.resource_version()},
                            "status": {"creation": operation.as_str()},
                        });
                        let parameters = PatchParams::default();
                        let Ok(now) = api.patch_status(&name, &parameters, &Patch::Merge(&patch)).await else {
                            return false;
                        };
                        let patch = json!({"metadata": {
                            "uid": uid, "resourceVersion": now.resource_version(),
                            "annotations": {annotations::OPERATION: operation.as_str()},
                        }});
                        api.patch(&name, &parameters, &Patch::Merge(&patch)).await.is_ok()
                    }
                    _ => false,
                }
            })
        })
    }

    /// Takes the cloud-init out of the user data when the Machine has become a Node: it has served, it holds what a
    /// machine joins with, and everything that runs on the server can read it. What fails is tried again at the next
    /// look.
    async fn remove_bootstrap_data(&mut self) {
        let turn = &mut self.turn;
        let Some((zone, id)) = &self.server else { return };
        if !turn.owners.joined || turn.status.bootstrap_data_removed {
            return;
        }
        // A status that was lost says nothing: what is gone already is not asked for again.
        let removed = match turn.context.scaleway.instance(zone).list_server_user_data(id).await {
            Ok(keys) if keys.iter().any(|key| key == CLOUD_INIT) => {
                turn.context.lifecycle.remove_cloud_init(zone, id).await.map_err(|error| error.to_string())
            }
            Ok(_) => Ok(true),
            Err(error) => Err(error.to_string()),
        };
        match removed {
            Ok(_) => turn.status.bootstrap_data_removed = true,
            Err(error) => tracing::warn!(error, server = id, "cannot remove the cloud-init from the user data"),
        }
    }

    /// Whether nothing is to be done about a server that runs until something changes.
    fn is_complete(&self, server: &Server) -> bool {
        let status = &self.turn.status;
        let waits_for_node =
            matches!(self.turn.owners.provisioning, ProvisioningGate::Ready { .. }) && !status.bootstrap_data_removed;
        let waits_for_address = !server.private_nics.is_empty() && internal(&status.addresses).next().is_none();
        !waits_for_node && !waits_for_address
    }

    /// The addresses of the server's interfaces in private networks. They are looked up once: an interface keeps its
    /// own.
    async fn private_addresses(&self, server: &Server) -> Vec<String> {
        let known: Vec<String> = internal(&self.turn.status.addresses).map(str::to_owned).collect();
        if server.private_nics.is_empty() || !known.is_empty() {
            return known;
        }
        let Some((zone, _)) = &self.server else { return known };
        let ipam = self.turn.context.scaleway.ipam(&zone.region());
        let mut found = Vec::new();
        for interface in &server.private_nics {
            let request = ListIpamIps {
                resource_type: Some("instance_private_nic".to_owned()),
                resource_id: Some(interface.id.clone()),
                ..ListIpamIps::default()
            };
            match ipam.list_ips(&request).await {
                Ok(ips) => {
                    let of_interface = |ip: &&IpamIp| ip.resource.as_ref().is_some_and(|of| of.id == interface.id);
                    let address = |ip: &IpamIp| ip.address.split('/').next().unwrap_or_default().to_owned();
                    found.extend(ips.iter().filter(of_interface).map(address));
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, interface = interface.id, "its private address cannot be looked up");
                }
            }
        }
        found
    }

    /// Writes where the server is reached, and who decides about it.
    async fn publish(&mut self, server: &Server) -> Result<(), Error> {
        let private = self.private_addresses(server).await;
        let policies = self.turn.policies_in_use();
        let (object, status) = (self.turn.object, &mut self.turn.status);
        status.server_id = Some(server.id.clone());
        status.server_name = Some(server.name.clone());
        status.addresses = addresses(server, &object.name_any());
        for address in private {
            let internal = MachineAddress { kind: INTERNAL.to_owned(), address };
            if !status.addresses.contains(&internal) {
                status.addresses.push(internal);
            }
        }
        status.policies = policies;
        if let Some((zone, id)) = &self.server {
            status.failure_domain = Some(zone.to_string());
            if object.spec.provider_id.is_none() {
                let provider = ProviderId::Instance { zone: zone.clone(), id: id.clone() };
                write_object(&self.turn.api, object, json!({"spec": {"providerID": provider.to_string()}})).await?;
            }
        }
        Ok(())
    }
}

/// The internal ones of these addresses.
fn internal(addresses: &[MachineAddress]) -> impl Iterator<Item = &str> {
    addresses.iter().filter(|address| address.kind == INTERNAL).map(|address| address.address.as_str())
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
        addresses.push(of(INTERNAL, private));
    }
    addresses
}
