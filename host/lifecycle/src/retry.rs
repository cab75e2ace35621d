//! Whether a step that failed is tried again, and when: decided here for every kind of operation.

use std::time::Duration;

use tokio::time::Instant;
use windlass_policy::slots::Retry;
use windlass_policy::slots::retry::{Question, Verdict};
use windlass_policy::{Decision, PinnedPolicies};

use crate::run::milliseconds;

/// The longest single wait between two attempts, whatever a policy says.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Attempts of one step at most, whatever a policy says.
const MAX_ATTEMPTS: u32 = 500;

/// The attempts at one step.
#[derive(Debug)]
pub struct Attempts {
    /// Absent: only the waits count.
    began: Option<Instant>,
    number: u32,
    waited: Duration,
    limit: Duration,
}

impl Attempts {
    /// At the first attempt, which begins now. No later one begins past this limit, whatever a policy says.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        Self { began: Some(Instant::now()), number: 1, waited: Duration::ZERO, limit }
    }

    /// The same where only the waits between the attempts count: each has a time limit of its own.
    #[must_use]
    pub fn waiting_within(limit: Duration) -> Self {
        Self { began: None, ..Self::within(limit) }
    }

    /// The number of the attempt under way, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Asks the retry slot about the attempt that failed; what of the question is about the attempts is filled in here.
    /// Gives how long to wait before the next one. `None`: the step has failed.
    ///
    /// `at_least` is what Scaleway asks for; `deadline` is the last moment at which an attempt may begin.
    pub async fn decide(
        &self,
        policies: &PinnedPolicies,
        question: Question,
        at_least: Option<Duration>,
        deadline: Option<Instant>,
    ) -> (Decision<Retry>, Option<Duration>) {
        let elapsed = self.began.map_or(self.waited, |began| began.elapsed());
        let decision = policies
            .decide::<Retry>(Question {
                attempt: self.number,
                elapsed: milliseconds(elapsed),
                time_left: deadline.map(|at| milliseconds(at.saturating_duration_since(Instant::now()))),
                ..question
            })
            .await;
        let wait = match decision.answer.verdict {
            Verdict::Wait(wait) if self.number < MAX_ATTEMPTS => {
                Some(Duration::from_millis(wait).min(MAX_WAIT).max(at_least.unwrap_or_default()))
            }
            _ => None,
        }
        .filter(|wait| elapsed + *wait <= self.limit)
        .filter(|wait| deadline.is_none_or(|last| Instant::now() + *wait < last));
        (decision, wait)
    }

    /// The next attempt begins, after this wait.
    pub fn next(&mut self, wait: Duration) {
        self.number += 1;
        self.waited += wait;
    }
}
