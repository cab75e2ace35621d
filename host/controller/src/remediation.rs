//! `MachineRemediation`: Cluster API's contract of external remediation. A MachineHealthCheck makes one for a Machine
//! that it calls unhealthy, with the Machine's name, and deletes it when the Machine is healthy again.
//!
//! Nothing is done here. The request is written into the status of the machine object below the Machine, whose own
//! controller asks the release policy and carries the verdict out: so one job at a time works on a host or server.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Patch, PatchParams};
use kube::core::object::HasStatus;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::action::Action;
use crate::cluster_api::{Machine, is_unhealthy, owner_machine, owns};
use crate::context::Context;
use crate::kinds::{
    AppleSiliconMachine, ConditionStatus, GROUP, InstanceMachine, MachineRemediation, MachineStatus, REPLACEMENT_DUE,
    conditions,
};
use crate::status::{set_condition, time};
use crate::writes::{is_conflict, write_status};
use crate::{Error, owners};

/// How soon it is looked whether a request was judged: the judge is this process, and takes a moment.
const JUDGING_CHECK: Duration = Duration::from_secs(2);
/// How soon it is looked for what is not there yet.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// What a request depends on.
#[derive(Clone, Copy, Debug)]
struct Observed<'a> {
    /// The UID of the remediation.
    uid: &'a str,
    /// Whether a MachineHealthCheck calls the Machine unhealthy.
    unhealthy: bool,
    /// Whether the Machine, or the object below it, is being deleted.
    deleting: bool,
    /// What is known of the object below the Machine.
    status: &'a MachineStatus,
    interval: Duration,
    now: Timestamp,
}

/// What to do, and to say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Ask the release policy.
    Request,
    /// Say how it stands.
    Say { judged: bool, reason: String, message: String, after: Option<Duration> },
}

impl Next {
    fn waiting(reason: &str, message: impl Into<String>, after: Option<Duration>) -> Self {
        Self::Say { judged: false, reason: reason.to_owned(), message: message.into(), after }
    }
}

fn decide(seen: &Observed<'_>) -> Next {
    let known = seen.status.remediation.clone().unwrap_or_default();
    if seen.deleting {
        return Next::waiting(
            "MachineDeleting",
            "the Machine is being deleted, so the release policy decides about its release instead",
            None,
        );
    }
    if seen.status.is_given_up() {
        let message = seen.status.failure_message.clone().unwrap_or_default();
        return Next::Say { judged: true, reason: REPLACEMENT_DUE.to_owned(), message, after: None };
    }
    if known.is_due() {
        let ready = seen.status.condition(conditions::READY);
        let message = ready.map(|ready| format!("{}: {}", ready.reason, ready.message)).unwrap_or_default();
        return Next::waiting("Judging", message, Some(JUDGING_CHECK));
    }
    if !seen.unhealthy {
        // A MachineHealthCheck makes this object a moment before it says so.
        return Next::waiting(
            "MachineHealthy",
            "no MachineHealthCheck reports the Machine as unhealthy",
            Some(JUDGING_CHECK),
        );
    }
    if seen.status.server_id.is_none() {
        let message = "the Machine has no host or server yet, so there is nothing to decide";
        return Next::waiting("NotProvisioned", message, Some(LOOK_AGAIN));
    }
    let judged_at: Option<Timestamp> = known.judged_at.as_deref().and_then(|at| at.parse().ok());
    let (Some(verdict), Some(judged_at), true) =
        (known.verdict, judged_at, known.requested_by.as_deref() == Some(seen.uid))
    else {
        return Next::Request;
    };
    let again = judged_at.checked_add(seen.interval).unwrap_or(judged_at);
    match Duration::try_from(again.duration_since(seen.now)).ok().filter(|wait| !wait.is_zero()) {
        None => Next::Request,
        Some(wait) => {
            let message = known.message.unwrap_or_default();
            let message =
                format!("{message}; if the Machine is still unhealthy, the policy is asked again at {}", time(again));
            Next::Say { judged: true, reason: verdict, message, after: Some(wait) }
        }
    }
}

