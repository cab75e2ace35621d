//! Update: one listing, one question to the state-mapping policy, one report.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;
use windlass_policy::slots::StateMapping;
use windlass_policy::slots::state_mapping::{Action, Mapping, Operation, Question, Verdict};
use windlass_scaleway::types::apple_silicon::Server as Host;

use super::{Hosts, mapping};
use crate::group::book::{Entry, Work};
use crate::group::fleet::now_ms;
use crate::group::update::{FRESH, PARALLEL_LOOKS, ServerTypes, count, report};
use crate::observe::names;
use crate::protocol::{Failure, Report, State, Update};

/// What the last listing led to.
pub(super) struct Look {
    at: Instant,
    reports: BTreeMap<String, State>,
}

/// What became of a host that was not listed under its claim.
enum Whereabouts {
    Here(Box<Host>),
    /// It is gone, or somebody gave it another name.
    NotOurs(String),
    Unknown,
}

impl Hosts {
    /// The state of every host, as the policy sees it.
    pub(crate) async fn update(self: Arc<Self>) -> Result<Update, Failure> {
        let began = Instant::now();
        let mut last = self.last_look.lock().await;
        let reports = self.look().await?;
        *last = Some(Look { at: began, reports: reports.clone() });
        drop(last);
        metrics::histogram!(names::UPDATE_SECONDS).record(began.elapsed().as_secs_f64());
        let answer = reports.iter().map(|(id, state)| Report { instance: id.clone(), state: *state }).collect();
        let delivered = Box::new(move || self.book.lock().delivered(&reports));
        Ok(Update { reports: answer, delivered: Some(delivered) })
    }

    /// Ends well when the last look, or a new one where that is old, found the host running.
    pub(crate) async fn heartbeat(self: Arc<Self>, id: &str) -> Result<(), Failure> {
        let mut last = self.last_look.lock().await;
        if last.as_ref().is_none_or(|look| look.at.elapsed() > FRESH) {
            let at = Instant::now();
            *last = Some(Look { at, reports: self.look().await? });
        }
        let told = last.as_ref().and_then(|look| look.reports.get(id).copied());
        drop(last);
        match told {
            Some(State::Running) => Ok(()),
            Some(state) => Err(Failure(format!("instance is unhealthy: {id} is {state}"))),
            None => Err(Failure(format!("instance is unhealthy: {id} is gone or cannot be used"))),
        }
    }

    /// Lists, judges, begins the reaps, and answers what to tell about each host.
    async fn look(self: &Arc<Self>) -> Result<BTreeMap<String, State>, Failure> {
        let zone = &self.configuration.zone;
        let listing = self.lifecycle.hosts(zone).await.map_err(|error| Failure::from_error(&error))?;
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for host in &listing.machines {
            if self.take_up(host) {
                hosts.insert(host.name.clone(), host.clone());
            }
        }
        // What no host carries any more need not be remembered.
        self.released.lock().retain(|claim| listing.machines.iter().any(|host| host.name == *claim));
        self.look_for_missing(&mut hosts).await;

        let now = now_ms();
        let (ids, question, mut reports) = self.question(&hosts, now);
        for (id, mapping, reason) in self.judge(ids, question).await {
            if mapping.action == Action::Reap {
                self.reap(&id, reason.as_deref());
            }
            let book = self.book.lock();
            let Some(entry) = book.get(&id) else { continue };
            let told = entry.first_sight(match (mapping.action, entry.in_flight()) {
                // Accepted just now: from here on the release is in flight, whatever the policy wanted to be told.
                (Action::Reap, Operation::Cleanup) => Some(State::Deleting),
                (_, in_flight) => report(mapping.report, in_flight),
            });
            if let Some(told) = told {
                reports.insert(id, told);
            }
        }
        count(&reports);
        let left = self.book.lock().iter().filter(|(_, entry)| entry.work == Work::Left).count();
        metrics::gauge!(names::LEFT).set(left as f64);
        Ok(reports)
    }

