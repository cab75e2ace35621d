//! `windlass policy diff`: what changes from one policy to another.

use std::path::Path;

use windlass_inspect::failure::Failure;
use windlass_inspect::text::{bold, printable};
use windlass_policy::DecisionReader;
use windlass_proof::diff::{Difference, diff};

use super::prove::{grouped, name_of, options};
use crate::arguments::{DiffPolicies, LoadOptions};
use crate::context::Context;
use crate::policy_file::{link_or_default, load, only_slot, trial_host};
use crate::units::ago;

pub(super) fn run(context: &Context, arguments: &DiffPolicies) -> Result<(), Failure> {
    let host = trial_host(context)?;
    let slot = only_slot(arguments.slot, [arguments.new.as_path(), arguments.old.as_path()])?;
    let policy = |file: &Path| {
        let options = LoadOptions {
            file: file.to_owned(),
            settings: arguments.settings.clone(),
            grants: arguments.grants.clone(),
        };
        load(&host, slot, &link_or_default(context, slot, &options)?, file)
    };
    let (old, new) = (policy(&arguments.old)?, policy(&arguments.new)?);
    let since = arguments.since.map_or(0, ago);
    let recorded = DecisionReader::open(context.state_directory()?.handle())
        .and_then(|log| log.since(since))
        .map_err(|error| Failure::usage("the decision log cannot be read").because(error.to_string()))?;
    let found = diff(&old, &new, &recorded.records, &options(&arguments.space, &[&old, &new]))
        .map_err(|error| Failure::usage(error.to_string()).remedy("windlass help policy diff"))?;
    context.output.result(&found, || words(&found, arguments));
    if arguments.fail_on_change && !found.groups.is_empty() {
        return Err(Failure::undone("verdicts change"));
    }
    Ok(())
}

fn words(found: &Difference, arguments: &DiffPolicies) -> String {
    let mut text = format!(
        "from {} to {}: {} questions asked, {} of them recorded\n",
        name_of(&arguments.old),
        name_of(&arguments.new),
        grouped(found.asked),
        grouped(found.recorded)
    );
    if found.groups.is_empty() {
        text.push_str("no verdict changes\n");
    }
    for group in &found.groups {
        text.push_str(&format!("\n{} -> {}: {}\n", bold(&group.before), bold(&group.after), grouped(group.count)));
        let place = group.decision.map_or_else(String::new, |decision| format!("decision {decision}, "));
        text.push_str(&format!("  for example: {place}the example with {}\n", printable(&group.question.to_string())));
        text.push_str(&format!("    before: {}\n", printable(&group.answer_before.to_string())));
        text.push_str(&format!("    after:  {}\n", printable(&group.answer_after.to_string())));
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
