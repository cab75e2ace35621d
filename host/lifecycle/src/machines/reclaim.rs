//! Hosts that carry a claim which nobody explains.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use windlass_policy::slots::release::Trigger;
use windlass_scaleway::Zone;
use windlass_scaleway::types::apple_silicon::Server;

use super::adopt::fresh;
use super::eligibility::is_stale;
use super::names::{ClaimName, PoolPrefix, is_returning};
use super::origin::{HostOrigin, origin};
use crate::Error;
use crate::control::Control;
use crate::journal::{OperationKind, OperationState};
use crate::lifecycle::Lifecycle;
use crate::release::{ReleaseRequest, Released, kept};
use crate::requested_by::{RequestedBy, Requester};
use crate::shared::Shared;

/// What to look for, and what to do about it.
#[derive(Clone, Debug)]
pub struct ReclaimRequest {
    pub zone: Zone,
    /// What the names of all claims of this installation begin with. Hosts of other names are none of its business.
    pub claim_prefix: String,
    /// Who is alive: names of claims and ids of hosts.
    pub live: BTreeSet<String>,
    /// A host that changed within this time is left alone: its claimant may not have been heard of yet.
    pub grace: Duration,
    /// What to do.
    pub mode: ReclaimMode,
}

/// What a reclaim does with the hosts that it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReclaimMode {
    /// Nothing: it tells.
    Report,
    /// It releases them by the release slot, trigger `reclaim`, to this pool.
    ReturnToPool(PoolPrefix),
}

/// What a reclaim saw and did.
#[derive(Debug, Default, Serialize)]
pub struct Reclaim {
    /// Hosts with a claim that nobody explains.
    pub stranded: Vec<Stranded>,
    /// Hosts with a claim of somebody alive.
    pub explained: usize,
}

/// A host with a claim that nobody explains.
#[derive(Debug, Serialize)]
pub struct Stranded {
    /// Scaleway's id of it.
    pub host: String,
    /// The claim that it carries, or the name that it got on its way into a pool.
    pub claim: String,
    /// Scaleway's status of it.
    pub status: String,
    /// When it was created, RFC 3339.
    pub created_at: String,
    /// Why it is left alone, where it is.
    pub spared: Option<String>,
    /// What became of it, where it was released.
    pub released: Option<Released>,
    /// Why it could not be released, where that failed.
    pub problem: Option<String>,
}

impl Stranded {
    fn new(host: &Server, spared: Option<String>) -> Self {
        Self {
            host: host.id.clone(),
            claim: host.name.clone(),
            status: host.status.as_str().to_owned(),
            created_at: host.created_at.clone(),
            spared,
            released: None,
            problem: None,
        }
    }
}

