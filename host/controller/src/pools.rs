//! Which pools there are, and which namespaces may take hosts from each.

use std::collections::{BTreeMap, BTreeSet};

use windlass_lifecycle::PoolPrefix;

use crate::Error;
use crate::arguments::{NAMESPACE, is_namespace};

/// The pools that the operator has named: a prefix that anybody may choose would also be the beginning of the names of
/// hosts that are in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pools {
    /// Of machines that name none; every namespace may use it.
    default: Option<PoolPrefix>,
    /// The namespaces of each other pool; empty: all of them.
    named: BTreeMap<PoolPrefix, BTreeSet<String>>,
}

impl Pools {
    /// From `--pool-prefix` and the values of `--pool`: `<prefix>`, or `<prefix>=<namespace>,<namespace>`.
    pub(crate) fn of(default: Option<&str>, named: &[String]) -> Result<Self, Error> {
        let parse = |option, prefix: &str| {
            let refused = |error: windlass_lifecycle::Error| Error::Option { option, problem: error.to_string() };
            prefix.parse::<PoolPrefix>().map_err(refused)
        };
        let mut pools =
            Self { default: default.map(|it| parse("--pool-prefix", it)).transpose()?, named: BTreeMap::new() };
        for text in named {
            let (prefix, namespaces) =
                text.split_once('=').map_or((text.as_str(), None), |(prefix, rest)| (prefix, Some(rest)));
            let prefix = parse("--pool", prefix)?;
            let namespaces: BTreeSet<String> =
                namespaces.into_iter().flat_map(|list| list.split(',')).map(str::to_owned).collect();
            let other = namespaces.iter().find(|namespace| !is_namespace(namespace));
            let problem = if namespaces.contains("") {
                Some("a namespace in it is empty; expected <prefix> or <prefix>=<namespace>,<namespace>".to_owned())
            } else if let Some(other) = other {
                Some(format!("{other:?} is not a namespace: {NAMESPACE}"))
            } else if pools.default.as_ref() == Some(&prefix) {
                Some("it is also the value of --pool-prefix, which every namespace may use".to_owned())
            } else if pools.named.insert(prefix, namespaces).is_some() {
                Some("the pool is named twice".to_owned())
            } else {
                None
            };
            if let Some(problem) = problem {
                return Err(Error::Option { option: "--pool", problem: format!("{text:?}: {problem}") });
            }
        }
        Ok(pools)
    }

    /// Of machines that name none.
    pub(crate) fn of_all(&self) -> Option<&PoolPrefix> {
        self.default.as_ref()
    }

    /// The pool from which an object of this namespace may take a host.
    pub(crate) fn granted(&self, wanted: Option<&str>, namespace: &str) -> Result<PoolPrefix, String> {
        let Some(wanted) = wanted else {
            return self.default.clone().ok_or_else(|| {
                "no pool: set spec.poolPrefix, or the controller's --pool-prefix; without a pool a host could only be \
                 destroyed when it is released"
                    .to_owned()
            });
        };
        let prefix: PoolPrefix = wanted.parse().map_err(|error: windlass_lifecycle::Error| error.to_string())?;
        let granted = self.default.as_ref() == Some(&prefix)
            || self.named.get(&prefix).is_some_and(|names| names.is_empty() || names.contains(namespace));
        if granted {
            Ok(prefix)
        } else {
            Err(format!(
                "namespace {namespace} may take no hosts from the pool {prefix}: the controller's --pool has to name \
                 it, with this namespace or for all"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(named: &[&str]) -> Result<Pools, Error> {
        Pools::of(Some("ci-pool-"), &named.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_pool_is_for_the_namespaces_that_its_option_names() {
        let pools = pools(&["all-", "some-=team-a,team-b"]).unwrap();
        for (wanted, namespace, granted) in [
            (None, "any", true),
            (Some("ci-pool-"), "any", true),
            (Some("all-"), "any", true),
            (Some("some-"), "team-a", true),
            (Some("some-"), "team-b", true),
            (Some("some-"), "team", false),
            (Some("other-"), "team-a", false),
            // Neither a part of a pool's prefix, nor what claims begin with.
            (Some("ci-"), "any", false),
            (Some("k8s-1a2b3c4d-"), "any", false),
            (Some(""), "any", false),
        ] {
            assert_eq!(pools.granted(wanted, namespace).is_ok(), granted, "{wanted:?} {namespace}");
        }
        assert!(Pools::default().granted(None, "any").unwrap_err().contains("--pool-prefix"));
        assert!(pools.granted(Some("some-"), "x").unwrap_err().contains("--pool has to name it"));
    }

    #[test]
    fn a_wrong_option_is_refused_with_its_fault() {
        for (named, part) in [
            (&["Pool-"][..], "'P'"),
            (&["a-", "a-=x"], "twice"),
            (&["ci-pool-=x"], "--pool-prefix"),
            (&["a-=x,,y"], "empty"),
            (&["a-="], "empty"),
            (&["a-=Team_A"], "is not a namespace"),
        ] {
            let error = pools(named).unwrap_err().to_string();
            assert!(error.contains(part), "{named:?}: {error}");
        }
    }
}
