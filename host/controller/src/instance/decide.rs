//! What to do next about an instance, as a function on data: nothing here calls anybody.

use std::time::Duration;

use jiff::Timestamp;
use windlass_scaleway::types::instance::{Server, ServerState};

use crate::job_kind::JobKind;
use crate::kinds::{OperationStatus, Phase, REPLACEMENT_DUE};
use crate::next_step::Next;
use crate::outcome::not_yet;
use crate::owners::{Owners, ProvisioningGate};

/// What is said of a server about which the release policy is asked.
pub(super) const RECOVERING: &str = "the release policy decides about the server, because its Machine is unhealthy";

/// What the zone's listing shows of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presence<'a> {
    /// The zone could not be listed, or nobody looked.
    Unseen,
    /// It is there, and carries our owner tag.
    There(&'a Server),
    /// It is not in the list.
    Absent,
}

/// Everything that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    /// Whether its server is to be left alone when it is deleted.
    pub(crate) abandoned: bool,
    /// Whether a creation was ever begun: the operation stands in the object's annotation.
    pub(crate) begun: bool,
    /// Why a server or an operation that the object names is not used, where it was made for another.
    pub(crate) refused: Option<&'a str>,
    pub(crate) owners: &'a Owners,
    /// Why the object's configuration cannot be used, where it cannot.
    pub(crate) misconfigured: Option<&'a str>,
    /// The server's id, from `spec.providerID`, else from the status.
    pub(crate) server_id: Option<&'a str>,
    pub(crate) sight: Presence<'a>,
    pub(crate) busy: Option<JobKind>,
    pub(crate) last: Option<&'a OperationStatus>,
    pub(crate) failed: bool,
    /// Whether a MachineRemediation waits for a verdict.
    pub(crate) remediation: bool,
    /// Why the server was given up, where it was.
    pub(crate) given_up: Option<&'a str>,
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
    if let Some(why) = &seen.owners.paused {
        return Next::Pause(why.clone());
    }
    match seen.busy {
        Some(JobKind::CleanUp) => {
            return Next::wait(Phase::Deleting, "Deleting", "the server is being deleted", None);
        }
        Some(_) => return Next::CallOff,
        None => {}
    }
    if !seen.begun && seen.server_id.is_none() {
        return Next::RemoveFinalizer;
    }
    if seen.abandoned {
        return Next::Abandon;
    }
    match not_yet(seen.last, &[JobKind::CleanUp], seen.now) {
        Some(wait) => Next::wait_on(Phase::Deleting, seen.last, "DeletionFailed", wait),
        None => Next::Start(JobKind::CleanUp),
    }
}

fn provision(seen: &Observed<'_>) -> Next {
    if let Some(why) = &seen.owners.paused {
        return Next::Pause(why.clone());
    }
    if let ProvisioningGate::Waiting { gate, message } = &seen.owners.provisioning
        && gate.is_unknown()
        && seen.server_id.is_none()
    {
        return Next::wait(Phase::Pending, gate.reason(), message, Some(seen.interval));
    }
    if !seen.finalizer {
        return Next::Mark;
    }
    if let Some(kind) = seen.busy {
        return match kind {
            JobKind::Inspect => Next::LookAgain { after: seen.interval },
            JobKind::Recover => Next::wait(Phase::Recovering, "Recovering", RECOVERING, None),
            _ => Next::wait(Phase::Creating, "Creating", "the server is being created", None),
        };
    }
    if let Some(why) = seen.given_up {
        return Next::wait(Phase::Failed, REPLACEMENT_DUE, why, Some(seen.interval));
    }
    if seen.server_id.is_some() {
        return look_after(seen);
    }
    if let Some(why) = seen.refused {
        return Next::wait(Phase::Failed, "ServerNotApproved", why, Some(seen.interval));
    }
    if let ProvisioningGate::Waiting { gate, message } = &seen.owners.provisioning {
        return Next::wait(Phase::Pending, gate.reason(), message, Some(seen.interval));
    }
    if let Some(problem) = seen.misconfigured {
        return Next::wait(Phase::Failed, "InvalidConfiguration", problem, None);
    }
    if seen.failed {
        let message = seen.last.and_then(|last| last.message.clone()).unwrap_or_default();
        return Next::wait(Phase::Failed, "Failed", message, None);
    }
    match not_yet(seen.last, &[JobKind::Create], seen.now) {
        Some(wait) => Next::wait_on(Phase::Pending, seen.last, "CreationFailed", wait),
        None => Next::Start(JobKind::Create),
    }
}

