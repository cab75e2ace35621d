//! What a release can do to a host. Each action is done under the lock, to a host that was just read and carries the
//! right name, and can be repeated after a crash.

use std::collections::BTreeSet;

use serde_json::json;
use tokio::time::Instant;
use windlass_policy::slots::release::Action;
use windlass_policy::slots::types::FailureClass;
use windlass_scaleway::types::apple_silicon::{
    ListOperatingSystems, OperatingSystem, ReinstallServer, Server, ServerStatus, UpdateServer,
};

use super::host::{Changed, Over, Presence, Refused, Seen, change, pause, presence, rename, rename_read, resource};
use super::names::{PoolPrefix, is_pending};
use crate::failure;
use crate::journal::{Entry, Phase};
use crate::release::{ReleaseOutcome, ReleaseSpecification};
use crate::run::{Run, milliseconds};
use crate::stop::Stop;

pub(crate) const MARK_STEP: &str = "mark-returning";
pub(crate) const UNMARK_STEP: &str = "unmark-returning";
pub(crate) const REINSTALL_STEP: &str = "reinstall";
pub(crate) const RENAME_STEP: &str = "rename-to-pool";
pub(crate) const TERMINATE_STEP: &str = "terminate";
pub(crate) const SCHEDULE_STEP: &str = "schedule-deletion";
pub(crate) const REBOOT_STEP: &str = "reboot";

/// As a policy asks for the operating system that is the default of the host's type.
const TYPE_DEFAULT: &str = "type-default";

/// How an action ended.
pub(crate) enum End {
    Done(ReleaseOutcome),
    Refused(Action, Box<Refused>),
}

/// Whose a host is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The claimant's, who releases it.
    Claim,
    /// The same, and an earlier asking has begun to give it back.
    Returning,
    /// An earlier asking has put it into the pool already.
    Returned,
    /// Somebody else's.
    Other,
}

/// Compares a host's name with what this release may touch.
pub(crate) fn owner(specification: &ReleaseSpecification, host: &Server, given: &Given) -> Owner {
    let request = &specification.request;
    let in_pool = |prefix: &PoolPrefix| host.name == prefix.name(&request.claim, &host.id);
    if host.name == request.claim.as_str() || (is_pending(&host.name) && given.pending.contains(&host.name)) {
        Owner::Claim
    } else if host.name == request.claim.returning(&host.id) {
        Owner::Returning
    } else if request.pool_prefix.as_ref().is_some_and(in_pool) || given.pool.contains(&host.name) {
        Owner::Returned
    } else {
        Owner::Other
    }
}

/// The names that our own operations gave to a host, by the journal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// By releases of this claim: names in pools, perhaps of another prefix than today's.
    pub(crate) pool: BTreeSet<String>,
    /// By adoptions for this claim.
    pub(crate) pending: BTreeSet<String>,
}

/// What an earlier asking of the same release has done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The operating system that the slot wanted, by name.
    pub(crate) system: Option<String>,
    /// When Scaleway took a reinstallation that the host had not shown.
    pub(crate) taken: Option<u64>,
    /// Whether the host had shown that it is wiped.
    pub(crate) reinstalled: bool,
}

impl Progress {
    /// Whether the disk is wiped, or may be at any moment.
    pub(crate) fn is_wiped(&self) -> bool {
        self.reinstalled || self.taken.is_some()
    }

    /// Adds what a later action did.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.reinstalled |= later.reinstalled;
        self.taken = later.taken.or(self.taken);
        self.system = later.system.or(self.system.take());
    }

    pub(crate) fn from_entries(entries: &[Entry]) -> Self {
        let done = |entry: &Entry| entry.step == REINSTALL_STEP && entry.phase == Phase::Outcome;
        let marked = entries.iter().rev().find(|entry| entry.step == MARK_STEP && entry.phase == Phase::Intent);
        Self {
            taken: entries
                .iter()
                .rev()
                .filter(|entry| entry.step == REINSTALL_STEP && entry.phase == Phase::Note)
                .find_map(|entry| entry.data["taken"].as_u64()),
            system: marked.and_then(|entry| entry.data["system"].as_str()).map(str::to_owned),
            reinstalled: entries.iter().any(done),
        }
    }
}