/// Reconciles a remediation: looks at the Machine and at what is below it, and asks or tells.
pub(crate) async fn reconcile(object: Arc<MachineRemediation>, context: Arc<Context>) -> Result<Action, Error> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let owners = owners::look(&context.client, context.cluster_api.as_ref(), object.as_ref()).await?;
    let remediation = Remediation { object: &object, context: &context, paused: owners.paused.as_deref() };
    if owners.paused.is_some() {
        return remediation.say(0, None).await;
    }
    let (Some(cluster_api), Some(owner)) = (&context.cluster_api, owner_machine(object.as_ref())) else {
        let message = "no Machine of Cluster API owns this object: let a MachineHealthCheck create it";
        return remediation.say(0, Some(Next::waiting("NoMachine", message, Some(LOOK_AGAIN)))).await;
    };
    let namespace = object.namespace().unwrap_or_default();
    let machines: Api<Machine> = Api::namespaced_with(context.client.clone(), &namespace, &cluster_api.machine);
    let name = &owner.name;
    let machine = machines.get_opt(name).await.map_err(Error::kubernetes("reading the Machine"))?;
    // A Machine of the same name that came later is another.
    let Some(machine) = machine.filter(|machine| machine.metadata.uid.as_ref() == Some(&owner.uid)) else {
        let next = Next::waiting("MachineNotFound", format!("there is no Machine {name} that owns this object"), None);
        return remediation.say(0, Some(next)).await;
    };
    let reference = &machine.spec.infrastructure_ref;
    if reference.is(GROUP, "AppleSiliconMachine") {
        remediation.ask::<AppleSiliconMachine>(&machine).await
    } else if reference.is(GROUP, "InstanceMachine") {
        remediation.ask::<InstanceMachine>(&machine).await
    } else {
        let message = format!("the Machine's infrastructure is a {}, which Windlass does not manage", reference.kind);
        remediation.say(0, Some(Next::waiting("OtherInfrastructure", message, None))).await
    }
}

/// One reconcile of one remediation.
struct Remediation<'a> {
    object: &'a MachineRemediation,
    context: &'a Context,
    paused: Option<&'a str>,
}

