//! Increase: hosts are claimed from the pool, or ordered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_lifecycle::{
    AdoptedMachine, ClaimName, Control, Error, LeftResource, Operation, OperationId, OperationState, OrderRequest,
    Pool, RequestedBy, Requester, ResourceKind,
};
use windlass_policy::slots::types::{Failure as Cause, FailureClass};

use super::Macs;
use super::release::Release;
use crate::group::entry::{Entry, Event};
use crate::group::fleet::Fleet;
use crate::group::places::Creation;
use crate::observe::names;
use crate::protocol::Failure;

/// Before the lock over names is tried again, where others held it for longer than the lifecycle waits.
const LOCKED_PAUSE: Duration = Duration::from_secs(2);
/// Before it is looked again for a host whose order was not answered.
const UNVERIFIED_PAUSE: Duration = Duration::from_secs(30);

impl Fleet<Macs> {
    /// Accepts so many claims. The hosts are claimed in the background.
    ///
    /// Nothing is journalled before this answers, unlike with instances: until a host carries the claim's name there is
    /// nothing that a crash could leave behind, and with the process the runner's demand is gone as well.
    pub(super) fn claim_hosts(self: &Arc<Self>, count: u32) -> Result<u32, Failure> {
        if let Some(backoff) = self.places.lock().backoffs(Instant::now()).into_iter().flatten().next() {
            tracing::warn!(
                demanded = count,
                rest_seconds = backoff.rest.as_secs(),
                "no host is claimed for now, since it would fail again: {}",
                backoff.why
            );
            metrics::counter!(names::INCREASES_PAUSED).increment(1);
            return Ok(0);
        }
        for _ in 0..count {
            let (claim, operation) = self.new_claim()?;
            let mut entry = Entry::demanded(operation, self.place());
            entry.known_since = Some(self.lifecycle.now());
            self.book.lock().insert(entry);
            self.spawn_claim(claim);
        }
        Ok(count)
    }

    /// A name that no host ever had.
    fn new_claim(&self) -> Result<(ClaimName, OperationId), Failure> {
        // Twelve hexadecimal digits.
        let name = format!("{}{:012x}", self.kind.claims, self.lifecycle.random_word() >> 16);
        self.claim_of(&name)
            .ok_or_else(|| Failure(format!("the plugin has a defect: {name} is not a valid name for a host")))
    }

    fn spawn_claim(self: &Arc<Self>, claim: ClaimName) {
        let hosts = Arc::clone(self);
        let place = self.place();
        let creation = Creation { zone: place.zone, types: vec![place.server_type], accepted: Instant::now() };
        let control = self.tasks.control().child();
        self.kind.controls.lock().insert(claim.to_string(), control.clone());
        self.tasks.spawn(async move {
            let ended = loop {
                if hosts.is_called_off(claim.as_str()) && !hosts.may_get_host(&claim) {
                    break Err(Error::NotBegun);
                }
                let ended = hosts.claim(&claim, &control).await;
                let pause = match &ended {
                    Err(Error::MachinesLocked { .. }) => LOCKED_PAUSE,
                    Ok(_) | Err(Error::Failed(_) | Error::LeftOpen { .. } | Error::NotBegun) => break ended,
                    // It keeps its place: a host may come for it yet, and none is ordered or claimed in its stead.
                    Err(error) if hosts.may_get_host(&claim) => {
                        tracing::warn!(
                            instance = %claim,
                            error = error as &dyn std::error::Error,
                            "it is not known yet whether it gets a host"
                        );
                        UNVERIFIED_PAUSE
                    }
                    Err(_) => break ended,
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = control.left().cancelled() => return,
                }
            };
            hosts.kind.controls.lock().remove(claim.as_str());
            hosts.claim_ended(&claim, &creation, ended);
        });
    }

    /// Whether an operation that has not ended may still give it a host. Also where that cannot be read.
    fn may_get_host(&self, claim: &ClaimName) -> bool {
        let unfinished = |operation: &Operation| !operation.state.has_ended();
        self.lifecycle.journal().operations_of_machine(claim.as_str()).map_or(true, |all| all.iter().any(unfinished))
    }

    /// Whether the runner does not want it any more.
    fn is_called_off(&self, id: &str) -> bool {
        self.book.lock().get(id).is_some_and(|entry| entry.phase().is_unwanted())
    }

