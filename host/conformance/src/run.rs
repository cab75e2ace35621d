//! A run: every question in turn, and then everything is removed, whatever happened.

use serde::Serialize;
use tokio::time::Instant;
use windlass_lifecycle::{Control, Limits};

use crate::api::{Api, Stop};
use crate::bench::Bench;
use crate::plan::Plan;
use crate::probe::Verdict;
use crate::remove::{Leftover, Removed, remove_all};

/// One question and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answered {
    /// The assumption.
    pub id: &'static str,
    /// What is assumed.
    pub title: &'static str,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What relies on the assumption, if it is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relied_on: Option<&'static str>,
    /// What happens then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_wrong: Option<&'static str>,
    /// How long it took.
    pub milliseconds: u64,
}

/// What a run found, and what became of what it made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version that asked.
    pub windlass: &'static str,
    /// Where.
    pub zone: String,
    /// Whose tag everything carried.
    pub owner: String,
    /// The server type that was to be used.
    pub server_type: Option<String>,
    /// The answers, in order.
    pub probes: Vec<Answered>,
    /// Whether it was called off before the last question.
    pub called_off: bool,
    /// How many of the resources that it made are proven gone.
    pub removed: usize,
    /// What could not be proven gone.
    pub left: Vec<Leftover>,
}

impl Report {
    /// Whether every assumption that was asked about holds.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        self.probes.iter().all(|answered| answered.verdict == Verdict::Holds)
    }

    /// How many came out as this word says: `holds`, `broken`, `unknown`.
    #[must_use]
    pub fn count(&self, word: &str) -> usize {
        self.probes.iter().filter(|answered| answered.verdict.word() == word).count()
    }
}

impl Plan {
    /// Puts the questions and removes everything that was made for them: also when one fails, when the time is up,
    /// and when the control cancels. (Its second word, [`Control::leave`], ends the removal, too; what is left is
    /// then listed.)
    ///
    /// `tell` hears of each answer as it comes.
    pub async fn run(self, control: &Control, mut tell: impl FnMut(&Answered) + Send) -> Report {
        let api = Api::asking(self.client.clone(), self.zone.clone(), control.clone(), self.bounds.asking);
        let server_type = self.server().map(|choice| choice.server_type.clone());
        let mut bench = Bench::new(api, self.owner.clone(), self.servers);
        let mut probes = Vec::new();
        let mut stopped: Option<Stop> = None;
        for probe in self.probes {
            let began = Instant::now();
            let asked = match &stopped {
                Some(stop) => Err(stop.clone()),
                None => (probe.ask)(&mut bench).await,
            };
            let verdict = asked.unwrap_or_else(|stop| {
                let why = stop.words();
                if !matches!(stop, Stop::Unknown(_)) {
                    stopped = Some(stop);
                }
                Verdict::Unknown { why }
            });
            tracing::info!(probe = probe.id, verdict = verdict.word(), details = verdict.details(), "asked");
            let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let broken = matches!(verdict, Verdict::Broken { .. }).then_some(probe.assumption);
            let answered = Answered {
                id: probe.id,
                title: probe.title,
                verdict,
                relied_on: broken.map(|assumption| assumption.relied_on),
                if_wrong: broken.map(|assumption| assumption.if_wrong),
                milliseconds,
            };
            tell(&answered);
            probes.push(answered);
        }
        let removing = bench.api.removing(self.bounds.removing);
        let settle = Limits::default().settle;
        let removed = if bench.made().is_empty() && !removing.lost_an_answer() {
            Removed::default()
        } else {
            remove_all(&removing, &self.zone, bench.made(), &bench.owner_tag(), settle).await
        };
        Report {
            windlass: env!("CARGO_PKG_VERSION"),
            zone: self.zone.to_string(),
            owner: self.owner.to_string(),
            server_type,
            probes,
            called_off: stopped == Some(Stop::Ended),
            removed: removed.gone.len(),
            left: removed.left,
        }
    }
}
