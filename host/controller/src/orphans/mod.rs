//! Hosts and servers that carry a claim or a tag of ours which no object explains, with the controller's own
//! credentials and with those of each tenant: told of at each interval. Hosts are given back when that is configured;
//! servers are never touched. Who watches one namespace does not look: what is of all others would be an orphan to it.

mod hosts;
mod known;
mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use crate::account_of::contexts;
use crate::arguments::{Orphans, RunArguments};
use crate::context::Context;
use crate::{Error, metric_names};
pub(crate) use known::Watch;
use known::{Account, Counts};

/// How many accounts are looked at concurrently.
const PARALLEL_ACCOUNTS: usize = 8;

/// Refuses what cannot be done: to give hosts back whose claims may be explained where nobody looks.
pub(crate) fn check(arguments: &RunArguments) -> Result<(), Error> {
    match (arguments.orphans, &arguments.namespace) {
        (Orphans::Return, Some(namespace)) => Err(Error::Option {
            option: "--orphans",
            problem: format!(
                "`return` needs all namespaces, and --namespace names {namespace:?}: hosts that other namespaces \
                 claimed would be wiped. Remove one of the two options"
            ),
        }),
        _ => Ok(()),
    }
}

/// Looks at each interval.
pub(crate) async fn watch(context: Arc<Context>, watch: Watch, stop: CancellationToken) {
    let shard = context.settings.shard;
    let mut accounts = BTreeMap::<String, Account>::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(watch.interval) => {}
        }
        // What was remembered of an account that was closed meanwhile goes with it.
        let mut before = std::mem::take(&mut accounts);
        let looks = contexts(&context).await.into_iter().map(|context| {
            let owner = context.settings.owner.to_string();
            let mut account = before.remove(&owner).unwrap_or_default();
            let watch = &watch;
            async move {
                let mut counts = Counts::default();
                if let Err(error) = look(&context, watch, &mut account, &mut counts).await {
                    tracing::warn!(error = &error as &dyn std::error::Error, %owner, "cannot look for orphans");
                }
                (owner, account, counts)
            }
        });
        let looks = stream::iter(looks).buffer_unordered(PARALLEL_ACCOUNTS).collect::<Vec<_>>().await;
        let mut counts = Counts::default();
        for (owner, account, of_account) in looks {
            accounts.insert(owner, account);
            counts.add(of_account);
        }
        for (metric, counts) in
            [(metric_names::ORPHANS, counts.hosts), (metric_names::ORPHANED_SERVERS, counts.servers)]
        {
            for (zone, count) in counts {
                let labels = shard.labels([("zone", zone.to_string())]);
                metrics::gauge!(metric, labels).set(count as f64);
            }
        }
    }
}

async fn look(context: &Context, watch: &Watch, account: &mut Account, counts: &mut Counts) -> Result<(), Error> {
    let (_, mut zones) = hosts::living(context).await?;
    zones.extend(servers::explained(context).await?.1);
    zones.extend(account.listed.iter().cloned());
    hosts::look(context, watch, &zones, account, counts).await?;
    servers::look(context, watch, &zones, account, counts).await
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;
    use crate::shard::Shard;

    fn arguments(of: &[&str]) -> RunArguments {
        Arguments::try_parse_from([&["windlass-controller"], of].concat()).unwrap().run
    }

    #[test]
    fn one_namespace_alone_neither_reports_nor_returns_what_others_may_explain() {
        assert!(Watch::of(&arguments(&["--namespace=ci"]), Shard::WHOLE).is_none());
        let error = check(&arguments(&["--namespace=ci", "--orphans=return"])).unwrap_err().to_string();
        assert!(error.starts_with("--orphans: ") && error.contains("--namespace"), "{error}");
        for fine in [&["--namespace=ci"][..], &["--orphans=return"], &[]] {
            assert!(check(&arguments(fine)).is_ok(), "{fine:?}");
        }
        assert_eq!(Watch::of(&arguments(&[]), Shard::WHOLE).map(|watch| watch.mode), Some(Orphans::Report));
    }
}
