//! Nothing is destroyed unasked: what would go is shown on the terminal and confirmed there, or `--yes` stands for the
//! answer. Without either, nothing is touched.

use std::io::{BufRead, IsTerminal};

use serde::Serialize;
use serde_json::json;
use tokio::sync::oneshot;
use windlass_inspect::failure::{Exit, Failure};
use windlass_inspect::listing::Listing;
use windlass_inspect::output::{Stream, ask};
use windlass_inspect::text::bold;

use crate::interrupt::EndSignals;

/// The option by which a command only says what it would do.
pub(crate) const DRY_RUN: &str = "--dry-run";

/// One resource that a command would remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Planned {
    /// The kind in the contract's words: `server`, `ip`, `block-volume`, ...
    pub(crate) kind: String,
    /// Scaleway's id; empty where none is known.
    pub(crate) id: String,
    /// Its name or address.
    pub(crate) name: String,
    pub(crate) state: String,
    /// Why it is to go.
    pub(crate) why: String,
}

/// Where the confirmation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    /// `--yes` gave it on the command line.
    Given,
    /// Somebody sits at the terminal.
    OnTerminal,
}

impl Confirmation {
    /// Where this invocation's confirmation comes from. Asked before anything else, so that a script without `--yes`
    /// fails each time, and not only on the day when there is something to remove. `look` is the command's option that
    /// asks nobody.
    pub(crate) fn source(yes: bool, command: &str, look: &str) -> Result<Self, Failure> {
        source_of(yes, on_terminal(), command, &format!("windlass {command} ... {look}"))
    }

    /// The same, for a command beside which another one, `look`, shows what it is about.
    pub(crate) fn source_of(yes: bool, command: &str, look: &str) -> Result<Self, Failure> {
        source_of(yes, on_terminal(), command, look)
    }

    /// Shows what would go and waits for the answer. Everything but a clear yes is a no: nothing has been touched then.
    pub(crate) async fn ask(self, planned: &[Planned], question: &str) -> Result<(), Failure> {
        if self == Confirmation::Given {
            return Ok(());
        }
        let reported = if planned.is_empty() { String::new() } else { rows(planned, Stream::Stderr) };
        ask(&format!("{reported}{} [y/N] ", bold(question)));
        let refused = match answer().await? {
            Answer::Line(line) if is_yes(&line) => return Ok(()),
            Answer::Line(line) => {
                if !line.ends_with('\n') {
                    ask("\n");
                }
                Failure::usage("not confirmed; nothing was touched")
            }
            Answer::Interrupted => {
                ask("\n");
                Failure::new(Exit::Interrupted, "nothing was confirmed and nothing was touched")
            }
        };
        Err(refused.with_partial(json!({ "planned": planned })))
    }
}

fn source_of(yes: bool, terminal: bool, command: &str, look: &str) -> Result<Confirmation, Failure> {
    match (yes, terminal) {
        (true, _) => Ok(Confirmation::Given),
        (false, true) => Ok(Confirmation::OnTerminal),
        (false, false) => Err(Failure::usage(format!(
            "`windlass {command}` asks first, and there is no terminal to ask on; nothing was touched"
        ))
        .remedy(format!("look with `{look}`, then add --yes"))),
    }
}

/// The question is written on stderr: stdout belongs to the result.
fn on_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// What would go, as a table.
pub(crate) fn rows(planned: &[Planned], stream: Stream) -> String {
    rows_within(planned, stream.width())
}

fn rows_within(planned: &[Planned], width: Option<usize>) -> String {
    let planned = Listing::new(planned, "", |one: &Planned| one.id.clone())
        .column("kind", |one| one.kind.clone())
        .column("id", |one| one.id.clone())
        .spare(2)
        // People recognize what is to go by its name.
        .column("name", |one| name_or_id(&one.name, &one.id).to_owned())
        .column("state", |one| one.state.clone())
        .spare(1)
        .column("why", |one| one.why.clone());
    planned.table_within(width)
}

/// What a resource is recognized by where its id has no room.
pub(crate) fn name_or_id<'n>(name: &'n str, id: &'n str) -> &'n str {
    if name.is_empty() { id } else { name }
}

