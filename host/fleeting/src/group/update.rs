//! Update: one listing, one question to the state-mapping policy, one report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_lifecycle::{Machine, OperationId, OperationState, RequestedBy, Requester, read_or_absent};
use windlass_policy::DecisionId;
use windlass_policy::slots::state_mapping::{Action, Question, Server, ServerState, StateDetail};
use windlass_policy::slots::types::{Failure as Cause, FailureClass};
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance as scaleway;

use super::closed::says_closed;
use super::entry::{Entry, Phase};
use super::fleet::Fleet;
use super::judge::{PARALLEL_LOOKS, ServerTypes, count, judge};
use super::looks::{HEARTBEAT_PATIENCE, Reports, Seen, Unseen};
use super::places::Place;
use crate::observe::names;
use crate::protocol::{Failure, Update};

/// How long a look waits for one of several zones.
const ZONE_PATIENCE: Duration = Duration::from_secs(10);

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

/// What is asked about the servers of one zone.
#[derive(Default)]
struct OfZone {
    ids: Vec<String>,
    servers: Vec<Server>,
    server_types: ServerTypes,
}

impl Fleet {
    /// The state of every instance, as the policy sees it.
    pub(crate) async fn update(self: Arc<Self>) -> Result<Update, Failure> {
        let began = Instant::now();
        let reports = self.looks.now(self.look().instrument(tracing::trace_span!("update"))).await?;
        metrics::histogram!(names::UPDATE_SECONDS).record(began.elapsed().as_secs_f64());
        let told = reports.clone();
        Ok(Update::of(reports, move || self.book.lock().delivered(&told)))
    }

    /// Ends well when the last look, or a new one where that is old, found the instance running.
    pub(crate) async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure> {
        if !self.looks.is_recent() {
            let fleet = Arc::clone(&self);
            let look = self.tasks.carry(async move {
                fleet.looks.unless_recent(fleet.look().instrument(tracing::trace_span!("update"))).await
            });
            // One that takes longer goes on without this call.
            let _ = tokio::time::timeout(HEARTBEAT_PATIENCE, look).await;
        }
        self.looks.health(id)
    }

