//! The values that questions are made of. What the tables here do not name is as the slot's example has it, so that a
//! new field of the contract is asked about as the example has it until a table varies it: in a list, each item has every
//! value that some item of the example has. Questions that are drawn vary everything.

use std::str::FromStr;

use serde_json::Value as Json;
use windlass_policy::slots::SlotName;

/// The values of one place. What is optional is there, unless these say otherwise.
///
/// They are read from what a proof prints of its bounds ([`Bound::values`](super::Bound)), from `example` and `all`,
/// and from texts without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// The one of the slot's example, also where that is absent. In a list, those of all the example's items.
    Example,
    /// Each value of an enum or a boolean; what is optional is absent, and there.
    All,
    /// What is optional is absent.
    Absent,
    /// What is optional is there: each value of an enum or a boolean, a number, text or list as the example has it.
    Present,
    /// What is optional is absent, and there with these values.
    OrAbsent(Box<Values>),
    /// These numbers.
    Numbers(Vec<u64>),
    /// These texts.
    Texts(Vec<String>),
    /// In the first item of a list the first text, in the second the second.
    EachItsOwn(Vec<String>),
    /// A list of up to so many items, each with every value of its own.
    Items(usize),
    /// This list.
    List(Vec<Json>),
}

/// What is written before texts of which the first item of a list has the first, the second the second.
pub(super) const EACH_ITS_OWN: &str = "each its own: ";

impl FromStr for Values {
    type Err = String;

    fn from_str(text: &str) -> Result<Values, String> {
        let text = text.trim();
        let first = text.split(',').next().map(str::trim);
        match text {
            "" => return Err("it has no values".into()),
            "example" => return Ok(Values::Example),
            "all" => return Ok(Values::All),
            "absent" => return Ok(Values::Absent),
            "present" => return Ok(Values::Present),
            _ if first == Some("absent") => {
                let rest = text.split_once(',').map_or("", |(_, rest)| rest);
                return Ok(match rest.parse()? {
                    Values::Present => Values::All,
                    values => Values::OrAbsent(Box::new(values)),
                });
            }
            _ if text.starts_with('[') => {
                let list = serde_json::from_str(text).map_err(|error| format!("it is no JSON list: {error}"))?;
                return Ok(Values::List(list));
            }
            _ => {}
        }
        if let Some(texts) = text.strip_prefix(EACH_ITS_OWN.trim_end()) {
            return Ok(Values::EachItsOwn(split_values(texts)?.into_iter().map(|(word, _)| word).collect()));
        }
        let items =
            text.strip_prefix("up to ").and_then(|rest| rest.strip_suffix('s').unwrap_or(rest).strip_suffix(" item"));
        if let Some(most) = items.and_then(|most| most.parse().ok()) {
            return Ok(Values::Items(most));
        }
        let words = split_values(text)?;
        let numbers: Option<Vec<u64>> =
            words.iter().map(|(word, is_quoted)| word.parse().ok().filter(|_| !is_quoted)).collect();
        Ok(match numbers {
            Some(numbers) => Values::Numbers(numbers),
            None => Values::Texts(words.into_iter().map(|(word, _)| word).collect()),
        })
    }
}

/// What stands between the commas, and whether it is a JSON text.
fn split_values(mut text: &str) -> Result<Vec<(String, bool)>, String> {
    let mut words = Vec::new();
    loop {
        text = text.trim_start();
        let mut quoted = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let (word, rest) = match text.starts_with('"') {
            true => {
                let word = quoted.next().unwrap_or(Ok(String::new())).map_err(|error| format!("{text}: {error}"))?;
                ((word, true), text[quoted.byte_offset()..].trim_start())
            }
            false => {
                let (word, rest) = text.split_at(text.find(',').unwrap_or(text.len()));
                ((word.trim_end().to_owned(), false), rest)
            }
        };
        words.push(word);
        match rest.strip_prefix(',') {
            Some(rest) => text = rest,
            None if rest.is_empty() => return Ok(words),
            None => return Err(format!("a comma is missing before {rest}")),
        }
    }
}

/// The instant of the slots' examples, and an hour and a day around it.
const NOW: u64 = 1_767_225_600_000;
const HOUR: u64 = 3_600_000;
const MAX: u64 = u64::MAX;
const MAX_U32: u64 = u32::MAX as u64;

