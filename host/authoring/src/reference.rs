//! The slots as a page: docs/slots.md.

use std::fmt::Write as _;

use windlass_policy::slots::{CONTRACT_VERSION, SlotName};
use wit_parser::{Docs, Interface, Type, TypeDefKind};

use crate::Error;
use crate::contract::{Contract, in_one_line};

/// The reference of all slots, in Markdown, made of the WIT.
///
/// # Errors
/// The contract in this program can't be read, which is a defect.
pub fn reference() -> Result<String, Error> {
    let contract = Contract::read()?;
    let mut page = format!(
        "# The slots\n\n\
         What a policy is asked and what it may answer, slot by slot: version {CONTRACT_VERSION} of the contract.\n\
         This page is made of [`wit/policy`](../wit/policy) by `just reference`. In JSON, fields and cases have these\n\
         names; a case without payload is a text, one with payload an object with one key; what is absent is null or\n\
         left out. `windlass policy schema --slot SLOT` says the same as a JSON Schema.\n\n"
    );
    for slot in SlotName::ALL {
        let _ = writeln!(page, "* [{slot}](#{slot})");
    }
    page.push_str("* [what they share](#what-they-share)\n\n");
    for slot in SlotName::ALL {
        let parts = contract.slot(slot)?;
        let _ = writeln!(page, "## {slot}\n\n{}", paragraphs(without_slot(&parts.interface.docs, slot)));
        types(&contract, parts.interface, &mut page);
        let example = serde_json::to_string_pretty(&slot.example_question()).unwrap_or_default();
        let _ =
            writeln!(page, "The example question, to which a fixture says its changes:\n\n```json\n{example}\n```\n");
    }
    let shared = contract.interface("types")?;
    let _ = writeln!(page, "## What they share\n\n{}", paragraphs(shared.docs.contents.as_deref().unwrap_or_default()));
    types(&contract, shared, &mut page);
    Ok(page.trim_end().to_owned() + "\n")
}

/// The words of a slot begin with its name, which is the heading here.
fn without_slot(docs: &Docs, slot: SlotName) -> &str {
    let words = docs.contents.as_deref().unwrap_or_default();
    words.strip_prefix(&format!("Slot `{slot}`: ")).unwrap_or(words)
}

/// Words with their own line breaks; the first letter is a capital.
fn paragraphs(words: &str) -> String {
    let words = words.trim();
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().collect::<String>() + letters.as_str() + "\n",
        None => String::new(),
    }
}

/// The types of an interface, each with a table of its fields or cases: what is asked and answered first. What the
/// interface takes over from another stands there.
fn types(contract: &Contract, interface: &Interface, page: &mut String) {
    const FIRST: [&str; 3] = ["question", "answer", "verdict"];
    let mut types: Vec<_> = interface.types.iter().collect();
    types.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    for (name, id) in types {
        if contract.original(*id) != *id {
            continue;
        }
        let definition = contract.definition(*id);
        // Writing to a text can't fail.
        let _ = writeln!(page, "### {name}\n");
        if let Some(words) = &definition.docs.contents {
            let _ = writeln!(page, "{}", paragraphs(words));
        }
        match &definition.kind {
            TypeDefKind::Record(record) => {
                page.push_str("| field | type | |\n|---|---|---|\n");
                for field in &record.fields {
                    let of = type_words(contract, &field.ty);
                    let _ = writeln!(page, "| `{}` | `{of}` | {} |", field.name, in_one_line(&field.docs));
                }
            }
            TypeDefKind::Enum(cases) => {
                page.push_str("| case | |\n|---|---|\n");
                for case in &cases.cases {
                    let _ = writeln!(page, "| `{}` | {} |", case.name, in_one_line(&case.docs));
                }
            }
            TypeDefKind::Variant(variant) => {
                page.push_str("| case | payload | |\n|---|---|---|\n");
                for case in &variant.cases {
                    let payload = case.ty.as_ref().map(|of| format!("`{}`", type_words(contract, of)));
                    let payload = payload.unwrap_or_default();
                    let _ = writeln!(page, "| `{}` | {payload} | {} |", case.name, in_one_line(&case.docs));
                }
            }
            TypeDefKind::Type(of) => {
                let _ = writeln!(page, "It is a `{}`.", type_words(contract, of));
            }
            _ => {}
        }
        page.push('\n');
    }
}

/// A type as the WIT writes it.
fn type_words(contract: &Contract, of: &Type) -> String {
    let id = match of {
        Type::Bool => return "bool".into(),
        Type::U8 => return "u8".into(),
        Type::U16 => return "u16".into(),
        Type::U32 => return "u32".into(),
        Type::U64 => return "u64".into(),
        Type::String => return "string".into(),
        Type::Id(id) => *id,
        // No slot has another.
        other => return format!("{other:?}"),
    };
    let definition = contract.definition(id);
    match (&definition.name, &definition.kind) {
        (Some(name), _) => name.clone(),
        (None, TypeDefKind::Option(inner)) => format!("option<{}>", type_words(contract, inner)),
        (None, TypeDefKind::List(item)) => format!("list<{}>", type_words(contract, item)),
        (None, other) => other.as_str().into(),
    }
}
