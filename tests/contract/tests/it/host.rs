//! The types of questions and answers on the host's side: `host/policy/src/bindings`.

use std::fmt::Write as _;

use windlass_test_contract::{Contract, INTERFACES, camel, comment, hold, snake};
use wit_parser::{Interface, Type, TypeDefKind, TypeId};

const DERIVES: &str = "Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize";

/// The types of one interface.
struct Writer<'c> {
    contract: &'c Contract,
    text: String,
}

impl Writer<'_> {
    fn interface(&mut self, interface: &Interface) {
        let mut taken_over = Vec::new();
        for (name, id) in &interface.types {
            match self.contract.resolve.types[*id].kind {
                TypeDefKind::Type(Type::Id(other)) if self.contract.owner(other) != interface.name.as_deref() => {
                    taken_over.push(camel(name));
                }
                _ => self.definition(name, *id),
            }
        }
        if !taken_over.is_empty() {
            taken_over.sort();
            let line = format!("\nuse super::types::{{{}}};\n", taken_over.join(", "));
            self.text.insert_str(self.text.find("\n\n").map_or(0, |end| end + 1), &line);
        }
    }

    fn definition(&mut self, name: &str, id: TypeId) {
        let definition = &self.contract.resolve.types[id];
        let name = camel(name);
        self.text.push('\n');
        comment(&mut self.text, "///", &definition.docs);
        match &definition.kind {
            TypeDefKind::Type(other) => {
                let _ = writeln!(self.text, "pub type {name} = {};", self.rust(other));
            }
            // Generic in its verdict, so that what is true of all answers is written once.
            TypeDefKind::Record(record) if name == "Answer" => {
                let fields: Vec<&str> = record.fields.iter().map(|field| field.name.as_str()).collect();
                assert_eq!(fields, ["verdict", "reason"], "slots::Answer has these fields");
                self.text.push_str("pub type Answer = crate::slots::Answer<Verdict>;\n");
            }
            TypeDefKind::Record(record) => {
                self.begin("record", id, ", deny_unknown_fields");
                let _ = writeln!(self.text, "pub struct {name} {{");
                for field in &record.fields {
                    comment(&mut self.text, "    ///", &field.docs);
                    let rust = snake(&field.name);
                    if rust != field.name {
                        let _ = writeln!(self.text, "    #[component(name = \"{}\")]", field.name);
                    }
                    let _ = writeln!(self.text, "    pub {rust}: {},", self.rust(&field.ty));
                }
                self.text.push_str("}\n");
            }
            TypeDefKind::Enum(cases) => {
                self.begin("enum", id, "");
                let _ = writeln!(self.text, "pub enum {name} {{");
                for case in &cases.cases {
                    comment(&mut self.text, "    ///", &case.docs);
                    let _ =
                        writeln!(self.text, "    #[component(name = \"{}\")]\n    {},", case.name, camel(&case.name));
                }
                self.text.push_str("}\n");
            }
            TypeDefKind::Variant(variant) => {
                self.begin("variant", id, "");
                let _ = writeln!(self.text, "pub enum {name} {{");
                for case in &variant.cases {
                    comment(&mut self.text, "    ///", &case.docs);
                    let payload = case.ty.as_ref().map(|of| format!("({})", self.rust(of))).unwrap_or_default();
                    let rust = camel(&case.name);
                    let _ = writeln!(self.text, "    #[component(name = \"{}\")]\n    {rust}{payload},", case.name);
                }
                self.text.push_str("}\n");
            }
            other => panic!("{} has no type on the host's side yet", other.as_str()),
        }
    }

    fn begin(&mut self, component: &str, id: TypeId, serde: &str) {
        let copy = if self.owns_nothing(&Type::Id(id)) { "Copy, " } else { "" };
        let (hash, number) = match component {
            "enum" => ("Hash, ", "#[repr(u8)]\n"),
            _ => ("", ""),
        };
        let _ = write!(
            self.text,
            "#[derive(Clone, {copy}{hash}{DERIVES})]\n#[component({component})]\n{number}#[serde(rename_all = \
             \"kebab-case\"{serde})]\n"
        );
    }

    fn owns_nothing(&self, of: &Type) -> bool {
        match self.contract.original(of) {
            Type::String => false,
            Type::Id(id) => match &self.contract.resolve.types[id].kind {
                TypeDefKind::Record(record) => record.fields.iter().all(|field| self.owns_nothing(&field.ty)),
                TypeDefKind::Variant(variant) => {
                    variant.cases.iter().filter_map(|case| case.ty.as_ref()).all(|of| self.owns_nothing(of))
                }
                TypeDefKind::Option(inner) => self.owns_nothing(inner),
                TypeDefKind::Enum(_) => true,
                _ => false,
            },
            _ => true,
        }
    }

    fn rust(&self, of: &Type) -> String {
        let id = match of {
            Type::Bool => return "bool".into(),
            Type::U16 => return "u16".into(),
            Type::U32 => return "u32".into(),
            Type::U64 => return "u64".into(),
            Type::String => return "String".into(),
            Type::Id(id) => *id,
            other => panic!("{other:?} has no type on the host's side yet"),
        };
        let definition = &self.contract.resolve.types[id];
        match (&definition.name, &definition.kind) {
            (Some(name), _) => camel(name),
            (None, TypeDefKind::Option(inner)) => format!("Option<{}>", self.rust(inner)),
            (None, TypeDefKind::List(item)) => format!("Vec<{}>", self.rust(item)),
            (None, other) => panic!("{} has no type on the host's side yet", other.as_str()),
        }
    }
}

#[test]
fn the_types_on_the_hosts_side_are_those_of_the_contract() {
    let contract = Contract::read();
    for name in INTERFACES {
        let text = format!(
            "//! `windlass:policy/{name}`, made of the contract in wit/ by `just bindings`.\n\
             use serde::{{Deserialize, Serialize}};\nuse wasmtime::component::{{ComponentType, Lift, Lower}};\n"
        );
        let mut writer = Writer { contract: &contract, text };
        writer.interface(contract.interface(name));
        hold(&format!("host/policy/src/bindings/{}.rs", snake(name)), &writer.text);
    }
}
