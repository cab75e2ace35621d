//! What to do next about a Mac, as a function on data: nothing here calls anybody.

use std::time::Duration;

use jiff::Timestamp;
use windlass_scaleway::types::apple_silicon::{Server as Host, ServerStatus};

use super::setup::Due;
use crate::job_kind::JobKind;
use crate::kinds::{BootstrapStatus, OperationStatus, Phase, REPLACEMENT_DUE};
use crate::next_step::Next;
use crate::outcome::not_yet;
use crate::owners::{Owners, ProvisioningGate};

/// What is said of a host on which the tear-down runs.
pub(super) const TEARING_DOWN: &str = "the tear-down script runs on the host before the host is released";

/// What is said of a host about which the release policy is asked.
pub(super) const RECOVERING: &str =
    "the release policy decides about the host, because its set-up failed or its Machine is unhealthy";

/// What the zone's listing shows of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presence<'a> {
    /// The zone could not be listed, or nobody looked.
    Unseen,
    /// It is there.
    There(&'a Host),
    /// It is not in the list.
    Absent,
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    /// Whether its host is to be left alone when it is deleted.
    pub(crate) abandoned: bool,
    /// Whether a claim was ever begun or handed over, as far as the journal or the object's status says.
    pub(crate) begun: bool,
    /// The claim that the object may use.
    pub(crate) claim: &'a str,
    /// Whether a claim stands in the object's annotation.
    pub(crate) annotated: bool,
    /// Why the claim in the annotation is not used, where it is another.
    pub(crate) refused: Option<&'a str>,
    pub(crate) owners: &'a Owners,
    /// Why the object's configuration cannot be used, where it cannot.
    pub(crate) misconfigured: Option<&'a str>,
    /// The host's id, from `spec.providerID`, else from the status.
    pub(crate) host_id: Option<&'a str>,
    /// The host of that id, else the one that carries the claim.
    pub(crate) sight: Presence<'a>,
    /// The job that runs for this object.
    pub(crate) busy: Option<JobKind>,
    pub(crate) last: Option<&'a OperationStatus>,
    /// Failed set-ups, whoever's.
    pub(crate) failures: u32,
    pub(crate) bootstrap: &'a BootstrapStatus,
    /// Whether a MachineRemediation waits for a verdict.
    pub(crate) remediation: bool,
    /// Why the host was given up, where it was.
    pub(crate) given_up: Option<&'a str>,
    /// Whether the Secret with the credentials was written.
    pub(crate) credentials: bool,
    pub(crate) failed: bool,
    /// Whether it was said that the machine is there.
    pub(crate) ready: bool,
    /// Whether the host is to be set up by us.
    pub(crate) setup: Due,
    /// Whether it is to be torn down, before it is released.
    pub(crate) teardown: Due,
    pub(crate) interval: Duration,
    pub(crate) now: Timestamp,
}

pub(crate) fn decide(seen: &Observed<'_>) -> Next {
    if seen.deleting { release(seen) } else { provision(seen) }
}

fn release(seen: &Observed<'_>) -> Next {
    if !seen.finalizer {
        return Next::Nothing;
    }
    // A paused object of a moved cluster is deleted by the mover: releasing its host would take it from its new owner.
    if let Some(why) = &seen.owners.paused {
        return Next::Pause(why.clone());
    }
    match seen.busy {
        Some(JobKind::Release) => {
            return Next::wait(Phase::Releasing, "Releasing", "the host is being released", None);
        }
        Some(JobKind::TearDown) => return Next::wait(Phase::Releasing, "TearingDown", TEARING_DOWN, None),
        Some(_) => return Next::CallOff,
        None => {}
    }
    let is_nothing = seen.host_id.is_none() && matches!(seen.sight, Presence::Absent);
    if seen.abandoned && !is_nothing {
        return Next::Abandon;
    }
    if let Some(next) = tear_down(seen) {
        return next;
    }
    if let Some(wait) = not_yet(seen.last, &[JobKind::Release], seen.now) {
        return Next::wait_on(Phase::Releasing, seen.last, "ReleaseWaiting", wait);
    }
    match (seen.host_id, seen.sight) {
        // Whatever is in a zone that nobody can list, or that is none: nothing of it was ever to be this object's.
        (_, Presence::Unseen) if !seen.begun => Next::RemoveFinalizer,
        (Some(_), _) | (None, Presence::There(_)) => Next::Start(JobKind::Release),
        (None, Presence::Absent) => Next::RemoveFinalizer,
        (None, Presence::Unseen) => Next::wait(
            Phase::Releasing,
            "ListingFailed",
            "cannot check whether a host has this object's claim, because the hosts of the zone cannot be listed",
            Some(seen.interval),
        ),
    }
}

