//! Update: one listing, one question to the state-mapping policy, one report.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;
use tracing::Instrument as _;
use windlass_lifecycle::{RequestedBy, Requester};
use windlass_policy::DecisionId;
use windlass_policy::slots::state_mapping::{Action, Question};
use windlass_scaleway::types::apple_silicon::Server as Host;

use super::start::was_claimed;
use super::{Hosts, mapping};
use crate::group::entry::{Entry, Event, Phase};
use crate::group::fleet::now_ms;
use crate::group::judge::{PARALLEL_LOOKS, ServerTypes, count, judge};
use crate::group::looks::{HEARTBEAT_PATIENCE, Reports, Seen};
use crate::observe::names;
use crate::protocol::{Failure, Update};

/// What became of a host that was not listed under its claim.
enum Unlisted {
    Here(Box<Host>),
    /// It is gone, or somebody gave it another name.
    NotOurs(String),
    Unknown,
}

impl Hosts {
    /// The state of every host, as the policy sees it.
    pub(crate) async fn update(self: Arc<Self>) -> Result<Update, Failure> {
        let began = Instant::now();
        let reports = self.looks.now(self.look().instrument(tracing::trace_span!("update"))).await?;
        metrics::histogram!(names::UPDATE_SECONDS).record(began.elapsed().as_secs_f64());
        let told = reports.clone();
        Ok(Update::of(reports, move || self.book.lock().delivered(&told)))
    }

    /// Ends well when the last look, or a new one where that is old, found the host running.
    pub(crate) async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure> {
        if !self.looks.is_recent() {
            let hosts = Arc::clone(&self);
            let look = self.tasks.carry(async move {
                hosts.looks.unless_recent(hosts.look().instrument(tracing::trace_span!("update"))).await
            });
            // One that takes longer goes on without this call.
            let _ = tokio::time::timeout(HEARTBEAT_PATIENCE, look).await;
        }
        self.looks.health(id)
    }

    /// Lists, judges, begins the reaps, and answers what to tell about each host.
    async fn look(self: &Arc<Self>) -> Result<Seen, Failure> {
        let zone = &self.configuration.zone;
        let listing = self.lifecycle.hosts(zone).await.map_err(|error| Failure::from_error(&error))?;
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for host in &listing.machines {
            if self.take_up(host) {
                hosts.insert(host.name.clone(), host.clone());
            }
        }
        // What no host carries any more need not be remembered.
        self.released.lock().retain(|claim| {
            let is_carried = listing.machines.iter().any(|host| host.name == *claim);
            if !is_carried {
                self.known.forget(claim);
            }
            is_carried
        });
        self.look_for_missing(&mut hosts).await;
        self.gauges.servers(&self.configuration.zone, hosts.values().map(|host| host.server_type.as_str()));
        self.gauges.policies(&self.policies.status());

        let now = now_ms();
        let (ids, question, mut reports) = self.question(&hosts, now);
        let (decision, judged) = judge(&self.policies, ids, question).await;
        for (id, mapping, reason) in judged {
            if mapping.action == Action::Reap {
                self.reap(&id, reason.as_deref(), decision);
            }
            // After the reap: what was accepted just now is in flight.
            let told = self.book.lock().get(&id).and_then(|entry| entry.judged(mapping));
            if let Some(told) = told {
                reports.insert(id, told);
            }
        }
        count(&reports);
        Ok(reports.into())
    }

    /// Whether a listed host is one of the group, and then takes it up, also one that this process has not seen before.
    /// One that was released belongs to the release policy's verdict, and one that Scaleway will delete to nobody.
    fn take_up(&self, host: &Host) -> bool {
        let Some((_, operation)) = self.claim_of(&host.name) else { return false };
        let id = host.name.as_str();
        if host.deletion_scheduled || self.released.lock().contains(id) {
            return false;
        }
        if self.book.lock().get(id).is_none() && (!self.is_ours(host) || self.was_kept(host)) {
            return false;
        }
        let mut book = self.book.lock();
        match book.get(id).and_then(|entry| entry.server.as_deref()) {
            // Somebody gave another host the name of ours.
            Some(known) if known != host.id => return false,
            _ => {}
        }
        if book.get(id).is_none() {
            tracing::info!(instance = id, host = host.id, status = %host.status, "found a host of this group");
            self.known_since.lock().insert(id.to_owned(), now_ms());
            book.insert(Entry::found(operation, self.place(), Phase::Idle { suspended: false }));
        }
        book.saw(id, &host.id, mapping::state(host).0, now_ms());
        true
    }

    /// Whether a host with a claim of the group was claimed by this state directory, or taken over. Others may work
    /// under the same name and owner.
    fn is_ours(&self, host: &Host) -> bool {
        let name = host.name.as_str();
        if self.known.holds(name) {
            return true;
        }
        // No name comes twice, so a stranger's never becomes ours.
        if self.strangers.lock().contains(name) {
            return false;
        }
        match was_claimed(&self.lifecycle, name) {
            Ok(true) => {
                self.remember(name);
                return true;
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(instance = name, error = &error as &dyn std::error::Error, "whose it is cannot be read");
                return false;
            }
        }
        self.strangers.lock().insert(name.to_owned());
        tracing::warn!(
            instance = name,
            host = host.id,
            "another host works under the same name and owner and claimed this, so it is left alone: each needs its \
             own name"
        );
        false
    }

