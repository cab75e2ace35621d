//! `AppleSiliconMachine`: what is seen, what is done.

mod bootstrap;
mod credentials;
mod decide;
mod ended;
pub(crate) mod setup;
mod work;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;
use tokio::time::Instant;
use windlass_lifecycle::{AbandonTarget, ClaimName, Existing, HostOrigin, Listing, Pool, PoolPrefix, ReleaseRequest};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::{Requested, Trigger};
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::Server as Host;

use crate::Error;
use crate::account_of::context_of;
use crate::action::Action;
use crate::approvals::{self, approved};
use crate::common_failures::Turn;
use crate::context::Context;
use crate::job_kind::JobKind;
use crate::kinds::{
    AppleSiliconMachine, BootstrapStatus, Condition, ConditionStatus, MachineAddress, MachineStatus, Phase, SetupState,
    SetupStatus, annotations, conditions,
};
use crate::names::{ProviderId, claim};
use crate::outcome::later;
use crate::owners::{Owners, ProvisioningGate};
use crate::requested::{requested, retry};
use crate::status::{remove_condition, time};
use crate::turn::{AT_ONCE, JOB_CHECK, KindStep, Machine, Reconcile, current, is_quiet, mark_of};
use crate::writes::{add_foreign_condition, mark, remove_foreign_condition, write_object};
use bootstrap::{failures, judged};
use decide::{Observed, Presence, RECOVERING, TEARING_DOWN, decide};
use setup::Due;

/// How many listing intervals lie between two looks whether the Secret of a settled Mac is still there: an hour by
/// default, so that 500 Macs cost the API server one small read in seven seconds.
const SECRET_ROUND: u32 = 60;
/// Why a Mac waits for a host.
const NO_HOST: &str = "NoHostAvailable";
/// Why a Mac is not set up where the operator has switched that off.
const SET_UP_OFF: &str = "SetUpOff";

impl Machine for AppleSiliconMachine {
    const LEAVING: Phase = Phase::Releasing;
    const CALLING_OFF: &'static str = "the operation in progress is being cancelled before the release";
    const SLOTS: &'static [SlotName] = &[SlotName::Release, SlotName::Retry];
}

/// What an object's configuration comes to.
#[derive(Clone, Debug)]
struct Target {
    zone: Result<Zone, String>,
    /// The pool from which it may take a host.
    prefix: Result<PoolPrefix, String>,
    /// The pool into which its host goes back: also one that it may take nothing from any more.
    home: Option<PoolPrefix>,
}

impl Target {
    fn of(object: &AppleSiliconMachine, status: &MachineStatus, owners: &Owners, context: &Context) -> Self {
        let domain = match &owners.provisioning {
            ProvisioningGate::Ready { failure_domain, .. } => failure_domain.clone(),
            _ => None,
        };
        let zone = match object.spec.zone.clone().or_else(|| status.failure_domain.clone()).or(domain) {
            Some(zone) => zone.parse().map_err(|error| format!("the zone {zone:?}: {error}")),
            None => context.settings.zone.clone().ok_or_else(|| {
                "no zone: set spec.zone, the Machine's failure domain, or the controller's --zone".to_owned()
            }),
        };
        let (pools, wanted) = (&context.settings.pools, object.spec.pool_prefix.as_deref());
        let home = wanted.map_or_else(|| pools.of_all().cloned(), |prefix| prefix.parse().ok());
        Self { zone, prefix: pools.granted(wanted, &object.namespace().unwrap_or_default()), home }
    }

