//! The values that questions are made of. An enum, a `bool` and an `option` have theirs by their type; for what has too
//! many, a number, a text, a list, the tables here say which are asked about. A field of the contract that no table
//! names is an error, so a new one can't be forgotten.

use windlass_policy::slots::SlotName;

/// The values of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// The one of the slot's example, also where that is absent.
    Example,
    /// These numbers.
    Numbers(Vec<u64>),
    /// These texts.
    Texts(Vec<String>),
    /// A list of up to so many items, each with every value of its own.
    Items(usize),
}

/// The instant of the slots' examples, and an hour and a day around it.
const NOW: u64 = 1_767_225_600_000;
const HOUR: u64 = 3_600_000;
const MAX: u64 = u64::MAX;
const MAX_U32: u64 = u32::MAX as u64;

enum Row {
    /// As the example has it.
    Same,
    Numbers(&'static [u64]),
    Texts(&'static [&'static str]),
    Items(usize),
}
use Row::{Items, Numbers, Same, Texts};

/// The random words that make a policy's jitter least, most, and something between.
const RANDOM: Row = Numbers(&[0, 0x5eed0, MAX]);

/// By the path from the question, in the contract's names; `[]` is an item of a list. The paths of a failure begin
/// where it stands.
const RETRY: &[(&str, Row)] = &[
    ("now", Same),
    ("random", RANDOM),
    ("operation", Texts(&["create-server", "release-machine"])),
    ("step", Same),
    ("attempt", Numbers(&[1, 4, 5, 8, 20, MAX_U32])),
    ("elapsed", Numbers(&[0, 179_500, 180_001, 900_001, MAX])),
    ("time-left", Numbers(&[0, 600_000])),
    ("failure.status", Numbers(&[404, 500])),
    ("zone", Same),
    ("group", Same),
    ("server-type", Same),
];

const RELEASE: &[(&str, Row)] = &[
    ("now", Same),
    ("random", Same),
    ("machine.id", Same),
    ("machine.name", Same),
    ("machine.zone", Same),
    ("machine.machine-type", Same),
    ("machine.status", Same),
    ("machine.operating-system", Same),
    ("machine.pool-prefix", Texts(&["pool-", ""])),
    ("machine.created-at", Same),
    ("machine.deletable-at", Numbers(&[NOW - HOUR, NOW + 23 * HOUR])),
    ("machine.bootstrap-failures", Numbers(&[0, 3, 8])),
    ("refusal.failure.status", Same),
    ("refusal.failure.ambiguous", Same),
    ("refusal.not-before", Numbers(&[NOW - HOUR, NOW + 23 * HOUR])),
    ("attempt", Numbers(&[1, 3])),
];

const ROLLBACK: &[(&str, Row)] = &[
    ("now", Same),
    ("random", Same),
    ("operation", Texts(&["create-server", "cleanup-server"])),
    ("group", Same),
    ("cause.status", Same),
    ("cause.ambiguous", Same),
    ("failed-step", Same),
    ("resources", Items(2)),
    ("resources[].id", Same),
    ("resources[].name", Same),
    ("resources[].state", Same),
    ("resources[].attached-to", Numbers(&[0, 1])),
];

const PROVISIONING: &[(&str, Row)] = &[
    ("now", Same),
    ("random", Same),
    ("cluster", Same),
    ("cause.status", Same),
    ("cause.ambiguous", Same),
    ("groups", Same),
    ("nodes", Items(2)),
    ("nodes[].name", Same),
    ("nodes[].group", Same),
];

const PLACEMENT: &[(&str, Row)] = &[
    ("now", Same),
    ("random", Same),
    ("operation", Same),
    ("group", Same),
    ("wanted", Numbers(&[0, 1, 5, MAX_U32])),
    ("places", Items(2)),
    ("places[].zone", Texts(&["fr-par-1", "fr-par-2"])),
    ("places[].server-type", Same),
    ("places[].servers", Numbers(&[0, 1, 7])),
    ("places[].creating", Same),
    ("places[].failures", Numbers(&[0, 1])),
    ("places[].last-failure.class", Same),
    ("places[].last-failure.status", Same),
    ("places[].last-failure.ambiguous", Same),
    ("places[].failed-at", Same),
    ("places[].backoff-until", Numbers(&[NOW, NOW + 1])),
    ("places[].price-per-hour.currency", Same),
    ("places[].price-per-hour.micros", Numbers(&[8_976, 19_800])),
];

const STATE_MAPPING: &[(&str, Row)] = &[
    ("now", Same),
    ("zone", Same),
    ("group", Texts(&["example"])),
    ("server-types", Same),
    ("watched-tags", Same),
    ("servers", Items(1)),
    ("servers[].age", Numbers(&[0, 900_000, 900_001, MAX])),
    ("servers[].state-age", Numbers(&[0, 900_000, 900_001, MAX])),
    ("servers[].server-type", Numbers(&[0, 1])),
    ("servers[].watched-tags", Numbers(&[0, 1])),
];

/// A failure, wherever it stands, where its slot's table doesn't say otherwise.
const FAILURE: &[(&str, Row)] =
    &[("message", Same), ("method", Same), ("path", Same), ("error-type", Same), ("resource", Same)];

/// Where failures stand.
const FAILURES: [&str; 4] = ["failure", "refusal.failure", "cause", "places[].last-failure"];

/// What a table says of a place. None: nothing, so its type has to.
pub(super) fn of(slot: SlotName, path: &str) -> Option<Values> {
    let in_slot = table(slot).iter().find(|(known, _)| *known == path);
    let in_failure = || {
        let field = FAILURES.iter().find_map(|place| path.strip_prefix(place)?.strip_prefix('.'))?;
        FAILURE.iter().find(|(known, _)| *known == field)
    };
    in_slot.or_else(in_failure).map(|(_, row)| match row {
        Same => Values::Example,
        Numbers(numbers) => Values::Numbers(numbers.to_vec()),
        Texts(texts) => Values::Texts(texts.iter().map(|text| (*text).to_owned()).collect()),
        Items(most) => Values::Items(*most),
    })
}

fn table(slot: SlotName) -> &'static [(&'static str, Row)] {
    match slot {
        SlotName::StateMapping => STATE_MAPPING,
        SlotName::Retry => RETRY,
        SlotName::Rollback => ROLLBACK,
        SlotName::Release => RELEASE,
        SlotName::Provisioning => PROVISIONING,
        SlotName::Placement => PLACEMENT,
    }
}

/// Every path that the slot's table names.
#[cfg(test)]
pub(super) fn named(slot: SlotName) -> impl Iterator<Item = &'static str> {
    table(slot).iter().map(|(path, _)| *path)
}