impl Remediation<'_> {
    /// Asks, or tells how it stands, about the object below the Machine.
    async fn ask<K>(&self, machine: &Machine) -> Result<Action, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + HasStatus<Status = MachineStatus>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.context.client.clone(), &self.object.namespace().unwrap_or_default());
        let name = &machine.spec.infrastructure_ref.name;
        let below = api.get_opt(name).await.map_err(Error::kubernetes("reading the object below the Machine"))?;
        let owned = |below: &K| owner_machine(below).is_some_and(|named| owns(machine, &named, below));
        let Some(below) = below.filter(owned) else {
            let message = format!("there is no {} {name} that the Machine owns", K::kind(&()));
            return self.say(0, Some(Next::waiting("NotProvisioned", message, Some(LOOK_AGAIN)))).await;
        };
        let status = below.status().cloned().unwrap_or_default();
        let requests = status.remediation.as_ref().map_or(0, |known| known.requests);
        let uid = self.object.uid().unwrap_or_default();
        let next = decide(&Observed {
            uid: &uid,
            unhealthy: is_unhealthy(machine),
            deleting: machine.metadata.deletion_timestamp.is_some() || below.meta().deletion_timestamp.is_some(),
            status: &status,
            interval: Duration::from_secs(self.object.spec.interval_seconds.into()),
            now: Timestamp::now(),
        });
        if next != Next::Request {
            return self.say(requests, Some(next)).await;
        }
        let patch = json!({
            "metadata": {"uid": below.uid(), "resourceVersion": below.resource_version()},
            "status": {"remediation": {"requestedBy": uid, "requests": requests.saturating_add(1)}},
        });
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
            Ok(_) => {}
            Err(error) if is_conflict(&error) => return Err(Error::Overtaken),
            Err(error) => return Err(Error::kubernetes("asking for a verdict")(error)),
        }
        let message = format!("the release policy is asked about the host or server of the Machine {name}");
        self.say(requests.saturating_add(1), Some(Next::waiting("Judging", message, Some(JUDGING_CHECK)))).await
    }

    /// Writes how it stands. A verdict is told by an event, too.
    async fn say(&self, requests: u32, next: Option<Next>) -> Result<Action, Error> {
        let (object, generation, now) = (self.object, self.object.meta().generation, Timestamp::now());
        let old = object.status.clone().unwrap_or_default();
        let mut new = old.clone();
        new.observed_generation = generation;
        let (paused, reason) = if self.paused.is_some() { (true, "Paused") } else { (false, "NotPaused") };
        let (kind, why) = (conditions::PAUSED, self.paused.unwrap_or_default());
        set_condition(&mut new.conditions, kind, paused.into(), reason, why, generation, now);
        let mut after = None;
        if let Some(Next::Say { judged, reason, message, after: wait }) = next {
            after = wait;
            new.requests = new.requests.max(requests);
            let status = ConditionStatus::from(judged);
            set_condition(&mut new.conditions, conditions::JUDGED, status, &reason, message.as_str(), generation, now);
            let known = old.conditions.iter().find(|condition| condition.kind == conditions::JUDGED);
            let news = known.is_none_or(|known| known.status != status || known.reason != reason);
            if judged && news {
                self.context.event(&object.object_ref(&()), true, &reason, "Remediate", &message).await;
            }
        }
        let api: Api<MachineRemediation> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        write_status(&api, object, &old, &new).await?;
        Ok(after.map_or_else(Action::await_change, Action::requeue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::RemediationStatus;

    fn status(remediation: RemediationStatus) -> MachineStatus {
        MachineStatus { server_id: Some("s".into()), remediation: Some(remediation), ..MachineStatus::default() }
    }

    fn judged(requests: u32, by: &str, at: &str) -> RemediationStatus {
        RemediationStatus {
            requested_by: Some(by.into()),
            requests,
            judged: requests,
            judged_at: Some(at.into()),
            verdict: Some("Kept".into()),
            message: Some("its reason".into()),
            ..RemediationStatus::default()
        }
    }

    #[test]
    fn the_policy_is_asked_once_in_an_interval_while_the_machine_is_unhealthy() {
        let fresh = status(RemediationStatus::default());
        let none = MachineStatus { server_id: Some("s".into()), ..MachineStatus::default() };
        let asked = status(RemediationStatus { requests: 1, requested_by: Some("u".into()), ..Default::default() });
        let kept = status(judged(1, "u", "2026-08-01T12:00:00Z"));
        let of_another = status(judged(1, "earlier", "2026-08-01T12:00:00Z"));
        let given_up = MachineStatus {
            failure_reason: Some(REPLACEMENT_DUE.into()),
            failure_message: Some("why".into()),
            ..kept.clone()
        };
        let unprovisioned = MachineStatus::default();
        let seen = |status, now: &str| Observed {
            uid: "u",
            unhealthy: true,
            deleting: false,
            status,
            interval: Duration::from_secs(60),
            now: now.parse().unwrap(),
        };
        let (early, late) = ("2026-08-01T12:00:59Z", "2026-08-01T12:01:00Z");
        for (observed, expected) in [
            (seen(&none, early), "Request"),
            (seen(&fresh, early), "Request"),
            (seen(&asked, late), "false Judging"),
            (Observed { unhealthy: false, ..seen(&asked, late) }, "false Judging"),
            (seen(&kept, early), "true Kept"),
            (seen(&kept, late), "Request"),
            (Observed { unhealthy: false, ..seen(&kept, late) }, "false MachineHealthy"),
            (seen(&of_another, early), "Request"),
            (seen(&given_up, late), "true ReplacementDue"),
            (Observed { deleting: true, ..seen(&given_up, late) }, "false MachineDeleting"),
            (seen(&unprovisioned, late), "false NotProvisioned"),
        ] {
            let word = match decide(&observed) {
                Next::Request => "Request".to_owned(),
                Next::Say { judged, reason, .. } => format!("{judged} {reason}"),
            };
            assert_eq!(word, expected, "{observed:#?}");
        }
    }
}
