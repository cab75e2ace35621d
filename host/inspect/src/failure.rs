//! Failures, for people and programs: one readable block on stderr, one JSON object on stdout.

use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use windlass_lifecycle::{Aftermath, LeftResource};

use crate::output::{Output, note};
use crate::text::printable;

/// The exit codes, as they stand in the manual. Scripts hold on to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It failed, and what it had begun was undone completely; or there is nothing of the name that was asked for.
    Undone = 1,
    /// Wrong usage or configuration; nothing was touched.
    Usage = 2,
    /// It failed and something is left, which is listed.
    Left = 3,
    /// Done, and what it had to tell could not be written on stdout.
    Unwritten = 4,
    /// Interrupted: undone, or journalled for the next start.
    Interrupted = 130,
}

impl Exit {
    /// All of them, in the order of their codes.
    pub const ALL: [Exit; 5] = [Exit::Undone, Exit::Usage, Exit::Left, Exit::Unwritten, Exit::Interrupted];

    /// The one with this code; none for success and for what no command of ours ends with.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| *exit as u8 == code)
    }

    /// What it says, as help and manual have it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Exit::Undone => "failed, and nothing is left; or what you named does not exist",
            Exit::Usage => "wrong usage or configuration, or the journal cannot be written; nothing was touched",
            Exit::Left => "failed, and something is left or may still appear; it is listed",
            Exit::Unwritten => "done, but the result could not be written to stdout",
            Exit::Interrupted => "interrupted: undone, or journalled for the next start",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// A resource that a failure left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// The kind in the contract's words: `server`, `ip`, `block-volume`, ...
    pub kind: String,
    /// Scaleway's id.
    pub id: String,
    pub zone: String,
    /// Why it is still there.
    pub reason: String,
}

impl From<LeftResource> for Leftover {
    fn from(left: LeftResource) -> Self {
        let resource = left.resource;
        Leftover { kind: resource.kind.to_string(), id: resource.id, zone: resource.zone, reason: left.why }
    }
}

/// Why a command ends without success. Boxed, so that a `Result` with it stays small.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Failure(Box<Details>);

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl DerefMut for Failure {
    fn deref_mut(&mut self) -> &mut Details {
        &mut self.0
    }
}

/// What there is to say about a [`Failure`].
#[derive(Debug, Clone, Serialize)]
pub struct Details {
    #[serde(rename = "exit_code", serialize_with = "exit_code")]
    /// The exit code.
    pub exit: Exit,
    /// What failed, in one line.
    pub message: String,
    /// Where: a file and line, a URL, an API call.
    pub place: Option<String>,
    /// Why, from the nearest cause to the farthest; or each of several problems.
    pub causes: Vec<String>,
    /// What was done about it: the rollback, step by step.
    pub undone: Vec<String>,
    pub left: Vec<Leftover>,
    /// What to do now.
    pub remedy: Option<String>,
    /// Fields for the JSON document beside `error`: the part of the result that there is.
    #[serde(skip)]
    pub partial: Option<serde_json::Value>,
    /// Whether another process has said everything already.
    #[serde(skip)]
    pub is_reported: bool,
    /// Whether there is nothing of the name that was asked for: it may be in another state directory.
    #[serde(skip)]
    pub is_unknown: bool,
}

fn exit_code<S: serde::Serializer>(exit: &Exit, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(*exit as u8)
}

