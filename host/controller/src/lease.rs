//! Leader election: one process works on what a Lease stands for, the others wait.
//!
//! The Lease is read and replaced under its `resourceVersion`, so that of two that try at once one gets 409. Whether
//! another's Lease has run out is told by our own monotonic clock alone (it has not changed for its whole duration
//! *since we first saw it so*), as Kubernetes' own components do: clocks that differ between nodes cannot make two
//! leaders.
//!
//! A leader that could not renew for two thirds of the duration is no leader any more and must have stopped before the
//! rest has passed.
//!
//! A Lease stands for what is controlled and not for who controls it: its name says which namespace is watched, where
//! it is one, which label the objects have, where they need one, and which shard of them it is, where there are
//! several. All Leases are in one namespace where tenants do not write. So two installations lead together only where
//! they have nothing in common, and processes that divide the objects otherwise, as in an upgrade to more shards, never
//! do. Each takes its own Lease first and looks at the others' then, so that of two at least one sees the other. Who
//! watches less gives way.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::arguments::RunArguments;
use crate::crash::EndOnPanic;
use crate::names::mark;
use crate::shard::Shard;

/// The Lease of who watches everything, and what the others' names begin with.
const LEASE: &str = "windlass-controller";
/// What the names of Leases of shards begin with, before the shard.
const SHARD: &str = "windlass-shard-";
/// What the names of Leases begin with by which replicas count each other, before a number.
const REPLICA: &str = "windlass-replica-";

/// How the Lease is held.
#[derive(Clone, Debug)]
pub(crate) struct LeaseOptions {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) identity: String,
    pub(crate) duration: Duration,
    /// What is watched; absent: the operator has given the Lease a name, and no other excludes it.
    pub(crate) scope: Option<Scope>,
}

/// What is watched, as the name of a Lease says it: `windlass-controller`, or `windlass-shard-` and the shard, then `-`
/// and the namespace, then `.` and the label's value, which no namespace's name has.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    /// Absent: all namespaces.
    namespace: Option<String>,
    /// Absent: whatever the label.
    filter: Option<String>,
    shard: Shard,
}

impl Scope {
    fn of(arguments: &RunArguments, shard: Shard) -> Self {
        // A label's value may have characters that no name has; two values with one mark exclude each other, no more.
        let filter = arguments.watch_filter.as_ref().map(|value| {
            let is_of_a_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            if value.bytes().all(is_of_a_name) { value.clone() } else { mark(value) }
        });
        Self { namespace: arguments.namespace.clone(), filter, shard }
    }

    fn name(&self) -> String {
        if self.shard.is_whole() { self.named(LEASE.to_owned()) } else { self.named(format!("{SHARD}{}", self.shard)) }
    }

    /// A name that begins so.
    fn named(&self, start: String) -> String {
        let namespace = self.namespace.iter().map(|namespace| format!("-{namespace}"));
        let filter = self.filter.iter().map(|filter| format!(".{filter}"));
        std::iter::once(start).chain(namespace).chain(filter).collect()
    }

    /// What the Lease of this name stands for, where it stands for anything.
    fn of_lease(name: &str) -> Option<Self> {
        let (shard, rest) = match name.strip_prefix(SHARD) {
            Some(rest) => Shard::parse(rest)?,
            None => (Shard::WHOLE, name.strip_prefix(LEASE)?),
        };
        let (namespace, filter) = match rest.split_once('.') {
            Some((namespace, filter)) => (namespace, Some(filter.to_owned())),
            None => (rest, None),
        };
        let namespace = match namespace {
            "" => None,
            namespace => Some(namespace.strip_prefix('-')?.to_owned()),
        };
        Some(Self { namespace, filter, shard })
    }

    /// Whether there may be objects that both are about.
    fn overlaps(&self, other: &Self) -> bool {
        let common = |one: &Option<String>, other: &Option<String>| one.is_none() || other.is_none() || one == other;
        common(&self.namespace, &other.namespace)
            && common(&self.filter, &other.filter)
            && self.shard.overlaps(other.shard)
    }

    /// Whether who watches this waits without its Lease for who watches the other: of two, one does.
    fn gives_way_to(&self, other: &Self) -> bool {
        let bounds = |scope: &Self| {
            usize::from(scope.namespace.is_some())
                + usize::from(scope.filter.is_some())
                + usize::from(!scope.shard.is_whole())
        };
        (bounds(self), self) > (bounds(other), other)
    }
}

