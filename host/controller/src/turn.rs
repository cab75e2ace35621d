//! One reconcile of one object, as far as it is the same for every kind of machine: what is known of it, what is said
//! of it, and the moves that need nothing else.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use windlass_lifecycle::{AbandonTarget, Abandonment, Control, Existing, MayBegin, Released, RequestedBy, Requester};
use windlass_policy::slots::SlotName;
use windlass_policy::slots::release::Activity;

use crate::Error;
use crate::account_of::{OfAccount, let_go};
use crate::accounts::Unusable;
use crate::action::Action;
use crate::cluster_api::{Machine as ClusterApiMachine, replacement_due};
use crate::common_failures::Turn;
use crate::context::Context;
use crate::crash::panic_for_tests;
use crate::job_kind::JobKind;
use crate::jobs::{JobView, is_retried, is_retry, mirror_of};
use crate::kinds::{
    ConditionStatus, FINALIZER, MachineStatus, OperationStatus, Phase, PolicyInUse, REPLACEMENT_DUE, annotations,
    conditions,
};
use crate::next_step::Next;
use crate::outcome::{Outcome, Recovery, jittered, later, needs_people, reason_to_wait};
use crate::owners::{self, Owners};
use crate::requested::asks_the_same;
use crate::status::{bounded, say_paused, say_provisioned, say_waiting, set_condition, time};
use crate::writes::{overtaken, write_with_operation};

/// While a job runs, its end brings the next reconcile; this is for the case that the API server never took that write.
pub(crate) const JOB_CHECK: Duration = Duration::from_secs(30);
/// How soon what a job has changed is looked at.
pub(crate) const AT_ONCE: Duration = Duration::from_millis(200);
/// After so many seconds a settled machine is put to the shadows again.
const AUDIT_AGAIN: i64 = 600;
/// How soon a finalizer is tried again that another write kept.
const FINALIZER_AGAIN: Duration = Duration::from_millis(500);

/// A kind of machine.
pub(crate) trait Machine:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status = MachineStatus>
    + Clone
    + DeserializeOwned
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// Where it stands while it is deleted.
    const LEAVING: Phase;
    /// What is said of work that is called off since the object is deleted.
    const CALLING_OFF: &'static str;
    /// The slots that decide about it.
    const SLOTS: &'static [SlotName];
}

/// One reconcile of one object.
pub(crate) struct Reconcile<'a, K> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) api: Api<K>,
    pub(crate) object: &'a K,
    pub(crate) uid: String,
    /// How its job was doing when the turn began.
    job: JobView,
    pub(crate) owners: Owners,
    /// The status as it is to be.
    pub(crate) status: MachineStatus,
    pub(crate) now: Timestamp,
    /// The status as it was written last.
    written: MachineStatus,
    /// The object as the last write of the status answered it.
    answered: Option<K>,
    /// The operation whose beginning was written.
    beginning: OperationStatus,
    /// Whether a retry was begun, or runs.
    is_retrying: bool,
}

/// Whether an object still wants what was decided: it, its annotations and what stands above it are read once more.
pub(crate) struct StillWanted<K> {
    pub(crate) context: Arc<Context>,
    pub(crate) api: Api<K>,
    pub(crate) object: K,
    /// What stood above it; absent for a kind of which nothing does.
    pub(crate) owners: Option<Owners>,
}

impl<K: Resource<DynamicType = ()>> fmt::Debug for StillWanted<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StillWanted({} {})", K::kind(&()), self.object.name_any())
    }
}

