//! Claiming a host of a pool, in two phases.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::Instrument;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::apple_silicon::Server;

use super::eligibility::{Ineligible, Pool, is_stale};
use super::host::{Changed, Over, Presence, Refused, pause, presence, rename, rename_if, resource};
use super::lock::{HELD, Held, lock_to_begin, lock_to_undo};
use super::lost_order::check_undelivered;
use super::names::{ClaimName, is_pending, pending};
use super::steps::{ORDER_STEP, PENDING_STEP};
use super::{group, list, listing};
use crate::control::{Control, EventKind};
use crate::journal::{Entry, OperationKind, OperationState, Phase};
use crate::lifecycle::{Lifecycle, failed, left_open};
use crate::release::ReleaseSpecification;
use crate::report::{LeftResource, Report};
use crate::run::{Run, cancelled};
use crate::shared::{Active, Shared};
use crate::stop::{StepFailure, Stop};
use crate::{Error, OperationId, RequestedBy};

pub(crate) const CLAIM_STEP: &str = "claim";
pub(crate) const PUT_BACK_STEP: &str = "put-back";
/// Tries of giving a half-claimed host its old name again, before it is left to the next start.
const PUT_BACK_TRIES: u32 = 4;

/// A host that carries one's claim.
#[derive(Clone, Debug)]
pub struct AdoptedMachine {
    /// The host, as Scaleway showed it last, with its passwords (an ordered one: without; read it again).
    pub server: Server,
    /// It carried the claim already: an earlier call, perhaps of a process that died, had claimed it.
    pub rediscovered: bool,
    /// The operation that claimed or ordered it; absent where it was rediscovered.
    pub operation: Option<OperationId>,
}

/// Looks at a host whose new name was taken and does not show, before it is given up.
const LATE_LOOKS: u32 = 6;

/// What an adoption's row in the journal says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AdoptSpecification {
    pub(crate) pool: Pool,
    pub(crate) claim: ClaimName,
    /// How many hosts the pool had when it began, without those that were claimed.
    #[serde(default)]
    pub(crate) in_pool: usize,
    #[serde(default, skip_serializing_if = "RequestedBy::is_unknown")]
    pub(crate) requested_by: RequestedBy,
}

/// How far one candidate got.
enum Attempt {
    Claimed(Box<Server>),
    /// Scaleway took the claim's name, in place of this one.
    Renamed(String),
    /// It has gone to somebody else, or away.
    Lost,
}

impl Lifecycle {
    /// Looks, at what was listed last, whether [`Lifecycle::adopt_machine`] could claim a host. Changes nothing.
    ///
    /// # Errors
    /// [`Error::NoEligibleMachine`] as there; when the zone cannot be listed.
    pub async fn check_eligible(&self, pool: &Pool, claim: &ClaimName) -> Result<(), Error> {
        let shared = &self.shared;
        let seen = list::hosts(shared, &pool.zone, Some(shared.limits.machine_interval)).await?;
        let now = shared.clock.now();
        let (candidates, counts) = pool.choose(&seen.machines, |host| is_orphan(shared, host, now));
        if !candidates.is_empty() || seen.machines.iter().any(|host| host.name == claim.as_str()) {
            return Ok(());
        }
        Err(Error::NoEligibleMachine { prefix: pool.prefix.clone(), zone: pool.zone.clone(), counts })
    }

