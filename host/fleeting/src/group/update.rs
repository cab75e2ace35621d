//! Update: one listing, one question to the state-mapping policy, one report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;
use windlass_lifecycle::{Machine, OperationId};
use windlass_policy::slots::StateMapping;
use windlass_policy::slots::state_mapping::{
    Action, Mapping, Operation, Question, Report as Told, Server, ServerState, StateDetail, Verdict,
};
use windlass_scaleway::types::instance as scaleway;

use super::book::{Entry, Work};
use super::fleet::Fleet;
use crate::observe::names;
use crate::protocol::{Failure, Report, State, Update};

/// A listing younger than this answers heartbeats.
pub(super) const FRESH: Duration = Duration::from_secs(10);
/// Servers that a listing left out are asked for by their ids, so many at a time.
pub(super) const PARALLEL_LOOKS: usize = 8;
/// What was not found once is looked at again after this time.
const BEFORE_GONE: Duration = Duration::from_secs(2);

/// What the last listing led to.
pub(crate) struct Listing {
    at: Instant,
    reports: BTreeMap<String, State>,
}

/// The server types of a listing, each once: servers refer to them by position.
#[derive(Default)]
pub(super) struct ServerTypes(Vec<String>);

impl ServerTypes {
    pub(super) fn position(&mut self, name: &str) -> u32 {
        let known = self.0.iter().position(|known| known == name);
        let position = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    pub(super) fn names(self) -> Vec<String> {
        self.0
    }
}

/// One bit for each watched tag, from the lowest, that is set where it is among these tags.
fn watched(watched_tags: &[String], tags: &[String]) -> u64 {
    let bits = (0..u64::BITS).zip(watched_tags).filter(|(_, watched)| tags.contains(watched));
    bits.fold(0, |bits, (position, _)| bits | (1 << position))
}

/// Scaleway's state in the contract's words.
fn state(state: &scaleway::ServerState) -> ServerState {
    match state {
        scaleway::ServerState::Starting => ServerState::Starting,
        scaleway::ServerState::Running => ServerState::Running,
        scaleway::ServerState::Stopping => ServerState::Stopping,
        scaleway::ServerState::Stopped => ServerState::Stopped,
        scaleway::ServerState::StoppedInPlace => ServerState::StoppedInPlace,
        scaleway::ServerState::Locked => ServerState::Locked,
        _ => ServerState::Other,
    }
}

/// Scaleway's detail in the contract's words.
fn detail(detail: &str) -> StateDetail {
    match detail {
        "" => StateDetail::None,
        "allocating node" => StateDetail::AllocatingNode,
        "provisioning node" => StateDetail::ProvisioningNode,
        "starting" => StateDetail::Starting,
        "booting kernel" => StateDetail::BootingKernel,
        "booted" => StateDetail::Booted,
        "ready" => StateDetail::Ready,
        "stopping" => StateDetail::Stopping,
        "stopping in place" => StateDetail::StoppingInPlace,
        "stopped in place" => StateDetail::StoppedInPlace,
        "terminating" => StateDetail::Terminating,
        "rebooting" => StateDetail::Rebooting,
        _ => StateDetail::Other,
    }
}

/// A policy's word in fleeting's. `none` is no word at all; `deleting` is one only while a cleanup is in flight.
pub(super) fn report(told: Told, in_flight: Operation) -> Option<State> {
    match told {
        Told::None => None,
        Told::Creating => Some(State::Creating),
        Told::Running => Some(State::Running),
        Told::Deleting => (in_flight == Operation::Cleanup).then_some(State::Deleting),
        Told::Deleted => Some(State::Deleted),
        Told::Timeout => Some(State::Timeout),
        Told::Suspending => Some(State::Suspending),
        Told::Suspended => Some(State::Suspended),
        Told::Resuming => Some(State::Resuming),
    }
}

impl Fleet {
    /// The state of every instance, as the policy sees it.
    pub(crate) async fn update(self: Arc<Self>) -> Result<Update, Failure> {
        let began = Instant::now();
        let mut listing = self.listing.lock().await;
        let reports = self.look().await?;
        *listing = Some(Listing { at: began, reports: reports.clone() });
        drop(listing);
        metrics::histogram!(names::UPDATE_SECONDS).record(began.elapsed().as_secs_f64());
        let answer = reports.iter().map(|(id, state)| Report { instance: id.clone(), state: *state }).collect();
        let delivered = Box::new(move || self.book.lock().delivered(&reports));
        Ok(Update { reports: answer, delivered: Some(delivered) })
    }

