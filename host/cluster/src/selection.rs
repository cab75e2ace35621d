//! Which nodes leave, and which are made: functions on data.

use std::collections::{BTreeMap, BTreeSet};

use windlass_policy::nearest;

use crate::Error;
use crate::name::{MAX_INDEX, NodeGroupName};
use crate::record::{Cluster, Counts, Node, NodeRole};
use crate::specification::{InvalidSpecification, MAX_NODES};

/// What a scaling is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleRequest {
    /// How many nodes each of these groups is to have; the others keep theirs.
    pub counts: BTreeMap<NodeGroupName, u32>,
    /// Names of nodes that are to leave first. In a group without a count, each takes one from it.
    pub remove: BTreeSet<String>,
    /// Names of nodes that leave, and for each of which another is made. They do not count as nodes of their group.
    pub replace: BTreeSet<String>,
}

/// What a scaling changes, worked out before it begins.
#[derive(Debug, PartialEq)]
pub(crate) struct Selection {
    pub(crate) counts: BTreeMap<NodeGroupName, Counts>,
    /// Nodes with a changed role, and the new ones.
    pub(crate) nodes: Vec<Node>,
    pub(crate) last_index: BTreeMap<NodeGroupName, u32>,
}

/// Leaving nodes: those that are spent, those named by the user, then the newest (the highest number).
///
/// `gone`: nodes that served, and whose servers somebody deleted since. They count as nodes that there were, and leave
/// before any other.
pub(crate) fn select(
    cluster: &Cluster,
    nodes: &[Node],
    request: &ScaleRequest,
    gone: &BTreeSet<String>,
) -> Result<Selection, Error> {
    let is_spent = |node: &Node| node.is_spent() && !gone.contains(&node.name);
    let groups = &cluster.specification.groups;
    for group in request.counts.keys() {
        if !groups.contains_key(group) {
            return Err(Error::UnknownGroup {
                cluster: cluster.name.to_string(),
                group: group.to_string(),
                groups: groups.keys().map(ToString::to_string).collect(),
            });
        }
    }
    for name in request.remove.iter().chain(&request.replace) {
        if !nodes.iter().any(|node| node.name == *name) {
            let names = nodes.iter().map(|node| node.name.as_str());
            return Err(Error::UnknownNode {
                cluster: cluster.name.to_string(),
                node: name.clone(),
                near: nearest(name, names).map(str::to_owned),
            });
        }
    }
    // Before anything is made of it: a slip in a count costs nothing.
    let wanted = |name: &NodeGroupName| {
        let serving = || nodes.iter().filter(|node| node.group == *name && !is_spent(node)).count();
        // What is replaced is counted once: the other one comes as it goes.
        request.counts.get(name).map_or_else(|| serving() as u64, |count| u64::from(*count))
    };
    let total: u64 = groups.keys().map(wanted).sum();
    if total > u64::from(MAX_NODES) {
        let problem = format!("{total} nodes are more than {MAX_NODES}");
        return Err(InvalidSpecification::new("groups", problem).into());
    }
    let mut selection =
        Selection { counts: BTreeMap::new(), nodes: Vec::new(), last_index: cluster.last_index.clone() };
    for name in groups.keys() {
        let (spent, mut serving): (Vec<&Node>, Vec<&Node>) =
            nodes.iter().filter(|node| node.group == *name).partition(|node| is_spent(node));
        let replaced: Vec<&Node>;
        (replaced, serving) = serving.into_iter().partition(|node| request.replace.contains(&node.name));
        let before = count(&serving) + count(&replaced);
        let named = count_named(&serving, request);
        let wanted = request.counts.get(name).copied().unwrap_or(before - named);
        // Those that are replaced do not stay, and count as long as others come for them.
        if named > before.saturating_sub(wanted) {
            return Err(Error::Node {
                node: serving
                    .iter()
                    .map(|node| &node.name)
                    .filter(|name| request.remove.contains(*name))
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", "),
                problem: format!(
                    "{named} nodes of group {name} are named, but going from {before} to {wanted} removes {}; lower \
                     the count",
                    before.saturating_sub(wanted)
                ),
            });
        }
        let lost: Vec<&Node>;
        (lost, serving) = serving.into_iter().partition(|node| gone.contains(&node.name));
        // Those that stay longest first: unnamed before named, then the oldest.
        serving.sort_by_key(|node| (request.remove.contains(&node.name), node.index));
        let stay = wanted.min(count(&serving) - count_named(&serving, request));
        let leaving = serving.iter().skip(stay as usize).chain(&replaced).chain(&lost).chain(&spent);
        selection.nodes.extend(leaving.map(|node| Node { role: NodeRole::Leaving, ..(*node).clone() }));
        let last = selection.last_index.entry(name.clone()).or_default();
        for _ in stay..wanted {
            if *last >= MAX_INDEX {
                let problem = format!("it has used all {MAX_INDEX} node numbers; make a group of another name");
                return Err(InvalidSpecification::new(format!("groups.{name}"), problem).into());
            }
            *last += 1;
            selection.nodes.push(Node::planned(&cluster.name, name, *last));
        }
        selection.counts.insert(name.clone(), Counts { before, wanted });
    }
    Ok(selection)
}

