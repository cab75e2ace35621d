//! Update: one listing, one question to the state-mapping policy, one report.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use tokio::time::Instant;
use windlass_lifecycle::{RequestedBy, Requester};
use windlass_policy::slots::StateMapping;
use windlass_policy::slots::state_mapping::{Action, Mapping, Question, Server, Verdict};
use windlass_policy::slots::types::{Failure as Cause, FailureClass};
use windlass_policy::{DecidedBy, DecisionId, Host};
use windlass_scaleway::Zone;

use super::closed::says_closed;
use super::fleet::Fleet;
use super::kind::{Machine as _, MachineKind, Machines};
use super::looks::{Reports, Seen, Unseen};
use crate::observe::names;
use crate::protocol::{Failure, State};

/// How long a look waits for one of several zones.
const ZONE_PATIENCE: Duration = Duration::from_secs(10);

/// Servers that a listing left out are asked for by their ids, so many at a time.
const PARALLEL_LOOKS: usize = 8;

impl<K: MachineKind> Fleet<K> {
    /// Lists, judges, begins the reaps, and answers what to tell about each instance.
    ///
    /// A zone that cannot be asked takes no other with it: for its instances, what was seen last is reported.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Seen, Failure> {
        K::catch_up(self);
        let began = Instant::now();
        let look = self.book.lock().begin_look();
        let listed = join_all(self.zones.iter().map(|zone| self.list(zone))).await;
        let mut machines: Machines<K> = BTreeMap::new();
        let mut silent: BTreeMap<Zone, Failure> = BTreeMap::new();
        for (zone, listed) in self.zones.iter().zip(listed) {
            match listed {
                Ok(listed) => {
                    self.looked.lock().insert(zone.clone(), began);
                    let taken = listed.into_iter().filter_map(|machine| K::take_up(self, zone, machine));
                    machines.extend(taken.map(|(id, machine)| (id, Box::new(machine))));
                }
                Err(failure) => drop(silent.insert(zone.clone(), failure)),
            }
        }
        self.note_silence(&silent)?;
        let vanished = self.look_for_missing(&mut machines, &silent).await;
        K::looked(self, &machines);
        self.show_machines(&machines, &silent);
        // Seen at each look, so that it is known for how long each has been on its way out.
        self.book.lock().leftovers(self.lifecycle.now(), |_| true);
        for (id, why) in vanished {
            K::lost(self, &id, &why).await;
        }
        let now = self.lifecycle.now();
        let (questions, mut reports) = self.questions(&machines, look, now);
        for (ids, question) in questions {
            for Judged { id, mapping, reason, decision, decided_by } in judge(&self.policies, ids, question).await {
                if mapping.action == Action::Reap {
                    self.reap(&id, reason.as_deref(), decision, &decided_by).await;
                }
                // After the reap: what was accepted just now is in flight.
                let reported = self.book.lock().get(&id).and_then(|entry| entry.judged(mapping));
                if let Some(reported) = reported {
                    reports.insert(id, reported);
                }
            }
        }
        count(&reports);
        let unseen = self.unseen(&silent, &reports);
        Ok(Seen { reports: Arc::new(reports), unseen })
    }

    /// The group's machines in a zone. Where there are others, one that hangs does not keep them waiting for long, and
    /// one that is closed is asked rarely.
    pub(super) async fn list(&self, zone: &Zone) -> Result<Vec<K::Listed>, Failure> {
        let listing = K::list(self, zone);
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
                "this zone answers as if it were closed, so the group works without it. Its instances keep their last \
                 known state and are not changed; give up those that cannot be removed with `windlass operation \
                 abandon`: {failure}"
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
                    tracing::warn!(%zone, "this zone does not answer, so its last known states are reported: {failure}");
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

    fn show_machines(&self, machines: &Machines<K>, silent: &BTreeMap<Zone, Failure>) {
        let book = self.book.lock();
        let of = |zone: &Zone| {
            let is_here = |id: &str| book.get(id).is_some_and(|it| it.place.zone == *zone);
            machines.iter().filter(|(id, _)| is_here(id)).map(|(_, machine)| machine.server_type()).collect::<Vec<_>>()
        };
        for zone in self.zones.iter().filter(|zone| !silent.contains_key(zone)) {
            self.gauges.servers(zone, of(zone).into_iter());
        }
    }

    /// Asks by id for machines that should be there and were not listed: a listing that leaves one out proves
    /// nothing. What is found joins the others; what is proven gone, or not ours any more, is returned with the reason.
    /// Zones that could not be listed are not asked again.
    async fn look_for_missing(
        &self,
        machines: &mut Machines<K>,
        silent: &BTreeMap<Zone, Failure>,
    ) -> Vec<(String, String)> {
        let missing: Vec<(String, Zone, String)> = self
            .book
            .lock()
            .iter()
            .filter(|(id, entry)| entry.phase().stands() && !machines.contains_key(*id))
            .filter(|(_, entry)| !silent.contains_key(&entry.place.zone))
            .filter_map(|(id, entry)| Some((id.clone(), entry.place.zone.clone(), entry.server.clone()?)))
            .collect();
        let looked: Vec<_> = stream::iter(missing)
            .map(|(id, zone, server)| async move {
                let read = K::read(self, &id, &zone, &server).await;
                (id, read)
            })
            .buffer_unordered(PARALLEL_LOOKS)
            .collect()
            .await;
        let mut vanished = Vec::new();
        for (id, answer) in looked {
            match answer {
                Ok(Ok(machine)) => {
                    self.book.lock().saw(&id, machine.id(), machine.state().0, self.lifecycle.now());
                    machines.insert(id, Box::new(machine));
                }
                Ok(Err(why)) => vanished.push((id, why)),
                Err(error) => tracing::warn!(
                    instance = id,
                    error = &error as &dyn std::error::Error,
                    "it was not listed and cannot be read; its last state is reported again"
                ),
            }
        }
        vanished
    }

    /// What the policy is asked, about whom, and what is reported about the members that have no machine to judge. A
    /// question is about one zone. A machine that this look saw before its member's phase changed is judged by the next.
    fn questions(&self, machines: &Machines<K>, look: u64, now: u64) -> (Vec<(Vec<String>, Question)>, Reports) {
        let watched_tags = K::watched_tags(&self.configuration);
        let mut book = self.book.lock();
        let subject = self.subject();
        let begin = |zone: &Zone| {
            let question = Question::of_listing(now, zone.as_str(), subject.clone(), watched_tags.to_vec());
            (Vec::new(), question)
        };
        let mut of_zones: BTreeMap<&Zone, (Vec<String>, Question)> = BTreeMap::new();
        let mut reports = Reports::new();
        for (id, entry) in book.iter_mut() {
            match machines.get(id).filter(|_| entry.phase().is_judged() && entry.is_seen_by(look)) {
                Some(machine) => {
                    let created = entry.created(machine.creation_date());
                    let entry = &*entry;
                    let zone = &entry.place.zone;
                    let (ids, question) = of_zones.entry(zone).or_insert_with(|| begin(zone));
                    // Two clocks: Scaleway's may differ from ours, and no machine is older than its operation or claim.
                    let created = created.unwrap_or(now).max(entry.began());
                    let since = entry.seen.map_or(now, |(_, since)| since);
                    let (state, detail) = machine.state();
                    ids.push(id.clone());
                    let server = Server {
                        state,
                        detail,
                        age: now.saturating_sub(created),
                        state_age: now.saturating_sub(since),
                        has_run: machine.has_run(entry),
                        unused_for: entry.activity.last_used.map(|at| now.saturating_sub(at)),
                        in_flight: entry.phase().in_flight(),
                        suspended: entry.is_suspended(),
                        server_type: 0,
                        watched_tags: 0,
                    };
                    question.push(server, machine.server_type(), machine.tags());
                }
                None => {
                    if let Some(state) = entry.without_server() {
                        reports.insert(id.clone(), state);
                    }
                }
            }
        }
        (of_zones.into_values().collect(), reports)
    }

    /// Removes a member because the policy says so.
    async fn reap(self: &Arc<Self>, id: &str, reason: Option<&str>, decision: DecisionId, decided_by: &DecidedBy) {
        let why = reason.unwrap_or("the state-mapping policy says so");
        let Some(phase) = self.book.lock().get(id).map(|entry| entry.phase().clone()) else { return };
        let mut requested_by = RequestedBy::new(Requester::Policy, why).decided(decision);
        requested_by.decided_by = Some(decided_by.to_string());
        let reaped = if phase.stands() {
            metrics::counter!(names::REAPS).increment(1);
            self.begin_removal(id, &requested_by).await
        } else {
            K::end_creation(self, id, &requested_by).await.map(|changed| {
                if changed {
                    metrics::counter!(names::REAPS).increment(1);
                    tracing::warn!(instance = id, "its creation is cancelled: {why}");
                }
            })
        };
        if let Err(error) = reaped {
            tracing::error!(
                instance = id,
                error = &error as &dyn std::error::Error,
                "cannot remove the instance that the state-mapping policy wants removed"
            );
        }
    }
}

