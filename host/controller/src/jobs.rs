//! Work on machines that takes longer than a reconcile may: it runs in the background, one job for each object, with
//! bounded parallelism, and mirrors its progress into the object's status. That write is also what brings the object's
//! next reconcile about.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{Control, Event, EventKind, MayBegin, NotNoted, RequestedBy, Round, Supervisor, Tasks};

use crate::crash::EndOnPanic;
use crate::job_kind::JobKind;
use crate::kinds::{OperationStatus, ResourceInUse};
use crate::metric_names;
use crate::outcome::{Outcome, is_asked_again};
use crate::status::{bounded, mirrored, time};

/// Progress is written at most this often.
const MIRROR_INTERVAL: Duration = Duration::from_secs(1);
/// The last write of a job is tried again with growing waits until the API server takes it: about two minutes.
const LAST_WRITE_TRIES: u32 = 8;
/// Resources in the mirror at most.
const MAX_RESOURCES: usize = 32;

/// How an object's job is doing.
#[derive(Clone, Debug)]
pub(crate) enum JobView {
    None,
    Running(JobKind),
    Ended(Arc<Outcome>),
}

struct Job {
    kind: JobKind,
    control: Control,
    /// Whether it was called off, and the journal says so.
    is_cancelled: bool,
    outcome: Option<Arc<Outcome>>,
    /// The status that was written before it began, but for the operation.
    begun_with: Option<Value>,
    /// Cancelled where it is not to begin any more.
    withdrawn: CancellationToken,
}

/// What a job waits for and asks before anything is called: whether its object still wants it. Remembers a no.
#[derive(Debug)]
struct Asked {
    asked: Arc<dyn MayBegin>,
    refused: AtomicBool,
}

#[async_trait]
impl MayBegin for Asked {
    async fn may_begin(&self) -> bool {
        let may = self.asked.may_begin().await;
        self.refused.fetch_or(!may, Ordering::Relaxed);
        may
    }
}

/// Writes the mirror into an object's status.
pub(crate) type Mirror = Arc<dyn Fn(OperationStatus) -> BoxFuture<'static, Result<(), kube::Error>> + Send + Sync>;

/// Makes the mirror of one object. A successor of the same name is not written to.
pub(crate) fn mirror_of<K>(api: Api<K>, name: String, uid: String) -> Mirror
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    Arc::new(move |operation| {
        let (api, name, uid) = (api.clone(), name.clone(), uid.clone());
        Box::pin(async move {
            let patch = json!({"metadata": {"uid": uid}, "status": {"operation": mirrored(&operation)}});
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        })
    })
}

/// A status but for what jobs write into it: by this it is told whether a watch has seen what was written before a job.
fn beside_operation<S: Serialize>(status: &S) -> Option<Value> {
    let mut value = serde_json::to_value(status).ok()?;
    value.as_object_mut()?.remove("operation");
    // Applied conditions are merged by their type, in any order.
    if let Some(conditions) = value["conditions"].as_array_mut() {
        conditions.sort_by(|one, other| one["type"].as_str().cmp(&other["type"].as_str()));
    }
    Some(value)
}

/// The jobs of this process.
pub(crate) struct Jobs {
    jobs: Mutex<HashMap<String, Job>>,
    /// The last state of each object's operation, since a cache may be behind.
    last: Mutex<HashMap<String, OperationStatus>>,
    permits: Arc<Semaphore>,
    /// Of scripts on Macs, which take long and call nobody at Scaleway: they hold nothing else up.
    script_permits: Arc<Semaphore>,
    tasks: Tasks,
    /// Cancelled when one panics.
    panicked: CancellationToken,
}

/// Counts a job as under way until it is dropped.
struct InFlight(JobKind);

impl InFlight {
    fn new(kind: JobKind) -> Self {
        metrics::gauge!(metric_names::JOBS, "kind" => kind.as_str()).increment(1.0);
        Self(kind)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        metrics::gauge!(metric_names::JOBS, "kind" => self.0.as_str()).decrement(1.0);
    }
}

