use std::fmt;
use std::str::FromStr;

use crate::control_error::ControlError;
use crate::world::{AppleStatus, DeletionCause, ServerState, World};

/// A state that a server is put into from outside, as its owner or Scaleway itself would:
/// [`Simulator::set_server_state`].
///
/// [`Simulator::set_server_state`]: crate::Simulator::set_server_state
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedState {
    /// An Instance that runs.
    Running,
    /// An Instance that does not.
    Stopped,
    /// An Instance that does not run and keeps its place.
    StoppedInPlace,
    /// An Instance or an Apple silicon server that starts, and stays at it.
    Starting,
    /// An Instance that stops, and stays at it.
    Stopping,
    /// An Instance or an Apple silicon server that Scaleway has locked.
    Locked,
    /// An Apple silicon server that can be used.
    Ready,
    /// An Apple silicon server that is broken.
    Error,
    /// An Apple silicon server that is being changed, and stays at it.
    Updating,
    /// An Apple silicon server that does something untold, and stays at it.
    Busy,
    /// An Apple silicon server that reboots, and stays at it.
    Rebooting,
    /// An Apple silicon server that is being reinstalled, and stays at it.
    Reinstalling,
    /// Gone, as by DELETE, whatever its state was: an Instance's volumes and IPs stay behind.
    Deleted,
}

const ALL: [(ForcedState, &str); 13] = [
    (ForcedState::Running, "running"),
    (ForcedState::Stopped, "stopped"),
    (ForcedState::StoppedInPlace, "stopped in place"),
    (ForcedState::Starting, "starting"),
    (ForcedState::Stopping, "stopping"),
    (ForcedState::Locked, "locked"),
    (ForcedState::Ready, "ready"),
    (ForcedState::Error, "error"),
    (ForcedState::Updating, "updating"),
    (ForcedState::Busy, "busy"),
    (ForcedState::Rebooting, "rebooting"),
    (ForcedState::Reinstalling, "reinstalling"),
    (ForcedState::Deleted, "deleted"),
];

/// A text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a server state; valid states are {}", ALL.map(|(_, word)| word).join(", "))]
pub struct UnknownState {
    text: String,
}

impl fmt::Display for ForcedState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = ALL.iter().find(|(state, _)| state == self).map_or("", |(_, word)| word);
        formatter.write_str(word)
    }
}

impl FromStr for ForcedState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ALL.iter()
            .find(|(_, word)| *word == text)
            .map(|(state, _)| *state)
            .ok_or_else(|| UnknownState { text: text.to_owned() })
    }
}

impl ForcedState {
    pub(crate) fn force(self, world: &mut World, id: &str) -> Result<(), ControlError> {
        if world.servers.contains_key(id) {
            self.force_instance(world, id)
        } else if world.apple_servers.contains_key(id) {
            self.force_apple(world, id)
        } else {
            Err(ControlError::UnknownServer(id.to_owned()))
        }
    }

    fn force_instance(self, world: &mut World, id: &str) -> Result<(), ControlError> {
        let (state, detail) = match self {
            ForcedState::Running => (ServerState::Running, "booting kernel"),
            ForcedState::Stopped => (ServerState::Stopped, ""),
            ForcedState::StoppedInPlace => (ServerState::StoppedInPlace, "stopped in place"),
            ForcedState::Starting => (ServerState::Starting, "allocating node"),
            ForcedState::Stopping => (ServerState::Stopping, "stopping"),
            ForcedState::Locked => (ServerState::Locked, ""),
            ForcedState::Deleted => {
                world.delete_server_now(id);
                return Ok(());
            }
            ForcedState::Ready
            | ForcedState::Error
            | ForcedState::Updating
            | ForcedState::Busy
            | ForcedState::Rebooting
            | ForcedState::Reinstalling => {
                return Err(ControlError::InvalidState {
                    state: self.to_string(),
                    product: "Instance",
                    valid: "running, stopped, stopped in place, starting, stopping, locked, deleted",
                });
            }
        };
        world.force_state(id, state, detail);
        Ok(())
    }

    fn force_apple(self, world: &mut World, id: &str) -> Result<(), ControlError> {
        let status = match self {
            ForcedState::Ready => AppleStatus::Ready,
            ForcedState::Starting => AppleStatus::Starting,
            ForcedState::Error => AppleStatus::Error,
            ForcedState::Updating => AppleStatus::Updating,
            ForcedState::Busy => AppleStatus::Busy,
            ForcedState::Locked => AppleStatus::Locked,
            ForcedState::Rebooting => AppleStatus::Rebooting,
            ForcedState::Reinstalling => AppleStatus::Reinstalling,
            ForcedState::Deleted => {
                world.remove_apple_server(id, DeletionCause::BehindOurBack);
                return Ok(());
            }
            _ => {
                return Err(ControlError::InvalidState {
                    state: self.to_string(),
                    product: "Apple silicon",
                    valid: "starting, ready, error, rebooting, updating, locked, reinstalling, busy, deleted",
                });
            }
        };
        if let Some(server) = world.apple_servers.get_mut(id) {
            server.turn += 1;
            server.status = status;
            server.delivered |= status == AppleStatus::Ready;
        }
        Ok(())
    }
}
