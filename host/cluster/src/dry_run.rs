//! What an operation would do, without doing any of it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::Error;
use crate::clusters::Clusters;
use crate::hooks::{HOOK_INPUT_VERSION, HookInput, HookPlan, HookRunner};
use crate::name::ClusterName;
use crate::record::{Cluster, Node, NodeRole, OperationKind, Stage};
use crate::selection::ScaleRequest;
use crate::specification::ClusterSpecification;
use crate::stages::hook::hook_node;
use crate::store::StoredCluster;

/// What an operation would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterPlan {
    pub cluster: ClusterName,
    pub operation: OperationKind,
    /// Names of the nodes that would be made.
    pub make: Vec<String>,
    /// Names of the nodes that would be removed.
    pub remove: Vec<String>,
    /// The hooks that would be run, in order. Nodes that are not made yet have neither server nor addresses in their
    /// input.
    pub hooks: Vec<PlannedHook>,
}

/// A hook that would be run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedHook {
    pub stage: Stage,
    /// The hook in words.
    pub hook: String,
    /// What it would do.
    pub plan: HookPlan,
}

impl ClusterPlan {
    /// The plan of a creation. Asks nobody.
    ///
    /// # Errors
    /// [`Error::Specification`].
    pub fn of_creation(specification: &ClusterSpecification) -> Result<Self, Error> {
        specification.check()?;
        let name = &specification.name;
        let nodes = specification
            .groups
            .iter()
            .flat_map(|(group, data)| (1..=data.count).map(|index| Node::planned(name, group, index)))
            .collect();
        Ok(plan(specification, nodes, OperationKind::Create, 1, false))
    }
}

impl ClusterPlan {
    /// What comes next, by what is stored alone: what is left of the operation under way, or, where there is none, a
    /// scaling to what the specification says and a termination. Asks nobody. `last`: the number of the cluster's
    /// newest operation.
    #[must_use]
    pub fn next_of(stored: &StoredCluster, last: u64) -> Vec<Self> {
        let StoredCluster { cluster, nodes, open, .. } = stored;
        let specification = &cluster.specification;
        if let Some(open) = open {
            let mut rest = plan(specification, nodes.clone(), open.kind, open.number, open.force);
            let exists = |name: &String| nodes.iter().any(|node| node.name == *name && node.exists());
            rest.make.retain(|name| !exists(name));
            rest.remove.retain(exists);
            return vec![rest];
        }
        let counts = specification.groups.iter().map(|(group, data)| (group.clone(), data.count)).collect();
        let request = ScaleRequest { counts, ..ScaleRequest::default() };
        let scaling = selected(cluster, nodes.clone(), &request, &BTreeSet::new())
            .ok()
            .map(|nodes| plan(specification, nodes, OperationKind::Scale, last + 1, false));
        let leaving = nodes.iter().cloned().map(|node| Node { role: NodeRole::Leaving, ..node }).collect();
        let termination = plan(specification, leaving, OperationKind::Terminate, last + 1, false);
        scaling.into_iter().chain([termination]).collect()
    }
}

/// The nodes of a scaling, each with what it is to it. `gone`: those that served and no longer can.
pub(crate) fn selected(
    cluster: &Cluster,
    nodes: Vec<Node>,
    request: &ScaleRequest,
    gone: &BTreeSet<String>,
) -> Result<Vec<Node>, Error> {
    let selection = crate::selection::select(cluster, &nodes, request, gone)?;
    let changed: BTreeSet<&str> = selection.nodes.iter().map(|node| node.name.as_str()).collect();
    let unchanged = nodes.into_iter().filter(|node| !changed.contains(node.name.as_str()));
    Ok(unchanged.chain(selection.nodes.iter().cloned()).collect())
}

impl Clusters {
    /// What [`Clusters::scale`] would do.
    ///
    /// # Errors
    /// As [`Clusters::scale`] before it touches anything.
    pub async fn plan_scale(&self, name: &ClusterName, request: &ScaleRequest) -> Result<ClusterPlan, Error> {
        let stored = self.stored(name).await?;
        self.plan_of(&stored.cluster, stored.nodes, request).await
    }