impl Jobs {
    /// `panicked` is cancelled when a job panics.
    pub(crate) fn new(parallel: usize, panicked: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            jobs: Mutex::default(),
            last: Mutex::default(),
            permits: Arc::new(Semaphore::new(parallel)),
            script_permits: Arc::new(Semaphore::new(parallel)),
            tasks: Tasks::default(),
            panicked,
        })
    }

    pub(crate) fn view(&self, uid: &str) -> JobView {
        match self.jobs.lock().get(uid) {
            None => JobView::None,
            Some(Job { outcome: Some(outcome), .. }) => JobView::Ended(Arc::clone(outcome)),
            Some(job) => JobView::Running(job.kind),
        }
    }

    /// The last state of an object's operation: what this process knows, else what the status says.
    pub(crate) fn last(&self, uid: &str, status: Option<&OperationStatus>) -> Option<OperationStatus> {
        self.last.lock().get(uid).or(status).cloned()
    }

    /// How an object's operation stands when a job begins: to be written with what else is written then, but for a
    /// retry. That keeps what the last try ended with until it knows more.
    pub(crate) fn beginning(&self, uid: &str, kind: JobKind, status: Option<&OperationStatus>) -> OperationStatus {
        let now = time(Timestamp::now());
        let last = self.last(uid, status);
        let before = last.as_ref().filter(|last| is_retried(last, kind));
        OperationStatus {
            kind: kind.as_str().to_owned(),
            state: "running".to_owned(),
            attempt: next_attempt(last.as_ref(), kind),
            reason: before.and_then(|before| before.reason.clone()),
            message: before.and_then(|before| before.message.clone()),
            started_at: Some(now.clone()),
            updated_at: Some(now),
            ..OperationStatus::default()
        }
    }

    /// An object's last operation waits until then, although nothing was begun: it would have come to the same.
    pub(crate) fn wait(&self, uid: &str, last: OperationStatus, not_before: String) {
        self.last.lock().insert(uid.to_owned(), OperationStatus { not_before: Some(not_before), ..last });
    }

    /// The outcome has been acted upon.
    pub(crate) fn done(&self, uid: &str) {
        self.jobs.lock().remove(uid);
    }

    /// The object is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.jobs.lock().remove(uid);
        self.last.lock().remove(uid);
    }

    /// Calls an object's job off: what it does is undone. When this returns, the journal says so, and who asked:
    /// whoever leads next undoes it, too.
    pub(crate) async fn cancel(&self, uid: &str, by: &RequestedBy) -> Result<(), NotNoted> {
        let control = match self.jobs.lock().get(uid) {
            Some(job) if !job.is_cancelled => job.control.clone(),
            _ => return Ok(()),
        };
        control.cancel_durably(&by.to_string()).await?;
        if let Some(job) = self.jobs.lock().get_mut(uid) {
            job.is_cancelled = true;
        }
        Ok(())
    }

    /// Has an object's job end without anything done, where it still waits for its turn.
    pub(crate) fn withdraw(&self, uid: &str) {
        if let Some(job) = self.jobs.lock().get(uid) {
            job.withdrawn.cancel();
        }
    }

    /// Stops all jobs between two calls and waits until they have, or for `grace`. What they leave open stands in the
    /// journal.
    pub(crate) async fn leave(&self, grace: Duration) {
        self.permits.close();
        self.script_permits.close();
        self.tasks.leave(grace).await;
    }

    /// Ends all jobs where they stand, with what is done beside them, as the end of the process does. Each of them ends
    /// at its next wait at the latest.
    pub(crate) fn stop(&self) {
        self.tasks.stopped().cancel();
    }

    /// The same, and waits until all jobs have ended.
    pub(crate) async fn stopped(&self) {
        self.tasks.stop().await;
    }

    /// What is done beside the jobs, until they are to [stop](Jobs::stop).
    pub(crate) fn beside<W>(&self, work: W) -> impl Future<Output = ()> + Send + use<W>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (guard, stopped) = (EndOnPanic(self.panicked.clone()), self.tasks.stopped().clone());
        async move {
            let _guard = guard;
            tokio::select! {
                biased;
                () = stopped.cancelled() => {}
                () = work => {}
            }
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let guard = EndOnPanic(self.panicked.clone());
        self.tasks.spawn(async move {
            let _guard = guard;
            work.await;
        });
    }

    /// Lets a supervisor work until the end of the process, or until it is to leave. `on_round` is called after each
    /// round.
    pub(crate) fn supervise(&self, supervisor: Supervisor, on_round: impl FnMut(&Round) + Send + 'static) -> Control {
        let control = self.tasks.control().child();
        let of_supervisor = control.clone();
        self.spawn(async move { supervisor.run(&of_supervisor, on_round).await });
        control
    }

    /// Whether this status is the one that was written before the object's job began, or a later one that differs in
    /// its operation only.
    pub(crate) fn has_begun_with<S: Serialize>(&self, uid: &str, status: &S) -> bool {
        let jobs = self.jobs.lock();
        let begun_with = jobs.get(uid).and_then(|job| job.begun_with.as_ref());
        begun_with.is_some() && beside_operation(status).as_ref() == begun_with
    }

    /// Starts a job, unless the object has one. The operation is as it was written at its `beginning`, together with
    /// this status. `asked` is asked after each wait for a turn: where it says no, nothing is done.
    #[allow(clippy::too_many_arguments, reason = "each is another thing of the one job")]
    pub(crate) fn start<S, W, F>(
        self: &Arc<Self>,
        uid: &str,
        kind: JobKind,
        operation: OperationStatus,
        written: Option<&S>,
        mirror: Mirror,
        asked: Arc<dyn MayBegin>,
        work: W,
    ) where
        S: Serialize,
        W: FnOnce(Control, u32) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (sender, events) = mpsc::unbounded_channel();
        let asked = Arc::new(Asked { asked, refused: AtomicBool::new(false) });
        let control = self.tasks.control().child_for(Some(sender)).asking(Arc::clone(&asked) as Arc<dyn MayBegin>);
        let withdrawn = CancellationToken::new();
        {
            let mut jobs = self.jobs.lock();
            if jobs.contains_key(uid) {
                return;
            }
            let begun_with = written.and_then(beside_operation);
            let (control, withdrawn) = (control.clone(), withdrawn.clone());
            let job = Job { kind, control, is_cancelled: false, outcome: None, begun_with, withdrawn };
            jobs.insert(uid.to_owned(), job);
        }
        self.last.lock().insert(uid.to_owned(), operation.clone());
        let in_flight = InFlight::new(kind);
        let (shared, uid) = (Arc::clone(self), uid.to_owned());
        let job = async move {
            let attempt = operation.attempt;
            let before = is_retry(&operation).then(|| (operation.reason.clone(), operation.message.clone()));
            let progress = Arc::new(Mutex::new(operation));
            let is_followed = Arc::new(AtomicBool::new(false));
            let outcome = {
                let working = async {
                    // Waiting here holds nobody else's reconcile.
                    let permits = match kind {
                        JobKind::SetUp | JobKind::TearDown => &shared.script_permits,
                        _ => &shared.permits,
                    };
                    let permit = tokio::select! {
                        biased;
                        () = withdrawn.cancelled() => return Outcome::NotBegun,
                        permit = Arc::clone(permits).acquire_owned() => permit,
                    };
                    let Ok(_permit) = permit else { return Outcome::LeftOpen };
                    if !asked.may_begin().await {
                        return Outcome::NotBegun;
                    }
                    // On the heap, and only now: thousands of jobs may wait for their turn, each with room for its work.
                    match Box::pin(work(control, attempt)).await {
                        // It waited for another turn, and was told no then.
                        Outcome::CalledOff { .. } if asked.refused.load(Ordering::Relaxed) => Outcome::NotBegun,
                        outcome => outcome,
                    }
                };
                tokio::pin!(working);
                let follow = follow(events, Arc::clone(&progress), Arc::clone(&mirror), Arc::clone(&is_followed));
                tokio::pin!(follow);
                tokio::select! {
                    outcome = &mut working => outcome,
                    () = &mut follow => working.await,
                }
            };
            drop(in_flight);
            let now = Timestamp::now();
            let mut ended = progress.lock().clone();
            outcome.describe(&mut ended, now);
            ended.updated_at = Some(time(now));
            shared.last.lock().insert(uid.clone(), ended.clone());
            if let Some(job) = shared.jobs.lock().get_mut(&uid) {
                job.outcome = Some(Arc::new(outcome));
            }
            // The status says this already, so there is nothing to write.
            let is_known = before.is_some_and(|before| before == (ended.reason.clone(), ended.message.clone()));
            if !is_known || is_followed.load(Ordering::Relaxed) {
                write_last(&mirror, ended).await;
            }
        };
        self.spawn(job);
    }
}

