//! Changed copies of inputs.

use std::ops::Range;

use rand::{Rng as _, RngExt as _};
use rand_chacha::ChaCha8Rng;

/// The longest copy, in bytes.
pub(crate) const LONGEST: usize = 64 * 1024;
/// Changes of one copy at most.
const CHANGES: u32 = 6;
/// What readers of texts, numbers and lengths stumble over.
const TROUBLE: [&[u8]; 36] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"\"\"",
    b"0",
    b"-1",
    b"1.5",
    b"1e999",
    b"-0",
    b"255",
    b"65536",
    b"4294967296",
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\n",
    b"\r\n",
    b"\x1b[2J",
    b"\xff\xfe",
    b"\xc3",
    b"\xf0\x9f\x92\xa5",
    "\u{202e}".as_bytes(),
    "é".as_bytes(),
    b"../../",
    b"%00",
];

/// A copy, changed a few times; pieces of `given`, which is not empty, are put into it.
pub(crate) fn of(input: &[u8], given: &[&[u8]], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..random.random_range(1..=CHANGES) {
        change(&mut input, given, random);
        input.truncate(LONGEST);
    }
    input
}

/// One of some, of which there is at least one.
pub(crate) fn one<'i, T: AsRef<[u8]>>(inputs: &'i [T], random: &mut ChaCha8Rng) -> &'i [u8] {
    inputs[random.random_range(0..inputs.len())].as_ref()
}

fn change(input: &mut Vec<u8>, given: &[&[u8]], random: &mut ChaCha8Rng) {
    let at = random.random_range(0..=input.len());
    let piece = at..at + random.random_range(0..=(input.len() - at).min(64));
    let trouble = one(&TROUBLE, random);
    match random.random_range(0..9) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.random_range(0..8);
            }
        }
        1 => drop(input.drain(piece)),
        2 => {
            let copies = input[piece].repeat(random.random_range(1..20));
            drop(input.splice(at..at, copies));
        }
        3 => {
            let other = one(given, random);
            let from = random.random_range(0..=other.len());
            let to = from + random.random_range(0..=(other.len() - from).min(512));
            drop(input.splice(piece, other[from..to].iter().copied()));
        }
        4 => drop(input.splice(at..at, trouble.iter().copied())),
        5 => drop(input.splice(number_at(input, at), trouble.iter().copied())),
        6 => drop(input.splice(text_at(input, at), trouble.iter().copied())),
        7 => {
            // Two texts of one input change places: keys become values, and names that belong elsewhere turn up.
            let other = text_at(input, random.random_range(0..=input.len()));
            let text = input[other].to_vec();
            drop(input.splice(text_at(input, at), text));
        }
        _ => {
            let mut bytes = vec![0; random.random_range(1..8)];
            random.fill_bytes(&mut bytes);
            drop(input.splice(piece, bytes));
        }
    }
}

/// The next bytes of a kind at or behind a place; nothing where there are none.
fn run_at(input: &[u8], at: usize, is_of_kind: fn(&u8) -> bool) -> Range<usize> {
    let from = input[at..].iter().position(is_of_kind).map_or(input.len(), |skip| at + skip);
    let to = input[from..].iter().position(|byte| !is_of_kind(byte)).map_or(input.len(), |length| from + length);
    from..to
}

fn number_at(input: &[u8], at: usize) -> Range<usize> {
    run_at(input, at, u8::is_ascii_digit)
}

fn text_at(input: &[u8], at: usize) -> Range<usize> {
    run_at(input, at, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':'))
}
