//! The messages of the policy server, `host/serve/proto/windlass/policy/v1/slots.proto`, and their conversions,
//! `host/serve/src/bindings/slots.rs`.

use std::fmt::Write as _;

use windlass_test_contract::{Contract, INTERFACES, camel, comment, hold, shout, snake};
use wit_parser::{Docs, Interface, Type, TypeDefKind, TypeId};

/// What a field or a payload is on the wire.
enum Wire {
    /// `uint64`, `string`, `bool`, ... An enum is one as well.
    Scalar(String),
    /// A message: in Rust an option, since protobuf lets it be absent.
    Message(String),
}

impl Wire {
    fn name(&self) -> &str {
        match self {
            Wire::Scalar(name) | Wire::Message(name) => name,
        }
    }
}

struct Writer<'c> {
    contract: &'c Contract,
    proto: String,
    conversions: String,
}

impl Writer<'_> {
    /// The name of a type's message: `RetryQuestion`. What all slots share has no prefix: `Failure`.
    fn message(&self, id: TypeId) -> String {
        let prefix = match self.contract.owner(id) {
            None | Some("types") => String::new(),
            Some(interface) => camel(interface),
        };
        prefix + &camel(self.contract.name(id))
    }

    fn wire(&self, kind: &Type) -> Wire {
        match self.contract.original(kind) {
            Type::Bool => Wire::Scalar("bool".into()),
            Type::U16 | Type::U32 => Wire::Scalar("uint32".into()),
            Type::U64 => Wire::Scalar("uint64".into()),
            Type::String => Wire::Scalar("string".into()),
            Type::Id(id) => match self.contract.resolve.types[id].kind {
                TypeDefKind::Enum(_) => Wire::Scalar(self.message(id)),
                TypeDefKind::Record(_) | TypeDefKind::Variant(_) => Wire::Message(self.message(id)),
                ref other => panic!("{} has no form on the wire yet", other.as_str()),
            },
            other => panic!("{other:?} has no form on the wire yet"),
        }
    }

    /// The kind of a list's or an option's content.
    fn inside(&self, kind: &Type) -> Option<(&'static str, Type)> {
        match self.contract.kind(kind)? {
            TypeDefKind::List(item) => Some(("repeated ", *item)),
            TypeDefKind::Option(some) => Some(("optional ", *some)),
            _ => None,
        }
    }

    fn interface(&mut self, interface: &Interface) {
        let module = interface.name.as_deref().map(snake).unwrap_or_default();
        for id in interface.types.values() {
            let definition = &self.contract.resolve.types[*id];
            let host = format!("{module}::{}", camel(definition.name.as_deref().unwrap_or_default()));
            let message = self.message(*id);
            let about = &definition.docs;
            match &definition.kind {
                TypeDefKind::Record(record) => {
                    let mut fields = Vec::new();
                    self.begin(about, "message", &message);
                    for (number, field) in (1..).zip(&record.fields) {
                        let (label, kind) = self.inside(&field.ty).unwrap_or(("", field.ty));
                        let wire = self.wire(&kind);
                        let name = snake(&field.name);
                        fields.push(match (&wire, label) {
                            (Wire::Message(_), "") => format!("{name}: required"),
                            _ => format!("{name}: given"),
                        });
                        comment(&mut self.proto, "  //", &field.docs);
                        let _ = writeln!(self.proto, "  {label}{} {name} = {number};", wire.name());
                    }
                    self.proto.push_str("}\n");
                    self.convert("record", &host, &message, &fields);
                }
                TypeDefKind::Enum(cases) => {
                    self.begin(about, "enum", &message);
                    let constant = |name: &str| format!("{}_{}", words(&message).to_uppercase(), shout(name));
                    let _ = writeln!(self.proto, "  {} = 0;", constant("unspecified"));
                    let mut names = Vec::new();
                    for (number, case) in (1..).zip(&cases.cases) {
                        comment(&mut self.proto, "  //", &case.docs);
                        let _ = writeln!(self.proto, "  {} = {number};", constant(&case.name));
                        names.push(camel(&case.name));
                    }
                    self.proto.push_str("}\n");
                    let growing = names.iter().any(|name| name == "Other");
                    self.convert(if growing { "growing_enumeration" } else { "enumeration" }, &host, &message, &names);
                }
                TypeDefKind::Variant(variant) => {
                    let mut lists = Vec::new();
                    let mut cases = Vec::new();
                    self.begin(about, "message", &message);
                    let _ = writeln!(self.proto, "  oneof {} {{", definition.name.as_deref().unwrap_or_default());
                    for (number, case) in (1..).zip(&variant.cases) {
                        let camel = camel(&case.name);
                        let wire = match &case.ty {
                            None => {
                                cases.push(camel);
                                "google.protobuf.Empty".to_owned()
                            }
                            Some(payload) => match self.inside(payload) {
                                None => {
                                    cases.push(format!("{camel}(_)"));
                                    self.wire(payload).name().to_owned()
                                }
                                Some((label, item)) => {
                                    assert_eq!(label, "repeated ", "an optional payload has no form on the wire yet");
                                    let list = format!("{message}{camel}");
                                    cases.push(format!("{camel}[{list}]"));
                                    lists.push((list.clone(), self.wire(&item).name().to_owned()));
                                    list
                                }
                            },
                        };
                        comment(&mut self.proto, "    //", &case.docs);
                        let _ = writeln!(self.proto, "    {wire} {} = {number};", snake(&case.name));
                    }
                    self.proto.push_str("  }\n}\n");
                    for (list, item) in lists {
                        let _ = writeln!(self.proto, "\nmessage {list} {{\n  repeated {item} items = 1;\n}}");
                    }
                    let module = words(&message);
                    self.convert("variant", &host, &format!("{message}, {module}"), &cases);
                }
                TypeDefKind::Type(_) => {}
                other => panic!("{} has no form on the wire yet", other.as_str()),
            }
        }
    }

    fn begin(&mut self, about: &Docs, word: &str, name: &str) {
        self.proto.push('\n');
        comment(&mut self.proto, "//", about);
        let _ = writeln!(self.proto, "{word} {name} {{");
    }

    fn convert(&mut self, word: &str, host: &str, message: &str, parts: &[String]) {
        let _ = writeln!(self.conversions, "{word}!({host} = {message} {{");
        for part in parts {
            let _ = writeln!(self.conversions, "    {part},");
        }
        self.conversions.push_str("});\n");
    }
}