/// The name of the Lease of a shard, as the operator or what is watched gives it.
pub(crate) fn lease_name(arguments: &RunArguments, shard: Shard) -> String {
    match &arguments.leader_elect_name {
        None => Scope::of(arguments, shard).name(),
        Some(name) if shard.is_whole() => name.clone(),
        Some(name) => format!("{name}-shard-{shard}"),
    }
}

impl LeaseOptions {
    /// The Lease of a shard.
    pub(crate) fn of(arguments: &RunArguments, shard: Shard, identity: String) -> Self {
        let scope = arguments.leader_elect_name.is_none().then(|| Scope::of(arguments, shard));
        Self {
            namespace: arguments.leader_elect_namespace.clone(),
            name: lease_name(arguments, shard),
            identity,
            duration: arguments.lease_duration,
            scope,
        }
    }

    /// A Lease by which replicas count each other: there are as many as shards, and a replica holds one.
    pub(crate) fn of_replica(arguments: &RunArguments, number: Shard, identity: String) -> Self {
        let name = match &arguments.leader_elect_name {
            None => Scope::of(arguments, number).named(format!("{REPLICA}{number}")),
            Some(name) => format!("{name}-replica-{number}"),
        };
        Self { name, scope: None, ..Self::of(arguments, number, identity) }
    }

    /// How long after the last renewal a leader still counts as one.
    fn renew_deadline(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Between two renewals, and between two looks of one that waits.
    pub(crate) fn interval(&self) -> Duration {
        self.duration / 6
    }
}

/// What the Lease tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is ours.
    Ours,
    /// Nobody holds it, or its holder has not renewed it in time.
    Free,
    /// Somebody holds it.
    Held { by: String },
}

/// What was seen of another's Lease, and since when.
#[derive(Clone, Debug, Default)]
struct Observation {
    version: Option<String>,
    since: Option<Instant>,
}

impl Observation {
    /// Judges a Lease as it is now.
    fn judge(&mut self, lease: &Lease, identity: &str, now: Instant) -> Verdict {
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        if holder == identity {
            return Verdict::Ours;
        }
        if holder.is_empty() {
            return Verdict::Free;
        }
        if self.version != lease.metadata.resource_version || self.since.is_none() {
            self.version.clone_from(&lease.metadata.resource_version);
            self.since = Some(now);
        }
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0).max(1);
        let duration = Duration::from_secs(u64::from(seconds.unsigned_abs()));
        match self.since {
            Some(since) if now.duration_since(since) >= duration => Verdict::Free,
            _ => Verdict::Held { by: holder.to_owned() },
        }
    }
}