/// Whether work of this kind is a retry of what ended so. A retry writes nothing before it ends otherwise, or makes
/// progress: thousands of objects may fail for hours. Scripts on Macs have a status of their own.
pub(crate) fn is_retried(last: &OperationStatus, kind: JobKind) -> bool {
    !matches!(kind, JobKind::SetUp | JobKind::TearDown)
        && last.kind == kind.as_str()
        && matches!(last.state.as_str(), "waiting" | "failed")
        && last.reason.is_some()
}

/// Whether a retry runs that has nothing to tell yet.
pub(crate) fn is_retry(operation: &OperationStatus) -> bool {
    operation.state == "running" && operation.reason.is_some()
}

/// A try of the same work after a failure counts on, and so does another question to a policy that had the last one
/// asked again. A wait is neither.
fn next_attempt(before: Option<&OperationStatus>, kind: JobKind) -> u32 {
    let Some(before) = before.filter(|before| before.kind == kind.as_str()) else { return 1 };
    let counts = match before.state.as_str() {
        "failed" => true,
        "waiting" => before.reason.as_deref().is_some_and(is_asked_again),
        _ => return 1,
    };
    before.attempt.max(u32::from(!counts)).saturating_add(u32::from(counts))
}

/// Follows an operation's events into the status. Ends with the events.
async fn follow(
    mut events: mpsc::UnboundedReceiver<Event>,
    progress: Arc<Mutex<OperationStatus>>,
    mirror: Mirror,
    is_followed: Arc<AtomicBool>,
) {
    while let Some(event) = events.recv().await {
        note(&mut progress.lock(), &event);
        tokio::time::sleep(MIRROR_INTERVAL).await;
        while let Ok(event) = events.try_recv() {
            note(&mut progress.lock(), &event);
        }
        let mut now = progress.lock().clone();
        now.updated_at = Some(time(Timestamp::now()));
        is_followed.store(true, Ordering::Relaxed);
        write(&mirror, now).await;
    }
}

