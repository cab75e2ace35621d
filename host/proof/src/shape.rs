//! The shapes of questions and answers, as the contract says them: read from the WIT in `wit/policy`, so that a field
//! that is added there is known here.

use std::sync::LazyLock;

use windlass_policy::slots::SlotName;
use wit_parser::{Resolve, Type, TypeDefKind};

/// The files of the contract.
const FILES: [(&str, &str); 7] = [
    ("types.wit", include_str!("../wit/types.wit")),
    ("state-mapping.wit", include_str!("../wit/state-mapping.wit")),
    ("retry.wit", include_str!("../wit/retry.wit")),
    ("rollback.wit", include_str!("../wit/rollback.wit")),
    ("release.wit", include_str!("../wit/release.wit")),
    ("provisioning.wit", include_str!("../wit/provisioning.wit")),
    ("placement.wit", include_str!("../wit/placement.wit")),
];

/// A type of the contract. Names are the contract's own, with dashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `bool`.
    Bool,
    /// An unsigned integer of so many bits.
    Number {
        /// 8, 16, 32 or 64.
        bits: u8,
    },
    /// `string`.
    Text,
    /// `option<...>`: null in JSON where it is absent.
    Option(Box<Shape>),
    /// `list<...>`.
    List(Box<Shape>),
    /// The cases of an enum.
    Enum(Vec<String>),
    /// The fields of a record, in their order.
    Record(Vec<(String, Shape)>),
    /// The cases of a variant, each with its payload.
    Variant(Vec<(String, Option<Shape>)>),
}

/// One slot's question and answer.
pub struct SlotShapes {
    /// The record that is asked.
    pub question: Shape,
    /// The record that is answered; in a batch a list of them.
    pub answer: Shape,
}

impl SlotShapes {
    /// The shapes of a slot.
    pub fn of(slot: SlotName) -> &'static SlotShapes {
        static ALL: LazyLock<Vec<SlotShapes>> = LazyLock::new(|| {
            let contract = contract();
            SlotName::ALL.into_iter().map(|slot| read(&contract, slot)).collect()
        });
        &ALL[SlotName::ALL.iter().position(|known| *known == slot).unwrap_or_default()]
    }

    /// The record of one answer: the item of the list, in a batch.
    pub fn one_answer(&self) -> &Shape {
        match &self.answer {
            Shape::List(one) => one,
            one => one,
        }
    }
}

impl Shape {
    /// The fields, where it is a record.
    pub fn fields(&self) -> &[(String, Shape)] {
        match self {
            Shape::Record(fields) => fields,
            _ => &[],
        }
    }

    /// The shape of a field, where it is a record that has it.
    pub fn field(&self, name: &str) -> Option<&Shape> {
        self.fields().iter().find(|(known, _)| known == name).map(|(_, shape)| shape)
    }

    /// What is within an option; itself where it is none.
    pub fn present(&self) -> &Shape {
        match self {
            Shape::Option(inner) => inner.present(),
            shape => shape,
        }
    }
}

fn contract() -> Resolve {
    let mut files = wit_parser::SourceMap::new();
    for (name, text) in FILES {
        files.push(std::path::Path::new(name), text);
    }
    let group = files.parse().map_err(|(_, error)| error).expect("the contract is tested to be WIT");
    let mut resolve = Resolve::default();
    resolve.push_group(group).expect("the contract is tested to be whole");
    resolve
}

fn read(contract: &Resolve, slot: SlotName) -> SlotShapes {
    let mut interfaces = contract.interfaces.iter().map(|(_, interface)| interface);
    let interface = interfaces
        .find(|interface| interface.name.as_deref() == Some(slot.as_str()))
        .expect("each slot is an interface of the contract");
    let decide = &interface.functions["decide"];
    let answer = decide.result.as_ref().expect("each slot answers");
    SlotShapes { question: shape(contract, &decide.params[0].ty), answer: shape(contract, answer) }
}

fn shape(contract: &Resolve, of: &Type) -> Shape {
    let id = match of {
        Type::Bool => return Shape::Bool,
        Type::U8 => return Shape::Number { bits: 8 },
        Type::U16 => return Shape::Number { bits: 16 },
        Type::U32 => return Shape::Number { bits: 32 },
        Type::U64 => return Shape::Number { bits: 64 },
        Type::String => return Shape::Text,
        Type::Id(id) => *id,
        other => unreachable!("no slot has a {other:?}"),
    };
    match &contract.types[id].kind {
        TypeDefKind::Type(alias) => shape(contract, alias),
        TypeDefKind::Option(inner) => Shape::Option(Box::new(shape(contract, inner))),
        TypeDefKind::List(item) => Shape::List(Box::new(shape(contract, item))),
        TypeDefKind::Enum(cases) => Shape::Enum(cases.cases.iter().map(|case| case.name.clone()).collect()),
        TypeDefKind::Record(record) => {
            Shape::Record(record.fields.iter().map(|field| (field.name.clone(), shape(contract, &field.ty))).collect())
        }
        TypeDefKind::Variant(variant) => Shape::Variant(
            variant
                .cases
                .iter()
                .map(|case| (case.name.clone(), case.ty.as_ref().map(|payload| shape(contract, payload))))
                .collect(),
        ),
        other => unreachable!("no slot has a {}", other.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_question_and_an_answer_with_a_verdict() {
        for slot in SlotName::ALL {
            let shapes = SlotShapes::of(slot);
            assert!(shapes.question.field("now").is_some(), "{slot}");
            let verdict = shapes.one_answer().field("verdict");
            assert!(matches!(verdict, Some(Shape::Variant(cases)) if cases[0].0 == "defer"), "{slot}: {verdict:?}");
        }
    }

    #[test]
    fn an_embedded_file_of_the_contract_is_never_forgotten() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/policy");
        let whole = {
            let mut resolve = Resolve::default();
            resolve.push_dir(folder).expect("the contract is WIT");
            resolve
        };
        for slot in SlotName::ALL {
            let (ours, theirs) = (SlotShapes::of(slot), read(&whole, slot));
            assert_eq!(ours.question, theirs.question, "{slot}");
            assert_eq!(ours.answer, theirs.answer, "{slot}");
        }
    }
}