    /// Why the object is not provisioned: what it asks for cannot be, or is not allowed.
    fn problem(&self, object: &AppleSiliconMachine, context: &Context) -> Option<String> {
        let problems: Vec<_> =
            self.zone.as_ref().err().into_iter().chain(self.prefix.as_ref().err()).cloned().collect();
        let zone = self.zone.as_ref().map(Zone::as_str).unwrap_or_default();
        let types = std::slice::from_ref(&object.spec.machine_type);
        let refused = context.settings.limits.check(&object.namespace().unwrap_or_default(), zone, types).err();
        let problems: Vec<_> = problems.into_iter().chain(refused).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// One reconcile of one Mac.
struct Mac<'a> {
    turn: Reconcile<'a, AppleSiliconMachine>,
    /// What names the host as this object's.
    claim: ClaimName,
    /// Another claim that the object's annotation names, and that nobody has approved.
    refused: Option<String>,
    host: Option<(Zone, String)>,
    target: Target,
}

/// Reconciles an object: looks, decides, does one thing.
pub(crate) async fn reconcile(object: Arc<AppleSiliconMachine>, context: Arc<Context>) -> Result<Action, Error> {
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
    let mut turn = Reconcile::new(object.as_ref(), job, &context).await?;
    let target = Target::of(&object, &turn.status, &turn.owners, &context);
    let found = turn.status.server_id.clone().zip(target.zone.clone().ok()).map(|(id, zone)| (zone, id));
    let (claim, refused) = claim_of(&object, &mut turn.status, &context).await?;
    // What the controller itself wrote into the status goes before what anybody may write into the specification.
    let mut mac = Mac { claim, refused, host: found.or_else(|| host_of(&object)), target, turn };
    match mac.turn.ended() {
        Some(outcome) => mac.act_upon(&outcome).await,
        None => mac.perform().await,
    }
}

/// The claim that an object may use, and the one that its annotation names where it may not.
///
/// It is the one of the host that it has, else made from the object's UID, which nobody chooses. The annotation shows
/// it, and is no proof of another: only an administrator hands one over, to an object that was moved from another
/// cluster for example.
async fn claim_of(
    object: &AppleSiliconMachine,
    status: &mut MachineStatus,
    context: &Context,
) -> Result<(ClaimName, Option<String>), Error> {
    let name = object.name_any();
    let own = match status.claim.as_deref().and_then(|known| known.parse().ok()) {
        Some(known) => known,
        None => claim(&context.settings.owner, &name, &object.uid().unwrap_or_default())?,
    };
    let Some(asked) = object.annotations().get(annotations::CLAIM).filter(|asked| *asked != own.as_str()) else {
        return Ok((own, None));
    };
    let Ok(claim) = asked.parse::<ClaimName>() else { return Ok((own, Some(asked.clone()))) };
    if approved(context, asked, &object.namespace().unwrap_or_default(), &name).await? {
        // It stays so, whatever becomes of the approval.
        status.claim = Some(asked.clone());
        return Ok((claim, None));
    }
    Ok((own, Some(asked.clone())))
}

/// The host that `spec.providerID` names.
fn host_of(object: &AppleSiliconMachine) -> Option<(Zone, String)> {
    match object.spec.provider_id.as_deref()?.parse() {
        Ok(ProviderId::AppleSilicon { zone, id }) => Some((zone, id)),
        _ => None,
    }
}

/// By what a settled object is recognised.
async fn settled_mark(object: &AppleSiliconMachine, context: &Context) -> Option<String> {
    let (zone, id) = host_of(object).filter(|_| is_quiet(object, context))?;
    let hosts = context.lifecycle.hosts(&zone).await.ok()?;
    let Host { name, status, ip, delivered, deletion_scheduled, .. } = hosts.get(&id)?;
    let status = status.as_str();
    let round = secret_round(&object.uid().unwrap_or_default(), context.settings.listing_interval, Timestamp::now());
    Some(mark_of(object, context, format_args!("{name} {status} {ip} {delivered} {deletion_scheduled} {round}")))
}

/// Counts the times at which it is looked whether a settled Mac's Secret is still there: each few listings, and not for
/// all Macs at once. Secrets are not watched, since that takes the right to read all of them.
fn secret_round(uid: &str, interval: Duration, now: Timestamp) -> i64 {
    let period = i64::try_from((interval * SECRET_ROUND).as_millis()).unwrap_or(i64::MAX).max(1);
    let offset = uid.bytes().fold(0_i64, |sum, byte| (sum * 31 + i64::from(byte)) % period);
    (now.as_millisecond() + offset) / period
}

impl Mac<'_> {
    async fn perform(&mut self) -> Result<Action, Error> {
        self.turn.have_replaced().await?;
        let listing = self.listing().await;
        let sight = match (&listing, &self.host) {
            // Where no zone was ever known, nothing was ever claimed.
            (None, None) if self.target.zone.is_err() => Presence::Absent,
            (None, _) => Presence::Unseen,
            (Some(listing), Some((_, id))) => listing.get(id).map_or(Presence::Absent, Presence::There),
            (Some(listing), None) => {
                let claimed = listing.machines.iter().find(|host| host.name == self.claim.as_str());
                claimed.map_or(Presence::Absent, Presence::There)
            }
        };
        let refused = self.refused.as_deref().map(|asked| {
            let (object, context) = (self.turn.object, self.turn.context);
            format!(
                "the annotation {} names {asked:?}, but this object's own claim is {}: remove the annotation, or {}",
                annotations::CLAIM,
                self.claim,
                approvals::remedy(context, asked, &object.namespace().unwrap_or_default(), &object.name_any())
            )
        });
        let (setup, teardown) = self.scripts_due();
        // Somebody may have deleted it.
        let credentials = !self.turn.deleting()
            && self.turn.status.credentials_secret_name.is_some()
            && credentials::exists(self.turn.context, self.turn.object).await?;
        let (turn, problem, last, bootstrap) =
            (&self.turn, self.target.problem(self.turn.object, self.turn.context), self.turn.last(), self.bootstrap());
        let next = decide(&Observed {
            deleting: turn.deleting(),
            finalizer: turn.marked(),
            abandoned: turn.is_abandoned(),
            begun: self.has_begun()?,
            claim: self.claim.as_str(),
            annotated: turn.object.annotations().contains_key(annotations::CLAIM),
            refused: refused.as_deref(),
            owners: &turn.owners,
            misconfigured: problem.as_deref(),
            host_id: self.host.as_ref().map(|(_, id)| id.as_str()),
            sight,
            busy: turn.busy(),
            last: last.as_ref(),
            failures: failures(turn.object),
            bootstrap: &bootstrap,
            remediation: turn.status.remediation_is_due(),
            given_up: turn.given_up(),
            credentials,
            failed: turn.status.failure_reason.is_some(),
            ready: turn.status.ready,
            setup,
            teardown,
            interval: turn.context.settings.listing_interval,
            now: turn.now,
        });
        let own = match self.turn.make(next).await? {
            ControlFlow::Break(action) => return Ok(action),
            ControlFlow::Continue(own) => own,
        };
        let (context, object) = (self.turn.context, self.turn.object);
        match own {
            KindStep::Mark => mark(&self.turn.api, object, json!({annotations::CLAIM: self.claim.as_str()})).await,
            KindStep::Start(kind) => self.start(kind, sight).await,
            KindStep::Abandon => self.abandon(sight).await,
            KindStep::Provisioned { trouble } => {
                let Presence::There(host) = sight else { return Ok(Action::requeue(JOB_CHECK)) };
                self.publish(host).await?;
                self.audit(host).await;
                if self.turn.provisioned(trouble.as_ref()).await?
                    && setup == Due::Never
                    && let Some(mark) = settled_mark(object, context).await
                {
                    context.settled.set(&self.turn.uid, mark);
                }
                let interval = context.settings.listing_interval;
                Ok(Action::requeue(match setup {
                    Due::Now if trouble.is_none() && self.turn.busy().is_none() => AT_ONCE,
                    Due::In(wait) => wait.min(interval),
                    Due::Now | Due::Never => interval,
                }))
            }
        }
    }

