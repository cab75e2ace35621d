//! Increase: servers are placed, journalled, and made in the background. And what ends a server again.

use std::sync::Arc;

use futures::future::join_all;
use tokio::time::Instant;
use windlass_lifecycle::{
    Cancellation, Error, OperationState, PendingCleanup, RequestedBy, Requester, ServerSpecification, SubjectOf, Target,
};
use windlass_policy::slots::Placement;

use super::Instances;
use crate::connect::KeyPair;
use crate::group::entry::{Entry, Event, Phase};
use crate::group::fleet::Fleet;
use crate::group::places::{Ask, Creation, Place, Placed};
use crate::observe::names;
use crate::protocol::Failure;

/// Who wants instances, and why.
fn wanted_by_runner() -> RequestedBy {
    RequestedBy::new(Requester::Runner, "the runner wants more instances")
}

impl Fleet<Instances> {
    /// What each of these servers is to be, with the tag that opens it to the group's key.
    fn specification(&self, placed: &Placed) -> ServerSpecification {
        let mut specification = self.configuration.server_in(&placed.zone);
        specification.types.clone_from(&placed.types);
        specification.requested_by = wanted_by_runner();
        specification.tags.extend(self.kind.key.as_ref().and_then(KeyPair::tag));
        specification
    }

    /// Accepts so many creations, each in the journal under its id before this answers. The machines are made in the
    /// background.
    pub(super) async fn create(self: &Arc<Self>, count: u32) -> Result<u32, Failure> {
        let placed = self.place(count).await;
        let accepted = Instant::now();
        let creations = placed.into_iter().flat_map(|placed| {
            let specification = self.specification(&placed);
            let creation = Creation { zone: placed.zone, types: placed.types, accepted };
            std::iter::repeat_n((specification, creation), placed.count as usize)
        });
        let begun = join_all(creations.map(|(specification, creation)| async move {
            (creation, self.lifecycle.begin_create(specification).await)
        }))
        .await;
        let mut succeeded = 0;
        let mut first_failure = None;
        for (creation, pending) in begun {
            match pending {
                Ok(pending) => {
                    succeeded += 1;
                    let server_type = creation.types.first().cloned().unwrap_or_default();
                    let place = Place { zone: creation.zone.clone(), server_type };
                    self.book.lock().insert(Entry::demanded(pending.id().clone(), place));
                    self.spawn_create(pending, creation);
                }
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "a creation could not be journalled");
                    first_failure.get_or_insert(Failure::from_error(&error));
                }
            }
        }
        match first_failure {
            // An error would lose the count, and the host would believe that nothing was accepted.
            Some(failure) if succeeded == 0 => Err(failure),
            _ => Ok(succeeded),
        }
    }

    /// Asks the placement policy where so many are made. What is not placed is not made now: the runner asks again.
    async fn place(&self, wanted: u32) -> Vec<Placed> {
        let backoffs = self.places.lock().backoffs(Instant::now());
        let counts = self.book.lock().counts();
        let server = &self.configuration.server;
        let subject = self.lifecycle.subject(SubjectOf {
            group: Some(&self.common().group),
            project: server.project.as_deref(),
            requested_by: Some(&wanted_by_runner()),
            tags: Some(&server.tags),
            ..SubjectOf::default()
        });
        let ask = Ask { now: self.lifecycle.now(), random: self.lifecycle.random_word(), subject, wanted };
        let count = |place: &Place| counts.get(place).copied().unwrap_or_default();
        let question = self.places.lock().question(ask, count, &backoffs);
        let decision = self.policies.pin().decide::<Placement>(question).await;
        for fallback in &decision.fallbacks {
            tracing::warn!(decision = %decision.id, "{fallback}");
        }
        let placed = self.places.lock().placed(&decision.answer);
        let accepted: u32 = placed.iter().map(|placed| placed.count).sum();
        if accepted < wanted {
            // The place that can be used first.
            let first = match backoffs.iter().any(Option::is_none) {
                true => None,
                false => backoffs.iter().flatten().min_by_key(|backoff| backoff.rest),
            };
            let reason = decision.answer.reason.as_deref();
            let why = first.map(|backoff| backoff.why.as_str()).or(reason).unwrap_or("the placement policy says so");
            match first.map(|backoff| backoff.rest.as_secs()) {
                Some(rest_seconds) if accepted == 0 => {
                    tracing::warn!(
                        demanded = wanted,
                        rest_seconds,
                        "nothing is created for now, because it would fail again: {why}"
                    );
                    metrics::counter!(names::INCREASES_PAUSED).increment(1);
                }
                _ if accepted == 0 => tracing::warn!(demanded = wanted, "nothing is created for now: {why}"),
                _ => tracing::warn!(demanded = wanted, accepted, "fewer instances are created than requested: {why}"),
            }
        }
        placed
    }

    /// Has an instance removed that is being created. The journal says so before this answers, whichever process began
    /// the creation: no later one finishes it. False where nothing changes.
    pub(in crate::group) async fn end_creation(
        self: &Arc<Self>,
        id: &str,
        requested_by: &RequestedBy,
    ) -> Result<bool, Error> {
        let operation = {
            let mut book = self.book.lock();
            book.unwanted_by(id, requested_by);
            book.get(id).map(|entry| entry.operation.clone())
        };
        let Some(operation) = operation else { return Ok(false) };
        let control = self.kind.controls.lock().get(&operation).cloned();
        // Recorded before it is reported: a concurrent cancellation then sees that it is not wanted.
        let changed = self.apply(id, &Event::Unwanted { informed: control.is_some() }).is_some();
        let is_untold = self.book.lock().get(id).is_some_and(|entry| matches!(entry.phase(), Phase::Creating { .. }));
        if !changed && !is_untold {
            return Ok(false);
        }
        let cancelled = self.lifecycle.cancel(&operation, &requested_by.canceller()).await;
        if let Some(control) = control {
            control.cancel();
        }
        match cancelled? {
            Cancellation::Noted => drop(self.apply(id, &Event::Unwanted { informed: true })),
            Cancellation::Ended(OperationState::Done) => {
                if let Some(requested_by) = self.created_unwanted(id) {
                    self.begin_removal(id, &requested_by).await?;
                }
            }
            Cancellation::Ended(_) => {}
        }
        Ok(changed)
    }

    /// Opens a cleanup in the journal, which asks the release policy. Nothing where there is none to be carried out:
    /// the instance is unknown or goes already.
    pub(super) async fn journal_cleanup(
        &self,
        id: &str,
        requested_by: &RequestedBy,
    ) -> Result<Option<PendingCleanup>, Error> {
        let asked = self.book.lock().get(id).and_then(|entry| {
            let goes = !(entry.phase().stands() || *entry.phase() == Phase::Removing { by: None });
            (!goes).then(|| (entry.operation.clone(), entry.place.zone.clone(), entry.server.clone(), entry.asking()))
        });
        let Some((operation, zone, server, asking)) = asked else { return Ok(None) };
        let begin =
            |target: Target| self.lifecycle.begin_cleanup(target.released_by(requested_by.clone(), asking.clone()));
        let begun = match begin(Target::Operation(operation)).await {
            // A server of ours whose creation stands in a journal that was lost.
            Err(Error::OperationUnknown { operation }) => match server {
                Some(server) => begin(Target::Server { zone, id: server }).await,
                None => Err(Error::OperationUnknown { operation }),
            },
            other => other,
        };
        match begun {
            Ok(pending) => {
                self.apply(id, &Event::RemovalBegan { by: Some(pending.id().clone()) });
                Ok(Some(pending))
            }
            // Begun by a call that was given up, or by another process: it is seen to its end.
            Err(Error::CleanupUnderWay { operation }) => {
                self.apply(id, &Event::RemovalBegan { by: Some(operation) });
                self.supervisor.wake();
                Ok(None)
            }
            Err(error) => {
                self.apply(id, &Event::RemovalRefused);
                Err(error)
            }
        }
    }
}
