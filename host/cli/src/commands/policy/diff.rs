//! `windlass policy diff`: what changes from one policy to another.

use std::path::{Path, PathBuf};

use windlass_inspect::failure::Failure;
use windlass_inspect::text::{before_now, bold, printable};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionReader, Link};
use windlass_proof::diff::{Compared, Difference, diff};

use super::prove::{grouped, name_of, options, shown};
use crate::arguments::{DiffPolicies, LoadOptions};
use crate::context::Context;
use crate::policy_file::{BUILT_IN, link_or_default, load, only_slot, read_policy, slots_of, trial_host};

/// How many questions each policy is asked by default: some seconds on two cores.
const QUESTIONS: u64 = 1_000_000;

pub(super) fn run(context: &Context, arguments: &DiffPolicies) -> Result<(), Failure> {
    let host = trial_host(context)?;
    let slot = only_slot(arguments.slot, [arguments.new.as_path(), arguments.old.as_path()])?;
    if arguments.slot.is_none() {
        refuse_another_slot(slot, [&arguments.old, &arguments.new])?;
    }
    let policy = |file: &Path| {
        let options = LoadOptions {
            file: file.to_owned(),
            settings: arguments.settings.clone(),
            grants: arguments.grants.clone(),
        };
        load(&host, slot, &link_or_default(context, slot, &options)?, file)
    };
    let (old, new) = (policy(&arguments.old)?, policy(&arguments.new)?);
    let since = arguments.since.map_or(0, before_now);
    let recorded = DecisionReader::open(context.state_directory()?.handle())
        .and_then(|log| log.since(since))
        .map_err(|error| Failure::usage("the decision log cannot be read").because(error.to_string()))?;
    let default = load(&host, slot, &Link::default(), Path::new(BUILT_IN))?;
    let mut options = options(&arguments.space, &[&old, &new]);
    if arguments.space.questions.is_none() {
        options.enumerated = options.enumerated.min(QUESTIONS);
    }
    let compared = Compared { before: &old, after: &new, default: &default };
    context.output.say(&format!("asking {} and {}", name_of(&arguments.old), name_of(&arguments.new)));
    let found = shown(context, &options, || diff(compared, &recorded.records, &options))
        .map_err(|error| Failure::usage(error.to_string()).remedy("windlass help policy diff"))?;
    context.output.result(&found, || rendered(&found, arguments));
    if arguments.fail_on_change && found.failed_after > 0 {
        Err(Failure::undone("the new policy fails"))
    } else if arguments.fail_on_change && !found.groups.is_empty() {
        Err(Failure::undone("verdicts change"))
    } else {
        Ok(())
    }
}

/// Where nobody has named the slot, a file that does not decide it is not what is wrong: the two do not go together.
fn refuse_another_slot(slot: SlotName, files: [&PathBuf; 2]) -> Result<(), Failure> {
    let mut decided = Vec::new();
    for file in files.into_iter().filter(|file| file.as_path() != Path::new(BUILT_IN) && file.is_file()) {
        decided.push((file, slots_of(file, &read_policy(file)?)?));
    }
    if decided.iter().all(|(_, slots)| slots.contains(&slot)) {
        return Ok(());
    }
    let failure = Failure::usage("the two policies decide different slots: there is nothing to compare")
        .remedy("name two policies of one slot; `default` is the built-in one");
    Err(decided.iter().fold(failure, |failure, (file, slots)| {
        let slots: Vec<&str> = slots.iter().map(|slot| slot.as_str()).collect();
        failure.because(format!("{} decides {}", file.display(), slots.join(", ")))
    }))
}

fn rendered(found: &Difference, arguments: &DiffPolicies) -> String {
    let mut text = format!(
        "from {} to {}: {} questions asked, {} of them recorded\n",
        name_of(&arguments.old),
        name_of(&arguments.new),
        grouped(found.asked),
        grouped(found.recorded)
    );
    for (file, deferred, failed) in [
        (&arguments.old, found.deferred_before, found.failed_before),
        (&arguments.new, found.deferred_after, found.failed_after),
    ] {
        let name = name_of(file);
        if deferred > 0 {
            text.push_str(&format!("{name} defers {} answers\n", grouped(deferred)));
        }
        if failed > 0 {
            text.push_str(&format!("{name} fails on {} questions\n", grouped(failed)));
        }
    }
    if found.deferred_by_one > 0 {
        text.push_str(&format!(
            "{} answers are left to the next policy; they are compared as if that were the built-in default\n",
            grouped(found.deferred_by_one)
        ));
    }
    if found.groups.is_empty() {
        text.push_str("no verdict changes\n");
    }
    for group in &found.groups {
        text.push_str(&format!("\n{} -> {}: {}\n", bold(&group.before), bold(&group.after), grouped(group.count)));
        let place = group.decision.map_or_else(String::new, |decision| format!("decision {decision}, "));
        text.push_str(&format!("  for example: {place}the example with {}\n", printable(&group.question.to_string())));
        for (when, answer, deferred) in [
            ("before:", &group.answer_before, group.deferred_before),
            ("after: ", &group.answer_after, group.deferred_after),
        ] {
            let by = if deferred { " (deferred; the built-in default's)" } else { "" };
            text.push_str(&format!("    {when} {}{by}\n", printable(&answer.to_string())));
        }
    }
    if found.only_reasons > 0 {
        text.push_str(&format!("\nonly the reason changes: {}\n", grouped(found.only_reasons)));
    }
    if found.unreadable > 0 {
        text.push_str(&format!("left out: {} decisions whose question is not on record\n", grouped(found.unreadable)));
    }
    let bounds = if found.exhaustive { "all questions" } else { "a part of the questions" };
    text.push_str(&format!("\n{bounds} within the bounds that `windlass policy prove` states\n"));
    text
}
