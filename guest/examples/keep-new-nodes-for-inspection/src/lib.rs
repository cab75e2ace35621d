//! A policy for `provisioning`: when the cause is worth looking into, some of the new nodes are kept.

use std::collections::BTreeMap;

use windlass_guest_sdk::prelude::*;

use provisioning::{Answer, ClusterState, NodeRole, Operation, Question, Stage};

settings! {
    /// What is worth looking into, and how much of it.
    pub struct KeepNewNodesForInspection {
        /// Failures of these classes.
        pub classes: Vec<FailureClass> =
            vec![FailureClass::HookFailed, FailureClass::HookTimedOut, FailureClass::DeadlineExceeded],
        /// How many new nodes of each group stay: they are paid for until somebody removes them.
        pub at_most: u32 = 1,
    }
    check(self) {
        match self.at_most {
            0 => Err("`at-most` is 0, which keeps nothing: leave the policy out instead".into()),
            _ => Ok(()),
        }
    }
}

/// Whether new nodes would be deleted by default. In the other stages of a scaling the default deletes nothing, nor
/// where something was being done that it has no word for.
fn deletes_new_nodes(question: &Question) -> bool {
    match question.operation {
        Operation::Create => question.stage != Stage::Other,
        Operation::Scale => {
            matches!(question.stage, Stage::Servers | Stage::Wait | Stage::Prepare | Stage::Resize)
        }
        Operation::Terminate | Operation::Other => false,
    }
}

impl Provisioning for KeepNewNodesForInspection {
    fn decide(&self, question: Question) -> Answer {
        let worth_it = self.classes.contains(&question.cause.class);
        if !worth_it || !deletes_new_nodes(&question) {
            return Answer::defer();
        }
        let mut kept_of_group: BTreeMap<&str, u32> = BTreeMap::new();
        let (mut kept, mut delete) = (Vec::new(), Vec::new());
        // The host gives a group's nodes in the order of their numbers.
        for (position, node) in (0u32..).zip(&question.nodes).filter(|(_, node)| node.exists) {
            match node.role {
                NodeRole::Staying | NodeRole::Other => {}
                NodeRole::Leaving => delete.push(position),
                NodeRole::Made => {
                    let of_group = kept_of_group.entry(node.group.as_str()).or_default();
                    if *of_group < self.at_most {
                        *of_group += 1;
                        kept.push(node.name.as_str());
                    } else {
                        delete.push(position);
                    }
                }
            }
        }
        if kept.is_empty() {
            return Answer::defer();
        }
        let reason = format!("kept for inspection: {}", kept.join(", "));
        Answer::recover(ClusterState::Error, delete).because(reason)
    }
}

export_policy!(KeepNewNodesForInspection: provisioning);

#[cfg(test)]
mod tests {
    use provisioning::{Node, Verdict};
    use windlass_guest_sdk::testing::{configure, provisioning_question};

    use super::*;

    fn policy(settings: &str) -> KeepNewNodesForInspection {
        configure(settings).unwrap_or_else(|error| panic!("{error}"))
    }

    fn node(name: &str, group: &str, role: NodeRole, exists: bool) -> Node {
        Node { name: name.into(), group: group.into(), role, exists, decommissioned: false, configured: false }
    }

    fn question(operation: Operation, stage: Stage, class: FailureClass) -> Question {
        Question {
            operation,
            stage,
            nodes: vec![
                node("web-1", "web", NodeRole::Staying, true),
                node("web-2", "web", NodeRole::Leaving, true),
                node("web-3", "web", NodeRole::Made, true),
                node("web-4", "web", NodeRole::Made, true),
                node("db-1", "db", NodeRole::Made, false),
                node("db-2", "db", NodeRole::Made, true),
            ],
            ..provisioning_question(class)
        }
    }

    fn resize(class: FailureClass) -> Question {
        question(Operation::Scale, Stage::Resize, class)
    }

    #[test]
    fn one_new_node_of_each_group_stays_and_what_was_to_go_goes() {
        let answer = policy("{}").decide(resize(FailureClass::DeadlineExceeded));
        let Verdict::Recover(recovery) = answer.verdict else { panic!("{answer:?}") };
        assert_eq!(recovery.state, ClusterState::Error);
        assert_eq!(recovery.delete, [1, 3], "the leaving node and the second new one of its group");
        assert_eq!(answer.reason.as_deref(), Some("kept for inspection: web-3, db-2"));
    }

    #[test]
    fn as_many_stay_as_the_settings_say_and_staying_nodes_are_never_touched() {
        for (settings, delete) in [(r#"{"at-most": 1}"#, vec![1, 3]), (r#"{"at-most": 9}"#, vec![1])] {
            let answer = policy(settings).decide(resize(FailureClass::HookFailed));
            let Verdict::Recover(recovery) = answer.verdict else { panic!("{answer:?}") };
            assert_eq!(recovery.delete, delete, "{settings}");
        }
    }

    #[test]
    fn a_failed_creation_is_worth_it_at_every_stage() {
        for stage in [Stage::Servers, Stage::Wait, Stage::Prepare, Stage::Configure, Stage::Start] {
            let answer = policy("{}").decide(question(Operation::Create, stage, FailureClass::HookFailed));
            assert!(matches!(answer.verdict, Verdict::Recover(_)), "{stage:?}: {answer:?}");
        }
    }

    #[test]
    fn where_the_default_deletes_nothing_there_is_nothing_to_say() {
        for (operation, stage) in [
            (Operation::Scale, Stage::Decommission),
            (Operation::Scale, Stage::Configure),
            (Operation::Scale, Stage::Start),
            (Operation::Terminate, Stage::Servers),
            (Operation::Create, Stage::Other),
            (Operation::Other, Stage::Servers),
        ] {
            let answer = policy("{}").decide(question(operation, stage, FailureClass::HookFailed));
            assert_eq!(answer, Answer::defer(), "{operation:?} {stage:?}");
        }
    }

    #[test]
    fn another_cause_and_nothing_to_keep_are_left_to_the_next_policy() {
        let policy = policy("{}");
        assert_eq!(policy.decide(resize(FailureClass::OutOfStock)), Answer::defer());
        let mut nothing_made = resize(FailureClass::HookFailed);
        nothing_made.nodes.retain(|node| node.role != NodeRole::Made || !node.exists);
        assert_eq!(policy.decide(nothing_made), Answer::defer());
    }

    #[test]
    fn settings_that_keep_nothing_are_refused() {
        assert!(configure::<KeepNewNodesForInspection>(r#"{"at-most": 0}"#).is_err());
        assert!(configure::<KeepNewNodesForInspection>(r#"{"at-most": 2, "classes": ["cancelled"]}"#).is_ok());
    }
}
