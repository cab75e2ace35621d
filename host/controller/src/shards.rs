//! Replicas that divide the shards among them.
//!
//! Each shard has a Lease as a leader has one ([`crate::lease`]), and its holder works on the shard as a leader works on
//! everything: with a journal, accounts, jobs and watches of its own, which keep what is in the shard. So a
//! shard costs as many watches as a leader does; in exchange nothing of one shard is in another. A shard whose Lease is
//! lost, or that fails, ends where it stands, as the process of a leader does, and the others go on.
//!
//! How many shards a replica holds follows from how many replicas there are. They count each other by Leases as well:
//! there are as many as shards, and a replica holds one. Its place among the held ones says its share, so that all
//! shares together are all shards. Who has more than its share ends a shard in order and gives the Lease back; who has
//! less takes what is free. Replicas that count differently for a moment leave shards free or try in vain: which shards
//! are whose, the shards' own Leases say.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::arguments::RunArguments;
use crate::jobs::Jobs;
use crate::lease::{Candidate, Leadership, LeaseOptions, Verdict, late};
use crate::shard::{Held, Shard};
use crate::{Error, metric_names};

/// What the work on a shard is done with, from when its Lease is held until it is not.
pub(crate) struct Holding {
    pub(crate) shard: Shard,
    /// Cancelled when the work is to end in order.
    pub(crate) shutdown: CancellationToken,
    /// Cancelled when a task of it panics.
    pub(crate) panicked: CancellationToken,
    pub(crate) jobs: Arc<Jobs>,
}

impl Holding {
    pub(crate) fn new(shard: Shard, arguments: &RunArguments, shutdown: CancellationToken) -> Self {
        let panicked = CancellationToken::new();
        let jobs = Jobs::new(usize::from(arguments.operations), panicked.clone());
        Self { shard, shutdown, panicked, jobs }
    }

    /// Ends all work where it stands.
    fn stop(&self) {
        // First: what is dropped undoes nothing then, as at the end of a process.
        self.shutdown.cancel();
        self.jobs.stop();
    }
}

/// Says whether this process works on a shard.
pub(crate) fn say_leads(shard: Shard, leads: bool) {
    metrics::gauge!(metric_names::LEADER, shard.labels([])).set(f64::from(u8::from(leads)));
}

/// Refuses options with which one object could be worked on by two processes.
pub(crate) fn check(arguments: &RunArguments) -> Result<(), Error> {
    let refused = |problem: &str| Err(Error::Option { option: "--shards", problem: problem.to_owned() });
    if arguments.shards == 1 {
        return Ok(());
    }
    if !arguments.state.is_shared() {
        return refused("several need a database that all replicas share: set --state or --state-file");
    }
    if !arguments.leader_elect {
        return refused("several need Leases: remove --leader-elect=false");
    }
    if arguments.namespace_credentials.is_some() && !arguments.require_namespace_credentials {
        return refused(
            "several need --require-namespace-credentials beside --namespace-credentials: otherwise namespaces without \
             credentials would use the controller's own in several shards",
        );
    }
    Ok(())
}

/// How many of the shards the replica of this rank among so many holds.
fn share(shards: usize, replicas: usize, rank: usize) -> usize {
    shards / replicas + usize::from(rank < shards % replicas)
}

