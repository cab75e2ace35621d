//! Guests that no compiler would make: a retry policy written by hand in WebAssembly text, with one thing wrong.
//!
//! The text below answers every question with `defer`. A guest replaces parts of it.

use std::error::Error;
use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::Resolve;

/// One thing wrong.
pub(crate) struct Raw {
    /// The name of the file, without its ending.
    pub(crate) name: &'static str,
    /// For the documentation of its constant.
    pub(crate) text: &'static str,
    /// What the world has beside `include windlass:policy/retry-policy`; see [`world`].
    world: World,
    /// More imports of the core module.
    imports: &'static str,
    /// Definitions after the memory.
    definitions: &'static str,
    /// Runs first in `describe`, `configure` and `decide`.
    describe: &'static str,
    configure: &'static str,
    decide: &'static str,
    /// Name, version, summary and schema that `describe` gives.
    description: [&'static str; 4],
    /// Whether it stays a core module.
    core: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum World {
    /// A retry policy.
    Retry,
    /// `describe` and `configure`, and no slot.
    NoSlot,
    /// The slot, and neither `describe` nor `configure`.
    NoPolicy,
    /// It imports a WASI interface.
    Wasi,
    /// It imports an interface that nobody has heard of.
    Stranger,
    /// It imports `windlass:scaleway/look-ups` with other types than it has.
    OtherLookUps,
    /// It exports a resource of its own.
    Resource,
    /// Its `retry` answers something else than the contract's.
    OtherTypes,
}

const WELL: Raw = Raw {
    name: "minimal",
    text: "A policy for `retry` written by hand, 1 KB: every answer is `defer`. Nothing is wrong with it.",
    world: World::Retry,
    imports: "",
    definitions: "",
    describe: "",
    configure: "",
    decide: "",
    description: ["minimal", "1.0.0", "Defers everything.", "{}"],
    core: false,
};

const SPIN: &str = "(loop $spin (br $spin))";

/// All of them.
pub(crate) const GUESTS: &[Raw] = &[
    WELL,
    Raw { name: "core-module", text: "A core module: no component at all.", core: true, ..WELL },
    Raw {
        name: "no-slot",
        text: "A component that exports `windlass:policy/policy` and no slot.",
        world: World::NoSlot,
        ..WELL
    },
    Raw {
        name: "no-policy",
        text: "A component that exports `retry` and not `windlass:policy/policy`.",
        world: World::NoPolicy,
        ..WELL
    },
    Raw {
        name: "imports-wasi",
        text: "A policy that imports and calls `wasi:cli/environment@0.2.0`.",
        world: World::Wasi,
        imports: r#"(import "wasi:cli/environment@0.2.0" "get-initial-cwd-length" (func $foreign (result i32)))"#,
        decide: "(drop (call $foreign))",
        ..WELL
    },
    Raw {
        name: "imports-stranger",
        text: "A policy that imports `acme:secrets/vault@1.0.0`.",
        world: World::Stranger,
        imports: r#"(import "acme:secrets/vault@1.0.0" "open" (func $foreign (result i32)))"#,
        decide: "(drop (call $foreign))",
        ..WELL
    },
    Raw {
        name: "other-look-ups",
        text: "A policy that imports `get-server` of `windlass:scaleway/look-ups` as if its answer were a number.",
        world: World::OtherLookUps,
        imports: r#"(import "windlass:scaleway/look-ups@0.1.0" "get-server" (func $foreign (param i32 i32 i32 i32) (result i32)))"#,
        ..WELL
    },
    Raw {
        name: "other-types",
        text: "A policy whose `retry` has the contract's name and other types.",
        world: World::OtherTypes,
        ..WELL
    },
    Raw {
        name: "table-bomb",
        text: "Grows a table until it is refused, then loops for ever.",
        definitions: "(table $bomb 1 funcref)",
        decide: "(loop $more (br_if $more (i32.ne (table.grow $bomb (ref.null func) (i32.const 10000)) (i32.const \
            -1)))) (loop $spin (br $spin))",
        ..WELL
    },
    Raw {
        name: "table-hoard",
        text: "Starts with a table of 9,000,000 elements.",
        definitions: "(table $bomb 9000000 funcref)",
        ..WELL
    },
    Raw {
        name: "memory-hoard",
        text: "Starts with 1 GiB of memory.",
        definitions: "(global $hoard i32 (i32.const 16384))",
        ..WELL
    },
    Raw {
        name: "memory-refused",
        text: "Asks for 4 GiB of memory, is refused, and goes on quietly: `defer`.",
        decide: "(drop (memory.grow (i32.const 65535)))",
        ..WELL
    },
    Raw {
        name: "handle-leak",
        text: "Makes handles to a resource of its own until it is stopped.",
        world: World::Resource,
        imports: r#"(import "[export]windlass:hostile/hoard@0.1.0" "[resource-new]thing" (func $new (param i32) (result i32)))"#,
        decide: "(loop $more (drop (call $new (i32.const 1))) (br $more))",
        ..WELL
    },
    Raw { name: "describe-loops", text: "`describe` never ends.", describe: SPIN, ..WELL },
    Raw { name: "describe-traps", text: "`describe` traps.", describe: "unreachable", ..WELL },
    Raw {
        name: "describe-floods",
        text: "`describe` gives a summary of 32 MiB.",
        describe: "(drop (memory.grow (i32.const 600))) (i32.store (i32.const 32) (i32.const 65536)) (i32.store \
            (i32.const 36) (i32.const 33554432)) (memory.fill (i32.const 65536) (i32.const 120) (i32.const 33554432)) \
            (return (i32.const 16))",
        ..WELL
    },
    Raw {
        name: "bad-name",
        text: "`describe` gives a name with capitals, spaces and an escape sequence.",
        description: ["Not A Name \\1b[2J", "1.0.0", "Defers everything.", "{}"],
        ..WELL
    },
    Raw {
        name: "reversed-summary",
        text: "`describe` gives a summary that would be shown from right to left.",
        description: ["reversed-summary", "1.0.0", "Defers \\e2\\80\\ae.gnihtyreve", "{}"],
        ..WELL
    },
    Raw {
        name: "bad-version",
        text: "`describe` gives a version that is none.",
        description: ["bad-version", "latest", "Defers everything.", "{}"],
        ..WELL
    },
    Raw {
        name: "bad-schema",
        text: "`describe` gives a settings schema that is no JSON.",
        description: ["bad-schema", "1.0.0", "Defers everything.", "{ nonsense"],
        ..WELL
    },
    Raw {
        name: "wrong-schema",
        text: "`describe` gives a settings schema that is JSON and no JSON Schema.",
        description: ["wrong-schema", "1.0.0", "Defers everything.", "{\\\"type\\\": 7}"],
        ..WELL
    },
    Raw {
        name: "hungry-schema",
        text: "`describe` gives a schema with a pattern that is costly to match, and with a reference to a web page.",
        description: [
            "hungry-schema",
            "1.0.0",
            "Defers everything.",
            "{\\\"$ref\\\": \\\"https://schemas.example.com/x\\\", \\\"properties\\\": {\\\"a\\\": {\\\"pattern\\\": \\\"^(a+)+$\\\"}}}",
        ],
        ..WELL
    },
    Raw { name: "configure-loops", text: "`configure` never ends.", configure: SPIN, ..WELL },
    Raw { name: "configure-traps", text: "`configure` traps.", configure: "unreachable", ..WELL },
    Raw {
        name: "case-out-of-range",
        text: "Answers with a verdict whose number the contract does not have.",
        decide: "(i32.store8 (i32.const 128) (i32.const 77)) (return (i32.const 128))",
        ..WELL
    },
    Raw {
        name: "pointer-out-of-bounds",
        text: "Answers with an address outside its memory.",
        decide: "(return (i32.const 0x7ffffff0))",
        ..WELL
    },
    Raw { name: "pointer-unaligned", text: "Answers with an odd address.", decide: "(return (i32.const 129))", ..WELL },
    Raw {
        name: "reason-out-of-bounds",
        text: "Answers with a reason that lies outside its memory.",
        decide: "(i32.store8 (i32.const 144) (i32.const 1)) (i32.store (i32.const 148) (i32.const 65000)) (i32.store \
            (i32.const 152) (i32.const 100000))",
        ..WELL
    },
    Raw {
        name: "reason-no-text",
        text: "Answers with a reason that is not UTF-8.",
        decide: "(i32.store8 (i32.const 144) (i32.const 1)) (i32.store (i32.const 148) (i32.const 8192)) (i32.store \
            (i32.const 152) (i32.const 4)) (i32.store (i32.const 8192) (i32.const 0xfffefdfc))",
        ..WELL
    },
    Raw {
        name: "realloc-lies",
        text: "Its allocator answers with an address outside its memory, so that not even the question can be handed \
            over.",
        definitions: "(global $lie i32 (i32.const 1))",
        ..WELL
    },
];

/// Makes the component (or the core module).
pub(crate) fn build(contract: &Path, guest: &Raw) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut module = wat::parse_str(text(guest))?;
    if guest.core {
        return Ok(module);
    }
    let mut resolve = Resolve::default();
    if guest.world != World::OtherTypes {
        resolve.push_dir(contract)?;
    }
    for (name, text) in packages(guest.world) {
        resolve.push_str(name, text)?;
    }
    let package = resolve.push_str("hostile.wit", world(guest.world))?;
    let world = resolve.select_world(&[package], Some("hostile"))?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(ComponentEncoder::default().validate(true).module(&module)?.encode()?)
}

fn packages(world: World) -> &'static [(&'static str, &'static str)] {
    match world {
        World::Wasi => {
            &[("wasi.wit", "package wasi:cli@0.2.0; interface environment { get-initial-cwd-length: func() -> u32; }")]
        }
        World::Stranger => &[("acme.wit", "package acme:secrets@1.0.0; interface vault { open: func() -> u32; }")],
        World::OtherLookUps => &[(
            "scaleway.wit",
            "package windlass:scaleway@0.1.0; interface look-ups \
             { get-server: func(zone: string, id: string) -> u32; }",
        )],
        World::OtherTypes => &[(
            "other.wit",
            "package windlass:policy@0.1.0;
             interface policy {
                 record description { name: string, version: string, summary: string, settings-schema: string }
                 describe: func() -> description;
                 configure: func(settings: string) -> result<_, string>;
             }
             interface retry {
                 record question { now: u64 }
                 variant verdict { defer, give-up, wait(u64) }
                 record answer { verdict: verdict, reason: option<string> }
                 decide: func(question: question) -> answer;
             }",
        )],
        _ => &[],
    }
}