/// Reads the host under the lock and answers it if it is still the claimant's, or else how the release ended without
/// us.
async fn still_ours(
    run: &Run,
    specification: &ReleaseSpecification,
    given: &Given,
) -> Result<Result<Box<Server>, ReleaseOutcome>, Box<Refused>> {
    let id = &specification.request.host;
    match presence(&run.shared, &run.control, &run.zone, id).await {
        Err(error) => Err(Box::new(Refused::of(failure::of_error(&error)))),
        Ok(Presence::Gone) => Ok(Err(ReleaseOutcome::AlreadyGone)),
        Ok(Presence::Here(host)) => Ok(match owner(specification, &host, given) {
            Owner::Claim | Owner::Returning => Ok(host),
            Owner::Returned => Err(ReleaseOutcome::ReturnedToPool { name: host.name }),
            Owner::Other => Err(ReleaseOutcome::NotOurs { name: host.name }),
        }),
    }
}

macro_rules! ours_or_return {
    ($action:expr, $run:expr, $specification:expr, $given:expr) => {
        match still_ours($run, $specification, $given).await {
            Ok(Ok(host)) => host,
            Ok(Err(outcome)) => return Ok(End::Done(outcome)),
            Err(refused) => return Ok(End::Refused($action, refused)),
        }
    };
}

fn over(over: Over) -> End {
    End::Done(match over {
        Over::Gone => ReleaseOutcome::AlreadyGone,
        Over::Renamed(name) => ReleaseOutcome::NotOurs { name },
    })
}

/// Gives the host back to its pool, in three steps: it loses the claim's name for one that nobody takes for a pool's
/// nor for a claim, it is reinstalled, and it gets its name in the pool.
///
/// (With two steps there would be a moment in which a host stands in the pool, ready, with its old disk and a
/// reinstallation on its way: who claims it then, from another state directory, has it wiped under his work.)
///
/// When it carries the pool's name it is being wiped, and becomes eligible when it is `ready` again. Where Scaleway
/// does not let it be renamed meanwhile (assumption: mac-rename-while-reinstalling), it counts as returned all the
/// same: the next start names it, and our own adoptions take it as it is.
pub(crate) async fn return_to_pool(
    run: &Run,
    specification: &ReleaseSpecification,
    prefix: &PoolPrefix,
    system: Option<&str>,
    given: &Given,
    progress: &Progress,
) -> Result<End, Stop> {
    let action = Action::ReturnToPool;
    let claim = &specification.request.claim;
    let host = ours_or_return!(action, run, specification, given);
    let read_at = Instant::now();
    let id = host.id.as_str();
    let (mark, name) = (claim.returning(id), prefix.name(claim, id));
    // A resumed release knows what an earlier attempt did.
    match progress.taken {
        _ if progress.reinstalled => {
            run.done((REINSTALL_STEP, json!({})), Some(resource(&run.zone, id))).await?;
        }
        Some(taken) => {
            run.write(REINSTALL_STEP, Phase::Note, Some(resource(&run.zone, id)), json!({ "taken": taken })).await?;
        }
        None => {}
    }
    if !progress.reinstalled {
        if host.status.is_transient() && host.status != ServerStatus::Reinstalling {
            // It would be refused (assumption: mac-busy-answer), and the lock is not the place to wait for it.
            let words = format!("host {id} is {} and cannot be reinstalled now", host.status);
            return Ok(End::Refused(
                action,
                Box::new(Refused::of(failure::of_class(FailureClass::TransientState, words))),
            ));
        }
        // Before anything is changed: a system that there is not is no reason to lose the claim.
        let os_id = match system_id(run, &host, system).await {
            Ok(os_id) => os_id,
            Err(refused) => return Ok(End::Refused(action, refused)),
        };
        if host.name != mark {
            let data = json!({ "name": mark, "from": host.name, "pool": name, "system": system });
            run.begin((MARK_STEP, data), Some(resource(&run.zone, id))).await?;
            match rename_read(run, MARK_STEP, (read_at, &*host), &mark).await? {
                Changed::Done(_) => {}
                Changed::Over(ended) => return Ok(over(ended)),
                Changed::Refused(refused) => return Ok(End::Refused(action, refused)),
            }
            run.done((MARK_STEP, json!({ "name": mark })), Some(resource(&run.zone, id))).await?;
        }
        match reinstall(run, specification, &host, &mark, os_id, progress).await? {
            Wiped::Shown => {}
            Wiped::Over(ended) => return Ok(over(ended)),
            Wiped::Refused(refused) => return Ok(End::Refused(action, refused)),
        }
    }
    run.begin((RENAME_STEP, json!({ "name": name, "from": host.name })), Some(resource(&run.zone, id))).await?;
    match rename(run, RENAME_STEP, id, &[&mark, &host.name], &name).await? {
        Changed::Done(_) => {}
        Changed::Over(Over::Gone) => return Ok(over(Over::Gone)),
        // Taken over by an adoption of ours, as it was.
        Changed::Over(Over::Renamed(_)) => {}
        Changed::Refused(refused) => {
            tracing::warn!(operation = %run.id, host = id, failure = %refused.failure.words(),
                "a host that returns to its pool could not be renamed; the next start retries");
            return Ok(End::Done(ReleaseOutcome::ReturnedToPool { name: mark }));
        }
    }
    run.done((RENAME_STEP, json!({ "name": name })), Some(resource(&run.zone, id))).await?;
    Ok(End::Done(ReleaseOutcome::ReturnedToPool { name }))
}

