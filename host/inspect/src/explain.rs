//! A decision in words: what was asked, who was asked, what came of it, and what the host did about it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_policy::slots::types::{Failure, Money, Requester, Subject};
use windlass_policy::slots::{
    Placement, Provisioning, Release, Retry, Rollback, Slot, SlotName, StateMapping, placement, provisioning, release,
    retry, rollback, state_mapping,
};
use windlass_policy::{DecidedBy, DecisionRecord, DecisionSummary, FailureKind, LinkRecord, Outcome};

use crate::text::instant;
#[cfg(feature = "terminal")]
use crate::text::{bold, dim, printable};
use crate::words::{counted, human_duration, kind_word};

/// How many servers, resources, nodes or places of one decision are listed one by one.
const MAX_TOLD: usize = 20;

/// A decision in words, line by line. Whatever came from outside stands in it as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What was asked.
    pub question: Vec<String>,
    /// What was answered, and why.
    pub answer: Vec<String>,
    /// What the host did about it.
    pub host: Vec<String>,
}

/// A decision in a line of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Brief {
    /// What it is about.
    pub subject: String,
    /// What was decided.
    pub verdict: String,
    /// Who decided: in a batch all policies that decided something of it.
    pub deciders: Vec<String>,
}

impl Brief {
    #[must_use]
    pub fn of(decision: &DecisionSummary) -> Self {
        let (subject, verdict) = match decision.slot {
            SlotName::StateMapping => in_brief::<StateMapping>(decision, state_mapping_verdict),
            SlotName::Retry => in_brief::<Retry>(decision, |q, a| first(retry_answer(q, a))),
            SlotName::Rollback => in_brief::<Rollback>(decision, rollback_verdict),
            SlotName::Release => in_brief::<Release>(decision, |q, a| first(release_answer(q, a))),
            SlotName::Provisioning => in_brief::<Provisioning>(decision, |q, a| first(provisioning_answer(q, a))),
            SlotName::Placement => in_brief::<Placement>(decision, |q, a| placement_answer(q, a).join("; ")),
        };
        let mut deciders: Vec<String> = decision.deciders().map(decider_words).collect();
        if deciders.is_empty() {
            deciders.push(decision.decided_by.to_string());
        }
        Self { subject, verdict, deciders }
    }
}

/// A policy that decided, and by which of its rules.
fn decider_words(link: &LinkRecord) -> String {
    let rules = link.rule_words();
    match rules.is_empty() {
        true => link.policy.to_string(),
        false => format!("{}: {rules}", link.policy),
    }
}

/// Each rule of a policy that answered about servers, resources or places, and about which.
#[must_use]
pub fn rules_by_item(asked: &LinkRecord) -> Vec<String> {
    let what = match asked.policy.slot {
        SlotName::Rollback => "resource",
        SlotName::Placement => "place",
        SlotName::StateMapping | SlotName::Retry | SlotName::Release | SlotName::Provisioning => "server",
    };
    bounded(asked.rules.iter().filter(|applied| !applied.items.is_empty()).map(|applied| {
        let reported: Vec<String> = applied.items.iter().take(MAX_TOLD).map(u32::to_string).collect();
        let more = applied.items.len() - reported.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let plural = if applied.items.len() == 1 { "" } else { "s" };
        format!("{}: {what}{plural} {}{more}", applied.rule, reported.join(", "))
    }))
}

/// The subject and the verdict, as far as they are there and of this version's contract.
fn in_brief<S: Slot>(
    decision: &DecisionSummary,
    verdict: impl Fn(&S::Question, &S::Answer) -> String,
) -> (String, String) {
    let Ok(question) = read::<S::Question>(&decision.question, "question") else {
        return (String::new(), String::new());
    };
    let answer = read::<S::Answer>(&decision.answer, "answer");
    (S::topic(&question).words, answer.map_or_else(|_| String::new(), |answer| verdict(&question, &answer)))
}

fn first(lines: Vec<String>) -> String {
    lines.into_iter().next().unwrap_or_default()
}

impl Explanation {
    #[must_use]
    pub fn of(record: &DecisionRecord) -> Self {
        let (question, answer) = match record.slot {
            SlotName::StateMapping => reported(record, state_mapping_question, |question, answers| {
                state_mapping_answer(question, answers, record)
            }),
            SlotName::Retry => reported(record, retry_question, retry_answer),
            SlotName::Rollback => reported(record, rollback_question, rollback_answer),
            SlotName::Release => reported(record, release_question, release_answer),
            SlotName::Provisioning => reported(record, provisioning_question, provisioning_answer),
            SlotName::Placement => reported(record, placement_question, placement_answer),
        };
        Self { question, answer, host: by_the_host(record) }
    }
}

