//! `windlass decision`: who decided what, and why.

mod bulk;

use windlass_inspect::failure::Failure;
use windlass_inspect::text::printable;
use windlass_policy::{DecisionFilter, ReplayAgainst};

use crate::arguments::{DecisionCommand, ListDecisions, LoadOptions, ReplayDecision, ShowDecision};
use crate::context::Context;
use crate::policy_file;

pub(crate) async fn run(context: &Context, command: DecisionCommand) -> Result<(), Failure> {
    match command {
        DecisionCommand::List(arguments) => list(context, &arguments).await,
        DecisionCommand::Show(arguments) => show(context, &arguments),
        DecisionCommand::Replay(arguments) => replay(context, arguments).await,
    }
}

async fn list(context: &Context, arguments: &ListDecisions) -> Result<(), Failure> {
    let mut filter = DecisionFilter::default();
    filter.slot = arguments.slot;
    filter.only_fallbacks = arguments.fallbacks;
    filter.policy = arguments.policy.clone();
    filter.limit = arguments.limit as usize;
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let found = inspector.find_decisions(&filter)?;
    let notes = if found.decisions.is_empty() { context.other_owners(&state, false).await } else { Vec::new() };
    inspector.decisions(found, &notes);
    Ok(())
}

fn show(context: &Context, arguments: &ShowDecision) -> Result<(), Failure> {
    context.inspector(&context.state_directory()?).decision(&arguments.decision, arguments.raw)
}

/// Puts the recorded question again: to the policies that were asked then, or to another one.
async fn replay(context: &Context, arguments: ReplayDecision) -> Result<(), Failure> {
    let record = match (&arguments.decision, arguments.since) {
        (_, Some(since)) => return bulk::run(context, &arguments, since),
        (Some(decision), None) => context.inspector(&context.state_directory()?).find_decision(decision)?,
        (None, None) => return Err(Failure::usage("name a decision, or say since when with --since")),
    };
    let state = context.state_directory()?;
    let host = context.policy_host(context.folder_of(&state)?)?;
    let against = match arguments.policy {
        None => ReplayAgainst::TheSame,
        Some(file) => {
            let options = LoadOptions { file, settings: arguments.settings, grants: arguments.grants };
            let link = policy_file::link(context, record.slot, &options)?;
            ReplayAgainst::Policy(policy_file::load(&host, record.slot, &link, &options.file)?)
        }
    };
    let replay = host
        .replay(&record, &against)
        .await
        .map_err(|error| Failure::usage("the decision cannot be replayed").because(error.to_string()))?;
    context.output.result(&replay, || {
        let mut text = String::new();
        let verdict = if replay.same { "the same answer" } else { "another answer" };
        text.push_str(&format!("{verdict}, now decided by {}\n", printable(&replay.decided_by.to_string())));
        for difference in &replay.differences {
            text.push_str(&format!("  {}\n", printable(difference)));
        }
        for excuse in &replay.inconclusive {
            text.push_str(&format!("  which proves nothing: {}\n", printable(excuse)));
        }
        text
    });
    // The same policies must answer the same; that another policy answers otherwise is why it was asked.
    if !replay.same && replay.inconclusive.is_empty() && matches!(against, ReplayAgainst::TheSame) {
        return Err(Failure::undone("the policies that decided then answer otherwise now")
            .because("a policy's decision must depend on nothing but its question and its recorded calls"));
    }
    Ok(())
}
