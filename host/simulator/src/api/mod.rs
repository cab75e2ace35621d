//! The APIs: one file per family, one function per endpoint, and here the table of all paths.

pub(crate) mod apple_silicon;
mod block;
mod iam;
mod instance;
mod ipam;
mod marketplace;
mod vpc;

use http::Method;

use crate::answer::Answer;
use crate::call::Call;
use crate::catalogue::{REGIONS, ZONES};
use crate::refusal::Refusal;
use crate::world::World;

/// What every endpoint gives back.
pub(crate) type Outcome = Result<Answer, Refusal>;

/// Sends a call to its API. Authentication has been checked.
pub(crate) fn dispatch(world: &mut World, call: &Call) -> Answer {
    let path = call.path.clone();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    route(world, call, &segments).unwrap_or_else(Answer::from)
}

fn route(world: &mut World, call: &Call, segments: &[&str]) -> Outcome {
    match segments {
        ["instance", "v1", "zones", zone, rest @ ..] if ZONES.contains(zone) => instance::v1(world, call, zone, rest),
        ["instance", "v2alpha1", "zones", zone, rest @ ..] if ZONES.contains(zone) => {
            instance::v2alpha1(world, call, zone, rest)
        }
        ["block", "v1" | "v1alpha1", "zones", zone, rest @ ..] if ZONES.contains(zone) => {
            block::route(world, call, zone, rest)
        }
        ["apple-silicon", "v1alpha1", "zones", zone, rest @ ..] if ZONES.contains(zone) => {
            apple_silicon::route(world, call, zone, rest)
        }
        ["ipam", "v1", "regions", region, rest @ ..] if REGIONS.contains(region) => {
            ipam::route(world, call, region, rest)
        }
        ["vpc", "v2", "regions", region, rest @ ..] if REGIONS.contains(region) => {
            vpc::route(world, call, region, rest)
        }
        ["marketplace", "v2", rest @ ..] => marketplace::route(world, call, rest),
        ["iam", "v1alpha1", rest @ ..] => iam::route(world, call, rest),
        _ => Err(Refusal::unknown_path()),
    }
}

/// The method as text, so that a table of paths can match on both.
fn method(call: &Call) -> &str {
    match call.method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "",
    }
}

/// Whether `tags` holds every one of `wanted`.
fn has_all(tags: &[String], wanted: &[&str]) -> bool {
    wanted.iter().all(|wanted| tags.iter().any(|tag| tag == wanted))
}

/// Whether `tags` holds one of `wanted`, or none is wanted.
fn has_any(tags: &[String], wanted: &[&str]) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| tags.iter().any(|tag| tag == wanted))
}

/// Whether a filter is absent or fits.
fn fits(wanted: Option<&str>, actual: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == actual)
}

/// Whether a name filter is absent or part of the name.
fn part_of(wanted: Option<&str>, actual: &str) -> bool {
    wanted.is_none_or(|wanted| actual.contains(wanted))
}

/// Refuses one more of a kind of which `current` exist.
fn within(quota: Option<usize>, resource: &str, current: usize) -> Result<(), Refusal> {
    match quota {
        Some(quota) if current >= quota => Err(Refusal::quota(resource, quota, current)),
        _ => Ok(()),
    }
}