    /// The listing of the host's zone; absent if it is not needed or not available.
    async fn listing(&self) -> Option<Arc<Listing<Host>>> {
        let zone = match &self.host {
            Some((zone, _)) => zone,
            None => self.target.zone.as_ref().ok()?,
        };
        if self.host.is_none() && !self.turn.deleting() {
            return None;
        }
        match self.turn.context.lifecycle.hosts(zone).await {
            Ok(listing) => Some(listing),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %zone, "cannot list the zone");
                None
            }
        }
    }

    /// Whether a claim was ever begun or handed over: the journal says so before anything is called, and the status
    /// after that.
    fn has_begun(&self) -> Result<bool, Error> {
        let status = &self.turn.status;
        let operation = status.operation.as_ref().and_then(|operation| operation.id.as_ref());
        let in_status = operation.or(status.server_id.as_ref()).or(status.claim.as_ref()).is_some();
        Ok(in_status || !self.turn.context.lifecycle.journal().operations_of_machine(self.claim.as_str())?.is_empty())
    }

    /// Whether set-up and tear-down are due.
    fn scripts_due(&self) -> (Due, Due) {
        let (object, status, now) = (self.turn.object, &self.turn.status, self.turn.now);
        let host = self.host.as_ref().filter(|_| self.turn.context.settings.set_up);
        let Some((_, host)) = host else { return (Due::Never, Due::Never) };
        let annotation = |key| object.annotations().get(key).map(String::as_str);
        let (wanted, known) = (object.spec.setup.as_ref(), status.setup.as_ref());
        let (done, retry) = (annotation(annotations::SET_UP), retry(object.annotations()));
        let setup = setup::due(wanted.is_some(), known, host, done, retry.as_deref(), now);
        // A host that its owner keeps is left as it is.
        let kept = requested(object.annotations()).0 == Some(Requested::Keep);
        let teardown = if kept { Due::Never } else { setup::teardown_due(wanted, known, host, now) };
        (setup, teardown)
    }

    fn bootstrap(&self) -> BootstrapStatus {
        judged(self.turn.status.bootstrap.as_ref(), failures(self.turn.object))
    }

    /// Whether a look for a host would end as the last one did: then nothing is begun, and nothing written.
    async fn waits_as_before(&self) -> bool {
        let (turn, object) = (&self.turn, self.turn.object);
        let Some(last) = turn.last().filter(|last| last.reason.as_deref() == Some(NO_HOST)) else {
            return false;
        };
        // Where a host may be ordered, Scaleway's stock counts, too.
        if work::Orders::of(object.spec.order.as_ref(), turn.context.settings.allow_orders) != work::Orders::NotWanted {
            return false;
        }
        let (Ok(zone), Ok(prefix)) = (self.target.zone.clone(), self.target.prefix.clone()) else { return false };
        let pool = self.pool(zone, prefix);
        let none = turn.context.lifecycle.check_eligible(&pool, &self.claim).await.err();
        if none.is_none_or(|none| last.message != Some(none.to_string())) {
            return false;
        }
        let again = later(turn.now, turn.context.settings.retry_interval);
        turn.context.jobs.wait(&turn.uid, last, again);
        true
    }

    /// Whether it looks for a host, or orders one, where others that ask for the same failed with the same words. Each
    /// looks for itself whether a host has come into the pool, which calls nobody.
    fn common_failures(&self) -> Option<Turn> {
        let (turn, spec) = (&self.turn, &self.turn.object.spec);
        let orders = work::Orders::of(spec.order.as_ref(), turn.context.settings.allow_orders);
        let waits = turn.last().is_some_and(|last| last.reason.as_deref() == Some(NO_HOST));
        if waits && orders == work::Orders::NotWanted {
            return None;
        }
        let zone = self.target.zone.as_ref().map(Zone::as_str).unwrap_or_default();
        let asked = (zone, &spec.pool_prefix, &spec.machine_type, &spec.operating_system, orders);
        Some(turn.turn_of(JobKind::Adopt, format_args!("{asked:?}")))
    }

    fn pool(&self, zone: Zone, prefix: PoolPrefix) -> Pool {
        let spec = &self.turn.object.spec;
        Pool { zone, prefix, machine_type: spec.machine_type.clone(), operating_system: spec.operating_system.clone() }
    }

    /// Starts a job; what it is for is written first.
    async fn start(&mut self, kind: JobKind, sight: Presence<'_>) -> Result<Action, Error> {
        if kind == JobKind::Adopt && self.waits_as_before().await {
            return Ok(Action::requeue(self.turn.context.settings.retry_interval));
        }
        let common = match kind {
            JobKind::Adopt => match self.common_failures() {
                Some(Turn::Wait(wait)) => return Ok(self.turn.wait_for_others(wait)),
                Some(Turn::Try(common)) => Some(common),
                None => None,
            },
            _ => None,
        };
        // What was judged already counts too: a host is rebooted once.
        let seen = |machine: &AppleSiliconMachine| {
            let known = machine.status.clone().map(|status| (status.bootstrap, status.setup, status.remediation));
            (machine.spec.clone(), known)
        };
        if let Some(instead) = self.turn.overtaken(seen).await? {
            return Ok(instead);
        }
        let claim = self.claim.clone();
        let host = match (&self.host, sight) {
            (Some(host), _) => Some(host.clone()),
            (None, Presence::There(host)) => self.target.zone.clone().ok().map(|zone| (zone, host.id.clone())),
            (None, _) => None,
        };
        let turn = &mut self.turn;
        match kind {
            kind if turn.is_retried(kind) => {}
            JobKind::Adopt => turn.say(Phase::Adopting, "Adopting", "a host of the pool is being claimed"),
            JobKind::Release => turn.say(Phase::Releasing, "Releasing", "the host is being released"),
            JobKind::Recover => {
                turn.say(Phase::Recovering, "Recovering", RECOVERING);
            }
            JobKind::SetUp | JobKind::TearDown => {
                let Some((_, id)) = &host else { return Ok(Action::requeue(JOB_CHECK)) };
                let mut begun = setup::begun(turn.status.setup.as_ref(), kind, id, turn.now);
                begun.retry = retry(turn.object.annotations());
                if kind == JobKind::TearDown {
                    turn.say(Phase::Releasing, "TearingDown", TEARING_DOWN);
                } else {
                    let message = format!("run {} of the set-up script is in progress", begun.attempt);
                    turn.say_bootstrapped(false, "SettingUp", &message);
                }
                turn.status.setup = Some(begun);
            }
            _ => {}
        }
        if let Ok(zone) = &self.target.zone {
            turn.status.failure_domain = Some(zone.to_string());
        }
        // A host that was found by the claim loses that name in the course of its release: its id is written first. One
        // that only the specification names is not the object's for that.
        if let (Presence::There(found), Some((_, id))) = (sight, &host)
            && found.name == claim.as_str()
        {
            turn.status.server_id = Some(id.clone());
        }
        turn.status.policies = turn.policies_in_use();
        turn.begin_in_project();
        turn.write_beginning(kind).await?;
        let context = Arc::clone(turn.context);
        match (kind, host) {
            (JobKind::Adopt, _) => {
                let (Ok(zone), Ok(prefix)) = (self.target.zone.clone(), self.target.prefix.clone()) else {
                    return Ok(Action::requeue(JOB_CHECK));
                };
                let pool = self.pool(zone, prefix);
                let wanted = self.turn.object.spec.order.as_ref();
                let orders = work::Orders::of(wanted, context.settings.allow_orders);
                let requested_by = self.turn.requested_by("");
                let namespace = self.turn.object.namespace().unwrap_or_default();
                self.turn.launch(kind, move |control, _| async move {
                    let outcome =
                        work::adopt(&context, &pool, &namespace, &claim, orders, requested_by, &control).await;
                    if let Some(common) = common {
                        common.end(&outcome, Instant::now(), rand::random());
                    }
                    outcome
                });
            }
            (JobKind::Inspect, Some((zone, id))) => {
                let (namespace, name) = (self.turn.object.namespace().unwrap_or_default(), self.turn.object.name_any());
                self.turn.launch(kind, move |_, _| async move {
                    work::inspect(&context, (&zone, &id), &claim, (&namespace, &name)).await
                });
            }
            (JobKind::SetUp | JobKind::TearDown, Some((zone, id))) => {
                let Some(request) = self.script(kind, zone, id, claim) else {
                    return Ok(Action::requeue(JOB_CHECK));
                };
                self.turn.launch(kind, move |control, _| async move { setup::run(&context, request, &control).await });
            }
            (JobKind::Release | JobKind::Recover, Some((zone, id))) => {
                if let Some(problem) = requested(self.turn.object.annotations()).1 {
                    self.turn.event(true, "UnknownReleasePolicy", "Release", &problem).await;
                }
                let mut request = self.request(kind, zone, id, claim);
                if request.requested.is_none()
                    && requested(self.turn.object.annotations()).0 == Some(Requested::Terminate)
                {
                    let why = "the annotation asks to delete a host of a pool, but the controller runs without \
                               --allow-terminate, so the release policy does not see that request";
                    self.turn.event(true, "TerminateNotAllowed", "Release", why).await;
                }
                self.turn.launch(kind, move |control, attempt| async move {
                    request.attempt = attempt;
                    work::release(&context, request, &control).await
                });
            }
            _ => {}
        }
        Ok(Action::requeue(self.turn.job_check()))
    }

    /// What is run on the host.
    fn script(&self, kind: JobKind, zone: Zone, id: String, claim: ClaimName) -> Option<setup::Request> {
        let (turn, known) = (&self.turn, self.turn.status.setup.as_ref()?);
        let began: Option<Timestamp> = known.began_at.as_deref().and_then(|at| at.parse().ok());
        Some(setup::Request {
            kind,
            setup: turn.object.spec.setup.clone()?,
            namespace: turn.object.namespace().unwrap_or_default(),
            name: turn.object.name_any(),
            requested_by: self.turn.requested_by(""),
            provider_id: ProviderId::AppleSilicon { zone: zone.clone(), id: id.clone() }.to_string(),
            zone,
            id,
            claim,
            host_key: known.host_key.clone(),
            attempt: known.attempt,
            elapsed: began.and_then(|at| Duration::try_from(turn.now.duration_since(at)).ok()).unwrap_or_default(),
        })
    }

    /// Whether the host came out of a pool, and was not ordered. The annotation counts where the journal does not say:
    /// the object may have been moved here from another cluster.
    fn was_adopted(&self, host: &str, claim: &ClaimName) -> bool {
        let annotated =
            || self.turn.object.annotations().get(annotations::ORIGIN).is_none_or(|origin| origin != "ordered");
        match self.turn.context.lifecycle.host_origin(host, claim) {
            Ok(HostOrigin::Pool) => true,
            Ok(HostOrigin::Ordered) => false,
            Ok(_) => annotated(),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(host, error, "cannot read from the journal whether the host was ordered");
                annotated()
            }
        }
    }

    /// Asks shadows what would become of the host if the object were deleted.
    async fn audit(&self, host: &Host) {
        let Some((zone, id)) = self.host.clone().filter(|_| self.turn.has_shadows()) else { return };
        let request = self.request(JobKind::Release, zone, id, self.claim.clone());
        self.turn.audit(Existing::Host { host, request: &request }).await;
    }

    /// What is asked of the release slot.
    fn request(&self, kind: JobKind, zone: Zone, id: String, claim: ClaimName) -> ReleaseRequest {
        let (bootstrap, adopted) = (self.bootstrap(), self.was_adopted(&id, &claim));
        // The pool is the operator's; a host that was ordered is there for this object.
        let settings = &self.turn.context.settings;
        let may = |asked: &Requested| *asked != Requested::Terminate || !adopted || settings.allow_terminate;
        let (asked, misspelt) = requested(self.turn.object.annotations());
        // What the operator wants of it counts where the object says nothing. A word that nobody understands may have
        // been meant to keep it.
        let ordered = settings.delete_ordered && !adopted && misspelt.is_none();
        ReleaseRequest {
            requested: asked.filter(may).or(ordered.then_some(Requested::Terminate)),
            trigger: if kind == JobKind::Recover { Trigger::BootstrapFailed } else { Trigger::Released },
            adopted,
            bootstrap_failures: failures(self.turn.object).saturating_sub(bootstrap.failures_before),
            rebooted: bootstrap.rebooted,
            activity: self.turn.activity(),
            // A Machine's provider id never changes: another host is another Machine.
            replaced_with_claimant: kind == JobKind::Recover && self.turn.owners.machine.is_some(),
            requested_by: self.turn.requested_by(match kind {
                JobKind::Recover => "its host could not be set up",
                _ => "the object is being deleted",
            }),
            ..ReleaseRequest::new(zone, id, claim, self.target.home.clone())
        }
    }

    /// Writes where the host is reached, and who decides about it.
    async fn publish(&mut self, host: &Host) -> Result<(), Error> {
        let bootstrap = self.bootstrap();
        let policies = self.turn.policies_in_use();
        let (object, status) = (self.turn.object, &mut self.turn.status);
        status.server_id = Some(host.id.clone());
        status.server_name = Some(host.name.clone());
        status.claim = Some(self.claim.to_string());
        if !host.zone.is_empty() {
            status.failure_domain = Some(host.zone.clone());
        }
        status.addresses = addresses(host, &object.name_any());
        status.policies = policies;
        status.bootstrap = Some(bootstrap);
        // Who has taken the set-up away sets the condition from then on.
        if object.spec.setup.is_none() && status.setup.take().is_some() {
            remove_condition(&mut status.conditions, conditions::BOOTSTRAPPED);
        }
        let annotation = |key| object.annotations().get(key).cloned();
        if object.spec.setup.is_some() && status.setup.is_none() && annotation(annotations::SET_UP) == status.server_id
        {
            // The status was lost, in a move between clusters: what it said of the host is said again.
            status.setup = Some(SetupStatus {
                server_id: Some(host.id.clone()),
                state: Some(SetupState::Succeeded),
                retry: retry(object.annotations()),
                ..SetupStatus::default()
            });
        }
        // It may be lost alone, too: to another's write, or to one of ours that an older sight of the object led to.
        let known = status.setup.as_ref().filter(|known| known.server_id == status.server_id);
        if status.condition(conditions::BOOTSTRAPPED).is_none()
            && let Some((done, reason, message)) = known.and_then(setup::bootstrapped)
        {
            self.turn.say_bootstrapped(done, reason, &message);
        }
        if object.spec.provider_id.is_none()
            && let Some((zone, id)) = &self.host
        {
            let provider = ProviderId::AppleSilicon { zone: zone.clone(), id: id.clone() };
            write_object(&self.turn.api, object, json!({"spec": {"providerID": provider.to_string()}})).await?;
        }
        self.say_set_up_off().await
    }

    /// Says that the operator has switched set-ups off, as long as nobody else says how the Mac's own goes.
    async fn say_set_up_off(&self) -> Result<(), Error> {
        let (turn, kind) = (&self.turn, conditions::BOOTSTRAPPED);
        let is_wanted = turn.object.spec.setup.is_some();
        match turn.status.condition(kind) {
            None if is_wanted && !turn.context.settings.set_up => {
                let message = "spec.setup is not run: the controller runs with --set-up=false. Set the Mac up yourself";
                let condition = Condition {
                    kind: kind.to_owned(),
                    status: ConditionStatus::False,
                    reason: SET_UP_OFF.to_owned(),
                    message: message.to_owned(),
                    last_transition_time: time(turn.now),
                    observed_generation: turn.object.metadata.generation,
                };
                // Where another write came first, the next look sees it.
                add_foreign_condition(&turn.api, turn.object, &condition).await?;
            }
            Some(known) if !is_wanted && known.reason == SET_UP_OFF => {
                remove_foreign_condition(&turn.api, turn.object, kind).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves the host alone.
    async fn abandon(&mut self, sight: Presence<'_>) -> Result<Action, Error> {
        let Ok(zone) = self.target.zone.clone() else { return self.turn.remove_finalizer().await };
        let seen = match sight {
            Presence::There(host) => Some(host.id.clone()),
            Presence::Unseen | Presence::Absent => None,
        };
        let host = self.host.as_ref().map(|(_, id)| id.clone()).or(seen);
        let claim = self.claim.clone();
        let what = match &host {
            Some(host) => format!("the host {host} in {zone} with the name {claim}"),
            None => format!("the host in {zone} with the name {claim}, if there is one,"),
        };
        self.turn.abandon(&AbandonTarget::Host { zone, host, claim }, &what).await
    }
}

fn addresses(host: &Host, name: &str) -> Vec<MachineAddress> {
    let mut addresses = vec![MachineAddress { kind: "Hostname".to_owned(), address: name.to_owned() }];
    if !host.ip.is_empty() {
        addresses.push(MachineAddress { kind: "ExternalIP".to_owned(), address: host.ip.clone() });
    }
    addresses
}
