//! A policy made of rules: conditions in CEL (<https://cel.dev>), each with an answer and a reason. Knows how rules are
//! read, checked and evaluated; must not know what any rule says.
//!
//! Rules are read and held against the contract in `configure`, and what that leaves is in the snapshot from which
//! every decision starts. The first rule that applies answers; where none does, the next policy of the chain decides.
//! In `state-mapping` rules are about one `server` each, in `rollback` about one `resource` each, in `placement` about
//! one `place` each.
//!
//! A rule that cannot be evaluated (a division by zero) fails the policy: what it was to say, nobody can know.
//!
//! Beside its answers it tells which rules gave them, and which rules can never give one.

mod answer;
mod bindings {
    //! What is made of the contract in `wit/`.
    #[rustfmt::skip]
    mod nodes;
}
mod contract;
mod evaluate;
mod file;
// What is undone in which order is the same knowledge for rules: they only say what is kept.
#[path = "../../rollback/src/plan.rs"]
mod plan;
// The same holds for what is put where: they only say which places come first, last, or not at all.
#[path = "../../placement/src/plan.rs"]
mod placing;

use std::fmt;
use std::sync::{Mutex, PoisonError};

use windlass_contract::{Reader, Scope};
use windlass_guest_sdk::prelude::*;
use windlass_guest_sdk::rules::{self, Applied};

use answer::{Answer, PlaceVerdict, ResourceVerdict, Verdict};
use contract::{ListedServer, Node};
use evaluate::{Evaluator, Expression, Subject};
use file::{File, MAX_RULES, Slot};

/// How many steps are taken to find rules that never answer: a small share of the time for `configure`. What would take
/// more is not found.
const REMARK_STEPS: u32 = 1_000_000;

/// How many of them for one rule, or for one rule beside another.
const REMARK_STEPS_EACH: u32 = 20_000;

/// The rules of one file, read and checked.
#[derive(Debug)]
pub struct Rules {
    evaluator: Evaluator,
    of: RulesOfSlot,
    remarks: Vec<String>,
    /// The rules that the current or last decision applied.
    applied: Mutex<Vec<Applied>>,
}

#[derive(Debug)]
enum RulesOfSlot {
    None,
    StateMapping(Vec<Rule<state_mapping::Verdict>>),
    Retry(Vec<Rule<retry::Verdict>>),
    Rollback(Vec<Rule<ResourceVerdict>>),
    Release(Vec<Rule<release::Verdict>>),
    Provisioning(Vec<Rule<provisioning::Verdict>>),
    Placement(Vec<Rule<PlaceVerdict>>),
}

/// One rule.
#[derive(Debug)]
struct Rule<V> {
    place: Place,
    when: Expression,
    answer: Answer<V>,
    reason: Option<String>,
}

/// Which rule it is, for messages.
#[derive(Debug)]
struct Place {
    /// From 0, as the host finds it in the file.
    position: usize,
    name: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "rule {} (`{name}`)", self.position + 1),
            None => write!(formatter, "rule {}", self.position + 1),
        }
    }
}

impl Policy for Rules {
    type Settings = File;

    fn configure(file: File) -> Result<Self, String> {
        if file.rules.len() > MAX_RULES {
            return Err(format!("rules: there are {}, and at most {MAX_RULES} are allowed", file.rules.len()));
        }
        let mut reading = Reading::default();
        let reader = &mut reading;
        let of = match file.slot {
            None if file.rules.is_empty() => RulesOfSlot::None,
            None => return Err("slot: it is missing".into()),
            Some(Slot::StateMapping) => RulesOfSlot::StateMapping(read(file, &contract::STATE_MAPPING_SCOPE, reader)),
            Some(Slot::Retry) => RulesOfSlot::Retry(read(file, &contract::RETRY_SCOPE, reader)),
            Some(Slot::Rollback) => RulesOfSlot::Rollback(read(file, &contract::ROLLBACK_SCOPE, reader)),
            Some(Slot::Release) => RulesOfSlot::Release(read(file, &contract::RELEASE_SCOPE, reader)),
            Some(Slot::Provisioning) => RulesOfSlot::Provisioning(read(file, &contract::PROVISIONING_SCOPE, reader)),
            Some(Slot::Placement) => RulesOfSlot::Placement(read(file, &contract::PLACEMENT_SCOPE, reader)),
        };
        if !reading.problems.is_empty() {
            return Err(reading.problems.join("\n"));
        }
        let evaluator = Evaluator::new(reading.reader.variables);
        Ok(Self { evaluator, of, remarks: reading.remarks, applied: Mutex::default() })
    }
}

/// What reading a file finds. All of it begins with its place, `rules[2].when: `, by which the host finds the line.
#[derive(Default)]
struct Reading {
    reader: Reader,
    /// What nobody can evaluate.
    problems: Vec<String>,
    /// What nobody can mean.
    remarks: Vec<String>,
}

