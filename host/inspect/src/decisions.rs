//! The decision log.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use windlass_policy::{
    DecisionFilter, DecisionList, DecisionReader, DecisionRecord, DecisionSummary, Error, Outcome, UnreadRecords,
};

use crate::Inspector;
use crate::explain::{self, Brief, asked_words, shadow_words};
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{OutputFormat, fields};
use crate::text::{age, bold, instant, printable};
use crate::words::{human_duration, kind_word};

fn unreadable(error: &Error) -> Failure {
    Failure::usage("the decision log cannot be read").because(error.to_string())
}

impl Inspector<'_> {
    fn decision_log(&self) -> Result<DecisionReader, Failure> {
        DecisionReader::open(self.state.handle()).map_err(|error| unreadable(&error))
    }

    /// Decisions, the newest first.
    ///
    /// # Errors
    /// A log that cannot be read.
    pub fn find_decisions(&self, filter: &DecisionFilter) -> Result<DecisionList, Failure> {
        self.decision_log()?.list(filter).map_err(|error| unreadable(&error))
    }

    /// Lists decisions, the newest first. `notes` are said where there are none.
    pub fn decisions(&self, found: DecisionList, notes: &[String]) {
        if found.unreadable > 0 {
            self.output.say(&format!("note: {} lines of the log cannot be read and are left out", found.unreadable));
        }
        if found.is_cut && matches!(self.output.format, OutputFormat::Table | OutputFormat::Wide) {
            let count = found.decisions.len();
            self.output.say(&format!("note: the newest {count} are listed; --limit and --since list others"));
        }
        let decisions: Vec<Listed> = found.decisions.into_iter().map(Listed::from).collect();
        let mut document = json!({ "decisions": decisions, "unreadable": found.unreadable });
        if !notes.is_empty() {
            document["notes"] = json!(notes);
        }
        let decisions = Listing::new(&decisions, "no decisions", |row: &Listed| row.decision.id.to_string())
            .column("decision", |row| row.decision.id.to_string())
            .column("at", |row| instant(row.decision.at_ms))
            .spare(6)
            .wide("age", |row| age(row.decision.at_ms))
            .column("slot", |row| row.decision.slot.to_string())
            .spare(1)
            .column("subject", |row| row.brief.subject.clone())
            .spare(2)
            .column("verdict", |row| row.brief.verdict.clone())
            .column("decided by", |row| row.brief.deciders.join(", "))
            .spare(4)
            .wide("asked", |row| {
                let asked = row.decision.asked.iter().map(|asked| asked.policy.to_string());
                asked.collect::<Vec<_>>().join(", ")
            })
            .wide("took", |row| human_duration(Duration::from_nanos(row.decision.duration_ns)))
            .column("fallback", |row| {
                let fallback = row.decision.asked.iter().find_map(|asked| match &asked.outcome {
                    Outcome::Fallback { kind, .. } => Some(kind_word(kind)),
                    _ => None,
                });
                fallback.unwrap_or_default()
            })
            .spare(3)
            .column("reason", |row| row.decision.reason.clone().unwrap_or_default())
            .spare(5)
            .notes(notes);
        self.output.listing(&document, &decisions);
    }

    /// Whole records, from this instant on (milliseconds since 1970).
    ///
    /// # Errors
    /// A log that cannot be read.
    pub fn decisions_since(&self, at_ms: u64) -> Result<UnreadRecords, Failure> {
        self.decision_log()?.since(at_ms).map_err(|error| unreadable(&error))
    }

    /// Shows one decision, by its id or the beginning of it: in words, or `raw`, as JSON.
    ///
    /// # Errors
    /// There is none, there are several, or the log cannot be read.
    pub fn decision(&self, id: &str, raw: bool) -> Result<(), Failure> {
        let record = self.find_decision(id)?;
        self.output.result(&record, || match raw {
            // JSON writes control characters of ASCII as escapes, but not those above.
            true => pretty(&record).lines().map(|line| format!("{}\n", printable(line))).collect(),
            false => explain::explanation(&record),
        });
        Ok(())
    }

    /// The record of a decision, by its id or the beginning of it.
    ///
    /// # Errors
    /// As [`Inspector::decision`].
    pub fn find_decision(&self, id: &str) -> Result<DecisionRecord, Failure> {
        self.decision_log()?.show(id).map_err(|error| match error {
            Error::Record { .. } => Failure::unknown(error.to_string()).remedy(self.commands.decisions),
            other => unreadable(&other),
        })
    }
}

/// A decision of the list.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    decision: DecisionSummary,
    #[serde(flatten)]
    brief: Brief,
}

impl From<DecisionSummary> for Listed {
    fn from(decision: DecisionSummary) -> Self {
        Self { brief: Brief::of(&decision), decision }
    }
}

fn pretty(record: &DecisionRecord) -> String {
    serde_json::to_string_pretty(record).unwrap_or_default()
}

/// A decision without its question and answer.
#[must_use]
pub fn summary(record: &DecisionRecord) -> String {
    let mut lines = vec![
        ("decision", record.id.to_string()),
        ("slot", record.slot.to_string()),
        ("at", instant(record.at_ms)),
        ("decided by", record.decided_by.to_string()),
        ("reason", record.reason.clone().unwrap_or_else(|| "none given".to_owned())),
        ("took", human_duration(Duration::from_nanos(record.duration_ns))),
    ];
    if record.lost_before > 0 {
        lines.push(("lost before", format!("{} records", record.lost_before)));
    }
    let mut text = fields(&lines);
    text.push_str(&format!("\n{}\n", bold("asked, in order")));
    for (position, asked) in record.asked.iter().enumerate() {
        text.push_str(&asked_words(&format!("{}.", position + 1), asked, ""));
    }
    text.push_str(&shadow_words(record));
    text
}
