//! The default policies and the component that evaluates rules, embedded in this host. They are checked in, so that
//! who builds it needs no WebAssembly target: `just policies` makes them again from `guest/`, and a test of
//! `tests/guests` holds them to it.

use crate::slots::SlotName;

/// The component of a slot's built-in default: to write it into a file that is replaced later, or to look into it.
pub fn component(slot: SlotName) -> Option<&'static [u8]> {
    match slot {
        SlotName::StateMapping => Some(include_bytes!("../components/state-mapping.wasm")),
        SlotName::Retry => Some(include_bytes!("../components/retry.wasm")),
        SlotName::Rollback => Some(include_bytes!("../components/rollback.wasm")),
        SlotName::Release => Some(include_bytes!("../components/release.wasm")),
        SlotName::Provisioning => Some(include_bytes!("../components/provisioning.wasm")),
        SlotName::Placement => Some(include_bytes!("../components/placement.wasm")),
    }
}

/// Whether a component is one of these, whatever its settings.
pub(crate) fn is_own(bytes: &[u8]) -> bool {
    bytes == rules() || SlotName::ALL.into_iter().filter_map(component).any(|own| own == bytes)
}

/// The component of every file of rules. It is compiled when one is loaded, and not before.
pub(crate) fn rules() -> &'static [u8] {
    include_bytes!("../components/rules.wasm")
}
