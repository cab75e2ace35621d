//! Slot `state-mapping`: what an autoscaler is told about each server, and what is done about it
//! (`windlass:policy/state-mapping`). The one slot whose question is a batch: one answer for each server.

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
pub use crate::bindings::state_mapping::*;
use crate::slot_name::SlotName;

/// Watched tags at most: each server has one bit for each.
pub const MAX_WATCHED_TAGS: usize = u64::BITS as usize;

impl Server {
    /// Whether it is there to work: it runs, and no cleanup of it is under way, to which a reap would add nothing.
    fn runs(&self) -> bool {
        self.state == ServerState::Running && self.in_flight != Operation::Cleanup
    }
}

/// The slot `state-mapping`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateMapping;

impl Slot for StateMapping {
    const NAME: SlotName = SlotName::StateMapping;
    type Question = Question;
    type Answer = Vec<Answer>;

    fn deferred(answers: &Vec<Answer>) -> Deferred {
        let items: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.verdict == Verdict::Defer)
            .map(|(index, _)| index)
            .collect();
        match items.len() {
            0 => Deferred::Nothing,
            count if count == answers.len() => Deferred::Whole,
            _ => Deferred::Items(items),
        }
    }

    fn items(question: &Question) -> usize {
        question.servers.len()
    }

    fn part(question: &Question, items: &[usize]) -> Question {
        Question {
            now: question.now,
            zone: question.zone.clone(),
            group: question.group.clone(),
            server_types: question.server_types.clone(),
            watched_tags: question.watched_tags.clone(),
            servers: items.iter().map(|item| question.servers[*item]).collect(),
        }
    }

    fn merge(answers: &mut Vec<Answer>, items: &[usize], later: Vec<Answer>) {
        for (item, answer) in items.iter().zip(later) {
            answers[*item] = answer;
        }
    }

    fn select(answers: &Vec<Answer>, items: &[usize]) -> Vec<Answer> {
        items.iter().map(|item| answers[*item].clone()).collect()
    }

    fn running(question: &Question) -> usize {
        question.servers.iter().filter(|server| server.runs()).count()
    }

    fn removed(question: &Question, answers: &Vec<Answer>) -> usize {
        let is_reaped =
            |answer: &Answer| matches!(answer.verdict, Verdict::Mapped(Mapping { action: Action::Reap, .. }));
        let servers = question.servers.iter().zip(answers);
        servers.filter(|(server, answer)| server.runs() && is_reaped(answer)).count()
    }

    /// One answer for each server.
    fn check(question: &Question, answers: &Vec<Answer>) -> Result<(), String> {
        if answers.len() == question.servers.len() {
            return Ok(());
        }
        Err(format!("{} answers for {} servers", answers.len(), question.servers.len()))
    }

    /// Reports only what is plainly so, and reaps nothing.
    fn keep(question: &Question) -> Vec<Answer> {
        let keep_one = |server: &Server| {
            let report = match (server.in_flight, server.state) {
                (Operation::Cleanup, _) => Report::Deleting,
                (Operation::Create, _) | (Operation::None, ServerState::Starting) => Report::Creating,
                (Operation::Suspend, _) => Report::Suspending,
                (Operation::Resume, _) => Report::Resuming,
                (Operation::None, ServerState::Running) => Report::Running,
                (Operation::None, ServerState::StoppedInPlace) if server.suspended => Report::Suspended,
                (Operation::None | Operation::Other, _) => Report::None,
            };
            Answer { verdict: Verdict::Mapped(Mapping { report, action: Action::None }), reason: None }
        };
        question.servers.iter().map(keep_one).collect()
    }

    fn example() -> Question {
        let server = |state, detail, has_run, in_flight| Server {
            state,
            detail,
            age: 90_000,
            state_age: 30_000,
            has_run,
            in_flight,
            suspended: false,
            server_type: u32::from(has_run),
            watched_tags: u64::from(has_run),
        };
        Question {
            now: EXAMPLE_NOW_MS,
            zone: "fr-par-1".into(),
            group: Some("example".into()),
            server_types: vec!["DEV1-S".into(), "DEV1-M".into()],
            watched_tags: vec!["debug".into()],
            servers: vec![
                server(ServerState::Running, StateDetail::Booted, true, Operation::None),
                server(ServerState::Stopped, StateDetail::None, false, Operation::Create),
                server(ServerState::Stopped, StateDetail::None, true, Operation::None),
                server(ServerState::Starting, StateDetail::AllocatingNode, false, Operation::Create),
                server(ServerState::Stopping, StateDetail::Stopping, true, Operation::Cleanup),
                server(ServerState::Other, StateDetail::Other, false, Operation::None),
            ],
        }
    }
}