impl<K> StillWanted<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
{
    async fn look(&self) -> Result<bool, Error> {
        let reading = "reading the object whose work is about to begin";
        let now = self.api.get_opt(&self.object.name_any()).await.map_err(Error::kubernetes(reading))?;
        let same = |now: &K| {
            now.uid() == self.object.uid()
                && now.meta().generation == self.object.meta().generation
                && asks_the_same(now, &self.object)
        };
        let ours = |now: &K| same(now) && self.context.settings.passes_filter(now);
        let Some(now) = now.filter(ours) else { return Ok(false) };
        let Some(before) = &self.owners else { return Ok(true) };
        let owners = owners::look(&self.context.client, self.context.cluster_api.as_ref(), &now).await?;
        let deleting = now.meta().deletion_timestamp.is_some();
        Ok(owners.paused.is_none() && (deleting || owners.provisioning == before.provisioning))
    }
}

#[async_trait]
impl<K> MayBegin for StillWanted<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug + Send + Sync,
{
    async fn may_begin(&self) -> bool {
        match self.look().await {
            Ok(wanted) => wanted,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    name = self.object.name_any(),
                    "cannot read the object again, so its next step does not begin"
                );
                false
            }
        }
    }
}

/// The moves that each kind makes in its own way.
pub(crate) enum KindStep {
    Mark,
    Start(JobKind),
    Abandon,
    Provisioned { trouble: Option<(&'static str, String)> },
}

/// Whether nothing is going on with an object: only then can it be settled.
pub(crate) fn is_quiet<K: Machine>(object: &K, context: &Context) -> bool {
    object.meta().deletion_timestamp.is_none()
        && matches!(context.jobs.view(object.meta().uid.as_deref().unwrap_or_default()), JobView::None)
}

/// By what a settled object is recognised: its own version, what is seen of it at Scaleway, and who decides.
pub(crate) fn mark_of<K: Machine>(object: &K, context: &Context, seen: fmt::Arguments<'_>) -> String {
    let namespace = object.meta().namespace.as_deref();
    let policies = context.policies_in_use(namespace, K::SLOTS).into_iter();
    let policies = policies.map(|policy| policy.digest + &policy.settings_digest);
    let policies: String = policies.chain(shadows_of(context, namespace)).collect();
    format!("{} {seen} {policies}", object.meta().resource_version.as_deref().unwrap_or_default())
}

/// By what the shadows of the slot `release` are recognised, for now: what one would decide changes with the time.
pub(crate) fn shadows_of(context: &Context, namespace: Option<&str>) -> Option<String> {
    let round = Timestamp::now().as_second() / AUDIT_AGAIN;
    let shadows = context.policies.pin_of(namespace).shadows(SlotName::Release);
    let words: String = shadows.iter().map(|shadow| format!("{shadow} {} {round}", shadow.settings)).collect();
    (!words.is_empty()).then_some(words)
}

/// How an object's job is doing, and the object: as the watch has it, or as it is now where the job has ended and the
/// watch has not brought what was written when the job began, by which it is told what the end means.
///
/// A turn looks at its job once. One that ends in the course of it is the next turn's: were it none to this one, this
/// one would write that another begins.
pub(crate) async fn current<K>(object: Arc<K>, context: &Context) -> Result<(Arc<K>, JobView), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug + HasStatus,
    K::Status: Serialize,
{
    let job = context.jobs.view(&object.uid().unwrap_or_default());
    let written_before = |object: &Arc<K>| {
        let status = object.status();
        status.is_some_and(|status| context.jobs.has_begun_with(&object.uid().unwrap_or_default(), status))
    };
    if !matches!(job, JobView::Ended(_)) || written_before(&object) {
        return Ok((object, job));
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let now = api.get_opt(&object.name_any()).await.map_err(Error::kubernetes("reading the object whose job ended"))?;
    Ok((now.filter(|now| now.uid() == object.uid()).map_or(object, Arc::new), job))
}

/// Who abandons what belongs to an object, and why.
pub(crate) fn abandonment_of<K: Resource<DynamicType = ()>>(object: &K) -> Abandonment {
    let value = object.annotations().get(annotations::ABANDON).filter(|value| !value.is_empty());
    let by = format!("{} {}/{}", K::kind(&()), object.namespace().unwrap_or_default(), object.name_any());
    Abandonment { by, reason: value.cloned().map(bounded) }
}

/// The last operation as it counts under the policies that decide now: what others had it wait for is over, so that a
/// policy that is put into the place of a failing one is asked at once. Those that decide now are written when the next
/// operation begins.
fn under_policies(last: OperationStatus, then: &[PolicyInUse], now: &[PolicyInUse]) -> OperationStatus {
    if then == now { last } else { OperationStatus { not_before: None, ..last } }
}

impl<'a, K: Machine> Reconcile<'a, K> {
    /// Looks at the object and at what stands above it.
    pub(crate) async fn new(object: &'a K, job: JobView, context: &'a Arc<Context>) -> Result<Self, Error> {
        let owners = owners::look(&context.client, context.cluster_api.as_ref(), object).await?;
        let written = object.status().cloned().unwrap_or_default();
        let mut turn = Self {
            api: Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default()),
            uid: object.uid().unwrap_or_default(),
            job,
            status: written.clone(),
            written,
            answered: None,
            beginning: OperationStatus::default(),
            is_retrying: false,
            owners,
            context,
            object,
            now: Timestamp::now(),
        };
        turn.is_retrying = turn.retries();
        say_paused(&mut turn.status, &turn.owners, object.meta().generation, turn.now);
        if turn.deleting() || !turn.has_shadows() {
            context.audits.forget(&turn.uid);
        }
        Ok(turn)
    }

    /// The policies that decide now about the object.
    pub(crate) fn policies_in_use(&self) -> Vec<PolicyInUse> {
        self.context.policies_in_use(self.object.meta().namespace.as_deref(), K::SLOTS)
    }

    /// Says in the journal that this object asks.
    pub(crate) fn requested_by(&self, why: &str) -> RequestedBy {
        let requester = Requester::Object {
            kind: K::kind(&()).into_owned(),
            namespace: self.object.namespace().unwrap_or_default(),
            name: self.object.name_any(),
            uid: self.uid.clone(),
        };
        RequestedBy::new(requester, why).labelled(self.context.labels_of(self.object))
    }

    /// Asks the shadows of the slot `release`, where there are some, what they would decide about the machine.
    pub(crate) async fn audit(&self, machine: Existing<'_>) {
        let is_server = matches!(machine, Existing::Server { .. });
        match self.context.lifecycle.try_release(machine).await {
            Ok(tried) => {
                let name = format!("{}/{}", self.object.namespace().unwrap_or_default(), self.object.name_any());
                self.context.audits.learn(&self.uid, is_server, vec![(name, tried)]);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, name = self.object.name_any(), "cannot ask shadow policies about a machine");
            }
        }
    }

    /// Whether policies of the slot `release` are only asked and recorded.
    pub(crate) fn has_shadows(&self) -> bool {
        !self.context.policies.pin_of(self.object.meta().namespace.as_deref()).shadows(SlotName::Release).is_empty()
    }

    /// What the machine was doing, as its Machine says.
    pub(crate) fn activity(&self) -> Activity {
        let (node_ready, node_ready_since) = self.owners.node_ready.unzip();
        Activity { node_ready, node_ready_since: node_ready_since.flatten(), ..Activity::default() }
    }

    pub(crate) fn deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    pub(crate) fn marked(&self) -> bool {
        self.object.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
    }

    /// The job that runs.
    pub(crate) fn busy(&self) -> Option<JobKind> {
        match self.job {
            JobView::Running(kind) => Some(kind),
            JobView::None | JobView::Ended(_) => None,
        }
    }

    /// How the job has ended that was not acted upon yet.
    pub(crate) fn ended(&self) -> Option<Arc<Outcome>> {
        match &self.job {
            JobView::Ended(outcome) => Some(Arc::clone(outcome)),
            JobView::None | JobView::Running(_) => None,
        }
    }

    /// The last operation, and until when its kind waits.
    pub(crate) fn last(&self) -> Option<OperationStatus> {
        let last = self.context.jobs.last(&self.uid, self.status.operation.as_ref())?;
        Some(under_policies(last, &self.status.policies, &self.policies_in_use()))
    }

    /// Says that the machine is not ready, or not gone, and why.
    pub(crate) fn say(&mut self, phase: Phase, reason: &str, message: &str) {
        let generation = self.object.meta().generation;
        self.status.phase = Some(phase);
        self.status.observed_generation = generation;
        if self.deleting() {
            let (not, yes) = (ConditionStatus::False, ConditionStatus::True);
            for (kind, status) in [(conditions::RELEASED, not), (conditions::READY, not), (conditions::DELETING, yes)] {
                set_condition(&mut self.status.conditions, kind, status, reason, message, generation, self.now);
            }
        } else {
            say_waiting(&mut self.status, reason, message, generation, self.now);
        }
    }

    /// Says whether the machine is set up, and why not.
    pub(crate) fn say_bootstrapped(&mut self, done: bool, reason: &str, message: &str) {
        let (generation, kind) = (self.object.meta().generation, conditions::BOOTSTRAPPED);
        set_condition(&mut self.status.conditions, kind, done.into(), reason, message, generation, self.now);
    }

    /// Tells what happened, as an event of the object.
    pub(crate) async fn event(&self, warning: bool, reason: &str, action: &str, note: &str) {
        self.context.event(&self.object.object_ref(&()), warning, reason, action, note).await;
    }

    /// Writes what differs in the status.
    pub(crate) async fn write(&mut self) -> Result<(), Error> {
        self.write_with(None).await
    }

    /// Whether work of this kind is another try after one that came to nothing: what was said of that stays until this
    /// one ends otherwise.
    pub(crate) fn is_retried(&self, kind: JobKind) -> bool {
        self.last().is_some_and(|last| is_retried(&last, kind))
    }

    /// Whether such a try runs, and has nothing to tell yet.
    fn retries(&self) -> bool {
        self.busy().is_some() && self.last().is_some_and(|last| is_retry(&last))
    }

    /// How soon work is looked at that was just begun. The end of a retry may not bring the next reconcile: where it ends
    /// as the last one did, it writes nothing.
    pub(crate) fn job_check(&self) -> Duration {
        if self.is_retrying { self.context.settings.retry_interval.clamp(AT_ONCE, JOB_CHECK) } else { JOB_CHECK }
    }

    /// Whether the object says this already: what is said again is no event.
    fn has_said(&self, reason: &str, message: &str) -> bool {
        let kind = if self.deleting() { conditions::RELEASED } else { conditions::READY };
        let message = bounded(message.to_owned());
        self.status.condition(kind).is_some_and(|known| {
            known.status == ConditionStatus::False && known.reason == reason && known.message == message
        })
    }

    /// Whose failures an object shares whose work of this kind failed: those of the same account and namespace that ask
    /// for the same, about which the same policies decide.
    pub(crate) fn turn_of(&self, kind: JobKind, asked: fmt::Arguments<'_>) -> Turn {
        let (context, namespace) = (self.context, self.object.namespace().unwrap_or_default());
        let (owner, labels) = (&context.settings.owner, context.labels_of(self.object));
        let policies = self.policies_in_use();
        let asked = format!("{owner} {namespace} {} {asked} {labels:?} {policies:?}", kind.as_str());
        let last = self.last().filter(|last| last.kind == kind.as_str());
        context.common_failures.turn(asked, last.as_ref(), context.settings.retry_interval, Instant::now())
    }

    /// Waits for another object's try, and writes nothing.
    pub(crate) fn wait_for_others(&self, wait: Duration) -> Action {
        let wait = jittered(wait, rand::random());
        if let Some(last) = self.last() {
            self.context.jobs.wait(&self.uid, last, later(self.now, wait));
        }
        Action::requeue(wait)
    }

    /// Writes what differs in the status, and that a job is about to begin.
    pub(crate) async fn write_beginning(&mut self, kind: JobKind) -> Result<(), Error> {
        let operation = self.context.jobs.beginning(&self.uid, kind, self.last().as_ref());
        self.is_retrying = is_retry(&operation);
        self.write_with(Some(&operation).filter(|_| !self.is_retrying)).await?;
        self.beginning = operation;
        Ok(())
    }

    async fn write_with(&mut self, beginning: Option<&OperationStatus>) -> Result<(), Error> {
        if self.owners.may_be_cloned(self.object.meta(), self.now) {
            return Ok(());
        }
        let answered = write_with_operation(&self.api, self.object, &self.written, &self.status, beginning).await?;
        self.answered = answered.or(self.answered.take());
        self.written = self.status.clone();
        Ok(())
    }

    /// Makes the moves that are the same for every kind; the others are given back.
    pub(crate) async fn make(&mut self, next: Next) -> Result<ControlFlow<Action, KindStep>, Error> {
        tracing::debug!(name = self.object.name_any(), ?next, "decided");
        let action = match next {
            Next::Nothing => {
                self.context.jobs.forget(&self.uid);
                Action::await_change()
            }
            Next::Pause(_) => {
                self.context.jobs.withdraw(&self.uid);
                self.write().await?;
                Action::await_change()
            }
            Next::Wait { .. } if self.is_retrying => {
                self.write().await?;
                Action::requeue(self.job_check())
            }
            Next::Wait { phase, reason, message, after } => {
                self.say(phase, &reason, &message);
                self.write().await?;
                Action::requeue(after.unwrap_or(JOB_CHECK))
            }
            Next::LookAgain { after } => {
                self.write().await?;
                Action::requeue(after)
            }
            Next::CallOff => {
                let by = self.requested_by("the object is being deleted");
                if let Err(error) = self.context.jobs.cancel(&self.uid, &by).await {
                    tracing::warn!(name = self.object.name_any(), %error, "cannot journal the cancellation");
                    return Ok(ControlFlow::Break(Action::requeue(JOB_CHECK)));
                }
                self.say(K::LEAVING, "CallingOff", K::CALLING_OFF);
                self.write().await?;
                Action::requeue(JOB_CHECK)
            }
            Next::RemoveFinalizer => self.remove_finalizer().await?,
            Next::Mark => return Ok(ControlFlow::Continue(KindStep::Mark)),
            Next::Start(kind) => return Ok(ControlFlow::Continue(KindStep::Start(kind))),
            Next::Abandon => return Ok(ControlFlow::Continue(KindStep::Abandon)),
            Next::Provisioned { trouble } => return Ok(ControlFlow::Continue(KindStep::Provisioned { trouble })),
        };
        Ok(ControlFlow::Break(action))
    }

    /// Whether the object has changed since it was read, in what work on it depends on; what to do then.
    pub(crate) async fn overtaken<S: PartialEq>(&self, seen: impl Fn(&K) -> S) -> Result<Option<Action>, Error> {
        overtaken(&self.api, self.object, seen).await
    }

    /// Notes the project in which work on the object begins, before anything is called.
    pub(crate) fn begin_in_project(&mut self) {
        if self.status.project_id.is_none() {
            self.status.project_id.clone_from(&self.context.settings.project);
        }
    }

    /// Says why there are no credentials for the object. One that is deleted, and for which nothing was begun, goes.
    pub(crate) async fn without_credentials(&mut self, unusable: &Unusable) -> Result<Action, Error>
    where
        K: OfAccount,
    {
        let next = if self.deleting() && self.marked() && self.has_been_released() {
            // The Secret went before the finalizer could be taken away.
            Next::RemoveFinalizer
        } else if self.owners.paused.is_some() {
            Next::Pause(String::new())
        } else if !self.deleting() || self.object.is_begun() {
            let (phase, after) =
                (if self.deleting() { K::LEAVING } else { Phase::Failed }, self.context.settings.retry_interval);
            Next::wait(phase, unusable.reason, &unusable.message, Some(after))
        } else if self.marked() {
            Next::RemoveFinalizer
        } else {
            Next::Nothing
        };
        match self.make(next).await? {
            ControlFlow::Break(action) => Ok(action),
            ControlFlow::Continue(_) => Ok(Action::requeue(JOB_CHECK)),
        }
    }

    /// Notes that what MachineRemediations asked was judged, and the verdict carried out.
    pub(crate) fn judged(&mut self, verdict: Recovery, message: &str) {
        if let Some(known) = &mut self.status.remediation {
            known.judged = known.requests;
            known.rebooted |= verdict == Recovery::Rebooted;
            known.judged_at = Some(time(self.now));
            known.verdict = Some(verdict.as_str().to_owned());
            known.message = Some(bounded(message.to_owned()));
        }
    }

    /// Gives the host or server up: the Machine is replaced, and with its deletion it is released.
    pub(crate) async fn give_up(&mut self, message: &str) {
        let machine = self.owners.machine.as_deref().unwrap_or_default();
        let message = format!(
            "{message}; the host or server is released when the Machine {machine} is deleted. The Machine's owner \
             replaces it; delete a Machine without an owner yourself"
        );
        self.judged(Recovery::GivenUp, &message);
        self.status.ready = false;
        self.status.failure_reason = Some(REPLACEMENT_DUE.to_owned());
        self.status.failure_message = Some(bounded(message.clone()));
        self.say(Phase::Failed, REPLACEMENT_DUE, &message);
        self.event(true, REPLACEMENT_DUE, "Recover", &message).await;
    }

    /// Why the host or server was given up, where it was.
    pub(crate) fn given_up(&self) -> Option<&str> {
        self.status.failure_message.as_deref().filter(|_| self.status.is_given_up())
    }

    /// Whether the last operation was a recovery.
    pub(crate) fn has_recovered(&self) -> bool {
        self.last().is_some_and(|last| last.kind == JobKind::Recover.as_str())
    }

    /// Has the Machine replaced whose host or server was given up. Asked for at every look, until it is deleted.
    pub(crate) async fn have_replaced(&self) -> Result<(), Error> {
        let Some(why) = self.given_up().filter(|_| self.owners.paused.is_none() && !self.deleting()) else {
            return Ok(());
        };
        let (Some(cluster_api), Some(name)) = (&self.context.cluster_api, &self.owners.machine) else { return Ok(()) };
        let namespace = self.object.namespace().unwrap_or_default();
        let api: Api<ClusterApiMachine> =
            Api::namespaced_with(self.context.client.clone(), &namespace, &cluster_api.machine);
        let machine = api.get_opt(name).await.map_err(Error::kubernetes("reading the Machine"))?;
        let Some(machine) = machine else { return Ok(()) };
        let Some(status) = replacement_due(&machine, &cluster_api.version, why, &time(self.now)) else { return Ok(()) };
        // Conditions are written as a whole: under the version that was read, so that nobody's are lost.
        let version = machine.resource_version();
        let patch = json!({"metadata": {"uid": machine.uid(), "resourceVersion": version}, "status": status});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(drop)
            .map_err(Error::kubernetes("telling the Machine that it is to be replaced"))
    }

    /// Starts a job. What it is for has been written before, by `write_beginning`.
    pub(crate) fn launch<W, F>(&self, kind: JobKind, work: W)
    where
        W: FnOnce(Control, u32) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let name = self.object.name_any();
        let mirror = mirror_of(self.api.clone(), name.clone(), self.uid.clone());
        let operation = self.beginning.clone();
        let asked = Arc::new(StillWanted {
            context: Arc::clone(self.context),
            api: self.api.clone(),
            object: self.object.clone(),
            owners: Some(self.owners.clone()),
        });
        let jobs = &self.context.jobs;
        jobs.start(&self.uid, kind, operation, Some(&self.written), mirror, asked, move |control, attempt| {
            panic_for_tests("job", &name);
            work(control, attempt)
        });
    }