/// Reads the rules of a slot: those that can be read.
fn read<V: Verdict>(file: File, scope: &'static Scope, reading: &mut Reading) -> Vec<Rule<V>> {
    let mut rules: Vec<Rule<V>> = Vec::new();
    for (position, rule) in file.rules.into_iter().enumerate() {
        let Reading { reader, problems, .. } = &mut *reading;
        let mut tell = |key: &'static str, problem: String| {
            problems.extend(problem.lines().map(|line| format!("rules[{position}].{key}: {line}")));
        };
        let condition = reader.condition(&rule.when, scope).map_err(|problem| tell("when", problem)).ok();
        let facts = condition.as_ref().map(|(_, facts)| facts);
        let answer = Answer::read(&rule.answer, scope, facts, reader).map_err(|problem| tell("answer", problem)).ok();
        let (Some((ast, _)), Some(answer)) = (condition, answer) else { continue };
        let place = Place { position, name: rule.name };
        rules.push(Rule { place, when: Expression { ast }, answer, reason: rule.reason });
    }
    if reading.problems.is_empty() {
        reading.remarks = remarks(&rules, &reading.reader);
    }
    rules
}

/// Rules that never answer: since their condition is never true, or since another one answers first whenever it is.
fn remarks<V>(rules: &[Rule<V>], reader: &Reader) -> Vec<String> {
    let mut left = REMARK_STEPS;
    let mut are_possible = |conditions: &[(&cel::parser::Expression, bool)]| {
        let mut steps = REMARK_STEPS_EACH.min(left);
        let given = steps;
        let possible = reader.are_possible(conditions, &mut steps);
        left -= given - steps;
        possible
    };
    let mut remarks = Vec::new();
    for (position, rule) in rules.iter().enumerate() {
        let mut tell = |problem: String| remarks.push(format!("rules[{}].when: {problem}", rule.place.position));
        let when = &rule.when.ast;
        if !are_possible(&[(when, true)]) {
            tell("it is never true, so the rule never answers: correct its condition, or remove it".into());
            continue;
        }
        let first = rules[..position].iter().find(|before| !are_possible(&[(when, true), (&before.when.ast, false)]));
        if let Some(Rule { place, .. }) = first {
            tell(format!(
                "{place} answers first whenever it is true, so the rule never answers: put it before {place}, or \
                 remove it"
            ));
        }
    }
    remarks
}

impl Rules {
    /// The verdict and the reason of the first rule that applies to the question as a whole.
    fn answer<'r, V: Verdict>(
        &self,
        rules: &'r [Rule<V>],
        question: &dyn Node,
        nodes: &[provisioning::Node],
    ) -> Option<(V, Option<&'r str>)> {
        self.begin();
        self.first(rules, None, Subject::question(question), nodes)
    }

    /// Forgets which rules answered before.
    fn begin(&self) {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Remembers that a rule answered, about an item or about the whole.
    fn note(&self, rule: &Place, item: Option<u32>) {
        let rule = u32::try_from(rule.position).unwrap_or(u32::MAX);
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        match applied.iter_mut().find(|applied| applied.rule == rule) {
            Some(applied) => applied.items.extend(item),
            None => applied.push(Applied { rule, items: item.into_iter().collect() }),
        }
    }

    /// The verdict and the reason of the first rule that applies to the subject, which is this item of the question.
    ///
    /// # Panics
    /// Where a rule cannot be evaluated. The host hears it and goes on to the next policy.
    fn first<'r, V: Verdict>(
        &self,
        rules: &'r [Rule<V>],
        item: Option<u32>,
        subject: Subject<'_>,
        nodes: &[provisioning::Node],
    ) -> Option<(V, Option<&'r str>)> {
        self.evaluator.about(subject, |context| {
            let rule = rules.iter().find(|rule| {
                rule.when.is_true(context).unwrap_or_else(|problem| failed(&rule.place, "when", &problem))
            })?;
            let verdict = rule
                .answer
                .verdict(&self.evaluator, context, subject, nodes)
                .unwrap_or_else(|problem| failed(&rule.place, "answer", &problem));
            self.note(&rule.place, item);
            Some((verdict, rule.reason.as_deref()))
        })
    }
}

/// Fails the decision: the host takes the words from the log, and the next policy decides.
fn failed(place: &Place, key: &str, problem: &str) -> ! {
    let words = format!("{place}: `{key}` cannot be evaluated: {problem}");
    #[cfg(target_arch = "wasm32")]
    {
        windlass_guest_sdk::log::error(words);
        core::arch::wasm32::unreachable()
    }
    #[cfg(not(target_arch = "wasm32"))]
    panic!("{words}")
}

