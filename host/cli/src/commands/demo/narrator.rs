//! Who tells the story of the demo.

use serde::Serialize;
use windlass_inspect::output::{Output, print};
use windlass_inspect::text::{bold, printable};

/// Tells the story: at once to people, at its end as one document to programs.
pub(super) struct Narrator {
    output: Output,
    acts: Vec<Act>,
}

/// One act of the story in the document.
#[derive(Debug, Serialize)]
pub(super) struct Act {
    title: String,
    lines: Vec<String>,
}

impl Narrator {
    pub(super) fn new(output: Output) -> Self {
        Self { output, acts: Vec::new() }
    }

    /// The text so far.
    pub(super) fn acts(&self) -> &[Act] {
        &self.acts
    }

    pub(super) fn act(&mut self, title: &str) {
        if !self.output.is_document() {
            print(&format!("\n{} {}\n", bold(&format!("{}", self.acts.len() + 1)), bold(title)));
        }
        self.acts.push(Act { title: title.to_owned(), lines: Vec::new() });
    }

    /// One line of the act. `paint` colours it for people.
    pub(super) fn line(&mut self, line: &str, paint: fn(&str) -> String) {
        let line = printable(line);
        if !self.output.is_document() {
            print(&format!("  {}\n", paint(&line)));
        }
        if let Some(act) = self.acts.last_mut() {
            act.lines.push(line);
        }
    }

    pub(super) fn plain(&mut self, line: &str) {
        self.line(line, str::to_owned);
    }
}
