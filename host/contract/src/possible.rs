//! Whether conditions can be true (or false) together, as far as their own words tell.
//!
//! What is known: truth values and how `&&`, `||`, `!` and `? :` join them; the same path, or the same part of an
//! expression, compared with words and numbers; and that no number of a question is below zero. Everything else counts
//! as possible, and so does what would take too many steps. So what is said to be impossible is.

use cel::common::ast::{Expr, LiteralValue, operators};
use cel::parser::Expression as Ast;

use crate::expression::{Reader, Root, Variable, variable_at};

/// The widest range of numbers that is tried one by one.
const MAX_TRIED: i64 = 16;

/// A text longer than this counts as more than one word.
const LONG_WORD_BYTES: usize = 64;

impl Reader {
    /// Whether some question makes each of these conditions what stands beside it. A part that is looked at takes as many
    /// of the steps as it has words, times what was supposed before; without enough left, everything is possible.
    pub fn are_possible(&self, conditions: &[(&Ast, bool)], steps: &mut u32) -> bool {
        // A list of what is left to try, and no recursion: rules are read on a small stack.
        let mut branches = vec![(conditions.to_vec(), Known { variables: &self.variables, terms: Vec::new() })];
        while let Some((mut parts, mut known)) = branches.pop() {
            loop {
                let Some((part, truth)) = parts.pop() else { return true };
                let of_part = match call(part) {
                    Some((operators::LOGICAL_NOT, _)) => 1,
                    Some((operators::LOGICAL_AND | operators::LOGICAL_OR | operators::CONDITIONAL, _)) => parts.len(),
                    _ => size(part),
                };
                let cost = u32::try_from(of_part.saturating_mul(known.size())).unwrap_or(u32::MAX);
                let Some(left) = steps.checked_sub(cost) else {
                    *steps = 0;
                    return true;
                };
                *steps = left;
                match call(part) {
                    Some((operators::LOGICAL_NOT, [inner])) => parts.push((inner, !truth)),
                    Some((name @ (operators::LOGICAL_AND | operators::LOGICAL_OR), [one, other])) => {
                        if (name == operators::LOGICAL_AND) == truth {
                            parts.extend([(one, truth), (other, truth)]);
                        } else {
                            let mut instead = parts.clone();
                            instead.push((other, truth));
                            branches.push((instead, known.clone()));
                            parts.push((one, truth));
                        }
                    }
                    Some((operators::CONDITIONAL, [condition, one, other])) => {
                        let mut instead = parts.clone();
                        instead.extend([(condition, false), (other, truth)]);
                        branches.push((instead, known.clone()));
                        parts.extend([(condition, true), (one, truth)]);
                    }
                    _ if known.admits(part, truth) => {}
                    _ => break,
                }
            }
        }
        false
    }
}

/// An operator and its operands.
fn call(part: &Ast) -> Option<(&str, &[Ast])> {
    match &part.expr {
        Expr::Call(call) if call.target.is_none() => Some((call.func_name.as_str(), call.args.as_slice())),
        _ => None,
    }
}

/// How many words an expression has, and more where they are long.
fn size(part: &Ast) -> usize {
    let parts = match &part.expr {
        Expr::Call(call) => call.target.iter().map(|target| size(target)).chain(call.args.iter().map(size)).sum(),
        Expr::List(list) => list.elements.iter().map(size).sum(),
        Expr::Select(select) => size(&select.operand),
        Expr::Comprehension(of) => {
            [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result].map(size).iter().sum()
        }
        Expr::Literal(LiteralValue::String(text)) => text.inner().len() / LONG_WORD_BYTES,
        _ => 0,
    };
    parts + 1
}

/// A value that is written in an expression.
#[derive(Clone, Debug, PartialEq)]
enum Value<'a> {
    Null,
    Bool(bool),
    Number(i64),
    Text(&'a str),
}

