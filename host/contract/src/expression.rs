//! Holds an expression against the contract before it is ever evaluated, and makes each path into the question or the
//! answer one variable.
//!
//! What passes can still fail when it is evaluated in few ways: a division by zero, a number out of bounds, an item
//! that is not there, a text that is no number.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators};
use cel::parser::{Expression as Ast, PrattParser};

use crate::shape::{Fields, Shape};
use crate::words::meant;

/// What may be called, beside the operators and the macros. Each costs at most what its arguments are long. The last
/// one in laws only: rules calculate with one kind of numbers.
const FUNCTIONS: [&str; 7] = ["size", "contains", "startsWith", "endsWith", "int", "string", "uint"];

/// What the name of a rewritten variable begins with; its number follows. No identifier that is written does.
const VARIABLE: char = '#';

/// What an expression can speak about.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The record that is asked.
    pub question: Shape,
    /// Fields of the question that are not for expressions.
    pub hidden: &'static [&'static str],
    /// The variable beside the question, where an expression is about one item of it.
    pub item: Option<(&'static str, Shape)>,
    /// Fields of the item that are something else here.
    pub instead: Fields,
    /// The record of one answer, where the expression is a law's: there, fields of the question are written after
    /// `question.`, and what is absent compares as null. In a rule they can stand alone, and what may be absent has to
    /// be asked for first.
    pub answer: Option<Shape>,
}

impl Scope {
    /// A rule's scope: about this question.
    pub const fn of(question: Shape) -> Scope {
        Scope { question, hidden: &[], item: None, instead: &[], answer: None }
    }

    /// The same with a variable for one item.
    #[must_use]
    pub const fn about(self, name: &'static str, item: Shape) -> Scope {
        Scope { item: Some((name, item)), ..self }
    }

    /// The longest expression in bytes, and how deep it can be nested: rules are evaluated on a small stack.
    const fn limits(&self) -> (usize, u16) {
        if self.is_law() { (16 << 10, 96) } else { (4096, 20) }
    }

    const fn is_law(&self) -> bool {
        self.answer.is_some()
    }
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Question,
    /// The item that the expression is about.
    Item,
    Answer,
}

/// A path into the question or the answer, or whether something is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Where it begins.
    pub root: Root,
    /// Fields and cases, each with its position.
    pub path: Vec<(usize, &'static str)>,
    /// Whether it is asked only if it is there.
    pub presence: bool,
}

/// The position of the variable that an expression refers to by this name.
pub fn variable_at(name: &str) -> Option<usize> {
    name.strip_prefix(VARIABLE)?.parse().ok()
}

/// Whether a name of the contract is written so in an expression: with `_` for `-`.
pub fn is_written(contract: &str, written: &str) -> bool {
    contract.len() == written.len()
        && contract.bytes().zip(written.bytes()).all(|(one, other)| one == other || (one == b'-' && other == b'_'))
}

/// What a part of an expression is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Null, or the item of an empty list.
    Unknown,
    Bool,
    Number,
    Text,
    /// One of the words of this enum or variant.
    Cases(Shape),
    Record(Fields),
    List(Box<Kind>),
}

impl Kind {
    /// With what is in an option, which may be absent.
    fn of(shape: Shape) -> Kind {
        match shape {
            Shape::Bool => Kind::Bool,
            Shape::Number { .. } => Kind::Number,
            Shape::Text => Kind::Text,
            Shape::Enum(_) | Shape::Variant(_) => Kind::Cases(shape),
            Shape::Option(inner) => Kind::of(*inner),
            Shape::List(item) => Kind::List(Box::new(Kind::of(*item))),
            Shape::Record(fields) => Kind::Record(fields),
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

/// The most mistakes that are reported for one expression.
const MAX_REPORTED: usize = 16;

/// Both, or what is wrong with them: a line for each mistake, each once.
fn together<A, B>(one: Result<A, String>, other: Result<B, String>) -> Result<(A, B), String> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(one), Err(other)) => {
            let mut lines: Vec<&str> = one.lines().collect();
            for line in other.lines() {
                if lines.len() < MAX_REPORTED && !lines.contains(&line) {
                    lines.push(line);
                }
            }
            Err(lines.join("\n"))
        }
        (Err(problem), Ok(_)) | (Ok(_), Err(problem)) => Err(problem),
    }
}

