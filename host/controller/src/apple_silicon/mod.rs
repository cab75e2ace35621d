//! `AppleSiliconMachine`: what is seen, what is done.

mod credentials;
mod decide;
mod work;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::controller::Action;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};
use windlass_lifecycle::{AdoptedMachine, ClaimName, Listing, Pool, PoolPrefix, ReleaseOutcome, Released};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::Occasion;
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::Server as Host;

use crate::above::{self, Above, Standing};
use crate::context::{
    Context, let_go, mark, overtaken, say_paused, say_provisioned, say_waiting, write_object, write_status,
};
use crate::jobs::{JobKind, JobView, mirror_of};
use crate::kinds::{
    AppleSiliconMachine, BootstrapStatus, ConditionStatus, FINALIZER, MachineAddress, MachineStatus, Phase,
    annotations, conditions,
};
use crate::names::{ProviderId, claim};
use crate::next::Next;
use crate::outcome::{Outcome, word, words};
use crate::status::{remove_condition, set_condition};
use crate::wish::wish;
use crate::{Error, metric_names};
use decide::{Observed, Sight, decide};

/// While a job runs, its end brings the next reconcile; this is for the case that the API server never took that write.
const JOB_CHECK: Duration = Duration::from_secs(30);
/// The slots that decide about Macs.
const SLOTS: [SlotName; 2] = [SlotName::Release, SlotName::Retry];