/// A server that is ours already.
fn look_after(seen: &Observed<'_>) -> Next {
    if seen.remediation {
        return match not_yet(seen.last, &[JobKind::Recover], seen.now) {
            Some(wait) => Next::wait_on(Phase::Recovering, seen.last, "RecoveryWaiting", wait),
            None => Next::Start(JobKind::Recover),
        };
    }
    let server = match seen.sight {
        Presence::Unseen => return Next::LookAgain { after: seen.interval },
        Presence::Absent if !seen.failed => {
            return match not_yet(seen.last, &[JobKind::Inspect], seen.now) {
                Some(wait) => Next::LookAgain { after: wait },
                None => Next::Start(JobKind::Inspect),
            };
        }
        Presence::Absent => return Next::LookAgain { after: seen.interval },
        Presence::There(server) => server,
    };
    // A server that stands still is not restarted behind its owner's back; a health check of Cluster API asks for that.
    let trouble = match &server.state {
        ServerState::Running => None,
        state => Some(("ServerNotRunning", format!("the server is {}", state.as_str()))),
    };
    Next::Provisioned { trouble }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owners::Gate;

    fn owners(provisioning: ProvisioningGate) -> Owners {
        Owners { paused: None, provisioning, cluster: None, machine: None, joined: false, node_ready: None }
    }

    fn last(kind: JobKind, state: &str) -> OperationStatus {
        OperationStatus {
            kind: kind.as_str().into(),
            state: state.into(),
            not_before: Some("2026-08-01T12:00:30Z".into()),
            ..OperationStatus::default()
        }
    }

    fn seen(owners: &Owners) -> Observed<'_> {
        Observed {
            deleting: false,
            finalizer: true,
            abandoned: false,
            begun: false,
            refused: None,
            owners,
            misconfigured: None,
            server_id: None,
            sight: Presence::Unseen,
            busy: None,
            last: None,
            failed: false,
            remediation: false,
            given_up: None,
            interval: Duration::from_secs(60),
            now: "2026-08-01T12:00:00Z".parse().unwrap(),
        }
    }

    #[test]
    fn every_situation_has_its_decision() {
        let alone = owners(ProvisioningGate::Alone);
        let no_data = owners(ProvisioningGate::Waiting { gate: Gate::BootstrapData, message: String::new() });
        let no_owner = owners(ProvisioningGate::Waiting { gate: Gate::Owner, message: String::new() });
        let paused = Owners { paused: Some("p".into()), ..alone.clone() };
        let running = Server { state: ServerState::Running, ..Server::default() };
        let stopped = Server { state: ServerState::Stopped, ..Server::default() };
        let failed = last(JobKind::Create, "failed");
        let left = last(JobKind::CleanUp, "failed");
        let asked = last(JobKind::Recover, "waiting");
        let there = |sight| Observed { server_id: Some("s"), begun: true, sight, ..seen(&alone) };
        let deleted = Observed { deleting: true, begun: true, ..seen(&alone) };
        for (observed, expected) in [
            (Observed { finalizer: false, ..seen(&alone) }, "Mark"),
            (Observed { finalizer: false, ..seen(&no_owner) }, "Wait WaitingForOwner"),
            (seen(&no_data), "Wait WaitingForBootstrapData"),
            (seen(&paused), "Pause"),
            (seen(&alone), "Start create"),
            (Observed { begun: true, ..seen(&alone) }, "Start create"),
            (Observed { busy: Some(JobKind::Create), ..seen(&alone) }, "Wait Creating"),
            (Observed { last: Some(&failed), ..seen(&alone) }, "Wait CreationFailed"),
            (Observed { misconfigured: Some("x"), ..seen(&alone) }, "Wait InvalidConfiguration"),
            (Observed { refused: Some("another's"), ..seen(&alone) }, "Wait ServerNotApproved"),
            (Observed { refused: Some("an old annotation"), ..there(Presence::There(&running)) }, "Provisioned"),
            (Observed { begun: false, refused: Some("another's"), ..deleted }, "RemoveFinalizer"),
            (there(Presence::There(&running)), "Provisioned"),
            (there(Presence::There(&stopped)), "Provisioned ServerNotRunning"),
            (there(Presence::Absent), "Start inspect"),
            (Observed { failed: true, ..there(Presence::Absent) }, "LookAgain"),
            (there(Presence::Unseen), "LookAgain"),
            (Observed { remediation: true, ..there(Presence::There(&running)) }, "Start recover"),
            (Observed { remediation: true, ..there(Presence::Absent) }, "Start recover"),
            (Observed { remediation: true, last: Some(&asked), ..there(Presence::Unseen) }, "Wait RecoveryWaiting"),
            (Observed { busy: Some(JobKind::Recover), ..there(Presence::Unseen) }, "Wait Recovering"),
            (Observed { given_up: Some("why"), remediation: true, ..there(Presence::Absent) }, "Wait ReplacementDue"),
            (Observed { given_up: Some("why"), ..deleted }, "Start clean-up"),
            (deleted, "Start clean-up"),
            (Observed { abandoned: true, ..deleted }, "Abandon"),
            (Observed { abandoned: true, last: Some(&left), ..deleted }, "Abandon"),
            (Observed { abandoned: true, busy: Some(JobKind::CleanUp), ..deleted }, "Wait Deleting"),
            (Observed { abandoned: true, begun: false, ..deleted }, "RemoveFinalizer"),
            (Observed { abandoned: true, ..there(Presence::There(&running)) }, "Provisioned"),
            (Observed { busy: Some(JobKind::Create), ..deleted }, "CallOff"),
            (Observed { busy: Some(JobKind::CleanUp), ..deleted }, "Wait Deleting"),
            (Observed { last: Some(&left), ..deleted }, "Wait DeletionFailed"),
            (Observed { last: Some(&failed), ..deleted }, "Start clean-up"),
            (Observed { begun: false, ..deleted }, "RemoveFinalizer"),
            (Observed { begun: false, server_id: Some("s"), ..deleted }, "Start clean-up"),
            (Observed { owners: &paused, ..deleted }, "Pause"),
            (Observed { finalizer: false, ..deleted }, "Nothing"),
        ] {
            assert_eq!(decide(&observed).word(), expected, "{observed:#?}");
        }
    }
}