/// What was judged about an instance, why, and by whom.
struct Judged {
    id: String,
    mapping: Mapping,
    reason: Option<String>,
    decision: DecisionId,
    decided_by: DecidedBy,
}

/// One question for the whole batch of these ids.
async fn judge(policies: &Host, ids: Vec<String>, question: Question) -> Vec<Judged> {
    if ids.is_empty() {
        return Vec::new();
    }
    let decision = policies.pin().decide::<StateMapping>(question).await;
    for fallback in &decision.fallbacks {
        tracing::warn!(decision = %decision.id, "{fallback}");
    }
    let deciders: Vec<DecidedBy> = (0..ids.len()).map(|item| decision.decider(item)).collect();
    let judged = ids.into_iter().zip(decision.answer).zip(deciders);
    judged
        .filter_map(|((id, answer), decided_by)| match answer.verdict {
            Verdict::Mapped(mapping) => {
                Some(Judged { id, mapping, reason: answer.reason, decision: decision.id, decided_by })
            }
            // The last link of a chain never defers.
            Verdict::Defer => None,
        })
        .collect()
}

/// Shows how many are reported as what.
fn count(reports: &Reports) {
    for state in [
        State::Creating,
        State::Running,
        State::Deleting,
        State::Timeout,
        State::Suspending,
        State::Suspended,
        State::Resuming,
    ] {
        let count = reports.values().filter(|reported| **reported == state).count();
        metrics::gauge!(names::INSTANCES, "state" => state.to_string()).set(count as f64);
    }
}