/// `y` or `yes`, in any case; nothing else.
pub(crate) fn is_yes(line: &str) -> bool {
    let line = line.trim();
    line.eq_ignore_ascii_case("y") || line.eq_ignore_ascii_case("yes")
}

pub(crate) enum Answer {
    /// What was typed; empty at the end of the input.
    Line(String),
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// A line from the terminal, or the signal that came first.
///
/// It is read on a thread of its own that nobody waits for: a read from a terminal cannot be called off, and tokio's
/// own threads for blocking work would hold the end of the program up.
pub(crate) async fn answer() -> Result<Answer, Failure> {
    const MAX_ANSWER_BYTES: u64 = 4096;
    let deaf = |error: std::io::Error| {
        Failure::undone("the program cannot wait for an answer, so it began nothing").because(error.to_string())
    };
    let mut ends = EndSignals::listen()?;
    let (sender, typed) = oneshot::channel();
    std::thread::Builder::new()
        .name("answer".to_owned())
        .spawn(move || {
            let mut line = String::new();
            let read = std::io::Read::take(std::io::stdin().lock(), MAX_ANSWER_BYTES).read_line(&mut line);
            // The receiver may be gone.
            let _ = sender.send(read.map(|_| line));
        })
        .map_err(deaf)?;
    tokio::select! {
        _ = ends.recv() => Ok(Answer::Interrupted),
        // What cannot be read (no UTF-8, say) is no yes.
        typed = typed => Ok(Answer::Line(typed.ok().and_then(Result::ok).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["y\n", "Y", "yes\n", " YES \r\n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no", "yep", "y y", "ja", "yes please", "1", "true", "\u{3}"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    #[test]
    fn without_a_terminal_only_the_option_confirms() {
        assert_eq!(source_of(true, false, "sweep", DRY_RUN).ok(), Some(Confirmation::Given));
        assert_eq!(source_of(true, true, "sweep", DRY_RUN).ok(), Some(Confirmation::Given));
        assert_eq!(source_of(false, true, "sweep", DRY_RUN).ok(), Some(Confirmation::OnTerminal));
        let refused = source_of(false, false, "sweep", DRY_RUN).expect_err("nobody can be asked");
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.remedy.as_deref().is_some_and(|remedy| remedy.contains("--yes")), "{:?}", refused.remedy);
    }

    #[test]
    fn what_would_go_is_told_with_kind_id_name_state_and_reason() {
        let one = Planned {
            kind: "server".to_owned(),
            id: "s1".to_owned(),
            name: "web-1".to_owned(),
            state: "running".to_owned(),
            why: "named".to_owned(),
        };
        let reported = rows_within(&[one], None);
        let words: Vec<&str> = reported.split_whitespace().collect();
        assert_eq!(words, ["KIND", "ID", "NAME", "STATE", "WHY", "server", "s1", "web-1", "running", "named"]);
    }

    #[test]
    fn a_narrow_terminal_still_shows_the_name_of_all_that_would_go() {
        let planned = ["web-0nqrsxtrgyns", ""].map(|name| Planned {
            kind: "server".to_owned(),
            id: "0b7d6a51-92a0-4f8c-a0ec-7c8d1f6f8a10".to_owned(),
            name: name.to_owned(),
            state: "running".to_owned(),
            why: "it was made by an operation that nobody knows any more".to_owned(),
        });
        for (width, named, titles) in [
            (80, &planned[..1], &["KIND", "NAME", "STATE", "WHY"][..]),
            (60, &planned[..1], &["KIND", "NAME", "STATE", "WHY"]),
            (40, &planned[..1], &["KIND", "NAME", "WHY"]),
            (60, &planned[..], &["KIND", "NAME", "WHY"]),
        ] {
            let reported = rows_within(named, Some(width));
            assert_eq!(
                reported.lines().next().map(|line| line.split_whitespace().collect()),
                Some(titles.to_vec()),
                "{reported}"
            );
            assert!(reported.lines().all(|line| line.chars().count() <= width), "{width}\n{reported}");
            assert!(reported.contains("web-0nqrsxtrgyns"), "{reported}");
            assert!(named.len() == 1 || reported.contains(&planned[1].id), "one without a name has its id: {reported}");
        }
    }
}
