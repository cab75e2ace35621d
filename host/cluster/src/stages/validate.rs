//! Asking Scaleway whether it has what is wanted, before anything is spent.
//!
//! Asked: what each group's server needs ([`account_problems`]), and whether the cloud-init files can be read. Looked at
//! here: whether the hooks' programs, secrets and keys are there. Quotas are asked where they can be
//! ([`check_quotas`]).

use std::collections::{BTreeMap, BTreeSet};

use windlass_lifecycle::{
    AccountProblem, Catalogue, QuotaDemand, QuotaRefusal, account_problems, check_quotas, no_servers_in,
};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::{Client, Zone};

use crate::cloud_init::ReadCloudInit;
use crate::hooks::{Hook, RunHooks};
use crate::name::NodeGroupName;
use crate::record::{NodeRole, Stage};
use crate::run::{Run, Stop};
use crate::specification::{ClusterSpecification, NodeGroup};

fn wrong(place: String, problem: impl std::fmt::Display) -> Failure {
    Failure::of_class(FailureClass::InvalidArguments, format!("{place}: {problem}"))
}

/// Validates the groups that grow, one event for each.
pub(crate) async fn validate(run: &Run, growing: &BTreeSet<NodeGroupName>) -> Result<(), Stop> {
    let step = run.begin_step(Stage::Validate, "ask Scaleway", growing.len()).await?;
    let specification = run.book.lock().cluster.specification.clone();
    if let Some(failed) = hook_problems(run.shared.hooks.as_ref(), &specification).into_iter().next() {
        return Err(Stop::failed(Stage::Validate, failed));
    }
    let (client, cloud_inits) = (&run.shared.client, run.shared.cloud_inits.as_ref());
    let asked = &run.attempt(step, || catalogue(client, &specification)).await?;
    let demand = demand(run, &specification);
    run.attempt(step, || quota_problem(client, &specification, &demand)).await?;
    for name in growing {
        let (specification, mut known) = (&specification, Some(asked));
        let check = || {
            let known = known.take();
            async move {
                match known {
                    Some(known) => check_group(client, cloud_inits, specification, known, name).await,
                    // Who waited for stock asks again whether it is back.
                    None => {
                        let asked_again = catalogue(client, specification).await?;
                        check_group(client, cloud_inits, specification, &asked_again, name).await
                    }
                }
            }
        };
        let checked = run.attempt(step, check).await;
        let at = run.now();
        let event = match &checked {
            Ok(()) => Run::done(step, name.as_str()),
            Err(Stop::Failed(failed)) => Run::failed(step, name.as_str(), &failed.failure.message),
            Err(_) => return checked,
        };
        run.change(|_, change| change.events.push((at, event))).await?;
        checked?;
    }
    Ok(())
}

/// Validates a whole specification outside of any operation. Gives what is wrong, group by group; nothing is tried
/// again. `there` are the nodes of each group that a cluster of this name has already.
pub(crate) async fn problems(
    client: &Client,
    cloud_inits: &dyn ReadCloudInit,
    specification: &ClusterSpecification,
    there: BTreeMap<NodeGroupName, u64>,
) -> Vec<Failure> {
    let catalogue = match catalogue(client, specification).await {
        Ok(catalogue) => catalogue,
        Err(failed) => return vec![failed],
    };
    let demand =
        demand_of(specification, |name, group| (group.count.into(), there.get(name).copied().unwrap_or_default()));
    let mut problems = Vec::from_iter(quota_problem(client, specification, &demand).await.err());
    for name in specification.groups.keys() {
        problems.extend(group_problems(client, cloud_inits, specification, &catalogue, name).await);
    }
    problems
}

/// What would make every run of a hook fail: a program that is not there, a secret or a key that cannot be read.
pub(crate) fn hook_problems(runner: &dyn RunHooks, specification: &ClusterSpecification) -> Vec<Failure> {
    let hooks = &specification.hooks;
    let by_name = [("decommission", &hooks.decommission), ("configure", &hooks.configure), ("start", &hooks.start)];
    let problem = |(name, hook): (&str, &Option<Hook>)| {
        let hook = hook.as_ref()?;
        let problem = runner.preflight(hook).err()?;
        Some(wrong(format!("hooks.{name}"), format!("{hook} {problem}")))
    };
    by_name.into_iter().filter_map(problem).collect()
}

