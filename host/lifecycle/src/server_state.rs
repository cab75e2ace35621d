//! Scaleway's states of a server in the contract's words.

use windlass_policy::slots::state_mapping::{ServerState, StateDetail};
use windlass_scaleway::types::instance as scaleway;

/// Scaleway's state and its detail in the contract's words.
#[must_use]
pub fn server_state(server: &scaleway::Server) -> (ServerState, StateDetail) {
    (state(&server.state), detail(&server.state_detail))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaleways_words_are_the_contracts_and_new_ones_are_other() {
        assert_eq!(state(&scaleway::ServerState::StoppedInPlace), ServerState::StoppedInPlace);
        assert_eq!(detail("booting kernel"), StateDetail::BootingKernel);
        assert_eq!(detail(""), StateDetail::None);
        assert_eq!(detail("meditating"), StateDetail::Other);
    }
}
