//! What groups of both kinds ask the state-mapping policy, and what they show of its answers.

use windlass_policy::slots::StateMapping;
use windlass_policy::slots::state_mapping::{Mapping, Question, Verdict};
use windlass_policy::{DecisionId, Host};

use super::looks::Reports;
use crate::observe::names;
use crate::protocol::State;

/// Servers that a listing left out are asked for by their ids, so many at a time.
pub(crate) const PARALLEL_LOOKS: usize = 8;

/// The server types of a listing, each once: servers refer to them by position.
#[derive(Default)]
pub(crate) struct ServerTypes(Vec<String>);

impl ServerTypes {
    pub(crate) fn position(&mut self, name: &str) -> u32 {
        let known = self.0.iter().position(|known| known == name);
        let position = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        u32::try_from(position).unwrap_or(u32::MAX)
    }

    pub(crate) fn names(self) -> Vec<String> {
        self.0
    }
}

/// One question for the whole batch: the decision, and what was judged about each of these ids, and why.
pub(crate) async fn judge(
    policies: &Host,
    ids: Vec<String>,
    question: Question,
) -> (Option<DecisionId>, Vec<(String, Mapping, Option<String>)>) {
    if ids.is_empty() {
        return (None, Vec::new());
    }
    let decision = policies.pin().decide::<StateMapping>(question).await;
    for fallback in &decision.fallbacks {
        tracing::warn!(decision = %decision.id, "{fallback}");
    }
    let judged = ids
        .into_iter()
        .zip(decision.answer)
        .filter_map(|(id, answer)| match answer.verdict {
            Verdict::Mapped(mapping) => Some((id, mapping, answer.reason)),
            // The last link of a chain never defers.
            Verdict::Defer => None,
        })
        .collect();
    (Some(decision.id), judged)
}

/// Shows how many are reported as what.
pub(crate) fn count(reports: &Reports) {
    for state in [
        State::Creating,
        State::Running,
        State::Deleting,
        State::Timeout,
        State::Suspending,
        State::Suspended,
        State::Resuming,
    ] {
        let count = reports.values().filter(|told| **told == state).count();
        metrics::gauge!(names::INSTANCES, "state" => state.to_string()).set(count as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_one_position_in_a_listing() {
        let mut types = ServerTypes::default();
        let positions = ["DEV1-S", "GP1-XS", "DEV1-S"].map(|name| types.position(name));
        assert_eq!(positions, [0, 1, 0]);
        assert_eq!(types.names(), ["DEV1-S", "GP1-XS"]);
    }
}
