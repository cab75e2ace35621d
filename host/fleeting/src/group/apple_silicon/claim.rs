//! Increase: hosts are claimed from the pool, or ordered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_lifecycle::{AdoptedMachine, ClaimName, Error, OperationId, OrderRequest, Pool};
use windlass_policy::slots::types::{Failure as Cause, FailureClass};

use super::Macs;
use super::release::Release;
use crate::group::entry::{Entry, Event, Phase};
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
        self.claim_of(&name).ok_or_else(|| Failure(format!("the plugin has a defect: {name} is no name for a host")))
    }

    fn spawn_claim(self: &Arc<Self>, claim: ClaimName) {
        let hosts = Arc::clone(self);
        let place = self.place();
        let creation = Creation { zone: place.zone, types: vec![place.server_type], accepted: Instant::now() };
        self.tasks.spawn(async move {
            let ended = loop {
                if hosts.is_called_off(claim.as_str()) {
                    hosts.apply(claim.as_str(), &Event::Ended);
                    return;
                }
                let ended = hosts.claim(&claim).await;
                let pause = match &ended {
                    Err(Error::MachinesLocked { .. }) => LOCKED_PAUSE,
                    // It keeps its place: a host may come for it yet, and none is ordered or claimed in its stead.
                    Err(Error::OrderUnverified { .. }) => UNVERIFIED_PAUSE,
                    _ => break ended,
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = hosts.tasks.control().left().cancelled() => return,
                }
            };
            hosts.claim_ended(&claim, &creation, ended);
        });
    }

    /// Whether the runner does not want it any more.
    fn is_called_off(&self, id: &str) -> bool {
        self.book.lock().get(id).is_some_and(|entry| *entry.phase() == Phase::CalledOff)
    }

    async fn claim(&self, claim: &ClaimName) -> Result<AdoptedMachine, Error> {
        let configuration = &self.configuration;
        if let Some(prefix) = &configuration.pool {
            let pool = Pool {
                zone: configuration.common.first_zone().clone(),
                prefix: prefix.clone(),
                machine_type: configuration.server_type.clone(),
                operating_system: self.kind.operating_system.clone(),
            };
            match self.lifecycle.adopt_machine(&pool, claim, self.tasks.control()).await {
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
        };
        self.lifecycle.order_machine(&order, self.tasks.control()).await
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
                // Whoever calls it off meanwhile either sees it claimed or is seen here.
                if self.apply(id, &Event::Created).is_some_and(|before| before.is_unwanted()) {
                    let requested_by = self.book.lock().get(id).and_then(|entry| entry.unwanted_by.clone());
                    let requested_by = requested_by.unwrap_or_default();
                    self.spawn_release(Release { claim: claim.clone(), host: adopted.server.id, requested_by });
                }
            }
            Err(Error::LeftOpen { .. } | Error::NotBegun) => {}
            Err(error) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                tracing::warn!(instance = id, error = &error as &dyn std::error::Error, "no host could be claimed");
                // A host that came of an order all the same carries the claim, and is shown as soon as it is listed.
                self.apply(id, &Event::Ended);
                let (step, cause) = cause(&error);
                self.creation_failed(creation, step, cause);
            }
        }
    }
}

/// Why a claim failed, as policies are told: step and failure.
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