/// What comes before the release. On a host that cannot be reached, or is not ours any more, nothing.
fn tear_down(seen: &Observed<'_>) -> Option<Next> {
    let reachable = match seen.sight {
        Presence::There(host) => host.name == seen.claim && host.status == ServerStatus::Ready,
        Presence::Absent => false,
        Presence::Unseen => true,
    };
    match (seen.teardown, seen.sight) {
        (Due::Never, _) => None,
        _ if !reachable => None,
        (_, Presence::Unseen) => {
            let message = "cannot run the tear-down script yet, because the hosts of the zone cannot be listed";
            Some(Next::wait(Phase::Releasing, "ListingFailed", message, Some(seen.interval)))
        }
        (Due::In(wait), _) => Some(Next::wait_on(Phase::Releasing, seen.last, "TearingDown", wait)),
        (Due::Now, _) => Some(Next::Start(JobKind::TearDown)),
    }
}

fn provision(seen: &Observed<'_>) -> Next {
    if let Some(why) = &seen.owners.paused {
        return Next::Pause(why.clone());
    }
    if let ProvisioningGate::Waiting { gate, message } = &seen.owners.provisioning
        && gate.is_unknown()
        && seen.host_id.is_none()
    {
        return Next::wait(Phase::Pending, gate.reason(), message, Some(seen.interval));
    }
    // A host that carries this object's own claim is its, whatever the annotation says by now.
    if let Some(why) = seen.refused
        && !matches!(seen.sight, Presence::There(host) if host.name == seen.claim)
    {
        return Next::wait(Phase::Failed, "ClaimNotApproved", why, Some(seen.interval));
    }
    if !seen.finalizer || !seen.annotated {
        return Next::Mark;
    }
    match seen.busy {
        Some(JobKind::Recover) => {
            return Next::wait(Phase::Recovering, "Recovering", RECOVERING, None);
        }
        Some(JobKind::Inspect) => return Next::LookAgain { after: seen.interval },
        // The machine is there meanwhile.
        Some(JobKind::SetUp) => {}
        Some(_) => return Next::wait(Phase::Adopting, "Adopting", "a host of the pool is being claimed", None),
        None => {}
    }
    if let Some(why) = seen.given_up {
        return Next::wait(Phase::Failed, REPLACEMENT_DUE, why, Some(seen.interval));
    }
    if seen.host_id.is_some() {
        return look_after(seen);
    }
    if let ProvisioningGate::Waiting { gate, message } = &seen.owners.provisioning {
        return Next::wait(Phase::Pending, gate.reason(), message, Some(seen.interval));
    }
    if let Some(problem) = seen.misconfigured {
        return Next::wait(Phase::Failed, "InvalidConfiguration", problem, None);
    }
    if let Some(wait) = not_yet(seen.last, &[JobKind::Adopt], seen.now) {
        return Next::wait_on(Phase::Pending, seen.last, "NoHostAvailable", wait);
    }
    Next::Start(JobKind::Adopt)
}

/// What is said of a host that does not carry the object's claim.
pub(super) fn renamed(host: &Host, claim: &str) -> String {
    format!(
        "the host {} is named {:?} and not {claim:?}: somebody else may use it, so Windlass leaves it alone",
        host.id, host.name
    )
}

