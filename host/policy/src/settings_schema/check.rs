//! Settings against the rules of a schema.

use std::cmp::Ordering::{self, Equal, Greater, Less};
use std::mem;

use serde_json::{Map, Number, Value};
use windlass_contract::nearest;

use super::{MAX_PROBLEMS, MAX_REPORTED_ALTERNATIVES, MAX_STEPS, Place, Rules, Schema, SettingsSchema, Type};
use crate::text::unknown_key;
use crate::text::{brief, listed, one_line, short};

impl SettingsSchema {
    /// Checks settings.
    ///
    /// # Errors
    /// The first problems, each with its place.
    pub(crate) fn check(&self, settings: &Value) -> Result<(), String> {
        let mut check = Check { steps: 0, problems: Problems::at_most(MAX_PROBLEMS) };
        check.value(&self.0, settings, &Place::Root);
        let Problems { mut reported, more, .. } = check.problems;
        if reported.is_empty() && check.steps > MAX_STEPS {
            // Nothing was found as far as it went, which proves nothing.
            return Err(format!("settings: checking them takes more than {MAX_STEPS} comparisons; shorten the arrays"));
        }
        if more {
            reported.push("and more".into());
        }
        if reported.is_empty() { Ok(()) } else { Err(reported.join("; ")) }
    }
}

/// One check under way.
struct Check {
    steps: usize,
    problems: Problems,
}

struct Problems {
    reported: Vec<String>,
    /// How many are to be reported.
    most: usize,
    /// Whether there are more. The check ends with the first of them.
    more: bool,
}

impl Problems {
    fn at_most(most: usize) -> Problems {
        Problems { reported: Vec::new(), most, more: false }
    }

    fn is_empty(&self) -> bool {
        self.reported.is_empty() && !self.more
    }
}

impl Check {
    /// Whether the outcome is known, or takes too long to find out.
    fn is_over(&self) -> bool {
        self.problems.more || self.steps > MAX_STEPS
    }

    fn problem(&mut self, place: &Place<'_>, words: impl FnOnce() -> String) {
        self.sentence(|| format!("{place}: {}", words()));
    }

    fn sentence(&mut self, sentence: impl FnOnce() -> String) {
        if self.problems.reported.len() < self.problems.most {
            self.problems.reported.push(one_line(&sentence()).into());
        } else {
            self.problems.more = true;
        }
    }

    fn value(&mut self, schema: &Schema, value: &Value, place: &Place<'_>) {
        self.steps += 1;
        if self.is_over() {
            return;
        }
        match schema {
            Schema::Anything => {}
            Schema::Nothing => self.problem(place, || "no value is allowed here".into()),
            Schema::Rules(rules) => self.rules(rules, value, place),
        }
    }

    fn rules(&mut self, rules: &Rules, value: &Value, place: &Place<'_>) {
        if !rules.accept_type_of(value) {
            return self.problem(place, || format!("expected {}, found {}", words(&rules.types), brief(value)));
        }
        for choices in &rules.choices {
            self.steps += choices.len();
            if !choices.iter().any(|choice| is_same(choice, value)) {
                return self.problem(place, || no_choice(choices, value));
            }
        }
        match value {
            Value::Number(number) => self.number(rules, number, place),
            Value::String(text) if rules.min_length.is_some() || rules.max_length.is_some() => {
                // Unicode's characters, as JSON Schema counts them.
                self.size(place, text.chars().count(), [rules.min_length, rules.max_length], "length");
            }
            Value::Array(items) => {
                self.size(place, items.len(), [rules.min_items, rules.max_items], "number of items");
                for (index, item) in items.iter().enumerate() {
                    self.value(&rules.items, item, &Place::Index(place, index));
                    if self.is_over() {
                        return;
                    }
                }
            }
            Value::Object(map) => self.object(rules, map, place),
            Value::String(_) | Value::Null | Value::Bool(_) => {}
        }
        if !rules.any_of.is_empty() {
            self.any_of(&rules.any_of, value, place);
        }
    }

    fn number(&mut self, rules: &Rules, number: &Number, place: &Place<'_>) {
        let bounds = [
            (&rules.minimum, [Less].as_slice(), "is less than the minimum of"),
            (&rules.exclusive_minimum, &[Less, Equal], "is not greater than"),
            (&rules.maximum, &[Greater], "is greater than the maximum of"),
            (&rules.exclusive_maximum, &[Greater, Equal], "is not less than"),
        ];
        for (bound, outside, words) in bounds {
            if let Some(bound) = bound
                && outside.contains(&compare(number, bound))
            {
                self.problem(place, || format!("{number} {words} {bound}"));
            }
        }
    }

    fn size(&mut self, place: &Place<'_>, found: usize, [least, most]: [Option<u64>; 2], what: &str) {
        let size = found as u64;
        if let Some(least) = least.filter(|least| size < *least) {
            self.problem(place, || format!("the {what} is {size}, and at least {least} is required"));
        }
        if let Some(most) = most.filter(|most| size > *most) {
            self.problem(place, || format!("the {what} is {size}, and at most {most} is allowed"));
        }
    }

