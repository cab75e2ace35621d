//! What a request gets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message as _;
use windlass_policy::slots::{
    CONTRACT_VERSION, Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping,
};
use windlass_policy::{DecidedBy, Decision, Mode, PinnedPolicies};

use crate::pins::Pins;
use crate::proto::{self, error::Code, outcome, question, request, response};
use crate::wire::{Invalid, Wire};

/// The most questions of a batch.
pub(crate) const MAX_BATCH: usize = 256;
/// The largest response, in bytes. A client need not read a larger one.
pub(crate) const MAX_RESPONSE_BYTES: usize = 8 << 20;

/// What happened since the server began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) open_connections: AtomicU64,
    pub(crate) denied_connections: AtomicU64,
    pub(crate) busy_connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    decisions: AtomicU64,
    fallbacks: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What answers.
pub(crate) struct Answers {
    pub(crate) pins: Pins,
    pub(crate) counters: Counters,
    pub(crate) version: String,
    /// In milliseconds since 1970-01-01T00:00:00Z.
    pub(crate) started_at: u64,
    /// For one request.
    pub(crate) time: Duration,
}

pub(crate) fn error(code: Code, message: impl Into<String>) -> proto::Error {
    proto::Error { code: code.into(), message: message.into() }
}

impl Answers {
    /// The response to the bytes of a request.
    pub(crate) async fn answer(&self, bytes: Bytes) -> proto::Response {
        count(&self.counters.requests);
        let (id, result) = match proto::Request::decode(bytes) {
            Ok(request) => (request.id, self.result(request).await),
            Err(problem) => (0, Err(error(Code::Invalid, format!("this is no request: {problem}")))),
        };
        let result = result.unwrap_or_else(|problem| {
            count(&self.counters.errors);
            response::Result::Error(problem)
        });
        proto::Response { id, result: Some(result) }
    }

    async fn result(&self, request: proto::Request) -> Result<response::Result, proto::Error> {
        match request.call {
            Some(request::Call::Decide(decide)) => {
                let deciding = tokio::time::timeout(self.time, self.decide(decide));
                deciding.await.map_err(|_| too_late())?.map(response::Result::Outcomes)
            }
            Some(request::Call::Pin(())) => Ok(response::Result::Pin(self.pins.take())),
            Some(request::Call::Status(())) => Ok(response::Result::Status(self.status().await?)),
            None => Err(error(Code::Invalid, "the request has no call that this server knows")),
        }
    }

    async fn decide(&self, decide: proto::Decide) -> Result<proto::Outcomes, proto::Error> {
        let questions = decide.questions.len();
        if questions == 0 {
            return Err(error(Code::Invalid, "the request has no question"));
        }
        if questions > MAX_BATCH {
            let why = format!("the batch has {questions} questions, and at most {MAX_BATCH} are allowed");
            return Err(error(Code::TooLarge, why));
        }
        let pin = self.pins.find(&decide.pin).await.map_err(|why| error(Code::Invalid, why))?;
        let until = Instant::now() + self.time;
        let mut outcomes = Vec::with_capacity(questions);
        let mut room = MAX_RESPONSE_BYTES;
        for question in decide.questions {
            if !outcomes.is_empty() {
                // A decision waits for nothing: others have their turn between two.
                tokio::task::yield_now().await;
            }
            let decided = match question.slot {
                _ if Instant::now() >= until => Err(too_late()),
                None => Err(error(Code::Invalid, "the question is of no slot that this server knows")),
                Some(question) => self.question(&pin, question).await,
            };
            let mut outcome = outcome_of(decided);
            match room.checked_sub(outcome.encoded_len()) {
                Some(left) => room = left,
                None => {
                    let why = format!("the answers have more than {MAX_RESPONSE_BYTES} bytes: ask in smaller batches");
                    outcome = outcome_of(Err(error(Code::TooLarge, why)));
                }
            }
            if matches!(outcome.outcome, Some(outcome::Outcome::Error(_))) {
                count(&self.counters.errors);
            }
            outcomes.push(outcome);
        }
        Ok(proto::Outcomes { outcomes })
    }

