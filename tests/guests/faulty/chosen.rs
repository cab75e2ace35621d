// A part of each faulty copy's `lib.rs`: which of its faults is awake.

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
