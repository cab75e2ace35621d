//! The names of the slots, and what of a slot a configuration says.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// A decision point, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SlotName {
    /// [`StateMapping`](crate::slots::StateMapping).
    StateMapping,
    /// [`Retry`](crate::slots::Retry).
    Retry,
    /// [`Rollback`](crate::slots::Rollback).
    Rollback,
    /// [`Release`](crate::slots::Release).
    Release,
    /// [`Provisioning`](crate::slots::Provisioning).
    Provisioning,
    /// [`Placement`](crate::slots::Placement).
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
    pub fn as_str(self) -> &'static str {
        self.into()
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

impl std::str::FromStr for SlotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        SlotName::ALL.into_iter().find(|slot| slot.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = SlotName::ALL.iter().map(|slot| slot.as_str()).collect();
            format!("there is no slot `{text}`; the slots are {}", names.join(", "))
        })
    }
}

/// What decides when a policy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OnFailure {
    /// The failed policy counts as having deferred: the next link decides, at last the built-in default.
    Default,
    /// The native last resort of the slot, [`Slot::keep`](crate::slots::Slot::keep), decides at once.
    Keep,
}
