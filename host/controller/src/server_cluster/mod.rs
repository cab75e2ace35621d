//! `ServerCluster`: what is seen, what is done.

pub(crate) mod clusters;
mod decide;
mod ended;
mod hooks;
mod restore;
mod specification;
pub(crate) mod store;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use windlass_cluster::{ClusterName, Node, NodeState, OperationKind, OperationState, ScaleRequest, StoredCluster};
use windlass_policy::slots::types::FailureClass;

use crate::Error;
use crate::account_of::{OfAccount, context_of, let_go};
use crate::accounts::Unusable;
use crate::action::Action;
use crate::context::Context;
use crate::jobs::{JobView, Mirror};
use crate::kinds::{
    AttemptStatus, ConditionStatus, FINALIZER, ServerCluster, ServerClusterSpec, ServerClusterStatus, annotations,
    conditions,
};
use crate::owners::pausing_annotation;
use crate::requested::retry;
use crate::status::{bounded, set_condition};
use crate::turn::{StillWanted, abandonment_of, current, shadows_of};
use crate::writes::{mark, overtaken, remove_finalizer, write_status};
use decide::{MAX_INTERRUPTIONS, Next, Observed, Past, RecordedCluster, Work, decide, is_tried};
pub(crate) use hooks::HookSettings;
use restore::Found;
use work::Task;

/// While an operation runs, its writes bring reconciles; its end does not, so it is looked for.
const WHILE_BUSY: Duration = Duration::from_secs(1);
/// Reasons in a condition's message.
const TOLD_REASONS: usize = 3;

/// One reconcile of one object.
struct Cluster<'a> {
    context: &'a Arc<Context>,
    api: Api<ServerCluster>,
    object: &'a ServerCluster,
    namespace: String,
    uid: String,
    job: JobView,
    stored: Result<Option<StoredCluster>, String>,
    old: ServerClusterStatus,
    status: ServerClusterStatus,
    now: Timestamp,
}

/// Reconciles an object: looks, decides, does one thing.
pub(crate) async fn reconcile(object: Arc<ServerCluster>, context: Arc<Context>) -> Result<Action, Error> {
    let (object, job) = current(object, &context).await?;
    let context = match context_of(&context, object.as_ref()).await? {
        Ok(context) => context,
        Err(unusable) => return without_credentials(&object, &context, &unusable).await,
    };
    let uid = object.uid().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    if context.settled.is(&uid, &version) && matches!(job, JobView::None) {
        look(&object, &context).await;
        return Ok(Action::requeue(context.settings.listing_interval));
    }
    context.settled.forget(&uid);
    if object.meta().deletion_timestamp.is_some() {
        context.audits.forget(&uid);
        context.settled.forget(&format!("{uid}/audit"));
    }
    let namespace = object.namespace().unwrap_or_default();
    let old = object.status.clone().unwrap_or_default();
    let mut cluster = Cluster {
        api: Api::namespaced(context.client.clone(), &namespace),
        stored: store::stored(&object, true).map_err(|error| error.to_string()),
        status: old.clone(),
        old,
        uid,
        job,
        namespace,
        context: &context,
        object: &object,
        now: Timestamp::now(),
    };
    cluster.perform().await
}

/// Says why there are no credentials for an object. One that is deleted, and for which nothing was begun, goes.
async fn without_credentials(object: &ServerCluster, context: &Context, unusable: &Unusable) -> Result<Action, Error> {
    let api: Api<ServerCluster> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    if object.meta().deletion_timestamp.is_some() && !object.is_begun() {
        remove_finalizer(&api, object).await?;
        return Ok(Action::await_change());
    }
    let old = object.status.clone().unwrap_or_default();
    let (mut status, generation, now) = (old.clone(), object.meta().generation, Timestamp::now());
    let Unusable { reason, message } = unusable;
    for kind in [conditions::READY, conditions::PROGRESSING] {
        set_condition(&mut status.conditions, kind, ConditionStatus::False, reason, message, generation, now);
    }
    write_status(&api, object, &old, &status).await?;
    Ok(Action::requeue(context.settings.retry_interval))
}

/// Looks whether the servers of a settled cluster are still there. What is news is written, and brings a reconcile.
async fn look(object: &ServerCluster, context: &Arc<Context>) {
    let is_recorded = object.status.as_ref().is_some_and(|status| status.state.is_some());
    let Some(name) = object.name_any().parse::<ClusterName>().ok().filter(|_| is_recorded) else { return };
    let part = context.server_clusters.of(&object.namespace().unwrap_or_default());
    if let Err(error) = part.clusters.refresh(&name).await {
        tracing::debug!(cluster = %name, %error, "cannot read the servers of the cluster");
    }
    audit(object, context, &name).await;
}

