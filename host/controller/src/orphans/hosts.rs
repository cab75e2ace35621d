//! Hosts whose claim no object explains.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::ResourceExt;
use tokio::time::Instant;
use windlass_lifecycle::{Control, Reclaim, ReclaimMode, ReclaimRequest};
use windlass_scaleway::Zone;

use super::known::{Account, Counts, Watch, about};
use crate::Error;
use crate::account_of::objects;
use crate::arguments::Orphans;
use crate::context::Context;
use crate::kinds::{AppleSiliconMachine, annotations};
use crate::kubernetes::for_each;
use crate::names::{ProviderId, claim, claim_prefix};

/// Who is alive, and the zones in which they are, or say that they are.
pub(super) async fn living(context: &Context) -> Result<(BTreeSet<String>, BTreeSet<Zone>), Error> {
    let api = objects::<AppleSiliconMachine>(context);
    let (mut live, mut zones) = (BTreeSet::new(), BTreeSet::new());
    zones.extend(context.settings.zone.clone());
    for_each(&api, "listing the living machines", |object| {
        // One that waits for an approval names its host in the annotation.
        live.extend(object.annotations().get(annotations::CLAIM).cloned());
        live.extend(object.status.as_ref().and_then(|status| status.claim.clone()));
        let own = claim(&context.settings.owner, &object.name_any(), &object.uid().unwrap_or_default())?;
        live.insert(own.to_string());
        if let Some(Ok(provider)) = object.spec.provider_id.as_deref().map(str::parse::<ProviderId>) {
            live.insert(provider.id().to_owned());
            zones.insert(provider.zone().clone());
        }
        zones.extend(object.spec.zone.as_deref().and_then(|zone| zone.parse().ok()));
        live.extend(object.status.and_then(|status| status.server_id));
        Ok(())
    })
    .await?;
    Ok((live, zones))
}

/// Tells of a host whose claim nobody explains, and gives it back after a while where that is configured.
pub(super) async fn look(
    context: &Context,
    watch: &Watch,
    zones: &BTreeSet<Zone>,
    account: &mut Account,
    counts: &mut Counts,
) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for zone in zones {
        // Anew for each zone: who came to life meanwhile is explained.
        let (live, _) = living(context).await?;
        // One zone that cannot be listed hides no other: an object may name one that is none.
        let report = match reclaim(context, zone, live.clone(), ReclaimMode::Report, watch.grace).await {
            Ok(report) => report,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, %zone, "cannot look for orphaned hosts");
                seen.extend(account.hosts.iter().filter(|(_, (of, _))| of == zone).map(|(host, _)| host.clone()));
                continue;
            }
        };
        account.listed.insert(zone.clone());
        let first_seen = &mut account.hosts;
        *counts.hosts.entry(zone.clone()).or_default() += report.stranded.len();
        for stranded in &report.stranded {
            seen.insert(stranded.host.clone());
            let new = !first_seen.contains_key(&stranded.host);
            let (_, since) = *first_seen.entry(stranded.host.clone()).or_insert_with(|| (zone.clone(), Instant::now()));
            if new {
                let remedy = match watch.mode {
                    Orphans::Report => "; reinstall it and give it a name of its pool, or set --orphans=return",
                    Orphans::Return => "",
                };
                let note = format!(
                    "the host {} in {zone} has the claim {:?}, but no AppleSiliconMachine has that claim{remedy}",
                    stranded.host, stranded.claim
                );
                context.event(&about(watch), true, "OrphanedHost", "Reclaim", &note).await;
            }
            let due = since.elapsed() >= watch.grace;
            if !due || watch.mode != Orphans::Return {
                continue;
            }
            let Some(prefix) = context.settings.pools.of_all().cloned() else {
                tracing::warn!(
                    host = stranded.host,
                    "cannot return an orphaned host to the pool: --pool-prefix is not set"
                );
                continue;
            };
            // Only this one: all others that are stranded count as alive.
            let (mut others, _) = living(context).await?;
            others.extend(
                report.stranded.iter().filter(|other| other.host != stranded.host).map(|other| other.host.clone()),
            );
            let returning = ReclaimMode::ReturnToPool(prefix);
            let done = match reclaim(context, zone, others, returning, watch.grace).await {
                Ok(done) => done,
                Err(error) => {
                    let (error, host) = (&error as &dyn std::error::Error, &stranded.host);
                    tracing::warn!(error, %zone, host, "cannot return an orphaned host to the pool");
                    continue;
                }
            };
            for ended in done.stranded {
                let what = match (&ended.released, &ended.problem) {
                    (Some(released), _) => released.words(),
                    (None, Some(problem)) => problem.clone(),
                    (None, None) => ended.spared.clone().unwrap_or_default(),
                };
                let warning = ended.problem.is_some();
                let note = format!("the orphaned host {} in {zone}: {what}", ended.host);
                context.event(&about(watch), warning, "OrphanReclaimed", "Reclaim", &note).await;
            }
        }
    }
    account.hosts.retain(|host, _| seen.contains(host));
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