/// `retry_verdict` of `RetryVerdict`.
fn words(message: &str) -> String {
    let mut text = String::new();
    for (position, letter) in message.char_indices() {
        if letter.is_uppercase() && position > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

#[test]
fn the_messages_and_their_conversions_are_those_of_the_contract() {
    let contract = Contract::read();
    let mut writer = Writer {
        contract: &contract,
        proto: "// The questions and answers of each slot, made of the contract in wit/ by `just bindings`.\n\
                syntax = \"proto3\";\n\npackage windlass.policy.v1;\n\nimport \"google/protobuf/empty.proto\";\n\n\
                option go_package = \"github.com/windlass-dev/windlass/clients/go/policyv1\";\n"
            .into(),
        conversions:
            "//! Between the contract's types and their messages, made of the contract in wit/ by `just bindings`.\n\n\
                      use windlass_policy::slots::{placement, provisioning, release, retry, rollback, state_mapping, \
                      types};\n\nuse crate::wire::{enumeration, growing_enumeration, record, variant};\n\n"
                .into(),
    };
    for name in INTERFACES {
        writer.interface(contract.interface(name));
    }
    hold("host/serve/proto/windlass/policy/v1/slots.proto", &writer.proto);
    hold("host/serve/src/bindings/slots.rs", &writer.conversions);
}
