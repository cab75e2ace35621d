//! Files of rules that mean harm.

use std::fmt::Write as _;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use windlass_policy::slots::SlotName;

/// One that answers nothing.
pub(crate) fn harmless(slot: SlotName) -> String {
    format!("slot = \"{slot}\"\n[[rules]]\nwhen = \"subject.owner == 'nobody'\"\nanswer = \"defer\"\n")
}

fn one(slot: SlotName, when: &str) -> Vec<u8> {
    format!("slot = \"{slot}\"\n[[rules]]\nwhen = '''{when}'''\nanswer = \"defer\"\n").into_bytes()
}

/// Draws a kind, and one of it.
pub(crate) fn draw(slot: SlotName, random: &mut ChaCha8Rng) -> (&'static str, Vec<u8>) {
    match random.random_range(0..12) {
        0 => {
            let mut text = format!("slot = \"{slot}\"\n");
            for number in 0..random.random_range(100..20_000_u32) {
                let _ = write!(text, "[[rules]]\nwhen = \"subject.owner == '{number}'\"\nanswer = \"defer\"\n");
            }
            ("many rules", text.into_bytes())
        }
        1 => {
            let depth = random.random_range(10..20_000);
            ("deep parentheses", one(slot, &format!("{}true{}", "(".repeat(depth), ")".repeat(depth))))
        }
        2 => {
            let list = (0..random.random_range(10..200)).map(|number: u32| number.to_string()).collect::<Vec<_>>();
            let list = format!("[{}]", list.join(","));
            ("nested loops", one(slot, &format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c >= 0)))")))
        }
        3 => {
            let terms = random.random_range(10..5_000);
            ("long sums", one(slot, &format!("subject.owner{} == ''", " + subject.owner".repeat(terms))))
        }
        4 => ("divisions by zero", one(slot, "1 / (now - now) == 1")),
        5 => {
            let size = random.random_range(1 << 10..1 << 20);
            ("a long text", one(slot, &format!("subject.owner == '{}'", "x".repeat(size))))
        }
        6 => {
            let mut bytes = vec![0; random.random_range(1..4096)];
            random.fill(&mut bytes[..]);
            ("random bytes for rules", bytes)
        }
        7 => {
            let mut text = harmless(slot).into_bytes();
            text.truncate(random.random_range(0..text.len()));
            ("rules that are cut", text)
        }
        8 => {
            let depth = random.random_range(10..5_000);
            let nested = format!("x = {}{}\n", "[".repeat(depth), "]".repeat(depth));
            ("deep TOML", [nested.into_bytes(), harmless(slot).into_bytes()].concat())
        }
        9 => {
            let negations = random.random_range(10..20_000);
            ("many negations", one(slot, &format!("{}true", "!".repeat(negations))))
        }
        10 => ("doubling texts", one(slot, &doubled(random.random_range(5..40)))),
        _ => {
            let mut text = harmless(slot).into_bytes();
            let at = random.random_range(0..text.len());
            text[at] = random.random();
            ("rules with another byte", text)
        }
    }
}

/// A text that doubles with each list of two over which it is folded.
fn doubled(times: usize) -> String {
    let inner = "[subject.owner, subject.owner]".to_owned();
    let list = (0..times).fold(inner, |list, _| format!("[{list}, {list}].map(x, x)").chars().take(1 << 16).collect());
    format!("size({list}) > 3")
}
