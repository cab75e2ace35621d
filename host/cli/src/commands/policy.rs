//! `windlass policy`: what a policy file is, whether it can be used, and what it answers.

mod audit;
mod author;
mod bench;
mod diff;
mod distribute;
mod prove;
mod serve;
mod shadow;
mod test;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use windlass_inspect::failure::Failure;
use windlass_inspect::listing::Listing;
use windlass_inspect::output::fields;
use windlass_inspect::text::instant;
use windlass_policy::slots::{Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping};
use windlass_policy::{
    Class, DecidedBy, Decision, DecisionRecord, Description, Digest, Error, Examination, Host, Link, LinkStatus,
    LoadedPolicy, Outcome, Source,
};
use windlass_proof::fixture::whole_question;

use crate::arguments::{CheckPolicy, InspectPolicy, PolicyCommand, PolicyStatus, RunPolicy};
use crate::context::Context;
use crate::policy_file::{
    granted, grants_needed, json_argument, link, link_or_default, load, only_slot, read_policy, rules, slots_of,
    trial_host, unusable,
};
use crate::units::Size;

pub(crate) async fn run(context: &Context, command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::New(arguments) => author::new(context, &arguments),
        PolicyCommand::Build(arguments) => author::build(context, &arguments),
        PolicyCommand::Schema(arguments) => author::schema(context, &arguments),
        PolicyCommand::Test(arguments) => test::run(context, &arguments).await,
        PolicyCommand::Inspect(arguments) => inspect(context, &arguments),
        PolicyCommand::Check(arguments) => check(context, &arguments),
        PolicyCommand::Run(arguments) => ask(context, arguments).await,
        PolicyCommand::Prove(arguments) => prove::run(context, &arguments),
        PolicyCommand::Diff(arguments) => diff::run(context, &arguments),
        PolicyCommand::Audit(arguments) => audit::run(context, &arguments).await,
        PolicyCommand::Bench(arguments) => bench::run(context, &arguments),
        PolicyCommand::List => list(context),
        PolicyCommand::Status(arguments) => status(context, &arguments),
        PolicyCommand::Shadow(arguments) => shadow::run(context, &arguments),
        PolicyCommand::Serve(arguments) => serve::run(context, arguments).await,
        PolicyCommand::Sign(arguments) => distribute::sign(context, &arguments),
        PolicyCommand::Verify(arguments) => verify::run(context, &arguments),
        PolicyCommand::Push(arguments) => distribute::push(context, &arguments),
        PolicyCommand::Pull(arguments) => distribute::pull(context, &arguments),
        PolicyCommand::Lock(arguments) => distribute::lock(context, &arguments),
    }
}

/// Document of `policy inspect`.
#[derive(Serialize)]
struct Inspected {
    file: PathBuf,
    bytes: usize,
    digest: String,
    /// Which engine runs it and which limits it gets: `small`, or `script` for one that brings an interpreter along.
    class: Class,
    /// What the policy says about itself; absent when it cannot be made to say it.
    #[serde(flatten)]
    description: Option<Described>,
    slots: Vec<SlotName>,
    /// The versions of the contract `windlass:policy` for which it was built: one, as a rule.
    contract: Vec<String>,
    imports: Vec<String>,
    exports: Vec<String>,
    /// What the operator must grant.
    grants_needed: Vec<String>,
    /// By which digest records and lists name a file of rules: however they are written, the same rules have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_digest: Option<String>,
    /// The conditions of a file of rules, in their order; absent for a component.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<InspectedRule>>,
    /// Why the policy cannot be used, where it cannot.
    problem: Option<String>,
}

#[derive(Serialize)]
struct InspectedRule {
    name: Option<String>,
    when: String,
}

#[derive(Serialize)]
struct Described {
    name: String,
    version: String,
    summary: String,
    settings_schema: Value,
}

impl From<&Description> for Described {
    fn from(description: &Description) -> Self {
        Described {
            name: description.name.clone(),
            version: description.version.clone(),
            summary: description.summary.clone(),
            settings_schema: serde_json::from_str(&description.settings_schema).unwrap_or(Value::Null),
        }
    }
}

