//! Slot `rollback`: what is undone after a failure, in which order, and what is kept (`windlass:policy/rollback`).

use super::slot::{Deferred, EXAMPLE_NOW_MS, Slot};
use super::topic::Topic;
use super::types::{Failure, ResourceKind, Subject};
pub use crate::bindings::rollback::*;
use crate::slot_name::SlotName;
use crate::text::counted;

/// The slot `rollback`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rollback;

impl Slot for Rollback {
    const NAME: SlotName = SlotName::Rollback;
    type Question = Question;
    type Answer = Answer;

    fn topic(question: &Question) -> Topic<'_> {
        let words = format!("{} of {}", counted(question.resources.len(), "resource"), question.operation);
        Topic::of_group(words, &question.subject)
    }

    fn deferred(answer: &Answer) -> Deferred {
        Deferred::whole(answer.verdict == Verdict::Defer)
    }

    /// A plan is accepted when every position exists, nothing is done twice or both deleted and kept, only what is
    /// owned is deleted or powered off, each owned resource is deleted or kept (a private NIC also by going with its
    /// server), the order has no cycle, and a volume is deleted only after it has left its server, by the server's
    /// deletion or its own detachment.
    fn check(question: &Question, answer: &Answer) -> Result<(), String> {
        match &answer.verdict {
            Verdict::Defer => Ok(()),
            Verdict::Plan(steps) => {
                check_plan(&question.resources, steps)?;
                check_order(&question.resources, steps)
            }
        }
    }

    /// Keeps every resource.
    fn keep(question: &Question) -> Answer {
        let steps = (0u32..)
            .zip(&question.resources)
            .map(|(position, _)| Step { resource: position, action: Action::Keep, after: Vec::new() })
            .collect();
        Answer { verdict: Verdict::Plan(steps), reason: None }
    }

    fn example() -> Question {
        let resource = |kind, name: &str, attached_to| Resource {
            kind,
            id: format!("11111111-2222-4333-8444-5555555555{:02x}", kind as u8),
            name: name.into(),
            state: (kind == ResourceKind::Server).then(|| "running".into()),
            attached_to,
            owned: true,
            evidence: Evidence::Journal,
        };
        Question {
            now: EXAMPLE_NOW_MS,
            random: 0x5eed0,
            operation: "create-server".into(),
            subject: Subject::example(),
            cause: Some(Failure::example()),
            failed_step: Some("power-on".into()),
            resources: vec![
                resource(ResourceKind::Server, "example-1", None),
                resource(ResourceKind::Ip, "", Some(0)),
                resource(ResourceKind::BlockVolume, "example-1-data", Some(0)),
                resource(ResourceKind::LocalVolume, "example-1-root", Some(0)),
                resource(ResourceKind::PrivateNic, "", Some(0)),
            ],
        }
    }
}

/// Checks that every step is possible and that every resource is mentioned.
fn check_plan(resources: &[Resource], steps: &[Step]) -> Result<(), String> {
    let mut deleted = vec![false; resources.len()];
    let mut kept = vec![false; resources.len()];
    let mut seen = std::collections::HashSet::with_capacity(steps.len());
    for (position, step) in steps.iter().enumerate() {
        let index = step.resource as usize;
        let Some(target) = resources.get(index) else {
            return Err(format!(
                "step {position} of the plan names resource {index}, and there are only {}",
                resources.len()
            ));
        };
        if let Some(after) = step.after.iter().find(|after| **after as usize >= steps.len()) {
            return Err(format!(
                "step {position} of the plan waits for step {after}, and there are only {}",
                steps.len()
            ));
        }
        // A list of one number a million times would fill the decision log.
        let mut waited_for = std::collections::HashSet::with_capacity(step.after.len());
        if let Some(twice) = step.after.iter().find(|after| !waited_for.insert(**after)) {
            return Err(format!("step {position} of the plan waits for step {twice} twice"));
        }
        let what = || format!("{:?} {}", target.kind, target.id);
        if !seen.insert((index, step.action)) {
            return Err(format!("the plan has the same action twice for {}", what()));
        }
        match step.action {
            Action::Delete if !target.owned => {
                return Err(format!("the plan deletes {}, which does not carry the owner tag", what()));
            }
            Action::PowerOff if !target.owned => {
                return Err(format!("the plan powers off {}, which does not carry the owner tag", what()));
            }
            Action::PowerOff if !matches!(target.kind, ResourceKind::Server | ResourceKind::AppleSiliconServer) => {
                return Err(format!("the plan powers off {}, which is no server", what()));
            }
            Action::Detach if matches!(target.kind, ResourceKind::Server | ResourceKind::AppleSiliconServer) => {
                return Err(format!("the plan detaches {}, which is a server", what()));
            }
            Action::Delete => deleted[index] = true,
            Action::Keep => kept[index] = true,
            Action::PowerOff | Action::Detach => {}
        }
    }
    for (index, resource) in resources.iter().enumerate() {
        let what = || format!("{:?} {}", resource.kind, resource.id);
        if deleted[index] && kept[index] {
            return Err(format!("the plan both deletes and keeps {}", what()));
        }
        let goes_with_its_server = resource.kind == ResourceKind::PrivateNic
            && resource.attached_to.is_some_and(|server| deleted.get(server as usize).copied().unwrap_or(false));
        if resource.owned && !deleted[index] && !kept[index] && !goes_with_its_server {
            return Err(format!("the plan forgets {}: it is neither deleted nor kept", what()));
        }
    }
    check_circles(steps)
}

/// Takes steps off the plan that wait for nothing, until none is left; what remains then waits in a circle.
fn check_circles(steps: &[Step]) -> Result<(), String> {
    let mut waits_for: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut successors: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (position, step) in steps.iter().enumerate() {
        for after in &step.after {
            successors[*after as usize].push(position);
        }
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|position| waits_for[*position] == 0).collect();
    let mut done = 0;
    while let Some(position) = ready.pop() {
        done += 1;
        for successor in &successors[position] {
            waits_for[*successor] -= 1;
            if waits_for[*successor] == 0 {
                ready.push(*successor);
            }
        }
    }
    if done == steps.len() {
        return Ok(());
    }
    let circle: Vec<String> =
        (0..steps.len()).filter(|position| waits_for[*position] > 0).take(8).map(|p| p.to_string()).collect();
    Err(format!("the steps of the plan wait for each other in a circle: {}", circle.join(", ")))
}

/// A volume is deleted only after it has left its server: after the server's deletion or its own detachment. The
/// volumes of a server that stays are not deleted under it.
fn check_order(resources: &[Resource], steps: &[Step]) -> Result<(), String> {
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