    async fn claim(&self, claim: &ClaimName, control: &Control) -> Result<AdoptedMachine, Error> {
        let configuration = &self.configuration;
        let requested_by = RequestedBy::new(Requester::Runner, "the runner wants more instances")
            .of_group(&configuration.common.group);
        if let Some(prefix) = &configuration.pool {
            let pool = Pool {
                zone: configuration.common.first_zone().clone(),
                prefix: prefix.clone(),
                machine_type: configuration.server_type.clone(),
                operating_system: self.kind.operating_system.clone(),
            };
            match self.lifecycle.adopt_machine(&pool, claim, &requested_by, control).await {
                Err(Error::NoEligibleMachine { .. }) if configuration.order => {}
                ended => return ended,
            }
        }
        let order = OrderRequest {
            zone: configuration.common.first_zone().clone(),
            claim: claim.clone(),
            machine_type: configuration.server_type.clone(),
            operating_system: self.kind.operating_system.clone(),
            limit: configuration.common.max_size as usize,
            claim_prefix: self.kind.claims.clone(),
            pool_prefix: configuration.pool.clone(),
            requested_by,
        };
        self.lifecycle.order_machine(&order, control).await
    }

    /// Notes that a host carries the claim, and releases it where the runner stopped wanting it meanwhile.
    pub(super) fn claimed(self: &Arc<Self>, claim: ClaimName, host: String) {
        if self.apply(claim.as_str(), &Event::Created).is_some_and(|before| before.is_unwanted()) {
            let requested_by = self.book.lock().get(claim.as_str()).and_then(|entry| entry.unwanted_by.clone());
            let requested_by = requested_by.unwrap_or_default();
            self.spawn_release(Release { claim, host, requested_by });
        }
    }

    fn claim_ended(self: &Arc<Self>, claim: &ClaimName, creation: &Creation, ended: Result<AdoptedMachine, Error>) {
        let id = claim.as_str();
        match ended {
            Ok(adopted) => {
                tracing::info!(instance = id, host = adopted.server.id, status = %adopted.server.status, "claimed");
                metrics::counter!(names::CREATIONS, "outcome" => "done").increment(1);
                self.creation_succeeded(creation, &self.configuration.server_type);
                self.book.lock().has_server(id, &adopted.server.id);
                self.remember(id);
                self.claimed(claim.clone(), adopted.server.id);
            }
            Err(Error::LeftOpen { .. }) => {}
            Err(Error::NotBegun) if !self.is_called_off(id) => {}
            // Scaleway delivered it although somebody cancelled the order.
            Err(Error::Failed(failure)) if failure.state == OperationState::Kept => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                let is_mac = |left: &LeftResource| left.resource.kind == ResourceKind::AppleSiliconServer;
                let ordered = failure.report.left.into_iter().find(is_mac);
                match (ordered, self.lifecycle.journal().operation(&failure.operation)) {
                    (Some(host), Ok(order)) => {
                        self.book.lock().has_server(id, &host.resource.id);
                        self.remember(id);
                        self.release_called_off(claim.clone(), host.resource.id, &order);
                    }
                    // It carries the claim, so it is released when it is listed.
                    _ => drop(self.apply(id, &Event::Ended)),
                }
            }
            Err(error) => {
                // A host that came of an order all the same carries the claim, and is shown as soon as it is listed.
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                let before = self.apply(id, &Event::Ended);
                if before.is_some_and(|phase| phase.is_unwanted()) {
                    tracing::info!(instance = id, "its claim was cancelled");
                    return;
                }
                tracing::warn!(instance = id, error = &error as &dyn std::error::Error, "no host could be claimed");
                let (step, cause) = cause(&error);
                self.creation_failed(creation, step, cause);
            }
        }
    }
}

/// Why a claim failed, for policies: step and failure.
fn cause(error: &Error) -> (String, Cause) {
    let class = match error {
        Error::Failed(failure) => return (failure.step.clone(), failure.cause.clone()),
        // To whoever needs a host, a pool without one is a shop without one.
        Error::NoEligibleMachine { .. } => FailureClass::OutOfStock,
        Error::MachineLimit { .. } => FailureClass::QuotaExceeded,
        _ => FailureClass::Other,
    };
    ("claim-host".to_owned(), Cause::of_class(class, error.to_string()))
}
