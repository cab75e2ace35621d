//! What is undone, and in which order: what depends on what on Scaleway. Rules (guest/rules) plan with this file as well,
//! so that all that they have to say is what is kept.

use windlass_guest_sdk::prelude::*;

use rollback::{Action, Evidence, Plan, Question, Resource};

/// What was said about one resource before its plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "the default says nothing; rules do")]
pub(crate) enum Said {
    /// Nothing: it is undone, or kept where it must be.
    Nothing,
    /// It stays on purpose; with a server stays what is attached to it, unless that is to be deleted.
    Keep,
    /// It goes, unless it must be kept.
    Delete,
}

/// A plan, and what of ours it keeps although nobody said so.
#[derive(Debug)]
#[allow(dead_code, reason = "rules give reasons of their own")]
pub(crate) struct Undoing {
    pub(crate) steps: Plan,
    pub(crate) kept_hosts: u32,
    pub(crate) kept_unknown: u32,
}

/// Undoes everything but what is said to be kept. `said` has a word for each resource; what it lacks is `Nothing`.
pub(crate) fn undo(question: &Question, said: &[Said]) -> Undoing {
    let resources = &question.resources;
    let said = |position: usize| said.get(position).copied().unwrap_or(Said::Nothing);
    let goes_first = |position: usize, resource: &Resource| is_ours_to_end(resource) && said(position) != Said::Keep;
    let mut plan = Plan::new();

    // Servers first: what is attached to them can be deleted only when it no longer is.
    let gone: Vec<Option<u32>> = resources
        .iter()
        .enumerate()
        .map(|(position, resource)| goes_first(position, resource).then(|| plan.delete(position, &[])))
        .collect();
    let all_gone: Vec<u32> = gone.iter().copied().flatten().collect();

    let (mut kept_hosts, mut kept_unknown) = (0, 0);
    for (position, resource) in resources.iter().enumerate() {
        if goes_first(position, resource) {
            continue;
        }
        let holder = resource.attached_to.map(|server| server as usize);
        let held_by_unknown = holder.and_then(|holder| resources.get(holder)).is_some_and(is_ours_and_unknown);
        let held_by_kept = holder.is_some_and(|holder| said(holder) == Said::Keep);
        match resource.kind {
            _ if said(position) == Said::Keep => {
                plan.keep(position);
            }
            ResourceKind::AppleSiliconServer => {
                kept_hosts += u32::from(resource.owned);
                plan.keep(position);
            }
            _ if !resource.owned => {
                plan.keep(position);
            }
            _ if is_ours_and_unknown(resource) || held_by_unknown => {
                kept_unknown += 1;
                plan.keep(position);
            }
            _ if held_by_kept && said(position) == Said::Nothing => {
                plan.keep(position);
            }
            _ => {
                match holder.and_then(|holder| gone.get(holder).copied()) {
                    // Attached to a server that goes: after it.
                    Some(Some(server_gone)) => plan.delete(position, &[server_gone]),
                    // Attached to a server that stays, which isn't ours to end: it is taken off it first.
                    Some(None) => {
                        let detached = plan.step(position, Action::Detach, &[]);
                        plan.delete(position, &[detached])
                    }
                    // Found loose, perhaps only because the answer that told of its server was lost: after all
                    // servers.
                    None => plan.delete(position, &all_gone),
                };
            }
        }
    }
    Undoing { steps: plan, kept_hosts, kept_unknown }
}

/// A server that is deleted.
fn is_ours_to_end(resource: &Resource) -> bool {
    resource.kind == ResourceKind::Server && resource.owned && !is_ours_and_unknown(resource)
}

/// Of a kind, or found in a way, that a later version of the contract has a word for.
fn is_ours_and_unknown(resource: &Resource) -> bool {
    resource.owned && (resource.kind == ResourceKind::Other || resource.evidence == Evidence::Other)
}
