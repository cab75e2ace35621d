//! Where a group is: its zones, and what is named by ids that are valid in one of them only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use windlass_scaleway::{Region, Zone};

use super::environment::variable_or_file;
use super::reader::{Reader, kind};

/// The most places, which are zones times server types: as many as a question to the placement policy holds.
pub(super) const MAX_PLACES: usize = 64;
/// The keys that say where, in the order in which they are read; they mean the same.
const KEYS: [&str; 2] = ["zone", "location"];
const VARIABLE: &str = "SCW_DEFAULT_ZONE";

/// What differs between the zones of a group. What is not in here is the same in all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZonalIds {
    pub security_groups: BTreeMap<Zone, String>,
    pub placement_groups: BTreeMap<Zone, String>,
    pub private_networks: BTreeMap<Region, Vec<String>>,
}

/// The configured zones in their order; empty where none is. `None`: what is configured cannot be read.
///
/// The variable wins over one zone, as with every key. A list of several is chosen on purpose, and what the variable
/// names is a default for tools that know one zone: it changes nothing then.
pub(super) fn zones(reader: &mut Reader<'_>) -> Option<Vec<Zone>> {
    let before = reader.problems.len();
    let mut place_of_one = KEYS[0];
    let is_list = KEYS.iter().any(|key| reader.object.get(*key).is_some_and(Value::is_array));
    let [mut texts, other] = KEYS.map(|key| reader.texts(key));
    if texts.is_empty() {
        texts = other;
    } else if !other.is_empty() && other != texts {
        let words = format!("differs from {}, which means the same; keep one of them", KEYS[0]);
        reader.wrong(KEYS[1], words);
    }
    match variable_or_file(reader.process_environment, VARIABLE) {
        Ok(Some(zone)) if texts.len() < 2 => {
            // What it replaces is read as well: the mistake shows where the variable is not set.
            texts.iter().for_each(|text| drop(reader.parsed::<Zone>(KEYS[0], text)));
            for text in texts.iter().filter(|text| **text != zone) {
                tracing::warn!("zone: {VARIABLE} is {zone}, and is used instead of {text} of the configuration");
            }
            texts = vec![zone];
            place_of_one = VARIABLE;
        }
        Ok(_) => {}
        Err(words) => reader.wrong(KEYS[0], words),
    }
    let mut zones: Vec<Zone> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let place = if is_list && texts.len() > 1 { format!("zone[{index}]") } else { place_of_one.to_owned() };
        let Some(zone) = reader.parsed::<Zone>(&place, text) else { continue };
        if zones.contains(&zone) {
            reader.wrong(place, format!("{zone} is listed twice"));
        } else {
            zones.push(zone);
        }
    }
    (reader.problems.len() == before).then_some(zones)
}

/// An id that is valid in one zone only: one for all zones, which Init finds to exist in each, or a table with one for
/// each zone.
pub(super) fn zonal_id(
    reader: &mut Reader<'_>,
    key: &'static str,
    zones: &[Zone],
) -> (Option<String>, BTreeMap<Zone, String>) {
    let Some(table) = table(reader, key) else {
        let id = reader.text(key).map(|text| reader.local_id(key, &text, zones));
        return (id, BTreeMap::new());
    };
    let mut ids = BTreeMap::new();
    for (name, value) in table {
        let place = format!("{key}.{name}");
        let Some(zone) = named(reader, &place, &name, zones.iter()) else { continue };
        match value {
            Value::String(text) => {
                let id = reader.local_id(&place, &text, [&zone]);
                ids.insert(zone, id);
            }
            other => reader.wrong(place, format!("expected a text, found {}", kind(&other))),
        }
    }
    for zone in zones.iter().filter(|zone| !ids.contains_key(zone)) {
        reader.wrong(key, format!("there is no entry for {zone}: the table needs one for each zone"));
    }
    (None, ids)
}

/// The private networks: a list for all zones, or a table with a list for each region.
pub(super) fn private_networks(
    reader: &mut Reader<'_>,
    zones: &[Zone],
) -> (Vec<String>, BTreeMap<Region, Vec<String>>) {
    let key = "private_networks";
    let Some(table) = table(reader, key) else {
        let texts = reader.texts(key).into_iter().enumerate();
        let ids = texts.map(|(index, text)| reader.local_id(&format!("{key}[{index}]"), &text, zones)).collect();
        return (ids, BTreeMap::new());
    };
    let regions: BTreeSet<Region> = zones.iter().map(Zone::region).collect();
    let mut networks = BTreeMap::new();
    for (name, value) in table {
        let place = format!("{key}.{name}");
        let Some(region) = named(reader, &place, &name, regions.iter()) else { continue };
        let ids: Vec<Value> = match value {
            Value::Array(ids) => ids,
            one => vec![one],
        };
        let mut texts = Vec::new();
        for id in ids {
            match id {
                Value::String(text) => {
                    let of_region = zones.iter().filter(|zone| zone.region() == region);
                    texts.push(reader.local_id(&place, &text, of_region));
                }
                other => reader.wrong(&place, format!("expected a text or a list of texts, found {}", kind(&other))),
            }
        }
        networks.insert(region, texts);
    }
    for region in regions.iter().filter(|region| !networks.contains_key(region)) {
        reader.wrong(key, format!("there is no entry for {region}: the table needs a list for each region"));
    }
    (Vec::new(), networks)
}

/// The table under a key, where that is what stands there.
fn table(reader: &mut Reader<'_>, key: &str) -> Option<serde_json::Map<String, Value>> {
    if !reader.object.get(key).is_some_and(Value::is_object) {
        return None;
    }
    match reader.take(key) {
        Some(Value::Object(table)) => Some(table),
        _ => None,
    }
}

/// The one with this name. If none could be read, nothing is reported here: that error was reported already.
fn named<'a, T: Clone + std::fmt::Display + 'a>(
    reader: &mut Reader<'_>,
    place: &str,
    name: &str,
    mut all: impl ExactSizeIterator<Item = &'a T> + Clone,
) -> Option<T> {
    let none = all.len() == 0;
    let listed: Vec<String> = all.clone().map(ToString::to_string).collect();
    let found = all.find(|one| one.to_string() == name).cloned();
    if found.is_none() && !none {
        reader.wrong(place, format!("the group does not use it; it uses {}", listed.join(", ")));
    }
    found
}
