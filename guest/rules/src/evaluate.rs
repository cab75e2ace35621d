//! Evaluates checked expressions over a question. A path into the question was made one variable by the check, so an
//! evaluation touches what the expression names and nothing else, and copies no text.

use std::fmt;
use std::sync::Arc;

use cel::common::traits::Indexer;
use cel::common::types::{CelBool, CelInt, CelList, CelNull, CelString, Type};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::parser::Expression as Ast;
use cel::{Context, Env, ExecutionError, Value};

use windlass_contract::{Root, Variable, is_written, variable_at};

use crate::contract::{Item, Node};

static TRUE: CelBool = CelBool::TRUE;
static FALSE: CelBool = CelBool::FALSE;
static NULL: CelNull = CelNull;
static RECORD: Type = Type::new_unspecified_type("record");

/// What a rule looks at.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'q> {
    pub(crate) question: &'q dyn Node,
    pub(crate) item: Option<&'q dyn Node>,
}

impl<'q> Subject<'q> {
    pub(crate) fn question(question: &'q dyn Node) -> Self {
        Self { question, item: None }
    }

    pub(crate) fn item(question: &'q dyn Node, item: &'q dyn Node) -> Self {
        Self { question, item: Some(item) }
    }

    /// Below what is absent everything is absent.
    fn get(self, variable: &Variable) -> Item<'q> {
        let root = match variable.root {
            Root::Question => Some(self.question),
            Root::Item => self.item,
            Root::Answer => None,
        };
        let Some(root) = root else { return Item::Null };
        variable.path.iter().fold(Item::Record(root), |item, (position, _)| match item {
            Item::Record(record) => record.field(*position),
            _ => Item::Null,
        })
    }
}

/// Looks variables up in a question.
pub(crate) struct Variables<'q> {
    pub(crate) variables: &'q [Variable],
    pub(crate) subject: Subject<'q>,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let variable = self.variables.get(variable_at(name)?)?;
        let item = self.subject.get(variable);
        Some(match variable.presence {
            true => truth(!matches!(item, Item::Null)),
            false => value(item),
        })
    }
}

fn truth<'b, 'v>(truth: bool) -> CowVal<'b, 'v> {
    CowVal::Borrowed(if truth { &TRUE } else { &FALSE })
}

fn value<'b, 'q: 'b>(item: Item<'q>) -> CowVal<'b, 'q> {
    match item {
        Item::Null => CowVal::Borrowed(&NULL),
        Item::Bool(value) => truth(value),
        Item::Number(number) => CowVal::owned(CelInt::from(i64::try_from(number).unwrap_or(i64::MAX))),
        Item::Text(text) => CowVal::owned(CelString::from(text)),
        Item::Record(record) => CowVal::owned(RecordValue(record)),
        Item::List(items) => {
            let items: Vec<Box<dyn Val + 'q>> = items.into_iter().map(|item| value(item).into_owned()).collect();
            CowVal::owned(CelList::from(items))
        }
    }
}

/// A record in a list: its fields are looked up when they are asked for.
struct RecordValue<'q>(&'q dyn Node);

impl fmt::Debug for RecordValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a record")
    }
}

impl<'q> Val for RecordValue<'q> {
    fn get_type(&self) -> &Type {
        &RECORD
    }

    fn cel_type() -> &'static Type {
        &RECORD
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(RecordValue(self.0))
    }
}

impl Indexer for RecordValue<'_> {
    fn get<'b, 'v>(&'b self, field: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let name = field.downcast_ref::<CelString>().map_or("", |name| name.inner());
        let position = self.0.fields().iter().position(|(field, _)| is_written(field, name));
        position.map(|position| value(self.0.field(position))).ok_or_else(|| ExecutionError::no_such_key(name))
    }

    fn steal<'v>(self: Box<Self>, field: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        RecordValue(self.0).get(field).map(CowVal::into_owned)
    }
}

/// An expression that was held against the contract.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) ast: Ast,
}

/// What evaluates the expressions of one policy. The variables stand once for all of them.
pub(crate) struct Evaluator {
    env: Arc<Env>,
    pub(crate) variables: Vec<Variable>,
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Evaluator").field("variables", &self.variables).finish_non_exhaustive()
    }
}

/// Something else than the check has promised: a defect of the check.
const UNCHECKED: &str = "it gave a value of another type than its check had found";

impl Evaluator {
    pub(crate) fn new(variables: Vec<Variable>) -> Self {
        Self { env: Arc::new(Env::stdlib()), variables }
    }

    /// Evaluates something about one subject.
    pub(crate) fn about<R>(&self, subject: Subject<'_>, evaluate: impl FnOnce(&Context<'_, '_>) -> R) -> R {
        let variables = Variables { variables: &self.variables, subject };
        let mut context = Context::with_env(self.env.clone());
        context.set_variable_resolver(&variables);
        evaluate(&context)
    }
}

impl Expression {
    /// Whether a condition is true.
    pub(crate) fn is_true(&self, context: &Context<'_, '_>) -> Result<bool, String> {
        let value = self.value(context)?;
        value.downcast_ref::<CelBool>().map(|value| *value.inner()).ok_or_else(|| UNCHECKED.into())
    }

    /// A number. Below zero counts as zero: `60000 - elapsed` needs no case of its own.
    pub(crate) fn number(&self, context: &Context<'_, '_>) -> Result<u64, String> {
        let value = self.value(context)?;
        let number = value.downcast_ref::<CelInt>().map(|value| *value.inner()).ok_or(UNCHECKED)?;
        Ok(u64::try_from(number).unwrap_or(0))
    }

    /// A text.
    pub(crate) fn text(&self, context: &Context<'_, '_>) -> Result<String, String> {
        let value = self.value(context)?;
        value.downcast_ref::<CelString>().map(|value| value.inner().to_owned()).ok_or_else(|| UNCHECKED.into())
    }

    fn value<'e, 'v>(&'e self, context: &'e Context<'_, 'v>) -> Result<CowVal<'e, 'v>, String> {
        Value::resolve_val(&self.ast, context).map_err(|error| error.to_string())
    }
}
