//! Guests written by hand, down to the bytes of their answers: what no compiler would make is made here.

use windlass_policy::slots::SlotName;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where an answer lies that the guest makes in place: 64 bytes, zero at first, which says `defer` in every slot.
pub(crate) const ANSWER: u32 = 96;
/// Where the attempt stands in a question about a retry.
pub(crate) const ATTEMPT: u32 = 36;
/// Where `configure` finds a result that says "fine".
const FINE: u32 = 64;
/// Where texts lie.
const TEXTS: usize = 1024;
/// Where free memory begins.
const FREE: u32 = 8192;

/// A guest. The bodies are WebAssembly text.
pub(crate) struct Guest {
    pub(crate) slot: SlotName,
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) schema: &'static str,
    /// Core imports, and what they are in the world beside the slot's own.
    pub(crate) imports: &'static str,
    pub(crate) world: &'static str,
    /// The interfaces that its world can name.
    pub(crate) interfaces: &'static str,
    /// Tables, globals, functions, data.
    pub(crate) declarations: String,
    /// Runs first when the host asks for memory.
    pub(crate) allocate: &'static str,
    /// Takes `$settings` and `$length`, leaves the address of a `result<_, string>`.
    pub(crate) configure: &'static str,
    /// Takes the question, leaves the address of the answer.
    pub(crate) decide: String,
}

impl Guest {
    pub(crate) fn new(slot: SlotName, decide: impl Into<String>) -> Guest {
        Guest {
            slot,
            name: "test-guest",
            version: "1.2.3",
            summary: "A guest of the tests.",
            schema: r#"{"type":"object"}"#,
            imports: "",
            world: "",
            interfaces: INTERFACES,
            declarations: String::new(),
            allocate: "",
            configure: "(i32.const 64)",
            decide: decide.into(),
        }
    }

    /// A guest that always defers.
    pub(crate) fn deferring(slot: SlotName) -> Guest {
        Guest::new(slot, format!("(i32.const {ANSWER})"))
    }

    /// A retry policy that always waits so long.
    pub(crate) fn waiting(ms: u64) -> Guest {
        Guest::new(
            SlotName::Retry,
            format!(
                "(i32.store8 (i32.const {ANSWER}) (i32.const 2)) (i64.store (i32.const 104) (i64.const {ms})) \
                 (i32.const {ANSWER})"
            ),
        )
    }

    /// The core module.
    pub(crate) fn core(&self) -> Vec<u8> {
        let slot = self.slot.interface();
        // Where a question's lists lie behind its subject, which has 100 bytes.
        let lists = match self.slot {
            SlotName::StateMapping => {
                "(local.set $servers (i32.load offset=132 (local.get $question))) \
                 (local.set $count (i32.load offset=136 (local.get $question)))"
            }
            SlotName::Placement => {
                "(local.set $wanted (i32.load offset=124 (local.get $question))) \
                 (local.set $count (i32.load offset=132 (local.get $question)))"
            }
            _ => "",
        };
        let mut texts = String::new();
        let mut description = String::new();
        for text in [self.name, self.version, self.summary, self.schema] {
            for number in [TEXTS + texts.len(), text.len()] {
                let bytes = u32::try_from(number).expect("texts are short").to_le_bytes();
                description.extend(bytes.iter().map(|byte| format!("\\{byte:02x}")));
            }
            texts.push_str(text);
        }
        let texts: String = texts.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        let wat = format!(
            r#"(module
  {imports}
  (memory (export "memory") 1)
  (global $top (mut i32) (i32.const {FREE}))
  {declarations}
  (func $room (param $bytes i32) (result i32) (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
    (global.set $top (i32.add (local.get $at) (local.get $bytes)))
    (block $enough (loop $more
      (br_if $enough (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
      (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
      (br $more)))
    (local.get $at))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) {allocate} (call $room (local.get 3)))
  (func (export "windlass:policy/policy@0.1.0#describe") (result i32) (i32.const 16))
  (func (export "windlass:policy/policy@0.1.0#configure") (param $settings i32) (param $length i32) (result i32) {configure})
  (func (export "{slot}@0.1.0#decide") (param $question i32) (result i32)
    (local $i i32) (local $at i32) (local $servers i32) (local $count i32) (local $wanted i32)
    {lists} {decide})
  (data (i32.const 16) "{description}")
  (data (i32.const {TEXTS}) "{texts}"))"#,
            imports = self.imports,
            declarations = self.declarations,
            allocate = self.allocate,
            configure = self.configure,
            decide = self.decide,
        );
        assert_eq!(FINE, 64, "the default `configure` names it");
        wat::parse_str(&wat).unwrap_or_else(|error| panic!("{error}\n{wat}"))
    }

    /// The component.
    pub(crate) fn component(&self) -> Vec<u8> {
        self.component_in("")
    }

    /// The component, with version 0.1.0 of its own interfaces.
    pub(crate) fn versioned(&self) -> Vec<u8> {
        self.component_in("@0.1.0")
    }

    fn component_in(&self, version: &str) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let wit = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy");
        resolve.push_dir(wit).expect("the contract is valid");
        let world = format!(
            "package test:guest{};\n{}\nworld guest {{ include windlass:policy/{}-policy@0.1.0; {} }}",
            version, self.interfaces, self.slot, self.world
        );
        let package = resolve.push_str("guest.wit", &world).expect("the world is valid");
        let world = resolve.select_world(&[package], Some("guest")).expect("it has this world");
        let mut core = self.core();
        embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).expect("a module takes sections");
        let mut encoder = ComponentEncoder::default().validate(true).module(&core).expect("the module fits its world");
        encoder.encode().expect("the module fits its world")
    }
}

/// What test guests can import beside the log.
const INTERFACES: &str = r"
interface numbers {
    variant trouble { not-found, limit-reached(string) }
    double: func(n: u32) -> result<u32, trouble>;
}
interface things {
    resource thing {}
}
";

/// The WIT of the capability that offers `numbers`.
pub(crate) const NUMBERS_WIT: &str = r"
package test:guest@0.1.0;
interface numbers {
    variant trouble { not-found, limit-reached(string) }
    double: func(n: u32) -> result<u32, trouble>;
}
";

/// The core import of `numbers`: the number and where the result goes.
pub(crate) const IMPORT_DOUBLE: &str = r#"(import "test:guest/numbers" "double" (func $double (param i32 i32)))"#;
/// The core import of the log: level, address and length.
pub(crate) const IMPORT_LOG: &str = r#"(import "windlass:policy/log@0.1.0" "write" (func $log (param i32 i32 i32)))"#;
