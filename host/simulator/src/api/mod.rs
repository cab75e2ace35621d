//! The APIs: one file per family, one function per endpoint, and here the table of all paths.

mod apple_silicon;
mod block;
mod endpoint;
mod iam;
mod instance;
mod ipam;
mod marketplace;
mod product_catalog;
mod tag_filter;
mod vpc;

use http::Method;

use crate::answer::Answer;
use crate::behaviour::Behaviour;
use crate::call::Call;
use crate::catalogue::{REGIONS, ZONES};
use crate::refusal::Refusal;
use crate::world::{Ip, World};
use crate::{fault, paging};
use endpoint::Outcome;

/// Sends a call to its API. Authentication has been checked.
pub(crate) fn dispatch(world: &mut World, call: &Call) -> Answer {
    let path = call.path.clone();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    if let Some(refusal) = hidden(world, call, &segments) {
        return refusal.into();
    }
    let mut call = call.clone();
    if call.method == Method::GET {
        distort_total(world, &mut call, &segments);
    }
    let outcome = route(world, &call, &segments).map_err(|refusal| gone(world, &call, &segments, refusal));
    outcome.unwrap_or_else(Answer::from)
}

/// What a key gets that may not see what the path names.
fn hidden(world: &World, call: &Call, segments: &[&str]) -> Option<Refusal> {
    let named = |id: &str| {
        let address = world.ips.get(id).and_then(Ip::v4).map(|address| address.to_string());
        segments.iter().any(|segment| *segment == id || address.as_deref() == Some(*segment))
    };
    let (id, behaviour) = world.behaviours.hidden().find(|(id, _)| named(id))?;
    let (resource, _) = fault::resource(&call.path);
    match behaviour {
        // Apple silicon answers 403 for what is gone, too.
        Behaviour::Unlisted(_) if segments.first() != Some(&"apple-silicon") => Some(Refusal::not_found(resource, id)),
        _ => Some(denied(call, resource)),
    }
}

fn denied(call: &Call, resource: &str) -> Refusal {
    Refusal::permissions_denied(if call.method == Method::GET { "read" } else { "write" }, resource)
}

/// The refusal of an address that is gone, as this Scaleway words it.
fn gone(world: &World, call: &Call, segments: &[&str], refusal: Refusal) -> Refusal {
    let is_address = matches!(segments, ["instance", "v1", "zones", _, "ips", _]);
    if is_address && refusal.is_not_found() && world.behaviours.stands(&Behaviour::GoneForbidden) {
        return denied(call, "instance_ip");
    }
    refusal
}

/// Makes the total of a list as wrong as this Scaleway has it.
fn distort_total(world: &mut World, call: &mut Call, segments: &[&str]) {
    if world.behaviours.stands(&Behaviour::UnfilteredTotal)
        && let Ok(all) = route(world, &call.unfiltered(), segments)
    {
        call.distortion.total = paging::total_of(&all);
    }
    call.distortion.surplus = usize::from(world.behaviours.stands(&Behaviour::TotalOff));
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
        ["product-catalog", "v2alpha1", rest @ ..] => product_catalog::route(world, call, rest),
        ["iam", "v1alpha1", rest @ ..] => iam::route(world, call, rest),
        _ => Err(Refusal::unknown_path()),
    }
}
