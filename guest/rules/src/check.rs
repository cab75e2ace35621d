//! Holds an expression against the contract before it is ever evaluated, and makes each path into the question one
//! variable.
//!
//! What passes can still fail when it is evaluated in few ways: a division by zero, a number out of bounds, an item that
//! is not there, a text that is no number.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators};
use cel::parser::{Expression as Ast, PrattParser};

use crate::contract::{Record, Scope, Shape};
use crate::evaluate::{Expression, Root, Variable, is_written, variable_name};
use crate::words::meant;

/// The longest expression, in bytes.
const LONGEST: usize = 4096;
/// How deep an expression can be nested: its evaluation has to do with a small stack.
const DEEPEST: usize = 20;

/// What may be called, beside the operators and the macros. Each costs at most what its arguments are long.
const FUNCTIONS: [&str; 6] = ["size", "contains", "startsWith", "endsWith", "int", "string"];

/// What a part of an expression is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Null, or the item of an empty list.
    Unknown,
    Bool,
    Number,
    Text,
    /// One of these words.
    Cases(&'static [&'static str]),
    Record(&'static Record),
    List(Box<Kind>),
}

impl Kind {
    /// With what is in an option, which may be absent.
    fn of(shape: &'static Shape) -> Kind {
        match shape {
            Shape::Bool => Kind::Bool,
            Shape::Number => Kind::Number,
            Shape::Text => Kind::Text,
            Shape::Cases(cases) => Kind::Cases(cases),
            Shape::Optional(inner) => Kind::of(inner),
            Shape::List(item) => Kind::List(Box::new(Kind::of(item))),
            Shape::Record(record) => Kind::Record(record),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Kind::Unknown => "null",
            Kind::Bool => "true or false",
            Kind::Number => "a number",
            Kind::Text | Kind::Cases(_) => "a text",
            Kind::Record(_) => "a record",
            Kind::List(_) => "a list",
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Kind::Text | Kind::Cases(_))
    }

    /// Whether values of both can be equal.
    fn fits(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::Unknown, _) | (_, Kind::Unknown) => true,
            (Kind::Bool, Kind::Bool) | (Kind::Number, Kind::Number) => true,
            (Kind::List(one), Kind::List(other)) => one.fits(other),
            (one, other) => one.is_text() && other.is_text(),
        }
    }
}

/// What a part of an expression is, and as what it was written where it may be absent.
#[derive(Clone, Debug)]
struct Typed {
    kind: Kind,
    absent: Option<String>,
}

impl From<Kind> for Typed {
    fn from(kind: Kind) -> Self {
        Self { kind, absent: None }
    }
}

type Checked = Result<Typed, String>;

/// Paths that are known to be there, as they are written without `question.`.
pub(crate) type Facts = Vec<String>;

/// A path into the question.
struct Place {
    root: Root,
    path: Vec<usize>,
    kind: Kind,
    /// As it is written, without `question.`.
    written: String,
    /// Whether it, or something on the way to it, may be absent.
    absent: bool,
}

/// Reads the expressions of one policy.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) variables: Vec<Variable>,
}

impl Reader {
    /// Reads a condition. Says as well what is there where it is true.
    pub(crate) fn condition(&mut self, text: &str, scope: &'static Scope) -> Result<(Expression, Facts), String> {
        let ast = parse(text)?;
        let mut facts = Facts::new();
        known(&ast, true, &mut facts);
        Ok((self.checked(ast, scope, &Facts::new(), &Kind::Bool)?, facts))
    }

    /// Reads an expression whose value must be of that kind, where these are there.
    pub(crate) fn read(
        &mut self,
        text: &str,
        scope: &'static Scope,
        facts: &Facts,
        expected: &Kind,
    ) -> Result<Expression, String> {
        self.checked(parse(text)?, scope, facts, expected)
    }

    fn checked(
        &mut self,
        mut ast: Ast,
        scope: &'static Scope,
        facts: &Facts,
        expected: &Kind,
    ) -> Result<Expression, String> {
        let mut check = Check { reader: self, scope, inner: Vec::new(), present: facts.clone(), depth: 0 };
        let found = check.whole(&mut ast)?;
        let is_expected = match expected {
            Kind::Text => found.is_text(),
            expected => std::mem::discriminant(expected) == std::mem::discriminant(&found),
        };
        match is_expected {
            true => Ok(Expression { ast }),
            false => Err(format!("it must be {}, and is {}", expected.words(), found.words())),
        }
    }