impl Failure {
    /// A failure with nothing but its message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure(Box::new(Details {
            exit,
            message: message.into(),
            place: None,
            causes: Vec::new(),
            undone: Vec::new(),
            left: Vec::new(),
            remedy: None,
            partial: None,
            is_reported: false,
            is_unknown: false,
        }))
    }

    /// The end of another process, which has said everything: only the exit code is ours to tell.
    pub fn reported(exit: Exit) -> Self {
        let mut failure = Failure::new(exit, String::new());
        failure.is_reported = true;
        failure
    }

    /// Wrong usage or configuration; nothing was touched.
    pub fn usage(message: impl Into<String>) -> Self {
        Failure::new(Exit::Usage, message)
    }

    /// There is nothing of the name that was asked for; nothing was touched.
    pub fn unknown(message: impl Into<String>) -> Self {
        let mut failure = Failure::undone(message);
        failure.is_unknown = true;
        failure
    }

    /// It failed and nothing of it is left.
    pub fn undone(message: impl Into<String>) -> Self {
        Failure::new(Exit::Undone, message)
    }

    /// Decides the exit code from what is proven, and lists what is left. Commands that change something end through
    /// it.
    ///
    /// | what is proven | exit code |
    /// |---|---|
    /// | something is left, or may be | 3 |
    /// | an operation is open in the journal | 3, 130 where it was interrupted |
    /// | nothing is left, and it was interrupted | 130 |
    /// | nothing is left | 1 |
    /// | nothing was begun | 2 |
    ///
    /// What was asked for and exists also counts as left (`exists`): a part is not nothing.
    #[must_use]
    pub fn ended(
        mut self,
        aftermaths: impl IntoIterator<Item = Aftermath>,
        exists: Vec<Leftover>,
        interrupted: bool,
    ) -> Self {
        let (mut is_left, mut is_open, mut was_begun) = (false, false, false);
        for aftermath in aftermaths {
            match aftermath {
                Aftermath::Refused => {}
                Aftermath::Clean => was_begun = true,
                Aftermath::Open => is_open = true,
                Aftermath::Left(left) => {
                    is_left = true;
                    self.left.extend(left.into_iter().map(Leftover::from));
                }
            }
        }
        self.exit = match () {
            () if is_left => Exit::Left,
            () if interrupted => Exit::Interrupted,
            () if is_open || !exists.is_empty() => Exit::Left,
            () if was_begun || self.is_unknown => Exit::Undone,
            () => Exit::Usage,
        };
        self.left.extend(exists);
        self
    }

    /// Of a part of a command whose earlier parts have changed something: it cannot say that nothing was touched.
    #[must_use]
    pub fn after_changes(mut self) -> Self {
        if self.exit == Exit::Usage {
            self.exit = Exit::Undone;
        }
        self
    }

    /// What earlier commands had left and this one could not end either: a failure that would say that nothing is left
    /// says that something is.
    #[must_use]
    pub fn with_left_beside(mut self, aftermaths: impl IntoIterator<Item = Aftermath>) -> Self {
        if self.exit != Exit::Undone || self.is_unknown {
            return self;
        }
        for aftermath in aftermaths {
            match aftermath {
                Aftermath::Refused | Aftermath::Clean => continue,
                Aftermath::Open => {}
                Aftermath::Left(left) => self.left.extend(left.into_iter().map(Leftover::from)),
            }
            self.exit = Exit::Left;
        }
        self
    }

    /// Where it failed.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Why, behind the causes that are known.
    #[must_use]
    pub fn because(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The part of the result that there is, for documents.
    #[must_use]
    pub fn with_partial(mut self, partial: serde_json::Value) -> Self {
        self.partial = Some(partial);
        self
    }

    /// Adds an error and its sources, leaving out those that merely repeat what was said before them.
    pub fn caused_by(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            let repeats = self.message.contains(&text) || self.causes.iter().any(|cause| cause.contains(&text));
            if !repeats {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// The block for people, with colours; `anstream` takes them out where the terminal has none.
    pub fn block(&self) -> String {
        let red = AnsiColor::Red.on_default().bold();
        let mut block = String::new();
        let headline = match self.exit {
            Exit::Interrupted => paint(AnsiColor::Yellow.on_default().bold(), "interrupted"),
            _ => paint(red, "error"),
        };
        let _ = writeln!(block, "{headline}: {}", indented(&self.message));
        if let Some(place) = &self.place {
            section(&mut block, "where", std::slice::from_ref(place));
        }
        section(&mut block, "why", &self.causes);
        section(&mut block, "undone", &self.undone);
        let left: Vec<String> = self
            .left
            .iter()
            .map(|left| {
                let place = if left.zone.is_empty() { String::new() } else { format!(" in {}", left.zone) };
                format!("{} {}{place}: {}", left.kind, left.id, left.reason)
            })
            .collect();
        section(&mut block, "LEFT", &left);
        if let Some(remedy) = &self.remedy {
            section(&mut block, "try", std::slice::from_ref(remedy));
        }
        block
    }

    /// The JSON document of a command that failed: the partial result, if any, and `error`.
    pub fn document(&self) -> serde_json::Value {
        let mut document = match self.partial.clone() {
            Some(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let error = serde_json::to_value(self).unwrap_or_else(|_| serde_json::Value::String(self.message.clone()));
        document.insert("error".to_owned(), error);
        serde_json::Value::Object(document)
    }
}

impl Output {
    /// A failed command: the block on stderr and, as JSON, the document on stdout.
    pub fn failure(self, failure: &Failure) {
        if failure.is_reported {
            return;
        }
        note(&failure.block());
        if self.is_document() {
            self.document(&failure.document());
        }
    }
}

/// How wide the labels of a block are.
const LABEL_WIDTH: usize = 8;

fn section(block: &mut String, label: &str, lines: &[String]) {
    for (position, line) in lines.iter().enumerate() {
        let label = if position == 0 { label } else { "" };
        let style = if label == "LEFT" { AnsiColor::Red.on_default().bold() } else { Style::new().dimmed() };
        let padding = " ".repeat(LABEL_WIDTH.saturating_sub(label.len()));
        let _ = writeln!(block, "  {}{padding}{}", paint(style, label), indented(line));
    }
}

/// What was said elsewhere (by Scaleway, by hooks) must not steer the terminal.
fn indented(text: &str) -> String {
    let lines = text.trim_end().split('\n').map(printable);
    lines.collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(LABEL_WIDTH + 2)))
}

fn paint(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(block: &str) -> String {
        anstream::adapter::strip_str(block).to_string()
    }

    #[test]
    fn a_block_says_what_where_why_what_is_left_and_the_remedy() {
        let mut failure = Failure::new(Exit::Left, "1 of 2 servers could not be created")
            .at("POST /instance/v1/zones/fr-par-1/servers")
            .because("500 server-error")
            .because("gateway\nsecond line")
            .remedy("windlass operation resume");
        failure.undone.push("ip 1".to_owned());
        failure.left.push(Leftover {
            kind: "server".to_owned(),
            id: "s1".to_owned(),
            zone: "fr-par-1".to_owned(),
            reason: "locked".to_owned(),
        });
        assert_eq!(
            plain(&failure.block()),
            "error: 1 of 2 servers could not be created\n\
             \x20 where   POST /instance/v1/zones/fr-par-1/servers\n\
             \x20 why     500 server-error\n\
             \x20         gateway\n\
             \x20         second line\n\
             \x20 undone  ip 1\n\
             \x20 LEFT    server s1 in fr-par-1: locked\n\
             \x20 try     windlass operation resume\n"
        );
    }

    #[test]
    fn what_was_said_elsewhere_cannot_steer_the_terminal() {
        let steering = "\u{1b}]0;owned\u{7}\u{1b}[2J";
        let mut failure = Failure::undone(steering).at(steering).because(steering).remedy(steering);
        failure.undone.push(steering.to_owned());
        let left = |text: &str| text.to_owned();
        failure.left.push(Leftover {
            kind: left(steering),
            id: left(steering),
            zone: left(steering),
            reason: left(steering),
        });
        let block = plain(&failure.block());
        assert!(!block.contains(['\u{1b}', '\u{7}']), "{block:?}");
        assert!(!failure.block().contains("\u{1b}]"), "{block:?}");
    }

    #[test]
    fn the_document_holds_the_partial_result_beside_the_error() {
        let failure = Failure::undone("no").with_partial(serde_json::json!({"servers": []}));
        let document = failure.document();
        assert_eq!(document["servers"], serde_json::json!([]));
        assert_eq!(document["error"]["exit_code"], 1);
        assert_eq!(document["error"]["message"], "no");
    }

    #[test]
    fn nothing_is_left_is_not_said_where_something_beside_could_not_be_removed() {
        let ended = |failure: Failure, aftermath| failure.with_left_beside([Aftermath::Clean, aftermath]).exit;
        assert_eq!(ended(Failure::undone("no"), Aftermath::Clean), Exit::Undone);
        assert_eq!(ended(Failure::undone("no"), Aftermath::Open), Exit::Left);
        assert_eq!(ended(Failure::undone("no"), Aftermath::Left(Vec::new())), Exit::Left);
        assert_eq!(ended(Failure::usage("no"), Aftermath::Open), Exit::Usage);
        assert_eq!(ended(Failure::unknown("no"), Aftermath::Open), Exit::Undone);
    }

    #[test]
    fn a_refusal_after_changes_does_not_say_that_nothing_was_touched() {
        assert_eq!(Failure::usage("no").after_changes().exit, Exit::Undone);
        assert_eq!(Failure::new(Exit::Left, "no").after_changes().exit, Exit::Left);
    }

    #[test]
    fn sources_that_repeat_the_message_are_not_said_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer: inner")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("inner"));
        let failure = Failure::undone("it failed").caused_by(&error);
        assert_eq!(failure.causes, ["outer: inner"]);
    }
}