#[cfg(feature = "terminal")]
/// The whole record for people. Whatever came from outside stands in it without control characters.
pub(crate) fn explanation(record: &DecisionRecord) -> String {
    let Explanation { question, answer, host } = Explanation::of(record);
    let mut text = dim(&format!("decision {} of the slot {}, {}", record.id, record.slot, instant(record.at_ms)));
    text.push('\n');
    section(&mut text, "question", &question);
    let _ = writeln!(text, "\n{}", bold("asked, in order"));
    if record.asked.is_empty() {
        text.push_str("  nobody\n");
    }
    for (position, asked) in record.asked.iter().enumerate() {
        text.push_str(&asked_words(&format!("{}.", position + 1), asked, ""));
    }
    section(&mut text, "answer", &answer);
    section(&mut text, "what the host did", &host);
    text.push_str(&shadow_words(record));
    text
}

#[cfg(feature = "terminal")]
fn section(text: &mut String, title: &str, lines: &[String]) {
    let _ = writeln!(text, "\n{}", bold(title));
    for line in lines.iter().flat_map(|line| line.split('\n')) {
        let _ = writeln!(text, "  {}", printable(line));
    }
}

/// The lines about the question and those about the answer, where both are there and of this version's contract.
fn reported<Q: DeserializeOwned, A: DeserializeOwned>(
    record: &DecisionRecord,
    question_words: impl Fn(&Q) -> Vec<String>,
    answer_words: impl Fn(&Q, &A) -> Vec<String>,
) -> (Vec<String>, Vec<String>) {
    let question = read::<Q>(&record.question, "question");
    let mut answer = match (&question, read::<A>(&record.answer, "answer")) {
        (Ok(question), Ok(answer)) => answer_words(question, &answer),
        (Err(_), Ok(_)) => vec!["the answer cannot be explained without the question; `--raw` has it".to_owned()],
        (_, Err(why)) => vec![why],
    };
    if let Some(reason) = &record.reason {
        answer.push(format!("because: {reason}"));
    }
    (question.as_ref().map_or_else(|why| vec![why.clone()], question_words), answer)
}

fn read<T: DeserializeOwned>(value: &Value, what: &str) -> Result<T, String> {
    if value.is_null() {
        return Err(format!("the {what} was too large to be kept"));
    }
    serde_json::from_value(value.clone())
        .map_err(|error| format!("the {what} is of another version of the contract ({error}); `--raw` has it"))
}

/// Who decided in the end, and what became of those that failed.
fn by_the_host(record: &DecisionRecord) -> Vec<String> {
    let mut lines = Vec::new();
    for asked in &record.asked {
        let Outcome::Fallback { kind, .. } = &asked.outcome else { continue };
        let name = &asked.policy.name;
        lines.push(match kind {
            FailureKind::Brake => format!("the brake held {name} back: it would have removed too many running servers"),
            FailureKind::NotAllowed => {
                format!("{name} answered what it may not decide, which counts as deferred")
            }
            FailureKind::RejectedAnswer => format!("the check refused the answer of {name}, which counts as deferred"),
            FailureKind::Suspended => format!("{name} was not asked: it is suspended after failing too often"),
            kind => format!("{name} failed ({}), which counts as deferred", kind_word(kind)),
        });
    }
    lines.push(match &record.decided_by {
        DecidedBy::Policy(policy) => {
            let link = record.asked.iter().rev().find(|link| link.policy == *policy);
            format!("it followed {}", link.map_or_else(|| policy.to_string(), decider_words))
        }
        DecidedBy::Keep => "no policy decided: it took its own last resort, which destroys nothing".to_owned(),
    });
    let fuel: u64 = record.asked.iter().filter_map(|asked| asked.fuel).sum();
    let fuel = if fuel > 0 { format!(", {fuel} fuel") } else { String::new() };
    lines.push(format!("it took {}{fuel}", human_duration(Duration::from_nanos(record.duration_ns))));
    if record.lost_before > 0 {
        lines.push(format!("{} before this one were lost", counted_long(record.lost_before, "record")));
    }
    lines
}

fn counted_long(count: u64, what: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), what)
}

fn milliseconds(count: u64) -> String {
    human_duration(Duration::from_millis(count))
}

