//! Text for people: what came from outside, instants, and colours.

use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use windlass_policy::is_unprintable;

use crate::words::human_duration;

/// Text that came from outside (names, reasons, messages) must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if is_unprintable(character) { '\u{fffd}' } else { character }).collect()
}

/// Breaks lines that are wider than a terminal between words. What follows is indented like the last column. A line
/// with a command stays whole, so that it can be copied.
#[cfg(feature = "terminal")]
pub(crate) fn folded(text: &str, width: usize) -> String {
    text.split_inclusive('\n').map(|line| folded_line(line, width)).collect()
}

#[cfg(feature = "terminal")]
fn folded_line(line: &str, width: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    let plain = plain.trim_end();
    // The state directory has the same name.
    let has_command = plain.match_indices("windlass ").any(|(at, _)| !plain[..at].ends_with('/'));
    if textwrap::core::display_width(plain) <= width || has_command {
        return line.to_owned();
    }
    let leading = plain.len() - plain.trim_start().len();
    let columns = plain.match_indices("  ").filter_map(|(at, _)| {
        let rest = &plain[at..];
        let column = at + rest.len() - rest.trim_start().len();
        Some(textwrap::core::display_width(plain.get(..column)?)).filter(|column| *column <= width / 2)
    });
    let indent = " ".repeat(columns.max().unwrap_or(leading + 2));
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(line, options)
}

/// What is beside the point.
#[must_use]
pub fn dim(text: &str) -> String {
    paint(Style::new().dimmed(), text)
}

/// A heading.
#[must_use]
pub fn bold(text: &str) -> String {
    paint(Style::new().bold(), text)
}

/// What ended well.
#[must_use]
pub fn green(text: &str) -> String {
    paint(AnsiColor::Green.on_default(), text)
}

/// What needs attention.
#[must_use]
pub fn yellow(text: &str) -> String {
    paint(AnsiColor::Yellow.on_default(), text)
}

/// What failed.
#[must_use]
pub fn red(text: &str) -> String {
    paint(AnsiColor::Red.on_default().bold(), text)
}

/// What is only a mark.
#[must_use]
pub fn cyan(text: &str) -> String {
    paint(AnsiColor::Cyan.on_default(), text)
}

fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// An instant as people read it: `2026-11-21 10:04:05Z`, and how long ago.
pub fn instant(milliseconds: u64) -> String {
    match i64::try_from(milliseconds).ok().and_then(|instant| jiff::Timestamp::from_millisecond(instant).ok()) {
        Some(instant) => instant.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        None => format!("{milliseconds} ms after 1970"),
    }
}

/// How long ago an instant was, by this machine's clock; one that is still to come was written by a clock that was
/// ahead.
pub fn age(milliseconds: u64) -> String {
    match since(milliseconds) {
        (0, 0 | 1) => "0 s".to_owned(),
        (past, 0 | 1) => human_duration(Duration::from_secs(past)),
        (_, ahead) => format!("{} ahead", human_duration(Duration::from_secs(ahead))),
    }
}

/// The same in a sentence.
#[must_use]
pub fn ago(milliseconds: u64) -> String {
    match since(milliseconds) {
        (_, 0 | 1) => format!("{} ago", age(milliseconds)),
        (_, ahead) => format!("{} ahead of this machine's clock", human_duration(Duration::from_secs(ahead))),
    }
}

/// The instant so long before now, by this machine's clock, in milliseconds since 1970.
#[must_use]
pub fn before_now(long: Duration) -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.saturating_sub(long).as_millis()).unwrap_or(u64::MAX)
}

/// The seconds since an instant, and those until then.
fn since(milliseconds: u64) -> (u64, u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let then = Duration::from_millis(milliseconds);
    (now.saturating_sub(then).as_secs(), then.saturating_sub(now).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_to_come_is_no_instant_ago() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at = |instant: Duration| ago(u64::try_from(instant.as_millis()).unwrap());
        assert_eq!(at(now - Duration::from_secs(90)), "1 min 30 s ago");
        assert!(at(now + Duration::from_secs(86_400 * 365)).ends_with(" ahead of this machine's clock"));
    }

    #[test]
    fn instants_are_told_in_utc() {
        assert_eq!(instant(0), "1970-01-01 00:00:00Z");
        assert_eq!(instant(u64::MAX), "18446744073709551615 ms after 1970");
    }

    #[cfg(feature = "terminal")]
    #[test]
    fn long_lines_break_between_words_below_their_column() {
        let text = format!("{}       journal  this program can read it, and nobody else does\nshort\n", green("ok"));
        let folded = folded(&text, 30);
        let plain = anstream::adapter::strip_str(&folded).to_string();
        let expected = "ok       journal  this program\n         can read it, and\n         nobody else does\nshort\n";
        assert_eq!(plain, expected);
    }

    #[cfg(feature = "terminal")]
    #[test]
    fn ids_and_commands_are_never_broken() {
        let id = "ip d5dbc951-ddd1-4828-a3e8-9e3e919a8d35 is left";
        assert_eq!(folded(id, 20), "ip\n  d5dbc951-ddd1-4828-a3e8-9e3e919a8d35\n  is left");
        let command = "  try     windlass operation show fail-0nx9rvrcwjay\n";
        assert_eq!(folded(command, 20), command);
        assert_eq!(folded("/home/ann/windlass can be written", 20), "/home/ann/windlass\n  can be written");
    }
}
