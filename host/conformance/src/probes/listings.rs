//! What listings hold, when, and how many they say that there are.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::api::{Kind, Listing, Stop};
use crate::bench::{Bench, Listed};
use crate::fixture::Fixture;
use crate::probe::{Asked, Verdict};

/// What creations are looked up after, when their answer was lost: the lifecycle's settle time.
pub(super) fn settle() -> Duration {
    windlass_lifecycle::Limits::default().settle
}

/// How long a listing by tags is asked again for what the listing without any has already shown.
const FILTERS_CATCH_UP: Duration = Duration::from_secs(5);
/// How often a whole listing is read whose total does not fit: it may have changed meanwhile.
const READINGS: usize = 3;

const LISTED: [(Kind, Fixture); 4] = [
    (Kind::Ip, Fixture::Address),
    (Kind::LocalVolume, Fixture::LocalVolume),
    (Kind::BlockVolume, Fixture::BlockVolume),
    (Kind::Server, Fixture::Server),
];

pub(super) fn listed_within_settle(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let mut late = Vec::new();
        let mut unclear = Vec::new();
        for (kind, fixture) in LISTED {
            let id = bench.fixture(fixture).await?;
            match judged(bench.listed(&id)) {
                Verdict::Holds => {}
                Verdict::Broken { seen } => late.push(format!("{}: {seen}", kind.plural())),
                Verdict::Unknown { why } => unclear.push(format!("{}: {why}", kind.plural())),
            }
        }
        Ok(match (late.is_empty(), unclear.is_empty()) {
            (false, _) => Verdict::broken(late.join("; ")),
            (true, false) => Verdict::Unknown { why: unclear.join("; ") },
            (true, true) => Verdict::Holds,
        })
    }
    .boxed()
}

fn judged(listed: Option<Listed>) -> Verdict {
    let Some(listed) = listed else {
        return Verdict::Unknown { why: "it was not watched".to_owned() };
    };
    let lacking = listed.lacking.unwrap_or_default();
    match listed.seen {
        Some(seen) if seen <= settle() => Verdict::Holds,
        Some(seen) if lacking >= settle() => Verdict::broken(format!(
            "lacking in a look {:.1} s after the answer, there in one after {:.1} s",
            lacking.as_secs_f64(),
            seen.as_secs_f64()
        )),
        None => Verdict::broken(format!("still lacking {:.0} s after the answer", lacking.as_secs_f64())),
        Some(seen) => Verdict::Unknown {
            why: format!("there in a look after {:.1} s; the listing takes too long to tell more", seen.as_secs_f64()),
        },
    }
}

pub(super) fn tag_filter_addresses(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    tag_filter(bench, Kind::Ip, Fixture::Address).boxed()
}

pub(super) fn tag_filter_local_volumes(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    tag_filter(bench, Kind::LocalVolume, Fixture::LocalVolume).boxed()
}

pub(super) fn tag_filter_block_volumes(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    tag_filter(bench, Kind::BlockVolume, Fixture::BlockVolume).boxed()
}

pub(super) fn tag_filter_servers(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    tag_filter(bench, Kind::Server, Fixture::Server).boxed()
}

async fn tag_filter(bench: &mut Bench, kind: Kind, fixture: Fixture) -> Asked {
    let id = listed_fixture(bench, fixture).await?;
    let owner = bench.owner_tag();
    if !finds(bench, kind, &[&owner], None, &id).await? {
        return Ok(Verdict::broken(what_is_found(bench, kind, &id).await?));
    }
    let nobody = bench.nobodys_tag();
    if bench.api.list(kind, &[&nobody], None).await?.holds(&id) {
        return Ok(Verdict::broken("a listing by a tag that nothing carries holds it: the filter is ignored"));
    }
    Ok(Verdict::Holds)
}

/// The fixture, which the listing without a filter must hold: otherwise a filter cannot be asked about.
async fn listed_fixture(bench: &mut Bench, fixture: Fixture) -> Result<String, Stop> {
    let id = bench.fixture(fixture).await?;
    match bench.listed(&id).and_then(|listed| listed.seen) {
        Some(_) => Ok(id),
        None => Err(Stop::unknown("the listing without any filter does not hold it either")),
    }
}

