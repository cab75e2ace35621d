//! What an ended job means for a cluster of servers.

use kube::Resource;

use super::Cluster;
use crate::Error;
use crate::action::Action;
use crate::outcome::Outcome;
use crate::status::bounded;
use crate::turn::AT_ONCE;

impl Cluster<'_> {
    /// A job has ended: what it means is written; then it is forgotten.
    pub(super) async fn act_upon(&mut self, outcome: &Outcome) -> Result<Action, Error> {
        let about = self.object.object_ref(&());
        match outcome {
            Outcome::Operated { message } => {
                self.context.event(&about, false, "OperationDone", "Operate", message).await;
            }
            Outcome::Failed { reason, message } => {
                self.context.event(&about, true, reason, "Operate", message).await;
            }
            Outcome::Refused { reason, message } => {
                if let Some(attempt) = &mut self.status.attempt {
                    attempt.refused = Some(bounded(message.clone()));
                }
                self.context.event(&about, true, reason, "Operate", message).await;
            }
            _ => {}
        }
        self.write().await?;
        self.context.jobs.done(&self.uid);
        Ok(Action::requeue(AT_ONCE))
    }
}