    /// Ends well when the last look, or a new one where that is old, found the instance running.
    pub(crate) async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure> {
        let mut listing = self.listing.lock().await;
        if listing.as_ref().is_none_or(|listing| listing.at.elapsed() > FRESH) {
            let at = Instant::now();
            *listing = Some(Listing { at, reports: self.look().await? });
        }
        let told = listing.as_ref().and_then(|listing| listing.reports.get(id).copied());
        drop(listing);
        match told {
            Some(State::Running) => Ok(()),
            Some(state) => Err(Failure(format!("instance is unhealthy: {id} is {state}"))),
            None => Err(Failure(format!("instance is unhealthy: {id} is gone or cannot be used"))),
        }
    }

    /// Lists, judges, begins the reaps, and answers what to tell about each instance.
    async fn look(self: &Arc<Self>) -> Result<BTreeMap<String, State>, Failure> {
        let group = &self.configuration.group;
        let machines = self
            .lifecycle
            .machines(std::slice::from_ref(&self.configuration.zone), Some(group))
            .await
            .map_err(|error| Failure::from_error(&error))?;
        let mut servers: BTreeMap<String, scaleway::Server> = BTreeMap::new();
        for machine in machines {
            if let Some((id, server)) = self.adopt(machine) {
                servers.insert(id, server);
            }
        }
        let vanished = self.look_for_missing(&mut servers).await;
        for id in vanished {
            // Its addresses and volumes are still there.
            if let Err(error) = self.begin_cleanup(&id, "its server was deleted by somebody else").await {
                tracing::error!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "its rest could not be removed"
                );
            }
        }
        let now = self.lifecycle.now();
        let (ids, question, mut reports) = self.question(&servers, now);
        for (id, mapping, reason) in self.judge(ids, question).await {
            if mapping.action == Action::Reap {
                self.reap(&id, reason.as_deref()).await;
            }
            let told = {
                let book = self.book.lock();
                let Some(entry) = book.get(&id) else { continue };
                entry.first_sight(match (mapping.action, entry.in_flight()) {
                    // Accepted just now: from here on the cleanup is in flight, whatever the policy wanted to be told.
                    (Action::Reap, Operation::Cleanup) => Some(State::Deleting),
                    (_, in_flight) => report(mapping.report, in_flight),
                })
            };
            if let Some(told) = told {
                reports.insert(id, told);
            }
        }
        count(&reports);
        Ok(reports)
    }

    /// Takes a listed server up, also one that this process has not seen before. Servers that were kept on purpose
    /// belong to people, not to the runner.
    fn adopt(&self, machine: Machine) -> Option<(String, scaleway::Server)> {
        if machine.kept {
            return None;
        }
        let operation: OperationId = machine.operation?;
        let id = operation.to_string();
        let mut book = self.book.lock();
        if book.get(&id).is_none() {
            tracing::info!(instance = id, server = machine.id, state = machine.state, "found an instance");
            let mut entry = Entry::found(operation, Work::Idle);
            // Its creation ended well, so it ran once.
            entry.has_run = machine.operation_state == Some(windlass_lifecycle::OperationState::Done);
            entry.suspended = self.suspensions.holds(&id);
            book.insert(entry);
        }
        book.saw(&id, &machine.id, state(&machine.server.state), self.lifecycle.now());
        Some((id, machine.server))
    }

