//! The jobs on Macs: each a call of the lifecycle, whose errors become outcomes.

use std::time::Duration;

use windlass_lifecycle::{
    ClaimName, Control, Error as LifecycleError, OrderRequest, Pool, ReleaseRequest, RequestedBy,
};
use windlass_scaleway::Zone;

use super::credentials;
use super::decide::renamed;
use crate::context::Context;
use crate::kinds::{Order, annotations};
use crate::names::claim_prefix;
use crate::outcome::{Outcome, words_of};

/// How soon a claim is tried again that met somebody else's.
const AFTER_CONTENTION: Duration = Duration::from_secs(5);

/// How soon, at the earliest and the latest, it is looked again for a host whose order was not answered.
const AFTER_LOST_ORDER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How soon a Secret is looked at again that belongs to somebody else.
const AFTER_TAKEN: Duration = Duration::from_secs(60);

/// How soon passwords are asked for again that were not shown.
const AFTER_SEALED: Duration = Duration::from_secs(300);
/// How long after a host that the object names was seen to carry another name than its claim.
const AFTER_RENAMED: Duration = Duration::from_secs(60);

/// Whether a host is ordered where the pool has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orders {
    /// The object does not ask for it.
    NotWanted,
    /// It does, and the operator does not allow it.
    Forbidden,
    /// While there are fewer than so many hosts.
    UpTo(u32),
}

impl Orders {
    pub(super) fn of(wanted: Option<&Order>, allowed: bool) -> Self {
        match wanted.filter(|order| order.allowed).and_then(|order| order.limit) {
            None => Self::NotWanted,
            Some(_) if !allowed => Self::Forbidden,
            Some(limit) => Self::UpTo(limit),
        }
    }
}

/// Claims a host; where there is none and it is allowed, orders one.
pub(super) async fn adopt(
    context: &Context,
    pool: &Pool,
    namespace: &str,
    claim: &ClaimName,
    orders: Orders,
    requested_by: RequestedBy,
    control: &Control,
) -> Outcome {
    let (_admitted, orders_left) =
        match context.settings.limits.admit_mac(&context.lifecycle, namespace, claim.as_str()).await {
            Ok(Ok(admitted)) => admitted,
            Ok(Err(message)) => {
                return Outcome::Waiting { reason: "LimitReached", message, after: context.settings.retry_interval };
            }
            Err(error) => return Outcome::Failed { reason: "LimitUnknown", message: error.to_string() },
        };
    let none = match context.lifecycle.adopt_machine(pool, claim, &requested_by, control).await {
        Ok(machine) => return Outcome::Adopted { machine: Box::new(machine), ordered: false },
        Err(error @ LifecycleError::NoEligibleMachine { .. }) => error.to_string(),
        Err(error) => return failed(error, "AdoptionFailed"),
    };
    let waiting =
        |message| Outcome::Waiting { reason: "NoHostAvailable", message, after: context.settings.retry_interval };
    let limit = match orders {
        Orders::NotWanted => return waiting(none),
        Orders::Forbidden => {
            return waiting(format!(
                "{none}; spec.order allows an order, but the controller runs without --allow-orders"
            ));
        }
        Orders::UpTo(_) if orders_left == Some(0) => {
            return waiting(format!(
                "{none}; no host is ordered, because the namespace has as many ordered hosts as the operator allows"
            ));
        }
        Orders::UpTo(limit) => limit,
    };
    let request = OrderRequest {
        zone: pool.zone.clone(),
        claim: claim.clone(),
        machine_type: pool.machine_type.clone(),
        operating_system: pool.operating_system.clone(),
        limit: limit as usize,
        claim_prefix: claim_prefix(&context.settings.owner),
        pool_prefix: Some(pool.prefix.clone()),
        requested_by,
    };
    match context.lifecycle.order_machine(&request, control).await {
        Ok(machine) => Outcome::Adopted { machine: Box::new(machine), ordered: true },
        Err(error @ LifecycleError::MachineLimit { .. }) => waiting(format!("{none}; {error}")),
        Err(error) => failed(error, "OrderFailed"),
    }
}

