//! Hosts and servers that carry a claim or a tag of ours which no object explains, with the controller's own credentials
//! and with those of each tenant: told of at each interval. Hosts are given back when that is configured; servers are
//! never touched. Who watches one namespace does not look: what is of all others would be an orphan to it.

mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_lifecycle::{Control, Reclaim, ReclaimMode, ReclaimRequest};
use windlass_scaleway::Zone;

use crate::arguments::{Orphans, RunArguments};
use crate::context::Context;
use crate::kinds::{AppleSiliconMachine, annotations};
use crate::lease::lease_name;
use crate::names::{ProviderId, claim, claim_prefix};
use crate::{Error, metric_names};

/// Objects of one page of a listing.
const PAGE: u32 = 500;

/// How orphans are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    mode: Orphans,
    interval: Duration,
    grace: Duration,
    /// The namespace of the controller's own Lease, of which events are told.
    own_namespace: String,
    lease: String,
}

impl Watch {
    /// Nothing where not all namespaces are watched.
    pub(crate) fn of(arguments: &RunArguments) -> Option<Self> {
        arguments.namespace.is_none().then(|| Self {
            mode: arguments.orphans,
            interval: arguments.orphans_interval,
            grace: arguments.orphans_grace,
            own_namespace: arguments.leader_elect_namespace.clone(),
            lease: lease_name(arguments),
        })
    }
}

/// Refuses what cannot be done: to give hosts back whose claims may be explained where nobody looks.
pub(crate) fn check(arguments: &RunArguments) -> Result<(), Error> {
    match (arguments.orphans, &arguments.namespace) {
        (Orphans::Return, Some(namespace)) => Err(Error::Option {
            option: "--orphans",
            problem: format!(
                "`return` needs all namespaces, and --namespace names {namespace:?}: what carries a claim of another one would be \
                 wiped. Leave one of the two out"
            ),
        }),
        _ => Ok(()),
    }
}

/// What is remembered of an account from look to look.
#[derive(Default)]
struct Account {
    /// The zones in which there ever were machines: an orphan is what is left when the last of them is gone.
    zones: BTreeSet<Zone>,
    /// The orphaned hosts, and since when they are known.
    hosts: BTreeMap<String, Instant>,
    /// The servers without an object, and whether that was told.
    servers: BTreeMap<String, bool>,
}

/// How many there are in each zone.
#[derive(Default)]
struct Counts {
    hosts: BTreeMap<Zone, usize>,
    servers: BTreeMap<Zone, usize>,
}

/// Looks at each interval.
pub(crate) async fn watch(context: Arc<Context>, watch: Watch, stop: CancellationToken) {
    let mut accounts = BTreeMap::<String, Account>::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(watch.interval) => {}
        }
        let mut counts = Counts::default();
        for context in context.accounts.contexts(&context).await {
            let account = accounts.entry(context.settings.owner.to_string()).or_default();
            if let Err(error) = look(&context, &watch, account, &mut counts).await {
                let owner = &context.settings.owner;
                tracing::warn!(error = &error as &dyn std::error::Error, %owner, "orphans could not be looked for");
            }
        }
        for (metric, counts) in
            [(metric_names::ORPHANS, counts.hosts), (metric_names::ORPHANED_SERVERS, counts.servers)]
        {
            for (zone, count) in counts {
                metrics::gauge!(metric, "zone" => zone.to_string()).set(count as f64);
            }
        }
    }
}

async fn look(context: &Context, watch: &Watch, account: &mut Account, counts: &mut Counts) -> Result<(), Error> {
    look_for_hosts(context, watch, account, counts).await?;
    servers::look(context, watch, account, counts).await
}

/// Who is alive, and the zones in which they are.
async fn living(context: &Context) -> Result<(BTreeSet<String>, BTreeSet<Zone>), Error> {
    let api: Api<AppleSiliconMachine> = Api::all(context.client.clone());
    let (mut live, mut zones) = (BTreeSet::new(), BTreeSet::new());
    zones.extend(context.settings.zone.clone());
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&parameters).await.map_err(Error::kubernetes("listing the living machines"))?;
        for object in &page.items {
            // One that waits for an approval names its host in the annotation.
            live.extend(object.annotations().get(annotations::CLAIM).cloned());
            let own = claim(&context.settings.owner, &object.name_any(), &object.uid().unwrap_or_default())?;
            live.insert(own.to_string());
            if let Some(Ok(provider)) = object.spec.provider_id.as_deref().map(str::parse::<ProviderId>) {
                live.insert(provider.id().to_owned());
                zones.insert(provider.zone().clone());
            }
            if let Some(status) = &object.status {
                live.extend(status.server_id.clone());
            }
            zones.extend(object.spec.zone.as_deref().and_then(|zone| zone.parse().ok()));
        }
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => parameters = parameters.continue_token(&next),
            _ => return Ok((live, zones)),
        }
    }
}