fn inspect(context: &Context, arguments: &InspectPolicy) -> Result<(), Failure> {
    let bytes = read_policy(&arguments.file)?;
    let rules = rules(&arguments.file, &bytes)?;
    let examination = match &rules {
        // What evaluates rules is the host's own, imports what every policy may, and says nothing about the file.
        Some(_) => Examination { imports: Vec::new(), exports: Vec::new() },
        None => Examination::of(&bytes).map_err(|refusal| unusable(&arguments.file, None, &refusal))?,
    };
    let grants_needed = grants_needed(&examination);
    let host = trial_host(context)?;
    let slots = rules.as_ref().map_or_else(|| examination.slots(), |rules| vec![rules.slot()]);
    let contract: Vec<String> = examination.contract_versions().into_iter().map(str::to_owned).collect();
    let digest = Digest::of(&bytes).to_string();
    let size = bytes.len();
    let class = Class::of(&bytes);
    // Only a loaded policy can say what it is called, so it is loaded with everything it asks for, and asked nothing.
    let contents: Arc<[u8]> = bytes.into();
    let mut rules_digest = None;
    let (description, problem) = match slots.first() {
        None => (None, Some("it exports no slot of this host's contract".to_owned())),
        Some(slot) => {
            let mut link = Link::contents(&arguments.file, contents);
            link.grants = granted(&grants_needed);
            match host.load(*slot, &link) {
                Ok(policy) => {
                    let identity = policy.identity();
                    rules_digest = identity.are_rules().then(|| identity.digest().to_string());
                    (Some(Described::from(policy.description())), None)
                }
                Err(error) => (None, Some(refusal_words(&error))),
            }
        }
    };
    let inspected = Inspected {
        file: arguments.file.clone(),
        bytes: size,
        digest,
        class,
        description,
        slots,
        contract,
        imports: examination.imports,
        exports: examination.exports,
        grants_needed,
        rules_digest,
        rules: rules.map(|rules| {
            let inspected = |(name, when): (Option<&str>, &str)| InspectedRule {
                name: name.map(str::to_owned),
                when: when.to_owned(),
            };
            rules.rules().map(inspected).collect()
        }),
        problem,
    };
    context.output.result(&inspected, || {
        let or_none = |lines: &[String]| if lines.is_empty() { "none".to_owned() } else { lines.join("\n") };
        let mut lines = Vec::new();
        if let Some(description) = &inspected.description {
            lines.push(("policy", format!("{} {}", description.name, description.version)));
            lines.push(("summary", description.summary.clone()));
        }
        lines.push(("digest", inspected.digest.clone()));
        lines.extend(inspected.rules_digest.clone().map(|digest| ("rules digest", digest)));
        lines.push(("size", Size(inspected.bytes as u64).to_string()));
        let slots: Vec<String> = inspected.slots.iter().map(SlotName::to_string).collect();
        lines.push(("class", inspected.class.to_string()));
        lines.push(("slots", or_none(&slots)));
        lines.push(("contract", or_none(&inspected.contract)));
        lines.push(("imports", or_none(&inspected.imports)));
        lines.push(("grants needed", or_none(&inspected.grants_needed)));
        match (&inspected.rules, &inspected.description) {
            (Some(rules), _) => {
                let words = |rule: &InspectedRule| match &rule.name {
                    Some(name) => format!("{name}: {}", rule.when),
                    None => rule.when.clone(),
                };
                lines.push(("rules", or_none(&rules.iter().map(words).collect::<Vec<_>>())));
            }
            (None, Some(description)) => lines.push(("settings", settings_words(&description.settings_schema))),
            (None, None) => {}
        }
        if let Some(problem) = &inspected.problem {
            lines.push(("problem", problem.clone()));
        }
        fields(&lines)
    });
    Ok(())
}

/// One line for each setting of a JSON Schema: name, type, default, description.
fn settings_words(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|found| !found.is_empty()) else {
        return "none".to_owned();
    };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let lines: Vec<String> = properties
        .iter()
        .map(|(name, property)| {
            let mut line = name.clone();
            match property.get("type") {
                Some(Value::String(kind)) => line.push_str(&format!(": {kind}")),
                Some(Value::Array(kinds)) => {
                    let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
                    line.push_str(&format!(": {}", kinds.join(" or ")));
                }
                _ => {}
            }
            match property.get("default") {
                Some(default) => line.push_str(&format!(" = {default}")),
                None if required.contains(&name.as_str()) => line.push_str(" (required)"),
                None => {}
            }
            if let Some(words) = property.get("description").and_then(Value::as_str) {
                line.push_str(&format!("  {}", words.lines().next().unwrap_or_default()));
            }
            line
        })
        .collect();
    lines.join("\n")
}

