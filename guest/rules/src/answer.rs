//! Answers of rules: a verdict in the contract's own words, in which a text that begins with `=` is an expression.

use cel::Context;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_contract::{Facts, Kind, Reader, Scope, Shape, meant, shapes};
use windlass_guest_sdk::{provisioning, release, retry, state_mapping};

use crate::contract;
use crate::evaluate::{Evaluator, Expression, Subject};

/// What begins a text that is an expression.
const EXPRESSION: char = '=';

/// What may be computed in a verdict: the place, as a JSON pointer, and what belongs there.
type Computable = (&'static str, Target);

/// What belongs in a place of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Number,
    Text,
    /// The positions of the nodes, of those that still exist, for which a condition about `node` is true.
    Nodes,
}

/// A verdict that rules can give.
pub(crate) trait Verdict: DeserializeOwned + Clone + std::fmt::Debug {
    /// The words for it: alone, or as the key of a table with the rest.
    const CASES: Shape;

    /// Where an expression can stand in it.
    fn computable() -> &'static [Computable] {
        &[]
    }
}

impl Verdict for retry::Verdict {
    const CASES: Shape = shapes::RETRY_VERDICT;

    fn computable() -> &'static [Computable] {
        &[("/wait", Target::Number)]
    }
}

impl Verdict for state_mapping::Verdict {
    const CASES: Shape = shapes::STATE_MAPPING_VERDICT;
}

impl Verdict for release::Verdict {
    const CASES: Shape = shapes::RELEASE_VERDICT;

    fn computable() -> &'static [Computable] {
        &[("/retry-after", Target::Number), ("/return-to-pool/operating-system", Target::Text)]
    }
}

impl Verdict for provisioning::Verdict {
    const CASES: Shape = shapes::PROVISIONING_VERDICT;

    fn computable() -> &'static [Computable] {
        &[("/recover/delete", Target::Nodes)]
    }
}

/// What a rule says about one resource of a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ResourceVerdict {
    /// As if no rule had spoken of it.
    Defer,
    Keep,
    /// In the way and the order of the built-in default, which keeps what must not be deleted.
    Delete,
}

impl Verdict for ResourceVerdict {
    const CASES: Shape = Shape::Enum(&["defer", "keep", "delete"]);
}

/// What a rule says about one place of a placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlaceVerdict {
    /// As if no rule had spoken of it.
    Defer,
    /// It comes before those of which nothing was said.
    First,
    /// It comes after them.
    Last,
    /// Nothing is created there now.
    Skip,
}

impl Verdict for PlaceVerdict {
    const CASES: Shape = Shape::Enum(&["defer", "first", "last", "skip"]);
}

/// A rule's answer.
#[derive(Debug)]
pub(crate) enum Answer<V> {
    Fixed(V),
    Computed {
        /// The verdict as JSON, with something in the places that are computed.
        template: Value,
        parts: Vec<Part>,
    },
}

/// A place that is computed.
#[derive(Debug)]
pub(crate) struct Part {
    pointer: &'static str,
    target: Target,
    expression: Expression,
}

