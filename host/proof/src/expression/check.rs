//! Holds an expression against the contract before it is ever evaluated, and rewrites each path into the question or
//! the answer as one variable.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue, SelectExpr, operators};
use cel::parser::Expression;
use windlass_policy::slots::SlotName;

use super::pick::Wanted;
use crate::shape::{Shape, SlotShapes};

/// The functions that an expression may call, beside the operators and the macros. Each costs at most what its
/// arguments are long.
const FUNCTIONS: [&str; 7] = ["size", "contains", "startsWith", "endsWith", "int", "uint", "string"];

/// What an expression's part is.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// Anything: what is null, or the item of an empty list.
    Unknown,
    Bool,
    Number,
    Text,
    /// One of these words.
    Cases(Vec<&'static str>),
    Record(&'static Shape),
    List(Box<Kind>),
}

impl Kind {
    fn of(shape: &'static Shape) -> Kind {
        match shape {
            Shape::Bool => Kind::Bool,
            Shape::Number { .. } => Kind::Number,
            Shape::Text => Kind::Text,
            Shape::Option(inner) => Kind::of(inner),
            Shape::List(item) => Kind::List(Box::new(Kind::of(item))),
            Shape::Enum(cases) => Kind::Cases(cases.iter().map(String::as_str).collect()),
            Shape::Record(_) => Kind::Record(shape),
            Shape::Variant(cases) => Kind::Cases(cases.iter().map(|(name, _)| name.as_str()).collect()),
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
            (one, other) if one.is_text() && other.is_text() => true,
            (Kind::List(one), Kind::List(other)) => one.fits(other),
            (Kind::Record(_), Kind::Record(_)) => true,
            (one, other) => one == other,
        }
    }
}

/// Where a variable of an expression leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    Question,
    /// One server of a listing.
    Server,
    Answer,
}

/// What an expression needs to be evaluated.
#[derive(Debug, Default)]
pub(super) struct Needs {
    pub(super) question: Wanted,
    pub(super) server: Wanted,
    pub(super) answer: Wanted,
    /// The names of the rewritten variables, by their places.
    pub(super) names: Vec<String>,
    /// The places of those that say whether something is there.
    pub(super) presences: Vec<usize>,
}

pub(super) struct Check {
    shapes: &'static SlotShapes,
    /// The servers of a listing, in `state-mapping`.
    server: Option<&'static Shape>,
    pub(super) needs: Needs,
    /// Variables of the macros around the part that is looked at, the innermost last.
    scopes: Vec<(String, Kind)>,
}

/// A path into the question or the answer.
struct Place {
    root: Root,
    path: Vec<&'static str>,
    kind: Kind,
}

type Checked = Result<Kind, String>;

impl Check {
    pub(super) fn new(slot: SlotName) -> Check {
        let shapes = SlotShapes::of(slot);
        let server = match (slot, shapes.question.field("servers")) {
            (SlotName::StateMapping, Some(Shape::List(server))) => Some(&**server),
            _ => None,
        };
        Check { shapes, server, needs: Needs::default(), scopes: Vec::new() }
    }

    /// Checks a whole expression, which must be true or false.
    pub(super) fn condition(&mut self, expression: &mut Expression) -> Result<(), String> {
        match self.kind(expression)? {
            Kind::Bool => Ok(()),
            other => Err(format!("it must be true or false, and is {}", other.words())),
        }
    }