fn count(nodes: &[&Node]) -> u32 {
    u32::try_from(nodes.len()).unwrap_or(u32::MAX)
}

/// How many of these the user named.
fn count_named(nodes: &[&Node], request: &ScaleRequest) -> u32 {
    let named = nodes.iter().filter(|node| request.remove.contains(&node.name)).count();
    u32::try_from(named).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{ClusterState, NodeState};
    use crate::specification::{ClusterSpecification, NodeGroup};

    fn cluster(counts: &[(&str, u32)]) -> (Cluster, Vec<Node>) {
        let name: crate::ClusterName = "farm".parse().unwrap();
        let mut specification = ClusterSpecification::new(name.clone(), "fr-par-1".parse().unwrap());
        let (mut nodes, mut last_index) = (Vec::new(), BTreeMap::new());
        for (group, count) in counts {
            let group: NodeGroupName = group.parse().unwrap();
            specification.groups.insert(group.clone(), NodeGroup::new(*count, "DEV1-S", "ubuntu_noble"));
            last_index.insert(group.clone(), *count);
            nodes.extend((1..=*count).map(|index| Node {
                role: NodeRole::Staying,
                state: NodeState::Running,
                configured: true,
                ..Node::planned(&name, &group, index)
            }));
        }
        let cluster = Cluster {
            name,
            state: ClusterState::Active,
            reasons: Vec::new(),
            left: Vec::new(),
            specification,
            last_index,
            created_at: 0,
            updated_at: 0,
        };
        (cluster, nodes)
    }

    fn request(counts: &[(&str, u32)], remove: &[&str]) -> ScaleRequest {
        ScaleRequest {
            counts: counts.iter().map(|(group, count)| (group.parse().unwrap(), *count)).collect(),
            remove: remove.iter().map(|&name| name.to_owned()).collect(),
            replace: BTreeSet::new(),
        }
    }

    /// When nobody deleted anything.
    fn select_of(cluster: &Cluster, nodes: &[Node], request: &ScaleRequest) -> Result<Selection, Error> {
        select(cluster, nodes, request, &BTreeSet::new())
    }

    fn names(selection: &Selection, role: NodeRole) -> Vec<&str> {
        selection.nodes.iter().filter(|node| node.role == role).map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn named_nodes_leave_first_then_the_newest() {
        let (cluster, nodes) = cluster(&[("db", 2), ("web", 4)]);
        let selection = select_of(&cluster, &nodes, &request(&[("web", 2)], &["farm-web-1"])).unwrap();
        assert_eq!(names(&selection, NodeRole::Leaving), ["farm-web-4", "farm-web-1"]);
        assert_eq!(names(&selection, NodeRole::Made), Vec::<&str>::new());
        assert_eq!(selection.counts[&"db".parse().unwrap()], Counts { before: 2, wanted: 2 });
    }

    #[test]
    fn a_named_node_without_a_count_takes_one_from_its_group() {
        let (cluster, nodes) = cluster(&[("web", 3)]);
        let selection = select_of(&cluster, &nodes, &request(&[], &["farm-web-2"])).unwrap();
        assert_eq!(names(&selection, NodeRole::Leaving), ["farm-web-2"]);
        assert_eq!(selection.counts[&"web".parse().unwrap()], Counts { before: 3, wanted: 2 });
    }

    #[test]
    fn numbers_are_never_given_twice() {
        let (mut cluster, mut nodes) = cluster(&[("web", 3)]);
        nodes.truncate(1);
        cluster.last_index.insert("web".parse().unwrap(), 7);
        let selection = select_of(&cluster, &nodes, &request(&[("web", 3)], &[])).unwrap();
        assert_eq!(names(&selection, NodeRole::Made), ["farm-web-8", "farm-web-9"]);
    }

    #[test]
    fn a_node_that_is_replaced_leaves_and_another_is_made_for_it() {
        let (cluster, nodes) = cluster(&[("db", 1), ("web", 3)]);
        let mut asked = request(&[], &[]);
        asked.replace = ["farm-web-1".to_owned(), "farm-db-1".to_owned()].into();
        let selection = select_of(&cluster, &nodes, &asked).unwrap();
        assert_eq!(names(&selection, NodeRole::Leaving), ["farm-db-1", "farm-web-1"]);
        assert_eq!(names(&selection, NodeRole::Made), ["farm-db-2", "farm-web-4"]);
        assert_eq!(selection.counts[&"web".parse().unwrap()], Counts { before: 3, wanted: 3 });
        asked.counts.insert("web".parse().unwrap(), 2);
        let fewer = select_of(&cluster, &nodes, &asked).unwrap();
        assert_eq!(names(&fewer, NodeRole::Leaving), ["farm-db-1", "farm-web-1"], "one of three has no successor");
        assert_eq!(names(&fewer, NodeRole::Made), ["farm-db-2"]);
    }

    #[test]
    fn a_decommissioned_node_is_never_brought_back() {
        let (cluster, mut nodes) = cluster(&[("web", 3)]);
        nodes[0].decommissioned = true;
        let selection = select_of(&cluster, &nodes, &request(&[("web", 3)], &[])).unwrap();
        assert_eq!(names(&selection, NodeRole::Leaving), ["farm-web-1"]);
        assert_eq!(names(&selection, NodeRole::Made), ["farm-web-4"]);
    }

    #[test]
    fn wrong_groups_nodes_and_counts_are_refused_with_a_remedy() {
        let (cluster, nodes) = cluster(&[("web", 3)]);
        let refused = |asked: ScaleRequest| select_of(&cluster, &nodes, &asked).unwrap_err().to_string();
        assert!(refused(request(&[("wbe", 1)], &[])).contains("it has: web"));
        assert!(refused(request(&[], &["farm-web-9"])).contains("no node farm-web-9; did you mean farm-web-"));
        assert!(refused(request(&[("web", 3)], &["farm-web-1"])).contains("lower the count"));
    }

    #[test]
    fn the_error_about_named_nodes_names_those_of_the_group_that_it_is_about() {
        let (cluster, nodes) = cluster(&[("db", 3), ("web", 3)]);
        let asked = request(&[("db", 2), ("web", 3)], &["farm-db-1", "farm-web-2"]);
        let refused = select_of(&cluster, &nodes, &asked).unwrap_err().to_string();
        assert!(refused.contains("node farm-web-2 cannot"), "{refused}");
    }

    #[test]
    fn a_count_beyond_the_bound_is_refused_before_a_single_node_is_made_of_it() {
        let (cluster, nodes) = cluster(&[("db", 3), ("web", 3)]);
        for count in [MAX_NODES, u32::MAX] {
            let refused = select_of(&cluster, &nodes, &request(&[("web", count)], &[])).unwrap_err().to_string();
            assert!(refused.contains(&format!("{} nodes are more than", u64::from(count) + 3)), "{refused}");
        }
        assert!(select_of(&cluster, &nodes, &request(&[("web", MAX_NODES - 3)], &[])).is_ok());
    }

    proptest! {
        #[test]
        fn what_stays_and_what_comes_is_what_is_wanted(
            before in proptest::collection::vec(0_u32..12, 1..4),
            wanted in proptest::collection::vec(0_u32..12, 1..4),
            spent in proptest::collection::vec(any::<bool>(), 40),
            named in proptest::collection::vec(any::<bool>(), 40),
            deleted in proptest::collection::vec(any::<bool>(), 40),
        ) {
            let groups = ["a", "b", "c"];
            let (cluster, mut nodes) = cluster(&groups.iter().copied().zip(before.iter().copied()).collect::<Vec<_>>());
            for (node, spent) in nodes.iter_mut().zip(spent) {
                node.decommissioned = spent;
            }
            let counts: Vec<(&str, u32)> =
                groups.iter().copied().zip(wanted.iter().copied()).take(before.len()).collect();
            let mut asked = request(&counts, &[]);
            asked.remove = nodes.iter().zip(named).filter(|(_, named)| *named).map(|(node,
                _)| node.name.clone()).collect();
            let gone: BTreeSet<String> = nodes
                .iter()
                .zip(deleted)
                .filter(|(node, deleted)| *deleted && !node.is_spent())
                .map(|(node, _)| node.name.clone())
                .collect();
            let believed = select_of(&cluster, &nodes, &asked);
            // As `look` notes it.
            nodes.iter_mut().filter(|node| gone.contains(&node.name)).for_each(|node| node.state = NodeState::Left);
            let chosen = select(&cluster, &nodes, &asked, &gone);
            prop_assert_eq!(believed.is_ok(), chosen.is_ok(), "what could be begun can be chosen: {:?}", chosen);
            let (Ok(believed), Ok(selection)) = (believed, chosen) else { return Ok(()) };
            prop_assert_eq!(&believed.counts, &selection.counts);
            let leaving = names(&selection, NodeRole::Leaving);
            for node in &nodes {
                let has_to = node.decommissioned || gone.contains(&node.name) || asked.remove.contains(&node.name);
                prop_assert!(!has_to || leaving.contains(&node.name.as_str()));
            }
            for (group, wanted) in &asked.counts {
                let stay = nodes.iter().filter(|n| n.group == *group && !leaving.contains(&n.name.as_str())).count();
                let come = selection.nodes.iter().filter(|n| n.group == *group && n.role == NodeRole::Made).count();
                prop_assert_eq!(stay + come, *wanted as usize);
                // The newest leave: whoever stays is older than whoever left without being named.
                let unnamed = |leaves: bool| {
                    nodes
                        .iter()
                        .filter(|n| n.group == *group && !n.is_spent() && !asked.remove.contains(&n.name))
                        .filter(|n| leaving.contains(&n.name.as_str()) == leaves)
                        .map(|n| n.index)
                        .collect::<Vec<_>>()
                };
                prop_assert!(unnamed(false).iter().max() < unnamed(true).iter().min() || unnamed(true).is_empty());
            }
        }
    }
}
