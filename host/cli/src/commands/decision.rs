//! `windlass decision`: who decided what, and why.

mod bulk;
mod explain;

use std::time::{Duration, SystemTime};

use windlass_policy::{
    DecisionFilter, DecisionReader, DecisionRecord, DecisionSummary, Error, LinkRecord, Outcome, ReplayAgainst,
};

use crate::arguments::{DecisionCommand, ListDecisions, LoadOptions, ReplayDecision, ShowDecision};
use crate::context::Context;
use crate::failure::Failure;
use crate::listing::Listing;
use crate::output::{age, bold, fields, instant, printable};
use crate::units::human_duration;

pub(crate) async fn run(context: &Context, command: DecisionCommand) -> Result<(), Failure> {
    match command {
        DecisionCommand::List(arguments) => list(context, &arguments),
        DecisionCommand::Show(arguments) => show(context, &arguments),
        DecisionCommand::Replay(arguments) => replay(context, arguments).await,
    }
}

/// The instant so long ago, in milliseconds since 1970.
pub(crate) fn ago(long: Duration) -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.saturating_sub(long).as_millis()).unwrap_or(u64::MAX)
}

fn log(context: &Context) -> Result<DecisionReader, Failure> {
    DecisionReader::open(context.state_directory()?.handle()).map_err(|error| unreadable(&error))
}

fn unreadable(error: &Error) -> Failure {
    Failure::usage("the decision log cannot be read").because(error.to_string())
}

fn list(context: &Context, arguments: &ListDecisions) -> Result<(), Failure> {
    let mut filter = DecisionFilter::default();
    filter.slot = arguments.slot;
    filter.only_fallbacks = arguments.fallbacks;
    filter.policy = arguments.policy.clone();
    filter.limit = arguments.limit as usize;
    let found = log(context)?.list(&filter).map_err(|error| unreadable(&error))?;
    if found.unreadable > 0 {
        context.output.say(&format!("note: {} lines of the log cannot be read and are left out", found.unreadable));
    }
    let decisions =
        Listing::new(&found.decisions, "no decisions", |decision: &DecisionSummary| decision.id.to_string())
            .column("decision", |decision| decision.id.to_string())
            .column("at", |decision| instant(decision.at_ms))
            .wide("age", |decision| age(decision.at_ms))
            .column("slot", |decision| decision.slot.to_string())
            .column("decided by", |decision| decision.decided_by.to_string())
            .wide("asked", |decision| {
                let asked = decision.asked.iter().map(|asked| asked.policy.to_string());
                asked.collect::<Vec<_>>().join(", ")
            })
            .column("took", |decision| human_duration(Duration::from_nanos(decision.duration_ns)))
            .column("fallback", |decision| {
                let fallback = decision.asked.iter().find_map(|asked| match &asked.outcome {
                    Outcome::Fallback { kind, .. } => Some(kind_word(kind)),
                    _ => None,
                });
                fallback.unwrap_or_default()
            })
            .column("reason", |decision| decision.reason.clone().unwrap_or_default());
    context.output.listing(&found, &decisions);
    Ok(())
}

fn show(context: &Context, arguments: &ShowDecision) -> Result<(), Failure> {
    let record = find(context, &arguments.decision)?;
    context.output.result(&record, || match arguments.raw {
        // JSON writes control characters of ASCII as escapes, but not those above.
        true => pretty(&record).lines().map(|line| format!("{}\n", printable(line))).collect(),
        false => explain::explanation(&record),
    });
    Ok(())
}

fn pretty(record: &DecisionRecord) -> String {
    serde_json::to_string_pretty(record).unwrap_or_default()
}

fn find(context: &Context, id: &str) -> Result<DecisionRecord, Failure> {
    log(context)?.show(id).map_err(|error| match error {
        Error::Record { .. } => Failure::usage(error.to_string()).remedy("windlass decision list"),
        other => unreadable(&other),
    })
}

/// Puts the recorded question again: to the policies that were asked then, or to another one.
async fn replay(context: &Context, arguments: ReplayDecision) -> Result<(), Failure> {
    let record = match (&arguments.decision, arguments.since) {
        (_, Some(since)) => return bulk::run(context, &arguments, since),
        (Some(decision), None) => find(context, decision)?,
        (None, None) => return Err(Failure::usage("name a decision, or say since when with --since")),
    };
    let state = context.state_directory()?;
    let host = context.policy_host(context.folder_of(&state)?)?;
    let against = match arguments.policy {
        None => ReplayAgainst::TheSame,
        Some(file) => {
            let options = LoadOptions { file, settings: arguments.settings, grants: arguments.grants };
            let link = super::policy::link(context, record.slot, &options)?;
            ReplayAgainst::Policy(super::policy::load(&host, record.slot, &link, &options.file)?)
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

/// A word of the contract, as JSON writes it.
pub(crate) fn kind_word(kind: &impl serde::Serialize) -> String {
    serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A decision without its question and answer.
pub(crate) fn words(record: &DecisionRecord) -> String {
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

/// What shadows would have decided; empty where there were none.
fn shadow_words(record: &DecisionRecord) -> String {
    if record.shadows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", bold("shadows, asked afterwards"));
    for shadow in &record.shadows {
        text.push_str(&asked_words("-", &shadow.asked, &format!("{}: ", kind_word(&shadow.agreement))));
        if let Some(answer) = &shadow.answer {
            text.push_str(&format!("       answered {}\n", printable(&answer.to_string())));
        }
    }
    text
}

/// One policy's part in a decision.
fn asked_words(mark: &str, asked: &LinkRecord, agreement: &str) -> String {
    let mut text = String::new();
    let outcome = match &asked.outcome {
        Outcome::Decided => "decided".to_owned(),
        Outcome::DecidedPart { deferred } => format!("decided all but {deferred}"),
        Outcome::Deferred => "deferred to the next".to_owned(),
        Outcome::Fallback { kind, reason } => format!("failed ({}): {reason}", kind_word(kind)),
    };
    let mut details = human_duration(Duration::from_nanos(asked.duration_ns));
    if let Some(fuel) = asked.fuel {
        details.push_str(&format!(", {fuel} fuel"));
    }
    text.push_str(&format!(
        "  {mark} {}  {agreement}{}  ({details})\n",
        printable(&asked.policy.to_string()),
        printable(&outcome)
    ));
    for line in &asked.log {
        text.push_str(&format!("       {}: {}\n", kind_word(&line.level), printable(&line.message)));
    }
    if asked.log_dropped > 0 {
        text.push_str(&format!("       ({} more lines beyond the limit)\n", asked.log_dropped));
    }
    for call in &asked.host_calls {
        let call = serde_json::to_string(call).unwrap_or_default();
        text.push_str(&format!("       called {}\n", printable(&call)));
    }
    text
}
