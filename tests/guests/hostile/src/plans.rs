//! Plans that a host must not run.

use windlass_guest_sdk::prelude::*;

use rollback::{Action, Resource, Step};

use crate::Behaviour;

/// The plan of that behaviour; none where it is not about plans.
pub(crate) fn plan(behaviour: Behaviour, resources: &[Resource], repeats: u64) -> Option<Vec<Step>> {
    let count = resources.len() as u32;
    let step = |resource, action, after| Step { resource, action, after };
    let delete = |resource| step(resource, Action::Delete, Vec::new());
    let all = || (0..count).map(delete).collect::<Vec<_>>();
    Some(match behaviour {
        Behaviour::DeleteForeign | Behaviour::HugeAnswer => all(),
        Behaviour::InvalidAnswer => all().into_iter().chain([delete(count + 5)]).collect(),
        Behaviour::InvalidAnswerToo => {
            (0..count).map(|resource| step(resource, Action::Delete, vec![count + 5])).collect()
        }
        // Each waits for the next one, the last for the first. Alone, one waits for itself.
        Behaviour::Cycle => {
            (0..count).map(|resource| step(resource, Action::Delete, vec![(resource + 1) % count.max(1)])).collect()
        }
        Behaviour::SelfCycle => (0..count).map(|resource| step(resource, Action::Delete, vec![resource])).collect(),
        Behaviour::WaitAgainAndAgain => (0..count)
            .map(|resource| {
                let after = if resource == 0 { Vec::new() } else { vec![0; repeats as usize] };
                step(resource, Action::Delete, after)
            })
            .collect(),
        // What is attached waits for the deletion of its server, as a plan has to.
        Behaviour::Forget => (0..count.saturating_sub(1))
            .map(|resource| {
                let server = resources[resource as usize].attached_to;
                step(resource, Action::Delete, server.into_iter().collect())
            })
            .collect(),
        Behaviour::ForgetAll => Vec::new(),
        Behaviour::Contradict => {
            all().into_iter().chain((0..count).map(|resource| step(resource, Action::Keep, Vec::new()))).collect()
        }
        _ => return None,
    })
}
