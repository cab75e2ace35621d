//! Slot `provisioning`: how a cluster recovers when one of its operations failed (`windlass:policy/provisioning`).

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::{Failure, Program, Subject};
pub use crate::bindings::provisioning::*;
use crate::slot_name::SlotName;
use crate::text::kind_word;

/// The slot `provisioning`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provisioning;

impl Slot for Provisioning {
    const NAME: SlotName = SlotName::Provisioning;
    type Question = Question;
    type Answer = Answer;

    fn topic(question: &Question) -> Topic<'_> {
        let cluster = question.subject.cluster.as_deref().unwrap_or("?");
        let (operation, stage) = (kind_word(&question.operation), kind_word(&question.stage));
        Topic::new(format!("cluster {cluster}: {operation} at {stage}"), &question.subject)
    }

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// Every position exists, and none is named twice.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        let Verdict::Recover(recovery) = &answer.verdict else { return Ok(()) };
        let mut named = vec![false; question.nodes.len()];
        for position in &recovery.delete {
            match named.get_mut(*position as usize) {
                None => {
                    return Err(format!(
                        "the recovery deletes node {position}, and there are only {}",
                        question.nodes.len()
                    ));
                }
                Some(true) => return Err(format!("the recovery deletes node {position} twice")),
                Some(named) => *named = true,
            }
        }
        Ok(())
    }

    /// The cluster is left in error, and no node is deleted.
    fn keep(_question: &Question) -> Answer {
        Answer { verdict: Verdict::Recover(Recovery { state: ClusterState::Error, delete: Vec::new() }), reason: None }
    }

    fn example() -> Question {
        let node = |name: &str, role, exists| Node {
            name: name.into(),
            group: "workers".into(),
            role,
            exists,
            decommissioned: false,
            configured: false,
        };
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            subject: Subject { cluster: Some("example".into()), ..Subject::of_owner(Program::CommandLine, "example") },
            operation: Operation::Scale,
            stage: Stage::Resize,
            cause: Failure::example(),
            groups: vec![Group { name: "workers".into(), before: 2, wanted: 3 }],
            nodes: vec![
                node("workers-1", NodeRole::Staying, true),
                node("workers-2", NodeRole::Leaving, true),
                node("workers-3", NodeRole::Made, false),
            ],
        }
    }
}