fn of_group(group: Option<&String>) -> String {
    group.map(|group| format!(" of group {group}")).unwrap_or_default()
}

/// Whom it is for, who asks and why, where a question says more than the owner's name.
fn subject_lines(subject: &Subject) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(
        subject.object.as_ref().map(|object| format!("for {} {}/{}", object.kind, object.namespace, object.name)),
    );
    lines.extend(subject.cluster.as_ref().map(|cluster| format!("of the cluster {cluster}")));
    lines.extend(subject.project.as_ref().map(|project| format!("in the project {project}")));
    if !subject.labels.is_empty() {
        let labels = subject.labels.iter().map(|label| format!("{}={}", label.name, label.value));
        lines.push(format!("labels: {}", labels.collect::<Vec<_>>().join(", ")));
    }
    let why = subject.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    lines.extend(
        subject.requester.as_ref().map(|requester| format!("asked for by {}{why}", requester_words(*requester))),
    );
    lines
}

fn requester_words(requester: Requester) -> &'static str {
    match requester {
        Requester::User => "somebody at the command line",
        Requester::Runner => "GitLab Runner",
        Requester::Plugin => "the runner plugin",
        Requester::Policy => "a state-mapping policy",
        Requester::Shutdown => "the shutdown of the runner plugin",
        Requester::Sweep => "a sweep",
        Requester::Reclaim => "the clean-up of claimed hosts",
        Requester::Object => "a Kubernetes object",
        Requester::Cluster => "an operation on a cluster",
        Requester::Other => "another requester",
    }
}

/// The first of many lines, and how many more there are.
fn bounded(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().collect();
    if lines.len() > MAX_TOLD {
        let more = lines.len() - MAX_TOLD;
        lines.truncate(MAX_TOLD);
        lines.push(format!("... and {more} more; `--raw` has them all"));
    }
    lines
}

fn caused_by(failure: &Failure) -> String {
    let lost = if failure.ambiguous { "; the call may have taken effect all the same" } else { "" };
    format!("{} ({}){lost}", failure.words(), kind_word(&failure.class))
}

fn state_mapping_question(question: &state_mapping::Question) -> Vec<String> {
    vec![format!(
        "what an autoscaler is told about {}{} in {}, and which are removed",
        counted(question.servers.len(), "server"),
        of_group(question.subject.group.as_ref()),
        question.zone
    )]
}

