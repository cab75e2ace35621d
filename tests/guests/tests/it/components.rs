use std::collections::BTreeSet;

use windlass_test_guests as guests;
use windlass_test_guests::Guest;
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldId, WorldItem};

/// The size above which somebody should ask what was linked in: each is compiled twice when it is first loaded. Reading
/// the settings, with its error messages, is most of it.
const MAX_BYTES: usize = 128 * 1024;

/// The same for what evaluates rules: a parser, a check and an interpreter. It is compiled only where rules are used.
const MAX_RULES_BYTES: usize = 704 * 1024;

/// A decoded component's world.
struct Decoded(Resolve, WorldId);

impl Decoded {
    fn new(guest: Guest) -> Self {
        match wit_component::decode(guest.bytes) {
            Ok(DecodedWasm::Component(resolve, world)) => Self(resolve, world),
            other => panic!("{} is no component: {:?}", guest.name, other.err()),
        }
    }

    fn interfaces<'a>(&'a self, items: impl Iterator<Item = &'a WorldItem>) -> Vec<(String, usize)> {
        items
            .map(|item| match item {
                WorldItem::Interface { id, .. } => {
                    (self.0.id_of(*id).unwrap_or_default(), self.0.interfaces[*id].functions.len())
                }
                _ => panic!("a component of ours has no loose functions or types"),
            })
            .collect()
    }

    /// The interfaces of which it imports functions. Those that only name types ask nothing of the host.
    fn imports(&self) -> Vec<String> {
        let items = self.0.worlds[self.1].imports.values();
        self.interfaces(items).into_iter().filter(|(_, functions)| *functions > 0).map(|(name, _)| name).collect()
    }

    fn all_imports(&self) -> Vec<String> {
        self.interfaces(self.0.worlds[self.1].imports.values()).into_iter().map(|(name, _)| name).collect()
    }

    fn exports(&self) -> BTreeSet<String> {
        self.interfaces(self.0.worlds[self.1].exports.values()).into_iter().map(|(name, _)| name).collect()
    }
}

fn policy(slots: &[&str]) -> BTreeSet<String> {
    slots.iter().chain(&["policy"]).map(|slot| format!("windlass:policy/{slot}@0.1.0")).collect()
}

/// Initial pages of the core memories in a component.
fn pages(guest: Guest) -> Vec<u64> {
    wasmparser::Parser::new(0)
        .parse_all(guest.bytes)
        .filter_map(|payload| match payload {
            Ok(wasmparser::Payload::MemorySection(memories)) => {
                Some(memories.into_iter().flatten().map(|memory| memory.initial).collect::<Vec<_>>())
            }
            _ => None,
        })
        .flatten()
        .collect()
}

const DEFAULTS: [(Guest, &str); 6] = [
    (guests::STATE_MAPPING, "state-mapping"),
    (guests::RETRY, "retry"),
    (guests::ROLLBACK, "rollback"),
    (guests::RELEASE, "release"),
    (guests::PROVISIONING, "provisioning"),
    (guests::PLACEMENT, "placement"),
];

const SLOTS: [&str; 6] = ["state-mapping", "retry", "rollback", "release", "provisioning", "placement"];

/// Where a panic is heard.
const LOG: &str = "windlass:policy/log@0.1.0";

#[test]
fn a_default_policy_imports_nothing_so_that_an_instance_is_one_module() {
    for (guest, slot) in DEFAULTS {
        let decoded = Decoded::new(guest);
        assert_eq!(decoded.all_imports(), ["windlass:policy/types@0.1.0"], "{}", guest.name);
        assert_eq!(decoded.exports(), policy(&[slot]), "{}", guest.name);
    }
}

#[test]
fn an_example_imports_what_its_source_uses_and_nothing_else() {
    assert_eq!(Decoded::new(guests::GRACE_FOR_STOPPED).imports(), [LOG]);
    assert_eq!(Decoded::new(guests::KEEP_VOLUMES_FOR_INSPECTION).imports(), [LOG]);
    assert_eq!(Decoded::new(guests::STOCK_AWARE_RETRY).imports(), [LOG, "windlass:scaleway/look-ups@0.1.0"]);
}

#[test]
fn what_evaluates_rules_decides_every_slot_tells_its_rules_and_imports_nothing_but_the_log() {
    let rules = Decoded::new(guests::RULES);
    assert_eq!(rules.imports(), [LOG]);
    assert_eq!(rules.exports(), policy(&[&SLOTS[..], &["rules"]].concat()));
    println!("rules: {} bytes, {:?} pages", guests::RULES.bytes.len(), pages(guests::RULES));
    assert!(guests::RULES.bytes.len() < MAX_RULES_BYTES, "{} bytes", guests::RULES.bytes.len());
    // Its stack is larger than that of other policies (guest/rules/build.rs).
    assert!(pages(guests::RULES)[0] > 1);
}

#[test]
fn one_component_can_export_every_slot() {
    assert_eq!(Decoded::new(guests::HOSTILE).exports(), policy(&SLOTS));
}

#[test]
fn no_policy_imports_wasi() {
    for guest in guests::ALL.iter().filter(|guest| !["core-module", "imports-wasi"].contains(&guest.name)) {
        assert!(!Decoded::new(*guest).all_imports().iter().any(|name| name.starts_with("wasi:")), "{}", guest.name);
    }
    assert_eq!(Decoded::new(guests::IMPORTS_WASI).imports(), ["wasi:cli/environment@0.2.0"]);
}

#[test]
fn a_fresh_instance_needs_one_page() {
    for (guest, _) in DEFAULTS {
        assert_eq!(pages(guest), [1], "{}", guest.name);
    }
}

#[test]
fn a_policy_stays_small() {
    for (guest, _) in DEFAULTS {
        println!("{}: {} bytes", guest.name, guest.bytes.len());
        assert!(guest.bytes.len() < MAX_BYTES, "{}: {} bytes", guest.name, guest.bytes.len());
    }
}

#[test]
fn no_policy_tells_where_it_was_built() {
    let home = std::env::var("HOME").unwrap_or_default();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap_or_default();
    for guest in guests::ALL {
        for place in [home.as_str(), &root.to_string_lossy()].into_iter().filter(|place| place.len() > 1) {
            let found = guest.bytes.windows(place.len()).any(|window| window == place.as_bytes());
            assert!(!found, "{} contains {place}", guest.name);
        }
    }
}

#[test]
fn what_pretends_to_be_a_component_is_a_core_module() {
    assert!(wasmparser::Parser::is_core_wasm(guests::CORE_MODULE.bytes));
}