impl<V: Verdict> Answer<V> {
    /// Reads an answer, given where `facts` are there. Without them the condition has mistakes, and everything is taken
    /// to be there.
    ///
    /// # Errors
    /// A line for each mistake.
    pub(crate) fn read(
        value: &Value,
        scope: &'static Scope,
        facts: Option<&Facts>,
        reader: &mut Reader,
    ) -> Result<Self, String> {
        let words = V::CASES.cases();
        let word = match value {
            Value::String(word) => Some(word.as_str()),
            Value::Object(table) if table.len() == 1 => table.keys().next().map(String::as_str),
            _ => None,
        };
        let Some(word) = word else {
            let words: Vec<&str> = words.collect();
            return Err(format!("expected one of {}, alone or as the key of a table", words.join(", ")));
        };
        if !words.clone().any(|known| known == word) {
            return Err(format!("there is no answer `{word}`{}", meant(word, words)));
        }
        check_payload::<V>(word, value.is_object())?;
        let mut template = value.clone();
        let (mut parts, mut problems) = (Vec::new(), Vec::new());
        for (pointer, target) in V::computable() {
            let Some(place) = template.pointer_mut(pointer) else { continue };
            let Some(text) = place.as_str().and_then(|text| text.trim_start().strip_prefix(EXPRESSION)) else {
                continue;
            };
            let (scope, kind, placeholder) = match target {
                Target::Number => (scope, Kind::Number, Value::from(0)),
                Target::Text => (scope, Kind::Text, Value::from("")),
                Target::Nodes => (&contract::NODE_SCOPE, Kind::Bool, Value::Array(Vec::new())),
            };
            let name = pointer.rsplit('/').next().unwrap_or(pointer);
            match reader.read(text.trim(), scope, facts, &kind) {
                Ok(ast) => parts.push(Part { pointer, target: *target, expression: Expression { ast } }),
                Err(problem) => problems.extend(problem.lines().map(|line| format!("`{name}`: {line}"))),
            }
            *place = placeholder;
        }
        let fixed = serde_json::from_value(template.clone());
        problems.extend(fixed.as_ref().err().map(explain));
        let (Ok(fixed), []) = (fixed, &problems[..]) else { return Err(problems.join("\n")) };
        Ok(match parts.is_empty() {
            true => Answer::Fixed(fixed),
            false => Answer::Computed { template, parts },
        })
    }

    /// The verdict about a subject, in its context. `nodes` are those of a failed cluster operation.
    pub(crate) fn verdict(
        &self,
        evaluator: &Evaluator,
        context: &Context<'_, '_>,
        subject: Subject<'_>,
        nodes: &[provisioning::Node],
    ) -> Result<V, String> {
        let (template, parts) = match self {
            Answer::Fixed(verdict) => return Ok(verdict.clone()),
            Answer::Computed { template, parts } => (template, parts),
        };
        let mut verdict = template.clone();
        for Part { pointer, target, expression } in parts {
            let value = match target {
                Target::Number => expression.number(context)?.into(),
                Target::Text => expression.text(context)?.into(),
                Target::Nodes => {
                    let mut chosen = Vec::new();
                    for (position, node) in (0_u32..).zip(nodes) {
                        let about = Subject::item(subject.question, node);
                        if node.exists && evaluator.about(about, |context| expression.is_true(context))? {
                            chosen.push(Value::from(position));
                        }
                    }
                    Value::Array(chosen)
                }
            };
            if let Some(place) = verdict.pointer_mut(pointer) {
                *place = value;
            }
        }
        serde_json::from_value(verdict).map_err(|error| error.to_string())
    }
}

/// Whether an answer has something with it where it must, and nothing where it has nothing.
fn check_payload<V: Verdict>(word: &str, is_with: bool) -> Result<(), String> {
    let payload = match V::CASES {
        Shape::Variant(cases) => cases.iter().find(|(case, _)| *case == word).and_then(|(_, payload)| *payload),
        _ => None,
    };
    let example = match (payload, is_with) {
        (None, false) | (Some(_), true) => return Ok(()),
        (None, true) => return Err(format!("`{word}` is an answer by itself: write \"{word}\"")),
        (Some(Shape::Number { .. }), false) => "60000".to_owned(),
        (Some(Shape::Record(fields)), false) => {
            let fields = fields.iter().filter(|(_, shape)| !matches!(shape, Shape::Option(_)));
            let fields: Vec<String> = fields.map(|(name, _)| format!("{name} = ...")).collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        (Some(_), false) => "...".to_owned(),
    };
    let needed = if example == "60000" { "a number of milliseconds" } else { "more than its name" };
    Err(format!("`{word}` needs {needed}: write {{ {word} = {example} }}"))
}

/// serde's words, with the nearest of the words that it expected.
fn explain(error: &serde_json::Error) -> String {
    let words = error.to_string();
    for (unknown, what) in [("unknown variant `", "there is no"), ("unknown field `", "there is no key")] {
        let Some((written, expected)) = words.strip_prefix(unknown).and_then(|rest| rest.split_once('`')) else {
            continue;
        };
        // Every second piece between back quotes is a name.
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        if !known.is_empty() {
            return format!("{what} `{written}`{}", meant(written, known.into_iter()));
        }
    }
    words
}
