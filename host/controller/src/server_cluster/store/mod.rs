//! Clusters kept in the status of their objects.
//!
//! Every write names the `resourceVersion` that it was made from and the fence that its operation got, so whoever was
//! overtaken writes nothing. Writes of one cluster that come together are put into one: a thousand nodes that are made
//! a hundred at a time cost some dozens of writes, not thousands.

mod record;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use windlass_cluster::{
    Begin, Change, ClusterEvent, ClusterName, ClusterOperation, ClusterStore, Fence, Requests, StoreError,
    StoredCluster,
};

use crate::kinds::{ServerCluster, ServerClusterStatus};
use record::Answer;
pub(super) use record::{begun_record, stored};

/// How long a write is tried while the API server does not take it: an operation that cannot note what it does must not
/// go on.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one call may take.
const CALL: Duration = Duration::from_secs(15);
/// So often a write that another came before is done again without a pause.
const QUICK_CONFLICTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How other controllers are told apart, and whether they live.
#[derive(Clone)]
pub(crate) struct Liveness {
    /// What this process is called: the holder's name in the Lease.
    pub(crate) identity: String,
    /// The Lease; absent where nobody else can be at work.
    pub(crate) lease: Option<(Api<Lease>, String)>,
}

/// The clusters of one namespace.
pub(crate) struct KubernetesClusterStore {
    namespace: String,
    api: Api<ServerCluster>,
    liveness: Liveness,
    writers: Arc<Writers>,
}

impl std::fmt::Debug for KubernetesClusterStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KubernetesClusterStore").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// What a write does to a status. It may be done again, on a newer one.
type Work = Box<dyn Fn(&mut ServerClusterStatus) -> Result<Answer, StoreError> + Send + Sync>;

/// A write that waits for its turn.
struct Waiting {
    what: &'static str,
    work: Work,
    answer: oneshot::Sender<Result<Answer, StoreError>>,
}

/// The clusters that are being written, with the writes that wait while one is under way.
#[derive(Default)]
struct Writers(Mutex<HashMap<String, VecDeque<Waiting>>>);

fn failed(what: &'static str, problem: impl ToString) -> StoreError {
    StoreError::Failed { what, problem: problem.to_string() }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Whether the API server took the call and said no, and would say so again.
fn is_final(error: &kube::Error) -> bool {
    code(error).is_some_and(|code| (400..500).contains(&code) && !matches!(code, 408 | 409 | 429))
}

async fn called<T>(call: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    match tokio::time::timeout(CALL, call).await {
        Ok(answer) => answer,
        Err(_) => Err(kube::Error::Service("the API server did not answer in time".into())),
    }
}

/// Waits between two tries, longer each time.
struct Pauses {
    until: Instant,
    next: Duration,
}

impl Pauses {
    fn new() -> Self {
        Self { until: Instant::now() + PATIENCE, next: FIRST_PAUSE }
    }

    /// `false` when patience has run out.
    async fn pause(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(MAX_PAUSE);
        true
    }
}

impl KubernetesClusterStore {
    pub(crate) fn new(client: &Client, namespace: &str, liveness: Liveness) -> Self {
        Self {
            namespace: namespace.to_owned(),
            api: Api::namespaced(client.clone(), namespace),
            liveness,
            writers: Arc::default(),
        }
    }

    async fn read(&self, what: &'static str, name: &str) -> Result<Option<ServerCluster>, StoreError> {
        let mut pauses = Pauses::new();
        loop {
            match called(self.api.get_opt(name)).await {
                Ok(object) => return Ok(object),
                Err(error) if is_final(&error) || !pauses.pause().await => return Err(failed(what, error)),
                Err(error) => tracing::debug!(cluster = name, %error, "{what} is tried again"),
            }
        }
    }

    /// Hands a write in and waits for its end. It is done also when nobody waits any more.
    async fn write(&self, what: &'static str, name: &str, work: Work) -> Result<Answer, StoreError> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut writers = self.writers.0.lock();
            let begins = !writers.contains_key(name);
            writers.entry(name.to_owned()).or_default().push_back(Waiting { what, work, answer });
            begins
        };
        if begins {
            tokio::spawn(drain(Arc::clone(&self.writers), self.api.clone(), name.to_owned()));
        }
        answered.await.unwrap_or_else(|_| Err(failed(what, "the process ends")))
    }
}

/// Writes what waits, until nothing does.
async fn drain(writers: Arc<Writers>, api: Api<ServerCluster>, name: String) {
    // The object as it was written last: the next write need not read it.
    let mut last = None;
    loop {
        let batch: Vec<Waiting> = {
            let mut writers = writers.0.lock();
            let Some(waiting) = writers.get_mut(&name) else { return };
            if waiting.is_empty() {
                writers.remove(&name);
                return;
            }
            waiting.drain(..).collect()
        };
        let (works, askers): (Vec<_>, Vec<_>) = batch.into_iter().map(|one| ((one.what, one.work), one.answer)).unzip();
        let answers = write_together(&api, &name, &works, &mut last).await;
        for (asker, answer) in askers.into_iter().zip(answers) {
            // Whoever does not wait any more has been called off.
            let _ = asker.send(answer);
        }
    }
}

type Answers = Vec<Result<Answer, StoreError>>;