    /// Says that the machine is there. `true` when that was known, and written, before.
    pub(crate) async fn provisioned(&mut self, trouble: Option<&(&'static str, String)>) -> Result<bool, Error> {
        say_provisioned(&mut self.status, trouble, self.object.meta().generation, self.now);
        let known = self.status == self.written;
        self.write().await?;
        Ok(known)
    }

    /// A job came to nothing, whatever it was.
    pub(crate) async fn came_to_nothing(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        // A machine that is there stays what it is while something about it fails.
        let phase = match (self.deleting(), &self.status.server_id) {
            (true, _) => K::LEAVING,
            (false, Some(_)) => self.status.phase.unwrap_or_default(),
            (false, None) => Phase::Pending,
        };
        match outcome {
            Outcome::Waiting { reason, message, .. } => {
                let is_news = !self.has_said(reason, message);
                self.say(phase, reason, message);
                if let Some(warning) = outcome.wait_event().filter(|_| is_news) {
                    self.event(warning, reason, "Reconcile", message).await;
                }
            }
            Outcome::Failed { reason, message } => {
                let is_news = !self.has_said(reason, message);
                self.say(phase, reason, message);
                if is_news {
                    self.event(true, reason, "Reconcile", message).await;
                }
            }
            Outcome::Refused { reason, message } => {
                self.status.ready = false;
                self.status.failure_reason = Some((*reason).to_owned());
                self.status.failure_message = Some(message.clone());
                self.say(Phase::Failed, reason, message);
                self.event(true, reason, "Reconcile", message).await;
            }
            Outcome::CalledOff { message } => {
                self.say(K::LEAVING, "CalledOff", message);
                self.event(false, "CalledOff", "Reconcile", message).await;
            }
            // Nothing new is begun: this process is about to end, or another look decides anew.
            Outcome::LeftOpen | Outcome::NotBegun => {
                self.context.jobs.done(&self.uid);
                let again = matches!(outcome, Outcome::NotBegun);
                return Ok(Action::requeue(if again { AT_ONCE } else { JOB_CHECK }));
            }
            // Of another kind of machine.
            _ => {}
        }
        self.acted_upon().await
    }

    /// The end of a job was acted upon: that is written, and the job forgotten.
    pub(crate) async fn acted_upon(&mut self) -> Result<Action, Error> {
        self.write().await?;
        self.context.jobs.done(&self.uid);
        Ok(Action::requeue(AT_ONCE))
    }

    /// Says that a machine's release, or its recovery, is to be asked for again, where it `waits`; and which policies
    /// failed.
    pub(crate) async fn waits_for_release(
        &mut self,
        released: &Released,
        waits: bool,
    ) -> Result<Option<Action>, Error> {
        let (phase, action) = match self.deleting() {
            true => (K::LEAVING, "Release"),
            false => (Phase::Recovering, "Recover"),
        };
        let message = released.words();
        let reason = reason_to_wait(released, !self.deleting()).unwrap_or("ReleaseWaiting");
        let is_news = !waits || !self.has_said(reason, &message);
        if is_news && !released.policy_failures.is_empty() {
            self.event(true, "PolicyFailed", action, &message).await;
        }
        if !waits {
            return Ok(None);
        }
        self.say(phase, reason, &message);
        if is_news && released.policy_failures.is_empty() {
            self.event(needs_people(released), reason, action, &message).await;
        }
        self.acted_upon().await.map(Some)
    }

    /// Whether it was said already what became of a deleted object's machine.
    pub(crate) fn has_been_released(&self) -> bool {
        let known = self.status.condition(conditions::RELEASED);
        known.is_some_and(|known| known.status == ConditionStatus::True)
    }

    /// Says what became of a deleted object's machine, and lets the object go. It is said once, whatever comes next: a
    /// finalizer that cannot be taken away yet is no second release.
    pub(crate) async fn finish_release(&mut self, warning: bool, reason: &str, message: &str) -> Result<Action, Error> {
        if !self.has_been_released() {
            self.event(warning, reason, "Release", message).await;
            let (generation, status) = (self.object.meta().generation, ConditionStatus::True);
            let kind = conditions::RELEASED;
            set_condition(&mut self.status.conditions, kind, status, reason, message, generation, self.now);
            self.write().await?;
        }
        self.remove_finalizer().await
    }

    /// Whether the machine of the object is to be left alone when the object is deleted.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.object.annotations().contains_key(annotations::ABANDON)
    }

