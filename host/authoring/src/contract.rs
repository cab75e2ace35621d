//! The package `windlass:policy` as it stands in `wit/policy`, with its words.

use windlass_policy::slots::SlotName;
use wit_parser::{Interface, Resolve, SourceMap, Type, TypeDef, TypeDefKind, TypeId};

use crate::{Error, packed};

pub(crate) struct Contract {
    resolve: Resolve,
}

/// One slot of it.
pub(crate) struct SlotContract<'c> {
    pub(crate) interface: &'c Interface,
    pub(crate) question: &'c Type,
    /// In a batch a list.
    pub(crate) answer: &'c Type,
}

impl Contract {
    pub(crate) fn read() -> Result<Contract, Error> {
        let mut files = SourceMap::new();
        for (name, text) in packed::CONTRACT {
            files.push_str(name, *text);
        }
        let group = files.parse().map_err(|(_, error)| Error::Contract(error.to_string()))?;
        let mut resolve = Resolve::default();
        resolve.push_group(group).map_err(|error| Error::Contract(error.to_string()))?;
        Ok(Contract { resolve })
    }

    pub(crate) fn interface(&self, name: &str) -> Result<&Interface, Error> {
        let mut interfaces = self.resolve.interfaces.iter().map(|(_, interface)| interface);
        let found = interfaces.find(|interface| interface.name.as_deref() == Some(name));
        found.ok_or_else(|| Error::Contract(format!("it has no interface {name}")))
    }

    pub(crate) fn slot(&self, slot: SlotName) -> Result<SlotContract<'_>, Error> {
        let interface = self.interface(slot.as_str())?;
        let lacks = |what: &str| Error::Contract(format!("{slot} has no {what}"));
        let decide = interface.functions.get("decide").ok_or_else(|| lacks("function `decide`"))?;
        let question = &decide.params.first().ok_or_else(|| lacks("question"))?.ty;
        let answer = decide.result.as_ref().ok_or_else(|| lacks("answer"))?;
        Ok(SlotContract { interface, question, answer })
    }

    pub(crate) fn definition(&self, id: TypeId) -> &TypeDef {
        &self.resolve.types[id]
    }

    /// What a name stands for that was taken over from another interface by `use`; any other type itself.
    pub(crate) fn original(&self, id: TypeId) -> TypeId {
        let definition = self.definition(id);
        match definition.kind {
            TypeDefKind::Type(Type::Id(other)) if self.definition(other).name == definition.name => {
                self.original(other)
            }
            _ => id,
        }
    }
}

/// Words of the contract in one line.
pub(crate) fn in_one_line(docs: &wit_parser::Docs) -> String {
    docs.contents.as_deref().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}
