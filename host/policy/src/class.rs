//! The two classes of policies, and how a component shows to which it belongs.
//!
//! A policy that was compiled to WebAssembly is small: a module of some kilobytes that starts with a page of memory. A
//! script brings its interpreter along: megabytes of code, and a memory that was filled when it was built. Each class
//! has engines, a pool and limits of its own, so that what scripts need costs the small ones nothing.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};
use wasmparser::{Instance, Parser, Payload};

/// The most that a component of the class [`Small`](Class::Small) is made of.
pub(crate) const SMALL: Structure =
    Structure { core_instances: 16, memories: 2, tables: 4, table_elements: 20_000, memory_bytes: 4 << 20 };

/// Which engine runs a policy, and which limits it gets where none are configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Class {
    /// Compiled to WebAssembly, as Rust is; and rules.
    #[default]
    Small,
    /// An interpreter with its script: JavaScript and Python.
    Script,
}

impl Class {
    /// Every class.
    pub const ALL: [Class; 2] = [Class::Small, Class::Script];

    /// The class of a component, which its structure shows: whatever goes beyond the small class is a script. Bytes
    /// that are no component are small.
    #[must_use]
    pub fn of(component: &[u8]) -> Class {
        if Structure::of(component).is_within(&SMALL) { Class::Small } else { Class::Script }
    }

    /// Its name, as it is written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What a component is made of at the start, its nested modules taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Structure {
    pub(crate) core_instances: u64,
    pub(crate) memories: u64,
    pub(crate) tables: u64,
    pub(crate) table_elements: u64,
    pub(crate) memory_bytes: u64,
}

impl Structure {
    /// Reads as far as the bytes can be read: what breaks WebAssembly's rules is refused elsewhere.
    fn of(component: &[u8]) -> Structure {
        let mut found = Structure::default();
        for payload in Parser::new(0).parse_all(component) {
            match payload {
                Ok(Payload::InstanceSection(section)) => {
                    let instantiated = |instance: &Instance<'_>| matches!(instance, Instance::Instantiate { .. });
                    found.core_instances += section.into_iter().flatten().filter(instantiated).count() as u64;
                }
                Ok(Payload::MemorySection(section)) => {
                    for memory in section.into_iter().flatten() {
                        found.memories += 1;
                        found.memory_bytes = found.memory_bytes.saturating_add(memory.initial.saturating_mul(1 << 16));
                    }
                }
                Ok(Payload::TableSection(section)) => {
                    for table in section.into_iter().flatten() {
                        found.tables += 1;
                        found.table_elements = found.table_elements.saturating_add(table.ty.initial);
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        found
    }

    fn is_within(&self, most: &Structure) -> bool {
        self.core_instances <= most.core_instances
            && self.memories <= most.memories
            && self.tables <= most.tables
            && self.table_elements <= most.table_elements
            && self.memory_bytes <= most.memory_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component with these core modules, of which the first has so many instances.
    fn component(modules: &[&str], instances: u8) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        let mut section = |id: u8, contents: &[u8]| {
            bytes.push(id);
            // The length, as LEB128 of three bytes.
            let length = contents.len();
            bytes.extend([length & 0x7f | 0x80, length >> 7 & 0x7f | 0x80, length >> 14].map(|part| part as u8));
            bytes.extend_from_slice(contents);
        };
        for module in modules {
            section(1, &wat::parse_str(format!("(module {module})")).unwrap());
        }
        // Each instantiates the module 0 with no arguments.
        let instantiated: Vec<u8> = std::iter::repeat_n([0, 0, 0], instances.into()).flatten().collect();
        section(2, &[&[instances][..], &instantiated].concat());
        bytes
    }

    #[test]
    fn whatever_goes_beyond_the_small_class_is_a_script() {
        let five_tables = "(table 1 funcref)".repeat(5);
        for (modules, instances, class) in [
            (&[""][..], 1, Class::Small),
            (&[""], 16, Class::Small),
            (&[""], 17, Class::Script),
            (&["(memory 64)"], 1, Class::Small),
            (&["(memory 65)"], 1, Class::Script),
            (&["(memory 1)", "(memory 1)"], 1, Class::Small),
            (&["(memory 1)", "(memory 1)", "(memory 1)"], 1, Class::Script),
            (&["(table 20000 funcref)"], 1, Class::Small),
            (&["(table 20001 funcref)"], 1, Class::Script),
            (&[&five_tables], 1, Class::Script),
        ] {
            let component = component(modules, instances);
            assert!(crate::Examination::of(&component).is_ok(), "{modules:?}");
            assert_eq!(Class::of(&component), class, "{modules:?} {instances}");
        }
    }

    #[test]
    fn what_is_no_component_is_small_and_no_panic() {
        for bytes in [&b""[..], b"text", b"\0asm\x0d\0\x01\0\x07\xff"] {
            assert_eq!(Class::of(bytes), Class::Small);
        }
    }

    #[test]
    fn every_built_in_default_is_small() {
        for slot in crate::slots::SlotName::ALL {
            assert_eq!(Class::of(crate::built_in::component(slot).unwrap()), Class::Small, "{slot}");
        }
        assert_eq!(Class::of(crate::built_in::rules()), Class::Small);
    }
}