/// Paths that are known to be there, as a rule writes them without `question.`.
pub type Facts = Vec<String>;

/// A path into the question or the answer.
struct Place {
    root: Root,
    path: Vec<(usize, &'static str)>,
    kind: Kind,
    /// As it is written, in a rule without `question.`.
    written: String,
    /// Whether it, or something on the way to it, may be absent.
    absent: bool,
}

/// Reads the expressions of one policy.
#[derive(Debug, Default)]
pub struct Reader {
    /// What they refer to, by position.
    pub variables: Vec<Variable>,
}

impl Reader {
    /// Reads a condition. Says as well what is there where it is true.
    ///
    /// # Errors
    /// What is wrong with it, and what was probably meant: a line for each mistake.
    pub fn condition(&mut self, text: &str, scope: &Scope) -> Result<(Ast, Facts), String> {
        let ast = parse(text, scope)?;
        let mut facts = Facts::new();
        known(&ast, true, &mut facts);
        Ok((self.checked(ast, scope, Some(&Facts::new()), &Kind::Bool)?, facts))
    }

    /// Reads an expression whose value must be of that kind, where these are there. Without them everything is taken to
    /// be there: a condition before has mistakes, and nobody knows what it was to ask.
    ///
    /// # Errors
    /// What is wrong with it, and what was probably meant: a line for each mistake.
    pub fn read(&mut self, text: &str, scope: &Scope, facts: Option<&Facts>, expected: &Kind) -> Result<Ast, String> {
        self.checked(parse(text, scope)?, scope, facts, expected)
    }

    fn checked(&mut self, mut ast: Ast, scope: &Scope, facts: Option<&Facts>, expected: &Kind) -> Result<Ast, String> {
        let (present, is_unsure) = (facts.cloned().unwrap_or_default(), facts.is_none());
        let mut check = Check { reader: self, scope, inner: Vec::new(), present, is_unsure, depth: 0 };
        let found = check.whole(&mut ast)?;
        let is_expected = match expected {
            Kind::Text => found.is_text(),
            expected => std::mem::discriminant(expected) == std::mem::discriminant(&found),
        };
        match is_expected {
            true => Ok(ast),
            false => Err(format!("expected {}, got {}", expected.words(), found.words())),
        }
    }