    /// What [`Clusters::terminate`] would do.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn plan_terminate(&self, name: &ClusterName, force: bool) -> Result<ClusterPlan, Error> {
        let stored = self.stored(name).await?;
        let nodes = stored.nodes.into_iter().map(|node| Node { role: NodeRole::Leaving, ..node }).collect();
        let number = self.next_number(name).await?;
        Ok(plan(&stored.cluster.specification, nodes, OperationKind::Terminate, number, force))
    }
}

/// A function on data: which nodes come, go, and are in which hook's hands.
pub(crate) fn plan(
    specification: &ClusterSpecification,
    mut nodes: Vec<Node>,
    operation: OperationKind,
    number: u64,
    force: bool,
) -> ClusterPlan {
    nodes.sort_by(|a, b| (&a.group, a.index).cmp(&(&b.group, b.index)));
    let names = |role: NodeRole| nodes.iter().filter(|node| node.role == role).map(|node| node.name.clone()).collect();
    let leaves = |node: &Node| node.role == NodeRole::Leaving;
    let hooks = &specification.hooks;
    let mut planned = Vec::new();
    // As in `operation.rs`, on nodes that may not be made yet.
    let decommission = |node: &Node| !force && leaves(node) && node.awaits_decommission();
    let configure = |node: &Node| !leaves(node) && !node.configured;
    let start = |node: &Node| !leaves(node) && !node.started;
    type About<'a> = &'a dyn Fn(&Node) -> bool;
    let stages: [(Stage, _, About<'_>); 3] = [
        (Stage::Decommission, &hooks.decommission, &decommission),
        (Stage::Configure, &hooks.configure, &configure),
        (Stage::Start, &hooks.start, &start),
    ];
    for (stage, hook, about) in stages {
        let Some(hook) = hook else { continue };
        let (of_run, others): (Vec<&Node>, Vec<&Node>) = nodes.iter().partition(|node| about(node));
        if of_run.is_empty() {
            continue;
        }
        let input = HookInput {
            version: HOOK_INPUT_VERSION,
            cluster: specification.name.to_string(),
            zone: specification.zone.to_string(),
            operation: operation.for_policy(),
            operation_id: format!("{}-{number}", specification.name),
            operation_number: number,
            stage: stage.for_policy(),
            attempt: 1,
            nodes: of_run.into_iter().map(hook_node).collect(),
            // By the time a later stage is reached, leaving nodes have gone.
            others: others
                .into_iter()
                .filter(|node| stage == Stage::Decommission || !leaves(node))
                .filter(|node| stage != Stage::Decommission || node.exists())
                .map(hook_node)
                .collect(),
        };
        planned.push(PlannedHook { stage, hook: hook.to_string(), plan: HookRunner.plan(hook, &input) });
    }
    ClusterPlan {
        cluster: specification.name.clone(),
        operation,
        make: names(NodeRole::Made),
        remove: names(NodeRole::Leaving),
        hooks: planned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{Hook, HookAction, ProgramHook};
    use crate::record::{ClusterOperation, ClusterState, NodeState};
    use crate::specification::NodeGroup;
    use crate::store::{Fence, Requests};

    fn specification(count: u32) -> ClusterSpecification {
        let mut specification = ClusterSpecification::new("farm".parse().unwrap(), "fr-par-1".parse().unwrap());
        specification.groups.insert("web".parse().unwrap(), NodeGroup::new(count, "DEV1-S", "ubuntu_noble"));
        let hook = || Some(Hook::new(HookAction::Program(ProgramHook::new("true"))));
        (specification.hooks.decommission, specification.hooks.configure) = (hook(), hook());
        specification
    }

    fn node(index: u32, role: NodeRole, state: NodeState) -> Node {
        let planned = Node::planned(&"farm".parse().unwrap(), &"web".parse().unwrap(), index);
        let was_there = state == NodeState::Running;
        Node { role, state, configured: was_there, started: was_there, ..planned }
    }

    fn hooks(plan: &ClusterPlan) -> Vec<(Stage, Vec<u32>, Vec<u32>)> {
        let indices = |nodes: &[crate::hooks::HookNode]| nodes.iter().map(|node| node.index).collect();
        plan.hooks
            .iter()
            .map(|hook| (hook.stage, indices(&hook.plan.input.nodes), indices(&hook.plan.input.others)))
            .collect()
    }

    #[test]
    fn a_creation_makes_every_node_and_configures_it() {
        let plan = ClusterPlan::of_creation(&specification(2)).unwrap();
        assert_eq!(
            (plan.make.as_slice(), plan.remove.len()),
            (&["farm-web-1".to_owned(), "farm-web-2".to_owned()][..], 0)
        );
        assert_eq!(hooks(&plan), [(Stage::Configure, vec![1, 2], vec![])]);
    }

    #[test]
    fn a_scaling_decommissions_those_that_leave_and_configures_those_that_come() {
        let nodes = vec![
            node(3, NodeRole::Made, NodeState::Planned),
            node(1, NodeRole::Staying, NodeState::Running),
            node(2, NodeRole::Leaving, NodeState::Running),
        ];
        let plan = plan(&specification(2), nodes, OperationKind::Scale, 7, false);
        assert_eq!((plan.make.join(""), plan.remove.join("")), ("farm-web-3".into(), "farm-web-2".into()));
        assert_eq!(hooks(&plan), [(Stage::Decommission, vec![2], vec![1]), (Stage::Configure, vec![3], vec![1])]);
        assert_eq!(plan.hooks[0].plan.input.operation_id, "farm-7");
    }

    #[test]
    fn what_comes_next_is_what_is_left_of_the_operation_under_way_or_what_could_be_begun() {
        let stored = |open: Option<ClusterOperation>, nodes: Vec<Node>| StoredCluster {
            cluster: Cluster {
                name: "farm".parse().unwrap(),
                state: ClusterState::Active,
                reasons: Vec::new(),
                left: Vec::new(),
                specification: specification(2),
                last_index: [("web".parse().unwrap(), 2)].into(),
                created_at: 0,
                updated_at: 0,
            },
            nodes,
            open,
            requests: Requests::default(),
            fence: Fence(1),
        };
        let reported = |stored: &StoredCluster| -> Vec<_> {
            let plans = ClusterPlan::next_of(stored, 7);
            plans.iter().map(|plan| (plan.operation, plan.make.join(" "), plan.remove.join(" "))).collect()
        };
        let (running, staying) = (NodeState::Running, NodeRole::Staying);
        let farm = stored(None, vec![node(1, staying, running)]);
        let (one, two) = ("farm-web-1".to_owned(), "farm-web-3".to_owned());
        let scaling = (OperationKind::Scale, two, String::new());
        assert_eq!(reported(&farm), [scaling, (OperationKind::Terminate, String::new(), one.clone())]);
        // One of two is made already, and one of two is gone already.
        let open = ClusterOperation::begun(OperationKind::Scale, Stage::Servers, "here", 0);
        let (made, leaving) = (NodeRole::Made, NodeRole::Leaving);
        let nodes = vec![
            node(1, leaving, running),
            node(2, leaving, NodeState::Removed),
            node(3, made, running),
            node(4, made, NodeState::Planned),
        ];
        assert_eq!(reported(&stored(Some(open), nodes)), [(OperationKind::Scale, "farm-web-4".into(), one)]);
    }

    #[test]
    fn a_forced_termination_runs_no_hook() {
        let nodes = || vec![node(1, NodeRole::Leaving, NodeState::Running)];
        let of = |force| plan(&specification(1), nodes(), OperationKind::Terminate, 2, force);
        assert_eq!(hooks(&of(false)), [(Stage::Decommission, vec![1], vec![])]);
        assert_eq!(hooks(&of(true)), []);
    }
}