/// What became of a reinstallation.
enum Wiped {
    /// The host shows that it is being wiped, or was.
    Shown,
    Over(Over),
    Refused(Box<Refused>),
}

/// Has the host wiped, and waits until it shows that. An answer alone is none: were the host still `ready` when it gets
/// its name in the pool, it would be claimed and wiped under the next work. What shows is the status, or a new
/// password, which a reinstallation makes (SDK).
///
/// One that was taken and does not show is not sent a second time before
/// [`Limits::second_look`](crate::Limits::second_look): it could come on top of the first, when the host is in use
/// again. (assumption: mac-reinstall-shows)
#[expect(clippy::disallowed_methods, reason = "sent by `change`, which has read the host")]
async fn reinstall(
    run: &Run,
    specification: &ReleaseSpecification,
    host: &Server,
    mark: &str,
    os_id: Option<String>,
    progress: &Progress,
) -> Result<Wiped, Stop> {
    let id = specification.request.host.as_str();
    let shows = |seen: &Server| {
        let password = seen.sudo_password.reveal().zip(host.sudo_password.reveal());
        // The mark may show late; the name before it is the claimant's.
        if seen.name != mark && seen.name != host.name {
            Seen::Over(Over::Renamed(seen.name.clone()))
        } else if seen.status == ServerStatus::Reinstalling || password.is_some_and(|(now, before)| now != before) {
            // No matter who began it: the disk is being wiped, which is what is wanted.
            Seen::Done(Reinstall::Shown)
        } else {
            Seen::NotYet
        }
    };
    run.begin((REINSTALL_STEP, json!({ "system": os_id })), Some(resource(&run.zone, id))).await?;
    let again_from = |taken: u64| taken.saturating_add(milliseconds(run.shared.limits.second_look));
    let taken = progress.taken.filter(|taken| run.now() < again_from(*taken));
    let api = run.shared.client.apple_silicon(&run.zone);
    let request = ReinstallServer { os_id, enable_kext: host.kext_enabled };
    let reinstalled = if host.status == ServerStatus::Reinstalling {
        Reinstall::Shown
    } else if taken.is_some() {
        Reinstall::Taken
    } else {
        let call = || api.reinstall_server(id, &request);
        let answer = |answer: Server| {
            let shown = answer.status == ServerStatus::Reinstalling;
            Some(if shown { Reinstall::Shown } else { Reinstall::Taken })
        };
        match change(run, REINSTALL_STEP, id, call, shows, answer, || None).await? {
            Changed::Done(reinstalled) => reinstalled,
            Changed::Over(ended) => return Ok(Wiped::Over(ended)),
            Changed::Refused(refused) => return Ok(Wiped::Refused(refused)),
        }
    };
    if reinstalled == Reinstall::Taken {
        if taken.is_none() {
            let data = json!({ "taken": run.now() });
            run.write(REINSTALL_STEP, Phase::Note, Some(resource(&run.zone, id)), data).await?;
        }
        match until_it_shows(run, id, shows).await? {
            Seen::Done(_) => {}
            Seen::Over(ended) => return Ok(Wiped::Over(ended)),
            Seen::NotYet => {
                let words = format!("Scaleway accepted the reinstallation of host {id}, but does not show it yet");
                let failed = failure::of_class(FailureClass::TransientState, words);
                return Ok(Wiped::Refused(Box::new(Refused::of(failed))));
            }
        }
    }
    run.done((REINSTALL_STEP, json!({})), Some(resource(&run.zone, id))).await?;
    Ok(Wiped::Shown)
}