/// Works on a share of all shards until `shutdown` is cancelled, and then ends in order.
///
/// # Errors
/// [`Error::TakenForDead`] and [`Error::Panicked`], which are about the whole process. What fails of one shard is logged,
/// and the shard is free for others when its Lease has run out.
pub(crate) async fn hold(
    client: Client,
    arguments: &RunArguments,
    identity: &str,
    held: &Held,
    shutdown: &CancellationToken,
    work: impl Fn(Arc<Holding>) -> BoxFuture<'static, Result<(), Error>>,
) -> Result<(), Error> {
    let shards: Vec<Shard> = Shard::all(arguments.shards).collect();
    for shard in &shards {
        say_leads(*shard, false);
    }
    let mut replica = Replica::new(client, arguments, identity, &shards);
    let mut working = JoinSet::new();
    let end = |replica: &mut Replica, ended: Result<(usize, Result<(), Error>), JoinError>| -> Result<(), Error> {
        let (index, ended) = ended.map_err(|_| Error::Panicked)?;
        replica.holdings.remove(&index);
        held.remove(shards[index]);
        match ended {
            Ok(()) => tracing::info!(shard = %shards[index], "no longer working on a shard"),
            Err(error @ Error::TakenForDead) => return Err(error),
            Err(error) => {
                if !matches!(error, Error::LeaseLost) {
                    replica.not_before.insert(index, Instant::now() + arguments.lease_duration);
                }
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, shard = %shards[index], "the work on a shard ended; the other shards go on");
            }
        }
        Ok(())
    };
    while !shutdown.is_cancelled() {
        for index in replica.round().await {
            let holding = Arc::new(Holding::new(shards[index], arguments, shutdown.child_token()));
            tracing::info!(shard = %shards[index], %identity, "working on a shard");
            held.add(shards[index]);
            replica.holdings.insert(index, Arc::clone(&holding));
            let (leadership, work) = (replica.shards[index].keep(), work(Arc::clone(&holding)));
            working.spawn(async move { (index, hold_one(holding, leadership, work).await) });
        }
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(replica.interval) => {}
            Some(ended) = working.join_next() => end(&mut replica, ended)?,
        }
    }
    while let Some(ended) = working.join_next().await {
        end(&mut replica, ended)?;
    }
    replica.leave().await;
    Ok(())
}

/// Works on one shard as long as its Lease is held.
async fn hold_one(
    holding: Arc<Holding>,
    leadership: Leadership,
    work: BoxFuture<'static, Result<(), Error>>,
) -> Result<(), Error> {
    say_leads(holding.shard, true);
    let lost = leadership.lost();
    let cut_off = async {
        let error = tokio::select! {
            () = lost.cancelled() => Error::LeaseLost,
            () = holding.panicked.cancelled() => Error::Panicked,
        };
        // Without waiting for anything: another may begin any moment.
        holding.stop();
        error
    };
    let worked = tokio::select! {
        biased;
        error = cut_off => Err(error),
        worked = AssertUnwindSafe(work).catch_unwind() => worked.unwrap_or(Err(Error::Panicked)),
    };
    holding.stop();
    holding.jobs.stopped().await;
    say_leads(holding.shard, false);
    match worked {
        Ok(()) => leadership.release().await,
        // This process takes it up no sooner than others may.
        Err(_) => leadership.let_run_out(),
    }
    worked
}

/// This replica, as it sees the Leases.
struct Replica {
    leases: Api<Lease>,
    /// Between two looks.
    interval: Duration,
    shards: Vec<Candidate>,
    /// Those by which replicas count each other.
    replicas: Vec<Candidate>,
    /// Which of these is ours.
    own: Option<(usize, Leadership)>,
    /// The shards that are worked on here, also those that are being given up.
    holdings: BTreeMap<usize, Arc<Holding>>,
    /// When a shard may be taken up here again that failed here.
    not_before: BTreeMap<usize, Instant>,
}

impl Replica {
    fn new(client: Client, arguments: &RunArguments, identity: &str, shards: &[Shard]) -> Self {
        let candidates = |options: fn(&RunArguments, Shard, String) -> LeaseOptions| -> Vec<Candidate> {
            let options = shards.iter().map(|shard| options(arguments, *shard, identity.to_owned()));
            options.map(|options| Candidate::new(client.clone(), options)).collect()
        };
        Self {
            leases: Api::namespaced(client.clone(), &arguments.leader_elect_namespace),
            interval: LeaseOptions::of(arguments, Shard::WHOLE, identity.to_owned()).interval(),
            shards: candidates(LeaseOptions::of),
            replicas: candidates(LeaseOptions::of_replica),
            own: None,
            holdings: BTreeMap::new(),
            not_before: BTreeMap::new(),
        }
    }

    /// All Leases, by name.
    async fn listed(&self) -> kube::Result<HashMap<String, Lease>> {
        let all = ListParams::default();
        let listed = tokio::time::timeout(self.interval, self.leases.list(&all)).await.map_err(late)??;
        Ok(listed.into_iter().map(|lease| (lease.name_any(), lease)).collect())
    }

