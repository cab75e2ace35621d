//! Slot `rollback`: what is undone after a failure, in which order, and what is kept (`windlass:policy/rollback`).

use serde::{Deserialize, Serialize};
use wasmtime::component::{ComponentType, Lift, Lower};

use super::slot::{self, Deferred, EXAMPLE_NOW_MS, Slot};
use super::types::{Failure, ResourceKind};
use crate::slot_name::SlotName;

/// How the host came to know of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Its creation was answered, and the journal holds its id.
    #[component(name = "journal")]
    Journal,
    /// It was found by its operation tag; the answer to its creation was lost.
    #[component(name = "tag-search")]
    TagSearch,
    /// It was found attached to a resource of ours.
    #[component(name = "attachment")]
    Attachment,
    /// One that this version of the contract has no word for.
    #[component(name = "other")]
    Other,
}

/// A resource that exists.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Resource {
    /// Kind.
    pub kind: ResourceKind,
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Scaleway's state or status, word for word, where the kind has one.
    pub state: Option<String>,
    /// The position in `resources` of the server that it is attached to, where it is attached to one of them.
    #[component(name = "attached-to")]
    pub attached_to: Option<u32>,
    /// Whether it carries the owner tag. What does not may be kept or detached, never deleted.
    pub owned: bool,
    /// Evidence.
    pub evidence: Evidence,
}

/// What is there, and why it is to be undone.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Question {
    /// Now. Milliseconds since 1970-01-01T00:00:00Z.
    pub now: u64,
    /// Random.
    pub random: u64,
    /// The operation that failed: `create-server`, or `cleanup-server` for an ordinary deletion.
    pub operation: String,
    /// The group the server was to belong to.
    pub group: String,
    /// What failed. Absent when nothing did and the server is simply no longer wanted.
    pub cause: Option<Failure>,
    /// The step that failed, with the cause.
    #[component(name = "failed-step")]
    pub failed_step: Option<String>,
    /// Resources.
    pub resources: Vec<Resource>,
}

/// What to do with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(enum)]
#[repr(u8)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Make it cease to exist, from whatever state it is in. A server goes by Scaleway's `terminate` when its local
    /// volumes go too, otherwise it is powered off and deleted, which leaves them.
    #[component(name = "delete")]
    Delete,
    /// Separate it from its server (IP addresses, volumes and private NICs).
    #[component(name = "detach")]
    Detach,
    /// Power it off and wait until it has stopped (servers).
    #[component(name = "power-off")]
    PowerOff,
    /// Leave it in place on purpose. It is marked as kept, reported, and left alone by the sweep.
    #[component(name = "keep")]
    Keep,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(record)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step {
    /// Position in `resources`.
    pub resource: u32,
    /// Action.
    pub action: Action,
    /// Positions in the plan of the steps that must have ended before this one begins.
    pub after: Vec<u32>,
}

/// The judgement.
#[derive(Clone, Debug, PartialEq, Eq, ComponentType, Lift, Lower, Serialize, Deserialize)]
#[component(variant)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Defer.
    #[component(name = "defer")]
    Defer,
    /// Plan.
    #[component(name = "plan")]
    Plan(Vec<Step>),
}

/// The verdict and why.
pub type Answer = slot::Answer<Verdict>;

/// The slot `rollback`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rollback;

impl Slot for Rollback {
    const NAME: SlotName = SlotName::Rollback;
    type Question = Question;
    type Answer = Answer;

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
            group: "example".into(),
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

/// Whether every step is possible, and every resource is told of.
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