/// How many are reported as what, and how many are removed.
fn state_mapping_verdict(_: &state_mapping::Question, answers: &Vec<state_mapping::Answer>) -> String {
    use state_mapping::{Action, Report, Verdict};
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut removed = 0;
    for answer in answers {
        let word = match &answer.verdict {
            Verdict::Defer => "undecided".to_owned(),
            Verdict::Mapped(mapping) => {
                removed += usize::from(mapping.action == Action::Reap);
                if mapping.report == Report::None { "left out".to_owned() } else { kind_word(&mapping.report) }
            }
        };
        *counts.entry(word).or_default() += 1;
    }
    let counts = counts.into_iter().chain((removed > 0).then(|| ("removed".to_owned(), removed)));
    counts.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

fn state_mapping_answer(
    question: &state_mapping::Question,
    answers: &Vec<state_mapping::Answer>,
    record: &DecisionRecord,
) -> Vec<String> {
    use state_mapping::{Action, Verdict};
    let several = record.asked.iter().filter(|link| link.outcome.decides()).count() > 1;
    let by = |position: usize| {
        let position = u32::try_from(position).ok().filter(|_| position < MAX_TOLD)?;
        let link = record.decider_of(position)?;
        match (several, link.rule_of(position)) {
            (true, Some(applied)) => Some(format!(", decided by {}: {}", link.policy, applied.rule)),
            (true, None) => Some(format!(", decided by {}", link.policy)),
            (false, Some(applied)) => Some(format!(", by {}", applied.rule)),
            (false, None) => None,
        }
    };
    bounded(question.servers.iter().zip(answers).enumerate().map(|(position, (server, answer))| {
        let server_type = question.server_types.get(server.server_type as usize).map_or("?", String::as_str);
        let mut is = kind_word(&server.state);
        if server.detail != state_mapping::StateDetail::None {
            let _ = write!(is, " ({})", kind_word(&server.detail));
        }
        let said = match &answer.verdict {
            Verdict::Defer => "no policy decided".to_owned(),
            Verdict::Mapped(mapping) => {
                let report = match mapping.report {
                    state_mapping::Report::None => "left out of the report".to_owned(),
                    report => format!("reported as {}", kind_word(&report)),
                };
                let removed = if mapping.action == Action::Reap { ", and removed" } else { "" };
                format!("{report}{removed}")
            }
        };
        let because = answer.reason.as_ref().map(|reason| format!(" – {reason}")).unwrap_or_default();
        let by = by(position).unwrap_or_default();
        format!(
            "server {position}, {server_type}, {is} for {} of {}: {said}{because}{by}",
            milliseconds(server.state_age),
            milliseconds(server.age)
        )
    }))
}

fn retry_question(question: &retry::Question) -> Vec<String> {
    let mut about = vec![format!("in {}", question.zone)];
    about.extend(question.subject.group.as_ref().map(|group| format!("group {group}")));
    about.extend(question.server_type.clone());
    let left = match question.time_left {
        Some(left) => format!("{} before the deadline", milliseconds(left)),
        None => "without a deadline".to_owned(),
    };
    let undoing = if question.undoing { ", which undoes something," } else { "" };
    vec![
        format!(
            "whether the step {} of {}{undoing} is tried again, and when ({})",
            question.step,
            question.operation,
            about.join(", ")
        ),
        format!("attempt {} failed after {}, {left}:", question.attempt, milliseconds(question.elapsed)),
        caused_by(&question.failure),
    ]
    .into_iter()
    .chain(subject_lines(&question.subject))
    .collect()
}

fn retry_answer(_: &retry::Question, answer: &retry::Answer) -> Vec<String> {
    vec![match answer.verdict {
        retry::Verdict::Defer => "no policy decided".to_owned(),
        retry::Verdict::GiveUp => "give up: the step has failed for good".to_owned(),
        retry::Verdict::Wait(wait) => format!("try again after {}", milliseconds(wait)),
    }]
}

fn resource_words(resource: &rollback::Resource) -> String {
    let name = if resource.name.is_empty() { String::new() } else { format!(" ({})", resource.name) };
    format!("{} {}{name}", kind_word(&resource.kind), resource.id)
}

fn rollback_question(question: &rollback::Question) -> Vec<String> {
    let mut lines = vec![format!(
        "what becomes of {} of {}{}, and in which order",
        counted(question.resources.len(), "resource"),
        question.operation,
        of_group(question.subject.group.as_ref())
    )];
    lines.push(match (&question.failed_step, &question.cause) {
        (_, None) => "nothing failed: the server is no longer wanted".to_owned(),
        (Some(step), Some(cause)) => format!("the step {step} failed: {}", caused_by(cause)),
        (None, Some(cause)) => format!("it failed: {}", caused_by(cause)),
    });
    lines.extend(subject_lines(&question.subject));
    lines.extend(bounded(question.resources.iter().map(|resource| {
        let state = resource.state.as_ref().map(|state| format!(", {state}")).unwrap_or_default();
        let ours = if resource.owned { "ours" } else { "not ours" };
        format!("- {}{state}, {ours}, known by {}", resource_words(resource), kind_word(&resource.evidence))
    })));
    lines
}

/// How many resources what is done with.
fn rollback_verdict(_: &rollback::Question, answer: &rollback::Answer) -> String {
    let rollback::Verdict::Plan(steps) = &answer.verdict else { return "no policy decided".to_owned() };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for step in steps {
        *counts.entry(kind_word(&step.action)).or_default() += 1;
    }
    let words: Vec<String> = counts.into_iter().map(|(action, count)| format!("{action} {count}")).collect();
    if words.is_empty() { "do nothing".to_owned() } else { words.join(", ") }
}

fn rollback_answer(question: &rollback::Question, answer: &rollback::Answer) -> Vec<String> {
    let rollback::Verdict::Plan(steps) = &answer.verdict else { return vec!["no policy decided".to_owned()] };
    if steps.is_empty() {
        return vec!["do nothing".to_owned()];
    }
    bounded(steps.iter().enumerate().map(|(position, step)| {
        let resource = question.resources.get(step.resource as usize);
        let resource = resource.map_or_else(|| format!("resource {}", step.resource), resource_words);
        let after: Vec<String> = step.after.iter().map(|step| (u64::from(*step) + 1).to_string()).collect();
        let after = if after.is_empty() { String::new() } else { format!(", after step {}", after.join(", ")) };
        format!("{}. {} {resource}{after}", position + 1, kind_word(&step.action))
    }))
}

fn release_question(question: &release::Question) -> Vec<String> {
    let machine = &question.machine;
    let why = match question.trigger {
        release::Trigger::Released => "its owner released it".to_owned(),
        release::Trigger::BootstrapFailed => {
            format!("its set-up failed, {} in all", counted_long(machine.bootstrap_failures.into(), "time"))
        }
        release::Trigger::Reclaim => "no living owner explains its claim".to_owned(),
        release::Trigger::Other => "for another reason".to_owned(),
    };
    let mut lines = vec![
        format!(
            "what becomes of the {} {} ({}, {}) in {}{}: {why}",
            kind_word(&machine.kind),
            machine.name,
            machine.machine_type,
            machine.id,
            machine.zone,
            of_group(question.subject.group.as_ref())
        ),
        format!("it is {}, and asked about for the {} time", machine.status, ordinal(question.attempt)),
    ];
    lines.extend(subject_lines(&question.subject));
    lines.extend(activity_lines(machine));
    lines.extend(machine.pool_prefix.as_ref().map(|prefix| format!("it belongs to the pool {prefix}")));
    lines.extend(machine.deletable_at.map(|at| format!("Scaleway refuses to delete it before {}", instant(at))));
    lines.extend(question.requested.map(|requested| format!("its owner asked for: {}", kind_word(&requested))));
    lines.extend(question.refusal.as_ref().map(|refusal| {
        let until = refusal.not_before.map(|at| format!("; accepted from {} on", instant(at))).unwrap_or_default();
        format!("{} was refused: {}{until}", kind_word(&refusal.action), caused_by(&refusal.failure))
    }));
    lines
}

fn activity_lines(machine: &release::Machine) -> Vec<String> {
    let activity = &machine.activity;
    let mut lines = Vec::new();
    lines.extend(machine.price_per_hour.as_ref().map(|price| format!("it costs {}", price_words(price))));
    if let Some(at) = activity.last_used {
        let times = activity.connections.map(|count| format!(", {} in all", counted_long(count.into(), "connection")));
        lines.push(format!("it was last used at {}{}", instant(at), times.unwrap_or_default()));
    }
    if let Some(ready) = activity.node_ready {
        let since = activity.node_ready_since.map(|at| format!(" since {}", instant(at))).unwrap_or_default();
        lines.push(format!("its Node is {}{since}", if ready { "ready" } else { "not ready" }));
    }
    lines
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn release_answer(_: &release::Question, answer: &release::Answer) -> Vec<String> {
    use release::Verdict;
    vec![match &answer.verdict {
        Verdict::Defer => "no policy decided".to_owned(),
        Verdict::ReturnToPool(pool) => {
            let system = pool.operating_system.as_ref().map(|system| format!(", with {system}"));
            format!("return it to its pool, reinstalled{}", system.unwrap_or_default())
        }
        Verdict::Terminate => "delete it now".to_owned(),
        Verdict::ScheduleDeletion => "let Scaleway delete it as soon as it can be deleted".to_owned(),
        Verdict::Keep => "keep it as it is".to_owned(),
        Verdict::RetryAfter(wait) => format!("ask again after {}", milliseconds(*wait)),
        Verdict::Reboot => "reboot it, and set it up again".to_owned(),
    }]
}

fn cluster_name(subject: &Subject) -> &str {
    subject.cluster.as_deref().unwrap_or("?")
}

fn provisioning_question(question: &provisioning::Question) -> Vec<String> {
    let mut lines = vec![
        format!(
            "how cluster {} recovers: {} failed at the stage {}",
            cluster_name(&question.subject),
            kind_word(&question.operation),
            kind_word(&question.stage)
        ),
        caused_by(&question.cause),
    ];
    lines.extend(subject_lines(&question.subject));
    lines.extend(bounded(question.groups.iter().map(|group| match group.before == group.wanted {
        true => format!("- group {}: {}", group.name, counted_long(group.wanted.into(), "node")),
        false => format!("- group {}: from {} to {}", group.name, group.before, group.wanted),
    })));
    lines.extend(bounded(question.nodes.iter().map(|node| {
        let mut is = vec![kind_word(&node.role)];
        is.push(if node.exists { "exists" } else { "does not exist" }.to_owned());
        is.extend(node.configured.then(|| "configured".to_owned()));
        is.extend(node.decommissioned.then(|| "decommissioned".to_owned()));
        format!("- node {}: {}", node.name, is.join(", "))
    })));
    lines
}

fn provisioning_answer(question: &provisioning::Question, answer: &provisioning::Answer) -> Vec<String> {
    let provisioning::Verdict::Recover(recovery) = &answer.verdict else { return vec!["no policy decided".to_owned()] };
    let state = kind_word(&recovery.state);
    if recovery.delete.is_empty() {
        return vec![format!("delete no node; the cluster is then {state}")];
    }
    let mut lines = vec![format!("delete {}; the cluster is then {state}", counted(recovery.delete.len(), "node"))];
    lines.extend(bounded(recovery.delete.iter().map(|position| {
        let node = question.nodes.get(*position as usize);
        format!("- {}", node.map_or_else(|| format!("node {position}"), |node| node.name.clone()))
    })));
    lines
}

fn place_words(question: &placement::Question, position: u32) -> String {
    let place = question.places.get(position as usize);
    place.map_or_else(|| format!("place {position}"), |place| format!("{} in {}", place.server_type, place.zone))
}

fn placement_question(question: &placement::Question) -> Vec<String> {
    let mut lines = vec![format!(
        "where {}{} are created, of which types ({})",
        counted_long(question.wanted.into(), "server"),
        of_group(question.subject.group.as_ref()),
        question.operation
    )];
    lines.extend(subject_lines(&question.subject));
    lines.extend(bounded((0..).zip(&question.places).map(|(position, place)| {
        let mut is = vec![format!("{} there", place.servers)];
        if place.creating > 0 {
            is.push(format!("{} of them being created", place.creating));
        }
        is.extend(place.price_per_hour.as_ref().map(price_words));
        if let Some(failure) = place.last_failure.as_ref().filter(|_| place.failures > 0) {
            is.push(format!("failed {}: {}", counted_long(place.failures.into(), "time"), caused_by(failure)));
        }
        is.extend(
            place
                .backoff_until
                .filter(|until| *until > question.now)
                .map(|until| format!("left alone until {}", instant(until))),
        );
        format!("- {}: {}", place_words(question, position), is.join(", "))
    })));
    lines
}

fn price_words(price: &Money) -> String {
    const MICROS: u64 = 1_000_000;
    let fraction = format!("{:06}", price.micros % MICROS);
    let fraction = fraction.trim_end_matches('0');
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    format!("{}{fraction} {} an hour", price.micros / MICROS, price.currency)
}

fn placement_answer(question: &placement::Question, answer: &placement::Answer) -> Vec<String> {
    let placement::Verdict::Place(assignments) = &answer.verdict else { return vec!["no policy decided".to_owned()] };
    if assignments.is_empty() {
        return vec!["create none now".to_owned()];
    }
    bounded(assignments.iter().map(|assignment| {
        let places: Vec<String> = assignment.places.iter().map(|position| place_words(question, *position)).collect();
        format!("{} of {}", counted_long(assignment.count.into(), "server"), places.join(", else "))
    }))
}

#[cfg(feature = "terminal")]
/// What shadows would have decided; empty where there were none.
pub(crate) fn shadow_words(record: &DecisionRecord) -> String {
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

#[cfg(feature = "terminal")]
/// One policy's part in a decision.
pub(crate) fn asked_words(mark: &str, asked: &LinkRecord, agreement: &str) -> String {
    let mut text = String::new();
    let outcome = match &asked.outcome {
        Outcome::Decided => "decided".to_owned(),
        Outcome::DecidedPart { deferred } => format!("decided all but {deferred}"),
        Outcome::Deferred => "deferred to the next".to_owned(),
        Outcome::Fallback { kind, reason } => format!("failed ({}): {reason}", kind_word(kind)),
    };
    let by = if asked.rules.is_empty() { String::new() } else { format!(", by {}", asked.rule_words()) };
    let mut details = human_duration(Duration::from_nanos(asked.duration_ns));
    if let Some(fuel) = asked.fuel {
        details.push_str(&format!(", {fuel} fuel"));
    }
    if let Some(key) = asked.signed_by {
        details.push_str(&format!(", signed by {key}"));
    }
    text.push_str(&format!(
        "  {mark} {}  {agreement}{}  ({details})\n",
        printable(&asked.policy.to_string()),
        printable(&format!("{outcome}{by}"))
    ));
    for rule in rules_by_item(asked) {
        text.push_str(&format!("       {}\n", printable(&rule)));
    }
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

#[cfg(test)]
mod tests;