/// What a part is, where it needs no question.
fn value(part: &Ast) -> Option<Value<'_>> {
    match &part.expr {
        Expr::Literal(LiteralValue::Null) => Some(Value::Null),
        Expr::Literal(LiteralValue::Boolean(value)) => Some(Value::Bool(*value.inner())),
        Expr::Literal(LiteralValue::Int(number)) => Some(Value::Number(*number.inner())),
        Expr::Literal(LiteralValue::String(text)) => Some(Value::Text(text.inner())),
        _ => {
            let (name, operands) = call(part)?;
            let number = |part| match value(part)? {
                Value::Number(number) => Some(number),
                _ => None,
            };
            let result = match (name, operands) {
                (operators::NEGATE, [one]) => number(one)?.checked_neg(),
                (operators::ADD, [one, other]) => number(one)?.checked_add(number(other)?),
                (operators::SUBSTRACT, [one, other]) => number(one)?.checked_sub(number(other)?),
                (operators::MULTIPLY, [one, other]) => number(one)?.checked_mul(number(other)?),
                (operators::DIVIDE, [one, other]) => number(one)?.checked_div(number(other)?),
                (operators::MODULO, [one, other]) => number(one)?.checked_rem(number(other)?),
                _ => None,
            };
            result.map(Value::Number)
        }
    }
}

/// A part of an expression of which something is supposed.
#[derive(Clone, Copy, PartialEq)]
enum Part<'a> {
    /// A path into the question.
    Field(Root, &'a [(usize, &'static str)]),
    Other(&'a Expr),
}

impl Part<'_> {
    /// Whether it can be null: a field of the question, or of an item of a list.
    fn may_be_absent(&self) -> bool {
        matches!(self, Part::Field(..) | Part::Other(Expr::Select(_)))
    }
}

/// What a branch supposes.
#[derive(Clone)]
struct Known<'a> {
    variables: &'a [Variable],
    terms: Vec<Term<'a>>,
}

/// What is supposed of one part of an expression.
#[derive(Clone)]
struct Term<'a> {
    of: Part<'a>,
    is: Option<Value<'a>>,
    /// It is one of these, none of which is in `not`.
    among: Option<Vec<Value<'a>>>,
    /// It is none of these.
    not: Vec<Value<'a>>,
    /// It is a number from here to there.
    range: Option<(i64, i64)>,
}

impl<'a> Known<'a> {
    /// Supposes one more thing. False: that contradicts what was supposed before, or itself.
    fn admits(&mut self, part: &'a Ast, truth: bool) -> bool {
        if let Some(Value::Bool(value)) = value(part) {
            return value == truth;
        }
        match call(part) {
            Some((name @ (operators::EQUALS | operators::NOT_EQUALS), [one, other])) => {
                let equal = (name == operators::EQUALS) == truth;
                match (value(one), value(other)) {
                    (Some(one), Some(other)) => (one == other) == equal,
                    (None, Some(value)) => self.compares(one, value, equal),
                    (Some(value), None) => self.compares(other, value, equal),
                    (None, None) => self.compares(part, Value::Bool(true), truth),
                }
            }
            Some((operators::IN, [item, list])) => self.is_among(part, item, list, truth),
            Some((
                name @ (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS),
                [one, other],
            )) => self.is_ordered(part, name, (one, other), truth),
            _ => self.compares(part, Value::Bool(true), truth),
        }
    }

    /// What a part is, and whether only its presence is asked for.
    fn part(&self, part: &'a Ast) -> (Part<'a>, bool) {
        let variable = match &part.expr {
            Expr::Ident(name) => variable_at(name).and_then(|position| self.variables.get(position)),
            _ => None,
        };
        let Some(variable) = variable else { return (Part::Other(&part.expr), false) };
        (Part::Field(variable.root, &variable.path), variable.presence)
    }

    /// How much is supposed, and at least 1.
    fn size(&self) -> usize {
        let of_term = |term: &Term<'_>| 1 + term.among.as_ref().map_or(0, Vec::len) + term.not.len();
        1 + self.terms.iter().map(of_term).sum::<usize>()
    }

