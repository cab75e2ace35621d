//! The contract as JSON Schemas (2020-12), from which editors know fields, cases and what they mean.

use serde_json::{Map, Value, json};
use windlass_policy::slots::SlotName;
use wit_parser::{Docs, Type, TypeDefKind, TypeId};

use crate::Error;
use crate::contract::{Contract, in_one_line};

/// What a schema is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum SchemaOf {
    /// The slot's question.
    Question,
    /// The slot's answer: of a batch the list.
    Answer,
    /// A fixture of a policy for the slot.
    Fixture,
    /// A file of rules for the slot.
    Rules,
}

impl SchemaOf {
    /// All of them.
    pub const ALL: [SchemaOf; 4] = [SchemaOf::Question, SchemaOf::Answer, SchemaOf::Fixture, SchemaOf::Rules];

    /// Its word: `question`, `answer`, `fixture`, `rules`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The JSON Schema of a slot's question, answer, fixtures or rules, made of the WIT, with the WIT's words as
/// descriptions. It lets through what the host reads, and nothing else, but for sizes, for what stands between fields,
/// and for what conditions in CEL say.
///
/// # Errors
/// The contract in this program can't be read, which is a defect.
pub fn schema(slot: SlotName, of: SchemaOf) -> Result<Value, Error> {
    let contract = Contract::read()?;
    let parts = contract.slot(slot)?;
    let mut schema = Schema {
        contract: &contract,
        only_changes: of == SchemaOf::Fixture,
        may_be_computed: of == SchemaOf::Rules,
        definitions: Map::new(),
    };
    let (title, root) = match of {
        SchemaOf::Question => (format!("A question to the slot {slot}"), schema.of(parts.question)?),
        SchemaOf::Answer => (format!("An answer of the slot {slot}"), schema.of(parts.answer)?),
        SchemaOf::Fixture => {
            let question = schema.of(parts.question)?;
            schema.only_changes = false;
            let verdict = schema.verdict(parts.answer)?;
            (format!("A fixture for a policy of the slot {slot}"), fixture(slot, &question, &verdict))
        }
        SchemaOf::Rules => {
            let answer = match slot {
                // A rule is about one resource, of which the plan is made.
                SlotName::Rollback => json!({ "enum": ["defer", "keep", "delete"] }),
                // A rule is about one place, in whose order servers are placed.
                SlotName::Placement => json!({ "enum": ["defer", "first", "last", "skip"] }),
                _ => schema.verdict(parts.answer)?,
            };
            (format!("Rules for the slot {slot}"), rules(slot, &answer))
        }
    };
    let mut document = Map::new();
    document.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    document.insert("title".into(), title.into());
    if let Value::Object(root) = root {
        document.extend(root);
    }
    document.insert("$defs".into(), Value::Object(schema.definitions));
    Ok(Value::Object(document))
}

/// The keys are those of `windlass_proof::fixture::Fixture`.
fn fixture(slot: SlotName, question: &Value, verdict: &Value) -> Value {
    let verdict = match slot {
        SlotName::StateMapping => json!({ "anyOf": [verdict, { "type": "array", "items": verdict }] }),
        _ => verdict.clone(),
    };
    json!({
        "type": "object",
        "properties": {
            "$schema": { "type": "string" },
            "about": { "type": "string", "description": "What the case is about, for people." },
            "slot": { "const": slot.as_str() },
            "settings": { "type": "object", "description": "Settings of the policy for this case." },
            "question": {
                "description": "Changes to the slot's example question. A list says all its elements, each as changes \
                                to the example's in its place; those beyond the example's end, to its last.",
                "allOf": [question],
            },
            "host-calls": {
                "description": "What capabilities answer.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "interface": {
                            "type": "string",
                            "description": "The interface without its version.",
                            "default": "windlass:scaleway/look-ups",
                        },
                        "function": { "type": "string" },
                        "arguments": { "type": "array" },
                        "answer": { "description": "{\"ok\": ...} or {\"err\": ...}" },
                    },
                    "required": ["function", "arguments", "answer"],
                    "additionalProperties": false,
                },
            },
            "expect": {
                "description": "What is expected of the answer. In any case it has to pass the host's check.",
                "type": "object",
                "properties": {
                    "verdict": verdict,
                    "holds": { "type": "string", "description": "A condition in CEL over `question` and `answer`." },
                    "reason": { "type": "string", "description": "Words that the reason contains." },
                },
                "additionalProperties": false,
            },
        },
        "required": ["slot", "expect"],
        "additionalProperties": false,
    })
}

/// The keys are those of `windlass_policy::RulesFile`.
fn rules(slot: SlotName, answer: &Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "slot": { "const": slot.as_str() },
            "rules": {
                "description": "The first rule whose condition holds answers; where none does, the next policy \
                 decides.",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": { "type": "string", "description": "Name shown in messages and records." },
                        "when": { "type": "string", "description": "A condition in CEL." },
                        "answer": {
                            "description": "The verdict. A text that begins with `=` is computed: an expression in \
                             CEL.",
                            "allOf": [answer],
                        },
                        "reason": { "type": "string", "description": "Why, for people." },
                    },
                    "required": ["when", "answer"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["slot"],
        "additionalProperties": false,
    })
}

