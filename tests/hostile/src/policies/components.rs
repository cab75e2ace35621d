//! Components that mean harm.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use windlass_policy::built_in_component;
use windlass_policy::slots::SlotName;

use super::guests::{ANSWER, Guest};

/// What goes wrong only after the first questions, so that the policy gets into force: the dry run, and the first
/// question of each instance, find it harmless only where the question is the example of the slot. The time in the
/// question tells: a test's question has none.
fn later(harm: &str) -> String {
    // A question begins with `now`, or, where the slot's question begins with something else, with what is not zero in
    // the example either.
    format!("(if (i64.eqz (i64.load (local.get $question))) (then {harm})) (i32.const {ANSWER})")
}

fn guest(slot: SlotName, harm: &str) -> Vec<u8> {
    Guest::new(slot, later(harm)).component()
}

/// Draws a kind, and one of it.
pub(crate) fn draw(slot: SlotName, random: &mut ChaCha8Rng) -> (&'static str, Vec<u8>) {
    match random.random_range(0..20) {
        0 => ("an endless loop", guest(slot, "(loop $more (br $more))")),
        1 => ("an endless recursion", {
            let mut guest = Guest::new(slot, later("(call $deeper)"));
            guest.declarations = "(func $deeper (call $deeper) (call $deeper))".into();
            guest.component()
        }),
        2 => ("all memory", guest(slot, "(loop $more (drop (memory.grow (i32.const 1))) (br $more))")),
        3 => ("a trap", guest(slot, "(unreachable)")),
        4 => {
            let turns = random.random_range(1_000_000..400_000_000_u64);
            let harm = format!(
                "(local.set $at (i32.const {turns})) (loop $more (br_if $more (local.tee $at \
                 (i32.sub (local.get $at) (i32.const 1)))))"
            );
            ("slow answers", guest(slot, &harm))
        }
        5 => {
            let harm: String = (0..12)
                .map(|word| {
                    let (at, value) = (ANSWER + 4 * word, random.random::<u32>() & random.random::<u32>());
                    format!("(i32.store (i32.const {at}) (i32.const {}))", value.cast_signed())
                })
                .collect();
            ("random answers", guest(slot, &harm))
        }
        6 => {
            // A list of so many steps, servers or places, wherever the slot has its list.
            let many = random.random_range(1_000..1_000_000_u32);
            let harm: String = (0..12)
                .map(|word| {
                    let value = [1, 8192, many][word as usize % 3];
                    format!("(i32.store (i32.const {}) (i32.const {value}))", ANSWER + 4 * word)
                })
                .collect();
            ("answers with long lists", guest(slot, &harm))
        }
        7 => {
            let mut guest = Guest::new(slot, format!("(i32.const {ANSWER})"));
            guest.allocate = "(loop $more (br $more))";
            ("an allocator that never ends", guest.component())
        }
        8 => {
            let mut guest = Guest::deferring(slot);
            guest.configure = "(loop $more (br $more)) (i32.const 64)";
            ("a configure that never ends", guest.component())
        }
        9 => {
            let mut guest = Guest::deferring(slot);
            guest.configure = "(loop $more (drop (memory.grow (i32.const 16))) (br $more)) (i32.const 64)";
            ("a configure that takes all memory", guest.component())
        }
        10 => {
            let mut guest = Guest::deferring(slot);
            guest.schema = "{\"$ref\":\"#\"}";
            ("a schema without an end", guest.component())
        }
        11 => {
            let mut guest = Guest::deferring(slot);
            guest.declarations = nested_loops(random.random_range(10..1_000), random.random_range(1..1_000));
            ("nested loops for the compiler", guest.component())
        }
        12 => {
            let mut guest = Guest::deferring(slot);
            guest.declarations = (0..random.random_range(100..20_000_u32))
                .map(|number| format!("(func (param i32) (result i32) (i32.add (local.get 0) (i32.const {number})))"))
                .collect();
            ("many functions", guest.component())
        }
        13 => {
            let mut guest = Guest::deferring(slot);
            let size: usize = random.random_range(1 << 10..3 << 20);
            let pages = size.div_ceil(1 << 16) + 1;
            guest.declarations = format!(
                "(func $big (drop (memory.grow (i32.const {pages})))) (start $big) (data \"{}\")",
                "x".repeat(size)
            );
            ("a large component", guest.component())
        }
        14 => {
            let mut bytes = vec![0; random.random_range(0..100_000)];
            random.fill(&mut bytes[..]);
            ("random bytes", bytes)
        }
        15 => {
            let mut bytes = own(slot);
            bytes.truncate(random.random_range(0..bytes.len()));
            ("a component that is cut", bytes)
        }
        16 => {
            let mut bytes = own(slot);
            for _ in 0..random.random_range(1..6) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            ("a component with other bytes", bytes)
        }
        17 => {
            let harm = "(loop $more (drop (memory.grow (i32.const 0))) \
                 (memory.fill (i32.const 8192) (i32.const 1) (i32.const 50000)) (br $more))";
            ("endless copies", guest(slot, harm))
        }
        18 => ("another slot's policy", own(SlotName::StateMapping)),
        _ => {
            // Of the same component, always with other bytes at its end: each has to be compiled anew.
            let mut bytes = own(slot);
            let name: u64 = random.random();
            bytes.extend([0, 9, 8]);
            bytes.extend(name.to_le_bytes().map(|byte| b'a' + byte % 26));
            ("a good policy that is new", bytes)
        }
    }
}

fn own(slot: SlotName) -> Vec<u8> {
    built_in_component(slot).map(<[u8]>::to_vec).unwrap_or_default()
}

/// A function whose registers are hard to allot.
fn nested_loops(depth: usize, locals: usize) -> String {
    let locals_text = "(local i64)".repeat(locals);
    let sums: String =
        (0..locals).map(|at| format!("(local.set {at} (i64.add (local.get {at}) (i64.const 1)))")).collect();
    let open: String = (0..depth).map(|at| format!("(loop $l{at} ")).collect();
    let close: String = (0..depth).rev().map(|at| format!("(br_if $l{at} (i64.eqz (local.get 0))))")).collect();
    format!("(func {locals_text} {open}{sums}{close})")
}