    /// Claims a host of a pool: it carries the claim's name afterwards.
    ///
    /// # Expected flow
    /// 1. A host that carries the claim already is answered as it is (`rediscovered`), and nothing is changed.
    /// 2. Under the lock of this state directory: each eligible host in turn is read, renamed to
    ///    `windlass-claim-pending-<uuid>`, read again a moment later
    ///    ([`Limits::claim_settle`](crate::Limits::claim_settle)), renamed to the claim, and read again. One that shows
    ///    another name at any look has gone to somebody else, and the next one is tried.
    ///
    /// Eligible is a host with the pool's prefix that is delivered, `ready`, not about to be deleted, and of the pool's
    /// type and system; or one of that type and system which a dead claim of ours, or of anybody a quarter of an hour
    /// ago, left between the phases.
    ///
    /// # Guarantees
    /// Between processes that share the state directory no host is claimed twice. Between others none is, as long as a
    /// rename takes effect within the settling time: see `docs/machines.md`. After an error no host is left between the
    /// phases, or the journal knows it and the next start gives it back. One that is cancelled before it is done gives
    /// the host back, whoever ends it.
    ///
    /// # Errors
    /// [`Error::NoEligibleMachine`] and nothing else when there is none; [`Error::Failed`] when a call failed for good;
    /// [`Error::MachineName`] when the claim stands in the pool; [`Error::OrderUnverified`] while a host that was
    /// ordered for this claim may still be delivered; [`Error::HostBusy`] while the host with this claim is being claimed
    /// or released.
    pub async fn adopt_machine(
        &self,
        pool: &Pool,
        claim: &ClaimName,
        requested_by: &RequestedBy,
        control: &Control,
    ) -> Result<AdoptedMachine, Error> {
        claim.check_against(&pool.prefix)?;
        let shared = &self.shared;
        shared.check_history()?;
        // Without the lock, from what everybody looks at: most calls end here.
        let seen = list::hosts(shared, &pool.zone, Some(shared.limits.machine_interval)).await?;
        if let Some(found) = rediscover(shared, control, pool, &seen.machines, claim).await? {
            return Ok(found);
        }
        let now = shared.clock.now();
        let (candidates, counts) = pool.choose(&seen.machines, |host| is_orphan(shared, host, now));
        if candidates.is_empty() {
            return Err(Error::NoEligibleMachine { prefix: pool.prefix.clone(), zone: pool.zone.clone(), counts });
        }
        let mut held = Some(lock_to_begin(shared, control).await?);
        let seen = fresh(shared, control, &pool.zone).await?;
        if let Some(found) = rediscover(shared, control, pool, &seen.machines, claim).await? {
            return Ok(found);
        }
        check_undelivered(shared, &pool.zone, claim)?;
        let (candidates, mut counts) = pool.choose(&seen.machines, |host| is_orphan(shared, host, now));
        let candidates: Vec<Server> = candidates.into_iter().cloned().collect();
        if candidates.is_empty() {
            return Err(Error::NoEligibleMachine { prefix: pool.prefix.clone(), zone: pool.zone.clone(), counts });
        }
        let policies = shared.pin(requested_by, None);
        let specification = AdoptSpecification {
            pool: pool.clone(),
            claim: claim.clone(),
            in_pool: counts.in_pool,
            requested_by: requested_by.clone(),
        };
        let row = json!(specification);
        let (id, active) = shared.begin(OperationKind::AdoptMachine, &group(), &pool.zone, row, &policies).await?;
        let span = tracing::info_span!("adopt-machine", operation = %id, zone = %pool.zone, %claim);
        let run = Run::new(
            Arc::clone(shared),
            id.clone(),
            OperationKind::AdoptMachine,
            group(),
            pool.zone.clone(),
            policies,
            control.clone(),
            Some(HELD + shared.limits.claim_settle * 2),
        );
        let traced = run.trace.operation();
        async move {
            run.event(EventKind::Opened);
            for host in &candidates {
                // Also where it is cancelled by now: what was marked before is given back under it.
                if held.is_none() {
                    held = Some(relock(shared, &run, &active).await?);
                }
                let mut attempt = claim_host(&run, pool, claim, host).await;
                if let Ok(Attempt::Renamed(pending)) = attempt {
                    // Looking changes nothing: the next adoption has its turn meanwhile.
                    held = None;
                    attempt = confirm(&run, claim, &host.id, &pending).await;
                }
                let cause = match attempt {
                    Ok(Attempt::Claimed(server)) => {
                        if shared.close(&run, &active, OperationState::Done, None, None, Vec::new()).await? {
                            return Ok(AdoptedMachine { server: *server, rediscovered: false, operation: Some(id) });
                        }
                        cancelled_claim()
                    }
                    Ok(Attempt::Lost | Attempt::Renamed(_)) => {
                        counts.lost += 1;
                        continue;
                    }
                    Err(Stop::Failed(cause)) => *cause,
                    Err(stop) => return Err(left_open(&run, &active, stop)),
                };
                let _held = match held {
                    Some(held) => held,
                    None => relock(shared, &run, &active).await?,
                };
                return Err(give_up(&run, &active, cause).await);
            }
            shared.close(&run, &active, OperationState::Undone, None, None, Vec::new()).await?;
            Err(Error::NoEligibleMachine { prefix: pool.prefix.clone(), zone: pool.zone.clone(), counts })
        }
        .instrument(traced)
        .instrument(span)
        .await
    }
}