/// A schema on its way.
struct Schema<'c> {
    contract: &'c Contract,
    /// Whether every field of a record may be left out.
    only_changes: bool,
    /// Whether numbers and lists may be expressions instead.
    may_be_computed: bool,
    definitions: Map<String, Value>,
}

impl Schema<'_> {
    fn of(&mut self, of: &Type) -> Result<Value, Error> {
        Ok(match of {
            Type::Bool => json!({ "type": "boolean" }),
            Type::U8 => self.or_computed(integer(u8::MAX.into())),
            Type::U16 => self.or_computed(integer(u16::MAX.into())),
            Type::U32 => self.or_computed(integer(u32::MAX.into())),
            Type::U64 => self.or_computed(integer(u64::MAX)),
            Type::String => json!({ "type": "string" }),
            Type::Id(id) => return self.of_id(*id),
            other => return Err(Error::Contract(format!("there is no JSON for a {other:?}"))),
        })
    }

    /// A named type stands once among the definitions.
    fn of_id(&mut self, id: TypeId) -> Result<Value, Error> {
        let id = self.contract.original(id);
        let definition = self.contract.definition(id);
        let Some(name) = &definition.name else { return self.shape(&definition.kind) };
        if !self.definitions.contains_key(name) {
            // No type of the contract contains itself.
            let shape = self.shape(&definition.kind)?;
            self.definitions.insert(name.clone(), described(shape, &definition.docs));
        }
        Ok(json!({ "$ref": format!("#/$defs/{name}") }))
    }

    fn shape(&mut self, kind: &TypeDefKind) -> Result<Value, Error> {
        Ok(match kind {
            TypeDefKind::Type(other) => self.of(other)?,
            TypeDefKind::Option(inner) => json!({ "anyOf": [self.of(inner)?, { "type": "null" }] }),
            TypeDefKind::List(item) => {
                let item = self.of(item)?;
                self.or_computed(json!({ "type": "array", "items": item }))
            }
            TypeDefKind::Enum(cases) => {
                let cases = cases.cases.iter().map(|case| described(json!({ "const": case.name }), &case.docs));
                json!({ "oneOf": cases.collect::<Vec<_>>() })
            }
            TypeDefKind::Variant(variant) => {
                let mut cases = Vec::new();
                for case in &variant.cases {
                    let shape = match &case.ty {
                        None => json!({ "const": case.name }),
                        Some(payload) => json!({
                            "type": "object",
                            "properties": { &case.name: self.of(payload)? },
                            "required": [case.name],
                            "additionalProperties": false,
                        }),
                    };
                    cases.push(described(shape, &case.docs));
                }
                json!({ "oneOf": cases })
            }
            TypeDefKind::Record(record) => {
                let mut properties = Map::new();
                let mut required = Vec::new();
                for field in &record.fields {
                    properties.insert(field.name.clone(), described(self.of(&field.ty)?, &field.docs));
                    if !self.only_changes && !self.is_optional(&field.ty) {
                        required.push(Value::from(field.name.as_str()));
                    }
                }
                let mut shape = json!({ "type": "object", "properties": properties, "additionalProperties": false });
                if !required.is_empty() {
                    shape["required"] = Value::Array(required);
                }
                shape
            }
            other => return Err(Error::Contract(format!("there is no JSON for a {}", other.as_str()))),
        })
    }

    fn or_computed(&self, schema: Value) -> Value {
        match self.may_be_computed {
            true => json!({ "anyOf": [schema, { "type": "string", "pattern": "^=" }] }),
            false => schema,
        }
    }

    fn is_optional(&self, of: &Type) -> bool {
        matches!(of, Type::Id(id) if matches!(self.contract.definition(*id).kind, TypeDefKind::Option(_)))
    }

    /// The verdict of an answer, or of each answer of a batch.
    fn verdict(&mut self, answer: &Type) -> Result<Value, Error> {
        let lacks = || Error::Contract("an answer has no verdict".into());
        let Type::Id(id) = answer else { return Err(lacks()) };
        match &self.contract.definition(self.contract.original(*id)).kind {
            TypeDefKind::List(item) => self.verdict(item),
            TypeDefKind::Record(record) => {
                let verdict = record.fields.iter().find(|field| field.name == "verdict").ok_or_else(lacks)?;
                self.of(&verdict.ty)
            }
            _ => Err(lacks()),
        }
    }
}

fn integer(most: u64) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": most })
}

/// A schema with the contract's words, where it has any. Beside a `$ref` they are allowed since 2019-09.
fn described(mut schema: Value, docs: &Docs) -> Value {
    let words = in_one_line(docs);
    if !words.is_empty() {
        schema["description"] = words.into();
    }
    schema
}
