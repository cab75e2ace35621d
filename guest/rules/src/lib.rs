//! A policy made of rules: conditions in CEL (<https://cel.dev>), each with an answer and a reason. Knows how rules are
//! read, checked and evaluated; must not know what any rule says.
//!
//! Rules are read and held against the contract in `configure`, and what that leaves is in the snapshot from which
//! every decision starts. The first rule that applies answers; where none does, the next policy of the chain decides.
//! In `state-mapping` rules are about one `server` each, in `rollback` about one `resource` each, in `placement` about
//! one `place` each.
//!
//! A rule that cannot be evaluated (a division by zero) fails the policy: what it was to say, nobody can know.

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

use windlass_contract::{Reader, Scope};
use windlass_guest_sdk::prelude::*;

use answer::{Answer, PlaceVerdict, ResourceVerdict, Verdict};
use contract::{ListedServer, Node};
use evaluate::{Evaluator, Expression, Subject};
use file::{File, MAX_RULES, Slot};

/// The rules of one file, read and checked.
#[derive(Debug)]
pub struct Rules {
    evaluator: Evaluator,
    of: RulesOfSlot,
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
        let mut reader = Reader::default();
        let of = match file.slot {
            None if file.rules.is_empty() => RulesOfSlot::None,
            None => return Err("slot: it is missing".into()),
            Some(Slot::StateMapping) => {
                RulesOfSlot::StateMapping(read(file, &contract::STATE_MAPPING_SCOPE, &mut reader)?)
            }
            Some(Slot::Retry) => RulesOfSlot::Retry(read(file, &contract::RETRY_SCOPE, &mut reader)?),
            Some(Slot::Rollback) => RulesOfSlot::Rollback(read(file, &contract::ROLLBACK_SCOPE, &mut reader)?),
            Some(Slot::Release) => RulesOfSlot::Release(read(file, &contract::RELEASE_SCOPE, &mut reader)?),
            Some(Slot::Provisioning) => {
                RulesOfSlot::Provisioning(read(file, &contract::PROVISIONING_SCOPE, &mut reader)?)
            }
            Some(Slot::Placement) => RulesOfSlot::Placement(read(file, &contract::PLACEMENT_SCOPE, &mut reader)?),
        };
        Ok(Self { evaluator: Evaluator::new(reader.variables), of })
    }
}

/// Reads the rules of a slot. A problem begins with its place, `rules[2].when: `, by which the host finds the line.
fn read<V: Verdict>(file: File, scope: &'static Scope, reader: &mut Reader) -> Result<Vec<Rule<V>>, String> {
    let read = |(position, rule): (usize, file::Rule)| {
        let at = |key: &'static str| move |problem: String| format!("rules[{position}].{key}: {problem}");
        let (ast, facts) = reader.condition(&rule.when, scope).map_err(at("when"))?;
        let answer = Answer::read(&rule.answer, scope, &facts, reader).map_err(at("answer"))?;
        let place = Place { position, name: rule.name };
        Ok(Rule { place, when: Expression { ast }, answer, reason: rule.reason })
    };
    file.rules.into_iter().enumerate().map(read).collect()
}

impl Rules {
    /// The verdict and the reason of the first rule that applies to the subject.
    ///
    /// # Panics
    /// Where a rule cannot be evaluated. The host hears it and goes on to the next policy.
    fn first<'r, V: Verdict>(
        &self,
        rules: &'r [Rule<V>],
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
            Some((verdict, rule.reason.as_deref()))
        })
    }
}

/// Fails the decision as a policy does: the panic is heard in the log, and traps.
fn failed(place: &Place, key: &str, problem: &str) -> ! {
    panic!("{place}: `{key}` cannot be evaluated: {problem}")
}

impl StateMapping for Rules {
    fn decide(&self, server: &state_mapping::Server, listing: &state_mapping::Question) -> state_mapping::Answer {
        let RulesOfSlot::StateMapping(rules) = &self.of else { return state_mapping::Answer::defer() };
        let server = ListedServer { server, listing };
        match self.first(rules, Subject::item(listing, &server), &[]) {
            Some((verdict, reason)) => state_mapping::Answer { verdict, reason: reason.map(str::to_owned) },
            None => state_mapping::Answer::defer(),
        }
    }
}

impl Retry for Rules {
    fn decide(&self, question: retry::Question) -> retry::Answer {
        let RulesOfSlot::Retry(rules) = &self.of else { return retry::Answer::defer() };
        match self.first(rules, Subject::question(&question), &[]) {
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
        let mut reasons: Vec<&str> = Vec::new();
        let mut has_spoken = false;
        let said: Vec<plan::Said> = question
            .resources
            .iter()
            .map(|resource| {
                let subject = Subject::item(&question, resource as &dyn Node);
                let (said, reason) = match self.first(rules, subject, &[]) {
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
        match self.first(rules, Subject::question(&question), &[]) {
            Some((verdict, reason)) => release::Answer { verdict, reason: reason.map(str::to_owned) },
            None => release::Answer::defer(),
        }
    }
}

impl Provisioning for Rules {
    fn decide(&self, question: provisioning::Question) -> provisioning::Answer {
        let RulesOfSlot::Provisioning(rules) = &self.of else { return provisioning::Answer::defer() };
        match self.first(rules, Subject::question(&question), &question.nodes) {
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
        let mut reasons: Vec<&str> = Vec::new();
        let mut has_spoken = false;
        let said: &Vec<PlaceVerdict> = &question
            .places
            .iter()
            .map(|place| match self.first(rules, Subject::item(&question, place as &dyn Node), &[]) {
                Some((PlaceVerdict::Defer, _)) | None => PlaceVerdict::Defer,
                Some((said, reason)) => {
                    has_spoken = true;
                    reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
                    said
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

export_policy!(Rules: state_mapping, retry, rollback, release, provisioning, placement);

#[cfg(test)]
mod tests;