    /// Leaves the machine of a deleted object alone, and lets the object go. The journal knows before that is told.
    pub(crate) async fn abandon(&mut self, target: &AbandonTarget, what: &str) -> Result<Action, Error> {
        let abandonment = abandonment_of(self.object);
        if let Err(error) = self.context.lifecycle.abandon_machine(target, &abandonment).await {
            self.say(K::LEAVING, "AbandonWaiting", &error.to_string());
            self.write().await?;
            return Ok(Action::requeue(self.context.settings.retry_interval));
        }
        self.finish_release(
            true,
            "Abandoned",
            &format!("Windlass stops managing {what} and leaves it running: {}", abandonment.words()),
        )
        .await
    }

    /// Takes the finalizer away. Our own write of the status has given the object another version: that one is named
    /// where nobody else has changed it meanwhile.
    pub(crate) async fn remove_finalizer(&mut self) -> Result<Action, Error> {
        let ours = self.answered.as_ref().filter(|answered| is_as_seen(answered.meta(), self.object.meta()));
        let now = ours.unwrap_or(self.object);
        if !let_go(self.context, &self.api, now).await? {
            return Ok(Action::requeue(FINALIZER_AGAIN));
        }
        self.context.jobs.forget(&self.uid);
        self.context.settled.forget(&self.uid);
        Ok(Action::await_change())
    }
}

