//! Servers as Scaleway has them now.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use windlass_lifecycle::read_or_absent;
use windlass_policy::slots::types::Failure;
use windlass_scaleway::types::instance::{ListServers, Server};
use windlass_scaleway::{Client, Zone};

/// Ids in one query at most: about 4 KiB of URL.
const IDS: usize = 100;
/// Servers that are read by their id at a time.
const PARALLEL: usize = 16;

/// These servers by their ids; absent from the answer is what does not exist. A list proves presence, never absence:
/// what it lacks is read by its id.
pub(crate) async fn see(client: &Client, zone: &Zone, ids: &[String]) -> Result<BTreeMap<String, Server>, Failure> {
    let instance = client.instance(zone);
    let of_error = |error| windlass_lifecycle::failure_of(&error);
    let requests: Vec<ListServers> =
        ids.chunks(IDS).map(|ids| ListServers { servers: ids.to_vec(), ..ListServers::default() }).collect();
    let lists = futures::future::try_join_all(requests.iter().map(|request| instance.list_servers(request)));
    let listed = lists.await.map_err(of_error)?.into_iter().flatten();
    let mut seen: BTreeMap<String, Server> = listed.map(|server| (server.id.clone(), server)).collect();
    read_unlisted(client, zone, ids, &mut seen).await.map_err(of_error)?;
    Ok(seen)
}

/// As [`see`], without a list.
pub(crate) async fn see_each(
    client: &Client,
    zone: &Zone,
    ids: &[String],
) -> Result<BTreeMap<String, Server>, Failure> {
    let mut seen = BTreeMap::new();
    let read = read_unlisted(client, zone, ids, &mut seen).await;
    read.map(|()| seen).map_err(|error| windlass_lifecycle::failure_of(&error))
}

/// Adds those of these servers that exist and that a listing lacked.
pub(crate) async fn read_unlisted(
    client: &Client,
    zone: &Zone,
    ids: &[String],
    seen: &mut BTreeMap<String, Server>,
) -> Result<(), windlass_scaleway::Error> {
    let unlisted: Vec<String> = ids.iter().filter(|id| !seen.contains_key(*id)).cloned().collect();
    let instance = &client.instance(zone);
    let mut reads = stream::iter(unlisted)
        .map(|id| async move { read_or_absent(|| instance.get_server(&id)).await })
        .buffer_unordered(PARALLEL);
    while let Some(server) = reads.try_next().await? {
        seen.extend(server.map(|server| (server.id.clone(), server)));
    }
    Ok(())
}

pub(crate) fn public_addresses(server: &Server) -> Vec<IpAddr> {
    let listed = server.public_ips.iter().chain(server.public_ip.as_ref().filter(|_| server.public_ips.is_empty()));
    listed.filter_map(|ip| ip.address.parse().ok()).collect()
}
