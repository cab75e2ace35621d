//! Asking Scaleway whether it has what is wanted, before anything is spent.
//!
//! Asked: whether each server type exists in the zone, and one of each group's is in stock; whether the image fits it;
//! whether security groups, placement groups and private networks exist; and whether the cloud-init files can be read.
//! Looked at here: whether the hooks' programs, secrets and keys are there. Quotas are asked where they can be
//! ([`quotas`]).

use std::collections::{BTreeMap, BTreeSet};

use windlass_lifecycle::{ImageChoice, VolumeKind};
use windlass_policy::slots::types::{Failure, FailureClass};
use windlass_scaleway::Client;
use windlass_scaleway::types::instance::{ServerType, Stock};
use windlass_scaleway::types::marketplace::ImageStorage;

use crate::cloud_init::ReadCloudInit;
use crate::failure;
use crate::hooks::{Hook, RunHooks};
use crate::name::NodeGroupName;
use crate::record::{NodeRole, Stage};
use crate::run::{Run, Stop};
use crate::specification::{ClusterSpecification, NodeGroup};
use crate::stages::quotas;

/// What Scaleway says about a zone's server types.
struct Catalogue {
    types: BTreeMap<String, ServerType>,
    stock: BTreeMap<String, Stock>,
}

fn wrong(place: String, problem: impl std::fmt::Display) -> Failure {
    failure::of_class(FailureClass::InvalidArguments, format!("{place}: {problem}"))
}

