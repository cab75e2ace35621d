//! The default policies and the component that evaluates rules, built with this host and embedded in it.

use crate::slots::SlotName;

/// The component of a slot's default.
pub(crate) fn component(slot: SlotName) -> Option<&'static [u8]> {
    match slot {
        SlotName::StateMapping => Some(include_bytes!(concat!(env!("OUT_DIR"), "/state-mapping.wasm"))),
        SlotName::Retry => Some(include_bytes!(concat!(env!("OUT_DIR"), "/retry.wasm"))),
        SlotName::Rollback => Some(include_bytes!(concat!(env!("OUT_DIR"), "/rollback.wasm"))),
        SlotName::Release => Some(include_bytes!(concat!(env!("OUT_DIR"), "/release.wasm"))),
        SlotName::Provisioning => Some(include_bytes!(concat!(env!("OUT_DIR"), "/provisioning.wasm"))),
    }
}

/// The component of every file of rules. It is compiled when one is loaded, and not before.
pub(crate) fn rules() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/rules.wasm"))
}
