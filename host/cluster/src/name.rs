//! Names of clusters, node groups and nodes.

use windlass_lifecycle::__name as name;

/// With the group's name and the number, a node's name stays within the 63 bytes of a host name.
const MAX_CLUSTER_LEN: usize = 32;
const MAX_GROUP_LEN: usize = 22;
/// Node numbers of one group at most: seven digits.
pub(crate) const MAX_INDEX: u32 = 9_999_999;

/// A name breaks the rules of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid name for {what}: {problem}")]
pub struct InvalidName {
    /// `a cluster` or `a node group`.
    pub what: &'static str,
    /// The name, cut to a bounded length.
    pub name: String,
    pub problem: String,
}

fn check(what: &'static str, name: &str, longest: usize) -> Result<(), InvalidName> {
    let problem = if name.is_empty() {
        "it is empty".to_owned()
    } else if name.len() > longest {
        format!("it has {} bytes, more than {longest}", name.len())
    } else if let Some(wrong) = name.chars().find(|c| !(c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')) {
        format!("it holds {wrong:?}; lower-case letters, digits and dashes are allowed")
    } else if name.starts_with('-') || name.ends_with('-') {
        "it begins or ends with a dash".to_owned()
    } else {
        return Ok(());
    };
    Err(InvalidName { what, name: windlass_policy::cut(name, 64), problem })
}

name! {
    /// The name of a cluster: lower-case letters, digits and dashes, at most 32 bytes. It is also the group of its
    /// servers in the journal and in the tag `windlass-group`.
    ClusterName, InvalidName, |name| check("a cluster", name, MAX_CLUSTER_LEN)
}

name! {
    /// The name of a node group within its cluster: lower-case letters, digits and dashes, at most 22 bytes.
    NodeGroupName, InvalidName, |name| check("a node group", name, MAX_GROUP_LEN)
}

impl ClusterName {
    /// The name of a node: `<cluster>-<group>-<index>`.
    pub(crate) fn node(&self, group: &NodeGroupName, index: u32) -> String {
        format!("{self}-{group}-{index}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_node_name_is_a_host_name() {
        let cluster: ClusterName = "c".repeat(MAX_CLUSTER_LEN).parse().unwrap();
        let group: NodeGroupName = "g".repeat(MAX_GROUP_LEN).parse().unwrap();
        assert_eq!(cluster.node(&group, MAX_INDEX).len(), 63);
    }

    #[test]
    fn a_bad_name_is_refused_with_the_rule_it_breaks() {
        for (name, rule) in [("", "empty"), ("Farm", "'F'"), ("-a", "dash"), (&"x".repeat(33), "more than 32")] {
            let error = name.parse::<ClusterName>().unwrap_err().to_string();
            assert!(error.contains(rule), "{name}: {error}");
        }
        assert!("a-".parse::<ClusterName>().unwrap_err().to_string().contains("dash"));
        for good in ["a", "a-1", &"x".repeat(32)] {
            assert_eq!(good.parse::<ClusterName>().unwrap().to_string(), good);
        }
        assert!("g".repeat(23).parse::<NodeGroupName>().is_err());
    }
}