/// Validates the groups that grow, one event for each.
pub(crate) async fn validate(run: &Run, growing: &BTreeSet<NodeGroupName>) -> Result<(), Stop> {
    let step = run.begin_step(Stage::Validate, "ask Scaleway", growing.len()).await?;
    let specification = run.book.lock().cluster.specification.clone();
    if let Some(failed) = hook_problems(run.shared.hooks.as_ref(), &specification).into_iter().next() {
        return Err(Stop::failed(Stage::Validate, failed));
    }
    let (client, cloud_inits) = (&run.shared.client, run.shared.cloud_inits.as_ref());
    let catalogue = &run.attempt(step, || catalogue(client, &specification)).await?;
    let demand = demand(run);
    run.attempt(step, || quotas::check(client, &specification, &demand)).await?;
    for name in growing {
        let Some(group) = specification.groups.get(name) else { continue };
        let checked =
            run.attempt(step, || check_group(client, cloud_inits, &specification, catalogue, name, group)).await;
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
    let made = specification.groups.iter().map(|(name, group)| (name.clone(), group.count.into())).collect();
    let demand = quotas::Demand { made, given_back: there };
    let mut problems = Vec::from_iter(quotas::check(client, specification, &demand).await.err());
    for (name, group) in &specification.groups {
        problems.extend(check_group(client, cloud_inits, specification, &catalogue, name, group).await.err());
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

async fn catalogue(client: &Client, specification: &ClusterSpecification) -> Result<Catalogue, Failure> {
    let instance = client.instance(&specification.zone);
    let of_error = |error| windlass_lifecycle::failure_of(&error);
    let (types, stock) = futures::future::try_join(instance.list_server_types(), instance.server_type_availability())
        .await
        .map_err(of_error)?;
    Ok(Catalogue { types, stock })
}

async fn check_group(
    client: &Client,
    cloud_inits: &dyn ReadCloudInit,
    specification: &ClusterSpecification,
    catalogue: &Catalogue,
    name: &NodeGroupName,
    group: &NodeGroup,
) -> Result<(), Failure> {
    let place = |field: &str| format!("groups.{name}.{field}");
    let zone = &specification.zone;
    let instance = client.instance(zone);
    let of_error = |error: windlass_scaleway::Error, place: String| {
        let mut failed = windlass_lifecycle::failure_of(&error);
        failed.message = failure::bounded(&format!("{place}: {}", failed.message));
        failed
    };
    for server_type in &group.types {
        let known = catalogue.types.iter().any(|(known, data)| {
            known.eq_ignore_ascii_case(server_type)
                || data.alt_names.iter().any(|alt| alt.eq_ignore_ascii_case(server_type))
        });
        if !known {
            let near = catalogue
                .types
                .keys()
                .map(|known| (strsim::jaro_winkler(&server_type.to_uppercase(), known), known))
                .max_by(|left, right| left.0.total_cmp(&right.0));
            let near = near.map(|(_, near)| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(wrong(place("types"), format!("{zone} has no server type {server_type}{near}")));
        }
    }
    let out = |server_type: &String| {
        catalogue
            .stock
            .iter()
            .any(|(known, stock)| known.eq_ignore_ascii_case(server_type) && *stock == Stock::Shortage)
    };
    if group.types.iter().all(out) {
        let words = format!("{}: {} has no {} left", place("types"), zone, group.types.join(" and no "));
        return Err(failure::of_class(FailureClass::OutOfStock, words));
    }
    match ImageChoice::parse(&group.image) {
        // Never parsed from a text.
        ImageChoice::Name(_) | ImageChoice::Tag(_) => {}
        ImageChoice::Id(id) => {
            instance.get_image(&id).await.map_err(|error| of_error(error, place("image")))?;
        }
        ImageChoice::Label(label) => {
            let storage = match group.root_volume.kind {
                VolumeKind::Block => ImageStorage::BlockStorage,
                VolumeKind::Local => ImageStorage::Local,
            };
            for server_type in group.types.iter().filter(|server_type| !out(server_type)) {
                client
                    .marketplace()
                    .resolve_image(&label, zone, server_type, storage.clone())
                    .await
                    .map_err(|error| of_error(error, place("image")))?;
            }
        }
    }
    if let Some(id) = &group.security_group {
        instance.get_security_group(id).await.map_err(|error| of_error(error, place("security_group")))?;
    }
    if let Some(id) = &group.placement_group {
        instance.get_placement_group(id).await.map_err(|error| of_error(error, place("placement_group")))?;
    }
    for network in &group.private_networks {
        // An id is a UUID (checked before), so it needs no escaping.
        let path = format!("/vpc/v2/regions/{}/private-networks/{network}", zone.region());
        let answer =
            client.send_raw("GET", &path, None).await.map_err(|error| of_error(error, place("private_networks")))?;
        let class = match answer.status {
            200..=299 => continue,
            404 => {
                let words = format!("{} has no private network {network}", zone.region());
                return Err(wrong(place("private_networks"), words));
            }
            401 | 403 => FailureClass::PermissionDenied,
            429 => FailureClass::RateLimited,
            _ => FailureClass::ServerError,
        };
        let mut failed = failure::of_class(class, format!("{}: {network}", place("private_networks")));
        (failed.method, failed.path, failed.status) = (Some("GET".to_owned()), Some(path), Some(answer.status));
        return Err(failed);
    }
    cloud_inits
        .read(specification, name)
        .await
        .map(drop)
        .map_err(|problem| failure::of_class(FailureClass::InvalidArguments, place(&problem)))
}

/// How many servers the operation makes in each group, and how many leave it.
fn demand(run: &Run) -> quotas::Demand {
    let mut demand = quotas::Demand::default();
    for node in run.book.lock().nodes.values() {
        let count = match node.role {
            NodeRole::Made => &mut demand.made,
            NodeRole::Leaving => &mut demand.given_back,
            NodeRole::Staying => continue,
        };
        *count.entry(node.group.clone()).or_default() += 1;
    }
    demand
}

/// The groups that the operation makes nodes in.
pub(crate) fn growing(run: &Run) -> BTreeSet<NodeGroupName> {
    let book = run.book.lock();
    book.nodes.values().filter(|node| node.role == NodeRole::Made).map(|node| node.group.clone()).collect()
}