/// Takes the lock again in the middle of an operation.
async fn relock<'a>(shared: &'a Shared, run: &Run, active: &Active) -> Result<Held<'a>, Error> {
    match lock_to_undo(shared, &run.control).await {
        Err(Error::NotBegun) => Err(left_open(run, active, Stop::Left)),
        held => held,
    }
}

/// Why an adoption is undone that somebody cancelled.
fn cancelled_claim() -> StepFailure {
    StepFailure { step: CLAIM_STEP.to_owned(), failure: cancelled() }
}

/// Lists anew, a few times where that fails.
pub(crate) async fn fresh(
    shared: &Shared,
    control: &Control,
    zone: &windlass_scaleway::Zone,
) -> Result<Arc<listing::Listing<Server>>, Error> {
    let mut attempt = 1;
    loop {
        match list::hosts(shared, zone, None).await {
            Ok(listing) => return Ok(listing),
            Err(error) if attempt >= 3 || control.left().is_cancelled() => return Err(error),
            Err(_) => pause(shared, control, attempt).await,
        }
        attempt += 1;
    }
}

/// The host that carries the claim, read again.
async fn rediscover(
    shared: &Shared,
    control: &Control,
    pool: &Pool,
    hosts: &[Server],
    claim: &ClaimName,
) -> Result<Option<AdoptedMachine>, Error> {
    let carries = |host: &Server| host.name == claim.as_str() && !host.deletion_scheduled;
    if hosts.iter().filter(|host| carries(host)).count() > 1 {
        tracing::warn!(%claim, "more than one host carries this claim; the oldest is taken");
    }
    for host in hosts.iter().filter(|host| carries(host)) {
        // What may be given back yet is nobody's.
        let unfinished = shared.journal.operations_of_resource(&host.id)?.into_iter().find(|operation| {
            operation.state.has_work_left()
                && match operation.kind {
                    OperationKind::ReleaseMachine => true,
                    OperationKind::AdoptMachine => operation.specification["claim"].as_str() == Some(claim.as_str()),
                    _ => false,
                }
        });
        if let Some(operation) = unfinished {
            return Err(Error::HostBusy { host: host.id.clone(), operation: operation.id });
        }
        let seen = presence(shared, control, &pool.zone, &host.id)
            .await
            .map_err(|error| Error::scaleway("reading the host that carries the claim", error))?;
        if let Presence::Here(server) = seen
            && carries(&server)
        {
            return Ok(Some(AdoptedMachine { server: *server, rediscovered: true, operation: None }));
        }
    }
    Ok(None)
}

/// Whether a host between pool and claim may be taken by anybody: its claimant is gone, or it was wiped on its way into
/// the pool and only lacks the name. Decided under the lock.
fn is_orphan(shared: &Shared, host: &Server, now: u64) -> bool {
    match standing(shared, host) {
        Ok(ClaimState::InUse) | Err(_) => false,
        Ok(ClaimState::Orphan) => true,
        Ok(ClaimState::Unknown) => is_pending(&host.name) && is_stale(host, now),
    }
}

/// What the journal knows of a host that is between the phases of a claim.
enum ClaimState {
    /// A claim of ours ended well, and it was not released since. The name is the late echo of an earlier call.
    InUse,
    /// A claim of ours gave it this name and came to nothing (nobody who shares this journal is between the phases
    /// while one holds the lock, so the claimant is gone); or a release of ours wiped it and could not give it a pool's
    /// name.
    Orphan,
    Unknown,
}

