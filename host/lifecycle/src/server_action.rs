//! Restarting an instance for recovery.

use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{ServerAction, ServerState};

use crate::journal::{ResourceKind, ResourceName};
use crate::lifecycle::Lifecycle;
use crate::{Error, tags};

impl Lifecycle {
    /// Restarts a server that carries our owner tag, as it is read now: one that runs is rebooted, one that stands
    /// still is powered on, and one that starts or stops already is left to it. `false` when there is no such server.
    ///
    /// Nothing is written into the journal, since nothing has to be undone: asked for again after a lost answer, it
    /// restarts the server once more at worst.
    ///
    /// # Errors
    /// [`Error::NotOurs`] without the tag, [`Error::Scaleway`] when Scaleway refuses or cannot be asked.
    pub async fn restart_server(&self, zone: &Zone, id: &str) -> Result<bool, Error> {
        let shared = &self.shared;
        let api = shared.client.instance(zone);
        let server = match api.get_server(id).await {
            Ok(server) => server,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(Error::scaleway("reading the server that is to be restarted", error)),
        };
        if !tags::carries_owner(&server.tags, &shared.owner) {
            let resource =
                ResourceName { kind: ResourceKind::Server, id: id.to_owned(), zone: zone.to_string(), server: None };
            return Err(Error::NotOurs { resource, owner: shared.owner.to_string() });
        }
        let action = match server.state {
            ServerState::Running => ServerAction::Reboot,
            ServerState::Stopped | ServerState::StoppedInPlace => ServerAction::PowerOn,
            _ => return Ok(true),
        };
        match api.server_action(id, action).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(Error::scaleway("restarting the server", error)),
        }
    }
}
