//! What the component that evaluates rules tells beside its answers: `windlass:policy/rules`.

use std::sync::Arc;

use serde_json::{Map, Value};
use wasmtime::Store;
use wasmtime::component::{Component, ComponentExportIndex, ComponentType, Instance, Lift};

use super::export::{function, lacks_function};
use crate::decision_log::AppliedRule;
use crate::error::Refusal;
use crate::examine::Examination;
use crate::guest::Guest;
use crate::rules::names_in;
use crate::text::one_line;

const RULES_INTERFACE: &str = "windlass:policy/rules";

/// The functions of one component, and the names of the rules that it evaluates.
#[derive(Clone)]
pub(crate) struct RuleExports {
    applied_rules: ComponentExportIndex,
    remarks: ComponentExportIndex,
    names: Vec<Arc<str>>,
}

/// `applied` of the contract.
#[derive(ComponentType, Lift)]
#[component(record)]
struct Applied {
    rule: u32,
    items: Vec<u32>,
}

impl RuleExports {
    pub(super) fn of(
        component: &Component,
        examination: &Examination,
        settings: &Map<String, Value>,
    ) -> Result<RuleExports, Refusal> {
        let export = examination.export(RULES_INTERFACE)?;
        let find = |name| function(component, export, name).ok_or_else(|| lacks_function(export, name));
        let (applied_rules, remarks) = (find("applied-rules")?, find("remarks")?);
        Ok(RuleExports { applied_rules, remarks, names: names_in(settings) })
    }

    /// The rules that answered in the decision that an instance has just made. None where it does not tell: the answer
    /// counts all the same.
    pub(crate) fn applied(&self, store: &mut Store<Guest>, instance: &Instance) -> Vec<AppliedRule> {
        let answer = instance
            .get_typed_func::<(), (Vec<Applied>,)>(&mut *store, &self.applied_rules)
            .and_then(|function| function.call(&mut *store, ()));
        let Ok((applied,)) = answer else { return Vec::new() };
        let named = applied.into_iter().filter_map(|Applied { rule, items }| {
            let rule = self.names.get(usize::try_from(rule).ok()?)?.clone();
            Some(AppliedRule { rule, items })
        });
        named.collect()
    }

    /// What is wrong with the rules although they can be used. Each remark begins with its place.
    pub(super) fn remarks(&self, store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<Vec<String>> {
        let remarks = instance.get_typed_func::<(), (Vec<String>,)>(&mut *store, &self.remarks)?;
        let (remarks,) = remarks.call(&mut *store, ())?;
        Ok(remarks.iter().map(|remark| one_line(remark).into()).collect())
    }
}
