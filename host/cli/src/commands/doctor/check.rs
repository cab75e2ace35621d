//! What a look found, as data, and its one line.

use serde::Serialize;
use windlass_inspect::failure::Failure;
use windlass_inspect::text::{bold, dim, green, printable, red, yellow};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    /// All is well.
    Ok,
    /// Something works less well, or not for long.
    Warning,
    /// Something that Windlass needs is not there.
    Failed,
    /// It could not be looked at; the finding says why.
    Skipped,
}

/// One check. Its name is stable: scripts hold on to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What was looked at.
    pub(super) check: &'static str,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// What was found.
    pub(super) finding: String,
    /// What to do about it.
    pub(super) remedy: Option<String>,
}

impl Check {
    fn new(check: &'static str, outcome: Outcome, finding: impl Into<String>) -> Self {
        Check { check, outcome, finding: finding.into(), remedy: None }
    }

    pub(super) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Check::new(check, Outcome::Ok, finding)
    }

    pub(super) fn warning(check: &'static str, finding: impl Into<String>) -> Self {
        Check::new(check, Outcome::Warning, finding)
    }

    pub(super) fn failed(check: &'static str, finding: impl Into<String>) -> Self {
        Check::new(check, Outcome::Failed, finding)
    }

    /// A failure of any command as the finding of a check.
    pub(super) fn of_failure(check: &'static str, failure: &Failure) -> Self {
        let place = failure.place.iter().map(|place| format!("{place}: "));
        let causes = failure.causes.iter().map(|cause| format!("; {cause}"));
        let finding: String = place.chain([failure.message.clone()]).chain(causes).collect();
        Check { remedy: failure.remedy.clone(), ..Check::failed(check, finding) }
    }

    pub(super) fn skipped(check: &'static str, finding: impl Into<String>) -> Self {
        Check::new(check, Outcome::Skipped, finding)
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Document of `doctor`.
#[derive(Debug, Serialize)]
pub(crate) struct Examination {
    pub(super) checks: Vec<Check>,
}

impl Examination {
    /// The names of the checks that failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        self.checks.iter().filter(|check| check.outcome == Outcome::Failed).map(|check| check.check).collect()
    }

    /// A line for each check.
    pub(crate) fn rendered(&self) -> String {
        let width = self.checks.iter().map(|check| check.check.len()).max().unwrap_or_default();
        self.checks.iter().map(|check| line(check, width)).collect()
    }
}

fn line(check: &Check, width: usize) -> String {
    let outcome = match check.outcome {
        Outcome::Ok => green("ok     "),
        Outcome::Warning => yellow("warning"),
        Outcome::Failed => red("failed "),
        Outcome::Skipped => dim("skipped"),
    };
    let name = bold(&format!("{:<width$}", check.check));
    // Findings quote what others said, in as many lines as they liked.
    let one_line = |text: &str| printable(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    let remedy = check.remedy.as_deref().map(|remedy| format!("; try: {}", one_line(remedy))).unwrap_or_default();
    format!("{outcome}  {name}  {}{remedy}\n", one_line(&check.finding))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examination() -> Examination {
        Examination {
            checks: vec![
                Check::ok("clock", "as the API's"),
                Check::failed("credentials", "the key\nis not accepted\u{1b}[2J").remedy("make a new one"),
            ],
        }
    }

    #[test]
    fn each_check_is_one_line_with_its_remedy_and_cannot_steer_the_terminal() {
        let reported = examination().rendered();
        let plain = anstream::adapter::strip_str(&reported).to_string();
        assert_eq!(
            plain,
            "ok       clock        as the API's\n\
             failed   credentials  the key is not accepted\u{fffd}[2J; try: make a new one\n"
        );
    }

    #[test]
    fn only_what_failed_is_counted_as_failed() {
        let mut examination = examination();
        examination.checks.push(Check::skipped("journal", "there is none"));
        examination.checks.push(Check::warning("free-space", "little"));
        assert_eq!(examination.failed(), ["credentials"]);
    }

    #[test]
    fn a_check_in_json_has_its_name_outcome_finding_and_remedy() {
        let document = serde_json::to_value(examination()).expect("serializable");
        assert_eq!(
            document["checks"][0],
            serde_json::json!({"check": "clock", "outcome": "ok", "finding": "as the API's", "remedy": null})
        );
    }
}