    /// The variable that stands for a place, or for whether it is there.
    fn variable(&mut self, place: Place, presence: bool) -> Expr {
        let variable = Variable { root: place.root, path: place.path, presence };
        let position = self.variables.iter().position(|known| *known == variable).unwrap_or_else(|| {
            self.variables.push(variable);
            self.variables.len() - 1
        });
        Expr::Ident(format!("{VARIABLE}{position}"))
    }
}

fn parse(text: &str, scope: &Scope) -> Result<Ast, String> {
    let (longest, deepest) = scope.limits();
    if text.len() > longest {
        return Err(format!("it has {} bytes, and at most {longest} are allowed", text.len()));
    }
    PrattParser::new().max_recursion_depth(deepest).parse(text).map_err(|errors| {
        let first = errors.errors.first();
        let words = first.map_or("it cannot be read", |error| error.msg.as_str());
        match words {
            _ if words.contains("recursion limit") => too_deep(deepest),
            "invalid argument to has() macro" => {
                "`has` asks about a field, as in `has(failure.status)`; of a word alone ask `time_left != null`".into()
            }
            _ if let Some(meant) = operator_meant(text) => meant,
            _ => {
                let column = first.map(|error| error.pos.1).filter(|column| *column > 0);
                let place = column.map(|column| format!(" (character {column})")).unwrap_or_default();
                format!("it is not CEL: {}{place}", words.trim_start_matches("Syntax error: "))
            }
        }
    })
}

/// Words and signs that other languages have for operators, outside of texts.
fn operator_meant(text: &str) -> Option<String> {
    const MEANT: [(&str, &str); 5] = [("and", "&&"), ("or", "||"), ("not", "!"), ("<>", "!="), ("=", "==")];
    let (mut quote, mut is_escaped) = (None, false);
    // Everything of a text becomes its quote.
    let outside = text.chars().map(|char| match quote {
        Some(opened) => {
            if char == opened && !is_escaped {
                quote = None;
            }
            is_escaped = char == '\\' && !is_escaped;
            opened
        }
        None => {
            quote = Some(char).filter(|char| matches!(char, '\'' | '"'));
            char
        }
    });
    let outside: String = outside.collect();
    let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
    let is_sign = |char: char| "=<>!&|".contains(char);
    let mut words = outside.split(|char| !is_word(char)).chain(outside.split(|char| !is_sign(char)));
    words.find_map(|word| {
        let (written, meant) = MEANT.iter().find(|(written, _)| word.eq_ignore_ascii_case(written))?;
        Some(format!("it is not CEL: for `{written}`, write `{meant}`"))
    })
}

fn too_deep(deepest: u16) -> String {
    format!("it is nested more than {deepest} deep")
}

/// One expression under check.
struct Check<'r> {
    reader: &'r mut Reader,
    scope: &'r Scope,
    /// Variables of the macros around the part that is looked at, the innermost last.
    inner: Vec<(String, Kind)>,
    /// What is known to be there, since a condition before has asked.
    present: Facts,
    /// Whether a condition before has mistakes: everything is taken to be there.
    is_unsure: bool,
    depth: u16,
}

