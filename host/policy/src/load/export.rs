//! What a component exports, and the errors when an export is missing, has another type, or fails.

use wasmtime::component::{Component, ComponentExportIndex};

use crate::error::Refusal;
use crate::guest::{Failure, Guest};
use crate::limits::Limits;
use crate::text::one_line;

/// The index of a function of an exported instance.
pub(super) fn function(component: &Component, instance: &str, function: &str) -> Option<ComponentExportIndex> {
    let instance = component.get_export_index(None, instance)?;
    component.get_export_index(Some(&instance), function)
}

pub(super) fn lacks_function(instance: &str, function: &str) -> Refusal {
    wrong_type(instance, function, &wasmtime::format_err!("there is no such function"))
}

pub(super) fn wrong_type(instance: &str, function: &str, error: &wasmtime::Error) -> Refusal {
    Refusal::WrongType { export: format!("{instance}#{function}"), problem: one_line(&format!("{error:#}")).into() }
}

/// A function of the policy that ended badly, with its last words.
pub(super) fn failed(function: &'static str, error: &wasmtime::Error, guest: &Guest, limits: &Limits) -> Refusal {
    Refusal::Failed { function, problem: Failure::of_guest(error, limits, guest).reason }
}