/// How far a reinstallation is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reinstall {
    /// Scaleway took it.
    Taken,
    /// The host shows it.
    Shown,
}

/// Looks at the host until it shows the change, it is somebody else's, or the time under the lock is up.
async fn until_it_shows<T>(run: &Run, id: &str, shows: impl Fn(&Server) -> Seen<T>) -> Result<Seen<T>, Stop> {
    let mut attempt = 1;
    loop {
        match presence(&run.shared, &run.control, &run.zone, id).await {
            Ok(Presence::Gone) => return Ok(Seen::Over(Over::Gone)),
            Ok(Presence::Here(seen)) => match shows(&seen) {
                Seen::NotYet => {}
                seen => return Ok(seen),
            },
            // Not seen; the next look may.
            Err(_) => {}
        }
        run.check(REINSTALL_STEP)?;
        if run.deadline.is_none_or(|deadline| Instant::now() >= deadline) {
            return Ok(Seen::NotYet);
        }
        pause(&run.shared, &run.control, attempt).await;
        attempt += 1;
    }
}

/// Gives a host that was on its way into the pool, and was not wiped, the claim's name again: the slot wants it kept as
/// it is. `None`: Scaleway refuses it for now.
pub(crate) async fn unmark(
    run: &Run,
    specification: &ReleaseSpecification,
    host: &Server,
) -> Result<Option<ReleaseOutcome>, Stop> {
    let (id, claim) = (host.id.as_str(), specification.request.claim.as_str());
    run.begin((UNMARK_STEP, json!({ "name": claim, "from": host.name })), Some(resource(&run.zone, id))).await?;
    let changed = rename(run, UNMARK_STEP, id, &[&host.name], claim).await?;
    if matches!(changed, Changed::Refused(_)) {
        return Ok(None);
    }
    run.done((UNMARK_STEP, json!({ "name": claim })), Some(resource(&run.zone, id))).await?;
    Ok(Some(ReleaseOutcome::Kept))
}

/// The id of the operating system to install: the one asked for by name, else the one that the host has. None for the
/// default of the host's type, which Scaleway installs where the id is left out (SDK); it may be another one than the
/// pool's, so it is left out for nothing else.
async fn system_id(run: &Run, host: &Server, wanted: Option<&str>) -> Result<Option<String>, Box<Refused>> {
    let has = host.os.as_ref();
    if wanted == Some(TYPE_DEFAULT) {
        return Ok(None);
    }
    let Some(wanted) = wanted else {
        return Ok(has.map(|os| os.id.clone()).filter(|id| !id.is_empty()));
    };
    if let Some(os) = has.filter(|os| os.name.eq_ignore_ascii_case(wanted) && !os.id.is_empty()) {
        return Ok(Some(os.id.clone()));
    }
    let request =
        ListOperatingSystems { server_type: Some(host.server_type.clone()), ..ListOperatingSystems::default() };
    let systems = run
        .shared
        .client
        .apple_silicon(&run.zone)
        .list_os(&request)
        .await
        .map_err(|error| Box::new(Refused::of(failure::of_error(&error))))?;
    match find_system(&systems, wanted) {
        Some(id) => Ok(Some(id)),
        None => Err(Box::new(Refused::of(failure::of_class(
            FailureClass::InvalidArguments,
            format!("Scaleway has no operating system {wanted:?} for {} in {}", host.server_type, run.zone),
        )))),
    }
}

/// The id of the system of this name, else of the newest of this family.
pub(crate) fn find_system(systems: &[OperatingSystem], wanted: &str) -> Option<String> {
    let version = |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let of_family = systems
        .iter()
        .filter(|os| os.family.eq_ignore_ascii_case(wanted) && !os.is_beta)
        .max_by_key(|os| version(&os.version));
    systems.iter().find(|os| os.name.eq_ignore_ascii_case(wanted)).or(of_family).map(|os| os.id.clone())
}

