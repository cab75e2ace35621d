//! What happened, to take along: one file, for a ticket or a post-mortem.

use std::fmt::Write as _;

use maud::html;
use windlass_inspect::text::{instant, printable};
use windlass_inspect::timeline::End;
use windlass_inspect::words::{cause_words, human_duration};
use windlass_lifecycle::{OperationFilter, OperationState, StateDirectory};

use crate::Error;
use crate::pages::{self, Frame};
use crate::read::{OperationView, Source};

/// Operations of one report at most.
const MAX_OPERATIONS: usize = 1_000;

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// One page that needs nothing but itself.
    Html,
    Markdown,
}

#[derive(Debug)]
pub struct Report {
    source: Source,
    operations: Vec<OperationView>,
    title: String,
    more: bool,
}

impl Report {
    /// The report of one operation.
    ///
    /// # Errors
    /// There is none of this id, or the journal cannot be read.
    pub fn of_operation(state: StateDirectory, id: &str) -> Result<Self, Error> {
        let source = Source::new(state);
        let operation = source.operation(id)?;
        Ok(Self { title: format!("Operation {id}"), operations: vec![operation], source, more: false })
    }

    /// The report of all operations that began at this instant or later, in milliseconds since 1970.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn since(state: StateDirectory, at_ms: u64) -> Result<Self, Error> {
        let source = Source::new(state);
        let (mut found, mut before, mut more) = (Vec::new(), None, false);
        loop {
            let mut filter = OperationFilter::default();
            filter.before = before;
            let (operations, next) = source.operations(filter)?;
            let of_page = operations.len();
            let young: Vec<_> = operations.into_iter().filter(|operation| operation.created_at >= at_ms).collect();
            let all_young = young.len() == of_page;
            found.extend(young);
            if found.len() > MAX_OPERATIONS {
                found.truncate(MAX_OPERATIONS);
                more = true;
                break;
            }
            match next {
                Some(next) if all_young => before = Some(next),
                _ => break,
            }
        }
        let operations = found.iter().map(|found| source.operation(found.id.as_str())).collect::<Result<_, _>>()?;
        Ok(Self { title: format!("Since {}", instant(at_ms)), operations, source, more })
    }

    /// How many operations it tells of.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations.len()
    }

    /// The text of the file.
    #[must_use]
    pub fn write(&self, format: ReportFormat) -> String {
        match format {
            ReportFormat::Html => self.html(),
            ReportFormat::Markdown => self.markdown(),
        }
    }

    fn html(&self) -> String {
        let content = html! {
            @if self.operations.len() != 1 {
                h1 { (self.title) }
                p { (self.operations.len()) " operations" @if self.more { ", the newest; there are more" } "." }
            }
            @for view in &self.operations { article id=(view.operation.id) { (pages::operation(view)) } }
        };
        pages::page(&self.title, Frame::Alone, &self.source.path(), &content).into_string()
    }

    fn markdown(&self) -> String {
        let mut text = format!("# {}\n", plain(&self.title));
        if self.more {
            text.push_str("\nThe newest operations; there are more.\n");
        }
        for view in &self.operations {
            let operation = &view.operation;
            let took = operation.took().map_or_else(|| "not ended".to_owned(), |took| format!("took {}", words(took)));
            let _ = write!(
                text,
                "\n## {} `{}`: {}\n\n- group {}, zone {}\n- began {}, {took}\n",
                operation.kind,
                operation.id,
                operation.state,
                plain(&operation.group),
                plain(&operation.zone),
                instant(operation.created_at),
            );
            if let Some(requested) = operation.requested_by() {
                let _ = writeln!(text, "- requested by {}", plain(&requested.to_string()));
            }
            if let Some(cause) = &operation.cause {
                let _ = writeln!(text, "- failed: {}", plain(&cause_words(cause)));
            }
            for reason in &operation.reasons {
                let _ = writeln!(text, "- “{}”", plain(reason));
            }
            text.push_str("\n| after | step | took | end |\n|---|---|---|---|\n");
            for step in &view.steps {
                let resource = step.resource.as_ref().map(|of| format!(" {} {}", of.kind, of.id)).unwrap_or_default();
                let end = match step.end {
                    End::Open => "open",
                    End::Done => "done",
                    End::Failed => "failed",
                    End::Note => "noted",
                };
                let again = match step.attempts.len() {
                    0 => String::new(),
                    count => format!(" ({count} failed attempts)"),
                };
                let _ = writeln!(
                    text,
                    "| {} | {}{} | {} | {end}{again} |",
                    words(step.began.saturating_sub(operation.created_at)),
                    plain(&step.name),
                    plain(&resource),
                    step.ended.map(|ended| words(ended.saturating_sub(step.began))).unwrap_or_default(),
                );
            }
            if operation.state == OperationState::Left {
                text.push_str("\nSomething is left: the next start of a host tries again.\n");
            }
        }
        text
    }
}

fn words(milliseconds: u64) -> String {
    human_duration(std::time::Duration::from_millis(milliseconds))
}

/// Text from outside, so that it is neither a tag nor a mark of Markdown.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in printable(text).chars() {
        if character.is_ascii_punctuation() && !matches!(character, '.' | ',' | ':' | '/' | '-' | '(' | ')') {
            plain.push('\\');
        }
        plain.push(character);
    }
    plain
}