/// The Lease as we would write it.
fn held(options: &LeaseOptions, found: Option<&Lease>, at: Timestamp) -> Lease {
    let old = found.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let ours = old.holder_identity.as_deref() == Some(&options.identity);
    let transitions = old.lease_transitions.unwrap_or(0);
    Lease {
        metadata: found.map_or_else(
            || ObjectMeta {
                name: Some(options.name.clone()),
                namespace: Some(options.namespace.clone()),
                ..ObjectMeta::default()
            },
            |lease| lease.metadata.clone(),
        ),
        spec: Some(LeaseSpec {
            holder_identity: Some(options.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(options.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
            acquire_time: if ours { old.acquire_time } else { Some(MicroTime(at)) },
            renew_time: Some(MicroTime(at)),
            lease_transitions: Some(if ours || found.is_none() { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }),
    }
}

/// A Lease that is ours, until [`Leadership::lost`] is cancelled.
#[derive(Debug)]
pub(crate) struct Leadership {
    lost: CancellationToken,
    stop: CancellationToken,
    renewing: tokio::task::JoinHandle<()>,
}

impl Leadership {
    /// Cancelled when another may lead.
    pub(crate) fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Gives the Lease back, so that a successor need not wait for it to run out. To be called when all work has ended.
    pub(crate) async fn release(self) {
        self.stop.cancel();
        let _ = self.renewing.await;
    }

    /// Renews the Lease no more: a successor waits until it has run out.
    pub(crate) fn let_run_out(self) {
        self.renewing.abort();
    }
}

/// A Lease that this process wants.
pub(crate) struct Candidate {
    api: Api<Lease>,
    options: LeaseOptions,
    observation: Observation,
    rivals: HashMap<String, Observation>,
}

impl Candidate {
    pub(crate) fn new(client: Client, options: LeaseOptions) -> Self {
        let api = Api::namespaced(client, &options.namespace);
        Self { api, options, observation: Observation::default(), rivals: HashMap::new() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// What the Lease tells, as it was listed: `None` where there is none.
    pub(crate) fn judge(&mut self, listed: Option<&Lease>) -> Verdict {
        let judge = |lease| self.observation.judge(lease, &self.options.identity, Instant::now());
        listed.map_or(Verdict::Free, judge)
    }

    /// Tries to take the Lease. `Ours` and `Free` both mean that it is ours now; `Held` that it is not, or that it does
    /// not count, since what excludes it is held.
    pub(crate) async fn take(&mut self) -> kube::Result<Verdict> {
        match attempt(&self.api, &self.options, &mut self.observation).await {
            Ok(Verdict::Ours | Verdict::Free) => unless_rivalled(&self.api, &self.options, &mut self.rivals).await,
            held => held,
        }
    }

    /// Keeps the Lease, which is ours, from now on.
    pub(crate) fn keep(&self) -> Leadership {
        let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
        let guard = EndOnPanic(lost.clone());
        let keeping = keep(self.api.clone(), self.options.clone(), lost.clone(), stop.clone());
        let renewing = tokio::spawn(async move {
            let _guard = guard;
            keeping.await;
        });
        Leadership { lost, stop, renewing }
    }

    /// Gives the Lease back, where it is ours and is not kept.
    pub(crate) async fn give_back(&self) {
        give_back(&self.api, &self.options).await;
    }
}

/// Waits until the Lease is ours, and keeps it from then on. `None` when called off before.
pub(crate) async fn lead(client: Client, options: LeaseOptions, shutdown: &CancellationToken) -> Option<Leadership> {
    let mut candidate = Candidate::new(client, options);
    let options = candidate.options.clone();
    let mut said: Option<String> = None;
    loop {
        match candidate.take().await {
            Ok(Verdict::Ours | Verdict::Free) => break,
            Ok(Verdict::Held { by }) => {
                if said.as_ref() != Some(&by) {
                    tracing::info!(holder = %by, lease = %options.name, "another process leads; waiting");
                    said = Some(by);
                }
            }
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                namespace = options.namespace,
                lease = options.name,
                "the Lease cannot be acquired now; if access is forbidden, the leader election role must name this Lease"
            ),
        }
        tokio::select! {
            () = shutdown.cancelled() => {
                candidate.give_back().await;
                return None;
            }
            () = tokio::time::sleep(options.interval()) => {}
        }
    }
    tracing::info!(identity = %options.identity, lease = %options.name, "leading");
    Some(candidate.keep())
}

/// The Leases that exclude ours, as they are now: those of who watches what we would watch, too.
async fn rivals_of(api: &Api<Lease>, scope: &Scope) -> kube::Result<Vec<(Scope, Lease)>> {
    let all = api.list(&ListParams::default()).await?.items;
    let scoped = all.into_iter().filter_map(|lease| Some((Scope::of_lease(&lease.name_any())?, lease)));
    Ok(scoped.filter(|(other, _)| other != scope && other.overlaps(scope)).collect())
}

/// Whether the Lease that we hold lets us lead. Of two, who gives way gives its own back where it does not, so that the
/// other waits for nobody for ever.
async fn unless_rivalled(
    api: &Api<Lease>,
    options: &LeaseOptions,
    seen: &mut HashMap<String, Observation>,
) -> kube::Result<Verdict> {
    let Some(scope) = &options.scope else { return Ok(Verdict::Ours) };
    let rivals = tokio::time::timeout(options.interval(), rivals_of(api, scope)).await.map_err(late)??;
    let now = Instant::now();
    let verdicts = rivals.iter().map(|(other, rival)| {
        // None of them is ours, whatever its holder is called.
        (other, seen.entry(rival.name_any()).or_default().judge(rival, "", now))
    });
    let held: Vec<_> = verdicts.filter(|(_, verdict)| matches!(verdict, Verdict::Held { .. })).collect();
    if held.iter().any(|(other, _)| scope.gives_way_to(other)) {
        give_back(api, options).await;
    }
    Ok(held.into_iter().next().map_or(Verdict::Ours, |(_, held)| held))
}

/// Tries to take or renew the Lease. `Ours` and `Free` both mean that it is ours now.
async fn attempt(api: &Api<Lease>, options: &LeaseOptions, observation: &mut Observation) -> kube::Result<Verdict> {
    let found = tokio::time::timeout(options.interval(), api.get_opt(&options.name)).await.map_err(late)??;
    let verdict = match &found {
        None => Verdict::Free,
        Some(lease) => observation.judge(lease, &options.identity, Instant::now()),
    };
    if matches!(verdict, Verdict::Held { .. }) {
        return Ok(verdict);
    }
    let wanted = held(options, found.as_ref(), Timestamp::now());
    let parameters = PostParams::default();
    let writing = async {
        match &found {
            None => api.create(&parameters, &wanted).await,
            Some(_) => api.replace(&options.name, &parameters, &wanted).await,
        }
    };
    match tokio::time::timeout(options.interval(), writing).await.map_err(late)? {
        Ok(_) => Ok(verdict),
        // Somebody was quicker: look again.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Ok(Verdict::Held { by: "another process, which acquired it first".to_owned() })
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn late(_: tokio::time::error::Elapsed) -> kube::Error {
    kube::Error::Service("the API server did not answer in time".into())
}

async fn keep(api: Api<Lease>, options: LeaseOptions, lost: CancellationToken, stop: CancellationToken) {
    let mut renewed = Instant::now();
    let mut observation = Observation::default();
    loop {
        let turn = async {
            tokio::time::sleep(options.interval()).await;
            // Counted from before the call: the write may have taken effect then.
            let began = Instant::now();
            (began, attempt(&api, &options, &mut observation).await)
        };
        let (began, attempted) = tokio::select! {
            () = stop.cancelled() => {
                give_back(&api, &options).await;
                return;
            }
            () = tokio::time::sleep_until(renewed + options.renew_deadline()) => break,
            turn = turn => turn,
        };
        match attempted {
            Ok(Verdict::Ours | Verdict::Free) => renewed = began,
            Ok(Verdict::Held { by }) => {
                tracing::warn!(holder = %by, "another process changed the Lease");
                if observation.since.is_some() {
                    break;
                }
            }
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "the Lease was not renewed"),
        }
    }
    tracing::error!(lease = %options.name, "the Lease is lost: all work under it stops");
    lost.cancel();
}

async fn give_back(api: &Api<Lease>, options: &LeaseOptions) {
    let result = async {
        let Some(mut lease) = api.get_opt(&options.name).await? else { return Ok(false) };
        let Some(spec) = lease.spec.as_mut() else { return Ok(false) };
        if spec.holder_identity.as_deref() != Some(&options.identity) {
            return Ok(false);
        }
        spec.holder_identity = None;
        api.replace(&options.name, &PostParams::default(), &lease).await.map(|_| true)
    };
    match tokio::time::timeout(options.interval(), result).await {
        Ok(Ok(false)) => {}
        Ok(Ok(true)) => tracing::info!(lease = %options.name, "the Lease is released"),
        Ok(Err(error)) => tracing::warn!(error = &error as &dyn std::error::Error, "the Lease was not released"),
        Err(_) => tracing::warn!("the Lease was not released in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(identity: &str) -> LeaseOptions {
        LeaseOptions {
            namespace: "windlass-system".into(),
            name: "windlass-controller".into(),
            identity: identity.into(),
            duration: Duration::from_secs(30),
            scope: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lease(identity: &str, version: &str) -> Lease {
        let mut lease = held(&options(identity), None, at(0));
        lease.metadata.resource_version = Some(version.into());
        lease
    }

    #[test]
    fn those_who_have_objects_in_common_exclude_each_other_and_one_of_two_gives_way() {
        let scope = |namespace: &str, filter: &str| {
            let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            Scope { namespace: some(namespace), filter: some(filter), shard: Shard::WHOLE }
        };
        let all = [("", ""), ("ci", ""), ("", "blue"), ("ci", "blue"), ("dev", ""), ("", "red"), ("dev", "red")]
            .map(|(namespace, filter)| scope(namespace, filter));
        for one in &all {
            assert_eq!(Scope::of_lease(&one.name()).as_ref(), Some(one), "{}", one.name());
            for other in all.iter().filter(|other| *other != one) {
                assert_eq!(one.overlaps(other), other.overlaps(one));
                assert_ne!(one.gives_way_to(other), other.gives_way_to(one), "{one:?} {other:?}");
            }
        }
        let [every, ci, blue, ci_blue, dev, red, dev_red] = &all;
        assert!(all.iter().all(|other| every.overlaps(other) && !every.gives_way_to(other)));
        assert!(ci.overlaps(blue) && ci.overlaps(ci_blue) && ci.overlaps(red) && blue.overlaps(ci_blue));
        assert!(!ci.overlaps(dev) && !blue.overlaps(red) && !ci_blue.overlaps(red) && !ci_blue.overlaps(dev_red));
        assert!(ci_blue.gives_way_to(ci) && ci_blue.gives_way_to(blue));
        let names = [every, ci, blue, ci_blue].map(Scope::name);
        assert_eq!(names, ["", "-ci", ".blue", "-ci.blue"].map(|end| format!("windlass-controller{end}")));
        for other in
            ["kube-scheduler", "windlass-controllers", "windlass", "windlass-shard-", "windlass-replica-0-of-4"]
        {
            assert_eq!(Scope::of_lease(other), None, "{other}");
        }
    }

    #[test]
    fn who_divides_the_objects_otherwise_is_excluded_and_who_divides_them_more_gives_way() {
        let scope =
            |namespace: Option<&str>, shard| Scope { namespace: namespace.map(str::to_owned), filter: None, shard };
        let of = |namespace, count| Shard::all(count).map(move |shard| scope(namespace, shard)).collect::<Vec<_>>();
        let (whole, four, eight) = (of(None, 1), of(None, 4), of(None, 8));
        assert_eq!(four[3].name(), "windlass-shard-3-of-4");
        assert_eq!(of(Some("ci"), 4)[0].name(), "windlass-shard-0-of-4-ci");
        for one in whole.iter().chain(&four).chain(&eight).chain(&of(Some("ci"), 4)) {
            assert_eq!(Scope::of_lease(&one.name()).as_ref(), Some(one), "{}", one.name());
        }
        assert!(!four[0].overlaps(&four[1]), "they work side by side");
        for (less, more) in [(&whole, &four), (&whole, &eight), (&four, &eight)] {
            for (one, other) in less.iter().flat_map(|one| more.iter().map(move |other| (one, other))) {
                assert!(
                    one.overlaps(other) && other.gives_way_to(one) && !one.gives_way_to(other),
                    "{one:?} {other:?}"
                );
            }
        }
    }

    #[test]
    fn anothers_lease_runs_out_by_our_own_clock_and_only_when_it_stands_still() {
        let start = Instant::now();
        let mut observation = Observation::default();
        let after = |seconds| start + Duration::from_secs(seconds);
        // Its `renewTime` is decades old by our clock; that must not matter.
        let held_by = |name: &str| Verdict::Held { by: name.to_owned() };
        assert_eq!(observation.judge(&lease("a", "1"), "b", after(0)), held_by("a"));
        assert_eq!(observation.judge(&lease("a", "1"), "b", after(29)), held_by("a"));
        assert_eq!(observation.judge(&lease("a", "2"), "b", after(29)), held_by("a"), "renewed: it counts from here");
        assert_eq!(observation.judge(&lease("a", "2"), "b", after(58)), held_by("a"));
        assert_eq!(observation.judge(&lease("a", "2"), "b", after(59)), Verdict::Free);
    }

    #[test]
    fn a_lease_that_was_given_back_is_free_and_ones_own_is_ones_own() {
        let mut observation = Observation::default();
        let mut given_back = lease("a", "1");
        given_back.spec.as_mut().unwrap().holder_identity = None;
        assert_eq!(observation.judge(&given_back, "b", Instant::now()), Verdict::Free);
        assert_eq!(observation.judge(&lease("b", "1"), "b", Instant::now()), Verdict::Ours);
    }

    #[test]
    fn a_renewal_keeps_when_it_was_acquired_and_a_takeover_counts() {
        let first = held(&options("a"), None, at(10));
        let renewed = held(&options("a"), Some(&first), at(20));
        let taken = held(&options("b"), Some(&renewed), at(60));
        let [first, renewed, taken] = [first, renewed, taken].map(|lease| lease.spec.unwrap());
        assert_eq!(first.lease_transitions, Some(0));
        assert_eq!(renewed.acquire_time, first.acquire_time);
        assert_eq!(renewed.renew_time, Some(MicroTime(at(20))));
        assert_eq!(taken.lease_transitions, Some(1));
        assert_eq!(taken.acquire_time, Some(MicroTime(at(60))));
    }

    /// An API server that takes calls and never answers.
    fn silent() -> Client {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_cannot_renew_stops_while_the_lease_still_holds_for_others() {
        let options = options("a");
        let (lost, stop) = (CancellationToken::new(), CancellationToken::new());
        let began = Instant::now();
        let api = Api::namespaced(silent(), &options.namespace);
        tokio::spawn(keep(api, options.clone(), lost.clone(), stop));
        lost.cancelled().await;
        assert_eq!(began.elapsed(), Duration::from_secs(20), "two thirds of the duration");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_can_be_called_off() {
        let shutdown = CancellationToken::new();
        let waiting = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { lead(silent(), options("b"), &shutdown).await.is_none() }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert!(!waiting.is_finished());
        shutdown.cancel();
        assert!(waiting.await.unwrap());
    }
}