/// Asks shadows what would become of the servers if the object were deleted: when the object or the shadows have
/// changed, and again and again.
async fn audit(object: &ServerCluster, context: &Context, name: &ClusterName) {
    let (uid, namespace) = (object.uid().unwrap_or_default(), object.namespace().unwrap_or_default());
    let asked = format!("{uid}/audit");
    let Some(shadows) = shadows_of(context, Some(&namespace)) else {
        context.audits.forget(&uid);
        return context.settled.forget(&asked);
    };
    let mark = format!("{} {shadows}", object.resource_version().unwrap_or_default());
    if context.settled.is(&asked, &mark) {
        return;
    }
    let part = context.server_clusters.of(&namespace);
    part.clusters.set_labels(name, context.labels_of(object));
    match part.clusters.try_release(name).await {
        Ok(tried) => {
            let named = tried.into_iter().map(|(node, tried)| (format!("{namespace}/{name}/{node}"), tried));
            context.audits.learn(&uid, true, named.collect());
            context.settled.set(&asked, mark);
        }
        Err(error) => tracing::warn!(cluster = %name, %error, "cannot ask shadow policies about its servers"),
    }
}

/// Whether a node serves, or is to: it is not on its way out for good.
fn serves(node: &Node) -> bool {
    !node.decommissioned && node.state != NodeState::Left
}

/// What a scaling is to do so that the nodes are those of the specification.
fn request(spec: &ServerClusterSpec, nodes: &[Node]) -> ScaleRequest {
    let counts = spec.groups.iter().filter_map(|group| Some((group.name.parse().ok()?, group.count))).collect();
    ScaleRequest { counts, remove: to_remove(spec, nodes), ..ScaleRequest::default() }
}

/// The named nodes that are there. One that is gone has left as it was to.
fn to_remove(spec: &ServerClusterSpec, nodes: &[Node]) -> BTreeSet<String> {
    let named: BTreeSet<&String> = spec.remove.iter().flatten().collect();
    nodes.iter().filter(|node| named.contains(&node.name)).map(|node| node.name.clone()).collect()
}

fn differs(spec: &ServerClusterSpec, nodes: &[Node]) -> bool {
    let count = |name: &str| nodes.iter().filter(|node| node.group.as_str() == name && serves(node)).count();
    spec.groups.iter().any(|group| count(&group.name) != group.count as usize) || !to_remove(spec, nodes).is_empty()
}

fn past(status: &ServerClusterStatus) -> Past {
    let interrupted = serde_json::to_value(FailureClass::Interrupted).unwrap_or_default();
    let was_interrupted = |cause: &Option<String>| cause.as_deref() == interrupted.as_str() && cause.is_some();
    // What was removed before a creation was begun anew says nothing about that.
    let operations = || status.history.iter().filter(|past| past.kind != OperationKind::Terminate.as_ref());
    Past {
        last: operations().next().map_or(0, |past| past.number),
        interruptions: operations().take_while(|past| was_interrupted(&past.cause)).count(),
    }
}

