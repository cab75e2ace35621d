//! A Mac in the words of the state-mapping contract, which was made for servers. Pure.

use windlass_policy::slots::state_mapping::{Operation, Server, ServerState, StateDetail};
use windlass_scaleway::types::apple_silicon::{Server as Host, ServerStatus};

/// What a host's status means for whoever uses it.
///
/// - Only `ready` can be worked on.
/// - `reinstalling` is a wipe that somebody else began: what was on it is lost, as with a server that is being stopped.
/// - `error` is a server that stopped: it never comes back by itself.
/// - Everything that passes by itself is `starting`.
pub(super) fn state(host: &Host) -> (ServerState, StateDetail) {
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

/// What a policy is asked about a host. `server_type` is the position of its type, `known` since when we know of it,
/// `since` since when its state was seen, both in milliseconds since 1970.
pub(super) fn question(
    host: &Host,
    server_type: u32,
    in_flight: Operation,
    known: u64,
    since: u64,
    now: u64,
) -> Server {
    let (state, detail) = state(host);
    let created = host.created_at().and_then(|at| u64::try_from(at.as_millisecond()).ok()).unwrap_or(now);
    Server {
        state,
        detail,
        // Two clocks: Scaleway's may differ from ours. And a host of a pool is older than its claim.
        age: now.saturating_sub(created.max(known)),
        state_age: now.saturating_sub(since),
        // A host out of a pool may be years old: that it was delivered means that it ran.
        has_run: host.delivered,
        in_flight,
        suspended: false,
        server_type,
        watched_tags: 0,
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
        assert_eq!(state(&host("ready", true)).0, ServerState::Running);
        assert_eq!(state(&host("ready", false)).0, ServerState::Starting);
        for status in ServerStatus::KNOWN.iter().filter(|status| **status != ServerStatus::Ready) {
            assert_ne!(state(&host(status.as_str(), true)).0, ServerState::Running, "{status}");
        }
        assert_eq!(state(&host("dreaming", true)).0, ServerState::Other);
    }

    #[test]
    fn what_passes_by_itself_is_starting_and_what_does_not_is_not() {
        for status in ServerStatus::KNOWN {
            let passes = status.is_transient() && *status != ServerStatus::Reinstalling;
            assert_eq!(
                state(&host(status.as_str(), false)).0 == ServerState::Starting,
                passes || *status == ServerStatus::Ready,
                "{status}"
            );
        }
        assert_eq!(state(&host("reinstalling", true)).0, ServerState::Stopping, "its content is lost");
        assert_eq!(state(&host("error", true)).0, ServerState::Stopped);
    }

    #[test]
    fn an_old_host_of_a_pool_has_run_and_a_new_one_has_not() {
        let now = 1_767_323_045_000 + 60_000;
        let asked = question(&host("ready", true), 0, Operation::None, 0, now - 5, now);
        assert_eq!((asked.age, asked.state_age, asked.has_run), (60_000, 5, true));
        let claimed = question(&host("ready", true), 0, Operation::None, now - 7, now - 5, now);
        assert_eq!(claimed.age, 7, "counted from its claim");
        assert!(!question(&host("starting", false), 0, Operation::Create, now, now, now).has_run);
    }
}
