//! Instance servers with our owner tag that no object explains.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::ListParams;
use windlass_scaleway::Zone;
use windlass_scaleway::types::instance::Server;

use super::known::{Account, Counts, Watch, about};
use crate::Error;
use crate::account_of::objects;
use crate::context::Context;
use crate::kinds::{InstanceMachine, ServerCluster, annotations};
use crate::kubernetes::for_each;
use crate::names::ProviderId;
use crate::server_fields::operation_of;

/// The tag of a server that a policy, or its owner, wanted kept.
const KEPT: &str = "windlass-kept";

/// The ids of servers, and the operations that make them, of all objects; and the zones in which they say they are.
pub(super) async fn explained(context: &Context) -> Result<(BTreeSet<String>, BTreeSet<Zone>), Error> {
    let (mut explained, mut zones) = (BTreeSet::new(), BTreeSet::new());
    for_each(&objects::<InstanceMachine>(context), "listing the living instances", |object| {
        explained.extend(object.annotations().get(annotations::OPERATION).cloned());
        zones.extend(object.spec.zone.as_deref().and_then(|zone| zone.parse().ok()));
        if let Some(Ok(provider)) = object.spec.provider_id.as_deref().map(str::parse::<ProviderId>) {
            zones.insert(provider.zone().clone());
            explained.insert(provider.id().to_owned());
        }
        let status = object.status.unwrap_or_default();
        explained.extend(status.server_id.into_iter().chain(status.creation));
        Ok(())
    })
    .await?;
    if !context.settings.server_clusters {
        return Ok((explained, zones));
    }
    let clusters = objects::<ServerCluster>(context).list(&ListParams::default()).await;
    for object in clusters.map_err(Error::kubernetes("listing the living clusters of servers"))? {
        zones.extend(object.spec.zone.parse().ok());
        let nodes = object.status.into_iter().flat_map(|status| status.nodes);
        explained.extend(nodes.flat_map(|node| node.server_id.into_iter().chain(node.creation)));
    }
    Ok((explained, zones))
}

fn is_explained(server: &Server, explained: &BTreeSet<String>) -> bool {
    explained.contains(&server.id)
        || operation_of(server).is_some_and(|operation| explained.contains(operation))
        || server.tags.iter().any(|tag| tag == KEPT)
}

/// Tells of a server that was without an object at the last look, too: one alone may fall between the making of a
/// server and the writing of it.
pub(super) async fn look(
    context: &Context,
    watch: &Watch,
    zones: &BTreeSet<Zone>,
    account: &mut Account,
    counts: &mut Counts,
) -> Result<(), Error> {
    // What the objects explain is read after what it is to explain: who was made meanwhile is no orphan.
    let mut servers = Vec::new();
    for zone in zones {
        // One zone that cannot be listed hides no other: an object may name one that is none.
        match context.lifecycle.servers(zone).await {
            Ok(listing) => servers.push((listing, zone)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, %zone, "cannot look for orphaned servers");
            }
        }
    }
    let (explained, _) = explained(context).await?;
    account.listed.extend(servers.iter().map(|(_, zone)| (*zone).clone()));
    let looked_at: BTreeSet<Zone> = servers.iter().map(|(_, zone)| (*zone).clone()).collect();
    let mut found = BTreeSet::new();
    for (listing, zone) in servers {
        let count = counts.servers.entry(zone.clone()).or_default();
        for server in listing.machines.iter().filter(|server| !is_explained(server, &explained)) {
            found.insert(server.id.clone());
            let Some((_, reported)) = account.servers.get_mut(&server.id) else {
                account.servers.insert(server.id.clone(), (zone.clone(), false));
                continue;
            };
            *count += 1;
            if !std::mem::replace(reported, true) {
                let note = format!(
                    "the server {} ({}) in {zone} has Windlass's tags, but belongs to no InstanceMachine or \
                     ServerCluster: delete it if nobody needs it",
                    server.id, server.name
                );
                context.event(&about(watch), true, "OrphanedServer", "Report", &note).await;
            }
        }
    }
    account.servers.retain(|id, (zone, _)| found.contains(id) || !looked_at.contains(zone));
    Ok(())
}
