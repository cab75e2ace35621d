use proptest::prelude::*;
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::testing::{self, provisioning_question};

use provisioning::{ClusterState, Node, NodeRole, Operation, Question, Recovery, Stage, Verdict};

use crate::DefaultProvisioning;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// The stages of each operation, in their order.
const STAGES: [(Operation, &[Stage]); 3] = [
    (
        Operation::Create,
        &[Stage::Validate, Stage::Servers, Stage::Wait, Stage::Prepare, Stage::Configure, Stage::Start],
    ),
    (Operation::Scale, &[Stage::Validate, Stage::Decommission, Stage::Resize, Stage::Configure, Stage::Start]),
    (Operation::Terminate, &[Stage::Decommission, Stage::Servers]),
];

fn node(name: &str, role: NodeRole, exists: bool) -> Node {
    Node { name: name.into(), group: "web".into(), role, exists, decommissioned: false, configured: false }
}

fn question(operation: Operation, stage: Stage, nodes: Vec<Node>) -> Question {
    Question { operation, stage, nodes, ..provisioning_question(FailureClass::ServerError) }
}

fn recovery(question: Question) -> Recovery {
    match DefaultProvisioning::default().decide(question).verdict {
        Verdict::Recover(recovery) => recovery,
        other => panic!("{other:?}"),
    }
}

fn mixed() -> Vec<Node> {
    vec![
        node("staying", NodeRole::Staying, true),
        node("leaving", NodeRole::Leaving, true),
        node("gone", NodeRole::Leaving, false),
        node("made", NodeRole::Made, true),
        node("planned", NodeRole::Made, false),
    ]
}

#[test]
fn a_failed_creation_leaves_nothing() {
    for stage in STAGES[0].1 {
        let made =
            vec![node("a", NodeRole::Made, true), node("b", NodeRole::Made, false), node("c", NodeRole::Made, true)];
        let answer = recovery(question(Operation::Create, *stage, made));
        assert_eq!((answer.state, answer.delete), (ClusterState::Error, vec![0, 2]), "{stage:?}");
    }
}

#[test]
fn a_failed_resize_finishes_the_way_down_and_takes_back_the_way_up() {
    let answer = recovery(question(Operation::Scale, Stage::Resize, mixed()));
    assert_eq!((answer.state, answer.delete), (ClusterState::Active, vec![1, 3]));
}

#[test]
fn a_failed_hook_of_a_scaling_deletes_nothing() {
    for stage in [Stage::Decommission, Stage::Configure, Stage::Start] {
        let answer = recovery(question(Operation::Scale, stage, mixed()));
        assert_eq!((answer.state, answer.delete), (ClusterState::Error, vec![]), "{stage:?}");
    }
}

#[test]
fn what_has_no_word_in_this_contract_is_not_deleted() {
    for (operation, stage) in [
        (Operation::Other, Stage::Servers),
        (Operation::Other, Stage::Other),
        (Operation::Create, Stage::Other),
        (Operation::Scale, Stage::Other),
        (Operation::Terminate, Stage::Other),
    ] {
        let answer = recovery(question(operation, stage, mixed()));
        assert_eq!((answer.state, answer.delete), (ClusterState::Error, vec![]), "{operation:?} {stage:?}");
    }
    let nodes = || vec![node("made", NodeRole::Made, true), node("other", NodeRole::Other, true)];
    for (operation, stage) in [(Operation::Create, Stage::Servers), (Operation::Scale, Stage::Resize)] {
        assert_eq!(recovery(question(operation, stage, nodes())).delete, [0], "{operation:?}");
    }
}

#[test]
fn it_takes_no_settings() {
    assert!(testing::configure::<DefaultProvisioning>("{}").is_ok());
    assert!(testing::configure::<DefaultProvisioning>(r#"{"keep": true}"#).is_err());
}

#[test]
fn the_readme_tells_what_the_policy_does() {
    let word = |value: String| value.rsplit("::").next().unwrap_or_default().to_lowercase();
    let mut rows = Vec::new();
    for (operation, stages) in STAGES {
        for stage in stages {
            let nodes = match operation {
                Operation::Create => vec![node("made", NodeRole::Made, true)],
                Operation::Scale => mixed(),
                Operation::Terminate => vec![node("leaving", NodeRole::Leaving, true)],
                Operation::Other => Vec::new(),
            };
            let all = question(operation, *stage, nodes.clone());
            let answer = recovery(all);
            let mut roles: Vec<&str> = answer
                .delete
                .iter()
                .map(|position| match nodes[*position as usize].role {
                    NodeRole::Staying => "staying",
                    NodeRole::Leaving => "leaving",
                    NodeRole::Made => "made",
                    NodeRole::Other => "other",
                })
                .collect();
            roles.sort_unstable();
            roles.dedup();
            rows.push(vec![
                word(format!("{operation:?}")),
                word(format!("{stage:?}")),
                format!("`{}`", word(format!("{:?}", answer.state))),
                if roles.is_empty() { "nothing".to_owned() } else { format!("the {} nodes", roles.join(" and ")) },
            ]);
        }
    }
    let header = ["operation", "stage", "the cluster is left", "deleted"];
    testing::readme::assert_table(README, "decisions", &header, &rows);
}

fn any_question() -> impl Strategy<Value = Question> {
    let roles = vec![NodeRole::Staying, NodeRole::Leaving, NodeRole::Made, NodeRole::Other];
    let node = (proptest::sample::select(roles), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(role, exists, decommissioned, configured)| Node { decommissioned, configured, ..node("n", role, exists) },
    );
    let stages: Vec<(Operation, Stage)> =
        STAGES.iter().flat_map(|(operation, stages)| stages.iter().map(|stage| (*operation, *stage))).collect();
    (
        proptest::sample::select(stages),
        proptest::collection::vec(node, 0..40),
        proptest::sample::select(FailureClass::ALL),
    )
        .prop_map(|((operation, stage), nodes, class)| Question {
            operation,
            stage,
            nodes,
            ..provisioning_question(class)
        })
}

proptest! {
    #[test]
    fn what_stays_and_what_is_gone_already_is_never_deleted_by_a_scaling(question in any_question()) {
        let answer = DefaultProvisioning::default().decide(question.clone());
        prop_assert!(answer.reason.is_some());
        let Verdict::Recover(recovery) = answer.verdict else {
            return Err(TestCaseError::fail("the default never defers"));
        };
        for position in recovery.delete {
            let node = &question.nodes[position as usize];
            prop_assert!(node.exists);
            prop_assert!(node.role != NodeRole::Other);
            prop_assert!(question.operation == Operation::Create || node.role != NodeRole::Staying);
        }
    }

    #[test]
    fn the_cause_changes_nothing(question in any_question(), class in proptest::sample::select(FailureClass::ALL)) {
        let policy = DefaultProvisioning::default();
        let other = Question { cause: testing::failure(class), ..question.clone() };
        prop_assert_eq!(policy.decide(question), policy.decide(other));
    }
}