    async fn question(&self, pin: &PinnedPolicies, question: question::Slot) -> Result<proto::Decision, proto::Error> {
        use proto::answer;
        let (answer, decided) = match question {
            question::Slot::StateMapping(question) => {
                let (answers, decided) = self.ask::<StateMapping>(pin, question).await?;
                (answer::Slot::StateMapping(proto::StateMappingAnswers { answers }), decided)
            }
            question::Slot::Retry(question) => {
                let (answer, decided) = self.ask::<Retry>(pin, question).await?;
                (answer::Slot::Retry(answer), decided)
            }
            question::Slot::Rollback(question) => {
                let (answer, decided) = self.ask::<Rollback>(pin, question).await?;
                (answer::Slot::Rollback(answer), decided)
            }
            question::Slot::Release(question) => {
                let (answer, decided) = self.ask::<Release>(pin, question).await?;
                (answer::Slot::Release(answer), decided)
            }
            question::Slot::Provisioning(question) => {
                let (answer, decided) = self.ask::<Provisioning>(pin, question).await?;
                (answer::Slot::Provisioning(answer), decided)
            }
            question::Slot::Placement(question) => {
                let (answer, decided) = self.ask::<Placement>(pin, question).await?;
                (answer::Slot::Placement(answer), decided)
            }
        };
        Ok(proto::Decision { answer: Some(proto::Answer { slot: Some(answer) }), ..decided })
    }

    /// Puts a question to its slot. The decision is without its answer, which is of another type for each slot.
    async fn ask<S: Slot>(
        &self,
        pin: &PinnedPolicies,
        question: <S::Question as Wire>::Message,
    ) -> Result<(<S::Answer as Wire>::Message, proto::Decision), proto::Error>
    where
        S::Question: Wire,
        S::Answer: Wire,
    {
        let question = S::Question::read(question).map_err(|invalid| unreadable(S::NAME, &invalid))?;
        let decision: Decision<S> = pin.decide(question).await;
        count(&self.counters.decisions);
        if !decision.fallbacks.is_empty() {
            count(&self.counters.fallbacks);
        }
        let decided_by = match &decision.decided_by {
            DecidedBy::Policy(identity) => proto::decision::DecidedBy::Policy(self.pins.policy(identity)),
            DecidedBy::Keep => proto::decision::DecidedBy::Keep(()),
        };
        let fallback = |fallback: &windlass_policy::Fallback| proto::Fallback {
            policy: Some(self.pins.policy(&fallback.policy)),
            kind: word(&fallback.kind),
            reason: fallback.reason.clone(),
        };
        let decided = proto::Decision {
            id: decision.id.to_string(),
            answer: None,
            reason: decision.reason,
            decided_by: Some(decided_by),
            fallbacks: decision.fallbacks.iter().map(fallback).collect(),
        };
        Ok((decision.answer.write(), decided))
    }

    async fn status(&self) -> Result<proto::Status, proto::Error> {
        let host = self.pins.host().clone();
        // It waits while policies are loaded.
        let status = tokio::task::spawn_blocking(move || host.status()).await;
        let status = status.map_err(|_| error(Code::Internal, "the status cannot be told"))?;
        let link = |link: &windlass_policy::LinkStatus| proto::Link {
            policy: Some(self.pins.policy(&link.policy)),
            position: u32::try_from(link.position).unwrap_or(u32::MAX),
            shadow: link.mode == Mode::Shadow,
            source: link.source.clone(),
            loaded_at: link.loaded_at_ms,
            suspended: link.suspended,
            failures_in_a_row: link.failures_in_a_row,
            last_failure: link.last_failure.clone(),
            error: link.error.clone(),
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = proto::Counters {
            connections: count(&self.counters.connections),
            open_connections: count(&self.counters.open_connections),
            denied_connections: count(&self.counters.denied_connections),
            busy_connections: count(&self.counters.busy_connections),
            requests: count(&self.counters.requests),
            errors: count(&self.counters.errors),
            decisions: count(&self.counters.decisions),
            fallbacks: count(&self.counters.fallbacks),
            lost_records: status.lost_records,
        };
        Ok(proto::Status {
            version: self.version.clone(),
            contract: CONTRACT_VERSION.to_owned(),
            started_at: self.started_at,
            links: status.links.iter().map(link).collect(),
            counters: Some(counters),
        })
    }
}

fn outcome_of(decided: Result<proto::Decision, proto::Error>) -> proto::Outcome {
    let outcome = match decided {
        Ok(decision) => outcome::Outcome::Decision(decision),
        Err(error) => outcome::Outcome::Error(error),
    };
    proto::Outcome { outcome: Some(outcome) }
}

fn too_late() -> proto::Error {
    error(Code::Timeout, "the time for this request was over")
}

fn unreadable(slot: SlotName, invalid: &Invalid) -> proto::Error {
    error(Code::Invalid, format!("the question to the slot {slot}: {invalid}"))
}

/// The word of records for it.
fn word(kind: &windlass_policy::FailureKind) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}
