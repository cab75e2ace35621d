//! Slot `state-mapping`: what an autoscaler learns about each server, and what is done about it.

pub use crate::bindings::state_mapping::exports::windlass::policy::state_mapping::{
    Action, Answer, Mapping, Operation, Question, Report, Server, ServerState, StateDetail, Verdict,
};

/// A policy for the slot `state-mapping`. In the prelude it is called `StateMapping`.
pub trait Policy {
    /// Judges one server of a listing; the listing tells when it was taken, of which zone and group, and what the
    /// server's type and tags are ([`Question::type_of`], [`Question::has_tag`]).
    fn decide(&self, server: &Server, listing: &Question) -> Answer;

    /// Judges a listing: one answer for each server, in its order. To be implemented only where a judgement depends on
    /// several servers at once (never reap more than a few in one round, for example).
    fn decide_all(&self, question: &Question) -> Vec<Answer> {
        question.servers.iter().map(|server| self.decide(server, question)).collect()
    }
}

impl Question {
    /// The type (Scaleway's commercial type) of a server of this listing.
    #[must_use]
    pub fn type_of(&self, server: &Server) -> Option<&str> {
        self.server_types.get(server.server_type as usize).map(String::as_str)
    }

    /// Whether a server of this listing carries a tag. False, too, for a tag that the operator has no policy watch.
    #[must_use]
    pub fn has_tag(&self, server: &Server, tag: &str) -> bool {
        let mut watched = (0..u64::BITS).zip(&self.watched_tags);
        watched.any(|(bit, watched)| (server.watched_tags >> bit) & 1 == 1 && watched == tag)
    }
}

impl Answer {
    /// The next policy decides about this server.
    #[must_use]
    pub const fn defer() -> Self {
        Self { verdict: Verdict::Defer, reason: None }
    }

    /// Report this, do nothing.
    #[must_use]
    pub const fn report(report: Report) -> Self {
        Self { verdict: Verdict::Mapped(Mapping { report, action: Action::None }), reason: None }
    }

    /// Have the host clean the server up, and report `deleting` while it does.
    #[must_use]
    pub const fn reap() -> Self {
        Self { verdict: Verdict::Mapped(Mapping { report: Report::Deleting, action: Action::Reap }), reason: None }
    }

    /// Adds why, for people. Each reason is a string for each server: leave it out in the ordinary cases.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{server, state_mapping_question};

    #[test]
    fn a_server_refers_to_its_type_and_its_watched_tags_by_position() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let listing = Question {
            server_types: names(&["DEV1-S", "GP1-XS"]),
            watched_tags: names(&["keep", "debug"]),
            ..state_mapping_question([])
        };
        let debugged = Server { server_type: 1, watched_tags: 0b10, ..server(ServerState::Running) };
        assert_eq!(listing.type_of(&debugged), Some("GP1-XS"));
        assert!(listing.has_tag(&debugged, "debug"));
        assert!(!listing.has_tag(&debugged, "keep"));
        assert!(!listing.has_tag(&Server { watched_tags: u64::MAX, ..debugged }, "nobody-watches-this"));
        assert_eq!(listing.type_of(&Server { server_type: 2, ..debugged }), None);
    }
}
