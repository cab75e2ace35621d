//! The shapes of questions and answers, `host/contract/src/bindings/shapes.rs`, and how rules find values of these
//! shapes in the SDK's types, `guest/rules/src/bindings/nodes.rs`.

use std::fmt::Write as _;

use windlass_test_contract::{Contract, INTERFACES, camel, hold, shout, snake};
use wit_parser::{Type, TypeDefKind, TypeId};

impl Shapes<'_> {
    /// A shape as a constant says it. Types with names stand for themselves.
    fn of(&self, of: &Type) -> String {
        let id = match self.contract.original(of) {
            Type::Bool => return "Shape::Bool".into(),
            Type::U16 => return "Shape::Number { bits: 16 }".into(),
            Type::U32 => return "Shape::Number { bits: 32 }".into(),
            Type::U64 => return "Shape::Number { bits: 64 }".into(),
            Type::String => return "Shape::Text".into(),
            Type::Id(id) => id,
            other => panic!("{other:?} has no shape yet"),
        };
        match &self.contract.resolve.types[id].kind {
            TypeDefKind::Option(inner) => format!("Shape::Option(&{})", self.of(inner)),
            TypeDefKind::List(item) => format!("Shape::List(&{})", self.of(item)),
            _ => self.name(id),
        }
    }

    /// `RETRY_QUESTION`; what all slots share has no prefix: `FAILURE`.
    fn name(&self, id: TypeId) -> String {
        match self.contract.owner(id) {
            None | Some("types") => shout(self.contract.name(id)),
            Some(interface) => format!("{}_{}", shout(interface), shout(self.contract.name(id))),
        }
    }
}

struct Shapes<'c> {
    contract: &'c Contract,
}

#[test]
fn the_shapes_are_those_of_the_contract() {
    let contract = Contract::read();
    let shapes = Shapes { contract: &contract };
    let mut text = String::from(
        "//! The shapes of questions and answers, made of the contract in wit/ by `just bindings`.\n\n\
         use crate::shape::{Shape, SlotShapes};\n",
    );
    let mut slots = String::new();
    for interface in INTERFACES.map(|name| contract.interface(name)) {
        for id in interface.types.values() {
            let definition = match &contract.resolve.types[*id].kind {
                TypeDefKind::Type(_) => continue,
                TypeDefKind::Enum(cases) => {
                    let words = cases.cases.iter().map(|case| format!("    \"{}\",\n", case.name));
                    format!("Shape::Enum(&[\n{}])", words.collect::<String>())
                }
                TypeDefKind::Record(record) => {
                    let fields =
                        record.fields.iter().map(|it| format!("    (\"{}\", {}),\n", it.name, shapes.of(&it.ty)));
                    format!("Shape::Record(&[\n{}])", fields.collect::<String>())
                }
                TypeDefKind::Variant(variant) => {
                    let cases = variant.cases.iter().map(|case| {
                        let payload = case.ty.as_ref().map(|of| format!("Some({})", shapes.of(of)));
                        format!("    (\"{}\", {}),\n", case.name, payload.unwrap_or_else(|| "None".into()))
                    });
                    format!("Shape::Variant(&[\n{}])", cases.collect::<String>())
                }
                other => panic!("{} has no shape yet", other.as_str()),
            };
            let _ = writeln!(text, "\npub const {}: Shape = {definition};", shapes.name(*id));
        }
        if let (Some(name), Some(decide)) = (&interface.name, interface.functions.get("decide")) {
            let question = shapes.of(&decide.params[0].ty);
            let answer = shapes.of(&decide.result.expect("each slot answers"));
            let slot = shout(name);
            let _ = writeln!(
                text,
                "\npub const {slot}: SlotShapes = SlotShapes {{ question: {question}, answer: {answer} }};"
            );
            let _ = writeln!(slots, "    (\"{name}\", {slot}),");
        }
    }
    let count = slots.lines().count();
    let _ = writeln!(
        text,
        "\n/// By the names of the slots.\npub(crate) const SLOTS: [(&str, SlotShapes); {count}] = [\n{slots}];"
    );
    hold("host/contract/src/bindings/shapes.rs", &text);
}

/// The records and enums that a type is made of, those within others first.
fn collect(contract: &Contract, of: &Type, found: &mut Vec<TypeId>) {
    let Type::Id(id) = contract.original(of) else { return };
    if found.contains(&id) {
        return;
    }
    match &contract.resolve.types[id].kind {
        TypeDefKind::Option(inner) | TypeDefKind::List(inner) => collect(contract, inner, found),
        TypeDefKind::Record(record) => {
            record.fields.iter().for_each(|field| collect(contract, &field.ty, found));
            found.push(id);
        }
        _ => found.push(id),
    }
}

#[test]
fn rules_find_every_field_of_a_question() {
    let contract = Contract::read();
    let shapes = Shapes { contract: &contract };
    let mut found = Vec::new();
    for interface in INTERFACES.map(|name| contract.interface(name)) {
        if let Some(decide) = interface.functions.get("decide") {
            collect(&contract, &decide.params[0].ty, &mut found);
        }
    }
    let mut text = String::from(
        "//! How rules find the values of a question, made of the contract in wit/ by `just bindings`.\n\n\
         use windlass_guest_sdk::{placement, provisioning, release, retry, rollback, state_mapping, types};\n\n\
         use crate::contract::{cases, record};\n\n",
    );
    for id in found {
        let module = snake(contract.owner(id).unwrap_or_default());
        let of = format!("{module}::{}, {}", camel(contract.name(id)), shapes.name(id));
        let _ = match &contract.resolve.types[id].kind {
            TypeDefKind::Enum(_) => writeln!(text, "cases!({of});"),
            TypeDefKind::Record(record) => {
                let fields = record.fields.iter().map(|field| format!("    {},\n", snake(&field.name)));
                writeln!(text, "record!({of}, {{\n{}}});", fields.collect::<String>())
            }
            other => panic!("{} is no value of a rule yet", other.as_str()),
        };
    }
    hold("guest/rules/src/bindings/nodes.rs", &text);
}
