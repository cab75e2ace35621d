//! The default policy of the slot `rollback`. Knows what depends on what on Scaleway; must not know how anything is
//! deleted. README.md holds the decisions as a table.

use windlass_guest_sdk::prelude::*;

use rollback::{Answer, Plan, Question, Resource};

settings! {
    /// Undoes everything.
    pub struct DefaultRollback {}
}

impl Rollback for DefaultRollback {
    fn decide(&self, question: Question) -> Answer {
        let resources = &question.resources;
        let mut plan = Plan::new();

        // Servers first: what hangs on them can go only when they have let go of it.
        let gone: Vec<Option<u32>> = resources
            .iter()
            .enumerate()
            .map(|(position, resource)| is_ours_to_end(resource).then(|| plan.delete(position, &[])))
            .collect();
        let all_gone: Vec<u32> = gone.iter().copied().flatten().collect();

        let mut kept_hosts = 0;
        for (position, resource) in resources.iter().enumerate() {
            match resource.kind {
                ResourceKind::Server if resource.owned => {}
                ResourceKind::AppleSiliconServer => {
                    kept_hosts += u32::from(resource.owned);
                    plan.keep(position);
                }
                _ if !resource.owned => {
                    plan.keep(position);
                }
                _ => {
                    let server = resource.attached_to.and_then(|server| gone.get(server as usize).copied());
                    match server {
                        // Attached to a server that goes: after it.
                        Some(Some(server_gone)) => plan.delete(position, &[server_gone]),
                        // Attached to a server that stays, which isn't ours to end: it has to let go first.
                        Some(None) => {
                            let detached = plan.step(position, rollback::Action::Detach, &[]);
                            plan.delete(position, &[detached])
                        }
                        // Found loose, perhaps only because the answer that told of its server was lost: after all
                        // servers.
                        None => plan.delete(position, &all_gone),
                    };
                }
            }
        }
        let answer = Answer::plan(plan);
        match kept_hosts {
            0 => answer,
            _ => answer.because("physical hosts are let go by the release slot, never by a rollback"),
        }
    }
}

fn is_ours_to_end(resource: &Resource) -> bool {
    resource.kind == ResourceKind::Server && resource.owned
}

export_policy!(DefaultRollback: rollback);

#[cfg(test)]
mod tests;
