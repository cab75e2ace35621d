//! What a request gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use tokio::time::{Instant, timeout_at};
use windlass_policy::slots::{
    CONTRACT_VERSION, Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping,
};
use windlass_policy::{DecidedBy, Decision, Mode, PinnedPolicies, kind_word};

use crate::frame::framed;
use crate::peers::{NoRoom, Peer, Peers};
use crate::pins::Pins;
use crate::proto::{self, error::Code, outcome, question, response};
use crate::size::{self, QuestionError};
use crate::turns::Turns;
use crate::wire::{Invalid, Wire};

/// The most questions of a batch.
pub(crate) const MAX_BATCH: usize = 256;
/// The part of a response that is kept for each of its outcomes, in bytes: for its place in the response, and for the
/// refusal that takes the place of an answer for which there is no room.
const RESERVED_BYTES: usize = 256;

/// What happened since the server began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
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

/// A request whose questions are bytes still: each is read when it is its turn, and only if it is not too large.
#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(oneof = "Call", tags = "2, 3, 4")]
    call: Option<Call>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Call {
    #[prost(bytes = "bytes", tag = "2")]
    Decide(Bytes),
    #[prost(message, tag = "3")]
    Pin(()),
    #[prost(message, tag = "4")]
    Status(()),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Decide {
    #[prost(bytes = "bytes", tag = "1")]
    pin: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    questions: Vec<Bytes>,
}

/// The field of [`Decide`] with its questions.
const QUESTIONS: u32 = 2;

/// A response with outcomes, which are bytes already: what was decided takes no more memory than it will as sent.
#[derive(Clone, PartialEq, prost::Message)]
struct Decided {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, optional, tag = "3")]
    outcomes: Option<Outcomes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Outcomes {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    outcomes: Vec<Bytes>,
}

/// What a call came to.
enum Answered {
    Outcomes(Vec<Bytes>),
    Other(response::Result),
}

/// What answers.
pub(crate) struct Answers {
    pub(crate) pins: Pins,
    pub(crate) counters: Counters,
    pub(crate) peers: Arc<Peers>,
    pub(crate) turns: Turns,
    pub(crate) version: String,
    /// In milliseconds since 1970-01-01T00:00:00Z.
    pub(crate) started_at: u64,
    /// For one request.
    pub(crate) time: Duration,
    /// The most bytes of a response.
    pub(crate) response_bytes: usize,
}

pub(crate) fn error(code: Code, message: impl Into<String>) -> proto::Error {
    proto::Error { code: code.into(), message: message.into() }
}

impl Answers {
    /// The response to the bytes of a request, as it is sent.
    pub(crate) async fn answer(self: &Arc<Self>, bytes: Bytes, peer: &Peer) -> BytesMut {
        count(&self.counters.requests);
        let held = bytes.len();
        let (id, result) = match Request::decode(bytes) {
            Ok(request) => (request.id, self.result(request.call, held, peer).await),
            Err(problem) => (0, Err(error(Code::Invalid, format!("this is not a valid request: {problem}")))),
        };
        match result {
            Ok(Answered::Outcomes(outcomes)) => framed(&Decided { id, outcomes: Some(Outcomes { outcomes }) }),
            Ok(Answered::Other(result)) => framed(&proto::Response { id, result: Some(result) }),
            Err(problem) => {
                count(&self.counters.errors);
                framed(&proto::Response { id, result: Some(response::Result::Error(problem)) })
            }
        }
    }

    async fn result(self: &Arc<Self>, call: Option<Call>, held: usize, peer: &Peer) -> Result<Answered, proto::Error> {
        match call {
            Some(Call::Decide(decide)) => self.decide(decide, held, peer).await.map(Answered::Outcomes),
            Some(Call::Pin(())) => Ok(Answered::Other(response::Result::Pin(self.pins.take()))),
            Some(Call::Status(())) => Ok(Answered::Other(response::Result::Status(self.status()))),
            None => Err(error(Code::Invalid, "the request has no call that this server knows")),
        }
    }

    /// `held`: the bytes of the request.
    async fn decide(self: &Arc<Self>, decide: Bytes, held: usize, peer: &Peer) -> Result<Vec<Bytes>, proto::Error> {
        let no_request = |problem| error(Code::Invalid, format!("this is not a valid request: {problem}"));
        let until = Instant::now() + self.time;
        let questions = size::count_fields(&decide, QUESTIONS).map_err(no_request)?;
        if questions == 0 {
            return Err(error(Code::Invalid, "the request has no question"));
        }
        if questions > MAX_BATCH {
            let why = format!("the batch has {questions} questions, and at most {MAX_BATCH} are allowed");
            return Err(error(Code::TooLarge, why));
        }
        let decide = Decide::decode(decide).map_err(no_request)?;
        let pin = timeout_at(until, self.pins.find(&decide.pin)).await.map_err(|_| too_late())?;
        let pin = pin.map_err(|why| error(Code::Invalid, why))?;
        let takes_turns = size::is_large_batch(&decide.questions);
        let mut outcomes = Vec::with_capacity(questions);
        let mut bytes = questions * RESERVED_BYTES;
        for question in decide.questions {
            if !outcomes.is_empty() {
                // A decision waits for nothing: others have their turn between two.
                tokio::task::yield_now().await;
            }
            // One that is late costs the others nothing. Each is asked in time, since one that waits for nothing is
            // answered also after its time.
            let decided = match Instant::now() < until {
                true => timeout_at(until, self.question(&pin, question, takes_turns, peer)).await,
                false => Ok(Err(too_late())),
            };
            let mut outcome = outcome_of(decided.unwrap_or_else(|_| Err(too_late())));
            let grown = bytes + outcome.encoded_len();
            let refusal = if grown > self.response_bytes {
                let most = self.response_bytes;
                let why = format!("the answers have more than {most} bytes: ask in smaller batches");
                Some(error(Code::TooLarge, why))
            } else {
                bytes = grown;
                let no_room = "there is no room for further answers now: ask in smaller batches";
                peer.holds(held + bytes).err().map(|NoRoom| error(Code::Busy, no_room))
            };
            if let Some(refusal) = refusal {
                outcome = outcome_of(Err(refusal));
            }
            if matches!(outcome.outcome, Some(outcome::Outcome::Error(_))) {
                count(&self.counters.errors);
            }
            outcomes.push(outcome.encode_to_vec().into());
        }
        Ok(outcomes)
    }