fn note(operation: &mut OperationStatus, event: &Event) {
    operation.id = Some(event.operation.to_string());
    match &event.what {
        EventKind::StepBegan { step } => operation.step = Some(step.clone()),
        EventKind::StepDone { step, resource } => {
            operation.step = Some(step.clone());
            if let Some(resource) = resource {
                let entry = ResourceInUse {
                    kind: resource.kind.to_string(),
                    id: resource.id.clone(),
                    zone: resource.zone.clone(),
                };
                if !operation.resources.contains(&entry) && operation.resources.len() < MAX_RESOURCES {
                    operation.resources.push(entry);
                }
            }
        }
        EventKind::Waiting { step, failure, reason, .. } => {
            operation.step = Some(step.clone());
            operation.message = Some(bounded(match reason {
                Some(reason) => format!("{failure}; {reason}"),
                None => failure.clone(),
            }));
        }
        EventKind::Undoing { cause, reason, .. } => {
            let words: Vec<&str> = cause.iter().chain(reason).map(String::as_str).collect();
            operation.message = (!words.is_empty()).then(|| bounded(words.join("; ")));
        }
        _ => {}
    }
}

async fn write(mirror: &Mirror, operation: OperationStatus) {
    if let Err(error) = mirror(operation).await
        && !is_gone(&error)
    {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot write the progress of an operation");
    }
}