    fn term(&mut self, of: Part<'a>) -> &mut Term<'a> {
        let position = self.terms.iter().position(|term| term.of == of).unwrap_or_else(|| {
            self.terms.push(Term { of, is: None, among: None, not: Vec::new(), range: None });
            self.terms.len() - 1
        });
        &mut self.terms[position]
    }

    /// A part is a value, or is not.
    fn compares(&mut self, part: &'a Ast, value: Value<'a>, equal: bool) -> bool {
        let (part, is_presence) = self.part(part);
        let term = self.term(part);
        let (value, equal) = match (is_presence, value) {
            (true, Value::Bool(is_there)) => (Value::Null, is_there != equal),
            // Whether something is there is true or false, and nothing else.
            (true, _) => return !equal,
            (false, value) => (value, equal),
        };
        match (value, equal) {
            // A field may be absent as well; everything else is one or the other.
            (Value::Bool(value), false) if !part.may_be_absent() => term.becomes(Value::Bool(!value)),
            (value, true) => term.becomes(value),
            (value, false) => term.excludes(&[value]),
        }
    }

    fn is_among(&mut self, part: &'a Ast, item: &'a Ast, list: &'a Ast, truth: bool) -> bool {
        let Expr::List(list) = &list.expr else { return self.compares(part, Value::Bool(true), truth) };
        let Some(among) = list.elements.iter().map(value).collect::<Option<Vec<_>>>() else {
            return self.compares(part, Value::Bool(true), truth);
        };
        if let Some(item) = value(item) {
            return among.contains(&item) == truth;
        }
        let (of, is_presence) = self.part(item);
        if is_presence {
            let can_be = |value| among.contains(&Value::Bool(value)) == truth;
            return match (can_be(true), can_be(false)) {
                (true, true) => true,
                (false, false) => false,
                (is_there, _) => self.compares(item, Value::Bool(is_there), true),
            };
        }
        let term = self.term(of);
        match truth {
            true => term.is_among(among),
            false => term.excludes(&among),
        }
    }

    fn is_ordered(&mut self, part: &'a Ast, name: &str, (one, other): (&'a Ast, &'a Ast), truth: bool) -> bool {
        let is_less = matches!(name, operators::LESS | operators::LESS_EQUALS);
        let is_strict = matches!(name, operators::LESS | operators::GREATER);
        // `5 > x` is `x < 5`, and what is not below 5 is 5 or more.
        let (term, bound, is_below) = match (value(one), value(other)) {
            (Some(Value::Number(one)), Some(Value::Number(other))) => {
                let holds = match (is_less, is_strict) {
                    (true, true) => one < other,
                    (true, false) => one <= other,
                    (false, true) => one > other,
                    (false, false) => one >= other,
                };
                return holds == truth;
            }
            (None, Some(Value::Number(bound))) => (one, bound, is_less == truth),
            (Some(Value::Number(bound)), None) => (other, bound, is_less != truth),
            _ => return self.compares(part, Value::Bool(true), truth),
        };
        let beyond = i64::from(is_strict == truth);
        // All numbers of a question are unsigned; what is calculated with them may be below zero.
        let (part, _) = self.part(term);
        let lowest = if matches!(part, Part::Field(..)) { 0 } else { i64::MIN };
        let term = self.term(part);
        let (low, high) = term.range.get_or_insert((lowest, i64::MAX));
        match is_below {
            true => *high = (*high).min(bound.saturating_sub(beyond)),
            false => *low = (*low).max(bound.saturating_add(beyond)),
        }
        term.is_consistent()
    }
}

impl<'a> Term<'a> {
    fn becomes(&mut self, value: Value<'a>) -> bool {
        if self.is.as_ref().is_some_and(|is| *is != value) {
            return false;
        }
        self.is = Some(value);
        self.is_consistent()
    }

    fn is_among(&mut self, mut values: Vec<Value<'a>>) -> bool {
        match &mut self.among {
            Some(before) => before.retain(|value| values.contains(value)),
            none => {
                values.retain(|value| !self.not.contains(value));
                *none = Some(values);
            }
        }
        self.is_consistent()
    }