    /// Decides the question of these bytes; a large one, or one that `takes_turns`, when it is its turn.
    async fn question(
        self: &Arc<Self>,
        pin: &PinnedPolicies,
        question: Bytes,
        takes_turns: bool,
        peer: &Peer,
    ) -> Result<proto::Decision, proto::Error> {
        let is_large = size::is_large(&question).map_err(|problem| match problem {
            QuestionError::TooLong(why) => error(Code::TooLarge, why),
            QuestionError::Malformed(problem) => unreadable_message(&problem),
        })?;
        if !is_large && !takes_turns {
            return self.decided(pin, question).await;
        }
        let busy = "too many questions wait for their turn: ask again later, about fewer items, or in smaller batches";
        peer.queues().map_err(|NoRoom| error(Code::Busy, busy))?;
        let (answers, pin) = (Arc::clone(self), pin.clone());
        let deciding = async move {
            let decided = answers.decided(&pin, question).await;
            if is_large {
                // Before the next one: many large records would leave others no room in the log's queue.
                answers.pins.host().flush_records();
            }
            decided
        };
        let decided = self.turns.take(peer.user(), || peer.is_next(), deciding).await;
        decided.unwrap_or_else(|| Err(error(Code::Internal, "the question cannot be decided")))
    }

    async fn decided(&self, pin: &PinnedPolicies, question: Bytes) -> Result<proto::Decision, proto::Error> {
        let question = proto::Question::decode(question).map_err(|problem| unreadable_message(&problem))?;
        match question.slot {
            None => Err(error(Code::Invalid, "the question is of no slot that this server knows")),
            Some(question) => self.slot(pin, question).await,
        }
    }

    async fn slot(&self, pin: &PinnedPolicies, question: question::Slot) -> Result<proto::Decision, proto::Error> {
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
            kind: kind_word(&fallback.kind),
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

    fn status(&self) -> proto::Status {
        let status = self.pins.host().status();
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
            open_connections: u64::try_from(self.peers.open()).unwrap_or(u64::MAX),
            denied_connections: count(&self.counters.denied_connections),
            busy_connections: count(&self.counters.busy_connections),
            requests: count(&self.counters.requests),
            errors: count(&self.counters.errors),
            decisions: count(&self.counters.decisions),
            fallbacks: count(&self.counters.fallbacks),
            lost_records: status.lost_records,
        };
        proto::Status {
            version: self.version.clone(),
            contract: CONTRACT_VERSION.to_owned(),
            started_at: self.started_at,
            links: status.links.iter().map(link).collect(),
            counters: Some(counters),
        }
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

fn unreadable_message(problem: &prost::DecodeError) -> proto::Error {
    error(Code::Invalid, format!("this is not a valid question: {problem}"))
}

fn unreadable(slot: SlotName, invalid: &Invalid) -> proto::Error {
    error(Code::Invalid, format!("the question to the slot {slot}: {invalid}"))
}

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use windlass_policy::{Host, HostOptions};

    use super::*;
    use crate::peers::Share;

    const USER: u32 = 1;

    #[tokio::test(start_paused = true)]
    async fn a_question_whose_time_is_over_leaves_the_batch_its_other_answers() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(HostOptions::new(Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap()));
        let answers = Arc::new(Answers {
            pins: Pins::new(host.unwrap(), 1),
            counters: Counters::default(),
            peers: Peers::new(Share { connections: 4, bytes: 1 << 20 }),
            turns: Turns::new(1, [USER]),
            version: String::new(),
            started_at: 0,
            time: Duration::from_secs(10),
            response_bytes: 1 << 20,
        });
        // The only turn is taken.
        let (_hold, held) = std::sync::mpsc::channel::<()>();
        let taken = Arc::clone(&answers);
        let taken = tokio::spawn(async move { taken.turns.take(USER, || {}, async move { held.recv() }).await });
        let large = proto::StateMappingQuestion { servers: vec![Default::default(); 2_000], ..Default::default() };
        let large = proto::Question { slot: Some(question::Slot::StateMapping(large)) };
        let none = proto::Question::default();
        let decide = proto::Decide { questions: vec![none.clone(), large, none], ..Default::default() };
        let (peer, _) = answers.peers.admit(USER, None, || false);
        let outcomes = answers.decide(decide.encode_to_vec().into(), 0, &peer).await.unwrap();
        let codes = outcomes.into_iter().map(|outcome| match proto::Outcome::decode(outcome).unwrap().outcome {
            Some(outcome::Outcome::Error(error)) => error.code(),
            other => panic!("{other:?}"),
        });
        assert_eq!(codes.collect::<Vec<_>>(), [Code::Invalid, Code::Timeout, Code::Timeout]);
        taken.abort();
    }
}
