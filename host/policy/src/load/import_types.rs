//! The types of imported capabilities, held against the capability's own WIT: a mistake is reported when the policy is
//! loaded, and not by its first call.

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Type as Found};
use wit_parser::{Function, InterfaceId, Resolve, Type, TypeDefKind, TypeId};

use crate::capability::{Capability, Granted};
use crate::error::Refusal;
use crate::examine::{is_compatible, split_version};
use crate::text::{one_line, short};

/// Checks every function that the component imports of what it was granted.
pub(super) fn check(component: &Component, granted: &Granted) -> Result<(), Refusal> {
    let engine = component.engine();
    let component_type = component.component_type();
    for (import, found) in component_type.imports(engine) {
        let (name, version) = split_version(import);
        let is_meant = |capability: &dyn Capability| {
            capability.interface() == name
                && version.is_some_and(|version| is_compatible(version, capability.version()))
        };
        let Some((capability, _)) = granted.iter().find(|(capability, _)| is_meant(&**capability)) else { continue };
        let refused = |problem: String| Refusal::ImportType { import: short(import).into(), problem };
        let ComponentItem::ComponentInstance(instance) = &found.ty else {
            return Err(refused("it is no interface".into()));
        };
        let contract = Contract::of(&**capability).map_err(Refusal::Prepare)?;
        for (function, found) in instance.exports(engine) {
            contract.check(function, &found.ty).map_err(refused)?;
        }
    }
    Ok(())
}

/// What a capability's WIT says.
struct Contract {
    resolve: Resolve,
    interface: InterfaceId,
}

impl Contract {
    /// An error is a defect of the capability.
    fn of(capability: &dyn Capability) -> Result<Contract, String> {
        let name = capability.interface();
        let wrong = |problem: &str| format!("the WIT of {name} can't be read: {}", one_line(problem));
        let mut resolve = Resolve::default();
        let package = resolve.push_source(name, capability.wit()).map_err(|error| wrong(&format!("{error:#}")))?;
        let interface = name.rsplit('/').next().unwrap_or(name);
        let interface = resolve.packages[package].interfaces.get(interface).copied();
        Ok(Contract { interface: interface.ok_or_else(|| wrong("it has no such interface"))?, resolve })
    }

    fn check(&self, name: &str, found: &ComponentItem) -> Result<(), String> {
        let place = format!("`{}`", short(name));
        match (self.resolve.interfaces[self.interface].functions.get(name), found) {
            // Types that the functions use are exported beside them, and compared where they are used.
            (_, ComponentItem::Type(_)) => Ok(()),
            (Some(expected), ComponentItem::ComponentFunc(found)) => self.check_function(expected, found, &place),
            (None, ComponentItem::ComponentFunc(_)) => Err(format!("there is no function {place}")),
            (_, _) => Err(format!("{place} is neither a function nor a type")),
        }
    }

    fn check_function(&self, expected: &Function, found: &ComponentFunc, place: &str) -> Result<(), String> {
        if found.async_() {
            return Err(format!("{place} is not asynchronous"));
        }
        if found.params().len() != expected.params.len() {
            return Err(format!("{place} takes {} parameters, not {}", expected.params.len(), found.params().len()));
        }
        for (parameter, (_, found)) in expected.params.iter().zip(found.params()) {
            self.check_type(&parameter.ty, &found, &format!("{place}, parameter `{}`", parameter.name))?;
        }
        self.check_payload(expected.result.as_ref(), found.results().next().as_ref(), &format!("{place}, result"))
    }

    fn check_payload(&self, expected: Option<&Type>, found: Option<&Found>, place: &str) -> Result<(), String> {
        match (expected, found) {
            (Some(expected), Some(found)) => self.check_type(expected, found, place),
            (None, None) => Ok(()),
            (Some(expected), None) => Err(self.expected(place, expected)),
            (None, Some(_)) => Err(format!("{place}: there is none")),
        }
    }

