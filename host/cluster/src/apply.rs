//! From one specification to another: what differs, what becomes of it, and how a cluster is brought there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::clusters::Clusters;
use crate::dry_run::ClusterPlan;
use crate::failure::short;
use crate::name::{ClusterName, NodeGroupName};
use crate::record::{Cluster, Node, NodeState, OperationKind};
use crate::selection::ScaleRequest;
use crate::specification::{ClusterSpecification, InvalidSpecification};
use crate::stages::{look, see};
use crate::store::{StoreError, StoredCluster};
use crate::{ClusterControl, ClusterOutcome, Error};

/// What a cluster would become by another specification.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterDifference {
    pub cluster: ClusterName,
    /// Whether there is none of this name, so that it would be created.
    pub creates: bool,
    /// What differs, key by key.
    pub changes: Vec<SpecificationChange>,
    /// Nodes that would be made and removed, and hooks that would be run.
    pub plan: ClusterPlan,
    /// Nodes that serve and were made by another specification of their group: they stay as they are until they are
    /// replaced.
    pub outdated: Vec<String>,
}

impl ClusterDifference {
    /// Whether nothing would be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.creates && self.changes.is_empty() && self.plan.make.is_empty() && self.plan.remove.is_empty()
    }
}

/// One key that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpecificationChange {
    /// The key, for example `groups.web.count`.
    pub place: String,
    /// As it is: JSON, cut where it is long. Absent: it is not there.
    pub from: Option<String>,
    /// As it would be.
    pub to: Option<String>,
    /// What it is about.
    pub takes: Takes,
}

/// What a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Takes {
    /// The cluster as it is: nodes come and go, hooks and limits count from now on.
    InPlace,
    /// Nodes that are made from now on. Those that there are stay as they are until they are replaced.
    NewNodes,
}

/// The longest value that is printed.
const MAX_VALUE_LEN: usize = 120;

/// The keys that differ between two values, the deepest ones.
fn differences(place: &str, from: Option<&Value>, to: Option<&Value>, found: &mut Vec<SpecificationChange>) {
    if from == to {
        return;
    }
    if let (Some(Value::Object(a)), Some(Value::Object(b))) = (from, to) {
        let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for key in keys {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            differences(&place, a.get(key), b.get(key), found);
        }
        return;
    }
    let words = |value: Option<&Value>| value.map(|value| windlass_policy::cut(value.to_string(), MAX_VALUE_LEN));
    found.push(SpecificationChange { place: place.to_owned(), from: words(from), to: words(to), takes: takes(place) });
}

/// What of a specification is about a node from its making on, and what can be changed in place.
fn takes(place: &str) -> Takes {
    let mut parts = place.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("groups"), Some(_), Some("count") | None) => Takes::InPlace,
        (Some("groups"), _, _) => Takes::NewNodes,
        _ => Takes::InPlace,
    }
}

/// What differs from one specification to the next, the URLs of webhooks included, and shown as scheme and host.
fn compare(from: &ClusterSpecification, to: &ClusterSpecification) -> Vec<SpecificationChange> {
    let mut found = Vec::new();
    let shown = |of: &ClusterSpecification| serde_json::to_value(of).unwrap_or_default();
    let whole = |of: &ClusterSpecification| of.with_secrets().unwrap_or_default();
    differences("", Some(&shown(from)), Some(&shown(to)), &mut found);
    let mut with_secrets = Vec::new();
    differences("", Some(&whole(from)), Some(&whole(to)), &mut with_secrets);
    for change in with_secrets {
        if !found.iter().any(|known| known.place == change.place) {
            let hidden = || Some("(not shown)".to_owned());
            found.push(SpecificationChange { from: hidden(), to: hidden(), ..change });
        }
    }
    found
}

