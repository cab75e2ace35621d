//! The order that attachments ask for in a plan.

use super::{Action, Resource, Step};
use crate::slots::types::ResourceKind;

/// A volume is deleted only after it has left its server: after the server's deletion or its own detachment. The
/// volumes of a server that stays are not deleted under it.
pub(super) fn check(resources: &[Resource], steps: &[Step]) -> Result<(), String> {
    for (position, step) in steps.iter().enumerate() {
        let Some(resource) = resources.get(step.resource as usize) else {
            return Err(format!("step {position} names no resource"));
        };
        if step.action != Action::Delete
            || !matches!(resource.kind, ResourceKind::BlockVolume | ResourceKind::LocalVolume)
        {
            continue;
        }
        let Some(server) = resource.attached_to else {
            continue;
        };
        let before = all_before(steps, position);
        let released = before.iter().any(|&earlier| {
            let earlier = &steps[earlier];
            (earlier.resource == server && earlier.action == Action::Delete)
                || (earlier.resource == step.resource && earlier.action == Action::Detach)
        });
        if !released {
            return Err(format!(
                "step {position} deletes {} without waiting until it has left its server {}",
                describe(resource),
                resources.get(server as usize).map_or_else(|| "?".to_owned(), describe)
            ));
        }
    }
    Ok(())
}

fn describe(resource: &Resource) -> String {
    format!("{:?} {}", resource.kind, resource.id)
}

/// Every step that has ended when this one begins.
fn all_before(steps: &[Step], position: usize) -> Vec<usize> {
    let mut seen = vec![false; steps.len()];
    let mut open = vec![position];
    let mut before = Vec::new();
    while let Some(next) = open.pop() {
        let after = steps.get(next).map(|step| step.after.as_slice()).unwrap_or_default();
        for &earlier in after {
            let earlier = earlier as usize;
            if seen.get(earlier) == Some(&false) {
                seen[earlier] = true;
                before.push(earlier);
                open.push(earlier);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests;