async fn write_together(
    api: &Api<ServerCluster>,
    name: &str,
    works: &[(&'static str, Work)],
    last: &mut Option<ServerCluster>,
) -> Answers {
    let what = works.first().map_or("writing", |(what, _)| what);
    let all = |error: &dyn Fn() -> StoreError| -> Answers { works.iter().map(|_| Err(error())).collect() };
    let mut pauses = Pauses::new();
    let mut conflicts = 0;
    // A write whose answer was lost, as its status was to be.
    let mut unsure: Option<(ServerClusterStatus, Answers)> = None;
    loop {
        let object = match last.take() {
            Some(object) => object,
            None => match called(api.get_opt(name)).await {
                Ok(Some(object)) => object,
                Ok(None) => return all(&|| StoreError::Gone),
                Err(error) if is_final(&error) || !pauses.pause().await => {
                    let words = error.to_string();
                    return all(&|| failed(what, &words));
                }
                Err(_) => continue,
            },
        };
        let before = object.status.clone().unwrap_or_default();
        // Each write counts, under a fence that nobody else has: the same count under the same fence is the same write.
        if let Some((wanted, answers)) = unsure.take()
            && wanted.record == before.record
        {
            *last = Some(object);
            return answers;
        }
        let mut after = before.clone();
        let mut answers: Answers = works.iter().map(|(_, work)| work(&mut after)).collect();
        if after == before {
            *last = Some(object);
            return answers;
        }
        if let Some(record) = &mut after.record {
            record.writes += 1;
        }
        if let Err(error) = record::bound(&mut after, &object.spec) {
            let words = error.to_string();
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(failed(what, &words));
            }
            return answers;
        }
        let mut wanted = object;
        // The API server keeps these apart itself, and they would only be sent back and forth.
        wanted.metadata.managed_fields = None;
        wanted.status = Some(after.clone());
        match called(api.replace_status(name, &PostParams::default(), &wanted)).await {
            Ok(written) => {
                *last = Some(written);
                return answers;
            }
            // Another write came between: look again, at once unless it goes on like that.
            Err(error) if code(&error) == Some(409) => {
                conflicts += 1;
                if conflicts > QUICK_CONFLICTS && !pauses.pause().await {
                    let words = error.to_string();
                    return all(&|| failed(what, &words));
                }
            }
            Err(error) if code(&error) == Some(404) => return all(&|| StoreError::Gone),
            Err(error) if is_final(&error) || !pauses.pause().await => {
                let words = error.to_string();
                return all(&|| failed(what, &words));
            }
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot tell whether the status was written; reading it again");
                unsure = Some((after, answers));
            }
        }
    }
}

#[async_trait]
impl ClusterStore for KubernetesClusterStore {
    async fn clusters(&self) -> Result<Vec<StoredCluster>, StoreError> {
        let what = "listing clusters";
        let all = called(self.api.list(&ListParams::default())).await.map_err(|error| failed(what, error))?;
        let mut clusters = Vec::new();
        for object in &all.items {
            clusters.extend(stored(object, false)?);
        }
        Ok(clusters)
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Option<StoredCluster>, StoreError> {
        match self.read("reading a cluster", name.as_str()).await? {
            Some(object) => stored(&object, true),
            None => Ok(None),
        }
    }

    async fn begin(&self, begin: Begin) -> Result<(Fence, u64), StoreError> {
        let name = begin.cluster.name.to_string();
        let work: Work = Box::new(move |status| record::begin(status, &begin));
        let answer = self.write("beginning an operation", &name, work).await?;
        Ok((Fence(answer.fence), answer.number))
    }

    async fn take_over(&self, name: &ClusterName, expected: Fence, runner: &str) -> Result<Fence, StoreError> {
        let runner = runner.to_owned();
        let work: Work = Box::new(move |status| record::take_over(status, expected, &runner));
        let answer = self.write("taking an operation over", name.as_str(), work).await?;
        Ok(Fence(answer.fence))
    }

    async fn commit(&self, name: &ClusterName, fence: Fence, change: Change) -> Result<(), StoreError> {
        let work: Work = Box::new(move |status| record::commit(status, fence, &change));
        self.write("writing", name.as_str(), work).await.map(drop)
    }

    async fn request(&self, name: &ClusterName, operation: u64, requests: Requests) -> Result<bool, StoreError> {
        let work: Work = Box::new(move |status| Ok(record::request(status, operation, requests)));
        match self.write("writing a request", name.as_str(), work).await {
            Ok(answer) => Ok(answer.there),
            Err(StoreError::Gone) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn withdraw(&self, name: &ClusterName) -> Result<bool, StoreError> {
        let work: Work = Box::new(|status| Ok(record::withdraw(status)));
        match self.write("withdrawing a request", name.as_str(), work).await {
            Ok(answer) => Ok(answer.there),
            Err(StoreError::Gone) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn requests(&self, name: &ClusterName, fence: Fence) -> Result<Option<Requests>, StoreError> {
        let object = self.read("reading requests", name.as_str()).await?;
        Ok(object.and_then(|object| record::requests_under(&object, fence)))
    }

    async fn operations(&self, name: &ClusterName, limit: u32) -> Result<Vec<ClusterOperation>, StoreError> {
        match self.read("reading operations", name.as_str()).await? {
            Some(object) => record::operations(&object, limit),
            None => Ok(Vec::new()),
        }
    }

    async fn events(
        &self,
        name: &ClusterName,
        operation: Option<u64>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ClusterEvent>, StoreError> {
        match self.read("reading events", name.as_str()).await? {
            Some(object) => record::events(&object, name, operation, after, limit),
            None => Ok(Vec::new()),
        }
    }

    fn runner(&self, _lifecycle: &str) -> String {
        self.liveness.identity.clone()
    }

    /// Whether the Lease names it. A Lease that cannot be read is no proof of anybody's death.
    async fn runner_lives(&self, runner: &str) -> bool {
        let Some((leases, name)) = &self.liveness.lease else { return false };
        match called(leases.get_opt(name)).await {
            Ok(lease) => {
                let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
                holder.as_deref() == Some(runner)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read the Lease, so the process of an open operation counts as alive");
                true
            }
        }
    }
}