/// The specification that a cluster gets: the new one, and those of its groups that it lacks, without nodes.
fn merged(stored: &StoredCluster, wanted: &ClusterSpecification) -> Result<ClusterSpecification, Error> {
    let old = &stored.cluster.specification;
    let project = |of: &ClusterSpecification| of.project.clone().unwrap_or_else(|| "the default one".to_owned());
    for (place, is, wants) in
        [("zone", old.zone.to_string(), wanted.zone.to_string()), ("project", project(old), project(wanted))]
    {
        if is != wants {
            let problem = format!(
                "it cannot be changed from {is} to {wants}: servers do not move; write {is}, or give the file another \
                 name, for another cluster"
            );
            return Err(InvalidSpecification::new(place, problem).into());
        }
    }
    let mut merged = wanted.clone();
    for (name, group) in &old.groups {
        // Its nodes must stay distinguishable and keep their numbers until they are gone.
        if !merged.groups.contains_key(name) && stored.nodes.iter().any(|node| node.group == *name) {
            let mut group = group.clone();
            group.count = 0;
            merged.groups.insert(name.clone(), group);
        }
    }
    merged.check()?;
    Ok(merged)
}

/// The nodes that serve, and would be made otherwise now. The cluster's specification does not tell: an `apply` changes
/// it and replaces no node.
fn outdated(wanted: &ClusterSpecification, nodes: &[Node]) -> Vec<String> {
    let digests: BTreeMap<&NodeGroupName, String> =
        wanted.groups.iter().map(|(name, group)| (name, group.digest())).collect();
    let differs = |node: &&Node| {
        let (made, now) = (&node.template, digests.get(&node.group));
        now.is_some() && made.is_some() && made.as_ref() != now
    };
    nodes.iter().filter(|node| !node.is_spent()).filter(differs).map(|node| node.name.clone()).collect()
}

fn counts(specification: &ClusterSpecification) -> ScaleRequest {
    let counts = specification.groups.iter().map(|(name, group)| (name.clone(), group.count)).collect();
    ScaleRequest { counts, ..ScaleRequest::default() }
}

impl Clusters {
    /// What [`Clusters::apply`] would do. Asks nobody.
    ///
    /// # Errors
    /// [`Error::Specification`] for what cannot be, or cannot be changed; and the store's.
    pub async fn difference(&self, wanted: &ClusterSpecification) -> Result<ClusterDifference, Error> {
        wanted.check()?;
        let cluster = wanted.name.clone();
        let Some(stored) = self.shared.store.cluster(&cluster).await? else {
            self.refuse_same_names(wanted, None).await?;
            let plan = ClusterPlan::of_creation(wanted)?;
            return Ok(ClusterDifference { cluster, creates: true, changes: Vec::new(), plan, outdated: Vec::new() });
        };
        let merged = merged(&stored, wanted)?;
        self.refuse_same_names(&merged, Some(&stored.cluster.specification)).await?;
        let changes = compare(&stored.cluster.specification, &merged);
        let outdated = outdated(&merged, &stored.nodes);
        let as_wanted = Cluster { specification: merged.clone(), ..stored.cluster };
        let plan = self.plan_of(&as_wanted, stored.nodes, &counts(&merged)).await?;
        let outdated = outdated.into_iter().filter(|node| !plan.remove.contains(node)).collect();
        Ok(ClusterDifference { cluster, creates: false, changes, plan, outdated })
    }

    /// Makes a cluster what a specification says: creates it where there is none; else hooks and limits count from now
    /// on, and nodes come and go as in [`Clusters::scale`], which it is. New nodes are made as the specification says;
    /// those that there are stay as they were made, until they are replaced ([`ScaleRequest::replace`]).
    ///
    /// A cluster in `error` is repaired by it, as by a scaling: so a wrong hook is mended in one go.
    ///
    /// # Errors
    /// As [`Clusters::create`] and [`Clusters::scale`].
    pub async fn apply(
        &self,
        wanted: &ClusterSpecification,
        control: &ClusterControl,
    ) -> Result<ClusterOutcome, Error> {
        wanted.check()?;
        loop {
            let Some(stored) = self.shared.store.cluster(&wanted.name).await? else {
                return self.create(wanted.clone(), control).await;
            };
            self.refuse_busy(&stored).await?;
            let merged = merged(&stored, wanted)?;
            self.refuse_same_names(&merged, Some(&stored.cluster.specification)).await?;
            let request = counts(&merged);
            match self.begin_scale(stored, Some(merged), &request, control).await {
                // Somebody was quicker: look again at what it does.
                Err(Error::Store(StoreError::Overtaken | StoreError::Gone)) => {}
                ended => return ended,
            }
        }
    }

