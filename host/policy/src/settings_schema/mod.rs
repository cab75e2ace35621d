//! The JSON Schema (2020-12) of a policy's settings: read into a tree of rules, against which settings are checked.
//!
//! A policy brings the schema and the host evaluates it, so it has to be bounded. Where a schema may refer to another,
//! forty definitions of two references each are 2^40 visits. So only the keywords are understood that describe the
//! value at hand and what lies within it; any other is refused when the policy is loaded, and belongs in `configure`,
//! which runs in the sandbox. Each rule then meets each value at most once, and once more for each `anyOf` around it
//! whose problems are reported.

mod check;
#[cfg(test)]
mod fuzz;
mod read;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Number, Value};

use crate::text::short;

/// The longest schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// How deep schemas may be nested.
const MAX_DEPTH: usize = 32;
/// How many schemas one may be made of.
const MAX_SCHEMAS: usize = 512;
/// How many values and names `enum`, `const` and `required` may have, all together.
const MAX_MEMBERS: usize = 1024;
/// The longest name of a property, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// How many comparisons a check may take.
const MAX_STEPS: usize = 1 << 20;
/// How many problems of settings are reported at once.
const MAX_PROBLEMS: usize = 5;
/// How many alternatives of `anyOf` are reported, where several might have been meant.
const MAX_REPORTED_ALTERNATIVES: usize = 3;

/// What a policy says about its settings.
pub(crate) struct SettingsSchema(Schema);

#[derive(Default)]
enum Schema {
    /// `true`
    #[default]
    Anything,
    /// `false`
    Nothing,
    Rules(Box<Rules>),
}

/// The keywords of one schema. One that is absent allows everything.
#[derive(Default)]
struct Rules {
    types: Vec<Type>,
    /// `enum`, and `const` as one of one.
    choices: Vec<Vec<Value>>,
    any_of: Vec<Schema>,

    minimum: Option<Number>,
    exclusive_minimum: Option<Number>,
    maximum: Option<Number>,
    exclusive_maximum: Option<Number>,

    min_length: Option<u64>,
    max_length: Option<u64>,

    items: Schema,
    min_items: Option<u64>,
    max_items: Option<u64>,

    properties: BTreeMap<String, Schema>,
    additional_properties: Schema,
    required: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
    Null,
}

impl Type {
    /// Each with its name in a schema and its name in a sentence.
    const ALL: [(Type, &'static str, &'static str); 7] = [
        (Type::Boolean, "boolean", "a boolean"),
        (Type::Integer, "integer", "an integer"),
        (Type::Number, "number", "a number"),
        (Type::String, "string", "a string"),
        (Type::Array, "array", "an array"),
        (Type::Object, "object", "an object"),
        (Type::Null, "null", "null"),
    ];

    /// Whether a value is of this type. An integer is a number, and 1.0 is an integer.
    fn is_of(self, value: &Value) -> bool {
        match (self, value) {
            (Type::Boolean, Value::Bool(_))
            | (Type::Number, Value::Number(_))
            | (Type::String, Value::String(_))
            | (Type::Array, Value::Array(_))
            | (Type::Object, Value::Object(_))
            | (Type::Null, Value::Null) => true,
            (Type::Integer, Value::Number(number)) => {
                !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            _ => false,
        }
    }
}

/// Where something lies, in settings or in a schema.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// As a JSON pointer, for places in a schema.
    fn pointer(&self) -> String {
        match self {
            Place::Root => String::new(),
            Place::Key(parent, key) => format!("{}/{}", parent.pointer(), short(key)),
            Place::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }
}

/// As the configuration says it, for places in settings.
impl fmt::Display for Place<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Root => formatter.write_str("settings"),
            Place::Key(parent, key) => write!(formatter, "{parent}.{}", short(key)),
            Place::Index(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}
