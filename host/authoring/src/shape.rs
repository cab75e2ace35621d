//! The contract as scripts see it: the shape of an answer, by which the prelude checks it, and types for editors.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use windlass_policy::slots::SlotName;
use wit_parser::{Docs, Type, TypeDefKind, TypeId};

use crate::Error;
use crate::contract::{Contract, SlotContract, in_one_line};

/// A language that has types of its own for what the contract names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// As componentize-js hands values over: fields in camel case, words for enums, `{ tag, val }` for variants.
    JavaScript,
    /// As componentize-py does: data classes with fields in snake case, one class for each case of a variant.
    Python,
}

impl Dialect {
    fn field(self, name: &str) -> String {
        match self {
            Dialect::JavaScript => camel(name),
            Dialect::Python => python_name(name),
        }
    }
}

/// `server-types` as `server_types`; a word of Python's own gets an underscore, as componentize-py does it.
fn python_name(name: &str) -> String {
    const KEYWORDS: [&str; 8] = ["as", "class", "from", "global", "import", "in", "is", "pass"];
    match KEYWORDS.contains(&name) {
        true => format!("{name}_"),
        false => name.replace('-', "_"),
    }
}

/// `server-types` as `serverTypes`.
pub(crate) fn camel(name: &str) -> String {
    let mut words = name.split('-');
    words.next().unwrap_or_default().to_owned() + &words.map(capital).collect::<String>()
}