    fn object(&mut self, rules: &Rules, map: &Map<String, Value>, place: &Place<'_>) {
        self.steps += rules.required.len();
        for name in rules.required.iter().filter(|name| !map.contains_key(*name)) {
            self.problem(place, || format!("the key `{}` is required", short(name)));
        }
        for (key, value) in map {
            if self.is_over() {
                return;
            }
            match (rules.properties.get(key), &rules.additional_properties) {
                (Some(property), _) => self.value(property, value, &Place::Key(place, key)),
                (None, Schema::Nothing) => self.sentence(|| rules.unknown_key(key, place)),
                (None, additional) => self.value(additional, value, &Place::Key(place, key)),
            }
        }
    }

    fn any_of(&mut self, alternatives: &[Schema], value: &Value, place: &Place<'_>) {
        if alternatives.iter().any(|alternative| self.found(alternative, value, place, 0).is_empty()) {
            return;
        }
        if self.problems.reported.len() == self.problems.most {
            self.problems.more = true;
            return;
        }
        // The type shows which one was meant: who wrote a string isn't helped by what is wrong with `null`.
        let meant: Vec<&Schema> =
            alternatives.iter().filter(|alternative| alternative.accepts_type_of(value)).collect();
        match meant[..] {
            [] => {
                let types: Vec<Type> = alternatives.iter().flat_map(|it| it.types()).copied().collect();
                self.problem(place, || format!("expected {}, found {}", words(&types), brief(value)));
            }
            [one] => self.value(one, value, place),
            _ => {
                let first = |alternative: &&Schema| self.found(alternative, value, place, 1).reported.pop();
                let problems: Vec<String> = meant.iter().take(MAX_REPORTED_ALTERNATIVES).filter_map(first).collect();
                let count = alternatives.len();
                self.problem(place, || format!("none of {count} alternatives fits: {}", problems.join(", or ")));
            }
        }
    }

    /// The problems by this schema, so many of them. With none to be reported, the check ends with the first.
    fn found(&mut self, schema: &Schema, value: &Value, place: &Place<'_>, most: usize) -> Problems {
        let outer = mem::replace(&mut self.problems, Problems::at_most(most));
        self.value(schema, value, place);
        mem::replace(&mut self.problems, outer)
    }
}

impl Schema {
    fn accepts_type_of(&self, value: &Value) -> bool {
        match self {
            Schema::Anything => true,
            Schema::Nothing => false,
            Schema::Rules(rules) => rules.accept_type_of(value),
        }
    }

    fn types(&self) -> &[Type] {
        match self {
            Schema::Anything | Schema::Nothing => &[],
            Schema::Rules(rules) => &rules.types,
        }
    }
}

impl Rules {
    fn accept_type_of(&self, value: &Value) -> bool {
        self.types.is_empty() || self.types.iter().any(|known| known.is_of(value))
    }

    fn unknown_key(&self, key: &str, place: &Place<'_>) -> String {
        if self.properties.is_empty() {
            let whose =
                if matches!(place, Place::Root) { "this policy has no settings" } else { "there are none here" };
            return format!("{place}: unknown key `{}`; {whose}", short(key));
        }
        let known: Vec<&str> = self.properties.keys().map(String::as_str).collect();
        format!("{place}: {}", unknown_key(key, &known))
    }
}

/// Types in a sentence, each once.
fn words(types: &[Type]) -> String {
    let mut known = Type::ALL.iter().filter(|(known, ..)| types.contains(known)).map(|(.., words)| *words);
    match known.next() {
        None => "nothing".into(),
        Some(first) => known.fold(first.to_owned(), |words, next| words + " or " + next),
    }
}

fn no_choice(choices: &[Value], value: &Value) -> String {
    let texts: Vec<String> = choices.iter().map(brief).collect();
    let of = if texts.len() > 1 { "one of " } else { "" };
    let expected = format!("expected {of}{}, found {}", listed(&texts), brief(value));
    let near = value.as_str().and_then(|found| nearest(found, choices.iter().filter_map(Value::as_str)));
    match near {
        Some(near) if texts.len() > 1 => format!("{expected}; did you mean \"{near}\"?"),
        _ => expected,
    }
}

/// Equality as JSON Schema means it: 1 and 1.0 are the same number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Equal,
        _ => one == other,
    }
}

/// Compares exactly: an integer above 2^53 would lose its last digits as a float.
fn compare(one: &Number, other: &Number) -> Ordering {
    match (integer(one), integer(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => compare_with_float(one, float(other)),
        (None, Some(other)) => compare_with_float(other, float(one)).reverse(),
        (None, None) => compare_floats(float(one), float(other)),
    }
}

fn compare_with_float(integer: i128, float: f64) -> Ordering {
    // A cast to i128 is exact for a whole float within its bounds, and stops there. JSON's integers are far within.
    integer.cmp(&(float.trunc() as i128)).then_with(|| compare_floats(0.0, float.fract()))
}

fn compare_floats(one: f64, other: f64) -> Ordering {
    // No number of JSON is a NaN.
    one.partial_cmp(&other).unwrap_or(Equal)
}

fn integer(number: &Number) -> Option<i128> {
    number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

#[cfg(test)]
mod tests;
