//! Queries of a log as SQL.

use std::fmt::Write as _;

use serde_json::Value;
use tokio_postgres::types::{ToSql, Type};
use windlass_lifecycle::log::{Condition, Key, Query};

use crate::settings::Part;

/// A value in a statement.
#[derive(Debug)]
pub(crate) enum Bound {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
    /// A document, as its text.
    Json(String),
}

impl Bound {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::Json(value.to_string())
    }

    fn parameter(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) | Self::Json(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Number(number) => (number, Type::INT8),
        }
    }
}

/// A statement with its values.
#[derive(Debug, Default)]
pub(crate) struct Sql {
    pub(crate) text: String,
    bound: Vec<Bound>,
}

impl Sql {
    pub(crate) fn new(text: impl Into<String>, bound: Vec<Bound>) -> Self {
        Self { text: text.into(), bound }
    }

    /// `select` is everything before `where`.
    pub(crate) fn of(part: &Part, select: &str, query: &Query) -> Self {
        let mut sql = Self::new(format!("{select} where "), Vec::new());
        sql.matching(part, query);
        let (direction, nulls) = if query.newest_first { ("desc", "last") } else { ("asc", "first") };
        let by = query.by.map_or_else(String::new, |by| format!("{} {direction} nulls {nulls}, ", field(by)));
        let _ = write!(sql.text, " order by {by}number {direction}");
        if let Some(limit) = query.limit {
            let _ = write!(sql.text, " limit {limit}");
        }
        sql
    }

    /// How many streams match.
    pub(crate) fn count(part: &Part, query: &Query) -> Self {
        let mut sql = Self::new("select count(*) from streams where ", Vec::new());
        sql.matching(part, query);
        sql
    }

    /// How many streams match, of each combination of these values.
    pub(crate) fn tally(part: &Part, query: &Query, by: &[Key]) -> Self {
        let keys: Vec<String> = by.iter().map(|key| format!("({})::text", expression(*key))).collect();
        let mut sql = Self::new(format!("select {}, count(*) from streams where ", keys.join(", ")), Vec::new());
        sql.matching(part, query);
        let columns: Vec<String> = (1..=by.len()).map(|column| column.to_string()).collect();
        let _ = write!(sql.text, " group by {}", columns.join(", "));
        sql
    }

    pub(crate) fn parameters(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.bound.iter().map(Bound::parameter).collect()
    }

    fn matching(&mut self, part: &Part, query: &Query) {
        let families = query.families.iter().map(|family| part.stored(family)).collect();
        let families = self.bind(Bound::Texts(families));
        let _ = write!(self.text, "family = any({families})");
        for condition in &query.all {
            self.text.push_str(" and ");
            self.condition(condition);
        }
        if let (Some(id), Some(family)) = (&query.beyond, query.families.first()) {
            let order = query.by.map_or_else(|| "number".to_owned(), |by| format!("{}, number", field(by)));
            let compared = if query.newest_first { "<" } else { ">" };
            let (family, id) = (self.bind(Bound::text(part.stored(family))), self.bind(Bound::text(id)));
            let of = format!("select {order} from streams where family = {family} and id = {id}");
            let _ = write!(self.text, " and ({order}) {compared} ({of})");
        }
    }

    /// Keeps a value. Gives the words that stand for it.
    pub(crate) fn bind(&mut self, bound: Bound) -> String {
        // A document arrives as text, so that it is written the same by every version of the server.
        let cast = if matches!(bound, Bound::Json(_)) { "::jsonb" } else { "" };
        self.bound.push(bound);
        format!("${}{cast}", self.bound.len())
    }

    fn joined(&mut self, conditions: &[Condition], word: &str, none: &str) {
        self.text.push('(');
        for (place, condition) in conditions.iter().enumerate() {
            self.text.push_str(if place == 0 { "" } else { word });
            self.condition(condition);
        }
        self.text.push_str(if conditions.is_empty() { none } else { "" });
        self.text.push(')');
    }

    pub(crate) fn all(&mut self, conditions: &[Condition]) {
        self.joined(conditions, " and ", "true");
    }

    fn condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Is("id", value) => {
                let value = self.bind(Bound::text(value.as_str().unwrap_or_default()));
                let _ = write!(self.text, "id = {value}");
            }
            Condition::Is(path, value) => {
                let value = self.bind(Bound::json(value));
                let _ = write!(self.text, "{} = {value}", field(path));
            }
            Condition::In("id", texts) => {
                let texts = self.bind(Bound::Texts(texts.clone()));
                let _ = write!(self.text, "id = any({texts})");
            }
            Condition::In(path, texts) => {
                let texts: Vec<String> = texts.iter().map(|text| Value::from(text.as_str()).to_string()).collect();
                let texts = self.bind(Bound::Texts(texts));
                let _ = write!(self.text, "{} = any({texts}::jsonb[])", field(path));
            }
            Condition::Known(path) => {
                let _ = write!(self.text, "{}", is_known(path));
            }
            Condition::Below(path, number) => self.compared(path, "<", *number),
            Condition::From(path, number) => self.compared(path, ">=", *number),
            Condition::Under(prefix) => {
                let prefix = self.bind(Bound::text(prefix));
                let _ = write!(self.text, "starts_with(id, {prefix})");
            }
            Condition::After(number) => {
                let number = self.bind(Bound::Number(i64::try_from(*number).unwrap_or(i64::MAX)));
                let _ = write!(self.text, "number > {number}");
            }
            Condition::Has(conditions) => {
                // In the subquery, `id` and `document` are those of the entry.
                self.text.push_str("(family, id) in (select family, id from entries where ");
                self.all(conditions);
                self.text.push(')');
            }
            Condition::Not(condition) => {
                self.text.push_str("not coalesce((");
                self.condition(condition);
                self.text.push_str("), false)");
            }
            Condition::Any(conditions) => self.joined(conditions, " or ", "false"),
            Condition::All(conditions) => self.all(conditions),
        }
    }

    /// Only numbers are compared: in `jsonb`, a text comes before each number.
    fn compared(&mut self, path: &str, word: &str, number: u64) {
        let number = self.bind(Bound::Json(number.to_string()));
        let field = field(path);
        let _ = write!(self.text, "({field} {word} {number} and jsonb_typeof({field}) = 'number')");
    }
}

/// A field as `jsonb`; absent where it is JSON's null, as nothing holds of it.
fn field(path: &str) -> String {
    match path {
        "id" => path.to_owned(),
        path => format!("nullif(document #> '{{{}}}', 'null'::jsonb)", path.replace('.', ",")),
    }
}

fn is_known(path: &str) -> String {
    format!("{} is not null", field(path))
}

fn expression(key: Key) -> String {
    match key {
        Key::Field("id") => "to_jsonb(id)".to_owned(),
        Key::Field(path) => field(path),
        Key::Span(path, length) => {
            let field = field(path);
            format!(
                "case when jsonb_typeof({field}) = 'number' then to_jsonb(floor({field}::numeric / {})) end",
                length.max(1)
            )
        }
    }
}
