//! What the journal knows of a host's restart for recovery: who asks again after a crash must not restart it a second
//! time.

use windlass_policy::slots::release::Trigger;
use windlass_scaleway::types::apple_silicon::{Server, ServerStatus};

use super::actions::REBOOT_STEP;
use crate::journal::{Entry, Operation, Phase};
use crate::release::ReleaseRequest;

/// A restart that an operation of this claim asked for, the newest since the host was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Restart {
    /// The failed set-ups for which it was.
    failures: u64,
    /// Whether Scaleway's answer was heard.
    heard: bool,
    /// When the host had changed last before it was asked for, in Scaleway's words.
    updated_at: String,
}

impl Restart {
    /// The restart in the entries of an operation on this host, if it asked for one and was not refused.
    pub(crate) fn of(operation: &Operation, entries: &[Entry], host: &str) -> Option<Self> {
        let of_host = |entry: &Entry| entry.resource.as_ref().is_some_and(|resource| resource.id == host);
        let (mut found, mut refused): (Option<Self>, bool) = (None, false);
        for entry in entries.iter().filter(|entry| entry.step == REBOOT_STEP) {
            match entry.phase {
                Phase::Intent if of_host(entry) => {
                    let updated_at = entry.data["updated-at"].as_str().unwrap_or_default().to_owned();
                    let failures = operation.specification["bootstrap_failures"].as_u64().unwrap_or_default();
                    (found, refused) = (Some(Self { failures, heard: false, updated_at }), false);
                }
                Phase::Failure => refused = true,
                Phase::Outcome => found.iter_mut().for_each(|restart| restart.heard = true),
                _ => {}
            }
        }
        // After a refusal, what the host shows later is not that restart's doing.
        found.filter(|restart| restart.heard || !refused)
    }

    /// Whether it took effect, as far as the host shows: it restarts now, or it has changed since.
    ///
    /// (assumption: mac-updated-at-moves) `updated_at` moves with a restart; never recorded. Where it does not, a
    /// restart whose answer was lost with the process, and which has ended since, is asked for once more.
    pub(crate) fn took_effect(&self, host: &Server) -> bool {
        self.heard || host.status == ServerStatus::Rebooting || host.updated_at != self.updated_at
    }

    /// Whether this asking is the one that it was for, put again by somebody who has not heard of it.
    pub(crate) fn answers(&self, request: &ReleaseRequest) -> bool {
        request.trigger == Trigger::BootstrapFailed
            && !request.rebooted
            && self.failures == u64::from(request.bootstrap_failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_restart_is_told_by_what_the_host_shows() {
        let lost = Restart { failures: 3, heard: false, updated_at: "2026-08-01T12:00:00Z".into() };
        let host = |status, updated_at: &str| Server { status, updated_at: updated_at.into(), ..Server::default() };
        for (host, took_effect) in [
            (host(ServerStatus::Ready, "2026-08-01T12:00:00Z"), false),
            (host(ServerStatus::Rebooting, "2026-08-01T12:00:00Z"), true),
            (host(ServerStatus::Ready, "2026-08-01T12:02:16Z"), true),
        ] {
            assert_eq!(lost.took_effect(&host), took_effect, "{host:?}");
            assert!(Restart { heard: true, ..lost.clone() }.took_effect(&host), "{host:?}");
        }
    }

    #[test]
    fn only_the_same_asking_is_answered_by_it() {
        let restart = Restart { failures: 3, heard: true, updated_at: String::new() };
        let request = |trigger, bootstrap_failures, rebooted| ReleaseRequest {
            trigger,
            bootstrap_failures,
            rebooted,
            ..ReleaseRequest::new("fr-par-1".parse().unwrap(), "h", "a".parse().unwrap(), None)
        };
        assert!(restart.answers(&request(Trigger::BootstrapFailed, 3, false)));
        assert!(!restart.answers(&request(Trigger::BootstrapFailed, 3, true)), "the next asking");
        assert!(!restart.answers(&request(Trigger::BootstrapFailed, 4, false)), "another failure");
        assert!(!restart.answers(&request(Trigger::Released, 3, false)), "released meanwhile");
    }
}
