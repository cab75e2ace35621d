//! Scaleway's states of a Mac in the contract's words, which were made for servers.

use windlass_policy::slots::state_mapping::{ServerState, StateDetail};
use windlass_scaleway::types::apple_silicon::{Server as Host, ServerStatus};

/// What a host's status means for its user.
///
/// - Only `ready` can be worked on.
/// - `reinstalling` is a wipe that somebody else began: what was on it is lost, as with a server that is being stopped.
/// - `error` is a server that stopped: it never comes back by itself.
/// - Everything that passes by itself is `starting`.
#[must_use]
pub fn host_state(host: &Host) -> (ServerState, StateDetail) {
    match host.status {
        ServerStatus::Ready if host.delivered => (ServerState::Running, StateDetail::Ready),
        ServerStatus::Ready | ServerStatus::Starting => (ServerState::Starting, StateDetail::Starting),
        ServerStatus::Rebooting => (ServerState::Starting, StateDetail::Rebooting),
        ServerStatus::Updating | ServerStatus::Busy | ServerStatus::Locking | ServerStatus::Unlocking => {
            (ServerState::Starting, StateDetail::Other)
        }
        ServerStatus::Reinstalling => (ServerState::Stopping, StateDetail::Stopping),
        ServerStatus::Error => (ServerState::Stopped, StateDetail::Other),
        ServerStatus::Locked => (ServerState::Locked, StateDetail::None),
        _ => (ServerState::Other, StateDetail::Other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(status: &str, delivered: bool) -> Host {
        Host { status: status.into(), delivered, created_at: "2026-01-02T03:04:05Z".to_owned(), ..Host::default() }
    }

    #[test]
    fn only_a_delivered_host_that_is_ready_runs() {
        assert_eq!(host_state(&host("ready", true)).0, ServerState::Running);
        assert_eq!(host_state(&host("ready", false)).0, ServerState::Starting);
        for status in ServerStatus::KNOWN.iter().filter(|status| **status != ServerStatus::Ready) {
            assert_ne!(host_state(&host(status.as_str(), true)).0, ServerState::Running, "{status}");
        }
        assert_eq!(host_state(&host("dreaming", true)).0, ServerState::Other);
    }

    #[test]
    fn what_passes_by_itself_is_starting_and_what_does_not_is_not() {
        for status in ServerStatus::KNOWN {
            let passes = status.is_transient() && *status != ServerStatus::Reinstalling;
            assert_eq!(
                host_state(&host(status.as_str(), false)).0 == ServerState::Starting,
                passes || *status == ServerStatus::Ready,
                "{status}"
            );
        }
        assert_eq!(host_state(&host("reinstalling", true)).0, ServerState::Stopping, "its content is lost");
        assert_eq!(host_state(&host("error", true)).0, ServerState::Stopped);
    }
}