fn world(world: World) -> &'static str {
    match world {
        World::Retry | World::OtherTypes => {
            "package windlass:hostile@0.1.0;
             world hostile { export windlass:policy/policy@0.1.0; export windlass:policy/retry@0.1.0; }"
        }
        World::NoSlot => "package windlass:hostile@0.1.0; world hostile { export windlass:policy/policy@0.1.0; }",
        World::NoPolicy => "package windlass:hostile@0.1.0; world hostile { export windlass:policy/retry@0.1.0; }",
        World::Wasi => {
            "package windlass:hostile@0.1.0;
             world hostile {
                 import wasi:cli/environment@0.2.0;
                 export windlass:policy/policy@0.1.0; export windlass:policy/retry@0.1.0;
             }"
        }
        World::Stranger => {
            "package windlass:hostile@0.1.0;
             world hostile {
                 import acme:secrets/vault@1.0.0;
                 export windlass:policy/policy@0.1.0; export windlass:policy/retry@0.1.0;
             }"
        }
        World::OtherLookUps => {
            "package windlass:hostile@0.1.0;
             world hostile {
                 import windlass:scaleway/look-ups@0.1.0;
                 export windlass:policy/policy@0.1.0; export windlass:policy/retry@0.1.0;
             }"
        }
        World::Resource => {
            "package windlass:hostile@0.1.0;
             interface hoard { resource thing; }
             world hostile {
                 export windlass:policy/policy@0.1.0; export windlass:policy/retry@0.1.0; export hoard;
             }"
        }
    }
}