impl Cluster<'_> {
    fn deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    /// Refuses what the operator does not let the namespace use.
    fn check_limits(&self) -> Result<(), String> {
        let (settings, spec) = (&self.context.settings, &self.object.spec);
        settings.check_project(spec.project.as_deref())?;
        spec.groups.iter().try_for_each(|group| settings.limits.check(&self.namespace, &spec.zone, &group.types))
    }

    /// Admits the servers that are about to be made for the object.
    fn admission(&self, work: Work) -> Vec<Vec<String>> {
        let nodes = self.stored.as_ref().ok().and_then(Option::as_ref).map(|stored| stored.nodes.as_slice());
        let nodes = nodes.filter(|_| work == Work::Scale).unwrap_or_default();
        let serving = |group: &str| nodes.iter().filter(|node| node.group.as_str() == group && serves(node)).count();
        let groups =
            self.object.spec.groups.iter().filter(|_| matches!(work, Work::Create | Work::CreateAnew | Work::Scale));
        groups
            .flat_map(|group| {
                let more = (group.count as usize).saturating_sub(serving(&group.name));
                std::iter::repeat_n(group.types.clone(), more)
            })
            .collect()
    }

    fn is_paused(&self) -> bool {
        pausing_annotation(self.object).is_some()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.object.annotations().get(key).map(String::as_str)
    }

    async fn perform(&mut self) -> Result<Action, Error> {
        if let JobView::Ended(outcome) = self.job.clone() {
            return self.act_upon(&outcome).await;
        }
        let last = self.context.jobs.last(&self.uid, None);
        let stored = self.stored.as_ref().ok().and_then(Option::as_ref);
        let wanted = specification::specification(&self.object.name_any(), &self.object.spec)
            .and_then(|wanted| wanted.check().map_err(|error| format!("spec.{error}")))
            .and_then(|()| self.context.settings.hooks.check(&self.object.spec))
            .and_then(|()| self.check_limits());
        let attempt = self.old.attempt.clone();
        let retry = retry(self.object.annotations());
        if self.is_paused() {
            self.context.jobs.withdraw(&self.uid);
        }
        let seen = Observed {
            deleting: self.deleting(),
            finalizer: self.object.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            paused: self.is_paused(),
            abandoned: self.object.annotations().contains_key(annotations::ABANDON),
            unreadable: self.stored.as_ref().err().map(String::as_str),
            misconfigured: wanted.as_ref().err().map(String::as_str),
            busy: match self.job {
                JobView::Running(kind) => Some(kind),
                JobView::None | JobView::Ended(_) => None,
            },
            recorded: stored.map(|stored| RecordedCluster {
                state: stored.cluster.state,
                open: stored.open.is_some(),
                established: self.old.established,
                differs: differs(&self.object.spec, &stored.nodes),
            }),
            past: past(&self.old),
            generation: self.object.meta().generation.unwrap_or_default(),
            retry: retry.as_deref(),
            attempt: attempt.as_ref(),
            last: last.as_ref(),
            now: self.now,
        };
        let (next, tried) = (decide(&seen), is_tried(&seen));
        tracing::debug!(name = self.object.name_any(), ?next, "decided");
        self.say_pause(next == Next::Pause);
        match next {
            Next::Nothing => {
                self.context.jobs.forget(&self.uid);
                Ok(Action::await_change())
            }
            Next::Pause => {
                self.write().await?;
                Ok(Action::await_change())
            }
            Next::Mark => mark(&self.api, self.object, json!({})).await,
            Next::Follow => {
                self.say_progress();
                self.write().await?;
                Ok(Action::requeue(WHILE_BUSY))
            }
            Next::Wait(wait) => {
                self.say_state(tried);
                self.write().await?;
                Ok(Action::requeue(wait))
            }
            Next::Misconfigured(problem) => {
                self.say(false, "InvalidSpecification", &problem);
                self.write().await?;
                Ok(Action::await_change())
            }
            Next::Start(Work::Create) => match self.found().await? {
                Some(instead) => Ok(instead),
                None => self.start(Work::Create).await,
            },
            Next::Start(work) => self.start(work).await,
            Next::Settled => {
                self.say_state(tried);
                let settled = self.status == self.old;
                self.write().await?;
                if settled {
                    let version = self.object.resource_version().unwrap_or_default();
                    self.context.settled.set(&self.uid, version);
                }
                Ok(Action::requeue(self.context.settings.listing_interval))
            }
            Next::RemoveFinalizer => match restore::find(self.context, self.object).await? {
                Found::Status(status) => self.restore(*status).await,
                Found::Unknown(why) => {
                    let words = format!(
                        "whether servers of the cluster exist cannot be seen: {why}. To delete the object anyway, \
                         set the annotation {}",
                        annotations::ABANDON
                    );
                    self.wait_because("ServersUnreadable", &words).await
                }
                Found::Nothing | Found::Servers(_) => self.let_go().await,
            },
            Next::Abandon => self.abandon().await,
        }
    }

    /// Leaves the nodes alone, says which they are, and lets the object go.
    async fn abandon(&mut self) -> Result<Action, Error> {
        let Ok(name) = self.object.name_any().parse::<ClusterName>() else { return self.let_go().await };
        let abandonment = abandonment_of(self.object);
        let part = self.context.server_clusters.of(&self.namespace);
        match part.clusters.abandon(&name, &abandonment).await {
            Ok(abandoned) => {
                let there = abandoned.nodes.iter().filter(|node| node.exists());
                let nodes: Vec<String> = there
                    .map(|node| format!("{} ({})", node.name, node.server.as_deref().unwrap_or("no id known")))
                    .collect();
                let words = format!(
                    "Windlass stops managing {} servers, which keep running: {}; {}",
                    nodes.len(),
                    nodes.join(", "),
                    abandonment.words()
                );
                self.context.event(&self.object.object_ref(&()), true, "Abandoned", "Release", &words).await;
                self.let_go().await
            }
            Err(windlass_cluster::Error::Unknown { .. }) => self.let_go().await,
            Err(error) => self.wait_because("AbandonWaiting", &error.to_string()).await,
        }
    }

    /// Takes the finalizer away.
    async fn let_go(&self) -> Result<Action, Error> {
        if !let_go(self.context, &self.api, self.object).await? {
            return Ok(Action::requeue(Duration::from_millis(500)));
        }
        self.context.jobs.forget(&self.uid);
        self.context.settled.forget(&self.uid);
        if let Ok(name) = self.object.name_any().parse() {
            self.context.server_clusters.of(&self.namespace).clusters.set_labels(&name, Vec::new());
        }
        Ok(Action::await_change())
    }

    fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let generation = self.object.meta().generation;
        set_condition(&mut self.status.conditions, kind, status, reason, message, generation, self.now);
    }

    fn say_pause(&mut self, paused: bool) {
        if paused {
            let annotation = pausing_annotation(self.object).unwrap_or_default();
            let words = format!("the object has the annotation {annotation}, so no operation begins");
            self.set(conditions::PAUSED, ConditionStatus::True, "Paused", &words);
        } else {
            self.set(conditions::PAUSED, ConditionStatus::False, "NotPaused", "");
        }
    }

    /// Sets `Ready`; nothing is under way.
    fn say(&mut self, ready: bool, reason: &str, message: &str) {
        self.set(conditions::READY, ready.into(), reason, &bounded(message.to_owned()));
        self.set(conditions::PROGRESSING, ConditionStatus::False, "Idle", "");
    }

    /// Says that an operation is under way, and at which stage. How far it is stands in `status.progress`.
    fn say_progress(&mut self) {
        let open = self.old.operation.as_ref().filter(|operation| operation.state == OperationState::Open.as_ref());
        let (reason, message) = match open {
            Some(operation) => {
                let reason = match operation.kind.as_str() {
                    "create" => "Creating",
                    "scale" => "Scaling",
                    _ => "Terminating",
                };
                (reason, format!("operation {} is in progress (stage {})", operation.number, operation.stage))
            }
            None => ("Beginning", "an operation is about to begin, or has just ended".to_owned()),
        };
        self.set(conditions::READY, ConditionStatus::False, reason, &message);
        self.set(conditions::PROGRESSING, ConditionStatus::True, reason, &message);
    }

    /// Says where the cluster stands when nothing is under way.
    fn say_state(&mut self, tried: bool) {
        let Ok(Some(stored)) = &self.stored else {
            let words = self.old.attempt.as_ref().and_then(|attempt| attempt.refused.clone()).unwrap_or_default();
            return self.say(false, if words.is_empty() { "NotBegun" } else { "Refused" }, &words);
        };
        let mut words: Vec<String> = stored.cluster.reasons.iter().take(TOLD_REASONS).cloned().collect();
        let differs = differs(&self.object.spec, &stored.nodes);
        let active = stored.cluster.state == windlass_cluster::ClusterState::Active;
        if let Some(refused) = self.old.attempt.as_ref().and_then(|attempt| attempt.refused.as_ref()) {
            words.insert(0, refused.clone());
        }
        if past(&self.old).interruptions >= MAX_INTERRUPTIONS {
            words.push(format!("it was interrupted {MAX_INTERRUPTIONS} times in a row"));
        }
        if !stored.cluster.left.is_empty() {
            words.push(format!("LEFT: {}", stored.cluster.left.join("; ")));
        }
        if tried && (differs || !active) {
            words.push(format!(
                "it is not retried automatically: change the specification, or set the annotation {} to a new value",
                annotations::RETRY
            ));
        }
        let words = words.join("; ");
        match (active, differs) {
            (true, false) => self.say(true, "Active", ""),
            (true, true) => self.say(false, "Differs", &format!("its nodes differ from the specification; {words}")),
            (false, _) => self.say(false, "Error", &words),
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        write_status(&self.api, self.object, &self.old, &self.status).await?;
        self.old = self.status.clone();
        Ok(())
    }

    /// What is to be done instead of a creation, where the cluster's servers are there already.
    async fn found(&mut self) -> Result<Option<Action>, Error> {
        match restore::find(self.context, self.object).await? {
            Found::Nothing => Ok(None),
            Found::Servers(why) => self.wait_because("ServersFound", &why).await.map(Some),
            Found::Unknown(why) => {
                let words = format!("no server is created until it is seen whether some exist already: {why}");
                self.wait_because("ServersUnreadable", &words).await.map(Some)
            }
            Found::Status(status) => self.restore(*status).await.map(Some),
        }
    }

    /// Says why nothing is done, and looks again later.
    async fn wait_because(&mut self, reason: &str, why: &str) -> Result<Action, Error> {
        self.say(false, reason, why);
        self.write().await?;
        Ok(Action::requeue(self.context.settings.retry_interval))
    }

    /// Gives the object the record of the servers that are its.
    async fn restore(&mut self, status: ServerClusterStatus) -> Result<Action, Error> {
        let words = format!("took over {} existing servers", status.nodes.len());
        let conditions = std::mem::take(&mut self.status.conditions);
        self.status = ServerClusterStatus { conditions, project_id: self.context.settings.project.clone(), ..status };
        self.write().await?;
        self.context.event(&self.object.object_ref(&()), false, "ServersTakenOver", "Operate", &words).await;
        Ok(Action::requeue(WHILE_BUSY))
    }

    async fn start(&mut self, work: Work) -> Result<Action, Error> {
        let seen = |object: &ServerCluster| {
            let status = object.status.as_ref();
            (object.spec.clone(), status.and_then(|status| status.record.clone()))
        };
        if let Some(instead) = overtaken(&self.api, self.object, seen).await? {
            return Ok(instead);
        }
        let stored = self.stored.as_ref().ok().and_then(Option::as_ref);
        let task = match work {
            Work::Create | Work::CreateAnew => {
                match specification::specification(&self.object.name_any(), &self.object.spec) {
                    Ok(wanted) => Task::Create { specification: Box::new(wanted), anew: work == Work::CreateAnew },
                    Err(_) => return Ok(Action::requeue(WHILE_BUSY)),
                }
            }
            Work::Scale => {
                let nodes = stored.map(|stored| stored.nodes.as_slice()).unwrap_or_default();
                Task::Scale { request: request(&self.object.spec, nodes) }
            }
            Work::Resume => Task::Resume,
            Work::Terminate => Task::Terminate { force: self.annotation(annotations::FORCE) == Some("true") },
        };
        // A termination goes on where it was, with the Jobs that it began; what else was left open is about to be
        // undone.
        let open = stored.and_then(|stored| stored.open.as_ref());
        let stop_hooks_of = open.filter(|open| open.kind != OperationKind::Terminate).map(|open| open.number);
        if matches!(work, Work::Create | Work::CreateAnew | Work::Scale) {
            let last = self.old.operation.as_ref().map_or(0, |operation| operation.number);
            // What was left of a failed creation is removed by an operation of its own.
            let before = u64::from(work == Work::CreateAnew);
            self.status.attempt = Some(AttemptStatus {
                generation: self.object.meta().generation.unwrap_or_default(),
                retry: retry(self.object.annotations()),
                operation: last + before + 1,
                refused: None,
            });
            self.status.observed_generation = self.object.meta().generation;
        }
        if self.status.project_id.is_none() {
            self.status.project_id.clone_from(&self.context.settings.project);
        }
        // Before the operation's first write: the nodes that it tells of are not there yet, or not there any more.
        let words = "an operation is about to begin";
        self.set(conditions::READY, ConditionStatus::False, "Beginning", words);
        self.set(conditions::PROGRESSING, ConditionStatus::True, "Beginning", words);
        self.write().await?;
        let Ok(name) = self.object.name_any().parse() else { return Ok(Action::await_change()) };
        let (context, about) = (Arc::clone(self.context), self.object.object_ref(&()));
        let part = context.server_clusters.of(&self.namespace);
        let object = self.object.clone();
        part.clusters.set_labels(&name, self.context.labels_of(self.object));
        let (kind, jobs) = (work.job(), &self.context.jobs);
        // The operation writes its own record.
        let silent: Mirror = Arc::new(|_| Box::pin(async { Ok(()) }));
        let beginning = jobs.beginning(&self.uid, kind, None);
        let asked = Arc::new(StillWanted {
            context: Arc::clone(&context),
            api: self.api.clone(),
            object: object.clone(),
            owners: None,
        });
        let wanted = self.admission(work);
        let (namespace, zone) = (self.namespace.clone(), self.object.spec.zone.clone());
        let written = None::<&ServerClusterStatus>;
        jobs.start(&self.uid, kind, beginning, written, silent, asked, move |control, _| async move {
            if let Some(number) = stop_hooks_of
                && let Err(outcome) = part.stop_hooks(&object, number).await
            {
                return outcome;
            }
            let _admitted = match work::admit(&context, &namespace, &zone, &wanted).await {
                Ok(admitted) => admitted,
                Err(outcome) => return outcome,
            };
            work::perform(context, part, name, about, task, control).await
        });
        Ok(Action::requeue(WHILE_BUSY))
    }
}
