//! Increase: hosts are claimed from the pool, or ordered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_lifecycle::{AdoptedMachine, ClaimName, Error, OperationId, OrderRequest, Pool};
use windlass_policy::slots::retry;
use windlass_policy::slots::types::{Failure as Cause, FailureClass};

use super::Hosts;
use super::start::UNIQUE_DIGITS;
use crate::group::book;
use crate::group::entry::{Entry, Event, Phase};
use crate::group::fleet::now_ms;
use crate::group::pause::{is_hopeless, pause_after};
use crate::observe::names;
use crate::protocol::Failure;

/// Before the lock over names is tried again, where others held it for longer than the lifecycle waits.
const LOCKED_PAUSE: Duration = Duration::from_secs(2);
/// Before it is looked again for a host whose order was not answered.
const UNVERIFIED_PAUSE: Duration = Duration::from_secs(30);

impl Hosts {
    /// Accepts as many claims as there is room for. The hosts are claimed in the background.
    ///
    /// Nothing is journalled before this answers, unlike with instances: until a host carries the claim's name there is
    /// nothing that a crash could leave behind, and with the process the runner's demand is gone as well.
    pub(crate) fn increase(self: &Arc<Self>, count: u32) -> Result<u32, Failure> {
        if let Some((why, rest)) = self.pause.lock().current(Instant::now()) {
            tracing::warn!(
                demanded = count,
                rest_seconds = rest.as_secs(),
                "no host is claimed for now, since it would fail again: {why}"
            );
            metrics::counter!(names::INCREASES_PAUSED).increment(1);
            return Ok(0);
        }
        let leftovers = self.book.lock().leftovers(self.lifecycle.now(), |_| true);
        if book::is_paused(leftovers, count, self.configuration.max_leftovers) {
            return Ok(0);
        }
        let occupied = u32::try_from(self.book.lock().occupied()).unwrap_or(u32::MAX);
        let accepted = count.min(self.configuration.max_size.saturating_sub(occupied));
        if accepted < count {
            tracing::warn!(
                demanded = count,
                accepted,
                occupied,
                max_size = self.configuration.max_size,
                "the group is full; max_size in plugin_config bounds it"
            );
        }
        for _ in 0..accepted {
            let (claim, operation) = self.new_claim()?;
            self.known_since.lock().insert(claim.to_string(), now_ms());
            self.book.lock().insert(Entry::demanded(operation, self.place()));
            self.spawn_claim(claim);
        }
        Ok(accepted)
    }

    /// A name that no host ever had.
    fn new_claim(&self) -> Result<(ClaimName, OperationId), Failure> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{}{}", self.claims, &unique[..UNIQUE_DIGITS]);
        self.claim_of(&name).ok_or_else(|| Failure(format!("the plugin has a defect: {name} is no name for a host")))
    }

    fn spawn_claim(self: &Arc<Self>, claim: ClaimName) {
        let hosts = Arc::clone(self);
        let accepted = Instant::now();
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
            hosts.claim_ended(&claim, accepted, ended);
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
                zone: configuration.zone.clone(),
                prefix: prefix.clone(),
                machine_type: configuration.server_type.clone(),
                operating_system: self.operating_system.clone(),
            };
            match self.lifecycle.adopt_machine(&pool, claim, self.tasks.control()).await {
                Err(Error::NoEligibleMachine { .. }) if configuration.order => {}
                ended => return ended,
            }
        }
        let order = OrderRequest {
            zone: configuration.zone.clone(),
            claim: claim.clone(),
            machine_type: configuration.server_type.clone(),
            operating_system: self.operating_system.clone(),
            limit: configuration.max_size as usize,
            claim_prefix: self.claims.clone(),
            pool_prefix: configuration.pool.clone(),
        };
        self.lifecycle.order_machine(&order, self.tasks.control()).await
    }

    fn claim_ended(self: &Arc<Self>, claim: &ClaimName, accepted: Instant, ended: Result<AdoptedMachine, Error>) {
        let id = claim.as_str();
        match ended {
            Ok(adopted) => {
                tracing::info!(instance = id, host = adopted.server.id, status = %adopted.server.status, "claimed");
                metrics::counter!(names::CREATIONS, "outcome" => "done").increment(1);
                if self.pause.lock().succeeded(accepted) {
                    self.gauges.unpaused(&self.place());
                }
                self.book.lock().has_server(id, &adopted.server.id);
                self.remember(id);
                // Whoever calls it off meanwhile either sees it claimed or is seen here.
                if self.apply(id, &Event::Created).is_some_and(|before| before.is_unwanted()) {
                    let requested_by = self.book.lock().get(id).and_then(|entry| entry.unwanted_by.clone());
                    let requested_by = requested_by.unwrap_or_default();
                    self.spawn_release(claim.clone(), adopted.server.id, requested_by);
                }
            }
            Err(Error::LeftOpen { .. } | Error::NotBegun) => {}
            Err(error) => {
                metrics::counter!(names::CREATIONS, "outcome" => "failed").increment(1);
                tracing::warn!(instance = id, error = &error as &dyn std::error::Error, "no host could be claimed");
                // A host that came of an order all the same carries the claim, and is shown as soon as it is listed.
                self.apply(id, &Event::Ended);
                let (step, cause) = cause(&error);
                if is_hopeless(cause.class) {
                    let hosts = Arc::clone(self);
                    self.tasks.spawn(async move { hosts.pause_after(accepted, step, cause).await });
                }
            }
        }
    }

    /// Asks the retry policy how long nothing is claimed, as the operation `increase-group`.
    async fn pause_after(&self, accepted: Instant, step: String, cause: Cause) {
        let question = retry::Question {
            now: now_ms(),
            random: uuid::Uuid::new_v4().as_u64_pair().0,
            operation: "increase-group".to_owned(),
            step,
            undoing: false,
            attempt: 1,
            elapsed: 0,
            time_left: None,
            failure: cause,
            zone: self.configuration.zone.to_string(),
            group: Some(self.configuration.group.to_string()),
            server_type: Some(self.configuration.server_type.clone()),
        };
        let class = question.failure.class;
        if let Some(rest) = pause_after(&self.pause, &self.policies, accepted, question).await {
            self.gauges.paused(&self.place(), class, now_ms(), rest);
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
