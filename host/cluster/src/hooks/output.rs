//! What a hook said.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The end of each stream that is kept.
pub const CAPTURED_BYTES: usize = 64 * 1024;
/// How much of a node's output under ssh is kept, so that a thousand nodes fit into memory.
pub(super) const CAPTURED_BYTES_OF_NODE: usize = 8 * 1024;

/// The end of a stream. It is what the user's program wrote: it may hold anything but NUL, also characters that a
/// terminal obeys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The last bytes, what is no UTF-8 replaced.
    pub text: String,
    /// How many bytes came before them and were dropped.
    pub dropped: u64,
}

/// How a hook that ended well, or parts of one that failed, went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookOutput {
    /// How long it took.
    pub duration: Duration,
    /// A program's stdout, or a webhook's answer.
    pub stdout: Captured,
    /// A program's stderr.
    pub stderr: Captured,
    /// An ssh command's output per node, in the order of the input.
    pub nodes: Vec<NodeOutput>,
}

/// How it went on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeOutput {
    pub node: String,
    /// Whether the command ended with 0.
    pub succeeded: bool,
    /// The end of its stdout.
    pub stdout: Captured,
    /// The end of its stderr.
    pub stderr: Captured,
    /// The host key that the node showed, for the caller to keep; absent when it showed none or a wrong one.
    pub host_key: Option<String>,
}

impl HookOutput {
    /// The nodes for which an ssh command ended well. A program and a webhook end for all nodes or for none.
    #[must_use]
    pub fn succeeded(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| node.succeeded).map(|node| node.node.clone()).collect()
    }
}

impl Captured {
    /// The last `lines` lines that say something, for a message.
    #[must_use]
    pub fn last_lines(&self, lines: usize) -> String {
        let saying: Vec<&str> = self.text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        saying[saying.len().saturating_sub(lines)..].join("\n")
    }
}

/// A stream while it is read: its end, in bounded memory.
#[derive(Debug)]
pub struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    dropped: u64,
}

impl Tail {
    /// One that keeps so many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { bytes: VecDeque::new(), limit, dropped: 0 }
    }

    /// Goes on with these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        // What would be dropped at once isn't taken in.
        let skip = bytes.len().saturating_sub(self.limit);
        let over = (self.bytes.len() + bytes.len() - skip).saturating_sub(self.limit);
        self.bytes.drain(..over);
        self.bytes.extend(&bytes[skip..]);
        self.dropped += (over + skip) as u64;
    }

    /// What was kept, as text.
    #[must_use]
    pub fn finish(self) -> Captured {
        let bytes: Vec<u8> = self.bytes.into();
        // A character that was cut at the front is dropped, not shown as a wrong one.
        let cut =
            if self.dropped == 0 { 0 } else { bytes.iter().take(3).take_while(|byte| *byte & 0xC0 == 0x80).count() };
        Captured {
            text: String::from_utf8_lossy(&bytes[cut..]).replace('\0', "\u{FFFD}"),
            dropped: self.dropped + cut as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(limit: usize, parts: &[&[u8]]) -> Captured {
        let mut tail = Tail::new(limit);
        parts.iter().for_each(|part| tail.push(part));
        tail.finish()
    }

    #[test]
    fn the_end_of_a_stream_is_kept_and_the_rest_counted() {
        assert_eq!(tail_of(4, &[b"ab", b"cd"]), Captured { text: "abcd".into(), dropped: 0 });
        assert_eq!(tail_of(4, &[b"ab", b"cdef"]), Captured { text: "cdef".into(), dropped: 2 });
        assert_eq!(tail_of(4, &[b"ab", b"0123456789"]), Captured { text: "6789".into(), dropped: 8 });
        assert_eq!(tail_of(4, &[]), Captured::default());
    }

    #[test]
    fn a_character_cut_in_half_is_dropped_and_bytes_that_are_none_replaced() {
        // "é" is two bytes: its second one is the first that fits.
        assert_eq!(tail_of(4, &["aébc".as_bytes(), b"d"]), Captured { text: "bcd".into(), dropped: 3 });
        assert_eq!(tail_of(9, &[b"a\xFFb\0"]).text, "a\u{FFFD}b\u{FFFD}");
    }

    proptest::proptest! {
        #[test]
        fn however_a_stream_is_cut_into_pieces_its_end_is_the_same(
            pieces in proptest::collection::vec(proptest::collection::vec(0_u8..128, 0..40), 0..20),
            limit in 1_usize..64,
        ) {
            let whole = pieces.concat();
            let captured = tail_of(limit, &pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let kept = &whole[whole.len().saturating_sub(limit)..];
            proptest::prop_assert_eq!(captured.text, String::from_utf8_lossy(kept).replace('\0', "\u{FFFD}"));
            proptest::prop_assert_eq!(captured.dropped, (whole.len() - kept.len()) as u64);
        }
    }

    #[test]
    fn last_lines_are_those_that_say_something() {
        let captured = Captured { text: "one\ntwo\n\nthree \n\n".into(), dropped: 0 };
        assert_eq!(captured.last_lines(2), "two\nthree");
        assert_eq!(Captured::default().last_lines(2), "");
    }
}
