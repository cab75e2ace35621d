//! What a component exports, and how it is told when that is missing, of another type, or ends badly.

use wasmtime::component::{Component, ComponentExportIndex};

use crate::error::Refusal;
use crate::examine::{Examination, POLICY_INTERFACE};
use crate::guest::{Failure, Guest};
use crate::limits::Limits;
use crate::text::one_line;

/// The index of a function of an exported instance.
pub(super) fn function(component: &Component, instance: &str, function: &str) -> Option<ComponentExportIndex> {
    let instance = component.get_export_index(None, instance)?;
    component.get_export_index(Some(&instance), function)
}

pub(super) fn lacks_function(instance: &str, function: &str, version: &'static str) -> Refusal {
    wrong_type(instance, function, version, &wasmtime::format_err!("there is no such function"))
}

pub(super) fn wrong_type(instance: &str, function: &str, version: &'static str, error: &wasmtime::Error) -> Refusal {
    Refusal::WrongType {
        export: format!("{instance}#{function}"),
        version,
        problem: one_line(&format!("{error:#}")).into(),
    }
}

/// A function of the policy that ended badly, with its last words.
pub(super) fn failed(function: &'static str, error: &wasmtime::Error, guest: &Guest, limits: &Limits) -> Refusal {
    Refusal::Failed { function, problem: Failure::of_guest(error, limits, guest).reason }
}

/// The interface by which a policy describes itself and takes its settings.
pub(super) struct PolicyExport<'a> {
    /// Its name with the version that the component has.
    pub(super) name: &'a str,
    /// The version of the contract that it is of.
    pub(super) version: &'static str,
}

impl<'a> PolicyExport<'a> {
    pub(super) fn of(examination: &'a Examination, version: &'static str) -> Result<PolicyExport<'a>, Refusal> {
        Ok(PolicyExport { name: examination.export(POLICY_INTERFACE, version)?, version })
    }
}