/// The core module. Memory: 16 the description, 64 the answer of `configure`, 128 the answer of `decide`, from 1024 the
/// strings, from 16384 what the host hands over.
fn text(guest: &Raw) -> String {
    let mut data = String::new();
    let mut fields = String::new();
    let mut place = 1024_usize;
    for (index, string) in guest.description.iter().enumerate() {
        data.push_str(&format!("(data (i32.const {place}) \"{string}\")\n"));
        let length = unescaped_length(string);
        fields.push_str(&format!("(i32.store (i32.const {}) (i32.const {place}))", 16 + index * 8));
        fields.push_str(&format!("(i32.store (i32.const {}) (i32.const {length}))", 20 + index * 8));
        place += length;
    }
    let pages = if guest.name == "memory-hoard" { 16_384 } else { 1 };
    let given = if guest.name == "realloc-lies" { "(i32.const 0x7fffff00)" } else { "(local.get $start)" };
    let question = if guest.world == World::OtherTypes { "i64" } else { "i32" };
    let policy = format!(
        r#"(func (export "windlass:policy/policy@0.1.0#describe") (result i32)
            {fields} {describe} (i32.const 16))
        (func (export "windlass:policy/policy@0.1.0#configure") (param i32 i32) (result i32)
            {configure} (i32.const 64))"#,
        describe = guest.describe,
        configure = guest.configure,
    );
    let slot = format!(
        r#"(func (export "windlass:policy/retry@0.1.0#decide") (param {question}) (result i32)
            {decide} (i32.const 128))"#,
        decide = guest.decide,
    );
    format!(
        r#"(module
        {imports}
        (memory (export "memory") {pages})
        {definitions}
        (global $next (mut i32) (i32.const 16384))
        (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
            (local $start i32)
            (local.set $start (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
            (global.set $next (i32.add (local.get $start) (local.get $size)))
            (block $fits
                (br_if $fits (i32.le_u (global.get $next) (i32.mul (memory.size) (i32.const 65536))))
                (drop (memory.grow (i32.add (i32.div_u (local.get $size) (i32.const 65536)) (i32.const 1)))))
            {given})
        {policy}
        {slot}
        {data})"#,
        imports = guest.imports,
        definitions = guest.definitions,
        policy = if guest.world == World::NoPolicy { "" } else { &policy },
        slot = if guest.world == World::NoSlot { "" } else { &slot },
    )
}

/// The length of a string in which `\"` and two digits after `\` (`\1b`) stand for one byte each.
fn unescaped_length(string: &str) -> usize {
    let quotes = string.matches("\\\"").count();
    string.len() - quotes - 2 * (string.matches('\\').count() - quotes)
}