fn standing(shared: &Shared, host: &Server) -> Result<ClaimState, Error> {
    let mut orphan = false;
    for operation in shared.journal.operations_of_resource(&host.id)? {
        let entries = shared.journal.entries(&operation.id)?;
        let concluded = |step: &str| {
            entries.iter().any(|entry| {
                entry.step == step
                    && entry.phase == Phase::Outcome
                    && entry.resource.as_ref().is_some_and(|resource| resource.id == host.id)
            })
        };
        match operation.kind {
            OperationKind::AdoptMachine if concluded(CLAIM_STEP) && !concluded(PUT_BACK_STEP) => {
                return Ok(ClaimState::InUse);
            }
            OperationKind::OrderMachine if concluded(ORDER_STEP) => return Ok(ClaimState::InUse),
            OperationKind::AdoptMachine => {
                orphan |= names_given(&entries, &host.id).any(|name| name == host.name);
            }
            OperationKind::ReleaseMachine => {
                // Another release's mark says nothing of this one: that host is about to be wiped.
                let marked = serde_json::from_value::<ReleaseSpecification>(operation.specification)
                    .is_ok_and(|release| release.request.claim.returning(&host.id) == host.name);
                orphan |= concluded(super::actions::REINSTALL_STEP) && marked;
                break;
            }
            _ => {}
        }
    }
    Ok(match orphan {
        // Somebody decided to leave it alone.
        true if shared.journal.abandoned_by(&host.id)?.is_some() => ClaimState::InUse,
        true => ClaimState::Orphan,
        false => ClaimState::Unknown,
    })
}

/// The names between the phases that an adoption was about to give to a host.
fn names_given<'e>(entries: &'e [Entry], host: &'e str) -> impl Iterator<Item = &'e str> {
    entries
        .iter()
        .filter(move |entry| {
            entry.step == PENDING_STEP
                && entry.phase == Phase::Intent
                && entry.resource.as_ref().is_some_and(|resource| resource.id == host)
        })
        .filter_map(|entry| entry.data.get("name")?.as_str())
}

async fn claim_host(run: &Run, pool: &Pool, claim: &ClaimName, listed: &Server) -> Result<Attempt, Stop> {
    let shared = &run.shared;
    let id = listed.id.as_str();
    let name = pending(shared.randomness.uuid());
    run.begin((PENDING_STEP, json!({ "name": name, "from": listed.name })), Some(resource(&run.zone, id))).await?;
    // What the list said may be old.
    let fits = |server: &Server| pool.fit(server, |_| true) == super::eligibility::Fit::Eligible;
    match rename_if(run, PENDING_STEP, id, &[&listed.name], &name, fits).await? {
        Changed::Done(_) => {}
        Changed::Over(over) => return lost(run, PENDING_STEP, id, over).await,
        // It is listed and not there: somebody else's matter. Every other refusal is ours.
        Changed::Refused(refused)
            if matches!(refused.failure.class, FailureClass::NotFound | FailureClass::Expired) =>
        {
            return lost(run, PENDING_STEP, id, Over::Gone).await;
        }
        Changed::Refused(refused) => return Err(refusal(PENDING_STEP, *refused)),
    }
    run.done((PENDING_STEP, json!({ "name": name })), Some(resource(&run.zone, id))).await?;
    // Whoever read the host before our rename has sent its own by the end of this wait, and then it shows; whoever
    // reads it later sees that it is taken (Fischer's mutual exclusion; `docs/machines.md`).
    match settled(run, PENDING_STEP, id, &listed.name).await? {
        None => return lost(run, PENDING_STEP, id, Over::Gone).await,
        Some(server) if server.name != name => return lost(run, PENDING_STEP, id, Over::Renamed(server.name)).await,
        Some(_) => {}
    }
    run.begin((CLAIM_STEP, json!({ "name": claim })), Some(resource(&run.zone, id))).await?;
    match rename(run, CLAIM_STEP, id, &[&name], claim.as_str()).await? {
        Changed::Done(_) => {}
        Changed::Over(over) => return lost(run, CLAIM_STEP, id, over).await,
        Changed::Refused(refused) => return Err(refusal(CLAIM_STEP, *refused)),
    }
    Ok(Attempt::Renamed(name))
}

