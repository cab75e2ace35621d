//! `windlass policy shadow`: what shadows would have decided, held against what was decided.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_inspect::failure::Failure;
use windlass_inspect::output::table;
use windlass_inspect::text::{bold, printable};
use windlass_policy::{DecisionReader, ShadowAgreement, ShadowFilter};

use crate::arguments::ShadowPolicy;
use crate::context::Context;

pub(super) fn run(context: &Context, arguments: &ShadowPolicy) -> Result<(), Failure> {
    let unreadable =
        |error: windlass_policy::Error| Failure::usage("the decision log cannot be read").because(error.to_string());
    let since_ms = arguments.since.map_or(0, |since| {
        let earliest = SystemTime::now().checked_sub(since).and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        earliest.and_then(|at| u64::try_from(at.as_millis()).ok()).unwrap_or_default()
    });
    let filter = ShadowFilter { since_ms, slot: arguments.slot, policy: arguments.policy.clone() };
    let log = DecisionReader::open(context.state_directory()?.handle()).map_err(unreadable)?;
    let report = log.shadows(&filter).map_err(unreadable)?;
    if report.unreadable > 0 {
        context.output.say(&format!("note: {} lines of the log cannot be read and are left out", report.unreadable));
    }
    context.output.result(&report, || {
        if report.shadows.is_empty() {
            return "no shadow was asked\n".to_owned();
        }
        report.shadows.iter().map(rendered).collect::<Vec<_>>().join("\n")
    });
    let (differed, failed) = report
        .shadows
        .iter()
        .fold((0, 0), |(differed, failed), shadow| (differed + shadow.differed, failed + shadow.failed));
    let asked = report.shadows.iter().any(|shadow| shadow.agreed + shadow.differed + shadow.failed > 0);
    if arguments.fail_on_difference && !asked {
        return Err(Failure::undone("no shadow's answer is on record, so nothing is known")
            .remedy("windlass policy status, for the policies that are asked; or a longer --since"));
    }
    if arguments.fail_on_difference && differed + failed > 0 {
        return Err(Failure::undone("shadows would not have decided the same")
            .because(format!("they differed in {differed} decisions and failed in {failed}")));
    }
    Ok(())
}

fn rendered(shadow: &ShadowAgreement) -> String {
    let policy = printable(&shadow.policy.to_string());
    let mut text = format!("{} {policy}\n", bold(shadow.policy.slot.as_str()));
    text.push_str(&format!(
        "agreed in {} decisions, differed in {}, failed in {}, not comparable in {}, not asked in {}\n",
        shadow.agreed, shadow.differed, shadow.failed, shadow.not_comparable, shadow.not_asked
    ));
    if !shadow.differences.is_empty() {
        text.push_str(&table(
            &["decided", "the shadow", "times", "for example"],
            shadow.differences.iter().map(|difference| {
                let answered = match difference.decided == difference.shadow {
                    true => format!("{}, another one", difference.shadow),
                    false => difference.shadow.clone(),
                };
                let (decided, example) = (difference.decided.clone(), difference.example.to_string());
                vec![decided, answered, difference.count.to_string(), example]
            }),
        ));
    }
    if !shadow.failures.is_empty() {
        text.push_str(&table(
            &["failed", "times", "for example", "why"],
            shadow.failures.iter().map(|failure| {
                let kind = windlass_inspect::words::kind_word(&failure.kind);
                vec![kind, failure.count.to_string(), failure.example.to_string(), failure.reason.clone()]
            }),
        ));
    }
    text
}