    fn kind(&mut self, expression: &mut Expression) -> Checked {
        if let Some(place) = self.place(expression)? {
            let kind = place.kind.clone();
            expression.expr = Expr::Ident(self.variable(&place, false)?);
            return Ok(kind);
        }
        match &mut expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Kind::Number,
                LiteralValue::String(_) => Kind::Text,
                LiteralValue::Null => Kind::Unknown,
                LiteralValue::Bytes(_) => return Err("the contract has no bytes".into()),
            }),
            Expr::Ident(name) => match self.scopes.iter().rev().find(|(known, _)| known == name) {
                Some((_, kind)) => Ok(kind.clone()),
                None => Err(self.unknown_variable(name)),
            },
            Expr::Select(_) => self.select(expression),
            Expr::List(list) => {
                let mut item = Kind::Unknown;
                for element in &mut list.elements {
                    let kind = self.kind(element)?;
                    if !item.fits(&kind) {
                        return Err(format!("a list holds both {} and {}", item.words(), kind.words()));
                    }
                    item = kind;
                }
                Ok(Kind::List(Box::new(item)))
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Map(_) | Expr::Struct(_) => Err("a condition makes no maps".into()),
            Expr::Unspecified => Err("it is empty".into()),
        }
    }

    /// The place in the question or the answer that is meant, if the expression is a path into one of them.
    fn place(&self, expression: &Expression) -> Result<Option<Place>, String> {
        match &expression.expr {
            Expr::Ident(name) => Ok(self.root(name)),
            Expr::Select(select) if !select.test => {
                let Some(place) = self.place(&select.operand)? else { return Ok(None) };
                self.below(place, &select.field).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn root(&self, name: &str) -> Option<Place> {
        if self.scopes.iter().any(|(known, _)| known == name) {
            return None;
        }
        let place = |root, path, kind| Some(Place { root, path, kind });
        match name {
            "question" => place(Root::Question, Vec::new(), Kind::of(&self.shapes.question)),
            "answer" => place(Root::Answer, Vec::new(), Kind::of(self.shapes.one_answer())),
            "verdict" => place(Root::Answer, vec!["verdict"], self.verdict()),
            "server" => self.server.and_then(|server| place(Root::Server, Vec::new(), Kind::of(server))),
            _ => None,
        }
    }

    fn verdict(&self) -> Kind {
        self.shapes.one_answer().field("verdict").map_or(Kind::Unknown, Kind::of)
    }

    /// The cases of the verdict that have a payload.
    fn payloads(&self) -> impl Iterator<Item = (&'static str, &'static Shape)> + use<> {
        let cases = match self.shapes.one_answer().field("verdict") {
            Some(Shape::Variant(cases)) => cases.as_slice(),
            _ => &[],
        };
        cases.iter().filter_map(|(name, payload)| Some((name.as_str(), payload.as_ref()?)))
    }

    /// One field further.
    fn below(&self, mut place: Place, field: &str) -> Result<Place, String> {
        let is_answer = place.root == Root::Answer && place.path.is_empty();
        let Kind::Record(record) = place.kind else {
            let words = spelt(&place);
            return Err(format!("`{words}` is {}, which has no field `{field}`", place.kind.words()));
        };
        let found = record.fields().iter().find(|(name, _)| matches(name, field));
        if let Some((name, shape)) = found {
            place.path.push(name);
            place.kind = Kind::of(shape);
            return Ok(place);
        }
        if let Some((case, payload)) = self.payloads().find(|(case, _)| is_answer && matches(case, field)) {
            place.path.extend(["verdict", case]);
            place.kind = Kind::of(payload);
            return Ok(place);
        }
        let mut known: Vec<String> = record.fields().iter().map(|(name, _)| name.replace('-', "_")).collect();
        if is_answer {
            known.extend(self.payloads().map(|(case, _)| case.replace('-', "_")));
        }
        place.kind = Kind::Record(record);
        Err(format!("`{}` has no field `{field}`{}", spelt(&place), meant(field, &known)))
    }

    /// The variable that stands for a place, or for whether it is there.
    fn variable(&mut self, place: &Place, presence: bool) -> Result<String, String> {
        let name = match presence {
            true => format!("has({})", spelt(place)),
            false => spelt(place),
        };
        let wanted = match place.root {
            Root::Question => &mut self.needs.question,
            Root::Server => &mut self.needs.server,
            Root::Answer => &mut self.needs.answer,
        };
        let wanted = wanted.at(&place.path);
        let wanted = if presence { &mut wanted.presence } else { &mut wanted.value };
        if wanted.is_none() {
            *wanted = Some(self.needs.names.len());
            if presence {
                self.needs.presences.push(self.needs.names.len());
            }
            self.needs.names.push(name.clone());
        }
        Ok(name)
    }

    /// A field of what is no path: of an item of a list. Or the question whether a field is there.
    fn select(&mut self, expression: &mut Expression) -> Checked {
        let Expr::Select(select) = &mut expression.expr else { return Ok(Kind::Unknown) };
        if select.test
            && let Some(place) = self.place(&select.operand)?
        {
            let place = self.below(place, &select.field)?;
            expression.expr = Expr::Ident(self.variable(&place, true)?);
            return Ok(Kind::Bool);
        }
        let kind = match self.kind(&mut select.operand)? {
            Kind::Record(record) => {
                let found = record.fields().iter().find(|(name, _)| matches(name, &select.field));
                match found {
                    Some((_, shape)) => Kind::of(shape),
                    None => {
                        let known: Vec<String> =
                            record.fields().iter().map(|(name, _)| name.replace('-', "_")).collect();
                        return Err(format!(
                            "an item has no field `{0}`{1}",
                            select.field,
                            meant(&select.field, &known)
                        ));
                    }
                }
            }
            Kind::Unknown => Kind::Unknown,
            other => return Err(format!("{} has no field `{}`", other.words(), select.field)),
        };
        if !select.test {
            return Ok(kind);
        }
        // An absent field of an item is null and not missing, since it has all the contract's fields.
        let field = SelectExpr { test: false, ..std::mem::take(select) };
        let id = expression.id;
        let part = |expr| Expression { id, expr };
        expression.expr = Expr::Call(CallExpr {
            func_name: operators::NOT_EQUALS.into(),
            target: None,
            args: vec![part(Expr::Select(field)), part(Expr::Literal(LiteralValue::Null))],
        });
        Ok(Kind::Bool)
    }

    fn call(&mut self, call: &mut CallExpr) -> Checked {
        if let Some(target) = &mut call.target {
            let of = self.kind(target)?;
            return self.function(&call.func_name, Some(of), &mut call.args);
        }
        match (call.func_name.as_str(), call.args.as_mut_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                // Whether something is there doesn't need what is there.
                for (path, null) in [(0, 1), (1, 0)] {
                    let args = [&*one, &*other];
                    if args[null].expr == Expr::Literal(LiteralValue::Null)
                        && let Some(place) = self.place(args[path])?
                    {
                        let present = Expr::Ident(self.variable(&place, true)?);
                        let absent = call.func_name == operators::EQUALS;
                        let id = one.id;
                        *one = Expression { id, expr: present };
                        *other = Expression { id, expr: Expr::Literal(LiteralValue::Boolean((!absent).into())) };
                        call.func_name = operators::EQUALS.into();
                        return Ok(Kind::Bool);
                    }
                }
                let (left, right) = (self.kind(one)?, self.kind(other)?);
                check_case(&left, other)?;
                check_case(&right, one)?;
                if !left.fits(&right) {
                    return Err(format!("{} is never equal to {}", left.words(), right.words()));
                }
                Ok(Kind::Bool)
            }
            (operators::IN, [item, list]) => {
                let (of, within) = (self.kind(item)?, self.kind(list)?);
                let Kind::List(among) = &within else {
                    return Err(format!("`in` looks into a list, and not into {}", within.words()));
                };
                if let Expr::List(list) = &list.expr {
                    for element in &list.elements {
                        check_case(&of, element)?;
                    }
                }
                check_case(among, item)?;
                if !of.fits(among) {
                    return Err(format!("a list of {} never holds {}", among.words(), of.words()));
                }
                Ok(Kind::Bool)
            }
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                [one, other],
            ) => {
                let (left, right) = (self.kind(one)?, self.kind(other)?);
                let ordered = |kind: &Kind| matches!(kind, Kind::Number | Kind::Text | Kind::Unknown);
                if ordered(&left) && ordered(&right) && left.fits(&right) {
                    return Ok(Kind::Bool);
                }
                Err(format!("{} is neither more nor less than {}", left.words(), right.words()))
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [one, other]) => {
                for part in [one, other] {
                    self.truth(part)?;
                }
                Ok(Kind::Bool)
            }
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [part]) => self.truth(part),
            (operators::CONDITIONAL, [condition, one, other]) => {
                self.truth(condition)?;
                let (left, right) = (self.kind(one)?, self.kind(other)?);
                if !left.fits(&right) {
                    return Err(format!("`? :` gives either {} or {}", left.words(), right.words()));
                }
                Ok(if left == Kind::Unknown { right } else { left })
            }
            (operators::ADD, [one, other]) => {
                let (left, right) = (self.kind(one)?, self.kind(other)?);
                match (&left, &right) {
                    (Kind::List(item), Kind::List(more)) if item.fits(more) => {
                        Ok(if **item == Kind::Unknown { right } else { left })
                    }
                    (Kind::Number, Kind::Number) => Ok(Kind::Number),
                    (one, other) if one.is_text() && other.is_text() => Ok(Kind::Text),
                    _ => Err(format!("{} and {} cannot be added", left.words(), right.words())),
                }
            }
            (operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO, [one, other]) => {
                for part in [one, other] {
                    self.number(part)?;
                }
                Ok(Kind::Number)
            }
            (operators::NEGATE, [part]) => self.number(part),
            (operators::INDEX, [list, index]) => {
                let of = self.kind(list)?;
                self.number(index)?;
                match of {
                    Kind::List(item) => Ok(*item),
                    other => Err(format!("{} has no items", other.words())),
                }
            }
            (name, args) => {
                let name = name.to_owned();
                self.function(&name, None, args)
            }
        }
    }

    fn truth(&mut self, part: &mut Expression) -> Checked {
        match self.kind(part)? {
            Kind::Bool => Ok(Kind::Bool),
            other => Err(format!("`&&`, `||`, `!` and `?` need true or false, and got {}", other.words())),
        }
    }

    fn number(&mut self, part: &mut Expression) -> Checked {
        match self.kind(part)? {
            Kind::Number | Kind::Unknown => Ok(Kind::Number),
            other => Err(format!("a number is needed, and {} was found", other.words())),
        }
    }

    fn function(&mut self, name: &str, target: Option<Kind>, args: &mut [Expression]) -> Checked {
        let mut of: Vec<Kind> = target.into_iter().collect();
        for arg in args {
            of.push(self.kind(arg)?);
        }
        let text = |kind: &Kind| kind.is_text() || *kind == Kind::Unknown;
        match (name, of.as_slice()) {
            ("size", [of]) if text(of) || matches!(of, Kind::List(_)) => Ok(Kind::Number),
            ("contains" | "startsWith" | "endsWith", [whole, part]) if text(whole) && text(part) => Ok(Kind::Bool),
            ("int" | "uint", [of]) if text(of) || *of == Kind::Number => Ok(Kind::Number),
            ("string", [of]) if text(of) || *of == Kind::Number => Ok(Kind::Text),
            _ if FUNCTIONS.contains(&name) => {
                let words: Vec<&str> = of.iter().map(Kind::words).collect();
                Err(format!("`{name}` can't be called with {}", words.join(" and ")))
            }
            _ => {
                let known: Vec<String> = FUNCTIONS.iter().map(|name| (*name).to_owned()).collect();
                Err(format!("there is no function `{name}`{}", meant(name, &known)))
            }
        }
    }

    /// `all`, `exists`, `exists_one`, `filter` and `map`, as the parser writes them out.
    fn comprehension(&mut self, of: &mut ComprehensionExpr) -> Checked {
        let Kind::List(item) = self.kind(&mut of.iter_range)? else {
            return Err("`all`, `exists`, `filter` and `map` go over a list".into());
        };
        let begun = self.kind(&mut of.accu_init)?;
        let outside = self.scopes.len();
        self.scopes.push((of.accu_var.clone(), begun.clone()));
        self.scopes.push((of.iter_var.clone(), *item));
        if let Some(second) = &of.iter_var2 {
            self.scopes.push((second.clone(), Kind::Unknown));
        }
        self.kind(&mut of.loop_cond)?;
        let step = self.kind(&mut of.loop_step)?;
        self.scopes.truncate(outside);
        self.scopes.push((of.accu_var.clone(), if step == Kind::Unknown { begun } else { step }));
        let result = self.kind(&mut of.result);
        self.scopes.truncate(outside);
        result
    }

    fn unknown_variable(&self, name: &str) -> String {
        let mut known = vec!["question".to_owned(), "answer".to_owned(), "verdict".to_owned()];
        known.extend(self.server.map(|_| "server".to_owned()));
        known.extend(self.scopes.iter().map(|(name, _)| name.clone()).filter(|name| !name.starts_with('@')));
        match nearest(name, &known) {
            Some(nearest) => format!("there is no variable `{name}`; did you mean `{nearest}`?"),
            None => format!("there is no variable `{name}`; there are {}", known.join(", ")),
        }
    }
}