    /// Asks by id for servers that should be there and were not listed: a listing that leaves a server out proves
    /// nothing. What is found joins the others; what is proven gone is returned.
    async fn look_for_missing(&self, servers: &mut BTreeMap<String, scaleway::Server>) -> Vec<String> {
        let missing: Vec<(String, String)> = self
            .book
            .lock()
            .iter()
            .filter(|(id, entry)| {
                matches!(entry.work, Work::Idle | Work::Suspending | Work::Resuming) && !servers.contains_key(*id)
            })
            .filter_map(|(id, entry)| Some((id.clone(), entry.server.clone()?)))
            .collect();
        let looked: Vec<_> = stream::iter(missing)
            .map(|(id, server)| async move { (id, self.read_server(&server).await) })
            .buffer_unordered(PARALLEL_LOOKS)
            .collect()
            .await;
        let mut vanished = Vec::new();
        for (id, answer) in looked {
            match answer {
                Ok(Some(server)) => {
                    self.book.lock().saw(&id, &server.id, state(&server.state), self.lifecycle.now());
                    servers.insert(id, server);
                }
                Ok(None) => vanished.push(id),
                Err(error) => tracing::warn!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "it was not listed and could not be looked at; what was said of it stays"
                ),
            }
        }
        vanished
    }

    /// A server by its id; nothing where it is proven gone: answered "not found" twice, some seconds apart, so that one
    /// wrong answer costs no running job (assumption: not-found-is-lasting).
    pub(super) async fn read_server(&self, id: &str) -> Result<Option<scaleway::Server>, windlass_scaleway::Error> {
        let instance = self.client.instance(&self.configuration.zone);
        match instance.get_server(id).await {
            Err(error) if error.is_not_found() => tokio::time::sleep(BEFORE_GONE).await,
            answer => return answer.map(Some),
        }
        match instance.get_server(id).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// What the policy is asked, about whom, and what is told about the instances that have no server to judge.
    fn question(
        &self,
        servers: &BTreeMap<String, scaleway::Server>,
        now: u64,
    ) -> (Vec<String>, Question, BTreeMap<String, State>) {
        let watched_tags = &self.configuration.watched_tags;
        let book = self.book.lock();
        let (mut ids, mut judged) = (Vec::new(), Vec::new());
        let mut server_types = ServerTypes::default();
        let mut reports = BTreeMap::new();
        for (id, entry) in book.iter() {
            match servers.get(id).filter(|_| !matches!(entry.work, Work::Left | Work::Gone)) {
                Some(server) => {
                    // Two clocks: Scaleway's may differ from ours, and no server is older than its operation.
                    let created = server.created_at().and_then(|at| u64::try_from(at.as_millisecond()).ok());
                    let created = created.unwrap_or(now).max(entry.operation.made_at());
                    let since = entry.seen.map_or(now, |(_, since)| since);
                    ids.push(id.clone());
                    judged.push(Server {
                        state: state(&server.state),
                        detail: detail(&server.state_detail),
                        age: now.saturating_sub(created),
                        state_age: now.saturating_sub(since),
                        has_run: entry.has_run,
                        in_flight: entry.in_flight(),
                        suspended: entry.suspended,
                        server_type: server_types.position(&server.commercial_type),
                        watched_tags: watched(watched_tags, &server.tags),
                    });
                }
                None => {
                    if let Some(state) = entry.without_server() {
                        reports.insert(id.clone(), state);
                    }
                }
            }
        }
        let question = Question {
            now,
            zone: self.configuration.zone.to_string(),
            group: Some(self.configuration.group.to_string()),
            server_types: server_types.names(),
            watched_tags: watched_tags.clone(),
            servers: judged,
        };
        (ids, question, reports)
    }

    /// One question for the whole batch.
    async fn judge(&self, ids: Vec<String>, question: Question) -> Vec<(String, Mapping, Option<String>)> {
        if ids.is_empty() {
            return Vec::new();
        }
        let decision = self.policies.pin().decide::<StateMapping>(question, |_, _| Ok(())).await;
        for fallback in &decision.fallbacks {
            tracing::warn!(decision = %decision.id, "{fallback}");
        }
        ids.into_iter()
            .zip(decision.answer)
            .filter_map(|(id, answer)| match answer.verdict {
                Verdict::Mapped(mapping) => Some((id, mapping, answer.reason)),
                // The last link of a chain never defers.
                Verdict::Defer => None,
            })
            .collect()
    }

    /// Removes an instance because the policy says so.
    async fn reap(self: &Arc<Self>, id: &str, reason: Option<&str>) {
        let Some((work, operation)) =
            self.book.lock().get(id).map(|entry| (entry.work.clone(), entry.operation.clone()))
        else {
            return;
        };
        match work {
            Work::Idle | Work::Suspending | Work::Resuming => {
                metrics::counter!(names::REAPS).increment(1);
                let why = reason.unwrap_or("the state-mapping policy says so");
                if let Err(error) = self.begin_cleanup(id, why).await {
                    tracing::error!(instance = id, error = &error as &dyn std::error::Error, "it could not be reaped");
                }
            }
            Work::Creating => {
                metrics::counter!(names::REAPS).increment(1);
                if self.call_off(&operation) {
                    tracing::warn!(
                        instance = id,
                        reason,
                        "its creation is called off, as the state-mapping policy says"
                    );
                    self.book.lock().set_work(id, Work::Undoing);
                }
            }
            Work::Undoing | Work::CleaningUp | Work::Left | Work::Gone => {}
        }
    }
}