    /// The specification of a cluster as it is now, with the whole URLs of its webhooks.
    ///
    /// # Errors
    /// [`Error::Unknown`], and the store's.
    pub async fn export(&self, name: &ClusterName) -> Result<Value, Error> {
        let specification = self.stored(name).await?.cluster.specification;
        specification.with_secrets().map_err(|error| InvalidSpecification::new("it", short(error.to_string())).into())
    }

    /// What a scaling of this cluster with these nodes would do. As the scaling does, it looks at them first, so that
    /// it names the same; where Scaleway cannot be asked, it takes them as they are known.
    pub(crate) async fn plan_of(
        &self,
        cluster: &Cluster,
        mut nodes: Vec<Node>,
        request: &ScaleRequest,
    ) -> Result<ClusterPlan, Error> {
        let zone = &cluster.specification.zone;
        let runs = |node: &&mut Node| node.state == NodeState::Running && node.server.is_some();
        let ids: Vec<String> = nodes.iter_mut().filter(runs).filter_map(|node| node.server.clone()).collect();
        let mut gone = BTreeSet::new();
        if let Ok(seen) = see::see(&self.shared.client, zone, &ids).await {
            for node in nodes.iter_mut().filter(runs) {
                let server = node.server.as_ref().and_then(|id| seen.get(id));
                look::note_loss(node, server, self.shared.lifecycle.owner(), &mut gone);
            }
        }
        let nodes = crate::dry_run::selected(cluster, nodes, request, &gone)?;
        let number = self.next_number(&cluster.name).await?;
        Ok(crate::dry_run::plan(&cluster.specification, nodes, OperationKind::Scale, number, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{Hook, HookAction, ProgramHook};
    use crate::specification::NodeGroup;

    fn specification(count: u32, server_type: &str) -> ClusterSpecification {
        let mut specification = ClusterSpecification::new("farm".parse().unwrap(), "fr-par-1".parse().unwrap());
        specification.groups.insert("web".parse().unwrap(), NodeGroup::new(count, server_type, "ubuntu_noble"));
        specification.hooks.configure = Some(Hook::new(HookAction::Program(ProgramHook::new("./old.sh"))));
        specification
    }

    #[test]
    fn each_key_that_differs_is_named_with_what_it_is_about() {
        let (old, mut new) = (specification(2, "DEV1-S"), specification(3, "DEV1-M"));
        new.hooks.configure = Some(Hook::new(HookAction::Program(ProgramHook::new("./new.sh"))));
        new.groups.insert("db".parse().unwrap(), NodeGroup::new(1, "DEV1-S", "ubuntu_noble"));
        let changes = compare(&old, &new);
        let reported: Vec<(&str, Takes)> = changes.iter().map(|change| (change.place.as_str(), change.takes)).collect();
        assert_eq!(
            reported,
            [
                ("groups.db", Takes::InPlace),
                ("groups.web.count", Takes::InPlace),
                ("groups.web.types", Takes::NewNodes),
                ("hooks.configure.program.command", Takes::InPlace),
            ]
        );
        assert_eq!((changes[1].from.as_deref(), changes[1].to.as_deref()), (Some("2"), Some("3")));
        assert_eq!(compare(&new, &new), []);
    }

    #[test]
    fn a_webhook_that_differs_in_its_secret_only_differs_and_is_not_shown() {
        let with = |path: &str| {
            let mut of = specification(1, "DEV1-S");
            let text =
                serde_json::json!({ "webhook": { "url": format!("https://a.example/{path}"), "secret_env": "S" } });
            of.hooks.start = Some(serde_json::from_value(text).unwrap());
            of
        };
        let changes = compare(&with("hush-one"), &with("hush-two"));
        assert_eq!((changes.len(), changes[0].place.as_str()), (1, "hooks.start.webhook.url"));
        assert!(!format!("{changes:?}").contains("hush"), "{changes:?}");
    }
}