/// A place as an expression writes it.
fn spelt(place: &Place) -> String {
    let root = match place.root {
        Root::Question => "question",
        Root::Server => "server",
        Root::Answer => "answer",
    };
    let path = match (place.root, place.path.as_slice()) {
        // A payload stands beside its verdict.
        (Root::Answer, ["verdict", payload @ ..]) if !payload.is_empty() => payload,
        (_, path) => path,
    };
    path.iter().fold(root.to_owned(), |words, field| format!("{words}.{}", field.replace('-', "_")))
}

/// Whether a name of the contract is written so in an expression.
fn matches(contract: &str, written: &str) -> bool {
    contract.len() == written.len()
        && contract.bytes().zip(written.bytes()).all(|(one, other)| one == other || (one == b'-' && other == b'_'))
}

/// A word that is compared with an enum must be one of its cases.
fn check_case(of: &Kind, other: &Expression) -> Result<(), String> {
    let (Kind::Cases(cases), Expr::Literal(LiteralValue::String(word))) = (of, &other.expr) else { return Ok(()) };
    let word = word.inner();
    if cases.contains(&word) {
        return Ok(());
    }
    let cases: Vec<String> = cases.iter().map(|case| (*case).to_owned()).collect();
    Err(format!("there is no case '{word}'{}", meant(word, &cases)))
}

fn meant(written: &str, known: &[String]) -> String {
    match nearest(written, known) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => format!("; there are {}", known.join(", ")),
    }
}

fn nearest<'k>(written: &str, known: &'k [String]) -> Option<&'k str> {
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(written, word), word.as_str()))
        .min()
        .filter(|(distance, word)| *distance <= 1 + word.len() / 4)
        .map(|(_, word)| word)
}
