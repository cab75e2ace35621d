//! The default policy of the slot `release`, with the fault of `../faults.rs` that its setting `fault` names.

#![allow(clippy::collapsible_if, reason = "a fault is put into a line as it stands")]

use std::sync::OnceLock;

static FAULT: OnceLock<String> = OnceLock::new();

/// Whether this fault was chosen.
fn fault(name: &str) -> bool {
    FAULT.get().is_some_and(|chosen| chosen == name)
}

/// Settings are read once, so the first choice is the only one.
fn choose_fault(name: &str) {
    FAULT.get_or_init(|| name.to_owned());
}

include!(concat!(env!("OUT_DIR"), "/lib.rs"));