/// A host that is ours already.
fn look_after(seen: &Observed<'_>) -> Next {
    // Before anything is made of the host's name, or of its absence: a recovery that was cut short may have changed
    // them.
    let due = seen.remediation || seen.failures > seen.bootstrap.judged_failures;
    if seen.busy.is_none() && !matches!(seen.sight, Presence::Unseen) && due {
        return match not_yet(seen.last, &[JobKind::Recover], seen.now) {
            Some(wait) => Next::wait_on(Phase::Recovering, seen.last, "RecoveryWaiting", wait),
            None => Next::Start(JobKind::Recover),
        };
    }
    let host = match seen.sight {
        Presence::Unseen => return Next::LookAgain { after: seen.interval },
        // One listing is believed only together with a look at the host itself.
        Presence::Absent if !seen.failed => {
            return match not_yet(seen.last, &[JobKind::Inspect], seen.now) {
                Some(wait) => Next::LookAgain { after: wait },
                None => Next::Start(JobKind::Inspect),
            };
        }
        Presence::Absent => return Next::LookAgain { after: seen.interval },
        Presence::There(host) => host,
    };
    if host.name != seen.claim {
        return Next::wait(Phase::Failed, "HostRenamed", renamed(host, seen.claim), Some(seen.interval));
    }
    if !host.delivered || host.status == ServerStatus::Starting {
        let message =
            format!("the host {} was ordered and is not delivered yet (status {})", host.id, host.status.as_str());
        return Next::wait(Phase::Ordering, "WaitingForDelivery", message, Some(seen.interval));
    }
    if !seen.credentials {
        return match not_yet(seen.last, &[JobKind::Inspect], seen.now) {
            Some(wait) => Next::LookAgain { after: wait },
            None => Next::Start(JobKind::Inspect),
        };
    }
    let trouble = if host.deletion_scheduled {
        Some(("DeletionScheduled", "the deletion of the host is scheduled: Scaleway will delete it".to_owned()))
    } else if host.status != ServerStatus::Ready {
        Some(("HostNotReady", format!("the host is {}", host.status.as_str())))
    } else {
        None
    };
    // What waits for the machine alone begins at the same time as its set-up.
    if trouble.is_none() && seen.ready && seen.busy.is_none() && seen.setup == Due::Now {
        return Next::Start(JobKind::SetUp);
    }
    Next::Provisioned { trouble }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::Gate;

    const CLAIM: &str = "team-mini-0011aabb";

    fn owners(provisioning: ProvisioningGate) -> Owners {
        Owners { paused: None, provisioning, cluster: None, machine: None, joined: false, node_ready: None }
    }

    fn host() -> Host {
        Host { id: "h".into(), name: CLAIM.into(), delivered: true, status: ServerStatus::Ready, ..Host::default() }
    }

    fn last(kind: JobKind, state: &str, not_before: Option<&str>) -> OperationStatus {
        OperationStatus {
            kind: kind.as_str().into(),
            state: state.into(),
            attempt: 1,
            reason: Some("ItsReason".into()),
            message: Some("its words".into()),
            not_before: not_before.map(str::to_owned),
            ..OperationStatus::default()
        }
    }

    static BOOTSTRAP: BootstrapStatus = BootstrapStatus { judged_failures: 2, failures_before: 0, rebooted: false };

    fn seen<'a>(owners: &'a Owners) -> Observed<'a> {
        Observed {
            deleting: false,
            finalizer: true,
            abandoned: false,
            begun: true,
            claim: CLAIM,
            annotated: true,
            refused: None,
            owners,
            misconfigured: None,
            host_id: None,
            sight: Presence::Unseen,
            busy: None,
            last: None,
            failures: 0,
            bootstrap: &BOOTSTRAP,
            remediation: false,
            given_up: None,
            credentials: true,
            failed: false,
            ready: true,
            setup: Due::Never,
            teardown: Due::Never,
            interval: Duration::from_secs(60),
            now: "2026-08-01T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_living_object_is_decided_upon_as_the_table_says() {
        let alone = owners(ProvisioningGate::Alone);
        let waiting = |gate| owners(ProvisioningGate::Waiting { gate, message: String::new() });
        let paused = Owners { paused: Some("p".into()), ..alone.clone() };
        let (no_owner, no_data) = (waiting(Gate::Owner), waiting(Gate::BootstrapData));
        let here = host();
        let renamed = Host { name: "pool-1".into(), ..host() };
        let ordered = Host { delivered: false, status: ServerStatus::Starting, ..host() };
        let rebooting = Host { status: ServerStatus::Rebooting, ..host() };
        let doomed = Host { deletion_scheduled: true, ..host() };
        let soon = last(JobKind::Adopt, "waiting", Some("2026-08-01T12:00:30Z"));
        let past = last(JobKind::Adopt, "waiting", Some("2026-08-01T11:59:59Z"));
        let failed = last(JobKind::Adopt, "failed", Some("2026-08-01T12:00:30Z"));
        let unreasoned = OperationStatus { reason: None, ..soon.clone() };
        let of_release = last(JobKind::Release, "waiting", Some("2026-08-01T12:00:30Z"));
        let with = |sight| Observed { host_id: Some("h"), sight, ..seen(&alone) };
        for (observed, expected) in [
            (Observed { finalizer: false, ..seen(&alone) }, "Mark"),
            (Observed { annotated: false, ..seen(&alone) }, "Mark"),
            (Observed { refused: Some("another's"), ..seen(&alone) }, "Wait ClaimNotApproved"),
            (Observed { refused: Some("another's"), ..with(Presence::There(&renamed)) }, "Wait ClaimNotApproved"),
            (Observed { refused: Some("another's"), ..with(Presence::Unseen) }, "Wait ClaimNotApproved"),
            (Observed { refused: Some("another's"), ..with(Presence::There(&here)) }, "Provisioned"),
            (Observed { finalizer: false, ..seen(&no_owner) }, "Wait WaitingForOwner"),
            (Observed { finalizer: false, ..seen(&no_data) }, "Mark"),
            (seen(&no_data), "Wait WaitingForBootstrapData"),
            (seen(&paused), "Pause"),
            (Observed { finalizer: false, ..seen(&paused) }, "Pause"),
            (Observed { misconfigured: Some("no pool"), ..seen(&alone) }, "Wait InvalidConfiguration"),
            (seen(&alone), "Start adopt"),
            (Observed { busy: Some(JobKind::Adopt), ..seen(&alone) }, "Wait Adopting"),
            (Observed { last: Some(&soon), ..seen(&alone) }, "Wait ItsReason"),
            (Observed { last: Some(&unreasoned), ..seen(&alone) }, "Wait NoHostAvailable"),
            (Observed { last: Some(&past), ..seen(&alone) }, "Start adopt"),
            (Observed { last: Some(&failed), ..seen(&alone) }, "Wait ItsReason"),
            (Observed { last: Some(&of_release), ..seen(&alone) }, "Start adopt"),
            (with(Presence::Unseen), "LookAgain"),
            (with(Presence::Absent), "Start inspect"),
            (Observed { failed: true, ..with(Presence::Absent) }, "LookAgain"),
            (with(Presence::There(&renamed)), "Wait HostRenamed"),
            (with(Presence::There(&ordered)), "Wait WaitingForDelivery"),
            (Observed { credentials: false, ..with(Presence::There(&here)) }, "Start inspect"),
            (Observed { failures: 2, ..with(Presence::There(&here)) }, "Provisioned"),
            (Observed { failures: 3, ..with(Presence::There(&here)) }, "Start recover"),
            (Observed { remediation: true, ..with(Presence::There(&here)) }, "Start recover"),
            (Observed { remediation: true, ..with(Presence::Unseen) }, "LookAgain"),
            (Observed { given_up: Some("why"), failures: 3, ..with(Presence::There(&here)) }, "Wait ReplacementDue"),
            // A recovery that was cut short has given the host away, or deleted it.
            (Observed { failures: 3, ..with(Presence::There(&renamed)) }, "Start recover"),
            (Observed { failures: 3, ..with(Presence::Absent) }, "Start recover"),
            (Observed { failures: 3, ..with(Presence::Unseen) }, "LookAgain"),
            (Observed { failures: 3, busy: Some(JobKind::Recover), ..with(Presence::There(&here)) }, "Wait Recovering"),
            (with(Presence::There(&rebooting)), "Provisioned HostNotReady"),
            (with(Presence::There(&doomed)), "Provisioned DeletionScheduled"),
            (with(Presence::There(&here)), "Provisioned"),
            (Observed { setup: Due::Now, ..with(Presence::There(&here)) }, "Start set-up"),
            (Observed { setup: Due::Now, ready: false, ..with(Presence::There(&here)) }, "Provisioned"),
            (Observed { setup: Due::Now, ..with(Presence::There(&rebooting)) }, "Provisioned HostNotReady"),
            (Observed { setup: Due::Now, ..with(Presence::There(&renamed)) }, "Wait HostRenamed"),
            (Observed { setup: Due::Now, credentials: false, ..with(Presence::There(&here)) }, "Start inspect"),
            (Observed { setup: Due::In(Duration::from_secs(5)), ..with(Presence::There(&here)) }, "Provisioned"),
            (Observed { setup: Due::Now, busy: Some(JobKind::SetUp), ..with(Presence::There(&here)) }, "Provisioned"),
            // A failure is judged before another run.
            (Observed { setup: Due::Now, failures: 3, ..with(Presence::There(&here)) }, "Start recover"),
            // What is provisioned stays so when something above it goes.
            (Observed { host_id: Some("h"), sight: Presence::There(&here), ..seen(&no_owner) }, "Provisioned"),
        ] {
            assert_eq!(decide(&observed).word(), expected, "{observed:#?}");
        }
    }

    #[test]
    fn a_deleted_object_is_decided_upon_as_the_table_says() {
        let alone = owners(ProvisioningGate::Alone);
        let orphan = owners(ProvisioningGate::Waiting { gate: Gate::Machine, message: String::new() });
        let paused = Owners { paused: Some("p".into()), ..alone.clone() };
        let here = host();
        let renamed = Host { name: "pool-1".into(), ..host() };
        let rebooting = Host { status: ServerStatus::Rebooting, ..host() };
        let soon = last(JobKind::Release, "waiting", Some("2026-08-01T12:00:30Z"));
        let past = last(JobKind::Release, "waiting", Some("2026-08-01T12:00:00Z"));
        let of_adoption = last(JobKind::Adopt, "failed", Some("2026-08-01T12:00:30Z"));
        let deleted = |owners| Observed { deleting: true, ..seen(owners) };
        let with_host = |owners| Observed { host_id: Some("h"), ..deleted(owners) };
        for (observed, expected) in [
            (Observed { finalizer: false, ..deleted(&alone) }, "Nothing"),
            (with_host(&paused), "Pause"),
            // An annotation that was taken away, or names another's, lets nothing leak.
            (Observed { annotated: false, ..with_host(&alone) }, "Start release"),
            (
                Observed { refused: Some("another's"), sight: Presence::There(&here), ..deleted(&alone) },
                "Start release",
            ),
            (with_host(&alone), "Start release"),
            // Nothing above it is needed to release it.
            (with_host(&orphan), "Start release"),
            (Observed { busy: Some(JobKind::Release), ..with_host(&alone) }, "Wait Releasing"),
            (Observed { busy: Some(JobKind::Adopt), ..deleted(&alone) }, "CallOff"),
            (Observed { last: Some(&soon), ..with_host(&alone) }, "Wait ItsReason"),
            (Observed { last: Some(&past), ..with_host(&alone) }, "Start release"),
            (Observed { last: Some(&of_adoption), ..with_host(&alone) }, "Start release"),
            (Observed { misconfigured: Some("no pool"), ..with_host(&alone) }, "Start release"),
            // The tear-down comes first, on a host that can be reached and is the object's.
            (Observed { teardown: Due::Now, sight: Presence::There(&here), ..with_host(&alone) }, "Start tear-down"),
            (
                Observed {
                    teardown: Due::In(Duration::from_secs(5)),
                    sight: Presence::There(&here),
                    ..with_host(&alone)
                },
                "Wait TearingDown",
            ),
            (Observed { teardown: Due::Now, sight: Presence::There(&rebooting), ..with_host(&alone) }, "Start release"),
            (Observed { teardown: Due::Now, sight: Presence::There(&renamed), ..with_host(&alone) }, "Start release"),
            (Observed { teardown: Due::Now, sight: Presence::Absent, ..with_host(&alone) }, "Start release"),
            (Observed { teardown: Due::Now, ..with_host(&alone) }, "Wait ListingFailed"),
            (Observed { begun: false, ..with_host(&alone) }, "RemoveFinalizer"),
            (Observed { begun: false, host_id: None, ..with_host(&alone) }, "RemoveFinalizer"),
            (Observed { host_id: None, ..with_host(&alone) }, "Wait ListingFailed"),
            (Observed { busy: Some(JobKind::TearDown), ..with_host(&alone) }, "Wait TearingDown"),
            (Observed { busy: Some(JobKind::SetUp), ..with_host(&alone) }, "CallOff"),
            (Observed { abandoned: true, last: Some(&soon), ..with_host(&alone) }, "Abandon"),
            (Observed { abandoned: true, teardown: Due::Now, ..with_host(&alone) }, "Abandon"),
            (Observed { abandoned: true, busy: Some(JobKind::Release), ..with_host(&alone) }, "Wait Releasing"),
            (Observed { abandoned: true, sight: Presence::There(&here), ..deleted(&alone) }, "Abandon"),
            (Observed { abandoned: true, sight: Presence::Absent, ..deleted(&alone) }, "RemoveFinalizer"),
            // An adoption that was called off, or died, may have left the claim on a host.
            (Observed { sight: Presence::There(&here), ..deleted(&alone) }, "Start release"),
            (Observed { sight: Presence::Absent, ..deleted(&alone) }, "RemoveFinalizer"),
            (Observed { sight: Presence::Unseen, ..deleted(&alone) }, "Wait ListingFailed"),
        ] {
            assert_eq!(decide(&observed).word(), expected, "{observed:#?}");
        }
    }
}