fn failures(object: &AppleSiliconMachine) -> u32 {
    object.annotations().get(annotations::BOOTSTRAP_FAILURES).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// What an object's configuration comes to.
#[derive(Clone, Debug)]
struct Target {
    zone: Result<Zone, String>,
    prefix: Result<PoolPrefix, String>,
}

impl Target {
    fn of(object: &AppleSiliconMachine, status: &MachineStatus, above: &Above, context: &Context) -> Self {
        let domain = match &above.standing {
            Standing::Ready { failure_domain, .. } => failure_domain.clone(),
            _ => None,
        };
        let zone = match object.spec.zone.clone().or_else(|| status.failure_domain.clone()).or(domain) {
            Some(zone) => zone.parse().map_err(|error| format!("the zone {zone:?}: {error}")),
            None => context.settings.zone.clone().ok_or_else(|| {
                "no zone: set spec.zone, the Machine's failure domain, or the controller's --zone".to_owned()
            }),
        };
        let prefix = match &object.spec.pool_prefix {
            Some(prefix) => prefix.parse().map_err(|error: windlass_lifecycle::Error| error.to_string()),
            None => context.settings.pool_prefix.clone().ok_or_else(|| {
                "no pool: set spec.poolPrefix, or the controller's --pool-prefix; without a pool a host could only be \
                 destroyed when it is released"
                    .to_owned()
            }),
        };
        Self { zone, prefix }
    }

    fn problem(&self) -> Option<String> {
        let problems: Vec<_> =
            self.zone.as_ref().err().into_iter().chain(self.prefix.as_ref().err()).cloned().collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// One reconcile of one object.
struct Turn<'a> {
    context: &'a Arc<Context>,
    api: Api<AppleSiliconMachine>,
    object: &'a AppleSiliconMachine,
    uid: String,
    claim: Option<ClaimName>,
    host: Option<(Zone, String)>,
    target: Target,
    above: Above,
    old: MachineStatus,
    status: MachineStatus,
    now: Timestamp,
}

/// Reconciles an object: looks, decides, does one thing.
pub(crate) async fn reconcile(object: Arc<AppleSiliconMachine>, context: Arc<Context>) -> Result<Action, Error> {
    let uid = object.uid().unwrap_or_default();
    let interval = context.settings.listing_interval;
    if let Some(mark) = settled_mark(&object, &context, &uid).await
        && context.settled.is(&uid, &mark)
    {
        return Ok(Action::requeue(interval));
    }
    context.settled.forget(&uid);
    let above = above::look(&context.client, context.cluster_api.as_ref(), object.as_ref()).await?;
    let namespace = object.namespace().unwrap_or_default();
    let old = object.status.clone().unwrap_or_default();
    let mut turn = Turn {
        api: Api::namespaced(context.client.clone(), &namespace),
        target: Target::of(&object, &old, &above, &context),
        claim: object.annotations().get(annotations::CLAIM).and_then(|claim| claim.parse().ok()),
        host: host_of(&object),
        status: old.clone(),
        old,
        uid,
        above,
        context: &context,
        object: &object,
        now: Timestamp::now(),
    };
    if turn.host.is_none()
        && let (Some(id), Ok(zone)) = (&turn.status.server_id, &turn.target.zone)
    {
        turn.host = Some((zone.clone(), id.clone()));
    }
    turn.perform().await
}

/// What was judged of the attempts to set the host up, as the object has it.
fn bootstrap_of(object: &AppleSiliconMachine) -> Option<&BootstrapStatus> {
    object.status.as_ref()?.bootstrap.as_ref()
}

/// The host that `spec.providerID` names.
fn host_of(object: &AppleSiliconMachine) -> Option<(Zone, String)> {
    match object.spec.provider_id.as_deref()?.parse() {
        Ok(ProviderId::AppleSilicon { zone, id }) => Some((zone, id)),
        _ => None,
    }
}

/// By what a settled object is recognised: its own version, what the listing shows, and who decides.
async fn settled_mark(object: &AppleSiliconMachine, context: &Context, uid: &str) -> Option<String> {
    let (zone, id) = host_of(object)?;
    if object.meta().deletion_timestamp.is_some() || !matches!(context.jobs.view(uid), JobView::None) {
        return None;
    }
    let hosts = context.lifecycle.hosts(&zone).await.ok()?;
    let host = hosts.get(&id)?;
    let policies: Vec<String> =
        context.policies_in_use(&SLOTS).into_iter().map(|policy| policy.digest + &policy.settings_digest).collect();
    Some(format!(
        "{} {} {} {} {} {} {}",
        object.resource_version().unwrap_or_default(),
        host.name,
        host.status.as_str(),
        host.ip,
        host.delivered,
        host.deletion_scheduled,
        policies.concat()
    ))
}

impl Turn<'_> {
    async fn perform(&mut self) -> Result<Action, Error> {
        let generation = self.object.meta().generation;
        if let JobView::Ended(outcome) = self.context.jobs.view(&self.uid) {
            return self.act_upon(&outcome).await;
        }
        let listing = self.listing().await;
        let sight = match (&listing, &self.host, &self.claim) {
            (None, ..) => Sight::Unseen,
            (Some(listing), Some((_, id)), _) => listing.get(id).map_or(Sight::Absent, Sight::There),
            (Some(listing), None, Some(claim)) => {
                listing.machines.iter().find(|host| host.name == claim.as_str()).map_or(Sight::Absent, Sight::There)
            }
            (Some(_), None, None) => Sight::Absent,
        };
        let last = self.context.jobs.last(&self.uid, self.status.operation.as_ref());
        let bootstrap = self.bootstrap();
        let problem = self.target.problem();
        let next = decide(&Observed {
            deleting: self.object.meta().deletion_timestamp.is_some(),
            finalizer: self.object.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            claim: self.claim.as_ref().map(ClaimName::as_str),
            above: &self.above,
            misconfigured: problem.as_deref(),
            host_id: self.host.as_ref().map(|(_, id)| id.as_str()),
            sight,
            busy: match self.context.jobs.view(&self.uid) {
                JobView::Running(kind) => Some(kind),
                JobView::None | JobView::Ended(_) => None,
            },
            last: last.as_ref(),
            failures: failures(self.object),
            bootstrap: &bootstrap,
            credentials: self.status.credentials_secret_name.is_some(),
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
            Next::Mark => {
                let claim = match &self.claim {
                    Some(claim) => claim.clone(),
                    None => claim(&self.context.settings.owner, &self.object.name_any(), &self.uid)?,
                };
                mark(&self.api, self.object, json!({annotations::CLAIM: claim.as_str()})).await
            }
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
                self.say(Phase::Releasing, "CallingOff", "what was begun is being called off before the release");
                self.write().await?;
                Ok(Action::requeue(JOB_CHECK))
            }
            Next::Start(kind) => self.start(kind, sight).await,
            Next::Provisioned { trouble } => {
                let Sight::There(host) = sight else { return Ok(Action::requeue(JOB_CHECK)) };
                self.publish(host).await?;
                say_provisioned(&mut self.status, trouble.as_ref(), generation, self.now);
                let settled = self.status == self.old && self.host.is_some() && self.object.spec.provider_id.is_some();
                self.write().await?;
                if settled && let Some(mark) = settled_mark(self.object, self.context, &self.uid).await {
                    self.context.settled.set(&self.uid, mark);
                }
                Ok(Action::requeue(self.context.settings.listing_interval))
            }
            Next::LetGo => self.let_go().await,
        }
    }

    /// The listing of the host's zone; nothing where it is not needed or cannot be had.
    async fn listing(&self) -> Option<Arc<Listing<Host>>> {
        let zone = match &self.host {
            Some((zone, _)) => zone,
            None => self.target.zone.as_ref().ok()?,
        };
        if self.host.is_none() && self.object.meta().deletion_timestamp.is_none() {
            return None;
        }
        match self.context.lifecycle.hosts(zone).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %zone, "the zone cannot be listed");
                None
            }
        }
    }

    /// The attempts to set the host up. A count that went back (the annotation was reset) begins anew.
    fn bootstrap(&self) -> BootstrapStatus {
        let mut bootstrap = self.status.bootstrap.clone().unwrap_or_default();
        bootstrap.judged_failures = bootstrap.judged_failures.min(failures(self.object));
        bootstrap.failures_before = bootstrap.failures_before.min(failures(self.object));
        bootstrap
    }

    fn waiting_phase(&self) -> Phase {
        if self.host.is_some() { self.status.phase.unwrap_or_default() } else { Phase::Pending }
    }

    fn say(&mut self, phase: Phase, reason: &str, message: &str) {
        let generation = self.object.meta().generation;
        self.status.phase = Some(phase);
        self.status.observed_generation = generation;
        if self.object.meta().deletion_timestamp.is_some() {
            let set = |status: &mut MachineStatus, kind| {
                set_condition(
                    &mut status.conditions,
                    kind,
                    ConditionStatus::False,
                    reason,
                    message,
                    generation,
                    self.now,
                );
            };
            set(&mut self.status, conditions::RELEASED);
            set(&mut self.status, conditions::READY);
        } else {
            say_waiting(&mut self.status, reason, message, generation, self.now);
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        write_status(&self.api, self.object, &self.old, &self.status).await?;
        self.old = self.status.clone();
        Ok(())
    }

    /// Starts a job; what it is for is written first.
    async fn start(&mut self, kind: JobKind, sight: Sight<'_>) -> Result<Action, Error> {
        // What was judged already counts too: a host is rebooted once.
        let seen = |machine: &AppleSiliconMachine| (machine.spec.clone(), bootstrap_of(machine).cloned());
        if let Some(instead) = overtaken(&self.api, self.object, seen).await? {
            return Ok(instead);
        }
        let Some(claim) = self.claim.clone() else { return Ok(Action::requeue(JOB_CHECK)) };
        let host = match (&self.host, sight) {
            (Some(host), _) => Some(host.clone()),
            (None, Sight::There(host)) => self.target.zone.clone().ok().map(|zone| (zone, host.id.clone())),
            (None, _) => None,
        };
        let (phase, reason, message) = match kind {
            JobKind::Adopt => (Phase::Adopting, "Adopting", "a host of the pool is being claimed"),
            JobKind::Release => (Phase::Releasing, "Releasing", "the host is being released"),
            JobKind::Recover => {
                (Phase::Recovering, "Recovering", "its set-up failed; what becomes of the host is being decided")
            }
            _ => (self.status.phase.unwrap_or_default(), "", ""),
        };
        if !reason.is_empty() {
            self.say(phase, reason, message);
        }
        if let Ok(zone) = &self.target.zone {
            self.status.failure_domain = Some(zone.to_string());
        }
        // A host that was found by the claim loses that name in the course of its release: its id is written first.
        if let Some((_, id)) = &host {
            self.status.server_id = Some(id.clone());
        }
        self.status.policies = self.context.policies_in_use(&SLOTS);
        self.write().await?;
        let last = self.context.jobs.last(&self.uid, self.status.operation.as_ref());
        let mirror = mirror_of(self.api.clone(), self.object.name_any(), self.uid.clone());
        let (jobs, context) = (&self.context.jobs, Arc::clone(self.context));
        match (kind, host) {
            (JobKind::Adopt, _) => {
                let (Ok(zone), Ok(prefix)) = (self.target.zone.clone(), self.target.prefix.clone()) else {
                    return Ok(Action::requeue(JOB_CHECK));
                };
                let pool = Pool {
                    zone,
                    prefix,
                    machine_type: self.object.spec.machine_type.clone(),
                    operating_system: self.object.spec.operating_system.clone(),
                };
                let limit = self
                    .object
                    .spec
                    .order
                    .as_ref()
                    .filter(|order| order.allowed && context.settings.allow_orders)
                    .and_then(|order| order.limit);
                jobs.start(&self.uid, kind, last.as_ref(), mirror, move |control, _| async move {
                    work::adopt(&context, &pool, &claim, limit, &control).await
                });
            }
            (JobKind::Inspect, Some((zone, id))) => {
                jobs.start(&self.uid, kind, last.as_ref(), mirror, move |_, _| async move {
                    work::inspect(&context, &zone, &id).await
                });
            }
            (JobKind::Release | JobKind::Recover, Some((zone, id))) => {
                let bootstrap = self.bootstrap();
                let mut request =
                    windlass_lifecycle::ReleaseRequest::new(zone, id, claim, self.target.prefix.clone().ok());
                request.wish = wish(self.object.annotations()).0;
                request.occasion = if kind == JobKind::Recover { Occasion::BootstrapFailed } else { Occasion::LetGo };
                request.adopted =
                    self.object.annotations().get(annotations::ORIGIN).is_none_or(|origin| origin != "ordered");
                request.bootstrap_failures = failures(self.object).saturating_sub(bootstrap.failures_before);
                request.rebooted = bootstrap.rebooted;
                if let Some(problem) = wish(self.object.annotations()).1 {
                    let about = self.object.object_ref(&());
                    self.context.event(&about, true, "UnknownReleasePolicy", "Release", &problem).await;
                }
                jobs.start(&self.uid, kind, last.as_ref(), mirror, move |control, attempt| async move {
                    request.attempt = attempt;
                    work::release(&context, request, &control).await
                });
            }
            _ => {}
        }
        Ok(Action::requeue(JOB_CHECK))
    }

    /// Writes where the host is reached, and who decides about it.
    async fn publish(&mut self, host: &Host) -> Result<(), Error> {
        let zone = host.zone.clone();
        let name = self.object.name_any();
        self.status.server_id = Some(host.id.clone());
        self.status.server_name = Some(host.name.clone());
        if !zone.is_empty() {
            self.status.failure_domain = Some(zone.clone());
        }
        self.status.addresses = addresses(host, &name);
        self.status.policies = self.context.policies_in_use(&SLOTS);
        let bootstrap = self.bootstrap();
        self.status.bootstrap = Some(bootstrap);
        if self.object.spec.provider_id.is_none()
            && let Some((zone, id)) = &self.host
        {
            let provider = ProviderId::AppleSilicon { zone: zone.clone(), id: id.clone() };
            write_object(&self.api, self.object, json!({"spec": {"providerID": provider.to_string()}})).await?;
        }
        Ok(())
    }

    /// A job has ended: what it means is written; then it is forgotten.
    async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        let about = self.object.object_ref(&());
        let generation = self.object.meta().generation;
        let deleting = self.object.meta().deletion_timestamp.is_some();
        say_paused(&mut self.status, &self.above, generation, self.now);
        let after = match outcome {
            Outcome::Adopted { machine, ordered } => self.adopted(machine, *ordered).await?,
            Outcome::Inspected(host) => {
                self.status.credentials_secret_name = credentials::write(self.context, self.object, host).await?;
                Duration::ZERO
            }
            Outcome::Released(released) if deleting => return self.released(released).await,
            Outcome::Released(released) => self.recovered(released).await?,
            Outcome::Waiting { reason, message, .. } => {
                let phase = if deleting { Phase::Releasing } else { self.waiting_phase() };
                let was = self.status.condition(conditions::PROVISIONED).map(|condition| condition.message.clone());
                self.say(phase, reason, message);
                if was.as_deref() != Some(message) {
                    self.context.event(&about, true, reason, "Reconcile", message).await;
                }
                Duration::ZERO
            }
            Outcome::Failed { reason, message } => {
                let phase = if deleting { Phase::Releasing } else { self.status.phase.unwrap_or_default() };
                self.say(phase, reason, message);
                self.context.event(&about, true, reason, "Reconcile", message).await;
                Duration::ZERO
            }
            Outcome::Refused { reason, message } => {
                self.status.ready = false;
                self.status.failure_reason = Some((*reason).to_owned());
                self.status.failure_message = Some(message.clone());
                self.say(Phase::Failed, reason, message);
                self.context.event(&about, true, reason, "Reconcile", message).await;
                self.context.settings.listing_interval
            }
            Outcome::CalledOff { message } => {
                self.say(Phase::Releasing, "CalledOff", message);
                Duration::ZERO
            }
            // This process is about to end: nothing new is begun.
            Outcome::LeftOpen => {
                self.context.jobs.done(&self.uid);
                return Ok(Action::requeue(JOB_CHECK));
            }
            Outcome::Created(_) | Outcome::CleanedUp { .. } | Outcome::Kept { .. } | Outcome::Operated { .. } => {
                Duration::ZERO
            }
        };
        self.write().await?;
        self.context.jobs.done(&self.uid);
        Ok(Action::requeue(after.max(Duration::from_millis(200))))
    }

    /// The order matters: the Secret and the provider id are there before the machine counts as provisioned.
    async fn adopted(&mut self, machine: &AdoptedMachine, ordered: bool) -> Result<Duration, Error> {
        let host = &machine.server;
        let about = self.object.object_ref(&());
        let Ok(zone) = self.target.zone.clone() else { return Ok(JOB_CHECK) };
        if self.object.meta().deletion_timestamp.is_none() {
            if host.delivered {
                self.status.credentials_secret_name = credentials::write(self.context, self.object, host).await?;
            }
            let provider = ProviderId::AppleSilicon { zone: zone.clone(), id: host.id.clone() };
            let mut patch = json!({"spec": {"providerID": provider.to_string()}});
            if !machine.rediscovered || !self.object.annotations().contains_key(annotations::ORIGIN) {
                let origin = if ordered { "ordered" } else { "pool" };
                patch["metadata"] = json!({"annotations": {annotations::ORIGIN: origin}});
            }
            if !write_object(&self.api, self.object, patch).await? {
                // Overtaken: the next look sees what changed, and the outcome is still there.
                return Err(Error::Overtaken);
            }
            self.context
                .event(
                    &about,
                    false,
                    if ordered { "HostOrdered" } else { "HostAdopted" },
                    "Adopt",
                    &format!(
                        "{} the host {} ({}) as {}",
                        if ordered {
                            "ordered"
                        } else if machine.rediscovered {
                            "found"
                        } else {
                            "adopted"
                        },
                        host.id,
                        host.ip,
                        host.name
                    ),
                )
                .await;
        }
        self.status.server_id = Some(host.id.clone());
        self.status.server_name = Some(host.name.clone());
        self.status.failure_domain = Some(zone.to_string());
        self.status.addresses = addresses(host, &self.object.name_any());
        let known = failures(self.object);
        if !machine.rediscovered || self.status.bootstrap.is_none() {
            self.status.bootstrap =
                Some(BootstrapStatus { judged_failures: known, failures_before: known, rebooted: false });
        }
        Ok(Duration::ZERO)
    }

    /// A deleted object's host was released, or is to be asked for again.
    async fn released(&mut self, released: &Released) -> Result<Action, Error> {
        let about = self.object.object_ref(&());
        let message = words(released);
        let outcome = word(&released.outcome);
        if !released.policy_failures.is_empty() {
            self.context.event(&about, true, "PolicyFailed", "Release", &message).await;
        }
        if !released.outcome.has_let_go() {
            let reason = if released.policy_failures.is_empty() { "ReleaseWaiting" } else { "PolicyFailed" };
            self.say(Phase::Releasing, reason, &message);
            if released.policy_failures.is_empty() {
                // A refusal that no policy has got around is for people to look at.
                self.context.event(&about, released.refused.is_some(), reason, "Release", &message).await;
            }
            self.write().await?;
            self.context.jobs.done(&self.uid);
            return Ok(Action::requeue(Duration::from_millis(200)));
        }
        let warning = matches!(released.outcome, ReleaseOutcome::NotOurs { .. });
        // Once, whatever comes next: a finalizer that cannot be taken away yet is no second release.
        if self.status.condition(conditions::RELEASED).is_none_or(|known| known.status != ConditionStatus::True) {
            metrics::counter!(metric_names::RELEASES, "outcome" => outcome).increment(1);
            self.context.event(&about, warning, outcome, "Release", &message).await;
            let generation = self.object.meta().generation;
            set_condition(
                &mut self.status.conditions,
                conditions::RELEASED,
                ConditionStatus::True,
                outcome,
                &message,
                generation,
                self.now,
            );
            self.write().await?;
        }
        self.let_go().await
    }

    async fn let_go(&mut self) -> Result<Action, Error> {
        if !let_go(&self.api, self.object).await? {
            return Ok(Action::requeue(Duration::from_millis(500)));
        }
        self.context.jobs.forget(&self.uid);
        self.context.settled.forget(&self.uid);
        Ok(Action::await_change())
    }

    /// A host whose set-up failed was judged.
    async fn recovered(&mut self, released: &Released) -> Result<Duration, Error> {
        let about = self.object.object_ref(&());
        let message = words(released);
        let known = failures(self.object);
        let mut bootstrap = self.bootstrap();
        if !released.policy_failures.is_empty() {
            self.context.event(&about, true, "PolicyFailed", "Recover", &message).await;
        }
        match &released.outcome {
            ReleaseOutcome::AskAgain { .. } => {
                self.say(Phase::Recovering, "RecoveryWaiting", &message);
                return Ok(Duration::ZERO);
            }
            ReleaseOutcome::Kept => {
                bootstrap.judged_failures = known;
                self.context.event(&about, false, "BootstrapRetried", "Recover", &message).await;
            }
            ReleaseOutcome::Rebooted => {
                bootstrap.judged_failures = known;
                bootstrap.rebooted = true;
                self.context.event(&about, true, "HostRebooted", "Recover", &message).await;
            }
            outcome => {
                // Another host takes its place: first the old one is forgotten, in one write.
                let patch = json!({"spec": {"providerID": Value::Null}, "metadata": {"annotations": {annotations::ORIGIN: Value::Null}}});
                if self.object.spec.provider_id.is_some() && !write_object(&self.api, self.object, patch).await? {
                    return Err(Error::Overtaken);
                }
                metrics::counter!(metric_names::RELEASES, "outcome" => word(outcome)).increment(1);
                self.context.event(&about, true, "HostReplaced", "Recover", &message).await;
                bootstrap = BootstrapStatus { judged_failures: known, failures_before: known, rebooted: false };
                self.status.ready = false;
                self.status.server_id = None;
                self.status.server_name = None;
                self.status.addresses = Vec::new();
                self.status.credentials_secret_name = None;
                remove_condition(&mut self.status.conditions, conditions::BOOTSTRAPPED);
                self.say(Phase::Pending, "HostReplaced", &message);
            }
        }
        self.status.bootstrap = Some(bootstrap);
        Ok(Duration::ZERO)
    }
}

fn addresses(host: &Host, name: &str) -> Vec<MachineAddress> {
    let mut addresses = vec![MachineAddress { kind: "Hostname".to_owned(), address: name.to_owned() }];
    if !host.ip.is_empty() {
        addresses.push(MachineAddress { kind: "ExternalIP".to_owned(), address: host.ip.clone() });
    }
    addresses
}