    /// As deep as the contract is, whatever the component has there.
    fn check_type(&self, expected: &Type, found: &Found, place: &str) -> Result<(), String> {
        let same = match (expected, found) {
            (Type::Id(id), found) => return self.check_defined_type(*id, found, place),
            (Type::Bool, Found::Bool)
            | (Type::U8, Found::U8)
            | (Type::U16, Found::U16)
            | (Type::U32, Found::U32)
            | (Type::U64, Found::U64)
            | (Type::S8, Found::S8)
            | (Type::S16, Found::S16)
            | (Type::S32, Found::S32)
            | (Type::S64, Found::S64)
            | (Type::F32, Found::Float32)
            | (Type::F64, Found::Float64)
            | (Type::Char, Found::Char)
            | (Type::String, Found::String) => true,
            _ => false,
        };
        if same { Ok(()) } else { Err(self.expected(place, expected)) }
    }

    fn check_defined_type(&self, id: TypeId, found: &Found, place: &str) -> Result<(), String> {
        match (&self.resolve.types[id].kind, found) {
            (TypeDefKind::Type(alias), found) => return self.check_type(alias, found, place),
            (TypeDefKind::List(item), Found::List(list)) => {
                return self.check_type(item, &list.ty(), &format!("{place}, items"));
            }
            (TypeDefKind::Option(inner), Found::Option(option)) => return self.check_type(inner, &option.ty(), place),
            (TypeDefKind::Result(ours), Found::Result(theirs)) => {
                self.check_payload(ours.ok.as_ref(), theirs.ok().as_ref(), &format!("{place}, `ok`"))?;
                return self.check_payload(ours.err.as_ref(), theirs.err().as_ref(), &format!("{place}, `err`"));
            }
            (TypeDefKind::Tuple(ours), Found::Tuple(theirs)) if ours.types.len() == theirs.types().len() => {
                for (index, (ours, theirs)) in ours.types.iter().zip(theirs.types()).enumerate() {
                    self.check_type(ours, &theirs, &format!("{place}, member {index}"))?;
                }
                return Ok(());
            }
            (TypeDefKind::Record(ours), Found::Record(theirs))
                if same_names(
                    ours.fields.iter().map(|field| field.name.as_str()),
                    theirs.fields().map(|field| field.name),
                ) =>
            {
                for (ours, theirs) in ours.fields.iter().zip(theirs.fields()) {
                    self.check_type(&ours.ty, &theirs.ty, &format!("{place}, field `{}`", ours.name))?;
                }
                return Ok(());
            }
            (TypeDefKind::Variant(ours), Found::Variant(theirs))
                if same_names(
                    ours.cases.iter().map(|case| case.name.as_str()),
                    theirs.cases().map(|case| case.name),
                ) =>
            {
                for (ours, theirs) in ours.cases.iter().zip(theirs.cases()) {
                    let place = format!("{place}, case `{}`", ours.name);
                    self.check_payload(ours.ty.as_ref(), theirs.ty.as_ref(), &place)?;
                }
                return Ok(());
            }
            (TypeDefKind::Enum(ours), Found::Enum(theirs))
                if same_names(ours.cases.iter().map(|case| case.name.as_str()), theirs.names()) =>
            {
                return Ok(());
            }
            (TypeDefKind::Flags(ours), Found::Flags(theirs))
                if same_names(ours.flags.iter().map(|flag| flag.name.as_str()), theirs.names()) =>
            {
                return Ok(());
            }
            _ => {}
        }
        Err(self.expected(place, &Type::Id(id)))
    }

    fn expected(&self, place: &str, expected: &Type) -> String {
        let words = match expected {
            Type::Id(id) => {
                let defined = &self.resolve.types[*id];
                match &defined.name {
                    Some(name) => format!("the {} `{name}`", defined.kind.as_str()),
                    None => format!("a {}", defined.kind.as_str()),
                }
            }
            // `String` is `string` in WIT, `U32` is `u32`.
            primitive => format!("{primitive:?}").to_lowercase(),
        };
        format!("{place}: expected {words}")
    }
}

/// Names count with their order.
fn same_names<'a, 'b>(ours: impl Iterator<Item = &'a str>, theirs: impl Iterator<Item = &'b str>) -> bool {
    ours.eq(theirs)
}