    /// The variable's position.
    fn variable(&mut self, variable: Variable) -> usize {
        match self.variables.iter().position(|known| *known == variable) {
            Some(position) => position,
            None => {
                self.variables.push(variable);
                self.variables.len() - 1
            }
        }
    }
}

fn parse(text: &str) -> Result<Ast, String> {
    if text.len() > LONGEST {
        return Err(format!("it has {} bytes, and at most {LONGEST} are allowed", text.len()));
    }
    PrattParser::new().max_recursion_depth(DEEPEST as u16).parse(text).map_err(|errors| {
        let first = errors.errors.first();
        let words = first.map_or("it cannot be read", |error| error.msg.as_str());
        match words {
            _ if words.contains("recursion limit") => too_deep(),
            "invalid argument to has() macro" => {
                "`has` asks about a field, as in `has(failure.status)`; of a word alone ask `time_left != null`".into()
            }
            _ => {
                let column = first.map(|error| error.pos.1).filter(|column| *column > 0);
                let place = column.map(|column| format!(" (character {column})")).unwrap_or_default();
                format!("it is not CEL: {}{place}", words.trim_start_matches("Syntax error: "))
            }
        }
    })
}

fn too_deep() -> String {
    format!("it is nested more than {DEEPEST} deep")
}

/// One expression under check.
struct Check<'r> {
    reader: &'r mut Reader,
    scope: &'static Scope,
    /// Variables of the macros around the part that is looked at, the innermost last.
    inner: Vec<(String, Kind)>,
    /// What is known to be there, since a condition before has asked.
    present: Facts,
    depth: usize,
}