/// Everything that is wrong with a group; what would fail for certain comes first.
async fn group_problems(
    client: &Client,
    cloud_inits: &dyn ReadCloudInit,
    specification: &ClusterSpecification,
    catalogue: &Catalogue,
    name: &NodeGroupName,
) -> Vec<Failure> {
    let place = |field: &str| format!("groups.{name}.{field}");
    let server = specification.server(name, name.as_str(), None);
    let mut found = account_problems(client, &server, catalogue).await;
    found.sort_by_key(|problem| !problem.is_certain());
    let placed = |AccountProblem { field, mut failure }| {
        failure.message = Failure::bounded(&format!("{}: {}", place(field), failure.message));
        failure
    };
    let mut problems: Vec<Failure> = found.into_iter().map(placed).collect();
    if let Err(problem) = cloud_inits.read(specification, name).await {
        problems.push(Failure::of_class(FailureClass::InvalidArguments, place(&problem)));
    }
    problems
}

async fn check_group(
    client: &Client,
    cloud_inits: &dyn ReadCloudInit,
    specification: &ClusterSpecification,
    catalogue: &Catalogue,
    name: &NodeGroupName,
) -> Result<(), Failure> {
    match group_problems(client, cloud_inits, specification, catalogue, name).await.into_iter().next() {
        None => Ok(()),
        Some(problem) => Err(problem),
    }
}

async fn catalogue(client: &Client, specification: &ClusterSpecification) -> Result<Catalogue, Failure> {
    let zone = &specification.zone;
    Catalogue::of(client, zone).await.map_err(|error| {
        // A zone that exists can be missing for a while: that is what a policy is asked about.
        match error.is_not_found() && !Zone::KNOWN.contains(&zone.as_str()) {
            true => wrong("zone".to_owned(), no_servers_in(zone)),
            false => windlass_lifecycle::failure_of(&error),
        }
    })
}

/// How many servers come and go, group by group.
fn demand_of(
    specification: &ClusterSpecification,
    count: impl Fn(&NodeGroupName, &NodeGroup) -> (u64, u64),
) -> Vec<QuotaDemand> {
    let demand = |(name, group): (&NodeGroupName, &NodeGroup)| {
        let (made, given_back) = count(name, group);
        QuotaDemand { types: group.types.clone(), made, given_back }
    };
    specification.groups.iter().map(demand).collect()
}

/// The demand of an operation: the nodes that it makes, and those that leave.
fn demand(run: &Run, specification: &ClusterSpecification) -> Vec<QuotaDemand> {
    let book = run.book.lock();
    demand_of(specification, |name, _| {
        let count = |role| book.nodes.values().filter(|node| node.group == *name && node.role == role).count() as u64;
        (count(NodeRole::Made), count(NodeRole::Leaving))
    })
}

/// Fails when a quota is certain to be exceeded, with the place in the specification.
async fn quota_problem(
    client: &Client,
    specification: &ClusterSpecification,
    demand: &[QuotaDemand],
) -> Result<(), Failure> {
    let placed = |QuotaRefusal { demand, mut failure }| {
        let group = demand.and_then(|position| specification.groups.keys().nth(position));
        let place = group.map_or_else(|| "groups".to_owned(), |name| format!("groups.{name}.types"));
        failure.message = format!("{place}: {}", failure.message);
        failure
    };
    check_quotas(client, &specification.zone, demand).await.map_err(placed)
}

/// The groups that the operation makes nodes in.
pub(crate) fn growing(run: &Run) -> BTreeSet<NodeGroupName> {
    let book = run.book.lock();
    book.nodes.values().filter(|node| node.role == NodeRole::Made).map(|node| node.group.clone()).collect()
}