/// Whether nothing of an object has changed but its status.
fn is_as_seen(now: &ObjectMeta, seen: &ObjectMeta) -> bool {
    let but_version = |meta: &ObjectMeta| ObjectMeta { resource_version: None, managed_fields: None, ..meta.clone() };
    but_version(now) == but_version(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_change_beside_a_status_is_seen() {
        let seen = ObjectMeta { resource_version: Some("1".into()), generation: Some(1), ..ObjectMeta::default() };
        let written = ObjectMeta { resource_version: Some("2".into()), ..seen.clone() };
        assert!(is_as_seen(&written, &seen));
        assert!(!is_as_seen(&ObjectMeta { generation: Some(2), ..written.clone() }, &seen), "the specification");
        let kept = Some([("windlass.dev/release".to_owned(), "keep".to_owned())].into());
        assert!(!is_as_seen(&ObjectMeta { annotations: kept, ..written.clone() }, &seen), "an annotation");
        assert!(!is_as_seen(&ObjectMeta { finalizers: Some(vec!["theirs".into()]), ..written }, &seen), "a finalizer");
    }

    #[test]
    fn a_wait_ends_when_another_policy_decides() {
        let last = OperationStatus { not_before: Some("2026-01-01T00:01:00Z".into()), ..OperationStatus::default() };
        let policies = |digest: &str| {
            vec![PolicyInUse {
                slot: "release".into(),
                name: "ours".into(),
                version: "1.0.0".into(),
                digest: digest.into(),
                settings_digest: "s".into(),
            }]
        };
        let waits = |now: &[PolicyInUse]| under_policies(last.clone(), &policies("a"), now).not_before.is_some();
        assert!(waits(&policies("a")));
        assert!(!waits(&policies("b")));
        assert!(!waits(&[]));
    }
}
