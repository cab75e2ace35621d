//! The default policy of the slot `provisioning`. Knows what a failed operation of a cluster leaves behind and which of
//! its nodes go; must not know how nodes are deleted. README.md holds the decisions as a table.
//!
//! When in doubt it deletes nothing: a node that stays costs money, one that held data and is gone costs more.

use windlass_guest_sdk::prelude::*;

use provisioning::{Answer, ClusterState, NodeRole, Operation, Question, Stage};

settings! {
    /// The default has nothing to set: what a failure may delete follows from where it happened.
    pub struct DefaultProvisioning {}
    check(self) {
        Ok(())
    }
}

impl Provisioning for DefaultProvisioning {
    fn decide(&self, question: Question) -> Answer {
        match (question.operation, question.stage) {
            (Operation::Other, _) | (_, Stage::Other) => Answer::recover(ClusterState::Error, Vec::new())
                .because("this policy does not know what was being done, so it deletes nothing"),
            (Operation::Create, _) => {
                Answer::recover(ClusterState::Error, existing(&question, |role| role != NodeRole::Other))
                    .because("a cluster that was not finished is of no use: all its nodes go")
            }
            // Nothing was deleted yet, and nothing made.
            (Operation::Scale, Stage::Validate) => {
                Answer::recover(ClusterState::Active, Vec::new()).because("nothing was changed yet")
            }
            // Finish the way down, take back the way up: the cluster is whole again, only smaller than wanted.
            (Operation::Scale, Stage::Servers | Stage::Wait | Stage::Prepare | Stage::Resize) => {
                let goes = |role| matches!(role, NodeRole::Leaving | NodeRole::Made);
                Answer::recover(ClusterState::Active, existing(&question, goes))
                    .because("the leaving nodes are decommissioned and the new ones hold nothing yet")
            }
            (Operation::Scale, Stage::Decommission | Stage::Configure | Stage::Start) => {
                Answer::recover(ClusterState::Error, Vec::new()).because("deleting nodes now could lose data")
            }
            (Operation::Terminate, _) => {
                Answer::recover(ClusterState::Error, Vec::new()).because("its nodes stay until it is terminated again")
            }
        }
    }
}

/// The positions of the nodes that still exist and whose role is one to delete.
fn existing(question: &Question, wanted: impl Fn(NodeRole) -> bool) -> Vec<u32> {
    (0u32..)
        .zip(&question.nodes)
        .filter(|(_, node)| node.exists && wanted(node.role))
        .map(|(position, _)| position)
        .collect()
}

export_policy!(DefaultProvisioning: provisioning; silent_panics);

#[cfg(test)]
mod tests;