/// Whether a listing by these tags holds it, or comes to hold it in a moment.
async fn finds(bench: &Bench, kind: Kind, tags: &[&str], project: Option<&str>, id: &str) -> Result<bool, Stop> {
    let found = || async move { Ok(bench.api.list(kind, tags, project).await?.holds(id).then_some(())) };
    Ok(bench.api.until(FILTERS_CATCH_UP, found).await?.is_some())
}

/// By what else it can be found, when its tag with `=` does not find it.
async fn what_is_found(bench: &Bench, kind: Kind, id: &str) -> Result<String, Stop> {
    let (owner, plain) = (bench.owner_tag(), bench.plain_tag());
    let project = bench.api.read(kind, id).await?.project().map(str::to_owned);
    let by_plain = bench.api.list(kind, &[&plain], None).await?.holds(id);
    let by_project = match project.as_deref() {
        Some(project) => bench.api.list(kind, &[&owner], Some(project)).await?.holds(id),
        None => false,
    };
    let but = match (by_plain, by_project) {
        (true, true) => "; one by a tag without `=` does, and so does one that names its project",
        (true, false) => "; one by a tag without `=` does",
        (false, true) => "; one that names its project does",
        (false, false) => ", and neither does one by a tag without `=`, nor one that names its project",
    };
    Ok(format!("a listing by its tag `{owner}` does not hold it{but}"))
}

pub(super) fn tag_filter_several(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let mut missing = Vec::new();
        for (kind, fixture) in LISTED {
            if kind == Kind::BlockVolume {
                continue;
            }
            let id = listed_fixture(bench, fixture).await?;
            let tags = bench.tags();
            if finds(bench, kind, &[&tags[0], &tags[1]], None, &id).await? {
                continue;
            }
            if !bench.api.list(kind, &[&tags[0]], None).await?.holds(&id) {
                return Err(Stop::unknown(format!("no listing of {} by one tag holds it either", kind.plural())));
            }
            missing.push(kind.plural());
        }
        Ok(match missing.as_slice() {
            [] => Verdict::Holds,
            kinds => Verdict::broken(format!("found by one tag, not by two of its three: {}", kinds.join(", "))),
        })
    }
    .boxed()
}

pub(super) fn filtered_totals(bench: &mut Bench) -> BoxFuture<'_, Asked> {
    async move {
        let owner = bench.owner_tag();
        let mut wrong = Vec::new();
        for (kind, fixture) in LISTED {
            bench.fixture(fixture).await?;
            for (tags, what) in [(vec![owner.as_str()], "by a tag"), (vec![], "without a filter")] {
                if let Some(seen) = total_problem(bench, kind, &tags).await? {
                    wrong.push(format!("{} {what}: {seen}", kind.plural()));
                }
            }
        }
        Ok(if wrong.is_empty() { Verdict::Holds } else { Verdict::broken(wrong.join("; ")) })
    }
    .boxed()
}

async fn total_problem(bench: &Bench, kind: Kind, tags: &[&str]) -> Result<Option<String>, Stop> {
    let mut problem = None;
    for _ in 0..READINGS {
        problem = mismatch(&bench.api.list(kind, tags, None).await?);
        if problem.is_none() {
            return Ok(None);
        }
    }
    Ok(problem)
}

/// What is wrong with a listing's totals.
fn mismatch(listing: &Listing) -> Option<String> {
    let items = listing.items.len() as u64;
    if listing.totals.is_empty() {
        return Some("no total is given".to_owned());
    }
    let wrong = listing.totals.iter().find(|&&total| total != items)?;
    Some(format!("a total of {wrong}, and {items} items"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(lacking: Option<u64>, seen: Option<u64>) -> Verdict {
        judged(Some(Listed { lacking: lacking.map(Duration::from_millis), seen: seen.map(Duration::from_millis) }))
    }

    #[test]
    fn a_look_that_began_in_time_and_has_it_is_enough_however_long_it_took() {
        assert_eq!(listed(None, Some(0)), Verdict::Holds);
        assert_eq!(listed(Some(1500), Some(2000)), Verdict::Holds);
    }

    #[test]
    fn only_a_look_that_lacks_it_after_the_settle_time_breaks_the_assumption() {
        assert_eq!(listed(Some(2000), Some(4000)).word(), "broken");
        assert_eq!(listed(Some(60_000), None).word(), "broken");
        assert_eq!(listed(Some(1000), Some(9000)).word(), "unknown");
        assert_eq!(judged(None).word(), "unknown");
    }
}