    /// Whether an earlier process released a host, and the release policy kept it. Where that cannot be read it is not
    /// taken up yet.
    fn was_kept(&self, host: &Host) -> bool {
        let Ok(claim) = host.name.parse() else { return false };
        match self.lifecycle.kept_host(&host.id, &claim) {
            Ok(None) => false,
            Ok(Some(operation)) => {
                tracing::warn!(
                    instance = host.name,
                    host = host.id,
                    %operation,
                    "it is kept, as the release policy said, and costs; it is left alone until somebody gives it \
                     another name"
                );
                self.released.lock().insert(host.name.clone());
                true
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(instance = host.name, error, "whether it was kept cannot be read");
                true
            }
        }
    }

    /// Remembers that a claim is ours, for longer than the journal does.
    pub(super) fn remember(&self, claim: &str) {
        if let Err(error) = self.known.remember([claim]) {
            tracing::warn!(instance = claim, %error, "that it is ours cannot be written down");
        }
    }

    /// Asks by id for hosts that should be there and were not listed with their claim.
    async fn look_for_missing(&self, hosts: &mut BTreeMap<String, Host>) {
        let missing: Vec<(String, String)> = self
            .book
            .lock()
            .iter()
            .filter(|(id, entry)| entry.phase().stands() && !hosts.contains_key(*id))
            .filter_map(|(id, entry)| Some((id.clone(), entry.server.clone()?)))
            .collect();
        let api = self.client.apple_silicon(&self.configuration.zone);
        let looked: Vec<(String, Unlisted)> = stream::iter(missing)
            .map(|(id, host)| {
                let api = &api;
                async move {
                    let found = match api.get_server(&host).await {
                        Ok(host) if host.name == id && !host.deletion_scheduled => Unlisted::Here(Box::new(host)),
                        Ok(host) if host.name == id => Unlisted::NotOurs("somebody scheduled its deletion".to_owned()),
                        Ok(host) => Unlisted::NotOurs(format!("somebody named it {:?}", host.name)),
                        // The list was permitted and does not hold it: together that is a proof.
                        Err(error) if error.is_gone_or_not_ours() => {
                            Unlisted::NotOurs("it does not exist any more".to_owned())
                        }
                        Err(error) => {
                            tracing::warn!(
                                instance = id,
                                error = &error as &dyn std::error::Error,
                                "it was not listed and could not be looked at; what was said of it stays"
                            );
                            Unlisted::Unknown
                        }
                    };
                    (id, found)
                }
            })
            .buffer_unordered(PARALLEL_LOOKS)
            .collect()
            .await;
        for (id, found) in looked {
            match found {
                Unlisted::Here(host) => {
                    self.book.lock().saw(&id, &host.id, mapping::state(&host).0, now_ms());
                    hosts.insert(id, *host);
                }
                Unlisted::NotOurs(why) => {
                    tracing::warn!(instance = id, "its host is lost to the group: {why}");
                    self.apply(&id, &Event::Ended);
                }
                Unlisted::Unknown => {}
            }
        }
    }

    /// What the policy is asked, about whom, and what is told about those that have no host to judge.
    fn question(&self, hosts: &BTreeMap<String, Host>, now: u64) -> (Vec<String>, Question, Reports) {
        let book = self.book.lock();
        let mut known_since = self.known_since.lock();
        known_since.retain(|id, _| book.get(id).is_some());
        let (mut ids, mut servers) = (Vec::new(), Vec::new());
        let mut server_types = ServerTypes::default();
        let mut reports = Reports::new();
        for (id, entry) in book.iter() {
            match hosts.get(id).filter(|_| entry.phase().is_judged()) {
                Some(host) => {
                    let since = entry.seen.map_or(now, |(_, since)| since);
                    let known = known_since.get(id).copied().unwrap_or(now);
                    let server_type = server_types.position(&host.server_type);
                    ids.push(id.clone());
                    servers.push(mapping::question(host, server_type, entry.phase().in_flight(), known, since, now));
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
            // A Mac has no tags.
            watched_tags: Vec::new(),
            servers,
        };
        (ids, question, reports)
    }

    /// Releases a host because the state-mapping policy says so.
    fn reap(self: &Arc<Self>, id: &str, reason: Option<&str>, decision: Option<DecisionId>) {
        let known = self.book.lock().get(id).map(|entry| (entry.phase().clone(), entry.server.clone()));
        let why = reason.unwrap_or("the state-mapping policy says so");
        let mut requested_by = RequestedBy::new(Requester::Policy, why);
        requested_by.decisions.extend(decision);
        match known {
            Some((Phase::Idle { .. }, Some(host))) => {
                metrics::counter!(names::REAPS).increment(1);
                self.begin_release(id, host, requested_by);
            }
            Some((Phase::Creating { .. }, _)) => {
                metrics::counter!(names::REAPS).increment(1);
                tracing::warn!(instance = id, "its claim is called off: {why}");
                self.remove(&[id.to_owned()], &requested_by);
            }
            _ => {}
        }
    }
}