/// Deletes the host. Under its billing floor Scaleway refuses.
#[expect(clippy::disallowed_methods, reason = "sent by `change`, which has read the host")]
pub(crate) async fn terminate(run: &Run, specification: &ReleaseSpecification, given: &Given) -> Result<End, Stop> {
    let action = Action::Terminate;
    let host = ours_or_return!(action, run, specification, given);
    let id = host.id.as_str();
    run.begin((TERMINATE_STEP, json!({ "name": host.name })), Some(resource(&run.zone, id))).await?;
    let api = run.shared.client.apple_silicon(&run.zone);
    let changed = change(
        run,
        TERMINATE_STEP,
        id,
        || api.delete_server(id),
        |seen| if seen.name == host.name { Seen::NotYet } else { Seen::Over(Over::Renamed(seen.name.clone())) },
        // Believed when it is seen: an answer without a body can say nothing wrong, and nothing right either.
        |()| None,
        || Some(()),
    )
    .await?;
    match changed {
        Changed::Done(()) => {}
        Changed::Over(ended) => return Ok(over(ended)),
        Changed::Refused(mut refused) => {
            // Scaleway's words may leave the date out; the host has it.
            refused.not_before = refused.not_before.or(crate::release::instant(host.deletable_at()));
            return Ok(End::Refused(action, refused));
        }
    }
    run.shared.machines.hosts.forget(&run.zone, id);
    run.done((TERMINATE_STEP, json!({})), Some(resource(&run.zone, id))).await?;
    Ok(End::Done(ReleaseOutcome::Terminated))
}

/// Has Scaleway delete the host as soon as it can be deleted. (assumption: mac-scheduled-deletion)
#[expect(clippy::disallowed_methods, reason = "sent by `change`, which has read the host")]
pub(crate) async fn schedule_deletion(
    run: &Run,
    specification: &ReleaseSpecification,
    given: &Given,
) -> Result<End, Stop> {
    let action = Action::ScheduleDeletion;
    let host = ours_or_return!(action, run, specification, given);
    let id = host.id.as_str();
    run.begin((SCHEDULE_STEP, json!({ "name": host.name })), Some(resource(&run.zone, id))).await?;
    let api = run.shared.client.apple_silicon(&run.zone);
    let request = UpdateServer::schedule_deletion(true);
    let changed = change(
        run,
        SCHEDULE_STEP,
        id,
        || api.update_server(id, &request),
        |seen| {
            if seen.name != host.name {
                Seen::Over(Over::Renamed(seen.name.clone()))
            } else if seen.deletion_scheduled {
                Seen::Done(seen.clone())
            } else {
                Seen::NotYet
            }
        },
        |server: Server| server.deletion_scheduled.then_some(server),
        || None,
    )
    .await?;
    let scheduled = match changed {
        Changed::Done(server) => server,
        Changed::Over(ended) => return Ok(over(ended)),
        Changed::Refused(refused) => return Ok(End::Refused(action, refused)),
    };
    run.shared.machines.hosts.replace(&run.zone, &scheduled);
    let deletable_at = crate::release::instant(scheduled.deletable_at().or(host.deletable_at()));
    run.done((SCHEDULE_STEP, json!({ "deletable-at": deletable_at })), Some(resource(&run.zone, id))).await?;
    Ok(End::Done(ReleaseOutcome::DeletionScheduled { deletable_at }))
}

/// Restarts the host, for whoever sets it up to try again.
#[expect(clippy::disallowed_methods, reason = "sent by `change`, which has read the host")]
pub(crate) async fn reboot(run: &Run, specification: &ReleaseSpecification, given: &Given) -> Result<End, Stop> {
    let action = Action::Reboot;
    let host = ours_or_return!(action, run, specification, given);
    let id = host.id.as_str();
    // By the date, whoever comes after a crash tells whether it took effect.
    run.begin((REBOOT_STEP, json!({ "updated-at": host.updated_at })), Some(resource(&run.zone, id))).await?;
    let api = run.shared.client.apple_silicon(&run.zone);
    let changed = change(
        run,
        REBOOT_STEP,
        id,
        || api.reboot_server(id),
        |seen| match &seen.status {
            _ if seen.name != host.name => Seen::Over(Over::Renamed(seen.name.clone())),
            ServerStatus::Rebooting => Seen::Done(()),
            _ => Seen::NotYet,
        },
        |_| Some(()),
        || None,
    )
    .await?;
    match changed {
        Changed::Done(()) => {}
        Changed::Over(ended) => return Ok(over(ended)),
        Changed::Refused(refused) => return Ok(End::Refused(action, refused)),
    }
    run.done((REBOOT_STEP, json!({})), Some(resource(&run.zone, id))).await?;
    Ok(End::Done(ReleaseOutcome::Rebooted))
}