async fn look_for_hosts(
    context: &Context,
    watch: &Watch,
    account: &mut Account,
    counts: &mut Counts,
) -> Result<(), Error> {
    account.zones.extend(living(context).await?.1);
    let (zones, first_seen) = (account.zones.clone(), &mut account.hosts);
    let mut seen = BTreeSet::new();
    for zone in zones {
        // Anew for each zone: who came to life meanwhile is explained.
        let (live, _) = living(context).await?;
        let told = reclaim(context, &zone, live.clone(), ReclaimMode::Report, watch.grace).await?;
        *counts.hosts.entry(zone.clone()).or_default() += told.stranded.len();
        for stranded in &told.stranded {
            seen.insert(stranded.host.clone());
            let new = !first_seen.contains_key(&stranded.host);
            let since = *first_seen.entry(stranded.host.clone()).or_insert_with(Instant::now);
            if new {
                let note = format!(
                    "the host {} in {zone} carries the claim {:?}, which no AppleSiliconMachine explains",
                    stranded.host, stranded.claim
                );
                context.event(&about(watch), true, "OrphanedHost", "Reclaim", &note).await;
            }
            let due = since.elapsed() >= watch.grace;
            if !due || watch.mode != Orphans::Return {
                continue;
            }
            let Some(prefix) = context.settings.pools.of_all().cloned() else {
                tracing::warn!(host = stranded.host, "an orphan cannot return: --pool-prefix is not set");
                continue;
            };
            // Only this one: all others that are stranded count as alive.
            let (mut others, _) = living(context).await?;
            others.extend(
                told.stranded.iter().filter(|other| other.host != stranded.host).map(|other| other.host.clone()),
            );
            let done = reclaim(context, &zone, others, ReclaimMode::ReturnToPool(prefix), watch.grace).await?;
            for ended in done.stranded {
                let what = match (&ended.released, &ended.problem) {
                    (Some(released), _) => crate::outcome::words(released),
                    (None, Some(problem)) => problem.clone(),
                    (None, None) => ended.spared.clone().unwrap_or_default(),
                };
                let warning = ended.problem.is_some();
                let note = format!("the orphaned host {} in {zone}: {what}", ended.host);
                context.event(&about(watch), warning, "OrphanReclaimed", "Reclaim", &note).await;
            }
        }
    }
    first_seen.retain(|host, _| seen.contains(host));
    Ok(())
}

async fn reclaim(
    context: &Context,
    zone: &Zone,
    live: BTreeSet<String>,
    mode: ReclaimMode,
    grace: Duration,
) -> Result<Reclaim, Error> {
    let request =
        ReclaimRequest { zone: zone.clone(), claim_prefix: claim_prefix(&context.settings.owner), live, grace, mode };
    Ok(context.lifecycle.reclaim(&request, &Control::new()).await?)
}

/// Orphans have no object: their events are told of the Lease.
fn about(watch: &Watch) -> ObjectReference {
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        namespace: Some(watch.own_namespace.clone()),
        name: Some(watch.lease.clone()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    fn arguments(of: &[&str]) -> RunArguments {
        Arguments::try_parse_from([&["windlass-controller"], of].concat()).unwrap().run
    }

    #[test]
    fn one_namespace_alone_neither_reports_nor_returns_what_others_may_explain() {
        assert!(Watch::of(&arguments(&["--namespace=ci"])).is_none());
        let error = check(&arguments(&["--namespace=ci", "--orphans=return"])).unwrap_err().to_string();
        assert!(error.starts_with("--orphans: ") && error.contains("--namespace"), "{error}");
        for fine in [&["--namespace=ci"][..], &["--orphans=return"], &[]] {
            assert!(check(&arguments(fine)).is_ok(), "{fine:?}");
        }
        assert_eq!(Watch::of(&arguments(&[])).map(|watch| watch.mode), Some(Orphans::Report));
    }
}
