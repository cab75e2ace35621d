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

    /// The list of the question whose items depend on each other.
    const ITEMS: &'static str = "";

    /// Items of that list that keep a host from asking this: others in their places could. None, too, where the rest of
    /// the question does.
    fn misfits(_question: &Self::Question) -> Vec<usize> {
        Vec::new()
    }
}

macro_rules! one_answer {
    ($($slot:ident in $module:ident when $possible:expr $(, but $items:literal: $misfits:expr)?);+) => { $(
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

            $(
                const ITEMS: &'static str = $items;

                fn misfits(question: &Self::Question) -> Vec<usize> {
                    let misfits: fn(&Self::Question) -> Vec<usize> = $misfits;
                    misfits(question)
                }
            )?
        }
    )+ };
}
one_answer!(
    Retry in retry when |_| true;
    Rollback in rollback when is_possible_rollback, but "resources": misfits_of_rollback;
    Release in release when |_| true;
    Provisioning in provisioning when |_| true;
    Placement in placement when |question| are_different(&question.places, |place| (&place.zone, &place.server_type)),
        but "places": |question| repeated(&question.places, |place| (&place.zone, &place.server_type)).collect()
);

/// What is attached is attached to a server of the list, and a server to nothing. A step has failed where something has.
fn is_possible_rollback(question: &rollback::Question) -> bool {
    question.failed_step.is_some() == question.cause.is_some()
        && question.resources.iter().all(|resource| is_attached_well(question, resource))
}

fn is_server(kind: ResourceKind) -> bool {
    matches!(kind, ResourceKind::Server | ResourceKind::AppleSiliconServer)
}

fn is_attached_well(question: &rollback::Question, resource: &rollback::Resource) -> bool {
    match resource.attached_to {
        None => true,
        Some(_) if is_server(resource.kind) => false,
        Some(position) => question.resources.get(position as usize).is_some_and(|server| is_server(server.kind)),
    }
}

/// What is not attached well, and to what: it may be that which should be another.
fn misfits_of_rollback(question: &rollback::Question) -> Vec<usize> {
    if question.failed_step.is_some() != question.cause.is_some() {
        return Vec::new();
    }
    let resources = question.resources.iter().enumerate();
    let misfits = resources.filter(|(_, resource)| !is_attached_well(question, resource));
    misfits
        .flat_map(|(position, resource)| {
            let to = resource.attached_to.map(|to| to as usize).filter(|_| !is_server(resource.kind));
            std::iter::once(position).chain(to)
        })
        .collect()
}

/// The items of a list that have the key of one before.
fn repeated<'q, T, K: PartialEq>(items: &'q [T], key: impl Fn(&'q T) -> K) -> impl Iterator<Item = usize> {
    (0..items.len()).filter(move |position| items[..*position].iter().any(|other| key(other) == key(&items[*position])))
}

/// Whether no two items of a list have the same key.
fn are_different<'q, T, K: PartialEq>(items: &'q [T], key: impl Fn(&'q T) -> K) -> bool {
    repeated(items, key).next().is_none()
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
        are_different(&question.server_types, |name| name)
            && question.servers.iter().all(|server| is_of_listing(question, server))
    }

    const ITEMS: &'static str = "servers";

    fn misfits(question: &Self::Question) -> Vec<usize> {
        match are_different(&question.server_types, |name| name) {
            true => {
                let servers = question.servers.iter().enumerate();
                servers.filter(|(_, server)| !is_of_listing(question, server)).map(|(position, _)| position).collect()
            }
            false => Vec::new(),
        }
    }
}

/// Whether a server's type and tags are some of the listing.
fn is_of_listing(question: &state_mapping::Question, server: &state_mapping::Server) -> bool {
    let tags = u32::try_from(question.watched_tags.len()).ok();
    (server.server_type as usize) < question.server_types.len()
        && tags.and_then(|tags| server.watched_tags.checked_shr(tags)).unwrap_or(0) == 0
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
