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

    /// Whether a host could ask this, as far as places of a question depend on each other: positions lead to what they are
    /// said to, what the contract has once is there once, and what comes together is there together.
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
    Rollback in rollback when is_possible_rollback;
    Release in release when |_| true;
    Provisioning in provisioning when |_| true;
    Placement in placement when |question| are_different(&question.places, |place| (&place.zone, &place.server_type))
);

/// What is attached is attached to a server of the list, and a server to nothing. A step has failed where something has.
fn is_possible_rollback(question: &rollback::Question) -> bool {
    let is_server = |kind| matches!(kind, ResourceKind::Server | ResourceKind::AppleSiliconServer);
    let is_attached_well = |resource: &rollback::Resource| match resource.attached_to {
        None => true,
        Some(_) if is_server(resource.kind) => false,
        Some(position) => question.resources.get(position as usize).is_some_and(|server| is_server(server.kind)),
    };
    question.failed_step.is_some() == question.cause.is_some() && question.resources.iter().all(is_attached_well)
}

/// Whether no two items of a list have the same key.
fn are_different<'q, T, K: PartialEq>(items: &'q [T], key: impl Fn(&'q T) -> K) -> bool {
    items.iter().enumerate().all(|(position, item)| items[..position].iter().all(|other| key(other) != key(item)))
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
        let tags = question.watched_tags.len();
        let are_watched =
            |bits: u64| u32::try_from(tags).ok().and_then(|tags| bits.checked_shr(tags)).unwrap_or(0) == 0;
        let fits = |server: &state_mapping::Server| {
            (server.server_type as usize) < question.server_types.len() && are_watched(server.watched_tags)
        };
        are_different(&question.server_types, |name| name) && question.servers.iter().all(fits)
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
