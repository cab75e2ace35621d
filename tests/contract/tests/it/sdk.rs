//! The SDK's bindings are checked in, so that whoever builds a policy compiles no WIT parser. Here they are made again.

use windlass_test_contract::{hold, repository};
use wit_bindgen_core::WorldGenerator as _;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_rust::{Opts, WithOption};

const TYPES: &str = "windlass:policy/types@0.1.0";
/// The types that the SDK reads by their names (guest/sdk/src/names.rs): they are only written by what is derived.
const READ_BY_NAME: [&str; 2] = ["FailureClass", "ResourceKind"];

/// The module of what wit-bindgen would write into each file anew.
const RUNTIME: &str = "runtime";
const RUNTIME_BEGINS: &str = "#[rustfmt::skip]\nmod _rt {\n";

/// What begins the `Debug` of a type.
const DEBUG: &str = "impl ::core::fmt::Debug for ";

/// The line of `imports` at which what follows the contract's types begins.
const LOG: &str = "        pub mod log {\n";

/// One file of bindings.
struct Bindings {
    /// The module in the SDK, and the file's name.
    module: &'static str,
    /// The folders of the contract that the world needs.
    packages: &'static [&'static str],
    /// What stands in the world.
    world: String,
    options: Opts,
}

fn options() -> Opts {
    Opts { format: true, ..Opts::default() }
}

/// Everything that can be imported: from it the linker keeps what a policy uses.
fn imports() -> Bindings {
    Bindings {
        module: "imports",
        packages: &["policy", "scaleway"],
        world: format!(
            "import {TYPES};
             import windlass:policy/log@0.1.0;
             import windlass:scaleway/look-ups@0.1.0;
             import windlass:scaleway/request@0.1.0;"
        ),
        options: Opts {
            generate_all: true,
            generate_unused_types: true,
            additional_derive_attributes: vec!["PartialEq".into()],
            ..options()
        },
    }
}

/// What a policy exports beside its slots: `describe` and `configure`, and what tells about rules.
fn beside_the_slots(module: &'static str) -> Bindings {
    Bindings {
        module,
        packages: &["policy"],
        world: format!("export windlass:policy/{module}@0.1.0;"),
        options: Opts {
            generate_all: true,
            pub_export_macro: true,
            default_bindings_module: Some(format!("windlass_guest_sdk::bindings::{module}")),
            ..options()
        },
    }
}

/// One slot, with the types of the imports: a component exports just the slots that it names.
fn slot(module: &'static str) -> Bindings {
    let interface = format!("windlass:policy/{}@0.1.0", module.replace('_', "-"));
    let types = WithOption::Path("crate::bindings::imports::windlass::policy::types".into());
    Bindings {
        module,
        packages: &["policy"],
        world: format!("export {interface};"),
        options: Opts {
            with: vec![(TYPES.into(), types), (interface, WithOption::Generate)],
            additional_derive_attributes: vec!["PartialEq".into()],
            pub_export_macro: true,
            default_bindings_module: Some(format!("windlass_guest_sdk::bindings::{module}")),
            ..options()
        },
    }
}

/// What all of the above call, standing once: a world of everything needs each of its functions.
fn runtime(slots: [&str; 6]) -> Bindings {
    let mut world = imports().world;
    world.extend(["policy", "rules"].into_iter().chain(slots).map(|export| {
        let export = export.replace('_', "-");
        format!("export windlass:policy/{export}@0.1.0;")
    }));
    Bindings { module: RUNTIME, packages: &["policy", "scaleway"], world, options: imports().options }
}

fn generate(bindings: Bindings) -> String {
    let mut resolve = Resolve::default();
    for package in bindings.packages {
        resolve.push_path(repository().join("wit").join(package)).unwrap_or_else(|error| panic!("{error:#}"));
    }
    let name = bindings.module.replace('_', "-");
    let text = format!("package windlass:guest-sdk; world {name} {{ {} }}", bindings.world);
    let package = resolve.push_str("world.wit", &text).unwrap_or_else(|error| panic!("{error:#}"));
    let world = resolve.select_world(&[package], None).unwrap_or_else(|error| panic!("{error:#}"));
    let mut files = wit_bindgen_core::Files::default();
    let mut generator = bindings.options.build();
    generator.generate(&mut resolve, world, &mut files).unwrap_or_else(|error| panic!("{error:#}"));
    let (_, source) = files.iter().next().expect("a world makes one file");
    let source = String::from_utf8(source.to_vec()).expect("source is text");
    let (before, runtime, after) = around_the_runtime(&source);
    let source = format!("{before}use super::{RUNTIME} as _rt;\n{after}");
    match bindings.module {
        RUNTIME => runtime.lines().flat_map(|line| [line.strip_prefix("    ").unwrap_or(line), "\n"]).collect(),
        // What a policy says about itself is put in words by the host alone.
        "policy" | "rules" => source,
        // Of the imports only the contract's types, which stand before the log.
        "imports" => match source.split_once(LOG) {
            Some((types, rest)) => format!("{}{LOG}{rest}", with_json(types)),
            None => source,
        },
        _ => with_json(&source),
    }
}

fn around_the_runtime(source: &str) -> (&str, &str, &str) {
    let (before, rest) = source.split_once(RUNTIME_BEGINS).expect("each file has its functions");
    let (runtime, after) = rest.split_once("\n}\n").expect("a module ends");
    (before, runtime, after)
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Gives every type the JSON that the host has for it (host/policy/src/bindings): the contract's own words, and no unknown
/// field. wit-bindgen can add derives, but none with an attribute of its own. `Debug` it writes out: that is derived,
/// too.
fn with_json(source: &str) -> String {
    let mut json = String::with_capacity(source.len());
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with(DEBUG) {
            let end = format!("{}}}", indentation(line));
            while lines.next().is_some_and(|line| line != end) {}
            continue;
        }
        let Some(derives) = line.trim_start().strip_prefix("#[derive(").and_then(|rest| rest.strip_suffix(")]")) else {
            json.extend([line, "\n"]);
            continue;
        };
        let indentation = indentation(line);
        let item = lines.peek().map_or("", |item| item.trim());
        let read = match READ_BY_NAME.iter().any(|name| item == format!("pub enum {name} {{")) {
            true => "",
            false => ", ::serde::Deserialize",
        };
        let refused = if item.starts_with("pub struct ") { ", deny_unknown_fields" } else { "" };
        json.extend([indentation, "#[derive(Debug, ", derives, ", ::serde::Serialize", read, ")]\n"]);
        json.extend([indentation, "#[serde(rename_all = \"kebab-case\"", refused, ")]\n"]);
    }
    json
}

#[test]
fn the_bindings_of_the_sdk_are_what_wit_bindgen_makes_of_the_contract() {
    let slots = ["state_mapping", "retry", "rollback", "release", "provisioning", "placement"];
    let beside = ["policy", "rules"].map(beside_the_slots);
    for bindings in [imports(), runtime(slots)].into_iter().chain(beside).chain(slots.map(slot)) {
        let file = format!("guest/sdk/src/bindings/{}.rs", bindings.module);
        hold(&file, &generate(bindings));
    }
}
