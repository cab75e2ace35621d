//! Slot `state-mapping`: what an autoscaler learns about each server, and what is done about it
//! (`windlass:policy/state-mapping`). The one slot whose question is a batch: one answer for each server.

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::Subject;
pub use crate::bindings::state_mapping::*;
use crate::slot_name::SlotName;
use crate::text::counted;

/// Watched tags at most: each server has one bit for each.
pub const MAX_WATCHED_TAGS: usize = u64::BITS as usize;

impl Server {
    /// Whether it is there to work: it runs, and no cleanup of it is under way, to which a reap would add nothing.
    fn runs(&self) -> bool {
        self.state == ServerState::Running && self.in_flight != Operation::Cleanup
    }
}

impl Answer {
    /// Whether the server is removed, or vanishes from its owner's eyes while it runs: an autoscaler forgets what is
    /// reported as gone, and after a few reports what is left out.
    fn loses_its_server(&self) -> bool {
        let Verdict::Mapped(Mapping { report, .. }) = &self.verdict else { return false };
        self.reaps() || matches!(report, Report::None | Report::Deleting | Report::Deleted | Report::Timeout)
    }

    fn reaps(&self) -> bool {
        matches!(&self.verdict, Verdict::Mapped(Mapping { action: Action::Reap, .. }))
    }
}

impl Question {
    /// A listing without servers.
    #[must_use]
    pub fn of_listing(now: u64, zone: &str, subject: Subject, watched_tags: Vec<String>) -> Question {
        Question { now, zone: zone.to_owned(), subject, server_types: Vec::new(), watched_tags, servers: Vec::new() }
    }

    /// Adds a server of this type and with these tags: its own `server_type` and `watched_tags` are set here.
    pub fn push(&mut self, server: Server, server_type: &str, tags: &[String]) {
        let known = self.server_types.iter().position(|known| known == server_type);
        let position = known.unwrap_or_else(|| {
            self.server_types.push(server_type.to_owned());
            self.server_types.len() - 1
        });
        let bits = (0..u64::BITS).zip(&self.watched_tags).filter(|(_, watched)| tags.contains(watched));
        self.servers.push(Server {
            server_type: u32::try_from(position).unwrap_or(u32::MAX),
            watched_tags: bits.fold(0, |bits, (position, _)| bits | (1 << position)),
            ..server
        });
    }
}

/// The slot `state-mapping`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateMapping;

impl Slot for StateMapping {
    const NAME: SlotName = SlotName::StateMapping;
    type Question = Question;
    type Answer = Vec<Answer>;

    fn topic(question: &Question) -> Topic<'_> {
        let mut topic = Topic::of_group(counted(question.servers.len(), "server"), &question.subject);
        topic.words.push_str(" in ");
        topic.words.push_str(&question.zone);
        Topic { zone: Some(&question.zone), ..topic }
    }

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
            subject: question.subject.clone(),
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
        let servers = question.servers.iter().zip(answers);
        servers.filter(|(server, answer)| server.runs() && answer.loses_its_server()).count()
    }

    fn lost(question: &Question, answers: &Vec<Answer>) -> usize {
        let is_lost = |(server, answer): &(&Server, &Answer)| {
            // To a cleanup that is under way, a reap adds nothing.
            let is_reaped = server.in_flight != Operation::Cleanup && answer.reaps();
            is_reaped || (server.runs() && answer.loses_its_server())
        };
        question.servers.iter().zip(answers).filter(is_lost).count()
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
            unused_for: None,
            in_flight,
            suspended: false,
            server_type: u32::from(has_run),
            watched_tags: u64::from(has_run),
        };
        Question {
            now: EXAMPLE_NOW_MS,
            zone: "fr-par-1".into(),
            subject: Subject::example(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn added(watched: &[String], of: &[(&str, &[String])]) -> Question {
        let mut question = Question::of_listing(0, "fr-par-1", Subject::example(), watched.to_vec());
        let server = StateMapping::example().servers[0];
        of.iter().for_each(|(server_type, tags)| question.push(server, server_type, tags));
        question
    }

    #[test]
    fn a_watched_tag_sets_its_own_bit_and_no_other_tag_any() {
        let watch: Vec<String> = (0..64).map(|number| format!("tag-{number}")).collect();
        let watched = |watch: &[String], tags: &[String]| added(watch, &[("DEV1-S", tags)]).servers[0].watched_tags;
        assert_eq!(watched(&watch, &names(&["tag-63", "role=runner", "tag-0"])), (1 << 63) | 1);
        assert_eq!(watched(&watch, &watch), u64::MAX);
        assert_eq!(watched(&names(&["debug"]), &names(&["debug=1", "windlass-group=ci"])), 0);
        assert_eq!(watched(&[], &watch), 0);
    }

    #[test]
    fn a_server_is_lost_when_it_is_reaped_or_reported_as_gone_while_it_runs() {
        let question = StateMapping::example();
        let answers = |report, action| -> Vec<Answer> {
            let answer = Answer { verdict: Verdict::Mapped(Mapping { report, action }), reason: None };
            vec![answer; question.servers.len()]
        };
        let lost = |report, action| {
            let answers = answers(report, action);
            (StateMapping::removed(&question, &answers), StateMapping::lost(&question, &answers))
        };
        // One of six runs, and a cleanup of one is under way.
        assert_eq!(lost(Report::Deleting, Action::Reap), (1, 5), "the brake protects what runs");
        assert_eq!(lost(Report::Deleted, Action::None), (1, 1));
        assert_eq!(lost(Report::Running, Action::None), (0, 0));
    }

    #[test]
    fn a_type_has_one_position_in_a_listing() {
        let question = added(&[], &[("DEV1-S", &[]), ("GP1-XS", &[]), ("DEV1-S", &[])]);
        let positions: Vec<u32> = question.servers.iter().map(|server| server.server_type).collect();
        assert_eq!(positions, [0, 1, 0]);
        assert_eq!(question.server_types, ["DEV1-S", "GP1-XS"]);
    }
}