impl Check<'_> {
    fn whole(&mut self, ast: &mut Ast) -> Result<Kind, String> {
        let typed = self.kind(ast)?;
        self.there(typed)
    }

    fn kind(&mut self, ast: &mut Ast) -> Checked {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(too_deep());
        }
        let typed = self.kind_of(ast);
        self.depth -= 1;
        typed
    }

    fn kind_of(&mut self, ast: &mut Ast) -> Checked {
        if let Some(place) = self.place(ast)? {
            let position = self.reader.variable(Variable { root: place.root, path: place.path, presence: false });
            ast.expr = Expr::Ident(variable_name(position));
            return Ok(Typed { kind: place.kind, absent: place.absent.then_some(place.written) });
        }
        match &mut ast.expr {
            Expr::Literal(literal) => literal_kind(literal).map(Typed::from),
            Expr::Ident(name) => match self.inner.iter().rev().find(|(known, _)| known == name) {
                Some((_, kind)) => Ok(kind.clone().into()),
                None => Err(self.unknown_variable(name)),
            },
            Expr::Select(_) => self.select(ast),
            Expr::List(list) => {
                let mut item = Kind::Unknown;
                for element in &mut list.elements {
                    let kind = self.whole(element)?;
                    if !item.fits(&kind) {
                        return Err(format!("a list holds both {} and {}", item.words(), kind.words()));
                    }
                    item = kind;
                }
                Ok(Kind::List(Box::new(item)).into())
            }
            Expr::Call(call) => match &mut call.target {
                Some(target) => {
                    let of = self.whole(target)?;
                    self.function(&call.func_name, Some(of), &mut call.args)
                }
                None => self.operator(call),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Map(_) | Expr::Struct(_) => Err("there are no maps here".into()),
            Expr::Unspecified => Err("it is empty".into()),
        }
    }

    /// The kind of what must be there.
    fn there(&self, typed: Typed) -> Result<Kind, String> {
        match typed.absent {
            None => Ok(typed.kind),
            Some(written) => {
                Err(format!("`{written}` may be absent: ask first, as in `{} && ...`", presence_of(&written)))
            }
        }
    }

    /// The place in the question that is meant, if the expression is a path into it.
    fn place(&self, ast: &Ast) -> Result<Option<Place>, String> {
        match &ast.expr {
            Expr::Ident(name) => Ok(self.root(name)),
            Expr::Select(select) if !select.test => match self.place(&select.operand)? {
                Some(place) => self.below(place, &select.field).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn root(&self, name: &str) -> Option<Place> {
        if self.inner.iter().any(|(known, _)| known == name) {
            return None;
        }
        let place = |root, record, written: &str| Place {
            root,
            path: Vec::new(),
            kind: Kind::Record(record),
            written: written.into(),
            absent: false,
        };
        match self.scope.item {
            Some((item, record)) if item == name => return Some(place(Root::Item, record, item)),
            _ => {}
        }
        let question = place(Root::Question, self.scope.question, "");
        match name {
            "question" => Some(question),
            _ => self.below(question, name).ok(),
        }
    }

    /// One field further.
    fn below(&self, mut place: Place, field: &str) -> Result<Place, String> {
        let Kind::Record(record) = place.kind else {
            return Err(format!("`{}` is {}, which has no field `{field}`", place.written, place.kind.words()));
        };
        let (position, shape) = field_of(record, field).ok_or_else(|| {
            let of = if place.written.is_empty() { "question" } else { &place.written };
            no_field(of, field, record)
        })?;
        if !place.written.is_empty() {
            place.written.push('.');
        }
        place.written.push_str(field);
        place.path.push(position);
        place.kind = Kind::of(shape);
        place.absent |= matches!(shape, Shape::Optional(_));
        place.absent &= !self.is_present(&place.written);
        Ok(place)
    }

    /// Whether a condition before has asked for it, or for something below it.
    fn is_present(&self, written: &str) -> bool {
        let below = |known: &String| known.strip_prefix(written).is_some_and(|rest| rest.starts_with('.'));
        self.present.iter().any(|known| known == written || below(known))
    }

    /// A field of what is no path: of an item of a list. Or the question whether a field is there.
    fn select(&mut self, ast: &mut Ast) -> Checked {
        let written = written(ast);
        let Expr::Select(select) = &mut ast.expr else { return Ok(Kind::Unknown.into()) };
        if select.test
            && let Some(place) = self.place(&select.operand)?
        {
            let place = self.below(place, &select.field)?;
            let position = self.reader.variable(Variable { root: place.root, path: place.path, presence: true });
            ast.expr = Expr::Ident(variable_name(position));
            return Ok(Kind::Bool.into());
        }
        let Kind::Record(record) = self.whole(&mut select.operand)? else {
            return Err(format!("only a record has fields, and no `{}` is there", select.field));
        };
        let (_, shape) = field_of(record, &select.field).ok_or_else(|| no_field("an item", &select.field, record))?;
        if !select.test {
            let is_absent = matches!(shape, Shape::Optional(_));
            let absent = written.filter(|written| is_absent && !self.is_present(written));
            return Ok(Typed { kind: Kind::of(shape), absent });
        }
        // A field of an item is always there, and null where it is absent.
        let field = SelectExpr { test: false, ..std::mem::take(select) };
        let id = ast.id;
        let part = |expr| Ast { id, expr };
        ast.expr = Expr::Call(CallExpr {
            func_name: operators::NOT_EQUALS.into(),
            target: None,
            args: vec![part(Expr::Select(field)), part(Expr::Literal(LiteralValue::Null))],
        });
        Ok(Kind::Bool.into())
    }

    fn operator(&mut self, call: &mut CallExpr) -> Checked {
        match (call.func_name.as_str(), call.args.as_mut_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                let (left, right) = (self.kind(one)?.kind, self.kind(other)?.kind);
                check_case(&left, other)?;
                check_case(&right, one)?;
                if matches!((&left, &right), (Kind::Record(_), Kind::Record(_))) {
                    return Err("records are not compared; compare their fields".into());
                }
                if !left.fits(&right) {
                    return Err(format!("{} is never equal to {}", left.words(), right.words()));
                }
                Ok(Kind::Bool.into())
            }
            (operators::IN, [item, list]) => {
                let (of, within) = (self.kind(item)?.kind, self.whole(list)?);
                let Kind::List(among) = &within else {
                    return Err(format!("`in` looks into a list, and not into {}", within.words()));
                };
                if let Expr::List(list) = &list.expr {
                    for element in &list.elements {
                        check_case(&of, element)?;
                    }
                }
                check_case(among, item)?;
                match of.fits(among) {
                    true => Ok(Kind::Bool.into()),
                    false => Err(format!("a list of {} never holds {}", among.words(), of.words())),
                }
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [one, other],
            ) => {
                let (left, right) = (self.whole(one)?, self.whole(other)?);
                match (&left, &right) {
                    (Kind::Number, Kind::Number) => Ok(Kind::Bool.into()),
                    (one, other) if one.is_text() && other.is_text() => Ok(Kind::Bool.into()),
                    _ => Err(format!("{} is neither more nor less than {}", left.words(), right.words())),
                }
            }
            (operators::LOGICAL_AND, [one, other]) => self.both(one, other, true),
            (operators::LOGICAL_OR, [one, other]) => self.both(one, other, false),
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [part]) => self.truth(part),
            (operators::CONDITIONAL, [condition, one, other]) => {
                let (mut if_true, mut if_false) = (Facts::new(), Facts::new());
                known(condition, true, &mut if_true);
                known(condition, false, &mut if_false);
                self.truth(condition)?;
                let left = self.knowing(if_true, |check| check.whole(one))?;
                let right = self.knowing(if_false, |check| check.whole(other))?;
                match (left, right) {
                    (Kind::Unknown, kind) => Ok(kind.into()),
                    (Kind::Cases(_) | Kind::Text, kind) if kind.is_text() => Ok(Kind::Text.into()),
                    (kind, other) if kind.fits(&other) => Ok(kind.into()),
                    (kind, other) => Err(format!("`? :` gives either {} or {}", kind.words(), other.words())),
                }
            }
            (operators::ADD, [one, other]) => {
                let (left, right) = (self.whole(one)?, self.whole(other)?);
                match (&left, &right) {
                    (Kind::List(item), Kind::List(more)) if item.fits(more) => {
                        Ok(if matches!(**item, Kind::Unknown) { right } else { left }.into())
                    }
                    // What a macro collects.
                    (Kind::List(item), Kind::List(_)) if matches!(**item, Kind::Record(_)) => Ok(left.into()),
                    (Kind::Number, Kind::Number) => Ok(Kind::Number.into()),
                    (one, other) if one.is_text() && other.is_text() => Ok(Kind::Text.into()),
                    _ => Err(format!("{} and {} cannot be added", left.words(), right.words())),
                }
            }
            (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [one, other]) => {
                self.number(one)?;
                self.number(other)
            }
            (operators::NEGATE, [part]) => self.number(part),
            (operators::INDEX, [list, index]) => {
                let of = self.whole(list)?;
                self.number(index)?;
                match of {
                    Kind::List(item) => Ok((*item).into()),
                    other => Err(format!("{} has no items", other.words())),
                }
            }
            (name, args) => {
                let name = name.to_owned();
                self.function(&name, None, args)
            }
        }
    }

    /// The second part is looked at only where the first one is true (or false).
    fn both(&mut self, one: &mut Ast, other: &mut Ast, is_and: bool) -> Checked {
        let mut facts = Facts::new();
        known(one, is_and, &mut facts);
        self.truth(one)?;
        self.knowing(facts, |check| check.truth(other))
    }

    /// Checks a part for which these are known to be there.
    fn knowing<R>(&mut self, facts: Facts, check: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.present.len();
        self.present.extend(facts);
        let checked = check(self);
        self.present.truncate(before);
        checked
    }

    fn truth(&mut self, part: &mut Ast) -> Checked {
        match self.whole(part)? {
            Kind::Bool => Ok(Kind::Bool.into()),
            other => Err(format!("`&&`, `||`, `!` and `?` need true or false, and got {}", other.words())),
        }
    }

    fn number(&mut self, part: &mut Ast) -> Checked {
        match self.whole(part)? {
            Kind::Number => Ok(Kind::Number.into()),
            other => Err(format!("a number is needed, and {} was found", other.words())),
        }
    }

    fn function(&mut self, name: &str, target: Option<Kind>, args: &mut [Ast]) -> Checked {
        if !FUNCTIONS.contains(&name) {
            return Err(format!("there is no function `{name}`{}", meant(name, FUNCTIONS.into_iter())));
        }
        let is_member = target.is_some();
        let mut of: Vec<Kind> = target.into_iter().collect();
        for arg in args {
            of.push(self.whole(arg)?);
        }
        let kind = match (name, of.as_slice()) {
            ("size", [of]) if of.is_text() || matches!(of, Kind::List(_)) => Kind::Number,
            ("contains" | "startsWith" | "endsWith", [whole, part])
                if is_member && whole.is_text() && part.is_text() =>
            {
                Kind::Bool
            }
            ("int", [of]) if !is_member && (of.is_text() || matches!(of, Kind::Number)) => Kind::Number,
            ("string", [of]) if !is_member && (of.is_text() || matches!(of, Kind::Number | Kind::Bool)) => Kind::Text,
            _ => {
                let words: Vec<&str> = of.iter().map(Kind::words).collect();
                return Err(format!("`{name}` cannot be called with {}", words.join(" and ")));
            }
        };
        Ok(kind.into())
    }

    /// `all`, `exists`, `exists_one`, `filter` and `map`, as the parser writes them out.
    fn comprehension(&mut self, of: &mut ComprehensionExpr) -> Checked {
        let Kind::List(item) = self.whole(&mut of.iter_range)? else {
            return Err("`all`, `exists`, `filter` and `map` go over a list".into());
        };
        if field_of(self.scope.question, &of.iter_var).is_some() {
            return Err(format!("`{}` is a field of the question; give the item another name", of.iter_var));
        }
        let begun = self.whole(&mut of.accu_init)?;
        let outside = self.inner.len();
        self.inner.push((of.accu_var.clone(), begun.clone()));
        self.inner.push((of.iter_var.clone(), *item));
        self.kind(&mut of.loop_cond)?;
        let step = self.whole(&mut of.loop_step)?;
        self.inner.truncate(outside);
        self.inner.push((of.accu_var.clone(), step));
        let result = self.kind(&mut of.result);
        self.inner.truncate(outside);
        result
    }

    fn unknown_variable(&self, name: &str) -> String {
        let mut known: Vec<String> =
            self.scope.question.fields.iter().map(|(name, _)| name.replace('-', "_")).collect();
        known.extend(self.scope.item.map(|(item, _)| item.to_owned()));
        known.extend(self.inner.iter().map(|(name, _)| name.clone()).filter(|name| !name.starts_with('@')));
        format!("there is no `{name}`{}", meant(name, known.iter().map(String::as_str)))
    }
}

fn literal_kind(literal: &mut LiteralValue) -> Result<Kind, String> {
    Ok(match literal {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Int(_) => Kind::Number,
        LiteralValue::UInt(number) => {
            // All numbers here have a sign, and CEL calculates with numbers of one kind only.
            let number = i64::try_from(*number.inner()).map_err(|_| "a number is too large".to_owned())?;
            *literal = LiteralValue::Int(number.into());
            Kind::Number
        }
        LiteralValue::String(_) => Kind::Text,
        LiteralValue::Null => Kind::Unknown,
        LiteralValue::Double(_) => return Err("numbers are whole here".into()),
        LiteralValue::Bytes(_) => return Err("there are no bytes here".into()),
    })
}

fn field_of(record: &'static Record, field: &str) -> Option<(usize, &'static Shape)> {
    let mut fields = record.fields.iter().enumerate();
    fields.find(|(_, (name, _))| is_written(name, field)).map(|(position, (_, shape))| (position, shape))
}

fn no_field(of: &str, field: &str, record: &Record) -> String {
    let known: Vec<String> = record.fields.iter().map(|(name, _)| name.replace('-', "_")).collect();
    let of = if of == "an item" { of.to_owned() } else { format!("`{of}`") };
    format!("{of} has no field `{field}`{}", meant(field, known.iter().map(String::as_str)))
}

/// A word that is compared with an enum must be one of its cases.
fn check_case(of: &Kind, other: &Ast) -> Result<(), String> {
    let (Kind::Cases(cases), Expr::Literal(LiteralValue::String(word))) = (of, &other.expr) else { return Ok(()) };
    let word = word.inner();
    match cases.contains(&word) {
        true => Ok(()),
        false => Err(format!("there is no case '{word}'{}", meant(word, cases.iter().copied()))),
    }
}

/// How one asks whether a path is there. A word alone is no field, and `has` asks about fields.
fn presence_of(written: &str) -> String {
    match written.contains('.') {
        true => format!("has({written})"),
        false => format!("{written} != null"),
    }
}

/// A path as it is written, without `question.`, which says nothing.
fn written(ast: &Ast) -> Option<String> {
    fn whole(ast: &Ast) -> Option<String> {
        match &ast.expr {
            Expr::Ident(name) => Some(name.clone()),
            Expr::Select(select) => Some(format!("{}.{}", whole(&select.operand)?, select.field)),
            _ => None,
        }
    }
    let written = whole(ast)?;
    Some(written.strip_prefix("question.").map(str::to_owned).unwrap_or(written))
}

/// What is there where a condition is true (or false).
fn known(condition: &Ast, is_true: bool, facts: &mut Facts) {
    match &condition.expr {
        Expr::Select(select) if select.test && is_true => facts.extend(written(condition)),
        Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_NOT, [part]) => known(part, !is_true, facts),
            (operators::LOGICAL_AND, [one, other]) if is_true => {
                known(one, true, facts);
                known(other, true, facts);
            }
            (operators::LOGICAL_OR, [one, other]) if !is_true => {
                known(one, false, facts);
                known(other, false, facts);
            }
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                let says_equal = (call.func_name == operators::EQUALS) == is_true;
                for (path, value) in [(one, other), (other, one)] {
                    let is_there = match &value.expr {
                        Expr::Literal(LiteralValue::Null) => !says_equal,
                        Expr::Literal(_) => says_equal,
                        _ => false,
                    };
                    if is_there {
                        facts.extend(written(path));
                    }
                }
            }
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests;