/// Sets the gauges.
pub(super) fn count(reports: &BTreeMap<String, State>) {
    for state in [
        State::Creating,
        State::Running,
        State::Deleting,
        State::Timeout,
        State::Suspending,
        State::Suspended,
        State::Resuming,
    ] {
        let count = reports.values().filter(|told| **told == state).count();
        metrics::gauge!(names::INSTANCES, "state" => state.to_string()).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_is_only_told_while_a_cleanup_is_in_flight() {
        assert_eq!(report(Told::Deleting, Operation::Cleanup), Some(State::Deleting));
        for in_flight in [Operation::None, Operation::Create, Operation::Suspend, Operation::Resume] {
            assert_eq!(report(Told::Deleting, in_flight), None);
        }
    }

    #[test]
    fn a_type_has_one_position_in_a_listing() {
        let mut types = ServerTypes::default();
        let positions = ["DEV1-S", "GP1-XS", "DEV1-S"].map(|name| types.position(name));
        assert_eq!(positions, [0, 1, 0]);
        assert_eq!(types.names(), ["DEV1-S", "GP1-XS"]);
    }

    #[test]
    fn a_watched_tag_sets_its_own_bit_and_no_other_tag_any() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let watch: Vec<String> = (0..64).map(|number| format!("tag-{number}")).collect();
        assert_eq!(watched(&watch, &names(&["tag-63", "role=runner", "tag-0"])), (1 << 63) | 1);
        assert_eq!(watched(&watch, &watch), u64::MAX);
        assert_eq!(watched(&names(&["debug"]), &names(&["debug=1", "windlass-group=ci"])), 0);
        assert_eq!(watched(&[], &watch), 0);
    }

    #[test]
    fn every_word_of_scaleway_has_one_of_the_contract() {
        assert_eq!(state(&scaleway::ServerState::StoppedInPlace), ServerState::StoppedInPlace);
        assert_eq!(detail("booting kernel"), StateDetail::BootingKernel);
        assert_eq!(detail("something new"), StateDetail::Other);
        assert_eq!(detail(""), StateDetail::None);
    }
}