    /// Looks at all Leases once. Has surplus shards given up, and gives those that were taken.
    async fn round(&mut self) -> Vec<usize> {
        let by_name = match self.listed().await {
            Ok(listed) => listed,
            Err(error) => {
                // What is held is renewed all the same, or lost.
                tracing::warn!(error = &error as &dyn std::error::Error, "the Leases of shards cannot be listed now");
                return Vec::new();
            }
        };
        let is_held = |candidates: &mut [Candidate]| -> Vec<bool> {
            let verdicts = candidates.iter_mut().map(|candidate| {
                let listed = by_name.get(candidate.name());
                candidate.judge(listed)
            });
            verdicts.map(|verdict| matches!(verdict, Verdict::Held { .. })).collect()
        };
        let (mut counted, of_others) = (is_held(&mut self.replicas), is_held(&mut self.shards));
        self.own.take_if(|(_, leadership)| leadership.lost().is_cancelled());
        let free: Vec<usize> = (0..counted.len()).filter(|number| !counted[*number]).collect();
        for number in free {
            if self.own.is_none() && take(&mut self.replicas[number]).await {
                self.own = Some((number, self.replicas[number].keep()));
            }
        }
        let (mut replicas, mut rank, mut share_of_own) = (1, 0, 0);
        if let Some((number, _)) = &self.own {
            counted[*number] = true;
            replicas = counted.iter().filter(|is_held| **is_held).count();
            rank = counted[..*number].iter().filter(|is_held| **is_held).count();
            share_of_own = share(self.shards.len(), replicas, rank);
        }
        let mut kept = 0;
        for holding in self.holdings.values().filter(|holding| !holding.shutdown.is_cancelled()) {
            if kept < share_of_own {
                kept += 1;
            } else {
                tracing::info!(shard = %holding.shard, replicas, "giving up a shard for another replica");
                holding.shutdown.cancel();
            }
        }
        // Each replica begins elsewhere, so that those that start together want different ones.
        let (first, now) = (rank * self.shards.len() / replicas, Instant::now());
        let mut taken = Vec::new();
        for index in (first..self.shards.len()).chain(0..first) {
            let may = !of_others[index]
                && !self.holdings.contains_key(&index)
                && self.not_before.get(&index).is_none_or(|at| *at <= now);
            if may && kept + taken.len() < share_of_own && take(&mut self.shards[index]).await {
                taken.push(index);
            }
        }
        taken
    }

    /// Gives back what is not worked on, so that nobody waits for it.
    async fn leave(self) {
        join_all(self.shards.iter().map(Candidate::give_back)).await;
        if let Some((_, leadership)) = self.own {
            leadership.release().await;
        }
    }
}

/// Whether a Lease is ours now.
async fn take(candidate: &mut Candidate) -> bool {
    match candidate.take().await {
        Ok(Verdict::Ours | Verdict::Free) => true,
        Ok(Verdict::Held { by }) => {
            let lease = candidate.name();
            tracing::debug!(holder = %by, lease, "another process holds the Lease, or one that excludes it");
            false
        }
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                lease = candidate.name(),
                "the Lease cannot be acquired now; if access is forbidden, the leader election role must name this Lease"
            );
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    #[test]
    fn the_shares_of_all_replicas_are_all_shards_and_differ_by_one_at_most() {
        for (shards, replicas) in (2..=24).flat_map(|shards| (1..=shards).map(move |replicas| (shards, replicas))) {
            let shares: Vec<usize> = (0..replicas).map(|rank| share(shards, replicas, rank)).collect();
            assert_eq!(shares.iter().sum::<usize>(), shards, "{shares:?}");
            let least = shares.iter().min().copied().unwrap_or_default();
            assert!(least > 0 && shares.iter().all(|share| share - least <= 1), "{shares:?}");
            assert!(shares.iter().all(|share| *share <= shards.div_ceil(replicas)), "{shares:?}");
        }
    }

    #[test]
    fn options_that_let_two_processes_work_on_one_object_are_refused() {
        let check = |more: &[&str]| {
            let line = [&["windlass-controller", "--shards=4"], more].concat();
            check(&Arguments::try_parse_from(line).unwrap().run).map_err(|error| error.to_string())
        };
        let database = "--state=postgres://ops@/state?host=/run";
        for (more, part) in [
            (vec![], "--state-file"),
            (vec![database, "--leader-elect=false"], "--leader-elect=false"),
            (vec![database, "--namespace-credentials=scaleway"], "--require-namespace-credentials"),
        ] {
            let refused = check(&more).unwrap_err();
            assert!(refused.starts_with("--shards: ") && refused.contains(part), "{refused}");
        }
        assert_eq!(check(&[database]), Ok(()));
        let required = [database, "--namespace-credentials=scaleway", "--require-namespace-credentials"];
        assert_eq!(check(&required), Ok(()));
    }
}
