//! What the end of a job means for an instance: it is written into the object, and the job is forgotten.

use kube::ResourceExt;
use serde_json::json;
use windlass_lifecycle::{CreatedServer, ReleaseOutcome, Released};

use super::{Instance, addresses};
use crate::Error;
use crate::action::Action;
use crate::names::ProviderId;
use crate::outcome::{Outcome, Recovery};
use crate::turn::JOB_CHECK;
use crate::writes::write_object;

impl Instance<'_> {
    pub(super) async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        match outcome {
            Outcome::Created(created) => self.created(created).await,
            Outcome::NothingMade => self.turn.finish_release(false, "ServerRemoved", "nothing was created").await,
            // What is deleted meanwhile is released, whatever was said of its recovery.
            Outcome::Released(_) if self.turn.deleting() && self.turn.has_recovered() => self.turn.acted_upon().await,
            Outcome::Released(released) if self.turn.deleting() => self.released(released).await,
            Outcome::Released(released) => self.recovered(released).await,
            outcome => self.turn.came_to_nothing(outcome).await,
        }
    }

    /// A deleted object's server was released, or is to be asked for again.
    async fn released(&mut self, released: &Released) -> Result<Action, Error> {
        let turn = &mut self.turn;
        if let Some(waits) = turn.waits_for_release(released, !released.outcome.is_released()).await? {
            return Ok(waits);
        }
        match released.outcome {
            ReleaseOutcome::Kept => {
                let id = turn.status.server_id.as_deref().unwrap_or_default();
                let message = format!("the server {id} is {}; nothing manages it any more", released.words());
                turn.finish_release(false, "Kept", &message).await
            }
            _ => {
                // What else of it somebody has taken over meanwhile is named.
                let taken = released.report.as_ref().is_some_and(|report| !report.not_ours.is_empty());
                turn.finish_release(taken, "ServerRemoved", &released.words()).await
            }
        }
    }

    /// A server whose Machine is unhealthy was judged.
    async fn recovered(&mut self, released: &Released) -> Result<Action, Error> {
        let turn = &mut self.turn;
        let waits = matches!(released.outcome, ReleaseOutcome::AskAgain { .. });
        if let Some(waits) = turn.waits_for_release(released, waits).await? {
            return Ok(waits);
        }
        let id = turn.status.server_id.clone().unwrap_or_default();
        let message = format!("the server {id}: {}", released.words());
        let (verdict, warning, reason) = match released.outcome {
            ReleaseOutcome::Kept => (Recovery::Kept, false, "ServerKept"),
            ReleaseOutcome::Rebooted => (Recovery::Rebooted, true, "ServerRebooted"),
            _ => {
                turn.give_up(&message).await;
                return turn.acted_upon().await;
            }
        };
        turn.judged(verdict, &message);
        turn.event(warning, reason, "Recover", &message).await;
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
