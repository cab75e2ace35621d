//! Where a cluster stands: it follows from its nodes and its last operation, and is worked out in this one place.

use crate::record::{ClusterOperation, ClusterState, Node, NodeState, OperationKind, OperationState};

impl Node {
    /// Why it does not serve; absent when it does: it runs, configured and started, is not on its way out, and nothing
    /// is known to be wrong with its server.
    #[must_use]
    pub fn problem_in_serving(&self) -> Option<String> {
        let words = match self.state {
            NodeState::Running if self.not_ours => return self.problem.clone(),
            NodeState::Running if self.decommissioned => "it is decommissioned and not removed",
            NodeState::Running if self.decommission_began => {
                "its decommission hook began, and it is not known how far it came"
            }
            NodeState::Running if !self.configured => "it runs and is not configured",
            NodeState::Running if !self.started => "it is configured and not started",
            NodeState::Running => return self.problem.clone(),
            NodeState::Left => return Some(self.problem.clone().unwrap_or_else(|| UNSEEN.to_owned())),
            NodeState::Planned | NodeState::Removed => "it does not exist",
            NodeState::Creating => "it is being created",
            NodeState::Removing => "it is being removed",
        };
        Some(words.to_owned())
    }

    /// Whether it may hold data: it was given to a configure hook, or there is none and it was taken as configured.
    #[must_use]
    pub fn may_hold_data(&self) -> bool {
        self.configured || self.configure_began
    }

    /// Whether the decommission hook has to end well for it before it is removed.
    #[must_use]
    pub fn awaits_decommission(&self) -> bool {
        self.state == NodeState::Running && self.may_hold_data() && !self.decommissioned && !self.not_ours
    }

    /// Whether it can never serve again: it is decommissioned, or perhaps is, or something of it is left after it was
    /// removed, or its server is no longer ours. It leaves with the next scaling, whatever that is about, and is never
    /// brought back.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.decommissioned || self.decommission_began || self.not_ours || self.state == NodeState::Left
    }
}

/// What is said of a node that should be gone.
pub(crate) const UNSEEN: &str = "cannot check whether it is gone";

/// Where a cluster stands with these nodes after (or in) its last operation.
///
/// An operation that fails never makes a cluster whole: it is `active` after one only when every node serves, and the
/// provisioning policy left it so.
pub(crate) fn state<'n>(operation: &ClusterOperation, nodes: impl IntoIterator<Item = &'n Node>) -> ClusterState {
    let mut nodes = nodes.into_iter().peekable();
    let none = nodes.peek().is_none();
    match (operation.state, operation.kind) {
        (OperationState::Open, OperationKind::Create) => ClusterState::Creating,
        (OperationState::Open, OperationKind::Scale) => ClusterState::Scaling,
        (OperationState::Open, OperationKind::Terminate) => ClusterState::Terminating,
        // Its deletion is requested, and follows.
        (OperationState::Cancelled, _) => ClusterState::Terminating,
        (OperationState::Abandoned, _) => ClusterState::Abandoned,
        (_, OperationKind::Terminate) | (OperationState::Failed, _) => ClusterState::Error,
        _ if nodes.any(|node| node.problem_in_serving().is_some()) => ClusterState::Error,
        (OperationState::Done, _) => ClusterState::Active,
        (OperationState::Recovered, _) => {
            let left_active =
                operation.recovery.as_ref().is_some_and(|recovery| recovery.state == ClusterState::Active);
            if left_active && !none { ClusterState::Active } else { ClusterState::Error }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_policy::slots::types::{Failure, FailureClass};

    use super::*;
    use crate::record::{Recovery, Stage};

    const KINDS: [OperationKind; 3] = [OperationKind::Create, OperationKind::Scale, OperationKind::Terminate];
    const STATES: [OperationState; 6] = [
        OperationState::Open,
        OperationState::Done,
        OperationState::Recovered,
        OperationState::Failed,
        OperationState::Cancelled,
        OperationState::Abandoned,
    ];
    const NODES: [NodeState; 6] = [
        NodeState::Planned,
        NodeState::Creating,
        NodeState::Running,
        NodeState::Removing,
        NodeState::Removed,
        NodeState::Left,
    ];

    fn node(state: NodeState, configured: bool, started: bool, decommissioned: bool) -> Node {
        let planned = Node::planned(&"farm".parse().unwrap(), &"web".parse().unwrap(), 1);
        Node { state, configured, started, decommissioned, ..planned }
    }

    fn operation(kind: OperationKind, state: OperationState, decided: Option<ClusterState>) -> ClusterOperation {
        let recovery = decided.map(|state| Recovery {
            stage: Stage::Validate,
            cause: Failure::of_class(FailureClass::Other, "why"),
            state,
            delete: Vec::new(),
            decided_by: "default".into(),
            reason: None,
            decision: "1".into(),
        });
        ClusterOperation { kind, state, recovery, ..ClusterOperation::begun(kind, Stage::Validate, "1-abc", 1) }
    }

    #[test]
    fn a_node_whose_decommission_was_begun_and_not_noted_is_spent_and_decommissioned_again() {
        let node = Node { decommission_began: true, ..node(NodeState::Running, true, true, false) };
        assert!(node.is_spent() && node.awaits_decommission() && node.problem_in_serving().is_some());
    }

    fn any_node() -> impl Strategy<Value = Node> {
        (0..NODES.len(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(state, configured, started, gone)| node(NODES[state], configured, started, gone))
    }

    #[test]
    fn a_failed_operation_leaves_a_cluster_active_only_if_every_node_serves() {
        let serving = node(NodeState::Running, true, true, false);
        let unconfigured = node(NodeState::Running, false, false, false);
        let failed = operation(OperationKind::Scale, OperationState::Recovered, Some(ClusterState::Active));
        assert_eq!(state(&failed, [&serving]), ClusterState::Active);
        assert_eq!(state(&failed, [&serving, &unconfigured]), ClusterState::Error);
        assert_eq!(state(&failed, []), ClusterState::Error, "what has no node after a failure is not whole");
        let done = operation(OperationKind::Scale, OperationState::Done, None);
        assert_eq!(state(&done, []), ClusterState::Active, "scaled to nothing, as was asked for");
    }

    proptest! {
        #[test]
        fn active_means_that_every_node_serves_and_nothing_is_under_way(
            kind in 0..KINDS.len(), ended in 0..STATES.len(), decided: Option<bool>,
            nodes in proptest::collection::vec(any_node(), 0..4),
        ) {
            let decided = decided.map(|active| if active { ClusterState::Active } else { ClusterState::Error });
            let operation = operation(KINDS[kind], STATES[ended], decided);
            if state(&operation, &nodes) == ClusterState::Active {
                let serves = |node: &Node| {
                    node.state == NodeState::Running && node.configured && node.started && !node.decommissioned
                };
                prop_assert!(nodes.iter().all(serves));
                prop_assert!(matches!(STATES[ended], OperationState::Done | OperationState::Recovered));
                prop_assert!(KINDS[kind] != OperationKind::Terminate);
            }
        }
    }
}
