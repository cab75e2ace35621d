//! Decrease: hosts are released, as the release policy says.

use std::sync::Arc;
use std::time::Duration;

use windlass_lifecycle::{
    ClaimName, Error, HostOrigin, Operation, ReleaseOutcome, ReleaseRequest, Released, RequestedBy, Requester,
};
use windlass_policy::slots::release::Requested;

use super::Macs;
use crate::group::entry::Event;
use crate::group::fleet::Fleet;
use crate::observe::names;

/// The wait before a release is asked for again: at least what the policy says, and twice as long each time from the
/// first to the second of these. So a refusal that stays, as that of the billing floor, never becomes a hot loop,
/// whatever a policy answers.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(900));

/// A host that is to be released.
pub(crate) struct Release {
    pub(super) claim: ClaimName,
    pub(super) host: String,
    pub(super) requested_by: RequestedBy,
}

impl Fleet<Macs> {
    pub(super) fn spawn_release(self: &Arc<Self>, release: Release) {
        let Release { claim, host, requested_by } = release;
        let hosts = Arc::clone(self);
        self.tasks.spawn(async move {
            let configuration = &hosts.configuration;
            let mut attempt = 1;
            let adopted = loop {
                let error = match hosts.was_adopted(&claim, &host) {
                    Ok(adopted) => break adopted,
                    Err(error) => error,
                };
                tracing::error!(
                    instance = %claim,
                    host,
                    error = &error as &dyn std::error::Error,
                    "it is not released yet: cannot read from the journal whether the host was ordered"
                );
                if !hosts.pause(wait(Duration::ZERO, attempt)).await {
                    return;
                }
                attempt = attempt.saturating_add(1);
            };
            // What was ordered because the pool was empty is not to let the pool grow, unless that is requested.
            let pool = configuration
                .pool
                .clone()
                .filter(|_| adopted || configuration.release_requested == Some(Requested::ReturnToPool));
            let mut request =
                ReleaseRequest::new(configuration.common.first_zone().clone(), host.clone(), claim.clone(), pool);
            request.adopted = adopted;
            request.requested = configuration.release_requested;
            request.requested_by = requested_by.of_group(&configuration.common.group);
            request.activity = hosts.book.lock().get(claim.as_str()).map(|entry| entry.activity).unwrap_or_default();
            loop {
                let ended = hosts.lifecycle.release(&request, hosts.tasks.control()).await;
                let Some(wait) = hosts.release_ended(&claim, &host, ended, request.attempt) else { return };
                if !hosts.pause(wait).await {
                    return;
                }
                request.attempt = request.attempt.saturating_add(1);
            }
        });
    }

    /// Waits. False: this process is to end.
    async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = self.tasks.control().left().cancelled() => false,
        }
    }

    /// Whether a host came out of the pool, and was not ordered for this group. A host of unknown origin goes into the
    /// pool, since one that is deleted by mistake cannot be had back; that it may have been ordered is said.
    ///
    /// # Errors
    /// When the journal cannot be read: nothing is decided then.
    fn was_adopted(&self, claim: &ClaimName, host: &str) -> Result<bool, Error> {
        let Some(pool) = &self.configuration.pool else { return Ok(false) };
        let origin = self.lifecycle.host_origin(host, claim)?;
        if origin == HostOrigin::Unknown && self.configuration.order {
            tracing::warn!(
                instance = %claim,
                host,
                "the journal does not say whether this Mac came from the pool or was ordered: it goes into the pool \
                 {pool}. If it was ordered, delete it, or it is billed until you do"
            );
        }
        Ok(origin != HostOrigin::Ordered)
    }

    /// Takes the end of a release into the book; answers how long to wait where it has to be asked for again.
    fn release_ended(
        &self,
        claim: &ClaimName,
        host: &str,
        ended: Result<Released, Error>,
        attempt: u32,
    ) -> Option<Duration> {
        let id = claim.as_str();
        let released = match ended {
            Ok(released) => released,
            Err(Error::LeftOpen { .. } | Error::NotBegun) => return None,
            Err(error) => {
                // How it ended is not known, so it stays on its way out.
                tracing::error!(
                    instance = id,
                    host,
                    error = &error as &dyn std::error::Error,
                    "the release was interrupted, and is tried again"
                );
                return Some(wait(Duration::ZERO, attempt));
            }
        };
        for failure in &released.policy_failures {
            tracing::warn!(instance = id, host, "a release policy failed, and the host was left as it is: {failure}");
        }
        let reason = released.reason.as_deref().unwrap_or_default();
        match &released.outcome {
            ReleaseOutcome::AskAgain { after } => {
                let wait = self.again(id, Duration::from_millis(*after), attempt);
                tracing::warn!(
                    instance = id,
                    host,
                    refused = released.refused,
                    again_in_seconds = wait.as_secs(),
                    "it is not released yet: {reason}"
                );
                return Some(wait);
            }
            // Nothing here asks for a reboot; should a policy order one all the same, the host is released after it.
            // (Nor is a host given up here without being released.)
            ReleaseOutcome::Rebooted | ReleaseOutcome::GivenUp => {
                return Some(self.again(id, Duration::from_secs(180), attempt));
            }
            ReleaseOutcome::Kept => tracing::warn!(
                instance = id,
                host,
                "the release policy keeps it, and it is still billed; it has the name {id} until somebody renames it: \
                 {reason}"
            ),
            _ => tracing::info!(instance = id, host, "released: {}", released.words()),
        }
        self.left_group(id);
        None
    }

    /// A host is the group's no more, though it may still carry its claim.
    pub(super) fn left_group(&self, id: &str) {
        self.kind.released.lock().insert(id.to_owned());
        self.apply(id, &Event::Ended);
        // Last: who reads the counter finds the host gone from the group.
        metrics::counter!(names::CLEANUPS, "outcome" => "done").increment(1);
    }

    /// Releases a host whose claim this operation called off, or was to release.
    pub(super) fn release_called_off(self: &Arc<Self>, claim: ClaimName, host: String, by: &Operation) {
        self.apply(claim.as_str(), &Event::Unwanted { informed: true });
        self.apply(claim.as_str(), &Event::Created);
        let requested_by = by.requested_by().unwrap_or_else(|| {
            RequestedBy::new(Requester::Plugin, format!("operation {}, which ordered it, was cancelled", by.id))
        });
        tracing::info!(instance = %claim, host, operation = %by.id, "releasing it: {}", requested_by.why);
        self.spawn_release(Release { claim, host, requested_by });
    }

    /// Notes that a host is still to be released; its capacity returns to the runner meanwhile.
    pub(super) fn again(&self, id: &str, policy: Duration, attempt: u32) -> Duration {
        if attempt == 1 {
            metrics::counter!(names::CLEANUPS, "outcome" => "left").increment(1);
        }
        self.apply(id, &Event::LeftBehind { by: None });
        wait(policy, attempt)
    }
}

/// The wait after this attempt, where the policy says this.
fn wait(policy: Duration, attempt: u32) -> Duration {
    policy.max(AGAIN.0.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(AGAIN.1))
}
