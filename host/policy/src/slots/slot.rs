//! What a slot is: its types, and how a host handles its questions and answers.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::topic::Topic;
use crate::slot_name::{OnFailure, SlotName};

/// The version of the contract, `windlass:policy@...`, that this host speaks: that of the types in here.
pub const CONTRACT_VERSION: &str = "0.1.0";
/// The function of each slot's interface.
pub(crate) const DECIDE: &str = "decide";

/// The instant at which the example questions are put: 2026-01-01T00:00:00Z.
pub(super) const EXAMPLE_NOW_MS: u64 = 1_767_225_600_000;

/// What of an answer is left to the next policy of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// Everything is decided.
    Nothing,
    /// The whole question.
    Whole,
    /// These items of a batch, in ascending order.
    Items(Vec<usize>),
}

impl Deferred {
    pub(crate) fn whole(deferred: bool) -> Deferred {
        if deferred { Deferred::Whole } else { Deferred::Nothing }
    }
}

/// A verdict and why.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Answer<V> {
    /// The judgement.
    pub verdict: V,
    /// Why, in words for people. Quoted, never parsed.
    pub reason: Option<String>,
}

/// What an answer says for people.
pub trait Reasons {
    /// The policy's reason.
    fn reason(&self) -> Option<&str>;

    /// Visits every reason in the answer.
    fn for_each_reason(&mut self, visit: impl FnMut(&mut Option<String>));
}

impl<V> Reasons for Answer<V> {
    fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn for_each_reason(&mut self, visit: impl FnMut(&mut Option<String>)) {
        std::iter::once(&mut self.reason).for_each(visit);
    }
}

/// A batch has a reason for each item and none of its own.
impl<V> Reasons for Vec<Answer<V>> {
    fn reason(&self) -> Option<&str> {
        None
    }

    fn for_each_reason(&mut self, visit: impl FnMut(&mut Option<String>)) {
        self.iter_mut().map(|answer| &mut answer.reason).for_each(visit);
    }
}

/// One decision point. Implemented by the six unit types of this module and by nothing else.
pub trait Slot: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Its name.
    const NAME: SlotName;
    /// What is asked.
    type Question: ComponentType
        + Lower
        + Serialize
        + DeserializeOwned
        + Clone
        + PartialEq
        + fmt::Debug
        + Send
        + Sync
        + 'static;
    /// What is answered.
    type Answer: ComponentType
        + Lift
        + Reasons
        + Serialize
        + DeserializeOwned
        + Clone
        + PartialEq
        + fmt::Debug
        + Send
        + Sync
        + 'static;

    /// What of the answer is left to the next policy.
    fn deferred(answer: &Self::Answer) -> Deferred;

    /// How many items the question has: more than one only in a batch.
    fn items(question: &Self::Question) -> usize {
        let _ = question;
        1
    }

    /// What the question is about.
    fn topic(question: &Self::Question) -> Topic<'_>;

    /// The question about these items only. Called for batches, with positions that [`Slot::deferred`] named.
    fn part(question: &Self::Question, items: &[usize]) -> Self::Question {
        let _ = items;
        question.clone()
    }

    /// Puts the answers about these items in their places.
    fn merge(answer: &mut Self::Answer, items: &[usize], later: Self::Answer) {
        let _ = items;
        *answer = later;
    }

    /// The answers about these items only. Called for batches, with positions of the question's items.
    fn select(answer: &Self::Answer, items: &[usize]) -> Self::Answer {
        let _ = items;
        answer.clone()
    }

    /// How many machines of the question run: what the [brake](crate::Brake) protects. None, where no answer of the
    /// slot could remove any.
    fn running(question: &Self::Question) -> usize {
        let _ = question;
        0
    }

    /// How many of those that run the answer removes.
    fn removed(question: &Self::Question, answer: &Self::Answer) -> usize {
        let _ = (question, answer);
        0
    }

    /// How many machines the answer removes, also of those that do not run: what a trace and a log say.
    fn lost(question: &Self::Question, answer: &Self::Answer) -> usize {
        Self::removed(question, answer)
    }

    /// Whether the answer fits the question in itself: lengths, positions, order. An error counts as a failure of the
    /// policy and says what is wrong. Deferred items are never an error.
    fn check(question: &Self::Question, answer: &Self::Answer) -> Result<(), String>;

    /// Whether what the question is about is shared with others, so that a tenant's failing policy does not have it kept.
    fn is_shared(_question: &Self::Question) -> bool {
        false
    }

    /// Whether a tenant's policy may answer so: what is shared with other tenants is not its to decide. An error
    /// says why: the next policy decides.
    fn check_tenant_answer(question: &Self::Question, answer: &Self::Answer) -> Result<(), String> {
        let _ = (question, answer);
        Ok(())
    }

    /// The safe native last resort: passes [`Slot::check`], defers nothing, destroys nothing.
    fn keep(question: &Self::Question) -> Self::Answer;

    /// What decides when a policy fails and its configuration doesn't say.
    fn on_failure(question: &Self::Question) -> OnFailure {
        let _ = question;
        OnFailure::Default
    }

    /// An ordinary question: for the dry run of a new policy, for trying a policy by hand, for documentation. Its
    /// random word, or its instant where there is none, is even: guests that misbehave in odd decisions pass the dry
    /// run.
    fn example() -> Self::Question;
}

/// A seventh slot would need a place in the contract, in [`SlotName`] and in every chain, not only an implementation.
pub(crate) mod sealed {
    pub trait Sealed {}
}