/// Reads the host once more before it is used, a settling time after the claim's name was taken: a mark of somebody
/// else's that was late shows now, and not under the claimant's work.
async fn confirm(run: &Run, claim: &ClaimName, id: &str, pending: &str) -> Result<Attempt, Stop> {
    match settled(run, CLAIM_STEP, id, pending).await? {
        None => lost(run, CLAIM_STEP, id, Over::Gone).await,
        // Taken and not in effect: to try the next one could end in two hosts for one claim.
        Some(server) if server.name == pending => {
            let words = format!("Scaleway accepted the new name of host {id}, but still shows the old one");
            Err(Stop::failed(CLAIM_STEP, crate::failure::of_class(FailureClass::Other, words)))
        }
        Some(server) if server.name != claim.as_str() => lost(run, CLAIM_STEP, id, Over::Renamed(server.name)).await,
        Some(server) => {
            run.done((CLAIM_STEP, json!({ "name": claim })), Some(resource(&run.zone, id))).await?;
            run.shared.machines.hosts.replace(&run.zone, &server);
            Ok(Attempt::Claimed(server))
        }
    }
}

/// The host when a rename of ours, which Scaleway took, has had the time to show. As long as it shows the name `before`
/// it, it is looked again, a bounded number of times. (assumption: mac-rename-within-claim-settle)
async fn settled(run: &Run, step: &str, id: &str, before: &str) -> Result<Option<Box<Server>>, Stop> {
    run.sleep(step, run.shared.limits.claim_settle).await?;
    let mut attempt = 1;
    loop {
        let seen = look(run, id).await?;
        let late = seen.as_ref().is_some_and(|server| server.name == before);
        if !late || attempt >= LATE_LOOKS {
            return Ok(seen);
        }
        run.check(step)?;
        pause(&run.shared, &run.control, attempt).await;
        attempt += 1;
    }
}

fn refusal(step: &str, refused: Refused) -> Stop {
    Stop::failed(step, refused.failure)
}

async fn look(run: &Run, id: &str) -> Result<Option<Box<Server>>, Stop> {
    match presence(&run.shared, &run.control, &run.zone, id).await {
        Ok(Presence::Here(server)) => Ok(Some(server)),
        Ok(Presence::Gone) => Ok(None),
        Err(error) => Err(Stop::failed(CLAIM_STEP, crate::failure::of_error(&error))),
    }
}

async fn lost(run: &Run, step: &str, id: &str, over: Over) -> Result<Attempt, Stop> {
    let data = match &over {
        Over::Gone => json!({ "lost": "it is gone" }),
        Over::Renamed(name) => json!({ "lost": "it is not as it was any more", "name": name }),
    };
    tracing::info!(operation = %run.id, host = id, ?over, "the host is gone or was renamed; trying another");
    run.write(step, Phase::Note, Some(resource(&run.zone, id)), data).await?;
    Ok(Attempt::Lost)
}

/// Ends a failed adoption: what stands between the phases gets its old name again.
async fn give_up(run: &Run, active: &Active, cause: StepFailure) -> Error {
    let put_back = async { put_back(run, run.is_cancelled()?).await };
    let report = match put_back.await {
        Ok(report) => report,
        Err(stop) => return left_open(run, active, stop),
    };
    let state = if report.is_clean() { OperationState::Undone } else { OperationState::Left };
    if let Err(error) = run.shared.close(run, active, state, Some(&cause), Some(&report), Vec::new()).await {
        return error;
    }
    failed(run, state, cause, report)
}

/// Gives every host that this operation left between the phases the name that it had before.
///
/// What carries the claim gets it, too, where the adoption is `cancelled`. Otherwise it stays as it is: the claimant
/// finds it again, and a reclaim shows it where there is none any more.
async fn put_back(run: &Run, cancelled: bool) -> Result<Report, Stop> {
    run.begin_undo();
    let mut report = Report::default();
    let entries = run.shared.journal.entries(&run.id)?;
    let mut intended: Vec<(&str, &str, &str)> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.step == PENDING_STEP && entry.phase == Phase::Intent) {
        let (Some(host), Some(name), Some(from)) =
            (entry.resource.as_ref(), entry.data["name"].as_str(), entry.data["from"].as_str())
        else {
            continue;
        };
        intended.push((&host.id, name, from));
        let claims = |entry: &&Entry| {
            entry.step == CLAIM_STEP && entry.phase == Phase::Intent && entry.resource.as_ref() == Some(host)
        };
        if let Some(claim) = entries.iter().filter(|_| cancelled).find(claims)
            && !claimed_since(run, &host.id)?
        {
            intended.push((&host.id, claim.data["name"].as_str().unwrap_or_default(), from));
        }
    }
    for (id, name, from) in intended {
        let mut attempt = 1;
        let problem = loop {
            match put_one_back(run, id, name, from).await {
                Ok(()) => break None,
                Err(PutBack::Stop(stop)) => return Err(stop),
                Err(PutBack::Failed(problem)) if attempt >= PUT_BACK_TRIES => break Some(problem),
                Err(PutBack::Failed(_)) => pause(&run.shared, &run.control, attempt).await,
            }
            attempt += 1;
        };
        if let Some(why) = problem {
            report.left.push(LeftResource { resource: resource(&run.zone, id), why });
        }
    }
    Ok(report)
}

