//! What is done to one server outside of an operation: nothing has to be undone, so nothing is journalled.

use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::{Server, ServerAction, ServerState};

use crate::Error;
use crate::change::{Outcome, ServerChange, change};
use crate::journal::{ResourceKind, ResourceName};
use crate::lifecycle::Lifecycle;
use crate::ownership::Claims;

impl Lifecycle {
    /// Reads a server by its id, and, where it carries our owner tag, does what `judge` makes of what was read. `false`
    /// when there is no such server.
    ///
    /// # Errors
    /// [`Error::NotOurs`] without the tag; [`Error::Protected`] where somebody protected the server and the action would
    /// stop or restart it; [`Error::Scaleway`] when Scaleway refuses or cannot be asked.
    pub async fn act_on_server(
        &self,
        zone: &Zone,
        id: &str,
        judge: impl FnOnce(&Server) -> Option<ServerAction>,
    ) -> Result<bool, Error> {
        self.change_server(zone, id, |server| judge(server).map(ServerChange::Act)).await
    }

    /// Restarts a server that carries our owner tag, as it is read now: one that runs is rebooted, one that stands
    /// still is powered on, and one that starts or stops already is left to it. `false` when there is no such server.
    ///
    /// Asked for again after a lost answer, it restarts the server once more at worst.
    ///
    /// # Errors
    /// As [`Lifecycle::act_on_server`].
    pub async fn restart_server(&self, zone: &Zone, id: &str) -> Result<bool, Error> {
        let restart = |server: &Server| match server.state {
            ServerState::Running => Some(ServerAction::Reboot),
            ServerState::Stopped | ServerState::StoppedInPlace => Some(ServerAction::PowerOn),
            _ => None,
        };
        self.act_on_server(zone, id, restart).await
    }

    /// Takes the cloud-init out of a server's user data. `false` when there is no such server, or it had none.
    ///
    /// # Errors
    /// As [`Lifecycle::act_on_server`].
    pub async fn remove_cloud_init(&self, zone: &Zone, id: &str) -> Result<bool, Error> {
        self.change_server(zone, id, |_| Some(ServerChange::RemoveUserData("cloud-init"))).await
    }

    async fn change_server(
        &self,
        zone: &Zone,
        id: &str,
        judge: impl FnOnce(&Server) -> Option<ServerChange>,
    ) -> Result<bool, Error> {
        let shared = &self.shared;
        shared.check_history()?;
        let resource =
            ResourceName { kind: ResourceKind::Server, id: id.to_owned(), zone: zone.to_string(), server: None };
        let claims = Claims::of_named(&shared.owner, resource.clone(), None);
        let outcome = change(&shared.client, zone, &claims, id, |server| (judge(server), ()))
            .await
            .map_err(|error| Error::scaleway("changing a server", error))?;
        match outcome {
            Outcome::Judged(()) | Outcome::Deleted(()) => Ok(true),
            Outcome::Gone => Ok(false),
            Outcome::NotOurs | Outcome::WouldTake(_) => {
                Err(Error::NotOurs { resource, owner: shared.owner.to_string() })
            }
            Outcome::Protected(server) => Err(Error::Protected { server, zone: zone.to_string() }),
        }
    }
}