async fn write_last(mirror: &Mirror, operation: OperationStatus) {
    for attempt in 0..LAST_WRITE_TRIES {
        match mirror(operation.clone()).await {
            Ok(()) => return,
            Err(error) if is_gone(&error) => return,
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot write the result of an operation to the status yet; retrying"
                );
            }
        }
        tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
    }
}

/// The object is gone, or another has its name.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

#[cfg(test)]
mod tests {
    use windlass_lifecycle::{Durability, ImageChoice, Lifecycle, Requester, ServerSpecification, StateDirectory};
    use windlass_policy::{Host, HostOptions};
    use windlass_scaleway::{Client, Settings};
    use windlass_simulator::{FaultKind, FaultRule, Simulator};

    use super::*;

    fn recording() -> (Mirror, Arc<Mutex<Vec<OperationStatus>>>) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&written);
        let mirror: Mirror = Arc::new(move |operation| {
            into.lock().push(operation);
            Box::pin(async { Ok(()) })
        });
        (mirror, written)
    }

    /// Always says this.
    #[derive(Debug)]
    struct Says(bool);

    #[async_trait]
    impl MayBegin for Says {
        async fn may_begin(&self) -> bool {
            self.0
        }
    }

    fn start<W, F>(jobs: &Arc<Jobs>, uid: &str, kind: JobKind, mirror: Mirror, work: W)
    where
        W: FnOnce(Control, u32) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let beginning = jobs.beginning(uid, kind, None);
        jobs.start(uid, kind, beginning, None::<&Value>, mirror, Arc::new(Says(true)), work);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_job_began_with_is_known_whatever_the_order_of_the_conditions() {
        let jobs = Jobs::new(1, CancellationToken::new());
        let status = |phase: &str, kinds: [&str; 2], operation: &str| {
            let conditions: Vec<Value> = kinds.into_iter().map(|kind| json!({"type": kind})).collect();
            json!({"phase": phase, "conditions": conditions, "operation": {"state": operation}})
        };
        let written = status("Releasing", ["Ready", "Released"], "running");
        assert!(!jobs.has_begun_with("uid", &written));
        let operation = jobs.beginning("uid", JobKind::Release, None);
        let (mirror, asked) = (recording().0, Arc::new(Says(true)));
        jobs.start("uid", JobKind::Release, operation, Some(&written), mirror, asked, |_, _| async {
            Outcome::LeftOpen
        });
        assert!(jobs.has_begun_with("uid", &status("Releasing", ["Released", "Ready"], "done")));
        assert!(!jobs.has_begun_with("uid", &status("Adopting", ["Released", "Ready"], "done")));
        assert!(!jobs.has_begun_with("uid", &status("Releasing", ["Released", "Paused"], "done")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_called_off_is_in_the_journal_with_who_asked_when_that_returns() {
        let simulator = Simulator::new(windlass_simulator::Options::default());
        let slow = FaultKind::Delay(Duration::from_secs(600));
        simulator.add_fault(FaultRule::new("POST", "/instance/v1/zones/*/servers/*/action", slow)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let state = StateDirectory::open(folder.path()).unwrap();
        let policies = Host::new(HostOptions::new(state.handle().try_clone().unwrap())).unwrap();
        let settings = Settings::new("5ec7e700-0000-4000-8000-5ec7e75ec7e7".parse().unwrap());
        let client = Client::with_transport(settings, simulator.transport()).unwrap();
        let mut options = windlass_lifecycle::Options::new(client, Arc::new(policies), state);
        options.durability = Durability::Process;
        let lifecycle = Lifecycle::open(options).unwrap();
        let jobs = Jobs::new(1, CancellationToken::new());
        let work = lifecycle.clone();
        start(&jobs, "uid", JobKind::Create, recording().0, |control, _| async move {
            let image = ImageChoice::parse("ubuntu_noble");
            let zone = "fr-par-1".parse().unwrap();
            let specification = ServerSpecification::new("ci".parse().unwrap(), zone, "DEV1-S", image);
            drop(work.create_server(specification, &control).await);
            Outcome::LeftOpen
        });
        tokio::time::sleep(Duration::from_secs(30)).await;
        let text = || "x".to_owned();
        let object = Requester::Object { kind: "Kind".into(), namespace: text(), name: text(), uid: text() };
        for _ in 0..2 {
            jobs.cancel("uid", &RequestedBy::new(object.clone(), "it is being deleted")).await.unwrap();
        }
        let [operation] = &lifecycle.in_flight()[..] else { panic!("nothing is under way") };
        let entries = lifecycle.journal().entries(operation).unwrap();
        let notes: Vec<_> = entries.iter().filter(|entry| entry.step == "cancelled").collect();
        assert!(notes.len() == 1 && notes[0].data.to_string().contains("Kind x/x"), "{notes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stopped_ends_where_it_stands_with_what_is_done_beside_it() {
        let panicked = CancellationToken::new();
        let jobs = Jobs::new(1, panicked.clone());
        let (mirror, written) = recording();
        start(&jobs, "uid", JobKind::Create, mirror, |_, _| async { std::future::pending().await });
        let beside = tokio::spawn(jobs.beside(std::future::pending()));
        tokio::task::yield_now().await;
        assert!(!beside.is_finished());
        jobs.stopped().await;
        beside.await.unwrap();
        assert!(
            matches!(jobs.view("uid"), JobView::Running(_)) && written.lock().is_empty(),
            "its end is nobody's news"
        );
        assert!(!panicked.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_has_one_job_and_its_end_is_written_and_kept() {
        let jobs = Jobs::new(4, CancellationToken::new());
        let (mirror, written) = recording();
        let begun = Arc::new(Mutex::new(0));
        for _ in 0..3 {
            let begun = Arc::clone(&begun);
            start(&jobs, "uid", JobKind::Adopt, Arc::clone(&mirror), move |_, attempt| async move {
                *begun.lock() += attempt;
                tokio::time::sleep(Duration::from_secs(5)).await;
                Outcome::Waiting { reason: "NoHost", message: "none".into(), after: Duration::from_secs(30) }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(matches!(jobs.view("uid"), JobView::Running(JobKind::Adopt)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(*begun.lock(), 1);
        assert!(matches!(jobs.view("uid"), JobView::Ended(_)));
        jobs.done("uid");
        let last = jobs.last("uid", None).unwrap();
        assert_eq!((last.state.as_str(), last.attempt), ("waiting", 1));
        assert!(last.not_before.is_some());
        assert_eq!(written.lock().last().unwrap(), &last);
        assert_eq!(next_attempt(Some(&last), JobKind::Release), 1);
    }

    #[test]
    fn failures_and_questions_count_as_attempts_and_waits_do_not() {
        let last = |state: &str, attempt, reason: &str| OperationStatus {
            kind: JobKind::Release.as_str().into(),
            state: state.into(),
            attempt,
            reason: Some(reason.into()),
            ..OperationStatus::default()
        };
        for (state, attempt, reason, expected) in [
            ("failed", 1, "ReleaseFailed", 2),
            ("failed", u32::MAX, "ReleaseFailed", u32::MAX),
            ("waiting", 1, "Contended", 1),
            ("waiting", 3, "Contended", 3),
            ("waiting", 0, "Contended", 1),
            ("waiting", 1, "ReleaseWaiting", 2),
            ("waiting", 4, "PolicyFailed", 5),
            ("done", 4, "x", 1),
        ] {
            let before = last(state, attempt, reason);
            assert_eq!(next_attempt(Some(&before), JobKind::Release), expected, "{before:?}");
            assert_eq!(next_attempt(Some(&before), JobKind::Adopt), 1, "{before:?}");
        }
        assert_eq!(next_attempt(None, JobKind::Release), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_that_ends_as_the_last_try_did_writes_nothing() {
        let jobs = Jobs::new(1, CancellationToken::new());
        let (mirror, written) = recording();
        for (message, expected) in [("out of stock", 1), ("out of stock", 1), ("quota", 2), ("quota", 2)] {
            start(&jobs, "uid", JobKind::Create, Arc::clone(&mirror), move |_, _| async move {
                Outcome::Failed { reason: "CreationFailed", message: message.into() }
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(matches!(jobs.view("uid"), JobView::Ended(_)));
            jobs.done("uid");
            assert_eq!(written.lock().len(), expected, "{message}");
        }
        assert_eq!(jobs.last("uid", None).unwrap().attempt, 4, "it counts all the same");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_machine_holds_no_other_and_no_more_than_the_bound_run_at_once() {
        let jobs = Jobs::new(2, CancellationToken::new());
        let (mirror, _) = recording();
        let (running, most) = (Arc::new(Mutex::new(0_u32)), Arc::new(Mutex::new(0_u32)));
        for number in 0..10 {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            start(&jobs, &number.to_string(), JobKind::Release, Arc::clone(&mirror), move |_, _| async move {
                {
                    let mut running = running.lock();
                    *running += 1;
                    let mut most = most.lock();
                    *most = (*most).max(*running);
                }
                let slow = if number == 0 { 3600 } else { 1 };
                tokio::time::sleep(Duration::from_secs(slow)).await;
                *running.lock() -= 1;
                Outcome::LeftOpen
            });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*most.lock(), 2);
        for number in 1..10 {
            assert!(matches!(jobs.view(&number.to_string()), JobView::Ended(_)), "{number}");
        }
        assert!(matches!(jobs.view("0"), JobView::Running(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_waits_for_its_turn_does_nothing_once_it_is_withdrawn_or_no_longer_wanted() {
        let jobs = Jobs::new(1, CancellationToken::new());
        let begun = Arc::new(Mutex::new(Vec::new()));
        for (uid, wanted) in [("first", true), ("withdrawn", true), ("unwanted", false), ("last", true)] {
            let begun = Arc::clone(&begun);
            let (operation, mirror) = (jobs.beginning(uid, JobKind::Release, None), recording().0);
            let asked = Arc::new(Says(wanted));
            jobs.start(uid, JobKind::Release, operation, None::<&Value>, mirror, asked, move |_, _| async move {
                begun.lock().push(uid);
                tokio::time::sleep(Duration::from_secs(5)).await;
                Outcome::LeftOpen
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        jobs.withdraw("withdrawn");
        jobs.withdraw("first");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(matches!(jobs.view("withdrawn"), JobView::Ended(outcome) if matches!(*outcome, Outcome::NotBegun)));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(*begun.lock(), ["first", "last"], "what has begun goes on");
        let last = jobs.last("unwanted", None).unwrap();
        assert_eq!(next_attempt(Some(&last), JobKind::Release), 1, "it was no attempt");
    }

    #[tokio::test(start_paused = true)]
    async fn leaving_waits_for_a_safe_point_but_not_for_ever() {
        let jobs = Jobs::new(2, CancellationToken::new());
        let (mirror, _) = recording();
        start(&jobs, "a", JobKind::Create, mirror, |_, _| std::future::pending());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = tokio::time::Instant::now();
        jobs.leave(Duration::from_secs(25)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(25));
    }
}