    fn excludes(&mut self, values: &[Value<'a>]) -> bool {
        if let Some(among) = &mut self.among {
            among.retain(|value| !values.contains(value));
        }
        self.not.extend_from_slice(values);
        self.is_consistent()
    }

    /// Whether a value is left that it can have.
    fn is_consistent(&self) -> bool {
        let is_within = |value: &Value<'_>| match (self.range, value) {
            (None, _) => true,
            (Some((low, high)), Value::Number(number)) => (low..=high).contains(number),
            (Some(_), _) => false,
        };
        match (&self.is, &self.among, self.range) {
            (Some(is), among, _) => {
                is_within(is) && !self.not.contains(is) && among.as_ref().is_none_or(|among| among.contains(is))
            }
            (None, Some(among), _) => among.iter().any(is_within),
            (None, None, Some((low, high))) if high.saturating_sub(low) < MAX_TRIED => {
                (low..=high).any(|number| !self.not.contains(&Value::Number(number)))
            }
            (None, None, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Scope;
    use crate::shapes;

    static RETRY: Scope = Scope::of(shapes::RETRY_QUESTION);

    fn are_possible(conditions: &[(&str, bool)]) -> bool {
        let mut reader = Reader::default();
        let read: Vec<_> = conditions
            .iter()
            .map(|(text, truth)| (reader.condition(text, &RETRY).unwrap_or_else(|e| panic!("{text}: {e}")).0, *truth))
            .collect();
        let parts: Vec<_> = read.iter().map(|(ast, truth)| (ast, *truth)).collect();
        reader.are_possible(&parts, &mut 10_000)
    }

    #[test]
    fn what_contradicts_itself_is_never_true() {
        for never in [
            "false",
            "1 > 2",
            "2 * 3 == 7",
            "'a' in ['b']",
            "attempt < 0",
            "attempt > 5 && attempt < 5",
            "attempt > 5 && 6 > attempt",
            "attempt >= 1 && attempt <= 2 && attempt != 1 && !(attempt == 2)",
            "undoing && !undoing",
            "failure.class == 'timeout' && failure.class == 'gateway'",
            "failure.class == 'timeout' && !(failure.class in ['gateway', 'timeout'])",
            "failure.class in ['gateway'] && failure.class in ['timeout', 'other']",
            "(undoing || attempt > 3) && !undoing && attempt < 2",
            "undoing ? !undoing : undoing",
            "time_left == null && time_left != null",
            "has(failure.status) && failure.status >= 500 && failure.status < 500",
            "size(step) > 3 && size(step) < 3",
            "step.contains('a') && !step.contains('a')",
            "zone in []",
            "subject.group == 'runners' && subject.group == null",
            "time_left == null && server_type == 'a' && server_type == null",
            "has(failure.status) in [true] && !has(failure.status)",
            "has(failure.status) in [] || !(has(failure.status) in [true, false])",
            "zone in ['a', 'b'] && zone != 'a' && !(zone in ['b'])",
            "!(zone in ['a']) && zone in ['a']",
            "attempt in [1, 2] && attempt > 2",
        ] {
            assert!(!are_possible(&[(never, true)]), "{never}");
        }
    }

    #[test]
    fn what_a_question_could_make_true_is_possible() {
        for sometimes in [
            "true",
            "undoing",
            "!undoing",
            "attempt > 5 && attempt < 7",
            "attempt >= 0",
            "elapsed - attempt < 0",
            "failure.class == 'timeout' || failure.class == 'gateway'",
            "failure.class != 'timeout' && failure.class != 'gateway'",
            "failure.class in ['gateway', 'timeout'] && failure.class != 'timeout'",
            "(undoing || attempt > 3) && !undoing",
            "undoing ? attempt > 3 : attempt < 3",
            "time_left == null || time_left > 5",
            "step.contains('a') && !step.contains('b')",
            "step == operation && step != zone",
            "undoing != true && undoing == false",
            "has(failure.status) in [false] && !has(failure.status)",
            "!(has(failure.status) in [true]) && failure.status == null",
            "has(failure.status) != null && !has(failure.status)",
            "zone in ['a', 'b'] && zone != 'a'",
            "'a' < step && step < 'b'",
            "subject.labels.exists(l, l.name == 'a') && subject.labels.exists(l, l.name == 'b')",
            "subject.labels.exists(l, l.name == 'a') && !subject.labels.exists(m, m.name == 'b')",
        ] {
            assert!(are_possible(&[(sometimes, true)]), "{sometimes}");
        }
    }

    #[test]
    fn a_condition_that_follows_from_another_is_impossible_where_that_is_false() {
        for (broad, narrow) in [
            ("true", "undoing"),
            ("attempt < 5", "attempt < 3"),
            ("attempt < 5", "attempt < 3 && undoing"),
            ("undoing", "undoing"),
            ("undoing || attempt > 3", "attempt > 4"),
            ("failure.class in ['gateway', 'timeout']", "failure.class == 'timeout'"),
            ("failure.class != 'timeout'", "failure.class == 'gateway'"),
            ("time_left != null", "time_left != null && time_left > 5"),
            ("has(question.time_left) || undoing", "time_left != null"),
            ("subject.labels.exists(l, l.name == 'a')", "subject.labels.exists(l, l.name == 'a') && attempt == 1"),
        ] {
            assert!(!are_possible(&[(narrow, true), (broad, false)]), "{narrow} without {broad}");
        }
        let ready = "machine.activity.node_ready";
        let unknown = format!("{ready} != true && {ready} == null");
        let mut reader = Reader::default();
        let (unknown, _) = reader.condition(&unknown, &Scope::of(shapes::RELEASE_QUESTION)).unwrap();
        assert!(reader.are_possible(&[(&unknown, true)], &mut 100), "what is absent is not true");
        for (one, other) in [
            ("attempt < 3", "attempt < 5"),
            ("undoing && attempt < 3", "undoing"),
            ("failure.class == 'timeout'", "failure.class in ['gateway', 'timeout']"),
            ("subject.labels.exists(l, l.name == 'a')", "subject.labels.exists(l, l.name == 'b')"),
        ] {
            assert!(are_possible(&[(other, true), (one, false)]), "{other} without {one}");
        }
    }

    #[test]
    fn what_takes_too_many_steps_is_possible() {
        let clauses: Vec<String> = (0..60).map(|n| format!("(attempt % {} == 0 || step == '{n}')", n + 2)).collect();
        let text = format!("{} && undoing && !undoing", clauses.join(" && "));
        let mut reader = Reader::default();
        let long = Scope { answer: Some(shapes::RETRY_ANSWER), ..RETRY };
        let text = text.replace("attempt", "question.attempt").replace("step", "question.step");
        let (ast, _) = reader.condition(&text.replace("undoing", "question.undoing"), &long).unwrap();
        assert!(reader.are_possible(&[(&ast, true)], &mut 0));
        let mut steps = 100_000;
        assert!(!reader.are_possible(&[(&ast, true)], &mut steps));
        assert!(steps > 99_000, "the contradiction is found before anything is tried: {steps}");
    }

    #[test]
    fn a_list_takes_as_many_steps_as_it_has_words() {
        let listed = |from: u32| {
            let words: Vec<String> = (from..from + 250).map(|word| format!("'{word:09}'")).collect();
            format!("zone in [{}]", words.join(", "))
        };
        let mut reader = Reader::default();
        let (one, _) = reader.condition(&listed(0), &RETRY).unwrap();
        let (other, _) = reader.condition(&listed(250), &RETRY).unwrap();
        let lists = [(&one, true), (&other, true)];
        assert!(!reader.are_possible(&lists, &mut 100_000));
        assert!(reader.are_possible(&lists, &mut 60_000), "250 words were compared with 250");
    }
}