impl rules::Policy for Rules {
    fn applied(&self) -> Vec<Applied> {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner).clone();
        applied.sort_by_key(|applied| applied.rule);
        applied
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

impl Rules {
    /// Judges the server at this position of a listing.
    fn judge(
        &self,
        position: u32,
        server: &state_mapping::Server,
        listing: &state_mapping::Question,
    ) -> state_mapping::Answer {
        let RulesOfSlot::StateMapping(rules) = &self.of else { return state_mapping::Answer::defer() };
        let server = ListedServer { server, listing };
        match self.first(rules, Some(position), Subject::item(listing, &server), &[]) {
            Some((verdict, reason)) => state_mapping::Answer { verdict, reason: reason.map(str::to_owned) },
            None => state_mapping::Answer::defer(),
        }
    }
}

impl StateMapping for Rules {
    fn decide(&self, server: &state_mapping::Server, listing: &state_mapping::Question) -> state_mapping::Answer {
        self.begin();
        self.judge(0, server, listing)
    }

    fn decide_all(&self, listing: &state_mapping::Question) -> Vec<state_mapping::Answer> {
        self.begin();
        (0..).zip(&listing.servers).map(|(position, server)| self.judge(position, server, listing)).collect()
    }
}

impl Retry for Rules {
    fn decide(&self, question: retry::Question) -> retry::Answer {
        let RulesOfSlot::Retry(rules) = &self.of else { return retry::Answer::defer() };
        match self.answer(rules, &question, &[]) {
            Some((verdict, reason)) => retry::Answer { verdict, reason: reason.map(str::to_owned) },
            None => retry::Answer::defer(),
        }
    }
}

impl Rollback for Rules {
    /// Rules say what is kept; the rest is undone as the built-in default does it. Where no rule has spoken, the next
    /// policy plans.
    fn decide(&self, question: rollback::Question) -> rollback::Answer {
        let RulesOfSlot::Rollback(rules) = &self.of else { return rollback::Answer::defer() };
        self.begin();
        let mut reasons: Vec<&str> = Vec::new();
        let mut has_spoken = false;
        let said: Vec<plan::Said> = (0..)
            .zip(&question.resources)
            .map(|(position, resource)| {
                let subject = Subject::item(&question, resource as &dyn Node);
                let (said, reason) = match self.first(rules, Some(position), subject, &[]) {
                    Some((ResourceVerdict::Keep, reason)) => (plan::Said::Keep, reason),
                    Some((ResourceVerdict::Delete, reason)) => (plan::Said::Delete, reason),
                    Some((ResourceVerdict::Defer, _)) | None => return plan::Said::Nothing,
                };
                has_spoken = true;
                reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
                said
            })
            .collect();
        if !has_spoken {
            return rollback::Answer::defer();
        }
        let answer = rollback::Answer::plan(plan::undo(&question, &said).steps);
        match reasons.is_empty() {
            true => answer,
            false => answer.because(reasons.join("; ")),
        }
    }
}

impl Release for Rules {
    fn decide(&self, question: release::Question) -> release::Answer {
        let RulesOfSlot::Release(rules) = &self.of else { return release::Answer::defer() };
        match self.answer(rules, &question, &[]) {
            Some((verdict, reason)) => release::Answer { verdict, reason: reason.map(str::to_owned) },
            None => release::Answer::defer(),
        }
    }
}

impl Provisioning for Rules {
    fn decide(&self, question: provisioning::Question) -> provisioning::Answer {
        let RulesOfSlot::Provisioning(rules) = &self.of else { return provisioning::Answer::defer() };
        match self.answer(rules, &question, &question.nodes) {
            Some((verdict, reason)) => provisioning::Answer { verdict, reason: reason.map(str::to_owned) },
            None => provisioning::Answer::defer(),
        }
    }
}

impl Placement for Rules {
    /// Rules say which places come first, which last and which not at all; servers are then placed in that order as the
    /// built-in default does it. Where no rule has spoken, the next policy places.
    fn decide(&self, question: placement::Question) -> placement::Answer {
        let RulesOfSlot::Placement(rules) = &self.of else { return placement::Answer::defer() };
        self.begin();
        let mut reasons: Vec<&str> = Vec::new();
        let mut has_spoken = false;
        let said: &Vec<PlaceVerdict> = &(0..)
            .zip(&question.places)
            .map(|(position, place)| {
                let subject = Subject::item(&question, place as &dyn Node);
                match self.first(rules, Some(position), subject, &[]) {
                    Some((PlaceVerdict::Defer, _)) | None => PlaceVerdict::Defer,
                    Some((said, reason)) => {
                        has_spoken = true;
                        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
                        said
                    }
                }
            })
            .collect();
        if !has_spoken {
            return placement::Answer::defer();
        }
        let usable = placing::usable(&question);
        let of = |verdict| usable.iter().filter(move |position| said[**position as usize] == verdict);
        let places: Vec<u32> =
            of(PlaceVerdict::First).chain(of(PlaceVerdict::Defer)).chain(of(PlaceVerdict::Last)).copied().collect();
        let answer = placement::Answer::place(placing::in_order(&question, &places));
        match reasons.is_empty() {
            true => answer,
            false => answer.because(reasons.join("; ")),
        }
    }
}

export_policy!(Rules: state_mapping, retry, rollback, release, provisioning, placement, rules);

#[cfg(test)]
mod tests;
