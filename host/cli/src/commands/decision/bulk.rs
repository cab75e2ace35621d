//! `windlass decision replay --since`: all decisions of some time at once.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_inspect::failure::Failure;
use windlass_inspect::output::table;
use windlass_inspect::text::{before_now, printable};
use windlass_inspect::words::counted;
use windlass_policy::slots::SlotName;
use windlass_policy::{PinnedPolicies, ReplayAgainst};
use windlass_proof::replay::{BulkReplay, replay};

use crate::arguments::ReplayDecision;
use crate::context::Context;
use crate::policy_file::{self, read_policy};
use crate::units::human_duration;

pub(super) fn run(context: &Context, arguments: &ReplayDecision, since: Duration) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let found = context.inspector(&state).decisions_since(before_now(since))?;
    if found.unreadable > 0 {
        context.output.say(&format!("note: {} lines of the log cannot be read and are left out", found.unreadable));
    }
    let host = match arguments.policy {
        None => super::recorded_host(context)?,
        Some(_) => policy_file::trial_host(context)?,
    };
    let mut candidates: Vec<(SlotName, PinnedPolicies)> = Vec::new();
    if let Some(file) = &arguments.policy {
        let bytes = read_policy(file)?;
        let slots = match arguments.slot {
            Some(slot) => vec![slot],
            None => policy_file::slots_of(file, &bytes)?,
        };
        for slot in slots {
            candidates.push((slot, super::candidate(context, &host, slot, arguments)?));
        }
        if candidates.is_empty() {
            return Err(Failure::usage("the policy exports no slot")
                .at(file.display().to_string())
                .remedy(format!("windlass policy inspect {}", file.display())));
        }
    }
    let against = |slot: SlotName| {
        if arguments.slot.is_some_and(|only| only != slot) {
            return None;
        }
        if arguments.policy.is_none() {
            return Some(ReplayAgainst::TheSame);
        }
        candidates.iter().find(|(known, _)| *known == slot).map(|(_, pin)| ReplayAgainst::Pinned(pin.clone()))
    };
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let began = Instant::now();
    let replayed = replay(&host, &found.records, &against, threads);
    let took = began.elapsed();
    let mut document = serde_json::to_value(&replayed).unwrap_or_default();
    document["unreadable"] = json!(found.unreadable);
    document["took_ms"] = json!(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    context.output.result(&document, || rendered(&replayed, took));
    let changes = !replayed.groups.is_empty() || !replayed.policy_failures.is_empty();
    if arguments.policy.is_none() && changes {
        return Err(super::impure());
    }
    let problem = match () {
        () if !replayed.policy_failures.is_empty() => "the policy fails",
        () if changes => "verdicts change",
        () if !replayed.failed.is_empty() => "some decisions cannot be replayed, so whether they change is not known",
        () if replayed.replayed == 0 => "no decision was replayed, so nothing is known",
        () => return Ok(()),
    };
    if arguments.fail_on_change { Err(Failure::undone(problem)) } else { Ok(()) }
}

fn rendered(replayed: &BulkReplay, took: Duration) -> String {
    let mut text = format!(
        "{} replayed in {}: {} the same",
        counted(replayed.replayed as usize, "decision"),
        human_duration(took),
        replayed.same
    );
    if replayed.only_reasons > 0 {
        text.push_str(&format!(", {} for another reason", replayed.only_reasons));
    }
    if replayed.inconclusive > 0 {
        text.push_str(&format!(", {} otherwise, which proves nothing", replayed.inconclusive));
    }
    text.push('\n');
    if !replayed.groups.is_empty() {
        text.push('\n');
        text.push_str(&table(
            &["slot", "recorded", "now", "how many", "for example"],
            replayed.groups.iter().map(|group| {
                vec![
                    group.slot.to_string(),
                    group.recorded.clone(),
                    group.now.clone(),
                    group.count.to_string(),
                    group.decision.to_string(),
                ]
            }),
        ));
    }
    let policy_failures = replayed.policy_failures.iter().map(|failure| ("times", failure));
    let failed = replayed.failed.iter().map(|failure| ("cannot be replayed", failure));
    for (what, failure) in policy_failures.chain(failed) {
        let problem = printable(&failure.problem);
        text.push_str(&format!("{} {what}, {} for example: {problem}\n", failure.count, failure.decision));
    }
    text
}
