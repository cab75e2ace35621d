//! `windlass decision`: who decided what, and why.

mod bulk;

use windlass_inspect::failure::Failure;
use windlass_inspect::text::{before_now, printable};
use windlass_policy::slots::SlotName;
use windlass_policy::{DecisionFilter, Host, PinnedPolicies, ReplayAgainst};

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
    filter.only_removals = arguments.removals;
    filter.since_ms = arguments.since.map(before_now);
    filter.policy = arguments.policy.clone();
    filter.limit = arguments.limit as usize;
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    let found = inspector.find_decisions(&filter)?;
    let mut notes = if found.decisions.is_empty() { context.other_owners(&state, false).await } else { Vec::new() };
    if let Some(policy) = arguments.policy.as_ref().filter(|_| found.decisions.is_empty()) {
        notes.insert(
            0,
            format!("no such decision asked a policy {policy}; `windlass policy list` names those that are configured"),
        );
    }
    if arguments.removals && state.shared_log().is_some() {
        context.output.say("note: these were decided on this machine; for all: windlass operation list --removals");
    }
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
    let (host, against) = match &arguments.policy {
        None => (recorded_host(context)?, ReplayAgainst::TheSame),
        Some(_) => {
            let host = policy_file::trial_host(context)?;
            let pin = candidate(context, &host, record.slot, &arguments)?;
            (host, ReplayAgainst::Pinned(pin))
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
        for failed in &replay.failed {
            text.push_str(&format!("  {}\n", printable(&failed.to_string())));
        }
        text
    });
    let changes = !replay.failed.is_empty() || (!replay.same && replay.inconclusive.is_empty());
    match against {
        ReplayAgainst::TheSame if changes => Err(impure()),
        // That another policy answers otherwise is why it was asked.
        ReplayAgainst::Pinned(_) if changes && arguments.fail_on_change => Err(match replay.failed.is_empty() {
            true => Failure::undone("the verdict changes"),
            false => Failure::undone("the policy fails"),
        }),
        _ => Ok(()),
    }
}

/// The host that has the policies that decided then.
fn recorded_host(context: &Context) -> Result<Host, Failure> {
    let state = context.state_directory()?;
    context.replaying_policy_host(context.folder_of(&state)?)
}

/// The configured policies with the one that `--policy` names among them, in the place that it has in the configuration
/// or before all.
fn candidate(
    context: &Context,
    host: &Host,
    slot: SlotName,
    arguments: &ReplayDecision,
) -> Result<PinnedPolicies, Failure> {
    let file = arguments.policy.clone().unwrap_or_default();
    let options = LoadOptions { file, settings: arguments.settings.clone(), grants: arguments.grants.clone() };
    let link = policy_file::link(context, slot, &options)?;
    policy_file::load(host, slot, &link, &options.file)?;
    let policies = policy_file::chain_with(&context.configuration.policies, slot, Some((&options.file, &link)));
    host.configure(&policies).map_err(|error| {
        Failure::usage("the configured policies cannot be used")
            .because(error.to_string())
            .remedy("windlass policy list")
    })?;
    Ok(host.pin())
}

fn impure() -> Failure {
    Failure::undone("the policies that decided then answer otherwise now")
        .because("a policy's decision must depend on nothing but its question and its recorded calls")
}
