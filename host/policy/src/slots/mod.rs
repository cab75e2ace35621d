//! The slots: for each decision point the question and answer as Rust types, equal to the WIT in `wit/policy`, and how
//! a host handles them. Every slot is laid out alike; who has read [`retry`] can read all.
//!
//! The types serialise as the contract spells them (kebab-case; a variant without payload is a string, one with payload
//! an object with one key), so a decision record, a command line's JSON and the WIT use the same words.

pub mod placement;
pub mod provisioning;
pub mod release;
pub mod retry;
pub mod rollback;
pub mod state_mapping;
pub mod types;

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use crate::contract::Adapter;

pub use placement::Placement;
pub use provisioning::Provisioning;
pub use release::Release;
pub use retry::Retry;
pub use rollback::Rollback;
pub use state_mapping::StateMapping;

/// The version of the contract, `windlass:policy@...`, that this host speaks: that of the types in here.
pub const CONTRACT_VERSION: &str = "0.1.0";

/// All versions that policies can have, the newest first: the one above, and those that each slot has an adapter for.
pub(crate) const CONTRACT_VERSIONS: &[&str] = &[CONTRACT_VERSION];

/// The instant at which the example questions are put: 2026-01-01T00:00:00Z.
const EXAMPLE_NOW_MS: u64 = 1_767_225_600_000;

/// A decision point, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotName {
    /// [`StateMapping`].
    StateMapping,
    /// [`Retry`].
    Retry,
    /// [`Rollback`].
    Rollback,
    /// [`Release`].
    Release,
    /// [`Provisioning`].
    Provisioning,
    /// [`Placement`].
    Placement,
}

impl SlotName {
    /// All slots, in the order of the contract.
    pub const ALL: [SlotName; 6] = [
        SlotName::StateMapping,
        SlotName::Retry,
        SlotName::Rollback,
        SlotName::Release,
        SlotName::Provisioning,
        SlotName::Placement,
    ];

    /// The name as configuration, records and the contract write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            SlotName::StateMapping => "state-mapping",
            SlotName::Retry => "retry",
            SlotName::Rollback => "rollback",
            SlotName::Release => "release",
            SlotName::Provisioning => "provisioning",
            SlotName::Placement => "placement",
        }
    }

    /// The interface a policy exports for this slot, without its version: `windlass:policy/retry`.
    pub const fn interface(self) -> &'static str {
        match self {
            SlotName::StateMapping => "windlass:policy/state-mapping",
            SlotName::Retry => "windlass:policy/retry",
            SlotName::Rollback => "windlass:policy/rollback",
            SlotName::Release => "windlass:policy/release",
            SlotName::Provisioning => "windlass:policy/provisioning",
            SlotName::Placement => "windlass:policy/placement",
        }
    }

    /// Its place in [`SlotName::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for SlotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        SlotName::ALL.into_iter().find(|slot| slot.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = SlotName::ALL.iter().map(|slot| slot.as_str()).collect();
            format!("there is no slot `{text}`; the slots are {}", names.join(", "))
        })
    }
}

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

/// What decides when a policy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The failed policy counts as having deferred: the next link decides, at last the built-in default.
    Default,
    /// The native last resort of the slot, [`Slot::keep`], decides at once.
    Keep,
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
        + Serialize
        + DeserializeOwned
        + Clone
        + PartialEq
        + fmt::Debug
        + Send
        + Sync
        + 'static;

    /// The version of the contract that these types are of.
    const VERSION: &'static str = CONTRACT_VERSION;

    /// The slot's function.
    const FUNCTION: &'static str = "decide";

    /// How policies of older versions are asked, the newest of them first.
    #[doc(hidden)]
    fn older() -> &'static [Adapter<Self>] {
        &[]
    }

    /// What of the answer is left to the next policy.
    fn deferred(answer: &Self::Answer) -> Deferred;

    /// How many items the question has: more than one only in a batch.
    fn items(question: &Self::Question) -> usize {
        let _ = question;
        1
    }

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

    /// Whether the answer fits the question in itself: lengths, positions, order. An error counts as a failure of the
    /// policy and says what is wrong. Deferred items are never an error.
    fn check(question: &Self::Question, answer: &Self::Answer) -> Result<(), String>;

    /// The safe native last resort: passes [`Slot::check`], defers nothing, destroys nothing.
    fn keep(question: &Self::Question) -> Self::Answer;

    /// What decides when a policy fails and its configuration doesn't say.
    fn on_failure(question: &Self::Question) -> OnFailure {
        let _ = question;
        OnFailure::Default
    }

    /// The policy's reason, for people.
    fn reason(answer: &Self::Answer) -> Option<&str>;

    /// Visits every reason in the answer.
    fn for_each_reason(answer: &mut Self::Answer, visit: impl FnMut(&mut Option<String>));

    /// An ordinary question: for the dry run of a new policy, for trying a policy by hand, for documentation. Its
    /// random word, or its instant where there is none, is even: guests that misbehave in odd decisions pass the dry
    /// run.
    fn example() -> Self::Question;
}

/// A seventh slot would need a place in the contract, in [`SlotName`] and in every chain, not only an implementation.
pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for super::StateMapping {}
    impl Sealed for super::Retry {}
    impl Sealed for super::Rollback {}
    impl Sealed for super::Release {}
    impl Sealed for super::Provisioning {}
    impl Sealed for super::Placement {}
}

/// Runs `$body` with `$slot` standing for the slot type that `$name` names.
#[macro_export]
macro_rules! with_slot {
    ($name:expr, $slot:ident => $body:expr) => {
        match $name {
            $crate::slots::SlotName::StateMapping => {
                type $slot = $crate::slots::StateMapping;
                $body
            }
            $crate::slots::SlotName::Retry => {
                type $slot = $crate::slots::Retry;
                $body
            }
            $crate::slots::SlotName::Rollback => {
                type $slot = $crate::slots::Rollback;
                $body
            }
            $crate::slots::SlotName::Release => {
                type $slot = $crate::slots::Release;
                $body
            }
            $crate::slots::SlotName::Provisioning => {
                type $slot = $crate::slots::Provisioning;
                $body
            }
            $crate::slots::SlotName::Placement => {
                type $slot = $crate::slots::Placement;
                $body
            }
        }
    };
}
pub use with_slot;
