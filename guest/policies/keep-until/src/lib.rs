//! A policy for `release`: a machine that is marked for debugging stays until the instant that its mark names.

mod instant;

use windlass_guest_sdk::prelude::*;

use release::{Answer, Question};

/// How long a wait is at most. A tag is read again after it, so that one that is moved or taken away counts.
const HOUR: Milliseconds = 3_600_000;

settings! {
    /// Which machines stay, and for how long at most.
    pub struct KeepUntil {
        /// The name of the label, annotation or tag that marks a machine. It has to be among the `labels` of the
        /// configuration's `[policies]`.
        pub label: String = String::from("keep-until"),
        /// No machine stays longer than so many days after its release began, whatever its mark says.
        pub max_days: u32 = 7,
    }
    check(self) {
        match self.label.is_empty() || self.label.contains(|it: char| it == '=' || it.is_whitespace()) {
            true => Err(format!("`label` is {:?}: no label and no tag can have this name", self.label)),
            false => Ok(()),
        }
    }
}

impl Release for KeepUntil {
    fn decide(&self, question: Question) -> Answer {
        let Some(label) = question.subject.labels.iter().find(|label| label.name == self.label) else {
            return Answer::defer();
        };
        let mark = match label.value.as_str() {
            "" => format!("{} without a value", self.label),
            value => format!("{}={value}", self.label),
        };
        // The question does not say when the release began, but how often it was asked, which is once an hour.
        if u64::from(question.attempt) > u64::from(self.max_days) * 24 {
            return Answer::defer()
                .because(format!("{mark} is not heeded any longer: {} days are over", self.max_days));
        }
        match instant::parse(&label.value) {
            Some(until) if until <= question.now => Answer::defer().because(format!("{mark} is over")),
            Some(until) => Answer::retry_after((until - question.now).min(HOUR)).because(format!("it carries {mark}")),
            None => {
                let problem = format!("{mark} is no date as 2026-12-01 or 2026-12-01T18:00:00Z");
                log::warn(format!("{}: {problem}", question.machine.name));
                Answer::retry_after(HOUR).because(format!("{problem}: it stays for {} days at most", self.max_days))
            }
        }
    }
}

export_policy!(KeepUntil: release);

#[cfg(test)]
mod tests {
    use release::{MachineKind, Verdict};
    use windlass_guest_sdk::testing::{FakeHost, NOW, configure, machine, release_question};
    use windlass_guest_sdk::types::Label;

    use super::*;

    /// Asked about an instance with this mark, for the so-manieth time, at the beginning of 2026.
    fn decide(value: &str, attempt: u32) -> Answer {
        let mut question = release_question(machine(MachineKind::Instance));
        question.subject.labels = vec![Label { name: "keep-until".into(), value: value.into() }];
        ask(Question { attempt, ..question })
    }

    fn ask(question: Question) -> Answer {
        let policy: KeepUntil = configure("{}").unwrap_or_else(|error| panic!("{error}"));
        FakeHost::new().run(|| policy.decide(question)).answer
    }

    #[test]
    fn a_marked_machine_stays_until_its_mark_hour_by_hour() {
        for (value, wait) in [("2026-01-05", HOUR), ("2026-01-01", HOUR), ("2026-01-01T00:30:00Z", HOUR / 2)] {
            assert_eq!(decide(value, 1).verdict, Verdict::RetryAfter(wait), "{value}");
        }
    }

    #[test]
    fn a_machine_whose_mark_is_over_goes_on() {
        for value in ["2025-12-31", "2026-01-01T00:00:00Z"] {
            assert_eq!(decide(value, 1).verdict, Verdict::Defer, "{value}");
        }
    }

    #[test]
    fn a_mark_far_ahead_or_unreadable_holds_for_max_days_at_most() {
        for value in ["9999-12-31", "friday", ""] {
            assert_eq!(decide(value, 7 * 24).verdict, Verdict::RetryAfter(HOUR), "{value}");
            assert_eq!(decide(value, 7 * 24 + 1).verdict, Verdict::Defer, "{value}");
        }
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_told_in_reason_and_log() {
        let mut question = release_question(machine(MachineKind::Instance));
        question.subject.labels = vec![Label { name: "keep-until".into(), value: "friday".into() }];
        let policy: KeepUntil = configure("{}").unwrap_or_else(|error| panic!("{error}"));
        let run = FakeHost::new().run(|| policy.decide(question));
        assert!(run.answer.reason.is_some_and(|reason| reason.contains("keep-until=friday is no date")));
        assert!(run.log[0].message.contains("keep-until=friday is no date"));
    }

    #[test]
    fn a_machine_without_the_mark_is_left_to_the_next_policy() {
        let mut question = release_question(machine(MachineKind::AppleSiliconServer));
        question.subject.labels = vec![Label { name: "team".into(), value: "2026-01-05".into() }];
        assert_eq!(ask(question), Answer::defer());
    }

    #[test]
    fn a_label_that_nothing_can_carry_is_refused() {
        for label in ["", "a=b", " keep-until"] {
            let settings = format!(r#"{{"label": "{label}"}}"#);
            let refused = configure::<KeepUntil>(&settings).map(|_| ()).err().unwrap_or_default();
            assert!(refused.contains("no label and no tag"), "{label}: {refused}");
        }
    }

    #[test]
    fn without_a_day_nothing_stays() {
        let policy: KeepUntil = configure(r#"{"max-days": 0}"#).unwrap_or_else(|error| panic!("{error}"));
        let mut question = release_question(machine(MachineKind::Instance));
        question.subject.labels = vec![Label { name: "keep-until".into(), value: "2026-01-05".into() }];
        assert_eq!(question.now, NOW);
        assert_eq!(policy.decide(question).verdict, Verdict::Defer);
    }
}