    /// Whether a listed host is one of the group, and then takes it up, also one that this process has not seen before.
    /// One that was released belongs to the release policy's verdict, and one that Scaleway will delete to nobody.
    fn take_up(&self, host: &Host) -> bool {
        let Some((_, operation)) = self.claim_of(&host.name) else { return false };
        let id = host.name.as_str();
        if host.deletion_scheduled || self.released.lock().contains(id) {
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
            book.insert(Entry::found(operation, Work::Idle));
        }
        book.saw(id, &host.id, mapping::state(host).0, now_ms());
        true
    }

    /// Asks by id for hosts that should be there and were not listed with their claim.
    async fn look_for_missing(&self, hosts: &mut BTreeMap<String, Host>) {
        let missing: Vec<(String, String)> = self
            .book
            .lock()
            .iter()
            .filter(|(id, entry)| entry.work == Work::Idle && !hosts.contains_key(*id))
            .filter_map(|(id, entry)| Some((id.clone(), entry.server.clone()?)))
            .collect();
        let api = self.client.apple_silicon(&self.configuration.zone);
        let looked: Vec<(String, Whereabouts)> = stream::iter(missing)
            .map(|(id, host)| {
                let api = &api;
                async move {
                    let found = match api.get_server(&host).await {
                        Ok(host) if host.name == id && !host.deletion_scheduled => Whereabouts::Here(Box::new(host)),
                        Ok(host) if host.name == id => {
                            Whereabouts::NotOurs("somebody scheduled its deletion".to_owned())
                        }
                        Ok(host) => Whereabouts::NotOurs(format!("somebody named it {:?}", host.name)),
                        // The list was permitted and does not hold it: together that is a proof.
                        Err(error) if error.is_gone_or_not_ours() => {
                            Whereabouts::NotOurs("it does not exist any more".to_owned())
                        }
                        Err(error) => {
                            tracing::warn!(
                                instance = id,
                                error = &error as &dyn std::error::Error,
                                "it was not listed and could not be looked at; what was said of it stays"
                            );
                            Whereabouts::Unknown
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
                Whereabouts::Here(host) => {
                    self.book.lock().saw(&id, &host.id, mapping::state(&host).0, now_ms());
                    hosts.insert(id, *host);
                }
                Whereabouts::NotOurs(why) => {
                    tracing::warn!(instance = id, "its host is lost to the group: {why}");
                    self.book.lock().set_work(&id, Work::Gone);
                }
                Whereabouts::Unknown => {}
            }
        }
    }

    /// What the policy is asked, about whom, and what is told about those that have no host to judge.
    fn question(&self, hosts: &BTreeMap<String, Host>, now: u64) -> (Vec<String>, Question, BTreeMap<String, State>) {
        let book = self.book.lock();
        let mut known_since = self.known_since.lock();
        known_since.retain(|id, _| book.get(id).is_some());
        let (mut ids, mut servers) = (Vec::new(), Vec::new());
        let mut server_types = ServerTypes::default();
        let mut reports = BTreeMap::new();
        for (id, entry) in book.iter() {
            match hosts.get(id).filter(|_| !matches!(entry.work, Work::Left | Work::Gone)) {
                Some(host) => {
                    let since = entry.seen.map_or(now, |(_, since)| since);
                    let known = known_since.get(id).copied().unwrap_or(now);
                    let server_type = server_types.position(&host.server_type);
                    ids.push(id.clone());
                    servers.push(mapping::question(host, server_type, entry.in_flight(), known, since, now));
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

    /// Releases a host because the state-mapping policy says so.
    fn reap(self: &Arc<Self>, id: &str, reason: Option<&str>) {
        let Some((work, host)) = self.book.lock().get(id).map(|entry| (entry.work.clone(), entry.server.clone()))
        else {
            return;
        };
        let why = reason.unwrap_or("the state-mapping policy says so");
        match (work, host) {
            (Work::Idle, Some(host)) => {
                metrics::counter!(names::REAPS).increment(1);
                self.begin_release(id, host, why);
            }
            (Work::Creating, _) => {
                metrics::counter!(names::REAPS).increment(1);
                tracing::warn!(instance = id, "its claim is called off: {why}");
                self.decrease(vec![id.to_owned()]);
            }
            _ => {}
        }
    }
}