    /// Lists, judges, begins the reaps, and answers what to tell about each instance.
    ///
    /// A zone that cannot be asked takes no other with it: of its instances, what was seen last is told.
    async fn look(self: &Arc<Self>) -> Result<Seen, Failure> {
        self.catch_up();
        let began = Instant::now();
        let listed = join_all(self.zones.iter().map(|zone| self.list(zone))).await;
        let mut servers: BTreeMap<String, scaleway::Server> = BTreeMap::new();
        let mut silent: BTreeMap<Zone, Failure> = BTreeMap::new();
        for (zone, machines) in self.zones.iter().zip(listed) {
            match machines {
                Ok(machines) => {
                    self.looked.lock().insert(zone.clone(), began);
                    servers.extend(machines.into_iter().filter_map(|machine| self.adopt(zone, machine)));
                }
                Err(failure) => drop(silent.insert(zone.clone(), failure)),
            }
        }
        self.note_silence(&silent)?;
        let vanished = self.look_for_missing(&mut servers, &silent).await;
        servers.iter().for_each(|(id, server)| self.last_addresses.listed(id, server));
        {
            let book = self.book.lock();
            self.last_addresses.retain(|id| book.get(id).is_some());
        }
        self.show_servers(&servers, &silent);
        // Seen at each look, so that it is known for how long each has been on its way out.
        self.book.lock().leftovers(self.lifecycle.now(), |_| true);
        self.gauges.policies(&self.policies.status());
        for (id, why) in vanished {
            // Its addresses and volumes are still there.
            let requested_by = RequestedBy::new(Requester::Plugin, why);
            if let Err(error) = self.begin_cleanup(&id, &requested_by).await {
                tracing::error!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "its rest could not be removed"
                );
            }
        }
        let now = self.lifecycle.now();
        let (questions, mut reports) = self.questions(&servers, now);
        for (ids, question) in questions {
            let (decision, judged) = judge(&self.policies, ids, question).await;
            for (id, mapping, reason) in judged {
                if mapping.action == Action::Reap {
                    self.reap(&id, reason.as_deref(), decision).await;
                }
                // After the reap: what was accepted just now is in flight.
                let told = self.book.lock().get(&id).and_then(|entry| entry.judged(mapping));
                if let Some(told) = told {
                    reports.insert(id, told);
                }
            }
        }
        count(&reports);
        let unseen = self.unseen(&silent, &reports);
        Ok(Seen { reports, unseen })
    }

    /// The group's servers in a zone. Where there are others, one that hangs does not keep them waiting for long, and
    /// one that is closed is asked rarely.
    pub(super) async fn list(&self, zone: &Zone) -> Result<Vec<Machine>, Failure> {
        let listing = self.lifecycle.machines(std::slice::from_ref(zone), Some(&self.configuration.group));
        if self.zones.len() == 1 {
            return listing.await.map_err(|error| Failure::from_error(&error));
        }
        if let Some(why) = self.closed.lock().answer(zone, Instant::now()) {
            return Err(why);
        }
        let late = || Failure(format!("{zone} did not answer within {} s", ZONE_PATIENCE.as_secs()));
        let (machines, is_closed) = match tokio::time::timeout(ZONE_PATIENCE, listing).await {
            Ok(Ok(machines)) => (Ok(machines), false),
            Ok(Err(error)) => (Err(Failure::from_error(&error)), says_closed(&error)),
            Err(_) => (Err(late()), false),
        };
        self.note_closed(zone, machines.as_ref().err(), is_closed);
        machines
    }

    /// Notes whether a zone answers as one that is closed, and says once that it is.
    fn note_closed(&self, zone: &Zone, failure: Option<&Failure>, is_closed: bool) {
        let mut closed = self.closed.lock();
        let changed = match failure {
            None => closed.listed(zone),
            Some(failure) => closed.refused(zone, is_closed, failure, Instant::now()),
        };
        if !changed {
            return;
        }
        metrics::gauge!(names::ZONE_CLOSED, "zone" => zone.to_string()).set(f64::from(closed.holds(zone)));
        match failure {
            None => tracing::info!(%zone, "it can be listed again"),
            Some(failure) => tracing::warn!(
                %zone,
                "it answers like a zone that is closed, so the group goes on without it. What it had there is told as \
                 it was seen last, or not at all, and is left as it is; `windlass operation abandon` lets go of what \
                 cannot be removed: {failure}"
            ),
        }
    }

    /// Goes on without the zones that could not be asked, if that is possible: not where none could, and not where the
    /// journal has instances in one that was never seen, since the runner would take them for gone. For one that is
    /// closed nobody can wait.
    fn note_silence(&self, silent: &BTreeMap<Zone, Failure>) -> Result<(), Failure> {
        let mut newly = Vec::new();
        {
            let mut places = self.places.lock();
            for zone in &self.zones {
                let failure = silent.get(zone);
                let cause = failure.map(|failure| Cause::of_class(FailureClass::Connection, failure.0.clone()));
                if places.looked(zone, cause)
                    && let Some(failure) = failure
                {
                    newly.push((zone, failure));
                }
            }
        }
        let seen = self.looked.lock();
        let closed = self.closed.lock();
        let is_awaited = |zone: &Zone| self.known_zones.contains(zone) && !seen.contains_key(zone);
        let unknown = silent.iter().find(|(zone, _)| is_awaited(zone) && !closed.holds(zone));
        let all = (silent.len() == self.zones.len()).then(|| silent.iter().next()).flatten();
        match unknown.or(all) {
            Some((_, failure)) => Err(failure.clone()),
            None => {
                for (zone, failure) in newly {
                    tracing::warn!(%zone, "it cannot be asked, so what was seen there last is told: {failure}");
                }
                Ok(())
            }
        }
    }

    /// The instances of zones that could not be asked, with when these were.
    fn unseen(&self, silent: &BTreeMap<Zone, Failure>, reports: &Reports) -> BTreeMap<String, Unseen> {
        if silent.is_empty() {
            return BTreeMap::new();
        }
        let (book, looked) = (self.book.lock(), self.looked.lock());
        let unseen = |id: &String| {
            let zone = &book.get(id)?.place.zone;
            Some((id.clone(), Unseen { since: *looked.get(zone)?, why: silent.get(zone)?.clone() }))
        };
        reports.keys().filter_map(unseen).collect()
    }

    fn show_servers(&self, servers: &BTreeMap<String, scaleway::Server>, silent: &BTreeMap<Zone, Failure>) {
        let book = self.book.lock();
        let of = |zone: &Zone| {
            let here = |(id, _): &(&String, &scaleway::Server)| book.get(id).is_some_and(|it| it.place.zone == *zone);
            servers.iter().filter(here).map(|(_, server)| server.commercial_type.as_str()).collect::<Vec<_>>()
        };
        for zone in self.zones.iter().filter(|zone| !silent.contains_key(zone)) {
            self.gauges.servers(zone, of(zone).into_iter());
        }
    }

    /// Takes a listed server up, also one that this process has not seen before. Servers that were kept on purpose
    /// belong to people, not to the runner; and those that our journal does not know to whoever made them, unless they
    /// were taken over.
    fn adopt(&self, zone: &Zone, machine: Machine) -> Option<(String, scaleway::Server)> {
        if machine.kept || machine.abandoned {
            return None;
        }
        let operation: OperationId = machine.operation?;
        let id = operation.to_string();
        if machine.operation_state.is_none() && !self.adopted.holds(&id) {
            if self.strangers.lock().insert(id.clone()) {
                let host = machine.host.as_deref().unwrap_or("another host");
                tracing::warn!(
                    instance = id,
                    server = machine.id,
                    "{host} works under the same name and owner and made this, so it is left alone: each needs its own \
                     name"
                );
            }
            return None;
        }
        let mut book = self.book.lock();
        if book.get(&id).is_none() {
            tracing::info!(instance = id, server = machine.id, state = machine.state, "found an instance");
            let place = Place { zone: zone.clone(), server_type: machine.server_type.clone() };
            let mut entry = Entry::found(operation, place, Phase::Idle { suspended: self.suspensions.holds(&id) });
            // Its creation ended well, so it ran once.
            entry.has_run = machine.operation_state == Some(OperationState::Done);
            book.insert(entry);
        }
        book.saw(&id, &machine.id, state(&machine.server.state), self.lifecycle.now());
        book.has_type(&id, &machine.server_type);
        Some((id, machine.server))
    }

    /// Asks by id for servers that should be there and were not listed: a listing that leaves a server out proves
    /// nothing. What is found joins the others; what is proven gone, or not ours any more, is returned with the reason.
    /// Zones that could not be listed are not asked again.
    async fn look_for_missing(
        &self,
        servers: &mut BTreeMap<String, scaleway::Server>,
        silent: &BTreeMap<Zone, Failure>,
    ) -> Vec<(String, &'static str)> {
        let missing: Vec<(String, Zone, String)> = self
            .book
            .lock()
            .iter()
            .filter(|(id, entry)| entry.phase().stands() && !servers.contains_key(*id))
            .filter(|(_, entry)| !silent.contains_key(&entry.place.zone))
            .filter_map(|(id, entry)| Some((id.clone(), entry.place.zone.clone(), entry.server.clone()?)))
            .collect();
        let looked: Vec<_> = stream::iter(missing)
            .map(|(id, zone, server)| async move { (id, self.read_server(&zone, &server).await) })
            .buffer_unordered(PARALLEL_LOOKS)
            .collect()
            .await;
        let mut vanished = Vec::new();
        for (id, answer) in looked {
            match answer {
                Ok(Some(server)) if self.lifecycle.owns(&server) => {
                    self.book.lock().saw(&id, &server.id, state(&server.state), self.lifecycle.now());
                    servers.insert(id, server);
                }
                Ok(Some(_)) => vanished.push((id, "somebody took its server over: it no longer carries our tags")),
                Ok(None) => vanished.push((id, "its server was deleted by somebody else")),
                Err(error) => tracing::warn!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "it was not listed and could not be looked at; what was said of it stays"
                ),
            }
        }
        vanished
    }

    /// A server by its id; nothing where it is proven gone, so that one wrong answer costs no running job.
    pub(super) async fn read_server(
        &self,
        zone: &Zone,
        id: &str,
    ) -> Result<Option<scaleway::Server>, windlass_scaleway::Error> {
        let instance = self.client.instance(zone);
        read_or_absent(|| instance.get_server(id)).await
    }

    /// What the policy is asked, about whom, and what is told about the instances that have no server to judge. A
    /// question is about one zone.
    fn questions(
        &self,
        servers: &BTreeMap<String, scaleway::Server>,
        now: u64,
    ) -> (Vec<(Vec<String>, Question)>, Reports) {
        let watched_tags = &self.configuration.watched_tags;
        let book = self.book.lock();
        let mut of_zones: BTreeMap<&Zone, OfZone> = BTreeMap::new();
        let mut reports = Reports::new();
        for (id, entry) in book.iter() {
            match servers.get(id).filter(|_| entry.phase().is_judged()) {
                Some(server) => {
                    let of_zone = of_zones.entry(&entry.place.zone).or_default();
                    // Two clocks: Scaleway's may differ from ours, and no server is older than its operation.
                    let created = server.created_at().and_then(|at| u64::try_from(at.as_millisecond()).ok());
                    let created = created.unwrap_or(now).max(entry.operation.made_at());
                    let since = entry.seen.map_or(now, |(_, since)| since);
                    of_zone.ids.push(id.clone());
                    of_zone.servers.push(Server {
                        state: state(&server.state),
                        detail: detail(&server.state_detail),
                        age: now.saturating_sub(created),
                        state_age: now.saturating_sub(since),
                        has_run: entry.has_run,
                        in_flight: entry.phase().in_flight(),
                        suspended: entry.is_suspended(),
                        server_type: of_zone.server_types.position(&server.commercial_type),
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
        let question = |(zone, of_zone): (&Zone, OfZone)| {
            let question = Question {
                now,
                zone: zone.to_string(),
                group: Some(self.configuration.group.to_string()),
                server_types: of_zone.server_types.names(),
                watched_tags: watched_tags.clone(),
                servers: of_zone.servers,
            };
            (of_zone.ids, question)
        };
        (of_zones.into_iter().map(question).collect(), reports)
    }

    /// Removes an instance because the policy says so.
    async fn reap(self: &Arc<Self>, id: &str, reason: Option<&str>, decision: Option<DecisionId>) {
        let why = reason.unwrap_or("the state-mapping policy says so");
        let Some(phase) = self.book.lock().get(id).map(|entry| entry.phase().clone()) else { return };
        let mut requested_by = RequestedBy::new(Requester::Policy, why);
        requested_by.decisions.extend(decision);
        let reaped = if phase.stands() {
            metrics::counter!(names::REAPS).increment(1);
            self.begin_cleanup(id, &requested_by).await
        } else {
            self.end_creation(id, &requested_by).await.map(|changed| {
                if changed {
                    metrics::counter!(names::REAPS).increment(1);
                    tracing::warn!(instance = id, "its creation is called off: {why}");
                }
            })
        };
        if let Err(error) = reaped {
            tracing::error!(instance = id, error = &error as &dyn std::error::Error, "it could not be reaped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