impl Lifecycle {
    /// Looks for hosts whose claim nobody alive explains, and, if configured, returns them to the pool.
    ///
    /// # Guarantees
    /// A host is touched only if its name begins with the claims' prefix, neither its name nor its id is in `live`, no
    /// operation of this journal is at work on it, kept it or was abandoned with it, it has not changed within the
    /// grace, and, read again under the lock, it still carries the same name. One whose deletion is scheduled is
    /// reported and left alone.
    ///
    /// # Assumptions
    /// `live` is complete. Who keeps claims elsewhere reads it anew right before each call.
    ///
    /// # Errors
    /// [`Error::Scaleway`] when the zone cannot be listed; [`Error::MachineName`] for an empty prefix, or one that
    /// would match the pool. What fails about a single host stands in its `problem`.
    pub async fn reclaim(&self, request: &ReclaimRequest, control: &Control) -> Result<Reclaim, Error> {
        check_prefix(request)?;
        let hosts = fresh(&self.shared, control, &request.zone).await?;
        let mut reclaim = Reclaim::default();
        let now = self.shared.clock.now();
        for host in &hosts.machines {
            if is_returning(&host.name) && is_stale(host, now) && !request.live.contains(&host.id) {
                let why = "its release into a pool was interrupted: resume the operation. If the journal is lost, \
                           reinstall the host and rename it with the prefix of its pool";
                reclaim.stranded.push(Stranded::new(host, Some(why.to_owned())));
            }
            if !host.name.starts_with(&request.claim_prefix) {
                continue;
            }
            let Ok(claim) = host.name.parse::<ClaimName>() else { continue };
            if request.live.contains(&host.id) || request.live.contains(&host.name) {
                reclaim.explained += 1;
                continue;
            }
            let spared = self.spared(request, host, &claim)?;
            let mut stranded = Stranded::new(host, spared);
            if stranded.spared.is_none()
                && let ReclaimMode::ReturnToPool(prefix) = &request.mode
            {
                let origin = origin(&self.shared, &host.id, &claim)?;
                let release = ReleaseRequest {
                    trigger: Trigger::Reclaim,
                    adopted: origin != HostOrigin::Ordered,
                    requested_by: RequestedBy::new(Requester::Reclaim, "its claimant is gone"),
                    ..ReleaseRequest::new(request.zone.clone(), &host.id, claim, Some(prefix.clone()))
                };
                match self.release(release, control).await {
                    Ok(released) => stranded.released = Some(released),
                    Err(error @ (Error::LeftOpen { .. } | Error::NotBegun)) => return Err(error),
                    Err(error) => stranded.problem = Some(error.to_string()),
                }
            }
            reclaim.stranded.push(stranded);
        }
        Ok(reclaim)
    }

    fn spared(&self, request: &ReclaimRequest, host: &Server, claim: &ClaimName) -> Result<Option<String>, Error> {
        if host.deletion_scheduled {
            return Ok(Some("Scaleway deletes it when it can be deleted".to_owned()));
        }
        if let Some(operation) = at_work(&self.shared, &host.id)? {
            return Ok(Some(format!("operation {operation} is at work on it")));
        }
        if let Some(operation) = self.shared.journal.abandoned_by(&host.id)? {
            return Ok(Some(format!("operation {operation} was abandoned with it")));
        }
        if let Some(operation) = kept(&self.shared, &host.id, claim)? {
            return Ok(Some(format!("operation {operation} kept it, as the release policy decided")));
        }
        let now = self.shared.clock.now();
        let changed = host.updated_at.parse::<jiff::Timestamp>().ok();
        let recent = crate::release::instant(changed)
            .is_none_or(|at| u128::from(now.saturating_sub(at)) < request.grace.as_millis());
        Ok(recent.then(|| "it changed a moment ago: its claimant may not have been heard of yet".to_owned()))
    }
}

/// An operation of a living process that is working on the host.
fn at_work(shared: &Shared, host: &str) -> Result<Option<crate::OperationId>, Error> {
    Ok(shared
        .journal
        .operations_of_resource(host)?
        .into_iter()
        .find(|operation| {
            let kind = matches!(
                operation.kind,
                OperationKind::AdoptMachine | OperationKind::OrderMachine | OperationKind::ReleaseMachine
            );
            kind && operation.state == OperationState::Open
        })
        .map(|operation| operation.id))
}

fn check_prefix(request: &ReclaimRequest) -> Result<(), Error> {
    let refuse = |problem: String| {
        Err(Error::MachineName { what: "prefix of claims", name: request.claim_prefix.clone(), problem })
    };
    if request.claim_prefix.is_empty() {
        return refuse("it is empty, so every host of the zone would be taken for a claim".to_owned());
    }
    if [super::names::PENDING, super::names::RETURNING].iter().any(|mark| mark.starts_with(&request.claim_prefix)) {
        return refuse("hosts between a pool and a claim begin with it".to_owned());
    }
    match &request.mode {
        ReclaimMode::ReturnToPool(prefix)
            if prefix.holds(&request.claim_prefix) || prefix.as_str().starts_with(&request.claim_prefix) =>
        {
            refuse(format!("hosts of the pool ({prefix}...) begin with it, or it with them"))
        }
        _ => Ok(()),
    }
}