fn refusal_words(error: &Error) -> String {
    match error {
        Error::Refused { refusal, .. } => refusal.to_string(),
        other => other.to_string(),
    }
}

/// Document of `policy check`.
#[derive(Serialize)]
struct Checked {
    file: PathBuf,
    /// One for each slot that was checked.
    policies: Vec<Value>,
    /// Rules that can never answer.
    never_answer: Vec<String>,
    /// Rules that could not be evaluated with their slot's example question.
    failed_examples: Vec<String>,
}

fn check(context: &Context, arguments: &CheckPolicy) -> Result<(), Failure> {
    let file = &arguments.load.file;
    let slots = match arguments.slot {
        Some(slot) => vec![slot],
        None => {
            let bytes = read_policy(file)?;
            let slots = slots_of(file, &bytes)?;
            if slots.is_empty() {
                let all: Vec<&str> = SlotName::ALL.iter().map(|slot| slot.as_str()).collect();
                return Err(Failure::usage("the policy exports no slot")
                    .at(file.display().to_string())
                    .because(format!("a policy exports at least one of: {}", all.join(", ")))
                    .remedy(format!("windlass policy inspect {}", file.display())));
            }
            slots
        }
    };
    let host = trial_host(context)?;
    let mut checked = Vec::new();
    for slot in slots {
        // Read as a host reads it: a symbolic link that leads out of the file's folder is refused.
        let source = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        let link = Link { source: Source::File(source), ..link(context, slot, &arguments.load)? };
        checked.push(load(&host, slot, &link, file)?);
    }
    let document = Checked {
        file: file.clone(),
        policies: checked.iter().map(|policy| serde_json::to_value(policy.identity()).unwrap_or_default()).collect(),
        never_answer: checked.iter().flat_map(|policy| policy.remarks()).cloned().collect(),
        failed_examples: checked.iter().filter_map(|policy| policy.failed_example()).map(str::to_owned).collect(),
    };
    for failed in &document.failed_examples {
        context.output.say(&format!("note: with the slot's example question: {failed}; the next policy decides then"));
    }
    if !document.never_answer.is_empty() {
        let failure = Failure::undone("the policy can be used, and has rules that never answer")
            .at(file.display().to_string())
            .with_partial(serde_json::to_value(&document).unwrap_or_default());
        return Err(document.never_answer.iter().fold(failure, |failure, rule| failure.because(rule.clone())));
    }
    context.output.result(&document, || {
        checked
            .iter()
            .map(|policy| {
                let identity = policy.identity();
                match identity.are_rules() {
                    true => format!(
                        "ok: {} can decide {} (rules {})\n",
                        identity.name,
                        identity.slot,
                        identity.digest().short()
                    ),
                    false => format!(
                        "ok: {} {} can decide {} (component {}, settings {})\n",
                        identity.name,
                        identity.version,
                        identity.slot,
                        identity.component.short(),
                        identity.settings.short()
                    ),
                }
            })
            .collect()
    });
    Ok(())
}

/// Document of `policy run`.
#[derive(Serialize)]
struct Run {
    answer: Value,
    reason: Option<String>,
    decided_by: DecidedBy,
    /// Every policy that was asked, with its outcome, log lines and calls.
    asked: Vec<Value>,
    duration_ns: u64,
}