/// `server-types` as `ServerTypes`.
pub(crate) fn pascal(name: &str) -> String {
    name.split('-').map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The shape of one answer as JSON, and the field of the question to which a batch has one answer each.
pub(crate) fn answer(contract: &Contract, slot: &SlotContract<'_>, dialect: Dialect) -> (Value, Option<String>) {
    let item = item_of(contract, slot.answer);
    let batch = item.and_then(|_| list_of_records(contract, slot.question)).map(|name| dialect.field(&name));
    (shape(contract, item.unwrap_or(slot.answer), dialect), batch)
}

fn item_of<'c>(contract: &'c Contract, of: &'c Type) -> Option<&'c Type> {
    let Type::Id(id) = of else { return None };
    match &contract.definition(*id).kind {
        TypeDefKind::List(item) => Some(item),
        _ => None,
    }
}

/// The last field of the question that lists records: what a batch is about.
fn list_of_records(contract: &Contract, question: &Type) -> Option<String> {
    let Type::Id(id) = question else { return None };
    let TypeDefKind::Record(record) = &contract.definition(contract.original(*id)).kind else { return None };
    let is_list_of_records = |of: &Type| {
        let Some(Type::Id(item)) = item_of(contract, of) else { return false };
        matches!(contract.definition(contract.original(*item)).kind, TypeDefKind::Record(_))
    };
    record.fields.iter().rev().find(|field| is_list_of_records(&field.ty)).map(|field| field.name.clone())
}

fn shape(contract: &Contract, of: &Type, dialect: Dialect) -> Value {
    let id = match of {
        Type::Bool => return json!("boolean"),
        Type::U8 => return json!("u8"),
        Type::U16 => return json!("u16"),
        Type::U32 => return json!("u32"),
        Type::U64 => return json!("u64"),
        Type::Id(id) => contract.original(*id),
        _ => return json!("string"),
    };
    let definition = contract.definition(id);
    let within = |of: &Type| shape(contract, of, dialect);
    match &definition.kind {
        TypeDefKind::Option(inner) => json!({ "option": within(inner) }),
        TypeDefKind::List(item) => json!({ "list": within(item) }),
        TypeDefKind::Enum(cases) => {
            let words: Vec<&str> = cases.cases.iter().map(|case| case.name.as_str()).collect();
            json!({ "enum": words })
        }
        TypeDefKind::Variant(variant) => {
            let name = pascal(definition.name.as_deref().unwrap_or_default());
            let cases: Map<String, Value> = variant
                .cases
                .iter()
                .map(|case| {
                    let key = match dialect {
                        Dialect::JavaScript => case.name.clone(),
                        Dialect::Python => format!("{name}_{}", pascal(&case.name)),
                    };
                    (key, case.ty.as_ref().map_or(Value::Null, within))
                })
                .collect();
            json!({ "variant": cases })
        }
        TypeDefKind::Record(record) => {
            let fields: Map<String, Value> =
                record.fields.iter().map(|field| (dialect.field(&field.name), within(&field.ty))).collect();
            json!({ "record": fields })
        }
        TypeDefKind::Type(other) => within(other),
        // No slot has another.
        _ => Value::Null,
    }
}

/// The types of a slot for an editor: a `.d.ts` file.
pub(crate) fn typescript(slot: SlotName) -> Result<String, Error> {
    let contract = Contract::read()?;
    let parts = contract.slot(slot)?;
    let mut text = format!(
        "// The slot `{slot}`, made of the contract by `windlass policy new`. A policy returns nothing where the next \
         one is to\n// decide. Numbers of 64 bits are of the type bigint.\n"
    );
    let answered = parts.answer;
    let mut named = BTreeSet::new();
    collect(&contract, parts.question, &mut named);
    let asked = named.clone();
    collect(&contract, answered, &mut named);
    for id in named {
        // In an answer a number that is whole will do as well.
        let number = if asked.contains(&id) { "bigint" } else { "bigint | number" };
        typescript_type(&contract, id, number, &mut text);
    }
    text.push_str(
        "\n/** Lines for the host's log, while a question is being decided. */\ndeclare global \
         {\n  const console: Record<\"debug\" | \"log\" | \"info\" | \"warn\" | \"error\", (...values: unknown[]) \
         => void>;\n}\n",
    );
    Ok(text)
}

/// The named types that a type is made of.
fn collect(contract: &Contract, of: &Type, found: &mut BTreeSet<TypeId>) {
    let Type::Id(id) = of else { return };
    let id = contract.original(*id);
    let definition = contract.definition(id);
    if definition.name.is_some() && !found.insert(id) {
        return;
    }
    match &definition.kind {
        TypeDefKind::Option(inner) | TypeDefKind::List(inner) | TypeDefKind::Type(inner) => {
            collect(contract, inner, found);
        }
        TypeDefKind::Record(record) => record.fields.iter().for_each(|field| collect(contract, &field.ty, found)),
        TypeDefKind::Variant(variant) => {
            variant.cases.iter().filter_map(|case| case.ty.as_ref()).for_each(|of| collect(contract, of, found));
        }
        _ => {}
    }
}

fn comment(docs: &Docs, indent: &str) -> String {
    match in_one_line(docs).as_str() {
        "" => String::new(),
        words => format!("{indent}/** {words} */\n"),
    }
}

// Writing to a text can't fail.
fn typescript_type(contract: &Contract, id: TypeId, number: &str, text: &mut String) {
    let definition = contract.definition(id);
    let name = pascal(definition.name.as_deref().unwrap_or_default());
    let of = |of: &Type| typescript_words(contract, of, number);
    let _ = write!(text, "\n{}", comment(&definition.docs, ""));
    match &definition.kind {
        TypeDefKind::Record(record) => {
            let _ = writeln!(text, "export interface {name} {{");
            for field in &record.fields {
                text.push_str(&comment(&field.docs, "  "));
                let optional = if of(&field.ty).ends_with("| undefined") { "?" } else { "" };
                let _ = writeln!(text, "  {}{optional}: {};", camel(&field.name), of(&field.ty));
            }
            text.push_str("}\n");
        }
        TypeDefKind::Enum(cases) => {
            let _ = writeln!(text, "export type {name} =");
            for case in &cases.cases {
                text.push_str(&comment(&case.docs, "  "));
                let _ = writeln!(text, "  | {:?}", case.name);
            }
            text.insert(text.len() - 1, ';');
        }
        TypeDefKind::Variant(variant) => {
            let _ = writeln!(text, "export type {name} =");
            for case in &variant.cases {
                text.push_str(&comment(&case.docs, "  "));
                let payload = case.ty.as_ref().map(|ty| format!("; val: {}", of(ty))).unwrap_or_default();
                let _ = writeln!(text, "  | {{ tag: {:?}{payload} }}", case.name);
            }
            text.insert(text.len() - 1, ';');
        }
        TypeDefKind::Type(other) => {
            let _ = writeln!(text, "export type {name} = {};", of(other));
        }
        _ => {}
    }
}

fn typescript_words(contract: &Contract, of: &Type, number: &str) -> String {
    let id = match of {
        Type::Bool => return "boolean".into(),
        Type::U64 => return number.into(),
        Type::U8 | Type::U16 | Type::U32 => return "number".into(),
        Type::Id(id) => contract.original(*id),
        _ => return "string".into(),
    };
    let definition = contract.definition(id);
    match (&definition.name, &definition.kind) {
        // A name for a number says no more than the number does.
        (_, TypeDefKind::Type(other)) => typescript_words(contract, other, number),
        (Some(name), _) => pascal(name),
        (None, TypeDefKind::Option(inner)) => format!("{} | undefined", typescript_words(contract, inner, number)),
        (None, TypeDefKind::List(item)) => format!("Array<{}>", typescript_words(contract, item, number)),
        (None, _) => "unknown".into(),
    }
}

/// The types of a slot for an editor: a stub of the module `windlass`, from which a policy imports them.
pub(crate) fn python(slot: SlotName) -> Result<String, Error> {
    let contract = Contract::read()?;
    let parts = contract.slot(slot)?;
    let mut text = format!(
        "# The slot `{slot}`, made of the contract by `windlass policy new`. A policy returns None where the next one \
         is to decide.\nfrom dataclasses import dataclass\nfrom enum import Enum\nfrom typing import Literal, \
         Optional, Union\n"
    );
    let mut named = BTreeSet::new();
    collect(&contract, parts.question, &mut named);
    collect(&contract, parts.answer, &mut named);
    for id in named {
        python_type(&contract, id, &mut text);
    }
    text.push_str(
        "\ndef log(level: Literal[\"debug\", \"info\", \"warn\", \"error\"], message: str) -> None:\n    \"\"\"A line \
         for the host's log, while a question is being decided. `print` writes such lines, too.\"\"\"\n",
    );
    Ok(text)
}

fn python_docs(docs: &Docs, indent: &str) -> String {
    match in_one_line(docs).as_str() {
        "" => String::new(),
        words => format!("{indent}\"\"\"{words}\"\"\"\n"),
    }
}

fn python_type(contract: &Contract, id: TypeId, text: &mut String) {
    let definition = contract.definition(id);
    let name = pascal(definition.name.as_deref().unwrap_or_default());
    let of = |of: &Type| python_words(contract, of);
    match &definition.kind {
        TypeDefKind::Record(record) => {
            let _ = write!(text, "\n@dataclass\nclass {name}:\n{}", python_docs(&definition.docs, "    "));
            for field in &record.fields {
                let _ = writeln!(text, "    {}: {}", python_name(&field.name), of(&field.ty));
                text.push_str(&python_docs(&field.docs, "    "));
            }
        }
        TypeDefKind::Enum(cases) => {
            let _ = write!(text, "\nclass {name}(Enum):\n{}", python_docs(&definition.docs, "    "));
            for (number, case) in cases.cases.iter().enumerate() {
                let _ = writeln!(text, "    {} = {number}", case.name.replace('-', "_").to_uppercase());
                text.push_str(&python_docs(&case.docs, "    "));
            }
        }
        TypeDefKind::Variant(variant) => {
            let class = |case: &str| format!("{name}_{}", pascal(case));
            for case in &variant.cases {
                let payload = case.ty.as_ref().map(|ty| format!("    value: {}\n", of(ty)));
                let docs = python_docs(&case.docs, "    ");
                let pass = if payload.is_none() && docs.is_empty() { "    pass\n" } else { "" };
                let payload = payload.unwrap_or_default();
                let _ = write!(text, "\n@dataclass\nclass {}:\n{docs}{payload}{pass}", class(&case.name));
            }
            let cases: Vec<String> = variant.cases.iter().map(|case| class(&case.name)).collect();
            let _ = writeln!(text, "\n{name} = Union[{}]", cases.join(", "));
        }
        _ => {}
    }
}

fn python_words(contract: &Contract, of: &Type) -> String {
    let id = match of {
        Type::Bool => return "bool".into(),
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => return "int".into(),
        Type::Id(id) => contract.original(*id),
        _ => return "str".into(),
    };
    let definition = contract.definition(id);
    match (&definition.name, &definition.kind) {
        (_, TypeDefKind::Type(other)) => python_words(contract, other),
        (Some(name), _) => format!("\"{}\"", pascal(name)),
        (None, TypeDefKind::Option(inner)) => format!("Optional[{}]", python_words(contract, inner)),
        (None, TypeDefKind::List(item)) => format!("list[{}]", python_words(contract, item)),
        (None, _) => "object".into(),
    }
}