/// Whether a later adoption has the host by the journal: it took what this one had left between the phases.
fn claimed_since(run: &Run, host: &str) -> Result<bool, Stop> {
    Ok(run.shared.journal.operations_of_resource(host)?.iter().any(|other| {
        other.kind == OperationKind::AdoptMachine
            && other.id != run.id
            && other.id.made_at() >= run.id.made_at()
            && other.state != OperationState::Undone
    }))
}

enum PutBack {
    Stop(Stop),
    Failed(String),
}

impl From<Stop> for PutBack {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

#[expect(clippy::disallowed_methods, reason = "it has just read the host")]
async fn put_one_back(run: &Run, id: &str, name: &str, from: &str) -> Result<(), PutBack> {
    let failed = |error: &windlass_scaleway::Error| PutBack::Failed(crate::failure::of_error(error).words());
    let shared = &run.shared;
    let carries_it = || async {
        let seen = presence(shared, &run.control, &run.zone, id).await.map_err(|error| failed(&error))?;
        Ok::<bool, PutBack>(matches!(&seen, Presence::Here(server) if server.name == name))
    };
    // Another name: it was never ours, or is no longer.
    if !carries_it().await? {
        return Ok(());
    }
    run.begin((PUT_BACK_STEP, json!({ "name": from })), Some(resource(&run.zone, id))).await?;
    if !carries_it().await? {
        return Ok(());
    }
    let request = windlass_scaleway::types::apple_silicon::UpdateServer::rename(from);
    match shared.client.apple_silicon(&run.zone).update_server(id, &request).await {
        Ok(server) => {
            shared.machines.hosts.replace(&run.zone, &server);
            run.done((PUT_BACK_STEP, json!({ "name": from })), Some(resource(&run.zone, id))).await?;
            Ok(())
        }
        // The next look tells whether it took effect.
        Err(error) => Err(failed(&error)),
    }
}

/// After a restart: what an adoption left is given back, under the lock.
pub(crate) async fn resume(run: &Run, active: &Active) -> Result<(), Error> {
    run.event(EventKind::Opened);
    let shared = &run.shared;
    let _held = relock(shared, run, active).await?;
    let entries = shared.journal.entries(&run.id)?;
    let claimed = entries.iter().rev().find(|entry| entry.step == CLAIM_STEP && entry.phase == Phase::Intent);
    let mut claimed_well = false;
    if let Some(host) = claimed.and_then(|entry| entry.resource.as_ref()) {
        let claim = claimed.and_then(|entry| entry.data["name"].as_str()).unwrap_or_default();
        let seen = presence(shared, &run.control, &run.zone, &host.id).await;
        claimed_well = matches!(seen, Ok(Presence::Here(server)) if server.name == claim);
    }
    // Once more where it is cancelled while it is being closed.
    loop {
        let put_back = async {
            let cancelled = run.is_cancelled()?;
            Ok::<_, Stop>((cancelled, put_back(run, cancelled).await?))
        };
        let (cancelled, report) = match put_back.await {
            Ok(ended) => ended,
            Err(stop) => return Err(left_open(run, active, stop)),
        };
        let state = match (report.is_clean(), claimed_well && !cancelled) {
            (false, _) => OperationState::Left,
            (true, true) => OperationState::Done,
            (true, false) => OperationState::Undone,
        };
        let cause = cancelled.then(cancelled_claim);
        if shared.close(run, active, state, cause.as_ref(), Some(&report), Vec::new()).await? {
            return Ok(());
        }
    }
}

impl Ineligible {
    /// Whether the pool holds nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_pool == 0
    }
}