async fn ask(context: &Context, arguments: RunPolicy) -> Result<(), Failure> {
    let question = match (&arguments.input, &arguments.input_file) {
        (Some(input), _) => Some(json_argument(input, "the question")?),
        (None, Some(file)) => Some(json_argument(&format!("@{}", file.display()), "the question")?),
        (None, None) => None,
    };
    let host = trial_host(context)?;
    let file = &arguments.load.file;
    let slot = only_slot(arguments.slot, [file.as_path()])?;
    let policy = load(&host, slot, &link_or_default(context, slot, &arguments.load)?, file)?;
    let question = whole_question(slot, &question.unwrap_or(Value::Object(Map::new()))).map_err(|error| {
        Failure::usage(format!("the question is not one of the slot {slot}"))
            .because(error.to_string())
            .because("write only what differs from the slot's example question, which is:")
            .because(serde_json::to_string_pretty(&slot.example_question()).unwrap_or_default())
    })?;
    let id = match slot {
        SlotName::StateMapping => decide::<StateMapping>(&host, policy, question).await,
        SlotName::Retry => decide::<Retry>(&host, policy, question).await,
        SlotName::Rollback => decide::<Rollback>(&host, policy, question).await,
        SlotName::Release => decide::<Release>(&host, policy, question).await,
        SlotName::Provisioning => decide::<Provisioning>(&host, policy, question).await,
        SlotName::Placement => decide::<Placement>(&host, policy, question).await,
    }?;
    let record = host
        .decisions()
        .and_then(|log| log.show(&id))
        .map_err(|error| Failure::undone("the recorded decision cannot be read").because(error.to_string()))?;
    let run = Run {
        answer: record.answer.clone(),
        reason: record.reason.clone(),
        decided_by: record.decided_by.clone(),
        asked: record.asked.iter().map(|asked| serde_json::to_value(asked).unwrap_or_default()).collect(),
        duration_ns: record.duration_ns,
    };
    // The policy that was named is the first one asked; what came after it is the built-in default.
    if let Some(Outcome::Fallback { kind, reason }) = record.asked.first().map(|asked| &asked.outcome) {
        let kind =
            serde_json::to_value(kind).ok().and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
        return Err(Failure::undone(format!("the policy failed ({kind})"))
            .at(file.display().to_string())
            .because(reason.clone())
            .because(format!("in a running host, {} would have decided", record.decided_by))
            .with_partial(serde_json::to_value(&run).unwrap_or_default()));
    }
    context.output.result(&run, || run_words(context, &record));
    if let Some(asked) = record.asked.first() {
        let by = if asked.rules.is_empty() { String::new() } else { format!("by {}", asked.rule_words()) };
        let next = &record.decided_by;
        match &asked.outcome {
            Outcome::Deferred => {
                let by = if by.is_empty() { by } else { format!(" ({by})") };
                context.output.say(&format!("the policy deferred{by}: this is the answer of {next}"));
            }
            Outcome::DecidedPart { deferred } => {
                let by = if by.is_empty() { by } else { format!("{by}; ") };
                context.output.say(&format!("{by}{deferred} deferred: these are the answers of {next}"));
            }
            Outcome::Decided | Outcome::Fallback { .. } if by.is_empty() => {}
            Outcome::Decided | Outcome::Fallback { .. } => context.output.say(&by),
        }
    }
    Ok(())
}

async fn decide<S: Slot>(host: &Host, policy: Arc<LoadedPolicy>, question: Value) -> Result<String, Failure> {
    let question = serde_json::from_value::<S::Question>(question)
        .map_err(|error| Failure::usage("the question cannot be read").because(error.to_string()))?;
    let decision: Decision<S> = host.pin_only(policy).decide(question).await;
    Ok(decision.id.to_string())
}

fn run_words(context: &Context, record: &DecisionRecord) -> String {
    let mut text = serde_json::to_string_pretty(&record.answer).unwrap_or_default() + "\n";
    if context.verbose() {
        text.push('\n');
        text.push_str(&windlass_inspect::decisions::summary(record));
    }
    text
}

/// Document of `policy list`.
#[derive(Serialize)]
struct Links {
    policies: Vec<LinkStatus>,
}

fn list(context: &Context) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let folder = context.folder_of(&state)?;
    let host = context.configured_host(folder)?;
    let listing = Links { policies: host.status().links };
    let policies = Listing::new(&listing.policies, "no policies", |link: &LinkStatus| link.policy.name.to_string())
        .column("slot", |link| link.slot.to_string())
        .column("asked", windlass_inspect::words::asked_words)
        .column("policy", |link| link.policy.name.to_string())
        .column("version", |link| link.policy.version.to_string())
        .spare(3)
        .shortened("digest", |link| link.policy.digest().short(), |link| link.policy.digest().to_string())
        .spare(4)
        .wide("settings", |link| link.policy.settings.to_string())
        .column("source", |link| link.source.clone())
        .spare(2)
        .wide("loaded", |link| instant(link.loaded_at_ms))
        .column("summary", |link| link.summary.clone())
        .spare(1);
    context.output.listing(&listing, &policies);
    Ok(())
}

fn status(context: &Context, arguments: &PolicyStatus) -> Result<(), Failure> {
    let state = context.state_directory()?;
    let inspector = context.inspector(&state);
    if arguments.all { inspector.policies_of_all() } else { inspector.policies() }
}