impl Check<'_> {
    fn whole(&mut self, ast: &mut Ast) -> Result<Kind, String> {
        let typed = self.kind(ast)?;
        self.there(typed)
    }

    fn kind(&mut self, ast: &mut Ast) -> Checked {
        let (_, deepest) = self.scope.limits();
        if self.depth == deepest {
            return Err(too_deep(deepest));
        }
        self.depth += 1;
        // Equal parts are equal wherever they stand.
        ast.id = 0;
        let typed = self.kind_of(ast);
        self.depth -= 1;
        typed
    }

    fn kind_of(&mut self, ast: &mut Ast) -> Checked {
        if let Some(place) = self.place(ast)? {
            let typed = Typed { kind: place.kind.clone(), absent: place.absent.then(|| place.written.clone()) };
            ast.expr = self.reader.variable(place, false);
            return Ok(typed);
        }
        match &mut ast.expr {
            Expr::Literal(literal) => literal_kind(literal, self.scope.is_law()).map(Typed::from),
            Expr::Ident(name) => match self.inner.iter().rev().find(|(known, _)| known == name) {
                Some((_, kind)) => Ok(kind.clone().into()),
                None => Err(self.unknown_variable(name)),
            },
            Expr::Select(_) => self.select(ast),
            Expr::List(list) => {
                let mut item = Kind::Unknown;
                for kind in self.all(&mut list.elements)? {
                    if !item.fits(&kind) {
                        return Err(format!(
                            "the items of a list must have one type, and these are {} and {}",
                            item.words(),
                            kind.words()
                        ));
                    }
                    item = kind;
                }
                Ok(Kind::List(Box::new(item)).into())
            }
            Expr::Call(call) => match &mut call.target {
                Some(target) => self.function(&call.func_name, Some(target), &mut call.args),
                None => self.operator(call),
            },
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Map(_) | Expr::Struct(_) => Err("maps are not supported".into()),
            Expr::Unspecified => Err("it is empty".into()),
        }
    }

    /// Parts that must all be there.
    fn all<'a>(&mut self, parts: impl IntoIterator<Item = &'a mut Ast>) -> Result<Vec<Kind>, String> {
        let (mut kinds, mut checked) = (Vec::new(), Ok(()));
        for part in parts {
            let kind = self.whole(part).map(|kind| kinds.push(kind));
            checked = together(checked, kind).map(|_| ());
        }
        checked.map(|()| kinds)
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

    /// The place in the question or the answer that is meant, if the expression is a path into one of them.
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
        let place = |root, shape, written: &str| Place {
            root,
            path: Vec::new(),
            kind: Kind::of(shape),
            written: written.into(),
            absent: false,
        };
        if let Some((item, shape)) = self.scope.item.filter(|(item, _)| *item == name) {
            return Some(place(Root::Item, shape, item));
        }
        match (name, self.scope.answer) {
            ("question", None) => Some(place(Root::Question, self.scope.question, "")),
            (_, None) => self.below(place(Root::Question, self.scope.question, ""), name).ok(),
            ("question", Some(_)) => Some(place(Root::Question, self.scope.question, name)),
            ("answer", Some(answer)) => Some(place(Root::Answer, answer, name)),
            ("verdict", Some(answer)) => self.below(place(Root::Answer, answer, ""), name).ok(),
            _ => None,
        }
    }

    /// A field as expressions see it. The payload of a verdict stands beside the verdict.
    fn field(&self, place: &Place, fields: Fields, name: &str) -> Option<(Vec<(usize, &'static str)>, Shape)> {
        let is_root = place.path.is_empty();
        if is_root && place.root == Root::Question && self.scope.hidden.iter().any(|hidden| is_written(hidden, name)) {
            return None;
        }
        if let Some((position, shape)) = field_of(fields, name) {
            let (known, _) = fields[position];
            let instead =
                self.scope.instead.iter().find(|(other, _)| is_root && place.root == Root::Item && *other == known);
            return Some((vec![(position, known)], instead.map_or(shape, |(_, shape)| *shape)));
        }
        if !is_root || place.root != Root::Answer {
            return None;
        }
        let (verdict, shape) = field_of(fields, "verdict")?;
        let Shape::Variant(cases) = shape else { return None };
        let (case, (known, payload)) = cases.iter().enumerate().find(|(_, (case, _))| is_written(case, name))?;
        Some((vec![(verdict, "verdict"), (case, known)], (*payload)?))
    }

    /// The names of what [`Check::field`] finds.
    fn names(&self, place: &Place, fields: Fields) -> Vec<String> {
        let verdict = field_of(fields, "verdict").map(|(_, shape)| shape);
        let cases = verdict.into_iter().flat_map(|verdict| verdict.cases());
        let names = fields.iter().map(|(name, _)| *name).chain(cases);
        names.filter(|name| self.field(place, fields, name).is_some()).map(|name| name.replace('-', "_")).collect()
    }

    /// One field further.
    fn below(&self, mut place: Place, field: &str) -> Result<Place, String> {
        let Kind::Record(fields) = place.kind else {
            let instead = if matches!(place.kind, Kind::List(_)) { "; use `.exists(...)`" } else { "" };
            return Err(format!(
                "`{}` is {}, which has no field `{field}`{instead}",
                place.written,
                place.kind.words()
            ));
        };
        let Some((path, shape)) = self.field(&place, fields, field) else {
            let of = if place.written.is_empty() { "question" } else { &place.written };
            return Err(no_field(&format!("`{of}`"), field, &self.names(&place, fields)));
        };
        if !place.written.is_empty() {
            place.written.push('.');
        }
        place.written.push_str(field);
        place.path.extend(path);
        place.kind = Kind::of(shape);
        place.absent |= matches!(shape, Shape::Option(_)) && !self.scope.is_law();
        place.absent &= !self.is_present(&place.written);
        Ok(place)
    }

    /// Whether a condition before has asked for it, or for something below it.
    fn is_present(&self, written: &str) -> bool {
        let below = |known: &String| known.strip_prefix(written).is_some_and(|rest| rest.starts_with('.'));
        self.is_unsure || self.present.iter().any(|known| known == written || below(known))
    }

    /// A field of what is no path: of an item of a list. Or the question whether a field is there.
    fn select(&mut self, ast: &mut Ast) -> Checked {
        let written = written(ast);
        let Expr::Select(select) = &mut ast.expr else { return Ok(Kind::Unknown.into()) };
        if select.test
            && let Some(place) = self.place(&select.operand)?
        {
            let place = self.below(place, &select.field)?;
            ast.expr = self.reader.variable(place, true);
            return Ok(Kind::Bool.into());
        }
        let Kind::Record(fields) = self.whole(&mut select.operand)? else {
            return Err(format!("only a record has fields: there is no `{}`", select.field));
        };
        let Some((_, shape)) = field_of(fields, &select.field) else {
            let known: Vec<String> = fields.iter().map(|(name, _)| name.replace('-', "_")).collect();
            return Err(no_field("an item", &select.field, &known));
        };
        if !select.test {
            let is_absent = matches!(shape, Shape::Option(_)) && !self.scope.is_law();
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
                // Whether something is there doesn't need what is there.
                let is_null = |part: &Ast| part.expr == Expr::Literal(LiteralValue::Null);
                let (path, null) = if is_null(other) { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
                if is_null(null)
                    && let Some(place) = self.place(path)?
                {
                    let is_there = call.func_name == operators::NOT_EQUALS;
                    path.expr = self.reader.variable(place, true);
                    null.expr = Expr::Literal(LiteralValue::Boolean(is_there.into()));
                    call.func_name = operators::EQUALS.into();
                    return Ok(Kind::Bool.into());
                }
                let (left, right) = together(self.kind(one), self.kind(other))?;
                let (left, right) = (left.kind, right.kind);
                check_case(&left, other)?;
                check_case(&right, one)?;
                if matches!((&left, &right), (Kind::Record(_), Kind::Record(_))) {
                    return Err("records cannot be compared; compare their fields".into());
                }
                if !left.fits(&right) {
                    return Err(format!("{} is never equal to {}", left.words(), right.words()));
                }
                Ok(Kind::Bool.into())
            }
            (operators::IN, [item, list]) => {
                let (of, within) = together(self.kind(item), self.whole(list))?;
                let of = of.kind;
                let Kind::List(among) = &within else {
                    return Err(format!("`in` needs a list on its right, got {}", within.words()));
                };
                if let Expr::List(list) = &list.expr {
                    let mut checked = Ok(());
                    for element in &list.elements {
                        checked = together(checked, check_case(&of, element)).map(|_| ());
                    }
                    checked?;
                }
                check_case(among, item)?;
                match of.fits(among) {
                    true => Ok(Kind::Bool.into()),
                    false => Err(format!("a list of {} cannot contain {}", among.words(), of.words())),
                }
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [one, other],
            ) => {
                let (left, right) = together(self.whole(one), self.whole(other))?;
                match (&left, &right) {
                    (Kind::Number, Kind::Number) => Ok(Kind::Bool.into()),
                    (one, other) if one.is_text() && other.is_text() => Ok(Kind::Bool.into()),
                    _ => Err(format!("{} cannot be compared with {}", left.words(), right.words())),
                }
            }
            (operators::LOGICAL_AND, [one, other]) => self.both(one, other, true),
            (operators::LOGICAL_OR, [one, other]) => self.both(one, other, false),
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [part]) => self.truth(part),
            (operators::CONDITIONAL, [condition, one, other]) => {
                let (mut if_true, mut if_false) = (Facts::new(), Facts::new());
                known(condition, true, &mut if_true);
                known(condition, false, &mut if_false);
                let asked = self.truth(condition);
                let is_asked = asked.is_ok();
                let left = self.knowing(is_asked.then_some(if_true), |check| check.whole(one));
                let right = self.knowing(is_asked.then_some(if_false), |check| check.whole(other));
                let (_, kinds) = together(asked, together(left, right))?;
                match kinds {
                    (Kind::Unknown, kind) => Ok(kind.into()),
                    (Kind::Cases(_) | Kind::Text, kind) if kind.is_text() => Ok(Kind::Text.into()),
                    (kind, other) if kind.fits(&other) => Ok(kind.into()),
                    (kind, other) => Err(format!(
                        "both results of `? :` must have one type, and these are {} and {}",
                        kind.words(),
                        other.words()
                    )),
                }
            }
            (operators::ADD, [one, other]) => {
                let (left, right) = together(self.whole(one), self.whole(other))?;
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
                together(self.number(one), self.number(other)).map(|(number, _)| number)
            }
            (operators::NEGATE, [part]) => self.number(part),
            (operators::INDEX, [list, index]) => {
                let written = written(list).unwrap_or_else(|| "it".to_owned());
                match together(self.whole(list), self.whole(index))? {
                    (Kind::List(item), Kind::Number) => Ok((*item).into()),
                    (of, index_kind) => Err(no_item(&written, &of, &index_kind, index)),
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
        let one = self.truth(one);
        let facts = one.is_ok().then_some(facts);
        together(one, self.knowing(facts, |check| check.truth(other))).map(|(one, _)| one)
    }

    /// Checks a part for which these are known to be there. None: what stands before it has mistakes.
    fn knowing<R>(&mut self, facts: Option<Facts>, check: impl FnOnce(&mut Self) -> R) -> R {
        let before = (self.present.len(), self.is_unsure);
        self.is_unsure |= facts.is_none();
        self.present.extend(facts.unwrap_or_default());
        let checked = check(self);
        self.present.truncate(before.0);
        self.is_unsure = before.1;
        checked
    }

    fn truth(&mut self, part: &mut Ast) -> Checked {
        match self.whole(part)? {
            Kind::Bool => Ok(Kind::Bool.into()),
            other => Err(format!("`&&`, `||`, `!` and `?` need true or false, got {}", other.words())),
        }
    }

    fn number(&mut self, part: &mut Ast) -> Checked {
        match self.whole(part)? {
            Kind::Number => Ok(Kind::Number.into()),
            other => Err(format!("expected a number, got {}", other.words())),
        }
    }

    fn function(&mut self, name: &str, target: Option<&mut Ast>, args: &mut [Ast]) -> Checked {
        let functions = if self.scope.is_law() { &FUNCTIONS[..] } else { &FUNCTIONS[..6] };
        let is_function = match functions.contains(&name) {
            true => Ok(()),
            false => Err(format!("there is no function `{name}`{}", meant(name, functions.iter().copied()))),
        };
        let is_member = target.is_some();
        let ((), of) = together(is_function, self.all(target.into_iter().chain(args)))?;
        let kind = match (name, of.as_slice()) {
            ("size", [of]) if of.is_text() || matches!(of, Kind::List(_)) => Kind::Number,
            ("contains" | "startsWith" | "endsWith", [whole, part])
                if is_member && whole.is_text() && part.is_text() =>
            {
                Kind::Bool
            }
            ("int" | "uint", [of]) if !is_member && (of.is_text() || matches!(of, Kind::Number)) => Kind::Number,
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
            return Err("`all`, `exists`, `filter` and `map` need a list".into());
        };
        if !self.scope.is_law() && field_of(self.scope.question.fields(), &of.iter_var).is_some() {
            return Err(format!("`{}` is a field of the question; give the item another name", of.iter_var));
        }
        let begun = self.whole(&mut of.accu_init)?;
        let outside = self.inner.len();
        self.inner.push((of.accu_var.clone(), begun.clone()));
        self.inner.push((of.iter_var.clone(), *item));
        let step = together(self.kind(&mut of.loop_cond), self.whole(&mut of.loop_step));
        self.inner.truncate(outside);
        let (_, step) = step?;
        self.inner.push((of.accu_var.clone(), step));
        let result = self.kind(&mut of.result);
        self.inner.truncate(outside);
        result
    }

    fn unknown_variable(&self, name: &str) -> String {
        let fields = self.scope.question.fields().iter().map(|(name, _)| *name);
        let mut known: Vec<String> = match self.scope.is_law() {
            true => ["question", "answer", "verdict"].map(str::to_owned).into(),
            false => {
                fields.filter(|name| !self.scope.hidden.contains(name)).map(|name| name.replace('-', "_")).collect()
            }
        };
        known.extend(self.scope.item.map(|(item, _)| item.to_owned()));
        known.extend(self.inner.iter().map(|(name, _)| name.clone()).filter(|name| !name.starts_with('@')));
        format!("there is no `{name}`{}", meant(name, known.iter().map(String::as_str)))
    }
}

fn literal_kind(literal: &mut LiteralValue, is_law: bool) -> Result<Kind, String> {
    Ok(match literal {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Int(_) => Kind::Number,
        LiteralValue::UInt(_) | LiteralValue::Double(_) if is_law => Kind::Number,
        LiteralValue::UInt(number) => {
            // All numbers of a rule have a sign, and CEL calculates with numbers of one kind only.
            let number = i64::try_from(*number.inner()).map_err(|_| "a number is too large".to_owned())?;
            *literal = LiteralValue::Int(number.into());
            Kind::Number
        }
        LiteralValue::String(_) => Kind::Text,
        LiteralValue::Null => Kind::Unknown,
        LiteralValue::Double(_) => return Err("only whole numbers are supported".into()),
        LiteralValue::Bytes(_) => return Err("bytes are not supported".into()),
    })
}

fn field_of(fields: Fields, field: &str) -> Option<(usize, Shape)> {
    let position = fields.iter().position(|(name, _)| is_written(name, field))?;
    Some((position, fields[position].1))
}

/// What is no item of a list by its position.
fn no_item(written: &str, of: &Kind, by: &Kind, index: &Ast) -> String {
    let word = match &index.expr {
        Expr::Literal(LiteralValue::String(word)) => Some(word.inner()),
        _ => None,
    };
    match of {
        Kind::List(item) if by.is_text() => match **item {
            Kind::Record(fields) if field_of(fields, "name").is_some() && field_of(fields, "value").is_some() => {
                format!(
                    "`{written}` is a list, whose items have positions and no names: ask \
                 `{written}.exists(l, l.name == '{}' && l.value == ...)`",
                    word.unwrap_or("...")
                )
            }
            _ => format!("`{written}` is a list, whose items have positions, as in `{written}[0]`"),
        },
        Kind::List(_) => format!("the position of an item must be a number, not {}", by.words()),
        Kind::Record(fields) => {
            let field = word.or(fields.first().map(|(name, _)| *name)).unwrap_or_default();
            format!("a field stands after a dot: `{written}.{}`", field.replace('-', "_"))
        }
        other => format!("{} has no items", other.words()),
    }
}

fn no_field(of: &str, field: &str, known: &[String]) -> String {
    format!("{of} has no field `{field}`{}", meant(field, known.iter().map(String::as_str)))
}

/// A word that is compared with an enum must be one of its cases.
fn check_case(of: &Kind, other: &Ast) -> Result<(), String> {
    let (Kind::Cases(cases), Expr::Literal(LiteralValue::String(word))) = (of, &other.expr) else { return Ok(()) };
    let word = word.inner();
    match cases.cases().any(|case| case == word) {
        true => Ok(()),
        false => Err(format!("there is no case '{}'{}", word.escape_debug(), meant(word, cases.cases()))),
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
