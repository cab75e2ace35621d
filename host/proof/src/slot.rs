//! A slot as laws look at it: one answer at a time, also where the question is a batch.

use serde::Serialize;
use windlass_contract::SlotShapes;
use windlass_policy::slots::types::ResourceKind;
use windlass_policy::slots::{
    Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping, placement, provisioning, release,
    retry, rollback, state_mapping,
};

/// What is asked and answered.
pub(crate) fn shapes(slot: SlotName) -> SlotShapes {
    SlotShapes::of(slot.as_str()).expect("a test holds the slots equal to those of the contract")
}

/// A slot whose answers laws can speak about. Implemented for all of them.
pub trait ProvedSlot: Slot {
    /// What one answer is about, beside the question: a server of the listing in `state-mapping`, nothing elsewhere.
    type Item: Serialize;
    /// One answer.
    type One: Serialize + Clone + PartialEq;
    /// Its judgement, without the reason.
    type Verdict: Serialize + PartialEq;

    /// The items of the question with the answer to each, in their order. Empty for an empty batch.
    fn each<'a>(
        question: &'a Self::Question,
        answer: &'a Self::Answer,
    ) -> impl Iterator<Item = (Option<&'a Self::Item>, &'a Self::One)>;

    /// The judgement of one answer.
    fn verdict(one: &Self::One) -> &Self::Verdict;

    /// Whether one answer leaves the decision to the next policy.
    fn defers(one: &Self::One) -> bool;

    /// Whether a host could ask this: positions in a question lead to what they are said to.
    fn is_possible(question: &Self::Question) -> bool;
}

macro_rules! one_answer {
    ($($slot:ident in $module:ident when $possible:expr);+) => { $(
        impl ProvedSlot for $slot {
            type Item = ();
            type One = $module::Answer;
            type Verdict = $module::Verdict;

            fn each<'a>(
                _question: &'a Self::Question,
                answer: &'a Self::Answer,
            ) -> impl Iterator<Item = (Option<&'a ()>, &'a Self::One)> {
                std::iter::once((None, answer))
            }

            fn verdict(one: &Self::One) -> &Self::Verdict {
                &one.verdict
            }

            fn defers(one: &Self::One) -> bool {
                one.verdict == $module::Verdict::Defer
            }

            fn is_possible(question: &Self::Question) -> bool {
                let possible: fn(&Self::Question) -> bool = $possible;
                possible(question)
            }
        }
    )+ };
}
one_answer!(
    Retry in retry when |_| true;
    Rollback in rollback when attachments_are_to_servers;
    Release in release when |_| true;
    Provisioning in provisioning when |_| true;
    Placement in placement when |_| true
);

/// What is attached is attached to a server of the list, and a server to nothing.
fn attachments_are_to_servers(question: &rollback::Question) -> bool {
    let is_server = |kind| matches!(kind, ResourceKind::Server | ResourceKind::AppleSiliconServer);
    question.resources.iter().all(|resource| match resource.attached_to {
        None => true,
        Some(_) if is_server(resource.kind) => false,
        Some(position) => question.resources.get(position as usize).is_some_and(|server| is_server(server.kind)),
    })
}

impl ProvedSlot for StateMapping {
    type Item = state_mapping::Server;
    type One = state_mapping::Answer;
    type Verdict = state_mapping::Verdict;

    fn each<'a>(
        question: &'a Self::Question,
        answer: &'a Self::Answer,
    ) -> impl Iterator<Item = (Option<&'a Self::Item>, &'a Self::One)> {
        question.servers.iter().map(Some).zip(answer)
    }

    fn verdict(one: &Self::One) -> &Self::Verdict {
        &one.verdict
    }

    fn defers(one: &Self::One) -> bool {
        one.verdict == state_mapping::Verdict::Defer
    }

    fn is_possible(question: &Self::Question) -> bool {
        question.servers.iter().all(|server| (server.server_type as usize) < question.server_types.len())
    }
}

/// Whether two answers judge the same, whatever their reasons.
pub(crate) fn same_verdicts<S: ProvedSlot>(question: &S::Question, one: &S::Answer, other: &S::Answer) -> bool {
    let (mut ones, mut others) = (S::each(question, one), S::each(question, other));
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return true,
            (Some((_, one)), Some((_, other))) if S::verdict(one) == S::verdict(other) => {}
            _ => return false,
        }
    }
}