/// Releases a host, or judges one whose set-up failed.
pub(super) async fn release(context: &Context, request: ReleaseRequest, control: &Control) -> Outcome {
    match context.lifecycle.release(request, control).await {
        Ok(released) => Outcome::Released(Box::new(released)),
        Err(error) => failed(error, "ReleaseFailed"),
    }
}

/// Reads a host, for its passwords or because the listing does not show it.
///
/// It is by its name alone that a host is the object's: anybody who may edit the object can name any id, and the key
/// may reach hosts of others.
pub(super) async fn inspect(
    context: &Context,
    (zone, id): (&Zone, &str),
    claim: &ClaimName,
    (namespace, name): (&str, &str),
) -> Outcome {
    match credentials::taken(context, namespace, name).await {
        Ok(None) => {}
        Ok(Some(message)) => return Outcome::Waiting { reason: "SecretTaken", message, after: AFTER_TAKEN },
        Err(error) => return Outcome::Failed { reason: "SecretUnreadable", message: error.to_string() },
    }
    match context.lifecycle.host(zone, id).await {
        Ok(Some(host)) if host.name != claim.as_str() => {
            Outcome::Waiting { reason: "HostRenamed", message: renamed(&host, claim.as_str()), after: AFTER_RENAMED }
        }
        Ok(Some(host)) if host.delivered && host.sudo_password.reveal().is_none() => Outcome::Waiting {
            reason: "PasswordsNotShown",
            message: format!("Scaleway does not show the passwords of the host {id}"),
            after: AFTER_SEALED,
        },
        Ok(Some(host)) => Outcome::Inspected(Box::new(host)),
        Ok(None) => Outcome::Refused {
            reason: "HostGone",
            message: format!(
                "Scaleway has no host {id} in {zone} any more: somebody deleted it. Delete this object, or its \
                 Machine, so that another takes its place"
            ),
        },
        Err(error) => Outcome::Failed { reason: "HostUnreadable", message: words(&error) },
    }
}

/// What an error says, and what helps where Scaleway shows a host no more and it does not count as gone for that.
fn words(error: &LifecycleError) -> String {
    match error {
        LifecycleError::Scaleway { source, .. } if source.is_gone_or_not_ours() => format!(
            "{error}; either the host was deleted, or the key has lost the right to see it. If it was deleted, set \
             the annotation {} and delete this object, or its Machine",
            annotations::ABANDON
        ),
        _ => words_of(error),
    }
}

/// What an error of the lifecycle means for a machine.
fn failed(error: LifecycleError, reason: &'static str) -> Outcome {
    let message = words(&error);
    match error {
        LifecycleError::NotBegun => Outcome::CalledOff { message },
        LifecycleError::MachinesLocked { .. } | LifecycleError::HostBusy { .. } => {
            Outcome::Waiting { reason: "Contended", message, after: AFTER_CONTENTION }
        }
        LifecycleError::OrderUnverified { look_at, .. } => {
            let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
            let after =
                Duration::from_millis(look_at.saturating_sub(now)).clamp(AFTER_LOST_ORDER.0, AFTER_LOST_ORDER.1);
            Outcome::Waiting { reason: "OrderUnverified", message, after }
        }
        _ => Outcome::Failed { reason, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_needs_the_objects_request_its_limit_and_the_operators_leave() {
        let order = |allowed, limit| Order { allowed, limit };
        for (wanted, allowed, expected) in [
            (None, true, Orders::NotWanted),
            (Some(order(false, Some(3))), true, Orders::NotWanted),
            // The API server refuses it; a rule that is gone must not order without a bound.
            (Some(order(true, None)), true, Orders::NotWanted),
            (Some(order(true, Some(3))), false, Orders::Forbidden),
            (Some(order(true, Some(3))), true, Orders::UpTo(3)),
        ] {
            assert_eq!(Orders::of(wanted.as_ref(), allowed), expected, "{wanted:?} {allowed}");
        }
    }
}