pub(super) enum Row {
    /// Each value of an enum or a `bool`; an `option` absent and present.
    All,
    Numbers(&'static [u64]),
    Texts(&'static [&'static str]),
    Items(usize),
    /// Each position in this list of the question.
    Positions(&'static str),
    /// What tells an item from the others: each has its own.
    Identity,
    /// Only what the first item of the example has.
    First,
}
use Row::{All, First, Identity, Items, Numbers, Positions, Texts};

/// By the path from the question, in the contract's names; `[]` is an item of a list.
const RETRY: &[(&str, Row)] = &[
    // The random words that make a policy's jitter least, most, and something between.
    ("random", Numbers(&[0, 0x5eed0, MAX])),
    ("operation", Texts(&["create-server", "release-machine"])),
    ("undoing", All),
    ("attempt", Numbers(&[1, 4, 5, 8, 20, MAX_U32])),
    ("elapsed", Numbers(&[0, 179_500, 180_001, 900_001, MAX])),
    ("time-left", Numbers(&[0, 600_000])),
    ("failure.class", All),
    ("failure.status", Numbers(&[404, 500])),
    ("failure.ambiguous", All),
];

const RELEASE: &[(&str, Row)] = &[
    ("trigger", All),
    ("machine.kind", All),
    ("machine.pool-prefix", Texts(&["pool-", ""])),
    ("machine.adopted", All),
    ("machine.deletable-at", Numbers(&[NOW - HOUR, NOW + 23 * HOUR])),
    ("machine.deletion-scheduled", All),
    ("machine.bootstrap-failures", Numbers(&[0, 3, 8])),
    ("machine.rebooted", All),
    ("requested", All),
    ("refusal", All),
    ("refusal.action", All),
    ("refusal.failure.class", All),
    ("refusal.not-before", Numbers(&[NOW - HOUR, NOW + 23 * HOUR])),
    ("attempt", Numbers(&[1, 3])),
];

const ROLLBACK: &[(&str, Row)] = &[
    ("operation", Texts(&["create-server", "cleanup-server"])),
    ("cause", All),
    ("cause.class", All),
    ("failed-step", Texts(&["power-on"])),
    ("resources", Items(2)),
    ("resources[].kind", All),
    ("resources[].id", Identity),
    ("resources[].name", First),
    ("resources[].state", First),
    ("resources[].attached-to", Positions("resources")),
    ("resources[].owned", All),
    ("resources[].evidence", All),
];

const PROVISIONING: &[(&str, Row)] = &[
    ("operation", All),
    ("stage", All),
    ("cause.class", All),
    ("nodes", Items(2)),
    ("nodes[].name", Identity),
    ("nodes[].role", All),
    ("nodes[].exists", All),
    ("nodes[].decommissioned", All),
    ("nodes[].configured", All),
];

const PLACEMENT: &[(&str, Row)] = &[
    ("wanted", Numbers(&[0, 1, 5, MAX_U32])),
    ("places", Items(2)),
    ("places[].zone", Texts(&["fr-par-1", "fr-par-2"])),
    ("places[].servers", Numbers(&[0, 1, 7])),
    ("places[].creating", First),
    ("places[].failures", Numbers(&[0, 1])),
    ("places[].last-failure", All),
    ("places[].failed-at", First),
    ("places[].backoff-until", Numbers(&[NOW, NOW + 1])),
    ("places[].price-per-hour", All),
    ("places[].price-per-hour.micros", Numbers(&[8_976, 19_800])),
];

const STATE_MAPPING: &[(&str, Row)] = &[
    ("servers", Items(1)),
    ("servers[].state", All),
    ("servers[].detail", All),
    ("servers[].age", Numbers(&[0, 900_000, 900_001, MAX])),
    ("servers[].state-age", Numbers(&[0, 900_000, 900_001, MAX])),
    ("servers[].has-run", All),
    ("servers[].in-flight", All),
    ("servers[].suspended", All),
    ("servers[].server-type", Positions("server-types")),
    ("servers[].watched-tags", Numbers(&[0, 1])),
];

/// What the slot's table says of a place. None: nothing, so it is as in the example.
pub(super) fn of(slot: SlotName, path: &str) -> Option<&'static Row> {
    table(slot).iter().find(|(known, _)| *known == path).map(|(_, row)| row)
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
