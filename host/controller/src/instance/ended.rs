//! What the end of a job means for an instance: it is written into the object, and the job is forgotten.

use kube::ResourceExt;
use kube::runtime::controller::Action;
use serde_json::json;
use windlass_lifecycle::CreatedServer;

use super::{Instance, addresses};
use crate::Error;
use crate::names::ProviderId;
use crate::outcome::{Outcome, Recovery};
use crate::turn::JOB_CHECK;
use crate::writes::write_object;

impl Instance<'_> {
    pub(super) async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        match outcome {
            Outcome::Created(created) => self.created(created).await,
            Outcome::CleanedUp { message } => self.turn.finish_release(false, "ServerRemoved", message).await,
            Outcome::Kept { message } => self.turn.finish_release(false, "Kept", message).await,
            // What is deleted meanwhile is released, whatever was said of its recovery.
            Outcome::Recovered { .. } if self.turn.deleting() => self.turn.acted_upon().await,
            Outcome::Recovered { verdict, message } => self.recovered(*verdict, message).await,
            outcome => self.turn.came_to_nothing(outcome).await,
        }
    }

    /// A server whose Machine is unhealthy was judged.
    async fn recovered(&mut self, verdict: Recovery, message: &str) -> Result<Action, Error> {
        let turn = &mut self.turn;
        match verdict {
            Recovery::GivenUp => turn.give_up(message).await,
            Recovery::Kept | Recovery::Rebooted => {
                turn.judged(verdict, message);
                let rebooted = verdict == Recovery::Rebooted;
                let reason = if rebooted { "ServerRebooted" } else { "ServerKept" };
                turn.event(rebooted, reason, "Recover", message).await;
            }
        }
        turn.acted_upon().await
    }

    /// The provider id is there before the machine counts as provisioned.
    async fn created(&mut self, created: &CreatedServer) -> Result<Action, Error> {
        let Ok(zone) = self.zone.clone() else { return Ok(Action::requeue(JOB_CHECK)) };
        let (turn, server) = (&mut self.turn, &created.server);
        if !turn.deleting() {
            let provider = ProviderId::Instance { zone: zone.clone(), id: server.id.clone() };
            let patch = json!({"spec": {"providerID": provider.to_string()}});
            if !write_object(&turn.api, turn.object, patch).await? {
                // The next look sees what changed, and the outcome is still there.
                return Err(Error::Overtaken);
            }
            let note =
                format!("the server {} ({}) runs, made by {}", server.id, server.commercial_type, created.operation);
            turn.event(false, "ServerCreated", "Create", &note).await;
        }
        turn.status.server_id = Some(server.id.clone());
        turn.status.server_name = Some(server.name.clone());
        turn.status.failure_domain = Some(zone.to_string());
        turn.status.addresses = addresses(server, &turn.object.name_any());
        turn.acted_upon().await
    }
}
